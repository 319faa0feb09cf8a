"""The search for the best semidefinite bound within a time limit; only a checked value counts."""

from __future__ import annotations

import math
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from wolfmeans.bounds.bound import LowerBound, Report, positive_points, quiet
from wolfmeans.bounds.proof import Proof, check
from wolfmeans.bounds.semidefinite.cuts import Double
from wolfmeans.bounds.semidefinite.relaxation import Relaxation

KIND = "semidefinite"
OPTIMAL = 1e-6
"""A bound within this share of an SSE proves it optimal."""
_STEPS_OF_A_ROUND = 40
"""Steps between two searches for violated cuts."""


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
    enough = math.inf if goal is None else (1.0 - OPTIMAL) * goal
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
