"""Keeping the nearest points of a mass: the specification of the trimmed oracle.

Points are ordered by (distance, row). A mass h keeps the first of them; the last one may be kept in
part, so that the kept masses v_i in [0, w_i] sum to h. The threshold names that last point, and
whoever compares with it knows what is kept. Only points whose label or kept mass changes touch the
sums, which are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.workspace import (
    Assignment,
    Centers,
    Distances,
    Forced,
    Labels,
    Partial,
    Threshold,
)
from wolfmeans.engines.labelled import LabelledPoints, Moments
from wolfmeans.exact.distances import Kernels
from wolfmeans.exact.limbs import Limbs
from wolfmeans.exact.sums import exact_sum, rounded_ratio, unit_exponent

Masses = NDArray[np.float64]
"""(n,) what is kept of each point's weight."""


def find_threshold(distances: Distances, weights: Masses | None, mass: float) -> Threshold:
    """Return the point at which the mass is full, the points taken by (distance, row).

    What is kept of that point is the exact difference, rounded once. A mass that no point exceeds
    keeps all of them, and the threshold is infinite.
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
    place, rest = filled_at(_integers(weights[order], low), whole)
    row = int(order[place])
    return Threshold(float(distances[row]), row, rounded_ratio(rest, 1, low))


def filled_at(weights: Iterable[int], missing: int) -> tuple[int, int]:
    """Return which of the weights, one after the other, fills what is missing; and how much of it.

    Examples
    --------
    >>> filled_at([3, 0, 5], 4)
    (2, 1)
    """
    weight = 0
    for place, weight in enumerate(weights):
        if weight >= missing:
            return place, missing
        missing -= weight
    raise AssertionError("the weights were found to sum to more than the mass")


def _integers(weights: Masses, low: int) -> list[int]:
    return [whole_number(weight, low) for weight in weights.tolist()]


def whole_number(value: float, low: int) -> int:
    """Return value / 2**low, a whole number."""
    top, bottom = value.as_integer_ratio()
    return (top << max(-low, 0)) // (bottom << max(low, 0))


def kept_masses(threshold: Threshold, distances: Distances, weights: Masses | None) -> Masses:
    """Return what is kept of each point's weight.

    The last point that is kept may be elsewhere: row -1 is before these, row n or more behind them.
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


@dataclass(frozen=True)
class Vertex:
    """Where all points are: the nearest center, what is kept, and at which threshold."""

    nearest_labels: Labels
    inside: NDArray[np.bool_]
    kept: Masses
    threshold: Threshold

    def labels(self) -> Labels:
        """Return the labels, -1 for points outside."""
        return np.where(self.inside, self.nearest_labels, np.int32(-1)).astype(np.int32)


class Trimming(LabelledPoints):
    """A workspace whose oracle keeps the nearest points of a mass.

    It stands before another kind of labelled points and takes kernels and arithmetic from them.
    """

    mass: float
    _vertex: Vertex | None = None
    _ahead: tuple[Labels, Distances] | None = None

    def keeping(self, mass: float) -> Self:
        """Set the mass to keep, once, before the first assignment."""
        if not mass > 0:
            raise ValueError(f"the mass to keep must be positive; got {mass}")
        self._unit = 0 if math.isinf(mass) else unit_exponent(self.weights)
        if math.isfinite(mass) and not math.ldexp(mass, -self._unit).is_integer():
            raise ValueError(f"the mass to keep must be a multiple of 2**{self._unit}; got {mass}")
        self.mass = mass
        return self

    def keep(self, distances: Distances) -> Masses:
        """Return what is kept of each point's weight when the points are this far away."""
        return kept_masses(self._find_threshold(distances), distances, self.weights)

    def _find_threshold(self, distances: Distances) -> Threshold:
        return find_threshold(distances, self.weights, self.mass)

    def smallest_mass(self) -> float:
        """Return a positive number that no positive kept mass is below."""
        if self.weights is None:
            return 1.0
        if math.isinf(self.mass):
            return float(self.weights[self.weights > 0].min())
        return math.ldexp(1.0, self._unit)

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Keep the nearest points, each with the label of its nearest center.

        The gap is the sum of v (D - tau) before less that after, tau the new threshold: the masses
        are the same, so subtracting tau changes nothing, but makes every term at least 0. Labels
        cannot be forced here.
        """
        refuse(forced)
        threshold = self._find_threshold(self.approach(centers))
        moved, terms, moments = self._keep_up_to(threshold, centers)
        gap = exact_sum(terms.tolist())
        return Assignment(moved, gap, *moments.means(centers))

    def approach(self, centers: Centers) -> Distances:
        """Find the nearest centers, and return the distances; labels stay what they are.

        That is the first half of an assignment. The other one needs a threshold, which points that
        are a part of others have to be told (`keep_exactly`).
        """
        self._ahead = self._kernels.nearest(centers)
        return self._ahead[1]

    def approached(self) -> Distances:
        """Return the distances to the centers that were approached."""
        return self._at_hand()[1]

    def _at_hand(self) -> tuple[Labels, Distances]:
        if self._ahead is None:
            raise RuntimeError("the centers have to be approached first")
        return self._ahead

    def keep_exactly(self, centers: Centers, threshold: Threshold) -> Partial:
        """Keep what is up to a threshold, at the centers approached; return sums that add up."""
        grids = self._agreed_grids()
        moved, terms, moments = self._keep_up_to(threshold, centers)
        totals, sums = moments.limbs(grids)
        return Partial(moved, Limbs.of_terms(terms), totals, sums)

    def _keep_up_to(self, threshold: Threshold, centers: Centers) -> tuple[int, Distances, Moments]:
        """Return how many points moved, the terms of the gap, and the moments."""
        labels, nearest = self._at_hand()
        new = Vertex(
            labels,
            points_inside(threshold, nearest),
            kept_masses(threshold, nearest, self.weights),
            threshold,
        )
        old = self._vertex
        if old is None or self._moments is None:
            self._moments = Moments(self._X, self.weights, len(centers), self._grids)
            rows, terms = np.flatnonzero(new.inside), np.zeros(0)
            moved = self.n_points
        else:
            rows = np.flatnonzero((new.labels() != old.labels()) | (new.kept != old.kept))
            terms = self._gap_between(old, new, rows, centers, nearest)
            moved = len(rows)
            out = rows[old.inside[rows]]
            self._moments.deposit(out, old.nearest_labels[out], self._of(old, out), subtract=True)
            rows = rows[new.inside[rows]]
        self._moments.deposit(rows, labels[rows], self._of(new, rows), subtract=False)
        self._vertex = new
        return moved, terms, self._moments

    def _of(self, vertex: Vertex, rows: NDArray[np.int64]) -> Masses | None:
        """Return the kept masses of rows; None when all points weigh 1 and none is in part."""
        return None if self.weights is None else vertex.kept[rows]

    def _gap_between(
        self,
        old: Vertex,
        new: Vertex,
        rows: NDArray[np.int64],
        centers: Centers,
        nearest: Distances,
    ) -> Distances:
        before = self._kernels.distances(centers, old.nearest_labels)[rows]
        after = nearest[rows]
        return gap_terms(old.kept[rows], new.kept[rows], before, after, new.threshold.distance)

    def _at(self) -> Vertex:
        if self._vertex is None:
            raise RuntimeError("points have no labels before the first assignment")
        return self._vertex

    def _current(self) -> Labels:
        return self._at().nearest_labels

    def labels(self) -> Labels:
        """Return the current labels, -1 for what is trimmed."""
        return self._at().labels()

    def kept(self) -> Masses:
        """Return what is kept of each point's weight."""
        return self._at().kept.copy()

    @property
    def threshold(self) -> Threshold:
        """The last point that is kept."""
        return self._at().threshold

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of v D over what is kept, rounded once."""
        return self.total(self.kept() * self.distances(centers))

    def exact_cost(self, centers: Centers) -> Limbs:
        """Return the cost as a sum that can be added to those of other points."""
        return self.exact_total(self.kept() * self.distances(centers))

    def _full(self) -> Masses:
        return np.ones(self.n_points) if self.weights is None else self.weights

    def trimmed_mass(self) -> float:
        """Return the weight that is left out, the exact sum rounded once."""
        return self.total(self.left_out())

    def left_out(self) -> Masses:
        """Return terms that add up to the weight that is left out."""
        whole, kept = self._full(), self.kept()
        partial = whole != kept
        return np.concatenate([whole[partial], -kept[partial]])

    def n_trimmed(self) -> int:
        """Return how many points of positive weight are left out wholly."""
        return int(np.count_nonzero((self.labels() < 0) & (self._full() > 0)))

    def shares(self) -> Masses:
        """Return which share of each point is kept; of points of no weight, would be."""
        whole = self._full()
        inside = (self.labels() >= 0).astype(np.float64)
        return np.divide(self.kept(), whole, out=inside, where=whole > 0)

    def margins(self, centers: Centers) -> Distances:
        """Return by how much, in squared distance, the verdict on each point holds."""
        _, nearest, second = self.near_ties(centers, math.inf)
        threshold = self.threshold.distance
        inside = self.labels() >= 0
        margins: Distances = np.where(
            inside, np.minimum(second, threshold) - nearest, nearest - threshold
        )
        return margins

    def around_threshold(self, centers: Centers) -> tuple[float, float, float]:
        """Return the farthest distance inside, the last point's weight, the nearest one outside.

        The last point itself is neither; infinities stand for nobody.
        """
        distances, kept, whole = self.distances(centers), self.kept(), self._full()
        row = self.threshold.row
        inside = (kept > 0) & (np.arange(len(kept)) != row)
        return (
            float(np.max(distances[inside], initial=-math.inf)),
            float(whole[row]) if 0 <= row < len(whole) else 0.0,
            float(np.min(distances[(kept == 0) & (whole > 0)], initial=math.inf)),
        )

    def gap_without(self, gap: float, centers: Centers, gone: NDArray[np.bool_]) -> float:
        """Return a gap less what is lost if some centers were not there, rounded once.

        Without them other points may be kept, so both sums are taken anew.
        """
        without = self.nearest(np.ascontiguousarray(centers[~gone]))[1]
        terms = self.kept() * self.distances(centers)
        terms_without = self.keep(without) * without
        return exact_sum([gap, *terms.tolist(), *(-terms_without).tolist()])

    def kept_ties(self, centers: Centers, slack: float) -> tuple[Distances, Distances]:
        """Return two distances of each kept point that may be near a tie (`near_ties`)."""
        rows, nearest, second = self.near_ties(centers, slack)
        heavy = self.kept()[rows] > 0
        return nearest[heavy], second[heavy]

    def near_ties(
        self, centers: Centers, slack: float
    ) -> tuple[NDArray[np.int64], Distances, Distances]:
        """Return all rows with their distances to the nearest and second nearest center."""
        return LabelledPoints.near_ties(self, centers, slack)

    def advance(self, *_: Any) -> None:
        """Return None: steps are taken one at a time here."""
        return

    def advance_with(self, *_: Any) -> None:
        """Return None: steps are taken one start after the other here."""
        return


class TrimmedPoints(Trimming):
    """The specification over any distance kernels."""

    def __init__(self, X: Any, weights: Masses | None, kernels: Kernels, mass: float) -> None:
        super().__init__(X, weights, kernels)
        self.keeping(mass)

    def fork(self, n_threads: int) -> TrimmedPoints:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = TrimmedPoints(self._X, self.weights, self._kernels, self.mass)
        twin.engine = self.engine
        twin._order = self._order
        return twin


def refuse(forced: Forced | None) -> None:
    """Refuse labels to be forced: which points would have to be trimmed for them is not known."""
    if forced is not None:
        raise ValueError("labels cannot be forced where points are trimmed")


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
