"""Lower bounds: how near to the best known SSE, and at what cost.

For each data set a good clustering is found first (some starts, then `effort`). Its SSE divided by
a bound is the ratio that a certificate would show: 1 is a proof of optimality. Each method has its
own column. Checked: no bound that is a proof is above the SSE.

    python benchmarks/bounds.py [--only plane] [--out FILE]
"""

from __future__ import annotations

import argparse
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
from report_pages import facts, table
from sklearn.datasets import make_blobs

import wolfmeans
from wolfmeans.bench.machine import machine, versions
from wolfmeans.bounds import REGISTRY, useful
from wolfmeans.engines import effective_threads
from wolfmeans.files.datasets import load_segmentation

QUADRATIC = 50_000  # points, beyond which the neighbours bound is left to samples
PRICED = 5  # columns
METHODS = [name for name, method in REGISTRY.items() if not method.by_time]  # others: proofs.py


@dataclass(frozen=True)
class Case:
    name: str
    points: Callable[[], np.ndarray]
    n_clusters: int
    effort: float = 2.0


def blobs(n: int, d: int, k: int) -> Callable[[], np.ndarray]:
    return lambda: make_blobs(n, n_features=d, centers=k, random_state=0)[0]


def uniform(n: int, d: int) -> Callable[[], np.ndarray]:
    return lambda: np.random.default_rng(0).uniform(size=(n, d))


def normal(n: int, d: int) -> Callable[[], np.ndarray]:
    return lambda: np.random.default_rng(0).normal(size=(n, d))


CASES = (
    Case("blobs", blobs(500, 10, 20), 20),
    Case("blobs", blobs(500, 5, 50), 50),
    Case("blobs", blobs(5000, 10, 20), 20),
    Case("blobs", blobs(20_000, 10, 20), 20),
    Case("segmentation, standardized", lambda: load_segmentation().standardized(), 7),
    Case("segmentation, standardized", lambda: load_segmentation().standardized(), 30),
    Case("uniform in the plane", uniform(500, 2), 10),
    Case("uniform in the plane", uniform(5000, 2), 50),
    Case("uniform in space", uniform(2000, 3), 20),
    Case("one Gaussian", normal(2000, 4), 20),
    Case("one Gaussian", normal(5000, 10), 20),
    Case("one Gaussian", normal(2000, 100), 10),
    Case("a line", normal(1_000_000, 1), 10, 5.0),
    Case("uniform in the plane", uniform(1_000_000, 2), 20, 10.0),
    Case("blobs", blobs(1_000_000, 10, 20), 20, 10.0),
    Case("one Gaussian", normal(1_000_000, 10), 20, 20.0),
)


def suitable(method: str, n: int, d: int, k: int) -> bool:
    if not useful(method, d, k):
        return False
    if method == "subsampled":
        return n > QUADRATIC and d > 1
    if method == "prices":
        return n <= QUADRATIC and 1 < d <= PRICED
    return method != "neighbours" or (n <= QUADRATIC and d > 1)


def measure(case: Case) -> list[str]:
    X = case.points()
    (n, d), k = X.shape, case.n_clusters
    model = wolfmeans.KMeans(k, n_init=3, effort=case.effort, random_state=0, bound=None).fit(X)
    cells = [f"{case.name}", f"{n:,} × {d}, K = {k}"]
    for method in METHODS:
        if not suitable(method, n, d, k):
            cells.append("")
            continue
        started = perf_counter()
        bound = wolfmeans.lower_bound(
            X, k, method=method, centers=model.cluster_centers_, random_state=0
        )
        spent = perf_counter() - started
        if bound.confidence == 1.0 and bound.value > model.inertia_ * (1 + 1e-9):
            raise AssertionError(f"{case.name}: {bound} is above {model.inertia_}")
        ratio = f"{model.inertia_ / bound.value:.4f}" if bound.value > 0 else "–"
        cells.append(f"{ratio} ({spent:.2g} s)")
    return cells


def report(rows: list[list[str]]) -> str:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    here = facts(machine(effective_threads(None)), versions([]))
    cells = table(["data", "n × d, K", *METHODS], rows, left=2 + len(METHODS))
    return f"{cells}\n\nPeak memory of the whole run: {peak:.0f} MB. {here}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="data sets whose name has this in it")
    parser.add_argument("--most", type=int, default=10**9, help="points of a data set at most")
    parser.add_argument("--out", type=Path, help="write the page here")
    options = parser.parse_args()
    rows = []
    for case in CASES:
        if options.only in case.name and len(case.points()) <= options.most:
            rows.append(measure(case))
            print(" | ".join(rows[-1]), flush=True)
    page = report(rows)
    if options.out:
        options.out.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
