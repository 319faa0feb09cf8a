"""Kernels that look at canonical distances: every center that the screen could not rule out.

Launched with `enable_fp_fusion=False`: each operation is rounded by itself.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.lists import (
    DONE,
    FAR,
    HARD,
    MOVED,
    OPEN,
    append,
    settle,
)
from wolfmeans.engines.gpu.kernels.screen import SLOTS


@triton.jit
def _add(total, a, b):
    """Add a square: rounded operation by operation in float64, fused in float32."""
    if total.dtype == tl.float64:
        difference = a.to(tl.float64) - b.to(tl.float64)
        return total + difference * difference
    else:
        difference = a - b
        return tl.fma(difference, difference, total)


@triton.jit
def _four(pointers, start, mask, BLOCK: tl.constexpr, COLUMNS: tl.constexpr):
    """Return four coordinates, which are loaded at once."""
    four = tl.arange(0, 4)[None, None, :]
    loaded = tl.load(pointers[:, :, None] + (start + four), mask=mask[:, :, None], other=0.0)
    even, odd = tl.split(tl.reshape(loaded, (BLOCK, COLUMNS, 2, 2)))
    x0, x2 = tl.split(even)
    x1, x3 = tl.split(odd)
    return x0, x1, x2, x3


@triton.jit
def _squares(
    X, centers, row, k, mask, d, kind: tl.constexpr, BLOCK: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """Return (BLOCK, COLUMNS) sums of squares, of one coordinate after the other.

    Eight coordinates are on their way at once, where there are so many.
    """
    x = X + row.to(tl.int64) * d
    c = centers + k.to(tl.int64) * d
    total = tl.zeros((BLOCK, COLUMNS), kind)
    unrolled = d // 8 * 8
    for start in range(0, unrolled, 8):
        a0, a1, a2, a3 = _four(x, start, mask, BLOCK, COLUMNS)
        b0, b1, b2, b3 = _four(c, start, mask, BLOCK, COLUMNS)
        a4, a5, a6, a7 = _four(x, start + 4, mask, BLOCK, COLUMNS)
        b4, b5, b6, b7 = _four(c, start + 4, mask, BLOCK, COLUMNS)
        total = _add(_add(_add(_add(total, a0, b0), a1, b1), a2, b2), a3, b3)
        total = _add(_add(_add(_add(total, a4, b4), a5, b5), a6, b6), a7, b7)
    for j in range(unrolled, d):
        a = tl.load(x + j, mask=mask, other=0.0)
        b = tl.load(c + j, mask=mask, other=0.0)
        total = _add(total, a, b)
    return total


@triton.jit
def canonical(X, centers, row, k, mask, d, BLOCK: tl.constexpr, COLUMNS: tl.constexpr):
    """Return the (BLOCK, COLUMNS) canonical distances between rows and centers."""
    return _squares(X, centers, row, k, mask, d, tl.float64, BLOCK, COLUMNS)


@triton.jit
def resolve(
    state, X, centers, open_rows, thresholds, candidates, counts, sizes, labels, slack, moved_rows,
    moved_from, hard_rows, d, scale: tl.float64, SHORT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Give every open row the lowest of its canonically nearest candidates.

    Where all numbers are float32 (SHORT), squares in that tell nearly all of them apart, and only
    those are looked at canonically that they do not.
    """
    if tl.load(state + DONE) != 0:
        return
    count = tl.load(state + OPEN)
    for begin in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
        place = begin + tl.arange(0, BLOCK)
        inside = place < count
        row = tl.load(open_rows + place, mask=inside, other=0)
        many = tl.load(counts + place, mask=inside, other=0)
        tl.debug_barrier()  # as in settle
        tl.store(counts + place, tl.zeros_like(many), mask=inside)
        # None at all would mean scores that are wrong by more than they may be: look at everything.
        hard = inside & ((many > SLOTS) | (many == 0))
        append(hard_rows, state + HARD, row, hard, hard_rows, row, False)
        inside = inside & ~hard
        slot = tl.arange(0, SLOTS)
        some = inside[:, None] & (slot[None, :] < many[:, None])
        k = tl.load(
            candidates + place[:, None].to(tl.int64) * SLOTS + slot[None, :], mask=some, other=0
        )
        rows = row[:, None] + tl.zeros_like(k)
        if SHORT:
            squares = _squares(X, centers, rows, k, some, d, tl.float32, BLOCK, SLOTS)
            # Differences, squares and additions are rounded once each, or lost below 2**-126.
            error, lost = (d + 3.0) * 2.0**-23, (d + 1.0) * 2.0**-125
            squares = tl.where(some, squares, float("inf"))
            least = tl.min(squares, axis=1)
            border = least * (1.0 + 4.0 * error) + 4.0 * lost
            # Infinite squares, of which float32 knows nothing, are not below the border.
            doubtful = some & ~(squares > border[:, None])
            close = tl.sum(doubtful.to(tl.int32), axis=1) > 1
            some = some & close[:, None] & doubtful
            number = tl.min(tl.where(doubtful, k, 2147483647), axis=1)
            others = tl.where(k == number[:, None], float("inf"), squares)
            best = least.to(tl.float64) * (1.0 + 2.0 * error) + 2.0 * lost
            after = tl.min(others, axis=1).to(tl.float64) * (1.0 - error) - lost
            after = tl.where(after > 0.0, after, 0.0)
            label = number
            if tl.max(close.to(tl.int32)) > 0:
                distance = canonical(X, centers, rows, k, some, d, BLOCK, SLOTS)
                distance = tl.where(some, distance, float("inf"))
                found = tl.min(distance, axis=1)
                nearest = some & (distance == found[:, None])
                number = tl.min(tl.where(nearest, k, 2147483647), axis=1)
                label = tl.where(close, number, label)
                # The room of such a row is next to nothing.
                after = tl.where(close, best, after)
        else:
            distance = canonical(X, centers, rows, k, some, d, BLOCK, SLOTS)
            distance = tl.where(some, distance, float("inf"))
            best = tl.min(distance, axis=1)
            label = tl.min(tl.where(some & (distance == best[:, None]), k, 2147483647), axis=1)
            after = tl.min(tl.where(k == label[:, None], float("inf"), distance), axis=1)
        # Centers that are no candidates are farther than the threshold says.
        ruled_out = tl.load(thresholds + place, mask=inside, other=0.0)
        norm = tl.load(sizes + row, mask=inside, other=0.0)
        # Rows beyond the radius have all centers as candidates.
        norm = tl.where(norm < FAR, norm, 0.0)
        beyond = norm + ruled_out - 2.0**-19 * (norm + tl.abs(ruled_out))
        beyond = tl.sqrt(tl.maximum(beyond, 0.0)) * (1.0 - 2.0**-20)
        least = tl.minimum((tl.sqrt(after) * scale).to(tl.float32), beyond)
        own = (tl.sqrt(best) * scale).to(tl.float32)
        room = least - own - (tl.abs(least) + own) * 2.0**-16
        room = tl.where(least < FAR, room, -1.0)
        settle(inside, row, label, room, labels, slack, moved_rows, moved_from, state)


@triton.jit(do_not_specialize=["K"])
def resolve_hard(
    state, X, centers, hard_rows, labels, slack, moved_rows, moved_from, d, K, BLOCK: tl.constexpr
):
    """Look at all canonical distances of the rows that have many candidates, a program for each."""
    if tl.load(state + DONE) != 0:
        return
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


@triton.jit(do_not_specialize=["n"])
def own_distances(X, centers, labels, out, n, d, BLOCK: tl.constexpr):
    """Write the canonical distance of each point to the center of its label.

    labels  IN   (n,) int32, or one for all points where it is None
    out     OUT  (n,) float64
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    k = tl.zeros((BLOCK,), tl.int32)
    if labels is not None:
        k = tl.load(labels + i, mask=inside, other=0)
    distance = canonical(X, centers, i[:, None], k[:, None], inside[:, None], d, BLOCK, 1)
    tl.store(out + i, tl.reshape(distance, (BLOCK,)), mask=inside)


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
