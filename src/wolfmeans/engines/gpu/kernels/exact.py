"""Exact arithmetic on the device: sums of float64 terms, and correctly rounded means.

Integers do it all: a sum is kept in limbs of 32 bits held in int64, so that atomics may come in
any order, and a quotient is found by long division, limb after limb. `wolfmeans.exact.sums` is the
specification. Every launch has `enable_fp_fusion=False`: no operation here may be fused.
"""

from __future__ import annotations

import triton
import triton.language as tl

LIMBS = 12
"""Limbs of a sum of float64 terms: 320 bits below the largest term, and room for carries."""
ROOM = 16
"""A sum with its count of terms that could not be added exactly, and zeros up to a power of two."""
FRACTION = tl.constexpr(6)
"""Limbs of a quotient below the unit: see `_residual`."""
_LIMBS = tl.constexpr(LIMBS)
_ROOM = tl.constexpr(ROOM)
_MASK = tl.constexpr(0xFFFFFFFF)


@triton.jit
def _in_limbs(terms, mask, low):
    """Return non-negative float64 terms as three limbs each, and the number of the lowest of them.

    Then which terms count, and those that the limbs of a sum have no room for, or that are negative
    after all, as those of forced labels may be.
    """
    bits = tl.where(mask, terms, 0.0).to(tl.int64, bitcast=True)
    # In int32 what fits there: 64 bits take two operations each.
    exponent = (bits >> 52).to(tl.int32)
    normal = exponent > 0
    mantissa = (bits & 0xFFFFFFFFFFFFF) | (normal.to(tl.int64) << 52)
    place = tl.where(normal, exponent, 1) - 1075 - low
    some = mantissa != 0
    below = tl.minimum(tl.maximum(-place, 0), 62).to(tl.int64)
    lost = (mantissa & ((tl.full(mantissa.shape, 1, tl.int64) << below) - 1)) != 0
    mantissa = mantissa >> below
    place = tl.maximum(place, 0)
    limb = place >> 5
    beyond = some & (limb > _LIMBS - 4)
    shift = place & 31
    lower = (mantissa & _MASK) << shift
    upper = (mantissa >> 32) << shift
    middle = (lower >> 32) + (upper & _MASK)
    wrong = (some & lost) | beyond | (bits < 0)
    return limb, lower & _MASK, middle, upper >> 32, some & ~beyond, wrong


@triton.jit
def deposit_terms(terms, mask, sums, low, inexact):
    """Add non-negative float64 terms to a sum, one atomic for each limb that they reach.

    terms    IN   (B,) float64
    mask     IN   (B,) which of them count
    sums     OUT  (LIMBS,) int64, limb i counts 2**(low + 32 i)
    low      IN   exponent of the lowest bit that the sum can hold
    inexact  OUT  (1,) int32, set when a term has a bit below that or beyond the highest limb, or is
                  negative after all
    """
    limb, lower, middle, upper, counted, lost = _in_limbs(terms, mask, low)
    wrong = tl.max(lost.to(tl.int32))
    tl.atomic_max(inexact, wrong, mask=wrong > 0)
    first = tl.min(tl.where(counted, limb, _LIMBS))
    last = tl.max(tl.where(counted, limb, -3)) + 2
    limb = tl.where(counted, limb, -3)
    for i in range(first, last + 1):
        part = tl.where(limb == i, lower, tl.where(limb + 1 == i, middle, 0))
        part = tl.where(limb + 2 == i, upper, part)
        tl.atomic_add(sums + i, tl.sum(part), sem="relaxed")


@triton.jit
def deposit_at_once(first, second, mask, sums, first_low, second_low):
    """Add non-negative float64 terms to two sums, all limbs in one go: sooner, but with more work.

    first, second  IN   (B,) float64
    mask           IN   (B,) which of them count
    sums           OUT  (2, ROOM) int64: the limbs as in `deposit_terms`; number LIMBS counts terms
                        that could not be added exactly
    """
    s = tl.arange(0, 2)[None, :]
    terms = tl.join(first, second)
    counted = mask[:, None] & (s >= 0)
    low = tl.where(s == 0, first_low, second_low)
    limb, lower, middle, upper, counted, wrong = _in_limbs(terms, counted, low)
    # Two words of it, which have to come to other threads; the upper limb is below 2**22.
    lower = tl.where(counted, lower | (middle << 32), 0)
    upper = tl.where(counted, upper + (middle >> 32), 0)
    upper = (upper << 32) | (limb << 1) | wrong.to(tl.int64)
    lower, upper = lower[:, :, None], upper[:, :, None]
    i = tl.arange(0, _ROOM)[None, :]
    after = i[None, :, :] - ((upper >> 1) & 15).to(tl.int32)
    # In 32 bits, which take half as long to choose from.
    part = tl.where(after == 0, lower.to(tl.uint32), 0)
    part = tl.where(after == 1, (lower >> 32).to(tl.uint32), part)
    part = tl.where(after == 2, (upper >> 32).to(tl.uint32), part)
    part = tl.where((i == _LIMBS)[None, :, :], (upper & 1).to(tl.uint32), part)
    total = tl.sum(part.to(tl.int64), axis=0)
    place = tl.arange(0, 2)[:, None] * _ROOM + i
    tl.atomic_add(sums + place, total, mask=total != 0, sem="relaxed")


@triton.jit
def _capture(w0, w1, w2, found, first, sticky, limb, i):
    """Take note of the first nonzero limb of a number, of the two after it, and of any later one.

    The limbs come from the highest on, number i = 0, 1, ...; `found` counts those noted.
    """
    begins = (found == 0) & (limb != 0)
    first = tl.where(begins, i, first)
    sticky = tl.where((found == 3) & (limb != 0), 1, sticky)
    w2 = tl.where(found == 2, limb, w2)
    w1 = tl.where(found == 1, limb, w1)
    w0 = tl.where(begins, limb, w0)
    found = tl.where(begins, 1, tl.where((found == 1) | (found == 2), found + 1, found))
    return w0, w1, w2, found, first, sticky


@triton.jit
def _window(w0, w1, w2):
    """Return the 62 highest bits of w0 w1 w2, what is left of w1 w2, and how many bits that is."""
    length = (w0.to(tl.float64).to(tl.int64, bitcast=True) >> 52) - 1022
    spare = 32 - tl.maximum(length, 0)
    pair = (w1.to(tl.uint64) << 32) | w2.to(tl.uint64)
    below = 34 - spare
    bits = (w0 << (30 + spare)) | (pair >> below.to(tl.uint64)).to(tl.int64)
    one = tl.full(bits.shape, 1, tl.int64)
    left = (pair & ((one << below) - 1).to(tl.uint64)).to(tl.int64)
    # Without a nonzero limb there are no bits at all.
    return tl.where(w0 == 0, 0, bits), tl.where(w0 == 0, 0, left), below


@triton.jit
def power_of_two(exponent):
    """Return 2.0**exponent for exponents of normal numbers."""
    # Not a method of the exponent: an argument that is 1 is a constant of the compiler.
    return ((tl.full((), 1023, tl.int64) + exponent) << 52).to(tl.float64, bitcast=True)


@triton.jit
def _rounded(bits, sticky, exponent):
    """Return (bits + something below one, if sticky) 2**exponent, rounded to nearest, ties to even.

    bits has 62 bits or is 0, so that the lowest can stand for all that comes after it.
    """
    number = (bits | sticky.to(tl.int64)).to(tl.float64)
    # In two steps, because 2**exponent may be below all normal numbers where the product is not.
    half = exponent >> 1
    return number * power_of_two(half) * power_of_two(exponent - half)


@triton.jit
def _carried(limb, carry):
    total = limb + carry
    return total & _MASK, total >> 32


@triton.jit
def rounded_sum(sums, low):
    """Return the sum in (LIMBS,) non-negative limbs as a float64, rounded once.

    The limbs may come from other programs of the same kernel, that is not through L1.
    """
    zero = tl.full((), 0, tl.int64)
    l0, carry = _carried(tl.load(sums, cache_modifier=".cg"), zero)
    l1, carry = _carried(tl.load(sums + 1, cache_modifier=".cg"), carry)
    l2, carry = _carried(tl.load(sums + 2, cache_modifier=".cg"), carry)
    l3, carry = _carried(tl.load(sums + 3, cache_modifier=".cg"), carry)
    l4, carry = _carried(tl.load(sums + 4, cache_modifier=".cg"), carry)
    l5, carry = _carried(tl.load(sums + 5, cache_modifier=".cg"), carry)
    l6, carry = _carried(tl.load(sums + 6, cache_modifier=".cg"), carry)
    l7, carry = _carried(tl.load(sums + 7, cache_modifier=".cg"), carry)
    l8, carry = _carried(tl.load(sums + 8, cache_modifier=".cg"), carry)
    l9, carry = _carried(tl.load(sums + 9, cache_modifier=".cg"), carry)
    l10, carry = _carried(tl.load(sums + 10, cache_modifier=".cg"), carry)
    l11, carry = _carried(tl.load(sums + 11, cache_modifier=".cg"), carry)
    w0, w1, w2, found, first, sticky = zero, zero, zero, zero, zero, zero
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l11, 0)
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l10, 1)
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l9, 2)
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l8, 3)
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l7, 4)
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l6, 5)
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l5, 6)
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l4, 7)
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l3, 8)
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l2, 9)
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l1, 10)
    w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, l0, 11)
    bits, left, below = _window(w0, w1, w2)
    sticky = tl.where(left != 0, 1, sticky)
    # w0 counts 2**(32 (11 - first)), and the window begins `below - 34 + 32 - 2` bits further down.
    exponent = low + 32 * (_LIMBS - 1 - first) - (64 - below)
    return _rounded(bits, sticky, exponent)


@triton.jit
def _digit(sums, offsets, mask, number: tl.constexpr, stride, replicas: tl.constexpr):
    """Return one digit of some sums: that of all replicas together."""
    total = tl.load(sums + number * replicas * stride + offsets, mask=mask, other=0)
    for r in tl.static_range(1, replicas):
        total += tl.load(sums + (number * replicas + r) * stride + offsets, mask=mask, other=0)
    return total


@triton.jit
def _limb(
    sums, offsets, mask, sign, number: tl.constexpr, digits: tl.constexpr, stride,
    replicas: tl.constexpr,
):  # fmt: skip
    """Return digit `number` of sign * sum with the carries from all lower digits."""
    carry = tl.zeros(offsets.shape, tl.int64)
    for below in tl.static_range(1, digits - number):
        carry += sign * _digit(sums, offsets, mask, digits - below, stride, replicas)
        carry = carry >> 32
    return sign * _digit(sums, offsets, mask, number, stride, replicas) + carry


@triton.jit
def _divided(current, weight, inverse):
    """Return current // weight and the rest, for 0 <= current < 2**32 weight, weight < 2**31.

    inverse is 1 / weight in float64. Three roundings leave the product within 2**-51 of itself of
    the quotient, which is below 2**32: its whole part is off by one at most.
    """
    quotient = (current.to(tl.float64) * inverse).to(tl.int64)
    rest = current - quotient * weight
    quotient = tl.where(rest < 0, quotient - 1, tl.where(rest >= weight, quotient + 1, quotient))
    return quotient, current - quotient * weight


@triton.jit
def _next_quotient(
    sums, offsets, mask, sign, top, rest, weight, inverse, i: tl.constexpr, digits: tl.constexpr,
    stride, replicas: tl.constexpr,
):  # fmt: skip
    """Return limb i of the quotient, the highest first, and the rest that it leaves.

    top   IN  digit 0 of sign * sum, two limbs of the dividend
    rest  IN  what limb i - 1 left, 0 at first
    """
    limb = tl.zeros(offsets.shape, tl.int64)
    if i == 0:
        limb = top >> 32
    elif i == 1:
        limb = top & _MASK
    elif i <= digits:
        limb = _limb(sums, offsets, mask, sign, i - 1, digits, stride, replicas) & _MASK
    return _divided((rest << 32) | limb, weight, inverse)


@triton.jit
def mean_and_residual(
    sums, offsets, mask, weight, unit, digits: tl.constexpr, stride, replicas: tl.constexpr
):
    """Return sum / weight rounded to float64, and what rounding left, itself rounded.

    sums     IN  (digits, replicas, stride) int64; digit 0 is the highest, the lowest counts 2**unit
    offsets  IN  (B,) which of the `stride` sums
    weight   IN  (B,) int64 of 1..2**31 - 1

    Long division, run twice: the tail that the residual is made of can be complemented only when
    it is known how the mean was rounded, and where the quotient ends. The tail is at least 2**-31
    of the unit, or of the mean's last bit, which is 84 bits below the unit at worst; 62 bits more
    make 177 bits below the unit, hence FRACTION = 6.
    """
    one = tl.full(offsets.shape, 1, tl.int64)
    zero = tl.zeros(offsets.shape, tl.int64)
    inverse = 1.0 / weight.to(tl.float64)
    negative = _limb(sums, offsets, mask, one, 0, digits, stride, replicas) < 0
    sign = tl.where(negative, -1, 1).to(tl.int64)
    top = _limb(sums, offsets, mask, sign, 0, digits, stride, replicas)

    w0, w1, w2, found, first, sticky = zero, zero, zero, zero, zero, zero
    rest, last = zero, zero
    for i in tl.static_range(digits + 1 + FRACTION):
        quotient, rest = _next_quotient(
            sums, offsets, mask, sign, top, rest, weight, inverse, i, digits, stride, replicas
        )
        last = tl.where(quotient != 0, i, last)
        w0, w1, w2, found, first, sticky = _capture(w0, w1, w2, found, first, sticky, quotient, i)
    endless = rest != 0
    last = tl.where(endless, digits + 1 + FRACTION, last)
    sticky = tl.where(endless, 1, sticky)
    bits, left, below = _window(w0, w1, w2)
    scale = unit + 32 * (digits - first) - (64 - below)
    size = _rounded(bits, tl.where(left != 0, 1, sticky), scale)
    rounded_bits = (bits | tl.where((left != 0) | (sticky != 0), 1, 0)).to(tl.float64).to(tl.int64)
    mean = tl.where(negative, -size, size)

    head = ((bits - rounded_bits) << below) + left
    taken_away = head < 0
    after = (last > first + 2).to(tl.int64)
    head = tl.where(taken_away, -head - after, head)
    v0, v1, v2, noted, begin, more = zero, zero, zero, zero, zero, zero
    v0, v1, v2, noted, begin, more = _capture(v0, v1, v2, noted, begin, more, head >> 32, first + 1)
    v0, v1, v2, noted, begin, more = _capture(
        v0, v1, v2, noted, begin, more, head & _MASK, first + 2
    )
    rest = zero
    for i in tl.static_range(digits + 1 + FRACTION):
        quotient, rest = _next_quotient(
            sums, offsets, mask, sign, top, rest, weight, inverse, i, digits, stride, replicas
        )
        complement = tl.where(i < last, _MASK - quotient, 0x100000000 - quotient)
        complement = tl.where(i > last, 0, complement)
        tail = tl.where(taken_away, complement, quotient)
        n0, n1, n2, nn, nb, nm = _capture(v0, v1, v2, noted, begin, more, tail, zero + i)
        beyond = i > first + 2
        v0, v1, v2 = tl.where(beyond, n0, v0), tl.where(beyond, n1, v1), tl.where(beyond, n2, v2)
        noted = tl.where(beyond, nn, noted)
        begin = tl.where(beyond, nb, begin)
        more = tl.where(beyond, nm, more)
    more = tl.where(endless, 1, more)
    tail_bits, tail_left, tail_below = _window(v0, v1, v2)
    more = tl.where(tail_left != 0, 1, more)
    scale = unit + 32 * (digits - begin) - (64 - tail_below)
    tail_size = _rounded(tail_bits, more, scale)
    tail_size = tl.where(tail_bits == 0, 0.0, tail_size)
    residual = tl.where(taken_away != negative, -tail_size, tail_size)
    return tl.where(bits == 0, 0.0, mean), residual


@triton.jit
def _left_of(number, weight, size):
    """Return 2**-min(place, 0) (number - size weight) and min(place, 0): size counts 2**place.

    number  IN  its last 64 bits. The difference is known to be below 2**62, so that all of this may
                be done modulo 2**64.
    """
    bits = size.to(tl.int64, bitcast=True)
    place = (bits >> 52) - 1075
    mantissa = (bits & 0xFFFFFFFFFFFFF) | (tl.full(bits.shape, 1, tl.int64) << 52)
    up = tl.maximum(-place, 0)
    scaled = tl.where(up < 64, number << tl.minimum(up, 63), 0)
    left = scaled - ((mantissa * weight) << tl.maximum(place, 0))
    return left.to(tl.float64), tl.minimum(place, 0)


@triton.jit
def short_mean_and_residual(high, low, weight, unit):
    """Return what `mean_and_residual` does, for the sum 2**32 high + low of at most two digits.

    high, low  IN  (B,) int64 of any sign
    weight     IN  (B,) int64 of 1..2**31 - 1
    unit       IN  exponent of the lowest digit; the mean is below 2**64 of that

    Let A be the sum without its sign. A first quotient q is wrong by four roundings, 2**-51 of
    itself: by 4 of its last places 2**p, and a little. So A - q w is a small number, below 2**34
    places, or 2**46 units where p > 0 (p <= 12), and its float64 number is exact. Divided by
    w and rounded, r, it is wrong by 2**-50 places at most. Now q + r rounded is A / w rounded: for
    (A - q w) / w, a multiple of 1 / (2**12 w) places, either is a multiple of 1/4, which r is then
    too, or differs from each by 2**-45 at least, while q + r is rounded differently only beyond a
    multiple of 1/4. What the mean leaves is again small and exact, and divided by w it is rounded
    once. Scaling by powers of two rounds nothing but what ends below all normal numbers, as in
    `_rounded`.
    """
    top = high + (low >> 32)
    bottom = low & _MASK
    negative = top < 0
    top = tl.where(negative, -top - (bottom != 0).to(tl.int64), top)
    bottom = tl.where(negative, -bottom, bottom) & _MASK
    number = (top << 32) | bottom
    nothing = (top | bottom) == 0
    divisor = weight.to(tl.float64)
    size = (top.to(tl.float64) * 4294967296.0 + bottom.to(tl.float64)) * (1.0 / divisor)
    size = tl.where(nothing, 1.0, size)
    left, place = _left_of(number, weight, size)
    size = tl.where(nothing, 1.0, size + left / divisor * power_of_two(place))
    left, place = _left_of(number, weight, size)
    rest = left / divisor * power_of_two(place)
    half = unit >> 1
    size = tl.where(nothing, 0.0, size) * power_of_two(half) * power_of_two(unit - half)
    rest = tl.where(nothing, 0.0, rest) * power_of_two(half) * power_of_two(unit - half)
    return tl.where(negative, -size, size), tl.where(negative, -rest, rest)
