"""Few columns: which rows are undecided, and one pass that assigns them and adds all up.

Differences are squared in float32, with a bound on the rounding (`screening`); rows that this
cannot decide get canonical distances in the same program. Launched with `enable_fp_fusion=False`:
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
    LARGEST_SHIFT,
    MOVED,
    append,
)

_NEAR = tl.constexpr(3.0)
"""Centers are near each other up to so many times the square of the smallest distance.

Most points are less than half as far from theirs. With more centers among the near ones their
shifts bind longer, with fewer they bind less often; between 2 and 4 it makes little difference.
"""
_GROUP = tl.constexpr(4)
"""Centers of which only the nearest is followed. There are rows for whole groups of them."""
_LANES = tl.constexpr(16)
"""Centers that a row is compared with at once where its label is open."""


@triton.jit
def _neighbors(short_centers, k, begin, K, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Return squared distances of some centers to one, FAR for none and for itself."""
    other = begin + tl.arange(0, BLOCK)
    there = (other < K) & (other != k)
    v = tl.zeros((BLOCK,), tl.float32)
    for j in tl.static_range(WIDTH):
        mine = tl.load(short_centers + k * WIDTH + j)
        difference = tl.load(short_centers + other * WIDTH + j, mask=there, other=0.0) - mine
        v += difference * difference
    return tl.where(there, v, FAR)


@triton.jit
def _at_least(v, gamma, WIDTH: tl.constexpr):
    """Return what two centers are certainly apart whose short copies have a square above v."""
    least = tl.maximum(v * (1.0 - (WIDTH + 8.0) * 2.0**-23) - 1.0e-30, 0.0)
    return tl.sqrt(least) * (1.0 - 2.0**-20) - 2.0 * gamma


@triton.jit(do_not_specialize=["K"])
def find_neighbors(
    state, short_centers, shifts, reach, apart, wide, near, K, WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Find how far the nearest other center is, and how far the centers near by have moved.

    apart  OUT  (K,) float32, at most the scaled distance to any other center
    wide   OUT  (K,) float32, at most that to any center that is not near
    near   OUT  (K,) float32, the largest of the shifts of those that are
    """
    if tl.load(state + DONE) != 0:
        return
    k = tl.program_id(0)
    nearest = tl.full((BLOCK,), FAR, tl.float32)
    for begin in range(0, K, BLOCK):
        nearest = tl.minimum(nearest, _neighbors(short_centers, k, begin, K, WIDTH, BLOCK))
    least = tl.min(nearest)
    border = tl.minimum(least, 1.0e37) * _NEAR
    moved = tl.zeros((BLOCK,), tl.float32)
    for begin in range(0, K, BLOCK):
        is_near = _neighbors(short_centers, k, begin, K, WIDTH, BLOCK) <= border
        shift = tl.load(shifts + begin + tl.arange(0, BLOCK), mask=is_near, other=0.0)
        moved = tl.maximum(moved, shift)
    gamma = tl.load(reach + LARGEST_ERROR).to(tl.float32, bitcast=True)
    tl.store(apart + k, _at_least(least, gamma, WIDTH))
    tl.store(wide + k, _at_least(border, gamma, WIDTH))
    tl.store(near + k, tl.max(moved))


@triton.jit
def _wrong(errors, row, inside, reach):
    """Return how far the short copies of rows and of any center are off, together."""
    gamma = tl.load(reach + LARGEST_ERROR).to(tl.float32, bitcast=True)
    wrong = gamma + 1.0e-37  # of 8 numbers below 2**-126, at most
    if errors is not None:
        wrong = gamma + tl.load(errors + row, mask=inside, other=0.0)
    return wrong


@triton.jit
def _less(room, loss):
    """Return at most room - loss; loss is rounded to nearest."""
    loss = loss * (1.0 + 2.0**-20)
    left = room - loss
    return left - (tl.abs(room) + loss) * 2.0**-22


@triton.jit
def _beyond(far, high):
    """Return at most far - 2 high."""
    return far - 2.0 * high - (tl.abs(far) + 2.0 * high) * 2.0**-20


@triton.jit(do_not_specialize=["n"])
def select_near(
    state, labels, slack, shifts, reach, active, points, errors, short_centers, apart, wide, near,
    n, margin, WIDTH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """List the points whose nearest center may have changed.

    Let u be at least the distance of a point to its own center c, after the shifts. A center that
    is f from c is at least f - u from the point: with f for all, `apart`, none is nearer where u is
    at most half of it. Those that are not near c are at least `wide` from it, and the others have
    come nearer by `near` at most, and by the shift of c (Hamerly's bounds, for neighbors only).

    slack  IN/OUT  (n,) float32, at most (distance to any other center) - (distance to its own)
    errors         as in `assign_rows`
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    done = tl.load(state + DONE)
    label = tl.load(labels + i, mask=inside, other=0)
    room = tl.load(slack + i, mask=inside, other=FAR)
    largest = tl.load(reach + LARGEST_SHIFT).to(tl.float32, bitcast=True)
    own = tl.maximum(label, 0)
    v = tl.zeros((BLOCK,), tl.float32)
    for j in tl.static_range(WIDTH):
        x = tl.load(points + i.to(tl.int64) * WIDTH + j, mask=inside, other=0.0)
        difference = x - tl.load(short_centers + own * WIDTH + j)
        v += difference * difference
    high = tl.sqrt(v * (1.0 + (WIDTH + 8.0) * 2.0**-23) + 1.0e-30) * (1.0 + 2.0**-20)
    high += _wrong(errors, i, inside, reach)
    shift = tl.load(shifts + own)
    left = _less(room, shift + largest)
    around = tl.minimum(
        _less(room, shift + tl.load(near + own)), _beyond(tl.load(wide + own), high)
    )
    around = tl.maximum(around, _beyond(tl.load(apart + own), high))
    left = tl.where(label >= 0, tl.maximum(left, around), left)
    if done != 0:
        return
    tl.debug_barrier()  # as in settle
    tl.store(slack + i, left, mask=inside)
    append(active, state + ACTIVE, i, inside & (left <= margin), active, i, False)


@triton.jit
def _squares(points, start, c, WIDTH: tl.constexpr):
    """Return |x - c|^2 of rows in float32; c may be one center for all, or one for each."""
    difference = tl.load(points + start) - tl.load(c)
    v = difference * difference
    for j in tl.static_range(1, WIDTH):
        difference = tl.load(points + start + j) - tl.load(c + j)
        v = tl.fma(difference, difference, v)
    return v


@triton.jit
def _two_smallest(
    points, start, short_centers, K, WIDTH: tl.constexpr, ROWS: tl.constexpr
):  # fmt: skip
    """Return the two smallest |x - c|^2 of each row in float32, and the center of the first.

    A thread has rows of its own and looks at one center after the other. To follow the two smallest
    takes as long as to find a square, so that this is done for the smallest of each group alone;
    the group that has the very smallest is read once more.
    """
    first = tl.full((ROWS,), FAR, tl.float32)
    second = tl.full((ROWS,), FAR, tl.float32)
    group = tl.zeros((ROWS,), tl.int32)
    for begin in range(0, K, _GROUP):
        least = _squares(points, start, short_centers + begin * WIDTH, WIDTH)
        for k in tl.static_range(1, _GROUP):
            v = _squares(points, start, short_centers + (begin + k) * WIDTH, WIDTH)
            least = tl.minimum(least, v)
        group = tl.where(least < first, begin, group)
        second = tl.minimum(second, tl.maximum(first, least))
        first = tl.minimum(first, least)
    first = tl.full((ROWS,), FAR, tl.float32)
    label = group
    for k in tl.static_range(_GROUP):
        v = _squares(points, start, short_centers + (group + k) * WIDTH, WIDTH)
        label = tl.where(v < first, group + k, label)
        second = tl.minimum(second, tl.maximum(first, v))
        first = tl.minimum(first, v)
    return first, second, label


@triton.jit
def _decide(v1, v2, wrong, terms):
    """Return which squares do not rule a center out, and a bound on the room (screening).

    wrong  how far the short copies of the row and of any center are off, together
    """
    error = (terms + 8.0) * 2.0**-23
    tiny = 1.0e-30
    border = tl.sqrt(v1 * (1.0 + 2.0 * error) + tiny) * (1.0 + 2.0**-20) + 2.0 * wrong
    threshold = border * border * (1.0 + 3.0 * error + 2.0**-20) + tiny
    high = tl.sqrt(v1 * (1.0 + error) + tiny) * (1.0 + 2.0**-20) + wrong
    other = tl.sqrt(tl.maximum(v2 * (1.0 - error) - tiny, 0.0)) * (1.0 - 2.0**-20) - wrong
    return threshold, other - high - (other + high) * 2.0**-20


@triton.jit
def _distances(X, centers, row, k, mask, WIDTH: tl.constexpr):
    """Return the canonical distances of rows, each to one center; k may be one for all."""
    x = X + row.to(tl.int64) * WIDTH
    c = centers + k * WIDTH
    total = tl.zeros(row.shape, tl.float64)
    for j in tl.static_range(WIDTH):
        a = tl.load(x + j, mask=mask, other=0.0).to(tl.float64)
        b = tl.load(c + j).to(tl.float64)
        total += (a - b) * (a - b)
    return total


@triton.jit
def _nearest(X, centers, row, mask, K, scale, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """Return the lowest of the canonically nearest centers of some rows, and the room it has.

    Several threads share the centers of a row: where few rows are asked for, as nearly always, all
    of the device waits for them.
    """
    x = X + row.to(tl.int64) * WIDTH
    best = tl.full((ROWS, _LANES), float("inf"), tl.float64)
    after = tl.full((ROWS, _LANES), float("inf"), tl.float64)
    label = tl.zeros((ROWS, _LANES), tl.int32)
    for begin in range(0, K, _LANES):
        k = begin + tl.arange(0, _LANES)
        distance = tl.zeros((ROWS, _LANES), tl.float64)
        for j in tl.static_range(WIDTH):
            a = tl.load(x + j, mask=mask, other=0.0).to(tl.float64)
            b = tl.load(centers + k * WIDTH + j, mask=k < K, other=0.0).to(tl.float64)
            difference = a[:, None] - b[None, :]
            distance += difference * difference
        distance = tl.where((k < K)[None, :], distance, float("inf"))
        label = tl.where(distance < best, k[None, :], label)
        after = tl.minimum(after, tl.maximum(best, distance))
        best = tl.minimum(best, distance)
    least = tl.min(best, axis=1)
    nearest = tl.min(tl.where(best == least[:, None], label, K), axis=1)
    first = (best == least[:, None]) & (label == nearest[:, None])
    own = (tl.sqrt(least) * scale).to(tl.float32)
    far = tl.sqrt(tl.min(tl.where(first, after, best), axis=1)) * scale
    far = tl.minimum(far.to(tl.float32), FAR)
    room = far - own - (far + own) * 2.0**-16
    return nearest, tl.where(far < FAR, room, -1.0)


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


@triton.jit
def _move_rows(
    state, X, centers, labels, moved_rows, moved_from, at, end, sums, arrivals, gap, K, slots,
    high, low, WIDTH: tl.constexpr, CHUNK: tl.constexpr, DIGITS: tl.constexpr,
    REPLICAS: tl.constexpr,
):  # fmt: skip
    """Bring gap and sums up to date with some rows of the list, the last of them before `end`."""
    place = at + tl.arange(0, CHUNK)
    there = place < end
    row = tl.load(moved_rows + place, mask=there, other=0)
    old = tl.load(moved_from + place, mask=there, other=-1)
    new = tl.load(labels + row, mask=there, other=0)
    left = there & (old >= 0)
    if tl.max(left.to(tl.int32)) > 0:
        before = _distances(X, centers, row, tl.maximum(old, 0), left, WIDTH)
        after = _distances(X, centers, row, new, left, WIDTH)
        deposit_terms(before - after, left, gap, low, state + INEXACT)
    _add_rows(
        X, row, old, new, there, left, sums, arrivals, slots, K, high, WIDTH, DIGITS, REPLICAS
    )


@triton.jit
def _settle_open(
    X, centers, row, undecided, many, label, room, open_rows, found, rooms, K, scale,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr,
):  # fmt: skip
    """Return labels and rooms with those of undecided rows, by canonical distances.

    They are listed at the places of the program.
    """
    begin = tl.program_id(0) * ROWS
    spot = begin + tl.cumsum(undecided.to(tl.int32), 0) - 1
    tl.store(open_rows + spot, row, mask=undecided)
    tl.debug_barrier()
    AT_ONCE: tl.constexpr = CHUNK // _LANES
    for at in range(begin, begin + many, AT_ONCE):
        place = at + tl.arange(0, AT_ONCE)
        there = place < begin + many
        some = tl.load(open_rows + place, mask=there, other=0)
        nearest, known = _nearest(X, centers, some, there, K, scale, WIDTH, AT_ONCE)
        tl.store(found + place, nearest, mask=there)
        tl.store(rooms + place, known, mask=there)
    tl.debug_barrier()
    label = tl.load(found + spot, mask=undecided, other=label)
    return label, tl.load(rooms + spot, mask=undecided, other=room)


@triton.jit(do_not_specialize=["n", "K", "slots", "high", "low"])
def assign_rows(
    state, X, points, errors, short_centers, centers, reach, active, labels, slack, open_rows,
    found, rooms, moved_rows, moved_from, sums, arrivals, gap, n, K, slots, high, low,
    scale: tl.float64, WIDTH: tl.constexpr, ROWS: tl.constexpr, CHUNK: tl.constexpr,
    DIGITS: tl.constexpr, REPLICAS: tl.constexpr,
):  # fmt: skip
    """Give every active row the label of its nearest center, the lowest of several.

    errors      IN      (n,) float32, how far the short copies of rows are off; None where they are
                        the rows themselves, scaled (screening)
    labels      IN/OUT  (n,) int32
    slack       OUT     (n,) float32, at most (distance to any other center) - (distance to its own)
    open_rows, found, rooms  (n,) to work with
    moved_rows  OUT     the rows whose label changed
    moved_from  OUT     the labels that they had
    sums        IN/OUT  as in `moments.move_rows`, None if they and the gap are not asked for
    arrivals    IN/OUT  (REPLICAS, K) int64, the sum of which is how many points each cluster has
    gap         IN/OUT  what the moved points gain (`exact.deposit_terms`)
    CHUNK       IN      how many threads there are: so many moved rows are worked on at once
    """
    # No row is active when the run has ended. What is asked for early need not be waited for.
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row = tl.load(active + place, mask=place < n, other=0)
    count = tl.load(state + ACTIVE)
    if tl.program_id(0) * ROWS >= count:
        return
    inside = place < count
    row = tl.where(inside, row, 0)
    old = tl.load(labels + row)
    wrong = _wrong(errors, row, inside, reach)
    start = row.to(tl.int64) * WIDTH
    v1, v2, label = _two_smallest(points, start, short_centers, K, WIDTH, ROWS)
    threshold, room = _decide(v1, v2, wrong, WIDTH)
    undecided = inside & (v2 <= threshold)
    many = tl.sum(undecided.to(tl.int32))
    if many > 0:
        label, room = _settle_open(
            X, centers, row, undecided, many, label, room, open_rows, found, rooms, K, scale,
            WIDTH, ROWS, CHUNK,
        )  # fmt: skip
    tl.store(slack + row, room, mask=inside)
    new = inside & (label != old)
    many = tl.sum(new.to(tl.int32))
    if many > 0:
        # All have read the old labels before one of them writes: `many` is of all.
        tl.store(labels + row, label, mask=new)
        begin = tl.atomic_add(state + MOVED, many, sem="relaxed")
        spot = begin + tl.cumsum(new.to(tl.int32), 0) - 1
        tl.store(moved_rows + spot, row, mask=new)
        tl.store(moved_from + spot, old, mask=new)
        if sums is not None:
            tl.debug_barrier()
            for at in range(begin, begin + many, CHUNK):
                _move_rows(
                    state, X, centers, labels, moved_rows, moved_from, at, begin + many, sums,
                    arrivals, gap, K, slots, high, low, WIDTH, CHUNK, DIGITS, REPLICAS,
                )  # fmt: skip
