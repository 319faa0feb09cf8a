"""One fit: a start, the loop, the checks at the returned point, and the certificate from them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans import door
from wolfmeans.certificate import Certificate, local_optimality
from wolfmeans.engines.base import Centers, Labels, Workspace
from wolfmeans.frank_wolfe import Callback, minimize_concave
from wolfmeans.lower_bounds import LowerBound, spectral
from wolfmeans.problems.kmeans import KMeansProblem, Partition, look_ahead
from wolfmeans.seeding import RandomSource
from wolfmeans.solution import Solution, Status
from wolfmeans.stopping import ShiftRule, StoppingRule, make_rule

# A bound that costs less than this many multiplications is not worth a thought.
_FREE = 10_000_000
# A scatter matrix of this many columns takes half a gigabyte.
_WIDEST_SCATTER = 8192
_UNEVEN_VARIANCES = 1e4
_ROWS_LOOKED_AT = 256
# Coordinates of data small enough for each start to have a thread of its own.
_SMALL = 1 << 18


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
    initial_sse: float
    labels: Labels
    inertia: float

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
        inertia = workspace.cost(solution.point.centers)
        return Fit(
            problem=self.problem,
            rule=self.rule,
            solution=self.problem.audit(solution, inertia),
            initial_sse=self.first.sse,
            labels=workspace.labels(),
            inertia=inertia,
        )


def prepare(start: Start, *, stop: str, tol: float, tol_scale: str, empty: str) -> Prepared:
    """Label the points by the seeds and make the stopping rule."""
    problem = KMeansProblem(start.workspace, empty, start.random)
    first = problem.partition(start.seeds)
    if tol_scale == "absolute":
        tol = door.scaled(tol, start.exponent)
    return Prepared(problem, first, _rule(stop, tol, tol_scale, start.workspace, first))


def run(
    start: Start,
    *,
    max_steps: int | None,
    time_limit: float | None = None,
    callback: Callback | None = None,
    **settings: Any,
) -> Fit:
    """Run the loop from the seeds; the settings are those of `prepare`."""
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
    **settings: Any,
) -> tuple[Fit, tuple[str, ...]]:
    """Run a start from each random state and return the best, the first among equals.

    `begin` makes a start from its state and a number of threads, `watcher` its callback from its
    number. The notes say when the time limit left no time for some of them. The settings are those
    of `run`.
    """
    if len(states) > 1 and time_limit is None and watcher(0) is None:
        first = begin(states[0], 1)
        if first.workspace.n_points * first.workspace.n_features <= _SMALL:
            starts = [first, *(begin(state, 1) for state in states[1:])]
            fits = run_together(starts, n_threads=n_threads, **settings)
            return min(fits, key=lambda fit: fit.inertia), ()
    deadline = math.inf if time_limit is None else perf_counter() + time_limit
    best: Fit | None = None
    finished = 0
    for number, state in enumerate(states):
        if best is not None and perf_counter() >= deadline:
            break
        start = begin(state, n_threads)
        time_left = None if time_limit is None else max(0.0, deadline - perf_counter())
        fit = run(start, time_limit=time_left, callback=watcher(number), **settings)
        finished += fit.solution.status is not Status.TIME_LIMIT
        if best is None or fit.inertia < best.inertia:
            best = fit
    if best is None:
        raise ValueError("at least one start is needed")
    if len(states) == 1 or finished == len(states):
        return best, ()
    return best, (f"within the time limit {finished} of {len(states)} starts were finished",)


def _rule(
    stop: str, tol: float, tol_scale: str, workspace: Workspace, first: Partition
) -> StoppingRule:
    """Turn a relative tolerance into a rule with an absolute one."""
    if stop == "shift":
        unit = 1.0 if tol_scale == "absolute" else _mean_variance(workspace)
        weights = workspace.weights
        return ShiftRule(
            tol * unit,
            smallest_weight=1.0 if weights is None else float(weights[weights > 0].min()),
            spacing=float(np.spacing(workspace.dtype.type(workspace.largest()))),
            n_coordinates=first.centers.size,
        )
    if tol_scale == "initial":
        return make_rule(stop, tol * first.sse)
    if tol_scale == "total":
        return make_rule(stop, tol * scatter(workspace, workspace.weights))
    return make_rule(stop, tol)


def _mean_variance(workspace: Workspace) -> float:
    """scikit-learn's unit for `tol`: the unweighted mean of the columns' variances."""
    return scatter(workspace, None) / (workspace.n_points * workspace.n_features)


def scatter(workspace: Workspace, weights: NDArray[np.float64] | None) -> float:
    """Return the sum of squares about the mean, with or without the points' weights."""
    mean = workspace.mean(weighted=weights is not None)
    distances = workspace.distances_to(mean)
    return workspace.total(distances if weights is None else weights * distances)


def certificate_of(fit: Fit, X: Any, *, certify: str | None, notes: tuple[str, ...]) -> Certificate:
    """Write down what is known at the returned point."""
    problem, solution = fit.problem, fit.solution
    bound = _lower_bound(fit, X, certify)
    if bound is not None and bound.value > fit.inertia:
        # A bound may pass the inertia by their rounding; by more, one of them is wrong.
        if bound.value > fit.inertia * (1.0 + 1e-9):
            notes = (*notes, "the lower bound contradicts the result; please report this")
            bound = None
        else:
            bound = replace(bound, value=fit.inertia)
    useful = bound is not None and bound.value > 0
    fit.solution.trace.lower_bound = bound.value if bound is not None and useful else 0.0
    empty = int(solution.vertex.empty.sum())
    stationary = solution.vertex.moved == 0
    return Certificate(
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
        lower_bound=bound.value if bound is not None and useful else None,
        lower_bound_kind=None if bound is None else bound.kind,
        lower_bound_confidence=None if bound is None else bound.confidence,
        engine=problem.workspace.engine,
        notes=notes,
    )


def _lower_bound(fit: Fit, X: Any, certify: str | None) -> LowerBound | None:
    if certify is None:
        return None
    n, d = X.shape
    n_clusters = len(fit.centers)
    if d <= n_clusters - 1:
        return LowerBound(0.0, "spectral", 1.0, 0.0)
    # Counted in multiplications and not in seconds, so that the certificate is reproducible.
    cost = n * d * d + 10 * d**3
    spent = n * d * n_clusters * (len(fit.solution.trace) + 1)
    if certify == "auto" and cost > max(spent, _FREE):
        return None
    if d > _WIDEST_SCATTER:
        return None
    return spectral(X, n_clusters, fit.problem.workspace.weights)


def scale_notes(X: Any) -> tuple[str, ...]:
    """Tell whoever clusters columns of very different variance, from a sample of the rows."""
    if sparse.issparse(X) or X.shape[1] < 2:
        return ()
    sample = X[:: max(1, X.shape[0] // _ROWS_LOOKED_AT)].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        variances = sample.var(axis=0)
    positive = np.flatnonzero(variances > 0)
    if len(positive) < 2 or not np.isfinite(variances).all():
        return ()
    largest = int(positive[np.argmax(variances[positive])])
    smallest = int(positive[np.argmin(variances[positive])])
    ratio = float(variances[largest]) / float(variances[smallest])
    if ratio < _UNEVEN_VARIANCES:
        return ()
    return (
        f"the variance of column {largest} is {ratio:.1e} times that of column {smallest}: "
        "columns of large variance decide alone; standardize them unless that is meant",
    )
