"""Proofs: how near to the optimum a clustering is proven, in what time.

Subjects:

- tables: `certify` on six real tables, raw and standardized;
- default: the certificate of a plain fit, without `certify`, and what it costs;
- optimal: branch and bound of small tables;
- trimmed: trimmed K-means;
- many: blobs of up to a million points;
- published: instances of SOS-SDP whose optimum and time are published; `--folder` has their files.

Good clusterings are found first (`effort`, or 50 starts if points are trimmed), except for
"default". Inertia divided by the proven bound, less 1, is the gap; at most 1e-6 counts as optimal.
Every proof that is kept is checked again with `check_proof`.

    python benchmarks/proofs.py SUBJECT [--only iris] [--clusters 7] [--seconds 30] [--out FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
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
USEFUL = 0.1
RAW: dict[str, Callable[[], np.ndarray]] = {
    "iris": lambda: datasets.load_iris().data,
    "banknotes": lambda: load_banknotes().data,
    "wine": lambda: datasets.load_wine().data,
    "breast cancer": lambda: datasets.load_breast_cancer().data,
    "digits": lambda: datasets.load_digits().data,
    "segmentation": lambda: load_segmentation().data,
}
BRANCHED = {
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
MANY = {
    "blobs, 5,000 points": (5_000, 14, 7, 1.0, 120.0),
    "blobs, 100,000 points": (100_000, 14, 7, 1.0, 900.0),
    "two blobs that overlap, 100,000 points": (100_000, 14, 2, 0.3, 60.0),
    "blobs, 1,000,000 points": (1_000_000, 14, 7, 1.0, 1800.0),
}
"""Rows, columns, K, standard deviation of the centers (that of the points is 1), seconds."""

PUBLISHED = {("glass", 6): (72.9647, 1e-4, 199, 5)}
"""The log in the README of github.com/antoniosudoso/sos-sdp, commit e485811: inertia, its relative
tolerance, seconds with 16 threads, nodes. Its datasets/glass.zip has the file glass.txt."""

Row = list[str]
NUMBERS = [2, 3, 7, 10, 20]
"""Of clusters; `--clusters` takes one of them."""
FOLDERS: list[Path] = []
"""Where files of published instances are: `--folder`."""


def points(name: str) -> np.ndarray:
    table, _, kind = name.partition(", ")
    X = np.asarray(RAW[table](), dtype=np.float64)
    if kind != "standardized":
        return X
    varying = X[:, X.std(axis=0) > 0]
    return (varying - varying.mean(axis=0)) / varying.std(axis=0)


def blobs(n: int, d: int, n_clusters: int, spread: float) -> np.ndarray:
    rng = np.random.default_rng(0)
    centers = spread * rng.normal(size=(n_clusters, d))
    return centers[rng.integers(n_clusters, size=n)] + rng.normal(size=(n, d))


def said(gap: float) -> str:
    if gap <= OPTIMAL * (1 + 1e-5):
        return "optimal"
    return f"{gap:.2%}" if gap > 5e-5 else f"{100 * gap:.1e}%"


def shape(X: np.ndarray, n_clusters: int) -> str:
    return f"{X.shape[0]:,} × {X.shape[1]}, K = {n_clusters}"


def best_inertia(X: np.ndarray, model: wolfmeans.KMeans) -> float:
    """Return the inertia of the best clustering known: the search for a bound may find one."""
    centers = model.certificate_.better_centers
    if centers is None:
        return model.inertia_
    return wolfmeans.KMeans(len(centers), init=centers, bound=None).fit(X).inertia_


def bounded(X: np.ndarray, model: wolfmeans.KMeans, seconds: float) -> tuple[float, Row]:
    """Return the gap that `certify` leaves, and cells of the table."""
    wall, cpu = perf_counter(), process_time()
    certificate = model.certify(X, seconds=seconds)
    times = [f"{perf_counter() - wall:.1f} s", f"{process_time() - cpu:.0f} s"]
    proof = certificate.proof
    assert proof is None or wolfmeans.check_proof(X, proof) == certificate.lower_bound
    best = best_inertia(X, model)
    gap = best / certificate.lower_bound - 1.0
    return gap, [f"{best:.6g}", said(gap), str(certificate.lower_bound_kind), *times]


def tables(only: str, seconds: float) -> Iterator[Row]:
    yield ["data", "n × d, K", "inertia", "proven within", "by", "time", "CPU"]
    gaps = []
    for name in (kind for raw in RAW for kind in (raw, f"{raw}, standardized")):
        for n_clusters in NUMBERS if only in name else ():
            X = points(name)
            model = wolfmeans.KMeans(n_clusters, effort=5.0, bound=None, random_state=0).fit(X)
            gap, cells = bounded(X, model, seconds)
            gaps.append(gap)
            yield [name, shape(X, n_clusters), *cells]
    print(f"median {median(gaps):.4%}, largest {max(gaps):.3%} of {len(gaps)}")


def default(only: str, seconds: float) -> Iterator[Row]:
    yield ["data", "n × d, K", "proven within", "by", "fit", "certificate"]
    gaps = []
    for name in (kind for raw in RAW for kind in (raw, f"{raw}, standardized")):
        for n_clusters in NUMBERS if only in name else ():
            X = points(name)
            start = perf_counter()
            model = wolfmeans.KMeans(n_clusters, random_state=0).fit(X)
            fitted = perf_counter()
            certificate = model.certificate_
            read = perf_counter()
            gaps.append((certificate.ratio or np.inf) - 1.0)
            times = [f"{1e3 * (fitted - start):.0f} ms", f"{read - fitted:.2f} s"]
            by = str(certificate.lower_bound_kind)
            yield [name, shape(X, n_clusters), f"{gaps[-1]:.2%}", by, *times]
    print(f"{sum(gap < USEFUL for gap in gaps)} of {len(gaps)} within {USEFUL:.0%}")


def optimal(only: str, seconds: float) -> Iterator[Row]:
    yield ["data", "n × d, K", "inertia", "proven within", "leaves", "time", "CPU", "check"]
    for name, numbers in BRANCHED.items():
        for n_clusters in numbers if only in name else ():
            X = points(name)
            model = wolfmeans.KMeans(n_clusters, effort=2.0, bound=None, random_state=0).fit(X)
            wall, cpu = perf_counter(), process_time()
            certificate = model.certify(X, target="optimal", seconds=seconds)
            times = [perf_counter() - wall, process_time() - cpu]
            start = perf_counter()
            proof = certificate.proof
            assert proof is not None, name
            assert wolfmeans.check_proof(X, proof) == certificate.lower_bound, name
            times.append(perf_counter() - start)
            best = best_inertia(X, model)
            leaves = len(proof.leaves) if isinstance(proof, ProofTree) else 1
            cells = [f"{best:.8g}", said(best / certificate.lower_bound - 1.0), f"{leaves}"]
            yield [name, shape(X, n_clusters), *cells, *(f"{time:.1f} s" for time in times)]


def trimmed(only: str, seconds: float) -> Iterator[Row]:
    yield ["data", "n × d, K", "trimmed", "inertia", "proven within", "time", "CPU"]
    for name, problems in TRIMMED.items():
        for n_clusters, alpha in problems if only in name else ():
            X = points(name)
            model = wolfmeans.TrimmedKMeans(
                n_clusters, alpha=alpha, n_init=50, bound=None, random_state=0
            ).fit(X)
            trim = model.certificate_.trimmed_mass
            wall, cpu = perf_counter(), process_time()
            bound = wolfmeans.lower_bound(
                X,
                n_clusters,
                trim=trim,
                method="semidefinite",
                centers=model.cluster_centers_,
                seconds=seconds,
            )
            times = [f"{perf_counter() - wall:.0f} s", f"{process_time() - cpu:.0f} s"]
            assert bound.value <= model.inertia_ * (1 + 1e-12), name
            proof = bound.proof
            assert proof is None or wolfmeans.check_proof(X, proof, trim=trim) == bound.value
            gap = said(model.inertia_ / bound.value - 1.0)
            yield [name, shape(X, n_clusters), f"{trim:g}", f"{model.inertia_:.6g}", gap, *times]


def many(only: str, seconds: float) -> Iterator[Row]:
    yield ["data", "n × d, K", "inertia", "proven within", "by", "time", "CPU"]
    for name, (n, d, n_clusters, spread, most) in MANY.items():
        if only in name:
            X = blobs(n, d, n_clusters, spread)
            model = wolfmeans.KMeans(n_clusters, effort=5.0, bound=None, random_state=0).fit(X)
            yield [name, shape(X, n_clusters), *bounded(X, model, most)[1]]


def published(only: str, seconds: float) -> Iterator[Row]:
    yield ["data", "n × d, K", "published", "inertia", "proven within", "leaves", "time", "CPU"]
    for (name, n_clusters), (inertia, tolerance, spent, nodes) in PUBLISHED.items():
        X = np.loadtxt(FOLDERS[-1] / f"{name}.txt", skiprows=1)
        model = wolfmeans.KMeans(n_clusters, effort=2.0, bound=None, random_state=0).fit(X)
        wall, cpu = perf_counter(), process_time()
        certificate = model.certify(X, target="optimal", seconds=seconds)
        times = [f"{perf_counter() - wall:.1f} s", f"{process_time() - cpu:.1f} s"]
        proof = certificate.proof
        assert wolfmeans.check_proof(X, proof) == certificate.lower_bound, name
        leaves = len(proof.leaves) if isinstance(proof, ProofTree) else 1
        best = best_inertia(X, model)
        assert abs(best / inertia - 1.0) <= tolerance, name
        told = f"{inertia:g} to {tolerance:g}, {nodes} nodes, {spent} s"
        gap = said(best / certificate.lower_bound - 1.0)
        yield [name, shape(X, n_clusters), told, f"{best:.8g}", gap, f"{leaves}", *times]


SUBJECTS = {run.__name__: run for run in (tables, default, optimal, trimmed, many, published)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("subject", choices=SUBJECTS)
    parser.add_argument("--only", default="", help="data with this word in their name")
    parser.add_argument("--clusters", type=int, help="one number of clusters of each table")
    parser.add_argument("--folder", type=Path, default=Path(), help="files of published instances")
    parser.add_argument("--seconds", type=float, default=30.0, help="time limit of each bound")
    parser.add_argument("--out", type=Path, help="write the table as Markdown to this file")
    options = parser.parse_args()
    FOLDERS.append(options.folder)
    NUMBERS[:] = NUMBERS if options.clusters is None else [options.clusters]
    rows = []
    for row in SUBJECTS[options.subject](options.only, options.seconds):
        rows.append(row)
        print("  ".join(row), flush=True)
    here = facts(machine(effective_threads(None)), versions([]))
    if options.out is not None:
        text = f"{table(rows[0], rows[1:], left=2)}\n\n{here}"
        options.out.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
