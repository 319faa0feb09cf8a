"""The oracle under size limits: a workspace whose `assign` keeps the sizes of clusters in limits.

`core.transport` is the specification of an assignment. A *sizer* assigns points from step to step:
it begins at the prices of the step before, and keeps exact sums of the clusters. If the limits
matter and the cheapest assignment costs no less than the present one, the present one stays: it is
as good, and a step then always lowers the cost. There is a sizer over any distance kernels (here)
and one in native code (native/descent).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.core.transport import Plan, SizeLimits, cheapest, two_parts, whole_masses
from wolfmeans.core.workspace import Assignment, Centers, Distances, Forced, Labels, StepByStep
from wolfmeans.engines.moments import Moments
from wolfmeans.engines.native import NativePoints
from wolfmeans.exact.distances import lost_in_sum
from wolfmeans.exact.limbs import Grids, Range, range_of
from wolfmeans.exact.native import _native, aligned
from wolfmeans.exact.sums import exact_products, exact_sum


class Part(NamedTuple):
    """A part of a split point: its mass in one cluster is high + low."""

    row: int
    cluster: int
    high: float
    low: float


@dataclass(frozen=True)
class Optimality:
    """What proves an assignment at given centers."""

    gap: float
    """The duality gap: what any other assignment within the limits can cost less, at most."""
    moves: Distances
    """(K, K) the least change of distance when a point moves from one cluster to another."""
    farthest: float
    """The largest distance of a point from any center."""


class Sizer(Protocol):
    """Assigns points within limits, where the points are, and sums them up exactly."""

    def assign(self, centers: Centers) -> Assignment:
        """Assign the points at the least cost."""

    def labels(self) -> Labels:
        """Return the cluster of each point; of a split one that with the largest share."""

    def splits(self) -> list[Part]:
        """Return the parts of split points, by row and cluster."""

    def prices(self) -> Distances:
        """Return the (K,) prices of the last assignment."""


class PlainSizer:
    """A sizer over any distance kernels: the specification."""

    def __init__(self, points: Any, limits: SizeLimits) -> None:
        self._points, self._limits = points, limits
        self._masses = whole_masses(points.weights, limits.unit)
        self._plan: Plan | None = None
        self._prices: Distances | None = None
        self._moments: Moments | None = None

    def assign(self, centers: Centers) -> Assignment:
        """Assign the points at the least cost."""
        costs = np.stack([self._points.distances_to(center) for center in centers], axis=1)
        new = cheapest(costs, self._masses, self._limits, self._prices)
        self._prices = new.prices
        if self._plan is None or self._moments is None:
            grids = grids_of(self._points, self._limits)
            self._moments = Moments(
                self._points.host_rows, self._points.weights, len(centers), grids
            )
            self._put(new, np.arange(len(costs)), subtract=False)
            self._plan = new
            return Assignment(len(costs), 0.0, *self._moments.means(centers))
        rows = self._changed(self._plan, new)
        gap = exact_sum(self._terms(rows, new, costs))
        if new.binding and not gap > 0:
            return Assignment(0, 0.0, *self._moments.means(centers))
        self._put(self._plan, rows, subtract=True)
        self._put(new, rows, subtract=False)
        self._plan = new
        return Assignment(len(rows), gap, *self._moments.means(centers))

    def _changed(self, old: Plan, new: Plan) -> NDArray[np.int64]:
        """Return the rows whose label or split changes."""
        changed = old.labels != new.labels
        for row in old.splits.keys() | new.splits.keys():
            changed[row] = old.splits.get(row) != new.splits.get(row)
        return np.flatnonzero(changed)

    def _terms(self, rows: NDArray[np.int64], new: Plan, costs: Distances) -> list[float]:
        """Return the terms of the gap: w (D_old - D_new), and of split points part by part."""
        assert self._plan is not None
        old, weights = self._plan, self._points.weights
        split = np.isin(rows, [*old.splits, *new.splits])
        plain = rows[~split]
        terms = costs[plain, old.labels[plain]] - costs[plain, new.labels[plain]]
        found: list[float] = (terms if weights is None else weights[plain] * terms).tolist()
        for row in rows[split].tolist():
            for plan, sign in ((old, 1.0), (new, -1.0)):
                for _, k, high, low in self._parts(plan, row):
                    cost = float(costs[row, k])
                    found += [sign * (high * cost), sign * (low * cost)]
        return found

    def _parts(self, plan: Plan, row: int) -> list[Part]:
        split = plan.splits.get(row)
        if split is None:
            return [Part(row, int(plan.labels[row]), float(self._points.weights[row]), 0.0)]
        return [Part(row, k, *two_parts(split[k], self._limits.unit)) for k in sorted(split)]

    def _put(self, plan: Plan, rows: NDArray[np.int64], *, subtract: bool) -> None:
        assert self._moments is not None
        weights = self._points.weights
        plain = rows[~np.isin(rows, list(plan.splits))]
        masses = None if weights is None else weights[plain]
        self._moments.deposit(plain, plan.labels[plain], masses, subtract=subtract)
        for row in sorted(set(rows.tolist()) & plan.splits.keys()):
            for _, k, *parts in self._parts(plan, row):
                for mass in parts:
                    self._moments.deposit(
                        np.array([row]), np.array([k]), np.array([mass]), subtract=subtract
                    )

    def _at(self) -> Plan:
        if self._plan is None:
            raise RuntimeError("points have no labels before the first assignment")
        return self._plan

    def labels(self) -> Labels:
        """Return the cluster of each point; of a split one that with the largest share."""
        return self._at().labels.copy()

    def splits(self) -> list[Part]:
        """Return the parts of split points, by row and cluster."""
        plan = self._at()
        return [part for row in sorted(plan.splits) for part in self._parts(plan, row)]

    def prices(self) -> Distances:
        """Return the (K,) prices of the last assignment."""
        assert self._prices is not None
        return self._prices.copy()


class NativeSizer:
    """A sizer in native code, for dense rows (native/descent/sized_points.hpp)."""

    def __init__(self, points: NativePoints, limits: SizeLimits) -> None:
        self._n = points.n_points
        single = points.dtype == np.float32
        grids = grids_of(points, limits)
        # No limit is written as a power of two beyond the total: the total may have many digits.
        beyond = math.ldexp(1.0, limits.total.bit_length() + limits.unit)
        upper = [
            beyond if high >= limits.total else math.ldexp(high, limits.unit)
            for high in limits.upper
        ]
        self._state = (_native.SizedPointsF32 if single else _native.SizedPointsF64)(
            points.host_rows,
            points.weights,
            limits.unit,
            np.array([math.ldexp(low, limits.unit) for low in limits.lower]),
            np.array(upper),
            points.n_threads,
            None if grids is None else grids.exponents(),
        )

    def assign(self, centers: Centers) -> Assignment:
        """Assign the points at the least cost."""
        centers = aligned(centers)
        weights, means = np.empty(len(centers)), np.empty_like(centers)
        residuals = np.empty(centers.shape)
        moved, gap = self._state.assign(centers, weights, means, residuals)
        return Assignment(moved, gap, weights, means, residuals)

    def labels(self) -> Labels:
        """Return the cluster of each point; of a split one that with the largest share."""
        labels: Labels = np.empty(self._n, dtype=np.int32)
        self._state.labels(labels)
        return labels

    def splits(self) -> list[Part]:
        """Return the parts of split points, by row and cluster."""
        return [Part(*part) for part in self._state.splits()]

    def prices(self) -> Distances:
        """Return the (K,) prices of the last assignment."""
        prices: Distances = self._state.prices()
        return prices


def grids_of(points: Any, limits: SizeLimits) -> Grids | None:
    """Return where exact sums of split points stand; None where none is split."""
    if points.weights is None:
        return None
    rows = points.host_rows
    if sparse.issparse(rows):
        own = Grids(range_of(rows.data), range_of(points.weights))
    else:
        own = points.ranges()
    assert own.weights is not None
    return Grids(own.rows, Range(min(own.weights.low, limits.unit), own.weights.high))


class SizeLimited(StepByStep):
    """A workspace whose `assign` keeps the sizes of clusters within limits.

    Parameters
    ----------
    points : workspace
        The points, in memory.
    limits : SizeLimits
        Limits that some assignment meets.
    """

    def __init__(self, points: Any, limits: SizeLimits) -> None:
        self.points, self.size_limits = points, limits
        native = isinstance(points, NativePoints) and not sparse.issparse(points.host_rows)
        self._optimality: tuple[bytes, Optimality] | None = None
        self.sizer: Sizer = (NativeSizer if native else PlainSizer)(points, limits)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "points":
            raise AttributeError(name)
        return getattr(self.points, name)

    def fork(self, n_threads: int) -> Self:
        """Return the oracle over the same points, without labels."""
        return type(self)(self.points.fork(n_threads), self.size_limits)

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Assign the points at the least cost within the limits."""
        if forced is not None:
            raise ValueError("labels cannot be forced where sizes are limited")
        self._optimality = None
        return self.sizer.assign(centers)

    def labels(self) -> Labels:
        """Return the cluster of each point; of a split one that with the largest share."""
        return self.sizer.labels()

    def snapshot(self) -> Any:
        """Return the same: they are on the host."""
        return self.labels()

    def splits(self) -> list[Part]:
        """Return the parts of split points, by row and cluster."""
        return self.sizer.splits()

    def prices(self) -> Distances:
        """Return the (K,) prices of the last assignment."""
        return self.sizer.prices()

    def distances(self, centers: Centers) -> Distances:
        """Return each point's canonical distance to the center of its label."""
        found: Distances = self.points.distances_at(centers, self.labels())
        return found

    def cost_terms(self, centers: Centers) -> Distances:
        """Return terms that add up to the cost: w D, and of split points part by part."""
        weights, parts = self.points.weights, self.splits()
        return cost_terms(self.points, weights, self.labels(), parts, centers)

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of the cost's terms, rounded once."""
        return float(self.points.total(self.cost_terms(centers)))

    def gap_without(self, gap: float, centers: Centers, gone: NDArray[np.bool_]) -> float:
        """Return a gap less the loss if some clusters, empty so far, were not there."""
        limits, kept = self.size_limits, np.flatnonzero(~gone).tolist()
        rest = SizeLimits(
            tuple(limits.lower[k] for k in kept),
            tuple(limits.upper[k] for k in kept),
            limits.total,
            limits.unit,
        )
        others = np.ascontiguousarray(centers[~gone])
        without = SizeLimited(self.points, rest)
        without.assign(others)
        terms = np.concatenate([[gap], self.cost_terms(centers), -without.cost_terms(others)])
        return float(self.points.total(terms))

    def optimality(self, centers: Centers) -> Optimality:
        """Recompute in exact arithmetic how much cheaper another assignment could be.

        The duality gap (core.transport) is an exact sum, rounded once.
        """
        if self._optimality is not None and self._optimality[0] == self.points.digest(centers):
            return self._optimality[1]
        labels, prices, weights = self.labels(), self.prices(), self.points.weights
        own = self.distances(centers)
        heavy = np.arange(len(own)) if weights is None else np.flatnonzero(weights > 0)
        order = heavy[np.argsort(labels[heavy], kind="stable")]
        present, starts = np.unique(labels[order], return_index=True)
        moves = np.full((len(centers), len(centers)), np.inf)
        # Few points are as cheap elsewhere as where they are: only for these is the rounding of
        # another sum of distance and price needed.
        paid = prices[labels]
        least, farthest = own + paid, 0.0
        rest = lost_in_sum(own, paid, least)
        sorted_own = own[order]
        for k, price in enumerate(prices.tolist()):
            column = self.points.distances_to(centers[k])
            sorted_column = column[order]
            farthest = max(farthest, float(sorted_column.max()))
            moves[present, k] = np.minimum.reduceat(sorted_column - sorted_own, starts)
            total = column + price
            rows = np.flatnonzero((total <= least) & (labels != k))
            if len(rows) == 0:
                continue
            some = total[rows]
            lost = lost_in_sum(column[rows], np.full(len(rows), price), some)
            lower = (some < least[rows]) | (lost < rest[rows])
            least[rows[lower]], rest[rows[lower]] = some[lower], lost[lower]
        gap = self._duality_gap(prices, least, rest, centers)
        self._optimality = (self.points.digest(centers), Optimality(gap, moves, farthest))
        return self._optimality[1]

    def _duality_gap(
        self, prices: Distances, least: Distances, rest: Distances, centers: Centers
    ) -> float:
        """Return the cost less the dual value; each point pays least + rest at these prices."""
        weights, parts, limits = self.points.weights, self.splits(), self.size_limits
        own = self.distances(centers)
        whole = np.ones(len(own)) if weights is None else weights.copy()
        masses, values = [whole, whole], [-least, -rest]
        unsplit = whole.copy()
        if parts:
            unsplit[[part.row for part in parts]] = 0.0
            costs = _costs_of(self.points, parts, centers)
            masses += [np.array([part.high for part in parts]), np.array([p.low for p in parts])]
            values += [costs, costs]
        bounds = [
            two_parts(high if price > 0 else low, limits.unit)
            for low, high, price in zip(limits.lower, limits.upper, prices.tolist(), strict=True)
        ]
        masses.append(unsplit)
        values.append(own)
        terms = _products([np.array(bounds).T.ravel()], [np.tile(prices, 2)])
        # Without weights every mass of a point is 1.
        terms += values if weights is None else _products(masses, values)
        return float(self.points.total(np.concatenate(terms)))


def cost_terms(
    points: Any, weights: Distances | None, labels: Labels, parts: list[Part], centers: Centers
) -> Distances:
    """Return terms that add up to the cost of an assignment: w D, and split points by parts."""
    terms: Distances = points.distances_at(centers, labels)
    if weights is not None:
        terms = weights * terms
    if not parts:
        return terms
    terms[[part.row for part in parts]] = 0.0
    masses = np.array([[part.high, part.low] for part in parts])
    costs = _costs_of(points, parts, centers)
    return np.concatenate([terms, (masses * costs[:, None]).ravel()])


def _costs_of(points: Any, parts: list[Part], centers: Centers) -> Distances:
    """Return the distance of each part to the center of its cluster."""
    rows = points.kernels_of(np.array([part.row for part in parts]))
    clusters = np.array([part.cluster for part in parts], dtype=np.int32)
    costs: Distances = rows.distances(centers, clusters)
    return costs


def _products(masses: list[Distances], values: list[Distances]) -> list[Distances]:
    """Return terms that add up to all products, exactly."""
    products = exact_products(np.concatenate(masses), np.concatenate(values))
    return [np.ldexp(m.astype(np.float64), e) for m, e in products]
