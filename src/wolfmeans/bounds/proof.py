"""Proofs of lower bounds, and the checker that verifies them.

Points x_i with weights w_i > 0, r_i = sqrt(w_i), E = diag(r), C_ij = ||x_i - x_j||^2 / 2. A
clustering into at most K clusters is the projection Z onto the vectors E 1_A of its clusters A.
It satisfies 0 <= Z <= I, tr Z <= K, Z_ij >= 0, <E C E, Z> = SSE, <E (y 1' + 1 y') E, Z> = 2 sum
w_i y_i, and with z_ij = Z_ij / (r_i r_j), which is 1 / W_A inside a cluster and 0 elsewhere,

    pair cuts z_ii - z_ij >= 0,    triangle cuts z_ii + z_jk - z_ij - z_ik >= 0.

Let N >= 0 entrywise, S = N + a sum of cuts with multipliers mu >= 0, t >= 0 and D >= 0. If

    M = E (C - (y 1' + 1 y') / 2) E - S + t I + V diag(D) V'    is positive semidefinite,

then 0 <= <M, Z> gives SSE >= sum_i w_i y_i - K t - sum_m D_m ||v_m||^2. How y, t, V, D, N and mu
were found does not matter. The checker uses NumPy and SciPy only, and trusts no number of a
proof.

Rounding, with u = 2**-53. Entries of E C E are rounded down, which is safe because Z_ij >= 0. All
other rounding in M is bounded entry by entry; the largest row sum e of these bounds is at least
the norm of the error. If the floating-point Cholesky factorization of B = M - c I runs to its
end, it is the exact one of B + F with |F_ij| <= g sqrt(B_ii B_jj) and g = (n + 2) u / (1 - 2 (n +
2) u). So the smallest eigenvalue of M is at least c - e - g tr B - u max |B_ii|, and c is chosen
such that this is not negative (Higham, Accuracy and Stability, theorem 10.3; Rump, BIT 46, 2006).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

_U = 2.0**-53
_MORE = 1.0 + 2.0**-10
"""Covers the rounding of the error bounds themselves, and products of several (1 + u)."""
_ROWS_AT_ONCE = 256
_AXES = {
    **{"n_clusters": 0, "level": 0, "prices": 1, "heights": 1, "multipliers": 1},
    **{"vectors": 2, "slack": 2, "cuts": 2},
}
_MOST_POINTS = 1 << 20
"""Up to here (n + 2) u is below 2**-32, which `_MORE` covers."""


@dataclass(frozen=True)
class Proof:
    """Numbers that prove a lower bound for one data set; `check` verifies them.

    The rows are the points of positive weight, in their order.
    """

    n_clusters: int
    """K: the bound holds for at most so many clusters."""
    prices: NDArray[np.float64]
    """(n,) r_i y_i."""
    level: float
    """t >= 0."""
    vectors: NDArray[np.float64]
    """(n, m) V."""
    heights: NDArray[np.float64]
    """(m,) D >= 0."""
    slack: NDArray[np.float32]
    """(n, n) N >= 0; its lower triangle counts."""
    cuts: NDArray[np.int32]
    """(c, 3) rows i, j, k of triangle cuts; k = -1 for pair cuts."""
    multipliers: NDArray[np.float64]
    """(c,) mu >= 0."""

    def save(self, file: Any) -> None:
        """Write the proof to an NPZ file, which cannot execute code."""
        np.savez_compressed(
            file, **{field.name: getattr(self, field.name) for field in fields(self)}
        )

    @staticmethod
    def load(file: Any) -> Proof:
        """Read a proof; whether it proves anything, `check` says."""
        with np.load(file, allow_pickle=False) as stored:
            found = {field.name: stored[field.name] for field in fields(Proof)}
        for name, axes in _AXES.items():
            if found[name].ndim != axes:
                raise ValueError(f"{name} has {found[name].ndim} axes, not {axes}")
        found["n_clusters"], found["level"] = int(found["n_clusters"]), float(found["level"])
        return Proof(**found)


def check(X: NDArray[np.floating], weights: NDArray[np.float64] | None, proof: Proof) -> float:
    """Return the lower bound that a proof proves for the points, 0.0 if it proves nothing.

    Parameters
    ----------
    X : array of shape (n, d)
        Finite points, float32 or float64.
    weights : array of shape (n,) or None
        Positive weights; None for ones.
    proof : Proof
        Numbers from anywhere.

    Raises
    ------
    ValueError
        If the proof does not have the form of one for these points.
    """
    n = len(X)
    proof = _well_formed(n, proof)
    roots = np.ones(n) if weights is None else np.sqrt(weights)
    matrix, error = proof_matrix(np.asarray(X, dtype=np.float64), roots, proof)
    if not is_semidefinite(matrix, error):
        return 0.0
    return _value(roots, weights is not None, proof)


def _well_formed(n: int, proof: Proof) -> Proof:
    """Return the proof in the precisions in which its rounding is analyzed; reject what is none."""
    kinds: dict[str, Any] = {"slack": np.float32, "cuts": np.int32, "level": np.float64}
    for name in ("prices", "vectors", "heights", "slack", "cuts", "multipliers", "level"):
        found, wanted = np.asarray(getattr(proof, name)).dtype, kinds.get(name, np.float64)
        if found != wanted:
            raise ValueError(f"{name} of the proof is {found}, not {np.dtype(wanted)}")
    m, c = len(proof.heights), len(proof.multipliers)
    shapes = {"prices": (n,), "vectors": (n, m), "slack": (n, n), "cuts": (c, 3)}
    for name, shape in shapes.items():
        found = getattr(proof, name).shape
        if found != shape:
            raise ValueError(
                f"the proof is not for these points: {name} has shape {found}, not {shape}"
            )
    if n > _MOST_POINTS or proof.n_clusters < 1:
        raise ValueError("the proof has too many points or no clusters")
    nonnegative = ("level", "heights", "slack", "multipliers")
    if not all(np.all(np.asarray(getattr(proof, name)) >= 0) for name in nonnegative):
        raise ValueError(
            "level, heights, slack and multipliers of a proof must not be negative or NaN"
        )
    i, j, k = proof.cuts.T
    distinct = (i != j) & (i != k) & ((j != k) | (k < 0))
    inside = (i >= 0) & (j >= 0) & (k >= -1) & (np.maximum(np.maximum(i, j), k) < n)
    if not (distinct & inside).all():
        raise ValueError("a cut of the proof names the same row twice, or one that does not exist")
    return proof


def proof_matrix(
    X: NDArray[np.float64], roots: NDArray[np.float64], proof: Proof
) -> tuple[NDArray[np.float64], float]:
    """Return the lower triangle of M, and a bound on the norm of its rounding errors.

    In each entry |fl(M) - M| is at most
    u ((6 + k) (H + P + N + Q + t I + L) + 4 P + (k + 3) Q + (m + 2) L),
    with H the distances, P = (|y| r' + r |y|') / 2, Q the sum of the magnitudes of at most k terms
    of cuts, and L = |V| diag(D) |V|'.
    """
    n, d = X.shape
    prices, vectors, heights = proof.prices, proof.vectors, proof.heights
    tall = vectors * heights
    entries, sizes, most = _cuts(roots, proof)
    matrix, sums = np.zeros((n, n)), np.zeros(n)
    # Differences, squares, sums, halves and products with roots, each rounded once.
    down = 1.0 - (d + 8) * _U
    for start in range(0, n, _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, n)
        rows = slice(start, stop)
        distances = np.zeros((stop - start, stop))
        for column in X.T:
            distances += (column[rows, None] - column[None, :stop]) ** 2
        distances *= roots[rows, None] * roots[None, :stop]
        distances *= 0.5 * down
        slack = proof.slack[rows, :stop].astype(np.float64)
        both = distances + slack
        below = np.tri(stop - start, stop, start - 1, dtype=bool)
        sums[rows] += np.where(below, both, 0.0).sum(axis=1) + np.diagonal(both, start)
        sums[:stop] += np.where(below, both, 0.0).sum(axis=0)
        priced = prices[rows, None] * roots[None, :stop] + roots[rows, None] * prices[None, :stop]
        matrix[rows, :stop] = distances - 0.5 * priced - slack + tall[rows] @ vectors[:stop].T
    matrix[np.diag_indices(n)] += proof.level
    lower = entries[0] >= entries[1]
    np.subtract.at(matrix, (entries[0][lower], entries[1][lower]), entries[2][lower])
    priced_sums = 0.5 * (np.abs(prices) * roots.sum() + roots * np.abs(prices).sum())
    tall_sums = np.abs(tall) @ np.abs(vectors).sum(axis=0)
    all_sums = sums + priced_sums + sizes + proof.level + tall_sums
    errors = (
        (6 + most) * all_sums
        + 4 * priced_sums
        + (most + 3) * sizes
        + (len(heights) + 2) * tall_sums
    )
    return matrix, float(_MORE * _U * errors.max())


def _cuts(
    roots: NDArray[np.float64], proof: Proof
) -> tuple[tuple[Any, Any, NDArray[np.float64]], NDArray[np.float64], int]:
    """Return rows, columns and values of the terms of the cuts, row sums, and terms of an entry.

    A cut has 1 / r_i^2 at (i, i), -1 / (2 r_i r_j) at (i, j) and (j, i), and so on.
    """
    n = len(roots)
    i, j, k = proof.cuts.T.astype(np.int64)
    three = k >= 0
    pairs = [(i, j, -0.5, slice(None)), (i, k, -0.5, three), (j, k, 0.5, three)]
    rows, columns, values = [i], [i], [proof.multipliers / roots[i] / roots[i]]
    for a, b, sign, which in pairs:
        a, b = a[which], b[which]
        value = sign * proof.multipliers[which] / roots[a] / roots[b]
        rows += [a, b]
        columns += [b, a]
        values += [value, value]
    row, column, value = np.concatenate(rows), np.concatenate(columns), np.concatenate(values)
    sizes: NDArray[np.float64] = np.bincount(row, np.abs(value), minlength=n).astype(np.float64)
    most = int(np.unique(row * n + column, return_counts=True)[1].max(initial=0))
    return (row, column, value), sizes, most


def is_semidefinite(matrix: NDArray[np.float64], error: float) -> bool:
    """Whether every symmetric matrix is semidefinite whose lower triangle is this, up to an error.

    The error is a norm. The matrix is overwritten.
    """
    n = len(matrix)
    diagonal = np.diagonal(matrix)
    if not np.isfinite(error) or not np.isfinite(diagonal).all():
        return False
    # The last term covers underflow.
    shift = _MORE * (error + (n + 3) * _U * np.abs(diagonal).sum()) + n * 2.0**-1000
    matrix[np.diag_indices(n)] -= shift
    # In Fortran's order the lower triangle of the rows is the upper one of the transpose.
    factor, info = linalg.lapack.dpotrf(matrix.T, lower=False, overwrite_a=True, clean=False)
    return bool(info == 0 and np.isfinite(np.diagonal(factor)).all())


def _value(roots: NDArray[np.float64], weighted: bool, proof: Proof) -> float:
    """Return sum w y - K t - sum D ||v||^2, rounded down; weights are at least (1 - 3 u) r^2.

    The last factor covers that, and the rounding of the sum and of the products.
    """
    gains = roots * proof.prices
    norms = proof.heights * (proof.vectors**2).sum(axis=0)
    levels = proof.n_clusters * proof.level
    total = math.fsum([*gains.tolist(), *(-norms).tolist(), -levels])
    lost = 2 * math.fsum(np.abs(gains)) + (len(roots) + 4) * math.fsum(norms) + 2 * levels
    value = (total - _MORE * _U * lost) * (1.0 - (8.0 if weighted else 4.0) * _U)
    return max(0.0, value) if math.isfinite(value) else 0.0
