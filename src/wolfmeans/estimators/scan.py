"""Which K, which alpha? Fits over a grid of both, warm-started, each with what is proven about it.

The best possible SSE falls with K and with alpha. So a lower bound for more clusters, or for more
trimming, is one for fewer; and where the SSE found with K + 1 clusters lies below the bound for K,
no clustering with K clusters is as good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from wolfmeans.bounds import LowerBound
from wolfmeans.engines import effective_threads
from wolfmeans.estimators import KMeans, TrimmedKMeans
from wolfmeans.estimators.scan_result import Cell, Model, Scan
from wolfmeans.fitting.lower_bound import lower_bound
from wolfmeans.inputs import validation

Progress = Callable[[float, str], Any]
_TRIALS = 16
_STARTS = 5
_DISTANCES_AT_ONCE = 1 << 22


def scan(
    X: Any,
    n_clusters: int | Iterable[int] = range(2, 11),
    alpha: float | Iterable[float] = (0.0,),
    *,
    sample_weight: Any = None,
    certify: str | None = "auto",
    confidence: float = 0.95,
    random_state: Any = None,
    progress: Progress | None = None,
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
    certify : str or None, default="auto"
        The method of `lower_bound`; None computes no bounds.
    confidence : float, default=0.95
        The joint confidence of all bounds from samples.
    random_state : int, RandomState or None, default=None
        Seed of all draws.
    progress : callable or None, default=None
        Called with the completed fraction and a text.
    **parameters
        Further parameters of the estimators, such as ``n_init`` (5 by default for K-means).

    Returns
    -------
    Scan
        Table, figure (`plot`), fitted models (``scan[K, alpha].model``) and sentences.

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
    counts = _numbers_of_clusters(n_clusters)
    shares = sorted({float(a) for a in ((alpha,) if np.isscalar(alpha) else alpha)})  # type: ignore[arg-type, union-attr]
    if not counts or not shares:
        raise ValueError("a scan needs at least one number of clusters and one alpha")
    if shares[-1] > 0 and (unknown := set(parameters) - set(TrimmedKMeans().get_params())):
        raise ValueError(f"with alpha > 0 a scan cannot take {', '.join(sorted(unknown))}")
    admitted = KMeans()
    X, sizes = validation.admit(admitted, X, reset=True, n_threads=effective_threads(None))
    weights = validation.admit_weights(sample_weight, X)
    if validation.scale_exponent(X, sizes, weights):
        raise ValueError("squares of X do not fit into float64; multiply X by a constant first")
    scanner = _Scanner(X, weights, check_random_state(random_state), parameters)
    for done, (share, count) in enumerate((a, k) for a in shares for k in counts):
        if progress is not None:
            text = f"K = {count}, alpha = {share:g}"
            progress(done / (len(counts) * len(shares)), text)
        scanner.fit(count, share, counts, shares)
    scanner.go_back(counts, shares)
    if certify is not None:
        scanner.bound(counts, shares, certify, confidence, progress)
    if hasattr(admitted, "feature_names_in_"):
        for cell in scanner.cells.values():
            cell.model.feature_names_in_ = admitted.feature_names_in_
    if progress is not None:
        progress(1.0, "done")
    return Scan(scanner.cells.values())


def _numbers_of_clusters(n_clusters: Any) -> list[int]:
    given: list[Any] = [n_clusters] if isinstance(n_clusters, Integral) else list(n_clusters)
    whole = [k for k in given if isinstance(k, Integral) and not isinstance(k, bool)]
    if len(whole) < len(given) or any(int(k) < 1 for k in whole):
        raise ValueError(f"n_clusters must be whole numbers of at least 1; got {given}")
    return sorted({int(k) for k in given})


class _Scanner:
    """Holds the best fit of each cell while the scan goes on."""

    def __init__(
        self,
        X: Any,
        sample_weight: Any,
        rng: np.random.RandomState,
        parameters: dict[str, Any],
    ) -> None:
        self._X, self._weight, self._rng = X, sample_weight, rng
        self._parameters = parameters
        self.cells: dict[tuple[int, float], Cell] = {}

    def _estimator(self, n_clusters: int, alpha: float, **changes: Any) -> Model:
        seed = int(self._rng.randint(np.iinfo(np.int32).max))
        settings = {**self._parameters, "certify": None, "random_state": seed, **changes}
        if alpha == 0:
            return KMeans(n_clusters, **{"n_init": _STARTS, **settings})
        return TrimmedKMeans(n_clusters, alpha=alpha, **settings)

    def fit(self, n_clusters: int, alpha: float, counts: list[int], shares: list[float]) -> None:
        """Fit a cell afresh, from the one with fewer clusters, and from that with less trimming."""
        started = perf_counter()
        self._offer(n_clusters, alpha, self._estimator(n_clusters, alpha), started)
        before = _before(counts, n_clusters)
        if before is not None:
            smaller = self.cells[before, alpha].model
            seeds = self._grown(smaller, n_clusters)
            self._offer_from(seeds, n_clusters, alpha)
        less = _before(shares, alpha)
        if less is not None:
            self._offer_from(self.cells[n_clusters, less].model.cluster_centers_, n_clusters, alpha)

    def go_back(self, counts: list[int], shares: list[float]) -> None:
        """Start each cell from the one with more clusters, without those of the least use."""
        for alpha in shares:
            for fewer, more in reversed(list(pairwise(counts))):
                model = self.cells[more, alpha].model
                self._offer_from(self._shrunk(model, fewer), fewer, alpha)

    def _offer_from(self, seeds: NDArray[np.floating], n_clusters: int, alpha: float) -> None:
        estimator = self._estimator(n_clusters, alpha, init=seeds, n_init=1)
        self._offer(n_clusters, alpha, estimator, perf_counter())

    def _offer(self, n_clusters: int, alpha: float, estimator: Model, started: float) -> None:
        model = estimator.fit(self._X, sample_weight=self._weight)
        known = self.cells.get((n_clusters, alpha))
        spent = perf_counter() - started + (0.0 if known is None else known.seconds)
        if known is not None and known.inertia <= model.inertia_:
            self.cells[n_clusters, alpha] = replace(known, seconds=spent)
            return
        silhouette = self._silhouette(model)
        self.cells[n_clusters, alpha] = Cell(
            n_clusters, alpha, model.inertia_, None, None, 0.0, silhouette, spent, model
        )

    def _two_nearest(self, model: Model) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return each point's nearest center and its distances to the two nearest, not squared."""
        n, k = self._n_rows(), model.n_clusters
        labels, two = np.zeros(n, dtype=np.int64), np.full((n, 2), np.inf)
        step = max(1, _DISTANCES_AT_ONCE // k)
        for start in range(0, n, step):
            rows = slice(start, start + step)
            roots = np.asarray(model.transform(self._X[rows]), dtype=np.float64)
            labels[rows] = roots.argmin(axis=1)
            two[rows, : min(k, 2)] = np.partition(roots, min(k, 2) - 1, axis=1)[:, :2]
        return labels, two

    def _n_rows(self) -> int:
        return int(self._X.shape[0])

    def _mass(self, model: Model) -> NDArray[np.float64]:
        """Return the kept mass of each point."""
        n = self._n_rows()
        mass = np.ones(n) if self._weight is None else np.asarray(self._weight, dtype=np.float64)
        return mass * model.kept_ if isinstance(model, TrimmedKMeans) else mass

    def _silhouette(self, model: Model) -> float:
        if model.n_clusters == 1:
            return 0.0
        labels, (own, other) = (found := self._two_nearest(model))[0], found[1].T
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
        while len(centers) < n_clusters:
            masses = mass * closest
            total = float(masses.sum())
            if not total > 0:
                return np.vstack([centers, centers[: n_clusters - len(centers)]])
            rows = self._rng.choice(len(masses), size=_TRIALS, p=masses / total)
            trials = [np.minimum(closest, self._squared_distances(row)) for row in rows]
            best = int(np.argmin([float(mass @ reached) for reached in trials]))
            centers = np.vstack([centers, self._row(rows[best])])
            closest = trials[best]
        return centers.astype(model.cluster_centers_.dtype)

    def _row(self, row: int) -> NDArray[np.floating]:
        chosen = self._X[row : row + 1]
        dense = chosen.toarray() if hasattr(chosen, "toarray") else np.asarray(chosen)
        return dense.astype(np.float64)

    def _squared_distances(self, row: int) -> NDArray[np.float64]:
        one = self._row(row)
        squares: list[NDArray[np.float64]] = []
        step = max(1, _DISTANCES_AT_ONCE // one.shape[1])
        for start in range(0, self._n_rows(), step):
            block = self._X[start : start + step]
            dense = block.toarray() if hasattr(block, "toarray") else np.asarray(block)
            squares.append(((dense - one) ** 2).sum(axis=1))
        return np.concatenate(squares)

    def _shrunk(self, model: Model, n_clusters: int) -> NDArray[np.floating]:
        """Return the model's centers without those whose points have another one nearly as near."""
        labels, two = self._two_nearest(model)
        losses = self._mass(model) * (two[:, 1] ** 2 - two[:, 0] ** 2)
        uses = np.bincount(labels, weights=losses, minlength=model.n_clusters)
        kept: NDArray[np.int64] = np.sort(np.argsort(uses, kind="stable")[-n_clusters:])
        chosen: NDArray[np.floating] = model.cluster_centers_[kept]
        return chosen

    def bound(
        self,
        counts: list[int],
        shares: list[float],
        method: str,
        confidence: float,
        progress: Progress | None,
    ) -> None:
        """Bound each cell from below; a bound for more clusters or more trimming is one as well.

        Each bound from samples may fail with its share of 1 - confidence, so that with the stated
        confidence none of them does, whichever is the largest.
        """
        each = 1.0 - (1.0 - confidence) / (len(counts) * len(shares))
        for alpha in reversed(shares):
            for k in reversed(counts):
                if progress is not None:
                    progress(1.0, f"lower bound for K = {k}, alpha = {alpha:g}")
                started = perf_counter()
                found = self._bound_of(self.cells[k, alpha], method, each)
                bounded = self._bounded(found, confidence, self._harder(k, alpha, counts, shares))
                spent = bounded.seconds + perf_counter() - started
                self.cells[k, alpha] = replace(bounded, seconds=spent)

    def _bound_of(self, cell: Cell, method: str, confidence: float) -> tuple[Cell, LowerBound]:
        model = cell.model
        bound = lower_bound(
            self._X,
            cell.n_clusters,
            sample_weight=self._weight,
            trim=model.trimmed_mass_ if isinstance(model, TrimmedKMeans) else None,
            method=method,
            confidence=confidence,
            random_state=self._rng,
            centers=model.cluster_centers_,
        )
        model.certificate_ = model.certificate_.bounded_by(bound)
        return cell, bound

    def _bounded(
        self, found: tuple[Cell, LowerBound], confidence: float, harder: list[Cell]
    ) -> Cell:
        """Return the cell with the best proof and the best bound among its own and its neighbours'.

        A bound from samples that lies above the SSE has failed and says nothing.
        """
        cell, bound = found
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

    def _harder(
        self, n_clusters: int, alpha: float, counts: list[int], shares: list[float]
    ) -> list[Cell]:
        """The neighbouring cells whose best SSE cannot be above this one's."""
        more, trimmed = _after(counts, n_clusters), _after(shares, alpha)
        found = [] if more is None else [self.cells[more, alpha]]
        return found if trimmed is None else [*found, self.cells[n_clusters, trimmed]]


def _before(values: list[Any], value: Any) -> Any:
    place = values.index(value)
    return values[place - 1] if place > 0 else None


def _after(values: list[Any], value: Any) -> Any:
    place = values.index(value)
    return values[place + 1] if place + 1 < len(values) else None
