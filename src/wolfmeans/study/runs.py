"""Runs of K-means to the fixed point, the three gaps of their steps, and tallies of many runs.

Small problems go through the engine's fused steps in one native call; large ones, other policies
for empty clusters and trimmed K-means through the ordinary loop. The records are the same.

Tallies can be merged in any order: maxima, counts and exact sums do not depend on how replications
were put together, so neither do the bytes of a result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.engines import Workspace, get_engine
from wolfmeans.engines.native import run_to_rest, scatter
from wolfmeans.exact.native import native_is_available
from wolfmeans.fitting.fit import Start, prepare
from wolfmeans.seeding.methods import METHODS
from wolfmeans.study.mixtures import MIXTURES, centers
from wolfmeans.study.results import GAPS, ScenarioResult
from wolfmeans.study.scenarios import Points, Scenario

Floats = NDArray[np.float64]

# Coordinates of data small enough for one thread and one call, which Ctrl-C has to wait for.
_SMALL = 1 << 18
_RUNS_AT_ONCE = 64
# Far more than any run takes; with exact arithmetic, no run returns to an earlier point.
_STEPS = 1_000_000
_THEOREM = ("gap", "decrease")
"""The gaps that the theorem is about."""
_REPLICATIONS_FOR_SEPARATION = 200
_SMALLEST = 1074  # every float64 is a multiple of 2**-1074


@dataclass(frozen=True)
class Runs:
    """Numbers of some runs. Rows are runs, columns are steps t, zero after the last one."""

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
        """Return the three kinds of gaps by name (wolfmeans.study.results.GAPS).

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
    return points, METHODS[scenario.seeding](workspace, scenario.k, _random_state(stream))


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
    start = Start(
        workspace, workspace.rows(rows), lambda: _random_state_during(scenario, replication)
    )
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

    def joined(name: str) -> NDArray[Any]:
        arrays = [getattr(run, name) for run in runs]
        if arrays[0].ndim == 2:
            arrays = [np.pad(rows, ((0, 0), (0, width - rows.shape[1]))) for rows in arrays]
        return np.concatenate(arrays)

    return Runs(**{one.name: joined(one.name) for one in fields(Runs)})


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


def _random_state(stream: np.random.Generator) -> np.random.RandomState:
    """Return a generator of the kind that seeding takes, on the same stream."""
    return np.random.RandomState(stream.bit_generator)


def _random_state_during(scenario: Scenario, replication: int) -> np.random.RandomState:
    """Return a stream for draws during a run, apart from that of its points and seeds."""
    return _random_state(scenario.stream(replication).spawn(1)[0])


# --- Tallies ---------------------------------------------------------------------------------


def _no_gaps() -> dict[str, Floats]:
    return {name: np.empty(0) for name in GAPS}


@dataclass
class Tally:
    """Worst cases and counts of some replications."""

    worst: dict[str, Floats] = field(default_factory=_no_gaps)
    worst_minimum: dict[str, Floats] = field(default_factory=_no_gaps)
    worst_ratio: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_THEOREM, 0.0))
    iterations: Counter[int] = field(default_factory=Counter)
    empty_runs: int = 0
    scatter_max: float = 0.0
    scatter_units: int = 0
    """The sum of the scatters, exactly, in units of the smallest float64."""

    @property
    def replications(self) -> int:
        """The number of runs."""
        return self.iterations.total()

    @classmethod
    def of(cls, runs: Runs) -> Tally:
        """Return the tally of some runs."""
        gaps = runs.gaps()
        minima = {name: np.minimum.accumulate(rows, axis=1) for name, rows in gaps.items()}
        return cls(
            worst={name: rows.max(axis=0) for name, rows in gaps.items()},
            worst_minimum={name: rows.max(axis=0) for name, rows in minima.items()},
            worst_ratio={name: _ratio(minima[name], runs.initial_sse) for name in _THEOREM},
            iterations=Counter(runs.steps.tolist()),
            empty_runs=int(runs.ever_empty.sum()),
            scatter_max=float(runs.scatter.max()),
            scatter_units=sum(map(_units, runs.scatter.tolist())),
        )

    def merge(self, other: Tally) -> None:
        """Add the runs of another tally."""
        for name in GAPS:
            self.worst[name] = _larger(self.worst[name], other.worst[name])
            self.worst_minimum[name] = _larger(self.worst_minimum[name], other.worst_minimum[name])
        for name in _THEOREM:
            self.worst_ratio[name] = max(self.worst_ratio[name], other.worst_ratio[name])
        self.iterations.update(other.iterations)
        self.empty_runs += other.empty_runs
        self.scatter_max = max(self.scatter_max, other.scatter_max)
        self.scatter_units += other.scatter_units

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of a file."""
        return {
            "worst": {name: gaps.tolist() for name, gaps in self.worst.items()},
            "worst_minimum": {name: gaps.tolist() for name, gaps in self.worst_minimum.items()},
            "worst_ratio": self.worst_ratio,
            "iterations": self.iterations,
            "empty_runs": self.empty_runs,
            "scatter_max": self.scatter_max,
            "scatter_units": hex(self.scatter_units),
        }

    @classmethod
    def from_dict(cls, contents: Mapping[str, Any]) -> Tally:
        """Return the tally that `to_dict` described."""
        return cls(
            worst={name: np.array(gaps) for name, gaps in contents["worst"].items()},
            worst_minimum={name: np.array(g) for name, g in contents["worst_minimum"].items()},
            worst_ratio=dict(contents["worst_ratio"]),
            iterations=Counter({int(t): runs for t, runs in contents["iterations"].items()}),
            empty_runs=contents["empty_runs"],
            scatter_max=contents["scatter_max"],
            scatter_units=int(contents["scatter_units"], 16),
        )

    def result(self, scenario: Scenario) -> ScenarioResult:
        """Return the result of a scenario; the tally must have all of its replications."""
        if self.replications != scenario.replications:
            raise ValueError(
                f"{scenario.name} has {scenario.replications} replications; "
                f"{self.replications} are here"
            )
        return ScenarioResult(
            scenario=scenario,
            worst={name: _to_last_positive(self.worst[name]) for name in GAPS},
            worst_minimum={name: _to_last_positive(self.worst_minimum[name]) for name in GAPS},
            iterations=dict(sorted(self.iterations.items())),
            empty_runs=self.empty_runs,
            scatter_max=self.scatter_max,
            scatter_mean=float(Fraction(self.scatter_units, self.replications << _SMALLEST)),
            worst_ratio=self.worst_ratio,
            separation={"median_nearest": median_nearest(scenario)},
        )


def _units(value: float) -> int:
    numerator, denominator = value.as_integer_ratio()
    return numerator << (_SMALLEST + 1 - denominator.bit_length())


def _ratio(minima: Floats, initial_sse: Floats) -> float:
    """Return the largest (t + 1) min g_s / SSE_0; runs that begin at SSE 0 have no gaps."""
    bounds = np.where(initial_sse > 0.0, initial_sse, 1.0)[:, None]
    return float((minima * np.arange(1.0, minima.shape[1] + 1.0) / bounds).max())


def _larger(a: Floats, b: Floats) -> Floats:
    """Return the elementwise maximum; a shorter one ends in zeros."""
    short, long = (a, b) if len(a) < len(b) else (b, a)
    larger = long.copy()
    np.maximum(larger[: len(short)], short, out=larger[: len(short)])
    return larger


def _to_last_positive(gaps: Floats) -> tuple[float, ...]:
    positive = np.flatnonzero(gaps > 0.0)
    return tuple(gaps[: positive[-1] + 1].tolist()) if len(positive) else ()


def median_nearest(scenario: Scenario) -> float | None:
    """Return the median distance of true centers to their nearest other one, None without them.

    Over the centers of the first replications; points have variance 1 about them.
    """
    if scenario.data not in MIXTURES or scenario.data == "uniform" or scenario.k == 1:
        return None
    nearest = []
    for replication in range(min(scenario.replications, _REPLICATIONS_FOR_SEPARATION)):
        places = centers(scenario.stream(replication), scenario.k, scenario.d)
        squares = ((places[:, None, :] - places[None, :, :]) ** 2).sum(axis=2)
        np.fill_diagonal(squares, np.inf)
        nearest.append(np.sqrt(squares.min(axis=1)))
    return float(np.median(np.concatenate(nearest)))
