"""Semidefinite proofs of real tables: how near to the optimum a clustering is proven, in what time.

For each table a good clustering is found first (`effort`, or 50 starts if points are trimmed). Its
inertia divided by the proven bound, less 1, is the gap: at most 1e-6 counts as optimal. Every proof
is checked again with `check_proof`. With --optimal small tables are proven optimal by branch and
bound.

    python benchmarks/proofs.py [--trimmed | --optimal] [--only iris] [--seconds 30] [--out FILE]
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
TRIMMED = {
    "iris": ((3, 0.05), (3, 0.1)),
    "wine, standardized": ((3, 0.05), (3, 0.1)),
    "breast cancer, standardized": ((2, 0.05), (5, 0.05), (5, 0.1)),
    "digits": ((10, 0.05),),
    "segmentation, standardized": ((7, 0.05), (7, 0.1)),
}
"""Numbers of clusters and shares of points that are trimmed."""


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


def measure(name: str, n_clusters: int, alpha: float, seconds: float) -> list[str]:
    """Return a row of the table."""
    X = points(name)
    n, d = X.shape
    if alpha > 0:
        model = wolfmeans.TrimmedKMeans(
            n_clusters, alpha=alpha, n_init=50, certify=None, random_state=0
        ).fit(X)
    else:
        model = wolfmeans.KMeans(n_clusters, effort=5.0, certify=None, random_state=0).fit(X)
    trim = model.certificate_.trimmed_mass if alpha > 0 else None
    start, worked = perf_counter(), process_time()
    bound = wolfmeans.lower_bound(
        X,
        n_clusters,
        trim=trim,
        method="semidefinite",
        centers=model.cluster_centers_,
        seconds=seconds,
    )
    taken, worked = perf_counter() - start, process_time() - worked
    assert bound.value <= model.inertia_ * (1 + 1e-12), name
    assert bound.proof is None or wolfmeans.check_proof(X, bound.proof, trim=trim) == bound.value
    gap = model.inertia_ / bound.value - 1.0
    said = "optimal" if gap <= OPTIMAL else f"{gap:.2%}" if gap > 5e-5 else f"{100 * gap:.1e}%"
    shape = f"{n:,} × {d}, K = {n_clusters}"
    left = [f"{trim:g}"] if alpha > 0 else []
    times = [f"{taken:.0f} s", f"{worked:.0f} s"]
    return [name, shape, *left, f"{model.inertia_:.6g}", said, *times]


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
    parser.add_argument("--trimmed", action="store_true", help="trimmed K-means")
    parser.add_argument("--only", default="", help="tables with this word in their name")
    parser.add_argument("--seconds", type=float, default=30.0, help="time limit of each bound")
    parser.add_argument("--out", type=Path, help="write the table as Markdown to this file")
    options = parser.parse_args()
    rows = []
    whole = {name: tuple((k, 0.0) for k in numbers) for name, numbers in CASES.items()}
    small = {name: tuple((k, 0.0) for k in numbers) for name, numbers in OPTIMAL_CASES.items()}
    cases = TRIMMED if options.trimmed else small if options.optimal else whole
    for name, problems in cases.items():
        for n_clusters, alpha in problems if options.only in name else ():
            if options.optimal:
                rows.append(measure_optimal(name, n_clusters, options.seconds))
            else:
                rows.append(measure(name, n_clusters, alpha, options.seconds))
            print("  ".join(rows[-1]), flush=True)
    left = ["trimmed"] if options.trimmed else []
    names = ["data", "n × d, K", *left, "inertia", "proven within", "time", "CPU time"]
    if options.optimal:
        names = [*names[:4], "leaves", "time", "CPU", "check"]
    here = facts(machine(effective_threads(None)), versions([]))
    text = f"{table(names, rows, left=2)}\n\n{here}"
    if options.out is not None:
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
