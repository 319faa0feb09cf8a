"""Spherical K-means: rows and centers of norm 1, clusters by cosine, over the same loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions

from wolfmeans.bounds import METHODS as BOUNDS
from wolfmeans.bounds import LowerBound
from wolfmeans.bounds.bound import total_weight
from wolfmeans.bounds.spherical import spherical_bound
from wolfmeans.core.draws import RandomSource
from wolfmeans.core.frank_wolfe import Callback
from wolfmeans.core.spherical import SphericalProblem, TrimmedSphericalProblem
from wolfmeans.core.stopping import Criterion, criterion
from wolfmeans.core.workspace import TrimmedWorkspace, Workspace
from wolfmeans.engines import effective_threads
from wolfmeans.engines.places.trimmed_parts import sum_of_weights
from wolfmeans.engines.tensors import OnDevice
from wolfmeans.estimators.kmeans import FitFromStarts, KMeans
from wolfmeans.estimators.parameters import Algorithm, Bound, Empty, EngineName, ToleranceScale
from wolfmeans.estimators.trimmed import TrimmedKMeans
from wolfmeans.exact.directions import norm_error, unit_rows, without_direction
from wolfmeans.exact.native import value_range
from wolfmeans.files.source import Source
from wolfmeans.files.unit_source import UnitSource
from wolfmeans.fitting.fit import Fit, OpenedForFit, certificate_of
from wolfmeans.inputs import validation
from wolfmeans.seeding.methods import enough_rows

_LIKE_KMEANS = (
    *("n_clusters", "init", "n_init", "max_iter", "tol", "verbose", "random_state", "algorithm"),
    *("tol_scale", "empty", "effort", "engine", "n_threads", "time_limit", "callback"),
    "memory_limit",
)
_APART = "{:,} rows of norm 0 have no direction: label -1, no weight"
_RULES = ("decrease", "gap", "stationary")


class OnTheSphere(FitFromStarts):
    """What spherical estimators share: rows of norm 1, costs 1 - cos, bounds for these costs."""

    zero_rows: str
    checkpoint = None
    _unit = 0.5
    _total: float
    _norm_error: float
    _unit_rows = True

    def _criterion(self) -> Criterion:
        return criterion(
            self.stop or "decrease", None if self.tol is None else float(self.tol), self.tol_scale
        )

    def _as_clustered(
        self, X: Any, sizes: validation.Sizes, weights: NDArray[np.float64] | None
    ) -> tuple[Any, validation.Sizes, NDArray[np.float64] | None]:
        """Return the rows divided by their norms; rows of norm 0 are refused, or weigh nothing."""
        if isinstance(X, OnDevice):
            X = np.asarray(X)
        none = without_direction(X)
        if none.any():
            if self.zero_rows == "error":
                raise ValueError(
                    f"row {int(np.flatnonzero(none)[0])} of X has norm 0, so it has no direction "
                    f"({int(none.sum()):,} of {len(none):,} rows); drop such rows, or set "
                    "zero_rows='apart' to give them the label -1 and no weight"
                )
            if none.all():
                raise ValueError("all rows of X have norm 0, so none has a direction")
            weights = np.where(none, 0.0, 1.0 if weights is None else weights)
            if not weights.any():
                raise ValueError("all rows of positive weight have norm 0: none has a direction")
        n_threads = effective_threads(self.n_threads)
        units = unit_rows(X, n_threads)
        values = units.data if hasattr(units, "indptr") else units
        return units, validation.Sizes(*value_range(values, n_threads)[1:]), weights

    def _rows_to_bound(self, X: Any) -> Any:
        n_threads = effective_threads(self.n_threads)
        rows, sizes = validation.validate_points(self, X, reset=False, n_threads=n_threads)
        return self._as_clustered(rows, sizes, None)[0]

    def _as_read(self, source: Source) -> Source:
        return UnitSource(source)

    def _given(self, init: Any, X: Any, exponent: int) -> NDArray[np.floating]:
        centers = super()._given(init, X, exponent)
        none = without_direction(centers)
        if none.any():
            raise ValueError(
                f"center {int(np.flatnonzero(none)[0])} of init has norm 0, so it has no direction"
            )
        directions: NDArray[np.floating] = unit_rows(centers)
        return directions

    def _seeding(
        self, X: Any, exponent: int
    ) -> tuple[Callable[[Workspace, RandomSource], NDArray[np.floating]], int]:
        """Return a function that makes seeds, and the number of starts.

        The multilevel start ends at means, whose directions are the seeds.
        """
        seeds_from, n_starts = super()._seeding(X, exponent)
        sampled = isinstance(self.init, str) and self.init == "multilevel"

        def directed(ws: Workspace, random: RandomSource) -> NDArray[np.floating]:
            seeds = seeds_from(ws, random)
            if not sampled or not enough_rows(ws.n_points):
                return seeds
            none = without_direction(seeds)
            directions: NDArray[np.floating] = unit_rows(seeds[~none])
            return np.resize(directions, seeds.shape)

        return directed, n_starts

    def _apart(self, X: Any) -> NDArray[np.bool_] | None:
        """Return which rows of data in memory are kept apart; None if none may be."""
        if self.zero_rows == "error":
            return None
        n_threads = effective_threads(self.n_threads)
        rows = validation.validate_points(self, X, reset=False, n_threads=n_threads)[0]
        return without_direction(np.asarray(rows) if isinstance(rows, OnDevice) else rows)

    def _labels_of(self, X: Any) -> NDArray[np.int32]:
        labels, apart = super()._labels_of(X), self._apart(X)
        if apart is not None:
            labels[apart] = -1
        return labels

    def _score_of(self, X: Any, sample_weight: Any) -> float:
        apart = self._apart(X)
        if apart is not None and apart.any():
            weights = validation.validate_weights(sample_weight, X)
            sample_weight = np.where(apart, 0.0, 1.0 if weights is None else weights)
        return super()._score_of(X, sample_weight)

    def _weigh(self, data: OpenedForFit, kept: float = math.inf) -> None:
        """Store what turns bounds on squared errors into bounds on the inertia."""
        points: Any = data.workspace
        if data.in_parts:
            self._total = float(sum_of_weights(points).total)
        else:
            self._total = total_weight(points.n_points, points.weights)
        self._total = min(self._total, kept)
        self._norm_error = norm_error(points.dtype, points.n_features)

    def _converted(self, bound: LowerBound) -> LowerBound:
        """Return a bound on squared errors of the unit rows as one on the inertia."""
        return spherical_bound(bound, self._total, self._norm_error)

    def _apart_in_fit(self, data: OpenedForFit) -> NDArray[np.bool_] | None:
        """Return which rows of the fit have norm 0; None if there are none."""
        if self.zero_rows == "error" or data.in_parts:
            return None
        apart = without_direction(data.X)
        return apart if apart.any() else None


class SphericalKMeans(OnTheSphere):
    """K-means by cosine: rows and centers of norm 1, with a certificate.

    Rows are divided by their norms, once. A row belongs to the center with the largest cosine, and
    a center is the direction of the sum of its rows. Inertia is the sum of w (1 - cos).

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters K.
    init : str, callable or array of shape (n_clusters, n_features), default="multilevel"
        Initial centers, as for `KMeans`; k-means++ draws rows in proportion to 1 - cos. Given
        centers are divided by their norms. A callable gets the rows of norm 1.
    stop : {"decrease", "gap", "stationary"} or None, default=None
        The stopping rule, as for `KMeans`; None means "decrease". There is no rule "shift": a
        cluster whose mean is short may move its center far for a small gain.
    tol_scale : {"initial", "total", "absolute"} or None, default=None
        What `tol` is multiplied by: the inertia of the first partition (None), half the sum of
        squares of the unit rows about their mean, or 1.
    zero_rows : {"error", "apart"}, default="error"
        Rows of norm 0 have no direction. "error" refuses them. "apart" gives them the label -1 and
        no weight, in memory only; a note in the certificate counts them.
    bound : str or None, default="auto"
        The lower bound that a fit computes, as for `KMeans`. A bound for K-means on the unit rows
        becomes one for this inertia.
    effort : float or None, default=None
        Seconds to search for a better clustering by swaps of centers for rows, restarts and
        combinations of the best clusterings. Results depend on the speed of the machine.
    n_init, max_iter, tol, verbose, random_state, algorithm, empty, engine, n_threads, time_limit, \
            callback, memory_limit
        As for `KMeans`. Rows are divided by their norms on the host, those of a file as they are
        read.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centers, of norm 1 up to the rounding of the dtype of the data.
    labels_ : ndarray of shape (n_samples,)
        The lowest k that minimizes the canonical squared distance of the unit row to center k,
        which is the largest cosine up to the rounding of the norms; equal to ``predict(X)``.
    inertia_ : float
        Sum of w (1 - cos), computed at the returned centers as half the exact sum of the canonical
        squared distances; equal to ``-score(X)``.
    initial_centers_, n_iter_, certificate_, trace_, engine_, n_features_in_, feature_names_in_
        As for `KMeans`.

    Notes
    -----
    ``transform`` returns the Euclidean distances r of the unit rows to the centers; the cosine is
    1 - r**2 / 2.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans import SphericalKMeans
    >>> X = np.array([[1, 0], [9, 1], [0, 2], [1, 8]])
    >>> km = SphericalKMeans(n_clusters=2, random_state=0).fit(X)
    >>> bool(km.labels_[0] == km.labels_[1]), bool(km.labels_[0] == km.labels_[2])
    (True, False)
    >>> round(km.inertia_, 6), km.certificate_.status.name
    (0.006925, 'STATIONARY')
    """

    _problem = SphericalProblem
    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012 - scikit-learn's protocol
        **{name: KMeans._parameter_constraints[name] for name in _LIKE_KMEANS},
        "stop": [StrOptions(set(_RULES)), None],
        "zero_rows": [StrOptions({"error", "apart"})],
        "bound": [StrOptions({"auto", *BOUNDS}), None],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        init: Any = "multilevel",
        n_init: int | Literal["auto"] = "auto",
        max_iter: int | None = 300,
        tol: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        algorithm: Algorithm = "auto",
        stop: Literal["decrease", "gap", "stationary"] | None = None,
        tol_scale: ToleranceScale | None = None,
        empty: Empty = "farthest",
        zero_rows: Literal["error", "apart"] = "error",
        bound: Bound | None = "auto",
        effort: float | None = None,
        engine: EngineName = "auto",
        n_threads: int | None = None,
        time_limit: float | None = None,
        callback: Callback | None = None,
        memory_limit: str | float | None = None,
    ) -> None:
        self._set_parameters(locals())

    def _fit(self, data: OpenedForFit) -> None:
        self._weigh(data)
        generator = check_random_state(self.random_state)
        best, notes = self._best_of_starts(data, generator)
        if self.effort is not None:
            best = self._search(best, data.begun, data.workspace, data.exponent, generator)
        apart = self._apart_in_fit(data)
        on_rows = () if apart is None else (_APART.format(int(apart.sum())),)
        certificate = certificate_of(
            best,
            data.scaled,
            method=None if data.in_parts else self.bound,
            notes=(*notes, *on_rows, *data.notes),
            n_threads=effective_threads(self.n_threads),
            random=lambda: check_random_state(self.random_state),
            converted=self._converted,
        )
        self._keep(best, certificate, data.exponent)
        if apart is not None:
            self.labels_ = np.where(apart, np.int32(-1), np.asarray(self.labels_))
        self._conclude(data, notes)


class TrimmedSphericalKMeans(OnTheSphere, TrimmedKMeans):
    """Spherical K-means that leaves out the rows with the smallest cosines, with a certificate.

    `SphericalKMeans` and `TrimmedKMeans` in one: rows of norm 1, of which a fraction is left out,
    chosen together with the clusters so that the rest fits best.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters K.
    alpha, trim : float or None, default=None
        Fraction of the rows, or number of rows, to leave out, as for `TrimmedKMeans`.
    init, n_init, max_iter, verbose, random_state, empty, bound, engine, n_threads, time_limit, \
            callback, memory_limit
        As for `TrimmedKMeans`.
    tol, stop, tol_scale, zero_rows
        As for `SphericalKMeans`.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        As for `SphericalKMeans`; -1 for rows that are left out.
    inertia_ : float
        Sum of w (1 - cos) over the kept mass.
    radius_ : float
        Largest Euclidean distance r of a kept unit row from its center; its cosine is 1 - r**2 / 2.
    cluster_centers_, initial_centers_, kept_, margins_, n_trimmed_, trimmed_mass_, n_iter_, \
            certificate_, trace_, engine_, n_features_in_, feature_names_in_
        As for `TrimmedKMeans`, about the unit rows.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans import TrimmedSphericalKMeans
    >>> X = np.array([[1, 0], [9, 1], [0, 2], [1, 8], [-5, -5]])
    >>> km = TrimmedSphericalKMeans(n_clusters=2, trim=1, random_state=0).fit(X)
    >>> int(km.labels_[-1]), round(km.inertia_, 6)
    (-1, 0.006925)
    """

    _problem = TrimmedSphericalProblem
    polish = effort = None
    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012 - scikit-learn's protocol
        **{
            name: rule
            for name, rule in TrimmedKMeans._parameter_constraints.items()
            if name not in ("checkpoint", "polish", "effort")
        },
        "stop": [StrOptions(set(_RULES)), None],
        "zero_rows": [StrOptions({"error", "apart"})],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        alpha: float | None = None,
        trim: float | None = None,
        init: Any = "auto",
        n_init: int | Literal["auto"] = "auto",
        max_iter: int | None = 300,
        tol: float | None = None,
        verbose: int = 0,
        random_state: Any = None,
        stop: Literal["decrease", "gap", "stationary"] | None = None,
        tol_scale: ToleranceScale | None = None,
        empty: Empty = "farthest",
        zero_rows: Literal["error", "apart"] = "error",
        bound: Bound | None = "auto",
        engine: EngineName = "auto",
        n_threads: int | None = None,
        time_limit: float | None = None,
        callback: Callback | None = None,
        memory_limit: str | float | None = None,
    ) -> None:
        self._set_parameters(locals())

    def _best_of_two_stages(
        self, data: OpenedForFit, share: Fraction, workspace: TrimmedWorkspace
    ) -> tuple[Fit, tuple[str, ...], tuple[str, ...]]:
        self._weigh(data, workspace.mass)
        best, notes, further = super()._best_of_two_stages(data, share, workspace)
        apart = self._apart_in_fit(data)
        if apart is None:
            return best, notes, further
        return best, notes, (*further, _APART.format(int(apart.sum())))

    def _fit(self, data: OpenedForFit) -> None:
        super()._fit(data)
        apart = self._apart_in_fit(data)
        if apart is not None:
            self.labels_ = np.where(apart, np.int32(-1), np.asarray(self.labels_))
