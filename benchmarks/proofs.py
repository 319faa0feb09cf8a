"""Semidefinite proofs of real tables: how near to the optimum a clustering is proven, in what time.

For each table a good clustering is found first (`effort`). Its inertia divided by the proven bound,
less 1, is the gap: at most 1e-6 counts as optimal. Every proof is checked again with `check_proof`.
With --optimal small tables are proven optimal by branch and bound.

    python benchmarks/proofs.py [--optimal] [--only iris] [--seconds 30] [--out FILE]
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
from wolfmeans.bounds.proof_format import ProofTree
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


OPTIMAL_CASES = {
    "iris": range(2, 11),
    "iris, standardized": range(2, 11),
    "wine": range(2, 11),
    "wine, standardized": range(2, 11),
    "banknotes, standardized": range(2, 9),
}


def standardized(X: np.ndarray) -> np.ndarray:
    varying = X[:, X.std(axis=0) > 0]
    return (varying - varying.mean(axis=0)) / varying.std(axis=0)


def points(name: str) -> np.ndarray:
    tables = {
        "iris": lambda: datasets.load_iris().data,
        "iris, standardized": lambda: standardized(datasets.load_iris().data),
        "wine": lambda: datasets.load_wine().data,
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


def measure_optimal(name: str, n_clusters: int, seconds: float) -> list[str]:
    """Return a row of the table of branch and bound."""
    X = points(name)
    model = wolfmeans.KMeans(n_clusters, effort=2.0, certify=None, random_state=0).fit(X)
    wall, cpu = perf_counter(), process_time()
    bound = wolfmeans.lower_bound(
        X, n_clusters, method="branching", centers=model.cluster_centers_, seconds=seconds
    )
    taken, worked = perf_counter() - wall, process_time() - cpu
    assert bound.proof is not None, name
    start = perf_counter()
    assert wolfmeans.check_proof(X, bound.proof) == bound.value, name
    checked = perf_counter() - start
    best = model.inertia_ if bound.better_inertia is None else bound.better_inertia
    gap = best / bound.value - 1.0
    said = "optimal" if gap <= OPTIMAL * (1 + 1e-5) else f"{100 * gap:.1e}%"
    leaves = len(bound.proof.leaves) if isinstance(bound.proof, ProofTree) else 1
    n, d = X.shape
    size = f"{n:,} × {d}, K = {n_clusters}"
    times = [f"{taken:.1f} s", f"{worked:.1f} s", f"{checked:.2f} s"]
    return [name, size, f"{best:.8g}", said, f"{leaves}", *times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--optimal", action="store_true", help="branch and bound of small tables")
    parser.add_argument("--only", default="", help="tables with this word in their name")
    parser.add_argument("--seconds", type=float, default=30.0, help="time limit of each bound")
    parser.add_argument("--out", type=Path, help="write the table as Markdown to this file")
    options = parser.parse_args()
    rows = []
    run = measure_optimal if options.optimal else measure
    for name, numbers in (OPTIMAL_CASES if options.optimal else CASES).items():
        for n_clusters in numbers if options.only in name else ():
            rows.append(run(name, n_clusters, options.seconds))
            print("  ".join(rows[-1]), flush=True)
    names = ["data", "n × d, K", "inertia", "proven within", "time"]
    if options.optimal:
        names = [*names[:4], "leaves", "time", "CPU", "check"]
    here = facts(machine(effective_threads(None)), versions([]))
    text = f"{table(names, rows, left=2)}\n\n{here}"
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
