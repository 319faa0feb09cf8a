"""Whole fits on the device, by == with those on the CPU: centers, labels, trace, certificate."""

import dataclasses
import math

import numpy as np
import pytest

from difficult import points
from interpreted import needs_triton
from wolfmeans import KMeans, SphericalKMeans, TrimmedSphericalKMeans
from wolfmeans.fitting import multilevel
from wolfmeans.seeding import methods

pytest.importorskip("wolfmeans.exact._native")
pytestmark = [
    needs_triton,
    # Some of these fits are cut short, to save time.
    pytest.mark.filterwarnings("ignore:Not converged"),
]

_OF_THE_MACHINE = {"engine", "seconds"}


def assert_same_models(here, there):
    assert (here.engine_, there.engine_) == ("cpu", "gpu")
    assert there.labels_.dtype == here.labels_.dtype
    assert there.labels_.tolist() == here.labels_.tolist()
    assert there.cluster_centers_.dtype == here.cluster_centers_.dtype
    for name in ("cluster_centers_", "initial_centers_"):
        assert np.array_equal(getattr(there, name), getattr(here, name)), name
    assert (there.inertia_, there.n_iter_) == (here.inertia_, here.n_iter_)
    for column in ("t", "sse", "gap", "movement", "moved", "empty", "shift"):
        pair = (getattr(model.trace_, column) for model in (there, here))
        assert np.array_equal(*pair, equal_nan=True), column
    for field in dataclasses.fields(here.certificate_):
        if field.name not in _OF_THE_MACHINE:
            pair = (getattr(model.certificate_, field.name) for model in (there, here))
            assert_equal(*pair, field.name)


def assert_equal(found, expected, name):
    same = found == expected
    if isinstance(found, float) and math.isnan(found):
        same = math.isnan(expected)
    assert same, name


def fitted(X, **settings):
    """Fit on both engines, compare, and return both; from given seeds, for speed, if not told."""
    n_clusters = settings.setdefault("n_clusters", 4)
    settings = {"init": X[:n_clusters], "random_state": 0, "n_init": 1, **settings}
    here, there = (KMeans(engine=engine, **settings).fit(X) for engine in ("cpu", "gpu"))
    assert_same_models(here, there)
    return here, there


@pytest.mark.parametrize(
    ("kind", "d", "dtype", "settings"),
    [
        ("blobs", 2, "float32", {"init": "plain-k-means++"}),
        ("blobs", 12, "float64", {"stop": "stationary"}),
        ("plain", 3, "float32", {"stop": "shift", "tol": 1e-2}),
        ("lattice", 2, "float32", {"stop": "stationary"}),
        ("outliers", 9, "float64", {"init": "random"}),
        ("offset", 3, "float64", {"bound": "spectral"}),
        ("denormal", 2, "float32", {}),
        ("plain", 1, "float64", {}),
        ("plain", 3, "float32", {"polish": "hartigan", "tol": 1e-2}),
        ("heavy tails", 2, "float32", {"init": "k-means||", "bound": None, "max_iter": 4}),
    ],
)
def test_fits_have_the_bits_of_the_cpu(kind, d, dtype, settings):
    fitted(points(kind, 30, d, dtype), **{"max_iter": 4, **settings})


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(SphericalKMeans, {}), (TrimmedSphericalKMeans, {"trim": 3, "n_init": 2})],
)
def test_spherical_fits_have_the_bits_of_the_cpu(kind, settings):
    X = points("blobs", 30, 5, "float32")
    here, there = (
        kind(4, engine=engine, random_state=0, max_iter=4, **settings).fit(X)
        for engine in ("cpu", "gpu")
    )
    assert_same_models(here, there)


def test_the_multilevel_start_has_the_bits_of_the_cpu(monkeypatch):
    for name, value in {
        "FEWEST_ROWS": 100,
        "_FEWEST_SAMPLED": 20,
        "_SAMPLED_PER_CLUSTER": 4,
        "_FEWEST_PER_CLUSTER": 20,
    }.items():
        monkeypatch.setattr(methods, name, value)
    monkeypatch.setattr(multilevel, "_ENOUGH_PER_CLUSTER", 4)
    here, _ = fitted(points("blobs", 200, 3, "float32"), init="multilevel")
    # It is not the seeds of few rows that are compared.
    greedy = KMeans(4, init="k-means++", random_state=0, max_iter=4, n_init=1)
    greedy.fit(points("blobs", 200, 3, "float32"))
    assert not np.array_equal(here.initial_centers_, greedy.initial_centers_)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_more_clusters_than_distinct_points():
    fitted(points("duplicates", 30, 2), n_clusters=8, bound=None)


@pytest.mark.filterwarnings("ignore:The squared distances")
@pytest.mark.parametrize("scale", [1e200, 5e-324])
def test_scales_whose_squares_do_not_fit(scale):
    fitted(np.round(points("plain", 30, 2) * 8) * scale, n_clusters=3, max_iter=3)


@pytest.mark.filterwarnings("ignore:.* empty")
@pytest.mark.parametrize(
    ("empty", "d"),
    [("keep", 2), ("resample", 2), ("farthest", 10), ("best", 10), ("admissible", 2)],
)
def test_empty_clusters(empty, d):
    X = points("blobs", 30, d, "float32")
    init = X[:4].copy()
    init[1] += 1e4
    here, _ = fitted(X, init=init, empty=empty, bound=None, max_iter=5)
    assert (np.bincount(here.labels_, minlength=4).min() == 0) == (empty == "keep")


def test_several_starts():
    X = points("plain", 40, 3, "float32", seed=5)
    here, _ = fitted(X, init="random", n_init=2, bound=None, max_iter=2)
    first = KMeans(4, init="random", n_init=1, random_state=0, engine="cpu", max_iter=2).fit(X)
    assert here.inertia_ <= first.inertia_


@pytest.mark.parametrize(("d", "dtype"), [(3, "float32"), (10, "float64")])
def test_predict_transform_and_score(d, dtype):
    X = points("plain", 30, d, dtype)
    here, there = fitted(X, bound=None, max_iter=3)
    assert there.predict(X).tolist() == there.labels_.tolist()
    assert there.score(X) == here.score(X) == -there.inertia_
    # New points, also of the other precision, not contiguous, and one of them far away.
    new = points("outliers", 20, d, "float64" if dtype == "float32" else "float32", seed=9)
    for given in (np.asfortranarray(new), new[::2], new[:1]):
        assert there.predict(given).tolist() == here.predict(given).tolist()
    assert there.score(new) == here.score(new)
    assert np.array_equal(there.transform(new), here.transform(new))


def test_a_second_fit_is_like_the_first():
    X, other = points("blobs", 30, 3, "float32"), points("blobs", 20, 10)
    model = KMeans(3, init="random", n_init=1, random_state=0, engine="gpu", bound=None)
    centers = model.fit(X).cluster_centers_.copy()
    model.fit(other)
    assert model.cluster_centers_.shape == (3, 10)
    assert np.array_equal(model.fit(X).cluster_centers_, centers)
    # From its own fixpoint nothing moves.
    again = KMeans(3, init=centers, engine="gpu", stop="stationary", bound=None).fit(X)
    assert again.labels_.tolist() == model.labels_.tolist()


def test_points_that_may_not_be_written_to():
    X = points("plain", 20, 3, "float32")
    X.setflags(write=False)
    fitted(X, bound=None, max_iter=2)


def test_a_callback_sees_every_step():
    X = points("plain", 40, 3)
    seen = {}
    for engine in ("cpu", "gpu"):
        records = seen.setdefault(engine, [])
        KMeans(
            4, init=X[:4], n_init=1, engine=engine, bound=None, max_iter=3, stop="stationary",
            callback=lambda record, records=records: records.append((record.t, record.gap)),
        ).fit(X)  # fmt: skip
    assert seen["cpu"] == seen["gpu"]
    assert len(seen["gpu"]) > 1
