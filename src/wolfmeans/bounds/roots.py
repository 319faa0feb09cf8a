"""The roots of the neighbours bound: what one unit of weight at a point pays at least.

For a point i and a price lambda of a cluster, with all points ordered by their distance from i,

    r_i(lambda) = min over W of [1/2 (sum of w_j d2_ij over the nearest j, up to weight W)
                                 + lambda] / W,

which is the root r of sum_j w_j (r - d2_ij / 2)_+ = lambda. The ratio of the points with
d2_ij < 2 r is above the root for any r and, taken as the next r, falls to it in a few steps.
Rounding: native/lower_bounds/neighbours.hpp. Here are the drivers of the native code, and the same
in NumPy.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.bounds.bound import UNIT
from wolfmeans.exact.arrays import aligned
from wolfmeans.exact.native import _native, native_is_available

Numbers = NDArray[np.float64]

# Sparse data with this many entries or fewer is worked on as dense.
_DENSE_ENTRIES = 1 << 23
# Distances held at a time where they are held at all.
_BLOCK_ENTRIES = 1 << 20


class Roots(Protocol):
    """Lower bounds on the roots of some rows, tight to rounding."""

    def __call__(self, rows: NDArray[np.int64], lambdas: Numbers, guess: float) -> Numbers:
        """Return (m, g) roots; lambdas ascend; a good guess at their size saves time."""


def open_roots(X: Any, weights: Numbers | None, heaviest: float, n_threads: int) -> Roots:
    """Prepare points of positive weight; no W may exceed `heaviest`."""
    if sparse.issparse(X):
        if X.shape[0] * X.shape[1] > _DENSE_ENTRIES:
            return _RootsInBlocks(_SparseDistances(X), weights, heaviest, n_threads)
        X = X.toarray()
    if native_is_available():
        return _NativeRoots(aligned(X), weights, heaviest, n_threads)
    return _RootsInBlocks(_DenseDistances(X), weights, heaviest, n_threads)


class _NativeRoots:
    def __init__(
        self, X: NDArray[np.floating], weights: Numbers | None, heaviest: float, n_threads: int
    ) -> None:
        self._points = _native.Neighbours.open(X, weights)
        self._heaviest = heaviest
        self._n_threads = n_threads
        # The distances may be larger than the exact ones by this factor, and so may the roots.
        self._shrink = 1.0 - (X.shape[1] + 4.0) * UNIT

    def __call__(self, rows: NDArray[np.int64], lambdas: Numbers, guess: float) -> Numbers:
        roots = np.empty((len(rows), len(lambdas)))
        self._points.roots(rows, lambdas, self._heaviest, guess, roots, self._n_threads)
        roots *= self._shrink
        return roots


class _Distances(Protocol):
    """Squared distances from some rows to all points, never above the exact ones."""

    n_points: int

    def __call__(self, rows: NDArray[np.int64]) -> Numbers: ...


class _DenseDistances:
    """By differences: a relative error of at most (d + 3) u."""

    def __init__(self, X: NDArray[np.floating]) -> None:
        self.n_points = len(X)
        self._columns = np.ascontiguousarray(X.T, dtype=np.float64)

    def __call__(self, rows: NDArray[np.int64]) -> Numbers:
        distances = np.zeros((len(rows), self.n_points))
        for column in self._columns:
            distances += (column[rows, None] - column[None, :]) ** 2
        distances *= 1.0 - (len(self._columns) + 4.0) * UNIT
        return distances


class _SparseDistances:
    """By scalar products, less their error.

    With at most L entries in a row, each scalar product and square is off by at most (L + 2) u
    times |x_i| |x_j| <= (|x_i|^2 + |x_j|^2) / 2; with the last three roundings that makes
    (2 L + 12) u (|x_i|^2 + |x_j|^2), which is taken off.
    """

    def __init__(self, X: Any) -> None:
        self.n_points = X.shape[0]
        self._X = sparse.csr_array(X, dtype=np.float64)
        self._squares = np.asarray(self._X.multiply(self._X).sum(axis=1)).ravel()
        longest = int(np.diff(self._X.indptr).max(initial=0))
        self._slack = (2.0 * longest + 12.0) * UNIT

    def __call__(self, rows: NDArray[np.int64]) -> Numbers:
        size = self._squares[rows, None] + self._squares[None, :]
        distances: Numbers = size - 2.0 * (self._X[rows] @ self._X.T).toarray()
        distances -= self._slack * size
        np.maximum(distances, 0.0, out=distances)
        distances[np.arange(len(rows)), rows] = 0.0
        return distances


class _RootsInBlocks:
    """Roots from blocks of distances."""

    def __init__(
        self, distances: _Distances, weights: Numbers | None, heaviest: float, n_threads: int
    ) -> None:
        self._distances = distances
        self._weights = weights
        self._heaviest = heaviest
        self._n_threads = n_threads

    def __call__(self, rows: NDArray[np.int64], lambdas: Numbers, guess: float) -> Numbers:
        roots = np.empty((len(rows), len(lambdas)))
        at_once = max(1, _BLOCK_ENTRIES // self._distances.n_points)
        for start in range(0, len(rows), at_once):
            block = slice(start, start + at_once)
            distances = self._distances(rows[block])
            if native_is_available():
                _native.roots_of_distances(
                    distances,
                    self._weights,
                    lambdas,
                    self._heaviest,
                    guess,
                    roots[block],
                    self._n_threads,
                )
            else:
                roots[block] = roots_of_distances(distances, self._weights, lambdas, self._heaviest)
        return roots


def roots_of_distances(
    distances: Numbers, weights: Numbers | None, lambdas: Numbers, heaviest: float
) -> Numbers:
    """Return (m, g) lower bounds on the roots from (m, n) squared distances, in NumPy."""
    m, n = distances.shape
    weights = np.ones(n) if weights is None else weights
    eta = (2.0 * n + 16.0) * UNIT
    roots = np.empty((m, len(lambdas)))
    # The ratio of all points is above the root, as that of any is.
    start = (0.5 * (distances @ weights) + lambdas[-1]) / weights.sum()
    for g in range(len(lambdas) - 1, -1, -1):
        open_rows, r = np.arange(m), start.copy()
        while len(open_rows):
            rho = r[open_rows] * (1.0 - 4.0 * eta)
            near = np.where(distances[open_rows] < 2.0 * rho[:, None], weights, 0.0)
            weight = near.sum(axis=1)
            ratio = (0.5 * np.einsum("ij,ij->i", near, distances[open_rows]) + lambdas[g]) / weight
            done = ratio >= rho * (1.0 + 2.0 * eta)
            roots[open_rows[done], g] = rho[done]
            for row in open_rows[done & (weight > heaviest)]:
                at_most = _ratio_at(distances[row], weights, heaviest, float(lambdas[g]))
                roots[row, g] = at_most * (1.0 - 2.0 * eta)
            r[open_rows] = np.where(done, r[open_rows], ratio)
            open_rows = open_rows[~done]
        start = r
    return roots


def _ratio_at(distances: Numbers, weights: Numbers, heaviest: float, price: float) -> float:
    """Return the ratio at W = heaviest, the last point in part."""
    order = np.argsort(distances, kind="stable")
    before = np.cumsum(weights[order]) - weights[order]
    parts = np.clip(heaviest - before, 0.0, weights[order])
    return float((0.5 * (parts @ distances[order]) + price) / heaviest)
