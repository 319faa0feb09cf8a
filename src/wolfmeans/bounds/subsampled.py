"""Bounds from samples, for many points, with a stated confidence."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from wolfmeans.bounds.bound import LowerBound, Report
from wolfmeans.bounds.neighbours import neighbours
from wolfmeans.bounds.prices import prices
from wolfmeans.bounds.roots import Numbers
from wolfmeans.bounds.sampled_problems import SampleBound, sampled_problems
from wolfmeans.bounds.sampled_rows import PILOT_ROWS, sampled_rows
from wolfmeans.exact import native

# Rows of the neighbours bound: as many as this many multiplications allow, within limits.
_BUDGET = 1.2e11
_FEWEST_ROWS = 1000
_MOST_ROWS = 8000
# Beyond this many multiplications rows are given up for small problems.
_TOO_MUCH = 6e11
# Prices take a sample of three columns four times as long as one of two.
_PRICED_COLUMNS = 3
_POINTS, _FEWER_POINTS = 8192, 4096


def _priced(X: Any, n_clusters: int, *, cap: float, n_threads: int) -> LowerBound:
    dense = X.toarray() if sparse.issparse(X) else np.ascontiguousarray(X)
    return prices(dense, n_clusters, cap=cap, n_threads=n_threads)


def n_sampled_rows(n: int, d: int) -> int:
    """Return from how many rows `subsampled` works; 0 where it solves small problems instead."""
    each = float(n) * (d + 8.0)
    if (_FEWEST_ROWS + 3 * PILOT_ROWS) * each > _TOO_MUCH:
        return 0
    return int(min(_MOST_ROWS, max(_FEWEST_ROWS, _BUDGET / each)))


def subsampled_elsewhere(X: Any, n_clusters: int, *given: Any, **options: Any) -> LowerBound:
    """Bound the SSE as `subsampled` does, from few rows, where X[rows] has to bring them here."""
    priced = X.shape[1] <= _PRICED_COLUMNS and native.native_is_available()
    bound = _priced if priced else neighbours
    return subsampled(X, n_clusters, *given, bound=bound, **options)


def subsampled(
    X: Any,
    n_clusters: int,
    weights: Numbers | None = None,
    mass: float | None = None,
    *,
    bound: SampleBound | None = None,
    confidence: float = 0.95,
    rng: np.random.RandomState,
    n_threads: int = 1,
    progress: Report | None = None,
) -> LowerBound:
    """Bound the SSE with the stated confidence.

    Which way is taken depends on the shape of the data alone, so that one confidence covers it.
    With a `bound` for samples: small problems (`sampled_problems`), and so in few columns, where
    prices are so much better than neighbours. Else rows of the neighbours bound (`sampled_rows`),
    which lose less, unless there are too many points for that.
    """
    if bound is None and X.shape[1] <= _PRICED_COLUMNS and native.native_is_available():
        bound = _priced
    rows = n_sampled_rows(*X.shape)
    if bound is None and rows > 0:
        return sampled_rows(
            X,
            n_clusters,
            weights,
            mass,
            n_rows=rows,
            confidence=confidence,
            rng=rng,
            n_threads=n_threads,
            progress=progress,
        )
    return sampled_problems(
        X,
        n_clusters,
        weights,
        mass,
        bound=bound or neighbours,
        n_points=_FEWER_POINTS if X.shape[1] == _PRICED_COLUMNS else _POINTS,
        confidence=confidence,
        rng=rng,
        n_threads=n_threads,
        progress=progress,
    )
