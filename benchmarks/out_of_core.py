"""A pass over a file against reading it and against a pass in memory, in one process.

For NPY and Parquet files of several shapes, with a warm page cache: (a) reading the file once, in
the chunks that a fit would get, with nothing done to them; (b) one assignment of the same points
in memory, by the native engine; (c) the same assignment streamed from the file within a limit of
memory, at the same centers, iteration after iteration. What counts is c over the larger of a and b,
the median over the iterations. Both must find the same, by ==. See benchmarks/README.md.

    python benchmarks/out_of_core.py [--megabytes 200] [--limit 64MB] [--write docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from report_pages import publish, table

from wolfmeans.engines import effective_threads, get_engine
from wolfmeans.engines.places.file import FilePlace, Keeping
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.files.source import Source
from wolfmeans.inputs.memory_budget import Budget, bytes_of
from wolfmeans.inputs.opening import open_source

MARK = "out-of-core-benchmark"
SHAPES = ((8, 8), (8, 100), (16, 32), (32, 8), (32, 100))
"""Columns and clusters."""
STATES = ("bounds", "labels", "nothing")


@dataclass(frozen=True)
class Result:
    """Seconds of a pass, and how they compare."""

    kind: str
    dtype: str
    n_columns: int
    n_clusters: int
    state: str
    reading: float
    in_memory: float
    streamed: float
    ratio: float
    """The median over the iterations of streamed / max(reading, in memory)."""
    worst: float


def points(n_columns: int, megabytes: float, dtype: str) -> np.ndarray:
    """Return overlapping blobs of about that size."""
    rng = np.random.default_rng(n_columns)
    n = int(megabytes * 1e6 / n_columns / np.dtype(dtype).itemsize)
    centers = rng.normal(scale=2.0, size=(50, n_columns))
    return (centers[rng.integers(50, size=n)] + rng.normal(size=(n, n_columns))).astype(dtype)


def written(X: np.ndarray, folder: Path, kind: str) -> Path:
    """Write the points to a file of that kind."""
    path = folder / f"points.{kind}"
    if kind == "npy":
        np.save(path, X)
    else:
        import pyarrow
        import pyarrow.parquet

        columns = pyarrow.table({f"x{j}": X[:, j] for j in range(X.shape[1])})
        pyarrow.parquet.write_table(columns, path, row_group_size=1 << 17)
    return path


def reading_time(source: Source, rows: int) -> float:
    """Return the seconds of a pass in which nothing is done, the best of three."""
    best = np.inf
    for _ in range(3):
        begun = perf_counter()
        with closing(source.chunks(rows)) as chunks:
            for chunk in chunks:
                del chunk
        best = min(best, perf_counter() - begun)
    return best


def assignments(
    workspace: Any, seeds: np.ndarray, n_passes: int, clock: Callable[[], float] = perf_counter
) -> tuple[list[float], list[Any]]:
    """Return the seconds and the results of the first assignments, each at the means before."""
    seconds, found, centers = [], [], seeds
    for _ in range(n_passes):
        begun = clock()
        found.append(workspace.assign(centers))
        seconds.append(clock() - begun)
        centers = found[-1].means
    return seconds, found


def same(ours: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether all assignments are equal to the last bit."""
    return all(
        np.array_equal(getattr(a, field.name), getattr(b, field.name))
        for a, b in zip(ours, others, strict=True)
        for field in fields(a)
    )


def compared(
    X: np.ndarray, path: Path, n_clusters: int, state: str, limit: int, n_passes: int, repeats: int
) -> Result:
    """Measure one file."""
    n_threads = effective_threads(None)
    source = open_source(path)
    source.spare_memory(limit)
    at_once = min(n_threads, 4)
    reading_bytes = source.reading_bytes
    budget = Budget(limit, X.shape[1], X.dtype, n_clusters, reading_bytes, at_once=at_once)
    rows = budget.rows_per_chunk()
    seeds = X[np.random.default_rng(0).choice(len(X), n_clusters, replace=False)].copy()
    parts = FilePlace(source, Keeping(rows, state, at_once=at_once), n_threads=n_threads)
    whole = get_engine("cpu").open(X, None, n_threads, "bounds")
    reading = reading_time(source, rows)
    streamed = in_memory = [np.inf] * n_passes
    for _ in range(repeats):
        ours, found = assignments(PartsWorkspace(parts.fork(n_threads)), seeds, n_passes)
        others, expected = assignments(whole.fork(n_threads), seeds, n_passes)
        if not same(found, expected):
            raise AssertionError("streamed and in memory are not the same")
        streamed = [min(pair) for pair in zip(streamed, ours, strict=True)]
        in_memory = [min(pair) for pair in zip(in_memory, others, strict=True)]
        reading = min(reading, reading_time(source, rows))
    ratios = [c / max(reading, b) for c, b in zip(streamed, in_memory, strict=True)]
    return Result(
        path.suffix[1:],
        X.dtype.name,
        X.shape[1],
        n_clusters,
        state,
        reading,
        statistics.median(in_memory),
        statistics.median(streamed),
        statistics.median(ratios),
        max(ratios),
    )


def markdown(results: Sequence[Result], megabytes: float, limit: str) -> str:
    """Return the section of the page."""
    about = (
        f"Files of {megabytes:g} MB, chunks for a limit of {limit}, warm page cache, "
        f"{effective_threads(None)} threads, {platform.machine()}. Milliseconds of a pass, medians "
        "over the first iterations."
    )
    header = (
        "file", "columns", "clusters", "kept", "(a) reading", "(b) in memory", "(c) streamed",
        "c / max(a, b)", "worst",
    )  # fmt: skip
    rows = [
        [
            *(f"{r.kind}, {r.dtype}", str(r.n_columns), str(r.n_clusters), r.state),
            *(f"{1e3 * value:.0f}" for value in (r.reading, r.in_memory, r.streamed)),
            *(f"{r.ratio:.2f}", f"{r.worst:.2f}"),
        ]
        for r in results
    ]
    return f"{about}\n\n{table(header, rows, left=len(header))}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=200.0)
    parser.add_argument("--limit", default="64MB")
    parser.add_argument("--passes", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", default=["npy", "parquet"])
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--states", nargs="+", default=["bounds"], choices=STATES)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args(arguments)
    results = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        for n_columns in sorted({d for d, _ in SHAPES}):
            X = points(n_columns, options.megabytes, options.dtype)
            for kind in options.kinds:
                path = written(X, Path(folder), kind)
                limit = bytes_of(options.limit)
                if kind == "parquet":
                    limit += open_source(path).reading_bytes
                for n_clusters in (k for d, k in SHAPES if d == n_columns):
                    for state in options.states:
                        found = compared(
                            X, path, n_clusters, state, limit, options.passes, options.repeats
                        )
                        results.append(found)
                        print(found, flush=True)
    text = markdown(results, options.megabytes, options.limit)
    publish(text, options.write, MARK)


if __name__ == "__main__":
    main()
