"""What a finished scenario leaves behind: a small file of worst cases and counts.

Its bytes depend on the scenario and its seed alone, not on who worked it off and in which order.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from wolfmeans.core.choices import GAPS as GAPS
from wolfmeans.files.atomic import written_whole
from wolfmeans.study.scenarios import Scenario
from wolfmeans.study.statistics import Regression, log_log_line

FORMAT, VERSION = "wolfmeans-study", 1


@dataclass(frozen=True)
class ScenarioResult:
    """Worst cases and counts over all replications of a scenario."""

    scenario: Scenario
    """What was run."""
    worst: Mapping[str, tuple[float, ...]]
    """For each of `GAPS` the largest gap at t = 0, 1, ...; the last one is positive."""
    worst_minimum: Mapping[str, tuple[float, ...]]
    """The same for the smallest gap up to t; a finished run's is 0."""
    iterations: Mapping[int, int]
    """How many runs took so many Frank-Wolfe steps, the one that changed no label included."""
    empty_runs: int
    """Runs in which a cluster was empty at some step."""
    scatter_max: float
    """The largest sum of squares about the mean, (n - 1) tr S_n."""
    scatter_mean: float
    """Its mean over the replications."""
    worst_ratio: Mapping[str, float]
    """For `gap` and `decrease`: the largest (t + 1) min over s <= t of g_s / SSE_0, over all runs
    and t. The theorem says at most 1."""
    separation: Mapping[str, float | None]
    """`median_nearest`: the median distance of a true center to the nearest other one, in units of
    the standard deviation; None where there are no such centers."""

    @property
    def bound_intercept(self) -> float:
        """The theoretical line's value at log(t + 1) = 0: the log of the largest scatter."""
        return math.log(self.scatter_max) if self.scatter_max > 0.0 else -math.inf

    def regression(self, gap: str) -> Regression:
        """Return the line through the worst-case gaps of that name."""
        if gap not in GAPS:
            raise ValueError(f"gap must be one of {', '.join(map(repr, GAPS))}; got {gap!r}")
        return log_log_line(self.worst[gap])

    def to_dict(self) -> dict[str, Any]:
        """Return the contents of the file."""
        contents = {field.name: getattr(self, field.name) for field in fields(self)}
        contents["scenario"] = self.scenario.to_dict()
        return {"format": FORMAT, "version": VERSION, **contents}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file, whole or not at all."""
        with written_whole(path) as file:
            file.write((json.dumps(self.to_dict(), indent=1) + "\n").encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ScenarioResult:
        """Read a file that `save` has written."""
        contents = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(contents, dict) or contents.get("format") != FORMAT:
            raise ValueError(f"{path} is not a result of a wolfmeans study")
        if contents.get("version") != VERSION:
            raise ValueError(
                f"{path} has version {contents.get('version')}; this wolfmeans reads {VERSION}"
            )
        return cls(
            scenario=Scenario.from_dict(contents["scenario"]),
            worst={name: tuple(values) for name, values in contents["worst"].items()},
            worst_minimum={
                name: tuple(values) for name, values in contents["worst_minimum"].items()
            },
            iterations={int(steps): runs for steps, runs in contents["iterations"].items()},
            empty_runs=contents["empty_runs"],
            scatter_max=contents["scatter_max"],
            scatter_mean=contents["scatter_mean"],
            worst_ratio=contents["worst_ratio"],
            separation=contents["separation"],
        )
