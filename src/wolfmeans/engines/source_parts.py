"""Parts that are chunks of a source: read one after the other, as often as somebody asks.

Every question is a pass over the source, so questions that go together are asked together: the cost
of the first partition comes with the step from it; the cost of the last one with its labels and
near ties. While a chunk is worked on the next one is read. What is kept of points between passes is
what there is room for: labels and bounds, labels alone, or nothing, when labels are found again
from the centers; the bits are the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from wolfmeans.engines import get_engine
from wolfmeans.engines.array_parts import ArrayPart, Description, Labelling, lightest
from wolfmeans.engines.base import Assignment, Centers, Distances, Forced, Labels
from wolfmeans.engines.partial import Grids, Limbs, Partial, Range, added, combined
from wolfmeans.engines.parts import PartedPoints
from wolfmeans.sources.base import Source
from wolfmeans.tensors import ROWS_LOOKED_AT, sampling_step

_UNIT = 2.0**-53
_FEW_TIES = 1024


@dataclass(frozen=True)
class Keeping:
    """What there is room for."""

    rows_at_once: int
    """How many rows a chunk has."""
    state: str = "bounds"
    """What stays of each point between passes: "bounds", "labels" or "nothing"."""
    labels_in_memory: bool = True
    """Else labels that are returned are in a temporary file."""
    seeding: bool = True
    """Whether hashes and distances stay while seeds are sampled."""
    sums_are_large: bool = False
    """Whether the sums of only one chunk beside the total are held, not of some."""


class SourceParts:
    """The chunks of a source.

    Parameters
    ----------
    source : Source
        Where the rows are.
    keeping : Keeping
        How they are read, and what is kept of them.
    engine, n_threads
        For `ArrayPart`.
    algorithm : str
        How nearest centers are found. A tree would have a copy of the rows.

    Attributes
    ----------
    sample : Sample
        Some rows, of the first pass.
    """

    may_gather = False

    def __init__(
        self,
        source: Source,
        keeping: Keeping,
        engine: str = "auto",
        n_threads: int = 1,
        algorithm: str = "auto",
    ) -> None:
        self.source, self.keeping = source, keeping
        self.weights: NDArray[np.float64] | None = None
        self.exponent = 0
        self._settings = (engine, n_threads, "dense" if algorithm == "dense" else "bounds")
        self._passes: list[Generator[Any, None, None]] = []
        self._parts: dict[int, ArrayPart] = {}
        self._shelf: Labels | None = None
        self.sample = Sample(source)
        self._described: list[Description] = []
        for part in self._brought(self.sample.add):
            self._described.append(part.describe())
            part.put_away("nothing")

    def __len__(self) -> int:
        return len(self._described)

    @property
    def n_rows(self) -> int:
        """How many rows the source has."""
        return sum(part.n_points for part in self._described)

    def with_room(self, keeping: Keeping) -> SourceParts:
        """Return the same chunks, of which more or less is kept."""
        twin = self.fork(self._settings[1])
        twin.keeping = keeping
        return twin

    def scaled(self, exponent: int) -> SourceParts:
        """Return 2**exponent times the rows."""
        twin = self.fork(self._settings[1])
        twin.exponent = self.exponent + exponent
        twin._described = [
            replace(
                part,
                smallest=float(np.ldexp(part.smallest, exponent)),
                largest=float(np.ldexp(part.largest, exponent)),
                grids=Grids(_moved(part.grids.rows, exponent), part.grids.weights),
            )
            for part in self._described
        ]
        return twin

    def weighted(self, weights: NDArray[np.float64]) -> SourceParts:
        """Return the same rows with weights."""
        twin = self.fork(self._settings[1])
        twin.weights, twin._described = weights, list(self._described)
        engine = get_engine(self._settings[0])
        for number, part in enumerate(self._described):
            own = weights[self._place(number)]
            # Asked of the engine, which has its own idea of the lowest bit.
            ranges = engine.open(np.zeros((len(own), 1), np.float32), own, 1).ranges()
            twin._described[number] = replace(
                part,
                weighted=True,
                lightest=lightest(own),
                grids=Grids(part.grids.rows, ranges.weights),
            )
        return twin

    def fork(self, n_threads: int) -> SourceParts:
        """Return the same parts without labels."""
        twin = SourceParts.__new__(SourceParts)
        twin.__dict__.update(self.__dict__)
        twin._parts, twin._shelf = {}, None
        twin._settings = (self._settings[0], n_threads, self._settings[2])
        return twin

    def each(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Iterator[Any]:
        """Ask some parts, by their numbers; the answers come in the order of the arguments."""
        if method == "describe":
            return iter([self._described[number] for number in arguments])
        if method == "weights":
            assert self.weights is not None
            return iter([self.weights[self._place(number)] for number in arguments])
        if method == "labels" and all(self._has(n, *given) for n, given in arguments.items()):
            return (self._parts[n].labels(*given) for n, given in arguments.items())
        if all(
            n in self._parts and self._parts[n].knows(method, *given)
            for n, given in arguments.items()
        ):
            return (getattr(self._parts[n], method)(*given) for n, given in arguments.items())
        return self._read(method, arguments)

    def summed(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Any:
        """Return the sum of the answers; few of them are held at once where they are large."""
        answers = self.each(method, arguments)
        if method != "seeding" and not self.keeping.sums_are_large:
            return combined(answers)
        return reduce(lambda total, answer: total.plus([answer]), answers)

    def _has(self, number: int, at: Labelling) -> bool:
        return number in self._parts and self._parts[number].has(at)

    def _read(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Iterator[Any]:
        """Ask in a pass over the source, which ends with the last part that is asked."""
        last = max(arguments, default=-1)
        ending = method == "ending"
        for number, part in enumerate(self._brought()):
            if number in arguments:
                given = arguments[number]
                yield _ending(part, *given) if ending else getattr(part, method)(*given)
            # Nobody goes on from there.
            self._put_away(number, part, "nothing" if ending else self.keeping.state)
            if number == last < len(self) - 1:
                return

    def _put_away(self, number: int, part: ArrayPart, keep: str) -> None:
        shelf = None
        if keep == "labels":
            if self._shelf is None:
                self._shelf = np.empty(self.n_rows, dtype=np.int32)
            shelf = self._shelf[self._place(number)]
        part.put_away(keep, shelf)
        if not self.keeping.seeding:
            part.forget_seeding()

    def _place(self, number: int) -> slice:
        first = number * self.keeping.rows_at_once
        return slice(first, first + self._described[number].n_points)

    def _brought(
        self, look: Callable[[NDArray[np.floating], int], None] | None = None
    ) -> Iterator[ArrayPart]:
        """Yield the parts with their rows, in a pass; whoever gets one puts it away again."""
        chunks = self.source.chunks(self.keeping.rows_at_once)
        self._passes.append(chunks)
        try:
            for number, (first, rows) in enumerate(chunks):
                if look is not None:
                    look(rows, first)
                elif number >= len(self) or len(rows) != self._described[number].n_points:
                    self._refuse_changed(chunks)
                yield self._with_rows(number, first, rows)
                # The next chunk is asked for when nobody holds this one.
                del rows
        finally:
            chunks.close()
            self._passes.remove(chunks)

    def _with_rows(self, number: int, first: int, given: NDArray[np.floating]) -> ArrayPart:
        rows = np.ldexp(given, self.exponent) if self.exponent else given
        weights = None if self.weights is None else self.weights[first : first + len(rows)]
        part = self._parts.get(number)
        if part is None:
            part = self._parts[number] = ArrayPart(rows, weights, *self._settings)
        else:
            part.bring(rows, weights)
        return part

    def _refuse_changed(self, chunks: Iterator[Any]) -> NoReturn:
        """Read on to the end, where the source says what has changed."""
        for _ in chunks:
            pass
        raise ValueError("the source has changed: other chunks than when it was first read")

    def given_up_shelf(self) -> Labels | None:
        """Return where labels are kept; the next ones are kept elsewhere."""
        shelf, self._shelf = self._shelf, None
        return shelf

    def take(self, indices: NDArray[np.int64]) -> Centers:
        """Return some rows."""
        rows = self.source.take(indices)
        return np.ldexp(rows, self.exponent) if self.exponent else rows

    def close(self) -> None:
        """End a pass that nobody finished, and its thread."""
        for chunks in list(self._passes):
            with closing(chunks):
                pass


def _moved(values: Range, exponent: int) -> Range:
    if values.low == values.high:
        return values
    # One more bit, should an engine find the lowest one there.
    return Range(values.low + exponent - 1, values.high + exponent)


class Sample:
    """Some hundred rows of a source, evenly spread, found while it is read."""

    def __init__(self, source: Source) -> None:
        self._most = 2 * ROWS_LOOKED_AT
        self._step = 1 if source.n_rows is None else sampling_step(source.n_rows)
        self._rows: list[NDArray[np.floating]] = []

    def add(self, rows: NDArray[np.floating], first: int) -> None:
        """Take every so many of these rows, the first of which has that number."""
        self._rows.extend(rows[-first % self._step :: self._step].copy())
        while len(self._rows) > self._most:
            self._rows, self._step = self._rows[::2], 2 * self._step

    @property
    def rows(self) -> NDArray[np.floating]:
        """The rows, as the caller gave them."""
        return np.array(self._rows)


# --- The last question -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Ending:
    cost: Limbs
    labels: Labels
    ties: tuple[NDArray[np.int64], Distances, Distances] | None


def _ending(part: ArrayPart, at: Labelling, centers: Centers, slack: float | None) -> _Ending:
    """Answer all that is asked at the end of a fit."""
    cost = part.cost(at, centers)
    ties = None if slack is None else _undecided(part, at, centers, slack)
    return _Ending(cost, part.labels(at), ties)


def _undecided(
    part: ArrayPart, at: Labelling, centers: Centers, slack: float
) -> tuple[NDArray[np.int64], Distances, Distances]:
    """Return a few of the rows of positive weight that cannot be told from a tie, if there are any.

    Those that problems.kmeans can tell apart are left out, by no less a margin than there.
    """
    rows, nearest, second = part.near_ties(at, centers, slack)
    bound = 2.0 * _UNIT * (centers.shape[1] + 3) * (nearest + second)
    bound += 2.0 * slack * (np.sqrt(nearest) + np.sqrt(second) + slack)
    near = ~(second - nearest > 2.0 * bound)
    if part.weights() is not None:
        near &= part.weights_of(rows) > 0
    few = np.flatnonzero(near)
    few = few[np.argsort((second - nearest)[few], kind="stable")[:_FEW_TIES]]
    return rows[few], nearest[few], second[few]


class SourcePoints(PartedPoints):
    """A workspace over the chunks of a source."""

    _parts: SourceParts

    def __init__(self, parts: SourceParts, n_threads: int = 1) -> None:
        super().__init__(parts, n_threads)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._ahead: tuple[bytes, bytes, Partial] | None = None
        self._last: Assignment | None = None
        self._costs: dict[tuple[bytes, bytes], float] = {}
        self._returned: tuple[bytes, Labels] | None = None
        self._ties: tuple[bytes, float, Any] | None = None
        self._total: tuple[Limbs, Limbs] | None = None

    def fork(self, n_threads: int) -> SourcePoints:
        """Return a workspace of the same points, without labels, that shares the source."""
        twin = super().fork(n_threads)
        assert isinstance(twin, SourcePoints)
        twin._begin_anew()
        return twin

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
            partial = self._parts.summed("assign", asked)
        self._at = to
        self._total = (_over_clusters(partial.totals), _over_clusters(partial.sums))
        self._last = self._arithmetic.rounded(partial, centers)
        return self._last

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of w D over the points at their labels, rounded once.

        In the same pass: at other centers than those of the labels, the step to these; at their
        own, the labels themselves and what is near a tie.
        """
        asked = self._labelled(centers)
        key = self._arithmetic.digest(np.ascontiguousarray(centers))
        labels_key = self._key
        if (labels_key, key) not in self._costs:
            if labels_key == key:
                cost = self._end(asked)
            else:
                to = self._labellings(centers, None)
                together = {number: (*given, to[number]) for number, given in asked.items()}
                cost, partial = self._parts.summed("cost_and_step", together).answers
                self._ahead = (labels_key, key, partial)
            self._costs = {(labels_key, key): cost.rounded()}
        return self._costs[labels_key, key]

    def _end(self, asked: dict[int, tuple[Any, ...]]) -> Limbs:
        """Ask for all that is asked at the end, and keep it."""
        slack = None
        if self._last is not None and self._last.moved == 0:
            residuals = self._last.residuals
            # As problems.kmeans finds it, and no less.
            slack = float(np.sqrt((residuals**2).sum(axis=1).max())) * (1.0 + 1e-9)
        shelf = self._last_labels()
        cost: Limbs | None = None
        ties = []
        together = {number: (*given, slack) for number, given in asked.items()}
        for place, found in zip(
            self._places.values(), self._parts.each("ending", together), strict=True
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
        asked = self._labelled(centers)
        key = self._arithmetic.digest(np.ascontiguousarray(centers))
        if self._ties is not None and self._ties[0] == self._key == key and slack <= self._ties[1]:
            ties: tuple[NDArray[np.int64], Distances, Distances] = self._ties[2]
            return ties
        together = {number: (*given, slack) for number, given in asked.items()}
        found = [end.ties for end in self._parts.each("ending", together)]
        joined: tuple[NDArray[np.int64], Distances, Distances] = self._joined(found)
        return joined

    def snapshot(self) -> Labels:
        """Return the labels: an array in memory, or mapped from a file where there is no room."""
        asked = self._labelled()
        if self._returned is None or self._returned[0] != self._key:
            shelf = self._new_labels()
            answers = self._parts.each("labels", asked)
            for place, labels in zip(self._places.values(), answers, strict=True):
                shelf.put(place, labels)
            self._returned = (self._key, shelf.whole())
        return self._returned[1]

    def labels(self) -> Labels:
        """Return a copy of the current labels."""
        return np.array(self.snapshot())

    def _new_labels(self) -> LabelShelf:
        return LabelShelf(self.n_points, in_memory=self._parts.keeping.labels_in_memory)

    def _last_labels(self) -> LabelShelf:
        """Return where the labels go that nobody goes on from: where they are, if they are kept."""
        shelf = self._parts.given_up_shelf()
        return self._new_labels() if shelf is None else LabelShelf(self.n_points, of=shelf)

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return data rows, dense, in the centers' dtype."""
        indices = np.asarray(indices, dtype=np.int64)
        if np.isin(indices, self._far[0]).all():
            return super().rows(indices)
        return self._parts.take(indices)

    def weights_of(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weights of some rows."""
        assert self._parts.weights is not None
        return self._parts.weights[rows]

    def mean(self, *, weighted: bool) -> Centers:
        """Return the (d,) mean of all points, which known sums of the clusters add up to."""
        if self._total is None or (self._weighted and not weighted):
            return super().mean(weighted=weighted)
        zero = np.zeros((1, self.n_features), dtype=self.dtype)
        totals, sums = self._total
        nothing = Limbs.of_terms(np.zeros(0))
        mean: Centers = self._arithmetic.rounded(Partial(0, nothing, totals, sums), zero).means[0]
        return mean


def _over_clusters(limbs: Limbs) -> Limbs:
    """Return the sum over all clusters, one at a time so that carries come in time."""
    return added(Limbs(limbs.grid, row[np.newaxis]) for row in limbs.values)


class LabelShelf:
    """Labels of all rows, put down in any order: in memory, or in a file without a name.

    The file is gone with the last array that shows it. Other numbers may take the labels' place.
    """

    def __init__(
        self,
        n_points: int,
        *,
        in_memory: bool = True,
        of: Labels | None = None,
        dtype: Any = np.int32,
    ) -> None:
        self._labels: Any = of
        self._n_points, self._dtype = n_points, np.dtype(dtype)
        if of is None and in_memory:
            self._labels = np.empty(n_points, dtype=dtype)
        elif of is None:
            self._file = tempfile.TemporaryFile(prefix="wolfmeans-labels-")  # noqa: SIM115

    def put(self, place: slice, labels: NDArray[Any]) -> None:
        """Write some of the labels."""
        if self._labels is not None:
            self._labels[place] = labels
        else:
            # Written, not mapped: pages that are mapped would count as memory.
            self._file.seek(self._dtype.itemsize * place.start)
            self._file.write(np.ascontiguousarray(labels, dtype=self._dtype).data)

    def whole(self) -> Any:
        """Return all labels."""
        if self._labels is not None:
            return self._labels
        with self._file as file:
            file.flush()
            # The map keeps the file without our handle.
            self._labels = np.memmap(file, dtype=self._dtype, mode="r+", shape=(self._n_points,))
        return self._labels
