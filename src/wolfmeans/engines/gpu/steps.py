"""One Frank-Wolfe step on the device: its tensors, the order of its kernels, and runs of steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from wolfmeans.engines.base import Centers, Limits
from wolfmeans.engines.gpu import (
    division,
    moment_kernels,
    recheck_kernels,
    screen_kernels,
    weighted_kernels,
)
from wolfmeans.engines.gpu.exact_kernels import LIMBS
from wolfmeans.engines.gpu.graphs import captured
from wolfmeans.engines.gpu.lists import AT_MOST, DONE, EMPTY, STEPS
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.weighting import Weighting

_MOST_STEPS = 1024
_SMALL = 16384
_REPLICAS = 8
# Launched at once between two looks at whether the run has ended.
_FIRST_BURST = 4
_LONGEST_BURST = 32
_UNFUSED = {"enable_fp_fusion": False}


@dataclass(frozen=True)
class Lows:
    """Exponents of the lowest bits that the sums of a step can hold."""

    gap: int
    shift: int
    movement: int


class Step:
    """The tensors of a workspace that change from step to step, for K clusters."""

    def __init__(self, data: Screened, n_clusters: int, weighting: Weighting | None = None) -> None:
        n, d, K = data.n, data.d, n_clusters
        self.data, self.n_clusters, self.weighting = data, n_clusters, weighting

        def tensor(*shape: int, dtype: torch.dtype, value: float = 0) -> torch.Tensor:
            return torch.full(shape, value, dtype=dtype, device=data.X.device)

        int32, int64, float32, float64 = torch.int32, torch.int64, torch.float32, torch.float64
        self.state, self.reach = tensor(16, dtype=int32), tensor(2, dtype=int32)
        self.labels = tensor(n, dtype=int32, value=-1)
        self.slack = tensor(n, dtype=float32, value=-math.inf)
        self.active, self.open_rows, self.hard_rows = (tensor(n, dtype=int32) for _ in range(3))
        self.thresholds, self.counts = tensor(n, dtype=float32), tensor(n, dtype=int32)
        self.candidates = tensor(n, screen_kernels.SLOTS.value, dtype=int32)
        self.moved_rows, self.moved_from = tensor(n, dtype=int32), tensor(n, dtype=int32)
        # The point and the vertex, which change places when a step is taken.
        self.centers = [tensor(K, d, dtype=data.X.dtype) for _ in range(2)]
        self.residuals = [tensor(K, d, dtype=float64) for _ in range(2)]
        self.weights = [tensor(K, dtype=float64) for _ in range(2)]
        self.before = tensor(K, d, dtype=data.X.dtype)
        self.short = tensor(K, data.width, dtype=data.points.dtype)
        self.norms, self.doubts, self.shifts = (tensor(K, dtype=float32) for _ in range(3))
        self.replicas = 1 if K * d > _SMALL else _REPLICAS
        self.members: torch.Tensor | None = None
        if weighting is None:
            self.sums = tensor(data.digits, self.replicas, K * d, dtype=int64)
            self.members = tensor(K, dtype=int64)
        else:
            self.sums = tensor(weighting.sum_digits, self.replicas, K * d, dtype=int64)
            self.totals = tensor(weighting.digits, self.replicas, K, dtype=int64)
            self.divisors = tensor(division.DIVISOR_LIMBS, K, dtype=int64)
            many = 1 if weighting.small else K * d
            self.limbs = tensor(weighting.sum_digits + 1, many, dtype=int64)
            self.negative, self.lowest = tensor(many, dtype=int32), tensor(many, dtype=int32)
        self.gap, self.shift, self.movement = (tensor(LIMBS, dtype=int64) for _ in range(3))
        self.arrival = tensor(1, dtype=float64)
        self.tolerances = tensor(3, dtype=float64, value=-1.0)
        self.records = tensor(_MOST_STEPS, 8, dtype=float64)
        self._graphs: dict[tuple[bool, Lows], Any] = {}

    def begin(
        self, centers: Centers | torch.Tensor, limits: Limits, shift: float, empty: int
    ) -> None:
        """Put the first point in its place; labels, slacks and sums stay what they are."""
        if not isinstance(centers, torch.Tensor):
            centers = torch.from_numpy(np.ascontiguousarray(centers))
        self.centers[0].copy_(centers)
        state = [0] * 16
        state[EMPTY.value], state[AT_MOST.value] = empty, min(limits.at_most, _MOST_STEPS)
        self.state.copy_(torch.tensor(state, dtype=torch.int32))
        self.arrival.fill_(shift)
        rule = [limits.gap, limits.decrease, limits.shift]
        self.tolerances.copy_(torch.tensor(rule, dtype=torch.float64))

    def find_labels(self, source: int) -> None:
        """Launch what gives each point the label of its nearest center, and lists those that moved.

        `source` says which of the two buffers holds the centers.
        """
        data, n, d, K = self.data, self.data.n, self.data.d, self.n_clusters
        centers = self.centers[source]
        tile = data.tile(K)
        bits = max(1, (triton.cdiv(K, tile.columns) - 1).bit_length())
        screen_kernels.prepare_centers[(K,)](
            self.state, centers, self.before, data.mu, self.short, self.norms, self.doubts,
            self.shifts, self.reach, d, data.width, data.scale, data.radius, data.rho,
            data.products_error, 2.0 ** (bits - 22) + 2.0**-22,
            BLOCK=min(1024, triton.next_power_of_2(d)), DIRECT=data.direct, num_warps=1, **_UNFUSED,
        )  # fmt: skip
        screen_kernels.select_active[(triton.cdiv(n, 1024),)](
            self.state, self.labels, self.slack, self.shifts, self.reach, self.active, n,
            data.margin, BLOCK=1024, **_UNFUSED,
        )  # fmt: skip
        screen_kernels.screen[(triton.cdiv(n, tile.rows),)](
            self.state, data.points, data.sizes, data.errors, self.short, self.norms, self.doubts,
            self.reach, self.active, self.labels, self.slack, self.open_rows, self.thresholds,
            self.moved_rows, self.moved_from, K, WIDTH=data.width, ROWS=tile.rows,
            COLUMNS=tile.columns, DEPTH=tile.depth, BITS=bits, DIRECT=data.direct,
            noise=data.noise, num_warps=tile.warps, num_stages=tile.stages,
        )  # fmt: skip
        screen_kernels.list_candidates[(triton.cdiv(n, 64),)](
            self.state, data.points, self.short, self.norms, self.open_rows, self.thresholds,
            self.candidates, self.counts, K, WIDTH=data.width, ROWS=64,
            COLUMNS=16 if data.direct else 64, DEPTH=tile.depth, DIRECT=data.direct, num_warps=4,
        )  # fmt: skip
        recheck_kernels.resolve[(triton.cdiv(n, 32),)](
            self.state, data.X, centers, self.open_rows, self.thresholds, self.candidates,
            self.counts, data.sizes, data.errors, self.reach, self.labels, self.slack,
            self.moved_rows, self.moved_from, self.hard_rows, d, data.scale, DIRECT=data.direct,
            BLOCK=32, num_warps=4, **_UNFUSED,
        )  # fmt: skip
        recheck_kernels.resolve_hard[(min(n, 1024),)](
            self.state, data.X, centers, self.hard_rows, self.labels, self.slack, self.moved_rows,
            self.moved_from, d, K, BLOCK=min(128, triton.next_power_of_2(K)), num_warps=4,
            **_UNFUSED,
        )  # fmt: skip

    def find_moments(self, source: int, lows: Lows, keep: bool) -> None:
        """Launch what follows an assignment: gap, sums, means, record, and whether to go on."""
        data, n, d = self.data, self.data.n, self.data.d
        weights = None if self.weighting is None else self.weighting.values
        moment_kernels.sum_gap[(triton.cdiv(n, 64),)](
            self.state, data.X, weights, self.centers[source], self.labels, self.moved_rows,
            self.moved_from, self.gap, lows.gap, d, BLOCK=64, num_warps=4, **_UNFUSED,
        )  # fmt: skip
        if self.weighting is None:
            self._find_means(source, lows)
        else:
            self.move_masses(self.labels, self.weighting.values, None)
            self.find_weighted_means(source, lows)
        self.finish(source, lows, keep)

    def _find_means(self, source: int, lows: Lows) -> None:
        data, n, d, K = self.data, self.data.n, self.data.d, self.n_clusters
        height, width = self._tile_of_rows(1024)
        moment_kernels.move_rows[(triton.cdiv(n, height),)](
            self.state, data.X, self.labels, self.moved_rows, self.moved_from, self.sums,
            self.members, d, K * d, data.high, DIGITS=data.digits, REPLICAS=self.replicas,
            ROWS=height, COLUMNS=width, num_warps=4, **_UNFUSED,
        )  # fmt: skip
        moment_kernels.find_means[(triton.cdiv(K * d, 256),)](
            self.state, self.sums, self.members, self.centers[source], self.centers[1 - source],
            self.residuals[1 - source], self.shift, self.movement, lows.shift, lows.movement,
            data.unit, d, K * d, DIGITS=data.digits, REPLICAS=self.replicas, BLOCK=256,
            num_warps=4, **_UNFUSED,
        )  # fmt: skip

    def _tile_of_rows(self, entries: int) -> tuple[int, int]:
        width = min(128, triton.next_power_of_2(self.data.d))
        return max(4, entries // width), width

    def move_masses(
        self, labels: torch.Tensor, before: torch.Tensor, after: torch.Tensor | None
    ) -> None:
        """Launch what brings the sums up to date with the list of moved rows.

        Their masses in the old clusters are given, and those in the new ones where they differ.
        """
        data, n, d, K = self.data, self.data.n, self.data.d, self.n_clusters
        weighting = self.weighting
        assert weighting is not None
        # Products need more registers than numbers do.
        height, width = self._tile_of_rows(512 if after is None else 256)
        weighted_kernels.move_masses[(triton.cdiv(n, height),)](
            self.state, data.X, labels, self.moved_rows, self.moved_from, before, after, self.sums,
            self.totals, d, K * d, K, data.high, weighting.high,
            weighting.high - weighting.unit - 32 * (weighting.digits - 1),
            DIGITS=weighting.sum_digits, MASS_DIGITS=weighting.digits, REPLICAS=self.replicas,
            ROWS=height, COLUMNS=width, num_warps=4, **_UNFUSED,
        )  # fmt: skip

    def find_weighted_means(self, source: int, lows: Lows) -> None:
        """Launch what makes means of the sums of masses."""
        d, K, weighting = self.data.d, self.n_clusters, self.weighting
        assert weighting is not None
        division.settle_totals[(triton.cdiv(K, 128),)](
            self.state, self.totals, self.divisors, self.weights[1 - source], weighting.unit, K,
            DIGITS=weighting.digits, REPLICAS=self.replicas, BLOCK=128, num_warps=4, **_UNFUSED,
        )  # fmt: skip
        if not weighting.small:
            division.carry_sums[(triton.cdiv(K * d, 256),)](
                self.state, self.sums, self.limbs, self.negative, self.lowest, K * d,
                DIGITS=weighting.sum_digits, REPLICAS=self.replicas, BLOCK=256, num_warps=4,
                **_UNFUSED,
            )  # fmt: skip
        weighted_kernels.find_weighted_means[(triton.cdiv(K * d, 128),)](
            self.state, self.sums, self.limbs, self.negative, self.lowest, self.divisors,
            self.weights[1 - source], self.centers[source], self.centers[1 - source],
            self.residuals[1 - source], self.shift, self.movement, lows.shift, lows.movement,
            weighting.sum_unit - weighting.unit, d, K * d, K, SMALL=weighting.small,
            DIGITS=weighting.sum_digits, REPLICAS=self.replicas, BLOCK=128, num_warps=4,
            **_UNFUSED,
        )  # fmt: skip

    def finish(self, source: int, lows: Lows, keep: bool) -> None:
        """Launch what writes the record of the step."""
        K = self.n_clusters
        moment_kernels.finish_step[(1,)](
            self.state, self.reach, self.members, self.weights[1 - source], self.gap, self.shift,
            self.movement, lows.gap, lows.shift, lows.movement, self.arrival, self.records,
            self.tolerances, K, KEEP_EMPTY=keep, BLOCK=min(1024, triton.next_power_of_2(K)),
            num_warps=1, **_UNFUSED,
        )  # fmt: skip

    def run(self, lows: Lows, limits: Limits) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Take steps until the limits; return their records and when each was done, in seconds."""
        two_steps = self._two_steps(lows, limits)
        begun = perf_counter()
        seen, times = 0, [0.0]
        counts = [0]
        burst = min(_FIRST_BURST, limits.at_most)
        while True:
            for _ in range(-(-burst // 2)):
                two_steps()
            state = self.state.cpu()
            seen = int(state[STEPS.value])
            counts.append(seen)
            times.append(perf_counter() - begun)
            if int(state[DONE.value]) or times[-1] > limits.seconds:
                break
            burst = min(2 * burst, _LONGEST_BURST)
        moments = np.interp(np.arange(1, seen + 1), counts, times)
        return self.records[:seen].cpu().numpy(), moments

    def _two_steps(self, lows: Lows, limits: Limits) -> Callable[[], None]:
        """Return what takes a step to the other buffer and one back: a graph on a real device."""

        def launch(*sources: int) -> None:
            for source in sources:
                self.find_labels(source)
                self.find_moments(source, lows, limits.keep_empty)

        if limits.at_most == 1:
            return lambda: launch(0)
        if self.data.X.device.type != "cuda":
            return lambda: launch(0, 1)
        key = (limits.keep_empty, lows)
        if key not in self._graphs:
            self._graphs[key] = captured(lambda: launch(0, 1), self._signature(limits))
        replay: Callable[[], None] = self._graphs[key].replay
        return replay

    def _signature(self, limits: Limits) -> Hashable:
        """Return what compiled kernels depend on."""
        data = self.data
        shape = (data.d, data.digits, self.replicas, data.tile(self.n_clusters))
        bits = (triton.cdiv(self.n_clusters, data.tile(self.n_clusters).columns) - 1).bit_length()
        aligned = data.X.data_ptr() % 16 == 0
        return (data.X.dtype, *shape, bits, min(self.n_clusters, 1024), limits.keep_empty, aligned)
