"""Parts that are blocks of a Dask collection: on the workers of a cluster, or in this process.

On a cluster every question is one task for each block, placed by the scheduler where the block is.
Large centers are sent as one task that all questions depend on; answers are added on the workers,
eight at a time, so that no more than eight come back. Blocks, centers and questions are all tasks
with a recipe: what is lost with a worker the scheduler makes again.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from wolfmeans.engines import blocks as on_worker
from wolfmeans.engines.array_parts import Description, Labelling
from wolfmeans.engines.blocks import Block, PartOfFit
from wolfmeans.engines.parts import PartedPoints, Parts
from wolfmeans.engines.seeding_in_parts import Sampling

FAN_IN = 8
"""So many answers are added by one task."""
PATIENCE = 120.0
"""Seconds that a cluster may be without any worker."""
_AT_ONCE = 32
# What a task carries along costs less than another task that has to come before it.
_SMALL = 1 << 14
_REMEMBERED = 4


class DaskParts(Parts, Protocol):
    """What the two kinds of places have beyond `Parts`."""

    def mapped(self, function: Callable[..., Any], *given: Sequence[Any]) -> list[Any]:
        """Call a function with each block and more, and leave what it returns there."""

    def looked_at(self) -> Iterator[Any]:
        """Look through all blocks (`blocks.Look`)."""

    def with_blocks(self, blocks: list[Any]) -> DaskParts:
        """Return the parts that other blocks are."""

    def labels_of(self, at: Mapping[int, Labelling], sizes: Sequence[int]) -> Any:
        """Return labels as a Dask array with a block for each part."""

    def close(self) -> None:
        """Free what is kept for these parts and for their forks."""


class ClusterParts:
    """Blocks on the workers of a `distributed.Client`.

    Parameters
    ----------
    client : distributed.Client
        Whom to ask.
    blocks : list of Future
        A `blocks.Block` each.
    part : PartOfFit
        How the parts are opened, and whose they are.
    """

    may_gather = False

    def __init__(self, client: Any, blocks: list[Any], part: PartOfFit) -> None:
        self.client, self.blocks = client, blocks
        self.described: list[Description] | None = None
        self._part = part
        self._fits = [part.fit]
        self._sent: dict[int, tuple[Any, Any]] = {}

    def __len__(self) -> int:
        return len(self.blocks)

    def fork(self, n_threads: int) -> ClusterParts:
        """Return the same parts without labels."""
        twin = ClusterParts(self.client, self.blocks, replace(self._part, fit=uuid.uuid4().hex))
        twin.described = self.described
        twin._fits = self._fits
        self._fits.append(twin._part.fit)
        return twin

    def with_blocks(self, blocks: list[Any]) -> ClusterParts:
        """Return the parts that other blocks are."""
        twin = self.fork(1)
        twin.blocks, twin.described = blocks, None
        return twin

    def mapped(self, function: Callable[..., Any], *given: Sequence[Any]) -> list[Any]:
        """Call a function with each block and more; what it returns stays on the workers."""
        return self._tasks(function.__name__, function, self.blocks, *given)

    def looked_at(self) -> Iterator[on_worker.Look]:
        """Look through all blocks."""
        numbered = [replace(self._part, number=i) for i in range(len(self))]
        yield from self._answers(self.mapped(on_worker.look, numbered))

    def each(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Iterator[Any]:
        """Ask some parts, by their numbers; the answers come in the order of the arguments."""
        if method == "describe" and self.described is not None:
            return iter([self.described[number] for number in arguments])
        return self._answers(self._asked(method, arguments))

    def summed(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Any:
        """Return the sum of the answers, added by a tree on the workers; this is its root."""
        answers = self._asked(method, arguments)
        while len(answers) > FAN_IN:
            groups = [answers[i : i + FAN_IN] for i in range(0, len(answers), FAN_IN)]
            answers = self._tasks("sum", on_worker.summed, groups)
        return on_worker.summed(list(self._answers(answers)))

    def _asked(
        self,
        method: str,
        arguments: Mapping[int, tuple[Any, ...]],
        keys: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Return the answers to come, one task for each part."""
        return self._tasks(
            method,
            on_worker.ask,
            [self.blocks[number] for number in arguments],
            [replace(self._part, number=number) for number in arguments],
            [method] * len(arguments),
            [[self._on_its_way(one) for one in given] for given in arguments.values()],
            keys=keys,
        )

    def _on_its_way(self, given: Any) -> Any:
        """Return a future of what several questions need, so that it is sent once."""
        array = {Labelling: "centers", Sampling: "candidates"}.get(type(given))
        array = given if array is None else getattr(given, array)
        if not isinstance(array, np.ndarray) or array.nbytes <= _SMALL:
            return given
        known = self._sent.get(id(given))
        if known is not None:
            return known[1]
        with _errors_of(self.client):
            future = self.client.submit(
                on_worker.itself, given, key=f"wolfmeans-centers-{uuid.uuid4().hex}", pure=False
            )
        while len(self._sent) >= _REMEMBERED:
            del self._sent[next(iter(self._sent))]
        self._sent[id(given)] = (given, future)
        return future

    def _tasks(
        self,
        name: str,
        function: Callable[..., Any],
        *given: Sequence[Any],
        keys: Sequence[Any] | None = None,
    ) -> list[Any]:
        if not given[0]:
            return []
        if keys is None:
            # The name is what Dask's dashboard shows.
            token = uuid.uuid4().hex
            keys = [f"wolfmeans-{name.replace('_', '-')}-{token}-{i}" for i in range(len(given[0]))]
        with _errors_of(self.client):
            futures: list[Any] = self.client.map(function, *given, key=list(keys), pure=False)
        return futures

    def _answers(self, futures: list[Any]) -> Iterator[Any]:
        """Bring answers here, in order, some at a time."""
        for start in range(0, len(futures), _AT_ONCE):
            some = futures[start : start + _AT_ONCE]
            self._wait_for(some)
            with _errors_of(self.client):
                answers = self.client.gather(some)
            yield from answers

    def _wait_for(self, futures: list[Any]) -> None:
        """Wait until tasks have ended, as long as there are workers or some may come back."""
        wait = import_module("distributed").wait
        without_workers = 0
        while True:
            with _errors_of(self.client):
                try:
                    wait(futures, timeout=PATIENCE / 4)
                    return
                except TimeoutError:
                    without_workers = 0 if self.client.nthreads() else without_workers + 1
            if without_workers >= 4:
                raise ConnectionError(
                    f"the Dask cluster has had no workers for {PATIENCE:.0f} seconds; start some "
                    "and fit again, with checkpoint=PATH from where it was"
                )

    def labels_of(self, at: Mapping[int, Labelling], sizes: Sequence[int]) -> Any:
        """Return labels as a Dask array whose blocks are on the workers."""
        name = f"wolfmeans-labels-{uuid.uuid4().hex}"
        keys = [(name, number) for number in at]
        arguments = {number: (labelling,) for number, labelling in at.items()}
        futures = self._asked("labels", arguments, keys)
        self._wait_for(futures)
        return _dask_array(name, dict(zip(at, futures, strict=True)), sizes)

    def close(self) -> None:
        """Free what is kept on the workers; who cannot be reached has nothing to free."""
        if self.client.status != "running":
            return
        try:
            self.client.run(
                on_worker.forget, self._part.client, list(self._fits), on_error="ignore"
            )
        except (OSError, RuntimeError, CancelledError):
            return


class _errors_of:  # noqa: N801 - read as a sentence
    """Says in one sentence that a cluster is gone or has lost what cannot be made again."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __enter__(self) -> None:
        if self._client.status not in ("running", "connecting"):
            raise ConnectionError(f"the Dask client is {self._client.status}: {_GONE}")

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, KeyboardInterrupt):
            return
        # A task may fail with an OSError of its own, for example for want of a file.
        closed = import_module("distributed").comm.CommClosedError
        lost = isinstance(error, OSError) and self._client.status != "running"
        if lost or isinstance(error, closed):
            raise ConnectionError(_GONE) from error
        if isinstance(error, (CancelledError, import_module("asyncio").CancelledError)):
            if self._client.status != "running" or "scheduler" in str(error):
                raise ConnectionError(_GONE) from error
            raise RuntimeError(_LOST) from error


_GONE = (
    "the Dask scheduler cannot be reached any more; nothing of this fit is left there. Connect a "
    "new Client and fit again, with checkpoint=PATH from where it was"
)
_LOST = (
    "blocks of X were lost with a worker and cannot be made again, because they were put on the "
    "cluster from here (client.scatter) or cancelled; load X by tasks, for example from files"
)


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

    def labels_of(self, at: Mapping[int, Labelling], sizes: Sequence[int]) -> Any:
        """Return labels as a Dask array whose blocks are here."""
        answers = self.each("labels", {number: (labelling,) for number, labelling in at.items()})
        found = dict(zip(at, answers, strict=True))
        return _dask_array(f"wolfmeans-labels-{uuid.uuid4().hex}", found, sizes)

    def close(self) -> None:
        """Free what is kept for these parts."""
        on_worker.forget(self._part.client, list(self._fits))


def _dask_array(name: str, blocks: Mapping[int, Any], sizes: Sequence[int]) -> Any:
    """Return (n,) labels; parts that are not among the blocks have no rows."""
    da = import_module("dask.array")
    nothing = np.empty(0, dtype=np.int32)
    graph = {(name, number): blocks.get(number, nothing) for number in range(len(sizes))}
    return da.Array(graph, name, chunks=(tuple(sizes),), dtype=np.int32)


class DaskPoints(PartedPoints):
    """A workspace over Dask's blocks: what there is for each point stays where the points are."""

    _parts: Any

    def snapshot(self) -> Any:
        """Return the labels as a Dask array."""
        if self._at is None:
            raise RuntimeError("points have no labels before the first assignment")
        return self._parts.labels_of(self._at, self.sizes)

    @property
    def sizes(self) -> list[int]:
        """How many rows each part has."""
        return [description.n_points for description in self._parts.described]
