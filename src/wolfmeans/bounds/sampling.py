"""Independent draws of points, with probabilities proportional to their weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.draws import integer_masses

# So many times more points than draws: hardly one is drawn twice.
_MANY = 100


class Sampler:
    """Draws rows with replacement.

    With weights the probabilities are integer masses over their sum. A mass is a weight rounded
    down, so that no probability exceeds the exact one by more than the factor 1 + `excess`.
    """

    def __init__(
        self, n: int, weights: NDArray[np.float64] | None, rng: np.random.RandomState
    ) -> None:
        self._n = n
        self._rng = rng
        self._masses = None if weights is None else integer_masses(weights)
        self._cumulative = None if self._masses is None else np.cumsum(self._masses)
        self.excess = 0.0
        if self._cumulative is not None:
            self.excess = n / (float(self._cumulative[-1]) * (1.0 - 1e-9))

    def draw(self, count: int) -> NDArray[np.int64]:
        """Return `count` rows, independent of each other and of all other draws."""
        if self._cumulative is None:
            return self._rng.randint(0, self._n, size=count, dtype=np.int64)
        drawn = self._rng.randint(0, self._cumulative[-1], size=count, dtype=np.int64)
        return np.searchsorted(self._cumulative, drawn, side="right").astype(np.int64)

    def distinct(self, count: int) -> NDArray[np.int64]:
        """Return `count` rows without replacement where that is possible and pays."""
        if self._cumulative is not None or count > self._n or self._n > _MANY * count:
            return self.draw(count)
        return self._rng.permutation(self._n)[:count].astype(np.int64)

    def seed(self) -> int:
        """Return a seed for another generator."""
        return int(self._rng.randint(0, 2**31 - 1))

    def mean(self, values: NDArray[np.float64]) -> float:
        """Return the expectation of a value at a draw."""
        if self._masses is None:
            return float(values.mean())
        return float(self._masses @ values / float(self._masses.sum()))
