"""Sums of few clusters brought up to date by products of integers, which tensor cores find exactly.

An atomic for each number of each moved row is what limits `moments.move_rows`: where there
are few clusters, many rows meet in each sum. Here a program adds up its rows by itself, as products
of a matrix of arrivals (1) and departures (-1) with the rows' digits, and deposits its sums once.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.exact import power_of_two
from wolfmeans.engines.gpu.kernels.lists import DONE, MOVED

AT_ONCE = 264
"""So many programs share the rows: two for each processor of a large device."""


@triton.jit
def _numbers(X, moved_rows, place, count, j, d):
    """Return columns j of the rows at some places of the list."""
    inside = place < count
    row = tl.load(moved_rows + place, mask=inside, other=0).to(tl.int64)
    there = inside[:, None] & (j < d)[None, :]
    return tl.load(X + row[:, None] * d + j[None, :], mask=there, other=0.0)


@triton.jit
def _limbs(size, negative):
    """Return four limbs of 7 bits of each digit, next to each other and int8, and the fifth.

    size      IN  (ROWS, COLUMNS) uint32, the digits without their signs
    negative  IN  (ROWS, COLUMNS) bool, their signs

    For a signed digit w, w & (2**28 - 1) and the floor of w / 2**28 make up w, whatever its sign;
    |w| < 2**32, so that the second is in -16..15.
    """
    whole = tl.where(negative, 0 - size, size)
    fifth = (whole >> 28).to(tl.int32) - tl.where(negative & (size != 0), 16, 0)
    limbs = _side_by_side(whole, whole >> 7, whole >> 14, whole >> 21) & 127
    return limbs.to(tl.int8), fifth


@triton.jit
def _side_by_side(x0, x1, x2, x3):
    """Return (rows, 4 columns): the four matrices' first columns, their second ones, ...

    As they are they must not go into a product: the compiler (3.6 and 3.9) stumbles over that.
    """
    joined = tl.join(tl.join(x0, x2), tl.join(x1, x3))
    return tl.reshape(joined, (x0.shape[0], 4 * x0.shape[1]))


@triton.jit
def _apart(joined):
    """Return what `_side_by_side` was given."""
    pairs = tl.reshape(joined, (joined.shape[0], joined.shape[1] // 4, 2, 2))
    even, odd = tl.split(pairs)
    x0, x2 = tl.split(even)
    x1, x3 = tl.split(odd)
    return x0, x1, x2, x3


@triton.jit
def _deposit(to, limbs, fifth):
    """Add sums of limbs to sums of digits, where they are not zero altogether."""
    limb0, limb1, limb2, limb3 = _apart(limbs)
    total = limb0.to(tl.int64) + (limb1.to(tl.int64) << 7) + (limb2.to(tl.int64) << 14)
    total += (limb3.to(tl.int64) << 21) + (fifth.to(tl.int64) << 28)
    tl.atomic_add(to, total, mask=total != 0, sem="relaxed")


@triton.jit(do_not_specialize=["slots", "high"])
def move_rows_of_few(
    state, X, labels, moved_rows, moved_from, sums, members, d, slots, high,
    DIGITS: tl.constexpr, REPLICAS: tl.constexpr, CLUSTERS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Do what `moments.move_rows` does, for few clusters: the same integers.

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
    i, k = tl.arange(0, ROWS), tl.arange(0, CLUSTERS)
    quarter = tl.arange(0, ROWS // 4)
    scale = power_of_two(32 - high)
    # The sums of four limbs of a digit, of those of the next, and of all that is left: the fifth
    # limbs of both, and ones. Few large products have less to wait for than many small ones.
    upper = tl.zeros((CLUSTERS, 4 * COLUMNS), tl.int32)
    lower = tl.zeros((CLUSTERS, 4 * COLUMNS), tl.int32)
    others = tl.zeros((CLUSTERS, 4 * COLUMNS), tl.int32)
    ones = tl.full((ROWS, COLUMNS), 1, tl.int32)
    none = tl.zeros((ROWS, COLUMNS), tl.int32)
    same = tl.zeros((CLUSTERS, ROWS), tl.int8)
    plus, minus = same + 1, same - 1
    for begin in range(first, count, tl.num_programs(0) * ROWS):
        # Every fourth of them from the same quarter, as below.
        place = begin + (i % 4) * (ROWS // 4) + i // 4
        inside = place < count
        row = tl.load(moved_rows + place, mask=inside, other=0)
        old = tl.load(moved_from + place, mask=inside, other=-1)
        new = tl.load(labels + row, mask=inside, other=-1)
        stays = new == old
        new, old = tl.where(stays, -1, new), tl.where(stays, -1, old)
        change = tl.where(old[None, :] == k[:, None], minus, same)
        change = tl.where(new[None, :] == k[:, None], plus, change)
        # Four rows in one thread, next to each other: so limbs go to where the product wants them
        # as words, not as bytes.
        x0 = _numbers(X, moved_rows, begin + quarter, count, j, d)
        x1 = _numbers(X, moved_rows, begin + ROWS // 4 + quarter, count, j, d)
        x2 = _numbers(X, moved_rows, begin + ROWS // 2 + quarter, count, j, d)
        x3 = _numbers(X, moved_rows, begin + ROWS // 4 * 3 + quarter, count, j, d)
        x = tl.join(tl.join(x0, x2), tl.join(x1, x3))
        x = tl.reshape(tl.permute(x, (0, 2, 3, 1)), (ROWS, COLUMNS)).to(tl.float64)
        negative = x < 0.0
        rest = tl.abs(x) * scale
        if DIGITS > 2:
            # All digits above the pair are whole numbers here. In two steps, for one factor alone
            # may be too large a power.
            rest = rest * power_of_two(64 * pair - 32)
            rest = (rest - tl.floor(rest)) * 4294967296.0
        size = rest.to(tl.uint32)
        limbs, fifth = _limbs(size, negative)
        upper = tl.dot(change, limbs, upper, out_dtype=tl.int32)
        lower_fifth = none
        if DIGITS > 1:
            rest = (rest - size.to(tl.float64)) * 4294967296.0
            limbs, lower_fifth = _limbs(rest.to(tl.uint32), negative)
            lower = tl.dot(change, limbs, lower, out_dtype=tl.int32)
        left = _side_by_side(fifth, lower_fifth, ones, none).to(tl.int8)
        others = tl.dot(change, left, others, out_dtype=tl.int32)
    fifth, lower_fifth, gained, _ = _apart(others)
    replica = tl.program_id(0) % REPLICAS
    to = sums + ((2 * pair).to(tl.int64) * REPLICAS + replica) * slots
    to += k[:, None] * d + j[None, :]
    _deposit(to, upper, fifth)
    if DIGITS > 1:
        # Beyond the last digit there are only zeros, which go nowhere.
        _deposit(to + REPLICAS * slots, lower, lower_fifth)
    if pair == 0:
        # Every column of them is the same: the first one is used.
        once = (gained != 0) & (j == 0)[None, :]
        where = members + k[:, None] + tl.zeros_like(gained)
        tl.atomic_add(where, gained.to(tl.int64), mask=once, sem="relaxed")
