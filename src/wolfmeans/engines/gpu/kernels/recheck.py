"""Kernels that compute canonical distances to every center that the screen could not rule out.

Where numbers are float32, squares in float32 come first, and decide most candidates.

Launched with `enable_fp_fusion=False`: each operation is rounded by itself.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.lists import (
    CLOSE,
    FAR,
    HARD,
    MOVED,
    OPEN,
    append,
    settle,
)
from wolfmeans.engines.gpu.kernels.screen import SLOTS


@triton.jit
def _add_square(total, a, b):
    difference = a.to(tl.float64) - b.to(tl.float64)
    return total + difference * difference


@triton.jit
def canonical(X, centers, row, k, mask, d, BLOCK: tl.constexpr, COLUMNS: tl.constexpr):
    """Return the (BLOCK, COLUMNS) canonical distances between rows and centers.

    Four coordinates are loaded at once, where d allows it in one go, and added up one by one.
    """
    x = (X + row.to(tl.int64) * d)[:, :, None]
    c = (centers + k.to(tl.int64) * d)[:, :, None]
    four = tl.arange(0, 4)[None, None, :]
    many = mask[:, :, None]
    total = tl.zeros((BLOCK, COLUMNS), tl.float64)
    unrolled = d // 4 * 4
    for start in range(0, unrolled, 4):
        a = tl.reshape(tl.load(x + (start + four), mask=many, other=0.0), (BLOCK, COLUMNS, 2, 2))
        b = tl.reshape(tl.load(c + (start + four), mask=many, other=0.0), (BLOCK, COLUMNS, 2, 2))
        even, odd = tl.split(a)
        a0, a2 = tl.split(even)
        a1, a3 = tl.split(odd)
        even, odd = tl.split(b)
        b0, b2 = tl.split(even)
        b1, b3 = tl.split(odd)
        total = _add_square(total, a0, b0)
        total = _add_square(total, a1, b1)
        total = _add_square(total, a2, b2)
        total = _add_square(total, a3, b3)
    for j in range(unrolled, d):
        a = tl.load(X + row.to(tl.int64) * d + j, mask=mask, other=0.0)
        b = tl.load(centers + k.to(tl.int64) * d + j, mask=mask, other=0.0)
        total = _add_square(total, a, b)
    return total


@triton.jit
def _room(best, after, beyond, scale):
    """Return a bound on how much farther than its own center all others of a row are.

    best, after  squared distances to its own and to the nearest other candidate, float64
    beyond       scaled distance that all others are farther than
    """
    least = tl.minimum((tl.sqrt(after) * scale).to(tl.float32), beyond)
    own = (tl.sqrt(best) * scale).to(tl.float32)
    room = least - own - (tl.abs(least) + own) * 2.0**-16
    return tl.where(least < FAR, room, -1.0)


@triton.jit
def _ruled_out(thresholds, sizes, place, row, inside):
    """Return the scaled distance that centers which are no candidates are farther than."""
    threshold = tl.load(thresholds + place, mask=inside, other=0.0)
    norm = tl.load(sizes + row, mask=inside, other=0.0)
    # Rows beyond the radius have all centers as candidates.
    norm = tl.where(norm < FAR, norm, 0.0)
    beyond = norm + threshold - 2.0**-19 * (norm + tl.abs(threshold))
    return tl.sqrt(tl.maximum(beyond, 0.0)) * (1.0 - 2.0**-20)


@triton.jit
def decide_in_singles(
    state, X, centers, open_rows, thresholds, candidates, counts, sizes, labels, slack, moved_rows,
    moved_from, close, d, scale: tl.float64, BLOCK: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Settle the open rows whose two candidates squares in float32 can decide between.

    X, centers  IN   float32
    close       OUT  the places of all others in the list of open rows
    """
    count = tl.load(state + OPEN)
    for begin in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
        place = begin + tl.arange(0, BLOCK)
        inside = place < count
        row = tl.load(open_rows + place, mask=inside, other=0)
        two = inside & (tl.load(counts + place, mask=inside, other=0) == 2)
        listed = candidates + place.to(tl.int64) * SLOTS
        k = tl.load(listed, mask=two, other=0)
        other = tl.load(listed + 1, mask=two, other=0)
        x = (X + row.to(tl.int64) * d)[:, None]
        c = (centers + k.to(tl.int64) * d)[:, None]
        c2 = (centers + other.to(tl.int64) * d)[:, None]
        total = tl.zeros((BLOCK, WIDTH), tl.float32)
        total2 = tl.zeros((BLOCK, WIDTH), tl.float32)
        for start in range(0, d, WIDTH):
            j = (start + tl.arange(0, WIDTH))[None, :]
            there = two[:, None] & (j < d)
            numbers = tl.load(x + j, mask=there, other=0.0)
            difference = numbers - tl.load(c + j, mask=there, other=0.0)
            total = tl.fma(difference, difference, total)
            difference = numbers - tl.load(c2 + j, mask=there, other=0.0)
            total2 = tl.fma(difference, difference, total2)
        square, square2 = tl.sum(total, axis=1), tl.sum(total2, axis=1)
        # A term is rounded three times, then in every addition: to a partial sum, and in the tree
        # that makes one sum of these. What is below 2**-126 is lost. Twice that, to be safe.
        error = (tl.cdiv(d, WIDTH) + 10.0) * 2.0**-23
        lost = (d + 1.0) * 2.0**-125
        least, most = tl.minimum(square, square2), tl.maximum(square, square2)
        # Of infinite squares nothing is known: they are not above an infinite border.
        sure = two & (most > least * (1.0 + 4.0 * error) + 4.0 * lost)
        best = least.to(tl.float64) * (1.0 + 2.0 * error) + 2.0 * lost
        after = tl.maximum(most.to(tl.float64) * (1.0 - error) - lost, 0.0)
        room = _room(best, after, _ruled_out(thresholds, sizes, place, row, sure), scale)
        label = tl.where(square < square2, k, other)
        settle(sure, row, label, room, labels, slack, moved_rows, moved_from, state)
        tl.store(counts + place, tl.zeros_like(place), mask=sure)
        append(close, state + CLOSE, place, inside & ~sure, close, place, False)


@triton.jit
def resolve(
    state, X, centers, open_rows, thresholds, candidates, counts, sizes, labels, slack, moved_rows,
    moved_from, hard_rows, close, d, scale: tl.float64, BLOCK: tl.constexpr,
):  # fmt: skip
    """Give every open row the lowest of its canonically nearest candidates.

    close  IN  places of the undecided rows; None for all of them
    """
    count = tl.load(state + (OPEN if close is None else CLOSE))
    for begin in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
        place = begin + tl.arange(0, BLOCK)
        inside = place < count
        if close is not None:
            place = tl.load(close + place, mask=inside, other=0)
        row = tl.load(open_rows + place, mask=inside, other=0)
        many = tl.load(counts + place, mask=inside, other=0)
        tl.debug_barrier()  # as in settle
        tl.store(counts + place, tl.zeros_like(many), mask=inside)
        # None at all would mean scores that are wrong by more than they may be: compute everything.
        hard = inside & ((many > SLOTS) | (many == 0))
        append(hard_rows, state + HARD, row, hard, hard_rows, row, False)
        inside = inside & ~hard
        slot = tl.arange(0, SLOTS)
        some = inside[:, None] & (slot[None, :] < many[:, None])
        k = tl.load(
            candidates + place[:, None].to(tl.int64) * SLOTS + slot[None, :], mask=some, other=0
        )
        distance = canonical(X, centers, row[:, None] + tl.zeros_like(k), k, some, d, BLOCK, SLOTS)
        distance = tl.where(some, distance, float("inf"))
        best = tl.min(distance, axis=1)
        label = tl.min(tl.where(some & (distance == best[:, None]), k, 2147483647), axis=1)
        after = tl.min(tl.where(k == label[:, None], float("inf"), distance), axis=1)
        room = _room(best, after, _ruled_out(thresholds, sizes, place, row, inside), scale)
        settle(inside, row, label, room, labels, slack, moved_rows, moved_from, state)


@triton.jit(do_not_specialize=["K"])
def resolve_hard(
    state, X, centers, hard_rows, labels, slack, moved_rows, moved_from, d, K, BLOCK: tl.constexpr
):
    """Compute all canonical distances of the rows that have many candidates, a program for each."""
    count = tl.load(state + HARD)
    for at in range(tl.program_id(0), count, tl.num_programs(0)):
        row = tl.load(hard_rows + at)
        best = tl.full((BLOCK,), float("inf"), tl.float64)
        label = tl.full((BLOCK,), 2147483647, tl.int32)
        for begin in range(0, K, BLOCK):
            k = begin + tl.arange(0, BLOCK)
            wide = k[:, None]
            distance = canonical(X, centers, row + tl.zeros_like(wide), wide, wide < K, d, BLOCK, 1)
            distance = tl.reshape(distance, (BLOCK,))
            nearer = (k < K) & (distance < best)
            best = tl.where(nearer, distance, best)
            label = tl.where(nearer, k, label)
        least = tl.min(best)
        new = tl.min(tl.where(best == least, label, 2147483647))
        old = tl.load(labels + row)
        tl.debug_barrier()  # as in settle
        tl.store(slack + row, -1.0)
        if new != old:
            tl.store(labels + row, new)
            place = tl.atomic_add(state + MOVED, 1, sem="relaxed")
            tl.store(moved_rows + place, row)
            tl.store(moved_from + place, old)


@triton.jit(do_not_specialize=["count", "K"])
def two_nearest(X, rows, centers, nearest, second, count, d, K, BLOCK: tl.constexpr):
    """Write the smallest and second smallest canonical distance of some rows, a program for each.

    nearest, second  OUT  (count,) float64; the second is infinite for K = 1
    """
    at = tl.program_id(0)
    row = tl.load(rows + at)
    best = tl.full((BLOCK,), float("inf"), tl.float64)
    after = tl.full((BLOCK,), float("inf"), tl.float64)
    for begin in range(0, K, BLOCK):
        k = (begin + tl.arange(0, BLOCK))[:, None]
        distance = canonical(X, centers, row + tl.zeros_like(k), k, k < K, d, BLOCK, 1)
        distance = tl.where(k < K, distance, float("inf"))
        distance = tl.reshape(distance, (BLOCK,))
        after = tl.minimum(after, tl.maximum(best, distance))
        best = tl.minimum(best, distance)
    least, place = tl.min(best, axis=0, return_indices=True)
    lane = tl.arange(0, BLOCK)
    tl.store(nearest + at, least)
    tl.store(second + at, tl.min(tl.where(lane == place, after, best)))


@triton.jit(do_not_specialize=["n", "K"])
def all_distances(X, centers, out, n, d, K, BLOCK: tl.constexpr, COLUMNS: tl.constexpr):
    """Write the (n, K) canonical distances to all centers."""
    i = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None]
    k = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    inside = (i < n) & (k < K)
    row, column = i + tl.zeros_like(k), k + tl.zeros_like(i)
    distance = canonical(X, centers, row, column, inside, d, BLOCK, COLUMNS)
    tl.store(out + i.to(tl.int64) * K + k, distance, mask=inside)
