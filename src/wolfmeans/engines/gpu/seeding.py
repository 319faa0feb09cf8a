"""k-means++ on the device, with the rows that the specification picks (`seeding.methods`).

A round is a fixed sequence of kernels that need no answer from the host: it draws the trials from
the integer masses along the order of the rows, finds the exact potential that each of them would
leave, chooses, and updates the distances. On a real device one round is captured and replayed.

A trial changes the mass of few points, once some rows are chosen: about n / k of them after k.
These are listed first, by canonical distances where there are few columns, else by a screen in
short arithmetic (`screening`). Then canonical distances are computed, and the potential is changed,
for the listed points alone. If a list has no room for all of them, the round computes all points.

The screen must list a point x for a trial r unless their canonical distance is certainly not below
the one of x to its nearest chosen row, which is C / s^2. Let a, b be x and r, shifted and scaled by
s, and a', b' what float16 made of them, off by rho and gamma. Then a.b and a'.b' differ by no more
than |a'| gamma + rho |b|, the tensor cores add (width + 16) 2**-23 |a'||b'|, and

    |a - b|^2 >= |a|^2 + |b|^2 - 2 a'.b' - error_bound,
    error_bound = 2 (|a'| gamma + rho |b|) + products_error |a'||b'|.

All is float32 here. The squared norms are too large by 2**-19 of themselves at most, the error
bound is no larger than 4 (|a|^2 + |b|^2), and rounding takes 2**-22 of every operation's size;
together less than 2**-17 (|a|^2 + |b|^2 + C). A canonical distance is rounded by (d + 3) 2**-53 of
itself, which is nothing beside that, unless it is below all normal numbers: 2**-20 more covers
that.
"""

from __future__ import annotations

import math

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from wolfmeans.engines.gpu.kernels import moments as moment_kernels
from wolfmeans.engines.gpu.kernels import seeding as seeding_kernels
from wolfmeans.engines.gpu.kernels import trials as trial_kernels
from wolfmeans.engines.gpu.kernels.exact import LIMBS
from wolfmeans.engines.gpu.kernels.seeding import APART, CHOSEN, INEXACT
from wolfmeans.engines.gpu.launching import FUSED, INTERPRETED, UNFUSED, Graph, Tape, do, launch
from wolfmeans.engines.gpu.rows import find_costs
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.transfers import to_device

_DRAWS = 2**63 - 1
_PLACES = 1024
"""Places whose masses are summed together."""
_TRIALS = 16
"""Trials that a program works on at once."""
_LARGEST_SUM = 1020
"""Potentials from 2 to this on are left to the specification: they may be no float64 numbers."""
_FEW_ROUNDS = 4
"""A graph is worth its price beyond these."""
_LARGEST_SCALE = 2.0**100
"""Beyond this, up or down, numbers of float32 are no good."""
_SHARE = 8
"""A list has room for one point of so many."""
_LEAST_ROOM, _ALL_ROOM = 1 << 13, 1 << 28
_PROGRAMS = 256
"""Programs for the list of each trial."""


def spread_rows(
    data: Screened,
    order: torch.Tensor,
    weights: torch.Tensor | None,
    drawn: NDArray[np.int64],
    n_trials: int,
) -> NDArray[np.int64] | None:
    """Return the rows that k-means++ picks; None where its sums have no room on the device.

    Parameters
    ----------
    data : Screened
    order : (n,) int64 tensor
        The rows in lexicographic order.
    weights : (n,) float64 tensor or None
        Not negative, not all 0.
    drawn : (1 + (K - 1) n_trials,) integers of 0..2**63 - 2
    n_trials : int
        Candidates for each row but the first.
    """
    heaviest = 1.0 if weights is None else float(weights.max())
    spread = math.frexp(data.largest)[1] + 1
    top = 2 * spread + data.d.bit_length() + math.frexp(heaviest)[1]
    if top + data.n.bit_length() > _LARGEST_SUM:
        return None
    return _Spreading(data, order, weights, drawn, n_trials, top).run()


def _room(n: int, n_lists: int) -> int:
    """Return how many points each of some lists can hold."""
    return min(n, max(_LEAST_ROOM, min(n // _SHARE, _ALL_ROOM // n_lists)))


class Listing:
    """Lists of the points that may be nearer to a data point than to the nearest center so far.

    Parameters
    ----------
    data : Screened
    closest : (n,) float64 tensor
        Distances to the nearest center, or chosen row.
    trials : int64 tensor
        The rows whose lists are made, at least `n_trials`.
    n_trials : int or None, default=None
        How many of them; None for all.
    """

    def __init__(
        self,
        data: Screened,
        closest: torch.Tensor,
        trials: torch.Tensor,
        n_trials: int | None = None,
    ) -> None:
        self.data, self.closest, self.trials = data, closest, trials
        self.n_trials = len(trials) if n_trials is None else n_trials
        self.capacity = _room(data.n, len(trials))
        usual = 1.0 / _LARGEST_SCALE <= data.scale <= _LARGEST_SCALE
        self._by_screen = usual and not data.direct
        device = closest.device
        self.counters = torch.zeros((len(trials), APART.value), dtype=torch.int32, device=device)
        """Lengths of the lists, in the first column; beyond the capacity if there is no room."""
        self.lists = torch.empty((len(trials), self.capacity), dtype=torch.int32, device=device)

    def launch(self, state: torch.Tensor | None = None) -> None:
        """Launch kernels that make the lists, unless the state says that all is done."""
        data, n, n_trials = self.data, self.data.n, self.n_trials
        if state is None:
            state = torch.zeros(4, dtype=torch.int32, device=self.closest.device)
        if self._by_screen:
            launch(
                trial_kernels.list_possible,
                (triton.cdiv(n, 128), triton.cdiv(n_trials, _TRIALS)),
                state, data.points, data.sizes, data.errors, self.closest, self.trials,
                self.counters, self.lists, n, self.capacity, n_trials, data.scale,
                data.products_error, data.noise, WIDTH=data.width,
                DEPTH=data.width if data.width <= 128 else 64, BLOCK=128, TRIALS=_TRIALS,
                num_warps=4, **FUSED,
            )  # fmt: skip
        else:
            wide = min(_TRIALS, triton.next_power_of_2(n_trials))
            block = min(512, 1024 // wide)
            launch(
                trial_kernels.list_nearer, (triton.cdiv(n, block), triton.cdiv(n_trials, wide)),
                state, data.X, self.closest, self.trials, self.counters, self.lists, n, data.d,
                self.capacity, n_trials, BLOCK=block, TRIALS=wide, num_warps=8, **UNFUSED,
            )  # fmt: skip


class _Spreading:
    """The tensors of one choice of rows, and the order of its kernels."""

    def __init__(
        self,
        data: Screened,
        order: torch.Tensor,
        weights: torch.Tensor | None,
        drawn: NDArray[np.int64],
        n_trials: int,
        top: int,
    ) -> None:
        device = data.X.device
        self.data, self.order, self.n_trials = data, order, n_trials
        self.rounds = (len(drawn) - 1) // n_trials
        self.all_trials = triton.next_power_of_2(n_trials)
        self._wide = min(_TRIALS, self.all_trials)
        self.low = top - 53 - 32 * (LIMBS - 4)
        self.blocks = triton.cdiv(data.n, _PLACES)

        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        self.drawn = to_device(drawn[1:], data.X)
        self.weighted = weights is not None
        self.state = zeros(4, dtype=torch.int32)
        self.largest, self.potential = zeros(1), zeros(LIMBS)
        self.closest = zeros(data.n, dtype=torch.float64)
        # Where there are no weights, any pointer will do.
        self.weights = self.closest if weights is None else weights
        self.sums, self.cumulative = zeros(self.blocks), zeros(self.blocks)
        self.trials, self.chosen = zeros(self.all_trials), zeros(self.rounds + 1)
        self.changes = zeros(self.all_trials, LIMBS)
        self._listing = Listing(data, self.closest, self.trials, n_trials)
        self.counters, self.capacity = self._listing.counters, self._listing.capacity
        self.lists = self._listing.lists
        self.found = zeros(self.all_trials, self.capacity, dtype=torch.float64)
        self._pick_first(int(drawn[0]))

    def _pick_first(self, drawn: int) -> None:
        """Pick the first row by weight, and take the distances from there."""
        data, n = self.data, self.data.n
        if self.weighted:
            # The weights are the masses of points that are all at distance 1.
            self.closest.fill_(1.0)
            self.state[CHOSEN.value] = 1
            self._draw(torch.tensor([drawn], device=data.X.device), 1)
            self.largest.zero_()
            self.chosen[:1] = self.trials[:1]
        else:
            # All masses are the same, a power of two.
            self.chosen[:1] = self.order[drawn * n // _DRAWS]
        self.state[CHOSEN.value] = 1
        first = data.X[self.chosen[:1]]
        find_costs(data.X, first, None, self.closest)
        masses = self.weights * self.closest if self.weighted else self.closest
        launch(
            moment_kernels.sum_terms, triton.cdiv(n, 1024),
            masses, self.potential, self.low, self.state[INEXACT.value :], n, BLOCK=1024,
            **UNFUSED,
        )  # fmt: skip

    def run(self) -> NDArray[np.int64] | None:
        """Choose all rows."""
        one_round: Tape | Graph = Tape(self._launch)
        for number in range(self.rounds):
            if number == 1 and self.rounds > _FEW_ROUNDS and not INTERPRETED:
                one_round = Graph([Tape(self._launch)])
            one_round.run()
        state = self.state.cpu()
        if int(state[INEXACT.value]):
            return None
        rows: NDArray[np.int64] = self.chosen[: int(state[CHOSEN.value])].cpu().numpy()
        return rows

    def _draw(self, drawn: torch.Tensor, n_trials: int) -> None:
        """Launch kernels that pick the rows of the trials."""
        n, bits = self.data.n, self.data.n.bit_length()
        launch(
            seeding_kernels.find_largest, self.blocks,
            self.state, self.closest, self.weights, self.largest, n, WEIGHTED=self.weighted,
            BLOCK=_PLACES, **UNFUSED,
        )  # fmt: skip
        launch(
            seeding_kernels.sum_blocks, self.blocks,
            self.state, self.closest, self.weights, self.order, self.largest, self.sums, n, bits,
            WEIGHTED=self.weighted, BLOCK=_PLACES, **UNFUSED,
        )  # fmt: skip
        do(torch.cumsum, self.sums, 0, out=self.cumulative)
        launch(
            seeding_kernels.draw_trials, n_trials,
            self.state, self.closest, self.weights, self.order, self.largest, self.cumulative,
            drawn, self.trials, self.counters, self.changes, n, self.blocks, bits,
            self.blocks.bit_length(), WEIGHTED=self.weighted, BLOCK=_PLACES, **UNFUSED,
        )  # fmt: skip

    def _launch(self) -> None:
        """Launch the kernels of one round."""
        self._draw(self.drawn, self.n_trials)
        self.list_points()
        self._weigh()
        self._choose()

    def list_points(self) -> None:
        """Launch kernels that list for each trial the points that it may bring closer."""
        self._listing.launch(self.state)

    def _weigh(self) -> None:
        """Launch kernels that find how each trial would change the potential."""
        data, n, n_trials = self.data, self.data.n, self.n_trials
        programs = min(_PROGRAMS, triton.cdiv(self.capacity, 64))
        launch(
            trial_kernels.weigh_pairs, (programs, n_trials),
            self.state, data.X, self.closest, self.weights, self.trials, self.counters, self.lists,
            self.found, self.changes, self.low, data.d, self.capacity, n_trials,
            WEIGHTED=self.weighted, BLOCK=64, ALL_TRIALS=self.all_trials, num_warps=2, **UNFUSED,
        )  # fmt: skip
        programs = min(4 * _PROGRAMS, triton.cdiv(n, 64))
        launch(
            trial_kernels.weigh_all, (programs, triton.cdiv(n_trials, self._wide)),
            self.state, data.X, self.closest, self.weights, self.trials, self.counters,
            self.changes, self.low, n, data.d, self.capacity, n_trials, WEIGHTED=self.weighted,
            BLOCK=64, TRIALS=self._wide, ALL_TRIALS=self.all_trials, num_warps=4, **UNFUSED,
        )  # fmt: skip

    def _choose(self) -> None:
        """Launch kernels that choose a trial and bring the distances up to date."""
        data, n_trials, all_trials = self.data, self.n_trials, self.all_trials
        launch(
            seeding_kernels.choose_trial, 1,
            self.state, self.trials, self.chosen, self.largest, self.potential, self.changes,
            self.low, self.rounds + 1, n_trials, ALL_TRIALS=all_trials, num_warps=1, **UNFUSED,
        )  # fmt: skip
        programs = min(4 * _PROGRAMS, triton.cdiv(data.n, 128))
        launch(
            trial_kernels.come_closer, programs,
            self.state, data.X, self.closest, self.trials, self.counters, self.lists, self.found,
            data.n, data.d, self.capacity, n_trials, BLOCK=128, ALL_TRIALS=all_trials, num_warps=4,
            **UNFUSED,
        )  # fmt: skip
