"""The masses of a part's points by distance, from which the threshold over all parts is found.

Each part returns the masses of its points in buckets of distances; these are integers that add up.
The bits of a nonnegative float, read as an integer, have the order of the floats. So a bucket is a
range of integers. `trimmed_parts` searches for the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.threshold import Masses, index_reaching, whole_number
from wolfmeans.engines.native import exact_total
from wolfmeans.exact.limbs import Grid, Limbs, added
from wolfmeans.exact.sums import unit_exponent

Bits = NDArray[np.int64]
"""(n,) distances, as integers of the same order."""

BUCKET_BITS = 12
BUCKETS = 1 << BUCKET_BITS
"""How many buckets a bracket has."""
FEW = 2048
"""Up to so many points in a bracket are listed one by one."""
# So many weights, each limb of which has at most 46 bits, can be added before a carry.
_ROWS_AT_ONCE = 1 << 15
_LARGEST = np.iinfo(np.int64).max


@dataclass(frozen=True)
class WeightSum:
    """The exact sum of some weights, and their unit."""

    total: Fraction
    unit: int
    """The largest e for which all are multiples of 2**e; if all are 0, more than any float has."""

    @staticmethod
    def of(weights: Masses) -> WeightSum:
        """Return the sum of an array."""
        total, positive = exact_total(weights), weights[weights > 0]
        exact = total.integer() * Fraction(2) ** total.grid.low
        return WeightSum(exact, unit_exponent(positive) if len(positive) else 1024)

    def plus(self, others: Sequence[WeightSum]) -> WeightSum:
        """Return the sum of all parts."""
        some = (self, *others)
        total = sum((one.total for one in some), Fraction(0))
        return WeightSum(total, min(one.unit for one in some))


@dataclass(frozen=True)
class Bracket:
    """Distances whose bits, as an integer, are in first..end - 1, in equal buckets."""

    first: int
    shift: int
    """A bucket is 2**shift integers wide."""

    @property
    def end(self) -> int:
        """The first integer beyond."""
        return self.first + (BUCKETS << self.shift)

    def within(self, bucket: int) -> Bracket:
        """Return the bracket that begins with a bucket and has all of it."""
        first = self.first + (bucket << self.shift)
        return Bracket(first, max(0, self.shift - BUCKET_BITS))

    def contains(self, bits: Bits) -> NDArray[np.bool_]:
        """Return which distances are in the bracket."""
        # Its end may be beyond all integers of 64 bits.
        return (bits >= self.first) & (bits <= min(self.end - 1, _LARGEST))


@dataclass(frozen=True)
class NearbyPoints:
    """Some points: their distances as integers, rows and weights; None for ones."""

    bits: Bits
    rows: NDArray[np.int64]
    weights: Masses | None


@dataclass(frozen=True)
class Nearby:
    """The masses of points up to the end of a bracket."""

    bracket: Bracket
    nearer: Limbs
    """(1, 1) the mass of the points before it."""
    points: NearbyPoints | None
    """The points in it, in no order; None if there are many."""
    buckets: Limbs | None
    """(BUCKETS, 1) their masses then."""

    def plus(self, others: Sequence[Nearby]) -> Nearby:
        """Return the masses of all parts; points as long as they are few."""
        some = [self, *others]
        nearer = added([one.nearer for one in some])
        few = [one.points for one in some if one.points is not None]
        if len(few) < len(some) or sum(len(points.rows) for points in few) > FEW:
            buckets = added([one.in_buckets() for one in some])
            return Nearby(self.bracket, nearer, None, buckets)
        weights = [points.weights for points in few if points.weights is not None]
        points = NearbyPoints(
            np.concatenate([points.bits for points in few]),
            np.concatenate([points.rows for points in few]),
            np.concatenate(weights) if weights else None,
        )
        return Nearby(self.bracket, nearer, points, None)

    def in_buckets(self) -> Limbs:
        """Return the masses in each bucket."""
        if self.points is None:
            assert self.buckets is not None
            return self.buckets
        return _in_buckets(self.points.bits, self.points.weights, self.bracket, self.nearer.grid)


def nearby(
    bits: Bits, weights: Masses | None, grid: Grid, bracket: Bracket, first_row: int
) -> Nearby:
    """Return the mass of points nearer than a bracket, and the points in it, if they are few.

    Else their masses by bucket. Rows are numbered from `first_row` on.
    """
    nearer = mass_of(bits < bracket.first, weights, grid)
    rows = np.flatnonzero(bracket.contains(bits))
    if len(rows) > FEW:
        return Nearby(bracket, nearer, None, _in_buckets(bits, weights, bracket, grid))
    own = None if weights is None else weights[rows]
    return Nearby(bracket, nearer, NearbyPoints(bits[rows], first_row + rows, own), None)


def mass_of(selected: NDArray[np.bool_], weights: Masses | None, grid: Grid) -> Limbs:
    """Return the exact mass of some points."""
    if weights is None:
        mass = int(np.count_nonzero(selected))
    else:
        mass = _whole_number_of(weights[selected], grid)
    return Limbs.of_integers(grid, [[mass]])


def last_row(
    selected: NDArray[np.bool_], weights: Masses | None, grid: Grid, missing: int
) -> tuple[int, int]:
    """Return the row, of those selected, that reaches a missing mass, and how much of it is kept.

    Masses are multiples of 2**grid.low.
    """
    rows = np.flatnonzero(selected)
    if weights is None:
        return int(rows[missing - 1]), 1
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        some = rows[start : start + _ROWS_AT_ONCE]
        mass = _whole_number_of(weights[some], grid)
        if mass >= missing:
            numbers = (whole_number(weight, grid.low) for weight in weights[some].tolist())
            index, rest = index_reaching(numbers, missing)
            return int(some[index]), rest
        missing -= mass
    raise AssertionError("the points at this distance were found to have more mass")


def _whole_number_of(weights: Masses, grid: Grid) -> int:
    """Return the sum of weights as a multiple of 2**grid.low."""
    total = exact_total(weights)
    return total.integer() >> (grid.low - total.grid.low)


def _in_buckets(bits: Bits, weights: Masses | None, bracket: Bracket, grid: Grid) -> Limbs:
    """Return the masses of the points in each bucket."""
    masses = np.zeros((BUCKETS, grid.shape, 1), dtype=np.int64)
    for start in range(0, len(bits), _ROWS_AT_ONCE):
        some = bits[start : start + _ROWS_AT_ONCE]
        rows = np.flatnonzero(bracket.contains(some))
        if len(rows) == 0:
            continue
        buckets = (some[rows] - bracket.first) >> bracket.shift
        if weights is None:
            masses[:, 0, 0] += np.bincount(buckets, minlength=BUCKETS)
        else:
            _add_weights(masses, buckets, weights[start + rows], grid)
    return Limbs.carried(grid, masses)


def _add_weights(masses: NDArray[np.int64], buckets: Bits, weights: Masses, grid: Grid) -> None:
    """Add weights to the limbs of their buckets. All of this is exact: digits are taken off."""
    rest = np.ldexp(weights, -grid.low)
    for limb in reversed(range(grid.limbs)):
        digits = np.floor(np.ldexp(rest, -limb * grid.bits))
        rest -= np.ldexp(digits, limb * grid.bits)
        np.add.at(masses[:, limb, 0], buckets, digits.astype(np.int64))
    Limbs.carried(grid, masses)
