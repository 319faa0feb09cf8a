"""Better local optima, from where Lloyd's steps are stationary.

`hartigan` moves single points until none can move with a gain: exact minimization over one block
of the polytope after the other. `swap` exchanges a center for a data point where that lowers the
cost (Lattanzi & Sohler 2019). Both only choose where to continue; the steps in between are those of
`minimize_concave`, and a polished point is stationary too. No value ever rises.

The levels: at a *stationary* point no step of all points at once lowers the cost, at a *hartigan*
point no move of a single one, at a *swap* point no exchange of a center for a data point (before
any further step). Each includes those before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from wolfmeans.certificate.improvement import Polish
from wolfmeans.core.choices import POLISHES as POLISHES
from wolfmeans.core.draws import RandomSource, draw_rows
from wolfmeans.core.frank_wolfe import minimize_concave
from wolfmeans.core.kmeans import KMeansProblem, Partition
from wolfmeans.core.solution import Solution
from wolfmeans.core.workspace import Centers, Forced, Workspace
from wolfmeans.engines.single_moves import SingleMoves
from wolfmeans.engines.swaps import Swaps
from wolfmeans.exact.distances import UNIT
from wolfmeans.exact.sums import exact_sum

# Long enough to be worth a call, short enough to react to Ctrl-C and the deadline.
_SECONDS_AT_ONCE = 0.05
# A guard against cycles by rounding, which have not been observed.
_MOST_ROUNDS = 10_000
# The most rows times forced labels of an assignment.
_MOST_FORCED = 100_000_000
# Failed draws after which the search by draws ends: at least, and for each center.
_FEWEST_DRAWS = 64
_DRAWS_PER_CENTER = 2
# Coordinates read in one call, and in a pass over all data points.
_COORDINATES_AT_ONCE = 100_000_000
_MOST_COORDINATES = 2_000_000_000


@dataclass(frozen=True)
class Polished:
    """A stationary point, unless time ran out, and how it was reached."""

    solution: Solution[Partition]
    """The last run of `minimize_concave`; the given solution if nothing was gained."""
    record: Polish


@dataclass(frozen=True)
class Moved:
    """What a search by single moves found."""

    partition: Partition | None
    """Where to continue, with the workspace's labels; None if nothing moved."""
    moves: int
    decrease: float
    """The exact sum of what the moves gained, rounded once."""
    finished: bool
    """Whether no move gains at the partition; False if not all points were tried."""
    tied: bool


def polish(
    problem: KMeansProblem,
    solution: Solution[Partition],
    kind: str,
    random: RandomSource,
    deadline: float = math.inf,
) -> Polished:
    """Continue from the end of a run to a better local optimum.

    Parameters
    ----------
    problem : KMeansProblem
        The problem that was solved; its workspace has the labels of the end of the run.
    solution : Solution
        That run.
    kind : {"hartigan", "swap"}
        The level to reach.
    random : RandomSource
        The generator from which `swap` draws data points.
    deadline : float, default=inf
        When to end, by `time.perf_counter`.

    Returns
    -------
    Polished
        The last run, and a record of what polishing did.
    """
    if kind not in POLISHES:
        raise ValueError(f"polish must be one of {', '.join(map(repr, POLISHES))}; got {kind!r}")
    search = _Search(problem, solution, random, deadline)
    if kind == "swap":
        search.swap()
    else:
        search.settle()
    return search.result(kind)


def hartigan(
    problem: KMeansProblem,
    partition: Partition,
    deadline: float = math.inf,
    sweeps: int | None = None,
) -> Moved:
    """Move single points of the partition, whose labels the workspace has, while that gains.

    It ends when no move gains, at the deadline or after this many sweeps.
    """
    search = problem.workspace.single_moves(partition.centers)
    finished = False
    while not finished and (sweeps is None or search.sweeps < sweeps):
        seconds = min(_SECONDS_AT_ONCE, deadline - perf_counter())
        if seconds <= 0.0:
            break
        most = 1_000_000 if sweeps is None else sweeps - search.sweeps
        finished = search.run(seconds, most)
    reached: Partition | None = None
    as_found = True
    if search.moves:
        reached, as_found = _partition(problem, search)
    return Moved(
        partition=reached,
        moves=search.moves,
        decrease=search.decrease,
        finished=finished and as_found,
        tied=search.tied,
    )


def _partition(problem: KMeansProblem, search: SingleMoves) -> tuple[Partition, bool]:
    """Set the workspace's labels to those of a search; points without weight to the nearest.

    Only the few labels that are not nearest centers must be forced. If there are many, because the
    search was cut short or many points are equal, the nearest centers are taken: f is no higher
    there. Then the labels are not those of the search (False), and its findings about moves do not
    hold for them.
    """
    workspace = problem.workspace
    centers, labels = search.centers, search.labels
    away = labels != workspace.nearest(centers)[0]
    if workspace.weights is not None:
        away &= workspace.weights > 0
    rows = np.flatnonzero(away)
    if len(rows) * workspace.n_points > _MOST_FORCED:
        return problem.partition(centers), False
    found = workspace.assign(centers, Forced(rows, labels[rows]) if len(rows) else None)
    partition = Partition(
        centers=found.means,
        residuals=found.residuals,
        weights=found.weights,
        shift=0.0,
        movement=0.0,
        gap=0.0,
        moved=found.moved,
        sse=workspace.cost(found.means),
    )
    return partition, True


class _Search:
    """The state of polishing: the last run, and a record of what came before."""

    def __init__(
        self,
        problem: KMeansProblem,
        solution: Solution[Partition],
        random: RandomSource,
        deadline: float,
    ) -> None:
        self._problem = problem
        self._workspace: Workspace = problem.workspace
        self._solution = solution
        self._random = random
        self._deadline = deadline
        self._level: str | None = None
        self._tied = False
        self._moves = self._swaps = self._tried = self._iterations = 0
        self._decreases: list[float] = []
        self._open_swaps: Swaps
        self._looked_at: Solution[Partition] | None = None

    def result(self, wanted: str) -> Polished:
        """Return the last run and the record."""
        record = Polish(
            level=self._level,
            tied=self._tied,
            moves=self._moves,
            swaps=self._swaps,
            swaps_tried=self._tried,
            iterations=self._iterations,
            decrease=exact_sum(self._decreases),
            timed_out=self._level != wanted and self._late(),
        )
        return Polished(self._solution, record)

    def _late(self) -> bool:
        return perf_counter() >= self._deadline

    def _stationary(self) -> bool:
        return self._solution.vertex.moved == 0

    def _descend(self, partition: Partition) -> None:
        """Take Lloyd's steps from the partition, whose labels the workspace has."""
        time_left = self._deadline - perf_counter()
        self._solution = minimize_concave(
            self._problem,
            partition,
            stop="stationary",
            time_limit=None if math.isinf(time_left) else max(0.0, time_left),
        )
        records = list(self._solution.trace)[:-1]
        self._iterations += len(records)
        self._decreases += [record.decrease for record in records]

    def _become_stationary(self) -> None:
        """Take the remaining steps of the run, first the one that it has evaluated."""
        if self._stationary() or self._late():
            return
        vertex = self._solution.vertex
        self._decreases.append(self._solution.decrease)
        self._iterations += 1
        self._descend(replace(vertex, sse=self._workspace.cost(vertex.centers)))

    def settle(self) -> None:
        """Go to a stationary point where no single move gains."""
        self._level = None
        self._become_stationary()
        for _ in range(_MOST_ROUNDS):
            if self._late() or not self._stationary():
                return
            moved = hartigan(self._problem, self._solution.point, self._deadline)
            self._moves += moved.moves
            self._decreases.append(moved.decrease)
            self._tied = moved.tied
            before = self._iterations
            if moved.partition is not None:
                self._descend(moved.partition)
            # No step was taken from where no move is left.
            if moved.finished and self._stationary() and self._iterations == before:
                self._level = "hartigan"
                return

    def swap(self) -> None:
        """Exchange centers for data points until none is found that gains, single moves included.

        First for points drawn by their cost; when these no longer help, for all points, if that is
        affordable. Only this proves that no exchange gains. Single moves gain little and cost as
        much, so they wait until draws find nothing.
        """
        self._become_stationary()
        self._open_swaps = self._workspace.swaps()
        while True:
            while self._exchange_drawn():
                pass
            before = self._solution
            self.settle()
            if self._level is None:
                return
            if self._solution is not before and self._exchange_drawn():
                continue
            if not self._exchange_any():
                return

    def _exchange_drawn(self) -> bool:
        """Try points that are drawn with probabilities proportional to their cost."""
        swaps = self._swaps_here()
        if swaps is None:
            return False
        masses = swaps.nearest
        if self._workspace.weights is not None:
            masses = self._workspace.weights * masses
        n_draws = max(_FEWEST_DRAWS, _DRAWS_PER_CENTER * len(self._solution.point.centers))
        return self._exchange(swaps, draw_rows(self._workspace, masses, self._random(), n_draws))

    def _exchange_any(self) -> bool:
        """Try all points if there are not too many; the level is reached if none of them gains."""
        swaps = self._swaps_here()
        if swaps is not None:
            rows = self._all_rows()
            if rows is None:
                return False
            if self._exchange(swaps, rows):
                return True
        if not self._late():
            self._level = "swap"
        return False

    def _swaps_here(self) -> Swaps | None:
        """Return swaps at the current centers; None if there is nothing to try.

        That is: time ran out, a single center is the mean of all points, or every point lies on its
        center.
        """
        if self._late() or not self._stationary() or len(self._solution.point.centers) == 1:
            return None
        if self._looked_at is not self._solution:
            self._open_swaps.look(self._solution.point.centers)
            self._looked_at = self._solution
        return self._open_swaps if self._open_swaps.cost > 0.0 else None

    def _exchange(self, swaps: Swaps, rows: NDArray[np.int64]) -> bool:
        """Exchange a center for one of the rows if that gains, and descend; whether it did.

        The rows are tried some at a time, and the best of the first that gain is taken.
        """
        centers = self._solution.point.centers
        d = self._workspace.n_features
        # Each of the two costs is off by (d + 3) u of itself, a sparse one by some more.
        bound = 2.0 * UNIT * (d + 8) * swaps.cost
        mass = float(self._solution.point.weights.sum())
        bound += 2.0 * mass * self._workspace.distance_error(centers)
        for some in self._portions(rows):
            if self._late():
                return False
            removals, changes = swaps.changes(some)
            self._tried += len(some)
            best = int(np.argmin(changes))
            if changes[best] < -bound:
                self._take(centers, int(removals[best]), int(some[best]), float(changes[best]))
                return True
        return False

    def _portions(self, rows: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        coordinates = self._workspace.n_points * self._workspace.n_features
        size = max(8, min(32, _COORDINATES_AT_ONCE // coordinates // 8 * 8))
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    def _take(self, centers: Centers, removal: int, row: int, change: float) -> None:
        self._swaps += 1
        self._level = None
        new = centers.copy()
        new[removal] = self._workspace.rows(np.array([row]))[0]
        first = self._problem.partition(new)
        self._decreases += [-change, first.movement]
        self._iterations += 1
        self._descend(first)

    def _all_rows(self) -> NDArray[np.int64] | None:
        """Return one row of each value that has weight, in order; None if there are too many."""
        workspace = self._workspace
        n = workspace.n_points
        if n * n * workspace.n_features > _MOST_COORDINATES:
            return None
        order = workspace.order()
        if workspace.weights is not None:
            order = order[workspace.weights[order] > 0]
        sorted_rows = workspace.rows(order)
        new = np.ones(len(order), dtype=bool)
        new[1:] = (sorted_rows[1:] != sorted_rows[:-1]).any(axis=1)
        return np.sort(order[new])
