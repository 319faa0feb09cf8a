"""The plane of the first two principal components, in which points and centers are shown.

For few columns it comes from their scatter matrix, about the mean, in float64; for many, and for
sparse data, from a block Krylov space (Musco & Musco 2015), for which a few products with the data
are enough and no d x d matrix is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from wolfmeans.views.portrait.points import Points
from wolfmeans.views.portrait.profiles import Moments, moments_of
from wolfmeans.views.portrait.shapes import Map

_FEW_COLUMNS = 128
# Above so many coordinates the plane comes from a sample of the rows.
_MOST_COORDINATES = 1 << 26
_BLOCK, _DEPTH = 8, 12
_PRECISION = 1e-9

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Plane:
    """Two directions through the mean."""

    points: Points
    mean: Matrix
    """(d,) at the scale of the points."""
    axes: Matrix
    """(2, d) orthonormal; the second is 0 when there is one column only."""
    explained: tuple[float, float]
    """Share of the variance along each."""

    def places(self, rows: Any) -> Matrix:
        """Return the (m, 2) places of rows at the scale of the points, in the caller's units."""
        if sparse.issparse(rows):
            found = rows @ self.axes.T - self.axes @ self.mean
        else:
            found = (np.asarray(rows, dtype=np.float64) - self.mean) @ self.axes.T
        # Without negative zeros, whose sign depends on the order of sums.
        places: Matrix = self.points.in_units(found + 0.0)
        return places


def plane_of(points: Points, moments: Moments, rng: np.random.RandomState) -> Plane:
    """Return the plane of the points in clusters, each with its mass."""
    n, d = points.X.shape
    mean = moments.overall
    if d == 1 or not moments.variances.any():
        explained = (1.0, 0.0) if moments.variances.any() else (0.0, 0.0)
        return Plane(points, mean, np.eye(2, d), explained)
    some = points
    if n * d > _MOST_COORDINATES:
        some = points.some(np.sort(rng.permutation(n)[: max(1, _MOST_COORDINATES // d)]))
        moments = moments_of(some)
    total = float((moments.within + moments.between).sum())
    # In units of the spread, so that no square leaves float64.
    unit = 2.0 ** -int(np.frexp(np.sqrt(total))[1])
    products = _Products(some, moments.overall, unit)
    if d <= _FEW_COLUMNS:
        values, vectors = np.linalg.eigh(products.whole())
        values, axes = values[:-3:-1], vectors[:, :-3:-1].T
    else:
        values, axes = _krylov(products, d)
    signs = np.sign(axes[np.arange(2), np.abs(axes).argmax(axis=1)])
    first, second = np.clip(values / (total * unit * unit), 0.0, 1.0).tolist()
    return Plane(points, mean, axes * signs[:, None], (first, second))


@dataclass(frozen=True)
class _Products:
    """The scatter matrix S = sum of w (x - m)(x - m)^T, known by its products."""

    points: Points
    mean: Matrix
    unit: float

    def with_block(self, block: Matrix) -> Matrix:
        """Return S times a (d, b) block."""
        points = self.points
        if points.is_sparse:
            sides = (points.X @ block - self.mean @ block) * self.unit
            sides *= points.masses[:, None] * self.unit
            # About the mean the sides add up to 0, so that it need not be taken off twice.
            return np.asarray(points.X.T @ sides)
        result = np.zeros(block.shape)
        for rows, found in points.blocks():
            found = (found - self.mean) * self.unit
            result += found.T @ (points.masses[rows, None] * (found @ block))
        return result

    def whole(self) -> Matrix:
        """Return S itself."""
        points = self.points
        if points.is_sparse:
            return self.with_block(np.eye(len(self.mean)))
        result = np.zeros((len(self.mean), len(self.mean)))
        for rows, found in points.blocks():
            found = (found - self.mean) * self.unit
            result += found.T @ (points.masses[rows, None] * found)
        return result


def _krylov(products: _Products, d: int) -> tuple[Matrix, Matrix]:
    """Return the two largest eigenvalues of S and their vectors, as rows."""
    start = np.random.default_rng(0).normal(size=(d, _BLOCK))
    basis = np.linalg.qr(start)[0]
    images = newest = products.with_block(basis)
    for _ in range(_DEPTH):
        small = basis.T @ images
        values, inner = linalg.eigh((small + small.T) / 2)
        values, inner = values[:-3:-1], inner[:, :-3:-1]
        vectors = basis @ inner
        misfit = np.linalg.norm(images @ inner - vectors * values, axis=0)
        if misfit.max() <= _PRECISION * values[0]:
            break
        fresh = newest
        for _ in range(3):
            fresh = np.linalg.qr(fresh - basis @ (basis.T @ fresh))[0]
        newest = products.with_block(fresh)
        basis, images = np.hstack([basis, fresh]), np.hstack([images, newest])
    return values, vectors.T


def map_of(plane: Plane, rows: NDArray[np.int64]) -> Map:
    """Place the rows and the centers in the plane."""
    points = plane.points
    n = points.X.shape[0]
    return Map(
        rows=rows,
        points=plane.places(points.X[rows]),
        labels=points.labels[rows],
        centers=plane.places(points.centers),
        explained=plane.explained,
        sampled=len(rows) < n,
        n_points=n,
    )
