"""Arrays as native code and validation need them: aligned, of numbers, of known magnitude.

Parts that came over a network, or files that are mapped, have arrays at odd addresses, and
`np.ascontiguousarray` lets them pass.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

ROWS_LOOKED_AT = 256
"""About how many rows a sample has."""


EXACT_INTEGERS = 2**53
"""float64 holds all integers up to this, and not all beyond."""


def working_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the dtype in which numbers are clustered; only native single precision is kept.

    Half precision becomes single, which holds all its numbers; everything else double.

    Examples
    --------
    >>> [str(working_dtype(dtype)) for dtype in ("float16", ">f4", "int8", "float64")]
    ['float32', 'float64', 'float64', 'float64']
    """
    return np.dtype(np.float32 if np.dtype(dtype) in (np.float16, np.float32) else np.float64)


def aligned(array: Any, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Return a C-contiguous array at an address that fits its entries, a copy only if it must be.

    Examples
    --------
    >>> odd = np.zeros(17, dtype=np.uint8)[1:].view(np.float64)
    >>> odd.flags.aligned, aligned(odd).flags.aligned
    (False, True)
    """
    found = np.ascontiguousarray(array, dtype=dtype)
    return found if found.flags.aligned else found.copy()


def holds_texts(values: NDArray[Any]) -> bool:
    """Whether some values are texts, which NumPy takes for the numbers that they look like.

    Examples
    --------
    >>> import numpy as np
    >>> holds_texts(np.array(["1", "2"])), holds_texts(np.array([1, 2], dtype=object))
    (True, False)
    """
    if values.dtype.kind == "O":
        return any(isinstance(value, (str, bytes)) for value in values.flat)
    return values.dtype.kind in "UST"


class Sizes(NamedTuple):
    """The smallest nonzero magnitude in some data, and the largest; 0 where all are 0."""

    smallest: float
    largest: float


def sampling_step(n_rows: int) -> int:
    """Return the step between rows of an evenly spaced sample of some hundred rows."""
    return max(1, n_rows // ROWS_LOOKED_AT)
