"""Parts on a device: what they answer is what the other engines answer, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

from difficult import points
from interpreted import needs_triton
from wolfmeans import KMeans
from wolfmeans.core.workspace import Forced
from wolfmeans.engines.places.memory import MemoryPart, MemoryPlace
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.seeding.in_parts import parallel_seeds_in_parts

pytest.importorskip("wolfmeans.exact._native")
pytestmark = [needs_triton, pytest.mark.filterwarnings("ignore:Not converged")]


def parted(X, weights, engines):
    ends = [0, 11, 12, len(X)]
    return PartsWorkspace(
        MemoryPlace(
            [
                MemoryPart(X[a:b], None if weights is None else weights[a:b], engine)
                for a, b, engine in zip(ends, ends[1:], engines, strict=False)
            ]
        )
    )


@pytest.mark.parametrize(
    ("kind", "dtype", "weighted"), [("blobs", "float32", False), ("lattice", "float64", True)]
)
def test_answers_are_the_same(kind, dtype, weighted):
    X = points(kind, 30, 2, dtype)
    weights = np.arange(30) % 3 / 2.0 if weighted else None
    here, there = (parted(X, weights, engines) for engines in (["cpu"] * 3, ["gpu", "cpu", "gpu"]))
    centers, forced = X[[0, 7, 20]], Forced(np.array([13]), np.array([1], dtype=np.int32))
    for step in (None, None, forced):
        ours, theirs = (workspace.assign(centers, step) for workspace in (there, here))
        for field in ("moved", "gap", "weights", "means", "residuals"):
            assert np.array_equal(getattr(ours, field), getattr(theirs, field)), field
        assert there.cost(theirs.means) == here.cost(theirs.means)
        assert np.array_equal(there.labels(), here.labels())
        centers = theirs.means
    assert np.array_equal(there.mean(weighted=True), here.mean(weighted=True))
    assert there.scatter(weighted=False) == here.scatter(weighted=False)
    found = [parallel_seeds_in_parts(w, 4, np.random.RandomState(1)) for w in (there, here)]
    assert np.array_equal(*found)
    far = [workspace.far_rows(centers, 5, None) for workspace in (there, here)]
    assert all(np.array_equal(a, b) for a, b in zip(*far, strict=True))


def test_a_fit_of_dask_partitions():
    da, dask = pytest.importorskip("dask.array"), pytest.importorskip("dask")
    X = points("blobs", 40, 3, "float32")
    settings = {"init": X[:3], "max_iter": 3, "certify": None}
    reference = KMeans(3, engine="cpu", **settings).fit(X)
    # Triton's interpreter is for one thread.
    settings["n_threads"] = 1
    with dask.config.set(scheduler="threads"):
        ours = KMeans(3, engine="gpu", **settings).fit(da.from_array(X, chunks=((15, 0, 25), 3)))
    assert ours.engine_ == "gpu"
    assert np.array_equal(ours.cluster_centers_, reference.cluster_centers_)
    assert np.array_equal(ours.labels_.compute(), reference.labels_)
    assert np.array_equal(ours.trace_.gap, reference.trace_.gap)
    assert ours.inertia_ == reference.inertia_
