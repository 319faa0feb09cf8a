"""Good prices for the price bound, by steps towards a saddle point. Nothing here needs a proof.

Prices and the masses of centers at finitely many places are the two sides of a saddle point problem
(docs/lower-bounds.md): a price rises until one whole center is in its reach, mass flows to where
centers are worth most, and places are added where a center would be worth more than at all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from wolfmeans.bounds.priced_points import PricedPoints, Values
from wolfmeans.exact import native

Progress = Callable[[float, str], object]

# The search: rounds of iterations, places per cluster at first and at most, how many centers too
# few raise a price by its own size at first and at last, and the pace of the masses.
_ROUNDS = 20
_ITERATIONS = 100
_FIRST_PLACES, _MOST_PLACES = 20, 60
_FIRST_STEP, _LAST_STEP = 0.1, 0.02
_PACE = 1.5
_MOVES = 20
# Peaks are looked for from places worth this part of the best, and everywhere to this tolerance.
_HIGH, _LOOK = 0.9, 0.004
# Looking everywhere may cost so many times as much as the rest of a round.
_LOOKING = 3.0
# Places closer than this part of a cluster's radius are one.
_SAME = 0.05


def search_cost(n: int, d: int, n_clusters: int) -> tuple[float, float]:
    """Return roughly how many multiplications the search takes, and how many a ceiling.

    The search visits some _MOST_PLACES places per point and iteration. The work of a ceiling grows
    like a power of d, for evenly spread data as measured; clustered data take less.
    """
    steps = _ROUNDS * n * (_ITERATIONS * _MOST_PLACES + 0.3 * _MOST_PLACES * n_clusters * d)
    ceiling = n * 30.0 * 20.0 ** (d - 1)
    return steps + min(_ROUNDS * ceiling, _LOOKING * steps), ceiling


class PriceSearch:
    """The search for prices near a clustering. Nothing it does can make the bound wrong.

    Prices and masses of centers at places are the two sides of a saddle point problem; places are
    added where F has its peaks, and those that neither side needs are dropped.
    """

    def __init__(
        self, points: PricedPoints, n_clusters: int, centers: Values, n_threads: int
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

    def _by_cluster(self, values: Values) -> Values:
        sums: Values = np.bincount(self.labels, values, self.n_clusters).astype(np.float64)
        return sums

    def _first_prices(self, nearest: Values, second: Values) -> Values:
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
        first: Values = np.clip(high[self.labels], nearest, most)
        return first

    def _first_places(self) -> Values:
        """The centers, and some points of each cluster."""
        draw = np.random.default_rng(0).random(len(self.X))
        order = np.lexsort((draw, self.labels))
        order = order[self.kept[order]]
        sizes = np.bincount(self.labels[order], minlength=self.n_clusters)
        rank = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[self.labels[order]]
        places = np.concatenate([self.centers, self.X[order[rank < _FIRST_PLACES - 1]]])
        return places[np.argsort(places[:, 0], kind="stable")]

    def run(self, budget: float, tell: Progress) -> tuple[Values, float]:
        """Return the best prices found, and what the best center is worth at them."""
        best, best_value, reached = self.prices.copy(), -math.inf, 0.0
        stale = 0
        for number in range(_ROUNDS + 1):
            tell(0.5 * number / (_ROUNDS + 1), "looking for prices")
            if number == 0:
                average = best
                worth = self._climb(average, self.places, 0)[1]
            else:
                average, worth = self._settle(number - 1)
            # Prices whose peaks are all known are to be trusted more than those of early rounds.
            looked = number % 3 == 0 or number > _ROUNDS // 3
            peaks, heights = self._peaks(average, worth, looked)
            highest = float(heights.max(initial=0.0))
            value = self.points.payable(average) - self.n_clusters * highest
            stale = stale + 1 if value <= best_value * (1 + 1e-4) and looked else 0
            if value > best_value and (looked or not self.ceiling_is_cheap):
                best, best_value, reached = average, value, highest
            budget -= self._round_cost()
            if best_value >= 0.9995 * self.total or stale >= 6 or not (highest > 0 and budget > 0):
                break
            self._renew(peaks[heights >= 0.95 * worth.max()], worth)
        return np.minimum(best * self.unit**2, self.points.cap), reached * self.unit**2

    def _round_cost(self) -> float:
        n, d = self.X.shape
        visits = _ITERATIONS * len(self.places) / self.n_clusters
        return float(n * (visits + 0.3 * d * len(self.places)))

    def _settle(self, number: int) -> tuple[Values, Values]:
        part = _FIRST_STEP * (_LAST_STEP / _FIRST_STEP) ** (number / (_ROUNDS - 1))
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
            _ITERATIONS,
            _PACE,
            self.n_threads,
        )
        return average, worth

    def _peaks(self, prices: Values, worth: Values, everywhere: bool) -> tuple[Values, Values]:
        """Return the highest peaks of F that can be found, and their heights."""
        starts = self.places[worth >= _HIGH * worth.max()]
        peaks, heights = self._climb(prices, starts, _MOVES)
        # Climbing misses peaks that no place is near; the ceiling misses none.
        if everywhere and self.ceiling_is_cheap:
            enough = float(heights.max()) * (1 + _LOOK)
            _, _, _, abandoned, missed = native._native.ceiling(
                self.X,
                self.points.weights,
                prices,
                enough,
                _LOOK,
                _LOOKING * self._round_cost(),
                self.n_threads,
            )
            self.ceiling_is_cheap = not abandoned
            # What threads find before they give up is a matter of chance, and so is their order.
            if len(missed) and not abandoned:
                missed = np.ascontiguousarray(missed[np.lexsort(missed.T)])
                more, higher = self._climb(prices, missed, _MOVES)
                peaks, heights = np.concatenate([peaks, more]), np.concatenate([heights, higher])
        return peaks, heights

    def _climb(self, prices: Values, places: Values, moves: int) -> tuple[Values, Values]:
        places, worth = places.copy(), np.empty(len(places))
        native._native.climb(
            self.X, self.points.weights, prices, places, moves, worth, self.n_threads
        )
        return places, worth

    def _renew(self, peaks: Values, worth: Values) -> None:
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
        most = max(_MOST_PLACES * self.n_clusters, 400)
        kept = np.argsort(-need, kind="stable")[:most]
        kept = kept[np.argsort(places[kept, 0], kind="stable")]
        self.places = np.ascontiguousarray(places[kept])
        self.masses = masses[kept] * (self.n_clusters / masses[kept].sum())
