"""Trimmed K-means: oracle and optimum by brute force, engines by ==, the ledger, outliers."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import wolfmeans
from instances import ENGINES, Instance, instances
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.core.frank_wolfe import State
from wolfmeans.core.solution import Status
from wolfmeans.core.stopping import STOPS
from wolfmeans.core.threshold import find_threshold, gap_terms, kept_masses
from wolfmeans.core.trimmed import POLICIES, TrimmedProblem, kept_mass, share_of, total_mass
from wolfmeans.core.workspace import Threshold
from wolfmeans.engines import Forced, get_engine
from wolfmeans.exact.sums import unit_exponent
from wolfmeans.files.datasets import load_banknotes
from wolfmeans.fitting import two_stages
from wolfmeans.fitting.fit import Start, run
from wolfmeans.seeding.methods import METHODS, trimmed_rows

UNIT = 2.0**-53
SHARES = [Fraction(0), Fraction(1, 20), Fraction(1, 4), Fraction(2, 3), Fraction(19, 20)]


def no_randomness():
    return np.random.RandomState(0)


def mass_of(instance, share):
    return kept_mass(share, instance.weights, len(instance.X))


def opened(instance, share, engine="reference", n_threads=2):
    return (
        get_engine(engine)
        .open(instance.X, instance.weights, n_threads)
        .trimmed(mass_of(instance, share))
    )


def weights_of(instance):
    return np.ones(len(instance.X)) if instance.weights is None else instance.weights


def fit(instance, share, *, empty="farthest", engine="reference", max_steps=100, **settings):
    start = Start(opened(instance, share, engine), instance.seeds, no_randomness)
    settings = {"stop": "decrease", "tol": 1e-6, "tol_scale": "initial", **settings}
    return run(start, max_steps=max_steps, empty=empty, kind=TrimmedProblem, **settings)


def rounding(instance, scale, steps=1):
    return 16 * UNIT * (instance.X.shape[1] + 8) * (steps + 1) * scale


# The oracle.


def literal_kept(distances, weights, mass):
    """What is kept, one point after the other, in rational numbers."""
    left, kept = Fraction(mass), [Fraction(0)] * len(distances)
    for i in sorted(range(len(distances)), key=lambda i: (distances[i], i)):
        kept[i] = min(left, Fraction(weights[i]))
        left -= kept[i]
    return np.array([float(k) for k in kept])


@st.composite
def masses_at_distances(draw):
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    distances = rng.choice(draw(st.sampled_from([[0.0, 1.0, 2.0], rng.uniform(size=50)])), size=n)
    kinds = [[0.0, 1.0, 2.0, 3.0], [1e-8, 1.0, 1e8, 0.1], rng.uniform(size=9)]
    weights = rng.choice(draw(st.sampled_from(kinds)), size=n)
    weights[rng.integers(n)] = 1.0
    weights = weights if draw(st.booleans()) else None
    mass = kept_mass(Fraction(draw(st.integers(0, 99)), 100), weights, n)
    if weights is not None and draw(st.booleans()):
        # Full with the last of some points, where no part of another one is left to keep.
        first = np.argsort(distances, kind="stable")[: rng.integers(1, n + 1)]
        total = sum(map(Fraction, weights[first].tolist()))
        mass = float(total) if total > 0 and float(total) == total else mass
    return distances, weights, mass


@given(masses_at_distances())
def test_the_nearest_are_kept_up_to_the_mass(case):
    distances, weights, mass = case
    threshold = find_threshold(distances, weights, mass)
    kept = kept_masses(threshold, distances, weights)
    given_weights = np.ones(len(distances)) if weights is None else weights
    if mass >= math.fsum(given_weights):
        assert threshold == Threshold.nowhere()
        assert (kept == given_weights).all()
        return
    assert (kept == literal_kept(distances, given_weights, mass)).all()
    assert math.fsum(kept) == pytest.approx(mass, rel=4 * UNIT)
    assert ((kept > 0) & (kept < given_weights)).sum() <= 1
    assert threshold.distance == distances[threshold.row] == distances[kept > 0].max()
    assert threshold.mass == kept[threshold.row] > 0
    if len(ENGINES) > 1:
        native = pytest.importorskip("wolfmeans.exact._native")
        assert Threshold(*native.find_threshold(distances, weights, mass)) == threshold


def test_many_ties_at_the_threshold_go_to_the_lowest_rows():
    native = pytest.importorskip("wolfmeans.exact._native")
    distances, weights = np.full(2000, 3.0), np.full(2000, 0.1)
    distances[::7] = 1.0
    for mass in (0.1, 50.0, 0.1 * 1999):
        mass = math.floor(mass / 2.0 ** unit_exponent(weights)) * 2.0 ** unit_exponent(weights)
        expected = find_threshold(distances, weights, mass)
        assert Threshold(*native.find_threshold(distances, weights, mass)) == expected
        assert (
            kept_masses(expected, distances, weights) == literal_kept(distances, weights, mass)
        ).all()
    assert native.find_threshold(distances, None, 1500.0)[1] == int(
        np.flatnonzero(distances == 3.0)[1500 - 286 - 1]
    )


@pytest.mark.parametrize(
    ("share", "weights", "n", "kept"),
    [
        (share_of(0.05), None, 200, 190.0),
        (share_of(0.3), None, 10, 7.0),
        (share_of(0.29), None, 100, 71.0),
        (share_of(0.05), None, 19, math.inf),
        (share_of(0.0), np.array([1.0, 2.0]), 2, math.inf),
        (share_of(0.25), np.array([3.0, 2.0, 2.0]), 3, 6.0),
        (share_of(0.5), np.array([0.5, 0.25, 0.5, 0.0]), 4, 0.75),
        # A total that float64 cannot hold: 2^53 + 1.
        (Fraction(1, 2), np.array([2.0**53, 1.0]), 2, 2.0**52 + 1),
    ],
)
def test_a_share_becomes_a_mass(share, weights, n, kept):
    assert kept_mass(share, weights, n) == kept


def test_the_total_is_exact():
    weights = np.array([1e16, 1.0, 1e-16, 3e-300])
    assert total_mass(weights, 4) == sum(map(Fraction, weights.tolist()))


def test_a_workspace_refuses_masses_that_its_sums_cannot_hold():
    X = np.zeros((4, 1))
    for engine in ENGINES:
        with pytest.raises(ValueError, match="multiple of 2"):
            get_engine(engine).open(X, None, 1).trimmed(2.5)
        with pytest.raises(ValueError, match="positive"):
            get_engine(engine).open(X, None, 1).trimmed(0.0)
        workspace = get_engine(engine).open(X, None, 1).trimmed(2.0)
        with pytest.raises(RuntimeError, match="no labels"):
            workspace.labels()
        with pytest.raises(RuntimeError, match="no labels"):
            workspace.kept()
        with pytest.raises(ValueError, match="forced"):
            workspace.assign(X[:1], Forced(np.array([0]), np.array([0], dtype=np.int32)))


# Engines.


def as_stored(X):
    n, d = X.shape
    entries = (X.ravel().copy(), np.tile(np.arange(d), n), np.arange(0, n * d + 1, d))
    return sparse.csr_array(entries, shape=X.shape)


@settings(max_examples=60)
@given(instances(), st.sampled_from(SHARES))
def test_engines_agree_bit_for_bit_over_several_steps(instance, share):
    mass = mass_of(instance, share)
    workspaces = [
        get_engine(engine).open(X, instance.weights, n_threads).trimmed(mass)
        for engine in ENGINES
        for X in (instance.X, as_stored(instance.X))
        for n_threads in (1, 3)
    ]
    centers = instance.seeds
    for _ in range(4):
        results = [workspace.assign(centers) for workspace in workspaces]
        for workspace, other in zip(workspaces[1:], results[1:], strict=True):
            for name, value in vars(results[0]).items():
                assert np.array_equal(value, getattr(other, name)), name
            assert (workspace.labels() == workspaces[0].labels()).all()
            assert (workspace.kept() == workspaces[0].kept()).all()
            assert workspace.threshold == workspaces[0].threshold
            assert workspace.cost(centers) == workspaces[0].cost(centers)
        centers = results[0].means
    assert (
        workspaces[-1].fork(1).keep(np.ones(len(instance.X)))
        == workspaces[0].keep(np.ones(len(instance.X)))
    ).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_and_many_points_do_not_change_a_bit(dtype, weighted):
    rng = np.random.default_rng(3)
    X = (rng.normal(size=(30_000, 3)) + 6 * rng.integers(0, 5, size=(30_000, 1))).astype(dtype)
    weights = rng.choice([0.0, 0.3, 1.0, 2.0], size=len(X)) if weighted else None
    mass = kept_mass(Fraction(1, 10), weights, len(X))
    workspaces = [get_engine("auto").open(X, weights, n).trimmed(mass) for n in (1, 2, 5)]
    reference = get_engine("reference").open(X, weights, 1).trimmed(mass)
    centers = X[:7].copy()
    for step in range(6):
        results = [workspace.assign(centers) for workspace in workspaces]
        if step < 3:
            results.append(reference.assign(centers))
        for other in results[1:]:
            for name, value in vars(results[0]).items():
                assert np.array_equal(value, getattr(other, name)), name
        centers = results[0].means
    assert (workspaces[0].labels() == workspaces[2].labels()).all()


@settings(max_examples=50)
@given(instances(), st.sampled_from(SHARES))
def test_moments_are_those_of_the_kept_masses(instance, share):
    for engine in ENGINES:
        workspace = opened(instance, share, engine)
        centers = instance.seeds
        for _ in range(3):
            found = workspace.assign(centers)
            labels, kept = workspace.labels(), workspace.kept()
            for k in range(len(centers)):
                members = labels == k
                weight = sum(map(Fraction, kept[members].tolist()), Fraction(0))
                assert found.weights[k] == float(weight)
                if weight == 0:
                    assert (found.means[k] == centers[k]).all()
                    continue
                for j in range(centers.shape[1]):
                    column = instance.X[members, j].astype(float).tolist()
                    total = sum(
                        (
                            Fraction(v) * Fraction(x)
                            for v, x in zip(kept[members].tolist(), column, strict=True)
                        ),
                        Fraction(0),
                    )
                    assert found.means[k, j] == centers.dtype.type(float(total / weight))
            assert (labels[kept > 0] >= 0).all()
            centers = found.means


def test_a_part_finer_than_any_weight_is_summed_exactly():
    X = np.array([[1.0], [2.0], [4.0]])
    weights = np.array([1.0, 1.0 + 2.0**-52, 1.0])
    # The nearest point whole, and of the second as little as the weights' bits allow.
    for engine in ENGINES:
        workspace = get_engine(engine).open(X, weights, 1).trimmed(1.0 + 2.0**-51)
        found = workspace.assign(np.array([[1.0], [2.0]]))
        assert workspace.kept().tolist() == [1.0, 2.0**-51, 0.0]
        assert found.weights.tolist() == [1.0, 2.0**-51]
        assert found.means.tolist() == [[1.0], [2.0]]
        assert workspace.smallest_mass() == 2.0**-52


# The problem on the loop.


@settings(max_examples=60)
@given(instances(), st.sampled_from(SHARES), st.sampled_from(POLICIES), st.sampled_from(STOPS))
def test_ledger_descent_rate_and_guarantee(instance, share, empty, stop):
    found = fit(instance, share, empty=empty, stop=stop)
    trace, solution = found.solution.trace, found.solution
    assert solution.status not in (Status.DESCENT_VIOLATED, Status.REPEATED_STATE)
    assert (trace.gap >= 0).all()
    assert (trace.movement >= 0).all()
    slack = rounding(instance, found.initial_sse, len(trace))
    h_0 = found.initial_sse - (found.inertia - slack)
    assert (np.minimum.accumulate(trace.gap) <= (h_0 + slack) / (trace.t + 1)).all()
    if solution.max_iterations is not None:
        assert solution.iterations <= solution.max_iterations


@settings(max_examples=60)
@given(instances(), st.sampled_from(SHARES))
def test_the_shift_rule_counts_on_the_smallest_mass_a_cluster_can_have(instance, share):
    found = fit(instance, share, stop="shift", tol=0.1)
    weights = found.solution.vertex.weights
    assert 0 < found.rule.smallest_weight <= weights[weights > 0].min()


@settings(max_examples=60)
@given(instances(), st.sampled_from(SHARES), st.sampled_from(POLICIES))
def test_the_ledger_equals_f_recomputed_at_every_partition(instance, share, empty):
    problem = TrimmedProblem(opened(instance, share), empty, no_randomness)
    state = State(problem.partition(instance.seeds), 0.0, 0.0)
    state.value = first = problem.value(state.point)
    for t in range(8):
        kept, labels = problem.workspace.kept(), problem.workspace.labels()
        record = problem.evaluate(state)
        direct = problem.workspace.cost(state.vertex.centers)
        assert state.vertex_value == pytest.approx(direct, abs=rounding(instance, first, t + 1))
        moved = (problem.workspace.labels() != labels) | (problem.workspace.kept() != kept)
        assert record.moved == moved.sum()
        state.take_step()


@settings(max_examples=60)
@given(instances(), st.sampled_from(SHARES))
def test_every_term_of_the_gap_is_at_least_zero(instance, share):
    workspace = opened(instance, share)
    centers = workspace.assign(instance.seeds).means
    for _ in range(3):
        old, before = workspace.kept(), workspace.distances(centers)
        after = workspace.nearest(centers)[1]
        found = workspace.assign(centers)
        tau = workspace.threshold.distance
        terms = gap_terms(old, workspace.kept(), before, after, tau)
        assert (terms >= 0).all()
        assert found.gap == math.fsum(terms)
        # The threshold cancels: both partitions have the same mass.
        direct = math.fsum([*(old * before).tolist(), *(-workspace.kept() * after).tolist()])
        scale = math.fsum(old * before)
        assert found.gap == pytest.approx(direct, abs=rounding(instance, scale))
        centers = found.means


@settings(max_examples=60)
@given(instances(), st.sampled_from(SHARES), st.sampled_from(POLICIES))
def test_the_returned_numbers_are_true_at_the_returned_point(instance, share, empty):
    found = fit(instance, share, empty=empty, tol=0.02)
    distances = ((instance.X[:, None].astype(float) - found.centers[None].astype(float)) ** 2).sum(
        axis=2
    )
    workspace, weights = found.problem.workspace, weights_of(instance)
    nearest = workspace.nearest(found.centers)[1]
    np.testing.assert_allclose(nearest, distances.min(axis=1), rtol=1e-12)
    mass = mass_of(instance, share)
    expected = weights if math.isinf(mass) else literal_kept(nearest, weights, mass)
    assert (workspace.kept() == expected).all()
    assert found.inertia == math.fsum(expected * nearest)
    assert (found.labels[expected > 0] == workspace.nearest(found.centers)[0][expected > 0]).all()
    assert (found.labels[(expected == 0) & (weights > 0)] == -1).all()
    assert found.solution.value == found.inertia + found.solution.gap


@settings(max_examples=60)
@given(instances(), st.sampled_from(["resample", "farthest", "best"]), st.sampled_from(SHARES))
def test_no_cluster_stays_empty_when_kept_points_could_fill_it(instance, empty, share):
    for max_steps in (0, 2, 100):
        found = fit(instance, share, empty=empty, max_steps=max_steps)
        assert found.inertia == 0.0 or found.solution.vertex.whole


def test_empty_clusters_are_filled_with_kept_points_not_with_outliers():
    X = np.array([[0.0], [1.0], [2.0], [3.0], [1e6]])
    instance = Instance(X, None, np.array([[1.0], [-1e7]]))
    for empty in ("farthest", "best", "resample"):
        problem = TrimmedProblem(opened(instance, Fraction(1, 5)), empty, no_randomness)
        first = problem.partition(instance.seeds)
        assert first.empty.tolist() == [False, True]
        assert problem.supergradient(first)[1, 0] in (0.0, 1.0, 2.0, 3.0)
    found = fit(instance, Fraction(1, 5))
    assert found.labels[4] == -1
    assert found.inertia == 2.0


def test_admissible_is_refused_with_a_reason():
    X = np.arange(6.0).reshape(-1, 1)
    with pytest.raises(ValueError, match="joint assignment problem; choose one of 'keep'"):
        TrimmedKMeans(2, empty="admissible").fit(X)


def test_a_ledger_that_does_not_balance_is_reported():
    rng = np.random.default_rng(0)
    instance = Instance(rng.normal(size=(50, 2)), None, rng.normal(size=(4, 2)))
    found = fit(instance, Fraction(1, 10), stop="stationary")
    assert found.solution.status is Status.STATIONARY
    wrong = replace(found.solution, value=found.solution.value * (1 + 1e-9))
    assert found.problem.audit(wrong, found.inertia).status is Status.DESCENT_VIOLATED


@pytest.mark.parametrize(
    ("x", "weights", "share", "tied"),
    [
        ([0.0, 2.0, 5.0], None, Fraction(1, 3), False),
        ([0.0, 2.0, 2.0], None, Fraction(1, 3), True),
        # Kept in part: told apart from what is inside and from what is outside, or from one only.
        ([0.0, 1.0, 9.0], [2.0, 2.0, 1.0], Fraction(2, 5), False),
        ([-1.0, 1.0, 1.0], [2.0, 1.0, 2.0], Fraction(1, 5), True),
        ([0.0, 1.0, 1.0], [4.0, 1.0, 1.0], Fraction(1, 4), True),
        # Nothing trimmed, nothing tied; a point of no weight ties with nobody.
        ([0.0, 2.0, 2.0], None, Fraction(0), False),
        ([0.0, 2.0, 2.0, 9.0], [1.0, 1.0, 0.0, 1.0], Fraction(1, 3), False),
    ],
)
def test_a_tie_at_the_threshold_is_no_strict_minimum(x, weights, share, tied):
    X = np.array(x).reshape(-1, 1)
    instance = Instance(X, None if weights is None else np.array(weights), X[:1].copy())
    found = fit(instance, share, stop="stationary")
    assert found.problem.tied(found.solution.point) is tied


# The estimator.


def blobs(share, kind, seed, n_clusters=3, n=360):
    """Clusters of the same size at the corners of a triangle, and outliers after them."""
    rng = np.random.default_rng(seed)
    centers = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])[:n_clusters]
    y = np.arange(n) % n_clusters
    X = centers[y] + rng.normal(size=(n, 2))
    n_out = round(share * n / (1 - share))
    out = rng.uniform(-200, 200, size=(n_out, 2))
    if kind == "clump":
        out = np.array([300.0, 300.0]) + 0.1 * rng.normal(size=(n_out, 2))
    return np.concatenate([X, out]), y, n_out, centers


def center_error(centers, found):
    return float(np.sqrt(((centers[:, None] - found[None]) ** 2).sum(axis=2)).min(axis=1).max())


@pytest.mark.parametrize("kind", ["far", "clump"])
@pytest.mark.parametrize("share", [0.05, 0.1, 0.2])
def test_clusters_are_found_among_gross_outliers_where_kmeans_fails(kind, share):
    X, y, n_out, centers = blobs(share, kind, seed=1)
    robust = TrimmedKMeans(3, trim=n_out, random_state=0).fit(X)
    plain = KMeans(3, n_init=20, random_state=0).fit(X)
    inliers = robust.labels_[: len(y)]
    assert adjusted_rand_score(y, inliers) > 0.97
    assert center_error(centers, robust.cluster_centers_) < 0.4
    assert (robust.labels_[len(y) :] == -1).mean() > 0.9
    assert adjusted_rand_score(y, plain.labels_[: len(y)]) < 0.7
    assert center_error(centers, plain.cluster_centers_) > 3.0


def brute_force_optimum(X, n_kept, n_clusters):
    best = math.inf
    for rows in combinations(range(len(X)), n_kept):
        for labels in product(range(n_clusters), repeat=n_kept):
            points, labels = X[list(rows)], np.array(labels)
            sse = sum(
                float(((points[labels == k] - points[labels == k].mean(axis=0)) ** 2).sum())
                for k in set(labels.tolist())
            )
            best = min(best, sse)
    return best


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lattice", [False, True])
def test_the_optimum_of_tiny_problems_is_found(seed, lattice):
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, size=(7, 2)) * 1.0 if lattice else rng.standard_t(2, size=(7, 2))
    found = TrimmedKMeans(2, trim=2, n_init=60, random_state=0, stop="stationary")
    found.fit(X)
    assert found.inertia_ == pytest.approx(brute_force_optimum(X, 5, 2), rel=1e-12)
    assert found.certificate_.status is Status.STATIONARY
    for k in range(2):
        members = X[found.labels_ == k]
        np.testing.assert_allclose(found.cluster_centers_[k], members.mean(axis=0), rtol=1e-12)


def assert_same(trimmed, plain):
    assert (trimmed.cluster_centers_ == plain.cluster_centers_).all()
    assert (trimmed.labels_ == plain.labels_).all()
    assert trimmed.inertia_ == plain.inertia_
    assert trimmed.n_iter_ == plain.n_iter_
    for name in ("sse", "gap", "movement", "moved", "empty", "shift"):
        ours, theirs = getattr(trimmed.trace_, name), getattr(plain.trace_, name)
        assert np.array_equal(ours, theirs, equal_nan=True), name


@settings(max_examples=40)
@given(instances(), st.sampled_from(POLICIES))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_without_trimming_the_result_is_that_of_kmeans_bit_for_bit(instance, empty):
    settings = {"init": instance.seeds, "empty": empty, "random_state": 0, "bound": None}
    for X in (instance.X, as_stored(instance.X)):
        plain = KMeans(instance.n_clusters, **settings).fit(X, sample_weight=instance.weights)
        robust = TrimmedKMeans(instance.n_clusters, alpha=0, **settings)
        robust.fit(X, sample_weight=instance.weights)
        assert_same(robust, plain)
        assert robust.radius_ == math.inf
        assert (robust.kept_ == 1).all()
        assert (robust.predict(X) == robust.labels_).all()
        assert robust.score(X, sample_weight=instance.weights) == -robust.inertia_
        ours, theirs = robust.certificate_, plain.certificate_
        assert ours.local_optimality == theirs.local_optimality
        assert ours.clarke_gap == pytest.approx(theirs.clarke_gap, abs=1e-9 * ours.initial_sse)


@pytest.mark.parametrize("init", ["plain-k-means++", "k-means++", "random", "k-means||"])
def test_without_trimming_seeds_are_those_of_kmeans(init):
    X = blobs(0.1, "far", 0)[0]
    plain = KMeans(4, init=init, n_init=3, random_state=5).fit(X)
    assert_same(TrimmedKMeans(4, alpha=0, init=init, n_init=3, random_state=5).fit(X), plain)
    workspace = get_engine("auto").open(X, None, 1).trimmed(math.inf)
    rows = trimmed_rows(workspace, 4, np.random.RandomState(1))
    assert (rows == METHODS["plain-k-means++"](workspace, 4, np.random.RandomState(1))).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_trimmed_seeding_avoids_outliers_and_engines_agree(weighted):
    X, y, _, _ = blobs(0.1, "far", 2)
    weights = np.where(np.arange(len(X)) % 3 == 0, 0.7, 1.1) if weighted else None
    mass = kept_mass(Fraction(3, 20), weights, len(X))
    workspaces = [get_engine(e).open(X, weights, 1).trimmed(mass) for e in ENGINES]
    outliers = {"trimmed": 0, "plain": 0}
    for seed in range(30):
        rows = [trimmed_rows(w, 3, np.random.RandomState(seed)).tolist() for w in workspaces]
        assert all(other == rows[0] for other in rows)
        plain = METHODS["plain-k-means++"](workspaces[-1], 3, np.random.RandomState(seed))
        # The first row is drawn by weight alone.
        outliers["trimmed"] += sum(row >= len(y) for row in rows[0][1:])
        outliers["plain"] += int((plain[1:] >= len(y)).sum())
    assert outliers["trimmed"] < 10 < 50 < outliers["plain"]


def test_engines_fit_the_same_model():
    X, _, _, _ = blobs(0.1, "far", 3)
    weights = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 2.5], size=len(X))
    for sample_weight in (None, weights):
        settings = {"alpha": 0.12, "n_init": 12, "random_state": 0, "tol_scale": "total"}
        stop = "decrease" if sample_weight is None else "shift"
        models = [
            TrimmedKMeans(3, stop=stop, engine=e, n_threads=t, **settings).fit(
                X, sample_weight=sample_weight
            )
            for e in ENGINES
            for t in (1, 3)
        ]
        for other in models[1:]:
            assert_same(other, models[0])
            for name in ("radius_", "kept_", "margins_", "trimmed_mass_", "n_trimmed_"):
                assert np.array_equal(getattr(other, name), getattr(models[0], name)), name


def test_a_weight_of_three_counts_as_three_copies():
    X, _, _, _ = blobs(0.1, "far", 4, n=90)
    weights = np.random.default_rng(1).integers(0, 4, size=len(X)) * 1.0
    copies = np.repeat(X, weights.astype(int), axis=0)
    for amount in ({"alpha": 0.13}, {"trim": 25}):
        settings = {**amount, "n_init": 10, "random_state": 0}
        by_weight = TrimmedKMeans(3, **settings).fit(X, sample_weight=weights)
        by_copies = TrimmedKMeans(3, **settings).fit(copies)
        assert (by_weight.cluster_centers_ == by_copies.cluster_centers_).all()
        assert by_weight.inertia_ == pytest.approx(by_copies.inertia_, rel=1e-12)
        assert by_weight.radius_ == by_copies.radius_
        assert by_weight.trimmed_mass_ == by_copies.n_trimmed_
        kept = np.repeat(by_weight.kept_, weights.astype(int))
        assert kept.sum() == pytest.approx(by_copies.kept_.sum())
        heavy = weights > 0
        without = TrimmedKMeans(3, **settings).fit(X[heavy], sample_weight=weights[heavy])
        assert (without.cluster_centers_ == by_weight.cluster_centers_).all()
        assert (without.labels_ == by_weight.labels_[heavy]).all()


def test_one_point_may_be_kept_in_part():
    X = np.array([[0.0], [1.0], [10.0], [11.0], [50.0]])
    weights = np.array([1.0, 1.0, 1.0, 4.0, 1.0])
    model = TrimmedKMeans(2, trim=2.5, init=[[0.0], [10.0]]).fit(X, sample_weight=2 * weights)
    # Units of 2: the trimmed weight is 2 of 16. Then half of a point, in units of 0.5.
    assert model.trimmed_mass_ == 2.0
    weights[0] = 1.5
    model = TrimmedKMeans(2, trim=2.0, init=[[0.0], [10.6]], tol=0).fit(X, sample_weight=weights)
    assert model.labels_.tolist() == [0, -1, 1, 1, -1]
    model = TrimmedKMeans(2, trim=1.5, init=[[0.0], [10.6]], tol=0).fit(X, sample_weight=weights)
    assert model.labels_.tolist() == [0, 0, 1, 1, -1]
    assert model.kept_.tolist() == [1.0, 1.0, 0.5, 1.0, 0.0]
    assert model.cluster_centers_.tolist() == [[0.4], [(0.5 * 10 + 4 * 11) / 4.5]]
    assert (model.n_trimmed_, model.trimmed_mass_) == (1, 1.5)
    assert "in part" in str(model.certificate_)
    assert model.margins_[2] == 0.0
    assert model.score(X, sample_weight=weights) == -model.inertia_


def test_ties_at_the_threshold_keep_the_lowest_rows_and_predict_keeps_all():
    X = np.array([[-1.0], [1.0], [1.0], [-1.0]])
    model = TrimmedKMeans(1, trim=2, init=[[0.0]]).fit(X)
    assert model.labels_.tolist() == [0, 0, -1, -1]
    assert model.predict(X).tolist() == [0, 0, 0, 0]
    assert model.certificate_.local_optimality == "stationary, with ties"
    assert "threshold" in str(model.certificate_)


def test_one_cluster_is_the_best_window_of_sorted_numbers():
    rng = np.random.default_rng(0)
    x = np.sort(rng.standard_cauchy(size=41))
    model = TrimmedKMeans(1, alpha=0.25, random_state=0, stop="stationary").fit(x.reshape(-1, 1))
    windows = [x[i : i + 31] for i in range(11)]
    assert model.inertia_ == pytest.approx(min(((w - w.mean()) ** 2).sum() for w in windows))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_mass_smaller_than_the_number_of_clusters_leaves_some_empty():
    X = np.arange(10.0).reshape(-1, 1) ** 2
    model = TrimmedKMeans(5, alpha=0.75, random_state=0).fit(X)
    assert model.inertia_ == 0.0
    assert (model.labels_ >= 0).sum() == 3
    assert model.certificate_.empty_clusters == 2
    assert model.certificate_.verdict.endswith("no clustering can be better.")
    with pytest.warns(ConvergenceWarning, match="distinct clusters"):
        TrimmedKMeans(5, alpha=0.75, random_state=0).fit(X)


def test_the_order_of_rows_does_not_matter():
    X, _, _, _ = blobs(0.1, "far", 5)
    model = TrimmedKMeans(3, alpha=0.1, random_state=0).fit(X)
    order = np.random.default_rng(0).permutation(len(X))
    shuffled = TrimmedKMeans(3, alpha=0.1, random_state=0).fit(X[order])
    assert (shuffled.cluster_centers_ == model.cluster_centers_).all()
    assert (shuffled.labels_ == model.labels_[order]).all()


def test_short_runs_on_some_rows_see_the_same_weights_in_any_order(monkeypatch):
    monkeypatch.setattr(two_stages, "_FEW_ROWS", 40)
    monkeypatch.setattr(two_stages, "_ROWS_PER_CLUSTER", 1)
    X = np.repeat(np.arange(30.0)[:, None], 2, axis=0)
    weights = np.tile([1.0, 9.0], 30)
    swapped = np.tile([9.0, 1.0], 30)

    def drawn(w):
        workspace = get_engine("reference").open(X, w, 1)
        rows = two_stages.rows_for_short_runs(workspace, 3, np.random.RandomState(0))
        assert len(rows) == 40
        return sorted(zip(X[rows, 0].tolist(), w[rows].tolist(), strict=True))

    assert drawn(weights) == drawn(swapped)


@pytest.mark.parametrize("exponent", [-520, -3, 5, 500])
def test_powers_of_two_change_nothing_but_the_unit(exponent):
    X, _, _, _ = blobs(0.1, "far", 6)
    model = TrimmedKMeans(3, alpha=0.1, n_init=8, random_state=0).fit(X)
    scaled = TrimmedKMeans(3, alpha=0.1, n_init=8, random_state=0)
    if exponent == -520:
        with pytest.warns(RuntimeWarning, match="are outside the range of float64"):
            scaled.fit(np.ldexp(X, exponent))
    else:
        scaled.fit(np.ldexp(X, exponent))
        assert scaled.inertia_ == math.ldexp(model.inertia_, 2 * exponent)
        assert (scaled.margins_ == np.ldexp(model.margins_, 2 * exponent)).all()
    assert (scaled.labels_ == model.labels_).all()
    assert (scaled.cluster_centers_ == np.ldexp(model.cluster_centers_, exponent)).all()
    assert scaled.radius_ == math.ldexp(model.radius_, exponent)
    assert scaled.certificate_.radius == scaled.radius_
    assert (scaled.predict(np.ldexp(X, exponent)) == model.labels_).all()
    if exponent == -520:
        return
    # Far larger numbers among new data bring all of it to another scale.
    larger = np.concatenate([np.ldexp(X, exponent), np.full((1, 2), 2.0**700)])
    assert (scaled.predict(larger) == [*model.labels_, -1]).all()


def test_an_offset_of_1e8_does_not_unbalance_the_ledger():
    X, _, _, centers = blobs(0.1, "far", 7)
    model = TrimmedKMeans(3, alpha=0.1, random_state=0).fit(X + 1e8)
    assert model.certificate_.status.converged
    assert center_error(centers, model.cluster_centers_ - 1e8) < 0.4


def test_what_fit_says_about_each_point():
    X, _, n_out, _ = blobs(0.1, "far", 8)
    model = TrimmedKMeans(3, trim=n_out, random_state=0).fit(X)
    distances = np.sort(model.transform(X) ** 2, axis=1)
    kept = model.labels_ >= 0
    tau = model.radius_**2
    assert (model.predict(X) == model.labels_).all()
    assert (model.fit_predict(X) == model.labels_).all()
    assert (model.kept_ == kept).all()
    assert (model.n_trimmed_, model.trimmed_mass_) == (n_out, float(n_out))
    assert distances[kept, 0].max() == pytest.approx(tau)
    expected = np.where(
        kept, np.minimum(distances[:, 1], tau) - distances[:, 0], distances[:, 0] - tau
    )
    np.testing.assert_allclose(model.margins_, expected, rtol=1e-9, atol=1e-9)
    assert (model.margins_ >= 0).all()
    assert model.score(X) == -model.inertia_
    assert model.inertia_ == pytest.approx(distances[kept, 0].sum())
    assert model.predict([[1e3, 1e3], model.cluster_centers_[1].tolist()]).tolist() == [-1, 1]
    assert model.labels_.dtype == np.int32
    # A model of fewer clusters scores worse, on half of the data too.
    fewer = TrimmedKMeans(2, trim=n_out, random_state=0).fit(X)
    assert fewer.score(X[::2]) < model.score(X[::2]) < 0


def test_the_certificate_says_what_was_trimmed():
    X, _, n_out, _ = blobs(0.05, "far", 9)
    model = TrimmedKMeans(3, trim=n_out, random_state=0).fit(X)
    certificate = model.certificate_
    assert (certificate.trimmed_points, certificate.trimmed_mass) == (n_out, n_out)
    assert certificate.radius == model.radius_
    assert certificate.local_optimality == "strict local minimum"
    assert 0 < certificate.lower_bound <= certificate.inertia * (1 + 1e-9)
    text = str(certificate)
    assert f"{n_out} points" in text
    assert f"{model.radius_:.6g}" in text
    assert "kept point is strictly closest" in text
    assert json.loads(json.dumps(certificate.to_dict()))["trimmed_points"] == n_out
    plain = str(KMeans(3, random_state=0).fit(X).certificate_)
    assert "trimmed" not in plain
    assert "kept" not in plain


def test_how_much_to_trim_is_said_once():
    X = np.random.default_rng(0).normal(size=(40, 2))
    assert TrimmedKMeans(2, random_state=0).fit(X).n_trimmed_ == 2
    assert TrimmedKMeans(2, alpha=0.3, random_state=0).fit(X).n_trimmed_ == 12
    assert TrimmedKMeans(2, trim=7, random_state=0).fit(X).n_trimmed_ == 7
    for wrong, message in [
        ({"alpha": 0.1, "trim": 3}, "alpha=0.1 and trim=3 both"),
        ({"trim": 2.5}, "must be an integer"),
        ({"trim": 40}, "would trim everything"),
        ({"alpha": 1.0}, "alpha"),
        ({"alpha": -0.1}, "alpha"),
        ({"trim": -1}, "trim"),
    ]:
        with pytest.raises(ValueError, match=message):
            TrimmedKMeans(2, **wrong).fit(X)


def test_every_way_to_start():
    X, y, n_out, _ = blobs(0.1, "clump", 0)
    seen = []

    def own(points, n_clusters, random_state):
        seen.append(points.shape)
        return points[random_state.choice(len(points), n_clusters, replace=False)]

    for init in ("auto", "trimmed-k-means++", "random", own):
        model = TrimmedKMeans(3, trim=n_out, init=init, n_init=20, random_state=0).fit(X)
        assert adjusted_rand_score(y, model.labels_[: len(y)]) > 0.97, init
    # Drawn to the clump, these have a center there in every start.
    for init in ("plain-k-means++", "k-means++", "k-means||"):
        drawn = TrimmedKMeans(3, trim=n_out, init=init, n_init=20, random_state=0).fit(X)
        assert drawn.inertia_ > 2 * model.inertia_, init
    assert seen == [X.shape] * 20
    with pytest.warns(RuntimeWarning, match="performing only one init in TrimmedKMeans"):
        TrimmedKMeans(3, trim=n_out, init=X[:3], n_init=4).fit(X)


@pytest.mark.parametrize("weighted", [False, True])
def test_short_runs_on_some_of_many_points(weighted, monkeypatch):
    monkeypatch.setattr("wolfmeans.fitting.two_stages._FEW_ROWS", 100)
    monkeypatch.setattr("wolfmeans.fitting.two_stages._ROWS_PER_CLUSTER", 40)
    X, y, _, _ = blobs(0.1, "far", 1, n=900)
    weights = np.where(np.arange(len(X)) % 4 == 0, 0.0, 1.5) if weighted else None
    model = TrimmedKMeans(3, alpha=0.1, random_state=0).fit(X, sample_weight=weights)
    kept = np.flatnonzero(model.labels_[: len(y)] >= 0)
    assert len(kept) > 0.97 * len(y)
    assert adjusted_rand_score(y[kept], model.labels_[kept]) > 0.97
    again = TrimmedKMeans(3, alpha=0.1, random_state=0, engine="reference")
    assert_same(again.fit(X, sample_weight=weights), model)
    stored = TrimmedKMeans(3, alpha=0.1, random_state=0).fit(as_stored(X), sample_weight=weights)
    assert_same(stored, model)


def test_limits_callbacks_and_progress(capsys):
    X, _, _, _ = blobs(0.1, "far", 1)
    records = []
    TrimmedKMeans(3, random_state=0, n_init=6, callback=records.append, verbose=1).fit(X)
    assert records
    assert "start 0, iteration 1: inertia" in capsys.readouterr().out
    X = np.random.default_rng(0).normal(size=(300, 3))
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        short = TrimmedKMeans(8, random_state=0, n_init=1, max_iter=1).fit(X)
    assert short.n_iter_ == 1
    with pytest.warns(ConvergenceWarning, match="time limit"):
        TrimmedKMeans(8, random_state=0, time_limit=0.0).fit(X)


@pytest.mark.parametrize("alpha", [0.0, 0.1])
def test_a_model_comes_back_whole(tmp_path, alpha):
    X, _, _, _ = blobs(0.1, "far", 2)
    weights = np.linspace(0, 3, len(X))
    model = TrimmedKMeans(3, alpha=alpha, n_init=4, random_state=0).fit(X, sample_weight=weights)
    model.save(tmp_path / "model.wolf")
    again = wolfmeans.load(tmp_path / "model.wolf")
    assert type(again) is TrimmedKMeans
    assert again.get_params() == model.get_params()
    for name in (n for n in vars(model) if n.endswith("_") or n.startswith("_")):
        assert np.array_equal(getattr(again, name), getattr(model, name)) or name == "trace_", name
    assert (again.predict(X) == model.predict(X)).all()
    assert again.score(X, sample_weight=weights) == -model.inertia_
    assert again.certificate_ == model.certificate_


def test_banknotes_forged_notes_of_another_kind_are_trimmed():
    notes = load_banknotes()
    model = TrimmedKMeans(2, alpha=0.1, random_state=0).fit(notes.data)
    kept = model.labels_ >= 0
    assert adjusted_rand_score(notes.target[kept], model.labels_[kept]) == 1.0
    trimmed = np.flatnonzero(~kept)
    assert len(trimmed) == 20
    assert (notes.target[trimmed] == "1").sum() == 16
    # The forged notes that are known to come from another source (numbers from 1 on).
    known = [111, 116, 138, 148, 160, 161, 162, 167, 168, 171, 180, 182, 187, 192, 194]
    assert len(set(known) & set((trimmed + 1).tolist())) == 12


@parametrize_with_checks([TrimmedKMeans(n_init=6, engine=engine) for engine in ENGINES])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimator_checks(estimator, check):
    check(estimator)


def test_equal_weights_trim_as_many_points_as_none():
    X = np.random.default_rng(0).normal(size=(40, 2))
    for weight in (0.3, 0.1, 0.25):
        km = TrimmedKMeans(2, alpha=0.25, random_state=0).fit(X, sample_weight=np.full(40, weight))
        assert km.n_trimmed_ == 10
        assert km.trimmed_mass_ == pytest.approx(10 * weight)
