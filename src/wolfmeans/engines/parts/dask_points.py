"""Points that are blocks of a Dask collection, on a cluster (`cluster`) or in this process."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.workspace import Centers, Distances, Labels
from wolfmeans.engines.parts import blocks as on_worker
from wolfmeans.engines.parts.arrays import Description
from wolfmeans.engines.parts.blocks import Block, PartOfFit
from wolfmeans.engines.parts.candidates import best_of, candidates, values_at
from wolfmeans.engines.parts.points import KeptMasses, PartedPoints, Parts

_EACH_POINT = (
    "this needs a number for each point in one place, and Dask data stays in its partitions: "
    "empty='admissible' does; fit with empty='farthest'"
)
FAN_IN = 8
"""So many answers are added by one task."""


class DaskParts(Parts, Protocol):
    """What the two kinds of places have beyond `Parts`."""

    def mapped(self, function: Callable[..., Any], *given: Sequence[Any]) -> list[Any]:
        """Call a function with each block and more, and leave what it returns there."""

    def looked_at(self) -> Iterator[Any]:
        """Look through all blocks (`blocks.Look`)."""

    def with_blocks(self, blocks: list[Any]) -> DaskParts:
        """Return the parts that other blocks are."""

    def array_of(
        self,
        method: str,
        arguments: Mapping[int, tuple[Any, ...]],
        sizes: Sequence[int],
        dtype: Any = np.int32,
    ) -> Any:
        """Return a number for each row as a Dask array with a block for each part."""

    def close(self) -> None:
        """Free what is kept for these parts and for their forks."""


class ThreadParts:
    """Blocks in this process, asked by threads."""

    may_gather = False

    def __init__(self, blocks: list[Block], part: PartOfFit, n_threads: int) -> None:
        self.blocks = blocks
        self.described: list[Description] | None = None
        self._part, self._n_threads = part, n_threads
        self._fits = [part.fit]

    def __len__(self) -> int:
        return len(self.blocks)

    def fork(self, n_threads: int) -> ThreadParts:
        """Return the same parts without labels."""
        twin = ThreadParts(self.blocks, replace(self._part, fit=uuid.uuid4().hex), self._n_threads)
        twin.described = self.described
        twin._fits = self._fits
        self._fits.append(twin._part.fit)
        return twin

    def with_blocks(self, blocks: list[Any]) -> ThreadParts:
        """Return the parts that other blocks are."""
        twin = self.fork(1)
        twin.blocks, twin.described = blocks, None
        return twin

    def mapped(self, function: Callable[..., Any], *given: Sequence[Any]) -> list[Any]:
        """Call a function with each block and more."""
        return list(self._called(function, self.blocks, *given))

    def looked_at(self) -> Iterator[on_worker.Look]:
        """Look through all blocks."""
        numbered = [replace(self._part, number=i) for i in range(len(self))]
        return self._called(on_worker.look, self.blocks, numbered)

    def _called(self, function: Callable[..., Any], *given: Sequence[Any]) -> Iterator[Any]:
        with ThreadPoolExecutor(self._n_threads) as threads:
            yield from threads.map(function, *given)

    def each(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Iterator[Any]:
        """Ask some parts, by their numbers; the answers come in the order of the arguments."""
        if method == "describe" and self.described is not None:
            return iter([self.described[number] for number in arguments])
        return self._called(
            on_worker.ask,
            [self.blocks[number] for number in arguments],
            [replace(self._part, number=number) for number in arguments],
            [method] * len(arguments),
            list(arguments.values()),
        )

    def summed(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Any:
        """Return the sum of the answers, added some at a time."""
        answers = self.each(method, arguments)
        total = next(answers)
        while some := list(itertools.islice(answers, FAN_IN)):
            total = on_worker.summed([total, *some])
        return total

    def array_of(
        self,
        method: str,
        arguments: Mapping[int, tuple[Any, ...]],
        sizes: Sequence[int],
        dtype: Any = np.int32,
    ) -> Any:
        """Return a number for each row as a Dask array whose blocks are here."""
        found = dict(zip(arguments, self.each(method, arguments), strict=True))
        return dask_array(f"wolfmeans-{method}-{uuid.uuid4().hex}", found, sizes, dtype)

    def close(self) -> None:
        """Free what is kept for these parts."""
        on_worker.forget(self._part.client, list(self._fits))


def dask_array(name: str, blocks: Mapping[int, Any], sizes: Sequence[int], dtype: Any) -> Any:
    """Return (n,) numbers; parts that are not among the blocks have no rows."""
    da = import_module("dask.array")
    nothing = np.empty(0, dtype=dtype)
    graph = {(name, number): blocks.get(number, nothing) for number in range(len(sizes))}
    return da.Array(graph, name, chunks=(tuple(sizes),), dtype=dtype)


class DaskPoints(PartedPoints):
    """A workspace over Dask's blocks: what there is for each point stays where the points are."""

    parts: Any

    def snapshot(self) -> Any:
        """Return the labels as a Dask array."""
        return self.of_points("labels", self.labelled(), np.int32)

    def of_points(self, method: str, asked: dict[int, tuple[Any, ...]], dtype: Any) -> Any:
        """Return what each part answers for each of its points, as a Dask array."""
        return self.parts.array_of(method, asked, self.sizes, dtype)

    def best_candidate(self, centers: Centers, masses: Any, most: int) -> tuple[int, float] | None:
        """Return the row that as one more center gains most, of those that are tried in memory."""
        known = masses is None or masses is self.weights or isinstance(masses, KeptMasses)
        if not known:
            return super().best_candidate(centers, masses, most)
        rows, _, outside = self.far_rows(centers, most, masses)
        tried = self.rows(rows)
        if outside > 0:
            half = most // 2
            far = self.far_rows(centers, half, masses)[0]
            name = uuid.uuid4().bytes

            def asked(*question: Any) -> Any:
                about = self.labelled(name, centers, *question)
                return self.parts.summed("candidates", about)

            many = int(asked("many").all()[0])
            places = np.unique(np.linspace(0, many - 1, half).astype(np.int64))
            spread = values_at(asked, places, self.n_features, self.dtype)
            tried = candidates(self.rows(far), spread)
        if len(tried) == 0:
            return -1, 0.0
        gains = self.parts.summed("gains", self.labelled(centers, tried, None))
        best = best_of(np.array([gains.rounded(k) for k in range(len(tried))]))
        if best is None:
            return -1, 0.0
        return self._row_of(tried[best]), gains.rounded(best)

    def _row_of(self, value: Centers) -> int:
        """Return the first row that is equal to a value that is there."""
        found = self.parts.each("row_of", self.everywhere(value))
        places = zip(self.places.values(), found, strict=True)
        row: int = next(place.start + row for place, row in places if row >= 0)
        return row

    def near_ties(
        self, centers: Centers, slack: float
    ) -> tuple[NDArray[np.int64], Distances, Distances]:
        """Return one tie of each part that has any, which is all that anybody wants to know."""
        found = list(self.parts.each("undecided", self.labelled(centers, slack)))
        rows = self._numbered_through([near[0] for near in found])
        nearest, second = (np.concatenate([near[i] for near in found]) for i in (1, 2))
        return rows, nearest, second

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Refuse to bring a number for each point here."""
        raise NotImplementedError(_EACH_POINT)

    def distances(self, centers: Centers) -> Distances:
        """Refuse likewise."""
        raise NotImplementedError(_EACH_POINT)

    def distances_to(self, center: Centers) -> Distances:
        """Refuse likewise."""
        raise NotImplementedError(_EACH_POINT)

    @property
    def sizes(self) -> list[int]:
        """How many rows each part has."""
        return [description.n_points for description in self.parts.described]
