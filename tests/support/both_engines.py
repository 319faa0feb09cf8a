"""The CPU engine and the GPU engine side by side: all that they say is compared by ==."""

import numpy as np

from wolfmeans import KMeans
from wolfmeans.engines import get_engine


def opened(X, weights=None):
    """Return the points on the CPU and on the GPU."""
    return tuple(get_engine(name).open(X, weights, 1) for name in ("cpu", "gpu"))


def assert_same_assignment(here, there, centers, forced=None, *, cost=True):
    """Assign with both workspaces, compare everything that an assignment says, and return it."""
    expected, found = here.assign(centers, forced), there.assign(centers, forced)
    assert there.labels().tolist() == here.labels().tolist()
    assert (found.moved, found.gap) == (expected.moved, expected.gap)
    assert found.means.dtype == expected.means.dtype
    for name in ("weights", "means", "residuals"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert there.step(found, centers) == here.step(expected, centers)
    assert not cost or there.cost(centers) == here.cost(centers)
    return found


def assert_same_fits(X, n_clusters):
    """Fit a few steps with both engines, and compare the models."""
    here, there = (
        KMeans(n_clusters, init=X[:n_clusters], max_iter=3, bound=None, engine=engine).fit(X)
        for engine in ("cpu", "gpu")
    )
    assert (here.labels_ == there.labels_).all()
    assert (here.cluster_centers_ == there.cluster_centers_).all()
    assert here.inertia_ == there.inertia_
