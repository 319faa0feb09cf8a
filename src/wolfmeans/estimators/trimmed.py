"""TrimmedKMeans: K-means that leaves a share of the points out, over the same loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from numbers import Real
from time import perf_counter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from wolfmeans import door
from wolfmeans.certificate import Certificate
from wolfmeans.dask_data import is_dask, lazily
from wolfmeans.engines import Work, effective_threads, get_engine
from wolfmeans.engines.base import Centers, TrimmedWorkspace, Workspace
from wolfmeans.engines.choosing import STEPS
from wolfmeans.engines.trimming import find_threshold, kept_masses
from wolfmeans.estimators.base import CenterEstimator
from wolfmeans.estimators.kmeans import KMeans
from wolfmeans.fitting import Fit, Start, best_of_starts, certificate_of, scale_notes
from wolfmeans.frank_wolfe import Callback
from wolfmeans.lower_bounds import METHODS as BOUNDS
from wolfmeans.notices import warn_about
from wolfmeans.problems.empty import POLICIES as ALL_POLICIES
from wolfmeans.problems.trimmed import (
    TrimmedProblem,
    kept_mass,
    parsed_share,
    share_of,
    total_mass,
)
from wolfmeans.seeding import METHODS as SEEDINGS
from wolfmeans.seeding import TRIMMED_METHODS, RandomSource, choose_seeds
from wolfmeans.tensors import as_given
from wolfmeans.two_stages import (
    CONTINUED,
    SHORT_RUNS,
    best_short_runs,
    rows_for_short_runs,
    share_for_short_runs,
)

NumberedSeeds = Callable[[int, Workspace, RandomSource], NDArray[np.floating]]

_DEFAULT_SHARE = 0.05
_NO_THRESHOLD = (
    "TrimmedKMeans cannot find its threshold, the last point that is kept, over the partitions of "
    "Dask data yet; KMeans takes such data"
)
_MIXED = ("trimmed-k-means++", "random")
_LIKE_KMEANS = (
    "n_clusters",
    "n_init",
    "max_iter",
    "tol",
    "verbose",
    "random_state",
    "stop",
    "tol_scale",
    "engine",
    "n_threads",
    "time_limit",
    "callback",
)


class TrimmedKMeans(CenterEstimator):
    """K-means that leaves out the points farthest from all centers, with a certificate.

    A share of the points, chosen together with the clusters so that the rest fits best, is set
    aside. Gross outliers then neither pull centers away nor get clusters of their own.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters K.
    alpha : float or None, default=None
        The share of the points, or of their total weight, to trim: at least 0 and below 1. The
        trimmed number of points is rounded down; so is the trimmed weight, to a multiple of the
        largest power of two of which all weights are multiples. None is 0.05 unless `trim` is
        given. With 0 the result is that of `KMeans` from the same start, to the last bit.
    trim : float or None, default=None
        The number of points to trim instead, or with weights their weight.
    init : "auto", "trimmed-k-means++", "random", "k-means++", "greedy-k-means++", "k-means||", \
            callable or array, default="auto"
        Where to start. "trimmed-k-means++" draws as k-means++ does, but each time sets the farthest
        points aside before; the other kinds of k-means++ tend to begin with outliers. "auto" takes
        turns with "random". Callables and arrays as for `KMeans`.
    n_init : "auto" or int, default="auto"
        Number of short runs, two steps each; the best five are continued, and the result with the
        lowest inertia is kept. "auto" is 50. Up to five starts are all run to the end at once.
        Above 20,000 points (or 200 for each cluster) short runs see a random part of them.
    max_iter : int or None, default=300
        Largest number of iterations of one start, counted as scikit-learn does, short runs not
        included. None stands for the guaranteed maximum.
    tol : float, default=1e-6
        The relative tolerance of the stopping rule.
    verbose : int, default=0
        Print every iteration of the continued starts.
    random_state : int, RandomState or None, default=None
        Seed of all draws.
    stop : {"decrease", "gap", "shift", "stationary"}, default="decrease"
        When to stop, as for `KMeans`.
    tol_scale : {"initial", "total", "absolute"}, default="initial"
        What `tol` multiplies, as for `KMeans`. "total" and the variances of ``stop="shift"`` are
        those of all points, outliers included.
    empty : {"farthest", "keep", "resample", "best"}, default="farthest"
        How the center of an empty cluster is chosen, always among the kept points.
    certify : "auto", "neighbours", "prices", "subsampled" or None, default="auto"
        The lower bound of the certificate, as for `KMeans`; two methods hold for trimmed problems,
        and "subsampled" with a confidence.
    engine : {"auto", "cpu", "gpu", "reference"}, default="auto"
        What computes; all engines give the same bits. "auto" leaves tensors where they are, and
        takes an array to the GPU if there is one and the fit takes longer without it; the
        certificate's notes tell.
    n_threads : int or None, default=None
        Number of threads; None uses all cores this process may use. Does not change the result.
    time_limit : float or None, default=None
        Seconds after which no further step and no further start is begun.
    callback : callable or None, default=None
        Called with the `Record` of every step of the continued starts; a true return value ends
        the start.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centers, in the dtype of the data.
    initial_centers_ : ndarray of shape (n_clusters, n_features)
        Where the best start began: its seeds, or with many points the centers of its short run.
        With ``init=km.initial_centers_, n_init=1`` the run is repeated bit for bit.
    labels_ : ndarray of shape (n_samples,)
        Nearest center of each kept point, -1 for points that are trimmed. Points of no weight are
        labelled by the threshold like the others.
    inertia_ : float
        Sum of squared distances to the nearest center over what is kept; equal to ``-score(X)``.
    radius_ : float
        Distance of the last kept point from its center; `predict` calls points outliers that are
        farther from all centers. Infinite when nothing is trimmed.
    kept_ : ndarray of shape (n_samples,)
        The share of each point that is kept: 1 or 0, and with weights something between for at
        most one point.
    margins_ : ndarray of shape (n_samples,)
        How clear the verdict on each point is, as a difference of squared distances: for a kept
        point to the second nearest center or the radius, for a trimmed one beyond the radius.
    n_trimmed_ : int
        Number of points of positive weight that are trimmed wholly.
    trimmed_mass_ : float
        The weight that is trimmed.
    n_iter_ : int
        Number of iterations of the best start, counted as scikit-learn does.
    certificate_ : Certificate
        What was verified about the result.
    trace_ : Trace
        SSE, gap, movement, moved points and empty clusters of every iteration.
    engine_ : str
        The engine that ran.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, when X had string names for all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans import TrimmedKMeans
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0], [1000, 1000]])
    >>> km = TrimmedKMeans(n_clusters=2, trim=1, random_state=0).fit(X)
    >>> sorted(km.cluster_centers_.tolist()), km.inertia_, km.radius_
    ([[1.0, 2.0], [10.0, 2.0]], 16.0, 2.0)
    >>> int(km.labels_[-1]), km.predict([[400, 400]]).tolist()
    (-1, [-1])
    """

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012 - scikit-learn's protocol
        **{name: KMeans._parameter_constraints[name] for name in _LIKE_KMEANS},
        "alpha": [Interval(Real, 0, 1, closed="left"), None],
        "trim": [Interval(Real, 0, None, closed="left"), None],
        "init": [StrOptions({"auto", *SEEDINGS, *TRIMMED_METHODS}), callable, "array-like"],
        # "admissible" passes here, so that the problem can say why it cannot be.
        "empty": [StrOptions(set(ALL_POLICIES))],
        "certify": [StrOptions({"auto", *BOUNDS} - {"spectral", "exact"}), None],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        alpha: float | None = None,
        trim: float | None = None,
        init: Any = "auto",
        n_init: int | str = "auto",
        max_iter: int | None = 300,
        tol: float = 1e-6,
        verbose: int = 0,
        random_state: Any = None,
        stop: str = "decrease",
        tol_scale: str = "initial",
        empty: str = "farthest",
        certify: str | None = "auto",
        engine: str = "auto",
        n_threads: int | None = None,
        time_limit: float | None = None,
        callback: Callback | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.alpha = alpha
        self.trim = trim
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose
        self.random_state = random_state
        self.stop = stop
        self.tol_scale = tol_scale
        self.empty = empty
        self.certify = certify
        self.engine = engine
        self.n_threads = n_threads
        self.time_limit = time_limit
        self.callback = callback

    def _fit(self, X: Any, sample_weight: Any) -> Self:
        if is_dask(X):
            raise NotImplementedError(_NO_THRESHOLD)
        X, weights, exponent = self._admitted(X, sample_weight)
        share = self._trimmed_share(weights, X.shape[0])
        scaled = door.rescale(X, exponent)
        n_threads = effective_threads(self.n_threads)
        chosen = self._chosen_engine(scaled, self._work(n_threads))
        workspace = chosen.engine.open_trimmed(
            scaled,
            weights,
            n_threads,
            kept_mass(share, weights, X.shape[0]),
        )
        best, notes = self._best_of_starts(X, scaled, share, workspace, exponent)
        certificate = certificate_of(
            best,
            scaled,
            certify=vars(self)["certify"],
            notes=(*notes, *scale_notes(X), *chosen.notes),
            n_threads=effective_threads(self.n_threads),
            random=lambda: check_random_state(self.random_state),
        )
        self._share = f"{share.numerator}/{share.denominator}"
        self._keep(best, certificate, exponent)
        warn_about(self.certificate_, inertia=self.inertia_, empty=self.empty, notes=notes)
        return self

    def _work(self, n_threads: int) -> Work:
        """Return what a fit will ask for: the starts that are continued, on all points."""
        given = not isinstance(self.init, str) and not callable(self.init)
        asked = CONTINUED if self.n_init == "auto" else min(int(self.n_init), CONTINUED)
        passes = min(STEPS, self.max_iter or STEPS)
        return Work(self.n_clusters, n_threads, passes, starts=1 if given else asked)

    def _trimmed_share(self, weights: NDArray[np.float64] | None, n_points: int) -> Fraction:
        """Return the share of the total weight to trim, exactly."""
        if self.trim is None:
            return share_of(_DEFAULT_SHARE if self.alpha is None else self.alpha)
        if self.alpha is not None:
            raise ValueError(
                f"alpha={self.alpha} and trim={self.trim} both say how much to trim; give one"
            )
        if weights is None and float(self.trim) != int(self.trim):
            raise ValueError(
                f"trim={self.trim} is a number of points when there are no weights, so it must be "
                "whole; alpha is the share of the points"
            )
        total = total_mass(weights, n_points)
        if Fraction(self.trim) >= total:
            raise ValueError(
                f"trim={self.trim} would leave nothing: the total weight is {float(total):g}"
            )
        return Fraction(self.trim) / total

    def _best_of_starts(
        self, X: Any, scaled: Any, share: Fraction, workspace: TrimmedWorkspace, exponent: int
    ) -> tuple[Fit, tuple[str, ...]]:
        begun = perf_counter()
        generator = check_random_state(self.random_state)
        seeds_from, n_starts = self._numbered_seeding(X, exponent)
        states = generator.randint(np.iinfo(np.int32).max, size=n_starts).tolist()
        settings = {
            "stop": self.stop,
            "tol": self.tol,
            "tol_scale": self.tol_scale,
            "empty": self.empty,
            "kind": TrimmedProblem,
        }

        def begin(number: int, on: TrimmedWorkspace, n_threads: int) -> Start:
            random = cache(lambda: np.random.RandomState(states[number]))
            return Start(on.fork(n_threads), seeds_from(number, on, random), random, exponent)

        n_threads = effective_threads(self.n_threads)
        ahead: list[Centers] = []
        if n_starts > CONTINUED:
            some = self._some_points(scaled, share, workspace, generator)
            ahead = best_short_runs(
                lambda number: begin(number, some, n_threads),
                n_starts,
                on_all_points=some is workspace,
                time_limit=self.time_limit,
                **settings,
            )

        def go_on(number: int, n_threads: int) -> Start:
            if not ahead:
                return begin(number, workspace, n_threads)
            random = cache(lambda: np.random.RandomState(states[number]))
            return Start(workspace.fork(n_threads), ahead[number], random, exponent)

        spent = perf_counter() - begun
        return best_of_starts(
            go_on,
            list(range(len(ahead) or n_starts)),
            n_threads=n_threads,
            time_limit=None if self.time_limit is None else max(0.0, self.time_limit - spent),
            watcher=self._watcher,
            max_steps=None if self.max_iter is None else self.max_iter - 1,
            **settings,
        )

    def _numbered_seeding(self, X: Any, exponent: int) -> tuple[NumberedSeeds, int]:
        """Return how the seeds of each start are made, and for how many starts."""
        n_starts = SHORT_RUNS if self.n_init == "auto" else int(self.n_init)
        if not isinstance(self.init, str):
            seeds_from, n_given = self._seeding(X, exponent)
            return lambda _, ws, random: seeds_from(ws, random), (
                n_starts if callable(self.init) else n_given
            )
        methods = _MIXED if self.init == "auto" else (self.init,)

        def seeds(number: int, ws: Workspace, random: RandomSource) -> NDArray[np.floating]:
            return choose_seeds(ws, self.n_clusters, methods[number % len(methods)], random())

        return seeds, n_starts

    def _some_points(
        self,
        scaled: Any,
        share: Fraction,
        workspace: TrimmedWorkspace,
        generator: np.random.RandomState,
    ) -> TrimmedWorkspace:
        """Return the points on which short runs take place, with a share of them to trim."""
        rows = rows_for_short_runs(workspace, self.n_clusters, generator)
        if rows is None:
            return workspace
        weights = None if workspace.weights is None else workspace.weights[rows]
        return get_engine(workspace.engine).open_trimmed(
            scaled[rows],
            weights,
            effective_threads(self.n_threads),
            kept_mass(share_for_short_runs(share, len(rows)), weights, len(rows)),
        )

    def _keep(self, fit: Fit, certificate: Certificate, exponent: int) -> None:
        """Set the fitted attributes, in the units of the caller's data."""
        problem = fit.problem
        assert isinstance(problem, TrimmedProblem)
        workspace = problem.workspace
        threshold = workspace.threshold.distance
        weights = np.ones(workspace.n_points) if workspace.weights is None else workspace.weights
        labels = np.asarray(fit.labels)
        trimmed = (labels < 0) & (weights > 0)
        whole = math.isinf(threshold)
        certificate = replace(
            certificate,
            trimmed_points=int(trimmed.sum()),
            trimmed_mass=problem.trimmed_mass(),
            threshold=None if whole else threshold,
        )
        super()._keep(fit, certificate, exponent)
        self._threshold = threshold
        self.radius_ = math.ldexp(math.sqrt(threshold), -exponent)
        inside = (labels >= 0).astype(np.float64)
        self.kept_ = np.divide(workspace.kept(), weights, out=inside, where=weights > 0)
        self.margins_ = door.ldexp(problem.margins(fit.solution.point), -2 * exponent)
        self.n_trimmed_ = certificate.trimmed_points
        self.trimmed_mass_ = certificate.trimmed_mass

    def _trim_on(self, X: Any, weights: NDArray[np.float64] | None) -> float | None:
        """Return the mass that may be left out, None where all must be clustered."""
        return self.trimmed_mass_ or None

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Return the nearest center of each point, or -1 for points beyond the radius.

        For the points of the fit this is `labels_`, save for those that lie on the threshold: of
        several that are exactly as far out, `labels_` keeps no more than the mass allows, and here
        all of them are inside.
        """
        check_is_fitted(self)
        if is_dask(X):
            labels_to_come: NDArray[np.int32] = lazily(self, X, "predict", None, np.int32)
            return labels_to_come
        workspace, centers, exponent = self._opened(X)
        labels, distances = workspace.nearest(centers)
        threshold = math.ldexp(self._threshold, 2 * (exponent - self._scale_exponent))
        labels[distances > threshold] = -1
        given: NDArray[np.int32] = as_given(labels, X)
        return given

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the sum of squared distances to the nearest centers, trimmed.

        The share of X that is left out, the farthest points first, is that of the fit; so scores
        of several models with the same `alpha` can be compared on the same data.
        """
        if is_dask(X):
            raise NotImplementedError(_NO_THRESHOLD)
        workspace, centers, exponent = self._opened(X)
        weights = door.admit_weights(sample_weight, X)
        distances = workspace.nearest(centers)[1]
        mass = kept_mass(parsed_share(self._share), weights, workspace.n_points)
        threshold = find_threshold(distances, weights, mass)
        kept = kept_masses(threshold, distances, weights)
        return -door.unscaled(workspace.total(kept * distances), exponent)
