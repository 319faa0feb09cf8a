"""ConstrainedKMeans: K-means with limits on the sizes of clusters, over the same loop."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from wolfmeans.bounds import LowerBound
from wolfmeans.certificate.record import Certificate
from wolfmeans.core.constrained import POLICIES, ConstrainedProblem, size_limits, size_range
from wolfmeans.core.frank_wolfe import Callback
from wolfmeans.core.transport import SizeLimits
from wolfmeans.engines import Chosen, effective_threads, get_engine
from wolfmeans.engines.sized import Part, SizeLimited, cost_terms
from wolfmeans.engines.tensors import OnDevice
from wolfmeans.estimators.kmeans import FitFromStarts, KMeans
from wolfmeans.estimators.parameters import Bound, Empty, Stop, ToleranceScale
from wolfmeans.fitting.fit import (
    Fit,
    OpenedForFit,
    certificate_of,
    scale_notes,
)
from wolfmeans.inputs import validation
from wolfmeans.inputs.kinds import DataKind, kind_of_data

_LIKE_KMEANS = (
    "n_clusters",
    "init",
    "n_init",
    "max_iter",
    "tol",
    "verbose",
    "random_state",
    "stop",
    "tol_scale",
    "bound",
    "engine",
    "n_threads",
    "time_limit",
    "callback",
)


class ConstrainedKMeans(FitFromStarts):
    """K-means whose clusters have a least and a largest size, with a certificate.

    Every step assigns all points at the least cost that the limits allow, which is a transport
    problem. `size_min=size_max` gives balanced clusters; ``size_min=1`` rules out empty ones.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters K.
    size_min : number, array-like of shape (n_clusters,) or None, default=None
        Least size of every cluster, or of each one: a number of points, or, if `fit` gets
        `sample_weight`, a weight. None means 0.
    size_max : number, array-like of shape (n_clusters,) or None, default=None
        Largest size, likewise. None means no limit.
    init : str, callable or array of shape (n_clusters, n_features), default="k-means++"
        Initial centers, as for `KMeans`; the limits hold from the first assignment on. With one
        limit for each cluster, cluster k begins at the k-th center.
    empty : {"farthest", "keep", "resample", "best"}, default="farthest"
        How the center of an empty cluster is chosen, where `size_min` allows one.
    bound : str or None, default="auto"
        The lower bound that a fit computes, as for `KMeans`. Bounds for clusters of any size hold,
        because limits only take partitions away; "neighbours" uses the limits, too.
    engine : {"auto", "cpu", "reference"}, default="auto"
        Compute engine; results are identical. There is none for the GPU.
    n_init, max_iter, tol, verbose, random_state, stop, tol_scale, n_threads, time_limit, callback
        As for `KMeans`.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centers, in the dtype of the data.
    initial_centers_ : ndarray of shape (n_clusters, n_features)
        The initial centers of the best start.
    labels_ : ndarray of shape (n_samples,)
        The cluster of each point, within the limits; `predict` ignores them and may differ. Of a
        split point it is the cluster with the largest share, of equal shares the lowest.
    splits_ : list of tuple (row, cluster, weight)
        The parts of the points that are split between clusters. Without weights there are none;
        with weights, some points may be split so that the limits can be met exactly.
    sizes_ : ndarray of shape (n_clusters,)
        Number of points, or the weight, in each cluster; never outside the limits.
    prices_ : ndarray of shape (n_clusters,)
        What the last unit of size costs: positive for a cluster that is full, negative for one
        that would be too small. Every point is where its squared distance plus the price is
        smallest.
    duality_gap_ : float
        Proof of the assignment at the returned centers: no other one within the limits has an
        inertia that is lower by more than this. Computed in exact arithmetic from the prices.
    inertia_ : float
        Sum of squared distances to the centers of the clusters, weighted.
    n_iter_, certificate_, trace_, engine_, n_features_in_, feature_names_in_
        As for `KMeans`.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans import ConstrainedKMeans
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [20.0]])
    >>> km = ConstrainedKMeans(n_clusters=2, size_min=3, random_state=0).fit(X)
    >>> km.sizes_, km.inertia_
    (array([3., 3.]), 184.0)
    >>> sorted(np.flatnonzero(km.labels_ == km.labels_[-1]).tolist())
    [3, 4, 5]
    >>> bool((km.predict(X) == km.labels_).all())  # the limits do not bind new points
    False
    """

    checkpoint = None
    _problem = ConstrainedProblem
    _runs_at_once = False
    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012 - scikit-learn's protocol
        **{name: KMeans._parameter_constraints[name] for name in _LIKE_KMEANS},
        # Numbers, or one for each cluster: `size_limits` says what is wrong with others.
        "size_min": "no_validation",
        "size_max": "no_validation",
        "empty": [StrOptions(set(POLICIES))],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        size_min: Any = None,
        size_max: Any = None,
        init: Any = "k-means++",
        n_init: int | Literal["auto"] = "auto",
        max_iter: int | None = 300,
        tol: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        stop: Stop | None = None,
        tol_scale: ToleranceScale | None = None,
        empty: Empty = "farthest",
        bound: Bound | None = "auto",
        engine: Literal["auto", "cpu", "reference"] = "auto",
        n_threads: int | None = None,
        time_limit: float | None = None,
        callback: Callback | None = None,
    ) -> None:
        self._set_parameters(locals())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster X within the size limits.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The points, in memory. Never changed.
        y : ignored
            Present by convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the points, at least 0. Sizes and limits are weights then, and points may be
            split between clusters (`splits_`).

        Returns
        -------
        self : object
            The fitted estimator.
        """
        _refuse_other_kinds(X)
        super().fit(X, sample_weight=sample_weight)
        return self

    def _chosen_engine(self, X: Any, n_threads: int) -> Chosen:
        if self.engine == "gpu" or isinstance(X, OnDevice):
            raise ValueError(
                "ConstrainedKMeans has no GPU engine: the assignment is one problem over all "
                "points; use engine='auto' and data on the host"
            )
        return Chosen(get_engine(self.engine))

    def _limits(self, weights: NDArray[np.float64] | None, n: int) -> SizeLimits:
        return size_limits(self.size_min, self.size_max, self.n_clusters, weights, n)

    def _fit(self, data: OpenedForFit) -> None:
        points = data.workspace
        workspace: Any = SizeLimited(points, self._limits(points.weights, points.n_points))
        generator = check_random_state(self.random_state)
        best, notes = self._best_of_starts(data, generator, oracle=workspace)
        certificate = certificate_of(
            best,
            data.scaled,
            method=self.bound,
            notes=(*notes, *scale_notes(data.X), *data.notes),
            n_threads=effective_threads(self.n_threads),
            random=lambda: check_random_state(self.random_state),
        )
        self._keep(best, certificate, data.exponent)
        self._conclude(data, notes)

    def _keep(self, fit: Fit, certificate: Certificate, exponent: int) -> None:
        """Set the fitted attributes, in the units of the caller's data."""
        workspace: Any = fit.problem.workspace
        limits: SizeLimits = workspace.size_limits
        sizes, (low, high) = fit.solution.vertex.weights, size_range(limits)
        found = workspace.optimality(fit.centers)
        certificate = replace(
            certificate,
            duality_gap=found.gap,
            smallest_size=float(sizes.min()),
            largest_size=float(sizes.max()),
            size_min=low,
            size_max=high if math.isfinite(high) else None,
            split_points=len({part.row for part in workspace.splits()}),
        )
        super()._keep(fit, certificate, exponent)
        self.sizes_ = sizes.copy()
        self.prices_ = validation.ldexp(workspace.prices(), -2 * exponent)
        self.duality_gap_ = validation.unscaled(found.gap, exponent)
        self._set_parts(workspace.splits(), workspace.n_points)

    def _set_parts(self, parts: Iterable[Any], n_points: int) -> None:
        """Set the parts of split points, after checking where they are."""
        self._parts = [Part(*part) for part in parts]
        if any(part.row >= n_points or part.cluster >= self.n_clusters for part in self._parts):
            raise ValueError("its _parts are of points or clusters that are not there")
        self.splits_ = [(part.row, part.cluster, part.high + part.low) for part in self._parts]

    def _size_range(self) -> tuple[float, float]:
        found: Certificate = vars(self)["certificate_"]
        assert found.size_min is not None
        return found.size_min, math.inf if found.size_max is None else found.size_max

    def _certified_by(self, bounds: list[LowerBound], *, lowers_limit: bool = True) -> Certificate:
        # A better clustering that a bound finds may be outside the limits.
        within = [replace(bound, better_centers=None, better_inertia=None) for bound in bounds]
        return super()._certified_by(within, lowers_limit=lowers_limit)

    def _inertia_on(self, X: Any, weights: NDArray[np.float64] | None) -> float:
        """Return what the inertia of the labels is on X; rows are in the order of the fit."""
        workspace, centers, exponent = self._opened(X)
        terms = cost_terms(workspace, weights, self.labels_, self._parts, centers)
        return validation.unscaled(workspace.total(terms), exponent)

    def assign(self, X: Any, sample_weight: Any = None) -> NDArray[np.int32]:
        """Return the clusters of points at the least cost within the size limits.

        The centers stay where they are. The limits are those of the estimator, so they must suit
        the number, or the weight, of these points; `set_params` changes them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The points.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights. A split point gets the cluster with the largest share.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The cluster of each point.

        Examples
        --------
        >>> import numpy as np
        >>> from wolfmeans import ConstrainedKMeans
        >>> X = np.array([[0.0], [1.0], [9.0], [10.0]])
        >>> km = ConstrainedKMeans(2, size_min=2, init=[[0.5], [9.5]]).fit(X)
        >>> km.predict([[0.0], [1.0], [2.0], [3.0]]), km.assign([[0.0], [1.0], [2.0], [3.0]])
        (array([0, 0, 0, 0], dtype=int32), array([0, 0, 1, 1], dtype=int32))
        """
        check_is_fitted(self)
        _refuse_other_kinds(X)
        self._refuse_other_number_of_clusters()
        workspace, centers, _ = self._opened(X)
        points: Any = workspace
        points.weights = validation.validate_weights(sample_weight, X)
        limits = self._limits(points.weights, points.n_points)
        oracle = SizeLimited(points, limits)
        oracle.assign(centers)
        return oracle.labels()


def _refuse_other_kinds(X: Any) -> None:
    """Raise an error for data that is not in memory."""
    if type(X) is np.ndarray or kind_of_data(X, limited=False) is DataKind.MEMORY:
        return
    raise TypeError(
        "ConstrainedKMeans needs all points in memory, because the assignment is one problem over "
        "all of them; load the file, or compute the Dask collection, and pass an array"
    )
