"""Polishing: single moves and swaps, by brute force and in rational arithmetic, on every engine."""

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, pairwise
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from instances import ENGINES, Instance, instances
from wolfmeans.core.frank_wolfe import minimize_concave
from wolfmeans.core.kmeans import KMeansProblem
from wolfmeans.engines import get_engine
from wolfmeans.fitting import polish as polishing
from wolfmeans.fitting.polish import hartigan, polish

UNIT = Fraction(1, 2**53)
EVER = 10**6
needs_native = pytest.mark.skipif("cpu" not in ENGINES, reason="the native module is missing")


class Exact:
    """f at rounded centers, of a partition, without any rounding of its own."""

    def __init__(self, X, weights, n_clusters):
        self.n, self.d = X.shape
        self.dtype = X.dtype.type
        self.X = [[Fraction(float(x)) for x in row] for row in X]
        self.w = [Fraction(1)] * self.n if weights is None else [Fraction(w) for w in weights]
        self.K = n_clusters

    def center(self, members):
        weight = sum(self.w[i] for i in members)
        means = (sum(self.w[i] * self.X[i][j] for i in members) / weight for j in range(self.d))
        return [Fraction(float(self.dtype(m.numerator / m.denominator))) for m in means]

    def distance(self, i, center):
        return sum((x - c) ** 2 for x, c in zip(self.X[i], center, strict=True))

    def of_cluster(self, labels, k):
        members = [i for i in range(self.n) if labels[i] == k and self.w[i] > 0]
        if not members:
            return Fraction(0)
        center = self.center(members)
        return sum(self.w[i] * self.distance(i, center) for i in members)

    def value(self, labels):
        return sum(self.of_cluster(labels, k) for k in range(self.K))

    def cost(self, centers):
        """Each point at its nearest center."""
        exact = [[Fraction(float(c)) for c in center] for center in centers]
        return sum(w * min(self.distance(i, c) for c in exact) for i, w in enumerate(self.w))

    def gains_of_moves(self, labels):
        """Yield what each single move lowers f by, and the size of the terms of which this is."""
        clusters = [self.of_cluster(labels, k) for k in range(self.K)]
        for i in range(self.n):
            A = labels[i]
            for B in range(self.K):
                if B == A or self.w[i] == 0:
                    continue
                moved = labels.copy()
                moved[i] = B
                after = self.of_cluster(moved, A), self.of_cluster(moved, B)
                size = self.w[i] * (self.to_cluster(i, labels, A) + self.to_cluster(i, labels, B))
                yield clusters[A] + clusters[B] - sum(after), size

    def to_cluster(self, i, labels, k):
        members = [j for j in range(self.n) if labels[j] == k and self.w[j] > 0]
        return self.distance(i, self.center(members)) if members else Fraction(0)


def fractions_of(instance):
    return Exact(instance.X, instance.weights, instance.n_clusters)


def rounding(size, d, value=0):
    """Far more than the error of one decision: both distances, and the terms that repeat them."""
    return 8 * UNIT * (d + 8) * size + 64 * UNIT * value


@dataclass
class Run:
    """A run of Lloyd's steps, and its workspace and problem."""

    instance: Instance
    engine: str = "reference"
    threads: int = 1
    empty: str = "farthest"

    def __post_init__(self):
        engine = get_engine(self.engine)
        self.workspace = engine.open(self.instance.X, self.instance.weights, self.threads)
        self.rng = np.random.RandomState(3)
        self.problem = KMeansProblem(self.workspace, self.empty, self.random)
        self.first = self.problem.partition(self.instance.seeds)

    def random(self):
        return self.rng

    def descend(self, **settings):
        self.solution = minimize_concave(
            self.problem, self.first, **{"stop": "stationary", **settings}
        )
        return self

    def polished(self, kind, deadline=math.inf):
        return polish(self.problem, self.solution, kind, self.random, deadline)


def small(**limits):
    return instances(**{"max_points": 14, "max_features": 3, "max_clusters": 5, **limits})


# -- single moves


def search_of(instance, engine="reference", threads=1):
    workspace = get_engine(engine).open(instance.X, instance.weights, threads)
    found = workspace.assign(instance.seeds)
    return workspace, workspace.single_moves(found.means)


def assert_same_search(one, other):
    assert one.moves == other.moves
    assert one.sweeps == other.sweeps
    assert one.decrease == other.decrease
    assert one.tied == other.tied
    assert (one.labels == other.labels).all()
    assert (one.centers == other.centers).all()


@given(small())
def test_no_single_move_is_left_and_none_raised_f(instance):
    exact = fractions_of(instance)
    workspace, search = search_of(instance)
    before = exact.value(workspace.labels())
    values = [before]
    while not search.run(math.inf, 1):
        values.append(exact.value(search.labels))
    assert search.moves == 0 or all(b < a for a, b in pairwise(values))
    after = exact.value(search.labels)
    slack = rounding(before, exact.d) * max(1, search.moves)
    heavy = 1 if instance.weights is None else Fraction(instance.weights.max() + 1)
    spread = max(exact.distance(i, exact.X[0]) for i in range(exact.n))
    assert abs(before - after - Fraction(search.decrease)) <= slack + rounding(
        heavy * spread, exact.d
    ) * max(1, search.moves)
    for gain, size in exact.gains_of_moves(search.labels):
        assert gain <= rounding(size, exact.d)


@given(small(), st.sampled_from([1e6, 1e8]))
def test_rounded_centers_are_no_excuse(instance, offset):
    """In float32 far from the origin the rounding of centers decides what a move gains."""
    X = (instance.X + offset).astype(np.float32)
    instance = Instance(X, instance.weights, X[: instance.n_clusters].copy())
    exact = fractions_of(instance)
    workspace, search = search_of(instance)
    before = exact.value(workspace.labels())
    assert search.run(math.inf, EVER)
    assert exact.value(search.labels) <= before
    for gain, size in exact.gains_of_moves(search.labels):
        assert gain <= rounding(size, exact.d)


@needs_native
@settings(max_examples=100)
@given(instances(max_points=60, max_features=20, max_clusters=12), st.integers(1, 4))
def test_engines_take_the_same_moves(instance, threads):
    _, expected = search_of(instance)
    _, search = search_of(instance, "cpu", threads)
    assert expected.run(math.inf, EVER)
    assert search.run(math.inf, EVER)
    assert_same_search(search, expected)


def points(kind, n, d, rng):
    X = rng.normal(size=(n, d))
    if kind == "lattice":
        X = np.rint(2 * X)
    if kind == "far away":
        X += 1e6
    if kind == "outlier":
        X[n // 2] *= 1e7
    if kind == "clustered":
        X += 6.0 * rng.integers(0, 4, size=(n, 1))
    return X


@needs_native
@pytest.mark.parametrize("unit", ["baseline", "avx2", "avx512"])
@pytest.mark.parametrize("kind", ["normal", "lattice", "far away", "outlier", "clustered"])
def test_vector_units_and_threads_change_no_move(unit, kind, monkeypatch):
    monkeypatch.setenv("WOLFMEANS_VECTOR_UNIT", unit)
    rng = np.random.default_rng(5)
    for n, d, k, dtype in [(300, 2, 20, np.float64), (200, 9, 11, np.float32)]:
        X = points(kind, n, d, rng).astype(dtype)
        weights = None if d == 2 else rng.choice([0.0, 1.0, 2.0, 0.3], size=n)
        instance = Instance(X, weights, X[:k].copy())
        _, expected = search_of(instance)
        assert expected.run(math.inf, EVER)
        for threads in (1, 4):
            _, search = search_of(instance, "cpu", threads)
            while not search.run(math.inf, 1):
                pass
            assert_same_search(search, expected)


@needs_native
@pytest.mark.parametrize(("d", "weighted"), [(1, False), (1, True), (2, False), (2, True)])
def test_bounds_last_through_a_long_search(d, weighted):
    """From seeds in a corner, some of them out of reach, points move for dozens of sweeps."""
    rng = np.random.default_rng(8)
    X = rng.normal(size=(700, d))
    weights = rng.choice([0.5, 1.0, 1.0, 8.0], size=len(X)) if weighted else None
    seeds = X[np.argsort(X[:, 0])[: 24 // d]].copy()
    seeds[:2] += 1000.0
    instance = Instance(X, weights, seeds)
    _, expected = search_of(instance)
    assert expected.run(math.inf, EVER)
    assert expected.sweeps > 8 and expected.moves > 500
    for threads in (1, 3):
        _, search = search_of(instance, "cpu", threads)
        assert search.run(math.inf, EVER)
        assert_same_search(search, expected)


@needs_native
def test_a_search_in_many_short_calls_is_the_same():
    X = np.random.default_rng(0).normal(size=(3000, 3))
    instance = Instance(X, None, X[:15].copy())
    _, at_once = search_of(instance, "cpu")
    assert at_once.run(math.inf, EVER)
    assert at_once.moves > 20
    _, in_parts = search_of(instance, "cpu")
    calls = 1
    while not in_parts.run(1e-4, EVER):
        calls += 1
    assert calls > 2
    assert_same_search(in_parts, at_once)


def test_rows_without_weight_never_move():
    X = np.array([[0.0], [1.0], [1.2], [9.0], [10.0], [4.0]])
    weights = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    workspace = get_engine("reference").open(X, weights, 1)
    found = workspace.assign(np.array([[0.0], [1.0]]))
    search = workspace.single_moves(found.means)
    before = search.labels[5]
    assert search.run(math.inf, EVER)
    assert search.moves == 2 and search.labels[5] == before


def test_a_point_fills_an_empty_cluster():
    X = np.array([[0.0], [1.0], [5.0], [6.0]])
    instance = Instance(X, None, np.array([[3.0], [1000.0]]))
    for engine in ENGINES:
        workspace, search = search_of(instance, engine)
        assert (workspace.labels() == 0).all()
        assert search.run(math.inf, EVER)
        assert len(set(search.labels[:2])) == len(set(search.labels[2:])) == 1
        assert search.labels[0] != search.labels[3]
        assert search.decrease == 25.0


# -- swaps


def swaps_of(instance, engine="reference", threads=1):
    swaps = get_engine(engine).open(instance.X, instance.weights, threads).swaps()
    swaps.look(instance.seeds)
    return swaps


@given(small())
def test_changes_are_what_exchanges_change(instance):
    exact = fractions_of(instance)
    swaps = swaps_of(instance)
    before = exact.cost(instance.seeds)
    removals, changes = swaps.changes(np.arange(exact.n))
    for i, (removal, change) in enumerate(zip(removals, changes, strict=True)):
        costs = []
        for k in range(exact.K):
            centers = instance.seeds.copy()
            centers[k] = instance.X[i]
            costs.append(exact.cost(centers))
        slack = rounding(before + costs[removal], exact.d)
        assert abs(Fraction(change) - (costs[removal] - before)) <= slack
        assert costs[removal] <= min(costs) + 2 * slack


@needs_native
@settings(max_examples=150)
@given(instances(max_points=70, max_features=40, max_clusters=12), st.integers(1, 4))
def test_engines_find_the_same_changes(instance, threads):
    expected = swaps_of(instance)
    swaps = swaps_of(instance, "cpu", threads)
    rows = np.arange(len(instance.X))
    assert swaps.cost == expected.cost
    for name in ("labels", "nearest", "second"):
        assert (getattr(swaps, name) == getattr(expected, name)).all()
    for found, wanted in zip(swaps.changes(rows), expected.changes(rows), strict=True):
        assert (found == wanted).all()


@needs_native
@pytest.mark.parametrize("unit", ["baseline", "avx2", "avx512"])
@pytest.mark.parametrize("kind", ["normal", "lattice", "far away", "outlier", "clustered"])
def test_vector_units_change_no_change(unit, kind, monkeypatch):
    monkeypatch.setenv("WOLFMEANS_VECTOR_UNIT", unit)
    rng = np.random.default_rng(6)
    for n, d, k, dtype in [(2500, 2, 9, np.float64), (1200, 70, 5, np.float32)]:
        X = points(kind, n, d, rng).astype(dtype)
        weights = None if d == 2 else rng.choice([0.0, 1.0, 2.0, 0.3], size=n)
        instance = Instance(X, weights, X[:k].copy())
        expected, swaps = swaps_of(instance), swaps_of(instance, "cpu", 3)
        rows = rng.integers(0, n, size=13)
        for found, wanted in zip(swaps.changes(rows), expected.changes(rows), strict=True):
            assert (found == wanted).all()


# -- polishing


def assert_same_polish(one, other):
    assert one.record == other.record
    assert one.solution.status is other.solution.status
    assert (one.solution.point.centers == other.solution.point.centers).all()


@settings(max_examples=60)
@given(small(), st.sampled_from(polishing.POLISHES), st.sampled_from([0.0, 1e-2]))
def test_polishing_ends_where_it_says(instance, kind, tol):
    exact = fractions_of(instance)
    run = Run(instance).descend(stop="decrease", tol=tol * 100.0)
    before = exact.value(run.workspace.labels())
    polished = run.polished(kind)
    record, labels = polished.record, run.workspace.labels()
    assert record.level == kind and not record.timed_out
    # Lloyd's steps stand still there: labels are nearest centers and centers their means.
    centers = polished.solution.point.centers
    assert polished.solution.vertex.moved == 0
    assert (run.workspace.nearest(centers)[0] == labels).all()
    after = exact.value(labels)
    assert after <= before + rounding(before, exact.d)
    for gain, size in exact.gains_of_moves(labels):
        assert gain <= rounding(size, exact.d)
    if kind == "swap":
        here = exact.cost(centers)
        for i in np.flatnonzero([w > 0 for w in exact.w]).tolist():
            for k in range(exact.K):
                other = centers.copy()
                other[k] = instance.X[i]
                assert exact.cost(other) >= here - rounding(2 * here, exact.d)


@needs_native
@settings(max_examples=60)
@given(
    instances(max_points=60, max_clusters=8),
    st.sampled_from(polishing.POLISHES),
    st.integers(1, 4),
    st.sampled_from(["farthest", "keep", "admissible"]),
)
def test_engines_polish_alike(instance, kind, threads, empty):
    expected = Run(instance, empty=empty).descend().polished(kind)
    found = Run(instance, "cpu", threads, empty).descend().polished(kind)
    assert_same_polish(found, expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", polishing.POLISHES)
def test_the_ledger_agrees_with_the_cost(engine, kind):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3)) + 4.0 * rng.integers(0, 5, size=(400, 1))
    weights = rng.uniform(0.5, 2.0, size=400)
    run = Run(Instance(X, weights, X[:12].copy()), engine).descend()
    before = run.workspace.cost(run.solution.point.centers)
    polished = run.polished(kind)
    after = run.workspace.cost(polished.solution.point.centers)
    assert polished.record.moves > 0
    assert (polished.record.swaps > 0) == (kind == "swap")
    assert before - after == pytest.approx(polished.record.decrease, abs=1e-12 * before)
    assert polished.record.decrease > 0
    audited = run.problem.audit(polished.solution, after)
    assert audited.status is polished.solution.status


def test_single_moves_help_where_lloyd_is_stuck():
    # 4 is at 8/3 from the mean of its cluster {0, 0, 4} and at 3 from 7, so it stays for Lloyd.
    # But 3/2 (8/3)^2 > 5/6 3^2: when it leaves, the mean is free to go where the others are.
    X = np.array([[0.0], [0.0], [4.0], [7.0], [7.0], [7.0], [7.0], [7.0]])
    run = Run(Instance(X, None, np.array([[1.0], [7.2]]))).descend()
    assert (run.workspace.labels() == [0, 0, 0, 1, 1, 1, 1, 1]).all()
    polished = run.polished("hartigan")
    assert (run.workspace.labels() == [0, 0, 1, 1, 1, 1, 1, 1]).all()
    assert polished.record.moves == 1 and polished.record.level == "hartigan"
    assert not polished.record.tied


def corners():
    """Three clusters far apart, two centers in the first, one between the others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    X[20:40, 0] += 50.0
    X[40:, 1] += 50.0
    return Instance(X, None, np.array([[-1.0, 0.0], [1.0, 0.0], [25.0, 25.0]]))


@pytest.mark.parametrize("engine", ENGINES)
def test_swaps_help_where_single_moves_are_stuck(engine):
    run = Run(corners(), engine).descend()
    before = run.workspace.cost(run.solution.point.centers)
    moved = run.polished("hartigan")
    assert moved.record.decrease < 0.01 * before
    run = Run(corners(), engine).descend()
    polished = run.polished("swap")
    assert polished.record.swaps == 1 and polished.record.level == "swap"
    assert polished.record.decrease > 0.9 * before
    assert sorted(np.bincount(run.workspace.labels())) == [20, 20, 20]


def test_too_many_points_for_a_look_at_all(monkeypatch):
    monkeypatch.setattr(polishing, "_MOST_COORDINATES", 60 * 60 * 2 - 1)
    polished = Run(corners()).descend().polished("swap")
    assert polished.record.level == "hartigan" and not polished.record.timed_out
    assert polished.record.swaps == 1
    assert polished.record.swaps_tried >= 64


def test_a_tie_is_told():
    # Leaving {-3, -3, 0} is worth 3/2 2^2 to 0, joining {3, 3} costs 2/3 3^2.
    X = np.array([[-3.0], [-3.0], [0.0], [3.0], [3.0]])
    run = Run(Instance(X, None, np.array([[-3.0], [3.0]]))).descend()
    tied = hartigan(run.problem, run.solution.point)
    assert tied.finished and tied.tied and tied.moves == 0
    X[0] = -3.5
    run = Run(Instance(X, None, np.array([[-3.0], [3.0]]))).descend()
    assert run.polished("hartigan").record.tied is False


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", polishing.POLISHES)
def test_one_cluster_and_one_for_each_point(engine, kind):
    X = np.random.default_rng(2).normal(size=(9, 2))
    for seeds in (X[:1], X):
        polished = Run(Instance(X, None, seeds.copy()), engine).descend().polished(kind)
        assert polished.record.level == kind
        assert polished.record.moves == polished.record.swaps == 0
        assert polished.record.decrease == 0.0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", polishing.POLISHES)
def test_more_clusters_than_distinct_points(engine, kind):
    X = np.repeat(np.array([[0.0, 1.0], [2.0, 2.0]]), 4, axis=0)
    polished = Run(Instance(X, None, X[[0, 1, 4, 5]].copy()), engine).descend().polished(kind)
    assert polished.record.level == kind and polished.record.decrease == 0.0


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", polishing.POLISHES)
def test_the_deadline_ends_it(engine, kind, monkeypatch):
    """The clock ticks whenever it is looked at, so that the time is over at any point."""
    X = np.random.default_rng(0).normal(size=(200, 5))
    instance = Instance(X, None, X[:20].copy())
    run = Run(instance, engine).descend(max_iter=2)
    polished = run.polished(kind, perf_counter() - 1.0)
    assert polished.record.timed_out and polished.record.level is None
    assert polished.solution is run.solution
    levels = []
    for ticks in (2, 4, 8, 16, 32, 10**6):
        run = Run(instance, engine).descend(max_iter=2)
        clock = count()
        monkeypatch.setattr(polishing, "perf_counter", lambda clock=clock: float(next(clock)))
        polished = run.polished(kind, float(ticks))
        levels.append(polished.record.level)
        assert polished.record.timed_out == (polished.record.level != kind)
        # What was gained by then is kept, and the point is what it says.
        cost = run.workspace.cost(polished.solution.point.centers)
        gained = run.solution.value - cost - polished.solution.gap
        assert gained == pytest.approx(polished.record.decrease, abs=1e-12 * cost)
    assert levels[0] is None and levels[-1] == kind


def test_a_search_cut_short_goes_on_from_the_nearest_centers(monkeypatch):
    X = np.random.default_rng(0).normal(size=(600, 4))
    values = []
    for most in (10**8, 0):
        monkeypatch.setattr(polishing, "_MOST_FORCED", most)
        run = Run(Instance(X, None, X[:20].copy())).descend(max_iter=1)
        moved = hartigan(run.problem, run.solution.vertex, sweeps=1)
        assert moved.partition is not None and not moved.finished
        values.append(moved.partition.sse)
        if most:
            before = run.solution.value - run.solution.decrease
            assert moved.partition.sse == pytest.approx(before - moved.decrease, rel=1e-12)
    assert values[1] <= values[0]


def test_labels_that_are_not_those_of_the_search_are_looked_at_again(monkeypatch):
    # The search ends at {0}, {0}, {4, 7, ...}. By nearest centers both zeros are in one cluster,
    # and the other is empty: 4 may move there, which gains 7.5.
    X = np.array([[0.0], [4.0], [0.0], [7.0], [7.0], [7.0], [7.0], [7.0]])
    monkeypatch.setattr(polishing, "_MOST_FORCED", 0)
    run = Run(Instance(X, None, np.array([[1.0], [100.0], [7.2]])), empty="keep").descend()
    polished = run.polished("hartigan")
    assert polished.record.level == "hartigan"
    assert run.workspace.cost(polished.solution.point.centers) == 0.0


@pytest.mark.parametrize("kind", polishing.POLISHES)
def test_sparse_rows_are_polished_as_dense_ones(kind):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 6)) * (rng.uniform(size=(80, 6)) < 0.4)
    seeds = X[:5].copy()
    dense = Run(Instance(X, None, seeds)).descend().polished(kind)
    for engine in ENGINES:
        run = Run(Instance(sparse.csr_array(X), None, seeds), engine).descend()
        polished = run.polished(kind)
        assert polished.record.level == kind
        assert polished.record.moves == dense.record.moves
        assert polished.record.swaps == dense.record.swaps
        assert polished.record.decrease == pytest.approx(dense.record.decrease, rel=1e-9)
        assert np.allclose(polished.solution.point.centers, dense.solution.point.centers)


def test_an_unknown_polish_is_refused():
    run = Run(corners()).descend()
    with pytest.raises(ValueError, match="polish must be one of 'hartigan', 'swap'; got 'spit'"):
        run.polished("spit")
