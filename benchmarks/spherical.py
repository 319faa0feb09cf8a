"""Spherical K-means side by side: wolfmeans, faiss (`spherical=True`) and `KMeans` on unit rows.

All begin at the same unit rows. wolfmeans runs until no label changes; faiss cannot see that and
gets the number of iterations that wolfmeans took. Inertia is the sum of 1 - cos, computed here in
float64 from the returned centers. The script fails if wolfmeans ends with a larger inertia than
faiss, beyond the rounding of float32, or if the two engines of wolfmeans differ in a bit. Times are
medians of runs that take turns. A second table has the time of a step of the loop beside one of
`KMeans`, for float64 and sparse rows too; "fits" compares whole fits by their iterations, with what
is done once.

faiss is optional: `pip install faiss-cpu`, or `--peers FOLDER` for a folder with it. Run it with

    python benchmarks/spherical.py [--threads 2] [--repeats 3] [--peers FOLDER] [--quick]
"""

from __future__ import annotations

import argparse
import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_digits, load_sample_image

from wolfmeans import KMeans, SphericalKMeans
from wolfmeans.exact.directions import unit_rows
from wolfmeans.files.datasets import load_segmentation

Points = NDArray[np.float32]
ROUNDING = 1e-6


def embeddings(n: int, d: int, n_groups: int, noise: float) -> Points:
    """Return points around directions, as embeddings of texts are."""
    rng = np.random.default_rng(0)
    directions = rng.normal(size=(n_groups, d))
    X = directions[rng.integers(n_groups, size=n)] + noise * rng.normal(size=(n, d))
    return X.astype(np.float32)


def data_sets(quick: bool) -> dict[str, tuple[Points, int]]:
    """Return points and numbers of clusters by name."""
    image = load_sample_image("china.jpg").reshape(-1, 3)[:: 40 if quick else 4]
    segments = load_segmentation().standardized()
    n = 5_000 if quick else 50_000
    return {
        "digits": (load_digits().data.astype(np.float32), 20),
        "segmentation": (segments.astype(np.float32), 7),
        "colors": (image.astype(np.float32) + 1.0, 32),
        "noise": (embeddings(n // 5, 64, 1, 100.0), 50),
        "embeddings": (embeddings(n, 384, 100, 2.4), 100),
    }


def inertia_of(X: Points, centers: NDArray[Any]) -> float:
    """Return the sum of 1 - cos to the nearest center, in float64."""
    centers = centers.astype(np.float64)
    centers /= np.linalg.norm(centers, axis=1, keepdims=True)
    total = 0.0
    for rows in np.array_split(X.astype(np.float64), max(1, len(X) // 5000)):
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        total += float((1.0 - (rows @ centers.T).max(axis=1)).sum())
    return total


def in_turn(runs: Sequence[Callable[[], Any]], repeats: int) -> tuple[list[float], list[Any]]:
    """Return the median time of each run, one after the other, and what it returned last."""
    times: list[list[float]] = [[] for _ in runs]
    results: list[Any] = [None] * len(runs)
    for _ in range(repeats):
        for number, run in enumerate(runs):
            started = perf_counter()
            results[number] = run()
            times[number].append(perf_counter() - started)
    return [float(np.median(each)) for each in times], results


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare on all data sets; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peers", help="folder with faiss")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args(arguments)
    # Some runs end at their limit of iterations.
    warnings.simplefilter("ignore")
    if given.peers:
        sys.path.append(given.peers)
    try:
        faiss: Any = importlib.import_module("faiss")
        faiss.omp_set_num_threads(given.threads)
    except ImportError:
        faiss = None
        print("faiss is not installed: only wolfmeans is measured")
    failures = 0
    print(
        f"{'data':<14}{'n':>7}{'d':>5}{'K':>5}{'steps':>7}{'wolfmeans':>11}{'faiss':>9}"
        f"{'times':>7}{'KMeans/step':>13}{'inertia':>14}{'faiss':>14}"
    )
    for name, (raw, k) in data_sets(given.quick).items():
        failures += compare(name, unit_rows(raw), k, given, faiss)
    print(
        f"\n{'a step of':<22}{'n':>7}{'d':>7}{'K':>5}{'KMeans':>12}{'spherical':>12}"
        f"{'ratio':>7}{'fits':>7}"
    )
    for name, (points, k) in of_all_kinds(given.quick).items():
        steps(name, points, k, given)
    return int(failures > 0)


def compare(name: str, X: Points, k: int, given: argparse.Namespace, faiss: Any) -> int:
    """Print one line; return how many claims do not hold."""
    start = X[np.random.default_rng(1).choice(len(X), k, replace=False)].copy()
    settings = settings_of(start, given)
    model = SphericalKMeans(k, engine="cpu", **settings).fit(X)
    runs: list[Callable[[], Any]] = [
        lambda: SphericalKMeans(k, engine="cpu", **settings).fit(X),
        lambda: KMeans(k, engine="cpu", **settings).fit(X),
    ]
    if faiss is not None:
        runs.append(lambda: trained(faiss, X, k, start, model.n_iter_))
    times, results = in_turn(runs, given.repeats)
    ours, mine = times[0], inertia_of(X, model.cluster_centers_)
    a_step = (times[1] / results[1].n_iter_) / (ours / model.n_iter_)
    theirs, other = np.nan, np.nan
    if faiss is not None:
        theirs, other = times[2], inertia_of(X, results[2])
    print(
        f"{name:<14}{len(X):>7}{X.shape[1]:>5}{k:>5}{model.n_iter_:>7}{ours:>9.3f} s"
        f"{theirs:>7.2f} s{theirs / ours:>7.1f}{a_step:>13.2f}{mine:>14.4f}{other:>14.4f}",
        flush=True,
    )
    few = SphericalKMeans(k, engine="reference", **{**settings, "max_iter": 3}).fit(X[:2000])
    same = SphericalKMeans(k, engine="cpu", **{**settings, "max_iter": 3}).fit(X[:2000])
    differs = not np.array_equal(few.cluster_centers_, same.cluster_centers_)
    worse = mine > other * (1.0 + ROUNDING)
    if differs:
        print(f"{name}: the engines differ")
    if worse:
        print(f"{name}: the inertia is larger than that of faiss")
    return int(differs) + int(worse)


def settings_of(start: Any, given: argparse.Namespace) -> dict[str, Any]:
    """Return the parameters of a fit from a start to the end."""
    return {
        "init": start,
        "n_init": 1,
        "stop": "stationary",
        "bound": None,
        "n_threads": given.threads,
    }


def of_all_kinds(quick: bool) -> dict[str, tuple[Any, int]]:
    """Return points of both precisions, dense and sparse, of many columns and of few."""
    n = 2_000 if quick else 20_000
    wide, narrow = embeddings(n, 384, 100, 2.4), embeddings(2 * n, 3, 32, 0.5)
    texts = sparse.random(n, 5_000, 0.01, format="csr", random_state=0, dtype=np.float32)
    texts = texts[np.diff(texts.indptr) > 0]
    return {
        "embeddings float32": (wide, 100),
        "embeddings float64": (wide.astype(np.float64), 100),
        "few columns float32": (narrow, 32),
        "few columns float64": (narrow.astype(np.float64), 32),
        "sparse float32": (texts, 20),
        "sparse float64": (texts.astype(np.float64), 20),
    }


def steps(name: str, raw: Any, k: int, given: argparse.Namespace) -> None:
    """Print what a step of the loop takes beside one of `KMeans` on the same unit rows."""
    X = unit_rows(raw)
    start = X[np.random.default_rng(1).choice(X.shape[0], k, replace=False)]
    start = start.toarray() if sparse.issparse(start) else start
    settings = {**settings_of(start, given), "max_iter": 30, "engine": "cpu"}
    loops: dict[type, list[float]] = {KMeans: [], SphericalKMeans: []}

    def fitted(kind: Any) -> Any:
        model = kind(k, **settings).fit(X)
        loops[kind].append(1e3 * model.trace_[-1].seconds / len(model.trace_))
        return model

    runs = [lambda: fitted(KMeans), lambda: fitted(SphericalKMeans)]
    times, models = in_turn(runs, 3 * given.repeats)
    each = [float(np.median(times)) for times in loops.values()]
    fits = [time / model.n_iter_ for time, model in zip(times, models, strict=True)]
    print(
        f"{name:<22}{X.shape[0]:>7}{X.shape[1]:>7}{k:>5}{each[0]:>9.3f} ms{each[1]:>9.3f} ms"
        f"{each[0] / each[1]:>7.2f}{fits[0] / fits[1]:>7.2f}",
        flush=True,
    )


def trained(faiss: Any, X: Points, k: int, start: Points, iterations: int) -> NDArray[Any]:
    """Return the centroids of faiss."""
    known = hasattr(faiss.ClusteringParameters(), "early_stop_threshold")
    more = {"early_stop_threshold": -1.0} if known else {}
    model = faiss.Kmeans(
        X.shape[1],
        k,
        niter=iterations,
        spherical=True,
        min_points_per_centroid=1,
        max_points_per_centroid=len(X),
        **more,
    )
    model.train(X, init_centroids=start)
    centroids: NDArray[Any] = model.centroids
    return centroids


if __name__ == "__main__":
    sys.exit(main())
