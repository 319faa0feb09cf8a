"""Many short runs, of which the best few are continued: starts that are robust to outliers.

A step or two tell good seeds from bad ones (Rousseeuw and Van Driessen 1999, García-Escudero et al.
2008), so most of the time is spent on promising starts. With many points the short runs use a
random sample of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.random import sample_without_replacement

from wolfmeans.core.workspace import Centers, Workspace
from wolfmeans.fitting.fit import Start, run
from wolfmeans.seeding.methods import order_for_removal

SHORT_RUNS = 50
"""How many short runs there are by default."""
STEPS = 2
"""How many steps each of them takes."""
CONTINUED = 5
"""How many are continued to the end."""
DRAWN_FROM_SOME = (
    "the initial centers were found on {} randomly drawn rows, because the data is in parts"
)
"""The certificate's note on starts for points in parts."""
_FEW_ROWS = 20_000
_ROWS_PER_CLUSTER = 200


def best_short_runs(
    begin: Callable[[int], Start],
    n_runs: int,
    *,
    on_all_points: bool,
    time_limit: float | None,
    **settings: Any,
) -> tuple[list[Centers], int]:
    """Return the seeds to continue from, those of the best short run first, and the number of runs.

    `begin` makes a start from its number, the settings are those of `fitting.fit.run`. Runs with
    equal inertia count as one. After the time limit no further run begins. Runs on all points are
    repeated from their seeds, so that the trace shows all steps; those on some points continue
    from their last centers.
    """
    deadline = math.inf if time_limit is None else perf_counter() + time_limit
    found: dict[float, Centers] = {}
    for number in range(n_runs):
        start = begin(number)
        fit = run(start, max_steps=STEPS, **settings)
        found.setdefault(fit.inertia, start.seeds if on_all_points else fit.centers)
        if perf_counter() >= deadline:
            break
    return [found[inertia] for inertia in sorted(found)[:CONTINUED]], number + 1


def share_for_short_runs(share: Fraction, n_rows: int) -> Fraction:
    """Return the share to trim from some of the points: a little more than from all of them.

    By chance there may be more outliers among them, which would all stay in clusters. Three
    standard deviations of a sampled share make up for that.
    """
    spread = math.sqrt(share * (1 - share) / n_rows)
    return min(share + Fraction(3.0 * spread), (1 + share) / 2)


def most_rows_for_short_runs(n_clusters: int) -> int:
    """Return the most rows that short runs use."""
    return max(_FEW_ROWS, _ROWS_PER_CLUSTER * n_clusters)


def rows_for_short_runs(
    workspace: Workspace,
    n_clusters: int,
    rng: np.random.RandomState,
    *,
    by_number: bool = False,
) -> NDArray[np.int64] | None:
    """Return the rows that short runs use, None for all.

    At most 20,000 rows of positive weight, or 200 for each cluster if that is more, drawn along
    the order of values and without replacement. Points in parts have no such order: there rows are
    drawn by their numbers, and those without weight are dropped afterwards.
    """
    size = most_rows_for_short_runs(n_clusters)
    if workspace.n_points <= size:
        return None
    if by_number:
        return _drawn_by_number(workspace, n_clusters, size, rng)
    order = order_for_removal(workspace)
    if workspace.weights is not None:
        order = order[workspace.weights[order] > 0]
    if len(order) <= size:
        return np.sort(order)
    return np.sort(order[rng.choice(len(order), size, replace=False)])


def _drawn_by_number(
    workspace: Workspace, n_clusters: int, size: int, rng: np.random.RandomState
) -> NDArray[np.int64]:
    # Needs no memory for all row numbers.
    rows = np.sort(sample_without_replacement(workspace.n_points, size, random_state=rng))
    rows = rows.astype(np.int64)
    if workspace.weights is not None:
        rows = rows[workspace.weights[rows] > 0]
    if len(rows) < n_clusters:
        raise ValueError(
            f"only {len(rows)} of {size} rows that were drawn have any weight, too few to find "
            f"{n_clusters} seeds among them; leave rows of no weight out, or give centers as init"
        )
    return rows
