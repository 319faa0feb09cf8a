"""The checker of bounds whose multipliers are constant on blocks of points.

Points x_i with weights w_i > 0 are divided into m blocks a of weight w_a and mean b_a. With the
roots r_i = sqrt(w_i) a clustering is a projection Z (`bounds.proof`): 0 <= Z <= I, tr Z <= K,
Z_ij >= 0, and Z q = q for q = r / ||r||. For any origin c and A = diag(r) (X - c)

    SSE = T - <A A', Z>    with T = sum_i w_i ||x_i - c||^2.

The vectors u_a, which are r_i / sqrt(w_a) in block a and 0 elsewhere, are orthonormal, and
u_a' Z u_b >= 0. A is in the span of them and of d more columns:

    A = [u, Q] A~,   A~ = [sqrt(w_a) (b_a - c); L],   L' L = R = sum_i w_i (x_i - b_a)(x_i - b_a)'.

So the projected Z~ = [u, Q]' Z [u, Q] of m + d rows says all of A. It satisfies 0 <= Z~ <= I,
tr Z~ <= K, Z~_ab >= 0 for blocks a and b, and Z~ q~ = q~ for q~ = (sqrt(w_a / W), 0). The last d
rows are ghosts: they have no signs. Let S >= 0 entrywise and 0 in ghost rows and columns, t >= 0,
D >= 0. If

    M = t I + V diag(D) V' + (q~ y' + y q~') / 2 - S - A~ A~'    is positive semidefinite,

then 0 <= <M, Z~> gives SSE >= T - K t - sum_m D_m ||v_m||^2 - y' q~ for all n points. Cuts do not
hold for blocks: the points of a block may be in several clusters of different weight.

A larger scatter is safe: if L^' L^ - R is semidefinite, L = C L^ with ||C|| <= 1, and M with L^ in
place of L, multiplied by diag(I, C) from both sides, shows the same for V and y multiplied by
diag(I, C), which are not longer and have the same y' q~. So block means may be rounded where the
scatter is taken about them, and a shift covers the rounding of the scatter and of its factor L^.

Rounding, with u = 2**-53 and at most c points in a block. T takes d + 6 roundings of positive
terms. A sum over a block of w_i (x_ij - c_j), divided by sqrt(w_a), is wrong by at most
(2 c + 4) u sum_i w_i |x_ij - c_j| / sqrt(w_a) <= (2 c + 4) u (sum_i w_i (x_ij - c_j)^2)^(1/2),
so that A~ is wrong by e <= (2 c + 4) u sqrt(T) in the Frobenius norm, and A~ A~' by at most
e (2 ||A~|| + e). Entries of q~ are wrong by at most (c + 4) u times themselves. The sums that make
an entry of M add an error whose norm is at most u times

    (d + 5) ||A~||^2 + (k + 6) sum_m D_m ||v_m||^2 + 7 ||y|| + 8 ||S|| + 5 t

in Frobenius norms for k columns of V.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from wolfmeans.bounds.proof import is_semidefinite

Double = NDArray[np.float64]

_U = 2.0**-53
_MORE = 1.0 + 2.0**-10
"""Covers the rounding of the error bounds themselves, and products of several (1 + u)."""
_MOST_POINTS = 1 << 40
_LEAST, _MOST = 2.0**-800, 2.0**800
"""Between these, no underflow is as large as the errors above, and nothing overflows."""
_ENTRIES_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class BlockProof:
    """Numbers that prove a bound."""

    n_clusters: int
    """K."""
    level: float
    """t."""
    vectors: Double
    """(m + d, k) V."""
    heights: Double
    """(k,) D."""
    slack: Double
    """(m, m) S on the blocks; its lower triangle counts."""
    prices: Double
    """(m + d,) y."""


@dataclass(frozen=True)
class Compressed:
    """Points as blocks and ghost rows, with bounds on the rounding."""

    roots: Double
    """(m,) Roots of the weights of the blocks."""
    points: Double
    """(m + d, d) A~; the scatter in its ghost rows is rather too large."""
    origin: Double
    """(d,) c."""
    total: float
    """T, rounded down; 0 where numbers are too small or too large for a proof."""
    error: float
    """At least the norm of the error of A~ A~'."""
    relative: float
    """At least the relative error of each entry of q."""

    @property
    def q(self) -> Double:
        """(m + d,) The unit vector of all points."""
        unit = self.roots / math.sqrt(math.fsum(self.roots**2))
        return np.concatenate([unit, np.zeros(len(self.points) - len(unit))])


def check_blocks(
    X: NDArray[np.floating],
    weights: Double | None,
    blocks: NDArray[np.int32],
    proof: BlockProof,
) -> float:
    """Return the lower bound that numbers from anywhere prove for points, 0.0 if they prove none.

    Parameters
    ----------
    X : array of shape (n, d)
        Finite points, float32 or float64.
    weights : array of shape (n,) or None
        Positive weights; None for ones.
    blocks : array of shape (n,)
        The block of each point, from 0 to m - 1.
    proof : BlockProof
        The numbers.

    Raises
    ------
    ValueError
        If the numbers do not have the form of a proof for these points.
    """
    return proven_value(compressed(X, weights, blocks), proof)


def compressed(
    X: NDArray[np.floating], weights: Double | None, blocks: NDArray[np.int32]
) -> Compressed:
    """Return points as blocks and ghost rows."""
    n, d = X.shape
    if blocks.shape != (n,) or not 0 < n <= _MOST_POINTS or blocks.min() < 0:
        raise ValueError("the blocks are not for these points")
    counts = np.bincount(blocks)
    m, most = len(counts), int(counts.max())
    if not counts.all():
        raise ValueError("a block has no points")
    masses = counts.astype(np.float64) if weights is None else np.bincount(blocks, weights)
    origin = np.zeros(d)
    for rows, given in _rows(X):
        origin += (given if weights is None else given * weights[rows, None]).sum(axis=0)
    origin /= masses.sum()
    sums, squares = np.zeros((m, d)), np.empty(n)
    for j in range(d):
        column = X[:, j].astype(np.float64) - origin[j]
        sums[:, j] = np.bincount(blocks, column if weights is None else weights * column)
    means = origin + sums / masses[:, None]
    scatter = np.zeros((d, d))
    for rows, given in _rows(X):
        squares[rows] = ((given - origin) ** 2).sum(axis=1)
        apart = given - means[blocks[rows]]
        if weights is not None:
            squares[rows] *= weights[rows]
            apart *= np.sqrt(weights[rows, None])
        scatter += apart.T @ apart
    roots, total = np.sqrt(masses), math.fsum(squares)
    lightest = float(masses.min()) if weights is None else float(weights.min())
    within = min(total, lightest) >= _LEAST and max(total, float(masses.max())) <= _MOST
    if not within:
        return Compressed(roots, np.zeros((m + d, d)), origin, 0.0, math.inf, math.inf)
    # n products of numbers that are rounded three times each, their sum, and the factorization.
    shift = _MORE * (n + 2 * d + 16) * _U * float(np.trace(scatter)) + 2.0**-1000
    ghosts = linalg.cholesky(scatter + shift * np.eye(d), lower=False, check_finite=False)
    points = np.vstack([sums / roots[:, None], ghosts])
    off = _MORE * (2 * most + 4) * _U * math.sqrt(total)
    return Compressed(
        roots=roots,
        points=points,
        origin=origin,
        total=total * (1.0 - (d + 8) * _U),
        error=off * (2.0 * float(np.linalg.norm(points)) + off),
        relative=(most + 4) * _U,
    )


def _rows(X: NDArray[np.floating]) -> Iterator[tuple[slice, Double]]:
    """Yield some rows after the other, in float64."""
    step = max(1, _ENTRIES_AT_ONCE // max(1, X.shape[1]))
    for start in range(0, len(X), step):
        rows = slice(start, start + step)
        yield rows, X[rows].astype(np.float64)


def proven_value(points: Compressed, proof: BlockProof) -> float:
    """Return the lower bound that numbers prove for compressed points, 0.0 if they prove none."""
    _well_formed(points, proof)
    A, q, y = points.points, points.q, proof.prices
    m, k = len(points.roots), len(proof.heights)
    # Squares may underflow, and heights may be large.
    norms = proof.heights * ((proof.vectors**2).sum(axis=0) + len(A) * 2.0**-1021)
    matrix = (proof.vectors * proof.heights) @ proof.vectors.T - A @ A.T
    matrix += 0.5 * (np.outer(q, y) + np.outer(y, q))
    matrix[:m, :m] -= proof.slack
    matrix[np.diag_indices(len(A))] += proof.level
    length = float(np.linalg.norm(y))
    rounding = (A.shape[1] + 5) * float(np.linalg.norm(A)) ** 2 + (k + 6) * float(norms.sum())
    rounding += 7 * length + 8 * float(np.linalg.norm(proof.slack)) + 5 * proof.level
    error = points.error + _MORE * (_U * rounding + points.relative * length)
    if not is_semidefinite(matrix, error):
        return 0.0
    levels, priced = proof.n_clusters * proof.level, q * y
    total = math.fsum([points.total, -levels, *(-norms).tolist(), *(-priced).tolist()])
    lost = (len(A) + 4) * _U * math.fsum(norms) + 2 * _U * levels
    lost += (points.relative + 2 * _U) * math.fsum(np.abs(priced))
    value = (total - _MORE * lost) * (1.0 - 4 * _U)
    return max(0.0, value) if math.isfinite(value) else 0.0


def _well_formed(points: Compressed, proof: BlockProof) -> None:
    """Reject what is no proof for these points; the rounding is analyzed for float64."""
    size, m, k = len(points.points), len(points.roots), proof.heights.size
    shapes = {"vectors": (size, k), "heights": (k,), "slack": (m, m), "prices": (size,)}
    for name, shape in shapes.items():
        value = getattr(proof, name)
        if value.dtype != np.float64 or value.shape != shape:
            raise ValueError(f"the proof is not for these blocks: {name} is not float64 {shape}")
    if proof.n_clusters < 1:
        raise ValueError("the proof has no clusters")
    if not (proof.level >= 0 and (proof.heights >= 0).all() and (proof.slack >= 0).all()):
        raise ValueError("level, heights and slack of a proof must not be negative or NaN")
