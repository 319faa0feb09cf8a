"""CentroidClustering: divergences against plain loops and against all partitions."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from wolfmeans import CentroidClustering, Divergence, KMeans, Status
from wolfmeans.divergences import DIVERGENCES, ItakuraSaito, KullbackLeibler, Manhattan, Mixed

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class Mahalanobis(Divergence):
    """A divergence as a user would write it."""

    name = "squared Mahalanobis distances"
    unique_centers = True

    def __init__(self, precision):
        self.precision = np.asarray(precision, dtype=float)

    def distances(self, X, centers):
        apart = X[:, None] - centers
        return np.einsum("nki,ij,nkj->nk", apart, self.precision, apart)

    def center(self, X, weights):
        return np.average(X, axis=0, weights=weights)


class Poincare(Divergence):
    """Hyperbolic distances in the unit disc; the best of the points is the center."""

    name = "hyperbolic distances"

    def check(self, X):
        if (np.linalg.norm(X, axis=1) >= 1).any():
            raise ValueError("points must be inside the unit ball")

    def distances(self, X, centers):
        squares = ((X[:, None] - centers) ** 2).sum(axis=2)
        inside = (1 - (X**2).sum(axis=1))[:, None] * (1 - (centers**2).sum(axis=1))
        return np.arccosh(1 + 2 * squares / inside)

    def center(self, X, weights):
        return X[(weights @ self.distances(X, X)).argmin()]


# Independent of the package: one point, one center, plain Python.
def scalar(name):
    def kl(x, c):
        return sum((a * math.log(a / b) if a else 0.0) - a + b for a, b in zip(x, c, strict=True))

    def itakura(x, c):
        return sum(a / b - math.log(a / b) - 1 for a, b in zip(x, c, strict=True))

    def manhattan(x, c):
        return sum(abs(a - b) for a, b in zip(x, c, strict=True))

    def modes(x, c):
        return float(sum(a != b for a, b in zip(x, c, strict=True)))

    def mixed(x, c):
        return (x[0] - c[0]) ** 2 + 0.7 * modes(x[1:], c[1:])

    return {
        "kullback-leibler": kl,
        "itakura-saito": itakura,
        "manhattan": manhattan,
        "modes": modes,
        "mixed": mixed,
    }[name]


def candidates(name, X, w, j):
    """Values among which the best center coordinate is, for a set of points."""
    if name in ("kullback-leibler", "itakura-saito") or (name == "mixed" and j == 0):
        return [float((w @ X[:, j]) / w.sum())]
    return sorted(set(X[:, j].tolist()))


def cost_of_cluster(name, X, w):
    """The cost of a cluster at its best center, coordinate by coordinate."""
    if not len(X):
        return 0.0
    center = []
    for j in range(X.shape[1]):

        def cost(value, j=j):
            center_j, x = X[0].copy(), X.copy()
            others = [i for i in range(X.shape[1]) if i != j]
            x[:, others] = center_j[others]
            center_j[j] = value
            return sum(
                weight * scalar(name)(row, center_j) for weight, row in zip(w, x, strict=True)
            )

        center.append(min(candidates(name, X, w, j), key=cost))
    return sum(weight * scalar(name)(row, center) for weight, row in zip(w, X, strict=True))


def table(name, n, seed):
    rng = np.random.default_rng(seed)
    if name == "modes":
        return rng.integers(0, 3, size=(n, 3)).astype(float)
    if name == "mixed":
        return np.column_stack([rng.normal(size=n), rng.integers(0, 3, size=(n, 2))])
    if name == "manhattan":
        return rng.normal(size=(n, 2))
    X = rng.gamma(1.0, size=(n, 2)) + 0.01
    if name == "kullback-leibler":
        X[rng.uniform(size=X.shape) < 0.2] = 0.0
    return X


def divergence(name):
    return Mixed([1, 2], gamma=0.7) if name == "mixed" else name


NAMES = ["manhattan", "kullback-leibler", "itakura-saito", "modes", "mixed"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_many_starts_find_the_best_of_all_partitions(name, seed):
    n, k = 7, 2
    X = table(name, n, seed)
    w = np.random.default_rng(seed).integers(1, 4, size=n).astype(float)
    optimum = math.inf
    for rest in itertools.product(range(k), repeat=n - 1):
        labels = np.array([0, *rest])
        costs = [cost_of_cluster(name, X[labels == j], w[labels == j]) for j in range(k)]
        optimum = min(optimum, sum(costs))
    model = CentroidClustering(k, divergence=divergence(name), n_init=60, random_state=0)
    model.fit(X, sample_weight=w)
    assert model.inertia_ == pytest.approx(optimum, rel=1e-9, abs=1e-12)
    bound = model.certify(X, sample_weight=w, seconds=1).proven_bound
    assert 0 <= bound <= optimum * (1 + 1e-12)
    if name != "modes":
        assert bound > 0


@pytest.mark.parametrize("name", NAMES)
def test_labels_and_inertia_by_a_plain_loop(name):
    X = table(name, 40, seed=9)
    model = CentroidClustering(3, divergence=divergence(name), random_state=0).fit(X)
    total = 0.0
    for row, label in zip(X, model.labels_, strict=True):
        far = [scalar(name)(row, center) for center in model.cluster_centers_]
        assert far[label] <= min(far) + 1e-12
        total += far[label]
    assert model.inertia_ == pytest.approx(total, rel=1e-12)
    assert model.transform(X).shape == (40, 3)
    # Each center is the best one of its cluster.
    for k in range(3):
        own = X[model.labels_ == k]
        spent = sum(scalar(name)(row, model.cluster_centers_[k]) for row in own)
        assert spent <= cost_of_cluster(name, own, np.ones(len(own))) * (1 + 1e-12) + 1e-12


def lloyd_medians(X, centers):
    labels = None
    while True:
        new = np.abs(X[:, None] - centers).sum(axis=2).argmin(axis=1)
        if labels is not None and np.array_equal(new, labels):
            return labels, centers
        labels = new
        for k in range(len(centers)):
            own = X[labels == k]
            if not len(own):
                continue
            median = np.quantile(own, 0.5, axis=0, method="inverted_cdf")
            # Where two medians are as good, the center stays.
            gains = np.abs(own - centers[k]).sum(axis=1), -np.abs(own - median).sum(axis=1)
            if math.fsum(np.concatenate(gains)) > 0:
                centers[k] = median


@pytest.mark.parametrize("seed", range(5))
def test_k_medians_by_a_plain_loop(seed):
    X = np.random.default_rng(seed).normal(size=(60, 3))
    model = CentroidClustering(4, init=X[:4], stop="stationary", empty="keep").fit(X)
    labels, centers = lloyd_medians(X, X[:4].copy())
    assert np.array_equal(model.labels_, labels)
    assert np.array_equal(model.cluster_centers_, centers)


def test_squared_distances_are_k_means():
    X = np.random.default_rng(0).normal(size=(200, 3))
    ours = CentroidClustering(5, divergence="squared-euclidean", init=X[:5], stop="stationary")
    ours.fit(X)
    km = KMeans(5, init=X[:5], n_init=1, stop="stationary").fit(X)
    assert np.array_equal(ours.labels_, km.labels_)
    assert ours.inertia_ == pytest.approx(km.inertia_, rel=1e-12)
    assert ours.trace_.gap == pytest.approx(km.trace_.gap, rel=1e-9, abs=1e-12)
    assert ours.certificate_.local_optimality == km.certificate_.local_optimality


def test_mahalanobis_is_k_means_of_turned_points():
    rng = np.random.default_rng(1)
    X, turn = rng.normal(size=(150, 3)), rng.normal(size=(3, 3))
    model = CentroidClustering(4, divergence=Mahalanobis(turn @ turn.T), init=X[:4])
    model.set_params(stop="stationary").fit(X)
    km = KMeans(4, init=(X @ turn)[:4], n_init=1, stop="stationary").fit(X @ turn)
    assert np.array_equal(model.labels_, km.labels_)
    assert model.inertia_ == pytest.approx(km.inertia_, rel=1e-9)
    certificate = model.certificate_
    assert certificate.lower_bound is None
    assert "no lower bound is known for this divergence" in certificate.notes
    assert "sum of squared Mahalanobis distances" in str(certificate)
    with pytest.raises(ValueError, match="no lower bound is known"):
        model.certify(X)


def test_poincare_descends_though_its_centers_are_points():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(90, 2))
    X *= (0.95 * rng.uniform(size=90) ** 0.5 / np.linalg.norm(X, axis=1))[:, None]
    model = CentroidClustering(3, divergence=Poincare(), random_state=0, stop="stationary").fit(X)
    assert model.certificate_.status is Status.STATIONARY
    assert (model.trace_.movement >= 0).all()
    with pytest.raises(ValueError, match="inside the unit ball"):
        model.predict([[2.0, 0.0]])


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from([*NAMES, "squared-euclidean"]),
    st.integers(0, 10_000),
    st.integers(1, 5),
    st.booleans(),
    st.sampled_from(["farthest", "keep"]),
)
def test_descent_ledger_and_guarantee(name, seed, k, weighted, empty):
    n = 6 + seed % 20
    X = table("manhattan" if name == "squared-euclidean" else name, n, seed)
    w = np.random.default_rng(seed).integers(0, 3, size=n) + (np.arange(n) == 0)
    w = w.astype(float) if weighted else None
    model = CentroidClustering(
        k,
        divergence=divergence(name),
        n_init=2,
        random_state=seed,
        stop="gap",
        tol=1e-4,
        max_iter=None,
        empty=empty,
    ).fit(X, sample_weight=w)
    trace, certificate = model.trace_, model.certificate_
    assert certificate.status.converged
    assert (trace.gap >= -1e-15 * trace.sse[0]).all()
    assert (trace.movement >= 0).all()
    falls = trace.sse[:-1] - trace.sse[1:]
    assert falls == pytest.approx(trace.decrease[:-1], rel=1e-9, abs=1e-12 * (1 + trace.sse[0]))
    assert certificate.max_iterations is None or certificate.iterations <= (
        certificate.max_iterations
    )
    assert np.array_equal(model.predict(X), model.labels_)
    assert model.score(X, sample_weight=w) == -model.inertia_
    assert certificate.proven_bound <= model.inertia_ * (1 + 1e-9) + 1e-300


@pytest.mark.parametrize(
    ("kind", "low", "high"), [(KullbackLeibler, 0, 5), (ItakuraSaito, 0.1, 5), (Manhattan, -3, 5)]
)
def test_curvature_is_a_lower_bound_for_all_pairs(kind, low, high):
    rng = np.random.default_rng(3)
    X = rng.uniform(low, high, size=(200, 2))
    centers = rng.uniform(X.min(axis=0), X.max(axis=0), size=(50, 2))
    curvature = kind().curvature(X)
    squares = ((X[:, None] - centers) ** 2 * curvature).sum(axis=2)
    assert (squares <= kind().distances(X, centers) * (1 + 1e-12)).all()


def test_bad_input_is_refused_with_a_reason():
    X = np.array([[1.0, -1.0], [2.0, 3.0]])
    with pytest.raises(ValueError, match="at least 0; X has -1 at row 0, column 1"):
        CentroidClustering(1, divergence="kullback-leibler").fit(X)
    with pytest.raises(ValueError, match="positive values; X has -1 at row 0"):
        CentroidClustering(1, divergence="itakura-saito").fit(X)
    with pytest.raises(ValueError, match="gamma must be a positive number"):
        Mixed([0], gamma=0)

    class Wrong(Manhattan):
        def distances(self, X, centers):
            return -super().distances(X, centers)

    with pytest.raises(ValueError, match="at least 0 and not NaN"):
        CentroidClustering(1, divergence=Wrong()).fit(X)

    class Flat(Manhattan):
        def distances(self, X, centers):
            return super().distances(X, centers)[:, 0]

    with pytest.raises(ValueError, match=r"returned shape \(2,\); \(2, 1\) is needed"):
        CentroidClustering(1, divergence=Flat()).fit(X)


def test_names_are_those_of_the_table():
    assert set(DIVERGENCES) == {
        "squared-euclidean",
        "manhattan",
        "kullback-leibler",
        "itakura-saito",
        "modes",
    }


def expected_to_fail(estimator):
    """Checks whose data a divergence cannot cluster, with the reason."""
    if estimator.divergence == "kullback-leibler":
        return {"check_clustering": "its data has negative values"}
    if estimator.divergence == "modes":
        return {"check_clustering": "each number of its data is a category of its own"}
    return {}


@parametrize_with_checks(
    [
        # Itakura-Saito needs positive values; the checks have zeros in almost all of their data.
        *(
            CentroidClustering(n_init=2, divergence=name)
            for name in sorted(DIVERGENCES)
            if name != "itakura-saito"
        ),
        CentroidClustering(n_init=2, divergence=Mixed([0])),
    ],
    expected_failed_checks=expected_to_fail,
)
def test_estimator_checks(estimator, check):
    check(estimator)
