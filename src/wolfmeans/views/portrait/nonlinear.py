"""A nonlinear map: neighbours stay neighbours where two principal components explain little.

t-SNE comes with scikit-learn; UMAP is used on request if it is installed. Both place a sample of
the points, from a fixed seed and in one thread, so that the same data gives the same map.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from wolfmeans.views.portrait.map import Plane, sampled_rows

METHODS = {"t-sne": "t-SNE", "umap": "UMAP"}
"""Names of the methods, and how they are written."""
_MOST_ROWS, _FEWEST_ROWS = 1500, 30
# Distances are taken in this many principal components.
_COMPONENTS = 30
# Below this share of the variance, two principal components explain little.
_LITTLE = 0.5


@dataclass(frozen=True)
class Nonlinear:
    """Places of points such that near neighbours are near each other; axes have no meaning."""

    method: str
    """t-SNE or UMAP."""
    points: NDArray[np.float64]
    """(m, 2) of the rows of the map; nan for those that have no place."""
    n_placed: int
    """Number of rows that have a place."""


def nonlinear_map(plane: Plane, rows: NDArray[np.int64], method: str) -> Nonlinear | None:
    """Place some of the rows; None if "auto" finds that the plane explains enough, or too little.

    Parameters
    ----------
    plane : Plane
        The plane of the first two principal components.
    rows : ndarray of shape (m,)
        The rows of the map.
    method : {"auto", "t-sne", "umap"}
        "auto" is t-SNE if two principal components explain less than half of the variance.
    """
    explained = sum(plane.explained)
    if method == "auto" and not 0 < explained < _LITTLE:
        return None
    labels = plane.points.labels[rows]
    placed = sampled_rows(labels, _MOST_ROWS, np.random.RandomState(0))
    if len(placed) < _FEWEST_ROWS or explained == 0:
        return None
    X = _reduced(plane, rows[placed])
    places = np.full((len(rows), 2), np.nan)
    places[placed] = _umap(X) if method == "umap" else _tsne(X)
    return Nonlinear(METHODS.get(method, "t-SNE"), places, len(placed))


def _reduced(plane: Plane, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the rows in a few principal components, about their largest distance in size."""
    X = plane.points.X[rows]
    few = min(_COMPONENTS, *(side - 1 for side in X.shape))
    with threadpool_limits(1):
        if plane.points.is_sparse:
            X = TruncatedSVD(few, random_state=0).fit_transform(X.astype(np.float64))
        else:
            X = np.asarray(X, dtype=np.float64) - plane.mean
            X = X / np.abs(X).max()
            if few < X.shape[1]:
                X = PCA(few, svd_solver="randomized", random_state=0).fit_transform(X)
    found: NDArray[np.float64] = X / np.abs(X).max()
    return found


def _tsne(X: NDArray[np.float64]) -> NDArray[np.float64]:
    model = TSNE(perplexity=min(30.0, (len(X) - 1) / 3), init="pca", random_state=0, n_jobs=1)
    # Sums over several threads would depend on their order.
    with threadpool_limits(1):
        return np.asarray(model.fit_transform(X), dtype=np.float64)


def _umap(X: NDArray[np.float64]) -> NDArray[np.float64]:
    try:
        import umap
    except ImportError as error:
        raise ImportError("map='umap' needs UMAP: pip install umap-learn") from error
    with warnings.catch_warnings(), threadpool_limits(1):
        # It warns that a seed means one thread, which is wanted here.
        warnings.simplefilter("ignore")
        return np.asarray(umap.UMAP(random_state=0, n_jobs=1).fit_transform(X), dtype=np.float64)
