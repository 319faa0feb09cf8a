"""Exact arithmetic of sums and centers, which needs no points.

In native code where it was built, else by the specification; the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.workspace import Assignment, Centers, Partial
from wolfmeans.exact import limbs
from wolfmeans.exact.limbs import SCALAR, Limbs, Range
from wolfmeans.exact.native import _native, aligned, native_is_available
from wolfmeans.exact.sums import exact_sum


def total(values: NDArray[np.float64], n_threads: int = 1) -> float:
    """Return the exact sum of an array, rounded once."""
    if not native_is_available():
        return exact_sum(values.ravel().tolist())
    terms = aligned(values, dtype=np.float64).ravel()
    return float(_native.weighted_sum(None, terms, n_threads))


def exact_total(values: NDArray[np.float64]) -> Limbs:
    """Return the exact sum of an array, not rounded."""
    terms = aligned(values, dtype=np.float64).ravel()
    if not native_is_available():
        return Limbs.of_terms(terms)
    return Limbs(SCALAR, _native.exact_terms(terms))


def range_of(values: NDArray[np.floating], n_threads: int = 1) -> Range:
    """Return the range of an array; its lower end may be one too low, which does no harm."""
    if not native_is_available():
        return limbs.range_of(values)
    return Range(*_native.exponent_range(aligned(values), n_threads))


def rounded(partial: Partial, centers: Centers, n_threads: int = 1) -> Assignment:
    """Return the assignment to these centers that the parts of all points add up to.

    The mean of a cluster without weight is its center. `Partial.rounded` is the specification.
    """
    if not native_is_available():
        return partial.rounded(centers)
    weights, means = np.zeros(len(centers)), aligned(centers).copy()
    residuals = np.zeros(centers.shape)
    totals, sums = partial.totals, partial.sums
    _native.round_moments(
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
        n_threads,
    )
    return Assignment(partial.moved, partial.gap.rounded(), weights, means, residuals)


def step(found: Assignment, centers: Centers, n_threads: int = 1) -> tuple[float, float]:
    """Return the shift and the movement of a step from the centers to the means found."""
    if not native_is_available():
        return specified_step(found, centers, total)
    given = aligned(centers)
    try:
        shift, movement = _native.center_step(
            found.means, given, found.residuals, found.weights, n_threads
        )
    except OverflowError:  # the specification decides which sum overflows, and the result
        return specified_step(found, centers, total)
    return float(shift), float(movement)


def specified_step(
    found: Assignment, centers: Centers, total: Callable[[NDArray[np.float64]], float]
) -> tuple[float, float]:
    """Return the shift and the movement by their definition; `total` makes exact sums.

    The shift is the sum of (c' - c)^2 over the clusters with weight. The movement sums
    W (c' - c)(2 mean - c - c') with mean = c' + residual; a term is not negative because c' is
    the representable number nearest to the mean, but for a mean that float64 had to round.
    """
    moves = found.means.astype(np.float64) - centers
    moves[found.weights == 0] = 0.0
    gains = found.weights[:, None] * np.maximum(moves * (moves + 2.0 * found.residuals), 0.0)
    return total(moves * moves), total(gains)
