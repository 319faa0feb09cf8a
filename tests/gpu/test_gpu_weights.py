"""Weighted K-means on the device: single assignments and whole fits, by == with the CPU engine."""

import random

import numpy as np
import pytest

from both_engines import assert_same_assignment, opened
from interpreted import needs_triton
from wolfmeans import KMeans
from wolfmeans.core.workspace import Limits
from wolfmeans.engines import Forced, get_engine
from wolfmeans.exact.sums import mean_and_residual, rounded_ratio

pytest.importorskip("wolfmeans.exact._native")
pytestmark = needs_triton

N = 96


def points(kind, dtype):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 3))
    if kind == "lattice":
        X = np.round(X)
    elif kind == "far":
        X += 1e4
    elif kind == "outlier":
        X[0] = 1e9
    elif kind == "wide":
        X = rng.normal(size=(N, 20))
    elif kind == "tiny":
        X *= 1e-30
    return X.astype(dtype)


def weights(kind):
    rng = np.random.default_rng(4)
    if kind == "whole":
        return rng.integers(0, 9, N) * 1.0
    if kind == "parts":
        return rng.integers(0, 9, N) * 0.125
    if kind == "many magnitudes":
        return 10.0 ** rng.uniform(-8, 8, N)
    if kind == "too many magnitudes":
        return 10.0 ** rng.uniform(-20, 20, N)
    if kind == "light":
        return rng.uniform(size=N) * 2.0**-290
    return np.where(rng.uniform(size=N) < 0.3, 0.0, rng.uniform(size=N))


def assert_same_assignments(X, w, centers, steps=3):
    here, there = opened(X, w)
    assert there.engine == there.fork(1).engine == "gpu"
    for _ in range(steps):
        centers = assert_same_assignment(here, there, centers).means
    return there


@pytest.mark.parametrize(
    ("points_kind", "weights_kind", "dtype", "device"),
    [
        ("plain", "some zero", "float32", True),
        ("plain", "whole", "float32", True),
        ("lattice", "parts", "float64", True),
        ("lattice", "some zero", "float32", True),
        ("far", "some zero", "float64", True),
        ("outlier", "many magnitudes", "float64", True),
        ("wide", "many magnitudes", "float32", True),
        ("tiny", "light", "float64", True),
        ("plain", "too many magnitudes", "float64", False),
    ],
)
def test_assignments_have_the_bits_of_the_cpu(points_kind, weights_kind, dtype, device):
    X, w = points(points_kind, dtype), weights(weights_kind)
    steps = 3 if points_kind == "plain" else 2
    workspace = assert_same_assignments(X, w, X[1:7].copy(), steps)
    assert (type(workspace).__name__ == "GpuPoints") == device
    if device:
        assert workspace._weighting.small == (weights_kind in ("whole", "parts"))


@pytest.mark.parametrize(("n", "n_clusters"), [(1, 1), (40, 1), (6, 6)])
def test_few_points_or_clusters(n, n_clusters):
    X = points("plain", "float64")[:n]
    assert_same_assignments(X, np.linspace(0.1, 3.0, n), X[:n_clusters].copy(), steps=2)


def test_points_at_zero_and_clusters_without_weight():
    X, w = np.zeros((20, 2)), np.linspace(0.0, 1.0, 20)
    assert_same_assignments(X, w, np.array([[0.0, 0.0], [1.0, 1.0]]), steps=2)
    X[10:] = 5.0
    w[10:] = 0.0
    assert_same_assignments(X, w, np.array([[0.0, 0.0], [6.0, 5.0]]), steps=2)


def test_sums_beyond_the_room_on_the_device_come_from_the_host():
    from wolfmeans.engines.gpu.kernels.lists import INEXACT

    X = points("plain", "float64") * 1e-12
    X[0] = 1e30
    there = assert_same_assignments(X, weights("some zero"), X[:5].copy(), steps=2)
    assert type(there).__name__ == "GpuPoints"
    assert there._step.clusters.state[INEXACT.value] == 1


@pytest.mark.parametrize("w", [None, np.array([1.0, 2.0, 1.0, 1.0, 4.0])])
def test_forced_labels_may_lose(w):
    X = np.array([[0.0], [1.0], [2.0], [5.0], [6.0]])
    for forced in (None, Forced(np.array([0]), np.array([1], dtype=np.int32))):
        here, there = (get_engine(name).open(X, w, 1) for name in ("cpu", "gpu"))
        for workspace in (here, there):
            workspace.assign(X[:3:2])
        gap = here.assign(X[:3:2], forced).gap
        assert there.assign(X[:3:2], forced).gap == gap == (0.0 if forced is None else -4.0)


def test_forced_labels_and_means():
    X, w = points("plain", "float32"), weights("many magnitudes")
    here, there = (get_engine(name).open(X, w, 1) for name in ("cpu", "gpu"))
    centers = X[:4].copy()
    for forced in (None, Forced(np.array([3, 70]), np.array([2, 0], dtype=np.int32))):
        expected, found = here.assign(centers, forced), there.assign(centers, forced)
        assert (here.labels() == there.labels()).all()
        assert expected.gap == found.gap
        assert (expected.means == found.means).all()
    for weighted in (True, False):
        assert (here.mean(weighted=weighted) == there.mean(weighted=weighted)).all()


def test_several_steps_at_once():
    X, w = points("plain", "float64"), weights("some zero")
    here, there = (get_engine(name).open(X, w, 1) for name in ("cpu", "gpu"))
    for workspace in (here, there):
        start = workspace.assign(X[:5].copy())
    limits = Limits(3, np.inf, keep_empty=True)
    expected = here.advance(start.means, start.weights, 0.0, limits)
    found = there.advance(start.means, start.weights, 0.0, limits)
    assert (expected.evaluations[:, :5] == found.evaluations[:, :5]).all()
    for one, other in zip(expected.vertex, found.vertex, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("weights_kind", "settings"),
    [
        ("some zero", {"stop": "stationary"}),
        ("whole", {"polish": "hartigan", "max_iter": 3}),
        ("many magnitudes", {"init": "random", "n_clusters": 12, "max_iter": 3}),
    ],
)
@pytest.mark.filterwarnings("ignore:Not converged")
def test_whole_fits_have_the_bits_of_the_cpu(weights_kind, settings):
    X, w = points("plain", "float32"), weights(weights_kind)
    for given in (X, w):
        given.setflags(write=False)
    settings = {"n_clusters": 4, "random_state": 0, "n_init": 1, "bound": None, **settings}
    here, there = (
        KMeans(engine=engine, **settings).fit(X, sample_weight=w) for engine in ("cpu", "gpu")
    )
    assert there.engine_ == "gpu"
    assert (here.labels_ == there.labels_).all()
    assert (here.cluster_centers_ == there.cluster_centers_).all()
    assert (here.inertia_, here.n_iter_) == (there.inertia_, there.n_iter_)
    for column in ("gap", "movement", "sse", "moved"):
        assert (getattr(here.trace_, column) == getattr(there.trace_, column)).all()


def numbers_to_divide(rng, digits, mass_digits, n):
    """Return digits of dividends and divisors with what is hard to round, and their values."""
    sums = np.zeros((digits, 1, n), dtype=np.int64)
    totals = np.zeros((mass_digits, 1, n), dtype=np.int64)
    dividends, divisors = [], []
    for i in range(n):
        kind = i % 6
        for digit in range(mass_digits):
            totals[digit, 0, i] = rng.randrange(2 ** rng.randrange(1, 62))
        if kind == 1:
            totals[:, 0, i] = 0
            totals[rng.randrange(mass_digits), 0, i] = 2 ** rng.randrange(60)
        if kind == 2:
            totals[:, 0, i], totals[0, 0, i] = 2**32 - 1, 2**62 - 1
        if kind in (3, 4, 5):
            totals[:, 0, i] = 0
            totals[-1, 0, i] = 0 if kind == 3 else rng.randrange(1, 50)
        divisor = value_of(totals[:, 0, i])
        for digit in range(digits):
            bound = 2 ** rng.randrange(1, 62)
            sums[digit, 0, i] = rng.randrange(-bound, bound)
        # Quotients that are ties, or next to one, or whose residuals are, or that have many zeros
        # before their last bits.
        long = (rng.randrange(2**52, 2**53) << 120) + ((2**53 + 1) << 40) * rng.choice([-1, 1])
        ties = [2**53 + 1, rng.randrange(2**54), 2**54 - 1, 1, 2**96 + 1, 2**32, long]
        hard = rng.choice(ties) * divisor + rng.choice([-1, 0, 0, 1, divisor // 2])
        hard = (hard << rng.choice([0, 7, 32, 96])) + rng.choice([-1, 0, 1])
        hard *= rng.choice([-1, 1])
        if kind not in (0, 4) and abs(hard) >> 32 * (digits - 1) < 2**62:
            for digit in range(digits - 1, 0, -1):
                sums[digit, 0, i] = hard & 0xFFFFFFFF
                hard >>= 32
            sums[0, 0, i] = hard
        dividends.append(value_of(sums[:, 0, i]))
        divisors.append(divisor)
    return sums, totals, dividends, divisors


def value_of(digits):
    total = 0
    for digit in digits.tolist():
        total = (total << 32) + digit
    return total


@pytest.mark.parametrize(
    ("digits", "mass_digits", "unit"), [(1, 4, -70), (3, 2, 1), (5, 4, -300), (12, 3, -284)]
)
def test_quotients_by_long_divisors_are_rounded_once(digits, mass_digits, unit):
    import torch

    from wolfmeans.engines.gpu.engine import device
    from wolfmeans.engines.gpu.kernels import division
    from wolfmeans.engines.gpu.kernels import weighted as weighted_kernels
    from wolfmeans.engines.gpu.kernels.exact import ROOM

    n = 240
    rng = random.Random(digits)
    sums, totals, dividends, divisors = numbers_to_divide(rng, digits, mass_digits, n)

    def zeros(*shape, dtype=torch.int64):
        return torch.zeros(shape, dtype=dtype, device=device())

    state, sums = zeros(16, dtype=torch.int32), torch.from_numpy(sums).to(device())
    limbs, negative, lowest = zeros(digits + 1, n), *(zeros(n, dtype=torch.int32) for _ in "nl")
    limbs_of_divisors = zeros(division.DIVISOR_LIMBS, n)
    rounded, centers, means, residuals = (zeros(n, dtype=torch.float64) for _ in range(4))
    unfused = {"enable_fp_fusion": False}
    division.carry_sums[(1,)](
        state, sums, limbs, negative, lowest, n, DIGITS=digits, REPLICAS=1, BLOCK=256, **unfused
    )
    division.settle_totals[(1,)](
        state, torch.from_numpy(totals).to(device()), limbs_of_divisors, rounded, unit, n,
        DIGITS=mass_digits, REPLICAS=1, BLOCK=256, **unfused,
    )  # fmt: skip
    weighted_kernels.find_weighted_means[(1,)](
        state, sums, limbs, negative, lowest, limbs_of_divisors, rounded, centers, means,
        residuals, zeros(2, ROOM), 0, 0, unit, 1, n, n, SMALL=False, DIGITS=digits,
        REPLICAS=1, BLOCK=256, **unfused,
    )  # fmt: skip
    expected = [
        mean_and_residual(dividend, divisor, unit) if divisor else (0.0, 0.0)
        for dividend, divisor in zip(dividends, divisors, strict=True)
    ]
    assert rounded.tolist() == [rounded_ratio(divisor, 1, unit) for divisor in divisors]
    assert means.tolist() == [mean for mean, _ in expected]
    assert residuals.tolist() == [residual for _, residual in expected]
