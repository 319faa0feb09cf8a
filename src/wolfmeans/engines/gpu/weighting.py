"""How masses of points are held on the device: the digits of their sums, and where they have room.

A mass is a sample weight or a part of one. All masses are whole multiples of a power of two, so
that the sum W of a cluster is a whole number of such units, and the sum S of m x is one as well, of
the last bits of masses and data together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.transfers import as_tensor
from wolfmeans.exact.limbs import Range
from wolfmeans.exact.sums import unit_exponent

_MOST_MASS_DIGITS = 4
"""Weights of up to 2**128 units; with fewer than 2**30 points W is below 2**158 (`division`)."""
_MOST_SUM_DIGITS = 12
_MOST_POINTS = 1 << 30
"""A product is two terms, each with digits below 2**32: so many of both stay below 2**63."""


@dataclass(frozen=True)
class Weighting:
    """The weights of the points on the device, and the digits that sums of masses need."""

    values: torch.Tensor
    """(n,) float64, the weights as they were given; on the host where they are streamed."""
    high: int
    """No weight is above 2**high."""
    unit: int
    """All weights are whole multiples of 2**unit."""
    digits: int
    """How many digits of 32 bits a weight has, in units."""
    total: int
    """All weights together, in units."""
    sum_digits: int
    """How many digits a product of a weight and a number of the data has."""
    sum_unit: int
    """Exponent of the lowest of these digits."""

    @property
    def small(self) -> bool:
        """Whether every W is a divisor for short division."""
        return self.total < 1 << 31


def weigh(
    data: Screened,
    weights: NDArray[np.float64] | None,
    *,
    streamed: bool = False,
    masses: Range | None = None,
) -> Weighting | None:
    """Return the weights (None for ones) on the device, None where there is no room for them.

    Weights that are streamed stay on the host, and `data` is their window. Parts of a weight may be
    as fine as the given range of masses.

    There is no room when weights have bits more than 128 apart, as those of a ratio beyond 2**75
    may; when weights and data together have bits more than 384 apart; or for 2**30 points and more.
    """
    given = np.ones(data.n) if weights is None else weights
    largest = float(given.max(initial=0.0))
    unit = unit_exponent(weights) if largest > 0 else 0
    if masses is not None:
        unit = min(unit, masses.low)
    mantissa, high = np.frexp(largest)
    high = int(high) - int(mantissa == 0.5)
    digits = max(1, -(-(high - unit) // 32))
    bits = data.high + high - (data.lowest + unit)
    sum_digits = max(1, -(-bits // 32))
    if digits > _MOST_MASS_DIGITS or sum_digits > _MOST_SUM_DIGITS or len(given) >= _MOST_POINTS:
        return None
    return Weighting(
        as_tensor(given)
        if streamed
        else torch.tensor(given, dtype=torch.float64, device=data.X.device),
        high,
        unit,
        digits,
        _in_units(given, unit),
        sum_digits,
        data.high + high - 32 * sum_digits,
    )


def _in_units(weights: NDArray[np.float64], unit: int) -> int:
    """Return the exact sum of the weights as a whole number of units."""
    total = 0
    rest = np.ldexp(weights, -unit)
    place = 0
    while rest.any():
        above = np.floor(rest * 2.0**-32)
        total += int((rest - above * 2.0**32).astype(np.int64).sum()) << place
        rest, place = above, place + 32
    return total
