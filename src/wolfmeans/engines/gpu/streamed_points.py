"""A workspace of data that is larger than the device: labels and bounds there, rows part by part.

A step updates the bounds of all rows, which needs no coordinates, and computes only the rows that
they cannot decide. Where these are few, only they come to the device; parts without one stay
where they are. What has no natural form in parts (orders, single moves, seeding by distances) is
done on the host, by the engine that is there, with the same bits.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from wolfmeans.core.workspace import (
    Assignment,
    Centers,
    Distances,
    Forced,
    Labels,
    Limits,
    Partial,
    Turn,
)
from wolfmeans.engines.gpu.clusters import Clusters, Lows
from wolfmeans.engines.gpu.distances import GpuKernels
from wolfmeans.engines.gpu.grid_sums import ScalarSum
from wolfmeans.engines.gpu.host_points import OnHost
from wolfmeans.engines.gpu.kernels import bounds as bound_kernels
from wolfmeans.engines.gpu.kernels.lists import ACTIVE, LENGTHS, MOVED
from wolfmeans.engines.gpu.launching import UNFUSED, launch
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.streaming import Part, Streamed
from wolfmeans.engines.gpu.transfers import as_tensor, to_device, to_host
from wolfmeans.engines.gpu.weighting import Weighting
from wolfmeans.engines.native import turn
from wolfmeans.engines.reference import ReferencePoints, on_host_sums
from wolfmeans.engines.single_moves import SingleMoves
from wolfmeans.engines.swaps import Swaps
from wolfmeans.exact.limbs import Grids, Limbs
from wolfmeans.exact.sums import exact_sum

_FEW = 0.25
"""Of a part with fewer active rows than this, only those are sent: the host picks rows more slowly
than it sends all of them."""


class StreamedKernels:
    """Canonical distances between streamed rows and centers from the host."""

    def __init__(self, data: Streamed) -> None:
        self.data = data
        self.inside = GpuKernels(data.window)
        """The same for the rows that are in the window."""

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return the lowest nearest center of each point and its canonical distance."""
        labels, distances = np.empty(self.data.n, dtype=np.int32), np.empty(self.data.n)
        sent: Any = self.inside.on_device(centers)
        for part in self.data.pass_by(self.data.everything(), short=True):
            labels[part.rows], distances[part.rows] = self.inside.nearest(sent)
        return labels, distances

    def second_nearest(self, centers: Centers) -> tuple[Distances, Distances]:
        """Return the smallest and the second smallest canonical distance of each point."""
        return self._two_nearest(self.data.everything(), self.data.n, centers)

    def two_nearest(self, rows: NDArray[np.int64], centers: Centers) -> tuple[Distances, Distances]:
        """Return the two smallest canonical distances of some of the points, ascending."""
        return self._two_nearest(self.data.listed(rows), len(rows), centers)

    def _two_nearest(
        self, parts: list[Part], many: int, centers: Centers
    ) -> tuple[Distances, Distances]:
        nearest, second = np.empty(many), np.empty(many)
        sent: Any = self.inside.on_device(centers)
        begin = 0
        for part in self.data.pass_by(parts):
            these = slice(begin, begin + part.size)
            nearest[these], second[these] = self.inside.second_nearest(sent)
            begin += part.size
        return nearest, second

    def distances(self, centers: Centers, labels: Labels) -> Distances:
        """Return the canonical distance of each point to the center of its label."""
        distances = np.empty(self.data.n)
        sent: Any = self.inside.on_device(centers)
        for part in self.data.pass_by(self.data.everything()):
            distances[part.rows] = self.inside.distances(sent, labels[part.rows])
        return distances

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) square roots of the canonical distances."""
        roots = np.empty((self.data.n, len(centers)), dtype=centers.dtype)
        for part in self.data.pass_by(self.data.everything()):
            roots[part.rows] = self.inside.roots(centers)
        return roots

    def of(self, rows: NDArray[np.int64]) -> GpuKernels:
        """Return the same for some of the rows, few enough for the device."""
        return GpuKernels(Screened(as_tensor(self.data.X[rows]).to(self.data.device)))


class _State(NamedTuple):
    """What is on the device between steps."""

    clusters: Clusters
    labels: torch.Tensor
    """(n,) int32, -1 for none."""
    slack: torch.Tensor
    """(n,) float32, how much nearer than any other center the own one is, at least."""
    before: torch.Tensor
    """(n,) int32, the labels before the last step."""


class StreamedPoints(ReferencePoints):
    """Points in the host's memory, with their weights where they have any."""

    engine = "gpu"
    _kernels: StreamedKernels

    def __init__(
        self,
        data: Streamed,
        n_threads: int,
        weights: NDArray[np.float64] | None = None,
        weighting: Weighting | None = None,
    ) -> None:
        super().__init__(data.X, weights, StreamedKernels(data))
        self.data, self._n_threads, self._weighting = data, n_threads, weighting
        self._on_host = OnHost(data.X, weights, n_threads)
        self._state: _State | None = None
        self._last: tuple[Assignment, Centers, float, float] | None = None

    def fork(self, n_threads: int) -> StreamedPoints:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = StreamedPoints(self.data, n_threads, self.weights, self._weighting)
        twin.meanwhile, twin._on_host = self.meanwhile, self._on_host
        return twin

    def fork_for_trimming(self) -> ReferencePoints:
        """Return the points that the trimmed oracle works on: exact sums are on the host."""
        return on_host_sums(self.data.X, self.weights, self._kernels)

    def _opened(self, n_clusters: int) -> _State:
        if self._state is None:
            n, window = self.n_points, self.data.window
            try:
                clusters = Clusters(window, n_clusters, self._weighting)
                labels = torch.full((n,), -1, dtype=torch.int32, device=window.X.device)
                slack = torch.full((n,), -math.inf, dtype=torch.float32, device=window.X.device)
                self._state = _State(clusters, labels, slack, torch.empty_like(labels))
            except torch.OutOfMemoryError as error:
                raise MemoryError(
                    f"the labels of {n} points and the sums of {n_clusters} clusters of "
                    f"{self.n_features} columns do not fit into the GPU's memory: free some of "
                    "it, or take engine='cpu', which gives the same result"
                ) from error
        return self._state

    def _lows(self, centers: Centers) -> Lows:
        """Return where the sums of a step begin, for centers like these and means of points."""
        reach = max(self.largest(), float(np.abs(centers).max()))
        heaviest = 0 if self._weighting is None else self._weighting.high
        return Lows.of(reach, self.n_points, self.n_features, heaviest)

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""
        clusters, lows = self._assign_rows(centers, forced)
        clusters.settle(0, lows)
        record, means, residuals, weights = to_host(clusters.records[0], *clusters.place(1))
        found = Assignment(int(record[0]), float(record[2]), weights, means, residuals)
        shift, movement = float(record[5]), float(record[3])
        if record[7]:
            # Sums that had no room in the device's limbs are made on the host.
            found = replace(found, gap=exact_sum(self._gap_terms(centers).tolist()))
            shift, movement = ReferencePoints.step(self, found, centers)
        self._last = (found, centers, shift, movement)
        return found

    def assign_exactly(self, centers: Centers, forced: Forced | None = None) -> Partial:
        """Assign the points; return sums that can be added to those of other points."""
        grids = self.agreed_grids()
        clusters, lows = self._assign_rows(centers, forced)
        return clusters.partial(grids, lows.gap, lambda: self._gap_terms(centers))

    def step(self, found: Assignment, centers: Centers) -> tuple[float, float]:
        """Return the shift and the movement of a step from the centers to the means found."""
        if self._last is not None and self._last[0] is found and self._last[1] is centers:
            return self._last[2], self._last[3]
        return super().step(found, centers)

    def turn(self, found: Assignment, centers: Centers) -> Turn:
        """Return the step of unit centers to the directions of the means found, on the host."""
        return turn(found, centers, self._n_threads)

    def _assign_rows(self, centers: Centers, forced: Forced | None) -> tuple[Clusters, Lows]:
        """Give rows their labels, and bring gap and sums up to date with them."""
        state = self._opened(len(centers))
        clusters, lows = state.clusters, self._lows(centers)
        clusters.begin(centers, Limits(1, math.inf), math.nan, 0)
        clusters.prepare(0)
        state.before.copy_(state.labels)
        if forced is not None:
            there = to_device(forced.rows, state.labels)
            state.slack[there] = -math.inf
        moved = torch.zeros_like(clusters.state[:1])
        for part in self.data.pass_by(self._undecided(state), self.weights, short=True):
            self._step(state, part, lows, forced)
            # The lists of the next part begin anew.
            moved += clusters.state[MOVED.value]
            clusters.state[LENGTHS] = 0
        if forced is not None:
            state.slack[there] = -math.inf
        clusters.state[MOVED.value : MOVED.value + 1] = moved
        return clusters, lows

    def adopt(self, labels: Labels, centers: Centers) -> None:
        """Take over labels that these centers gave the same points before."""
        self._state = None
        state, rows = self._opened(len(centers)), self.data.rows
        clusters = state.clusters
        clusters.begin(centers, Limits(1, math.inf), math.nan, 0)
        clusters.before.copy_(clusters.centers[0])
        state.labels.copy_(as_tensor(labels))
        for part in self.data.pass_by(self.data.everything(), self.weights):
            rows.labels[: part.size] = state.labels[part.places]
            self._list_moved(clusters, torch.arange(part.size), torch.full((part.size,), -1))
            rows.move(clusters)

    def _list_moved(self, clusters: Clusters, moved: torch.Tensor, old: torch.Tensor) -> None:
        """List rows of the window that move, and the labels that they had."""
        rows = self.data.rows
        rows.moved_rows[: len(moved)] = moved.int()
        rows.moved_from[: len(moved)] = old
        clusters.state[MOVED.value] = len(moved)

    def _undecided(self, state: _State) -> list[Part]:
        """Bring the bounds up to date; return the rows that they cannot decide."""
        data, clusters = self.data, state.clusters
        margin = data.window.margin
        parts = data.everything()
        active = torch.zeros(len(parts), dtype=torch.int32, device=state.labels.device)
        for number, part in enumerate(parts):
            # A list that is not in use yet takes the rows, which are not wanted here.
            launch(
                bound_kernels.select_active, triton.cdiv(part.size, 1024),
                clusters.state, state.labels[part.places], state.slack[part.places],
                clusters.shifts, clusters.reach[0], data.rows.active, part.size, margin,
                BLOCK=1024, **UNFUSED,
            )  # fmt: skip
            active[number] = clusters.state[ACTIVE.value]
            clusters.state[ACTIVE.value] = 0
        counts = to_host(active)[0]
        whole, listed = [], []
        for number, part in enumerate(parts):
            if counts[number] > _FEW * part.size:
                whole.append(part)
            elif counts[number]:
                some = torch.nonzero(state.slack[part.places] <= margin).flatten()
                listed.append(some + number * data.capacity)
        if not listed:
            return whole
        places = torch.cat(listed)
        return whole + data.listed(to_host(places)[0], places)

    def _step(self, state: _State, part: Part, lows: Lows, forced: Forced | None) -> None:
        """Launch kernels that update labels, gap and sums for the rows in the window."""
        clusters, rows, size = state.clusters, self.data.rows, part.size
        rows.labels[:size] = state.labels[part.places]
        # All rows in the window are computed.
        rows.slack[:size] = -math.inf
        rows.find_labels(clusters, 0)
        if forced is not None:
            self._force(state, part, forced)
        rows.sum_gap(clusters, 0, lows.gap)
        rows.move(clusters)
        state.labels[part.places] = rows.labels[:size]
        state.slack[part.places] = rows.slack[:size]

    def _force(self, state: _State, part: Part, forced: Forced) -> None:
        """Give the forced labels to rows in the window, and list anew what moved."""
        if isinstance(part.rows, slice):
            within = (forced.rows >= part.rows.start) & (forced.rows < part.rows.stop)
            places = forced.rows[within] - part.rows.start
        else:
            within = np.isin(forced.rows, part.rows)
            places = np.searchsorted(part.rows, forced.rows[within])
        if not len(places):
            return
        rows = self.data.rows
        labels, old = rows.labels[: part.size], state.before[part.places]
        labels[to_device(places, labels)] = to_device(forced.labels[within], labels)
        moved = torch.nonzero(labels != old).flatten()
        self._list_moved(state.clusters, moved, old[moved])

    def _gap_terms(self, centers: Centers) -> NDArray[np.float64]:
        """Return what each of the rows gained that moved in the last assignment."""
        assert self._state is not None
        old, new = to_host(self._state.before, self._state.labels)
        rows = np.flatnonzero((old != new) & (old >= 0))
        far = self._kernels.distances(centers, np.maximum(old, 0))[rows]
        terms = far - self._kernels.distances(centers, new)[rows]
        return terms if self.weights is None else self.weights[rows] * terms

    def _labelled_before(self) -> _State:
        if self._state is None:
            raise RuntimeError("points have no labels before the first assignment")
        return self._state

    def _current(self) -> Labels:
        return to_host(self._labelled_before().labels)[0]

    def labels(self) -> Labels:
        """Return the current labels (a copy)."""
        return self._current()

    def near_ties(
        self, centers: Centers, slack: float
    ) -> tuple[NDArray[np.int64], Distances, Distances]:
        """Return the rows that the bounds cannot tell from a tie."""
        state, rows = self._state, None
        if state is not None:
            rows = state.clusters.near_ties(state.slack, centers, slack)
        if rows is None:
            return super().near_ties(centers, slack)
        return rows, *self._kernels.two_nearest(rows, centers)

    def largest(self) -> float:
        """Return the largest absolute value in the data."""
        return self.data.window.largest

    def mean(self, *, weighted: bool) -> Centers:
        """Return the (d,) mean of all points, rounded as a center."""
        weights = (self.weights, self._weighting) if weighted else (None, None)
        zero = np.zeros((1, self.n_features), dtype=self.dtype)
        twin = StreamedPoints(self.data, self._n_threads, *weights)
        mean: Centers = twin.assign(zero).means[0]
        return mean

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of w D over the points at their labels, rounded once."""
        total = self._cost(centers).rounded()
        return super().cost(centers) if total is None else total

    def exact_cost(self, centers: Centers) -> Limbs:
        """Return the cost as a sum that can be added to those of other points."""
        total = self._cost(centers).exact()
        return super().exact_cost(centers) if total is None else total

    def _cost(self, centers: Centers) -> ScalarSum:
        labels, inside = self._labelled_before().labels, self._kernels.inside
        sent, total = inside.on_device(centers), ScalarSum(labels.device, self._lows(centers).gap)
        for part in self.data.pass_by(self.data.everything(), self.weights):
            inside.add_costs(sent, labels[part.places], self.data.rows.masses, total)
        return total

    # --- What is done on the host ---------------------------------------------------------------

    def ranges(self) -> Grids:
        """Return where exact sums over these points alone would stand."""
        return self._on_host.points.ranges()

    def single_moves(self, centers: Centers, labels: Labels | None = None) -> SingleMoves:
        """Return a search by single moves, one point after the other."""
        given = self._current() if labels is None else labels
        return self._on_host.points.single_moves(centers, given)

    def swaps(self) -> Swaps:
        """Return what tells the cost of exchanging a center for a data point."""
        return self._on_host.points.swaps()

    def total(self, values: NDArray[np.float64]) -> float:
        """Return the exact sum of an array, rounded once."""
        return self._on_host.points.total(values)

    def order(self) -> NDArray[np.int64]:
        """Return the rows in an order that depends on their values alone."""
        return self._on_host.points.order()

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row, equal for equal values."""
        return self._on_host.points.row_hashes()

    def spread_rows(self, drawn: NDArray[np.int64], n_trials: int) -> NDArray[np.int64] | None:
        """Return the rows that k-means++ picks, found on the host."""
        return self._on_host.points.spread_rows(drawn, n_trials)
