"""KMeans as scikit-learn's users know it, and what it promises beyond that."""

import copy
import gc
import inspect
import pickle
import time
import warnings
import weakref

import numpy as np
import pandas as pd
import pytest
import sklearn.cluster
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import pairwise_distances
from sklearn.metrics.cluster import contingency_matrix
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

from instances import ENGINES
from wolfmeans import KMeans, Status, TrimmedKMeans
from wolfmeans.core.empty_clusters import POLICIES
from wolfmeans.core.stopping import STOPS, TOLERANCE_SCALES
from wolfmeans.engines import get_engine
from wolfmeans.engines.reference import ReferencePoints
from wolfmeans.seeding.methods import METHODS as SEEDINGS
from wolfmeans.seeding.methods import choose_seeds

KINDS = ["float64", "float32", "csr", "int"]


def points(n=300, d=4, seed=0, kind="float64"):
    """Overlapping clusters, on which the methods need more than a few iterations."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 3 + rng.integers(0, 4, size=(n, 1)) * 4.0
    if kind == "csr":
        return sparse.csr_array(np.where(np.abs(X) > 4, X, 0.0))
    if kind == "int":
        return np.rint(X).astype(np.int64)
    return X.astype(kind)


def lumps(n=90, seed=3):
    """Three clusters far apart."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % 3
    return np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 80.0]])[truth] + rng.normal(size=(n, 2)), truth


def same_partition(a, b):
    table = contingency_matrix(a, b) > 0
    return (table.sum(axis=0) == 1).all() and (table.sum(axis=1) == 1).all()


def fit_quietly(model, X, **arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, **arguments)


def assert_consistent(model, X, weights=None):
    """The two equalities that always hold."""
    assert np.array_equal(model.predict(X), model.labels_)
    assert model.inertia_ == -model.score(X, sample_weight=weights)


def assert_equal_fits(a, b):
    assert np.array_equal(a.labels_, b.labels_)
    assert np.array_equal(a.cluster_centers_, b.cluster_centers_)
    assert a.inertia_ == b.inertia_
    assert a.n_iter_ == b.n_iter_
    assert np.array_equal(a.trace_.gap, b.trace_.gap)
    assert np.array_equal(a.trace_.movement, b.trace_.movement)
    # As the fit left them: reading `certificate_` computes a bound.
    left = [vars(model)["certificate_"].status for model in (a, b)]
    assert left[0] is left[1]


# --- the interface ---------------------------------------------------------------------------


def test_every_parameter_attribute_and_method_of_scikit_learn_exists():
    theirs, ours = sklearn.cluster.KMeans(n_clusters=3), KMeans(n_clusters=3)
    assert set(theirs.get_params()) <= set(ours.get_params())
    theirs.fit(points())
    ours.fit(points())
    attributes = {a for a in vars(theirs) if a.endswith("_") and not a.startswith("_")}
    methods = {m for m in dir(theirs) if not m.startswith("_") and callable(getattr(theirs, m))}
    assert not {name for name in attributes | methods if not hasattr(ours, name)}


@pytest.mark.parametrize(
    "method", ["fit", "fit_predict", "fit_transform", "predict", "transform", "score"]
)
def test_methods_take_the_arguments_of_scikit_learn(method):
    theirs = inspect.signature(getattr(sklearn.cluster.KMeans, method)).parameters
    ours = inspect.signature(getattr(KMeans, method)).parameters
    assert list(theirs) == list(ours)


def test_the_constructor_only_stores():
    init = [[0.0], [1.0]]
    model = KMeans(n_clusters="nonsense", init=init, tol=-1)
    assert model.get_params()["init"] is init
    assert model.set_params(n_clusters=2).n_clusters == 2


@pytest.mark.parametrize("init", ["random", np.eye(2)], ids=["name", "array"])
def test_clones_and_pickles_and_copies_are_equal(init):
    X = points(d=2)
    model = KMeans(2, init=init, random_state=1).fit(X)
    assert_equal_fits(clone(model).fit(X), model)
    # Copies take the certificate along, with its bound if that was computed.
    assert model.certificate_.lower_bound_kind == "semidefinite"
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert_equal_fits(other, model)
        assert_consistent(other, X)
        assert str(other.certificate_) == str(model.certificate_)


def test_a_clone_is_not_fitted():
    model = clone(KMeans(2).fit(points()))
    for method in ("predict", "transform", "score"):
        with pytest.raises(NotFittedError):
            getattr(model, method)(points())
    with pytest.raises(NotFittedError):
        model.save("nowhere")


def test_it_works_at_the_end_and_in_the_middle_of_pipelines():
    X = points()
    pipe = make_pipeline(StandardScaler(), KMeans(3, random_state=0))
    labels = pipe.fit_predict(X)
    assert np.array_equal(pipe.predict(X), labels)
    weights = np.linspace(0, 1, len(X))
    pipe.fit(X, kmeans__sample_weight=weights)
    assert pipe[-1].inertia_ == -pipe[-1].score(pipe[0].transform(X), sample_weight=weights)
    stacked = make_pipeline(KMeans(3, random_state=0), StandardScaler()).fit_transform(X)
    assert stacked.shape == (len(X), 3)


def test_a_grid_search_finds_the_number_of_clusters_with_the_best_score():
    X, _ = lumps()
    search = GridSearchCV(KMeans(random_state=0), {"n_clusters": [1, 3]}, cv=3).fit(X)
    assert search.best_params_ == {"n_clusters": 3}
    assert np.array_equal(search.predict(X), search.best_estimator_.labels_)


def test_a_feature_union_takes_the_distances():
    X = points()
    union = FeatureUnion([("a", KMeans(2, random_state=0)), ("b", KMeans(3, random_state=0))])
    assert union.fit_transform(X).shape == (len(X), 5)
    assert list(union.get_feature_names_out()) == [
        "a__kmeans0",
        "a__kmeans1",
        "b__kmeans0",
        "b__kmeans1",
        "b__kmeans2",
    ]


@pytest.mark.parametrize("container", ["pandas", "polars"])
@pytest.mark.parametrize("method", ["transform", "fit_transform"])
def test_set_output_returns_frames(container, method):
    frame = pd.DataFrame(points(), columns=list("abcd"), index=np.arange(300) + 7)
    plain = KMeans(3, random_state=0).fit(frame).transform(frame)
    model = KMeans(3, random_state=0).set_output(transform=container).fit(frame)
    result = getattr(model, method)(frame)
    assert type(result).__module__.split(".")[0] == container
    assert list(result.columns) == ["kmeans0", "kmeans1", "kmeans2"]
    assert np.array_equal(result.to_numpy(), plain)
    if container == "pandas":
        assert list(result.index) == list(frame.index)


def test_feature_names_are_kept_and_checked():
    frame = pd.DataFrame(points(), columns=list("abcd"))
    model = KMeans(2, random_state=0).fit(frame)
    assert list(model.feature_names_in_) == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("dcba")])
    with pytest.warns(UserWarning, match="feature names"):
        model.predict(frame.to_numpy())
    model.fit(frame.to_numpy())
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("kind", KINDS)
def test_fit_predict_and_fit_transform_are_shorthands(kind):
    X = points(kind=kind)
    weights = np.linspace(0.5, 2, 300)
    model = KMeans(4, random_state=0).fit(X, sample_weight=weights)
    fresh = clone(model)
    labels = fresh.fit_predict(X, sample_weight=weights)
    assert np.array_equal(labels, model.labels_) and np.array_equal(labels, fresh.labels_)
    distances = clone(model).fit_transform(X, sample_weight=weights)
    assert np.array_equal(distances, model.transform(X))


@pytest.mark.parametrize("kind", KINDS)
def test_transform_gives_euclidean_distances(kind):
    X = points(kind=kind)
    model = KMeans(4, random_state=0).fit(X)
    dense = X.toarray() if sparse.issparse(X) else X
    expected = np.sqrt(
        ((dense[:, None, :].astype(float) - model.cluster_centers_[None]) ** 2).sum(axis=2)
    )
    np.testing.assert_allclose(model.transform(X), expected, rtol=1e-6)
    assert model.transform(X).dtype == model.cluster_centers_.dtype


def test_score_is_minus_the_weighted_sum_of_squares():
    X, new = points(), points(50, seed=9)
    weights = np.random.default_rng(0).uniform(0, 3, size=50)
    model = KMeans(4, random_state=0).fit(X)
    nearest = pairwise_distances(new, model.cluster_centers_).min(axis=1)
    assert model.score(new) == pytest.approx(-(nearest**2).sum())
    assert model.score(new, sample_weight=weights) == pytest.approx(-(weights @ nearest**2))


@pytest.mark.parametrize(
    ("kind", "dtype"), [("float32", np.float32), ("float64", np.float64), ("int", np.float64)]
)
def test_the_dtype_of_the_data_is_kept(kind, dtype):
    model = KMeans(3, random_state=0).fit(points(kind=kind))
    assert model.cluster_centers_.dtype == dtype
    assert model.labels_.dtype == np.int32
    assert isinstance(model.inertia_, float) and isinstance(model.n_iter_, int)


@pytest.mark.parametrize("other", [np.float32, np.float64])
def test_predict_accepts_another_dtype_than_fit(other):
    X = points(kind="int")
    for mine in (np.float32, np.float64):
        model = KMeans(3, random_state=0).fit(X.astype(mine))
        assert np.array_equal(model.predict(X.astype(other)), model.labels_)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("family", ["array", "matrix"])
def test_sparse_data_gives_the_clusters_of_dense_data(kind, family):
    X, _ = lumps()
    X[X < 2] = 0.0
    given = getattr(sparse, f"{kind}_{family}")(X)
    a, b = KMeans(3, random_state=0).fit(X), KMeans(3, random_state=0).fit(given)
    assert np.array_equal(a.labels_, b.labels_)
    np.testing.assert_allclose(a.cluster_centers_, b.cluster_centers_, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(a.transform(X), b.transform(given), rtol=1e-7, atol=1e-7)
    assert np.array_equal(a.predict(given), b.predict(X))


@pytest.mark.parametrize("offset", [0, 100, 10_000, 1_000_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_sparse_column_far_from_zero_does_not_spoil_the_books(offset, weighted):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = np.rint(4 * rng.normal(size=(60, 3)))
        X[:, 0] += offset
        X[rng.random(X.shape) < 0.3] = 0.0
        weights = 10.0 ** rng.uniform(-6, 6, size=60) if weighted else np.ones(60)
        model = KMeans(8, random_state=0).fit(sparse.csr_array(X), sample_weight=weights)
        assert model.certificate_.status.converged
        centers = model.cluster_centers_
        distances = ((X[:, None, :] - centers[None]) ** 2).sum(axis=2)
        # Taking a part of ||c||^2 away from ||c||^2 costs this much of each distance at most.
        bound = 2.0**-52 * 8 * (centers**2).sum(axis=1).max()
        assert abs(model.inertia_ - weights @ distances.min(axis=1)) <= weights.sum() * bound


def test_verbose_prints_one_line_for_every_evaluated_step(capsys):
    model = KMeans(5, random_state=0, verbose=1).fit(points())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(model.trace_) > 1
    assert all("iteration" in line and "gap" in line for line in lines)
    KMeans(5, random_state=0).fit(points())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("algorithm", ["auto", "lloyd", "elkan"])
def test_algorithm_names_give_the_same_bits(algorithm):
    a = KMeans(4, random_state=0, algorithm=algorithm).fit(points())
    assert_equal_fits(a, KMeans(4, random_state=0).fit(points()))


# --- starts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("init", sorted(SEEDINGS))
def test_the_same_seed_gives_the_same_fit(init):
    X = points()
    a, b = (KMeans(6, init=init, random_state=5).fit(X) for _ in range(2))
    assert_equal_fits(a, b)
    c = KMeans(6, init=init, random_state=np.random.RandomState(5)).fit(X)
    assert_equal_fits(a, c)


def test_a_random_state_instance_moves_on():
    state = np.random.RandomState(0)
    model = KMeans(6, init="random", n_init=1, random_state=state, max_iter=1)
    first = fit_quietly(model, points()).cluster_centers_
    assert not np.array_equal(first, fit_quietly(model, points()).cluster_centers_)


def test_the_global_random_state_is_left_alone():
    np.random.seed(0)  # noqa: NPY002 - that is what is tested
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    KMeans(3, random_state=0, empty="resample").fit(points())
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("init", sorted(SEEDINGS))
def test_seeds_are_data_points_of_positive_weight(init):
    X = points()
    weights = np.where(np.arange(300) % 3 == 0, 1.0, 0.0)
    heavy = {tuple(x) for x in X[weights > 0].tolist()}
    for seed in range(10):
        workspace = get_engine("auto").open(X, weights, 1)
        seeds = choose_seeds(workspace, 5, init, np.random.RandomState(seed))
        assert {tuple(s) for s in seeds.tolist()} <= heavy
    model = fit_quietly(KMeans(5, init=init, random_state=0), X, sample_weight=weights)
    assert np.bincount(model.labels_[weights > 0], minlength=5).min() > 0


def test_n_init_keeps_the_best_start():
    X = points(seed=4)
    seeds = np.random.RandomState(3).randint(np.iinfo(np.int32).max, size=8)
    assert len(set(seeds.tolist())) == 8
    many = KMeans(8, init="random", n_init=8, random_state=3).fit(X)
    fewer = [KMeans(8, init="random", n_init=n, random_state=3).fit(X).inertia_ for n in (1, 3)]
    assert many.inertia_ <= fewer[1] <= fewer[0]
    assert many.inertia_ < fewer[0]


def test_n_init_auto_is_ten_for_random_and_callables_and_one_otherwise(capsys):
    X = points(60)

    def starts(init):
        KMeans(3, init=init, random_state=0, verbose=1).fit(X)
        return len({line.split(",")[0] for line in capsys.readouterr().out.splitlines()})

    assert starts("random") == 10
    assert starts(lambda X, k, random_state: X[random_state.permutation(len(X))[:k]]) == 10
    assert starts("k-means++") == starts("plain-k-means++") == starts(X[:3]) == 1


@pytest.mark.parametrize("together", [True, False])
def test_a_callable_init_is_called_as_scikit_learn_calls_it(together, monkeypatch):
    monkeypatch.setattr(ReferencePoints, "runs_together", together)
    X = points()
    calls = []

    def init(data, n_clusters, random_state):
        calls.append((data.shape, n_clusters))
        assert isinstance(random_state, np.random.RandomState)
        return data[:n_clusters]

    model = KMeans(3, init=init, n_init=2, random_state=0, engine="reference").fit(X)
    assert calls == [((300, 4), 3)] * 2
    assert_equal_fits(model, KMeans(3, init=X[:3]).fit(X))


def test_an_array_init_with_several_starts_warns_and_runs_once():
    X = points()
    with pytest.warns(RuntimeWarning, match="only one init.*n_init=4") as caught:
        model = KMeans(3, init=X[:3], n_init=4).fit(X)
    assert caught[0].filename == __file__
    assert_equal_fits(model, KMeans(3, init=X[:3]).fit(X))


@pytest.mark.parametrize("wrap", [np.ndarray.tolist, pd.DataFrame, np.asfortranarray, np.float32])
def test_an_init_of_another_kind_is_the_same_start(wrap):
    X = points(kind="int")
    init = X[:3].astype(float)
    assert_equal_fits(KMeans(3, init=wrap(init)).fit(X), KMeans(3, init=init).fit(X))


# --- always: predict(X) == labels_ and inertia_ == -score(X) ---------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("empty", POLICIES)
@pytest.mark.parametrize("max_iter", [1, 2, 300, None])
@pytest.mark.parametrize("kind", KINDS)
def test_labels_and_inertia_belong_to_the_centers(engine, empty, max_iter, kind):
    X = points(120, kind=kind)
    weights = np.random.default_rng(0).integers(0, 4, size=120).astype(float)
    # Two seeds far outside leave two clusters empty, so that every policy has work to do.
    init = np.vstack([points(3), np.full((2, 4), 1e3)])
    model = KMeans(5, init=init, engine=engine, empty=empty, max_iter=max_iter, random_state=0)
    for given_weights in (None, weights):
        fit_quietly(model, X, sample_weight=given_weights)
        assert_consistent(model, X, given_weights)
        if max_iter is not None:
            assert model.n_iter_ <= max_iter
        if empty != "keep":
            counted = None if given_weights is None else given_weights > 0
            labels = model.labels_ if counted is None else model.labels_[counted]
            assert len(np.unique(labels)) == 5


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("tol_scale", TOLERANCE_SCALES)
@pytest.mark.parametrize("tol", [0.0, 1e-3])
@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_labels_and_inertia_belong_to_the_centers_for_every_rule(stop, tol_scale, tol, kind):
    X = points(kind=kind)
    model = KMeans(6, stop=stop, tol_scale=tol_scale, tol=tol, random_state=0).fit(X)
    assert model.certificate_.status.converged
    assert model.certificate_.stop == stop
    assert_consistent(model, X)
    bound = model.certificate_.max_iterations
    assert bound is None or model.certificate_.iterations <= bound


@settings(
    deadline=None,
    derandomize=True,
    max_examples=400,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(data=st.data())
def test_labels_and_inertia_belong_to_the_centers_on_small_grids(data):
    """Duplicates, ties, empty clusters and zero weights in abundance."""
    n, d = data.draw(st.integers(1, 14)), data.draw(st.integers(1, 3))
    cells = st.lists(st.integers(-2, 2), min_size=n * d, max_size=n * d)
    X = np.array(data.draw(cells), dtype=data.draw(st.sampled_from([np.float32, np.float64])))
    X = X.reshape(n, d) * data.draw(st.sampled_from([1.0, 0.1, 1e6]))
    weights = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(any))
    k = data.draw(st.integers(1, n))
    model = KMeans(
        k,
        init=data.draw(st.sampled_from(sorted(SEEDINGS))),
        empty=data.draw(st.sampled_from(POLICIES)),
        stop=data.draw(st.sampled_from(STOPS)),
        max_iter=data.draw(st.sampled_from([1, 2, 50, None])),
        engine=data.draw(st.sampled_from(ENGINES)),
        random_state=0,
        n_init=1,
        n_threads=1,
    )
    weights = data.draw(st.sampled_from([None, np.array(weights, dtype=float)]))
    fit_quietly(model, X, sample_weight=weights)
    assert_consistent(model, X, weights)
    assert not model.certificate_.status.name.startswith(("DESCENT", "REPEATED"))
    heavy = np.ones(n, bool) if weights is None else weights > 0
    distinct = len(np.unique(X[heavy], axis=0))
    if model.empty != "keep":
        assert len(np.unique(model.labels_[heavy])) == min(k, distinct)


# --- agreement with scikit-learn -------------------------------------------------------------


def _segments():
    from wolfmeans.files.datasets import load_segmentation

    return load_segmentation().standardized()


DATA = {
    "points": lambda: points(),
    "iris": lambda: load_iris().data,
    "blobs": lambda: make_blobs(400, n_features=3, centers=6, cluster_std=2.5, random_state=2)[0],
    "uniform": lambda: np.random.default_rng(8).uniform(size=(500, 2)),
    "segments": _segments,
    "float32": lambda: points(kind="float32"),
}


def _theirs(X, init, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return sklearn.cluster.KMeans(len(init), init=init, n_init=1, **parameters).fit(X)


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("k", [1, 3, 7])
def test_the_label_fixpoint_from_the_same_start_is_that_of_scikit_learn(name, k):
    X = DATA[name]()
    init = X[np.random.default_rng(k).permutation(len(X))[:k]]
    theirs = _theirs(X, init, tol=0.0, max_iter=1000)
    ours = KMeans(k, init=init, stop="stationary", max_iter=1000).fit(X)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-5 if name == "float32" else 1e-9)
    assert np.array_equal(ours.labels_, theirs.labels_)
    assert ours.certificate_.status is Status.STATIONARY


@pytest.mark.parametrize("name", [name for name in DATA if name != "float32"])
@pytest.mark.parametrize("tol", [0.0, 1e-8, 1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("max_iter", [1, 2, 3, 300])
@pytest.mark.parametrize("k", [2, 5])
def test_the_shift_rule_counts_the_iterations_of_scikit_learn(name, tol, max_iter, k):
    X = DATA[name]()
    init = X[np.random.default_rng(17).permutation(len(X))[:k]]
    theirs = _theirs(X, init, tol=tol, max_iter=max_iter)
    ours = fit_quietly(KMeans(k, init=init, stop="shift", tol=tol, max_iter=max_iter), X)
    assert ours.n_iter_ == theirs.n_iter_
    np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol=1e-8, atol=1e-8)
    assert np.array_equal(ours.labels_, theirs.labels_)


def test_the_shift_rule_stops_at_once_at_the_means_as_scikit_learn_does():
    X, truth = lumps()
    init = np.array([X[truth == k].mean(axis=0) for k in range(3)])
    theirs = _theirs(X, init, tol=1e-4)
    assert KMeans(3, init=init, stop="shift", tol=1e-4).fit(X).n_iter_ == theirs.n_iter_


def test_the_shift_rule_counts_the_iterations_of_scikit_learn_with_weights():
    X = points()
    weights = np.random.default_rng(0).uniform(0.1, 5, size=len(X))
    for tol in (0.0, 1e-4, 1e-2):
        theirs = sklearn.cluster.KMeans(4, init=X[:4], tol=tol).fit(X, sample_weight=weights)
        ours = KMeans(4, init=X[:4], stop="shift", tol=tol).fit(X, sample_weight=weights)
        assert ours.n_iter_ == theirs.n_iter_
        np.testing.assert_allclose(ours.cluster_centers_, theirs.cluster_centers_, rtol=1e-8)


def test_three_far_clusters_are_found_with_defaults():
    X, truth = lumps()
    assert same_partition(KMeans(3, random_state=0).fit(X).labels_, truth)


# --- endings ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", ["decrease", "gap", "stationary", "shift"])
def test_hitting_the_iteration_limit_is_said(stop):
    X = points()
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model = KMeans(8, init=X[:8], max_iter=2, stop=stop, tol=0.0).fit(X)
    assert model.n_iter_ == 2
    assert model.certificate_.status is Status.MAX_ITER
    assert not model.certificate_.status.converged
    assert "not converged" in str(model.certificate_).lower()
    assert model.certificate_.verdict.startswith("Not converged")
    assert model.certificate_.to_dict()["converged"] is False


def test_hitting_the_time_limit_is_said_and_ends_the_starts():
    X = points()
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model = KMeans(8, init="random", n_init=5, random_state=0, time_limit=0.0).fit(X)
    assert model.certificate_.status is Status.TIME_LIMIT
    assert model.n_iter_ == 1
    assert_consistent(model, X)


def test_warnings_point_at_the_callers_line():
    with pytest.warns(ConvergenceWarning) as caught:
        KMeans(8, init=points()[:8], max_iter=2, tol=0.0).fit(points())
    assert caught[0].filename == __file__


@pytest.mark.parametrize("method", ["fit_predict", "fit_transform"])
def test_warnings_of_shorthands_point_at_the_callers_line(method):
    with pytest.warns(ConvergenceWarning) as caught:
        getattr(KMeans(8, init=points()[:8], max_iter=2, tol=0.0), method)(points())
    assert caught[0].filename == __file__


def test_a_limit_that_is_not_reached_changes_nothing():
    X = points()
    a = KMeans(5, random_state=0).fit(X)
    assert_equal_fits(a, KMeans(5, random_state=0, max_iter=a.n_iter_).fit(X))
    assert_equal_fits(a, KMeans(5, random_state=0, max_iter=None, time_limit=1e6).fit(X))


def test_a_true_callback_ends_the_run():
    X = points()
    seen = []

    def stop_at_second(record):
        seen.append(record.t)
        return len(seen) == 2

    with pytest.warns(ConvergenceWarning, match="callback"):
        model = KMeans(8, init=X[:8], callback=stop_at_second, tol=0.0).fit(X)
    assert seen == [0, 1]
    assert model.certificate_.status is Status.CALLBACK
    assert_consistent(model, X)


def _raising(record):
    raise KeyError("from the callback")


def test_a_raising_callback_leaves_the_estimator_unfitted():
    model = KMeans(3, callback=_raising)
    with pytest.raises(KeyError, match="from the callback"):
        model.fit(points())
    for method in ("predict", "transform", "score"):
        with pytest.raises(NotFittedError):
            getattr(model, method)(points())


def test_starts_that_the_time_limit_prevented_are_said():
    begun = []

    def slow(X, n_clusters, random_state):
        begun.append(None)
        time.sleep(0.05)
        return X[random_state.choice(len(X), n_clusters, replace=False)]

    model = KMeans(3, init=slow, n_init=100, time_limit=0.2)
    with pytest.warns(ConvergenceWarning, match=r"of 100 starts"):
        model.fit(points())
    assert len(begun) < 100
    assert any("of 100 starts" in note for note in model.certificate_.notes)


def test_the_first_among_equal_starts_is_kept():
    X = np.array([[0.0], [1.0], [8.0], [9.0]])
    orders = iter([[0.0, 8.0], [8.0, 0.0], [0.0, 8.0]])
    model = KMeans(2, init=lambda X, k, random_state: np.array([next(orders)]).T, n_init=3)
    assert model.fit(X).labels_.tolist() == [0, 0, 1, 1]


def test_a_failed_fit_leaves_the_earlier_fit_whole():
    X = points()
    model = KMeans(3, random_state=0).fit(X)
    labels = model.labels_.copy()
    with pytest.raises(KeyError):
        model.set_params(callback=_raising).fit(X[:, :2])
    assert np.array_equal(model.predict(X), labels)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("init", sorted(SEEDINGS))
@pytest.mark.parametrize("empty", POLICIES)
def test_fewer_distinct_points_than_clusters_warn_and_end(engine, init, empty):
    X = np.repeat([[0.0, 1.0], [2.0, 5.0]], 10, axis=0)
    model = KMeans(4, init=init, empty=empty, engine=engine, random_state=0, n_init=5)
    with pytest.warns(ConvergenceWarning, match="distinct clusters|clusters are empty"):
        model.fit(X)
    assert_consistent(model, X)
    assert model.inertia_ == 0.0
    assert model.certificate_.status.converged
    assert np.isfinite(model.cluster_centers_).all()


def test_one_point_is_its_own_cluster():
    model = KMeans(1).fit([[3.0, 4.0]])
    assert model.inertia_ == 0.0
    assert model.cluster_centers_.tolist() == [[3.0, 4.0]]


def test_as_many_clusters_as_points_cost_nothing():
    X = points(20)
    model = KMeans(20, random_state=0).fit(X)
    assert model.inertia_ == 0.0
    assert sorted(model.labels_.tolist()) == list(range(20))


# --- the same bits ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["float64", "float32", "int"])
@pytest.mark.parametrize("d", [1, 5, 33])
def test_threads_and_engines_do_not_change_a_bit(kind, d):
    X = points(700, d=d, kind=kind)
    weights = np.random.default_rng(0).uniform(0, 2, size=700)
    for given_weights in (None, weights):
        base = KMeans(9, engine="reference", random_state=0).fit(X, sample_weight=given_weights)
        for n_threads in (1, 2, 3):
            other = KMeans(9, engine="cpu", n_threads=n_threads, random_state=0)
            other.fit(X, sample_weight=given_weights)
            assert_equal_fits(base, other)
            assert np.array_equal(base.transform(X), other.transform(X))


@pytest.mark.parametrize("init", sorted(SEEDINGS))
@pytest.mark.parametrize("kind", ["float64", "csr"])
def test_shuffling_the_rows_gives_the_same_clustering(init, kind):
    X = points(kind=kind)
    order = np.random.default_rng(1).permutation(300)
    a = KMeans(6, init=init, random_state=2, n_init=2).fit(X)
    b = KMeans(6, init=init, random_state=2, n_init=2).fit(X[order])
    assert np.array_equal(a.labels_[order], b.labels_)
    assert np.array_equal(a.cluster_centers_, b.cluster_centers_)
    assert a.inertia_ == b.inertia_


@pytest.mark.parametrize("empty", POLICIES)
def test_shuffling_the_rows_does_not_change_what_becomes_of_empty_clusters(empty):
    X = points(600)
    init = np.vstack([X[:3], np.full((3, 4), 1e3)])
    order = np.random.default_rng(1).permutation(600)
    model = KMeans(6, init=init, empty=empty, random_state=2)
    a = fit_quietly(clone(model), X)
    b = fit_quietly(clone(model), X[order])
    assert np.array_equal(a.labels_[order], b.labels_)
    assert a.inertia_ == b.inertia_


@pytest.mark.parametrize("init", ["array", "k-means++", "plain-k-means++"])
@pytest.mark.parametrize("stop", STOPS)
def test_integer_weights_are_copies(init, stop):
    X = points(150)
    weights = np.random.default_rng(4).integers(0, 4, size=150)
    given_init = X[:4] if init == "array" else init
    model = KMeans(4, init=given_init, stop=stop, tol_scale="total", random_state=1)
    weighted = clone(model).fit(X, sample_weight=weights)
    copies = clone(model).fit(np.repeat(X, weights, axis=0))
    assert np.array_equal(weighted.cluster_centers_, copies.cluster_centers_)
    assert np.array_equal(np.repeat(weighted.labels_, weights), copies.labels_)
    assert weighted.inertia_ == copies.inertia_


def test_constant_weights_scale_the_inertia_alone():
    X = points()
    a = KMeans(4, random_state=0).fit(X)
    b = KMeans(4, random_state=0).fit(X, sample_weight=np.full(300, 4.0))
    assert np.array_equal(a.labels_, b.labels_)
    assert np.array_equal(a.cluster_centers_, b.cluster_centers_)
    assert b.inertia_ == 4.0 * a.inertia_


def test_points_of_weight_zero_do_not_count():
    X = points()
    weights = np.ones(300)
    weights[::3] = 0.0
    far = X.copy()
    far[::3] += 1e6
    a = KMeans(4, init=X[1:5]).fit(X, sample_weight=weights)
    b = KMeans(4, init=X[1:5]).fit(far, sample_weight=weights)
    assert np.array_equal(a.cluster_centers_, b.cluster_centers_)
    assert a.inertia_ == b.inertia_


@pytest.mark.parametrize("kind", [KMeans, TrimmedKMeans])
def test_rows_are_released_with_the_fit_and_not_by_the_collector(kind):
    """A cycle of references would keep the data in memory until the garbage collector runs."""
    X = np.random.default_rng(0).normal(size=(300, 2))
    gc.disable()
    try:
        kind(3, random_state=0, n_init=1).fit(X)
        known = weakref.ref(X)
        del X
        assert known() is None
    finally:
        gc.enable()
