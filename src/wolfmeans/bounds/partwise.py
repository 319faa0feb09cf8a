"""Lower bounds for rows that stay in parts, each of which is bounded by itself.

Theorem. For any division of the rows into parts, OPT(X) >= sum_t OPT(X_t): the best centers of all
rows cost every part at least its own optimum. With trimming, for any cap c >= 0,

    OPT_h(X) >= sum_t [min_C sum_{i in t} w_i min(D_i(C), c)] - c (total - h),

because a point that is left out pays c at most, and one that is kept no more than D_i.

So a rigorous bound for each part gives a rigorous bound for all rows, and no part needs to see
another. It is good where every part looks like the whole. A part is cut into strides, which look
alike even if neighboring rows are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.bounds.bound import Numbers, Settings, below, times_up
from wolfmeans.bounds.methods import LARGE_BUDGET, REGISTRY, affordable, best_bound
from wolfmeans.bounds.neighbours import neighbours
from wolfmeans.exact.native import aligned

_MOST_ROWS = 8192
"""Of a stride: the neighbours bound takes time proportional to their square."""
_FEWEST_ROWS = 512
_BYTES = 512
"""Memory of a method for each row, beside copies of it (tests/bounds/test_bounds_in_parts.py)."""


@dataclass(frozen=True)
class PartTask:
    """What to compute for each part."""

    n_clusters: int
    rows_at_once: int
    """The most rows of a stride."""
    methods: tuple[str, ...]
    """Rigorous ones; the best bound of each stride counts."""
    cap: float | None = None
    """No point costs more; None where all must be clustered."""
    centers: NDArray[np.floating] | None = None
    """Those of a good clustering."""


@dataclass(frozen=True)
class PartBound:
    """A lower bound on what a part costs, and the methods that found it."""

    value: float
    kinds: frozenset[str]


def part_task(
    n: int,
    d: int,
    n_clusters: int,
    *,
    method: str,
    cap: float | None,
    centers: NDArray[np.floating] | None,
) -> PartTask:
    """Return the task for parts of n rows in all, such that it takes minutes.

    Raises
    ------
    ValueError
        If the method has no form in parts.
    """
    affordable_rows = LARGE_BUDGET / (1.3 * n * (d + 8.0))
    rows = int(min(_MOST_ROWS, max(_FEWEST_ROWS, 4 * n_clusters, affordable_rows)))
    rows = min(rows, n)
    if cap is not None:
        if method not in ("auto", "neighbours"):
            raise ValueError(f"method={method!r} has no form for trimmed data in parts")
        return PartTask(n_clusters, rows, ("neighbours",), cap, centers)
    if method == "auto":
        # Prices take longer than the others by far, once for each part.
        share = LARGE_BUDGET * rows / n
        methods = affordable(rows, d, n_clusters, rigorous=True, budget=share) or ("neighbours",)
    else:
        if REGISTRY[method].by_time:
            raise ValueError(f"method={method!r} needs all points in memory")
        reason = REGISTRY[method].refusal(d, trimmed=False)
        if reason is not None:
            raise ValueError(f"method={method!r}: {reason}")
        methods = (method,)
    return PartTask(n_clusters, rows, methods, None, centers)


def bound_of_part(X: Any, weights: Numbers | None, task: PartTask, n_threads: int = 1) -> PartBound:
    """Return a lower bound on the cost of some rows, in as many strides as it takes.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> bound_of_part(X, None, PartTask(2, rows_at_once=4, methods=("exact",))).value
    1.0
    """
    n_strides = -(-len(X) // task.rows_at_once)
    values, kinds = [], set()
    for first in range(n_strides):
        rows = aligned(X[first::n_strides])
        own = None if weights is None else aligned(weights[first::n_strides])
        if own is not None and not own.any():
            continue
        if task.cap is not None:
            found = neighbours(rows, task.n_clusters, own, cap=task.cap, n_threads=n_threads)
        else:
            best = best_bound(
                rows,
                task.n_clusters,
                own,
                methods=task.methods,
                settings=Settings(n_threads=n_threads, centers=task.centers),
            )
            assert best is not None
            found = best
        values.append(found.value)
        kinds.add(found.kind)
    return PartBound(below(*values), frozenset(kinds))


def bound_of_all(parts: Sequence[PartBound], cap: float | None, left_out: float) -> float:
    """Return the bound for all rows; `left_out` is the most weight that may be left out."""
    paid = 0.0 if cap is None else -times_up(cap, left_out)
    return below(*(part.value for part in parts), paid)


def name_of(parts: Sequence[PartBound]) -> str:
    """Return the kind of the bound, for a certificate."""
    kinds = sorted(frozenset().union(*(part.kinds for part in parts)))
    return f"partwise {kinds[0]}" if len(kinds) == 1 else "partwise"


def bytes_of_a_row(d: int) -> int:
    """Return the memory that bounding a row takes beside the row itself."""
    return _BYTES + 4 * 8 * d
