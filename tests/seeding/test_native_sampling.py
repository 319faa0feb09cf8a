"""Samples and orders in native code: those of the specification, for any number of threads."""

import numpy as np
import pytest

from wolfmeans.core.draws import integer_shift, scaled
from wolfmeans.engines.sampling import HashMasses, below, sums_in_buckets
from wolfmeans.exact import native
from wolfmeans.exact.hashing import mix
from wolfmeans.exact.native import NativeKernels
from wolfmeans.exact.ordering import lexicographic_order

pytestmark = pytest.mark.skipif(not native.native_is_available(), reason="no native module")
# Two threads are worth while for the last one.
SIZES = (0, 1, 7, 1000, 700_000)
KEY = 0x9E3779B97F4A7C15


def hashes_of(n):
    return mix(np.arange(n, dtype=np.uint64))


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("n", SIZES)
def test_rows_below_limits(n, n_threads):
    hashes, rng = hashes_of(n), np.random.default_rng(n)
    for bits in (0, 1, 9):
        limits = rng.uniform(-0.1, 1.1, size=1 << bits)
        expected = below(hashes, KEY, [limits])
        assert np.array_equal(native.rows_below(hashes, KEY, limits, n_threads), expected)


def test_several_levels_of_limits():
    hashes, rng = hashes_of(5000), np.random.default_rng(0)
    limits = [rng.uniform(size=1 << 6), rng.uniform(size=1 << 6)]
    assert np.array_equal(below(hashes, KEY, limits, n_threads=2), below(hashes, KEY, limits))


@pytest.mark.parametrize("n_threads", [1, 2, 5])
@pytest.mark.parametrize("size", [1.0, 1e-300, 1e290, 5e-324])
@pytest.mark.parametrize("n", SIZES)
def test_masses_of_buckets(n, size, n_threads):
    hashes, rng = hashes_of(n), np.random.default_rng(n)
    masses = size * rng.exponential(size=n)
    for weights in (None, rng.integers(0, 3, size=n) * 0.5):
        each = masses if weights is None else weights * masses
        shift = integer_shift(float(each.max(initial=0.0)), n)
        for bits in (0, 8):
            expected = sums_in_buckets(HashMasses(hashes, scaled(each, shift)), bits, 0)
            found = native.bucket_masses(hashes, masses, weights, shift, bits, n_threads)
            assert np.array_equal(found, expected)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, 2.0**60])
def test_masses_without_room_are_refused(bad):
    masses = np.array([1.0, bad, 2.0])
    with pytest.raises(ValueError, match="fit their sums"):
        native.bucket_masses(hashes_of(3), masses, None, 10, 2, 1)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["normal", "few values", "constant first", "one bucket"])
def test_order_of_values(kind, dtype, n_threads):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(140_000, 3)).astype(dtype)
    if kind == "few values":
        X = np.round(X)  # with zeros of both signs
    elif kind == "constant first":
        X[:, 0] = 2.0
    elif kind == "one bucket":
        X[0, 0] = 1e30
    order = NativeKernels(X, n_threads).order()
    assert np.array_equal(order, lexicographic_order(X))
