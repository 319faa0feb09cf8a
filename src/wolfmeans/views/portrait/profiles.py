"""Profiles: the means of the features in the clusters, against those of all points.

Sums are taken of differences from the centers, which are small, so that a far offset of the data
costs no digits. With R_k the sum of w (x - c_k) over cluster k and W_k its weight, its mean is
c_k + R_k / W_k, and the variance of a feature is that within the clusters plus that of their means.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.exact.distances import UNIT
from wolfmeans.views.portrait.points import Points

# The largest former mean assumed in `_rounding`, in standard deviations: of columns computed in
# float64 throughout, and of columns from which it was subtracted in the dtype of the data.
_FORMER_MEANS, _FORMER_MEANS_IN_DTYPE = 2000, 30


@dataclass(frozen=True)
class Profiles:
    """Feature means of the clusters, compared with those of all points that are in clusters."""

    order: NDArray[np.int64]
    """(d,) features, the most distinguishing first."""
    strength: NDArray[np.float64]
    """(d,) share of each feature's variance that lies between the clusters, 0 to 1."""
    overall: NDArray[np.float64]
    """(d,) mean of each feature."""
    spread: NDArray[np.float64]
    """(d,) standard deviation of each feature."""
    means: NDArray[np.float64]
    """(K, d) mean of each feature in each cluster; `overall` where a cluster has no weight."""
    deviation: NDArray[np.float64]
    """(K, d) (means - overall) / spread; 0 where the spread is 0."""
    rounding: NDArray[np.float64]
    """(d,) means this close to 0 may come from rounding alone; pages show them as 0."""


@dataclass(frozen=True)
class Moments:
    """Sums over the clusters, at the scale of the points."""

    weights: NDArray[np.float64]
    """(K,) total mass."""
    means: NDArray[np.float64]
    """(K, d) means; those of all points where a cluster has no mass."""
    overall: NDArray[np.float64]
    """(d,) mean of all points in clusters."""
    within: NDArray[np.float64]
    """(d,) sum of squares of each feature about the means of the clusters."""
    between: NDArray[np.float64]
    """(d,) sum of squares of these means about the overall mean."""
    sse: NDArray[np.float64]
    """(K,) sum of squared distances to the center."""

    @property
    def variances(self) -> NDArray[np.float64]:
        """(d,) variance of each feature over the points in clusters."""
        total = self.weights.sum()
        return (self.within + self.between) / total if total > 0 else self.within


def moments_of(points: Points) -> Moments:
    """Sum over the clusters."""
    weights: NDArray[np.float64] = np.bincount(
        points.clusters, weights=points.masses, minlength=len(points.centers)
    ).astype(np.float64)
    deviations, squares, sse = (_sparse_sums if points.is_sparse else _dense_sums)(points, weights)
    used = weights > 0
    shifts = np.divide(
        deviations, weights[:, None], out=np.zeros_like(deviations), where=used[:, None]
    )
    means = points.centers + shifts
    # About the heaviest mean and not about 0, where an offset would drown the differences.
    base = means[int(np.argmax(weights))]
    total = weights.sum()
    overall = base + (weights @ np.where(used[:, None], means - base, 0.0)) / max(total, 1e-300)
    means[~used] = overall
    return Moments(
        weights=weights,
        means=means,
        overall=overall,
        within=np.maximum(squares - weights @ shifts**2, 0.0),
        between=weights @ (means - overall) ** 2,
        sse=sse,
    )


def _dense_sums(points: Points, weights: NDArray[np.float64]) -> tuple[Any, Any, Any]:
    centers, clusters = points.centers, points.clusters
    deviations, squares = np.zeros_like(centers), np.zeros(centers.shape[1])
    sse = np.zeros(len(centers))
    for rows, block in points.blocks():
        here, masses = clusters[rows], points.masses[rows]
        block = block - centers[here]
        deviations += _membership(here, masses, len(centers)) @ block
        block *= block
        squares += masses @ block
        sse += np.bincount(here, weights=masses * block.sum(axis=1), minlength=len(centers))
    return deviations, squares, sse


def _sparse_sums(points: Points, weights: NDArray[np.float64]) -> tuple[Any, Any, Any]:
    """Expand the squares, so that zeros cost nothing."""
    X, centers, clusters = points.X, points.centers, points.clusters
    X = sparse.csr_array((X.data.astype(np.float64), X.indices, X.indptr), shape=X.shape)
    sums = np.asarray((_membership(clusters, points.masses, len(centers)) @ X).toarray())
    squared = sparse.csr_array((X.data**2, X.indices, X.indptr), shape=X.shape)
    raw = squared.T @ points.masses
    squares = raw - 2.0 * (centers * sums).sum(axis=0) + weights @ centers**2
    # The variance of a constant column is 0; anything else is rounding.
    squares[squares <= 8 * UNIT * len(clusters) * raw] = 0.0
    owner = np.repeat(clusters, np.diff(X.indptr))
    crossed = sparse.csr_array((X.data * centers[owner, X.indices], X.indices, X.indptr), X.shape)
    norms = (centers**2).sum(axis=1)
    distances = squared.sum(axis=1) - 2.0 * crossed.sum(axis=1) + norms[clusters]
    masses = points.masses * np.maximum(distances, 0.0)
    sse = np.bincount(clusters, weights=masses, minlength=len(centers))
    return sums - weights[:, None] * centers, squares, sse


def _membership(clusters: NDArray[np.intp], masses: NDArray[np.float64], n_clusters: int) -> Any:
    """Return the (K, n) matrix that sums rows by cluster."""
    places = (clusters, np.arange(len(clusters)))
    return sparse.csr_array((masses, places), shape=(n_clusters, len(clusters)))


def profiles_of(points: Points, moments: Moments) -> Profiles:
    """Compare the means of the clusters with those of all points."""
    total = moments.within + moments.between
    strength = np.divide(moments.between, total, out=np.zeros_like(total), where=total > 0)
    spread = np.sqrt(moments.variances)
    apart = moments.means - moments.overall
    deviation = np.divide(apart, spread, out=np.zeros_like(apart), where=spread > 0)
    return Profiles(
        order=np.argsort(-strength, kind="stable").astype(np.int64),
        strength=strength,
        overall=points.in_units(moments.overall),
        spread=points.in_units(spread),
        means=points.in_units(moments.means),
        deviation=deviation,
        rounding=points.in_units(_rounding(spread, points.X.dtype)),
    )


def _rounding(spread: NDArray[np.float64], dtype: Any) -> NDArray[np.float64]:
    """Return how far from 0 rounding alone can take the mean of a column that was centered.

    Let u be the unit roundoff of the dtype. An entry is rounded when the former mean m is
    subtracted and when it is divided by the spread s. That moves the mean by 2 u mean|x| at most,
    and mean|x| is at most s. If m was rounded to the dtype before, the mean is off by u |m| more. A
    float64 sum leaves an error of m of about 2^-53 |m|. So a mean is rounding if it is within

        (2 u + u |m| / s + 2^-53 |m| / s) s

    of 0. The data does not contain m. An error of a float64 sum is assumed for m up to 2,000 s: a
    mean of 1e-13 s is never a real one. An error from rounding m to the dtype is assumed for m up
    to 30 s only, because small means of float32 columns can be real.
    """
    unit = float(np.finfo(dtype).eps) / 2
    return ((2 + _FORMER_MEANS_IN_DTYPE) * unit + _FORMER_MEANS * UNIT) * spread


def zero_if_rounding(profiles: Profiles) -> Profiles:
    """Return the profiles with 0 for means that may come from rounding alone, as pages show them.

    A constant column has no spread, and its mean is shown as it is.
    """
    overall, means = (
        np.where(np.abs(found) <= profiles.rounding, 0.0, found)
        for found in (profiles.overall, profiles.means)
    )
    return replace(profiles, overall=overall, means=means)
