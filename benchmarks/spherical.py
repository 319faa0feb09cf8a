"""Spherical K-means side by side: wolfmeans, faiss (`spherical=True`) and `KMeans` on unit rows.

All begin at the same unit rows. wolfmeans runs until no label changes; faiss cannot see that and
gets the number of iterations that wolfmeans took. Inertia is the sum of 1 - cos, computed here in
float64 from the returned centers. The script fails if wolfmeans ends with a larger inertia than
faiss, beyond the rounding of float32, or if the two engines of wolfmeans differ in a bit.

faiss is optional: `pip install faiss-cpu`, or `--peers FOLDER` for a folder with it. Run it with

    python benchmarks/spherical.py [--threads 2] [--repeats 3] [--peers FOLDER] [--quick]
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
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


def best_time(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the shortest time of some runs, and what the last one returned."""
    times = []
    for _ in range(repeats):
        started = perf_counter()
        result = run()
        times.append(perf_counter() - started)
    return min(times), result


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare on all data sets; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peers", help="folder with faiss")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args(arguments)
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
    return int(failures > 0)


def compare(name: str, X: Points, k: int, given: argparse.Namespace, faiss: Any) -> int:
    """Print one line; return how many claims do not hold."""
    start = X[np.random.default_rng(1).choice(len(X), k, replace=False)].copy()
    settings: dict[str, Any] = {
        "init": start,
        "n_init": 1,
        "stop": "stationary",
        "bound": None,
        "n_threads": given.threads,
    }
    ours, model = best_time(
        lambda: SphericalKMeans(k, engine="cpu", **settings).fit(X), given.repeats
    )
    euclidean, km = best_time(lambda: KMeans(k, engine="cpu", **settings).fit(X), given.repeats)
    mine = inertia_of(X, model.cluster_centers_)
    a_step = (euclidean / km.n_iter_) / (ours / model.n_iter_)
    theirs, other = np.nan, np.nan
    if faiss is not None:
        theirs, centroids = best_time(
            lambda: trained(faiss, X, k, start, model.n_iter_), given.repeats
        )
        other = inertia_of(X, centroids)
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
