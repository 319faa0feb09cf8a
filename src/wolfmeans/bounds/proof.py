"""The checker of proofs of lower bounds (`proof_format.Proof`).

Points x_i with weights w_i > 0, r_i = sqrt(w_i), E = diag(r), C_ij = ||x_i - x_j||^2 / 2. A
clustering into at most K clusters is the projection Z onto the vectors E 1_A of its clusters A.
It satisfies 0 <= Z <= I, tr Z <= K, Z_ij >= 0, <E C E, Z> = SSE, <E (y 1' + 1 y') E, Z> = 2 sum
w_i y_i, and with z_ij = Z_ij / (r_i r_j), which is 1 / W_A inside a cluster and 0 elsewhere, cuts

    z_ii + sum over j < k in T of z_jk - sum over j in T of z_ij >= 0    for other points T than i:

if t of T are in the cluster A of i, the left is at least (1 + t (t - 1) / 2 - t) / W_A >= 0.
Let N >= 0 entrywise, S = N + a sum of cuts with multipliers mu >= 0, t >= 0 and D >= 0. If

    M = E (C - (y 1' + 1 y') / 2) E - S + t I + V diag(D) V'    is positive semidefinite,

then 0 <= <M, Z> gives SSE >= sum_i w_i y_i - K t - sum_m D_m ||v_m||^2. How the numbers were found
does not matter; none is trusted. Where i and j are apart, Z_ij = 0, and N_ij may be negative. Where
clusters weigh between L and U, w_i / U <= Z_ii <= w_i / L: N_ii may be negative as well, and <N, Z>
is at least sum_i w_i (max(N_ii, 0) / U + min(N_ii, 0) / L), which is added to the bound. Where
points are in groups, a and b are groups below, w_a sums the weights of a group, and H_ab = sum over
i in a, j in b of w_i w_j C_ij / (r_a r_b) takes the place of E C E: again <H, Z> = SSE.

Rounding, with u = 2**-53. Z is the projection for the computed roots r_a of groups of at most c
points, so r_a^2 >= (1 - (c + 1) u) w_a, and SSE >= (1 - (c + 1) u) <H, Z>. Entries of H are rounded
down, which is safe because Z_ab >= 0 and all terms are positive. All other rounding in M is bounded
entry by entry; the largest row sum e of these bounds is at least the norm of the error. If the
Cholesky factorization in floating point of B = M - s I runs to its end, it is the exact one of
B + F with |F_ij| <= g sqrt(B_ii B_jj) and g = (n + 2) u / (1 - 2 (n + 2) u). So the smallest
eigenvalue of M is at least s - e - g tr B - u max |B_ii|, and s is chosen such that this is not
negative (Higham, Accuracy and Stability, theorem 10.3; Rump, BIT 46, 2006). A product or quotient
that underflows has an absolute error of at most 2**-1022, also where processors flush it to zero.
Vectors, heights, and weights between 2**-300 and 2**300 may make that larger, so it is counted.
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from wolfmeans.bounds.proof_format import Proof

__all__ = ["Proof", "check", "is_semidefinite"]

_U = 2.0**-53
_MORE = 1.0 + 2.0**-10
"""Covers the rounding of the error bounds themselves, and products of several (1 + u)."""
_TINY = 2.0**-1021
"""More than the error of a product that underflows."""
_SMALL = 2.0**-700
"""More than that error times a weight of 2**300, for up to 2**20 points of a group."""
_ROWS_AT_ONCE = 256
_MOST_POINTS = 1 << 20
"""Up to here (n + 2) u is below 2**-32, which `_MORE` covers."""


def check(
    X: NDArray[np.floating],
    weights: NDArray[np.float64] | None,
    proof: Proof,
    cap: float = np.inf,
    sizes: tuple[float, float] | None = None,
) -> float:
    """Return the lower bound that a proof proves for the points, 0.0 if it proves nothing.

    No y_i counts for more than the cap, which is at least 0, in the sum of w_i y_i. `sizes` are the
    least and the largest weight of a cluster in the problem, None for any.

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
    _suits_sizes(proof, sizes)
    groups = _well_formed(len(X), proof)
    given = np.ones(len(X)) if weights is None else weights
    roots = np.sqrt(np.bincount(groups, given))
    matrix, error = proof_matrix(np.asarray(X, np.float64), given, roots, groups, proof)
    if not is_semidefinite(matrix, error):
        return 0.0
    return _value(roots, int(np.bincount(groups).max()), proof, cap)


def _suits_sizes(proof: Proof, sizes: tuple[float, float] | None) -> None:
    """Reject a proof for clusters within other limits than those of the problem."""
    if proof.sizes is None:
        return
    if proof.sizes.dtype != np.float64 or proof.sizes.shape != (2,):
        raise ValueError("sizes of the proof must be two numbers of float64")
    low, high = proof.sizes.tolist()
    given = (0.0, math.inf) if sizes is None else sizes
    if not (0.0 <= low <= given[0] and given[1] <= high and high > 0.0):
        raise ValueError(
            f"the proof is for clusters of size {low:g} to {high:g} only, and the problem allows "
            f"{given[0]:g} to {given[1]:g}"
        )


def _well_formed(n: int, proof: Proof) -> NDArray[np.int32]:
    """Return the number of each point's group; reject what is no proof for n points.

    The rounding is analyzed for these precisions.
    """
    kinds: dict[str, Any] = dict.fromkeys(("cuts", "apart", "groups"), np.int32)
    if proof.slack.dtype != np.float64:
        kinds["slack"] = np.float32
    groups = np.arange(n, dtype=np.int32) if proof.groups is None else proof.groups
    names = ("prices", "vectors", "heights", "slack", "cuts", "multipliers", "level", "apart")
    given = {name: np.asarray(getattr(proof, name)) for name in names} | {"groups": groups}
    for name, value in given.items():
        wanted = kinds.get(name, np.float64)
        if value.dtype != wanted:
            raise ValueError(f"{name} of the proof is {value.dtype}, not {np.dtype(wanted)}")
    g, m, c = groups.max(initial=-1) + 1, proof.heights.size, proof.multipliers.size
    shapes = {"groups": (n,), "prices": (g,), "vectors": (g, m), "slack": (g, g)}
    shapes |= {"apart": (proof.apart.size // 2, 2), "heights": (m,), "multipliers": (c,)}
    shapes |= {"cuts": (c, max((2, *proof.cuts.shape[1:2]))), "level": ()}
    for name, shape in shapes.items():
        if given[name].shape != shape:
            raise ValueError(
                f"the proof is not for these points: {name} has shape {given[name].shape}, not "
                f"{shape}"
            )
    counted = isinstance(proof.n_clusters, Integral) and 1 <= proof.n_clusters <= _MOST_POINTS
    if n > _MOST_POINTS or not counted:
        raise ValueError("the proof has too many points, or no number of clusters")
    if groups.min(initial=0) < 0 or not np.bincount(groups).all():
        raise ValueError("a group of the proof has no points")
    if ((proof.apart < 0) | (proof.apart >= n)).any():
        raise ValueError("a pair that is apart names a row that does not exist")
    a, b = groups[proof.apart].T
    if (a == b).any():
        raise ValueError("two rows of the proof are both together and apart")
    given["slack"] = proof.slack.copy()
    given["slack"][a, b] = given["slack"][b, a] = 0.0
    finite = np.isfinite(np.diagonal(proof.slack)).all()
    if proof.sizes is not None and proof.sizes[0] > 0 and finite:
        np.fill_diagonal(given["slack"], 0.0)
    if not all((given[name] >= 0).all() for name in ("level", "heights", "slack", "multipliers")):
        raise ValueError(
            "level, heights, slack and multipliers of a proof must not be negative or NaN"
        )
    inside = (proof.cuts >= -1) & (proof.cuts < g)
    ordered = np.sort(proof.cuts, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)
    if twice.any() or not inside.all() or (proof.cuts[:, :2] < 0).any():
        raise ValueError("a cut of the proof names the same row twice, or one that does not exist")
    return groups


def proof_matrix(
    X: NDArray[np.float64],
    weights: NDArray[np.float64],
    roots: NDArray[np.float64],
    groups: NDArray[np.int32],
    proof: Proof,
) -> tuple[NDArray[np.float64], float]:
    """Return the lower triangle of M, and a bound on the norm of its rounding errors.

    In each entry |fl(M) - M| is at most
    u ((6 + k) (H + P + |N| + Q + t I + L) + 4 P + (k + 3) Q + (m + 2) L),
    with H the distances, P = (|y| r' + r |y|') / 2, Q the sum of the magnitudes of at most k terms
    of cuts, and L = |V| diag(D) |V|'. Underflow adds less than 2**-1021 (1 + |V|) to each of the
    m terms of V D V', and less than 2**-700 to each other term.
    """
    n, d = len(roots), X.shape[1]
    prices, vectors, heights = proof.prices, proof.vectors, proof.heights
    tall = vectors * heights
    entries, sizes, most = _cuts(roots, proof)
    matrix, sums = np.zeros((n, n)), np.zeros(n)
    order, counts = np.argsort(groups, kind="stable"), np.bincount(groups)
    X, scales = X[order], (weights / roots[groups])[order]
    ends = np.concatenate([[0], np.cumsum(counts)])
    # Differences, squares, sums, halves, scales and their products, each rounded once, and the
    # sums over the points of a group and of another.
    down = 1.0 - (d + 8 + 2 * int(counts.max())) * _U
    for start in range(0, n, _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, n)
        rows, inner, last = slice(start, stop), slice(ends[start], ends[stop]), ends[stop]
        distances = np.zeros((last - ends[start], last))
        for column in X.T:
            distances += (column[inner, None] - column[None, :last]) ** 2
        distances *= scales[inner, None] * scales[None, :last]
        if n < len(X):
            distances = np.add.reduceat(distances, ends[start:stop] - ends[start], axis=0)
            distances = np.add.reduceat(distances, ends[:stop], axis=1)
        distances *= 0.5 * down
        slack = proof.slack[rows, :stop].astype(np.float64)
        both = distances + np.abs(slack)
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
    errors = (6 + most) * (sums + priced_sums + sizes + proof.level + tall_sums) + 4 * priced_sums
    errors += (most + 3) * sizes + (len(heights) + 2) * tall_sums
    underflow = _TINY * (float(np.abs(vectors).sum()) + vectors.size)
    underflow += _SMALL * (X.size + n + len(entries[0]))
    return matrix, float(_MORE * (_U * errors.max() + underflow))


def _cuts(
    roots: NDArray[np.float64], proof: Proof
) -> tuple[tuple[Any, Any, NDArray[np.float64]], NDArray[np.float64], int]:
    """Return rows, columns and values of the terms of the cuts, row sums, and terms of an entry.

    A cut has 1 / r_i^2 at (i, i), -1 / (2 r_i r_j) at (i, j) and (j, i), and so on.
    """
    n, (i, *others) = len(roots), proof.cuts.T.astype(np.int64)
    rows, columns, values = [i], [i], [proof.multipliers / roots[i] / roots[i]]
    for number, j in enumerate(others):
        for a, sign in ((i, -0.5), *((k, 0.5) for k in others[:number])):
            on = (a >= 0) & (j >= 0)
            value = sign * proof.multipliers[on] / roots[a[on]] / roots[j[on]]
            rows += [a[on], j[on]]
            columns += [j[on], a[on]]
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


def _value(roots: NDArray[np.float64], largest: int, proof: Proof, cap: float = np.inf) -> float:
    """Return the bound, rounded down; w_a and r_a^2 differ by less than (c + 3) u of themselves.

    The last factor covers that, and the rounding of the sum and of the products. Z_aa is r_a^2 over
    the sum of the cluster, so that it is within its limits up to twice that.
    """
    gains = roots * np.minimum(proof.prices, cap * (1.0 - 4.0 * _U) * roots)
    # Squares may underflow, and heights may be large.
    norms = proof.heights * ((proof.vectors**2).sum(axis=0) + len(roots) * _TINY)
    levels = proof.n_clusters * proof.level
    low, high = (0.0, math.inf) if proof.sizes is None else proof.sizes.tolist()
    diagonal = np.diagonal(proof.slack).astype(np.float64)
    held = roots * roots * np.where(diagonal > 0, diagonal / high, diagonal / (low or math.inf))
    total = math.fsum([*gains.tolist(), *held.tolist(), *(-norms).tolist(), -levels])
    lost = 2 * math.fsum(np.abs(gains)) + (2 * largest + 12) * math.fsum(np.abs(held))
    lost += (len(roots) + 4) * math.fsum(norms) + 2 * levels
    tiny = _TINY * (len(roots) + len(norms))
    tiny += 0.0 if proof.sizes is None else _SMALL * len(roots)
    value = (total - _MORE * _U * lost - tiny) * (1.0 - (largest + 7) * _U)
    return max(0.0, value) if math.isfinite(value) else 0.0
