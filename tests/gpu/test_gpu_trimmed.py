"""Trimmed K-means on the device: thresholds, assignments and whole fits, by == with the CPU."""

import math
from fractions import Fraction

import numpy as np
import pytest

from both_engines import assert_same_assignment
from interpreted import needs_triton
from wolfmeans import TrimmedKMeans
from wolfmeans.core.threshold import find_threshold, kept_masses
from wolfmeans.core.trimmed import kept_mass
from wolfmeans.engines import Forced, get_engine
from wolfmeans.exact.sums import unit_exponent

pytest.importorskip("wolfmeans.exact._native")
pytestmark = needs_triton

N = 96


def points(kind, dtype):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, 3))
    if kind == "lattice":
        X = np.round(X)
    elif kind == "outliers":
        X[:9] *= 1e7
    elif kind == "wide":
        X = rng.normal(size=(N, 20))
    return X.astype(dtype)


def weights(kind):
    rng = np.random.default_rng(6)
    if kind == "ones":
        return None
    if kind == "whole":
        return rng.integers(0, 5, N) * 1.0
    if kind == "tenths":
        return np.full(N, 0.1)
    if kind == "many magnitudes":
        return 10.0 ** rng.uniform(-8, 8, N)
    if kind == "too many magnitudes":
        return 10.0 ** rng.uniform(-20, 20, N)
    return np.where(rng.uniform(size=N) < 0.3, 0.0, rng.uniform(size=N))


def opened(X, w, mass):
    return tuple(get_engine(name).open(X, w, 1).trimmed(mass) for name in ("cpu", "gpu"))


@pytest.mark.parametrize(
    ("points_kind", "weights_kind", "dtype", "share", "device"),
    [
        ("plain", "ones", "float32", "1/4", True),
        ("plain", "ones", "float64", "0", True),
        ("lattice", "ones", "float32", "19/20", True),
        ("lattice", "whole", "float64", "1/3", True),
        ("outliers", "some zero", "float64", "1/10", True),
        ("wide", "many magnitudes", "float32", "1/2", True),
        ("plain", "too many magnitudes", "float32", "1/4", False),
    ],
)
def test_assignments_have_the_bits_of_the_cpu(points_kind, weights_kind, dtype, share, device):
    X, w = points(points_kind, dtype), weights(weights_kind)
    here, there = opened(X, w, kept_mass(Fraction(share), w, N))
    assert there.engine == there.fork(1).engine == "gpu"
    assert (type(there.trimmer).__name__ == "GpuTrimmer") == device
    centers = X[-6:].copy()
    for _ in range(3 if points_kind == "plain" else 2):
        found = assert_same_assignment(here, there, centers)
        assert here.threshold == there.threshold
        assert (here.kept() == there.kept()).all()
        assert (here.distances(centers) == there.distances(centers)).all()
        centers = found.means
    assert (here.mean(weighted=True) == there.mean(weighted=True)).all()


@pytest.mark.parametrize(
    "weights_kind", ["ones", "whole", "tenths", "some zero", "many magnitudes"]
)
def test_thresholds_are_those_of_the_specification(weights_kind):
    X, w = points("plain", "float64"), weights(weights_kind)
    rng = np.random.default_rng(7)
    unit = math.ldexp(1.0, unit_exponent(w))
    heavy = np.ones(N) if w is None else w
    for share in ("0", "1/7", "1/2", "9/10", "full"):
        distances = rng.choice([0.0, 0.5, 1.0, 2.0], size=N)
        if share == "full":
            # The mass is full with the last of some points.
            first = np.argsort(distances, kind="stable")[: N // 2]
            total = sum(map(Fraction, heavy[first].tolist()))
            if float(total) != total:
                continue
            mass = float(total)
        else:
            mass = kept_mass(Fraction(share), w, N)
        there = opened(X, w, mass)[1]
        for far in (distances, rng.uniform(size=N), np.full(N, 3.0)):
            threshold = find_threshold(far, w, mass)
            assert there.trimmer.find_threshold(far) == threshold
            assert (there.keep(far) == kept_masses(threshold, far, w)).all()
    smallest = opened(X, w, unit)[1]
    assert smallest.trimmer.find_threshold(distances) == find_threshold(distances, w, unit)


def test_sums_beyond_the_room_on_the_device_come_from_the_host():
    from wolfmeans.engines.gpu.kernels.lists import INEXACT

    X = points("plain", "float64") * 1e-12
    X[0] = 1e30
    here, there = opened(
        X, weights("some zero"), kept_mass(Fraction(1, 4), weights("some zero"), N)
    )
    centers = X[-6:].copy()
    for _ in range(2):
        expected, found = here.assign(centers), there.assign(centers)
        assert expected.gap == found.gap
        assert here.step(expected, centers) == there.step(found, centers)
        centers = expected.means
    assert there.points._step.clusters.state[INEXACT.value] == 1


def test_what_cannot_be_asked_for():
    X, w = points("plain", "float32"), weights("tenths")
    there = opened(X, None, 50.0)[1]
    for ask in (there.labels, there.kept, lambda: there.threshold, lambda: there.cost(X[:2])):
        with pytest.raises(RuntimeError, match="no labels"):
            ask()
    with pytest.raises(ValueError, match="forced"):
        there.assign(X[:2], Forced(np.array([0]), np.array([1], dtype=np.int32)))
    with pytest.raises(ValueError, match="multiple of"):
        get_engine("gpu").open(X, w, 1).trimmed(2.0**-60)


@pytest.mark.filterwarnings("ignore:Not converged")
@pytest.mark.parametrize("weights_kind", ["ones", "some zero"])
def test_whole_fits_have_the_bits_of_the_cpu(weights_kind):
    X, w = points("outliers", "float32"), weights(weights_kind)
    here, there = (
        TrimmedKMeans(
            3, alpha=0.2, random_state=0, n_init=1, bound=None, max_iter=4, engine=engine
        ).fit(X, sample_weight=w)
        for engine in ("cpu", "gpu")
    )  # fmt: skip
    assert there.engine_ == "gpu"
    assert (here.labels_ == there.labels_).all()
    assert (here.cluster_centers_ == there.cluster_centers_).all()
    assert (here.inertia_, here.n_iter_) == (there.inertia_, there.n_iter_)
    for column in ("gap", "movement", "sse", "moved"):
        assert (getattr(here.trace_, column) == getattr(there.trace_, column)).all()
