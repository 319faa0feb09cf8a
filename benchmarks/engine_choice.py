"""What the CPU and the GPU need: the figures by which `engine="auto"` chooses between them.

Whole fits of NumPy arrays (20 iterations from greedy k-means++, 5 from given seeds, no lower bound)
run on both engines, on blobs and on structureless points. Every time is the median of several, on
the GPU after a fit that compiles. The costs of `wolfmeans.engines.choosing` are fitted to them, by
least squares of the logarithms. Start-up is measured in fresh processes, with
Triton's cache empty and then filled. What is printed can be put into that file as it is. Without a
GPU the CPU's half is measured.

    python benchmarks/engine_choice.py [--repeats 3] [--threads N] [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from importlib import import_module
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from report_pages import facts, table
from scipy.optimize import least_squares, nnls

from wolfmeans import KMeans
from wolfmeans.bench.machine import machine
from wolfmeans.bench.problems import Shape
from wolfmeans.engines import effective_threads
from wolfmeans.engines.choosing import FEW_COLUMNS, STEPS, Costs, Work

SHAPES = (
    Shape(20_000, 2, 20),
    Shape(200_000, 2, 100),
    Shape(1_000_000, 2, 100),
    Shape(1_000_000, 3, 256),
    Shape(4_000_000, 4, 64),
    Shape(1_000_000, 4, 1_000),
    Shape(2_000, 8, 8),
    Shape(20_000, 8, 16),
    Shape(200_000, 8, 64),
    Shape(20_000, 10, 300),
    Shape(1_000_000, 16, 64),
    Shape(100_000, 32, 256),
    Shape(1_000_000, 32, 32),
    Shape(60_000, 784, 10),
    Shape(50_000, 128, 1_000),
    Shape(400_000, 128, 256),
    Shape(20_000, 768, 500),
    Shape(100_000, 768, 100),
    Shape(100_000, 64, 2_000),
)
KINDS = ("blobs", "structureless")
COPIED = 1 << 30
SHORT = 5
LEAST = 1e-4  # of a time: figures that never make up more are 0

START_UP = """
import sys, time
import numpy as np
from wolfmeans import KMeans
X = np.random.default_rng(0).normal(size=(20_000, 16)).astype(np.float32)
KMeans(n_clusters=16, max_iter=5, bound=None, engine="cpu").fit(X)
times = [time.perf_counter()]
import torch
times.append(time.perf_counter())
torch.zeros(1, device="cuda").cpu()
times.append(time.perf_counter())
for _ in range(2):
    KMeans(n_clusters=16, max_iter=5, bound=None, engine="gpu").fit(X)
    times.append(time.perf_counter())
print(*(after - before for before, after in zip(times, times[1:])))
"""


@dataclass(frozen=True)
class Timing:
    """One shape of one kind on one engine."""

    shape: str
    kind: str
    engine: str
    seconds: float
    passes: int
    seeding: bool
    """Whether seeds were chosen; else they were given."""

    @property
    def parsed(self) -> Shape:
        return Shape.parse(self.shape)


@dataclass(frozen=True)
class StartUp:
    """Seconds until the GPU's first result in a fresh process."""

    import_torch: float
    context: float
    load_kernels: float
    compile_kernels: float


def points(shape: Shape, kind: str) -> np.ndarray:
    """Blobs of standard deviation 2 around centers in [-10, 10]^d, or one Gaussian."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((shape.n, shape.d), dtype=np.float32)
    if kind == "blobs":
        middles = rng.uniform(-10, 10, size=(shape.n_clusters, shape.d)).astype(np.float32)
        X *= 2
        X += middles[rng.integers(shape.n_clusters, size=shape.n)]
    return X


def time_fits(
    X: np.ndarray, n_clusters: int, engine: str, *, seeding: bool, repeats: int, threads: int
) -> tuple[float, int]:
    """Return the median seconds of a fit, and its iterations."""
    model = KMeans(
        n_clusters, init="k-means++" if seeding else X[:n_clusters],
        max_iter=STEPS if seeding else SHORT, tol=0.0, stop="stationary", bound=None,
        random_state=0, engine=engine, n_threads=threads,
    )  # fmt: skip
    if engine == "gpu":
        model.fit(X)
    seconds = []
    for _ in range(repeats):
        begun = perf_counter()
        model.fit(X)
        seconds.append(perf_counter() - begun)
    return median(seconds), model.n_iter_


def measure(
    shapes: Sequence[Shape], engines: Sequence[str], repeats: int, threads: int
) -> list[Timing]:
    """Run all fits, one after the other."""
    found = []
    for shape in shapes:
        for kind in KINDS:
            X = points(shape, kind)
            for engine, seeding in product(engines, (False, True)):
                seconds, passes = time_fits(
                    X, shape.n_clusters, engine, seeding=seeding, repeats=repeats, threads=threads
                )
                found.append(Timing(str(shape), kind, engine, seconds, passes, seeding))
                print(f"  {found[-1]}", file=sys.stderr, flush=True)
    return found


def work_of(timing: Timing, threads: int) -> Work:
    return Work(timing.parsed.n_clusters, threads, timing.passes, seeding=timing.seeding)


def fit_costs(timings: Sequence[Timing], threads: int, copy: float | None = None) -> Costs:
    """Return the costs that come nearest to the times, each relative to itself.

    `copy` is what the way to the GPU takes, in bytes a second; that time is not the engine's.
    """
    # The model is linear in its figures: a row has what each of them is multiplied by.
    many = len(fields(Costs))
    units = [Costs(*(float(i == j) for j in range(many))) for i in range(many)]
    rows, times = [], []
    for timing in timings:
        shape, work, seconds = timing.parsed, work_of(timing, threads), timing.seconds
        if copy is not None:
            seconds = max(seconds / 10, seconds - 4 * shape.n * shape.d / copy)
        rows.append([unit.seconds(shape.n, shape.d, work, threads) for unit in units])
        times.append(seconds)
    matrix, target = np.array(rows), np.array(times)
    # From a fit that is relative to the times, in units that suit each figure.
    relative = matrix / target[:, np.newaxis]
    sizes = relative.max(axis=0)
    sizes[sizes == 0] = 1.0
    first, _ = nnls(relative / sizes, np.ones(len(target)))
    found = least_squares(
        lambda logs: np.log(matrix @ (np.exp(logs) / sizes)) - np.log(target),
        np.log(np.maximum(first, LEAST)),
        bounds=(np.log(LEAST) - 1.0, np.inf),
    )
    values = np.exp(found.x)
    return Costs(*(float(f"{v:.2g}") for v in np.where(values > LEAST, values, 0.0) / sizes))


def measure_copy() -> float:
    """Return the bytes a second from NumPy's memory to the GPU."""
    torch = import_module("torch")
    X = torch.from_numpy(np.ones(COPIED // 4, dtype=np.float32))
    seconds = []
    for _ in range(5):
        torch.cuda.synchronize()
        begun = perf_counter()
        X.to("cuda")
        torch.cuda.synchronize()
        seconds.append(perf_counter() - begun)
    return COPIED / median(seconds)


def measure_start_up() -> StartUp:
    """Run the first fit of a process, with an empty cache of kernels and then with a full one."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TRITON_CACHE_DIR": cache}
        runs = []
        for _ in range(2):
            child = subprocess.run(
                [sys.executable, "-c", START_UP],
                env=environment, check=True, capture_output=True, text=True,
            )  # fmt: skip
            runs.append([float(word) for word in child.stdout.split()])
    cold, warm = runs
    return StartUp(warm[0], warm[1], warm[2] - warm[3], cold[2] - cold[3])


def gpu_name() -> str | None:
    """Return the name of the GPU, None where PyTorch finds none."""
    try:
        torch = import_module("torch")
        import_module("triton")
    except ImportError:
        return None
    return str(torch.cuda.get_device_name(0)) if torch.cuda.is_available() else None


def few(timing: Timing) -> bool:
    return timing.parsed.d <= FEW_COLUMNS


def assemble(
    timings: Sequence[Timing], threads: int, copy: float | None, start_up: StartUp | None
) -> dict[str, Costs | float]:
    """Return the figures by the names that they have in the package."""
    of_cpu = [timing for timing in timings if timing.engine == "cpu"]
    found: dict[str, Costs | float] = {
        "CPU": fit_costs([t for t in of_cpu if not few(t)], threads),
        "CPU_FEW_COLUMNS": fit_costs([t for t in of_cpu if few(t)], threads),
    }
    of_gpu = [timing for timing in timings if timing.engine == "gpu"]
    if of_gpu and copy is not None:
        found["GPU"] = fit_costs(of_gpu, 1, copy)
        found["COPY"] = float(f"{copy:.2g}")
    if start_up is not None:
        for name, seconds in zip(
            ("IMPORT", "CONTEXT", "LOAD_KERNELS", "COMPILE_KERNELS"),
            asdict(start_up).values(),
            strict=True,
        ):
            found[name] = float(f"{seconds:.2g}")
    return found


def predicted(timing: Timing, figures: dict[str, Costs | float], threads: int) -> float:
    """Return what the model says about a fit that was timed."""
    shape, on_gpu = timing.parsed, timing.engine == "gpu"
    name = "GPU" if on_gpu else "CPU_FEW_COLUMNS" if few(timing) else "CPU"
    costs = figures[name]
    assert isinstance(costs, Costs)
    work = work_of(timing, threads)
    seconds = costs.seconds(shape.n, shape.d, work, 1 if on_gpu else threads)
    return seconds + (4 * shape.n * shape.d / float(figures["COPY"]) if on_gpu else 0.0)


def report(timings: Sequence[Timing], figures: dict[str, Costs | float], threads: int) -> str:
    """Return the table of times and estimates, and the figures as Python."""
    rows = []
    for timing in timings:
        estimate = predicted(timing, figures, threads)
        seeds = "chosen" if timing.seeding else "given"
        numbers = (1e3 * timing.seconds, 1e3 * estimate)
        ratio = f"{estimate / timing.seconds:.2f}"
        cells = (timing.shape, timing.kind, seeds, timing.engine)
        rows.append((*cells, *(f"{number:.3g}" for number in numbers), ratio))
    header = ("n x d x K", "data", "seeds", "engine", "ms", "estimate, ms", "ratio")
    lines = [table(header, rows, left=4), ""]
    return "\n".join([*lines, *(f"{name} = {value}" for name, value in figures.items())])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--repeats", type=int, default=3, metavar="N")
    parser.add_argument("--threads", type=int, metavar="N", help="of the cpu engine; default all")
    parser.add_argument("--quick", action="store_true", help="tiny shapes, to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    threads = effective_threads(options.threads)
    name = gpu_name()
    shapes = list(dict.fromkeys(s.quick() for s in SHAPES)) if options.quick else SHAPES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fits that are cut
        engines = ("cpu",) if name is None else ("cpu", "gpu")
        timings = measure(shapes, engines, options.repeats, threads)
    copy = None if name is None else measure_copy()
    start_up = None if name is None else measure_start_up()
    figures = assemble(timings, threads, copy, start_up)
    about = {"date": str(date.today()), "GPU": name or "none", **machine(threads)}
    if name is not None:
        about |= {package: import_module(package).__version__ for package in ("torch", "triton")}
    print(facts(about))
    print(report(timings, figures, threads))
    if options.json is not None:
        plain = {k: asdict(v) if isinstance(v, Costs) else v for k, v in figures.items()}
        record = {"machine": about, "timings": [asdict(t) for t in timings], "figures": plain}
        options.json.write_text(json.dumps(record, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
