"""The native module, and arrays as native code and validation need them.

Blocks from a network and mapped files may have arrays at odd addresses. `np.ascontiguousarray` lets
them pass; `aligned` copies them.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

ROWS_LOOKED_AT = 256
"""About how many rows a sample has."""
EXACT_INTEGERS = 2**53
"""float64 holds all integers up to this, and not all beyond."""
_MANY = 1 << 20

_native: Any
try:
    _native = import_module("wolfmeans.exact._native")
except ImportError:
    _native = None


def native_is_available() -> bool:
    """Whether the native module was built and can be loaded."""
    return _native is not None


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


def exponents_between(smallest: float, largest: float) -> tuple[int, int] | None:
    """Return the exponents of the smallest nonzero and the largest magnitude; None if all are 0."""
    if largest == 0.0:
        return None
    return math.frexp(smallest)[1], math.frexp(largest)[1]


def sampling_step(n_rows: int) -> int:
    """Return the step between rows of an evenly spaced sample of some hundred rows."""
    return max(1, n_rows // ROWS_LOOKED_AT)


def value_range(values: NDArray[np.floating], n_threads: int = 1) -> tuple[bool, float, float]:
    """Return whether all values are finite, the smallest nonzero magnitude and the largest.

    In native code where it is there; the fallback makes copies of a block at a time.
    """
    flat = aligned(values).reshape(-1)
    if native_is_available():
        finite, smallest, largest = _native.value_range(flat, n_threads)
        return bool(finite), float(smallest), float(largest)
    smallest, largest = math.inf, 0.0
    for start in range(0, flat.size, _MANY):
        magnitude = np.abs(flat[start : start + _MANY])
        if not np.isfinite(magnitude).all():
            return False, 0.0, math.inf
        largest = max(largest, float(magnitude.max()))
        smallest = min(smallest, float(magnitude.min(where=magnitude > 0, initial=math.inf)))
    return True, 0.0 if largest == 0 else smallest, largest


def digest(centers: NDArray[np.floating]) -> bytes:
    """Return 16 bytes that identify the centers."""
    whole = aligned(centers)
    if native_is_available():
        short: bytes = _native.digest(whole)
        return short
    return blake2b(whole.data, digest_size=16).digest()
