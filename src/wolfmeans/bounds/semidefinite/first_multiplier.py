"""The multiplier from which the relaxation starts: that of a clustering."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Double = NDArray[np.float64]

_LEVELS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Levels t that are tried, relative to SSE / K."""
_SAMPLE = 256
"""About how many points choose one of them."""


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
