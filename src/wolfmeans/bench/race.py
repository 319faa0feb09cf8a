"""The race: whole fits of all methods in turn, and the comparison of their results.

One function evaluates all centers, in float64. A label is wrong if another of the centers that came
with it is nearer.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.bench.peers import Fitted, Limits, Method
from wolfmeans.bench.problems import Points, Problem, Shape
from wolfmeans.engines.reference import ReferenceEngine

SAME_INERTIA = 1e-6
BLOCK_BYTES = 1 << 26
SKIP_SLOW = 20.0  # a peer that takes this many times as long as wolfmeans is not repeated
ALWAYS_REPEATED = 1.0  # seconds; in shorter fits, waiting threads can take most of the time
PAUSE = 0.01  # threads of the library timed before may still be spinning
CHECKED = 1 << 27  # entries of differences; beyond, labels of a sample of the rows are checked
_ROUNDING = 1e-12  # of a distance computed twice, in two orders


def inertia(points: Points, centers: Points) -> float:
    """Return the sum of squared distances to the nearest centers, evaluated in float64.

    The nearest center is found by the expanded square, its distance is then computed directly.
    """
    centers = np.asarray(centers, dtype=np.float64)
    half_norms = 0.5 * np.einsum("kj,kj->k", centers, centers)
    rows = max(1, BLOCK_BYTES // (8 * max(centers.shape)))
    sums = []
    for first in range(0, points.shape[0], rows):
        block = points[first : first + rows].astype(np.float64)
        nearest = np.argmax(block @ centers.T - half_norms, axis=1)
        dense = block.toarray() if sparse.issparse(block) else block
        sums.append(float(np.square(dense - centers[nearest]).sum()))
    return math.fsum(sums)


@dataclass(frozen=True)
class Outcome:
    """One method on one problem."""

    seconds: float
    """Median time of a whole fit."""
    best: float
    repeats: int
    iterations: int
    excess: float
    """Relative excess of the inertia over wolfmeans'."""
    same_inertia: bool
    same_iterations: bool
    wrong_labels: int | None = None
    """How many of the labels that were checked are not those of a nearest center."""

    @property
    def per_iteration(self) -> float:
        """Seconds of an iteration: the whole fit over their number."""
        return self.seconds / max(1, self.iterations)


@dataclass(frozen=True)
class Race:
    """All methods on one problem; a peer that did not finish has a reason instead."""

    data: str
    dtype: str
    shape: Shape
    max_iter: int
    inertia: float
    ours: Outcome
    peers: dict[str, Outcome | str]
    exact: tuple[str, ...]
    """The titles of the exact peers that finished."""
    labels_checked: int = 0
    """How many labels of each method were checked."""

    def ratio(self, title: str) -> float:
        """Return how many times longer a peer takes than wolfmeans."""
        return self._outcome(title).seconds / self.ours.seconds

    def ratio_per_iteration(self, title: str) -> float:
        """Return how many times longer an iteration of a peer takes."""
        return self._outcome(title).per_iteration / self.ours.per_iteration

    @property
    def fastest(self) -> str | None:
        """The exact peer of the shortest time. One that disagrees counts, and is marked."""
        return min(self.exact, key=self.ratio, default=None)

    @property
    def marked(self) -> list[str]:
        """The exact peers whose inertia or number of iterations is another."""
        return [
            title
            for title in self.exact
            if not (self._outcome(title).same_inertia and self._outcome(title).same_iterations)
        ]

    def _outcome(self, title: str) -> Outcome:
        outcome = self.peers[title]
        if isinstance(outcome, str):
            raise KeyError(f"{title}: {outcome}")
        return outcome


@dataclass
class _Lane:
    """The times and the result of one method in a race."""

    seconds: list[float] = field(default_factory=list)
    fitted: Fitted | None = None
    failure: Exception | None = None

    def finished(self) -> Fitted:
        """Return the last fit, or raise what went wrong."""
        if self.failure is not None:
            raise self.failure
        if self.fitted is None:
            raise RuntimeError("nothing was run")
        return self.fitted

    def wants_more(self, budget: float) -> bool:
        """Whether another run would stay within the budget."""
        return self.failure is None and sum(self.seconds) + self.seconds[-1] <= budget


def race(
    problem: Problem,
    ours: Method,
    peers: Sequence[Method],
    limits: Limits,
    *,
    repeats: int,
    budget: float,
    skip_slow: float = SKIP_SLOW,
    check_labels: bool = False,
) -> Race:
    """Time whole fits in turn, so that a busy machine slows all, and compare the results.

    A method is repeated while that keeps the sum of its times within `budget` seconds, but not a
    peer whose first run took more than `skip_slow` times as long as the first of wolfmeans, and
    more than a second.
    """
    refusals = {peer.title: peer.refuses(problem) for peer in peers}
    methods = [ours, *(peer for peer in peers if refusals[peer.title] is None)]
    lanes = {method.title: _Lane() for method in methods}
    for turn in range(repeats):
        for method in methods:
            lane = lanes[method.title]
            if turn == 0 or lane.wants_more(budget):
                _run(method, problem, limits, lane)
            if method is ours:
                limits = replace(limits, fixpoint=lane.finished().iterations)
        if turn == 0:
            slow = max(skip_slow * lanes[ours.title].seconds[0], ALWAYS_REPEATED)
            methods = [m for m in methods if m is ours or lanes[m.title].seconds[0] <= slow]
    first = lanes[ours.title].finished()
    reference = inertia(problem.points, first.centers)
    outcomes = {
        title: _outcome(lane, problem, first.iterations, reference) for title, lane in lanes.items()
    }
    rows = _rows_to_check(problem) if check_labels else None
    if rows is not None:
        for method in (ours, *peers):
            outcome = outcomes.get(method.title)
            if isinstance(outcome, Outcome):
                wrong = _count_wrong(method, problem, lanes[method.title].finished(), rows)
                outcomes[method.title] = replace(outcome, wrong_labels=wrong)
    found = {peer.title: refusals[peer.title] or outcomes[peer.title] for peer in peers}
    own = outcomes[ours.title]
    assert isinstance(own, Outcome)  # `finished` has raised if it failed
    return Race(
        data=problem.data,
        dtype=problem.dtype,
        shape=problem.shape,
        max_iter=limits.max_iter,
        inertia=reference,
        ours=own,
        peers=found,
        exact=tuple(p.title for p in peers if p.exact and isinstance(found[p.title], Outcome)),
        labels_checked=0 if rows is None else len(rows),
    )


def _rows_to_check(problem: Problem) -> NDArray[np.int64]:
    """Return the rows whose labels are checked: all, or as many as do not take too long."""
    n = problem.shape.n
    most = max(1, CHECKED // (problem.shape.d * problem.shape.n_clusters))
    if most >= n:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def _count_wrong(
    method: Method, problem: Problem, fitted: Fitted, rows: NDArray[np.int64]
) -> int | None:
    labels = method.labels(problem, fitted)
    if labels is None:
        return None
    return wrong_labels(problem.points[rows], fitted.centers, np.asarray(labels)[rows])


def wrong_labels(points: Points, centers: Points, labels: NDArray[np.integer]) -> int:
    """Return how many points have a center that is nearer than that of their label.

    By the reference engine, in float64; differences by rounding alone are not wrong.

    Examples
    --------
    >>> import numpy as np
    >>> points, centers = np.array([[0.0], [1.0], [3.0]]), np.array([[0.0], [2.0]])
    >>> wrong_labels(points, centers, np.array([0, 1, 0]))
    1
    """
    points = np.ascontiguousarray(points, dtype=np.float64)
    centers = np.ascontiguousarray(centers, dtype=np.float64)
    nearest, least = ReferenceEngine().open(points, None, 1).nearest(centers)
    other = np.flatnonzero(nearest != labels)
    own = np.square(points[other] - centers[labels[other]]).sum(axis=1)
    return int(np.sum(own > least[other] * (1.0 + _ROUNDING)))


def _run(method: Method, problem: Problem, limits: Limits, lane: _Lane) -> None:
    time.sleep(PAUSE)
    begun = time.perf_counter()
    try:
        lane.fitted = method.fit(problem, limits)
    except Exception as error:
        lane.failure = error
    lane.seconds.append(time.perf_counter() - begun)


def _outcome(lane: _Lane, problem: Problem, iterations: int, reference: float) -> Outcome | str:
    if lane.failure is not None:
        return f"failed: {lane.failure!r}"
    fitted = lane.finished()
    found = inertia(problem.points, fitted.centers)
    excess = (found - reference) / reference if reference else found
    return Outcome(
        seconds=median(lane.seconds),
        best=min(lane.seconds),
        repeats=len(lane.seconds),
        iterations=fitted.iterations,
        excess=excess,
        same_inertia=bool(abs(excess) <= SAME_INERTIA),
        same_iterations=fitted.iterations == iterations,
    )


def iterations_within(
    seconds: float, problem: Problem, methods: Sequence[Method], limits: Limits
) -> int:
    """Estimate how many iterations the slowest exact method makes in that time; at least five.

    Two short fits give a fixed cost and a cost per iteration.
    """
    allowed = limits.max_iter
    for method in methods:
        if not method.exact or method.refuses(problem) is not None:
            continue
        lane = _Lane()
        for count in (2, 4):
            if lane.failure is None and sum(lane.seconds) < seconds:
                _run(method, problem, replace(limits, max_iter=count), lane)
        if lane.failure is None:
            each = max((lane.seconds[-1] - lane.seconds[0]) / 2, lane.seconds[-1] / 20, 1e-9)
            fixed = max(0.0, lane.seconds[0] - 2 * each)
            allowed = min(allowed, int((seconds - fixed) / each))
    return min(limits.max_iter, max(5, allowed))
