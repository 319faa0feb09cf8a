"""Seeds: right distributions, no zero weights, the same draw for the same set of points."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from instances import ENGINES, instances
from wolfmeans.engines import get_engine
from wolfmeans.seeding import METHODS, choose_seeds, draw_rows, integer_masses, uniforms


def opened(X, weights=None, engine="reference"):
    return get_engine(engine).open(X, weights, 1)


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


@pytest.mark.parametrize("method", ["k-means++", "greedy-k-means++"])
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


@pytest.mark.parametrize("method", ["k-means++", "greedy-k-means++"])
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
        first, second = METHODS["k-means++"](opened(X, weights), 2, rng).tolist()
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

    plain = np.mean([potential("k-means++", s) for s in range(20)])
    greedy = np.mean([potential("greedy-k-means++", s) for s in range(20)])
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


def test_uniforms_are_uniform_and_keyed():
    u = uniforms(7, 2, 50_000)
    assert ((u >= 0) & (u < 1)).all()
    assert stats.kstest(u, "uniform").pvalue > 1e-3
    assert (uniforms(7, 2, 10) == u[:10]).all()
    assert not (uniforms(8, 2, 10) == u[:10]).any()
    assert not (uniforms(7, 3, 10) == u[:10]).any()
