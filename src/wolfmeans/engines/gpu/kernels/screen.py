"""Kernels that find nearest centers in short arithmetic, and tell what that cannot decide.

The bounds are derived in `screening`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.lists import (
    ACTIVE,
    CROWDED,
    DONE,
    FAR,
    LARGEST_ERROR,
    LARGEST_SHIFT,
    OPEN,
    append,
    settle,
)

SLOTS = tl.constexpr(8)
"""How many centers of a row are looked at canonically before it counts as hard."""


@triton.jit
def _up(x):
    """A float32 that is certainly not below the float64 number x >= 0."""
    return (x * (1.0 + 2.0**-20)).to(tl.float32)


@triton.jit
def shortened(exact, DIRECT: tl.constexpr):
    """Return scaled centers in short arithmetic."""
    if DIRECT:
        short = tl.minimum(tl.maximum(exact, -1.0e15), 1.0e15).to(tl.float32)
    else:
        short = tl.minimum(tl.maximum(exact, -60000.0), 60000.0).to(tl.float16)
    return short


@triton.jit
def rate(
    k, there, squared, error, shift, norms, doubts, shifts, radius, rho, products_error, score_error
):
    """Write down norms, doubts and shifts of centers k; return errors and shifts for `reach`.

    squared, error, shift  IN  float64, squares of the scaled centers' norms, of what short
                               arithmetic lost of them, and of how far they came
    """
    size = tl.sqrt(squared)
    gamma = tl.sqrt(error)
    # Tensor cores treat subnormal numbers like the smallest normal one, 2**-14.
    products = products_error * radius * (size + gamma + 2.0**-14)
    doubt = 2.0 * (radius * gamma + rho * size) + products
    doubt += score_error * (squared + 2.0 * radius * (size + gamma))
    doubt *= 1.0 + score_error  # the doubt is in the score, and rounded with it
    doubt = tl.minimum(doubt * (1.0 + 2.0**-20), 1.0e37)
    norm = (tl.minimum(squared, 1.0e37) - doubt * (1.0 + 2.0**-19)).to(tl.float32)
    far = _up(tl.minimum(tl.sqrt(shift), 1.0e37))
    wrong = _up(tl.minimum(gamma, 1.0e37))
    tl.store(doubts + k, _up(doubt), mask=there)
    tl.store(norms + k, norm, mask=there)
    tl.store(shifts + k, far, mask=there)
    return wrong.to(tl.int32, bitcast=True), far.to(tl.int32, bitcast=True)


@triton.jit
def prepare_centers(
    state, centers, before, mu, short_centers, norms, doubts, shifts, reach, d, width,
    scale: tl.float64, radius, rounding, products_error, score_error, BLOCK: tl.constexpr,
    DIRECT: tl.constexpr,
):  # fmt: skip
    """Bring the centers into short arithmetic and measure how far that, and the last step, is.

    `means.find_means` does the same for the means that it finds.

    centers        IN      (K, d) the centers of this assignment
    before         IN/OUT  (K, d) those of the assignment before; these ones on return
    mu             IN      (d,) float64, what is taken away of every point
    short_centers  OUT     (K, width) (centers - mu) scale, rounded; columns from d on stay 0
    norms          OUT     (K,) float32, squared norm minus doubt: what a score begins with
    doubts         OUT     (K,) float32, how wrong a score of this center can be (screening)
    shifts         OUT     (K,) float32, scaled distance to the center before, rounded up
    reach          OUT     the largest rounding error and the largest shift
    rounding       IN      (1,) float32, rho
    scale          IN      a power of two, which may be none of float32: that is what numbers from
                           Python become where nothing else is declared
    """
    if tl.load(state + DONE) != 0:
        return
    k = tl.program_id(0).to(tl.int64)
    norm = tl.zeros((BLOCK,), tl.float64)
    error = tl.zeros((BLOCK,), tl.float64)
    shift = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, d, BLOCK):
        j = start + tl.arange(0, BLOCK)
        inside = j < d
        new = tl.load(centers + k * d + j, mask=inside, other=0.0)
        old = tl.load(before + k * d + j, mask=inside, other=0.0)
        tl.debug_barrier()  # as in settle
        tl.store(before + k * d + j, new, mask=inside)
        wide = new.to(tl.float64)
        moved = (wide - old.to(tl.float64)) * scale
        exact = (wide - tl.load(mu + j, mask=inside, other=0.0)) * scale
        short = shortened(exact, DIRECT)
        tl.store(short_centers + k * width + j, short, mask=inside)
        lost = exact - short.to(tl.float64)
        norm += exact * exact
        error += lost * lost
        shift += moved * moved
    rho = tl.load(rounding).to(tl.float64)
    wrong, far = rate(
        k, k >= 0, tl.sum(norm), tl.sum(error), tl.sum(shift), norms, doubts, shifts, radius, rho,
        products_error, score_error,
    )  # fmt: skip
    tl.atomic_max(reach + LARGEST_ERROR, wrong, sem="relaxed")
    tl.atomic_max(reach + LARGEST_SHIFT, far, sem="relaxed")


@triton.jit(do_not_specialize=["K"])
def find_neighbors(state, short_centers, reach, apart, K, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Find how far the nearest other center is, few columns only.

    apart  OUT  (K,) float32, scaled and rounded down
    """
    if tl.load(state + DONE) != 0:
        return
    k = tl.program_id(0)
    nearest = tl.full((BLOCK,), FAR, tl.float32)
    for begin in range(0, K, BLOCK):
        other = begin + tl.arange(0, BLOCK)
        there = (other < K) & (other != k)
        v = tl.zeros((BLOCK,), tl.float32)
        for j in tl.static_range(WIDTH):
            mine = tl.load(short_centers + k * WIDTH + j)
            difference = tl.load(short_centers + other * WIDTH + j, mask=there, other=0.0) - mine
            v += difference * difference
        nearest = tl.minimum(nearest, tl.where(there, v, FAR))
    gamma = tl.load(reach + LARGEST_ERROR).to(tl.float32, bitcast=True)
    least = tl.min(nearest)
    least = tl.maximum(least * (1.0 - (WIDTH + 8.0) * 2.0**-23) - 1.0e-30, 0.0)
    tl.store(apart + k, tl.sqrt(least) * (1.0 - 2.0**-20) - 2.0 * gamma)


@triton.jit(do_not_specialize=["n"])
def select_active(
    state, labels, slack, shifts, reach, active, points, errors, short_centers, apart, n, margin,
    WIDTH: tl.constexpr, NEIGHBORS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """List the points whose nearest center may have changed (Hamerly's bounds).

    slack  IN/OUT  (n,) float32, at most (distance to any other center) - (distance to its own)
    apart  IN      (K,) how far each center is from all others: where a point is at most half as far
                   from its own, no other is nearer
    """
    if tl.load(state + DONE) != 0:
        return
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    label = tl.load(labels + i, mask=inside, other=0)
    room = tl.load(slack + i, mask=inside, other=FAR)
    largest = tl.load(reach + LARGEST_SHIFT).to(tl.float32, bitcast=True)
    own = tl.load(shifts + tl.maximum(label, 0), mask=inside, other=0.0)
    loss = (own + largest) * (1.0 + 2.0**-20)
    left = room - loss
    left = left - (tl.abs(room) + loss) * 2.0**-22
    if NEIGHBORS:
        look = inside & (left <= margin) & (label >= 0)
        v = tl.zeros((BLOCK,), tl.float32)
        for j in tl.static_range(WIDTH):
            x = tl.load(points + i.to(tl.int64) * WIDTH + j, mask=look, other=0.0)
            c = tl.load(short_centers + label * WIDTH + j, mask=look, other=0.0)
            v += (x - c) * (x - c)
        gamma = tl.load(reach + LARGEST_ERROR).to(tl.float32, bitcast=True)
        wrong = tl.load(errors + i, mask=look, other=0.0) + gamma
        high = tl.sqrt(v * (1.0 + (WIDTH + 8.0) * 2.0**-23) + 1.0e-30) * (1.0 + 2.0**-20) + wrong
        far = tl.load(apart + label, mask=look, other=0.0)
        sure = far - 2.0 * high - (tl.abs(far) + 2.0 * high) * 2.0**-20
        left = tl.where(look, tl.maximum(left, sure), left)
    tl.debug_barrier()  # as in settle
    tl.store(slack + i, left, mask=inside)
    doubtful = inside & (left <= margin)
    append(active, state + ACTIVE, i, doubtful, active, i, False)


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
def _center(score, column, low, COLUMNS: tl.constexpr, FOLDED: tl.constexpr):
    """Return which center a tagged score of a column belongs to."""
    tag = score.to(tl.int32, bitcast=True) & low
    if FOLDED:
        return (tag >> 1) * COLUMNS + 2 * column + (tag & 1)
    return tag * COLUMNS + column


@triton.jit
def _decide(v1, v2, doubt, norm, terms):
    """Return a threshold for scores that rule a center out, and a bound on the room (screening).

    v1, v2  the two smallest scores of each row: no center's true score is below its score
    doubt   how wrong the first one can be
    norm    squared norms of the rows, rounded up; infinite for rows that the bound is not for
    """
    above = v1 + 2.0 * doubt
    above = above + 2.0**-21 * (tl.abs(v1) + doubt)
    # Squared distance to the nearest center, rounded up.
    high = tl.maximum(norm + above, 0.0) + 2.0**-21 * (norm + tl.abs(above))
    threshold = above + (terms + 8.0) * 2.0**-49 * (high + norm)
    threshold = tl.where(norm < FAR, threshold, FAR)
    gap = (v2 - above) - 2.0**-21 * (tl.abs(v2) + tl.abs(above))
    room = gap / (tl.sqrt(high + tl.maximum(gap, 0.0)) + tl.sqrt(high) + 1.0e-30)
    return threshold, room * (1.0 - 2.0**-18)


@triton.jit(do_not_specialize=["K"])
def screen(
    state, points, sizes, short_centers, norms, doubts, active, labels, slack, open_rows,
    thresholds, crowded, candidates, counts, moved_rows, moved_from, noise, K,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    BITS: tl.constexpr, PAIRS: tl.constexpr, FOLDED: tl.constexpr,
):  # fmt: skip
    """Find the nearest centers of the active points in short arithmetic.

    A score has the number of its tile in its last BITS bits; each column of the tile keeps its two
    smallest. Where tiles are FOLDED, two neighboring columns keep theirs together, and which of
    them a score comes from is the last bit. Points that are decided get label and slack, and are
    listed when their label changed; others are listed as open, with the threshold of their
    candidates. Where these are two, they are known here (PAIRS); else the row is crowded
    (list_candidates).

    crowded     OUT  places of such rows in the list of open ones
    candidates  OUT  (n, SLOTS) centers of open rows, by place
    counts      OUT  (n,) how many; they begin as 0
    """
    if tl.load(state + DONE) != 0:
        return
    count = tl.load(state + ACTIVE)
    if tl.program_id(0) * ROWS >= count:
        return
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = place < count
    row = tl.load(active + place, mask=inside, other=0)
    start = row.to(tl.int64) * WIDTH
    depth = tl.arange(0, DEPTH)
    KEPT: tl.constexpr = COLUMNS // 2 if FOLDED else COLUMNS
    first = tl.full((ROWS, KEPT), FAR, tl.float32)
    second = tl.full((ROWS, KEPT), FAR, tl.float32)
    low: tl.constexpr = (1 << BITS) - 1
    x = start
    if WIDTH == DEPTH:
        x = tl.load(points + start[:, None] + depth[None, :])
    tile = 0
    for begin in range(0, K, COLUMNS):
        k = begin + tl.arange(0, COLUMNS)
        v = _scores(
            points, start, x, short_centers, norms, k, depth, WIDTH, DEPTH, ROWS, COLUMNS,
        )  # fmt: skip
        if noise is not None:
            # As wrong as the bound allows; better arithmetic would not test it.
            wave = tl.load(noise + (place % 64)[:, None] * 64 + (k % 64)[None, :])
            v += 0.9 * wave * tl.load(doubts + k, mask=k < K, other=0.0)[None, :]
        if FOLDED:
            even, odd = tl.split(tl.reshape(v, (ROWS, KEPT, 2)))
            even, odd = _tagged(even, 2 * tile, low), _tagged(odd, 2 * tile + 1, low)
            v = tl.minimum(even, odd)
            second = tl.minimum(second, tl.maximum(even, odd))
        else:
            v = _tagged(v, tile, low)
        second = tl.minimum(second, tl.maximum(first, v))
        first = tl.minimum(first, v)
        tile += 1  # noqa: SIM113 - enumerate is not Triton
    v1, column = tl.min(first, axis=1, return_indices=True)
    columns = tl.arange(0, KEPT)[None, :]
    rest = tl.where(columns == column[:, None], second, first)
    if PAIRS:
        v2, next_column = tl.min(rest, axis=1, return_indices=True)
    else:
        v2 = tl.min(rest, axis=1)
    label = _center(v1, column, low, COLUMNS, FOLDED)

    doubt = tl.load(doubts + label, mask=inside & (label < K), other=0.0)
    threshold, room = _decide(v1, v2, doubt, tl.load(sizes + row), WIDTH)
    decided = inside & (v2 > threshold)
    settle(decided, row, label, room, labels, slack, moved_rows, moved_from, state)
    left = inside & ~decided
    spot = append(open_rows, state + OPEN, row, left, thresholds, threshold, True)
    if PAIRS:
        # The third smallest score; the second one again, where that shares its column with the
        # first, for then nothing is known of what comes after it.
        v3 = tl.min(tl.where(columns == next_column[:, None], second, rest), axis=1)
        pair = left & (v3 > threshold)
        other = _center(v2, next_column, low, COLUMNS, FOLDED)
        listed = candidates + spot.to(tl.int64) * SLOTS
        tl.store(listed, label, mask=pair)
        tl.store(listed + 1, other, mask=pair)
        tl.store(counts + spot, tl.full((ROWS,), 2, tl.int32), mask=pair)
        left = left & ~pair
    append(crowded, state + CROWDED, spot, left, crowded, spot, False)


@triton.jit(do_not_specialize=["K"])
def list_candidates(
    state, points, short_centers, norms, open_rows, thresholds, crowded, candidates, counts, K,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """List, for every crowded row, the centers whose score does not rule them out."""
    if tl.load(state + DONE) != 0:
        return
    count = tl.load(state + CROWDED)
    # Every program has its share of the centers.
    share = tl.cdiv(tl.cdiv(K, COLUMNS), tl.num_programs(1)) * COLUMNS
    lowest = tl.program_id(1) * share
    highest = tl.minimum(K, lowest + share)
    for at in range(tl.program_id(0) * ROWS, count, tl.num_programs(0) * ROWS):
        inside = at + tl.arange(0, ROWS) < count
        place = tl.load(crowded + at + tl.arange(0, ROWS), mask=inside, other=0)
        start = tl.load(open_rows + place, mask=inside, other=0).to(tl.int64) * WIDTH
        threshold = tl.load(thresholds + place, mask=inside, other=-FAR)
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
            if tl.max(possible.to(tl.int32)) > 0:
                slot = tl.atomic_add(
                    counts + place[:, None] + tl.zeros_like(k)[None, :],
                    1,
                    mask=possible,
                    sem="relaxed",
                )
                tl.store(
                    candidates + place[:, None].to(tl.int64) * SLOTS + slot,
                    k[None, :] + tl.zeros_like(slot),
                    mask=possible & (slot < SLOTS),
                )
