"""The price bound is below every clustering, and its ceiling above every center's worth."""

import itertools
import math
import sys
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from wolfmeans import KMeans
from wolfmeans.bounds import REGISTRY
from wolfmeans.bounds.prices import PricedPoints, PriceSearch, prices
from wolfmeans.exact import native

module = sys.modules[prices.__module__]

pytestmark = pytest.mark.skipif(not native.native_is_available(), reason="needs the native module")


def labellings(n, n_clusters):
    """All partitions of n points into at most n_clusters, each once."""

    def extend(prefix, used):
        if len(prefix) == n:
            yield prefix
            return
        for label in range(min(used + 1, n_clusters)):
            yield from extend([*prefix, label], max(used, label + 1))

    return np.array(list(extend([], 0)))


ALL = {(n, k): labellings(n, k) for n in range(1, 8) for k in range(1, 4)}


def sse(X, weights, labels):
    """The cost of each labelling of the rows, about the weighted means; labels (m, n)."""
    total = np.zeros(len(labels))
    for k in range(labels.max() + 1):
        inside = (labels == k) * weights
        mass = inside.sum(axis=1)
        means = (inside @ X) / np.where(mass > 0, mass, 1)[:, None]
        total += (inside[:, :, None] * (X[None] - means[:, None]) ** 2).sum(axis=(1, 2))
    return total


def optimum(X, weights, n_clusters):
    return float(sse(X, weights, ALL[len(X), n_clusters]).min())


def trimmed_optimum(X, weights, n_clusters, mass):
    """The objective is concave in what is kept, so at most one point is kept in part."""
    n, best = len(X), math.inf
    for kept in itertools.product([0.0, 1.0], repeat=n):
        inside = np.array(kept) * weights
        rest = mass - inside.sum()
        if abs(rest) <= 1e-12:
            best = min(best, optimum(X, inside, n_clusters))
        for i in range(n):
            if kept[i] == 0 and 0 < rest < weights[i]:
                part = inside.copy()
                part[i] = rest
                best = min(best, optimum(X, part, n_clusters))
    return best


def capped_optimum(X, weights, n_clusters, cap):
    """Each point is in a cluster, or pays the cap."""
    best = math.inf
    for kept in itertools.product([0.0, 1.0], repeat=len(X)):
        inside = np.array(kept) * weights
        best = min(best, optimum(X, inside, n_clusters) + cap * (weights - inside).sum())
    return best


def instance(rng, most_points, least_points=1):
    """A tiny problem of a random kind: values, weights, the number of clusters."""
    n, d = int(rng.integers(least_points, most_points + 1)), int(rng.integers(1, 4))
    X = [
        lambda: rng.normal(size=(n, d)),
        lambda: rng.integers(0, 3, size=(n, d)).astype(float),
        lambda: rng.normal(size=(3, d))[rng.integers(0, 3, n)],
        lambda: rng.standard_cauchy(size=(n, d)),
        lambda: rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, size=d),
    ][rng.integers(5)]()
    weights = [
        lambda: np.ones(n),
        lambda: rng.integers(0, 3, n).astype(float),
        lambda: 10.0 ** rng.uniform(-6, 6, n),
    ][rng.integers(3)]()
    if not weights.any():
        weights[0] = 1.0
    return X, weights, int(rng.integers(1, 4))


def centers_for(rng, X, n_clusters):
    return X[rng.integers(0, len(X), n_clusters)] + rng.normal(size=X.shape[1]) * 0.1


def test_never_above_the_optimum_and_often_equal():
    rng = np.random.default_rng(0)
    reached = 0
    for trial in range(400):
        X, weights, n_clusters = instance(rng, 7)
        best = optimum(X, weights, n_clusters)
        centers = centers_for(rng, X, n_clusters)
        value = prices(X, n_clusters, weights, centers=centers, n_threads=1 + trial % 2).value
        assert 0 <= value <= best * (1 + 1e-12)
        reached += value >= 0.95 * best
    assert reached > 200


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_offsets_and_single_precision(offset, dtype):
    rng = np.random.default_rng(1)
    for _ in range(60):
        X, weights, n_clusters = instance(rng, 7)
        X = (np.clip(X, -1e3, 1e3) + offset).astype(dtype)
        centered = X.astype(np.float64) - offset
        best = optimum(centered, weights, n_clusters)
        value = prices(X, n_clusters, weights, centers=centers_for(rng, X, n_clusters)).value
        assert 0 <= value <= best * (1 + 1e-12) + 1e-20


def test_trimmed_with_parts_of_points():
    rng = np.random.default_rng(2)
    useful = 0
    for _ in range(60):
        X, weights, n_clusters = instance(rng, 5, least_points=4)
        n_clusters = min(n_clusters, 2)
        mass = float(weights.sum() * rng.uniform(0.5, 1.0))
        best = trimmed_optimum(X, weights, n_clusters, mass)
        centers = centers_for(rng, X, n_clusters)
        value = prices(X, n_clusters, weights, mass, centers=centers).value
        assert 0 <= value <= best * (1 + 1e-9) + 1e-14 * (weights[:, None] * X**2).sum()
        useful += value > 0.5 * best > 0
    assert useful > 10


def test_capped_costs():
    rng = np.random.default_rng(3)
    useful = 0
    for _ in range(80):
        X, weights, n_clusters = instance(rng, 6)
        cap = float(rng.uniform(0.1, 2.0) * np.var(X, axis=0).sum())
        best = capped_optimum(X, weights, n_clusters, cap)
        centers = centers_for(rng, X, n_clusters)
        value = prices(X, n_clusters, weights, cap=cap, centers=centers).value
        assert 0 <= value <= best * (1 + 1e-12)
        useful += value > 0.5 * best > 0
    assert useful > 20


def worth(X, weights, price, places):
    distances = ((X[None] - places[:, None]) ** 2).sum(axis=2)
    return (weights * np.maximum(price - distances, 0)).sum(axis=1)


@pytest.mark.parametrize("d", [1, 2, 3, 5])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_the_ceiling_is_above_all_centers_and_not_far(d, offset):
    rng = np.random.default_rng(d)
    for tolerance in (0.3, 0.05):
        X = rng.normal(size=(40, d)) + offset
        X = np.ascontiguousarray(X[np.argsort(X[:, 0])])
        weights, price = rng.exponential(size=40), rng.exponential(scale=d, size=40)
        places = np.concatenate([X, X.mean(axis=0) + rng.normal(size=(3000, d))])
        highest = worth(X, weights, price, places).max()
        heights = np.empty(len(places))
        native._native.climb(X, weights, price, places, 100, heights, 1)
        np.testing.assert_allclose(worth(X, weights, price, places), heights, rtol=1e-9)
        found = [
            native._native.ceiling(X, weights, price, 0.9 * highest, tolerance, math.inf, n_threads)
            for n_threads in (1, 3)
        ]
        assert found[0][:4] == found[1][:4]
        np.testing.assert_array_equal(found[0][4], found[1][4])
        upper, reached, _, abandoned, peaks = found[0]
        assert highest <= heights.max() <= upper <= (1 + tolerance) * heights.max() * (1 + 1e-9)
        assert reached <= upper
        assert not abandoned
        assert len(peaks) >= 1


def exact_worth_of_all(X, weights, price):
    """What a center at the mean saves if it is worth it for every point, in fractions."""
    rows = [list(map(Fraction, row)) for row in X.tolist()]
    masses, given = (list(map(Fraction, values.tolist())) for values in (weights, price))
    mean = [
        sum(w * x for w, x in zip(masses, column, strict=True)) / sum(masses)
        for column in zip(*rows, strict=True)
    ]
    gains = [
        a - sum((x - m) ** 2 for x, m in zip(row, mean, strict=True))
        for a, row in zip(given, rows, strict=True)
    ]
    assert min(gains) > 0
    return sum(w * gain for w, gain in zip(masses, gains, strict=True))


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_ceiling_is_above_the_exact_worth(d):
    # All points are in the reach of a center anywhere among them, so that the ceiling is the worth
    # at their mean, up to rounding.
    rng = np.random.default_rng(d)
    for _ in range(100):
        X = rng.uniform(size=(12, d))
        weights, price = rng.uniform(0.5, 1.0, size=12), rng.uniform(d, 2 * d, size=12)
        exact = exact_worth_of_all(X, weights, price)
        upper = native._native.ceiling(X, weights, price, 0.0, 1e-6, math.inf, 1)[0]
        assert exact <= Fraction(upper) <= exact * (1 + Fraction(1, 10**9))


def test_the_ceiling_is_above_a_worth_that_is_hardly_a_number():
    # The product of weight and price has few digits left, and is rounded to the nearest.
    ones = np.ones(1)
    for price in np.random.default_rng(0).uniform(1e-12, 1e-10, size=50):
        for weight in (1e-306, 1e-308):
            args = (np.zeros((1, 2)), weight * ones, price * ones, 0.0, 0.1, math.inf, 1)
            upper = native._native.ceiling(*args)[0]
            assert Fraction(upper) >= Fraction(weight) * Fraction(float(price))


def test_no_price_leaves_the_search_above_the_cap():
    X = np.random.default_rng(0).random((40, 2))
    centers = KMeans(3, random_state=0).fit(X).cluster_centers_
    points = PricedPoints.of(X, None, None, 0.01)
    search = PriceSearch(points, 3, points.transform(centers), 1)
    search.prices *= 100.0
    best, _ = search.run(0.0, lambda *_: None)
    assert best.max() == points.cap


def test_an_abandoned_ceiling_proves_nothing(monkeypatch):
    X = np.random.default_rng(0).random((40, 2))
    best = KMeans(3, n_init=10, random_state=0).fit(X)

    def abandoned(*args):
        return 0.0, 0.0, 1.0, True, np.empty((0, 2))

    kernels = {name: getattr(native._native, name) for name in dir(native._native)}
    monkeypatch.setattr(native, "_native", SimpleNamespace(**{**kernels, "ceiling": abandoned}))
    assert prices(X, 3, centers=best.cluster_centers_).value == 0.0


@dataclass(frozen=True)
class Payable:
    """Points whose prices add up to a given number."""

    X: np.ndarray
    weights: np.ndarray
    total: float

    def payable(self, given):
        return self.total

    def restore(self, value):
        return value


def test_what_centers_save_is_taken_off_the_safe_way(monkeypatch):
    # Most of the two numbers cancels; both are exact.
    rng = np.random.default_rng(0)
    ones = np.ones(1)
    for _ in range(300):
        upper = float(rng.uniform(0.5, 1.0))
        payable = float(3 * Fraction(upper) * (1 + Fraction(1, 2**44)))
        ceiling = SimpleNamespace(ceiling=lambda *_, upper=upper: (upper, upper, 1.0, False, None))
        monkeypatch.setattr(native, "_native", ceiling)
        points = Payable(np.zeros((1, 1)), ones, payable)
        value = module._prove(points, 3, ones * 0.1, upper, math.inf, 1, lambda *_: None)
        assert 0 < Fraction(value) <= Fraction(payable) - 3 * Fraction(upper)


def exact_payable(weights, price, mass):
    """What the cheapest points of a mass are priced, in fractions."""
    total = Fraction(0)
    for a, w in sorted(zip(price.tolist(), weights.tolist(), strict=True)):
        kept = min(Fraction(w), mass)
        total, mass = total + kept * Fraction(a), mass - kept
    return total


def test_what_points_can_pay_is_rounded_down():
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(2, 4))
        weights, price = rng.uniform(0.5, 1.0, size=n), rng.uniform(0.5, 1.0, size=n)
        points = PricedPoints.of(np.arange(float(n))[:, None], weights, None, None)
        exact = exact_payable(points.weights, price, Fraction(n))
        assert exact * (1 - Fraction(1, 10**14)) <= Fraction(points.payable(price)) <= exact


def test_running_sums_of_weights_that_are_too_small():
    # Nearly every addition is rounded down, so that more seems to be left of the mass.
    n = 4096
    weights = np.full(n, 1.0 + 15 * 2.0**-47)
    half = Fraction(float(weights[0])) * n / 2
    assert Fraction(float(np.cumsum(weights)[n // 2 - 1])) < half * (1 - Fraction(400, 2**53))
    points = PricedPoints.of(np.arange(float(n))[:, None], weights, float(half), None)
    price = np.full(n, 0.75)
    assert 0 < Fraction(points.payable(price)) <= Fraction(points.mass) * Fraction(3, 4)


def test_a_mass_that_is_a_difference_of_totals():
    # The total 2**53 + 3 is rounded to 2**53 + 4; without the first point 3 are left, not 4.
    weights = np.array([2.0**53, 1.0, 1.0, 1.0])
    mass = math.fsum(weights) - 2.0**53
    points = PricedPoints.of(np.arange(4.0)[:, None], weights, mass, None)
    paid = points.payable(np.ones(4)) * 2.0 ** points.exponents[1]
    assert 0.0 <= paid <= 3.0


def test_a_ceiling_without_room_is_abandoned():
    rng = np.random.default_rng(0)
    X, ones = rng.normal(size=(200, 3)), np.ones(200)
    *_, work, abandoned, _ = native._native.ceiling(X, ones, ones, 0.0, 1e-3, 1e4, 2)
    assert abandoned
    assert work > 1e4


def test_out_of_budget_is_a_bound_still():
    X = np.random.default_rng(0).random((300, 6))
    fit = KMeans(5, n_init=5, random_state=0).fit(X)
    small = prices(X, 5, centers=fit.cluster_centers_, seconds=0.05)
    assert 0 <= small.value <= fit.inertia_


def test_one_cluster_is_exact():
    X = np.random.default_rng(0).normal(size=(50, 3)) + 7
    total = float(((X - X.mean(axis=0)) ** 2).sum())
    assert 0.999 * total <= prices(X, 1).value <= total * (1 + 1e-12)


def test_separate_clusters_are_nearly_exact():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(6, 2)) * 100, 40, axis=0) + rng.normal(size=(240, 2))
    fit = KMeans(6, n_init=5, random_state=0).fit(X)
    assert prices(X, 6, centers=fit.cluster_centers_).value >= 0.995 * fit.inertia_


def test_evenly_spread_points():
    X = np.random.default_rng(0).random((400, 2))
    fit = KMeans(8, n_init=10, random_state=0).fit(X)
    values = [prices(X, 8, n_threads=n_threads).value for n_threads in (1, 2)]
    assert values[0] == values[1]
    assert 0.95 * fit.inertia_ < values[0] <= fit.inertia_


def test_outliers_can_be_trimmed():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.random((300, 2)), rng.normal(size=(15, 2)) * 50])
    fit = KMeans(6, n_init=10, random_state=0).fit(X[:300])
    cost = np.sort(fit.transform(X).min(axis=1) ** 2)[:300].sum()
    value = prices(X, 6, mass=300.0, centers=fit.cluster_centers_).value
    assert 0.85 * cost < value <= cost
    assert 0.85 * cost < prices(X, 6, mass=300.0).value <= cost


def test_points_without_spread_or_weight_give_nothing():
    assert prices(np.ones((5, 2)), 2).value == 0.0
    X = np.arange(6.0).reshape(3, 2)
    assert prices(X, 3, centers=X).value == 0.0
    assert prices(X, 7).value == 0.0
    assert prices(np.repeat(X, 4, axis=0), 5).value == 0.0
    assert prices(X, 1, np.array([1.0, 0.0, 0.0]), centers=X[:1]).value == 0.0


def test_extreme_scales():
    X = np.random.default_rng(0).random((40, 2))
    fit = KMeans(3, n_init=5, random_state=0).fit(X)
    usual = prices(X, 3, centers=fit.cluster_centers_).value
    for exponent in (-400, 400):
        factor = 2.0**exponent
        scaled = prices(X * factor, 3, centers=fit.cluster_centers_ * factor).value
        assert scaled == usual * factor**2


def test_without_the_native_module_there_is_no_bound(monkeypatch):
    monkeypatch.setattr(native, "_native", None)
    assert prices(np.random.default_rng(0).random((20, 2)), 2).value == 0.0


def test_progress_and_cost():
    told = []
    X = np.random.default_rng(0).random((60, 2))
    prices(X, 4, progress=lambda fraction, text: told.append((fraction, text)))
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    cost = REGISTRY["prices"].cost
    assert cost(5000, 3, 50) > cost(5000, 2, 50) > cost(500, 2, 50)
