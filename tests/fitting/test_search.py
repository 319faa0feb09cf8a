"""A search must find what is known to be there, keep what it has, and end when it is told."""

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from instances import ENGINES, Instance, instances
from wolfmeans.engines import get_engine
from wolfmeans.fitting.fit import Fit, Start, run
from wolfmeans.fitting.search import Effort, search

SETTINGS = {"stop": "stationary", "tol": 0.0, "tol_scale": "initial", "empty": "farthest"}


def random_source(seed: int):
    return cache(lambda: np.random.RandomState(seed))


def fit_from(workspace, seeds) -> Fit:
    twin = workspace.fork(1)
    return run(Start(twin, seeds, random_source(0)), max_steps=None, **SETTINGS)


def search_and_fit(workspace, seeds, *, seed: int = 0, **limits) -> tuple[Fit, Fit, Effort]:
    """Return the ordinary fit, the one after a search from its centers, and the record."""
    before = fit_from(workspace, seeds)
    centers, effort = search(workspace.fork(1), before.centers, random_source(seed), **limits)
    return before, fit_from(workspace, centers), effort


def gaussian_grid(side: int, per_cluster: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    places = np.stack(np.meshgrid(np.arange(side), np.arange(side)), axis=-1).reshape(-1, 2)
    labels = np.repeat(np.arange(side * side), per_cluster)
    points = places[labels] + 0.02 * rng.normal(size=(len(labels), 2))
    return points, labels


def within(points, labels) -> float:
    clusters = [points[labels == k] for k in np.unique(labels)]
    return sum(float(((cluster - cluster.mean(axis=0)) ** 2).sum()) for cluster in clusters)


@pytest.mark.parametrize("seed", range(3))
def test_reaches_the_optimum_of_a_grid_from_bad_seeds(seed):
    points, labels = gaussian_grid(5, 20)
    workspace = get_engine("auto").open(points, None, 1)
    # All seeds in one of the 25 clusters, and then some.
    before, after, effort = search_and_fit(workspace, points[:25].copy(), seed=seed, rounds=60)
    assert before.inertia > 2 * within(points, labels)
    assert after.inertia == pytest.approx(within(points, labels), rel=1e-9)
    assert effort.before == pytest.approx(before.inertia)
    assert effort.after == pytest.approx(after.inertia)
    assert effort.accepted > 0
    assert f"{100 * effort.gained:.3g} %" in str(effort)


@settings(max_examples=25)
@given(instances(), st.integers(0, 5))
def test_is_never_worse_than_the_plain_fit_and_the_same_on_all_engines(instance: Instance, seed):
    found = []
    for engine in ENGINES:
        workspace = instance.open(engine)
        before, after, effort = search_and_fit(workspace, instance.seeds, seed=seed, rounds=5)
        assert after.inertia <= before.inertia
        assert effort.after <= effort.before
        assert effort.rounds <= 5
        found.append(after.centers)
    assert all((centers == found[0]).all() for centers in found)


def test_is_the_same_again_and_with_more_threads():
    points = np.random.default_rng(1).normal(size=(600, 3))
    found = []
    for threads in (1, 1, 2):
        workspace = get_engine("auto").open(points, None, threads)
        centers, effort = search(
            workspace, points[:12].copy(), random_source(4), rounds=40, n_threads=threads
        )
        found.append((centers.tobytes(), effort.tried, effort.accepted, effort.starts))
    assert len(set(found)) == 1


def test_another_generator_goes_another_way():
    points = np.random.default_rng(1).normal(size=(600, 3))
    workspace = get_engine("auto").open(points, None, 1)
    one, _ = search(workspace.fork(1), points[:12].copy(), random_source(0), rounds=3)
    other, _ = search(workspace.fork(1), points[:12].copy(), random_source(1), rounds=3)
    assert (one != other).any()


def test_begins_anew_when_exchanges_fail_and_crosses_what_it_found():
    points = np.random.default_rng(2).normal(size=(120, 2))
    workspace = get_engine("auto").open(points, None, 1)
    _, after, effort = search_and_fit(workspace, points[:4].copy(), rounds=60)
    assert effort.starts > 8
    assert after.inertia <= effort.after * (1 + 1e-9)


def test_ends_in_time():
    points = np.random.default_rng(3).random((20_000, 4))
    workspace = get_engine("auto").open(points, None, 1)
    _, effort = search(workspace, points[:50].copy(), random_source(0), seconds=0.2)
    # A search that did not look at the clock would not end at all.
    assert effort.seconds >= 0.2


def test_no_time_at_all_returns_what_was_given():
    points = np.random.default_rng(3).random((200, 4))
    workspace = get_engine("auto").open(points, None, 1)
    seeds = points[:5].copy()
    centers, effort = search(workspace, seeds, random_source(0), seconds=0.0)
    assert (centers == seeds).all()
    assert effort.rounds == effort.tried == 0
    assert "nothing better" in str(effort)


def test_needs_a_limit():
    workspace = get_engine("auto").open(np.ones((3, 1)), None, 1)
    with pytest.raises(ValueError, match="seconds or rounds"):
        search(workspace, np.ones((1, 1)), random_source(0))


def test_weights_count():
    points, labels = gaussian_grid(4, 15)
    weights = np.where(labels % 2 == 0, 1.0, 0.0)
    heavy = labels % 2 == 0
    workspace = get_engine("auto").open(points, weights, 1)
    _, after, _ = search_and_fit(workspace, points[:8].copy(), rounds=60)
    assert after.inertia == pytest.approx(within(points[heavy], labels[heavy]), rel=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
def test_sparse_points(engine):
    points, labels = gaussian_grid(3, 6)
    workspace = get_engine(engine).open(sparse.csr_array(points), None, 1)
    _, after, _ = search_and_fit(workspace, points[:9].copy(), rounds=40)
    assert after.inertia == pytest.approx(within(points, labels), rel=1e-9)


@pytest.mark.parametrize("n_clusters", [1, 6])
def test_one_cluster_and_as_many_as_points(n_clusters):
    points = np.random.default_rng(5).normal(size=(6, 2))
    workspace = get_engine("auto").open(points, None, 1)
    _, after, effort = search_and_fit(workspace, points[:n_clusters].copy(), rounds=3)
    assert effort.rounds == 0
    expected = 0.0 if n_clusters == 6 else ((points - points.mean(axis=0)) ** 2).sum()
    assert after.inertia == pytest.approx(expected)


def test_fewer_distinct_points_than_clusters():
    points = np.repeat(np.arange(3.0), 5).reshape(-1, 1)
    workspace = get_engine("auto").open(points, None, 1)
    _, after, effort = search_and_fit(workspace, points[[0, 1, 5, 10]].copy(), rounds=3)
    assert after.inertia == 0.0
    assert effort.gained == 0.0


def test_one_dimension_and_single_precision():
    points = np.concatenate([k + np.linspace(-0.01, 0.01, 9) for k in range(12)])
    points = points.reshape(-1, 1).astype(np.float32)
    workspace = get_engine("auto").open(points, None, 1)
    _, after, _ = search_and_fit(workspace, points[:12].copy(), rounds=60)
    labels = np.repeat(np.arange(12), 9)
    assert after.centers.dtype == np.float32
    assert after.inertia == pytest.approx(within(points.astype(float), labels), rel=1e-4)


def test_units():
    effort = Effort(1.0, 2, 3, 1, 0, before=8.0, after=4.0)
    scaled = effort.in_units(-4)
    assert (scaled.before, scaled.after, scaled.gained) == (0.5, 0.25, 0.5)
    assert math.isclose(effort.gained, 0.5)
