"""Exact sums and correctly rounded means: the specification that every engine must meet.

Every sum over points is the *exact* sum of its float64 terms, rounded once. Here a sum is kept as
an integer times a power of two, in limbs of 32 bits held in int64, so that adding is integer
addition: associative, free of drift, and independent of order, threads and partitions. A mean is
the exact quotient of two such sums, correctly rounded by Python's integer division.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from wolfmeans.exact.native import exponents_between

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MANTISSA_BITS = 53
LIMB_BITS = 32
_LIMB_MASK = (1 << LIMB_BITS) - 1
# A deposit adds less than 2**33 to a limb; carries are propagated before int64 could overflow.
_DEPOSITS_BEFORE_CARRY = 1 << 28
_VELTKAMP = float(2**27 + 1)


def exact_sum(terms: Iterable[float]) -> float:
    """Return the exact sum of float64 terms, rounded once.

    Examples
    --------
    >>> exact_sum([1e16, 1.0, -1e16])
    1.0
    """
    return math.fsum(terms)


def weighted_sum(weights: Floats | None, values: Floats) -> float:
    """Return the exact sum of the float64 terms w_i * v_i, rounded once."""
    terms = values if weights is None else weights * values
    return exact_sum(terms.tolist())


def rounded_ratio(numerator: int, denominator: int, exponent: int = 0) -> float:
    """Return numerator / denominator * 2**exponent, correctly rounded to float64.

    Examples
    --------
    >>> rounded_ratio(1, 3) == 1 / 3
    True
    """
    if exponent >= 0:
        return (numerator << exponent) / denominator
    return numerator / (denominator << -exponent)


def decompose(values: NDArray[np.floating]) -> tuple[Integers, Integers]:
    """Return integers m, e with values == m * 2**e exactly (m has at most 53 bits)."""
    fraction, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    mantissa = np.ldexp(fraction, MANTISSA_BITS).astype(np.int64)
    return mantissa, exponent.astype(np.int64) - MANTISSA_BITS


def exact_products(
    weights: Floats, values: NDArray[np.floating]
) -> tuple[tuple[Integers, Integers], tuple[Integers, Integers]]:
    """Return weights * values exactly, as two terms m * 2**e: the rounded product, the remainder.

    Both factors are brought into [1/2, 1) first, so that Dekker's product neither overflows nor
    loses its remainder to underflow.
    """
    a, exponent_a = np.frexp(weights)
    b, exponent_b = np.frexp(np.asarray(values, dtype=np.float64))
    product = a * b
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    remainder = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    exponent = (exponent_a + exponent_b).astype(np.int64)
    high = np.ldexp(product, MANTISSA_BITS + 1).astype(np.int64)
    low = np.ldexp(remainder, 2 * MANTISSA_BITS).astype(np.int64)
    return (high, exponent - (MANTISSA_BITS + 1)), (low, exponent - 2 * MANTISSA_BITS)


def exact_squares(values: Floats) -> tuple[Floats, Floats]:
    """Return x * x as a rounded product and its remainder, for validated values."""
    square = values * values
    high = _upper_half(values)
    low = values - high
    return square, ((high * high - square) + 2.0 * high * low) + low * low


def _upper_half(x: Floats) -> Floats:
    shifted = _VELTKAMP * x
    return shifted - (shifted - x)


class ExactSums:
    """An array of exact sums, one for each slot, each an integer times 2**low.

    Parameters
    ----------
    n_slots : int
        How many sums.
    low, high : int
        Every term that will ever be added is an integer multiple of 2**low, below 2**high.

    Examples
    --------
    >>> import numpy as np
    >>> sums = ExactSums(2, low=-60, high=60)
    >>> sums.add(np.array([0, 0, 0, 1]), *decompose(np.array([1e16, 1.0, -1e16, 0.1])))
    >>> sums.rounded(0), sums.rounded(1)
    (1.0, 0.1)
    """

    def __init__(self, n_slots: int, low: int, high: int) -> None:
        self.low = low
        n_limbs = max(1, -(-(high - low) // LIMB_BITS)) + 3
        self.limbs = np.zeros((n_limbs, n_slots), dtype=np.int64)
        self._deposits = 0

    def add(self, slots: Integers, mantissas: Integers, exponents: Integers) -> None:
        """Add mantissas * 2**exponents to the slots (all of the same shape)."""
        slots, mantissas, exponents = (a.ravel() for a in (slots, mantissas, exponents))
        for start in range(0, len(slots), _DEPOSITS_BEFORE_CARRY):
            part = slice(start, start + _DEPOSITS_BEFORE_CARRY)
            self._deposit(slots[part], mantissas[part], exponents[part])

    def subtract(self, slots: Integers, mantissas: Integers, exponents: Integers) -> None:
        """Take mantissas * 2**exponents out of the slots again, exactly."""
        self.add(slots, -mantissas, exponents)

    def _deposit(self, slots: Integers, mantissas: Integers, exponents: Integers) -> None:
        if self._deposits + len(slots) > _DEPOSITS_BEFORE_CARRY:
            self._carry()
        self._deposits += len(slots)
        some = mantissas != 0
        slots, mantissas, position = slots[some], mantissas[some], exponents[some] - self.low
        sign, size = np.sign(mantissas), np.abs(mantissas)
        limb, offset = position // LIMB_BITS, position % LIMB_BITS
        # 32 lower and 22 upper bits of the mantissa, each shifted by less than 32: below 2**63.
        lower = (size & _LIMB_MASK) << offset
        upper = (size >> LIMB_BITS) << offset
        np.add.at(self.limbs, (limb, slots), sign * (lower & _LIMB_MASK))
        middle = (lower >> LIMB_BITS) + (upper & _LIMB_MASK)
        np.add.at(self.limbs, (limb + 1, slots), sign * middle)
        np.add.at(self.limbs, (limb + 2, slots), sign * (upper >> LIMB_BITS))

    def _carry(self) -> None:
        for i in range(len(self.limbs) - 1):
            self.limbs[i + 1] += self.limbs[i] >> LIMB_BITS
            self.limbs[i] &= _LIMB_MASK
        self._deposits = 0

    def integer(self, slot: int) -> int:
        """Return the sum in the slot as an integer multiple of 2**low."""
        total = 0
        for limb in reversed(self.limbs[:, slot].tolist()):
            total = (total << LIMB_BITS) + limb
        return total

    def rounded(self, slot: int) -> float:
        """Return the sum in the slot, rounded once to float64."""
        return rounded_ratio(self.integer(slot), 1, self.low)


def mean_and_residual(total: int, weight: int, exponent: int) -> tuple[float, float]:
    """Return the mean total / weight * 2**exponent rounded to float64, and what rounding left.

    The residual is (exact mean - rounded mean), itself rounded to float64.

    Examples
    --------
    >>> mean, residual = mean_and_residual(1, 3, 0)
    >>> mean == 1 / 3, 0 < residual < 2e-17
    (True, True)
    """
    mean = rounded_ratio(total, weight, exponent)
    top, bottom = mean.as_integer_ratio()
    scale_up, scale_down = max(exponent, 0), max(-exponent, 0)
    rest = ((total << scale_up) * bottom) - (top * weight << scale_down)
    return mean, rounded_ratio(rest, weight * bottom, -scale_down)


def exponent_range(values: NDArray[np.floating]) -> tuple[int, int] | None:
    """Return (low, high) with 2**(low-1) <= |v| < 2**high for every nonzero v; None without one."""
    magnitude = np.abs(np.asarray(values))
    largest = float(magnitude.max(initial=0.0))
    smallest = float(magnitude.min(where=magnitude > 0, initial=largest))
    return exponents_between(smallest, largest)


def unit_exponent(weights: Floats | None) -> int:
    """Return the largest e for which all weights are whole multiples of 2**e.

    Examples
    --------
    >>> import numpy as np
    >>> unit_exponent(np.array([3.0, 0.0, 0.5])), unit_exponent(None)
    (-1, 0)
    """
    if weights is None:
        return 0
    mantissas, exponents = decompose(weights[weights > 0])
    lowest = np.frexp((mantissas & -mantissas).astype(np.float64))[1] - 1
    return int((exponents + lowest).min())
