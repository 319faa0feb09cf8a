"""Points that are blocks of a Dask collection, on a cluster (`dask_cluster`) or in this process."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from wolfmeans.engines.places import dask_blocks as on_worker
from wolfmeans.engines.places.dask_blocks import Block, PartOfFit
from wolfmeans.engines.places.memory import Description
from wolfmeans.engines.places.workspace import Place

FAN_IN = 8
"""So many answers are added by one task."""


class DaskPlace(Place, Protocol):
    """What the two kinds of places have beyond `Place`."""

    def mapped(self, function: Callable[..., Any], *given: Sequence[Any]) -> list[Any]:
        """Call a function with each block and more, and leave what it returns there."""

    def looked_at(self) -> Iterator[Any]:
        """Look through all blocks (`blocks.Look`)."""

    def with_blocks(self, blocks: list[Any]) -> DaskPlace:
        """Return the parts that other blocks are."""

    def close(self) -> None:
        """Free what is kept for these parts and for their forks."""


class ThreadPlace:
    """Blocks in this process, asked by threads."""

    may_gather = False
    each_point = False

    def __init__(self, blocks: list[Block], part: PartOfFit, n_threads: int) -> None:
        self.blocks = blocks
        self.described: list[Description] | None = None
        self._part, self._n_threads = part, n_threads
        self._fits = [part.fit]

    def __len__(self) -> int:
        return len(self.blocks)

    def fork(self, n_threads: int) -> ThreadPlace:
        """Return the same parts without labels."""
        twin = ThreadPlace(self.blocks, replace(self._part, fit=uuid.uuid4().hex), self._n_threads)
        twin.described = self.described
        twin._fits = self._fits
        self._fits.append(twin._part.fit)
        return twin

    def with_blocks(self, blocks: list[Any]) -> ThreadPlace:
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

    def of_points(
        self, method: str, arguments: Mapping[int, tuple[Any, ...]], dtype: Any = np.int32
    ) -> Any:
        """Return a number for each row as a Dask array whose blocks are here."""
        assert self.described is not None
        found = dict(zip(arguments, self.each(method, arguments), strict=True))
        name = f"wolfmeans-{method}-{uuid.uuid4().hex}"
        return dask_array(name, found, [part.n_points for part in self.described], dtype)

    def close(self) -> None:
        """Free what is kept for these parts."""
        on_worker.forget(self._part.client, list(self._fits))


def dask_array(name: str, blocks: Mapping[int, Any], sizes: Sequence[int], dtype: Any) -> Any:
    """Return (n,) numbers; parts that are not among the blocks have no rows."""
    da = import_module("dask.array")
    nothing = np.empty(0, dtype=dtype)
    graph = {(name, number): blocks.get(number, nothing) for number in range(len(sizes))}
    return da.Array(graph, name, chunks=(tuple(sizes),), dtype=dtype)
