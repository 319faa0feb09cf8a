"""Semidefinite bounds whose matrices are tensors; the proof is checked on the host, as ever."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from interpreted import needs_triton
from wolfmeans import KMeans
from wolfmeans.bounds import Settings
from wolfmeans.bounds.proof import check
from wolfmeans.bounds.semidefinite.search import semidefinite

pytestmark = needs_triton


@pytest.fixture
def on_a_device(monkeypatch):
    """A device: one that is here, or PyTorch's own on the CPU."""
    import torch

    from wolfmeans.bounds.semidefinite import search

    if not torch.cuda.is_available():
        monkeypatch.setattr(search, "_device", lambda: "cpu")


def bounded(X, n_clusters, weights, on_gpu):
    """The bound after equally many steps, however long they take."""
    model = KMeans(n_clusters, n_init=20, random_state=0, bound=None)
    model.fit(X, sample_weight=weights)
    labels = model.labels_.astype(np.int32)
    settings = Settings(steps=120, seconds=300.0, on_gpu=on_gpu, n_threads=1)
    return model.inertia_, semidefinite(X, n_clusters, weights, labels=labels, settings=settings)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_proof_of_a_bound_from_tensors_is_checked_like_any_other(on_a_device, weighted):
    X = load_iris().data
    weights = np.random.default_rng(0).uniform(1, 3, size=len(X)) if weighted else None
    inertia, found = bounded(X, 3, weights, on_gpu=True)
    assert inertia / 1.05 < found.value <= inertia
    assert check(X, weights, found.proof) == found.value


def test_tensors_and_arrays_find_nearly_the_same_bound(on_a_device):
    X = np.random.default_rng(0).normal(size=(150, 5))
    here, there = (bounded(X, 4, None, on_gpu)[1].value for on_gpu in (False, True))
    assert there == pytest.approx(here, rel=0.01)
