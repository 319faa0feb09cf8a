"""Trimmed points on the device: the specification in `engines.trimming`, with the same bits.

A step is taken at a time, and the host waits once for each, for its record; weights whose sums do
not fit into 62 bits make it wait once more, for the threshold.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from wolfmeans.core.threshold import Masses, Threshold, gap_terms
from wolfmeans.core.workspace import Assignment, Centers, Distances, Labels, Limits, Partial
from wolfmeans.engines.gpu.clusters import Clusters, Lows
from wolfmeans.engines.gpu.kernels import trimming as trimming_kernels
from wolfmeans.engines.gpu.kernels.lists import MOVED
from wolfmeans.engines.gpu.launching import PROGRAMS, UNFUSED, launch
from wolfmeans.engines.gpu.transfers import to_host
from wolfmeans.engines.gpu.weighting import Weighting
from wolfmeans.engines.tensors import DeviceLabels
from wolfmeans.exact.sums import rounded_ratio

if TYPE_CHECKING:
    from wolfmeans.engines.gpu.points import GpuPoints

_ONE_WORD = 1 << 62


class GpuTrimmer:
    """Labels, kept masses and exact moments on the device."""

    def __init__(self, points: GpuPoints, weighting: Weighting, mass: float) -> None:
        self._points, self._weighting = points, weighting
        self._whole = 0 if math.isinf(mass) else int(math.ldexp(mass, -weighting.unit))
        self._keeps_all = math.isinf(mass) or self._whole >= weighting.total
        # Labels of points that are kept, else -1; what was kept of each before, and is kept now.
        data = points.data
        self._seen = torch.full((data.n,), -1, dtype=torch.int32, device=data.X.device)
        self._kept = [torch.zeros_like(weighting.values) for _ in range(2)]
        self._threshold = Threshold.nowhere()
        self._first = True
        """Whether nothing has been kept yet."""
        self._found: torch.Tensor | None = None
        """Distances to the nearest centers that were found last (`find_nearest`)."""
        self._nearest: torch.Tensor | None = None
        """The nearest centers at the last vertex, if others were found since."""

    def assign(self, centers: Centers) -> Assignment:
        """Keep the nearest points of the mass, each with the label of its nearest center."""
        points = self._points
        distances, lows = self._distances_to_nearest(centers)
        clusters = self._keep_up_to(self._select(distances), distances, lows)
        clusters.settle(0, lows)
        record, last, *vertex = to_host(clusters.records[0], self._last, *clusters.place(1))
        self._threshold = Threshold(float(last[0]), int(last[1]), float(last[2]))
        if record[7]:
            points._repair(record, 0, self._gap_terms)
        if self._first:
            # Labels that were not there before are no gain.
            record[0], record[2] = points.n_points, 0.0
        self._first = False
        return points._found(record, centers, *vertex)

    def _distances_to_nearest(self, centers: Centers) -> tuple[torch.Tensor, Lows]:
        """Find the nearest centers; return the distances to them, and where sums begin."""
        points = self._points
        step = points._opened(len(centers))
        points._measure(centers)
        step.clusters.begin(centers, Limits(1, math.inf), math.nan, 0)
        step.find_labels(0)
        kernels, labels = points._kernels, step.rows.labels
        return kernels.distances_on_device(step.clusters.centers[0], labels), points._lows()

    def _keep_up_to(self, threshold: torch.Tensor, distances: torch.Tensor, lows: Lows) -> Clusters:
        """Keep points up to a threshold; bring gap and sums up to date with what that changes."""
        points, n = self._points, self._points.n_points
        step = points._opened_before()
        clusters, rows = step.clusters, step.rows
        # Nothing is done with the list of new labels: not all of these points are kept.
        clusters.state[MOVED.value] = 0
        self._kept.reverse()
        launch(
            trimming_kernels.keep_nearest, triton.cdiv(n, 1024),
            clusters.state, distances, rows.labels, self._weighting.values, threshold, self._seen,
            *self._kept, rows.moved_rows, rows.moved_from, n, BLOCK=1024, **UNFUSED,
        )  # fmt: skip
        if not self._first:
            launch(
                trimming_kernels.sum_trimmed_gap, min(PROGRAMS, triton.cdiv(n, 64)),
                clusters.state, points.data.X, clusters.centers[0], self._seen, rows.moved_rows,
                rows.moved_from, *self._kept, threshold, clusters.gap, lows.gap, points.n_features,
                BLOCK=64, num_warps=4, **UNFUSED,
            )  # fmt: skip
        rows.move_masses(clusters, self._seen, *self._kept)
        self._last, self._nearest = threshold, None
        return clusters

    # --- Points that are a part of others ------------------------------------------------------

    def find_nearest(self, centers: Centers) -> None:
        """Find the nearest centers, and keep the labels: the first half of an assignment."""
        if not self._first and self._nearest is None:
            self._nearest = self._points._opened_before().rows.labels.clone()
        self._found, _ = self._distances_to_nearest(centers)

    def nearest_distances(self) -> Distances:
        """Return the distances to the nearest of these centers."""
        assert self._found is not None
        return to_host(self._found)[0]

    def keep(self, centers: Centers, threshold: Threshold) -> Partial:
        """Keep the points up to a threshold, at the same centers; return sums that add up."""
        points, distances = self._points, self._found
        assert distances is not None
        grids, lows = points.agreed_grids(), points._lows()
        # Rows of all parts together may be too many for int32; of this one they are not.
        last = [threshold.distance, min(threshold.row, points.n_points), threshold.mass]
        sent = torch.tensor(last, dtype=torch.float64, device=distances.device)
        clusters = self._keep_up_to(sent, distances, lows)
        self._threshold = threshold
        found = clusters.partial(grids, lows.gap, lambda: self._gap_terms(centers))
        if self._first:
            found = replace(found, moved=points.n_points)
        self._first = False
        return found

    def _select(self, distances: torch.Tensor) -> torch.Tensor:
        """Return distance and row of the last point that is kept, and what is kept of it.

        A stable sort orders by (distance, row), as the specification does; no distance is -0.
        """
        weighting = self._weighting
        if self._keeps_all:
            nowhere = Threshold.nowhere()
            last = [nowhere.distance, nowhere.row, nowhere.mass]
            return torch.tensor(last, dtype=torch.float64, device=distances.device)
        ordered, order = torch.sort(distances, stable=True)
        if self._points.weights is None:
            place = torch.full((1,), self._whole - 1, device=distances.device)
            mass = torch.ones(1, dtype=torch.float64, device=distances.device)
        elif weighting.total < _ONE_WORD:
            units = (weighting.values[order] * 2.0**-weighting.unit).long()
            reached = torch.cumsum(units, 0)
            place = torch.searchsorted(reached, torch.full_like(reached[:1], self._whole))
            rest = self._whole - (reached[place] - units[place])
            mass = rest.double() * 2.0**weighting.unit
        else:
            place, mass = self._select_long(weighting.values[order])
        return torch.cat([ordered[place], order[place].double(), mass])

    def _select_long(self, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the place at which weights in order fill the mass, and what is kept there.

        The digits are added up one by one, each sum below 2**62, and carried then.
        """
        weighting, many = self._weighting, self._weighting.digits
        left = weights * 2.0 ** -(weighting.unit + 32 * (many - 1))
        digits = []
        for _ in range(many):
            digits.append(left.long())
            left = (left - digits[-1].double()) * 2.0**32
        reached = [torch.cumsum(digit, 0) for digit in digits]
        for i in range(many - 1, 0, -1):
            reached[i - 1] += reached[i] >> 32
            reached[i] &= 0xFFFFFFFF
        below = torch.zeros_like(weights, dtype=torch.bool)
        for i in range(many - 1, -1, -1):
            wanted = self._whole >> 32 * (many - 1 - i)
            wanted = wanted if i == 0 else wanted & 0xFFFFFFFF
            below = (reached[i] < wanted) | ((reached[i] == wanted) & below)
        place = below.sum().reshape(1)
        before = torch.cat([reached[i][place] - digits[i][place] for i in range(many)])
        rest = self._whole
        for digit, size in enumerate(before.tolist()):
            rest -= size << 32 * (many - 1 - digit)
        kept = rounded_ratio(rest, 1, weighting.unit)
        return place, torch.full((1,), kept, dtype=torch.float64, device=weights.device)

    def find_threshold(self, distances: Distances) -> Threshold:
        """Return the last point that is kept when the points are this far away."""
        sent = torch.tensor(distances, dtype=torch.float64, device=self._points.data.X.device)
        distance, row, mass = self._select(sent).tolist()
        return Threshold(distance, int(row), mass)

    def _gap_terms(self, centers: Centers) -> NDArray[np.float64]:
        """Return what each of the listed points gained."""
        rows, _, near, far = self._points._listed(centers)
        before, after = (kept[rows].cpu().numpy() for kept in self._kept)
        edge = self._threshold.distance
        return gap_terms(before, after, far.cpu().numpy(), near.cpu().numpy(), edge)

    def nearest_labels(self) -> Labels:
        """Return the nearest center of every point, kept or not."""
        return to_host(self._nearest_on_device())[0]

    def _nearest_on_device(self) -> torch.Tensor:
        labels = self._points._opened_before().rows.labels
        return labels if self._nearest is None else self._nearest

    def labels(self) -> Labels:
        """Return the current labels, -1 for what is trimmed."""
        return np.asarray(self.snapshot())

    def snapshot(self) -> DeviceLabels:
        """Return the same, on the device."""
        self._points._opened_before()
        return DeviceLabels(self._seen.clone())

    def kept(self) -> Masses:
        """Return what is kept of each point's weight."""
        self._points._opened_before()
        return to_host(self._kept[1])[0]

    def threshold(self) -> Threshold:
        """Return the last point that is kept."""
        self._points._opened_before()
        return self._threshold

    def cost(self, centers: Centers) -> float | None:
        """Return the exact sum of v D over what is kept, rounded once."""
        labels = self._nearest_on_device()
        distances = self._points._kernels.distances_on_device(centers, labels)
        return self._points._total_on_device(self._kept[1] * distances)
