"""The data point that as one more center lowers the SSE most, among candidates, on the device.

Specification: `core.empty_clusters.best_candidate`.

All kernels are launched without waiting for results: the host is slower than most of them. Where a
kernel gives up, its work is done again in another way: candidates by the order of all rows, points
that may gain in one list for each trial.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from wolfmeans.engines.gpu.kernels import candidates as candidate_kernels
from wolfmeans.engines.gpu.kernels import gains as gains_kernels
from wolfmeans.engines.gpu.kernels.candidates import (
    FOUND,
    GIVEN_UP,
    INEXACT,
    MOST_FAR,
    MOST_FAR_GROUPS,
    MOST_GROUPS,
    PAIRS,
)
from wolfmeans.engines.gpu.kernels.exact import LIMBS
from wolfmeans.engines.gpu.launching import FUSED, UNFUSED, launch
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.seeding import Listing
from wolfmeans.engines.gpu.transfers import to_device, to_host
from wolfmeans.exact.ordering import lexicographic_order

_PROGRAMS = 256
_LEAST_GROUP = 16
_COPIES = 8
_PAIRS_OF_A_ROW, _ALL_PAIRS = 16, 1 << 27
"""Room for so many pairs."""
_MOST_TRIALS = 1 << (gains_kernels.TRIAL_BITS - 1)

Tried = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Rows that were tried, and what each of them gains."""


class CurrentCosts(NamedTuple):
    """The points and their current costs, that is what there is to gain."""

    data: Screened
    distances: torch.Tensor
    """(n,) float64, to the nearest center."""
    masses: torch.Tensor | None
    """(n,) float64, what counts of each point."""
    low: int
    """No gain has a bit below 2**low, or its sum has no room."""


def best_candidate(
    current: CurrentCosts, order: Callable[[], torch.Tensor], most: int
) -> tuple[int, float] | None:
    """Return the row and the decrease; None where a sum has no room.

    Parameters
    ----------
    current : CurrentCosts
    order : callable
        Returns the (n,) int64 rows in lexicographic order.
    most : int
        How many candidates are tried when there are more.
    """
    rows = None
    if 2 <= most <= min(current.data.n, _MOST_TRIALS):
        trying = _Trying(current, most)
        trying.launch()
        found, tried = trying.result()
        if not found[GIVEN_UP.value]:
            if found[INEXACT.value]:
                return None
            if tried is not None:
                return _best(current.data, *tried)
            rows = trying.rows
    if rows is None:
        rows = _candidates(current, order(), most)
    if len(rows) == 0:
        return -1, 0.0
    gains = _gains_by_lists(current, rows)
    return None if gains is None else _best(current.data, to_host(rows)[0], gains)


def _best(data: Screened, rows: NDArray[np.int64], gains: NDArray[np.float64]) -> tuple[int, float]:
    """Return the row that gains most, the first of such in the order of values."""
    most = gains.max()
    if not most > 0.0:
        return -1, 0.0
    best = np.unique(rows[gains == most])
    if len(best) > 1:
        values = to_host(data.X[to_device(best, data.X)])[0]
        best = best[lexicographic_order(values)]
    return int(best[0]), float(most)


class _Trying:
    """The tensors of one search, and its launches."""

    def __init__(self, current: CurrentCosts, most: int) -> None:
        data, device = current.data, current.distances.device
        self._current_costs, self._most, self._half = current, most, most // 2
        self._trials = trials = 2 * self._half
        self._columns = 64 if data.width <= 128 else 256
        self._padded = padded = -(-trials // self._columns) * self._columns
        self._group = max(_LEAST_GROUP, triton.next_power_of_2(triton.cdiv(data.n, MOST_GROUPS)))
        self._groups = triton.cdiv(data.n, self._group)
        self._capacity = min(_PAIRS_OF_A_ROW * data.n, _ALL_PAIRS)
        # One piece of memory, the part that is zero and goes to the host first.
        sums = 0 if data.direct else _COPIES * trials * LIMBS
        sizes = FOUND, trials, trials, sums
        self._zeros = torch.zeros(sum(sizes), dtype=torch.int64, device=device)
        self._found, self.rows, gains, self._sums = self._zeros.split(sizes)
        self._gains = gains.view(torch.float64)
        self._answers = self._zeros[: FOUND + 2 * trials]

        def empty(size: int, dtype: torch.dtype) -> torch.Tensor:
            return torch.empty(size, dtype=dtype, device=device)

        self._keys = empty(data.n, data.X.dtype)
        sizes = MOST_GROUPS, MOST_FAR_GROUPS, MOST_FAR, MOST_FAR
        self._highest, self._far_groups, self._far_rows, self._far = empty(
            sum(sizes), torch.int64
        ).split(sizes)
        if not data.direct:
            self._words = empty(data.n * padded // 32, torch.int32)
            self._pairs = empty(self._capacity, torch.int64)
            self._short = empty(padded * data.width, data.points.dtype)
            self._norms, self._error_bounds = empty(2 * padded, torch.float32).split(padded)

    def launch(self) -> None:
        """Launch all of it."""
        self._choose()
        if not self._current_costs.data.direct:
            self._add_up()

    def _choose(self) -> None:
        """Launch kernels that choose the rows that are tried."""
        data, distances, masses, _ = self._current_costs
        launch(
            candidate_kernels.survey, self._groups,
            data.X, distances, masses, self._keys, self._highest, self._found, data.n, data.d,
            self._group, BLOCK=128, num_warps=4, **UNFUSED,
        )  # fmt: skip
        keys, order = torch.sort(self._keys, stable=True)
        launch(
            candidate_kernels.choose, self._half + 1,
            data.X, distances, self._keys, keys, order, self._highest, self._far_groups,
            self._far_rows, self._far, self.rows, self._found, data.n, data.d, self._groups,
            self._group, self._most, HALF=self._half, num_warps=16, **UNFUSED,
        )  # fmt: skip

    def _add_up(self) -> None:
        """Launch kernels that find the gain of each of them."""
        data, distances, masses, low = self._current_costs
        launch(
            gains_kernels.shorten_trials, self._padded,
            self._found, data.X, data.mu, self.rows, data.points, data.errors, data.rho,
            self._short, self._norms, self._error_bounds, self._trials, data.d, data.scale,
            data.radius, data.products_error, 2.0**-22, WIDTH=data.width,
            BLOCK=min(1024, triton.next_power_of_2(data.width)), num_warps=1, **UNFUSED,
        )  # fmt: skip
        deep = data.width > 128
        launch(
            gains_kernels.mark_pairs, triton.cdiv(data.n, 128),
            self._found, data.points, data.sizes, distances, self._short, self._norms,
            self._error_bounds, data.noise, self._words, data.n, data.scale, WIDTH=data.width,
            DEPTH=64 if deep else data.width, ROWS=128, COLUMNS=self._columns, PADDED=self._padded,
            num_warps=8 if deep else 4, num_stages=3, **FUSED,
        )  # fmt: skip
        size = len(self._words)
        # A thread for each word: more would exchange what they hold before every store.
        launch(
            gains_kernels.list_pairs, triton.cdiv(size, 512),
            self._found, self._words, self._pairs, size, self._capacity, WORDS=self._padded // 32,
            BLOCK=512, num_warps=16, **UNFUSED,
        )  # fmt: skip
        launch(
            gains_kernels.sum_pairs, min(16 * _PROGRAMS, triton.cdiv(self._capacity, 1024)),
            self._found, data.X, distances, masses, self.rows, self._pairs, self._sums, low,
            data.d, self._capacity, self._trials, COPIES=_COPIES, BLOCK=64, num_warps=2,
            **UNFUSED,
        )  # fmt: skip
        launch(
            gains_kernels.round_copies, self._trials,
            self._found, self._sums, low, self._gains, self._trials, COPIES=_COPIES, num_warps=1,
            **UNFUSED,
        )  # fmt: skip

    def result(self) -> tuple[list[int], Tried | None]:
        """Wait; return what became of it, and what was tried unless pairs had no room."""
        (answers,) = to_host(self._answers)
        found = answers[:FOUND].tolist()
        if self._current_costs.data.direct or found[PAIRS.value] > self._capacity:
            return found, None
        rows, gains = answers[FOUND:].reshape(2, -1)
        return found, (rows, gains.view(np.float64))


def _gains_by_lists(current: CurrentCosts, rows: torch.Tensor) -> NDArray[np.float64] | None:
    """Return what each of the rows gains; None where a sum has no room."""
    data, distances, masses, low = current
    listing = Listing(data, distances, rows)
    listing.launch()
    sums = torch.zeros((len(rows), LIMBS), dtype=torch.int64, device=rows.device)
    inexact = torch.zeros(1, dtype=torch.int32, device=rows.device)
    programs = min(_PROGRAMS, triton.cdiv(data.n, 64))
    launch(
        gains_kernels.sum_gains, (programs, len(rows)),
        data.X, distances, masses, rows, listing.counters, listing.lists, sums, low, inexact,
        data.n, data.d, listing.capacity, BLOCK=64, num_warps=2, **UNFUSED,
    )  # fmt: skip
    out = torch.empty(len(rows), dtype=torch.float64, device=rows.device)
    launch(gains_kernels.round_sums, len(rows), sums, low, out, num_warps=1, **UNFUSED)
    gains, lost = to_host(out, inexact)
    return None if lost[0] else gains


def _candidates(current: CurrentCosts, order: torch.Tensor, most: int) -> torch.Tensor:
    """Return rows of positive mass off all centers, in order: all, or some far and some spread."""
    distances, masses = current.distances, current.masses
    eligible = distances > 0
    if masses is not None:
        eligible &= masses > 0
    rows = order[eligible[order]]
    if len(rows) <= most:
        return rows
    far = torch.sort(-distances[rows], stable=True).indices[: most // 2]
    spread = np.linspace(0, len(rows) - 1, most // 2).astype(np.int64)
    chosen = np.unique(np.concatenate([to_host(far)[0], spread]))
    return rows[to_device(chosen, rows)]
