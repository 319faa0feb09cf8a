"""Cross-tables of the clusters with columns that were not clustered, such as known labels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from wolfmeans.views.page import markup
from wolfmeans.views.page.given import Column, Given, Names
from wolfmeans.views.page.markup import Cell
from wolfmeans.views.page.script_data import by_size
from wolfmeans.views.portrait import Portrait

if TYPE_CHECKING:
    from markupsafe import Markup

# Rows shown before the reader expands a table.
_CLUSTERS = 22
# What a share must exceed that of all points by to be bold.
_NOTABLE = 0.1


def comparisons(picture: Portrait, names: Names, given: Given) -> tuple[Markup, ...]:
    """Cross-tabulate the clusters with columns that were left out."""
    columns = list(given.compare)
    color = given.color
    known = {column.name for column in columns} | set(picture.names)
    # A known label is worth a table as well.
    if color is not None and color.name not in known and not color.is_number:
        columns.append(color)
    tables = [part for column in columns for part in _cross_table(picture, names, column)]
    if not tables:
        return ()
    words = (
        "Number of points of each cluster, and as a share of the cluster, by the values of "
        "columns that were given for comparison. Bold shares are at least 10 percentage points "
        "above the share of all points. The adjusted Rand index is 1 if clusters and column divide "
        "the points in the same way, and about 0 if they agree only by chance."
    )
    return markup.paragraph(words), *tables


def _cross_table(picture: Portrait, names: Names, column: Column) -> tuple[Markup, ...]:
    assert picture.labels is not None
    levels, places = column.levels()
    counts = _crossed(picture.labels, places, picture.n_clusters, len(levels))
    everything = np.bincount(places, minlength=len(levels))
    rows = [_cross_row(names.cell(k), counts[k], everything) for k in by_size(picture)]
    if picture.left_out:
        out = everything - counts.sum(axis=0)
        rows.append(_cross_row(Cell("in no cluster"), out, everything))
    rows.append(_cross_row(Cell("all"), everything, everything))
    header = ["cluster", "points", *levels]
    table = markup.table(
        f"clusters by {column.name}", header, rows, shown=_CLUSTERS, kind="crossed"
    )
    title = markup.paragraph(f"Clusters by {column.name}", "title")
    return title, table, markup.paragraph(_agreement(picture.labels, places, column))


def _crossed(
    labels: NDArray[np.int32], places: NDArray[np.int64], n_clusters: int, n_levels: int
) -> NDArray[np.int64]:
    inside = labels >= 0
    cells = labels[inside].astype(np.int64) * n_levels + places[inside]
    return np.bincount(cells, minlength=n_clusters * n_levels).reshape(n_clusters, n_levels)


def _cross_row(name: Cell, counts: NDArray[np.int64], everything: NDArray[np.int64]) -> list[Cell]:
    cells = [name, markup.count(int(counts.sum()))]
    for many, overall in zip(
        counts.tolist(), (everything / everything.sum()).tolist(), strict=True
    ):
        share = many / max(1, int(counts.sum()))
        text = f"{many:,} ({percent(share)})" if many else "–"
        cells.append(Cell(text, many, filled=share, strong=share >= overall + _NOTABLE))
    return cells


def percent(share: float) -> str:
    """Return a share in percent, and never 0% or 100% of something else."""
    if 0 < share < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= share < 1 else f"{share:.0%}"


def _agreement(labels: NDArray[np.int32], places: NDArray[np.int64], column: Column) -> str:
    """Say how well a known partition agrees with the clusters."""
    if column.is_number or len(np.unique(places)) < 2:
        return ""
    inside = labels >= 0
    index = round(adjusted_rand_score(places[inside], labels[inside]), 2)
    return f"Adjusted Rand index: {index + 0.0:.2f}."
