"""The clusters of a workspace on the device: centers, exact sums, and the record of every step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from wolfmeans.engines.base import Centers, Limits
from wolfmeans.engines.gpu.kernels import division
from wolfmeans.engines.gpu.kernels import means as mean_kernels
from wolfmeans.engines.gpu.kernels import screen as screen_kernels
from wolfmeans.engines.gpu.kernels import weighted as weighted_kernels
from wolfmeans.engines.gpu.kernels.exact import LIMBS, ROOM
from wolfmeans.engines.gpu.kernels.lists import AT_MOST, EMPTY, FAR, KEEP_EMPTY
from wolfmeans.engines.gpu.launching import UNFUSED, launch
from wolfmeans.engines.gpu.transfers import lent_to_host, to_device

if TYPE_CHECKING:
    from wolfmeans.engines.gpu.screening import Screened
    from wolfmeans.engines.gpu.weighting import Weighting

MOST_STEPS = 1024
"""So many records fit."""
# Sums that many rows go into at once are kept several times, so that fewer meet.
_FEW_SUMS, _MANY_REPLICAS = 2048, 64
_SOME_SUMS, _REPLICAS = 16384, 8
_MOST_NEIGHBORS = 4096
# What a program makes means of: few sums, as long as there are so many programs.
_SLOTS, _MANY_PROGRAMS = 128, 128
_MOST_COLUMNS = 256
_ALL_TILES = 128
"""Tiles of centers divide this: there are rows for whole ones, so that nobody asks for the last."""
_ALIGNMENT = 256
_MOST_SUMS = 2**31
"""Their places are counted in int32."""
_OF_A_PLACE = ("centers", "residuals", "weights")


@dataclass(frozen=True)
class Lows:
    """Exponents of the lowest bits that the sums of a step can hold."""

    gap: int
    shift: int
    movement: int

    @staticmethod
    def of(largest: float, n: int, d: int, heaviest: int) -> Lows:
        """Return them for points and centers of magnitudes up to `largest`, n points of d columns.

        No point weighs more than 2**heaviest.
        """
        top = math.frexp(d * (2.0 * 2.0 ** math.frexp(largest)[1]) ** 2)[1]
        low = top - 53 - 32 * (LIMBS - 4)
        return Lows(low + heaviest, low, low + heaviest + n.bit_length())


class Arena:
    """Tensors of zeros, all of them in one piece: asking for each would take the host longer."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._asked: dict[str, tuple[torch.dtype, tuple[int, ...], int]] = {}
        self._size = 0
        self._whole: torch.Tensor | None = None

    def ask(self, name: str, dtype: torch.dtype, *shape: int) -> None:
        """Ask for a tensor."""
        self._asked[name] = (dtype, shape, self._size)
        size = math.prod(shape) * dtype.itemsize
        self._size += -(-size // _ALIGNMENT) * _ALIGNMENT

    def zeros(self) -> dict[str, torch.Tensor]:
        """Return all tensors by their names."""
        self._whole = whole = torch.zeros(self._size // 8, dtype=torch.int64, device=self._device)
        kinds = {dtype: whole.view(dtype) for dtype, _, _ in self._asked.values()}
        return {
            name: torch.as_strided(
                kinds[dtype],
                shape,
                [math.prod(shape[i + 1 :]) for i in range(len(shape))],
                start // dtype.itemsize,
            )
            for name, (dtype, shape, start) in self._asked.items()
        }

    @property
    def n_bytes(self) -> int:
        """What they take."""
        return self._size

    def clear(self) -> None:
        """Make all of them zeros again."""
        assert self._whole is not None
        self._whole.zero_()

    def lent(self, names: Sequence[str]) -> list[NDArray[Any]]:
        """Return neighbors, from the first to the last of them, as arrays lent by one copy."""
        assert self._whole is not None
        begin = self._asked[names[0]][2]
        dtype, shape, start = self._asked[names[-1]]
        end = start + math.prod(shape) * dtype.itemsize
        (block,) = lent_to_host(self._whole[begin // 8 : -(-end // 8)])
        raw = block.view(np.uint8)
        arrays = []
        for name in names:
            dtype, shape, start = self._asked[name]
            size = math.prod(shape) * dtype.itemsize
            kind = str(dtype).removeprefix("torch.")
            arrays.append(raw[start - begin : start - begin + size].view(kind).reshape(shape))
        return arrays


class Clusters:
    """The tensors of K clusters, and the kernels that work on them alone.

    All that is here has no row of the data: it is the same whether the rows come at once or in
    parts.
    """

    _control: torch.Tensor
    cost: torch.Tensor
    total: torch.Tensor
    before: torch.Tensor
    short: torch.Tensor
    norms: torch.Tensor
    doubts: torch.Tensor
    shifts: torch.Tensor
    apart: torch.Tensor
    records: torch.Tensor
    moments: torch.Tensor
    sums: torch.Tensor
    folded: torch.Tensor
    arrivals: torch.Tensor
    totals: torch.Tensor
    divisors: torch.Tensor
    limbs: torch.Tensor
    negative: torch.Tensor
    lowest: torch.Tensor

    def __init__(self, data: Screened, n_clusters: int, weighting: Weighting | None) -> None:
        d, K = data.d, n_clusters
        self.data, self.n_clusters, self.weighting = data, n_clusters, weighting

        digits = data.digits if weighting is None else weighting.sum_digits
        padded = -(-K // _ALL_TILES) * _ALL_TILES
        if max((digits + 1) * K * d, padded * data.width) >= _MOST_SUMS:
            raise ValueError(
                f"{K} clusters of {d} columns have more sums than engine='gpu' can count: take "
                "engine='cpu', which gives the same result"
            )
        int32, int64, float32, float64 = torch.int32, torch.int64, torch.float32, torch.float64
        replicas = 1 if K * d > _SOME_SUMS else _REPLICAS
        if weighting is None and K * d <= _FEW_SUMS:
            replicas = _MANY_REPLICAS
        self.replicas = replicas
        arena = Arena(data.X.device)
        # Counters; the rule: the shift on arrival, and three tolerances; the reaches.
        arena.ask("_control", int64, 16)
        arena.ask("cost", int64, LIMBS + 1)
        # The point and the vertex, which change places when a step is taken; next to each other,
        # to the records and to a cost, so that one copy brings all that to the host.
        for place in "01":
            arena.ask("centers" + place, data.X.dtype, K, d)
            arena.ask("residuals" + place, float64, K, d)
            arena.ask("weights" + place, float64, K)
        arena.ask("records", float64, MOST_STEPS, 8)
        arena.ask("total", float64, 2)
        arena.ask("before", data.X.dtype, K, d)
        arena.ask("short", data.points.dtype, padded, data.width)
        arena.ask("norms", float32, padded)
        for name in ("doubts", "shifts", "apart"):
            arena.ask(name, float32, K)
        arena.ask("moments", int64, 4, ROOM)
        if weighting is None:
            arena.ask("sums", int64, data.digits, replicas, K * d)
            long = replicas > 1 and data.digits > 2
            arena.ask("folded", int64, data.digits, K * d if long else 1)
            arena.ask("arrivals", int64, replicas, K)
        else:
            many = 1 if weighting.small else K * d
            arena.ask("sums", int64, weighting.sum_digits, replicas, K * d)
            arena.ask("totals", int64, weighting.digits, replicas, K)
            arena.ask("divisors", int64, division.DIVISOR_LIMBS, K)
            arena.ask("limbs", int64, weighting.sum_digits + 1, many)
            arena.ask("negative", int32, many)
            arena.ask("lowest", int32, many)
        self._arena = arena
        vars(self).update(arena.zeros())
        self.norms[K:] = FAR.value
        self.state, self.rule = self._control[:8].view(int32), self._control[8:12].view(float64)
        # The first of the sums of a step; then shift and movement.
        self.gap = self.moments[0]
        # Of the centers in each of the two buffers.
        self.reach = [self._control[begin : begin + 2].view(int32) for begin in (12, 14)]
        self.centers, self.residuals, self.weights = (
            [vars(self).pop(name + place) for place in "01"]
            for name in ("centers", "residuals", "weights")
        )
        # With more columns few points are so near to their center.
        self.have_neighbors = data.direct and K <= _MOST_NEIGHBORS

    @property
    def n_bytes(self) -> int:
        """What the tensors take."""
        return self._arena.n_bytes

    def clear(self) -> None:
        """Forget all sums."""
        self._arena.clear()
        self.norms[self.n_clusters :] = FAR.value

    def begin(
        self, centers: Centers | torch.Tensor, limits: Limits, shift: float, empty: int
    ) -> None:
        """Put the first point in its place; sums stay what they are."""
        if not isinstance(centers, torch.Tensor):
            centers = to_device(centers, self.before)
        self.centers[0].copy_(centers)
        control = np.zeros(16, dtype=np.int64)
        counters, rule = control[:8].view(np.int32), control[8:12].view(np.float64)
        counters[EMPTY.value], counters[AT_MOST.value] = empty, min(limits.at_most, MOST_STEPS)
        counters[KEEP_EMPTY.value] = limits.keep_empty
        rule[:] = shift, limits.gap, limits.decrease, limits.shift
        self._control.copy_(torch.from_numpy(control))

    def place(self, number: int) -> list[torch.Tensor]:
        """Return centers, residuals and weights of one of the two buffers."""
        return [self.centers[number], self.residuals[number], self.weights[number]]

    def lent(
        self, *, both: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], list[list[NDArray[Any]]]]:
        """Return the records, the total, and the second buffer's arrays or those of both.

        That is: centers, residuals and weights; all of it is lent (transfers.lent_to_host).
        """
        places = "01" if both else "1"
        names = [name + place for place in places for name in _OF_A_PLACE]
        *arrays, records, total = self._arena.lent([*names, "records", "total"])
        return records, total, [arrays[i : i + 3] for i in range(0, len(arrays), 3)]

    def tile_bits(self) -> int:
        """Return how many bits of a score tell which tile, and half of it, it comes from."""
        tile = self.data.tile(self.n_clusters)
        bits = (triton.cdiv(self.n_clusters, tile.columns) - 1).bit_length()
        return max(1, bits + tile.folded)

    @property
    def prepare_themselves(self) -> bool:
        """Whether means are found with all that their assignment needs of them.

        Then `prepare` is for the first centers alone.
        """
        return self.weighting is None

    def _score_error(self) -> float:
        """Return what a score loses of itself by the bits that tell its tile, and by rounding."""
        return 2.0 ** (self.tile_bits() - 22) + 2.0**-22

    def prepare(self, source: int) -> None:
        """Launch what brings the centers in one of the two buffers into short arithmetic."""
        data, d = self.data, self.data.d
        launch(
            screen_kernels.prepare_centers, self.n_clusters,
            self.state, self.centers[source], self.before, data.mu, self.short, self.norms,
            self.doubts, self.shifts, self.reach[source], d, data.width, data.scale, data.radius,
            data.rho, data.products_error, self._score_error(),
            BLOCK=min(1024, triton.next_power_of_2(d)), DIRECT=data.direct, num_warps=1, **UNFUSED,
        )  # fmt: skip
        self._find_neighbors(source)

    def _find_neighbors(self, source: int) -> None:
        if self.have_neighbors:
            launch(
                screen_kernels.find_neighbors, self.n_clusters,
                self.state, self.short, self.reach[source], self.apart, self.n_clusters,
                WIDTH=self.data.width, BLOCK=128, num_warps=4, **UNFUSED,
            )  # fmt: skip

    def settle(self, source: int, lows: Lows) -> None:
        """Launch what follows when the rows have been added up: means, record, whether to go on."""
        if self.weighting is None:
            self._find_means(source, lows)
            self._find_neighbors(1 - source)
        else:
            self._find_weighted_means(self.weighting, source, lows)
            self._finish(source, lows)

    def _find_means(self, source: int, lows: Lows) -> None:
        data, d, K = self.data, self.data.d, self.n_clusters
        columns = min(_MOST_COLUMNS, triton.next_power_of_2(d))
        clusters = 1
        while clusters * columns < _SLOTS and 2 * clusters * _MANY_PROGRAMS <= K:
            clusters *= 2
        launch(
            mean_kernels.find_means, triton.cdiv(K, clusters),
            self.state, self.sums, self.arrivals, self.folded, self.centers[source], self.before,
            self.centers[1 - source], self.residuals[1 - source], self.weights[1 - source], data.mu,
            self.short, self.norms, self.doubts, self.shifts, self.reach[source],
            self.reach[1 - source], self.moments, self.records, self.rule, lows.gap, lows.shift,
            lows.movement, data.unit, data.scale, data.radius, data.rho, data.products_error,
            self._score_error(), K, d, data.width, DIGITS=data.digits, REPLICAS=self.replicas,
            CLUSTERS=clusters, COLUMNS=columns, MORE=d > columns, DIRECT=data.direct,
            num_warps=8 if clusters * columns > _SLOTS else 4, **UNFUSED,
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
            self.residuals[1 - source], self.moments[1:], lows.shift, lows.movement,
            weighting.sum_unit - weighting.unit, d, K * d, K, SMALL=weighting.small,
            DIGITS=weighting.sum_digits, REPLICAS=self.replicas, BLOCK=128, num_warps=4,
            **UNFUSED,
        )  # fmt: skip

    def _finish(self, source: int, lows: Lows) -> None:
        K = self.n_clusters
        launch(
            mean_kernels.finish_step, 1,
            self.state, self.reach[source], self.weights[1 - source], self.moments, lows.gap,
            lows.shift, lows.movement, self.records, self.rule, K,
            BLOCK=min(1024, triton.next_power_of_2(K)), num_warps=1, **UNFUSED,
        )  # fmt: skip
