"""Kernels of k-means++ that read points: which a trial brings closer, and what that changes.

As in `seeding_kernels`. The screen alone is launched without `enable_fp_fusion=False`: its bound is
for any rounding.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.recheck import canonical
from wolfmeans.engines.gpu.kernels.seeding import APART, BEST, DONE, INEXACT, LIMBS


@triton.jit
def _overflows(counters, capacity, n_trials, ALL_TRIALS: tl.constexpr):
    """Return whether some trial has more pairs than its list has room for."""
    t = tl.arange(0, ALL_TRIALS)
    return tl.max(tl.load(counters + t * APART, mask=t < n_trials, other=0)) > capacity


@triton.jit
def placed(terms, mask, low):
    """Return where the 53 bits of non-negative terms lie in limbs of 32 bits, and what they are.

    The lowest limb that a term reaches, the parts in that limb and in the next two, and whether a
    term has bits below 2**low or above the highest limb. Limbs are -3 for terms without bits.
    """
    bits = tl.where(mask, terms, 0.0).to(tl.int64, bitcast=True)
    exponent = bits >> 52
    normal = exponent > 0
    mantissa = (bits & 0xFFFFFFFFFFFFF) | (normal.to(tl.int64) << 52)
    place = (tl.where(normal, exponent, 1) - 1075 - low).to(tl.int32)
    below = tl.minimum(tl.maximum(-place, 0), 62).to(tl.int64)
    kept = (mantissa >> below) << below
    lost = kept != mantissa
    mantissa = mantissa >> below
    place = tl.maximum(place, 0)
    limb = place >> 5
    wrong = lost | ((mantissa != 0) & (limb > LIMBS - 4))
    shift = (place & 31).to(tl.int64)
    lower = (mantissa & 0xFFFFFFFF) << shift
    upper = (mantissa >> 32) << shift
    middle = (lower >> 32) + (upper & 0xFFFFFFFF)
    limb = tl.where((mantissa != 0) & ~wrong, limb, -3)
    return limb, lower & 0xFFFFFFFF, middle, upper >> 32, wrong


@triton.jit
def _add_changes(total, old, new, mask, low, inexact):
    """Return total with terms new - old added, column by column.

    total     IN   (T, 16) int64 limbs, limb i counts 2**(low + 32 i)
    old, new  IN   (B, T) float64, not negative
    mask      IN   (B, T) which of them count
    inexact   OUT  (1,) int32, set when a term has no room
    """
    a, a0, a1, a2, a_wrong = placed(old, mask, low)
    b, b0, b1, b2, b_wrong = placed(new, mask, low)
    wrong = tl.max(tl.max((a_wrong | b_wrong).to(tl.int32), axis=1), axis=0)
    tl.atomic_max(inexact, wrong, mask=wrong > 0)
    least = tl.minimum(tl.where(a < 0, LIMBS, a), tl.where(b < 0, LIMBS, b))
    first = tl.min(tl.min(least, axis=1), axis=0)
    last = tl.max(tl.max(tl.maximum(a, b), axis=1), axis=0) + 2
    limb = tl.arange(0, 16)[None, :]
    for i in range(first, last + 1):
        part = tl.where(b == i, b0, 0) + tl.where(b + 1 == i, b1, 0) + tl.where(b + 2 == i, b2, 0)
        part -= tl.where(a == i, a0, 0) + tl.where(a + 1 == i, a1, 0) + tl.where(a + 2 == i, a2, 0)
        total += tl.where(limb == i, tl.sum(part, axis=0)[:, None], 0)
    return total


@triton.jit
def _append_pairs(possible, i, lists, counters, capacity, first, T: tl.constexpr):
    """Put rows at the ends of the lists of their trials, one atomic for each trial that has any."""
    bit = (1 << tl.arange(0, T))[None, :]
    bits = tl.sum(tl.where(possible, bit, 0), axis=1)
    if tl.max(bits) > 0:
        for column in tl.static_range(T):
            mine = (bits >> column) & 1
            many = tl.sum(mine)
            if many > 0:
                begin = tl.atomic_add(counters + (first + column) * APART, many, sem="relaxed")
                place = begin + tl.cumsum(mine, 0) - 1
                there = lists + (first + column).to(tl.int64) * capacity + place
                tl.store(there, i.to(tl.int32), mask=(mine > 0) & (place < capacity))


@triton.jit(do_not_specialize=["n", "capacity", "n_trials"])
def list_nearer(
    state, X, closest, trials, counters, lists, n, d, capacity, n_trials, BLOCK: tl.constexpr,
    TRIALS: tl.constexpr,
):  # fmt: skip
    """List for each trial the points that it is nearer to than any chosen row, canonically.

    counters  IN/OUT  (n_trials, APART) int32, lengths of the lists in the first column, 0 before;
                      above the capacity when a list has no room for all
    lists     OUT     (n_trials, capacity) int32 rows, in any order
    """
    if tl.load(state + DONE) != 0:
        return
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    t = tl.program_id(1) * TRIALS + tl.arange(0, TRIALS)
    many = (i < n)[:, None] & (t < n_trials)[None, :]
    k = tl.load(trials + t, mask=t < n_trials, other=0)[None, :] + tl.zeros_like(i)[:, None]
    distance = canonical(X, X, i[:, None] + tl.zeros_like(k), k, many, d, BLOCK, TRIALS)
    before = tl.load(closest + i, mask=i < n, other=0.0)
    possible = many & (distance < before[:, None])
    _append_pairs(possible, i, lists, counters, capacity, tl.program_id(1) * TRIALS, TRIALS)


@triton.jit(do_not_specialize=["n", "capacity", "n_trials"])
def list_possible(
    state, points, sizes, errors, closest, trials, counters, lists, n, capacity, n_trials, scale,
    products_error, noise, WIDTH: tl.constexpr, DEPTH: tl.constexpr, BLOCK: tl.constexpr,
    TRIALS: tl.constexpr,
):  # fmt: skip
    """List for each trial the points that short arithmetic cannot exclude.

    points  IN  (n, WIDTH) float16 copy of the data, with `sizes` and `errors` (screening)
    noise   IN  (64, 64) of [-1, 1] to make products as wrong as they may be, or None

    The bound is derived in `seeding`.
    """
    if tl.load(state + DONE) != 0:
        return
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    t = tl.program_id(1) * TRIALS + tl.arange(0, TRIALS)
    there = t < n_trials
    k = tl.load(trials + t, mask=there, other=0)
    before = tl.load(closest + i, mask=inside, other=0.0)
    products = tl.zeros((BLOCK, TRIALS), tl.float32)
    for start in range(0, WIDTH, DEPTH):
        j = start + tl.arange(0, DEPTH)
        x = tl.load(points + i[:, None] * WIDTH + j[None, :], mask=inside[:, None], other=0.0)
        r = tl.load(points + k[None, :] * WIDTH + j[:, None], mask=there[None, :], other=0.0)
        products = tl.dot(x, r, products)
    a = tl.load(sizes + i, mask=inside, other=0.0)
    b = tl.load(sizes + k, mask=there, other=0.0)
    rho = tl.load(errors + i, mask=inside, other=0.0)
    gamma = tl.load(errors + k, mask=there, other=0.0)
    x_norm = tl.sqrt(a) * (1.0 + 2.0**-20) + rho
    r_norm = tl.sqrt(b) * (1.0 + 2.0**-20) + gamma
    error_bound = 2.0 * (x_norm[:, None] * gamma[None, :] + rho[:, None] * r_norm[None, :])
    products_doubt = products_error * (x_norm[:, None] * r_norm[None, :])
    # Rounded up; scaled in two steps, because the square of the scale may be no float64 number.
    c = (before * scale * scale * (1.0 + 2.0**-20)).to(tl.float32)
    sizes_of_both = a[:, None] + b[None, :]
    least = sizes_of_both - 2.0 * products - (error_bound + products_doubt)
    if noise is not None:
        least += tl.load(noise + (i % 64)[:, None] * 64 + (t % 64)[None, :]) * products_doubt
    margin = 2.0**-17 * (sizes_of_both + c[:, None]) + 2.0**-20
    # Comparisons with what is not a number, or infinite on both sides, rule nothing out.
    ruled_out = least - c[:, None] > margin
    possible = inside[:, None] & there[None, :] & (before > 0.0)[:, None] & ~ruled_out
    _append_pairs(possible, i, lists, counters, capacity, tl.program_id(1) * TRIALS, TRIALS)


@triton.jit(do_not_specialize=["low", "capacity", "n_trials"])
def weigh_pairs(
    state, X, closest, weights, trials, counters, lists, found, changes, low, d, capacity, n_trials,
    WEIGHTED: tl.constexpr, BLOCK: tl.constexpr, ALL_TRIALS: tl.constexpr,
):  # fmt: skip
    """Find what each trial would change in the potential, looking at the points of its list.

    found    OUT     (n_trials, capacity) float64, the distances to the nearest chosen row then
    changes  IN/OUT  (n_trials, LIMBS) int64: exact sums of the changes of masses
    """
    if tl.load(state + DONE) != 0:
        return
    if _overflows(counters, capacity, n_trials, ALL_TRIALS):
        return
    trial = tl.program_id(1)
    count = tl.load(counters + trial * APART)
    k = tl.load(trials + trial)
    total = tl.zeros((1, 16), tl.int64)
    for start in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
        place = start + tl.arange(0, BLOCK)
        inside = place < count
        at = trial.to(tl.int64) * capacity + place
        row = tl.load(lists + at, mask=inside, other=0).to(tl.int64)
        r = (k + tl.zeros_like(row))[:, None]
        new = canonical(X, X, row[:, None], r, inside[:, None], d, BLOCK, 1)
        old = tl.load(closest + row, mask=inside, other=0.0)[:, None]
        nearer = inside[:, None] & (new < old)
        tl.store((found + at)[:, None], tl.minimum(new, old), mask=inside[:, None])
        if WEIGHTED:
            weight = tl.load(weights + row, mask=inside, other=0.0)[:, None]
            new = weight * new
            old = weight * old
        total = _add_changes(total, old, new, nearer, low, state + INEXACT)
    i = tl.arange(0, 16)[None, :]
    tl.atomic_add(changes + trial * LIMBS + i, total, mask=total != 0, sem="relaxed")


@triton.jit(do_not_specialize=["low", "n", "capacity", "n_trials"])
def weigh_all(
    state, X, closest, weights, trials, counters, changes, low, n, d, capacity, n_trials,
    WEIGHTED: tl.constexpr, BLOCK: tl.constexpr, TRIALS: tl.constexpr, ALL_TRIALS: tl.constexpr,
):  # fmt: skip
    """Do what `weigh_pairs` does, looking at all points, when a list has no room."""
    if tl.load(state + DONE) != 0:
        return
    if not _overflows(counters, capacity, n_trials, ALL_TRIALS):
        return
    t = tl.program_id(1) * TRIALS + tl.arange(0, TRIALS)
    r = tl.load(trials + t, mask=t < n_trials, other=0)
    total = tl.zeros((TRIALS, 16), tl.int64)
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = start + tl.arange(0, BLOCK).to(tl.int64)
        many = (i < n)[:, None] & (t < n_trials)[None, :]
        k = r[None, :] + tl.zeros_like(i)[:, None]
        new = canonical(X, X, i[:, None] + tl.zeros_like(k), k, many, d, BLOCK, TRIALS)
        old = tl.load(closest + i, mask=i < n, other=0.0)[:, None] + tl.zeros_like(new)
        nearer = many & (new < old)
        if WEIGHTED:
            weight = tl.load(weights + i, mask=i < n, other=0.0)[:, None]
            new = weight * new
            old = weight * old
        total = _add_changes(total, old, new, nearer, low, state + INEXACT)
    place = t[:, None] * LIMBS + tl.arange(0, 16)[None, :]
    tl.atomic_add(changes + place, total, mask=total != 0, sem="relaxed")


@triton.jit(do_not_specialize=["n", "capacity", "n_trials"])
def come_closer(
    state, X, closest, trials, counters, lists, found, n, d, capacity, n_trials,
    BLOCK: tl.constexpr, ALL_TRIALS: tl.constexpr,
):  # fmt: skip
    """Bring the distances to the nearest chosen row up to date.

    closest  IN/OUT  (n,) float64
    """
    if tl.load(state + DONE) != 0:
        return
    best = tl.load(state + BEST)
    if _overflows(counters, capacity, n_trials, ALL_TRIALS):
        r = tl.load(trials + best)
        for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
            i = start + tl.arange(0, BLOCK).to(tl.int64)
            inside = i < n
            k = (r + tl.zeros_like(i))[:, None]
            distance = canonical(X, X, i[:, None], k, inside[:, None], d, BLOCK, 1)
            distance = tl.reshape(distance, (BLOCK,))
            before = tl.load(closest + i, mask=inside, other=0.0)
            tl.debug_barrier()  # a value may be held by several threads
            tl.store(closest + i, tl.minimum(distance, before), mask=inside)
    else:
        count = tl.load(counters + best * APART)
        for start in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
            inside = start + tl.arange(0, BLOCK) < count
            place = best.to(tl.int64) * capacity + start + tl.arange(0, BLOCK)
            row = tl.load(lists + place, mask=inside, other=0)
            tl.store(closest + row, tl.load(found + place, mask=inside, other=0.0), mask=inside)
