"""The price bound: linear programming duality for centers anywhere in the plane, in space, ...

Theorem. Give each point a price a_i >= 0. A center at c is worth F(c) = sum_i w_i (a_i -
||x_i - c||^2)_+, what it saves of the prices. With M an upper bound of F over all of space, K
centers save at most K M, so no clustering costs less than sum_i w_i a_i - K M. It holds for any
prices; good ones are sought near a given clustering (`PriceSearch`), and M, the ceiling, is found
by branch and bound, with proof. Rounding: `PricedPoints.payable` and `_prove`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from wolfmeans.bounds.bound import UNIT, LowerBound, Numbers, Report, quiet
from wolfmeans.core.hooks import hook
from wolfmeans.exact import native

# The ceiling is computed with these tolerances, as parts of the bound itself, one after another.
_TOLERANCES = (0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
_OPERATIONS_PER_SECOND = 2e8
# The search: rounds of iterations, places per cluster at first and at most, how many centers too
# few raise a price by its own size at first and at last, and the rate at which masses change.
ROUNDS = 20
ITERATIONS = 100
_FIRST_PLACES, MOST_PLACES = 20, 60
_FIRST_STEP, _LAST_STEP = 0.1, 0.02
_MASS_RATE = 1.5
_MOVES = 20
# Peaks are climbed from places worth this part of the best, or sought everywhere, this exactly.
_HIGH, _PEAK_TOLERANCE = 0.9, 0.004
CEILING_SHARE = 3.0
"""A ceiling during the search may cost this many times as much as the rest of a round."""
# Places closer than this part of a cluster's radius are one.
_SAME = 0.05


@dataclass(frozen=True)
class PricedPoints:
    """The points of positive weight, scaled by powers of two to numbers of at most 1.

    So nothing overflows, what underflows is negligible, and results are scaled back exactly. The
    widest column comes first and rows ascend in it, which lets the search find neighbours.
    """

    X: Numbers
    weights: Numbers
    mass: float
    cap: float
    columns: NDArray[np.intp]
    exponents: tuple[int, int]

    @classmethod
    def of(
        cls, X: NDArray[np.floating], weights: Numbers | None, mass: float | None, cap: float | None
    ) -> PricedPoints | None:
        """Return the points, or None where every bound is 0."""
        if weights is None:
            weights = np.ones(len(X))
        positive = weights > 0
        values = np.asarray(X[positive], dtype=np.float64)
        weights = weights[positive]
        if not len(values) or not np.ptp(values, axis=0).any():
            return None
        of_values = math.frexp(float(np.abs(values).max()))[1]
        of_weights = math.frexp(float(weights.max()))[1]
        columns = np.argsort(-np.ptp(values, axis=0), kind="stable")
        rows = np.argsort(values[:, columns[0]], kind="stable")
        return cls(
            np.ascontiguousarray(np.ldexp(values[rows][:, columns], -of_values)),
            np.ldexp(weights[rows], -of_weights),
            math.inf if mass is None else math.ldexp(mass, -of_weights),
            math.inf if cap is None else math.ldexp(cap, -2 * of_values),
            columns,
            (of_values, of_weights),
        )

    def transform(self, centers: NDArray[np.floating]) -> Numbers:
        """Express centers as these points are."""
        scaled = np.ldexp(np.asarray(centers, dtype=np.float64), -self.exponents[0])
        return np.ascontiguousarray(scaled[:, self.columns])

    def restore(self, value: float) -> float:
        """Scale a sum of squared distances back."""
        return math.ldexp(value, 2 * self.exponents[0] + self.exponents[1])

    def payable(self, prices: Numbers) -> float:
        """Bound from below what the cheapest points of the mass to be kept are priced.

        Rounding: running sums of weights are off by n u relative, and the mass, a difference of
        the total, by u of that; a mass less by a little more is no more than the true one. The
        terms are off by 3 u, their exact sum is rounded once.
        """
        n = len(prices)
        order = np.argsort(prices, kind="stable")
        weights = self.weights[order]
        if self.mass < math.inf:
            kept = self.mass * (1 - (n + 8) * UNIT) - 4 * UNIT * float(weights.sum())
            before = np.concatenate([[0.0], np.cumsum(weights)[:-1]])
            weights = np.clip(kept - before, 0.0, weights)
        return math.fsum((weights * prices[order]).tolist()) * (1 - 8 * UNIT)


def prices(
    X: NDArray[np.floating],
    n_clusters: int,
    weights: Numbers | None = None,
    mass: float | None = None,
    *,
    cap: float | None = None,
    centers: NDArray[np.floating] | None = None,
    n_threads: int = 1,
    seconds: float = 60.0,
    progress: Report | None = None,
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
        Called with the completed fraction and a text.

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
    report = progress or quiet
    budget = seconds * _OPERATIONS_PER_SECOND
    points = PricedPoints.of(X, weights, mass, cap)
    if points is None or n_clusters >= len(points.X):
        return finish(0.0)
    if centers is None:
        report(0.0, "finding a clustering")
        centers = hook("good_centers")(X, n_clusters, weights, mass, n_threads)
    search = PriceSearch(points, n_clusters, points.transform(centers), n_threads)
    if not search.total > 0:
        return finish(0.0)
    best, reached = search.run(budget / 2, report)
    value = _prove(points, n_clusters, best, reached, budget / 2, n_threads, report)
    report(1.0, "done")
    return finish(value)


def _prove(
    points: PricedPoints,
    n_clusters: int,
    prices: Numbers,
    reached: float,
    budget: float,
    n_threads: int,
    report: Report,
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
        report(0.5 + 0.5 * step / len(_TOLERANCES), "proving")
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


class PriceSearch:
    """The search for prices near a clustering. Nothing here needs a proof.

    Prices and the masses of centers at finitely many places are the two sides of a saddle point
    problem (docs/lower-bounds.md): a price rises until one whole center is in its reach, mass flows
    to where centers are worth most, places are added where F has its peaks, and those that neither
    side needs are dropped.
    """

    def __init__(
        self, points: PricedPoints, n_clusters: int, centers: Numbers, n_threads: int
    ) -> None:
        self.points, self.n_clusters, self.n_threads = points, n_clusters, n_threads
        n = len(points.X)
        middle = np.average(points.X, axis=0, weights=points.weights)
        self.X = points.X - middle
        self.centers = centers - middle
        self.labels = np.empty(n, dtype=np.int32)
        nearest, second = np.empty(n), np.empty(n)
        native._native.second_nearest(self.X, self.centers, self.labels, nearest, second, n_threads)
        weights = points.weights
        order = np.argsort(nearest, kind="stable")
        before = np.cumsum(weights[order]) - weights[order]
        self.kept = np.zeros(n, dtype=bool)
        self.kept[order] = before < points.mass
        self.spare = max(0.0, float(weights.sum()) - points.mass)
        self.cap = points.cap
        if self.spare > 0:
            self.cap = min(self.cap, float(nearest[self.kept].max()))
        nearest = np.minimum(nearest, self.cap)
        self.total = float((weights * nearest)[self.kept].sum())
        if not self.total > 0:
            return
        self.unit = math.sqrt(self.total / float(weights[self.kept].sum()))
        self.X /= self.unit
        self.centers /= self.unit
        self.cap /= self.unit**2
        self.total /= self.unit**2
        self.prices = self._first_prices(nearest / self.unit**2, second / self.unit**2)
        sums = self._by_cluster(weights * self.prices)
        masses = self._by_cluster(weights)
        self.scales = np.divide(sums, masses, out=np.zeros(n_clusters), where=masses > 0)
        self.ceiling_is_cheap = True
        self.places = self._first_places()
        self.masses = np.full(len(self.places), n_clusters / len(self.places))

    def _by_cluster(self, values: Numbers) -> Numbers:
        sums: Numbers = np.bincount(self.labels, values, self.n_clusters).astype(np.float64)
        return sums

    def _first_prices(self, nearest: Numbers, second: Numbers) -> Numbers:
        """One price per cluster, within the distances to the nearest two centers.

        Such that all centers are worth the same. The worth is what -d(SSE)/dK would be if the SSE
        were proportional to K^(-2/d), as it is for evenly spread points.
        """
        weights = self.points.weights * self.kept
        worth = 2 * self.total / (self.points.X.shape[1] * self.n_clusters)
        masses = np.maximum(self._by_cluster(weights), 1e-300)
        farthest = np.zeros(self.n_clusters)
        np.maximum.at(farthest, self.labels, nearest * self.kept)
        low, high = np.zeros(self.n_clusters), farthest + worth / masses
        most = np.minimum(second, self.cap)
        for _ in range(60):
            level = (low + high) / 2
            gains = np.clip(level[self.labels], nearest, most) - nearest
            short = self._by_cluster(weights * gains) < worth
            low, high = np.where(short, level, low), np.where(short, high, level)
        first: Numbers = np.clip(high[self.labels], nearest, most)
        return first

    def _first_places(self) -> Numbers:
        """The centers, and some points of each cluster."""
        draw = np.random.default_rng(0).random(len(self.X))
        order = np.lexsort((draw, self.labels))
        order = order[self.kept[order]]
        sizes = np.bincount(self.labels[order], minlength=self.n_clusters)
        rank = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[self.labels[order]]
        places = np.concatenate([self.centers, self.X[order[rank < _FIRST_PLACES - 1]]])
        return places[np.argsort(places[:, 0], kind="stable")]

    def run(self, budget: float, report: Report) -> tuple[Numbers, float]:
        """Return the best prices found, and what the best center is worth at them."""
        best, best_value, reached = self.prices.copy(), -math.inf, 0.0
        stale = 0
        for number in range(ROUNDS + 1):
            report(0.5 * number / (ROUNDS + 1), "searching for prices")
            if number == 0:
                average = best
                worth = self._climb(average, self.places, 0)[1]
            else:
                average, worth = self._settle(number - 1)
            # Prices whose peaks are all known are to be trusted more than those of early rounds.
            everywhere = number % 3 == 0 or number > ROUNDS // 3
            peaks, heights = self._peaks(average, worth, everywhere)
            highest = float(heights.max(initial=0.0))
            value = self.points.payable(average) - self.n_clusters * highest
            stale = stale + 1 if value <= best_value * (1 + 1e-4) and everywhere else 0
            if value > best_value and (everywhere or not self.ceiling_is_cheap):
                best, best_value, reached = average, value, highest
            budget -= self._round_cost()
            if best_value >= 0.9995 * self.total or stale >= 6 or not (highest > 0 and budget > 0):
                break
            self._renew(peaks[heights >= 0.95 * worth.max()], worth)
        return np.minimum(best * self.unit**2, self.points.cap), reached * self.unit**2

    def _round_cost(self) -> float:
        n, d = self.X.shape
        visits = ITERATIONS * len(self.places) / self.n_clusters
        return float(n * (visits + 0.3 * d * len(self.places)))

    def _settle(self, number: int) -> tuple[Numbers, Numbers]:
        part = _FIRST_STEP * (_LAST_STEP / _FIRST_STEP) ** (number / (ROUNDS - 1))
        average, worth = np.empty(len(self.X)), np.empty(len(self.places))
        self.cap = native._native.settle(
            self.X,
            self.points.weights,
            part * self.scales[self.labels],
            self.places,
            float(self.n_clusters),
            self.spare,
            self.cap,
            self.prices,
            self.masses,
            average,
            worth,
            ITERATIONS,
            _MASS_RATE,
            self.n_threads,
        )
        return average, worth

    def _peaks(self, prices: Numbers, worth: Numbers, everywhere: bool) -> tuple[Numbers, Numbers]:
        """Return the highest peaks of F that can be found, and their heights."""
        starts = self.places[worth >= _HIGH * worth.max()]
        peaks, heights = self._climb(prices, starts, _MOVES)
        # Climbing misses peaks that no place is near; the ceiling misses none.
        if everywhere and self.ceiling_is_cheap:
            enough = float(heights.max()) * (1 + _PEAK_TOLERANCE)
            _, _, _, abandoned, missed = native._native.ceiling(
                self.X,
                self.points.weights,
                prices,
                enough,
                _PEAK_TOLERANCE,
                CEILING_SHARE * self._round_cost(),
                self.n_threads,
            )
            self.ceiling_is_cheap = not abandoned
            # What threads find before they give up is random, and so is their order.
            if len(missed) and not abandoned:
                missed = np.ascontiguousarray(missed[np.lexsort(missed.T)])
                more, higher = self._climb(prices, missed, _MOVES)
                peaks, heights = np.concatenate([peaks, more]), np.concatenate([heights, higher])
        return peaks, heights

    def _climb(self, prices: Numbers, places: Numbers, moves: int) -> tuple[Numbers, Numbers]:
        places, worth = places.copy(), np.empty(len(places))
        native._native.climb(
            self.X, self.points.weights, prices, places, moves, worth, self.n_threads
        )
        return places, worth

    def _renew(self, peaks: Numbers, worth: Numbers) -> None:
        """Add the peaks to the places, merge what is close, and drop what is least needed."""
        little = 0.02 * self.n_clusters / len(self.places)
        places = np.concatenate([self.places, peaks])
        masses = np.concatenate([self.masses, np.full(len(peaks), little)])
        worth = np.concatenate([worth, np.full(len(peaks), worth.max())])
        near = np.empty(len(places), dtype=np.int32)
        native._native.assign(places, self.centers, near, np.empty(len(places)), self.n_threads)
        grain = _SAME * np.sqrt(np.maximum(self.scales[near], 1e-300))
        cells = np.column_stack([np.floor(places / grain[:, None]), near])
        _, cell = np.unique(cells, axis=0, return_inverse=True)
        cell = cell.reshape(-1)
        # The heaviest place of a cell stands for all of it.
        first = np.lexsort((-masses, cell))
        first = first[np.concatenate([[True], np.diff(cell[first]) > 0])]
        masses = np.bincount(cell, masses)
        places, worth = places[first], worth[first]
        need = np.log(masses) + 30 * worth / worth.max()
        most = max(MOST_PLACES * self.n_clusters, 400)
        kept = np.argsort(-need, kind="stable")[:most]
        kept = kept[np.argsort(places[kept, 0], kind="stable")]
        self.places = np.ascontiguousarray(places[kept])
        self.masses = masses[kept] * (self.n_clusters / masses[kept].sum())
