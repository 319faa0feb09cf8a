"""Points in boxes against the reference engine: labels, moves and gaps over whole Lloyd runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances import instances
from wolfmeans.engines import Forced, get_engine

native = pytest.importorskip("wolfmeans.exact._native")

UNITS = ("baseline", "avx2", "avx512")


def open_tree(X, weights=None, n_threads=1):
    """Open points in a tree of boxes, however few they are."""
    kind = native.PointsF32 if X.dtype == np.float32 else native.PointsF64
    return kind(X, weights, n_threads, "tree")


@pytest.fixture(params=UNITS)
def unit(request, monkeypatch):
    monkeypatch.setenv("WOLFMEANS_VECTOR_UNIT", request.param)
    return request.param


class Both:
    """The reference and boxes side by side; every assignment compares them."""

    def __init__(self, X, weights=None, n_threads=1):
        self.reference = get_engine("reference").open(X, weights, 1)
        self.boxes = open_tree(X, weights, n_threads)
        self.labels = None

    def assign(self, centers, forced=None):
        centers = np.ascontiguousarray(centers)
        expected = self.reference.assign(centers, forced)
        rows, labels = (None, None) if forced is None else (forced.rows, forced.labels)
        moved, gap, *sums, _, _ = self.boxes.assign(centers, rows, labels)
        before, self.labels = self.labels, self.boxes.labels()
        assert (self.labels == self.reference.labels()).all()
        if before is not None:
            assert moved == np.count_nonzero(before != self.labels)
        assert (expected.moved, expected.gap) == (moved, gap)
        # Exact sums follow the rows that moved: a wrong row or label would show here.
        for found, wanted in zip(
            sums, (expected.weights, expected.means, expected.residuals), strict=True
        ):
            assert np.array_equal(found, wanted)
        return expected.means

    def lloyd(self, centers, steps=12):
        for _ in range(steps):
            following = self.assign(centers)
            if (following == centers).all():
                break
            centers = following
        self.assign(centers)
        return centers


@given(instances(max_points=300, max_features=5, max_clusters=12), st.sampled_from(UNITS))
@settings(max_examples=150, deadline=None)
def test_lloyd_runs(instance, unit):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WOLFMEANS_VECTOR_UNIT", unit)
        Both(instance.X, instance.weights).lloyd(instance.seeds)


@given(instances(max_points=200), st.integers(0, 2**32 - 1), st.sampled_from(UNITS))
@settings(max_examples=100, deadline=None)
def test_any_centers_and_forced_rows(instance, seed, unit):
    # Centers that jump or rest, and rows that are forced now and then, once more and no longer.
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WOLFMEANS_VECTOR_UNIT", unit)
        both = Both(instance.X, instance.weights)
    centers = instance.seeds
    for _ in range(8):
        forced = None
        if rng.random() < 0.6:
            rows = rng.choice(len(instance.X), size=min(3, len(instance.X)), replace=False)
            labels = rng.integers(0, len(centers), size=len(rows)).astype(np.int32)
            forced = Forced(rows.astype(np.int64), labels)
        means = both.assign(centers, forced)
        kind = rng.integers(4)
        if kind == 0:
            centers = means
        elif kind == 1:
            centers = instance.X[rng.integers(0, len(instance.X), size=len(centers))]
        elif kind == 2:
            step = 10.0 ** rng.integers(-6, 1)
            centers = (centers + rng.normal(size=centers.shape) * step).astype(centers.dtype)


def mixture(n, d, rng, dtype=np.float64):
    """Dense and thin clusters, copies and single points far out."""
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-4, 1, size=(n, 1))
    X += rng.integers(-3, 4, size=(n, d))
    X[: n // 5] = X[0]
    X[n // 2 :: 97] *= 1e3
    return rng.permutation(X).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 8])
def test_every_dimension_on_every_unit(unit, dtype, d):
    rng = np.random.default_rng(d)
    X = mixture(3000, d, rng, dtype)
    Both(X).lloyd(X[rng.choice(len(X), 40, replace=False)])
    X = rng.random((3000, d)).astype(dtype)
    Both(X, rng.random(3000)).lloyd(X[:60])


def lattice(rng):
    return rng.integers(0, 12, size=(2000, 2)) * 1.0


def offset(rng):
    return 1e8 + rng.integers(-40, 40, size=(2000, 2)) / 8.0


def outliers(rng):
    X = rng.normal(size=(2000, 3))
    X[[5, 700, 1999]] = [[1e12, 0, 0], [0, -1e15, 3], [1e-9, 1e9, 1e6]]
    return X


def copies(rng):
    return np.repeat(rng.normal(size=(4, 2)), 500, axis=0)


def one_line(rng):
    X = np.zeros((2000, 3))
    X[:, 1] = rng.normal(size=2000)
    return X


def scales_within_scales(rng):
    return rng.normal(size=(2000, 2)) * 10.0 ** rng.integers(-30, 8, size=(2000, 1))


def almost_halfway(rng):
    # Next to the plane halfway between two centers, by a few units in the last place.
    X = rng.normal(size=(2000, 2))
    X[:, 0] = 0.5 + rng.integers(-3, 4, size=2000) * 2.0**-53
    X[:3] = [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]]
    return X


def circle(rng):
    # Points next to the middle of a circle of centers: all are as far, up to float64's rounding.
    X = rng.normal(size=(2000, 2)) * 1e-12
    angle = rng.random(25) * 2 * np.pi
    X[:25] = np.column_stack([np.cos(angle), np.sin(angle)])
    return X


ADVERSARIAL = [
    lattice,
    offset,
    outliers,
    copies,
    one_line,
    scales_within_scales,
    almost_halfway,
    circle,
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1.0, 2.0**-100, 2.0**100])
@pytest.mark.parametrize("make", ADVERSARIAL)
def test_adversarial_data(unit, make, scale, dtype):
    rng = np.random.default_rng(0)
    X = np.ascontiguousarray(make(rng))
    if dtype == np.float32:
        scale = scale ** (1 / 4)
    X = (X * scale).astype(dtype)
    Both(X).lloyd(X[:25], steps=6)
    Both(X).lloyd(X[rng.choice(len(X), 7, replace=False)], steps=6)
    Both(X).lloyd(X[:1])


@pytest.mark.parametrize("scale", [2.0**-520, 2.0**-460, 2.0**440, 2.0**480])
def test_scales_at_the_ends_of_float64(unit, scale):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 2)) * scale
    X[:100] = np.round(X[:100] / scale) * scale
    Both(X).lloyd(X[:8], steps=4)


def test_centers_far_beyond_the_data(unit):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(1000, 2))
    both = Both(X)
    near, far = X[:5].copy(), X[:5].copy()
    far[2] = 1e140
    for centers in (near, far, near + 1e-3, far, far * 0.5, near):
        both.assign(centers)


@pytest.mark.parametrize(
    "heights",
    [[92, 49], [200, 150, 120, 97, 90, 84, 80, 76, 73, 70, 68, 48]],
    ids=["at once", "from afar"],
)
def test_a_center_that_no_list_holds_comes_near(unit, heights):
    # Two clusters below which two centers rest, and a third that comes down on one of them.
    X = np.repeat([[-40.0, 0.0], [40.0, 0.0]], 10, axis=0)
    both = Both(X)
    for height in heights:
        both.assign(np.array([[-40.0, -50.0], [40.0, -49.9], [40.0, height]]))
    assert (both.labels == np.repeat([0, 2], 10)).all()


def test_more_centers_than_points_and_single_points(unit):
    rng = np.random.default_rng(5)
    X = rng.integers(0, 3, size=(20, 2)) * 1.0
    both = Both(X)
    for _ in range(3):
        both.assign(rng.integers(0, 3, size=(150, 2)) * 1.0)
    Both(X[:1]).lloyd(X[:3])
    Both(np.zeros((7, 0))).assign(np.zeros((2, 0)))


def test_forced_rows_last_one_wins():
    X = np.arange(6.0)[:, None]
    both = Both(X)
    centers = np.array([[0.0], [5.0]])
    both.assign(centers, Forced(np.array([1, 1]), np.array([0, 1], dtype=np.int32)))
    assert both.labels[1] == 1
    both.assign(centers)
    assert both.labels[1] == 0


@pytest.mark.parametrize("d", [2, 3])
def test_threads_change_nothing(d):
    rng = np.random.default_rng(6)
    X = rng.random((400_000, d)).astype(np.float32)
    centers = X[:60].copy()
    boxes = [open_tree(X, None, n_threads) for n_threads in (1, 2, 3)]
    reference = Both(X[:5000])
    for _ in range(4):
        results = [b.assign(centers) for b in boxes]
        for result in results:
            for mine, theirs in zip(result, results[0], strict=True):
                assert np.array_equal(mine, theirs)
        for b in boxes[1:]:
            assert (b.labels() == boxes[0].labels()).all()
        reference.assign(centers)
        assert (reference.labels == boxes[0].labels()[:5000]).all()
        centers = reference.reference.assign(centers).means


def test_small_moves_look_at_little():
    rng = np.random.default_rng(7)
    X = rng.random((200_000, 2))
    centers = X[:20].copy()
    boxes = open_tree(X)
    *_, first, _ = boxes.assign(centers)
    assert first < 0.4 * len(X)  # the others are in boxes that have one nearest center
    *_, screened, _ = boxes.assign(centers)
    assert screened < 0.2 * first


def test_refusals():
    X = np.zeros((4, 2))
    with pytest.raises(ValueError, match="two dimensions"):
        open_tree(np.zeros(3))
    with pytest.raises(ValueError, match="n_threads"):
        open_tree(X, None, 0)
    with pytest.raises(ValueError, match="weights must have shape"):
        open_tree(X, np.ones(3))
    boxes = open_tree(X)
    with pytest.raises(ValueError, match="before the first"):
        boxes.labels()
    with pytest.raises(ValueError, match="as many columns"):
        boxes.assign(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="forced rows"):
        boxes.assign(X[:2], np.array([4]), np.array([0], dtype=np.int32))
    with pytest.raises(ValueError, match="same length"):
        boxes.assign(X[:2], np.array([1]), None)
