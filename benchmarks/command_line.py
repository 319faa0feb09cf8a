"""How long one command takes from a CSV file to its labels, beside reading the file with polars.

A million rows of ten columns by default, eight clusters. Two processes take turns: one imports
polars and reads the file, the other is `wolfmeans fit FILE -k 8 --labels labels.csv`. What counts
is the ratio of the medians of their whole times, from start to exit. The labels must be those of
`wolfmeans.KMeans` on the same numbers. See benchmarks/README.md.

    python benchmarks/command_line.py [--rows 1000000] [--turns 15] [--write docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import importlib.metadata
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
from report_pages import facts, publish

import wolfmeans
from wolfmeans.bench.machine import machine
from wolfmeans.bench.problems import Shape, blobs
from wolfmeans.engines import effective_threads

COLUMNS, CLUSTERS = 10, 8
TARGET = 3.0
MARK = "command-line-benchmark"
READ = "import sys, polars; polars.read_csv(sys.argv[1])"


@dataclass(frozen=True)
class Times:
    """Seconds of the turns of both processes."""

    reading: list[float]
    fitting: list[float]

    @property
    def ratio(self) -> float:
        return median(self.fitting) / median(self.reading)

    @property
    def ratio_of_least(self) -> float:
        return min(self.fitting) / min(self.reading)


def make(path: Path, rows: int) -> pl.DataFrame:
    points = blobs(Shape(rows, COLUMNS, CLUSTERS), np.random.default_rng(0))
    frame = pl.DataFrame(points, schema=[f"x{j}" for j in range(COLUMNS)])
    frame.write_csv(path)
    return frame


def seconds_of(command: Sequence[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def measure(data: Path, labels: Path, turns: int) -> Times:
    """Let both processes take turns; the first turn, which fills the caches, does not count."""
    read = [sys.executable, "-c", READ, str(data)]
    fit = [sys.executable, "-m", "wolfmeans.commands.cli", "fit", str(data), "-k", str(CLUSTERS)]
    fit += ["--labels", str(labels), "--quiet"]
    found = [(seconds_of(read), seconds_of(fit)) for _ in range(turns + 1)][1:]
    return Times([one for one, _ in found], [other for _, other in found])


def check(data: Path, labels: Path) -> int:
    """Return how many labels of the file are not those of the estimator in Python."""
    points = pl.read_csv(data).to_numpy(order="c")
    expected = wolfmeans.KMeans(CLUSTERS, random_state=0).fit(points).labels_
    return int(np.sum(pl.read_csv(labels)["label"].to_numpy() != expected))


def report(here: dict[str, str], times: Times, rows: int, size: int, wrong: int) -> str:
    packages = ("polars", "scikit-learn", "scipy", "numpy")
    versions = facts({name: importlib.metadata.version(name) for name in packages})
    about = "; ".join(f"{key} {value}" for key, value in here.items())
    reached = "reached" if times.ratio <= TARGET else "missed"
    busy = float(here.get("load average at the start", "0")) > 0.5 * int(here["cores"])
    remark = " The machine had other work; both processes suffered from it." if busy else ""
    return (
        f"{date.today().isoformat()}. {about}. wolfmeans {wolfmeans.__version__}, {versions}, "
        f"Python {sys.version.split()[0]}.\n\n"
        f"| a CSV file of {rows:,} × {COLUMNS} ({size / 1e6:.0f} MB) | median, s | least, s |\n"
        "|---|---:|---:|\n"
        f"| import polars and read it | {median(times.reading):.2f} | {min(times.reading):.2f} |\n"
        f"| `wolfmeans fit FILE -k {CLUSTERS} --labels labels.csv` | {median(times.fitting):.2f} | "
        f"{min(times.fitting):.2f} |\n"
        f"| ratio | **{times.ratio:.2f}** | {times.ratio_of_least:.2f} |\n\n"
        f"{len(times.reading)} turns of each. Target: at most {TARGET:g} times, {reached}. Labels "
        f"that are not those of `wolfmeans.KMeans` in Python: {wrong}.{remark}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--turns", type=int, default=15, metavar="N")
    helped = "put the result into FILE, between its marks"
    parser.add_argument("--write", type=Path, metavar="FILE", help=helped)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        data, labels = Path(folder) / "big.csv", Path(folder) / "labels.csv"
        make(data, options.rows)
        here = machine(effective_threads(None))
        times = measure(data, labels, options.turns)
        text = report(here, times, options.rows, data.stat().st_size, check(data, labels))
    publish(text, options.write, MARK)


if __name__ == "__main__":
    main()
