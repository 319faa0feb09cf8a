"""Frank-Wolfe steps on the device: the order of their kernels, and runs without the host."""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial
from threading import Lock
from typing import Any, Self

import torch
from triton.runtime.driver import driver

from wolfmeans.engines.gpu.clusters import Arena, Clusters, Lows, RunControl
from wolfmeans.engines.gpu.kernels.opening import clear
from wolfmeans.engines.gpu.launching import (
    INTERPRETED,
    UNFUSED,
    Graph,
    Tape,
    beside,
    launch,
    together,
)
from wolfmeans.engines.gpu.memory import MOST_KEPT, kept
from wolfmeans.engines.gpu.rows import FEW_CLUSTERS, Rows
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.weighting import Weighting

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
        self._clear: Tape | None = None

    def take_up(self, data: Screened) -> Self:
        """Begin anew, with other data of the same kind."""
        self.data = self.clusters.data = self.rows.data = data
        self.clear()
        return self

    def clear(self) -> None:
        """Forget all labels, bounds and sums."""
        if self._clear is None:
            self._clear = Tape(self._launch_clear)
        self._clear.run()

    def _launch_clear(self) -> None:
        rows, n = self.rows, self.data.n
        launch(
            clear, -(-n // 1024),
            rows.labels, rows.slack, rows.counts, n, *self.clusters.cleared(), BLOCK=1024,
            num_warps=4, **UNFUSED,
        )  # fmt: skip

    def let_go(self) -> None:
        """Keep the tensors, but not the data."""
        del self.data, self.clusters.data, self.rows.data
        self._taken = {}

    @cached_property
    def n_bytes(self) -> int:
        """What the tensors take."""
        return self.clusters.n_bytes + self.rows.n_bytes

    def find_labels(self, source: int) -> None:
        """Launch kernels that give each point the label of its nearest center, and list moved rows.

        `source` says which of the two buffers holds the centers.
        """
        self.clusters.prepare(source)
        self.rows.find_labels(self.clusters, source)

    def add_moves(self, source: int, lows: Lows) -> None:
        """Launch kernels that add up the gap, and move rows between the sums of clusters."""
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

    def assign_rows(self, source: int, lows: Lows) -> None:
        """Launch kernels that give rows their labels, and update gap and sums."""
        if self.rows.in_one_pass:
            self.rows.assign_and_add(self.clusters, source, lows.gap)
        else:
            self.rows.find_labels(self.clusters, source)
            self.add_moves(source, lows)

    def open(self, lows: Lows) -> None:
        """Launch kernels that run before the first step."""
        for tape in self._launches(lows).opening:
            tape.run()

    def launch(self, steps: int, lows: Lows, *, many: bool) -> None:
        """Launch so many steps, from the first buffer on; as a graph if there are to be many.

        The device is busy with the first ones while the graph is made.
        """
        launches = self._launches(lows)
        for _ in range(steps // 2):
            launches.two.run(worth_a_graph=many)
        if steps % 2:
            launches.one.run()

    def launch_one(self, lows: Lows) -> None:
        """Launch a step from centers that have just been put into the first buffer."""
        self.open(lows)
        self.launch(1, lows, many=False)

    def launch_first(self, lows: Lows) -> None:
        """Launch a step from the first buffer on, and what finds the cost of its means."""
        self._launches(lows).first.run()

    def launch_back(self, steps: int, lows: Lows) -> None:
        """Launch so many steps, an odd number, from the second buffer on."""
        launches = self._launches(lows)
        launches.back.run()
        for _ in range(steps // 2):
            launches.two.run(worth_a_graph=False)

    def sum_costs(self, source: int, lows: Lows) -> None:
        """Launch kernels that find the cost, and whether its sum has room."""
        self._launches(lows).costs[source].run()

    def _launches(self, lows: Lows) -> _Launches:
        found = self._taken.get(lows)
        if found is None:
            found = self._taken[lows] = self._remembered(lows)
        return found

    def _remembered(self, lows: Lows) -> _Launches:
        """Return launches of the last fits, if all that they are made of is the same."""
        if INTERPRETED:  # tapes hold tensors there
            return self._recorded(lows)
        facts = lows, _facts(self.data), self._own_facts
        return _recalled(facts, lambda: self._recorded(lows))

    @cached_property
    def _own_facts(self) -> Hashable:
        """What launches are made of but for the data: found once, as these tensors stay."""
        weighting = self.clusters.weighting
        own = _facts(self.clusters), _facts(self.rows)
        return own if weighting is None else (*own, _facts(weighting))

    def _recorded(self, lows: Lows) -> _Launches:
        signature = self._signature()

        def tape(number: int, launches: Callable[..., None], *given: Any) -> Tape:
            return Tape(partial(launches, *given), (signature, number))

        opening = []
        if self.clusters.prepare_themselves:
            opening = [tape(2, self.clusters.prepare, 0)]
        return _Launches(
            opening,
            [tape(0, self._launch_step, source, lows) for source in range(2)],
            [tape(1, self.rows.sum_costs, self.clusters, source, lows.gap) for source in range(2)],
        )

    def _launch_step(self, source: int, lows: Lows) -> None:
        if not self.clusters.prepare_themselves:
            self.clusters.prepare(source)
        # Otherwise they are prepared since the last step, or the opening.
        self.assign_rows(source, lows)
        self.clusters.settle(source, lows)

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
    """A cache of one: the tensors of the last small fit, for the next fit of such data.

    Allocating them takes the host longer than some fits take the device.
    """

    def __init__(self) -> None:
        # Owners may be collected at any moment, even during one of these methods: a step is put in
        # and taken out in one operation.
        self._kept: deque[tuple[Hashable, Step]] = deque(maxlen=1)

    def lend(self, owner: object, data: Screened, n_clusters: int) -> Step:
        """Return a step without weights; it comes back here when its owner is collected."""
        device = data.X.device
        # What was launched on another stream may still be at work on these tensors.
        stream = driver.active.get_current_stream(device.index) if device.type == "cuda" else 0
        # Tensors that were made in inference mode cannot be written to outside of it.
        mode = torch.is_inference_mode_enabled()
        kind = device, stream, mode, data.X.dtype, data.n, data.d, data.digits, n_clusters
        step = self._taken(kind)
        if step is None:
            with kept(device, data.n, data.d):
                step = Step(data, n_clusters)
        else:
            step.take_up(data)
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
    """Tapes that become a graph when they are run often."""

    def __init__(self, *tapes: Tape) -> None:
        self._tapes, self._runs = tapes, 0
        self._graph: Graph | None = None

    def run(self, *, worth_a_graph: bool | None = None) -> None:
        """Launch all of it; None makes a graph after some runs."""
        self._runs += 1
        if worth_a_graph is None:
            worth_a_graph = self._runs > _OFTEN
        if self._graph is None and worth_a_graph and not INTERPRETED:
            self._graph = Graph(self._tapes)
        for part in self._tapes if self._graph is None else [self._graph]:
            part.run()


class _Launches:
    """The launches of a step from each of the two buffers, and of what finds a cost there.

    They hold addresses, not tensors.

    Parameters
    ----------
    opening : Tapes
        What comes before the first step.
    both : two Tapes
        Steps from the first buffer and from the second.
    costs : two Tapes
        For centers in the first buffer and in the second.
    """

    def __init__(
        self, opening: Sequence[Tape], both: Sequence[Tape], costs: Sequence[Tape]
    ) -> None:
        self.opening = opening
        self.one, self.back = _Replayed(both[0]), _Replayed(both[1])
        self.two = _Replayed(*both)
        """A step to the other buffer, and one back."""
        self.first = _Replayed(*opening, both[0], costs[1])
        self.costs = [_Replayed(tape) for tape in costs]


_recent: OrderedDict[Hashable, _Launches] = OrderedDict()
_lock = Lock()


def _recalled(facts: Hashable, record: Callable[[], _Launches]) -> _Launches:
    """Return launches with exactly these arguments, if they were recorded before.

    The next fit of such data often finds its tensors where those of the last one were.
    """
    with _lock:
        found = _recent.pop(facts, None)
    if found is None:
        found = record()
    with _lock:
        _recent[facts] = found
        if len(_recent) > _MOST_RECENT:
            _recent.popitem(last=False)
    return found


def _facts(of: object) -> Hashable:
    """Return all that launches take from an object: numbers, and where tensors are.

    The data has facts of its own: it is exchanged, and may come last then.
    """
    return tuple(_fact(value) for name, value in vars(of).items() if name != "data")


def _fact(value: Any) -> Any:
    """Return a tensor's address, kind and shape; what else a launch may depend on as it is."""
    if isinstance(value, torch.Tensor):
        return value.data_ptr(), value.dtype, value.shape
    if isinstance(value, list):
        return tuple(_fact(item) for item in value)
    # Data and weights have facts of their own; tensors of an arena count where they are used.
    return None if isinstance(value, (Screened, Weighting, Arena, RunControl)) else value
