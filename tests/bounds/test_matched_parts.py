"""Semidefinite bounds in matched parts: each row counts once, never above the optimum, in time."""

import tracemalloc
from fractions import Fraction
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs

from tiny_optimum import optimum
from wolfmeans import KMeans, lower_bound
from wolfmeans.bounds import spectral
from wolfmeans.bounds.semidefinite import fits_in_one_piece, semidefinite_in_parts
from wolfmeans.bounds.semidefinite.matched_parts import (
    _Run,
    bytes_of_a_part,
    matched_parts,
    rows_of_a_part,
)


@st.composite
def tiny_problems(draw):
    n, d = draw(st.integers(3, 9)), draw(st.integers(1, 3))
    rows = st.lists(st.integers(-4, 4), min_size=d, max_size=d)
    points = draw(st.lists(rows, min_size=n, max_size=n))
    weights = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    return points, weights, draw(st.integers(2, 3)), draw(st.integers(1, 9))


@settings(max_examples=80, deadline=None)
@given(tiny_problems())
def test_the_sum_is_never_above_the_optimum(problem):
    points, weights, k, rows_at_once = problem
    X, w = np.array(points, dtype=float), np.array(weights, dtype=float)
    heavy = [(p, v) for p, v in zip(points, weights, strict=True) if v]
    if not heavy:
        return
    bound = semidefinite_in_parts(
        X,
        k,
        w,
        labels=(np.arange(len(X)) % k).astype(np.int32),
        centers=X[:k],
        rows_at_once=rows_at_once,
        most_steps=40,
    )
    best = optimum([p for p, _ in heavy], [v for _, v in heavy], k)
    assert Fraction(bound.value) <= best
    assert bound.confidence == 1.0


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.integers(1, 5), st.integers(1, 6), st.integers(0, 5), st.data())
def test_each_row_is_in_one_part(n, d, k, seed, data):
    n_parts = data.draw(st.integers(1, n))
    rng = np.random.default_rng(seed)
    X = np.rint(2 * rng.normal(size=(n, d)))
    labels = rng.integers(k, size=n).astype(np.int32)
    weights = rng.random(n) + 0.1 if seed % 2 else None
    parts = matched_parts(X, weights, labels, rng.normal(size=(k, d)), n_parts)
    assert len(parts) == n_parts
    assert (np.sort(np.concatenate(parts)) == np.arange(n)).all()
    assert {len(part) for part in parts} <= {n // n_parts, -(-n // n_parts)}


def blobs(n=3000, d=8, k=4):
    X, _ = make_blobs(n, n_features=d, centers=k, cluster_std=3.0, random_state=1)
    return X, KMeans(k, random_state=0, bound=None).fit(X)


def own_means_loss(X, model, parts):
    """Return by how much the centers of all rows cost more than the cluster means of the parts."""
    lost = 0.0
    for part in parts:
        labels = model.labels_[part]
        for k in np.unique(labels):
            off = (X[part[labels == k]] - model.cluster_centers_[k]).sum(axis=0)
            lost += float(off @ off) / (labels == k).sum()
    return lost


def test_parts_have_nearly_the_same_cluster_means():
    X, model = blobs()
    parts = matched_parts(X, None, model.labels_, model.cluster_centers_, 10)
    order = np.random.default_rng(0).permutation(len(X))
    random = own_means_loss(X, model, np.split(order, 10))
    assert own_means_loss(X, model, parts) < 0.05 * random


def test_parts_of_many_columns_are_matched_in_few_directions():
    X, model = blobs(600, d=200)
    parts = matched_parts(X, None, model.labels_, model.cluster_centers_, 3)
    counts = [np.bincount(model.labels_[part], minlength=4) for part in parts]
    assert np.ptp(counts, axis=0).max() <= 4


def in_parts(X, model, weights=None, **options):
    return semidefinite_in_parts(
        X,
        len(model.cluster_centers_),
        weights,
        labels=model.labels_,
        centers=model.cluster_centers_,
        **options,
    )


def test_the_bound_is_near_and_the_same_for_any_number_of_threads():
    X, model = blobs()
    found = [
        in_parts(X, model, seconds=600, rows_at_once=300, most_steps=60, n_threads=threads).value
        for threads in (1, 3)
    ]
    assert found[0] == found[1]
    assert model.inertia_ / 1.05 < found[0] <= model.inertia_
    assert found[0] > spectral(X, 4).value


def test_weights_count_like_copies():
    X, _ = blobs(400)
    weights = np.random.default_rng(0).integers(0, 4, size=len(X)).astype(float)
    model = KMeans(4, random_state=0, bound=None).fit(X, sample_weight=weights)
    options = {"seconds": 600, "rows_at_once": 100, "most_steps": 80}
    weighted = in_parts(X, model, weights, **options).value
    assert model.inertia_ / 1.1 < weighted <= model.inertia_
    light = X.copy()
    light[weights == 0] += 1e3
    assert in_parts(light, model, weights, **options).value == weighted
    copies = np.repeat(X, weights.astype(int), axis=0)
    same = KMeans(4, init=model.cluster_centers_, n_init=1, bound=None).fit(copies)
    assert same.inertia_ == pytest.approx(model.inertia_)
    assert in_parts(copies, same, **options).value == pytest.approx(weighted, rel=0.03)


def test_the_time_limit_holds_and_the_rest_has_a_spectral_bound():
    X, model = blobs(20_000)
    started = perf_counter()
    bound = in_parts(X, model, seconds=1e-3, rows_at_once=250)
    assert perf_counter() - started < 30
    assert 0.9 * spectral(X, 4).value < bound.value <= model.inertia_


def test_ctrl_c_keeps_what_is_proven(monkeypatch):
    X, model = blobs()

    def interrupt(done, text):
        raise KeyboardInterrupt

    bound = in_parts(X, model, rows_at_once=300, most_steps=60, progress=interrupt)
    assert 0.9 * spectral(X, 4).value < bound.value <= model.inertia_


def test_an_error_in_a_part_is_not_swallowed(monkeypatch):
    X, model = blobs(300)

    def fails(*given):
        raise MemoryError("no room")

    monkeypatch.setattr(_Run, "solve", fails)
    with pytest.raises(MemoryError, match="no room"):
        in_parts(X, model, rows_at_once=100)


@pytest.mark.parametrize(("spread", "from_multipliers"), [(6.0, True), (0.5, False)])
def test_the_better_start_is_taken(spread, from_multipliers):
    rng = np.random.default_rng(0)
    X = spread * rng.normal(size=(7, 14))[rng.integers(7, size=500)] + rng.normal(size=(500, 14))
    model = KMeans(7, random_state=0, bound=None).fit(X)
    run = _Run(X, None, 7, model.labels_, model.cluster_centers_, most_steps=25, near=1e-6)
    run.try_starts(np.arange(500))
    assert run.from_multipliers == from_multipliers
    best = run.solve(np.arange(500), 600.0)[0]
    run.from_multipliers = not from_multipliers
    assert run.solve(np.arange(500), 600.0)[0] <= best


def test_progress_says_how_far_it_is():
    X, model = blobs(900)
    told = []
    in_parts(X, model, rows_at_once=300, most_steps=20, progress=lambda *said: told.append(said))
    assert [done for done, _ in told] == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert "3 of 3 parts" in told[-1][1]


def test_more_time_means_larger_parts():
    rows = [rows_of_a_part(100_000, 7, seconds) for seconds in (1, 60, 300, 1800, 1e6)]
    assert rows == sorted(rows)
    assert rows[0] == 256 < rows[2] < rows[-1] == 2500
    assert rows_of_a_part(10**6, 1000, 60) == 16_000


@pytest.mark.parametrize("rows", [100, 400, 1100])
def test_a_part_takes_the_memory_that_is_counted(rows):
    X, model = blobs(rows)
    run = _Run(X, None, 4, model.labels_, model.cluster_centers_, most_steps=40, near=1e-6)
    run.solve(np.arange(50), 600.0)
    tracemalloc.start()
    run.solve(np.arange(rows), 600.0)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.2 * bytes_of_a_part(rows) < taken < bytes_of_a_part(rows)


def test_parts_become_smaller_with_less_memory():
    X, model = blobs(2000)
    told = []
    options = {"most_steps": 10, "progress": lambda *said: told.append(said[1])}
    in_parts(X, model, rows_at_once=500, **options)
    assert "of 4 parts" in told[-1]
    in_parts(X, model, rows_at_once=500, most_bytes=bytes_of_a_part(200), n_threads=8, **options)
    assert "of 10 parts" in told[-1]


def test_few_points_are_not_split():
    assert fits_in_one_piece(2310, 1.0)
    assert fits_in_one_piece(4800, 60.0)
    assert not fits_in_one_piece(4800, 10.0)


def test_lower_bound_takes_parts_for_many_points():
    X, model = blobs(11_000, d=5)
    centers = model.cluster_centers_
    bound = lower_bound(X, 4, method="semidefinite", centers=centers, seconds=5, n_threads=1)
    assert bound.kind == "partwise semidefinite"
    assert bound.proof is None
    assert 0 < bound.value <= model.inertia_
