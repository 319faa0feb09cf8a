"""The parts of cpu.py that need a fresh process: memory, and import with the smallest fit."""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median

from cpu_options import Settings
from cpu_parts import seconds_of
from cpu_records import Memory, StartUp

from wolfmeans.bench.peers import Limits, ScikitLearn, Wolfmeans
from wolfmeans.bench.problems import Shape, uniform_problem

MEASURABLE_MEMORY = 20_000  # with fewer points the allocator's own pages are most of it

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
