"""K-means as the paper writes it: w is an n x K matrix, Algorithm 2 is a few nested loops.

Slow and literal on purpose; the package is compared with it.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from wolfmeans import ConcaveProblem


def mean_of(X, weights, rows):
    """The mean of some rows, exact and then rounded to float64 and to the dtype of X."""
    total = sum(Fraction(float(weights[i])) for i in rows)
    exact = [
        sum(Fraction(float(weights[i])) * Fraction(float(X[i, j])) for i in rows) / total
        for j in range(X.shape[1])
    ]
    return np.array([float(v) for v in exact]).astype(X.dtype)


def squared_distances(X, centers):
    result = np.zeros((len(X), len(centers)))
    for j in range(X.shape[1]):
        difference = X[:, j, None].astype(np.float64) - centers[None, :, j].astype(np.float64)
        result += difference * difference
    return result


def sse(X, weights, clusters, centers):
    distances = squared_distances(X, centers)
    return sum(weights[i] * distances[i, k] for k, rows in enumerate(clusters) for i in rows)


def algorithm_2(X, weights, seeds, steps):
    """The paper's Algorithm 2: yields (clusters, centers) for t = 0, 1, ..., steps."""

    def assign(mu):
        labels = squared_distances(X, mu).argmin(axis=1)
        return [np.flatnonzero(labels == k).tolist() for k in range(len(mu))]

    def update(clusters, mu):
        new = mu.copy()
        for k, rows in enumerate(clusters):
            if sum(weights[i] for i in rows) > 0:
                new[k] = mean_of(X, weights, rows)
        return new

    clusters = assign(seeds)
    mu = update(clusters, seeds)
    yield clusters, mu
    for _ in range(steps):
        clusters = assign(mu)
        mu = update(clusters, mu)
        yield clusters, mu


@dataclass
class DensePoint:
    w: np.ndarray
    centers: np.ndarray


class DenseKMeans(ConcaveProblem):
    """The generic route: the point is a matrix, the supergradient a matrix of distances."""

    def __init__(self, X, weights):
        self.X = X
        self.weights = np.ones(len(X)) if weights is None else weights

    def start(self, seeds):
        return self._vertex(squared_distances(self.X, seeds).argmin(axis=1), seeds)

    def _vertex(self, labels, previous):
        w = np.zeros((len(self.X), len(previous)))
        w[np.arange(len(self.X)), labels] = 1.0
        centers = previous.copy()
        for k in range(len(previous)):
            rows = np.flatnonzero(labels == k).tolist()
            if sum(self.weights[i] for i in rows) > 0:
                centers[k] = mean_of(self.X, self.weights, rows)
        return DensePoint(w, centers)

    def value(self, point):
        return float(np.sum(point.w * self._matrix(point.centers)))

    def _matrix(self, centers):
        return self.weights[:, None] * squared_distances(self.X, centers)

    def supergradient(self, point):
        self._at = point.centers
        return self._matrix(point.centers)

    def minimize_linear(self, supergradient):
        return self._vertex(squared_distances(self.X, self._at).argmin(axis=1), self._at)

    def gap(self, point, vertex, supergradient):
        return float(np.sum((point.w - vertex.w) * supergradient))

    def lower_bound(self):
        return 0.0

    def fingerprint(self, point):
        return point.w.tobytes()


def smooth_sse(w, X):
    """f on the polytope, for points w whose clusters all have weight."""
    mass = w.sum(axis=0)
    means = (w.T @ X) / mass[:, None]
    return float(np.sum(w * ((X[:, None, :] - means[None]) ** 2).sum(axis=2)))
