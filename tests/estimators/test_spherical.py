"""Spherical K-means: labels, descent, ledger, bounds and the same bits wherever the rows are."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from wolfmeans import (
    CentroidClustering,
    KMeans,
    SphericalKMeans,
    Status,
    TrimmedKMeans,
    TrimmedSphericalKMeans,
    load,
    lower_bound,
)
from wolfmeans.bounds import LowerBound
from wolfmeans.bounds.spherical import spherical_bound
from wolfmeans.core.frank_wolfe import minimize_concave
from wolfmeans.core.spherical import SphericalProblem, turn
from wolfmeans.core.workspace import Assignment
from wolfmeans.engines import get_engine, native
from wolfmeans.exact.directions import (
    norm_error,
    specified_unit_rows,
    unit_rows,
    without_direction,
)
from wolfmeans.exact.native import native_is_available
from wolfmeans.portrait import portrait
from wolfmeans.report import page
from wolfmeans.views.portrait.replay import SAME

ENGINES = ["reference", "cpu"] if native_is_available() else ["reference"]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def problem(seed):
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(20, 200)), int(rng.integers(2, 12)), int(rng.integers(2, 7))
    X = rng.normal(size=(n, d)) * np.exp(3.0 * rng.normal(size=(n, 1)))
    weights = rng.uniform(0.1, 3.0, size=n) if seed % 2 else None
    return X, k, weights


def cosines(X, centers):
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    return X @ (centers / np.linalg.norm(centers, axis=1, keepdims=True)).T


@pytest.mark.parametrize("engine", ENGINES)
def test_labels_are_the_largest_cosines_on_100_problems(engine):
    for seed in range(100):
        X, k, weights = problem(seed)
        km = SphericalKMeans(k, random_state=seed, engine=engine, bound=None)
        km.fit(X, sample_weight=weights)
        found = cosines(X, km.cluster_centers_)
        assert np.array_equal(km.labels_, found.argmax(axis=1))
        assert np.array_equal(km.predict(X), km.labels_)
        w = np.ones(len(X)) if weights is None else weights
        assert km.inertia_ == pytest.approx(w @ (1.0 - found.max(axis=1)), rel=1e-12)
        assert km.inertia_ == -km.score(X, sample_weight=weights)
        assert np.abs(np.linalg.norm(km.cluster_centers_, axis=1) - 1.0).max() < 1e-15


def lloyd(X, w, centers):
    """Plain spherical K-means to the end, in float64."""
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    labels = None
    while True:
        new = (X @ centers.T).argmax(axis=1)
        if labels is not None and np.array_equal(new, labels):
            return labels, float(w @ (1.0 - (X @ centers.T).max(axis=1)))
        labels = new
        for k in range(len(centers)):
            total = (w[labels == k, None] * X[labels == k]).sum(axis=0)
            if total.any():
                centers[k] = total / np.linalg.norm(total)


@pytest.mark.parametrize("seed", range(10))
def test_a_plain_loop_finds_the_same(seed):
    X, k, weights = problem(seed)
    start = X[:k] / np.linalg.norm(X[:k], axis=1, keepdims=True)
    km = SphericalKMeans(k, init=start, stop="stationary", empty="keep", bound=None)
    km.fit(X, sample_weight=weights)
    w = np.ones(len(X)) if weights is None else weights
    labels, inertia = lloyd(X, w, start.copy())
    assert np.array_equal(km.labels_, labels)
    assert km.inertia_ == pytest.approx(inertia, rel=1e-12)


@st.composite
def tables(draw):
    n, d = draw(st.integers(4, 30)), draw(st.integers(1, 4))
    small = st.integers(-3, 3).map(float)
    rows = draw(st.lists(st.lists(small, min_size=d, max_size=d), min_size=n, max_size=n))
    X = np.array(rows)
    X[~X.any(axis=1), 0] = 1.0
    weights = draw(st.one_of(st.none(), st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    if weights is not None and not any(weights):
        weights[0] = 1
    return X, weights, draw(st.integers(1, 4)), draw(st.sampled_from([np.float32, np.float64]))


@settings(max_examples=25, deadline=None)
@given(tables(), st.sampled_from(["farthest", "keep", "best", "admissible"]))
def test_descent_ledger_and_guarantee(table, empty):
    X, weights, k, dtype = table
    X = X.astype(dtype)
    fits = [
        SphericalKMeans(
            k, random_state=0, engine=engine, empty=empty, stop="gap", tol=1e-6, max_iter=None
        ).fit(X, sample_weight=weights)
        for engine in ENGINES
    ]
    for km in fits:
        trace, certificate = km.trace_, km.certificate_
        assert certificate.status.converged
        assert (trace.gap >= 0).all()
        assert (trace.movement >= 0).all()
        falls = trace.sse[:-1] - trace.sse[1:]
        scale = max(trace.sse[0], 1e-300)
        assert np.abs(falls - trace.decrease[:-1]).max(initial=0.0) <= 1e-13 * scale
        assert certificate.max_iterations is None or certificate.iterations <= (
            certificate.max_iterations
        )
        best = np.minimum.accumulate(trace.gap)
        assert (best <= trace.sse[0] / (trace.t + 1.0) + 1e-12 * scale).all()
        assert np.array_equal(km.labels_, km.predict(X))
        assert km.inertia_ == -km.score(X, sample_weight=weights)
        assert certificate.proven_bound <= km.inertia_ * (1 + 1e-9)
    for km in fits[1:]:
        assert np.array_equal(km.cluster_centers_, fits[0].cluster_centers_)
        assert np.array_equal(km.labels_, fits[0].labels_)
        assert (km.inertia_, km.n_iter_) == (fits[0].inertia_, fits[0].n_iter_)
        assert np.array_equal(km.trace_.gap, fits[0].trace_.gap)


def best_inertia(X, w, k):
    """The optimum over all partitions into at most k clusters."""
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    best = math.inf
    for rest in itertools.product(range(k), repeat=len(X) - 1):
        labels = np.array([0, *rest])
        sums = [np.linalg.norm(w[labels == j] @ X[labels == j]) for j in range(k)]
        best = min(best, w.sum() - sum(sums))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_bounds_are_below_the_optimum_of_all_partitions(seed):
    rng = np.random.default_rng(seed)
    n, k = 8, 2 + seed % 2
    X = rng.normal(size=(n, 2 + seed % 3)) + (seed % 4)
    w = rng.uniform(0.5, 2.0, size=n) if seed % 2 else np.ones(n)
    optimum = best_inertia(X, w, k)
    km = SphericalKMeans(k, n_init=5, random_state=0).fit(X, sample_weight=w)
    certificate = km.certify(X, sample_weight=w, seconds=2)
    assert 0 < certificate.lower_bound <= optimum * (1 + 1e-12)
    assert km.inertia_ >= optimum * (1 - 1e-12)
    # The bound of the squared errors alone is half of them; Cauchy and Schwarz give more.
    assert certificate.lower_bound > 0.4 * optimum


@pytest.mark.parametrize("seed", range(12))
def test_the_semidefinite_bound_is_below_the_optimum_and_close(seed):
    rng = np.random.default_rng(100 + seed)
    n, k = 7, 2 + seed % 2
    X = (rng.normal(size=(n, 2 + seed % 3)) + (seed % 4)).astype([np.float64, np.float32][seed % 2])
    w = rng.integers(1, 4, size=n).astype(float) if seed % 3 else np.ones(n)
    optimum = best_inertia(X.astype(np.float64), w, k)
    km = SphericalKMeans(k, n_init=10, random_state=0, bound="semidefinite")
    certificate = km.fit(X, sample_weight=w).certify(X, sample_weight=w, method="semidefinite")
    rounding = 1e-12 if X.dtype == np.float64 else 1e-6
    assert 0.9 * optimum < certificate.lower_bound <= optimum * (1 + rounding)
    # Cauchy and Schwarz over the relaxation give at least half of its bound.
    units = SphericalKMeans(k).fit(X)._rows_to_bound(X)
    squares = lower_bound(units, k, sample_weight=w, method="semidefinite").value
    assert certificate.lower_bound >= 0.5 * squares * (1 - 1e-3)


@settings(max_examples=100, deadline=None)
@given(st.floats(0.0, 1.0), st.floats(1e-3, 1e6), st.sampled_from([0.0, 1e-15, 1e-7]))
def test_the_bound_formula_is_sound_and_rounded_down(share, total, off):
    euclidean = LowerBound(share * total, "spectral", 1.0, 0.0)
    value = spherical_bound(euclidean, total, off).value
    from fractions import Fraction

    exact = Fraction(total) - Fraction(value)
    # W - sqrt(W (W - L)) >= value, as squares of exact numbers
    assert exact >= 0
    assert exact**2 >= Fraction(total) * (Fraction(total) - Fraction(euclidean.value))
    # Half of the smallest numbers cannot be represented: they are rounded down, too.
    assert value >= math.nextafter(euclidean.value / 2, 0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unit_rows_have_one_formula(dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 37)).astype(dtype)
    X[X < 0.5] = 0
    X[7] = 0
    units = unit_rows(X)
    for row, unit in zip(X, units, strict=True):
        total = 0.0
        for x in row.astype(np.float64):
            total = total + x * x
        norm = math.sqrt(total) or 1.0
        assert np.array_equal(unit, (row.astype(np.float64) / norm).astype(dtype))
    assert np.array_equal(unit_rows(X, 2), units)
    assert np.array_equal(unit_rows(sparse.csr_array(X)).toarray(), units)
    assert np.array_equal(np.flatnonzero(without_direction(X)), [7])
    assert np.array_equal(without_direction(sparse.csr_array(X)), without_direction(X))
    norms = np.linalg.norm(np.delete(units, 7, axis=0).astype(np.float64), axis=1)
    assert np.abs(norms - 1.0).max() <= norm_error(dtype, 37)


def test_rows_of_any_size_have_a_direction():
    tiny, huge = 2.0**-700, 2.0**700
    X = np.array([[3 * tiny, 4 * tiny], [3 * huge, 4 * huge], [3.0, 4.0], [1.0, 1e-250]])
    units = unit_rows(X)
    assert np.array_equal(units[:3], [[0.6, 0.8]] * 3)
    assert np.array_equal(units[3], [1.0, 0.0])
    assert np.array_equal(unit_rows(sparse.csr_array(X)).toarray(), units)
    assert SphericalKMeans(2, random_state=0).fit(X).inertia_ == 0.0


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 11),
    st.integers(1, 9),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0, 2, 150, 500]),
    st.sampled_from([np.float32, np.float64]),
)
def test_unit_rows_meet_their_specification(n, d, seed, spread, dtype):
    rng = np.random.default_rng(seed)
    exponents = np.minimum(rng.integers(-spread, spread + 1, size=(n, d)), 1000)
    if dtype is np.float32:
        exponents = exponents.clip(-140, 120)
    X = np.ldexp(rng.normal(size=(n, d)), exponents).astype(dtype)
    X[rng.random(size=(n, d)) < 0.2] = -0.0
    X[rng.random(size=n) < 0.2] = 0.0
    assert unit_rows(X).tobytes() == specified_unit_rows(X).tobytes()
    rows = sparse.csr_array(X)
    assert unit_rows(rows).data.tobytes() == specified_unit_rows(rows).data.tobytes()


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 11),
    st.integers(1, 9),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-300, 1e-9, 1e-3, 1.0]),
    st.sampled_from([np.float32, np.float64]),
    st.integers(1, 3),
)
def test_a_turn_of_centers_meets_its_specification(k, d, seed, length, dtype, n_threads):
    rng = np.random.default_rng(seed)
    centers = unit_rows(rng.normal(size=(k, d)).astype(dtype))
    exact = length * (centers + 1e-4 * rng.normal(size=(k, d)))
    # Centers that are there already, means of 0, and clusters without weight.
    exact[rng.random(k) < 0.2] = 0.0
    there = rng.random(k) < 0.2
    exact[there] = centers[there]
    weights = np.where(rng.random(k) < 0.2, 0.0, rng.uniform(0.1, 9.0, size=k))
    with np.errstate(under="ignore"):
        means = exact.astype(dtype)
    found = Assignment(0, 0.0, weights, means, exact - means + 1e-18 * length)
    expected, turned = turn(found, centers), native.turn(found, centers, n_threads)
    assert turned.centers.tobytes() == expected.centers.tobytes()
    assert turned.residuals.tobytes() == expected.residuals.tobytes()
    assert (turned.shift, turned.movement) == (expected.shift, expected.movement)


@pytest.mark.skipif(len(ENGINES) == 1, reason="the native module was not built")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("stop", ["decrease", "gap", "stationary"])
@pytest.mark.parametrize("empty", ["farthest", "keep"])
def test_several_steps_at_once_are_the_steps_of_the_reference(dtype, stop, empty, monkeypatch):
    rng = np.random.default_rng(21)
    X = rng.normal(size=(3000, 7)).astype(dtype)
    weights = rng.uniform(0.1, 2.0, size=len(X))
    given = {"stop": stop, "empty": empty, "tol": 1e-4, "init": X[:12], "bound": None}
    blocks = []
    several = native.NativePoints.advance

    def watched(points, *arguments):
        progress = several(points, *arguments)
        blocks.append(len(progress.evaluations))
        return progress

    monkeypatch.setattr(native.NativePoints, "advance", watched)
    fused = SphericalKMeans(12, engine="cpu", **given).fit(X, sample_weight=weights)
    slow = SphericalKMeans(12, engine="reference", **given).fit(X, sample_weight=weights)
    assert max(blocks) > 1
    for name in ("t", "sse", "gap", "movement", "moved", "shift", "empty"):
        assert np.array_equal(getattr(fused.trace_, name), getattr(slow.trace_, name)), name
    assert np.array_equal(fused.cluster_centers_, slow.cluster_centers_)
    assert np.array_equal(fused.labels_, slow.labels_)
    assert fused.certificate_.decrease == slow.certificate_.decrease


@pytest.mark.skipif(len(ENGINES) == 1, reason="the native module was not built")
def test_points_and_vertices_after_several_steps_are_those_of_the_reference():
    X = unit_rows(np.random.default_rng(22).normal(size=(900, 5)))
    ends = []
    for engine in ENGINES:
        problem = SphericalProblem(
            get_engine(engine).open(X, None, 1), "keep", lambda: np.random.RandomState(0)
        )
        ends.append(minimize_concave(problem, problem.partition(X[:6]), stop="gap", max_iter=7))
    for name in ("point", "vertex"):
        slow, fused = (getattr(end, name) for end in ends)
        for field in ("centers", "residuals", "weights", "shift", "movement", "gap", "moved"):
            assert np.array_equal(getattr(slow, field), getattr(fused, field)), (name, field)


@pytest.mark.parametrize("engine", ENGINES)
def test_sparse_rows_are_clustered_as_dense_ones(engine):
    rng = np.random.default_rng(1)
    X = rng.poisson(0.5, size=(300, 20)) * rng.uniform(0.5, 2.0, size=(300, 20))
    X[~X.any(axis=1), 0] = 1
    start = X[:5]
    dense = SphericalKMeans(5, init=start, engine=engine).fit(X)
    found = SphericalKMeans(5, init=start, engine=engine).fit(sparse.csr_array(X))
    assert found.inertia_ == pytest.approx(dense.inertia_, rel=1e-12)
    assert np.array_equal(found.predict(X), dense.labels_)


def test_chunks_and_blocks_give_the_same_bits(tmp_path):
    X = np.random.default_rng(2).normal(size=(400_000, 12)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)

    def fitted(data, **more):
        model = SphericalKMeans(4, init=X[:4], max_iter=4, bound=None, **more)
        return model.fit(data)

    whole = fitted(X)
    parts = [X[:150_000], X[150_000:]]
    for km, data in (
        (fitted(tmp_path / "X.npy"), tmp_path / "X.npy"),
        (fitted(tmp_path / "X.npy", memory_limit="18MB"), tmp_path / "X.npy"),
        (fitted(parts), parts),
    ):
        assert np.array_equal(km.cluster_centers_, whole.cluster_centers_)
        assert np.array_equal(np.asarray(km.labels_), whole.labels_)
        assert np.array_equal(np.asarray(km.predict(data)), whole.labels_)
        assert (km.inertia_, km.score(data)) == (whole.inertia_, -whole.inertia_)
        assert np.array_equal(km.trace_.movement, whole.trace_.movement)


def test_dask_blocks_give_the_same_bits():
    da = pytest.importorskip("dask.array")
    X = np.random.default_rng(3).normal(size=(2000, 5))
    whole = SphericalKMeans(4, init=X[:4], stop="stationary", bound=None).fit(X)
    blocks = da.from_array(X, chunks=(700, 5))
    km = SphericalKMeans(4, init=X[:4], stop="stationary", bound=None).fit(blocks)
    assert np.array_equal(km.cluster_centers_, whole.cluster_centers_)
    assert np.array_equal(np.asarray(km.labels_), whole.labels_)
    assert np.array_equal(km.predict(blocks).compute(), whole.labels_)
    assert (km.inertia_, km.score(blocks)) == (whole.inertia_, -whole.inertia_)
    assert 0 < km.certify(blocks, method="neighbours").proven_bound <= km.inertia_
    with pytest.raises(ValueError, match="partition 1 of X has a row of norm 0, its row 50"):
        X[750] = 0
        SphericalKMeans(4).fit(da.from_array(X, chunks=(700, 5)))


def test_rows_of_norm_0_are_refused_or_kept_apart(tmp_path):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3))
    X[[5, 50]] = 0
    with pytest.raises(ValueError, match=r"row 5 of X has norm 0.*2 of 60 rows"):
        SphericalKMeans(3).fit(X)
    km = SphericalKMeans(3, init=X[:3], zero_rows="apart").fit(X)
    assert np.array_equal(np.flatnonzero(km.labels_ == -1), [5, 50])
    assert np.array_equal(km.predict(X), km.labels_)
    others = np.delete(X, [5, 50], axis=0)
    without = SphericalKMeans(3, init=X[:3]).fit(others)
    assert np.array_equal(without.cluster_centers_, km.cluster_centers_)
    assert km.inertia_ == without.inertia_ == -km.score(X)
    assert any("2 rows of norm 0" in note for note in km.certificate_.notes)
    assert 0 < km.certify(X).lower_bound <= km.inertia_
    with pytest.raises(ValueError, match="all rows of X have norm 0"):
        SphericalKMeans(2, zero_rows="apart").fit(np.zeros((4, 2)))
    with pytest.raises(ValueError, match="center 1 of init has norm 0"):
        SphericalKMeans(2, init=[[1, 0], [0, 0]]).fit(others[:, :2])
    np.save(tmp_path / "X.npy", X)
    with pytest.raises(ValueError, match="row 6: the norm is 0"):
        SphericalKMeans(3).fit(tmp_path / "X.npy")


def test_a_mean_of_0_keeps_its_center():
    X = np.array([[1.0, 0.0], [-1.0, 0.0]])
    km = SphericalKMeans(1, init=[[0.0, 1.0]]).fit(X)
    assert np.array_equal(km.cluster_centers_, [[0.0, 1.0]])
    assert km.inertia_ == 2.0
    assert km.certificate_.status is Status.STATIONARY


@pytest.mark.parametrize("engine", ENGINES)
def test_effort_finds_a_lower_inertia(engine):
    rng = np.random.default_rng(3)
    groups = rng.normal(size=(12, 6))
    X = groups[rng.integers(12, size=400)] + 0.1 * rng.normal(size=(400, 6))
    poor = np.repeat(X[:1], 12, axis=0) + 1e-3 * rng.normal(size=(12, 6))
    first = SphericalKMeans(12, init=poor, n_init=1, engine=engine, bound=None).fit(X)
    km = SphericalKMeans(
        12, init=poor, n_init=1, engine=engine, bound=None, effort=2.0, random_state=0
    ).fit(X)
    effort = km.certificate_.effort
    assert km.inertia_ < 0.99 * first.inertia_
    assert (effort.before, effort.after) == (first.inertia_, km.inertia_)
    assert effort.accepted > 0
    assert np.array_equal(km.labels_, cosines(X, km.cluster_centers_).argmax(axis=1))
    assert np.abs(np.linalg.norm(km.cluster_centers_, axis=1) - 1.0).max() < 1e-15
    assert km.certificate_.status.converged
    again = SphericalKMeans(12, init=km.initial_centers_, n_init=1, engine=engine).fit(X)
    assert again.inertia_ == km.inertia_


def test_starts_at_once_and_one_after_the_other_are_the_same():
    X = np.random.default_rng(4).normal(size=(300, 4))
    given = {"n_init": 6, "init": "random", "random_state": 1, "bound": None}
    together = SphericalKMeans(5, **given).fit(X)
    alone = SphericalKMeans(5, callback=lambda record: False, **given).fit(X)
    assert np.array_equal(together.cluster_centers_, alone.cluster_centers_)
    assert together.inertia_ == alone.inertia_
    assert np.array_equal(together.trace_.gap, alone.trace_.gap)


def test_models_are_saved(tmp_path):
    X = np.random.default_rng(5).normal(size=(80, 4))
    km = SphericalKMeans(3, random_state=0).fit(X)
    km.save(tmp_path / "m.wolf")
    again = load(tmp_path / "m.wolf")
    assert type(again) is SphericalKMeans
    assert np.array_equal(again.predict(X), km.labels_)
    assert again.certificate_ == km.certificate_
    assert again.certify(X, seconds=1).proven_bound >= km.certificate_.proven_bound


def test_the_certificate_says_what_is_summed():
    X = np.random.default_rng(6).normal(size=(80, 4))
    assert "sum of cosine distances (1 - cos)" in str(
        SphericalKMeans(3, random_state=0).fit(X).certificate_
    )


def trimmed_lloyd(X, centers, kept):
    """Plain trimmed spherical K-means to the end, in float64."""
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    before = None
    while True:
        cosine = X @ centers.T
        inside = np.argsort(-cosine.max(axis=1), kind="stable")[:kept]
        labels = np.full(len(X), -1)
        labels[inside] = cosine[inside].argmax(axis=1)
        if before is not None and np.array_equal(before, labels):
            return labels, float((1.0 - cosine[inside].max(axis=1)).sum())
        before = labels
        for k in range(len(centers)):
            total = X[labels == k].sum(axis=0)
            if total.any():
                centers[k] = total / np.linalg.norm(total)


@pytest.mark.parametrize("seed", range(6))
def test_trimming_by_a_plain_loop(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 3))
    start = X[:4] / np.linalg.norm(X[:4], axis=1, keepdims=True)
    labels, inertia = trimmed_lloyd(X, start.copy(), kept=108)
    fits = [
        TrimmedSphericalKMeans(
            4, trim=12, init=start, stop="stationary", empty="keep", engine=engine
        ).fit(X)
        for engine in ENGINES
    ]
    for km in fits:
        assert np.array_equal(km.labels_, labels)
        assert km.inertia_ == pytest.approx(inertia, rel=1e-12)
        assert km.inertia_ == -km.score(X) == fits[0].inertia_
        assert np.array_equal(km.predict(X), km.labels_)
        assert np.array_equal(km.cluster_centers_, fits[0].cluster_centers_)
        assert (km.n_trimmed_, int((km.labels_ < 0).sum())) == (12, 12)
        assert 0 < km.certificate_.proven_bound <= km.inertia_
        trace = km.trace_
        assert (trace.gap >= 0).all()
        assert (trace.movement >= 0).all()
        assert trace.sse[:-1] - trace.sse[1:] == pytest.approx(trace.decrease[:-1], abs=1e-11)


def test_trimming_nothing_is_spherical_k_means(tmp_path):
    X = np.random.default_rng(8).normal(size=(200, 4))
    X[3] = 0
    plain = SphericalKMeans(3, init=X[:3], zero_rows="apart").fit(X)
    km = TrimmedSphericalKMeans(3, alpha=0, init=X[:3], zero_rows="apart").fit(X)
    assert np.array_equal(km.cluster_centers_, plain.cluster_centers_)
    assert np.array_equal(km.labels_, plain.labels_)
    assert km.inertia_ == plain.inertia_
    km.save(tmp_path / "m.wolf")
    assert np.array_equal(load(tmp_path / "m.wolf").predict(X), km.labels_)


def test_trimmed_bounds_are_below_the_optimum_of_all_partitions():
    X = np.random.default_rng(9).normal(size=(7, 2))
    optimum = min(best_inertia(np.delete(X, gone, axis=0), np.ones(6), 2) for gone in range(7))
    km = TrimmedSphericalKMeans(2, trim=1, random_state=0).fit(X)
    assert km.inertia_ == pytest.approx(optimum, rel=1e-9)
    assert 0 < km.certify(X, seconds=1).proven_bound <= optimum * (1 + 1e-12)


@pytest.mark.parametrize("kind", [SphericalKMeans, TrimmedSphericalKMeans])
def test_the_page_and_its_replay(kind):
    X = np.random.default_rng(10).normal(size=(150, 4)) * 7.0
    km = kind(3, random_state=0).fit(X)
    shown = portrait(km, X)
    assert sum(cluster.sse for cluster in shown.clusters) == pytest.approx(km.inertia_)
    frames = shown.replay.frames
    assert frames[-1].sse == km.inertia_
    assert shown.replay_note == SAME
    assert "sum of cosine distances (1 - cos)" in page(km, X).html


@pytest.mark.parametrize("kind", [KMeans, SphericalKMeans, TrimmedKMeans, CentroidClustering])
def test_refine_begins_at_the_centers_of_the_model(kind):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(300, 3)) + 4 * rng.integers(3, size=(300, 1))
    later = X[:200] + 0.1
    km = kind(3, random_state=0).fit(X)
    centers = km.cluster_centers_.copy()
    parameters = km.get_params()
    assert km.refine(later) is km
    assert km.get_params() == parameters
    again = kind(3, init=centers, n_init=1).fit(later)
    assert np.array_equal(km.cluster_centers_, again.cluster_centers_)
    assert np.array_equal(km.labels_, again.labels_)
    assert km.inertia_ == again.inertia_ == km.certificate_.inertia
    assert km.certificate_ == again.certificate_
    fitted = km.cluster_centers_.copy()
    with pytest.raises(ValueError, match="NaN"):
        km.refine(np.full((10, 3), np.nan))
    with pytest.raises(ValueError, match=r"features|columns|shape"):
        km.refine(later[:, :2])
    assert np.array_equal(km.cluster_centers_, fitted)
    assert (km.n_features_in_, len(km.predict(later))) == (3, 200)
    assert km.get_params() == parameters
    with pytest.raises(NotFittedError):
        kind(3).refine(X)


def test_refine_refuses_other_columns():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.random.default_rng(12).normal(size=(40, 2)), columns=["a", "b"])
    km = KMeans(2, random_state=0).fit(frame)
    with pytest.raises(ValueError, match="feature names"):
        km.refine(frame.rename(columns={"b": "c"}))
    assert km.refine(frame).feature_names_in_.tolist() == ["a", "b"]


@parametrize_with_checks(
    [
        *(SphericalKMeans(engine=e, zero_rows="apart") for e in ENGINES),
        TrimmedSphericalKMeans(n_init=6, zero_rows="apart"),
    ]
)
def test_estimator_checks(estimator, check):
    check(estimator)
