"""Worst cases and counts of some replications, which can be merged in any order.

Maxima, counts and exact sums do not depend on how replications were put together, so neither do
the bytes of a result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.study.mixtures import MIXTURES, centers
from wolfmeans.study.results import GAPS, ScenarioResult
from wolfmeans.study.runs import Runs
from wolfmeans.study.scenarios import Scenario

Floats = NDArray[np.float64]

_THEOREM = ("gap", "decrease")
"""What the theorem speaks of."""
_REPLICATIONS_LOOKED_AT = 200
_SMALLEST = 1074  # every float64 is a multiple of 2**-1074


def _no_gaps() -> dict[str, Floats]:
    return {name: np.empty(0) for name in GAPS}


@dataclass
class Tally:
    """What is known of some replications together."""

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
        """How many runs are in here."""
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
        """Take in the runs of another tally."""
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
        """Return what a file can hold."""
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
        """Return the result of a scenario, all of whose replications are in here."""
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
    for replication in range(min(scenario.replications, _REPLICATIONS_LOOKED_AT)):
        places = centers(scenario.stream(replication), scenario.k, scenario.d)
        squares = ((places[:, None, :] - places[None, :, :]) ** 2).sum(axis=2)
        np.fill_diagonal(squares, np.inf)
        nearest.append(np.sqrt(squares.min(axis=1)))
    return float(np.median(np.concatenate(nearest)))
