"""The same assertions at every place: results have the bits of the reference engine."""

import numpy as np
import pytest

from difficult import points
from everywhere import IN_PARTS, fit_at
from wolfmeans import KMeans, TrimmedKMeans

# Clusters that stay empty are part of the problems.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
KINDS = ("blobs", "lattice", "duplicates", "offset", "outliers")
TRACED = ("t", "value", "gap", "movement", "moved", "empty", "shift")


def weights_of(kind, n):
    rng = np.random.default_rng(3)
    return {
        "ones": None,
        "some zero": rng.integers(0, 3, size=n) * 1.0,
        "any": np.ldexp(1.0 + rng.random(n), rng.integers(-6, 6, size=n)),
    }[kind]


def assert_same(model, reference):
    """Compare everything that a fit says, by ==."""
    assert np.array_equal(model.cluster_centers_, reference.cluster_centers_)
    assert model.cluster_centers_.dtype == reference.cluster_centers_.dtype
    assert np.array_equal(model.initial_centers_, reference.initial_centers_)
    assert np.array_equal(np.asarray(model.labels_), np.asarray(reference.labels_))
    assert model.inertia_ == reference.inertia_
    assert model.n_iter_ == reference.n_iter_
    for name in TRACED:
        ours, theirs = ([getattr(r, name) for r in m.trace_] for m in (model, reference))
        assert np.array_equal(ours, theirs, equal_nan=True), name
    for name in ("status", "gap", "movement", "clarke_gap", "local_optimality", "empty_clusters"):
        assert getattr(model.certificate_, name) == getattr(reference.certificate_, name), name


def check(place, make, X, weights=None):
    reference = fit_at("reference", make(), X, weights)
    model = fit_at(place, make(), X, weights, rows=17)
    assert_same(model, reference)
    return model, reference


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", KINDS)
def test_steps_from_given_centers(place, kind, dtype):
    X = points(kind, 90, 3, dtype)
    check(place, lambda: KMeans(5, init=X[:5], n_init=1, stop="stationary", bound=None), X)


@pytest.mark.parametrize("weights", ["some zero", "any"])
def test_weighted_steps(place, weights):
    X = points("blobs", 90, 3)
    heavy = weights_of(weights, len(X))
    check(place, lambda: KMeans(5, init=X[:5], n_init=1, bound=None), X, heavy)


@pytest.mark.parametrize("weights", ["ones", "some zero"])
def test_seeds_of_oversampling(place, weights):
    X = points("duplicates", 90, 3)
    heavy = weights_of(weights, len(X))
    make = lambda: KMeans(4, init="k-means||", random_state=2, bound=None)  # noqa: E731
    check(place, make, X, heavy)


@pytest.mark.parametrize("init", ["k-means++", "plain-k-means++", "random"])
def test_seeds_that_need_all_points(place, init):
    if place in IN_PARTS:
        pytest.skip("data in parts draws seeds by k-means||")
    X = points("blobs", 90, 3)
    check(place, lambda: KMeans(4, init=init, n_init=2, random_state=2, bound=None), X)


@pytest.mark.parametrize("policy", ["keep", "farthest"])
def test_empty_clusters(place, policy):
    X = points("plain", 80, 3)
    far = np.vstack([X[:2], X[:2] + 1e3, X[2:4] - 1e3])
    make = lambda: KMeans(6, init=far, n_init=1, empty=policy, bound=None)  # noqa: E731
    check(place, make, X)


@pytest.mark.parametrize("weights", ["ones", "some zero", "any"])
@pytest.mark.parametrize("kind", ["outliers", "lattice"])
def test_trimmed_steps(place, kind, weights):
    X = points(kind, 90, 3)
    heavy = weights_of(weights, len(X))
    make = lambda: TrimmedKMeans(4, alpha=0.1, init=X[:4], n_init=1, bound=None)  # noqa: E731
    model, reference = check(place, make, X, heavy)
    assert model.n_trimmed_ == reference.n_trimmed_
    assert model.radius_ == reference.radius_
    assert np.array_equal(np.asarray(model.kept_), np.asarray(reference.kept_))
    assert np.array_equal(np.asarray(model.margins_), np.asarray(reference.margins_))


@pytest.mark.parametrize("rule", ["decrease", "gap", "shift"])
def test_stopping_rules(place, rule):
    X = points("blobs", 90, 3)
    make = lambda: KMeans(6, init=X[:6], n_init=1, stop=rule, tol=1e-2, bound=None)  # noqa: E731
    check(place, make, X)


def test_predictions_and_scores(place):
    X = points("blobs", 90, 3)
    model, reference = check(place, lambda: KMeans(5, init=X[:5], n_init=1, bound=None), X)
    model.set_params(engine="auto")
    assert np.array_equal(model.predict(X), reference.predict(X))
    assert np.array_equal(model.transform(X), reference.transform(X))
    assert model.score(X) == reference.score(X)
