"""Lower bounds are below the best clustering, found by trying all of them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse

from dense_kmeans import smooth_sse
from instances import instances
from wolfmeans import KMeans
from wolfmeans.lower_bounds import spectral


def optimum(X, weights, k):
    X = X.astype(np.float64)
    weights = np.ones(len(X)) if weights is None else weights
    best = np.inf
    for labels in itertools.product(range(k), repeat=len(X)):
        w = np.zeros((len(X), k))
        w[np.arange(len(X)), labels] = weights
        best = min(best, smooth_sse(w[:, w.sum(axis=0) > 0], X))
    return best


@settings(max_examples=150)
@given(instances(max_points=6, max_features=4, max_clusters=3))
def test_spectral_is_never_above_the_optimum(instance):
    centered = instance.X.astype(np.float64) - instance.X.astype(np.float64).mean(axis=0)
    best = optimum(centered, instance.weights, instance.n_clusters)
    bound = spectral(instance.X, instance.n_clusters, instance.weights)
    assert 0 <= bound.value <= best * (1 + 1e-12) + 1e-300
    assert bound.confidence == 1.0


def test_spectral_is_tight_when_clusters_lie_along_one_line():
    # Within-cluster scatter is orthogonal to the line through the means.
    X = np.array([[0.0, 1.0], [0.0, -1.0], [9.0, 1.0], [9.0, -1.0]])
    assert spectral(X, 2).value == pytest.approx(4.0, rel=1e-12)


def test_one_cluster_leaves_the_total_scatter():
    X = np.random.default_rng(0).normal(size=(50, 3))
    total = float(((X - X.mean(axis=0)) ** 2).sum())
    assert spectral(X, 1).value == pytest.approx(total, rel=1e-10)
    assert spectral(X, 1).value <= total


def test_too_few_features_give_nothing_and_the_certificate_says_so():
    X = np.random.default_rng(0).normal(size=(50, 2))
    assert spectral(X, 3).value == 0.0
    certificate = KMeans(3, random_state=0).fit(X).certificate_
    assert certificate.lower_bound is None
    assert certificate.ratio is None
    assert "inf" not in str(certificate)
    assert "at least as many features as clusters" in str(certificate)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_sparse_float32_and_weighted_bounds_agree_with_dense(offset):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, size=(40, 6)).astype(np.float64) + offset
    weights = rng.uniform(0.5, 2.0, size=40)
    dense = spectral(X, 3, weights).value
    assert spectral(sparse.csr_array(X), 3, weights).value == pytest.approx(dense, rel=1e-9)
    assert spectral(X.astype(np.float32), 3, weights).value == pytest.approx(dense, rel=1e-9)
    repeated = np.repeat(X, 2, axis=0)
    assert spectral(repeated, 3).value == pytest.approx(2 * spectral(X, 3).value, rel=1e-9)


def test_a_bound_never_passes_the_inertia_it_is_compared_with():
    X = np.array([[0.0, 1.0], [0.0, -1.0], [9.0, 1.0], [9.0, -1.0]])
    certificate = KMeans(2, random_state=0, certify="spectral").fit(X).certificate_
    assert certificate.lower_bound <= certificate.inertia
    assert 1.0 <= certificate.ratio < 1.0 + 1e-9


def test_auto_skips_a_bound_that_costs_more_than_the_fit():
    X = np.random.default_rng(0).normal(size=(400, 300))
    certificate = KMeans(2, random_state=0, max_iter=300, tol=0.5).fit(X).certificate_
    assert certificate.lower_bound_kind is None
    assert "certify='spectral'" in str(certificate)
    asked = KMeans(2, random_state=0, tol=0.5, certify="spectral").fit(X).certificate_
    assert asked.ratio >= 1.0
