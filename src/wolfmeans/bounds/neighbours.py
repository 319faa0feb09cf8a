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

from wolfmeans.bounds.bound import UNIT, LowerBound, Report, below, quiet, times_up
from wolfmeans.bounds.roots import Numbers, Roots, open_roots

# Prices of the first, coarse grid: each a quarter of the next.
_COARSE = 44
# Of prices whose bounds are this much of the best, at each level, the lowest will do.
_ENOUGH = (0.99, 0.999, 0.9999)
# A grid whose best price is at its edge by less than this share is good enough for many points.
_GAIN, _SMALL_GAIN = 3e-4, 1e-6
# Prices of the last grid are apart by the factor 2**_STEP; in small problems by less.
_STEP = 0.06
_SMALL = 2048
_MOST_LOOKS = 12
# Points that are looked at to find a price.
_FEW_POINTS, _SOME_POINTS = 1500, 6000
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
    total = math.fsum(given)
    left_out = left_out_of(total, mass)
    problem = Problem(given, n_clusters, left_out, math.inf if cap is None else cap)
    heaviest = heaviest_of(total, mass)
    far, report = farthest(X), progress or quiet
    value = 0.0
    if far > 0:
        price, guess = _price_of_some(X, problem, heaviest, far, n_threads)
        report(0.1, "neighbours: all rows")
        roots = open_roots(X, weights, heaviest, n_threads)
        value = _search(roots, problem, price, guess, report)
    return LowerBound(value, "neighbours", 1.0, perf_counter() - started)


def heavy_points(X: Any, weights: Numbers | None) -> tuple[Any, Numbers | None]:
    """Return the points of positive weight, and the weights unless all are 1."""
    if weights is None:
        return X, None
    heavy = weights > 0
    if not heavy.all():
        X, weights = X[heavy], weights[heavy]
    return X, None if (weights == 1.0).all() else weights


def left_out_of(total: float, mass: float | None) -> float:
    """Return the weight outside the mass that is kept, rounded up.

    Total and mass are rounded once each, so that even equal ones may differ in truth.
    """
    return 0.0 if mass is None else max(0.0, total - mass) + 4.0 * UNIT * total


def heaviest_of(total: float, mass: float | None) -> float:
    """Return the largest weight of a cluster, rounded up: a larger one allows smaller roots."""
    return math.inf if mass is None else mass + 4.0 * UNIT * total


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
    """Return the price and likely roots of a part of the points, for the whole."""
    n = X.shape[0]
    m = min(n, points_for_a_price(problem.n_clusters))
    some = np.sort(np.random.RandomState(0).permutation(n)[:m])
    weights = problem.weights[some]
    share = float(weights.sum()) / float(problem.weights.sum())
    part = Problem(weights, problem.n_clusters, problem.left_out * share, problem.cap)
    price, guess = price_of(X[some], part, heaviest * share, far, n_threads)
    return price / share, guess


def points_for_a_price(n_clusters: int) -> int:
    """Return of how many points a problem must consist to show what prices are like."""
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

    Rows with larger ones are looked at twice.
    """
    return 1.2 * float(np.quantile(roots[:, min(place + 1, roots.shape[1] - 1)], 0.9))


def _search(roots: Roots, problem: Problem, price: float, guess: float, report: Report) -> float:
    """Return the best bound from all rows; the grid follows its best price until it is inside."""
    n = len(problem.weights)
    rows = np.arange(n)
    value, step = 0.0, _STEP
    finest, gain = (_STEP, _GAIN) if n > _SMALL else (_STEP / 16, _SMALL_GAIN)
    for look in range(_MOST_LOOKS):
        lambdas = grid(price, step, 3)
        found = np.empty((n, len(lambdas)))
        for start in range(0, n, _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            found[part] = roots(rows[part], lambdas, guess)
            if look == 0:
                report(0.1 + 0.8 * min(1.0, part.stop / n), "neighbours: all rows")
        values, caps = problem.estimates(found, lambdas, rows)
        place = int(np.argmax(values))
        price, guess = float(lambdas[place]), likely_root(found, place)
        value = max(value, problem.value(found[:, place], price, float(caps[place])))
        # A plateau is no reason to walk on.
        rise = values[place] - values[len(lambdas) // 2]
        if place in (0, len(lambdas) - 1) and rise > gain * values[place]:
            step = min(4.0 * step, 2.0)
        elif step <= finest:
            break
        else:
            step /= 4.0
    report(1.0, "neighbours: done")
    return value
