"""Sparse rows in native code against the reference engine, bit for bit."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from wolfmeans import KMeans
from wolfmeans.engines import Forced, get_engine
from wolfmeans.engines.reference import ReferencePoints

native = pytest.importorskip("wolfmeans.exact._native")

VECTOR_UNITS = ("baseline", "avx2", "avx512")


@pytest.fixture(params=VECTOR_UNITS)
def vector_unit(request, monkeypatch):
    monkeypatch.setenv("WOLFMEANS_VECTOR_UNIT", request.param)


@dataclass(frozen=True)
class SparseInstance:
    X: sparse.csr_array
    weights: np.ndarray | None
    seeds: np.ndarray

    def open(self, engine="cpu", threads=1, algorithm="auto"):
        return get_engine(engine).open(self.X, self.weights, threads, algorithm)


@st.composite
def sparse_instances(draw, max_points=40, max_features=25, max_clusters=20):
    """Draw rows with ties, empty rows and columns, stored zeros, offsets and wide ranges."""
    n = draw(st.integers(1, max_points))
    d = draw(st.integers(1, max_features))
    k = draw(st.integers(1, max_clusters))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dense = rng.normal(size=(n, d)) * (rng.random((n, d)) < draw(st.sampled_from([0, 0.1, 0.5, 1])))
    kind = draw(st.sampled_from(["general", "lattice", "wide", "tiny", "huge", "alike"]))
    if kind == "lattice":
        dense = np.rint(dense)
    elif kind == "wide":
        dense *= 10.0 ** rng.integers(-15, 15, size=(n, d))
    elif kind in ("tiny", "huge"):
        dense *= {"tiny": 1e-30, "huge": 1e15}[kind]
    elif kind == "alike":
        dense = dense[rng.integers(0, min(n, 3), size=n)] * (1 + 1e-7 * rng.normal(size=(n, 1)))
    if draw(st.booleans()):
        dense[:, 0] = draw(st.sampled_from([1e8, -3e5, 1.0])) + rng.integers(0, 3, size=n)
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    X = sparse.csr_array(dense.astype(dtype))
    if X.nnz and draw(st.booleans()):
        X.data[rng.integers(0, X.nnz)] = 0.0
    if draw(st.booleans()):
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    seeds = X[rng.integers(0, n, size=k)].toarray()
    if draw(st.booleans()):
        seeds[rng.integers(0, k)] += dtype(1000.0)
    weights = None
    if draw(st.booleans()):
        weights = rng.choice(
            draw(st.sampled_from([[0.0, 1.0, 2.0], [0.1, 1e-8, 1e8, 0.0, 0.7]])), size=n
        )
        weights[rng.integers(0, n)] = 1.0
    return SparseInstance(X, weights, seeds)


def assert_same(expected, found):
    for name, value in vars(expected).items():
        assert np.array_equal(value, getattr(found, name)), name


@given(instance=sparse_instances())
@settings(max_examples=150)
def test_whole_runs_equal_the_reference(instance):
    reference = instance.open("reference")
    others = [instance.open(threads=t) for t in (1, 2, 3)] + [instance.open(algorithm="dense")]
    centers = instance.seeds
    for _ in range(5):
        expected = reference.assign(centers)
        for other in others:
            assert other.engine == "cpu"
            found = other.assign(centers)
            assert_same(expected, found)
            assert (other.labels() == reference.labels()).all()
            assert other.step(found, centers) == reference.step(expected, centers)
        assert others[0].cost(centers) == reference.cost(centers)
        centers = expected.means


@pytest.mark.usefixtures("vector_unit")
@given(instance=sparse_instances(max_clusters=40))
@settings(max_examples=40)
def test_every_vector_unit_equals_the_reference(instance):
    reference, other = instance.open("reference"), instance.open(threads=2)
    centers = instance.seeds
    for _ in range(3):
        expected = reference.assign(centers)
        assert_same(expected, other.assign(centers))
        assert (other.labels() == reference.labels()).all()
        centers = expected.means


@given(instance=sparse_instances())
def test_queries_equal_the_reference(instance):
    reference, other = instance.open("reference"), instance.open(threads=2)
    mean = reference.mean(weighted=True)
    assert np.array_equal(mean, other.mean(weighted=True))
    assert np.array_equal(reference.mean(weighted=False), other.mean(weighted=False))
    for centers in (instance.seeds, instance.seeds[:1], np.stack([mean, mean])):
        for a, b in zip(reference.nearest(centers), other.nearest(centers), strict=True):
            assert np.array_equal(a, b)
        for a, b in zip(
            reference.near_ties(centers, 0.0), other.near_ties(centers, 0.0), strict=True
        ):
            assert np.array_equal(a, b)
    for center in (mean, instance.seeds[0], np.zeros_like(mean)):
        assert np.array_equal(reference.distances_to(center), other.distances_to(center))


@given(instance=sparse_instances(), seed=st.integers(0, 1000))
def test_forced_rows_equal_the_reference(instance, seed):
    rng = np.random.default_rng(seed)
    n, k = instance.X.shape[0], len(instance.seeds)
    rows = rng.choice(n, size=min(n, 3), replace=False).astype(np.int64)
    forced = Forced(rows, rng.integers(0, k, size=len(rows)).astype(np.int32))
    reference, other = instance.open("reference"), instance.open(threads=2)
    centers = instance.seeds
    for some in (None, forced, None, None):
        expected = reference.assign(centers, some)
        assert_same(expected, other.assign(centers, some))
        assert (other.labels() == reference.labels()).all()
        centers = expected.means


@pytest.mark.usefixtures("vector_unit")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_wide_data_with_many_clusters_equals_the_reference(dtype, weighted):
    rng = np.random.default_rng(0)
    X = sparse.random_array((400, 700), density=0.02, rng=rng, format="csr").astype(dtype)
    weights = rng.uniform(0, 3, size=400) if weighted else None
    instance = SparseInstance(X, weights, X[:150].toarray())
    reference, other = instance.open("reference"), instance.open(threads=3)
    centers = instance.seeds
    for _ in range(3):
        expected = reference.assign(centers)
        assert_same(expected, other.assign(centers))
        centers = expected.means


@pytest.mark.usefixtures("vector_unit")
@given(
    sums=st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=20),
    count=st.integers(1, 40),
    lowest=st.integers(-60, 30),
)
@example(sums=[2**53 + 1, 2**54 - 1, 3, -5], count=2, lowest=0)
@example(sums=[1, -1, 2**53 - 1], count=3, lowest=-50)
def test_means_are_rounded_once(sums, count, lowest):
    """One row holds the sums, the others nothing, so the quotients are known."""
    values = np.ldexp(np.array(sums, dtype=np.float64), lowest)
    dense = np.zeros((count, len(sums)))
    dense[0] = values
    X = sparse.csr_array(dense)
    seeds = np.zeros((1, len(sums)))
    results = [get_engine(name).open(X, None, 1).assign(seeds) for name in ("reference", "cpu")]
    assert_same(*results)
    assert np.array_equal(results[1].means[0], values / count)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_fits_equal_the_reference(dtype, weighted):
    rng = np.random.default_rng(3)
    X = sparse.random_array((300, 40), density=0.1, rng=rng, format="csr").astype(dtype)
    weights = rng.choice([0.0, 0.5, 2.0], size=300) if weighted else None
    for init in ("k-means++", "k-means||", "random"):
        models = [
            KMeans(9, init=init, random_state=1, n_init=2, engine=engine, stop="stationary").fit(
                X, sample_weight=weights
            )
            for engine in ("reference", "cpu")
        ]
        expected, found = models
        assert found.engine_ == "cpu"
        assert np.array_equal(expected.labels_, found.labels_)
        assert np.array_equal(expected.cluster_centers_, found.cluster_centers_)
        assert expected.inertia_ == found.inertia_
        assert expected.n_iter_ == found.n_iter_
        assert list(expected.trace_.gap) == list(found.trace_.gap)
        assert list(expected.trace_.movement) == list(found.trace_.movement)
        assert np.array_equal(expected.predict(X), found.predict(X))
        assert expected.score(X) == found.score(X)


def test_bounds_skip_rows_and_the_screen_decides_nearly_all_others():
    rng = np.random.default_rng(0)
    topic = rng.integers(0, 5, size=2000)
    columns = (topic[:, None] * 20 + rng.integers(0, 20, size=(2000, 6))).ravel()
    values = rng.uniform(1, 2, size=12000)
    X = sparse.csr_array((values, columns, np.arange(0, 12001, 6)), shape=(2000, 100))
    X.sum_duplicates()
    rows = native.SparseRowsF64(
        X.data, X.indices.astype(np.int32), X.indptr.astype(np.int64), 100, 1
    )
    points = native.SparsePointsF64(rows, None, 1)
    centers = np.ascontiguousarray(X[[int(np.argmax(topic == t)) for t in range(5)]].toarray())
    for _ in range(6):
        moved, _, _, centers, _, screened, rechecked = points.assign(centers, True)
        assert rechecked < 20
    assert moved == 0
    assert screened == 0


def test_rows_with_a_column_twice_take_the_reference_kernels():
    X = sparse.csr_array((np.array([1.0, 2.0]), np.array([0, 0]), np.array([0, 2])), shape=(1, 2))
    assert type(get_engine("cpu").open(X, None, 1)) is ReferencePoints


def test_a_digest_tells_centers_apart():
    rng = np.random.default_rng(0)
    for size in (1, 3, 4, 5, 31, 64):
        centers = rng.normal(size=(1, size))
        seen = {native.digest(centers)}
        for j in range(size):
            other = centers.copy()
            other[0, j] = np.nextafter(other[0, j], 9.0)
            seen.add(native.digest(other))
        assert len(seen) == size + 1
        assert native.digest(centers.copy()) in seen
    assert native.digest(np.zeros((1, 2))) != native.digest(np.zeros((1, 3)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.update(columns=np.array([0, 3], dtype=np.int32)), r"columns\[1\] is 3"),
        (lambda a: a.update(columns=np.array([0, -1], dtype=np.int32)), r"columns\[1\] is -1"),
        (lambda a: a.update(columns=np.array([0], dtype=np.int32)), "columns must have shape"),
        (lambda a: a.update(starts=np.array([0, 2, 1, 2], dtype=np.int64)), "ascend"),
        (lambda a: a.update(starts=np.array([0, 1], dtype=np.int64)), "end with the number"),
        (lambda a: a.update(n_threads=0), "n_threads"),
    ],
)
def test_a_broken_matrix_is_refused(change, message):
    given_arrays = {
        "values": np.ones(2),
        "columns": np.array([0, 2], dtype=np.int32),
        "starts": np.array([0, 1, 2], dtype=np.int64),
        "n_columns": 3,
        "n_threads": 1,
    }
    change(given_arrays)
    with pytest.raises(ValueError, match=message):
        native.SparseRowsF64(**given_arrays)
