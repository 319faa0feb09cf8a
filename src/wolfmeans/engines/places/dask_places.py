"""Points that are blocks of a Dask collection: in this process, or on the workers of a cluster.

On a cluster, blocks that lie on one worker are put into few groups, and a question is one task for
each group: a task costs the scheduler as much as a worker needs for some thousand rows. Groups hold
the blocks themselves, not copies of them. Answers are added within a group and then by a tree on
the workers, eight at a time, so that at most eight are sent to the client.

A question is bound to the worker that has the group, its home: otherwise Dask would give it to any
idle worker, with all rows of the group. When a worker is gone, the scheduler makes its groups again
elsewhere; the new homes are found, and only questions to these groups are asked again.

Large centers are sent as one task that all questions depend on. Blocks, groups, centers and
questions are all tasks with a recipe: the scheduler makes again what is lost with a worker.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import nullcontext
from copy import copy
from dataclasses import replace
from importlib import import_module
from operator import getitem
from time import sleep
from typing import Any, Self

import numpy as np

from wolfmeans.engines.places import dask_blocks as on_worker
from wolfmeans.engines.places.dask_blocks import Block, PartOfFit
from wolfmeans.engines.places.dask_faults import (
    WorkersGoneError,
    errors_of,
    gathered,
    given_up_on_error,
    wait_for,
    wait_for_bound,
)
from wolfmeans.engines.places.memory import Arguments, Description, Labelling
from wolfmeans.engines.places.sampling_in_parts import Sampling
from wolfmeans.exact.limbs import combined

FAN_IN = 8
"""So many answers are added by one task."""
AT_ONCE = 32
"""So many answers are sent to the client at a time."""
# What a task carries along costs less than another task that has to come before it.
_SMALL = 1 << 14
_REMEMBERED = 8
# So many groups for each thread even out differences in speed.
_GROUPS = 2
# Seconds between two looks for a group that is being made again.
_MOMENT = 0.05


class DaskPlace:
    """What both kinds of places share: the blocks' descriptions, and the fits that use them."""

    may_gather = False
    each_point = False
    passes_are_slow = False

    def __init__(self, part: PartOfFit) -> None:
        self.described: list[Description] | None = None
        self._part = part
        self._fits = [part.fit]

    def fork(self, n_threads: int) -> Self:
        """Return the same parts without labels."""
        twin = copy(self)
        twin._part = replace(self._part, fit=uuid.uuid4().hex)
        self._fits.append(twin._part.fit)
        return twin

    def each(self, method: str, arguments: Arguments) -> Iterator[Any]:
        """Return the answers of some parts, in the order of the arguments."""
        if method == "describe" and self.described is not None:
            return iter([self.described[number] for number in arguments])
        return self._answers(method, arguments)

    def _answers(self, method: str, arguments: Arguments) -> Iterator[Any]:
        raise NotImplementedError

    def _dask_array(self, name: str, blocks: Mapping[int, Any], dtype: Any) -> Any:
        """Return (n,) numbers; parts that are not among the blocks have no rows."""
        assert self.described is not None
        sizes = tuple(part.n_points for part in self.described)
        nothing = np.empty(0, dtype=dtype)
        graph = {(name, number): blocks.get(number, nothing) for number in range(len(sizes))}
        return import_module("dask.array").Array(graph, name, chunks=(sizes,), dtype=dtype)


class ThreadPlace(DaskPlace):
    """Blocks in this process, asked by threads."""

    def __init__(self, blocks: list[Block], part: PartOfFit, n_threads: int) -> None:
        super().__init__(part)
        self.blocks, self._n_threads = blocks, n_threads

    def __len__(self) -> int:
        return len(self.blocks)

    def with_blocks(self, blocks: list[Any]) -> ThreadPlace:
        """Return parts of other blocks."""
        twin = self.fork(1)
        twin.blocks, twin.described = blocks, None
        return twin

    def mapped(self, function: Callable[..., Any], *given: Sequence[Any]) -> list[Any]:
        """Call a function with each block and more."""
        return list(self._called(function, self.blocks, *given))

    def inspected(self) -> Iterator[on_worker.Inspection]:
        """Inspect all blocks."""
        numbered = [replace(self._part, number=i) for i in range(len(self))]
        return self._called(on_worker.inspect, self.blocks, numbered)

    def _called(self, function: Callable[..., Any], *given: Sequence[Any]) -> Iterator[Any]:
        with ThreadPoolExecutor(self._n_threads) as threads:
            yield from threads.map(function, *given)

    def _answers(self, method: str, arguments: Arguments) -> Iterator[Any]:
        return self._called(
            on_worker.ask,
            [self.blocks[number] for number in arguments],
            [replace(self._part, number=number) for number in arguments],
            [method] * len(arguments),
            list(arguments.values()),
        )

    def summed(self, method: str, arguments: Arguments) -> Any:
        """Return the sum of the answers, added some at a time."""
        return combined(self.each(method, arguments))

    def of_points(self, method: str, arguments: Arguments, dtype: Any) -> Any:
        """Return a number for each row as a Dask array whose blocks are here."""
        found = dict(zip(arguments, self.each(method, arguments), strict=True))
        return self._dask_array(f"wolfmeans-{method}-{uuid.uuid4().hex}", found, dtype)

    def close(self) -> None:
        """Free the parts of these blocks."""
        on_worker.forget(self._part.client, list(self._fits))


class ClusterPlace(DaskPlace):
    """Blocks on the workers of a cluster, grouped by the workers that have them.

    Parameters
    ----------
    client : distributed.Client
        The client of the cluster.
    blocks : list of Future
        A `dask_blocks.Block` each, which may still be in the making.
    part : PartOfFit
        How the parts are opened, and whose they are.
    workers : collection of str
        Workers that blocks are bound to.
    """

    def __init__(
        self, client: Any, blocks: list[Any], part: PartOfFit, workers: Collection[str] = ()
    ) -> None:
        super().__init__(part)
        self.client = client
        self._sent: dict[int, tuple[Any, Any]] = {}
        with given_up_on_error(blocks):
            wait_for_bound(client, blocks, workers)
            with errors_of(client):
                homes, self.members = _grouped(client, blocks)
            some = [[blocks[number] for number in numbers] for numbers in self.members]
            self._use(self._tasks("group", on_worker.itself, some, at=homes), homes)

    def _use(self, groups: list[Any], homes: list[str]) -> None:
        """Use other groups, which are being made at these homes or elsewhere."""
        self.groups, self._homes = groups, list(homes)
        with given_up_on_error(groups):
            wait_for_bound(self.client, groups, homes)
            self.find(range(len(groups)))

    def __len__(self) -> int:
        return sum(map(len, self.members))

    def with_blocks(self, groups: list[Any]) -> ClusterPlace:
        """Return parts of other blocks, grouped likewise."""
        twin = self.fork(1)
        twin.described = None
        twin._use(groups, self._homes)
        return twin

    def mapped(self, function: Callable[..., Any], *given: Sequence[Any]) -> list[Any]:
        """Call a function with each block and more; the results stay on the workers."""
        own = [[tuple(one[number] for one in given) for number in some] for some in self.members]
        return self._tasks(
            function.__name__,
            on_worker.called_for_each,
            self.groups,
            [function] * len(self.groups),
            own,
            at=self._homes,
        )

    def inspected(self) -> Iterator[on_worker.Inspection]:
        """Inspect all blocks."""
        numbered = [replace(self._part, number=i) for i in range(len(self))]
        futures = self.mapped(on_worker.inspect, numbered)
        with given_up_on_error(futures):
            found = self._in_order(futures)
        return iter([found[number] for number in range(len(self))])

    def _in_order(self, futures: list[Any]) -> dict[int, Any]:
        """Return the answers of all groups by the numbers of their blocks."""
        wait_for_bound(self.client, futures, self._homes)
        answers: list[Any] = []
        for start in range(0, len(futures), AT_ONCE):
            some = futures[start : start + AT_ONCE]
            wait_for(self.client, some)
            with errors_of(self.client):
                answers += self.client.gather(some)
        return {
            number: answer
            for some, group in zip(self.members, answers, strict=True)
            for number, answer in zip(some, group, strict=True)
        }

    def _answers(self, method: str, arguments: Arguments) -> Iterator[Any]:
        question = Question(self, method, arguments, summing=False)
        found: dict[int, Any] = {}
        for numbers, group in zip(question.asked.values(), question.answers(), strict=True):
            found |= zip(numbers, group, strict=True)
        return (found.pop(number) for number in arguments)

    def summed(self, method: str, arguments: Arguments) -> Any:
        """Return the sum of the answers, added by a tree on the workers; this is its root."""
        return combined(Question(self, method, arguments, summing=True).answers())

    def asking(
        self,
        method: str,
        arguments: Arguments,
        asked: Mapping[int, list[int]],
        *,
        summing: bool,
        or_elsewhere: bool,
    ) -> list[Any]:
        """Return futures of the answers of some groups, one task for each, at their homes."""
        first = next(iter(arguments.values()), ())
        question = first[1] if len(first) > 1 and isinstance(first[1], str) else ""
        return self._tasks(
            f"{method}-{question}" if question else method,
            on_worker.ask_group,
            [self.groups[group] for group in asked],
            [self._places(group, numbers) for group, numbers in asked.items()],
            [self._question(method, arguments, numbers) for numbers in asked.values()],
            [summing] * len(asked),
            at=self.homes(asked),
            or_elsewhere=or_elsewhere,
        )

    def adding(self, answers: list[Any]) -> list[Any]:
        """Return futures of up to eight sums of answers, added on the workers."""
        while len(answers) > FAN_IN:
            some = [answers[i : i + FAN_IN] for i in range(0, len(answers), FAN_IN)]
            answers = self._tasks("sum", combined, some)
        return answers

    def homes(self, groups: Iterable[int]) -> list[str]:
        """Return the workers that have these groups, as far as is known."""
        return [self._homes[group] for group in groups]

    def find(self, groups: Iterable[int]) -> None:
        """Wait until groups are somewhere, and note where; the scheduler makes lost ones again."""
        missing = list(groups)
        while missing:
            wait_for(self.client, [self.groups[group] for group in missing])
            with errors_of(self.client):
                for future in (self.groups[group] for group in missing):
                    if future.status == "error":
                        future.result()
                places = self.client.who_has([self.groups[group] for group in missing])
            still = []
            for group in missing:
                workers = sorted(places.get(self.groups[group].key, ()))
                if not workers:
                    still.append(group)
                elif self._homes[group] not in workers:
                    self._homes[group] = workers[0]
            missing = still
            if missing:
                sleep(_MOMENT)

    def numbers(self, arguments: Mapping[int, Any]) -> dict[int, list[int]]:
        """Return which blocks are asked, by group."""
        if len(arguments) == len(self):
            return dict(enumerate(self.members))
        asked = {
            group: [number for number in some if number in arguments]
            for group, some in enumerate(self.members)
        }
        return {group: numbers for group, numbers in asked.items() if numbers}

    def _places(self, group: int, numbers: list[int]) -> list[int]:
        """Return where in a group some of its blocks are."""
        place = {number: i for i, number in enumerate(self.members[group])}
        return [place[number] for number in numbers]

    def _question(self, method: str, arguments: Arguments, numbers: list[int]) -> list[Any]:
        """Return the question for `dask_blocks.ask_group`; equal arguments are sent once."""
        given = [arguments[number] for number in numbers]
        same = all(len(one) == len(given[0]) for one in given) and all(
            ours is theirs for one in given for ours, theirs in zip(one, given[0], strict=True)
        )
        sent = [[self._sent_once(each) for each in one] for one in (given[:1] if same else given)]
        return [self._part, numbers, method, sent]

    def _sent_once(self, given: Any) -> Any:
        """Return a future of large arguments that several questions need."""
        held = {Labelling: "centers", Sampling: "candidates"}.get(type(given))
        array = given if held is None else getattr(given, held)
        if not isinstance(array, np.ndarray) or array.nbytes <= _SMALL:
            return given
        known = self._sent.get(id(given))
        if known is not None:
            return known[1]
        with errors_of(self.client):
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
        at: Sequence[str] | None = None,
        or_elsewhere: bool = False,
    ) -> list[Any]:
        """Return the futures of tasks, which run on given workers, or on any."""
        if not given[0]:
            return []
        if keys is None:
            # Dask's dashboard shows the name.
            token = uuid.uuid4().hex
            keys = [f"wolfmeans-{name.replace('_', '-')}-{token}-{i}" for i in range(len(given[0]))]
        where: Any = nullcontext()
        if at is not None:
            workers = {key: [home] if home else [] for key, home in zip(keys, at, strict=True)}
            annotate = import_module("dask").annotate
            where = annotate(workers=workers.get, allow_other_workers=or_elsewhere)
        with errors_of(self.client), where:
            futures: list[Any] = self.client.map(function, *given, key=list(keys), pure=False)
        return futures

    def of_points(self, method: str, arguments: Arguments, dtype: Any) -> Any:
        """Return a number for each row as a Dask array whose blocks are on the workers."""
        name = f"wolfmeans-{method}-{uuid.uuid4().hex}"
        asked = self.numbers(arguments)
        # These outlive the fit, and perhaps the worker.
        groups = self.asking(method, arguments, asked, summing=False, or_elsewhere=False)
        places = [
            (number, answer, place, home)
            for answer, numbers, home in zip(groups, asked.values(), self.homes(asked), strict=True)
            for place, number in enumerate(numbers)
        ]
        numbers, answers, within, homes = map(list, zip(*places, strict=True))
        keys = [(name, number) for number in numbers]
        futures = self._tasks(method, getitem, answers, within, keys=keys, at=homes)
        with given_up_on_error([*groups, *futures]):
            wait_for_bound(self.client, [*groups, *futures], homes)
        return self._dask_array(name, dict(zip(numbers, futures, strict=True)), dtype)

    def close(self) -> None:
        """Free the parts on the workers that can be reached."""
        if self.client.status != "running":
            return
        for future in self.groups:
            # As in `given_up_on_error`.
            future.release()
        self._sent.clear()
        try:
            self.client.run(
                on_worker.forget, self._part.client, list(self._fits), on_error="ignore"
            )
        except (OSError, RuntimeError, CancelledError):
            return


class Question:
    """A question to groups of blocks, asked until all have answered.

    If a worker is gone, its groups are found elsewhere and asked again; other answers are kept.
    """

    def __init__(
        self, parts: ClusterPlace, method: str, arguments: Arguments, *, summing: bool
    ) -> None:
        self._parts, self._method, self._arguments = parts, method, arguments
        self._summing = summing
        self.asked = parts.numbers(arguments)
        self._futures: dict[int, Any] = {}
        self._at: dict[int, str] = {}
        """Where groups were asked, but for those that any worker may answer."""
        self._sums: list[Any] = []

    def answers(self) -> Iterator[Any]:
        """Yield the answer of each group, in order, or some sums of them."""
        groups = list(self.asked)
        at_once = len(groups) if self._summing else AT_ONCE
        try:
            self._ask(groups)
            for start in range(0, len(groups), at_once):
                yield from self._found(groups[start : start + at_once])
        finally:
            for future in (*self._futures.values(), *self._sums):
                future.release()

    def _ask(self, groups: Sequence[int], *, or_elsewhere: bool = False) -> None:
        asked = {group: self.asked[group] for group in groups}
        futures = self._parts.asking(
            self._method, self._arguments, asked, summing=self._summing, or_elsewhere=or_elsewhere
        )
        self._futures |= zip(groups, futures, strict=True)
        for group, home in zip(groups, self._parts.homes(groups), strict=True):
            self._at.pop(group, None)
            if not or_elsewhere:
                self._at[group] = home

    def _found(self, groups: list[int]) -> list[Any]:
        """Return the answers of some groups."""
        client = self._parts.client
        while True:
            futures = [self._futures[group] for group in groups]
            if self._summing:
                futures = self._sums = self._parts.adding(futures)
            homes = {self._at[group] for group in groups if group in self._at}
            try:
                wait_for(client, futures, homes)
                return gathered(client, futures, homes)
            except WorkersGoneError as error:
                self._ask_again(error.workers)

    def _ask_again(self, gone: set[str]) -> None:
        """Ask the groups again whose workers are gone, or do not work."""
        lost = [group for group, home in self._at.items() if home in gone]
        self._parts.find(lost)
        homes = dict(zip(lost, self._parts.homes(lost), strict=True))
        self._ask([group for group in lost if homes[group] not in gone])
        self._ask([group for group in lost if homes[group] in gone], or_elsewhere=True)


def _grouped(client: Any, blocks: list[Any]) -> tuple[list[str], list[list[int]]]:
    """Return homes and groups of blocks that lie together, some for each thread of a worker."""
    threads = client.nthreads()
    places = client.who_has(blocks)
    at: dict[str, list[int]] = {}
    for number, block in enumerate(blocks):
        workers = sorted(worker for worker in places.get(block.key, ()) if worker in threads)
        # The blocks of a worker that has died since then still count.
        at.setdefault(workers[0] if workers else "", []).append(number)
    homes, groups = [], []
    for worker, numbers in at.items():
        many = min(len(numbers), _GROUPS * threads[worker] if worker else len(numbers))
        groups += [some.tolist() for some in np.array_split(np.array(numbers), many)]
        homes += [worker] * many
    return homes, groups
