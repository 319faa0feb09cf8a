"""Canonical distances on the device, and exact sums of them."""

from __future__ import annotations

import math

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from wolfmeans.core.workspace import Centers, Distances, Labels, Limits
from wolfmeans.engines.gpu.grid_sums import ScalarSum
from wolfmeans.engines.gpu.kernels import moments as moment_kernels
from wolfmeans.engines.gpu.kernels import recheck as recheck_kernels
from wolfmeans.engines.gpu.kernels.exact import LIMBS
from wolfmeans.engines.gpu.launching import PROGRAMS, UNFUSED, launch
from wolfmeans.engines.gpu.rows import find_costs
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.steps import Step
from wolfmeans.engines.gpu.transfers import to_device, to_host

_ENTRIES_AT_ONCE = 1 << 26


class GpuKernels:
    """Canonical distances between rows on the device and centers from the host."""

    def __init__(self, data: Screened) -> None:
        self.data = data

    def on_device(self, centers: Centers | torch.Tensor) -> torch.Tensor:
        """Return centers on the device."""
        if isinstance(centers, torch.Tensor):
            return centers
        return to_device(centers, self.data.X).to(self.data.X.dtype)

    def labels_on_device(self, centers: Centers | torch.Tensor) -> torch.Tensor:
        """Return the (n,) lowest nearest centers."""
        step = Step(self.data, len(centers))
        step.clusters.begin(self.on_device(centers), Limits(1, math.inf), math.nan, 0)
        step.find_labels(0)
        return step.rows.labels

    def distances_on_device(
        self, centers: Centers | torch.Tensor, labels: torch.Tensor | None
    ) -> torch.Tensor:
        """Return the (n,) canonical distances to the centers of the labels; None for the first."""
        data = self.data
        out = torch.empty(data.n, dtype=torch.float64, device=data.X.device)
        find_costs(data.X, self.on_device(centers), labels, out)
        return out

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return the lowest nearest center of each point and its canonical distance."""
        labels = self.labels_on_device(centers)
        distances = self.distances_on_device(centers, labels)
        found = to_host(labels, distances)
        return found[0], found[1]

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
            launch(
                recheck_kernels.two_nearest, len(rows),
                data.X, to_device(rows, data.X), self.on_device(centers), nearest, second,
                len(rows), data.d, K, BLOCK=min(128, triton.next_power_of_2(K)), **UNFUSED,
            )  # fmt: skip
        found = to_host(nearest, second)
        return found[0], found[1]

    def distances(self, centers: Centers, labels: Labels) -> Distances:
        """Return the canonical distance of each point to the center of its label."""
        sent = to_device(labels, self.data.X)
        return to_host(self.distances_on_device(centers, sent))[0]

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) square roots of the canonical distances, some rows at a time."""
        data, K = self.data, len(centers)
        sent = self.on_device(centers)
        roots = np.empty((data.n, K), dtype=centers.dtype)
        many = max(1, _ENTRIES_AT_ONCE // K)
        for start in range(0, data.n, many):
            part = data.X[start : start + many]
            out = torch.empty((len(part), K), dtype=torch.float64, device=part.device)
            grid = (triton.cdiv(len(part), 32), triton.cdiv(K, 16))
            launch(
                recheck_kernels.all_distances, grid,
                part, sent, out, len(part), data.d, K, BLOCK=32, COLUMNS=16, **UNFUSED,
            )  # fmt: skip
            roots[start : start + many] = np.sqrt(out.cpu().numpy())
        return roots

    def total(self, terms: torch.Tensor, largest: float) -> ScalarSum:
        """Return the exact sum of terms of 0..largest."""
        low = math.frexp(largest)[1] - 53 - 32 * (LIMBS - 4)
        total = ScalarSum(terms.device, low)
        launch(
            moment_kernels.sum_terms, triton.cdiv(len(terms), 1024),
            terms, total.limbs, low, total.inexact, len(terms), BLOCK=1024, **UNFUSED,
        )  # fmt: skip
        return total

    def cost(
        self,
        centers: Centers | torch.Tensor,
        labels: torch.Tensor,
        masses: torch.Tensor | None,
        low: int,
    ) -> ScalarSum:
        """Return the exact sum of distances to own centers, which begins at 2**low."""
        total = ScalarSum(self.data.X.device, low)
        self.add_costs(centers, labels, masses, total)
        return total

    def add_costs(
        self,
        centers: Centers | torch.Tensor,
        labels: torch.Tensor,
        masses: torch.Tensor | None,
        total: ScalarSum,
    ) -> None:
        """Add distances to own centers to a sum, with no room for them (as `Rows` has)."""
        data = self.data
        launch(
            moment_kernels.sum_costs, min(PROGRAMS, triton.cdiv(data.n, 128)),
            data.X, masses, self.on_device(centers), labels, total.limbs, total.low, total.inexact,
            data.n, data.d, BLOCK=128, num_warps=4, **UNFUSED,
        )  # fmt: skip

    def of(self, rows: NDArray[np.int64]) -> GpuKernels:
        """Return the same for some of the rows."""
        return GpuKernels(Screened(self.data.X[to_device(rows, self.data.X)]))
