"""The neighbours bound: a cluster's SSE as a sum over pairs, and every point's nearest pairs.

Theorem. Let the kept weights v_i <= w_i form at most K clusters; A(i) is the cluster of i and W_i
its kept weight. Then the SSE is sum_i v_i [1/2 sum_{j in A(i)} v_j d2_ij] / W_i. The inner sum is
at least that of the nearest points up to weight W_i, and sum_i v_i / W_i is the number of clusters
that are not empty. So for every lambda >= 0, with the roots r_i(lambda) of `roots.py`,

    SSE >= sum_i v_i r_i(lambda) - lambda K.

Untrimmed v = w. Trimmed to mass h: W <= h in the roots and the smallest r_i up to mass h, which is
the largest over c of sum_i w_i min(r_i, c) - c (total - h). Penalized (a point may be left out at
the price c per unit of weight): sum_i w_i min(r_i, c) - lambda K.

Any lambda gives a bound; the right-hand side is concave in lambda, so that a search on few rows
first and on all of them in the end finds a good one. O(n^2 (d + c)) time, O(n d) memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.lower_bounds.bound import (
    UNIT,
    LowerBound,
    Report,
    below,
    quiet,
    times_up,
)
from wolfmeans.lower_bounds.roots import Numbers, Roots, open_roots

# Prices of the first, coarse grid: each a quarter of the next.
_COARSE = 44
# The last grid is repeated, about its best price, at most so many times.
_LAST_LOOKS = 4
_ROWS_AT_ONCE = 4096
_BLOCK_ENTRIES = 1 << 20


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
        """Return the bound for each price, and its cap, as some rows suggest them."""
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
        return sums - lambdas * self.n_clusters, caps

    def value(self, roots: Numbers, price: float, cap: float) -> float:
        """Return the bound from the roots of all rows, rounded down.

        The products are rounded once each, their sum once.
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
    n_threads: int = 1,
    progress: Report | None = None,
) -> LowerBound:
    """Bound the SSE through each point's nearest neighbours.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Admitted data.
    n_clusters : int
        K.
    weights : ndarray of shape (n,) or None
        At least 0, not all 0.
    mass : float or None
        The weight that is kept; None for all.
    cap : float or None
        The price of leaving out a unit of weight; None where none may be. Not with `mass`.
    n_threads : int
        At most so many threads.
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
    X, weights = heavy_points(X, weights)
    given = np.ones(X.shape[0]) if weights is None else weights
    problem = Problem(given, n_clusters, *_limits(given, mass, cap))
    # Rounded up, since a larger W allows smaller roots.
    heaviest = math.inf if mass is None else mass * (1.0 + UNIT * 4.0)
    roots = open_roots(X, weights, heaviest, n_threads)
    value = _search(roots, problem, farthest(X), progress or quiet)
    return LowerBound(value, "neighbours", 1.0, perf_counter() - started)


def heavy_points(X: Any, weights: Numbers | None) -> tuple[Any, Numbers | None]:
    """Return the points of positive weight, and the weights unless all are 1."""
    if weights is None:
        return X, None
    heavy = weights > 0
    if not heavy.all():
        X, weights = X[heavy], weights[heavy]
    return X, None if (weights == 1.0).all() else weights


def _limits(weights: Numbers, mass: float | None, cap: float | None) -> tuple[float, float]:
    if mass is not None:
        # The sum of the weights is rounded once and so is the difference.
        total = math.fsum(weights)
        left_out = (total - mass) + 4.0 * UNIT * total if total > mass else 0.0
        return left_out, math.inf
    return 0.0, math.inf if cap is None else cap


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


def _search(roots: Roots, problem: Problem, far: float, report: Report) -> float:
    """Look for the best price on few rows, then on more, then on all; bound with it."""
    if not far > 0:
        return 0.0
    n = len(problem.weights)
    best, guess = coarse_price(roots, problem, far)
    report(0.05, "neighbours: looking for a price")
    for n_rows, step, reach in ((256, 0.25, 4), (max(512, n // 8), 0.0625, 6)):
        rows = spread(n, n_rows)
        lambdas = grid(best, step, reach)
        found = roots(rows, lambdas, guess)
        best, guess = best_price(problem, found, lambdas, rows)[:2]
    report(0.15, "neighbours: all rows")
    return _all_rows(roots, problem, best, guess, report)


def coarse_price(roots: Roots, problem: Problem, far: float) -> tuple[float, float]:
    """Return a price within a factor of four or so of the best, and about its largest root."""
    rows = spread(len(problem.weights), 64)
    # With a price above this every point would take all others.
    top = far * float(problem.weights.sum())
    lambdas = top * 4.0 ** np.arange(1.0 - _COARSE, 1.0)
    found = roots(rows, lambdas, far)
    return best_price(problem, found, lambdas, rows)[:2]


def spread(n: int, count: int) -> NDArray[np.int64]:
    """Return about `count` rows, evenly spread."""
    return np.unique(np.linspace(0, n - 1, min(n, count)).astype(np.int64))


def grid(center: float, step: float, reach: int) -> Numbers:
    """Return 2 reach + 1 prices about a center, apart by a factor of 2**step."""
    return np.asarray(center * 2.0 ** (step * np.arange(-reach, reach + 1)))


def best_price(
    problem: Problem, roots: Numbers, lambdas: Numbers, rows: NDArray[np.int64]
) -> tuple[float, float, int, float]:
    """Return the best price, a guess at the next roots, the price's place and its cap."""
    values, caps = problem.estimates(roots, lambdas, rows)
    place = int(np.argmax(values))
    # Larger than most roots: a row whose root is larger is looked at twice.
    guess = 1.2 * float(np.quantile(roots[:, min(place + 1, len(lambdas) - 1)], 0.9))
    return float(lambdas[place]), guess, place, float(caps[place])


def _all_rows(roots: Roots, problem: Problem, price: float, guess: float, report: Report) -> float:
    """Return the best bound near the price, from all rows."""
    n = len(problem.weights)
    rows = np.arange(n)
    value = 0.0
    # A small problem can afford to end with the best price to three digits.
    steps = [0.03] * _LAST_LOOKS if n > 2048 else [0.03] * _LAST_LOOKS + [0.008, 0.002]
    edge = False
    for look, step in enumerate(steps):
        if 0 < look < _LAST_LOOKS and not edge:
            continue
        lambdas = grid(price, step, 4)
        found = np.empty((n, len(lambdas)))
        for start in range(0, n, _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            found[part] = roots(rows[part], lambdas, guess)
            report(min(1.0, 0.15 + 0.85 * (start + _ROWS_AT_ONCE) / n), "neighbours: all rows")
        price, guess, place, cap = best_price(problem, found, lambdas, rows)
        value = max(value, problem.value(found[:, place], price, cap))
        edge = place in (0, len(lambdas) - 1)
    return value
