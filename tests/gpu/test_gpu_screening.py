"""The copy in short arithmetic, how wrong its scores can be, and labels in spite of that."""

import math

import numpy as np
import pytest

from difficult import points
from interpreted import needs_triton
from tensor_cores import climb, error_bound, exact_dot, hurting_pairs, modelled_dot
from wolfmeans.core.workspace import Limits
from wolfmeans.engines import get_engine

pytest.importorskip("wolfmeans.exact._native")


@pytest.mark.parametrize("d", [16, 64, 768])
def test_the_model_of_tensor_cores_stays_within_its_bound(d):
    rng = np.random.default_rng(d)
    worst = {}
    for name, x, c in hurting_pairs(d, 40, rng):
        x, c = x.astype(np.float16), c.astype(np.float16)
        errors = np.abs(modelled_dot(x, c).astype(np.float64) - exact_dot(x, c))
        assert (errors <= error_bound(x, c)).all(), name
        worst[name] = max((errors / error_bound(x, c)).max(), climb(modelled_dot, x, c, 30, rng))
        assert worst[name] <= 1.0, name
    # A bound that is never nearly reached would not be tested.
    assert worst["cut off by the sum"] > 0.75


def test_the_model_cuts_off_where_it_should():
    def product(*terms):
        x = np.zeros(32, dtype=np.float16)
        x[: len(terms)] = terms
        ones = np.where(np.arange(32) < 16, 1.0, 2.0**-13)
        return float(modelled_dot(x, ones.astype(np.float16)))

    assert product(1.0, 2.0**-24) == 1.0
    assert product(1.0, *[2.0**-24] * 2) == 1.0 + 2.0**-23
    assert product(1.0, *[-(2.0**-24)] * 15) == 1.0 - 15 * 2.0**-24
    # The sum so far is aligned like a product: fifteen quarters of its last bit are three bits.
    assert product(*[0.0] * 15, 1.0, *[2.0**-12] * 15) == 1.0 + 3 * 2.0**-23
    assert product(*[0.0] * 15, 1.0, *[2.0**-13] * 15) == 1.0


def screened(X):
    return get_engine("gpu").open(X, None, 1).data


@needs_triton
@pytest.mark.parametrize("d", [9, 16, 17, 33, 65, 130, 768])
def test_the_margin_over_the_model_is_more_than_three(d):
    data = screened(points("plain", 8, d, "float32"))
    assert data.width % 16 == 0
    assert data.products_error >= 3.0 * 2.0 * data.width * 19 / 16 * 2.0**-25


@needs_triton
@pytest.mark.parametrize(
    ("kind", "d", "dtype"),
    [
        ("heavy tails", 1, "float32"),
        ("heavy tails", 8, "float64"),
        ("heavy tails", 20, "float32"),
        ("offset", 20, "float64"),
        ("offset", 20, "float32"),
        ("lattice", 40, "float32"),
        ("columns apart", 40, "float32"),
        ("outliers", 150, "float32"),
        ("tiny", 10, "float64"),
        ("huge", 3, "float64"),
        ("denormal", 3, "float32"),
    ],
)
def test_the_copy_and_what_it_loses(kind, d, dtype):
    X = points(kind, 200, d, dtype)
    X[3] = 0.0
    data = screened(X)
    assert (data.direct, data.X.shape) == (d <= 8, X.shape)
    sizes = np.abs(X[X != 0])
    assert data.largest == sizes.max()
    assert 2.0**data.high > sizes.max()
    exact = (X.astype(np.longdouble) - data.mu.cpu().numpy()) * np.longdouble(data.scale)
    copy = data.points.cpu().numpy()
    assert (copy[:, d:] == 0).all()
    lost = np.sqrt(((exact - copy[:, :d].astype(np.longdouble)) ** 2).sum(axis=1))
    errors = data.errors.cpu().numpy()
    assert (lost <= errors).all()
    more = 1e-12 * data.radius
    if dtype == "float32" and not data.direct:  # differences are rounded
        more = more + 2.0**-23 * np.sqrt((exact**2).sum(axis=1))
    assert (errors <= lost * (1.0 + 1e-5 + d * 2.0**-23) + more).all()
    if not data.direct:
        within = (exact**2).sum(axis=1) <= data.radius**2 * (1.0 - 1e-6)
        norms = data.sizes.cpu().numpy()
        assert within.sum() > 190
        squares = (exact[within] ** 2).sum(axis=1)
        assert (norms[within] >= squares * (1 - 1e-15)).all()
        assert (norms[within] <= squares * (1 + 2.0**-20) * (1 + 2.0**-23)).all()
        beyond = (exact**2).sum(axis=1) > data.radius**2
        assert np.isinf(norms[beyond]).all()
        assert data.rho >= lost[within].max() * (1 - 1e-15)
        assert np.abs(copy).max() <= 60000.0
        assert data.radius < 2.0**14


@needs_triton
@pytest.mark.parametrize("values", [[[1.0, math.nan]], [[-math.inf, 1.0]], [[0.0, 0.0]], [[-3.0]]])
def test_magnitudes(values):
    import torch

    from wolfmeans.engines.gpu.engine import device
    from wolfmeans.engines.gpu.measuring import Measurement

    (smallest, largest), *_ = Measurement(torch.tensor(values, device=device())).found()
    if not math.isfinite(sum(values[0])):
        assert not math.isfinite(largest)
    else:
        assert smallest == largest == abs(values[0][0])


def assert_scores_within_error_bound(X, centers):
    """Compare the scores of all pairs, in the model's arithmetic, with their truth.

    Once for the centers, which come from outside, and once for means that were found there.
    """
    workspace = get_engine("gpu").open(X, None, 1)
    means = workspace.assign(centers).means
    clusters = workspace._step.clusters
    assert_error_bounds_hold(X, means, workspace.data, clusters)
    clusters.begin(centers, Limits(1, math.inf), math.nan, 0)
    clusters.prepare(0)
    assert_error_bounds_hold(X, centers, workspace.data, clusters)


def assert_error_bounds_hold(X, centers, data, found):
    short, norms = found.short.cpu().numpy(), found.norms.cpu().numpy().astype(np.longdouble)
    error_bounds = found.error_bounds.cpu().numpy().astype(np.longdouble)
    usual = np.isfinite(data.sizes.cpu().numpy())
    copy = data.points.cpu().numpy()[usual]
    mu, scale = data.mu.cpu().numpy(), np.longdouble(data.scale)
    x = (X[usual].astype(np.longdouble) - mu) * scale
    c = (centers.astype(np.longdouble) - mu) * scale
    # Nothing is above its truth, and nothing below it by more than two error_bounds.
    for k in range(len(centers)):
        score = norms[k] - 2.0 * modelled_dot(copy, short[k]).astype(np.longdouble)
        truth = (c[k] ** 2).sum() - 2.0 * (x * c[k]).sum(axis=1)
        tiny = 2.0**-50 * ((x**2).sum(axis=1) + (c[k] ** 2).sum())
        assert (score <= truth + tiny).all()
        assert (truth <= score + 2.0 * error_bounds[k] + tiny).all()


@needs_triton
@pytest.mark.parametrize(
    ("kind", "d", "dtype"),
    [
        ("plain", 9, "float32"),
        ("plain", 130, "float64"),
        ("columns apart", 20, "float64"),
    ],
)
def test_scores_are_within_their_doubt(kind, d, dtype):
    X = points(kind, 100, d, dtype)
    assert_scores_within_error_bound(X, X[:6].copy())


@needs_triton
def test_scores_of_centers_that_are_nearly_the_middle():
    # Such centers become subnormal in float16, which tensor cores treat like 2**-14: what they cut
    # off is no small part of the product then. Nothing else is rounded here.
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], size=(6, 16))
    sizes = np.ldexp(1.0 + rng.integers(0, 1024, (60, 16)) / 1024.0, -rng.integers(5, 12, (60, 16)))
    sizes[:, 0] = 1.0
    half = sizes * np.tile(signs, (10, 1))
    X = np.concatenate([half, -half])
    data = screened(X)
    assert (data.mu == 0).all()
    assert data.rho == 0.0
    assert_scores_within_error_bound(X, signs * 2.0**-24 / data.scale)


def near_ties(d, dtype, seed=0):
    """Return 64 points and 16 centers, in pairs so near that many scores are undecided."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(64, d)).astype(dtype)
    centers = np.repeat(rng.normal(size=(8, d)), 2, axis=0)
    centers[1::2] += rng.normal(size=(8, d)) * 3e-3
    return X, centers.astype(dtype)


def labels_with_noise(X, centers, noise):
    import torch

    workspace = get_engine("gpu").open(X, None, 1)
    device = workspace.data.X.device
    workspace.data.noise = torch.from_numpy(noise.astype(np.float32)).to(device)
    workspace.assign(centers)
    return workspace


def against_the_nearest(labels):
    """Return noise that makes the nearest center of each row look far, and all others near."""
    noise = np.full((64, 64), -1.0)
    noise[np.arange(64), labels] = 1.0
    return noise


@needs_triton
@pytest.mark.parametrize(("d", "dtype"), [(9, "float32"), (16, "float64"), (130, "float32")])
def test_labels_in_spite_of_scores_as_wrong_as_they_may_be(d, dtype):
    X, centers = near_ties(d, dtype)
    here = get_engine("cpu").open(X, None, 1)
    here.assign(centers)
    noises = [against_the_nearest(here.labels())]
    if d < 100:
        rng = np.random.default_rng(d)
        noises += [rng.uniform(-1.0, 1.0, size=(64, 64)), rng.choice([-1.0, 1.0], size=(64, 64))]
    for noise in noises:
        there = labels_with_noise(X, centers, noise)
        assert there.labels().tolist() == here.labels().tolist()


@needs_triton
@pytest.mark.parametrize("d", [9, 33])
def test_scores_that_are_more_wrong_than_that_give_wrong_labels(d):
    X, centers = near_ties(d, "float32")
    here = get_engine("cpu").open(X, None, 1)
    here.assign(centers)
    # Twice what they may be.
    there = labels_with_noise(X, centers, 2.0 * against_the_nearest(here.labels()))
    assert there.labels().tolist() != here.labels().tolist()


@pytest.fixture
def groups(monkeypatch):
    """Let some centers be many: four are counted as one."""
    monkeypatch.setattr("wolfmeans.engines.gpu.screening._MANY_CLUSTERS", 40)
    monkeypatch.setattr("wolfmeans.engines.gpu.clusters._MOST_NUMBERED", 16)


# Four centers that are 32 apart make a group: ties within one, and between two.
@needs_triton
@pytest.mark.parametrize(("apart", "noisy"), [(1, False), (32, True)])
def test_groups_of_many_centers(groups, apart, noisy):
    rng = np.random.default_rng(apart)
    X = rng.normal(size=(70, 40)).astype(np.float32)
    X[33] *= 30.0  # beyond the radius
    centers = rng.normal(size=(150, 40)).astype(np.float32)
    # Two that hardly differ near each of many rows, so that scores say nothing about which it is.
    first = np.arange(32) if apart == 32 else 2 * np.arange(32)
    centers[first] = X[:32] + rng.normal(size=(32, 40)) * 0.1
    centers[first + apart] = centers[first] + rng.normal(size=(32, 40)) * 1e-4
    here = get_engine("cpu").open(X, None, 1)
    noise = rng.choice([-1.0, 1.0], size=(64, 64)) if noisy else np.zeros((64, 64))
    there = labels_with_noise(X, centers, noise)
    assert there.data.tile(len(centers)).group == 4
    expected = here.assign(centers)
    assert there.labels().tolist() == here.labels().tolist()
    found = there.assign(expected.means)
    expected = here.assign(expected.means)
    assert there.labels().tolist() == here.labels().tolist()
    assert (found.moved, found.gap) == (expected.moved, expected.gap)


@needs_triton
def test_steps_in_spite_of_noise():
    # Bounds that are kept from step to step come from wrong scores, too.
    rng = np.random.default_rng(3)
    X = points("plain", 64, 12, "float32")
    here = get_engine("cpu").open(X, None, 1)
    there = labels_with_noise(X, X[:8].copy(), rng.choice([-1.0, 1.0], size=(64, 64)))
    centers = here.assign(X[:8].copy()).means
    for _ in range(4):
        expected, found = here.assign(centers), there.assign(centers)
        assert there.labels().tolist() == here.labels().tolist()
        assert (found.moved, found.gap) == (expected.moved, expected.gap)
        centers = expected.means


@needs_triton
def test_rows_beyond_the_usual_radius():
    # So few that the scale is not theirs: all their centers are looked at.
    X = points("plain", 130, 12, "float32")
    X[7] *= 1e6
    here, there = (get_engine(name).open(X, None, 1) for name in ("cpu", "gpu"))
    assert np.isinf(there.data.sizes.cpu().numpy()).sum() >= 1
    centers = X[20:23].copy()
    for _ in range(2):
        expected, found = here.assign(centers), there.assign(centers)
        assert there.labels().tolist() == here.labels().tolist()
        centers = expected.means
        assert np.array_equal(found.means, centers)


@needs_triton
@pytest.mark.parametrize("exponent", [-480, -490, -492])
def test_squares_below_all_numbers_are_not_told_apart(exponent):
    rng = np.random.default_rng(1)
    X = 2.0**exponent * (1 + rng.integers(0, 1000, size=(400, 2)) * 2.0**-52)
    centers = X[[10, 20, 30, 40]].copy()
    found, expected = (
        get_engine(name).open(X, None, 1).nearest(centers)[0] for name in ("gpu", "reference")
    )
    assert (found == expected).all()


@needs_triton
@pytest.mark.parametrize("d", [3, 12])
def test_labels_for_centers_from_outside_come_from_prepared_ones(d):
    import math

    from wolfmeans.core.workspace import Limits
    from wolfmeans.engines.gpu.kernels.lists import HARD, OPEN
    from wolfmeans.engines.gpu.steps import Step

    X = points("plain", 100, d, "float32")
    here, there = (get_engine(name).open(X, None, 1) for name in ("cpu", "gpu"))
    here.assign(X[:8].copy())
    step = Step(there.data, 8)
    step.clusters.begin(X[:8].copy(), Limits(1, math.inf), math.nan, 0)
    step.find_labels(0)
    assert step.rows.labels.tolist() == here.labels().tolist()
    # Centers that nobody prepared would leave all rows open.
    assert step.clusters.state[HARD.value] == 0
    assert step.clusters.state[OPEN.value] < 10


@needs_triton
@pytest.mark.parametrize("exponent", [-140, -158])
def test_scores_that_are_all_too_small_for_float32(exponent):
    X = np.random.default_rng(0).normal(size=(40, 10)) * 10.0**exponent
    here, there = (get_engine(name).open(X, None, 1) for name in ("cpu", "gpu"))
    here.assign(X[:5].copy())
    there.assign(X[:5].copy())
    assert there.labels().tolist() == here.labels().tolist()
