"""What a proof says about clusterings that leave points out.

Let M of `proof.py` be positive semidefinite and B = K t + sum_m D_m ||v_m||^2. Theorem. For all
kept weights 0 <= v <= w the best K clusters of these cost at least sum_i v_i y_i - B.

Proof. If every v_i is 0 or w_i, the matrix Z of the clusters of what is kept satisfies 0 <= Z <= I,
tr Z <= K, Z_ij >= 0 and all cuts, and <E (y 1' + 1 y') E, Z> = 2 sum_i v_i y_i; so 0 <= <M, Z> says
it. The cost of the best clusters is the least of functions that are linear in v, one for each
choice of centers, so it is concave, and a concave function that is above a linear one at the
vertices of a box is so inside. (The cuts do not hold for the Z of points that are kept in part.)

If a weight of at most h may be left out, then for every c >= 0

    cost >= sum_i v_i y_i - B >= sum_i w_i min(y_i, c) - c h - B.

If each unit of weight that is left out costs c, then cost >= sum_i w_i min(y_i, c) - B.

The points may be clipped to a box. This makes no distance larger, so no clustering costs less than
the same one of the clipped points. Clipping is exact in floating point.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from wolfmeans.bounds import proof_tree
from wolfmeans.bounds.proof import check
from wolfmeans.bounds.proof_format import Proof, ProofTree

_U = 2.0**-53


def check_trimmed(
    X: NDArray[np.floating],
    weights: NDArray[np.float64] | None,
    proof: Proof | ProofTree,
    *,
    left_out: float = 0.0,
    cap: float | None = None,
    sizes: tuple[float, float] | None = None,
) -> float:
    """Return the lower bound that a proof proves if points may be left out, 0.0 if it proves none.

    Parameters
    ----------
    X, weights, proof
        As for `proof.check`.
    left_out : float
        The weight that may be left out for nothing, at least 0.
    cap : float or None
        What leaving out a unit of weight costs instead; None if none but `left_out` may be.
    sizes : tuple of two floats or None
        The least and the largest weight of a cluster; None for any. Not if points are left out.

    Raises
    ------
    ValueError
        If the proof does not have the form of one for these points, or holds for some clusterings
        only.
    """
    if isinstance(proof, ProofTree) or proof.groups is not None or proof.apart.size:
        if left_out > 0 or cap is not None:
            raise ValueError(
                "a proof by branch and bound says nothing about clusterings that leave points out"
            )
        return proof_tree.check(X, weights, proof, sizes)
    points = np.asarray(X, dtype=np.float64)
    box = proof.box
    if box is not None:
        if box.dtype != np.float64 or box.shape != (2, points.shape[1]):
            raise ValueError(
                f"box of the proof is {box.dtype} of shape {box.shape}, not float64 of shape "
                f"{(2, points.shape[1])}"
            )
        points = np.clip(points, box[0], box[1])
    if cap is not None:
        return check(points, weights, proof, cap)
    if not left_out > 0:
        return proof_tree.check(points, weights, proof, sizes)
    cap = _best_cap(weights, proof, left_out)
    value = check(points, weights, proof, cap)
    # The squares of rounded roots, for which the proof is, are up to (1 + 3 u) times the weights.
    paid = cap * left_out * (1.0 + 8.0 * _U)
    return max(0.0, math.nextafter(value - paid, -math.inf)) if value > 0 else 0.0


def _best_cap(weights: NDArray[np.float64] | None, proof: Proof, left_out: float) -> float:
    """Return the c >= 0 at which sum w min(y, c) - c h is largest; any would do."""
    given = np.ones(len(proof.prices)) if weights is None else weights
    if given.shape != proof.prices.shape:
        return 0.0
    y = proof.prices / np.sqrt(given)
    order = np.argsort(-y, kind="stable")
    place = int(np.searchsorted(np.cumsum(given[order]), left_out))
    cap = float(y[order[min(place, len(order) - 1)]])
    return cap if 0 < cap < math.inf else 0.0
