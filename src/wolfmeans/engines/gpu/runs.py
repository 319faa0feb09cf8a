"""Runs of steps on the device: launched ahead of the host, looked at now and then."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray

from wolfmeans.core.workspace import Limits
from wolfmeans.engines.gpu.clusters import Lows
from wolfmeans.engines.gpu.kernels.lists import DONE, STEPS
from wolfmeans.engines.gpu.launching import INTERPRETED, side_stream
from wolfmeans.engines.gpu.orders import MOST_STEPS
from wolfmeans.engines.gpu.steps import Step
from wolfmeans.engines.gpu.transfers import Sent

_FIRST, _MOST = 4, 16
"""Steps between two looks at whether the run has ended: few at first, then half as many again.

Those beyond the end take the device some microseconds each, a look takes the host a few dozen.
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
        How many steps came before those that are asked for, in the same run of the device.
    launched : int, default=0
        How many have been launched, these included; an even number.
    """

    def __init__(
        self, step: Step, lows: Lows, limits: Limits, before: int = 0, launched: int = 0
    ) -> None:
        self._step, self._lows, self._seconds = step, lows, limits.seconds
        self.at_most = min(before + limits.at_most, MOST_STEPS)
        """So many steps are taken at most, with those before."""
        self._begun = perf_counter()
        self.before, self._launched_ahead = before, launched
        self._counts, self._times = [before], [0.0]
        self._looks: list[Sent] = []
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
        self._step.launch(steps, self._lows, many=self._launched > self._launched_ahead)
        self._launched += steps
        # An even number, so that all steps begin at the first buffer.
        self._together = min(self._together + self._together // 4 * 2, _MOST)
        # What has been looked at makes room for the next.
        self._looks.append(Sent(self._step.clusters.state, _taken(_seen)))

    def look(self) -> None:
        """Wait for all steps but the last ones that were launched, and see whether to go on."""
        while len(self._looks) > (0 if self.all_launched else 1):
            state = self._state()
            self._counts.append(state[STEPS.value])
            self._times.append(perf_counter() - self._begun)
            late = self._times[-1] > self._seconds
            self.ended = self.ended or self.all_launched or bool(state[DONE.value]) or late

    def _state(self) -> list[int]:
        """Wait for the counters that were sent first."""
        look = self._looks.pop(0)
        state: list[int] = look.array().tolist()
        if not look.in_inference_mode:
            _seen.append(look)
        return state

    def taken(self) -> int:
        """Return how many steps were taken, with those before."""
        while self._looks:
            self._after = self._state()[STEPS.value]
        return self._counts[-1] if self._after is None else self._after

    def seconds(self) -> NDArray[np.float64]:
        """Return when each of the steps was done that were asked for."""
        numbers = np.arange(self.before + 1, self.taken() + 1)
        return np.interp(numbers, self._counts, self._times)


# Counters that were looked at: memory for those that are sent next.
_seen: deque[Sent] = deque(maxlen=8)


def _taken(looks: deque[Sent]) -> Sent | None:
    try:
        return looks.pop()
    except IndexError:
        return None


def run_together(runs: Sequence[Run]) -> None:
    """Take the steps of several runs at once, each on a stream of its own."""
    if INTERPRETED:
        for run in runs:
            while not run.ended:
                run.launch()
                run.look()
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
                run.look()
            left = [(run, stream) for run, stream in left if not run.ended]
    finally:
        # Whatever happens, nobody gets this memory before the steps are done with it.
        for stream in streams:
            here.wait_stream(stream)
