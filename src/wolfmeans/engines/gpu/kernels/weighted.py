"""Kernels that follow an assignment of points with masses: exact sums of m x, and their means.

Launched with `enable_fp_fusion=False`: each operation is rounded by itself.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.division import long_mean_and_residual
from wolfmeans.engines.gpu.kernels.exact import deposit_at_once, mean_and_residual, power_of_two
from wolfmeans.engines.gpu.kernels.lists import DONE, MOVED
from wolfmeans.engines.gpu.kernels.means import arrive

_BASE = tl.constexpr(4294967296.0)


@triton.jit
def _upper_half(x):
    # (2**27 + 1) x, rounded once: the factor itself is no float32 number, as constants may become.
    shifted = 134217728.0 * x + x
    return shifted - (shifted - x)


@triton.jit
def _exact_product(a, b):
    """Return a b rounded and its remainder, exactly (Dekker), for numbers of at most 1.

    Neither is below 2**-384 (`weighting`), so nothing is lost to underflow.
    """
    product = a * b
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    cross = (a_high * b_high - product) + a_high * b_low + a_low * b_high
    return product, cross + a_low * b_low


@triton.jit
def _next_digit(product, remainder):
    """Cut the whole parts off: return their sum, and what is left of both, 32 bits up."""
    whole, rest = product.to(tl.int64), remainder.to(tl.int64)
    product = (product - whole.to(tl.float64)) * _BASE
    remainder = (remainder - rest.to(tl.float64)) * _BASE
    return whole + rest, product, remainder


@triton.jit
def _add_totals(totals, k, mask, mass, sign, stride, DIGITS: tl.constexpr, step):
    """Add masses, in units of the highest digit, to the totals of clusters."""
    for digit in tl.static_range(DIGITS):
        whole = mass.to(tl.int64)
        mass = (mass - whole.to(tl.float64)) * _BASE
        tl.atomic_add(
            totals + digit * stride + step + k,
            sign * whole,
            mask=mask & (whole != 0),
            sem="relaxed",
        )


@triton.jit(do_not_specialize=["slots", "K", "high", "mass_high", "total_shift"])
def move_masses(
    state, X, labels, moved_rows, moved_from, before, after, sums, totals, d, slots, K, high,
    mass_high, total_shift, DIGITS: tl.constexpr, MASS_DIGITS: tl.constexpr,
    REPLICAS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Take the listed points out of their old clusters' sums and add them to the new ones.

    labels       IN      (n,) int32, the new clusters, -1 for none
    moved_from   IN      the old clusters of the listed points, -1 for none
    before       IN      (n,) float64, masses in the old clusters
    after        IN      (n,) float64, masses in the new clusters; None where they are the same
    sums         IN/OUT  (DIGITS, REPLICAS, slots) int64: digits of 32 bits, the highest first;
                         slots = K d
    totals       IN/OUT  (MASS_DIGITS, REPLICAS, K) int64, the masses of the clusters, likewise
    high         IN      numbers are below 2**high, masses at most 2**mass_high
    total_shift  IN      2**mass_high is 2**total_shift in units of the totals' highest digit
    """
    if tl.load(state + DONE) != 0:
        return
    count = tl.load(state + MOVED)
    for begin in range(tl.program_id(0) * ROWS, count, tl.num_programs(0) * ROWS):
        place = begin + tl.arange(0, ROWS)
        inside = place < count
        row = tl.load(moved_rows + place, mask=inside, other=0).to(tl.int64)
        old = tl.load(moved_from + place, mask=inside, other=-1).to(tl.int64)
        new = tl.load(labels + row, mask=inside, other=-1).to(tl.int64)
        left, joined = old >= 0, new >= 0
        mass_scale = power_of_two(-mass_high)
        mass_out = tl.load(before + row, mask=inside, other=0.0) * mass_scale
        mass_in = mass_out
        if after is not None:
            mass_in = tl.load(after + row, mask=inside, other=0.0) * mass_scale
        replica = (tl.program_id(0) % REPLICAS).to(tl.int64)
        one = tl.full((), 1, tl.int64)
        unit = power_of_two(total_shift)
        step = replica * K
        _add_totals(totals, new, joined, mass_in * unit, one, REPLICAS * K, MASS_DIGITS, step)
        _add_totals(totals, old, left, mass_out * unit, -one, REPLICAS * K, MASS_DIGITS, step)
        scale = power_of_two(-high)
        for start in range(0, d, COLUMNS):
            j = start + tl.arange(0, COLUMNS)
            there = inside[:, None] & (j < d)[None, :]
            value = tl.load(X + row[:, None] * d + j[None, :], mask=there, other=0.0)
            value = value.to(tl.float64) * scale
            to = sums + replica * slots + new[:, None] * d + j[None, :]
            back = sums + replica * slots + old[:, None] * d + j[None, :]
            product, remainder = _exact_product(mass_in[:, None], value)
            product, remainder = product * _BASE, remainder * _BASE
            if after is not None:
                product_out, remainder_out = _exact_product(mass_out[:, None], value)
                product_out, remainder_out = product_out * _BASE, remainder_out * _BASE
            for digit in tl.static_range(DIGITS):
                offset = digit * REPLICAS * slots
                whole, product, remainder = _next_digit(product, remainder)
                taken = whole
                if after is not None:
                    taken, product_out, remainder_out = _next_digit(product_out, remainder_out)
                tl.atomic_add(
                    to + offset, whole, mask=there & joined[:, None] & (whole != 0), sem="relaxed"
                )
                tl.atomic_add(
                    back + offset, -taken, mask=there & left[:, None] & (taken != 0), sem="relaxed"
                )


@triton.jit(do_not_specialize=["shift_low", "movement_low", "unit", "slots", "K"])
def find_weighted_means(
    state, sums, limbs, negative, lowest, divisors, weights, centers, means, residuals, moved,
    shift_low, movement_low, unit, d, slots, K, SMALL: tl.constexpr,
    DIGITS: tl.constexpr, REPLICAS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Round the means of the clusters, and add up how far the centers move and what that gains.

    divisors  IN  (5, K) int64, the clusters' masses in units; below 2**31 where SMALL
    weights   IN  (K,) float64, the clusters' masses, rounded
    moved     OUT  (2, ROOM) int64, shift and movement (exact.deposit_at_once)
    unit      IN  exponent of the sums' lowest digit, divided by a unit of mass
    """
    if tl.load(state + DONE) != 0:
        return
    slot = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = slot < slots
    k = slot // d
    if SMALL:
        divisor = tl.maximum(tl.load(divisors + k, mask=inside, other=1), 1)
        mean, rest = mean_and_residual(sums, slot, inside, divisor, unit, DIGITS, slots, REPLICAS)
    else:
        mean, rest = long_mean_and_residual(
            limbs, negative, lowest, slot, inside, divisors, k, K, unit, slots, DIGITS
        )
    weight = tl.load(weights + k, mask=inside, other=0.0)
    given = tl.load(centers + slot, mask=inside, other=0.0)
    _, step, gain = arrive(slot, inside, mean, rest, weight, given, means, residuals)
    deposit_at_once(step, gain, inside, moved, shift_low, movement_low)
