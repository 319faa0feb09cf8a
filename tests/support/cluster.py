"""What tests on a Dask cluster share: clusters of processes, fits in memory and on them, and ==."""

from __future__ import annotations

import warnings
from contextlib import contextmanager

import dask.array as da
import distributed
import numpy as np

from wolfmeans import KMeans


def points(n=600, d=3, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    centers = rng.normal(scale=3.0, size=(5, d))
    return (centers[rng.integers(5, size=n)] + rng.normal(size=(n, d))).astype(dtype)


def in_memory(X, sample_weight=None, **settings):
    settings = {"init": X[:6], "engine": "cpu", "bound": None, "n_threads": 1, **settings}
    return KMeans(6, **settings).fit(X, sample_weight=sample_weight)


def spread(X, chunks, sample_weight=None, **settings):
    collection = da.from_array(np.asarray(X), chunks=(chunks, X.shape[1]))
    settings = {"init": X[:6], **settings}
    return KMeans(6, **settings).fit(collection, sample_weight=sample_weight)


def same(ours, reference):
    assert np.array_equal(ours.cluster_centers_, reference.cluster_centers_)
    assert ours.cluster_centers_.dtype == reference.cluster_centers_.dtype
    assert np.array_equal(ours.initial_centers_, reference.initial_centers_)
    assert ours.inertia_ == reference.inertia_
    assert ours.n_iter_ == reference.n_iter_
    for column in ("sse", "gap", "movement", "moved", "empty", "shift"):
        pair = (getattr(model.trace_, column) for model in (ours, reference))
        assert np.array_equal(*pair, equal_nan=True), column
    for field in ("status", "local_optimality", "clarke_gap", "candidate_decrease"):
        assert getattr(ours.certificate_, field) == getattr(reference.certificate_, field), field
    labels = ours.labels_.compute()
    assert np.array_equal(labels, np.asarray(reference.labels_))
    assert labels.dtype == np.int32


@contextmanager
def workers(n, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        settings = {"processes": True, "dashboard_address": None, **settings}
        cluster = distributed.LocalCluster(n_workers=n, threads_per_worker=1, **settings)
    with cluster, distributed.Client(cluster) as client:
        yield client
