"""Semidefinite proofs of real tables: how near to the optimum a clustering is proven, in what time.

For each table a good clustering is found first (`effort`). Its inertia divided by the proven bound,
less 1, is the gap: at most 1e-6 counts as optimal. Every proof is checked again with `check_proof`.

    python benchmarks/proofs.py [--only iris] [--seconds 30] [--out FILE]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

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


def measure(name: str, n_clusters: int, seconds: float) -> list[str]:
    """Return a row of the table."""
    X = points(name)
    model = wolfmeans.KMeans(n_clusters, effort=5.0, certify=None, random_state=0).fit(X)
    start = perf_counter()
    bound = wolfmeans.lower_bound(
        X, n_clusters, method="semidefinite", centers=model.cluster_centers_, seconds=seconds
    )
    taken = perf_counter() - start
    assert bound.value <= model.inertia_ * (1 + 1e-12), name
    assert bound.proof is None or wolfmeans.check_proof(X, bound.proof) == bound.value, name
    gap = model.inertia_ / bound.value - 1.0
    said = "optimal" if gap <= OPTIMAL else f"{gap:.2%}" if gap > 5e-5 else f"{100 * gap:.1e}%"
    n, d = X.shape
    return [name, f"{n:,} × {d}, K = {n_clusters}", f"{model.inertia_:.6g}", said, f"{taken:.0f} s"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="tables with this word in their name")
    parser.add_argument("--seconds", type=float, default=30.0, help="time limit of each bound")
    parser.add_argument("--out", type=Path, help="write the table as Markdown to this file")
    options = parser.parse_args()
    rows = []
    for name, numbers in CASES.items():
        for n_clusters in numbers if options.only in name else ():
            rows.append(measure(name, n_clusters, options.seconds))
            print("  ".join(rows[-1]), flush=True)
    names = ["data", "n × d, K", "inertia", "proven within", "time"]
    here = facts(machine(effective_threads(None)), versions([]))
    text = f"{table(names, rows, left=2)}\n\n{here}"
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
