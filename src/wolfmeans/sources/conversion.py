"""From numbers of any kind to float32 or float64, by the rules of the door."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from wolfmeans.columns import refuse_large

_MANY_COLUMNS = 32
_ROWS = 1024
"""With many columns so many rows at once stay in a cache while columns become rows."""


def float_of(dtype: DTypeLike) -> np.dtype[Any]:
    """Return the dtype in which numbers are clustered.

    Examples
    --------
    >>> [str(float_of(dtype)) for dtype in ("float16", ">f4", "int8", "float64")]
    ['float32', 'float32', 'float64', 'float64']
    """
    given = np.dtype(dtype)
    short = given.kind == "f" and given.itemsize <= 4
    return np.dtype(np.float32 if short else np.float64)


def is_real(dtype: np.dtype[Any]) -> bool:
    """Whether entries of such an array are real numbers."""
    return dtype.kind in "fiub"


def put(numbers: NDArray[Any], out: NDArray[np.floating], where: str) -> None:
    """Write numbers into an array of their shape; refuse integers that it cannot hold exactly."""
    if numbers.dtype.kind in "iu" and numbers.dtype.itemsize == 8 and numbers.size:
        refuse_large(max(abs(int(numbers.min())), int(numbers.max())), where)
    with np.errstate(over="ignore"):  # infinite then, and refused as such
        if numbers.ndim == 1 or numbers.flags.c_contiguous or numbers.shape[1] < _MANY_COLUMNS:
            np.copyto(out, numbers, casting="unsafe")
            return
        for begin in range(0, len(numbers), _ROWS):
            few = slice(begin, begin + _ROWS)
            np.copyto(out[few], numbers[few], casting="unsafe")
