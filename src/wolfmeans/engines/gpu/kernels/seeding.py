"""Kernels of k-means++ on the device: draws by exact masses, and the choice among the trials.

Nothing here waits for the host. Each kernel first reads `state[DONE]`, which is set when all
rows are chosen or no point has any mass left. Launched with `enable_fp_fusion=False`: each
operation is rounded by itself.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.exact import LIMBS as _LIMBS
from wolfmeans.engines.gpu.kernels.exact import rounded_sum

LIMBS = tl.constexpr(_LIMBS)
# Places in `state`, int32.
DONE = tl.constexpr(0)
CHOSEN = tl.constexpr(1)
BEST = tl.constexpr(2)
INEXACT = tl.constexpr(3)
# Counters are this far apart, so that atomics to several of them do not wait for each other.
APART = tl.constexpr(32)


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
    value = value * tl.where(tiny, 18446744073709551616.0, 1.0)
    exponent = (value.to(tl.int64, bitcast=True) >> 52) - 1022 - tl.where(tiny, 64, 0)
    return 62 - bits - exponent


@triton.jit
def integers(masses, shift):
    """Return the masses times 2**shift, rounded down.

    In two steps, because 2**shift may be no normal number; what is 1 or more comes out exactly.
    """
    half = shift >> 1
    return (masses * _power_of_two(half) * _power_of_two(shift - half)).to(tl.int64)


@triton.jit(do_not_specialize=["n"])
def find_largest(state, closest, weights, largest, n, WEIGHTED: tl.constexpr, BLOCK: tl.constexpr):
    """Find the largest mass; its bits, which order like the number.

    largest  IN/OUT  (1,) int64, 0 before
    """
    if tl.load(state + DONE) != 0:
        return
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mass = tl.max(_masses(closest, weights, i, i < n, WEIGHTED))
    tl.atomic_max(largest, mass.to(tl.int64, bitcast=True), sem="relaxed")


@triton.jit(do_not_specialize=["n", "bits"])
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
    tl.store(sums + tl.program_id(0), tl.sum(integers(mass, _scaling(largest, bits))))


@triton.jit
def share(drawn, total):
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


@triton.jit(do_not_specialize=["n", "n_blocks", "bits", "steps"])
def draw_trials(
    state, closest, weights, order, largest, cumulative, drawn, trials, counters, changes,
    n, n_blocks, bits, steps, WEIGHTED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Pick the row of a trial, one program for each, and clear what is counted for it.

    cumulative  IN   (n_blocks,) int64, the sums of blocks up to each one
    drawn       IN   (rounds, n_trials) int64 of 0..2**63 - 2
    steps       IN   the bit length of n_blocks
    trials      OUT  (n_trials,) int64 rows
    counters, changes  OUT  zeros
    """
    if tl.load(state + DONE) != 0:
        return
    trial = tl.program_id(0)
    i = tl.arange(0, 16)
    zero = tl.zeros((16,), tl.int64)
    tl.store(changes + trial * LIMBS + i, zero, mask=i < LIMBS)
    tl.store(counters + trial * APART, 0)
    total = tl.load(cumulative + n_blocks - 1)
    if total == 0:
        tl.store(state + DONE, 1)
    else:
        round = tl.load(state + CHOSEN) - 1
        pick = share(tl.load(drawn + round * tl.num_programs(0) + trial), total)
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
        running = before + tl.cumsum(integers(mass, _scaling(largest, bits)), 0)
        index = tl.sum((running <= pick).to(tl.int32))
        tl.store(trials + trial, tl.load(order + low.to(tl.int64) * BLOCK + index))


@triton.jit(do_not_specialize=["low", "n_chosen", "n_trials"])
def choose_trial(
    state, trials, chosen, largest, potential, changes, low, n_chosen, n_trials,
    ALL_TRIALS: tl.constexpr,
):  # fmt: skip
    """Choose the first of the trials that leave the smallest potential, rounded once.

    chosen     OUT     (n_chosen,) int64 rows, the next one of them
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
    then = now[None, :] + tl.load(changes + place, mask=there, other=0)
    count = tl.load(state + CHOSEN)
    tl.debug_barrier()  # all has been read before it is written, and below the other way round
    tl.store(changes + place, then, mask=there)
    tl.debug_barrier()
    value = tl.where(t < n_trials, rounded_sum(changes + t * LIMBS, low), float("inf"))
    least = tl.min(value)
    best = tl.min(tl.where(value == least, t, ALL_TRIALS))
    tl.store(chosen + count, tl.load(trials + best))
    # One carry to the next limb keeps all of them small.
    limb = tl.load(changes + best * LIMBS + i, mask=i < LIMBS, other=0)
    below = tl.load(changes + best * LIMBS + i - 1, mask=(i > 0) & (i < LIMBS), other=0)
    kept = tl.where(i < LIMBS - 1, limb & 0xFFFFFFFF, limb)
    tl.store(potential + i, kept + (below >> 32), mask=i < LIMBS)
    tl.store(state + BEST, best)
    tl.store(state + CHOSEN, count + 1)
    if count + 1 >= n_chosen:
        tl.store(state + DONE, 1)
    zero = tl.full((), 0, tl.int64)
    tl.store(largest, zero)
