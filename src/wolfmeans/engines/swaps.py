"""What it costs to exchange one center for a data point: the specification.

Let D1 and D2 be a point's distances to its nearest and second nearest center and Dz that to the
data point z. With center k exchanged for z the points of k come to min(D2, Dz), all others to
min(D1, Dz); one look at the points tells it for all k (Lattanzi & Sohler 2019). The new cost
bounds from above what Lloyd's steps will make of the new centers. Every change is the exact sum of
the float64 terms w D, new less old, rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.workspace import Centers, Distances, Labels
from wolfmeans.exact.sums import exact_sum


class Swaps(Protocol):
    """Exchanges of one center for a data point, on the points of a workspace.

    `labels`, `nearest`, `second` and `cost` are those of the centers last looked at, with each
    point at its nearest center. They are not the workspace's labels, which stay as they are.
    """

    labels: Labels
    nearest: Distances
    second: Distances
    """(n,) infinite for a single center."""
    cost: float

    def look(self, centers: Centers) -> None:
        """Evaluate exchanges of these centers from now on."""

    def changes(self, rows: NDArray[np.int64]) -> tuple[Labels, Distances]:
        """Return for each data point the center to give up for it and how the cost changes then.

        It is the center of the smallest change, the lowest index of several.
        """


class PlainSwaps:
    """Swaps over any distances, in NumPy."""

    def __init__(
        self,
        weights: NDArray[np.float64] | None,
        two_nearest: Callable[[Centers], tuple[Labels, Distances, Distances]],
        distances_to_row: Callable[[int], Distances],
    ) -> None:
        self._weights = weights
        self._two_nearest = two_nearest
        self._distances_to_row = distances_to_row

    def look(self, centers: Centers) -> None:
        """Evaluate exchanges of these centers from now on."""
        self.labels, self.nearest, self.second = self._two_nearest(centers)
        self._members = [np.flatnonzero(self.labels == k) for k in range(len(centers))]
        self._old = self._masses(self.nearest)
        self.cost = exact_sum(self._old.tolist())

    def _masses(self, distances: Distances) -> Distances:
        return distances if self._weights is None else self._weights * distances

    def changes(self, rows: NDArray[np.int64]) -> tuple[Labels, Distances]:
        """Return for each data point the center to give up for it and how the cost changes then."""
        removals = np.empty(len(rows), dtype=np.int32)
        changes = np.empty(len(rows))
        for place, row in enumerate(rows.tolist()):
            of_each = self.change_of_each(row)
            removals[place] = np.argmin(of_each)
            changes[place] = of_each[removals[place]]
        return removals, changes

    def change_of_each(self, row: int) -> Distances:
        """Return the (K,) changes when the data point takes the place of each center."""
        to_row = self._distances_to_row(row)
        kept = self._masses(np.minimum(self.nearest, to_row))
        left = self._masses(np.minimum(self.second, to_row))
        closer = np.flatnonzero(kept < self._old)
        changes = []
        for k, members in enumerate(self._members):
            others = closer[self.labels[closer] != k]
            new = left[members].tolist() + kept[others].tolist()
            old = self._old[members].tolist() + self._old[others].tolist()
            changes.append(exact_sum(new + [-mass for mass in old]))
        return np.array(changes)
