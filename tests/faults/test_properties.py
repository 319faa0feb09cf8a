"""Properties of any fit, tried by Hypothesis wherever a fit can take place, and what breaks them.

That is on every engine, on blocks of Dask data and on a stream of chunks. Kernels of the gpu engine
take a second a fit in Triton's interpreter: it is shown to have the bits of the reference.

Points are in general position or on lattices, in float32 and float64, with offsets and weights.
Where a property is about equal bits, points are drawn such that all numbers it meets are exact.
"""

import itertools
import math
import os
import warnings
from fractions import Fraction

import numpy as np
import pytest
from broken import fails_when
from engines import ENGINES
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from samples import assert_true, bits, distances, exact_mean, exact_sse, quietly

from everywhere import ALL_POINTS, IN_PARTS, PLACES, fit_at
from instances import Instance, instances
from interpreted import needs_triton
from tiny_optimum import exact, optimum, tiny_problems
from wolfmeans import KMeans, lower_bound
from wolfmeans.core.empty_clusters import POLICIES
from wolfmeans.core.stopping import STOPS

UNIT = 2.0**-53
QUICK = (Phase.explicit, Phase.generate)
DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
# Examples are small enough to be read as they are, and shrinking them takes longer than all else.
EXAMPLES = settings(max_examples=1000) if DEEP else settings(max_examples=60, phases=QUICK)
places = st.sampled_from((*ENGINES, *ENGINES, *IN_PARTS))


def at(place, model, X, weights=None):
    """Fit at a place; data in parts does without what needs all points."""
    if place in IN_PARTS:
        if model.empty in ("best", "resample", "admissible"):
            model.set_params(empty="farthest")
        if isinstance(model.init, str) and model.init in ALL_POINTS:
            model.set_params(init="k-means||")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_at(place, model, X, weights)


def fit(instance, place="auto", **more):
    chosen = {"init": instance.seeds, "stop": "stationary", "bound": None, "random_state": 0}
    return at(place, KMeans(instance.n_clusters, **(chosen | more)), instance.X, instance.weights)


def rounding(instance, scale, steps=1):
    """What computed sums of squares of this size may be off by."""
    return 16 * UNIT * (instance.X.shape[1] + 8) * (steps + 1) * scale + 1e-300


def partitions(instance, steps):
    """Lloyd's algorithm as everybody knows it: yields centers and labels of each partition."""
    X, weights = instance.X, instance.weights
    labels = distances(X, instance.seeds).argmin(axis=1)
    centers = instance.seeds.astype(X.dtype)
    for _ in range(steps):
        centers = centers.copy()
        for k in range(len(centers)):
            rows = labels == k if weights is None else (labels == k) & (weights > 0)
            if rows.any():
                centers[k] = exact_mean(X, weights, np.flatnonzero(rows).tolist())
        yield centers, labels
        labels = distances(X, centers).argmin(axis=1)


def cost(instance, centers, labels):
    own = distances(instance.X, centers)[np.arange(len(labels)), labels]
    weights = np.ones(len(own)) if instance.weights is None else instance.weights
    return math.fsum((weights * own).tolist())


@EXAMPLES
@fails_when("gap_overstated")
@given(instances(max_points=20), places)
def test_the_ledger_balances_at_every_step(instance, place):
    trace = fit(instance, place, empty="keep", max_iter=8).trace_
    slack = rounding(instance, float(trace.sse[0]), len(trace))
    truth = [cost(instance, *one) for one in partitions(instance, len(trace))]
    np.testing.assert_allclose(trace.sse, truth, rtol=0, atol=slack)
    np.testing.assert_allclose(
        trace.sse[:-1] - trace.sse[1:], trace.decrease[:-1], rtol=0, atol=slack
    )


@EXAMPLES
@fails_when("sse_rises")
@given(instances(), places, st.sampled_from(POLICIES))
def test_every_step_descends_by_at_least_its_gap(instance, place, empty):
    model = fit(instance, place, empty=empty)
    trace = model.trace_
    slack = rounding(instance, float(trace.sse[0]), len(trace))
    assert (trace.gap >= 0).all()
    assert (trace.movement >= -slack).all()
    assert (np.diff(trace.sse) <= slack).all()
    assert (trace.sse[:-1] - trace.sse[1:] >= trace.gap[:-1] - slack).all()
    assert model.inertia_ <= trace.sse[-1] + slack
    best = np.minimum.accumulate(trace.gap)
    assert (best <= trace.rate_bound + slack).all()


@EXAMPLES
@fails_when("row_order_matters")
@given(
    instances(max_points=20),
    places,
    st.sampled_from(["k-means++", "plain-k-means++", "k-means||", "random", "given"]),
    st.integers(0, 2**32 - 1),
)
def test_permuting_the_points_permutes_the_labels(instance, place, init, seed):
    order = np.random.default_rng(seed).permutation(len(instance.X))
    weights = instance.weights
    made = instance.seeds if init == "given" else init
    model = KMeans(instance.n_clusters, init=made, n_init=1, random_state=1)
    model.set_params(bound=None)
    at(place, model, instance.X, weights)
    centers, labels, inertia = model.cluster_centers_.copy(), model.labels_, model.inertia_
    at(place, model, instance.X[order], None if weights is None else weights[order])
    # Centers that nobody uses have a test of their own.
    used = sorted(set(labels.tolist()))
    assert model.cluster_centers_[used].tolist() == centers[used].tolist()
    assert model.labels_.tolist() == labels[order].tolist()
    assert model.inertia_ == inertia


@fails_when("row_order_matters", init="plain-k-means++")
@pytest.mark.parametrize("init", ["k-means++", "plain-k-means++", "k-means||", "random"])
def test_permuting_the_points_changes_no_center_that_nobody_uses(init):
    for seed in (456, 537):
        rng = np.random.default_rng(seed)
        X = np.repeat(rng.integers(-2, 3, size=(2, 1)), 2, axis=0) * 1.0
        for order in itertools.permutations(range(4)):
            here, there = (
                quietly(KMeans(4, init=init, random_state=1, n_init=1), given)
                for given in (X, X[list(order)])
            )
            assert there.initial_centers_.tolist() == here.initial_centers_.tolist()


@st.composite
def exact_points(draw, most=8):
    """Whole numbers whose means over any cluster are whole: everything is computed exactly."""
    n, d = draw(st.integers(1, most)), draw(st.integers(1, 3))
    cells = st.lists(st.integers(-3, 3), min_size=n * d, max_size=n * d)
    X = np.array(draw(cells), dtype=np.float64).reshape(n, d) * math.lcm(*range(1, most + 1))
    k = draw(st.integers(1, n))
    seeds = X[draw(st.lists(st.integers(0, n - 1), min_size=k, max_size=k))]
    return X, seeds


@EXAMPLES
@fails_when("sums_in_float32")
@given(exact_points(), places, st.sampled_from([2**40, -(2**31), 12345]))
def test_translation_moves_the_centers_and_nothing_else(points, place, offset):
    X, seeds = points
    models = [
        at(
            place,
            KMeans(len(seeds), init=seeds + by, empty="keep", bound=None, tol=0.0),
            X + by,
        )
        for by in (0, offset)
    ]
    here, there = models
    assert there.labels_.tolist() == here.labels_.tolist()
    assert (there.cluster_centers_ - offset).tolist() == here.cluster_centers_.tolist()
    assert there.inertia_ == here.inertia_
    assert there.trace_.gap.tolist() == here.trace_.gap.tolist()


@EXAMPLES
@fails_when("numbers_not_rescaled", raises=(ValueError, OverflowError, ZeroDivisionError))
@given(instances(), places, st.sampled_from([-700, -500, -30, -1, 1, 30, 490]))
def test_powers_of_two_change_the_scale_and_nothing_else(instance, place, exponent):
    X, seeds = instance.X.astype(np.float64), instance.seeds.astype(np.float64)
    if abs(exponent) > 100:
        seeds = np.clip(seeds, X.min(), X.max())  # far seeds have a test of their own
    weights = instance.weights

    def fitted(by):
        model = KMeans(len(seeds), init=np.ldexp(seeds, by), bound=None, stop="stationary")
        return at(place, model, np.ldexp(X, by), weights)

    here, there = fitted(0), fitted(exponent)
    assert there.labels_.tolist() == here.labels_.tolist()
    assert there.n_iter_ == here.n_iter_
    assert np.ldexp(there.cluster_centers_, -exponent).tolist() == here.cluster_centers_.tolist()
    unit = there.certificate_.unit_exponent - 2 * exponent
    mantissa, power = math.frexp(there.certificate_.inertia)
    assert (mantissa, power + unit if mantissa else 0) == math.frexp(here.certificate_.inertia)


@fails_when("numbers_not_rescaled")
def test_far_seeds_are_as_good_at_every_scale():
    X, seeds = np.array([[0.125], [0.25], [0.5]]), np.array([[0.125], [1000.0]])
    here = quietly(KMeans(2, init=seeds, bound=None), X)
    there = quietly(KMeans(2, init=np.ldexp(seeds, -700), bound=None), np.ldexp(X, -700))
    assert there.labels_.tolist() == here.labels_.tolist()


@EXAMPLES
@fails_when("weights_of_zero_count")
@fails_when("sums_in_float32")
@given(instances(max_points=15), places, st.data())
def test_whole_weights_are_copies(instance, place, data):
    n = len(instance.X)
    weights = data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n).filter(any))
    copies = np.repeat(instance.X, weights, axis=0)
    k = min(instance.n_clusters, len(copies))
    chosen = {"init": instance.seeds[:k], "stop": "stationary", "bound": None}
    weighted = at(place, KMeans(k, **chosen), instance.X, np.array(weights, dtype=float))
    copied = at(place, KMeans(k, **chosen), copies)
    assert weighted.cluster_centers_.tolist() == copied.cluster_centers_.tolist()
    assert np.repeat(weighted.labels_, weights).tolist() == copied.labels_.tolist()
    # A product of a weight and a distance is rounded, a sum of copies is not.
    assert weighted.inertia_ == pytest.approx(copied.inertia_, rel=2 * UNIT, abs=0)
    if all(weights):
        # Points of weight 0 have labels, too, and these may take another step to settle.
        assert weighted.n_iter_ == copied.n_iter_


@EXAMPLES
@fails_when("sums_in_float32")
@given(exact_points(), places)
def test_a_far_copy_of_all_points_is_clustered_as_the_original(points, place):
    X, seeds = points
    far = np.zeros(X.shape[1])
    far[0] = 2.0**40
    chosen = {"empty": "keep", "bound": None, "stop": "stationary"}
    one = at(place, KMeans(len(seeds), init=seeds, **chosen), X)
    both = KMeans(2 * len(seeds), init=np.vstack([seeds, seeds + far]), **chosen)
    at(place, both, np.vstack([X, X + far]))
    assert both.labels_.tolist() == [*one.labels_.tolist(), *(one.labels_ + len(seeds)).tolist()]
    expected = np.vstack([one.cluster_centers_, one.cluster_centers_ + far])
    assert both.cluster_centers_.tolist() == expected.tolist()
    assert both.inertia_ == 2 * one.inertia_


@EXAMPLES
@fails_when("labels_one_step_behind")
@fails_when("inertia_of_the_ledger")
@given(
    instances(),
    places,
    st.sampled_from(POLICIES),
    st.sampled_from(STOPS),
    st.sampled_from([1, 2, 50, None]),
)
def test_predict_gives_the_labels_and_score_minus_the_inertia(
    instance, place, empty, stop, max_iter
):
    model = fit(instance, place, empty=empty, stop=stop, max_iter=max_iter)
    assert model.predict(instance.X).tolist() == model.labels_.tolist()
    assert model.score(instance.X, sample_weight=instance.weights) == -model.inertia_
    assert_true(model, instance.X, instance.weights)


# The point 0 is as far from both means, and stays where it is.
A_TIE = Instance(np.array([[-2.0], [0.0], [1.0]]), None, np.array([[-1.0], [1.0]]))


def _margins(X, weights, labels):
    """How much farther the second nearest exact mean is, at least; None where one is alone."""
    means = []
    for k in sorted(set(labels.tolist())):
        rows = np.flatnonzero(labels == k)
        ws = [Fraction(1) if weights is None else Fraction(float(weights[i])) for i in rows]
        means.append(
            [
                sum(w * Fraction(float(X[i, j])) for w, i in zip(ws, rows, strict=True)) / sum(ws)
                for j in range(X.shape[1])
            ]
        )
    if len(means) < 2:
        return None
    margins = []
    for i, row in enumerate(X):
        if weights is None or weights[i] > 0:
            x = [Fraction(float(value)) for value in row]
            far = sorted(sum((a - b) ** 2 for a, b in zip(x, mean, strict=True)) for mean in means)
            margins.append(far[1] - far[0])
    return min(margins)


@EXAMPLES
@fails_when("gap_overstated")
@fails_when("converged_whatever_happened")
@fails_when("strictness_claimed")
@example(A_TIE, "reference", "stationary", 0.0, 30)
@given(
    instances(max_points=12),
    places,
    st.sampled_from(["decrease", "gap", "stationary"]),
    st.sampled_from([0.0, 1e-3, 0.1]),
    st.sampled_from([1, 2, 30]),
)
def test_the_certificate_is_never_better_than_the_recomputed_truth(
    instance, place, stop, tol, max_iter
):
    model = fit(instance, place, stop=stop, tol=tol, max_iter=max_iter, empty="keep")
    certificate, X, weights = model.certificate_, instance.X, instance.weights
    slack = rounding(instance, certificate.initial_sse, len(model.trace_))
    # The partition whose means were returned, the step that is left, and what that gains.
    run = list(partitions(instance, len(model.trace_) + 1))
    (centers, before), (means, after) = run[-2:]
    assert model.cluster_centers_.tolist() == centers.tolist()
    assert model.labels_.tolist() == after.tolist()
    here, there = cost(instance, centers, before), cost(instance, centers, after)
    gap, movement = here - there, there - cost(instance, means, after)
    assert abs(certificate.gap - gap) <= slack
    assert abs(certificate.movement - movement) <= slack
    assert certificate.inertia == there
    if certificate.status.name == "DECREASE":
        assert gap + movement <= certificate.tol + slack
    if certificate.status.name == "GAP":
        assert gap <= certificate.tol + slack
    if certificate.status.name == "STATIONARY":
        assert before.tolist() == after.tolist()
    if certificate.status.name == "MAX_ITER":
        assert len(model.trace_) == max_iter
    if certificate.local_optimality == "strict local minimum":
        assert before.tolist() == after.tolist()
        margin = _margins(X, weights, after if weights is None else np.where(weights > 0, after, 0))
        heavy = after if weights is None else after[weights > 0]
        assert len(set(heavy.tolist())) == instance.n_clusters
        assert margin is None or margin > 0


@fails_when("bounds_too_high", place="cpu")
@pytest.mark.parametrize("place", PLACES)
def test_the_bound_of_a_certificate_is_below_the_optimum(place):
    for points, weights, k in tiny_problems(20 if place in IN_PARTS else 60, seed=5):
        k = min(k, len(points))
        X, given_weights = points.astype(np.float64), weights.astype(np.float64)
        model = at(place, KMeans(k, random_state=0), X, given_weights)
        best = optimum(*exact(points, weights), k)
        assert Fraction(model.certificate_.proven_bound) <= best
        assert model.inertia_ >= float(best) * (1 - 1e-12)


@EXAMPLES
@fails_when("bounds_too_high")
@given(
    instances(max_points=14, max_features=3, max_clusters=4),
    st.sampled_from(["auto", "spectral", "neighbours", "prices"]),
)
def test_a_lower_bound_is_below_any_sum_of_squares_that_was_reached(instance, method):
    X, weights, k = instance.X, instance.weights, instance.n_clusters
    bound = lower_bound(X, k, sample_weight=weights, method=method)
    reached = [
        exact_sse(X, weights, fit(instance, init=init, empty="farthest").labels_)
        for init in (instance.seeds, "k-means++", "random")
    ]
    # A run from every choice of points as seeds, where there are few.
    rows = np.random.default_rng(0).integers(0, len(X), size=(5, k))
    reached += [exact_sse(X, weights, fit(instance, init=X[some]).labels_) for some in rows]
    assert Fraction(bound.value) <= min(reached)


@pytest.mark.long
@needs_triton
@fails_when("engines_change_the_result")
@settings(EXAMPLES, max_examples=200 if DEEP else 4)
@given(
    instances(max_points=10, max_features=3, max_clusters=3),
    st.sampled_from(["keep", "farthest"]),
    st.sampled_from(STOPS),
)
def test_the_gpu_engine_has_the_bits_of_the_reference_and_so_its_properties(instance, empty, stop):
    here, there = (
        fit(instance, place, empty=empty, stop=stop, max_iter=3) for place in ("reference", "gpu")
    )
    assert there.engine_ == "gpu"
    assert bits(here) == bits(there)
    assert_true(there, instance.X, instance.weights)
