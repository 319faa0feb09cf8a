"""k-means|| over points in parts: the seeds of the same points in memory, whatever is lost."""

from __future__ import annotations

import random
import warnings
from itertools import cycle, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import ENGINES, instances
from wolfmeans import KMeans
from wolfmeans.engines import get_engine
from wolfmeans.engines.places.memory import MemoryPart, MemoryPlace
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.engines.sampling import Counts
from wolfmeans.exact.limbs import combined
from wolfmeans.seeding import oversampling
from wolfmeans.seeding.in_parts import parallel_seeds_in_parts, seeds_in_parts
from wolfmeans.seeding.methods import choose_seeds


def in_memory(X, weights, k, seed):
    workspace = get_engine("reference").open(X, weights, 1)
    return choose_seeds(workspace, k, "k-means||", np.random.RandomState(seed))


def divided(X, weights, cuts):
    """Return the rows in parts that end at the cuts; some of them may be empty."""
    edges = sorted([0, len(X), *(cut % (len(X) + 1) for cut in cuts)])
    return MemoryPlace(
        [
            MemoryPart(X[a:b], None if weights is None else weights[a:b], engine)
            for (a, b), engine in zip(pairwise(edges), cycle(ENGINES), strict=False)
        ]
    )


class Forgetful(MemoryPlace):
    """Parts that forget what they know, or were asked before, every now and then."""

    def __init__(self, parts, seed):
        super().__init__(parts)
        self.random = random.Random(seed)
        self.before = []

    def each(self, method, arguments):
        for number, asked in arguments.items():
            part = self.parts[number]
            if self.random.random() < 0.3:
                part = self.parts[number] = part.fork(1)
            self.before.append((part, method, asked))
            if self.random.random() < 0.3:
                old, what, how = self.random.choice(self.before)
                getattr(old, what)(*how)
            yield getattr(part, method)(*asked)


def test_values_that_are_too_many_are_looked_at_more_closely(monkeypatch):
    X = np.random.default_rng(3).normal(size=(2000, 3))
    weights = np.arange(2000) % 3 / 2.0
    seeds = in_memory(X, weights, 4, 7)
    monkeypatch.setattr(oversampling, "_MOST_BUCKET_BITS", 8)
    monkeypatch.setattr(oversampling, "_FEW_VALUES", 1)
    points = PartsWorkspace(divided(X, weights, [10, 700, 700]))
    assert (parallel_seeds_in_parts(points, 4, np.random.RandomState(7)) == seeds).all()


@given(
    instance=instances(80, 4, 12),
    seed=st.integers(0, 2**31 - 1),
    cuts=st.lists(st.integers(0, 1000), max_size=6),
)
def test_seeds_are_those_in_memory(instance, seed, cuts):
    X, weights, k = instance.X, instance.weights, instance.n_clusters
    expected = in_memory(X, weights, k, seed)
    parts = divided(X, weights, cuts)
    for where in (parts, Forgetful(parts.parts, seed)):
        rng = np.random.RandomState(seed)
        seeds = parallel_seeds_in_parts(PartsWorkspace(where), k, rng)
        assert (seeds == expected).all()
        assert seeds.dtype == expected.dtype


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_more_rows_than_buckets(monkeypatch, dtype, weighted):
    """Few buckets, many rows in each of them, and copies of a row in several parts."""
    monkeypatch.setattr(oversampling, "_MOST_BUCKET_BITS", 8)
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 3)).astype(dtype)
    X[1500:2000] = X[:500]
    weights = rng.integers(0, 4, size=3000) / 3.0 if weighted else None
    parts = divided(X, weights, [10, 700, 1600, 1600, 2999])
    for k in (1, 7, 60):
        seeds = parallel_seeds_in_parts(PartsWorkspace(parts), k, np.random.RandomState(k))
        assert (seeds == in_memory(X, weights, k, k)).all()


def test_more_clusters_than_distinct_points():
    X = np.repeat(np.array([[0.0, 1.0], [2.0, 0.0], [3.0, 3.0]]), 20, axis=0)
    parts = divided(X, None, [7, 30, 45])
    seeds = parallel_seeds_in_parts(PartsWorkspace(parts), 9, np.random.RandomState(0))
    assert (seeds == in_memory(X, None, 9, 0)).all()


def test_a_part_keeps_nothing_after_the_seeds():
    X = np.random.default_rng(0).normal(size=(50, 2))
    parts = divided(X, None, [20])
    parallel_seeds_in_parts(PartsWorkspace(parts), 3, np.random.RandomState(0))
    assert [part._seeding._state for part in parts.parts] == [None, None]


def test_counts_add_up_in_either_form():
    rng = np.random.default_rng(1)
    dense = [rng.integers(0, 1 << 40, size=64) * (rng.random(64) < p) for p in (0.0, 0.1, 0.9)]
    assert [Counts.of(sums).slots is None for sums in dense] == [False, False, True]
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        total = combined([Counts.of(dense[i]) for i in order])
        assert (total.value == sum(dense)).all()


def test_what_has_no_form_in_parts_says_so():
    parts = PartsWorkspace(divided(np.zeros((4, 1)), None, [2]))
    with pytest.raises(NotImplementedError, match=r"init='random'.*take init='k-means\|\|'"):
        seeds_in_parts(parts, 2, "random", np.random.RandomState(0))


@pytest.mark.parametrize("init", ["k-means||", "plain-k-means++", "k-means++"])
@pytest.mark.parametrize("chunks", [(60,), (0, 25, 35, 0), (10,) * 6], ids=str)
def test_fits_of_dask_collections(init, chunks):
    da = pytest.importorskip("dask.array")
    dask = pytest.importorskip("dask")
    X = np.random.default_rng(2).normal(size=(60, 2)).round(1)
    weights = np.arange(60) % 4 / 2.0
    reference = KMeans(4, init="k-means||", random_state=3, engine="cpu", bound=None)
    reference.fit(X, sample_weight=weights)
    with dask.config.set(scheduler="threads"), warnings.catch_warnings():
        ours = KMeans(4, init=init, random_state=3).fit(
            da.from_array(X, chunks=(chunks, 2)), sample_weight=weights
        )
        with pytest.raises(NotImplementedError, match="init='random'"):
            KMeans(4, init="random").fit(da.from_array(X, chunks=(chunks, 2)))
    assert (ours.initial_centers_ == reference.initial_centers_).all()
    assert (ours.cluster_centers_ == reference.cluster_centers_).all()
    assert (ours.labels_.compute() == reference.labels_).all()
    told = [note for note in ours.certificate_.notes if "drawn by k-means||" in note]
    assert len(told) == (init != "k-means||")
    assert all(init in note for note in told)
