"""The semidefinite bound under size limits: never above the optimum within them, and no more."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_iris

from wolfmeans import ConstrainedKMeans, check_proof
from wolfmeans.bounds.proof import Proof, check
from wolfmeans.bounds.proof_tree import check as check_tree
from wolfmeans.bounds.semidefinite.relaxation import Relaxation
from wolfmeans.bounds.semidefinite.search import proven
from wolfmeans.bounds.trimmed_proof import check_trimmed

N = 7


def partitions(n, n_clusters):
    """Return all partitions of n points into at most so many clusters, as rows of labels."""
    found = [[0]]
    for _ in range(n - 1):
        found = [[*p, k] for p in found for k in range(min(max(p) + 2, n_clusters))]
    return np.array(found, dtype=np.int32)


def sse_of(X, weights, labels):
    """Return the SSE of a clustering, from its definition."""
    total = 0.0
    for k in np.unique(labels):
        some, w = X[labels == k], weights[labels == k]
        total += float(w @ ((some - w @ some / w.sum()) ** 2).sum(axis=1))
    return total


def problem(seed):
    """Return points, weights or None, K, limits, and the optimum within them with its labels."""
    rng = np.random.default_rng(seed)
    n_clusters = int(rng.integers(2, 4))
    X = rng.normal(size=(N, int(rng.integers(1, 4)))) * 10.0 ** rng.integers(-3, 4)
    weights = None if seed % 2 else rng.choice([0.5, 1.0, 3.0], size=N)
    given = np.ones(N) if weights is None else weights
    labels = partitions(N, n_clusters)
    sizes = np.stack([(labels == k) @ given for k in range(n_clusters)], axis=1)
    # The limits are those of some partition, so one meets them.
    whole = sizes[(sizes > 0).all(axis=1)]
    some = whole[np.argsort(np.ptp(whole, axis=1))[int(rng.integers(0, 5))]]
    limits = (float(some.min()), float(some.max()) if seed % 3 else np.inf)
    within = labels[((sizes >= limits[0]) & (sizes <= limits[1])).all(axis=1)]
    values = [sse_of(X, given, row) for row in within]
    best = int(np.argmin(values))
    free = min(sse_of(X, given, row) for row in labels)
    return X, weights, n_clusters, limits, values[best], within[best], free


def solved(X, weights, n_clusters, labels, sizes, steps=150):
    """Return the proven value and its proof."""
    relaxation = Relaxation(X, n_clusters, weights, labels, sizes=sizes)
    for step in range(steps):
        relaxation.step()
        if step % 10 == 9:
            relaxation.separate()
    return proven(relaxation, X, weights)


@pytest.mark.parametrize("seed", range(60))
def test_a_proven_value_is_never_above_the_optimum_within_the_limits(seed):
    X, weights, n_clusters, limits, optimum, labels, _ = problem(seed)
    value, proof = solved(X, weights, n_clusters, labels, limits)
    assert value <= optimum
    if proof is not None:
        assert tuple(proof.sizes) == limits
        assert check(X, weights, proof, sizes=limits) == value


def test_the_limits_raise_the_bound_above_the_free_optimum():
    above = 0
    for seed in range(1, 60, 2):
        X, weights, n_clusters, limits, _, labels, free = problem(seed)
        above += solved(X, weights, n_clusters, labels, limits)[0] > free * (1 + 1e-9)
    assert above >= 5


def tight():
    """Return a problem of two clusters of equal size, its limits, value and proof."""
    X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [20.0]])
    labels = np.array([0, 0, 0, 1, 1, 1], dtype=np.int32)
    value, proof = solved(X, None, 2, labels, (3.0, 3.0))
    assert 10.0 < value <= 184.0  # without limits: 0..4 and 20 have SSE 10
    return X, (3.0, 3.0), value, proof


def test_a_proof_is_refused_where_the_problem_allows_other_clusters():
    X, _, value, proof = tight()
    assert check_proof(X, proof, size_min=3, size_max=3) == value
    for limits in ({}, {"size_min": 3}, {"size_max": 3}, {"size_min": 2, "size_max": 3}):
        with pytest.raises(ValueError, match="the proof is for clusters of size 3 to 3 only"):
            check_proof(X, proof, **limits)
    with pytest.raises(ValueError, match="of size 3 to 3 only"):
        check_tree(X, None, proof)
    with pytest.raises(ValueError, match="of size 3 to 3 only"):
        check_trimmed(X, None, proof, left_out=1.0, sizes=(3.0, 3.0))


def test_a_proof_for_any_sizes_holds_within_limits():
    X, limits, _, _ = tight()
    value, proof = solved(X, None, 2, np.array([0] * 5 + [1], dtype=np.int32), None)
    assert proof.sizes is None
    assert check(X, None, proof, sizes=limits) == check(X, None, proof) == value > 0


def test_wider_stated_limits_prove_less():
    X, limits, value, proof = tight()
    wider = replace(proof, sizes=np.array([2.0, 4.0]))
    assert check(X, None, wider, sizes=limits) < value
    assert check(X, None, wider, sizes=limits) <= 184.0
    with pytest.raises(ValueError, match="not be negative"):
        check(X, None, replace(proof, sizes=None))
    with pytest.raises(ValueError, match="not be negative"):
        check(X, None, replace(proof, sizes=np.array([0.0, 3.0])), sizes=limits)


@pytest.mark.parametrize(
    "sizes",
    [
        np.array([np.nan, 3.0]),
        np.array([3.0, np.nan]),
        np.array([-1.0, 3.0]),
        np.array([3.0]),
        np.array([3, 3]),
    ],
)
def test_limits_that_are_none_are_refused(sizes):
    X, limits, _, proof = tight()
    with pytest.raises(ValueError, match="size"):
        check(X, None, replace(proof, sizes=sizes), sizes=limits)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_diagonal_that_is_not_finite_proves_nothing(value):
    X, limits, _, proof = tight()
    slack = proof.slack.copy()
    slack[2, 2] = value
    try:
        assert check(X, None, replace(proof, slack=slack), sizes=limits) == 0.0
    except ValueError as error:
        assert "negative or NaN" in str(error)


def test_other_entries_must_not_be_negative():
    X, limits, _, proof = tight()
    slack = proof.slack.copy()
    slack[1, 0] = slack[0, 1] = -1e-3
    with pytest.raises(ValueError, match="not be negative"):
        check(X, None, replace(proof, slack=slack), sizes=limits)


def test_a_proof_that_is_hard_up_against_both_limits_is_sound():
    # With diagonals far from 0 on either side, what the limits add decides the value.
    X = np.array([[0.0], [1.0], [4.0], [6.0]])
    value, proof = solved(X, None, 2, np.array([0, 0, 1, 1], np.int32), (2.0, 2.0))
    for shift in (-50.0, -1.0, 1.0, 50.0):
        # A larger diagonal of N needs a higher level, which costs as much as the limits give.
        slack = proof.slack.astype(np.float64)
        slack[np.diag_indices(4)] += shift
        moved = replace(proof, slack=slack, level=proof.level + max(0.0, shift) + 1e-9)
        assert check(X, None, moved, sizes=(2.0, 2.0)) <= 2.5
    assert 2.4 < value <= 2.5


def test_a_positive_diagonal_gains_by_the_largest_size():
    # N = c I, t = c and y = 0 leave M = E C E, plus what makes it semidefinite: a lone cluster of
    # all points has the SSE 1, and Z_ii = 1 / 4.
    X = np.array([[0.0], [0.0], [0.0], [1.0]])
    c = 100.0
    proof = Proof(
        n_clusters=1,
        prices=np.zeros(4),
        level=c + 4.0,
        vectors=np.empty((4, 0)),
        heights=np.empty(0),
        slack=c * np.eye(4),
        cuts=np.empty((0, 2), np.int32),
        multipliers=np.empty(0),
        sizes=np.array([1.0, 4.0]),
    )
    assert check(X, None, proof, sizes=(1.0, 4.0)) <= 0.75
    assert check(X, None, replace(proof, sizes=np.array([1.0, 3.0])), sizes=(1.0, 3.0)) > 0.75


def test_a_saved_proof_keeps_its_limits(tmp_path):
    X, limits, value, proof = tight()
    proof.save(tmp_path / "proof.npz")
    loaded = Proof.load(tmp_path / "proof.npz")
    assert loaded == proof
    assert check(X, None, loaded, sizes=limits) == value


@pytest.mark.parametrize("method", ["semidefinite", "auto"])
def test_certify_uses_the_limits(method):
    X = load_iris().data[::2]
    km = ConstrainedKMeans(3, size_min=24, size_max=26, n_init=5, random_state=0).fit(X)
    free = ConstrainedKMeans(3, n_init=5, random_state=0).fit(X).inertia_
    found = km.certify(X, method=method, seconds=5)
    assert free < found.lower_bound <= km.inertia_
    assert tuple(found.proof.sizes) == (24.0, 26.0)
    assert check_proof(X, found.proof, size_min=24, size_max=26) == found.lower_bound


def test_points_with_weights_may_be_split_so_the_limits_are_not_used():
    X = load_iris().data[::5]
    weights = np.where(np.arange(len(X)) % 2, 1.0, 2.0)
    km = ConstrainedKMeans(2, size_min=22, size_max=23, random_state=0)
    km.fit(X, sample_weight=weights)
    found = km.certify(X, sample_weight=weights, method="semidefinite", seconds=2)
    assert found.proof.sizes is None
    assert found.lower_bound <= km.inertia_
