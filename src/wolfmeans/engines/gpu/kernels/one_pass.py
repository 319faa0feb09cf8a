"""Few columns: one pass that assigns rows, and adds up the gap and the sums of their clusters.

Differences are squared in float32, with a bound on the rounding (`screening`); rows that this
cannot decide are looked at canonically in the same program. Launched with `enable_fp_fusion=False`:
only what is written as a fused operation is one, and only where bounds hold either way.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.exact import deposit_terms, power_of_two
from wolfmeans.engines.gpu.kernels.lists import (
    ACTIVE,
    DONE,
    FAR,
    INEXACT,
    LARGEST_ERROR,
    MOVED,
    append,
)

_NOBODY = tl.constexpr(2147483647)
_AT_ONCE = tl.constexpr(4)
"""Centers that are looked at canonically side by side."""


@triton.jit
def _squares(points, start, short_centers, k, there, WIDTH: tl.constexpr):
    """Return the (rows, centers) |x - c|^2 in float32; far beyond all where there is no center."""
    x = tl.load(points + start)
    c = tl.load(short_centers + k * WIDTH, mask=there, other=1.0e17)
    difference = x[:, None] - c[None, :]
    total = difference * difference
    for j in tl.static_range(1, WIDTH):
        x = tl.load(points + start + j)
        c = tl.load(short_centers + k * WIDTH + j, mask=there, other=1.0e17)
        difference = x[:, None] - c[None, :]
        total = tl.fma(difference, difference, total)
    return total


@triton.jit
def _two_smallest(
    points, start, short_centers, K, WIDTH: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, BITS: tl.constexpr,
):  # fmt: skip
    """Return the two smallest squares of each row, and the center of the first.

    A square has the number of its tile in its last BITS bits; each column of the tile keeps its two
    smallest.
    """
    first = tl.full((ROWS, COLUMNS), FAR, tl.float32)
    second = tl.full((ROWS, COLUMNS), FAR, tl.float32)
    low: tl.constexpr = (1 << BITS) - 1
    tile = 0
    for begin in range(0, K, COLUMNS):
        k = begin + tl.arange(0, COLUMNS)
        v = _squares(points, start, short_centers, k, k < K, WIDTH)
        v = ((v.to(tl.int32, bitcast=True) & ~low) | tile).to(tl.float32, bitcast=True)
        second = tl.minimum(second, tl.maximum(first, v))
        first = tl.minimum(first, v)
        tile += 1  # noqa: SIM113 - enumerate is not Triton
    v1, column = tl.min(first, axis=1, return_indices=True)
    columns = tl.arange(0, COLUMNS)[None, :]
    v2 = tl.min(tl.where(columns == column[:, None], second, first), axis=1)
    return v1, v2, (v1.to(tl.int32, bitcast=True) & low) * COLUMNS + column


@triton.jit
def _decide(v1, v2, wrong, terms, tiles_error):
    """Return which squares do not rule a center out, and a bound on the room (screening).

    wrong  how far the short copies of the row and of any center are off, together
    """
    error = (terms + 8.0) * 2.0**-23 + tiles_error
    tiny = 1.0e-30
    border = tl.sqrt(v1 * (1.0 + 2.0 * error) + tiny) * (1.0 + 2.0**-20) + 2.0 * wrong
    threshold = border * border * (1.0 + 3.0 * error + 2.0**-20) + tiny
    high = tl.sqrt(v1 * (1.0 + error) + tiny) * (1.0 + 2.0**-20) + wrong
    other = tl.sqrt(tl.maximum(v2 * (1.0 - error) - tiny, 0.0)) * (1.0 - 2.0**-20) - wrong
    return threshold, other - high - (other + high) * 2.0**-20


@triton.jit
def _distances(X, centers, row, k, mask, WIDTH: tl.constexpr):
    """Return canonical distances between rows and centers, tensors of one shape."""
    x = X + row.to(tl.int64) * WIDTH
    c = centers + k * WIDTH
    total = tl.zeros(mask.shape, tl.float64)
    for j in tl.static_range(WIDTH):
        a = tl.load(x + j, mask=mask, other=0.0).to(tl.float64)
        b = tl.load(c + j, mask=mask, other=0.0).to(tl.float64)
        total += (a - b) * (a - b)
    return total


@triton.jit
def _nearest(X, centers, row, mask, K, scale, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """Return the lowest of the canonically nearest centers of some rows, and the room it has."""
    best = tl.full((ROWS, _AT_ONCE), float("inf"), tl.float64)
    after = tl.full((ROWS, _AT_ONCE), float("inf"), tl.float64)
    at = tl.full((ROWS, _AT_ONCE), _NOBODY, tl.int32)
    rows = row[:, None] + tl.zeros((ROWS, _AT_ONCE), tl.int32)
    for begin in range(0, K, _AT_ONCE):
        k = (begin + tl.arange(0, _AT_ONCE))[None, :] + tl.zeros((ROWS, _AT_ONCE), tl.int32)
        there = mask[:, None] & (k < K)
        distance = _distances(X, centers, rows, k, there, WIDTH)
        distance = tl.where(k < K, distance, float("inf"))
        nearer = distance < best
        after = tl.minimum(after, tl.maximum(best, distance))
        best = tl.where(nearer, distance, best)
        at = tl.where(nearer, k, at)
    least = tl.min(best, axis=1)
    label = tl.min(tl.where(best == least[:, None], at, _NOBODY), axis=1)
    other = tl.min(tl.where(at == label[:, None], after, best), axis=1)
    own = (tl.sqrt(least) * scale).to(tl.float32)
    far = tl.minimum((tl.sqrt(other) * scale).to(tl.float32), FAR)
    room = far - own - (far + own) * 2.0**-16
    return label, tl.where(far < FAR, room, -1.0)


@triton.jit
def _add_rows(
    X, row, old, new, here, left, sums, arrivals, slots, K, high, WIDTH: tl.constexpr,
    DIGITS: tl.constexpr, REPLICAS: tl.constexpr,
):  # fmt: skip
    """Add rows to the sums of their new clusters; take those that had an old one out of that."""
    replica = tl.program_id(0).to(tl.int64) % REPLICAS
    one = tl.full(row.shape, 1, tl.int64)
    tl.atomic_add(arrivals + replica * K + new, one, mask=here, sem="relaxed")
    tl.atomic_add(arrivals + replica * K + old, -one, mask=left, sem="relaxed")
    scale = power_of_two(32 - high)
    for j in tl.static_range(WIDTH):
        value = tl.load(X + row.to(tl.int64) * WIDTH + j, mask=here, other=0.0).to(tl.float64)
        value = value * scale
        to = sums + replica * slots + new * WIDTH + j
        back = sums + replica * slots + old * WIDTH + j
        for digit in tl.static_range(DIGITS):
            whole = value.to(tl.int64)
            value = (value - whole.to(tl.float64)) * 4294967296.0
            some = whole != 0
            offset = digit * REPLICAS * slots
            tl.atomic_add(to + offset, whole, mask=here & some, sem="relaxed")
            tl.atomic_add(back + offset, -whole, mask=left & some, sem="relaxed")


@triton.jit(do_not_specialize=["K", "slots", "high", "low"])
def assign_rows(
    state, X, points, errors, short_centers, centers, reach, active, labels, slack, moved_rows,
    moved_from, sums, arrivals, gap, K, slots, high, low, scale: tl.float64, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, BITS: tl.constexpr, DIGITS: tl.constexpr,
    REPLICAS: tl.constexpr,
):  # fmt: skip
    """Give every active row the label of its nearest center, the lowest of several.

    labels      IN/OUT  (n,) int32
    slack       OUT     (n,) float32, at most (distance to any other center) - (distance to its own)
    moved_rows  OUT     the rows whose label changed
    moved_from  OUT     the labels that they had
    sums        IN/OUT  as in `moments.move_rows`, None if they and the gap are not asked for
    arrivals    IN/OUT  (REPLICAS, K) int64, the sum of which is how many points each cluster has
    gap         IN/OUT  what the moved points gain (`exact.deposit_terms`)
    """
    if tl.load(state + DONE) != 0:
        return
    count = tl.load(state + ACTIVE)
    for begin in range(tl.program_id(0) * ROWS, count, tl.num_programs(0) * ROWS):
        place = begin + tl.arange(0, ROWS)
        inside = place < count
        row = tl.load(active + place, mask=inside, other=0)
        start = row.to(tl.int64) * WIDTH
        v1, v2, label = _two_smallest(points, start, short_centers, K, WIDTH, ROWS, COLUMNS, BITS)
        gamma = tl.load(reach + LARGEST_ERROR).to(tl.float32, bitcast=True)
        wrong = tl.load(errors + row) + gamma
        threshold, room = _decide(v1, v2, wrong, WIDTH, 2.0 ** (BITS - 22))
        open_rows = inside & (v2 <= threshold)
        if tl.max(open_rows.to(tl.int32)) > 0:
            nearest, known = _nearest(X, centers, row, open_rows, K, scale, WIDTH, ROWS)
            label = tl.where(open_rows, nearest, label)
            room = tl.where(open_rows, known, room)
        old = tl.load(labels + row, mask=inside, other=0)
        # A value may be held by several threads: all have read it before one of them writes.
        tl.debug_barrier()
        tl.store(slack + row, room, mask=inside)
        new = inside & (label != old)
        if tl.max(new.to(tl.int32)) > 0:
            tl.store(labels + row, label, mask=new)
            append(moved_rows, state + MOVED, row, new, moved_from, old, True)
            if sums is not None:
                left = new & (old >= 0)
                if tl.max(left.to(tl.int32)) > 0:
                    before = _distances(X, centers, row, old, left, WIDTH)
                    after = _distances(X, centers, row, label, left, WIDTH)
                    deposit_terms(before - after, left, gap, low, state + INEXACT)
                _add_rows(
                    X, row, old, label, new, left, sums, arrivals, slots, K, high, WIDTH, DIGITS,
                    REPLICAS,
                )  # fmt: skip
