"""The native module: arrays as it needs them, and its canonical distances.

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

Centers = NDArray[np.floating]
"""(K, d) in the centers' dtype: float32 for float32 data, float64 otherwise."""
Labels = NDArray[np.int32]
"""(n,) one label per point."""
Distances = NDArray[np.float64]
"""(n,) canonical squared distances."""


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


class NativeKernels:
    """Canonical distances between dense rows and centers (native/assignment)."""

    def __init__(self, X: NDArray[np.floating], n_threads: int) -> None:
        self._X = X
        self._n_threads = n_threads

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return the lowest nearest center of each point and its canonical distance."""
        labels = np.empty(len(self._X), dtype=np.int32)
        distances = np.empty(len(self._X))
        _native.assign(self._X, aligned(centers), labels, distances, self._n_threads)
        return labels, distances

    def second_nearest(self, centers: Centers) -> tuple[Distances, Distances]:
        """Return the smallest and the second smallest canonical distance of each point."""
        labels = np.empty(len(self._X), dtype=np.int32)
        nearest, second = np.empty(len(self._X)), np.empty(len(self._X))
        _native.second_nearest(self._X, aligned(centers), labels, nearest, second, self._n_threads)
        return nearest, second

    def distances(self, centers: Centers, labels: Labels) -> Distances:
        """Return the canonical distance of each point to the center of its label."""
        distances = np.empty(len(self._X))
        _native.distances(self._X, aligned(centers), labels, distances, self._n_threads)
        return distances

    def cost(self, centers: Centers, labels: Labels, weights: NDArray[np.float64] | None) -> float:
        """Return the exact sum of w D to the centers of the labels, without an array of them."""
        return float(_native.cost(self._X, weights, aligned(centers), labels, self._n_threads))

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) Euclidean distances to all centers, in the centers' dtype."""
        roots = np.empty((len(self._X), len(centers)), dtype=centers.dtype)
        _native.roots(self._X, aligned(centers), roots, self._n_threads)
        return roots

    def of(self, rows: NDArray[np.int64]) -> NativeKernels:
        """Return the same for some of the rows."""
        return NativeKernels(self._X[rows], self._n_threads)


class SparseNativeKernels:
    """Canonical distances between CSR rows and dense centers (native/sparse)."""

    def __init__(self, X: Any, n_threads: int) -> None:
        kind = _native.SparseRowsF32 if X.dtype == np.float32 else _native.SparseRowsF64
        self.rows: Any = kind(
            aligned(X.data),
            aligned(X.indices, dtype=np.int32),
            aligned(X.indptr, dtype=np.int64),
            X.shape[1],
            n_threads,
        )
        self._X = X
        self._n: int = X.shape[0]
        self._n_threads = n_threads

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return the lowest nearest center of each point and its canonical distance."""
        labels, nearest = np.empty(self._n, dtype=np.int32), np.empty(self._n)
        centers = aligned(centers)
        self.rows.nearest(centers, labels, nearest, None, self._n_threads)
        return labels, nearest

    def second_nearest(self, centers: Centers) -> tuple[Distances, Distances]:
        """Return the smallest and the second smallest canonical distance of each point."""
        labels = np.empty(self._n, dtype=np.int32)
        nearest, second = np.empty(self._n), np.empty(self._n)
        centers = aligned(centers)
        self.rows.nearest(centers, labels, nearest, second, self._n_threads)
        return nearest, second

    def distances(self, centers: Centers, labels: Labels) -> Distances:
        """Return the canonical distance of each point to the center of its label."""
        distances = np.empty(self._n)
        self.rows.distances(aligned(centers), labels, distances, self._n_threads)
        return distances

    def of(self, rows: NDArray[np.int64]) -> SparseNativeKernels:
        """Return the same for some of the rows."""
        return SparseNativeKernels(self._X[rows], self._n_threads)
