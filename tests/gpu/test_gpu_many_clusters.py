"""First steps of many clusters, the sums of which are not those of few: the same integers."""

import numpy as np
import pytest

from both_engines import assert_same_assignment, opened
from difficult import points
from interpreted import needs_triton

pytest.importorskip("wolfmeans.exact._native")
pytestmark = needs_triton


def assert_same_first_step(X, centers):
    here, there = opened(X)
    for _ in range(2):  # the sums of the first step are those that the second begins with
        centers = assert_same_assignment(here, there, centers).means


@pytest.fixture
def twelve_are_many(monkeypatch):
    for module in ("rows", "steps"):
        monkeypatch.setattr(f"wolfmeans.engines.gpu.{module}.FEW_CLUSTERS", 11)


def test_as_many_clusters_as_it_takes():
    X = points("plain", 140, 9, "float32")
    assert_same_first_step(X, X[:129].copy())


# Columns in one block and in two; digits up to five; clusters of one row and of none.
@pytest.mark.parametrize(
    ("kind", "d", "dtype"),
    [
        ("plain", 130, "float64"),
        ("columns apart", 12, "float64"),
        ("lattice", 10, "float32"),
        ("huge", 9, "float64"),
    ],
)
def test_many_clusters(kind, d, dtype, twelve_are_many, monkeypatch):
    if d == 130:  # as if there were too many sums to keep them several times
        for few in ("_FEW_SUMS", "_SOME_SUMS"):
            monkeypatch.setattr(f"wolfmeans.engines.gpu.clusters.{few}", 0)
    X = points(kind, 140, d, dtype)
    # Of few columns, more than a tile of centers has.
    centers = X[: 12 if d == 130 else 20].copy()
    centers[5] = centers[4]
    assert_same_first_step(X, centers)


def test_clusters_of_many_rows(twelve_are_many):
    rng = np.random.default_rng(1)
    places = np.repeat(np.arange(4.0), [70, 1, 200, 29])[rng.permutation(300), None]
    X = places * 100.0 + rng.normal(size=(300, 10))
    centers = np.full((20, 10), 1e5) + np.arange(20.0)[:, None]
    centers[[3, 5, 6, 19]] = np.arange(4.0)[:, None] * 100.0
    assert_same_first_step(X, centers)


def test_numbers_of_many_digits(twelve_are_many):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(100, 9)) * 2.0 ** rng.integers(-90, 1, size=(100, 9))
    assert_same_first_step(X, X[:20].copy())
