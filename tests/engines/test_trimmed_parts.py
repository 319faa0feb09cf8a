"""Trimming over points in parts: the bits of one array, and nothing of its size on the way."""

import math
import os
import pickle
import random
import signal
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_parts import (
    FASTEST,
    KINDS,
    Elsewhere,
    Forgetful,
    assert_same_assignment,
    assert_same_fit,
    cut,
    problem,
)

import difficult
from instances import ENGINES, instances
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.core.stopping import STOPS
from wolfmeans.core.threshold import find_threshold
from wolfmeans.core.trimmed import POLICIES, TrimmedProblem, kept_mass, total_mass
from wolfmeans.core.workspace import Threshold
from wolfmeans.engines import get_engine
from wolfmeans.engines.places import distance_buckets
from wolfmeans.engines.places.distance_buckets import Bracket
from wolfmeans.engines.places.memory import MemoryPlace
from wolfmeans.engines.places.trimmed_parts import TrimmedParts, sum_of_weights
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.exact.sums import unit_exponent
from wolfmeans.fitting import two_stages
from wolfmeans.fitting.fit import Start, certificate_of, run

SHARES = [Fraction(0), Fraction(1, 20), Fraction(1, 3), Fraction(9, 10)]


def fit(workspace, seeds, *, stop="decrease", empty="farthest", max_steps=60):
    start = Start(workspace, seeds, lambda: np.random.RandomState(0))
    return run(
        start,
        stop=stop,
        tol=1e-6,
        tol_scale="initial",
        empty=empty,
        max_steps=max_steps,
        kind=TrimmedProblem,
    )


def whole_of(X, weights, share, engine=FASTEST):
    return get_engine(engine).open(X, weights, 1).trimmed(kept_mass(share, weights, len(X)))


def random_parts(rng, X, weights, share, engine=FASTEST, lost=0.0):
    ends = rng.integers(0, len(X) + 1, size=rng.integers(0, 7))
    parted = PartsWorkspace(Forgetful(cut(X, weights, ends, engine), rng, lost))
    return TrimmedParts(parted, kept_mass(share, weights, len(X)))


def assert_same_answers(parted, whole, point):
    assert parted.threshold == whole.threshold
    assert (parted.labels() == whole.labels()).all()
    assert (np.asarray(parted.kept()) == whole.kept()).all()
    assert (parted.shares() == whole.shares()).all()
    assert (parted.margins(point.centers) == whole.margins(point.centers)).all()
    assert parted.trimmed_mass() == whole.trimmed_mass()
    assert parted.n_trimmed() == whole.n_trimmed()
    assert parted.smallest_mass() == whole.smallest_mass()
    assert parted.around_threshold(point.centers) == whole.around_threshold(point.centers)


def assert_same_certificates(a, b, X):
    one, other = (
        certificate_of(each, X, method=None, notes=(), random=lambda: np.random.RandomState(0))
        for each in (a, b)
    )
    assert one == replace(other, engine=one.engine)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_in_parts_is_the_fit_of_the_whole(kind, dtype, weighted):
    for seed, share in enumerate(SHARES):
        rng, X, weights, seeds = problem(kind, dtype, weighted, seed)
        stop = STOPS[seed % len(STOPS)]
        whole = fit(whole_of(X, weights, share), seeds, stop=stop)
        for lost in (0.0, 0.3):
            parted = fit(random_parts(rng, X, weights, share, lost=lost), seeds, stop=stop)
            assert_same_fit(parted, whole)
            assert_same_certificates(parted, whole, X)
            assert_same_answers(
                parted.problem.workspace, whole.problem.workspace, whole.solution.point
            )


@pytest.mark.long
@given(
    instances(),
    st.integers(0, 2**32 - 1),
    st.sampled_from(POLICIES),
    st.sampled_from(SHARES),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from([0, 2, 4096]),
)
def test_policies_ties_and_lost_labels(instance, seed, empty, share, lost, few):
    rng = np.random.default_rng(seed)
    X, weights = instance.X, instance.weights
    whole = fit(whole_of(X, weights, share), instance.seeds, empty=empty)
    # Engines may even be mixed: their partial results are the same integers.
    engines = rng.choice(ENGINES, size=3).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distance_buckets, "FEW", few)
        workspace = random_parts(rng, X, weights, share, engines, lost)
        parted = fit(workspace, instance.seeds, empty=empty)
        assert_same_fit(parted, whole)
        assert_same_certificates(parted, whole, X)
        assert_same_answers(parted.problem.workspace, whole.problem.workspace, whole.solution.point)


@st.composite
def scattered_distances(draw):
    """Draw rows of one column, whose squares are distances from 0, over all sizes and with ties."""
    n = draw(st.integers(1, 60))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    scale = draw(st.sampled_from([0, 1, 40, 400]))
    X = np.ldexp(rng.integers(0, 4, size=n) + 0.0, rng.integers(-scale, scale + 1, size=n))
    weights = None
    if draw(st.booleans()):
        weights = rng.choice([0.0, 1.0, 1.0 / 3.0, 1e-9, 1e7, 2.0**60], size=n)
        weights[rng.integers(n)] = 1.0
    mass = kept_mass(Fraction(draw(st.integers(0, 99)), 100), weights, n)
    before = [draw(st.floats(0.0, 1e300)) for _ in range(draw(st.integers(0, 2)))]
    return X.reshape(-1, 1), weights, mass, before, rng


@given(scattered_distances(), st.sampled_from([0, 1, 3, 4096]))
def test_the_threshold_is_that_of_the_whole_wherever_one_looks_first(case, few):
    X, weights, mass, before, rng = case
    distances = get_engine("reference").open(X, None, 1).distances_to(np.zeros(1))
    ends = rng.integers(0, len(X) + 1, size=3)
    points = TrimmedParts(PartsWorkspace(MemoryPlace(cut(X, weights, ends))), mass)
    if before:
        points._threshold = Threshold(before[0], 0, 1.0)
        points._threshold_before = Threshold(before[-1], 0, 1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distance_buckets, "FEW", few)
        found = points._threshold_at(points.points.labelling(np.zeros((1, 1))))
    assert found == find_threshold(distances, weights, mass)


def test_many_ties_at_the_threshold_go_to_the_lowest_rows():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(70_000, 2)).astype(np.float64)
    for weights in (None, rng.choice([0.0, 0.1, 1.0, 7.0], size=len(X))):
        for share in (Fraction(1, 10), Fraction(1, 2)):
            whole = whole_of(X, weights, share)
            parted = random_parts(rng, X, weights, share)
            for centers in (np.zeros((1, 2)), np.array([[0.0, 0.0], [2.0, 2.0]])[:1] + 1.0):
                assert_same_assignment(parted.assign(centers), whole.assign(centers))
                assert parted.threshold == whole.threshold
                assert parted.threshold.row >= 0


def test_the_sum_of_weights_and_their_unit():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 2))
    for weights in (None, rng.choice([0.0, 0.375, 1e-30, 1e30, 12.0], size=50)):
        ends = [0, 1, 20, 20, 49]
        found = sum_of_weights(PartsWorkspace(MemoryPlace(cut(X, weights, ends))))
        assert found.total == total_mass(weights, 50)
        assert found.unit == unit_exponent(weights)


def test_a_part_may_have_no_weight_at_all():
    rng, X, _, seeds = problem("outliers", "float64", False, 1)
    weights = np.where(np.arange(len(X)) < len(X) // 2, 0.0, rng.uniform(size=len(X)))
    whole = fit(whole_of(X, weights, Fraction(1, 10)), seeds)
    parts = PartsWorkspace(MemoryPlace(cut(X, weights, [5, len(X) // 2])))
    assert_same_fit(fit(TrimmedParts(parts, whole.problem.workspace.mass), seeds), whole)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_mass_may_be_finer_than_all_weights_of_its_part(engine):
    X, weights = np.array([[0.0], [1.0], [2.0], [3.5]]), np.array([2.0**-80, 1.0, 3.0, 0.5])
    mass = 1.0 + 2.0**-40
    whole = get_engine(engine).open(X, weights, 1).trimmed(mass)
    parts = PartsWorkspace(MemoryPlace(cut(X, weights, [1, 2], engine)))
    parted = TrimmedParts(parts, mass)
    for centers in (np.zeros((1, 1)), np.full((1, 1), 2.5)):
        assert_same_assignment(parted.assign(centers), whole.assign(centers))
        assert parted.threshold == whole.threshold
    assert (np.asarray(parted.kept()) == whole.kept()).all()


def test_masses_that_sums_cannot_hold_are_refused():
    X, weights = np.zeros((3, 1)), np.array([0.5, 1.0, 2.0])
    parts = PartsWorkspace(MemoryPlace(cut(X, weights, [1])))
    for mass in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="must be positive"):
            TrimmedParts(parts, mass)
    with pytest.raises(ValueError, match=r"multiple of 2\*\*-1"):
        TrimmedParts(parts, 1.25)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_are_detached_between_questions(engine):
    for kind, dtype, weighted, seed in [
        ("blobs", "float64", False, 2),
        ("lattice", "float32", True, 3),
        ("offset", "float64", True, 4),
    ]:
        _, X, weights, seeds = problem(kind, dtype, weighted, seed)
        whole = fit(whole_of(X, weights, Fraction(1, 10)), seeds)
        elsewhere = Elsewhere(X, weights, [len(X) // 3, len(X) // 2], engine=engine)
        parted = TrimmedParts(PartsWorkspace(elsewhere), whole.problem.workspace.mass)
        found = fit(parted, seeds)
        assert_same_fit(found, whole)
        assert_same_answers(parted, whole.problem.workspace, whole.solution.point)


@pytest.mark.skipif("cpu" not in ENGINES, reason="labels are detached with the rows")
@pytest.mark.parametrize("weighted", [False, True])
def test_what_a_part_knows_without_its_rows(weighted):
    X = difficult.points("blobs", 300, 2)
    weights = np.arange(300) % 3 * 1.0 if weighted else None
    part = cut(X, weights, [])[0]
    points = TrimmedParts(PartsWorkspace(MemoryPlace(cut(X, weights, []))), 200.0)
    here, there = points.points.labelling(X[:4]), points.points.labelling(X[4:8])
    threshold = points._threshold_at(here)
    at, other = (points._up_to(aim, threshold)[0] for aim in (here, there))
    assert not part.knows("nearby", here, Bracket(0, 51), 0)
    part.assign(at, None)
    questions = [
        ("nearby", here, Bracket(0, 51), 0),
        ("mass_at", here, 0),
        ("labels", at),
    ]
    of_weights = [("ask", at, question) for question in ("kept", "shares", "n_trimmed")]
    questions += [] if weighted else of_weights
    answers = [pickle.dumps(getattr(part, method)(*given_)) for method, *given_ in questions]
    part.detach_rows()
    for (method, *given_), before in zip(questions, answers, strict=True):
        assert part.knows(method, *given_)
        assert pickle.dumps(getattr(part, method)(*given_)) == before
    assert not part.knows("nearby", there, Bracket(0, 51), 0)
    assert not part.knows("labels", other)
    assert all(part.knows(*question) != weighted for question in of_weights)
    assert not part.knows("rows", np.arange(3))
    with pytest.raises(ValueError, match="detached"):
        part.nearby(there, Bracket(0, 51), 0)


@pytest.mark.parametrize("keep", ["labels", "nothing"])
def test_rows_that_are_detached_without_bounds(keep):
    class Buffered(Elsewhere):
        def each(self, method, arguments):
            for number, answer in zip(arguments, super().each(method, arguments), strict=True):
                rows = self.parts[number]._kind[0][0]
                self.parts[number].detach_rows(keep, np.empty(rows, dtype=np.int32))
                yield answer

    _, X, weights, seeds = problem("outliers", "float64", True, 4)
    whole = fit(whole_of(X, weights, Fraction(1, 10)), seeds)
    elsewhere = Buffered(X, weights, [len(X) // 3])
    parted = TrimmedParts(PartsWorkspace(elsewhere), whole.problem.workspace.mass)
    assert_same_fit(fit(parted, seeds), whole)


def test_a_question_that_is_repeated_has_the_same_answer():
    """After an answer was lost on the way, the part has already gone on."""
    X = difficult.points("lattice", 200, 3)
    weights = np.random.default_rng(0).uniform(size=200)
    part, fresh = cut(X, weights, [])[0], cut(X, weights, [])[0]
    points = TrimmedParts(PartsWorkspace(MemoryPlace(cut(X, weights, []))), 0.0 + 50.0)
    here, plain = (points.points.labelling(centers) for centers in (X[:6] + 0.25, X[:6] * 0.5))
    at, to = (points._up_to(aim, points._threshold_at(aim))[0] for aim in (here, plain))
    part.assign(points._up_to(points.points.labelling(X[:9]), Threshold(1.0, -1, 0.0))[0], None)
    first = cut(X, weights, [])[0]
    first.assign(at, None)
    expected = first.assign(to, at)
    assert expected.moved > 0
    for other in (part, part, fresh):
        found = other.assign(*pickle.loads(pickle.dumps((to, at))))
        assert (found.moved, found.gap.integer()) == (expected.moved, expected.gap.integer())
        assert (found.sums.values == expected.sums.values).all()
        assert (found.totals.values == expected.totals.values).all()


def test_without_trimming_it_is_kmeans_in_parts():
    X = difficult.points("blobs", 400, 3)
    parts = PartsWorkspace(MemoryPlace(cut(X, None, [100, 250])))
    trimmed = TrimmedParts(parts, math.inf)
    for centers in (X[:7], X[10:17]):
        assert_same_assignment(trimmed.assign(centers), parts.assign(centers))
        assert (trimmed.labels() == parts.labels()).all()
        assert trimmed.cost(centers) == parts.cost(centers)
    assert trimmed.threshold == Threshold.nowhere()


class Weighed(MemoryPlace):
    """Parts that count what their answers weigh, as they would on the way to a client."""

    largest = 0
    may_gather = False

    def each(self, method, arguments):
        for answer in super().each(method, arguments):
            if method != "describe":
                Weighed.largest = max(Weighed.largest, len(pickle.dumps(answer)))
            yield answer

    def fork(self, n_threads):
        return Weighed(super().fork(n_threads).parts)


@pytest.mark.parametrize("lattice", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_nothing_of_the_size_of_the_data_comes_back(weighted, lattice):
    """The largest answer is a histogram, not 8 bytes for each of the points."""
    rng = np.random.default_rng(5)
    n = 120_000
    X = rng.normal(size=(n, 2))
    if lattice:
        X = np.round(2 * X)
    weights = rng.uniform(size=n) if weighted else None
    seeds = np.concatenate([X[:4], [[1e6, 1e6]]])
    Weighed.largest = 0
    parts = Weighed(cut(X, weights, [n // 2, n - 100]))
    mass = kept_mass(Fraction(1, 10), weights, n)
    found = fit(TrimmedParts(PartsWorkspace(parts), mass), seeds, max_steps=4)
    certificate_of(found, X, method=None, notes=(), random=lambda: np.random.RandomState(0))
    found.problem.trimmed_mass()
    assert 10_000 < Weighed.largest < n * 8 / 2


# --- Sources ---------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:The loop stopped", "ignore:.*max_iter")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("limit", [18_500_000, 28_000_000])
def test_a_file_that_does_not_fit_gives_the_same_bits(tmp_path, limit, weighted):
    """With the smaller limit nothing is kept of points between passes."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300_000, 3)) + 8.0 * rng.integers(0, 3, size=(300_000, 1))
    X[::9] *= 30.0
    weights = rng.choice([0.5, 1.0, 3.0], size=len(X)) if weighted else None
    np.save(tmp_path / "X.npy", X)
    settings = {"alpha": 0.1, "init": X[:3], "bound": None, "max_iter": 6, "tol": 0.0}
    memory = TrimmedKMeans(3, **settings).fit(X, sample_weight=weights)
    ours = TrimmedKMeans(3, memory_limit=limit, **settings)
    ours.fit(tmp_path / "X.npy", sample_weight=weights)
    assert any("chunks of a source" in note for note in ours.certificate_.notes)
    assert np.array_equal(ours.cluster_centers_, memory.cluster_centers_)
    for name in ("inertia_", "radius_", "n_trimmed_", "trimmed_mass_"):
        assert getattr(ours, name) == getattr(memory, name), name
    for name in ("labels_", "kept_", "margins_"):
        assert np.array_equal(getattr(ours, name), getattr(memory, name)), name
    assert np.array_equal(ours.predict(tmp_path / "X.npy"), memory.predict(X))
    assert ours.score(tmp_path / "X.npy", sample_weight=weights) == -memory.inertia_


# --- The estimator ---------------------------------------------------------------------------

dask = pytest.importorskip("dask", reason="dask and distributed are not installed")
da = pytest.importorskip("dask.array", reason="dask and distributed are not installed")
pytest.importorskip("distributed", reason="dask and distributed are not installed")

from wolfmeans.exact.native import native_is_available  # noqa: E402

native = pytest.mark.skipif(not native_is_available(), reason="parts are worked on natively")


def outlying(n=900, d=3, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 8.0 * rng.integers(0, 3, size=(n, 1))
    X[rng.random(n) < 0.08] *= 40.0
    return X.astype(dtype)


def same(ours, reference):
    assert np.array_equal(ours.cluster_centers_, reference.cluster_centers_)
    assert ours.cluster_centers_.dtype == reference.cluster_centers_.dtype
    for name in ("inertia_", "n_iter_", "radius_", "n_trimmed_", "trimmed_mass_"):
        assert getattr(ours, name) == getattr(reference, name), name
    for column in ("sse", "gap", "movement", "moved"):
        assert np.array_equal(getattr(ours.trace_, column), getattr(reference.trace_, column))
    unlike = {"notes": (), "engine": ""}
    assert replace(ours.certificate_, **unlike) == replace(reference.certificate_, **unlike)
    for name, dtype in (("labels_", np.int32), ("kept_", np.float64), ("margins_", np.float64)):
        computed = getattr(ours, name).compute()
        assert computed.dtype == dtype
        assert np.array_equal(computed, getattr(reference, name)), name


def both(X, chunks, sample_weight=None, **settings):
    settings = {"bound": None, "random_state": 0, **settings}
    collection = da.from_array(X, chunks=(chunks, X.shape[1]))
    memory = TrimmedKMeans(3, n_threads=1, engine="cpu", **settings)
    return (
        TrimmedKMeans(3, **settings).fit(collection, sample_weight=sample_weight),
        memory.fit(X, sample_weight=sample_weight),
        collection,
    )


@native
@pytest.mark.parametrize("chunks", [900, (0, 200, 0, 0, 699, 1, 0), tuple([60] * 15)], ids=str)
@pytest.mark.parametrize(("dtype", "weighted"), [(np.float64, True), (np.float32, False)])
def test_dask_data_gives_the_same_bits(dask_place, chunks, dtype, weighted):
    X = outlying(dtype=dtype)
    weights = np.random.default_rng(1).choice([0.0, 0.3, 1.0, 5.0], size=900) if weighted else None
    ours, memory, collection = both(X, chunks, weights, alpha=0.1, n_init=2)
    same(ours, memory)
    assert ours.kept_.chunks == ours.labels_.chunks == collection.chunks[:1]
    assert any("partition" in note for note in ours.certificate_.notes)
    assert ours.score(collection, sample_weight=weights) == -ours.inertia_
    assert np.array_equal(ours.predict(collection).compute(), memory.predict(X))


def first_points(X, k, random_state):
    return np.asarray(X[:k])


@native
@pytest.mark.parametrize(
    "settings",
    [
        {"alpha": 0.1},
        {"trim": 50},
        {"alpha": 0},
        {"alpha": 0.9, "n_init": 1},
        {"init": "k-means||", "n_init": 1},
        {"init": "random", "n_init": 7},
        {"init": "trimmed-k-means++", "n_init": 1},
        {"init": "array", "stop": "shift"},
        {"init": "array", "tol_scale": "total"},
        {"init": "array", "empty": "keep"},
        {"init": first_points, "n_init": 2},
    ],
    # A function by its name: its address is another one in each process of pytest-xdist.
    ids=lambda settings: str({k: getattr(v, "__name__", v) for k, v in settings.items()}),
)
def test_every_way_to_start_is_that_of_memory(settings):
    X = outlying(n=400)
    if settings.get("init") == "array":
        settings = {**settings, "init": X[:3]}
    with dask.config.set(scheduler="threads"):
        ours, memory, _ = both(X, 130, **settings)
        same(ours, memory)


@native
@pytest.mark.filterwarnings("ignore:.*empty")
@pytest.mark.parametrize("weighted", [False, True])
def test_what_an_empty_cluster_could_gain_is_that_of_memory(weighted):
    X = outlying(n=700)
    weights = np.random.default_rng(1).choice([0.0, 0.3, 5.0], size=700) if weighted else None
    init = np.concatenate([X[:2], [[1e5, 1e5, 1e5]]])
    with dask.config.set(scheduler="threads"):
        ours, memory, _ = both(X, 130, weights, init=init, alpha=0.1, empty="keep")
        assert memory.certificate_.candidate_decrease > 0
        same(ours, memory)


@native
@pytest.mark.filterwarnings("ignore:The squared distances", "ignore:overflow")
def test_extreme_sizes():
    with dask.config.set(scheduler="threads"):
        for scale in (1e-200, 1e200):
            ours, memory, _ = both(outlying(n=300) * scale, 100, init=outlying(n=300)[:3] * scale)
            same(ours, memory)


@native
def test_short_runs_see_the_same_rows_whatever_the_partitions(monkeypatch):
    monkeypatch.setattr(two_stages, "_FEW_ROWS", 200)
    monkeypatch.setattr(two_stages, "_ROWS_PER_CLUSTER", 10)
    X = outlying()
    weights = np.random.default_rng(1).choice([0.0, 1.0, 5.0], size=900)
    with dask.config.set(scheduler="threads"):
        for sample_weight in (None, weights):
            one, other = (
                TrimmedKMeans(3, alpha=0.1, random_state=0, bound=None).fit(
                    da.from_array(X, chunks=(chunks, 3)), sample_weight=sample_weight
                )
                for chunks in (900, 123)
            )
            assert np.array_equal(one.cluster_centers_, other.cluster_centers_)
            assert any("randomly drawn rows" in note for note in one.certificate_.notes)
            assert one.inertia_ < 2500 * (1 if sample_weight is None else 4)
        nowhere = np.zeros(900)
        nowhere[[3, 500]] = 1.0
        with pytest.raises(ValueError, match="too few to find"):
            TrimmedKMeans(3).fit(da.from_array(X, chunks=(200, 3)), sample_weight=nowhere)


@native
def test_what_has_no_form_in_parts_is_refused():
    X = da.from_array(outlying(), chunks=(300, 3))
    with pytest.raises(NotImplementedError, match="bound='neighbours'"):
        TrimmedKMeans(3, bound="neighbours").fit(X)
    with pytest.raises(ValueError, match="would trim everything"):
        TrimmedKMeans(3, trim=900).fit(X)


@native
def test_a_fitted_model_can_be_stored(tmp_path):
    with dask.config.set(scheduler="threads"):
        ours, memory, _ = both(outlying(), 300, n_init=1)
    ours.save(tmp_path / "model")
    from wolfmeans import load

    again = load(tmp_path / "model")
    assert np.array_equal(again.labels_, memory.labels_)
    assert np.array_equal(again.kept_, memory.kept_)
    assert np.array_equal(again.margins_, memory.margins_)


@pytest.mark.long
@native
@pytest.mark.parametrize("trial", range(2))
def test_a_worker_that_dies_leaves_no_trace(two_workers, trial):
    X = outlying(n=900, seed=12)
    settings = {"alpha": 0.1, "init": X[:3], "tol": 0.0}
    generator = random.Random(trial)
    two_workers.wait_for_workers(2, timeout=60)
    killed = []

    def kill(record):
        if record.t == 1 + trial and not killed:
            killed.append(generator.choice(sorted(two_workers.run(os.getpid).values())))
            os.kill(killed[-1], signal.SIGKILL)

    collection = da.from_array(X, chunks=(100, 3))
    ours = TrimmedKMeans(3, bound=None, callback=kill, **settings).fit(collection)
    assert killed
    same(ours, TrimmedKMeans(3, bound=None, **settings).fit(X))


@native
def test_kmeans_and_trimming_of_nothing_agree(dask_place):
    X = outlying()
    collection = da.from_array(X, chunks=(250, 3))
    plain = KMeans(3, init=X[:3], bound=None).fit(collection)
    trimmed = TrimmedKMeans(3, init=X[:3], alpha=0, bound=None).fit(collection)
    assert np.array_equal(plain.cluster_centers_, trimmed.cluster_centers_)
    assert plain.inertia_ == trimmed.inertia_
    assert np.array_equal(plain.labels_.compute(), trimmed.labels_.compute())
