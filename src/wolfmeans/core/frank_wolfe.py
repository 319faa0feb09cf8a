"""Algorithm 1 of the paper: Frank-Wolfe with unit steps on a concave objective. The only loop.

For a concave f over a compact convex set, given a supergradient r of f at x and a linear
minimization oracle s = argmin <s, r>, the unit step x <- s lowers f by at least the Frank-Wolfe
gap g = <x - s, r>, so that after t + 1 steps the smallest gap met is at most h_0 / (t + 1).

K-means is one such problem (`wolfmeans.core.kmeans`); `examples/` has others.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from time import perf_counter
from typing import Any, Generic, TypeVar

import numpy as np

from wolfmeans.core import progress
from wolfmeans.core.solution import Record, Solution, Status, Trace
from wolfmeans.core.stopping import StoppingRule, make_rule

Point = TypeVar("Point")
Callback = Callable[[Record], Any]


@dataclass
class State(Generic[Point]):
    """Where a run stands: an evaluated point, and the oracle's answer that is not yet taken."""

    point: Point
    """The point x_t."""
    value: float
    """f(x_t)."""
    started: float
    """When the run began, by `perf_counter`."""
    t: int = 0
    """Steps taken so far."""
    vertex: Point | None = None
    """The oracle's answer at the point; None before it was asked."""
    vertex_value: float = math.nan
    """f there."""
    met: Status | None = None
    """How the stopping rule ended the run; None while it continues."""
    deadline: float = math.inf
    """When, by `perf_counter`, no further step is to be taken."""

    def take_step(self) -> None:
        """Move to the oracle's answer: x_{t+1} = s_t."""
        if self.vertex is None:
            raise RuntimeError("a step must be evaluated before it is taken")
        self.point, self.value = self.vertex, self.vertex_value
        self.vertex = None
        self.t += 1


class ConcaveProblem(ABC, Generic[Point]):
    """A concave objective over a compact convex set, known by a supergradient and an oracle.

    Implement `value`, `supergradient` and `minimize_linear`. Points that are not NumPy arrays need
    `gap` and `fingerprint` too. `lower_bound` turns the rate into a number of steps.

    Examples
    --------
    A concave quadratic over a square, whose minimum is at a corner:

    >>> import numpy as np
    >>> from wolfmeans import ConcaveProblem, minimize_concave
    >>> class Square(ConcaveProblem):
    ...     matrix = np.array([[-2.0, 1.0], [1.0, -3.0]])
    ...
    ...     def value(self, x):
    ...         return float(x @ self.matrix @ x)
    ...
    ...     def supergradient(self, x):
    ...         return 2 * self.matrix @ x
    ...
    ...     def minimize_linear(self, r):
    ...         return np.where(r < 0, 1.0, -1.0)
    >>> minimize_concave(Square(), np.array([0.5, -0.1])).point
    array([ 1., -1.])
    """

    steps_per_block = 1
    """Number of steps in one call of `advance` if there is no callback."""
    rounding = 1e-10
    """Relative size of what may be rounding when the descent inequality is checked."""

    @abstractmethod
    def value(self, point: Point) -> float:
        """Return f(point)."""

    @abstractmethod
    def supergradient(self, point: Point) -> Any:
        """Return any r with f(y) <= f(point) + <y - point, r> for all feasible y."""

    @abstractmethod
    def minimize_linear(self, supergradient: Any) -> Point:
        """Return a vertex of the feasible set that minimizes <vertex, supergradient>."""

    def gap(self, point: Point, vertex: Point, supergradient: Any) -> float:
        """Return <point - vertex, supergradient>."""
        return float(np.sum((np.asarray(point) - np.asarray(vertex)) * supergradient))

    def lower_bound(self) -> float | None:
        """Return a number that is never above min f, or None when none is known."""
        return None

    def fingerprint(self, point: Point) -> bytes:
        """Return bytes that are equal for equal points only."""
        return np.ascontiguousarray(np.asarray(point)).tobytes()

    def acceptable(self, state: State[Point]) -> bool:
        """Whether the evaluated point may be returned; the loop continues until it may."""
        return True

    def evaluate(self, state: State[Point]) -> Record:
        """Ask the oracle at the current point and measure the step, without taking it."""
        supergradient = self.supergradient(state.point)
        vertex = self.minimize_linear(supergradient)
        gap = self.gap(state.point, vertex, supergradient)
        state.vertex, state.vertex_value = vertex, self.value(vertex)
        movement = state.value - state.vertex_value - gap
        return Record(
            t=state.t,
            value=state.value,
            gap=gap,
            movement=movement,
            # At a tie the gap is 0 and yet a step may gain: the point is not a fixed point then.
            stationary=gap <= 0 and movement <= 0,
            seconds=perf_counter() - state.started,
        )

    def advance(self, state: State[Point], stop: StoppingRule, at_most: int) -> list[Record]:
        """Evaluate up to `at_most` points, taking the steps between them, until `stop` is met.

        On return `state.point` is the last evaluated point and its step is not taken. Problems may
        override this with a fused multi-step, which checks `state.deadline` regularly; the
        records must be the same.
        """
        records: list[Record] = []
        while len(records) < at_most and state.met is None:
            if state.vertex is not None:
                state.take_step()
            records.append(self.evaluate(state))
            state.met = stop.met(records[-1])
        return records


def minimize_concave(
    problem: ConcaveProblem[Point],
    start: Point,
    *,
    stop: str | StoppingRule = "gap",
    tol: float = 0.0,
    max_iter: int | None = None,
    time_limit: float | None = None,
    callback: Callback | None = None,
) -> Solution[Point]:
    """Minimize a concave function over a compact convex set by Frank-Wolfe with unit steps.

    Parameters
    ----------
    problem : ConcaveProblem
        The objective's value and supergradient, and the linear minimization oracle.
    start : Point
        A feasible point x_0.
    stop : "gap", "decrease", "stationary" or StoppingRule, default="gap"
        When to stop.
    tol : float, default=0.0
        The absolute tolerance of the rule.
    max_iter : int or None, default=None
        The largest number of steps; None means the guaranteed maximum, if there is one.
    time_limit : float or None, default=None
        Seconds after which no further step is taken.
    callback : callable or None, default=None
        Called with the `Record` of every evaluated step; a true return value ends the run.

    Returns
    -------
    Solution
        The point, its value and gap, the status and the trace.

    Examples
    --------
    Minimize -||x||^2 over the cube [-1, 2]^3; the oracle picks the better end in each coordinate.

    >>> import numpy as np
    >>> from wolfmeans import ConcaveProblem, minimize_concave
    >>> class Cube(ConcaveProblem):
    ...     def value(self, x):
    ...         return -float(x @ x)
    ...
    ...     def supergradient(self, x):
    ...         return -2 * x
    ...
    ...     def minimize_linear(self, r):
    ...         return np.where(r < 0, 2.0, -1.0)
    ...
    ...     def lower_bound(self):
    ...         return -12.0
    >>> solution = minimize_concave(Cube(), np.array([0.1, -0.1, 1.0]), tol=1e-6)
    >>> solution.point, solution.value, solution.status.name
    (array([ 2., -1.,  2.]), -9.0, 'STATIONARY')
    """
    rule = make_rule(stop, tol)
    _check_limits(max_iter, time_limit)
    started = perf_counter()
    deadline = math.inf if time_limit is None else started + time_limit
    state = State(point=start, value=problem.value(start), started=started, deadline=deadline)
    if not math.isfinite(state.value):
        raise ValueError(f"the value at the start must be finite; got {state.value}")
    lower_bound = problem.lower_bound()
    guarantee = rule.guarantee(state.value, lower_bound)
    limit = guarantee if max_iter is None else max_iter
    trace = Trace(lower_bound=math.nan if lower_bound is None else lower_bound)
    checks = _Checks(problem, abs(state.value))
    asked_to_stop = False
    iterations: int | None = None

    while True:
        block = 1 if callback is not None else _block_size(problem, state, limit)
        state.met = None
        for record in problem.advance(state, rule, at_most=block):
            trace.append(record)
            checks.add(record)
            if callback is not None and callback(record):
                asked_to_stop = True
        record = trace[-1]
        if record.seconds >= progress.PATIENCE and callback is None:
            _tell_progress(trace, checks.best_gap, rule, limit)

        failure = checks.failure(state)
        if failure is not None:
            status, iterations = failure, record.t if iterations is None else iterations
            break
        ending = state.met
        if ending is None:
            ending = _interruption(record, limit, time_limit, asked_to_stop)
        if ending is None:
            continue
        if iterations is None:
            iterations = _count_steps(ending, record.t, limit)
        if problem.acceptable(state):
            status = ending
            break

    if state.vertex is None:
        raise RuntimeError("the problem's advance returned without evaluating a point")
    return Solution(
        point=state.point,
        vertex=state.vertex,
        value=state.value,
        gap=record.gap,
        movement=record.movement,
        best_gap=float(checks.best_gap),
        status=status,
        iterations=iterations,
        max_iterations=guarantee,
        trace=trace,
        extra_iterations=max(0, record.t - iterations),
    )


def _tell_progress(trace: Trace, best_gap: float, rule: StoppingRule, limit: int | None) -> None:
    """Report how far the gap has fallen towards the tolerance, on a logarithmic scale."""
    record, first = trace[-1], trace[0].gap
    share = record.t / limit if limit else 0.0
    text = f"iteration {record.t + 1:,}, inertia {record.value:.6g}"
    if rule.name in ("decrease", "gap") and 0 < rule.tol < first:
        reached = max(best_gap, rule.tol)
        share = max(share, math.log(first / reached) / math.log(first / rule.tol))
        text += f", decrease {record.decrease:.3g} (stops at {rule.tol:.3g})"
    progress.tick(share, text)


def _check_limits(max_iter: int | None, time_limit: float | None) -> None:
    if max_iter is not None and max_iter < 0:
        raise ValueError(f"max_iter must be at least 0; got {max_iter}")
    if time_limit is not None and not time_limit >= 0:
        raise ValueError(f"time_limit must be at least 0 seconds; got {time_limit}")


def _block_size(problem: ConcaveProblem[Any], state: State[Any], limit: int | None) -> int:
    """Return how many points to evaluate in one call of `advance`."""
    if limit is None:
        return problem.steps_per_block
    # The first point has to be evaluated too.
    left = limit - state.t + (state.vertex is None)
    return max(1, min(problem.steps_per_block, left))


def _interruption(
    record: Record, limit: int | None, time_limit: float | None, asked_to_stop: bool
) -> Status | None:
    if limit is not None and record.t >= limit:
        return Status.MAX_ITER
    if time_limit is not None and record.seconds >= time_limit:
        return Status.TIME_LIMIT
    return Status.CALLBACK if asked_to_stop else None


def _count_steps(ending: Status, t: int, limit: int | None) -> int:
    """The step that meets a rule is counted; a step that is only evaluated at a limit is not."""
    met_by_this_step = ending in (Status.STATIONARY, Status.DECREASE, Status.GAP)
    steps = t + 1 if met_by_this_step else t
    return steps if limit is None else min(steps, limit)


class _Checks:
    """Recognizes the two failures: no descent, and a return to an earlier point."""

    def __init__(self, problem: ConcaveProblem[Any], scale: float) -> None:
        self._problem, self._scale = problem, scale
        self._violated = False
        self._last_seen: dict[bytes, int] = {}
        self.best_gap = math.inf

    def add(self, record: Record) -> None:
        """Check that f(x_t) - f(x_{t+1}) >= g_t >= 0 holds up to rounding."""
        next_value = record.value - record.decrease
        largest = max(self._scale, abs(record.value), abs(next_value), abs(record.gap))
        slack = self._problem.rounding * largest
        self._violated |= not (record.gap >= -slack and record.movement >= -slack)
        # A NaN, once seen, stays.
        if not self.best_gap <= record.gap and not math.isnan(self.best_gap):
            self.best_gap = record.gap

    def failure(self, state: State[Any]) -> Status | None:
        """Return the failure that the records or the current point show, None for none."""
        if self._violated:
            return Status.DESCENT_VIOLATED
        digest = blake2b(self._problem.fingerprint(state.point), digest_size=16).digest()
        seen = self._last_seen.get(digest)
        self._last_seen[digest] = state.t
        # A step that changes nothing (a tie without consequence) is not a return.
        left_and_back = seen is not None and seen < state.t - 1
        return Status.REPEATED_STATE if left_and_back else None
