"""Judging clusterings from anywhere, against sums done by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans as OtherKMeans
from sklearn.datasets import load_wine

import wolfmeans
from wolfmeans import KMeans
from wolfmeans.bounds import LowerBound
from wolfmeans.fitting import evaluate
from wolfmeans.fitting.evaluate import judge


@pytest.fixture(scope="module")
def blobs():
    rng = np.random.default_rng(3)
    return np.repeat([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]], 60, axis=0) + rng.normal(size=(180, 2))


def by_hand(X, labels, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    names = np.unique(labels)
    means = np.array(
        [np.average(X[labels == k], axis=0, weights=weights[labels == k]) for k in names]
    )
    squares = ((X[:, None, :] - means[None]) ** 2).sum(axis=2)
    own = squares[np.arange(len(X)), np.searchsorted(names, labels)]
    return (weights * own).sum(), (weights * (own - squares.min(axis=1))).sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sse_and_gap_are_those_of_the_labels(blobs, weighted, dtype):
    rng = np.random.default_rng(0)
    X = blobs.astype(dtype)
    labels = rng.integers(4, size=len(X))
    weights = rng.integers(1, 4, size=len(X)).astype(float) if weighted else None
    found = judge(X, labels, sample_weight=weights)
    sse, gap = by_hand(X.astype(float), labels, weights)
    assert found.n_clusters == 4
    assert found.sse == pytest.approx(sse, rel=1e-5)
    assert found.gap == pytest.approx(gap, rel=1e-5)
    assert found.misplaced > 50
    assert found.level is None
    assert found.single_moves > 0
    assert 0 < found.single_moves_gain < found.sse
    assert found.ratio > 2
    assert "closer to another" in found.verdict


def test_a_good_clustering_of_another_library_is_recognized(blobs):
    labels = OtherKMeans(3, n_init=10, random_state=0).fit(blobs).labels_
    found = judge(blobs, labels)
    ours = KMeans(3, n_init=10, random_state=0).fit(blobs)
    assert found.sse == pytest.approx(ours.inertia_, rel=1e-12)
    assert (found.gap, found.misplaced, found.single_moves) == (0.0, 0, 0)
    assert found.level == "hartigan"
    assert found.ratio < 1.05
    assert "no single move" in found.verdict


def test_single_moves_are_found_where_lloyd_rests():
    # 1.4 is nearer to its mean 0 than to 3; yet leaving saves 2 * 1.4^2, and joining costs
    # 4/5 * 1.6^2 only.
    X = np.array([[-1.4], [1.4], [3.0], [3.0], [3.0], [3.0]])
    found = judge(X, [0, 0, 1, 1, 1, 1])
    assert found.misplaced == 0
    assert found.single_moves > 0
    assert found.level == "stationary"
    assert found.sse == pytest.approx(2 * 1.4**2)


def test_labels_may_be_words_and_leave_points_out(blobs):
    X = np.vstack([blobs, [[500.0, 500.0]]])
    labels = np.array([*np.repeat(["red", "green", "blue"], 60), "noise"])
    found = judge(X, labels, outlier="noise")
    assert (found.n_clusters, found.n_points, found.left_out) == (3, 180, 1)
    assert found.sse == pytest.approx(by_hand(blobs, labels[:-1])[0])
    assert found.ratio < 1.2
    assert judge(X, labels).n_clusters == 4


def test_huge_values_keep_their_units():
    X = np.array([[0.0], [1.0], [10.0], [11.0]]) * 2.0**480
    found = judge(X, [0, 0, 1, 1])
    assert found.sse == 2.0**960
    assert found.ratio == pytest.approx(1.0)


def test_nothing_can_be_better_than_no_error():
    found = judge(np.array([[1.0], [1.0], [2.0]]), [0, 0, 1])
    assert (found.sse, found.ratio) == (0.0, 1.0)
    assert "no clustering can be better" in found.verdict


@pytest.mark.parametrize(
    ("labels", "said"),
    [([0, 1], "X has 4 rows, labels has 2"), ([-1] * 4, "no point is in a cluster")],
)
def test_labels_must_fit(labels, said):
    with pytest.raises(ValueError, match=said):
        judge(np.arange(4.0)[:, None], labels)


def test_clusters_without_weight_do_no_harm():
    X = np.array([[0.0], [1.0], [10.0], [11.0], [50.0]])
    found = judge(X, [0, 0, 1, 1, 2], sample_weight=[1, 1, 1, 1, 0])
    assert found.sse == 1.0
    assert found.misplaced == 0


def pairs_on_a_line(m, d=20):
    """Three points for each of m places, the first two in a cluster: the second is better off
    with the third. Leaving its mean is worth 2 * 2^2 to it, joining costs 1/2 * 3^2."""
    X = np.zeros((m, 3, d))
    X[:, :, 0] = 1000.0 * np.arange(m)[:, None] + [0.0, 4.0, 7.0]
    X[:, :, 1:] = np.random.default_rng(0).normal(size=(m, 1, d - 1))
    return X.reshape(-1, d), np.arange(2 * m).reshape(m, 2)[:, [0, 0, 1]].ravel()


def test_a_look_that_the_clock_cuts_off_proves_nothing(monkeypatch):
    X, labels = pairs_on_a_line(300)
    assert judge(X, labels, method=None).single_moves == 300
    # Finding the rows to try takes a hundred times as long.
    monkeypatch.setattr(evaluate, "_SECONDS_FOR_MOVES", 1e-5)
    found = judge(X, labels, method=None, n_threads=1)
    assert found.level == "stationary"
    assert "no single move" not in found.verdict


def test_moves_of_a_look_that_was_cut_off_may_not_be_all():
    found = judge(np.arange(4.0)[:, None], [0, 0, 1, 1])
    cut = replace(found, single_moves=7, single_moves_gain=0.5, moves_looked_at=False)
    readings = {name: reading for name, _, reading in cut.rows()}
    assert cut.level == "stationary"
    assert "or more: not all points were checked" in readings["single moves"]


def test_a_bound_passes_the_sse_by_rounding_only(monkeypatch):
    X, labels = np.array([[0.0], [1.0], [10.0], [11.0]]), [0, 0, 1, 1]

    def judged(value):
        bound = LowerBound(value, "given", 1.0, 0.0)
        monkeypatch.setattr(evaluate, "lower_bound", lambda *_, **__: bound)
        return judge(X, labels)

    found = judged(1.0 + 5e-10)
    assert (found.sse, found.lower_bound, found.ratio) == (1.0, 1.0, 1.0)
    with pytest.raises(RuntimeError, match="contradicts"):
        judged(1.0 + 5e-9)


def test_a_ratio_is_at_least_one():
    found = judge(np.array([[0.0], [1.0], [10.0], [11.0]]), [0, 0, 1, 1])
    assert replace(found, lower_bound=found.sse * (1 + 2.0**-40)).ratio == 1.0


def test_a_better_clustering_that_was_met_is_told():
    X = load_wine().data
    # Two of the three centers begin in the same cluster.
    start = X[np.argsort(X[:, -1])[[0, -2, -1]]]
    poor = OtherKMeans(3, init=start, n_init=1).fit(X)
    found = wolfmeans.judge(X, poor.labels_)
    assert found.better_inertia is not None and found.better_inertia < 0.95 * found.sse
    again = KMeans(3, init=found.better_centers, n_init=1, stop="stationary").fit(X)
    assert again.inertia_ <= found.better_inertia * (1 + 1e-12)
    assert "of a better clustering that was found" in str(found)
    assert found.to_dict()["better_inertia"] == found.better_inertia
    assert "better_centers" not in found.to_dict()
    good = wolfmeans.judge(X, again.labels_)
    assert good.better_inertia is None and "better" not in str(good)


def test_a_judgement_is_a_table_in_text_and_in_a_notebook(blobs):
    found = judge(blobs, KMeans(3, random_state=0).fit(blobs).labels_)
    assert str(found).splitlines()[0] == "Judgement"
    assert len(str(found).splitlines()) == 1 + len(found.rows())
    assert found.verdict in repr(found)
    assert "<table" in found._repr_html_()


@pytest.mark.parametrize("gap", [None, np.nan, pd.NA])
def test_missing_labels_are_refused_with_their_row(blobs, gap):
    labels = np.array(["a", "b", "c"] * 60, dtype=object)
    labels[7] = gap
    with pytest.raises(ValueError, match="1 of the labels are missing, the first at row 7"):
        judge(blobs, labels)
    with pytest.raises(ValueError, match="labels is None"):
        judge(blobs, None)
