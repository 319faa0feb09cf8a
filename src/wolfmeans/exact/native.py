"""The native module, and what it computes of whole arrays."""

from __future__ import annotations

import math
from hashlib import blake2b
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.exact.arrays import aligned

_MANY = 1 << 20

_native: Any
try:
    _native = import_module("wolfmeans.exact._native")
except ImportError:
    _native = None


def native_is_available() -> bool:
    """Whether the native module was built and can be loaded."""
    return _native is not None


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
    """Return 16 bytes that stand for the centers."""
    whole = aligned(centers)
    if native_is_available():
        short: bytes = _native.digest(whole)
        return short
    return blake2b(whole.data, digest_size=16).digest()
