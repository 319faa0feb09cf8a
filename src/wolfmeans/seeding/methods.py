"""Initial centers: random points, k-means++ (greedy or plain), k-means||, trimmed k-means++.

Names follow scikit-learn: "k-means++" is the greedy variant, which draws several candidates for
each seed and keeps the best one; "plain-k-means++" draws one, as Arthur and Vassilvitskii (2007).

Draws are exact and the same on every engine. A mass per point (w D, in float64) is scaled by one
power of two to integers whose sum fits int64. One integer below 2**63 - 1, from the host's
generator, is taken as a share of the total, and the row where the cumulative sum passes it is
picked. The sum runs over the rows in the order of their values, so that shuffling the rows changes
nothing, and in both kinds of k-means++ a weight of 2 picks like two copies. Points without weight
or without distance have mass 0 and are never picked. k-means|| needs no order (`oversampling`), so
that the rows may lie in parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.draws import DRAWS, draws, pick_rows
from wolfmeans.core.workspace import Centers, Distances, TrimmedWorkspace, Workspace
from wolfmeans.engines import get_engine
from wolfmeans.engines.sampling import Part, Parts, WholePart
from wolfmeans.seeding.oversampling import sample_candidates

FEWEST_ROWS = 1 << 14
"""Of fewer rows, the multilevel start is greedy k-means++."""
_FEWEST_SAMPLED, _SAMPLED_PER_CLUSTER = 2048, 16
_FEWEST_PER_CLUSTER = 256


def smallest_sample(n_clusters: int) -> int:
    """Return the size of the smallest sample of the multilevel start (`fitting.multilevel`)."""
    return max(_FEWEST_SAMPLED, _SAMPLED_PER_CLUSTER * n_clusters)


def enough_rows(n_points: int) -> bool:
    """Whether the multilevel start does more than greedy k-means++."""
    return n_points >= FEWEST_ROWS


def worth_sampling(n_values: float, n_clusters: int) -> bool:
    """Whether the smallest sample is small beside all rows, or beside all distinct ones."""
    return n_values >= max(FEWEST_ROWS, _FEWEST_PER_CLUSTER * n_clusters)


def choose_seeds(
    workspace: Workspace, n_clusters: int, method: str, rng: np.random.RandomState
) -> Centers:
    """Return (K, d) seeds, each one a data point of positive weight."""
    choose = METHODS[method] if method in METHODS else TRIMMED_METHODS[method]
    return workspace.rows(choose(workspace, n_clusters, rng))


def order_for_removal(workspace: Workspace) -> NDArray[np.int64]:
    """Return the rows in the order of their values, equal rows in the order of their weights.

    If a drawn row is removed, it matters which of several equal rows it was: they may differ in
    weight. In this order the row numbers decide nothing.
    """
    order = workspace.order()
    if workspace.weights is None:
        return order
    hashes = workspace.row_hashes()[order]
    value = np.cumsum(np.concatenate([[0], hashes[1:] != hashes[:-1]]))
    return order[np.lexsort((workspace.weights[order], value))]


def _weights(workspace: Workspace) -> NDArray[np.float64]:
    if workspace.weights is None:
        return np.ones(workspace.n_points)
    return workspace.weights


def random_rows(
    workspace: Workspace, n_clusters: int, rng: np.random.RandomState
) -> NDArray[np.int64]:
    """Pick distinct rows, with probabilities proportional to their weights."""
    if workspace.weights is None:
        return workspace.order()[rng.choice(workspace.n_points, n_clusters, replace=False)]
    masses = workspace.weights.copy()
    order = order_for_removal(workspace)
    rows: list[int] = []
    while len(rows) < n_clusters and masses.any():
        row = int(pick_rows(workspace, masses, draws(rng), order)[0])
        rows.append(row)
        masses[row] = 0.0
    return _fill_up(rows, workspace, n_clusters)


def _fill_up(rows: list[int], workspace: Workspace, n_clusters: int) -> NDArray[np.int64]:
    """Repeat rows when there are fewer points of positive weight, or distinct ones, than K.

    In the order of their values, so that the order of the rows does not matter.
    """
    if len(rows) == n_clusters:
        return np.array(rows, dtype=np.int64)
    taken = set(rows)
    order = workspace.order()
    spare = [i for i in order[_weights(workspace)[order] > 0].tolist() if i not in taken]
    missing = n_clusters - len(rows)
    rows = rows + spare[:missing]
    return np.resize(np.array(rows, dtype=np.int64), n_clusters)


def _kmeans_plus_plus(n_trials: Callable[[int], int]) -> SeedingMethod:
    def choose(
        workspace: Workspace, n_clusters: int, rng: np.random.RandomState
    ) -> NDArray[np.int64]:
        trials = n_trials(n_clusters)
        drawn = rng.randint(0, DRAWS, size=1 + (n_clusters - 1) * trials, dtype=np.int64)
        rows = workspace.spread_rows(drawn, trials)
        if rows is None:
            rows = spread_rows(workspace, drawn, trials)
        return _fill_up(rows.tolist(), workspace, n_clusters)

    return choose


def spread_rows(
    workspace: Workspace,
    drawn: NDArray[np.int64],
    n_trials: int,
    keep: Callable[[Distances], Distances] | None = None,
) -> NDArray[np.int64]:
    """Pick one row by weight, then each further one as the best of some drawn by mass w D.

    Ends early when no point has any mass left. The best trial is the first of those that leave
    the smallest potential. `keep` says what counts of the weights, given the distances; all of
    them by default, and then this is the specification of `Workspace.spread_rows`.
    """

    def weighted(distances: Distances) -> Distances:
        weights = workspace.weights if keep is None else keep(distances)
        return distances if weights is None else weights * distances

    rows = [int(pick_rows(workspace, _weights(workspace), drawn[:1])[0])]
    closest = workspace.distances_to(workspace.rows(np.array(rows))[0])
    for of_round in drawn[1:].reshape(-1, n_trials):
        masses = weighted(closest)
        if not masses.any():
            break
        best_potential = math.inf
        for row in pick_rows(workspace, masses, of_round).tolist():
            reached = np.minimum(
                closest, workspace.distances_to(workspace.rows(np.array([row]))[0])
            )
            potential = workspace.total(weighted(reached))
            if potential < best_potential:
                best_potential, best_row, best_reached = potential, row, reached
        rows.append(best_row)
        closest = best_reached
    return np.array(rows, dtype=np.int64)


def trimmed_rows(
    workspace: TrimmedWorkspace, n_clusters: int, rng: np.random.RandomState
) -> NDArray[np.int64]:
    """Pick rows as plain k-means++ does, each time among what is kept of the points.

    The mass that lies farthest from the rows picked so far is set aside before the draw: outliers
    are there, and k-means++ would pick them. With nothing to trim the rows are those of
    "plain-k-means++".
    """
    rows = spread_rows(workspace, draws(rng, n_clusters), 1, workspace.keep)
    return _fill_up(rows.tolist(), workspace, n_clusters)


def kmeans_parallel(
    workspace: Workspace, n_clusters: int, rng: np.random.RandomState
) -> NDArray[np.int64]:
    """Sample about 2K points in each of five rounds, then choose K of them (Bahmani et al. 2012).

    Whether a point is sampled depends on (seed, round, its values) and its share of the mass alone,
    so the choice is the same for any order of the rows, and as in parts. Copies of a point are one
    candidate with the sum of their masses: a weight of 2 is sampled as two copies are. The row of a
    seed is the lowest of its copies that have weight.
    """
    own = workspace.sampling()
    part: WholePart = Part(workspace) if own is None else own
    return part.rows_of(parallel_seeds(part, n_clusters, rng, workspace.engine))


def parallel_seeds(
    parts: Parts, n_clusters: int, rng: np.random.RandomState, engine: str = "auto"
) -> Centers:
    """Return the (K, d) seeds that k-means|| chooses in data that lies in parts.

    Greedy k-means++ chooses among the candidates, each weighing as its nearest points do.

    Parameters
    ----------
    parts : Parts
        A part, several parts together, or anything that answers like them.
    n_clusters : int
        How many seeds. Fewer distinct points are repeated.
    rng : RandomState
    engine : str, default="auto"
        The engine for the candidates.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans.engines.sampling import Part, Together
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> def part(rows):
    ...     return Part(get_engine("reference").open(rows, None, 1))
    >>> def seeds(parts):
    ...     return parallel_seeds(parts, 3, np.random.RandomState(0), "reference")
    >>> parts = Together([part(X[40:]), part(X[:40])])
    >>> bool((seeds(parts) == seeds(part(X))).all())
    True
    """
    seed = int(rng.randint(0, np.iinfo(np.int64).max, dtype=np.int64))
    points, weights = sample_candidates(parts, n_clusters, seed)
    candidates = get_engine(engine).open(points, weights, n_threads=1)
    seeds: Centers = points[_greedy(candidates, n_clusters, rng)]
    return seeds


SeedingMethod = Callable[[Workspace, int, np.random.RandomState], NDArray[np.int64]]
"""Returns the rows of the seeds, given points, a number of clusters and a generator."""

_greedy = _kmeans_plus_plus(lambda n_clusters: 2 + int(math.log(n_clusters)))

METHODS: dict[str, SeedingMethod] = {
    "k-means++": _greedy,
    "plain-k-means++": _kmeans_plus_plus(lambda n_clusters: 1),
    "k-means||": kmeans_parallel,
    "random": random_rows,
    "greedy-k-means++": _greedy,
}
"""By the names that `init` takes."""
TRIMMED_METHODS: dict[str, Callable[..., NDArray[np.int64]]] = {"trimmed-k-means++": trimmed_rows}
"""These need a workspace that keeps a mass."""
