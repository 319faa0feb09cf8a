"""The loop: what it returns, how it ends, and how often it asks."""

import math
import time

import numpy as np
import pytest

from wolfmeans import ConcaveProblem, Status, minimize_concave


class Cube(ConcaveProblem):
    """-||x - shift||^2 over [-1, 2]^d: every vertex beyond reach of the others is a fixed point."""

    def __init__(self, shift=0.0, bound=None):
        self.shift = shift
        self.bound = bound
        self.asked = 0

    def value(self, x):
        return -float(np.sum((x - self.shift) ** 2))

    def supergradient(self, x):
        return -2 * (x - self.shift)

    def minimize_linear(self, r):
        self.asked += 1
        return np.where(r < 0, 2.0, -1.0)

    def lower_bound(self):
        return self.bound


class Staircase(ConcaveProblem):
    """min over k of slopes: f on [0, N] falls by one unit a step when the oracle is cautious.

    f(x) = -x is linear, hence concave; the oracle is that of the interval [0, N], but it is asked
    through `reach`, which limits how far a vertex may lie, so that runs have a known length.
    """

    steps_per_block = 1

    def __init__(self, length):
        self.length = length
        self.position = 0.0

    def value(self, x):
        self.position = float(x)
        return -float(x)

    def supergradient(self, x):
        self.position = float(x)
        return -1.0

    def minimize_linear(self, r):
        return np.float64(min(self.position + 1.0, self.length))

    def lower_bound(self):
        return -float(self.length)


def test_returns_the_fixed_point_with_zero_gap():
    solution = minimize_concave(Cube(), np.array([0.3, -0.2]))
    assert solution.point.tolist() == [2.0, -1.0]
    assert solution.status is Status.STATIONARY
    assert solution.gap == solution.movement == 0.0
    assert solution.value == -5.0
    assert solution.best_gap == 0.0
    assert solution.converged


def test_the_oracle_is_asked_once_for_every_evaluated_point():
    problem = Cube()
    solution = minimize_concave(problem, np.array([0.3, -0.2, 1.0]))
    assert problem.asked == len(solution.trace)


@pytest.mark.parametrize("max_iter", [0, 1, 3])
def test_the_iteration_limit_counts_steps_and_is_not_called_convergence(max_iter):
    solution = minimize_concave(Staircase(10), np.float64(0.0), max_iter=max_iter)
    assert solution.status is Status.MAX_ITER
    assert not solution.converged
    assert solution.iterations == max_iter
    assert float(solution.point) == max_iter
    # The step at the returned point was evaluated, so its gap is known, but not taken.
    assert solution.gap == 1.0
    assert float(solution.vertex) == max_iter + 1


def test_a_rule_met_at_the_limit_counts_as_met():
    solution = minimize_concave(Staircase(3), np.float64(0.0), max_iter=3)
    assert solution.status is Status.STATIONARY
    assert solution.iterations == 3


def test_the_guarantee_is_known_before_and_kept():
    solution = minimize_concave(Staircase(7), np.float64(0.0), stop="gap", tol=0.75)
    assert solution.max_iterations == math.ceil(7 / 0.75)
    assert solution.iterations == 8 <= solution.max_iterations
    assert minimize_concave(Cube(), np.array([0.1])).max_iterations is None


def test_the_step_that_meets_the_rule_is_not_taken():
    solution = minimize_concave(Staircase(7), np.float64(0.0), stop="gap", tol=1.0)
    assert solution.status is Status.GAP
    assert float(solution.point) == 0.0
    assert solution.gap <= 1.0
    assert solution.iterations == 1


def test_time_limit_ends_the_run_without_claiming_convergence():
    class Slow(Staircase):
        def minimize_linear(self, r):
            time.sleep(0.01)
            return super().minimize_linear(r)

    solution = minimize_concave(Slow(10_000), np.float64(0.0), time_limit=0.05)
    assert solution.status is Status.TIME_LIMIT
    assert not solution.converged
    assert 1 <= solution.iterations < 10_000


def test_callback_sees_every_record_and_can_stop():
    seen = []

    def callback(record):
        seen.append(record.t)
        return record.t == 4

    solution = minimize_concave(Staircase(10), np.float64(0.0), callback=callback)
    assert seen == [0, 1, 2, 3, 4]
    assert solution.status is Status.CALLBACK
    assert solution.iterations == 4


def test_an_exception_in_the_callback_passes_through():
    def callback(record):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        minimize_concave(Staircase(10), np.float64(0.0), callback=callback)


@pytest.mark.parametrize("block", [1, 2, 3, 100])
@pytest.mark.parametrize("max_iter", [None, 5, 6])
def test_blocks_change_nothing(block, max_iter):
    problem = Staircase(9)
    problem.steps_per_block = block
    solution = minimize_concave(problem, np.float64(0.0), stop="gap", tol=0.5, max_iter=max_iter)
    single = minimize_concave(Staircase(9), np.float64(0.0), stop="gap", tol=0.5, max_iter=max_iter)
    assert solution.iterations == single.iterations
    assert solution.status is single.status
    assert float(solution.point) == float(single.point)
    assert (solution.trace.gap == single.trace.gap).all()


@pytest.mark.parametrize("block", [1, 4])
def test_a_violated_descent_is_found_in_any_block(block):
    class Liar(Staircase):
        """Climbs once, at its third step, although its gap promises a fall."""

        def value(self, x):
            return super().value(x) + (5.0 if float(x) == 3.0 else 0.0)

    problem = Liar(9)
    problem.steps_per_block = block
    solution = minimize_concave(problem, np.float64(0.0))
    assert solution.status is Status.DESCENT_VIOLATED
    assert not solution.converged


def test_a_constant_added_to_the_objective_changes_no_status():
    rng = np.random.default_rng(0)
    for _ in range(50):
        slope, start = rng.normal(size=6), rng.uniform(-1, 2, size=6)

        class Linear(Cube):
            def value(self, x, slope=slope, start=start):
                return float(slope @ (x - start))

            def supergradient(self, x, slope=slope):
                return slope

            def minimize_linear(self, r):
                return np.where(r < 0, 2.0, -1.0)

        solution = minimize_concave(Linear(), start, stop="stationary", max_iter=10)
        assert solution.status is Status.STATIONARY


def test_a_tie_is_not_a_fixed_point_while_a_step_gains():
    solution = minimize_concave(Cube(), np.array([0.0]), stop="decrease", tol=1e-9)
    assert solution.point.tolist() == [-1.0]
    assert solution.trace.gap[0] == 0.0
    assert solution.trace.movement[0] == 1.0


def test_coming_back_to_an_earlier_point_ends_the_run():
    class Circle(ConcaveProblem):
        """A constant objective whose oracle wanders, with gaps that are rounding alone."""

        def value(self, x):
            return 1.0

        def supergradient(self, x):
            return x

        def minimize_linear(self, r):
            return (r + 1) % 3

        def gap(self, point, vertex, supergradient):
            return 1e-300

        def lower_bound(self):
            return 0.0

    solution = minimize_concave(Circle(), np.array([0.0]), max_iter=100)
    assert solution.status is Status.REPEATED_STATE
    assert solution.iterations == 3
    assert not solution.converged


def test_trace_columns_have_one_row_for_every_evaluated_point():
    trace = minimize_concave(Staircase(4), np.float64(0.0)).trace
    assert trace.t.tolist() == [0, 1, 2, 3, 4]
    assert trace.sse.tolist() == [0.0, -1.0, -2.0, -3.0, -4.0]
    assert trace.gap.tolist() == [1.0, 1.0, 1.0, 1.0, 0.0]
    assert trace.rate_bound.tolist() == [4.0, 2.0, 4 / 3, 1.0, 0.8]
    assert (np.diff(trace.seconds) >= 0).all()
    assert np.isnan(minimize_concave(Cube(), np.array([0.1])).trace.rate_bound).all()


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="max_iter"):
        minimize_concave(Cube(), np.array([0.0]), max_iter=-1)
    with pytest.raises(ValueError, match="time_limit"):
        minimize_concave(Cube(), np.array([0.0]), time_limit=math.nan)
    with pytest.raises(ValueError, match="stop"):
        minimize_concave(Cube(), np.array([0.0]), stop="later")
    with pytest.raises(ValueError, match="finite"):
        minimize_concave(Cube(), np.array([math.inf]))


def test_every_status_is_a_sentence():
    for status in Status:
        assert str(status).endswith(".")
        assert status.converged == str(status).startswith(("Stationary", "Converged"))
