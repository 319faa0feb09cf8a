"""Runs of K-means to the fixed point, many at once, and the three gaps of their steps.

Small problems go through the engine's fused steps in one native call; large ones, other policies
for empty clusters and trimmed K-means through the ordinary loop. The records are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.engines import Workspace, get_engine
from wolfmeans.engines.native import run_to_rest, scatter
from wolfmeans.exact.native import native_is_available
from wolfmeans.fitting.fit import Start, prepare
from wolfmeans.seeding.methods import METHODS
from wolfmeans.study.mixtures import MIXTURES
from wolfmeans.study.scenarios import Points, Scenario

Floats = NDArray[np.float64]

# Coordinates of data small enough for one thread and one call, which Ctrl-C has to wait for.
_SMALL = 1 << 18
_RUNS_AT_ONCE = 64
# Far more than any run takes; exact arithmetic does not run in circles.
_STEPS = 1_000_000


@dataclass(frozen=True)
class Runs:
    """What is kept of some runs. Rows are runs, columns are steps t, zero after the last one."""

    gap: Floats
    """(runs, T) the Frank-Wolfe gap g_t."""
    movement: Floats
    """(runs, T) the gain m_t beyond the gap."""
    first_movement: Floats
    """(runs,) what moving from the seeds to the first means gained: m_{-1}."""
    initial_sse: Floats
    """(runs,) f of the first partition."""
    scatter: Floats
    """(runs,) the sum of squares about the mean."""
    steps: NDArray[np.int64]
    """(runs,) Frank-Wolfe steps, the one that changed no label included."""
    ever_empty: NDArray[np.bool_]
    """(runs,) whether a cluster was empty at some step."""

    def gaps(self) -> dict[str, Floats]:
        """Return all that is called a gap, by name (wolfmeans.study.results.GAPS).

        The inertia drops by m_{t-1} when the centers move to those of w_t and by g_t when the
        points go to the nearest of them, so no differences of inertias are needed.
        """
        before = np.column_stack([self.first_movement, self.movement[:, :-1]])
        return {
            "published": before + self.gap,
            "decrease": self.gap + self.movement,
            "gap": self.gap,
        }


def is_small(scenario: Scenario) -> bool:
    """Whether a run is too small to be worth more than one thread."""
    return scenario.n * scenario.d <= _SMALL


def in_blocks(scenario: Scenario, replications: range) -> Iterable[range]:
    """Cut replications into blocks for `perform`, small enough to fit into a cache."""
    together = _SMALL // (scenario.n * scenario.d)
    step = max(1, min(together, _RUNS_AT_ONCE))
    for begin in range(replications.start, replications.stop, step):
        yield range(begin, min(begin + step, replications.stop))


def perform(scenario: Scenario, replications: Sequence[int], n_threads: int = 1) -> Runs:
    """Draw the points and seeds of some replications and run K-means on them.

    Examples
    --------
    >>> runs = perform(Scenario("blobs", n=60, d=2, k=3), range(4))
    >>> bool((runs.gaps()["gap"] <= runs.gaps()["decrease"]).all())
    True
    """
    plain = scenario.empty == "keep" and scenario.alpha == 0.0
    if plain and is_small(scenario) and native_is_available():
        return _together(scenario, replications)
    return _gathered([_alone(scenario, r, n_threads) for r in replications])


def draw(
    scenario: Scenario, replication: int, out: Points | None = None
) -> tuple[Points, NDArray[np.int64]]:
    """Return the points of a replication and the rows that are its seeds."""
    stream = scenario.stream(replication)
    points = scenario.points
    if points is None:
        points = np.empty((scenario.n, scenario.d)) if out is None else out
        mixture = MIXTURES.get(scenario.data)
        if mixture is None:
            raise ValueError(f"the points of {scenario.data!r} are not there; make it anew")
        mixture(stream, scenario.k, points)
    if scenario.seeding == "random":
        return points, stream.choice(scenario.n, scenario.k, replace=False)
    workspace = _opened(points, 1)
    return points, METHODS[scenario.seeding](workspace, scenario.k, _legacy(stream))


def _together(scenario: Scenario, replications: Sequence[int]) -> Runs:
    fixed = scenario.points
    shape = (1 if fixed is not None else len(replications), scenario.n, scenario.d)
    X = np.empty(shape) if fixed is None else fixed.reshape(shape)
    seeds = np.empty((len(replications), scenario.k), dtype=np.int64)
    for place, replication in enumerate(replications):
        seeds[place] = draw(scenario, replication, None if fixed is not None else X[place])[1]
    starts, steps, table = run_to_rest(X, seeds, _STEPS)
    ends = np.cumsum(steps)
    if table[ends - 1, 0].any():
        raise RuntimeError(f"a run of {scenario.name} did not end within {_STEPS} steps")
    inside = np.arange(steps.max()) < steps[:, None]
    gap, movement = np.zeros(inside.shape), np.zeros(inside.shape)
    gap[inside], movement[inside] = table[:, 2], table[:, 3]
    empty = np.add.reduceat(table[:, 1], ends - steps) > 0
    spread = np.array([scatter(one) for one in X])
    return Runs(
        gap,
        movement,
        starts[:, 0],
        starts[:, 1],
        np.broadcast_to(spread, len(replications)),
        steps,
        empty,
    )


def _alone(scenario: Scenario, replication: int, n_threads: int) -> Runs:
    """One run through the ordinary loop."""
    points, rows = draw(scenario, replication)
    workspace, kind = _problem(scenario, points, n_threads)
    start = Start(workspace, workspace.rows(rows), lambda: _later(scenario, replication))
    prepared = prepare(
        start, stop="stationary", tol=0.0, tol_scale="absolute", empty=scenario.empty, **kind
    )
    solution = prepared.finish(max_steps=None).solution
    if not solution.converged:
        raise RuntimeError(f"replication {replication} of {scenario.name}: {solution.status}")
    trace = solution.trace
    return Runs(
        gap=trace.gap[None],
        movement=trace.movement[None],
        first_movement=np.array([prepared.first.movement]),
        initial_sse=np.array([prepared.first.sse]),
        scatter=np.array([workspace.scatter(weighted=False)]),
        steps=np.array([len(trace)]),
        ever_empty=np.array([trace.empty.any()]),
    )


def _gathered(runs: Sequence[Runs]) -> Runs:
    """Put single runs into one table."""
    width = max(run.gap.shape[1] for run in runs)

    def padded(rows: Floats) -> Floats:
        return np.pad(rows, ((0, 0), (0, width - rows.shape[1])))

    return Runs(
        gap=np.concatenate([padded(run.gap) for run in runs]),
        movement=np.concatenate([padded(run.movement) for run in runs]),
        first_movement=np.concatenate([run.first_movement for run in runs]),
        initial_sse=np.concatenate([run.initial_sse for run in runs]),
        scatter=np.concatenate([run.scatter for run in runs]),
        steps=np.concatenate([run.steps for run in runs]),
        ever_empty=np.concatenate([run.ever_empty for run in runs]),
    )


def _problem(
    scenario: Scenario, points: Points, n_threads: int
) -> tuple[Workspace, dict[str, Any]]:
    """Open the points for K-means or, with alpha > 0, for trimmed K-means."""
    if scenario.alpha == 0.0:
        return _opened(points, n_threads), {}
    trimmed = import_module("wolfmeans.core.trimmed")
    engine: Any = get_engine()
    mass = trimmed.kept_mass(trimmed.share_of(scenario.alpha), None, scenario.n)
    return engine.open(points, None, n_threads).trimmed(mass), {"kind": trimmed.TrimmedProblem}


def _opened(points: Points, n_threads: int) -> Workspace:
    return get_engine().open(points, None, n_threads)


def _legacy(stream: np.random.Generator) -> np.random.RandomState:
    """The kind of generator that seeding takes, on the same stream."""
    return np.random.RandomState(stream.bit_generator)


def _later(scenario: Scenario, replication: int) -> np.random.RandomState:
    """A stream for what a run draws on its way, apart from that of its points and seeds."""
    return _legacy(scenario.stream(replication).spawn(1)[0])
