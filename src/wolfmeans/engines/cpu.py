"""Driver of the native kernels: canonical distances in C++, on all cores."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.engines.arithmetic import NativeArithmetic
from wolfmeans.engines.base import Assignment, Centers, Distances, Forced, Labels
from wolfmeans.engines.labelled import LabelledPoints
from wolfmeans.engines.reference import ReferenceKernels
from wolfmeans.engines.sparse import SparseNativePoints, can_be_native

_MANY = 1 << 20

_native: Any
try:
    _native = import_module("wolfmeans.engines._native")
except ImportError:
    _native = None


def native_is_available() -> bool:
    """Whether the native module was built and can be loaded."""
    return _native is not None


def value_range(values: NDArray[np.floating]) -> tuple[bool, float, float]:
    """Return whether all values are finite, the smallest nonzero magnitude and the largest.

    In native code where it is there; the fallback makes copies of a block at a time.
    """
    flat = np.ascontiguousarray(values).reshape(-1)
    if native_is_available():
        # One thread: the caller's number of threads is not known here, and reading is cheap.
        finite, smallest, largest = _native.value_range(flat, 1)
        return bool(finite), float(smallest), float(largest)
    smallest, largest = math.inf, 0.0
    for start in range(0, flat.size, _MANY):
        magnitude = np.abs(flat[start : start + _MANY])
        if not np.isfinite(magnitude).all():
            return False, 0.0, math.inf
        largest = max(largest, float(magnitude.max()))
        smallest = min(smallest, float(magnitude.min(where=magnitude > 0, initial=math.inf)))
    return True, 0.0 if largest == 0 else smallest, largest


class NativeKernels:
    """Canonical distances between dense rows and centers (see engines/native)."""

    def __init__(self, X: NDArray[np.floating], n_threads: int) -> None:
        self._X = X
        self._n_threads = n_threads

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return the lowest nearest center of each point and its canonical distance."""
        labels = np.empty(len(self._X), dtype=np.int32)
        distances = np.empty(len(self._X))
        _native.assign(self._X, np.ascontiguousarray(centers), labels, distances, self._n_threads)
        return labels, distances

    def second_nearest(self, centers: Centers) -> tuple[Distances, Distances]:
        """Return the smallest and the second smallest canonical distance of each point."""
        labels = np.empty(len(self._X), dtype=np.int32)
        nearest, second = np.empty(len(self._X)), np.empty(len(self._X))
        _native.second_nearest(
            self._X, np.ascontiguousarray(centers), labels, nearest, second, self._n_threads
        )
        return nearest, second

    def distances(self, centers: Centers, labels: Labels) -> Distances:
        """Return the canonical distance of each point to the center of its label."""
        distances = np.empty(len(self._X))
        _native.distances(
            self._X, np.ascontiguousarray(centers), labels, distances, self._n_threads
        )
        return distances


class NativePoints(NativeArithmetic):
    """Labels, bounds and exact moments in native code (engines/native/points.hpp, moments.hpp)."""

    engine = "cpu"

    def __init__(
        self,
        X: NDArray[np.floating],
        weights: NDArray[np.float64] | None,
        n_threads: int,
        algorithm: str,
    ) -> None:
        super().__init__(X, weights, NativeKernels(X, n_threads))
        self._native = _native
        self._n_threads = n_threads
        self._algorithm = algorithm
        self._points: Any = None

    def fork(self) -> NativePoints:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = NativePoints(self._X, self.weights, self._n_threads, self._algorithm)
        twin._order = self._order
        return twin

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""
        if self._points is None:
            kind = _native.PointsF32 if self.dtype == np.float32 else _native.PointsF64
            self._points = kind(self._X, self.weights, self._n_threads)
        rows, labels = (None, None) if forced is None else (forced.rows, forced.labels)
        moved, gap, weights, means, residuals, _, _ = self._points.assign(
            np.ascontiguousarray(centers), self._algorithm != "dense", rows, labels
        )
        return Assignment(moved, gap, weights, means, residuals)

    def _current(self) -> Labels:
        if self._points is None:
            raise RuntimeError("points have no labels before the first assignment")
        labels: Labels = self._points.labels()
        return labels


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
        if not native_is_available():
            raise ImportError(
                "engine='cpu' needs wolfmeans' native module, which was not built; "
                "use engine='reference' or reinstall with a C++ compiler present"
            )
        if sparse.issparse(X):
            if can_be_native(X):
                return SparseNativePoints(_native, X, weights, n_threads, algorithm)
            return LabelledPoints(X, weights, ReferenceKernels(X))
        return NativePoints(X, weights, n_threads, algorithm)
