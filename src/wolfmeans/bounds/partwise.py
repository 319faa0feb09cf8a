"""Lower bounds for rows that stay in parts, each of which is bounded by itself.

Theorem. For any division of the rows into parts, OPT(X) >= sum_t OPT(X_t): the best centers of all
rows cost every part at least its own optimum. With trimming, for any cap c >= 0,

    OPT_h(X) >= sum_t [min_C sum_{i in t} w_i min(D_i(C), c)] - c (total - h),

because a point that is left out pays c at most, and one that is kept no more than D_i.

So a rigorous bound for each part gives a rigorous bound for all rows, and no part needs to see
another. It is good where every part looks like the whole. A part is cut into strides, which look
alike even if neighboring rows are. The semidefinite method cuts a part into matched parts instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.bounds.bound import Numbers, Settings, below, scaled_down, times_up
from wolfmeans.bounds.methods import LARGE_BUDGET, REGISTRY, affordable, best_bound
from wolfmeans.bounds.neighbours import neighbours
from wolfmeans.bounds.semidefinite import KIND, semidefinite_in_parts
from wolfmeans.bounds.semidefinite.matched_parts import bytes_of_a_part
from wolfmeans.core.hooks import hook
from wolfmeans.engines import get_engine
from wolfmeans.exact.native import aligned

_MOST_ROWS = 8192
"""Of a stride: the neighbours bound takes time proportional to their square."""
_FEWEST_ROWS = 512
_BYTES = 512
"""Memory of a method for each row, beside copies of it (tests/bounds/test_bounds_in_parts.py)."""
_BYTES_OF_MATRICES = 256
"""Of these, bytes for the matrices of the semidefinite method."""
_FEWEST_MATCHED = 64
"""Rows of a matched part: for fewer, the semidefinite method is not one of several."""
_STEPS = 100
"""Of the semidefinite method, where it is one of several."""
_CLOSE = 0.99
"""A bound this near to the SSE that was reached needs no semidefinite one."""


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
    seconds_per_row: float = 0.0
    """Time limit of the semidefinite method."""
    bytes_per_row: int | None = None
    """Memory of its matrices; None for as much as they need."""
    most_steps: int = 1000
    """Of each of its relaxations."""


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
    seconds: float = 0.0,
    frugal: bool = False,
) -> PartTask:
    """Return the task for parts of n rows in all, such that it takes minutes.

    The semidefinite method takes `seconds` in all, if parts are bounded one after the other. If
    `frugal`, it needs no more memory for a row than `bytes_of_a_row`.

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
        if n_clusters > 1 and "exact" not in methods and seconds > 0:
            methods = (*methods, KIND)
        most_steps = _STEPS
    else:
        most_steps = PartTask.most_steps
        reason = REGISTRY[method].refusal(d, trimmed=False)
        if reason is not None:
            raise ValueError(f"method={method!r}: {reason}")
        methods = (method,)
    memory = _BYTES_OF_MATRICES if frugal else None
    return PartTask(n_clusters, rows, methods, None, centers, seconds / n, memory, most_steps)


def bound_of_part(X: Any, weights: Numbers | None, task: PartTask, n_threads: int = 1) -> PartBound:
    """Return a lower bound on the cost of some rows, in as many strides as it takes.

    The semidefinite method comes last, if the bounds of the strides leave much to gain.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [1.0], [8.0], [9.0]])
    >>> bound_of_part(X, None, PartTask(2, rows_at_once=4, methods=("exact",))).value
    1.0
    """
    methods = tuple(method for method in task.methods if method != KIND)
    strided = _in_strides(X, weights, replace(task, methods=methods), n_threads)
    if KIND not in task.methods or (weights is not None and not weights.any()):
        return strided
    found = _semidefinite(X, weights, task, n_threads, strided.value)
    return found if found.value > strided.value or not methods else strided


def _in_strides(X: Any, weights: Numbers | None, task: PartTask, n_threads: int) -> PartBound:
    """Return the sum over strides of the best bound of each."""
    n_strides = -(-len(X) // task.rows_at_once) if task.methods else 0
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


def _semidefinite(
    X: Any, weights: Numbers | None, task: PartTask, n_threads: int, known: float
) -> PartBound:
    """Return the semidefinite bound in matched parts, or 0 if a known bound is good enough."""
    k, rows = task.n_clusters, aligned(X)
    if k == 1:
        best = best_bound(rows, 1, weights, methods=("spectral",))
        assert best is not None
        return PartBound(best.value, frozenset({best.kind}))
    nothing = PartBound(0.0, frozenset({KIND}))
    most_bytes = None if task.bytes_per_row is None else task.bytes_per_row * len(rows)
    alone = task.methods == (KIND,)
    too_small = bytes_of_a_part(max(_FEWEST_MATCHED, 8 * k))
    if not alone and most_bytes is not None and most_bytes < too_small:
        return nothing
    # Relaxations are in float32, which has no room for every scale.
    exponent = -math.frexp(float(np.abs(rows).max(initial=0.0)))[1]
    rows = np.ldexp(rows, exponent)
    if task.centers is None:
        centers = hook("good_centers")(rows, k, weights, None, n_threads)
    else:
        centers = np.ldexp(task.centers, exponent).astype(rows.dtype)
    labels, distances = get_engine().open(rows, None, n_threads).nearest(centers)
    reached = float(distances.sum() if weights is None else weights @ distances)
    if known >= _CLOSE * scaled_down(reached, -2 * exponent):
        return nothing
    found = semidefinite_in_parts(
        rows,
        k,
        weights,
        labels=labels,
        centers=centers,
        seconds=task.seconds_per_row * len(rows),
        most_steps=task.most_steps,
        most_bytes=most_bytes,
        n_threads=n_threads,
    )
    return PartBound(scaled_down(found.value, -2 * exponent), frozenset({KIND}))


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
