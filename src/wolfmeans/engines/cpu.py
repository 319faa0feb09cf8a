"""Driver of the native kernels: canonical distances in C++, on all cores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.engines.aligned import aligned
from wolfmeans.engines.arithmetic import NativeArithmetic, NativeTrimming
from wolfmeans.engines.base import (
    Assignment,
    Centers,
    Distances,
    Forced,
    Labels,
    Limits,
    Progress,
    Threshold,
    Workspace,
)
from wolfmeans.engines.labelled import Kernels, LabelledPoints
from wolfmeans.engines.parts.partial import SCALAR, Grid, Grids, Limbs, Partial, Range
from wolfmeans.engines.reference import ReferenceKernels
from wolfmeans.engines.single_moves import SingleMoves
from wolfmeans.engines.sparse import SparseNativePoints, SparseTrimmedPoints, can_be_native
from wolfmeans.engines.swaps import Swaps
from wolfmeans.engines.trimming import Masses, TrimmedPoints, Trimming, refuse

_MANY = 1 << 20

_native: Any
try:
    _native = import_module("wolfmeans.engines._native")
except ImportError:
    _native = None


def native_is_available() -> bool:
    """Whether the native module was built and can be loaded."""
    return _native is not None


def value_range(values: NDArray[np.floating], n_threads: int = 1) -> tuple[bool, float, float]:
    """Return whether all values are finite, the smallest nonzero magnitude and the largest.

    In native code where it is there; the fallback makes copies of a block at a time.
    """
    flat = aligned(values).reshape(-1)
    if native_is_available():
        finite, smallest, largest = _native.value_range(flat, n_threads)
        return bool(finite), float(smallest), float(largest)
    smallest, largest = math.inf, 0.0
    for start in range(0, flat.size, _MANY):
        magnitude = np.abs(flat[start : start + _MANY])
        if not np.isfinite(magnitude).all():
            return False, 0.0, math.inf
        largest = max(largest, float(magnitude.max()))
        smallest = min(smallest, float(magnitude.min(where=magnitude > 0, initial=math.inf)))
    return True, 0.0 if largest == 0 else smallest, largest


def digest(centers: Centers) -> bytes:
    """Return 16 bytes that stand for the centers."""
    whole = aligned(centers)
    if native_is_available():
        short: bytes = _native.digest(whole)
        return short
    return blake2b(whole.data, digest_size=16).digest()


class NativeKernels:
    """Canonical distances between dense rows and centers (see native/)."""

    def __init__(self, X: NDArray[np.floating], n_threads: int) -> None:
        self._X = X
        self._n_threads = n_threads

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return the lowest nearest center of each point and its canonical distance."""
        labels = np.empty(len(self._X), dtype=np.int32)
        distances = np.empty(len(self._X))
        _native.assign(self._X, aligned(centers), labels, distances, self._n_threads)
        return labels, distances

    def second_nearest(self, centers: Centers) -> tuple[Distances, Distances]:
        """Return the smallest and the second smallest canonical distance of each point."""
        labels = np.empty(len(self._X), dtype=np.int32)
        nearest, second = np.empty(len(self._X)), np.empty(len(self._X))
        _native.second_nearest(self._X, aligned(centers), labels, nearest, second, self._n_threads)
        return nearest, second

    def distances(self, centers: Centers, labels: Labels) -> Distances:
        """Return the canonical distance of each point to the center of its label."""
        distances = np.empty(len(self._X))
        _native.distances(self._X, aligned(centers), labels, distances, self._n_threads)
        return distances

    def cost(self, centers: Centers, labels: Labels, weights: NDArray[np.float64] | None) -> float:
        """Return the exact sum of w D to the centers of the labels, without an array of them."""
        return float(_native.cost(self._X, weights, aligned(centers), labels, self._n_threads))

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) Euclidean distances to all centers, in the centers' dtype."""
        roots = np.empty((len(self._X), len(centers)), dtype=centers.dtype)
        _native.roots(self._X, aligned(centers), roots, self._n_threads)
        return roots

    def of(self, rows: NDArray[np.int64]) -> NativeKernels:
        """Return the same for some of the rows."""
        return NativeKernels(self._X[rows], self._n_threads)


def dense_kernels(X: NDArray[np.floating]) -> Kernels:
    """Return the fastest kernels for a few dense rows; distances are the same bits anyway."""
    return NativeKernels(X, 1) if native_is_available() else ReferenceKernels(X)


class NativePoints(NativeArithmetic):
    """Labels, bounds and exact moments in native code (native/assignment, native/exact)."""

    engine = "cpu"

    def __init__(
        self,
        X: NDArray[np.floating],
        weights: NDArray[np.float64] | None,
        n_threads: int,
        algorithm: str,
    ) -> None:
        X, weights = aligned(X), None if weights is None else aligned(weights)
        super().__init__(X, weights, NativeKernels(X, n_threads))
        self._native = _native
        self._n_threads = n_threads
        self._method = "auto" if algorithm in ("lloyd", "elkan") else algorithm
        self._points: Any = None

    def fork(self, n_threads: int) -> NativePoints:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = NativePoints(self._X, self.weights, n_threads, self._method)
        twin._order = self._order
        return twin

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""
        if self._points is None:
            self._points = self._open(self.weights)
        rows, labels = _arrays_of(forced)
        moved, gap, weights, means, residuals, _, _ = self._points.assign(
            aligned(centers), rows, labels
        )
        return Assignment(moved, gap, weights, means, residuals)

    def ranges(self) -> Grids:
        """Return where exact sums over these points alone would stand."""
        # A lowest bit may come out one too low, which is as good.
        rows, *weights = (
            Range(*_native.exponent_range(values, self._n_threads))
            for values in (self._X, self.weights)
            if values is not None
        )
        return Grids(rows, weights[0] if weights else None)

    def assign_exactly(self, centers: Centers, forced: Forced | None = None) -> Partial:
        """Assign the points; return sums that can be added to those of other points."""
        self._agreed_grids()
        if self._points is None:
            self._points = self._open(self.weights)
        rows, labels = _arrays_of(forced)
        return self._partial(*self._points.assign_exactly(aligned(centers), rows, labels))

    def _partial(
        self, moved: int, gap: Any, totals_grid: Any, totals: Any, sums_grid: Any, sums: Any
    ) -> Partial:
        grids = self._agreed_grids()
        if (Grid(*totals_grid), Grid(*sums_grid)) != (grids.totals, grids.sums):
            raise RuntimeError("native sums do not stand where they should")
        return Partial(
            moved, Limbs(SCALAR, gap), Limbs(grids.totals, totals), Limbs(grids.sums, sums)
        )

    def adopt(self, labels: Labels, centers: Centers) -> None:
        """Take over labels that these centers gave the same points before."""
        self._points = self._open(self.weights)
        self._points.adopt(aligned(labels), aligned(centers))

    def exact_cost(self, centers: Centers) -> Limbs:
        """Return the cost as a sum that can be added to those of other points."""
        given, labels = aligned(centers), self._current()
        cost = _native.exact_cost(self._X, self.weights, given, labels, self._n_threads)
        return Limbs(SCALAR, cost)

    def put_away(self) -> None:
        """Let go of the rows and weights; labels, bounds and moments stay."""
        self._X = self._kernels = self.weights = None  # type: ignore[assignment]
        if self._points is not None:
            self._points.put_away()

    def bring(self, X: NDArray[np.floating], weights: NDArray[np.float64] | None) -> None:
        """Take the same rows and weights again, wherever they are now."""
        X, weights = aligned(X), None if weights is None else aligned(weights)
        self._X, self.weights = X, weights
        self._kernels = NativeKernels(X, self._n_threads)
        if self._points is not None:
            self._points.bring(X, weights)

    def _open(self, weights: NDArray[np.float64] | None) -> Any:
        kind = _native.PointsF32 if self.dtype == np.float32 else _native.PointsF64
        ranges = None if self._grids is None else self._grids.exponents()
        return kind(self._X, weights, self._n_threads, self._method, ranges)

    def advance(
        self, centers: Centers, weights: Distances, shift: float, limits: Limits
    ) -> Progress | None:
        """Take several steps in native code (native/descent/descent.hpp)."""
        start = (centers, weights, shift)
        progress = advance_together([self], [start], [limits], self._n_threads)
        return None if progress is None else progress[0]

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of w D over the points at their labels, rounded once."""
        labels = self._current()
        return NativeKernels(self._X, self._n_threads).cost(centers, labels, self.weights)

    def mean(self, *, weighted: bool) -> Centers:
        """Return the (d,) mean of all points, rounded as a center."""
        zero = np.zeros((1, self.n_features), dtype=self.dtype)
        mean: Centers = self._open(self.weights if weighted else None).assign(zero)[3][0]
        return mean

    def near_ties(
        self, centers: Centers, slack: float
    ) -> tuple[NDArray[np.int64], Distances, Distances]:
        """Return the rows that neither the bounds nor a screen can tell from a tie."""
        rows: NDArray[np.int64] = self._points.near_ties(aligned(centers), slack)
        kernels = NativeKernels(self._X[rows], self._n_threads)
        return rows, *kernels.second_nearest(centers)

    def _current(self) -> Labels:
        if self._points is None:
            raise RuntimeError("points have no labels before the first assignment")
        labels: Labels = self._points.labels()
        return labels

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) Euclidean distances to all centers, in their dtype."""
        return NativeKernels(self._X, self._n_threads).roots(centers)

    def order(self) -> NDArray[np.int64]:
        """Return the rows in an order that depends on their values alone."""
        if self._order is None:
            order = np.empty(self.n_points, dtype=np.int64)
            _native.lexicographic_order(self._X, order)
            self._order = order
        return self._order

    def spread_rows(self, drawn: NDArray[np.int64], n_trials: int) -> NDArray[np.int64] | None:
        """Return the rows that k-means++ picks (native/seeding/seeding.hpp)."""
        rows = np.empty(1 + (len(drawn) - 1) // n_trials, dtype=np.int64)
        found = _native.kmeans_plus_plus(
            self._X, self.weights, self.order(), drawn, n_trials, rows, self._n_threads
        )
        return None if found < 0 else rows[:found]

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row, equal for equal values."""
        hashes = np.empty(self.n_points, dtype=np.uint64)
        _native.row_hashes(self._X, hashes, self._n_threads)
        return hashes

    def single_moves(self, centers: Centers, labels: Labels | None = None) -> SingleMoves:
        """Return a search by single moves from the given labels, or from the current ones."""
        labels = self._current() if labels is None else labels
        kind = _native.SingleMovesF32 if self.dtype == np.float32 else _native.SingleMovesF64
        moves: SingleMoves = kind(self._X, self.weights, labels, aligned(centers), self._n_threads)
        return moves

    def swaps(self) -> Swaps:
        """Return what tells the cost of exchanging a center for a data point."""
        kind = _native.SwapsF32 if self.dtype == np.float32 else _native.SwapsF64
        swaps: Swaps = kind(self._X, self.weights, self._n_threads)
        return swaps


class NativeTrimmedPoints(NativeTrimming, NativePoints):
    """Labels, kept masses and exact moments in native code (native/descent/trimming.hpp)."""

    def __init__(
        self, X: NDArray[np.floating], weights: Masses | None, n_threads: int, mass: float
    ) -> None:
        NativePoints.__init__(self, X, weights, n_threads, "auto")
        self.keeping(mass)
        self._trimmed: Any = None

    def fork(self, n_threads: int) -> NativeTrimmedPoints:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = NativeTrimmedPoints(self._X, self.weights, n_threads, self.mass)
        twin._order = self._order
        return twin

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Keep the nearest points, each with the label of its nearest center."""
        refuse(forced)
        centers = aligned(centers)
        weights, means = np.empty(len(centers)), np.empty_like(centers)
        residuals = np.empty(centers.shape)
        moved, gap = self._begun().assign(centers, weights, means, residuals)
        return Assignment(moved, gap, weights, means, residuals)

    def _begun(self) -> Any:
        if self._trimmed is None:
            single = self.dtype == np.float32
            kind = _native.TrimmedPointsF32 if single else _native.TrimmedPointsF64
            ranges = None if self._grids is None else self._grids.exponents()
            self._trimmed = kind(self._X, self.weights, self.mass, self._n_threads, ranges)
        return self._trimmed

    def approach(self, centers: Centers) -> Distances:
        """Find the nearest centers, and return the distances; labels stay what they are."""
        self._begun().approach(aligned(centers))
        return self.approached()

    def approached(self) -> Distances:
        """Return the distances to the centers that were approached."""
        distances = np.empty(self.n_points)
        self._state().nearest(distances)
        return distances

    def keep_exactly(self, centers: Centers, threshold: Threshold) -> Partial:
        """Keep what is up to a threshold, at the centers approached; return sums that add up."""
        found = self._state().keep(
            aligned(centers), threshold.distance, threshold.row, threshold.mass
        )
        return self._partial(*found)

    def put_away(self) -> None:
        """Let go of the rows; labels, bounds, weights and moments stay."""
        super().put_away()
        if self._trimmed is not None:
            self._trimmed.put_away()

    def bring(self, X: NDArray[np.floating], weights: NDArray[np.float64] | None) -> None:
        """Take the same rows and weights again, wherever they are now."""
        super().bring(X, weights)
        if self._trimmed is not None:
            self._trimmed.bring(self._X)

    def _state(self) -> Any:
        if self._trimmed is None:
            raise RuntimeError("points have no labels before the first assignment")
        return self._trimmed

    def _current(self) -> Labels:
        labels: Labels = np.empty(self.n_points, dtype=np.int32)
        self._state().nearest_labels(labels)
        return labels

    def labels(self) -> Labels:
        """Return the current labels, -1 for what is trimmed."""
        labels: Labels = np.empty(self.n_points, dtype=np.int32)
        self._state().labels(labels)
        return labels

    def kept(self) -> Masses:
        """Return what is kept of each point's weight."""
        kept = np.empty(self.n_points)
        self._state().kept(kept)
        return kept

    @property
    def threshold(self) -> Threshold:
        """The last point that is kept."""
        return Threshold(*self._state().threshold())

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of v D over what is kept, rounded once."""
        kernels = NativeKernels(self._X, self._n_threads)
        return kernels.cost(centers, self._current(), self.kept())

    def exact_cost(self, centers: Centers) -> Limbs:
        """Return the cost as a sum that can be added to those of other points."""
        given, labels = aligned(centers), self._current()
        cost = _native.exact_cost(self._X, self.kept(), given, labels, self._n_threads)
        return Limbs(SCALAR, cost)


def _arrays_of(forced: Forced | None) -> tuple[Any, Any]:
    if forced is None:
        return None, None
    return aligned(forced.rows), aligned(forced.labels)


def advance_together(
    workspaces: Sequence[Workspace],
    starts: Sequence[tuple[Centers, Distances, float]],
    limits: Sequence[Limits],
    n_threads: int,
) -> list[Progress] | None:
    """Take several steps from several starts, spread over threads, in one native call.

    The workspaces have labels. Limits may differ in their tolerances alone. None where not all
    workspaces are native and hold the same kind of numbers.
    """
    natives = [workspace for workspace in workspaces if isinstance(workspace, NativePoints)]
    if len(natives) < len(workspaces) or len({native.dtype for native in natives}) != 1:
        return None
    single = natives[0].dtype == np.float32
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


def run_to_rest(
    X: NDArray[np.float64], seeds: NDArray[np.int64], at_most: int, algorithm: str = "auto"
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Run K-means from seeds until no label changes, many times (native/descent/whole_runs.hpp).

    X is (runs, n, d), or (1, n, d) for all runs, and must have passed the door; `seeds` is
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
    ) -> LabelledPoints:
        """Open dense or CSR data for at most `n_threads` threads."""
        _require_native()
        if sparse.issparse(X):
            if can_be_native(X):
                return SparseNativePoints(_native, X, weights, n_threads, algorithm)
            return LabelledPoints(X, weights, ReferenceKernels(X))
        return NativePoints(X, weights, n_threads, algorithm)

    def open_trimmed(self, X: Any, weights: Masses | None, n_threads: int, mass: float) -> Trimming:
        """Open dense or CSR data of which the nearest points of a mass are kept."""
        _require_native()
        if not sparse.issparse(X):
            return NativeTrimmedPoints(X, weights, n_threads, mass)
        if can_be_native(X):
            return SparseTrimmedPoints(_native, X, weights, n_threads, mass)
        return TrimmedPoints(X, weights, ReferenceKernels(X), mass)


def _require_native() -> None:
    if not native_is_available():
        raise ImportError(
            "engine='cpu' needs wolfmeans' native module, which was not built; "
            "use engine='reference' or reinstall with a C++ compiler present"
        )
