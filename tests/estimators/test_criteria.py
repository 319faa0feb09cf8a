"""Criteria for the number of clusters, against scikit-learn and on data with known answers."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import calinski_harabasz_score, silhouette_score

import wolfmeans
from wolfmeans.estimators import criteria
from wolfmeans.estimators.criteria import SampledCriteria, elbow, first_within_error


def blobs(n_blobs=4, each=40, seed=0):
    rng = np.random.default_rng(seed)
    places = 12.0 * np.array([[0, 0], [1, 0], [0, 1], [1, 1], [3, 3]])[:n_blobs]
    return (places[:, None] + rng.normal(size=(n_blobs, each, 2))).reshape(-1, 2)


@pytest.fixture(scope="module")
def found():
    return wolfmeans.scan(blobs(), range(1, 8), random_state=0, bound=None)


def test_criteria_are_those_of_scikit_learn(found):
    X = blobs()
    for k in (2, 4, 7):
        labels = found[k].model.labels_
        assert found[k].silhouette == pytest.approx(silhouette_score(X, labels), rel=1e-9)
        expected = calinski_harabasz_score(X, labels)
        assert found[k].calinski_harabasz == pytest.approx(expected, rel=1e-9)


def test_sparse_data_has_the_same_criteria():
    X = blobs(3)
    dense, csr = (
        wolfmeans.scan(data, [2, 3], random_state=0, bound=None)[3]
        for data in (X, sparse.csr_array(X))
    )
    assert csr.silhouette == pytest.approx(dense.silhouette)
    assert csr.calinski_harabasz == pytest.approx(dense.calinski_harabasz)
    assert csr.gap is None and dense.gap is not None


def test_trimmed_points_do_not_count():
    X = np.vstack([blobs(2), [[500.0, -500.0]]])
    cell = wolfmeans.scan(X, [2], alpha=[0.02], random_state=0, bound=None)[2]
    inside = cell.model.labels_ >= 0
    labels = cell.model.labels_[inside]
    assert inside.sum() == 80 and cell.stability is None
    assert cell.silhouette == pytest.approx(silhouette_score(X[inside], labels))
    expected = calinski_harabasz_score(X[inside], labels)
    assert cell.calinski_harabasz == pytest.approx(expected)


def test_large_data_is_sampled(monkeypatch):
    monkeypatch.setattr(criteria, "MOST_ROWS", 100)
    X = blobs(4, 500)
    sampled = SampledCriteria(X, None, np.random.RandomState(0))
    assert len(sampled.rows) == 100 and sampled.is_sample
    labels = np.repeat(np.arange(4), 500)
    value = sampled.silhouette(labels, np.ones(2000))
    rows = sampled.rows
    assert value == pytest.approx(silhouette_score(X[rows], labels[rows]))
    assert value == pytest.approx(silhouette_score(X, labels), abs=0.05)


def test_the_best_number_of_clusters_has_reasons(found):
    best = found.best
    assert best.n_clusters == 4 and found.best_of(0.0) == best
    assert set(best.votes) == {
        "silhouette", "Calinski-Harabasz", "stability", "gap statistic", "elbow",
    }  # fmt: skip
    assert [best.votes[name] for name in ("silhouette", "stability", "gap statistic")] == [4] * 3
    assert best.reason.startswith("K = 4 is best by silhouette (")
    assert found.sentences() == [best.reason + "."]
    assert "proven" not in best.reason


def test_stability_is_high_for_clusters_that_are_there(found):
    assert found[4].stability > 0.99 > found[6].stability
    assert found[1].stability is None


def test_uniform_data_has_no_clusters_by_the_gap_statistic():
    X = np.random.default_rng(0).normal(size=(300, 2))
    found = wolfmeans.scan(X, range(1, 5), random_state=0, bound=None)
    assert found.best.votes["gap statistic"] == 1
    assert "the gap statistic finds no clusters" in found.best.reason


def test_without_resamples_there_is_neither_stability_nor_gap():
    found = wolfmeans.scan(blobs(), [2, 3, 4], random_state=0, bound=None, resamples=0)
    assert {(cell.stability, cell.gap) for cell in found} == {(None, None)}
    assert "stability" not in str(found) and found.best.n_clusters == 4


def test_resamples_change_no_fit():
    with_, without = (wolfmeans.scan(blobs(), [2, 3], random_state=0, resamples=n) for n in (10, 0))
    for one, other in zip(with_, without, strict=True):
        assert one.inertia == other.inertia
        assert (one.model.labels_ == other.model.labels_).all()


@pytest.mark.parametrize(
    ("inertias", "expected"),
    [([9.0, 9.0, 9.0], None), ([9.0, 1.0], None), ([10.0, 5.0, 0.0], None), ([10, 2, 1, 0], 2)],
)
def test_an_elbow_needs_a_bend(inertias, expected):
    assert elbow(range(1, len(inertias) + 1), inertias) == expected


def test_gaps_are_compared_with_their_neighbours_only():
    assert first_within_error([(2, 0.5, 0.1), (4, 0.4, 0.1)]) is None
    assert first_within_error([(2, None, None), (3, 0.4, 0.1), (4, 0.45, 0.1)]) == 3
    assert first_within_error([(2, 0.1, 0.01), (3, 0.4, 0.01), (4, 0.8, 0.01)]) is None
