"""The parts of cpu.py: its settings, and `measure_<part>`, which returns a record."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
from cpu_report import MAX_ITER, DensePass, Memory, Scaling, Seeding, Starts, StartUp
from data import DATA, SHAPES, MissingDataError, sources, sparse_sources
from sklearn.cluster import KMeans as PeerKMeans
from sklearn.cluster import kmeans_plusplus
from threadpoolctl import threadpool_limits

from wolfmeans import KMeans
from wolfmeans.bench import race as competition
from wolfmeans.bench.peers import Limits, Method, ScikitLearn, Wolfmeans
from wolfmeans.bench.problems import Points, Problem, Shape, blobs, uniform_problem
from wolfmeans.bench.race import SKIP_SLOW, Race
from wolfmeans.engines import get_engine
from wolfmeans.seeding.methods import choose_seeds

DTYPES = ("float32", "float64")
PARTS = ("fits", "seeding", "sparse", "starts", "dense", "threads", "memory", "start-up")
SCALED = (Shape(200_000, 2, 100), Shape(100_000, 32, 256), Shape(20_000, 768, 500))
STARTED = (Shape(150, 4, 3), Shape(2_000, 5, 10))
STARTS = 20
TO_THE_END = 1_000  # iterations; small data has fixed labels long before
MEASURABLE_MEMORY = 20_000  # with fewer points the allocator's own pages are most of it


@dataclass(frozen=True)
class Settings:
    """What the options ask for."""

    parts: Sequence[str]
    shapes: Sequence[Shape]
    data: Sequence[str]
    dtypes: Sequence[str]
    threads: int
    repeats: int
    budget: float
    limit: float
    quick: bool
    mnist: Path | None
    skip_slow: float = SKIP_SLOW

    def problems(self, missing: list[str]) -> Iterator[Problem]:
        """Yield all cells; data that cannot be had is added to `missing`."""
        for source in sources(self.data, self.shapes, quick=self.quick, mnist=self.mnist):
            try:
                yield from source.problems(self.dtypes)
            except MissingDataError as error:
                missing.append(f"{source.data} ({error})")

    def sparse_problems(self) -> Iterator[Problem]:
        for source in sparse_sources(quick=self.quick):
            yield from source.problems(self.dtypes)

    def shapes_where(self, suits: Callable[[Shape], bool]) -> list[Shape]:
        """Return the chosen shapes that suit a part, or all where none does."""
        chosen = [shape for shape in self.shapes if suits(shape)] or list(self.shapes)
        return [shape.quick() for shape in chosen[:1]] if self.quick else chosen

    def describe(self) -> str:
        if self.quick:
            return "A quick run on shrunken data: these numbers mean nothing"
        chosen = (self.shapes, self.data, self.dtypes, self.parts)
        everything = all(
            set(some) == set(whole)
            for some, whole in zip(chosen, (SHAPES, DATA, DTYPES, PARTS), strict=True)
        )
        cut = "" if math.isinf(self.limit) else f", cut to about {self.limit:g} s for a fit"
        return ("All cells" if everything else "A selection of the cells and parts") + cut


def seconds_of(call: Callable[..., Any], *arguments: Any) -> float:
    begun = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - begun


@dataclass
class Draws:
    """What one method took and reached with the seeds 0, 1, …"""

    seconds: list[float] = field(default_factory=list)
    inertias: list[float] = field(default_factory=list)


def in_turn(
    draws: Sequence[Callable[[int], Points]], points: Points, settings: Settings
) -> list[Draws]:
    """Draw centers with as many seeds as the repeats and the budget allow, each seed by all."""
    found = [Draws() for _ in draws]
    for seed in range(settings.repeats):
        if seed and max(sum(one.seconds) for one in found) * (1 + 1 / seed) > settings.budget:
            break
        for draw, one in zip(draws, found, strict=True):
            begun = time.perf_counter()
            centers = draw(seed)
            one.seconds.append(time.perf_counter() - begun)
            one.inertias.append(competition.inertia(points, centers))
    return found


def measure_fits(problem: Problem, settings: Settings, peers: Sequence[Method]) -> Race:
    ours, max_iter = Wolfmeans(), MAX_ITER
    if math.isfinite(settings.limit):
        max_iter = competition.iterations_within(
            settings.limit,
            problem,
            [ours, *peers],
            Limits(max_iter, settings.threads),
        )
    return competition.race(
        problem,
        ours,
        peers,
        Limits(max_iter, settings.threads),
        repeats=settings.repeats,
        budget=settings.budget,
        skip_slow=settings.skip_slow,
    )


def measure_seeding(problem: Problem, settings: Settings) -> Seeding:
    n_clusters = problem.shape.n_clusters
    trials = 2 + int(math.log(n_clusters))

    def here(points: Points, k: int, seed: int) -> Points:
        workspace = get_engine().open(points, None, settings.threads)
        return choose_seeds(workspace, k, "k-means++", np.random.RandomState(seed))

    def there(points: Points, k: int, seed: int) -> Points:
        return kmeans_plusplus(points, k, random_state=seed, n_local_trials=trials)[0]

    points = problem.points
    if math.isfinite(settings.limit):
        few = max(2, n_clusters // 16)
        slowest = max(seconds_of(draw, points, few, 0) for draw in (here, there))
        share = settings.limit * few / (slowest * n_clusters)
        points = points[: max(2 * n_clusters, int(share * len(points)))]
    ours, peers = in_turn(
        [lambda seed: here(points, n_clusters, seed), lambda seed: there(points, n_clusters, seed)],
        points,
        settings,
    )
    return Seeding(
        shape=Shape(*points.shape, n_clusters),
        data=problem.data,
        dtype=problem.dtype,
        trials=trials,
        draws=len(ours.seconds),
        seconds=median(ours.seconds),
        peer_seconds=median(peers.seconds),
        potential=mean(ours.inertias) / mean(peers.inertias),
    )


def measure_starts(shape: Shape, dtype: str, settings: Settings) -> Starts:
    points = blobs(shape, np.random.default_rng(0)).astype(dtype)
    common = {"init": "random", "n_init": STARTS, "max_iter": TO_THE_END}

    def here(seed: int) -> Points:
        model = KMeans(
            shape.n_clusters,
            stop="stationary",
            bound=None,
            n_threads=settings.threads,
            random_state=seed,
            **common,
        )
        return model.fit(points).cluster_centers_

    def there(seed: int) -> Points:
        model = PeerKMeans(shape.n_clusters, tol=0.0, random_state=seed, **common)
        return model.fit(points).cluster_centers_

    ours, peers = in_turn([here, there], points, settings)
    return Starts(
        shape=shape,
        data="blobs",
        dtype=dtype,
        starts=STARTS,
        repeats=len(ours.seconds),
        seconds=median(ours.seconds),
        peer_seconds=median(peers.seconds),
        best=min(ours.seconds),
        peer_best=min(peers.seconds),
        inertia=mean(ours.inertias) / mean(peers.inertias),
    )


def sgemm_gflops(shape: Shape, threads: int, seconds: float = 0.5) -> float:
    """Return the best rate of NumPy's float32 product, points times centers, by blocks of rows.

    One thread is tried as well as all: on a busy machine a product spread over threads can wait
    for a descheduled one in every call, and so low a rate would flatter what is held against it.
    """
    rng = np.random.default_rng(0)
    rows = min(shape.n, 8192)
    left = rng.random((rows, shape.d), dtype=np.float32)
    right = rng.random((shape.d, shape.n_clusters), dtype=np.float32)
    out = np.empty((rows, shape.n_clusters), dtype=np.float32)
    best = math.inf
    for count in {1, threads}:
        with threadpool_limits(count):
            spent = 0.0
            while spent < seconds:
                taken = seconds_of(np.matmul, left, right, out)
                best, spent = min(best, taken), spent + taken
    return 2e-9 * rows * shape.d * shape.n_clusters / best


def measure_dense(shape: Shape, dtype: str, settings: Settings) -> DensePass:
    """Time one pass: the best eight iterations less the best two, which drops all fixed costs."""
    problem, method, times = uniform_problem(shape, dtype), Wolfmeans("dense"), []
    for count in (2, 8):
        limits = Limits(count, settings.threads)
        times.append(min(seconds_of(method.fit, problem, limits) for _ in range(3)))
    flops = 2e-9 * shape.n * shape.d * shape.n_clusters
    rate = flops / (max(times[1] - times[0], 1e-9) / 6)
    return DensePass(shape, dtype, rate, sgemm_gflops(shape, settings.threads))


def measure_scaling(shape: Shape, dtype: str, settings: Settings) -> Scaling:
    problem, method, iterations = uniform_problem(shape, dtype), Wolfmeans(), 20
    if math.isfinite(settings.limit):
        iterations = competition.iterations_within(
            settings.limit, problem, [method], Limits(iterations, 1)
        )
    powers = {2**i for i in range(settings.threads.bit_length())}
    times = {
        threads: min(seconds_of(method.fit, problem, Limits(iterations, threads)) for _ in range(2))
        for threads in sorted(powers | {settings.threads})
    }
    return Scaling(shape, dtype, iterations, {t: times[1] / times[t] for t in times})


# --- In fresh processes ----------------------------------------------------------------------

# On Linux ru_maxrss survives exec: in a child it starts at the parent's size. VmHWM does not.
MEMORY_OF_A_FIT = """
import resource, sys, warnings
from pathlib import Path
import numpy as np
warnings.simplefilter("ignore")
module, n, d, n_clusters, dtype, threads = sys.argv[1:]
n, d, n_clusters = int(n), int(d), int(n_clusters)
options = {"n_init": 1, "max_iter": 5}
if module == "wolfmeans":
    from wolfmeans import KMeans
    options |= {"bound": None, "stop": "stationary", "n_threads": int(threads)}
else:
    from sklearn.cluster import KMeans
    options |= {"tol": 0.0}
X = np.random.default_rng(0).random((n, d), dtype=dtype)
KMeans(4, init=X[:4], **options).fit(X[:400])
def peak():
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = peak()
KMeans(n_clusters, init=X[:n_clusters].copy(), **options).fit(X)
print(peak() - before)
"""


def measure_memory(shape: Shape, dtype: str, settings: Settings) -> Memory:
    """Fit in fresh processes; the array is made before, and a tiny fit has loaded everything."""
    arguments = [str(shape.n), str(shape.d), str(shape.n_clusters), dtype, str(settings.threads)]
    growth = [
        float(_child(MEMORY_OF_A_FIT, module, *arguments, OMP_NUM_THREADS=str(settings.threads)))
        for module in ("wolfmeans", "sklearn")
    ]
    return Memory(shape, dtype, growth[0] / shape.n, growth[1] / shape.n)


IMPORT = """
import time
begun = time.perf_counter()
import sklearn.cluster
middle = time.perf_counter()
from wolfmeans import KMeans
print(middle - begun, time.perf_counter() - middle)
"""


def measure_start_up(settings: Settings) -> StartUp:
    imports = [tuple(map(float, _child(IMPORT).split())) for _ in range(settings.repeats)]
    problem, limits = uniform_problem(Shape(100, 2, 3), "float64"), Limits(100, settings.threads)
    fits = [
        median(seconds_of(method.fit, problem, limits) for _ in range(20 * settings.repeats))
        for method in (Wolfmeans(), ScikitLearn("lloyd"))
    ]
    return StartUp(median(one[0] for one in imports), median(one[1] for one in imports), *fits)


def _child(code: str, *arguments: str, **environment: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return done.stdout
