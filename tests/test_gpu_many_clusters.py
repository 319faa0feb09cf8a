"""First steps of many clusters, the sums of which are not those of few: the same integers."""

import numpy as np
import pytest

from difficult import points
from interpreted import needs_triton
from wolfmeans.engines import get_engine

pytest.importorskip("wolfmeans.engines._native")
pytestmark = needs_triton


def assert_same_first_step(X, centers):
    here, there = (get_engine(name).open(X, None, 1) for name in ("cpu", "gpu"))
    for _ in range(2):  # the sums of the first step are those that the second begins with
        expected, found = here.assign(centers), there.assign(centers)
        assert there.labels().tolist() == here.labels().tolist()
        for name in ("weights", "means", "residuals"):
            assert np.array_equal(getattr(found, name), getattr(expected, name)), name
        assert (found.moved, found.gap) == (expected.moved, expected.gap)
        centers = found.means


# Columns in one block and in two; digits up to six; clusters of one row and of none.
@pytest.mark.parametrize(
    ("kind", "d", "dtype"),
    [
        ("plain", 9, "float32"),
        ("plain", 130, "float64"),
        ("columns apart", 12, "float64"),
        ("lattice", 10, "float32"),
        ("huge", 9, "float64"),
    ],
)
def test_many_clusters(kind, d, dtype):
    X = points(kind, 300, d, dtype)
    assert_same_first_step(X, X[:140].copy())


def test_clusters_of_many_rows():
    rng = np.random.default_rng(1)
    places = np.repeat(np.arange(4.0), [70, 1, 200, 29])[rng.permutation(300), None]
    X = places * 100.0 + rng.normal(size=(300, 10))
    centers = np.full((135, 10), 1e5) + np.arange(135.0)[:, None]
    centers[[3, 50, 51, 134]] = np.arange(4.0)[:, None] * 100.0
    assert_same_first_step(X, centers)


def test_numbers_of_many_digits():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(290, 9)) * 2.0 ** rng.integers(-90, 1, size=(290, 9))
    assert_same_first_step(X, X[:129].copy())
