"""The trimmed oracle over the points of a workspace: it keeps the nearest points of a mass.

`core.threshold` is the specification. A *trimmer* does the work where the points are: it finds the
nearest centers, the threshold, and the exact sums of the kept points. There is one over any
distance kernels (here), one in native code and one on the GPU. `Trimmed` is the oracle: a workspace
like the one it is made of, whose `assign` keeps a mass. `TrimmedParts` (engines.places) is the
oracle over points in parts.
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
    from wolfmeans.engines.reference import ReferencePoints


class Trimmer(Protocol):
    """Finds the kept points and their exact sums, where the points are."""

    def assign(self, centers: Centers) -> Assignment:
        """Keep the nearest points of the mass, each with the label of its nearest center."""

    def find_threshold(self, distances: Distances) -> Threshold:
        """Return the last point that is kept when the points are this far away."""

    def nearest_labels(self) -> Labels:
        """Return the nearest center of every point, kept or not."""

    def labels(self) -> Labels:
        """Return the current labels, -1 for trimmed points."""

    def snapshot(self) -> Any:
        """Return the labels where they are: an array, or an object that becomes one."""

    def kept(self) -> Masses:
        """Return the kept mass of each point."""

    def threshold(self) -> Threshold:
        """Return the last point that is kept."""

    def cost(self, centers: Centers) -> float | None:
        """Return the exact sum of v D over the kept masses; None if the oracle is to sum."""


class PartTrimmer(Trimmer, Protocol):
    """A trimmer of points that are a part of others: the threshold is found over all parts."""

    def find_nearest(self, centers: Centers) -> None:
        """Find the nearest centers, and keep the labels: the first half of an assignment."""

    def nearest_distances(self) -> Distances:
        """Return the distances to the nearest of these centers."""

    def keep(self, centers: Centers, threshold: Threshold) -> Partial:
        """Keep the points up to a threshold, at the same centers; return sums that add up."""

    def detach_rows(self) -> None:
        """Release the rows; keep labels, bounds and moments."""

    def attach_rows(self) -> None:
        """Use the rows of the points again, perhaps at another address."""


@dataclass(frozen=True)
class Vertex:
    """A trimmed partition: nearest centers, kept masses, and the threshold."""

    nearest_labels: Labels
    inside: NDArray[np.bool_]
    kept: Masses
    threshold: Threshold

    def labels(self) -> Labels:
        """Return the labels, -1 for points outside."""
        return np.where(self.inside, self.nearest_labels, np.int32(-1)).astype(np.int32)


class PlainTrimmer:
    """A trimmer over any distance kernels: the specification."""

    def __init__(self, points: ReferencePoints, mass: float) -> None:
        self._points, self._mass = points, mass
        self._vertex: Vertex | None = None
        self._nearest: tuple[Labels, Distances] | None = None
        self._moments: Moments | None = None

    def assign(self, centers: Centers) -> Assignment:
        """Keep the nearest points of the mass, each with the label of its nearest center.

        The gap is the sum of v (D - tau) before less that after, tau the new threshold: the masses
        are the same, so subtracting tau changes nothing, but makes every term at least 0.
        """
        self.find_nearest(centers)
        threshold = self.find_threshold(self.nearest_distances())
        moved, terms, moments = self._keep_up_to(threshold, centers)
        return Assignment(moved, exact_sum(terms.tolist()), *moments.means(centers))

    def find_threshold(self, distances: Distances) -> Threshold:
        """Return the last point that is kept when the points are this far away."""
        return self._points.find_threshold(distances, self._mass)

    def find_nearest(self, centers: Centers) -> None:
        """Find the nearest centers."""
        self._nearest = self._points.nearest(centers)

    def nearest_distances(self) -> Distances:
        """Return the distances to the nearest of these centers."""
        assert self._nearest is not None
        return self._nearest[1]

    def keep(self, centers: Centers, threshold: Threshold) -> Partial:
        """Keep the points up to a threshold, at the same centers; return sums that add up."""
        grids = self._points.agreed_grids()
        moved, terms, moments = self._keep_up_to(threshold, centers)
        totals, sums = moments.limbs(grids)
        return Partial(moved, Limbs.of_terms(terms), totals, sums)

    def _keep_up_to(self, threshold: Threshold, centers: Centers) -> tuple[int, Distances, Moments]:
        """Return how many points moved, the terms of the gap, and the moments."""
        assert self._nearest is not None
        points, (labels, nearest) = self._points, self._nearest
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
            before = points.distances_at(centers, old.nearest_labels)[rows]
            terms = gap_terms(
                old.kept[rows], new.kept[rows], before, nearest[rows], threshold.distance
            )
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

    def _at(self) -> Vertex:
        if self._vertex is None:
            raise RuntimeError("points have no labels before the first assignment")
        return self._vertex

    def nearest_labels(self) -> Labels:
        """Return the nearest center of every point, kept or not."""
        return self._at().nearest_labels

    def labels(self) -> Labels:
        """Return the current labels, -1 for trimmed points."""
        return self._at().labels()

    def snapshot(self) -> Any:
        """Return the labels, which are on the host."""
        return self.labels()

    def kept(self) -> Masses:
        """Return the kept mass of each point."""
        return self._at().kept.copy()

    def threshold(self) -> Threshold:
        """Return the last point that is kept."""
        return self._at().threshold

    def cost(self, centers: Centers) -> float | None:
        """Return None: the oracle sums."""
        return None


class TrimmedOracle(StepByStep):
    """A workspace whose `assign` keeps the nearest points of a mass.

    Labels are -1 for points of which nothing is kept, `cost` is the sum over the kept masses. All
    that does not depend on labels comes from the points themselves.

    Parameters
    ----------
    points : workspace
        The points; another oracle must not use them meanwhile.
    mass : float
        The weight to keep: a multiple of 2**unit; infinite to keep all.
    unit : int
        The largest e for which all weights are multiples of 2**e.
    """

    def __init__(self, points: Any, mass: float, unit: int) -> None:
        if not mass > 0:
            raise ValueError(f"the mass to keep must be positive; got {mass}")
        if math.isfinite(mass) and not math.ldexp(mass, -unit).is_integer():
            raise ValueError(f"the mass to keep must be a multiple of 2**{unit}; got {mass}")
        self.points, self.mass, self._unit = points, mass, unit

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "points":
            raise AttributeError(name)
        return getattr(self.points, name)

    def smallest_mass(self) -> float:
        """Return a positive number that no positive kept mass is below."""
        if math.isinf(self.mass):
            return float(self.points.lightest())
        return math.ldexp(1.0, self._unit)

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Keep the nearest points, each with the label of its nearest center."""
        if forced is not None:
            # It is not known which points would have to be trimmed for them.
            raise ValueError("labels cannot be forced where points are trimmed")
        return self._keep_nearest(centers)

    def _keep_nearest(self, centers: Centers) -> Assignment:
        raise NotImplementedError


class Trimmed(TrimmedOracle):
    """The oracle over points in memory or on a device (`ReferencePoints`)."""

    def __init__(self, points: Any, mass: float) -> None:
        super().__init__(points, mass, 0 if math.isinf(mass) else unit_exponent(points.weights))
        self.trimmer: Trimmer = points.trimmer(mass)

    @property
    def part_trimmer(self) -> PartTrimmer:
        """The trimmer, for points that are a part of others."""
        return cast("PartTrimmer", self.trimmer)

    def fork(self, n_threads: int) -> Self:
        """Return the oracle over the same points, without labels."""
        return type(self)(self.points.fork(n_threads), self.mass)

    def summing_on(self, grids: Grids) -> Self:
        """Set where exact sums stand, once, before the first assignment."""
        self.points = self.points.summing_on(grids)
        self.trimmer = self.points.trimmer(self.mass)
        return self

    def _keep_nearest(self, centers: Centers) -> Assignment:
        return self.trimmer.assign(centers)

    def keep(self, distances: Distances) -> Masses:
        """Return the masses that would be kept if the points were this far away."""
        threshold = self.trimmer.find_threshold(distances)
        return kept_masses(threshold, distances, self.points.weights)

    def labels(self) -> Labels:
        """Return the current labels, -1 for trimmed points."""
        return self.trimmer.labels()

    def snapshot(self) -> Any:
        """Return the labels where they are (`Trimmer.snapshot`)."""
        return self.trimmer.snapshot()

    def kept(self) -> Masses:
        """Return the kept mass of each point."""
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
        """Return the exact sum of v D over the kept masses, rounded once."""
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
        """Return the trimmed weight, the exact sum rounded once."""
        return float(self.points.total(self._trimmed_terms()))

    def exact_trimmed_mass(self) -> Limbs:
        """Return the trimmed weight as a sum that can be added to those of other points."""
        mass: Limbs = self.points.exact_total(self._trimmed_terms())
        return mass

    def _trimmed_terms(self) -> Masses:
        """Return terms that add up to the trimmed weight."""
        whole, kept = self._full(), self.kept()
        partial = whole != kept
        return np.concatenate([whole[partial], -kept[partial]])

    def n_trimmed(self) -> int:
        """Return how many points of positive weight are trimmed entirely."""
        return int(np.count_nonzero((self.labels() < 0) & (self._full() > 0)))

    def shares(self) -> Masses:
        """Return the kept share of each point, 1 or 0 for points without weight."""
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

        The last point itself is neither; without such a point it is infinite.
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
        """Return a gap less the loss if some centers were not there, rounded once.

        Without them other points may be kept, so both sums are computed again.
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

    def detach_rows(self) -> None:
        """Release the rows and weights; keep labels, bounds and moments."""
        self.points.detach_rows()
        self.part_trimmer.detach_rows()

    def attach_rows(self, X: NDArray[np.floating], weights: Masses | None) -> None:
        """Use the same rows and weights again, perhaps at another address."""
        self.points.attach_rows(X, weights)
        self.part_trimmer.attach_rows()
