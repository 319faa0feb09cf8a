"""Driver of the native kernels: points with labels and exact sums in C++, on all cores.

Exact arithmetic of sums and centers, which needs no points, is here too: in native code where it
was built, else by the specification; the bits are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.core import spherical
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
    Turn,
    Workspace,
)
from wolfmeans.engines.reference import ReferencePoints, specified_step
from wolfmeans.engines.single_moves import SingleMoves
from wolfmeans.engines.swaps import Swaps
from wolfmeans.engines.trimming import Trimmer
from wolfmeans.exact import limbs
from wolfmeans.exact.distances import ReferenceKernels, sparse_distance_error
from wolfmeans.exact.limbs import SCALAR, Grid, Grids, Limbs, Range
from wolfmeans.exact.native import (
    NativeKernels,
    SparseNativeKernels,
    _native,
    aligned,
    digest,
    native_is_available,
)
from wolfmeans.exact.sums import exact_sum

_MOST_COLUMNS = np.iinfo(np.int32).max


def can_be_native(X: Any) -> bool:
    """Whether native code serves this CSR matrix: no column twice in a row, not too many."""
    return bool(X.has_canonical_format) and X.shape[1] <= _MOST_COLUMNS


class NativePoints(ReferencePoints):
    """Labels, bounds and exact moments in native code, of dense rows or of CSR rows.

    What needs no labels is asked of the kernels. CSR rows leave some of it to the specification.
    """

    engine = "cpu"
    _kernels: NativeKernels | SparseNativeKernels

    def __init__(
        self,
        kernels: NativeKernels | SparseNativeKernels,
        weights: NDArray[np.float64] | None,
        algorithm: str,
    ) -> None:
        self.n_points, self.n_features = kernels.X.shape
        self.dtype = np.dtype(np.float32 if kernels.X.dtype == np.float32 else np.float64)
        self.n_threads = kernels.n_threads
        self.weights = None if weights is None else aligned(weights)
        self.grids: Grids | None = None
        self.sums_add_up = self.can_detach_rows = kernels.dense
        self._X, self._kernels, self._algorithm = kernels.X, kernels, algorithm
        self._points: Any = None
        self._order: NDArray[np.int64] | None = None

    def fork(self, n_threads: int) -> NativePoints:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = NativePoints(self._kernels.with_threads(n_threads), self.weights, self._algorithm)
        twin._order = self._order
        return twin

    # --- Assignments and steps ----------------------------------------------------------------

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""
        # Only CSR rows are asked each time whether to keep bounds.
        bounds = () if self._kernels.dense else (self._algorithm != "dense",)
        found = self._begun().assign(aligned(centers), *bounds, *_arrays_of(forced))
        moved, gap, weights, means, residuals, _, _ = found
        return Assignment(moved, gap, weights, means, residuals)

    def _begun(self) -> Any:
        if self._points is None:
            self._points = self._open()
        return self._points

    def _open(self) -> Any:
        ranges = None if self.grids is None else self.grids.exponents()
        return self._kernels.points(self.weights, self._algorithm, ranges)

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
        """Take several steps from several starts, spread over threads, in one native call.

        None for CSR rows, whose steps are taken one at a time.
        """
        natives = [self, *(other for other in others if isinstance(other, NativePoints))]
        kinds = {(native._kernels.dense, native.dtype) for native in natives}
        if len(natives) < 1 + len(others) or len(kinds) != 1 or not self._kernels.dense:
            return None
        single = self.dtype == np.float32
        results = (_native.advance_f32 if single else _native.advance_f64)(
            [native._points for native in natives],
            starts,
            [(limit.gap, limit.decrease, limit.shift) for limit in limits],
            limits[0].at_most,
            limits[0].seconds,
            limits[0].keep_empty,
            limits[0].directions,
            n_threads,
        )
        return [Progress(*result) for result in results]

    def step(self, found: Assignment, centers: Centers) -> tuple[float, float]:
        """Return the shift and the movement of a step from the centers to the means found."""
        return step(found, centers, self.n_threads)

    def turn(self, found: Assignment, centers: Centers) -> Turn:
        """Return the step of unit centers to the directions of the means found."""
        return turn(found, centers, self.n_threads)

    # --- Labels -------------------------------------------------------------------------------

    def labels(self) -> Labels:
        """Return the current labels (a copy)."""
        return self._current()

    def snapshot(self) -> Any:
        """Return the same: they are on the host."""
        return self._current()

    def _current(self) -> Labels:
        if self._points is None:
            raise RuntimeError("points have no labels before the first assignment")
        labels: Labels = self._points.labels()
        return labels

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of w D over the points at their labels, rounded once."""
        return self._kernels.cost(centers, self._current(), self.weights)

    def near_ties(
        self, centers: Centers, slack: float
    ) -> tuple[NDArray[np.int64], Distances, Distances]:
        """Return the rows that neither the bounds nor a screen can tell from a tie."""
        if not self._kernels.dense:
            return super().near_ties(centers, slack)
        rows: NDArray[np.int64] = self._points.near_ties(aligned(centers), slack)
        return rows, *self._kernels.of(rows).second_nearest(centers)

    # --- Rows ---------------------------------------------------------------------------------

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return data rows, dense, in the centers' dtype."""
        return self._kernels.rows(indices)

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) square roots of the canonical distances to all centers."""
        return self._kernels.roots(centers)

    def order(self) -> NDArray[np.int64]:
        """Return the rows in an order that depends on their values alone."""
        if self._order is None:
            self._order = self._kernels.order()
        return self._order

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row, equal for equal values."""
        return self._kernels.row_hashes()

    def spread_rows(self, drawn: NDArray[np.int64], n_trials: int) -> NDArray[np.int64] | None:
        """Return the rows that k-means++ picks; None to leave it to its specification."""
        return self._kernels.spread_rows(self.weights, self.order(), drawn, n_trials)

    def distance_error(self, centers: Centers) -> float:
        """Return what a canonical distance may be off by beyond (d + 3) u of itself."""
        return 0.0 if self._kernels.dense else sparse_distance_error(centers)

    # --- Sums ---------------------------------------------------------------------------------

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
        return total(values, self.n_threads)

    def exact_total(self, values: NDArray[np.float64]) -> Limbs:
        """Return the exact sum of an array, not rounded."""
        return exact_total(values)

    def digest(self, centers: Centers) -> bytes:
        """Return 16 bytes that stand for the centers."""
        return digest(centers)

    # --- Points that are a part of others: dense rows only -------------------------------------

    def ranges(self) -> Grids:
        """Return where exact sums over these points alone would stand."""
        rows = range_of(self._X, self.n_threads)
        if self.weights is None:
            return Grids(rows, None)
        return Grids(rows, range_of(self.weights, self.n_threads))

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
        self._points = self._open()
        self._points.adopt(aligned(labels), aligned(centers))

    def detach_rows(self) -> None:
        """Release the rows and weights; keep labels, bounds and moments."""
        self._X = self._kernels = self.weights = None  # type: ignore[assignment]
        if self._points is not None:
            self._points.detach_rows()

    def attach_rows(self, X: NDArray[np.floating], weights: NDArray[np.float64] | None) -> None:
        """Use the same rows and weights again, perhaps at another address."""
        self._kernels = NativeKernels(X, self.n_threads)
        self._X, self.weights = self._kernels.X, None if weights is None else aligned(weights)
        if self._points is not None:
            self._points.attach_rows(self._X, self.weights)

    # --- Other oracles and methods: CSR rows leave them to the specification -------------------

    def exact_cost_at(self, centers: Centers, labels: Labels, masses: Masses | None) -> Limbs:
        """Return the exact sum of v D at any labels and masses, None for ones."""
        if not self._kernels.dense:
            return super().exact_cost_at(centers, labels, masses)
        given = aligned(centers)
        return Limbs(SCALAR, _native.exact_cost(self._X, masses, given, labels, self.n_threads))

    def trimmer(self, mass: float) -> Trimmer:
        """Return what keeps the nearest points of a mass."""
        return NativeTrimmer(self, mass) if self._kernels.dense else super().trimmer(mass)

    def find_threshold(self, distances: Distances, mass: float) -> Threshold:
        """Return the last point that a mass keeps when the points are this far away."""
        return Threshold(*_native.find_threshold(aligned(distances), self.weights, mass))

    def single_moves(self, centers: Centers, labels: Labels | None = None) -> SingleMoves:
        """Return a search by single moves from the given labels, or from the current ones."""
        if not self._kernels.dense:
            return super().single_moves(centers, labels)
        labels = self._current() if labels is None else labels
        kind = _native.SingleMovesF32 if self.dtype == np.float32 else _native.SingleMovesF64
        moves: SingleMoves = kind(self._X, self.weights, labels, aligned(centers), self.n_threads)
        return moves

    def swaps(self) -> Swaps:
        """Return what tells the cost of exchanging a center for a data point."""
        if not self._kernels.dense:
            return super().swaps()
        kind = _native.SwapsF32 if self.dtype == np.float32 else _native.SwapsF64
        swaps: Swaps = kind(self._X, self.weights, self.n_threads)
        return swaps


class NativeTrimmer:
    """A trimmer in native code: kept masses, bounds and exact moments (trimming.hpp)."""

    def __init__(self, points: NativePoints, mass: float) -> None:
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


# --- Exact arithmetic that needs no points; by the specification where nothing was built -----


def total(values: NDArray[np.float64], n_threads: int = 1) -> float:
    """Return the exact sum of an array, rounded once."""
    if not native_is_available():
        return exact_sum(values.ravel().tolist())
    terms = aligned(values, dtype=np.float64).ravel()
    return float(_native.weighted_sum(None, terms, n_threads))


def exact_total(values: NDArray[np.float64]) -> Limbs:
    """Return the exact sum of an array, not rounded."""
    terms = aligned(values, dtype=np.float64).ravel()
    if not native_is_available():
        return Limbs.of_terms(terms)
    return Limbs(SCALAR, _native.exact_terms(terms))


def range_of(values: NDArray[np.floating], n_threads: int = 1) -> Range:
    """Return the range of an array; its lower end may be one too low, which does no harm."""
    if not native_is_available():
        return limbs.range_of(values)
    return Range(*_native.exponent_range(aligned(values), n_threads))


def rounded(partial: Partial, centers: Centers, n_threads: int = 1) -> Assignment:
    """Return the assignment to these centers that the parts of all points add up to.

    The mean of a cluster without weight is its center. `Partial.rounded` is the specification.
    """
    if not native_is_available():
        return partial.rounded(centers)
    weights, means = np.zeros(len(centers)), aligned(centers).copy()
    residuals = np.zeros(centers.shape)
    totals, sums = partial.totals, partial.sums
    _native.round_moments(
        sums.values,
        sums.grid.low,
        sums.grid.bits,
        totals.values,
        totals.grid.low,
        totals.grid.bits,
        np.arange(len(centers)),
        weights,
        means,
        residuals,
        n_threads,
    )
    return Assignment(partial.moved, partial.gap.rounded(), weights, means, residuals)


def step(found: Assignment, centers: Centers, n_threads: int = 1) -> tuple[float, float]:
    """Return the shift and the movement of a step from the centers to the means found."""
    if not native_is_available():
        return specified_step(found, centers, total)
    given = aligned(centers)
    try:
        shift, movement = _native.center_step(
            found.means, given, found.residuals, found.weights, n_threads
        )
    except OverflowError:  # the specification decides which sum overflows, and the result
        return specified_step(found, centers, total)
    return float(shift), float(movement)


def turn(found: Assignment, centers: Centers, n_threads: int = 1) -> Turn:
    """Return the step of unit centers to the directions of the means found."""
    if not native_is_available():
        return spherical.turn(found, centers)
    new, residuals = found.means.copy(), found.residuals.copy()
    sums = _native.turn(aligned(centers), found.weights, new, residuals, n_threads)
    return Turn(new, residuals, *sums)


def run_to_rest(
    X: NDArray[np.float64], seeds: NDArray[np.int64], at_most: int, algorithm: str = "auto"
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Run K-means from seeds until no label changes, many times (native/descent).

    X is validated, of shape (runs, n, d), or (1, n, d) for all runs; `seeds` has
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
        if not native_is_available():
            raise ImportError(
                "engine='cpu' needs wolfmeans' native module, which was not built; "
                "use engine='reference' or reinstall with a C++ compiler present"
            )
        method = "auto" if algorithm in ("lloyd", "elkan") else algorithm
        if not sparse.issparse(X):
            return NativePoints(NativeKernels(X, n_threads), weights, method)
        if can_be_native(X):
            return NativePoints(SparseNativeKernels(X, n_threads), weights, method)
        return ReferencePoints(X, weights, ReferenceKernels(X))
