"""Where to start: random points, k-means++, greedy k-means++, k-means||, trimmed k-means++.

Draws are exact and the same on every engine. A mass per point (w D, in float64) is scaled by one
power of two to integers whose sum fits int64. One integer below 2**63 - 1, from the host's
generator, is taken as a share of the total, and the row where the cumulative sum passes it is
picked. The sum runs over the rows in the order of their values, so that shuffling the rows changes
nothing, and in both kinds of k-means++ a weight of 2 picks like two copies. Points without weight
or without distance have mass 0 and are never picked.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from wolfmeans.engines import get_engine
from wolfmeans.engines.base import Centers, Distances, TrimmedWorkspace, Workspace

_ROUNDS = 5
_OVERSAMPLING = 2
_INTEGER_BITS = 62
_DRAWS = 2**63 - 1

RandomSource = Callable[[], np.random.RandomState]
"""Gives a generator when it is asked for one: making it takes as long as a small fit."""


def choose_seeds(
    workspace: Workspace, n_clusters: int, method: str, rng: np.random.RandomState
) -> Centers:
    """Return (K, d) seeds, each one a data point of positive weight."""
    choose = METHODS[method] if method in METHODS else TRIMMED_METHODS[method]
    return workspace.rows(choose(workspace, n_clusters, rng))


def integer_masses(masses: NDArray[np.float64]) -> NDArray[np.int64]:
    """Scale non-negative masses by a power of two and round down, so that their sum fits int64."""
    exponent = math.frexp(float(masses.max(initial=0.0)))[1]
    shift = _INTEGER_BITS - len(masses).bit_length() - exponent
    return np.ldexp(masses, shift).astype(np.int64)


def draws(rng: np.random.RandomState, size: int = 1) -> NDArray[np.int64]:
    """Return integers of 0..2**63 - 2, all that a choice of rows takes from the generator."""
    return rng.randint(0, _DRAWS, size=size, dtype=np.int64)


def pick_rows(
    workspace: Workspace, masses: NDArray[np.float64], drawn: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Pick a row for each draw, with probabilities proportional to the masses."""
    order = workspace.order()
    cumulative = np.cumsum(integer_masses(masses)[order])
    total = int(cumulative[-1])
    picks = np.array([u * total // _DRAWS for u in drawn.tolist()], dtype=np.int64)
    return order[np.searchsorted(cumulative, picks, side="right")]


def draw_rows(
    workspace: Workspace, masses: NDArray[np.float64], rng: np.random.RandomState, size: int = 1
) -> NDArray[np.int64]:
    """Draw rows with probabilities proportional to their masses, with replacement."""
    return pick_rows(workspace, masses, draws(rng, size))


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
    rows: list[int] = []
    while len(rows) < n_clusters and masses.any():
        row = int(draw_rows(workspace, masses, rng)[0])
        rows.append(row)
        masses[row] = 0.0
    return _fill_up(rows, workspace, n_clusters)


def _fill_up(rows: list[int], workspace: Workspace, n_clusters: int) -> NDArray[np.int64]:
    """Repeat rows when there are fewer points of positive weight, or distinct ones, than K."""
    if len(rows) == n_clusters:
        return np.array(rows, dtype=np.int64)
    taken = set(rows)
    spare = [i for i in np.flatnonzero(_weights(workspace) > 0).tolist() if i not in taken]
    missing = n_clusters - len(rows)
    rows = rows + spare[:missing]
    return np.resize(np.array(rows, dtype=np.int64), n_clusters)


def _kmeans_plus_plus(n_trials: Callable[[int], int]) -> SeedingMethod:
    def choose(
        workspace: Workspace, n_clusters: int, rng: np.random.RandomState
    ) -> NDArray[np.int64]:
        trials = n_trials(n_clusters)
        drawn = draws(rng, 1 + (n_clusters - 1) * trials)
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
    """Pick rows as k-means++ does, each time among what is kept of the points.

    The mass that lies farthest from the rows picked so far is set aside before the draw: that is
    where outliers are, and k-means++ would go for them. With nothing to trim the rows are those of
    k-means++.
    """
    rows = spread_rows(workspace, draws(rng, n_clusters), 1, workspace.keep)
    return _fill_up(rows.tolist(), workspace, n_clusters)


def kmeans_parallel(
    workspace: Workspace, n_clusters: int, rng: np.random.RandomState
) -> NDArray[np.int64]:
    """Sample about 2K rows in each of five rounds, then choose K of them (Bahmani et al. 2012).

    Whether a row is sampled in a round depends on (seed, round, place in the order of values) and
    its mass alone, so the choice is the same however the rows are spread and shuffled.
    """
    weights = workspace.weights
    seed = int(rng.randint(0, np.iinfo(np.int64).max, dtype=np.int64))
    candidates = [int(draw_rows(workspace, _weights(workspace), rng)[0])]
    closest = workspace.distances_to(workspace.rows(np.array(candidates))[0])
    owner = np.full(workspace.n_points, candidates[0], dtype=np.int64)
    for round_number in range(_ROUNDS):
        masses = integer_masses(closest if weights is None else weights * closest)
        total = int(masses.sum())
        if total == 0:
            break
        share = (_OVERSAMPLING * n_clusters) * masses.astype(np.float64) / float(total)
        drawn = np.empty(workspace.n_points)
        drawn[workspace.order()] = uniforms(seed, round_number, workspace.n_points)
        new = np.flatnonzero(drawn < share)
        if len(new):
            workspace.approach(new, closest, owner)
            candidates.extend(new.tolist())
    rows = np.unique(np.array(candidates, dtype=np.int64))
    return rows[_choose_among(workspace, rows, np.searchsorted(rows, owner), n_clusters, rng)]


def _choose_among(
    workspace: Workspace,
    rows: NDArray[np.int64],
    labels: NDArray[np.int64],
    n_clusters: int,
    rng: np.random.RandomState,
) -> NDArray[np.int64]:
    """Choose K candidates by greedy k-means++, each weighing as its nearest points do.

    `labels` says which candidate that is for each point.
    """
    masses = np.zeros(len(rows), dtype=np.int64)
    np.add.at(masses, labels, integer_masses(_weights(workspace)))
    weights = np.ldexp(masses.astype(np.float64), -_INTEGER_BITS)
    recluster = get_engine(workspace.engine).open(workspace.rows(rows), weights, n_threads=1)
    return METHODS["greedy-k-means++"](recluster, n_clusters, rng)


def uniforms(seed: int, round_number: int, n: int) -> NDArray[np.float64]:
    """Return one uniform in [0, 1) for each row: SplitMix64 of (seed, round, row), 53 bits.

    Examples
    --------
    >>> bool((uniforms(1, 0, 5)[:4] == uniforms(1, 0, 4)).all())
    True
    """
    rows = np.arange(n, dtype=np.uint64)
    stream = _mix(np.array([seed ^ (round_number << 56)], dtype=np.uint64))
    bits = _mix(rows * np.uint64(0x9E3779B97F4A7C15) + stream)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


SeedingMethod = Callable[[Workspace, int, np.random.RandomState], NDArray[np.int64]]
"""Given points, a number of clusters and a generator, the rows to begin with."""

METHODS: dict[str, SeedingMethod] = {
    "random": random_rows,
    "k-means++": _kmeans_plus_plus(lambda n_clusters: 1),
    "greedy-k-means++": _kmeans_plus_plus(lambda n_clusters: 2 + int(math.log(n_clusters))),
    "k-means||": kmeans_parallel,
}
"""By the names that `init` takes."""
TRIMMED_METHODS: dict[str, Callable[..., NDArray[np.int64]]] = {"trimmed-k-means++": trimmed_rows}
"""These need a workspace that keeps a mass."""
