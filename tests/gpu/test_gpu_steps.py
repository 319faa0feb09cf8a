"""Unweighted K-means on the device, step by step, by == with the CPU engine."""

import math

import numpy as np
import pytest
from hypothesis import given, settings

from both_engines import assert_same_assignment, opened
from difficult import points
from instances import instances
from interpreted import needs_triton
from wolfmeans.core import empty_clusters
from wolfmeans.core.kmeans import KMeansProblem, Partition
from wolfmeans.core.workspace import Limits
from wolfmeans.engines import Forced, get_engine

pytest.importorskip("wolfmeans.exact._native")
pytestmark = needs_triton


def assert_same_steps(X, centers, steps=3):
    here, there = opened(X)
    assert type(there).__name__ == "GpuPoints"
    for _ in range(steps):
        centers = assert_same_assignment(here, there, centers).means
    return there


# All paths: coordinates one by one up to 8 columns, then products of a width of 16, 32, 64, 128,
# and beyond that several products of 64; one tile of centers and several.
@pytest.mark.parametrize(
    ("d", "n_clusters", "dtype"),
    [
        (1, 3, "float64"),
        (2, 20, "float32"),
        (3, 5, "float64"),
        (9, 5, "float32"),
        (16, 5, "float64"),
        (17, 6, "float32"),
        (33, 65, "float32"),
        (65, 3, "float64"),
        (130, 2, "float32"),
        # More than a program makes means of at once, from sums of two digits and of three.
        (300, 2, "float32"),
        (300, 2, "float64"),
    ],
)
def test_any_number_of_columns_and_centers(d, n_clusters, dtype):
    # Once more rows than a block of the screen has.
    X = points("plain", 140 if d == 3 else n_clusters + 20, d, dtype)
    assert_same_steps(X, X[:n_clusters].copy(), steps=2)


@pytest.mark.parametrize(
    ("kind", "d", "dtype"),
    [
        ("lattice", 3, "float32"),
        ("lattice", 12, "float64"),
        ("half lattice", 12, "float32"),
        ("duplicates", 2, "float64"),
        ("equal", 12, "float64"),
        ("zero", 3, "float64"),
        ("offset", 3, "float64"),
        ("offset", 12, "float64"),
        ("outliers", 3, "float64"),
        ("outliers", 12, "float32"),
        ("heavy tails", 12, "float32"),
        ("columns apart", 12, "float64"),
        ("tiny", 3, "float64"),
        ("tiny", 12, "float64"),
        ("huge", 12, "float64"),
        ("small", 12, "float32"),
        ("denormal", 3, "float32"),
    ],
)
def test_difficult_points(kind, d, dtype):
    X = points(kind, 20, d, dtype)
    # More than are looked at one by one before all are (hard rows).
    assert_same_steps(X, X[5:14].copy(), steps=2)


@pytest.mark.parametrize(
    ("n", "n_clusters", "d"), [(1, 1, 2), (1, 1, 11), (37, 1, 2), (37, 1, 11), (12, 12, 11)]
)
def test_few_points_or_clusters(n, n_clusters, d):
    X = points("plain", n, d, "float32")
    assert_same_steps(X, X[:n_clusters].copy(), steps=2)


@pytest.mark.parametrize("d", [2, 11])
def test_more_clusters_than_distinct_points(d):
    X = points("duplicates", 40, d)
    assert len(np.unique(X, axis=0)) < 12
    assert_same_steps(X, X[:12].copy(), steps=2)


@pytest.mark.parametrize("d", [2, 11])
def test_centers_far_from_all_points(d):
    X = points("plain", 40, d, "float32")
    centers = X[:6].copy()
    centers[1] += 1e5
    centers[2] -= 1e30
    centers[5] = 3e38
    # Bounds become infinite on the way, and all centers are looked at; NumPy, which interprets
    # the kernels where there is no device, would warn.
    with np.errstate(over="ignore"):
        there = assert_same_steps(X, centers, steps=2)
    assert there.labels().max() < 5


def test_jumps_between_steps():
    # Centers from anywhere, not the means of the step before: bounds must not survive them.
    X = points("blobs", 50, 10, "float32")
    here, there = opened(X)
    rng = np.random.default_rng(1)
    for _ in range(3):
        assert_same_assignment(here, there, X[rng.permutation(50)[:7]].copy())


def test_the_reference_agrees():
    X = points("lattice", 50, 10, "float32")
    reference, there = (get_engine(name).open(X, None, 1) for name in ("reference", "gpu"))
    centers = X[:9].copy()
    for _ in range(2):
        centers = assert_same_assignment(reference, there, centers).means


@given(instance=instances(max_features=12))
@settings(max_examples=4)
def test_small_instances(instance):
    assert_same_steps(instance.X, instance.seeds, steps=2)


def partition(found, sse=math.nan):
    return Partition(found.means, found.residuals, found.weights, 0.0, 0.0, 0.0, 0, sse)


def assert_same_progress(expected, found):
    assert np.array_equal(expected.evaluations[:, :5], found.evaluations[:, :5])
    assert (expected.point is None) == (found.point is None)
    for one, other in zip(
        (*(expected.point or ()), *expected.vertex),
        (*(found.point or ()), *found.vertex),
        strict=True,
    ):
        assert np.array_equal(one, other)


def advanced(X, seeds, limits, shift=math.inf):
    """Take steps on both engines, compare, and return them with the labels they end at."""
    here, there = opened(X)
    for workspace in (here, there):
        start = workspace.assign(seeds)
    expected, found = (
        workspace.advance(start.means, start.weights, shift, limits) for workspace in (here, there)
    )
    assert_same_progress(expected, found)
    assert there.labels().tolist() == here.labels().tolist()
    return found


@pytest.fixture(scope="module")
def long_run():
    """Points, seeds, and the evaluations of a run to the fixpoint."""
    X = points("plain", 24, 2, "float32", seed=2)
    seeds = X[:3].copy()
    run = advanced(X, seeds, Limits(100, math.inf)).evaluations
    assert 5 < len(run) < 12
    assert run[-1, 0] == 0
    return X, seeds, run


@pytest.mark.parametrize("steps", [1, 4])
def test_steps_end_at_their_number(long_run, steps):
    X, seeds, run = long_run
    found = advanced(X, seeds, Limits(steps, math.inf))
    assert np.array_equal(found.evaluations[:, :5], run[:steps, :5])


@pytest.mark.parametrize("rule", ["gap", "decrease", "shift"])
def test_steps_end_when_a_rule_is_met_and_not_before(long_run, rule):
    X, seeds, run = long_run
    _, _, gap, movement, shift, _ = run.T
    values = {"gap": gap, "decrease": gap + movement, "shift": shift}[rule]
    at = next(t for t in range(1, len(run)) if values[t] < values[:t].min())
    found = advanced(X, seeds, Limits(100, math.inf, **{rule: values[at]}))
    assert len(found.evaluations) == at + 1
    below = math.nextafter(values[at], 0.0)
    after = next(t for t in range(len(run)) if values[t] <= below or run[t, 0] == 0)
    found = advanced(X, seeds, Limits(100, math.inf, **{rule: below}))
    assert len(found.evaluations) == after + 1 > at + 1


def test_steps_go_on_where_others_ended(long_run):
    X, seeds, run = long_run
    there = opened(X)[1]
    start = there.assign(seeds)
    at, evaluations = (start.means, start.weights, math.inf), []
    for steps in (2, 1, 2):
        progress = there.advance(*at, Limits(steps, math.inf))
        evaluations += progress.evaluations[:, :5].tolist()
        centers, _, weights, shift, *_ = progress.vertex
        at = centers, weights, shift
    assert evaluations == run[:5, :5].tolist()


@pytest.mark.parametrize("d", [2, 10])
def test_steps_with_empty_clusters(d):
    X = points("plain", 40, d)
    seeds = X[:7].copy()
    seeds[3] += 1e4
    # Where no empty cluster may stay, the step that would leave one is not taken.
    refused = advanced(X, seeds, Limits(4, math.inf))
    assert len(refused.evaluations) == 1
    assert (refused.vertex[2] == 0).any()
    kept = advanced(X, seeds, Limits(3, math.inf, keep_empty=True))
    assert (kept.evaluations[:, 1] == 1).all()
    assert len(kept.evaluations) == 3


def test_steps_end_when_time_is_over(long_run):
    X, seeds, run = long_run
    there = opened(X)[1]
    start = there.assign(seeds)
    found = there.advance(start.means, start.weights, math.inf, Limits(100, 0.0)).evaluations
    assert 0 < len(found) <= len(run)
    assert np.array_equal(found[:, :5], run[: len(found), :5])
    assert (np.diff(found[:, 5]) >= 0).all()


def test_sums_without_room_on_the_device_end_the_run_where_they_should():
    X = points("plain", 30, 3) * 1e-12
    X[0] = 1e30
    seeds = X[:4].copy()
    here, there = opened(X)
    for workspace in (here, there):
        start = workspace.assign(seeds)
    limits = Limits(4, math.inf, keep_empty=True)
    expected = here.advance(start.means, start.weights, math.inf, limits).evaluations
    centers, weights, shift, found = start.means, start.weights, math.inf, []
    while len(found) < len(expected):
        left = Limits(4 - len(found), math.inf, keep_empty=True)
        progress = there.advance(centers, weights, shift, left)
        found += progress.evaluations[:, :5].tolist()
        centers, _, weights, shift, *_ = progress.vertex
    assert found == expected[:, :5].tolist()
    assert there.labels().tolist() == here.labels().tolist()


@pytest.mark.parametrize("d", [3, 20])
def test_forced_labels(d):
    X = points("plain", 50, d, "float32")
    here, there = opened(X)
    centers = X[:5].copy()
    rows, labels = np.array([0, 7, 49]), np.array([4, 4, 0], dtype=np.int32)
    # First labels, then a change of labels, then back to the nearest centers.
    for forced in (Forced(rows, labels), Forced(rows[:1], labels[:1]), None):
        centers = assert_same_assignment(here, there, centers, forced).means
    # Slacks of forced points must not be trusted by the steps that follow.
    expected, found = (
        workspace.advance(centers, np.ones(5), math.inf, Limits(3, math.inf, keep_empty=True))
        for workspace in (here, there)
    )
    assert_same_progress(expected, found)


@pytest.mark.parametrize(
    ("kind", "d", "dtype"),
    [
        ("lattice", 2, "float32"),
        ("plain", 9, "float64"),
        ("tiny", 3, "float64"),
    ],
)
def test_what_a_workspace_answers(kind, d, dtype):
    X = points(kind, 45, d, dtype)
    centers = X[3:10].copy()
    here, there = opened(X)
    assert (there.n_points, there.n_features, there.dtype) == (45, d, here.dtype)
    assert there.weights is None
    for workspace in (here, there):
        with pytest.raises(RuntimeError, match="no labels before"):
            workspace.cost(centers)
        with pytest.raises(RuntimeError, match="no labels before"):
            workspace.labels()
    assert_same_assignment(here, there, centers)
    other = X[20:23].copy()
    for one, another in zip(here.nearest(other), there.nearest(other), strict=True):
        assert np.array_equal(one, another)
    # Asking changes nothing.
    assert there.labels().tolist() == here.labels().tolist()
    assert np.array_equal(there.distances(centers), here.distances(centers))
    assert np.array_equal(there.distances_to(other[0]), here.distances_to(other[0]))
    assert there.roots(centers).dtype == here.roots(centers).dtype
    assert np.array_equal(there.roots(centers), here.roots(centers))
    for weighted in (True, False):
        assert np.array_equal(there.mean(weighted=weighted), here.mean(weighted=weighted))
    assert there.order().tolist() == here.order().tolist()
    assert there.largest() == here.largest() == np.abs(X).max()
    assert there.distance_error(centers) == 0.0
    rows = np.array([4, 4, 0, 44])
    assert np.array_equal(there.rows(rows), X[rows])
    assert there.total(np.array([1.0, 2.0**-60, -1.0])) == 2.0**-60
    assert there.digest(centers) == there.digest(centers.copy()) != there.digest(other)


def test_a_fork_shares_data_and_nothing_else():
    X = points("plain", 40, 4)
    there = opened(X)[1]
    there.order()
    found = there.assign(X[:4].copy())
    labels, means = there.labels(), found.means.copy()
    fork = there.fork(1)
    assert fork.data is there.data
    assert fork.order() is there.order()
    with pytest.raises(RuntimeError, match="no labels"):
        fork.labels()
    first = fork.assign(X[10:13].copy())
    assert (first.moved, first.gap) == (40, 0.0)
    assert there.labels().tolist() == labels.tolist()
    assert np.array_equal(found.means, means)


def test_what_was_found_is_not_overwritten_by_the_next_step():
    X = points("plain", 40, 4)
    here, there = opened(X)
    first = there.assign(X[:4].copy())
    kept = first.means.copy(), first.weights.copy(), first.residuals.copy()
    expected = here.step(here.assign(X[:4].copy()), X[:4])
    second = there.assign(first.means)
    assert np.array_equal(first.means, kept[0])
    assert np.array_equal(first.weights, kept[1])
    assert np.array_equal(first.residuals, kept[2])
    assert second.means is not first.means
    # A step that is not the last one is computed from what is given.
    assert there.step(first, X[:4]) == expected


@pytest.mark.parametrize(
    ("kind", "d"), [("lattice", 2), ("plain", 11), ("offset", 11), ("columns apart", 2)]
)
def test_rows_near_a_tie_are_found(kind, d):
    X = points(kind, 40, d)
    here, there = opened(X)
    centers = X[:5].copy()
    for workspace in (here, there):
        found = workspace.assign(centers)
    for slack in (0.0, 1e-9, 1e-3, math.inf):
        rows, nearest, second = there.near_ties(centers, slack)
        near, far = here._kernels.second_nearest(centers)
        assert np.array_equal(nearest, near[rows])
        assert np.array_equal(second, far[rows])
        larger = np.sqrt(far)
        tied = larger - np.sqrt(near) <= 2.0 * slack * (1.0 + slack / np.maximum(larger, 1e-300))
        assert set(np.flatnonzero(tied)) <= set(rows.tolist())
    tied = [KMeansProblem(w, "keep", None).tied(partition(found)) for w in (here, there)]
    assert tied[0] == tied[1]


@pytest.mark.parametrize("d", [2, 9])
def test_near_ties_after_several_steps(d):
    X = points("lattice", 40, d)
    here, there = opened(X)
    for workspace in (here, there):
        start = workspace.assign(X[:4].copy())
    limits = Limits(4, math.inf, keep_empty=True)
    progress = [w.advance(start.means, start.weights, math.inf, limits) for w in (here, there)]
    centers = progress[0].vertex[0] if progress[0].point is None else progress[0].point[0]
    near, far = here._kernels.second_nearest(centers)
    rows, nearest, second = there.near_ties(centers, 0.0)
    assert set(np.flatnonzero(near == far)) <= set(rows.tolist())
    assert np.array_equal(nearest, near[rows])
    assert np.array_equal(second, far[rows])


@pytest.mark.parametrize(
    ("kind", "d", "weighted"), [("plain", 2, False), ("lattice", 12, False), ("offset", 3, True)]
)
def test_where_a_center_more_would_gain(kind, d, weighted):
    X = points(kind, 16, d)
    weights = np.arange(16) % 4 * 0.5 if weighted else None
    here, there = opened(X, weights)
    centers = X[:3].copy()
    for workspace in (here, there):
        workspace.assign(centers)
    for most in (6, 100):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(empty_clusters, "CANDIDATES", most)
            expected = empty_clusters.best_candidate(here, here.distances(centers))
        found = there.best_candidate(centers, None, most)
        assert found is None or tuple(found) == expected
    assert found == expected


@pytest.mark.parametrize("d", [2, 12])
def test_far_rows_are_all_there(d):
    X = points("heavy tails", 60, d, "float32")
    there = opened(X)[1]
    centers = X[:4].copy()
    distances = there.nearest(centers)[1]
    rows, far, outside = there.far_rows(centers, 10, None)
    assert np.array_equal(far, distances[rows])
    assert set(np.flatnonzero(distances > outside)) <= set(rows.tolist())
    # In the order of their values.
    places = np.argsort(there.order())[rows]
    assert (np.diff(places) > 0).all()


def test_what_points_lose_whose_center_is_gone():
    X = points("plain", 50, 3)
    here, there = opened(X)
    centers = X[:6].copy()
    gone = np.array([False, True, False, False, True, False])
    losses = []
    for workspace in (here, there):
        workspace.assign(centers)
        losses.append(sorted(workspace.losses_without(centers, gone).tolist()))
    assert [loss for loss in losses[0] if loss] == [loss for loss in losses[1] if loss]
    assert losses[0]
    nothing = np.zeros(6, dtype=bool)
    assert there.losses_without(centers, nothing).sum() == 0.0
