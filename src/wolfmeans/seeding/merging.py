"""Too many centers, merged to K: two at a time, those whose merger costs least (Ward 1963).

Merging clusters of weights a and b into one with their common mean raises the SSE by
a b / (a + b) times the squared distance of their means. What merging the result with a third
cluster costs follows from the three costs (Lance and Williams 1967), so distances are computed
once, canonically. The rest is done number by number: no bit depends on an engine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.workspace import Centers
from wolfmeans.engines import get_engine

MOST_MERGED = 2048
"""The costs of so many centers are a matrix of 32 MB."""


def merged_centers(
    centers: Centers, weights: NDArray[np.float64], n_clusters: int, engine: str = "auto"
) -> Centers:
    """Return (K, d) centers: the given ones, and means of those that were merged.

    Parameters
    ----------
    centers : ndarray of shape (m, d)
        At least K centers.
    weights : ndarray of shape (m,)
        The weights of their clusters. Those without weight are merged first.
    n_clusters : int
        K.
    engine : str, default="auto"
        The engine for the distances.

    Examples
    --------
    >>> centers = np.array([[0.0], [1.0], [10.0], [11.0], [30.0]])
    >>> merged_centers(centers, np.array([3.0, 1.0, 1.0, 1.0, 0.5]), 3).ravel()
    array([ 0.25, 10.5 , 30.  ])
    """
    means, mass = centers.astype(np.float64), weights.copy()
    costs = _costs(means, mass, engine)
    left = np.ones(len(means), dtype=bool)
    partner = costs.argmin(axis=1)
    cheapest = costs[np.arange(len(means)), partner]
    for _ in range(len(means) - n_clusters):
        one = int(cheapest.argmin())
        one, other = sorted((one, int(partner[one])))
        left[other] = False
        cost = _cost_of_merged(costs, mass, one, other)
        cost[~left] = cost[one] = np.inf
        total = mass[one] + mass[other]
        if total > 0:
            means[one] += (means[other] - means[one]) * (mass[other] / total)
        mass[one], mass[other] = total, 0.0
        costs[one], costs[:, one] = cost, cost
        costs[other], costs[:, other], cheapest[other] = np.inf, np.inf, np.inf
        # Rows whose partner is gone look for another one; of the others, some have a cheaper one.
        again = np.flatnonzero(left & ((partner == one) | (partner == other)))
        again = np.append(again, one)
        partner[again] = costs[again].argmin(axis=1)
        cheapest[again] = costs[again, partner[again]]
        now = cost < cheapest
        partner[now], cheapest[now] = one, cost[now]
    found: Centers = means[left].astype(centers.dtype)
    return found


def _costs(
    means: NDArray[np.float64], mass: NDArray[np.float64], engine: str
) -> NDArray[np.float64]:
    """Return the (m, m) costs of merging two clusters; infinite on the diagonal."""
    roots = get_engine(engine).open(means, None, n_threads=1).roots(means)
    costs: NDArray[np.float64] = np.square(roots, dtype=np.float64)
    sums = mass[:, None] + mass
    costs *= np.divide(mass[:, None] * mass, sums, out=np.zeros_like(sums), where=sums > 0)
    np.fill_diagonal(costs, np.inf)
    return costs


def _cost_of_merged(
    costs: NDArray[np.float64], mass: NDArray[np.float64], one: int, other: int
) -> NDArray[np.float64]:
    """Return what merging two clusters, as one, with each other one costs."""
    total = mass + (mass[one] + mass[other])
    with np.errstate(invalid="ignore"):  # infinities, which the caller replaces
        cost = (mass + mass[one]) * costs[one] + (mass + mass[other]) * costs[other]
        cost -= mass * costs[one, other]
        cost /= np.where(total > 0, total, 1.0)
    # Rounding may leave less than nothing.
    merged: NDArray[np.float64] = np.maximum(cost, 0.0)
    return merged
