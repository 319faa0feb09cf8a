"""Frank-Wolfe steps on the device: the order of their kernels, and runs without the host."""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from threading import Lock
from time import perf_counter
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from wolfmeans.engines.base import Limits
from wolfmeans.engines.gpu.clusters import MOST_STEPS, Arena, Clusters, Lows
from wolfmeans.engines.gpu.kernels.lists import DONE, STEPS
from wolfmeans.engines.gpu.launching import (
    INTERPRETED,
    Graph,
    Tape,
    beside,
    side_stream,
    together,
)
from wolfmeans.engines.gpu.memory import MOST_KEPT
from wolfmeans.engines.gpu.rows import FEW_CLUSTERS, Rows
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.weighting import Weighting

_FIRST, _MOST = 4, 16
"""Steps between two looks at whether the run has ended: few at first, then half as many again.

Those beyond the end take the device some microseconds each, a look takes the host a few dozen.
"""
_MOST_RECENT = 16
"""Launches of so many workspaces that are gone are kept."""
_OFTEN = 2
"""A single step that was taken so often will be taken again."""


class Step:
    """All that changes from step to step, for K clusters."""

    def __init__(self, data: Screened, n_clusters: int, weighting: Weighting | None = None) -> None:
        self.data = data
        self.clusters = Clusters(data, n_clusters, weighting)
        self.rows = Rows(data, None if weighting is None else weighting.values)
        self._taken: dict[Lows, _Launches] = {}

    def take_up(self, data: Screened) -> Self:
        """Begin anew, with other data of the same kind."""
        self.data = self.clusters.data = self.rows.data = data
        self._taken = {}
        self.clusters.clear()
        self.rows.clear()
        return self

    def let_go(self) -> None:
        """Keep the tensors, but not the data."""
        del self.data, self.clusters.data, self.rows.data
        self._taken = {}

    @property
    def n_bytes(self) -> int:
        """What the tensors take."""
        return self.clusters.n_bytes + self.rows.n_bytes

    def find_labels(self, source: int) -> None:
        """Launch what gives each point the label of its nearest center, and lists what moved.

        `source` says which of the two buffers holds the centers.
        """
        if not self.clusters.prepare_themselves:
            self.clusters.prepare(source)
        self.rows.find_labels(self.clusters, source)

    def find_moments(self, source: int, lows: Lows) -> None:
        """Launch what follows an assignment: gap, sums, means, record, and whether to go on."""
        sum_gap = partial(self.rows.sum_gap, self.clusters, source, lows.gap)
        # Moves by atomics wait for memory most of the time.
        at_once = self.clusters.n_clusters > FEW_CLUSTERS
        if at_once:
            beside(sum_gap)
        else:
            sum_gap()
        self.rows.move(self.clusters)
        if at_once:
            together()
        self.clusters.settle(source, lows)

    def open(self, lows: Lows) -> None:
        """Launch what comes before the first step."""
        if self.clusters.prepare_themselves:
            self._launches(lows).opening.run()

    def launch(self, steps: int, lows: Lows, *, many: bool) -> None:
        """Launch so many steps, from the first buffer on; as a graph if there are to be many.

        The device is busy with the first ones while the graph is made.
        """
        launches = self._launches(lows)
        for _ in range(steps // 2):
            launches.two(worth_a_graph=many)
        if steps % 2:
            launches.one.run()

    def sum_costs(self, source: int, lows: Lows) -> None:
        """Launch what finds the exact sum of distances to own centers, and whether it has room."""
        self._launches(lows).costs[source].run()

    def _launches(self, lows: Lows) -> _Launches:
        if lows not in self._taken:
            self._taken[lows] = _recalled(self._facts(lows), lambda: self._recorded(lows))
        return self._taken[lows]

    def _recorded(self, lows: Lows) -> _Launches:
        signature = self._signature()

        def tape(number: int, launches: Callable[..., None], *given: Any) -> Tape:
            return Tape(partial(launches, *given), (signature, number))

        return _Launches(
            tape(2, self.clusters.prepare, 0),
            [tape(0, self._launch_step, source, lows) for source in range(2)],
            [tape(1, self.rows.sum_costs, self.clusters, source, lows.gap) for source in range(2)],
        )

    def _launch_step(self, source: int, lows: Lows) -> None:
        if self.rows.in_one_pass:
            self.rows.assign_and_add(self.clusters, source, lows.gap)
            self.clusters.settle(source, lows)
        else:
            self.find_labels(source)
            self.find_moments(source, lows)

    def _facts(self, lows: Lows) -> Hashable:
        """Return all that launches are made of: numbers, and where tensors are."""
        weighting = self.clusters.weighting
        parts = [self.data, self.clusters, self.rows]
        if weighting is not None:
            parts.append(weighting)
        # By name: what is taken up again comes last otherwise. Data is among the parts.
        named = (item for part in parts for item in sorted(vars(part).items()))
        return (lows, *(_fact(value) for name, value in named if name != "data"))

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


class _Spare:
    """The tensors of the last small fit, for the next one of such data.

    To make them anew takes the host longer than some fits take the device.
    """

    def __init__(self) -> None:
        # Owners may go at any moment, even while one of these methods is at work: what is kept
        # comes and goes in one operation.
        self._kept: deque[tuple[Hashable, Step]] = deque(maxlen=1)

    def lend(self, owner: object, data: Screened, n_clusters: int) -> Step:
        """Return a step without weights, which is put by when its owner is gone."""
        device = data.X.device
        # What was launched on another stream may still be at work on these tensors.
        stream = torch.cuda.current_stream().cuda_stream if device.type == "cuda" else 0
        kind = device, stream, data.X.dtype, data.n, data.d, data.digits, n_clusters
        step = self._taken(kind)
        step = Step(data, n_clusters) if step is None else step.take_up(data)
        weakref.finalize(owner, self._put_by, kind, step).atexit = False
        return step

    def _taken(self, kind: Hashable) -> Step | None:
        """Return the step that is kept if it is of that kind; no other one stays."""
        try:
            found, step = self._kept.pop()
        except IndexError:
            return None
        return step if found == kind else None

    def drop(self) -> None:
        """Give the memory back, for something larger."""
        self._kept.clear()

    def _put_by(self, kind: Hashable, step: Step) -> None:
        step.let_go()
        if step.n_bytes <= MOST_KEPT:
            self._kept.append((kind, step))


spare = _Spare()


class _Replayed:
    """A tape that becomes a graph when it is run often."""

    def __init__(self, tape: Tape) -> None:
        self._tape, self._runs = tape, 0
        self._graph: Graph | None = None

    def run(self) -> None:
        """Launch all of it."""
        self._runs += 1
        if self._graph is None and self._runs > _OFTEN and not INTERPRETED:
            self._graph = Graph([self._tape])
        (self._graph or self._tape).run()


class _Launches:
    """The launches of a step from each of the two buffers, and of what finds a cost there.

    They hold addresses, not tensors.

    Parameters
    ----------
    opening : Tape
        What comes before the first step.
    both : two Tapes
        Steps from the first buffer and from the second.
    costs : two Tapes
        For centers in the first buffer and in the second.
    """

    def __init__(self, opening: Tape, both: Sequence[Tape], costs: Sequence[Tape]) -> None:
        self.opening = opening
        self.one, self.costs = _Replayed(both[0]), costs
        self._both = both
        self._graph: Graph | None = None

    def two(self, *, worth_a_graph: bool) -> None:
        """Launch a step to the other buffer, and one back."""
        if self._graph is None and worth_a_graph and not INTERPRETED:
            self._graph = Graph(self._both)
        for part in self._both if self._graph is None else [self._graph]:
            part.run()


_recent: OrderedDict[Hashable, _Launches] = OrderedDict()
_lock = Lock()


def _recalled(facts: Hashable, record: Callable[[], _Launches]) -> _Launches:
    """Return launches with exactly these arguments, if they were recorded before.

    The next fit of such data often finds its tensors where those of the last one were.
    """
    if INTERPRETED:  # tapes hold tensors there
        return record()
    with _lock:
        found = _recent.pop(facts, None)
    if found is None:
        found = record()
    with _lock:
        _recent[facts] = found
        if len(_recent) > _MOST_RECENT:
            _recent.popitem(last=False)
    return found


def _fact(value: Any) -> Any:
    """Return a tensor's address, kind and shape; what else a launch may depend on as it is."""
    if isinstance(value, torch.Tensor):
        return value.data_ptr(), value.dtype, value.shape
    if isinstance(value, list):
        return tuple(_fact(item) for item in value)
    # Data and weights are looked at by themselves, and tensors of an arena where they are used.
    return None if isinstance(value, (Screened, Weighting, Arena)) else value


class Run:
    """Steps that are being taken.

    The host stays ahead: while it waits for what some steps found, the next are launched. Those
    beyond the end do nothing.
    """

    def __init__(self, step: Step, lows: Lows, limits: Limits) -> None:
        self._step, self._lows, self._seconds = step, lows, limits.seconds
        self._at_most = min(limits.at_most, MOST_STEPS)
        self._begun = perf_counter()
        self._counts, self._times = [0], [0.0]
        self._looks: list[_Look] = []
        self._launched, self._together = 0, _FIRST
        self.ended = False
        """Whether no more steps are to be launched."""

    def launch(self) -> None:
        """Launch some steps more."""
        steps = min(self._together, self._at_most - self._launched)
        if self._launched == 0:
            self._step.open(self._lows)
        self._step.launch(steps, self._lows, many=self._launched > 0)
        self._launched += steps
        # An even number, so that all steps begin at the first buffer.
        self._together = min(self._together + self._together // 4 * 2, _MOST)
        self._looks.append(_Look(self._step.clusters.state))

    def look(self) -> None:
        """Wait for all steps but the last ones that were launched, and see whether to go on."""
        all_launched = self._launched == self._at_most
        while len(self._looks) > (0 if all_launched else 1):
            state = self._looks.pop(0).state()
            self._counts.append(state[STEPS.value])
            self._times.append(perf_counter() - self._begun)
            late = self._times[-1] > self._seconds
            self.ended = self.ended or all_launched or bool(state[DONE.value]) or late

    def result(self) -> tuple[int, NDArray[np.float64]]:
        """Return how many steps were taken, and when each was done, in seconds."""
        taken = self._looks[-1].state()[STEPS.value] if self._looks else self._counts[-1]
        return taken, np.interp(np.arange(1, taken + 1), self._counts, self._times)


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
