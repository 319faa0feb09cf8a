"""Parts that are chunks of a source: read one after the other, as often as somebody asks.

Every question is a pass over the source; while a chunk is worked on the next one is read. What is
kept of points between passes is what there is room for: labels and bounds, labels alone, or
nothing, when labels are found again from the centers; the bits are the same.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.workspace import Centers, Labels
from wolfmeans.engines import get_engine
from wolfmeans.engines.places.memory import Description, Labelling, MemoryPart, lightest
from wolfmeans.exact.arrays import ROWS_LOOKED_AT, sampling_step
from wolfmeans.exact.limbs import Grids, Range, combined

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
    at_once: int = 1
    """How many chunks are worked on at the same time."""
    sums_are_large: bool = False
    """Whether the sums of only one chunk beside the total are held, not of some."""


class ChunkSource(Protocol):
    """Rows that are read in chunks, in the same order as often as one likes (files.source)."""

    n_rows: int | None
    """How many rows there are; None before they were counted."""

    def chunks(self, rows_at_once: int) -> Generator[Any, None, None]:
        """Yield the number of the first row and the rows, chunk after chunk."""

    def take(self, rows: Any) -> NDArray[np.floating]:
        """Return some rows."""


class FilePlace:
    """The chunks of a source.

    Parameters
    ----------
    source : ChunkSource
        Where the rows are.
    keeping : Keeping
        How they are read, and what is kept of them.
    engine, n_threads
        For `MemoryPart`.
    algorithm : str
        How nearest centers are found. A tree would have a copy of the rows.

    Attributes
    ----------
    sample : Sample
        Some rows, of the first pass.
    """

    may_gather = False
    each_point = True

    def __init__(
        self,
        source: ChunkSource,
        keeping: Keeping,
        engine: str = "auto",
        n_threads: int = 1,
        algorithm: str = "auto",
    ) -> None:
        self.source, self.keeping = source, keeping
        self.weights: NDArray[np.float64] | None = None
        self.exponent = 0
        self._settings = (engine, n_threads, "dense" if algorithm == "dense" else "bounds")
        self._passes: list[Any] = []
        self._parts: dict[int, MemoryPart] = {}
        self._shelf: Labels | None = None
        self.sample = Sample(source)
        self._described: list[Description] = []
        with closing(self._brought(self.sample.add)) as brought:
            for part in brought:
                self._described.append(part.describe())
                part.put_away("nothing")

    def __len__(self) -> int:
        return len(self._described)

    @property
    def n_rows(self) -> int:
        """How many rows the source has."""
        return sum(part.n_points for part in self._described)

    def with_room(self, keeping: Keeping) -> FilePlace:
        """Return the same chunks, of which more or less is kept."""
        twin = self.fork(self._settings[1])
        twin.keeping = keeping
        return twin

    def scaled(self, exponent: int) -> FilePlace:
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

    def weighted(self, weights: NDArray[np.float64]) -> FilePlace:
        """Return the same rows with weights."""
        twin = self.fork(self._settings[1])
        twin.weights, twin._described = weights, list(self._described)
        engine = get_engine(self._settings[0])
        for number, part in enumerate(self._described):
            own = weights[self._place(number)]
            # Asked of the engine, which has its own idea of the lowest bit.
            alone: Any = engine.open(np.zeros((len(own), 1), np.float32), own, 1)
            twin._described[number] = replace(
                part,
                weighted=True,
                lightest=lightest(own),
                grids=Grids(part.grids.rows, alone.ranges().weights),
            )
        return twin

    def fork(self, n_threads: int) -> FilePlace:
        """Return the same parts without labels."""
        twin = FilePlace.__new__(FilePlace)
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
        if method == "seeding" and all(self._can_seed(n, *g) for n, g in arguments.items()):
            return (self._seeded(n, *given) for n, given in arguments.items())
        reading = self._read(method, arguments)
        self._passes[:] = [begun for begun in self._passes if begun.gi_frame is not None]
        self._passes.append(reading)
        return reading

    def summed(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Any:
        """Return the sum of the answers; few of them are held at once where they are large."""
        answers = self.each(method, arguments)
        if method != "seeding" and not self.keeping.sums_are_large:
            return combined(answers)
        return reduce(lambda total, answer: total.plus([answer]), answers)

    def _has(self, number: int, at: Labelling) -> bool:
        return number in self._parts and self._parts[number].has(at)

    def _can_seed(self, number: int, at: Any, question: str, *given: Any) -> bool:
        return number in self._parts and self._parts[number].can_seed(at, question)

    def _seeded(self, number: int, *given: Any) -> Any:
        weights = None if self.weights is None else self.weights[self._place(number)]
        return self._parts[number].seeding_without_rows(weights, *given)

    def _read(
        self, method: str, arguments: Mapping[int, tuple[Any, ...]]
    ) -> Generator[Any, None, None]:
        """Ask in a pass over the source, which ends with the last part that is asked."""
        last = max(arguments, default=-1)
        if self._shelf is None and self.keeping.state == "labels":
            self._shelf = np.empty(self.n_rows, dtype=np.int32)
        # Threads that take a chunk each need not wait for each other at the end of every chunk.
        with closing(self._brought()) as brought, self._workers() as pool:
            waiting: deque[Future[Any]] = deque()
            for number, part in enumerate(brought):
                if number in arguments:
                    waiting.append(
                        pool.submit(self._answer, number, part, method, arguments[number])
                    )
                else:
                    self._put_away(number, part, self.keeping.state)
                del part
                if number == last < len(self) - 1:
                    break
                if len(waiting) == self.keeping.at_once:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _workers(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.keeping.at_once, thread_name_prefix="wolfmeans chunk")

    def _answer(self, number: int, part: MemoryPart, method: str, given: tuple[Any, ...]) -> Any:
        answer = getattr(part, method)(*given)
        # Nobody goes on from the end.
        self._put_away(number, part, "nothing" if method == "ending" else self.keeping.state)
        return answer

    def _put_away(self, number: int, part: MemoryPart, keep: str) -> None:
        shelf = None
        if keep == "labels" and self._shelf is not None:
            shelf = self._shelf[self._place(number)]
        part.put_away(keep, shelf)
        if not self.keeping.seeding:
            part.forget_seeding()

    def _place(self, number: int) -> slice:
        first = number * self.keeping.rows_at_once
        return slice(first, first + self._described[number].n_points)

    def new_buffer(self, method: str, dtype: Any) -> PointBuffer:
        """Return room for a number of each point.

        Labels are in memory where there is room; other numbers are mapped from a file.
        """
        in_memory = method == "labels" and self.keeping.labels_in_memory
        n_points = sum(part.n_points for part in self._described)
        return PointBuffer(n_points, in_memory=in_memory, dtype=dtype)

    def of_points(
        self, method: str, arguments: Mapping[int, tuple[Any, ...]], dtype: Any = np.int32
    ) -> Any:
        """Return a number for each point, in memory or mapped from a file."""
        buffer = self.new_buffer(method, dtype)
        for number, found in zip(arguments, self.each(method, arguments), strict=True):
            buffer.put(self._place(number), found)
        return buffer.whole()

    def _brought(
        self, look: Callable[[NDArray[np.floating], int], None] | None = None
    ) -> Generator[MemoryPart, None, None]:
        """Yield the parts with their rows, in a pass; whoever gets one puts it away again."""
        with closing(self.source.chunks(self.keeping.rows_at_once)) as chunks:
            for number, (first, rows) in enumerate(chunks):
                if look is not None:
                    look(rows, first)
                elif number >= len(self) or len(rows) != self._described[number].n_points:
                    self._refuse_changed(chunks)
                yield self._with_rows(number, first, rows)
                # The next chunk is asked for when nobody holds this one.
                del rows

    def _with_rows(self, number: int, first: int, given: NDArray[np.floating]) -> MemoryPart:
        rows = np.ldexp(given, self.exponent) if self.exponent else given
        weights = None if self.weights is None else self.weights[first : first + len(rows)]
        part = self._parts.get(number)
        if part is None:
            engine, n_threads, algorithm = self._settings
            each = max(1, n_threads // self.keeping.at_once)
            part = self._parts[number] = MemoryPart(rows, weights, engine, each, algorithm)
        else:
            part.bring(rows, weights)
        return part

    def _refuse_changed(self, chunks: Iterator[Any]) -> NoReturn:
        """Read on to the end, where the source says what has changed."""
        for _ in chunks:
            pass
        raise ValueError("the source has changed: other chunks than when it was first read")

    def given_up_labels(self) -> Labels | None:
        """Return where labels are kept; the next ones are kept elsewhere."""
        shelf, self._shelf = self._shelf, None
        return shelf

    def take(self, indices: NDArray[np.int64]) -> Centers:
        """Return some rows."""
        rows = self.source.take(indices)
        return np.ldexp(rows, self.exponent) if self.exponent else rows

    def close(self) -> None:
        """End passes that nobody finished, and their threads."""
        while self._passes:
            self._passes.pop().close()


def _moved(values: Range, exponent: int) -> Range:
    if values.low == values.high:
        return values
    # One more bit, should an engine find the lowest one there.
    return Range(values.low + exponent - 1, values.high + exponent)


class Sample:
    """Some hundred rows of a source, evenly spread, found while it is read."""

    def __init__(self, source: ChunkSource) -> None:
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


class PointBuffer:
    """A number for each row, put down in any order: in memory, or in a file without a name.

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
        self._file.flush()
        with self._file as file:
            return np.memmap(file, dtype=self._dtype, mode="r+", shape=(self._n_points,))
