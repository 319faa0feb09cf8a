"""Driver of the native kernels: canonical distances in C++, on all cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.core.threshold import Masses, Threshold
from wolfmeans.core.workspace import (
    Assignment,
    Centers,
    Distances,
    Forced,
    Labels,
    Limits,
    Partial,
    Progress,
    Workspace,
)
from wolfmeans.engines import arithmetic
from wolfmeans.engines.reference import ReferencePoints
from wolfmeans.engines.single_moves import SingleMoves
from wolfmeans.engines.swaps import Swaps
from wolfmeans.engines.trimming import Trimmer
from wolfmeans.exact.distances import ReferenceKernels
from wolfmeans.exact.limbs import SCALAR, Grid, Grids, Limbs
from wolfmeans.exact.native import (
    NativeKernels,
    SparseNativeKernels,
    _native,
    aligned,
    native_is_available,
)

_MOST_COLUMNS = np.iinfo(np.int32).max
# Rows taken one by one; SciPy's own way costs as much as some dozen of them before it starts.
_FEW_ROWS = 32


def can_be_native(X: Any) -> bool:
    """Whether native code serves this CSR matrix: no column twice in a row, not too many."""
    return bool(X.has_canonical_format) and X.shape[1] <= _MOST_COLUMNS


class NativePoints(ReferencePoints):
    """Labels, bounds and exact moments in native code: CSR rows, and what dense ones share."""

    engine = "cpu"
    sums_add_up = False
    _kernels: Any

    def __init__(
        self,
        X: Any,
        weights: NDArray[np.float64] | None,
        n_threads: int,
        algorithm: str,
        kernels: Any = None,
    ) -> None:
        super().__init__(X, weights, kernels or SparseNativeKernels(X, n_threads))
        self.n_threads, self._algorithm = n_threads, algorithm
        self._points: Any = None

    def fork(self, n_threads: int) -> NativePoints:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = NativePoints(self._X, self.weights, n_threads, self._algorithm, self._kernels)
        twin._order = self._order
        return twin

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""
        moved, gap, weights, means, residuals, _, _ = self._assigned(centers, forced)
        return Assignment(moved, gap, weights, means, residuals)

    def _assigned(self, centers: Centers, forced: Forced | None) -> tuple[Any, ...]:
        rows, labels = _arrays_of(forced)
        with_bounds = self._algorithm != "dense"
        found: tuple[Any, ...] = self._begun().assign(aligned(centers), with_bounds, rows, labels)
        return found

    def _begun(self) -> Any:
        if self._points is None:
            self._points = self._open(self.weights)
        return self._points

    def _open(self, weights: NDArray[np.float64] | None) -> Any:
        single = self.dtype == np.float32
        kind = _native.SparsePointsF32 if single else _native.SparsePointsF64
        return kind(self._kernels.rows, weights, self.n_threads)

    def _current(self) -> Labels:
        if self._points is None:
            raise RuntimeError("points have no labels before the first assignment")
        labels: Labels = self._points.labels()
        return labels

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return data rows, dense, in the centers' dtype."""
        if len(indices) > _FEW_ROWS:
            return super().rows(indices)
        dense = np.zeros((len(indices), self.n_features), dtype=self.dtype)
        for place, row in enumerate(indices.tolist()):
            entries = slice(self._X.indptr[row], self._X.indptr[row + 1])
            dense[place, self._X.indices[entries]] = self._X.data[entries]
        return dense

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row, equal for equal values."""
        hashes = np.empty(self.n_points, dtype=np.uint64)
        self._kernels.rows.hashes(hashes, self.n_threads)
        return hashes

    def mean(self, *, weighted: bool) -> Centers:
        """Return the (d,) mean of all points, rounded as a center."""
        zero = np.zeros((1, self.n_features), dtype=self.dtype)
        twin = self.fork(self.n_threads)
        if not weighted:
            twin.weights = None
        mean: Centers = twin.assign(zero).means[0]
        return mean

    def total(self, values: NDArray[np.float64]) -> float:
        """Return the exact sum of an array, rounded once."""
        return arithmetic.total(values, self.n_threads)

    def step(self, found: Assignment, centers: Centers) -> tuple[float, float]:
        """Return the shift and the movement of a step from the centers to the means found."""
        return arithmetic.step(found, centers, self.n_threads)

    def exact_total(self, values: NDArray[np.float64]) -> Limbs:
        """Return the exact sum of an array, not rounded."""
        return arithmetic.exact_total(values)

    def find_threshold(self, distances: Distances, mass: float) -> Threshold:
        """Return the last point that a mass keeps when the points are this far away."""
        return Threshold(*_native.find_threshold(aligned(distances), self.weights, mass))


class DensePoints(NativePoints):
    """Dense rows: also steps, draws and searches in native code."""

    can_detach_rows = True
    sums_add_up = True

    def __init__(
        self,
        X: NDArray[np.floating],
        weights: NDArray[np.float64] | None,
        n_threads: int,
        algorithm: str,
    ) -> None:
        X, weights = aligned(X), None if weights is None else aligned(weights)
        method = "auto" if algorithm in ("lloyd", "elkan") else algorithm
        super().__init__(X, weights, n_threads, method, NativeKernels(X, n_threads))

    def fork(self, n_threads: int) -> DensePoints:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = DensePoints(self._X, self.weights, n_threads, self._algorithm)
        twin._order = self._order
        return twin

    def _assigned(self, centers: Centers, forced: Forced | None) -> tuple[Any, ...]:
        found: tuple[Any, ...] = self._begun().assign(aligned(centers), *_arrays_of(forced))
        return found

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return data rows in the centers' dtype."""
        return ReferencePoints.rows(self, indices)

    def ranges(self) -> Grids:
        """Return where exact sums over these points alone would stand."""
        rows = arithmetic.range_of(self._X, self.n_threads)
        if self.weights is None:
            return Grids(rows, None)
        return Grids(rows, arithmetic.range_of(self.weights, self.n_threads))

    def assign_exactly(self, centers: Centers, forced: Forced | None = None) -> Partial:
        """Assign the points; return sums that can be added to those of other points."""
        self.agreed_grids()
        given = aligned(centers)
        return self.partial(*self._begun().assign_exactly(given, *_arrays_of(forced)))

    def partial(
        self, moved: int, gap: Any, totals_grid: Any, totals: Any, sums_grid: Any, sums: Any
    ) -> Partial:
        """Return native sums, which stand where they should."""
        grids = self.agreed_grids()
        if (Grid(*totals_grid), Grid(*sums_grid)) != (grids.totals, grids.sums):
            raise RuntimeError("native sums do not stand where they should")
        return Partial(
            moved, Limbs(SCALAR, gap), Limbs(grids.totals, totals), Limbs(grids.sums, sums)
        )

    def adopt(self, labels: Labels, centers: Centers) -> None:
        """Take over labels that these centers gave the same points before."""
        self._points = self._open(self.weights)
        self._points.adopt(aligned(labels), aligned(centers))

    def exact_cost_at(self, centers: Centers, labels: Labels, masses: Masses | None) -> Limbs:
        """Return the exact sum of v D at any labels and masses, None for ones."""
        given = aligned(centers)
        return Limbs(SCALAR, _native.exact_cost(self._X, masses, given, labels, self.n_threads))

    def trimmer(self, mass: float) -> Trimmer:
        """Return what keeps the nearest points of a mass, in native code."""
        return NativeTrimmer(self, mass)

    def detach_rows(self) -> None:
        """Release the rows and weights; keep labels, bounds and moments."""
        self._X = self._kernels = self.weights = None
        if self._points is not None:
            self._points.detach_rows()

    def attach_rows(self, X: NDArray[np.floating], weights: NDArray[np.float64] | None) -> None:
        """Use the same rows and weights again, perhaps at another address."""
        X, weights = aligned(X), None if weights is None else aligned(weights)
        self._X, self.weights = X, weights
        self._kernels = NativeKernels(X, self.n_threads)
        if self._points is not None:
            self._points.attach_rows(X, weights)

    def _open(self, weights: NDArray[np.float64] | None) -> Any:
        kind = _native.PointsF32 if self.dtype == np.float32 else _native.PointsF64
        ranges = None if self.grids is None else self.grids.exponents()
        return kind(self._X, weights, self.n_threads, self._algorithm, ranges)

    def advance(
        self, centers: Centers, weights: Distances, shift: float, limits: Limits
    ) -> Progress | None:
        """Take several steps in native code (native/descent)."""
        start = (centers, weights, shift)
        progress = self.advance_with([], [start], [limits], self.n_threads)
        return None if progress is None else progress[0]

    def advance_with(
        self,
        others: Sequence[Workspace],
        starts: Sequence[tuple[Centers, Distances, float]],
        limits: Sequence[Limits],
        n_threads: int,
    ) -> list[Progress] | None:
        """Take several steps from several starts, spread over threads, in one native call."""
        natives = [self, *(other for other in others if isinstance(other, DensePoints))]
        if len(natives) < 1 + len(others) or len({native.dtype for native in natives}) != 1:
            return None
        single = self.dtype == np.float32
        results = (_native.advance_f32 if single else _native.advance_f64)(
            [native._points for native in natives],
            starts,
            [(limit.gap, limit.decrease, limit.shift) for limit in limits],
            limits[0].at_most,
            limits[0].seconds,
            limits[0].keep_empty,
            n_threads,
        )
        return [Progress(*result) for result in results]

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of w D over the points at their labels, rounded once."""
        labels = self._current()
        return NativeKernels(self._X, self.n_threads).cost(centers, labels, self.weights)

    def near_ties(
        self, centers: Centers, slack: float
    ) -> tuple[NDArray[np.int64], Distances, Distances]:
        """Return the rows that neither the bounds nor a screen can tell from a tie."""
        rows: NDArray[np.int64] = self._points.near_ties(aligned(centers), slack)
        kernels = NativeKernels(self._X[rows], self.n_threads)
        return rows, *kernels.second_nearest(centers)

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) Euclidean distances to all centers, in their dtype."""
        return NativeKernels(self._X, self.n_threads).roots(centers)

    def order(self) -> NDArray[np.int64]:
        """Return the rows in an order that depends on their values alone."""
        if self._order is None:
            order = np.empty(self.n_points, dtype=np.int64)
            _native.lexicographic_order(self._X, order)
            self._order = order
        return self._order

    def spread_rows(self, drawn: NDArray[np.int64], n_trials: int) -> NDArray[np.int64] | None:
        """Return the rows that k-means++ picks (native/seeding)."""
        rows = np.empty(1 + (len(drawn) - 1) // n_trials, dtype=np.int64)
        found = _native.kmeans_plus_plus(
            self._X, self.weights, self.order(), drawn, n_trials, rows, self.n_threads
        )
        return None if found < 0 else rows[:found]

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row, equal for equal values."""
        hashes = np.empty(self.n_points, dtype=np.uint64)
        _native.row_hashes(self._X, hashes, self.n_threads)
        return hashes

    def single_moves(self, centers: Centers, labels: Labels | None = None) -> SingleMoves:
        """Return a search by single moves from the given labels, or from the current ones."""
        labels = self._current() if labels is None else labels
        kind = _native.SingleMovesF32 if self.dtype == np.float32 else _native.SingleMovesF64
        moves: SingleMoves = kind(self._X, self.weights, labels, aligned(centers), self.n_threads)
        return moves

    def swaps(self) -> Swaps:
        """Return what tells the cost of exchanging a center for a data point."""
        kind = _native.SwapsF32 if self.dtype == np.float32 else _native.SwapsF64
        swaps: Swaps = kind(self._X, self.weights, self.n_threads)
        return swaps


class NativeTrimmer:
    """A trimmer in native code: kept masses, bounds and exact moments (trimming.hpp)."""

    def __init__(self, points: DensePoints, mass: float) -> None:
        self._points, self._mass = points, mass
        self._state: Any = None

    def _begun(self) -> Any:
        if self._state is None:
            points = self._points
            single = points.dtype == np.float32
            kind = _native.TrimmedPointsF32 if single else _native.TrimmedPointsF64
            ranges = None if points.grids is None else points.grids.exponents()
            self._state = kind(
                points.host_rows, points.weights, self._mass, points.n_threads, ranges
            )
        return self._state

    def _labelled(self) -> Any:
        if self._state is None:
            raise RuntimeError("points have no labels before the first assignment")
        return self._state

    def assign(self, centers: Centers) -> Assignment:
        """Keep the nearest points of the mass, each with the label of its nearest center."""
        centers = aligned(centers)
        weights, means = np.empty(len(centers)), np.empty_like(centers)
        residuals = np.empty(centers.shape)
        moved, gap = self._begun().assign(centers, weights, means, residuals)
        return Assignment(moved, gap, weights, means, residuals)

    def find_threshold(self, distances: Distances) -> Threshold:
        """Return the last point that is kept when the points are this far away."""
        return self._points.find_threshold(distances, self._mass)

    def find_nearest(self, centers: Centers) -> None:
        """Find the nearest centers."""
        self._begun().find_nearest(aligned(centers))

    def nearest_distances(self) -> Distances:
        """Return the distances to the nearest of these centers."""
        distances = np.empty(self._points.n_points)
        self._labelled().nearest(distances)
        return distances

    def keep(self, centers: Centers, threshold: Threshold) -> Partial:
        """Keep the points up to a threshold, at the same centers; return sums that add up."""
        found = self._labelled().keep(
            aligned(centers), threshold.distance, threshold.row, threshold.mass
        )
        return self._points.partial(*found)

    def nearest_labels(self) -> Labels:
        """Return the nearest center of every point, kept or not."""
        labels: Labels = np.empty(self._points.n_points, dtype=np.int32)
        self._labelled().nearest_labels(labels)
        return labels

    def labels(self) -> Labels:
        """Return the current labels, -1 for what is trimmed."""
        labels: Labels = np.empty(self._points.n_points, dtype=np.int32)
        self._labelled().labels(labels)
        return labels

    def snapshot(self) -> Any:
        """Return the same: they are on the host."""
        return self.labels()

    def kept(self) -> Masses:
        """Return what is kept of each point's weight."""
        kept = np.empty(self._points.n_points)
        self._labelled().kept(kept)
        return kept

    def threshold(self) -> Threshold:
        """Return the last point that is kept."""
        return Threshold(*self._labelled().threshold())

    def cost(self, centers: Centers) -> float | None:
        """Return the exact sum of v D over what is kept, rounded once."""
        kernels = NativeKernels(self._points.host_rows, self._points.n_threads)
        return kernels.cost(centers, self.nearest_labels(), self.kept())

    def detach_rows(self) -> None:
        """Release the rows; keep labels, bounds and moments."""
        if self._state is not None:
            self._state.detach_rows()

    def attach_rows(self) -> None:
        """Use the rows of the points again, perhaps at another address."""
        if self._state is not None:
            self._state.attach_rows(self._points.host_rows)


def _arrays_of(forced: Forced | None) -> tuple[Any, Any]:
    if forced is None:
        return None, None
    return aligned(forced.rows), aligned(forced.labels)


def run_to_rest(
    X: NDArray[np.float64], seeds: NDArray[np.int64], at_most: int, algorithm: str = "auto"
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Run K-means from seeds until no label changes, many times (native/descent).

    X is (runs, n, d), or (1, n, d) for all runs, must be validated; `seeds` is
    (runs, K) rows of it. Empty clusters keep their centers. Returns (runs, 2) the movement from the
    seeds and the first partition's SSE; (runs,) how many points were evaluated; moved, empty, gap
    and movement of each of them, run after run.
    """
    starts, lengths, evaluations = _native.run_to_rest(X, seeds, at_most, algorithm)
    return starts, lengths, evaluations


def scatter(X: NDArray[np.float64]) -> float:
    """Return the exact sum of squared distances of the rows to their mean, rounded once."""
    return float(_native.scatter(X))


class CpuEngine:
    """Native kernels, for dense data and for CSR."""

    name = "cpu"

    def open(
        self,
        X: Any,
        weights: NDArray[np.float64] | None,
        n_threads: int,
        algorithm: str = "auto",
    ) -> ReferencePoints:
        """Open dense or CSR data for at most `n_threads` threads."""
        _require_native()
        if sparse.issparse(X):
            if can_be_native(X):
                return NativePoints(X, weights, n_threads, algorithm)
            return ReferencePoints(X, weights, ReferenceKernels(X))
        return DensePoints(X, weights, n_threads, algorithm)


def _require_native() -> None:
    if not native_is_available():
        raise ImportError(
            "engine='cpu' needs wolfmeans' native module, which was not built; "
            "use engine='reference' or reinstall with a C++ compiler present"
        )
