"""Kernels that add up what points would gain by one more center at a data point."""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.exact import LIMBS as _LIMBS
from wolfmeans.engines.gpu.kernels.exact import deposit_terms, rounded_sum
from wolfmeans.engines.gpu.kernels.recheck import canonical
from wolfmeans.engines.gpu.kernels.seeding import APART

LIMBS = tl.constexpr(_LIMBS)


@triton.jit(do_not_specialize=["low", "n", "capacity"])
def sum_gains(
    X, closest, masses, trials, counters, lists, sums, low, inexact, n, d, capacity,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Add up, for each trial, the gains of the points that are nearer to it than to any center.

    closest   IN   (n,) float64, distances to the nearest center
    masses    IN   (n,) float64, what counts of each point, None for ones
    trials    IN   (T,) int64 rows
    counters  IN   (T, APART) int32, lengths of the lists in the first column; a list that has no
                   room for all is not looked at, but all points are
    lists     IN   (T, capacity) int32 rows that may be nearer, in any order
    sums      OUT  (T, LIMBS) int64 (deposit_terms)
    """
    trial = tl.program_id(1)
    k = tl.load(trials + trial)
    count = tl.load(counters + trial * APART)
    listed = count <= capacity
    many = tl.where(listed, count, n)
    written = tl.where(listed, count, 0)
    for start in range(tl.program_id(0) * BLOCK, many, tl.num_programs(0) * BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside = place < many
        at = trial.to(tl.int64) * capacity + place
        row = tl.load(lists + at, mask=place < written, other=0)
        row = tl.where(listed, row, place).to(tl.int64)
        distance = canonical(
            X, X, row[:, None], (k + tl.zeros_like(row))[:, None], inside[:, None], d, BLOCK, 1
        )
        gain = tl.load(closest + row, mask=inside, other=0.0) - tl.reshape(distance, (BLOCK,))
        won = inside & (gain > 0.0)
        if masses is not None:
            gain = tl.load(masses + row, mask=inside, other=0.0) * gain
        deposit_terms(gain, won, sums + trial * LIMBS, low, inexact)


@triton.jit(do_not_specialize=["low"])
def round_sums(sums, low, out):
    """Round each of several sums once."""
    trial = tl.program_id(0)
    tl.store(out + trial, rounded_sum(sums + trial * LIMBS, low))
