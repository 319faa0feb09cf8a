"""Empty clusters: each policy keeps the theorem, the admissible oracle is exact."""

import itertools
import math
import warnings
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dense_kmeans import squared_distances
from instances import Instance, instances
from wolfmeans import KMeans
from wolfmeans.core import empty_clusters as empty_module
from wolfmeans.core.empty_clusters import (
    POLICIES,
    _match,
    admissible_assignment,
    best_candidate,
    farthest_first,
    refill,
)
from wolfmeans.core.kmeans import KMeansProblem
from wolfmeans.engines import get_engine

# Three tight groups on a line, and a fourth seed so far away that nobody takes it.
GROUPS = np.array([[0.0], [1.0], [10.0], [11.0], [20.0], [21.0], [22.0]])
FAR = np.array([[0.0], [10.0], [20.0], [1e6]])


def _open(X, weights=None):
    return get_engine("reference").open(X, weights, 1)


def fitted(empty, **options):
    return KMeans(4, init=FAR, n_init=1, empty=empty, **options)


@pytest.mark.parametrize("empty", [p for p in POLICIES if p != "keep"])
def test_an_empty_cluster_is_put_to_use(empty):
    km = fitted(empty, random_state=0).fit(GROUPS)
    assert sorted(np.unique(km.labels_)) == [0, 1, 2, 3]
    assert km.certificate_.empty_clusters == 0
    # Three groups alone leave 0.5 + 0.5 + 2.
    assert km.inertia_ < 3.0
    assert (np.diff(km.trace_.sse) <= 0).all()


def test_keep_leaves_it_empty_and_the_certificate_says_so():
    with pytest.warns(UserWarning, match="1 of 4 clusters are empty"):
        km = fitted("keep").fit(GROUPS)
    certificate = km.certificate_
    assert km.cluster_centers_[3, 0] == 1e6
    assert certificate.empty_clusters == 1
    assert certificate.local_optimality == "stationary, with empty clusters"
    assert certificate.gap == certificate.clarke_gap == 0.0
    # A center on 20 gains 1 there and nothing elsewhere; so does one on 22.
    assert certificate.candidate_decrease == 1.0
    assert "empty" in str(certificate)


def test_the_clarke_gap_ignores_the_column_that_reseeding_gained_by():
    with pytest.warns(UserWarning, match="iteration limit"):
        km = fitted("farthest", max_iter=1, tol=0.0).fit(GROUPS)
    # w_0 has an empty cluster; its new center wins a point, which only g and not g_C counts.
    certificate = km.certificate_
    assert km.trace_.empty[0] == 1
    assert certificate.gap == 1.0
    assert certificate.clarke_gap == 0.0


def test_farthest_takes_the_farthest_point_of_positive_weight():
    weights = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    workspace = get_engine("reference").open(GROUPS, weights, 1)
    workspace.assign(FAR)
    centers = np.array([[0.5], [10.0], [20.0], [1e6]])
    chosen = refill(
        "farthest",
        workspace,
        centers,
        np.array([False] * 3 + [True]),
        lambda: np.random.RandomState(0),
    )
    # 22 is farthest from its center but has no weight; 11 and 21 are next, 11 the lower row.
    assert chosen[3, 0] == 11.0


@given(instances(max_points=40), st.integers(1, 8), st.integers(1, 12))
def test_farthest_first_is_the_plain_greedy_traversal(instance, count, few):
    workspace = instance.open()
    start = workspace.nearest(instance.seeds)[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(empty_module, "_FEW", few)
        chosen = farthest_first(workspace, start, count)
    heavy = np.ones(len(start), bool) if instance.weights is None else instance.weights > 0
    distances = np.where(heavy, start, 0.0)
    order = workspace.order()
    for row in chosen.tolist():
        assert row == order[np.argmax(distances[order])]
        assert distances[row] > 0
        distances = np.minimum(
            distances, workspace.distances_to(workspace.rows(np.array([row]))[0])
        )
    assert len(chosen) == count or not distances.any()


def test_best_takes_the_largest_guaranteed_decrease():
    X = np.array([[0.0], [30.0], [4.0], [4.2], [4.4], [-4.0], [-4.2], [-4.4]])
    weights = np.array([5.0, 0.02, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    workspace = get_engine("reference").open(X, weights, 1)
    workspace.assign(np.array([[0.0]]))
    distances = workspace.distances(np.array([[0.0]]))
    row, decrease = best_candidate(workspace, distances)
    gains = [
        float(np.sum(weights * np.maximum(distances - (X[:, 0] - z) ** 2, 0.0))) for z in X[:, 0]
    ]
    assert row == int(np.argmax(gains))
    assert row != int(np.argmax(distances))
    assert decrease == pytest.approx(max(gains), rel=1e-14)


def test_best_compares_with_the_nearest_center_and_not_with_the_label():
    # Labels of the seeds 10, 7, 1000 are not nearest to the means 10 and 3.17 any more.
    X = np.array([[10.0], [7.0], [6.0], [3.0], [3.0], [0.0], [0.0], [0.0]])
    problem = KMeansProblem(_open(X), "best", lambda: np.random.RandomState(0))
    start = problem.partition(np.array([[10.0], [7.0], [1000.0]]))
    nearest = np.min((X - start.centers[:2].T) ** 2, axis=1)
    gains = [float(np.sum(np.maximum(nearest - (X[:, 0] - z) ** 2, 0.0))) for z in X[:, 0]]
    chosen = problem.supergradient(start)[2, 0]
    assert chosen == X[int(np.argmax(gains)), 0]
    farthest = KMeansProblem(_open(X), "farthest", lambda: np.random.RandomState(0))
    assert farthest.supergradient(farthest.partition(np.array([[10.0], [7.0], [1000.0]])))[
        2, 0
    ] != (chosen)


def test_resample_follows_the_weights():
    X, weights = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([1.0, 8.0, 1e-9, 8.0])
    workspace = _open(X, weights)
    centers = np.array([[0.0], [100.0]])
    workspace.assign(centers)
    chosen = [
        refill(
            "resample",
            workspace,
            centers,
            np.array([False, True]),
            partial(np.random.RandomState, seed),
        )[1, 0]
        for seed in range(200)
    ]
    assert 2.0 not in chosen
    assert 60 < chosen.count(1.0) < 140


def test_best_looks_at_a_sample_of_many_points(monkeypatch):
    monkeypatch.setattr(empty_module, "CANDIDATES", 10)
    X = np.random.default_rng(0).normal(size=(500, 2))
    workspace = get_engine("reference").open(X, None, 1)
    workspace.assign(np.zeros((1, 2)))
    rows = empty_module._candidate_rows(workspace, workspace.distances(np.zeros((1, 2))))
    assert len(rows) <= 10
    farthest = np.argsort(-(X**2).sum(axis=1))[:5]
    assert set(farthest.tolist()) <= set(rows.tolist())


def test_resample_picks_only_points_off_their_center():
    X = np.array([[0.0], [0.0], [0.0], [0.0], [5.0]])
    workspace = get_engine("reference").open(X, None, 1)
    centers = np.array([[0.0], [100.0]])
    workspace.assign(centers)
    for seed in range(20):
        chosen = refill(
            "resample",
            workspace,
            centers,
            np.array([False, True]),
            partial(np.random.RandomState, seed),
        )
        assert chosen[1, 0] == 5.0


@pytest.mark.parametrize("empty", POLICIES)
def test_fewer_distinct_points_than_clusters_end_with_a_warning(empty):
    X = np.repeat(np.array([[0.0, 0.0], [1.0, 1.0], [5.0, 5.0]]), 4, axis=0)
    with pytest.warns(UserWarning, match="clusters"):
        km = KMeans(5, init="random", n_init=1, random_state=0, empty=empty).fit(X)
    if empty != "keep":
        assert km.inertia_ == 0.0
        assert len(np.unique(km.labels_)) == 3
    assert (km.predict(X) == km.labels_).all()
    assert km.certificate_.status.converged


def brute_force_admissible(costs, heavy):
    """The least cost of labels that give every cluster a point of positive weight."""
    n, k = costs.shape
    return min(
        math.fsum(costs[np.arange(n), labels])
        for labels in map(list, itertools.product(range(k), repeat=n))
        if len({label for label, h in zip(labels, heavy, strict=True) if h}) == k
    )


@settings(max_examples=150)
@given(instances(max_points=6, max_features=2, max_clusters=3), st.integers(0, 2**32 - 1))
def test_admissible_oracle_equals_brute_force(instance, seed):
    weights = np.ones(len(instance.X)) if instance.weights is None else instance.weights
    heavy = weights > 0
    if heavy.sum() < instance.n_clusters:
        return
    rng = np.random.default_rng(seed)
    centers = instance.seeds + rng.normal(scale=3.0, size=instance.seeds.shape)
    centers = np.ascontiguousarray(centers.astype(instance.X.dtype))
    workspace = instance.open()
    workspace.assign(centers, admissible_assignment(workspace, centers))
    labels = workspace.labels()
    assert len(set(labels[heavy].tolist())) == instance.n_clusters
    costs = weights[:, None] * squared_distances(instance.X, centers)
    reached = math.fsum(costs[np.arange(len(labels)), labels])
    best = brute_force_admissible(costs, heavy)
    assert reached == pytest.approx(best, rel=1e-12, abs=1e-300)


def test_admissible_is_greedy_when_greedy_is_admissible():
    workspace = get_engine("reference").open(GROUPS, None, 1)
    assert admissible_assignment(workspace, FAR[:3].copy()) is None
    assert admissible_assignment(workspace, FAR) is not None


def test_sparse_and_dense_matching_agree_with_zero_costs(monkeypatch):
    rng = np.random.default_rng(4)
    for _ in range(30):
        k = int(rng.integers(2, 7))
        rows = [np.sort(rng.choice(20, size=k, replace=False)) for _ in range(k)]
        costs = [rng.choice([0.0, 0.0, 1.0, 2.5], size=k) * rng.uniform(size=k) for _ in range(k)]
        totals = []
        for limit in (1 << 22, 0):
            monkeypatch.setattr(empty_module, "_DENSE_MATCHING", limit)
            chosen = _match(rows, costs)
            assert len(set(chosen.tolist())) == k
            totals.append(
                sum(costs[c][rows[c].tolist().index(r)] for c, r in enumerate(chosen.tolist()))
            )
        assert totals[0] == pytest.approx(totals[1], rel=1e-12)


@given(instances(), st.sampled_from(["resample", "farthest", "best", "admissible"]))
def test_zero_weight_points_are_never_reseeded(instance, empty):
    if instance.weights is None:
        return
    km = KMeans(instance.n_clusters, init=instance.seeds, n_init=1, empty=empty, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        km.fit(instance.X, sample_weight=instance.weights)
    used = np.unique(km.labels_[instance.weights > 0])
    assert len(used) == min(instance.n_clusters, instance.distinct_heavy_points())


def test_instance_helper_counts_distinct_heavy_points():
    X = np.array([[0.0], [0.0], [1.0]])
    assert Instance(X, np.array([1.0, 1.0, 0.0]), X[:1]).distinct_heavy_points() == 1
