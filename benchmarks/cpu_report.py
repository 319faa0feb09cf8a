"""The records of cpu.py and their targets, and the report: lines, tables, a summary, JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import geometric_mean, mean
from typing import Any, ClassVar

import numpy as np
from report_pages import head, spaced, table

from wolfmeans.bench.problems import Shape
from wolfmeans.bench.race import Outcome, Race

MARK = "cpu-benchmark"
MAX_ITER = 100
TARGET_EACH = 1.3
TARGET_MEAN = {"float32": 5.0, "float64": 8.0}
TARGET_SEEDING = 5.0
TARGET_DENSE = 0.8
DENSE_FROM = (64, 256)  # d and K from which on the dense pass has a target
TARGET_IMPORT = 0.2
TARGET_MEMORY = 32.0


@dataclass(frozen=True)
class Seeding:
    """Greedy k-means++ here and in scikit-learn, with the same number of local trials."""

    header: ClassVar = ("n, d, K", "data", "dtype", "trials", "ratio", "potential", "draws")

    shape: Shape
    """With fewer points than the cell has, where a time limit asked for it."""
    data: str
    dtype: str
    trials: int
    draws: int
    seconds: float
    peer_seconds: float
    potential: float
    """Mean potential of the seeds here over that of scikit-learn's; below 1 is better."""

    @property
    def ratio(self) -> float:
        return self.peer_seconds / self.seconds

    def row(self) -> list[str]:
        found = [str(self.trials), f"{self.ratio:.2f}", f"{self.potential:.3f}", str(self.draws)]
        return [spaced(self.shape), self.data, self.dtype, *found]


@dataclass(frozen=True)
class Starts:
    """Several random starts of small data, each to labels that no longer change."""

    header: ClassVar = ("n, d, K", "data", "dtype", "starts", "ms", "ratio", "inertia", "repeats")

    shape: Shape
    data: str
    dtype: str
    starts: int
    repeats: int
    seconds: float
    peer_seconds: float
    best: float
    peer_best: float
    inertia: float
    """Mean inertia of the best start here over that of scikit-learn's; below 1 is better."""

    @property
    def ratio(self) -> float:
        return self.peer_seconds / self.seconds

    def row(self) -> list[str]:
        found = [f"{1e3 * self.seconds:.3g}", f"{self.ratio:.2f}", f"{self.inertia:.4f}"]
        cell = [spaced(self.shape), self.data, self.dtype, str(self.starts)]
        return [*cell, *found, str(self.repeats)]


@dataclass(frozen=True)
class DensePass:
    """One pass over all points and centers, against a float32 matrix product of that shape."""

    header: ClassVar = ("n, d, K", "dtype", "GFLOP/s", "sgemm GFLOP/s", "share")

    shape: Shape
    dtype: str
    gflops: float
    sgemm_gflops: float

    @property
    def share(self) -> float:
        return self.gflops / self.sgemm_gflops

    @property
    def has_target(self) -> bool:
        return self.shape.d >= DENSE_FROM[0] and self.shape.n_clusters >= DENSE_FROM[1]

    def row(self) -> list[str]:
        rates = [f"{self.gflops:.1f}", f"{self.sgemm_gflops:.1f}", f"{self.share:.0%}"]
        return [spaced(self.shape), self.dtype, *rates]


@dataclass(frozen=True)
class Scaling:
    """Time of a fit of uniform data with one thread, over the time with more."""

    header: ClassVar = ("n, d, K", "dtype", "iterations", "threads: speed-up")

    shape: Shape
    dtype: str
    iterations: int
    speedup: dict[int, float]

    def row(self) -> list[str]:
        speedups = ", ".join(f"{t}: {ratio:.2f}" for t, ratio in self.speedup.items())
        return [spaced(self.shape), self.dtype, str(self.iterations), speedups]


@dataclass(frozen=True)
class Memory:
    """Growth of the peak of resident memory in a fit of uniform data, in bytes per point."""

    header: ClassVar = ("n, d, K", "dtype", "target", "wolfmeans", "sklearn lloyd")

    shape: Shape
    dtype: str
    extra: float
    peer_extra: float

    @property
    def allowed(self) -> float:
        """What the target allows for a point; O(K d threads) comes on top."""
        return max(TARGET_MEMORY, np.dtype(self.dtype).itemsize * self.shape.d / 4)

    def row(self) -> list[str]:
        found = [f"{value:.0f}" for value in (self.allowed, self.extra, self.peer_extra)]
        return [spaced(self.shape), self.dtype, *found]


@dataclass(frozen=True)
class StartUp:
    """Seconds of an import in a fresh process, and of the smallest fit."""

    sklearn_import: float
    added_import: float
    fit_of_100: float
    peer_fit_of_100: float

    def __str__(self) -> str:
        return (
            f"`import wolfmeans` adds {self.added_import:.2f} s to `import sklearn.cluster` "
            f"({self.sklearn_import:.2f} s; target: at most {TARGET_IMPORT:g} s more). A fit of "
            f"100 points takes {1e6 * self.fit_of_100:.0f} µs, in scikit-learn "
            f"{1e6 * self.peer_fit_of_100:.0f} µs."
        )


@dataclass
class Report:
    """Everything that was measured."""

    machine: dict[str, str]
    versions: dict[str, str]
    date: str
    selection: str
    missing: list[str]
    races: list[Race] = field(default_factory=list)
    sparse: list[Race] = field(default_factory=list)
    seeding: list[Seeding] = field(default_factory=list)
    starts: list[Starts] = field(default_factory=list)
    dense: list[DensePass] = field(default_factory=list)
    scaling: list[Scaling] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    start_up: StartUp | None = None


# --- Report ----------------------------------------------------------------------------------


def line_of(one: Race) -> str:
    """One line for the terminal, with times."""
    parts = [f"{spaced(one.shape)} {one.data} {one.dtype}: {_timing(one.ours)}"]
    for title, outcome in one.peers.items():
        if isinstance(outcome, Outcome):
            parts.append(f"{title} {_timing(outcome)}{_mark(outcome)}")
        elif outcome.startswith("failed"):
            parts.append(f"{title} {outcome}")
    return "; ".join(parts)


def _timing(outcome: Outcome) -> str:
    each = 1e3 * outcome.per_iteration
    return f"{outcome.seconds:.4g} s = {outcome.iterations} x {each:.3g} ms"


def _mark(outcome: Outcome) -> str:
    """Say what disagrees: another inertia (with its relative excess), another count."""
    marks = [] if outcome.same_inertia else [f"≠ {outcome.excess:+.0e}"]
    marks += [] if outcome.same_iterations else [f"{outcome.iterations} it"]
    return f" ({', '.join(marks)})" if marks else ""


def _table_of(records: Sequence[Any]) -> str:
    return table(records[0].header, (one.row() for one in records))


def ratio_table(races: Sequence[Race]) -> str:
    titles = list(races[0].peers)
    header = ["n, d, K", "data", "dtype", "iterations", "fastest exact peer", *titles]
    return table(header, (_ratio_row(one, titles) for one in races))


def _ratio_row(one: Race, titles: Sequence[str]) -> list[str]:
    fastest = "none"
    if one.fastest is not None:
        marked = " (marked)" if one.fastest in one.marked else ""
        fastest = f"**{one.ratio(one.fastest):.2f}** {one.fastest}{marked}"
    cut = " (cut)" if one.ours.iterations == one.max_iter < MAX_ITER else ""
    cells = []
    for title in titles:
        outcome = one.peers[title]
        failed = isinstance(outcome, str)
        cells.append(outcome if failed else f"{one.ratio(title):.2f}{_mark(outcome)}")
    return [
        *(spaced(one.shape), one.data, one.dtype),
        *(f"{one.ours.iterations}{cut}", fastest, *cells),
    ]


def time_table(races: Sequence[Race]) -> str:
    titles = list(races[0].peers)
    header = ["n, d, K", "data", "dtype", "fit, s", "wolfmeans", *titles]
    rows = []
    for one in races:
        cells = [
            "–" if isinstance(outcome, str) else f"{1e3 * outcome.per_iteration:.3g}"
            for outcome in (one.ours, *(one.peers[title] for title in titles))
        ]
        rows.append([spaced(one.shape), one.data, one.dtype, f"{one.ours.seconds:.3g}", *cells])
    return table(header, rows)


def summary(report: Report) -> dict[str, Any]:
    """Return the ratios that the targets are about."""
    raced = [one for one in report.races if one.fastest]
    found: dict[str, Any] = {
        "fits": _summary_by_dtype(raced),
        "short": [
            f"({spaced(one.shape)}) {one.data} {one.dtype} {one.ratio(one.fastest):.2f}"
            for one in raced
            if one.ratio(one.fastest) < TARGET_EACH
        ],
        "dense": min((one.share for one in report.dense if one.has_target), default=None),
    }
    if report.sparse:
        found["sparse"] = _summary_by_dtype([one for one in report.sparse if one.fastest])
    if report.starts:
        found["starts"] = geometric_mean(one.ratio for one in report.starts)
    if report.seeding:
        found["seeding"] = geometric_mean(one.ratio for one in report.seeding)
        found["potential"] = mean(one.potential for one in report.seeding)
    return found


def _summary_by_dtype(races: Sequence[Race]) -> dict[str, Any]:
    return {
        dtype: _summary_of([one for one in races if one.dtype == dtype])
        for dtype in dict.fromkeys(one.dtype for one in races)
    }


def _summary_of(races: Sequence[Race]) -> dict[str, Any]:
    ratios: dict[str, list[float]] = {}
    for one in races:
        for title in one.exact:
            ratios.setdefault(title, []).append(one.ratio(title))
    return {
        "cells": len(races),
        "fastest": geometric_mean(one.ratio(one.fastest) for one in races),
        "fastest_per_iteration": geometric_mean(
            min(map(one.ratio_per_iteration, one.exact)) for one in races
        ),
        "least": min(one.ratio(one.fastest) for one in races),
        "marked": sum(bool(one.marked) for one in races),
        "peers": {title: geometric_mean(values) for title, values in ratios.items()},
    }


def summary_text(report: Report) -> str:
    found = summary(report)
    lines = [
        f"{dtype}, {fits['cells']} cells: {fits['fastest']:.2f} times as fast as the fastest exact "
        f"peer of each cell (geometric mean; target {TARGET_MEAN[dtype]:g}), per iteration "
        f"{fits['fastest_per_iteration']:.2f}; least {fits['least']:.2f} (target {TARGET_EACH:g}). "
        f"{', '.join(f'{title} {ratio:.2f}' for title, ratio in fits['peers'].items())}. "
        f"Cells with a marked peer: {fits['marked']}."
        for dtype, fits in found["fits"].items()
    ]
    if found["short"]:
        short = "; ".join(found["short"])
        lines.append(f"Below {TARGET_EACH:g}, {len(found['short'])} cells: {short}.")
    if "seeding" in found:
        lines.append(
            f"Seeding: {found['seeding']:.2f} times as fast as scikit-learn (geometric mean; "
            f"target {TARGET_SEEDING:g}), mean potential {found['potential']:.3f} of its."
        )
    lines += [
        f"Sparse {dtype}, {fits['cells']} cells: {fits['fastest']:.2f} times as fast as sklearn "
        f"lloyd (geometric mean), per iteration {fits['fastest_per_iteration']:.2f}; least "
        f"{fits['least']:.2f}. Cells in which it is marked: {fits['marked']}."
        for dtype, fits in found.get("sparse", {}).items()
    ]
    if "starts" in found:
        lines.append(
            f"Many starts of small data: {found['starts']:.2f} times as fast as sklearn lloyd "
            "(geometric mean)."
        )
    if found["dense"] is not None:
        lines.append(
            f"Dense pass for d ≥ {DENSE_FROM[0]}, K ≥ {DENSE_FROM[1]}: at least "
            f"{found['dense']:.0%} of the sgemm rate (target {TARGET_DENSE:.0%})."
        )
    return "\n".join(f"- {line}" for line in lines)


def markdown(report: Report) -> str:
    """Return everything that was measured, as a page."""
    parts = [head(report), summary_text(report)]
    if report.races:
        parts += [
            "Whole fits: time of the peer over the time of wolfmeans. (≠ …) marks another inertia, "
            "with its relative excess; (… it) another number of iterations; marked peers count. "
            f"(cut) marks a cell that a time limit ended before {MAX_ITER} iterations. superkmeans "
            "is not exact and takes no start; it is reported beside and never the fastest.",
            ratio_table(report.races),
            "Time of an iteration in ms: the whole fit over its iterations.",
            time_table(report.races),
        ]
    if report.sparse:
        parts += [
            "Whole fits on CSR data, with the share of entries that are stored: time of the peer "
            "over the time of wolfmeans. (≠ …) marks another inertia, (… it) another number of "
            "iterations, (cut) a time limit.",
            ratio_table(report.sparse),
            "Time of an iteration on CSR data in ms.",
            time_table(report.sparse),
        ]
    for reading, records in (
        ("Greedy k-means++ against `sklearn.cluster.kmeans_plusplus`.", report.seeding),
        (
            "Several random starts of small data, each to labels that no longer change: all of "
            "them in ms, time of sklearn lloyd over that, and the mean inertia over its.",
            report.starts,
        ),
        ("The dense pass, counted as 2ndK operations, best of three.", report.dense),
        ("Whole fits on uniform data: speed with more threads over one.", report.scaling),
        (
            "Growth of the peak of resident memory in a fit, beyond the array, in bytes per point "
            "(the target allows O(K d threads) on top).",
            report.memory,
        ),
    ):
        parts += [reading, _table_of(records)] if records else []
    if report.start_up:
        parts.append(str(report.start_up))
    return "\n\n".join(part for part in parts if part)


def as_json(report: Report) -> str:
    record = asdict(report)
    for entry, one in zip(
        record["races"] + record["sparse"], report.races + report.sparse, strict=True
    ):
        entry["ratios"] = {title: one.ratio(title) for title in one.exact}
        entry |= {"fastest": one.fastest, "marked": one.marked}
    for entry, one in zip(
        record["seeding"] + record["starts"], report.seeding + report.starts, strict=True
    ):
        entry["ratio"] = one.ratio
    for entry, one in zip(record["dense"], report.dense, strict=True):
        entry["share"] = one.share
    return json.dumps(record | {"summary": summary(report)}, indent=1)
