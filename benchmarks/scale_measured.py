"""Measuring for the model of `scale_model.py`: its coefficients, and the runs it is held against.

Steps are timed one by one, each the best of several runs of one and the same start. Work in this
process is timed by what its cores did, which others on the machine disturb less than the clock on
the wall; steps on a cluster by both. Which share of the points bounds leave open is counted,
not timed, and on a sample: it belongs to the data.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean
from time import perf_counter, process_time
from typing import Any

import numpy as np
from distributed import Client, LocalCluster
from on_dask import cost_of_a_task, loaded, ours
from out_of_core import assignments, points, reading_time, written
from scale_model import (
    Cluster,
    Coefficients,
    Dispatch,
    Work,
    candidates,
    relative_fit,
)

from wolfmeans.bench.problems import Shape
from wolfmeans.engines import get_engine, native
from wolfmeans.engines.places.file import FilePlace, Keeping
from wolfmeans.engines.places.memory import Labelling, MemoryPart, MemoryPlace
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.inputs.dask_collections import opened
from wolfmeans.inputs.opening import open_source
from wolfmeans.seeding.in_parts import parallel_seeds_in_parts

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
    # Seeds from a network may not be aligned.
    centers = np.require(seeds, requirements="CA")
    workspace, shares = native._open(), []
    for _ in range(n_steps):
        found = workspace.assign(centers, None, None)
        shares.append(found[5] / len(sample))
        centers = found[3]
    return shares


def in_parts(X: np.ndarray, n_parts: int) -> PartsWorkspace:
    split = np.array_split(X, n_parts)
    return PartsWorkspace(MemoryPlace([MemoryPart(rows, algorithm="bounds") for rows in split]))


def core_seconds(call: Callable[[], Any]) -> float:
    """Return the seconds of all cores in this process."""
    begun = process_time()
    call()
    return process_time() - begun


def steps_of(
    open_points: Callable[[], Any],
    X: np.ndarray,
    seeds: np.ndarray,
    repeats: int,
    clock: Callable[[], float] = process_time,
) -> Steps:
    """Time the first steps of a workspace that a function opens."""
    best = np.full(MANY, np.inf)
    for _ in range(repeats):
        best = np.minimum(best, assignments(open_points(), seeds, MANY, clock)[0])
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
    here, part = in_parts(X, 1), MemoryPart(X)
    sums = part.assign(Labelling(seeds, None, here.grids, bytes(16)), None)

    def judged() -> None:
        here.step(native.rounded(sums, seeds), seeds)

    return min(core_seconds(judged) for _ in range(3 * repeats)) / (k * d)


def overheads(
    kinds: Sequence[tuple[int, int, int]], mean_entry: float, repeats: int
) -> list[float]:
    """Fit what parts with hardly any points cost: a step, a part, an int64 of its sums."""
    features, seconds, whole = [], [], []
    for n_parts, d, k in kinds:
        X, seeds = blobs(Shape(max(64 * n_parts, k), d, k))
        here = in_parts(X, n_parts)
        here.assign(seeds)
        times = []
        for _ in range(3 * repeats):
            # With centers that hardly move, almost no time goes into points.
            seeds = seeds * np.float32(1 + 1e-6)
            times.append(core_seconds(lambda s=seeds, o=here: o.assign(s)))
        features.append([1.0, n_parts, n_parts * k * d * here.grids.sums.shape])
        seconds.append(min(times) - mean_entry * k * d)
        whole.append(min(times))
    return relative_fit(features, seconds, whole)


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


def cluster_steps(client: Client, shape: Shape, n_blocks: int, repeats: int) -> tuple[Steps, Steps]:
    """Time steps with the workspace of a fit: by all cores, and by the clock on the wall."""
    X, seeds = loaded(shape, n_blocks, dtype=np.float32)
    model = ours(shape, seeds, MANY, algorithm="bounds")
    sample = np.asarray(X[:SAMPLE].compute())

    def cores() -> float:
        # The scheduler is in this process.
        return process_time() + sum(client.run(process_time).values())

    asking = -max(cores() - cores() for _ in range(5))
    with opened(model, X, None) as blocks:

        def steps(clock: Callable[[], float]) -> Steps:
            return steps_of(lambda: blocks.points.fork(1), sample, seeds, repeats, clock)

        # Workers load and compile in their first step, which is not timed.
        blocks.points.fork(1).assign(seeds)
        by_cores, by_wall = steps(cores), steps(perf_counter)
    by_cores = replace(by_cores, first=by_cores.first - asking, later=by_cores.later - asking)
    return replace(by_cores, shape=shape), replace(by_wall, shape=shape)


def cluster_overheads(
    kinds: Sequence[tuple[Cluster, int, int, int]], known: Coefficients, repeats: int
) -> dict[str, Any]:
    """Fit what a step on a cluster costs beyond the work: a step, tasks, bytes; by both clocks."""
    features: list[list[float]] = []
    rest: dict[str, list[float]] = {"cores": [], "wall": []}
    whole: dict[str, list[float]] = {"cores": [], "wall": []}
    empty = np.inf
    for cluster, n_blocks, d, k in kinds:
        shape = Shape(max(64 * n_blocks, 4 * k), d, k)
        with cluster_of(cluster) as client:
            by_cores, by_wall = cluster_steps(client, shape, n_blocks, repeats)
            empty = min(empty, cost_of_a_task(client))
        share = by_cores.open_share
        plain = known.on_cores(shape, n_blocks, cluster, share)
        units = (Dispatch(step=1.0), Dispatch(task=1.0), Dispatch(byte=1.0))
        features.append(
            [
                replace(known, cores=unit).on_cores(shape, n_blocks, cluster, share) - plain
                for unit in units
            ]
        )
        without = known.on_cluster(shape, n_blocks, cluster, share).seconds
        for clock, measured, work in (("cores", by_cores, plain), ("wall", by_wall, without)):
            rest[clock].append(measured.later - work)
            whole[clock].append(measured.later)
    fitted = {clock: Dispatch(*relative_fit(features, rest[clock], whole[clock])) for clock in rest}
    return {**fitted, "empty_task": float(empty)}


def crowding(shape: Shape, repeats: int) -> float:
    """Return how much longer a core takes for points while another one works, too."""

    def first_step() -> float:
        X, seeds = blobs(shape)
        return min(core_seconds(lambda: in_parts(X, 1).assign(seeds)) for _ in range(5 * repeats))

    with cluster_of(Cluster(2)) as client:
        workers = list(client.nthreads())

        def on(some: Sequence[str]) -> float:
            futures = [client.submit(first_step, workers=[one], pure=False) for one in some]
            return mean(client.gather(futures))

        on(workers)
        return max(1.0, on(workers) / on(workers[:1]))


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
    parts = FilePlace(open_source(path), Keeping(rows, "bounds"), n_threads=1)
    return steps_of(lambda: PartsWorkspace(parts.fork(1)), X, seeds, repeats)


def chunk_overheads(
    folder: Path, known: Coefficients, kinds: Sequence[tuple[Shape, int]], repeats: int
) -> list[float]:
    """Fit what a chunk and its bytes cost beyond the points: of files in so many chunks."""
    features, seconds, whole = [], [], []
    for shape, n_chunks in kinds:
        X, seeds = blobs(shape)
        rows = -(-shape.n // n_chunks)
        found = streamed(X, seeds, written(X, folder, "npy"), rows, repeats)
        for step, share in ((found.first, None), (found.later, found.open_share)):
            features.append([n_chunks, X.nbytes])
            seconds.append(step - known.in_memory(shape, n_chunks, share))
            whole.append(step)
    return relative_fit(features, seconds, whole)


def seeding_seconds(shape: Shape, n_parts: int, repeats: int) -> float:
    X, _ = blobs(shape)
    best = np.inf
    for _ in range(repeats):
        here = in_parts(X, n_parts)
        state = np.random.RandomState(0)
        best = min(
            best,
            core_seconds(lambda o=here, s=state: parallel_seeds_in_parts(o, shape.n_clusters, s)),
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
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def state_bytes(shape: Shape) -> float:
    """Return by how much a process grows with the first steps, for each point."""
    X, seeds = blobs(shape)
    ctypes.CDLL(None).malloc_trim(0)
    before = resident()
    here = in_parts(X, 1)
    assignments(here, seeds, 2)
    return max(resident() - before, 0) / shape.n


def share_until(shape: Shape, n_steps: int) -> float:
    """Return the share of open points in the last ten of some steps."""
    X, seeds = blobs(shape)
    return mean(open_shares(X, seeds, n_steps)[-10:])


# --- Checks ----------------------------------------------------------------------------------


def check_steps(
    where: str, shape: Shape, model: Callable[[float | None], float], found: Steps
) -> list[Check]:
    """Compare the first step and later ones with a model of the share of open points."""
    later = model(found.open_share)
    return [
        Check(where, shape, "first", model(None), found.first),
        Check(where, shape, "later", later, found.later, found.open_share),
    ]


def check_memory(known: Coefficients, shape: Shape, n_parts: int, repeats: int) -> list[Check]:
    X, seeds = blobs(shape)
    found = steps_of(lambda: in_parts(X, n_parts), X, seeds, repeats)
    model = partial(known.in_memory, shape, n_parts)
    return check_steps(f"memory, {n_parts} parts", shape, model, found)


def check_file(known: Coefficients, folder: Path, shape: Shape, repeats: int) -> list[Check]:
    X, seeds = blobs(shape)
    path = written(X, folder, "npy")
    rows = max(1024, min(CHUNK // (4 * shape.d), shape.n // 4))
    found = streamed(X, seeds, path, rows, repeats)
    chunks = -(-shape.n // rows)
    model = partial(known.streamed, shape, chunks)
    return check_steps(f"file, {chunks} chunks", shape, model, found)


def check_cluster(
    known: Coefficients,
    client: Client,
    cluster: Cluster,
    shape: Shape,
    n_blocks: int,
    repeats: int,
) -> list[Check]:
    by_cores, by_wall = cluster_steps(client, shape, n_blocks, repeats)
    where = f"Dask, {cluster.workers} workers, {n_blocks} blocks"
    found = []
    for step, share in (("first", None), ("later", by_cores.open_share)):
        cores = known.on_cores(shape, n_blocks, cluster, share)
        wall = known.on_cluster(shape, n_blocks, cluster, share).seconds
        found += [
            Check(where, shape, step, cores, getattr(by_cores, step), share),
            Check(where, shape, f"{step}, by the wall", wall, getattr(by_wall, step), share),
        ]
    return found


def check_seeding(known: Coefficients, shape: Shape, repeats: int) -> Check:
    measured = seeding_seconds(shape, 4, repeats)
    return Check("memory, 4 parts", shape, "seeding", known.seeding(shape), measured)
