"""The clusters of a workspace on the device: centers, exact sums, and the record of every step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
import triton

from wolfmeans.engines.base import Centers, Limits
from wolfmeans.engines.gpu import division, moment_kernels, screen_kernels, weighted_kernels
from wolfmeans.engines.gpu.exact_kernels import LIMBS
from wolfmeans.engines.gpu.launching import UNFUSED, launch
from wolfmeans.engines.gpu.lists import AT_MOST, EMPTY

if TYPE_CHECKING:
    from wolfmeans.engines.gpu.screening import Screened
    from wolfmeans.engines.gpu.weighting import Weighting

MOST_STEPS = 1024
"""So many records fit."""
# Sums that many rows go into at once are kept several times, so that fewer meet.
_FEW_SUMS, _MANY_REPLICAS = 2048, 64
_SOME_SUMS, _REPLICAS = 16384, 8
_MOST_NEIGHBORS = 4096


@dataclass(frozen=True)
class Lows:
    """Exponents of the lowest bits that the sums of a step can hold."""

    gap: int
    shift: int
    movement: int


def _zeros(
    device: torch.device, dtype: torch.dtype, *shapes: tuple[int, ...]
) -> list[torch.Tensor]:
    """Return tensors of zeros, all of them in one piece: asking for each takes the host longer."""
    sizes = [math.prod(shape) for shape in shapes]
    rooms = [-(-size // 64) * 64 for size in sizes]
    pieces = torch.zeros(sum(rooms), dtype=dtype, device=device).split(rooms)
    return [
        piece[:size].view(shape) for piece, size, shape in zip(pieces, sizes, shapes, strict=True)
    ]


class Clusters:
    """The tensors of K clusters, and the kernels that work on them alone.

    All that is here has no row of the data: it is the same whether the rows come at once or in
    parts.
    """

    def __init__(self, data: Screened, n_clusters: int, weighting: Weighting | None) -> None:
        d, K = data.d, n_clusters
        self.data, self.n_clusters, self.weighting = data, n_clusters, weighting

        int32, int64, float32, float64 = torch.int32, torch.int64, torch.float32, torch.float64
        device = data.X.device
        # Counters, and the rule: the shift on arrival, and three tolerances.
        self._control = torch.zeros(12, dtype=int64, device=device)
        self.state, self.rule = self._control[:8].view(int32), self._control[8:].view(float64)
        (self.reach,) = _zeros(device, int32, (2,))
        # The point and the vertex, which change places when a step is taken.
        *self.centers, self.before = _zeros(device, data.X.dtype, *[(K, d)] * 3)
        (self.short,) = _zeros(device, data.points.dtype, (K, data.width))
        self.norms, self.doubts, self.shifts, self.apart = _zeros(device, float32, *[(K,)] * 4)
        # With more columns few points are so near to their center.
        self.have_neighbors = data.direct and K <= _MOST_NEIGHBORS
        self.records, *places = _zeros(device, float64, (MOST_STEPS, 8), (K, d), (K, d), (K,), (K,))
        self.residuals, self.weights = places[:2], places[2:]
        self.replicas = 1 if K * d > _SOME_SUMS else _REPLICAS
        if weighting is None and K * d <= _FEW_SUMS:
            self.replicas = _MANY_REPLICAS
        self.gap, self.shift, self.movement = _zeros(device, int64, *[(LIMBS,)] * 3)
        self.members: torch.Tensor | None = None
        if weighting is None:
            self.sums, self.folded, self.members = _zeros(
                device, int64, (data.digits, self.replicas, K * d), (data.digits, 1, K * d), (K,)
            )
        else:
            many = 1 if weighting.small else K * d
            self.sums, self.totals, self.divisors, self.limbs = _zeros(
                device, int64, (weighting.sum_digits, self.replicas, K * d),
                (weighting.digits, self.replicas, K), (division.DIVISOR_LIMBS, K),
                (weighting.sum_digits + 1, many),
            )  # fmt: skip
            self.negative, self.lowest = _zeros(device, int32, (many,), (many,))

    def begin(
        self, centers: Centers | torch.Tensor, limits: Limits, shift: float, empty: int
    ) -> None:
        """Put the first point in its place; sums stay what they are."""
        if not isinstance(centers, torch.Tensor):
            centers = torch.from_numpy(np.ascontiguousarray(centers))
        self.centers[0].copy_(centers)
        control = np.zeros(12, dtype=np.int64)
        counters, rule = control[:8].view(np.int32), control[8:].view(np.float64)
        counters[EMPTY.value], counters[AT_MOST.value] = empty, min(limits.at_most, MOST_STEPS)
        rule[:] = shift, limits.gap, limits.decrease, limits.shift
        self._control.copy_(torch.from_numpy(control))

    def place(self, number: int) -> list[torch.Tensor]:
        """Return centers, residuals and weights of one of the two buffers."""
        return [self.centers[number], self.residuals[number], self.weights[number]]

    def tile_bits(self) -> int:
        """Return how many bits the number of a tile of centers has."""
        columns = self.data.tile(self.n_clusters).columns
        return max(1, (triton.cdiv(self.n_clusters, columns) - 1).bit_length())

    def prepare(self, source: int) -> None:
        """Launch what brings the centers in one of the two buffers into short arithmetic."""
        data, d = self.data, self.data.d
        launch(
            screen_kernels.prepare_centers, self.n_clusters,
            self.state, self.centers[source], self.before, data.mu, self.short, self.norms,
            self.doubts, self.shifts, self.reach, d, data.width, data.scale, data.radius, data.rho,
            data.products_error, 2.0 ** (self.tile_bits() - 22) + 2.0**-22,
            BLOCK=min(1024, triton.next_power_of_2(d)), DIRECT=data.direct, num_warps=1, **UNFUSED,
        )  # fmt: skip
        if self.have_neighbors:
            launch(
                screen_kernels.find_neighbors, self.n_clusters,
                self.state, self.short, self.reach, self.apart, self.n_clusters, WIDTH=data.width,
                BLOCK=128, num_warps=4, **UNFUSED,
            )  # fmt: skip

    def find_means(self, source: int, lows: Lows) -> None:
        """Launch what makes means of the sums, in the other buffer."""
        data, d, K = self.data, self.data.d, self.n_clusters
        if self.weighting is not None:
            self._find_weighted_means(self.weighting, source, lows)
            return
        sums = self.sums
        if self.replicas > 1:
            sums = self.folded
            launch(
                moment_kernels.fold_sums, (triton.cdiv(K * d, 32), data.digits),
                self.state, self.sums, sums, K * d, REPLICAS=self.replicas, BLOCK=32, num_warps=4,
                **UNFUSED,
            )  # fmt: skip
        launch(
            moment_kernels.find_means, triton.cdiv(K * d, 256),
            self.state, sums, self.members, self.centers[source], self.centers[1 - source],
            self.residuals[1 - source], self.shift, self.movement, lows.shift, lows.movement,
            data.unit, d, K * d, DIGITS=data.digits, BLOCK=256, num_warps=4, **UNFUSED,
        )  # fmt: skip

    def _find_weighted_means(self, weighting: Weighting, source: int, lows: Lows) -> None:
        d, K = self.data.d, self.n_clusters
        launch(
            division.settle_totals, triton.cdiv(K, 128),
            self.state, self.totals, self.divisors, self.weights[1 - source], weighting.unit, K,
            DIGITS=weighting.digits, REPLICAS=self.replicas, BLOCK=128, num_warps=4, **UNFUSED,
        )  # fmt: skip
        if not weighting.small:
            launch(
                division.carry_sums, triton.cdiv(K * d, 256),
                self.state, self.sums, self.limbs, self.negative, self.lowest, K * d,
                DIGITS=weighting.sum_digits, REPLICAS=self.replicas, BLOCK=256, num_warps=4,
                **UNFUSED,
            )  # fmt: skip
        launch(
            weighted_kernels.find_weighted_means, triton.cdiv(K * d, 128),
            self.state, self.sums, self.limbs, self.negative, self.lowest, self.divisors,
            self.weights[1 - source], self.centers[source], self.centers[1 - source],
            self.residuals[1 - source], self.shift, self.movement, lows.shift, lows.movement,
            weighting.sum_unit - weighting.unit, d, K * d, K, SMALL=weighting.small,
            DIGITS=weighting.sum_digits, REPLICAS=self.replicas, BLOCK=128, num_warps=4,
            **UNFUSED,
        )  # fmt: skip

    def finish(self, source: int, lows: Lows, keep: bool) -> None:
        """Launch what writes the record of the step, and decides whether it is taken."""
        K = self.n_clusters
        launch(
            moment_kernels.finish_step, 1,
            self.state, self.reach, self.members, self.weights[1 - source], self.gap, self.shift,
            self.movement, lows.gap, lows.shift, lows.movement, self.records, self.rule, K,
            KEEP_EMPTY=keep, BLOCK=min(1024, triton.next_power_of_2(K)), num_warps=1, **UNFUSED,
        )  # fmt: skip
