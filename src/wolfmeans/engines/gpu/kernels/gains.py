"""Kernels that add up what points would gain by one more center at a data point.

First come the pairs of a point and a trial that short arithmetic cannot rule out, all in one list;
then their canonical distances, each added to the sum of its trial.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.candidates import GIVEN_UP, INEXACT, PAIRS
from wolfmeans.engines.gpu.kernels.exact import LIMBS as _LIMBS
from wolfmeans.engines.gpu.kernels.exact import deposit_terms, rounded_sum
from wolfmeans.engines.gpu.kernels.lists import FAR
from wolfmeans.engines.gpu.kernels.recheck import canonical
from wolfmeans.engines.gpu.kernels.seeding import APART
from wolfmeans.engines.gpu.kernels.trials import placed

LIMBS = tl.constexpr(_LIMBS)
TRIAL_BITS = 16
"""Bits of a pair that hold its trial."""
_TRIAL_BITS = tl.constexpr(TRIAL_BITS)
_TRIAL = tl.constexpr((1 << TRIAL_BITS) - 1)


@triton.jit(do_not_specialize=["n_trials"])
def shorten_trials(
    found, X, mu, rows, points, errors, rounding, short, norms, error_bounds, n_trials, d,
    scale: tl.float64, radius, products_error, score_error, WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Bring the trials together in short arithmetic, with what a score begins with (screening).

    points        IN   (n, WIDTH) float16 copy of the data, with `errors`
    rounding      IN   (1,) float32, rho
    short         OUT  (padded, WIDTH) float16
    norms         OUT  (padded,) float32, squared norm minus error bound; infinite from `n_trials`
    error_bounds  OUT  (padded,) float32, how wrong the arithmetic of a score can be
    """
    if tl.load(found + GIVEN_UP) != 0:
        return
    trial = tl.program_id(0)
    k = tl.load(rows + trial, mask=trial < n_trials, other=0)
    norm = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, WIDTH, BLOCK):
        j = start + tl.arange(0, BLOCK)
        there = j < d
        x = tl.load(X + k * d + j, mask=there, other=0.0).to(tl.float64)
        exact = (x - tl.load(mu + j, mask=there, other=0.0)) * scale
        norm += tl.where(there, exact * exact, 0.0)
        copied = tl.load(points + k * WIDTH + j, mask=j < WIDTH, other=0.0)
        tl.store(short + trial * WIDTH + j, copied, mask=j < WIDTH)
    squared = tl.sum(norm)
    size = tl.sqrt(squared)
    rho = tl.load(rounding).to(tl.float64)
    gamma = tl.load(errors + k).to(tl.float64)
    # As in prepare_centers; gamma is no small part of the size where numbers were cut off.
    error_bound = products_error * radius * (size + gamma + 2.0**-14)
    error_bound += score_error * (squared + 2.0 * radius * (size + gamma))
    tl.store(error_bounds + trial, tl.minimum(error_bound, 1.0e37).to(tl.float32))
    error_bound += 2.0 * (radius * gamma + rho * (size + gamma))
    error_bound = tl.minimum(error_bound * (1.0 + score_error) * (1.0 + 2.0**-20), 1.0e37)
    norm = tl.minimum(squared, 1.0e37) - error_bound * (1.0 + 2.0**-19)
    tl.store(norms + trial, tl.where(trial < n_trials, norm, float("inf")).to(tl.float32))


@triton.jit
def _bits_set(words):
    """Return how many bits of int32 words are set."""
    bits = words.to(tl.uint32, bitcast=True)
    bits = bits - ((bits >> 1) & 0x55555555)
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F
    return ((bits * 0x01010101) >> 24).to(tl.int32)


@triton.jit(do_not_specialize=["n"])
def mark_pairs(
    found, points, sizes, distances, short, norms, error_bounds, noise, words, n, scale: tl.float64,
    WIDTH: tl.constexpr, DEPTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    PADDED: tl.constexpr,
):  # fmt: skip
    """Mark the pairs of a point and a trial that may be nearer than the point and its center.

    points  IN   (n, WIDTH) float16 copy of the data, with `sizes` (screening)
    short   IN   the trials, with norms and error bounds (shorten_trials)
    noise   IN   (64, 64) of [-1, 1], to make scores as wrong as they may be, or None
    words   OUT  (n, PADDED / 32) int32, a bit for each trial

    No score v is above its truth |r|^2 - 2 x.r, and the squared norm a of a point is too large by
    2**-19 of itself at most. So all trials with v > C - a + 2**-17 (C + a) + 2**-20 are farther
    than C, the scaled distance to the nearest center: float32 rounds that by less than 2**-22
    (C + a), and the rest is more than canonical distances are rounded by (seeding).
    """
    if tl.load(found + GIVEN_UP) != 0:
        return
    i = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = i < n
    own = tl.load(distances + i, mask=inside, other=0.0)
    # Rounded up; infinite where float32 has no such number.
    c = (own * scale * scale * (1.0 + 2.0**-20)).to(tl.float32)
    norm = tl.load(sizes + i, mask=inside, other=0.0)
    a = tl.where(norm < FAR, norm, 0.0)
    most = tl.minimum((c - a) + 2.0**-17 * (c + a) + 2.0**-20, FAR)
    # Rows beyond the radius may be near to anything; those at a center are to nothing.
    most = tl.where(norm < FAR, most, FAR)
    most = tl.where(own > 0.0, most, float("-inf"))
    row = tl.where(inside, i, 0)
    start = row * WIDTH
    depth = tl.arange(0, DEPTH)
    GROUPS: tl.constexpr = COLUMNS // 32
    x = start
    if WIDTH == DEPTH:
        x = tl.load(points + start[:, None] + depth[None, :])
    bit = (1 << tl.arange(0, 32))[None, None, :]
    group = tl.arange(0, GROUPS)[None, :]
    for begin in range(0, PADDED, COLUMNS):
        k = begin + tl.arange(0, COLUMNS)
        if WIDTH == DEPTH:
            r = tl.load(short + k[None, :] * WIDTH + depth[:, None])
            products = tl.dot(x, r)
        else:
            products = tl.zeros((ROWS, COLUMNS), tl.float32)
            for j in range(0, WIDTH, DEPTH):
                part = tl.load(points + start[:, None] + (j + depth)[None, :])
                r = tl.load(short + k[None, :] * WIDTH + (j + depth)[:, None])
                products = tl.dot(part, r, products)
        v = tl.load(norms + k)[None, :] - 2.0 * products
        if noise is not None:
            wave = tl.load(noise + (i % 64)[:, None] * 64 + (k % 64)[None, :])
            v += 0.9 * wave * tl.load(error_bounds + k)[None, :]
        possible = tl.reshape(v <= most[:, None], (ROWS, GROUPS, 32))
        marks = tl.sum(tl.where(possible, bit, 0), axis=2)
        there = i[:, None] * (PADDED // 32) + begin // 32 + group
        tl.store(words + there, marks, mask=inside[:, None])


@triton.jit(do_not_specialize=["size", "capacity"])
def list_pairs(found, words, pairs, size, capacity, WORDS: tl.constexpr, BLOCK: tl.constexpr):
    """List the marked pairs.

    words  IN   (size,) int32, WORDS for each row, a bit for each trial
    pairs  OUT  (capacity,) int64, rows and trials
    found  OUT  PAIRS: how many there are; it begins as 0
    """
    if tl.load(found + GIVEN_UP) != 0:
        return
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    word = tl.load(words + at, mask=at < size, other=0)
    many = _bits_set(word)
    total = tl.sum(many)
    if total > 0:
        begin = tl.atomic_add(found + PAIRS, total.to(tl.int64), sem="relaxed")
        place = begin + (tl.cumsum(many, 0) - many).to(tl.int64)
        first = (at // WORDS << _TRIAL_BITS) | (at % WORDS * 32)
        for _ in range(tl.max(many)):
            lowest = word & -word
            # Where it is: the exponent of a float32, whatever the sign.
            bit = ((lowest.to(tl.float32).to(tl.int32, bitcast=True) >> 23) & 255) - 127
            tl.store(pairs + place, first + bit, mask=(word != 0) & (place < capacity))
            place += (word != 0).to(tl.int64)
            word = word ^ lowest


@triton.jit(do_not_specialize=["low", "capacity", "n_trials"])
def sum_pairs(
    found, X, closest, masses, rows, pairs, sums, low, d, capacity, n_trials, COPIES: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Add up, for each trial, the gains of the points that are nearer to it than to any center.

    closest  IN   (n,) float64, distances to the nearest center
    masses   IN   (n,) float64, what counts of each point, None for ones
    rows     IN   (n_trials,) int64
    pairs    IN   (capacity,) int64 (list_pairs); not read where there is no room
    sums     OUT  (COPIES, n_trials, LIMBS) int64: several sums for each trial, so that programs
                  wait for each other less
    """
    if tl.load(found + GIVEN_UP) != 0:
        return
    count = tl.load(found + PAIRS)
    if count > capacity:
        return
    mine = sums + (tl.program_id(0) % COPIES) * n_trials * LIMBS
    for start in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside = place < count
        pair = tl.load(pairs + place, mask=inside, other=0)
        row, trial = pair >> _TRIAL_BITS, pair & _TRIAL
        k = tl.load(rows + trial, mask=inside, other=0)
        distance = canonical(X, X, row[:, None], k[:, None], inside[:, None], d, BLOCK, 1)
        gain = tl.load(closest + row, mask=inside, other=0.0) - tl.reshape(distance, (BLOCK,))
        won = inside & (gain > 0.0)
        if masses is not None:
            gain = tl.load(masses + row, mask=inside, other=0.0) * gain
        limb, lower, middle, upper, wrong = placed(gain, won, low)
        lost = tl.max(wrong.to(tl.int32)).to(tl.int64)
        tl.atomic_max(found + INEXACT, lost, mask=lost > 0)
        there = mine + trial * LIMBS + limb
        counted = limb >= 0
        tl.atomic_add(there, lower, mask=counted & (lower != 0), sem="relaxed")
        tl.atomic_add(there + 1, middle, mask=counted & (middle != 0), sem="relaxed")
        tl.atomic_add(there + 2, upper, mask=counted & (upper != 0), sem="relaxed")


@triton.jit(do_not_specialize=["low", "n_trials"])
def round_copies(found, sums, low, gains, n_trials, COPIES: tl.constexpr):
    """Round the sum of each trial once.

    sums   IN/OUT  (COPIES, n_trials, LIMBS) int64; the first are those of all copies on return
    gains  OUT     (n_trials,) float64
    """
    if tl.load(found + GIVEN_UP) != 0:
        return
    trial = tl.program_id(0)
    i = tl.arange(0, 16)
    total = tl.zeros((16,), tl.int64)
    for copy in range(COPIES):
        at = (copy * n_trials + trial) * LIMBS + i
        total += tl.load(sums + at, mask=i < LIMBS, other=0)
    tl.debug_barrier()  # all threads have read
    tl.store(sums + trial * LIMBS + i, total, mask=i < LIMBS)
    tl.debug_barrier()
    tl.store(gains + trial, rounded_sum(sums + trial * LIMBS, low))


@triton.jit(do_not_specialize=["low", "n", "capacity"])
def sum_gains(
    X, closest, masses, trials, counters, lists, sums, low, inexact, n, d, capacity,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Add up, for each trial, the gains of the points that are nearer to it than to any center.

    closest   IN   (n,) float64, distances to the nearest center
    masses    IN   (n,) float64, what counts of each point, None for ones
    trials    IN   (T,) int64 rows
    counters  IN   (T, APART) int32, lengths of the lists in the first column; a list that has no
                   room for all is not looked at, but all points are
    lists     IN   (T, capacity) int32 rows that may be nearer, in any order
    sums      OUT  (T, LIMBS) int64 (deposit_terms)
    """
    trial = tl.program_id(1)
    k = tl.load(trials + trial)
    count = tl.load(counters + trial * APART)
    listed = count <= capacity
    many = tl.where(listed, count, n)
    written = tl.where(listed, count, 0)
    for start in range(tl.program_id(0) * BLOCK, many, tl.num_programs(0) * BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside = place < many
        at = trial.to(tl.int64) * capacity + place
        row = tl.load(lists + at, mask=place < written, other=0)
        row = tl.where(listed, row, place).to(tl.int64)
        distance = canonical(
            X, X, row[:, None], (k + tl.zeros_like(row))[:, None], inside[:, None], d, BLOCK, 1
        )
        gain = tl.load(closest + row, mask=inside, other=0.0) - tl.reshape(distance, (BLOCK,))
        won = inside & (gain > 0.0)
        if masses is not None:
            gain = tl.load(masses + row, mask=inside, other=0.0) * gain
        deposit_terms(gain, won, sums + trial * LIMBS, low, inexact)


@triton.jit(do_not_specialize=["low"])
def round_sums(sums, low, out):
    """Round each of several sums once."""
    trial = tl.program_id(0)
    tl.store(out + trial, rounded_sum(sums + trial * LIMBS, low))
