"""Data that is drawn anew for every replication.

Centers are uniform in [-10, 10]^d, as scikit-learn's make_blobs places them, and are what a stream
gives first. In every mixture the coordinates of a point have variance 1 about its center, on
average over coordinates and clusters. Rows come cluster by cluster; their order does not matter.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]
_BOX = 10.0
_STRETCH = 9.0  # the largest ratio of variances along the axes of an elliptic cluster
_FREEDOM = 3  # degrees of freedom of the heavy tails: the fourth moment is infinite


def centers(rng: np.random.Generator, k: int, d: int) -> Points:
    """Draw the true centers: the first that a stream of a mixture gives."""
    return rng.uniform(-_BOX, _BOX, (k, d))


def even_sizes(n: int, k: int) -> NDArray[np.int64]:
    """Split n points evenly; the first n mod k clusters have one more."""
    sizes = np.full(k, n // k)
    sizes[: n % k] += 1
    return sizes


def blobs(rng: np.random.Generator, k: int, out: Points) -> None:
    """Round normal clusters of equal size: make_blobs with its defaults."""
    n, d = out.shape
    places = centers(rng, k, d)
    rng.standard_normal(out=out)
    _add_to_clusters(out, places, even_sizes(n, k))


def elliptic(rng: np.random.Generator, k: int, out: Points) -> None:
    """Normal clusters, each stretched along axes of its own."""
    n, d = out.shape
    places = centers(rng, k, d)
    variances = _STRETCH ** rng.uniform(-0.5, 0.5, (k, d))
    variances /= variances.mean(axis=1, keepdims=True)
    axes = np.linalg.qr(rng.standard_normal((k, d, d)))[0]
    shapes = np.sqrt(variances)[:, :, None] * axes
    rng.standard_normal(out=out)
    begin = 0
    for shape, size in zip(shapes, even_sizes(n, k).tolist(), strict=True):
        out[begin : begin + size] = out[begin : begin + size] @ shape
        begin += size
    _add_to_clusters(out, places, even_sizes(n, k))


def unbalanced(rng: np.random.Generator, k: int, out: Points) -> None:
    """Round normal clusters whose sizes fall like 1, 1/2, 1/3, ..."""
    n, d = out.shape
    places = centers(rng, k, d)
    ends = np.cumsum(1.0 / np.arange(1, k + 1))
    ends = np.rint(n * ends / ends[-1]).astype(np.int64)
    rng.standard_normal(out=out)
    _add_to_clusters(out, places, np.diff(ends, prepend=0))


def heavy(rng: np.random.Generator, k: int, out: Points) -> None:
    """Round clusters with heavy tails: multivariate t with 3 degrees of freedom."""
    n, d = out.shape
    places = centers(rng, k, d)
    rng.standard_normal(out=out)
    # A t vector has the variance f / (f - 2), which is taken out again.
    out *= np.sqrt((_FREEDOM - 2) / rng.chisquare(_FREEDOM, (n, 1)))
    _add_to_clusters(out, places, even_sizes(n, k))


def uniform(rng: np.random.Generator, k: int, out: Points) -> None:
    """Points uniform in the box where others have their centers: no clusters at all."""
    rng.random(out=out)
    out *= 2.0 * _BOX
    out -= _BOX


def _add_to_clusters(out: Points, places: Points, sizes: NDArray[np.int64]) -> None:
    if (sizes == sizes[0]).all():
        by_cluster = out.reshape(len(sizes), -1, out.shape[1])
        by_cluster += places[:, None, :]
    else:
        out += np.repeat(places, sizes, axis=0)


Mixture = Callable[[np.random.Generator, int, Points], None]

MIXTURES: dict[str, Mixture] = {
    "blobs": blobs,
    "elliptic": elliptic,
    "unbalanced": unbalanced,
    "heavy": heavy,
    "uniform": uniform,
}
