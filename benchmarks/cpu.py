"""wolfmeans on a CPU beside its peers: the same data, the same start, the same end.

Whole fits run to labels that no longer change, or for 100 iterations, against scikit-learn,
scikit-learn-intelex and faiss in the same process; every end is checked. Then: seeding, the dense
pass against the machine's own matrix product, threads, memory, import and the smallest fit. What
counts are ratios, time of the peer over time of wolfmeans. See benchmarks/README.md.

    python benchmarks/cpu.py [--cells 200000x2x100 ...] [--data blobs ...] [--dtype float32]
                             [--json FILE] [--write docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from statistics import geometric_mean, mean, median
from typing import Any, ClassVar

import numpy as np
import peers as competition
from data import DATA, SHAPES, MissingDataError, Points, Problem, Shape, Source, sources, uniform
from peers import Limits, Method, Outcome, Race, ScikitLearn, Wolfmeans
from sklearn.cluster import kmeans_plusplus
from threadpoolctl import threadpool_limits

from wolfmeans import KMeans
from wolfmeans.engines import effective_threads, get_engine
from wolfmeans.seeding import choose_seeds

BEGIN = "<!-- cpu-benchmark:begin -->"
END = "<!-- cpu-benchmark:end -->"
MAX_ITER = 100
DTYPES = ("float32", "float64")
PARTS = ("fits", "seeding", "dense", "threads", "memory", "start-up")
SCALED = (Shape(200_000, 2, 100), Shape(100_000, 32, 256), Shape(20_000, 768, 500))
MEASURABLE_MEMORY = 20_000  # with fewer points the allocator's own pages are most of it

TARGET_EACH = 1.3
TARGET_MEAN = {"float32": 5.0, "float64": 8.0}
TARGET_SEEDING = 5.0
TARGET_DENSE = 0.8
DENSE_FROM = (64, 256)  # d and K from which on the dense pass has a target
TARGET_IMPORT = 0.2
TARGET_MEMORY = 32.0


@dataclass(frozen=True)
class Settings:
    """What the options ask for."""

    parts: tuple[str, ...]
    shapes: tuple[Shape, ...]
    data: tuple[str, ...]
    dtypes: tuple[str, ...]
    threads: int
    repeats: int
    budget: float
    limit: float
    quick: bool
    mnist: Path | None

    def problems(self, missing: list[str]) -> Iterator[Problem]:
        """Yield all cells; data that cannot be had is added to `missing`."""
        for source in sources(self.data, self.shapes, quick=self.quick, mnist=self.mnist):
            try:
                yield from source.problems(self.dtypes)
            except MissingDataError as error:
                missing.append(f"{source.data} ({error})")

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


# -- records, each a row of its table -------------------------------------------------------------


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
        return [_spaced(self.shape), self.data, self.dtype, *found]


@dataclass(frozen=True)
class DensePass:
    """One pass over all points and centers, against a float32 matrix product of that shape."""

    header: ClassVar = ("n, d, K", "dtype", "through", "GFLOP/s", "sgemm GFLOP/s", "share")

    shape: Shape
    dtype: str
    through: str
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
        return [_spaced(self.shape), self.dtype, self.through, *rates]


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
        return [_spaced(self.shape), self.dtype, str(self.iterations), speedups]


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
        return [_spaced(self.shape), self.dtype, *found]


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
    seeding: list[Seeding] = field(default_factory=list)
    dense: list[DensePass] = field(default_factory=list)
    scaling: list[Scaling] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    start_up: StartUp | None = None


# -- measuring ------------------------------------------------------------------------------------


def seconds_of(call: Callable[..., Any], *arguments: Any) -> float:
    begun = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - begun


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
    )


def measure_seeding(problem: Problem, settings: Settings) -> Seeding:
    n_clusters = problem.shape.n_clusters
    trials = 2 + int(math.log(n_clusters))

    def here(points: Points, k: int, seed: int) -> Points:
        workspace = get_engine().open(points, None, settings.threads)
        return choose_seeds(workspace, k, "greedy-k-means++", np.random.RandomState(seed))

    def there(points: Points, k: int, seed: int) -> Points:
        return kmeans_plusplus(points, k, random_state=seed, n_local_trials=trials)[0]

    points = problem.points
    if math.isfinite(settings.limit):
        few = max(2, n_clusters // 16)
        slowest = max(seconds_of(draw, points, few, 0) for draw in (here, there))
        share = settings.limit * few / (slowest * n_clusters)
        points = points[: max(2 * n_clusters, int(share * len(points)))]
    times: dict[Any, list[float]] = {here: [], there: []}
    potentials: dict[Any, list[float]] = {here: [], there: []}
    for seed in range(settings.repeats):
        if seed and max(map(sum, times.values())) * (1 + 1 / seed) > settings.budget:
            break
        for draw in (here, there):
            begun = time.perf_counter()
            drawn = draw(points, n_clusters, seed)
            times[draw].append(time.perf_counter() - begun)
            potentials[draw].append(competition.inertia(points, drawn))
    return Seeding(
        shape=Shape(*points.shape, n_clusters),
        data=problem.data,
        dtype=problem.dtype,
        trials=trials,
        draws=len(times[here]),
        seconds=median(times[here]),
        peer_seconds=median(times[there]),
        potential=mean(potentials[here]) / mean(potentials[there]),
    )


def uniform_problem(shape: Shape, dtype: str) -> Problem:
    source = Source("uniform", shape.n_clusters, lambda: uniform(shape, np.random.default_rng(0)))
    return next(source.problems([dtype]))


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
    """Time one pass: the difference of two lengths of `algorithm="dense"`, else `predict`."""
    problem = uniform_problem(shape, dtype)
    if accepts_dense():
        through, seconds = 'algorithm="dense"', _dense_iteration(problem, settings)
    else:
        through, seconds = "predict", _predict(problem, settings)
    flops = 2e-9 * shape.n * shape.d * shape.n_clusters
    return DensePass(shape, dtype, through, flops / seconds, sgemm_gflops(shape, settings.threads))


def accepts_dense() -> bool:
    try:
        KMeans(2, random_state=0, algorithm="dense").fit(np.arange(8.0).reshape(4, 2))
    except ValueError:
        return False
    return True


def _dense_iteration(problem: Problem, settings: Settings) -> float:
    """Return the best time of eight iterations less that of two, which drops all fixed costs."""
    method, times = Wolfmeans("dense"), []
    for count in (2, 8):
        limits = Limits(count, settings.threads)
        times.append(min(seconds_of(method.fit, problem, limits) for _ in range(3)))
    return max(times[1] - times[0], 1e-9) / 6


def _predict(problem: Problem, settings: Settings) -> float:
    few = problem.points[: 2 * problem.shape.n_clusters]
    model = KMeans(
        len(problem.seeds), init=problem.seeds, certify=None, n_threads=settings.threads, tol=1.0
    ).fit(few)
    return min(seconds_of(model.predict, problem.points) for _ in range(3))


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
    options |= {"certify": None, "stop": "stationary", "n_threads": int(threads)}
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
import wolfmeans
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


# -- the machine ----------------------------------------------------------------------------------


def machine(threads: int) -> dict[str, str]:
    info = _cpu_info()
    found = {
        "CPU": info.get("model name") or platform.processor() or platform.machine(),
        "cores": str(effective_threads(None)),
        "threads used": str(threads),
        "vector unit": _vector_unit(info.get("flags", "")),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if hasattr(os, "getloadavg"):
        found["load average at the start"] = f"{os.getloadavg()[0]:.1f}"
    return found


def _cpu_info() -> dict[str, str]:
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return {}
    pairs = (line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _vector_unit(flags: str) -> str:
    if platform.machine().lower() in ("arm64", "aarch64"):
        return "NEON"
    known = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX"}
    return next((name for flag, name in known.items() if flag in flags.split()), "baseline")


def versions(peers: Sequence[Method]) -> dict[str, str]:
    found = {method.package: method.version() for method in (Wolfmeans(), *peers)}
    return {**found, "numpy": np.__version__, "python": platform.python_version()}


# -- writing --------------------------------------------------------------------------------------


def line_of(one: Race) -> str:
    """One line for the terminal, with times."""
    parts = [f"{_spaced(one.shape)} {one.data} {one.dtype}: {_timing(one.ours)}"]
    for title, outcome in one.peers.items():
        if isinstance(outcome, Outcome):
            parts.append(f"{title} {_timing(outcome)}{_mark(outcome)}")
        elif outcome.startswith("failed"):
            parts.append(f"{title} {outcome}")
    return "; ".join(parts)


def _timing(outcome: Outcome) -> str:
    each = 1e3 * outcome.per_iteration
    return f"{outcome.seconds:.4g} s = {outcome.iterations} x {each:.3g} ms"


def _spaced(shape: Shape) -> str:
    numbers = (shape.n, shape.d, shape.n_clusters)
    return ", ".join(f"{number:_}".replace("_", " ") for number in numbers)


def _mark(outcome: Outcome) -> str:
    """Say what disagrees: another inertia (with its relative excess), another count."""
    marks = [] if outcome.same_inertia else [f"≠ {outcome.excess:+.0e}"]
    marks += [] if outcome.same_iterations else [f"{outcome.iterations} it"]
    return f" ({', '.join(marks)})" if marks else ""


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|---" * 3 + "|---:" * (len(header) - 3) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _table_of(records: Sequence[Any]) -> str:
    return _table(records[0].header, (one.row() for one in records))


def ratio_table(races: Sequence[Race]) -> str:
    titles = list(races[0].peers)
    header = ["n, d, K", "data", "dtype", "iterations", "fastest exact peer", *titles]
    return _table(header, (_ratio_row(one, titles) for one in races))


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
        *(_spaced(one.shape), one.data, one.dtype),
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
        rows.append([_spaced(one.shape), one.data, one.dtype, f"{one.ours.seconds:.3g}", *cells])
    return _table(header, rows)


def summary(report: Report) -> dict[str, Any]:
    """Return the ratios that the targets are about."""
    raced = [one for one in report.races if one.fastest]
    found: dict[str, Any] = {
        "fits": {
            dtype: _summary_of([one for one in raced if one.dtype == dtype])
            for dtype in dict.fromkeys(one.dtype for one in raced)
        },
        "short": [
            f"({_spaced(one.shape)}) {one.data} {one.dtype} {one.ratio(one.fastest):.2f}"
            for one in raced
            if one.ratio(one.fastest) < TARGET_EACH
        ],
        "dense": min((one.share for one in report.dense if one.has_target), default=None),
    }
    if report.seeding:
        found["seeding"] = geometric_mean(one.ratio for one in report.seeding)
        found["potential"] = mean(one.potential for one in report.seeding)
    return found


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
    if found["dense"] is not None:
        lines.append(
            f"Dense pass for d ≥ {DENSE_FROM[0]}, K ≥ {DENSE_FROM[1]}: at least "
            f"{found['dense']:.0%} of the sgemm rate (target {TARGET_DENSE:.0%})."
        )
    return "\n".join(f"- {line}" for line in lines)


def markdown(report: Report) -> str:
    """Return everything that was measured, as a page."""
    parts = [_head(report), summary_text(report)]
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
    for reading, records in (
        ("Greedy k-means++ against `sklearn.cluster.kmeans_plusplus`.", report.seeding),
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


def _head(report: Report) -> str:
    about = "; ".join(f"{key} {value}" for key, value in report.machine.items())
    libraries = ", ".join(f"{package} {version}" for package, version in report.versions.items())
    missing = f" Missing: {'; '.join(report.missing)}." if report.missing else ""
    return f"{report.date}. {about}. {libraries}. {report.selection}.{missing}"


def as_json(report: Report) -> str:
    record = asdict(report)
    for entry, one in zip(record["races"], report.races, strict=True):
        entry["ratios"] = {title: one.ratio(title) for title in one.exact}
        entry |= {"fastest": one.fastest, "marked": one.marked}
    for entry, one in zip(record["seeding"], report.seeding, strict=True):
        entry["ratio"] = one.ratio
    for entry, one in zip(record["dense"], report.dense, strict=True):
        entry["share"] = one.share
    return json.dumps(record | {"summary": summary(report)}, indent=1)


def write_between_marks(path: Path, text: str) -> None:
    """Replace what stands between the two marks; a page that does not exist yet is begun."""
    page = path.read_text(encoding="utf-8") if path.exists() else f"# Benchmarks\n\n{BEGIN}{END}\n"
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise SystemExit(f"{path} must contain {BEGIN} and {END}, once each and in this order")
    head, tail = page.split(BEGIN)[0], page.split(END)[1]
    path.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}", encoding="utf-8")


# -- running --------------------------------------------------------------------------------------


def run(
    settings: Settings,
    peers: Sequence[Method],
    missing: Sequence[str],
    say: Callable[[str], None],
    save: Callable[[Report], None],
) -> Report:
    """Measure all that was asked for; `save` gets the report after each step."""
    report = Report(
        machine=machine(settings.threads),
        versions=versions(peers),
        date=date.today().isoformat(),
        selection=settings.describe(),
        missing=list(missing),
    )
    with threadpool_limits(settings.threads):
        warm_up(peers, settings)
        for line in _measure(settings, peers, report):
            say(line)
            save(report)
    return report


def _measure(settings: Settings, peers: Sequence[Method], report: Report) -> Iterator[str]:
    parts = settings.parts
    if "fits" in parts or "seeding" in parts:
        for problem in settings.problems(report.missing):
            if "fits" in parts:
                report.races.append(measure_fits(problem, settings, peers))
                yield line_of(report.races[-1])
            if "seeding" in parts:
                report.seeding.append(measure_seeding(problem, settings))
                yield f"seeding: {report.seeding[-1]}"
    measurements = (
        ("dense", measure_dense, report.dense, lambda shape: True),
        ("threads", measure_scaling, report.scaling, lambda shape: shape in SCALED),
        ("memory", measure_memory, report.memory, lambda shape: shape.n >= MEASURABLE_MEMORY),
    )
    for part, measure, found, suits in measurements:
        if part in parts:
            for shape in settings.shapes_where(suits):
                for dtype in settings.dtypes:
                    found.append(measure(shape, dtype, settings))
                    yield f"{part}: {found[-1]}"
    if "start-up" in parts:
        report.start_up = measure_start_up(settings)
        yield str(report.start_up)


def warm_up(peers: Sequence[Method], settings: Settings) -> None:
    """Let every library load what it loads and start its threads."""
    for dtype in settings.dtypes:
        for d in (2, 130):
            problem = uniform_problem(Shape(400, d, 4), dtype)
            limits = Limits(3, settings.threads)
            competition.race(problem, Wolfmeans(), peers, limits, repeats=1, budget=0.0)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    helped = "shapes of the synthetic data, as in 200000x2x100 (default: all ten)"
    add("--cells", nargs="+", type=Shape.parse, default=SHAPES, metavar="NxDxK", help=helped)
    add("--data", nargs="+", choices=DATA, default=tuple(DATA), help="default: all")
    add("--dtype", nargs="+", choices=DTYPES, default=DTYPES, help="default: both")
    add("--parts", nargs="+", choices=PARTS, default=PARTS, help="default: all")
    add("--threads", type=int, default=effective_threads(None), help="default: all")
    add("--repeats", type=int, default=9, help="at most so many fits of a kind (default: 9)")
    helped = "no further repeat beyond this sum of times (default: 10)"
    add("--budget", type=float, default=10.0, metavar="SECONDS", help=helped)
    helped = "make fewer iterations, and all methods alike, where a fit takes longer"
    add("--limit", type=float, default=math.inf, metavar="SECONDS", help=helped)
    add("--quick", action="store_true", help="shrink all data; a test of this script")
    add("--mnist", type=Path, metavar="PATH", help="folder or file of train-images-idx3-ubyte")
    add("--json", type=Path, metavar="FILE", help="put all numbers into FILE, after each step")
    add("--write", type=Path, metavar="FILE", help="put the page into FILE, between its marks")
    options = parser.parse_args(arguments)
    for name in ("threads", "repeats", "budget", "limit"):
        if getattr(options, name) <= 0:
            parser.error(f"--{name} must be positive")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    settings = Settings(
        parts=tuple(options.parts),
        shapes=tuple(options.cells),
        data=tuple(options.data),
        dtypes=tuple(options.dtype),
        threads=options.threads,
        repeats=options.repeats,
        budget=options.budget,
        limit=options.limit,
        quick=options.quick,
        mnist=options.mnist,
    )

    def save(report: Report) -> None:
        if options.json:
            options.json.write_text(as_json(report), encoding="utf-8")

    peers, missing = competition.installed_peers()
    report = run(settings, peers, missing, say=lambda line: print(line, flush=True), save=save)
    save(report)
    text = markdown(report)
    print(f"\n{text}")
    if options.write:
        write_between_marks(options.write, text)
        print(f"\nwritten to {options.write}")


if __name__ == "__main__":
    main()
