"""Exact moments of clusters: weights and sums of w x, to which only moved points are added."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.core.workspace import Centers, Labels
from wolfmeans.exact.limbs import Grid, Grids, Limbs
from wolfmeans.exact.sums import (
    MANTISSA_BITS,
    ExactSums,
    decompose,
    exact_products,
    exponent_range,
    mean_and_residual,
)

_ROWS_AT_ONCE = 1 << 16


class Moments:
    """Exact cluster weights W_k and exact sums S_kj = sum of w_i x_ij, kept up to date by moves."""

    def __init__(
        self,
        X: Any,
        weights: NDArray[np.float64] | None,
        n_clusters: int,
        grids: Grids | None = None,
    ) -> None:
        self._X, self._weights = X, weights
        self._n_clusters, self._d = n_clusters, X.shape[1]
        x_low, x_high = exponent_range(X.data if sparse.issparse(X) else X) or (0, 0)
        w_low, w_high = (1, 1) if weights is None else exponent_range(weights) or (0, 0)
        if grids is not None and grids.weights is not None:
            # A mass that is a part of a weight may be as fine as any weight elsewhere.
            w_low = min(w_low, grids.weights.low + MANTISSA_BITS)
            w_high = max(w_high, grids.weights.high)
        # A term has 53 bits, a product 106; one more bit because a product may lose a leading one.
        low = x_low + w_low - 2 * MANTISSA_BITS - 1
        self._sums = ExactSums(n_clusters * self._d, low, x_high + w_high)
        self._totals = ExactSums(n_clusters, w_low - MANTISSA_BITS, w_high)
        self._stale = np.ones(n_clusters, dtype=bool)
        self._rounded_weights = np.zeros(n_clusters)
        self._rounded_means = np.zeros((n_clusters, self._d))
        self._rounded_residuals = np.zeros((n_clusters, self._d))

    def move(self, rows: NDArray[np.int64], old: Labels | None, new: Labels) -> None:
        """Take rows out of their old clusters (None for the first labels) and add them to new."""
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            weights = None if self._weights is None else self._weights[rows[part]]
            self.deposit(rows[part], new[part], weights, subtract=False)
            if old is not None:
                self.deposit(rows[part], old[part], weights, subtract=True)

    def deposit(
        self,
        rows: NDArray[np.int64],
        labels: Labels,
        masses: NDArray[np.float64] | None,
        *,
        subtract: bool,
    ) -> None:
        """Add rows with the given masses (None for ones) to clusters, or take them out.

        A mass is a weight or less, and a multiple of a power of two that all weights are multiples
        of.
        """
        self._stale[labels] = True
        weights = np.ones(len(rows)) if masses is None else masses
        slots = labels.astype(np.int64)
        put = self._totals.subtract if subtract else self._totals.add
        put(slots, *decompose(weights))

        values, slots, weights = self._entries(rows, slots, weights)
        put = self._sums.subtract if subtract else self._sums.add
        if masses is None:
            put(slots, *decompose(values))
        else:
            for mantissas, exponents in exact_products(weights, values):
                put(slots, mantissas, exponents)

    def _entries(
        self, rows: NDArray[np.int64], labels: NDArray[np.int64], weights: NDArray[np.float64]
    ) -> tuple[NDArray[np.floating], NDArray[np.int64], NDArray[np.float64]]:
        """Return the rows' entries, flat: values, slots label * d + column, weights."""
        chosen = self._X[rows]
        if sparse.issparse(chosen):
            lengths = np.diff(chosen.indptr)
            slots = np.repeat(labels * self._d, lengths) + chosen.indices
            return chosen.data, slots, np.repeat(weights, lengths)
        slots = labels[:, None] * self._d + np.arange(self._d)
        return chosen.ravel(), slots.ravel(), np.repeat(weights, self._d)

    def limbs(self, grids: Grids) -> tuple[Limbs, Limbs]:
        """Return the exact weights (K, 1) and sums (K, d) where others have theirs."""
        return _limbs(self._totals, grids.totals, 1), _limbs(self._sums, grids.sums, self._d)

    def means(self, fallback: Centers) -> tuple[NDArray[np.float64], Centers, NDArray[np.float64]]:
        """Return weights (K,), means (K, d) in the fallback's dtype and residuals (K, d).

        Where a cluster has no weight the mean is the fallback's row and the residual 0.
        """
        for k in np.flatnonzero(self._stale).tolist():
            self._refresh(k)
        self._stale[:] = False
        # Squeezing the float64 mean into float32 leaves a difference that float64 holds exactly.
        with np.errstate(under="ignore"):
            means = self._rounded_means.astype(fallback.dtype)
        residuals = self._rounded_means - means.astype(np.float64) + self._rounded_residuals
        empty = self._rounded_weights == 0
        means[empty] = fallback[empty]
        residuals[empty] = 0.0
        return self._rounded_weights.copy(), means, residuals

    def _refresh(self, k: int) -> None:
        weight = self._totals.integer(k)
        self._rounded_weights[k] = self._totals.rounded(k)
        if weight == 0:
            return
        exponent = self._sums.low - self._totals.low
        for j in range(self._d):
            total = self._sums.integer(k * self._d + j)
            mean, residual = mean_and_residual(total, weight, exponent)
            self._rounded_means[k, j] = mean
            self._rounded_residuals[k, j] = residual


def _limbs(sums: ExactSums, grid: Grid, width: int) -> Limbs:
    """Move exact sums to a grid; all of them are whole numbers there."""
    shift = sums.low - grid.low

    def moved(integer: int) -> int:
        if shift < 0 and integer & ((1 << -shift) - 1):
            raise ValueError("numbers outside of the given range")
        return integer << shift if shift >= 0 else integer >> -shift

    integers = [moved(sums.integer(slot)) for slot in range(sums.limbs.shape[1])]
    rows = [integers[start : start + width] for start in range(0, len(integers), width)]
    return Limbs.of_integers(grid, rows)
