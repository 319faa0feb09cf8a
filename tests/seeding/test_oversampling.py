"""k-means||: the same seeds for any order and partitioning, and samples of the right shares."""

import math
from itertools import cycle, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse, stats

from instances import ENGINES, instances
from wolfmeans.core.draws import integer_shift
from wolfmeans.engines import get_engine, sampling
from wolfmeans.engines.sampling import Part, Together, merged_points
from wolfmeans.exact.hashing import row_hashes, stream, uniforms
from wolfmeans.exact.native import bucket_masses, native_is_available, rows_below
from wolfmeans.seeding import oversampling
from wolfmeans.seeding.methods import METHODS, choose_seeds, parallel_seeds
from wolfmeans.seeding.oversampling import sample_candidates


def opened(X, weights=None, engine="reference", n_threads=1):
    return get_engine(engine).open(X, weights, n_threads)


def seeds_of(parts, k, seed):
    return parallel_seeds(parts, k, np.random.RandomState(seed), "reference")


def in_memory(X, weights, k, seed, engine="reference"):
    return choose_seeds(opened(X, weights, engine), k, "k-means||", np.random.RandomState(seed))


def divided(X, weights, cuts):
    """Return the rows in parts that end at the cuts; no part is empty."""
    edges = np.unique([0, len(X), *(cut % len(X) for cut in cuts)]).tolist()
    return [
        Part(opened(X[a:b], None if weights is None else weights[a:b], engine))
        for (a, b), engine in zip(pairwise(edges), cycle(ENGINES), strict=False)
    ]


def with_zeros(rng, n, d):
    """Return a lattice with zeros of both signs, and copies of rows."""
    X = rng.integers(-2, 3, size=(n, d)) * 1.5
    X[rng.random(X.shape) < 0.4] *= -0.0
    return X


def as_csr(X, rng):
    """Return the same values as CSR, with some of the zeros stored."""
    stored = (X != 0) | (rng.random(X.shape) < 0.3)
    rows, columns = np.nonzero(stored)
    indptr = np.searchsorted(rows, np.arange(len(X) + 1))
    return sparse.csr_array((X[rows, columns], columns, indptr), shape=X.shape)


@given(
    instance=instances(80, 4, 12),
    seed=st.integers(0, 2**31 - 1),
    cuts=st.lists(st.integers(0, 1000), max_size=5),
)
def test_seeds_do_not_depend_on_order_or_parts(instance, seed, cuts):
    X, weights, k = instance.X, instance.weights, instance.n_clusters
    seeds = in_memory(X, weights, k, seed)
    order = np.random.default_rng(seed).permutation(len(X))
    shuffled = None if weights is None else weights[order]
    for engine in ENGINES:
        assert (in_memory(X[order], shuffled, k, seed, engine) == seeds).all()
    parts = divided(X[order], shuffled, cuts)
    assert (seeds_of(Together(parts), k, seed) == seeds).all()
    # Parts of parts: sums may be taken along a tree.
    half = len(parts) // 2
    again = divided(X[order], shuffled, cuts)
    tree = [Together(some) for some in (again[:half], again[half:]) if some]
    assert (seeds_of(Together(tree), k, seed) == seeds).all()


@given(instance=instances(60, 4, 8), seed=st.integers(0, 2**31 - 1))
def test_candidates_do_not_depend_on_order_or_parts(instance, seed):
    X, weights = instance.X, instance.weights
    order = np.random.default_rng(seed).permutation(len(X))
    shuffled = None if weights is None else weights[order]
    one = sample_candidates(Part(opened(X, weights)), instance.n_clusters, seed)
    parts = Together(divided(X[order], shuffled, [7, 11, 30]))
    other = sample_candidates(parts, instance.n_clusters, seed)
    assert one.points.tolist() == other.points.tolist()
    assert one.weights.tolist() == other.weights.tolist()


@pytest.mark.parametrize("bits", [1, 4, 16])
def test_the_number_of_buckets_changes_nothing(bits, monkeypatch):
    X = np.random.default_rng(0).normal(size=(400, 3))
    seeds = in_memory(X, None, 9, 4)
    monkeypatch.setattr(oversampling, "_FEWEST_BUCKET_BITS", bits)
    monkeypatch.setattr(oversampling, "_MOST_BUCKET_BITS", bits)
    assert (in_memory(X, None, 9, 4) == seeds).all()


@pytest.mark.parametrize("bits", [4, 7, 12])
def test_looking_more_closely_changes_nothing(bits, monkeypatch):
    """Values that are too many to tell are put into buckets again, by other bits."""
    X = np.random.default_rng(1).normal(size=(3000, 2)).round(2)
    X = np.vstack([X, X[:500]])
    seeds = in_memory(X, None, 5, 4)
    monkeypatch.setattr(oversampling, "_FEWEST_BUCKET_BITS", bits)
    monkeypatch.setattr(oversampling, "_MOST_BUCKET_BITS", bits)
    told = []
    plain = Part.listed

    def counted(self, shift, key, *limits):
        found = plain(self, shift, key, *limits)
        told.append((len(limits), len(found.hashes)))
        return found

    monkeypatch.setattr(Part, "listed", counted)
    assert (in_memory(X, None, 5, 4) == seeds).all()
    plainly = told.copy()
    told.clear()
    monkeypatch.setattr(oversampling, "_FEW_VALUES", 1)
    assert (in_memory(X, None, 5, 4) == seeds).all()
    assert (seeds_of(Together(divided(X, None, [100, 2000])), 5, 4) == seeds).all()
    assert {levels for levels, _ in plainly} == {1}
    assert max(levels for levels, _ in told) > 1
    assert sum(many for _, many in told[: len(plainly)]) <= sum(many for _, many in plainly)


@pytest.mark.parametrize("engine", ENGINES)
def test_dense_and_sparse_rows_give_the_same_seeds(engine):
    # On a lattice all distances are exact.
    rng = np.random.default_rng(1)
    for d, weights in ((3, None), (6, rng.choice([0.0, 1.0, 2.5], size=120))):
        X = with_zeros(rng, 120, d)
        for seed in range(5):
            seeds = in_memory(X, weights, 7, seed)
            assert (in_memory(as_csr(X, rng), weights, 7, seed, engine) == seeds).all()
            single = in_memory(X.astype(np.float32), weights, 7, seed, engine)
            assert single.dtype == np.float32
            assert (single == seeds).all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("d", [1, 5, 40])
def test_hashes_are_those_of_values(engine, d):
    rng = np.random.default_rng(d)
    X = with_zeros(rng, 300, d)
    X[50:100] = np.float32(1.1 * X[50:100])
    X[100:150] = np.float32(rng.normal(size=(50, d)))
    expected = row_hashes(X).tolist()
    for values in (X, X.astype(np.float32), X + 0.0):
        for threads in (1, 3):
            assert opened(values, None, engine, threads).row_hashes().tolist() == expected
    for values in (as_csr(X, rng), as_csr(X.astype(np.float32), rng)):
        assert opened(values, None, engine).row_hashes().tolist() == expected
    twice = sparse.csr_array((np.array([1.0, 2.0]), np.array([d - 1, d - 1]), [0, 2]), shape=(1, d))
    assert row_hashes(twice).tolist() == row_hashes(twice.toarray()).tolist()


def test_hashes_tell_values_and_columns_apart():
    X = np.arange(-200.0, 200.0)[:, None]
    X = np.concatenate([X * [1, 0, 0], X * [0, 1, 0], X * [0, 0, 1], X * [1, 1, 2.0**-40]])
    assert len(np.unique(row_hashes(X))) == len(np.unique(X, axis=0))


def test_uniforms_are_uniform_and_keyed():
    # Neighbours in the last place, and powers of two: values that differ in few bits.
    X = np.concatenate([1.0 + 2.0**-52 * np.arange(40_000), 2.0 ** np.arange(-500, 500)])[:, None]
    hashes = row_hashes(X)
    for seed, number in ((7, 2), (7, 3), (8, 2), (7, 1 << 32)):
        u = uniforms(hashes, stream(seed, number))
        assert ((u >= 0) & (u < 1)).all()
        assert stats.kstest(u, "uniform").pvalue > 1e-3
        other = uniforms(hashes, stream(seed + 1, number))
        assert abs(np.corrcoef(u, other)[0, 1]) < 0.02
        assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 0.02


@pytest.mark.parametrize("k", [1, 3, 9, 20])
def test_few_distinct_points_are_all_found(k):
    rng = np.random.default_rng(2)
    values = 10.0 ** -np.arange(9.0)[:, None] * rng.normal(size=(9, 2))
    X = values[rng.integers(0, 9, size=500)]
    weights = rng.choice([0.0, 1e-6, 1.0], size=500)
    for w in (None, weights):
        heavy = X if w is None else X[w > 0]
        seeds = in_memory(X, w, k, 0)
        assert len(np.unique(seeds, axis=0)) == min(k, len(np.unique(heavy, axis=0)))
        assert (seeds_of(Together(divided(X, w, [3, 100, 444])), k, 0) == seeds).all()


def test_rows_of_seeds_are_the_lowest_with_weight():
    X = np.array([[1.0], [0.0], [-0.0], [1.0], [2.0], [0.0]])
    weights = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 5.0])
    rows = METHODS["k-means||"](opened(X, weights), 3, np.random.RandomState(0))
    assert sorted(rows.tolist()) == [2, 3, 4]


def test_the_earlier_candidate_owns_what_is_as_near_to_another():
    part = Part(opened(np.array([[0.0], [1.0], [2.0], [1.5]]), np.array([1.0, 2.0, 4.0, 8.0])))
    first = part.approach(np.array([[2.0]]))
    both = first.approach(np.array([[0.0]]))
    assert first.owned(0).tolist() == [15]
    assert both.owned(0).tolist() == [14, 1]
    assert part.approach(np.array([[0.0], [2.0]])).owned(0).tolist() == [3, 12]
    assert both.state.closest.tolist() == [0.0, 1.0, 0.0, 0.25]


def test_merged_points_are_distinct_and_have_no_negative_zeros():
    points = merged_points([np.array([[1.0, -0.0]]), np.array([[-0.0, 3.0], [1.0, 0.0]])])
    assert points.tolist() == [[0.0, 3.0], [1.0, 0.0]]
    assert not np.signbit(points).any()


def test_copies_are_sampled_like_weights():
    """A value's share of a round is that of all its copies, and one candidate comes of it."""
    rng = np.random.default_rng(3)
    values, weights = rng.normal(size=(300, 2)), rng.integers(0, 40, size=300) * 1.0
    copies = np.repeat(values, weights.astype(int), axis=0)
    for seed in range(5):
        heavy = sample_candidates(Part(opened(values, weights)), 4, seed)
        many = sample_candidates(Part(opened(copies)), 4, seed)
        assert heavy.points.tolist() == many.points.tolist()
        assert len(np.unique(many.points, axis=0)) == len(many.points)
        np.testing.assert_allclose(
            many.weights / many.weights.sum(), heavy.weights / heavy.weights.sum(), rtol=1e-9
        )


class Counted:
    """A part that notes how many samples of a round were to be expected, and how many came."""

    def __init__(self, part, X, k, notes):
        self._part, self._X, self._k, self.notes = part, X, k, notes

    def __getattr__(self, name):
        return getattr(self._part, name)

    def points(self, hashes):
        distances = self._part.state.closest
        if distances is not None:
            values = np.unique(self._X, axis=0, return_inverse=True)[1].ravel()
            shares = 2 * self._k * np.bincount(values, distances) / distances.sum()
            self.notes.append((np.minimum(shares, 1.0).sum(), len(hashes)))
        return self._part.points(hashes)

    def approach(self, candidates):
        return Counted(self._part.approach(candidates), self._X, self._k, self.notes)


@pytest.mark.parametrize("copies", [1, 20])
def test_rounds_sample_as_many_as_expected(copies):
    rng = np.random.default_rng(4)
    X = np.repeat(rng.normal(size=(3000, 3)), copies, axis=0)
    notes = []
    for seed in range(4):
        sample_candidates(Counted(Part(opened(X)), X, 20, notes), 20, seed)
    expected, found = np.array(notes).T
    assert len(expected) == 4 * 5
    assert (expected > 35).all()
    # A sum of independent indicators has no more variance than its expectation.
    assert (np.abs(found - expected) <= 4.0 * np.sqrt(expected)).all()
    assert abs(found.sum() - expected.sum()) <= 3.0 * math.sqrt(expected.sum())


def first_candidates(X, weights, draws):
    part = Part(opened(X, weights))
    shift = integer_shift(part.largest(), part.size())
    return np.concatenate(
        [oversampling._first_candidate(part, shift, seed) for seed in range(draws)]
    )


def test_the_first_candidate_follows_the_weights():
    X = np.array([[0.0], [1.0], [2.0], [3.0], [3.0], [4.0]])
    weights = np.array([4.0, 1.0, 0.0, 1.0, 1.0, 0.5])
    drawn = first_candidates(X, weights, 3000)[:, 0].astype(int)
    counts = np.bincount(drawn, minlength=5)
    assert counts[2] == 0
    expected = 3000 * np.array([4.0, 1.0, 2.0, 0.5]) / 7.5
    assert stats.chisquare(counts[[0, 1, 3, 4]], expected).pvalue > 1e-3


def test_one_value_is_drawn_from_copies():
    X = np.full((7, 2), 3.0)
    assert in_memory(X, None, 2, 0).tolist() == [[3.0, 3.0]] * 2


@pytest.mark.parametrize("k", [2, 6])
def test_values_that_share_a_hash_stay_values(k, monkeypatch):
    """With hashes of four bits many values come together, on every way to divide them."""
    rng = np.random.default_rng(5)
    X = with_zeros(rng, 80, 3)

    def coarse(points):
        return row_hashes(points) & np.uint64(0xF << 60)

    monkeypatch.setattr("wolfmeans.engines.reference.row_hashes", coarse)
    monkeypatch.setattr(sampling, "row_hashes", coarse)
    parts = [Part(opened(X))], [Part(opened(X[a:b])) for a, b in ((50, 80), (0, 2), (2, 50))]
    one, other = (sample_candidates(Together(some), k, 1) for some in parts)
    assert one.points.tolist() == other.points.tolist()
    assert one.weights.tolist() == other.weights.tolist()
    assert len(merged_points([one.points])) == len(one.points)
    rows = METHODS["k-means||"](opened(X), k, np.random.RandomState(1))
    first = [np.flatnonzero((X[row] == X).all(axis=1))[0] for row in rows]
    assert rows.tolist() == first
    assert len({tuple(point) for point in (X[rows] + 0.0).tolist()}) == k


def test_seeds_are_good():
    """The cost at the seeds is about that of greedy k-means++."""
    rng = np.random.default_rng(6)
    X = (rng.uniform(-10, 10, size=(20, 2))[:, None] + rng.normal(size=(20, 25, 2))).reshape(-1, 2)

    def cost(method, seed):
        workspace = opened(X)
        seeds = choose_seeds(workspace, 20, method, np.random.RandomState(seed))
        return math.fsum(workspace.nearest(seeds)[1].tolist())

    parallel = np.mean([cost("k-means||", seed) for seed in range(20)])
    greedy = np.mean([cost("k-means++", seed) for seed in range(20)])
    assert parallel < 1.15 * greedy


def at_an_odd_address(array):
    """Return a copy like those that Dask makes of parts of a message."""
    memory = np.empty(array.nbytes + 1, dtype=np.uint8)[1:].view(array.dtype)
    memory[:] = array
    assert not memory.flags.aligned
    return memory


@pytest.mark.skipif(not native_is_available(), reason="the native module is not built")
def test_arrays_may_lie_at_odd_addresses():
    rng = np.random.default_rng(0)
    hashes = rng.integers(2**63, size=100).astype(np.uint64)
    limits, masses = np.full(16, 0.5), rng.random(100)
    odd_hashes, odd_masses = at_an_odd_address(hashes), at_an_odd_address(masses)
    expected = rows_below(hashes, 7, limits, 1)
    assert np.array_equal(rows_below(odd_hashes, 7, at_an_odd_address(limits), 1), expected)
    sums = bucket_masses(hashes, masses, masses, 40, 4, 1)
    assert np.array_equal(bucket_masses(odd_hashes, odd_masses, odd_masses, 40, 4, 1), sums)
