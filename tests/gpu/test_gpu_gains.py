"""The candidate that gains most as one more center is that of the specification."""

import numpy as np
import pytest

from interpreted import needs_triton
from wolfmeans.core import empty_clusters
from wolfmeans.engines import get_engine
from wolfmeans.exact.sums import exact_sum

pytestmark = needs_triton


def blobs(n, d, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    middles = rng.uniform(-10, 10, (6, d))
    return (middles[rng.integers(0, 6, n)] + rng.normal(0, 2, (n, d))).astype(dtype)


def opened(X, weights, centers):
    """The same points on the device and elsewhere, with labels."""
    there, here = (get_engine(name).open(X, weights, 1) for name in ("gpu", "reference"))
    for workspace in (there, here):
        workspace.assign(centers)
    return there, here


@pytest.fixture
def gains():
    from wolfmeans.engines.gpu import gains

    return gains


@pytest.fixture
def given_up(gains, monkeypatch):
    """What became of each search: (given up, tried); beside it, the rows and their gains."""

    class Seen(list):
        rows = gains = None

    seen = Seen()
    result = gains._Trying.result

    def noted(trying):
        found, tried = result(trying)
        seen.append((bool(found[gains.GIVEN_UP.value]), tried is not None))
        seen.rows = None if seen[-1][0] else trying.rows.cpu().numpy()
        seen.gains = None if tried is None or seen[-1][0] else tried[1]
        return found, tried

    monkeypatch.setattr(gains._Trying, "result", noted)
    return seen


def assert_same(X, centers, most, seen, weights=None, masses=None, noise=None):
    """Compare the best candidate, and all that were tried where nothing was given up."""
    there, here = opened(X, weights, centers)
    there.data.noise = noise
    distances = here.distances(centers)
    counting = weights if masses is None else masses
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(empty_clusters, "CANDIDATES", most)
        expected = empty_clusters.best_candidate(here, distances, masses)
        rows = empty_clusters._candidate_rows(here, distances, masses)
    found = there.best_candidate(centers, masses, most)
    assert found == expected
    assert found[1] > 0
    if seen.rows is not None:
        assert sorted(set(seen.rows.tolist())) == sorted(rows.tolist())
    if seen.gains is not None:
        for row, gain in zip(seen.rows.tolist(), seen.gains.tolist(), strict=True):
            terms = distances - here.distances_to(X[row])
            won = terms > 0
            terms = terms[won] if counting is None else counting[won] * terms[won]
            assert gain == exact_sum(terms.tolist())


@pytest.mark.parametrize(
    ("d", "dtype", "most"),
    [(1, "float32", 8), (2, "float64", 9), (3, "float32", 12), (12, "float32", 20),
     (12, "float64", 2), (33, "float32", 66), (130, "float32", 4)],
)  # fmt: skip
def test_without_sorting_by_all_columns(d, dtype, most, given_up):
    X = blobs(200, d, dtype)
    assert_same(X, X[:4].copy(), most, given_up)
    assert given_up == [(False, d > 8)]


@pytest.mark.parametrize("masses", [False, True])
def test_points_that_do_not_count_are_not_tried(masses, given_up):
    X = blobs(150, 10)
    weights = np.random.default_rng(1).choice([0.0, 0.3, 1.0, 7.0], len(X))
    own = np.where(np.arange(len(X)) % 3 == 0, 0.0, weights) if masses else None
    assert_same(X, X[:5].copy(), 12, given_up, weights, own)
    assert given_up == [(False, True)]


def test_ties_in_the_first_column_are_broken_by_the_second(given_up):
    X = blobs(200, 9)
    X[:, 0] = np.round(X[:, 0] * 4) / 4
    assert_same(X, X[:4].copy(), 24, given_up)
    assert given_up == [(False, True)]


@pytest.mark.parametrize("d", [1, 2])
def test_equal_rows_are_in_the_order_of_their_numbers(d, given_up):
    X = np.round(blobs(200, d) * 3) / 3
    X[:, :1] += np.where(np.arange(len(X)) % 2, 0.0, -0.0)[:, None]
    assert_same(X, X[:3] + np.float32(0.125), 20, given_up)
    assert given_up == [(False, False)] or given_up == [(True, False)]


@pytest.mark.parametrize("kind", ["constant column", "constant columns", "lattice", "few"])
def test_ties_are_left_to_the_order_of_all_columns(kind, given_up):
    X = blobs(150, 9)
    most = 10
    if kind == "constant column":
        X[:, 0] = 1.0
    elif kind == "constant columns":
        X[:, 0] = np.round(X[:, 0])
        X[:, 1] = 2.0
    elif kind == "lattice":
        X = np.round(X / 4)
    else:
        X, most = X[:40], 40
    assert_same(X, X[:4] + np.float32(0.25) * (kind == "lattice"), most, given_up)
    assert given_up[0][0]


def test_far_rows_that_lie_together(given_up):
    X = blobs(1000, 10)
    X[300:400] += 40.0
    assert_same(X, np.concatenate([X[:4], X[350:351]]), 16, given_up)
    assert given_up == [(False, True)]


def test_more_far_rows_than_are_looked_at_at_once(gains):
    import torch

    X = blobs(5000, 1)
    there, here = opened(X, None, X[:2].copy())
    distances = here.distances(X[:2])
    sent = torch.from_numpy(distances).to(there.data.X.device)
    trying = gains._Trying(gains.CurrentCosts(there.data, sent, None, 0), 600)
    trying._choose()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(empty_clusters, "CANDIDATES", 600)
        rows = empty_clusters._candidate_rows(here, distances)
    found, _ = trying.result()
    assert not found[gains.GIVEN_UP.value]
    assert set(trying.rows.tolist()) == set(rows.tolist())


def test_a_tie_of_distances_at_the_border(given_up):
    rng = np.random.default_rng(3)
    # Pairs of points that are equally far from the only center.
    half = rng.normal(size=(60, 9)).astype(np.float32)
    X = np.concatenate([half, -half])
    assert_same(X, np.zeros((1, 9), np.float32), 10, given_up)
    assert given_up[0][0]
    given_up.clear()
    assert_same(X, np.zeros((1, 9), np.float32), 12, given_up)
    assert not given_up[0][0]


def test_rows_beyond_the_radius_and_scores_as_wrong_as_they_may_be(given_up):
    import torch

    X = blobs(200, 16)
    X[7] *= 50.0
    X[9] *= 1e4
    noise = torch.from_numpy(np.random.default_rng(0).choice([-1.0, 1.0], (64, 64)).astype("f4"))
    device = get_engine("gpu").open(X, None, 1).data.X.device
    assert_same(X, X[10:14].copy(), 16, given_up, noise=noise.to(device))
    assert given_up == [(False, True)]


def test_pairs_without_room(gains, given_up, monkeypatch):
    monkeypatch.setattr(gains, "_ALL_PAIRS", 100)
    X = blobs(150, 10)
    assert_same(X, X[:4].copy(), 8, given_up)
    assert given_up == [(False, False)]


def test_of_two_that_gain_the_same_the_first_by_value(given_up):
    # Symmetric, so that every gain comes twice at least.
    rng = np.random.default_rng(5)
    half = np.abs(rng.normal(size=(50, 9))).astype(np.float32) + 1.0
    X = np.concatenate([half, -half])[rng.permutation(100)]
    assert_same(X, np.zeros((1, 9), np.float32), 24, given_up)
    assert not given_up[0][0]


@pytest.mark.parametrize("half", [1, 2, 5, 128])
def test_places_are_those_of_linspace(half):
    # As `_choose_spread` computes them.
    for m in [*range(2 * half + 1, 2 * half + 40), 999_999, 1_000_003, 2**31 - 1]:
        if half == 1:
            places = [0]
        else:
            step = (m - 1) / (half - 1)
            places = [m - 1 if j == half - 1 else int(j * step) for j in range(half)]
        assert places == np.linspace(0, m - 1, half).astype(np.int64).tolist()
