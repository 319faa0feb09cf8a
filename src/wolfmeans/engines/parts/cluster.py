"""Parts that are blocks of a Dask collection on the workers of a cluster.

Blocks that lie on one worker are put into few groups, and a question is one task for each group: a
task costs the scheduler as much as a worker needs for some thousand rows. Groups hold the blocks
themselves, not copies of them. Answers are added within a group and then by a tree on the workers,
eight at a time, so that no more than eight come back.

Large centers are sent as one task that all questions depend on. Blocks, groups, centers and
questions are all tasks with a recipe: what is lost with a worker the scheduler makes again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import replace
from importlib import import_module
from operator import getitem
from typing import Any

import numpy as np

from wolfmeans.engines.parts import blocks as on_worker
from wolfmeans.engines.parts.arrays import Description, Labelling
from wolfmeans.engines.parts.blocks import PartOfFit
from wolfmeans.engines.parts.dask_points import FAN_IN, dask_array
from wolfmeans.engines.parts.seeding import Sampling

PATIENCE = 120.0
"""Seconds that a cluster may be without any worker."""
_AT_ONCE = 32
# What a task carries along costs less than another task that has to come before it.
_SMALL = 1 << 14
_REMEMBERED = 8
# So many groups for each thread let a slow one be caught up with.
_GROUPS = 2


class ClusterParts:
    """Blocks on the workers of a `distributed.Client`.

    Parameters
    ----------
    client : distributed.Client
        Whom to ask.
    groups : list of Future
        A list of `blocks.Block` each.
    members : list of list of int
        The numbers of the blocks in each group.
    part : PartOfFit
        How the parts are opened, and whose they are.
    """

    may_gather = False

    def __init__(
        self, client: Any, groups: list[Any], members: list[list[int]], part: PartOfFit
    ) -> None:
        self.client, self.groups, self.members = client, groups, members
        self.described: list[Description] | None = None
        self._part = part
        self._fits = [part.fit]
        self._sent: dict[int, tuple[Any, Any]] = {}

    @staticmethod
    def of_blocks(client: Any, blocks: list[Any], part: PartOfFit) -> ClusterParts:
        """Return the parts that blocks to come are, grouped by where they have come to be."""
        parts = ClusterParts(client, blocks, [[number] for number in range(len(blocks))], part)
        parts._wait_for(blocks)
        with _errors_of(client):
            members = _grouped(client, blocks)
        parts.groups = parts._tasks(
            "group", on_worker.itself, [[blocks[number] for number in some] for some in members]
        )
        parts.members = members
        return parts

    def __len__(self) -> int:
        return sum(map(len, self.members))

    def fork(self, n_threads: int) -> ClusterParts:
        """Return the same parts without labels."""
        part = replace(self._part, fit=uuid.uuid4().hex)
        twin = ClusterParts(self.client, self.groups, self.members, part)
        twin.described = self.described
        twin._fits = self._fits
        self._fits.append(part.fit)
        return twin

    def with_blocks(self, groups: list[Any]) -> ClusterParts:
        """Return the parts that other blocks are, grouped likewise."""
        twin = self.fork(1)
        twin.groups, twin.described = groups, None
        return twin

    def mapped(self, function: Callable[..., Any], *given: Sequence[Any]) -> list[Any]:
        """Call a function with each block and more; what it returns stays on the workers."""
        own = [[tuple(one[number] for one in given) for number in some] for some in self.members]
        many = len(self.groups)
        return self._tasks(
            function.__name__, on_worker.called_for_each, self.groups, [function] * many, own
        )

    def looked_at(self) -> Iterator[on_worker.Look]:
        """Look through all blocks."""
        numbered = [replace(self._part, number=i) for i in range(len(self))]
        looks = self._in_order(self.mapped(on_worker.look, numbered))
        return iter([looks[number] for number in range(len(self))])

    def _in_order(self, futures: list[Any]) -> dict[int, Any]:
        """Return the answers of all groups by the numbers of their blocks."""
        answers = self._answers(futures)
        return {
            number: answer
            for some, group in zip(self.members, answers, strict=True)
            for number, answer in zip(some, group, strict=True)
        }

    def each(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Iterator[Any]:
        """Ask some parts, by their numbers; the answers come in the order of the arguments."""
        if method == "describe" and self.described is not None:
            return iter([self.described[number] for number in arguments])
        asked = self._numbers(arguments)
        found: dict[int, Any] = {}
        answers = self._answers(self._asked(method, arguments, asked, summing=False))
        for numbers, group in zip(asked.values(), answers, strict=True):
            found |= zip(numbers, group, strict=True)
        return (found.pop(number) for number in arguments)

    def summed(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Any:
        """Return the sum of the answers, added by a tree on the workers; this is its root."""
        answers = self._asked(method, arguments, self._numbers(arguments), summing=True)
        while len(answers) > FAN_IN:
            some = [answers[i : i + FAN_IN] for i in range(0, len(answers), FAN_IN)]
            answers = self._tasks("sum", on_worker.summed, some)
        return on_worker.summed(list(self._answers(answers)))

    def _numbers(self, arguments: Mapping[int, Any]) -> dict[int, list[int]]:
        """Return which blocks are asked, by group."""
        asked = {
            group: [number for number in some if number in arguments]
            for group, some in enumerate(self.members)
        }
        return {group: numbers for group, numbers in asked.items() if numbers}

    def _asked(
        self,
        method: str,
        arguments: Mapping[int, tuple[Any, ...]],
        asked: Mapping[int, list[int]],
        *,
        summing: bool,
    ) -> list[Any]:
        """Return the answers to come, one task for each group."""
        name = method
        if method == "seeding":
            name = f"seeding-{next(iter(arguments.values()))[1]}"
        places = {group: self._places(group, numbers) for group, numbers in asked.items()}
        questions = [self._question(method, arguments, numbers) for numbers in asked.values()]
        return self._tasks(
            name,
            on_worker.ask_group,
            [self.groups[group] for group in asked],
            list(places.values()),
            questions,
            [summing] * len(asked),
        )

    def _places(self, group: int, numbers: list[int]) -> list[int]:
        """Return where in a group some of its blocks are."""
        place = {number: i for i, number in enumerate(self.members[group])}
        return [place[number] for number in numbers]

    def _question(
        self, method: str, arguments: Mapping[int, tuple[Any, ...]], numbers: list[int]
    ) -> list[Any]:
        """Return the arguments of `blocks.ask_group`; what all parts are asked is said once."""
        given = [arguments[number] for number in numbers]
        same = all(len(one) == len(given[0]) for one in given) and all(
            ours is theirs for one in given for ours, theirs in zip(one, given[0], strict=True)
        )
        sent = [[self._on_its_way(each) for each in one] for one in (given[:1] if same else given)]
        return [self._part, numbers, method, sent]

    def _on_its_way(self, given: Any) -> Any:
        """Return a future of what several questions need, so that it is sent once."""
        held = {Labelling: "centers", Sampling: "candidates"}.get(type(given))
        array = given if held is None else getattr(given, held)
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

    def array_of(
        self,
        method: str,
        arguments: Mapping[int, tuple[Any, ...]],
        sizes: Sequence[int],
        dtype: Any = np.int32,
    ) -> Any:
        """Return a number for each row as a Dask array whose blocks are on the workers."""
        name = f"wolfmeans-{method}-{uuid.uuid4().hex}"
        asked = self._numbers(arguments)
        groups = self._asked(method, arguments, asked, summing=False)
        places = [
            (number, group, place)
            for group, numbers in zip(groups, asked.values(), strict=True)
            for place, number in enumerate(numbers)
        ]
        futures = self._tasks(
            method,
            getitem,
            [group for _, group, _ in places],
            [place for _, _, place in places],
            keys=[(name, number) for number, _, _ in places],
        )
        self._wait_for(futures)
        numbers = [number for number, _, _ in places]
        return dask_array(name, dict(zip(numbers, futures, strict=True)), sizes, dtype)

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


def _grouped(client: Any, blocks: list[Any]) -> list[list[int]]:
    """Return the numbers of blocks that lie together: some groups for each thread of a worker."""
    threads = client.nthreads()
    places = client.who_has(blocks)
    at: dict[str, list[int]] = {}
    for number, block in enumerate(blocks):
        workers = sorted(worker for worker in places.get(block.key, ()) if worker in threads)
        # One that has died since then is no reason to leave its blocks out.
        at.setdefault(workers[0] if workers else f"nowhere {number}", []).append(number)
    groups = []
    for worker, numbers in at.items():
        many = min(len(numbers), _GROUPS * threads.get(worker, 1))
        groups += [some.tolist() for some in np.array_split(np.array(numbers), many)]
    return groups


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
        if isinstance(error, import_module("distributed").KilledWorker):
            raise RuntimeError(_KILLED) from error


_GONE = (
    "the Dask scheduler cannot be reached any more; nothing of this fit is left there. Connect a "
    "new Client and fit again, with checkpoint=PATH from where it was"
)
_KILLED = (
    "several workers died one after the other over the same partitions, most likely for want of "
    "memory; take smaller partitions (X.rechunk, X.repartition) or workers with more of it"
)
_LOST = (
    "blocks of X were lost with a worker and cannot be made again, because they were put on the "
    "cluster from here (client.scatter) or cancelled; load X by tasks, for example from files"
)
