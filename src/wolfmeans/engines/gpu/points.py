"""A workspace on the device: labels, bounds and exact moments there, steps taken without the host.

What a fit does in every step runs there. What it does once or seldom, with arrays that Python
holds (empty clusters, ties, single moves), is asked for by the host, or done there.
"""

from __future__ import annotations

import math
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from wolfmeans.engines.base import (
    Assignment,
    Centers,
    Distances,
    Forced,
    Labels,
    Limits,
    Progress,
    Workspace,
)
from wolfmeans.engines.gpu import moment_kernels, recheck_kernels
from wolfmeans.engines.gpu.exact_kernels import LIMBS
from wolfmeans.engines.gpu.lists import MOVED
from wolfmeans.engines.gpu.ordering import lexicographic_order
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.seeding import spread_rows
from wolfmeans.engines.gpu.steps import Lows, Step
from wolfmeans.engines.gpu.weighting import Weighting
from wolfmeans.engines.labelled import LabelledPoints
from wolfmeans.exact_sums import exact_sum

_UNFUSED = {"enable_fp_fusion": False}
_ENTRIES_AT_ONCE = 1 << 26


class GpuKernels:
    """Canonical distances between rows on the device and centers from the host."""

    def __init__(self, data: Screened) -> None:
        self.data = data

    def _sent(self, centers: Centers | torch.Tensor) -> torch.Tensor:
        if isinstance(centers, torch.Tensor):
            return centers
        dense = torch.from_numpy(np.ascontiguousarray(centers))
        return dense.to(self.data.X.device, self.data.X.dtype)

    def labels_on_device(self, centers: Centers | torch.Tensor) -> torch.Tensor:
        """Return the (n,) lowest nearest centers."""
        step = Step(self.data, len(centers))
        step.begin(self._sent(centers), Limits(1, math.inf), math.nan, 0)
        step.find_labels(0)
        return step.labels

    def distances_on_device(
        self, centers: Centers | torch.Tensor, labels: torch.Tensor | None
    ) -> torch.Tensor:
        """Return the (n,) canonical distances to the centers of the labels; None for the first."""
        data = self.data
        out = torch.empty(data.n, dtype=torch.float64, device=data.X.device)
        recheck_kernels.own_distances[(triton.cdiv(data.n, 128),)](
            data.X, self._sent(centers), labels, out, data.n, data.d, BLOCK=128, **_UNFUSED
        )
        return out

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return the lowest nearest center of each point and its canonical distance."""
        labels = self.labels_on_device(centers)
        distances = self.distances_on_device(centers, labels)
        return labels.cpu().numpy(), distances.cpu().numpy()

    def second_nearest(self, centers: Centers) -> tuple[Distances, Distances]:
        """Return the smallest and the second smallest canonical distance of each point."""
        return self.two_nearest(np.arange(self.data.n), centers)

    def two_nearest(self, rows: NDArray[np.int64], centers: Centers) -> tuple[Distances, Distances]:
        """Return the two smallest canonical distances of some of the points."""
        data, K = self.data, len(centers)
        device = data.X.device
        nearest = torch.empty(len(rows), dtype=torch.float64, device=device)
        second = torch.empty_like(nearest)
        if len(rows):
            recheck_kernels.two_nearest[(len(rows),)](
                data.X, torch.from_numpy(rows).to(device), self._sent(centers), nearest, second,
                len(rows), data.d, K, BLOCK=min(128, triton.next_power_of_2(K)), **_UNFUSED,
            )  # fmt: skip
        return nearest.cpu().numpy(), second.cpu().numpy()

    def distances(self, centers: Centers, labels: Labels) -> Distances:
        """Return the canonical distance of each point to the center of its label."""
        sent = torch.from_numpy(np.ascontiguousarray(labels)).to(self.data.X.device)
        found: Distances = self.distances_on_device(centers, sent).cpu().numpy()
        return found

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) square roots of the canonical distances, some rows at a time."""
        data, K = self.data, len(centers)
        sent = self._sent(centers)
        roots = np.empty((data.n, K), dtype=centers.dtype)
        many = max(1, _ENTRIES_AT_ONCE // K)
        for start in range(0, data.n, many):
            part = data.X[start : start + many]
            out = torch.empty((len(part), K), dtype=torch.float64, device=part.device)
            grid = (triton.cdiv(len(part), 32), triton.cdiv(K, 16))
            recheck_kernels.all_distances[grid](
                part, sent, out, len(part), data.d, K, BLOCK=32, COLUMNS=16, **_UNFUSED
            )
            roots[start : start + many] = out.sqrt().cpu().numpy()
        return roots

    def total(self, terms: torch.Tensor, largest: float) -> float | None:
        """Return the exact sum of terms of 0..largest, rounded once; None where it has no room."""
        low = math.frexp(largest)[1] - 53 - 32 * (LIMBS - 4)
        sums = torch.zeros(LIMBS, dtype=torch.int64, device=terms.device)
        inexact = torch.zeros(1, dtype=torch.int32, device=terms.device)
        out = torch.empty(1, dtype=torch.float64, device=terms.device)
        grid = (triton.cdiv(len(terms), 1024),)
        moment_kernels.sum_terms[grid](
            terms, sums, low, inexact, len(terms), BLOCK=1024, **_UNFUSED
        )
        moment_kernels.round_sum[(1,)](sums, low, out, num_warps=1, **_UNFUSED)
        return None if int(inexact) else float(out)

    def of(self, rows: NDArray[np.int64]) -> GpuKernels:
        """Return the same for some of the rows."""
        return GpuKernels(Screened(self.data.X[torch.from_numpy(rows).to(self.data.X.device)]))


class GpuPoints(LabelledPoints):
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
        self.n_points, self.n_features = data.n, data.d
        self.dtype = np.dtype(np.float32 if data.X.dtype == torch.float32 else np.float64)
        self.weights = weights
        self.data, self._weighting = data, weighting
        self._host, self._n_threads = host, n_threads
        self._kernels = GpuKernels(data)
        self._step: Step | None = None
        self._order = None
        self._order_on_device: torch.Tensor | None = None
        self._last: tuple[Assignment, Centers, float, float] | None = None

    @property
    def _X(self) -> Any:  # type: ignore[override]  # noqa: N802
        """The data on the host, for what is done there."""
        if self._host is None:
            self._host = self.data.X.cpu().numpy()
        return self._host

    def fork(self, n_threads: int) -> GpuPoints:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = GpuPoints(self.data, self._host, n_threads, self.weights, self._weighting)
        twin._order, twin._order_on_device = self._order, self._order_on_device
        return twin

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""
        if forced is not None:
            return self._adopt(centers, forced)
        records, _ = self._steps(centers, Limits(1, math.inf), math.nan, 0)
        return self._found(records[0], centers)

    def advance(
        self, centers: Centers, weights: Distances, shift: float, limits: Limits
    ) -> Progress | None:
        """Take several steps on the device, without asking the host in between."""
        records, seconds = self._steps(centers, limits, shift, int((weights == 0).sum()))
        last = len(records) - 1
        columns = [records[:, i] for i in range(5)]
        evaluations = np.column_stack([*columns, seconds])
        point = None
        if last > 0:
            arrived = records[last - 1]
            point = (
                *self._buffers(last % 2),
                float(arrived[5]), float(arrived[3]), float(arrived[2]), int(arrived[0]),
            )  # fmt: skip
        record = records[last]
        vertex = (
            *self._buffers(1 - last % 2),
            float(record[5]), float(record[3]), float(record[2]), int(record[0]),
        )  # fmt: skip
        return Progress(evaluations, point, vertex)

    def _buffers(self, place: int) -> tuple[Centers, NDArray[np.float64], Distances]:
        assert self._step is not None
        buffers = (self._step.centers, self._step.residuals, self._step.weights)
        # Copies even where the device is the CPU: the next step writes into these tensors.
        copies = (buffer[place].cpu().numpy().copy() for buffer in buffers)
        centers, residuals, weights = copies
        return centers, residuals, weights

    def _steps(
        self, centers: Centers, limits: Limits, shift: float, empty: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        step = self._opened(len(centers))
        step.begin(centers, limits, shift, empty)
        records, seconds = step.run(self._lows(centers), limits)
        if records[-1, 7]:
            self._repair(records[-1], (len(records) - 1) % 2)
        return records, seconds

    def _opened(self, n_clusters: int) -> Step:
        if self._step is None:
            self._step = Step(self.data, n_clusters, self._weighting)
        return self._step

    def _lows(self, centers: Centers) -> Lows:
        """Return where the sums of a step begin, for centers like these and means of points."""
        reach = max(self.data.largest, float(np.abs(centers).max()))
        top = math.frexp(self.n_features * (2.0 * 2.0 ** math.frexp(reach)[1]) ** 2)[1]
        low = top - 53 - 32 * (LIMBS - 4)
        heaviest = low + (0 if self._weighting is None else self._weighting.high)
        return Lows(heaviest, low, heaviest + self.n_points.bit_length())

    def _repair(self, record: NDArray[np.float64], source: int) -> None:
        """Recompute on the host the sums that had no room in the device's limbs."""
        centers, vertex = self._buffers(source)[0], self._buffers(1 - source)
        found = Assignment(0, 0.0, vertex[2], vertex[0], vertex[1])
        record[5], record[3] = LabelledPoints.step(self, found, centers)
        record[2] = exact_sum(self._gap_terms(centers).tolist())

    def _gap_terms(self, centers: Centers) -> NDArray[np.float64]:
        """Return what each of the listed points gained."""
        rows, old, near, far = self._listed(centers)
        terms = torch.where(old >= 0, far - near, 0.0)
        if self._weighting is not None:
            terms = self._weighting.values[rows] * terms
        found: NDArray[np.float64] = terms.cpu().numpy()
        return found

    def _listed(
        self, centers: Centers
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the listed rows, their old labels, and the distances at the new and the old."""
        step = self._opened(0)
        moved = int(step.state[MOVED.value])
        rows, old = step.moved_rows[:moved].long(), step.moved_from[:moved]
        labels = step.labels.clone()
        near = self._kernels.distances_on_device(centers, labels)[rows]
        labels[rows] = old.clamp(min=0)
        far = self._kernels.distances_on_device(centers, labels)[rows]
        return rows, old, near, far

    def _found(self, record: NDArray[np.float64], centers: Centers) -> Assignment:
        means, residuals, weights = self._buffers(1)
        found = Assignment(int(record[0]), float(record[2]), weights, means, residuals)
        self._last = (found, centers, float(record[5]), float(record[3]))
        return found

    def _adopt(self, centers: Centers, forced: Forced) -> Assignment:
        """Take the nearest labels but for the forced ones, and move points accordingly."""
        step = self._opened(len(centers))
        labels = self._kernels.labels_on_device(centers)
        rows = torch.from_numpy(forced.rows).to(labels.device)
        labels[rows] = torch.from_numpy(forced.labels).to(labels.device)
        limits = Limits(1, math.inf)
        step.begin(centers, limits, math.nan, 0)
        step.before.copy_(step.centers[0])
        moved = torch.nonzero(labels != step.labels).flatten()
        step.moved_rows[: len(moved)] = moved.int()
        step.moved_from[: len(moved)] = step.labels[moved]
        step.state[MOVED.value] = len(moved)
        step.labels.copy_(labels)
        step.slack.fill_(-math.inf)
        step.find_moments(0, self._lows(centers), keep=True)
        record = step.records[0].cpu().numpy()
        if record[7]:
            self._repair(record, 0)
        return self._found(record, centers)

    def step(self, found: Assignment, centers: Centers) -> tuple[float, float]:
        """Return the shift and the movement of a step from the centers to the means found."""
        if self._last is not None and self._last[0] is found and self._last[1] is centers:
            return self._last[2], self._last[3]
        return super().step(found, centers)

    def _current(self) -> Labels:
        if self._step is None:
            raise RuntimeError("points have no labels before the first assignment")
        labels: Labels = self._step.labels.cpu().numpy()
        return labels

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of w D over the points at their labels, rounded once."""
        if self._step is None:
            raise RuntimeError("points have no labels before the first assignment")
        distances = self._kernels.distances_on_device(centers, self._step.labels)
        if self._weighting is not None:
            distances = self._weighting.values * distances
        return self._total_on_device(distances)

    def _total_on_device(self, terms: torch.Tensor) -> float:
        largest = float(terms.max())
        if largest == 0.0:
            return 0.0
        total = self._kernels.total(terms, largest)
        return exact_sum(terms.cpu().tolist()) if total is None else total

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
        if step is not None and np.array_equal(step.before.cpu().numpy(), centers):
            # Bounds are in scaled distances; with a margin for what they were rounded by.
            room = 2.0 * slack * self.data.scale * 2.0 + self.data.margin
            rows = torch.nonzero(step.slack <= room).flatten().cpu().numpy()
        return rows, *self._kernels.two_nearest(rows, centers)

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) square roots of the canonical distances to all centers."""
        return self._kernels.roots(centers)

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return data rows in the centers' dtype."""
        where = torch.from_numpy(np.asarray(indices, dtype=np.int64)).to(self.data.X.device)
        chosen: Centers = self.data.X[where].cpu().numpy()
        return chosen

    def distance_error(self, centers: Centers) -> float:
        """Return 0: distances of dense rows are off by (d + 3) u of themselves and no more."""
        return 0.0

    def digest(self, centers: Centers) -> bytes:
        """Return 16 bytes that stand for the centers."""
        return blake2b(np.ascontiguousarray(centers), digest_size=16).digest()

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
            weights = torch.from_numpy(self.weights).to(self.data.X.device)
        return spread_rows(self.data, self.order_on_device(), weights, drawn, n_trials)

    def distances_to(self, center: Centers) -> Distances:
        """Return each point's canonical distance to one (d,) center."""
        centers = np.asarray(center, dtype=self.dtype).reshape(1, -1)
        found: Distances = self._kernels.distances_on_device(centers, None).cpu().numpy()
        return found

    def approach(
        self, rows: NDArray[np.int64], closest: Distances, owner: NDArray[np.int64]
    ) -> None:
        """Bring each point's nearest chosen row up to date, in place, with more rows chosen."""
        device = self.data.X.device
        chosen = torch.from_numpy(np.sort(rows)).to(device)
        centers = self.data.X[chosen]
        labels = self._kernels.labels_on_device(centers)
        distances = self._kernels.distances_on_device(centers, labels)
        found = chosen[labels.long()]
        before, owned = torch.from_numpy(closest).to(device), torch.from_numpy(owner).to(device)
        closer = (distances < before) | ((distances == before) & (found < owned))
        closest[:] = torch.where(closer, distances, before).cpu().numpy()
        owner[:] = torch.where(closer, found, owned).cpu().numpy()

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
