"""An empty cluster's center: keep, resample, farthest, best; or no empty cluster: admissible.

At a partition with an empty cluster every center of that cluster gives a supergradient, so any
choice made *before* the assignment keeps descent, rate and guarantee. `admissible` changes the
oracle instead: it minimizes over the partitions without an empty cluster.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.choices import POLICIES as POLICIES
from wolfmeans.core.draws import RandomSource, draw_rows
from wolfmeans.core.workspace import Centers, Distances, Forced, Workspace
from wolfmeans.exact.distances import dense_kernels
from wolfmeans.exact.sums import exact_sum

Masses = NDArray[np.float64]

CANDIDATES = 256
"""How many data points `best` tries as centers when there are more."""
_DENSE_MATCHING = 1 << 22
_FEW = 256


def refill(
    policy: str,
    workspace: Workspace,
    centers: Centers,
    empty: NDArray[np.bool_],
    random: RandomSource,
    masses: Masses | None = None,
) -> Centers:
    """Return the centers with those of empty clusters chosen by the policy.

    `masses` say what counts of each point; None for all of its weight. Every chosen center is a
    data point of positive mass that lies off all other centers in use, so the assignment that
    follows gives the cluster at least that point.
    """
    centers = centers.copy()
    present = np.ascontiguousarray(centers[~empty])
    if policy not in ("resample", "best"):
        chosen = _farthest_from(workspace, present, int(empty.sum()), masses)
        centers[np.flatnonzero(empty)[: len(chosen)]] = workspace.rows(chosen)
        return centers
    distances = workspace.nearest(present)[1]
    for k in np.flatnonzero(empty).tolist():
        row = _choose(policy, workspace, distances, random, masses)
        if row is None:
            break
        centers[k] = workspace.rows(np.array([row]))[0]
        distances = np.minimum(distances, workspace.distances_to(centers[k]))
    return centers


def _choose(
    policy: str,
    workspace: Workspace,
    distances: Distances,
    random: RandomSource,
    masses: Masses | None,
) -> int | None:
    rows = _eligible_rows(workspace, distances, masses)
    if len(rows) == 0:
        return None
    if policy == "resample":
        counting = workspace.weights if masses is None else masses
        eligible = np.zeros(workspace.n_points)
        eligible[rows] = 1.0 if counting is None else counting[rows]
        return int(draw_rows(workspace, eligible, random())[0])
    return best_candidate(workspace, distances, masses)[0]


def _farthest_from(
    workspace: Workspace, centers: Centers, count: int, masses: Masses | None
) -> NDArray[np.int64]:
    """Choose up to `count` points, each the farthest from the centers and those chosen before.

    Some engines return far points only (`Workspace.far_rows`).
    """
    chosen: list[int] = []
    while len(chosen) < count:
        reached = np.concatenate([centers, workspace.rows(np.array(chosen, dtype=np.int64))])
        left = count - len(chosen)
        far = workspace.far_rows(reached, max(_FEW, 4 * left), masses)
        if far is None:
            distances = workspace.nearest(reached)[1]
            more = farthest_first(workspace, distances, left, masses)
            return np.concatenate([np.array(chosen, dtype=np.int64), more])
        if len(far[0]) == 0:
            break
        chosen += _farthest_among(workspace, far[0], far[1], far[2], left)
    return np.array(chosen, dtype=np.int64)


def farthest_first(
    workspace: Workspace, distances: Distances, count: int, masses: Masses | None = None
) -> NDArray[np.int64]:
    """Choose up to `count` points, each the farthest from all centers and points chosen before.

    Distances only shrink as points are chosen. So the farthest of a few far points is the farthest
    of all while it is farther than everything outside; after that all distances are computed again.
    """
    chosen: list[int] = []
    while len(chosen) < count:
        rows = _eligible_rows(workspace, distances, masses)
        few = min(len(rows), max(_FEW, 4 * (count - len(chosen))))
        if few == 0:
            break
        by_distance = np.argsort(-distances[rows], kind="stable")
        outside = float(distances[rows[by_distance[few]]]) if few < len(rows) else 0.0
        in_value_order = rows[np.sort(by_distance[:few])]
        far = distances[in_value_order]
        found = _farthest_among(workspace, in_value_order, far, outside, count - len(chosen))
        chosen += found
        reached = workspace.nearest(workspace.rows(np.array(found)))[1]
        distances = np.minimum(distances, reached)
    return np.array(chosen, dtype=np.int64)


def _farthest_among(
    workspace: Workspace,
    rows: NDArray[np.int64],
    distances: Distances,
    outside: float,
    count: int,
) -> list[int]:
    """Choose up to `count` of `rows`, farthest first, while they are farther than `outside`.

    `distances` are those of the rows to all centers. At least one row is chosen, unless all lie on
    centers.
    """
    points = workspace.rows(rows)
    kernels = dense_kernels(points)
    labels = np.zeros(len(rows), dtype=np.int32)
    left = distances
    found: list[int] = []
    while len(found) < count:
        far = int(np.argmax(left))
        if left[far] <= outside and found:
            break
        if left[far] == 0:
            break
        found.append(int(rows[far]))
        left = np.minimum(left, kernels.distances(points[far : far + 1], labels))
    return found


def _eligible_rows(
    workspace: Workspace, distances: Distances, masses: Masses | None
) -> NDArray[np.int64]:
    """Return the points of positive mass off all centers, in the order of their values."""
    counting = workspace.weights if masses is None else masses
    eligible = distances > 0
    if counting is not None:
        eligible &= counting > 0
    order = workspace.order()
    rows: NDArray[np.int64] = order[eligible[order]]
    return rows


def best_candidate(
    workspace: Workspace, distances: Distances, masses: Masses | None = None
) -> tuple[int, float]:
    """Return the data row that as a new center lowers the SSE most, and by how much at least.

    The guaranteed decrease of a center z is the sum of w (D - ||x - z||^2) over the points that z
    is nearer to than their nearest center in use, D away. Up to `CANDIDATES` points are tried: all
    of them, or the farthest half and an evenly spaced half.
    """
    best_row, best_decrease = -1, 0.0
    counting = workspace.weights if masses is None else masses
    for row in _candidate_rows(workspace, distances, masses).tolist():
        gains = distances - workspace.distances_to(workspace.rows(np.array([row]))[0])
        won = gains > 0
        terms = gains[won] if counting is None else counting[won] * gains[won]
        decrease = exact_sum(terms.tolist())
        if decrease > best_decrease:
            best_row, best_decrease = row, decrease
    return best_row, best_decrease


def _candidate_rows(
    workspace: Workspace, distances: Distances, masses: Masses | None = None
) -> NDArray[np.int64]:
    rows = _eligible_rows(workspace, distances, masses)
    if len(rows) <= CANDIDATES:
        return rows
    farthest = np.argsort(-distances[rows], kind="stable")[: CANDIDATES // 2]
    spread = np.linspace(0, len(rows) - 1, CANDIDATES // 2).astype(np.int64)
    chosen: NDArray[np.int64] = rows[np.unique(np.concatenate([farthest, spread]))]
    return chosen


def admissible_assignment(workspace: Workspace, centers: Centers) -> Forced | None:
    """Return the rows to force so that the nearest-center assignment becomes admissible.

    None when it already is, or when fewer points than clusters have weight. One representative for
    each cluster is chosen by a linear assignment with costs w (D_ik - min_k D_ik); only the K
    cheapest points of a cluster can matter, since the other clusters take at most K - 1 of them.
    """
    n_clusters = len(centers)
    labels, nearest = workspace.nearest(centers)
    weights = np.ones(workspace.n_points) if workspace.weights is None else workspace.weights
    heavy = np.flatnonzero(weights > 0)
    occupied = np.zeros(n_clusters, dtype=bool)
    occupied[labels[heavy]] = True
    if occupied.all() or len(heavy) < n_clusters:
        return None
    edges_row, edges_cost = [], []
    for k in range(n_clusters):
        costs = weights[heavy] * (workspace.distances_to(centers[k])[heavy] - nearest[heavy])
        cheapest = _cheapest(costs, labels[heavy] == k, n_clusters)
        edges_row.append(heavy[cheapest])
        edges_cost.append(costs[cheapest])
    rows = _match(edges_row, edges_cost)
    return Forced(rows, np.arange(n_clusters, dtype=np.int32))


def _cheapest(costs: Distances, own: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
    """Return the `count` cheapest points: by cost, then own members first, then the lowest row."""
    order = np.lexsort((np.arange(len(costs)), ~own, costs))
    return order[:count]


def _match(rows: list[NDArray[np.int64]], costs: list[Distances]) -> NDArray[np.int64]:
    """Choose one row per cluster, all different, at the least total cost."""
    # Imported where they are needed: they are slow to load, and few fits come here.
    from scipy.optimize import linear_sum_assignment
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    points, position = np.unique(np.concatenate(rows), return_inverse=True)
    n_clusters = len(rows)
    cluster = np.repeat(np.arange(n_clusters), [len(r) for r in rows])
    cost = np.concatenate(costs)
    if n_clusters * len(points) <= _DENSE_MATCHING:
        dense = np.full((n_clusters, len(points)), np.inf)
        dense[cluster, position] = cost
        chosen: NDArray[np.int64] = points[linear_sum_assignment(dense)[1]]
        return chosen
    # A stored zero would not count as an edge; every matching has K edges, so adding the smallest
    # positive cost to all of them changes no comparison beyond the rounding of the costs.
    positive = cost[cost > 0]
    offset = float(positive.min()) if len(positive) else 1.0
    graph = csr_array((cost + offset, (cluster, position)), shape=(n_clusters, len(points)))
    chosen = points[min_weight_full_bipartite_matching(graph)[1]]
    return chosen
