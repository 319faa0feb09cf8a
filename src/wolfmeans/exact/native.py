"""The native module: arrays as it needs them, and its answers about rows that need no labels.

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

from wolfmeans.exact.ordering import lexicographic_order

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
# CSR rows taken one by one; SciPy's own way costs as much as some dozen of them before it starts.
_FEW_ROWS = 32

_native: Any
try:
    _native = import_module("wolfmeans.exact._native")
except ImportError:
    _native = None


def native_is_available() -> bool:
    """Whether the native module was built and can be loaded."""
    return _native is not None


def rows_below(
    hashes: NDArray[np.uint64], key: int, limits: NDArray[np.float64], n_threads: int
) -> NDArray[np.int64]:
    """Return the rows whose uniforms are below the limits of their buckets (native/seeding)."""
    rows = np.empty(len(hashes), dtype=np.int64)
    return rows[: _native.rows_below(aligned(hashes), key, aligned(limits), rows, n_threads)]


def bucket_masses(
    hashes: NDArray[np.uint64],
    masses: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
    shift: int,
    bits: int,
    n_threads: int,
) -> NDArray[np.int64]:
    """Return the (2**bits,) sums of scaled masses by the highest bits of the hash."""
    sums = np.empty(1 << bits, dtype=np.int64)
    weights = None if weights is None else aligned(weights)
    _native.bucket_masses(aligned(hashes), aligned(masses), weights, shift, sums, n_threads)
    return sums


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
    """What native code knows of dense rows without labels: distances, their order, draws."""

    dense = True

    def __init__(self, X: NDArray[np.floating], n_threads: int) -> None:
        self.X = aligned(X)
        self.n_threads = n_threads

    def with_threads(self, n_threads: int) -> NativeKernels:
        """Return the same for another number of threads."""
        return NativeKernels(self.X, n_threads)

    def of(self, rows: NDArray[np.int64]) -> NativeKernels:
        """Return the same for some of the rows."""
        return NativeKernels(self.X[rows], self.n_threads)

    def points(
        self, weights: NDArray[np.float64] | None, algorithm: str, ranges: Any = None
    ) -> Any:
        """Return native points, which will have labels, bounds and exact moments."""
        kind = _native.PointsF32 if self.X.dtype == np.float32 else _native.PointsF64
        return kind(self.X, weights, self.n_threads, algorithm, ranges)

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return the lowest nearest center of each point and its canonical distance."""
        labels = np.empty(len(self.X), dtype=np.int32)
        distances = np.empty(len(self.X))
        _native.assign(self.X, aligned(centers), labels, distances, self.n_threads)
        return labels, distances

    def second_nearest(self, centers: Centers) -> tuple[Distances, Distances]:
        """Return the smallest and the second smallest canonical distance of each point."""
        labels = np.empty(len(self.X), dtype=np.int32)
        nearest, second = np.empty(len(self.X)), np.empty(len(self.X))
        _native.second_nearest(self.X, aligned(centers), labels, nearest, second, self.n_threads)
        return nearest, second

    def distances(self, centers: Centers, labels: Labels) -> Distances:
        """Return the canonical distance of each point to the center of its label."""
        distances = np.empty(len(self.X))
        _native.distances(self.X, aligned(centers), labels, distances, self.n_threads)
        return distances

    def cost(self, centers: Centers, labels: Labels, weights: NDArray[np.float64] | None) -> float:
        """Return the exact sum of w D to the centers of the labels, without an array of them."""
        return float(_native.cost(self.X, weights, aligned(centers), labels, self.n_threads))

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) Euclidean distances to all centers, in the centers' dtype."""
        roots = np.empty((len(self.X), len(centers)), dtype=centers.dtype)
        _native.roots(self.X, aligned(centers), roots, self.n_threads)
        return roots

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return some of the rows."""
        return aligned(self.X[indices])

    def order(self) -> NDArray[np.int64]:
        """Return the rows in an order that depends on their values alone (exact.ordering)."""
        order = np.empty(len(self.X), dtype=np.int64)
        _native.lexicographic_order(self.X, order, self.n_threads)
        return order

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row, equal for equal values (exact.hashing)."""
        hashes = np.empty(len(self.X), dtype=np.uint64)
        _native.row_hashes(self.X, hashes, self.n_threads)
        return hashes

    def spread_rows(
        self,
        weights: NDArray[np.float64] | None,
        order: NDArray[np.int64],
        drawn: NDArray[np.int64],
        n_trials: int,
    ) -> NDArray[np.int64] | None:
        """Return the rows that k-means++ picks (native/seeding); None where sums have no room."""
        rows = np.empty(1 + (len(drawn) - 1) // n_trials, dtype=np.int64)
        found = _native.kmeans_plus_plus(
            self.X, weights, order, drawn, n_trials, rows, self.n_threads
        )
        return None if found < 0 else rows[:found]


class SparseNativeKernels:
    """The same of CSR rows (native/sparse)."""

    dense = False

    def __init__(self, X: Any, n_threads: int, stored: Any = None) -> None:
        self.X, self.n_threads = X, n_threads
        self._n: int = X.shape[0]
        if stored is None:
            kind = _native.SparseRowsF32 if X.dtype == np.float32 else _native.SparseRowsF64
            stored = kind(
                aligned(X.data),
                aligned(X.indices, dtype=np.int32),
                aligned(X.indptr, dtype=np.int64),
                X.shape[1],
                n_threads,
            )
        self._stored: Any = stored

    def with_threads(self, n_threads: int) -> SparseNativeKernels:
        """Return the same for another number of threads."""
        return SparseNativeKernels(self.X, n_threads, self._stored)

    def of(self, rows: NDArray[np.int64]) -> SparseNativeKernels:
        """Return the same for some of the rows."""
        return SparseNativeKernels(self.X[rows], self.n_threads)

    def points(
        self, weights: NDArray[np.float64] | None, algorithm: str, ranges: Any = None
    ) -> Any:
        """Return native points, which will have labels, bounds and exact moments."""
        single = self.X.dtype == np.float32
        kind = _native.SparsePointsF32 if single else _native.SparsePointsF64
        return kind(self._stored, weights, self.n_threads)

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return the lowest nearest center of each point and its canonical distance."""
        labels, nearest = np.empty(self._n, dtype=np.int32), np.empty(self._n)
        self._stored.nearest(aligned(centers), labels, nearest, None, self.n_threads)
        return labels, nearest

    def second_nearest(self, centers: Centers) -> tuple[Distances, Distances]:
        """Return the smallest and the second smallest canonical distance of each point."""
        labels = np.empty(self._n, dtype=np.int32)
        nearest, second = np.empty(self._n), np.empty(self._n)
        self._stored.nearest(aligned(centers), labels, nearest, second, self.n_threads)
        return nearest, second

    def distances(self, centers: Centers, labels: Labels) -> Distances:
        """Return the canonical distance of each point to the center of its label."""
        distances = np.empty(self._n)
        self._stored.distances(aligned(centers), labels, distances, self.n_threads)
        return distances

    def cost(self, centers: Centers, labels: Labels, weights: NDArray[np.float64] | None) -> float:
        """Return the exact sum of w D to the centers of the labels."""
        distances = self.distances(centers, labels)
        terms = distances if weights is None else weights * distances
        return float(_native.weighted_sum(None, terms, self.n_threads))

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) Euclidean distances to all centers, in the centers' dtype."""
        roots = np.empty((self._n, len(centers)), dtype=centers.dtype)
        first = np.zeros(self._n, dtype=np.int32)
        with np.errstate(under="ignore"):
            for k in range(len(centers)):
                roots[:, k] = np.sqrt(self.distances(centers[k : k + 1], first))
        return roots

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return some of the rows, dense."""
        if len(indices) > _FEW_ROWS:
            return aligned(self.X[indices].toarray())
        dense = np.zeros((len(indices), self.X.shape[1]), dtype=self.X.dtype)
        for place, row in enumerate(indices.tolist()):
            entries = slice(self.X.indptr[row], self.X.indptr[row + 1])
            dense[place, self.X.indices[entries]] = self.X.data[entries]
        return dense

    def order(self) -> NDArray[np.int64]:
        """Return the rows in an order that depends on their values alone (exact.ordering)."""
        return lexicographic_order(self.X)

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row, equal for equal values (exact.hashing)."""
        hashes = np.empty(self._n, dtype=np.uint64)
        self._stored.hashes(hashes, self.n_threads)
        return hashes

    def spread_rows(
        self,
        weights: NDArray[np.float64] | None,
        order: NDArray[np.int64],
        drawn: NDArray[np.int64],
        n_trials: int,
    ) -> NDArray[np.int64] | None:
        """Return None: k-means++ follows its specification."""
        return None
