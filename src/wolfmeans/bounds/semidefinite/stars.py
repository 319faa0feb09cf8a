"""Stars: cuts of a point i and three or more other points T, which no triangle cut implies.

They are the 2-partition inequalities of the clique partitioning problem (Grötschel and Wakabayashi,
Math. Prog. 47, 1990) with one point on one side, for z_ii in place of 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

WIDTH = 6
"""Columns of a table of cuts: i, and up to five points T; -1 where there are fewer."""
_MOST = 12
"""New stars of a point."""


def table(*columns: NDArray[np.integer]) -> NDArray[np.int32]:
    """Return cuts as rows of a table, from columns i, j, ..."""
    cuts = np.full((len(columns[0]), WIDTH), -1, dtype=np.int32)
    cuts[:, : len(columns)] = np.stack(columns, axis=1)
    return cuts


def violated_stars(
    z: NDArray[np.floating], i: int, near: NDArray[np.integer], least: float
) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
    """Return stars around a point that are violated by more than `least`, and by how much.

    From each near point on, the one that adds most to the violation joins T while it adds.
    """
    among = z[np.ix_(near, near)]
    gains = z[i, near][None, :] - among
    np.fill_diagonal(gains, -np.inf)
    over = z[i, near] - z[i, i]
    T = np.full((len(near), WIDTH - 1), -1)
    T[:, 0] = np.arange(len(near))
    growing = np.arange(len(near))
    for column in range(1, WIDTH - 1):
        best = gains[growing].argmax(axis=1) if len(near) else growing
        more = gains[growing, best]
        on = more > 0.1 * least
        growing, best, more = growing[on], best[on], more[on]
        T[growing, column] = best
        over[growing] += more
        gains[growing] -= among[best]
        gains[growing, best] = -np.inf
    chosen = np.flatnonzero((T[:, 2] >= 0) & (over > least))
    chosen = chosen[np.argsort(-over[chosen], kind="stable")]
    # T from different first points may be the same set.
    rows = np.where(T[chosen] >= 0, near[T[chosen]], -1)
    rows = -np.sort(-rows, axis=1)
    _, first = np.unique(rows, axis=0, return_index=True)
    first = np.sort(first)[:_MOST]
    return table(np.full(len(first), i), *rows[first].T), over[chosen[first]]
