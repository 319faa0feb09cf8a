"""Trimming over points in parts: the threshold is found without gathering distances.

Points are ordered by (distance, row), rows numbered through all parts. Parts tell how much mass
they have in each of some buckets of distances, as integers that add up; the bucket where the mass
is full is looked at again, in smaller ones. When few points are left in it they are told one by
one; of many points at one and the same distance each part tells its mass, and the one where the
mass is full says at which row. So the threshold, and what follows from it, has the bits of one
array. Where it was is where it is looked for first; one question is then enough, or two.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.threshold import (
    Masses,
    Threshold,
    filled_at,
    find_threshold,
    kept_masses,
    whole_number,
)
from wolfmeans.core.workspace import Assignment, Centers, Distances, Forced, Labels, StepByStep
from wolfmeans.engines.places.memory import Labelling
from wolfmeans.engines.places.trimming import (
    BUCKET_BITS,
    BUCKETS,
    Bracket,
    Nearby,
    Points,
    Weighing,
)
from wolfmeans.engines.trimming import refuse
from wolfmeans.exact.limbs import Limbs, added
from wolfmeans.exact.sums import rounded_ratio

if TYPE_CHECKING:
    from wolfmeans.engines.places.workspace import PartsWorkspace

_BEHIND = 2**62
# A threshold moves less from step to step than it did before, as a rule.
_REACH = 8
_AN_OCTAVE = 1 << 52
# A millionth of a distance; few points are within.
_LITTLE = 1 << 32
_ANYWHERE = Bracket(0, 63 - BUCKET_BITS)


@dataclass(frozen=True)
class Scales:
    """What the weights of all points are like."""

    total: Fraction
    """Their exact sum."""
    unit: int
    """The largest e for which all are multiples of 2**e."""


def weighed(points: PartsWorkspace) -> Scales:
    """Ask all parts for their weights, where they have any."""
    if not points.weighted:
        return Scales(Fraction(points.n_points), 0)
    found: list[Weighing] = list(points.place.each("weighing", points.everywhere(points.grids)))
    total = added([one.total for one in found])
    return Scales(
        Fraction(total.integer()) * Fraction(2) ** total.grid.low,
        min(one.unit for one in found if one.unit is not None),
    )


class TrimmedParts(StepByStep):
    """The oracle over points in parts: a workspace whose `assign` keeps the nearest of a mass.

    A labelling that has a threshold is one of the points' own, so questions about labels and about
    anything else go to the points.

    Parameters
    ----------
    points : PartsWorkspace
        The points; another oracle must not use them meanwhile.
    mass : float
        What is kept of the total weight; infinite to keep all.
    scales : Scales or None
        What the weights are like, where it is known.
    """

    def __init__(self, points: PartsWorkspace, mass: float, scales: Scales | None = None) -> None:
        if not mass > 0:
            raise ValueError(f"the mass to keep must be positive; got {mass}")
        self.scales = weighed(points) if scales is None else scales
        unit = self.scales.unit
        if math.isfinite(mass) and not math.ldexp(mass, -unit).is_integer():
            raise ValueError(f"the mass to keep must be a multiple of 2**{unit}; got {mass}")
        self.points, self.mass = points, mass
        self._threshold: Threshold | None = None
        self._threshold_before: Threshold | None = None
        points.forget()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "points":
            raise AttributeError(name)
        return getattr(self.points, name)

    def fork(self, n_threads: int) -> Self:
        """Return the oracle over the same points, without labels."""
        return type(self)(self.points.fork(n_threads), self.mass, self.scales)

    def smallest_mass(self) -> float:
        """Return a positive number that no positive kept mass is below."""
        if not self.points.weighted:
            return 1.0
        return (
            self.points.lightest() if math.isinf(self.mass) else math.ldexp(1.0, self.scales.unit)
        )

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Keep the nearest points, each with the label of its nearest center."""
        refuse(forced)
        aim = self._aim(centers)
        found = self._threshold_at(aim)
        result = self.points.assign_to(self._up_to(aim, found), centers)
        self._threshold_before, self._threshold = self._threshold, found
        return result

    def _aim(self, centers: Centers) -> Labelling:
        given = np.array(centers, order="C")
        return Labelling(given, None, self.points.grids, self.points.digest(given))

    def _up_to(self, aim: Labelling, threshold: Threshold) -> dict[int, Labelling]:
        """Return the labels to come, for each part, with the threshold's row in its numbers.

        Parts before the one that has it, and those behind, have the same labelling.
        """
        found: dict[int, Labelling] = {}
        labellings: dict[int, Labelling] = {}
        for number, place in self.points.row_ranges.items():
            row = threshold.row - place.start
            if threshold.row < place.start:
                row = -1
            elif threshold.row >= place.stop:
                row = _BEHIND
            if row not in labellings:
                here = replace(threshold, row=row)
                key = aim.key + repr((here.distance.hex(), row, here.mass.hex())).encode()
                labellings[row] = replace(aim, key=key, threshold=here)
            found[number] = labellings[row]
        return found

    # --- The threshold -----------------------------------------------------------------------

    def _threshold_at(self, aim: Labelling) -> Threshold:
        """Return the last point that is kept at these centers."""
        if self.mass >= self.scales.total:
            return Threshold.nowhere()
        whole = whole_number(self.mass, self.points.grids.totals.low)
        bracket = self._guess()
        while True:
            found = self._nearby(aim, bracket)
            missing = whole - found.nearer.integer()
            last = None if found.points is None else self._among(found.points, missing)
            if last is not None:
                return last
            reached = list(accumulate(found.in_buckets().integers()))
            if not 0 < missing <= reached[-1]:
                bracket = _wider(bracket)
                continue
            bucket = bisect_left(reached, missing)
            within = bracket.within(bucket)
            if bracket.shift == 0:
                missing -= reached[bucket - 1] if bucket else 0
                return self._among_tied(aim, within.first, missing)
            bracket = within

    def _nearby(self, aim: Labelling, bracket: Bracket) -> Nearby:
        asked = {
            number: (aim, bracket, place.start) for number, place in self.points.row_ranges.items()
        }
        found: Nearby = self.points.place.summed("nearby", asked)
        return found

    def _guess(self) -> Bracket:
        """Return where the threshold may be, from where it was; it costs questions if it is not.

        One that stayed where it was may be shared by many points, and needs the smallest buckets.
        """
        if self._threshold is None or math.isinf(self._threshold.distance):
            return _ANYWHERE
        last, width = _bits_of(self._threshold.distance), _AN_OCTAVE
        if self._threshold_before is not None and math.isfinite(self._threshold_before.distance):
            way = abs(last - _bits_of(self._threshold_before.distance))
            width = min(width, max(_LITTLE, 2 * _REACH * way)) if way else 1
        return _around(last, width)

    def _among(self, points: Points, missing: int) -> Threshold | None:
        """Return the point that fills what is missing; None where none of these does."""
        low = self.points.grids.totals.low
        order = np.lexsort((points.rows, points.bits))
        weights = [1] * len(order)
        if points.weights is not None:
            weights = [whole_number(weight, low) for weight in points.weights[order].tolist()]
        if not 0 < missing <= sum(weights):
            return None
        place, rest = filled_at(weights, missing)
        last, kept = order[place], rounded_ratio(rest, 1, low)
        return Threshold(_distance_of(int(points.bits[last])), int(points.rows[last]), kept)

    def _among_tied(self, aim: Labelling, distance: int, missing: int) -> Threshold:
        """Return the row, of all that are so far away, that fills what is missing."""
        masses = self.points.place.each("mass_at", self.points.everywhere(aim, distance))
        part, missing = filled_at((mass.integer() for mass in masses), missing)
        number = list(self.points.row_ranges)[part]
        (found,) = self.points.place.each("last_row", {number: (aim, distance, missing)})
        row = self.points.row_ranges[number].start + found[0]
        kept = rounded_ratio(found[1], 1, self.points.grids.totals.low)
        return Threshold(_distance_of(distance), row, kept)

    @property
    def threshold(self) -> Threshold:
        """The last point that is kept."""
        if self._threshold is None:
            raise RuntimeError("points have no labels before the first assignment")
        return self._threshold

    # --- What is kept ------------------------------------------------------------------------

    def kept(self) -> Any:
        """Return what is kept of each point's weight: the face of an array, most of it elsewhere.

        Whoever needs all of it brings it here by ``numpy.asarray``.
        """
        return self.points.kept_masses()

    def keep(self, distances: Distances) -> Masses:
        """Return what would be kept of each point's weight if the points were this far away."""
        weights = None if self.points.weights is None else np.asarray(self.points.weights)
        return kept_masses(find_threshold(distances, weights, self.mass), distances, weights)

    def trimmed_mass(self) -> float:
        """Return the weight that is left out, the exact sum rounded once."""
        mass: float = self.points.place.summed("left_out", self.points.labelled()).rounded()
        return mass

    def n_trimmed(self) -> int:
        """Return how many points of positive weight are left out wholly."""
        return sum(self.points.place.each("n_trimmed", self.points.labelled()))

    def shares(self) -> Any:
        """Return which share of each point is kept."""
        return self.points.of_points("shares", self.points.labelled(), np.float64)

    def margins(self, centers: Centers) -> Any:
        """Return by how much, in squared distance, the verdict on each point holds."""
        return self.points.of_points("margins", self.points.labelled(centers), np.float64)

    def around_threshold(self, centers: Centers) -> tuple[float, float, float]:
        """Return the farthest distance inside, the last point's weight, the nearest one outside."""
        found = self.points.place.each("around_threshold", self.points.labelled(centers))
        inside, weights, outside = zip(*found, strict=True)
        return max(inside), max(weights), min(outside)

    def gap_without(self, gap: float, centers: Centers, gone: NDArray[np.bool_]) -> float:
        """Return a gap less what is lost if some centers were not there, rounded once."""
        aim = self._aim(centers[~gone])
        there = self._up_to(aim, self._threshold_at(aim))
        asked = {number: (aim, labelling.threshold) for number, labelling in there.items()}
        without = self.points.place.summed("kept_cost", asked)
        cost = self.points.place.summed("cost", self.points.labelled(centers))
        gap_itself = Limbs.of_terms(np.array([gap]))
        exact = gap_itself.integer() + cost.integer() - without.integer()
        return rounded_ratio(exact, 1, gap_itself.grid.low)

    def kept_ties(self, centers: Centers, slack: float) -> tuple[Distances, Distances]:
        """Return two distances of kept points that may be near a tie."""
        found = list(self.points.place.each("kept_ties", self.points.labelled(centers, slack)))
        nearest, second = (np.concatenate(several) for several in zip(*found, strict=True))
        return nearest, second

    def snapshot(self) -> Any:
        """Return the labels, -1 for what is trimmed, wherever they are."""
        return self.points.of_points("labels", self.points.labelled(), np.int32)

    def labels(self) -> Labels:
        """Return the same as an array."""
        return np.concatenate(list(self.points.place.each("labels", self.points.labelled())))

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of v D over what is kept, rounded once."""
        asked = self.points.labelled(centers)
        cost: float = self.points.place.summed("cost", asked).rounded()
        return cost


def _around(bits: int, width: int) -> Bracket:
    """Return a bracket of at least that width, about a distance."""
    shift = max(0, width.bit_length() - BUCKET_BITS)
    return Bracket(max(0, bits - (BUCKETS << shift) // 2), shift)


def _wider(bracket: Bracket) -> Bracket:
    """Return where to look for what is not in a bracket."""
    middle = bracket.first + (BUCKETS << bracket.shift) // 2
    wide = _around(middle, _AN_OCTAVE)
    return wide if bracket.shift < wide.shift else _ANYWHERE


def _bits_of(distance: float) -> int:
    return int(np.float64(distance).view(np.int64))


def _distance_of(bits: int) -> float:
    return float(np.int64(bits).view(np.float64))
