"""The multilevel start: the same bits wherever the rows are, and nothing far is missed."""

import numpy as np
import pytest
from scipy import sparse

from wolfmeans import KMeans, SphericalKMeans
from wolfmeans.engines import get_engine
from wolfmeans.engines.places.memory import MemoryPart, MemoryPlace
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.fitting import multilevel
from wolfmeans.fitting.multilevel import multilevel_seeds
from wolfmeans.seeding import methods
from wolfmeans.seeding.methods import worth_sampling

K = 6


@pytest.fixture
def small_samples(monkeypatch):
    """Samples of few rows, so that few rows have several levels."""
    monkeypatch.setattr(methods, "FEWEST_ROWS", 1000)
    monkeypatch.setattr(methods, "_FEWEST_SAMPLED", 60)
    monkeypatch.setattr(methods, "_SAMPLED_PER_CLUSTER", 10)
    monkeypatch.setattr(methods, "_FEWEST_PER_CLUSTER", 40)
    monkeypatch.setattr(multilevel, "_ENOUGH_PER_CLUSTER", 10)


def points(n=2400, d=3, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    centers = 4 * rng.normal(size=(K, d))
    return (centers[rng.integers(K, size=n)] + rng.normal(size=(n, d))).astype(dtype)


def seeds(X, weights=None, engine="auto", n_threads=1, workspace=None, state=0, n_clusters=K):
    if workspace is None:
        workspace = get_engine(engine).open(X, weights, n_threads)
    rng = np.random.RandomState(state)
    return multilevel_seeds(workspace, n_clusters, lambda: rng, n_threads)


def test_there_are_several_levels(small_samples):
    assert multilevel._sizes(2400, 3, K) == [60, 240]
    assert seeds(points()).shape == (K, 3)


def is_thin(X):
    """Whether the smallest sample is: then centers are merged after steps on all rows."""
    return multilevel._sizes(len(X), X.shape[1], K)[0] < multilevel._THIN * X.shape[1] * K


@pytest.mark.parametrize("columns", [3, 8])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_engines_and_threads_give_the_same_bits(small_samples, dtype, weighted, columns):
    X = points(d=columns, dtype=dtype)
    assert is_thin(X) == (columns == 8)
    weights = np.random.default_rng(1).uniform(0, 2, size=len(X)) if weighted else None
    expected = seeds(X, weights, "reference")
    for n_threads in (1, 3):
        assert np.array_equal(seeds(X, weights, "auto", n_threads), expected)


@pytest.mark.parametrize("columns", [3, 8])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_order_of_the_rows_does_not_matter(small_samples, weighted, columns):
    X = points(d=columns)
    weights = np.random.default_rng(1).integers(0, 4, size=len(X)) * 0.5 if weighted else None
    order = np.random.default_rng(2).permutation(len(X))
    shuffled = seeds(X[order], None if weights is None else weights[order])
    assert np.array_equal(shuffled, seeds(X, weights))


@pytest.mark.parametrize("columns", [3, 8])
def test_parts_give_the_same_bits(small_samples, columns):
    X = points(d=columns)
    weights = np.random.default_rng(1).uniform(size=len(X))
    for given in (None, weights):
        parts = [
            MemoryPart(X[rows], None if given is None else given[rows])
            for rows in (slice(1500, None), slice(0, 700), slice(700, 1500))
        ]
        found = seeds(X, workspace=PartsWorkspace(MemoryPlace(parts)))
        assert np.array_equal(found, seeds(X, given))


def test_sparse_rows_give_the_bits_of_dense_ones(small_samples):
    X = points(d=8)
    X[np.abs(X) < 1] = 0
    found = seeds(sparse.csr_array(X), engine="cpu")
    assert np.array_equal(found, seeds(sparse.csr_array(X), engine="reference"))
    dense, stored = (KMeans(K, random_state=0).fit(each) for each in (X, sparse.csr_array(X)))
    assert stored.inertia_ == pytest.approx(dense.inertia_, rel=1e-6)


@pytest.mark.parametrize("columns", [3, 8])
def test_weights_act_as_copies(small_samples, columns):
    X = points(1200, columns)
    times = np.random.default_rng(3).integers(1, 4, size=len(X))
    assert np.array_equal(seeds(X, times.astype(float)), seeds(np.repeat(X, times, axis=0)))


def test_few_rows_per_cluster_give_the_same_bits_everywhere(small_samples):
    """There are no samples then: all rows are asked."""
    X, many = points(1200), 40
    assert not worth_sampling(len(X), many)
    times = np.random.default_rng(3).integers(1, 4, size=len(X)).astype(float)
    for weights in (None, times):
        expected = seeds(X, weights, "reference", n_clusters=many)
        assert expected.shape == (many, 3)
        assert np.array_equal(seeds(X, weights, "auto", 3, n_clusters=many), expected)
        order = np.random.default_rng(2).permutation(len(X))
        shuffled = None if weights is None else weights[order]
        assert np.array_equal(seeds(X[order], shuffled, n_clusters=many), expected)
    parts = PartsWorkspace(MemoryPlace([MemoryPart(X[:700]), MemoryPart(X[700:])]))
    assert seeds(X, workspace=parts, n_clusters=many) is None


@pytest.mark.parametrize("n_clusters", [20, 40])
def test_merged_seeds_lead_below_those_of_greedy_k_means_pp(small_samples, n_clusters):
    rng = np.random.default_rng(0)
    centers = 3 * rng.normal(size=(n_clusters, 4))
    X = centers[rng.integers(n_clusters, size=1500)] + 0.3 * rng.normal(size=(1500, 4))

    def mean_inertia(init):
        fits = [KMeans(n_clusters, init=init, random_state=s, bound=None) for s in range(20)]
        return np.mean([km.fit(X).inertia_ for km in fits])

    assert mean_inertia("multilevel") < mean_inertia("k-means++")


def test_rows_without_weight_do_not_count(small_samples):
    X = points()
    far = np.full((50, 3), 1e4, np.float32)
    far[:, 0] += np.arange(50)
    weights = np.append(np.ones(len(X)), np.zeros(50))
    found = seeds(np.concatenate([X, far]), weights)
    assert np.abs(found).max() < 100


def test_small_far_clusters_are_found():
    """As many as greedy k-means++ on all rows finds, over some seeds."""
    rng = np.random.default_rng(0)
    centers = 12 * rng.normal(size=(40, 8))
    sizes = [1000] * 30 + [20] * 10
    X = np.concatenate([c + rng.normal(size=(n, 8)) for c, n in zip(centers, sizes, strict=True)])
    small = centers[30:]

    def found(init):
        many = 0
        for state in range(5):
            km = KMeans(40, init=init, random_state=state, bound=None).fit(X)
            nearest = ((small[:, None] - km.cluster_centers_) ** 2).sum(axis=2).min(axis=1)
            many += int((nearest < 4.0).sum())
        return many

    assert worth_sampling(len(X), 40)
    assert found("multilevel") >= found("k-means++")


def test_far_clusters_do_not_hide_others(monkeypatch):
    """The farthest of those that the sample misses have nearly all the mass of a first draw."""
    rng = np.random.default_rng(0)
    near = 5 * rng.normal(size=(20, 4))[rng.integers(20, size=40_000)] + rng.normal(
        size=(40_000, 4)
    )
    far = 500 * rng.normal(size=(10, 4)) * np.logspace(-1, 2, 10)[:, None]
    clusters = np.repeat(far, 20, axis=0) + rng.normal(size=(200, 4))
    X = np.concatenate([near, clusters])

    def missed():
        found = [seeds(X, state=state, n_clusters=30) for state in range(8)]
        return sum(
            int((((far[:, None] - each) ** 2).sum(axis=2).min(axis=1) > 100).sum())
            for each in found
        )

    assert missed() == 0
    monkeypatch.setattr(multilevel, "_MOST_FAR_ROUNDS", 1)
    assert missed() > 0


def test_rounds_for_hidden_clusters_give_the_same_bits_everywhere(small_samples, monkeypatch):
    X = points()
    X[:24] += (1000.0 * 4.0 ** np.arange(6)).repeat(4)[:, None].astype(np.float32)
    rounds, draw = [], multilevel._far_values
    monkeypatch.setattr(
        multilevel, "_far_values", lambda *given: rounds.append(draw(*given)) or rounds[-1]
    )
    expected = seeds(X, engine="reference")
    assert len(rounds[0]) > 1
    order = np.random.default_rng(2).permutation(len(X))
    parts = PartsWorkspace(MemoryPlace([MemoryPart(X[:700]), MemoryPart(X[700:])]))
    assert np.array_equal(seeds(X[order], n_threads=2), expected)
    assert np.array_equal(seeds(X, workspace=parts), expected)


def test_one_heavy_value_is_not_missed(small_samples):
    """Its copies are in a sample or not, all of them."""
    X = np.concatenate([points(), np.full((2400, 3), 30.0, np.float32)])
    for state in range(5):
        found = seeds(X, state=state)
        assert ((found - 30.0) ** 2).sum(axis=1).min() < 1.0


def test_few_values_and_few_rows_are_left_to_other_seeds(small_samples):
    few = np.random.default_rng(0).integers(0, 3, size=(5000, 2)).astype(float)
    assert seeds(few) is None
    assert seeds(points(900)) is None
    assert not worth_sampling(1200, 200)
    KMeans(K, random_state=0).fit(few)


def test_few_rows_have_the_seeds_of_greedy_k_means_pp():
    X = points(500)
    default, named = (KMeans(K, random_state=0, **kind).fit(X) for kind in ({}, GREEDY))
    assert np.array_equal(default.initial_centers_, named.initial_centers_)


GREEDY = {"init": "k-means++"}


def test_weights_of_the_union_are_unbiased(small_samples):
    """The weight of the union is, on average over draws, that of all rows."""
    X, totals, unions = points(), [], []

    def note(levels, sample, opened=multilevel._Levels.opened):
        totals.append(float(sample.weights.sum()))
        return opened(levels, sample)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multilevel._Levels, "opened", note)
        for state in range(60):
            totals.clear()
            seeds(X, state=state)
            # Opened are the smallest sample, all values, and the first of the unions.
            unions.append(totals[2])
    assert abs(np.mean(unions) - len(X)) < 4 * np.std(unions) / np.sqrt(60)


def test_seeds_of_spherical_k_means_have_norm_one(small_samples):
    km = SphericalKMeans(K, random_state=0).fit(points())
    assert np.linalg.norm(km.initial_centers_, axis=1) == pytest.approx(np.ones(K), abs=1e-6)
    assert km.certificate_.status.converged
