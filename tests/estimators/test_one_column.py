"""One column: the fit begins at the optimum, and its certificate says so."""

import itertools
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import wolfmeans
from everywhere import EVERYWHERE, IN_PARTS, PLACES, fit_at
from interpreted import needs_triton
from wolfmeans import KMeans, Status, TrimmedKMeans
from wolfmeans.estimators import kmeans


def least_sse(x, weights, k):
    """The least SSE of all ways to cut the sorted points into k intervals, in fractions."""
    order = np.argsort(x)
    values, masses = ([Fraction(float(v)) for v in part[order]] for part in (x, weights))

    def sse(low, high):
        mass = sum(masses[low:high])
        if mass == 0:
            return Fraction(0)
        pairs = list(zip(masses[low:high], values[low:high], strict=True))
        mean = sum(w * v for w, v in pairs) / mass
        return sum(w * (v - mean) ** 2 for w, v in pairs)

    n = len(x)
    return min(
        sum(sse(low, high) for low, high in itertools.pairwise((0, *cuts, n)))
        for cuts in itertools.combinations(range(1, n), k - 1)
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_column_is_clustered_optimally(dtype, weighted):
    rng = np.random.default_rng(0)
    for k in (1, 2, 3, 4, 5):
        for _ in range(5):
            x = rng.standard_cauchy(size=11).astype(dtype)
            weights = np.ones(11)
            if weighted:
                weights = rng.permutation([0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.5, 3.0, 7.0, 9.0])
            given = weights if weighted else None
            km = KMeans(k, random_state=0).fit(x[:, None], sample_weight=given)
            best = float(least_sse(x, weights, k))
            assert km.inertia_ == pytest.approx(best, rel=1e-5 if dtype == np.float32 else 1e-12)
            certificate = km.certificate_
            assert (certificate.gap, certificate.lower_bound_kind) == (0.0, "exact")
            assert certificate.status is Status.STATIONARY and km.n_iter_ == 2
            assert Fraction(certificate.lower_bound) <= least_sse(x, weights, k)
            if dtype == np.float64:
                assert certificate.standing.optimal and "proven to be optimal" in str(
                    certificate.verdict
                )
            assert km.trace_.lower_bound == certificate.proven_bound == certificate.lower_bound


def skewed(n=400, seed=0):
    return np.random.default_rng(seed).lognormal(sigma=1.5, size=(n, 1))


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, marks=needs_triton) if place == "gpu" else place
        for place in EVERYWHERE
        if place not in IN_PARTS
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_all_engines_find_the_same_optimum(place, weighted):
    X = skewed(60)
    weights = np.arange(60) % 3 + 0.5 if weighted else None
    expected = KMeans(6, engine="reference").fit(X, sample_weight=weights)
    found = fit_at(place, KMeans(6), X, weights)
    assert np.array_equal(found.labels_, expected.labels_)
    assert np.array_equal(found.cluster_centers_, expected.cluster_centers_)
    assert found.inertia_ == expected.inertia_
    assert found.certificate_.lower_bound == expected.certificate_.lower_bound
    assert found.certificate_.standing.optimal


@pytest.mark.parametrize("place", [place for place in PLACES if place in IN_PARTS])
def test_data_in_parts_descends(place):
    X = skewed(60)
    found = fit_at(place, KMeans(6, init="k-means||", random_state=0), X)
    assert found.certificate_.lower_bound_kind is None


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e150, 1e300])
def test_the_scale_of_the_data_does_not_matter(scale):
    X = skewed()
    expected = KMeans(5).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = KMeans(5).fit(X * scale)
    assert np.array_equal(found.labels_, expected.labels_)
    assert found.certificate_.standing.optimal


def test_sparse_rows_and_integers_are_data_as_well():
    X = np.random.default_rng(0).integers(-50, 50, size=(200, 1)) ** 3
    X[:40] = 0
    expected = KMeans(7).fit(X)
    assert expected.certificate_.standing.optimal
    assert KMeans(7).fit(sparse.csr_array(X.astype(float))).inertia_ == expected.inertia_


def test_no_other_fit_is_better():
    X = skewed()
    best = KMeans(8).fit(X).inertia_
    many = KMeans(8, init="random", n_init=50, random_state=0).fit(X).inertia_
    assert best <= many
    assert {KMeans(8, random_state=seed, n_init=n).fit(X).inertia_
            for seed, n in ((0, 1), (1, 3))} == {best}  # fmt: skip


def test_other_seeds_and_descent_are_plain_k_means():
    X = skewed()
    seeds = X[:8]
    plain = KMeans(8, one_column="descent", random_state=0).fit(X)
    assert plain.inertia_ > KMeans(8, random_state=0).fit(X).inertia_
    given = KMeans(8, init=plain.initial_centers_, n_init=1).fit(X)
    assert given.inertia_ == plain.inertia_ and given.n_iter_ == plain.n_iter_
    assert np.array_equal(KMeans(8, init=seeds, n_init=1).fit(X).initial_centers_, seeds)
    called = KMeans(8, init=lambda X, k, random_state: X[:k], n_init=1).fit(X)
    assert np.array_equal(called.initial_centers_, seeds)
    for init in ("random", "plain-k-means++", "k-means||"):
        km = KMeans(8, init=init, n_init=1, random_state=0).fit(X)
        assert np.isin(km.initial_centers_, X).all()
    assert not np.isin(KMeans(8, init="greedy-k-means++").fit(X).initial_centers_, X).all()


def test_beyond_the_limit_it_descends(monkeypatch):
    X = skewed()
    monkeypatch.setattr(kmeans, "_EXACT_BUDGET", 400.0 * 400 * 8 - 1)
    assert np.isin(KMeans(8, random_state=0).fit(X).initial_centers_, X).all()
    monkeypatch.setattr(kmeans, "_EXACT_BUDGET", 400.0 * 400 * 8)
    assert KMeans(8, random_state=0).fit(X).certificate_.standing.optimal


def test_as_many_clusters_as_values_are_no_case_for_it():
    X = np.repeat(np.arange(4.0), 3)[:, None]
    km = KMeans(4, random_state=0).fit(X)
    assert km.inertia_ == 0 and "no clustering can be better" in km.certificate_.verdict
    with pytest.warns(ConvergenceWarning, match="distinct clusters"):
        assert KMeans(5, random_state=0).fit(X).inertia_ == 0


def test_the_bound_is_what_certify_asks_for():
    X = skewed()
    assert KMeans(8, bound=None).fit(X).certificate_.lower_bound is None
    named = KMeans(8, bound="neighbours").fit(X).certificate_
    assert named.lower_bound_kind == "neighbours"
    assert KMeans(8).fit(X).certificate_.lower_bound_kind == "exact"


def test_an_effort_is_not_spent_on_an_optimum():
    km = KMeans(8, effort=30.0).fit(skewed())
    assert km.certificate_.effort is None and km.certificate_.level == "hartigan"
    assert km.certificate_.standing.optimal


def test_trimmed_fits_and_more_columns_are_as_before():
    X = skewed()
    trimmed = TrimmedKMeans(4, alpha=0.1, random_state=0).fit(X)
    assert np.isin(trimmed.initial_centers_, X).all()
    wide = np.column_stack([X, X[::-1]])
    settings = {"n_clusters": 4, "random_state": 0}
    expected = KMeans(**settings, one_column="descent").fit(wide)
    assert KMeans(**settings).fit(wide).inertia_ == expected.inertia_


def test_the_parameter_is_one_as_all_others(tmp_path):
    km = clone(KMeans(3, one_column="descent", random_state=0)).fit(skewed())
    km.save(tmp_path / "model.wolf")
    assert wolfmeans.load(tmp_path / "model.wolf").one_column == "descent"
    with pytest.raises(ValueError, match="one_column"):
        KMeans(3, one_column="no").fit(skewed())


def test_a_scan_of_one_column_is_a_row_of_optima():
    found = wolfmeans.scan(skewed(), n_clusters=range(2, 6), random_state=0)
    for cell in found:
        assert cell.standing.optimal, cell.n_clusters
