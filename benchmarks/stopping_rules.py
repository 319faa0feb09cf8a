"""Stopping rules side by side: how many iterations each takes, and what it leaves on the table.

Every rule runs from the same seeds on the same data: scikit-learn with its default tolerance and
with none, and wolfmeans with each of its rules. Reported are the number of iterations and the
relative excess of the final SSE over that of the fixed point which the same seeds lead to when
nothing but "no label changes" ends the run.

Two claims are checked on the way, and the script fails if one does not hold: `stop="shift"` counts
the same iterations as scikit-learn's rule, and all fixed points from one start are the same
partition. Nothing here depends on the speed of the machine.

Run it with

    python benchmarks/stopping_rules.py [--starts 5] [--write docs/faq.md]
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
import report_pages
import sklearn
from numpy.typing import NDArray
from sklearn.cluster import KMeans as PeerKMeans
from sklearn.cluster import kmeans_plusplus
from sklearn.datasets import load_digits, make_blobs

import wolfmeans
from wolfmeans import KMeans
from wolfmeans.files.datasets import load_segmentation

MARK = "stopping-rules"
ENOUGH_ITERATIONS = 100_000
SAME_SSE = 1e-10

Points = NDArray[np.float64]


@dataclass(frozen=True)
class Data:
    """Points and the number of clusters to look for."""

    name: str
    points: Points
    n_clusters: int

    @property
    def title(self) -> str:
        n, d = self.points.shape
        return f"{self.name}<br>n={n}, d={d}, K={self.n_clusters}"


@dataclass(frozen=True)
class Rule:
    """A stopping rule of one of the two libraries."""

    title: str
    estimator: type
    options: dict[str, Any]

    def fit(self, data: Data, seeds: Points) -> Any:
        model = self.estimator(
            data.n_clusters, init=seeds, n_init=1, max_iter=ENOUGH_ITERATIONS, **self.options
        )
        return model.fit(data.points)


PEER_DEFAULT = Rule("scikit-learn, `tol=1e-4` (its default)", PeerKMeans, {"tol": 1e-4})
PEER_FIXPOINT = Rule("scikit-learn, `tol=0`", PeerKMeans, {"tol": 0.0})
SHIFT = Rule('`stop="shift", tol=1e-4`', KMeans, {"stop": "shift", "tol": 1e-4})
FIXPOINT = Rule('`stop="stationary"`', KMeans, {"stop": "stationary"})
RULES = (
    PEER_DEFAULT,
    PEER_FIXPOINT,
    SHIFT,
    Rule('`stop="decrease", tol=1e-4`', KMeans, {"stop": "decrease", "tol": 1e-4}),
    Rule('`stop="decrease", tol=1e-6` (default)', KMeans, {}),
    Rule('`stop="decrease", tol=1e-8`', KMeans, {"stop": "decrease", "tol": 1e-8}),
    Rule('`stop="gap", tol=1e-6`', KMeans, {"stop": "gap", "tol": 1e-6}),
    FIXPOINT,
)


@dataclass(frozen=True)
class Outcome:
    """One rule on one data set, over all starts."""

    iterations: int
    """The median."""
    excess: float
    """The largest relative excess over the fixed point's SSE."""

    def __str__(self) -> str:
        return f"{self.iterations} · {_short(self.excess)}"


def _short(excess: float) -> str:
    """Write 0.000031 as 3.1e-5; what rounding could explain is 0."""
    if excess < SAME_SSE:
        return "0"
    digits, exponent = f"{excess:.1e}".split("e")
    return f"{digits}e{int(exponent)}"


def data_sets() -> list[Data]:
    rng = np.random.default_rng(0)
    return [
        Data("segmentation, standardized", load_segmentation().standardized(), 7),
        Data("digits", load_digits().data, 10),
        Data("blobs, apart", _blobs(2_000, 5, 8, spread=1.0), 8),
        Data("blobs, overlapping", _blobs(5_000, 3, 10, spread=3.0), 10),
        Data("blobs, overlapping", _blobs(20_000, 10, 20, spread=5.0), 20),
        Data("uniform in the square", rng.random((20_000, 2)), 50),
    ]


def _blobs(n: int, d: int, n_clusters: int, spread: float) -> Points:
    points, _ = make_blobs(n, n_features=d, centers=n_clusters, cluster_std=spread, random_state=0)
    return points


def compare(data: Data, n_starts: int) -> list[Outcome]:
    """Run all rules from each of several starts."""
    models = [_run_all(data, seed) for seed in range(n_starts)]
    return [
        Outcome(
            iterations=median_low(run[rule.title].n_iter_ for run in models),
            excess=max(
                run[rule.title].inertia_ / run[FIXPOINT.title].inertia_ - 1.0 for run in models
            ),
        )
        for rule in RULES
    ]


def _run_all(data: Data, seed: int) -> dict[str, Any]:
    seeds = _seeds(data, seed)
    models = {rule.title: rule.fit(data, seeds) for rule in RULES}
    _check(models, f"{data.name}, start {seed}")
    return models


def _seeds(data: Data, seed: int) -> Points:
    """Draw greedy k-means++ seeds and pull them a little towards the mean.

    Data of small integers has points exactly as far from one data point as from another. Such ties
    go to the lowest index here and to whatever rounding says in scikit-learn, and the two
    libraries may then go different ways. From seeds between the data points there are no ties.
    """
    seeds, _ = kmeans_plusplus(data.points, data.n_clusters, random_state=seed)
    return np.asarray(0.99 * seeds + 0.01 * data.points.mean(axis=0))


def _check(models: dict[str, Any], where: str) -> None:
    peer, shift = models[PEER_DEFAULT.title], models[SHIFT.title]
    if shift.n_iter_ != peer.n_iter_:
        raise AssertionError(
            f"{where}: stop='shift' took {shift.n_iter_} iterations, scikit-learn {peer.n_iter_}"
        )
    peer, ours = models[PEER_FIXPOINT.title], models[FIXPOINT.title]
    if ours.n_iter_ != peer.n_iter_ or not np.array_equal(ours.labels_, peer.labels_):
        raise AssertionError(f"{where}: the two libraries end at different fixed points")
    if abs(ours.inertia_ - peer.inertia_) > SAME_SSE * ours.inertia_:
        raise AssertionError(f"{where}: the fixed points' SSE differ")
    for title, model in models.items():
        if model.inertia_ < ours.inertia_ * (1.0 - SAME_SSE):
            raise AssertionError(f"{where}: {title} ends below the fixed point")


def table(data: Sequence[Data], columns: Sequence[Sequence[Outcome]]) -> str:
    """Return the table: a row for each rule, a column for each data set."""
    rows = [
        [rule.title, *(str(column[place]) for column in columns)]
        for place, rule in enumerate(RULES)
    ]
    return report_pages.table(["rule", *(one.title for one in data)], rows, left=1)


def report(n_starts: int, say: Callable[[str], None]) -> str:
    data = data_sets()
    columns = []
    for one in data:
        say(f"{one.name}: n, d = {one.points.shape}, K = {one.n_clusters}")
        columns.append(compare(one, n_starts))
    reading = (
        f"Iterations (`n_iter_`, median of {n_starts} starts) · relative excess of the SSE over "
        "the fixed point (the worst of those starts)."
    )
    return "\n\n".join((reading, table(data, columns), versions()))


def versions() -> str:
    return (
        f"wolfmeans {wolfmeans.__version__}, scikit-learn {sklearn.__version__}, "
        f"NumPy {np.__version__}, Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=5, help="starts per data set (default: 5)")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table into FILE")
    options = parser.parse_args(arguments)
    if options.starts < 1:
        parser.error("--starts must be at least 1")

    text = report(options.starts, say=lambda line: print(line, flush=True))
    report_pages.publish(text, options.write, MARK)


if __name__ == "__main__":
    main()
