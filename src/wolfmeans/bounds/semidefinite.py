"""The semidefinite lower bound: Peng and Wei's relaxation with pair and triangle cuts.

Every clustering is a matrix Z (`bounds.proof`), and SSE = tr G - <G, Z> with G the Gram matrix of
the centered, weighted points. The relaxation minimizes over all Z = q q' + Z' with Z' q = 0, 0 <=
Z' <= I, tr Z' = K - 1, Z >= 0 entrywise and the cuts (Peng and Wei, SIAM J. Optim. 18, 2007; cuts
as in Piccialli, Sudoso and Wiegele, INFORMS J. Comput. 2022). It is solved by the alternating
direction method of multipliers on two copies of Z:

    W = projection of Y onto {W >= 0, cuts},    Z' = projection of P (2 W - Y + G / rho) P onto
    {0 <= Z' <= I, tr Z' = K - 1},              Y <- Y + 1.6 (q q' + Z' - W).

The second projection needs the largest eigenvalues only. They come from a block of vectors that
is kept from step to step and sharpened by a Chebyshev filter. These steps prove nothing and are
float32 for more than some hundred points. At any step S = rho (W - Y) is a multiplier of the
constraints. From it a proof in float64 is made and checked; only a checked value is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse

from wolfmeans.bounds.bound import LowerBound, Report, positive_points, quiet
from wolfmeans.bounds.proof import Proof, check

Matrix = NDArray[np.floating]
Double = NDArray[np.float64]
Operator = Callable[[Any], Any]

_OVERRELAXED = 1.6
_DEGREE = 4
"""Of the Chebyshev filter in each step."""
_SPARE = 12
"""Columns of the block beyond the eigenvalues that count."""
_EVERY = 20
"""Steps between two looks at the residuals."""
_STEPS_OF_A_ROUND = 40
"""Steps between two searches for violated cuts."""
_INNER, _INNER_OF_FEW, _FEW = 12, 30, 1000
"""Steps of the projection onto the cuts, and for few points, where they cost little."""
_NEW_CUTS, _NEW_PER_POINT = 20_000, 8
_MOST_CUTS, _MOST_PER_POINT = 60_000, 30
"""Cuts in a round and in all. With far more cuts than points, projections do not converge."""
_CUTS_OF_A_ROW = 40
_NEIGHBOURS = 200
KIND = "semidefinite"
_OPTIMAL = 1e-6
"""A bound within this share of an SSE proves it optimal."""
_VIOLATED = 1e-3
"""By so much of a typical z_ii a cut must be violated to be added."""
_PATIENCE = 3
"""Rounds that a cut stays without a multiplier."""
_SHARES = tuple(10.0**-e for e in range(11, 3, -1))
"""Shifts of the matrix of a proof, relative to its largest eigenvalue, from the smallest on."""


class TopBlock:
    """The largest eigenvalues of a symmetric operator on the complement of q, and their vectors."""

    def __init__(self, q: NDArray[Any], columns: int, seed: int = 0) -> None:
        rng = np.random.RandomState(seed)
        self.q = q
        self.vectors = rng.normal(size=(len(q), columns)).astype(q.dtype)
        self.values: Double | None = None
        self._low = 0.0

    def _projected(self, V: Any) -> Any:
        return V - np.outer(self.q, self.q @ V)

    def _orthonormal(self, V: Any) -> Any:
        """Return an orthonormal basis: Cholesky factors of the Gram matrix in float64, twice.

        The filter makes columns nearly parallel. What is then left of them in float32 is rounding,
        also in the direction of q, which is taken out both times.
        """
        wide, q = V.astype(np.float64), self.q.astype(np.float64)
        for _ in range(2):
            wide -= np.outer(q, q @ wide)
            wide /= np.maximum(np.linalg.norm(wide, axis=0), np.finfo(np.float64).tiny)
            try:
                factor = linalg.cholesky(wide.T @ wide, lower=True, check_finite=False)
            except linalg.LinAlgError:
                wide = linalg.qr(wide, mode="economic", check_finite=False)[0]
                continue
            wide = linalg.solve_triangular(factor, wide.T, lower=True, check_finite=False).T
        return wide.astype(V.dtype)

    def _lowest(self, apply: Operator) -> float:
        """Return about the smallest eigenvalue, rather too low (Lanczos)."""
        v = self._projected(np.random.RandomState(1).normal(size=(len(self.q), 1)))
        v = (v / np.linalg.norm(v)).astype(self.q.dtype)
        before, size = np.zeros_like(v), 0.0
        diagonal, off = [], []
        for _ in range(12):
            w = self._projected(apply(v)) - self.q.dtype.type(size) * before
            diagonal.append(float((w * v).sum()))
            w -= self.q.dtype.type(diagonal[-1]) * v
            size = float(np.linalg.norm(w))
            off.append(size)
            if size < 1e-12 * max(map(abs, diagonal)):
                break
            before, v = v, w / self.q.dtype.type(size)
        found = linalg.eigvalsh_tridiagonal(np.array(diagonal), np.array(off[: len(diagonal) - 1]))
        return float(1.5 * min(found[0], 0.0) - 0.3 * off[-1] - 1e-3 * abs(found[-1]))

    def sharpen(self, apply: Operator, degree: int, times: int = 1, *, anew: bool = False) -> None:
        """Bring values and vectors up to date with an operator that has changed little."""
        if self.values is None or anew:
            self._low = self._lowest(apply)
        if self.values is None:
            self._rotate(apply, self._orthonormal(self.vectors))
            times = max(times, 3)
        for _ in range(times):
            self._rotate(apply, self._orthonormal(self._filtered(apply, degree)))

    def _rotate(self, apply: Operator, V: Any) -> None:
        """Set the Ritz values and vectors of a space."""
        H = (V.T @ apply(V)).astype(np.float64)
        values, Q = linalg.eigh(0.5 * (H + H.T), check_finite=False)
        self.values, self.vectors = values, V @ Q.astype(V.dtype)

    def _filtered(self, apply: Operator, degree: int) -> Any:
        """Return the vectors with what belongs to small eigenvalues damped."""
        assert self.values is not None
        low, high, top = self._low, float(self.values[0]), float(self.values[-1])
        if high <= low:
            high = low + 0.1 * (top - low)
        top = max(top, high + 1e-6 * abs(high) + 1e-30)
        real = self.q.dtype.type
        half, middle = 0.5 * (high - low), 0.5 * (high + low)
        sigma = half / (top - middle)
        tau, V = 2.0 / sigma, self.vectors
        Y = (self._projected(apply(V)) - real(middle) * V) * real(sigma / half)
        for _ in range(degree - 1):
            new = 1.0 / (tau - sigma)
            Y, V = (
                (self._projected(apply(Y)) - real(middle) * Y) * real(2.0 * new / half)
                - real(sigma * new) * V,
                Y,
            )
            sigma = new
        return Y

    def resize(self, columns: int) -> None:
        """Keep the largest, or add random ones."""
        assert self.values is not None
        have = len(self.values)
        if columns <= have:
            self.vectors, self.values = (
                self.vectors[:, have - columns :],
                self.values[have - columns :],
            )
            return
        rng = np.random.RandomState(have)
        more = rng.normal(size=(len(self.q), columns - have)).astype(self.q.dtype)
        self.vectors = self._orthonormal(np.hstack([more, self.vectors]))
        lowest = self.values[0] - 1e-3 * abs(self.values[0])
        self.values = np.concatenate([np.full(columns - have, lowest), self.values])


@dataclass
class Cuts:
    """Pair and triangle cuts, their multipliers, and the projection onto them."""

    roots: Double
    rows: NDArray[np.int32]
    multipliers: Double
    idle: NDArray[np.int64]
    """For how many rounds each has had no multiplier."""

    @staticmethod
    def none(roots: Double) -> Cuts:
        """Return no cuts."""
        return Cuts(roots, np.empty((0, 3), np.int32), np.empty(0), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.rows)

    def build(self) -> None:
        """Prepare the projection: the entries that cuts touch, and cuts as a matrix over these."""
        n, r = len(self.roots), self.roots
        i, j, k = self.rows.T.astype(np.int64)
        three = np.flatnonzero(k >= 0)
        number = np.arange(len(i))
        terms = [
            (number, i, i, 1.0),
            (number, i, j, -1.0),
            (three, i[three], k[three], -1.0),
            (three, j[three], k[three], 1.0),
        ]
        cut = np.concatenate([term[0] for term in terms])
        a = np.concatenate([term[1] for term in terms])
        b = np.concatenate([term[2] for term in terms])
        value = np.concatenate([term[3] / (r[term[1]] * r[term[2]]) for term in terms])
        key, entry = np.unique(np.minimum(a, b) * n + np.maximum(a, b), return_inverse=True)
        self.a, self.b = key // n, key % n
        T = sparse.csr_array((value, (cut, entry)), shape=(len(i), len(key)))
        # Entries off the diagonal count twice in the norm.
        half = sparse.csr_array(T.multiply(np.where(self.a == self.b, 1.0, 0.5)[None, :]))
        self._T, self._half = T, sparse.csr_array(half.T)
        x = np.ones(len(i))
        size = 1.0
        for _ in range(20):
            x = T @ (self._half @ x)
            size = float(np.linalg.norm(x))
            x /= size
        self._step = 1.0 / (1.05 * size)

    def project(self, W: Matrix, Y: Matrix) -> None:
        """Correct W = max(Y, 0) in place: the nearest matrix to Y that also satisfies the cuts.

        By accelerated gradient steps on the multipliers; any multipliers make a valid W - Y.
        """
        y = Y[self.a, self.b].astype(np.float64)
        mu = ahead = self.multipliers
        t = 1.0
        for _ in range(_INNER_OF_FEW if len(self.roots) < _FEW else _INNER):
            w = np.maximum(y + self._half @ ahead, 0.0)
            new = np.maximum(ahead - self._step * (self._T @ w), 0.0)
            t_new = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
            ahead = np.maximum(new + ((t - 1.0) / t_new) * (new - mu), 0.0)
            mu, t = new, t_new
        self.multipliers = mu
        w = np.maximum(y + self._half @ mu, 0.0).astype(Y.dtype)
        W[self.a, self.b] = w
        W[self.b, self.a] = w

    def spread(self, multipliers: Double, to: Double) -> None:
        """Write the sum of the cuts times multipliers to the entries of a matrix."""
        found = self._half @ multipliers
        to[self.a, self.b] = found
        to[self.b, self.a] = found

    def renewed(self, found: NDArray[np.int32]) -> Cuts:
        """Return the cuts without those long idle, and with new ones."""
        idle = np.where(self.multipliers > 0, 0, self.idle + 1)
        keep = idle < _PATIENCE
        rows = self.rows[keep]
        most = min(_MOST_CUTS, _MOST_PER_POINT * len(self.roots))
        found = found[: max(0, most - len(rows))]
        known = set(map(bytes, rows))
        fresh = found[[bytes(row) not in known for row in found]] if len(found) else found
        cuts = Cuts(
            self.roots,
            np.concatenate([rows, fresh]).astype(np.int32),
            np.concatenate([self.multipliers[keep], np.zeros(len(fresh))]),
            np.concatenate([idle[keep], np.zeros(len(fresh), np.int64)]),
        )
        if len(cuts):
            cuts.build()
        return cuts


def violated_cuts(Z: Matrix, roots: Double) -> NDArray[np.int32]:
    """Return pair and triangle cuts that a matrix violates, the most violated first."""
    z = Z / (roots[:, None] * roots[None, :]).astype(Z.dtype)
    diagonal = np.diagonal(z).copy()
    least = _VIOLATED * float(np.median(diagonal))
    pairs = z - diagonal[:, None]
    np.fill_diagonal(pairs, -1.0)
    i, j = np.nonzero(pairs > least)
    found = [np.stack([i, j, np.full(len(i), -1)], axis=1)]
    by = [pairs[i, j]]
    for row in range(len(z)):
        near = np.flatnonzero(z[row] > 0.05 * diagonal[row])
        near = near[near != row]
        if len(near) > _NEIGHBOURS:
            near = near[:: -(-len(near) // _NEIGHBOURS)]
        by_row = z[row, near]
        over = by_row[:, None] + by_row[None, :] - diagonal[row] - z[np.ix_(near, near)]
        a, b = np.nonzero(np.triu(over, 1) > least)
        if len(a) > _CUTS_OF_A_ROW:
            most = np.argpartition(-over[a, b], _CUTS_OF_A_ROW)[:_CUTS_OF_A_ROW]
            a, b = a[most], b[most]
        found.append(np.stack([np.full(len(a), row), near[a], near[b]], axis=1))
        by.append(over[a, b])
    cuts, size = np.concatenate(found), np.concatenate(by)
    at_most = min(_NEW_CUTS, _NEW_PER_POINT * len(z))
    return cuts[np.argsort(-size, kind="stable")[:at_most]].astype(np.int32)


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
    labels : array of shape (n,)
        A clustering to start from.
    """

    def __init__(
        self, X: Double, n_clusters: int, weights: Double | None, labels: NDArray[np.int32]
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
        self._real: Any = np.float64 if n <= _FEW else np.float32
        self._A, self._q = self.points.astype(self._real), self.q.astype(self._real)
        self.rho = 2.5 * self.total / n_clusters
        self.cuts = Cuts.none(self.roots)
        self.top = TopBlock(self._q, min(n - 1, max(2 * n_clusters + 8, 16)))
        F = np.zeros((n, n_clusters), dtype=self._real)
        F[np.arange(n), labels] = self.roots
        F /= np.maximum(np.linalg.norm(F, axis=0), 1e-30)
        self.Y = F @ F.T
        self.W = np.maximum(self.Y, 0.0)
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
        return W

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

    def separate(self) -> int:
        """Look for violated cuts; return how many there are now."""
        Z = self._F @ self._F.T
        self.cuts = self.cuts.renewed(violated_cuts(Z, self.roots))
        self.W = self._projected(self.W)
        return len(self.cuts)

    def estimate(self) -> float:
        """Return about the bound that a proof from here would give; it may be too high."""
        S, A = (self.W - self.Y) * self._real(self.rho), self._A

        def apply(V: Matrix) -> Matrix:
            result: Matrix = S @ V + A @ (A.T @ V)
            return result

        block = TopBlock(self._q, 1)
        block.vectors = self.top.vectors
        block.sharpen(apply, 8, 2)
        assert block.values is not None
        largest = float(block.values[len(block.values) - self.n_clusters + 1 :].sum())
        return (self.total - float(self._q @ (S @ self._q)) - largest) * self.unit

    def proofs(self) -> Iterator[Proof]:
        """Yield proofs from the multipliers; each is more likely to be accepted, and weaker.

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

        block = TopBlock(q, 1)
        block.vectors = self.top.vectors.astype(np.float64)
        block.sharpen(apply, 12, 4)
        values = block.values
        assert values is not None
        W = float((r**2).sum())
        # E C E r without the matrix: C_ij = (|a_i|^2 + |a_j|^2) / 2 - a_i a_j, a centered points.
        norms = ((P / r[:, None]) ** 2).sum(axis=1)
        h = r * 0.5 * (norms * W + float((r**2) @ norms)) - P @ (P.T @ r) - S @ r
        for share in _SHARES:
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
        slack = np.maximum(S - of_cuts, 0.0).astype(np.float32).astype(np.float64)
        return slack, of_cuts, multipliers


def semidefinite(
    X: NDArray[np.floating],
    n_clusters: int,
    weights: Double | None = None,
    *,
    labels: NDArray[np.int32],
    seconds: float = 60.0,
    goal: float | None = None,
    progress: Report | None = None,
) -> LowerBound:
    """Return the best semidefinite bound that is proven within some seconds, with its proof.

    Parameters
    ----------
    X : array of shape (n, d)
        Validated points.
    n_clusters : int
        K.
    weights : array of shape (n,) or None
        At least 0; None for ones.
    labels : array of shape (n,)
        A clustering to start from; the better it is, the sooner the bound is good.
    seconds : float
        No step is taken later. The last proof and its check come on top.
    goal : float or None
        The SSE of a clustering: a bound within 1e-6 of it ends the search.
    progress : callable or None
        Called with the completed fraction and a text.
    """
    started, report = perf_counter(), progress or quiet
    if weights is not None:
        labels = labels[weights > 0]
    positive, heavy = positive_points(X, weights)
    points = np.asarray(positive, dtype=np.float64)
    if not 1 < n_clusters < len(points) or not np.ptp(points, axis=0).any():
        return LowerBound(0.0, KIND, 1.0, perf_counter() - started)
    relaxation = Relaxation(points, n_clusters, heavy, labels)
    enough = math.inf if goal is None else (1.0 - _OPTIMAL) * goal
    best, proof, over = 0.0, None, False
    try:
        while not over and best < enough:
            relaxation.step()
            spent = perf_counter() - started
            over = spent >= seconds
            if relaxation.steps % _STEPS_OF_A_ROUND == 0 or over:
                estimate = relaxation.estimate()
                report(min(1.0, spent / seconds), f"semidefinite bound: about {estimate:.6g}")
                # A proof takes as long as some steps, so it must promise much more than the last.
                more = 0.01 * best if goal is None else 0.5 * (goal - best)
                if over or estimate >= enough or estimate > best + more:
                    value, found = proven(relaxation, points, heavy)
                    if value > best:
                        best, proof = value, found
            if relaxation.steps % _STEPS_OF_A_ROUND == 0 and not over:
                relaxation.separate()
    except KeyboardInterrupt:
        if proof is None:
            raise
    return LowerBound(best, KIND, 1.0, perf_counter() - started, proof)


def proven(relaxation: Relaxation, X: Double, weights: Double | None) -> tuple[float, Proof | None]:
    """Return the value of the first proof that the checker accepts, and that proof."""
    for proof in relaxation.proofs():
        value = check(X, weights, proof)
        if value > 0.0:
            return value, proof
    return 0.0, None
