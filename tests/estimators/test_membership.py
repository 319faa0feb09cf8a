"""Sizes, typical rows, margins and soft labels."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.exceptions import NotFittedError
from sklearn.mixture import GaussianMixture

from wolfmeans import KMeans, TrimmedKMeans


@pytest.fixture(scope="module", name="X")
def points():
    return np.random.default_rng(0).normal(size=(300, 3))


@pytest.fixture(scope="module")
def km(X):
    return KMeans(5, random_state=0).fit(X)


def test_sizes_count_labels(X, km):
    assert km.cluster_sizes_.tolist() == [int((km.labels_ == k).sum()) for k in range(5)]
    trimmed = TrimmedKMeans(4, trim=20, random_state=0).fit(X)
    assert trimmed.cluster_sizes_.sum() == 280
    keep = KMeans(3, init=[[0.0], [1.0], [99.0]], n_init=1, empty="keep", max_iter=2)
    with pytest.warns(UserWarning):
        assert keep.fit([[0.0], [1.0], [1.5]]).cluster_sizes_.tolist() == [1, 2, 0]
    assert not hasattr(KMeans(2), "cluster_sizes_")


def test_sizes_of_dask_labels(X):
    da = pytest.importorskip("dask.array")
    blocks = da.from_array(X, chunks=(100, 3))
    model = KMeans(5, init="k-means||", random_state=0).fit(blocks)
    expected = np.bincount(np.asarray(model.labels_.compute()), minlength=5)
    assert model.cluster_sizes_.tolist() == expected.tolist()


def test_typical_rows_are_the_nearest_of_their_cluster(X, km):
    rows = km.typical_rows(X, 3)
    distances = cdist(X, km.cluster_centers_)
    for k in range(5):
        inside = np.flatnonzero(km.labels_ == k)
        expected = sorted(inside, key=lambda row: distances[row, k])[:3]
        assert rows[k].tolist() == expected
    assert km.typical_rows(X[km.labels_ == 2]).ravel().tolist().count(-1) == 4
    with pytest.raises(ValueError, match="n_rows must be at least 1"):
        km.typical_rows(X, 0)


def test_trimmed_points_are_not_typical():
    X = np.array([[0.0], [0.1], [0.2], [10.0], [10.1], [10.2], [500.0]])
    model = TrimmedKMeans(2, trim=1, random_state=0).fit(X)
    assert 6 not in model.typical_rows(X, 7)


def test_margins_are_as_defined(X, km):
    own, other = np.sort(cdist(X, km.cluster_centers_), axis=1)[:, :2].T
    np.testing.assert_allclose(km.margins(X), (other - own) / other, rtol=1e-9)
    np.testing.assert_allclose(km.margins(sparse.csr_array(X)), km.margins(X), rtol=1e-9)
    assert (KMeans(1).fit(X).margins(X) == 1).all()
    same = KMeans(2, init=[[0.0], [0.0]], n_init=1, empty="keep", max_iter=1)
    with pytest.warns(UserWarning):
        assert same.fit([[0.0], [0.0]]).margins([[0.0]]).tolist() == [0.0]


def test_soft_labels_are_those_of_a_mixture(X, km):
    shares = km.soft_labels(X, variance=0.7)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12)
    assert (shares.argmax(axis=1) == km.labels_).all()
    mixture = GaussianMixture(5, covariance_type="spherical")
    mixture.weights_, mixture.means_ = np.full(5, 0.2), km.cluster_centers_
    mixture.covariances_ = np.full(5, 0.7)
    mixture.precisions_cholesky_ = 1 / np.sqrt(mixture.covariances_)
    np.testing.assert_allclose(shares, mixture.predict_proba(X), atol=1e-9)
    usual = km.soft_labels(X, variance=km.inertia_ / X.size)
    np.testing.assert_allclose(km.soft_labels(X), usual, atol=1e-9)


def test_without_variance_soft_labels_are_labels():
    X = np.array([[0.0], [0.0], [1e200], [1e200]])
    model = KMeans(2, random_state=0).fit(X)
    assert model.soft_labels(X).tolist() == np.eye(2)[model.labels_].tolist()
    with pytest.raises(ValueError, match="variance must be at least 0"):
        model.soft_labels(X, variance=-1.0)


def test_names_are_checked_and_outputs_are_arrays(X):
    frame = pd.DataFrame(X, columns=list("abc"))
    model = KMeans(3, random_state=0).set_output(transform="pandas").fit(frame)
    assert isinstance(model.margins(frame), np.ndarray)
    with pytest.raises(ValueError, match="feature names"):
        model.margins(frame[["b", "a", "c"]])
    with pytest.raises(NotFittedError):
        KMeans(3).margins(X)


# --- Polish and effort of trimmed fits --------------------------------------------------------


def with_outliers():
    rng = np.random.default_rng(0)
    return np.vstack([rng.normal(size=(400, 3)), rng.uniform(-30, 30, size=(20, 3))])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("settings", [{"polish": "hartigan"}, {"polish": "swap"}, {"effort": 0.4}])
def test_a_trimmed_fit_can_be_improved(settings, weighted):
    X = with_outliers()
    weights = np.random.default_rng(1).integers(1, 4, len(X)).astype(float) if weighted else None
    plain = TrimmedKMeans(12, random_state=0, bound=None).fit(X, sample_weight=weights)
    better = TrimmedKMeans(12, random_state=0, bound=None, **settings)
    better.fit(X, sample_weight=weights)
    assert better.inertia_ <= plain.inertia_
    assert better.inertia_ == -better.score(X, sample_weight=weights)
    assert better.trimmed_mass_ == plain.trimmed_mass_
    certificate = better.certificate_
    assert certificate.status.converged and certificate.level in (None, "stationary")
    done = certificate.polish or certificate.effort
    gained = done.decrease if certificate.polish else done.before - done.after
    assert gained == pytest.approx(plain.inertia_ - better.inertia_, abs=1e-9)
    # The run in the trace begins at `initial_centers_`.
    again = TrimmedKMeans(12, init=better.initial_centers_, n_init=1, bound=None)
    assert again.fit(X, sample_weight=weights).inertia_ == better.inertia_


def test_single_moves_help_trimmed_fits():
    X = np.random.default_rng(3).normal(size=(200, 2))
    plain, polished = (
        TrimmedKMeans(20, n_init=1, random_state=0, bound=None, polish=polish).fit(X)
        for polish in (None, "hartigan")
    )
    assert polished.inertia_ < plain.inertia_ and polished.certificate_.polish.moves > 0
