"""`initial_centers_`: from there the returned run is repeated, bit for bit."""

import zipfile

import numpy as np
import pytest
from scipy import sparse

import wolfmeans
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.fitting import fit
from wolfmeans.fitting.search import Effort


def points(n=400, d=3, seed=0):
    """Overlapping clusters, so that a run takes more than a few steps."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * 2 + 3.0 * rng.integers(0, 4, size=(n, 1))


def assert_repeats(model, X, **fitted_with):
    """The same estimator from `initial_centers_` alone comes to the same bits by the same way."""
    again = type(model)(**{**model.get_params(), "init": model.initial_centers_, "n_init": 1})
    again.fit(X, **fitted_with)
    for name in ("cluster_centers_", "labels_", "initial_centers_"):
        assert np.array_equal(getattr(again, name), getattr(model, name)), name
    assert again.inertia_ == model.inertia_
    assert again.n_iter_ == model.n_iter_
    for name, column in model.trace_.columns().items():
        if name != "seconds":
            assert np.array_equal(getattr(again.trace_, name), column, equal_nan=True), name


SETTINGS = {
    "plain": {},
    "one of many, together": {"n_init": 7, "init": "random"},
    "one of many, one by one": {"n_init": 4, "init": "random", "callback": lambda record: None},
    "reference": {"engine": "reference", "n_init": 3},
    "hartigan": {"polish": "hartigan", "n_init": 3, "init": "random"},
    "cut short": {"max_iter": 3},
    "k-means||": {"init": "k-means||"},
    "callable": {"init": lambda X, k, random_state: X[random_state.choice(len(X), k)]},
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_run_is_repeated_from_its_initial_centers(settings, dtype):
    X = points().astype(dtype)
    model = KMeans(5, random_state=3, **SETTINGS[settings]).fit(X)
    assert model.initial_centers_.shape == (5, 3)
    assert model.initial_centers_.dtype == dtype
    assert not np.array_equal(model.initial_centers_, model.cluster_centers_)
    assert_repeats(model, X)


def test_a_polish_with_draws_is_repeated_when_there_was_one_start():
    X = points()
    assert_repeats(KMeans(6, init="random", n_init=1, polish="swap", random_state=0).fit(X), X)


def test_a_search_leaves_where_its_last_run_began(monkeypatch):
    X = points(n=600)
    better = KMeans(12, n_init=20, random_state=1).fit(X)
    effort = Effort(0.1, 1, 1, 1, 0, before=1.0, after=0.5)
    monkeypatch.setattr(fit, "search", lambda *_, **__: (better.initial_centers_, effort))
    model = KMeans(12, init=X[:12], n_init=1, effort=1000.0).fit(X)
    assert model.certificate_.effort.gained > 0
    assert np.array_equal(model.initial_centers_, better.initial_centers_)
    again = KMeans(12, init=model.initial_centers_, n_init=1, polish="hartigan").fit(X)
    assert np.array_equal(again.cluster_centers_, model.cluster_centers_)
    assert np.array_equal(again.labels_, model.labels_)


@pytest.mark.filterwarnings("ignore:The squared distances of X are outside:RuntimeWarning")
@pytest.mark.parametrize("exponent", [-900, -480, 0, 700])
def test_initial_centers_are_in_the_units_of_the_data(exponent):
    X = np.ldexp(points(), exponent)
    model = KMeans(4, random_state=0).fit(X)
    rows = {row.tobytes() for row in X}
    assert all(center.tobytes() in rows for center in model.initial_centers_)
    assert_repeats(model, X)


def test_weights_and_sparse_data():
    X = points()
    weights = np.linspace(0, 2, len(X))
    assert_repeats(
        KMeans(4, random_state=0).fit(X, sample_weight=weights), X, sample_weight=weights
    )
    rows = sparse.csr_array(np.where(np.abs(X) > 2, X, 0.0))
    model = KMeans(4, random_state=0, n_init=2).fit(rows)
    assert isinstance(model.initial_centers_, np.ndarray)
    assert_repeats(model, rows)


@pytest.mark.parametrize("n_init", ["auto", 3, 1])
@pytest.mark.parametrize("n", [300, 25_000])
def test_trimmed_runs_are_repeated(n, n_init):
    X = points(n)
    X[:: n // 20] *= 50
    model = TrimmedKMeans(3, alpha=0.1, n_init=n_init, random_state=0).fit(X)
    assert_repeats(model, X)


def test_initial_centers_belong_to_the_model_alone():
    init = points(4)
    model = KMeans(4, init=init, n_init=1, max_iter=50).fit(points())
    assert np.array_equal(model.initial_centers_, init)
    assert not np.shares_memory(model.initial_centers_, init)


def test_they_are_kept_in_files_and_missing_in_older_ones(tmp_path):
    X = points()
    model = KMeans(3, random_state=0).fit(X)
    model.save(tmp_path / "model.wolf")
    again = wolfmeans.load(tmp_path / "model.wolf")
    assert np.array_equal(again.initial_centers_, model.initial_centers_)
    with zipfile.ZipFile(tmp_path / "model.wolf") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    del members["initial_centers_.npy"]
    with zipfile.ZipFile(tmp_path / "older.wolf", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    older = wolfmeans.load(tmp_path / "older.wolf")
    assert not hasattr(older, "initial_centers_")
    assert np.array_equal(older.predict(X), model.labels_)
    members["initial_centers_.npy"] = members["labels_.npy"]
    with zipfile.ZipFile(tmp_path / "odd.wolf", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(ValueError, match="initial_centers_ has shape"):
        wolfmeans.load(tmp_path / "odd.wolf")
