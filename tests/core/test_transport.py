"""The cheapest assignment under size limits: against SciPy, by its prices, engines by ==."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linear_sum_assignment, linprog

from instances import ENGINES
from wolfmeans.core.constrained import cheapest_cycle, size_limits
from wolfmeans.core.empty_clusters import admissible_assignment
from wolfmeans.core.transport import SizeLimits, cheapest, two_parts, whole_masses
from wolfmeans.engines import get_engine
from wolfmeans.engines.sized import SizeLimited


def random_problem(number):
    """Return points, weights, limits and centers: every other problem is on a lattice."""
    rng = np.random.default_rng(number)
    n, k, d = int(rng.integers(4, 50)), int(rng.integers(2, 7)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d)) if number % 2 else rng.integers(0, 3, size=(n, d)) * 1.0
    weights = rng.integers(0, 6, size=n) * 0.5 if number % 3 == 0 else None
    if weights is not None:
        weights[0] = 1.0
    total = n if weights is None else weights.sum()
    lower = np.floor(total / k * rng.random(k))
    upper = np.maximum(lower, np.floor(total * rng.random(k)))
    upper[0] += max(0.0, np.ceil(total - upper.sum()))
    return X, weights, size_limits(lower, upper, k, weights, n), X[rng.integers(0, n, size=k)]


def canonical(X, centers):
    costs = np.zeros((len(X), len(centers)))
    for j in range(X.shape[1]):
        costs += (X[:, j, None] - centers[None, :, j]) ** 2
    return costs


def exact_cost(plan, costs, masses):
    """Return the cost and the sizes of a plan in rational numbers."""
    total, sizes = Fraction(0), [0] * costs.shape[1]
    for row, label in enumerate(plan.labels.tolist()):
        mass = 1 if masses is None else masses[row]
        for k, part in plan.splits.get(row, {label: mass}).items():
            total += part * Fraction(costs[row, k])
            sizes[k] += part
    return total, sizes


def dual_value(prices, costs, masses, limits):
    """Return the dual value of prices in rational numbers."""
    p = [Fraction(price) for price in prices.tolist()]
    total = Fraction(0)
    for row, of_row in enumerate(costs.tolist()):
        mass = 1 if masses is None else masses[row]
        total += mass * min(Fraction(c) + price for c, price in zip(of_row, p, strict=True))
    for low, high, price in zip(limits.lower, limits.upper, p, strict=True):
        total -= high * max(price, 0) + low * min(price, 0)
    return total


@pytest.mark.parametrize("number", range(200))
def test_cost_is_that_of_scipy_and_prices_prove_it(number):
    X, weights, limits, centers = random_problem(number)
    costs, masses = canonical(X, centers), whole_masses(weights, limits.unit)
    n, k = costs.shape
    # Every other time from prices that are nowhere near.
    prices = np.random.default_rng(number).normal(size=k) if number % 4 > 1 else None
    plan = cheapest(costs, masses, limits, prices)
    total, sizes = exact_cost(plan, costs, masses)
    assert all(low <= size for low, size in zip(limits.lower, sizes, strict=True))
    assert all(size <= high for high, size in zip(limits.upper, sizes, strict=True))
    by_cluster = sparse.kron(np.ones((1, n)), sparse.eye(k))
    solved = linprog(
        costs.ravel(),
        A_ub=sparse.vstack([by_cluster, -by_cluster]),
        b_ub=[*limits.upper, *(-low for low in limits.lower)],
        A_eq=sparse.kron(sparse.eye(n), np.ones((1, k))),
        b_eq=np.ones(n) if masses is None else masses,
    )
    assert float(total) == pytest.approx(solved.fun, rel=1e-9, abs=1e-9)
    gap = total - dual_value(plan.prices, costs, masses, limits)
    assert 0 <= gap <= 1e-12 * (1 + total)
    if masses is None:
        assert not plan.splits
    elif number % 2:  # in general position
        assert len(plan.splits) <= k - 1


def test_balanced_sizes_are_a_linear_assignment():
    rng = np.random.default_rng(5)
    for n, k in ((12, 3), (20, 4), (30, 5)):
        costs = rng.random((n, k))
        each = n // k
        plan = cheapest(costs, None, SizeLimits((each,) * k, (each,) * k, n))
        rows, slots = linear_sum_assignment(np.repeat(costs, each, axis=1))
        best = costs[rows, slots // each].sum()
        assert costs[np.arange(n), plan.labels].sum() == pytest.approx(best, rel=1e-12)
        assert np.bincount(plan.labels).tolist() == [each] * k


def test_at_least_one_point_is_the_admissible_oracle():
    rng = np.random.default_rng(2)
    for _ in range(30):
        X = rng.normal(size=(20, 2))
        centers = np.concatenate([X[:3], X[:2] + 50.0])
        forced = admissible_assignment(get_engine("reference").open(X, None, 1), centers)
        costs = canonical(X, centers)
        labels = costs.argmin(axis=1)
        labels[forced.rows] = forced.labels
        plan = cheapest(costs, None, SizeLimits((1,) * 5, (20,) * 5, 20))
        found = costs[np.arange(20), plan.labels].sum()
        assert found == pytest.approx(costs[np.arange(20), labels].sum(), rel=1e-13)


def test_limits_that_do_not_matter_give_nearest_centers():
    costs = np.array([[1.0, 1.0, 2.0], [3.0, 0.0, 0.0], [2.0, 5.0, 1.0]])
    plan = cheapest(costs, None, SizeLimits((0, 0, 0), (3, 3, 3), 3))
    assert plan.labels.tolist() == [0, 1, 2]
    assert not plan.binding
    assert not plan.prices.any()


def test_of_equally_cheap_points_the_lowest_row_moves():
    costs = np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0, 2.0]])
    plan = cheapest(costs, None, SizeLimits((0, 2), (4, 4), 4))
    assert plan.labels.tolist() == [1, 1, 0, 0]
    assert plan.prices.tolist() == [0.0, -1.0]


def test_a_heavy_point_is_split_and_its_label_has_the_larger_share():
    costs = np.array([[0.0, 1.0], [0.0, 5.0]])
    plan = cheapest(costs, [10, 3], SizeLimits((0, 4), (13, 13), 13))
    assert plan.splits == {0: {0: 6, 1: 4}}
    assert plan.labels.tolist() == [0, 0]


def test_points_without_mass_are_at_their_nearest_center():
    costs = np.array([[0.0, 1.0], [0.0, 5.0], [7.0, 8.0]])
    plan = cheapest(costs, [1, 1, 0], SizeLimits((0, 2), (2, 2), 2))
    assert plan.labels.tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("mass", "unit"), [(0, 0), (1, -3), (2**53 + 1, 0), (2**105 - 1, -60), (3 << 80, 2)]
)
def test_a_mass_is_the_sum_of_two_parts(mass, unit):
    high, low = two_parts(mass, unit)
    assert Fraction(high) + Fraction(low) == mass * Fraction(2) ** unit
    assert high >= 0
    assert low >= 0


def test_cheapest_cycle():
    # A point of 0 moves to 1 at cost 1, back at cost 2: swapping costs 3.
    moves = np.array([[0.0, 1.0], [2.0, 0.0]])
    nowhere = np.zeros((2, 2), dtype=bool)
    assert cheapest_cycle(moves, nowhere) == 3.0
    # If cluster 1 may grow by what 0 loses, one move is enough.
    assert cheapest_cycle(moves, np.array([[False, False], [True, False]])) == 1.0


@st.composite
def sized_problems(draw):
    """Draw points, weights, limits and centers for the oracle."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(2, 60)), draw(st.integers(1, 4))
    k = draw(st.integers(1, min(n, 5)))
    lattice = draw(st.booleans())
    X = rng.integers(0, 3, size=(n, d)) * 1.0 if lattice else rng.normal(size=(n, d))
    X = X.astype(draw(st.sampled_from([np.float64, np.float32])))
    weights = None
    kind = draw(st.sampled_from(["none", "halves", "any"]))
    if kind != "none":
        weights = rng.integers(0, 4, size=n) * 0.5 if kind == "halves" else rng.exponential(size=n)
        weights[0] = 1.0
    total = n if weights is None else weights.sum()
    tight = draw(st.sampled_from([0.0, 0.5, 1.0]))
    low, high = tight * total / k * (1 - 1e-9), (2.0 - tight) * total / k * (1 + 1e-9)
    if weights is None:
        low, high = n // k if tight else 0, -(-n // k) if tight == 1.0 else n
    limits = size_limits(low, high, k, weights, n)
    return X, weights, limits, X[rng.integers(0, n, size=k)].copy()


@given(sized_problems())
def test_engines_agree_and_the_ledger_holds(problem):
    X, weights, limits, centers = problem
    oracles = [SizeLimited(get_engine(name).open(X, weights, 2), limits) for name in ENGINES]
    before = None
    for _ in range(4):
        found = [oracle.assign(centers) for oracle in oracles]
        for oracle, step in zip(oracles, found, strict=True):
            assert (step.moved, step.gap) == (found[0].moved, found[0].gap)
            assert np.array_equal(step.means, found[0].means)
            assert np.array_equal(step.residuals, found[0].residuals)
            assert np.array_equal(oracle.labels(), oracles[0].labels())
            assert np.array_equal(oracle.prices(), oracles[0].prices())
            assert oracle.splits() == oracles[0].splits()
            assert oracle.cost(centers) == oracles[0].cost(centers)
            assert oracle.optimality(centers).gap == oracles[0].optimality(centers).gap
        cost = oracles[0].cost(centers)
        assert 0 <= oracles[0].optimality(centers).gap <= 1e-12 * (1 + cost)
        assert found[0].gap >= 0
        if before is not None:
            assert before - cost == pytest.approx(found[0].gap, abs=1e-5 * (1 + before))
        sizes = _exact_sizes(oracles[0], weights, len(centers))
        unit = Fraction(2) ** limits.unit
        assert all(low * unit <= size for low, size in zip(limits.lower, sizes, strict=True))
        assert all(size <= high * unit for high, size in zip(limits.upper, sizes, strict=True))
        assert found[0].weights.tolist() == [float(size) for size in sizes]
        centers = found[0].means
        before = oracles[0].cost(centers)


def _exact_sizes(oracle, weights, n_clusters):
    """Return the sizes of the clusters in rational numbers."""
    sizes, parts = [Fraction(0)] * n_clusters, oracle.splits()
    split = {part.row for part in parts}
    for row, label in enumerate(oracle.labels().tolist()):
        if row not in split:
            sizes[label] += 1 if weights is None else Fraction(weights[row])
    for part in parts:
        sizes[part.cluster] += Fraction(part.high) + Fraction(part.low)
    return sizes


@settings(max_examples=10)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_samples_for_prices_change_nothing_but_speed(seed, weighted):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 40, size=(1500, 2)) * 1.0
    weights = rng.integers(0, 3, size=1500) * 1.0 if weighted else None
    total = 1500 if weights is None else int(weights.sum())
    limits = size_limits(total // 4, None, 3, weights, 1500)
    centers = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]])
    oracles = [SizeLimited(get_engine(name).open(X, weights, 2), limits) for name in ENGINES]
    for _ in range(3):
        found = [oracle.assign(centers) for oracle in oracles]
        assert all(np.array_equal(step.means, found[0].means) for step in found)
        assert all(np.array_equal(o.labels(), oracles[0].labels()) for o in oracles)
        assert oracles[0].optimality(centers).gap <= 1e-9
        centers = found[0].means


def test_native_steps_do_not_depend_on_threads_or_on_what_was_kept():
    if "cpu" not in ENGINES:
        pytest.skip("the native module was not built")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30_000, 6)) + rng.integers(0, 2, size=(30_000, 6)) * 3.0
    limits = size_limits(2500, 3500, 10, None, 30_000)
    oracles = [SizeLimited(get_engine("cpu").open(X, None, threads), limits) for threads in (1, 3)]
    centers = X[:10].copy()
    for _ in range(6):
        one, three = (oracle.assign(centers) for oracle in oracles)
        assert (one.moved, one.gap) == (three.moved, three.gap)
        assert np.array_equal(oracles[0].labels(), oracles[1].labels())
        assert oracles[0].optimality(centers).gap <= 1e-9
        centers = one.means
