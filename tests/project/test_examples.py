"""The examples: other concave problems that `minimize_concave` solves untouched.

Every run is held to the theorem (descent, gap >= 0, min gap <= h_0 / (t + 1), length within the
guarantee) and every answer to something found in another way: enumeration, scikit-learn, a formula.
"""

from __future__ import annotations

import importlib.util
import math
import runpy
import sys
from itertools import combinations, product
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.stats import chi2
from sklearn.covariance import MinCovDet

from wolfmeans import ConcaveProblem, Solution, Status, minimize_concave

pytestmark = pytest.mark.filterwarnings("error")
EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    """Import an example by its path."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


quadratic = load("concave_quadratic")
robust = load("robust_covariance")
control = load("bang_bang_control")


def assert_theorem(solution: Solution, minimum: float) -> None:
    """Check a run against a number that is at most min f, as close to it as is known."""
    values, gaps = solution.trace.sse, solution.trace.gap
    slack = 1e-9 * max(1.0, np.abs(values).max())
    assert np.all(gaps >= -slack)
    assert np.all(values[:-1] - values[1:] >= gaps[:-1] - slack)
    steps = np.arange(1, len(gaps) + 1)
    assert np.all(np.minimum.accumulate(gaps) <= (values[0] - minimum) / steps + slack)
    assert solution.best_gap == gaps.min()
    assert solution.value == values[-1] >= minimum - slack
    if solution.max_iterations is not None:
        assert solution.iterations <= solution.max_iterations


def assert_supergradient(problem: ConcaveProblem, points: list) -> None:
    """Check f(y) <= f(x) + <y - x, r> for all pairs, which concavity demands."""
    for x in points:
        r = problem.supergradient(x)
        for y in points:
            above = problem.value(x) - problem.gap(x, y, r)
            assert problem.value(y) <= above + 1e-9 * max(1.0, abs(above))


# -- concave quadratic ----------------------------------------------------------------------------


# 0, 11, 13 and 19 have a best vertex that few starts lead to.
@pytest.mark.parametrize("seed", [0, 1, 2, 11, 13, 19])
def test_quadratic_finds_the_best_vertex(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = quadratic.random_problem(4, 6, rng)
    best, n_vertices = quadratic.best_vertex(problem)
    assert n_vertices > 5
    runs = quadratic.solve(problem, quadratic.random_starts(problem, 60, rng), tol=1e-6)
    assert min(run.value for run in runs) == pytest.approx(best, abs=1e-8)
    vertices = problem.polytope.vertices()
    for run in runs:
        assert run.status in (Status.STATIONARY, Status.GAP)
        assert np.abs(vertices - run.point).max(axis=1).min() < 1e-8
        assert_theorem(run, best)


@pytest.mark.parametrize("seed", range(6))
def test_quadratic_oracle_returns_a_minimizing_vertex(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    polytope = quadratic.random_problem(3, 5, rng).polytope
    vertices = polytope.vertices()
    direction = rng.standard_normal(3)
    vertex, multipliers = polytope.minimize(direction)
    assert direction @ vertex == pytest.approx((vertices @ direction).min(), abs=1e-9)
    assert polytope.contains(vertex)
    assert not polytope.contains(1.01 * vertex / np.abs(vertex).max())
    assert np.all(multipliers >= 0)


@pytest.mark.parametrize("seed", range(8))
def test_quadratic_lower_bound_is_valid_and_says_something(seed: int) -> None:
    problem = quadratic.random_problem(4, 6, np.random.default_rng(200 + seed))
    best, _ = quadratic.best_vertex(problem)
    assert 4 * best < problem.lower_bound() <= best


def test_quadratic_lower_bound_is_exact_for_separable_curvature() -> None:
    box = quadratic.Polytope(np.zeros((1, 3)), np.ones(1), -np.ones(3), np.array([1.0, 2.0, 3.0]))
    problem = quadratic.ConcaveQuadratic(np.diag([1.0, 2.0, 3.0]), np.array([0.5, 0.0, 0.0]), box)
    # Best ends -1, 2, 3: -1/2 (1 + 8 + 27) - 0.5.
    assert problem.lower_bound() == pytest.approx(-18.5, rel=1e-9)
    assert problem.lower_bound() <= -18.5
    assert quadratic.best_vertex(problem)[0] == pytest.approx(-18.5)


def test_weak_duality_holds_for_careless_multipliers(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    polytope = quadratic.random_problem(3, 5, rng).polytope
    direction = rng.standard_normal(3)
    truth = (polytope.vertices() @ direction).min()
    assert polytope.bound_below(direction) == pytest.approx(truth, abs=1e-7)
    for _ in range(20):
        guess = rng.exponential(size=5)
        monkeypatch.setattr(quadratic.Polytope, "minimize", lambda *_, mu=guess: (None, mu))
        assert polytope.bound_below(direction) <= truth


def test_quadratic_supergradient() -> None:
    rng = np.random.default_rng(8)
    problem = quadratic.random_problem(5, 4, rng)
    points = list(0.7 * quadratic.random_starts(problem, 6, rng))
    assert_supergradient(problem, points)
    x, direction = points[0], rng.standard_normal(5)
    slope = (problem.value(x + 1e-5 * direction) - problem.value(x - 1e-5 * direction)) / 2e-5
    assert problem.supergradient(x) @ direction == pytest.approx(slope, abs=1e-8)


def test_quadratic_refuses_what_it_cannot_solve() -> None:
    box = quadratic.Polytope(np.zeros((1, 2)), np.ones(1), -np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match="negative eigenvalue"):
        quadratic.ConcaveQuadratic(np.diag([1.0, -1.0]), np.zeros(2), box)
    empty = quadratic.Polytope(np.eye(2), np.full(2, -2.0), -np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match="no solution"):
        empty.minimize(np.ones(2))


def test_quadratic_guarantee_comes_from_the_lower_bound() -> None:
    rng = np.random.default_rng(9)
    problem = quadratic.random_problem(10, 12, rng)
    for run in quadratic.solve(problem, quadratic.random_starts(problem, 4, rng), tol=0.01):
        budget = run.trace[0].value - problem.lower_bound()
        assert run.max_iterations == math.ceil(budget / 0.01)
        assert_theorem(run, problem.lower_bound())


# -- robust covariance ----------------------------------------------------------------------------


def random_weights(n_points: int, total: int, rng: np.random.Generator) -> np.ndarray:
    """Return weights in [0, 1] with the given sum: an average of vertices."""
    vertices = np.zeros((5, n_points))
    for row in vertices:
        row[rng.choice(n_points, total, replace=False)] = 1.0
    return rng.dirichlet(np.ones(5)) @ vertices


def test_covariance_objective_is_concave() -> None:
    rng = np.random.default_rng(10)
    problem = robust.TrimmedCovariance(rng.standard_t(3, (25, 3)), 14)
    points = [random_weights(25, 14, rng) for _ in range(8)]
    for first, second in combinations(points, 2):
        chord = (problem.value(first) + problem.value(second)) / 2
        assert problem.value((first + second) / 2) >= chord - 1e-12
    for x in points:
        r = problem.supergradient(x)
        for y in points:
            assert problem.value(y) <= problem.value(x) + (y - x) @ r + 1e-12
    direction = points[1] - points[0]
    ahead, behind = (problem.value(points[0] + step * direction) for step in (1e-5, -1e-5))
    slope = problem.supergradient(points[0]) @ direction
    assert slope == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)


def test_covariance_gap_is_the_inner_product() -> None:
    rng = np.random.default_rng(11)
    problem = robust.TrimmedCovariance(rng.standard_normal((30, 2)), 18)
    point = random_weights(30, 18, rng)
    r = problem.supergradient(point)
    vertex = problem.minimize_linear(r)
    assert vertex.sum() == 18
    assert r[vertex > 0].max() <= r[vertex == 0].min()
    assert problem.gap(point, vertex, r) == pytest.approx((point - vertex) @ r, abs=1e-12)
    assert problem.gap(vertex, vertex, r) == 0


def test_covariance_oracle_gives_ties_to_the_lowest_rows() -> None:
    problem = robust.TrimmedCovariance(np.random.default_rng(13).standard_normal((200, 2)), 120)
    kept = np.flatnonzero(problem.minimize_linear(np.tile([1.0, 0.0], 100)))
    assert kept.tolist() == sorted([*range(1, 200, 2), *range(0, 40, 2)])


def c_steps(points: np.ndarray, kept: np.ndarray) -> tuple[list[float], np.ndarray]:
    """Return the log-determinants and the last subset of FAST-MCD's C-steps, written plainly."""
    determinants = []
    while True:
        sample = points[kept]
        covariance = np.cov(sample.T, bias=True)
        determinants.append(np.log(np.linalg.det(covariance)))
        centered = points - sample.mean(axis=0)
        distances = np.einsum("ij,jk,ik->i", centered, np.linalg.inv(covariance), centered)
        nearest = np.sort(np.argsort(distances)[: len(kept)])
        if np.array_equal(nearest, kept):
            return determinants, kept
        kept = nearest


def test_unit_step_is_the_c_step() -> None:
    rng = np.random.default_rng(12)
    points = rng.standard_t(2, (80, 2))
    problem = robust.TrimmedCovariance(points, 45)
    lengths = []
    for _ in range(5):
        start = robust.start_from_simplex(problem, rng)
        determinants, kept = c_steps(points, np.flatnonzero(start))
        run = minimize_concave(problem, start, stop="stationary", max_iter=100)
        assert run.status is Status.STATIONARY
        np.testing.assert_allclose(run.trace.sse, determinants, rtol=1e-10, atol=1e-12)
        assert np.flatnonzero(run.point).tolist() == kept.tolist()
        lengths.append(len(determinants))
    assert max(lengths) > 3


@pytest.mark.parametrize("seed", range(4))
def test_covariance_finds_the_best_subset(seed: int) -> None:
    rng = np.random.default_rng(20 + seed)
    points = rng.standard_t(2, (12, 2))
    result = robust.fit(points, 7, 60, rng)
    by_hand = {
        kept: np.log(np.linalg.det(np.cov(points[list(kept)].T, bias=True)))
        for kept in combinations(range(12), 7)
    }
    best = min(by_hand, key=by_hand.get)
    assert result.best.value == pytest.approx(by_hand[best], abs=1e-10)
    assert tuple(np.flatnonzero(result.kept)) == best
    assert by_hand[best] - 4 < result.problem.lower_bound() <= by_hand[best]
    for run in result.runs:
        assert_theorem(run, by_hand[best])


def test_cauchy_binet() -> None:
    points = np.random.default_rng(30).standard_normal((9, 3))
    determinant = np.linalg.det(np.cov(points.T, bias=True))
    assert robust.squared_volumes(points).sum() == pytest.approx(9**4 * determinant, rel=1e-10)
    # With nothing to trim the bound is the value itself.
    problem = robust.TrimmedCovariance(points, 9)
    assert problem.lower_bound() == pytest.approx(problem.value(np.ones(9)), abs=1e-8)
    assert robust.TrimmedCovariance(np.eye(9)[:, :8].repeat(20, axis=0), 90).lower_bound() is None


@pytest.mark.parametrize(("n_points", "dimension"), [(60, 2), (120, 3), (200, 5)])
def test_covariance_is_at_least_as_good_as_scikit_learn(n_points: int, dimension: int) -> None:
    rng = np.random.default_rng(n_points)
    points = rng.standard_normal((n_points, dimension))
    points[: n_points // 4] *= 5
    result = robust.fit(points, robust.customary_size(points), 60, rng)
    reference = robust.fast_mcd(result.problem)
    assert result.best.value <= reference + 1e-9
    assert result.best.status is Status.STATIONARY
    # The comparison is with MinCovDet's own raw covariance of the same number of points.
    share = (result.problem.n_kept + 0.5) / n_points
    model = MinCovDet(support_fraction=share, random_state=0).fit(points)
    assert model.raw_support_.sum() == result.problem.n_kept
    assert reference == pytest.approx(np.linalg.slogdet(model.raw_covariance_)[1], abs=1e-9)


def test_outliers_are_found() -> None:
    rng = np.random.default_rng(40)
    points, outlying = robust.contaminated_sample(150, 45, rng)
    result = robust.fit(points, robust.customary_size(points), 40, rng)
    limit = chi2.ppf(0.975, 2)
    flagged = result.robust_distances() > limit
    assert np.all(flagged[outlying])
    assert np.mean(flagged[~outlying]) < 0.1
    assert not np.any(result.kept & outlying)
    # The classical covariance is pulled over to the outliers: what they mask, trimming shows.
    everything = robust.TrimmedCovariance(points, 150)
    assert np.mean(everything.distances(np.ones(150))[outlying] > limit) < 0.1
    assert robust.fast_mcd(everything) == pytest.approx(everything.value(np.ones(150)))


def test_robust_distances_follow_chi_squared_on_gaussian_data() -> None:
    rng = np.random.default_rng(41)
    points = rng.standard_normal((2000, 3))
    distances = robust.fit(points, 1500, 5, rng).robust_distances()
    levels = [0.25, 0.5, 0.75, 0.9]
    np.testing.assert_allclose(np.quantile(distances, levels), chi2.ppf(levels, 3), rtol=0.1)


def test_sky_is_not_gaussian() -> None:
    sky = robust.sky_features()
    assert sky.shape == (330, 9)
    np.testing.assert_allclose(sky.T @ sky / 330, np.eye(9), atol=1e-8)
    rng = np.random.default_rng(0)
    result = robust.fit(sky, robust.customary_size(sky), 200, rng)
    assert result.best.status is Status.STATIONARY
    assert result.best.max_iterations is None
    assert result.best.value <= robust.fast_mcd(result.problem) + 1e-9
    gaussian = rng.standard_normal(sky.shape)
    reference = robust.fit(gaussian, robust.customary_size(gaussian), 20, rng)
    expected = chi2.ppf([0.75, 0.9, 0.99], 9)
    assert np.all(np.quantile(result.robust_distances(), [0.75, 0.9, 0.99]) > 5 * expected)
    assert np.all(np.quantile(reference.robust_distances(), [0.75, 0.9, 0.99]) < 1.6 * expected)


def test_covariance_refuses_flat_data_and_wrong_sizes() -> None:
    rng = np.random.default_rng(42)
    points = rng.standard_normal((20, 2))
    for n_kept in (2, 21):
        with pytest.raises(ValueError, match="n_kept must be more than 2 and at most 20"):
            robust.TrimmedCovariance(points, n_kept)
    flat = np.column_stack([points[:, 0], 3 * points[:, 0]])
    with pytest.raises(ValueError, match="hyperplane"):
        robust.fit(flat, 12, 1, rng)
    with pytest.raises(ValueError, match="hyperplane"):
        robust.TrimmedCovariance(flat, 12).value(np.repeat([1.0, 0.0], [12, 8]))
    # Unlike units are not flatness.
    units = np.array([1e-9, 1e9])
    shift = robust.TrimmedCovariance(points * units, 12).value(np.repeat([1.0, 0.0], [12, 8]))
    plain = robust.TrimmedCovariance(points, 12).value(np.repeat([1.0, 0.0], [12, 8]))
    assert shift == pytest.approx(plain, abs=1e-9)


# -- bang-bang control ----------------------------------------------------------------------------


def random_system(n_cells: int = 12) -> tuple[object, np.ndarray, np.ndarray, np.ndarray]:
    """Return a problem with its dynamics, force and initial state."""
    rng = np.random.default_rng(50)
    dynamics, force, initial = rng.standard_normal((3, 3)), *rng.standard_normal((2, 3))
    problem = control.TerminalEnergy(dynamics, force, initial, 1.5, n_cells)
    return problem, dynamics, force, initial


def test_control_solves_its_differential_equation() -> None:
    problem, dynamics, force, initial = random_system()
    pushes = np.random.default_rng(51).uniform(-1, 1, problem.n_cells)
    state = initial
    for push in pushes:  # piece by piece, so that the integrator meets no jump
        flow = solve_ivp(
            lambda _, x, u=push: dynamics @ x + force * u,
            (0, problem.dt),
            state,
            rtol=1e-10,
            atol=1e-12,
        )
        state = flow.y[:, -1]
    np.testing.assert_allclose(problem.terminal_state(pushes), state, rtol=1e-6)
    np.testing.assert_allclose(problem.trajectory(pushes)[-1], state, rtol=1e-6)
    np.testing.assert_array_equal(problem.trajectory(pushes)[0], initial)


def test_control_supergradient_is_the_averaged_switching_function() -> None:
    problem, dynamics, force, _ = random_system()
    rng = np.random.default_rng(52)
    pushes = rng.uniform(-1, 1, problem.n_cells)
    nodes, weights = np.polynomial.legendre.leggauss(6)
    terminal = problem.terminal_state(pushes)
    averages = [
        sum(
            weight / 2 * force @ expm(dynamics.T * (problem.horizon - time)) @ terminal
            for weight, time in zip(weights, middle + problem.dt / 2 * nodes, strict=True)
        )
        for middle in problem.middles
    ]
    np.testing.assert_allclose(problem.supergradient(pushes), -np.array(averages), rtol=1e-8)
    direction = rng.standard_normal(problem.n_cells)
    ahead, behind = (problem.value(pushes + step * direction) for step in (1e-5, -1e-5))
    inner_product = problem.supergradient(pushes) @ direction * problem.dt
    assert inner_product == pytest.approx((ahead - behind) / 2e-5, rel=1e-6)
    assert_supergradient(problem, [rng.uniform(-1, 1, problem.n_cells) for _ in range(5)])


def test_control_gap_is_an_integral() -> None:
    problem, *_ = random_system()
    pushes = np.random.default_rng(53).uniform(-1, 1, problem.n_cells)
    switching = problem.supergradient(pushes)
    vertex = problem.minimize_linear(switching)
    assert set(np.unique(vertex)) <= {-1.0, 1.0}
    expected = np.sum(np.abs(switching) + pushes * switching) * problem.dt
    assert problem.gap(pushes, vertex, switching) == pytest.approx(expected)


@pytest.mark.parametrize("horizon", [2.0, 5.0, 8.0, 12.0])
def test_exact_optimum_by_searching_the_phase(horizon: float) -> None:
    times = (np.arange(4000) + 0.5) / 4000 * horizon
    phases = np.linspace(0, math.pi, 721)
    reach = [np.abs(np.sin(times + phase)).mean() * horizon for phase in phases]
    value, switches = control.exact_optimum(horizon)
    assert value == pytest.approx(-0.5 * max(reach) ** 2, rel=1e-4)
    best = phases[np.argmax(reach)]
    zeros = [k * math.pi - best for k in range(1, 5) if 0 < k * math.pi - best < horizon]
    np.testing.assert_allclose(switches, zeros, atol=0.01)


@pytest.mark.parametrize("horizon", [2.0, 5.0, 8.0])
def test_control_converges_to_the_exact_optimum(horizon: float) -> None:
    value, switches = control.exact_optimum(horizon)
    for n_cells in (64, 256, 1024):
        problem = control.oscillator(n_cells, horizon)
        solution = control.solve(problem)
        assert solution.status is Status.STATIONARY
        assert_theorem(solution, value)
        # True controls cannot beat the optimum, and the excess is of second order.
        assert -1e-12 <= solution.value - value <= 15 * problem.dt**2
        found = problem.switching_times(solution.point)
        np.testing.assert_allclose(found, switches, atol=3 * problem.dt)


def test_control_finds_the_best_of_all_coarse_controls() -> None:
    problem = control.oscillator(10)
    best = min(problem.value(np.array(signs)) for signs in product([-1.0, 1.0], repeat=10))
    rng = np.random.default_rng(54)
    runs = [
        minimize_concave(problem, rng.uniform(-1, 1, 10), stop="gap", tol=1e-9) for _ in range(20)
    ]
    assert min(run.value for run in runs) == pytest.approx(best, abs=1e-12)
    for run in runs:
        assert_theorem(run, best)


def test_control_guarantee_does_not_know_the_grid() -> None:
    runs = [control.solve(control.oscillator(n_cells), 0.01) for n_cells in (128, 512, 2048)]
    guarantees = [run.max_iterations for run in runs]
    assert max(guarantees) <= math.ceil((control.HORIZON**2 / 2) / 0.01)
    assert min(guarantees) >= 0.99 * max(guarantees)
    steps = [run.iterations for run in runs]
    assert max(steps) - min(steps) <= 1
    for run in runs:
        assert run.status is Status.GAP
        assert 0 < run.gap <= 0.01
    problem, *_ = random_system(8)
    best = min(problem.value(np.array(signs)) for signs in product([-1.0, 1.0], repeat=8))
    assert problem.lower_bound() <= best


# -- wrong problems end with a status of their own ------------------------------------------------


class ConvexQuadratic(quadratic.ConcaveQuadratic):
    """The wrong sign everywhere: a convex objective."""

    def value(self, point):
        return -super().value(point)

    def supergradient(self, point):
        return -super().supergradient(point)


class WrongVertex(control.TerminalEnergy):
    """An oracle that maximizes."""

    def minimize_linear(self, supergradient):
        return -super().minimize_linear(supergradient)


class ForgottenTerm(robust.TrimmedCovariance):
    """A supergradient that is ten times too large, so that every step promises too much."""

    def supergradient(self, point):
        return 10 * super().supergradient(point)


class Seesaw(ConcaveProblem):
    """A convex |x|, too small to be seen beside the constant: each end prefers the other one."""

    def value(self, point):
        return 1e15 + abs(float(point[0])) / 100

    def supergradient(self, point):
        return np.sign(point) / 100

    def minimize_linear(self, supergradient):
        return -np.sign(supergradient)


def test_convex_objective_violates_descent() -> None:
    rng = np.random.default_rng(60)
    right = quadratic.random_problem(4, 4, rng)
    start = 0.5 * quadratic.random_starts(right, 1, rng)[0]
    wrong = ConvexQuadratic(right.factor.T @ right.factor, right.linear, right.polytope)
    solution = minimize_concave(wrong, start, stop="gap", tol=1e-6, max_iter=50)
    assert solution.status is Status.DESCENT_VIOLATED
    assert not solution.converged
    assert minimize_concave(right, start, stop="gap", tol=1e-6, max_iter=50).converged


def test_wrong_vertex_violates_descent() -> None:
    wrong = WrongVertex(control.OSCILLATOR, control.FORCE, np.zeros(2), 8.0, 64)
    solution = control.solve(wrong)
    assert solution.status is Status.DESCENT_VIOLATED
    assert solution.gap < 0
    assert not solution.converged


def test_wrong_supergradient_violates_descent() -> None:
    rng = np.random.default_rng(61)
    points, _ = robust.contaminated_sample(60, 15, rng)
    wrong = ForgottenTerm(points, 32)
    start = np.repeat([1.0, 0.0], [32, 28])
    solution = minimize_concave(wrong, start, stop="gap", tol=1e-6, max_iter=50)
    assert solution.status is Status.DESCENT_VIOLATED
    assert solution.gap > 0 > solution.movement


def test_cycle_ends_with_repeated_state() -> None:
    solution = minimize_concave(Seesaw(), np.ones(1), stop="gap", tol=1e-6, max_iter=1000)
    assert solution.status is Status.REPEATED_STATE
    assert not solution.converged
    assert solution.iterations == 2
    assert solution.trace.sse.tolist() == [1e15, 1e15, 1e15]


# -- the scripts ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (quadratic, ["guarantee", "by enumeration", "lower bound", str(Status.STATIONARY)]),
        (robust, ["MinCovDet", "45 of 45 outliers", "rank 9", "chi^2", str(Status.STATIONARY)]),
        (control, ["guarantee", "exact", str(Status.STATIONARY), str(Status.GAP)]),
    ],
    ids=["quadratic", "covariance", "control"],
)
def test_main_prints_and_draws(module, expected, tmp_path, capsys) -> None:
    pytest.importorskip("matplotlib")
    picture = tmp_path / "picture.png"
    module.main(["--figure", str(picture)])
    printed = capsys.readouterr().out
    for words in expected:
        assert words in printed
    assert "Failed" not in printed
    assert "nan" not in printed
    assert max(map(len, printed.splitlines())) <= 120
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 10_000


def test_runs_as_a_script_and_repeats_itself(monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["bang_bang_control.py"])
    runpy.run_path(str(EXAMPLES / "bang_bang_control.py"), run_name="__main__")
    first = capsys.readouterr().out
    control.main([])
    assert first == capsys.readouterr().out
