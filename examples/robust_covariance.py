"""Robust covariance by trimming: the minimum covariance determinant as a concave problem.

Given x_1, ..., x_n in R^d, give every point a weight 0 <= w_i <= 1 with sum w_i = h < n and
minimize

    f(w) = log det S(w),   S(w) = (1/h) sum_i w_i (x_i - m(w))(x_i - m(w))',

with m(w) the weighted mean. The best w is a vertex: it keeps the h points whose covariance has the
smallest determinant (Rousseeuw's MCD) and leaves out the other n - h, outliers among them.

**f is concave.** For every center m, (1/h) sum_i w_i (x_i - m)(x_i - m)' exceeds S(w) by the
positive semidefinite (m - m(w))(m - m(w))'. The log-determinant increases with the matrix, so
f(w) is the minimum over m of log det of matrices that are linear in w. It is concave too, with
tangents log det A = min over positive definite P of tr(PA) - log det P - d. Together

    f(w) = min over m, P of  (1/h) sum_i w_i (x_i - m)'P(x_i - m) - log det P - d :

a minimum of functions that are affine in w, exactly as for K-means. The minimum is attained at
m(w) and P = S(w)^-1, so a supergradient has the squared Mahalanobis distances over h as entries:

    r_i = (1/h) (x_i - m(w))' S(w)^-1 (x_i - m(w)).

**The oracle** keeps the h smallest r_i. The unit step is therefore the C-step of FAST-MCD: that
algorithm, too, is Frank-Wolfe in disguise, its determinants fall, and min gap <= h_0 / (t + 1).

**A lower bound.** By the Cauchy-Binet formula h^(d+1) det S(w), for a vertex w, is the sum over
all (d+1)-subsets J of the kept points of V_J = (d! times the volume of the simplex J)^2. No h
points can do better than the comb(h, d+1) smallest of all V_J. For small n and d all V_J can be
listed; otherwise no bound is known here and the run has no guaranteed length.

Run it with

    python examples/robust_covariance.py [--figure FILE]
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2
from sklearn.covariance import MinCovDet

from wolfmeans import ConcaveProblem, Solution, minimize_concave
from wolfmeans.files.datasets import load_segmentation

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

TOLERANCE = 1e-6
FLATNESS = 1e-13
MOST_SIMPLICES = 2_000_000
QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.99)


class TrimmedCovariance(ConcaveProblem[Vector]):
    """log det of the covariance of `points` under weights in [0, 1] that sum to `n_kept`."""

    def __init__(self, points: Matrix, n_kept: int) -> None:
        n_points, dimension = points.shape
        if not dimension < n_kept <= n_points:
            raise ValueError(
                f"n_kept must be more than {dimension} and at most {n_points}; got {n_kept}"
            )
        self.points = points
        self.n_kept = n_kept
        self._lower_bound: float | None = None
        self._bound_known = False

    def moments(self, weights: Vector) -> tuple[Vector, Matrix]:
        """Return the weighted mean and covariance."""
        total = weights.sum()
        mean = weights @ self.points / total
        centered = self.points - mean
        return mean, (weights[:, None] * centered).T @ centered / total

    def distances(self, weights: Vector) -> Vector:
        """Return the squared Mahalanobis distances of all points under the weights' moments."""
        mean, covariance = self.moments(weights)
        white = np.linalg.solve(np.linalg.cholesky(covariance), (self.points - mean).T)
        squares: Vector = np.sum(white**2, axis=0)
        return squares

    def value(self, point: Vector) -> float:
        """Return log det S(point)."""
        covariance = self.moments(point)[1]
        variances = np.diag(covariance)
        # Correlations tell a flat cloud from one whose columns have different units.
        units = np.sqrt(np.where(variances > 0, variances, 1.0))
        eigenvalues = np.linalg.eigvalsh(covariance / np.outer(units, units))
        if eigenvalues[0] < FLATNESS:
            raise ValueError(
                f"{self.n_kept} points lie in a hyperplane, so the determinant can reach zero; "
                "reduce the dimension or keep more points"
            )
        return float(np.log(variances).sum() + np.log(eigenvalues).sum())

    def supergradient(self, point: Vector) -> Vector:
        """Return the squared Mahalanobis distances over h."""
        return self.distances(point) / self.n_kept

    def minimize_linear(self, supergradient: Vector) -> Vector:
        """Return the weights that keep the smallest distances, ties to the lowest row."""
        kept = np.argsort(supergradient, kind="stable")[: self.n_kept]
        weights = np.zeros(len(self.points))
        weights[kept] = 1.0
        return weights

    def gap(self, point: Vector, vertex: Vector, supergradient: Vector) -> float:
        """Return the gap as a sum of non-negative terms, measured from the largest kept distance.

        Both weights have the same sum, so the threshold may be subtracted from the supergradient;
        what leaves lies above it, what enters lies below.
        """
        threshold = supergradient[vertex > 0].max()
        return float(np.sum((point - vertex) * (supergradient - threshold)))

    def lower_bound(self) -> float | None:
        """Return the Cauchy-Binet bound, or None when there are too many simplices."""
        if not self._bound_known:
            self._lower_bound, self._bound_known = self._cauchy_binet(), True
        return self._lower_bound

    def _cauchy_binet(self) -> float | None:
        n_points, dimension = self.points.shape
        if math.comb(n_points, dimension + 1) > MOST_SIMPLICES:
            return None
        n_inside = math.comb(self.n_kept, dimension + 1)
        volumes = np.partition(squared_volumes(self.points), n_inside - 1)[:n_inside]
        total = float(volumes.sum()) * (1 - 1e-9)
        if total <= 0:
            return None
        return math.log(total) - (int(dimension) + 1) * math.log(self.n_kept)


def squared_volumes(points: Matrix) -> Vector:
    """Return (d! vol)^2 of every simplex of d + 1 points, never more than the true number."""
    dimension = points.shape[1]
    simplices = np.array(list(combinations(range(len(points)), dimension + 1)))
    edges = points[simplices[:, 1:]] - points[simplices[:, :1]]
    # The rounding error of a determinant is far below this share of Hadamard's bound for it.
    allowance = 1e-12 * np.prod(np.linalg.norm(edges, axis=2), axis=1)
    volumes: Vector = np.maximum(0.0, np.abs(np.linalg.det(edges)) - allowance) ** 2
    return volumes


def start_from_simplex(problem: TrimmedCovariance, rng: np.random.Generator) -> Vector:
    """Return the points nearest to a random simplex, in its own metric, as FAST-MCD does."""
    n_points, dimension = problem.points.shape
    order = rng.permutation(n_points)
    weights = np.zeros(n_points)
    for size in range(dimension + 1, n_points + 1):
        weights[order[:size]] = 1.0
        covariance = problem.moments(weights)[1]
        # Repeated or aligned points make a flat simplex, which has no metric: add points.
        if np.linalg.cond(covariance) < 1e12:
            return problem.minimize_linear(problem.distances(weights))
    raise ValueError("the points lie in a hyperplane; reduce the dimension first")


@dataclass(frozen=True)
class RobustFit:
    """Many runs on one problem."""

    problem: TrimmedCovariance
    runs: list[Solution[Vector]]

    @property
    def best(self) -> Solution[Vector]:
        """The run with the smallest determinant."""
        return min(self.runs, key=lambda run: run.value)

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Which points the best run keeps."""
        return self.best.point > 0

    def robust_distances(self) -> Vector:
        """Return squared distances that follow chi^2 with d degrees of freedom on Gaussian data.

        The h innermost points understate the scatter; the factor undoes this in the limit n -> inf.
        """
        n_points, dimension = self.problem.points.shape
        share = self.problem.n_kept / n_points
        factor = share / float(chi2.cdf(chi2.ppf(share, dimension), dimension + 2))
        distances: Vector = self.problem.distances(self.best.point) / factor
        return distances


def fit(points: Matrix, n_kept: int, n_starts: int, rng: np.random.Generator) -> RobustFit:
    """Run Frank-Wolfe from `n_starts` random simplices."""
    problem = TrimmedCovariance(points, n_kept)
    starts = [start_from_simplex(problem, rng) for _ in range(n_starts)]
    runs = [minimize_concave(problem, start, stop="gap", tol=TOLERANCE) for start in starts]
    return RobustFit(problem, runs)


def customary_size(points: Matrix) -> int:
    """Return h = (n + d + 1) // 2, which withstands the most outliers."""
    return (len(points) + int(points.shape[1]) + 1) // 2


def fast_mcd(problem: TrimmedCovariance, seed: int = 0) -> float:
    """Return f at the points that scikit-learn's MinCovDet keeps before its reweighting."""
    # Half a point more: scikit-learn rounds share * n down, and h / n * n may fall below h.
    share = (problem.n_kept + 0.5) / len(problem.points)
    model = MinCovDet(support_fraction=min(1.0, share), random_state=seed).fit(problem.points)
    return problem.value(model.raw_support_.astype(float))


def contaminated_sample(
    n_points: int, n_outliers: int, rng: np.random.Generator
) -> tuple[Matrix, NDArray[np.bool_]]:
    """Return a correlated Gaussian sample in the plane with a clump of outliers beside it."""
    points = rng.standard_normal((n_points, 2)) @ np.array([[2.0, 1.0], [0.0, 0.6]])
    outlying = np.arange(n_points) < n_outliers
    points[outlying] = np.array([4.0, -3.0]) + 0.5 * rng.standard_normal((n_outliers, 2))
    return points, outlying


def sky_features() -> Matrix:
    """Return the 14 continuous features of the class SKY, reduced to their numerical rank."""
    data = load_segmentation()
    return reduce_to_rank(data.data[np.char.lower(data.target) == "sky"])


def reduce_to_rank(points: Matrix, tolerance: float = 1e-6) -> Matrix:
    """Return the scores of the principal components that carry more than rounding.

    Columns are standardized first, so that the tolerance means the same for all. Every component
    comes out with unit variance; distances do not depend on that, but their computation gains.
    """
    spread = points.std(axis=0)
    varying = spread > 0
    standardized = (points[:, varying] - points[:, varying].mean(axis=0)) / spread[varying]
    scores, singular, _ = np.linalg.svd(standardized, full_matrices=False)
    rank = int(np.sum(singular > tolerance * singular[0]))
    reduced: Matrix = scores[:, :rank] * math.sqrt(len(points))
    return reduced


def print_fit(result: RobustFit) -> None:
    """Print the best run, how often it was found, its length, and scikit-learn's result."""
    best, problem = result.best, result.problem
    n_points, dimension = problem.points.shape
    values = np.array([run.value for run in result.runs])
    bound = problem.lower_bound()
    rows = {
        "n, d, h": f"{n_points}, {dimension}, {problem.n_kept}",
        "log det, best run": f"{best.value:.9f}",
        "log det, MinCovDet": f"{fast_mcd(problem):.9f}",
        "found by": f"{np.sum(values <= best.value + 1e-9)} of {len(values)} starts",
        "gap": f"{best.gap:.1e}",
        "steps": f"{best.iterations} (longest run {max(run.iterations for run in result.runs)})",
        "guarantee": f"at most {best.max_iterations} steps at gap tolerance {TOLERANCE:g}"
        if bound is not None
        else "none: no lower bound is known for so many simplices",
        "status": best.status,
    }
    for name, text in rows.items():
        print(f"  {name:<20} {text}")


def print_quantiles(rows: dict[str, Vector]) -> None:
    """Print a table of quantiles of squared distances."""
    print("  " + " " * 26 + "".join(f"{level:>9.0%}" for level in QUANTILES))
    for name, quantiles in rows.items():
        print(f"  {name:<26}" + "".join(f"{quantile:>9.1f}" for quantile in quantiles))


def save_figure(path: str, sky: Vector, gaussian: Vector, dimension: int) -> None:
    """Draw both samples of squared distances against the chi^2 quantiles."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4.5), layout="constrained")
    axes = figure.subplots()
    expected = chi2.ppf((np.arange(len(sky)) + 0.5) / len(sky), dimension)
    axes.plot(expected, np.sort(sky), "o", markersize=3, label="SKY")
    axes.plot(expected, np.sort(gaussian), "o", markersize=3, label="Gaussian sample, same n and d")
    axes.plot(expected, expected, "k--", linewidth=1, label="equality")
    axes.set_yscale("log")
    axes.set(
        xlabel=f"$\\chi^2_{{{dimension}}}$ quantile",
        ylabel="robust squared Mahalanobis distance",
        title="Class SKY of the image segmentation data",
    )
    axes.legend()
    figure.savefig(path, dpi=150)


def main(arguments: Sequence[str] | None = None) -> None:
    """Find planted outliers, then look at the SKY class of the image segmentation data."""
    parser = argparse.ArgumentParser(description="Robust covariance as a concave problem.")
    parser.add_argument("--figure", metavar="FILE", help="save a QQ plot of SKY to FILE")
    options = parser.parse_args(arguments)
    rng = np.random.default_rng(0)

    points, outlying = contaminated_sample(150, 45, rng)
    result = fit(points, customary_size(points), 50, rng)
    limit = chi2.ppf(0.975, 2)
    flagged = result.robust_distances() > limit
    everything = TrimmedCovariance(points, len(points))
    classical = everything.distances(np.ones(len(points))) > limit
    print("A Gaussian sample in the plane with 45 outliers among 150 points")
    print_fit(result)
    for name, found in (("robust distances", flagged), ("classical distances", classical)):
        print(f"  {name} flag {np.sum(found & outlying)} of {np.sum(outlying)} outliers", end=" ")
        print(f"and {np.sum(found & ~outlying)} of {np.sum(~outlying)} others")

    sky = sky_features()
    dimension = sky.shape[1]
    result = fit(sky, customary_size(sky), 200, rng)
    gaussian = rng.standard_normal(sky.shape)
    reference = fit(gaussian, customary_size(gaussian), 50, rng)
    print("\nClass SKY of the image segmentation data: 14 features of rank", dimension)
    print_fit(result)
    print("\n  Quantiles of robust squared Mahalanobis distances")
    print_quantiles(
        {
            "SKY": np.quantile(result.robust_distances(), QUANTILES),
            "Gaussian, same n and d": np.quantile(reference.robust_distances(), QUANTILES),
            f"chi^2, {dimension} degrees": chi2.ppf(QUANTILES, dimension),
        }
    )
    if options.figure:
        save_figure(
            options.figure, result.robust_distances(), reference.robust_distances(), dimension
        )
        print(f"\nfigure saved to {options.figure}")


if __name__ == "__main__":
    main()
