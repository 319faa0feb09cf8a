"""Frank-Wolfe steps on the device: the order of their kernels, and runs without the host."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from time import perf_counter

import numpy as np
import torch
from numpy.typing import NDArray

from wolfmeans.engines.base import Limits
from wolfmeans.engines.gpu.clusters import MOST_STEPS, Clusters, Lows
from wolfmeans.engines.gpu.launching import INTERPRETED, Graph, Tape
from wolfmeans.engines.gpu.lists import DONE, STEPS
from wolfmeans.engines.gpu.rows import Rows
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.weighting import Weighting

_TOGETHER = 4
"""Steps between two looks at whether the run has ended."""
_FEW_STEPS = 4
"""A graph is worth its price beyond these."""


class Step:
    """All that changes from step to step, for K clusters."""

    def __init__(self, data: Screened, n_clusters: int, weighting: Weighting | None = None) -> None:
        self.data = data
        self.clusters = Clusters(data, n_clusters, weighting)
        self.rows = Rows(data, None if weighting is None else weighting.values)
        self._tapes: dict[tuple[int, bool, Lows], Tape] = {}
        self._graphs: dict[tuple[bool, Lows], Graph] = {}

    def find_labels(self, source: int) -> None:
        """Launch what gives each point the label of its nearest center, and lists what moved.

        `source` says which of the two buffers holds the centers.
        """
        self.clusters.prepare(source)
        self.rows.find_labels(self.clusters, source)

    def find_moments(self, source: int, lows: Lows, keep: bool) -> None:
        """Launch what follows an assignment: gap, sums, means, record, and whether to go on."""
        self.rows.sum_gap(self.clusters, source, lows.gap)
        self.rows.move(self.clusters)
        self.clusters.find_means(source, lows)
        self.clusters.finish(source, lows, keep)

    def run(self, lows: Lows, limits: Limits) -> tuple[int, NDArray[np.float64]]:
        """Take steps until the limits; return how many, and when each was done, in seconds.

        The host stays ahead: while it waits for what some steps found, the next are launched. Those
        beyond the end do nothing.
        """
        begun = perf_counter()
        at_most = min(limits.at_most, MOST_STEPS)
        counts, times = [0], [0.0]
        looks: list[_Look] = []
        launched = 0
        ended = False
        while not ended:
            launched += self._launch(min(_TOGETHER, at_most - launched), at_most, lows, limits)
            looks.append(_Look(self.clusters.state))
            ended = launched == at_most
            while len(looks) > (0 if ended else 1):
                look = looks.pop(0)
                state = look.state()
                counts.append(state[STEPS.value])
                times.append(perf_counter() - begun)
                ended = ended or bool(state[DONE.value]) or times[-1] > limits.seconds
        taken = looks[-1].state()[STEPS.value] if looks else counts[-1]
        return taken, np.interp(np.arange(1, taken + 1), counts, times)

    def _launch(self, steps: int, at_most: int, lows: Lows, limits: Limits) -> int:
        """Launch so many steps, from the first buffer on; return how many."""
        tapes = [self._tape(source, lows, limits.keep_empty) for source in range(min(2, at_most))]
        pair: Sequence[Tape | Graph] = tapes
        if at_most > _FEW_STEPS and not INTERPRETED:
            key = (limits.keep_empty, lows)
            if key not in self._graphs:
                self._graphs[key] = Graph(tapes)
            pair = [self._graphs[key]]
        for _ in range(steps // 2):
            for part in pair:
                part.run()
        if steps % 2:
            tapes[0].run()
        return steps

    def _tape(self, source: int, lows: Lows, keep: bool) -> Tape:
        key = (source, keep, lows)
        if key not in self._tapes:

            def launches() -> None:
                self.find_labels(source)
                self.find_moments(source, lows, keep)

            self._tapes[key] = Tape(launches, (keep, *self._signature()))
        return self._tapes[key]

    def _signature(self) -> tuple[Hashable, ...]:
        """Return what decides which compiled kernels take a step."""
        data, weighting = self.data, self.clusters.weighting
        digits = None
        if weighting is not None:
            digits = (weighting.digits, weighting.sum_digits, weighting.small)
        aligned = data.X.data_ptr() % 16 == 0
        # A slice of labels or of weights need not be where an allocation begins.
        aligned = aligned and self.rows.is_aligned()
        place = data.X.device.index, data.X.dtype, aligned, data.noise is None
        return (*place, data.d, data.digits, digits, self.clusters.n_clusters, data.n >= 2**31)


class _Look:
    """The counters at some moment, on their way to the host."""

    def __init__(self, state: torch.Tensor) -> None:
        on_device = state.device.type == "cuda"
        self._copy = torch.empty(state.shape, dtype=state.dtype, pin_memory=on_device)
        self._copy.copy_(state, non_blocking=True)
        self._event = torch.cuda.Event() if on_device else None
        if self._event is not None:
            self._event.record()

    def state(self) -> list[int]:
        """Wait for it."""
        if self._event is not None:
            self._event.synchronize()
        found: list[int] = self._copy.tolist()
        return found
