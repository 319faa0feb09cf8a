"""Bang-bang control: pump as much energy as possible into an oscillator, as a concave problem.

A linear system x' = Ax + Bu starts at x(0) and is steered up to the time T by a control with
|u(t)| <= 1. To maximize the convex 1/2 |x(T)|^2 is to minimize

    f(u) = -1/2 |x(T)|^2,   x(T) = e^(AT) x(0) + integral of e^(A(T - t)) B u(t) dt,

a concave function over a bounded, closed and convex set of the Hilbert space L2(0, T). Algorithm 1
and its proof use nothing but the inner product, so they hold there as they stand:

- *supergradient*: with the adjoint equation -p' = A'p, p(T) = x(T), the gradient in L2 is the
  switching function r(t) = -B'p(t);
- *oracle*: s(t) = -sign r(t), a bang-bang control;
- *gap*: the integral of (u - s) r, which is the integral of |r| + u r;
- *guarantee*: |x(T)| <= |e^(AT) x(0)| + integral of |e^(A(T - t)) B| dt =: R, so f >= -1/2 R^2.
  Neither this bound nor the number of steps that follows knows anything about a grid.

**In time steps.** Controls that are constant on n cells form a subspace. On it the equations are
solved without error by the matrix exponential of one cell; the inner product is the sum over the
cells times dt, and the gradient is the average of r over each cell. So the discrete problem is the
continuous one, restricted: its values are attained by true controls, and they approach the
optimum from above.

**The exact answer** for the oscillator y'' + y = u at rest, with T = k pi + rho, 0 < rho < pi.
The largest |x(T)| is the largest value over p, |p| = 1, of the integral of |p'e^(A(T - t)) B| dt,
and that integrand is |sin(t + phase)|. Its k full arches give 2 each; the remaining piece of
length rho is best centered at the top of an arch and gives 2 sin(rho / 2). Hence

    min f = -1/2 (2k + 2 sin(rho / 2))^2,

and u changes its sign k times, pi apart and symmetrically about T / 2.

Run it with

    python examples/bang_bang_control.py [--figure FILE]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from wolfmeans import ConcaveProblem, Solution, Status, minimize_concave

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

OSCILLATOR = np.array([[0.0, 1.0], [-1.0, 0.0]])
FORCE = np.array([0.0, 1.0])
HORIZON = 8.0


class TerminalEnergy(ConcaveProblem[Vector]):
    """f(u) = -1/2 |x(T)|^2 for x' = dynamics @ x + force * u, u constant on `n_cells` cells."""

    def __init__(
        self, dynamics: Matrix, force: Vector, initial: Vector, horizon: float, n_cells: int
    ) -> None:
        dimension = len(force)
        self.initial = initial
        self.horizon = horizon
        self.n_cells = n_cells
        self.dt = horizon / n_cells
        # One exponential gives the flow over a cell and the response to a unit control in it.
        extended = np.zeros((dimension + 1, dimension + 1))
        extended[:dimension, :dimension] = dynamics
        extended[:dimension, dimension] = force
        flow = expm(extended * self.dt)
        self._flow: Matrix = flow[:dimension, :dimension]
        self._response: Vector = flow[:dimension, dimension]
        self._influence = self._solve_adjoint()
        self._drift: Vector = expm(dynamics * horizon) @ initial

    def _solve_adjoint(self) -> Matrix:
        """Return the influence of each cell on x(T), row by row, backwards in time.

        The adjoint equation is linear in p(T), so one sweep serves every terminal state to come:
        the cell average of B'p is influence @ p(T) / dt.
        """
        influence = np.empty((self.n_cells, len(self._response)))
        backwards = self._response
        for cell in reversed(range(self.n_cells)):
            influence[cell] = backwards
            backwards = self._flow @ backwards
        return influence

    @property
    def times(self) -> Vector:
        """The ends of the cells, 0 and T included."""
        return np.arange(self.n_cells + 1, dtype=np.float64) * self.dt

    @property
    def middles(self) -> Vector:
        """The middles of the cells."""
        return (np.arange(self.n_cells, dtype=np.float64) + 0.5) * self.dt

    def terminal_state(self, control: Vector) -> Vector:
        """Return x(T)."""
        state: Vector = self._drift + control @ self._influence
        return state

    def value(self, point: Vector) -> float:
        """Return f(point)."""
        state = self.terminal_state(point)
        return -0.5 * float(state @ state)

    def supergradient(self, point: Vector) -> Vector:
        """Return the cell averages of the switching function -B'p, where p(T) = x(T)."""
        switching: Vector = -(self._influence @ self.terminal_state(point)) / self.dt
        return switching

    def minimize_linear(self, supergradient: Vector) -> Vector:
        """Return the bang-bang control -sign(supergradient); a tie pushes forward."""
        return np.where(supergradient > 0, -1.0, 1.0)

    def gap(self, point: Vector, vertex: Vector, supergradient: Vector) -> float:
        """Return the inner product <point - vertex, supergradient> of L2(0, T)."""
        return float(np.sum((point - vertex) * supergradient)) * self.dt

    def lower_bound(self) -> float:
        """Return -1/2 R^2 with R from the module's docstring, taken over the cells."""
        reach = np.linalg.norm(self._drift) + np.sum(np.linalg.norm(self._influence, axis=1))
        # The margin covers the rounding of a sum over all cells.
        return -0.5 * float(reach) ** 2 * (1 + 1e-12 * self.n_cells)

    def trajectory(self, control: Vector) -> Matrix:
        """Return the states at the ends of the cells, x(0) included."""
        states = np.empty((self.n_cells + 1, len(self._response)))
        states[0] = self.initial
        for cell, push in enumerate(control):
            states[cell + 1] = self._flow @ states[cell] + self._response * push
        return states

    def switching_times(self, control: Vector) -> Vector:
        """Return the times at which a control changes its sign."""
        switches: Vector = self.times[1:-1][np.sign(control[1:]) != np.sign(control[:-1])]
        return switches


def oscillator(n_cells: int, horizon: float = HORIZON) -> TerminalEnergy:
    """Return the oscillator y'' + y = u that starts at rest."""
    return TerminalEnergy(OSCILLATOR, FORCE, np.zeros(2), horizon, n_cells)


def exact_optimum(horizon: float = HORIZON) -> tuple[float, Vector]:
    """Return min f and the switching times for the oscillator at rest (see above)."""
    arches = math.floor(horizon / math.pi)
    rest = horizon - arches * math.pi
    value = -0.5 * (2 * arches + 2 * math.sin(rest / 2)) ** 2
    switches: Vector = np.arange(arches, dtype=np.float64) * math.pi + (rest + math.pi) / 2
    return value, switches


def solve(
    problem: TerminalEnergy, tol: float = 1e-9, max_iter: int | None = None
) -> Solution[Vector]:
    """Run Frank-Wolfe from a slowly growing push, the same control on every grid.

    Not from rest: there the gradient is zero, and the worst control of all is stationary.
    """
    start = 0.1 * problem.middles / problem.horizon
    return minimize_concave(problem, start, stop="gap", tol=tol, max_iter=max_iter)


def print_refinement(grids: Sequence[int]) -> None:
    """Print how value and switching times approach the exact ones as the grid is refined."""
    value, switches = exact_optimum()
    print(
        f"  {'cells':>6} {'value':>13} {'error':>9} {'switches off by':>16} {'gap':>9} {'steps':>6}"
    )
    endings: dict[Status, None] = {}
    for n_cells in grids:
        problem = oscillator(n_cells)
        solution = solve(problem)
        endings[solution.status] = None
        found = problem.switching_times(solution.point)
        off = np.abs(found - switches).max() if len(found) == len(switches) else math.nan
        print(
            f"  {n_cells:>6} {solution.value:>13.8f} {solution.value - value:>9.1e}"
            f" {off / problem.dt:>11.2f} cells {solution.gap:>9.1e} {solution.iterations:>6}"
        )
    print(f"  {'exact':>6} {value:>13.8f}")
    for status in endings:
        print(f"  {status}")


def print_guarantee(grids: Sequence[int], tolerances: Sequence[float]) -> None:
    """Print the steps taken on some grids and the steps guaranteed on the finest one."""
    columns = "".join(f"{f'{n_cells} cells':>12}" for n_cells in grids)
    print(f"  {'tolerance':>9}{columns} {'guarantee':>10} {'last gap':>9}")
    for tol in tolerances:
        solutions = [solve(oscillator(n_cells), tol) for n_cells in grids]
        steps = "".join(f"{solution.iterations:>12}" for solution in solutions)
        last = solutions[-1]
        print(f"  {tol:>9.0e}{steps} {last.max_iterations:>10} {last.gap:>9.1e}")
    print(f"  {last.status}")


def save_figure(path: str, n_cells: int) -> None:
    """Draw the control with its switching function, the swing, and the convergence."""
    from matplotlib.figure import Figure

    problem = oscillator(n_cells)
    solution = solve(problem)
    _, switches = exact_optimum()

    figure = Figure(figsize=(12, 3.8), layout="constrained")
    control_axes, swing_axes, error_axes = figure.subplots(1, 3)
    control_axes.step(problem.middles, solution.point, where="mid", label="control u")
    switching = problem.supergradient(solution.point)
    control_axes.plot(
        problem.middles, switching / np.abs(switching).max(), label="switching function"
    )
    for switch in switches:
        control_axes.axvline(switch, color="black", linestyle=":", linewidth=1)
    control_axes.set(xlabel="t", title="Control; dotted: exact switching times")
    control_axes.set_ylim(-1.1, 1.7)
    control_axes.legend(loc="upper center", ncols=2)

    states = problem.trajectory(solution.point)
    swing_axes.plot(*states.T)
    swing_axes.plot(0, 0, "ko", markersize=4)
    swing_axes.plot(*states[-1], "*", color="tab:red", markersize=12)
    swing_axes.set(xlabel="y", ylabel="y'", title="The swing, from rest to the star")
    swing_axes.set_aspect("equal")

    grids = 2 ** np.arange(4, 13)
    errors = [solve(oscillator(int(cells))).value - exact_optimum()[0] for cells in grids]
    error_axes.loglog(grids, errors, "o-", label="value above the exact minimum")
    error_axes.loglog(grids, errors[0] * (grids[0] / grids) ** 2.0, "k--", label="order 2")
    error_axes.set(xlabel="cells", title="Refinement")
    error_axes.legend(loc="lower left")
    figure.savefig(path, dpi=150)


def main(arguments: Sequence[str] | None = None) -> None:
    """Refine the grid, then vary the tolerance on one grid."""
    parser = argparse.ArgumentParser(description="Bang-bang control of an oscillator.")
    parser.add_argument("--figure", metavar="FILE", help="save a picture to FILE")
    options = parser.parse_args(arguments)

    print(f"Oscillator at rest, T = {HORIZON:g}: the grid is refined")
    print_refinement([16, 64, 256, 1024, 4096])
    print(
        "\nSteps taken until the gap is within a tolerance, and steps guaranteed by f >= -T^2 / 2"
    )
    print_guarantee([256, 1024, 4096], [1e-1, 1e-2, 1e-3])
    if options.figure:
        save_figure(options.figure, 512)
        print(f"\nfigure saved to {options.figure}")


if __name__ == "__main__":
    main()
