"""Kernels that follow an assignment and read rows: the clusters' sums, and costs.

Launched with `enable_fp_fusion=False`: each operation is rounded by itself.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.exact import LIMBS as _LIMBS
from wolfmeans.engines.gpu.kernels.exact import deposit_terms, power_of_two, rounded_sum
from wolfmeans.engines.gpu.kernels.lists import DONE, MOVED
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
