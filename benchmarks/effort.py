"""A search beside its peers: who finds the lower SSE in the same time.

Breathing k-means (`pip install bkmeans`) runs with its defaults, and the time it takes is what the
others get: scikit-learn restarts from new k-means++ seeds until the time is over (the restart that
is under way then may end), and wolfmeans has it as its `effort`. A
second round gives scikit-learn and wolfmeans one second each. All in one process, one after the
other, on the same number of threads. The SSE is computed from the returned centers, in float64, by
the same function for all; wolfmeans' own number must agree with it. Reported is its excess over the
lowest that any run of any method has found.

    python benchmarks/effort.py [--seeds 3] [--threads 1] [--only grid] [--out FILE]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean, median
from time import perf_counter

import numpy as np
import sklearn.cluster
from numpy.typing import NDArray
from report_pages import facts, table
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_blobs
from threadpoolctl import threadpool_limits

from wolfmeans import KMeans
from wolfmeans.bench.machine import machine, versions
from wolfmeans.bench.peers import ScikitLearn
from wolfmeans.bench.race import inertia
from wolfmeans.files.datasets import load_segmentation

Points = NDArray[np.float64]

FIXED = 1.0
SAME = 1e-9
TIE = 5e-6  # of the SSE; what a page shows as 0
PEER, BREATHING, OURS = "scikit-learn", "bkmeans", "wolfmeans"


@dataclass(frozen=True)
class Case:
    """Points and the number of clusters to look for."""

    name: str
    points: Points
    n_clusters: int

    @property
    def shape(self) -> str:
        n, d = self.points.shape
        return f"{n} × {d}, K = {self.n_clusters}"


@dataclass(frozen=True)
class Outcome:
    """What one method made of its time."""

    sse: float
    seconds: float
    starts: int = 1


@dataclass
class Row:
    """All runs on one data set, by budget and method, one for each seed."""

    case: str
    shape: str
    runs: dict[tuple[str, str], list[Outcome]] = field(default_factory=dict)

    def add(self, budget: str, method: str, outcome: Outcome) -> None:
        self.runs.setdefault((budget, method), []).append(outcome)

    @property
    def best(self) -> float:
        return min(outcome.sse for outcomes in self.runs.values() for outcome in outcomes)

    def excess(self, budget: str, method: str) -> float:
        """The median relative excess over the best known SSE."""
        return median(outcome.sse / self.best - 1.0 for outcome in self.runs[budget, method])

    def seconds(self, budget: str, method: str) -> float:
        return median(outcome.seconds for outcome in self.runs[budget, method])

    def starts(self, budget: str, method: str) -> int:
        return int(median(outcome.starts for outcome in self.runs[budget, method]))


def restarts(case: Case, seconds: float, seed: int) -> Outcome:
    """Run scikit-learn from new seeds until the time is over."""
    started = perf_counter()
    best, count = None, 0
    while best is None or perf_counter() - started < seconds:
        model = sklearn.cluster.KMeans(
            case.n_clusters, n_init=1, random_state=1_000_000 * seed + count
        ).fit(case.points)
        count += 1
        if best is None or model.inertia_ < best.inertia_:
            best = model
    spent = perf_counter() - started
    return Outcome(inertia(case.points, best.cluster_centers_), spent, count)


def breathe(case: Case, seed: int) -> Outcome:
    """Run breathing k-means with its defaults."""
    from bkmeans import BKMeans

    started = perf_counter()
    model = BKMeans(n_clusters=case.n_clusters, random_state=seed).fit(case.points)
    spent = perf_counter() - started
    return Outcome(inertia(case.points, model.cluster_centers_), spent)


def effort(case: Case, seconds: float, seed: int, threads: int) -> Outcome:
    """Let wolfmeans spend the time."""
    started = perf_counter()
    model = KMeans(
        case.n_clusters, effort=seconds, random_state=seed, n_threads=threads, bound=None
    ).fit(case.points)
    spent = perf_counter() - started
    judged = inertia(case.points, model.cluster_centers_)
    record = model.certificate_.effort
    if abs(judged - model.inertia_) > SAME * judged:
        raise AssertionError(f"{case.name}: {model.inertia_} where {judged} was found; {record}")
    return Outcome(judged, spent, record.tried)


def measure(case: Case, n_seeds: int, threads: int, *, breathing: bool) -> Row:
    row = Row(case.name, case.shape)
    for seed in range(n_seeds):
        if breathing:
            lungs = breathe(case, seed)
            row.add(BREATHING, BREATHING, lungs)
            row.add(BREATHING, PEER, restarts(case, lungs.seconds, seed))
            row.add(BREATHING, OURS, effort(case, lungs.seconds, seed, threads))
        row.add("fixed", PEER, restarts(case, FIXED, seed))
        row.add("fixed", OURS, effort(case, FIXED, seed, threads))
    return row


def percent(share: float) -> str:
    return "0" if share < TIE else f"{100 * share:.3f}"


def results(rows: Sequence[Row], *, breathing: bool) -> str:
    """A line for each data set: median excess over the best known SSE, in percent."""
    header = ["data", "n × d, K"]
    if breathing:
        header += ["T of bkmeans", "restarts in T", PEER, BREATHING, OURS, "its time / T"]
    header += [f"{PEER}, {FIXED:g} s", f"{OURS}, {FIXED:g} s"]
    lines = []
    for row in rows:
        cells = [row.case, row.shape]
        if breathing:
            budget = row.seconds(BREATHING, BREATHING)
            cells += [f"{budget:.3f} s", str(row.starts(BREATHING, PEER))]
            methods = (PEER, BREATHING, OURS)
            cells += [percent(row.excess(BREATHING, method)) for method in methods]
            cells.append(f"{row.seconds(BREATHING, OURS) / budget:.2f}")
        cells += [percent(row.excess("fixed", method)) for method in (PEER, OURS)]
        lines.append(cells)
    return table(header, lines, left=2)


def summary(rows: Sequence[Row], *, breathing: bool) -> str:
    """Say who is below whom, and by how much on average."""
    lines = []
    comparisons = [("fixed", PEER)]
    if breathing:
        comparisons = [(BREATHING, PEER), (BREATHING, BREATHING), *comparisons]
    for budget, method in comparisons:
        pairs = [(row.excess(budget, OURS), row.excess(budget, method)) for row in rows]
        below = sum(ours < theirs - TIE for ours, theirs in pairs)
        above = sum(ours > theirs + TIE for ours, theirs in pairs)
        time = f"{FIXED:g} s" if budget == "fixed" else "the time of bkmeans"
        lines.append(
            f"- In {time}: {OURS} is below {method} on {below} of {len(rows)} data sets and above "
            f"it on {above}; mean excess {100 * fmean(ours for ours, _ in pairs):.3f} % against "
            f"{100 * fmean(theirs for _, theirs in pairs):.3f} %."
        )
    return "\n".join(lines)


def page(rows: Sequence[Row], n_seeds: int, threads: int, *, breathing: bool) -> str:
    found = versions([ScikitLearn("lloyd")])
    if breathing:
        found[BREATHING] = importlib.metadata.version("bkmeans")
    about = facts(machine(threads), found, {"date": date.today().isoformat()})
    reading = (
        "Excess of the SSE over the lowest that any run found, in percent: the median of "
        f"{n_seeds} seeds. 0 is below 0.0005 %."
    )
    return "\n\n".join(
        (
            "# The same time, the lowest SSE",
            reading,
            results(rows, breathing=breathing),
            summary(rows, breathing=breathing),
            about,
        )
    )


def can_breathe() -> bool:
    if find_spec("bkmeans") is None:
        print("bkmeans is not installed (pip install bkmeans): only the fixed time is measured")
        return False
    return True


def warm_up(threads: int) -> None:
    """Load what libraries load on first use."""
    points: Points = np.random.default_rng(0).random((200, 2))
    effort(Case("warm-up", points, 3), 0.01, 0, threads)
    restarts(Case("warm-up", points, 3), 0.0, 0)


# --- Data, on which k-means++ and Lloyd's steps often end in poor optima ----------------------


def cases() -> Iterator[Case]:
    """Make or load the data sets, one at a time; all of them need no network."""
    rng = np.random.default_rng(0)
    yield Case("iris", load_iris().data, 10)
    yield Case("breast cancer, standardized", _standardized(load_breast_cancer().data), 20)
    yield Case("digits", load_digits().data, 10)
    yield Case("digits", load_digits().data, 64)
    segmentation = load_segmentation().standardized()
    yield Case("segmentation, standardized", segmentation, 7)
    yield Case("segmentation, standardized", segmentation, 50)
    yield Case("grid of 10 × 10 Gaussians", _grid(10, 5_000, rng), 100)
    yield Case("grid of 20 × 20 Gaussians", _grid(20, 20_000, rng), 400)
    yield Case("sine wave of Gaussians", _sine(20_000, rng), 100)
    yield Case("uniform in the square", rng.random((20_000, 2)), 200)
    yield Case("unbalanced mixture", _unbalanced(10_000, 4, 40, rng), 40)
    yield Case("heavy-tailed mixture", _heavy_tailed(10_000, 8, 30, rng), 30)
    blobs, _ = make_blobs(20_000, 10, centers=50, cluster_std=3.0, random_state=0)
    yield Case("blobs", blobs, 50)
    yield Case("overlapping mixture", _overlapping(100_000, 16, 100, rng), 100)


def _standardized(points: Points) -> Points:
    return np.asarray((points - points.mean(axis=0)) / points.std(axis=0))


def _grid(side: int, n: int, rng: np.random.Generator) -> Points:
    places = rng.integers(side, size=(n, 2))
    return np.asarray(places + rng.normal(scale=0.1, size=(n, 2)))


def _sine(n: int, rng: np.random.Generator) -> Points:
    """Place 100 Gaussians on four waves, as in the second of the BIRCH sets."""
    place = rng.integers(100, size=n)
    line = np.stack([0.2 * np.pi * place, 3.0 * np.pi * np.sin(0.08 * np.pi * place)], axis=1)
    return np.asarray(line + rng.normal(scale=0.4, size=(n, 2)))


def _unbalanced(n: int, d: int, n_clusters: int, rng: np.random.Generator) -> Points:
    """Draw from Gaussians of different widths, the first 250 times as often as the last."""
    shares = np.arange(1, n_clusters + 1) ** -1.5
    labels = rng.choice(n_clusters, size=n, p=shares / shares.sum())
    centers = rng.uniform(-10.0, 10.0, size=(n_clusters, d))
    widths = rng.uniform(0.3, 1.5, size=n_clusters)
    return np.asarray(centers[labels] + widths[labels, None] * rng.normal(size=(n, d)))


def _heavy_tailed(n: int, d: int, n_clusters: int, rng: np.random.Generator) -> Points:
    centers = rng.uniform(-10.0, 10.0, size=(n_clusters, d))
    labels = rng.integers(n_clusters, size=n)
    return np.asarray(centers[labels] + rng.standard_t(2.5, size=(n, d)))


def _overlapping(n: int, d: int, n_clusters: int, rng: np.random.Generator) -> Points:
    centers = rng.normal(size=(n_clusters, d))
    labels = rng.integers(n_clusters, size=n)
    return np.asarray(centers[labels] + rng.normal(scale=0.7, size=(n, d)))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="runs of each method (default: 3)")
    parser.add_argument("--threads", type=int, default=1, help="for all methods (default: 1)")
    parser.add_argument("--only", default="", help="data sets whose name contains this")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the page to FILE")
    options = parser.parse_args(arguments)
    if min(options.seeds, options.threads) < 1:
        parser.error("--seeds and --threads must be at least 1")
    breathing = can_breathe()
    rows: list[Row] = []
    with threadpool_limits(options.threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warm_up(options.threads)
        for case in (case for case in cases() if options.only in case.name):
            rows.append(measure(case, options.seeds, options.threads, breathing=breathing))
            print(results(rows[-1:], breathing=breathing).splitlines()[-1], flush=True)
            text = page(rows, options.seeds, options.threads, breathing=breathing)
            if options.out:
                options.out.write_text(text + "\n", encoding="utf-8")
    print(f"\n{text}")


if __name__ == "__main__":
    main()
