"""Results of a study: the file of a finished scenario, and collections of them.

The bytes of a file depend on the scenario and its seed alone, not on the number of workers or the
order of their work.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from wolfmeans.core.choices import GAPS as GAPS
from wolfmeans.core.choices import MIXTURES as MIXTURES
from wolfmeans.files.atomic import written_whole
from wolfmeans.study import paper
from wolfmeans.study.scenarios import FILE, Scenario
from wolfmeans.study.statistics import Regression, log_log_line

Key = TypeVar("Key")
FORMAT, VERSION = "wolfmeans-study", 1
SEGMENTATION = ("segmentation-standardized", "segmentation-raw", "segmentation-shifted")


@dataclass(frozen=True)
class ScenarioResult:
    """Worst cases and counts over all replications of a scenario."""

    scenario: Scenario
    """The scenario that was run."""
    worst: Mapping[str, tuple[float, ...]]
    """For each of `GAPS` the largest gap at t = 0, 1, ...; the last one is positive."""
    worst_minimum: Mapping[str, tuple[float, ...]]
    """The same for the smallest gap up to t; a finished run's is 0."""
    iterations: Mapping[int, int]
    """Numbers of runs by numbers of Frank-Wolfe steps, including the step that changed no label."""
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
            worst={gap: tuple(contents["worst"][gap]) for gap in GAPS},
            worst_minimum={gap: tuple(contents["worst_minimum"][gap]) for gap in GAPS},
            iterations={int(steps): runs for steps, runs in contents["iterations"].items()},
            empty_runs=contents["empty_runs"],
            scatter_max=contents["scatter_max"],
            scatter_mean=contents["scatter_mean"],
            worst_ratio=contents["worst_ratio"],
            separation=contents["separation"],
        )


# --- Collections -----------------------------------------------------------------------------


def grouped(
    results: Iterable[ScenarioResult], key: Callable[[ScenarioResult], Key]
) -> dict[Key, list[ScenarioResult]]:
    """Return the results of each key, in their order."""
    groups: dict[Key, list[ScenarioResult]] = {}
    for result in results:
        groups.setdefault(key(result), []).append(result)
    return groups


def data_label(data: str) -> str:
    """Return the name of the data for readers: "segmentation, standardized", "my-file"."""
    if data.startswith(FILE):
        return data.removeprefix(FILE)
    return data.replace("segmentation-", "segmentation, ")


def segmentation_columns(result: ScenarioResult) -> str:
    """Return which columns of the image segmentation data were used: "standardized", "raw", ..."""
    return result.scenario.data.partition("-")[2]


def follows_protocol(result: ScenarioResult) -> bool:
    """Whether seeds, empty clusters and trimming are those of the paper."""
    scenario = result.scenario
    return (scenario.seeding, scenario.empty, scenario.alpha) == ("random", "keep", 0.0)


def _rank(result: ScenarioResult) -> tuple[object, ...]:
    """Order as in the paper: the grid by d, n and K, then segmentation, then everything else."""
    scenario = result.scenario
    known = (*MIXTURES[:1], *SEGMENTATION, *MIXTURES[1:])
    place = known.index(scenario.data) if scenario.data in known else len(known)
    return (
        *(not follows_protocol(result), place, scenario.data),
        *(scenario.seeding, scenario.empty, scenario.alpha),
        *(scenario.d, scenario.n, scenario.k, -scenario.replications),
        *(scenario.repeat, scenario.seed, scenario.name),
    )


@dataclass(frozen=True)
class Collection:
    """The results of a study in the order in which they are shown."""

    results: tuple[ScenarioResult, ...]

    @classmethod
    def of(cls, results: Iterable[ScenarioResult]) -> Collection:
        """Sort results; a scenario that occurs twice counts once."""
        once = {result.scenario: result for result in results}
        return cls(tuple(sorted(once.values(), key=_rank)))

    @classmethod
    def load(cls, *directories: str | os.PathLike[str]) -> Collection:
        """Read every finished scenario in the folders `scenarios` of some studies."""
        results = []
        for directory in directories:
            folder = Path(directory) / "scenarios"
            if not folder.is_dir():
                raise FileNotFoundError(f"{directory} holds no study: no such folder: {folder}")
            found = [_load(path) for path in sorted(folder.glob("*.json"))]
            if not found:
                raise ValueError(f"no scenario is finished in {folder}")
            results += found
        return cls.of(results)

    def firsts(self) -> list[ScenarioResult]:
        """Return one result per setting: the first repeat with the most replications."""
        settings = grouped(
            self.results, lambda r: replace(r.scenario, seed=0, repeat=0, replications=1)
        )
        return [results[0] for results in settings.values()]  # the most replications come first

    def repeats(self) -> list[list[ScenarioResult]]:
        """Return the results that differ in their random numbers alone, one list a setting."""
        return list(grouped(self.results, lambda r: replace(r.scenario, seed=0, repeat=0)).values())

    def grid(self) -> list[ScenarioResult]:
        """Return the first repeats of the scenarios that have a row in the paper's tables."""
        return [
            result
            for result in self.firsts()
            if (scenario := result.scenario).data == "blobs"
            and follows_protocol(result)
            and paper.printed_row(scenario.n, scenario.d, scenario.k)
        ]

    def segmentation(self) -> list[ScenarioResult]:
        """Return the first repeats on the image segmentation data, as the paper seeds them."""
        return [
            result
            for result in self.firsts()
            if result.scenario.data in SEGMENTATION and follows_protocol(result)
        ]

    def beyond(self) -> list[ScenarioResult]:
        """Return the first repeats that are in no table or figure of the paper."""
        shown = {id(result) for result in (*self.grid(), *self.segmentation())}
        return [result for result in self.firsts() if id(result) not in shown]


def _load(path: Path) -> ScenarioResult:
    try:
        return ScenarioResult.load(path)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not the result of a study: {error!r}") from error
