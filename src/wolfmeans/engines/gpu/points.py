"""Points on the device: labels, bounds and exact moments there, steps taken without the host."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from wolfmeans.engines.base import Assignment, Centers, Distances, Forced, Labels, Limits, Progress
from wolfmeans.engines.gpu import kernels
from wolfmeans.engines.gpu.exact_kernels import LIMBS
from wolfmeans.engines.gpu.screening import Screened

class Step:
    """What one assignment works with; the tensors of a workspace that change."""

    def __init__(self, data: Screened, n_clusters: int) -> None:
        n, d, device = data.n, data.d, data.X.device
        self.n_clusters = K = n_clusters
        real = data.X.dtype

        def tensor(*shape: int, dtype: torch.dtype, value: float = 0) -> torch.Tensor:
            return torch.full(shape, value, dtype=dtype, device=device)

        int32, int64, float32, float64 = torch.int32, torch.int64, torch.float32, torch.float64
        self.state = tensor(16, dtype=int32)
        self.reach = tensor(4, dtype=int32)
        self.labels = tensor(n, dtype=int32, value=-1)
        self.slack = tensor(n, dtype=float32, value=-math.inf)
        self.active = tensor(n, dtype=int32)
        self.open_rows, self.hard_rows = tensor(n, dtype=int32), tensor(n, dtype=int32)
        self.thresholds = tensor(n, dtype=float32)
        self.candidates = tensor(n, kernels.SLOTS.value, dtype=int32)
        self.counts = tensor(n, dtype=int32)
        self.moved_rows, self.moved_from = tensor(n, dtype=int32), tensor(n, dtype=int32)
        self.centers = [tensor(K, d, dtype=real) for _ in range(2)]
        self.residuals = [tensor(K, d, dtype=float64) for _ in range(2)]
        self.weights = [tensor(K, dtype=float64) for _ in range(2)]
        self.before = tensor(K, d, dtype=real)
        self.short = tensor(K, data.stride, dtype=data.points.dtype)
        self.norms, self.doubts, self.shifts = (tensor(K, dtype=float32) for _ in range(3))
        self.replicas = 1 if K * d > 16384 else 8
        self.sums = tensor(data.digits, self.replicas, K * d, dtype=int64)
        self.members = tensor(K, dtype=int64)
        self.gap, self.shift, self.movement = (tensor(LIMBS, dtype=int64) for _ in range(3))
        self.point = tensor(4, dtype=float64)
        self.tolerances = tensor(3, dtype=float64, value=-1.0)
        self.records = tensor(64, 8, dtype=float64)


def launch_step(
    data: Screened, step: Step, source: int, lows: tuple[int, int, int], at_most: int, keep: bool
) -> None:
    """Launch the kernels of one step, from the centers in buffer `source` to the other one."""
    n, d, K = data.n, data.d, step.n_clusters
    centers, means = step.centers[source], step.centers[1 - source]
    exact = {"enable_fp_fusion": False}
    gap_low, shift_low, movement_low = lows
    rows, columns, depth, warps, stages = data.tile(K)
    bits = max(1, (triton.cdiv(K, columns) - 1).bit_length())
    kernels.prepare_centers[(K,)](
        step.state, centers, step.before, data.mu, step.short, step.norms, step.doubts, step.shifts,
        step.reach, d, data.stride, data.scale, data.radius, data.rho, data.products_error,
        2.0 ** (bits - 22) + 2.0**-22, BLOCK=min(1024, triton.next_power_of_2(d)),
        DIRECT=data.direct, num_warps=1, **exact,
    )  # fmt: skip
    kernels.select_active[(triton.cdiv(n, 1024),)](
        step.state, step.labels, step.slack, step.shifts, step.reach, step.active, n, data.margin,
        BLOCK=1024, **exact,
    )  # fmt: skip
    kernels.screen[(triton.cdiv(n, rows),)](
        step.state, data.points, data.sizes, data.errors, step.short, step.norms, step.doubts, step.reach,
        step.active, step.labels, step.slack, step.open_rows, step.thresholds, step.moved_rows,
        step.moved_from, K, WIDTH=data.stride, ROWS=rows, COLUMNS=columns,
        DEPTH=depth, BITS=bits, DIRECT=data.direct, noise=data.noise, noise_size=data.noise_size, num_warps=warps,
        num_stages=stages,
    )  # fmt: skip
    kernels.list_candidates[(triton.cdiv(n, 64),)](
        step.state, data.points, step.short, step.norms, step.open_rows, step.thresholds,
        step.candidates, step.counts, K, WIDTH=data.stride, ROWS=64,
        COLUMNS=16 if data.direct else 64, DEPTH=depth, DIRECT=data.direct, num_warps=4,
    )  # fmt: skip
    kernels.resolve[(triton.cdiv(n, 32),)](
        step.state, data.X, centers, step.open_rows, step.thresholds, step.candidates, step.counts,
        data.sizes, data.errors, step.reach, step.labels, step.slack, step.moved_rows,
        step.moved_from, step.hard_rows, d, data.scale, DIRECT=data.direct, BLOCK=32,
        num_warps=4, **exact,
    )  # fmt: skip
    kernels.resolve_hard[(min(n, 1024),)](
        step.state, data.X, centers, step.hard_rows, step.labels, step.slack, step.moved_rows,
        step.moved_from, d, K, BLOCK=min(128, triton.next_power_of_2(K)), num_warps=4, **exact,
    )  # fmt: skip
    kernels.sum_gap[(triton.cdiv(n, 64),)](
        step.state, data.X, centers, step.labels, step.moved_rows, step.moved_from, step.gap,
        gap_low, d, BLOCK=64, num_warps=4, **exact,
    )  # fmt: skip
    width = min(128, triton.next_power_of_2(d))
    height = max(4, 1024 // width)
    kernels.move_rows[(triton.cdiv(n, height),)](
        step.state, data.X, step.labels, step.moved_rows, step.moved_from, step.sums, step.members,
        d, K * d, data.digit_scale, K, DIGITS=data.digits, REPLICAS=step.replicas, ROWS=height,
        COLUMNS=width, num_warps=4, **exact,
    )  # fmt: skip
    kernels.find_means[(triton.cdiv(K * d, 256),)](
        step.state, step.sums, step.members, centers, means, step.residuals[1 - source], step.shift,
        step.movement, shift_low, movement_low, data.unit, d, K * d, DIGITS=data.digits,
        REPLICAS=step.replicas, BLOCK=256, num_warps=4, **exact,
    )  # fmt: skip
    kernels.finish_step[(1,)](
        step.state, step.reach, step.members, step.weights[1 - source], step.gap, step.shift,
        step.movement, gap_low, shift_low, movement_low, step.point, step.records, step.tolerances,
        K, at_most, KEEP_EMPTY=keep, BLOCK=min(1024, triton.next_power_of_2(K)), LIMBS=16,
        num_warps=1, **exact,
    )  # fmt: skip


class GpuPoints:
    """A first workspace, to be grown."""

    def __init__(self, X: Any, device: str) -> None:
        self.data = Screened(torch.as_tensor(X).to(device))
        self.step: Step | None = None

    def assign(self, centers: Centers) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""
        evaluations, _, vertex = self.advance(centers, Limits(1, math.inf))
        moved, _, gap = evaluations[0][:3]
        return Assignment(int(moved), gap, vertex[2], vertex[0], vertex[1])

    def advance(self, centers: Centers, limits: Limits, shift: float = math.nan, empty: int = 0) -> Any:
        data = self.data
        if self.step is None:
            self.step = Step(data, len(centers))
        step = self.step
        lows = data.lows(float(np.abs(centers).max()))
        step.centers[0].copy_(torch.from_numpy(np.ascontiguousarray(centers)))
        step.state.zero_()
        step.state[7] = empty
        step.point[0] = shift
        step.tolerances.copy_(torch.tensor([limits.gap, limits.decrease, limits.shift], dtype=torch.float64))
        done = 0
        while done < limits.at_most:
            for i in range(min(4, limits.at_most - done)):
                launch_step(data, step, (done + i) % 2, lows, limits.at_most, limits.keep_empty)
            done += 4
            if int(step.state[0]):
                break
        steps = int(step.state[6])
        records = step.records[:steps].cpu().numpy()
        last = (steps - 1) % 2
        vertex = tuple(a[1 - last].cpu().numpy() for a in (step.centers, step.residuals, step.weights))
        point = tuple(a[last].cpu().numpy() for a in (step.centers, step.residuals, step.weights))
        return records, point, vertex
