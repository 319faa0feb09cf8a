"""A workspace of data that is larger than the device: labels and bounds there, rows part by part.

A step brings up the bounds of all rows, which need no coordinates, and looks at those rows alone
that they cannot decide. Where these are few, only they come to the device; parts without one stay
where they are. What has no natural form in parts (orders, single moves, seeding by distances) is
done on the host, by the engine that is there, with the same bits.
"""

from __future__ import annotations

import math
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
    Workspace,
)
from wolfmeans.engines.gpu.clusters import Clusters, Lows
from wolfmeans.engines.gpu.distances import GpuKernels
from wolfmeans.engines.gpu.kernels import bounds as bound_kernels
from wolfmeans.engines.gpu.kernels.lists import ACTIVE, LENGTHS, MOVED
from wolfmeans.engines.gpu.launching import UNFUSED, launch
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.streaming import Part, Streamed
from wolfmeans.engines.gpu.transfers import as_tensor, to_device, to_host
from wolfmeans.engines.gpu.weighting import Weighting
from wolfmeans.engines.reference import ReferencePoints, on_host_sums
from wolfmeans.exact.native import digest
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
        sent: Any = self.inside.sent(centers)
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
        sent: Any = self.inside.sent(centers)
        begin = 0
        for part in self.data.pass_by(parts):
            these = slice(begin, begin + part.size)
            nearest[these], second[these] = self.inside.second_nearest(sent)
            begin += part.size
        return nearest, second

    def distances(self, centers: Centers, labels: Labels) -> Distances:
        """Return the canonical distance of each point to the center of its label."""
        distances = np.empty(self.data.n)
        sent: Any = self.inside.sent(centers)
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
        self.data, self._weighting, self._n_threads = data, weighting, n_threads
        self._state: _State | None = None
        self._host: Workspace | None = None
        self._last: tuple[Assignment, Centers, float, float] | None = None

    def fork(self, n_threads: int) -> StreamedPoints:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = StreamedPoints(self.data, n_threads, self.weights, self._weighting)
        twin._host = self._on_host()
        return twin

    def fork_for_trimming(self) -> ReferencePoints:
        """Return the points that the trimmed oracle works on: exact sums are on the host."""
        return on_host_sums(self.data.X, self.weights, self._kernels)

    def _on_host(self) -> Workspace:
        """Return a workspace of the same points on the host."""
        from wolfmeans.engines import get_engine

        if self._host is None:
            self._host = get_engine("auto").open(self.data.X, self.weights, self._n_threads)
        return self._host

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

    def _opened_before(self) -> _State:
        if self._state is None:
            raise RuntimeError("points have no labels before the first assignment")
        return self._state

    def _lows(self, centers: Centers) -> Lows:
        """Return where the sums of a step begin, for centers like these and means of points."""
        reach = max(self.largest(), float(np.abs(centers).max()))
        heaviest = 0 if self._weighting is None else self._weighting.high
        return Lows.of(reach, self.n_points, self.n_features, heaviest)

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""
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
        clusters.settle(0, lows)
        record, *vertex = to_host(clusters.records[0], *clusters.place(1))
        means, residuals, weights = vertex
        found = Assignment(int(record[0]), float(record[2]), weights, means, residuals)
        shift, movement = float(record[5]), float(record[3])
        if record[7]:
            found, shift, movement = self._repaired(state, found, centers)
        self._last = (found, centers, shift, movement)
        return found

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
        """Launch what brings labels, gap and sums up to date with the rows in the window."""
        clusters, rows, size = state.clusters, self.data.rows, part.size
        rows.labels[:size] = state.labels[part.places]
        # All of them are looked at, once they are here.
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
        rows.moved_rows[: len(moved)] = moved.int()
        rows.moved_from[: len(moved)] = old[moved]
        state.clusters.state[MOVED.value] = len(moved)

    def _repaired(
        self, state: _State, found: Assignment, centers: Centers
    ) -> tuple[Assignment, float, float]:
        """Recompute on the host the sums that had no room in the device's limbs."""
        old, new = to_host(state.before, state.labels)
        rows = np.flatnonzero((old != new) & (old >= 0))
        far = self._kernels.distances(centers, np.maximum(old, 0))[rows]
        terms = far - self._kernels.distances(centers, new)[rows]
        if self.weights is not None:
            terms = self.weights[rows] * terms
        gap = exact_sum(terms.tolist())
        repaired = Assignment(found.moved, gap, found.weights, found.means, found.residuals)
        return repaired, *self._on_host().step(repaired, centers)

    def step(self, found: Assignment, centers: Centers) -> tuple[float, float]:
        """Return the shift and the movement of a step from the centers to the means found."""
        if self._last is not None and self._last[0] is found and self._last[1] is centers:
            return self._last[2], self._last[3]
        return self._on_host().step(found, centers)

    def _current(self) -> Labels:
        return to_host(self._opened_before().labels)[0]

    def labels(self) -> Labels:
        """Return the current labels (a copy)."""
        return self._current()

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of w D over the points at their labels, rounded once."""
        labels, inside = self._opened_before().labels, self._kernels.inside
        low, sent = self._lows(centers).gap, inside.sent(centers)
        sums, inexact = inside.nothing()
        for part in self.data.pass_by(self.data.everything(), self.weights):
            masses = self.data.rows.masses
            inside.add_costs(sent, labels[part.places], masses, low, sums, inexact)
        total = inside.rounded(sums, inexact, low)
        if total is not None:
            return total
        distances = self.distances(centers)
        return self.total(distances if self.weights is None else self.weights * distances)

    def total(self, values: NDArray[np.float64]) -> float:
        """Return the exact sum of an array, rounded once."""
        return self._on_host().total(values)

    def mean(self, *, weighted: bool) -> Centers:
        """Return the (d,) mean of all points, rounded as a center."""
        weights = (self.weights, self._weighting) if weighted else (None, None)
        zero = np.zeros((1, self.n_features), dtype=self.dtype)
        points = StreamedPoints(self.data, self._n_threads, *weights)
        mean: Centers = points.assign(zero).means[0]
        return mean

    def near_ties(
        self, centers: Centers, slack: float
    ) -> tuple[NDArray[np.int64], Distances, Distances]:
        """Return the rows that the bounds cannot tell from a tie."""
        state, window = self._state, self.data.window
        if state is None or not np.array_equal(to_host(state.clusters.before)[0], centers):
            return super().near_ties(centers, slack)
        # Bounds are in scaled distances; with a margin for what they were rounded by.
        room = 2.0 * slack * window.scale * 2.0 + window.margin
        rows: NDArray[np.int64] = to_host(torch.nonzero(state.slack <= room).flatten())[0]
        return rows, *self._kernels.two_nearest(rows, centers)

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) square roots of the canonical distances to all centers."""
        return self._kernels.roots(centers)

    def digest(self, centers: Centers) -> bytes:
        """Return 16 bytes that stand for the centers."""
        return digest(centers)

    def largest(self) -> float:
        """Return the largest absolute value in the data."""
        return self.data.window.largest

    def order(self) -> NDArray[np.int64]:
        """Return the rows in an order that depends on their values alone."""
        return self._on_host().order()

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row, equal for equal values."""
        return self._on_host().row_hashes()

    def spread_rows(self, drawn: NDArray[np.int64], n_trials: int) -> NDArray[np.int64] | None:
        """Return the rows that k-means++ picks, found on the host."""
        return self._on_host().spread_rows(drawn, n_trials)

    def single_moves(self, centers: Centers, labels: Labels | None = None) -> Any:
        """Return a search by single moves, one point after the other and hence on the host."""
        given = self._current() if labels is None else labels
        return self._on_host().single_moves(centers, given)

    def swaps(self) -> Any:
        """Return what tells the cost of exchanging a center for a data point, on the host."""
        return self._on_host().swaps()
