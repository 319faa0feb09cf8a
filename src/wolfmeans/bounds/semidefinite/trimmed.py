"""The semidefinite bound where points may be left out: trimmed K-means, and costs with a cap.

A clustering that keeps the share a_i of each point, 0 <= a_i <= 1, is a matrix Z as in
`bounds.proof`, but Z r = r a instead of Z r = r. The relaxation minimizes <E C E, Z> over 0 <= Z <=
I, tr Z = K, Z >= 0 entrywise, the cuts, and a; trimming asks for sum w_i a_i = the mass that is
kept, a cap c adds c sum w_i (1 - a_i) to the cost. The prices y are the multipliers of Z r = r a.

It is solved by the alternating direction method of multipliers, with two copies of Z as in
`relaxation.py`, and with Z q and q a, q = r / ||r||, as two copies of the row sums. The quadratic
term of the latter is linearized in Z, so that Z is still found from the largest eigenvalues:

    Z = projection of (2 W - Y + s Z + G / rho - s sym(q (Z q / q - a - k (y - ||x||^2)) q'))
        / (1 + s) onto {0 <= Z <= I, tr Z = K},      k = sum w_i / (s rho),
    Y <- Y + 1.6 (Z - W),  W = projection of Y onto {W >= 0, cuts},
    a = projection of e - k y onto the shares that may be kept,  y <- y + (a - e) / k,

with e the relaxed row sums Z q / q. For the shares, y acts as a price: what costs more than the
others is left out.

The first prices and N are those that would be optimal if the clusters of a given clustering were
isolated: then M is 0 between clusters, and each cluster has M (r a) = 0.

Far outliers would spread the eigenvalues. So all points are first clipped to a box around those
that a good clustering keeps, which makes no distance larger, so that the bound holds all the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from wolfmeans.bounds.bound import (
    LowerBound,
    Settings,
    positive_points,
    total_weight,
    weight_left_out,
)
from wolfmeans.bounds.proof_format import Proof
from wolfmeans.bounds.semidefinite.arrays import HOST
from wolfmeans.bounds.semidefinite.cuts import FEW, Cuts, Double, Matrix, violated_cuts
from wolfmeans.bounds.semidefinite.eigenvectors import TopBlock
from wolfmeans.bounds.semidefinite.relaxation import clip_shift
from wolfmeans.bounds.semidefinite.search import KIND, Search, searched
from wolfmeans.bounds.semidefinite.stars import WIDTH
from wolfmeans.bounds.trimmed_proof import check_trimmed

_OVERRELAXED = 1.6
_OF_ROW_SUMS = 0.3
"""s: the penalty of the row sums, as a share of rho."""
_DEGREE = 4
_SPARE = 12
_FRESH = 2
"""Columns of the block that are replaced by random ones from time to time."""
_EVERY = 10
"""Steps between two looks at the residuals."""
_ROUND = 20
"""Steps between two searches for violated cuts, where there are few in all."""
_WIDEST = 2.0**100
"""Of squared distances times weights."""
_SHARES = tuple(10.0**-e for e in range(8, 3, -1))
"""Shifts of the matrix of a proof, relative to its largest eigenvalue, from the smallest on."""


def payable(prices: Double, weights: Double, left_out: float, cap: float | None) -> float:
    """Return about the least price of what is kept, and the cap for the rest."""
    if cap is not None:
        return float(weights @ np.minimum(prices, cap))
    order = np.argsort(prices, kind="stable")
    heavy = weights[order]
    kept = np.clip(float(heavy.sum()) - left_out - (np.cumsum(heavy) - heavy), 0.0, heavy)
    return float(kept @ prices[order])


def kept_shares(distances: Double, weights: Double, left_out: float, cap: float | None) -> Double:
    """Return which share of each point a clustering keeps, from the distances to its centers."""
    if cap is not None:
        return (distances < cap).astype(np.float64)
    order = np.argsort(distances, kind="stable")
    heavy = weights[order]
    shares = np.empty(len(weights))
    mass = float(heavy.sum()) - left_out
    shares[order] = np.clip((mass - (np.cumsum(heavy) - heavy)) / heavy, 0.0, 1.0)
    return shares


@dataclass(frozen=True)
class Multipliers:
    """Multipliers of the constraints of a relaxation, at one step."""

    S: Matrix
    """(n, n) N >= 0 plus the part of the cuts."""
    cuts: Cuts
    of_cuts: Double
    """(c,) Multipliers of the cuts."""
    shares: Double
    """(n,) a, the share of each point that is kept."""
    prices: Double
    """(n,) y, of the row sums."""
    vectors: Matrix
    """(n, m) About the eigenvectors that count."""


class TrimmedRelaxation:
    """The relaxation of one data set where points may be left out, and where its solution stands.

    Parameters
    ----------
    X : array of shape (n, d)
        The points, of positive weight.
    n_clusters : int
        K, less than n.
    weights : array of shape (n,) or None
        None for ones.
    labels, distances : arrays of shape (n,)
        A clustering to start from: its clusters, and the squared distances to their centers.
    left_out : float
        The weight that may be left out, if there is no cap.
    cap : float or None
        What leaving out a point costs, per unit of its weight.
    """

    def __init__(
        self,
        X: Double,
        n_clusters: int,
        weights: Double | None,
        labels: NDArray[np.integer],
        distances: Double,
        *,
        left_out: float = 0.0,
        cap: float | None = None,
    ) -> None:
        n, self.given, self.problem = len(X), weights, (left_out, cap)
        self.unit = 1.0 if weights is None else float(weights.mean())
        self.weights = np.ones(n) if weights is None else weights / self.unit
        self.n_clusters, self.roots = n_clusters, np.sqrt(self.weights)
        self.left_out, self.cap = left_out / self.unit, cap
        self.mass = float(self.weights.sum())
        self.shares = kept_shares(distances, self.weights, self.left_out, cap)
        threshold = float(distances[self.shares > 0].max()) if cap is None else cap
        self.X = X
        self.box = self._box(math.sqrt(threshold))
        clipped, kept = np.clip(X, *self.box), self.weights * self.shares
        centered = clipped - (kept @ clipped) / kept.sum()
        self.norms = (centered**2).sum(axis=1)
        self.total = float(kept @ self.norms)
        self.points = centered * self.roots[:, None]
        self.q = self.roots / math.sqrt(self.mass)
        self._real: Any = np.float64 if n <= FEW else np.float32
        self._A: Matrix = self.points.astype(self._real)
        self._q: Matrix = self.q.astype(self._real)
        self.rho = 0.75 * self.total / n_clusters or 1.0
        self.top = TopBlock.random(
            HOST, np.zeros_like(self._q), min(n, max(2 * n_clusters + 8, 16))
        )
        none, no_pairs = np.empty((0, WIDTH), np.int32), np.empty((0, 2), np.int32)
        self.cuts = Cuts.of(HOST, self.roots, none, np.empty(0), no_pairs)
        F = np.zeros((n, n_clusters), dtype=self._real)
        F[np.arange(n), labels] = self.roots * self.shares
        F /= np.maximum(np.linalg.norm(F, axis=0), 1e-30)
        self._F = F
        self.Y: Matrix = F @ F.T
        self.prices = self._first_prices(labels, np.minimum(distances, threshold))
        self.Y -= self._first_slack(labels) / self._real(self.rho)
        self.W = self._projected(np.empty_like(self.Y))
        self._B = np.empty_like(self.Y)
        self.steps = 0
        self._highest = -math.inf
        self.best: Multipliers | None = None

    def _first_prices(self, labels: NDArray[np.integer], distances: Double) -> Double:
        """Return prices that would be the best if the clusters were isolated: D_i + t / W_k.

        t is the largest eigenvalue of the scatter matrices of the clusters.
        """
        kept = self.weights * self.shares
        masses = np.bincount(labels, kept, minlength=self.n_clusters)
        roots = np.sqrt(kept)[:, None]
        level = 0.0
        for k in range(self.n_clusters):
            rows = (labels == k) & (kept > 0)
            if rows.any():
                own = self.points[rows] / self.roots[rows, None]
                own = (own - np.average(own, axis=0, weights=kept[rows])) * roots[rows]
                level = max(level, float(np.linalg.norm(own, 2)) ** 2)
        masses[masses == 0] = self.mass
        prices: Double = distances + level / masses[labels]
        return prices if self.cap is None else np.minimum(prices, self.cap)

    def _first_slack(self, labels: NDArray[np.integer]) -> Matrix:
        """Return N such that, for these prices, M is 0 between clusters and for what is left out.

        Where prices are too high for that N is 0.
        """
        real, r = self._real, self.roots
        half = (r * 0.5 * (self.norms - self.prices)).astype(real)
        slack: Matrix = -(self._A @ self._A.T)
        slack += np.outer(half, r.astype(real)) + np.outer(r.astype(real), half)
        np.maximum(slack, 0.0, out=slack)
        kept = self.shares > 0
        slack[(labels[:, None] == labels) & kept[:, None] & kept] = 0.0
        np.fill_diagonal(slack, 0.0)
        return slack

    def _box(self, margin: float) -> Double:
        """Return the box of the points that are kept, with a margin around it.

        With the largest distance that is kept as the margin, what is clipped is still farther than
        that from all centers.
        """
        kept = self.X[self.shares > 0]
        return np.array([kept.min(axis=0) - margin, kept.max(axis=0) + margin])

    @property
    def _rate(self) -> float:
        return self.mass / (_OF_ROW_SUMS * self.rho)

    def step(self) -> None:
        """Take one step of the method of multipliers."""
        B, A, F, q, real = self._B, self._A, self._F, self._q, self._real
        s, k = _OF_ROW_SUMS, self._rate
        np.add(self.W, self.W, out=B)
        B -= self.Y
        sums = (F @ (F.T @ q)).astype(np.float64) / self.q
        pull: Matrix = (s * self.q * (sums - self.shares - k * (self.prices - self.norms))).astype(
            real
        )

        def apply(V: Matrix) -> Matrix:
            result: Matrix = B @ V + (A @ (A.T @ V)) * real(1.0 / self.rho)
            result += (F @ (F.T @ V)) * real(s)
            result -= real(0.5) * (np.outer(pull, q @ V) + np.outer(q, V.T @ pull))
            result *= real(1.0 / (1.0 + s))
            return result

        if self.steps % 10 == 0:
            self._refresh()
        self.top.sharpen(apply, _DEGREE, anew=self.steps % 10 == 0)
        values = self.top.values
        assert values is not None
        shares = np.clip(values - clip_shift(values, self.n_clusters), 0.0, 1.0)
        on = np.flatnonzero(shares > 0)
        self._F = self.top.vectors[:, on] * np.sqrt(shares[on]).astype(real)
        self._fit_block(len(on))
        np.matmul(self._F, self._F.T, out=B)
        B -= self.W
        B *= real(_OVERRELAXED)
        self.Y += B
        self.steps += 1
        watched = self.steps % _EVERY == 0
        W_before, shares_before = (self.W.copy() if watched else self.W), self.shares
        self.W = self._projected(self.W)
        sums = (self._F @ (self._F.T @ q)).astype(np.float64) / self.q
        relaxed = _OVERRELAXED * sums + (1.0 - _OVERRELAXED) * self.shares
        self.shares = self._allowed(relaxed - k * self.prices, k)
        self.prices = self.prices + (self.shares - relaxed) / k
        if watched:
            self._balance(W_before, shares_before, sums)

    def _refresh(self) -> None:
        """Put random vectors into the block, for directions that it has no part in.

        Equal points are an example: what tells them apart is never found from what does not.
        """
        rng = np.random.RandomState(self.steps)
        vectors = self.top.vectors.copy()
        vectors[:, :_FRESH] = rng.normal(size=vectors[:, :_FRESH].shape)
        self.top.vectors = vectors

    def _allowed(self, wanted: Double, rate: float) -> Double:
        """Return the nearest shares that may be kept."""
        if self.cap is not None:
            return np.asarray(np.clip(wanted + rate * self.cap, 0.0, 1.0))
        low, high = float(wanted.min()) - 1.0, float(wanted.max())
        for _ in range(60):
            middle = 0.5 * (low + high)
            kept = float(self.weights @ np.clip(wanted - middle, 0.0, 1.0))
            low, high = (middle, high) if kept > self.mass - self.left_out else (low, middle)
        return np.asarray(np.clip(wanted - 0.5 * (low + high), 0.0, 1.0))

    def _projected(self, W: Matrix) -> Matrix:
        np.maximum(self.Y, 0.0, out=W)
        if len(self.cuts):
            self.cuts.project(W, self.Y)
        return W

    def _fit_block(self, active: int) -> None:
        """Keep some columns more than eigenvalues that count."""
        assert self.top.values is not None
        columns = len(self.top.values)
        if active >= columns - 2:
            self.top.resize(min(len(self.q), int(1.5 * columns) + 4))
        elif active < columns // 3 and columns > self.n_clusters + _SPARE and self.steps % 20 == 19:
            self.top.resize(max(self.n_clusters + 10, int(1.6 * active) + 6))

    def _balance(self, W: Matrix, shares: Double, sums: Double) -> None:
        """Change rho where one of the two residuals is much larger than the other."""
        np.matmul(self._F, self._F.T, out=self._B)
        self._B -= self.W
        of_sums = math.sqrt(_OF_ROW_SUMS) * self.q
        primal = math.hypot(
            float(np.linalg.norm(self._B)),
            float(np.linalg.norm(of_sums * (sums - self.shares))),
        )
        W -= self.W
        dual = math.hypot(
            float(np.linalg.norm(W)), float(np.linalg.norm(of_sums * (shares - self.shares)))
        )
        factor = 1.25 if primal > 2 * dual else 0.8 if dual > 2 * primal else 1.0
        if factor != 1.0:
            self.Y -= self.W
            self.Y *= self._real(1.0 / factor)
            self.Y += self.W
            self.rho *= factor
            self.cuts.multipliers = self.cuts.multipliers / factor

    def separate(self, n_threads: int = 1) -> int:
        """Look for violated cuts; return how many there are now."""
        if self.cuts.rest():
            return len(self.cuts)
        Z = self._F @ self._F.T
        self.cuts = self.cuts.renewed(violated_cuts(Z, self.roots, n_threads))
        self.W = self._projected(self.W)
        return len(self.cuts)

    @property
    def multipliers(self) -> Multipliers:
        """What a proof is made from; it shares no memory with the relaxation."""
        S = (self.W - self.Y) * self._real(self.rho)
        of_cuts = self.cuts.multipliers * self.rho
        return Multipliers(S, self.cuts, of_cuts, self.shares, self.prices, self.top.vectors)

    def estimate(self) -> float:
        """Return about the bound that a proof from here would give; it may be too high.

        The multipliers of the highest estimate are remembered.
        """
        found = self.multipliers
        estimate = self._priced(found.S, self._A, found, 8, 2)[0]
        if estimate > self._highest:
            self._highest, self.best = estimate, found
        return estimate

    def _priced(
        self, S: Matrix, A: Matrix, found: Multipliers, degree: int, times: int
    ) -> tuple[float, Double, TopBlock]:
        """Return about the bound, prices, and the largest eigenvalues with their vectors.

        Two kinds of prices are tried. The multipliers of the row sums are good where many points
        are kept in part. With H = E C E - S and z = r a, the prices (2 (H z + t z) - r (z' H z + t
        z' z) / z' r) / (r z' r) make M z = 0 if every a is 0 or 1. Any t does; the eigenvalue that
        counts least is a good one. z then belongs to it, and is put into the block.
        """
        z, r = self.roots * found.shares, self.roots
        kept = float(z @ r)
        vectors = found.vectors.astype(S.dtype)
        eta = r * (found.prices - self.norms)
        first = self._valued(S, A, eta, vectors, degree, times)
        values = first[2].values
        assert values is not None
        if not kept > 0:
            return first
        h = -(S @ z.astype(S.dtype)).astype(np.float64) - self.points @ (self.points.T @ z)
        h += float(values[-min(self.n_clusters, len(values))]) * z
        eta = (2.0 * h - r * float(z @ h) / kept) / kept
        vectors = np.hstack([first[2].vectors, z.astype(S.dtype)[:, None]])[:, -len(r) :]
        second = self._valued(S, A, eta, vectors, degree, times)
        return second if second[0] > first[0] else first

    def _valued(
        self, S: Matrix, A: Matrix, eta: Double, vectors: Matrix, degree: int, times: int
    ) -> tuple[float, Double, TopBlock]:
        """Return what `_priced` does for the prices ||x||^2 + eta / r."""
        real = S.dtype.type
        left, right = eta.astype(S.dtype), self.roots.astype(S.dtype)

        def apply(V: Matrix) -> Matrix:
            result: Matrix = S @ V + A @ (A.T @ V)
            result += real(0.5) * (np.outer(left, right @ V) + np.outer(right, left @ V))
            return result

        block = TopBlock(HOST, np.zeros_like(right), vectors)
        block.sharpen(apply, degree, times)
        assert block.values is not None
        y = eta / self.roots + self.norms
        largest = float(np.maximum(block.values[-self.n_clusters :], 0.0).sum())
        value = payable(y, self.weights, self.left_out, self.cap) - largest
        return value * self.unit, y, block

    def proofs(self, found: Multipliers) -> Iterator[Proof]:
        """Yield proofs from multipliers; each is more likely to be accepted, and weaker."""
        of_cuts = np.zeros(found.S.shape)
        if len(found.cuts):
            found.cuts.spread(found.of_cuts, of_cuts)
        slack = found.S.astype(np.float64)
        slack = np.maximum(0.5 * (slack + slack.T) - of_cuts, 0.0)
        _, y, block = self._priced(slack + of_cuts, self.points, found, 12, 3)
        values = block.values
        assert values is not None
        for share in _SHARES:
            more = share * abs(float(values[-1]))
            level = max(0.0, float(values[-min(self.n_clusters, len(values))]) + more)
            on = values > level - more
            yield Proof(
                n_clusters=self.n_clusters,
                prices=y * self.roots * math.sqrt(self.unit),
                level=level * self.unit,
                vectors=block.vectors[:, on],
                heights=(np.maximum(values[on] - level, 0.0) + more) * self.unit,
                slack=(slack * self.unit).astype(np.float32),
                cuts=found.cuts.rows,
                multipliers=found.of_cuts * self.unit**2,
                box=self.box,
            )


def trimmed(
    X: NDArray[np.floating],
    n_clusters: int,
    weights: Double | None,
    mass: float,
    *,
    labels: NDArray[np.integer],
    distances: Double,
    settings: Settings,
) -> LowerBound:
    """Return the best semidefinite bound of a trimmed problem that is proven in time, with proof.

    Parameters
    ----------
    X : array of shape (n, d)
        Validated points.
    n_clusters : int
        K.
    weights : array of shape (n,) or None
        At least 0; None for ones.
    mass : float
        The weight that is kept.
    labels, distances : arrays of shape (n,)
        A clustering to start from: its clusters, and the squared distances to their centers.
    settings : Settings
        As for `semidefinite`. The goal is the cost of the given clustering.
    """
    started, begun = perf_counter(), settings.clock()
    if weights is not None:
        labels, distances = labels[weights > 0], distances[weights > 0]
    positive, heavy = positive_points(X, weights)
    points, n = np.asarray(positive, dtype=np.float64), len(positive)
    left_out = weight_left_out(total_weight(n, heavy), mass)
    given = np.ones(n) if heavy is None else heavy
    goal = payable(distances, given, left_out, None)
    width = float(np.ptp(points, axis=0).max())
    # Slack is float32 in a proof, so that it cannot hold what is far from 1.
    in_range = width < _WIDEST and width**2 * float(given.max()) < _WIDEST and goal > 1 / _WIDEST
    if n_clusters >= n or not in_range:
        return LowerBound(0.0, KIND, 1.0, perf_counter() - started)
    relaxation = TrimmedRelaxation(points, n_clusters, heavy, labels, distances, left_out=left_out)
    if not relaxation.total > 0:
        # What this clustering keeps is one point, many times: there is nothing to begin with.
        return LowerBound(0.0, KIND, 1.0, perf_counter() - started)
    search = Search(
        relaxation,
        lambda tolerance: proven(relaxation, relaxation.best or relaxation.multipliers),
        replace(settings, goal=goal),
        begun,
    )
    # Steps choose their threads. Estimates and proofs have one, as threads may wait for long.
    with threadpool_limits(1, user_api="blas"):
        found = searched(search)
    return replace(found, seconds=perf_counter() - started)


def capped(
    X: NDArray[np.floating],
    n_clusters: int,
    cap: float,
    *,
    centers: NDArray[np.floating],
    steps: int = 60,
) -> LowerBound:
    """Return a semidefinite bound of the sum of min(D_i, cap), after some steps from centers.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [2.0], [10.0], [12.0], [99.0]])
    >>> 11.9 < capped(X, 2, 8.0, centers=np.array([[1.0], [11.0]])).value <= 12.0
    True
    """
    started = perf_counter()
    points = np.asarray(X, dtype=np.float64)
    squares = np.stack([((points - center) ** 2).sum(axis=1) for center in centers], axis=1)
    labels, distances = squares.argmin(axis=1), squares.min(axis=1)
    kept = points[distances < cap]
    value, proof = 0.0, None
    if n_clusters < len(points) and len(kept) and np.ptp(kept, axis=0).any():
        with threadpool_limits(1, user_api="blas"):
            relaxation = TrimmedRelaxation(points, n_clusters, None, labels, distances, cap=cap)
            for step in range(1, steps + 1):
                relaxation.step()
                if step % _ROUND == 0 and step < steps:
                    relaxation.separate()
            value, proof = proven(relaxation, relaxation.multipliers)
    return LowerBound(value, KIND, 1.0, perf_counter() - started, proof)


def proven(relaxation: TrimmedRelaxation, multipliers: Multipliers) -> tuple[float, Proof | None]:
    """Return the value of the first proof that the checker accepts, and that proof."""
    problem = relaxation.problem
    for proof in relaxation.proofs(multipliers):
        value = check_trimmed(
            relaxation.X, relaxation.given, proof, left_out=problem[0], cap=problem[1]
        )
        if value > 0.0:
            return value, proof
    return 0.0, None
