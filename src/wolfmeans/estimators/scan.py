"""Which K, which alpha? Warm-started fits over a grid of both, each with a lower bound.

The best possible SSE falls with K and with alpha. So a lower bound for more clusters, or for more
trimming, is one for fewer; and where the SSE found with K + 1 clusters lies below the bound for K,
no clustering with K clusters is as good.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from wolfmeans.bounds.bound import LowerBound, Report, Settings, quiet
from wolfmeans.bounds.methods import DEFAULT_BUDGET
from wolfmeans.core.progress import PATIENCE, progress_on_terminal
from wolfmeans.engines import effective_threads, get_engine
from wolfmeans.estimators import KMeans, TrimmedKMeans
from wolfmeans.estimators.criteria import SampledCriteria, calinski_harabasz
from wolfmeans.estimators.parameters import renamed
from wolfmeans.estimators.pipelines import transformed
from wolfmeans.estimators.postponed import MOST_POINTS, modest_limits
from wolfmeans.estimators.scan_result import Cell, Model, Scan
from wolfmeans.fitting.lower_bound import bound_in_units
from wolfmeans.inputs import validation

_TRIALS = 16
_STARTS = 5
# Of the time of a scan, about; the rest are lower bounds.
_SHARE_OF_FITS, _BEFORE_CRITERIA = 0.3, 0.9
_DISTANCES_AT_ONCE = 1 << 22


def scan(
    X: Any,
    n_clusters: int | Iterable[int] = range(2, 11),
    alpha: float | Iterable[float] = (0.0,),
    *,
    sample_weight: Any = None,
    bound: str | None = "auto",
    certify_seconds: float | None = None,
    confidence: float = 0.95,
    random_state: Any = None,
    progress: Report | None = None,
    pipeline: Pipeline | None = None,
    resamples: int = 10,
    **parameters: Any,
) -> Scan:
    """Fit every number of clusters and every trimmed fraction, with a lower bound for each.

    Each cell has its own start. It is also started from its neighbours: from the fit with fewer
    clusters and an added center, from the fit with more clusters and one center removed, and from
    the fit with less trimming. The best result is kept, so that inertia falls along both axes.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The points.
    n_clusters : int or iterable of int, default=range(2, 11)
        The numbers of clusters.
    alpha : float or iterable of float, default=(0.0,)
        The fractions of the mass that may be trimmed; 0 is K-means.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the points.
    bound : str or None, default="auto"
        The method of `lower_bound`; None computes no bounds.
    certify_seconds : float or None, default=None
        Time limit of the semidefinite bound of each cell. None for a number of steps that takes
        about a second for up to 2,500 points.
    confidence : float, default=0.95
        The joint confidence of all bounds from samples.
    random_state : int, RandomState or None, default=None
        Seed of all draws.
    progress : callable or None, default=None
        Called with the completed fraction and a text; None shows a bar on a terminal and in a
        notebook after two seconds.
    pipeline : Pipeline or None, default=None
        A fitted Pipeline whose steps before the last prepare X, as they were fitted.
    resamples : int, default=10
        Number of pairs of random halves for the stability, and of reference data sets for the gap
        statistic. 0 computes neither. They are for alpha = 0, and use up to 1,000 rows.
    **parameters
        Further parameters of the estimators, such as ``n_init`` (5 by default for K-means).

    Returns
    -------
    Scan
        Table, figure (`plot`), fitted models (``scan[K, alpha].model``), and the best K with the
        reasons (`best`).

    Examples
    --------
    >>> import numpy as np, wolfmeans
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0], [30.0], [31.0]])
    >>> result = wolfmeans.scan(X, n_clusters=range(1, 5), random_state=0)
    >>> result.needed(0.0)
    4
    >>> result[3].inertia, result[3].ratio
    (1.5, 1.0)
    """
    if "certify" in parameters:
        bound = renamed({"certify": parameters.pop("certify")})["bound"]
    if isinstance(X, Pipeline):
        raise TypeError("scan takes the data first: scan(X, n_clusters, pipeline=pipe)")
    counts = _numbers_of_clusters(n_clusters)
    if pipeline is not None:
        X, _ = transformed(pipeline, X)
    shares = sorted({float(a) for a in ((alpha,) if np.isscalar(alpha) else alpha)})  # type: ignore[arg-type, union-attr]
    if not counts or not shares:
        raise ValueError("a scan needs at least one number of clusters and one alpha")
    if shares[-1] > 0 and (unknown := set(parameters) - set(TrimmedKMeans().get_params())):
        raise ValueError(f"with alpha > 0 a scan cannot take {', '.join(sorted(unknown))}")
    admitted = KMeans()
    X, sizes = validation.validate_points(
        admitted, X, reset=True, n_threads=effective_threads(None)
    )
    if counts[-1] > X.shape[0]:
        raise ValueError(f"n_samples={X.shape[0]} should be >= n_clusters={counts[-1]}.")
    weights = validation.validate_weights(sample_weight, X)
    if validation.scale_exponent(X, sizes, weights):
        raise ValueError("squares of X do not fit into float64; multiply X by a constant first")
    scanner = _Scanner(X, weights, check_random_state(random_state), parameters, counts, shares)
    with progress_on_terminal(progress, PATIENCE) as shown:
        report = shown or quiet
        scanner.fit_all(report, 1.0 if bound is None else _SHARE_OF_FITS)
        scanner.go_back()
        if bound is not None:
            scanner.bound(bound, certify_seconds, confidence, report)
        scanner.judge(resamples, report)
        report(1.0, "done")
    if hasattr(admitted, "feature_names_in_"):
        for cell in scanner.cells.values():
            cell.model.feature_names_in_ = admitted.feature_names_in_
    return Scan(scanner.cells.values())


def _numbers_of_clusters(n_clusters: Any) -> list[int]:
    if isinstance(n_clusters, str):
        raise ValueError(
            f"n_clusters must be whole numbers, for example range(2, 11); got {n_clusters!r}"
        )
    given: list[Any] = [n_clusters] if isinstance(n_clusters, Integral) else list(n_clusters)
    whole = [k for k in given if isinstance(k, Integral) and not isinstance(k, bool)]
    if len(whole) < len(given) or any(int(k) < 1 for k in whole):
        raise ValueError(f"n_clusters must be whole numbers of at least 1; got {given}")
    return sorted({int(k) for k in given})


class _Scanner:
    """The best fit of each cell so far."""

    def __init__(
        self,
        X: Any,
        weights: NDArray[np.float64] | None,
        rng: np.random.RandomState,
        parameters: dict[str, Any],
        counts: list[int],
        shares: list[float],
    ) -> None:
        self._X, self._weights, self._rng = X, weights, rng
        self._parameters, self._counts, self._shares = parameters, counts, shares
        self.cells: dict[tuple[int, float], Cell] = {}

    def fit_all(self, report: Report, whole: float) -> None:
        """Fit each cell: afresh, from the one with fewer clusters, from that with less trimming.

        All fits are the fraction `whole` of the work.
        """
        grid = [(k, alpha) for alpha in self._shares for k in self._counts]
        for done, (k, alpha) in enumerate(grid):
            report(whole * done / len(grid), f"K = {k}, alpha = {alpha:g}")
            self._fit(k, alpha)
            before, less = _beside(self._counts, k, -1), _beside(self._shares, alpha, -1)
            if before is not None:
                seeds = self._grown(self.cells[before, alpha].model, k)
                self._fit(k, alpha, init=seeds, n_init=1)
            if less is not None:
                seeds = self.cells[k, less].model.cluster_centers_
                self._fit(k, alpha, init=seeds, n_init=1)

    def go_back(self) -> None:
        """Start each cell from the one with more clusters, without those of the least use."""
        for alpha in self._shares:
            for fewer, more in reversed(list(pairwise(self._counts))):
                seeds = self._shrunk(self.cells[more, alpha].model, fewer)
                self._fit(fewer, alpha, init=seeds, n_init=1)

    def _fit(self, n_clusters: int, alpha: float, **changes: Any) -> None:
        """Fit a cell and keep the result if it is the best so far."""
        started = perf_counter()
        seed = int(self._rng.randint(np.iinfo(np.int32).max))
        settings = {**self._parameters, "bound": None, "random_state": seed, **changes}
        model: Model
        if alpha == 0:
            model = KMeans(n_clusters, **{"n_init": _STARTS, **settings})
        else:
            model = TrimmedKMeans(n_clusters, alpha=alpha, **settings)
        model.fit(self._X, sample_weight=self._weights)
        known = self.cells.get((n_clusters, alpha))
        spent = perf_counter() - started + (0.0 if known is None else known.seconds)
        if known is not None and known.inertia <= model.inertia_:
            self.cells[n_clusters, alpha] = replace(known, seconds=spent)
            return
        simplified = self._simplified_silhouette(model)
        self.cells[n_clusters, alpha] = Cell(
            n_clusters, alpha, model.inertia_, None, None, 0.0, 0.0, spent, model, simplified
        )

    def _two_nearest(self, model: Model) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return each point's nearest center and its distances to the two nearest, not squared."""
        n, k = self._X.shape[0], model.n_clusters
        labels, two = np.zeros(n, dtype=np.int64), np.full((n, 2), np.inf)
        step = max(1, _DISTANCES_AT_ONCE // k)
        for start in range(0, n, step):
            rows = slice(start, start + step)
            roots = np.asarray(model.transform(self._X[rows]), dtype=np.float64)
            labels[rows] = roots.argmin(axis=1)
            two[rows, : min(k, 2)] = np.partition(roots, min(k, 2) - 1, axis=1)[:, :2]
        return labels, two

    def _mass(self, model: Model) -> NDArray[np.float64]:
        """Return the kept mass of each point."""
        mass = np.ones(self._X.shape[0]) if self._weights is None else self._weights
        return mass * model.kept_ if isinstance(model, TrimmedKMeans) else mass

    def _simplified_silhouette(self, model: Model) -> float:
        if model.n_clusters == 1:
            return 0.0
        labels, two = self._two_nearest(model)
        own, other = two.T
        share = np.divide(other - own, other, out=np.zeros_like(own), where=other > 0)
        mass = self._mass(model)
        # A point alone in its cluster says nothing about the clustering.
        share[np.bincount(labels, weights=mass > 0)[labels] == 1] = 0.0
        return float(np.average(share, weights=mass))

    def _grown(self, model: Model, n_clusters: int) -> NDArray[np.floating]:
        """Return the model's centers and further ones, each the best of some drawn data points."""
        centers = model.cluster_centers_
        closest = self._two_nearest(model)[1][:, 0] ** 2
        mass = self._mass(model)
        points = get_engine().open(self._X, None, effective_threads(None))
        while len(centers) < n_clusters:
            masses = mass * closest
            total = float(masses.sum())
            if not total > 0:
                return np.vstack([centers, centers[: n_clusters - len(centers)]])
            rows = self._rng.choice(len(masses), size=_TRIALS, p=masses / total)
            candidates = points.rows(rows)
            trials = [np.minimum(closest, points.distances_to(row)) for row in candidates]
            best = int(np.argmin([float(mass @ reached) for reached in trials]))
            centers, closest = np.vstack([centers, candidates[best]]), trials[best]
        return centers.astype(model.cluster_centers_.dtype)

    def _shrunk(self, model: Model, n_clusters: int) -> NDArray[np.floating]:
        """Return the model's centers without those whose points have another one nearly as near."""
        labels, two = self._two_nearest(model)
        losses = self._mass(model) * (two[:, 1] ** 2 - two[:, 0] ** 2)
        uses = np.bincount(labels, weights=losses, minlength=model.n_clusters)
        kept: NDArray[np.int64] = np.sort(np.argsort(uses, kind="stable")[-n_clusters:])
        chosen: NDArray[np.floating] = model.cluster_centers_[kept]
        return chosen

    def bound(self, method: str, seconds: float | None, confidence: float, report: Report) -> None:
        """Bound each cell from below; a bound for more clusters or more trimming is one as well.

        Each bound from samples may fail with its share of 1 - confidence, so that with the stated
        confidence none of them does, whichever is the largest.
        """
        n_cells, done = len(self._counts) * len(self._shares), 0
        each = 1.0 - (1.0 - confidence) / n_cells
        for alpha in reversed(self._shares):
            for k in reversed(self._counts):
                share = _SHARE_OF_FITS + (_BEFORE_CRITERIA - _SHARE_OF_FITS) * done / n_cells
                report(share, f"lower bound for K = {k}, alpha = {alpha:g}")
                done += 1
                started, cell = perf_counter(), self.cells[k, alpha]
                # The cells beside this one whose best SSE cannot be above this one's.
                keys = (_beside(self._counts, k, 1), alpha), (k, _beside(self._shares, alpha, 1))
                harder = [self.cells[key] for key in keys if key in self.cells]
                own = self._bound_of(cell, method, seconds, each)
                bounded = _bounded(cell, own, confidence, harder)
                spent = cell.seconds + perf_counter() - started
                self.cells[k, alpha] = replace(bounded, seconds=spent)

    def judge(self, resamples: int, report: Report) -> None:
        """Compute the criteria for the number of clusters.

        This comes last, so that its draws change no fit and no bound.
        """
        criteria = SampledCriteria(self._X, self._weights, self._rng)
        for (k, alpha), cell in self.cells.items():
            report(_BEFORE_CRITERIA, f"silhouette and stability for K = {k}, alpha = {alpha:g}")
            masses = self._mass(cell.model)
            labels = np.maximum(np.asarray(cell.model.labels_), 0)
            stability = gap = None
            if resamples > 0 and alpha == 0:
                stability = criteria.stability(k, resamples)
                gap = criteria.gap(k, resamples)
            self.cells[k, alpha] = replace(
                cell,
                silhouette=criteria.silhouette(labels, masses) if k > 1 else 0.0,
                calinski_harabasz=calinski_harabasz(self._X, masses, cell.inertia, k),
                stability=stability,
                gap=None if gap is None else gap[0],
                gap_error=None if gap is None else gap[1],
            )

    def _bound_of(
        self, cell: Cell, method: str, seconds: float | None, confidence: float
    ) -> LowerBound:
        model = cell.model
        n, k = self._X.shape[0], cell.n_clusters
        limits = (
            modest_limits(min(n, MOST_POINTS), k) if seconds is None else Settings(seconds=seconds)
        )
        settings = replace(
            limits,
            confidence=confidence,
            rng=lambda: self._rng,
            centers=model.cluster_centers_,
            n_threads=effective_threads(None),
        )
        trim = model.trimmed_mass_ if isinstance(model, TrimmedKMeans) else None
        bound = bound_in_units(self._X, k, self._weights, trim, method, DEFAULT_BUDGET, settings)
        model.certificate_ = model.certificate_.bounded_by(bound)
        return bound


def _bounded(cell: Cell, bound: LowerBound, confidence: float, harder: list[Cell]) -> Cell:
    """Return the cell with the best proof and the best bound among its own and its neighbours'.

    A bound from samples that lies above the SSE has failed and says nothing.
    """
    is_proof = bound.confidence == 1.0
    proven = max([other.proven for other in harder], default=0.0)
    proven = min(max(proven, bound.value if is_proof else 0.0), cell.inertia)
    sampled = [other.lower_bound or 0.0 for other in harder if other.confidence != 1.0]
    likely = max([*sampled, 0.0 if is_proof else bound.value])
    if proven < likely <= cell.inertia:
        return replace(cell, proven=proven, lower_bound=likely, confidence=confidence)
    known = proven > 0 or cell.inertia == 0
    return replace(
        cell,
        proven=proven,
        lower_bound=proven if known else None,
        confidence=1.0 if known else None,
    )


def _beside(values: list[Any], value: Any, step: int) -> Any:
    """Return the value that many steps after this one; None outside of the list."""
    place = values.index(value) + step
    return values[place] if 0 <= place < len(values) else None
