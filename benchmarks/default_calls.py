"""Default calls, from nothing: what a user waits for, and how good the result is.

Each library is called as its documentation begins: the number of clusters, a seed, and nothing
else. It finds its own start. One function evaluates all centers in float64, so that inertias can be
compared. The table has the time of wolfmeans and, for every other library, its time and its mean
inertia divided by those of wolfmeans.

faiss runs twice: with its defaults (25 iterations on at most 256 points per center), and with all
points. wolfmeans runs without its lower bound (`bound=None`): no other library computes one.

    python benchmarks/default_calls.py [--only rare] [--seeds 3] [--write docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import importlib
import math
import warnings
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from data import SHAPES
from report_pages import facts, publish, spaced, table
from sklearn.cluster import KMeans as ScikitLearn
from sklearn.cluster import MiniBatchKMeans

import wolfmeans
from wolfmeans.bench.machine import machine, versions
from wolfmeans.bench.problems import Shape, maker
from wolfmeans.engines import effective_threads

MARK = "default-calls"
Library = Callable[[np.ndarray, int, int], np.ndarray]
"""Returns centers, given points, the number of clusters and a seed."""
LARGE = 20_000
MORE = tuple(
    Shape(*shape)
    for shape in (
        (400_000, 12, 96),
        (60_000, 50, 150),
        (800_000, 6, 5),
        (120_000, 12, 96),
        (30_000, 512, 300),
    )
)


def clusters(rng: np.random.Generator, spread: float, sizes: list[int], d: int) -> np.ndarray:
    centers = spread * rng.normal(size=(len(sizes), d))
    return centers[np.repeat(np.arange(len(sizes)), sizes)] + rng.normal(size=(sum(sizes), d))


def rare(rng: np.random.Generator) -> np.ndarray:
    """30 clusters of 1,000 points, and 10 of 20."""
    return clusters(rng, 10.0, [1000] * 30 + [20] * 10, 8)


def tiny(rng: np.random.Generator) -> np.ndarray:
    """20 clusters of 10,000 points, and 20 of 5."""
    return clusters(rng, 6.0, [10_000] * 20 + [5] * 20, 6)


def far(rng: np.random.Generator) -> np.ndarray:
    """20 clusters of 10,000 points, and 10 of 100 at a hundred times their distance."""
    near = clusters(rng, 5.0, [10_000] * 20, 4)
    return np.concatenate([near, clusters(rng, 500.0, [100] * 10, 4)])


def heavy_tailed(rng: np.random.Generator) -> np.ndarray:
    """50 clusters with Student's t, 2.5 degrees of freedom."""
    centers = 4.0 * rng.normal(size=(50, 8))
    return centers[rng.integers(50, size=200_000)] + rng.standard_t(2.5, size=(200_000, 8))


def unbalanced(rng: np.random.Generator) -> np.ndarray:
    """60 clusters whose sizes fall like a power."""
    shares = 1.0 / np.arange(1, 61) ** 1.5
    sizes = (300_000 * shares / shares.sum()).astype(int) + 1
    return clusters(rng, 4.0, sizes.tolist(), 10)


SPECIAL: dict[str, tuple[int, Callable[[np.random.Generator], np.ndarray]]] = {
    "rare": (40, rare),
    "tiny": (40, tiny),
    "far": (30, far),
    "heavy-tailed": (50, heavy_tailed),
    "unbalanced": (60, unbalanced),
}


def cells() -> dict[str, tuple[int, Callable[[], np.ndarray]]]:
    """Return the number of clusters and the points of each cell, by name."""
    found: dict[str, tuple[int, Callable[[], np.ndarray]]] = {}
    for shape in (*SHAPES, *MORE):
        found[f"blobs, {spaced(shape)}"] = (shape.n_clusters, maker("blobs", shape))
    for name, (n_clusters, make) in SPECIAL.items():
        found[name] = (n_clusters, lambda make=make: make(np.random.default_rng(0)))
    return found


def ours(X: np.ndarray, n_clusters: int, seed: int) -> np.ndarray:
    return wolfmeans.KMeans(n_clusters, bound=None, random_state=seed).fit(X).cluster_centers_


def scikit_learn(X: np.ndarray, n_clusters: int, seed: int) -> np.ndarray:
    return ScikitLearn(n_clusters, random_state=seed).fit(X).cluster_centers_


def mini_batches(X: np.ndarray, n_clusters: int, seed: int) -> np.ndarray:
    return MiniBatchKMeans(n_clusters, random_state=seed).fit(X).cluster_centers_


def libraries(missing: list[str]) -> dict[str, Library]:
    """Return those that are installed."""
    found: dict[str, Library] = {"scikit-learn": scikit_learn, "MiniBatchKMeans": mini_batches}
    try:
        intelex = importlib.import_module("sklearnex.cluster")
        found["scikit-learn-intelex"] = lambda X, n_clusters, seed: (
            intelex.KMeans(n_clusters, random_state=seed).fit(X).cluster_centers_
        )
    except ImportError:
        missing.append("scikit-learn-intelex")
    try:
        faiss = importlib.import_module("faiss")
    except ImportError:
        missing.append("faiss")
        return found

    def trained(X: np.ndarray, n_clusters: int, seed: int, **limits: int) -> np.ndarray:
        model = faiss.Kmeans(X.shape[1], n_clusters, seed=seed, **limits)
        model.train(X)
        return model.centroids

    found["faiss"] = trained
    found["faiss, all points"] = lambda X, n_clusters, seed: trained(
        X, n_clusters, seed, max_points_per_centroid=len(X), min_points_per_centroid=1
    )
    return found


def inertia(X: np.ndarray, centers: np.ndarray) -> float:
    """Return the sum of squared distances to the nearest centers, by one function for all."""
    model = wolfmeans.KMeans(len(centers), init=centers.astype(X.dtype), max_iter=1, bound=None)
    return float(model.fit(X).trace_.sse[0])


def called(library: Library, X: np.ndarray, n_clusters: int, seeds: int) -> tuple[float, float]:
    """Return the median of the seconds and the mean of the inertias."""
    seconds, inertias = [], []
    for seed in range(seeds):
        begun = perf_counter()
        centers = library(X, n_clusters, seed)
        seconds.append(perf_counter() - begun)
        inertias.append(inertia(X, centers))
    return median(seconds), float(np.mean(inertias))


def measured(
    X: np.ndarray, n_clusters: int, others: Mapping[str, Library], seeds: int
) -> tuple[list[str], dict[str, tuple[float, float]]]:
    """Return the cells of a row, and the ratios of times and inertias by library."""
    for library in (ours, *others.values()):
        library(X[: 40 * n_clusters], n_clusters, 0)  # whatever is loaded once
    time, best = called(ours, X, n_clusters, seeds)
    row, ratios = [f"{1e3 * time:.0f} ms"], {}
    for name, library in others.items():
        seconds, reached = called(library, X, n_clusters, seeds)
        ratios[name] = (seconds / time, reached / best)
        row += [f"{seconds / time:.1f}", f"{reached / best:.4f}"]
    return row, ratios


def summary(found: Mapping[str, Mapping[str, tuple[float, float]]]) -> list[str]:
    """Write the means over all cells, and the worst ones, by library."""
    lines = []
    for name in next(iter(found.values())):
        times = {cell: ratios[name][0] for cell, ratios in found.items()}
        worse = [cell for cell, ratios in found.items() if ratios[name][1] < 1.0]
        mean = math.exp(np.mean(np.log(list(times.values()))))
        level = float(np.mean([ratios[name][1] for ratios in found.values()]))
        slowest = min(times, key=lambda cell: times[cell])
        lines.append(
            f"- {name}: {mean:.1f} times our time (least {times[slowest]:.1f}: {slowest}), "
            f"{level:.4f} times our inertia"
            + (f"; lower than ours in {len(worse)}: {'; '.join(worse)}" if worse else "")
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="cells whose names contain this")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--without", nargs="*", default=[], help="libraries to leave out")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    missing: list[str] = []
    others = {n: one for n, one in libraries(missing).items() if n not in options.without}
    header = ["data", "wolfmeans", *(t for name in others for t in (f"{name}: time", "inertia"))]
    rows, found = [], {}
    for name, (n_clusters, make) in cells().items():
        if options.only and options.only not in name:
            continue
        X = np.ascontiguousarray(make(), dtype=np.float32)
        row, found[name] = measured(X, n_clusters, others, options.seeds)
        rows.append([name, *row])
        print("  ".join(rows[-1]), flush=True)
    named = f" Missing: {', '.join(missing)}." if missing else ""
    lines = [
        f"{date.today().isoformat()}. {facts(machine(effective_threads(None)), versions([]))}. "
        f"float32, {options.seeds} seeds.{named}",
        "",
        table(header, rows, left=1),
        "",
        *summary(found),
    ]
    publish("\n".join(lines), options.write, MARK)


if __name__ == "__main__":
    main()
