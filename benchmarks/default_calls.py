"""Default calls, from nothing: what a user waits for, and how good the result is.

Each library is called as its documentation begins: the number of clusters, a seed, and nothing
else. It finds its own start. One function evaluates all centers in float64, so that inertias can be
compared. The table has the time of wolfmeans, the time until it is at the mean inertia of
scikit-learn, the inertia of scikit-learn over that of wolfmeans with as much time (`effort`, two
seconds at most), and for every other library its time and its mean inertia divided by those of
wolfmeans.

faiss runs twice: with its defaults (25 iterations on at most 256 points per center), and with all
points. wolfmeans runs without its lower bound (`bound=None`): no other library computes one.

    python benchmarks/default_calls.py [--only rare] [--seeds 3] [--write docs/benchmarks.md]

With `--results FILE` cells may be measured one by one: those of earlier runs are taken from it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

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
OURS = "wolfmeans"
MOST_EFFORT = 2.0
"""Seconds: more are not given to a search, however long scikit-learn took."""
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


@dataclass(frozen=True)
class Calls:
    """What the calls of one library in one cell took, and where they ended."""

    seconds: list[float]
    inertias: list[float]

    @property
    def time(self) -> float:
        return median(self.seconds)

    @property
    def level(self) -> float:
        return float(np.mean(self.inertias))


@dataclass(frozen=True)
class Cell:
    """All calls in one cell; wolfmeans is one of the libraries."""

    calls: dict[str, Calls]
    reached: float
    """Seconds until wolfmeans is at the mean inertia of scikit-learn; infinite if it is not."""
    at_equal_time: float
    """The mean inertia of scikit-learn over that of wolfmeans with as much time (`effort`)."""

    def ratios(self, name: str) -> tuple[float, float]:
        """Return the time and the mean inertia of a library over those of wolfmeans."""
        own, other = self.calls[OURS], self.calls[name]
        return other.time / own.time, other.level / own.level

    def row(self) -> list[str]:
        reached = f"{1e3 * self.reached:.0f} ms" if math.isfinite(self.reached) else "not"
        row = [f"{1e3 * self.calls[OURS].time:.0f} ms", reached, f"{self.at_equal_time:.4f}"]
        for name in self.calls:
            if name != OURS:
                time, level = self.ratios(name)
                row += [f"{time:.1f}", f"{level:.4f}"]
        return row

    @classmethod
    def read(cls, kept: dict[str, Any]) -> Cell:
        calls = {name: Calls(**each) for name, each in kept["calls"].items()}
        return cls(calls, float(kept["reached"]), float(kept["at_equal_time"]))


def called(library: Library, X: np.ndarray, n_clusters: int, seeds: int) -> Calls:
    seconds, inertias = [], []
    for seed in range(seeds):
        begun = perf_counter()
        centers = library(X, n_clusters, seed)
        seconds.append(perf_counter() - begun)
        inertias.append(inertia(X, centers))
    return Calls(seconds, inertias)


def time_to_reach(level: float, X: np.ndarray, n_clusters: int, seeds: int) -> float:
    """Return the median of the seconds until a default call of wolfmeans is at an inertia."""
    seconds = []
    for seed in range(seeds):
        begun = perf_counter()
        model = wolfmeans.KMeans(n_clusters, bound=None, random_state=seed).fit(X)
        # What is done after the loop counts as done before it.
        start = perf_counter() - begun - model.trace_.seconds[-1]
        below = np.flatnonzero(model.trace_.sse <= level)
        seconds.append(start + model.trace_.seconds[below[0]] if len(below) else math.inf)
    return float(median(seconds))


def with_as_much_time(seconds: float, X: np.ndarray, n_clusters: int, seeds: int) -> float:
    """Return the mean inertia of wolfmeans with a time to spend."""
    effort = min(seconds, MOST_EFFORT)
    found = [
        wolfmeans.KMeans(n_clusters, bound=None, random_state=seed, effort=effort).fit(X).inertia_
        for seed in range(seeds)
    ]
    return float(np.mean(found))


def measured(X: np.ndarray, n_clusters: int, others: Mapping[str, Library], seeds: int) -> Cell:
    libraries = {OURS: ours, **others}
    for library in libraries.values():
        library(X[: 40 * n_clusters], n_clusters, 0)  # whatever is loaded once
    calls = {name: called(each, X, n_clusters, seeds) for name, each in libraries.items()}
    known = calls["scikit-learn"]
    reached = time_to_reach(known.level, X, n_clusters, seeds)
    some = with_as_much_time(known.time, X, n_clusters, min(seeds, 3))
    return Cell(calls, reached, known.level / some)


def summary(found: Mapping[str, Cell]) -> list[str]:
    """Write the means over all cells, and the worst ones, by library."""
    lines = []
    for name in next(iter(found.values())).calls:
        if name == OURS:
            continue
        ratios = {cell: each.ratios(name) for cell, each in found.items()}
        worse = [cell for cell, (_, level) in ratios.items() if level < 1.0]
        mean = math.exp(np.mean([math.log(time) for time, _ in ratios.values()]))
        slowest = min(ratios, key=lambda cell: ratios[cell][0])
        level = float(np.mean([level for _, level in ratios.values()]))
        lines.append(
            f"- {name}: {mean:.1f} times our time (least {ratios[slowest][0]:.1f}: {slowest}), "
            f"{level:.4f} times our inertia"
            + (f"; lower than ours in {len(worse)}: {'; '.join(worse)}" if worse else "")
        )
    times = [each.calls["scikit-learn"].time / each.reached for each in found.values()]
    reached = [time for time in times if time > 0.0]
    lines.append(
        f"- The mean inertia of scikit-learn is reached in {len(reached)} of {len(times)} cells, "
        f"{math.exp(np.mean(np.log(reached))):.1f} times as fast as scikit-learn (geometric mean)"
    )
    return lines


def page(found: Mapping[str, Cell], missing: list[str]) -> str:
    """Write the tables of the benchmarks page."""
    first = next(iter(found.values()))
    others = [name for name in first.calls if name != OURS]
    header = ["data", OURS, "reaches scikit-learn", "inertia at its time"]
    header += [title for name in others for title in (f"{name}: time", "inertia")]
    named = f" Missing: {', '.join(missing)}." if missing else ""
    seeds = sorted({len(each.calls[OURS].seconds) for each in found.values()})
    lines = [
        f"{date.today().isoformat()}. {facts(machine(effective_threads(None)), versions([]))}. "
        f"float32, {' to '.join(map(str, seeds))} seeds.{named}",
        "",
        table(header, [[name, *each.row()] for name, each in found.items()], left=1),
        "",
        *summary(found),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="cells whose names contain this")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--without", nargs="*", default=[], help="libraries to leave out")
    parser.add_argument("--results", type=Path, help="a file that keeps cells from run to run")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    missing: list[str] = []
    others = {n: one for n, one in libraries(missing).items() if n not in options.without}
    kept: dict[str, Any] = {}
    if options.results and options.results.exists():
        kept = json.loads(options.results.read_text())
    found = {}
    for name, (n_clusters, make) in cells().items():
        if options.only is None or options.only in name:
            X = np.ascontiguousarray(make(), dtype=np.float32)
            kept[name] = asdict(measured(X, n_clusters, others, options.seeds))
            if options.results:
                options.results.write_text(json.dumps(kept))
        if name in kept:
            found[name] = Cell.read(kept[name])
            print("  ".join([name, *found[name].row()]), flush=True)
    publish(page(found, missing), options.write, MARK)


if __name__ == "__main__":
    main()
