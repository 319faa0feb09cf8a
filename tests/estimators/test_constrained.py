"""ConstrainedKMeans: limits, optimum by brute force, engines by ==, the ledger, the certificate."""

import itertools
import json
import math
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import wolfmeans
from instances import ENGINES
from wolfmeans import ConstrainedKMeans, KMeans
from wolfmeans.bounds.neighbours import neighbours
from wolfmeans.core.solution import Status

BLOBS = np.repeat([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]], [60, 25, 15], axis=0)
BLOBS = BLOBS + np.random.default_rng(0).normal(size=BLOBS.shape)


def inertia_of(X, labels, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    total = 0.0
    for k in np.unique(labels):
        some = labels == k
        mean = np.average(X[some], axis=0, weights=weights[some])
        total += (weights[some, None] * (X[some] - mean) ** 2).sum()
    return total


# --- Limits ---------------------------------------------------------------------------------------


def test_balanced_clusters():
    km = ConstrainedKMeans(4, size_min=25, size_max=25, random_state=0).fit(BLOBS)
    assert np.bincount(km.labels_).tolist() == [25] * 4
    assert km.sizes_.tolist() == [25.0] * 4
    assert km.splits_ == []


def test_one_limit_for_each_cluster():
    km = ConstrainedKMeans(
        3, size_min=[50, 0, 10], size_max=[60, 20, 100], init=BLOBS[[0, 70, 90]]
    ).fit(BLOBS)
    low, high = np.array([50, 0, 10]), np.array([60, 20, 100])
    sizes = np.bincount(km.labels_, minlength=3)
    assert (low <= sizes).all()
    assert (sizes <= high).all()


@given(st.integers(0, 2**32 - 1))
def test_never_a_violated_limit_and_a_true_ledger(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(4, 60)), int(rng.integers(1, 5))
    X = rng.integers(0, 4, size=(n, 2)) * 1.0 if seed % 2 else rng.normal(size=(n, 2))
    low = int(rng.integers(0, n // k + 1))
    high = int(rng.integers(-(-n // k), n + 1))
    km = ConstrainedKMeans(k, size_min=low, size_max=high, random_state=0, bound=None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # duplicates leave clusters empty
        km.fit(X)
    sizes = np.bincount(km.labels_, minlength=k)
    assert (low <= sizes).all()
    assert (sizes <= high).all()
    values = [record.value for record in km.trace_]
    for before, record, after in zip(values, km.trace_, values[1:], strict=False):
        assert record.gap >= 0
        assert record.movement >= 0
        assert after <= before
    assert km.certificate_.status is not Status.DESCENT_VIOLATED
    assert km.certificate_.status is not Status.REPEATED_STATE
    own = ((X - km.cluster_centers_[km.labels_]) ** 2).sum()
    assert km.inertia_ == pytest.approx(own, rel=1e-12, abs=1e-12)
    if km.certificate_.max_iterations is not None:
        assert km.certificate_.iterations <= km.certificate_.max_iterations
    assert 0 <= km.duality_gap_ <= 1e-12 * (1 + km.inertia_)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"size_min": 34}, r"size_min cannot be met: 34 \+ 34 \+ 34 = 102, but .* 100 points"),
        ({"size_max": 33}, r"size_max leaves no room: 33 \+ 33 \+ 33 = 99, but .* 100 points"),
        (
            {"size_min": 20, "size_max": [50, 10, 50]},
            "size_min=20 is above size_max=10 .*cluster 1",
        ),
        ({"size_min": 2.5}, "size_min=2.5 must be an integer"),
        ({"size_min": -1}, "at least 0"),
        ({"size_max": math.nan}, "at least 0"),
        ({"size_min": [1, 2]}, r"one for each of the 3 clusters; got an array of shape \(2,\)"),
        ({"size_max": "many"}, "size_max must be a number or one for each cluster; got 'many'"),
    ],
)
def test_limits_that_cannot_be_met(limits, message):
    with pytest.raises(ValueError, match=message):
        ConstrainedKMeans(3, **limits).fit(BLOBS)


def test_weights_whose_limits_differ_by_rounding_are_told_with_all_digits():
    weights = np.full(100, 0.1)
    with pytest.raises(ValueError, match=r"sum to 10\.0\d+, but .* leave some room"):
        ConstrainedKMeans(3, size_min=10.0 / 3 + 1e-13).fit(BLOBS, sample_weight=weights)


def test_no_limits_are_k_means_to_the_last_bit():
    plain = KMeans(5, random_state=3).fit(BLOBS)
    for limits in ({}, {"size_min": 0, "size_max": 100}):
        km = ConstrainedKMeans(5, random_state=3, **limits).fit(BLOBS)
        assert np.array_equal(km.labels_, plain.labels_)
        assert np.array_equal(km.cluster_centers_, plain.cluster_centers_)
        assert (km.inertia_, km.n_iter_) == (plain.inertia_, plain.n_iter_)
        assert km.certificate_.gap == plain.certificate_.gap
        assert km.duality_gap_ == 0.0


def test_size_min_1_fills_every_cluster():
    init = np.concatenate([BLOBS[:3], BLOBS[:2] + 1e3])
    km = ConstrainedKMeans(5, size_min=1, init=init, max_iter=1).fit
    with pytest.warns(UserWarning, match="Not converged"):
        assert (np.bincount(km(BLOBS).labels_, minlength=5) >= 1).all()


# --- Optimality -----------------------------------------------------------------------------------


def test_best_of_many_starts_is_the_optimum_within_the_limits():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(9, 2))
    best = min(
        inertia_of(X, np.array(labels))
        for labels in itertools.product(range(3), repeat=9)
        if sorted(np.bincount(labels, minlength=3)) == [3, 3, 3]
    )
    km = ConstrainedKMeans(3, size_min=3, size_max=3, n_init=60, random_state=0).fit(X)
    assert km.inertia_ == pytest.approx(best, rel=1e-12)
    assert km.certificate_.lower_bound <= best * (1 + 1e-12)


@pytest.mark.parametrize("method", ["spectral", "neighbours", "prices", "semidefinite"])
def test_bounds_are_below_the_optimum(method):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(8, 2))
    for sizes in ([4, 4], [2, 6]):
        best = min(
            inertia_of(X, np.array(labels))
            for labels in itertools.product(range(2), repeat=8)
            if sorted(np.bincount(labels, minlength=2)) == sizes
        )
        km = ConstrainedKMeans(2, size_min=sizes, size_max=sizes, bound=method, n_init=20)
        bound = km.fit(X).certificate_.lower_bound
        assert bound is None or 0 < bound <= best * (1 + 1e-12)


def test_every_point_pays_least_where_it_is():
    km = ConstrainedKMeans(3, size_min=30, size_max=36, random_state=0).fit(BLOBS)
    pays = ((BLOBS[:, None] - km.cluster_centers_) ** 2).sum(axis=2) + km.prices_
    own = pays[np.arange(100), km.labels_]
    assert own == pytest.approx(pays.min(axis=1), abs=1e-9)
    assert (km.sizes_[km.prices_ > 1e-9] == 36).all()
    assert (km.sizes_[km.prices_ < -1e-9] == 30).all()
    assert km.duality_gap_ <= 1e-9


def test_a_tie_is_told():
    apart = np.array([[0.0], [1.0], [5.0], [6.0]])
    km = ConstrainedKMeans(2, size_min=2, size_max=2, init=[[0.5], [5.5]]).fit(apart)
    assert km.certificate_.local_optimality == "strict local minimum"
    # Of three equal points one has to join the fourth.
    equal = np.array([[0.0], [0.0], [0.0], [5.0]])
    km = ConstrainedKMeans(2, size_min=2, size_max=2, init=[[0.0], [2.5]]).fit(equal)
    assert km.certificate_.local_optimality == "stationary, with ties"


# --- Weights ----------------------------------------------------------------------------------


def test_weights_may_be_split_and_sizes_are_weights():
    weights = np.random.default_rng(2).exponential(size=100)
    third = weights.sum() / 3
    km = ConstrainedKMeans(3, size_min=0.999 * third, size_max=1.001 * third, random_state=0)
    km.fit(BLOBS, sample_weight=weights)
    assert (km.sizes_ >= 0.999 * third).all()
    assert (km.sizes_ <= 1.001 * third).all()
    rows = {row for row, _, _ in km.splits_}
    assert 1 <= len(rows) <= 2
    for row in rows:
        parts = {k: mass for i, k, mass in km.splits_ if i == row}
        assert sum(parts.values()) == pytest.approx(weights[row])
        assert km.labels_[row] == max(parts, key=parts.get)
    assert km.certificate_.split_points == len(rows)
    assert km.certify(BLOBS, sample_weight=weights).ratio >= 1


def test_a_weight_of_2_is_two_copies():
    X = BLOBS[::2]
    weights = np.where(np.arange(50) < 20, 2.0, 1.0)
    copies = np.repeat(X, weights.astype(int), axis=0)
    init = X[[0, 30, 45]]
    weighted = ConstrainedKMeans(3, size_min=20, size_max=26, init=init)
    weighted.fit(X, sample_weight=weights)
    plain = ConstrainedKMeans(3, size_min=20, size_max=26, init=init).fit(copies)
    assert weighted.inertia_ == pytest.approx(plain.inertia_, rel=1e-12)
    assert weighted.sizes_.tolist() == plain.sizes_.tolist()


# --- Engines and kinds of data ------------------------------------------------------------------


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["float32", "float64"]), st.booleans())
def test_engines_give_the_same_bits(seed, dtype, weighted):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(80, 3)).astype(dtype)
    weights = rng.integers(1, 4, size=80) * 1.0 if weighted else None
    total = 80 if weights is None else int(weights.sum())
    fits = [
        ConstrainedKMeans(4, size_min=total // 5, size_max=total // 3, random_state=1, engine=name)
        .set_params(bound=None, n_threads=threads)
        .fit(X, sample_weight=weights)
        for name, threads in [(ENGINES[0], 1), (ENGINES[-1], 1), (ENGINES[-1], 2)]
    ]
    for other in fits[1:]:
        assert np.array_equal(other.labels_, fits[0].labels_)
        assert np.array_equal(other.cluster_centers_, fits[0].cluster_centers_)
        assert np.array_equal(other.prices_, fits[0].prices_)
        assert (other.inertia_, other.duality_gap_) == (fits[0].inertia_, fits[0].duality_gap_)
        assert [r.gap for r in other.trace_] == [r.gap for r in fits[0].trace_]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_rows(engine, weighted):
    X = np.where(np.random.default_rng(3).random(size=(60, 5)) < 0.5, 0.0, 1.0) * BLOBS[:60, :1]
    weights = np.arange(60) % 3 + 0.25 if weighted else None
    total = 60 if weights is None else weights.sum()
    options = {"size_min": total // 4, "size_max": total // 3 + 1, "random_state": 0}
    csr = ConstrainedKMeans(3, engine=engine, **options).fit(
        sparse.csr_array(X), sample_weight=weights
    )
    dense = ConstrainedKMeans(3, **options).fit(X, sample_weight=weights)
    assert csr.inertia_ == pytest.approx(dense.inertia_, rel=1e-9)
    assert csr.certify(sparse.csr_array(X), sample_weight=weights).lower_bound <= csr.inertia_


@pytest.mark.parametrize("exponent", [500, -480])
def test_numbers_of_any_scale(exponent):
    plain = ConstrainedKMeans(3, size_min=30, random_state=0).fit(BLOBS)
    km = ConstrainedKMeans(3, size_min=30, random_state=0).fit(np.ldexp(BLOBS, exponent))
    assert np.array_equal(km.labels_, plain.labels_)
    assert km.inertia_ == math.ldexp(plain.inertia_, 2 * exponent)
    assert np.array_equal(km.prices_, np.ldexp(plain.prices_, 2 * exponent))
    assert km.duality_gap_ == math.ldexp(plain.duality_gap_, 2 * exponent)


@pytest.mark.parametrize("empty", ["farthest", "keep", "resample", "best"])
@pytest.mark.filterwarnings("ignore:.*clusters:sklearn.exceptions.ConvergenceWarning")
def test_policies_for_empty_clusters(empty):
    init = np.concatenate([BLOBS[:2], [[1e4, 1e4]]])
    km = ConstrainedKMeans(3, size_max=60, init=init, empty=empty).fit(BLOBS)
    sizes = np.bincount(km.labels_, minlength=3)
    assert (sizes <= 60).all()
    assert (sizes > 0).all() == (empty != "keep")
    assert km.certificate_.candidate_decrease is None
    assert 0 <= km.certificate_.clarke_gap <= km.certificate_.gap + 1e-9


def test_what_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no GPU engine"):
        ConstrainedKMeans(3, engine="gpu").fit(BLOBS)
    np.save(tmp_path / "points.npy", BLOBS)
    with pytest.raises(TypeError, match="all points in memory"):
        ConstrainedKMeans(3).fit(tmp_path / "points.npy")
    with pytest.raises(ValueError, match="empty"):
        ConstrainedKMeans(3, empty="admissible").fit(BLOBS)
    wide = np.array([1e-30, 1e30] * 50)
    with pytest.raises(ValueError, match="too many binary digits"):
        ConstrainedKMeans(3, size_min=0.5).fit(BLOBS, sample_weight=wide)


def test_dask_is_refused():
    array = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="compute the Dask collection"):
        ConstrainedKMeans(3).fit(array.from_array(BLOBS))


# --- The fitted model -----------------------------------------------------------------------------


def test_predict_ignores_the_limits_and_assign_meets_them():
    km = ConstrainedKMeans(3, size_min=30, size_max=40, random_state=0).fit(BLOBS)
    nearest = ((BLOBS[:, None] - km.cluster_centers_) ** 2).sum(axis=2).argmin(axis=1)
    assert np.array_equal(km.predict(BLOBS), nearest)
    assert not np.array_equal(km.predict(BLOBS), km.labels_)
    assert np.array_equal(km.assign(BLOBS), km.labels_)
    new = BLOBS[:90] + 0.1
    sizes = np.bincount(km.assign(new), minlength=3)
    assert sizes.tolist() == [30, 30, 30]
    with pytest.raises(ValueError, match=r"30 \+ 30 \+ 30 = 90, but there are only 50 points"):
        km.assign(BLOBS[:50])
    assert np.bincount(km.set_params(size_min=10).assign(BLOBS[:50]), minlength=3).min() >= 10


def test_certificate_says_what_was_computed():
    km = ConstrainedKMeans(3, size_min=30, size_max=40, random_state=0).fit(BLOBS)
    text = str(km.certificate_)
    assert "limits: 30 to 40" in text
    assert "duality gap" in text
    assert "nearest center" not in text
    assert "closest to its own" not in text
    facts = km.certificate_.to_dict()
    assert (facts["size_min"], facts["size_max"]) == (30.0, 40.0)
    assert json.loads(json.dumps(facts))["largest_size"] == max(km.sizes_)
    # A better clustering without limits is not one of this problem.
    found = km.certify(BLOBS, target="optimal", seconds=5.0)
    assert found.better_centers is None
    assert not any("init=" in note for note in found.notes)
    with pytest.raises(ValueError, match="not the data of the fit"):
        km.certify(BLOBS + 1.0)


@pytest.mark.parametrize("weighted", [False, True])
def test_saved_and_loaded(tmp_path, weighted):
    weights = np.arange(100) % 7 + 1.5 if weighted else None
    total = 100 if weights is None else weights.sum()
    km = ConstrainedKMeans(3, size_min=[total // 4] * 3, random_state=0)
    km.fit(BLOBS, sample_weight=weights)
    km.save(tmp_path / "model.wolf")
    for again in (wolfmeans.load(tmp_path / "model.wolf"), pickle.loads(pickle.dumps(km))):
        assert np.array_equal(again.labels_, km.labels_)
        assert again.splits_ == km.splits_
        assert again.certificate_ == km.certificate_
        assert np.array_equal(again.sizes_, km.sizes_)
        assert np.array_equal(again.prices_, km.prices_)
        assert again.certify(BLOBS, sample_weight=weights, method="spectral") is not None


@parametrize_with_checks(
    [ConstrainedKMeans(engine=engine) for engine in ENGINES]
    + [ConstrainedKMeans(size_min=1, n_clusters=2)]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimator_checks(estimator, check):
    check(estimator)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_the_neighbours_bound_uses_the_limits(seed, weighted):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(4, 9)), int(rng.integers(1, 4))
    X = rng.integers(0, 4, size=(n, 2)) * 1.0 if seed % 2 else rng.normal(size=(n, 2))
    weights = rng.integers(1, 4, size=n) * 1.0 if weighted else np.ones(n)
    total = weights.sum()
    low, high = (
        float(rng.integers(0, total // k + 1)),
        float(rng.integers(-(-total // k), total + 1)),
    )
    allowed = [
        labels
        for labels in map(np.array, itertools.product(range(k), repeat=n))
        if low <= np.bincount(labels, weights, minlength=k).min()
        and np.bincount(labels, weights, minlength=k).max() <= high
    ]
    free, limited = neighbours(X, k, weights), neighbours(X, k, weights, sizes=(low, high))
    assert limited.value >= free.value * (1 - 1e-6)
    if allowed:
        best = min(inertia_of(X, labels, weights) for labels in allowed)
        assert limited.value <= best * (1 + 1e-12) + 1e-12


def test_limits_make_the_neighbours_bound_better():
    free = neighbours(BLOBS, 3).value
    assert neighbours(BLOBS, 3, sizes=(0.0, 35.0)).value > 1.05 * free
    assert neighbours(BLOBS, 3, sizes=(32.0, 100.0)).value > 1.05 * free
    km = ConstrainedKMeans(3, size_min=32, size_max=35, random_state=0, bound="neighbours")
    assert km.fit(BLOBS).certificate_.lower_bound > 1.05 * free
    assert km.certify(BLOBS, method="neighbours").lower_bound > 1.05 * free
