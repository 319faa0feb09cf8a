"""Parts that are blocks of a Dask collection on the workers of a cluster.

Blocks that lie on one worker are put into few groups, and a question is one task for each group: a
task costs the scheduler as much as a worker needs for some thousand rows. Groups hold the blocks
themselves, not copies of them. Answers are added within a group and then by a tree on the workers,
eight at a time, so that no more than eight come back.

A question is bound to the worker where the group lies, its home: left alone, Dask would give it to
whoever has nothing to do, with all rows of the group. When a worker is gone, the scheduler makes
its groups again elsewhere; these homes are found out, and only what was asked there is asked again.

Large centers are sent as one task that all questions depend on. Blocks, groups, centers and
questions are all tasks with a recipe: what is lost with a worker the scheduler makes again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from operator import getitem
from time import sleep
from typing import Any

import numpy as np

from wolfmeans.engines.places import dask_blocks as on_worker
from wolfmeans.engines.places.dask_blocks import PartOfFit
from wolfmeans.engines.places.dask_faults import (
    errors_of,
    given_up_on_error,
    wait_for,
    wait_for_bound,
)
from wolfmeans.engines.places.dask_questions import AT_ONCE, Question
from wolfmeans.engines.places.dask_threads import FAN_IN, dask_array
from wolfmeans.engines.places.memory import Description, Labelling
from wolfmeans.engines.places.seeding import Sampling

# What a task carries along costs less than another task that has to come before it.
_SMALL = 1 << 14
_REMEMBERED = 8
# So many groups for each thread let a slow one be caught up with.
_GROUPS = 2
# Seconds between two looks for a group that is being made again.
_MOMENT = 0.05


class ClusterPlace:
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
    each_point = False

    def __init__(
        self, client: Any, groups: list[Any], members: list[list[int]], part: PartOfFit
    ) -> None:
        self.client, self.groups, self.members = client, groups, members
        self.described: list[Description] | None = None
        self._part = part
        self._fits = [part.fit]
        self._homes = [""] * len(groups)
        self._sent: dict[int, tuple[Any, Any]] = {}

    @staticmethod
    def of_blocks(
        client: Any, blocks: list[Any], part: PartOfFit, workers: Collection[str] = ()
    ) -> ClusterPlace:
        """Return the parts that blocks to come are, grouped by where they have come to be.

        `workers` are those that blocks are bound to.
        """
        parts = ClusterPlace(client, [], [], part)
        with given_up_on_error(blocks):
            wait_for_bound(client, blocks, workers)
            with errors_of(client):
                homes, parts.members = _grouped(client, blocks)
            some = [[blocks[number] for number in numbers] for numbers in parts.members]
            groups = parts._tasks("group", on_worker.itself, some, at=homes)
            parts._take(groups, homes)
        return parts

    def _take(self, groups: list[Any], homes: list[str]) -> None:
        """Have other groups, which are to come where these homes are, or elsewhere."""
        self.groups, self._homes = groups, list(homes)
        with given_up_on_error(groups):
            wait_for_bound(self.client, groups, homes)
            self.find(range(len(groups)))

    def __len__(self) -> int:
        return sum(map(len, self.members))

    def fork(self, n_threads: int) -> ClusterPlace:
        """Return the same parts without labels."""
        part = replace(self._part, fit=uuid.uuid4().hex)
        twin = ClusterPlace(self.client, self.groups, self.members, part)
        twin.described = self.described
        twin._fits, twin._homes, twin._sent = self._fits, self._homes, self._sent
        self._fits.append(part.fit)
        return twin

    def with_blocks(self, groups: list[Any]) -> ClusterPlace:
        """Return the parts that other blocks are, grouped likewise."""
        twin = self.fork(1)
        twin.described = None
        twin._take(groups, self._homes)
        return twin

    def mapped(self, function: Callable[..., Any], *given: Sequence[Any]) -> list[Any]:
        """Call a function with each block and more; what it returns stays on the workers."""
        own = [[tuple(one[number] for one in given) for number in some] for some in self.members]
        return self._tasks(
            function.__name__,
            on_worker.called_for_each,
            self.groups,
            [function] * len(self.groups),
            own,
            at=self._homes,
        )

    def looked_at(self) -> Iterator[on_worker.Look]:
        """Look through all blocks."""
        numbered = [replace(self._part, number=i) for i in range(len(self))]
        futures = self.mapped(on_worker.look, numbered)
        with given_up_on_error(futures):
            looks = self._in_order(futures)
        return iter([looks[number] for number in range(len(self))])

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

    def each(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Iterator[Any]:
        """Ask some parts, by their numbers; the answers come in the order of the arguments."""
        if method == "describe" and self.described is not None:
            return iter([self.described[number] for number in arguments])
        question = Question(self, method, arguments, summing=False)
        found: dict[int, Any] = {}
        for numbers, group in zip(question.asked.values(), question.answers(), strict=True):
            found |= zip(numbers, group, strict=True)
        return (found.pop(number) for number in arguments)

    def summed(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Any:
        """Return the sum of the answers, added by a tree on the workers; this is its root."""
        return on_worker.summed(list(Question(self, method, arguments, summing=True).answers()))

    def asking(
        self,
        method: str,
        arguments: Mapping[int, tuple[Any, ...]],
        asked: Mapping[int, list[int]],
        *,
        summing: bool,
        or_elsewhere: bool,
    ) -> list[Any]:
        """Return the answers to come of some groups, one task for each, where the groups lie."""
        name = method
        if method == "seeding":
            name = f"seeding-{next(iter(arguments.values()))[1]}"
        return self._tasks(
            name,
            on_worker.ask_group,
            [self.groups[group] for group in asked],
            [self._places(group, numbers) for group, numbers in asked.items()],
            [self._question(method, arguments, numbers) for numbers in asked.values()],
            [summing] * len(asked),
            at=self.homes(asked),
            or_elsewhere=or_elsewhere,
        )

    def adding(self, answers: list[Any]) -> list[Any]:
        """Return up to eight sums to come of answers, added on the workers."""
        while len(answers) > FAN_IN:
            some = [answers[i : i + FAN_IN] for i in range(0, len(answers), FAN_IN)]
            answers = self._tasks("sum", on_worker.summed, some)
        return answers

    def homes(self, groups: Iterable[int]) -> list[str]:
        """Return the workers on which groups lie, as far as we know."""
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
        """Return the futures of tasks, which run on given workers, or wherever they may."""
        if not given[0]:
            return []
        if keys is None:
            # The name is what Dask's dashboard shows.
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

    def of_points(
        self, method: str, arguments: Mapping[int, tuple[Any, ...]], dtype: Any = np.int32
    ) -> Any:
        """Return a number for each row as a Dask array whose blocks are on the workers."""
        assert self.described is not None
        sizes = [part.n_points for part in self.described]
        name = f"wolfmeans-{method}-{uuid.uuid4().hex}"
        asked = self.numbers(arguments)
        # They outlive the fit, and maybe the worker.
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
        return dask_array(name, dict(zip(numbers, futures, strict=True)), sizes, dtype)

    def close(self) -> None:
        """Free what is kept on the workers; who cannot be reached has nothing to free."""
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


def _grouped(client: Any, blocks: list[Any]) -> tuple[list[str], list[list[int]]]:
    """Return groups of blocks that lie together, some for each thread of a worker: where, which."""
    threads = client.nthreads()
    places = client.who_has(blocks)
    at: dict[str, list[int]] = {}
    for number, block in enumerate(blocks):
        workers = sorted(worker for worker in places.get(block.key, ()) if worker in threads)
        # One that has died since then is no reason to leave its blocks out.
        at.setdefault(workers[0] if workers else "", []).append(number)
    homes, groups = [], []
    for worker, numbers in at.items():
        many = min(len(numbers), _GROUPS * threads[worker] if worker else len(numbers))
        groups += [some.tolist() for some in np.array_split(np.array(numbers), many)]
        homes += [worker] * many
    return homes, groups
