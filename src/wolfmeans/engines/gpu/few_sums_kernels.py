"""Sums of few clusters brought up to date by products of integers, which tensor cores find exactly.

An atomic for each number of each moved row is what limits `moment_kernels.move_rows`: where there
are few clusters, many rows meet in each sum. Here a program adds up its rows by itself, as products
of a matrix that says who comes and who goes with the rows' digits, and deposits what it has once.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.exact_kernels import power_of_two
from wolfmeans.engines.gpu.lists import DONE, MOVED

AT_ONCE = 264
"""So many programs share the rows: two for each processor of a large device."""


@triton.jit
def _add_products(change, size, negative, a0, a1, a2, a3, a4):
    """Add up a digit of some rows: limb i of 7 bits, weighed by `change`, goes to a_i.

    change    IN  (CLUSTERS, ROWS) int8: 1, -1 or 0
    size      IN  (ROWS, COLUMNS) uint32, the digit without its sign
    negative  IN  (ROWS, COLUMNS) bool, its sign

    For a signed digit w, w & (2**28 - 1) and the floor of w / 2**28 make up w, whatever its sign;
    |w| < 2**32, so that the second is in -16..15.
    """
    whole = tl.where(negative, 0 - size, size)
    borrowed = tl.where(negative & (size != 0), 16, 0)
    a0 = tl.dot(change, (whole & 127).to(tl.int8), a0, out_dtype=tl.int32)
    a1 = tl.dot(change, ((whole >> 7) & 127).to(tl.int8), a1, out_dtype=tl.int32)
    a2 = tl.dot(change, ((whole >> 14) & 127).to(tl.int8), a2, out_dtype=tl.int32)
    a3 = tl.dot(change, ((whole >> 21) & 127).to(tl.int8), a3, out_dtype=tl.int32)
    high = ((whole >> 28).to(tl.int32) - borrowed).to(tl.int8)
    a4 = tl.dot(change, high, a4, out_dtype=tl.int32)
    return a0, a1, a2, a3, a4


@triton.jit
def _deposit(to, a0, a1, a2, a3, a4):
    """Add limbs of 7 bits to sums, where they are not zero altogether."""
    total = a0.to(tl.int64) + (a1.to(tl.int64) << 7) + (a2.to(tl.int64) << 14)
    total += (a3.to(tl.int64) << 21) + (a4.to(tl.int64) << 28)
    tl.atomic_add(to, total, mask=total != 0, sem="relaxed")


@triton.jit(do_not_specialize=["slots", "high"])
def move_rows_of_few(
    state, X, labels, moved_rows, moved_from, sums, members, d, slots, high,
    DIGITS: tl.constexpr, REPLICAS: tl.constexpr, CLUSTERS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Do what `moment_kernels.move_rows` does, for few clusters: the same integers.

    Programs (p, c, z) share the rows, have COLUMNS columns each, and two digits.

    sums     IN/OUT  (DIGITS, REPLICAS, slots) int64: digits of 32 bits, the highest first; slots =
                     K d, K <= CLUSTERS. All numbers are whole multiples of the lowest digit's unit.
    members  IN/OUT  (K,) int64, how many points each cluster has
    high     IN      all numbers are below 2**high

    A row changes an accumulator by at most 127. Of P programs, each has at most count / P + ROWS
    rows; those are ROWS at most, or P is AT_ONCE and count is below 2**31: fewer than 2**23 rows,
    whose limbs add up to less than 2**30.
    """
    if tl.load(state + DONE) != 0:
        return
    count = tl.load(state + MOVED)
    first = tl.program_id(0) * ROWS
    if first >= count:
        return
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    pair = tl.program_id(2)
    k = tl.arange(0, CLUSTERS)
    scale = power_of_two(32 - high)
    zero = tl.zeros((CLUSTERS, COLUMNS), tl.int32)
    a0, a1, a2, a3, a4 = zero, zero, zero, zero, zero
    b0, b1, b2, b3, b4 = zero, zero, zero, zero, zero
    gained = zero
    for begin in range(first, count, tl.num_programs(0) * ROWS):
        place = begin + tl.arange(0, ROWS)
        inside = place < count
        row = tl.load(moved_rows + place, mask=inside, other=0)
        old = tl.load(moved_from + place, mask=inside, other=-1)
        new = tl.load(labels + row, mask=inside, other=-1)
        comes = (new[None, :] == k[:, None]).to(tl.int8)
        goes = (old[None, :] == k[:, None]).to(tl.int8)
        change = comes - goes
        # Four rows in one thread, next to each other: so limbs go to where the product wants them
        # as words, not as bytes.
        place = begin + 4 * tl.arange(0, ROWS // 4)[None, :] + tl.arange(0, 4)[:, None]
        inside = place < count
        row = tl.load(moved_rows + place, mask=inside, other=0).to(tl.int64)
        there = inside[:, :, None] & (j < d)[None, None, :]
        x = tl.load(X + row[:, :, None] * d + j[None, None, :], mask=there, other=0.0)
        x = tl.reshape(tl.permute(x, (1, 0, 2)), (ROWS, COLUMNS)).to(tl.float64)
        negative = x < 0.0
        rest = tl.abs(x) * scale
        if DIGITS > 2:
            # All digits above the pair are whole numbers here. In two steps, for one factor alone
            # may be too large a power.
            rest = rest * power_of_two(64 * pair - 32)
            rest = (rest - tl.floor(rest)) * 4294967296.0
        size = rest.to(tl.uint32)
        a0, a1, a2, a3, a4 = _add_products(change, size, negative, a0, a1, a2, a3, a4)
        if DIGITS > 1:
            rest = (rest - size.to(tl.float64)) * 4294967296.0
            size = rest.to(tl.uint32)
            b0, b1, b2, b3, b4 = _add_products(change, size, negative, b0, b1, b2, b3, b4)
        gained = tl.dot(change, tl.full((ROWS, COLUMNS), 1, tl.int8), gained, out_dtype=tl.int32)
    replica = tl.program_id(0) % REPLICAS
    to = sums + ((2 * pair).to(tl.int64) * REPLICAS + replica) * slots
    to += k[:, None] * d + j[None, :]
    _deposit(to, a0, a1, a2, a3, a4)
    if DIGITS > 1:
        # Beyond the last digit there are only zeros, which go nowhere.
        _deposit(to + REPLICAS * slots, b0, b1, b2, b3, b4)
    if pair == 0:
        # Every column of them is the same: that of the first coordinate tells.
        once = (gained != 0) & (j == 0)[None, :]
        where = members + k[:, None] + tl.zeros_like(gained)
        tl.atomic_add(where, gained.to(tl.int64), mask=once, sem="relaxed")
