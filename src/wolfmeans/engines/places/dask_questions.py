"""A question to groups of blocks on a cluster, asked until all of them have answered.

Tasks are bound to the workers that have the groups (`dask_cluster`). If a worker is gone, its
groups are found elsewhere and asked again; other answers are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wolfmeans.engines.places.dask_faults import WorkersGoneError, gathered, wait_for

if TYPE_CHECKING:
    from wolfmeans.engines.places.dask_cluster import ClusterPlace

AT_ONCE = 32
"""So many answers come here at a time."""


class Question:
    """A question that is asked until it is answered, whoever dies meanwhile."""

    def __init__(
        self,
        parts: ClusterPlace,
        method: str,
        arguments: Mapping[int, tuple[Any, ...]],
        *,
        summing: bool,
    ) -> None:
        self._parts, self._method, self._arguments = parts, method, arguments
        self._summing = summing
        self.asked = parts.numbers(arguments)
        self._futures: dict[int, Any] = {}
        self._at: dict[int, str] = {}
        """Where groups were asked; those that are asked wherever it may be are not here."""
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
        """Bring here what some groups answer."""
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
        """Ask what was asked on workers that are gone, or that do not work."""
        lost = [group for group, home in self._at.items() if home in gone]
        self._parts.find(lost)
        homes = dict(zip(lost, self._parts.homes(lost), strict=True))
        self._ask([group for group in lost if homes[group] not in gone])
        self._ask([group for group in lost if homes[group] in gone], or_elsewhere=True)
