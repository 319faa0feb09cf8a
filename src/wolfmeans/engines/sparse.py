"""CSR data in native code: screened labels, canonical distances and exact moments, never dense."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.engines.aligned import aligned
from wolfmeans.engines.arithmetic import NativeArithmetic, NativeTrimming
from wolfmeans.engines.base import Assignment, Centers, Distances, Forced, Labels
from wolfmeans.engines.trimming import Masses

_MOST_COLUMNS = np.iinfo(np.int32).max
# Rows taken one by one; SciPy's own way costs as much as some dozen of them before it starts.
_FEW_ROWS = 32


def can_be_native(X: Any) -> bool:
    """Whether native code serves this CSR matrix: no column twice in a row, not too many."""
    return bool(X.has_canonical_format) and X.shape[1] <= _MOST_COLUMNS


class SparseNativeKernels:
    """Canonical distances between CSR rows and dense centers (native/sparse/sparse_rows.hpp)."""

    def __init__(self, native: Any, X: Any, n_threads: int) -> None:
        kind = native.SparseRowsF32 if X.dtype == np.float32 else native.SparseRowsF64
        self.rows: Any = kind(
            aligned(X.data),
            aligned(X.indices, dtype=np.int32),
            aligned(X.indptr, dtype=np.int64),
            X.shape[1],
            n_threads,
        )
        self._native, self._X = native, X
        self._n: int = X.shape[0]
        self._n_threads = n_threads

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return the lowest nearest center of each point and its canonical distance."""
        labels, nearest = np.empty(self._n, dtype=np.int32), np.empty(self._n)
        centers = aligned(centers)
        self.rows.nearest(centers, labels, nearest, None, self._n_threads)
        return labels, nearest

    def second_nearest(self, centers: Centers) -> tuple[Distances, Distances]:
        """Return the smallest and the second smallest canonical distance of each point."""
        labels = np.empty(self._n, dtype=np.int32)
        nearest, second = np.empty(self._n), np.empty(self._n)
        centers = aligned(centers)
        self.rows.nearest(centers, labels, nearest, second, self._n_threads)
        return nearest, second

    def distances(self, centers: Centers, labels: Labels) -> Distances:
        """Return the canonical distance of each point to the center of its label."""
        distances = np.empty(self._n)
        self.rows.distances(aligned(centers), labels, distances, self._n_threads)
        return distances

    def of(self, rows: NDArray[np.int64]) -> SparseNativeKernels:
        """Return the same for some of the rows."""
        return SparseNativeKernels(self._native, self._X[rows], self._n_threads)


class SparseNativePoints(NativeArithmetic):
    """Labels, bounds and exact moments of CSR rows (native/sparse/sparse_points.hpp)."""

    engine = "cpu"
    _kernels: SparseNativeKernels

    def __init__(
        self,
        native: Any,
        X: Any,
        weights: NDArray[np.float64] | None,
        n_threads: int,
        algorithm: str,
        kernels: SparseNativeKernels | None = None,
    ) -> None:
        super().__init__(X, weights, kernels or SparseNativeKernels(native, X, n_threads))
        self._native = native
        self._n_threads = n_threads
        self._algorithm = algorithm
        self._points: Any = None

    def fork(self, n_threads: int) -> SparseNativePoints:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = SparseNativePoints(
            self._native, self._X, self.weights, n_threads, self._algorithm, self._kernels
        )
        twin._order = self._order
        return twin

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""
        if self._points is None:
            self._points = self._open(self.weights)
        rows, labels = (None, None) if forced is None else (forced.rows, forced.labels)
        moved, gap, weights, means, residuals, _, _ = self._points.assign(
            aligned(centers), self._algorithm != "dense", rows, labels
        )
        return Assignment(moved, gap, weights, means, residuals)

    def _open(self, weights: NDArray[np.float64] | None) -> Any:
        single = self.dtype == np.float32
        kind = self._native.SparsePointsF32 if single else self._native.SparsePointsF64
        return kind(self._kernels.rows, weights, self._n_threads)

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
        self._kernels.rows.hashes(hashes, self._n_threads)
        return hashes

    def mean(self, *, weighted: bool) -> Centers:
        """Return the (d,) mean of all points, rounded as a center."""
        zero = np.zeros((1, self.n_features), dtype=self.dtype)
        mean: Centers = self._open(self.weights if weighted else None).assign(zero, False)[3][0]
        return mean


class SparseTrimmedPoints(NativeTrimming, SparseNativePoints):
    """Trimming by its specification, over native distances of CSR rows."""

    def __init__(
        self,
        native: Any,
        X: Any,
        weights: Masses | None,
        n_threads: int,
        mass: float,
        kernels: SparseNativeKernels | None = None,
    ) -> None:
        SparseNativePoints.__init__(self, native, X, weights, n_threads, "auto", kernels)
        self.keeping(mass)

    def fork(self, n_threads: int) -> SparseTrimmedPoints:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = SparseTrimmedPoints(
            self._native, self._X, self.weights, n_threads, self.mass, self._kernels
        )
        twin._order = self._order
        return twin
