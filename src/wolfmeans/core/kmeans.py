"""The sum of squared errors as a concave problem over an engine.

f(w) = min over centers C of sum_ik w_i w_ik ||x_i - c_k||^2 is a minimum of linear functions of the
partition w, hence concave. A supergradient at w is a set of centers: the means of its clusters,
and any point for an empty one. The oracle assigns each point to its nearest center.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.draws import RandomSource
from wolfmeans.core.empty_clusters import CANDIDATES, admissible_assignment, best_candidate, refill
from wolfmeans.core.frank_wolfe import ConcaveProblem, State
from wolfmeans.core.solution import Record, Solution, Status
from wolfmeans.core.stopping import StoppingRule, tolerances_of
from wolfmeans.core.workspace import (
    Arrival,
    Assignment,
    Centers,
    Distances,
    Limits,
    Progress,
    Workspace,
)
from wolfmeans.exact.distances import UNIT
from wolfmeans.exact.sums import exact_sum

# Long enough for many steps of a small problem, short enough for Ctrl-C and the deadline.
_SECONDS_AT_ONCE = 0.02
_STEPS_TOGETHER = 1024


@dataclass(frozen=True)
class Partition:
    """A vertex of the polytope: its labels live in the workspace, its moments here."""

    centers: Centers
    """(K, d) the supergradient at this partition: means, and chosen points where it is empty."""
    residuals: NDArray[np.float64]
    """(K, d) exact mean minus center; 0 where the cluster is empty."""
    weights: NDArray[np.float64]
    """(K,) total weight of each cluster."""
    shift: float
    """Sum of squared shifts of the non-empty clusters' centers on arrival here."""
    movement: float
    """What moving the centers here gained on arrival."""
    gap: float
    """The gap of the partition before, at whose centers this one was found."""
    moved: int
    """Number of points whose label changed on arrival."""
    sse: float = math.nan
    """f here, for a first partition."""

    @property
    def empty(self) -> NDArray[np.bool_]:
        """(K,) whether the cluster has no weight."""
        return np.equal(self.weights, 0.0)

    @property
    def whole(self) -> bool:
        """Whether every cluster has weight."""
        return bool(self.weights.all())


class KMeansProblem(ConcaveProblem[Partition]):
    """K-means on the points of a workspace.

    Parameters
    ----------
    workspace : Workspace
        The points, opened by an engine.
    empty : {"farthest", "keep", "resample", "best", "admissible"}
        How the center of an empty cluster is chosen.
    random : RandomSource
        Where `resample` gets its generator.
    """

    steps_per_block = 64
    unit = 1.0
    """What a squared distance counts; a power of two."""
    cost = "squared distances"
    """What the value is a sum of."""

    def __init__(self, workspace: Workspace, empty: str, random: RandomSource) -> None:
        self.workspace = workspace
        self._empty = empty
        self._random = random
        self._forced = False
        self._filling = False
        self._begun = 0.0
        self._ahead: tuple[Partition, Progress] | None = None

    @property
    def empty(self) -> str:
        """The policy in force: `admissible` gives way to `farthest` while clusters are filled."""
        return "farthest" if self._filling and self._empty == "admissible" else self._empty

    @property
    def masses(self) -> NDArray[np.float64] | None:
        """(n,) what each point weighs in the partition of the workspace; None for ones."""
        return self.workspace.weights

    def trimmed_mass(self) -> float:
        """Return the weight that is left out: none here."""
        return 0.0

    def kept_mass(self) -> float | None:
        """Return the weight that every partition has to keep; None for all of it."""
        return None

    def size_range(self) -> tuple[float, float] | None:
        """Return between what the weight of every cluster is; None for anything."""
        return None

    def smallest_mass(self) -> float:
        """Return a positive number that no cluster in use weighs less than."""
        return self.workspace.lightest()

    def partition(self, seeds: Centers) -> Partition:
        """Return the first partition w_0: each point to its nearest seed."""
        first = self.minimize_linear(seeds)
        return replace(first, sse=self.inertia(first.centers))

    def inertia(self, centers: Centers) -> float:
        """Return the cost of the labels of the workspace at these centers."""
        return self.unit * self.workspace.cost(centers)

    def value(self, point: Partition) -> float:
        """Return f at a first partition; later values follow by the ledger."""
        return point.sse

    def lower_bound(self) -> float:
        """Return 0, the paper's bound; better ones enter the certificate."""
        return 0.0

    def supergradient(self, point: Partition) -> Centers:
        """Return the centers of the point, those of empty clusters chosen by the policy."""
        if self.empty == "keep" or not point.empty.any():
            return point.centers
        return refill(
            self.empty, self.workspace, point.centers, point.empty, self._random, self.masses
        )

    def minimize_linear(self, supergradient: Centers) -> Partition:
        """Assign each point to its nearest center; the labels in the workspace become these."""
        forced = None
        if self.empty == "admissible":
            forced = admissible_assignment(self.workspace, supergradient)
        self._forced = forced is not None
        return self._arrival(self.workspace.assign(supergradient, forced), supergradient)

    def _arrival(self, found: Assignment, supergradient: Centers) -> Partition:
        """Return the partition that an assignment made, with its centers."""
        shift, movement = self.workspace.step(found, supergradient)
        return Partition(
            centers=found.means,
            residuals=found.residuals,
            weights=found.weights,
            shift=shift,
            movement=movement,
            gap=found.gap,
            moved=found.moved,
        )

    def gap(self, point: Partition, vertex: Partition, supergradient: Centers) -> float:
        """Return the gap that the workspace summed over the moved points."""
        return vertex.gap

    def fingerprint(self, point: Partition) -> bytes:
        """Return bytes that identify the means and weights; these determine all later steps."""
        return self.workspace.digest(point.centers) + point.weights.tobytes()

    def evaluate(self, state: State[Partition]) -> Record:
        """Assign the points to the partition's centers and measure the step."""
        point = state.point
        centers = self.supergradient(point)
        vertex = self.minimize_linear(centers)
        state.point = replace(point, centers=centers)
        state.vertex = vertex
        state.vertex_value = max(0.0, state.value - vertex.gap - vertex.movement)
        return Record(
            t=state.t,
            value=state.value,
            gap=vertex.gap,
            movement=vertex.movement,
            stationary=vertex.moved == 0,
            moved=vertex.moved,
            empty=int(point.empty.sum()),
            shift=point.shift,
            seconds=perf_counter() - state.started,
        )

    def advance(self, state: State[Partition], stop: StoppingRule, at_most: int) -> list[Record]:
        """Evaluate up to `at_most` points at once where engine and rule allow it, else one."""
        if state.vertex is not None:
            state.take_step()
        seconds = min(_SECONDS_AT_ONCE, state.deadline - perf_counter())
        limits = self.limits(state.point, stop, at_most, seconds)
        progress = None if limits is None else self._progress(state.point, limits)
        records = [self.evaluate(state)] if progress is None else self._follow(state, progress)
        state.met = stop.met(records[-1])
        return records

    def limits(
        self, point: Partition, stop: StoppingRule, at_most: int, seconds: float
    ) -> Limits | None:
        """Return where several steps at once must end; None when one at a time is asked for."""
        tolerances = tolerances_of(stop)
        keep = self.empty == "keep"
        if tolerances is None or self.empty == "admissible" or not (keep or point.whole):
            return None
        return Limits(at_most, seconds, keep_empty=keep, directions=False, **tolerances)

    def expect(self, point: Partition, progress: Progress) -> None:
        """Keep steps that were taken ahead, from this point."""
        self._ahead = (point, progress)
        self._begun = perf_counter()

    def _progress(self, point: Partition, limits: Limits) -> Progress | None:
        if self._ahead is not None and self._ahead[0] is point:
            progress = self._ahead[1]
            self._ahead = None
            return progress
        self._ahead = None
        self._begun = perf_counter()
        return self.workspace.advance(point.centers, point.weights, point.shift, limits)

    def _follow(self, state: State[Partition], progress: Progress) -> list[Record]:
        """Move the state to the end of steps that an engine took, and return their records."""
        records: list[Record] = []
        begun = self._begun - state.started
        value = state.value
        for moved, empty, gap, movement, shift, seconds in progress.evaluations.tolist():
            if records:
                value = max(0.0, value - records[-1].gap - records[-1].movement)
            records.append(
                Record(
                    t=state.t + len(records),
                    value=value,
                    gap=self.unit * gap,
                    movement=self.unit * movement,
                    stationary=moved == 0,
                    moved=int(moved),
                    empty=int(empty),
                    shift=shift,
                    seconds=begun + seconds,
                )
            )
        if progress.point is not None:
            state.point = self._at(progress.point)
        state.t, state.value = records[-1].t, value
        state.vertex = self._at(progress.vertex)
        state.vertex_value = max(0.0, value - records[-1].gap - records[-1].movement)
        self._forced = False
        return records

    def _at(self, arrival: Arrival) -> Partition:
        """Return a partition that an engine arrived at; its sums are of squared distances."""
        centers, residuals, weights, shift, movement, gap, moved = arrival
        of_step = self.unit * movement, self.unit * gap, moved
        return Partition(centers, residuals, weights, shift, *of_step)

    def acceptable(self, state: State[Partition]) -> bool:
        """Whether the labels at the returned centers leave no cluster empty that could be filled.

        An admissible assignment that had to force labels is not the nearest-center assignment that
        is returned; from there on `farthest` fills what the nearest centers leave empty.
        """
        if self._forced:
            self._filling = True
            return False
        if self.empty == "keep" or state.vertex is None or not state.vertex.empty.any():
            return True
        return self.workspace.cost(state.point.centers) == 0.0

    def audit(self, solution: Solution[Partition], inertia: float) -> Solution[Partition]:
        """Replace the ledger's f(w) by inertia + gap, both computed directly, if they agree."""
        recomputed = inertia + solution.gap
        # Each distance is off by (d + 3) u of itself, and a sparse one by some more, at most; every
        # step adds two sums of distances.
        sums = 4.0 * (len(solution.trace) + 1)
        largest = max(solution.trace[0].value, recomputed)
        slack = sums * UNIT * (self.workspace.n_features + 8) * largest
        mass = float(solution.point.weights.sum())
        slack += sums * mass * self.workspace.distance_error(solution.point.centers)
        if abs(recomputed - solution.value) > slack:
            return replace(solution, value=recomputed, status=Status.DESCENT_VIOLATED)
        return replace(solution, value=recomputed)

    def clarke_gap(self, solution: Solution[Partition]) -> float:
        """Return the gap with the columns of empty clusters ignored: the paper's g_C.

        It is the smallest gap over the limiting supergradients, which may put an empty cluster's
        center where no point prefers it. The labels of the workspace are those of the vertex, whose
        weights tell whether any point is nearest to such a center.
        """
        point = solution.point
        empty = point.empty
        # If no point of positive weight is nearest to these centers, the gap does not change.
        if not solution.vertex.weights[empty].any():
            return solution.gap
        losses = self.unit * self.workspace.losses_without(point.centers, empty)
        return exact_sum([solution.gap, *(-losses).tolist()])

    def candidate_decrease(self, solution: Solution[Partition]) -> float | None:
        """Return the largest guaranteed decrease found over candidates; None if none is empty.

        The labels of the workspace are nearest centers here, so their distances are the nearest.
        """
        if not solution.vertex.empty.any():
            return None
        centers = solution.point.centers
        found = self.workspace.best_candidate(centers, self.masses, CANDIDATES)
        if found is None:
            distances = self.workspace.distances(centers)
            found = best_candidate(self.workspace, distances, self.masses)
        return self.unit * found[1]

    def tied(self, point: Partition) -> bool:
        """Whether some point of positive weight may be tied between two centers.

        Two distances certainly differ if they do so by more than the rounding of the canonical
        sum and of the centers: a center off its mean by r changes ||x - c|| by at most r.
        """
        if len(point.centers) == 1:
            return False
        return not self._certainly_smaller(point, *self._near_ties(point, self._offset(point)))

    def _offset(self, point: Partition) -> float:
        """Return how far a center is from the exact mean at most."""
        return largest_residual(point.residuals)

    def _near_ties(self, point: Partition, slack: float) -> tuple[Distances, Distances]:
        """Return two distances of each point of positive weight that may be near a tie."""
        rows, nearest, second = self.workspace.near_ties(point.centers, slack)
        masses = self.masses
        if masses is not None:
            heavy = masses[rows] > 0
            nearest, second = nearest[heavy], second[heavy]
        return nearest, second

    def _certainly_smaller(self, point: Partition, nearest: Distances, second: Distances) -> bool:
        """Whether each of the first distances is certainly smaller than the other one."""
        error = self.workspace.distance_error(point.centers)
        slack, d = self._offset(point), self.workspace.n_features
        return bool(np.all(certainly_smaller(nearest, second, slack, d, error)))


def certainly_smaller(
    nearest: Distances, second: Distances, slack: float, n_features: int, error: float = 0.0
) -> NDArray[np.bool_]:
    """Whether each of the first squared distances is certainly smaller than the other one.

    A canonical distance is off by (d + 3) u of itself and by `error`; a center that is off its mean
    by r <= `slack` changes a distance, not squared, by at most r.
    """
    bound = rounding_of_distances(nearest, second, slack, n_features, error)
    apart: NDArray[np.bool_] = second - nearest > bound
    return apart


def rounding_of_distances(
    nearest: Distances, second: Distances, slack: float, n_features: int, error: float = 0.0
) -> Distances:
    """Return by how much the difference of two such squared distances may be off."""
    bound = 2.0 * UNIT * (n_features + 3) * (nearest + second)
    bound += 2.0 * error
    bound += 2.0 * slack * (np.sqrt(nearest) + np.sqrt(second) + slack)
    return bound


def largest_residual(residuals: NDArray[np.float64]) -> float:
    """Return how far a center is from the exact mean at most, given (K, d) residuals."""
    return float(np.sqrt((residuals**2).sum(axis=1).max()))


def look_ahead(
    problems: Sequence[KMeansProblem],
    firsts: Sequence[Partition],
    rules: Sequence[StoppingRule],
    max_steps: int | None,
    n_threads: int,
    seconds: float = math.inf,
) -> None:
    """Let the engine take the steps of several runs at once, spread over threads.

    Each problem keeps what was found and hands it out when its loop asks for these steps. Where
    the engine or a rule does not allow it, nothing happens here and the loops take their steps.
    No step is taken later than `seconds` from now.
    """
    starts, limits = [], []
    for problem, first, rule in zip(problems, firsts, rules, strict=True):
        # Longer blocks than the loop would ask for: no callback runs between these steps.
        problem.steps_per_block = _STEPS_TOGETHER
        limit = rule.guarantee(first.sse, problem.lower_bound()) if max_steps is None else max_steps
        at_most = _STEPS_TOGETHER if limit is None else max(1, min(_STEPS_TOGETHER, limit))
        found = problem.limits(first, rule, at_most, seconds)
        if found is None:
            return
        starts.append((first.centers, first.weights, first.shift))
        limits.append(found)
    shortest = min(limit.at_most for limit in limits)
    limits = [replace(limit, at_most=shortest) for limit in limits]
    one, *others = [problem.workspace for problem in problems]
    progress = one.advance_with(others, starts, limits, n_threads)
    if progress is None:
        return
    for problem, first, ahead in zip(problems, firsts, progress, strict=True):
        problem.expect(first, ahead)
