"""One fit: opened data, a start, the loop, the checks at the returned point, the certificate."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from decimal import Decimal
from time import perf_counter
from typing import Any

import numpy as np
from scipy import sparse

from wolfmeans.bounds import REGISTRY, LowerBound, Settings, affordable, best_bound
from wolfmeans.certificate.improvement import Effort, Polish
from wolfmeans.certificate.record import Certificate, local_optimality
from wolfmeans.core import progress
from wolfmeans.core.draws import RandomSource
from wolfmeans.core.frank_wolfe import Callback, minimize_concave
from wolfmeans.core.kmeans import KMeansProblem, Partition, look_ahead
from wolfmeans.core.solution import Solution, Status, Trace
from wolfmeans.core.stopping import ShiftRule, StoppingRule, make_rule
from wolfmeans.core.workspace import Centers, Workspace
from wolfmeans.engines import effective_threads
from wolfmeans.engines.tensors import OnDevice, as_given
from wolfmeans.exact.native import sampling_step
from wolfmeans.fitting.polish import polish
from wolfmeans.fitting.search import search
from wolfmeans.inputs import dask_collections, streams, validation
from wolfmeans.inputs.data_in_parts import refuse_what_needs_all_points
from wolfmeans.inputs.estimator import FittingEstimator
from wolfmeans.inputs.kinds import DataKind, kind_of_data
from wolfmeans.seeding.methods import worth_sampling

# Multiplications that even the smallest fit takes.
_LEAST_FIT = 500_000
_UNEVEN_VARIANCES = 10_000
_LARGEST = Decimal(sys.float_info.max)
_MOST_IDLE = 64
_idle: list[np.random.RandomState] = []
"""Generators that no fit uses now."""


@contextmanager
def lent_generators() -> Iterator[Callable[[int], np.random.RandomState]]:
    """Yield a function that returns the generator of a seed, to be used until the block ends.

    Seeding an old generator takes a fiftieth of the time that making one takes.

    Examples
    --------
    >>> with lent_generators() as seeded:
    ...     seeded(7).randint(100) == np.random.RandomState(7).randint(100)
    True
    """
    lent: list[np.random.RandomState] = []

    def seeded(seed: int) -> np.random.RandomState:
        try:
            generator = _idle.pop()
        except IndexError:  # another thread may have taken the last one
            generator = np.random.RandomState(seed)
        else:
            generator.seed(seed)
        lent.append(generator)
        return generator

    try:
        yield seeded
    finally:
        _idle.extend(lent[: max(0, _MOST_IDLE - len(_idle))])


@dataclass(frozen=True)
class OpenedForFit:
    """Validated data, opened by an engine."""

    X: Any
    """The rows in the caller's units; for data in parts, their shape, dtype and a sample."""
    scaled: Any
    """2**exponent times these rows; for data in parts, the same as X."""
    workspace: Workspace
    """The scaled rows, as the loop sees them."""
    exponent: int
    begun: float
    """When the opening began, on the clock of `perf_counter`."""
    notes: tuple[str, ...] = ()
    """Notes for the certificate."""
    names: tuple[str, ...] | None = None
    """Names of the columns that a file has."""

    @property
    def in_parts(self) -> bool:
        """Whether the rows stay on workers or in a file."""
        return self.workspace.in_parts


def opened_for_fit(
    model: FittingEstimator, X: Any, sample_weight: Any
) -> AbstractContextManager[OpenedForFit]:
    """Open the data of an estimator, where it is and as what it is, for one fit."""
    if type(X) is np.ndarray:
        return _opened_in_memory(model, X, sample_weight)
    kind = kind_of_data(X, limited=model._memory_limit() is not None)
    return _OPENING[kind](model, X, sample_weight)


@contextmanager
def _opened_in_memory(
    model: FittingEstimator,
    given: Any,
    sample_weight: Any,
    names: tuple[str, ...] | None = None,
    *,
    as_read: bool = False,
) -> Iterator[OpenedForFit]:
    """Validate the rows and weights, choose an engine and open them there.

    Rows of a source are `as_read`: as they are clustered.
    """
    begun, n_threads = perf_counter(), effective_threads(model.n_threads)
    X, sizes = validation.validate_points(model, given, reset=True, n_threads=n_threads)
    weights = validation.validate_weights(sample_weight, X)
    model._refuse_few_rows(X.shape[0])
    if model._unit_rows and not as_read:
        X, sizes, weights = model._as_clustered(X, sizes, weights)
    exponent = validation.scale_exponent(X, sizes, weights)
    scaled = validation.rescale(X, exponent)
    chosen = model._chosen_engine(scaled, n_threads)
    algorithm = getattr(model, "algorithm", "auto")
    workspace = chosen.engine.open(scaled, weights, n_threads, algorithm)
    yield OpenedForFit(X, scaled, workspace, exponent, begun, chosen.notes, names)
    is_array = type(given) is np.ndarray
    model.labels_ = np.asarray(model.labels_) if is_array else as_given(model.labels_, given)


@contextmanager
def _opened_in_blocks(
    model: FittingEstimator, X: Any, sample_weight: Any
) -> Iterator[OpenedForFit]:
    """Load the blocks of a Dask collection on the workers that process them."""
    begun = perf_counter()
    refuse_what_needs_all_points(model, drawn_from_some=model._draws_from_sample)
    with dask_collections.opened(model, X, sample_weight) as data:
        yield _of_parts(model, data, begun)


@contextmanager
def _opened_in_chunks(
    model: FittingEstimator, source: Any, sample_weight: Any
) -> Iterator[OpenedForFit]:
    """Load the rows of a source if memory has room; else describe its chunks in a first pass."""
    X, weights, names = streams.load_or_stream(model, source, sample_weight)
    if not isinstance(X, streams.Streamed):
        with _opened_in_memory(model, X, weights, names, as_read=True) as data:
            yield data
        return
    begun = perf_counter()
    refuse_what_needs_all_points(model, drawn_from_some=model._draws_from_sample)
    with streams.opened(model, X, weights, model._number_of_starts()) as opened:
        yield _of_parts(model, opened, begun, names)


def _of_parts(
    model: FittingEstimator, data: Any, begun: float, names: tuple[str, ...] | None = None
) -> OpenedForFit:
    """Describe data in parts, after the checks that data in memory gets."""
    model._refuse_few_rows(data.X.shape[0])
    model._tell(f"{data.X.shape[0]:,} rows in {data.where}")
    n_points = data.X.shape[0]
    sampled = isinstance(model.init, str) and model.init == "multilevel"
    sampled = sampled and worth_sampling(n_points, model.n_clusters)
    notes = data.notes(None if sampled or model._draws_from_sample else model.init)
    return OpenedForFit(data.X, data.X, data.points, data.exponent, begun, notes, names)


_OPENING: dict[
    DataKind, Callable[[FittingEstimator, Any, Any], AbstractContextManager[OpenedForFit]]
] = {
    DataKind.MEMORY: _opened_in_memory,
    DataKind.DASK: _opened_in_blocks,
    DataKind.CHUNKS: _opened_in_chunks,
}


@dataclass(frozen=True)
class Start:
    """Points without labels, seeds for them, and where later randomness comes from."""

    workspace: Workspace
    seeds: Centers
    random: RandomSource
    exponent: int = 0
    """The points are 2**exponent times the caller's."""


@dataclass(frozen=True)
class Fit:
    """A finished run and what was recomputed at its end."""

    problem: KMeansProblem
    rule: StoppingRule
    solution: Solution[Partition]
    seeds: Centers
    """(K, d) where it began."""
    initial_sse: float
    labels: Any
    """The (n,) labels, on the host or where the data is (Workspace.snapshot)."""
    inertia: float
    polish: Polish | None = None
    effort: Effort | None = None

    @property
    def centers(self) -> Centers:
        """The returned (K, d) centers."""
        return self.solution.point.centers


@dataclass(frozen=True)
class Prepared:
    """A run that stands at its first partition."""

    problem: KMeansProblem
    first: Partition
    rule: StoppingRule
    seeds: Centers

    def finish(
        self,
        max_steps: int | None,
        time_limit: float | None = None,
        callback: Callback | None = None,
    ) -> Fit:
        """Run the loop and check the ledger at the returned point."""
        workspace = self.problem.workspace
        solution = minimize_concave(
            self.problem,
            self.first,
            stop=self.rule,
            max_iter=max_steps,
            time_limit=time_limit,
            callback=callback,
        )
        inertia = self.problem.inertia(solution.point.centers)
        return Fit(
            problem=self.problem,
            rule=self.rule,
            solution=self.problem.audit(solution, inertia),
            seeds=self.seeds,
            initial_sse=self.first.sse,
            labels=workspace.snapshot(),
            inertia=inertia,
        )


def prepare(
    start: Start,
    *,
    stop: str,
    tol: float,
    tol_scale: str,
    empty: str,
    kind: Callable[..., KMeansProblem] = KMeansProblem,
) -> Prepared:
    """Label the points by the seeds and make the stopping rule."""
    problem = kind(start.workspace, empty, start.random)
    first = problem.partition(start.seeds)
    if tol_scale == "absolute":
        tol = validation.scaled(tol, start.exponent)
    rule = _rule(stop, tol, tol_scale, problem, first)
    return Prepared(problem, first, rule, start.seeds)


def run(
    start: Start,
    *,
    max_steps: int | None,
    time_limit: float | None = None,
    callback: Callback | None = None,
    **settings: Any,
) -> Fit:
    """Run the loop from the seeds; the settings are those of `prepare`."""
    # With a callback or a time limit, steps are taken one block at a time.
    if callback is None and time_limit is None:
        start.workspace.steps_to_come = sys.maxsize if max_steps is None else max_steps + 1
    return prepare(start, **settings).finish(max_steps, time_limit, callback)


def run_together(
    starts: Sequence[Start], *, max_steps: int | None, n_threads: int, **settings: Any
) -> list[Fit]:
    """Run several starts at once, one thread each, on one data set or on many small ones.

    The engine takes the steps of all of them in one call; the fits are those of `run`.
    """
    prepared = [prepare(start, **settings) for start in starts]
    look_ahead(
        [p.problem for p in prepared],
        [p.first for p in prepared],
        [p.rule for p in prepared],
        max_steps,
        n_threads,
    )
    return [p.finish(max_steps) for p in prepared]


def best_of_starts(
    begin: Callable[[int, int], Start],
    states: Sequence[int],
    *,
    n_threads: int,
    time_limit: float | None,
    watcher: Callable[[int], Callback | None],
    at_once: bool = True,
    **settings: Any,
) -> tuple[Fit, tuple[str, ...]]:
    """Run a start from each random state and return the best, the first among equals.

    `begin` makes a start from its state and a number of threads, `watcher` its callback from its
    number. The notes say how many starts the time limit or a callback cut off: the best of all of
    them is not known then. Where engines can take the steps of all starts `at_once`, that may be
    forbidden. The settings are those of `run`.
    """
    first: Start | None = None
    if at_once and len(states) > 1 and time_limit is None and watcher(0) is None:
        first = begin(states[0], 1)
        if first.workspace.runs_together:
            starts = [first, *(begin(state, 1) for state in states[1:])]
            fits = run_together(starts, n_threads=n_threads, **settings)
            return min(fits, key=lambda fit: fit.inertia), ()
    begun = perf_counter()
    deadline = math.inf if time_limit is None else begun + time_limit
    best: Fit | None = None
    in_time = stopped = 0
    for number, state in enumerate(states):
        if best is not None and perf_counter() >= deadline:
            break
        if number == 0 and first is not None:
            # Seeds are drawn once: drawing may take long, and a callable may count its calls.
            start = replace(first, workspace=first.workspace.fork(n_threads))
        else:
            start = begin(state, n_threads)
        time_left = None if time_limit is None else max(0.0, deadline - perf_counter())
        with _progress_of_start(number, len(states), perf_counter() - begun):
            fit = run(start, time_limit=time_left, callback=watcher(number), **settings)
        in_time += fit.solution.status is not Status.TIME_LIMIT
        stopped += fit.solution.status is Status.CALLBACK
        if best is None or fit.inertia < best.inertia:
            best = fit
    if best is None:
        raise ValueError("at least one start is needed")
    if len(states) == 1:
        return best, ()
    notes = []
    if in_time < len(states):
        finished = in_time - stopped
        notes.append(f"{finished} of {len(states)} starts finished within the time limit")
    if stopped:
        notes.append(f"{stopped} of {len(states)} starts were stopped before they finished")
    return best, tuple(notes)


def _progress_of_start(number: int, of: int, elapsed: float) -> AbstractContextManager[None]:
    """Report on one of several starts as its part of the whole."""
    if of == 1:
        return nullcontext()
    if elapsed >= progress.PATIENCE:
        progress.tick(number / of, f"start {number + 1} of {of}")
    return progress.part_of_fit(number / of, (number + 1) / of, f"start {number + 1} of {of}, ")


def searched(
    fit: Fit,
    start: Start,
    *,
    seconds: float,
    n_threads: int,
    max_steps: int | None,
    kind: Callable[..., KMeansProblem] = KMeansProblem,
    **settings: Any,
) -> Fit:
    """Spend some time on a better clustering (`fitting.search`), and fit it from there.

    `start` has a workspace of its own and begins at the fit's centers; the settings are those of
    `prepare`.
    """
    found, effort = search(
        start.workspace,
        start.seeds,
        start.random,
        seconds=seconds,
        n_threads=n_threads,
        kind=kind,
    )
    if effort.after < effort.before:
        again = run(replace(start, seeds=found), max_steps=max_steps, kind=kind, **settings)
        if again.inertia < fit.inertia:
            fit, effort = again, replace(effort, before=fit.inertia, after=again.inertia)
    return replace(fit, effort=effort)


def polished(fit: Fit, kind: str, random: RandomSource, deadline: float) -> Fit:
    """Continue from a fit to a better local optimum (see `wolfmeans.fitting.polish`)."""
    problem, workspace = fit.problem, fit.problem.workspace
    found = polish(problem, fit.solution, kind, random, deadline)
    if found.solution is fit.solution:
        return replace(fit, polish=found.record)
    inertia = problem.inertia(found.solution.point.centers)
    audited = problem.audit(found.solution, inertia)
    trace = Trace(fit.solution.trace)
    after = trace[-1].t + 1
    for record in audited.trace:
        trace.append(replace(record, t=after + record.t))
    solution = replace(
        audited,
        trace=trace,
        iterations=fit.solution.iterations,
        extra_iterations=fit.solution.extra_iterations,
        max_iterations=fit.solution.max_iterations,
    )
    return replace(
        fit, solution=solution, labels=workspace.snapshot(), inertia=inertia, polish=found.record
    )


def _rule(
    stop: str, tol: float, tol_scale: str, problem: KMeansProblem, first: Partition
) -> StoppingRule:
    """Turn a relative tolerance into a rule with an absolute one."""
    workspace = problem.workspace
    if stop == "shift":
        unit = 1.0 if tol_scale == "absolute" or tol == 0 else _mean_variance(workspace)
        with np.errstate(under="ignore"):
            spacing = float(np.spacing(workspace.dtype.type(workspace.largest())))
        return ShiftRule(
            tol * unit,
            smallest_weight=problem.smallest_mass(),
            spacing=spacing,
            n_coordinates=first.centers.size,
        )
    if tol_scale == "initial":
        return make_rule(stop, tol * first.sse)
    if tol_scale == "total":
        return make_rule(stop, tol * problem.unit * workspace.scatter(weighted=True))
    return make_rule(stop, tol)


def _mean_variance(workspace: Workspace) -> float:
    """scikit-learn's unit for `tol`: the unweighted mean of the columns' variances."""
    return workspace.scatter(weighted=False) / (workspace.n_points * workspace.n_features)


def certificate_of(
    fit: Fit,
    X: Any,
    *,
    method: str | None,
    notes: tuple[str, ...],
    n_threads: int = 1,
    random: RandomSource,
    known: LowerBound | None = None,
    converted: Callable[[LowerBound], LowerBound] | None = None,
) -> Certificate:
    """Return the certificate: what was verified at the returned point.

    A lower bound that is `known` already is taken instead of that of the `method`. `converted`
    turns bounds on squared errors into bounds on the inertia, where that is another sum.
    """
    problem, solution = fit.problem, fit.solution
    empty = int(solution.vertex.empty.sum())
    stationary = solution.vertex.moved == 0
    certificate = Certificate(
        gap=solution.gap,
        movement=solution.movement,
        decrease=solution.decrease,
        clarke_gap=problem.clarke_gap(solution),
        candidate_decrease=problem.candidate_decrease(solution),
        tol=fit.rule.tol,
        stop=fit.rule.name,
        status=solution.status,
        iterations=solution.iterations,
        extra_iterations=solution.extra_iterations,
        max_iterations=solution.max_iterations,
        initial_sse=fit.initial_sse,
        inertia=fit.inertia,
        n_clusters=len(fit.centers),
        empty_clusters=empty,
        local_optimality=local_optimality(
            solution.status,
            stationary=stationary,
            empty=empty > 0,
            tied=stationary and empty == 0 and problem.tied(solution.point),
        ),
        level=_level(fit, stationary),
        polish=fit.polish,
        effort=fit.effort,
        cost=problem.cost,
        engine=problem.workspace.engine,
        notes=notes,
    )
    bound = known or _lower_bound(fit, X, method, n_threads, random)
    if bound is not None:
        bound = bound if converted is None else converted(bound)
        certificate = certificate.bounded_by(bound, fit.rule.least_decrease)
    solution.trace.lower_bound = certificate.proven_bound
    return certificate


def _level(fit: Fit, stationary: bool) -> str | None:
    """Return the rung of the ladder of local optimality that was verified."""
    if fit.polish is not None and fit.polish.level is not None:
        return fit.polish.level
    return "stationary" if stationary else None


def _lower_bound(
    fit: Fit, X: Any, method: str | None, n_threads: int, random: RandomSource
) -> LowerBound | None:
    """Return the bound that was asked for; for "auto" the best of those cheaper than the fit."""
    if method is None:
        return None
    n, d = X.shape
    n_clusters = len(fit.centers)
    weights, mass = fit.problem.workspace.weights, fit.problem.kept_mass()
    trimmed = mass is not None
    if method == "auto":
        # Costs are multiplications, not seconds, so that the certificate is reproducible.
        spent = n * d * n_clusters * (len(fit.solution.trace) + 1)
        methods = affordable(
            n,
            d,
            n_clusters,
            trimmed=trimmed,
            rigorous=True,
            budget=spent + _LEAST_FIT,
            # A search takes its time by the clock already.
            seconds=0.0 if fit.effort is None else fit.effort.seconds,
        )
    else:
        reason = REGISTRY[method].refusal(d, trimmed)
        if reason is not None:
            raise ValueError(f"bound={method!r}: {reason}")
        methods = (method,)
    settings = Settings(
        rng=random, n_threads=n_threads, centers=fit.centers, sizes=fit.problem.size_range()
    )
    if isinstance(X, OnDevice):
        X = np.asarray(X)  # bounds are found on the host
    return best_bound(X, n_clusters, weights, mass, methods=methods, settings=settings)


def scale_notes(X: Any) -> tuple[str, ...]:
    """Return a note if column variances differ by a factor of 10,000, judged by a sample."""
    if sparse.issparse(X) or X.shape[1] < 2:
        return ()
    some = X.sample if hasattr(X, "sample") else X[:: sampling_step(X.shape[0])]
    sample = some.astype(np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        sample -= sample.mean(axis=0)
        variances = np.einsum("ij,ij->j", sample, sample) / len(sample)
    each = variances.tolist()
    if 0.0 < max(each) < 0.999 * _UNEVEN_VARIANCES * min(each):
        return ()  # as it nearly always is, and surely below, whatever was rounded
    positive = np.flatnonzero(variances > 0)
    if len(positive) < 2 or not np.isfinite(variances).all():
        return ()
    largest = int(positive[np.argmax(variances[positive])])
    smallest = int(positive[np.argmin(variances[positive])])
    # As decimals: the ratio of two float64 may overflow.
    ratio = Decimal(float(variances[largest])) / Decimal(float(variances[smallest]))
    if ratio < _UNEVEN_VARIANCES:
        return ()
    times = f"{float(ratio):.1e}" if ratio < _LARGEST else f"{ratio:.1e}"
    return (
        f"the variance of column {largest} is {times} times that of column {smallest}: "
        "columns of large variance dominate the distances; standardize the columns unless that is "
        "intended",
    )
