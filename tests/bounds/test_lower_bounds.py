"""Lower bounds are below the best clustering, found by trying all of them."""

import itertools
import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse
from sklearn.datasets import make_blobs

from dense_kmeans import smooth_sse
from instances import instances
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.bounds import REGISTRY, LowerBound, Settings, affordable, best_bound, spectral
from wolfmeans.bounds.bound import below, scaled_down, times_down, times_up, total_weight
from wolfmeans.bounds.methods import Method, auto_methods
from wolfmeans.fitting.lower_bound import lower_bound


def optimum(X, weights, k):
    X = X.astype(np.float64)
    weights = np.ones(len(X)) if weights is None else weights
    best = np.inf
    for labels in itertools.product(range(k), repeat=len(X)):
        w = np.zeros((len(X), k))
        w[np.arange(len(X)), labels] = weights
        best = min(best, smooth_sse(w[:, w.sum(axis=0) > 0], X))
    return best


@settings(max_examples=150)
@given(instances(max_points=6, max_features=4, max_clusters=3))
def test_spectral_is_never_above_the_optimum(instance):
    centered = instance.X.astype(np.float64) - instance.X.astype(np.float64).mean(axis=0)
    best = optimum(centered, instance.weights, instance.n_clusters)
    bound = spectral(instance.X, instance.n_clusters, instance.weights)
    assert 0 <= bound.value <= best * (1 + 1e-12) + 1e-300
    assert bound.confidence == 1.0


def test_spectral_is_tight_when_clusters_lie_along_one_line():
    # Within-cluster scatter is orthogonal to the line through the means.
    X = np.array([[0.0, 1.0], [0.0, -1.0], [9.0, 1.0], [9.0, -1.0]])
    assert spectral(X, 2).value == pytest.approx(4.0, rel=1e-12)


def test_one_cluster_leaves_the_total_scatter():
    X = np.random.default_rng(0).normal(size=(50, 3))
    total = float(((X - X.mean(axis=0)) ** 2).sum())
    assert spectral(X, 1).value == pytest.approx(total, rel=1e-10)
    assert spectral(X, 1).value <= total


def test_as_many_places_as_clusters_leave_no_scatter():
    # The optimum is 0; the eigenvalues add up to the trace, up to their rounding.
    rng = np.random.default_rng(2)
    for _ in range(200):
        k = int(rng.integers(2, 5))
        places = rng.normal(size=(k, k + 1)) * 10.0 ** rng.uniform(-3, 3, size=k + 1)
        X = places[rng.integers(0, k, size=30)]
        assert spectral(X, k).value == 0.0


def test_the_mean_of_a_column_is_rounded():
    # The mean lies between two neighbouring numbers; about either of them the scatter is 4.
    X = np.array([[1e16], [1e16 + 2.0]])
    assert spectral(X, 1).value <= 2.0


def test_too_few_features_give_nothing_and_the_certificate_says_so():
    X = np.random.default_rng(0).normal(size=(50, 2))
    assert spectral(X, 3).value == 0.0
    certificate = KMeans(3, random_state=0, bound="spectral").fit(X).certificate_
    assert certificate.lower_bound is None
    assert certificate.ratio is None
    assert "inf" not in str(certificate)
    assert "no useful bound was found; certify(X) looks longer" in str(certificate)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_sparse_float32_and_weighted_bounds_agree_with_dense(offset):
    rng = np.random.default_rng(1)
    X = rng.integers(0, 3, size=(40, 6)).astype(np.float64) + offset
    weights = rng.uniform(0.5, 2.0, size=40)
    dense = spectral(X, 3, weights).value
    assert spectral(sparse.csr_array(X), 3, weights).value == pytest.approx(dense, rel=1e-9)
    assert spectral(X.astype(np.float32), 3, weights).value == pytest.approx(dense, rel=1e-9)
    repeated = np.repeat(X, 2, axis=0)
    assert spectral(repeated, 3).value == pytest.approx(2 * spectral(X, 3).value, rel=1e-9)


def test_a_bound_never_passes_the_inertia_it_is_compared_with():
    X = np.array([[0.0, 1.0], [0.0, -1.0], [9.0, 1.0], [9.0, -1.0]])
    certificate = KMeans(2, random_state=0, bound="spectral").fit(X).certificate_
    assert certificate.lower_bound <= certificate.inertia
    assert 1.0 <= certificate.ratio < 1.0 + 1e-9


def test_auto_skips_a_bound_that_costs_more_than_the_fit():
    X = np.random.default_rng(0).normal(size=(400, 300))
    model = KMeans(2, random_state=0, max_iter=300, stop="decrease", tol=0.5).fit(X)
    # As the fit left it; the semidefinite bound comes when the certificate is read.
    certificate = vars(model)["certificate_"]
    assert certificate.lower_bound_kind is None
    assert "certify(X) computes one" in str(certificate)
    assert model.certificate_.lower_bound_kind == "semidefinite"
    asked = (
        KMeans(2, random_state=0, stop="decrease", tol=0.5, bound="spectral").fit(X).certificate_
    )
    assert asked.ratio >= 1.0


def blobs(n, d, k):
    return make_blobs(n, n_features=d, centers=k, random_state=0)[0]


def test_auto_takes_the_best_that_is_affordable():
    assert lower_bound(blobs(60, 1, 3), 3).kind == "exact"
    assert lower_bound(blobs(60, 12, 3), 3).kind == "neighbours"
    # Few points that touch: branch and bound begins with the semidefinite bound.
    plane = np.random.default_rng(0).uniform(size=(100, 2))
    assert lower_bound(plane, 8, seconds=2).kind == "branching"
    # One cloud in many dimensions: the neighbours of a point tell little.
    cloud = np.random.default_rng(0).normal(size=(300, 100)) * np.linspace(3.0, 0.1, 100)
    assert lower_bound(cloud, 2, seconds=2).kind == "semidefinite"
    assert auto_methods(20_000, 2, 8, trimmed=False)[-1] == "prices"
    assert auto_methods(20_000, 2, 8, trimmed=False, in_parts=1e5)[-1] == "semidefinite"
    assert "branching" not in auto_methods(100, 2, 8, trimmed=False, branch=False)
    many = auto_methods(1_000_000, 10, 20, trimmed=False)
    assert many == ("subsampled",)
    assert affordable(1_000_000, 10, 20) == ()
    assert affordable(1_000_000, 10, 20, budget=1e12) == ("subsampled",)
    assert affordable(1_000_000, 10, 20, budget=1e12, rigorous=True) == ()
    assert affordable(20_000, 10, 20) == ("neighbours",)
    assert affordable(20_000, 10, 5) == ("spectral", "neighbours")
    assert affordable(20_000, 10, 5, trimmed=True) == ("neighbours",)
    assert affordable(1000, 1, 5) == ("exact",)


@pytest.mark.parametrize("method", REGISTRY)
def test_costs_grow_with_the_data(method):
    cost = REGISTRY[method].cost
    assert 0 < cost(10_000, 10, 20) < cost(100_000, 10, 20)


def test_best_bound_is_the_largest():
    X = np.random.default_rng(0).normal(size=(300, 100)) * np.linspace(3.0, 0.1, 100)
    methods = ("neighbours", "spectral")
    each = {name: best_bound(X, 2, methods=[name]).value for name in methods}
    best = best_bound(X, 2, methods=methods)
    assert best.value == max(each.values())
    assert each[best.kind] == best.value
    assert best_bound(X, 2, methods=()) is None


def test_a_bound_next_to_what_was_reached_is_enough(monkeypatch):
    asked = []

    def method(name, value):
        def compute(*_):
            asked.append(name)
            return LowerBound(value, name, 1.0, 0.0)

        return Method(name, compute, cost=lambda *_: 1.0)

    for name, value in (("far", 0.999), ("near", 0.9999995), ("nearest", 1.0)):
        monkeypatch.setitem(REGISTRY, name, method(name, value))
    methods, X = ("far", "near", "nearest"), np.ones((3, 1))
    assert best_bound(X, 1, methods=methods, settings=Settings(goal=1.0)).kind == "near"
    assert asked == ["far", "near"]
    assert best_bound(X, 1, methods=methods, settings=Settings()).kind == "nearest"


@pytest.mark.parametrize("method", ["spectral", "exact"])
def test_what_does_not_hold_for_trimmed_problems_is_refused(method):
    with pytest.raises(ValueError, match=f"method='{method}'.*trimmed"):
        lower_bound(blobs(30, 1, 2), 2, trim=1, method=method)
    # Nothing is left out: not trimmed.
    assert lower_bound(blobs(30, 1, 2), 1, trim=0, method=method).value > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "exact"}, "one column"),
        ({"method": "magic"}, "method must be one of"),
        ({"n_clusters": 0}, "n_clusters must be"),
        ({"n_clusters": 2.0}, "n_clusters must be"),
        ({"n_clusters": True}, "n_clusters must be"),
        ({"confidence": 1.0}, "confidence must be"),
        ({"trim": 30}, "trim must be"),
        ({"trim": -1}, "trim must be"),
        ({"trim": float("nan")}, "trim must be"),
        ({"trim": "5"}, "trim must be"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        lower_bound(blobs(30, 2, 2), **{"n_clusters": 2, **settings})


def test_bad_data_is_refused_at_the_door():
    with pytest.raises(ValueError, match=r"row 1, column 0.*lower_bound"):
        lower_bound([[0.0], [np.nan]], 1)
    with pytest.raises(ValueError, match="sample_weight"):
        lower_bound([[0.0], [1.0]], 1, sample_weight=[1.0, -1.0])


@pytest.mark.parametrize("exponent", [-600, -520, 0, 480])
@pytest.mark.parametrize("method", ["neighbours", "spectral"])
def test_in_the_units_of_the_caller(method, exponent):
    X = blobs(80, 3, 2)
    plain = lower_bound(X, 2, method=method).value
    scaled = lower_bound(np.ldexp(X, exponent), 2, method=method).value
    expected = np.ldexp(plain, 2 * exponent)
    assert scaled == pytest.approx(expected, rel=1e-9)
    assert scaled <= expected * (1 + 1e-9)


def test_integers_lists_sparse_and_weights_go_in():
    X = np.array([[0, 0], [0, 2], [9, 0], [9, 2], [500, 500]])
    weights = [1, 1, 1, 1, 0]
    for data in (X, X.tolist(), sparse.csr_matrix(X.astype(float)), X.astype(np.float32)):
        bound = lower_bound(data, 2, sample_weight=weights)
        assert bound.value == pytest.approx(4.0, rel=1e-9)
        assert bound.value <= 4.0
    trimmed = lower_bound(X, 2, trim=1)
    assert trimmed.value == pytest.approx(4.0, rel=1e-9)


def test_subsampled_says_how_sure_it_is():
    X = blobs(3000, 2, 3)
    seen = []
    settings = {"method": "subsampled", "confidence": 0.9, "random_state": 3}
    bound = lower_bound(X, 3, **settings, progress=lambda done, text: seen.append(done))
    assert (bound.kind, bound.confidence) == ("subsampled", 0.9)
    assert bound.value == lower_bound(X, 3, **settings, n_threads=1).value
    assert 0.8 * lower_bound(X, 3, method="neighbours").value < bound.value
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert bound.seconds > 0


def test_a_trim_that_vanishes_in_the_total_is_not_forgotten():
    X, weights = np.array([[0.0, 0.0], [1e6, 0.0]]), np.array([1e17, 1.0])
    for method in ("neighbours", "prices", "subsampled"):
        bound = lower_bound(X, 1, sample_weight=weights, trim=1, method=method, random_state=0)
        assert bound.value == 0.0
    km = TrimmedKMeans(1, alpha=2e-17, bound="neighbours", random_state=0)
    points = np.array([[0.0, 0.0], [1e3, 0.0], [1001.0, 0.0], [0.0, 1e3]])
    km.fit(points, sample_weight=[1e17, 1.0, 1.0, 1.0])
    assert not any("contradicts" in note for note in km.certificate_.notes)


def test_sums_and_products_are_rounded_the_safe_way():
    for a, b, c in np.random.default_rng(0).normal(size=(300, 3)).tolist():
        total = Fraction(a) + Fraction(b) + Fraction(c)
        assert 0 <= Fraction(below(a, b, c)) <= max(total, 0)
        product = Fraction(a) * Fraction(b)
        assert Fraction(times_down(a, b)) <= product <= Fraction(times_up(a, b))
    assert below(math.inf) == 0.0
    assert below(1.0) > 1.0 - 1e-15


def test_scaling_rounds_down_below_the_normal_numbers():
    values = np.random.default_rng(0).uniform(1.0, 2.0, size=100).tolist()
    # The last of these rounds up to a normal number at -1023.
    for value in (*values, 1.0, math.nextafter(2.0, 0.0)):
        for exponent in (-1080, -1070, -1060, -1023, 1000):
            exact = Fraction(value) * Fraction(2) ** exponent
            assert exact - Fraction(2) ** -1073 <= Fraction(scaled_down(value, exponent)) <= exact
    assert scaled_down(1.0, 2000) == sys.float_info.max


def test_the_total_weight_is_rounded_once():
    weights = np.array([2.0**53, 1.0, 1.0, 1.0, 1.0])
    assert total_weight(5, weights) == 2.0**53 + 4.0
