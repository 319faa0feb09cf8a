"""Points as the price bound wants them: of positive weight, scaled, in order."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wolfmeans.bounds.bound import UNIT

Values = NDArray[np.float64]


@dataclass(frozen=True)
class PricedPoints:
    """The points of positive weight, scaled by powers of two to numbers of at most 1.

    So nothing overflows, what underflows is negligible, and results are scaled back exactly. The
    widest column comes first and rows ascend in it, which lets the search find neighbours.
    """

    X: Values
    weights: Values
    mass: float
    cap: float
    columns: NDArray[np.intp]
    exponents: tuple[int, int]

    @classmethod
    def admit(
        cls,
        X: NDArray[np.floating],
        weights: Values | None,
        mass: float | None,
        cap: float | None,
    ) -> PricedPoints | None:
        """Return the points, or None where every bound is 0."""
        if weights is None:
            weights = np.ones(len(X))
        positive = weights > 0
        values = np.asarray(X[positive], dtype=np.float64)
        weights = weights[positive]
        if not len(values) or not np.ptp(values, axis=0).any():
            return None
        of_values = math.frexp(float(np.abs(values).max()))[1]
        of_weights = math.frexp(float(weights.max()))[1]
        columns = np.argsort(-np.ptp(values, axis=0), kind="stable")
        rows = np.argsort(values[:, columns[0]], kind="stable")
        return cls(
            np.ascontiguousarray(np.ldexp(values[rows][:, columns], -of_values)),
            np.ldexp(weights[rows], -of_weights),
            math.inf if mass is None else math.ldexp(mass, -of_weights),
            math.inf if cap is None else math.ldexp(cap, -2 * of_values),
            columns,
            (of_values, of_weights),
        )

    def transform(self, centers: NDArray[np.floating]) -> Values:
        """Express centers as these points are."""
        scaled = np.ldexp(np.asarray(centers, dtype=np.float64), -self.exponents[0])
        return np.ascontiguousarray(scaled[:, self.columns])

    def restore(self, value: float) -> float:
        """Scale a sum of squared distances back."""
        return math.ldexp(value, 2 * self.exponents[0] + self.exponents[1])

    def payable(self, prices: Values) -> float:
        """Bound from below what the cheapest points of the mass to be kept are priced.

        Rounding: running sums of weights are off by n u relative, and the mass, a difference of
        the total, by u of that; a mass less by a little more is no more than the true one. The
        terms are off by 3 u, their exact sum is rounded once.
        """
        n = len(prices)
        order = np.argsort(prices, kind="stable")
        weights = self.weights[order]
        if self.mass < math.inf:
            kept = self.mass * (1 - (n + 8) * UNIT) - 4 * UNIT * float(weights.sum())
            before = np.concatenate([[0.0], np.cumsum(weights)[:-1]])
            weights = np.clip(kept - before, 0.0, weights)
        return math.fsum((weights * prices[order]).tolist()) * (1 - 8 * UNIT)
