"""Sums of clusters brought up to date where many rows move: they are sorted by clusters first.

An atomic for each digit of each number of each moved row is what limits `moments.move_rows`,
some 5 ps each on a large device: four to nine times what reading the rows takes. Where many rows
move, as in the first steps of a fit, it pays to put them in the order of their clusters: an atomic
for each row says how many of its cluster came before it, a sum over all clusters where each begins.
Then a program adds up a run of rows of one cluster by itself, and deposits what it has once.

How many rows have moved is known on the device alone: the three kernels are always launched, and
the first one moves the rows by atomics itself where they are few. Then the others do nothing.

A row that leaves a cluster and one that comes are sorted alike: there are K runs of rows that come
and K of rows that go, and any of them may be empty. Atomics at one address take 16 ns each: where
there are few clusters, a run is made of SHARES runs with a counter each.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.exact import power_of_two
from wolfmeans.engines.gpu.kernels.lists import DONE, MOVED
from wolfmeans.engines.gpu.kernels.moments import move_listed

AFTER = tl.constexpr(8)
"""So many int32 come before the counters."""
STRIDE = tl.constexpr(8)
"""Counters are so many int32 apart: those that share a sector of memory wait for each other."""
# Places before all counters.
_TICKETS = tl.constexpr(0)
_ENTRIES = tl.constexpr(1)
_PIECES = tl.constexpr(2)
_SCANNED = tl.constexpr(2048)
_ENOUGH, _MOST_SHARES = 1024, 8
"""With so many counters few atomics meet; so many of them may share a cluster."""


def most_shares(n_clusters: int) -> int:
    """Return how many counters each cluster may have, a power of two."""
    return min(_MOST_SHARES, 1 << max(0, (_ENOUGH // n_clusters).bit_length() - 1))


def tally_size(n_clusters: int) -> int:
    """Return how many int32 there are for counters."""
    return 2 * n_clusters * most_shares(n_clusters) * STRIDE.value + AFTER.value


@triton.jit(do_not_specialize=["slots", "high", "K", "many", "capacity"])
def move_or_count(
    state, X, labels, moved_rows, moved_from, sums, members, tally, ranks, starts, d, slots, high,
    K, many, capacity, DIGITS: tl.constexpr, REPLICAS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, BLOCK: tl.constexpr, RUN: tl.constexpr, SHARES: tl.constexpr,
):  # fmt: skip
    """Do what `move_rows` does if fewer than `many` rows have moved; else count them.

    sums, members  IN/OUT  as in `move_rows`; members in both cases
    tally   IN/OUT  (AFTER + 2 K SHARES STRIDE) int32: zeros before and after, but for two numbers
                    at the front: how many rows come and go, and how many pieces of runs they make
    ranks   OUT     (2, capacity) how many rows of the list came to the same run before each one,
                    and how many to that of those that go; in whatever order
    starts  OUT     (2, 2 K SHARES) where each run begins, and which of all pieces is its first
    """
    if tl.load(state + DONE) != 0:
        return
    count = tl.load(state + MOVED)
    if count < many:
        move_listed(
            count, X, labels, moved_rows, moved_from, sums, members, d, slots, high, DIGITS,
            REPLICAS, ROWS, COLUMNS,
        )  # fmt: skip
        return
    for begin in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
        place = begin + tl.arange(0, BLOCK)
        inside = place < count
        row = tl.load(moved_rows + place, mask=inside, other=0)
        old = tl.load(moved_from + place, mask=inside, other=-1)
        new = tl.load(labels + row, mask=inside, other=0)
        left = inside & (old >= 0)
        one = tl.full((BLOCK,), 1, tl.int32)
        counter = tally + AFTER + _run_of(new, place, SHARES) * STRIDE
        rank = tl.atomic_add(counter, one, mask=inside, sem="relaxed")
        tl.store(ranks + place, rank, mask=inside)
        counter = tally + AFTER + _run_of(K + old, place, SHARES) * STRIDE
        rank = tl.atomic_add(counter, one, mask=left, sem="relaxed")
        tl.store(ranks + capacity + place, rank, mask=left)
    tl.debug_barrier()  # all of the program's rows are counted
    if tl.atomic_add(tally + _TICKETS, 1, sem="acq_rel") == tl.num_programs(0) - 1:
        _lay_out(tally, starts, members, K, RUN, SHARES)


@triton.jit
def _run_of(cluster, place, SHARES: tl.constexpr):
    return cluster * SHARES + place % SHARES


@triton.jit
def _lay_out(tally, starts, members, K, RUN: tl.constexpr, SHARES: tl.constexpr):
    """Write where each run begins, the last program to come; count members; clear the counters."""
    entries, pieces = 0, 0
    many = 2 * K * SHARES
    for begin in range(0, many, _SCANNED):
        run = begin + tl.arange(0, _SCANNED)
        inside = run < many
        counter = tally + AFTER + run * STRIDE
        # Other programs wrote these: not from a cache of this processor.
        rows = tl.load(counter, mask=inside, other=0, cache_modifier=".cg")
        parts = (rows + (RUN - 1)) // RUN
        tl.store(starts + run, entries + tl.cumsum(rows, 0) - rows, mask=inside)
        tl.store(starts + many + run, pieces + tl.cumsum(parts, 0) - parts, mask=inside)
        entries += tl.sum(rows)
        pieces += tl.sum(parts)
        k = run // SHARES
        change = tl.where(k < K, rows, -rows).to(tl.int64)
        k = tl.where(k < K, k, k - K)
        tl.atomic_add(members + k, change, mask=inside & (rows > 0), sem="relaxed")
        tl.debug_barrier()  # as in settle
        tl.store(counter, tl.zeros_like(rows), mask=inside)
    tl.store(tally + _TICKETS, 0)
    tl.store(tally + _ENTRIES, entries)
    tl.store(tally + _PIECES, pieces)


@triton.jit
def _put(row, run, rank, mask, starts, sorted_rows, runs, begins, many, RUN: tl.constexpr):
    """Write rows to their places, and note where a piece of a run begins."""
    place = tl.load(starts + run, mask=mask, other=0) + rank
    tl.store(sorted_rows + place, row, mask=mask)
    first = mask & (rank % RUN == 0)
    piece = tl.load(starts + many + run, mask=first, other=0) + rank // RUN
    tl.store(runs + piece, run, mask=first)
    tl.store(begins + piece, place, mask=first)


@triton.jit(do_not_specialize=["K", "many", "capacity"])
def sort_rows(
    state, labels, moved_rows, moved_from, ranks, starts, sorted_rows, runs, begins, K, many,
    capacity, BLOCK: tl.constexpr, RUN: tl.constexpr, SHARES: tl.constexpr,
):  # fmt: skip
    """Put the moved rows in the order of the clusters, if there are `many`.

    sorted_rows  OUT  all rows that come, then all rows that go
    runs         OUT  for each piece of RUN rows or less: which run it is of
    begins       OUT  where it begins; it ends where the next one does
    """
    if tl.load(state + DONE) != 0:
        return
    count = tl.load(state + MOVED)
    if count < many:
        return
    for begin in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
        place = begin + tl.arange(0, BLOCK)
        inside = place < count
        row = tl.load(moved_rows + place, mask=inside, other=0)
        old = tl.load(moved_from + place, mask=inside, other=-1)
        new = tl.load(labels + row, mask=inside, other=0)
        rank = tl.load(ranks + place, mask=inside, other=0)
        run = _run_of(new, place, SHARES)
        _put(row, run, rank, inside, starts, sorted_rows, runs, begins, 2 * K * SHARES, RUN)
        left = inside & (old >= 0)
        rank = tl.load(ranks + capacity + place, mask=left, other=0)
        run = _run_of(K + old, place, SHARES)
        _put(row, run, rank, left, starts, sorted_rows, runs, begins, 2 * K * SHARES, RUN)


@triton.jit(do_not_specialize=["slots", "high", "K", "many"])
def add_runs(
    state, X, tally, sorted_rows, runs, begins, sums, d, slots, high, K, many,
    DIGITS: tl.constexpr, REPLICAS: tl.constexpr, RUN: tl.constexpr, COLUMNS: tl.constexpr,
    SHARES: tl.constexpr,
):  # fmt: skip
    """Add up the pieces of runs, and deposit their sums. Programs (p, c) have COLUMNS columns each.

    A digit of a number is a whole number of some unit in float64 here, and so is the sum of RUN of
    them: to the nearest one, that is, which the sum with 3/2 2**52 units is rounded to. Digits of
    `move_rows` are cut off instead. The sums of both have the same value, and only that counts: for
    what one digit has more, the next has less.
    """
    if tl.load(state + DONE) != 0:
        return
    if tl.load(state + MOVED) < many:
        return
    entries, pieces = tl.load(tally + _ENTRIES), tl.load(tally + _PIECES)
    j = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    column = j < d
    replica = (tl.program_id(0) % REPLICAS).to(tl.int64) * slots
    for piece in range(tl.program_id(0), pieces, tl.num_programs(0)):
        k = tl.load(runs + piece) // SHARES
        begin = tl.load(begins + piece)
        end = tl.load(begins + piece + 1, mask=piece + 1 < pieces, other=entries)
        place = begin + tl.arange(0, RUN)
        inside = place < end
        row = tl.load(sorted_rows + place, mask=inside, other=0).to(tl.int64)
        there = inside[:, None] & column[None, :]
        rest = tl.load(X + row[:, None] * d + j[None, :], mask=there, other=0.0).to(tl.float64)
        arriving = k < K
        to = sums + replica + tl.where(arriving, k, k - K).to(tl.int64) * d + j
        for digit in tl.static_range(DIGITS):
            whole = rest
            if digit < DIGITS - 1:
                large = 1.5 * power_of_two(20 + high - 32 * digit)
                whole = (rest + large) - large
                rest = rest - whole
            total = tl.sum(whole, axis=0) * power_of_two(32 + 32 * digit - high)
            total = tl.where(arriving, total, -total).to(tl.int64)
            tl.atomic_add(
                to + digit * REPLICAS * slots, total, mask=column & (total != 0), sem="relaxed"
            )
