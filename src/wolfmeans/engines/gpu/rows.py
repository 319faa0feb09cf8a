"""Rows on the device between steps: their labels, their bounds, and lists of undecided rows."""

from __future__ import annotations

import math

import torch
import triton

from wolfmeans.engines.gpu.clusters import Clusters
from wolfmeans.engines.gpu.kernels import bounds as bound_kernels
from wolfmeans.engines.gpu.kernels import bulk_sums as bulk_sums_kernels
from wolfmeans.engines.gpu.kernels import few_sums as few_sums_kernels
from wolfmeans.engines.gpu.kernels import moments as moment_kernels
from wolfmeans.engines.gpu.kernels import one_pass as one_pass_kernels
from wolfmeans.engines.gpu.kernels import own_costs as own_costs_kernels
from wolfmeans.engines.gpu.kernels import recheck as recheck_kernels
from wolfmeans.engines.gpu.kernels import screen as screen_kernels
from wolfmeans.engines.gpu.kernels import weighted as weighted_kernels
from wolfmeans.engines.gpu.kernels.exact import LIMBS
from wolfmeans.engines.gpu.launching import FUSED, PROGRAMS, UNFUSED, launch
from wolfmeans.engines.gpu.screening import Screened

_MOST_BITS = 10
FEW_CLUSTERS = 128
"""Up to so many, a program has room for a sum of each."""
_MOST_SHORT_COLUMNS = 1 << 18
_LONG = 256
_ROWS_AT_ONCE, _WARPS = 512, 4
"""Of few columns."""
_SELECTED_AT_ONCE = 512
_MANY_NUMBERS, _MANY_OF_A_CLUSTER = 3 << 20, 20
"""From so many on, it is cheaper to sort moved rows than to have an atomic for each number."""
_FAR_EXPONENT = 900
_MOST_SORTED = 1 << 30
_TERMS_AT_ONCE = 2048
"""So many terms share the atomics that add them to a sum."""
_MOST_BLOCKS = 65535
"""So many programs can be in the second dimension of a grid."""


class Rows:
    """The tensors of some rows, and the kernels that bring them and their clusters up to date.

    Parameters
    ----------
    data : Screened
        The rows.
    masses : (n,) float64 tensor or None
        What they weigh, None for ones.
    """

    def __init__(self, data: Screened, masses: torch.Tensor | None) -> None:
        n, device = data.n, data.X.device
        self.data, self.masses = data, masses
        self.labels = torch.empty(n, dtype=torch.int32, device=device)
        self.slack = torch.empty(n, dtype=torch.float32, device=device)
        self.counts = torch.empty(n, dtype=torch.int32, device=device)
        self.clear()
        # Lists: what is in them is written before it is read.
        lists = torch.empty((6, -(-n // 4) * 4), dtype=torch.int32, device=device)
        self.active, self.open_rows, self.crowded, self.hard_rows = lists[:4]
        self.moved_rows, self.moved_from = lists[4:]
        self.thresholds = torch.empty(n, dtype=torch.float32, device=device)
        slots = screen_kernels.SLOTS.value
        self.candidates = torch.empty((n, slots), dtype=torch.int32, device=device)

    def clear(self) -> None:
        """Forget all labels and bounds."""
        self.labels.fill_(-1)
        self.slack.fill_(-math.inf)
        self.counts.zero_()

    @property
    def n_bytes(self) -> int:
        """What the tensors take."""
        tensors = (v for v in vars(self).values() if isinstance(v, torch.Tensor))
        return sum(tensor.nbytes for tensor in tensors if tensor is not self.masses)

    def is_aligned(self) -> bool:
        """Whether all tensors begin where vectors may be loaded."""
        given = (self.labels, self.slack) if self.masses is None else (self.labels, self.masses)
        return all(tensor.data_ptr() % 16 == 0 for tensor in given)

    def _programs(self, block: int) -> int:
        """Return how many programs go through a list that may be short, so many rows at a time."""
        return min(PROGRAMS, triton.cdiv(self.data.n, block))

    def find_labels(self, clusters: Clusters, source: int) -> None:
        """Launch kernels that give each row the label of its nearest center, and list moved rows.

        `source` says which of the two buffers holds the centers, which are prepared.
        """
        data, n, d, K = self.data, self.data.n, self.data.d, clusters.n_clusters
        centers, state = clusters.centers[source], clusters.state
        self._select(clusters, source)
        if data.direct:
            self._assign(clusters, source, None)
            return
        tile, bits = data.tile(K), clusters.tile_bits()
        # Scores with many bits of parts in them are too coarse for a bound on the others.
        pairs = bits <= _MOST_BITS and tile.columns < K and tile.group == 1
        crowded = self.crowded if pairs else None
        launch(
            screen_kernels.screen, triton.cdiv(n, tile.rows),
            state, clusters.lengths, data.points, data.sizes, clusters.short, clusters.norms,
            clusters.error_bounds, self.active, self.labels, self.slack, self.open_rows,
            self.thresholds, crowded, self.candidates, self.counts, self.moved_rows,
            self.moved_from, data.noise, K,
            WIDTH=data.width, ROWS=tile.rows, COLUMNS=tile.columns, DEPTH=tile.depth, BITS=bits,
            PAIRS=pairs, KEPT=tile.kept, GROUP=tile.group, NUMBERED=clusters.are_numbered,
            num_warps=tile.warps, num_stages=tile.stages, **FUSED,
        )  # fmt: skip
        # Crowded rows are few: several programs share the centers of each.
        shares = min(16, triton.cdiv(K, 64))
        launch(
            screen_kernels.list_candidates, (self._programs(128) // shares + 1, shares),
            state, data.points, clusters.short, clusters.norms, self.open_rows, self.thresholds,
            crowded, self.candidates, self.counts, K, WIDTH=data.width, ROWS=128,
            COLUMNS=64, DEPTH=tile.depth, num_warps=4, **FUSED,
        )  # fmt: skip
        # The list of crowded rows is of no use any more, if there was one.
        close = self.crowded if _is_short(data.X) else None
        if close is not None:
            launch(
                recheck_kernels.decide_in_singles, self._programs(16),
                state, data.X, centers, self.open_rows, self.thresholds, self.candidates,
                self.counts, data.sizes, self.labels, self.slack, self.moved_rows, self.moved_from,
                close, d, data.scale, BLOCK=16, WIDTH=min(32, data.width), num_warps=4, **UNFUSED,
            )  # fmt: skip
        launch(
            recheck_kernels.resolve, self._programs(32),
            state, data.X, centers, self.open_rows, self.thresholds, self.candidates, self.counts,
            data.sizes, self.labels, self.slack, self.moved_rows, self.moved_from, self.hard_rows,
            close, d, data.scale, BLOCK=32, num_warps=4, **UNFUSED,
        )  # fmt: skip
        launch(
            recheck_kernels.resolve_hard, min(n, 1024),
            state, data.X, centers, self.hard_rows, self.labels, self.slack, self.moved_rows,
            self.moved_from, d, K, BLOCK=min(128, triton.next_power_of_2(K)), num_warps=4,
            **UNFUSED,
        )  # fmt: skip

    def _select(self, clusters: Clusters, source: int) -> None:
        """Launch kernels that list the rows whose label the bounds leave open."""
        data, n = self.data, self.data.n
        if clusters.have_neighbors:
            launch(
                one_pass_kernels.select_near, triton.cdiv(n, _SELECTED_AT_ONCE),
                clusters.state, self.labels, self.slack, clusters.shifts, clusters.reach[source],
                self.active, data.points, None if data.exact else data.errors, clusters.short,
                clusters.apart, clusters.wide, clusters.near, n, data.margin, WIDTH=data.width,
                BLOCK=_SELECTED_AT_ONCE, **UNFUSED,
            )  # fmt: skip
            return
        launch(
            bound_kernels.select_active, triton.cdiv(n, 1024),
            clusters.state, self.labels, self.slack, clusters.shifts, clusters.reach[source],
            self.active, n, data.margin, BLOCK=1024, **UNFUSED,
        )  # fmt: skip

    def _assign(self, clusters: Clusters, source: int, gap_low: int | None) -> None:
        """Launch kernels that give the listed rows their labels, few columns only.

        Where the lowest exponent of the gap is given, it adds up gap and sums, too.
        """
        data, d, K = self.data, self.data.d, clusters.n_clusters
        adding = gap_low is not None
        launch(
            one_pass_kernels.assign_rows, triton.cdiv(data.n, _ROWS_AT_ONCE),
            clusters.state, data.X, data.points, None if data.exact else data.errors,
            clusters.short, clusters.centers[source], clusters.reach[source], self.active,
            self.labels, self.slack, self.open_rows, self.crowded, self.thresholds, self.moved_rows,
            self.moved_from, clusters.sums if adding else None,
            clusters.arrivals if adding else None, clusters.gap if adding else None, data.n, K,
            K * d, data.high, gap_low or 0, data.scale, WIDTH=d, ROWS=_ROWS_AT_ONCE,
            CHUNK=32 * _WARPS, DIGITS=data.digits, REPLICAS=clusters.replicas, num_warps=_WARPS,
            **UNFUSED,
        )  # fmt: skip

    @property
    def in_one_pass(self) -> bool:
        """Whether rows are assigned and added up at once."""
        return self.data.direct and self.masses is None

    def assign_and_add(self, clusters: Clusters, source: int, gap_low: int) -> None:
        """Do the work of `find_labels`, `sum_gap` and `move` in one pass over the active rows."""
        self._select(clusters, source)
        self._assign(clusters, source, gap_low)

    def sum_gap(self, clusters: Clusters, source: int, low: int) -> None:
        """Launch the kernel that adds up the gains of the moved rows."""
        # Long rows take many rounds: fewer of them in smaller programs.
        block, most = (64, 16) if self.data.d <= _LONG else (32, 32)
        launch(
            own_costs_kernels.sum_gap, self._programs(block),
            clusters.state, self.data.X, self.masses, clusters.centers[source], self.labels,
            self.moved_rows, self.moved_from, clusters.gap, low, self.data.d, BLOCK=block,
            **columns_at_once(self.data.d, most), num_warps=block // 32, **UNFUSED,
        )  # fmt: skip

    def sum_costs(self, clusters: Clusters, source: int, low: int) -> None:
        """Launch kernels that find the cost of all rows, at the labels that they have."""
        sums, inexact = clusters.cost[:LIMBS], clusters.cost[LIMBS:].view(torch.int32)[:1]
        # Between steps the lists of candidates are free.
        found = self.candidates.view(torch.float64)
        find_costs(self.data.X, clusters.centers[source], self.labels, found)
        add_costs(found, self.data.n, self.masses, sums, low, inexact)
        launch(
            moment_kernels.round_sum, 1, sums, low, inexact, clusters.total, num_warps=1, **UNFUSED
        )

    def move(self, clusters: Clusters) -> None:
        """Launch kernels that move rows from the sums of their old clusters to the new ones'."""
        if self.masses is not None:
            self.move_masses(clusters, self.labels, self.masses, None)
            return
        data, d, K = self.data, self.data.d, clusters.n_clusters
        height, width = (128, 16) if K <= 64 else (256, 16)
        if K <= FEW_CLUSTERS and triton.cdiv(d, width) <= _MOST_BLOCKS:
            programs = min(few_sums_kernels.AT_ONCE, triton.cdiv(data.n, height))
            launch(
                few_sums_kernels.move_rows_of_few,
                (programs, triton.cdiv(d, width), triton.cdiv(data.digits, 2)),
                clusters.state, data.X, self.labels, self.moved_rows, self.moved_from,
                clusters.sums, clusters.arrivals, d, K * d, data.high, DIGITS=data.digits,
                REPLICAS=clusters.replicas, CLUSTERS=64 if K <= 64 else 128, ROWS=height,
                COLUMNS=width, num_warps=4 if K <= 64 else 8, **UNFUSED,
            )  # fmt: skip
            return
        # Not worth it for few numbers or short runs; nor, in every step, for the first one alone.
        many = max(_MANY_NUMBERS // d, _MANY_OF_A_CLUSTER * K)
        if 3 * many <= data.n and self._can_sort(K):
            self._move_many(clusters, many)
            return
        height, width = self._tile(1024)
        launch(
            moment_kernels.move_rows, self._programs(height),
            clusters.state, data.X, self.labels, self.moved_rows, self.moved_from, clusters.sums,
            clusters.arrivals, d, K * d, data.high, DIGITS=data.digits, REPLICAS=clusters.replicas,
            ROWS=height, COLUMNS=width, num_warps=4, **UNFUSED,
        )  # fmt: skip

    def _can_sort(self, K: int) -> bool:
        """Whether the lists have room for runs, and units of digits are far from the extremes."""
        data = self.data
        room = 8 * K <= data.n < _MOST_SORTED and triton.cdiv(data.d, 64) <= _MOST_BLOCKS
        return room and abs(data.high) + 32 * data.digits <= _FAR_EXPONENT

    def _move_many(self, clusters: Clusters, many: int) -> None:
        """Launch kernels that sort the moved rows by clusters first, where there are so many.

        The lists of this step are of no use any more: runs are written there.
        """
        data, d, K = self.data, self.data.d, clusters.n_clusters
        ranks, starts = self.candidates, self.hard_rows
        sorted_rows = self.active  # and the next list
        runs, begins = self.crowded, self.crowded[data.n // 2 // 4 * 4 :]
        shares = bulk_sums_kernels.most_shares(K)
        while data.n < 8 * K * shares:
            shares //= 2
        height, width = self._tile(1024)
        # What was fastest on an H200.
        block, run = 256, 64 if width > 32 else 128
        launch(
            bulk_sums_kernels.move_or_count, self._programs(min(height, block)),
            clusters.state, data.X, self.labels, self.moved_rows, self.moved_from, clusters.sums,
            clusters.arrivals, clusters.tally, ranks, starts, d, K * d, data.high, K, many, data.n,
            DIGITS=data.digits, REPLICAS=clusters.replicas, ROWS=height, COLUMNS=width,
            BLOCK=block, RUN=run, SHARES=shares, num_warps=4, **UNFUSED,
        )  # fmt: skip
        launch(
            bulk_sums_kernels.sort_rows, self._programs(block),
            clusters.state, self.labels, self.moved_rows, self.moved_from, ranks, starts,
            sorted_rows, runs, begins, K, many, data.n, BLOCK=block, RUN=run, SHARES=shares,
            num_warps=4, **UNFUSED,
        )  # fmt: skip
        columns = min(64, width)
        blocks = triton.cdiv(d, columns)
        pieces = triton.cdiv(2 * data.n, run) + 2 * K * shares
        launch(
            bulk_sums_kernels.add_runs, (min(triton.cdiv(PROGRAMS, blocks), pieces), blocks),
            clusters.state, data.X, clusters.tally, sorted_rows, runs, begins, clusters.sums, d,
            K * d, data.high, K, many, DIGITS=data.digits, REPLICAS=clusters.replicas, RUN=run,
            COLUMNS=columns, SHARES=shares, num_warps=1 if width > 32 else 2, **UNFUSED,
        )  # fmt: skip

    def move_masses(
        self,
        clusters: Clusters,
        labels: torch.Tensor,
        before: torch.Tensor,
        after: torch.Tensor | None,
    ) -> None:
        """Launch kernels that bring sums of masses up to date with the list of moved rows.

        Their masses in the old clusters are given, and those in the new ones where they differ.
        """
        data, d, K = self.data, self.data.d, clusters.n_clusters
        weighting = clusters.weighting
        assert weighting is not None
        # Products need more registers than numbers do.
        height, width = self._tile(512 if after is None else 256)
        launch(
            weighted_kernels.move_masses, self._programs(height),
            clusters.state, data.X, labels, self.moved_rows, self.moved_from, before, after,
            clusters.sums, clusters.totals, d, K * d, K, data.high, weighting.high,
            weighting.high - weighting.unit - 32 * (weighting.digits - 1),
            DIGITS=weighting.sum_digits, MASS_DIGITS=weighting.digits, REPLICAS=clusters.replicas,
            ROWS=height, COLUMNS=width, num_warps=4, **UNFUSED,
        )  # fmt: skip

    def _tile(self, entries: int) -> tuple[int, int]:
        width = min(128, triton.next_power_of_2(self.data.d))
        return max(4, entries // width), width


def _is_short(X: torch.Tensor) -> bool:
    """Whether squares in float32 decide most distances: the error of a sum grows with d."""
    return X.dtype == torch.float32 and X.shape[1] <= _MOST_SHORT_COLUMNS


def columns_at_once(d: int, most: int) -> dict[str, int | bool]:
    """Return the named arguments of kernels that go through rows, up to so many columns at once."""
    width = min(most, max(4, 1 << (d.bit_length() - 1)))
    return {"WIDTH": width, "EVEN": d % width == 0}


def find_costs(
    X: torch.Tensor, centers: torch.Tensor, labels: torch.Tensor | None, out: torch.Tensor
) -> None:
    """Launch the kernel that writes the (n,) canonical distances to the centers of the labels.

    Without labels it is the first center.
    """
    n, d = X.shape
    launch(
        own_costs_kernels.find_costs, triton.cdiv(n, 64),
        X, centers, labels, out, n, d, BLOCK=64, **columns_at_once(d, 32 if d > 32 else 16),
        num_warps=2, **UNFUSED,
    )  # fmt: skip


def add_costs(
    costs: torch.Tensor,
    n: int,
    masses: torch.Tensor | None,
    sums: torch.Tensor,
    low: int,
    inexact: torch.Tensor,
) -> None:
    """Launch the kernel that adds n costs, times masses, to an exact sum."""
    launch(
        own_costs_kernels.add_costs, triton.cdiv(n, _TERMS_AT_ONCE),
        costs, masses, sums, low, inexact, n, BLOCK=_TERMS_AT_ONCE, num_warps=4, **UNFUSED,
    )  # fmt: skip
