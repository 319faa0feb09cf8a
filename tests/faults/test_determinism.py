"""Determinism: the same bits for every number of threads, vector unit, engine, and every time.

Centers, labels, inertia, the trace and the certificate are compared, not only a rounded number.
"""

import warnings

import numpy as np
import pytest
from broken import fails_when
from engines import ENGINES
from samples import bits, cloud, quietly
from scipy import sparse

from everywhere import PLACES, fit_at
from interpreted import needs_triton
from wolfmeans import KMeans, TrimmedKMeans

needs_native = pytest.mark.skipif("cpu" not in ENGINES, reason="needs the native module")


def _sparse(X):
    return sparse.csr_array(np.where(X > 0.4, X, 0.0))


# Large enough that threads are worth starting, and shapes that take different kernels.
FITS = {
    "few columns": lambda **s: quietly(KMeans(12, **s), cloud(9000, 2)),
    "some columns, float32": lambda **s: quietly(KMeans(20, **s), cloud(5000, 9).astype("f4")),
    "many columns": lambda **s: quietly(KMeans(17, **s), cloud(3000, 40)),
    "one column": lambda **s: quietly(KMeans(9, **s), cloud(4000, 1)),
    "offset": lambda **s: quietly(KMeans(9, **s), cloud(4000, 3) + 1e8),
    "weights": lambda **s: quietly(
        KMeans(9, **s), cloud(4000, 5), np.random.default_rng(1).choice([0, 1e-9, 1, 1e9], 4000)
    ),
    "sparse": lambda **s: quietly(KMeans(9, **s), _sparse(cloud(3000, 30))),
    "starts": lambda **s: quietly(KMeans(6, init="random", n_init=5, **s), cloud(2000, 4)),
    "k-means||": lambda **s: quietly(KMeans(9, init="k-means||", **s), cloud(3000, 4)),
    "polished": lambda **s: quietly(KMeans(6, polish="hartigan", **s), cloud(1500, 3)),
    "swapped": lambda **s: quietly(KMeans(4, polish="swap", **s), cloud(400, 2)),
    "trimmed": lambda **s: quietly(TrimmedKMeans(5, n_init=3, **s), cloud(3000, 4)),
}


def fitted(name, engine="cpu", n_threads=2):
    return bits(FITS[name](engine=engine, n_threads=n_threads, random_state=3, max_iter=25))


@needs_native
@fails_when("threads_change_the_result", name="few columns")
@fails_when("threads_change_the_result", name="starts")
@pytest.mark.parametrize("name", FITS)
def test_the_same_bits_for_1_2_and_8_threads(name):
    one = fitted(name, n_threads=1)
    assert fitted(name, n_threads=2) == one
    assert fitted(name, n_threads=8) == one


@needs_native
@fails_when("vector_units_change_the_result", name="many columns")
@pytest.mark.parametrize("name", FITS)
def test_the_same_bits_on_every_vector_unit(name, monkeypatch):
    found = set()
    for unit in ("baseline", "avx2", "avx512"):
        monkeypatch.setenv("WOLFMEANS_VECTOR_UNIT", unit)
        found.add(fitted(name))
    assert len(found) == 1


SMALL = {
    "plain": lambda: (cloud(40, 3), None),
    "float32 with an offset": lambda: ((cloud(24, 3) * 100 + 1e6).astype(np.float32), None),
    "weights": lambda: (cloud(24, 2), np.random.default_rng(1).choice([0, 1e-9, 1, 1e9], 24)),
    "lattice": lambda: (np.rint(cloud(40, 2)), None),
}


@fails_when("engines_change_the_result", engine="cpu", name="plain")
@pytest.mark.parametrize(
    ("name", "engine"),
    [
        *((name, "cpu") for name in SMALL if "cpu" in ENGINES),
        pytest.param("float32 with an offset", "gpu", marks=needs_triton),
        pytest.param("weights", "gpu", marks=needs_triton),
    ],
)
def test_the_same_bits_on_every_engine(engine, name):
    X, weights = SMALL[name]()
    here, there = (
        quietly(KMeans(4, engine=each, random_state=0, max_iter=3), X, weights)
        for each in ("reference", engine)
    )
    assert here.engine_ != there.engine_
    assert bits(here) == bits(there)


def at(place, X, weights, **settings):
    """A fit from the first rows, in parts of 7 rows where the place has parts."""
    model = KMeans(4, init=X[:4], n_init=1, random_state=0, bound=None, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return bits(fit_at(place, model, X, weights, rows=7))


@fails_when("engines_change_the_result", place="cpu", name="plain")
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("place", PLACES[1:])
def test_the_same_bits_wherever_the_points_are(place, name):
    X, weights = SMALL[name]()
    assert at(place, X, weights) == at("reference", X, weights)


@fails_when("runs_remember", place="cpu")
@pytest.mark.parametrize("place", [*PLACES, pytest.param("gpu", marks=needs_triton)])
def test_the_same_bits_when_run_twice_wherever_the_points_are(place):
    X, weights = SMALL["weights"]()
    assert at(place, X, weights, max_iter=2) == at(place, X, weights, max_iter=2)


@needs_native
@fails_when("engines_change_the_result", name="starts")
@pytest.mark.parametrize("name", ["starts", "one column", "sparse", "trimmed", "k-means||"])
def test_the_same_bits_as_the_reference_for_whole_fits(name):
    assert fitted(name, engine="reference") == fitted(name)


@fails_when("runs_remember", engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_the_same_bits_when_run_twice(engine):
    for name in ("weights", "starts", "trimmed"):
        assert fitted(name, engine) == fitted(name, engine)
