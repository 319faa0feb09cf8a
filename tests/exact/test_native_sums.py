"""The native exact sums and moments against their Python specification, bit for bit."""

import gc
import math
import threading
import weakref
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wolfmeans.engines.reference import Moments
from wolfmeans.exact.sums import weighted_sum

native = pytest.importorskip("wolfmeans.exact._native")

CLASSES = {np.dtype(np.float32): native.MomentsF32, np.dtype(np.float64): native.MomentsF64}
THREADS = (1, 2, 5)

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
# What the door lets pass at the outermost, and lighter fare.
values = st.one_of(
    st.floats(-(2.0**490), 2.0**490),
    st.floats(-1e3, 1e3),
    st.floats(-1e3, 1e3, width=32),
    st.integers(-8, 8).map(float),
    st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 2.0**-1022, 1e-310, 2.0**490, -(2.0**490)]),
)
heaviness = st.one_of(
    st.floats(0.0, 10.0),
    st.floats(2.0**-300, 2.0**300),
    st.integers(0, 5).map(float),
    st.sampled_from([0.0, 1.0, 2.0**-290, 2.0**290, 1e-17, 0.1]),
)


def bits(array):
    """Return what distinguishes even 0.0 from -0.0."""
    return array.dtype, array.shape, array.tobytes()


class Both:
    """The specification and the native moments side by side, on a number of threads each."""

    def __init__(self, X, weights, n_clusters, threads=THREADS):
        self.X, self.n_clusters = X, n_clusters
        self.specified = Moments(X, weights, n_clusters)
        self.native = [CLASSES[X.dtype](X, weights, n_clusters, t) for t in threads]

    def add_all(self, labels):
        self.specified.move(np.arange(len(self.X)), None, labels)
        for moments in self.native:
            moments.add_all(labels)

    def move(self, rows, old, new):
        for moments in (self.specified, *self.native):
            moments.move(rows, old, new)

    def check(self, fallback=None):
        if fallback is None:
            shape = (self.n_clusters, self.X.shape[1])
            fallback = np.arange(math.prod(shape), dtype=self.X.dtype).reshape(shape)
        expected = self.specified.means(fallback)
        for moments in self.native:
            for a, b in zip(expected, moments.means(fallback), strict=True):
                np.testing.assert_array_equal(b, a)
                assert bits(a) == bits(b)
        return expected


def labels_for(rng, n, n_clusters):
    return rng.integers(0, n_clusters, size=n).astype(np.int32)


def wander(both, labels, rng, steps):
    """Move random rows about, among them rows that stay where they are."""
    n, k = len(labels), both.n_clusters
    for _ in range(steps):
        rows = rng.choice(n, size=rng.integers(0, n + 1), replace=False)
        new = labels_for(rng, len(rows), k)
        both.move(rows, labels[rows], new)
        labels[rows] = new
        both.check()


# --- Sums -------------------------------------------------------------------------------------


SUMS = {
    "nothing": [],
    "signed zeros": [-0.0, 0.0, -0.0],
    "cancellation": [1e16, 1.0, -1e16, 1e-16, -1.0],
    "half way to even": [1.0, 2.0**-53],
    "just above half way": [1.0, 2.0**-53, 5e-324],
    "just below half way": [1.0, 2.0**-53, -5e-324],
    "half way to odd": [1.0 + 2.0**-52, 2.0**-53],
    "denormals": [5e-324] * 7 + [-1e-310],
    "into the normals": [2.0**-1022, -5e-324, 5e-324, 5e-324],
    "the largest, rounded down": [1.7976931348623157e308, 2.0**969],
    "far apart": [2.0**1023, 5e-324, -(2.0**1023)],
    "negative": [-1.0, -(2.0**-53), -(2.0**-54)],
    "many carries": [1.0 - 2.0**-53] * 5000 + [-(2.0**-1074)],
    "downwards without end": [-(1.0 - 2.0**-53)] * 5000 + [2.0**-1074],
}


@pytest.mark.parametrize("terms", SUMS.values(), ids=SUMS.keys())
@pytest.mark.parametrize("threads", THREADS)
def test_adversarial_sums_equal_fsum(terms, threads):
    assert native.weighted_sum(None, np.array(terms, dtype=float), threads) == math.fsum(terms)


@given(st.lists(finite, max_size=30))
def test_sums_equal_the_rational_sum(terms):
    array = np.array(terms, dtype=float)
    try:
        expected = float(sum(map(Fraction, terms), Fraction(0)))
    except OverflowError:
        with pytest.raises(OverflowError):
            native.weighted_sum(None, array, 1)
    else:
        assert native.weighted_sum(None, array, 1) == expected


@given(st.lists(st.tuples(heaviness, st.floats(0.0, 2.0**600)), max_size=30))
def test_weighted_sums_equal_the_specification(pairs):
    weights, terms = np.array(pairs, dtype=float).reshape(-1, 2).T.copy()
    assert native.weighted_sum(weights, terms, 1) == weighted_sum(weights, terms)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("weighted", [False, True])
def test_long_sums_do_not_depend_on_threads(threads, weighted):
    rng = np.random.default_rng(0)
    terms = rng.normal(size=1_000_003) * 2.0 ** rng.integers(-500, 500, size=1_000_003)
    weights = rng.uniform(size=len(terms)) if weighted else None
    assert native.weighted_sum(weights, terms, threads) == weighted_sum(weights, terms)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("threads", THREADS)
def test_digits_never_overflow(threads, sign):
    """Terms that fill a digit to the brim, with some among them that force digit by digit."""
    terms = np.full(5 * 125_999, sign * (4.0 - 2.0**-51))
    terms[::100] = 2.0**-300
    assert native.weighted_sum(None, terms, threads) == math.fsum(terms.tolist())


def test_terms_that_are_not_finite_are_treated_as_fsum_does():
    inf, nan = math.inf, math.nan
    assert native.weighted_sum(None, np.array([1.0, inf, 1.0]), 1) == inf
    assert native.weighted_sum(None, np.array([-inf, 1e308, 1e308]), 1) == -inf
    assert math.isnan(native.weighted_sum(None, np.array([inf, nan]), 1))
    with pytest.raises(ValueError, match="inf"):
        native.weighted_sum(None, np.array([inf, -inf]), 1)
    with pytest.raises(OverflowError):
        native.weighted_sum(None, np.array([1.7976931348623157e308, 2.0**970]), 1)


# --- Moments ----------------------------------------------------------------------------------


@st.composite
def labelled_rows(draw):
    n, d, k = draw(st.integers(1, 12)), draw(st.integers(1, 9)), draw(st.integers(1, 4))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    few = st.lists(values, min_size=1, max_size=n * d)
    X = np.resize(np.array(draw(few)), (n, d))
    X = np.clip(X, -(2.0**127), 2.0**127).astype(dtype) if dtype is np.float32 else X
    weights = None
    if draw(st.booleans()):
        weights = np.resize(np.array(draw(st.lists(heaviness, min_size=1, max_size=n))), n)
    return X, weights, k, np.random.default_rng(draw(st.integers(0, 2**32 - 1)))


@settings(max_examples=400)
@given(labelled_rows())
def test_moments_equal_the_specification(instance):
    X, weights, k, rng = instance
    both = Both(X, weights, k, threads=(1, 2))
    labels = labels_for(rng, len(X), k)
    both.add_all(labels)
    both.check()
    wander(both, labels, rng, 3)


def outlier(rng, n, d):
    X = rng.normal(size=(n, d))
    X[n // 2, 0] = 1e30
    return X


def denormals(rng, n, d):
    return rng.integers(-9, 10, size=(n, d)) * 5e-324


DATA = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "integers": lambda rng, n, d: rng.integers(-3, 256, size=(n, d)) * 1.0,
    "zeros": lambda rng, n, d: np.zeros((n, d)),
    "outlier": outlier,
    "offset 1e12": lambda rng, n, d: 1e12 + rng.normal(size=(n, d)),
    "tiny beside large": lambda rng, n, d: rng.normal(size=(n, d)) * 10.0 ** rng.integers(-30, 30),
    "columns of all sizes": lambda rng, n, d: rng.normal(size=(n, d)) * np.logspace(-36, 36, d),
    "denormals": denormals,
    "denormals beside normals": lambda rng, n, d: (
        denormals(rng, n, d) + rng.choice([0.0, 1.0], (n, d))
    ),
    "cancellation": lambda rng, n, d: (
        np.where(np.arange(n)[:, None] % 2, 1.0, -1.0) * 1e20 + rng.normal(size=(n, d))
    ),
}
WEIGHTS = {
    "none": lambda rng, n: None,
    "uniform": lambda rng, n: rng.uniform(size=n),
    "counts": lambda rng, n: rng.integers(0, 5, size=n) * 1.0,
    "seventeen decades": lambda rng, n: 10.0 ** rng.uniform(-17, 0, size=n),
    "2**±290": lambda rng, n: (
        2.0 ** rng.choice([-290.0, 0.0, 290.0], size=n) * rng.uniform(1, 2, n)
    ),
    "all 2**-290": lambda rng, n: 2.0**-290 * rng.uniform(1, 2, size=n),
    "zero": lambda rng, n: np.zeros(n),
}


@pytest.mark.parametrize("weighting", WEIGHTS)
@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_adversarial_moments(kind, weighting, dtype):
    rng = np.random.default_rng(11)
    for n, d, k in [(40, 1, 3), (30, 3, 7), (25, 16, 2), (14, 31, 2), (9, 100, 3)]:
        X = np.ascontiguousarray(DATA[kind](rng, n, d), dtype=dtype)
        both = Both(X, WEIGHTS[weighting](rng, n), k)
        labels = labels_for(rng, n, k)
        both.add_all(labels)
        both.check()
        wander(both, labels, rng, 2)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("limbs", range(1, 10))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_number_of_limbs(dtype, limbs, weighted):
    """Spans of exponents from below one limb of 42 bits to beyond the fast kernels."""
    rng = np.random.default_rng(limbs)
    span = 42 * limbs - 30
    for offset in (-60, 0, 60):
        for nudge in (-14, 0, 1, 2, 14):
            top = min(offset + span // 2, 126 if dtype is np.float32 else 400)
            low = top - span - nudge
            # One bit at either end; in between what the precision holds.
            X = rng.normal(size=(12, 5)) * 2.0 ** rng.integers(low + 53, max(low + 54, top - 3))
            X[0, :2] = 2.0**low, -(2.0**top)
            X[1, :2] = 2.0 ** (top - 1), -(2.0**low)
            both = Both(X.astype(dtype), rng.integers(1, 9, 12) / 8 if weighted else None, 2)
            labels = labels_for(rng, 12, 2)
            both.add_all(labels)
            both.check()
            wander(both, labels, rng, 1)


def test_integers_of_few_bits_need_not_be_near_zero():
    X = np.array([[2.0**52 + 1.0], [2.0**52 + 3.0], [2.0**53 - 1.0]])
    both = Both(X, None, 1)
    both.add_all(np.zeros(3, dtype=np.int32))
    both.check()


MEANS = {
    # X, the exact mean of all rows
    "tie of float64, to even": [1.0, 1.0 + 2.0**-52],
    "tie of float64, to odd": [1.0 + 2.0**-52, 1.0 + 2.0**-51],
    "just above the tie": [1.0, 1.0 + 2.0**-52, 1.0, 1.0 + 2.0**-52 + 2.0**-51],
    "tie of denormals": [5e-324, 0.0],
    "tie of denormals upwards": [5e-324, 1e-323],
    "a third of the least": [5e-324, 0.0, 0.0],
    "two thirds of the least": [5e-324, 5e-324, 0.0],
    "minus a third of the least": [-5e-324, 0.0, 0.0],
    "below the least normal": [2.0**-1022, 2.0**-1022 - 5e-324],
    "thirds": [1.0, 0.0, 0.0],
    "sevenths, negative": [-1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    "nothing left": [1.0, 2.0, 3.0],
    "cancelled": [1.0, -1.0],
    "ulps": [1.0, 1.0, 1.0 + 2.0**-52],
    "a power of two from below": [1.0 - 2.0**-53, 1.0],
    "a residual far below": [1.0, 2.0**-300, 0.0, 0.0],
    "a residual on a tie": [4.0, 2.0**-60 + 2.0**-112, 2.0**-113, 0.0],
    "a negative residual on a tie": [4.0, -(2.0**-60) - 2.0**-112, -(2.0**-113), 0.0],
    "a residual on a tie, within 128 bits": [4.0, 2.0**-53 + 2.0**-105, 2.0**-106, 0.0],
    "a residual off a tie, within 128 bits": [4.0, 2.0**-53 + 2.0**-105, 2.0**-106, 2.0**-118],
    "a residual off an odd tie": [4.0, 2.0**-53, 2.0**-106, 2.0**-118],
    "a tie broken far below": [1.0, 2.0**-53, 2.0**-300, 0.0],
    "a tie broken far below, downwards": [1.0, 2.0**-53, -(2.0**-300), 0.0],
    "a residual off a tie far below": [4.0, 2.0**-60, 2.0**-113, 2.0**-400],
    "a residual that is a denormal": [2.0**-1000, 5e-324, 0.0, 0.0],
}


@pytest.mark.parametrize("column", MEANS.values(), ids=MEANS.keys())
@pytest.mark.parametrize("factor", [1.0, 0.1, 3.0, 2.0**-200])
@pytest.mark.parametrize("beside", [0.0, 2.0**-400], ids=["alone", "beside small numbers"])
def test_half_way_cases_of_means_and_residuals(column, factor, beside):
    X = np.column_stack([column, np.full(len(column), beside)])
    labels = np.zeros(len(X), dtype=np.int32)
    for weights in (None, np.full(len(X), factor)):
        both = Both(X, weights, 1)
        both.add_all(labels)
        _, means, residuals = both.check()
        exact = sum(map(Fraction, column), Fraction(0)) / len(column)
        assert means[0, 0] == float(exact)
        assert residuals[0, 0] == float(exact - Fraction(float(exact)))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("extra", [0.0, 2.0**-60, -(2.0**-60), 2.0**-30])
def test_ties_at_float32_midpoints(sign, extra):
    """The mean lies on, or hair's breadth beside, the middle of two float32 numbers."""
    step = np.float32(2.0**-23)
    rows = [1.0, 1.0 + step, 1.0 + step, 1.0 + 2 * step, extra, -extra, 2 * extra, 0.0]
    X = (sign * np.array(rows)).astype(np.float32)[:, None]
    for chosen in ([0, 1], [1, 3], [0, 1, 4, 7], [0, 1, 2, 3], [0, 1, 4, 5, 6, 7]):
        labels = np.ones(len(X), dtype=np.int32)
        labels[chosen] = 0
        both = Both(X, None, 2)
        both.add_all(labels)
        both.check()


@given(
    st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=6),
    st.lists(st.integers(-1074, 430), min_size=1, max_size=6),
    st.lists(st.integers(1, 2**53), min_size=1, max_size=6),
    st.lists(st.integers(-290, 240), min_size=1, max_size=6),
)
@settings(max_examples=400)
def test_long_division(mantissas, exponents, heavy, scales):
    """Weights and values of full length, at any distance from each other."""
    n = max(len(mantissas), len(exponents), len(heavy), len(scales))
    X = np.ldexp(np.resize(mantissas, n).astype(float), np.resize(exponents, n))[:, None]
    weights = np.ldexp(np.resize(heavy, n).astype(float), np.resize(scales, n))
    both = Both(X, weights, 1, threads=(1,))
    both.add_all(np.zeros(n, dtype=np.int32))
    both.check()


@pytest.mark.parametrize("pieces", [2, 4, 7])
def test_division_by_a_weight_of_ones_alone(pieces):
    """All bits of the weight's words are set: the hardest carries of long division."""
    rng = np.random.default_rng(pieces)
    weights = np.ldexp(2.0**53 - 1.0, 53 * np.arange(pieces))
    exponents = rng.integers(-60, 60, size=(pieces, 300))
    X = np.ldexp(rng.integers(-(2**53), 2**53, size=(pieces, 300)).astype(float), exponents)
    X[:, :100] = rng.choice([1.0, -1.0, 0.0, 1.0 - 2.0**-53], size=(pieces, 100))
    both = Both(X, weights, 1, threads=(1,))
    both.add_all(np.zeros(pieces, dtype=np.int32))
    both.check()


@pytest.mark.parametrize("kind", ["normal", "outlier", "denormals beside normals"])
@pytest.mark.parametrize("weighted", [False, True])
def test_many_moves_forth_and_back_leave_no_trace(kind, weighted):
    rng = np.random.default_rng(5)
    n, d, k = 60, 5, 6
    X = DATA[kind](rng, n, d)
    weights = 10.0 ** rng.uniform(-8, 8, size=n) if weighted else None
    final = labels_for(rng, n, k)
    for threads in THREADS:
        moments = native.MomentsF64(X, weights, k, threads)
        labels = labels_for(rng, n, k)
        moments.add_all(labels)
        for _ in range(300):
            rows = rng.integers(0, n, size=1)
            new = labels_for(rng, 1, k)
            moments.move(rows, labels[rows], new)
            labels[rows] = new
        moments.move(np.arange(n), labels, final)
        direct = Moments(X, weights, k)
        direct.move(np.arange(n), None, final)
        fallback = np.zeros((k, d))
        for a, b in zip(direct.means(fallback), moments.means(fallback), strict=True):
            assert bits(a) == bits(b)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_work_for_several_threads(dtype, weighted):
    """Enough rows for threads to have sums of their own, one way and by way of moves."""
    rng = np.random.default_rng(8)
    n, d, k = 120_000, 10, 4
    X = (rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, size=(n, 1))).astype(dtype)
    weights = rng.uniform(size=n) if weighted else None
    both = Both(X, weights, k)
    labels = labels_for(rng, n, k)
    both.add_all(labels)
    both.check()
    new = labels_for(rng, n, k)
    both.move(np.arange(n), labels, new)
    both.check()


@pytest.mark.parametrize("place", [0, -1])
def test_every_thread_looks_at_the_exponents(place):
    """The largest and the smallest number may lie in any thread's part."""
    X = np.ones((1_100_000, 2))
    X[place] = 1e30, 3e-30
    labels = np.zeros(len(X), dtype=np.int32)
    labels[place] = 1
    both = Both(X, None, 2)
    both.add_all(labels)
    both.check()


@pytest.mark.parametrize("weighting", ["none", "uniform"])
def test_many_means_are_computed_by_several_threads(weighting):
    rng = np.random.default_rng(9)
    n, d, k = 3000, 20, 1500
    both = Both(rng.normal(size=(n, d)), WEIGHTS[weighting](rng, n), k)
    labels = labels_for(rng, n, k)
    both.add_all(labels)
    both.check()


def numbers_for_quotients(rng, n, d):
    """Columns whose means are ties, powers of two from either side, exact, or nothing special."""
    kinds = [
        rng.integers(-(2**53), 2**53, size=(n, d)).astype(float),
        rng.choice([1.0, 1.0 + 2.0**-52, 1.0 - 2.0**-53, 2.0, -1.0, 0.0], size=(n, d)),
        rng.integers(-4, 5, size=(n, d)).astype(float),
        1.0 + rng.integers(0, 4, size=(n, d)) * 2.0**-52,
        rng.normal(size=(n, d)) * 2.0 ** rng.integers(-20, 20, size=(n, d)),
        np.where(np.arange(n)[:, None] % 2, 1.0, -1.0) * 2.0**20 + rng.normal(size=(n, d)),
    ]
    return np.concatenate(kinds, axis=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 7, 8, 1000])
def test_quotients_of_many_columns(n_rows, dtype):
    """Both ways to a quotient meet here: by vectors where that is certain, by long division."""
    rng = np.random.default_rng(n_rows)
    X = numbers_for_quotients(rng, n_rows, 21)
    for scale in (1.0, 2.0**-40, 2.0**40, 2.0**-1000):
        both = Both((X * scale).astype(dtype), None, 2, threads=(1,))
        both.add_all(np.zeros(n_rows, dtype=np.int32))
        both.check()
        for columns in np.split(X, 6, axis=1):
            both = Both(np.ascontiguousarray(columns * scale).astype(dtype), None, 1, threads=(1,))
            both.add_all(np.zeros(n_rows, dtype=np.int32))
            both.check()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 3, 5, 8, 11, 24, 25, 40])
def test_rows_of_every_width(d, dtype, weighted):
    """Rows narrow and wide, sorted by label or as they come, up to the very last row of X."""
    rng = np.random.default_rng(d)
    for n, k in [(1, 1), (5, 2), (9, 12), (300, 3), (400, 150)]:
        X = rng.normal(size=(n, d)).astype(dtype)
        both = Both(X, rng.uniform(size=n) if weighted else None, k)
        labels = labels_for(rng, n, k)
        both.add_all(labels)
        both.check()
        wander(both, labels, rng, 2)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("d", [1, 30])
def test_carries_within_one_deposit(d, threads):
    """Limbs of 46 bits hold 2**14 rows: more than that come at once, several times."""
    rng = np.random.default_rng(d)
    n = 70_000
    X = rng.choice([1.0, -1.0], size=(n, d)) * (
        2.0**30 - rng.integers(0, 9, size=(n, d)) * 2.0**-23
    )
    X[0] = 3 * 2.0**-61
    both = Both(X, None, 3, threads=(threads,))
    labels = labels_for(rng, n, 3)
    both.add_all(labels)
    both.check()
    wander(both, labels, rng, 1)


def test_carries_come_before_limbs_overflow():
    """All bits of two limbs of 42 are in use, so half a million rows are more than an int64 holds.

    Every row counts almost 2**41 in the upper limb: 2**23 of them would be 2**64.
    """
    n = 1 << 23
    largest = np.nextafter(np.float64(2.0**30), 0.0)
    smallest = 3 * 2.0**-53
    X = np.full((n, 1), largest)
    X[0] = smallest
    moments = native.MomentsF64(X, None, 2, 2)
    labels = np.ones(n, dtype=np.int32)
    moments.add_all(labels)
    weights, means, residuals = moments.means(np.zeros((2, 1)))
    exact = ((n - 1) * Fraction(largest) + Fraction(smallest)) / n
    assert weights.tolist() == [0.0, n]
    assert means.tolist() == [[0.0], [float(exact)]]
    assert residuals[1, 0] == float(exact - Fraction(float(exact)))
    moments.move(np.arange(1, n), labels[1:], np.zeros(n - 1, dtype=np.int32))
    weights, means, residuals = moments.means(np.zeros((2, 1)))
    assert weights.tolist() == [n - 1, 1]
    assert means.tolist() == [[largest], [smallest]]
    assert residuals.tolist() == [[0.0], [0.0]]


def test_adding_twice_counts_twice():
    X = np.array([[1.0], [2.0], [4.0]])
    moments = native.MomentsF64(X, None, 1, 1)
    labels = np.zeros(3, dtype=np.int32)
    moments.add_all(labels)
    moments.add_all(labels)
    weights, means, _ = moments.means(np.zeros((1, 1)))
    assert weights[0] == 6.0
    assert means[0, 0] == 7 / 3


def test_an_empty_cluster_takes_the_fallback_of_the_day():
    X = np.array([[1.0, 2.0], [3.0, 5.0]])
    both = Both(X, None, 3)
    labels = np.array([0, 2], dtype=np.int32)
    both.check(np.full((3, 2), -1.0))
    both.add_all(labels)
    both.check(np.full((3, 2), 7.0))
    _, means, _ = both.check(np.full((3, 2), 8.0))
    assert means[1].tolist() == [8.0, 8.0]
    both.move(np.array([0]), labels[:1], np.array([1], dtype=np.int32))
    _, means, _ = both.check(np.full((3, 2), 9.0))
    assert means.tolist() == [[9.0, 9.0], [1.0, 2.0], [3.0, 5.0]]


def test_taking_out_what_was_never_in_leaves_a_debt():
    X = np.array([[1.0, -2.0], [3.0, 5.0], [-4.0, 0.1]])
    for weights in (None, np.array([0.1, 3.0, 1e-9])):
        both = Both(X, weights, 2)
        both.move(np.array([0, 1, 2]), np.zeros(3, np.int32), np.ones(3, np.int32))
        both.check()
        both.move(np.array([0, 2]), np.ones(2, np.int32), np.zeros(2, np.int32))
        both.check()


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 0)])
def test_no_rows_or_no_columns(shape):
    both = Both(np.zeros(shape), None, 2)
    both.add_all(np.zeros(shape[0], dtype=np.int32))
    both.check()


# --- The boundary -----------------------------------------------------------------------------


def test_results_are_new_arrays_and_input_is_kept_alive():
    X = np.arange(6.0).reshape(3, 2)
    weights = np.array([1.0, 2.0, 4.0])
    alive = weakref.ref(X), weakref.ref(weights)
    moments = native.MomentsF64(X, weights, 2, 1)
    del X, weights
    gc.collect()
    assert all(reference() is not None for reference in alive)
    moments.add_all(np.array([0, 1, 1], dtype=np.int32))
    first = moments.means(np.zeros((2, 2)))
    kept = [a.copy() for a in first]
    moments.move(np.array([0]), np.array([0], np.int32), np.array([1], np.int32))
    second = moments.means(np.zeros((2, 2)))
    for a, b, c in zip(first, second, kept, strict=True):
        assert not np.shares_memory(a, b)
        assert a.flags.writeable
        assert (a == c).all()
    del moments
    gc.collect()
    assert all(reference() is None for reference in alive)


def test_threads_of_python_may_share_the_moments():
    rng = np.random.default_rng(1)
    n, d, k = 20_000, 6, 5
    X = rng.normal(size=(n, d))
    moments = native.MomentsF64(X, None, k, 1)
    labels, new = labels_for(rng, n, k), labels_for(rng, n, k)
    moments.add_all(labels)

    def work(start):
        rows = np.arange(start, n, 4)
        for _ in range(20):
            moments.move(rows, labels[rows], new[rows])
            moments.move(rows, new[rows], labels[rows])
        moments.move(rows, labels[rows], new[rows])

    workers = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    direct = Moments(X, None, k)
    direct.move(np.arange(n), None, new)
    fallback = np.zeros((k, d))
    for a, b in zip(direct.means(fallback), moments.means(fallback), strict=True):
        assert bits(a) == bits(b)


X34 = np.ones((3, 4))
LABELS = np.zeros(3, dtype=np.int32)
ROWS = np.arange(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: native.MomentsF64(np.ones(3), None, 2, 1), "two dimensions"),
        (lambda: native.MomentsF64(X34, np.ones(4), 2, 1), r"weights must have shape \(3,\)"),
        (lambda: native.MomentsF64(X34, None, 0, 1), "n_clusters"),
        (lambda: native.MomentsF64(X34, None, 2**31, 1), "n_clusters"),
        (lambda: native.MomentsF64(X34, None, 2, 0), "n_threads"),
        (lambda: native.MomentsF64(X34 * math.inf, None, 2, 1), "finite"),
        (lambda: native.MomentsF64(X34 * math.nan, None, 2, 1), "finite"),
        (lambda: native.MomentsF64(X34, np.full(3, math.nan), 2, 1), "finite"),
        (lambda: native.weighted_sum(None, X34, 1), "one dimension"),
        (lambda: native.weighted_sum(np.ones(2), np.ones(3), 1), "weights must have shape"),
        (lambda: native.weighted_sum(None, np.ones(3), 0), "n_threads"),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: m.add_all(LABELS[:2]), r"labels must have shape \(3,\)"),
        (lambda m: m.add_all(LABELS + 2), r"labels\[0\] is 2, outside 0\.\.1"),
        (lambda m: m.add_all(np.array([0, 0, -1], np.int32)), r"labels\[2\] is -1"),
        (lambda m: m.move(ROWS + 1, LABELS, LABELS), r"rows\[2\] is 3, outside 0\.\.2"),
        (lambda m: m.move(-ROWS, LABELS, LABELS), r"rows\[1\] is -1"),
        (lambda m: m.move(ROWS, LABELS[:2], LABELS), r"old must have shape \(3,\)"),
        (lambda m: m.move(ROWS, LABELS, LABELS[:2]), r"new must have shape \(3,\)"),
        (lambda m: m.move(ROWS, LABELS + 2, LABELS), r"old\[0\] is 2"),
        (lambda m: m.move(ROWS, LABELS, LABELS - 1), r"new\[0\] is -1"),
        (lambda m: m.move(ROWS[:, None], LABELS, LABELS), "one dimension"),
        (lambda m: m.means(np.zeros((2, 3))), r"fallback must have shape \(2, 4\)"),
        (lambda m: m.means(np.zeros(4)), "fallback must have shape"),
    ],
)
def test_calls_that_cannot_be_are_refused_and_change_nothing(call, message):
    both = Both(X34, None, 2, threads=(1,))
    both.add_all(LABELS)
    with pytest.raises(ValueError, match=message):
        call(both.native[0])
    both.check()


def test_arrays_are_never_converted():
    with pytest.raises(TypeError):
        native.MomentsF64(X34.astype(np.float32), None, 2, 1)
    with pytest.raises(TypeError):
        native.MomentsF32(X34, None, 2, 1)
    with pytest.raises(TypeError):
        native.MomentsF64(np.ones((3, 8))[:, ::2], None, 2, 1)
    with pytest.raises(TypeError):
        native.MomentsF64(X34, None, 2, 1).add_all(LABELS.astype(np.int64))
    with pytest.raises(TypeError):
        native.weighted_sum(None, np.ones(3, dtype=np.float32), 1)
