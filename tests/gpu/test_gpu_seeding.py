"""Order and seeds on the device are those of the specification, row by row."""

from fractions import Fraction

import numpy as np
import pytest

from difficult import SEEDING_KINDS, difficult_points
from instances import ENGINES
from interpreted import needs_triton
from wolfmeans.core.draws import draws, integer_masses, integer_shift, pick_rows
from wolfmeans.engines import get_engine
from wolfmeans.engines.sampling import Part
from wolfmeans.exact.hashing import row_hashes, stream, uniforms
from wolfmeans.exact.ordering import lexicographic_order
from wolfmeans.seeding.methods import METHODS, spread_rows
from wolfmeans.seeding.oversampling import sample_candidates

pytestmark = needs_triton

FINITE_IN_FLOAT32 = [kind for kind in SEEDING_KINDS if kind not in ("tiny", "huge")]


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def gpu():
    """The modules under test, which cannot be imported everywhere."""
    from wolfmeans.engines.gpu import ordering, oversampling, seeding

    class Modules:
        pass

    Modules.ordering, Modules.seeding, Modules.oversampling = ordering, seeding, oversampling
    return Modules


def opened(X, weights=None, engine="gpu"):
    return get_engine(engine).open(X, weights, 1)


def assert_same_rows(X, n_clusters, n_trials, weights=None, noise=None):
    """Compare with the fastest other engine, which `test_seeding` compares with the reference."""
    import torch

    from wolfmeans.engines.gpu.seeding import spread_rows as on_device

    drawn = draws(np.random.RandomState(len(X)), 1 + (n_clusters - 1) * n_trials)
    other = opened(X, weights, ENGINES[-1])
    expected = other.spread_rows(drawn, n_trials)
    if expected is None:
        expected = spread_rows(other, drawn, n_trials)
    workspace = opened(X)
    workspace.data.noise = noise
    if weights is None:
        rows = workspace.spread_rows(drawn, n_trials)
    else:
        sent = torch.from_numpy(weights).to(workspace.data.X.device)
        rows = on_device(workspace.data, workspace.order_on_device(), sent, drawn, n_trials)
    assert rows.tolist() == expected.tolist()


@pytest.mark.parametrize("kind", SEEDING_KINDS)
@pytest.mark.parametrize(("n", "d"), [(60, 1), (150, 4), (70, 40)])
def test_order_is_the_lexicographic_one(kind, n, d):
    rng = np.random.default_rng(n)
    X = difficult_points(kind, n, d, rng)
    X[rng.random(X.shape) < 0.3] *= 0.0  # zeros of both signs
    if kind in FINITE_IN_FLOAT32 and n != 150:
        X = X.astype(np.float32)
    assert opened(X).order().tolist() == lexicographic_order(X).tolist()


def test_order_of_rows_that_differ_late():
    rng = np.random.default_rng(0)
    X = np.zeros((80, 70), dtype=np.float32)
    X[:, 66:] = rng.integers(0, 3, size=(80, 4))
    assert opened(X).order().tolist() == lexicographic_order(X).tolist()


def test_order_of_few_rows():
    for X in (np.ones((1, 3)), np.ones((5, 4)), np.array([[1.0, 2, 3], [1.0, 2, -3]])):
        assert opened(X).order().tolist() == lexicographic_order(X).tolist()


def test_order_does_not_rely_on_hashes(gpu, monkeypatch):
    class Same:
        def __getitem__(self, grid):
            return lambda X, rows, hashes, *others, **settings: hashes.zero_()

    monkeypatch.setattr(gpu.ordering, "hash_rows", Same())
    X = np.random.default_rng(1).integers(0, 2, size=(60, 5)) * 1.0
    assert opened(X).order().tolist() == lexicographic_order(X).tolist()


@pytest.mark.parametrize("kind", SEEDING_KINDS)
@pytest.mark.parametrize("d", [3, 20])
def test_seeds_of_difficult_points(kind, d):
    X = difficult_points(kind, 45, d, np.random.default_rng(d))
    if kind == "huge":
        assert opened(X).spread_rows(draws(np.random.RandomState(0), 3), 1) is not None
    if kind in FINITE_IN_FLOAT32 and (d == 20) == (len(kind) % 2 == 0):
        X = X.astype(np.float32)
    assert_same_rows(X, 6, 2)


@pytest.mark.parametrize("kind", ["lattice", "outliers", "normal"])
def test_weighted_seeds(kind):
    rng = np.random.default_rng(7)
    X = difficult_points(kind, 50, 12, rng)
    assert_same_rows(X, 5, 2, weights=rng.choice([0.0, 1.0, 1.0, 2.5, 1e-3], size=50))


@pytest.mark.parametrize("d", [2, 20])
def test_lists_without_room_and_sums_of_several_blocks(gpu, monkeypatch, d):
    monkeypatch.setattr(gpu.seeding, "_room", lambda n, n_lists: 9)
    monkeypatch.setattr(gpu.seeding, "_PLACES", 16)
    assert_same_rows(difficult_points("blobs", 100, d, np.random.default_rng(d)), 7, 3)


@pytest.mark.parametrize("kind", ["normal", "offset", "outliers", "scales", "lattice"])
def test_the_screen_lists_all_that_come_closer_by_a_bit(gpu, torch, kind):
    X = difficult_points(kind, 90, 24, np.random.default_rng(3))
    workspace = opened(X)
    data = workspace.data
    data.noise = torch.ones((64, 64), dtype=torch.float32, device=data.X.device)
    drawn = draws(np.random.RandomState(0), 3)
    spreading = gpu.seeding._Spreading(data, workspace.order_on_device(), None, drawn, 1, 100)
    row = 7
    distances = workspace.distances_to(X[row])
    others = set(np.flatnonzero(distances).tolist())
    spreading.trials[0] = row

    def listed(closest):
        spreading.closest.copy_(torch.from_numpy(closest))
        spreading.counters.zero_()
        spreading.list_points()
        return spreading.lists[0, : int(spreading.counters[0, 0])].tolist()

    assert len(listed(0.9 * distances)) < len(others)
    nearer = distances * np.where(np.arange(90) % 3 > 0, 1.0 + 2.0**-50, 1.0 - 2.0**-50)
    rows = listed(nearer)
    assert set(rows) >= set(np.flatnonzero(distances < nearer).tolist())
    if kind != "lattice":
        assert len(rows) == len(others)  # nothing can tell these apart

    spreading._weigh()
    reached = np.minimum(distances, nearer)
    assert spreading.found[0, : len(rows)].tolist() == reached[rows].tolist()
    change = sum(Fraction(a) - Fraction(b) for a, b in zip(reached, nearer, strict=True))
    limbs = spreading.changes[0].tolist()
    assert (
        sum(limb << 32 * i for i, limb in enumerate(limbs)) * Fraction(2) ** spreading.low == change
    )


@pytest.mark.parametrize("scale", [1.0, 1e-160, 2.0**-1070, 1e290])
def test_masses_are_the_integers_of_the_specification(gpu, torch, monkeypatch, scale):
    monkeypatch.setattr(gpu.seeding, "_PLACES", 16)
    rng = np.random.default_rng(6)
    workspace = opened(rng.normal(size=(77, 2)))
    drawn = draws(np.random.RandomState(1), 1 + 5)
    spreading = gpu.seeding._Spreading(
        workspace.data, workspace.order_on_device(), None, drawn, 5, 100
    )
    masses = scale * rng.choice([0.0, 1.0, 3.0, 1e-9, 7.7], size=77) * rng.random(77)
    masses[workspace.order()[:3]] = 0.0
    drawn[1] = 0  # picks the first row with a mass
    spreading.closest.copy_(torch.from_numpy(masses))
    spreading._draw(torch.from_numpy(drawn[1:]).to(spreading.closest.device), 5)
    integers = np.cumsum(integer_masses(masses)[workspace.order()])
    assert spreading.cumulative.tolist() == [*integers[15::16].tolist(), int(integers[-1])]
    assert spreading.trials[:5].tolist() == pick_rows(workspace, masses, drawn[1:]).tolist()


@pytest.mark.parametrize("d", [2, 130])  # the second in several products
def test_more_trials_than_a_program_works_on_at_once(d):
    assert_same_rows(difficult_points("lattice", 30, d, np.random.default_rng(d)), 2, 19)


@pytest.mark.parametrize("d", [1, 9])
def test_seeding_ends_when_no_point_has_mass(d):
    X = np.repeat(np.arange(4.0)[:, None], 10, axis=0) * np.ones(d)
    rows = opened(X).spread_rows(draws(np.random.RandomState(0), 1 + 8 * 2), 2)
    assert len(rows) == 4
    assert_same_rows(X, 9, 2)


def test_one_point_is_chosen_once():
    assert_same_rows(np.ones((1, 3)), 3, 2)


def test_sums_without_room_are_left_to_the_specification():
    drawn = draws(np.random.RandomState(0), 1 + 3)
    X = np.array([[0.0], [1e-130], [1.0], [1e130]])
    assert opened(X).spread_rows(drawn, 1) is None
    assert opened(np.array([[0.0], [1e154], [1.2e154]])).spread_rows(drawn, 1) is None
    # From the last row all distances are 1; a distance without room comes with the next row.
    late = np.array([2**63 - 2, 5])
    assert opened(np.array([[0.0], [1e-130], [1.0]])).spread_rows(late, 1) is None
    rows = [
        METHODS["plain-k-means++"](opened(X, None, engine), 4, np.random.RandomState(2)).tolist()
        for engine in (*ENGINES, "gpu")
    ]
    assert all(some == rows[0] for some in rows)


@pytest.mark.parametrize("kind", ["lattice", "outliers"])
@pytest.mark.parametrize("method", ["random", "k-means||"])
def test_other_methods(method, kind):
    X = difficult_points(kind, 60, 3, np.random.default_rng(8)).astype(np.float32)
    rows = [
        METHODS[method](opened(X, None, engine), 2, np.random.RandomState(1)).tolist()
        for engine in (ENGINES[-1], "gpu")
    ]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 3, 70])
def test_hashes_of_rows(d, dtype):
    X = difficult_points("lattice", 90, d, np.random.default_rng(d)).astype(dtype)
    X[:9] *= dtype(-0.0)
    X[9:30] *= dtype(1.1)
    assert opened(X).row_hashes().tolist() == row_hashes(X).tolist()


def test_shares_are_exact(torch):
    from draw_shares import shares

    rng = np.random.default_rng(10)
    drawn = rng.integers(0, 2**63 - 1, size=64)
    total = rng.integers(1, 2**62, size=64)
    drawn[:4], total[:2], total[2:6] = [0, 2**63 - 2, 2**63 - 2, 1], 2**62 - 1, [1, 2, 3, 2**61]
    expected = [u * t // (2**63 - 1) for u, t in zip(drawn.tolist(), total.tolist(), strict=True)]
    assert shares(drawn, total).tolist() == expected


def assert_same_arrays(one, other):
    assert one.dtype == other.dtype
    assert one.tolist() == other.tolist()


def assert_same_answers(here, there, weights, rng):
    """Ask a part on the device and one on the host whatever is asked, with more candidates."""
    n = there.size()
    weight_shift = integer_shift(there.largest(), n)
    heavy = np.arange(n) if weights is None else np.flatnonzero(weights)
    assert here.size() == n
    for number, many in enumerate((1, 4, 0)):
        assert here.largest() == there.largest()
        shift = integer_shift(there.largest(), n)
        sums = there.bucket_masses(shift, 7)
        assert_same_arrays(here.bucket_masses(shift, 7), sums)
        key = stream(n, number)
        shares = sums / max(1, sums.sum())
        reached = np.zeros(128)  # by a row of each bucket, which is not below that
        buckets = (there.state.hashes >> np.uint64(57)).astype(int)
        np.maximum.at(reached, buckets, uniforms(there.state.hashes, key))
        for limits in (shares, 30.0 * shares, reached):
            one, other = here.listed(shift, key, limits), there.listed(shift, key, limits)
            assert_same_arrays(one.hashes, other.hashes)
            assert_same_arrays(one.masses, other.masses)
        if many:
            chosen = rng.choice(heavy, size=many)
            strange = rng.integers(0, 2**63, size=2).astype(np.uint64)
            hashes = np.unique(np.append(there.state.hashes[chosen], strange))
            points = there.points(hashes)
            assert_same_arrays(here.points(hashes), points)
            assert_same_arrays(here.rows_of(points), there.rows_of(points))
            for question, *given in (("rows_with", hashes), ("sample", key, 0.4)):
                one, other = (getattr(part, question)(*given) for part in (here, there))
                assert_same_arrays(one.hashes, other.hashes)
                assert_same_arrays(one.points, other.points)
                assert_same_arrays(one.weights, other.weights)
            here, there = here.approach(points), there.approach(points)
            assert_same_arrays(here.owned(weight_shift), there.owned(weight_shift))


SOME_WEIGHTS = {
    "none": None,
    "with zeros": [0.0, 1.0, 2.5, 1e-3],
    "far apart": [0.0, 1.0, 1e8, 1e-8],
}


@pytest.mark.parametrize(
    ("kind", "d", "dtype", "weights"),
    [
        ("lattice", 1, "float32", "far apart"),
        ("lattice", 3, "float64", "none"),
        ("normal", 40, "float32", "with zeros"),
        ("offset", 9, "float64", "none"),
        ("outliers", 16, "float32", "none"),
        ("tiny", 2, "float64", "far apart"),
        ("huge", 12, "float64", "none"),
    ],
)
def test_parts_on_the_device_answer_like_those_on_the_host(
    gpu, monkeypatch, kind, d, dtype, weights
):
    monkeypatch.setattr(gpu.oversampling, "Part", None)  # nothing is left to it
    rng = np.random.default_rng(d)
    X = difficult_points(kind, 70, d, rng).astype(dtype)
    X = np.concatenate([X, X[:20], X[:20]])
    X[rng.random(X.shape) < 0.1] *= -0.0
    w = SOME_WEIGHTS[weights]
    w = None if w is None else rng.choice(w, size=len(X))
    here = opened(X, w).sampling()
    assert here is not None
    assert_same_answers(here, Part(opened(X, w, ENGINES[-1])), w, rng)


def test_lists_without_room_and_candidates_some_at_a_time(gpu, monkeypatch):
    monkeypatch.setattr(gpu.oversampling, "_LEAST_ROOM", 0)
    monkeypatch.setattr(gpu.oversampling, "_ENTRIES_AT_ONCE", 7)
    monkeypatch.setattr(gpu.oversampling, "_BLOCK", 64)
    monkeypatch.setattr(gpu.oversampling, "_SUMS", 16)
    rng = np.random.default_rng(11)
    X = difficult_points("lattice", 150, 2, rng)[rng.integers(0, 40, size=150)]
    weights = rng.choice([0.0, 1.0, 3.0], size=150)
    there = Part(opened(X, weights, ENGINES[-1]))
    assert_same_answers(opened(X, weights).sampling(), there, weights, rng)


def test_lists_that_just_fit(gpu, monkeypatch):
    monkeypatch.setattr(gpu.oversampling, "_LEAST_ROOM", 3)
    X = np.repeat(np.arange(5.0), [1, 2, 3, 4, 5])[:, None]
    here, there = opened(X).sampling(), Part(opened(X, None, ENGINES[-1]))
    for hash in np.unique(there.state.hashes):
        limits = np.zeros(128)
        limits[int(hash >> np.uint64(57))] = 1.0
        one, other = here.listed(0, 1, limits), there.listed(0, 1, limits)
        assert_same_arrays(one.hashes, other.hashes)
        assert_same_arrays(one.masses, other.masses)


@pytest.mark.parametrize(("n", "k", "weighted"), [(1, 3, False), (60, 12, True), (60, 3, True)])
def test_candidates_and_seeds_without_the_host(gpu, monkeypatch, n, k, weighted):
    def refused(*arguments):
        raise AssertionError("all rows would go to the host")

    rng = np.random.default_rng(n)
    X = difficult_points("blobs", n, 4, rng)[rng.integers(0, 9 if k > 9 else n, size=n)]
    weights = rng.choice([0.0, 1.0, 2.5], size=n) if weighted else None
    other = opened(X, weights, ENGINES[-1])
    expected = sample_candidates(Part(other), k, 5)
    rows = METHODS["k-means||"](other, k, np.random.RandomState(5)).tolist()
    workspace = opened(X, weights)
    for name in ("nearest", "row_hashes", "distances_to"):
        monkeypatch.setattr(type(workspace), name, refused)
    found = sample_candidates(workspace.sampling(), k, 5)
    assert_same_arrays(found.points, expected.points)
    assert_same_arrays(found.weights, expected.weights)
    assert METHODS["k-means||"](workspace, k, np.random.RandomState(5)).tolist() == rows


def test_values_that_share_a_hash_stay_values(gpu, monkeypatch):
    """With hashes of four bits many values come together."""
    X = difficult_points("lattice", 80, 3, np.random.default_rng(12))
    on_device = gpu.oversampling.row_hashes

    def coarse(points):
        return row_hashes(points) & np.uint64(0xF << 60)

    monkeypatch.setattr(gpu.oversampling, "row_hashes", lambda X: on_device(X) & (-1 << 60))
    monkeypatch.setattr(gpu.oversampling, "hashes_on_host", coarse)
    monkeypatch.setattr("wolfmeans.engines.reference.row_hashes", coarse)
    monkeypatch.setattr("wolfmeans.engines.sampling.row_hashes", coarse)
    rows = [
        METHODS["k-means||"](opened(X, None, engine), 4, np.random.RandomState(1)).tolist()
        for engine in ("reference", "gpu")
    ]
    assert rows[0] == rows[1]


def test_sampling_of_streamed_points_stays_on_the_host(monkeypatch):
    monkeypatch.setenv("WOLFMEANS_GPU_MEMORY", "40KB")
    X = difficult_points("normal", 300, 12, np.random.default_rng(13))
    assert opened(X).sampling() is None
