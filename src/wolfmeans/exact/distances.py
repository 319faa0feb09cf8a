"""Canonical distances: the specification in NumPy (`exact.native` has the same bits in C++).

Dense data: in float64, acc <- acc + (x_j - c_j) * (x_j - c_j) for j = 0..d-1 in this order, every
operation rounded by itself. Sparse rows: the same sum over the stored entries, plus the part of
||c||^2 that no stored entry covers; that part is a difference of sums, which are therefore kept in
double length. A row that stores all its entries gives the dense bits.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.exact.native import (
    Centers,
    Distances,
    Labels,
    NativeKernels,
    native_is_available,
)
from wolfmeans.exact.sums import exact_squares

_BLOCK_ENTRIES = 1 << 20
UNIT = 2.0**-53
"""The unit roundoff of float64."""


class Kernels(Protocol):
    """Where canonical distances come from."""

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return the lowest nearest center of each point and its canonical distance."""

    def second_nearest(self, centers: Centers) -> tuple[Distances, Distances]:
        """Return the smallest and the second smallest canonical distance of each point."""

    def distances(self, centers: Centers, labels: Labels) -> Distances:
        """Return the canonical distance of each point to the center of its label."""

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) square roots of the canonical distances, in the centers' dtype."""

    def of(self, rows: NDArray[np.int64]) -> Kernels:
        """Return the same for some of the rows."""


class DenseKernels:
    """Canonical distances between dense rows and centers."""

    def __init__(self, X: NDArray[np.floating]) -> None:
        self.X = X

    def to_all(self, rows: slice, centers: Centers) -> NDArray[np.float64]:
        """Return the (rows, K) canonical distances."""
        x = self.X[rows].astype(np.float64)
        c = centers.astype(np.float64)
        acc = np.zeros((len(x), len(c)))
        for j in range(x.shape[1]):
            difference = x[:, j, None] - c[None, :, j]
            acc += difference * difference
        return acc

    def to_own(self, rows: slice, centers: Centers, labels: Labels) -> Distances:
        """Return the (rows,) canonical distances to centers[labels]."""
        x = self.X[rows]
        acc = np.zeros(len(x))
        for j in range(x.shape[1]):
            difference = x[:, j].astype(np.float64) - centers[labels, j].astype(np.float64)
            acc += difference * difference
        return acc


class SparseKernels:
    """Canonical distances between the rows of a CSR matrix and dense centers."""

    def __init__(self, X: sparse.csr_array) -> None:
        self.X = X

    def to_all(self, rows: slice, centers: Centers) -> NDArray[np.float64]:
        """Return the (rows, K) canonical distances."""
        start, stop, _ = rows.indices(self.X.shape[0])
        squares = SquaredCenters(centers)
        columns = [
            self._to_own(rows, centers, np.full(stop - start, k, dtype=np.int32), squares)
            for k in range(len(centers))
        ]
        return np.stack(columns, axis=1)

    def to_own(self, rows: slice, centers: Centers, labels: Labels) -> Distances:
        """Return the (rows,) canonical distances to centers[labels]."""
        return self._to_own(rows, centers, labels, SquaredCenters(centers))

    def _to_own(
        self, rows: slice, centers: Centers, labels: Labels, squares: SquaredCenters
    ) -> Distances:
        start, stop, _ = rows.indices(self.X.shape[0])
        pointers = self.X.indptr[start : stop + 1].astype(np.int64)
        lengths = np.diff(pointers)
        acc, high, low = (np.zeros(stop - start) for _ in range(3))
        for position in range(int(lengths.max(initial=0))):
            some = np.flatnonzero(lengths > position)
            entry = pointers[some] + position
            place = labels[some], self.X.indices[entry]
            difference = self.X.data[entry].astype(np.float64) - centers[place].astype(np.float64)
            acc[some] += difference * difference
            new = high[some] + squares.square[place]
            low[some] += lost_in_sum(high[some], squares.square[place], new)
            low[some] += squares.remainder[place]
            high[some] = new
        uncovered = (squares.norm_high[labels] - high) + (squares.norm_low[labels] - low)
        return acc + np.maximum(uncovered, 0.0)


class SquaredCenters:
    """c_j^2 as square + remainder, and ||c||^2 as high + low, summed in the order of columns.

    `low` collects, column by column, what rounding took from `high`, then the remainder.
    """

    def __init__(self, centers: Centers) -> None:
        self.square, self.remainder = exact_squares(centers.astype(np.float64))
        sums = np.cumsum(self.square, axis=1)
        before = np.concatenate([np.zeros((len(centers), 1)), sums[:, :-1]], axis=1)
        lost = lost_in_sum(before, self.square, sums)
        in_turn = np.stack([lost, self.remainder], axis=2).reshape(len(centers), -1)
        self.norm_high = sums[:, -1]
        self.norm_low = np.cumsum(in_turn, axis=1)[:, -1]


def lost_in_sum(
    a: NDArray[np.float64], b: NDArray[np.float64], rounded_sum: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return a + b - rounded_sum exactly (Knuth's two-sum)."""
    came = rounded_sum - a
    lost: NDArray[np.float64] = (a - (rounded_sum - came)) + (b - came)
    return lost


class ReferenceKernels:
    """Nearest centers by looking at every canonical distance, block by block."""

    def __init__(self, X: Any) -> None:
        self._pairs = SparseKernels(X) if sparse.issparse(X) else DenseKernels(X)
        self._n = X.shape[0]
        # What a row takes: its coordinates, or its stored entries.
        self._row_entries = X.nnz // max(1, self._n) if sparse.issparse(X) else X.shape[1]

    def _blocks(self, width: int) -> list[slice]:
        size = max(1, _BLOCK_ENTRIES // max(width, 1))
        return [slice(i, min(i + size, self._n)) for i in range(0, self._n, size)]

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return the lowest nearest center of each point and its canonical distance."""
        labels = np.empty(self._n, dtype=np.int32)
        distances = np.empty(self._n)
        for rows in self._blocks(len(centers)):
            block = self._pairs.to_all(rows, centers)
            labels[rows] = block.argmin(axis=1)
            distances[rows] = block.min(axis=1)
        return labels, distances

    def second_nearest(self, centers: Centers) -> tuple[Distances, Distances]:
        """Return the smallest and the second smallest canonical distance of each point."""
        nearest, second = np.empty(self._n), np.full(self._n, np.inf)
        for rows in self._blocks(len(centers)):
            block = self._pairs.to_all(rows, centers)
            if block.shape[1] > 1:
                block.partition(1, axis=1)
                second[rows] = block[:, 1]
            nearest[rows] = block[:, 0]
        return nearest, second

    def distances(self, centers: Centers, labels: Labels) -> Distances:
        """Return the canonical distance of each point to the center of its label."""
        result = np.empty(self._n)
        for rows in self._blocks(self._row_entries):
            result[rows] = self._pairs.to_own(rows, centers, labels[rows])
        return result

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) square roots of the canonical distances, in the centers' dtype."""
        roots = np.empty((self._n, len(centers)), dtype=centers.dtype)
        first = np.zeros(self._n, dtype=np.int32)
        with np.errstate(under="ignore"):
            for k in range(len(centers)):
                roots[:, k] = np.sqrt(self.distances(centers[k : k + 1], first))
        return roots

    def of(self, rows: NDArray[np.int64]) -> ReferenceKernels:
        """Return the same for some of the rows."""
        return ReferenceKernels(self._pairs.X[rows])


def dense_kernels(X: NDArray[np.floating]) -> Kernels:
    """Return the fastest kernels for a few dense rows; distances are the same bits anyway."""
    return NativeKernels(X, 1) if native_is_available() else ReferenceKernels(X)


def sparse_distance_error(centers: Centers) -> float:
    """Return what a canonical distance of a CSR row may be off by beyond (d + 3) u of itself.

    It takes a part of ||c||^2 away from ||c||^2, both summed in double length.
    """
    norms = (centers.astype(np.float64) ** 2).sum(axis=1)
    error: float = float(norms.max()) * (centers.shape[1] + 3) ** 2 * 2.0**-100
    return error
