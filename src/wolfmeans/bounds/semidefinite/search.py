"""The search for the best semidefinite bound within a time limit; only a checked value counts."""

from __future__ import annotations

import math
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from wolfmeans.bounds.bound import LowerBound, Report, positive_points, quiet
from wolfmeans.bounds.proof import Proof, check
from wolfmeans.bounds.semidefinite.cuts import Double
from wolfmeans.bounds.semidefinite.relaxation import Relaxation

KIND = "semidefinite"
OPTIMAL = 1e-6
"""A bound within this share of an SSE proves it optimal."""
_ROUND = 10
"""Steps between two searches for violated cuts."""
_LOOK = 4
"""Rounds between two estimates of the bound."""


def semidefinite(
    X: NDArray[np.floating],
    n_clusters: int,
    weights: Double | None = None,
    *,
    labels: NDArray[np.int32],
    seconds: float = 60.0,
    steps: int | None = None,
    goal: float | None = None,
    n_threads: int = 1,
    progress: Report | None = None,
) -> LowerBound:
    """Return the best semidefinite bound that is proven within some seconds, with its proof.

    Parameters
    ----------
    X : array of shape (n, d)
        Validated points.
    n_clusters : int
        K.
    weights : array of shape (n,) or None
        At least 0; None for ones.
    labels : array of shape (n,)
        A clustering to start from; the better it is, the sooner the bound is good.
    seconds : float
        The search and the last proof are done by then, unless the first steps take longer.
    steps : int or None
        No more steps are taken.
    goal : float or None
        The SSE of a clustering: a bound within 1e-6 of it ends the search.
    n_threads : int
        Threads of the search for cuts.
    progress : callable or None
        Called with the completed fraction and a text.
    """
    started = perf_counter()
    if weights is not None:
        labels = labels[weights > 0]
    positive, heavy = positive_points(X, weights)
    points = np.asarray(positive, dtype=np.float64)
    if not 1 < n_clusters < len(points) or not np.ptp(points, axis=0).any():
        return LowerBound(0.0, KIND, 1.0, perf_counter() - started)
    relaxation = Relaxation(points, n_clusters, heavy, labels)
    search = Search(points, heavy, relaxation, goal)
    try:
        search.run(started, seconds, steps or 1 << 62, n_threads, progress or quiet)
    except KeyboardInterrupt:
        if search.proof is None:
            raise
    return LowerBound(search.best, KIND, 1.0, perf_counter() - started, search.proof)


class Search:
    """Steps, cuts and proofs in turn; the best proof so far."""

    def __init__(
        self, points: Double, weights: Double | None, relaxation: Relaxation, goal: float | None
    ) -> None:
        self.points, self.weights, self.relaxation, self.goal = points, weights, relaxation, goal
        self.best = 0.0
        self.proof: Proof | None = None
        self._enough = math.inf if goal is None else (1.0 - OPTIMAL) * goal

    def run(
        self, started: float, seconds: float, steps: int, n_threads: int, report: Report
    ) -> None:
        """Search until the goal, the time limit or the number of steps is reached."""
        relaxation = self.relaxation
        first = perf_counter()
        over = False
        while not over and self.best < self._enough:
            relaxation.step()
            now = perf_counter()
            a_step = (now - first) / relaxation.steps
            last = now - started + (1.0 + self._steps_of_a_proof()) * a_step >= seconds
            over = last or relaxation.steps >= steps
            round_ends = relaxation.steps % _ROUND == 0
            if over or (round_ends and (relaxation.steps // _ROUND) % _LOOK == 0):
                self._look(over, min(1.0, (now - started) / seconds), report)
            if round_ends and not over:
                relaxation.separate(n_threads)

    def _steps_of_a_proof(self) -> float:
        """Return about how many steps take as long as a proof and its check."""
        n, d = self.points.shape
        columns = self.relaxation.top.vectors.shape[1]
        return float(4.0 + (n / 3.0 + 12.0 * d) / (5.0 * columns))

    def _look(self, over: bool, done: float, report: Report) -> None:
        """Estimate the bound, and prove it if that is promising."""
        estimate = self.relaxation.estimate()
        report(done, f"semidefinite bound: about {estimate:.6g}")
        # A proof takes as long as some steps, so it must promise much more than the last.
        more = 0.01 * self.best if self.goal is None else 0.5 * (self.goal - self.best)
        if not (over or estimate >= self._enough or estimate > self.best + more):
            return
        apart = 1e-6 if self.goal is None else max(0.0, 1.0 - estimate / self.goal)
        value, found = proven(self.relaxation, self.points, self.weights, apart)
        if value > self.best:
            self.best, self.proof = value, found


def proven(
    relaxation: Relaxation, X: Double, weights: Double | None, tolerance: float = 0.0
) -> tuple[float, Proof | None]:
    """Return the value of the first proof that the checker accepts, and that proof.

    The value may be lower than possible by about a thousandth of the tolerance, relatively.
    """
    for proof in relaxation.proofs(tolerance):
        value = check(X, weights, proof)
        if value > 0.0:
            return value, proof
    return 0.0, None
