"""What a lower bound on the best possible SSE is, and how it is rounded down."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass

UNIT = 2.0**-53
"""The relative rounding error of float64."""

Report = Callable[[float, str], object]
"""Told the fraction that is done, and what is being done."""


@dataclass(frozen=True)
class LowerBound:
    """A number that no clustering's SSE can be below.

    Examples
    --------
    >>> import wolfmeans
    >>> bound = wolfmeans.lower_bound([[0.0], [1.0], [10.0], [11.0]], 2)
    >>> bound.value, bound.kind, bound.confidence
    (1.0, 'exact', 1.0)
    """

    value: float
    """The bound."""
    kind: str
    """How it was found."""
    confidence: float
    """The probability that it holds; 1.0 for a proof."""
    seconds: float
    """What it cost."""


def below(*terms: float) -> float:
    """Return a number not above the sum of the terms, and at least 0.

    The sum is rounded once, so that the next number down is below it.
    """
    total = math.fsum(terms)
    return max(0.0, math.nextafter(total, -math.inf)) if math.isfinite(total) else 0.0


def times_up(a: float, b: float) -> float:
    """Return a number not below the product."""
    return math.nextafter(a * b, math.inf)


def times_down(a: float, b: float) -> float:
    """Return a number not above the product."""
    return math.nextafter(a * b, -math.inf)


def scaled_down(value: float, exponent: int) -> float:
    """Return 2**exponent value, rounded down."""
    try:
        scaled = math.ldexp(value, exponent)
    except OverflowError:
        return sys.float_info.max
    # A number that falls below the normal ones may have been rounded up, even to the first of them.
    exact = math.ldexp(scaled, -exponent) == value
    return scaled if exact else math.nextafter(scaled, 0.0)


def quiet(done: float, text: str) -> None:
    """Report to nobody."""
