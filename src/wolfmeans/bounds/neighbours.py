"""The neighbours bound: a cluster's SSE as a sum over pairs, and every point's nearest pairs.

Theorem. Let the kept weights v_i <= w_i form at most K clusters; A(i) is the cluster of i and W_i
its kept weight. Then the SSE is sum_i v_i [1/2 sum_{j in A(i)} v_j d2_ij] / W_i. The inner sum is
at least that of the nearest points up to weight W_i, and sum_i v_i / W_i is the number of clusters
that are not empty. So for every lambda >= 0

    SSE >= sum_i v_i r_i(lambda) - lambda K,

where the root r_i(lambda) is the least that one unit of weight at i pays, lambda being the price of
a cluster: with all points ordered by their distance from i,

    r_i(lambda) = min over W of [1/2 (sum of w_j d2_ij over the nearest j, up to weight W)
                                 + lambda] / W.

Untrimmed v = w. Trimmed to mass h: W <= h in the roots and the smallest r_i up to mass h, which is
the largest over c of sum_i w_i min(r_i, c) - c (total - h). Penalized (a point may be left out at
the price c per unit of weight): sum_i w_i min(r_i, c) - lambda K.

Clusters whose weight is within known limits: only such W count in the roots.

Any lambda gives a bound; the right-hand side is concave in lambda, so that a search on few rows
first and on all of them in the end finds a good one. O(n^2 (d + c)) time, O(n d) memory.

Roots. r_i is the root r of sum_j w_j (r - d2_ij / 2)_+ = lambda. The ratio of the points with
d2_ij < 2 r is above the root for any r and, taken as the next r, falls to it in a few steps.
Rounding: native/lower_bounds/neighbours.hpp; `roots_of_distances` does the same in NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.bounds.bound import (
    UNIT,
    LowerBound,
    Numbers,
    Report,
    below,
    heaviest_cluster,
    positive_points,
    quiet,
    times_up,
    total_weight,
    weight_left_out,
)
from wolfmeans.exact.native import _native, aligned, native_is_available

Roots = Callable[[NDArray[np.int64], Numbers, float], Numbers]
"""Called with m rows, g ascending prices lambda and a guess at the size of the roots, which saves
time if good. Returns (m, g) lower bounds on the roots, tight to rounding."""

# Prices of the first, coarse grid: each a quarter of the next.
_COARSE = 44
# Of prices whose bounds are this much of the best, at each level, the lowest will do.
_ENOUGH = (0.99, 0.999, 0.9999)
# A grid whose best price is at its edge by less than this share is good enough for many points.
_GAIN, _SMALL_GAIN = 3e-4, 1e-6
# Prices of the last grid are apart by the factor 2**_STEP; in small problems by less.
_STEP = 0.06
_SMALL = 2048
_MOST_GRIDS = 12
# Points of the small problem that finds a price.
_FEW_POINTS, _SOME_POINTS = 1500, 6000
_ROWS_AT_ONCE = 4096
# With more points, their distances are not sorted for the least size of clusters.
_MOST_SORTED = 5000
# Entries of X, or distances, held at a time.
_BLOCK_ENTRIES = 1 << 20
# Sparse data with this many entries or fewer is worked on as dense.
_DENSE_ENTRIES = 1 << 23


@dataclass(frozen=True)
class Problem:
    """Which K-means problem is bounded: plain, trimmed to a mass, or penalized at a cap."""

    weights: Numbers
    n_clusters: int
    left_out: float = 0.0
    """At most the weight that may be left out, rounded up."""
    cap: float = math.inf
    """The price of leaving out a unit of weight."""

    def estimates(
        self, roots: Numbers, lambdas: Numbers, rows: NDArray[np.int64]
    ) -> tuple[Numbers, Numbers]:
        """Return the bound for each price, and its cap, as estimated from some rows."""
        weights = self.weights[rows]
        scale = float(self.weights.sum()) / float(weights.sum())
        caps = np.full(len(lambdas), self.cap)
        if self.left_out > 0:
            order = np.argsort(roots, axis=0)
            sorted_weights = np.cumsum(weights[order], axis=0)
            kept = sorted_weights[-1] - self.left_out / scale
            place = np.minimum((sorted_weights < kept).sum(axis=0), len(rows) - 1)
            caps = roots[order[place, np.arange(len(lambdas))], np.arange(len(lambdas))]
        sums = scale * (weights @ np.minimum(roots, caps))
        if self.left_out > 0:
            sums -= caps * self.left_out
        # The highest prices of very large data may be too much for float64, and are no good.
        with np.errstate(over="ignore"):
            return sums - lambdas * self.n_clusters, caps

    def value(self, roots: Numbers, price: float, cap: float) -> float:
        """Return the bound from the roots of all rows, rounded down.

        The products are rounded once each, their sum once. With the last factor that
        makes 3 u of the 4 u. The fourth would cover the products that are taken off as well (they
        are less than the total where the value is positive); they are rounded up all the same.
        """
        total = math.fsum(self.weights * np.minimum(roots, cap)) * (1.0 - 4.0 * UNIT)
        left_out = times_up(cap, self.left_out) if self.left_out > 0 else 0.0
        return below(total, -left_out, -times_up(price, self.n_clusters))


def neighbours(
    X: Any,
    n_clusters: int,
    weights: Numbers | None = None,
    mass: float | None = None,
    cap: float | None = None,
    *,
    sizes: tuple[float, float] | None = None,
    n_threads: int = 1,
    progress: Report | None = None,
) -> LowerBound:
    """Bound the SSE through each point's nearest neighbours.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Validated data.
    n_clusters : int
        K.
    weights : ndarray of shape (n,) or None
        At least 0, not all 0.
    mass : float or None
        The weight that is kept; None for all.
    cap : float or None
        The price of leaving out a unit of weight; None where none may be. Not with `mass`.
    sizes : tuple of two floats or None
        The least and the largest weight that a cluster may have; None for any.
    n_threads : int
        Maximum number of threads.
    progress : callable or None
        Called with the fraction done and a text.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> round(neighbours(X, 2).value, 6)
    1.0
    """
    started = perf_counter()
    if mass is not None and cap is not None:
        raise ValueError("either the mass that is kept or a cap can be given, not both")
    X, weights = positive_points(X, weights)
    given = np.ones(X.shape[0]) if weights is None else weights
    total = total_weight(X.shape[0], weights)
    left_out = weight_left_out(total, mass)
    problem = Problem(given, n_clusters, left_out, math.inf if cap is None else cap)
    heaviest = heaviest_cluster(total, mass)
    lightest = 0.0
    if sizes is not None:
        lightest, heaviest = sizes[0], min(heaviest, sizes[1])
    far, report = farthest(X), progress or quiet
    value = 0.0
    if far > 0:
        price, guess = _price_of_some(X, problem, heaviest, far, n_threads)
        report(0.1, "neighbours: all rows")
        roots = open_roots(X, weights, heaviest, n_threads)
        if lightest > 0 and X.shape[0] <= _MOST_SORTED and not sparse.issparse(X):
            roots = _at_least(roots, X, given, lightest)
        value = _search(roots, problem, price, guess, report)
    return LowerBound(value, "neighbours", 1.0, perf_counter() - started)


def farthest(X: Any) -> float:
    """Return about the largest squared distance there can be between two points; 0 if none."""
    first = X[[0]].toarray() if sparse.issparse(X) else X[:1]
    first = first.astype(np.float64)
    largest = 0.0
    at_once = max(1, _BLOCK_ENTRIES // X.shape[1])
    for start in range(0, X.shape[0], at_once):
        block = X[start : start + at_once]
        block = block.toarray() if sparse.issparse(block) else block
        largest = max(largest, float(((block - first) ** 2).sum(axis=1).max()))
    return 4.0 * largest


def _price_of_some(
    X: Any, problem: Problem, heaviest: float, far: float, n_threads: int
) -> tuple[float, float]:
    """Return a price and likely roots for all points, from some of them."""
    n = X.shape[0]
    m = min(n, points_for_a_price(problem.n_clusters))
    some = np.sort(np.random.RandomState(0).permutation(n)[:m])
    weights = problem.weights[some]
    share = float(weights.sum()) / float(problem.weights.sum())
    part = Problem(weights, problem.n_clusters, problem.left_out * share, problem.cap)
    price, guess = price_of(X[some], part, heaviest * share, far, n_threads)
    return price / share, guess


def points_for_a_price(n_clusters: int) -> int:
    """Return how many points a small problem needs to show good prices."""
    return min(max(_FEW_POINTS, 20 * n_clusters), _SOME_POINTS)


def price_of(
    X: Any, problem: Problem, heaviest: float, far: float, n_threads: int
) -> tuple[float, float]:
    """Return a good price for a small problem, and a number above most of its roots.

    Where many prices are as good, it is the lowest, at which sums are smallest.
    """
    roots = open_roots(X, problem.weights, heaviest, n_threads)
    rows = np.arange(X.shape[0])
    # At the highest of these every point takes all others.
    lambdas = far * float(problem.weights.sum()) * 4.0 ** np.arange(1.0 - _COARSE, 1.0)
    guess = far
    for enough, step in zip(_ENOUGH, (0.5, 0.125, 0.0), strict=True):
        found = roots(rows, lambdas, guess)
        values, _ = problem.estimates(found, lambdas, rows)
        place = int(np.argmax(values >= enough * values.max()))
        guess = likely_root(found, place)
        price = float(lambdas[place])
        lambdas = grid(price, step, 4)
    return price, guess


def grid(center: float, step: float, reach: int) -> Numbers:
    """Return 2 reach + 1 prices about a center, apart by a factor of 2**step."""
    return np.asarray(center * 2.0 ** (step * np.arange(-reach, reach + 1)))


def likely_root(roots: Numbers, place: int) -> float:
    """Return a number above most roots at about this price.

    Rows with larger ones are computed twice.
    """
    return 1.2 * float(np.quantile(roots[:, min(place + 1, roots.shape[1] - 1)], 0.9))


def _search(roots: Roots, problem: Problem, price: float, guess: float, report: Report) -> float:
    """Return the best bound from all rows; the grid follows its best price until it is inside."""
    n = len(problem.weights)
    rows = np.arange(n)
    value, step = 0.0, _STEP
    finest, gain = (_STEP, _GAIN) if n > _SMALL else (_STEP / 16, _SMALL_GAIN)
    for number in range(_MOST_GRIDS):
        lambdas = grid(price, step, 3)
        found = np.empty((n, len(lambdas)))
        for start in range(0, n, _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            found[part] = roots(rows[part], lambdas, guess)
            if number == 0:
                report(0.1 + 0.8 * min(1.0, part.stop / n), "neighbours: all rows")
        values, caps = problem.estimates(found, lambdas, rows)
        place = int(np.argmax(values))
        price, guess = float(lambdas[place]), likely_root(found, place)
        value = max(value, problem.value(found[:, place], price, float(caps[place])))
        # On a plateau the grid stays.
        rise = values[place] - values[len(lambdas) // 2]
        if place in (0, len(lambdas) - 1) and rise > gain * values[place]:
            step = min(4.0 * step, 2.0)
        elif step <= finest:
            break
        else:
            step /= 4.0
    report(1.0, "neighbours: done")
    return value


def open_roots(X: Any, weights: Numbers | None, heaviest: float, n_threads: int) -> Roots:
    """Prepare points of positive weight; no W may exceed `heaviest`."""
    n, d = X.shape
    if sparse.issparse(X) and n * d <= _DENSE_ENTRIES:
        X = X.toarray()
    native = native_is_available()
    if native and not sparse.issparse(X):
        points = _native.Neighbours.open(aligned(X), weights)

        def roots_of_points(rows: NDArray[np.int64], lambdas: Numbers, guess: float) -> Numbers:
            roots = np.empty((len(rows), len(lambdas)))
            points.roots(rows, lambdas, heaviest, guess, roots, n_threads)
            # The distances may be above the exact ones by this factor, and so may the roots.
            roots *= 1.0 - (d + 4.0) * UNIT
            return roots

        return roots_of_points

    distances_from = _sparse_distances(X) if sparse.issparse(X) else _dense_distances(X)

    def roots_in_blocks(rows: NDArray[np.int64], lambdas: Numbers, guess: float) -> Numbers:
        roots = np.empty((len(rows), len(lambdas)))
        at_once = max(1, _BLOCK_ENTRIES // n)
        for start in range(0, len(rows), at_once):
            block = slice(start, start + at_once)
            distances = distances_from(rows[block])
            if native:
                _native.roots_of_distances(
                    distances, weights, lambdas, heaviest, guess, roots[block], n_threads
                )
            else:
                roots[block] = roots_of_distances(distances, weights, lambdas, heaviest)
        return roots

    return roots_in_blocks


def _at_least(roots: Roots, X: NDArray[np.floating], weights: Numbers, lightest: float) -> Roots:
    """Return the roots over W >= lightest only.

    The ratio falls with W until half of the distance of the next point exceeds it, then it rises.
    Where it rises at W = lightest already, the ratio there is the root; its computed value has a
    relative error of at most eta, as the others (native/lower_bounds/neighbours.hpp).
    """
    distances_from, eta = _dense_distances(X), (2.0 * len(X) + 16.0) * UNIT
    half_sums, half_last = np.empty(len(X)), np.empty(len(X))
    at_once = max(1, _BLOCK_ENTRIES // len(X))
    for start in range(0, len(X), at_once):
        block = np.arange(start, min(start + at_once, len(X)))
        distances = distances_from(block)
        order = np.argsort(distances, axis=1, kind="stable")
        near, mass = np.take_along_axis(distances, order, axis=1), weights[order]
        parts = np.clip(lightest - (np.cumsum(mass, axis=1) - mass), 0.0, mass)
        half_sums[block] = 0.5 * (parts * near).sum(axis=1)
        half_last[block] = 0.5 * np.where(parts > 0, near, 0.0).max(axis=1)

    def restricted(rows: NDArray[np.int64], lambdas: Numbers, guess: float) -> Numbers:
        found = roots(rows, lambdas, guess)
        ratio = (half_sums[rows, None] + lambdas) / lightest
        rises = half_last[rows, None] >= ratio * (1.0 + 4.0 * eta)
        return np.where(rises, np.maximum(found, ratio * (1.0 - 4.0 * eta)), found)

    return restricted


def _dense_distances(X: NDArray[np.floating]) -> Callable[[NDArray[np.int64]], Numbers]:
    """Squared distances from some rows to all points, never above the exact ones.

    Computed by differences, with a relative error of at most (d + 3) u.
    """
    columns = np.ascontiguousarray(X.T, dtype=np.float64)

    def distances_from(rows: NDArray[np.int64]) -> Numbers:
        distances = np.zeros((len(rows), len(X)))
        for column in columns:
            distances += (column[rows, None] - column[None, :]) ** 2
        distances *= 1.0 - (len(columns) + 4.0) * UNIT
        return distances

    return distances_from


def _sparse_distances(X: Any) -> Callable[[NDArray[np.int64]], Numbers]:
    """The same for sparse rows: by scalar products, less their error.

    With at most L entries in a row, each scalar product and square is off by at most (L + 2) u
    times |x_i| |x_j| <= (|x_i|^2 + |x_j|^2) / 2; with the last three roundings that makes
    (2 L + 12) u (|x_i|^2 + |x_j|^2), which is taken off.
    """
    X = sparse.csr_array(X, dtype=np.float64)
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    longest = int(np.diff(X.indptr).max(initial=0))
    slack = (2.0 * longest + 12.0) * UNIT

    def distances_from(rows: NDArray[np.int64]) -> Numbers:
        size = squares[rows, None] + squares[None, :]
        distances: Numbers = size - 2.0 * (X[rows] @ X.T).toarray()
        distances -= slack * size
        np.maximum(distances, 0.0, out=distances)
        distances[np.arange(len(rows)), rows] = 0.0
        return distances

    return distances_from


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
