"""A workspace on the device: labels, bounds and exact moments there, steps taken without the host.

What a fit does in every step runs there. What it does once or seldom, with arrays that Python
holds (empty clusters, ties, single moves), is asked for by the host, or done there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from wolfmeans.core.workspace import Centers, Distances, Labels, Workspace
from wolfmeans.engines.gpu.distances import GpuKernels
from wolfmeans.engines.gpu.gains import Judged, best_candidate
from wolfmeans.engines.gpu.ordering import lexicographic_order, row_hashes
from wolfmeans.engines.gpu.oversampling import GpuPart
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.seeding import spread_rows
from wolfmeans.engines.gpu.stepping import SteppingPoints
from wolfmeans.engines.gpu.transfers import to_device, to_host
from wolfmeans.engines.gpu.trimming import GpuTrimmer
from wolfmeans.engines.gpu.weighting import Weighting, weigh
from wolfmeans.engines.labelled import LabelledPoints, on_host_sums
from wolfmeans.engines.tensors import DeviceLabels
from wolfmeans.exact.native import digest
from wolfmeans.exact.ordering import lexicographic_order as order_on_host
from wolfmeans.exact.sums import exact_sum

_MOST_FAR_ROWS = 1 << 16
_SMALL = 1 << 22


class GpuPoints(SteppingPoints):
    """Points, all on the device, with their weights where they have any."""

    engine = "gpu"
    _kernels: GpuKernels

    def __init__(
        self,
        data: Screened,
        host: Any,
        n_threads: int,
        weights: NDArray[np.float64] | None = None,
        weighting: Weighting | None = None,
    ) -> None:
        super().__init__(data, weights, weighting)
        self._host, self._n_threads = host, n_threads
        self._order = None
        self._order_on_device: torch.Tensor | None = None

    @property
    def _X(self) -> Any:  # noqa: N802
        """The data on the host, for what is done there."""
        if self._host is None:
            self._host = self.data.X.cpu().numpy()
        return self._host

    @property
    def runs_together(self) -> bool:
        """Whether several starts are better run at once: the device has room for more."""
        return self.n_points * self.n_features <= _SMALL

    def fork(self, n_threads: int) -> GpuPoints:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = GpuPoints(self.data, self._host, n_threads, self.weights, self._weighting)
        twin.meanwhile = self.meanwhile
        twin._order, twin._order_on_device = self._order, self._order_on_device
        return twin

    def fork_for_trimming(self) -> LabelledPoints:
        """Return the points that the trimmed oracle works on: with masses on the device."""
        weighting = self._weighting
        if weighting is None:
            try:
                weighting = weigh(self.data, self.weights)
            except torch.OutOfMemoryError:
                weighting = None
        if weighting is None:
            return on_host_sums(np.asarray(self._X), self.weights, self._kernels)
        twin = GpuPoints(self.data, self._host, self._n_threads, self.weights, weighting)
        twin._order, twin._order_on_device = self._order, self._order_on_device
        return twin

    def trimmer(self, mass: float) -> GpuTrimmer:
        """Return what keeps the nearest points of a mass, on the device."""
        assert self._weighting is not None
        return GpuTrimmer(self, self._weighting, mass)

    def _current(self) -> Labels:
        return to_host(self._opened_before().rows.labels)[0]

    def labels(self) -> Labels:
        """Return the current labels (a copy)."""
        return self._current()

    def _labelled(self, clusters: NDArray[np.bool_]) -> NDArray[np.int64]:
        labels = self._opened_before().rows.labels
        among = to_device(clusters, labels)[labels.long()]
        return to_host(torch.nonzero(among).flatten())[0]

    def snapshot(self) -> DeviceLabels:
        """Return the current labels, on the device."""
        labels = self._opened_before().rows.labels
        copied, self._copied = self._copied, None
        return DeviceLabels(labels.clone() if copied is None else copied)

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of w D over the points at their labels, rounded once."""
        total = None
        if self._known[0] is centers:
            total = self._known[1]
        if total is not None:
            return total
        labels = self._opened_before().rows.labels
        masses = None if self._weighting is None else self._weighting.values
        if self._known[0] is not centers:
            total = self._kernels.cost(self._held(centers), labels, masses, self._lows().gap)
        if total is not None:
            return total
        distances = self._kernels.distances_on_device(centers, labels)
        return self._total_on_device(distances if masses is None else masses * distances)

    def _total_on_device(self, terms: torch.Tensor) -> float:
        largest = float(terms.max())
        if largest == 0.0:
            return 0.0
        total = self._kernels.total(terms, largest)
        return exact_sum(terms.cpu().tolist()) if total is None else total

    def total(self, values: NDArray[np.float64]) -> float:
        """Return the exact sum of an array, rounded once."""
        if values.size == 0 or not values.min() >= 0.0:
            return super().total(values)
        return self._total_on_device(to_device(values.ravel(), self.data.X))

    def mean(self, *, weighted: bool) -> Centers:
        """Return the (d,) mean of all points, rounded as a center."""
        zero = np.zeros((1, self.n_features), dtype=self.dtype)
        weights = (self.weights, self._weighting) if weighted else (None, None)
        points = GpuPoints(self.data, self._host, self._n_threads, *weights)
        mean: Centers = points.assign(zero).means[0]
        return mean

    def near_ties(
        self, centers: Centers, slack: float
    ) -> tuple[NDArray[np.int64], Distances, Distances]:
        """Return the rows that the bounds cannot tell from a tie."""
        step = self._step
        rows = np.arange(self.n_points)
        if step is not None and np.array_equal(to_host(step.clusters.before)[0], centers):
            # Bounds are in scaled distances; with a margin for what they were rounded by.
            room = 2.0 * slack * self.data.scale * 2.0 + self.data.margin
            rows = torch.nonzero(step.rows.slack <= room).flatten().cpu().numpy()
        return rows, *self._kernels.two_nearest(rows, centers)

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) square roots of the canonical distances to all centers."""
        return self._kernels.roots(centers)

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return data rows in the centers' dtype."""
        where = to_device(np.asarray(indices, dtype=np.int64), self.data.X)
        return to_host(self.data.X[where])[0]

    def best_candidate(
        self, centers: Centers, masses: Distances | None, most: int
    ) -> tuple[int, float] | None:
        """Return the data point that as one more center gains most; None to leave it to others."""
        labels = self._opened_before().rows.labels
        distances = self._kernels.distances_on_device(self._held(centers), labels)
        counting = self.weights if masses is None else masses
        if counting is self.weights and self._weighting is not None:
            sent = self._weighting.values
        else:
            sent = None if counting is None else to_device(counting, distances)
        judged = Judged(self.data, distances, sent, self._lows().gap)
        return best_candidate(judged, self.order_on_device, most)

    def distance_error(self, centers: Centers) -> float:
        """Return 0: distances of dense rows are off by (d + 3) u of themselves and no more."""
        return 0.0

    def digest(self, centers: Centers) -> bytes:
        """Return 16 bytes that stand for the centers."""
        return digest(centers)

    def largest(self) -> float:
        """Return the largest absolute value in the data."""
        return self.data.largest

    def order(self) -> NDArray[np.int64]:
        """Return the rows in an order that depends on their values alone."""
        if self._order is None:
            self._order = self.order_on_device().cpu().numpy()
        return self._order

    def order_on_device(self) -> torch.Tensor:
        """Return the same as a tensor on the device."""
        if self._order_on_device is None:
            self._order_on_device = lexicographic_order(self.data.X)
        return self._order_on_device

    def spread_rows(self, drawn: NDArray[np.int64], n_trials: int) -> NDArray[np.int64] | None:
        """Return the rows that k-means++ picks, None where its sums have no room."""
        weights = None
        if self.weights is not None:
            weights = to_device(self.weights, self.data.X)
        return spread_rows(self.data, self.order_on_device(), weights, drawn, n_trials)

    def distances_to(self, center: Centers) -> Distances:
        """Return each point's canonical distance to one (d,) center."""
        centers = np.asarray(center, dtype=self.dtype).reshape(1, -1)
        return to_host(self._kernels.distances_on_device(centers, None))[0]

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row, equal for equal values."""
        return to_host(row_hashes(self.data.X))[0].view(np.uint64)

    def sampling(self) -> GpuPart:
        """Return the rows as k-means|| asks for them, on the device."""
        weighting = None if self.weights is None else self._weighting
        return GpuPart(self.data, None if weighting is None else weighting.values, self)

    def far_rows(
        self, centers: Centers, many: int, masses: Distances | None
    ) -> tuple[NDArray[np.int64], Distances, float] | None:
        """Return at least `many` of the farthest points (core.workspace); None if too many tie."""
        labels = self._kernels.labels_on_device(centers)
        distances = self._kernels.distances_on_device(centers, labels)
        counting = self.weights if masses is None else masses
        if counting is not None:
            distances[to_device(counting == 0, distances)] = 0.0
        least = torch.topk(distances, min(many, self.n_points)).values[-1]
        # All that are as far as the last of them, so that ties do not matter.
        among = (distances >= least) & (distances > 0)
        rows = torch.nonzero(among).flatten()
        if len(rows) > _MOST_FAR_ROWS:
            return None
        outside = torch.where(among, 0.0, distances).max().reshape(1)
        found, far, points, left = to_host(rows, distances[rows], self.data.X[rows], outside)
        order = order_on_host(points)
        return found[order], far[order], float(left[0])

    def _on_host(self) -> Workspace:
        """Return a workspace of the same points on the host."""
        from wolfmeans.engines import get_engine

        return get_engine("auto").open(self._X, self.weights, self._n_threads)

    def single_moves(self, centers: Centers, labels: Labels | None = None) -> Any:
        """Return a search by single moves, one point after the other and hence on the host."""
        given = self._current() if labels is None else labels
        return self._on_host().single_moves(centers, given)

    def swaps(self) -> Any:
        """Return what tells the cost of exchanging a center for a data point, on the host."""
        return self._on_host().swaps()
