"""CentroidClustering: any divergence with its centers, over the same loop."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Integral, Real
from time import perf_counter
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from wolfmeans.bounds import REGISTRY, LowerBound, Settings, affordable, best_bound
from wolfmeans.certificate.record import Certificate, local_optimality, warn_about
from wolfmeans.core.choices import TOLERANCE_SCALES
from wolfmeans.core.divergence import (
    DIVERGENCES,
    Clusters,
    Divergence,
    DivergenceProblem,
    Floats,
)
from wolfmeans.core.frank_wolfe import Callback, minimize_concave
from wolfmeans.core.solution import Solution, Trace
from wolfmeans.core.stopping import StoppingRule, criterion, make_rule
from wolfmeans.engines import effective_threads
from wolfmeans.estimators.parameters import BriefRequests, RenamedParameters, ToleranceScale
from wolfmeans.exact.distances import UNIT
from wolfmeans.exact.ordering import lexicographic_order
from wolfmeans.exact.sums import exact_sum
from wolfmeans.inputs import validation

_RULES = ("decrease", "gap", "stationary")
_DEFAULT_STARTS = 10
# Multiplications of a lower bound during a fit, and of one that is asked for.
_QUICK, _LARGE = 1e8, 5e10


class CentroidClustering(
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClusterMixin,
    RenamedParameters,
    BriefRequests,
    BaseEstimator,
):
    """Clustering around centers for any divergence, with trace, gap, guarantee and certificate.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters K.
    divergence : str or Divergence, default="manhattan"
        "manhattan" (K-medians), "kullback-leibler", "itakura-saito", "modes" (categories, as
        codes), "squared-euclidean", or an instance of `Divergence`, such as
        `wolfmeans.divergences.Mixed` for mixed columns, or one of your own.
    init : "k-means++", "random" or array, default="k-means++"
        Initial centers. "k-means++" draws points in proportion to their divergence from the
        centers before, "random" draws them by weight.
    n_init : "auto" or int, default="auto"
        Number of starts; the result with the lowest inertia is kept. "auto" means 10, and 1 for
        given centers.
    max_iter : int or None, default=300
        Maximum number of iterations of one start. None uses the guaranteed limit.
    tol : float or None, default=None
        Tolerance of the stopping rule; None means 1e-6.
    random_state : int, RandomState or None, default=None
        Seed of all draws.
    stop : {"decrease", "gap", "stationary"} or None, default=None
        The stopping rule, as for `KMeans`; None means "decrease".
    tol_scale : {"initial", "total", "absolute"} or None, default=None
        What `tol` is multiplied by: the inertia of the first partition, that of one cluster, or 1.
        None means "initial".
    empty : {"farthest", "keep"}, default="farthest"
        The center of an empty cluster: the point of largest cost, or where it was.
    bound : "auto" or None, default="auto"
        Whether a fit computes a lower bound; that needs a divergence with a `curvature`.
    time_limit : float or None, default=None
        Time in seconds after which no new step and no new start begins.
    callback : callable or None, default=None
        Called with the `Record` of every step; if it returns a true value, the start ends.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centers.
    labels_ : ndarray of shape (n_samples,)
        The center of the smallest divergence, ties to the lowest index; equal to ``predict(X)``.
    inertia_ : float
        Weighted sum of the divergences; equal to ``-score(X)``.
    initial_centers_, n_iter_, certificate_, trace_, n_features_in_, feature_names_in_
        As for `KMeans`.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans import CentroidClustering
    >>> X = np.array([[1, 2], [1, 4], [1, 900], [10, 2], [10, 4], [10, 0]])
    >>> model = CentroidClustering(2, divergence="manhattan", random_state=0).fit(X)
    >>> sorted(model.cluster_centers_.tolist()), model.certificate_.gap
    ([[1.0, 900.0], [10.0, 2.0]], 0.0)
    """

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012 - scikit-learn's protocol
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "divergence": [StrOptions(set(DIVERGENCES)), Divergence],
        "init": [StrOptions({"k-means++", "random"}), "array-like"],
        "n_init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "random_state": ["random_state"],
        "stop": [StrOptions(set(_RULES)), None],
        "tol_scale": [StrOptions(set(TOLERANCE_SCALES)), None],
        "empty": [StrOptions({"farthest", "keep"})],
        "bound": [StrOptions({"auto"}), None],
        "time_limit": [Interval(Real, 0, None, closed="left"), None],
        "callback": [callable, None],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        divergence: str | Divergence = "manhattan",
        init: Any = "k-means++",
        n_init: int | Literal["auto"] = "auto",
        max_iter: int | None = 300,
        tol: float | None = None,
        random_state: Any = None,
        stop: Literal["decrease", "gap", "stationary"] | None = None,
        tol_scale: ToleranceScale | None = None,
        empty: Literal["farthest", "keep"] = "farthest",
        bound: Literal["auto"] | None = "auto",
        time_limit: float | None = None,
        callback: Callback | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.divergence = divergence
        self.init = init
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.stop = stop
        self.tol_scale = tol_scale
        self.empty = empty
        self.bound = bound
        self.time_limit = time_limit
        self.callback = callback

    # --- Fit ----------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The points, in memory and dense.
        y : ignored
            Present by convention.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the points, at least 0.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._validate_params()
        before = self.__dict__.copy()
        try:
            self._fit(X, sample_weight)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit(self, X: Any, sample_weight: Any) -> None:
        X = self._points(X, reset=True)
        if len(X) < self.n_clusters:
            raise ValueError(f"n_samples={len(X)} should be >= n_clusters={self.n_clusters}.")
        given = validation.validate_weights(sample_weight, X)
        weights = np.ones(len(X)) if given is None else given
        divergence = self._divergence()
        divergence.check(X)
        problem = DivergenceProblem(X, weights, divergence, self.empty)
        best, rule, first, notes = self._best_of_starts(problem)
        self._keep(problem, best, rule, first, notes, given)

    def refine(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit X from the centers of this model, as `KMeans.refine` does."""
        check_is_fitted(self)
        given, self.init = self.init, self.cluster_centers_
        try:
            return self.fit(X, sample_weight=sample_weight)
        finally:
            self.init = given

    def _points(self, X: Any, *, reset: bool) -> Floats:
        if sparse.issparse(X):
            raise TypeError(
                "A sparse matrix was passed, but CentroidClustering needs dense rows; use "
                "X.toarray(), or KMeans and SphericalKMeans, which take sparse rows"
            )
        found = validation.validate_points(self, X, reset=reset, n_threads=1)[0]
        return np.asarray(found, dtype=np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = self.divergence if isinstance(self.divergence, Divergence) else None
        known = given or DIVERGENCES.get(str(self.divergence))
        tags.input_tags.positive_only = known is not None and known.positive_only
        return tags

    def _divergence(self) -> Divergence:
        given = self.divergence
        return given if isinstance(given, Divergence) else DIVERGENCES[given]

    def _best_of_starts(
        self, problem: DivergenceProblem
    ) -> tuple[Solution[Clusters], StoppingRule, tuple[Clusters, Floats], tuple[str, ...]]:
        """Return the best run, its rule, where it began, and a note on starts that were cut off."""
        random = check_random_state(self.random_state)
        drawn = isinstance(self.init, str)
        n_starts = (_DEFAULT_STARTS if self.n_init == "auto" else int(self.n_init)) if drawn else 1
        deadline = math.inf if self.time_limit is None else perf_counter() + self.time_limit
        best: Any = None
        made = 0
        for _ in range(n_starts):
            if best is not None and perf_counter() >= deadline:
                break
            seeds = self._seeds(problem, random)
            first = problem.partition(seeds)
            rule = self._rule(problem, first)
            solution = minimize_concave(
                problem,
                first,
                stop=rule,
                max_iter=None if self.max_iter is None else self.max_iter - 1,
                time_limit=None if math.isinf(deadline) else max(0.0, deadline - perf_counter()),
                callback=self.callback,
            )
            made += 1
            inertia = self._inertia(problem, solution)
            if best is None or inertia < best[0]:
                best = inertia, solution, rule, (first, seeds)
        notes = () if made == n_starts else (f"{made} of {n_starts} starts were made in time",)
        return best[1], best[2], best[3], notes

    def _seeds(self, problem: DivergenceProblem, random: np.random.RandomState) -> Floats:
        X, weights = problem.X, problem.weights
        if not isinstance(self.init, str):
            seeds = validation.validate_centers(self.init, self.n_clusters, X)
            return seeds.astype(np.float64)
        # Along the order of values: a weight of 2 draws like two copies, in any order of rows.
        order = lexicographic_order(X)
        masses, nearest = weights, np.full(len(X), np.inf)
        chosen: list[int] = []
        for _ in range(self.n_clusters):
            if not masses.any():
                masses = weights
            sums = np.cumsum(masses[order])
            place = np.searchsorted(sums, random.uniform() * sums[-1], side="right")
            chosen.append(int(order[min(int(place), len(X) - 1)]))
            seed = X[chosen[-1]]
            if self.init == "random":
                masses = np.where((seed == X).all(axis=1), 0.0, masses)
                continue
            nearest = np.minimum(nearest, problem.distances(seed[None])[:, 0])
            finite = nearest[np.isfinite(nearest)].max(initial=0.0)
            # What is infinitely far is twice as far as anything else.
            masses = weights * np.where(np.isfinite(nearest), nearest, 2.0 * finite or 1.0)
        return X[chosen]

    def _rule(self, problem: DivergenceProblem, first: Clusters) -> StoppingRule:
        chosen = criterion(self.stop or "decrease", self.tol, self.tol_scale)
        unit = 1.0
        if chosen.tol_scale == "initial":
            unit = first.value
        elif chosen.tol_scale == "total":
            one = problem.partition(first.centers[:1])
            unit = one.value
        return make_rule(chosen.stop, chosen.tol * unit)

    @staticmethod
    def _inertia(problem: DivergenceProblem, solution: Solution[Clusters]) -> float:
        """Return the sum at the returned centers, where each point has its nearest one."""
        nearest = problem.distances(solution.point.centers).min(axis=1)
        return exact_sum((problem.weights * nearest).tolist())

    def _keep(
        self,
        problem: DivergenceProblem,
        solution: Solution[Clusters],
        rule: StoppingRule,
        first: tuple[Clusters, Floats],
        notes: tuple[str, ...],
        weights: Floats | None,
    ) -> None:
        """Set the fitted attributes."""
        self.cluster_centers_ = solution.point.centers
        self.initial_centers_ = first[1]
        self._n_features_out = len(self.cluster_centers_)
        self.labels_ = solution.vertex.labels
        self.inertia_ = self._inertia(problem, solution)
        self.n_iter_ = solution.iterations + 1
        self.trace_: Trace = solution.trace
        stationary = np.array_equal(solution.point.labels, solution.vertex.labels)
        empty = int(solution.vertex.empty.sum())
        curved = problem.divergence.curvature(problem.X) is not None
        certificate = Certificate(
            gap=solution.gap,
            movement=solution.movement,
            decrease=solution.decrease,
            clarke_gap=problem.clarke_gap(solution),
            candidate_decrease=None,
            tol=rule.tol,
            stop=rule.name,
            status=solution.status,
            iterations=solution.iterations,
            extra_iterations=solution.extra_iterations,
            max_iterations=solution.max_iterations,
            initial_sse=first[0].value,
            inertia=self.inertia_,
            n_clusters=len(self.cluster_centers_),
            empty_clusters=empty,
            local_optimality=local_optimality(
                solution.status,
                stationary=stationary,
                empty=empty > 0,
                tied=stationary and empty == 0 and problem.tied(solution),
            ),
            level="stationary" if stationary else None,
            cost=problem.divergence.name,
            notes=notes if curved else (*notes, "no lower bound is known for this divergence"),
        )
        if self.bound == "auto" and curved:
            bound = self._bound(problem.X, weights, _QUICK, seconds=0.0)
            certificate = certificate.bounded_by(bound, rule.least_decrease)
        self.certificate_ = certificate
        self.trace_.lower_bound = certificate.proven_bound
        warn_about(certificate, inertia=self.inertia_, empty=self.empty, notes=notes)

    # --- Lower bounds -------------------------------------------------------------------------

    def certify(self, X: Any, *, sample_weight: Any = None, seconds: float = 60.0) -> Certificate:
        """Compute a better lower bound for the data of the fit, and store it in `certificate_`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The points that were clustered.
        sample_weight : array-like of shape (n_samples,), default=None
            Their weights.
        seconds : float, default=60.0
            Time limit of the semidefinite bound.
        """
        check_is_fitted(self)
        points = self._points(X, reset=False)
        if self._divergence().curvature(points) is None:
            raise ValueError("no lower bound is known for this divergence: it has no curvature")
        if -self.score(points, sample_weight=sample_weight) != self.inertia_:
            raise ValueError("X and sample_weight are not the data of the fit")
        weights = validation.validate_weights(sample_weight, points)
        bound = self._bound(points, weights, _LARGE, seconds)
        self.certificate_ = self.certificate_.bounded_by(bound).after_seconds(bound.seconds)
        self.trace_.lower_bound = self.certificate_.proven_bound
        return self.certificate_

    def _bound(
        self, X: Floats, weights: Floats | None, budget: float, seconds: float
    ) -> LowerBound:
        """Return a K-means bound for columns that are scaled by the curvature."""
        started = perf_counter()
        curvature = self._divergence().curvature(X)
        assert curvature is not None
        scaled = X * np.sqrt(curvature)
        n, d = X.shape
        methods = affordable(n, d, self.n_clusters, trimmed=False, rigorous=True, budget=budget)
        reasons = {name: REGISTRY[name].refusal(d, False) for name in methods}
        methods = tuple(name for name in methods if reasons[name] is None)
        if seconds > 0 and self.n_clusters < n and "semidefinite" not in methods:
            methods = (*methods, "semidefinite")
        settings = Settings(n_threads=effective_threads(None), seconds=max(seconds, 1e-3))
        found = best_bound(
            scaled, self.n_clusters, weights, None, methods=methods, settings=settings
        )
        if found is None:
            found = LowerBound(0.0, "none", 1.0, 0.0)
        value = _despite_rounding(found.value, scaled, weights)
        return replace(
            found,
            value=value,
            proof=None,
            better_centers=None,
            better_inertia=None,
            seconds=perf_counter() - started,
        )

    # --- What a fitted model answers ----------------------------------------------------------

    def _distances(self, X: Any) -> Floats:
        check_is_fitted(self)
        points = self._points(X, reset=False)
        divergence = self._divergence()
        divergence.check(points)
        weights = np.ones(len(points))
        problem = DivergenceProblem(points, weights, divergence, self.empty)
        return problem.distances(self.cluster_centers_)

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Return the center of the smallest divergence for each point, ties to the lowest."""
        labels: NDArray[np.int32] = self._distances(X).argmin(axis=1).astype(np.int32)
        return labels

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> NDArray[np.int32]:
        """Cluster X and return the labels."""
        return self.fit(X, sample_weight=sample_weight).labels_

    def transform(self, X: Any) -> Floats:
        """Return the (n_samples, n_clusters) divergences from all centers."""
        return self._distances(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the weighted sum of the divergences from the nearest centers."""
        nearest = self._distances(X).min(axis=1)
        weights = validation.validate_weights(sample_weight, nearest[:, None])
        return -exact_sum((nearest if weights is None else weights * nearest).tolist())


def _despite_rounding(value: float, scaled: Floats, weights: Floats | None) -> float:
    """Return a bound on the squared errors of exactly scaled rows, rounded down.

    Every entry of the scaled rows is off by 3 u of itself at most, which changes the root of the
    sum of squared errors by at most 3 u times the root of the sum of squares.
    """
    squares = (scaled**2).sum(axis=1)
    total = float(squares.sum() if weights is None else weights @ squares)
    root = math.sqrt(value) * (1.0 - 4.0 * UNIT) - 4.0 * UNIT * math.sqrt(total) * 1.01
    return max(0.0, root) ** 2 * (1.0 - 4.0 * UNIT)
