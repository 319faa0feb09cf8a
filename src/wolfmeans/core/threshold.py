"""Keeping the nearest points of a mass: the specification of the trimmed oracle.

Points are ordered by (distance, row). A mass h keeps the first of them; the last one may be kept in
part, so that the kept masses v_i in [0, w_i] sum to h. The threshold is that last point: comparing
with it tells which points are kept. Only points whose label or kept mass changes touch the sums,
which are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wolfmeans.exact.native import Distances
from wolfmeans.exact.sums import rounded_ratio, unit_exponent

Masses = NDArray[np.float64]
"""(n,) the kept part of each point's weight."""


@dataclass(frozen=True)
class Threshold:
    """The last point that a mass keeps, points taken by (distance, row)."""

    distance: float
    """Its distance; infinite when all points are kept."""
    row: int
    """Its row; -1 when all points are kept."""
    mass: float
    """The kept part of its weight."""

    @staticmethod
    def nowhere() -> Threshold:
        """Return the threshold that keeps all points."""
        return Threshold(math.inf, -1, 0.0)


def find_threshold(distances: Distances, weights: Masses | None, mass: float) -> Threshold:
    """Return the point at which the mass is reached, the points taken by (distance, row).

    The kept mass of that point is the exact difference, rounded once. A mass of at least the total
    weight keeps all points, and the threshold is infinite.
    """
    n = len(distances)
    if weights is None:
        if mass >= n:
            return Threshold.nowhere()
        row = int(np.argsort(distances, kind="stable")[int(mass) - 1])
        return Threshold(float(distances[row]), row, 1.0)
    low = min(unit_exponent(weights), math.frexp(mass)[1] - 53) if math.isfinite(mass) else 0
    if not math.isfinite(mass) or sum(_integers(weights, low)) <= whole_number(mass, low):
        return Threshold.nowhere()
    order = np.argsort(distances, kind="stable")
    whole = whole_number(mass, low)
    index, rest = index_reaching(_integers(weights[order], low), whole)
    row = int(order[index])
    return Threshold(float(distances[row]), row, rounded_ratio(rest, 1, low))


def index_reaching(weights: Iterable[int], missing: int) -> tuple[int, int]:
    """Return the index at which the cumulative sum reaches `missing`, and how much of it is needed.

    Examples
    --------
    >>> index_reaching([3, 0, 5], 4)
    (2, 1)
    """
    for index, weight in enumerate(weights):
        if weight >= missing:
            return index, missing
        missing -= weight
    raise AssertionError("the weights were found to sum to more than the mass")


def _integers(weights: Masses, low: int) -> list[int]:
    return [whole_number(weight, low) for weight in weights.tolist()]


def whole_number(value: float, low: int) -> int:
    """Return value / 2**low, a whole number."""
    top, bottom = value.as_integer_ratio()
    return (top << max(-low, 0)) // (bottom << max(low, 0))


def kept_masses(threshold: Threshold, distances: Distances, weights: Masses | None) -> Masses:
    """Return the kept mass of each point.

    The last kept point may be in another part: row -1 is before these rows, n or more after them.
    """
    inside = points_inside(threshold, distances)
    kept = np.where(inside, 1.0 if weights is None else weights, 0.0)
    if 0 <= threshold.row < len(kept):
        kept[threshold.row] = threshold.mass
    return kept


def points_inside(threshold: Threshold, distances: Distances) -> NDArray[np.bool_]:
    """Return which points are kept, wholly or in part; for points of no weight, would be."""
    inside = distances < threshold.distance
    tied = np.flatnonzero(distances == threshold.distance)
    inside[tied[tied <= threshold.row]] = True
    return inside


def gap_terms(
    old: Masses, new: Masses, before: Distances, after: Distances, threshold: float
) -> Distances:
    """Return the terms of the gap, all at least 0: what stays, what leaves, what enters.

    `old` and `new` are the kept masses, `before` and `after` the distances to the centers of the
    old and the new labels.
    """
    stay = np.minimum(old, new)
    leaves, enters = old > new, new > old
    return np.concatenate(
        [
            (stay * (before - after))[stay > 0],
            (old[leaves] - new[leaves]) * (before[leaves] - threshold),
            (new[enters] - old[enters]) * (threshold - after[enters]),
        ]
    )
