"""A lower bound for K-means on unit rows as a lower bound for spherical K-means.

Let W be the total weight, N the sum of w ||x||^2, and L a lower bound on the sum of squared errors
of unit rows about any centers. Two bounds on half the sum of squared distances to unit centers
follow. First, L / 2: unit centers are centers. Second, with s_k and W_k the sum and the weight of
the rows of cluster k, that sum is (N + W) / 2 - sum_k <s_k, c_k>. Here sum_k ||s_k|| is at most
sqrt(W sum_k ||s_k||^2 / W_k) by Cauchy and Schwarz, and N - sum_k ||s_k||^2 / W_k >= L. So it is
at least (N + W) / 2 - sqrt(W (N - L)); for exact unit rows that is W - sqrt(W (W - L)), which is
never below L / 2. Norms that are off by e enter as their worst case.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

from wolfmeans.bounds.bound import LowerBound, scaled_down

# The total weight is an exact sum, rounded once.
_TOTAL = Fraction(1, 2**52)


def spherical_bound(bound: LowerBound, total: float, norm_error: float) -> LowerBound:
    """Return a lower bound on the inertia of spherical K-means, rounded down.

    Parameters
    ----------
    bound : LowerBound
        On the sum of squared errors of the unit rows.
    total : float
        The total weight, rounded once.
    norm_error : float
        How far the norms of rows and centers are from 1 at most.

    Examples
    --------
    >>> from wolfmeans.bounds import LowerBound
    >>> half = LowerBound(75.0, "spectral", 1.0, 0.0)
    >>> round(spherical_bound(half, total=100.0, norm_error=0.0).value, 9)
    50.0
    """
    off, known = Fraction(norm_error), Fraction(bound.value)
    low, high = Fraction(total) * (1 - _TOTAL), Fraction(total) * (1 + _TOTAL)
    most = high * max(Fraction(0), high * (1 + off) ** 2 - known)
    value = low * (1 - off) ** 2 - (1 + off) * _root_above(most)
    best = max(scaled_down(bound.value, -1), _below(value))
    # Proofs and better clusterings are about squared errors, not about this sum.
    return replace(bound, value=best, proof=None, better_centers=None, better_inertia=None)


def _root_above(square: Fraction) -> Fraction:
    """Return a number not below the square root."""
    digits = 2**120
    return Fraction(math.isqrt(math.ceil(square * digits * digits)) + 1, digits)


def _below(value: Fraction) -> float:
    """Return a float64 not above the value, and at least 0."""
    if value <= 0:
        return 0.0
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, 0.0)
