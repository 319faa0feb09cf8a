"""Clustering around centers for any divergence: one more concave problem for the loop.

For a divergence d(x, c) >= 0, f(w) = min over centers C of sum_ik w_i w_ik d(x_i, c_k) is a minimum
of linear functions of the partition w, hence concave, whatever d is. A supergradient at w is a set
of best centers of its clusters; the oracle gives each point the center of the smallest divergence.
This is NumPy code in float64: sums are exact and rounded once, divergences are as computed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.frank_wolfe import ConcaveProblem, State
from wolfmeans.core.solution import Record, Solution
from wolfmeans.exact.distances import UNIT
from wolfmeans.exact.sums import exact_sum

Floats = NDArray[np.float64]
Labels = NDArray[np.int32]

# A computed divergence may be below 0 by this share of the largest one.
_NEGATIVE = 1e-9
# How scikit-learn's messages begin; its checks look for it.
_NEGATIVE_VALUES = "Negative values in data: "
# Two divergences that differ by less than this share count as a tie.
_TIE = 1e-9


class Divergence(ABC):
    """How far points are from centers, and the best center of a weighted set.

    Subclass it for a divergence of your own: write `distances` and `center`, and pass an instance
    to `CentroidClustering`. The center must minimize the weighted sum of the divergences.

    Examples
    --------
    Squared Mahalanobis distances; the best center is the mean:

    >>> import numpy as np
    >>> from wolfmeans import CentroidClustering, Divergence
    >>> class Mahalanobis(Divergence):
    ...     name = "squared Mahalanobis distances"
    ...
    ...     def __init__(self, precision):
    ...         self.precision = np.asarray(precision)
    ...
    ...     def distances(self, X, centers):
    ...         apart = X[:, None] - centers
    ...         return np.einsum("nki,ij,nkj->nk", apart, self.precision, apart)
    ...
    ...     def center(self, X, weights):
    ...         return np.average(X, axis=0, weights=weights)
    >>> X = np.array([[0.0, 0.0], [0.0, 9.0], [1.0, 0.0], [1.0, 9.0]])
    >>> model = CentroidClustering(2, divergence=Mahalanobis([[99.0, 0.0], [0.0, 1.0]]))
    >>> labels = model.set_params(n_init=5, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] and labels[2] == labels[3])
    True
    """

    name = "divergences"
    """What is summed, in the certificate: "sum of ... to the nearest center"."""
    unique_centers = False
    """Whether a set has only one best center; only then a certificate can name a strict minimum."""
    positive_only = False
    """Whether `check` refuses negative values; scikit-learn's tag of this name."""

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({given})"

    @abstractmethod
    def distances(self, X: Floats, centers: Floats) -> Floats:
        """Return the (n, K) divergences of points from centers, at least 0."""

    @abstractmethod
    def center(self, X: Floats, weights: Floats) -> Floats:
        """Return the (d,) center of a set of points of positive weight."""

    def check(self, X: Floats) -> None:
        """Raise a ValueError if the divergence is not defined for these points."""
        return

    def curvature(self, X: Floats) -> Floats | None:
        """Return (d,) numbers m with d(x, c) >= sum_j m_j (x_j - c_j)^2; None if none are known.

        It must hold for the points and for all centers between the smallest and the largest value
        of each column, where best centers must be. A lower bound on the inertia follows.
        """
        return None


class SquaredEuclidean(Divergence):
    """Squared Euclidean distances: K-means, in NumPy; `KMeans` is faster and exact."""

    name = "squared distances"
    unique_centers = True

    def distances(self, X: Floats, centers: Floats) -> Floats:
        """Return the (n, K) squared distances."""
        return _each(centers, lambda c: ((X - c) ** 2).sum(axis=1))

    def center(self, X: Floats, weights: Floats) -> Floats:
        """Return the mean."""
        return _mean(X, weights)

    def curvature(self, X: Floats) -> Floats:
        """Return ones."""
        return np.ones(X.shape[1])


class Manhattan(Divergence):
    """Sums of absolute differences: K-medians."""

    name = "Manhattan distances"

    def distances(self, X: Floats, centers: Floats) -> Floats:
        """Return the (n, K) sums of absolute differences."""
        return _each(centers, lambda c: np.abs(X - c).sum(axis=1))

    def center(self, X: Floats, weights: Floats) -> Floats:
        """Return the weighted median of each column, the lower one of two."""
        order = np.argsort(X, axis=0, kind="stable")
        sums = np.cumsum(weights[order], axis=0)
        middle = (sums >= 0.5 * sums[-1]).argmax(axis=0)
        columns = np.arange(X.shape[1])
        median: Floats = X[order[middle, columns], columns]
        return median

    def curvature(self, X: Floats) -> Floats:
        """Return 1 / range of each column: |a| >= a^2 / range."""
        return _inverse(np.ptp(X, axis=0))


class KullbackLeibler(Divergence):
    """Generalized Kullback-Leibler divergences: sum of x log(x / c) - x + c, for x >= 0."""

    name = "Kullback-Leibler divergences"
    unique_centers = positive_only = True

    def check(self, X: Floats) -> None:
        """Refuse negative values."""
        needed = "Kullback-Leibler divergences need values of at least 0"
        _refuse(X < 0, X, _NEGATIVE_VALUES + needed)

    def distances(self, X: Floats, centers: Floats) -> Floats:
        """Return the (n, K) divergences; infinite where c is 0 and x is not."""

        def to(c: Floats) -> Floats:
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = np.where(X > 0, X * np.log(X / c) - X, 0.0) + c
            total: Floats = np.maximum(terms, 0.0).sum(axis=1)
            return total

        return _each(centers, to)

    def center(self, X: Floats, weights: Floats) -> Floats:
        """Return the mean."""
        return _mean(X, weights)

    def curvature(self, X: Floats) -> Floats:
        """Return 1 / (2 max) of each column: the second derivative of x log x is 1 / x."""
        return 0.5 * _inverse(X.max(axis=0))


class ItakuraSaito(Divergence):
    """Itakura-Saito divergences: sum of x / c - log(x / c) - 1, for x > 0."""

    name = "Itakura-Saito divergences"
    unique_centers = positive_only = True

    def check(self, X: Floats) -> None:
        """Refuse values that are not positive."""
        needed = "Itakura-Saito divergences need positive values"
        _refuse(X < 0, X, _NEGATIVE_VALUES + needed)
        _refuse(X == 0, X, needed)

    def distances(self, X: Floats, centers: Floats) -> Floats:
        """Return the (n, K) divergences."""

        def to(c: Floats) -> Floats:
            ratio = X / c
            total: Floats = np.maximum(ratio - np.log(ratio) - 1.0, 0.0).sum(axis=1)
            return total

        return _each(centers, to)

    def center(self, X: Floats, weights: Floats) -> Floats:
        """Return the mean."""
        return _mean(X, weights)

    def curvature(self, X: Floats) -> Floats:
        """Return 1 / (2 max^2): the second derivative of -log x is 1 / x^2."""
        return 0.5 * _inverse(X.max(axis=0)) ** 2


class Mixed(Divergence):
    """Numeric and categorical columns: squared distances, and a price for each other category.

    Parameters
    ----------
    categorical : sequence of int or "all"
        The columns whose values are codes of categories.
    gamma : float, default=1.0
        What one other category costs.

    Examples
    --------
    >>> from wolfmeans.divergences import Mixed
    >>> X = [[0.1, 0], [0.2, 0], [5.0, 1], [5.1, 1]]
    >>> from wolfmeans import CentroidClustering
    >>> model = CentroidClustering(2, divergence=Mixed([1]), random_state=0).fit(X)
    >>> sorted(model.cluster_centers_[:, 1].tolist())
    [0.0, 1.0]
    """

    def __init__(self, categorical: Sequence[int] | str, gamma: float = 1.0) -> None:
        if not 0 < gamma < math.inf:
            raise ValueError(f"gamma must be a positive number; got {gamma!r}")
        self.categorical, self.gamma = categorical, gamma

    @property
    def name(self) -> str:  # type: ignore[override]
        """What is summed."""
        return "mismatches" if self.categorical == "all" else "distances of mixed columns"

    def _is_categorical(self, n_columns: int) -> NDArray[np.bool_]:
        chosen = np.ones(n_columns, dtype=bool)
        if not isinstance(self.categorical, str):
            chosen[:] = False
            chosen[list(self.categorical)] = True
        return chosen

    def distances(self, X: Floats, centers: Floats) -> Floats:
        """Return squared distances of numeric columns plus gamma for each other category."""
        categories = self._is_categorical(X.shape[1])

        def to(c: Floats) -> Floats:
            other = (X[:, categories] != c[categories]).sum(axis=1)
            squares = ((X[:, ~categories] - c[~categories]) ** 2).sum(axis=1)
            total: Floats = squares + self.gamma * other
            return total

        return _each(centers, to)

    def center(self, X: Floats, weights: Floats) -> Floats:
        """Return means, and the most frequent category of each categorical column."""
        categories = self._is_categorical(X.shape[1])
        found = _mean(X, weights)
        for j in np.flatnonzero(categories):
            values, which = np.unique(X[:, j], return_inverse=True)
            found[j] = values[np.bincount(which, weights=weights).argmax()]
        return found

    def curvature(self, X: Floats) -> Floats:
        """Return 1 for numeric columns, gamma / range^2 for codes: another one costs gamma."""
        of_codes = self.gamma * _inverse(np.ptp(X, axis=0)) ** 2
        return np.where(self._is_categorical(X.shape[1]), of_codes, 1.0)


def _each(centers: Floats, to: Callable[[Floats], Floats]) -> Floats:
    """Return a column of divergences for each center."""
    return np.stack([to(c) for c in centers], axis=1)


def _mean(X: Floats, weights: Floats) -> Floats:
    found: Floats = np.average(X, axis=0, weights=weights)
    # Rounding must not take it out of the range of the values.
    return np.clip(found, X.min(axis=0), X.max(axis=0))


def _inverse(sizes: Floats) -> Floats:
    """Return 1 / size rounded down, 0 for columns of size 0."""
    usable = sizes > 0
    return np.where(usable, (1.0 - 8.0 * UNIT) / np.where(usable, sizes, 1.0), 0.0)


def _refuse(bad: NDArray[np.bool_], X: Floats, why: str) -> None:
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(f"{why}; X has {X[row, column]:g} at row {row}, column {column}")


DIVERGENCES = {
    "squared-euclidean": SquaredEuclidean(),
    "manhattan": Manhattan(),
    "kullback-leibler": KullbackLeibler(),
    "itakura-saito": ItakuraSaito(),
    "modes": Mixed("all"),
}
"""Divergences that have a name."""


@dataclass(frozen=True)
class Clusters:
    """A partition with its centers."""

    labels: Labels
    """(n,) the cluster of each point."""
    centers: Floats
    """(K, d) best centers of its clusters; chosen points where one is empty."""
    weights: Floats
    """(K,) total weight of each cluster."""
    value: float
    """Sum of w d at these labels and centers."""
    shift: float
    """Sum of squared moves of the centers on arrival."""
    movement: float = 0.0
    """What moving the centers gained on arrival."""

    @property
    def empty(self) -> NDArray[np.bool_]:
        """(K,) whether the cluster has no weight."""
        return np.equal(self.weights, 0.0)


class DivergenceProblem(ConcaveProblem[Clusters]):
    """Clustering of weighted points around centers.

    A center moves only if that lowers the sum, so that descent does not depend on how well a
    divergence computes its centers.

    Parameters
    ----------
    X : ndarray of shape (n, d)
    weights : ndarray of shape (n,)
    divergence : Divergence
    empty : {"farthest", "keep"}
        The center of an empty cluster: the point with the largest cost, or where it was.
    """

    def __init__(self, X: Floats, weights: Floats, divergence: Divergence, empty: str) -> None:
        self.X, self.weights, self.divergence = X, weights, divergence
        self._empty = empty
        self._rows = np.arange(len(X))

    def distances(self, centers: Floats) -> Floats:
        """Return the (n, K) divergences, checked."""
        found = np.asarray(self.divergence.distances(self.X, centers), dtype=np.float64)
        if found.shape != (len(self.X), len(centers)):
            raise ValueError(
                f"divergence.distances returned shape {found.shape}; "
                f"{(len(self.X), len(centers))} is needed"
            )
        largest = np.where(np.isfinite(found), np.abs(found), 0.0).max(initial=0.0)
        if not (found >= -_NEGATIVE * largest).all():
            raise ValueError("divergence.distances must be at least 0 and not NaN")
        return np.maximum(found, 0.0)

    def partition(self, seeds: Floats) -> Clusters:
        """Return the first partition: each point to its nearest seed."""
        labels = self.distances(seeds).argmin(axis=1).astype(np.int32)
        return self._at(labels, seeds)

    def value(self, point: Clusters) -> float:
        """Return the sum of w d."""
        return point.value

    def lower_bound(self) -> float:
        """Return 0: no divergence is negative."""
        return 0.0

    def fingerprint(self, point: Clusters) -> bytes:
        """Return the labels and the centers."""
        return point.labels.tobytes() + point.centers.tobytes()

    def supergradient(self, point: Clusters) -> Floats:
        """Return the centers; those of empty clusters at the points of largest cost."""
        if self._empty == "keep" or not point.empty.any():
            return point.centers
        centers = point.centers.copy()
        costs = self._costs(point.labels, centers)
        for k in np.flatnonzero(point.empty):
            farthest = int(costs.argmax())
            if costs[farthest] <= 0:
                break
            centers[k] = self.X[farthest]
            costs = np.minimum(costs, self.weights * self.distances(centers[k : k + 1])[:, 0])
        return centers

    def minimize_linear(self, supergradient: Floats) -> Clusters:
        """Return the partition of smallest divergences, ties to the lowest index."""
        labels = self.distances(supergradient).argmin(axis=1).astype(np.int32)
        return self._at(labels, supergradient)

    def _costs(self, labels: Labels, centers: Floats) -> Floats:
        """Return w d of each point to the center of its label; 0 for points without weight."""
        own = self.distances(centers)[self._rows, labels]
        return np.where(self.weights > 0, self.weights * np.where(self.weights > 0, own, 0.0), 0.0)

    def _at(self, labels: Labels, before: Floats) -> Clusters:
        """Return a partition with its centers, which come from those before."""
        weights: Floats = np.zeros(len(before))
        np.add.at(weights, labels, self.weights)
        aims = before.copy()
        for k in np.flatnonzero(weights > 0):
            own = (labels == k) & (self.weights > 0)
            aims[k] = self.divergence.center(self.X[own], self.weights[own])
        old, new = self._costs(labels, before), self._costs(labels, aims)
        centers, movement = before.copy(), []
        for k in np.flatnonzero(weights > 0):
            own = labels == k
            terms = [*old[own].tolist(), *(-new[own]).tolist()]
            gain = math.inf if math.inf in terms else exact_sum(terms)
            if gain > 0:
                centers[k] = aims[k]
                movement.append(gain)
        costs = self._costs(labels, centers)
        moved = centers - before
        return Clusters(
            labels=labels,
            centers=centers,
            weights=weights,
            value=exact_sum(costs.tolist()),
            shift=float((moved[weights > 0] ** 2).sum()),
            movement=math.inf if math.inf in movement else exact_sum(movement),
        )

    def evaluate(self, state: State[Clusters]) -> Record:
        """Ask the oracle at the current centers and measure the step."""
        point = state.point
        centers = self.supergradient(point)
        state.point = Clusters(point.labels, centers, point.weights, point.value, point.shift)
        vertex = self.minimize_linear(centers)
        here, there = self._costs(point.labels, centers), self._costs(vertex.labels, centers)
        moved = point.labels != vertex.labels
        gap = exact_sum([*here[moved].tolist(), *(-there[moved]).tolist()])
        state.vertex, state.vertex_value = vertex, vertex.value
        return Record(
            t=state.t,
            value=state.value,
            gap=gap,
            movement=vertex.movement,
            stationary=not moved.any(),
            moved=int(moved.sum()),
            empty=int(point.empty.sum()),
            shift=point.shift,
            seconds=perf_counter() - state.started,
        )

    def acceptable(self, state: State[Clusters]) -> bool:
        """Whether no cluster is empty that could be filled."""
        vertex = state.vertex
        if self._empty == "keep" or vertex is None or not vertex.empty.any():
            return True
        return not self._costs(vertex.labels, state.point.centers).any()

    def clarke_gap(self, solution: Solution[Clusters]) -> float:
        """Return the gap with the centers of empty clusters ignored."""
        used = ~solution.point.empty
        if used.all():
            return solution.gap
        every = self.distances(solution.point.centers)
        losses = self.weights * (every[:, used].min(axis=1) - every.min(axis=1))
        return max(0.0, exact_sum([solution.gap, *(-losses).tolist()]))

    def tied(self, solution: Solution[Clusters]) -> bool:
        """Whether some point of positive weight may be tied, or some best center is not unique."""
        if not self.divergence.unique_centers:
            return True
        if len(solution.point.centers) == 1:
            return False
        two = np.partition(self.distances(solution.point.centers), 1, axis=1)[self.weights > 0, :2]
        return bool((two[:, 1] - two[:, 0] <= _TIE * two[:, 1]).any())
