"""The native engine's shortcuts (groups, bounds, blocks at rest, several steps and several starts
at once) against the reference engine, over whole runs and on every vector unit."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from instances import instances
from wolfmeans import KMeans
from wolfmeans.engines import get_engine
from wolfmeans.exact.native import native_is_available
from wolfmeans.fitting.fit import Start, run, run_together

pytestmark = pytest.mark.skipif(not native_is_available(), reason="the native module is not built")

SETTINGS = {"stop": "gap", "tol": 1e-9, "tol_scale": "initial", "empty": "farthest"}


def blobs(n, d, k, dtype, seed=0, spread=1.0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(k, d)) * 3
    X = centers[rng.integers(0, k, n)] + spread * rng.normal(size=(n, d))
    return np.ascontiguousarray(X, dtype=dtype)


DATA = {
    "blobs": lambda n, d, k, dtype: blobs(n, d, k, dtype),
    "structureless": lambda n, d, k, dtype: blobs(n, d, 1, dtype),
    "lattice": lambda n, d, k, dtype: np.round(blobs(n, d, k, dtype) / 4),
    "far from 0": lambda n, d, k, dtype: blobs(n, d, k, dtype) + dtype(1e6),
    "outlier": lambda n, d, k, dtype: np.vstack(
        [np.full((1, d), 1e12, dtype), blobs(n - 1, d, k, dtype)]
    ),
    "copies": lambda n, d, k, dtype: np.repeat(blobs(n // 5, d, k, dtype), 5, axis=0),
}


def assert_same_steps(X, seeds, weights=None, n_threads=2, algorithm="auto", steps=40):
    """Lloyd's iteration on both engines, compared with == after every step."""
    reference = get_engine("reference").open(X, weights, 1)
    native = get_engine("cpu").open(X, weights, n_threads, algorithm)
    centers = seeds
    for _ in range(steps):
        expected, found = reference.assign(centers), native.assign(centers)
        assert (native.labels() == reference.labels()).all()
        for part in fields(expected):
            assert np.array_equal(getattr(found, part.name), getattr(expected, part.name))
        centers = expected.means
        if expected.moved == 0:
            return


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize(("d", "k"), [(2, 9), (7, 20), (24, 40), (33, 17), (70, 60), (300, 5)])
def test_whole_runs_equal_the_reference(kind, d, k, dtype):
    X = DATA[kind](240, d, k, dtype)
    seeds = X[np.random.default_rng(1).choice(len(X), k, replace=False)]
    assert_same_steps(X, seeds)


@settings(max_examples=40)
@given(instances(max_points=80, max_features=60, max_clusters=40), st.integers(1, 3))
def test_any_run_equals_the_reference(instance, n_threads):
    assert_same_steps(instance.X, instance.seeds, instance.weights, n_threads)


@pytest.mark.parametrize("unit", ["baseline", "avx2", "avx512"])
def test_whole_runs_are_equal_on_every_vector_unit(unit, monkeypatch):
    """A processor without the unit takes its widest one, as everywhere."""
    monkeypatch.setenv("WOLFMEANS_VECTOR_UNIT", unit)
    for d, k in [(2, 9), (7, 20), (33, 40), (70, 17)]:
        for make in DATA.values():
            for dtype in (np.float32, np.float64):
                X = make(150, d, k, dtype)
                assert_same_steps(X, X[:: 150 // k][:k].copy(), steps=15)


@pytest.mark.parametrize("algorithm", ["dense", "bounds", "tree", "lloyd", "elkan"])
def test_the_algorithm_changes_nothing(algorithm):
    for d in (3, 40):
        X = blobs(300, d, 12, np.float32)
        assert_same_steps(X, X[:12].copy(), algorithm=algorithm)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["blobs", "structureless"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_bounds_by_group_may_come_and_go(n_threads, kind, dtype):
    """From some thousand rows on, measured times decide on them; no step depends on it."""
    X = DATA[kind](2_500, 24, 64, dtype)
    assert_same_steps(X, X[:64].copy(), n_threads=n_threads, steps=25)


def records(fit):
    """All that is not time."""
    return [
        (r.t, r.value, r.gap, r.movement, r.stationary, r.moved, r.empty, r.shift)
        for r in fit.solution.trace
    ]


def assert_same_fits(fits, expected):
    for fit, other in zip(fits, expected, strict=True):
        assert records(fit) == records(other)
        assert fit.solution.status is other.solution.status
        assert fit.inertia == other.inertia
        assert (fit.labels == other.labels).all()
        assert (fit.centers == other.centers).all()


@given(
    instance=instances(max_points=60, max_clusters=8),
    stop=st.sampled_from(["gap", "decrease", "shift", "stationary"]),
    empty=st.sampled_from(["farthest", "keep", "resample"]),
    max_steps=st.sampled_from([0, 1, 3, 100]),
)
def test_several_steps_at_once_are_those_taken_one_by_one(instance, stop, empty, max_steps):
    fits = []
    for callback in (None, lambda record: False):
        start = Start(instance.open("cpu"), instance.seeds, lambda: np.random.RandomState(0))
        fits.append(
            run(
                start,
                stop=stop,
                tol=1e-3,
                tol_scale="initial",
                empty=empty,
                max_steps=max_steps,
                callback=callback,
            )
        )
    assert_same_fits(fits[:1], fits[1:])


@pytest.mark.parametrize("engine", ["reference", "cpu"])
@pytest.mark.parametrize("max_steps", [0, 2, None])
def test_several_runs_at_once_are_those_of_each(engine, max_steps):
    starts = [[], []]
    for seed in range(7):
        X = blobs(60 + 5 * seed, 3, 4, np.float64, seed)
        for made in starts:
            workspace = get_engine(engine).open(X, None, 1)
            made.append(Start(workspace, X[:4].copy(), lambda: np.random.RandomState(0)))
    together = run_together(starts[0], max_steps=max_steps, n_threads=3, **SETTINGS)
    alone = [run(start, max_steps=max_steps, **SETTINGS) for start in starts[1]]
    assert_same_fits(together, alone)


def test_many_starts_give_what_the_reference_engine_gives():
    X = blobs(200, 5, 6, np.float32, spread=3.0)
    fits = [
        KMeans(6, init="random", n_init=12, random_state=3, engine=engine).fit(X)
        for engine in ("cpu", "reference")
    ]
    assert fits[0].inertia_ == fits[1].inertia_
    assert (fits[0].labels_ == fits[1].labels_).all()
    assert fits[0].n_iter_ == fits[1].n_iter_


def test_a_time_limit_ends_a_block_of_steps():
    X = blobs(20_000, 12, 1, np.float64)
    model = KMeans(60, init="random", n_init=1, random_state=0, stop="stationary", time_limit=0.0)
    with pytest.warns(Warning, match="time"):
        model.fit(X)
    assert model.n_iter_ == 1


@pytest.mark.parametrize("name", ["blobs", "outlier", "copies"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_hold_after_centers_have_gone_a_long_way(name, dtype):
    X, rng = DATA[name](400, 32, 8, dtype), np.random.default_rng(1)
    native, reference = (get_engine(engine).open(X, None, 2) for engine in ("cpu", "reference"))
    centers = X[rng.choice(400, 24, replace=False)]
    for step in range(30):
        ours, theirs = native.assign(centers), reference.assign(centers)
        assert (ours.moved, ours.gap) == (theirs.moved, theirs.gap)
        assert np.array_equal(native.labels(), reference.labels())
        # Far at first and now and then, in small steps between.
        size = 5.0 if step % 6 == 0 else 0.02
        centers = (centers + size * rng.normal(size=centers.shape)).astype(dtype)
