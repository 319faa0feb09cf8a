"""The Triton kernels of one Frank-Wolfe step: nearest centers, moved points, means, and the record.

Labels are exact: a screen in half precision with a rigorous bound (see `screening`) decides most
points; every center that it cannot rule out is looked at in canonical float64. All kernels but the
screens run with `enable_fp_fusion=False`. Each begins by looking at `state[DONE]`: steps are
launched ahead of knowing whether the run has ended, and do nothing once it has.

Lists of rows are filled in any order; nothing that is computed from them depends on it.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.exact_kernels import deposit_terms, mean_and_residual, rounded_sum

# Places in `state`, int32.
DONE = tl.constexpr(0)
ACTIVE = tl.constexpr(1)
OPEN = tl.constexpr(2)
HARD = tl.constexpr(3)
MOVED = tl.constexpr(4)
INEXACT = tl.constexpr(5)
STEPS = tl.constexpr(6)
EMPTY = tl.constexpr(7)
# Places in `reach`: non-negative float32 as int32, which order alike.
LARGEST_ERROR = tl.constexpr(0)
LARGEST_SHIFT = tl.constexpr(1)

FAR = tl.constexpr(3.0e38)
SLOTS = tl.constexpr(8)
"""How many centers of a row are looked at canonically before it counts as hard."""


@triton.jit
def _append(list, counter, values, mask, second, second_values, PAIRED: tl.constexpr):
    """Put the masked values at the end of a list, one atomic for the whole block."""
    many = mask.to(tl.int32)
    place = tl.atomic_add(counter, tl.sum(many), sem="relaxed") + tl.cumsum(many, 0) - 1
    tl.store(list + place, values, mask=mask)
    if PAIRED:
        tl.store(second + place, second_values, mask=mask)


@triton.jit
def _up(x):
    """A float32 that is certainly not below the float64 number x >= 0."""
    return (x * (1.0 + 2.0**-20)).to(tl.float32)


@triton.jit
def prepare_centers(
    state, centers, before, mu, short_centers, norms, doubts, shifts, reach, d, width, scale,
    radius, rho, products_error, score_error, BLOCK: tl.constexpr, DIRECT: tl.constexpr,
):  # fmt: skip
    """Bring the centers into short arithmetic and measure how far that, and the last step, is.

    centers        IN      (K, d) the centers of this assignment
    before         IN/OUT  (K, d) those of the assignment before; these ones on return
    mu             IN      (d,) float64, what is taken away of every point
    short_centers  OUT     (K, width) (centers - mu) scale, rounded; columns from d on stay 0
    norms          OUT     (K,) float32, squared norm minus doubt: what a score begins with
    doubts         OUT     (K,) float32, how wrong a score of this center can be (screening)
    shifts         OUT     (K,) float32, scaled distance to the center before, rounded up
    reach          OUT     the largest rounding error and the largest shift
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
        tl.debug_barrier()  # as in _settle
        tl.store(before + k * d + j, new, mask=inside)
        wide = new.to(tl.float64)
        moved = (wide - old.to(tl.float64)) * scale
        exact = (wide - tl.load(mu + j, mask=inside, other=0.0)) * scale
        if DIRECT:
            short = tl.minimum(tl.maximum(exact, -1.0e15), 1.0e15).to(tl.float32)
        else:
            short = tl.minimum(tl.maximum(exact, -60000.0), 60000.0).to(tl.float16)
        tl.store(short_centers + k * width + j, short, mask=inside)
        lost = exact - short.to(tl.float64)
        norm += exact * exact
        error += lost * lost
        shift += moved * moved
    squared = tl.sum(norm)
    size = tl.sqrt(squared)
    gamma = tl.sqrt(tl.sum(error))
    doubt = 2.0 * (radius * gamma + rho * size) + products_error * radius * (size + gamma)
    doubt += score_error * (squared + 2.0 * radius * (size + gamma))
    doubt = tl.minimum(doubt * (1.0 + 2.0**-20), 1.0e37)
    tl.store(doubts + k, _up(doubt))
    tl.store(norms + k, (tl.minimum(squared, 1.0e37) - doubt * (1.0 + 2.0**-19)).to(tl.float32))
    far = _up(tl.minimum(tl.sqrt(tl.sum(shift)), 1.0e37))
    tl.store(shifts + k, far)
    wrong = _up(tl.minimum(gamma, 1.0e37))
    tl.atomic_max(reach + LARGEST_ERROR, wrong.to(tl.int32, bitcast=True))
    tl.atomic_max(reach + LARGEST_SHIFT, far.to(tl.int32, bitcast=True))


@triton.jit
def select_active(state, labels, slack, shifts, reach, active, n, margin, BLOCK: tl.constexpr):
    """List the points whose nearest center may have changed (Hamerly's bound).

    slack  IN/OUT  (n,) float32, at most (distance to any other center) - (distance to its own)
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
    tl.debug_barrier()  # as in _settle
    tl.store(slack + i, left, mask=inside)
    doubtful = inside & (left <= margin)
    _append(active, state + ACTIVE, i, doubtful, active, i, False)


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


@triton.jit
def _scores(
    points, start, x, short_centers, norms, k, there, depth, WIDTH: tl.constexpr,
    DEPTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DIRECT: tl.constexpr,
):  # fmt: skip
    """Return the (ROWS, COLUMNS) scores of a tile: |x - c|^2 if DIRECT, else |c|^2 - 2 x.c."""
    if DIRECT:
        v = tl.zeros((ROWS, COLUMNS), tl.float32)
        for j in tl.static_range(WIDTH):
            xj = tl.load(points + start + j)
            cj = tl.load(short_centers + k * WIDTH + j, mask=there, other=1.0e17)
            v += (xj[:, None] - cj[None, :]) * (xj[:, None] - cj[None, :])
    else:
        if WIDTH == DEPTH:
            c = tl.load(
                short_centers + k[None, :] * WIDTH + depth[:, None], mask=there[None, :], other=0.0
            )
            products = tl.dot(x, c)
        else:
            products = tl.zeros((ROWS, COLUMNS), tl.float32)
            for j in range(0, WIDTH, DEPTH):
                part = tl.load(points + start[:, None] + (j + depth)[None, :])
                c = tl.load(
                    short_centers + k[None, :] * WIDTH + (j + depth)[:, None],
                    mask=there[None, :], other=0.0,
                )  # fmt: skip
                products = tl.dot(part, c, products)
        v = tl.load(norms + k, mask=there, other=FAR)[None, :] - 2.0 * products
    return v


@triton.jit
def screen(
    state, points, sizes, errors, short_centers, norms, doubts, reach, active, labels, slack,
    open_rows, thresholds, moved_rows, moved_from, K,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    BITS: tl.constexpr, DIRECT: tl.constexpr, noise, noise_size,
):  # fmt: skip
    """Find the nearest centers of the active points in short arithmetic.

    A score has the number of its tile in its last BITS bits; each column of the tile keeps its two
    smallest. Points that are decided get label and slack, and are listed when their label changed;
    others are listed as open, with the threshold of their candidates.
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
    first = tl.full((ROWS, COLUMNS), FAR, tl.float32)
    second = tl.full((ROWS, COLUMNS), FAR, tl.float32)
    low: tl.constexpr = (1 << BITS) - 1
    x = start
    if (not DIRECT) and WIDTH == DEPTH:
        x = tl.load(points + start[:, None] + depth[None, :])
    tile = 0
    for begin in range(0, K, COLUMNS):
        k = begin + tl.arange(0, COLUMNS)
        there = k < K
        v = _scores(
            points, start, x, short_centers, norms, k, there, depth, WIDTH, DEPTH, ROWS, COLUMNS,
            DIRECT,
        )  # fmt: skip
        if noise is not None:
            # As wrong as the model of the hardware allows; for machines that are better than that.
            wave = tl.load(noise + (place % 64)[:, None] * 64 + (k % 64)[None, :])
            size = tl.sqrt(tl.load(sizes + row))[:, None]
            v += wave * noise_size * size * tl.load(doubts + k, mask=there, other=0.0)[None, :]
        v = ((v.to(tl.int32, bitcast=True) & ~low) | tile).to(tl.float32, bitcast=True)
        second = tl.minimum(second, tl.maximum(first, v))
        first = tl.minimum(first, v)
        tile += 1
    v1, column = tl.min(first, axis=1, return_indices=True)
    mine = tl.arange(0, COLUMNS)[None, :] == column[:, None]
    v2 = tl.min(tl.where(mine, second, first), axis=1)
    label = (v1.to(tl.int32, bitcast=True) & low) * COLUMNS + column

    if DIRECT:
        rho = tl.load(errors + row)
        threshold, room = _decide_direct(v1, v2, rho, reach, WIDTH, 2.0 ** (BITS - 22))
    else:
        doubt = tl.load(doubts + label, mask=inside & (label < K), other=0.0)
        threshold, room = _decide(v1, v2, doubt, tl.load(sizes + row), WIDTH)
    decided = inside & (v2 > threshold)
    _settle(decided, row, label, room, labels, slack, moved_rows, moved_from, state)
    _append(open_rows, state + OPEN, row, inside & ~decided, thresholds, threshold, True)


@triton.jit
def _decide_direct(v1, v2, rho, reach, terms, tiles_error):
    """Return a threshold for |x - c|^2 in float32, and a bound on the room (screening)."""
    gamma = tl.load(reach + LARGEST_ERROR).to(tl.float32, bitcast=True)
    error = (terms + 8.0) * 2.0**-23 + tiles_error
    tiny = 1.0e-30
    border = tl.sqrt(v1 * (1.0 + 2.0 * error) + tiny) * (1.0 + 2.0**-20) + 2.0 * (rho + gamma)
    threshold = border * border * (1.0 + 3.0 * error + 2.0**-20) + tiny
    high = tl.sqrt(v1 * (1.0 + error) + tiny) * (1.0 + 2.0**-20) + rho + gamma
    other = tl.sqrt(tl.maximum(v2 * (1.0 - error) - tiny, 0.0)) * (1.0 - 2.0**-20) - rho - gamma
    return threshold, other - high - (other + high) * 2.0**-20


@triton.jit
def _settle(decided, row, label, room, labels, slack, moved_rows, moved_from, state):
    """Write down labels and slacks that are known, and list the rows whose label is new."""
    old = tl.load(labels + row, mask=decided, other=0)
    # A value may be held by several threads: all have read it before one of them writes.
    tl.debug_barrier()
    tl.store(slack + row, room, mask=decided)
    new = decided & (label != old)
    tl.store(labels + row, label, mask=new)
    _append(moved_rows, state + MOVED, row, new, moved_from, old, True)


@triton.jit
def list_candidates(
    state, points, short_centers, norms, open_rows, thresholds, candidates, counts, K,
    WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    DIRECT: tl.constexpr,
):  # fmt: skip
    """List, for every open row, the centers whose score does not rule them out."""
    if tl.load(state + DONE) != 0:
        return
    count = tl.load(state + OPEN)
    if tl.program_id(0) * ROWS >= count:
        return
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = place < count
    start = tl.load(open_rows + place, mask=inside, other=0).to(tl.int64) * WIDTH
    threshold = tl.load(thresholds + place, mask=inside, other=-FAR)
    depth = tl.arange(0, DEPTH)
    x = start
    if (not DIRECT) and WIDTH == DEPTH:
        x = tl.load(points + start[:, None] + depth[None, :])
    for begin in range(0, K, COLUMNS):
        k = begin + tl.arange(0, COLUMNS)
        there = k < K
        v = _scores(
            points, start, x, short_centers, norms, k, there, depth, WIDTH, DEPTH, ROWS, COLUMNS,
            DIRECT,
        )  # fmt: skip
        possible = (v <= threshold[:, None]) & there[None, :] & inside[:, None]
        if tl.max(possible.to(tl.int32)) > 0:
            slot = tl.atomic_add(
                counts + place[:, None] + tl.zeros_like(k)[None, :], 1, mask=possible, sem="relaxed"
            )
            tl.store(
                candidates + place[:, None].to(tl.int64) * SLOTS + slot,
                k[None, :] + tl.zeros_like(slot),
                mask=possible & (slot < SLOTS),
            )


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
def resolve(
    state, X, centers, open_rows, thresholds, candidates, counts, sizes, errors, reach, labels,
    slack, moved_rows, moved_from, hard_rows, d, scale, DIRECT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Give every open row the lowest of its canonically nearest candidates."""
    if tl.load(state + DONE) != 0:
        return
    count = tl.load(state + OPEN)
    if tl.program_id(0) * BLOCK >= count:
        return
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    row = tl.load(open_rows + place, mask=inside, other=0)
    many = tl.load(counts + place, mask=inside, other=0)
    tl.debug_barrier()  # as in _settle
    tl.store(counts + place, tl.zeros_like(many), mask=inside)
    hard = inside & (many > SLOTS)
    _append(hard_rows, state + HARD, row, hard, hard_rows, row, False)
    inside = inside & ~hard
    slot = tl.arange(0, SLOTS)
    some = inside[:, None] & (slot[None, :] < many[:, None])
    k = tl.load(candidates + place[:, None].to(tl.int64) * SLOTS + slot[None, :], mask=some, other=0)
    distance = canonical(X, centers, row[:, None] + tl.zeros_like(k), k, some, d, BLOCK, SLOTS)
    distance = tl.where(some, distance, float("inf"))
    best = tl.min(distance, axis=1)
    label = tl.min(tl.where(some & (distance == best[:, None]), k, 2147483647), axis=1)
    after = tl.min(tl.where(k == label[:, None], float("inf"), distance), axis=1)
    # Centers that are no candidates are farther than the threshold says.
    ruled_out = tl.load(thresholds + place, mask=inside, other=0.0)
    if DIRECT:
        gamma = tl.load(reach + LARGEST_ERROR).to(tl.float32, bitcast=True)
        wrong = tl.load(errors + row, mask=inside, other=0.0) + gamma
        beyond = tl.sqrt(ruled_out) * (1.0 - 2.0**-10) - wrong
    else:
        norm = tl.load(sizes + row, mask=inside, other=0.0)
        beyond = norm + ruled_out - 2.0**-19 * (norm + tl.abs(ruled_out))
        beyond = tl.sqrt(tl.maximum(beyond, 0.0)) * (1.0 - 2.0**-20)
    least = tl.minimum((tl.sqrt(after) * scale).to(tl.float32), beyond)
    own = (tl.sqrt(best) * scale).to(tl.float32)
    room = least - own - (tl.abs(least) + own) * 2.0**-16
    room = tl.where(least < FAR, room, -1.0)
    _settle(inside, row, label, room, labels, slack, moved_rows, moved_from, state)


@triton.jit
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
        tl.debug_barrier()  # as in _settle
        tl.store(slack + row, -1.0)
        if new != old:
            tl.store(labels + row, new)
            place = tl.atomic_add(state + MOVED, 1, sem="relaxed")
            tl.store(moved_rows + place, row)
            tl.store(moved_from + place, old)


@triton.jit
def sum_gap(
    state, X, centers, labels, moved_rows, moved_from, gap, low, d, BLOCK: tl.constexpr,
):  # fmt: skip
    """Add up what the moved points gain: canonical distance to the old center minus to the new."""
    if tl.load(state + DONE) != 0:
        return
    count = tl.load(state + MOVED)
    if tl.program_id(0) * BLOCK >= count:
        return
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    row = tl.load(moved_rows + place, mask=inside, other=0)
    old = tl.load(moved_from + place, mask=inside, other=-1)
    new = tl.load(labels + row, mask=inside, other=0)
    inside = inside & (old >= 0)
    both = tl.join(new, tl.maximum(old, 0))
    many = inside[:, None] & (both >= 0)
    rows = row[:, None] + tl.zeros_like(both)
    near, far = tl.split(canonical(X, centers, rows, both, many, d, BLOCK, 2))
    deposit_terms(far - near, inside, gap, low, state + INEXACT)


@triton.jit
def move_rows(
    state, X, labels, moved_rows, moved_from, sums, members, d, slots, scale, K,
    DIGITS: tl.constexpr, REPLICAS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Take the moved points out of their old clusters' sums and add them to the new ones.

    sums     IN/OUT  (DIGITS, REPLICAS, slots) int64: digits of 32 bits, the highest first; slots =
                     K d. All numbers are whole multiples of the lowest digit's unit.
    members  IN/OUT  (K,) int64, how many points each cluster has
    scale    IN      1 / (unit of the highest digit), a power of two
    """
    if tl.load(state + DONE) != 0:
        return
    count = tl.load(state + MOVED)
    if tl.program_id(0) * ROWS >= count:
        return
    place = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = place < count
    row = tl.load(moved_rows + place, mask=inside, other=0).to(tl.int64)
    old = tl.load(moved_from + place, mask=inside, other=-1).to(tl.int64)
    new = tl.load(labels + row, mask=inside, other=0).to(tl.int64)
    left = inside & (old >= 0)
    one = tl.full((ROWS,), 1, tl.int64)
    tl.atomic_add(members + new, one, mask=inside, sem="relaxed")
    tl.atomic_add(members + old, -one, mask=left, sem="relaxed")
    replica = (tl.program_id(0) % REPLICAS).to(tl.int64) * slots
    for start in range(0, d, COLUMNS):
        j = start + tl.arange(0, COLUMNS)
        there = inside[:, None] & (j < d)[None, :]
        gone = there & left[:, None]
        value = tl.load(X + row[:, None] * d + j[None, :], mask=there, other=0.0).to(tl.float64)
        value = value * scale
        to = sums + replica + new[:, None] * d + j[None, :]
        back = sums + replica + old[:, None] * d + j[None, :]
        for digit in tl.static_range(DIGITS):
            whole = value.to(tl.int64)
            value = (value - whole.to(tl.float64)) * 4294967296.0
            some = whole != 0
            offset = digit * REPLICAS * slots
            tl.atomic_add(to + offset, whole, mask=there & some, sem="relaxed")
            tl.atomic_add(back + offset, -whole, mask=gone & some, sem="relaxed")


@triton.jit
def find_means(
    state, sums, members, centers, means, residuals, shift, movement, shift_low, movement_low,
    unit, d, slots, DIGITS: tl.constexpr, REPLICAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Round the means of the clusters, and add up how far the centers move and what that gains.

    means      OUT  (K, d) in the centers' dtype; the given center where a cluster has no points
    residuals  OUT  (K, d) float64, exact mean minus `means`
    """
    if tl.load(state + DONE) != 0:
        return
    slot = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = slot < slots
    weight = tl.load(members + slot // d, mask=inside, other=0)
    full = inside & (weight > 0)
    divisor = tl.maximum(weight, 1)
    mean, rest = mean_and_residual(sums, slot, inside, divisor, unit, DIGITS, slots, REPLICAS)
    given = tl.load(centers + slot, mask=inside, other=0.0)
    short = tl.where(full, mean.to(given.dtype), given)
    residual = tl.where(full, mean - short.to(tl.float64) + rest, 0.0)
    tl.store(means + slot, short, mask=inside)
    tl.store(residuals + slot, residual, mask=inside)
    move = tl.where(full, short.to(tl.float64) - given.to(tl.float64), 0.0)
    gain = move * (move + 2.0 * residual)
    gain = weight.to(tl.float64) * tl.where(gain > 0.0, gain, 0.0)
    deposit_terms(move * move, inside, shift, shift_low, state + INEXACT)
    deposit_terms(gain, inside, movement, movement_low, state + INEXACT)


@triton.jit
def finish_step(
    state, reach, members, weights, gap, shift, movement, gap_low, shift_low, movement_low,
    point, records, tolerances, K, at_most, KEEP_EMPTY: tl.constexpr, BLOCK: tl.constexpr,
    LIMBS: tl.constexpr,
):  # fmt: skip
    """Write the record of the step, decide whether it is taken, and clear the sums for the next.

    point       IN/OUT  (4,) float64: shift, movement, gap and moved points on arrival at the point
    records     OUT  (at_most, 8): moved, empty, gap, movement and shift of the point; shift of the step
    tolerances  IN   (3,) float64: gap, decrease, shift; -1 where the rule does not look at it
    """
    if tl.load(state + DONE) != 0:
        return
    empty = 0
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        many = tl.load(members + k, mask=k < K, other=1)
        tl.store(weights + k, many.to(tl.float64), mask=k < K)
        empty += tl.sum((many == 0).to(tl.int32))
    gained = rounded_sum(gap, gap_low)
    moved_by = rounded_sum(shift, shift_low)
    moved_gain = rounded_sum(movement, movement_low)
    moved = tl.load(state + MOVED)
    step = tl.load(state + STEPS)
    empty_before = tl.load(state + EMPTY)
    shift_before = tl.load(point)
    record = records + step * 8
    tl.store(record, moved.to(tl.float64))
    tl.store(record + 1, empty_before.to(tl.float64))
    tl.store(record + 2, gained)
    tl.store(record + 3, moved_gain)
    tl.store(record + 4, shift_before)
    tl.store(record + 5, moved_by)
    tl.store(record + 6, tl.load(point + 1))
    tl.store(record + 7, tl.load(state + INEXACT).to(tl.float64))
    met = moved == 0
    met = met | (gained <= tl.load(tolerances))
    met = met | (gained + moved_gain <= tl.load(tolerances + 1))
    met = met | (shift_before <= tl.load(tolerances + 2))
    met = met | (step + 1 >= at_most)
    if not KEEP_EMPTY:
        met = met | (empty > 0)
    met = met | (tl.load(state + INEXACT) != 0)
    tl.debug_barrier()  # as in _settle
    tl.store(state + STEPS, step + 1)
    if met:
        tl.store(state + DONE, 1)
    else:
        tl.store(point, moved_by)
        tl.store(point + 1, moved_gain)
        tl.store(point + 2, gained)
        tl.store(point + 3, moved.to(tl.float64))
        tl.store(state + EMPTY, empty)
    i = tl.arange(0, LIMBS)
    zero = tl.zeros((LIMBS,), tl.int64)
    tl.debug_barrier()
    inside = i < 12
    tl.store(gap + i, zero, mask=inside)
    tl.store(shift + i, zero, mask=inside)
    tl.store(movement + i, zero, mask=inside)
    tl.store(state + ACTIVE, 0)
    tl.store(state + OPEN, 0)
    tl.store(state + HARD, 0)
    if not met:
        tl.store(state + MOVED, 0)
    for place in tl.static_range(2):
        tl.store(reach + place, 0)
