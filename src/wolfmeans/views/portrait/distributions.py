"""Distributions: the values of the strongest columns in each cluster, as histograms and quantiles.

Means hide much: two clusters with the same mean can be narrow and wide, or one can have two peaks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wolfmeans.inputs.preparation import Preparation
from wolfmeans.views.portrait.map import sampled_rows
from wolfmeans.views.portrait.points import Points

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""The levels of the quantiles."""
_BINS = 24
# Of this share of the values on either side, a histogram shows only how many there are.
_TAIL = 0.005
_MOST_ROWS = 100_000

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Distribution:
    """The values of one column, by cluster."""

    column: int
    """Its place among the columns."""
    low: float
    high: float
    """The histograms reach from `low` to `high`; values outside are counted in the outer bins."""
    histograms: Matrix
    """(K, bins) fraction of the cluster's weight in each bin."""
    quantiles: Matrix
    """(K, 5) the quantiles at `LEVELS`; nan for a cluster without weight."""
    values: Matrix
    """(m,) the values in the rows of the map."""
    whole: bool
    """Whether the values are a few whole numbers, each with a bin from -1/2 to 1/2 around it."""
    typical: Matrix
    """(K, 3) the values in the typical rows; nan where a cluster has fewer."""


@dataclass(frozen=True)
class Distributions:
    """Distributions of some columns, the one that separates the clusters best first."""

    columns: tuple[Distribution, ...]
    n_rows: int
    """Number of rows that histograms and quantiles come from."""
    sampled: bool
    """Whether these are not all rows."""


def distributions_of(
    points: Points,
    columns: Sequence[int],
    rows: NDArray[np.int64],
    typical: NDArray[np.int64],
) -> Distributions:
    """Return the distributions of these columns; `rows` are those of the map."""
    chosen = sampled_rows(points.labels, _MOST_ROWS, np.random.RandomState(0))
    some = points.some(chosen)
    inside = some.masses > 0
    by_cluster = np.argsort(some.labels[inside], kind="stable")
    labels, masses = some.labels[inside][by_cluster], some.masses[inside][by_cluster]
    places = list(columns)
    values = _block(some, places)[inside][by_cluster]
    on_map = _block(points.some(rows), places)
    examples = _block(points.some(typical.ravel()), places)
    examples[typical.ravel() < 0] = np.nan
    n_clusters = len(points.centers)
    quantiles = _quantiles(values, labels, None if points.weights is None else masses, n_clusters)
    found = []
    for i, column in enumerate(places):
        low, high, n_bins, whole = _range(values[:, i])
        histograms = _histograms(values[:, i], labels, masses, (low, high, n_bins), n_clusters)
        here = examples[:, i].reshape(typical.shape)
        found.append(
            Distribution(
                column,
                low,
                high,
                histograms,
                quantiles[:, :, i],
                values=on_map[:, i],
                whole=whole,
                typical=here,
            )
        )
    return Distributions(tuple(found), len(chosen), len(chosen) < len(points.labels))


def in_units_of(preparation: Preparation, found: Distributions) -> Distributions:
    """Return the same in the units of the columns before they were standardized."""
    if preparation.scale is None or preparation.center is None:
        return found
    changed = []
    for one in found.columns:
        scale, center = preparation.scale[one.column], preparation.center[one.column]
        changed.append(
            replace(
                one,
                whole=False,
                low=float(one.low * scale + center),
                high=float(one.high * scale + center),
                quantiles=one.quantiles * scale + center,
                values=one.values * scale + center,
                typical=one.typical * scale + center,
            )
        )
    return replace(found, columns=tuple(changed))


def _block(points: Points, columns: list[int]) -> Matrix:
    """Return some columns in float64, in the caller's units."""
    block = points.X[:, columns]
    block = block.toarray() if points.is_sparse else block
    found: Matrix = np.asarray(points.in_units(np.asarray(block, dtype=np.float64)))
    return found


def _quantiles(
    values: Matrix, labels: NDArray[np.int32], masses: Matrix | None, n_clusters: int
) -> Matrix:
    """Return the (K, 5, c) quantiles of rows that are sorted by label."""
    found = np.full((n_clusters, len(LEVELS), values.shape[1]), np.nan)
    ends = np.searchsorted(labels, np.arange(n_clusters + 1))
    for k, (begin, end) in enumerate(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)):
        if begin == end:
            continue
        own = values[begin:end]
        if masses is None:
            found[k] = np.quantile(own, LEVELS, axis=0)
            continue
        for j in range(own.shape[1]):
            order = np.argsort(own[:, j], kind="stable")
            shares = np.cumsum(masses[begin:end][order])
            at = np.searchsorted(shares, np.array(LEVELS) * shares[-1])
            found[k, :, j] = own[order[np.minimum(at, len(order) - 1)], j]
    return found


def _range(values: Matrix) -> tuple[float, float, int, bool]:
    """Return where histograms begin and end, how many bins they have, and whether by whole numbers.

    Few whole numbers have a bin each. A long tail is cut off, so that it does not squeeze the rest.
    """
    if not len(values):
        return 0.0, 1.0, 1, False
    low, high = float(values.min()), float(values.max())
    if low == high:
        return low, high, 1, False
    if high - low < _BINS and (values == np.round(values)).all():
        return low - 0.5, high + 0.5, round(high - low) + 1, True
    inner_low, inner_high = np.quantile(values, (_TAIL, 1 - _TAIL)).tolist()
    width = inner_high - inner_low
    if 0 < width < (high - low) / 1.5:
        low, high = max(low, inner_low - 0.1 * width), min(high, inner_high + 0.1 * width)
    return low, high, _BINS, False


def _histograms(
    values: Matrix,
    labels: NDArray[np.int32],
    masses: Matrix,
    bins: tuple[float, float, int],
    n_clusters: int,
) -> Matrix:
    low, high, n_bins = bins
    # Halves first: the difference of two large numbers may be no float64.
    width = high / 2 - low / 2
    shares = (values / 2 - low / 2) / width if width > 0 else np.zeros_like(values)
    places = np.clip((shares * n_bins).astype(np.int64), 0, n_bins - 1)
    counts = np.bincount(
        labels.astype(np.int64) * n_bins + places, masses, minlength=n_clusters * n_bins
    ).reshape(n_clusters, n_bins)
    totals = counts.sum(axis=1, keepdims=True)
    found: Matrix = np.divide(counts, totals, out=np.zeros_like(counts), where=totals > 0)
    return found
