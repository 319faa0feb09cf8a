"""The optimum on a line, against all segmentations in exact fractions."""

import math
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from wolfmeans.bounds import neighbours, one_dimensional, optimum_on_a_line
from wolfmeans.exact.native import native_is_available

module = sys.modules[one_dimensional.__module__]


@pytest.fixture(params=["native", "fractions"])
def implementation(request, monkeypatch):
    if request.param == "native" and not native_is_available():
        pytest.skip("native module not built")
    monkeypatch.setattr(module, "native_is_available", lambda: request.param == "native")
    return request.param


def best_segments(x, weights, k):
    """Textbook dynamic programming over distinct values, all columns tried, in fractions."""
    masses = {}
    for value, weight in zip(x.tolist(), weights.tolist(), strict=True):
        if weight > 0:
            key = Fraction(value)
            masses[key] = masses.get(key, 0) + Fraction(weight)
    values = sorted(masses)
    m = len(values)

    def sse(j, i):
        rows = values[j:i]
        weight = sum(masses[v] for v in rows)
        mean = sum(masses[v] * v for v in rows) / weight
        return sum(masses[v] * (v - mean) ** 2 for v in rows)

    costs = {(j, i): sse(j, i) for i in range(1, m + 1) for j in range(i)}
    best = [Fraction(0)] + [costs[0, i] for i in range(1, m + 1)]
    for _ in range(k - 1):
        best = [Fraction(0)] + [
            min([best[i], *(best[j] + costs[j, i] for j in range(1, i))]) for i in range(1, m + 1)
        ]
    return best[m]


@st.composite
def lines(draw):
    n = draw(st.integers(1, 14))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["lattice", "normal", "cauchy", "geometric"]))
    x = {
        "lattice": rng.integers(-4, 5, size=n) * 1.0,
        "normal": rng.normal(size=n),
        "cauchy": rng.standard_cauchy(size=n),
        "geometric": 10.0 ** rng.uniform(-8, 8, size=n),
    }[kind]
    x = (x + draw(st.sampled_from([0.0, 1e8, -1e12]))).astype(
        draw(st.sampled_from([np.float64, np.float32]))
    )
    weights = np.ones(n)
    if draw(st.booleans()):
        weights = rng.choice([0.0, 0.5, 1.0, 3.0, 1e-8, 1e8], size=n)
        weights[rng.integers(0, n)] = 1.0
    return x, weights, draw(st.integers(1, 5))


@pytest.mark.parametrize("native", [True, False])
@settings(max_examples=300)
@given(lines())
def test_equals_the_best_segmentation(native, line):
    if native and not native_is_available():
        return
    x, weights, k = line
    best = best_segments(x, weights, k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "native_is_available", lambda: native)
        bound = one_dimensional(x[:, None], k, None if (weights == 1).all() else weights)
    assert Fraction(bound.value) <= best
    scale = float(np.abs(x - np.median(x)).max()) ** 2 * weights.sum()
    assert float(best) - bound.value <= 1e-12 * float(best) + 1e-22 * scale
    assert (bound.kind, bound.confidence) == ("exact", 1.0)


def sse_at(centers, x, weights):
    """The SSE of the nearest centers, in fractions."""
    exact = [Fraction(c) for c in centers.ravel().tolist()]
    return sum(
        Fraction(w) * min((Fraction(v) - c) ** 2 for c in exact)
        for v, w in zip(x.tolist(), weights.tolist(), strict=True)
    )


@pytest.mark.parametrize("native", [True, False])
@settings(max_examples=300)
@given(lines())
def test_the_clusters_are_those_of_the_best_segmentation(native, line):
    if native and not native_is_available():
        return
    x, weights, k = line
    distinct = len(np.unique(x[weights > 0]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "native_is_available", lambda: native)
        given_weights = None if (weights == 1).all() else weights
        found = optimum_on_a_line(x[:, None], k, given_weights)
        bound = one_dimensional(x[:, None], k, given_weights)
    if k >= distinct:
        assert found is None or (k, distinct) == (1, 1)
        return
    assert found.bound.value == bound.value
    assert found.centers.shape == (k, 1) and (np.diff(found.centers[:, 0]) > 0).all()
    best = best_segments(x, weights, k)
    # Centers are rounded: each by less than a unit in the last place of the largest number.
    rounding = Fraction(float(np.spacing(np.abs(x).max().astype(np.float64)))) ** 2
    most = best * (1 + Fraction(1, 10**9)) + 4 * rounding * Fraction(float(weights.sum()))
    assert sse_at(found.centers, x, weights) <= most


def test_offset_does_not_cost_digits(implementation):
    rng = np.random.default_rng(0)
    n = 2000 if implementation == "native" else 60
    noise = rng.integers(0, 2**20, size=n) * 2.0**-20
    near = one_dimensional(noise[:, None], 4).value
    far = one_dimensional((noise + 2.0**30)[:, None], 4).value
    assert far == pytest.approx(near, rel=1e-14)


def test_a_far_outlier_does_not_cost_digits(implementation):
    rng = np.random.default_rng(1)
    n = 2000 if implementation == "native" else 60
    x = rng.normal(size=n)
    alone = one_dimensional(x[:, None], 3).value
    beside = one_dimensional(np.append(x, 1e7)[:, None], 4).value
    assert beside == pytest.approx(alone, rel=1e-9)


@pytest.mark.skipif(not native_is_available(), reason="native module not built")
def test_many_points_and_clusters():
    # Pairs at distance 1, far from each other: with one cluster per pair each pair costs 1/2.
    x = np.repeat(np.arange(300) * 100.0, 2)
    x[1::2] += 1.0
    assert one_dimensional(x[:, None], 300).value == pytest.approx(150.0, rel=1e-11)
    # One cluster less: two neighbouring pairs share one.
    merged = sum((v - 50.5) ** 2 for v in (0.0, 1.0, 100.0, 101.0))
    expected = 149.0 + merged
    assert one_dimensional(x[:, None], 299).value == pytest.approx(expected, rel=1e-11)


def test_above_other_bounds_and_sparse_the_same():
    x = np.random.default_rng(2).lognormal(size=(400, 1))
    value = one_dimensional(x, 6).value
    assert value >= neighbours(x, 6).value
    assert one_dimensional(sparse.csr_array(x), 6).value == value


def test_weights_beyond_what_can_be_summed_give_nothing_rather_than_something_wrong():
    x = np.array([[0.0], [1.0], [2.0]])
    weights = np.array([1e40, 1e-40, 1.0])
    best = best_segments(x.ravel(), weights, 2)
    assert 0.0 <= Fraction(one_dimensional(x, 2, weights).value) <= best


def test_one_column_only():
    with pytest.raises(ValueError, match="one column"):
        one_dimensional(np.ones((3, 2)), 1)


needs_native = pytest.mark.skipif(not native_is_available(), reason="native module not built")


@pytest.mark.parametrize("weighted", [False, True])
def test_clusters_as_narrow_as_the_spacing_of_numbers(implementation, weighted):
    # Squares of the offsets are as large as 2**104 times the SSE: even pairs of numbers round.
    rng = np.random.default_rng(3)
    for _ in range(60):
        starts = rng.uniform(1.0, 2.0, size=4) * [1.0, -1.0, 1.0, -1.0]
        x = np.concatenate([starts, starts * (1 + 2.0**-52), [0.0]])
        weights = rng.uniform(0.1, 10.0, size=9) if weighted else np.ones(9)
        bound = one_dimensional(x[:, None], 4, weights if weighted else None)
        assert Fraction(bound.value) <= best_segments(x, weights, 4)
        bound = one_dimensional(x[:, None], 5, weights if weighted else None)
        assert Fraction(bound.value) <= best_segments(x, weights, 5)


@pytest.mark.parametrize("heaviest", [1e15, 1e22, 1e32, 1e40])
def test_light_points_far_from_heavy_ones(implementation, heaviest):
    # The weight of the light ones is a difference of sums that the heavy ones dominate.
    rng = np.random.default_rng(4)
    for _ in range(40):
        far = rng.uniform(1.0, 2.0)
        x = np.array([-far, 0.0, 0.0, 0.0, far, far * (1 + 2.0**-50), far * (1 + 2.0**-49)])
        weights = rng.uniform(0.5, 1.0, size=7)
        weights[1:4] *= heaviest * np.array([1.0, 1e-3, 1e-6])
        bound = one_dimensional(x[:, None], 3, weights)
        assert Fraction(bound.value) <= best_segments(x, weights, 3)


@needs_native
def test_weights_that_drown_in_their_sum_give_nothing():
    x, weights = np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 1e40, 1.0, 1.0])
    assert module._native.one_dimensional(x, weights, 2) == (0.0, math.inf)


@needs_native
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("pairs", [3, 60])
def test_the_error_is_as_large_as_stated(weighted, pairs):
    """The bound on the error at the head of one_dimensional.cpp, in fractions."""
    n = 2 * pairs
    x = 100.0 * np.repeat(np.arange(float(pairs)), 2)
    x[1::2] += 2.0
    masses = np.repeat(2.0 ** (np.arange(pairs) % 5), 2) if weighted else np.ones(n)
    value, error = module._native.one_dimensional(x, masses if weighted else None, pairs)
    # No number on the way is rounded, so that all of the error is the one that is stated.
    assert value == masses.sum()
    offsets, w = (x - x[n // 2]).astype(int).tolist(), masses.astype(int).tolist()
    first = sum(a * abs(y) for a, y in zip(w, offsets, strict=True))
    second = sum(a * y * y for a, y in zip(w, offsets, strict=True))
    reach = max(map(abs, offsets))
    spread = second + reach * first + (reach**2 * sum(w) if weighted else 0)
    block = math.ceil(math.sqrt(n))
    e = 3 * (block + Fraction(n, block)) + 16
    each = (10 * e + 100) * Fraction(1, 2**106) * spread
    assert Fraction(error) >= pairs * (4 * n + 200) * each
