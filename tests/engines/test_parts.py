"""Points in parts: the bits of one array, whatever the parts, and whatever they forget."""

import pickle
from dataclasses import fields, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import difficult
from instances import ENGINES, instances
from wolfmeans.core.empty_clusters import POLICIES, best_candidate
from wolfmeans.core.stopping import STOPS
from wolfmeans.engines import Forced, get_engine
from wolfmeans.engines.native import rounded
from wolfmeans.engines.places.memory import MemoryPart, MemoryPlace
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.exact.limbs import SCALAR, Grid, Grids, Limbs, Range, added, combined, range_of
from wolfmeans.exact.native import native_is_available
from wolfmeans.exact.sums import exact_sum
from wolfmeans.fitting.fit import Start, certificate_of, run
from wolfmeans.seeding.methods import METHODS, choose_seeds

FASTEST = ENGINES[-1]
KINDS = ["blobs", "lattice", "duplicates", "offset", "outliers", "columns apart", "heavy tails"]


class Forgetful(MemoryPlace):
    """Parts that lose their labels now and then: killed workers."""

    def __init__(self, parts, rng=None, share=0.0):
        super().__init__(parts)
        self.rng, self.share = rng, share
        self.lost = 0

    def each(self, method, arguments):
        for number in arguments:
            if self.share and self.rng.random() < self.share:
                self.parts[number].forget()
                self.lost += 1
        return super().each(method, arguments)

    def fork(self, n_threads):
        return Forgetful(super().fork(n_threads).parts, self.rng, self.share)


def cut(X, weights, ends, engine=FASTEST, algorithm="auto", n_threads=1):
    """Return parts of X that end at the given rows; a list of engines is dealt out in turn."""
    engines = [engine] if isinstance(engine, str) else engine
    borders = [0, *sorted(ends), len(X)]
    return [
        MemoryPart(
            np.ascontiguousarray(X[a:b]),
            None if weights is None else weights[a:b],
            engines[i % len(engines)],
            n_threads,
            algorithm,
        )
        for i, (a, b) in enumerate(pairwise(borders))
    ]


def random_parts(rng, X, weights, engine=FASTEST, share=0.0, **settings):
    ends = rng.integers(0, len(X) + 1, size=rng.integers(0, 7))
    return PartsWorkspace(Forgetful(cut(X, weights, ends, engine, **settings), rng, share))


def fit(workspace, seeds, *, stop="decrease", tol=1e-6, empty="farthest", max_steps=100):
    start = Start(workspace, seeds, lambda: np.random.RandomState(0))
    return run(start, stop=stop, tol=tol, tol_scale="initial", empty=empty, max_steps=max_steps)


def assert_same_fit(a, b):
    assert (a.labels == b.labels).all()
    assert (a.centers == b.centers).all()
    assert (a.inertia, a.initial_sse) == (b.inertia, b.initial_sse)
    assert a.solution.status is b.solution.status
    assert a.solution.iterations == b.solution.iterations
    for column in ("sse", "gap", "movement", "moved", "empty", "shift"):
        assert (getattr(a.solution.trace, column) == getattr(b.solution.trace, column)).all()
    for name in ("residuals", "weights", "shift", "movement", "gap", "moved"):
        assert np.all(getattr(a.solution.point, name) == getattr(b.solution.point, name))


def assert_same_assignment(a, b):
    for field in fields(a):
        mine, other = getattr(a, field.name), getattr(b, field.name)
        assert np.all(mine == other), field.name
        assert np.asarray(mine).dtype == np.asarray(other).dtype


def problem(kind, dtype, weighted, seed):
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(20, 700)), int(rng.integers(1, 30)), int(rng.integers(1, 20))
    X = difficult.points(kind, n, d, dtype, seed)
    weights = None
    if weighted:
        weights = rng.choice([0.0, 0.25, 1.0, 1.0 / 3.0, 1e-9, 1e7], size=n)
        weights[rng.integers(n)] = 1.0
    return rng, X, weights, X[rng.integers(0, n, size=k)].copy()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_in_parts_is_the_fit_of_the_whole(kind, dtype, weighted):
    for seed in range(4):
        rng, X, weights, seeds = problem(kind, dtype, weighted, seed)
        algorithm = str(rng.choice(["auto", "dense", "bounds", "tree"]))
        whole = fit(get_engine(FASTEST).open(X, weights, 1), seeds, stop=STOPS[seed % len(STOPS)])
        for share in (0.0, 0.3):
            parted = random_parts(rng, X, weights, share=share, algorithm=algorithm)
            assert_same_fit(fit(parted, seeds, stop=STOPS[seed % len(STOPS)]), whole)


@given(
    instances(),
    st.integers(0, 2**32 - 1),
    st.sampled_from(POLICIES),
    st.sampled_from([0.0, 0.5]),
)
def test_policies_ties_and_lost_labels(instance, seed, empty, share):
    rng = np.random.default_rng(seed)
    whole = fit(instance.open(FASTEST), instance.seeds, empty=empty)
    # Engines may even be mixed: their partial results are the same integers.
    engines = rng.choice(ENGINES, size=3).tolist()
    parted = random_parts(rng, instance.X, instance.weights, engines, share)
    found = fit(parted, instance.seeds, empty=empty)
    assert_same_fit(found, whole)
    certificates = [
        certificate_of(
            one, instance.X, method=None, notes=(), random=lambda: np.random.RandomState(0)
        )
        for one in (found, whole)
    ]
    assert certificates[0] == replace(certificates[1], engine=certificates[0].engine)


@pytest.mark.parametrize("ends", [[], [0], [300], [1], [299], [0, 0, 1, 1, 300], [50] * 4])
def test_parts_of_no_rows_of_one_and_of_all(ends):
    X = difficult.points("blobs", 300, 3)
    whole = fit(get_engine(FASTEST).open(X, None, 1), X[:9].copy())
    assert_same_fit(fit(PartsWorkspace(MemoryPlace(cut(X, None, ends))), X[:9].copy()), whole)


def test_every_part_losing_its_labels_at_every_question_changes_nothing():
    rng = np.random.default_rng(3)
    X = difficult.points("half lattice", 400, 2)
    seeds = np.concatenate([X[:6], X[:3] + 1e3])
    for empty in POLICIES:
        whole = fit(get_engine(FASTEST).open(X, None, 1), seeds, empty=empty)
        parted = random_parts(rng, X, None, share=1.0)
        assert_same_fit(fit(parted, seeds, empty=empty), whole)
        assert parted.place.lost > 10


def test_a_question_that_is_repeated_has_the_same_answer():
    """After an answer was lost on the way, the part has already gone on."""
    X = difficult.points("lattice", 200, 3)
    weights = np.random.default_rng(0).uniform(size=200)
    part, fresh = cut(X, weights, [])[0], cut(X, weights, [])[0]
    points = PartsWorkspace(MemoryPlace([part]))
    forced = Forced(np.array([3, 7, 20]), np.array([0, 5, 5], dtype=np.int32))
    here, plain = X[:6] + 0.25, X[:6] * 0.5
    free, bound = (points._labellings(here, force)[0] for force in (None, forced))
    part.assign(points._labellings(X[:9], None)[0], None)  # of another run, with other clusters
    for at, to in [(free, points._labellings(plain, None)[0]), (bound, free), (free, bound)]:
        first = cut(X, weights, [])[0]
        first.assign(at, None)
        expected = first.assign(to, at)
        assert expected.moved > 0
        for other in (part, part, fresh):
            found = other.assign(*pickle.loads(pickle.dumps((to, at))))
            assert (found.moved, found.gap.integer()) == (expected.moved, expected.gap.integer())
            assert (found.sums.values == expected.sums.values).all()
            assert (found.totals.values == expected.totals.values).all()


class Elsewhere(MemoryPlace):
    """Parts whose rows are there while they are asked, each time at another place."""

    def __init__(self, X, weights, ends, **settings):
        super().__init__(cut(X, weights, ends, **settings))
        borders = pairwise([0, *ends, len(X)])
        self.blocks = [(X[a:b], None if weights is None else weights[a:b]) for a, b in borders]
        for part in self.parts:
            part.detach_rows()

    def each(self, method, arguments):
        for number, given_ in arguments.items():
            rows, weights = self.blocks[number]
            rows = rows.copy()
            self.parts[number].attach_rows(rows, None if weights is None else weights.copy())
            yield getattr(self.parts[number], method)(*given_)
            self.parts[number].detach_rows()
            rows[:] = np.nan  # a later use of these rows shows


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("algorithm", ["auto", "dense", "bounds", "tree"])
def test_rows_that_are_detached_between_questions(engine, algorithm):
    for kind, dtype, weighted, seed in [
        ("blobs", "float64", False, 2),
        ("lattice", "float32", True, 3),
        ("offset", "float64", True, 4),
    ]:
        _, X, weights, seeds = problem(kind, dtype, weighted, seed)
        whole = fit(get_engine(FASTEST).open(X, weights, 1), seeds)
        ends = [len(X) // 3, len(X) // 2]
        parted = PartsWorkspace(Elsewhere(X, weights, ends, engine=engine, algorithm=algorithm))
        assert_same_fit(fit(parted, seeds), whole)


def test_a_part_without_its_rows_says_so():
    X = difficult.points("blobs", 50, 2)
    part = cut(X, None, [])[0]
    labelling = PartsWorkspace(MemoryPlace([part]))._labellings(X[:3], None)[0]
    part.assign(labelling, None)
    part.detach_rows()
    for ask in (part.describe, lambda: part.rows(np.array([0]))):
        with pytest.raises(RuntimeError, match="detached"):
            ask()
    with pytest.raises(RuntimeError, match="detached"):
        part.assign(labelling, labelling)
    for other, weights in [(X[:-1], None), (X.astype(np.float32), None), (X, np.ones(50))]:
        with pytest.raises(ValueError, match="rows must be as they were"):
            part.attach_rows(other, weights)
    part.attach_rows(X.copy())
    assert part.assign(labelling, labelling).moved == 0


def test_centers_that_change_later_do_not_change_what_is_remembered():
    X = difficult.points("blobs", 100, 2)
    points, whole = (
        PartsWorkspace(MemoryPlace(cut(X, None, [30]))),
        get_engine(FASTEST).open(X, None, 1),
    )
    centers = X[:4].copy()
    for workspace in (points, whole):
        workspace.assign(centers)
    centers *= 2.0
    points.place.parts[1].forget()
    assert (points.labels() == whole.labels()).all()


@given(instances(), st.integers(0, 2**32 - 1))
def test_all_that_a_workspace_answers(instance, seed):
    rng = np.random.default_rng(seed)
    whole = instance.open(FASTEST)
    parted = random_parts(rng, instance.X, instance.weights, share=0.3)
    n, k = len(instance.X), instance.n_clusters
    for name in ("n_points", "n_features", "dtype"):
        assert getattr(parted, name) == getattr(whole, name)
    assert parted.largest() == whole.largest()
    assert (parted.weights is None) == (whole.weights is None)
    assert whole.weights is None or (parted.weights == whole.weights).all()
    for weighted in (False, True):
        assert (parted.mean(weighted=weighted) == whole.mean(weighted=weighted)).all()
    some = rng.integers(0, n, size=7)
    assert (parted.rows(some) == whole.rows(some)).all()
    assert (parted.order() == whole.order()).all()
    assert (parted.distances_to(instance.X[0]) == whole.distances_to(instance.X[0])).all()
    assert (parted.roots(instance.seeds) == whole.roots(instance.seeds)).all()
    forced = Forced(rng.permutation(n)[:2], np.arange(min(n, 2), dtype=np.int32) % k)
    for centers, force in [(instance.seeds, None), (instance.seeds[::-1] + 0.5, forced)]:
        centers = np.ascontiguousarray(centers.astype(instance.X.dtype))
        a, b = parted.assign(centers, force), whole.assign(centers, force)
        assert_same_assignment(a, b)
        assert parted.step(a, centers) == whole.step(b, centers)
        assert parted.cost(centers) == whole.cost(centers)
        assert (parted.labels() == whole.labels()).all()
        assert (parted.distances(centers) == whole.distances(centers)).all()
    for a, b in zip(parted.nearest(centers), whole.nearest(centers), strict=True):
        assert (a == b).all()
    whole.assign(centers)
    parted.assign(centers)
    gone = rng.random(k) < 0.5
    if not gone.all():
        losses = [exact_sum(w.losses_without(centers, gone).tolist()) for w in (parted, whole)]
        assert losses[0] == losses[1]


@given(instances(), st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 5, 100]), st.booleans())
def test_far_rows_are_the_farthest_in_the_order_of_values(instance, seed, many, own):
    rng = np.random.default_rng(seed)
    parted = random_parts(rng, instance.X, instance.weights)
    n = len(instance.X)
    masses = parted.weights if own else rng.choice([0.0, 1.0], size=n)
    rows, distances, outside = parted.far_rows(instance.seeds, many, masses)
    whole = instance.open()
    nearest, order = whole.nearest(instance.seeds)[1], whole.order()
    heavy = np.ones(n) if masses is None else masses
    eligible = order[(nearest[order] > 0) & (heavy[order] > 0)]
    by_distance = eligible[np.argsort(-nearest[eligible], kind="stable")]
    assert (rows == eligible[np.isin(eligible, by_distance[:many])]).all()
    assert (distances == nearest[rows]).all()
    assert outside == (nearest[by_distance[many]] if len(by_distance) > many else 0.0)


@given(instances(), st.integers(0, 2**32 - 1), st.sampled_from([5, 256]), st.booleans())
def test_the_best_of_few_candidates(instance, seed, most, own):
    rng = np.random.default_rng(seed)
    parted = random_parts(rng, instance.X, instance.weights, rng.choice(ENGINES, 3).tolist())
    masses = parted.weights if own else rng.choice([0.0, 1.0, 0.1], size=len(instance.X))
    parted.assign(instance.seeds)
    distances = parted.distances(instance.seeds)
    found = parted.best_candidate(instance.seeds, masses, most)
    if most == 256:
        assert found == best_candidate(instance.open(), distances, masses)
    heavy = distances if masses is None else distances * (masses > 0)
    assert (found is None) == (np.count_nonzero(heavy) > most)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_seeds_are_those_of_the_whole(method):
    for seed, weighted in [(0, False), (1, True)]:
        rng, X, weights, seeds = problem("blobs", "float32", weighted, seed)
        chosen = [
            choose_seeds(one, len(seeds), method, np.random.RandomState(7))
            for one in (get_engine(FASTEST).open(X, weights, 1), random_parts(rng, X, weights))
        ]
        assert (chosen[0] == chosen[1]).all()


@given(st.integers(0, 2**32 - 1))
def test_partial_results_add_up_in_any_tree(seed):
    rng = np.random.default_rng(seed)
    n, weighted = int(rng.integers(8, 60)), bool(rng.integers(2))
    X = rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-12, 12, size=(n, 1))
    weights = rng.choice([0.0, 1e-7, 1.0, 3.0], size=n) if weighted else None
    parts = cut(X, weights, rng.integers(0, n + 1, size=7), rng.choice(ENGINES, 8).tolist())
    parts = [part for part in parts if part.describe().n_points]
    points = PartsWorkspace(MemoryPlace(parts))
    points.assign(X[:3].copy())
    at, to = points._labellings(X[:3], None)[0], points._labellings(X[3:6], None)[0]
    answers = [part.assign(to, at) for part in parts]
    total = combined(answers)
    while len(answers) > 1:
        a, b = answers.pop(rng.integers(len(answers))), answers.pop(rng.integers(len(answers)))
        answers.append(pickle.loads(pickle.dumps(a + b)))
    assert answers[0].moved == total.moved
    for name in ("gap", "totals", "sums"):
        assert (getattr(answers[0], name).values == getattr(total, name).values).all()


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20),
    st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=20),
)
def test_scalars_round_once(left, right):
    terms = [t * 2.0**-60 for t in left], right
    total = Limbs.of_terms(np.array(terms[0])) + Limbs.of_terms(np.array(terms[1]))
    try:
        expected = exact_sum([*terms[0], *terms[1]])
    except OverflowError:
        return
    assert total.rounded() == expected
    assert total.grid == SCALAR


@pytest.mark.parametrize("engine", ENGINES)
def test_a_scalar_that_is_not_finite_is_refused(engine):
    workspace = get_engine(engine).open(np.zeros((1, 1)), None, 1)
    assert workspace.exact_total(np.array([5e-324, 1.0, -1.0])).rounded() == 5e-324
    with pytest.raises(OverflowError, match="not finite"):
        workspace.exact_total(np.array([1.0, np.inf]))


@given(st.integers(8, 48), st.lists(st.integers(-(2**80), 2**80), min_size=1, max_size=200))
def test_carried_limbs_are_unique(bits, integers):
    grid = Grid(-3, bits, -(-81 // bits))
    one_by_one = [Limbs.of_integers(grid, [[i, -i]]) for i in integers]
    total = added(one_by_one)
    assert (total.integer(), total.integer(0, 1)) == (sum(integers), -sum(integers))
    assert (total.values == Limbs.of_integers(grid, [[sum(integers), -sum(integers)]]).values).all()


def test_many_parts_are_carried_before_a_limb_overflows():
    grid = Grid(0, 60, 1)
    top = Limbs(grid, np.full((1, 2, 1), [[[-(2**59)], [0]]], dtype=np.int64))
    assert added([top] * 1000).integer() == -1000 * 2**59


@pytest.mark.skipif(not native_is_available(), reason="needs the native module")
@pytest.mark.parametrize("kind", [*KINDS, "zero", "tiny", "huge", "equal"])
def test_native_sums_are_the_integers_of_the_reference(kind):
    for weighted in (False, True):
        _, X, weights, seeds = problem(kind, "float64", weighted, 1)
        engines = [get_engine(name).open(X, weights, 2) for name in ENGINES]
        native, plain = engines[1].ranges(), engines[0].ranges()
        assert native.rows.low in (plain.rows.low, plain.rows.low - 1)
        assert native.rows.high == plain.rows.high
        # A range that other parts have made wider.
        wider = native | Grids(Range(native.rows.low - 7, native.rows.high + 40), native.weights)
        for grids in (native, wider):
            opened = [engine.fork(1).summing_on(grids) for engine in engines]
            for centers in (seeds, seeds + X.dtype.type(0.125)):
                a, b = (one.assign_exactly(centers) for one in opened)
                assert (a.moved, a.gap.integer()) == (b.moved, b.gap.integer())
                assert (a.totals.grid, a.sums.grid) == (b.totals.grid, b.sums.grid)
                assert (a.totals.values == b.totals.values).all()
                assert (a.sums.values == b.sums.values).all()
                costs = [one.exact_cost(centers) for one in opened]
                assert (costs[0].values == costs[1].values).all()
                assert_same_assignment(a.rounded(centers), rounded(a, centers))


@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_outside_of_the_agreed_range_are_refused(engine):
    X = np.array([[1.0], [0.75]])
    small = get_engine(engine).open(X, None, 1).summing_on(Grids(Range(-1, 1), None))
    with pytest.raises(ValueError, match="outside of the given range"):
        small.assign_exactly(X[:1])


def test_the_range_of_an_array():
    assert range_of(np.array([0.0])) == Range()
    assert range_of(np.array([5e-324, -1.0])) == Range(-1074, 1)
    assert Range() | Range(2, 3) == Range(2, 3) | Range() == Range(2, 3)
    with pytest.raises(ValueError, match="finite"):
        range_of(np.array([np.inf]))


@pytest.mark.parametrize(
    ("X", "weights", "message"),
    [
        ([[1.0, np.nan]], None, "part 1 has NaN or infinity"),
        ([[1.0, 2.0]], [np.inf], "part 1 has NaN or infinity"),
        ([[1.0]], None, "part 1 does not match part 0: n_features is 1 in the first, 2 in"),
        ([[1.0, 2.0]], [1.0], "part 1 does not match part 0: weighted is True in the first, False"),
    ],
)
def test_a_part_that_does_not_fit_is_named(X, weights, message):
    first = MemoryPart(np.zeros((2, 2)), None if weights != [np.inf] else np.ones(2), FASTEST)
    weights = None if weights is None else np.array(weights)
    with pytest.raises(ValueError, match=message):
        PartsWorkspace(MemoryPlace([first, MemoryPart(np.array(X), weights, FASTEST)]))
    with pytest.raises(ValueError, match="no part has any rows"):
        PartsWorkspace(MemoryPlace([MemoryPart(np.zeros((0, 2)), engine=FASTEST)]))
    rows = MemoryPart(sparse.csr_array(np.eye(2)), None, FASTEST)
    with pytest.raises(ValueError, match="sparse is True in the first, False in the second"):
        PartsWorkspace(MemoryPlace([MemoryPart(np.eye(2), None, FASTEST), rows]))


def test_parts_that_must_not_be_gathered_say_so():
    X = difficult.points("blobs", 60, 2)
    parts = MemoryPlace(cut(X, None, [20]))
    parts.may_gather = False
    points = PartsWorkspace(parts)
    found = fit(points, X[:5].copy())  # the loop itself needs no gathering
    assert len(found.labels) == 60
    # Nor do more clusters than there are distinct points.
    few = PartsWorkspace(MemoryPlace(cut(X[[0, 0, 1, 1]], None, [1])))
    few.place.may_gather = False
    found = fit(few, X[:4].copy())
    certificate = certificate_of(
        found, X, method=None, notes=(), random=lambda: np.random.RandomState(0)
    )
    assert (certificate.empty_clusters, certificate.candidate_decrease) == (2, 0.0)
    with pytest.raises(NotImplementedError, match="all points in one place"):
        points.order()
    with pytest.raises(RuntimeError, match="no labels"):
        points.fork(1).labels()
