"""Exact sums against rational arithmetic, on vectors that break floating-point sums."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wolfmeans.engines.reference import Moments
from wolfmeans.exact.sums import (
    ExactSums,
    decompose,
    exact_products,
    exponent_range,
    mean_and_residual,
    rounded_ratio,
)

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
# The door keeps data and weights in ranges like these.
moderate = st.floats(-1e140, 1e140, allow_nan=False)

ADVERSARIAL = {
    "outlier beside unit data": [1.0, 0.5, 0.1, 1e140, 0.3],
    "cancellation": [1e16, 1.0, -1e16, 1e-16, -1.0],
    "offset 1e12": [1e12 + 0.1, 1e12 + 0.2, 1e12 - 0.7],
    "denormals": [5e-324, 1e-310, -2e-320, 5e-324],
    "seventeen decades": [10.0**-k for k in range(17)],
    "signed zeros": [0.0, -0.0, 0.0],
    "half way": [1.0, 2.0**-53, 2.0**-53, 2.0**-106],
}


def exact(values):
    return sum((Fraction(v) for v in values), Fraction(0))


def total(values):
    bounds = exponent_range(np.array(values)) or (0, 0)
    sums = ExactSums(1, low=bounds[0] - 53, high=bounds[1])
    sums.add(np.zeros(len(values), dtype=np.int64), *decompose(np.array(values)))
    return sums


@pytest.mark.parametrize("values", ADVERSARIAL.values(), ids=ADVERSARIAL.keys())
def test_adversarial_sums_are_exact_and_rounded_once(values):
    assert total(values).rounded(0) == float(exact(values)) == math.fsum(values)


@given(st.lists(finite, max_size=20))
def test_the_sum_equals_the_rational_sum(values):
    sums = total(values)
    assert Fraction(sums.integer(0)) * Fraction(2) ** sums.low == exact(values)


@given(st.lists(moderate, min_size=1, max_size=20), st.randoms())
def test_taking_away_leaves_no_drift(values, random):
    sums = total(values)
    slots = np.zeros(len(values), dtype=np.int64)
    shuffled = random.sample(values, len(values))
    sums.subtract(slots, *decompose(np.array(shuffled)))
    assert sums.integer(0) == 0


def test_carries_are_propagated_before_limbs_overflow(monkeypatch):
    monkeypatch.setattr("wolfmeans.exact.sums._DEPOSITS_BEFORE_CARRY", 8)
    values = np.full(1000, 1.0 - 2.0**-53)
    sums = ExactSums(1, low=-53, high=1)
    sums.add(np.zeros(1000, dtype=np.int64), *decompose(values))
    assert int(np.abs(sums.limbs[:-1]).max()) < 9 * 2**33
    assert sums.integer(0) == 1000 * (2**53 - 1)


@given(finite, finite)
def test_products_are_exact(weight, value):
    terms = exact_products(np.array([abs(weight)]), np.array([value]))
    product = sum(Fraction(int(m[0])) * Fraction(2) ** int(e[0]) for m, e in terms)
    assert product == Fraction(abs(weight)) * Fraction(value)


@given(st.integers(-(2**200), 2**200), st.integers(1, 2**120), st.integers(-300, 300))
def test_ratio_is_correctly_rounded(numerator, denominator, exponent):
    expected = Fraction(numerator, denominator) * Fraction(2) ** exponent
    assert rounded_ratio(numerator, denominator, exponent) == float(expected)


@given(st.integers(-(2**150), 2**150), st.integers(1, 2**80), st.integers(-200, 200))
def test_mean_and_what_rounding_left_of_it(numerator, weight, exponent):
    mean, residual = mean_and_residual(numerator, weight, exponent)
    expected = Fraction(numerator, weight) * Fraction(2) ** exponent
    assert mean == float(expected)
    assert residual == float(expected - Fraction(mean))


@pytest.mark.parametrize("values", ADVERSARIAL.values(), ids=ADVERSARIAL.keys())
@pytest.mark.parametrize("spread", [0, 17], ids=["even weights", "weights over 17 decades"])
def test_weighted_means_are_correctly_rounded(values, spread):
    X = np.array(values)[:, None]
    weights = 10.0 ** -np.linspace(0, spread, len(values))
    moments = Moments(X, weights, 1)
    moments.move(np.arange(len(X)), None, np.zeros(len(X), dtype=np.int32))
    weight, means, residuals = moments.means(np.zeros((1, 1)))
    exact_weight = exact(weights)
    exact_mean = sum(Fraction(w) * Fraction(v) for w, v in zip(weights, values, strict=True))
    exact_mean /= exact_weight
    assert weight[0] == float(exact_weight)
    assert means[0, 0] == float(exact_mean)
    assert residuals[0, 0] == float(exact_mean - Fraction(float(exact_mean)))


def test_moments_do_not_depend_on_the_path_of_moves():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 3)) * 10.0 ** rng.integers(-6, 12, size=(50, 1))
    weights = 10.0 ** rng.uniform(-8, 8, size=50)
    final = rng.integers(0, 4, size=50).astype(np.int32)
    direct = Moments(X, weights, 4)
    direct.move(np.arange(50), None, final)
    wandering = Moments(X, weights, 4)
    labels = rng.integers(0, 4, size=50).astype(np.int32)
    wandering.move(np.arange(50), None, labels)
    for _ in range(20):
        rows = rng.choice(50, size=10, replace=False)
        new = rng.integers(0, 4, size=10).astype(np.int32)
        wandering.move(rows, labels[rows], new)
        labels[rows] = new
    wandering.move(np.arange(50), labels, final)
    fallback = np.zeros((4, 3))
    for a, b in zip(direct.means(fallback), wandering.means(fallback), strict=True):
        assert (a == b).all()
