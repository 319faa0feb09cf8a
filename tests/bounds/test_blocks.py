"""Bounds with multipliers on blocks: never above the optimum, and no tampering passes."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris, make_blobs
from test_semidefinite import optimum

import wolfmeans.bounds.methods as methods
from tiny_optimum import optimum as exact_optimum
from wolfmeans import KMeans, lower_bound
from wolfmeans.bounds.block_proof import check_blocks, compressed
from wolfmeans.bounds.bound import Settings
from wolfmeans.bounds.semidefinite import semidefinite_in_blocks, suits_blocks
from wolfmeans.bounds.semidefinite.blocks import (
    blocks_of,
    number_of_blocks,
    proofs,
    proven_in_blocks,
    relaxation_of,
)
from wolfmeans.bounds.semidefinite.relaxation import Relaxation
from wolfmeans.bounds.semidefinite.search import proven

IRIS = load_iris().data


def random_blocks(rng, n, n_blocks):
    """Return a block for each point; all have at least one."""
    return rng.permutation(np.arange(n) % n_blocks).astype(np.int32)


def problem(seed):
    """Return a small problem with blocks: offsets, scales, equal points, weights far apart."""
    rng = np.random.default_rng(seed)
    d, n_clusters = int(rng.integers(1, 5)), int(rng.integers(2, 4))
    X = rng.normal(size=(8, d)) + 4.0 * rng.integers(0, 2, size=(8, 1))
    if seed % 4 == 1:
        X = np.rint(X)
    X = X * 10.0 ** rng.integers(-5, 6) + (seed % 3 == 0) * 10.0 ** rng.integers(-3, 4)
    weights = None if seed % 2 else rng.choice([0.1, 1.0, 2.0, 30.0], size=8)
    return X, weights, n_clusters, random_blocks(rng, 8, int(rng.integers(n_clusters + 1, 9)))


def test_a_proven_value_is_never_above_the_optimum():
    positive = 0
    for seed in range(200):
        X, weights, n_clusters, blocks = problem(seed)
        given_weights = np.ones(8) if weights is None else weights
        best, labels = optimum(X, given_weights, n_clusters)
        whole = compressed(X, weights, blocks)
        start = np.array([labels[blocks == a][0] for a in range(len(whole.roots))])
        relaxation = relaxation_of(whole, n_clusters, start)
        for _ in range(30):
            relaxation.step()
        value = proven_in_blocks(relaxation, whole)
        rounding = 1e-12 * float(given_weights @ (X**2).sum(axis=1))
        assert value <= best + rounding
        positive += value > 0.01 * best
    assert positive > 50


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(2, 3), st.integers(1, 3), st.integers(3, 9), st.integers(1, 9))
def test_small_integers_are_never_above_the_exact_optimum(data, k, d, n, n_blocks):
    rows = st.lists(st.integers(-4, 4), min_size=d, max_size=d)
    points = data.draw(st.lists(rows, min_size=n, max_size=n))
    weights = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    heavy = [(p, v) for p, v in zip(points, weights, strict=True) if v]
    if not heavy:
        return
    X, w = np.array(points, dtype=float), np.array(weights, dtype=float)
    bound, _ = semidefinite_in_blocks(
        X,
        k,
        w,
        labels=(np.arange(n) % k).astype(np.int32),
        centers=X[:k],
        settings=Settings(steps=40),
        n_blocks=n_blocks,
    )
    best = exact_optimum([p for p, _ in heavy], [v for _, v in heavy], k)
    assert Fraction(bound.value) <= best
    assert bound.confidence == 1.0


@pytest.mark.parametrize("weighted", [False, True])
def test_blocks_of_one_point_have_the_bound_of_the_points(weighted):
    """Both without cuts."""
    X = IRIS[::2]
    weights = np.random.default_rng(0).uniform(0.2, 5.0, len(X)) if weighted else None
    labels = KMeans(3, n_init=5, random_state=0, bound=None).fit(X).labels_.astype(np.int32)
    plain = Relaxation(X, 3, weights, labels)
    whole = compressed(X, weights, np.arange(len(X), dtype=np.int32))
    with_ghosts = relaxation_of(whole, 3, labels)
    for _ in range(300):
        plain.step()
        with_ghosts.step()
    value, _ = proven(plain, X, weights)
    assert proven_in_blocks(with_ghosts, whole) == pytest.approx(value, rel=1e-6)


@pytest.fixture(scope="module")
def proof():
    """Return points, blocks, a proof and its value."""
    X, _ = make_blobs(400, 3, centers=2, cluster_std=1.5, random_state=1)
    model = KMeans(2, n_init=5, random_state=0, bound=None).fit(X)
    blocks = blocks_of(X, model.cluster_centers_, 40)
    whole = compressed(X, None, blocks)
    start = np.array([np.bincount(model.labels_[blocks == a]).argmax() for a in range(40)])
    relaxation = relaxation_of(whole, 2, start)
    for _ in range(100):
        relaxation.step()
    for found in proofs(relaxation, whole):
        value = check_blocks(X, None, blocks, found)
        if value > 0:
            return X, blocks, found, value
    raise AssertionError


def test_a_proof_is_near_the_inertia(proof):
    X, _, _, value = proof
    inertia = KMeans(2, n_init=5, random_state=0, bound=None).fit(X).inertia_
    assert 0.95 * inertia < value <= inertia


def test_a_proof_is_for_its_points_and_blocks_only(proof):
    X, blocks, found, _ = proof
    assert check_blocks(X[::-1], None, blocks, found) == 0.0
    assert check_blocks(1.1 * X, None, blocks, found) == 0.0
    assert check_blocks(X, None, np.roll(blocks, 1), found) == 0.0
    assert check_blocks(X, np.linspace(0.5, 1.5, 400), blocks, found) == 0.0
    with pytest.raises(ValueError, match="not for these points"):
        check_blocks(X, None, blocks[:-1], found)
    with pytest.raises(ValueError, match="not for these points"):
        check_blocks(X, None, blocks - 1, found)
    with pytest.raises(ValueError, match="a block has no points"):
        check_blocks(X, None, np.where(blocks == 3, 4, blocks), found)
    with pytest.raises(ValueError, match="not for these blocks"):
        check_blocks(X, None, np.minimum(blocks, 38), found)


@pytest.mark.parametrize("name", ["level", "heights"])
def test_lower_levels_and_heights_prove_nothing(proof, name):
    X, blocks, found, _ = proof
    assert check_blocks(X, None, blocks, replace(found, **{name: 0.9 * getattr(found, name)})) == 0


def test_lower_prices_prove_nothing(proof):
    X, blocks, found, _ = proof
    lower = found.prices - 1e-3 * np.abs(found.prices)
    assert check_blocks(X, None, blocks, replace(found, prices=lower)) == 0.0


def test_more_slack_proves_nothing(proof):
    X, blocks, found, _ = proof
    slack = found.slack.copy()
    slack[20, 3] += 1e-2 * found.level
    assert check_blocks(X, None, blocks, replace(found, slack=slack)) == 0.0


def test_more_clusters_prove_less(proof):
    X, blocks, found, value = proof
    assert check_blocks(X, None, blocks, replace(found, n_clusters=3)) < value
    with pytest.raises(ValueError, match="no clusters"):
        check_blocks(X, None, blocks, replace(found, n_clusters=0))


@pytest.mark.parametrize("name", ["level", "heights", "slack"])
@pytest.mark.parametrize("bad", [-1.0, np.nan])
def test_negative_numbers_are_refused(proof, name, bad):
    X, blocks, found, _ = proof
    changed = np.array(getattr(found, name), copy=True)
    changed[(0,) * changed.ndim] = bad
    broken = replace(found, **{name: float(changed) if name == "level" else changed})
    with pytest.raises(ValueError, match="must not be negative or NaN"):
        check_blocks(X, None, blocks, broken)


@pytest.mark.parametrize("name", ["vectors", "prices", "slack", "heights", "level"])
def test_what_is_not_finite_proves_nothing(proof, name):
    X, blocks, found, _ = proof
    changed = np.array(getattr(found, name), copy=True)
    changed[(0,) * changed.ndim] = np.inf
    broken = replace(found, **{name: float(changed) if name == "level" else changed})
    with np.errstate(invalid="ignore"):
        assert check_blocks(X, None, blocks, broken) == 0.0


def test_numbers_of_other_precision_are_refused(proof):
    X, blocks, found, _ = proof
    with pytest.raises(ValueError, match="vectors is not float64"):
        check_blocks(X, None, blocks, replace(found, vectors=found.vectors.astype(np.float32)))


def exact(array):
    """Return an array of fractions."""
    return np.vectorize(lambda value: Fraction(float(value)), otypes=[object])(array)


def compressed_cases():
    """Yield points in four blocks of four, whose roots are exact, weights, and the result."""
    rng = np.random.default_rng(0)
    for case in range(30):
        X = rng.normal(size=(16, 2)) + rng.uniform(-1, 1) * 10.0 ** (case % 3)
        yield X, np.arange(16) % 4, compressed(X, None, (np.arange(16) % 4).astype(np.int32))


def test_the_total_is_rounded_down():
    for X, _, whole in compressed_cases():
        total = ((exact(X) - exact(whole.origin)) ** 2).sum()
        assert total * Fraction(1 - 1e-14) <= Fraction(whole.total) <= total


def test_ghost_rows_have_at_least_the_scatter_within_blocks():
    """The difference is semidefinite in exact arithmetic."""
    for X, blocks, whole in compressed_cases():
        points, ghosts = exact(X), exact(whole.points[4:])
        scatter = ghosts.T @ ghosts
        for a in range(4):
            own = points[blocks == a]
            own = own - own.sum(axis=0) / 4
            scatter = scatter - own.T @ own
        assert scatter[0, 0] >= 0
        assert scatter[0, 0] * scatter[1, 1] >= scatter[0, 1] * scatter[1, 0]
        assert max(scatter[0, 0], scatter[1, 1]) <= Fraction(1e-14) * Fraction(whole.total)


def test_the_error_of_the_products_is_bounded():
    for X, blocks, whole in compressed_cases():
        points = exact(X) - exact(whole.origin)
        rows = np.array([points[blocks == a].sum(axis=0) / 2 for a in range(4)])
        found = exact(whole.points[:4])
        off = np.abs(rows @ rows.T - found @ found.T).max()
        assert off <= Fraction(whole.error) <= Fraction(1e-13) * Fraction(whole.total)


def test_the_error_of_the_roots_is_bounded():
    rng = np.random.default_rng(1)
    for _ in range(30):
        weights, blocks = rng.uniform(0.1, 3.0, 12), (np.arange(12) % 4).astype(np.int32)
        whole = compressed(rng.normal(size=(12, 2)), weights, blocks)
        masses = np.array([exact(weights[blocks == a]).sum() for a in range(4)])
        squares, relative = exact(whole.q[:4]) ** 2, Fraction(whole.relative)
        assert (np.abs(squares * masses.sum() / masses - 1) <= 2 * relative).all()


def test_numbers_too_small_for_a_proof_have_none():
    X = np.ldexp(IRIS, -450)
    whole = compressed(X, None, (np.arange(150) % 10).astype(np.int32))
    assert whole.total == 0.0
    bound, _ = semidefinite_in_blocks(
        X, 2, labels=np.zeros(150, np.int32), centers=X[:2], settings=Settings(), n_blocks=10
    )
    assert bound.value == 0.0


def test_blocks_are_small_in_the_directions_of_the_centers():
    X = np.random.default_rng(0).normal(size=(1000, 3))
    blocks = blocks_of(X, np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]), 50)
    assert (np.bincount(blocks) == 20).all()
    within = sum(
        ((X[blocks == a] - X[blocks == a].mean(axis=0)) ** 2).sum(axis=0) for a in range(50)
    )
    assert within[0] < 0.05 * within[1:].min()


def test_few_clusters_and_columns_suit_blocks():
    assert suits_blocks(14, 2, 10.0) and suits_blocks(14, 3, 10.0)
    assert not suits_blocks(14, 4, 10.0)
    assert not suits_blocks(2000, 2, 10.0)
    assert number_of_blocks(0.01) == 200 and number_of_blocks(1e4) == 1500


def many_points(n_clusters=2):
    X, _ = make_blobs(11_000, 5, centers=n_clusters, cluster_std=2.0, random_state=3)
    return X, KMeans(n_clusters, n_init=3, random_state=0, bound=None).fit(X)


def test_lower_bound_takes_blocks_for_many_points_and_few_clusters():
    X, model = many_points()
    centers = model.cluster_centers_
    bound = lower_bound(X, 2, method="semidefinite", centers=centers, seconds=3, n_threads=1)
    assert bound.kind == "block semidefinite"
    assert bound.proof is None and bound.confidence == 1.0
    assert 0.98 * model.inertia_ < bound.value <= model.inertia_


def test_parts_have_the_time_that_blocks_leave(monkeypatch):
    X, model = many_points()
    limits = Settings(centers=model.cluster_centers_, goal=model.inertia_, seconds=4.0, near=0.2)

    def in_parts(*args, seconds, **options):
        nonlocal left
        left = seconds
        return methods.LowerBound(0.0, "partwise semidefinite", 1.0, 0.0)

    left = None
    monkeypatch.setattr(methods, "semidefinite_in_parts", in_parts)
    methods.best_bound(X, 2, methods=["semidefinite"], settings=limits)
    assert left is None
    found = methods.best_bound(X, 2, methods=["semidefinite"], settings=replace(limits, near=1e-9))
    assert found.kind == "block semidefinite"
    assert 0.0 < left < 4.0


def test_an_interrupt_keeps_what_blocks_have_proven():
    X, model = many_points()
    told = []

    def interrupt(done, text):
        told.append(done)
        if len(told) == 2:
            raise KeyboardInterrupt

    limits = Settings(
        centers=model.cluster_centers_, goal=model.inertia_, seconds=60.0, progress=interrupt
    )
    found = methods.best_bound(X, 2, methods=["semidefinite"], settings=limits)
    assert found.kind == "block semidefinite" and found.value > 0.9 * model.inertia_
    assert len(told) == 2
