"""Which rows are shown when there are too many."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.workspace import Labels


def sampled_rows(labels: Labels, at_most: int, rng: np.random.RandomState) -> NDArray[np.int64]:
    """Return rows, ascending: all of them, or a uniform sample in which no cluster is missing.

    Every label that occurs at all occurs among the rows, and if there are more labels than
    `at_most`, one row of each is taken.

    Examples
    --------
    >>> labels = np.array([0] * 500 + [1] + [2] * 500, dtype=np.int32)
    >>> rows = sampled_rows(labels, 10, np.random.RandomState(0))
    >>> len(rows), np.unique(labels[rows]).tolist()
    (10, [0, 1, 2])
    """
    n = len(labels)
    if n <= at_most:
        return np.arange(n, dtype=np.int64)
    chosen = rng.permutation(n)[:at_most]
    present = np.bincount(labels + 1)
    seen = np.bincount(labels[chosen] + 1, minlength=len(present))
    missing = np.flatnonzero((present > 0) & (seen == 0)) - 1
    if not len(missing):
        return np.sort(chosen).astype(np.int64)
    members = np.flatnonzero(np.isin(labels, missing))
    added = members[np.unique(labels[members], return_index=True)[1]]
    # Those that must go are the last drawn of clusters that are seen more than once.
    keep = np.ones(len(chosen), dtype=bool)
    excess = len(chosen) + len(added) - at_most
    for place in range(len(chosen) - 1, -1, -1):
        label = labels[chosen[place]] + 1
        if excess > 0 and seen[label] > 1:
            keep[place] = False
            seen[label] -= 1
            excess -= 1
    return np.sort(np.concatenate([chosen[keep], added])).astype(np.int64)
