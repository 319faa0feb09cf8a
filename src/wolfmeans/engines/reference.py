"""The reference engine: NumPy, short and slow, the specification of all others.

`ReferencePoints` has labels, exact sums and the gap of each move over any distance kernels. Only
points that change their label touch the sums; sums are exact, so adding and subtracting never
drifts. Other engines are subclasses that override what they compute faster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.core.spherical import turn
from wolfmeans.core.threshold import Threshold, find_threshold
from wolfmeans.core.workspace import (
    Assignment,
    Centers,
    Distances,
    Forced,
    Labels,
    Partial,
    StepByStep,
    Turn,
)
from wolfmeans.engines.moments import Moments
from wolfmeans.engines.single_moves import PlainSingleMoves, SingleMoves
from wolfmeans.engines.swaps import PlainSwaps, Swaps
from wolfmeans.engines.trimming import PlainTrimmer, Trimmed, Trimmer
from wolfmeans.exact.distances import Kernels, ReferenceKernels, sparse_distance_error
from wolfmeans.exact.hashing import row_hashes
from wolfmeans.exact.limbs import Grids, Limbs, range_of
from wolfmeans.exact.native import digest
from wolfmeans.exact.ordering import lexicographic_order
from wolfmeans.exact.sums import exact_sum

if TYPE_CHECKING:
    from wolfmeans.engines.sampling import WholePart

_SMALL = 1 << 18
"""Coordinates of data that is small enough for one thread for each start."""


class ReferencePoints(StepByStep):
    """A workspace (see `core.workspace`) over the given kernels."""

    engine = "reference"
    in_parts = False
    sums_add_up = True
    """Whether sums can be added to those of other points (`assign_exactly`)."""
    can_detach_rows = False
    """Whether labels and bounds can be kept while the rows are detached."""
    _sparse = False
    steps_to_come = 0
    meanwhile: Callable[[], object] | None = None

    def __init__(self, X: Any, weights: NDArray[np.float64] | None, kernels: Kernels) -> None:
        self.n_points: int = X.shape[0]
        self.n_features: int = X.shape[1]
        self.dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
        self.weights = weights
        self._X, self._sparse = X, sparse.issparse(X)
        self._kernels = kernels
        self._labels: Labels | None = None
        self._moments: Moments | None = None
        self._order: NDArray[np.int64] | None = None
        self.grids: Grids | None = None

    @property
    def runs_together(self) -> bool:
        """Whether the data is so small that one thread for each start is faster."""
        return self.n_points * self.n_features <= _SMALL

    def fork(self, n_threads: int) -> ReferencePoints:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = ReferencePoints(self._X, self.weights, self._kernels)
        twin.engine = self.engine
        twin._order = self._order
        return twin

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""
        moved, terms, moments = self._relabel(centers, forced)
        gap = exact_sum(terms.tolist()) if len(terms) else 0.0
        return Assignment(moved, gap, *moments.means(centers))

    def _relabel(
        self, centers: Centers, forced: Forced | None
    ) -> tuple[int, NDArray[np.float64], Moments]:
        """Assign the points; return how many moved, the terms of the gap, and the moments."""
        labels, nearest = self._kernels.nearest(centers)
        if forced is not None:
            labels[forced.rows] = forced.labels
            nearest = self._kernels.distances(centers, labels)
        if self._labels is None or self._moments is None:
            self._moments = Moments(self._X, self.weights, len(centers))
            moved = np.arange(self.n_points)
            terms = np.zeros(0)
            self._moments.move(moved, None, labels)
        else:
            moved = np.flatnonzero(labels != self._labels)
            terms = self._terms_of_gap(moved, centers, nearest) if len(moved) else np.zeros(0)
            self._moments.move(moved, self._labels[moved], labels[moved])
        self._labels = labels
        return len(moved), terms, self._moments

    def ranges(self) -> Grids:
        """Return where exact sums over these points alone would stand."""
        values = self._X.data if sparse.issparse(self._X) else self._X
        return Grids(range_of(values), None if self.weights is None else range_of(self.weights))

    def summing_on(self, grids: Grids) -> ReferencePoints:
        """Set where exact sums stand, once, before the first assignment."""
        self.grids = grids
        return self

    def assign_exactly(self, centers: Centers, forced: Forced | None = None) -> Partial:
        """Assign the points; return sums that can be added to those of other points."""
        grids = self.agreed_grids()
        moved, terms, moments = self._relabel(centers, forced)
        totals, sums = moments.limbs(grids)
        return Partial(moved, Limbs.of_terms(terms), totals, sums)

    def agreed_grids(self) -> Grids:
        """Return where exact sums stand."""
        if self.grids is None:
            raise RuntimeError("sums that are to be added up need to know where they stand")
        return self.grids

    def adopt(self, labels: Labels, centers: Centers) -> None:
        """Take over labels that these centers gave the same points before."""
        self._labels = labels.copy()
        self._moments = Moments(self._X, self.weights, len(centers))
        self._moments.move(np.arange(self.n_points), None, self._labels)

    def exact_cost(self, centers: Centers) -> Limbs:
        """Return the cost as a sum that can be added to those of other points."""
        return self.exact_cost_at(centers, self._current(), self.weights)

    def exact_cost_at(
        self, centers: Centers, labels: Labels, masses: NDArray[np.float64] | None
    ) -> Limbs:
        """Return the exact sum of v D at any labels and masses, None for ones."""
        distances = self.distances_at(centers, labels)
        return self.exact_total(distances if masses is None else masses * distances)

    def distances_at(self, centers: Centers, labels: Labels) -> Distances:
        """Return each point's canonical distance to the center of any label."""
        return self._kernels.distances(centers, labels)

    def kernels_of(self, rows: NDArray[np.int64]) -> Kernels:
        """Return the distance kernels of some rows."""
        return self._kernels.of(rows)

    def second_nearest(self, centers: Centers) -> tuple[Distances, Distances]:
        """Return the smallest and the second smallest canonical distance of each point."""
        return self._kernels.second_nearest(centers)

    @property
    def host_rows(self) -> Any:
        """The rows on the host."""
        return self._X

    def trimmed(self, mass: float) -> Trimmed:
        """Return the oracle that keeps the nearest points of a mass (core.threshold)."""
        return Trimmed(self.fork_for_trimming(), mass)

    def fork_for_trimming(self) -> ReferencePoints:
        """Return the points that the trimmed oracle works on: they share the data."""
        return self

    def trimmer(self, mass: float) -> Trimmer:
        """Return what keeps the nearest points of a mass, where the points are."""
        return PlainTrimmer(self, mass)

    def find_threshold(self, distances: Distances, mass: float) -> Threshold:
        """Return the last point that a mass keeps when the points are this far away."""
        return find_threshold(distances, self.weights, mass)

    def exact_total(self, values: NDArray[np.float64]) -> Limbs:
        """Return the exact sum of an array, not rounded."""
        return Limbs.of_terms(values.ravel())

    def _terms_of_gap(
        self, moved: NDArray[np.int64], centers: Centers, nearest: Distances
    ) -> Distances:
        old = self._kernels.distances(centers, self._current())[moved]
        terms = old - nearest[moved]
        if self.weights is not None:
            terms = self.weights[moved] * terms
        return terms

    def _current(self) -> Labels:
        if self._labels is None:
            raise RuntimeError("points have no labels before the first assignment")
        return self._labels

    def labels(self) -> Labels:
        """Return the current labels (a copy)."""
        return self._current().copy()

    def snapshot(self) -> Any:
        """Return the same: they are on the host."""
        return self.labels()

    def distances(self, centers: Centers) -> Distances:
        """Return each point's canonical distance to the center of its label."""
        return self._kernels.distances(centers, self._current())

    def distances_to(self, center: Centers) -> Distances:
        """Return each point's canonical distance to one (d,) center."""
        centers = np.ascontiguousarray(center, dtype=self.dtype).reshape(1, -1)
        return self._kernels.distances(centers, np.zeros(self.n_points, dtype=np.int32))

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return nearest labels and canonical distances without changing the state."""
        return self._kernels.nearest(centers)

    def near_ties(
        self, centers: Centers, slack: float
    ) -> tuple[NDArray[np.int64], Distances, Distances]:
        """Return all rows with their distances to the nearest and second nearest center."""
        return np.arange(self.n_points), *self._kernels.second_nearest(centers)

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) square roots of the canonical distances to all centers."""
        return self._kernels.roots(centers)

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return data rows, dense, in the centers' dtype."""
        chosen = self._X[indices]
        dense = chosen.toarray() if sparse.issparse(chosen) else chosen
        return np.ascontiguousarray(dense, dtype=self.dtype)

    def stored_rows(self, indices: NDArray[np.int64]) -> Any:
        """Return data rows in the centers' dtype, dense or CSR as they are stored."""
        if not sparse.issparse(self._X):
            return self.rows(indices)
        return sparse.csr_array(self._X[indices].astype(self.dtype, copy=False))

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of w D over the points at their labels, rounded once."""
        distances = self.distances(centers)
        return self.total(distances if self.weights is None else self.weights * distances)

    def total(self, values: NDArray[np.float64]) -> float:
        """Return the exact sum of an array, rounded once."""
        return exact_sum(values.ravel().tolist())

    def mean(self, *, weighted: bool) -> Centers:
        """Return the (d,) mean of all points, rounded as a center."""
        moments = Moments(self._X, self.weights if weighted else None, 1)
        moments.move(np.arange(self.n_points), None, np.zeros(self.n_points, dtype=np.int32))
        mean: Centers = moments.means(np.zeros((1, self.n_features), dtype=self.dtype))[1][0]
        return mean

    def scatter(self, *, weighted: bool) -> float:
        """Return the sum of squares about the mean, with the points' weights or without them."""
        weights = self.weights if weighted else None
        distances = self.distances_to(self.mean(weighted=weights is not None))
        return self.total(distances if weights is None else weights * distances)

    def lightest(self) -> float:
        """Return the smallest positive weight; 1 where points have none."""
        return 1.0 if self.weights is None else float(self.weights[self.weights > 0].min())

    def order(self) -> NDArray[np.int64]:
        """Return the rows in an order that depends on their values alone."""
        if self._order is None:
            self._order = lexicographic_order(self._X)
        return self._order

    def spread_rows(self, drawn: NDArray[np.int64], n_trials: int) -> NDArray[np.int64] | None:
        """Leave k-means++ to its specification, which needs nothing but distances."""
        return None

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row, equal for equal values."""
        return row_hashes(self._X)

    def sampling(self) -> WholePart | None:
        """Leave k-means|| to a part on the host, which needs hashes and nearest candidates."""
        return None

    def losses_without(self, centers: Centers, gone: NDArray[np.bool_]) -> Distances:
        """Return what points lose whose center is gone, w times the farther way to another one.

        The labels are nearest centers, so all other points stay where they are.
        """
        rows = self._labelled(gone)
        if len(rows) == 0:
            return np.zeros(0)
        kernels = self._kernels.of(rows)
        near = kernels.nearest(centers)[1]
        losses = kernels.nearest(np.ascontiguousarray(centers[~gone]))[1] - near
        return losses if self.weights is None else self.weights[rows] * losses

    def _labelled(self, clusters: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the rows whose label is among those clusters."""
        return np.flatnonzero(clusters[self._current()])

    def best_candidate(
        self, centers: Centers, masses: Distances | None, most: int
    ) -> tuple[int, float] | None:
        """Return None: the caller computes it from distances."""
        return None

    def far_rows(
        self, centers: Centers, many: int, masses: Distances | None
    ) -> tuple[NDArray[np.int64], Distances, float] | None:
        """Return None: the caller computes it from distances."""
        return None

    def distance_error(self, centers: Centers) -> float:
        """Return what a canonical distance may be off by beyond (d + 3) u of itself."""
        return sparse_distance_error(centers) if self._sparse else 0.0

    def step(self, found: Assignment, centers: Centers) -> tuple[float, float]:
        """Return the shift and the movement of a step from the centers to the means found."""
        return specified_step(found, centers, self.total)

    def turn(self, found: Assignment, centers: Centers) -> Turn:
        """Return the step of unit centers to the directions of the means found."""
        return turn(found, centers)

    def digest(self, centers: Centers) -> bytes:
        """Return 16 bytes that stand for the centers."""
        return digest(centers)

    def largest(self) -> float:
        """Return the largest absolute value in the data."""
        values = self._X.data if sparse.issparse(self._X) else self._X
        return float(np.abs(values).max(initial=0.0))

    def single_moves(self, centers: Centers, labels: Labels | None = None) -> SingleMoves:
        """Return a search by single moves from the given labels, or from the current ones."""
        labels = self.labels() if labels is None else labels
        moments = Moments(self._X, self.weights, len(centers))
        moments.move(np.arange(self.n_points), None, labels)

        def dense(row: int) -> Centers:
            chosen: Centers = self.rows(np.array([row]))[0]
            return chosen

        error = self.distance_error(centers)
        return PlainSingleMoves(labels, centers, self.weights, moments, self._kernels, dense, error)

    def swaps(self) -> Swaps:
        """Return what tells the cost of exchanging a center for a data point."""

        def two_nearest(centers: Centers) -> tuple[Labels, Distances, Distances]:
            return self._kernels.nearest(centers)[0], *self._kernels.second_nearest(centers)

        def distances_to_row(row: int) -> Distances:
            return self.distances_to(self.rows(np.array([row]))[0])

        return PlainSwaps(self.weights, two_nearest, distances_to_row)


def specified_step(
    found: Assignment, centers: Centers, total: Callable[[NDArray[np.float64]], float]
) -> tuple[float, float]:
    """Return the shift and the movement by their definition; `total` makes exact sums.

    The shift is the sum of (c' - c)^2 over the clusters with weight. The movement sums
    W (c' - c)(2 mean - c - c') with mean = c' + residual; a term is not negative because c' is
    the representable number nearest to the mean, but for a mean that float64 had to round.
    """
    moves = found.means.astype(np.float64) - centers
    moves[found.weights == 0] = 0.0
    gains = found.weights[:, None] * np.maximum(moves * (moves + 2.0 * found.residuals), 0.0)
    return total(moves * moves), total(gains)


def on_host_sums(
    X: Any, weights: NDArray[np.float64] | None, kernels: Kernels, engine: str = "gpu"
) -> ReferencePoints:
    """Return points whose distances come from a device, and whose exact sums are on the host."""
    points = ReferencePoints(X, weights, kernels)
    points.engine = engine
    return points


class ReferenceEngine:
    """NumPy in float64: the specification that other engines are compared with by `==`."""

    name = "reference"

    def open(
        self,
        X: Any,
        weights: NDArray[np.float64] | None,
        n_threads: int,
        algorithm: str = "auto",
    ) -> ReferencePoints:
        """Open dense or CSR data; threads and algorithm are of no use here."""
        return ReferencePoints(X, weights, ReferenceKernels(X))
