"""The methods that are compared, each behind a small adapter, and what makes them comparable.

Every method gets the same points, the same start and the same end: labels that no longer change,
or a largest number of iterations. A method that cannot see that its labels are fixed (faiss) is
told how many iterations that takes. All centers are judged by one function, in float64.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

import numpy as np
import sklearn.cluster
from data import Points, Problem, Shape
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import wolfmeans

SAME_INERTIA = 1e-6
BLOCK_BYTES = 1 << 26
SKIP_SLOW = 20.0  # so many times wolfmeans' time, and a peer is not run again
ALWAYS_REPEATED = 1.0  # seconds; below, one wait of threads for each other can be all of a fit
PAUSE = 0.01  # threads of the library timed before may still be spinning


@dataclass(frozen=True)
class Limits:
    """When to end, and what to use until then."""

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


class Method(ABC):
    """Something that fits K-means; subclasses import their library when they are made."""

    title = ""
    package = ""
    """Name of the distribution, as pip knows it."""
    exact = True
    """Runs Lloyd's iteration from the start it is given; others are reported beside."""

    def refuses(self, problem: Problem) -> str | None:
        """Say why this method does not take the problem, if so."""
        return None

    @abstractmethod
    def fit(self, problem: Problem, limits: Limits) -> Fitted:
        """Fit, and return the centers with the number of iterations."""

    def version(self) -> str:
        return importlib.metadata.version(self.package)


class Wolfmeans(Method):
    """This package. The certificate's lower bound is left out: no peer computes one."""

    title = "wolfmeans"
    package = "wolfmeans"

    def __init__(self, algorithm: str = "auto") -> None:
        self.algorithm = algorithm

    def fit(self, problem: Problem, limits: Limits) -> Fitted:
        model = wolfmeans.KMeans(
            len(problem.seeds),
            init=problem.seeds,
            n_init=1,
            max_iter=limits.max_iter,
            stop="stationary",
            certify=None,
            algorithm=self.algorithm,
            n_threads=limits.threads,
        )
        return _fitted(model, problem)


class ScikitLearn(Method):
    package = "scikit-learn"

    def __init__(self, algorithm: str) -> None:
        self.algorithm = algorithm
        self.title = f"sklearn {algorithm}"

    def fit(self, problem: Problem, limits: Limits) -> Fitted:
        model = sklearn.cluster.KMeans(
            len(problem.seeds),
            init=problem.seeds,
            n_init=1,
            max_iter=limits.max_iter,
            tol=0.0,
            algorithm=self.algorithm,
        )
        return _fitted(model, problem)


class ScikitLearnIntelex(Method):
    """Its own class; scikit-learn itself stays as it is."""

    title = "sklearnex"
    package = "scikit-learn-intelex"

    def __init__(self) -> None:
        self.cluster = importlib.import_module("sklearnex.cluster")

    def fit(self, problem: Problem, limits: Limits) -> Fitted:
        model = self.cluster.KMeans(
            len(problem.seeds),
            init=problem.seeds,
            n_init=1,
            max_iter=limits.max_iter,
            tol=0.0,
            n_jobs=limits.threads,
        )
        return _fitted(model, problem)


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
        return None if problem.dtype == "float32" else "float32 only"

    def fit(self, problem: Problem, limits: Limits) -> Fitted:
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


class SuperKMeans(Method):
    """Prunes by a random projection and draws its own start, so it stands beside the others."""

    title = "superkmeans"
    package = "superkmeans"
    exact = False
    smallest_d = 128

    def __init__(self) -> None:
        self.superkmeans = importlib.import_module("superkmeans")

    def refuses(self, problem: Problem) -> str | None:
        if problem.dtype != "float32":
            return "float32 only"
        return None if problem.shape.d >= self.smallest_d else f"d >= {self.smallest_d} only"

    def fit(self, problem: Problem, limits: Limits) -> Fitted:
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


def _fitted(model: Any, problem: Problem) -> Fitted:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(problem.points)
    return Fitted(model.cluster_centers_, int(model.n_iter_))


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


def inertia(points: Points, centers: Points) -> float:
    """Return the sum of squared distances to the nearest centers, evaluated in float64.

    The nearest center is found by the expanded square, its distance is then computed directly.
    """
    centers = np.asarray(centers, dtype=np.float64)
    half_norms = 0.5 * np.einsum("kj,kj->k", centers, centers)
    rows = max(1, BLOCK_BYTES // (8 * max(centers.shape)))
    sums = []
    for first in range(0, points.shape[0], rows):
        block = points[first : first + rows].astype(np.float64)
        nearest = np.argmax(block @ centers.T - half_norms, axis=1)
        dense = block.toarray() if sparse.issparse(block) else block
        sums.append(float(np.square(dense - centers[nearest]).sum()))
    return math.fsum(sums)


@dataclass(frozen=True)
class Outcome:
    """One method on one problem."""

    seconds: float
    """Median time of a whole fit."""
    best: float
    repeats: int
    iterations: int
    excess: float
    """Relative excess of the inertia over wolfmeans'."""
    same_inertia: bool
    same_iterations: bool

    @property
    def per_iteration(self) -> float:
        return self.seconds / max(1, self.iterations)


@dataclass(frozen=True)
class Race:
    """All methods on one problem; a peer that refused it or failed has a reason in place."""

    data: str
    dtype: str
    shape: Shape
    max_iter: int
    inertia: float
    ours: Outcome
    peers: dict[str, Outcome | str]
    exact: tuple[str, ...]
    """The titles of the exact peers that finished."""

    def ratio(self, title: str) -> float:
        """Return how many times longer a peer takes than wolfmeans."""
        return self._outcome(title).seconds / self.ours.seconds

    def ratio_per_iteration(self, title: str) -> float:
        return self._outcome(title).per_iteration / self.ours.per_iteration

    @property
    def fastest(self) -> str | None:
        """The exact peer of the shortest time. One that disagrees counts, and is marked."""
        return min(self.exact, key=self.ratio, default=None)

    @property
    def marked(self) -> list[str]:
        """The exact peers whose inertia or number of iterations is another."""
        return [
            title
            for title in self.exact
            if not (self._outcome(title).same_inertia and self._outcome(title).same_iterations)
        ]

    def _outcome(self, title: str) -> Outcome:
        outcome = self.peers[title]
        if isinstance(outcome, str):
            raise KeyError(f"{title}: {outcome}")
        return outcome


@dataclass
class _Lane:
    """What is known of one method while a race is run."""

    seconds: list[float] = field(default_factory=list)
    fitted: Fitted | None = None
    failure: Exception | None = None

    def finished(self) -> Fitted:
        if self.failure is not None:
            raise self.failure
        if self.fitted is None:
            raise RuntimeError("nothing was run")
        return self.fitted

    def wants_more(self, budget: float) -> bool:
        return self.failure is None and sum(self.seconds) + self.seconds[-1] <= budget


def race(
    problem: Problem,
    ours: Method,
    peers: Sequence[Method],
    limits: Limits,
    *,
    repeats: int,
    budget: float,
    skip_slow: float = SKIP_SLOW,
) -> Race:
    """Time whole fits, in turn so that a busy machine is busy for all, and compare the ends.

    A method is repeated while that keeps the sum of its times within `budget` seconds, but not a
    peer whose first run took more than `skip_slow` times as long as the first of wolfmeans, and
    more than a second.
    """
    refusals = {peer.title: peer.refuses(problem) for peer in peers}
    methods = [ours, *(peer for peer in peers if refusals[peer.title] is None)]
    lanes = {method.title: _Lane() for method in methods}
    for turn in range(repeats):
        for method in methods:
            lane = lanes[method.title]
            if turn == 0 or lane.wants_more(budget):
                _run(method, problem, limits, lane)
            if method is ours:
                limits = replace(limits, fixpoint=lane.finished().iterations)
        if turn == 0:
            slow = max(skip_slow * lanes[ours.title].seconds[0], ALWAYS_REPEATED)
            methods = [m for m in methods if m is ours or lanes[m.title].seconds[0] <= slow]
    first = lanes[ours.title].finished()
    reference = inertia(problem.points, first.centers)
    outcomes = {
        title: _outcome(lane, problem, first.iterations, reference) for title, lane in lanes.items()
    }
    found = {peer.title: refusals[peer.title] or outcomes[peer.title] for peer in peers}
    return Race(
        data=problem.data,
        dtype=problem.dtype,
        shape=problem.shape,
        max_iter=limits.max_iter,
        inertia=reference,
        ours=outcomes[ours.title],
        peers=found,
        exact=tuple(p.title for p in peers if p.exact and isinstance(found[p.title], Outcome)),
    )


def _run(method: Method, problem: Problem, limits: Limits, lane: _Lane) -> None:
    time.sleep(PAUSE)
    begun = time.perf_counter()
    try:
        lane.fitted = method.fit(problem, limits)
    except Exception as error:
        lane.failure = error
    lane.seconds.append(time.perf_counter() - begun)


def _outcome(lane: _Lane, problem: Problem, iterations: int, reference: float) -> Outcome | str:
    if lane.failure is not None:
        return f"failed: {lane.failure!r}"
    fitted = lane.finished()
    found = inertia(problem.points, fitted.centers)
    excess = (found - reference) / reference if reference else found
    return Outcome(
        seconds=median(lane.seconds),
        best=min(lane.seconds),
        repeats=len(lane.seconds),
        iterations=fitted.iterations,
        excess=excess,
        same_inertia=bool(abs(excess) <= SAME_INERTIA),
        same_iterations=fitted.iterations == iterations,
    )


def iterations_within(
    seconds: float, problem: Problem, methods: Sequence[Method], limits: Limits
) -> int:
    """Return how many iterations the slowest of the exact methods makes in that time, about.

    Two short fits tell a fixed cost and a cost per iteration. Never less than five iterations.
    """
    allowed = limits.max_iter
    for method in methods:
        if not method.exact or method.refuses(problem) is not None:
            continue
        lane = _Lane()
        for count in (2, 4):
            if lane.failure is None and sum(lane.seconds) < seconds:
                _run(method, problem, replace(limits, max_iter=count), lane)
        if lane.failure is None:
            each = max((lane.seconds[-1] - lane.seconds[0]) / 2, lane.seconds[-1] / 20, 1e-9)
            fixed = max(0.0, lane.seconds[0] - 2 * each)
            allowed = min(allowed, int((seconds - fixed) / each))
    return min(limits.max_iter, max(5, allowed))
