"""A workspace whose points live in parts: on workers, in a file, or in several arrays.

Centers go out to all parts; integers come back and add up (`partial`), so the result does not
depend on how the points are spread. What is about single points (labels, distances) is put together
in the order of the parts; rows are numbered through. The workspace itself keeps nothing but the
last centers: with these any part finds its labels again (engines.places.memory).
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, reduce
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.workspace import (
    Assignment,
    Centers,
    Distances,
    Forced,
    Labels,
    StepByStep,
)
from wolfmeans.engines.labelled import LabelledPoints
from wolfmeans.engines.native import CpuEngine
from wolfmeans.engines.places.candidates import best_of, candidates, values_at
from wolfmeans.engines.places.memory import Description, FarRows, Labelling
from wolfmeans.engines.places.trimmed_workspace import Scales, TrimmedParts
from wolfmeans.engines.reference import ReferenceEngine
from wolfmeans.engines.single_moves import SingleMoves
from wolfmeans.engines.swaps import Swaps
from wolfmeans.exact.distances import sparse_distance_error
from wolfmeans.exact.limbs import Grids
from wolfmeans.exact.native import native_is_available
from wolfmeans.exact.ordering import lexicographic_order

_EACH_POINT = (
    "this needs a number for each point in one place, and Dask data stays in its partitions: "
    "empty='admissible' does; fit with empty='farthest'"
)


class Place(Protocol):
    """Where the parts are and how they are asked; a part answers as `MemoryPart` does."""

    may_gather: bool
    """Whether all rows may be brought together here, for what has no form in parts."""
    each_point: bool
    """Whether a number for each point may be brought here."""

    def __len__(self) -> int:
        """Return how many parts there are."""

    def each(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Iterator[Any]:
        """Ask some parts, by their numbers; the answers come in the order of the arguments."""

    def summed(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Any:
        """Return the sum of the answers; it does not depend on the order of the additions."""

    def of_points(
        self, method: str, arguments: Mapping[int, tuple[Any, ...]], dtype: Any = np.int32
    ) -> Any:
        """Return a number for each point, wherever the points are: an array or a Dask array."""

    def fork(self, n_threads: int) -> Place:
        """Return the same parts without labels."""


class PartsWorkspace(StepByStep):
    """A workspace (see `core.workspace`) over parts.

    Parameters
    ----------
    place : Place
        Where the points are. Some parts may be without rows, but not all.
    n_threads : int
        For what is done here, with centers and sums.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans.engines.places.memory import MemoryPart, MemoryPlace
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> parts = [MemoryPart(rows, engine="reference") for rows in (X[:1], X[1:])]
    >>> points = PartsWorkspace(MemoryPlace(parts))
    >>> points.assign(np.array([[1.0], [8.0]])).means.ravel()
    array([0.5, 8.5])
    """

    in_parts = True
    steps_to_come = 0
    meanwhile: Callable[[], object] | None = None

    def __init__(self, place: Place, n_threads: int = 1) -> None:
        everybody = dict.fromkeys(range(len(place)), ())
        live = _checked(dict(enumerate(place.each("describe", everybody))))
        first = next(iter(live.values()))
        self.engine = first.engine
        self.n_features = first.n_features
        self.dtype = first.dtype
        self.n_points = sum(part.n_points for part in live.values())
        self.grids: Grids = reduce(lambda a, b: a | b, (part.grids for part in live.values()))
        self.description = replace(
            first,
            n_points=self.n_points,
            smallest=min((p.smallest for p in live.values() if p.smallest > 0), default=0.0),
            largest=max(part.largest for part in live.values()),
            lightest=min(part.lightest for part in live.values()),
            grids=self.grids,
        )
        self.place = place
        self.weighted = first.weighted
        self.row_ranges: dict[int, slice] = {}
        end = 0
        for number, part in live.items():
            self.row_ranges[number] = slice(end, end + part.n_points)
            end += part.n_points
        self._at: dict[int, Labelling] | None = None
        self._far = (np.empty(0, dtype=np.int64), np.empty((0, self.n_features), dtype=self.dtype))
        engine = CpuEngine() if native_is_available() else ReferenceEngine()
        nothing = np.zeros((1, self.n_features), dtype=self.dtype)
        self._arithmetic: LabelledPoints = engine.open(nothing, None, n_threads)

    @property
    def runs_together(self) -> bool:
        """Whether several starts are better run at once: here one after the other."""
        return False

    @cached_property
    def weights(self) -> Any:
        """(n,) sample weights, None for ones; where rows stay, only those asked for come here."""
        if not self.weighted:
            return None
        return self.all_weights() if self.place.may_gather else DistantWeights(self)

    def all_weights(self) -> NDArray[np.float64]:
        """Return all weights."""
        weights: NDArray[np.float64] = self._concatenated("weights")
        return weights

    def weights_of(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weights of some rows."""
        found = np.empty(len(rows))
        for where, answer in self._of_rows("weights_of", rows):
            found[where] = answer
        return found

    def _of_rows(
        self, method: str, indices: NDArray[np.int64]
    ) -> Iterator[tuple[NDArray[np.int64], Any]]:
        """Ask the parts in which some rows are; yield where these are among all, and the answer."""
        wanted = {}
        for number, place in self.row_ranges.items():
            inside = np.flatnonzero((place.start <= indices) & (indices < place.stop))
            if len(inside):
                wanted[number] = (inside, indices[inside] - place.start)
        asked = {number: (local,) for number, (_, local) in wanted.items()}
        answers = self.place.each(method, asked)
        for (inside, _), answer in zip(wanted.values(), answers, strict=True):
            yield inside, answer

    def lightest(self) -> float:
        """Return the smallest positive weight; 1 where points have none."""
        return self.description.lightest

    def fork(self, n_threads: int) -> PartsWorkspace:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = copy.copy(self)
        twin.place = self.place.fork(n_threads)
        twin._at = None
        return twin

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""
        return self.assign_to(self._labellings(centers, forced), centers)

    def assign_to(self, to: dict[int, Labelling], centers: Centers) -> Assignment:
        """Go on to labels that are described for each part."""
        at = self._at
        asked = {number: (to[number], None if at is None else at[number]) for number in to}
        partial = self.place.summed("assign", asked)
        self._at = to
        return self._arithmetic.rounded(partial, centers)

    def forget(self) -> None:
        """Be without labels."""
        self._at = None

    def kept_masses(self) -> KeptMasses:
        """Return what is kept of each point's weight, known where the points are."""
        return KeptMasses(self, {number: at for number, (at,) in self.labelled().items()})

    def _labellings(self, centers: Centers, forced: Forced | None) -> dict[int, Labelling]:
        """Return the labels to come, for each part; forced rows get the part's numbers."""
        given = np.array(centers, order="C")
        everywhere = Labelling(given, None, self.grids, self._arithmetic.digest(given))
        labellings = dict.fromkeys(self.row_ranges, everywhere)
        if forced is None:
            return labellings
        for number, place in self.row_ranges.items():
            inside = (place.start <= forced.rows) & (forced.rows < place.stop)
            if inside.any():
                rows = np.ascontiguousarray(forced.rows[inside] - place.start, dtype=np.int64)
                labels = np.ascontiguousarray(forced.labels[inside], dtype=np.int32)
                key = everywhere.key + rows.tobytes() + labels.tobytes()
                here = Forced(rows, labels)
                labellings[number] = replace(everywhere, forced=here, key=key)
        return labellings

    def everywhere(self, *given: Any) -> dict[int, tuple[Any, ...]]:
        """Return arguments of a question that goes to all parts."""
        return dict.fromkeys(self.row_ranges, given)

    def summed(self, method: str, *given: Any) -> Any:
        """Return the sum of what all parts answer to one question (exact.limbs.Answer)."""
        return self.place.summed(method, self.everywhere(*given))

    def apply(self, function: Callable[..., Any], *given: Any) -> Iterator[Any]:
        """Yield function(rows, weights, *given) of each part, computed where the part is."""
        return self.place.each("apply", self.everywhere(function, *given))

    @property
    def n_parts(self) -> int:
        """How many parts have rows."""
        return len(self.row_ranges)

    def labelled(self, *given: Any) -> dict[int, tuple[Any, ...]]:
        """Return arguments of a question about the current labels."""
        if self._at is None:
            raise RuntimeError("points have no labels before the first assignment")
        return {number: (at, *given) for number, at in self._at.items()}

    def _concatenated(self, method: str, *given: Any) -> Any:
        return np.concatenate(list(self.place.each(method, self.everywhere(*given))))

    def trimmed(self, mass: float, scales: Scales | None = None) -> TrimmedParts:
        """Return the oracle over these points that keeps the nearest ones of a mass."""
        return TrimmedParts(self, mass, scales)

    def of_points(self, method: str, asked: dict[int, tuple[Any, ...]], dtype: Any) -> Any:
        """Return what each part answers for each of its points, wherever the points are."""
        return self.place.of_points(method, asked, dtype)

    def labels(self) -> Labels:
        """Return the current labels, those of all parts in turn."""
        labels: Labels = np.concatenate(list(self.place.each("labels", self.labelled())))
        return labels

    def snapshot(self) -> Any:
        """Return the same, wherever the points are."""
        return self.of_points("labels", self.labelled(), np.int32)

    def _need_each_point(self) -> None:
        if not self.place.each_point:
            raise NotImplementedError(_EACH_POINT)

    def distances(self, centers: Centers) -> Distances:
        """Return each point's canonical distance to the center of its label."""
        self._need_each_point()
        found = list(self.place.each("distances", self.labelled(centers)))
        distances: Distances = np.concatenate(found)
        return distances

    def distances_to(self, center: Centers) -> Distances:
        """Return each point's canonical distance to one (d,) center."""
        self._need_each_point()
        distances: Distances = self._concatenated("distances_to", center)
        return distances

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return nearest labels and canonical distances without changing the state."""
        self._need_each_point()
        found = list(self.place.each("nearest", self.everywhere(centers)))
        labels, distances = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return labels, distances

    def near_ties(
        self, centers: Centers, slack: float
    ) -> tuple[NDArray[np.int64], Distances, Distances]:
        """Return rows with their distances to the nearest and second nearest center.

        Where no number for each point may come here: one tie of each part that has any, which is
        all that is needed to know whether there are ties.
        """
        question = "near_ties" if self.place.each_point else "undecided"
        found = list(self.place.each(question, self.labelled(centers, slack)))
        rows = self._numbered_through([near[0] for near in found])
        nearest, second = (np.concatenate([near[i] for near in found]) for i in (1, 2))
        return rows, nearest, second

    def _numbered_through(self, rows: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        places = self.row_ranges.values()
        return np.concatenate([r + place.start for r, place in zip(rows, places, strict=True)])

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) square roots of the canonical distances to all centers."""
        roots: Centers = self._concatenated("roots", centers)
        return roots

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return data rows, dense, in the centers' dtype."""
        indices = np.asarray(indices, dtype=np.int64)
        if len(indices) and not 0 <= indices.min() <= indices.max() < self.n_points:
            raise IndexError(f"rows are numbered 0..{self.n_points - 1}")
        rows = np.empty((len(indices), self.n_features), dtype=self.dtype)
        known = np.isin(indices, self._far[0])
        if known.any():
            # Far rows were told with their values, and are what is asked for next.
            by_row = np.argsort(self._far[0])
            place = np.searchsorted(self._far[0], indices[known], sorter=by_row)
            rows[known] = self._far[1][by_row[place]]
        missing = np.flatnonzero(~known)
        for where, found in self._of_rows("rows", indices[missing]):
            rows[missing[where]] = found
        return rows

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of w D over the points at their labels, rounded once."""
        cost: float = self.place.summed("cost", self.labelled(centers)).rounded()
        return cost

    def mean(self, *, weighted: bool) -> Centers:
        """Return the (d,) mean of all points, rounded as a center."""
        grids = self.grids if weighted else self.grids.unweighted()
        partial = self.place.summed("moments", self.everywhere(grids))
        zero = np.zeros((1, self.n_features), dtype=self.dtype)
        mean: Centers = self._arithmetic.rounded(partial, zero).means[0]
        return mean

    def scatter(self, *, weighted: bool) -> float:
        """Return the sum of squares about the mean, with the points' weights or without them."""
        weighted = weighted and self.weighted
        grids = self.grids if weighted else self.grids.unweighted()
        scatter: float = self.summed("scatter", self.mean(weighted=weighted), grids).rounded()
        return scatter

    @cached_property
    def _gathered(self) -> LabelledPoints:
        """All points in one piece, for what has no form in parts."""
        if not self.place.may_gather:
            raise NotImplementedError(
                "this needs all points in one place: draws by the order of values, polishing by "
                "single moves and swaps of centers have no form in parts yet"
            )
        engine = CpuEngine() if native_is_available() else ReferenceEngine()
        return engine.open(self.rows(np.arange(self.n_points)), self.weights, 1)

    def order(self) -> NDArray[np.int64]:
        """Return the rows in an order that depends on their values alone; gathers them."""
        return self._gathered.order()

    def spread_rows(self, drawn: NDArray[np.int64], n_trials: int) -> NDArray[np.int64] | None:
        """Leave k-means++ to its specification, which needs nothing but distances and order."""
        return None

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row, equal for equal values."""
        hashes: NDArray[np.uint64] = self._concatenated("row_hashes")
        return hashes

    def sampling(self) -> None:
        """Leave k-means|| to a part on the host, which needs hashes and nearest candidates."""
        return None

    def losses_without(self, centers: Centers, gone: NDArray[np.bool_]) -> Distances:
        """Return what points lose whose center is gone."""
        found = list(self.place.each("losses_without", self.labelled(centers, gone)))
        losses: Distances = np.concatenate(found)
        return losses

    def best_candidate(
        self, centers: Centers, masses: Distances | None, most: int
    ) -> tuple[int, float] | None:
        """Return the best of all candidates where they are few, else the best of the farthest.

        An engine that has more of them in one place tries others too, spread evenly over all
        values; so it is asked where rows may be gathered.
        """
        known = masses is None or masses is self.weights or isinstance(masses, KeptMasses)
        if known and not self.place.each_point:
            return self._best_candidate_in_order(centers, masses, most)
        rows, _, outside = self.far_rows(centers, most, masses)
        if outside > 0 and self.place.may_gather:
            return None
        best_row, best_gain = -1, 0.0
        if len(rows) == 0:
            return best_row, best_gain
        asked = {
            number: (*given, self.rows(rows), own)
            for (number, given), own in zip(
                self.labelled(centers).items(), self._split(masses), strict=True
            )
        }
        gains = self.place.summed("gains", asked)
        for k, row in enumerate(rows.tolist()):
            gain = gains.rounded(k)
            if gain > best_gain:
                best_row, best_gain = row, gain
        return best_row, best_gain

    def _best_candidate_in_order(
        self, centers: Centers, masses: Any, most: int
    ) -> tuple[int, float]:
        """Return the row that as one more center gains most, of those that are tried in memory.

        Values at given places in the order of all values are found without that order
        (`candidates`).
        """
        rows, _, outside = self.far_rows(centers, most, masses)
        tried = self.rows(rows)
        if outside > 0:
            half = most // 2
            far = self.far_rows(centers, half, masses)[0]
            name = uuid.uuid4().bytes

            def asked(*question: Any) -> Any:
                about = self.labelled(name, centers, *question)
                return self.place.summed("candidates", about)

            many = int(asked("many").all()[0])
            places = np.unique(np.linspace(0, many - 1, half).astype(np.int64))
            spread = values_at(asked, places, self.n_features, self.dtype)
            tried = candidates(self.rows(far), spread)
        if len(tried) == 0:
            return -1, 0.0
        gains = self.place.summed("gains", self.labelled(centers, tried, None))
        best = best_of(np.array([gains.rounded(k) for k in range(len(tried))]))
        if best is None:
            return -1, 0.0
        return self._row_of(tried[best]), gains.rounded(best)

    def _row_of(self, value: Centers) -> int:
        """Return the first row that is equal to a value that is there."""
        found = self.place.each("row_of", self.everywhere(value))
        places = zip(self.row_ranges.values(), found, strict=True)
        row: int = next(place.start + row for place, row in places if row >= 0)
        return row

    def _split(self, masses: Any) -> list[Distances | None]:
        """Return each part's masses; None for the weights that it has, or keeps."""
        if masses is None or masses is self.__dict__.get("weights"):
            return [None] * len(self.row_ranges)
        if isinstance(masses, KeptMasses):
            return [None] * len(self.row_ranges)
        return [masses[place] for place in self.row_ranges.values()]

    def far_rows(
        self, centers: Centers, many: int, masses: Distances | None
    ) -> tuple[NDArray[np.int64], Distances, float]:
        """Return the farthest points of positive mass, in the order of their values.

        Far is decided by distance, then by the order of values. The farthest of all are among the
        farthest of each part; one more tells how far the others are at most.
        """
        found = list(self._farthest(centers, many + 1, masses))
        rows = self._numbered_through([far[0] for far in found])
        distances = np.concatenate([far[1] for far in found])
        by_row = np.argsort(rows)
        values = np.concatenate([far[2] for far in found])[by_row]
        order = lexicographic_order(values)
        by_value = by_row[order]
        rows, distances = rows[by_value], distances[by_value]
        self._far = (rows, values[order])
        by_distance = np.argsort(-distances, kind="stable")
        outside = float(distances[by_distance[many]]) if len(rows) > many else 0.0
        chosen = np.sort(by_distance[:many])
        return rows[chosen], distances[chosen], outside

    def _farthest(self, centers: Centers, many: int, masses: Any) -> Iterator[FarRows]:
        """Ask each part for its farthest rows."""
        if isinstance(masses, KeptMasses):
            return self.place.each("kept_far_rows", masses.asked(centers, many))
        asked = {
            number: (centers, many, own)
            for number, own in zip(self.row_ranges, self._split(masses), strict=True)
        }
        return self.place.each("far_rows", asked)

    def distance_error(self, centers: Centers) -> float:
        """Return what a canonical distance may be off by beyond (d + 3) u of itself."""
        return sparse_distance_error(centers) if self.description.sparse else 0.0

    def total(self, values: NDArray[np.float64]) -> float:
        """Return the exact sum of an array, rounded once."""
        return self._arithmetic.total(values)

    def step(self, found: Assignment, centers: Centers) -> tuple[float, float]:
        """Return the shift and the movement of a step from the centers to the means found."""
        return self._arithmetic.step(found, centers)

    def digest(self, centers: Centers) -> bytes:
        """Return bytes that are equal for equal centers, and practically for no others."""
        return self._arithmetic.digest(centers)

    def largest(self) -> float:
        """Return the largest absolute value in the data."""
        return self.description.largest

    def single_moves(self, centers: Centers, labels: Labels | None = None) -> SingleMoves:
        """Return a search by single moves; gathers the points."""
        return self._gathered.single_moves(centers, self.labels() if labels is None else labels)

    def swaps(self) -> Swaps:
        """Return what tells the cost of swapping a center for a data point; gathers the points."""
        return self._gathered.swaps()


class DistantWeights:
    """The face of an array of weights that are elsewhere."""

    def __init__(self, points: PartsWorkspace) -> None:
        self._points = points
        self.shape = (points.n_points,)
        self.dtype = np.dtype(np.float64)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, np.ndarray) and which.dtype.kind in "iu":
            return self._points.weights_of(which)
        return np.asarray(self)[which]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.float64]:
        """Bring all weights here."""
        return self._points.all_weights()

    def __gt__(self, other: Any) -> Any:
        return np.asarray(self) > other

    def __mul__(self, other: Any) -> Any:
        return np.asarray(self) * other


class KeptMasses:
    """The face of an array of what is kept of each point, which is known where the points are."""

    def __init__(self, points: PartsWorkspace, at: dict[int, Labelling]) -> None:
        self._points, self._at = points, at
        self.shape = (points.n_points,)
        self.dtype = np.dtype(np.float64)

    def asked(self, *given: Any) -> dict[int, tuple[Any, ...]]:
        """Return arguments of a question about the same labels."""
        return {number: (at, *given) for number, at in self._at.items()}

    @cached_property
    def _all(self) -> NDArray[np.float64]:
        return np.concatenate(list(self._points.place.each("kept", self.asked())))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: Any) -> Any:
        return self._all[which]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.float64]:
        """Bring all of them here."""
        return self._all.copy() if copy else self._all

    def __gt__(self, other: Any) -> Any:
        return self._all > other

    def __mul__(self, other: Any) -> Any:
        return self._all * other


def _checked(described: dict[int, Description]) -> dict[int, Description]:
    """Return the parts that have rows, or say which part does not fit and why."""
    live = {number: part for number, part in described.items() if part.n_points > 0}
    if not live:
        raise ValueError("no part has any rows")
    origin, first = next(iter(live.items()))
    for number, part in live.items():
        if not part.finite:
            raise ValueError(f"part {number} has NaN or infinity in its rows or weights")
        for what in ("n_features", "dtype", "weighted", "sparse"):
            here, there = getattr(part, what), getattr(first, what)
            if here != there:
                raise ValueError(
                    f"part {number} does not go with part {origin}: "
                    f"{what} is {here} there, {there} here"
                )
    return live
