"""Geometry that breaks K-means elsewhere: no differences, ties, offsets, extreme scales."""

import warnings

import numpy as np
import pytest
from broken import fails_when
from engines import ALL_ENGINES, ENGINES
from samples import assert_true, blobs, cloud, quietly, same_partition

from wolfmeans import KMeans, TrimmedKMeans


def model(engine, k, **more):
    settings = {"stop": "stationary", "bound": None, "random_state": 0, **more}
    return KMeans(k, engine=engine, **settings)


@fails_when("sums_in_float32", engine="cpu")
@fails_when("sums_in_float32", engine="reference")
@pytest.mark.parametrize("engine", ALL_ENGINES)
def test_one_cluster_is_the_mean(engine):
    X = cloud(30, 3) + 1e6
    fitted = model(engine, 1).fit(X)
    assert fitted.certificate_.status.name == "STATIONARY"
    assert_true(fitted, X)


@fails_when("empty_clusters_left_alone", engine="cpu", init="one point")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "init", ["k-means++", "plain-k-means++", "k-means||", "random", "one point"]
)
def test_as_many_clusters_as_points_leave_nothing(engine, init):
    X = cloud(25, 2)
    given = np.repeat(X[:1], 25, axis=0) if init == "one point" else init
    fitted = model(engine, 25, init=given, n_init=1).fit(X)
    assert fitted.inertia_ == 0.0
    assert sorted(fitted.labels_.tolist()) == list(range(25))
    assert_true(fitted, X)


@fails_when("centers_of_empty_clusters_are_nan", raises=ValueError, engine="cpu", k=3)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("k", [1, 3, 20])
def test_points_that_are_all_equal_are_one_cluster(engine, k):
    X = np.full((20, 3), 0.1) * [1, 1e9, -1]
    fitted = quietly(model(engine, k), X)
    assert fitted.inertia_ == 0.0
    assert np.isfinite(fitted.cluster_centers_).all()
    assert len(set(fitted.labels_.tolist())) == 1
    assert fitted.certificate_.status.converged
    assert_true(fitted, X)


@fails_when("warnings_swallowed", engine="cpu", init="random")
@fails_when("centers_of_empty_clusters_are_nan", raises=ValueError, engine="cpu", init="random")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("init", ["k-means++", "k-means||", "random"])
def test_fewer_distinct_points_than_clusters_are_told(engine, init):
    X = np.repeat([[0.0, 1.0], [2.0, 5.0], [2.0, 5.1]], 7, axis=0)
    fitted = model(engine, 6, init=init)
    with pytest.warns(UserWarning, match=r"distinct clusters \(3\)"):
        fitted.fit(X)
    assert fitted.inertia_ == 0.0
    assert len(set(fitted.labels_.tolist())) == 3
    assert fitted.certificate_.empty_clusters == 3
    assert_true(fitted, X)


@fails_when("ties_to_the_highest", engine="cpu")
@fails_when("ties_to_the_highest", engine="reference")
@pytest.mark.parametrize("engine", ALL_ENGINES)
def test_exact_ties_go_to_the_lowest_index(engine):
    # Points of weight 0 move no center, so that the ties stay ties.
    X = np.array([[-2.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, -7.0]])
    weights = np.array([1.0, 1.0, 0.0, 0.0])
    for init in (X[:2], X[1::-1]):
        fitted = model(engine, 2, init=init).fit(X, sample_weight=weights)
        assert fitted.labels_.tolist()[2:] == [0, 0]
        assert_true(fitted, X, weights)


@fails_when("ties_to_the_highest", engine="cpu", d=2)
@fails_when("ties_to_the_highest", engine="reference", d=3)
@fails_when("labels_one_step_behind", engine="cpu", d=1)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("d", [1, 2, 3, 9])
def test_lattices_are_clustered_as_their_ties_say(engine, d):
    for seed in range(6):
        X = np.random.default_rng(seed).integers(-2, 3, size=(80, d)) * 1.0
        init = np.unique(X, axis=0)
        init = init[:: max(1, len(init) // 4)][:4]
        for max_iter in (1, 2, 50):
            assert_true(quietly(model(engine, len(init), init=init, max_iter=max_iter), X), X)
        # Only the centers themselves weigh anything: each lattice point keeps its ties.
        whole = np.vstack([init, X])
        weights = np.append(np.ones(len(init)), np.zeros(len(X)))
        assert_true(
            model(engine, len(init), init=init).fit(whole, sample_weight=weights), whole, weights
        )


@fails_when("distances_by_expansion", engine="cpu")
@fails_when("sums_in_float32", engine="reference")
@pytest.mark.parametrize("engine", ALL_ENGINES)
def test_an_offset_of_1e8_in_float32(engine):
    # Multiples of 8, the spacing of float32 at 1e8, so that the shift itself loses nothing.
    X, truth = blobs(30)
    X = 8.0 * np.rint(10 * X)
    shifted = (X + 1e8).astype(np.float32)
    assert np.array_equal(shifted.astype(np.float64) - 1e8, X)
    fitted = model(engine, 3, init=shifted[::10]).fit(shifted)
    assert same_partition(fitted.labels_, truth)
    assert_true(fitted, shifted)


@fails_when(
    "numbers_not_rescaled", raises=(ValueError, OverflowError), engine="reference", scale=1e200
)
@fails_when("numbers_not_rescaled", engine="reference", scale=1e-200)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("scale", [1e200, 1e-200])
@pytest.mark.filterwarnings("ignore:The squared distances:RuntimeWarning")
def test_scales_of_1e200_and_its_inverse(engine, scale):
    X, truth = blobs(24)
    fitted = quietly(model(engine, 3, init=X[::8] * scale), X * scale)
    assert same_partition(fitted.labels_, truth)
    assert fitted.predict(X * scale).tolist() == fitted.labels_.tolist()
    assert fitted.inertia_ == -fitted.score(X * scale)
    plain = quietly(model(engine, 3, init=X[::8]), X)
    np.testing.assert_allclose(fitted.cluster_centers_ / scale, plain.cluster_centers_, rtol=1e-14)
    certificate = fitted.certificate_
    size = np.log2(certificate.inertia) + certificate.unit_exponent - 2 * np.log2(scale)
    assert size == pytest.approx(np.log2(plain.inertia_))


WHOLE = np.rint(blobs()[0] * 4)
RAISING = {
    "plain": WHOLE,
    "offset": WHOLE + 1e8,
    "1e200": WHOLE * 1e200,
    "1e-200": WHOLE * 1e-200,
    "denormal": WHOLE * 5e-324,
    "denormal float32": (WHOLE * 1e-45).astype(np.float32),
}


@fails_when(
    "overflow_on_the_way", raises=FloatingPointError, engine="cpu", kind="plain", stop="shift"
)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", RAISING)
@pytest.mark.parametrize("stop", ["stationary", "shift"])
def test_numpy_that_raises_on_overflow_and_underflow_meets_none(engine, kind, stop):
    X = RAISING[kind]
    with np.errstate(all="raise"):
        fitted = quietly(model(engine, 3, stop=stop), X)
        assert fitted.predict(X).tolist() == fitted.labels_.tolist()
        fitted.transform(X)


@fails_when("overflow_on_the_way", raises=RuntimeWarning, engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_trimmed_fit_at_1e200_has_no_warnings_but_our_own(engine):
    X, _ = blobs()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        TrimmedKMeans(3, n_init=1, random_state=0, engine=engine).fit(X * 1e200)
    assert [str(one.message) for one in caught if "encountered" in str(one.message)] == []


@fails_when("denormals_flushed", engine="cpu", dtype="float64")
@fails_when("denormals_flushed", engine="reference", dtype="float32")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_denormal_numbers_are_numbers(engine, dtype):
    X, truth = blobs()
    X = (np.rint(X) * np.finfo(dtype).smallest_subnormal).astype(dtype)
    fitted = quietly(model(engine, 3), X)
    assert same_partition(fitted.labels_, truth)
    assert fitted.predict(X).tolist() == fitted.labels_.tolist()
    assert fitted.certificate_.inertia > 0


@fails_when("sums_in_float32", engine="cpu", outlier=1e10)
@fails_when("sums_in_float32", engine="reference", outlier=1e10)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("outlier", [1e10, 1e30, 1e100])
def test_one_huge_outlier_does_not_disturb_the_others(engine, outlier):
    X, truth = blobs()
    far = np.vstack([X, [[outlier, -outlier]]])
    init = np.vstack([X[::20], far[-1:]])
    fitted = model(engine, 4, init=init).fit(far)
    assert same_partition(fitted.labels_, np.append(truth, 3))
    plain = model(engine, 3, init=X[::20]).fit(X)
    assert fitted.cluster_centers_[:3].tolist() == plain.cluster_centers_.tolist()
    assert fitted.inertia_ == plain.inertia_
    assert_true(fitted, far)


@fails_when("distances_by_expansion", engine="cpu")
@fails_when("sums_in_float32", engine="reference")
@pytest.mark.parametrize("engine", ENGINES)
def test_clusters_of_very_different_scale(engine):
    small, truth = blobs(40, k=2)
    X = np.vstack([small * 1e-7 + 1.0, blobs(40, k=2, seed=1)[0] * 1e7 + 1e9])
    fitted = model(engine, 4, init=X[::20]).fit(X)
    assert same_partition(fitted.labels_, np.append(truth, truth + 2))
    assert_true(fitted, X)
