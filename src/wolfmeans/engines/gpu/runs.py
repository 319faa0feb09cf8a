"""Runs of steps on the device: launched before the host knows whether they are needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray

from wolfmeans.core.workspace import Centers, Distances, Limits
from wolfmeans.engines.gpu.clusters import MOST_STEPS, Lows
from wolfmeans.engines.gpu.kernels.lists import DONE, STEPS
from wolfmeans.engines.gpu.launching import INTERPRETED, side_stream
from wolfmeans.engines.gpu.steps import Step
from wolfmeans.engines.gpu.transfers import Download

_SHORT = 1 << 25
_VERY_SHORT = 1 << 30
_FIRST, _MOST = 4, 16
"""Steps between two checks whether the run has ended: few at first, then half as many again.

Those beyond the end take the device some microseconds each, a check takes the host a few dozen.
"""


class Run:
    """Steps that are being taken.

    The host stays ahead: while it waits for what some steps found, the next are launched. Those
    beyond the end do nothing.

    Parameters
    ----------
    step : Step
        What takes them.
    lows : Lows
        Where its sums begin.
    limits : Limits
        Where they end.
    before : int, default=0
        How many steps of the same run on the device come before the requested ones.
    launched : int, default=0
        How many have been launched, these included; an even number.
    """

    def __init__(
        self, step: Step, lows: Lows, limits: Limits, before: int = 0, launched: int = 0
    ) -> None:
        self._step, self._lows, self._seconds = step, lows, limits.seconds
        self.at_most = min(before + limits.at_most, MOST_STEPS)
        """The largest number of steps, with those before."""
        self._begun = perf_counter()
        self.before, self._launched_before = before, launched
        self._counts, self._times = [before], [0.0]
        self._downloads: list[Download] = []
        self._after: int | None = None
        self._launched, self._together = launched, _FIRST
        self.ended = False
        """Whether no more steps are to be launched."""

    @property
    def all_launched(self) -> bool:
        """Whether all steps are launched that may be taken."""
        return self._launched == self.at_most

    def launch(self) -> None:
        """Launch some steps more."""
        steps = min(self._together, self.at_most - self._launched)
        if self._launched == 0:
            self._step.open(self._lows)
        self._step.launch(steps, self._lows, many=self._launched > self._launched_before)
        self._launched += steps
        # An even number, so that all steps begin at the first buffer.
        self._together = min(self._together + self._together // 4 * 2, _MOST)
        # Counters that were read make room for the next.
        self._downloads.append(Download(self._step.clusters.state, _taken(_spare)))

    def poll(self) -> None:
        """Wait for all steps but the last ones that were launched, and see whether to go on."""
        while len(self._downloads) > (0 if self.all_launched else 1):
            state = self._state()
            self._counts.append(state[STEPS.value])
            self._times.append(perf_counter() - self._begun)
            late = self._times[-1] > self._seconds
            self.ended = self.ended or self.all_launched or bool(state[DONE.value]) or late

    def _state(self) -> list[int]:
        """Wait for the counters that were sent first."""
        counters = self._downloads.pop(0)
        state: list[int] = counters.array().tolist()
        if not counters.in_inference_mode:
            _spare.append(counters)
        return state

    def taken(self) -> int:
        """Return how many steps were taken, with those before."""
        while self._downloads:
            self._after = self._state()[STEPS.value]
        return self._counts[-1] if self._after is None else self._after

    def seconds(self) -> NDArray[np.float64]:
        """Return when each of the requested steps was done."""
        numbers = np.arange(self.before + 1, self.taken() + 1)
        return np.interp(numbers, self._counts, self._times)


# Counters that were read: memory for the next ones.
_spare: deque[Download] = deque(maxlen=8)


def _taken(spare: deque[Download]) -> Download | None:
    try:
        return spare.pop()
    except IndexError:
        return None


def run_together(runs: Sequence[Run]) -> None:
    """Take the steps of several runs at once, each on a stream of its own."""
    if INTERPRETED:
        for run in runs:
            while not run.ended:
                run.launch()
                run.poll()
        return
    here = torch.cuda.current_stream()
    streams = [side_stream(torch.cuda.current_device(), number) for number in range(len(runs))]
    for stream in streams:
        stream.wait_stream(here)
    left = list(zip(runs, streams, strict=True))
    try:
        while left:
            for run, stream in left:
                with torch.cuda.stream(stream):
                    run.launch()
            for run, _ in left:
                run.poll()
            left = [(run, stream) for run, stream in left if not run.ended]
    finally:
        # Even after an error, this memory is not used again before the steps are done.
        for stream in streams:
            here.wait_stream(stream)


def speculative_steps(n: int, d: int, n_clusters: int, to_come: int) -> int:
    """Return how many steps to take before the rule is known: none or an odd number.

    After an odd number the buffers are where they were. Long steps would gain little, and cost more
    where they have to be undone. One cluster is the mean of the data, and no fit.
    """
    if to_come < 1 or n_clusters < 2 or n * d > _SHORT:
        return 0
    return 3 if to_come >= 3 and n * d * n_clusters <= _VERY_SHORT else 1


@dataclass(frozen=True)
class Speculation:
    """Steps that were launched right behind the first assignment of a fit, before it was read.

    When the first assignment is done, the host fetches it, makes a partition of it, computes the
    tolerance and launches the next steps. For short steps, the device would wait for longer than it
    works. So some steps are launched at once. They end by the device's own rule alone: where no
    point moves, or a sum has no room.

    Their result is used if the next call asks for steps from exactly where they began, and if none
    of them but the last one meets the rule that comes with it. Otherwise the first assignment is
    made again: its centers determine all that is on the device, so the result is the same.
    """

    seeds: Centers
    """The centers of the first assignment."""
    centers: Centers
    """The means that it found, where the steps begin."""
    weights: Distances
    """The weights of its clusters."""
    shift: float
    """How far the centers moved."""
    steps: int
    """How many were launched."""

    def serve(self, centers: Centers, weights: Distances, shift: float, limits: Limits) -> bool:
        """Whether these are the first of the requested steps."""
        same = centers is self.centers and weights is self.weights and shift == self.shift
        return same and limits.at_most >= self.steps

    def overshot(self, records: NDArray[np.float64], limits: Limits) -> bool:
        """Whether a step was taken beyond one that meets the rule, of these records.

        Comparisons are those of `conclude` in kernels/means.py.
        """
        return any(_is_met(record, limits) for record in records[:-1][: self.steps].tolist())


def _is_met(record: list[float], limits: Limits) -> bool:
    moved, _, gap, movement, shift, _, empty, inexact = record
    return (
        gap <= limits.gap
        or gap + movement <= limits.decrease
        or shift <= limits.shift
        or (empty > 0 and not limits.keep_empty)
        or moved == 0
        or inexact != 0
    )
