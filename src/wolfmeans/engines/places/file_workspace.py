"""A workspace over the chunks of a source, with as few passes as there are steps.

Questions that go together are asked together: the cost of the first partition comes with the step
from it; the cost of the last one with its labels and what is near a tie. So a run of T evaluated
points takes T + 3 passes, one of them to look at the numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.workspace import Assignment, Centers, Distances, Forced, Labels, Partial
from wolfmeans.engines.places.file import FilePlace, PointBuffer
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.exact.limbs import Limbs, added


class FileWorkspace(PartsWorkspace):
    """A workspace over the chunks of a source."""

    place: FilePlace

    def __init__(self, parts: FilePlace, n_threads: int = 1) -> None:
        super().__init__(parts, n_threads)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._ahead: tuple[bytes, bytes, Partial] | None = None
        self._last: Assignment | None = None
        self._costs: dict[tuple[bytes, bytes], float] = {}
        self._returned: tuple[bytes, Labels] | None = None
        self._ties: tuple[bytes, float, Any] | None = None
        self._total: tuple[Limbs, Limbs] | None = None

    def fork(self, n_threads: int) -> FileWorkspace:
        """Return a workspace of the same points, without labels, that shares the source."""
        twin = super().fork(n_threads)
        assert isinstance(twin, FileWorkspace)
        twin._begin_anew()
        return twin

    def labels(self) -> Labels:
        """Return a copy of the current labels."""
        return np.array(self.snapshot())

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return data rows, dense, in the centers' dtype."""
        indices = np.asarray(indices, dtype=np.int64)
        if np.isin(indices, self._far[0]).all():
            return super().rows(indices)
        return self.place.take(indices)

    def weights_of(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weights of some rows."""
        assert self.place.weights is not None
        return self.place.weights[rows]

    def _new_labels(self) -> PointBuffer:
        return self.place.new_buffer("labels", np.int32)

    @property
    def _key(self) -> bytes:
        """Which labels these are; forced ones are told apart by their parts."""
        assert self._at is not None
        return b"".join(dict.fromkeys(at.key for at in self._at.values()))

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""
        to, at = self._labellings(centers, forced), self._at
        ahead, self._ahead = self._ahead, None
        if ahead is not None and at is not None and forced is None:
            key = self._arithmetic.digest(np.ascontiguousarray(centers))
            partial = ahead[2] if ahead[:2] == (self._key, key) else None
        else:
            partial = None
        if partial is None:
            asked = {number: (to[number], None if at is None else at[number]) for number in to}
            partial = self.place.summed("assign", asked)
        self._at = to
        self._total = (_over_clusters(partial.totals), _over_clusters(partial.sums))
        self._last = self._arithmetic.rounded(partial, centers)
        return self._last

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of w D over the points at their labels, rounded once.

        In the same pass: at other centers than those of the labels, the step to these; at their
        own, the labels themselves and what is near a tie.
        """
        asked = self.labelled(centers)
        key = self._arithmetic.digest(np.ascontiguousarray(centers))
        labels_key = self._key
        if (labels_key, key) not in self._costs:
            if labels_key == key:
                cost = self._end(asked)
            else:
                to = self._labellings(centers, None)
                together = {number: (*given, to[number]) for number, given in asked.items()}
                cost, partial = self.place.summed("cost_and_step", together).answers
                self._ahead = (labels_key, key, partial)
            self._costs = {(labels_key, key): cost.rounded()}
        return self._costs[labels_key, key]

    def _end(self, asked: dict[int, tuple[Any, ...]]) -> Limbs:
        """Ask for all that is asked at the end, and keep it."""
        slack = None
        if self._last is not None and self._last.moved == 0:
            residuals = self._last.residuals
            # As core.kmeans finds it: nobody moved, so these are the residuals before, too.
            slack = float(np.sqrt((residuals**2).sum(axis=1).max()))
        shelf = self._last_labels()
        cost: Limbs | None = None
        ties = []
        together = {number: (*given, slack) for number, given in asked.items()}
        for place, found in zip(
            self.row_ranges.values(), self.place.each("ending", together), strict=True
        ):
            cost = found.cost if cost is None else added([cost, found.cost])
            shelf.put(place, found.labels)
            ties.append(found.ties)
        assert cost is not None
        self._returned = (self._key, shelf.whole())
        self._ties = None
        if slack is not None:
            self._ties = (self._key, slack, self._joined(ties))
        return cost

    def _joined(self, found: list[Any]) -> Any:
        rows = self._numbered_through([near[0] for near in found])
        return rows, *(np.concatenate([near[i] for near in found]) for i in (1, 2))

    def near_ties(
        self, centers: Centers, slack: float
    ) -> tuple[NDArray[np.int64], Distances, Distances]:
        """Return a few rows that cannot be told from a tie, if there are any."""
        asked = self.labelled(centers)
        key = self._arithmetic.digest(np.ascontiguousarray(centers))
        if self._ties is not None and self._ties[0] == self._key == key and slack == self._ties[1]:
            ties: tuple[NDArray[np.int64], Distances, Distances] = self._ties[2]
            return ties
        together = {number: (*given, slack) for number, given in asked.items()}
        found = [end.ties for end in self.place.each("ending", together)]
        joined: tuple[NDArray[np.int64], Distances, Distances] = self._joined(found)
        return joined

    def snapshot(self) -> Labels:
        """Return the labels: an array in memory, or mapped from a file where there is no room."""
        asked = self.labelled()
        if self._returned is None or self._returned[0] != self._key:
            self._returned = (self._key, self.of_points("labels", asked, np.int32))
        return self._returned[1]

    def _last_labels(self) -> PointBuffer:
        """Return where the labels go that nobody goes on from: where they are, if they are kept."""
        shelf = self.place.given_up_labels()
        return self._new_labels() if shelf is None else PointBuffer(self.n_points, of=shelf)

    def mean(self, *, weighted: bool) -> Centers:
        """Return the (d,) mean of all points, which known sums of the clusters add up to."""
        if self._total is None or (self.weighted and not weighted):
            return super().mean(weighted=weighted)
        zero = np.zeros((1, self.n_features), dtype=self.dtype)
        totals, sums = self._total
        nothing = Limbs.of_terms(np.zeros(0))
        mean: Centers = self._arithmetic.rounded(Partial(0, nothing, totals, sums), zero).means[0]
        return mean


def _over_clusters(limbs: Limbs) -> Limbs:
    """Return the sum over all clusters, one at a time so that carries come in time."""
    return added(Limbs(limbs.grid, row[np.newaxis]) for row in limbs.values)
