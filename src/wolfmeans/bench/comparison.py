"""A comparison on this machine: races of all methods on cells of a preset size."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from statistics import geometric_mean
from typing import Any

from threadpoolctl import threadpool_limits

from wolfmeans.bench.machine import machine, versions
from wolfmeans.bench.peers import Limits, Method, Wolfmeans, installed_peers
from wolfmeans.bench.problems import SYNTHETIC, Shape, Source, maker, uniform_problem
from wolfmeans.bench.race import Outcome, Race, race

MAX_ITER = 100


@dataclass(frozen=True)
class Size:
    """A preset: which cells, and how long to go on measuring each."""

    shapes: tuple[Shape, ...]
    repeats: int
    budget: float
    """Seconds that the repeats of a method may take together."""


SIZES = {
    "small": Size((Shape(20_000, 2, 50), Shape(10_000, 16, 50), Shape(4_000, 128, 40)), 5, 0.3),
    "medium": Size(
        (Shape(200_000, 2, 100), Shape(100_000, 16, 64), Shape(20_000, 128, 256)), 5, 5.0
    ),
    "large": Size(
        (
            Shape(1_000_000, 3, 256),
            Shape(200_000, 8, 64),
            Shape(100_000, 32, 256),
            Shape(60_000, 784, 10),
            Shape(20_000, 768, 500),
        ),
        3,
        20.0,
    ),
}


@dataclass
class Comparison:
    """All races of a run, with machine and versions."""

    size: str
    threads: int
    machine: dict[str, str]
    versions: dict[str, str]
    date: str
    missing: list[str]
    races: list[Race] = field(default_factory=list)
    finished: bool = False

    @property
    def titles(self) -> list[str]:
        """The peers, in the order in which they are run."""
        return list(self.races[0].peers) if self.races else []

    def sentences(self) -> list[str]:
        """Return the speed relative to the others, and the number of wrong labels, in words."""
        raced = [one for one in self.races if one.fastest is not None]
        if not raced:
            return ["Nothing was compared."]
        ratios = [one.ratio(one.fastest) for one in raced if one.fastest is not None]
        checked = sum(one.labels_checked for one in self.races)
        wrong = sum(one.ours.wrong_labels or 0 for one in self.races)
        return [
            f"wolfmeans is {geometric_mean(ratios):.2f} times as fast as the fastest exact library "
            f"of each cell (geometric mean of {len(ratios)} cells; {min(ratios):.2f} at worst).",
            f"Wrong labels of wolfmeans (another center is closer): {wrong:,} of {checked:,}.",
            *self._busy(),
        ]

    def _busy(self) -> list[str]:
        load = float(self.machine.get("load average at the start", "0"))
        cores = int(self.machine["cores"])
        if load < 0.5 * cores:
            return []
        return [
            f"The machine was busy (load {load:g} on {cores} cores), which slows most the "
            "libraries whose threads wait by spinning; measure again when the machine is idle."
        ]

    def agreement(self) -> list[tuple[str, str, str, str]]:
        """Return for each peer its name, wrong labels, inertia beside ours, other iterations."""
        return [self._agreement_of(title) for title in self.titles]

    def _agreement_of(self, title: str) -> tuple[str, str, str, str]:
        found = [(one.labels_checked, one.peers[title]) for one in self.races]
        ended = [(checked, o) for checked, o in found if isinstance(o, Outcome)]
        if not ended:
            reasons = dict.fromkeys(str(reason) for _, reason in found)
            return (title, "–", "–", "; ".join(reasons))
        known = [(checked, o.wrong_labels) for checked, o in ended if o.wrong_labels is not None]
        wrong = "not said"
        if known:
            wrong = f"{sum(w for _, w in known):,} of {sum(c for c, _ in known):,}"
        worst = max((o.excess for _, o in ended), key=abs)
        other = sum(not o.same_iterations for _, o in ended)
        return (title, wrong, f"{worst:+.1e}", f"{other} of {len(ended)} cells")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and strings, ready for JSON."""
        found = asdict(self)
        for entry, one in zip(found["races"], self.races, strict=True):
            entry["ratios"] = {title: one.ratio(title) for title in one.exact}
            entry |= {"fastest": one.fastest, "marked": one.marked}
        return {**found, "sentences": self.sentences()}

    def to_json(self) -> str:
        """Return everything as JSON."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        """Return tables and sentences as a page."""
        head = [f"{key} {value}" for key, value in (self.machine | self.versions).items()]
        parts = [
            f"{self.date}. {'; '.join(head)}.",
            " ".join(self.sentences()),
            RATIOS,
            _markdown(ratio_rows(self)),
            "Agreement of the results:",
            _markdown([AGREEMENT, *self.agreement()]),
        ]
        if self.missing:
            parts.append(f"Not installed: {'; '.join(self.missing)}.")
        return "\n\n".join(parts) + "\n"


RATIOS = (
    "Median time of a whole fit: wolfmeans in ms, other libraries as a multiple of it. * marks a "
    "library with a different inertia or iteration count."
)
AGREEMENT = ("library", "wrong labels", "inertia vs ours", "other iterations")


def ratio_rows(found: Comparison) -> list[tuple[str, ...]]:
    """Return a table: a line for each cell, times of peers over that of wolfmeans."""
    header = ("data", "n", "d", "K", "bits", "it.", "ms", *found.titles)
    return [header, *(_ratio_row(one) for one in found.races)]


def _ratio_row(one: Race) -> tuple[str, ...]:
    sizes = (f"{size:,}" for size in (one.shape.n, one.shape.d, one.shape.n_clusters))
    cells = []
    for title, outcome in one.peers.items():
        if isinstance(outcome, Outcome):
            cells.append(f"{_three_digits(one.ratio(title))}{'*' if title in one.marked else ''}")
        else:
            cells.append("failed" if outcome.startswith("failed") else "–")
    own = _three_digits(1e3 * one.ours.seconds)
    bits = one.dtype.removeprefix("float")
    return (one.data, *sizes, bits, str(one.ours.iterations), own, *cells)


def _three_digits(number: float) -> str:
    return f"{number:.3g}" if number < 100 else f"{number:,.0f}"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    header, *body = rows
    lines = ["| " + " | ".join(header) + " |", "|---" * len(header) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in body])


class Bench:
    """A comparison in progress; `cells` runs it, and `found` has the finished races."""

    def __init__(self, size: str, dtypes: Sequence[str], threads: int) -> None:
        self._size, self._dtypes = SIZES[size], tuple(dtypes)
        self._peers, reasons = installed_peers()
        missing = [reason.partition(" ")[0] for reason in reasons]
        self.found = Comparison(
            size=size,
            threads=threads,
            machine=machine(threads),
            versions=versions(self._peers),
            date=date.today().isoformat(),
            missing=[f"{package} (pip install {package})" for package in missing],
        )

    @property
    def n_cells(self) -> int:
        """How many cells there are."""
        return len(self._size.shapes) * len(SYNTHETIC) * len(self._dtypes)

    def cells(self, announce: Callable[[str], Any]) -> Iterator[Race]:
        """Run all cells; `announce` is called with the name of each before it is run."""
        with threadpool_limits(self.found.threads):
            announce("warming up")
            self._warm_up()
            for shape in self._size.shapes:
                for name in SYNTHETIC:
                    yield from self._cells_of(name, shape, announce)
        self.found.finished = True

    def _cells_of(self, name: str, shape: Shape, announce: Callable[[str], Any]) -> Iterator[Race]:
        announce(f"making {name}, {shape.n:,} × {shape.d}")
        for problem in Source(name, shape.n_clusters, maker(name, shape)).problems(self._dtypes):
            announce(f"{name}, {shape.n:,} × {shape.d}, K = {shape.n_clusters}, {problem.dtype}")
            one = race(
                problem,
                Wolfmeans(),
                self._peers,
                Limits(MAX_ITER, self.found.threads),
                repeats=self._size.repeats,
                budget=self._size.budget,
                check_labels=True,
            )
            self.found.races.append(one)
            yield one

    def _warm_up(self) -> None:
        """Let every library load its code and start its threads."""
        methods: list[Method] = [Wolfmeans(), *self._peers]
        for dtype in self._dtypes:
            problem = uniform_problem(Shape(400, 4, 4), dtype)
            for method in methods:
                if method.refuses(problem) is None:
                    method.fit(problem, Limits(3, self.found.threads))
