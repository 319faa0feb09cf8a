"""How clearly points belong to their clusters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wolfmeans.engines import effective_threads, get_engine
from wolfmeans.views.portrait.points import Model, Points
from wolfmeans.views.portrait.shapes import Margins

_DISTANCES_AT_ONCE = 1 << 22


def margins_of(model: Model, points: Points, rows: NDArray[np.int64]) -> Margins:
    """Compare the distances of the rows to their two nearest centers."""
    shown = points.some(rows)
    values = np.ones(len(rows))
    n_clusters = len(points.centers)
    if n_clusters > 1:
        centers = points.centers.astype(points.X.dtype)
        step = max(1, _DISTANCES_AT_ONCE // n_clusters)
        for start in range(0, len(rows), step):
            some = slice(start, start + step)
            workspace = get_engine(model.engine).open(
                shown.X[some], None, effective_threads(model.n_threads)
            )
            roots = np.asarray(workspace.roots(centers), dtype=np.float64)
            nearest, second = np.partition(roots, 1, axis=1)[:, :2].T
            # A point on two centers at once belongs to neither.
            values[some] = np.divide(
                second - nearest, second, out=np.zeros_like(second), where=second > 0
            )
    inside = shown.labels >= 0
    mean = float(values[inside].mean()) if inside.any() else float("nan")
    return Margins(rows=rows, labels=shown.labels, values=values, mean=mean)
