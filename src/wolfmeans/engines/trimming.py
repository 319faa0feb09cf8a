"""The trimmed oracle over the points of a workspace: it keeps the nearest points of a mass.

`core.threshold` is the specification. A *trimmer* does the work where the points are: it finds the
nearest centers, the threshold, and the exact sums of what is kept. There is one over any distance
kernels (here), one in native code and one on the GPU. `Trimmed` is the oracle: a workspace like the
one it is made of, whose `assign` keeps a mass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.threshold import Masses, Threshold, gap_terms, kept_masses, points_inside
from wolfmeans.core.workspace import (
    Assignment,
    Centers,
    Distances,
    Forced,
    Labels,
    Partial,
    StepByStep,
)
from wolfmeans.engines.moments import Moments
from wolfmeans.exact.limbs import Grids, Limbs
from wolfmeans.exact.sums import exact_sum, unit_exponent

if TYPE_CHECKING:
    from wolfmeans.engines.labelled import LabelledPoints


class Trimmer(Protocol):
    """Which points are kept, and their exact sums, where the points are."""

    def assign(self, centers: Centers) -> Assignment:
        """Keep the nearest points of the mass, each with the label of its nearest center."""

    def find_threshold(self, distances: Distances) -> Threshold:
        """Return the last point that is kept when the points are this far away."""

    def nearest_labels(self) -> Labels:
        """Return the nearest center of every point, kept or not."""

    def labels(self) -> Labels:
        """Return the current labels, -1 for what is trimmed."""

    def snapshot(self) -> Any:
        """Return the same wherever they are: an array, or what becomes one."""

    def kept(self) -> Masses:
        """Return what is kept of each point's weight."""

    def threshold(self) -> Threshold:
        """Return the last point that is kept."""

    def cost(self, centers: Centers) -> float | None:
        """Return the exact sum of v D over what is kept; None to leave it to the oracle."""


class PartTrimmer(Trimmer, Protocol):
    """A trimmer of points that are a part of others: the threshold comes from outside."""

    def approach(self, centers: Centers) -> None:
        """Find the nearest centers; labels stay what they are.

        That is the first half of an assignment. The other one needs a threshold, which points that
        are a part of others have to be told (`keep`).
        """

    def approached(self) -> Distances:
        """Return the distances to the centers that were approached."""

    def keep(self, centers: Centers, threshold: Threshold) -> Partial:
        """Keep what is up to a threshold, at the centers approached; return sums that add up."""

    def put_away(self) -> None:
        """Let go of the rows; labels, bounds and moments stay."""

    def bring(self, X: NDArray[np.floating]) -> None:
        """Take the same rows again, wherever they are now."""


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


class PlainTrimmer:
    """A trimmer over any distance kernels: the specification."""

    def __init__(self, points: LabelledPoints, mass: float) -> None:
        self._points, self._mass = points, mass
        self._vertex: Vertex | None = None
        self._ahead: tuple[Labels, Distances] | None = None
        self._moments: Moments | None = None

    def assign(self, centers: Centers) -> Assignment:
        """Keep the nearest points of the mass, each with the label of its nearest center.

        The gap is the sum of v (D - tau) before less that after, tau the new threshold: the masses
        are the same, so subtracting tau changes nothing, but makes every term at least 0.
        """
        self.approach(centers)
        threshold = self.find_threshold(self.approached())
        moved, terms, moments = self._keep_up_to(threshold, centers)
        return Assignment(moved, exact_sum(terms.tolist()), *moments.means(centers))

    def find_threshold(self, distances: Distances) -> Threshold:
        """Return the last point that is kept when the points are this far away."""
        return self._points.find_threshold(distances, self._mass)

    def approach(self, centers: Centers) -> None:
        """Find the nearest centers."""
        self._ahead = self._points.nearest(centers)

    def approached(self) -> Distances:
        """Return the distances to the centers that were approached."""
        return self._at_hand()[1]

    def _at_hand(self) -> tuple[Labels, Distances]:
        if self._ahead is None:
            raise RuntimeError("the centers have to be approached first")
        return self._ahead

    def keep(self, centers: Centers, threshold: Threshold) -> Partial:
        """Keep what is up to a threshold, at the centers approached; return sums that add up."""
        grids = self._points.agreed_grids()
        moved, terms, moments = self._keep_up_to(threshold, centers)
        totals, sums = moments.limbs(grids)
        return Partial(moved, Limbs.of_terms(terms), totals, sums)

    def _keep_up_to(self, threshold: Threshold, centers: Centers) -> tuple[int, Distances, Moments]:
        """Return how many points moved, the terms of the gap, and the moments."""
        points = self._points
        labels, nearest = self._at_hand()
        new = Vertex(
            labels,
            points_inside(threshold, nearest),
            kept_masses(threshold, nearest, points.weights),
            threshold,
        )
        old = self._vertex
        if old is None or self._moments is None:
            self._moments = Moments(points.host_rows, points.weights, len(centers), points.grids)
            rows, terms = np.flatnonzero(new.inside), np.zeros(0)
            moved = points.n_points
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
        return None if self._points.weights is None else vertex.kept[rows]

    def _gap_between(
        self,
        old: Vertex,
        new: Vertex,
        rows: NDArray[np.int64],
        centers: Centers,
        nearest: Distances,
    ) -> Distances:
        before = self._points.distances_at(centers, old.nearest_labels)[rows]
        after = nearest[rows]
        return gap_terms(old.kept[rows], new.kept[rows], before, after, new.threshold.distance)

    def _at(self) -> Vertex:
        if self._vertex is None:
            raise RuntimeError("points have no labels before the first assignment")
        return self._vertex

    def nearest_labels(self) -> Labels:
        """Return the nearest center of every point, kept or not."""
        return self._at().nearest_labels

    def labels(self) -> Labels:
        """Return the current labels, -1 for what is trimmed."""
        return self._at().labels()

    def snapshot(self) -> Any:
        """Return the same: they are on the host."""
        return self.labels()

    def kept(self) -> Masses:
        """Return what is kept of each point's weight."""
        return self._at().kept.copy()

    def threshold(self) -> Threshold:
        """Return the last point that is kept."""
        return self._at().threshold

    def cost(self, centers: Centers) -> float | None:
        """Leave it to the oracle."""
        return None


class Trimmed(StepByStep):
    """The oracle: a workspace whose `assign` keeps the nearest points of a mass.

    Labels are -1 for points of which nothing is kept, `cost` is the sum over what is kept. What
    does not depend on the labels comes from the points themselves.

    Parameters
    ----------
    points : LabelledPoints
        The points, in memory or on a device.
    mass : float
        What is kept of the total weight: a multiple of the weights' unit, the largest power of two
        of which all weights are multiples; infinite to keep all.
    """

    def __init__(self, points: Any, mass: float) -> None:
        if not mass > 0:
            raise ValueError(f"the mass to keep must be positive; got {mass}")
        self._unit = 0 if math.isinf(mass) else unit_exponent(points.weights)
        if math.isfinite(mass) and not math.ldexp(mass, -self._unit).is_integer():
            raise ValueError(f"the mass to keep must be a multiple of 2**{self._unit}; got {mass}")
        self.points, self.mass = points, mass
        self.trimmer: Trimmer = points.trimmer(mass)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "points":
            raise AttributeError(name)
        return getattr(self.points, name)

    @property
    def part_trimmer(self) -> PartTrimmer:
        """The trimmer, for points that are a part of others."""
        return cast("PartTrimmer", self.trimmer)

    def fork(self, n_threads: int) -> Self:
        """Return the oracle over the same points, without labels."""
        return type(self)(self.points.fork(n_threads), self.mass)

    def summing_on(self, grids: Grids) -> Self:
        """Set where exact sums stand, once, before the first assignment."""
        self.points.summing_on(grids)
        return self

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Keep the nearest points, each with the label of its nearest center."""
        refuse(forced)
        return self.trimmer.assign(centers)

    def keep(self, distances: Distances) -> Masses:
        """Return what is kept of each point's weight when the points are this far away."""
        threshold = self.trimmer.find_threshold(distances)
        return kept_masses(threshold, distances, self.points.weights)

    def smallest_mass(self) -> float:
        """Return a positive number that no positive kept mass is below."""
        weights = self.points.weights
        if weights is None:
            return 1.0
        if math.isinf(self.mass):
            return float(weights[weights > 0].min())
        return math.ldexp(1.0, self._unit)

    def labels(self) -> Labels:
        """Return the current labels, -1 for what is trimmed."""
        return self.trimmer.labels()

    def snapshot(self) -> Any:
        """Return the same, wherever they are."""
        return self.trimmer.snapshot()

    def kept(self) -> Masses:
        """Return what is kept of each point's weight."""
        return self.trimmer.kept()

    @property
    def threshold(self) -> Threshold:
        """The last point that is kept."""
        return self.trimmer.threshold()

    def distances(self, centers: Centers) -> Distances:
        """Return each point's canonical distance to the nearest center, kept or not."""
        found: Distances = self.points.distances_at(centers, self.trimmer.nearest_labels())
        return found

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of v D over what is kept, rounded once."""
        cost = self.trimmer.cost(centers)
        if cost is None:
            cost = float(self.points.total(self.kept() * self.distances(centers)))
        return cost

    def exact_cost(self, centers: Centers) -> Limbs:
        """Return the cost as a sum that can be added to those of other points."""
        labels = self.trimmer.nearest_labels()
        cost: Limbs = self.points.exact_cost_at(centers, labels, self.kept())
        return cost

    def _full(self) -> Masses:
        points = self.points
        return np.ones(points.n_points) if points.weights is None else points.weights

    def trimmed_mass(self) -> float:
        """Return the weight that is left out, the exact sum rounded once."""
        return float(self.points.total(self.left_out()))

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
        without = self.points.nearest(np.ascontiguousarray(centers[~gone]))[1]
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
        return np.arange(self.points.n_points), *self.points.second_nearest(centers)

    def put_away(self) -> None:
        """Let go of the rows and weights; labels, bounds and moments stay."""
        self.points.put_away()
        self.part_trimmer.put_away()

    def bring(self, X: NDArray[np.floating], weights: Masses | None) -> None:
        """Take the same rows and weights again, wherever they are now."""
        self.points.bring(X, weights)
        self.part_trimmer.bring(X)


def refuse(forced: Forced | None) -> None:
    """Refuse labels to be forced: which points would have to be trimmed for them is not known."""
    if forced is not None:
        raise ValueError("labels cannot be forced where points are trimmed")
