"""wolfmeans on a Dask cluster beside dask-ml: the same cluster, data, start and iterations.

Both get the same collection, loaded on the workers, and the same array of seeds, and take the same
number of steps (no tolerance), in turn, several times; the median counts. Every end is checked: our
result against the same fit in memory, by ==, and both inertias against the sum of squared distances
to the centers that were returned, in float64. Then what a model of the cost needs: what a task
costs the scheduler, what a step costs beyond the work, how many bytes travel, how fast a worker is.

    pip install 'wolfmeans[dask]' dask-ml
    python benchmarks/on_dask.py [--cells 400000x16x50 ...] [--workers 2] [--iterations 10]
                                 [--repeats 3] [--quick] [--write docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import logging
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from distributed.comm.tcp import TCP
from report_pages import facts, publish, shape_option, spaced, table

from wolfmeans import KMeans
from wolfmeans.bench.machine import machine
from wolfmeans.bench.problems import Shape
from wolfmeans.bench.race import inertia
from wolfmeans.engines.places.memory import Labelling, MemoryPart, MemoryPlace
from wolfmeans.engines.places.workspace import PartsWorkspace

MARK = "dask-benchmark"
SHAPES = (Shape(400_000, 16, 50), Shape(1_000_000, 16, 100), Shape(400_000, 64, 20))
BLOCKS = 8
MANY_BLOCKS = (4, 40, 400)
TASKS = 500


@dataclass(frozen=True)
class Race:
    """Both on one collection."""

    shape: Shape
    iterations: int
    ours: float
    """Seconds, the median."""
    theirs: float | None
    same_as_in_memory: bool
    our_inertia: float
    our_true_inertia: float
    their_inertia: float | None
    their_true_inertia: float | None


@dataclass(frozen=True)
class Traffic:
    """What travels in one step, in bytes for each worker."""

    shape: Shape
    centers: int
    """The pickled question with the centers."""
    sums: int
    """The pickled partial result of one group of blocks."""
    sent_there: float
    """Measured: written by the client and the scheduler."""
    sent_back: float
    """Measured: written by the workers."""


@dataclass(frozen=True)
class Rate:
    """How fast a worker passes over its points, without bounds."""

    shape: Shape
    per_second: float
    """Multiplications and additions, 2 n d K in a pass, for each worker."""


def loaded(
    shape: Shape, n_blocks: int, seed: int = 5, dtype: Any = np.float64
) -> tuple[Any, np.ndarray]:
    """Return overlapping blobs, made on the workers, and seeds that are some of their rows."""
    n, d, k = shape.n, shape.d, shape.n_clusters
    sizes = [len(part) for part in np.array_split(np.arange(n), n_blocks)]

    def block(block_info: Any = None) -> np.ndarray:
        number = block_info[None]["chunk-location"][0]
        rng = np.random.default_rng([seed, number])
        centers = np.random.default_rng(seed).normal(scale=3.0, size=(k, d))
        own = rng.integers(k, size=sizes[number])
        return (centers[own] + rng.normal(size=(sizes[number], d))).astype(dtype)

    nothing = np.empty((0, d), dtype)
    X = da.map_blocks(block, chunks=(tuple(sizes), (d,)), dtype=dtype, meta=nothing)
    X = X.persist()
    wait(X)
    return X, np.ascontiguousarray(X[:k].compute())


def ours(shape: Shape, seeds: np.ndarray, iterations: int, **settings: Any) -> KMeans:
    return KMeans(
        shape.n_clusters,
        init=seeds,
        max_iter=iterations,
        stop="stationary",
        bound=None,
        empty="keep",
        **settings,
    )


def theirs(shape: Shape, seeds: np.ndarray, iterations: int) -> Any:
    from dask_ml.cluster import KMeans as Theirs

    return Theirs(shape.n_clusters, init=seeds, max_iter=iterations, tol=0.0)


def timed(fit: Callable[[], Any]) -> tuple[float, Any]:
    begun = perf_counter()
    model = fit()
    return perf_counter() - begun, model


def race(shape: Shape, iterations: int, repeats: int) -> Race:
    """Fit in turn, several times, and check the ends."""
    X, seeds = loaded(shape, BLOCKS)
    with_theirs = find_spec("dask_ml") is not None
    runs: dict[str, list[tuple[float, Any]]] = {"ours": [], "theirs": []}
    # Both load and compile in their first fit, which is not timed.
    ours(shape, seeds, 2).fit(X)
    if with_theirs:
        theirs(shape, seeds, 2).fit(X)
    for _ in range(repeats):
        runs["ours"].append(timed(lambda: ours(shape, seeds, iterations).fit(X)))
        if with_theirs:
            runs["theirs"].append(timed(lambda: theirs(shape, seeds, iterations).fit(X)))
    here = X.compute()
    mine, model = median(run[0] for run in runs["ours"]), runs["ours"][0][1]
    reference = ours(shape, seeds, iterations, engine="cpu").fit(here)
    same = (
        np.array_equal(model.cluster_centers_, reference.cluster_centers_)
        and np.array_equal(model.labels_.compute(), reference.labels_)
        and model.inertia_ == reference.inertia_
        and model.n_iter_ == reference.n_iter_
    )
    their_time = their_inertia = their_truth = None
    if with_theirs:
        their_time = median(run[0] for run in runs["theirs"])
        other = runs["theirs"][0][1]
        their_inertia = float(other.inertia_)
        their_truth = inertia(here, np.asarray(other.cluster_centers_))
    return Race(
        shape,
        iterations,
        mine,
        their_time,
        same,
        model.inertia_,
        inertia(here, model.cluster_centers_),
        their_inertia,
        their_truth,
    )


def cost_of_a_task(client: Client) -> float:
    """Return the seconds that a task takes which does nothing, among many."""

    def run() -> float:
        begun = perf_counter()
        wait(client.map(abs, range(TASKS), pure=False))
        return (perf_counter() - begun) / TASKS

    run()
    return min(run() for _ in range(3))


def seconds_per_step(shape: Shape, n_blocks: int, steps: int = 20) -> float:
    """Return what a step takes, the median; what a fit does once has no part in it."""
    X, seeds = loaded(shape, n_blocks)
    fitted = ours(shape, seeds, steps).fit(X)
    return float(np.median(np.diff(fitted.trace_.seconds)))


@contextmanager
def counted_bytes(client: Client) -> Iterator[Callable[[], tuple[int, int]]]:
    """Count what is written to sockets: here, by client and scheduler, and by the workers."""
    _count()
    client.run(_count)
    try:
        yield lambda: (_counted(), sum(client.run(_counted).values()))
    finally:
        client.run(_stop_counting)
        _stop_counting()


def _count() -> None:
    plain = TCP.write

    async def write(self: Any, *given: Any, **named: Any) -> int:
        written = await plain(self, *given, **named)
        TCP.written += written
        return written

    TCP.written, TCP.plain_write, TCP.write = 0, plain, write


def _counted() -> int:
    return TCP.written


def _stop_counting() -> None:
    TCP.write = TCP.plain_write


def traffic(client: Client, shape: Shape, workers: int) -> Traffic:
    """Return the bytes of a step: as they are pickled, and as they are written to sockets."""
    X, seeds = loaded(shape, BLOCKS)
    few, many = 3, 13
    # Data is moved once, before the first step; that is not counted.
    ours(shape, seeds, few).fit(X)
    with counted_bytes(client) as counted:
        written = []
        for iterations in (few, many):
            before = counted()
            ours(shape, seeds, iterations).fit(X)
            written.append([after - b for after, b in zip(counted(), before, strict=True)])
    there, back = ((b - a) / (many - few) / workers for a, b in zip(*written, strict=True))
    sample = X[:1000].compute()
    points = PartsWorkspace(MemoryPlace([MemoryPart(sample)]))
    question = Labelling(seeds, None, points.grids, bytes(16))
    answer = MemoryPart(sample).assign(question, None)
    return Traffic(shape, len(pickle.dumps(question)), len(pickle.dumps(answer)), there, back)


def rate(shape: Shape, workers: int) -> Rate:
    """Return how fast a pass is that looks at all centers for all points."""
    X, seeds = loaded(shape, BLOCKS)
    few, many = 2, 8
    ours(shape, seeds, few, algorithm="dense").fit(X)
    times = []
    for steps in (few, many):
        fit = partial(ours(shape, seeds, steps, algorithm="dense").fit, X)
        times.append(min(timed(fit)[0] for _ in range(2)))
    work = 2.0 * shape.n * shape.d * shape.n_clusters * (many - few)
    return Rate(shape, work / (times[1] - times[0]) / workers)


def markdown(
    races: Sequence[Race],
    task: float,
    steps: dict[int, float],
    travelled: Sequence[Traffic],
    rates: Sequence[Rate],
    options: argparse.Namespace,
) -> str:
    """Write the section of the page."""
    rows = [
        (
            spaced(r.shape),
            str(r.iterations),
            f"{r.ours:.2f}",
            "" if r.theirs is None else f"{r.theirs:.2f}",
            "" if r.theirs is None else f"{r.theirs / r.ours:.1f}",
            "yes" if r.same_as_in_memory else "NO",
            f"{r.our_inertia / r.our_true_inertia - 1:+.0e}",
            ""
            if r.their_inertia is None or r.their_true_inertia is None
            else f"{r.their_inertia / r.their_true_inertia - 1:+.0%}",
        )
        for r in races
    ]
    header = (
        "n, d, K", "iterations", "wolfmeans, s", "dask-ml, s", "ratio", "== in memory",
        "inertia, wolfmeans", "inertia, dask-ml",
    )  # fmt: skip
    lines = [
        f"{options.workers} workers of one thread on one machine, {BLOCKS} blocks of float64, "
        f"{date.today().isoformat()}: {facts(machine(options.workers))}.",
        "",
        table(header, rows, left=1),
        "",
        "The inertia is the reported one beside the sum of squared distances to the returned "
        "centers in float64. dask-ml sums distances that are not squared when it stops at "
        "`max_iter`.",
        "",
        f"A task that does nothing takes {1e3 * task:.2f} ms. A further step of "
        f"{min(options.small.n, 10**9)} x {options.small.d} points takes "
        + ", ".join(f"{1e3 * s:.0f} ms in {n} blocks" for n, s in steps.items())
        + ": blocks of one worker are asked together.",
        "",
        table(
            ("n, d, K", "centers, bytes", "sums of a group, bytes", "to a worker", "from a worker"),
            [
                (
                    spaced(t.shape),
                    str(t.centers),
                    str(t.sums),
                    f"{t.sent_there:.0f}",
                    f"{t.sent_back:.0f}",
                )
                for t in travelled
            ],
            left=1,
        ),
        "",
        "Bytes of one step for each worker: pickled, and written to sockets (a group of blocks is "
        "a question; there are up to two for a thread).",
        "",
        table(
            ("n, d, K", "10^9 operations per second and worker"),
            [(spaced(r.shape), f"{r.per_second / 1e9:.1f}") for r in rates],
            left=1,
        ),
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", nargs="+", type=shape_option, default=list(SHAPES))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="small shapes, once: for tests")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args(arguments)
    options.small = Shape(8_000, 8, 20)
    many_blocks: Sequence[int] = MANY_BLOCKS
    if options.quick:
        options.cells, options.repeats = [shape.quick() for shape in options.cells[:1]], 1
        options.small, many_blocks = options.small.quick(), (4,)
    warnings.simplefilter("ignore")
    logging.getLogger("distributed").setLevel(logging.ERROR)
    with (
        LocalCluster(
            n_workers=options.workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
        ) as cluster,
        Client(cluster) as client,
    ):
        races = []
        for shape in options.cells:
            races.append(race(shape, options.iterations, options.repeats))
            print(races[-1], flush=True)
        task = cost_of_a_task(client)
        steps = {n: seconds_per_step(options.small, n) for n in many_blocks}
        travelled = [traffic(client, shape, options.workers) for shape in options.cells]
        rates = [rate(shape, options.workers) for shape in options.cells]
    text = markdown(races, task, steps, travelled, rates, options)
    publish(text, options.write, MARK)


if __name__ == "__main__":
    main()
