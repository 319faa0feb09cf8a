"""What gpu.py finds: records that go to a file as JSON and come back from it, and the targets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, Self

from wolfmeans.bench.problems import Shape

OURS, PLAIN = "wolfmeans", "PyTorch"
# The two that set the pace; plain PyTorch stands beside them.
PEERS = ("flashlib", "flash-kmeans")
TARGET_EACH = 1.0
TARGET_MEAN = {"steps": 2.0, "fits": 3.0}


@dataclass(frozen=True)
class Verdict:
    """Labels held against the canonical distances to the centers they were made with."""

    checked: int
    """How many labels, of rows spread evenly over all."""
    wrong: int
    """Another center is nearer: strictly, in float64."""
    other: int
    """Not the lowest index among the nearest centers; wrong ones are among these."""

    @property
    def rate(self) -> float:
        return self.wrong / self.checked

    def better(self, than: Verdict | None) -> Verdict:
        return self if than is None or self.wrong <= than.wrong else than


@dataclass(frozen=True)
class Outcome:
    """One contender in one cell."""

    iterations: int
    seconds: list[float]
    """By the wall clock, from a synchronized device to a synchronized device; every repeat."""
    device_seconds: list[float]
    """Between two CUDA events around the same calls; empty without a device."""
    verdict: Verdict
    """Of the labels and the centers that assigned them."""
    returned: Verdict
    """Of the labels and the centers that were returned together."""
    excess: float | None
    """Relative excess of the inertia at the returned centers over that of wolfmeans."""

    @property
    def wall(self) -> float:
        return median(self.seconds)

    @property
    def device(self) -> float | None:
        return median(self.device_seconds) if self.device_seconds else None

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Self:
        judged = {name: Verdict(**stored[name]) for name in ("verdict", "returned")}
        return cls(**{**stored, **judged})


@dataclass(frozen=True)
class Equality:
    """The same fit by engine="gpu" and engine="cpu", compared by ==."""

    iterations: int
    equal: bool
    differing: list[str]
    """Which of centers, labels, inertia and n_iter differ."""
    cpu_seconds: float


def _equality_of(stored: Any) -> Any:
    return Equality(**stored) if isinstance(stored, dict) else stored


@dataclass(frozen=True)
class Cell:
    """All contenders on one problem; one that failed has a reason in place."""

    part: str
    """"steps": a fixed number of iterations; "fits": until no label changes."""
    data: str
    shape: Shape
    asked: int
    """The number of iterations, for fits the largest allowed."""
    fixpoint: bool
    """Whether wolfmeans ended because no label changed."""
    outcomes: dict[str, Outcome | str]
    equality: Equality | str | None = None
    """Why not, where it is a text; None where another cell of the same data has it."""

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Self:
        outcomes = {
            title: one if isinstance(one, str) else Outcome.of(one)
            for title, one in stored["outcomes"].items()
        }
        equality = _equality_of(stored["equality"])
        shape = Shape(**stored["shape"])
        kept = {name: stored[name] for name in ("part", "data", "asked", "fixpoint")}
        return cls(**kept, shape=shape, outcomes=outcomes, equality=equality)

    def finished(self, title: str) -> Outcome | None:
        outcome = self.outcomes.get(title)
        return outcome if isinstance(outcome, Outcome) else None

    def ratio(self, title: str) -> float | None:
        """Return how many times longer another takes than wolfmeans; None where one is missing."""
        ours, other = self.finished(OURS), self.finished(title)
        return None if ours is None or other is None else other.wall / ours.wall

    @property
    def fastest(self) -> str | None:
        """The peer of the shortest time."""
        times = {title: one.wall for title in PEERS if (one := self.finished(title)) is not None}
        return min(times, key=times.__getitem__, default=None)

    @property
    def key(self) -> tuple[str, str, Shape]:
        return self.part, self.data, self.shape


@dataclass(frozen=True)
class Large:
    """A fit that fills a card, with its certificate."""

    data: str
    shape: Shape
    init: str
    stop: str
    seconds: float
    """The whole fit, seeding included; everything was compiled before."""
    step_seconds: float
    """What one iteration more takes: the difference of two short fits over their iterations."""
    iterations: int
    fixpoint: bool
    status: str
    gap: float
    decrease: float
    inertia: float
    max_iterations: int | None
    lower_bound: float | None
    lower_bound_kind: str | None
    certify_seconds: float | None
    """Of the lower bound, which is looked for after the fit; None where none was asked for."""
    certificate: str
    """As it prints."""
    data_bytes: int
    peak_bytes: int | None
    """The most that was allocated on the device during the fit, data included."""
    verdict: Verdict
    equality: Equality | str
    """With the CPU engine, from rows drawn at random; why not, where it is a text."""

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Self:
        found = {"shape": Shape(**stored["shape"]), "verdict": Verdict(**stored["verdict"])}
        return cls(**{**stored, **found, "equality": _equality_of(stored["equality"])})


@dataclass(frozen=True)
class Starts:
    """Several starts in one call against as many calls."""

    data: str
    shape: Shape
    starts: int
    max_iter: int
    together: list[float]
    """Seconds of one call with n_init, every repeat."""
    apart: list[float]
    """Seconds of all single calls together, every repeat."""
    equal: bool
    """Whether the best of the single fits has the same centers, labels and inertia."""

    @property
    def ratio(self) -> float:
        return median(self.apart) / median(self.together)

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Self:
        return cls(**{**stored, "shape": Shape(**stored["shape"])})


@dataclass(frozen=True)
class Streamed:
    """Data in pinned host memory, with less memory on the device than it has."""

    data: str
    shape: Shape
    data_bytes: int
    budget_bytes: int
    iterations: int
    seconds: list[float]
    resident_seconds: list[float]
    """The same fit with the data on the device."""
    equal: bool

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Self:
        return cls(**{**stored, "shape": Shape(**stored["shape"])})


@dataclass(frozen=True)
class Profile:
    """Where the time of one fit goes."""

    title: str
    data: str
    shape: Shape
    seconds: float
    """Of the fit without a profiler."""
    kernels: list[tuple[str, int, float]]
    """Name, launches and milliseconds of each kernel and copy, the longest first."""
    host: list[tuple[str, int, float]]
    """Name, calls and milliseconds, own and below, of Python functions, with a profiler on."""

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Self:
        return cls(**{**stored, "shape": Shape(**stored["shape"])})


@dataclass
class Report:
    """Everything that was measured in one run, or in several on the same page."""

    machine: dict[str, str]
    versions: dict[str, str]
    date: str
    selection: str
    """What was asked for, in words."""
    missing: list[str]
    """What could not be run, and why."""
    cells: list[Cell] = field(default_factory=list)
    large: list[Large] = field(default_factory=list)
    starts: list[Starts] = field(default_factory=list)
    streamed: list[Streamed] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)
    seconds: float = 0.0
    """From beginning to end."""

    def part(self, name: str) -> list[Cell]:
        return [cell for cell in self.cells if cell.part == name]

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Self:
        kinds = {
            "cells": Cell,
            "large": Large,
            "starts": Starts,
            "streamed": Streamed,
            "profiles": Profile,
        }
        plain = ("machine", "versions", "date", "selection", "missing", "seconds")
        found = {name: [kind.of(one) for one in stored[name]] for name, kind in kinds.items()}
        return cls(**{name: stored[name] for name in plain}, **found)


def summary(cells: Sequence[Cell]) -> dict[str, Any]:
    """Return the ratios that the targets are about, of the cells of one part."""
    raced = [(cell, cell.ratio(cell.fastest)) for cell in cells if cell.fastest is not None]
    ratios = [ratio for _, ratio in raced if ratio is not None]
    if not ratios:
        return {"cells": 0}
    against = {
        title: geometric_mean(some)
        for title in (*PEERS, PLAIN)
        if (some := [ratio for cell in cells if (ratio := cell.ratio(title)) is not None])
    }
    short = [cell.key for cell, ratio in raced if ratio is not None and ratio < TARGET_EACH]
    found = {"cells": len(ratios), "fastest": geometric_mean(ratios), "least": min(ratios)}
    return {**found, "against": against, "short": [(*key[:2], str(key[2])) for key in short]}


def as_json(report: Report) -> str:
    record = asdict(report)
    for entry, cell in zip(record["cells"], report.cells, strict=True):
        entry["fastest"] = cell.fastest
        entry["ratios"] = {title: cell.ratio(title) for title in cell.outcomes if title != OURS}
    parts = {part: summary(report.part(part)) for part in TARGET_MEAN}
    return json.dumps(record | {"summary": parts}, indent=1, ensure_ascii=False)


def load(path: Path) -> Report:
    return Report.of(json.loads(path.read_text(encoding="utf-8")))
