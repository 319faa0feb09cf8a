"""K-means on the loop: the same iterates as the paper's algorithm, and a ledger that balances."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dense_kmeans import DenseKMeans, algorithm_2, smooth_sse, squared_distances
from instances import ENGINES, instances
from wolfmeans.core.empty_clusters import POLICIES
from wolfmeans.core.frank_wolfe import State, minimize_concave
from wolfmeans.core.kmeans import KMeansProblem, Partition
from wolfmeans.core.solution import Status
from wolfmeans.core.stopping import STOPS, TOLERANCE_SCALES, StationaryRule
from wolfmeans.engines import get_engine
from wolfmeans.fitting.fit import Start, run

UNIT = 2.0**-53


def problem_on(instance, empty="keep", engine="reference"):
    return KMeansProblem(instance.open(engine), empty, lambda: np.random.RandomState(0))


def fit(instance, *, stop="decrease", tol=1e-6, tol_scale="initial", empty="keep", **limits):
    limits = {"max_steps": 200, "time_limit": None, "callback": None, **limits}
    start = Start(instance.open(), instance.seeds, lambda: np.random.RandomState(0))
    return run(start, stop=stop, tol=tol, tol_scale=tol_scale, empty=empty, **limits)


def _open(X, weights=None):
    return get_engine("reference").open(X, weights, 1)


def rounding(instance, scale, steps=1):
    """What the computed sums of squares of this size may be off by."""
    return 16 * UNIT * (instance.X.shape[1] + 8) * (steps + 1) * scale


@given(instances())
def test_iterates_are_those_of_algorithm_2(instance):
    weights = np.ones(len(instance.X)) if instance.weights is None else instance.weights
    problem = problem_on(instance)
    state = State(problem.partition(instance.seeds), 0.0, 0.0)
    for clusters, mu in algorithm_2(instance.X, weights, instance.seeds, steps=5):
        labels = problem.workspace.labels()
        assert [np.flatnonzero(labels == k).tolist() for k in range(len(mu))] == clusters
        assert (state.point.centers == mu).all()
        problem.evaluate(state)
        state.take_step()


@given(instances())
def test_the_generic_route_takes_the_same_steps(instance):
    dense = DenseKMeans(instance.X, instance.weights)
    generic = minimize_concave(
        dense, dense.start(instance.seeds), stop=StationaryRule(), max_iter=6
    )
    problem = problem_on(instance)
    fused = minimize_concave(
        problem, problem.partition(instance.seeds), stop=StationaryRule(), max_iter=6
    )
    steps = min(len(generic.trace), len(fused.trace))
    slack = rounding(instance, fused.trace[0].value, steps)
    np.testing.assert_allclose(generic.trace.sse[:steps], fused.trace.sse[:steps], 1e-9, slack)
    np.testing.assert_allclose(generic.trace.gap[:steps], fused.trace.gap[:steps], 1e-9, slack)
    if len(generic.trace) == len(fused.trace):
        assert (generic.point.centers == fused.point.centers).all()


@given(
    instances(),
    st.sampled_from(STOPS),
    st.sampled_from(TOLERANCE_SCALES),
    st.sampled_from(POLICIES),
    st.sampled_from([0.0, 1e-6, 0.05]),
)
def test_ledger_descent_rate_and_guarantee(instance, stop, tol_scale, empty, tol):
    found = fit(instance, stop=stop, tol=tol, tol_scale=tol_scale, empty=empty)
    trace, solution = found.solution.trace, found.solution
    assert solution.status not in (Status.DESCENT_VIOLATED, Status.REPEATED_STATE)

    assert (trace.gap >= 0).all()
    assert (trace.movement >= 0).all()
    slack = rounding(instance, found.initial_sse, len(trace))
    # h_0 with the best value the run itself has found; the true optimum can only be lower.
    h_0 = found.initial_sse - (found.inertia - slack)
    running = np.minimum.accumulate(trace.gap)
    assert (running <= (h_0 + slack) / (trace.t + 1)).all()
    running = np.minimum.accumulate(trace.decrease)
    # The last evaluated step is not taken, but its decrease is available all the same.
    assert (running <= (found.initial_sse + slack) / (trace.t + 1)).all()
    if solution.max_iterations is not None:
        assert solution.iterations <= solution.max_iterations


@given(instances(), st.sampled_from(POLICIES))
def test_the_ledger_equals_f_recomputed_from_the_labels_at_every_partition(instance, empty):
    problem = problem_on(instance, empty)
    state = State(problem.partition(instance.seeds), 0.0, 0.0)
    state.value = problem.value(state.point)
    first = state.value
    for t in range(8):
        problem.evaluate(state)
        # The workspace now holds the labels of the vertex, whose centers are its means.
        direct = problem.workspace.cost(state.vertex.centers)
        assert state.vertex_value == pytest.approx(direct, abs=rounding(instance, first, t + 1))
        state.take_step()


def test_a_ledger_that_does_not_balance_is_reported():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    problem = KMeansProblem(_open(X), "keep", lambda: np.random.RandomState(0))
    solution = minimize_concave(problem, problem.partition(X[:4].copy()), stop="stationary")
    inertia = problem.workspace.cost(solution.point.centers)
    assert problem.audit(solution, inertia).status is Status.STATIONARY
    for fault in (1 + 1e-9, 1 - 1e-9):
        wrong = replace(solution, value=solution.value * fault)
        assert problem.audit(wrong, inertia).status is Status.DESCENT_VIOLATED


def partition_at(centers, residuals):
    centers, residuals = np.array(centers), np.array(residuals)
    ones = np.ones(len(centers))
    return Partition(centers, residuals, ones, shift=0.0, movement=0.0, gap=0.0, moved=0)


@pytest.mark.parametrize(
    ("x", "residual", "tied"),
    [
        (0.5, 0.0, True),
        (0.5001, 0.0, False),
        # The two squares differ, but by no more than the rounding of a canonical distance.
        (np.nextafter(0.5, 1.0), 0.0, True),
        # A center that is 1e-3 off its mean cannot vouch for a margin of 2e-4.
        (0.5001, 1e-3, True),
        (0.51, 1e-3, False),
    ],
)
def test_a_tie_is_what_rounding_cannot_tell_apart(x, residual, tied):
    problem = KMeansProblem(_open(np.array([[x]])), "keep", lambda: np.random.RandomState(0))
    assert problem.tied(partition_at([[0.0], [1.0]], [[residual], [0.0]])) is tied


@given(instances(), st.sampled_from(POLICIES))
def test_the_returned_numbers_are_true_at_the_returned_point(instance, empty):
    found = fit(instance, empty=empty, tol=0.02)
    distances = squared_distances(instance.X, found.centers)
    assert (found.labels == distances.argmin(axis=1)).all()
    weights = np.ones(len(instance.X)) if instance.weights is None else instance.weights
    assert found.inertia == math.fsum((weights * distances.min(axis=1)).tolist())
    assert found.solution.value == found.inertia + found.solution.gap
    if found.solution.status in (Status.DECREASE, Status.GAP):
        assert found.solution.gap <= found.rule.tol


@given(instances(), st.sampled_from(["resample", "farthest", "best", "admissible"]))
def test_no_cluster_stays_empty_when_there_are_enough_points(instance, empty):
    for max_steps in (0, 1, 200):
        found = fit(instance, empty=empty, max_steps=max_steps)
        weights = np.ones(len(instance.X)) if instance.weights is None else instance.weights
        filled = len(np.unique(found.labels[weights > 0]))
        assert filled == min(instance.n_clusters, instance.distinct_heavy_points())


@given(instances())
def test_engines_run_the_same_fit(instance):
    for empty in ("farthest", "admissible"):
        fits = []
        for engine in ENGINES:
            start = Start(instance.open(engine), instance.seeds, lambda: np.random.RandomState(0))
            fits.append(
                run(
                    start,
                    stop="decrease",
                    tol=1e-6,
                    tol_scale="total",
                    empty=empty,
                    max_steps=50,
                    time_limit=None,
                    callback=None,
                )
            )
        for other in fits[1:]:
            assert (other.centers == fits[0].centers).all()
            assert (other.labels == fits[0].labels).all()
            assert (other.solution.trace.gap == fits[0].solution.trace.gap).all()
            assert (other.solution.trace.movement == fits[0].solution.trace.movement).all()


def test_movement_is_not_negative_when_means_fall_between_float32_numbers():
    # Rows 1, 1, 2 + 2^-22, 2^-52 have a mean that float64 rounds onto a float32 midpoint.
    X = np.array([[1.0], [1.0], [2.0 + 2.0**-22], [2.0**-52]], dtype=np.float32)
    instance_problem = KMeansProblem(_open(X), "keep", lambda: np.random.RandomState(0))
    seeds = np.array([[np.float32(1.0) + np.float32(2.0**-23)]], dtype=np.float32)
    assert instance_problem.partition(seeds).movement >= 0


def test_offset_of_1e12_does_not_unbalance_the_ledger():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(200, 3)) + 1e12
    start = Start(_open(X), X[:4].copy(), lambda: np.random.RandomState(0))
    found = run(
        start,
        stop="stationary",
        tol=0.0,
        tol_scale="initial",
        empty="farthest",
        max_steps=100,
        time_limit=None,
        callback=None,
    )
    trace = found.solution.trace
    assert found.solution.status is Status.STATIONARY
    assert len(trace) > 3
    ledger = trace[0].value - math.fsum(trace.decrease[:-1])
    assert ledger == pytest.approx(found.inertia, rel=1e-12)


def test_ties_can_have_no_gap_and_yet_movement():
    # {0}, {1, 3} has means 0 and 2: 1 is as near to both and goes to the lower index at no gain,
    # after which the means 0.5 and 3 are better by 1.5.
    X = np.array([[0.0], [1.0], [3.0]])
    problem = KMeansProblem(_open(X), "keep", lambda: np.random.RandomState(0))
    start = problem.partition(np.array([[0.0], [1.5]]))
    assert start.centers.ravel().tolist() == [0.0, 2.0]
    record = problem.evaluate(State(start, start.sse, 0.0))
    assert (record.gap, record.movement, record.moved) == (0.0, 1.5, 1)
    assert not record.stationary


# The mathematics of f itself, in the interior of the polytope.


def interior_point(seed, n=7, d=2, k=3):
    rng = np.random.default_rng(seed)
    w = rng.dirichlet(np.ones(k), size=n)
    return w, rng.normal(size=(n, d)), rng


@pytest.mark.parametrize("seed", range(5))
def test_gradient_is_the_squared_distance_to_the_mean(seed):
    w, X, rng = interior_point(seed)
    means = (w.T @ X) / w.sum(axis=0)[:, None]
    gradient = squared_distances(X, means)
    direction = rng.normal(size=w.shape)
    h = 1e-6
    numeric = (smooth_sse(w + h * direction, X) - smooth_sse(w - h * direction, X)) / (2 * h)
    assert numeric == pytest.approx(float(np.sum(gradient * direction)), rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_hessian_form_is_minus_twice_the_weighted_squared_norms(seed):
    w, X, rng = interior_point(seed)
    mass = w.sum(axis=0)
    means = (w.T @ X) / mass[:, None]
    direction = rng.normal(size=w.shape)
    pulled = np.einsum("ik,ikd->kd", direction, X[:, None, :] - means[None])
    form = -2.0 * float(np.sum((pulled**2).sum(axis=1) / mass))
    h = 1e-4
    centre = smooth_sse(w, X)
    ahead, behind = smooth_sse(w + h * direction, X), smooth_sse(w - h * direction, X)
    numeric = (ahead - 2 * centre + behind) / h**2
    assert form <= 0
    assert numeric == pytest.approx(form, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("seed", range(10))
def test_the_unit_step_minimizes_f_along_the_segment(seed):
    w, X, _ = interior_point(seed)
    means = (w.T @ X) / w.sum(axis=0)[:, None]
    vertex = np.zeros_like(w)
    vertex[np.arange(len(X)), squared_distances(X, means).argmin(axis=1)] = 1.0
    # An empty column would divide by zero at the end of the segment; f counts it as 0 there.
    keep = vertex.sum(axis=0) > 0
    along = [smooth_sse((1 - s) * w + s * vertex, X) for s in np.linspace(0, 1, 50)[:-1]]
    end = smooth_sse(vertex[:, keep], X)
    assert end <= min(along) + 1e-12
