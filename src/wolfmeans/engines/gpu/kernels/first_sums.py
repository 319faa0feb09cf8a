"""The sums of all rows, when every row is new: rows in the order of their labels, added in runs.

An atomic for each number of each row, as in `moments.move_rows`, would be what the first step of
many clusters spends its time on. In order of labels, a program adds up by itself what belongs to
one cluster, and deposits it once. The sums are integers: no order leaves a trace.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.exact import power_of_two
from wolfmeans.engines.gpu.kernels.lists import DONE


@triton.jit(do_not_specialize=["n"])
def count_labels(state, labels, begins, n, BLOCK: tl.constexpr):
    """Count the rows of each label; begins (K,) int32 are 0 before."""
    if tl.load(state + DONE) != 0:
        return
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    label = tl.load(labels + i, mask=i < n, other=0)
    tl.atomic_add(begins + label, tl.full((BLOCK,), 1, tl.int32), mask=i < n, sem="relaxed")


@triton.jit(do_not_specialize=["K"])
def place_labels(state, begins, K, BLOCK: tl.constexpr):
    """Make of the counts where the rows of each label begin; one program."""
    if tl.load(state + DONE) != 0:
        return
    before = 0
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        count = tl.load(begins + k, mask=k < K, other=0)
        tl.debug_barrier()  # as in settle
        tl.store(begins + k, before + tl.cumsum(count, 0) - count, mask=k < K)
        before += tl.sum(count)


@triton.jit(do_not_specialize=["n"])
def order_rows(state, labels, begins, ordered, ordered_labels, n, BLOCK: tl.constexpr):
    """List all rows by their labels; begins end as where those of the next label begin."""
    if tl.load(state + DONE) != 0:
        return
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    label = tl.load(labels + i, mask=i < n, other=0)
    one = tl.full((BLOCK,), 1, tl.int32)
    place = tl.atomic_add(begins + label, one, mask=i < n, sem="relaxed")
    tl.store(ordered + place, i, mask=i < n)
    tl.store(ordered_labels + place, label, mask=i < n)


@triton.jit
def _deposit(total, sums, offset, mask):
    tl.atomic_add(sums + offset, total, mask=mask & (total != 0), sem="relaxed")


@triton.jit(do_not_specialize=["n", "slots", "high"])
def add_ordered_rows(
    state, X, ordered, ordered_labels, sums, arrivals, n, d, slots, high, DIGITS: tl.constexpr,
    REPLICAS: tl.constexpr, TILES: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Add all rows to the sums of their clusters, which none has been added to.

    Programs (p, c, z) have TILES tiles of ROWS rows in order, COLUMNS columns, and two digits. A
    tile of several labels, and there is one for each label at most, goes number by number.

    sums      IN/OUT  (DIGITS, REPLICAS, slots) int64, as in `moments.move_rows`
    arrivals  IN/OUT  (REPLICAS, K) int64, how many rows each cluster has
    """
    if tl.load(state + DONE) != 0:
        return
    begin = tl.program_id(0) * (TILES * ROWS)
    if begin >= n:
        return
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    pair = tl.program_id(2)
    counting = (tl.program_id(1) == 0) & (pair == 0)
    # The first of the two digits; the second is one row of replicas further on.
    to = sums + (2 * pair).to(tl.int64) * REPLICAS * slots
    further = REPLICAS * slots
    scale = power_of_two(32 - high)
    current = tl.load(ordered_labels + begin)
    upper = tl.zeros((COLUMNS,), tl.int64)
    lower = tl.zeros((COLUMNS,), tl.int64)
    many = tl.full((), 0, tl.int64)
    for start in range(begin, tl.minimum(n, begin + TILES * ROWS), ROWS):
        place = start + tl.arange(0, ROWS)
        inside = place < n
        row = tl.load(ordered + place, mask=inside, other=0).to(tl.int64)
        last = tl.load(ordered_labels + tl.minimum(start + ROWS, n) - 1)
        label = tl.load(ordered_labels + place, mask=inside, other=0)
        there = inside[:, None] & (j < d)[None, :]
        value = tl.load(X + row[:, None] * d + j[None, :], mask=there, other=0.0).to(tl.float64)
        size = tl.abs(value) * scale
        if DIGITS > 2:
            # All digits above the pair are whole numbers here. In two steps, for one factor alone
            # may be too large a power.
            size = size * power_of_two(64 * pair - 32)
            size = (size - tl.floor(size)) * 4294967296.0
        whole = size.to(tl.int64)
        rest = ((size - whole.to(tl.float64)) * 4294967296.0).to(tl.int64)
        whole = tl.where(value < 0.0, -whole, whole)
        rest = tl.where(value < 0.0, -rest, rest)
        if tl.load(ordered_labels + start) == last:
            if last != current:
                offset = current.to(tl.int64) * d + j
                _deposit(upper, to, offset, j < d)
                if DIGITS > 1:
                    _deposit(lower, to + further, offset, j < d)
                if counting:
                    tl.atomic_add(arrivals + current, many, sem="relaxed")
                upper = tl.zeros((COLUMNS,), tl.int64)
                lower = tl.zeros((COLUMNS,), tl.int64)
                many = tl.full((), 0, tl.int64)
                current = last
            upper += tl.sum(whole, axis=0)
            lower += tl.sum(rest, axis=0)
            many += tl.sum(inside.to(tl.int64))
        else:
            offset = label.to(tl.int64)[:, None] * d + j[None, :]
            _deposit(whole, to, offset, there)
            if DIGITS > 1:
                _deposit(rest, to + further, offset, there)
            if counting:
                one = tl.full((ROWS,), 1, tl.int64)
                tl.atomic_add(arrivals + label, one, mask=inside, sem="relaxed")
    offset = current.to(tl.int64) * d + j
    _deposit(upper, to, offset, j < d)
    if DIGITS > 1:
        _deposit(lower, to + further, offset, j < d)
    if counting:
        tl.atomic_add(arrivals + current, many, sem="relaxed")
