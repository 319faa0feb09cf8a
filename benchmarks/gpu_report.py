"""The records of gpu.py, as JSON and back, their targets, and the report: lines and a page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, get_args, get_origin, get_type_hints

from report_pages import head, spaced, table

from wolfmeans.bench.problems import Shape

MARK = "gpu-benchmark"
OURS, PLAIN = "wolfmeans", "PyTorch"
# The peers that the targets are about; plain PyTorch is reported beside them.
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


@dataclass(frozen=True)
class Equality:
    """The same fit by engine="gpu" and engine="cpu", compared by ==."""

    iterations: int
    equal: bool
    differing: list[str]
    """Which of centers, labels, inertia and n_iter differ."""
    cpu_seconds: float


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


def decoded(kind: Any, stored: Any) -> Any:
    """Return a value of a type from what `asdict` and JSON have made of it."""
    inner = get_args(kind)
    if is_dataclass(kind) and isinstance(stored, dict):
        types = get_type_hints(kind)
        return kind(**{f.name: decoded(types[f.name], stored[f.name]) for f in fields(kind)})
    if get_origin(kind) is list:
        return [decoded(inner[0], one) for one in stored]
    if get_origin(kind) is dict:
        return {name: decoded(inner[1], one) for name, one in stored.items()}
    # A union: of the types in it, only a record is stored as a dictionary.
    records = [one for one in inner if is_dataclass(one)]
    return decoded(records[0], stored) if records and isinstance(stored, dict) else stored


def load(path: Path) -> Report:
    found: Report = decoded(Report, json.loads(path.read_text(encoding="utf-8")))
    return found


# --- Report ----------------------------------------------------------------------------------

TITLES = (OURS, *PEERS, PLAIN)
NAMES = {"steps": "Fits of a fixed number of iterations", "fits": "Whole fits"}


def line_of(cell: Cell) -> str:
    """One line for the terminal, with times and wrong labels."""
    words = [f"{cell.part} {cell.data} {cell.shape}{' (fixpoint)' if cell.fixpoint else ''}:"]
    for title, one in cell.outcomes.items():
        if isinstance(one, str):
            words.append(f"{title} {one};")
            continue
        device = "" if one.device is None else f" (events {1e3 * one.device:.2f})"
        wrong = f"wrong {one.verdict.wrong:,} of {one.verdict.checked:,}"
        words.append(f"{title} {1e3 * one.wall:.2f} ms{device}, {one.iterations} it., {wrong};")
    if cell.fastest is not None and (ratio := cell.ratio(cell.fastest)) is not None:
        words.append(f"{ratio:.2f} times {cell.fastest};")
    return " ".join([*words, _equality(cell.equality)])


def _equality(found: Equality | str | None) -> str:
    if isinstance(found, Equality):
        outcome = "equal to the CPU" if found.equal else f"DIFFERS in {', '.join(found.differing)}"
        return f"{outcome} after {found.iterations} it. ({found.cpu_seconds:.1f} s there)"
    return "" if found is None else f"not compared with the CPU: {found}"


def large_line(one: Large) -> str:
    peak = "" if one.peak_bytes is None else f", peak {one.peak_bytes / 1e9:.1f} GB"
    bound = ""
    if one.certify_seconds is not None:
        bound = f" Lower bound {one.lower_bound!r} ({one.lower_bound_kind}), found in "
        bound += f"{one.certify_seconds:.1f} s."
    most = "" if one.max_iterations is None else f" of at most {one.max_iterations:,}"
    return (
        f"({spaced(one.shape)}) {one.data}, init {one.init}, stop {one.stop}: {one.seconds:.2f} s "
        f"for {one.iterations}{most} iterations, {1e3 * one.step_seconds:.2f} ms for each further "
        f"one; data {one.data_bytes / 1e9:.1f} GB{peak}. {one.status} Gap {one.gap:.6g}, decrease "
        f"{one.decrease:.6g}, inertia {one.inertia!r}.{bound} Wrong labels: {one.verdict.wrong} of "
        f"{one.verdict.checked:,}; {_equality(one.equality)}."
    )


def ratio_table(cells: Sequence[Cell]) -> str:
    titles = _titles(cells)
    header = ["n, d, K", "data", "faster peer", "iterations", *(f"{t}, ms" for t in titles)]
    rows = []
    for cell in cells:
        fastest, ratio = cell.fastest, cell.ratio(cell.fastest or "")
        best = "–" if ratio is None else f"**{ratio:.2f}** {fastest}"
        ours = cell.finished(OURS)
        made = "–" if ours is None else f"{ours.iterations}{'' if cell.fixpoint else '+'}"
        times = [_milliseconds(cell.outcomes.get(title)) for title in titles]
        rows.append([spaced(cell.shape), cell.data, best, made, *times])
    return table(header, rows)


def wrong_table(cells: Sequence[Cell]) -> str:
    titles = _titles(cells)
    header = ["n, d, K", "data", "equal to the CPU engine", "labels checked", *titles]
    rows = []
    for cell in cells:
        ended = [one for one in cell.outcomes.values() if isinstance(one, Outcome)]
        checked = max((one.verdict.checked for one in ended), default=0)
        equal = "–"
        if isinstance(cell.equality, Equality):
            word = "yes" if cell.equality.equal else "**no**"
            equal = f"{word}, {cell.equality.iterations} iterations"
        wrong = [_wrong(cell.finished(title)) for title in titles]
        rows.append([spaced(cell.shape), cell.data, equal, f"{checked:,}", *wrong])
    return table(header, rows)


def _titles(cells: Sequence[Cell]) -> list[str]:
    return [title for title in TITLES if any(title in cell.outcomes for cell in cells)]


def _milliseconds(outcome: Outcome | str | None) -> str:
    if outcome is None:
        return "–"
    return "failed" if isinstance(outcome, str) else f"{1e3 * outcome.wall:.2f}"


def _wrong(outcome: Outcome | None) -> str:
    if outcome is None:
        return "–"
    return "0" if outcome.verdict.wrong == 0 else f"{100 * outcome.verdict.rate:.2g} %"


def summary_text(report: Report) -> str:
    lines = []
    for part, target in TARGET_MEAN.items():
        found = summary(report.part(part))
        if not found["cells"]:
            continue
        against = ", ".join(f"{title} {ratio:.2f}" for title, ratio in found["against"].items())
        lines.append(
            f"{NAMES[part]}, {found['cells']} cells: {found['fastest']:.2f} times as fast as the "
            f"faster peer of each cell (geometric mean; target {target:g}), least "
            f"{found['least']:.2f}{f' (target {TARGET_EACH:g})' if part == 'steps' else ''}. "
            f"{against}."
        )
        if found["short"]:
            short = "; ".join(f"{shape} {data}" for _, data, shape in found["short"])
            lines.append(f"Slower than the faster peer, {len(found['short'])} cells: {short}.")
    early = [
        cell
        for cell in report.part("steps")
        if (ours := cell.finished(OURS)) is not None and ours.iterations < cell.asked
    ]
    if early:
        lines.append(
            f"In {len(early)} cells wolfmeans was done before the {early[0].asked} iterations, "
            "which the peers make all the same; whole fits have the comparison without that."
        )
    lines += _wrong_lines(report.cells)
    compared = [one.equality for one in report.cells if isinstance(one.equality, Equality)]
    if compared:
        equal = sum(one.equal for one in compared)
        lines.append(
            f"Centers, labels, inertia and iterations equal to those of the CPU engine: {equal} of "
            f"{len(compared)} cells."
        )
    return "\n".join(f"- {line}" for line in lines)


def _wrong_lines(cells: Sequence[Cell]) -> list[str]:
    parts = []
    for title in _titles(cells):
        verdicts = [one.verdict for cell in cells if (one := cell.finished(title)) is not None]
        if verdicts:
            wrong, checked = sum(v.wrong for v in verdicts), sum(v.checked for v in verdicts)
            worst = max(v.rate for v in verdicts)
            share = f"; {100 * worst:.2g} % at worst" if wrong else ""
            parts.append(f"{title} {wrong:,} of {checked:,}{share}")
    return [f"Wrong labels: {'. '.join(parts)}."] if parts else []


def markdown(reports: Sequence[Report]) -> str:
    """Return everything that was measured, as a page; later runs replace cells of earlier ones."""
    parts = list(dict.fromkeys(head(one) for one in reports))
    whole = merged(reports)
    parts.append(summary_text(whole))
    steps, fits = whole.part("steps"), whole.part("fits")
    if steps:
        parts += [
            f"Fits of {steps[0].asked} iterations: the time of the faster peer over that of "
            "wolfmeans, and median times by the wall clock. The iterations are those of wolfmeans, "
            "which ends at the fixpoint; a + says that it was not reached. The peers always make "
            f"all {steps[0].asked}.",
            ratio_table(steps),
        ]
    if fits:
        parts += [
            "Whole fits, until no label changes (a + marks a fit that was cut): the peers make as "
            "many iterations as wolfmeans made.",
            ratio_table(fits),
        ]
    if whole.cells:
        parts += [
            "Wrong labels: another center is nearer, in float64, among the centers that assigned "
            "them.",
            wrong_table(steps or fits),
        ]
    for one in whole.large:
        parts += [f"A large fit. {large_line(one)}", f"```text\n{one.certificate}\n```"]
    if whole.starts:
        rows = [
            [
                *(spaced(one.shape), one.data, "yes" if one.equal else "**no**", str(one.starts)),
                *(f"{1e3 * median(some):.1f}" for some in (one.together, one.apart)),
                f"{one.ratio:.2f}",
            ]
            for one in whole.starts
        ]
        header = ["n, d, K", "data", "same best", "starts", "in one call, ms", "apart, ms", "ratio"]
        parts += ["Several starts in one call, and one call for each.", table(header, rows)]
    for one in whole.streamed:
        parts.append(
            f"Streamed: ({spaced(one.shape)}) {one.data}, {one.data_bytes / 1e9:.1f} GB with "
            f"{one.budget_bytes / 1e9:.1f} GB on the device: {median(one.seconds):.2f} s, on the "
            f"device {median(one.resident_seconds):.2f} s for {one.iterations} iterations; "
            f"{'the same result' if one.equal else '**another result**'}."
        )
    return "\n\n".join(part for part in parts if part)


def merged(reports: Sequence[Report]) -> Report:
    """Put several runs together; of two that measured the same the later one counts."""
    cells = {cell.key: cell for one in reports for cell in one.cells}
    large = {(one.shape, one.init, one.stop): one for run in reports for one in run.large}
    starts = {(one.shape, one.data): one for run in reports for one in run.starts}
    streamed = {(one.shape, one.data): one for run in reports for one in run.streamed}
    return replace(
        reports[-1],
        cells=list(cells.values()),
        large=list(large.values()),
        starts=list(starts.values()),
        streamed=list(streamed.values()),
    )
