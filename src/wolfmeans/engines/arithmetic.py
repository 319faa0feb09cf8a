"""What native engines compute alike, whatever the points are: exact sums and steps of centers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.engines.aligned import aligned
from wolfmeans.engines.base import Assignment, Centers, Distances, Threshold
from wolfmeans.engines.labelled import LabelledPoints
from wolfmeans.engines.parts.partial import SCALAR, Limbs, Partial
from wolfmeans.engines.trimming import Trimming


class NativeArithmetic(LabelledPoints):
    """A workspace whose sums run in native code (native/exact/exact_sum.hpp, center_step.hpp)."""

    _native: Any
    _n_threads: int

    def total(self, values: NDArray[np.float64]) -> float:
        """Return the exact sum of an array, rounded once."""
        terms = aligned(values, dtype=np.float64).ravel()
        return float(self._native.weighted_sum(None, terms, self._n_threads))

    def step(self, found: Assignment, centers: Centers) -> tuple[float, float]:
        """Return the shift and the movement of a step from the centers to the means found."""
        given = aligned(centers)
        try:
            shift, movement = self._native.center_step(
                found.means, given, found.residuals, found.weights, self._n_threads
            )
        except OverflowError:  # the specification says which sum it is, and what becomes of it
            return super().step(found, centers)
        return float(shift), float(movement)

    def exact_total(self, values: NDArray[np.float64]) -> Limbs:
        """Return the exact sum of an array, not rounded."""
        terms = aligned(values, dtype=np.float64).ravel()
        return Limbs(SCALAR, self._native.exact_terms(terms))

    def rounded(self, partial: Partial, centers: Centers) -> Assignment:
        """Return the assignment to these centers that the parts of all points add up to."""
        weights, means = np.zeros(len(centers)), aligned(centers).copy()
        residuals = np.zeros(centers.shape)
        totals, sums = partial.totals, partial.sums
        self._native.round_moments(
            sums.values,
            sums.grid.low,
            sums.grid.bits,
            totals.values,
            totals.grid.low,
            totals.grid.bits,
            np.arange(len(centers)),
            weights,
            means,
            residuals,
            self._n_threads,
        )
        return Assignment(partial.moved, partial.gap.rounded(), weights, means, residuals)

    def digest(self, centers: Centers) -> bytes:
        """Return 16 bytes that stand for the centers."""
        short: bytes = self._native.digest(aligned(centers))
        return short


class NativeTrimming(Trimming, NativeArithmetic):
    """Trimming whose threshold is found in native code (native/descent/trimming.hpp)."""

    def _find_threshold(self, distances: Distances) -> Threshold:
        found = self._native.find_threshold(aligned(distances), self.weights, self.mass)
        return Threshold(*found)
