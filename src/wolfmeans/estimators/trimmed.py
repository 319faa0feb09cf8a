"""TrimmedKMeans: K-means that trims outliers, over the same loop."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from numbers import Real
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from wolfmeans.bounds import METHODS as BOUNDS
from wolfmeans.certificate.record import Certificate
from wolfmeans.core.draws import RandomSource
from wolfmeans.core.empty_clusters import POLICIES as ALL_POLICIES
from wolfmeans.core.frank_wolfe import Callback
from wolfmeans.core.threshold import find_threshold, kept_masses
from wolfmeans.core.trimmed import (
    TrimmedProblem,
    kept_mass,
    kept_of_total,
    parsed_share,
    share_of,
    total_mass,
)
from wolfmeans.core.workspace import Centers, TrimmedWorkspace, Workspace
from wolfmeans.engines import Work, effective_threads, get_engine
from wolfmeans.engines.choosing import STEPS
from wolfmeans.engines.places.trimmed_parts import sum_of_weights
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.estimators.kmeans import FitFromStarts, KMeans
from wolfmeans.estimators.parameters import (
    Bound,
    Empty,
    EngineName,
    PolishKind,
    Stop,
    ToleranceScale,
)
from wolfmeans.estimators.streamed import source_for
from wolfmeans.fitting.fit import (
    Fit,
    OpenedForFit,
    Start,
    best_of_starts,
    certificate_of,
    run,
    scale_notes,
)
from wolfmeans.fitting.trimmed_search import TrimmedRuns, polished_trimmed, searched_trimmed
from wolfmeans.fitting.two_stages import (
    CONTINUED,
    DRAWN_FROM_SOME,
    SHORT_RUNS,
    best_short_runs,
    most_rows_for_short_runs,
    rows_for_short_runs,
    share_for_short_runs,
)
from wolfmeans.inputs import validation
from wolfmeans.inputs.streams import weights_named
from wolfmeans.seeding.in_parts import seeds_in_parts
from wolfmeans.seeding.methods import METHODS as SEEDINGS
from wolfmeans.seeding.methods import TRIMMED_METHODS, choose_seeds

NumberedSeeds = Callable[[int, Workspace, RandomSource], NDArray[np.floating]]

_DEFAULT_SHARE = 0.05
# Bytes of a point: while short runs take place; of its own label, distance and verdict between
# steps; of its weight and mass; and of the distances, verdicts and margins of a row at work.
_OF_A_SHORT_RUN = 192
_TRIMMED, _MASSES = 26, 16
_AT_WORK, _MASSES_AT_WORK = 128, 112
# Bytes that looking for the threshold takes, whatever the points.
_LOOKING = 3_000_000
_MIXED = ("trimmed-k-means++", "random")
_NO_CHECKPOINT = (
    ". No checkpoint was written, because time ran out before the first full run; the same fit "
    f"would start over. Increase time_limit, or avoid the short runs: set n_init to at most "
    f"{CONTINUED}, or pass initial centers"
)
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
    "checkpoint",
    "memory_limit",
    "polish",
    "effort",
)


class TrimmedKMeans(FitFromStarts):
    """K-means that leaves out the points farthest from all centers, with a certificate.

    A fraction of the points is left out, chosen together with the clusters so that the rest fits
    best. Gross outliers then neither shift centers nor get clusters of their own.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters K.
    alpha : float or None, default=None
        Fraction of the points, or of their weight, to trim, rounded down to whole points. None
        means 0.05 unless `trim` is given; 0 gives the result of `KMeans` from the same start.
    trim : float or None, default=None
        Number of points to trim, or, with weights, their weight; replaces `alpha`.
    init : str, callable or array of shape (n_clusters, n_features), default="auto"
        Initial centers. "trimmed-k-means++" excludes the farthest points before each draw, "auto"
        alternates between it and "random"; the others are as for `KMeans`.
    n_init : "auto" or int, default="auto"
        Number of short runs; the best five are continued. "auto" means 50. Up to five starts are
        run to the end.
    empty : {"farthest", "keep", "resample", "best"}, default="farthest"
        How the center of an empty cluster is chosen, always among the kept points.
    bound : str or None, default="auto"
        The lower bound that a fit computes, as for `KMeans`: "neighbours", "prices",
        "semidefinite" or "subsampled", "auto" or None.
    polish, effort
        As for `KMeans`, among the kept points, followed by trimming again. No level of local
        optimality is claimed.
    checkpoint : str, path or None, default=None
        As for `KMeans`; written from the first step of the first continued start.
    memory_limit : str, number of bytes or None, default=None
        As for `KMeans`; a file that does not fit is read twice for each step.
    max_iter, tol, verbose, random_state, stop, tol_scale, engine, n_threads, time_limit, callback
        As for `KMeans`; they are about the starts that are continued.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centers.
    initial_centers_ : ndarray of shape (n_clusters, n_features)
        Where the best continued start began; ``init=km.initial_centers_, n_init=1`` repeats it.
    labels_ : ndarray of shape (n_samples,)
        The nearest center of each kept point, -1 for trimmed points.
    inertia_ : float
        Sum of squared distances of the kept mass to the nearest center; equal to ``-score(X)``.
    radius_ : float
        Largest distance of a kept point from its center; `predict` labels points that are farther
        from all centers -1. Infinite when nothing is trimmed.
    kept_ : ndarray of shape (n_samples,)
        The kept fraction of each point: 1 or 0, with weights also one value in between.
    margins_ : ndarray of shape (n_samples,)
        How clear the decision on each point is, as a difference of squared distances: for a kept
        point to the second nearest center or the radius, for a trimmed point beyond the radius.
    n_trimmed_ : int
        Number of points of positive weight that are trimmed entirely.
    trimmed_mass_ : float
        The trimmed weight.
    n_iter_, certificate_, trace_, engine_, cluster_sizes_, n_features_in_, feature_names_in_
        As for `KMeans`, of the best start.

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

    alpha: float | None
    trim: float | None
    radius_: float
    kept_: NDArray[np.float64]
    margins_: NDArray[np.floating]
    n_trimmed_: int
    trimmed_mass_: float
    _draws_from_sample = True
    _problem = TrimmedProblem
    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012 - scikit-learn's protocol
        **{name: KMeans._parameter_constraints[name] for name in _LIKE_KMEANS},
        "alpha": [Interval(Real, 0, 1, closed="left"), None],
        "trim": [Interval(Real, 0, None, closed="left"), None],
        "init": [StrOptions({"auto", *SEEDINGS, *TRIMMED_METHODS}), callable, "array-like"],
        # "admissible" passes here, so that the problem can say why it cannot be.
        "empty": [StrOptions(set(ALL_POLICIES))],
        "bound": [StrOptions({"auto", *BOUNDS} - {"spectral", "exact", "branching"}), None],
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
        stop: Stop | None = None,
        tol_scale: ToleranceScale | None = None,
        empty: Empty = "farthest",
        bound: Bound | None = "auto",
        polish: PolishKind | None = None,
        effort: float | None = None,
        engine: EngineName = "auto",
        n_threads: int | None = None,
        time_limit: float | None = None,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        memory_limit: str | float | None = None,
    ) -> None:
        self._set_parameters(locals())

    def _fit(self, data: OpenedForFit) -> None:
        points: Any = data.workspace
        if data.in_parts:
            total = sum_of_weights(points)
            share = self._trimmed_share(points.weights, total.total)
            mass = kept_of_total(share, total.total, total.unit)
            workspace = points.trimmed(mass, total)
        else:
            n_points = points.n_points
            share = self._trimmed_share(points.weights, total_mass(points.weights, n_points))
            workspace = points.trimmed(kept_mass(share, points.weights, n_points))
        best, notes, on_starts = self._best_of_two_stages(data, share, workspace)
        if self.polish is not None or self.effort is not None:
            best = self._improved(best, data, workspace)
        certificate = certificate_of(
            best,
            data.scaled,
            method=None if data.in_parts else self.bound,
            notes=(*notes, *on_starts, *scale_notes(data.X), *data.notes),
            n_threads=effective_threads(self.n_threads),
            random=lambda: check_random_state(self.random_state),
            converted=self._converted,
        )
        self._share = f"{share.numerator}/{share.denominator}"
        self._keep(best, certificate, data.exponent)
        self._conclude(data, notes, trimmed=True)

    def _improved(self, best: Fit, data: OpenedForFit, workspace: TrimmedWorkspace) -> Fit:
        """Search for a better clustering, polish it, or both."""
        n_threads, random = effective_threads(self.n_threads), self._random_source()
        seeds_from, _ = self._numbered_seeding(data.X, data.exponent)
        settings = self._settings()

        def again(seeds: Centers) -> Fit:
            start = Start(workspace.fork(n_threads), seeds, random, data.exponent)
            return run(start, **settings)

        runs = TrimmedRuns(
            data.scaled if sparse.issparse(data.scaled) else np.asarray(data.scaled),
            workspace.weights,
            again,
            lambda: seeds_from(int(random().randint(2)), workspace, random),
            random,
            n_threads,
        )
        limits = [limit for limit in (self.time_limit, self.effort) if limit is not None]
        deadline = data.begun + min(limits, default=math.inf)
        if self.effort is not None:
            best = searched_trimmed(best, runs, max(0.0, deadline - perf_counter()))
        if self.polish is not None:
            best = polished_trimmed(best, runs, self.polish, deadline)
        return best

    def _random_source(self) -> RandomSource:
        return cache(lambda: check_random_state(self.random_state))

    def _work(self, n_threads: int) -> Work | None:
        """Return the work of a fit, to choose an engine: the continued starts, on all points.

        A search is mostly work of the CPU (None).
        """
        if self.effort is not None or self.polish is not None:
            return None
        passes = min(STEPS, self.max_iter or STEPS)
        return Work(self.n_clusters, n_threads, passes, starts=self._continued_starts())

    def _continued_starts(self) -> int:
        """Return the maximum number of starts that are run to the end; 1 for given centers."""
        if not isinstance(self.init, str) and not callable(self.init):
            return 1
        return CONTINUED if self.n_init == "auto" else min(int(self.n_init), CONTINUED)

    def _trimmed_share(self, weights: Any, total: Fraction) -> Fraction:
        """Return the share of the total weight to trim, exactly."""
        if self.trim is None:
            return share_of(_DEFAULT_SHARE if self.alpha is None else self.alpha)
        if self.alpha is not None:
            raise ValueError(
                f"alpha={self.alpha} and trim={self.trim} both set how much to trim; use only one"
            )
        if weights is None and float(self.trim) != int(self.trim):
            raise ValueError(
                f"trim={self.trim} must be an integer, because it is a number of points when there "
                "are no weights; use alpha for a fraction of the points"
            )
        if Fraction(self.trim) >= total:
            raise ValueError(
                f"trim={self.trim} would trim everything: the total weight is {float(total):g}"
            )
        return Fraction(self.trim) / total

    def _amount_to_trim(self) -> dict[str, float | None]:
        """Return the parameters that say how much to trim."""
        if self.trim is not None:
            return {"alpha": None, "trim": float(self.trim)}
        return {"alpha": float(_DEFAULT_SHARE if self.alpha is None else self.alpha), "trim": None}

    def _best_of_two_stages(
        self, data: OpenedForFit, share: Fraction, workspace: TrimmedWorkspace
    ) -> tuple[Fit, tuple[str, ...], tuple[str, ...]]:
        """Return the best fit, notes that are also warnings, and other notes on its start."""
        begun, exponent = perf_counter(), data.exponent
        generator = check_random_state(self.random_state)
        seeds_from, n_starts = self._numbered_seeding(data.X, exponent)
        states = generator.randint(np.iinfo(np.int32).max, size=n_starts).tolist()
        n_threads = effective_threads(self.n_threads)
        checkpoint = self._checkpoint(data.X, workspace, exponent, **self._amount_to_trim())
        two_stages = n_starts > CONTINUED
        sample = workspace
        if two_stages or self._draws_from_some(workspace):
            sample = self._some_points(data.scaled, share, workspace, generator)

        def begin(
            number: int, on: TrimmedWorkspace, n_threads: int, seeds: Centers | None = None
        ) -> Start:
            random = cache(lambda: np.random.RandomState(states[number]))
            if seeds is None:
                seeds = seeds_from(number, sample, random)
            return Start(on.fork(n_threads), seeds, random, exponent)

        settings = self._settings()
        max_steps = settings.pop("max_steps")
        chosen = checkpoint.seeds if two_stages and checkpoint is not None else []
        cut_off: tuple[str, ...] = ()
        if two_stages and not chosen:
            self._tell(f"{n_starts} short runs on {sample.n_points:,} rows")
            chosen, made = best_short_runs(
                lambda number: begin(number, sample, n_threads),
                n_starts,
                on_all_points=sample.n_points == workspace.n_points,
                time_limit=self.time_limit,
                **settings,
            )
            if made < n_starts:
                note = f"{made} of {n_starts} short runs were made within the time limit"
                cut_off = (note if checkpoint is None else note + _NO_CHECKPOINT,)
                # A fit that resumes from the file would never make the others.
                checkpoint = None
        if checkpoint is not None:
            checkpoint.seeds = list(chosen or checkpoint.seeds)
            settings |= {"kind": checkpoint.trimmed_problem, "at_once": False}

        def start(number: int, n_threads: int) -> Start:
            seeds = chosen[number] if chosen else None
            if seeds is None and checkpoint is not None:
                seeds = checkpoint.seeds_of(number)
            return begin(number, workspace, n_threads, seeds)

        best, notes = best_of_starts(
            start,
            list(range(len(chosen) or n_starts)),
            n_threads=n_threads,
            time_limit=self._time_left(perf_counter() - begun),
            watcher=self._watcher,
            max_steps=max_steps,
            **settings,
        )
        drawn_from_some = workspace.in_parts and sample.n_points < workspace.n_points
        further = (DRAWN_FROM_SOME.format(sample.n_points),) if drawn_from_some else ()
        return best, (*cut_off, *notes), further

    def _time_left(self, spent: float) -> float | None:
        return None if self.time_limit is None else max(0.0, self.time_limit - spent)

    def _draws_from_some(self, workspace: TrimmedWorkspace) -> bool:
        """Whether seeds are drawn from a sample: most methods need it for data in parts."""
        drawn = isinstance(self.init, str) and self.init != "k-means||"
        return drawn and workspace.in_parts

    def _numbered_seeding(self, X: Any, exponent: int) -> tuple[NumberedSeeds, int]:
        """Return a function that makes the seeds of each start, and the number of starts."""
        n_starts = SHORT_RUNS if self.n_init == "auto" else int(self.n_init)
        if not isinstance(self.init, str):
            seeds_from, n_given = self._seeding(X, exponent)
            return lambda _, ws, random: seeds_from(ws, random), (
                n_starts if callable(self.init) else n_given
            )
        methods = _MIXED if self.init == "auto" else (self.init,)

        def seeds(number: int, ws: Workspace, random: RandomSource) -> NDArray[np.floating]:
            if ws.in_parts:
                return seeds_in_parts(ws, self.n_clusters, self.init, random())
            return choose_seeds(ws, self.n_clusters, methods[number % len(methods)], random())

        return seeds, n_starts

    def _some_points(
        self,
        scaled: Any,
        share: Fraction,
        workspace: TrimmedWorkspace,
        generator: np.random.RandomState,
    ) -> TrimmedWorkspace:
        """Return the sample of points for the short runs, with the mass to keep of it."""
        in_parts = workspace.in_parts
        rows = rows_for_short_runs(workspace, self.n_clusters, generator, by_number=in_parts)
        if rows is None and not in_parts:
            return workspace
        mass = workspace.mass
        some = np.arange(workspace.n_points) if rows is None else rows
        weights = None if workspace.weights is None else workspace.weights[some]
        if rows is not None:
            mass = kept_mass(share_for_short_runs(share, len(rows)), weights, len(rows))
        points = workspace.rows(some) if in_parts else scaled[some]
        n_threads = effective_threads(self.n_threads)
        return get_engine(workspace.engine).open(points, weights, n_threads).trimmed(mass)

    def _keep(self, fit: Fit, certificate: Certificate, exponent: int) -> None:
        """Set the fitted attributes, in the units of the caller's data."""
        problem = fit.problem
        assert isinstance(problem, TrimmedProblem)
        workspace = problem.workspace
        threshold = workspace.threshold.distance
        whole = math.isinf(threshold)
        certificate = replace(
            certificate,
            trimmed_points=workspace.n_trimmed(),
            trimmed_mass=problem.trimmed_mass(),
            threshold=None if whole else threshold,
        )
        super()._keep(fit, certificate, exponent)
        self._threshold = threshold
        self.radius_ = math.ldexp(math.sqrt(threshold), -exponent)
        self.kept_ = workspace.shares()
        margins = workspace.margins(fit.solution.point.centers)
        # In place: they may be mapped from a file because memory has no room for a copy.
        self.margins_ = (
            validation.ldexp(margins, -2 * exponent, out=margins) if exponent else margins
        )
        self.n_trimmed_ = certificate.trimmed_points
        self.trimmed_mass_ = certificate.trimmed_mass

    def _bytes_beside(self, source: Any) -> int:
        """Return the bytes of the short runs, which use a sample; given centers need none."""
        if not isinstance(self.init, str) and not callable(self.init):
            return _LOOKING
        row: int = source.n_columns * source.dtype.itemsize
        return _LOOKING + most_rows_for_short_runs(self.n_clusters) * (row + _OF_A_SHORT_RUN)

    def _states_at_once(self) -> int:
        """Return of how many starts labels are kept: the best one's margins come at the end."""
        given = not isinstance(self.init, str) and not callable(self.init)
        return 1 if given or self.n_init == 1 else 2

    def _bytes_of_a_row(self, *, weighted: bool) -> int:
        """Return the bytes that a row needs during a step, beyond those of K-means."""
        return _AT_WORK + (_MASSES_AT_WORK if weighted else 0)

    def _bytes_of_a_point(self, state: str, weights: Any) -> int | None:
        """Return the bytes of labels and distances; labels alone are not kept."""
        if state == "labels":
            return None
        more = _TRIMMED if weights is None else _TRIMMED + _MASSES
        return more if state == "bounds" else 0

    def _trim_on(self, X: Any, weights: NDArray[np.float64] | None) -> float | None:
        """Return the mass that may be trimmed; None if all points must be clustered."""
        return self.trimmed_mass_ or None

    def predict(self, X: Any) -> NDArray[np.int32]:
        """Return the nearest center of each point, or -1 for points beyond the radius.

        For the points of the fit this is `labels_`, save for those that lie on the threshold: of
        several that are exactly as far out, `labels_` keeps no more than the mass allows, and here
        all of them are inside. Dask data and sources as for `KMeans`.
        """
        return super().predict(X)

    def _labels_of(self, X: Any) -> NDArray[np.int32]:
        workspace, centers, exponent = self._opened(X)
        labels, distances = workspace.nearest(centers)
        threshold = math.ldexp(self._threshold, 2 * (exponent - self._scale_exponent))
        labels[distances > threshold] = -1
        return labels

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return minus the sum of squared distances to the nearest centers, trimmed.

        The share of X that is left out, the farthest points first, is that of the fit; so scores
        of several models with the same `alpha` can be compared on the same data. Sources
        are loaded.
        """
        return super().score(X, sample_weight=sample_weight)

    def _score_of_file(self, X: Any, sample_weight: Any) -> float:
        """Return minus the inertia of a source, whose rows are loaded."""
        if isinstance(sample_weight, str):
            sample_weight = weights_named(X, sample_weight)
        rows = source_for(self, X).whole()
        return self._without_names().score(rows, sample_weight=sample_weight)

    def _score_of(self, X: Any, sample_weight: Any) -> float:
        """Return minus the inertia of points in memory."""
        workspace, centers, exponent = self._opened(X)
        weights = validation.validate_weights(sample_weight, X)
        distances = workspace.nearest(centers)[1]
        mass = kept_mass(parsed_share(self._share), weights, workspace.n_points)
        threshold = find_threshold(distances, weights, mass)
        kept = kept_masses(threshold, distances, weights)
        return -self._unit * validation.unscaled(workspace.total(kept * distances), exponent)

    def _points_to_score(self, points: PartsWorkspace) -> Any:
        """Return the points with the share of the fit trimmed."""
        total = sum_of_weights(points)
        mass = kept_of_total(parsed_share(self._share), total.total, total.unit)
        return points.trimmed(mass, total)
