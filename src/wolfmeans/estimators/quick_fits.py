"""Fits from which lower bounds start; their quality affects no bound's validity."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.bounds.subsampled import Sampler
from wolfmeans.engines import get_engine
from wolfmeans.estimators.kmeans import KMeans

_TRIMMED_FITS = 6


def good_centers(
    X: NDArray[np.floating],
    n_clusters: int,
    weights: NDArray[np.float64] | None,
    mass: float | None,
    n_threads: int,
) -> NDArray[np.floating]:
    """Return the centers of a good clustering; if mass is given, of the points worth keeping."""
    if weights is None:
        weights = np.ones(len(X))
    kept = weights
    for _ in range(1 if mass is None else 5):
        fit = KMeans(n_clusters, n_init=10, random_state=0, bound=None, n_threads=n_threads)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            centers: NDArray[np.floating] = fit.fit(X, sample_weight=kept).cluster_centers_
        if mass is not None:
            order = np.argsort(np.min(fit.transform(X), axis=1), kind="stable")
            before = np.cumsum(weights[order]) - weights[order]
            kept = np.zeros(len(X))
            kept[order] = np.clip(mass - before, 0.0, weights[order])
    return centers


def improved_centers(
    X: NDArray[np.floating],
    centers: NDArray[np.floating],
    weights: NDArray[np.float64] | None,
    n_threads: int,
) -> tuple[NDArray[np.floating], float]:
    """Return the centers of the local optimum next to given ones, and its inertia."""
    model = KMeans(
        len(centers), init=centers, polish="hartigan", bound=None, n_threads=n_threads, tol=0.0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, sample_weight=weights)
    return model.cluster_centers_, model.inertia_


def quick_centers(
    X: Any, n_clusters: int, share_left_out: float, sampler: Sampler, n_threads: int
) -> NDArray[np.floating]:
    """Return the centers of a quick fit.

    If a share of the points may be left out, the farthest are, and the others are fitted again.
    """
    kept = X
    for _ in range(1 if share_left_out == 0 else _TRIMMED_FITS):
        model = KMeans(
            min(n_clusters, kept.shape[0]),
            random_state=sampler.seed(),
            bound=None,
            empty="keep",
            n_threads=n_threads,
            max_iter=50,
        )
        with warnings.catch_warnings():
            # The clusters of a sample need be neither many nor final.
            warnings.simplefilter("ignore")
            centers: NDArray[np.floating] = model.fit(kept).cluster_centers_
        if share_left_out > 0:
            _, distances = get_engine().open(X, None, n_threads).nearest(centers)
            kept = X[distances <= np.quantile(distances, 1.0 - share_left_out)]
    return centers
