"""KMeans: scikit-learn's interface over the loop.

The fit that all estimators of means share is here; what a fitted model answers is in `base`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from numbers import Integral, Real
from time import perf_counter
from typing import Any, Literal, Self

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from wolfmeans.bounds import METHODS as BOUNDS
from wolfmeans.bounds import REGISTRY, Optimum, optimum_on_a_line
from wolfmeans.certificate.record import Certificate, warn_about
from wolfmeans.core import progress
from wolfmeans.core.choices import SEEDINGS
from wolfmeans.core.draws import RandomSource
from wolfmeans.core.empty_clusters import POLICIES
from wolfmeans.core.frank_wolfe import Callback
from wolfmeans.core.kmeans import KMeansProblem
from wolfmeans.core.notices import warn
from wolfmeans.core.solution import Record
from wolfmeans.core.stopping import STOPS, TOLERANCE_SCALES, Criterion, criterion
from wolfmeans.engines import (
    ALGORITHMS,
    ENGINES,
    Chosen,
    Work,
    Workspace,
    choose_engine,
    effective_threads,
)
from wolfmeans.engines.choosing import STEPS
from wolfmeans.engines.tensors import OnDevice
from wolfmeans.estimators.base import CenterEstimator
from wolfmeans.estimators.checkpoint import Checkpoint, refuse_settings
from wolfmeans.estimators.parameters import (
    Algorithm,
    Bound,
    Empty,
    EngineName,
    OneColumn,
    PolishKind,
    Stop,
    ToleranceScale,
)
from wolfmeans.estimators.postponed import postponed_bound
from wolfmeans.fitting.fit import (
    Fit,
    OpenedForFit,
    Start,
    best_of_starts,
    certificate_of,
    lent_generators,
    opened_for_fit,
    polished,
    run,
    scale_notes,
    searched,
)
from wolfmeans.fitting.multilevel import bytes_of_samples, multilevel_seeds
from wolfmeans.fitting.polish import POLISHES
from wolfmeans.inputs import validation
from wolfmeans.seeding.in_parts import seeds_in_parts
from wolfmeans.seeding.methods import choose_seeds, enough_rows, worth_sampling

_DEFAULT_SEEDS = ("multilevel", "k-means++", "greedy-k-means++")
# Multiplications for the optimum of one column: about a second.
_EXACT_BUDGET = 1e9
_DEFAULT_STARTS = 10
_LARGEST_STATE = int(np.iinfo(np.int32).max)


class FitFromStarts(CenterEstimator):
    """The fit that estimators of means share: parameters, seeds, starts, fitted attributes.

    A subclass has the parameters that are read here, the problem that the loop solves, and `_fit`,
    which clusters opened data.
    """

    _problem: type[KMeansProblem] = KMeansProblem
    """The concave problem that the loop solves."""
    _runs_at_once = True
    """Whether an engine may take the steps of several starts in one call."""

    _draws_from_sample = False
    """Whether seeds of data in parts are drawn from a sample of the rows."""

    def _set_parameters(self, given: dict[str, Any]) -> None:
        """Set an attribute for each argument of `__init__`; `given` are its local variables."""
        self.__dict__.update((name, value) for name, value in given.items() if value is not self)

    def _validate_params(self) -> None:
        """Check the parameters as scikit-learn does, plain values once."""
        validation.validate_parameters(self)
        if getattr(self, "memory_limit", None) is not None:
            self._memory_limit()  # a bad one is refused for data in memory, too

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Cluster X.

        Parameters
        ----------
        X : array-like, sparse matrix, Dask collection or source of shape (n_samples, n_features)
            The points; never changed. A source is the path of a file, a folder or a pattern of
            files, several paths, or arrays one by one (see `wolfmeans.sources.open_source`).
        y : ignored
            Present by convention.
        sample_weight : array-like of shape (n_samples,) or str, default=None
            Weights of the points, at least 0; of Parquet and Arrow files the name of a column.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._fit_or_restore(X, sample_weight)
        return self

    def refine(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit X from the centers of this model, one start, and certify the result for X.

        For a model whose data has changed or grown: the descent begins where the last one ended,
        and `labels_`, `inertia_` and `certificate_` are about the new data. The parameters stay as
        they are. If the fit fails, the model stays as it was.

        Parameters
        ----------
        X : array-like, sparse matrix, Dask collection or source of shape (n_samples, n_features)
            The new points, with the columns of the fit before.
        y : ignored
            Present by convention.
        sample_weight : array-like of shape (n_samples,) or str, default=None
            Weights of the points, as for `fit`.

        Returns
        -------
        self : object
            The estimator, fitted to X.

        Examples
        --------
        >>> import numpy as np
        >>> from wolfmeans import KMeans
        >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
        >>> km = KMeans(2, random_state=0).fit(X)
        >>> km.refine(np.vstack([X, [[10.0]]])).initial_centers_.ravel().tolist()
        [0.5, 8.5]
        >>> km.cluster_centers_.ravel().tolist(), km.certificate_.gap
        ([0.5, 9.0], 0.0)
        """
        check_is_fitted(self)
        self._refuse_other_number_of_clusters()
        if getattr(self, "feature_names_in_", None) is not None and hasattr(X, "iloc"):
            validate_data(self, X, reset=False, skip_check_array=True)
        given = self.init, self.n_init
        self.init, self.n_init = self.cluster_centers_, 1
        try:
            return self.fit(X, sample_weight=sample_weight)
        finally:
            self.init, self.n_init = given

    # Untyped because the decorator is; `fit` wraps it so that type checkers see a signature.
    @_fit_context(prefer_skip_nested_validation=True)
    def _fit_or_restore(self, X: Any, sample_weight: Any) -> None:
        """Validate the parameters and fit; an estimator whose fit fails stays as it was."""
        before = self.__dict__.copy()
        # Who prints or follows the steps needs no bar.
        is_followed = self.verbose or self.callback is not None
        progress.current.fits += 1
        try:
            self._refuse_infinite_tolerance()
            if self.checkpoint is not None:
                refuse_settings(self)
            silent = progress.silence() if is_followed else nullcontext()
            with silent, opened_for_fit(self, X, sample_weight) as data:
                self._fit(data)
                if data.names is not None:
                    self.feature_names_in_ = np.array(data.names, dtype=object)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        finally:
            progress.current.fits -= 1
            if progress.current.line is not None:
                progress.end_of_fit()

    def _fit(self, data: OpenedForFit) -> None:
        raise NotImplementedError

    def _work(self, n_threads: int) -> Work | None:
        """Return the work of a fit, to choose an engine; None for a search (mostly CPU work)."""
        if getattr(self, "effort", None) is not None:
            return None
        return Work(
            self.n_clusters,
            n_threads,
            passes=min(STEPS, self.max_iter or STEPS),
            starts=self._number_of_starts(),
            seeding=isinstance(self.init, str) and self.init != "random",
        )

    def _refuse_few_rows(self, n_rows: int) -> None:
        if n_rows < self.n_clusters:
            raise ValueError(f"n_samples={n_rows} should be >= n_clusters={self.n_clusters}.")

    def _criterion(self) -> Criterion:
        """Return the stopping rule that the parameters mean."""
        return criterion(self.stop, None if self.tol is None else float(self.tol), self.tol_scale)

    def _refuse_infinite_tolerance(self) -> None:
        if self.tol is not None and not math.isfinite(self.tol):
            raise ValueError(f"tol must be a finite number; got {self.tol!r}")

    def _chosen_engine(self, X: Any, n_threads: int) -> Chosen:
        """Return the engine for a fit; if verbose, print what "auto" chose."""
        chosen = choose_engine(self.engine, X, self._work(n_threads))
        for note in chosen.notes:
            self._tell(note)
        return chosen

    def _tell(self, text: str) -> None:
        """Print a line if verbose, flushed at once so that a log file is up to date."""
        if self.verbose:
            print(text, flush=True)

    def _seeding(
        self, X: Any, exponent: int
    ) -> tuple[Callable[[Workspace, RandomSource], NDArray[np.floating]], int]:
        """Return a function that makes seeds, and the number of starts."""
        n_starts = self._number_of_starts()
        if isinstance(self.init, str):
            method = self.init

            def chosen(ws: Workspace, random: RandomSource) -> NDArray[np.floating]:
                other = "k-means++" if method == "multilevel" else method
                if method == "multilevel" and enough_rows(ws.n_points):
                    threads = effective_threads(self.n_threads)
                    found = multilevel_seeds(ws, self.n_clusters, random, threads)
                    if found is not None:
                        return found
                if ws.in_parts:
                    return seeds_in_parts(ws, self.n_clusters, other, random())
                return choose_seeds(ws, self.n_clusters, other, random())

            return chosen, n_starts
        if callable(self.init):
            call = self.init

            def called(ws: Workspace, random: RandomSource) -> NDArray[np.floating]:
                given = validation.unwritable(getattr(X, "collection", X))
                return self._given(call(given, self.n_clusters, random_state=random()), X, exponent)

            return called, n_starts
        if self.n_init != "auto" and int(self.n_init) > 1:
            warn(
                "Explicit initial center position passed: performing only one init in "
                f"{type(self).__name__} instead of n_init={self.n_init}.",
                RuntimeWarning,
            )
        given = self._given(self.init, X, exponent)
        return lambda ws, random: given, 1

    def _bytes_beside(self, source: Any) -> int:
        """Return the bytes of the samples that seeds come from."""
        sampled = isinstance(self.init, str) and self.init == "multilevel"
        if not sampled or not worth_sampling(source.n_rows, self.n_clusters):
            return 0
        itemsize = source.dtype.itemsize
        return bytes_of_samples(source.n_rows, source.n_columns, self.n_clusters, itemsize)

    def _number_of_starts(self) -> int:
        """Return the number of starts; 1 for given centers."""
        if not isinstance(self.init, str) and not callable(self.init):
            return 1
        if self.n_init != "auto":
            return int(self.n_init)
        return _DEFAULT_STARTS if callable(self.init) or self.init == "random" else 1

    def _continued_starts(self) -> int:
        """Return how many starts are run to the end."""
        return self._number_of_starts()

    def _given(self, init: Any, X: Any, exponent: int) -> NDArray[np.floating]:
        validation.refuse_other_names(init, getattr(self, "feature_names_in_", None))
        centers = validation.validate_centers(init, self.n_clusters, X)
        validation.refuse_far_centers(centers, X, exponent)
        return centers if exponent == 0 else validation.ldexp(centers, exponent)

    def _checkpoint(
        self, X: Any, workspace: Workspace, exponent: int, **further: Any
    ) -> Checkpoint | None:
        """Return the checkpoint that the fit resumes from and writes; None without `checkpoint`."""
        if self.checkpoint is None:
            return None
        kept = Checkpoint.of(self, workspace, exponent, **further)
        if not isinstance(self.init, str) and not callable(self.init):
            kept.refuse_other_seeds(self._given(self.init, X, exponent))
        if kept.standings:
            self._tell(f"resuming from {kept.path}: {kept.progress}")
        return kept

    def _watcher(self, start: int) -> Callback | None:
        if not self.verbose:
            return self.callback
        user = self.callback

        def watch(record: Record) -> Any:
            self._tell(
                f"start {start}, iteration {record.t + 1}: inertia {record.value:.6g}, "
                f"gap {record.gap:.3g}, decrease {record.decrease:.3g}, moved {record.moved:,}, "
                f"{record.seconds:.1f} s"
            )
            return user(record) if user is not None else None

        return watch

    def _best_of_starts(
        self,
        data: OpenedForFit,
        generator: RandomState,
        seeded: Callable[[int], RandomState] = RandomState,
        *,
        oracle: Workspace | None = None,
        given: NDArray[np.floating] | None = None,
    ) -> tuple[Fit, tuple[str, ...]]:
        """Run the loop from each start; return the best fit, and notes on starts that were cut off.

        Seeds come from the data, unless centers are `given`. The loop runs on the `oracle` over the
        data; None for nearest centers. `seeded` makes a generator from a state.
        """
        X, points, exponent = data.X, data.workspace, data.exponent
        workspace = points if oracle is None else oracle
        if given is None:
            seeds_from, n_starts = self._seeding(X, exponent)
        else:
            seeds_from, n_starts = (lambda workspace, random: given), 1
        # The same numbers as randint(size=n_starts), which is slower.
        states = [generator.randint(_LARGEST_STATE) for _ in range(n_starts)]
        settings = self._settings()
        kept = self._checkpoint(X, points, exponent)
        if kept is not None:
            # One start after the other, so that the file says which of them have finished.
            settings["kind"] = kept.problem

        # A function of the caller may keep the generator that it is given.
        made = RandomState if callable(self.init) else seeded

        def begin(number: int, n_threads: int) -> Start:
            random = cache(lambda: made(states[number]))
            seeds = kept.seeds_of(number) if kept is not None else None
            if seeds is None:
                seeds = seeds_from(points, random)
            return Start(workspace.fork(n_threads), seeds, random, exponent)

        return best_of_starts(
            begin,
            list(range(n_starts)),
            n_threads=effective_threads(self.n_threads),
            time_limit=self.time_limit,
            watcher=self._watcher,
            at_once=self._runs_at_once and kept is None,
            **settings,
        )

    def _settings(self) -> dict[str, Any]:
        """Return the settings of every run of the loop."""
        return {
            **self._criterion()._asdict(),
            "empty": self.empty,
            "max_steps": None if self.max_iter is None else self.max_iter - 1,
            "kind": self._problem,
        }

    def _search(
        self,
        fit: Fit,
        begun: float,
        workspace: Workspace,
        exponent: int,
        generator: np.random.RandomState,
    ) -> Fit:
        """Search for a better clustering for the rest of the effort and of the time limit."""
        effort: float = vars(self)["effort"]
        whole = effort if self.time_limit is None else min(effort, self.time_limit)
        # The fit from what is found and its polish take about as long as the first one did.
        last_fit = min(max(2.0 * fit.solution.trace[-1].seconds, 0.02 * whole), 0.2 * whole)
        n_threads = effective_threads(self.n_threads)
        start = Start(workspace.fork(n_threads), fit.centers, lambda: generator, exponent)
        seconds = max(0.0, whole - last_fit - (perf_counter() - begun))
        return searched(fit, start, seconds=seconds, n_threads=n_threads, **self._settings())

    def _keep(self, fit: Fit, certificate: Certificate, exponent: int) -> None:
        """Set the fitted attributes, in the units of the caller's data."""
        self._scale_exponent = exponent
        self._scaled_centers = fit.centers.copy() if exponent else None
        centers = validation.ldexp(fit.centers, -exponent) if exponent else fit.centers.copy()
        self.cluster_centers_ = centers
        self.initial_centers_ = (
            validation.ldexp(fit.seeds, -exponent) if exponent else fit.seeds.copy()
        )
        self._n_features_out = len(centers)
        self.labels_ = fit.labels
        self.inertia_ = validation.unscaled(fit.inertia, exponent)
        self.n_iter_ = fit.solution.iterations + 1
        self.engine_ = certificate.engine
        certificate = certificate.in_units(-2 * exponent)
        # Not through the property, which would compute a bound that an earlier fit postponed.
        self.__dict__["certificate_"] = certificate
        self.__dict__.pop("_postponed", None)
        kept = exponent == 0 or certificate.unit_exponent != 0
        self.trace_ = fit.solution.trace if kept else fit.solution.trace.in_units(-2 * exponent)

    def _conclude(
        self, data: OpenedForFit, notes: tuple[str, ...], *, trimmed: bool = False
    ) -> None:
        """Warn about the fit, and postpone a better lower bound until the certificate is read."""
        certificate: Certificate = vars(self)["certificate_"]
        warn_about(certificate, inertia=self.inertia_, empty=self.empty, notes=notes)
        if self.bound == "auto":
            postponed = postponed_bound(certificate, data, trimmed=trimmed)
            if postponed is not None:
                self._postponed = postponed

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> NDArray[np.int32]:
        """Cluster X and return the labels."""
        labels: NDArray[np.int32] = self.fit(X, sample_weight=sample_weight).labels_
        return labels

    def fit_transform(
        self, X: Any, y: Any = None, sample_weight: Any = None
    ) -> NDArray[np.floating]:
        """Cluster X and return the distances of its points to all centers."""
        return self.fit(X, sample_weight=sample_weight).transform(X)


class KMeans(FitFromStarts):
    """K-means clustering with a certificate; a drop-in replacement for `sklearn.cluster.KMeans`.

    These texts are short; the page "Parameters" of the documentation has the details.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters K.
    init : str, callable or array of shape (n_clusters, n_features), default="multilevel"
        Initial centers: "multilevel" (found in samples, more than wanted, and merged; greedy
        k-means++ for fewer than 16,384 points), "k-means++" (greedy), "plain-k-means++",
        "k-means||" or "random".
    n_init : "auto" or int, default="auto"
        Number of starts; the best result is kept. "auto" is 10 for "random" and callables, else 1.
    max_iter : int or None, default=300
        Maximum number of iterations of one start. None uses the guaranteed limit.
    tol : float or None, default=None
        Tolerance of the stopping rule: 1e-6 if None (1e-4 for "shift"). Given alone, it means
        the same as in scikit-learn.
    verbose : int, default=0
        Print every iteration.
    random_state : int, RandomState or None, default=None
        Seed of all draws.
    copy_x : bool, default=True
        Ignored; X is never changed.
    algorithm : {"auto", "dense", "bounds", "tree"}, default="auto"
        How nearest centers are found. Results are identical; "auto" picks the fastest.
    stop : {"decrease", "gap", "shift", "stationary"} or None, default=None
        Stop when one more step would lower inertia by no more than the tolerance ("decrease"), the
        gap is that small ("gap"), the centers shift that little ("shift"), or no label changes.
        None means "decrease", or "shift" if only `tol` is given.
    tol_scale : {"initial", "total", "absolute"} or None, default=None
        What `tol` is multiplied by: the first inertia (None), that of one cluster, or 1.
    empty : {"farthest", "keep", "resample", "best", "admissible"}, default="farthest"
        How the center of an empty cluster is chosen.
    bound : str or None, default="auto"
        The lower bound that a fit computes: a method of `wolfmeans.lower_bound`, "auto" for those
        that cost less than the fit, or None. ``km.certify(X)`` computes a better one.
    polish : "hartigan", "swap" or None, default=None
        Afterwards move single points ("hartigan"), and also swap centers for points ("swap"),
        while that lowers inertia.
    effort : float or None, default=None
        Seconds to search for a better clustering. Results then depend on the machine's speed.
    engine : {"auto", "cpu", "gpu", "reference"}, default="auto"
        Compute engine. Results are identical; "auto" picks the fastest.
    n_threads : int or None, default=None
        Number of threads; None uses all cores. Does not affect the result.
    time_limit : float or None, default=None
        Seconds after which no new step and no new start begins.
    callback : callable or None, default=None
        Called with the `Record` of every step; a true return value ends the start.
    checkpoint : str, path or None, default=None
        A file that is written after every block of steps; a fit resumes from it if it exists.
    memory_limit : str, number of bytes or None, default=None
        Memory that a fit may use, e.g. "2GB"; a larger file is read in chunks, with identical
        results. None loads everything.
    one_column : {"exact", "descent"}, default="exact"
        Data with one column is clustered optimally, or like any other.

    Attributes
    ----------
    cluster_centers_ : ndarray of shape (n_clusters, n_features)
        The centers.
    initial_centers_ : ndarray of shape (n_clusters, n_features)
        Where the best start, or the result of a search, began its descent; as `init` they repeat
        it.
    labels_ : ndarray of shape (n_samples,)
        The nearest center of each point, ties to the lowest index; equal to ``predict(X)``.
    cluster_sizes_ : ndarray of shape (n_clusters,)
        Number of points in each cluster.
    inertia_ : float
        Weighted sum of squared distances to the nearest center; equal to ``-score(X)``.
    n_iter_ : int
        Number of iterations, counted as in scikit-learn: Frank-Wolfe steps + 1.
    certificate_ : Certificate
        What was verified about the result.
    trace_ : Trace
        Inertia, gap, movement, moved points and empty clusters of every iteration.
    engine_ : str
        The engine that was used.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X had string names for all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans import KMeans
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [10, 2], [10, 4], [10, 0]])
    >>> km = KMeans(n_clusters=2, random_state=0).fit(X)
    >>> km.inertia_, km.certificate_.gap
    (16.0, 0.0)
    """

    _parameter_constraints: dict[str, Any] = {  # noqa: RUF012 - scikit-learn's protocol
        "n_clusters": [Interval(Integral, 1, None, closed="left")],
        "init": [StrOptions(set(SEEDINGS)), callable, "array-like"],
        "n_init": [StrOptions({"auto"}), Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
        "copy_x": ["boolean"],
        "algorithm": [StrOptions(set(ALGORITHMS))],
        "stop": [StrOptions(set(STOPS)), None],
        "tol_scale": [StrOptions(set(TOLERANCE_SCALES)), None],
        "empty": [StrOptions(set(POLICIES))],
        "bound": [StrOptions({"auto", *BOUNDS}), None],
        "polish": [StrOptions(set(POLISHES)), None],
        "effort": [Interval(Real, 0, None, closed="neither"), None],
        "engine": [StrOptions(set(ENGINES))],
        "n_threads": [Interval(Integral, 1, None, closed="left"), None],
        "time_limit": [Interval(Real, 0, None, closed="left"), None],
        "callback": [callable, None],
        "checkpoint": [str, os.PathLike, None],
        "memory_limit": [str, Interval(Real, 0, None, closed="neither"), None],
        "one_column": [StrOptions({"exact", "descent"})],
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
        copy_x: bool = True,
        algorithm: Algorithm = "auto",
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
        one_column: OneColumn = "exact",
    ) -> None:
        self._set_parameters(locals())

    def _fit(self, data: OpenedForFit) -> None:
        with lent_generators() as seeded:
            self._fit_from(data, seeded)

    def _fit_from(self, data: OpenedForFit, seeded: Callable[[int], RandomState]) -> None:
        X, begun, workspace, exponent = data.X, data.begun, data.workspace, data.exponent
        n_threads = effective_threads(self.n_threads)
        is_seed = isinstance(self.random_state, int | np.integer)
        generator = (seeded if is_seed else check_random_state)(self.random_state)
        # Captures X only: capturing `data` would be a reference cycle, which delays freeing it.
        notes_on_scales = cache(lambda: scale_notes(X))
        workspace.meanwhile = notes_on_scales

        optimum = self._optimum_of(data)
        given = None if optimum is None else optimum.centers.astype(workspace.dtype)
        best, notes = self._best_of_starts(data, generator, seeded, given=given)
        if self.effort is not None and optimum is None:
            best = self._search(best, begun, workspace, exponent, generator)
        limits = [limit for limit in (self.time_limit, self.effort) if limit is not None]
        # The search does not try single moves.
        level = self.polish or (None if self.effort is None else "hartigan")
        if level is not None:
            deadline = begun + min(limits, default=math.inf)
            best = polished(best, level, lambda: generator, deadline)
            if self.time_limit is None and not best.solution.converged:
                # The end of the effort ends the search, not the last fit.
                start = Start(workspace.fork(n_threads), best.centers, lambda: generator, exponent)
                last = run(start, **self._settings())
                # Polishing verified its level at another point.
                known = None if best.polish is None else replace(best.polish, level=None)
                best = replace(last, effort=best.effort, polish=known)
        method = None if data.in_parts else self.bound
        certificate = certificate_of(
            best,
            data.scaled,
            method=method,
            known=optimum.bound if optimum is not None and method == "auto" else None,
            notes=(*notes, *notes_on_scales(), *data.notes),
            n_threads=n_threads,
            random=lambda: check_random_state(self.random_state),
        )
        self._keep(best, certificate, exponent)
        self._conclude(data, notes)

    def _optimum_of(self, data: OpenedForFit) -> Optimum | None:
        """Return a best clustering of one column in memory; None if the seeds are to be others."""
        (n, d), k = data.X.shape, self.n_clusters
        by_default = isinstance(self.init, str) and self.init in _DEFAULT_SEEDS
        if d != 1 or data.in_parts or self.one_column != "exact" or not by_default:
            return None
        if REGISTRY["exact"].cost(n, d, k) > _EXACT_BUDGET:
            return None
        scaled = np.asarray(data.scaled) if isinstance(data.scaled, OnDevice) else data.scaled
        return optimum_on_a_line(scaled, k, data.workspace.weights)
