"""Seeds: right distributions, no zero weights, the same draw for the same set of points."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from difficult import SEEDING_KINDS, difficult_points
from instances import ENGINES, instances
from wolfmeans.core.draws import draw_rows, draws, integer_masses
from wolfmeans.engines import get_engine
from wolfmeans.exact.ordering import lexicographic_order
from wolfmeans.seeding.methods import METHODS, choose_seeds, spread_rows

VECTOR_UNITS = ("baseline", "avx2", "avx512")
BY_DISTANCE = ("plain-k-means++", "k-means++", "k-means||")
needs_native = pytest.mark.skipif("cpu" not in ENGINES, reason="the native module was not built")


def opened(X, weights=None, engine="reference", n_threads=1):
    return get_engine(engine).open(X, weights, n_threads)


@pytest.fixture(params=VECTOR_UNITS)
def vector_unit(request, monkeypatch):
    """Ask for one of the vector units; a machine without it takes the next narrower."""
    monkeypatch.setenv("WOLFMEANS_VECTOR_UNIT", request.param)
    return request.param


@pytest.mark.parametrize("method", METHODS)
@given(instance=instances(), seed=st.integers(0, 2**31 - 1))
def test_seeds_are_points_of_positive_weight(method, instance, seed):
    k = instance.n_clusters
    results = []
    for engine in ENGINES:
        seeds = choose_seeds(instance.open(engine), k, method, np.random.RandomState(seed))
        assert seeds.shape == (k, instance.X.shape[1])
        assert seeds.dtype == instance.X.dtype
        heavy = instance.X if instance.weights is None else instance.X[instance.weights > 0]
        assert {tuple(s) for s in seeds.tolist()} <= {tuple(x) for x in heavy.tolist()}
        results.append(seeds)
    assert all((seeds == results[0]).all() for seeds in results)


@needs_native
@pytest.mark.parametrize("method", BY_DISTANCE)
@given(instance=instances(120, 9, 30), seed=st.integers(0, 2**31 - 1))
def test_native_seeds_are_the_same_rows(method, instance, seed):
    rows = [
        METHODS[method](instance.open(engine), instance.n_clusters, np.random.RandomState(seed))
        for engine in ENGINES
    ]
    assert rows[0].tolist() == rows[1].tolist()


@needs_native
@pytest.mark.parametrize("kind", SEEDING_KINDS)
@pytest.mark.parametrize(("n", "d"), [(300, 1), (400, 3), (150, 5), (200, 18), (130, 70)])
def test_native_seeds_of_difficult_points(vector_unit, kind, n, d):
    rng = np.random.default_rng(n + d)
    X = difficult_points(kind, n, d, rng)
    weights = rng.choice([0.0, 1.0, 1.0, 2.5, 1e-3], size=n)
    for dtype in (np.float64, np.float32):
        if dtype == np.float32 and kind in ("tiny", "huge"):
            continue
        for w, k, method in ((None, 25, BY_DISTANCE[1]), (weights, 4, BY_DISTANCE[2])):
            points = X.astype(dtype)
            rows = [
                METHODS[method](opened(points, w, engine), k, np.random.RandomState(d))
                for engine in ENGINES
            ]
            assert rows[0].tolist() == rows[1].tolist()


@needs_native
def test_native_seeds_with_more_trials_than_a_register_has_lanes():
    X = np.random.default_rng(4).integers(0, 40, size=(900, 2)) / 8.0
    workspaces = [opened(X, None, engine) for engine in ENGINES]
    drawn = draws(np.random.RandomState(0), 1 + 60 * 19)
    rows = spread_rows(workspaces[0], drawn, 19)
    assert rows.tolist() == workspaces[1].spread_rows(drawn, 19).tolist()


@needs_native
@pytest.mark.parametrize("method", BY_DISTANCE)
def test_native_seeds_do_not_depend_on_threads(method):
    rng = np.random.default_rng(5)
    for d in (2, 24):
        X = np.round(rng.normal(size=(150_000, d)), 2)
        rows = [
            METHODS[method](opened(X, None, "cpu", threads), 12, np.random.RandomState(1)).tolist()
            for threads in (1, 2, 4)
        ]
        assert rows[0] == rows[1] == rows[2]


@needs_native
def test_native_seeding_leaves_sums_beyond_float64_to_the_specification():
    X = np.array([[0.0], [1e154], [1.2e154]])
    drawn = draws(np.random.RandomState(0), 3)
    assert opened(X, None, "cpu").spread_rows(drawn, 2) is None


@needs_native
@pytest.mark.parametrize("kind", SEEDING_KINDS)
@pytest.mark.parametrize(("n", "d"), [(1, 3), (13, 2), (900, 1), (3000, 4), (700, 40)])
def test_native_order_is_the_lexicographic_one(kind, n, d):
    rng = np.random.default_rng(n)
    X = difficult_points(kind, n, d, rng)
    X[rng.random(X.shape) < 0.3] *= 0.0  # zeros of both signs
    for points in (X, X.astype(np.float32)) if kind not in ("tiny", "huge") else (X,):
        assert opened(points, None, "cpu").order().tolist() == lexicographic_order(points).tolist()


@pytest.mark.parametrize("method", BY_DISTANCE)
@given(instance=instances(), seed=st.integers(0, 2**31 - 1))
def test_distinct_points_are_seeded_while_there_are_any(method, instance, seed):
    k = instance.n_clusters
    seeds = choose_seeds(instance.open(), k, method, np.random.RandomState(seed))
    assert len(np.unique(seeds, axis=0)) == min(k, instance.distinct_heavy_points())


@pytest.mark.parametrize("method", METHODS)
def test_shuffled_rows_give_the_same_seeds(method):
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(60, 3)), rng.choice([0.5, 1.0, 2.0], size=60)
    order = rng.permutation(60)
    for w in (None, weights):
        a = choose_seeds(opened(X, w), 7, method, np.random.RandomState(5))
        shuffled = opened(X[order], None if w is None else w[order])
        assert (a == choose_seeds(shuffled, 7, method, np.random.RandomState(5))).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", METHODS)
def test_equal_rows_of_different_weight_may_change_places(method, engine):
    X = np.array([[0, 0], [0, 0], [1, 5], [-2, 1], [4, 4], [3, -1], [-5, 2], [2, 2]], dtype=float)
    weights = np.array([1.0, 9.0, 1.0, 2.0, 1.0, 3.0, 1.0, 1.0])
    swapped = weights.copy()
    swapped[:2] = 9.0, 1.0
    here, there = opened(X, weights, engine), opened(X, swapped, engine)
    for seed in range(300):
        a = choose_seeds(here, 4, method, np.random.RandomState(seed))
        assert (a == choose_seeds(there, 4, method, np.random.RandomState(seed))).all()


@pytest.mark.parametrize("method", ["plain-k-means++", "k-means++"])
def test_integer_weights_act_like_copies(method):
    rng = np.random.default_rng(1)
    X, weights = rng.normal(size=(40, 2)), rng.integers(0, 4, size=40).astype(np.float64)
    copies = np.repeat(X, weights.astype(int), axis=0)
    for seed in range(10):
        a = choose_seeds(opened(X, weights), 6, method, np.random.RandomState(seed))
        b = choose_seeds(opened(copies), 6, method, np.random.RandomState(seed))
        assert (a == b).all()


def test_draws_follow_the_masses():
    masses = np.array([0.0, 1.0, 2.0, 5.0, 0.0, 0.5])
    workspace = opened(np.arange(6.0)[:, None])
    drawn = draw_rows(workspace, masses, np.random.RandomState(0), size=20_000)
    counts = np.bincount(drawn, minlength=6)
    assert counts[0] == counts[4] == 0
    expected = 20_000 * masses / masses.sum()
    some = masses > 0
    assert stats.chisquare(counts[some], expected[some]).pvalue > 1e-3


def test_second_seed_follows_the_squared_distance():
    X = np.array([[0.0], [1.0], [3.0]])
    weights = np.array([1.0, 4.0, 1.0])
    seconds = {0: [], 1: [], 2: []}
    for seed in range(4000):
        rng = np.random.RandomState(seed)
        first, second = METHODS["plain-k-means++"](opened(X, weights), 2, rng).tolist()
        seconds[first].append(second)
    starts = np.array([len(seconds[i]) for i in range(3)])
    assert stats.chisquare(starts, 4000 * weights / 6).pvalue > 1e-3
    # From 0: masses 4 * 1 and 1 * 9.
    shares = np.bincount(seconds[0], minlength=3)
    assert shares[0] == 0
    assert stats.chisquare(shares[1:], shares.sum() * np.array([4, 9]) / 13).pvalue > 1e-3


def test_greedy_is_better_than_plain_on_average():
    rng = np.random.default_rng(2)
    X = (rng.uniform(-10, 10, size=(20, 2))[:, None] + rng.normal(size=(20, 25, 2))).reshape(-1, 2)

    def potential(method, seed):
        workspace = opened(X)
        seeds = choose_seeds(workspace, 20, method, np.random.RandomState(seed))
        return math.fsum(workspace.nearest(seeds)[1].tolist())

    plain = np.mean([potential("plain-k-means++", s) for s in range(20)])
    greedy = np.mean([potential("k-means++", s) for s in range(20)])
    random = np.mean([potential("random", s) for s in range(20)])
    assert greedy < plain < random


def test_parallel_seeding_finds_separated_groups():
    rng = np.random.default_rng(3)
    X = (100.0 * np.arange(8)[:, None, None] + rng.normal(size=(8, 50, 2))).reshape(-1, 2)
    seeds = choose_seeds(opened(X), 8, "k-means||", np.random.RandomState(0))
    assert sorted(np.round(seeds[:, 0] / 100).astype(int)) == list(range(8))


@given(st.lists(st.floats(0, 1e300, allow_nan=False), min_size=1, max_size=50))
def test_integer_masses_fit_and_keep_proportions(values):
    masses = np.array(values)
    integers = integer_masses(masses)
    assert (integers >= 0).all()
    assert sum(integers.tolist()) < 2**63
    if masses.max() > 0:
        top = int(np.argmax(masses))
        assert integers[top] >= 2**40
        shares = masses / masses[top]
        np.testing.assert_allclose(integers / integers[top], shares, atol=2.0**-40)
