"""K-means problems that write checkpoints and resume from them.

A resumed run returns the steps of the file as its first block (`ConcaveProblem.advance` may return
many). One assignment finds the labels again and detects other data. Starts that had finished are
finished after that block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from wolfmeans.core.draws import RandomSource
from wolfmeans.core.frank_wolfe import State
from wolfmeans.core.kmeans import KMeansProblem, Partition
from wolfmeans.core.solution import Record
from wolfmeans.core.stopping import StoppingRule
from wolfmeans.core.trimmed import TrimmedProblem
from wolfmeans.core.workspace import Centers

if TYPE_CHECKING:
    from wolfmeans.estimators.checkpoint import Checkpoint

ARRAYS = ("centers", "residuals", "weights")
"""The arrays of a partition that are recomputed and compared when a fit is resumed."""
_ANEW = "remove the file to start over"


@dataclass(frozen=True)
class Standing:
    """The state of one start when the file was written."""

    initial_sse: float
    point: Partition
    vertex: Partition
    value: float
    vertex_value: float
    records: list[Record]


class KeptProblem(KMeansProblem):
    """K-means that writes a checkpoint after every block of steps."""

    def __init__(self, kept: Checkpoint, workspace: Any, empty: str, random: RandomSource) -> None:
        super().__init__(workspace, empty, random)
        self._kept = kept
        self._records: list[Record] = []
        self._to_come: list[Record] = []
        self._number = 0
        self._initial_sse = 0.0

    def partition(self, seeds: Centers) -> Partition:
        """Return the first partition; raise an error unless it is that of the file."""
        first = super().partition(seeds)
        self._number, self._initial_sse = self._kept.number_of(seeds), first.sse
        before = self._before()
        if before is not None:
            if before.initial_sse != first.sse:
                raise ValueError(
                    f"{self._kept.path} was written for other data: the SSE at its seeds was "
                    f"{before.initial_sse}, here it is {first.sse}; {_ANEW}"
                )
            self._to_come = before.records
        return first

    def _before(self) -> Standing | None:
        """Return the state of this start in the file; None for a new start."""
        standings = self._kept.standings
        return standings[self._number] if self._number < len(standings) else None

    def advance(self, state: State[Partition], stop: StoppingRule, at_most: int) -> list[Record]:
        """Take steps and write a checkpoint; first return the steps of the file, if any."""
        if self._to_come:
            return self._go_on(state, stop)
        records = super().advance(state, stop, at_most)
        self._records += records
        assert state.vertex is not None
        self._kept.stands(
            self._number,
            Standing(
                initial_sse=self._initial_sse,
                point=state.point,
                vertex=state.vertex,
                value=state.value,
                vertex_value=state.vertex_value,
                records=self._records,
            ),
        )
        return records

    def _go_on(self, state: State[Partition], stop: StoppingRule) -> list[Record]:
        """Move the state and the labels to those of the file.

        A run that continued after its end, to fill clusters, ends there once more and continues.
        """
        before = self._before()
        assert before is not None
        if not self._records:
            found = self.minimize_linear(before.point.centers)
            pairs = ((getattr(found, name), getattr(before.vertex, name)) for name in ARRAYS)
            if not all(np.array_equal(*pair) for pair in pairs):
                raise ValueError(
                    f"{self._kept.path} was written for other data: its centers do not lead to "
                    f"the same clusters here; {_ANEW}"
                )
        # The clock of a time limit counts from now.
        now = perf_counter() - state.started
        records = [replace(record, seconds=now) for record in self._to_come]
        if not self._records:
            records = records[: _first_end(records, stop, self._kept.max_steps)]
        self._records = self._records + records
        self._to_come = self._to_come[len(records) :]
        state.point, state.vertex = before.point, before.vertex
        state.value, state.vertex_value = before.value, before.vertex_value
        state.t, state.met = records[-1].t, stop.met(records[-1])
        return records

    def acceptable(self, state: State[Partition]) -> bool:
        """Whether the run may end; not while the steps of the file are returned."""
        return not self._to_come and super().acceptable(state)

    def fingerprint(self, point: Partition) -> bytes:
        """Return bytes that identify the point; empty while the steps of the file are returned."""
        return b"" if self._to_come else super().fingerprint(point)


class KeptTrimmedProblem(KeptProblem, TrimmedProblem):
    """Trimmed K-means that writes checkpoints."""


def _first_end(records: Sequence[Record], stop: StoppingRule, limit: int | None) -> int:
    """Return the number of records up to the first at which the loop may end."""
    for many, record in enumerate(records, start=1):
        if stop.met(record) is not None or (limit is not None and record.t >= limit):
            return many
    return len(records)
