"""The spectral bound: what K - 1 directions cannot explain (Ding & He 2004)."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import numpy as np
from scipy import linalg, sparse

from wolfmeans.bounds.bound import UNIT, LowerBound, Numbers

# What stays in a core's cache.
_BLOCK_ENTRIES = 1 << 17


def spectral(X: Any, n_clusters: int, weights: Numbers | None = None) -> LowerBound:
    """Bound the SSE by the scatter that no K - 1 directions can explain (Ding & He 2004).

    The between-cluster scatter of K clusters has rank at most K - 1 and trace at most the sum of
    the K - 1 largest eigenvalues of the total scatter matrix, so the within-cluster SSE is at
    least the sum of the others. It is 0 when d <= K - 1.

    Rounding: the computed scatter matrix differs from the exact one by at most (n + 8) u trace in
    norm, the computed eigenvalues of a symmetric d x d matrix by at most a small multiple of d u
    times its norm; both are taken generously and K times, and so is the rounding of a column mean
    that enters as its square.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [0.0, -1.0], [9.0, 1.0], [9.0, -1.0]])
    >>> round(spectral(X, 2).value, 6)
    4.0
    """
    started = perf_counter()
    n, d = X.shape
    scatter, trace, uncertain = _scatter(X, weights)
    if d <= n_clusters - 1:
        return LowerBound(0.0, "spectral", 1.0, perf_counter() - started)
    explained = 0.0
    if n_clusters > 1:
        largest = [d - n_clusters + 1, d - 1]
        values = linalg.eigh(scatter, eigvals_only=True, subset_by_index=largest, driver="evr")
        explained = float(np.sum(values))
    rounding = UNIT * trace * (n + 64.0 * d + 8.0) * n_clusters
    # The last factor covers these differences and the sum of the eigenvalues. No data can show it:
    # `rounding` leaves more than that beyond what the matrix and its eigenvalues need.
    value = (trace - explained - rounding - uncertain) * (1.0 - UNIT * (d + 16.0))
    return LowerBound(max(0.0, value), "spectral", 1.0, perf_counter() - started)


def _scatter(X: Any, weights: Numbers | None) -> tuple[Numbers, float, float]:
    """Return the scatter matrix about the mean, its trace, and the error through the mean."""
    n, d = X.shape
    if weights is None:
        weights = np.ones(n)
    total = float(weights.sum())
    largest, center = 0.0, np.zeros(d)
    for rows, block in _blocks(X):
        largest = max(largest, float(np.abs(block).max(initial=0.0)))
        center += weights[rows] @ block
    center /= total
    matrix = np.zeros((d, d))
    for rows, block in _blocks(X):
        deviations = (block - center) * np.sqrt(weights[rows, None])
        matrix += deviations.T @ deviations
    # About another center c than the mean the scatter is W ||c - mean||^2 too large in trace; the
    # computed mean is off by at most (2 n + 4) u max|x| in each coordinate.
    uncertain = total * d * ((2.0 * n + 4.0) * UNIT * largest) ** 2
    return matrix, float(np.trace(matrix)), uncertain


def _blocks(X: Any) -> Iterator[tuple[slice, Numbers]]:
    """Yield row blocks as dense float64, so that no copy of all the data is ever made."""
    d = max(X.shape[1], 1)
    rows_at_once = max(d, _BLOCK_ENTRIES // d)
    for start in range(0, X.shape[0], rows_at_once):
        rows = slice(start, start + rows_at_once)
        block = X[rows].toarray() if sparse.issparse(X) else X[rows]
        yield rows, np.asarray(block, dtype=np.float64)
