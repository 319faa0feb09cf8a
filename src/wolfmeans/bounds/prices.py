"""The price bound: linear programming duality for centers anywhere in the plane, in space, ...

Give each point a price a_i >= 0. A center at c is worth F(c) = sum_i w_i (a_i - ||x_i - c||^2)_+,
what it saves of the prices. With M an upper bound of F over all of space, K centers save at most
K M, so no clustering costs less than sum_i w_i a_i - K M. It holds for any prices; good ones are
sought near a given clustering, and M is found by branch and bound, with proof.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from wolfmeans.bounds.bound import UNIT, LowerBound
from wolfmeans.bounds.price_search import PriceSearch, Progress, search_cost
from wolfmeans.bounds.priced_points import PricedPoints, Values
from wolfmeans.core.hooks import hook
from wolfmeans.exact import native

# The ceiling is looked for with these tolerances, as parts of the bound itself, one after another.
_TOLERANCES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
_OPERATIONS_PER_SECOND = 2e8


def predicted_cost(n: int, d: int, n_clusters: int) -> float:
    """Return roughly how many multiplications `prices` takes at most, if nothing limits it."""
    search, ceiling = search_cost(n, d, n_clusters)
    return search + ceiling


def prices(
    X: NDArray[np.floating],
    n_clusters: int,
    weights: Values | None = None,
    mass: float | None = None,
    *,
    cap: float | None = None,
    centers: NDArray[np.floating] | None = None,
    n_threads: int = 1,
    seconds: float = 60.0,
    progress: Progress | None = None,
) -> LowerBound:
    """Bound the SSE by prices that centers anywhere can undercut only so far.

    Meant for few columns (up to 4, or more where clusters are apart). Without the native module
    it is 0.

    Parameters
    ----------
    X : array of shape (n, d), float32 or float64, C-contiguous, finite
    n_clusters : int
    weights : array of shape (n,), float64, optional
        Not negative.
    mass : float, optional
        The mass that is kept, for trimmed K-means; all by default.
    cap : float, optional
        Bound the sum of w_i min(D_i, cap) instead, where no point costs more than cap.
    centers : array of shape (n_clusters, d), optional
        Those of a good clustering: the better it is, the better the bound. Found here by default.
    n_threads : int
        Changes nothing but the time.
    seconds : float
        How much to spend, in seconds of a common processor core; turned into a number of
        operations, so that the result does not depend on the clock.
    progress : callable, optional
        Told the finished part, from 0 to 1, and what is being done.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> bound = prices(X, 5)
    >>> bound.kind, bound.confidence
    ('prices', 1.0)
    """
    started = perf_counter()

    def finish(value: float) -> LowerBound:
        return LowerBound(value, "prices", 1.0, perf_counter() - started)

    if not native.native_is_available():
        return finish(0.0)
    tell = progress or _silence
    budget = seconds * _OPERATIONS_PER_SECOND
    points = PricedPoints.admit(X, weights, mass, cap)
    if points is None or n_clusters >= len(points.X):
        return finish(0.0)
    if centers is None:
        tell(0.0, "finding a clustering")
        centers = hook("good_centers")(X, n_clusters, weights, mass, n_threads)
    search = PriceSearch(points, n_clusters, points.transform(centers), n_threads)
    if not search.total > 0:
        return finish(0.0)
    best, reached = search.run(budget / 2, tell)
    value = _prove(points, n_clusters, best, reached, budget / 2, n_threads, tell)
    tell(1.0, "done")
    return finish(value)


def _silence(fraction: float, text: str) -> None:
    pass


def _prove(
    points: PricedPoints,
    n_clusters: int,
    prices: Values,
    reached: float,
    budget: float,
    n_threads: int,
    tell: Progress,
) -> float:
    """Return the bound that the prices give, or 0; some center is worth about `reached`.

    Rounding: payable is below the truth and the ceiling above it, whatever they are made of; the
    two operations after them are off by u times their operands each.
    """
    payable = points.payable(prices)
    relevant = prices > 0
    X = np.ascontiguousarray(points.X[relevant])
    weights, prices = points.weights[relevant], prices[relevant]
    if not relevant.any():
        return 0.0
    # A center on a point saves that point's price.
    reached = max(reached, float((weights * prices).max()))
    if payable < (1 - 1e-9) * n_clusters * reached:
        return 0.0
    value = 0.0
    for step, part in enumerate(_TOLERANCES):
        tell(0.5 + 0.5 * step / len(_TOLERANCES), "proving")
        expected = max(payable - n_clusters * reached, 1e-6 * payable)
        tolerance = min(part * expected / (n_clusters * reached), 1.0)
        upper, higher, work, abandoned, _ = native._native.ceiling(
            X, weights, prices, reached * (1 + tolerance), tolerance, budget, n_threads
        )
        if abandoned:
            break
        reached = max(reached, higher)
        bound = payable - n_clusters * upper
        bound -= 4 * UNIT * (payable + n_clusters * upper)
        value = max(value, bound)
        budget -= work
        if budget < 4 * work:
            break
    return points.restore(value)
