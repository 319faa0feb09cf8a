"""A workspace whose points are in parts: on workers, in a file, or in several arrays.

All parts get the centers; they return integers that add up (`Partial`), so the result does not
depend on how the points are divided. Numbers for each point (labels, distances) are concatenated in
the order of the parts, and rows are numbered through. The workspace itself keeps only the last
centers: from these any part can find its labels again (engines.places.memory).

Where every question is a pass over a file, questions that follow each other are asked together: the
cost of the first partition comes with the step from it; the cost of the last one with its labels
and ties. So a run of T evaluated points takes T + 3 passes, one of them to describe the data.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, reduce
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.kmeans import largest_residual
from wolfmeans.core.workspace import (
    Assignment,
    Centers,
    Distances,
    Forced,
    Labels,
    Partial,
    StepByStep,
    Turn,
)
from wolfmeans.engines import get_engine, native
from wolfmeans.engines.places.candidates import values_at
from wolfmeans.engines.places.distance_buckets import WeightSum
from wolfmeans.engines.places.memory import Arguments, Description, FarRows, Labelling, Ties
from wolfmeans.engines.places.trimmed_parts import TrimmedParts
from wolfmeans.engines.single_moves import SingleMoves
from wolfmeans.engines.swaps import Swaps
from wolfmeans.exact.distances import sparse_distance_error
from wolfmeans.exact.limbs import Grids, Limbs, added
from wolfmeans.exact.native import digest, native_is_available
from wolfmeans.exact.ordering import lexicographic_order

_EACH_POINT = (
    "this needs a number for each point in one place, and Dask data stays in its partitions: "
    "empty='admissible' does; fit with empty='farthest'"
)


class Place(Protocol):
    """Where the parts are and how they are asked; a part answers as `MemoryPart` does."""

    may_gather: bool
    """Whether all rows may be collected here, for methods that have no form in parts."""
    each_point: bool
    """Whether a number for each point may be collected here."""
    passes_are_slow: bool
    """Whether a question is a pass over a file, so that several are asked together; such a place
    has a buffer for labels (`FilePlace.new_label_buffer`)."""

    def __len__(self) -> int:
        """Return how many parts there are."""

    def each(self, method: str, arguments: Arguments) -> Iterator[Any]:
        """Return the answers of some parts, in the order of the arguments."""

    def summed(self, method: str, arguments: Arguments) -> Any:
        """Return the sum of the answers; it does not depend on the order of the additions."""

    def of_points(self, method: str, arguments: Arguments, dtype: Any) -> Any:
        """Return a number for each point, where the points are: an array or a Dask array."""

    def fork(self, n_threads: int) -> Place:
        """Return the same parts without labels."""


class PartsWorkspace(StepByStep):
    """A workspace (see `core.workspace`) over parts.

    Parameters
    ----------
    place : Place
        Where the points are. Some parts may be without rows, but not all.
    n_threads : int
        For the arithmetic of centers and sums.

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
    runs_together = False
    steps_to_come = 0
    meanwhile: Callable[[], object] | None = None

    def __init__(self, place: Place, n_threads: int = 1) -> None:
        asked = dict.fromkeys(range(len(place)), ())
        live = _checked(dict(enumerate(place.each("describe", asked))))
        first = next(iter(live.values()))
        self.place: Any = place
        self._n_threads = n_threads
        self.engine = first.engine
        self.n_features = first.n_features
        self.dtype = first.dtype
        self.weighted = first.weighted
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
        self.row_ranges: dict[int, slice] = {}
        end = 0
        for number, part in live.items():
            self.row_ranges[number] = slice(end, end + part.n_points)
            end += part.n_points
        self._far = (np.empty(0, dtype=np.int64), np.empty((0, self.n_features), dtype=self.dtype))
        self._all_moments: tuple[Limbs, Limbs] | None = None
        """The weight and the sum of all points, once they are known."""
        self.forget()

    def forget(self) -> None:
        """Forget the labels."""
        self._at: dict[int, Labelling] | None = None
        self._last: Assignment | None = None
        self._known: dict[Any, Any] = {}
        """Answers about the current labels that came with others."""

    def fork(self, n_threads: int) -> PartsWorkspace:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = copy.copy(self)
        twin.place = self.place.fork(n_threads)
        twin.forget()
        return twin

    # --- How parts are asked -----------------------------------------------------------------

    def everywhere(self, *given: Any) -> Arguments:
        """Return arguments of a question to all parts."""
        return dict.fromkeys(self.row_ranges, given)

    def labelled(self, *given: Any) -> Arguments:
        """Return arguments of a question about the current labels."""
        if self._at is None:
            raise RuntimeError("points have no labels before the first assignment")
        return {number: (at, *given) for number, at in self._at.items()}

    def _joined(self, method: str, arguments: Arguments) -> NDArray[Any]:
        return np.concatenate(list(self.place.each(method, arguments)))

    def _of_rows(self, method: str, rows: NDArray[np.int64], found: NDArray[Any]) -> NDArray[Any]:
        """Ask for some rows in the parts that have them, and write the answers into `found`."""
        numbers, ranges = list(self.row_ranges), list(self.row_ranges.values())
        part = np.searchsorted([span.start for span in ranges], rows, side="right") - 1
        inside = {i: np.flatnonzero(part == i) for i in np.unique(part).tolist()}
        asked = {numbers[i]: (rows[some] - ranges[i].start,) for i, some in inside.items()}
        for some, answer in zip(inside.values(), self.place.each(method, asked), strict=True):
            found[some] = answer
        return found

    def apply(self, function: Callable[..., Any], *given: Any) -> Iterator[Any]:
        """Return function(rows, weights, *given) of each part, computed where the part is."""
        return cast("Iterator[Any]", self.place.each("apply", self.everywhere(function, *given)))

    @property
    def n_parts(self) -> int:
        """How many parts have rows."""
        return len(self.row_ranges)

    # --- Rows and weights --------------------------------------------------------------------

    @cached_property
    def weights(self) -> Any:
        """(n,) sample weights, None for ones; a lazy array where rows stay in their places."""
        if not self.weighted:
            return None
        return self.all_weights() if self.place.may_gather else DistantMasses(self)

    def all_weights(self) -> NDArray[np.float64]:
        """Return all weights."""
        return self._joined("weights", self.everywhere())

    def weights_of(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weights of some rows."""
        return self._of_rows("weights", rows, np.empty(len(rows)))

    def lightest(self) -> float:
        """Return the smallest positive weight; 1 where points have none."""
        return self.description.lightest

    def largest(self) -> float:
        """Return the largest absolute value in the data."""
        return self.description.largest

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return data rows, dense, in the centers' dtype."""
        indices = np.asarray(indices, dtype=np.int64)
        if len(indices) and not 0 <= indices.min() <= indices.max() < self.n_points:
            raise IndexError(f"rows are numbered 0..{self.n_points - 1}")
        rows = np.empty((len(indices), self.n_features), dtype=self.dtype)
        # Far rows came with their values, which are needed next.
        known = np.isin(indices, self._far[0])
        by_row = np.argsort(self._far[0])
        found = np.searchsorted(self._far[0], indices[known], sorter=by_row)
        rows[known] = self._far[1][by_row[found]]
        missing = indices[~known]
        if len(missing):
            rows[~known] = self._of_rows("rows", missing, np.empty_like(rows[: len(missing)]))
        return rows

    def stored_rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return data rows, dense: rows of several parts are one array."""
        return self.rows(indices)

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row, equal for equal values."""
        return self._joined("ask", self.everywhere(None, "row_hashes"))

    def mean(self, *, weighted: bool) -> Centers:
        """Return the (d,) mean of all points, rounded as a center."""
        weighted = weighted or not self.weighted
        if weighted and self._all_moments is not None:
            partial = Partial(0, Limbs.of_terms(np.zeros(0)), *self._all_moments)
        else:
            grids = self.grids if weighted else self.grids.unweighted()
            partial = self.place.summed("moments", self.everywhere(grids))
        zero = np.zeros((1, self.n_features), dtype=self.dtype)
        mean: Centers = native.rounded(partial, zero, self._n_threads).means[0]
        return mean

    def scatter(self, *, weighted: bool) -> float:
        """Return the sum of squares about the mean, with the points' weights or without them."""
        weighted = weighted and self.weighted
        grids = self.grids if weighted else self.grids.unweighted()
        asked = self.everywhere(self.mean(weighted=weighted), grids)
        return float(self.place.summed("scatter", asked).rounded())

    # --- Labels ------------------------------------------------------------------------------

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""
        to = self._labellings(centers, forced)
        partial = self._known.get(("step", _key(to))) or self._go_to(to)
        if self._all_moments is None:
            self._all_moments = _over_clusters(partial.totals), _over_clusters(partial.sums)
        return self._arrived(to, partial, centers)

    def assign_to(self, to: dict[int, Labelling], centers: Centers) -> Assignment:
        """Go on to labels that are described for each part."""
        return self._arrived(to, self._go_to(to), centers)

    def _arrived(self, to: dict[int, Labelling], partial: Partial, centers: Centers) -> Assignment:
        self._at, self._known = to, {}
        self._last = native.rounded(partial, centers, self._n_threads)
        return self._last

    def _go_to(self, to: dict[int, Labelling]) -> Partial:
        at = self._at
        asked = {number: (to[number], None if at is None else at[number]) for number in to}
        partial: Partial = self.place.summed("assign", asked)
        return partial

    def labelling(self, centers: Centers) -> Labelling:
        """Return the labels of the nearest centers, the same for all parts."""
        given = np.array(centers, order="C")
        return Labelling(given, None, self.grids, digest(given))

    def _labellings(self, centers: Centers, forced: Forced | None) -> dict[int, Labelling]:
        """Return the next labels of each part; forced rows get the part's numbers."""
        free = self.labelling(centers)
        labellings = dict.fromkeys(self.row_ranges, free)
        if forced is None:
            return labellings
        for number, span in self.row_ranges.items():
            inside = (span.start <= forced.rows) & (forced.rows < span.stop)
            if inside.any():
                rows = np.ascontiguousarray(forced.rows[inside] - span.start, dtype=np.int64)
                labels = np.ascontiguousarray(forced.labels[inside], dtype=np.int32)
                key = free.key + rows.tobytes() + labels.tobytes()
                labellings[number] = replace(free, forced=Forced(rows, labels), key=key)
        return labellings

    def labels(self) -> Labels:
        """Return a copy of the current labels, those of all parts in turn."""
        if self.place.passes_are_slow:
            return np.array(self.snapshot())
        return self._joined("labels", self.labelled())

    def snapshot(self) -> Any:
        """Return the labels where the points are; for a file, not a copy."""
        if "labels" in self._known:
            return self._known["labels"]
        labels = self.place.of_points("labels", self.labelled(), np.int32)
        if self.place.passes_are_slow:
            self._known["labels"] = labels
        return labels

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of w D over the points at their labels, rounded once.

        Where passes are slow and no point is trimmed, more comes with it: at other centers than
        those of the labels, the step to these; at their own, the labels themselves and ties.
        """
        asked, key = self.labelled(centers), digest(centers)
        trimmed = any(at.threshold is not None for at, _ in asked.values())
        if trimmed or not self.place.passes_are_slow:
            return float(self.place.summed("cost", asked).rounded())
        if ("cost", key) not in self._known:
            if all(at.key == key for at, _ in asked.values()):
                cost = self._end(centers)
            else:
                to = self._labellings(centers, None)
                together = {number: (*given, to[number]) for number, given in asked.items()}
                cost, step = self.place.summed("cost_and_step", together).answers
                self._known["step", key] = step
            self._known["cost", key] = float(cost.rounded())
        return cast("float", self._known["cost", key])

    def _end(self, centers: Centers) -> Limbs:
        """Return the cost at the labels' own centers; keep labels and ties that come with it."""
        slack = None
        if self._last is not None and self._last.moved == 0:
            # What core.kmeans will ask for: no label changed, so the residuals stay the same.
            slack = largest_residual(self._last.residuals)
        buffer = self.place.new_label_buffer()
        costs, ties = [], []
        found = self.place.each("ending", self.labelled(centers, slack))
        for rows, end in zip(self.row_ranges.values(), found, strict=True):
            buffer.put(rows, end.labels)
            costs.append(end.cost)
            ties.append(end.ties)
        self._known["labels"] = buffer.whole()
        if slack is not None:
            self._known["ties", digest(centers), slack] = self._joined_ties(ties)
        return added(costs)

    def near_ties(self, centers: Centers, slack: float) -> Ties:
        """Return rows with their distances to the nearest and second nearest center.

        Where rows may not be gathered: one tie of each part that has any, which is enough to know
        whether there are ties.
        """
        known: Ties | None = self._known.get(("ties", digest(centers), slack))
        if known is not None:
            return known
        if self.place.may_gather:
            found = self.place.each("ask", self.labelled("near_ties", centers, slack))
        else:
            found = self.place.each("undecided", self.labelled(centers, slack))
        return self._joined_ties(list(found))

    def _joined_ties(self, found: list[Ties]) -> Ties:
        rows, nearest, second = zip(*found, strict=True)
        return self._numbered_through(rows), np.concatenate(nearest), np.concatenate(second)

    def _numbered_through(self, rows: Any) -> NDArray[np.int64]:
        """Return the rows of all parts, numbered among all rows."""
        spans = self.row_ranges.values()
        return np.concatenate([r + span.start for r, span in zip(rows, spans, strict=True)])

    # --- Distances ---------------------------------------------------------------------------

    def _need_each_point(self) -> None:
        if not self.place.each_point:
            raise NotImplementedError(_EACH_POINT)

    def distances(self, centers: Centers) -> Distances:
        """Return each point's canonical distance to the center of its label."""
        self._need_each_point()
        return self._joined("ask", self.labelled("distances", centers))

    def distances_to(self, center: Centers) -> Distances:
        """Return each point's canonical distance to one (d,) center."""
        self._need_each_point()
        return self._joined("ask", self.everywhere(None, "distances_to", center))

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return nearest labels and canonical distances without changing the state."""
        self._need_each_point()
        found = list(self.place.each("ask", self.everywhere(None, "nearest", centers)))
        labels, distances = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
        return labels, distances

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) square roots of the canonical distances to all centers."""
        return self._joined("ask", self.everywhere(None, "roots", centers))

    def distance_error(self, centers: Centers) -> float:
        """Return what a canonical distance may be off by beyond (d + 3) u of itself."""
        return sparse_distance_error(centers) if self.description.sparse else 0.0

    def losses_without(self, centers: Centers, gone: NDArray[np.bool_]) -> Distances:
        """Return the losses of points whose center is gone."""
        return self._joined("ask", self.labelled("losses_without", centers, gone))

    # --- Candidates for one more center ------------------------------------------------------

    def best_candidate(self, centers: Centers, masses: Any, most: int) -> tuple[int, float] | None:
        """Return the best of all candidates if they are few.

        Else None where rows may be gathered: the caller tries others too, spread evenly over the
        order of all values. Where no number for each point may be collected, these are found
        without that order (`candidates`). In a file only the farthest are tried.
        """
        rows, _, outside = self.far_rows(centers, most, masses)
        if outside > 0 and self.place.may_gather:
            return None
        tried, by_part = self.rows(rows), self._masses_by_part(masses)
        own = all(given is None for _, given in by_part.values())
        spread = outside > 0 and own and not self.place.each_point
        if spread:
            half = most // 2
            far = self.rows(self.far_rows(centers, half, masses)[0])
            both = np.concatenate([far, self._spread_values(centers, half)])
            tried = np.unique(both + both.dtype.type(0), axis=0)
        if len(tried) == 0:
            return -1, 0.0
        asked = self.labelled(centers, tried)
        given = {number: (*asked[number], by_part[number][1]) for number in asked}
        exact = self.place.summed("gains", given)
        gains = [exact.rounded(k) for k in range(len(tried))]
        best = int(np.argmax(gains))
        if gains[best] <= 0:
            return -1, 0.0
        return self._row_of(tried[best]) if spread else int(rows[best]), gains[best]

    def _spread_values(self, centers: Centers, many: int) -> Centers:
        """Return values spread evenly over the order of all rows that may become centers."""
        name = uuid.uuid4().bytes

        def asked(question: str, *given: Any) -> Any:
            return self.place.summed("candidates", self.labelled(question, name, centers, *given))

        last = int(asked("many").value[0]) - 1
        ranks = np.unique(np.linspace(0, last, many).astype(np.int64))
        return values_at(asked, ranks, self.n_features, self.dtype)

    def _row_of(self, value: Centers) -> int:
        """Return the first row that is equal to a value."""
        found = self.place.each("row_of", self.everywhere(value))
        spans = zip(self.row_ranges.values(), found, strict=True)
        row: int = next(span.start + row for span, row in spans if row >= 0)
        return row

    def far_rows(
        self, centers: Centers, many: int, masses: Any
    ) -> tuple[NDArray[np.int64], Distances, float]:
        """Return the farthest points of positive mass, in the order of their values.

        Equally far points are taken in the order of values. The farthest of all are among the
        farthest of each part; one more of these shows how far the others are at most.
        """
        more, by_part = many + 1, self._masses_by_part(masses)
        asked = {number: (at, centers, more, own) for number, (at, own) in by_part.items()}
        found: list[FarRows] = list(self.place.each("far_rows", asked))
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

    def _masses_by_part(self, masses: Any) -> dict[int, tuple[Labelling | None, Distances | None]]:
        """Return each part's masses: None for its own, kept ones where there is a labelling."""
        if masses is None or masses is self.__dict__.get("weights"):
            return dict.fromkeys(self.row_ranges, (None, None))
        if isinstance(masses, DistantMasses) and masses.at is not None:
            return {number: (at, None) for number, at in masses.at.items()}
        return {number: (None, masses[span]) for number, span in self.row_ranges.items()}

    # --- Arithmetic of centers ---------------------------------------------------------------

    def total(self, values: NDArray[np.float64]) -> float:
        """Return the exact sum of an array, rounded once."""
        return native.total(values, self._n_threads)

    def step(self, found: Assignment, centers: Centers) -> tuple[float, float]:
        """Return the shift and the movement of a step from the centers to the means found."""
        return native.step(found, centers, self._n_threads)

    def turn(self, found: Assignment, centers: Centers) -> Turn:
        """Return the step of unit centers to the directions of the means found."""
        return native.turn(found, centers, self._n_threads)

    def digest(self, centers: Centers) -> bytes:
        """Return 16 bytes that stand for the centers."""
        return digest(centers)

    # --- Other oracles and methods -----------------------------------------------------------

    def trimmed(self, mass: float, weight_sum: WeightSum | None = None) -> TrimmedParts:
        """Return the oracle over these points that keeps the nearest ones of a mass."""
        return TrimmedParts(self, mass, weight_sum)

    def kept_masses(self) -> DistantMasses:
        """Return the kept masses at the current, trimmed labels."""
        return DistantMasses(self, {number: at for number, (at,) in self.labelled().items()})

    @cached_property
    def _gathered(self) -> Any:
        """All points in one piece, for methods that have no form in parts."""
        if not self.place.may_gather:
            raise NotImplementedError(
                "this needs all points in one place: draws by the order of values, polishing by "
                "single moves and swaps of centers have no form in parts yet"
            )
        engine = get_engine("cpu" if native_is_available() else "reference")
        return engine.open(self.rows(np.arange(self.n_points)), self.weights, 1)

    def order(self) -> NDArray[np.int64]:
        """Return the rows in an order that depends on their values alone; gathers them."""
        return cast("NDArray[np.int64]", self._gathered.order())

    def spread_rows(self, drawn: NDArray[np.int64], n_trials: int) -> NDArray[np.int64] | None:
        """Return None: k-means++ follows its specification, by distances and order."""
        return None

    def sampling(self) -> None:
        """Return None: k-means|| takes `engines.sampling.Part`."""
        return None

    def single_moves(self, centers: Centers, labels: Labels | None = None) -> SingleMoves:
        """Return a search by single moves; gathers the points."""
        labels = self.labels() if labels is None else labels
        return cast("SingleMoves", self._gathered.single_moves(centers, labels))

    def swaps(self) -> Swaps:
        """Return the costs of swapping a center for a data point; gathers the points."""
        return cast("Swaps", self._gathered.swaps())


class DistantMasses:
    """(n,) weights, or kept masses at a labelling, fetched from the parts when they are needed.

    Of weights, an index array fetches only the rows that it names.
    """

    dtype = np.dtype(np.float64)

    def __init__(self, points: PartsWorkspace, at: dict[int, Labelling] | None = None) -> None:
        self._points, self.at = points, at
        self.shape = (points.n_points,)

    @cached_property
    def _all(self) -> NDArray[np.float64]:
        if self.at is None:
            return self._points.all_weights()
        asked = {number: (at, "kept") for number, at in self.at.items()}
        return np.concatenate(list(self._points.place.each("ask", asked)))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, which: Any) -> Any:
        if self.at is None and isinstance(which, np.ndarray) and which.dtype.kind in "iu":
            return self._points.weights_of(which)
        return self._all[which]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.float64]:
        """Fetch all of them."""
        return self._all.copy() if copy else self._all

    def __gt__(self, other: Any) -> Any:
        return self._all > other


def _key(labellings: dict[int, Labelling]) -> bytes:
    """Return a key of the labellings of all parts; forced rows differ from part to part."""
    return b"".join(dict.fromkeys(at.key for at in labellings.values()))


def _over_clusters(limbs: Limbs) -> Limbs:
    """Return the sum over all clusters, one at a time so that carries come in time."""
    return added(Limbs(limbs.grid, row[np.newaxis]) for row in limbs.values)


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
                    f"part {number} does not match part {origin}: {what} is {here} in the first, "
                    f"{there} in the second"
                )
    return live
