"""The methods that are compared, each behind a small adapter.

Every method gets the same points, the same start and the same end: labels that no longer change,
or a largest number of iterations. A method that cannot see that its labels are fixed (faiss) gets
the number of iterations.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn.cluster
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

import wolfmeans
from wolfmeans.bench.problems import Points, Problem


@dataclass(frozen=True)
class Limits:
    """When to end, and how many threads to use."""

    max_iter: int
    threads: int
    fixpoint: int | None = None
    """Iterations to fixed labels or to `max_iter`, as wolfmeans counted them; None: `max_iter`."""

    @property
    def count(self) -> int:
        """Iterations for a method that cannot see when to stop."""
        return self.max_iter if self.fixpoint is None else self.fixpoint


@dataclass(frozen=True)
class Fitted:
    """What a method returned."""

    centers: Points
    iterations: int
    labels: NDArray[np.integer] | None = None
    """None where a method does not return them."""


class Method(ABC):
    """Something that fits K-means; subclasses import their library when they are made."""

    title = ""
    package = ""
    """Name of the distribution, as pip knows it."""
    exact = True
    """Whether it runs Lloyd's iteration from the given start; others are reported separately."""

    def refuses(self, problem: Problem) -> str | None:
        """Return why this method cannot take the problem, or None."""
        return None

    @abstractmethod
    def fit(self, problem: Problem, limits: Limits) -> Fitted:
        """Fit, and return the centers with the number of iterations."""

    def labels(self, problem: Problem, fitted: Fitted) -> NDArray[np.integer] | None:
        """Return the labels that go with a fit, None if the method has none; not timed."""
        return fitted.labels

    def version(self) -> str:
        """Return the version of the library."""
        return importlib.metadata.version(self.package)


class Wolfmeans(Method):
    """Ours. The certificate's lower bound is left out: no peer computes one."""

    title = "wolfmeans"
    package = "wolfmeans"

    def __init__(self, algorithm: str = "auto") -> None:
        self.algorithm = algorithm

    def fit(self, problem: Problem, limits: Limits) -> Fitted:
        """Fit."""
        settings = {"stop": "stationary", "bound": None, "algorithm": self.algorithm}
        return _fitted(wolfmeans.KMeans, problem, limits, n_threads=limits.threads, **settings)

    def version(self) -> str:
        """Return the version of the package that runs, installed or not."""
        return wolfmeans.__version__


class ScikitLearn(Method):
    """scikit-learn, with either of its algorithms."""

    package = "scikit-learn"

    def __init__(self, algorithm: str) -> None:
        self.algorithm = algorithm
        self.title = f"sklearn {algorithm}"

    def fit(self, problem: Problem, limits: Limits) -> Fitted:
        """Fit."""
        kind = sklearn.cluster.KMeans
        return _fitted(kind, problem, limits, tol=0.0, algorithm=self.algorithm)


class ScikitLearnIntelex(Method):
    """Its own class; scikit-learn itself is not patched."""

    title = "sklearnex"
    package = "scikit-learn-intelex"

    def __init__(self) -> None:
        self.cluster = importlib.import_module("sklearnex.cluster")

    def fit(self, problem: Problem, limits: Limits) -> Fitted:
        """Fit."""
        return _fitted(self.cluster.KMeans, problem, limits, tol=0.0, n_jobs=limits.threads)


class Faiss(Method):
    """All points and no subsample; it has no test for fixed labels and gets their count.

    Since 1.15 it ends when its float32 objective stalls, which may be before the labels are fixed;
    a negative threshold turns that off.
    """

    title = "faiss"
    package = "faiss-cpu"

    def __init__(self) -> None:
        self.faiss = importlib.import_module("faiss")
        known = hasattr(self.faiss.ClusteringParameters(), "early_stop_threshold")
        self.to_the_end = {"early_stop_threshold": -1.0} if known else {}

    def refuses(self, problem: Problem) -> str | None:
        """Return why this method cannot take the problem, or None."""
        return None if problem.dtype == "float32" else "float32 only"

    def fit(self, problem: Problem, limits: Limits) -> Fitted:
        """Fit."""
        n, d = problem.points.shape
        self.faiss.omp_set_num_threads(limits.threads)
        model = self.faiss.Kmeans(
            d,
            len(problem.seeds),
            niter=limits.count,
            min_points_per_centroid=1,
            max_points_per_centroid=n,
            spherical=False,
            **self.to_the_end,
        )
        model.train(problem.points, init_centroids=problem.seeds)
        return Fitted(model.centroids, len(model.obj))

    def labels(self, problem: Problem, fitted: Fitted) -> NDArray[np.integer]:
        """Ask an index of the centers: a fit has no labels."""
        index = self.faiss.IndexFlatL2(problem.points.shape[1])
        index.add(np.ascontiguousarray(fitted.centers, dtype=np.float32))
        found: NDArray[np.integer] = index.search(problem.points, 1)[1][:, 0]
        return found


class SuperKMeans(Method):
    """Prunes by a random projection and draws its own start, so it is reported separately."""

    title = "superkmeans"
    package = "superkmeans"
    exact = False
    smallest_d = 128

    def __init__(self) -> None:
        self.superkmeans = importlib.import_module("superkmeans")

    def refuses(self, problem: Problem) -> str | None:
        """Return why this method cannot take the problem, or None."""
        if problem.dtype != "float32":
            return "float32 only"
        return None if problem.shape.d >= self.smallest_d else f"d >= {self.smallest_d} only"

    def fit(self, problem: Problem, limits: Limits) -> Fitted:
        """Fit."""
        n, d = problem.points.shape
        model = self.superkmeans.SuperKMeans(
            len(problem.seeds),
            d,
            hierarchical=False,
            iters=limits.count,
            sampling_fraction=1.0,
            max_points_per_cluster=n,
            early_termination=False,
            n_threads=limits.threads,
        )
        centers = model.train(problem.points)
        return Fitted(centers, len(model.iteration_stats))


def _fitted(estimator: Any, problem: Problem, limits: Limits, **settings: Any) -> Fitted:
    """Fit an estimator with scikit-learn's interface."""
    model = estimator(
        len(problem.seeds), init=problem.seeds, n_init=1, max_iter=limits.max_iter, **settings
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(problem.points)
    return Fitted(model.cluster_centers_, int(model.n_iter_), model.labels_)


PEERS: tuple[tuple[str, Callable[[], Method]], ...] = (
    ("scikit-learn", lambda: ScikitLearn("lloyd")),
    ("scikit-learn", lambda: ScikitLearn("elkan")),
    ("scikit-learn-intelex", ScikitLearnIntelex),
    ("faiss-cpu", Faiss),
    ("superkmeans", SuperKMeans),
)


def installed_peers() -> tuple[list[Method], list[str]]:
    """Return the peers that can be used here and the names of those that cannot."""
    peers, missing = [], []
    for package, make in PEERS:
        try:
            peers.append(make())
        except ImportError as error:
            missing.append(f"{package} ({error})")
    return peers, missing
