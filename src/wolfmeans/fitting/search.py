"""Effort: a search that spends a given time on a lower SSE than one start finds.

It starts at a clustering where Lloyd's steps have ended and looks for a better one. A trial
exchanges centers for data points, takes some of Lloyd's steps, and is given up as soon as they are
not likely to end below. The points are drawn as in k-means++, by w D; the center to give up for
each is the one that costs least, known for all centers from one pass over the points
(engines.swaps). With many clusters several exchanges are tried at once, far from each other: most
of them are independent. When exchanges keep failing, the search restarts, from new seeds or from a
crossing of two of the best clusterings so far: their centers are matched, and one of each pair is
kept (Gribel & Vidal 2019).

Every step is one of `minimize_concave`. The search returns initial centers: an ordinary fit runs
from there, and the certificate describes that fit only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from wolfmeans.certificate.improvement import Effort
from wolfmeans.core import progress
from wolfmeans.core.draws import RandomSource, draw_rows
from wolfmeans.core.frank_wolfe import minimize_concave
from wolfmeans.core.kmeans import KMeansProblem, Partition, look_ahead
from wolfmeans.core.solution import Status
from wolfmeans.core.stopping import DecreaseRule
from wolfmeans.core.workspace import Centers, Labels, Workspace
from wolfmeans.seeding.methods import choose_seeds

_SEEDING = "k-means++"
# Steps end at this share of the first SSE; the ordinary fit afterwards continues from there.
_TOLERANCE = 1e-5
# Smaller gains are left to Lloyd's steps, and rounding explains none of this size.
_GAIN = 1e-7
# A trial continues while so many steps like the last one would bring it below the ceiling.
_PATIENCE = 12.0
_STEPS_AT_ONCE = 8
# Points drawn for each exchange, of which the best is taken; with many, trials repeat each other.
_DRAWN = 2
# Multiplications in one step of a problem so small that each of some trials has its own thread.
_SMALL = 1 << 22
_TRIALS = 4
# Failures in a row after which the search restarts: at least, and for each cluster.
_FEWEST_FAILURES, _FAILURES_PER_CLUSTER = 16, 2
_ELITES = 6
# Matching the centers of two clusterings takes the cube of their number.
_MOST_MATCHED = 1024


@dataclass(frozen=True)
class _Clustering:
    """A partition at the end of a descent."""

    centers: Centers
    labels: Labels
    masses: NDArray[np.float64]
    """(n,) w D of each point."""
    sse: float

    @classmethod
    def of(cls, workspace: Workspace, point: Partition) -> _Clustering:
        """Copy the labels of a partition from its workspace."""
        masses = workspace.distances(point.centers)
        if workspace.weights is not None:
            masses *= workspace.weights
        return cls(point.centers, workspace.labels(), masses, point.sse)


def search(
    workspace: Workspace,
    centers: Centers,
    random: RandomSource,
    *,
    seconds: float = math.inf,
    rounds: int | None = None,
    give_up_after: int | None = None,
    tolerance: float = _TOLERANCE,
    n_threads: int = 1,
    kind: Callable[..., KMeansProblem] = KMeansProblem,
) -> tuple[Centers, Effort]:
    """Look for centers from which a fit ends at a lower SSE than from the given ones.

    Parameters
    ----------
    workspace : Workspace
        The points; their labels change.
    centers : ndarray of shape (K, d)
        The centers of a finished fit. They are returned if nothing better is found; other centers
        have a lower SSE before any further step.
    random : RandomSource
        The generator of all draws.
    seconds : float, default=inf
        Time limit.
    rounds : int or None, default=None
        Maximum number of rounds. Without a time limit the result depends only on it and on the
        generator.
    give_up_after : int or None, default=None
        The search ends after so many rounds in a row that gained nothing.
    tolerance : float, default=1e-5
        A descent ends when a step gains no more than this share of its first SSE.
    n_threads : int, default=1
        Threads for trials of small problems; does not change the result of a round.
    kind : callable, default=KMeansProblem
        The problem whose steps are taken; its costs are squared distances times a constant.

    Returns
    -------
    centers : ndarray of shape (K, d)
        The best centers found.
    effort : Effort
        What was done.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans.fitting.search import search
    >>> from wolfmeans.engines import get_engine
    >>> X = np.array([[0.0], [1.0], [10.0], [11.0], [20.0], [21.0]])
    >>> rng = np.random.RandomState(0)
    >>> poor = np.array([[0.0], [1.0], [15.5]])
    >>> centers, effort = search(get_engine().open(X, None, 1), poor, lambda: rng, rounds=4)
    >>> np.sort(centers.ravel()), effort.before, effort.after
    (array([ 0.5, 10.5, 20.5]), 101.0, 1.5)
    """
    if rounds is None and math.isinf(seconds):
        raise ValueError("a search needs a limit: seconds or rounds")
    state = _Search(workspace, random, n_threads, seconds, tolerance, kind)
    return state.run(centers, rounds, give_up_after)


class _Search:
    """The state of a search: the workspaces, the best clusterings and the counts."""

    def __init__(
        self,
        workspace: Workspace,
        random: RandomSource,
        n_threads: int,
        seconds: float,
        tolerance: float,
        kind: Callable[..., KMeansProblem],
    ) -> None:
        self._workspace = workspace
        self._tolerance = tolerance
        self._kind = kind
        self._random = random
        self._n_threads = n_threads
        self._started = perf_counter()
        self._deadline = self._started + seconds
        self._twins: list[Workspace] = []
        self._swaps = workspace.swaps()
        self._looked_at: _Clustering | None = None
        self._elites: list[_Clustering] = []
        self._failures = self._tried = self._accepted = self._starts = 0

    def run(
        self, centers: Centers, rounds: int | None, give_up_after: int | None
    ) -> tuple[Centers, Effort]:
        """Search until the time is up, the rounds are over, or too many of them failed."""
        n_clusters = len(centers)
        size = self._workspace.n_points * self._workspace.n_features * n_clusters
        self._trials = _TRIALS if size <= _SMALL else 1
        self._at_once = max(1, n_clusters // 10)
        patience = max(_FEWEST_FAILURES, _FAILURES_PER_CLUSTER * n_clusters)
        first = best = now = _Clustering.of(*self._descend([centers]))
        done = in_vain = 0
        while n_clusters > 1 and best.masses.any() and perf_counter() < self._deadline:
            if done == rounds or in_vain == give_up_after:
                break
            done += 1
            self._tell_progress(best.sse)
            now = self._exchange(now) if self._failures < patience else self._restart(now)
            in_vain += 1
            if now.sse < best.sse * (1.0 - _GAIN):
                best, in_vain = now, 0
        effort = Effort(
            seconds=perf_counter() - self._started,
            rounds=done,
            tried=self._tried,
            accepted=self._accepted,
            starts=self._starts,
            before=first.sse,
            after=best.sse,
        )
        return (centers if best is first else best.centers), effort

    def _tell_progress(self, sse: float) -> None:
        elapsed = perf_counter() - self._started
        if elapsed >= progress.PATIENCE and math.isfinite(self._deadline):
            whole = self._deadline - self._started
            found = f"{self._accepted:,} of {self._tried:,} exchanges"
            progress.tick(elapsed / whole, f"search, inertia {sse:.6g}, {found} helped")

    def _exchange(self, now: _Clustering) -> _Clustering:
        """Try exchanges and return the better clustering, which may be the old one."""
        n_clusters = len(now.centers)
        trials = self._trials if self._at_once == 1 else 1
        seeds = self._exchanged(now, trials)
        workspace, point = self._descend(seeds, now.sse)
        self._tried += trials
        if point.sse < now.sse * (1.0 - _GAIN):
            self._accepted += 1
            self._failures = 0
            if self._at_once > 1:
                self._at_once = min(n_clusters // 4 + 1, self._at_once + 1)
            return _Clustering.of(workspace, point)
        self._failures += trials
        self._at_once = max(1, self._at_once // 2)
        return now

    def _exchanged(self, now: _Clustering, trials: int) -> list[Centers]:
        """Return seeds for each trial: the centers with some exchanged for data points."""
        if self._looked_at is not now:
            self._swaps.look(now.centers)
            self._looked_at = now
        drawn = trials * self._at_once * _DRAWN
        rows = draw_rows(self._workspace, now.masses, self._random(), drawn)
        removals, changes = self._swaps.changes(rows)
        parts = zip(
            np.split(rows, trials),
            np.split(removals, trials),
            np.split(changes, trials),
            strict=True,
        )
        return [self._apply(now, *part) for part in parts]

    def _apply(
        self,
        now: _Clustering,
        rows: NDArray[np.int64],
        removals: Labels,
        changes: NDArray[np.float64],
    ) -> Centers:
        """Make the best of the exchanges, no two of which touch the same cluster."""
        chosen: list[int] = []
        touched: set[int] = set()
        for i in np.argsort(changes, kind="stable").tolist():
            clusters = {int(now.labels[rows[i]]), int(removals[i])}
            if not touched & clusters:
                touched |= clusters
                chosen.append(i)
        chosen = chosen[: self._at_once]
        seeds = now.centers.copy()
        seeds[removals[chosen]] = self._workspace.rows(rows[chosen])
        return seeds

    def _restart(self, now: _Clustering) -> _Clustering:
        """Keep the clustering among the best ones and continue from another one."""
        ranked = sorted([*self._elites, now], key=lambda elite: elite.sse)
        distinct = [
            elite
            for place, elite in enumerate(ranked)
            if place == 0 or elite.sse > ranked[place - 1].sse * (1.0 + _GAIN)
        ]
        self._elites = distinct[:_ELITES]
        self._starts += self._trials
        self._failures = 0
        n_clusters = len(now.centers)
        self._at_once = max(1, n_clusters // 10)
        rng = self._random()
        cross = len(self._elites) > 1 and n_clusters <= _MOST_MATCHED and rng.randint(2)
        seeds = [
            self._child(rng) if cross else choose_seeds(self._workspace, n_clusters, _SEEDING, rng)
            for _ in range(self._trials)
        ]
        return _Clustering.of(*self._descend(seeds))

    def _child(self, rng: np.random.RandomState) -> Centers:
        """Cross two of the best clusterings: match their centers and keep one of each pair."""
        # Imported where they are needed: they are slow to load, and few fits come here.
        from scipy.optimize import linear_sum_assignment
        from scipy.spatial.distance import cdist

        one, other = rng.choice(len(self._elites), 2, replace=False).tolist()
        left, right = self._elites[one].centers, self._elites[other].centers
        _, partners = linear_sum_assignment(cdist(left, right, "sqeuclidean"))
        heads = rng.randint(2, size=(len(left), 1), dtype=np.int64)
        child: Centers = np.where(heads == 1, left, right[partners])
        return child

    def _time_left(self) -> float:
        return max(0.0, self._deadline - perf_counter())

    def _descend(
        self, seeds: Sequence[Centers], ceiling: float = math.inf
    ) -> tuple[Workspace, Partition]:
        """Take Lloyd's steps from all seeds, and return the best partition and its workspace.

        Descents that are not likely to end below the ceiling are given up.
        """
        workspaces = [self._workspace]
        if len(seeds) > 1:
            missing = len(seeds) - len(self._twins)
            self._twins += [self._workspace.fork(1) for _ in range(missing)]
            workspaces = self._twins[: len(seeds)]
        descents = [
            _Descent(
                self._kind(workspace, "farthest", self._random), start, ceiling, self._tolerance
            )
            for workspace, start in zip(workspaces, seeds, strict=True)
        ]
        running = descents
        while running:
            if len(running) > 1:
                look_ahead(
                    [descent.problem for descent in running],
                    [descent.point for descent in running],
                    [descent.rule for descent in running],
                    _STEPS_AT_ONCE,
                    self._n_threads,
                    self._time_left(),
                )
            running = [descent for descent in running if descent.advance(self._time_left())]
        best = min(range(len(descents)), key=lambda place: descents[place].point.sse)
        return workspaces[best], descents[best].point


class _Descent:
    """Lloyd's steps from seeds, some at a time, while they promise to end below the ceiling."""

    def __init__(
        self, problem: KMeansProblem, seeds: Centers, ceiling: float, tolerance: float
    ) -> None:
        self.problem = problem
        self.point = problem.partition(seeds)
        self._ceiling = ceiling
        self._smallest = tolerance * self.point.sse
        self.rule = self._rule()

    def _rule(self) -> DecreaseRule:
        """Stop where steps like the last one would not lead below the ceiling."""
        missing = 0.0 if math.isinf(self._ceiling) else self.point.sse - self._ceiling
        return DecreaseRule(max(missing / _PATIENCE, self._smallest))

    def advance(self, seconds: float) -> bool:
        """Take some steps; return whether to continue."""
        solution = minimize_concave(
            self.problem,
            self.point,
            stop=self.rule,
            max_iter=_STEPS_AT_ONCE,
            time_limit=seconds,
        )
        value = max(0.0, solution.value - solution.decrease)
        # The labels in the workspace are those of the step that was evaluated last.
        self.point = replace(solution.vertex, sse=value)
        self.rule = self._rule()
        limited = solution.status in (Status.MAX_ITER, Status.DECREASE)
        return limited and solution.decrease > self.rule.tol
