"""Minimize a concave quadratic over a polytope; the oracle is a linear program.

The problem is

    minimize  f(x) = c'x - 1/2 x'Qx   subject to   Gx <= g,  lower <= x <= upper,

with Q symmetric and positive semidefinite. f is concave and smooth, its gradient c - Qx is its
only supergradient, and the linear minimization oracle is a linear program (HiGHS, through
`scipy.optimize.linprog`). A concave function attains its minimum at a vertex, every Frank-Wolfe
step with unit length goes to a vertex, and no vertex is met twice: the run ends at a stationary
vertex, which need not be the best one. Hence several starts, and no promise: on 40 random problems
in 4 dimensions, 12 starts at random vertices found the best vertex 39 times and 60 starts always,
whereas 60 starts near the middle missed it 5 times, for they all see nearly the same gradient.

**A lower bound that no tolerance of the solver can spoil.** Take any F with F'F - Q positive
semidefinite and let F_i x range over [l_i, u_i] on the polytope. A concave function of one
variable lies above its secant, so

    f(x) >= c'x - 1/2 sum_i (F_i x)^2 >= c'x - 1/2 sum_i [(l_i + u_i) F_i x - l_i u_i],

and the last expression is linear in x: one more linear program bounds f from below. Two choices
of F are tried, the factor of Q itself (tight when Q has few directions) and a multiple of the
identity (better when it has many). All of these programs are bounded through weak duality: for
*every* multiplier mu >= 0

    min {r'x : Gx <= g, lower <= x <= upper} >= -mu'g + min {(r + G'mu)'x : lower <= x <= upper},

and the last minimum is a sum of best ends of intervals. An inaccurate mu makes the bound weaker,
never wrong.

Run it with

    python examples/concave_quadratic.py [--figure FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from wolfmeans import ConcaveProblem, Solution, minimize_concave

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# HiGHS accepts nothing tighter; looser oracles show up as small negative gaps.
HIGHS_TOLERANCE = 1e-10
# Far above what a few hundred rounded operations can add up to, far below what one reads off.
ROUNDING_ALLOWANCE = 1e-11


@dataclass(frozen=True)
class Polytope:
    """The set {x : normals @ x <= offsets, lower <= x <= upper}, bounded by its box."""

    normals: Matrix
    offsets: Vector
    lower: Vector
    upper: Vector

    def minimize(self, direction: Vector) -> tuple[Vector, Vector]:
        """Return a vertex that minimizes direction @ x, and the multipliers of the normals."""
        answer = linprog(
            direction,
            A_ub=self.normals,
            b_ub=self.offsets,
            bounds=np.column_stack([self.lower, self.upper]),
            # The simplex method ends at a vertex; an interior point method need not.
            method="highs-ds",
            options={
                "primal_feasibility_tolerance": HIGHS_TOLERANCE,
                "dual_feasibility_tolerance": HIGHS_TOLERANCE,
            },
        )
        if not answer.success:
            raise ValueError(f"the linear program has no solution: {answer.message}")
        return answer.x, np.maximum(0.0, -answer.ineqlin.marginals)

    def bound_below(self, direction: Vector) -> float:
        """Return a number that direction @ x never falls below (weak duality, see above)."""
        _, multipliers = self.minimize(direction)
        reduced = direction + self.normals.T @ multipliers
        ends = np.stack([reduced * self.lower, reduced * self.upper])
        terms = np.concatenate([-multipliers * self.offsets, ends.min(axis=0)])
        allowance = np.abs(multipliers * self.offsets).sum() + np.abs(ends).max(axis=0).sum()
        return float(terms.sum() - ROUNDING_ALLOWANCE * allowance)

    def contains(self, point: Vector, tolerance: float = 1e-8) -> bool:
        """Whether the point is feasible up to the tolerance."""
        in_box = np.all(point >= self.lower - tolerance) and np.all(point <= self.upper + tolerance)
        return bool(in_box and np.all(self.normals @ point <= self.offsets + tolerance))

    def vertices(self) -> Matrix:
        """Return all vertices, by solving every square system of constraints (small cases only)."""
        dimension = len(self.lower)
        identity = np.eye(dimension)
        normals = np.vstack([self.normals, identity, -identity])
        offsets = np.concatenate([self.offsets, self.upper, -self.lower])
        choices = np.array(list(combinations(range(len(offsets)), dimension)))
        choices = choices[np.abs(np.linalg.det(normals[choices])) > 1e-10]
        candidates = np.linalg.solve(normals[choices], offsets[choices][..., None])[..., 0]
        return candidates[np.all(candidates @ normals.T <= offsets + 1e-8, axis=1)]


class ConcaveQuadratic(ConcaveProblem[Vector]):
    """f(x) = linear @ x - 1/2 x @ curvature @ x over a polytope, curvature psd."""

    def __init__(self, curvature: Matrix, linear: Vector, polytope: Polytope) -> None:
        eigenvalues, eigenvectors = np.linalg.eigh(curvature)
        if eigenvalues[0] < -1e-12 * max(1.0, eigenvalues[-1]):
            raise ValueError(f"the curvature has the negative eigenvalue {eigenvalues[0]:.3g}")
        # f is evaluated through this factor, so it is concave however the eigenvalues were rounded.
        self.factor: Matrix = np.sqrt(np.maximum(eigenvalues, 0.0))[:, None] * eigenvectors.T
        self.linear = linear
        self.polytope = polytope
        self._lower_bound: float | None = None

    def value(self, point: Vector) -> float:
        """Return f(point)."""
        curved = self.factor @ point
        return float(self.linear @ point - 0.5 * (curved @ curved))

    def supergradient(self, point: Vector) -> Vector:
        """Return the gradient, the only supergradient of a smooth concave function."""
        return self.linear - self.factor.T @ (self.factor @ point)

    def minimize_linear(self, supergradient: Vector) -> Vector:
        """Return the vertex that the linear program picks."""
        return self.polytope.minimize(supergradient)[0]

    def lower_bound(self) -> float:
        """Return the better secant bound of the module's docstring; computed once."""
        if self._lower_bound is None:
            largest = np.linalg.norm(self.factor, ord=2) * (1 + ROUNDING_ALLOWANCE)
            identity = largest * np.eye(len(self.linear))
            self._lower_bound = max(map(self._secant_bound, (self.factor, identity)))
        return self._lower_bound

    def _secant_bound(self, factor: Matrix) -> float:
        """Bound f from below by the secants along the rows of `factor`."""
        low = np.array([self.polytope.bound_below(row) for row in factor])
        high = np.array([-self.polytope.bound_below(-row) for row in factor])
        secant = self.linear - 0.5 * factor.T @ (low + high)
        constant = 0.5 * float(low @ high)
        bound = self.polytope.bound_below(secant) + constant
        return bound - ROUNDING_ALLOWANCE * (abs(bound) + abs(constant))


def random_problem(dimension: int, n_cuts: int, rng: np.random.Generator) -> ConcaveQuadratic:
    """Return a quadratic over the cube [-1, 1]^dimension with `n_cuts` random corners cut off."""
    normals = rng.standard_normal((n_cuts, dimension))
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    offsets = rng.uniform(0.3, 0.8, n_cuts) * np.sqrt(dimension)
    box = np.ones(dimension)
    root = rng.standard_normal((dimension, dimension)) / np.sqrt(dimension)
    linear = 0.3 * rng.standard_normal(dimension)
    return ConcaveQuadratic(root @ root.T, linear, Polytope(normals, offsets, -box, box))


def random_starts(problem: ConcaveQuadratic, n_starts: int, rng: np.random.Generator) -> Matrix:
    """Return the vertices that minimize random directions."""
    directions = rng.standard_normal((n_starts, len(problem.linear)))
    return np.array([problem.minimize_linear(direction) for direction in directions])


def solve(problem: ConcaveQuadratic, starts: Matrix, tol: float = 1e-3) -> list[Solution[Vector]]:
    """Run Frank-Wolfe from every start."""
    return [minimize_concave(problem, start, stop="gap", tol=tol) for start in starts]


def print_runs(solutions: Sequence[Solution[Vector]]) -> None:
    """Print one line for every run and the sentences of the endings that occurred."""
    print(f"  {'start':>5} {'f(x_0)':>9} {'value':>10} {'gap':>9} {'steps':>6} {'guarantee':>10}")
    for number, solution in enumerate(solutions):
        print(
            f"  {number:>5} {solution.trace[0].value:>9.4f} {solution.value:>10.6f}"
            f" {solution.gap:>9.1e} {solution.iterations:>6} {solution.max_iterations:>10}"
        )
    for status in {solution.status: None for solution in solutions}:
        print(f"  {status}")


def best_vertex(problem: ConcaveQuadratic) -> tuple[float, int]:
    """Return the smallest value over all vertices, and how many vertices there are."""
    vertices = problem.polytope.vertices()
    distinct = np.unique(np.round(vertices, 9), axis=0)
    return min(problem.value(vertex) for vertex in vertices), len(distinct)


class Recorded(ConcaveProblem[Vector]):
    """Another problem, together with the list of the vertices that its oracle has returned."""

    def __init__(self, problem: ConcaveQuadratic) -> None:
        self.problem = problem
        self.visited: list[Vector] = []

    def value(self, point: Vector) -> float:
        """Return f(point)."""
        return self.problem.value(point)

    def supergradient(self, point: Vector) -> Vector:
        """Return the gradient."""
        return self.problem.supergradient(point)

    def minimize_linear(self, supergradient: Vector) -> Vector:
        """Return the vertex, and note it."""
        self.visited.append(self.problem.minimize_linear(supergradient))
        return self.visited[-1]


def draw_plane(figure: Figure, axes: Axes, rng: np.random.Generator) -> None:
    """Draw some runs of a problem in the plane over its level lines."""
    problem = random_problem(2, 5, rng)
    grid = np.linspace(-1.05, 1.05, 241)
    points = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
    values = points @ problem.linear - 0.5 * np.sum((points @ problem.factor.T) ** 2, axis=1)
    feasible = np.array([problem.polytope.contains(point) for point in points])
    shown = np.where(feasible, values, np.nan).reshape(len(grid), len(grid))
    levels = axes.contourf(grid, grid, shown, levels=20, cmap="viridis")
    figure.colorbar(levels, ax=axes, label="f(x)")
    for start in random_starts(problem, 6, rng):
        recorded = Recorded(problem)
        minimize_concave(recorded, start, stop="gap", tol=1e-9, max_iter=100)
        track = np.array([start, *recorded.visited])
        axes.plot(*track.T, "-o", color="black", markersize=3, linewidth=1, clip_on=False)
        axes.plot(*track[-1], "*", color="tab:red", markersize=14, clip_on=False)
    axes.set(title="Unit steps in the plane; stars: where they end", aspect="equal")
    axes.set(xlabel="$x_1$", ylabel="$x_2$")


def draw_gaps(axes: Axes, rng: np.random.Generator) -> None:
    """Draw the gaps of some runs in 30 dimensions under the line that bounds their minimum."""
    problem = random_problem(30, 40, rng)
    solutions = solve(problem, random_starts(problem, 12, rng))
    for solution in solutions:
        gaps = solution.trace.gap[solution.trace.gap > 0]
        axes.semilogy(np.arange(1, len(gaps) + 1), gaps, "o-", alpha=0.7, linewidth=1)
    initial = max(solution.trace[0].value for solution in solutions) - problem.lower_bound()
    steps = np.arange(1, 2 + max(solution.iterations for solution in solutions))
    axes.semilogy(steps, initial / steps, "k--", label="$(f(x_0) - bound)\\,/\\,(t + 1)$")
    axes.set(xlabel="t + 1", ylabel="Frank-Wolfe gap", title="12 runs in 30 dimensions")
    axes.legend()


def save_figure(path: str, rng: np.random.Generator) -> None:
    """Save both drawings side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    plane, gaps = figure.subplots(1, 2)
    draw_plane(figure, plane, rng)
    draw_gaps(gaps, rng)
    figure.savefig(path, dpi=150)


def main(arguments: Sequence[str] | None = None) -> None:
    """Solve a small problem that can be enumerated, then one that cannot."""
    parser = argparse.ArgumentParser(description="Concave quadratic over a polytope.")
    parser.add_argument("--figure", metavar="FILE", help="save a picture to FILE")
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(3)

    small = random_problem(5, 8, rng)
    runs = solve(small, random_starts(small, 12, rng))
    best, n_vertices = best_vertex(small)
    print("5 dimensions, 8 cuts, gap tolerance 1e-3")
    print_runs(runs)
    print(f"  best run {min(run.value for run in runs):.6f}")
    print(f"  best of all {n_vertices} vertices, by enumeration {best:.6f}")
    print(f"  lower bound {small.lower_bound():.6f}")

    large = random_problem(30, 40, rng)
    runs = solve(large, random_starts(large, 8, rng))
    print("\n30 dimensions, 40 cuts: too many vertices to enumerate, the lower bound remains")
    print_runs(runs)
    print(f"  best run {min(run.value for run in runs):.6f}")
    print(f"  lower bound {large.lower_bound():.6f}")
    if options.figure:
        save_figure(options.figure, np.random.default_rng(8))
        print(f"\nfigure saved to {options.figure}")


if __name__ == "__main__":
    main()
