"""The results in a folder: read, put in order and grouped for tables, figures and page."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from wolfmeans.core.choices import MIXTURES as MIXTURES
from wolfmeans.study import printed
from wolfmeans.study.results import ScenarioResult

SEGMENTATION = ("segmentation-standardized", "segmentation-raw", "segmentation-shifted")
FILE = "file:"


class Setting(NamedTuple):
    """Everything about a scenario but its random numbers: repeats share it."""

    data: str
    n: int
    d: int
    k: int
    seeding: str
    empty: str
    alpha: float
    replications: int


def setting(result: ScenarioResult) -> Setting:
    """Return the setting of a result."""
    scenario = result.scenario
    return Setting(*(getattr(scenario, field) for field in Setting._fields))


def data_label(data: str) -> str:
    """Return what people call the data: "segmentation, standardized", "my-file"."""
    if data.startswith(FILE):
        return data.removeprefix(FILE)
    return data.replace("segmentation-", "segmentation, ")


def follows_protocol(result: ScenarioResult) -> bool:
    """Tell whether seeds, empty clusters and trimming are those of the paper."""
    scenario = result.scenario
    return (scenario.seeding, scenario.empty, scenario.alpha) == ("random", "keep", 0.0)


def _rank(result: ScenarioResult) -> tuple[object, ...]:
    """Order as in the paper: the grid by d, n and K, then segmentation, then what is beyond."""
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
        """Put results in order; a scenario that is there twice counts once."""
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
        """Return one result a setting: the first repeat, with the most replications there are."""
        found: dict[Setting, ScenarioResult] = {}
        for result in self.results:  # the most replications come first
            found.setdefault(setting(result)._replace(replications=0), result)
        return list(found.values())

    def repeats(self) -> list[list[ScenarioResult]]:
        """Return the results of each setting, one list a setting."""
        groups: dict[Setting, list[ScenarioResult]] = {}
        for result in self.results:
            groups.setdefault(setting(result), []).append(result)
        return list(groups.values())

    def grid(self) -> list[ScenarioResult]:
        """Return the first repeats of the scenarios that have a row in the paper's tables."""
        return [
            result
            for result in self.firsts()
            if (scenario := result.scenario).data == "blobs"
            and follows_protocol(result)
            and printed.row(scenario.n, scenario.d, scenario.k)
        ]

    def segmentation(self) -> list[ScenarioResult]:
        """Return the first repeats on the image segmentation data, as the paper seeds them."""
        return [
            result
            for result in self.firsts()
            if result.scenario.data in SEGMENTATION and follows_protocol(result)
        ]

    def beyond(self) -> list[ScenarioResult]:
        """Return the first repeats that the paper has no table or figure of."""
        shown = {id(result) for result in (*self.grid(), *self.segmentation())}
        return [result for result in self.firsts() if id(result) not in shown]


def _load(path: Path) -> ScenarioResult:
    try:
        return ScenarioResult.load(path)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is not the result of a study: {error!r}") from error


def by_dimension(results: Sequence[ScenarioResult]) -> dict[int, list[ScenarioResult]]:
    """Group results by d, one table of the paper each."""
    groups: dict[int, list[ScenarioResult]] = {}
    for result in results:
        groups.setdefault(result.scenario.d, []).append(result)
    return dict(sorted(groups.items()))
