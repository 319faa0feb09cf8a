"""The neighbours bound: never above the optimum, tight on clear clusters, the same on all paths."""

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs

from tiny_optimum import exact, optimum, penalized_optimum, tiny_problems, trimmed_optimum
from wolfmeans import KMeans
from wolfmeans.bounds import neighbours, spectral
from wolfmeans.bounds.bound import heaviest_cluster, total_weight, weight_left_out
from wolfmeans.bounds.neighbours import Problem, open_roots, roots_of_distances
from wolfmeans.exact.native import native_is_available

module = sys.modules[neighbours.__module__]
needs_native = pytest.mark.skipif(not native_is_available(), reason="native module not built")


@pytest.fixture(params=["native", "numpy"])
def implementation(request, monkeypatch):
    if request.param == "native" and not native_is_available():
        pytest.skip("native module not built")
    monkeypatch.setattr(module, "native_is_available", lambda: request.param == "native")
    return request.param


def as_data(points, number):
    """The same points in several guises, each of them exact; and the scale of squares."""
    scale, offset, dtype = [
        (1.0, 0.0, np.float64),
        (1.0, 1e8, np.float64),
        (2.0**-20, 0.0, np.float64),
        (1.0, 0.0, np.float32),
        (0.25, -3e4, np.float32),
    ][number % 5]
    X = (points * scale + offset).astype(dtype)
    assert (X.astype(np.float64) == points * scale + offset).all()
    return X, Fraction(scale) ** 2


def given(weights):
    return None if (weights == 1).all() else weights.astype(np.float64)


def test_never_above_the_optimum(implementation):
    tight = 0
    count = 800 if implementation == "native" else 100
    for number, (points, weights, k) in enumerate(tiny_problems(count)):
        X, scale = as_data(points, number)
        best = optimum(*exact(points, weights), k) * scale
        bound = neighbours(X, k, given(weights))
        assert 0 <= Fraction(bound.value) <= best
        assert bound.confidence == 1.0
        tight += bound.value > 0.999 * best
    assert tight > count / 5


def test_never_above_the_trimmed_optimum(implementation):
    rng = np.random.default_rng(1)
    count = 250 if implementation == "native" else 40
    useful = 0
    for number, (points, weights, k) in enumerate(tiny_problems(count, max_points=5, seed=1)):
        X, scale = as_data(points, number)
        rows, heavy = exact(points, weights)
        mass = int(rng.integers(1, sum(heavy) + 1))
        best = trimmed_optimum(rows, heavy, k, mass) * scale
        bound = neighbours(X, k, given(weights), mass=float(mass))
        assert 0 <= Fraction(bound.value) <= best
        useful += bound.value > 0.5 * best > 0
    assert useful > count / 20


def test_half_a_point_may_be_kept(implementation):
    # Of weights 2 and 2 at distance 1, mass 3 leaves an SSE of 2 * 1 / 3. Each of the two points
    # has 2 at distance 0 and 1 at distance 1: 3 [(1/2 + lambda) / 3] - lambda.
    X = np.array([[0.0], [1.0], [50.0]])
    weights = np.array([2.0, 2.0, 1.0])
    bound = neighbours(X, 1, weights, mass=3.0)
    assert Fraction(bound.value) <= Fraction(2, 3)
    assert bound.value == pytest.approx(0.5, rel=1e-9)
    assert neighbours(X, 1, weights, mass=3.5).value == pytest.approx(0.75, rel=1e-9)


def test_never_above_the_penalized_optimum(implementation):
    rng = np.random.default_rng(2)
    count = 300 if implementation == "native" else 60
    useful = 0
    for number, (points, weights, k) in enumerate(tiny_problems(count, seed=2)):
        X, scale = as_data(points, number)
        cap = Fraction(int(rng.choice([1, 3, 20, 1000])), 2)
        best = penalized_optimum(*exact(points, weights), k, cap) * scale
        bound = neighbours(X, k, given(weights), cap=float(cap * scale))
        assert 0 <= Fraction(bound.value) <= best
        useful += bound.value > 0.9 * best > 0
    assert useful > count / 5


def test_every_price_gives_a_bound():
    rng = np.random.default_rng(3)
    for points, weights, k in tiny_problems(100, seed=3):
        rows, heavy = exact(points, weights)
        best = optimum(rows, heavy, k)
        X, w = np.array(rows, dtype=np.float64), np.array(heavy, dtype=np.float64)
        lambdas = np.sort(10.0 ** rng.uniform(-3, 5, size=6))
        found = open_roots(X, w, math.inf, 1)(np.arange(len(X)), lambdas, 1.0)
        for g, price in enumerate(lambdas):
            assert Fraction(Problem(w, k).value(found[:, g], float(price), math.inf)) <= best


def test_roots_are_the_least_ratio():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 3))
    w = rng.uniform(0.5, 3.0, size=60)
    lambdas = np.array([0.01, 1.0, 30.0, 1e4])
    distances = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    for heaviest in (math.inf, 20.0):
        expected = np.empty((60, 4))
        for i in range(60):
            order = np.argsort(distances[i])
            before = np.cumsum(w[order]) - w[order]
            parts = np.clip(heaviest - before, 0.0, w[order])
            weight = np.cumsum(parts)
            sums = 0.5 * np.cumsum(parts * distances[i][order])
            expected[i] = ((sums[:, None] + lambdas) / weight[:, None]).min(axis=0)
        for found in (
            open_roots(X, w, heaviest, 1)(np.arange(60), lambdas, 0.3),
            roots_of_distances(distances, w, lambdas, heaviest),
        ):
            assert found == pytest.approx(expected, rel=1e-12)
            assert (found <= expected * (1 + 1e-14)).all()


def exact_root(distances, weights, price, heaviest):
    """The least ratio over all numbers of nearest points, the last one in part, in fractions."""
    least, weight, half = None, Fraction(0), Fraction(0)
    for d2, w in sorted(zip(distances.tolist(), weights.tolist(), strict=True)):
        part = min(Fraction(w), heaviest - weight)
        weight, half = weight + part, half + part * Fraction(d2) / 2
        ratio = (half + Fraction(price)) / weight
        least = ratio if least is None else min(least, ratio)
        if weight == heaviest:
            break
    return least


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("trimmed", [False, True])
def test_roots_are_never_above_the_exact_ones(implementation, weighted, trimmed):
    rng = np.random.default_rng(11)
    lambdas = np.array([0.05, 1.0, 8.0])
    for _ in range(15):
        distances = rng.exponential(size=(10, 10))
        np.fill_diagonal(distances, 0.0)
        w = rng.uniform(0.5, 3.0, size=10) if weighted else np.ones(10)
        heaviest = 0.4 * float(w.sum()) if trimmed else math.inf
        given = w if weighted else None
        found = np.empty((10, 3))
        if implementation == "native":
            module._native.roots_of_distances(distances, given, lambdas, heaviest, 1.0, found, 1)
        else:
            found = roots_of_distances(distances, given, lambdas, heaviest)
        limit = Fraction(heaviest) if trimmed else sum(map(Fraction, w.tolist()))
        for i, g in np.ndindex(10, 3):
            exact = exact_root(distances[i], w, float(lambdas[g]), limit)
            assert exact * (1 - Fraction(1, 10**12)) <= Fraction(float(found[i, g])) <= exact


def test_a_root_is_accepted_only_well_below_its_ratio(implementation):
    # The ratio of all points is a little above the root q, by 3.8 eta: lowered by 4 eta it is next
    # to q, and must not be returned yet.
    n, price = 10, 3.0
    eta = (2 * n + 16) * Fraction(1, 2**53)
    distances = np.append(0.0, np.random.default_rng(14).uniform(0.5, 1.0, size=n - 1))
    q = (sum(map(Fraction, distances[:-1].tolist())) / 2 + Fraction(price)) / (n - 1)
    distances[-1] = float(2 * q * (1 + n * eta * Fraction(38, 10)))
    found, lambdas = np.empty((1, 1)), np.array([price])
    if implementation == "native":
        module._native.roots_of_distances(distances[None], None, lambdas, math.inf, 9.0, found, 1)
    else:
        found = roots_of_distances(distances[None], None, lambdas, math.inf)
    assert exact_root(distances, np.ones(n), price, Fraction(n)) == q
    assert q * (1 - 5 * eta) <= Fraction(float(found[0, 0])) <= q * (1 - eta)


def test_rounding_of_long_sums_of_squares(implementation):
    # Nearly every addition of the same square to their sum is rounded up.
    value = 1.0 + 17 * 2.0**-47
    X = np.zeros((2, 4096))
    X[1] = value
    computed = 0.0
    for _ in range(4096):
        computed += value * value
    assert Fraction(computed) > 4096 * Fraction(value) ** 2 * (1 + 800 * Fraction(1, 2**53))
    bound = neighbours(X, 1).value
    assert bound > 0.999 * 2048
    assert Fraction(bound) <= 2048 * Fraction(value) ** 2


def test_sums_over_rows_err_on_the_safe_side():
    rng = np.random.default_rng(12)
    for trial in range(400):
        n = int(rng.integers(1, 4))
        w, r = rng.uniform(0.5, 2.0, size=n), rng.uniform(0.5, 2.0, size=n)
        cap = float(rng.uniform(0.5, 2.0)) if trial % 2 else math.inf
        left_out = float(rng.uniform(0.0, 0.3)) if trial % 2 else 0.0
        paid = sum(
            Fraction(a) * min(Fraction(b), Fraction(cap) if trial % 2 else Fraction(b))
            for a, b in zip(w.tolist(), r.tolist(), strict=True)
        )
        paid -= Fraction(cap) * Fraction(left_out) if trial % 2 else 0
        # A price at which nearly all of it cancels.
        price = float(paid / 3) * (1 - 2.0**-51)
        value = Problem(w, 3, left_out, cap).value(r, price, cap)
        assert Fraction(value) <= max(0, paid - 3 * Fraction(price))


def test_weights_left_out_and_kept_are_rounded_up():
    rng = np.random.default_rng(13)
    cases = [(10.0 ** rng.uniform(-3, 17, size=5), rng.uniform(0.0, 1.0)) for _ in range(200)]
    for weights, trim in [*cases, (np.array([2.0**53, 1.0, 1.0, 1.0]), 2.0**53)]:
        total = total_weight(len(weights), weights)
        mass = total - trim
        exact = sum(map(Fraction, weights.tolist()))
        assert Fraction(weight_left_out(total, mass)) >= Fraction(trim)
        assert Fraction(heaviest_cluster(total, mass)) >= exact - Fraction(trim)


@needs_native
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_native_and_numpy_agree(weighted, dtype, monkeypatch):
    rng = np.random.default_rng(5)
    X = (rng.normal(size=(300, 5)) + 100.0).astype(dtype)
    w = rng.uniform(0.1, 5.0, size=300) if weighted else None
    mass = 250.0
    native = [neighbours(X, 7, w).value, neighbours(X, 7, w, mass).value]
    monkeypatch.setattr(module, "native_is_available", lambda: False)
    plain = [neighbours(X, 7, w).value, neighbours(X, 7, w, mass).value]
    assert native == pytest.approx(plain, rel=1e-10)


@needs_native
@pytest.mark.parametrize("unit", ["baseline", "avx2", "avx512"])
def test_threads_do_not_matter_and_vector_units_hardly(unit, monkeypatch):
    rng = np.random.default_rng(6)
    X, w = rng.normal(size=(901, 7)), rng.uniform(0.5, 2.0, size=901)
    widest = neighbours(X, 9, w).value
    monkeypatch.setenv("WOLFMEANS_VECTOR_UNIT", unit)
    values = [neighbours(X, 9, w, n_threads=threads).value for threads in (1, 2, 4)]
    assert len(set(values)) == 1
    assert values[0] == pytest.approx(widest, rel=1e-11)


@pytest.mark.parametrize("wide", [False, True])
def test_sparse_agrees_with_dense(wide, monkeypatch):
    rng = np.random.default_rng(7)
    X = rng.integers(0, 2, size=(200, 12)) * rng.normal(size=(200, 12)).round(2)
    w = rng.integers(0, 3, size=200).astype(np.float64)
    dense = neighbours(X, 5, w).value
    if wide:
        monkeypatch.setattr(module, "_DENSE_ENTRIES", 0)
    assert neighbours(sparse.csr_array(X), 5, w).value == pytest.approx(dense, rel=1e-9)


def test_scalar_products_of_sparse_rows_err_on_the_safe_side(monkeypatch):
    monkeypatch.setattr(module, "_DENSE_ENTRIES", 0)
    # Differences of 1 beside values of 1e8: most digits of the distances cancel.
    for points, weights, k in tiny_problems(60, seed=5):
        X = sparse.csr_array(points + 123456789.0)
        best = optimum(*exact(points, weights), k)
        assert Fraction(neighbours(X, k, given(weights)).value) <= best


def test_weights_are_copies():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(80, 3))
    weights = rng.integers(0, 4, size=80)
    repeated = neighbours(np.repeat(X, weights, axis=0), 5).value
    assert neighbours(X, 5, weights.astype(np.float64)).value == pytest.approx(repeated, rel=1e-4)


def test_one_cluster_and_one_place():
    rng = np.random.default_rng(9)
    X = rng.normal(size=(300, 2))
    scatter = float(((X - X.mean(axis=0)) ** 2).sum())
    assert neighbours(X, 1).value == pytest.approx(scatter, rel=1e-9)
    assert neighbours(np.ones((50, 2)), 3).value == 0.0
    assert neighbours(np.ones((1, 2)), 1).value == 0.0
    # As many clusters as places: the optimum is 0.
    assert neighbours(np.repeat(X[:4], 20, axis=0), 4).value == 0.0


@pytest.mark.parametrize(
    ("shape", "k", "most"), [((500, 10), 20, 1.001), ((500, 5), 50, 1.07), ((2000, 10), 5, 1.001)]
)
def test_tight_on_clustered_data(shape, k, most):
    X, _ = make_blobs(*shape, centers=k, random_state=0)
    inertia = KMeans(k, n_init=100, random_state=0, bound=None).fit(X).inertia_
    assert 1.0 <= inertia / neighbours(X, k).value <= most


def test_better_than_spectral_where_it_says_nothing():
    X, _ = make_blobs(400, n_features=2, centers=4, random_state=1)
    assert spectral(X, 4).value == 0.0
    inertia = KMeans(4, n_init=10, random_state=0, bound=None).fit(X).inertia_
    assert inertia / neighbours(X, 4).value < 1.6


def test_mass_and_cap_exclude_each_other():
    with pytest.raises(ValueError, match="not both"):
        neighbours(np.ones((3, 1)), 1, mass=2.0, cap=1.0)


def test_progress_grows_to_one():
    seen = []
    neighbours(
        np.random.default_rng(0).normal(size=(300, 2)), 3, progress=lambda f, t: seen.append((f, t))
    )
    fractions = [fraction for fraction, _ in seen]
    assert fractions[-1] == 1.0
    assert all(isinstance(text, str) for _, text in seen)
