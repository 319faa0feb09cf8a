"""Semidefinite proofs of real tables: how near to the optimum a clustering is proven, in what time.

For each table a good clustering is found first (`effort`). Its inertia divided by the proven bound,
less 1, is the gap: at most 1e-6 counts as optimal. Every proof is checked again with `check_proof`.
Many points are bounded in matched parts, each with a proof that is checked and not kept.

    python benchmarks/proofs.py [--only iris] [--seconds 30] [--many] [--out FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from report_pages import facts, table
from sklearn import datasets

import wolfmeans
from wolfmeans.bench.machine import machine, versions
from wolfmeans.engines import effective_threads
from wolfmeans.files.datasets import load_banknotes, load_segmentation

OPTIMAL = 1e-6
CASES = {
    "iris": (2, 3, 4, 5, 6),
    "wine, standardized": (2, 3, 7),
    "breast cancer, standardized": (2, 7),
    "banknotes, standardized": (3, 7),
    "digits": (10,),
    "segmentation, standardized": (7, 20),
}
MANY = {
    "blobs, 100,000 points": (100_000, 14, 7, 1.0, 900.0),
    "blobs that overlap, 100,000 points": (100_000, 14, 7, 0.5, 900.0),
    "two blobs that overlap, 100,000 points": (100_000, 14, 2, 0.3, 60.0),
    "blobs, 1,000,000 points": (1_000_000, 14, 7, 1.0, 1800.0),
}
"""Rows, columns, K, standard deviation of the centers (that of the points is 1), seconds."""


def standardized(X: np.ndarray) -> np.ndarray:
    varying = X[:, X.std(axis=0) > 0]
    return (varying - varying.mean(axis=0)) / varying.std(axis=0)


def points(name: str) -> np.ndarray:
    tables = {
        "iris": lambda: datasets.load_iris().data,
        "wine, standardized": lambda: standardized(datasets.load_wine().data),
        "breast cancer, standardized": lambda: standardized(datasets.load_breast_cancer().data),
        "banknotes, standardized": lambda: load_banknotes().standardized(),
        "digits": lambda: datasets.load_digits().data,
        "segmentation, standardized": lambda: load_segmentation().standardized(),
    }
    return np.asarray(tables[name](), dtype=np.float64)


def blobs(n: int, d: int, n_clusters: int, spread: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    centers = spread * rng.normal(size=(n_clusters, d))
    return centers[rng.integers(n_clusters, size=n)] + rng.normal(size=(n, d))


def measure(name: str, X: np.ndarray, n_clusters: int, seconds: float) -> list[str]:
    """Return a row of the table."""
    model = wolfmeans.KMeans(n_clusters, effort=5.0, certify=None, random_state=0).fit(X)
    start, used = perf_counter(), process_time()
    bound = wolfmeans.lower_bound(
        X, n_clusters, method="semidefinite", centers=model.cluster_centers_, seconds=seconds
    )
    taken, used = perf_counter() - start, process_time() - used
    assert bound.value <= model.inertia_ * (1 + 1e-12), name
    assert bound.proof is None or wolfmeans.check_proof(X, bound.proof) == bound.value, name
    gap = model.inertia_ / bound.value - 1.0
    said = "optimal" if gap <= OPTIMAL else f"{gap:.2%}" if gap > 5e-5 else f"{100 * gap:.1e}%"
    n, d = X.shape
    shape = f"{n:,} × {d}, K = {n_clusters}"
    return [name, shape, f"{model.inertia_:.6g}", said, f"{taken:.0f} s", f"{used:.0f} s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="tables with this word in their name")
    parser.add_argument("--seconds", type=float, default=30.0, help="time limit of each bound")
    parser.add_argument("--many", action="store_true", help="also up to a million points; an hour")
    parser.add_argument("--out", type=Path, help="write the table as Markdown to this file")
    options = parser.parse_args()
    rows = []
    for name, numbers in CASES.items():
        for n_clusters in numbers if options.only in name else ():
            rows.append(measure(name, points(name), n_clusters, options.seconds))
            print("  ".join(rows[-1]), flush=True)
    for name, (n, d, n_clusters, spread, seconds) in MANY.items() if options.many else ():
        if options.only in name:
            rows.append(measure(name, blobs(n, d, n_clusters, spread), n_clusters, seconds))
            print("  ".join(rows[-1]), flush=True)
    names = ["data", "n × d, K", "inertia", "proven within", "time", "CPU time"]
    here = facts(machine(effective_threads(None)), versions([]))
    text = f"{table(names, rows, left=2)}\n\n{here}"
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
