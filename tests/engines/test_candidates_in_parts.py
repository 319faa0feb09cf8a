"""Candidates for one more center, of points in partitions: those that are tried in memory."""

from __future__ import annotations

import uuid
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wolfmeans import KMeans
from wolfmeans.engines.places.candidates import values_at
from wolfmeans.engines.places.memory import MemoryPart, MemoryPlace
from wolfmeans.engines.places.workspace import PartsWorkspace


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**31 - 1),
    n=st.integers(2, 60),
    lattice=st.booleans(),
    in_order=st.booleans(),
    forgets=st.booleans(),
)
def test_values_at_places(seed, n, lattice, in_order, forgets):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n, 2)) * 1.0 if lattice else rng.normal(size=(n, 2))
    if in_order:
        X = X[np.lexsort(X.T[::-1])]
    weights = rng.integers(0, 3, size=n) * 1.0 if seed % 2 else None
    ends = [0, *np.sort(rng.integers(0, n + 1, size=3)).tolist(), n]
    parts = [
        MemoryPart(X[a:b], None if weights is None else weights[a:b], "reference")
        for a, b in pairwise(ends)
        if b > a
    ]
    points = PartsWorkspace(MemoryPlace(parts))
    center = X[:1]
    points.assign(center)
    eligible = (center != X).any(axis=1) & (True if weights is None else weights > 0)
    inside = X[eligible]
    inside = inside[np.lexsort(inside.T[::-1])]
    name = uuid.uuid4().bytes

    def asked(question, *given_):
        if forgets:
            for part in parts:
                part._eligible = type(part._eligible)()
        return points.place.summed("candidates", points.labelled(question, name, center, *given_))

    assert asked("many").value.tolist() == [len(inside)]
    places = np.unique(rng.integers(0, max(len(inside), 1), size=7))[: len(inside)]
    assert np.array_equal(values_at(asked, places, 2, X.dtype), inside[places])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [200, 1500])
def test_fits_with_an_empty_cluster(weighted, n):
    dask, da = pytest.importorskip("dask"), pytest.importorskip("dask.array")
    X = np.random.default_rng(4).normal(size=(n, 2)).astype(np.float32)
    weights = np.arange(n) % 3 / 2.0 if weighted else None
    init = np.vstack([X[:2], np.full((2, 2), 90.0, dtype=np.float32)])
    fits = {"init": init, "empty": "keep", "bound": None}
    with warnings.catch_warnings(), dask.config.set(scheduler="threads"):
        warnings.simplefilter("ignore")
        reference = KMeans(4, engine="cpu", **fits).fit(X, sample_weight=weights)
        ours = KMeans(4, **fits)
        ours.fit(da.from_array(X, chunks=(n // 4, 2)), sample_weight=weights)
    found = reference.certificate_.candidate_decrease
    assert found > 0
    assert ours.certificate_.candidate_decrease == found
