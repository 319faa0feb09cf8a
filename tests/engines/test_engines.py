"""Canonical distances against a literal loop, and every engine against the reference by ==."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from scipy import sparse

from instances import ENGINES, instances
from wolfmeans.engines import Forced, effective_threads, get_engine
from wolfmeans.exact.native import value_range
from wolfmeans.exact.ordering import lexicographic_order

SHAPES = [(1, 1, 1), (7, 1, 3), (40, 2, 5), (65, 3, 17), (130, 8, 33), (33, 19, 9), (50, 100, 2)]


def literal_distance(x, c):
    """The canonical distance as the contract words it, one Python float operation at a time."""
    acc = 0.0
    for a, b in zip(x.tolist(), c.tolist(), strict=True):
        acc = acc + (a - b) * (a - b)
    return acc


def literal_sparse_distance(columns, values, c):
    """The stored entries as above, and what they leave of ||c||^2, in double length."""
    acc, covered, norm = 0.0, (0.0, 0.0), (0.0, 0.0)
    for b in c.tolist():
        norm = add_square(norm, b)
    for j, a in zip(columns.tolist(), values.tolist(), strict=True):
        b = float(c[j])
        acc = acc + (a - b) * (a - b)
        covered = add_square(covered, b)
    return acc + max((norm[0] - covered[0]) + (norm[1] - covered[1]), 0.0)


def add_square(total, b):
    """Add b^2 to high + low; rational arithmetic says what each rounding lost."""
    high, low = total
    square = b * b
    remainder = float(Fraction(b) ** 2 - Fraction(square))
    new = high + square
    lost = float(Fraction(high) + Fraction(square) - Fraction(new))
    return new, (low + lost) + remainder


def data(n, d, k, dtype, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * 10.0 ** rng.integers(-3, 4, size=d)).astype(dtype)
    return X, np.ascontiguousarray(X[rng.integers(0, n, size=k)] + dtype(0.25))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_labels_and_distances_are_canonical(engine, dtype, shape):
    X, centers = data(*shape, dtype)
    workspace = get_engine(engine).open(X, None, 2)
    table = np.array([[literal_distance(x, c) for c in centers] for x in X])
    labels, distances = workspace.nearest(centers)
    assert (labels == table.argmin(axis=1)).all()
    assert (distances == table.min(axis=1)).all()
    first = np.sort(table, axis=1)[:, 0]
    other = np.sort(table, axis=1)[:, 1] if shape[2] > 1 else np.full(len(X), np.inf)
    workspace.assign(centers)
    for slack in (0.0, 0.1, 1e9):
        rows, nearest, second = workspace.near_ties(centers, slack)
        assert (nearest == first[rows]).all()
        assert (second == other[rows]).all()
        near = np.sqrt(other) - np.sqrt(first) <= 2 * slack * (1 + slack / np.sqrt(other))
        assert set(np.flatnonzero(near)) <= set(rows.tolist())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_distances_are_canonical(dtype):
    rng = np.random.default_rng(1)
    X = sparse.random_array((30, 12), density=0.3, rng=rng, format="csr", dtype=dtype)
    centers = rng.normal(size=(4, 12)).astype(dtype)
    table = np.array(
        [
            [
                literal_sparse_distance(
                    X.indices[X.indptr[i] : X.indptr[i + 1]],
                    X.data[X.indptr[i] : X.indptr[i + 1]],
                    c,
                )
                for c in centers
            ]
            for i in range(30)
        ]
    )
    labels, distances = get_engine("reference").open(X, None, 1).nearest(centers)
    assert (labels == table.argmin(axis=1)).all()
    assert (distances == table.min(axis=1)).all()


@given(instances())
def test_fully_stored_sparse_rows_give_the_dense_bits(instance):
    n, d = instance.X.shape
    indices, indptr = np.tile(np.arange(d), n), np.arange(0, n * d + 1, d)
    X = sparse.csr_array((instance.X.ravel().copy(), indices, indptr), shape=(n, d))
    stored = get_engine("reference").open(X, instance.weights, 1)
    dense = instance.open()
    for a, b in zip(stored.nearest(instance.seeds), dense.nearest(instance.seeds), strict=True):
        assert (a == b).all()
    for a, b in zip(
        vars(stored.assign(instance.seeds)).values(),
        vars(dense.assign(instance.seeds)).values(),
        strict=True,
    ):
        assert np.all(a == b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 7, 8, 9, 16, 19, 100])
def test_distances_to_the_own_center_are_canonical(d, dtype):
    """All widths that the kernel of pairs treats by itself, and counts that fill no group."""
    native = pytest.importorskip("wolfmeans.exact._native")
    rng = np.random.default_rng(d)
    for n in (1, 3, 8, 21, 600):
        X, centers = data(n, d, 6, dtype)
        labels = rng.integers(0, 6, size=n).astype(np.int32)
        weights = rng.uniform(size=n)
        found = np.empty(n)
        native.distances(X, centers, labels, found, 2)
        expected = np.array(
            [literal_distance(x, centers[k]) for x, k in zip(X, labels, strict=True)]
        )
        assert (found == expected).all()
        assert native.cost(X, None, centers, labels, 2) == math.fsum(expected)
        assert native.cost(X, weights, centers, labels, 3) == math.fsum(weights * expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [*SHAPES, (3000, 12, 40)])
def test_roots_are_those_of_canonical_distances(shape, dtype):
    native = pytest.importorskip("wolfmeans.exact._native")
    X, centers = data(*shape, dtype)
    reference = get_engine("reference").open(X, None, 1)
    expected = np.stack([np.sqrt(reference.distances_to(c)) for c in centers], axis=1).astype(dtype)
    for threads in (1, 3):
        found = np.empty((len(X), len(centers)), dtype)
        native.roots(X, centers, found, threads)
        assert (found == expected).all()
    with pytest.raises(ValueError, match="out must have"):
        native.roots(X, centers, np.empty((len(X), len(centers) + 1), dtype), 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["ties", "far away", "duplicates", "tiny", "huge", "outlier"])
def test_nearest_centers_through_the_screen(kind, dtype):
    """Enough centers for the screen, on data that it cannot decide alone."""
    rng = np.random.default_rng(4)
    n, d, k = 700, 6, 40
    X = rng.normal(size=(n, d))
    if kind in ("ties", "duplicates"):
        X = rng.integers(0, 3, size=(n, d)).astype(float)
    X = {
        "far away": X + 1e8,
        "tiny": X * 1e-30,
        "huge": X * 1e30,
        "outlier": np.where(np.arange(n)[:, None] == 5, 1e12, X),
    }.get(kind, X)
    X = X.astype(dtype)
    centers = X[rng.integers(0, n, size=k)].copy()
    if kind == "ties":
        centers += dtype(0.5)
    for threads in (1, 3):
        results = [get_engine(e).open(X, None, threads).nearest(centers) for e in ENGINES]
        for labels, distances in results[1:]:
            assert (labels == results[0][0]).all()
            assert (distances == results[0][1]).all()


@given(instances())
def test_ties_go_to_the_lowest_index(instance):
    doubled = np.concatenate([instance.seeds, instance.seeds])
    for engine in ENGINES:
        labels, _ = instance.open(engine).nearest(doubled)
        assert (labels < instance.n_clusters).all()


@given(instances())
def test_engines_agree_bit_for_bit_over_several_assignments(instance):
    workspaces = [instance.open(engine) for engine in ENGINES]
    centers = instance.seeds
    for _ in range(4):
        results = [workspace.assign(centers) for workspace in workspaces]
        for other in results[1:]:
            for name, value in vars(results[0]).items():
                assert np.array_equal(value, getattr(other, name)), name
        assert len({w.labels().tobytes() for w in workspaces}) == 1
        assert len({w.cost(centers) for w in workspaces}) == 1
        assert len({w.mean(weighted=True).tobytes() for w in workspaces}) == 1
        centers = results[0].means


@pytest.mark.parametrize("engine", ENGINES)
@given(instance=instances())
def test_the_gap_is_the_cost_of_the_old_labels_minus_the_cost_of_the_new(engine, instance):
    workspace = instance.open(engine)
    first = workspace.assign(instance.seeds)
    before = workspace.cost(first.means)
    gap = workspace.assign(first.means).gap
    after = workspace.cost(first.means)
    assert gap >= 0
    assert gap == pytest.approx(before - after, rel=1e-9, abs=1e-12 * before)


def test_forced_rows_take_their_label_and_count_in_the_gap():
    X = np.array([[0.0], [1.0], [10.0]])
    workspace = get_engine("reference").open(X, None, 1)
    centers = np.array([[0.0], [10.0]])
    workspace.assign(centers)
    forced = Forced(np.array([1]), np.array([1], dtype=np.int32))
    found = workspace.assign(centers, forced)
    assert workspace.labels().tolist() == [0, 1, 1]
    assert found.gap == 1.0 - 81.0
    assert found.means.ravel().tolist() == [0.0, 5.5]


def test_a_fork_shares_the_points_but_not_the_labels():
    X, centers = data(20, 2, 3, np.float64)
    workspace = get_engine("reference").open(X, None, 1)
    workspace.assign(centers)
    fork = workspace.fork(1)
    with pytest.raises(RuntimeError, match="no labels"):
        fork.labels()
    assert (fork.nearest(centers)[0] == workspace.labels()).all()


@given(instances())
def test_the_order_of_values_does_not_depend_on_the_order_of_rows(instance):
    X = instance.X
    order = lexicographic_order(X)
    assert sorted(order.tolist()) == list(range(len(X)))
    assert X[order].tolist() == sorted(X.tolist())
    assert (order == lexicographic_order(sparse.csr_array(X))).all()


@pytest.mark.parametrize("engine", ENGINES)
def test_threads_do_not_change_a_bit(engine):
    X, centers = data(4000, 5, 60, np.float32)
    results = [get_engine(engine).open(X, None, threads).assign(centers) for threads in (1, 2, 5)]
    for other in results[1:]:
        for name, value in vars(results[0]).items():
            assert np.array_equal(value, getattr(other, name)), name


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_value_range_sees_every_entry(native, dtype, monkeypatch):
    if not native:
        monkeypatch.setattr("wolfmeans.engines.native._native", None)
    tiny = float(np.finfo(dtype).smallest_subnormal)
    rng = np.random.default_rng(0)
    for size in (1, 5, 16, 33, 1000):
        for place in (0, size // 2, size - 1):
            values = rng.uniform(1, 2, size=size).astype(dtype)
            values[place] = -tiny
            assert value_range(values)[:2] == (True, tiny)
            values[place] = -1e30
            assert value_range(values)[2] == float(dtype(1e30))
            for bad in (np.nan, np.inf, -np.inf):
                values[place] = bad
                assert value_range(values)[0] is False
    assert value_range(np.zeros(7, dtype)) == (True, 0.0, 0.0)
    assert value_range(np.empty((0, 3), dtype)) == (True, 0.0, 0.0)


def test_unknown_engine_is_named():
    with pytest.raises(ValueError, match=r"engine must be one of .*'warp'"):
        get_engine("warp")


def test_threads_default_to_the_cores_of_this_process():
    assert effective_threads(3) == 3
    assert effective_threads(None) >= 1
