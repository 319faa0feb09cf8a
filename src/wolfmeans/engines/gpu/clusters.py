"""The clusters of a workspace on the device: centers, exact sums, and the record of every step."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from wolfmeans.core.workspace import Centers, Limits, Partial
from wolfmeans.engines.gpu.grid_sums import on_grid, scalar_limbs
from wolfmeans.engines.gpu.kernels import bounds as bound_kernels
from wolfmeans.engines.gpu.kernels import bulk_sums, division
from wolfmeans.engines.gpu.kernels import means as mean_kernels
from wolfmeans.engines.gpu.kernels import one_pass as one_pass_kernels
from wolfmeans.engines.gpu.kernels import weighted as weighted_kernels
from wolfmeans.engines.gpu.kernels.exact import LIMBS, ROOM
from wolfmeans.engines.gpu.kernels.lists import AT_MOST, EMPTY, FAR, INEXACT, KEEP_EMPTY, MOVED
from wolfmeans.engines.gpu.launching import INTERPRETED, UNFUSED, launch
from wolfmeans.engines.gpu.transfers import Download, Place, UploadBuffer, room, to_host
from wolfmeans.exact.limbs import Grids, Limbs

if TYPE_CHECKING:
    from wolfmeans.engines.gpu.screening import Screened
    from wolfmeans.engines.gpu.weighting import Weighting

# Sums that many rows go into at once are kept several times, so that fewer meet.
_FEW_SUMS, _MANY_REPLICAS = 2048, 64
_SOME_SUMS, _REPLICAS = 16384, 8
_MOST_NEIGHBORS = 4096
# What a program makes means of: few sums, as long as there are so many programs.
_SLOTS, _MANY_PROGRAMS = 128, 128
_MOST_COLUMNS = 256
_ALL_TILES = 256
"""Tiles of centers divide this: there are rows for whole ones, so that kernels need no mask."""
_MOST_NUMBERED = 256
"""Scores of more centers would be too coarse with a number in them."""
_FAR_AWAY = 1.0e17
"""Points of few columns are within 1e15; and squares of this have room in float32."""
_ALIGNMENT = 256
_MOST_SUMS = 2**31
"""Their places are counted in int32."""
MOST_STEPS = 1024
"""So many records fit."""
_WORDS = 16
"""Of 8 bytes: the rule, the counters, and how far the centers of both buffers reach."""
_IN_TURN = 8
"""So many runs may begin before the first of them has."""
_OF_A_PLACE = ("centers", "residuals", "weights")

Results = tuple[NDArray[np.float64], NDArray[np.float64], dict[int, list[NDArray[Any]]]]
"""Records of steps, a total, and centers, residuals and weights by the number of their buffer."""


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
    """Tensors of zeros in one piece of memory: one allocation is faster than many."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._asked: dict[str, tuple[torch.dtype, tuple[int, ...], int]] = {}
        self._size = 0
        self._whole: torch.Tensor | None = None
        self._uploads: dict[tuple[str, ...], UploadBuffer] = {}
        self._pieces: dict[tuple[str, ...], tuple[torch.Tensor, list[Place]]] = {}

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

    def before(self, name: str) -> tuple[torch.Tensor, int]:
        """Return the piece, and how many words of it are before one of the tensors."""
        assert self._whole is not None
        return self._whole, self._asked[name][2] // 8

    def put(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Put arrays into neighbors, from the first to the last of them, by one copy.

        What comes after them in the same kernels need not wait for it.
        """
        names = tuple(arrays)
        if names not in self._uploads:
            self._uploads[names] = UploadBuffer(*self._piece(names))
        self._uploads[names].send(list(arrays.values()))

    def send(self, names: Sequence[str]) -> Callable[[], list[NDArray[Any]]]:
        """Send neighbors, from the first to the last of them, to the host by one copy.

        What is returned waits for them, and lends them out as arrays (transfers.Download).
        """
        piece, places = self._piece(tuple(names))
        sent = Download(piece)

        def received() -> list[NDArray[Any]]:
            memory = sent.array()
            return [place.of(memory) for place in places]

        return received

    def _piece(self, names: tuple[str, ...]) -> tuple[torch.Tensor, list[Place]]:
        """Return a piece that neighbors share, and where each of them is in it."""
        if names not in self._pieces:
            assert self._whole is not None
            begin = self._asked[names[0]][2]
            dtype, shape, start = self._asked[names[-1]]
            end = start + math.prod(shape) * dtype.itemsize
            places = []
            for name in names:
                dtype, shape, start = self._asked[name]
                places.append(Place(start - begin, str(dtype).removeprefix("torch."), shape))
            self._pieces[names] = self._whole[begin // 8 : -(-end // 8)], places
        return self._pieces[names]


class RunControl:
    """Rules and counters on their way to the device, from memory that stays where it is.

    Each has 16 words: the shift on arrival; three tolerances; 16 counters, of which the first two
    say how many steps may be taken and whether empty clusters are kept; zeros.
    """

    def __init__(self, device: torch.device) -> None:
        pinned = device.type == "cuda"
        self._sent = room((_IN_TURN, _WORDS), torch.int64, pinned)
        self._here: NDArray[np.int64] = self._sent.numpy()
        self._turn = 0

    def begin(self, control: torch.Tensor, limits: Limits, shift: float, empty: int) -> None:
        """Send what a run begins with."""
        self.words(limits, shift, empty)
        control.copy_(self._sent[self._turn], non_blocking=True)

    def words(self, limits: Limits, shift: float, empty: int) -> NDArray[np.int64]:
        """Return what a run begins with, to be sent together with other arrays."""
        rule, counters = self._next(limits, limits.at_most)
        rule[0], counters[EMPTY.value] = shift, empty
        words: NDArray[np.int64] = self._here[self._turn]
        return words

    def end_by(self, control: torch.Tensor, limits: Limits, after: int) -> None:
        """Send other limits to a running run; its first `after` steps do not count."""
        self._next(limits, after + limits.at_most)
        # All else is the device's: the shift on arrival, and what it counts.
        control[1:5].copy_(self._sent[self._turn, 1:5], non_blocking=True)

    def _next(self, limits: Limits, at_most: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Write down rule and counters, where the device does not read any more.

        The host waits for what a run leads to before it begins the next but one.
        """
        self._turn = (self._turn + 1) % _IN_TURN
        control = self._here[self._turn]
        control[:] = 0
        rule, counters = control[:4].view(np.float64), control[4:12].view(np.int32)
        rule[1], rule[2], rule[3] = limits.gap, limits.decrease, limits.shift
        counters[AT_MOST.value] = min(at_most, MOST_STEPS)
        counters[KEEP_EMPTY.value] = limits.keep_empty
        return rule, counters


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
    error_bounds: torch.Tensor
    shifts: torch.Tensor
    apart: torch.Tensor
    wide: torch.Tensor
    near: torch.Tensor
    records: torch.Tensor
    moments: torch.Tensor
    sums: torch.Tensor
    folded: torch.Tensor
    arrivals: torch.Tensor
    tally: torch.Tensor
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
        self.replicas = 1 if K * d > _SOME_SUMS else _REPLICAS
        if weighting is None and K * d <= _FEW_SUMS:
            self.replicas = _MANY_REPLICAS
        self._arena = self._planned(padded)
        vars(self).update(self._arena.zeros())
        self._put_far()
        self._run_control = RunControl(data.X.device)
        self.rule = self._control[:4].view(torch.float64)
        self.state = self._control[4:12].view(torch.int32)
        self.lengths = self._control[4 + MOVED.value // 2 :][:1]
        # The first of the sums of a step; then shift and movement.
        self.gap = self.moments[0]
        # Of the centers in each of the two buffers.
        self.reach = [self._control[begin : begin + 2].view(torch.int32) for begin in (12, 14)]
        self.centers, self.residuals, self.weights = (
            [vars(self).pop(name + place) for place in "01"]
            for name in ("centers", "residuals", "weights")
        )
        # With more columns few points are so near to their center.
        self.have_neighbors = data.direct and K <= _MOST_NEIGHBORS

    def _planned(self, padded: int) -> Arena:
        """Return memory for all tensors; those of the screen have rows for `padded` centers."""
        data, weighting, K, d = self.data, self.weighting, self.n_clusters, self.data.d
        int32, int64, float32, float64 = torch.int32, torch.int64, torch.float32, torch.float64
        arena = Arena(data.X.device)
        arena.ask("cost", int64, LIMBS + 1)
        # The rule, that is the shift on arrival and three tolerances; counters; the reaches. Next
        # to the centers that a run begins at, so that one copy moves both.
        arena.ask("_control", int64, _WORDS)
        # The point and the vertex, which change places when a step is taken; next to each other,
        # to the records and to a cost, so that one copy moves all of it to the host.
        for place in "01":
            arena.ask("centers" + place, data.X.dtype, K, d)
            arena.ask("residuals" + place, float64, K, d)
            arena.ask("weights" + place, float64, K)
        arena.ask("records", float64, MOST_STEPS, 8)
        arena.ask("total", float64, 2)
        arena.ask("before", data.X.dtype, K, d)
        for name in ("error_bounds", "shifts", "apart", "wide", "near"):
            arena.ask(name, float32, K)
        arena.ask("moments", int64, 4, ROOM)
        if weighting is None:
            arena.ask("sums", int64, data.digits, self.replicas, K * d)
            long = self.replicas > 1 and data.digits > 2
            arena.ask("folded", int64, data.digits, K * d if long else 1)
            arena.ask("arrivals", int64, self.replicas, K)
            arena.ask("tally", int32, bulk_sums.tally_size(K))
        else:
            many = 1 if weighting.small else K * d
            arena.ask("sums", int64, weighting.sum_digits, self.replicas, K * d)
            arena.ask("totals", int64, weighting.digits, self.replicas, K)
            arena.ask("divisors", int64, division.DIVISOR_LIMBS, K)
            arena.ask("limbs", int64, weighting.sum_digits + 1, many)
            arena.ask("negative", int32, many)
            arena.ask("lowest", int32, many)
        # The last ones: those beyond K are written once, and all others before they are read.
        arena.ask("short", data.points.dtype, padded, data.width)
        arena.ask("norms", float32, padded)
        return arena

    @property
    def n_bytes(self) -> int:
        """What the tensors take."""
        return self._arena.n_bytes

    def cleared(self) -> tuple[torch.Tensor, int]:
        """Return what becomes zeros when all sums are forgotten: so many words of a tensor."""
        return self._arena.before("short")

    def _put_far(self) -> None:
        """Put what is there beyond the last center farther away than all points."""
        self.norms[self.n_clusters :] = FAR.value
        if self.data.direct:
            self.short[self.n_clusters :] = _FAR_AWAY

    def begin(
        self, centers: Centers | torch.Tensor, limits: Limits, shift: float, empty: int
    ) -> None:
        """Put the first point in its place; sums stay what they are."""
        if isinstance(centers, torch.Tensor):
            self.centers[0].copy_(centers)
            self._run_control.begin(self._control, limits, shift, empty)
        else:
            control = self._run_control.words(limits, shift, empty)
            self._arena.put({"_control": control, "centers0": centers})

    def end_by(self, limits: Limits, after: int) -> None:
        """Let the next steps end by these limits; the first `after` of them do not count."""
        self._run_control.end_by(self._control, limits, after)

    def place(self, number: int) -> list[torch.Tensor]:
        """Return centers, residuals and weights of one of the two buffers."""
        return [self.centers[number], self.residuals[number], self.weights[number]]

    def send(self, *, both: bool) -> Callable[[], Results]:
        """Send the records, the total, and the arrays of the second buffer or of both.

        What is returned waits for them; all of it is lent (transfers.Download).
        """
        numbers = (0, 1) if both else (1,)
        names = [f"{name}{number}" for number in numbers for name in _OF_A_PLACE]
        wait = self._arena.send([*names, "records", "total"])

        def received() -> Results:
            *arrays, records, total = wait()
            places = {number: arrays[3 * i : 3 * i + 3] for i, number in enumerate(numbers)}
            return records, total, places

        return received

    def partial(
        self, grids: Grids, gap_low: int, gap_terms: Callable[[], NDArray[np.float64]]
    ) -> Partial:
        """Return what rows that were added up did: sums as others have theirs, and no means.

        The gap is summed from its terms where the device's limbs had no room for one; or it is
        negative, as forced labels may be. It begins anew.
        """
        weighting, K, d = self.weighting, self.n_clusters, self.data.d
        if weighting is None:
            totals, totals_low, sums_low = self.arrivals[None], 0, self.data.unit
        else:
            totals, totals_low = self.totals, weighting.unit
            sums_low = weighting.sum_unit
        state, gap, weights, sums = to_host(self.state, self.gap, totals.sum(1), self.sums.sum(1))
        self.moments.zero_()
        inexact = bool(state[INEXACT.value])
        if inexact:
            self.state[INEXACT.value] = 0
        return Partial(
            int(state[MOVED.value]),
            Limbs.of_terms(gap_terms()) if inexact else scalar_limbs(gap[:LIMBS], gap_low),
            # The highest digit is the first one.
            on_grid(grids.totals, weights[::-1].reshape(-1, K, 1), totals_low),
            on_grid(grids.sums, sums[::-1].reshape(-1, K, d), sums_low),
        )

    def near_ties(
        self, slacks: torch.Tensor, centers: Centers, slack: float
    ) -> NDArray[np.int64] | None:
        """Return the rows that bounds cannot tell from a tie; None for bounds of other centers.

        slacks is (n,), how much nearer than any other center the own one is, at least.
        """
        if not np.array_equal(to_host(self.before)[0], centers):
            return None
        # Bounds are in scaled distances; with a margin for what they were rounded by.
        room = 2.0 * slack * self.data.scale * 2.0 + self.data.margin
        return to_host(torch.nonzero(slacks <= room).flatten())[0]

    @property
    def are_numbered(self) -> bool:
        """Whether scores tell which center they belong to, and not only which tile."""
        return self.n_clusters <= _MOST_NUMBERED

    def tile_bits(self) -> int:
        """Return how many bits of a score tell which center, or which part of them, it is of."""
        tile = self.data.tile(self.n_clusters)
        numbers = -(-self.n_clusters // tile.columns) * tile.columns
        return (numbers // (1 if self.are_numbered else tile.kept * tile.group) - 1).bit_length()

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
        """Launch kernels that bring the centers in one of the two buffers into short arithmetic."""
        data, d = self.data, self.data.d
        launch(
            bound_kernels.prepare_centers, self.n_clusters,
            self.state, self.centers[source], self.before, data.mu, self.short, self.norms,
            self.error_bounds, self.shifts, self.reach[source], d, data.width, data.scale,
            data.radius, data.rho, data.products_error, self._score_error(),
            BLOCK=min(1024, triton.next_power_of_2(d)), DIRECT=data.direct, num_warps=1, **UNFUSED,
        )  # fmt: skip
        self._find_neighbors(source)

    def _find_neighbors(self, source: int) -> None:
        if self.have_neighbors:
            launch(
                one_pass_kernels.find_neighbors, self.n_clusters,
                self.state, self.short, self.shifts, self.reach[source], self.apart, self.wide,
                self.near, self.n_clusters, WIDTH=self.data.width, BLOCK=128, num_warps=4,
                **UNFUSED,
            )  # fmt: skip

    def settle(self, source: int, lows: Lows) -> None:
        """Launch kernels for the end of a step: means, its record, whether to go on."""
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
        # One after the other, programs take the longer the more there are.
        many = 1 if INTERPRETED else _MANY_PROGRAMS
        while clusters * columns < _SLOTS and 2 * clusters * many <= K:
            clusters *= 2
        launch(
            mean_kernels.find_means, triton.cdiv(K, clusters),
            self.state, self.sums, self.arrivals, self.folded, self.centers[source], self.before,
            self.centers[1 - source], self.residuals[1 - source], self.weights[1 - source], data.mu,
            self.short, self.norms, self.error_bounds, self.shifts, self.reach[source],
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
