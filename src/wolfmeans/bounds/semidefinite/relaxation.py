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

from wolfmeans.bounds.proof_format import Proof
from wolfmeans.bounds.semidefinite.arrays import HOST, Arrays
from wolfmeans.bounds.semidefinite.cuts import FEW, Cuts, Double, Matrix, violated_cuts
from wolfmeans.bounds.semidefinite.eigenvectors import TopBlock, top_block
from wolfmeans.bounds.semidefinite.first_multiplier import multiplier_of
from wolfmeans.bounds.semidefinite.stars import WIDTH

_OVERRELAXED = 1.6
_DEGREE = 3
"""Of the Chebyshev filter in each step."""
_SPARE = 12
"""Columns of the block beyond the eigenvalues that count."""
_RHO = 0.1
"""Times the norm of the first multiplier over that of Z: the first rho."""
_EVERY = 10
"""Steps between two looks at the residuals."""
_LATER = 100
"""From this step on fewer cuts are added, but stars, too: simpler cuts do more at first."""
_MANY, _STARS_OF_MANY = 300, 40
"""Of more than so many points, stars are looked for in every 40th step only, and proofs are
shorter."""
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
    """(c, WIDTH) i and the other rows of each cut; -1 where there are fewer."""
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
    on : Arrays
        Where the large matrices are.
    ghosts : array of shape (g, d) or None
        Where points are blocks of points (`bounds.block_proof`): rows of a root of the scatter
        within blocks. They come after the points, have no signs, and there are no cuts then; the
        start is a clustering.
    sizes : tuple of two floats or None
        The least and the largest weight of a cluster; None for any. Then the diagonal of W is
        between w_i / largest and w_i / least.
    """

    def __init__(
        self,
        X: Double,
        n_clusters: int,
        weights: Double | None,
        start: NDArray[np.int32] | State,
        apart: NDArray[np.int32] | None = None,
        on: Arrays = HOST,
        ghosts: Double | None = None,
        sizes: tuple[float, float] | None = None,
    ) -> None:
        w = np.ones(len(X)) if weights is None else weights / weights.mean()
        self.unit = 1.0 if weights is None else float(weights.mean())
        self.n_clusters, self.roots = n_clusters, np.sqrt(w)
        centered = X - (w @ X) / w.sum()
        self.points = centered * self.roots[:, None]
        self._ghosts = 0 if ghosts is None else len(ghosts)
        if ghosts is not None:
            self.points = np.vstack([self.points, ghosts / math.sqrt(self.unit)])
            self.roots = np.concatenate([self.roots, np.zeros(len(ghosts))])
        n = len(self.points)
        self.total = float((self.points**2).sum())
        self.q = self.roots / np.linalg.norm(self.roots)
        # Few points are cheap in float64, which leads to more digits.
        real = np.float64 if n <= FEW else np.float32
        self._stored = np.float64 if n <= _MANY else np.float32
        """The precision of the slack in a proof: that of float32 would cost the ninth digit."""
        self._on = on
        self._A, self._q = on.array(self.points, real), on.array(self.q, real)
        self.apart = np.empty((0, 2), np.int32) if apart is None else apart
        self._later_from = 0 if isinstance(start, State) and len(start.cuts) else _LATER
        self.sizes = sizes
        squares = self.roots**2 * self.unit
        low, high = (0.0, math.inf) if sizes is None else sizes
        self._diagonal = (squares / high, squares / low if low > 0 else np.full(n, np.inf))
        if isinstance(start, State):
            self.rho = start.rho * self.total
            self.top: TopBlock = top_block(on, self._q, on.array(start.vectors, real))
            self.cuts = Cuts.of(on, self.roots, start.cuts, start.multipliers, self.apart)
            ratio = self.roots / start.roots
            self.Y = on.array(start.Y * np.outer(ratio, ratio), real)
        else:
            first = TopBlock.random(on, self._q, min(n - 1, max(2 * n_clusters + 8, 16)))
            self.top = top_block(on, self._q, first.vectors)
            none = np.empty((0, WIDTH), np.int32)
            self.cuts = Cuts.of(on, self.roots, none, np.empty(0), self.apart)
            rows = slice(len(start))
            S = multiplier_of(self.points[rows], self.roots[rows], start, n_clusters)
            if self._ghosts:
                S = np.pad(S, (0, self._ghosts))
            size = float(np.linalg.norm(S))
            self.rho = _RHO * size / math.sqrt(n_clusters) or 2.5 * self.total / n_clusters
            F = np.zeros((n, n_clusters))
            F[np.arange(len(start)), start] = self.roots[rows]
            F /= np.maximum(np.linalg.norm(F, axis=0), 1e-30)
            F = on.array(F, real)
            S *= np.float32(1.0 / self.rho)
            self.Y = F @ F.T
            self.Y -= on.array(S, real)
        self.W = self._projected(on.module.empty_like(self.Y))
        self._B = on.module.empty_like(self.Y)
        self.steps = 0
        self._before: Any = None
        self._dual: TopBlock | None = None
        """Eigenvectors of P (G + S) P at the last estimate; a step makes them outdated."""

    def step(self) -> None:
        """Take one step of the method of multipliers."""
        B, A, inverse, module = self._B, self._A, 1.0 / self.rho, self._on.module
        module.add(self.W, self.W, out=B)
        B -= self.Y

        def apply(V: Any) -> Any:
            return B @ V + (A @ (A.T @ V)) * inverse

        self.top.sharpen(apply, _DEGREE, anew=self.steps % 10 == 0)
        values = self.top.values
        assert values is not None
        shares = np.clip(values - clip_shift(values, self.n_clusters - 1), 0.0, 1.0)
        first = int(np.argmax(shares > 0))
        roots = self._on.cast(self._on.array(np.sqrt(shares[first:])), self._q)
        self._F = module.hstack([self.top.vectors[:, first:] * roots, self._q[:, None]])
        self._fit_block(len(shares) - first)
        # Y + 1.6 (Z - W)
        module.matmul(self._F, self._F.T, out=B)
        B -= self.W
        B *= _OVERRELAXED
        self.Y += B
        watched = (self.steps + 1) % _EVERY == 0
        if watched:
            self._before = self.W
            self.W = module.empty_like(self.W)
        self.W = self._projected(self.W)
        self.steps += 1
        self._dual = None
        if watched:
            self._balance()

    def _projected(self, W: Any) -> Any:
        self._on.at_least_zero(self.Y, out=W)
        if len(self.cuts):
            self.cuts.project(W, self.Y)
        i, j = self.apart.T
        W[i, j] = W[j, i] = 0.0
        if self.sizes is not None:
            at = np.arange(len(self.q))
            diagonal = self._on.to_host(W[at, at])
            W[at, at] = self._on.cast(self._on.array(np.clip(diagonal, *self._diagonal)), self._q)
        if self._ghosts:
            W[-self._ghosts :] = self.Y[-self._ghosts :]
            W[:, -self._ghosts :] = self.Y[:, -self._ghosts :]
        return W

    @property
    def state(self) -> State:
        """Where the solution stands; it shares no memory with the relaxation."""
        to_host = self._on.to_host
        return State(
            np.array(to_host(self.Y)),
            self.roots,
            self.rho / self.total,
            self.cuts.rows,
            to_host(self.cuts.multipliers),
            to_host(self.top.vectors),
        )

    @property
    def solution(self) -> Double:
        """Z of the last step, on the host."""
        Z: Double = self._on.to_host(self._F @ self._F.T).astype(np.float64)
        return Z

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
        module = self._on.module
        module.matmul(self._F, self._F.T, out=self._B)
        self._B -= self.W
        primal = float(module.linalg.norm(self._B))
        self._before -= self.W
        dual = float(module.linalg.norm(self._before))
        self._before = None
        factor = 1.25 if primal > 2 * dual else 0.8 if dual > 2 * primal else 1.0
        if factor != 1.0:
            self.Y -= self.W
            self.Y *= 1.0 / factor
            self.Y += self.W
            self.rho *= factor
            self.cuts.multipliers = self.cuts.multipliers / factor

    def separate(self, n_threads: int = 1) -> int:
        """Look for violated cuts; return how many there are now."""
        if self._ghosts:
            return 0
        if self.cuts.rest():
            return len(self.cuts)
        Z = self._on.to_host(self._F @ self._F.T)
        later = self.steps >= self._later_from
        stars = later and (len(Z) <= _MANY or self.steps % _STARS_OF_MANY == 0)
        found = violated_cuts(Z, self.roots, n_threads, stars=stars, later=later)
        self.cuts = self.cuts.renewed(found)
        self.W = self._projected(self.W)
        return len(self.cuts)

    def estimate(self) -> float:
        """Return about the bound that a proof from here would give; it may be too high."""
        S, A = (self.W - self.Y) * self.rho, self._A

        def apply(V: Any) -> Any:
            return S @ V + A @ (A.T @ V)

        block = top_block(self._on, self._q, self.top.vectors)
        block.sharpen(apply, 8, 2)
        self._dual = block
        assert block.values is not None
        largest = float(block.values[len(block.values) - self.n_clusters + 1 :].sum())
        value = self.total - float(self._q @ (S @ self._q)) - largest
        if self.sizes is not None:
            value += self._held(np.diagonal(self._on.to_host(S)))
        return value * self.unit

    def _held(self, diagonal: Double) -> float:
        """Return what the limits of the diagonal add to the bound: its multipliers times them."""
        centers = self.cuts.rows[:, 0]
        multipliers = self._on.to_host(self.cuts.multipliers) * self.rho
        squares = self.roots**2
        of_cuts = np.bincount(centers, multipliers / squares[centers], minlength=len(squares))
        rest, (low, high) = diagonal - of_cuts, self._diagonal
        return float(np.where(rest > 0, rest * low, rest * np.where(np.isinf(high), 0, high)).sum())

    def proofs(self, tolerance: float = 0.0) -> Iterator[Proof]:
        """Yield proofs from the multipliers; each is more likely to be accepted, and weaker.

        The first one gives away about a thousandth of the tolerance.

        With H = E C E - S, s = r' H r / W + t and y = (2 (H r + t r) / r - s) / W, M r = 0 holds.
        t is the K-th largest eigenvalue of P (G + S) P; V and D hold the larger ones. y is lowered
        and t raised by a share of the largest eigenvalue, for the rounding of all of it.
        """
        slack, of_cuts, multipliers = self.multiplier()
        r, P = self.roots, self.points
        S = slack + of_cuts
        values, vectors = self.largest(S, tolerance)
        W = float((r**2).sum())
        # E C E r without the matrix: C_ij = (|a_i|^2 + |a_j|^2) / 2 - a_i a_j, a centered points.
        norms = ((P / r[:, None]) ** 2).sum(axis=1)
        h = r * 0.5 * (norms * W + float((r**2) @ norms)) - P @ (P.T @ r)
        h -= S @ r
        for more, level, high in self.levels(values, tolerance):
            y = (2.0 * (h + level * r) / r - float(r @ h) / W - level - more) / W
            yield Proof(
                n_clusters=self.n_clusters,
                prices=y * r * math.sqrt(self.unit),
                level=level * self.unit,
                vectors=vectors[:, high],
                heights=(np.maximum(values[high] - level, 0.0) + more) * self.unit,
                slack=(slack * self.unit).astype(self._stored),
                cuts=self.cuts.rows,
                multipliers=multipliers * self.unit**2,
                sizes=None if self.sizes is None else np.array(self.sizes, dtype=np.float64),
            )

    def largest(self, S: Double, tolerance: float) -> tuple[Double, Double]:
        """Return the largest eigenvalues of P (G + S) P in float64, and their vectors."""
        on, outer = self._on, self._on.module.outer
        S, A, q = on.array(S), on.array(self.points), on.array(self.q)
        Sq = S @ q
        qSq = float(q @ Sq)

        def apply(V: Any) -> Any:
            qV = q @ V
            projected = S @ V + A @ (A.T @ V) - outer(Sq, qV)
            return projected + outer(q, qSq * qV - Sq @ V)

        if self._dual is None:
            self.estimate()
        assert self._dual is not None
        block = top_block(on, q, on.double(self._dual.vectors))
        precise = tolerance < 1e-3
        if not precise:
            block.follow(self._dual)
        block.sharpen(apply, 12 if precise else 8, 4 if precise else 1)
        assert block.values is not None
        return block.values, on.to_host(block.vectors)

    def levels(
        self, values: Double, tolerance: float
    ) -> Iterator[tuple[float, float, NDArray[np.bool_]]]:
        """Yield shifts for the rounding, t with each, and which eigenvalues are higher."""
        if not np.isfinite(values).all():
            return
        for share in _SHARES:
            if share >= 1e-3 * tolerance:
                more = share * abs(float(values[-1]))
                level = max(0.0, float(values[-min(self.n_clusters, len(values))]) + more)
                yield more, level, values > level - more

    def multiplier(self) -> tuple[Double, Double, Double]:
        """Return S = rho (W - Y) as N >= 0 plus the part of the cuts, and their multipliers."""
        S = self._on.to_host(self.W - self.Y).astype(np.float64) * self.rho
        S = 0.5 * (S + S.T)
        multipliers = self._on.to_host(self.cuts.multipliers) * self.rho
        of_cuts = np.zeros_like(S)
        self.cuts.spread(multipliers, of_cuts)
        rest = S - of_cuts
        slack = np.maximum(rest, 0.0)
        i, j = self.apart.T
        slack[i, j], slack[j, i] = rest[i, j], rest[j, i]
        if self.sizes is not None and self.sizes[0] > 0:
            np.fill_diagonal(slack, np.diagonal(rest))
        # A proof stores it in the units of the weights.
        slack = (slack * self.unit).astype(self._stored).astype(np.float64) / self.unit
        return slack, of_cuts, multipliers
