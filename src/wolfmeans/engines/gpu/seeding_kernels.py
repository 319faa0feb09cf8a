"""Kernels of k-means++ on the device: draws by exact masses, and exact potentials of the trials.

Nothing here asks the host. Each kernel begins by looking at `state[DONE]`, which is set when no
point has any mass left. Launched with `enable_fp_fusion=False`: each operation is rounded by itself.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.exact_kernels import LIMBS as _LIMBS
from wolfmeans.engines.gpu.exact_kernels import deposit_terms, rounded_sum
from wolfmeans.engines.gpu.recheck_kernels import canonical

LIMBS = tl.constexpr(_LIMBS)
# Places in `state`, int32.
DONE = tl.constexpr(0)
CHOSEN = tl.constexpr(1)
BEST = tl.constexpr(2)
INEXACT = tl.constexpr(3)


@triton.jit
def _masses(closest, weights, row, mask, WEIGHTED: tl.constexpr):
    mass = tl.load(closest + row, mask=mask, other=0.0)
    if WEIGHTED:
        mass = tl.load(weights + row, mask=mask, other=0.0) * mass
    return mass


@triton.jit
def _power_of_two(exponent):
    return ((exponent.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)


@triton.jit
def _scaling(largest, bits):
    """Return the exponent that makes the largest mass a number of 62 - bits bits."""
    value = tl.load(largest).to(tl.float64, bitcast=True)
    tiny = value < 2.0**-1000
    value = tl.where(tiny, value * 18446744073709551616.0, value)
    exponent = (value.to(tl.int64, bitcast=True) >> 52) - 1022 - tl.where(tiny, 64, 0)
    return 62 - bits - exponent


@triton.jit
def _integers(masses, shift):
    """Return the masses times 2**shift, rounded down.

    In two steps, because 2**shift may be no normal number; what is 1 or more comes out exactly.
    """
    half = shift >> 1
    return (masses * _power_of_two(half) * _power_of_two(shift - half)).to(tl.int64)


@triton.jit
def find_largest(state, closest, weights, largest, n, WEIGHTED: tl.constexpr, BLOCK: tl.constexpr):
    """Find the largest mass; its bits, which order like the number.

    largest  IN/OUT  (1,) int64, 0 before
    """
    if tl.load(state + DONE) != 0:
        return
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mass = tl.max(_masses(closest, weights, i, i < n, WEIGHTED))
    tl.atomic_max(largest, mass.to(tl.int64, bitcast=True), sem="relaxed")


@triton.jit
def sum_blocks(
    state, closest, weights, order, largest, sums, n, bits, WEIGHTED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Add up the integer masses of BLOCK places each.

    order  IN   (n,) int64, the row at each place
    bits   IN   the bit length of n
    sums   OUT  (n / BLOCK,) int64
    """
    if tl.load(state + DONE) != 0:
        return
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(order + place, mask=place < n, other=0)
    mass = _masses(closest, weights, row, place < n, WEIGHTED)
    tl.store(sums + tl.program_id(0), tl.sum(_integers(mass, _scaling(largest, bits))))


@triton.jit
def _share(drawn, total):
    """Return drawn * total // (2**63 - 1) for drawn < 2**63 - 1 and total < 2**62.

    The product is a 2**63 + b = a (2**63 - 1) + (a + b), and a + b < 2 (2**63 - 1).
    """
    mask = 0xFFFFFFFF
    u0, u1 = (drawn & mask).to(tl.uint64), (drawn >> 32).to(tl.uint64)
    t0, t1 = (total & mask).to(tl.uint64), (total >> 32).to(tl.uint64)
    low = u0 * t0
    middle = u1 * t0 + u0 * t1 + (low >> 32)
    high = u1 * t1 + (middle >> 32)
    low = (middle << 32) | (low & mask)
    a = ((high << 1) | (low >> 63)).to(tl.int64)
    b = (low & 0x7FFFFFFFFFFFFFFF).to(tl.int64)
    # b reaches 2**63 - 1 - a; written so that nothing overflows.
    return a + (b >= 0x7FFFFFFFFFFFFFFF - a).to(tl.int64)


@triton.jit
def draw_trials(
    state, closest, weights, order, largest, cumulative, drawn, trials, counters, lost, gained,
    n, n_blocks, bits, steps, WEIGHTED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Pick the row of a trial, one program for each, and clear what is counted for it.

    cumulative  IN   (n_blocks,) int64, the sums of blocks up to each one
    drawn       IN   (rounds, n_trials) int64 of 0..2**63 - 2
    steps       IN   the bit length of n_blocks
    trials      OUT  (n_trials,) int64 rows
    counters, lost, gained  OUT  zeros
    """
    if tl.load(state + DONE) != 0:
        return
    trial = tl.program_id(0)
    i = tl.arange(0, 16)
    zero = tl.zeros((16,), tl.int64)
    tl.store(lost + trial * LIMBS + i, zero, mask=i < LIMBS)
    tl.store(gained + trial * LIMBS + i, zero, mask=i < LIMBS)
    tl.store(counters + trial, 0)
    total = tl.load(cumulative + n_blocks - 1)
    if total == 0:
        tl.store(state + DONE, 1)
    else:
        round = tl.load(state + CHOSEN) - 1
        pick = _share(tl.load(drawn + round * tl.num_programs(0) + trial), total)
        # The first block whose cumulative sum passes the pick.
        low = tl.full((), 0, tl.int32)
        high = low + n_blocks - 1
        for _ in range(steps):
            middle = (low + high) // 2
            passed = tl.load(cumulative + middle) > pick
            high = tl.where(passed, middle, high)
            low = tl.where(passed, low, middle + 1)
        before = tl.load(cumulative + tl.maximum(low - 1, 0), mask=low > 0, other=0)
        place = low.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        row = tl.load(order + place, mask=place < n, other=0)
        mass = _masses(closest, weights, row, place < n, WEIGHTED)
        running = before + tl.cumsum(_integers(mass, _scaling(largest, bits)), 0)
        index = tl.sum((running <= pick).to(tl.int32))
        tl.store(trials + trial, tl.load(order + low.to(tl.int64) * BLOCK + index))


@triton.jit
def _overflows(counters, capacity, n_trials, ALL_TRIALS: tl.constexpr):
    """Return whether some trial has more pairs than its list has room for."""
    t = tl.arange(0, ALL_TRIALS)
    return tl.max(tl.load(counters + t, mask=t < n_trials, other=0)) > capacity


@triton.jit
def weigh_all(
    state, X, closest, weights, trials, counters, lost, gained, low, n, d, capacity, n_trials,
    WEIGHTED: tl.constexpr, SCREENED: tl.constexpr, BLOCK: tl.constexpr, TRIALS: tl.constexpr,
    ALL_TRIALS: tl.constexpr,
):  # fmt: skip
    """Find what each trial would change in the potential, looking at all points.

    lost, gained  OUT  (n_trials, LIMBS) int64: exact sums of the masses that would be replaced,
                       and of those that would take their place
    Where there are lists of pairs (SCREENED) this is left to `weigh_pairs` unless one overflows.
    """
    if tl.load(state + DONE) != 0:
        return
    if SCREENED:
        if not _overflows(counters, capacity, n_trials, ALL_TRIALS):
            return
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    t = tl.program_id(1) * TRIALS + tl.arange(0, TRIALS)
    many = (i < n)[:, None] & (t < n_trials)[None, :]
    k = tl.load(trials + t, mask=t < n_trials, other=0)[None, :] + tl.zeros_like(i)[:, None]
    row = i[:, None] + tl.zeros_like(k)
    distance = canonical(X, X, row, k, many, d, BLOCK, TRIALS)
    before = tl.load(closest + i, mask=i < n, other=0.0)
    nearer = many & (distance < before[:, None])
    weight = before
    if WEIGHTED:
        weight = tl.load(weights + i, mask=i < n, other=0.0)
    for column in tl.static_range(TRIALS):
        mine = tl.arange(0, TRIALS)[None, :] == column
        some = tl.max((nearer & mine).to(tl.int32), axis=1) > 0
        if tl.max(some.to(tl.int32)) > 0:
            trial = tl.program_id(1) * TRIALS + column
            new = tl.sum(tl.where(mine, distance, 0.0), axis=1)
            old = before
            if WEIGHTED:
                new = weight * new
                old = weight * old
            deposit_terms(old, some, lost + trial * LIMBS, low, state + INEXACT)
            deposit_terms(new, some, gained + trial * LIMBS, low, state + INEXACT)


@triton.jit
def choose_trial(
    state, trials, chosen, largest, potential, lost, gained, low, n_trials,
    ALL_TRIALS: tl.constexpr,
):  # fmt: skip
    """Choose the first of the trials that leave the smallest potential, rounded once.

    chosen     OUT     (K,) int64 rows, the next one of them
    largest    OUT     (1,) int64, 0 for the next round
    potential  IN/OUT  (LIMBS,) int64, the exact potential
    """
    if tl.load(state + DONE) != 0:
        return
    t = tl.arange(0, ALL_TRIALS)
    i = tl.arange(0, 16)
    place = t[:, None] * LIMBS + i[None, :]
    there = (t < n_trials)[:, None] & (i < LIMBS)[None, :]
    now = tl.load(potential + i, mask=i < LIMBS, other=0)
    then = now[None, :] + tl.load(gained + place, mask=there, other=0)
    then = then - tl.load(lost + place, mask=there, other=0)
    count = tl.load(state + CHOSEN)
    tl.debug_barrier()  # all has been read before it is written, and below the other way round
    tl.store(gained + place, then, mask=there)
    tl.debug_barrier()
    value = tl.where(t < n_trials, rounded_sum(gained + t * LIMBS, low), float("inf"))
    least = tl.min(value)
    best = tl.min(tl.where(value == least, t, ALL_TRIALS))
    tl.store(chosen + count, tl.load(trials + best))
    # One carry to the next limb keeps all of them small.
    limb = tl.load(gained + best * LIMBS + i, mask=i < LIMBS, other=0)
    below = tl.load(gained + best * LIMBS + i - 1, mask=(i > 0) & (i < LIMBS), other=0)
    kept = tl.where(i < LIMBS - 1, limb & 0xFFFFFFFF, limb)
    tl.store(potential + i, kept + (below >> 32), mask=i < LIMBS)
    tl.store(state + BEST, best)
    tl.store(state + CHOSEN, count + 1)
    zero = tl.full((), 0, tl.int64)
    tl.store(largest, zero)


@triton.jit
def come_closer(
    state, X, closest, trials, counters, lists, found, n, d, capacity, n_trials,
    SCREENED: tl.constexpr, BLOCK: tl.constexpr, ALL_TRIALS: tl.constexpr,
):  # fmt: skip
    """Bring the distances to the nearest chosen row up to date.

    closest  IN/OUT  (n,) float64
    """
    if tl.load(state + DONE) != 0:
        return
    best = tl.load(state + BEST)
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    everywhere = True
    if SCREENED:
        everywhere = _overflows(counters, capacity, n_trials, ALL_TRIALS)
        if not everywhere:
            inside = i < tl.load(counters + best)
            place = best.to(tl.int64) * capacity + i
            row = tl.load(lists + place, mask=inside, other=0)
            tl.store(closest + row, tl.load(found + place, mask=inside, other=0.0), mask=inside)
    if everywhere:
        inside = i < n
        k = tl.load(trials + best) + tl.zeros_like(i)
        distance = canonical(X, X, i[:, None], k[:, None], inside[:, None], d, BLOCK, 1)
        distance = tl.reshape(distance, (BLOCK,))
        before = tl.load(closest + i, mask=inside, other=0.0)
        tl.debug_barrier()  # a value may be held by several threads
        tl.store(closest + i, tl.minimum(distance, before), mask=inside)
