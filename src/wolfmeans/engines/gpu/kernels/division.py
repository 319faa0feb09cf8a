"""Correctly rounded quotients by divisors of several limbs: means of weighted points.

The divisor W < 2**158 is in five limbs of 32 bits, the lowest first; the dividend S comes limb
after limb, the highest first, as in division by hand. Launched with `enable_fp_fusion=False`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.exact import _MASK, _capture, _digit, _rounded, _window
from wolfmeans.engines.gpu.kernels.lists import DONE

DIVISOR_LIMBS = 5
_BASE = tl.constexpr(4294967296.0)


@triton.jit(do_not_specialize=["slots"])
def carry_sums(
    state, sums, limbs, negative, lowest, slots, DIGITS: tl.constexpr, REPLICAS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Bring sums into proper limbs of their size, the highest first.

    sums      IN   (DIGITS, REPLICAS, slots) int64 digits of any size and sign, the highest first
    limbs     OUT  (DIGITS + 1, slots) int64 of 0..2**32 - 1
    negative  OUT  (slots,) int32, whether the sum is
    lowest    OUT  (slots,) int32, the number of the last limb that is not 0; -1 for a sum of 0
    """
    if tl.load(state + DONE) != 0:
        return
    slot = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = slot < slots
    carry = tl.zeros((BLOCK,), tl.int64)
    for below in tl.static_range(DIGITS):
        carry += _digit(sums, slot, inside, DIGITS - 1 - below, slots, REPLICAS)
        carry = carry >> 32
    minus = carry < 0
    sign = tl.where(minus, -1, 1).to(tl.int64)
    carry = tl.zeros((BLOCK,), tl.int64)
    last = tl.full((BLOCK,), -1, tl.int32)
    for below in tl.static_range(DIGITS):
        carry += sign * _digit(sums, slot, inside, DIGITS - 1 - below, slots, REPLICAS)
        limb = carry & _MASK
        carry = carry >> 32
        last = tl.where((last < 0) & (limb != 0), DIGITS - below, last)
        tl.store(limbs + (DIGITS - below) * slots + slot, limb, mask=inside)
    tl.store(limbs + slot, carry, mask=inside)
    tl.store(lowest + slot, tl.where((last < 0) & (carry != 0), 0, last), mask=inside)
    tl.store(negative + slot, minus.to(tl.int32), mask=inside)


@triton.jit
def _multiplied(quotient, limb):
    """Return the lower and the upper half of a product of two numbers below 2**32."""
    product = quotient.to(tl.uint64) * limb.to(tl.uint64)
    upper = (product >> 32).to(tl.int64)
    return product.to(tl.int64) & _MASK, upper


@triton.jit
def _as_float(n0, n1, n2, n3, n4):
    """Return a number of five limbs in float64, wrong by 4 u of itself at most (u = 2**-53)."""
    high = n4.to(tl.float64) * _BASE + n3.to(tl.float64)
    high = (high * _BASE + n2.to(tl.float64)) * _BASE + n1.to(tl.float64)
    return high * _BASE + n0.to(tl.float64)


@triton.jit
def _divide_limb(r0, r1, r2, r3, r4, limb, w0, w1, w2, w3, w4, inverse):
    """Bring down one more limb: return the quotient's limb and the new rest.

    The rest r is below W, the next limb below 2**32; so is the quotient. `inverse` is 1 / W less
    2**-49 of itself: rounding errors of 12 u in all (5 in the dividend, 4 in W, 3 operations) make
    the estimate at most the quotient, and too small by less than 2**32 (12 + 16) u < 2**-16. So its
    whole part is right, or too small by one.
    """
    dividend = _as_float(r0, r1, r2, r3, r4) * _BASE + limb.to(tl.float64)
    quotient = (dividend * inverse).to(tl.int64)
    low0, high0 = _multiplied(quotient, w0)
    low1, high1 = _multiplied(quotient, w1)
    low2, high2 = _multiplied(quotient, w2)
    low3, high3 = _multiplied(quotient, w3)
    low4, _ = _multiplied(quotient, w4)
    n0 = limb - low0
    n1 = r0 - low1 - high0 + (n0 >> 32)
    n2 = r1 - low2 - high1 + (n1 >> 32)
    n3 = r2 - low3 - high2 + (n2 >> 32)
    # What is left is below 2 W < 2**159: a sixth limb would be 0, and is left out.
    n4 = r3 - low4 - high3 + (n3 >> 32)
    n0, n1, n2, n3, n4 = n0 & _MASK, n1 & _MASK, n2 & _MASK, n3 & _MASK, n4 & _MASK
    m0 = n0 - w0
    m1 = n1 - w1 + (m0 >> 32)
    m2 = n2 - w2 + (m1 >> 32)
    m3 = n3 - w3 + (m2 >> 32)
    m4 = n4 - w4 + (m3 >> 32)
    more = m4 >= 0
    quotient += more.to(tl.int64)
    n0 = tl.where(more, m0 & _MASK, n0)
    n1 = tl.where(more, m1 & _MASK, n1)
    n2 = tl.where(more, m2 & _MASK, n2)
    n3 = tl.where(more, m3 & _MASK, n3)
    n4 = tl.where(more, m4, n4)
    return quotient, n0, n1, n2, n3, n4


@triton.jit
def _chosen(some, a0, a1, a2, a3, a4, b0, b1, b2, b3, b4):
    """Return five limbs of a where `some` says so, else those of b."""
    return (
        tl.where(some, a0, b0), tl.where(some, a1, b1), tl.where(some, a2, b2),
        tl.where(some, a3, b3), tl.where(some, a4, b4),
    )  # fmt: skip


@triton.jit
def long_mean_and_residual(
    limbs, negative, lowest, slot, mask, divisors, k, K, unit, stride, digits: tl.constexpr
):
    """Return sum / divisor rounded to float64, and what rounding left, itself rounded.

    limbs, negative, lowest  IN  as `carry_sums` wrote them; the lowest limb counts 2**unit divisors
    slot                     IN  (B,) which of the `stride` sums
    divisors                 IN  (5, K) int64, limbs of the divisors, the lowest first; k says which

    The first loop ends at the third limb of the quotient from its first nonzero one on, which is
    all that the mean needs, but for whether anything is left. What is left, the rest and the lower
    limbs of S, goes on to be divided for the residual; where the mean was rounded up, W less that.
    The second loop ends at the third limb of the tail from its first nonzero one on.

    Both loops end when the last number of the block is done. That is soon: a quotient is at least
    2**-158 of the unit, and its last bit 53 bits below that; a tail is at least 2**-158 of the unit
    or of that bit; 62 bits more are 431 bits below the unit, or 14 limbs, at worst.
    """
    zero = tl.zeros(slot.shape, tl.int64)
    w0 = tl.load(divisors + k, mask=mask, other=0)
    w1 = tl.load(divisors + K + k, mask=mask, other=0)
    w2 = tl.load(divisors + 2 * K + k, mask=mask, other=0)
    w3 = tl.load(divisors + 3 * K + k, mask=mask, other=0)
    w4 = tl.load(divisors + 4 * K + k, mask=mask, other=0)
    last = tl.load(lowest + slot, mask=mask, other=-1).to(tl.int64)
    some = (last >= 0) & ((w0 | w1 | w2 | w3 | w4) != 0)
    w0 = tl.where(some, w0, 1)
    inverse = 1.0 / _as_float(w0, w1, w2, w3, w4)
    inverse -= inverse * 2.0**-49

    q0, q1, q2, found, first, dropped = zero, zero, zero, zero, zero, zero
    r0, r1, r2, r3, r4 = zero, zero, zero, zero, zero
    at = zero
    going = some
    while tl.max(going.to(tl.int32), axis=0) > 0:
        limb = tl.load(limbs + at * stride + slot, mask=going & (at <= last), other=0)
        q, n0, n1, n2, n3, n4 = _divide_limb(r0, r1, r2, r3, r4, limb, w0, w1, w2, w3, w4, inverse)
        q = tl.where(going, q, 0)
        r0, r1, r2, r3, r4 = _chosen(going, n0, n1, n2, n3, n4, r0, r1, r2, r3, r4)
        q0, q1, q2, found, first, dropped = _capture(q0, q1, q2, found, first, dropped, q, at)
        going = some & (found < 3)
        at += 1

    at = first + 2
    below_it = last > at
    endless = some & (((r0 | r1 | r2 | r3 | r4) != 0) | below_it)
    bits, left, below = _window(q0, q1, q2)
    inexact = tl.where((left != 0) | endless, 1, 0).to(tl.int64)
    size = _rounded(bits, inexact, unit + 32 * (digits - first) - (64 - below))
    rounded_bits = (bits | inexact).to(tl.float64).to(tl.int64)
    minus = tl.load(negative + slot, mask=mask, other=0) != 0

    head = ((bits - rounded_bits) << below) + left
    taken_away = some & (head < 0)
    head = tl.where(taken_away, -head - endless.to(tl.int64), head)
    flipped = taken_away & endless
    m0 = w0 - r0 - below_it.to(tl.int64)
    m1 = w1 - r1 + (m0 >> 32)
    m2 = w2 - r2 + (m1 >> 32)
    m3 = w3 - r3 + (m2 >> 32)
    m4 = w4 - r4 + (m3 >> 32)
    r0, r1, r2, r3, r4 = _chosen(
        flipped, m0 & _MASK, m1 & _MASK, m2 & _MASK, m3 & _MASK, m4, r0, r1, r2, r3, r4
    )
    v0, v1, v2, noted, begin, more = zero, zero, zero, zero, zero, zero
    v0, v1, v2, noted, begin, more = _capture(v0, v1, v2, noted, begin, more, head >> 32, at - 1)
    v0, v1, v2, noted, begin, more = _capture(v0, v1, v2, noted, begin, more, head & _MASK, at)
    tail = some & (endless | (head != 0))
    going = tail
    while tl.max(going.to(tl.int32), axis=0) > 0:
        at = tl.where(going, at + 1, at)
        limb = tl.load(limbs + at * stride + slot, mask=going & (at <= last), other=0)
        limb = tl.where(flipped & (at < last), _MASK - limb, limb)
        limb = tl.where(flipped & (at == last), 0x100000000 - limb, limb)
        q, n0, n1, n2, n3, n4 = _divide_limb(r0, r1, r2, r3, r4, limb, w0, w1, w2, w3, w4, inverse)
        q = tl.where(going, q, 0)
        r0, r1, r2, r3, r4 = _chosen(going, n0, n1, n2, n3, n4, r0, r1, r2, r3, r4)
        n0, n1, n2, nn, nb, nm = _capture(v0, v1, v2, noted, begin, more, q, at)
        v0, v1, v2 = tl.where(going, n0, v0), tl.where(going, n1, v1), tl.where(going, n2, v2)
        noted, begin = tl.where(going, nn, noted), tl.where(going, nb, begin)
        more = tl.where(going, nm, more)
        going = tail & (noted < 3)
    more = tl.where(((r0 | r1 | r2 | r3 | r4) != 0) | (last > at), 1, more)
    tail_bits, tail_left, tail_below = _window(v0, v1, v2)
    more = tl.where(tail_left != 0, 1, more)
    rest = _rounded(tail_bits, more, unit + 32 * (digits - begin) - (64 - tail_below))
    rest = tl.where(tail & (tail_bits != 0), rest, 0.0)
    mean = tl.where(some, tl.where(minus, -size, size), 0.0)
    return mean, tl.where(taken_away != minus, -rest, rest)


@triton.jit
def _total_limb(
    totals, k, mask, carry, number: tl.constexpr, K, DIGITS: tl.constexpr, REPLICAS: tl.constexpr
):
    """Return limb `number` of the totals, the lowest first, and the carry to the next."""
    total = carry
    if number < DIGITS:
        total += _digit(totals, k, mask, DIGITS - 1 - number, K, REPLICAS)
    return total & _MASK, total >> 32


@triton.jit(do_not_specialize=["unit", "K"])
def settle_totals(
    state, totals, divisors, weights, unit, K, DIGITS: tl.constexpr, REPLICAS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Bring the clusters' masses into limbs, and round each once.

    totals    IN   (DIGITS, REPLICAS, K) int64, the highest digit first, the lowest counts 2**unit
    divisors  OUT  (5, K) int64, the lowest limb first
    weights   OUT  (K,) float64
    """
    if tl.load(state + DONE) != 0:
        return
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = k < K
    zero = tl.zeros((BLOCK,), tl.int64)
    l0, carry = _total_limb(totals, k, inside, zero, 0, K, DIGITS, REPLICAS)
    l1, carry = _total_limb(totals, k, inside, carry, 1, K, DIGITS, REPLICAS)
    l2, carry = _total_limb(totals, k, inside, carry, 2, K, DIGITS, REPLICAS)
    l3, carry = _total_limb(totals, k, inside, carry, 3, K, DIGITS, REPLICAS)
    l4, carry = _total_limb(totals, k, inside, carry, 4, K, DIGITS, REPLICAS)
    tl.store(divisors + k, l0, mask=inside)
    tl.store(divisors + K + k, l1, mask=inside)
    tl.store(divisors + 2 * K + k, l2, mask=inside)
    tl.store(divisors + 3 * K + k, l3, mask=inside)
    tl.store(divisors + 4 * K + k, l4, mask=inside)
    w0, w1, w2, found, first, sticky = zero, zero, zero, zero, zero, zero
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l4, 0)
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l3, 1)
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l2, 2)
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l1, 3)
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l0, 4)
    bits, left, below = _window(w0, w1, w2)
    sticky = tl.where(left != 0, 1, sticky)
    rounded = _rounded(bits, sticky, unit + 32 * (4 - first) - (64 - below))
    tl.store(weights + k, tl.where(bits == 0, 0.0, rounded), mask=inside)
