"""Criteria for the number of clusters: silhouettes, Calinski-Harabasz, stability, gap, elbow.

None of them is a proof. Silhouettes, stability and the gap statistic compare all pairs or repeat
fits, so they use a sample where there are many points.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.pairwise import euclidean_distances

from wolfmeans.estimators.kmeans import KMeans

MOST_ROWS = 2000
"""Rows of the sample for silhouettes; stability and the gap statistic use half of them."""
_ROWS_PER_CLUSTER = 5
_STARTS = 3


class SampledCriteria:
    """Criteria on a random sample of the points, the same for all numbers of clusters.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        The points.
    weights : ndarray of shape (n,) or None
        Their weights; points without weight are not drawn.
    rng : RandomState
        Seed of the sample and of all fits.
    """

    def __init__(
        self, X: Any, weights: NDArray[np.float64] | None, rng: np.random.RandomState
    ) -> None:
        n = X.shape[0]
        places = np.arange(n) if weights is None else np.flatnonzero(weights > 0)
        if len(places) > MOST_ROWS:
            places = np.sort(rng.choice(places, MOST_ROWS, replace=False))
        self.rows: NDArray[np.int64] = places
        self.is_sample = len(places) < n
        self._X, self._rng = X[places], rng
        self._weights = None if weights is None else weights[places]
        self._distances: NDArray[np.float64] | None = None
        few = min(len(places), MOST_ROWS // 2)
        self._few = self._X[np.sort(rng.choice(len(places), few, replace=False))]
        self._references: list[NDArray[np.float64]] = []

    def silhouette(self, labels: NDArray[Any], masses: NDArray[np.float64]) -> float:
        """Return the mean silhouette (Rousseeuw 1987) of the sampled points in clusters.

        Weights count as copies; those below 1 are scaled so that the smallest is 1.
        """
        labels, masses = labels[self.rows], masses[self.rows]
        if self._distances is None:
            self._distances = np.asarray(euclidean_distances(self._X))
        inside = masses > 0
        labels, masses = labels[inside], masses[inside]
        masses = masses / min(1.0, masses.min(initial=1.0))
        k = int(labels.max(initial=0)) + 1
        owned = np.zeros((len(labels), k))
        owned[np.arange(len(labels)), labels] = masses
        sums = self._distances[np.ix_(inside, inside)] @ owned
        totals = owned.sum(axis=0)
        own = totals[labels] - 1.0
        every = np.arange(len(labels))
        within = np.divide(sums[every, labels], own, out=np.zeros(len(labels)), where=own > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            others = np.where(totals > 0, sums / totals, np.inf)
        others[every, labels] = np.inf
        nearest = others.min(axis=1)
        larger = np.maximum(within, nearest)
        found = np.divide(nearest - within, larger, out=np.zeros(len(labels)), where=larger > 0)
        found[(own <= 0) | ~np.isfinite(nearest)] = 0.0
        return float(np.average(found, weights=masses))

    def stability(self, k: int, resamples: int) -> float | None:
        """Return how alike clusterings of random halves are: the mean adjusted Rand index.

        Each half is clustered by itself, and both results label all points; 1 means that they
        agree, 0 that they agree as much as by chance.
        """
        n = self._few.shape[0]
        if k < 2 or n // 2 < _ROWS_PER_CLUSTER * k:
            return None
        found = []
        for _ in range(resamples):
            order = self._rng.permutation(n)
            halves = (order[: n // 2], order[n // 2 :])
            one, other = (self._fit(self._few[half], k).predict(self._few) for half in halves)
            found.append(float(adjusted_rand_score(one, other)))
        return float(np.mean(found))

    def gap(self, k: int, references: int) -> tuple[float, float] | None:
        """Return the gap statistic (Tibshirani, Walther & Hastie 2001) and its standard error.

        References are uniform in the box of the principal components of the points.
        """
        if sparse.issparse(self._few) or self._few.shape[0] < _ROWS_PER_CLUSTER * k:
            return None
        points = np.asarray(self._few, dtype=np.float64)
        if not self._references:
            centered = points - points.mean(axis=0)
            axes = np.linalg.svd(centered, full_matrices=False)[2]
            # The signs are an accident of the library.
            largest = np.abs(axes).argmax(axis=1)
            axes *= np.sign(axes[np.arange(len(axes)), largest])[:, None]
            turned = centered @ axes.T
            low, high = turned.min(axis=0), turned.max(axis=0)
            self._references = [
                self._rng.uniform(low, high, size=turned.shape) for _ in range(references)
            ]
        inertia = self._fit(points, k).inertia_
        expected = [self._fit(reference, k).inertia_ for reference in self._references]
        if inertia <= 0 or min(expected) <= 0:
            return None
        logs = np.log(expected)
        error = float(logs.std()) * math.sqrt(1.0 + 1.0 / len(logs))
        return float(logs.mean()) - math.log(inertia), error

    def _fit(self, X: Any, k: int) -> KMeans:
        seed = int(self._rng.randint(np.iinfo(np.int32).max))
        model = KMeans(k, n_init=_STARTS, bound=None, random_state=seed, engine="cpu")
        with warnings.catch_warnings():
            # Fewer distinct points than clusters, which the scan itself has warned about.
            warnings.simplefilter("ignore")
            return model.fit(X)


def calinski_harabasz(X: Any, masses: NDArray[np.float64], inertia: float, k: int) -> float | None:
    """Return the variance between clusters over that within (Calinski & Harabasz 1974).

    None for one cluster, and where all points lie on their centers.
    """
    total = float(masses.sum())
    if k < 2 or total <= k or inertia <= 0:
        return None
    mean = np.asarray(masses @ X).ravel() / total
    if sparse.issparse(X):
        scatter = float(masses @ np.asarray(X.multiply(X).sum(axis=1)).ravel())
        scatter -= total * float(mean @ mean)
    else:
        scatter = float(masses @ ((X - mean) ** 2).sum(axis=1))
    return max(0.0, scatter - inertia) / (k - 1) / (inertia / (total - k))


def elbow(counts: Sequence[int], inertias: Sequence[float]) -> int | None:
    """Return the K at which the curve of inertia bends most; None for fewer than three points.

    That is where it lies farthest below the straight line from its first to its last point.

    Examples
    --------
    >>> elbow([1, 2, 3, 4, 5], [100.0, 60.0, 12.0, 10.0, 9.0]), elbow([2, 3], [5.0, 1.0])
    (3, None)
    """
    fall = inertias[0] - inertias[-1]
    if len(counts) < 3 or fall <= 0:
        return None
    width = counts[-1] - counts[0]
    below = [
        (inertias[0] - value) / fall - (count - counts[0]) / width
        for count, value in zip(counts, inertias, strict=True)
    ]
    best = int(np.argmax(below))
    return counts[best] if below[best] > 0 else None


def first_within_error(gaps: Sequence[tuple[int, float | None, float | None]]) -> int | None:
    """Return the smallest K whose gap is no less than that of K + 1 minus its standard error.

    `gaps` are (K, gap, standard error), ascending. None if no K meets the rule.

    Examples
    --------
    >>> first_within_error([(1, 0.1, 0.01), (2, 0.5, 0.01), (3, 0.4, 0.01)])
    2
    """
    for (k, gap, _), (following, more, error) in pairwise(gaps):
        if following != k + 1 or gap is None or more is None or error is None:
            continue
        if gap >= more - error:
            return k
    return None
