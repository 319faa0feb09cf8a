"""Measuring for the model of `scale_model.py`: its coefficients, and the runs it is held against.

Steps are timed one by one, each the best of several runs of one and the same start. Which share of
the points bounds leave open is counted, not timed, and on a sample: it belongs to the data.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from time import perf_counter
from typing import Any

import numpy as np
from distributed import Client, LocalCluster
from on_dask import cost_of_a_task, loaded, ours, timed
from out_of_core import assignments, points, reading_time, written
from scale_model import (
    Cluster,
    Coefficients,
    Work,
    candidates,
    relative_fit,
)

from wolfmeans.bench.problems import Shape
from wolfmeans.engines import get_engine
from wolfmeans.engines.array_parts import ArrayPart, Labelling, LocalParts
from wolfmeans.engines.parts import PartedPoints
from wolfmeans.engines.seeding_in_parts import parallel_seeds_in_parts
from wolfmeans.engines.source_parts import Keeping, SourceParts
from wolfmeans.engines.source_points import SourcePoints
from wolfmeans.sources import open_source

FEW, MANY = 3, 13
"""Later steps are those between."""
SAMPLE = 20_000
CHUNK = 1 << 23


@dataclass(frozen=True)
class Steps:
    """Seconds of steps, and which share of the points was open in the later ones."""

    shape: Shape
    first: float
    later: float
    """The mean of some."""
    open_share: float


@dataclass(frozen=True)
class Check:
    """The model and a run."""

    where: str
    shape: Shape
    step: str
    predicted: float
    measured: float
    open_share: float | None = None
    """Of a later step."""

    @property
    def ratio(self) -> float:
        """Above 1 where the model asks for too much."""
        return self.predicted / self.measured


def blobs(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Return float32 points and seeds that are some of them."""
    X = points(shape.d, shape.n * shape.d * 4 / 1e6, "float32")
    return X, X[: shape.n_clusters].copy()


def open_shares(X: np.ndarray, seeds: np.ndarray, n_steps: int) -> list[float]:
    """Return which share of a sample's points was compared with centers in each step."""
    sample = np.ascontiguousarray(X[:SAMPLE])
    native: Any = get_engine("cpu").open(sample, None, 1, "bounds")
    opened, centers, shares = native._open(None), seeds, []
    for _ in range(n_steps):
        found = opened.assign(centers, None, None)
        shares.append(found[5] / len(sample))
        centers = found[3]
    return shares


def in_parts(X: np.ndarray, n_parts: int) -> PartedPoints:
    split = np.array_split(X, n_parts)
    return PartedPoints(LocalParts([ArrayPart(rows, algorithm="bounds") for rows in split]))


def steps_of(open_points: Any, X: np.ndarray, seeds: np.ndarray, repeats: int) -> Steps:
    """Time the first steps of a workspace that a function opens."""
    best = np.full(MANY, np.inf)
    for _ in range(repeats):
        best = np.minimum(best, assignments(open_points(), seeds, MANY)[0])
    shares = open_shares(X, seeds, MANY)
    shape = Shape(len(X), X.shape[1], len(seeds))
    return Steps(shape, best[0], float(best[FEW:].mean()), mean(shares[FEW:]))


# --- Coefficients ----------------------------------------------------------------------------


def work(shapes: Sequence[Shape], repeats: int) -> Work:
    """Fit the work with points to steps of one part in one thread."""
    found = []
    for shape in shapes:
        X, seeds = blobs(shape)
        found.append(steps_of(lambda X=X: in_parts(X, 1), X, seeds, repeats))
    dense = Work(*relative_fit([Work.features(s.shape) for s in found], [s.first for s in found]))
    kept, again = relative_fit(
        [[s.shape.n, s.open_share * dense.first(s.shape)] for s in found],
        [s.later for s in found],
    )
    return Work(dense.point, dense.column, dense.center, dense.product, kept, again)


def rounding(d: int, k: int, repeats: int) -> float:
    """Return the seconds in which an entry of the centers is rounded and judged."""
    X, seeds = blobs(Shape(4 * k, d, k))
    opened, part = in_parts(X, 1), ArrayPart(X)
    sums = part.assign(Labelling(seeds, None, opened.grids, bytes(16)), None)

    def judged() -> None:
        opened.step(opened._arithmetic.rounded(sums, seeds), seeds)

    return min(timed(judged)[0] for _ in range(3 * repeats)) / (k * d)


def overheads(
    kinds: Sequence[tuple[int, int, int]], mean_entry: float, repeats: int
) -> list[float]:
    """Fit what parts with hardly any points cost: a step, a part, an int64 of its sums."""
    features, seconds = [], []
    for n_parts, d, k in kinds:
        X, seeds = blobs(Shape(max(64 * n_parts, k), d, k))
        opened = in_parts(X, n_parts)
        opened.assign(seeds)
        times = []
        for _ in range(3 * repeats):
            # Centers that hardly move: what is left is what is not about points.
            seeds = seeds * np.float32(1 + 1e-6)
            times.append(timed(lambda s=seeds, o=opened: o.assign(s))[0])
        features.append([1.0, n_parts, n_parts * k * d * opened.grids.sums.shape])
        seconds.append(max(min(times) - mean_entry * k * d, 0.1 * min(times)))
    return relative_fit(features, seconds)


@contextmanager
def cluster_of(cluster: Cluster) -> Any:
    with (
        LocalCluster(
            n_workers=cluster.workers,
            threads_per_worker=cluster.threads_of_dask,
            processes=True,
            dashboard_address=None,
        ) as local,
        Client(local) as client,
    ):
        yield client


def cluster_steps(
    shape: Shape, n_blocks: int, repeats: int, algorithm: str = "bounds"
) -> tuple[float, float]:
    """Return the seconds of a later step on the cluster, and the share of open points."""
    X, seeds = loaded(shape, n_blocks, dtype=np.float32)
    ours(shape, seeds, 1, algorithm=algorithm).fit(X)
    few, many = (1, 9) if algorithm == "dense" else (FEW, MANY)
    best, taken = {few: np.inf, many: np.inf}, {}
    for _ in range(repeats):
        for steps in (few, many):
            fitted = ours(shape, seeds, steps, algorithm=algorithm)
            best[steps] = min(best[steps], timed(lambda f=fitted: f.fit(X))[0])
            taken[steps] = fitted.n_iter_
    shares = open_shares(np.asarray(X.blocks[0].compute()), seeds, MANY)
    return (best[many] - best[few]) / (taken[many] - taken[few]), mean(shares[FEW:])


def cluster_overheads(
    kinds: Sequence[tuple[Cluster, int, int, int]], known: Coefficients, repeats: int
) -> dict[str, float]:
    """Fit what a step on a cluster costs beyond the work: waiting, tasks, bytes."""
    features, seconds, empty = [], [], np.inf
    for cluster, n_blocks, d, k in kinds:
        shape = Shape(max(64 * n_blocks, 4 * k), d, k)
        with cluster_of(cluster) as client:
            measured, share = cluster_steps(shape, n_blocks, repeats)
            empty = min(empty, cost_of_a_task(client))
        plain = known.on_cluster(shape, n_blocks, cluster, share)
        extra = []
        for name in ("step", "task", "byte"):
            with_one = with_values(known, **{name: 1.0})
            step = with_one.on_cluster(shape, n_blocks, cluster, share)
            extra.append(step.seconds - plain.seconds)
        features.append(extra)
        seconds.append(max(measured - plain.seconds, 0.2 * measured))
    step, task, byte = relative_fit(features, seconds)
    return {"step": step, "task": task, "byte": byte, "empty_task": float(empty)}


def with_values(known: Coefficients, **changed: Any) -> Coefficients:
    return Coefficients(**{**vars(known), **changed})


def file_rates(folder: Path, megabytes: float) -> tuple[float, float]:
    """Return the seconds of a byte: of a file that is in memory, and of one that is not."""
    X = points(16, megabytes, "float32")
    path = written(X, folder, "npy")
    source = open_source(path)
    rows = CHUNK // 64
    warm = reading_time(source, rows)
    cold = np.inf
    for _ in range(2):
        handle = os.open(path, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)
        begun = perf_counter()
        for chunk in source.chunks(rows):
            del chunk
        cold = min(cold, perf_counter() - begun)
    return warm / X.nbytes, cold / X.nbytes


def streamed(X: np.ndarray, seeds: np.ndarray, path: Path, rows: int, repeats: int) -> Steps:
    """Time steps that are streamed from a file by one thread."""
    parts = SourceParts(open_source(path), Keeping(rows, "bounds"), n_threads=1)
    return steps_of(lambda: SourcePoints(parts.fork(1)), X, seeds, repeats)


def chunk_overheads(
    folder: Path, known: Coefficients, kinds: Sequence[tuple[Shape, int]], repeats: int
) -> list[float]:
    """Fit what a chunk and its bytes cost beyond the points: of files in so many chunks."""
    features, seconds = [], []
    for shape, n_chunks in kinds:
        X, seeds = blobs(shape)
        rows = -(-shape.n // n_chunks)
        found = streamed(X, seeds, written(X, folder, "npy"), rows, repeats)
        for step, share in ((found.first, None), (found.later, found.open_share)):
            rest = step - known.in_memory(shape, n_chunks, share)
            features.append([n_chunks, X.nbytes])
            seconds.append(max(rest, 0.1 * step))
    return relative_fit(features, seconds)


def seeding_seconds(shape: Shape, n_parts: int, repeats: int) -> float:
    X, _ = blobs(shape)
    best = np.inf
    for _ in range(repeats):
        opened = in_parts(X, n_parts)
        state = np.random.RandomState(0)
        best = min(
            best,
            timed(lambda o=opened, s=state: parallel_seeds_in_parts(o, shape.n_clusters, s))[0],
        )
    return best


def seeding(shapes: Sequence[Shape], repeats: int) -> list[float]:
    """Fit k-means|| on two parts."""
    features, seconds = [], []
    for shape in shapes:
        n, d, k, many = shape.n, shape.d, shape.n_clusters, candidates(shape.n_clusters)
        features.append([n, n * d, n * d * many, many * k * d])
        seconds.append(seeding_seconds(shape, 2, repeats))
    return relative_fit(features, seconds)


def resident() -> int:
    """Return the bytes that this process has in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def state_bytes(shape: Shape) -> float:
    """Return by how much a process grows with the first steps, for each point."""
    X, seeds = blobs(shape)
    ctypes.CDLL(None).malloc_trim(0)
    before = resident()
    opened = in_parts(X, 1)
    assignments(opened, seeds, 2)
    return max(resident() - before, 0) / shape.n


# --- Checks ----------------------------------------------------------------------------------


def check_memory(known: Coefficients, shape: Shape, n_parts: int, repeats: int) -> list[Check]:
    X, seeds = blobs(shape)
    found = steps_of(lambda: in_parts(X, n_parts), X, seeds, repeats)
    where = f"memory, {n_parts} parts"
    first = known.in_memory(shape, n_parts, None)
    later = known.in_memory(shape, n_parts, found.open_share)
    return [
        Check(where, shape, "first", first, found.first),
        Check(where, shape, "later", later, found.later, found.open_share),
    ]


def check_file(known: Coefficients, folder: Path, shape: Shape, repeats: int) -> list[Check]:
    X, seeds = blobs(shape)
    path = written(X, folder, "npy")
    rows = max(1024, min(CHUNK // (4 * shape.d), shape.n // 4))
    found = streamed(X, seeds, path, rows, repeats)
    chunks = -(-shape.n // rows)
    where = f"file, {chunks} chunks"
    return [
        Check(where, shape, "first", known.out_of_core(shape, chunks, None), found.first),
        Check(
            where,
            shape,
            "later",
            known.out_of_core(shape, chunks, found.open_share),
            found.later,
            found.open_share,
        ),
    ]


def check_cluster(
    known: Coefficients, cluster: Cluster, shape: Shape, n_blocks: int, repeats: int
) -> list[Check]:
    """A step without bounds is as the first one; that cannot be timed alone on a cluster."""
    found = []
    where = f"Dask, {cluster.workers} workers, {n_blocks} blocks"
    for step, algorithm in (("first", "dense"), ("later", "bounds")):
        seconds, share = cluster_steps(shape, n_blocks, repeats, algorithm)
        share_of = None if step == "first" else share
        model = known.on_cluster(shape, n_blocks, cluster, share_of)
        found.append(Check(where, shape, step, model.seconds, seconds, share_of))
    return found


def check_seeding(known: Coefficients, shape: Shape, repeats: int) -> Check:
    measured = seeding_seconds(shape, 4, repeats)
    return Check("memory, 4 parts", shape, "seeding", known.seeding(shape), measured)
