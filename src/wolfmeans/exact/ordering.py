"""An order of the points that depends on their values alone, so that draws do not see row numbers.

Rows are ordered lexicographically by their entries. A draw along this order gives the same point
whatever the order of the rows, and a point of weight 2 takes as much room in it as two copies.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Keys = tuple[NDArray[Any], ...]
KeysOfColumns = Generator[Keys, NDArray[np.int64], None]
"""Sent the rows that are still tied, yields what tells them apart next."""


def lexicographic_order(X: Any) -> NDArray[np.int64]:
    """Return the rows of dense or CSR data in lexicographic order; equal rows keep theirs.

    Examples
    --------
    >>> import numpy as np
    >>> lexicographic_order(np.array([[2.0, 0.0], [1.0, 5.0], [1.0, 3.0]]))
    array([2, 1, 0])
    """
    rank = np.zeros(X.shape[0], dtype=np.int64)
    tied = np.arange(X.shape[0])
    # Not by asking SciPy, which help texts need not import.
    columns = _sparse_keys(X) if hasattr(X, "indptr") else _dense_keys(X)
    next(columns)
    while len(tied):
        try:
            keys = columns.send(tied)
        except StopIteration:
            break
        tied = _refine(rank, tied, keys)
    return np.argsort(rank, kind="stable")


def _refine(rank: NDArray[np.int64], tied: NDArray[np.int64], keys: Keys) -> NDArray[np.int64]:
    """Split groups of equal rank by the keys (the last one first); return the rows still tied."""
    if all(np.all(key == key[0]) for key in keys):
        return tied
    order = np.lexsort((*keys, rank[tied]))
    rows = tied[order]
    old = rank[rows]
    group_starts = np.concatenate([[True], old[1:] != old[:-1]])
    starts = group_starts.copy()
    for key in keys:
        ordered = key[order]
        starts[1:] |= ordered[1:] != ordered[:-1]
    position = np.arange(len(rows))
    old_start = np.maximum.accumulate(np.where(group_starts, position, 0))
    new_start = np.maximum.accumulate(np.where(starts, position, 0))
    rank[rows] = old + (new_start - old_start)
    alone = starts & np.append(starts[1:], True)
    still_tied: NDArray[np.int64] = rows[~alone]
    return still_tied


def _dense_keys(X: NDArray[np.floating]) -> KeysOfColumns:
    tied = yield ()
    for j in range(X.shape[1]):
        tied = yield (X[tied, j],)


def _sparse_keys(X: Any) -> KeysOfColumns:
    """Yield keys by stored entry that order rows as their dense entries would.

    Where two rows first differ, one has a nonzero entry further left. If it is negative that row
    comes first, the sooner the further left; if it is positive, last. A row without further
    entries stands between.
    """
    X = X.copy()
    X.eliminate_zeros()
    lengths = np.diff(X.indptr)
    tied = yield ()
    for position in range(int(lengths.max(initial=0))):
        present = lengths[tied] > position
        entry = np.where(present, X.indptr[tied] + position, 0)
        value = np.where(present, X.data[entry], 0.0)
        sign = np.sign(value)
        column = np.where(present, X.indices[entry].astype(np.int64), 0)
        tied = yield (value, -sign * column, sign)
