"""Peng and Wei's relaxation of K-means with pair and triangle cuts, and its solution step by step.

Every clustering is a matrix Z (`bounds.proof`), and SSE = tr G - <G, Z> with G the Gram matrix of
the centered, weighted points. The relaxation minimizes over all Z = q q' + Z' with Z' q = 0, 0 <=
Z' <= I, tr Z' = K - 1, Z >= 0 entrywise and the cuts (Peng and Wei, SIAM J. Optim. 18, 2007; cuts
as in Piccialli, Sudoso and Wiegele, INFORMS J. Comput. 2022). It is solved by the alternating
direction method of multipliers on two copies of Z:

    W = projection of Y onto {W >= 0, cuts},    Z' = projection of P (2 W - Y + G / rho) P onto
    {0 <= Z' <= I, tr Z' = K - 1},              Y <- Y + 1.6 (q q' + Z' - W).

The second projection needs the largest eigenvalues only. These steps prove nothing and are float32
for more than some hundred points. At any step S = rho (W - Y) is a multiplier of the constraints,
from which a proof in float64 is made.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from wolfmeans.bounds.proof import Proof
from wolfmeans.bounds.semidefinite.cuts import FEW, Cuts, Double, Matrix, violated_cuts
from wolfmeans.bounds.semidefinite.eigenvectors import TopBlock

_OVERRELAXED = 1.6
_DEGREE = 4
"""Of the Chebyshev filter in each step."""
_SPARE = 12
"""Columns of the block beyond the eigenvalues that count."""
_EVERY = 20
"""Steps between two looks at the residuals."""
_LEVELS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Levels of the first multiplier, relative to SSE / K."""
_SAMPLE = 256
"""About how many points choose one of them."""
_SHARES = tuple(10.0**-e for e in range(11, 2, -1))
"""Shifts of the matrix of a proof, relative to its largest eigenvalue, from the smallest on."""


@dataclass
class State:
    """Where the solution of a relaxation stands; one of a similar problem can start from it."""

    Y: Matrix
    """(n, n) The variable of the method of multipliers, in units of r_i r_j."""
    roots: Double
    """(n,) r, the roots of the weights divided by their mean."""
    rho: float
    """The penalty, as a share of the total sum of squares."""
    cuts: NDArray[np.int32]
    """(c, 3) Rows i, j, k of the cuts; k = -1 for pair cuts."""
    multipliers: Double
    """(c,) Of the cuts, divided by rho."""
    vectors: Matrix
    """(n, m) The block of eigenvectors."""


def clip_shift(values: Double, total: float) -> float:
    """Return theta such that clip(values - theta, 0, 1) sums to a total."""
    low, high = float(values.min()) - 1.0, float(values.max())
    for _ in range(60):
        middle = 0.5 * (low + high)
        if np.clip(values - middle, 0.0, 1.0).sum() > total:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def multiplier_of(
    points: Double, roots: Double, labels: NDArray[np.int32], n_clusters: int
) -> NDArray[np.float32]:
    """Return a multiplier S >= 0 that suits a clustering.

    M (`bounds.proof`) times the vector of each cluster should be 0. Within clusters S = 0, so that
    y_i = d_i + t / W_A with d_i the squared distance of point i in A to its center; for i in A and
    another cluster B the row sum of S r over B must be

        r_i (W_B (d_iB - d_i - t / W_A) - t) / 2

    with d_iB the squared distance to the center of B. Blocks of rank one have these row sums where
    they are not negative (Iguchi, Mixon, Peterson and Villar, Math. Program. 165, 2017). The level
    t is a multiple of SSE / K: of some, the one whose bound is best on a sample of the points.
    """
    total = np.maximum(np.bincount(labels, roots**2, minlength=n_clusters), 1e-300)
    inside = np.zeros((n_clusters, len(roots)))
    inside[labels, np.arange(len(roots))] = roots
    centers = (inside @ points) / total[:, None]
    X = points / roots[:, None]
    squares = (X**2).sum(axis=1)[:, None] + (centers**2).sum(axis=1) - 2.0 * X @ centers.T
    own = squares[np.arange(len(roots)), labels]
    unit = float(roots**2 @ own) / n_clusters
    some = slice(None, None, -(-len(roots) // _SAMPLE))

    def multiplier(level: float, rows: slice) -> NDArray[np.float32]:
        of, r = labels[rows], roots[rows]
        sums = total * (squares[rows] - (own[rows] + level / total[of])[:, None]) - level
        sums = np.maximum(0.5 * r[:, None] * sums, 0.0)
        sums[np.arange(len(of)), of] = 0.0
        between = np.zeros((n_clusters, n_clusters))
        np.add.at(between, of, r[:, None] * sums)
        between = np.sqrt(np.sqrt(between * between.T))
        sums /= np.where(between > 0, between, np.inf)[of]
        spread = sums.astype(np.float32)[:, of]
        return np.asarray(spread * spread.T)

    def bound(level: float) -> float:
        S, A, q = multiplier(level, some), points[some], roots[some] / np.linalg.norm(roots[some])
        S *= len(q) / len(roots)
        A = A - np.outer(q, q @ A)
        B = A @ A.T + S
        Bq = B @ q
        B -= np.outer(q, Bq - 0.5 * (q @ Bq) * q)
        B -= np.outer(Bq - 0.5 * (q @ Bq) * q, q)
        values = linalg.eigvalsh(B, check_finite=False)
        return float((A**2).sum() - q @ S @ q - values[len(values) - n_clusters + 1 :].sum())

    best = max(_LEVELS, key=lambda share: bound(share * unit))
    return multiplier(best * unit, slice(None))


class Relaxation:
    """The relaxation of one data set, and where its solution stands.

    Parameters
    ----------
    X : array of shape (n, d)
        The points, of positive weight.
    n_clusters : int
        K, at least 2 and less than n.
    weights : array of shape (n,) or None
        None for ones.
    start : array of shape (n,) or State
        A clustering to start from, or where a similar problem with n points stood.
    apart : array of shape (a, 2) or None
        Pairs of points that must not share a cluster.
    """

    def __init__(
        self,
        X: Double,
        n_clusters: int,
        weights: Double | None,
        start: NDArray[np.int32] | State,
        apart: NDArray[np.int32] | None = None,
    ) -> None:
        n = len(X)
        w = np.ones(n) if weights is None else weights / weights.mean()
        self.unit = 1.0 if weights is None else float(weights.mean())
        self.n_clusters, self.roots = n_clusters, np.sqrt(w)
        centered = X - (w @ X) / w.sum()
        self.points = centered * self.roots[:, None]
        self.total = float((self.points**2).sum())
        self.q = self.roots / np.linalg.norm(self.roots)
        # Few points are cheap in float64, which leads to more digits.
        self._real: Any = np.float64 if n <= FEW else np.float32
        self._A, self._q = self.points.astype(self._real), self.q.astype(self._real)
        self.apart = np.empty((0, 2), np.int32) if apart is None else apart
        columns = min(n - 1, max(2 * n_clusters + 8, 16))
        if isinstance(start, State):
            self.rho = start.rho * self.total
            self.top = TopBlock(self._q, columns, start.vectors.astype(self._real))
            self.cuts = Cuts.of(self.roots, start.cuts, start.multipliers, self.apart)
            ratio = self.roots / start.roots
            self.Y: Matrix = (start.Y * np.outer(ratio, ratio)).astype(self._real)
        else:
            self.top = TopBlock(self._q, columns)
            self.cuts = Cuts.none(self.roots, self.apart)
            F = np.zeros((n, n_clusters), dtype=self._real)
            F[np.arange(n), start] = self.roots
            F /= np.maximum(np.linalg.norm(F, axis=0), 1e-30)
            S = multiplier_of(self.points, self.roots, start, n_clusters)
            size = float(np.linalg.norm(S))
            self.rho = 0.2 * size / math.sqrt(n_clusters) or 2.5 * self.total / n_clusters
            S *= np.float32(1.0 / self.rho)
            self.Y = F @ F.T
            self.Y -= S
        self.W = self._projected(np.empty_like(self.Y))
        self._B = np.empty_like(self.Y)
        self.steps = 0
        self._before: Matrix | None = None

    def step(self) -> None:
        """Take one step of the method of multipliers."""
        B, A, inverse = self._B, self._A, self._real(1.0 / self.rho)
        np.add(self.W, self.W, out=B)
        B -= self.Y

        def apply(V: Matrix) -> Matrix:
            result: Matrix = B @ V + (A @ (A.T @ V)) * inverse
            return result

        self.top.sharpen(apply, _DEGREE, anew=self.steps % 10 == 0)
        values = self.top.values
        assert values is not None
        shares = np.clip(values - clip_shift(values, self.n_clusters - 1), 0.0, 1.0)
        on = np.flatnonzero(shares > 0)
        F = np.empty((len(self._q), len(on) + 1), dtype=self._real)
        F[:, :-1] = self.top.vectors[:, on] * np.sqrt(shares[on]).astype(self._real)
        F[:, -1] = self._q
        self._F = F
        self._fit_block(len(on))
        # Y + 1.6 (Z - W)
        np.matmul(F, F.T, out=B)
        B -= self.W
        B *= self._real(_OVERRELAXED)
        self.Y += B
        watched = (self.steps + 1) % _EVERY == 0
        if watched:
            self._before = self.W
            self.W = np.empty_like(self.W)
        self.W = self._projected(self.W)
        self.steps += 1
        if watched:
            self._balance()

    def _projected(self, W: Matrix) -> Matrix:
        np.maximum(self.Y, 0.0, out=W)
        if len(self.cuts):
            self.cuts.project(W, self.Y)
        i, j = self.apart.T
        W[i, j] = W[j, i] = 0.0
        return W

    @property
    def state(self) -> State:
        """Where the solution stands; it shares no memory with the relaxation."""
        return State(
            self.Y.copy(),
            self.roots,
            self.rho / self.total,
            self.cuts.rows,
            self.cuts.multipliers,
            self.top.vectors,
        )

    def _fit_block(self, active: int) -> None:
        """Keep some columns more than eigenvalues that count."""
        assert self.top.values is not None
        columns = len(self.top.values)
        if active >= columns - 2:
            self.top.resize(min(len(self.q) - 1, int(1.5 * columns) + 4))
        elif active < columns // 3 and columns > self.n_clusters + _SPARE and self.steps % 20 == 19:
            self.top.resize(max(self.n_clusters + 10, int(1.6 * active) + 6))

    def _balance(self) -> None:
        """Change rho where one of the two residuals is much larger than the other."""
        assert self._before is not None
        np.matmul(self._F, self._F.T, out=self._B)
        self._B -= self.W
        primal = float(np.linalg.norm(self._B))
        self._before -= self.W
        dual = float(np.linalg.norm(self._before))
        self._before = None
        factor = 1.25 if primal > 2 * dual else 0.8 if dual > 2 * primal else 1.0
        if factor != 1.0:
            self.Y -= self.W
            self.Y *= self._real(1.0 / factor)
            self.Y += self.W
            self.rho *= factor
            self.cuts.multipliers = self.cuts.multipliers / factor

    def separate(self, n_threads: int = 1) -> int:
        """Look for violated cuts; return how many there are now."""
        Z = self._F @ self._F.T
        self.cuts = self.cuts.renewed(violated_cuts(Z, self.roots, n_threads))
        self.W = self._projected(self.W)
        return len(self.cuts)

    def estimate(self) -> float:
        """Return about the bound that a proof from here would give; it may be too high."""
        S, A = (self.W - self.Y) * self._real(self.rho), self._A

        def apply(V: Matrix) -> Matrix:
            result: Matrix = S @ V + A @ (A.T @ V)
            return result

        block = TopBlock(self._q, 1, self.top.vectors)
        block.sharpen(apply, 8, 2)
        assert block.values is not None
        largest = float(block.values[len(block.values) - self.n_clusters + 1 :].sum())
        return (self.total - float(self._q @ (S @ self._q)) - largest) * self.unit

    def proofs(self, tolerance: float = 0.0) -> Iterator[Proof]:
        """Yield proofs from the multipliers; each is more likely to be accepted, and weaker.

        The first one gives away about a thousandth of the tolerance.

        With H = E C E - S, s = r' H r / W + t and y = (2 (H r + t r) / r - s) / W, M r = 0 holds.
        t is the K-th largest eigenvalue of P (G + S) P; V and D hold the larger ones. y is lowered
        and t raised by a share of the largest eigenvalue, for the rounding of all of it.
        """
        slack, of_cuts, multipliers = self._multiplier()
        S = slack + of_cuts
        P, q, r = self.points, self.q, self.roots
        Sq = S @ q
        qSq = float(q @ Sq)

        def apply(V: Double) -> Double:
            qV = q @ V
            result: Double = S @ V + P @ (P.T @ V) - np.outer(Sq, qV)
            result += np.outer(q, qSq * qV - Sq @ V)
            return result

        block = TopBlock(q, 1, self.top.vectors.astype(np.float64))
        precise = tolerance < 1e-3
        block.sharpen(apply, 12 if precise else 8, 4 if precise else 1)
        values = block.values
        assert values is not None
        W = float((r**2).sum())
        # E C E r without the matrix: C_ij = (|a_i|^2 + |a_j|^2) / 2 - a_i a_j, a centered points.
        norms = ((P / r[:, None]) ** 2).sum(axis=1)
        h = r * 0.5 * (norms * W + float((r**2) @ norms)) - P @ (P.T @ r) - S @ r
        for share in _SHARES:
            if share < 1e-3 * tolerance:
                continue
            more = share * abs(float(values[-1]))
            level = max(0.0, float(values[-min(self.n_clusters, len(values))]) + more)
            on = values > level - more
            y = (2.0 * (h + level * r) / r - float(r @ h) / W - level - more) / W
            yield Proof(
                n_clusters=self.n_clusters,
                prices=y * r * math.sqrt(self.unit),
                level=level * self.unit,
                vectors=block.vectors[:, on],
                heights=(np.maximum(values[on] - level, 0.0) + more) * self.unit,
                slack=(slack * self.unit).astype(np.float32),
                cuts=self.cuts.rows,
                multipliers=multipliers * self.unit**2,
            )

    def _multiplier(self) -> tuple[Double, Double, Double]:
        """Return S = rho (W - Y) as N >= 0 plus the part of the cuts, and their multipliers."""
        S = (self.W - self.Y).astype(np.float64) * self.rho
        S = 0.5 * (S + S.T)
        of_cuts = np.zeros_like(S)
        multipliers = self.cuts.multipliers * self.rho
        if len(self.cuts):
            self.cuts.spread(multipliers, of_cuts)
        rest = S - of_cuts
        slack = np.maximum(rest, 0.0)
        i, j = self.apart.T
        slack[i, j], slack[j, i] = rest[i, j], rest[j, i]
        slack = slack.astype(np.float32).astype(np.float64)
        return slack, of_cuts, multipliers
