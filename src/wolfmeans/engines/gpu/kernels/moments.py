"""Kernels that follow an assignment: the clusters' sums and means, and the record.

Launched with `enable_fp_fusion=False`: each operation is rounded by itself.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.exact import LIMBS as _LIMBS
from wolfmeans.engines.gpu.kernels.exact import (
    deposit_terms,
    mean_and_residual,
    power_of_two,
    rounded_sum,
)
from wolfmeans.engines.gpu.kernels.lists import (
    ACTIVE,
    AT_MOST,
    CLOSE,
    CROWDED,
    DONE,
    EMPTY,
    HARD,
    INEXACT,
    KEEP_EMPTY,
    MOVED,
    OPEN,
    STEPS,
)
from wolfmeans.engines.gpu.kernels.recheck import canonical

LIMBS = tl.constexpr(_LIMBS)


@triton.jit(do_not_specialize=["slots", "high"])
def move_rows(
    state, X, labels, moved_rows, moved_from, sums, members, d, slots, high,
    DIGITS: tl.constexpr, REPLICAS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Take the moved points out of their old clusters' sums and add them to the new ones.

    sums     IN/OUT  (DIGITS, REPLICAS, slots) int64: digits of 32 bits, the highest first; slots =
                     K d. All numbers are whole multiples of the lowest digit's unit.
    members  IN/OUT  (K,) int64, how many points each cluster has, or one of the replicas of that
    high     IN      all numbers are below 2**high
    """
    if tl.load(state + DONE) != 0:
        return
    count = tl.load(state + MOVED)
    move_listed(
        count, X, labels, moved_rows, moved_from, sums, members, d, slots, high, DIGITS, REPLICAS,
        ROWS, COLUMNS,
    )  # fmt: skip


@triton.jit
def move_listed(
    count, X, labels, moved_rows, moved_from, sums, members, d, slots, high,
    DIGITS: tl.constexpr, REPLICAS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Move the rows of a list of some length, an atomic for each digit."""
    for begin in range(tl.program_id(0) * ROWS, count, tl.num_programs(0) * ROWS):
        place = begin + tl.arange(0, ROWS)
        inside = place < count
        row = tl.load(moved_rows + place, mask=inside, other=0).to(tl.int64)
        old = tl.load(moved_from + place, mask=inside, other=-1).to(tl.int64)
        new = tl.load(labels + row, mask=inside, other=0).to(tl.int64)
        left = inside & (old >= 0)
        one = tl.full((ROWS,), 1, tl.int64)
        tl.atomic_add(members + new, one, mask=inside, sem="relaxed")
        tl.atomic_add(members + old, -one, mask=left, sem="relaxed")
        replica = (tl.program_id(0) % REPLICAS).to(tl.int64) * slots
        scale = power_of_two(32 - high)
        for start in range(0, d, COLUMNS):
            j = start + tl.arange(0, COLUMNS)
            there = inside[:, None] & (j < d)[None, :]
            gone = there & left[:, None]
            value = tl.load(X + row[:, None] * d + j[None, :], mask=there, other=0.0).to(tl.float64)
            value = value * scale
            to = sums + replica + new[:, None] * d + j[None, :]
            back = sums + replica + old[:, None] * d + j[None, :]
            for digit in tl.static_range(DIGITS):
                whole = value.to(tl.int64)
                value = (value - whole.to(tl.float64)) * 4294967296.0
                some = whole != 0
                offset = digit * REPLICAS * slots
                tl.atomic_add(to + offset, whole, mask=there & some, sem="relaxed")
                tl.atomic_add(back + offset, -whole, mask=gone & some, sem="relaxed")


@triton.jit(do_not_specialize=["slots", "K"])
def fold_sums(
    state, sums, folded, arrivals, members, slots, K, DIGITS: tl.constexpr, REPLICAS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Add the replicas of sums and arrivals, which are left as they are.

    sums      IN   (DIGITS, REPLICAS, slots) int64
    folded    OUT  (DIGITS, slots) int64
    arrivals  IN   (REPLICAS, K) int64
    members   OUT  (K,) int64
    """
    if tl.load(state + DONE) != 0:
        return
    slot = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    digit = tl.program_id(1).to(tl.int64)
    replica = tl.arange(0, REPLICAS)[:, None].to(tl.int64)
    if digit < DIGITS:
        there = (slot < slots)[None, :] & (replica >= 0)
        parts = sums + (digit * REPLICAS + replica) * slots + slot[None, :]
        total = tl.sum(tl.load(parts, mask=there, other=0), axis=0)
        tl.store(folded + digit * slots + slot, total, mask=slot < slots)
    else:
        there = (slot < K)[None, :] & (replica >= 0)
        parts = arrivals + replica * K + slot[None, :]
        tl.store(members + slot, tl.sum(tl.load(parts, mask=there, other=0), axis=0), mask=slot < K)


@triton.jit(do_not_specialize=["shift_low", "movement_low", "unit", "slots"])
def find_means(
    state, sums, members, centers, means, residuals, shift, movement, shift_low, movement_low,
    unit, d, slots, DIGITS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Round the means of the clusters, and add up how far the centers move and what that gains.

    means      OUT  (K, d) in the centers' dtype; the given center where a cluster has no points
    residuals  OUT  (K, d) float64, exact mean minus `means`
    """
    if tl.load(state + DONE) != 0:
        return
    slot = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = slot < slots
    weight = tl.load(members + slot // d, mask=inside, other=0)
    divisor = tl.maximum(weight, 1)
    mean, rest = mean_and_residual(sums, slot, inside, divisor, unit, DIGITS, slots, 1)
    arrive(
        state, slot, inside, mean, rest, weight.to(tl.float64), centers, means, residuals, shift,
        movement, shift_low, movement_low,
    )  # fmt: skip


@triton.jit
def arrive(
    state, slot, inside, mean, rest, weight, centers, means, residuals, shift, movement, shift_low,
    movement_low,
):  # fmt: skip
    """Write down means and residuals, and add up the steps of the centers and what they gain."""
    full = inside & (weight > 0.0)
    given = tl.load(centers + slot, mask=inside, other=0.0)
    short = tl.where(full, mean.to(given.dtype), given)
    residual = tl.where(full, mean - short.to(tl.float64) + rest, 0.0)
    tl.store(means + slot, short, mask=inside)
    tl.store(residuals + slot, residual, mask=inside)
    move = tl.where(full, short.to(tl.float64) - given.to(tl.float64), 0.0)
    gain = move * (move + 2.0 * residual)
    gain = weight * tl.where(gain > 0.0, gain, 0.0)
    deposit_terms(move * move, inside, shift, shift_low, state + INEXACT)
    deposit_terms(gain, inside, movement, movement_low, state + INEXACT)


@triton.jit(do_not_specialize=["gap_low", "shift_low", "movement_low", "K"])
def finish_step(
    state, reach, members, weights, gap, shift, movement, gap_low, shift_low, movement_low,
    records, rule, K, BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the record of the step, decide whether it is taken, and clear the sums for the next.

    members  IN      (K,) int64, for `weights` to be written; None where they have been
    records  OUT     (steps, 8): moved, empty, gap, movement and shift of the point; then the shift
                     of its step, how many clusters that leaves empty, and whether a sum could not
                     be held
    rule     IN/OUT  (4,) float64: the shift on arrival at the point; tolerances for gap, decrease
                     and shift, -1 where the rule does not look at it
    """
    if tl.load(state + DONE) != 0:
        return
    empty = 0
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        if members is None:
            weight = tl.load(weights + k, mask=k < K, other=1.0)
        else:
            weight = tl.load(members + k, mask=k < K, other=1).to(tl.float64)
            tl.store(weights + k, weight, mask=k < K)
        empty += tl.sum((weight == 0.0).to(tl.int32))
    gained = rounded_sum(gap, gap_low)
    moved_by = rounded_sum(shift, shift_low)
    moved_gain = rounded_sum(movement, movement_low)
    moved = tl.load(state + MOVED)
    step = tl.load(state + STEPS)
    empty_before = tl.load(state + EMPTY)
    shift_before = tl.load(rule)
    record = records + step * 8
    tl.store(record, moved.to(tl.float64))
    tl.store(record + 1, empty_before.to(tl.float64))
    tl.store(record + 2, gained)
    tl.store(record + 3, moved_gain)
    tl.store(record + 4, shift_before)
    tl.store(record + 5, moved_by)
    tl.store(record + 6, empty.to(tl.float64))
    tl.store(record + 7, tl.load(state + INEXACT).to(tl.float64))
    met = moved == 0
    met = met | (gained <= tl.load(rule + 1))
    met = met | (gained + moved_gain <= tl.load(rule + 2))
    met = met | (shift_before <= tl.load(rule + 3))
    met = met | (step + 1 >= tl.load(state + AT_MOST))
    met = met | ((empty > 0) & (tl.load(state + KEEP_EMPTY) == 0))
    met = met | (tl.load(state + INEXACT) != 0)
    tl.debug_barrier()  # as in settle
    tl.store(state + STEPS, step + 1)
    if met:
        tl.store(state + DONE, 1)
    else:
        tl.store(rule, moved_by)
        tl.store(state + EMPTY, empty)
    i = tl.arange(0, 16)
    inside = i < LIMBS
    zero = tl.zeros((16,), tl.int64)
    tl.debug_barrier()  # as in settle
    tl.store(gap + i, zero, mask=inside)
    tl.store(shift + i, zero, mask=inside)
    tl.store(movement + i, zero, mask=inside)
    tl.store(state + ACTIVE, 0)
    tl.store(state + OPEN, 0)
    tl.store(state + HARD, 0)
    tl.store(state + CROWDED, 0)
    tl.store(state + CLOSE, 0)
    if not met:
        tl.store(state + MOVED, 0)
    for place in tl.static_range(2):
        tl.store(reach + place, 0)


@triton.jit(do_not_specialize=["low", "n"])
def sum_costs(
    X, weights, centers, labels, sums, low, inexact, n, d, BLOCK: tl.constexpr
):  # fmt: skip
    """Add up the canonical distances of all points to the centers of their labels.

    weights  IN   (n,) float64, None for ones
    sums     OUT  (LIMBS,) int64 (deposit_terms)
    """
    for begin in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = begin + tl.arange(0, BLOCK)
        inside = i < n
        k = tl.load(labels + i, mask=inside, other=0)
        distance = canonical(X, centers, i[:, None], k[:, None], inside[:, None], d, BLOCK, 1)
        terms = tl.reshape(distance, (BLOCK,))
        if weights is not None:
            terms = tl.load(weights + i, mask=inside, other=0.0) * terms
        deposit_terms(terms, inside, sums, low, inexact)


@triton.jit(do_not_specialize=["low", "n"])
def sum_terms(terms, sums, low, inexact, n, BLOCK: tl.constexpr):
    """Add float64 terms, none of them negative, to one exact sum."""
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    deposit_terms(tl.load(terms + i, mask=i < n, other=0.0), i < n, sums, low, inexact)


@triton.jit(do_not_specialize=["low"])
def round_sum(sums, low, inexact, out):
    """Write the sum of the terms, rounded once, and whether it is not that; clear it."""
    total = rounded_sum(sums, low)
    lost = tl.load(inexact)
    tl.debug_barrier()  # all threads have read
    tl.store(out, total)
    tl.store(out + 1, lost.to(tl.float64))
    i = tl.arange(0, 16)
    tl.store(sums + i, tl.zeros((16,), tl.int64), mask=i < LIMBS)
    tl.store(inexact, 0)
