"""Hartigan's method: single points change their cluster until none can with a gain.

The specification. A move of x, of weight w, from cluster A to B lowers f, the objective with
rounded centers, by

    w (D_A - D_B) + sum over k in {A, B} of W'_k sum_j (c'_kj - c_kj)(2 mean'_kj - c_kj - c'_kj),

primes for after the move. It is taken when this exceeds its own rounding error, so f falls with
every move and the search ends.

A *sweep* looks, at the centers it begins with, for rows that may gain by some move (`may_gain`),
then takes these in their order. For each it tries the clusters that may gain at the centers by
then, in the order of W_B / (W_B + w) D_B, the lowest index first among equals, until a move is
taken. The search ends with a sweep that takes none. An empty cluster costs a point nothing: its
center may be any point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.workspace import Centers, Distances, Labels
from wolfmeans.exact.distances import UNIT
from wolfmeans.exact.sums import exact_sum

if TYPE_CHECKING:
    from wolfmeans.engines.moments import Moments
    from wolfmeans.exact.distances import Kernels

_ROWS_AT_ONCE = 256


class SingleMoves(Protocol):
    """A search by single moves. It begins at labels, whose means are the first centers."""

    labels: Labels
    centers: Centers
    moves: int
    """How many moves were taken."""
    sweeps: int
    """How many sweeps have begun; the last one may not have ended, and proves nothing then."""
    tied: bool
    """Whether, in the last sweep, a move would have changed f by no more than rounding."""

    @property
    def decrease(self) -> float:
        """The exact sum of what they gained, rounded once."""

    def run(self, seconds: float, sweeps: int) -> bool:
        """Sweep until no move lowers the cost, then return True.

        Return False when the time is over or so many more sweeps have begun and ended. With 0 more
        a sweep that was cut off is ended. The time is looked at between rows that are tried, not
        while a sweep looks for these rows.
        """


@dataclass
class Clusters:
    """All clusters, or one of them, for bounds on what a move may gain."""

    weights: NDArray[np.float64]
    """W_k, rounded once."""
    off: NDArray[np.float64]
    """At least || mean_k - c_k ||."""

    @property
    def slack(self) -> NDArray[np.float64]:
        """An upper bound on what rounding center k adds to f: W_k || mean_k - c_k ||^2."""
        return self.weights * (self.off * self.off)


def clusters(weights: NDArray[np.float64], residuals: NDArray[np.float64]) -> Clusters:
    """Return what bounds need of the clusters.

    The maximum of the residuals does not depend on an order of summation.
    """
    off = np.abs(residuals).max(axis=1) * np.sqrt(float(residuals.shape[1]))
    return Clusters(weights, off)


def value_of_leaving(distance: Distances, w: Distances, own: Clusters) -> Distances:
    """Return an upper bound on the decrease of f, per unit of weight, when a point leaves A.

    That is W_A / (W_A - w) || x - mean_A ||^2 and, because f is at rounded centers, W_A / w times
    || mean_A - c_A ||^2 at most. W_A - w is taken as small as rounding allows it to be.
    """
    rest = (own.weights - w) - (4.0 * UNIT) * own.weights
    root = np.sqrt(distance) + own.off
    with np.errstate(divide="ignore", invalid="ignore"):
        value = (own.weights / rest) * (root * root) + own.slack / w
    return np.where(rest > 0.0, value, np.inf)


def price_of_joining(distance: Distances, w: Distances, other: Clusters) -> Distances:
    """Return a lower bound on the increase of f, per unit of weight, when a point joins B.

    It is 0 for an empty cluster.
    """
    root = np.maximum(np.sqrt(distance) - other.off, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        price = (other.weights / (other.weights + w)) * (root * root) - other.slack / w
    return np.where(other.weights == 0.0, 0.0, price)


def may_gain(
    value: Distances, price: Distances, distance: Distances, other: Clusters, d: int
) -> NDArray[np.bool_]:
    """Whether a move may gain, or lose no more than rounding.

    Distances are off by (d + 3) u of themselves, all else by some u. A point that
    lies on its center gains nothing by moving to an empty cluster.
    """
    rounding = (4.0 * (d + 16.0)) * UNIT
    possible = price <= value + rounding * (value + distance)
    return np.where(other.weights == 0.0, value > 0.0, possible)


class PlainSingleMoves:
    """The search over any distances, in NumPy.

    `dense(row)` is the row as a center would be, `distance_error` that of the workspace.
    """

    def __init__(
        self,
        labels: Labels,
        centers: Centers,
        weights: NDArray[np.float64] | None,
        moments: Moments,
        kernels: Kernels,
        dense: Callable[[int], Centers],
        distance_error: float = 0.0,
    ) -> None:
        self.labels = labels.copy()
        self._w = np.ones(len(labels)) if weights is None else weights
        self._moments = moments
        self._kernels = kernels
        self._dense = dense
        self._error = distance_error
        self._weights, self.centers, residuals = moments.means(centers)
        self._clusters = clusters(self._weights, residuals)
        self._d = centers.shape[1]
        self._members = np.bincount(self.labels[self._w > 0], minlength=len(centers))
        self.moves = self.sweeps = 0
        self.tied = False
        self._decreases: list[float] = []
        self._candidates = np.empty(0, dtype=np.int64)
        self._place = 0
        self._accepted = -1

    @property
    def decrease(self) -> float:
        """The exact sum of what the moves gained, rounded once."""
        return exact_sum(self._decreases)

    def run(self, seconds: float, sweeps: int) -> bool:
        """Sweep until no move lowers the cost, then return True; False if stopped earlier."""
        deadline = perf_counter() + seconds
        last = self.sweeps + sweeps
        while True:
            if self._place == len(self._candidates):
                if self._accepted == 0:
                    return True
                if self.sweeps == last or perf_counter() > deadline:
                    return False
                self._candidates, self._place = self.find_candidates(), 0
                self._accepted, self.tied = 0, False
                self.sweeps += 1
            while self._place < len(self._candidates):
                if perf_counter() > deadline:
                    return False
                self._try_some()

    def find_candidates(self) -> NDArray[np.int64]:
        """Return, in order, the rows that may gain by some move at the centers as they are."""
        distance = self._kernels.distances(self.centers, self.labels)
        value = value_of_leaving(distance, self._w, self._some(self.labels))
        able = np.zeros(len(value), dtype=bool)
        for k in range(len(self.centers)):
            to_k = self._kernels.distances(self.centers, np.full_like(self.labels, k))
            able |= self._may_gain(value, to_k, self._w, k) & (self.labels != k)
        return np.flatnonzero(able & (self._w > 0.0) & (self._members[self.labels] > 1))

    def _some(self, labels: Labels | int) -> Clusters:
        return Clusters(self._clusters.weights[labels], self._clusters.off[labels])

    def _may_gain(
        self, value: Distances, distance: Distances, w: Distances, k: Labels | int
    ) -> NDArray[np.bool_]:
        other = self._some(k)
        price = price_of_joining(distance, w, other) - 4.0 * self._error
        return may_gain(value, price, distance, other, self._d)

    def _try_some(self) -> None:
        """Take up the next candidates; their distances are kept up to date as centers move."""
        K = len(self.centers)
        rows = self._candidates[self._place : self._place + _ROWS_AT_ONCE]
        kernels = self._kernels.of(rows)
        table = np.empty((len(rows), K))

        def measure(k: int) -> None:
            table[:, k] = kernels.distances(self.centers, np.full(len(rows), k, dtype=np.int32))

        for k in range(K):
            measure(k)
        for place, row in enumerate(rows.tolist()):
            left = int(self.labels[row])
            if self._try_row(row, table[place]):
                measure(left)
                measure(int(self.labels[row]))
        self._place += len(rows)

    def _try_row(self, row: int, distance: Distances) -> bool:
        """Take the first move of the row that gains; whether there is one."""
        A = int(self.labels[row])
        if self._members[A] <= 1:
            return False
        w = self._w[row : row + 1]
        value = value_of_leaving(distance[A : A + 1], w, self._some(A))
        everyone = np.arange(len(self.centers), dtype=np.int32)
        able = self._may_gain(value, distance, w, everyone)
        able[A] = False
        if not able.any():
            return False
        with np.errstate(invalid="ignore"):
            score = np.where(
                self._weights == 0.0, 0.0, (self._weights / (self._weights + w)) * distance
            )
        for B in np.argsort(score, kind="stable").tolist():
            if able[B] and self._try_move(row, A, B, float(distance[A]), float(distance[B])):
                return True
        return False

    def _try_move(self, row: int, A: int, B: int, d_A: float, d_B: float) -> bool:
        one = np.array([row])
        a, b = np.array([A], dtype=np.int32), np.array([B], dtype=np.int32)
        self._moments.move(one, a, b)
        before = self.centers
        if self._weights[B] == 0.0:
            before = self.centers.copy()
            before[B] = self._dense(row)
            d_B = 0.0
        weights, means, residuals = self._moments.means(before)
        two = [A, B]
        shift = means[two].astype(np.float64) - before[two].astype(np.float64)
        of_two, rest = weights[two, None], residuals[two]
        gains = of_two * (shift * (shift + 2.0 * rest))
        sizes = of_two * (np.abs(shift) * (np.abs(shift) + 2.0 * np.abs(rest)))
        w = float(self._w[row])
        decrease = exact_sum([w * d_A, -(w * d_B), *gains.ravel().tolist()])
        size = exact_sum([w * d_A, w * d_B, *sizes.ravel().tolist()])
        bound = (UNIT * (self._d + 8.0)) * size + (2.0 * w) * self._error
        if not decrease > bound:
            self.tied = self.tied or decrease >= -bound
            self._moments.move(one, b, a)
            return False
        self._weights, self.centers = weights, means
        self._clusters = clusters(weights, residuals)
        self.labels[row] = B
        self._members[A] -= 1
        self._members[B] += 1
        self._decreases.append(decrease)
        self.moves += 1
        self._accepted += 1
        return True
