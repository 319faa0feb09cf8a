"""Kernels that find nearest centers in short arithmetic, and list what that cannot decide.

The bounds are derived in `screening`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.lists import (
    ACTIVE,
    CROWDED,
    FAR,
    OPEN,
    append,
    append_both,
)

NO_CENTER = tl.constexpr(2147483647)
"""Beyond all centers."""
SLOTS = tl.constexpr(8)
"""How many candidates a row may have before it counts as hard."""


@triton.jit
def _scores(
    points, start, x, short_centers, norms, k, depth, WIDTH: tl.constexpr, DEPTH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Return the (ROWS, COLUMNS) scores of a tile: |c|^2 - 2 x.c; FAR beyond the last center."""
    if WIDTH == DEPTH:
        c = tl.load(short_centers + k[None, :] * WIDTH + depth[:, None])
        products = tl.dot(x, c)
    else:
        products = tl.zeros((ROWS, COLUMNS), tl.float32)
        for j in range(0, WIDTH, DEPTH):
            part = tl.load(points + start[:, None] + (j + depth)[None, :])
            c = tl.load(short_centers + k[None, :] * WIDTH + (j + depth)[:, None])
            products = tl.dot(part, c, products)
    return tl.load(norms + k)[None, :] - 2.0 * products


@triton.jit
def _tagged(scores, tag, low):
    """Return scores with a number in their last bits."""
    return ((scores.to(tl.int32, bitcast=True) & ~low) | tag).to(tl.float32, bitcast=True)


@triton.jit
def _center(score, column, low, KEPT: tl.constexpr, NUMBERED: tl.constexpr):
    """Return which center a tagged score of a column belongs to."""
    tag = score.to(tl.int32, bitcast=True) & low
    return tag if NUMBERED else tag * KEPT + column


@triton.jit
def _halves(x, ROWS: tl.constexpr, PARTS: tl.constexpr, KEPT: tl.constexpr):
    """Return the first and the second half of (ROWS, PARTS, KEPT): no thread needs another's."""
    return tl.split(tl.permute(tl.reshape(x, (ROWS, 2, PARTS // 2, KEPT)), (0, 2, 3, 1)))


@triton.jit
def _merged(least, after, ROWS: tl.constexpr, PARTS: tl.constexpr, KEPT: tl.constexpr):
    """Return the two smallest of both halves, given the two smallest of each part."""
    a, b = _halves(least, ROWS, PARTS, KEPT)
    a2, b2 = _halves(after, ROWS, PARTS, KEPT)
    return tl.minimum(a, b), tl.minimum(tl.maximum(a, b), tl.minimum(a2, b2))


@triton.jit
def _two_least(
    v, part, low, UNIT: tl.constexpr, ROWS: tl.constexpr, PARTS: tl.constexpr, KEPT: tl.constexpr,
):  # fmt: skip
    """Return the two smallest scores of each column of (ROWS, PARTS, KEPT).

    They are tagged with the number of their part; `part` is that of the first.
    """
    v = _tagged(v, (part + tl.arange(0, PARTS))[None, :, None] * UNIT, low)
    a, b = _halves(v, ROWS, PARTS, KEPT)
    least, after = tl.minimum(a, b), tl.maximum(a, b)
    if PARTS >= 4:
        least, after = _merged(least, after, ROWS, PARTS // 2, KEPT)
    if PARTS >= 8:
        least, after = _merged(least, after, ROWS, PARTS // 4, KEPT)
    if PARTS >= 16:
        least, after = _merged(least, after, ROWS, PARTS // 8, KEPT)
    if PARTS >= 32:
        least, after = _merged(least, after, ROWS, PARTS // 16, KEPT)
    return tl.reshape(least, (ROWS, KEPT)), tl.reshape(after, (ROWS, KEPT))


@triton.jit
def _smallest(v, ROWS: tl.constexpr, PARTS: tl.constexpr, KEPT: tl.constexpr):
    """Return the smaller ones of both halves of (ROWS, PARTS, KEPT)."""
    a, b = _halves(v, ROWS, PARTS, KEPT)
    return tl.minimum(a, b)


@triton.jit
def _in_group(
    points, start, short_centers, norms, error_bounds, noise, place, k, K, stride: tl.constexpr,
    GROUP: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Return the two smallest scores of each row in its group, and the center of the first.

    k  IN  (ROWS,) the first center of each group; the others follow at a distance
    """
    depth = tl.arange(0, WIDTH)
    x = tl.load(points + start[:, None] + depth[None, :]).to(tl.float32)
    first = tl.full((ROWS,), FAR, tl.float32)
    second = tl.full((ROWS,), FAR, tl.float32)
    label = k
    for member in tl.static_range(GROUP):
        at = k + member * stride
        c = tl.load(short_centers + at[:, None] * WIDTH + depth[None, :]).to(tl.float32)
        v = tl.load(norms + at) - 2.0 * tl.sum(x * c, axis=1)
        if noise is not None:
            wave = tl.load(noise + (place % 64) * 64 + at % 64)
            v += 0.9 * wave * tl.load(error_bounds + at, mask=at < K, other=0.0)
        label = tl.where(v < first, at, label)
        second = tl.minimum(second, tl.maximum(first, v))
        first = tl.minimum(first, v)
    return first, second, label


@triton.jit
def _least(scores, columns, NUMBERED: tl.constexpr):
    """Return the smallest score of each row, in which column it is, and where that is.

    Scores with the numbers of their centers in them are all different: they tell.
    """
    if NUMBERED:
        least = tl.min(scores, axis=1)
        return least, tl.zeros_like(least).to(tl.int32), scores == least[:, None]
    least, column = tl.min(scores, axis=1, return_indices=True)
    return least, column, columns == column[:, None]


@triton.jit
def _decide(v1, v2, error_bound, norm, terms):
    """Return a threshold for scores that rule a center out, and a bound on the room (screening).

    v1, v2       the two smallest scores of each row: no center's true score is below its score
    error_bound  how wrong the first one can be
    norm         squared norms of the rows, rounded up; infinite for rows without a bound
    """
    above = v1 + 2.0 * error_bound
    above = above + 2.0**-21 * (tl.abs(v1) + error_bound)
    # Squared distance to the nearest center, rounded up.
    high = tl.maximum(norm + above, 0.0) + 2.0**-21 * (norm + tl.abs(above))
    threshold = above + (terms + 8.0) * 2.0**-49 * (high + norm)
    threshold = tl.where(norm < FAR, threshold, FAR)
    gap = (v2 - above) - 2.0**-21 * (tl.abs(v2) + tl.abs(above))
    room = gap / (tl.sqrt(high + tl.maximum(gap, 0.0)) + tl.sqrt(high) + 1.0e-30)
    return threshold, room * (1.0 - 2.0**-18)


@triton.jit(do_not_specialize=["K"])
def screen(
    state, lengths, points, sizes, short_centers, norms, error_bounds, active, labels, slack,
    open_rows, thresholds, crowded, candidates, counts, moved_rows, moved_from, noise, K,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    BITS: tl.constexpr, PAIRS: tl.constexpr, KEPT: tl.constexpr, GROUP: tl.constexpr,
    NUMBERED: tl.constexpr,
):  # fmt: skip
    """Find the nearest centers of the active points in short arithmetic.

    Centers are scored in parts of KEPT columns, COLUMNS at a time. A score has the number of its
    part in its last BITS bits; each column keeps its two smallest. Where centers are NUMBERED,
    there is room for the column below that. Of many centers, GROUP at a time, as far apart as a
    tile allows, are counted as one that has the smallest of their scores: most groups are ruled out
    as a whole, and the scores of the first one are found again.

    Points that are decided get label and slack, and are listed when their label changed; others are
    listed as open, with the threshold of their candidates. Where these are two, they may be known
    here (PAIRS); other rows are crowded (list_candidates): all open ones where `crowded` is None.

    lengths     IN/OUT  (1,) int64, state[MOVED] and state[OPEN]
    crowded     OUT     places of such rows in the list of open ones
    candidates  OUT     (n, SLOTS) centers of open rows, by place
    counts      OUT     (n,) how many; they begin as 0
    """
    count = tl.load(state + ACTIVE)
    if tl.program_id(0) * ROWS >= count:
        return
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = place < count
    row = tl.load(active + place, mask=inside, other=0)
    if NUMBERED:
        # Long before they are used, where there are registers for it.
        size, old = tl.load(sizes + row), tl.load(labels + row)
    start = row.to(tl.int64) * WIDTH
    depth = tl.arange(0, DEPTH)
    PARTS: tl.constexpr = COLUMNS // KEPT // GROUP
    first = tl.full((ROWS, KEPT), FAR, tl.float32)
    second = tl.full((ROWS, KEPT), FAR, tl.float32)
    low: tl.constexpr = (1 << BITS) - 1
    UNIT: tl.constexpr = KEPT if NUMBERED else 1
    x = start
    if WIDTH == DEPTH:
        x = tl.load(points + start[:, None] + depth[None, :])
    part = 0
    for begin in range(0, K, COLUMNS):
        k = begin + tl.arange(0, COLUMNS)
        v = _scores(
            points, start, x, short_centers, norms, k, depth, WIDTH, DEPTH, ROWS, COLUMNS,
        )  # fmt: skip
        if noise is not None:
            # As wrong as the bound allows; better arithmetic would not test it.
            wave = tl.load(noise + (place % 64)[:, None] * 64 + (k % 64)[None, :])
            v += 0.9 * wave * tl.load(error_bounds + k, mask=k < K, other=0.0)[None, :]
        v = tl.reshape(v, (ROWS, PARTS * GROUP, KEPT))
        if GROUP >= 2:
            v = _smallest(v, ROWS, PARTS * GROUP, KEPT)
        if GROUP >= 4:
            v = _smallest(v, ROWS, PARTS * GROUP // 2, KEPT)
        least, after = _two_least(v, part, low, UNIT, ROWS, PARTS, KEPT)
        second = tl.minimum(tl.minimum(second, after), tl.maximum(first, least))
        first = tl.minimum(first, least)
        part += PARTS
    columns = tl.arange(0, KEPT)[None, :]
    if NUMBERED:
        first, second = _tagged(first, columns, 0), _tagged(second, columns, 0)
    v1, column, there = _least(first, columns, NUMBERED)
    rest = tl.where(there, second, first)
    if PAIRS:
        v2, next_column, there = _least(rest, columns, NUMBERED)
    else:
        v2 = tl.min(rest, axis=1)
    label = _center(v1, column, low, KEPT, NUMBERED)
    if GROUP > 1:
        # Groups of a tile begin in its first columns.
        APART: tl.constexpr = COLUMNS // GROUP
        label = label // APART * COLUMNS + label % APART
        v1, after, label = _in_group(
            points, start, short_centers, norms, error_bounds, noise, place, label, K, APART, GROUP,
            ROWS, WIDTH,
        )  # fmt: skip
        v2 = tl.minimum(v2, after)

    error_bound = tl.load(error_bounds + label, mask=inside & (label < K), other=0.0)
    if not NUMBERED:
        size, old = tl.load(sizes + row), tl.load(labels + row)
    threshold, room = _decide(v1, v2, error_bound, size, WIDTH)
    decided = inside & (v2 > threshold)
    # A value may be held by several threads: all have read it before one of them writes.
    tl.debug_barrier()
    tl.store(slack + row, room, mask=decided)
    new = decided & (label != old)
    left = inside & ~decided
    tl.store(labels + row, label, mask=new)
    moved, spot = append_both(lengths, new, left)
    tl.store(moved_rows + moved, row, mask=new)
    tl.store(moved_from + moved, old, mask=new)
    tl.store(open_rows + spot, row, mask=left)
    tl.store(thresholds + spot, threshold, mask=left)
    if PAIRS:
        # The third smallest score; the second one again, where that shares its column with the
        # first, for then nothing is known of what comes after it.
        v3 = tl.min(tl.where(there, second, rest), axis=1)
        pair = left & (v3 > threshold)
        other = _center(v2, next_column, low, KEPT, NUMBERED)
        listed = candidates + spot.to(tl.int64) * SLOTS
        tl.store(listed, label, mask=pair)
        tl.store(listed + 1, other, mask=pair)
        tl.store(counts + spot, tl.full((ROWS,), 2, tl.int32), mask=pair)
        left = left & ~pair
    if crowded is not None:
        append(crowded, state + CROWDED, spot, left, crowded, spot, False)


@triton.jit(do_not_specialize=["K"])
def list_candidates(
    state, points, short_centers, norms, open_rows, thresholds, crowded, candidates, counts, K,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """List, for every crowded row, the centers whose score does not rule them out.

    crowded  IN  None where all open rows are
    """
    count = tl.load(state + (OPEN if crowded is None else CROWDED))
    # Every program has its share of the centers.
    share = tl.cdiv(tl.cdiv(K, COLUMNS), tl.num_programs(1)) * COLUMNS
    lowest = tl.program_id(1) * share
    highest = tl.minimum(K, lowest + share)
    for at in range(tl.program_id(0) * ROWS, count, tl.num_programs(0) * ROWS):
        inside = at + tl.arange(0, ROWS) < count
        place = at + tl.arange(0, ROWS)
        if crowded is not None:
            place = tl.load(crowded + place, mask=inside, other=0)
        start = tl.load(open_rows + place, mask=inside, other=0).to(tl.int64) * WIDTH
        threshold = tl.load(thresholds + place, mask=inside, other=-FAR)
        # Rows beyond the radius have all centers as candidates.
        outside = threshold >= FAR
        if tl.program_id(1) == 0:
            tl.store(counts + place, tl.full((ROWS,), SLOTS + 1, tl.int32), mask=outside)
        inside = inside & ~outside
        depth = tl.arange(0, DEPTH)
        x = start
        if WIDTH == DEPTH:
            x = tl.load(points + start[:, None] + depth[None, :])
        for begin in range(lowest, highest, COLUMNS):
            k = begin + tl.arange(0, COLUMNS)
            v = _scores(
                points, start, x, short_centers, norms, k, depth, WIDTH, DEPTH, ROWS, COLUMNS,
            )  # fmt: skip
            possible = (v <= threshold[:, None]) & (k < K)[None, :] & inside[:, None]
            left = tl.where(possible, k[None, :], NO_CENTER)
            # Mostly there is none in a tile, or one: one at a time is faster than many at once.
            # More than there is room for need not be listed.
            lowest_left = tl.min(left, axis=1)
            turn = 0
            while (tl.min(lowest_left) < NO_CENTER) & (turn <= SLOTS):
                some = lowest_left < NO_CENTER
                slot = tl.atomic_add(
                    counts + place, tl.full((ROWS,), 1, tl.int32), mask=some, sem="relaxed"
                )
                listed = candidates + place.to(tl.int64) * SLOTS + slot
                tl.store(listed, lowest_left, mask=some & (slot < SLOTS))
                left = tl.where(left == lowest_left[:, None], NO_CENTER, left)
                lowest_left = tl.min(left, axis=1)
                turn += 1
