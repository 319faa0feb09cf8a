"""The map: which points it shows, their places in a plane, and how clearly they belong to clusters.

The plane is that of the first two principal components. For few columns it comes from their scatter
matrix, about the mean, in float64; for many, and for sparse data, from a block Krylov space (Musco
& Musco 2015), for which a few products with the data are enough and no d x d matrix is made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.utils import gen_batches

from wolfmeans.core.workspace import Labels
from wolfmeans.engines import effective_threads, get_engine
from wolfmeans.views.portrait.points import Model, Points
from wolfmeans.views.portrait.profiles import Moments, moments_of

DISTANCES_AT_ONCE = 1 << 22
_FEW_COLUMNS = 128
# With more coordinates, the plane comes from a sample of the rows.
_MOST_COORDINATES = 1 << 26
_BLOCK, _DEPTH = 8, 12
# Principal components that a page offers as axes.
_COMPONENTS = 4
_PRECISION = 1e-9

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Map:
    """The plane of the first two principal components of the points in clusters."""

    rows: NDArray[np.int64]
    """(m,) the rows shown, ascending."""
    points: Matrix
    """(m, 2) their places."""
    labels: NDArray[np.int32]
    """(m,) their clusters; -1 for points that are left out."""
    centers: Matrix
    """(K, 2) the returned centers."""
    explained: tuple[float, float]
    """Share of the variance that each axis explains."""
    sampled: bool
    """Whether some points are not shown."""
    n_points: int
    """Number of points, shown or not."""
    more: Further | None = None
    """Further principal components; None if there are none."""


@dataclass(frozen=True)
class Further:
    """The third and later principal components."""

    points: Matrix
    """(m, c) of the rows of the map."""
    centers: Matrix
    """(K, c)"""
    explained: tuple[float, ...]
    """Share of the variance that each of them explains."""


@dataclass(frozen=True)
class Margins:
    """How clearly the points of the map belong to their clusters."""

    rows: NDArray[np.int64]
    """(m,) the rows of the map."""
    labels: NDArray[np.int32]
    """(m,) their clusters; -1 for points that are left out."""
    values: Matrix
    """(m,) (b - a) / max(a, b) with the distances a to the own and b to the nearest other center.

    0 on a border, 1 on the center and when there is one cluster only. Of labels from elsewhere,
    negative for points that are closer to the mean of another cluster.
    """
    mean: float
    """Mean over the points in clusters; nan if there are none."""


def sampled_rows(labels: Labels, at_most: int, rng: np.random.RandomState) -> NDArray[np.int64]:
    """Return rows, ascending: all of them, or a uniform sample in which no cluster is missing.

    If there are more labels than `at_most`, one row of each label is returned.

    Examples
    --------
    >>> labels = np.array([0] * 500 + [1] + [2] * 500, dtype=np.int32)
    >>> rows = sampled_rows(labels, 10, np.random.RandomState(0))
    >>> len(rows), np.unique(labels[rows]).tolist()
    (10, [0, 1, 2])
    """
    n = len(labels)
    if n <= at_most:
        return np.arange(n, dtype=np.int64)
    chosen = rng.permutation(n)[:at_most]
    present = np.bincount(labels + 1)
    seen = np.bincount(labels[chosen] + 1, minlength=len(present))
    missing = np.flatnonzero((present > 0) & (seen == 0)) - 1
    if not len(missing):
        return np.sort(chosen).astype(np.int64)
    members = np.flatnonzero(np.isin(labels, missing))
    added = members[np.unique(labels[members], return_index=True)[1]]
    # The rows drawn last make room, as long as their clusters have others in the sample.
    keep = np.ones(len(chosen), dtype=bool)
    excess = len(added)
    for place in range(len(chosen) - 1, -1, -1):
        label = labels[chosen[place]] + 1
        if excess > 0 and seen[label] > 1:
            keep[place] = False
            seen[label] -= 1
            excess -= 1
    return np.sort(np.concatenate([chosen[keep], added])).astype(np.int64)


def margins_of(model: Model | None, points: Points, rows: NDArray[np.int64]) -> Margins:
    """Compare the distances of the rows to their own and to the nearest other center.

    The own center of points in a fitted model is the nearest; without a model, it is that of the
    label.
    """
    shown = points.some(rows)
    values = np.ones(len(rows))
    n_clusters = len(points.centers)
    if n_clusters > 1:
        centers = points.centers.astype(points.X.dtype)
        engine = get_engine() if model is None else get_engine(model.engine)
        n_threads = effective_threads(None if model is None else model.n_threads)
        for some in gen_batches(len(rows), max(1, DISTANCES_AT_ONCE // n_clusters)):
            workspace = engine.open(shown.X[some], None, n_threads)
            roots = np.asarray(workspace.roots(centers), dtype=np.float64)
            own, other = _own_and_other(roots, None if model else shown.labels[some])
            larger = np.maximum(own, other)
            # A point on two centers at once belongs to neither.
            values[some] = np.divide(
                other - own, larger, out=np.zeros_like(larger), where=larger > 0
            )
    inside = shown.labels >= 0
    mean = float(values[inside].mean()) if inside.any() else float("nan")
    return Margins(rows=rows, labels=shown.labels, values=values, mean=mean)


def _own_and_other(roots: Matrix, labels: Labels | None) -> tuple[Matrix, Matrix]:
    """Return the distances to the own and to the nearest other center."""
    nearest, second = np.partition(roots, 1, axis=1)[:, :2].T
    if labels is None:
        return nearest, second
    own = np.where(labels >= 0, roots[np.arange(len(roots)), np.maximum(labels, 0)], nearest)
    return own, np.where(own > nearest, nearest, second)


@dataclass(frozen=True)
class Plane:
    """Two directions through the mean."""

    points: Points
    mean: Matrix
    """(d,) at the scale of the points."""
    axes: Matrix
    """(2, d) orthonormal; the second is 0 if there is only one column."""
    explained: tuple[float, float]
    """Share of the variance along each."""
    more: Matrix | None = None
    """(c, d) further directions, orthonormal; None if there are none."""
    more_explained: tuple[float, ...] = ()
    """Share of the variance along each of them."""

    def places(self, rows: Any, axes: Matrix | None = None) -> Matrix:
        """Return the (m, 2) places of rows at the scale of the points, in the caller's units."""
        axes = self.axes if axes is None else axes
        if sparse.issparse(rows):
            found = rows @ axes.T - axes @ self.mean
        else:
            found = (np.asarray(rows, dtype=np.float64) - self.mean) @ axes.T
        # Without negative zeros, whose sign depends on the order of sums.
        places: Matrix = self.points.in_units(found + 0.0)
        return places


def map_of(plane: Plane, rows: NDArray[np.int64]) -> Map:
    """Place the rows and the centers in the plane."""
    points = plane.points
    n = points.X.shape[0]
    more = None
    if plane.more is not None:
        more = Further(
            points=plane.places(points.X[rows], plane.more),
            centers=plane.places(points.centers, plane.more),
            explained=plane.more_explained,
        )
    return Map(
        rows=rows,
        points=plane.places(points.X[rows]),
        labels=points.labels[rows],
        centers=plane.places(points.centers),
        explained=plane.explained,
        sampled=len(rows) < n,
        n_points=n,
        more=more,
    )


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
    scatter_times = partial(_scatter_times, some, moments.overall, unit)
    if d <= _FEW_COLUMNS:
        values, vectors = np.linalg.eigh(scatter_times(None))
        values, axes = values[::-1][:_COMPONENTS], vectors[:, ::-1][:, :_COMPONENTS].T
    else:
        values, axes = _krylov(scatter_times, d)
    signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
    axes = axes * signs[:, None]
    first, second, *others = np.clip(values / (total * unit * unit), 0.0, 1.0).tolist()
    # Directions without variance are rounding.
    real = sum(share > _PRECISION for share in others)
    more = axes[2 : 2 + real] if real else None
    return Plane(points, mean, axes[:2], (first, second), more, tuple(others[:real]))


def _scatter_times(points: Points, mean: Matrix, unit: float, block: Matrix | None) -> Matrix:
    """Return the scatter matrix S = sum of w (x - m)(x - m)^T times a (d, b) block.

    None stands for the identity. S is that of `unit` times the points.
    """
    d = len(mean)
    if points.is_sparse:
        block = np.eye(d) if block is None else block
        sides = (points.X @ block - mean @ block) * unit
        sides *= points.masses[:, None] * unit
        # About the mean the sides add up to 0, so it need not be subtracted twice.
        return np.asarray(points.X.T @ sides)
    result = np.zeros((d, d) if block is None else block.shape)
    for rows, found in points.blocks():
        found = (found - mean) * unit
        sides = found if block is None else found @ block
        result += found.T @ (points.masses[rows, None] * sides)
    return result


def _krylov(scatter_times: Callable[[Matrix], Matrix], d: int) -> tuple[Matrix, Matrix]:
    """Return the largest eigenvalues of S and their vectors, as rows; two of them to precision."""
    start = np.random.default_rng(0).normal(size=(d, _BLOCK))
    basis = np.linalg.qr(start)[0]
    images = newest = scatter_times(basis)
    for _ in range(_DEPTH):
        small = basis.T @ images
        values, inner = linalg.eigh((small + small.T) / 2)
        values, inner = values[::-1][:_COMPONENTS], inner[:, ::-1][:, :_COMPONENTS]
        vectors = basis @ inner
        misfit = np.linalg.norm((images @ inner - vectors * values)[:, :2], axis=0)
        if misfit.max() <= _PRECISION * values[0]:
            break
        fresh = newest
        for _ in range(3):
            fresh = np.linalg.qr(fresh - basis @ (basis.T @ fresh))[0]
        newest = scatter_times(fresh)
        basis, images = np.hstack([basis, fresh]), np.hstack([images, newest])
    return values, vectors.T
