"""Few columns: bounds by the centers near by, groups of centers, and rows that nothing decides."""

import numpy as np
import pytest

from interpreted import needs_triton
from wolfmeans import KMeans

torch = pytest.importorskip("torch")
pytest.importorskip("wolfmeans.exact._native")
pytestmark = [
    needs_triton,
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

BLOCK = 256


def on_device(array, dtype=None):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.tensor(np.asarray(array), dtype=dtype, device=device)


def distances(X, centers):
    """Return all distances in extended precision."""
    X, centers = X.astype(np.longdouble), centers.astype(np.longdouble)
    return np.sqrt(np.square(X[:, None] - centers).sum(axis=2))


def moved_centers(kind, K, d, rng):
    """Return float32 centers before and after a step: one goes far, others a little."""
    before = rng.normal(size=(K, d))
    if kind == "twins":
        before[1::2] = before[: K // 2 * 2 : 2]
    after = before + 0.02 * rng.normal(size=(K, d))
    after[-1] += 1.5
    if kind == "none":
        after = before
    scale = 1e6 if kind == "large" else 1.0
    return (scale * before).astype(np.float32), (scale * after).astype(np.float32)


def neighbors(centers, shifts, gamma):
    """Return the state that a run has then, and what the kernel says of each center."""
    from wolfmeans.engines.gpu.kernels.one_pass import find_neighbors
    from wolfmeans.engines.gpu.launching import UNFUSED, launch

    K, d = centers.shape
    state = torch.zeros(16, dtype=torch.int32).to(on_device(0).device)
    reach = on_device(np.array([gamma, shifts.max()], dtype=np.float32).view(np.int32))
    apart, wide, near = (on_device(np.full(K, np.nan, np.float32)) for _ in range(3))
    launch(
        find_neighbors, K, state, on_device(centers), on_device(shifts), reach, apart, wide, near,
        K, WIDTH=d, BLOCK=128, num_warps=4, **UNFUSED,
    )  # fmt: skip
    return state, reach, apart, wide, near


def shifts_of(before, after):
    far = np.sqrt(np.square(after.astype(np.float64) - before.astype(np.float64)).sum(axis=1))
    return np.nextafter(far.astype(np.float32), np.float32(np.inf))


@pytest.mark.parametrize(
    ("kind", "K", "d", "gamma"),
    [
        ("plain", 40, 2, 0.0),
        ("plain", 40, 2, 1e-3),
        ("plain", 150, 3, 1e-3),  # more than are looked at at once
        ("large", 20, 8, 0.0),
        ("large", 20, 8, 1e-3),
        ("twins", 9, 1, 0.0),
        ("twins", 9, 1, 1e-3),
        ("none", 1, 2, 0.0),
        ("none", 1, 2, 1e-3),
    ],
)
def test_what_is_said_of_the_centers_around(kind, K, d, gamma):
    before, after = moved_centers(kind, K, d, np.random.default_rng(K))
    shifts = shifts_of(before, after)
    _, _, *found = neighbors(after, shifts, gamma)
    apart, wide, near = (part.cpu().numpy() for part in found)
    between = distances(after, after)
    np.fill_diagonal(between, np.inf)
    assert (apart + 2 * gamma <= between.min(axis=1)).all()
    # A center is far away, or its shift is among those that count.
    far = between >= (wide + np.float32(2 * gamma))[:, None]
    assert (far | (shifts[None, :] <= near[:, None]) | np.eye(K, dtype=bool)).all()
    if kind in ("plain", "large"):
        closest = between.min(axis=1)
        assert (apart + 2.1 * gamma >= closest * (1 - 1e-5)).all()
        assert (wide + 2.1 * gamma >= 1.7 * closest).all()
        assert np.median(near) < shifts.max()


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize(("kind", "K", "d"), [("plain", 40, 2), ("large", 30, 3), ("twins", 8, 1)])
def test_slack_is_never_too_large(kind, K, d, exact):
    """Rows that are not listed keep their center, with the slack that they are said to have."""
    from wolfmeans.engines.gpu.kernels.lists import ACTIVE
    from wolfmeans.engines.gpu.kernels.one_pass import select_near
    from wolfmeans.engines.gpu.launching import UNFUSED, launch

    rng = np.random.default_rng(d)
    n = 3 * BLOCK - 17
    before, after = moved_centers(kind, K, d, rng)
    X = (before.std() * rng.normal(size=(n, d))).astype(np.float32)
    # What is known is as far off as is said, and centers are, too.
    gamma, error = (0.0, 0.0) if exact else (1e-3, 2e-3)
    truth = X + (error * 0.99 / np.sqrt(d)) * rng.choice([-1.0, 1.0], X.shape)
    off = (gamma * 0.99 / np.sqrt(d)) * rng.choice([-1.0, 1.0], after.shape)
    old = np.sort(distances(truth, before + off), axis=1)
    labels = distances(truth, before + off).argmin(axis=1)
    slack = ((old[:, 1] - old[:, 0]) * (1 - 1e-6)).astype(np.float32) - np.float32(1e-30)
    labels[5], slack[5] = -1, -np.inf
    shifts = shifts_of(before, after)
    state, reach, apart, wide, near = neighbors(after, shifts, gamma)
    active = on_device(np.full(n, -1), torch.int32)
    left = on_device(slack)
    errors = None if exact else on_device(np.full(n, error, np.float32))
    launch(
        select_near, -(-n // BLOCK), state, on_device(labels, torch.int32), left, on_device(shifts),
        reach, active, on_device(X), errors, on_device(after), apart, wide, near, n, 0.0, WIDTH=d,
        BLOCK=BLOCK, num_warps=4, **UNFUSED,
    )  # fmt: skip
    listed = active.cpu().numpy()[: int(state[ACTIVE.value])]
    left = left.cpu().numpy()
    assert len(np.unique(listed)) == len(listed)
    assert set(listed) == set(np.flatnonzero(left <= 0.0))
    assert 5 in listed
    new = distances(truth, after + off)
    own = np.take_along_axis(new, labels[:, None], axis=1)[:, 0]
    np.put_along_axis(new, labels[:, None], np.inf, axis=1)
    known = labels >= 0
    assert (left <= new.min(axis=1) - own)[known].all()
    if kind == "plain":
        # The center that goes far would bind nearly all of them.
        bound = slack - shifts[labels] - shifts.max()
        assert len(listed) < 0.6 * (bound <= 0.0).sum()


@pytest.mark.parametrize("K", [1, 2, 3, 4, 7, 9])
def test_groups_of_centers_that_are_not_full(K):
    rng = np.random.default_rng(K)
    X = rng.normal(size=(90, 2)).astype(np.float32)
    fits = [
        KMeans(K, init=X[:K], n_init=1, max_iter=3, engine=engine, bound=None).fit(X)
        for engine in ("gpu", "cpu")
    ]
    assert (fits[0].labels_ == fits[1].labels_).all()
    assert (fits[0].cluster_centers_ == fits[1].cluster_centers_).all()
    assert fits[0].inertia_ == fits[1].inertia_


def test_nothing_is_near_beyond_the_last_center_also_for_the_next_fit():
    from wolfmeans.engines.gpu.screening import Screened
    from wolfmeans.engines.gpu.steps import Step

    data = Screened(on_device(np.eye(5, 3, dtype=np.float32)))
    step = Step(data, 5)
    for _ in range(2):
        beyond = step.clusters.short[5:]
        assert len(beyond) % 4 == 3
        assert (beyond >= 1e17).all()
        step = step.take_up(data)


@pytest.mark.parametrize("share", [1, 40, 700])
def test_rows_that_nothing_decides_among_others(share):
    """Ties, in lists of one row and of more than are worked on at once."""
    rng = np.random.default_rng(share)
    X = rng.normal(size=(1100, 2)).astype(np.float32)
    X[rng.permutation(len(X))[:share], 0] = 0.0
    centers = np.array([[1, 0], [-1, 0], [1, 3], [-1, 3], [0, -4.5]], dtype=np.float32)
    fits = [
        KMeans(5, init=centers, n_init=1, max_iter=2, engine=engine, bound=None).fit(X)
        for engine in ("gpu", "cpu")
    ]
    assert (fits[0].labels_ == fits[1].labels_).all()
    assert (fits[0].cluster_centers_ == fits[1].cluster_centers_).all()
