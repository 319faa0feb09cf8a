"""The search for the best semidefinite bound within a time limit; only a checked value counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from wolfmeans.bounds.bound import LowerBound, Settings, positive_points, quiet
from wolfmeans.bounds.proof import check
from wolfmeans.bounds.proof_format import Proof
from wolfmeans.bounds.semidefinite.arrays import HOST, TorchArrays
from wolfmeans.bounds.semidefinite.cuts import Double
from wolfmeans.bounds.semidefinite.relaxation import Relaxation

KIND = "semidefinite"
_ROUND = 10
"""Steps between two searches for violated cuts."""
_LOOK = 4
"""Rounds between two estimates of the bound."""
_TRIAL = 200
"""Steps after which the number of threads is chosen again."""
_POINTS_OF_A_THREAD = 1000
_PATIENCE = 5
"""The search ends when this many estimates closed less than a fiftieth of the gap."""


def semidefinite(
    X: NDArray[np.floating],
    n_clusters: int,
    weights: Double | None = None,
    *,
    labels: NDArray[np.int32],
    settings: Settings,
) -> LowerBound:
    """Return the best semidefinite bound that is proven within a time limit, with its proof.

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
    settings : Settings
        Search and last proof are done within its `seconds`, unless the first steps take longer. A
        bound that is near enough to its `goal` ends the search.
    """
    started = perf_counter()
    if weights is not None:
        labels = labels[weights > 0]
    positive, heavy = positive_points(X, weights)
    points = np.asarray(positive, dtype=np.float64)
    if not 1 < n_clusters < len(points) or not np.ptp(points, axis=0).any():
        return LowerBound(0.0, KIND, 1.0, perf_counter() - started)
    begun = settings.clock()
    sizes = settings.sizes if weights is None else None  # points with weights may be split
    if sizes is not None and sizes[0] <= 1 and sizes[1] >= len(points):
        sizes = None
    on = TorchArrays(_device()) if settings.on_gpu else HOST
    with BlasThreads(settings.n_threads, len(points)).limited():
        relaxation = Relaxation(points, n_clusters, heavy, labels, on=on, sizes=sizes)
    prove = partial(proven, relaxation, points, heavy)
    found = searched(Search(relaxation, prove, settings, begun))
    return replace(found, seconds=perf_counter() - started)


def searched(search: Search) -> LowerBound:
    """Return the bound that a search finds, also if it is interrupted."""
    try:
        search.run()
    except KeyboardInterrupt:
        if search.proof is None:
            raise
    return LowerBound(search.best, KIND, 1.0, 0.0, search.proof, search.outlook())


class Search:
    """Steps, cuts and proofs in turn; the best proof so far.

    Parameters
    ----------
    relaxation : Relaxation or TrimmedRelaxation
        It is improved step by step.
    prove : callable
        Given a relative tolerance, returns a proven value and its proof.
    settings : Settings
        As for `semidefinite`.
    begun : float
        The time of the settings' clock from which its seconds count.
    """

    def __init__(
        self,
        relaxation: Any,
        prove: Callable[[float], tuple[float, Proof | None]],
        settings: Settings,
        begun: float,
    ) -> None:
        self._clock, self._started = settings.clock, begun
        self.relaxation, self._prove, self.settings = relaxation, prove, settings
        self._shape = relaxation.points.shape
        self.best = 0.0
        self.proof: Proof | None = None
        self._goal = settings.goal
        self._enough = settings.enough
        self._estimates: list[tuple[float, float]] = []
        """Times, and estimates of the bound."""

    def run(self) -> None:
        """Search until the goal or a limit is reached, or the bound no longer rises."""
        relaxation, settings = self.relaxation, self.settings
        most = settings.steps or 1 << 62
        over, threads, a_step = False, BlasThreads(settings.n_threads, self._shape[0]), 0.0
        while not over and self.best < self._enough:
            before = self._clock()
            with threads.chosen(relaxation.steps):
                relaxation.step()
            now = self._clock()
            # One slow step says little about the next.
            took = now - before
            a_step = 0.9 * a_step + 0.1 * min(took, 3.0 * a_step) if a_step else took
            left = settings.seconds - (now - self._started)
            over = left <= (1.0 + self._steps_of_a_proof()) * a_step or relaxation.steps >= most
            round_ends = relaxation.steps % _ROUND == 0
            rounds = relaxation.steps // _ROUND
            if over or (round_ends and (rounds in (1, 2) or rounds % _LOOK == 0)):
                with threads.limited():
                    over = self._look(over) or over
            if round_ends and not over:
                with threads.limited():
                    relaxation.separate(settings.n_threads)

    def _steps_of_a_proof(self) -> float:
        """Return about how many steps take as long as a proof and its check."""
        n, d = self._shape
        columns = self.relaxation.top.vectors.shape[1]
        return float(4.0 + (n / 6.0 + 6.0 * d) / (5.0 * columns))

    def _look(self, over: bool) -> bool:
        """Estimate the bound, and prove it if that is promising; whether it has stopped rising."""
        spent = self._clock() - self._started
        estimate = self.relaxation.estimate()
        self._estimates.append((spent, estimate))
        report = self.settings.progress or quiet
        report(min(1.0, spent / self.settings.seconds), self._told(estimate))
        over = over or self._rests()
        # A proof takes as long as some steps, so it must promise much more than the last.
        goal = self._goal
        more = 0.01 * self.best if goal is None else 0.5 * (goal - self.best)
        if over or estimate >= self._enough or estimate > self.best + more:
            tolerance = 1e-6 if goal is None else max(0.0, 1.0 - estimate / goal)
            value, found = self._prove(tolerance)
            if value > self.best:
                self.best, self.proof = value, found
        return over

    def _told(self, estimate: float) -> str:
        """Return an estimate in words, without units if a clustering is known."""
        if self._goal is None or not estimate > 0:
            return f"bound about {estimate:.6g}"
        percent = max(0.0, 100.0 * (self._goal / estimate - 1.0))
        return f"within about {percent:.2g} % of the optimum"

    def _rests(self) -> bool:
        """Whether the last looks have brought next to nothing."""
        if len(self._estimates) <= _PATIENCE:
            return False
        before = max(value for _, value in self._estimates[:-_PATIENCE])
        best = max(value for _, value in self._estimates[-_PATIENCE:])
        open_ = abs(best) if self._goal is None else self._goal - best
        return best - before < (1e-8 if self._goal is None else 0.02) * open_

    def outlook(self) -> str:
        """Return what as much time again would probably bring."""
        goal, steps = self._goal, self.settings.steps
        if goal is None or self.best >= self._enough or steps is not None:
            return ""
        if self._rests():
            return "more time would hardly improve this bound"
        half = [v for t, v in self._estimates if t <= 0.5 * self._estimates[-1][0] and v < goal]
        last = self._estimates[-1][1]
        if not half or not half[-1] < last < goal:
            return ""
        then = (goal - last) ** 2 / (goal - half[-1])
        more = 100.0 * then / (goal - then)
        return f"as much time again would probably prove it to within {more:.2g} %"


class BlasThreads:
    """How many threads matrix products have: one, or all if that is faster now.

    Threads of BLAS wait for each other. Where other programs keep the processors busy, several take
    many times as long as one. So both numbers are tried in turn.
    """

    def __init__(self, most: int, n: int) -> None:
        # Small products gain nothing from threads.
        self._numbers = (1,) if most == 1 or n <= _POINTS_OF_A_THREAD else (1, most)
        self._best = self._numbers[0]
        self._times: dict[int, float] = {}
        self._controller = ThreadpoolController()

    def limited(self) -> Any:
        """Limit the threads of other work to the number that is best for a step."""
        return self._controller.limit(limits=self._best, user_api="blas")

    @contextmanager
    def chosen(self, step: int) -> Iterator[None]:
        """Limit the threads of a step."""
        turn = step % _TRIAL
        trying = turn < 2 * len(self._numbers)
        number = self._numbers[turn // 2] if trying else self._best
        started = perf_counter()
        with self._controller.limit(limits=number, user_api="blas"):
            yield
        if trying:
            self._times[number] = perf_counter() - started
            self._best = min(self._times, key=self._times.__getitem__)


def _device() -> str:
    from wolfmeans.engines.gpu.engine import device  # needs PyTorch

    return device()


def proven(
    relaxation: Relaxation, X: Double, weights: Double | None, tolerance: float = 0.0
) -> tuple[float, Proof | None]:
    """Return the value of the first proof that the checker accepts, and that proof.

    The value may be lower than possible by about a thousandth of the tolerance, relatively.
    """
    for proof in relaxation.proofs(tolerance):
        value = check(X, weights, proof, sizes=relaxation.sizes)
        if value > 0.0:
            return value, proof
    return 0.0, None
