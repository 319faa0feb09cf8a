"""Parts that are chunks of a source, read one after the other.

Every question is a pass over the source; while a chunk is processed, the next one is read. Between
passes as much is kept of the points as there is room for: labels and bounds, labels alone, or
nothing. Then labels are found again from the centers; the bits are the same.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from copy import copy
from dataclasses import dataclass, replace
from functools import reduce
from itertools import accumulate, pairwise
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.workspace import Labels
from wolfmeans.engines.native import range_of
from wolfmeans.engines.places.memory import Arguments, Description, MemoryPart, lightest
from wolfmeans.exact.limbs import Grids, Range, combined
from wolfmeans.exact.native import ROWS_LOOKED_AT, sampling_step


@dataclass(frozen=True)
class Keeping:
    """How a source is read, and what is kept of its points in memory."""

    rows_at_once: int
    """How many rows a chunk has."""
    state: str = "bounds"
    """What is kept of each point between passes: "bounds", "labels" or "nothing"."""
    labels_in_memory: bool = True
    """Whether returned labels are in memory; else they are in a temporary file."""
    seeding: bool = True
    """Whether hashes and distances are kept while seeds are sampled."""
    at_once: int = 1
    """How many chunks are processed at the same time."""
    sums_are_large: bool = False
    """Whether the sums of only one chunk are held beside the total, not of several."""


class ChunkSource(Protocol):
    """Rows that can be read in chunks repeatedly, in the same order (files.source)."""

    n_rows: int | None
    """How many rows there are; None until they are counted."""

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
    passes_are_slow = True

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
        self._labels: Labels | None = None
        self.sample = Sample(source)
        self._described: list[Description] = []
        with closing(self._read_parts(self.sample.add)) as parts:
            for part in parts:
                self._described.append(part.describe())
                part.detach_rows("nothing")

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
        for number, part in enumerate(self._described):
            own = twin._own_weights(number)
            grids = Grids(part.grids.rows, range_of(own))
            twin._described[number] = replace(
                part, weighted=True, lightest=lightest(own), grids=grids
            )
        return twin

    def fork(self, n_threads: int) -> FilePlace:
        """Return the same parts without labels."""
        twin = copy(self)
        twin._parts, twin._labels = {}, None
        twin._settings = (self._settings[0], n_threads, self._settings[2])
        return twin

    def each(self, method: str, arguments: Arguments) -> Iterator[Any]:
        """Return the answers of some parts, in the order of the arguments."""
        if method == "describe":
            return iter([self._described[number] for number in arguments])
        if method == "rows":
            return self._take(arguments)
        if method == "weights":
            return (self._own_weights(number, *given) for number, given in arguments.items())
        if all(n in self._parts and self._parts[n].knows(method, *g) for n, g in arguments.items()):
            return (getattr(self._parts[n], method)(*given) for n, given in arguments.items())
        reading = self._read(method, arguments)
        self._passes[:] = [begun for begun in self._passes if begun.gi_frame is not None]
        self._passes.append(reading)
        return reading

    def summed(self, method: str, arguments: Arguments) -> Any:
        """Return the sum of the answers; few of them are held at once where they are large."""
        answers = self.each(method, arguments)
        if method != "seeding" and not self.keeping.sums_are_large:
            return combined(answers)
        return reduce(lambda total, answer: total.plus([answer]), answers)

    def of_points(self, method: str, arguments: Arguments, dtype: Any) -> Any:
        """Return a number for each point, in memory or mapped from a file.

        Labels are in memory where there is room.
        """
        in_memory = method == "labels" and self.keeping.labels_in_memory
        buffer = PointBuffer(self.n_rows, in_memory=in_memory, dtype=dtype)
        for number, found in zip(arguments, self.each(method, arguments), strict=True):
            buffer.put(self._rows_of(number), found)
        return buffer.whole()

    def new_label_buffer(self) -> PointBuffer:
        """Return a buffer for the last labels: the one that they are kept in, if they are."""
        labels, self._labels = self._labels, None
        return PointBuffer(self.n_rows, in_memory=self.keeping.labels_in_memory, of=labels)

    def _own_weights(self, number: int, rows: Any = slice(None)) -> NDArray[np.float64]:
        assert self.weights is not None
        weights: NDArray[np.float64] = self.weights[self._rows_of(number)][rows]
        return weights

    def _take(self, arguments: Arguments) -> Iterator[Any]:
        """Return some rows of some parts, all of which are taken at once."""
        wanted = [self._rows_of(number).start + rows for number, (rows,) in arguments.items()]
        taken = self.source.take(np.concatenate(wanted))
        taken = np.ldexp(taken, self.exponent) if self.exponent else taken
        ends = accumulate(map(len, wanted), initial=0)
        return (taken[first:end] for first, end in pairwise(ends))

    def _read(self, method: str, arguments: Arguments) -> Generator[Any, None, None]:
        """Ask in a pass over the source, which ends with the last part that is asked."""
        last = max(arguments, default=-1)
        if self._labels is None and self.keeping.state == "labels":
            self._labels = np.empty(self.n_rows, dtype=np.int32)
        # Threads that take a chunk each need not wait for each other at the end of every chunk.
        workers = ThreadPoolExecutor(self.keeping.at_once, thread_name_prefix="wolfmeans chunk")
        with closing(self._read_parts()) as parts, workers as pool:
            waiting: deque[Future[Any]] = deque()
            for number, part in enumerate(parts):
                if number in arguments:
                    waiting.append(
                        pool.submit(self._answer, number, part, method, arguments[number])
                    )
                else:
                    self._detach_rows(number, part, self.keeping.state)
                del part
                if number == last < len(self) - 1:
                    break
                if len(waiting) == self.keeping.at_once:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def _answer(self, number: int, part: MemoryPart, method: str, given: tuple[Any, ...]) -> Any:
        answer = getattr(part, method)(*given)
        # The last questions: no step starts from these labels.
        last = method in ("ending", "undecided")
        self._detach_rows(number, part, "nothing" if last else self.keeping.state)
        return answer

    def _detach_rows(self, number: int, part: MemoryPart, keep: str) -> None:
        labels = self._labels
        part.detach_rows(keep, None if labels is None else labels[self._rows_of(number)])
        if not self.keeping.seeding:
            part.forget_seeding()

    def _rows_of(self, number: int) -> slice:
        """Return the rows of a part among all rows."""
        first = number * self.keeping.rows_at_once
        return slice(first, first + self._described[number].n_points)

    def _read_parts(
        self, inspect: Callable[[NDArray[np.floating], int], None] | None = None
    ) -> Generator[MemoryPart, None, None]:
        """Yield the parts with their rows, in a pass; the caller detaches the rows again."""
        with closing(self.source.chunks(self.keeping.rows_at_once)) as chunks:
            for number, (first, rows) in enumerate(chunks):
                if inspect is not None:
                    inspect(rows, first)
                elif number >= len(self) or len(rows) != self._described[number].n_points:
                    self._refuse_changed(chunks)
                yield self._with_rows(number, first, rows)
                # The next chunk is asked for when nothing refers to this one.
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
            part.attach_rows(rows, weights)
        return part

    def _refuse_changed(self, chunks: Iterator[Any]) -> NoReturn:
        """Read to the end, where the source reports what has changed."""
        for _ in chunks:
            pass
        raise ValueError("the source has changed: other chunks than when it was first read")

    def close(self) -> None:
        """End unfinished passes, and their threads."""
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
        """Take some of these rows, the first of which has that number."""
        self._rows.extend(rows[-first % self._step :: self._step].copy())
        while len(self._rows) > self._most:
            self._rows, self._step = self._rows[::2], 2 * self._step

    @property
    def rows(self) -> NDArray[np.floating]:
        """The rows, as the caller gave them."""
        return np.array(self._rows)


class PointBuffer:
    """A number for each row, written in any order: in memory, or in a file without a name.

    The file is deleted with the last array that maps it.
    """

    def __init__(
        self,
        n_points: int,
        *,
        in_memory: bool = True,
        of: Labels | None = None,
        dtype: Any = np.int32,
    ) -> None:
        self._values: Any = of
        self._n_points, self._dtype = n_points, np.dtype(dtype)
        if of is None and in_memory:
            self._values = np.empty(n_points, dtype=dtype)
        elif of is None:
            self._file = tempfile.TemporaryFile(prefix="wolfmeans-labels-")  # noqa: SIM115

    def put(self, rows: slice, values: NDArray[Any]) -> None:
        """Write the numbers of some rows."""
        if self._values is not None:
            self._values[rows] = values
        else:
            # Written, not mapped: pages that are mapped would count as memory.
            self._file.seek(self._dtype.itemsize * rows.start)
            self._file.write(np.ascontiguousarray(values, dtype=self._dtype).data)

    def whole(self) -> Any:
        """Return all numbers."""
        if self._values is not None:
            return self._values
        self._file.flush()
        with self._file as file:
            return np.memmap(file, dtype=self._dtype, mode="r+", shape=(self._n_points,))
