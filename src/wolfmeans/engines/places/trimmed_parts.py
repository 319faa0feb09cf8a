"""The trimmed oracle over points in parts: it finds the threshold without gathering distances.

Points are ordered by (distance, row), rows numbered through all parts. Parts return their masses in
buckets of distances, as integers that add up (`distance_buckets`). The bucket in which the mass is
reached is divided again. When few points are left in it, they are listed one by one. If many points
have one and the same distance, each part returns its mass there, and the part in which the mass is
reached finds the row. So the threshold, and all that follows from it, has the bits of one array.
The search begins at the last threshold; then one or two questions are enough.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.threshold import (
    Masses,
    Threshold,
    find_threshold,
    index_reaching,
    kept_masses,
    whole_number,
)
from wolfmeans.core.workspace import Assignment, Centers, Distances
from wolfmeans.engines.places.distance_buckets import (
    BUCKET_BITS,
    BUCKETS,
    Bracket,
    Nearby,
    NearbyPoints,
    WeightSum,
)
from wolfmeans.engines.places.memory import Labelling
from wolfmeans.engines.trimming import TrimmedOracle
from wolfmeans.exact.limbs import Limbs
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


def sum_of_weights(points: PartsWorkspace) -> WeightSum:
    """Return the exact sum of all weights, and their unit."""
    if not points.weighted:
        return WeightSum(Fraction(points.n_points), 0)
    found: WeightSum = points.place.summed("weight_sum", points.everywhere())
    return found


class TrimmedParts(TrimmedOracle):
    """The oracle over points in parts.

    A labelling with a threshold is one of the points' own labellings, so questions about labels and
    costs go to the points.

    Parameters
    ----------
    points : PartsWorkspace
        The points; another oracle must not use them meanwhile.
    mass : float
        The weight to keep; infinite to keep all.
    weight_sum : WeightSum or None
        The sum of all weights, if it is known.
    """

    points: PartsWorkspace

    def __init__(
        self, points: PartsWorkspace, mass: float, weight_sum: WeightSum | None = None
    ) -> None:
        self.weight_sum = weight_sum or sum_of_weights(points)
        super().__init__(points, mass, self.weight_sum.unit)
        self._place = points.place
        self._threshold: Threshold | None = None
        self._threshold_before: Threshold | None = None
        points.forget()

    def fork(self, n_threads: int) -> Self:
        """Return the oracle over the same points, without labels."""
        return type(self)(self.points.fork(n_threads), self.mass, self.weight_sum)

    def _keep_nearest(self, centers: Centers) -> Assignment:
        aim = self.points.labelling(centers)
        found = self._threshold_at(aim)
        result = self.points.assign_to(self._up_to(aim, found), centers)
        self._threshold_before, self._threshold = self._threshold, found
        return result

    def _up_to(self, aim: Labelling, threshold: Threshold) -> dict[int, Labelling]:
        """Return the next labels of each part, with the threshold's row in its numbers.

        All parts before the one that has it share a labelling, and so do all parts after it.
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
        if self.mass >= self.weight_sum.total:
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
        ranges = self.points.row_ranges.items()
        asked = {number: (aim, bracket, rows.start) for number, rows in ranges}
        found: Nearby = self._place.summed("nearby", asked)
        return found

    def _guess(self) -> Bracket:
        """Return where the threshold may be, by its last positions; a wrong guess costs questions.

        One that stayed where it was may be shared by many points, and needs the smallest buckets.
        """
        if self._threshold is None or math.isinf(self._threshold.distance):
            return _ANYWHERE
        last, width = _bits_of(self._threshold.distance), _AN_OCTAVE
        if self._threshold_before is not None and math.isfinite(self._threshold_before.distance):
            way = abs(last - _bits_of(self._threshold_before.distance))
            width = min(width, max(_LITTLE, 2 * _REACH * way)) if way else 1
        return _around(last, width)

    def _among(self, points: NearbyPoints, missing: int) -> Threshold | None:
        """Return the point that reaches a missing mass; None if it is not among these."""
        low = self.points.grids.totals.low
        order = np.lexsort((points.rows, points.bits))
        weights = [1] * len(order)
        if points.weights is not None:
            weights = [whole_number(weight, low) for weight in points.weights[order].tolist()]
        if not 0 < missing <= sum(weights):
            return None
        index, rest = index_reaching(weights, missing)
        last, kept = order[index], rounded_ratio(rest, 1, low)
        return Threshold(_distance_of(int(points.bits[last])), int(points.rows[last]), kept)

    def _among_tied(self, aim: Labelling, distance: int, missing: int) -> Threshold:
        """Return the row, of all at one distance, that reaches a missing mass."""
        masses = self._place.each("mass_at", self.points.everywhere(aim, distance))
        part, missing = index_reaching((mass.integer() for mass in masses), missing)
        number, rows = list(self.points.row_ranges.items())[part]
        (found,) = self._place.each("last_row", {number: (aim, distance, missing)})
        kept = rounded_ratio(found[1], 1, self.points.grids.totals.low)
        return Threshold(_distance_of(distance), rows.start + found[0], kept)

    @property
    def threshold(self) -> Threshold:
        """The last point that is kept."""
        if self._threshold is None:
            raise RuntimeError("points have no labels before the first assignment")
        return self._threshold

    # --- Kept and trimmed points -------------------------------------------------------------

    def kept(self) -> Any:
        """Return the kept mass of each point: a lazy array (`DistantMasses`)."""
        return self.points.kept_masses()

    def keep(self, distances: Distances) -> Masses:
        """Return the mass of each point that would be kept if the points were this far away."""
        weights = None if self.points.weights is None else np.asarray(self.points.weights)
        return kept_masses(find_threshold(distances, weights, self.mass), distances, weights)

    def trimmed_mass(self) -> float:
        """Return the trimmed weight, the exact sum rounded once."""
        asked = self.points.labelled("exact_trimmed_mass")
        return float(self._place.summed("ask", asked).rounded())

    def n_trimmed(self) -> int:
        """Return how many points of positive weight are trimmed entirely."""
        return sum(self._place.each("ask", self.points.labelled("n_trimmed")))

    def shares(self) -> Any:
        """Return the kept share of each point."""
        return self._place.of_points("ask", self.points.labelled("shares"), np.float64)

    def margins(self, centers: Centers) -> Any:
        """Return by how much, in squared distance, the verdict on each point holds."""
        return self._place.of_points("ask", self.points.labelled("margins", centers), np.float64)

    def around_threshold(self, centers: Centers) -> tuple[float, float, float]:
        """Return the farthest distance inside, the last point's weight, the nearest one outside."""
        found = self._place.each("ask", self.points.labelled("around_threshold", centers))
        inside, weights, outside = zip(*found, strict=True)
        return max(inside), max(weights), min(outside)

    def gap_without(self, gap: float, centers: Centers, gone: NDArray[np.bool_]) -> float:
        """Return a gap less the loss if some centers were not there, rounded once."""
        aim = self.points.labelling(centers[~gone])
        there = self._up_to(aim, self._threshold_at(aim))
        asked = {number: (aim, labelling.threshold) for number, labelling in there.items()}
        without = self._place.summed("kept_cost", asked)
        cost = self._place.summed("cost", self.points.labelled(centers))
        gap_itself = Limbs.of_terms(np.array([gap]))
        exact = gap_itself.integer() + cost.integer() - without.integer()
        return rounded_ratio(exact, 1, gap_itself.grid.low)

    def kept_ties(self, centers: Centers, slack: float) -> tuple[Distances, Distances]:
        """Return two distances of one kept point of each part that may be tied."""
        found = list(self._place.each("undecided", self.points.labelled(centers, slack)))
        _, nearest, second = (np.concatenate(several) for several in zip(*found, strict=True))
        return nearest, second


def _around(bits: int, width: int) -> Bracket:
    """Return a bracket of at least that width, about a distance."""
    shift = max(0, width.bit_length() - BUCKET_BITS)
    return Bracket(max(0, bits - (BUCKETS << shift) // 2), shift)


def _wider(bracket: Bracket) -> Bracket:
    """Return where to search if a bracket was wrong."""
    middle = bracket.first + (BUCKETS << bracket.shift) // 2
    wide = _around(middle, _AN_OCTAVE)
    return wide if bracket.shift < wide.shift else _ANYWHERE


def _bits_of(distance: float) -> int:
    return int(np.float64(distance).view(np.int64))


def _distance_of(bits: int) -> float:
    return float(np.int64(bits).view(np.float64))
