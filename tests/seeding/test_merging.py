"""Centers merged to fewer: those of Ward's method, the same on every engine."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wolfmeans.seeding.merging import merged_centers


def by_definition(centers, weights, n_clusters):
    """Merge the pair that raises the SSE least, computed from the means each time."""
    clusters = [(weight, center) for weight, center in zip(weights, centers, strict=True)]
    while len(clusters) > n_clusters:
        pairs = [(i, j) for j in range(len(clusters)) for i in range(j)]
        i, j = min(pairs, key=lambda pair: cost(clusters[pair[0]], clusters[pair[1]]))
        (a, x), (b, y) = clusters[i], clusters[j]
        clusters[i] = (a + b, (a * x + b * y) / (a + b))
        del clusters[j]
    return np.array([center for _, center in clusters])


def cost(one, other):
    (a, x), (b, y) = one, other
    return a * b / (a + b) * ((x - y) ** 2).sum()


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 3))
def test_centers_are_those_of_the_definition(seed, n_clusters, d):
    rng = np.random.default_rng(seed)
    centers, weights = rng.normal(size=(12, d)), rng.uniform(0.5, 20.0, size=12)
    found = merged_centers(centers, weights, n_clusters)
    assert found == pytest.approx(by_definition(centers, weights, n_clusters), abs=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_engines_give_the_same_bits(dtype):
    rng = np.random.default_rng(0)
    centers, weights = rng.normal(size=(40, 5)).astype(dtype), rng.uniform(size=40)
    found = merged_centers(centers, weights, 11)
    assert found.dtype == centers.dtype
    assert np.array_equal(found, merged_centers(centers, weights, 11, "reference"))


def test_clusters_without_weight_go_first_and_move_nothing():
    centers = np.array([[0.0, 0.0], [9.0, 9.0], [0.1, 0.0], [5.0, 5.0], [7.0, 1.0]])
    weights = np.array([1.0, 0.0, 1.0, 0.0, 1.0])
    assert np.array_equal(merged_centers(centers, weights, 3), centers[[0, 2, 4]])


def test_no_weight_at_all_and_equal_centers():
    assert merged_centers(np.zeros((5, 2)), np.zeros(5), 2).tolist() == [[0.0, 0.0]] * 2
    twice = np.repeat([[0.0], [4.0], [9.0]], 2, axis=0)
    assert merged_centers(twice, np.ones(6), 3).ravel().tolist() == [0.0, 4.0, 9.0]


def test_as_many_centers_stay_as_they_are():
    centers = np.random.default_rng(0).normal(size=(4, 2)).astype("float32")
    assert np.array_equal(merged_centers(centers, np.ones(4), 4), centers)
