"""The study's statistics: a line through worst-case gaps in log-log scales, and its test.

The theorem's line has slope -1: the smallest gap of t + 1 steps is at most h_0 / (t + 1). The paper
fits a line to log g_t over log(t + 1) by least squares, in the lower two thirds of the log range,
and asks whether its slope is significantly larger than -1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr

BOUND_SLOPE = -1.0


@dataclass(frozen=True)
class Regression:
    """Ordinary least squares of y on x, and the test of slope = -1 against slope > -1.

    What cannot be estimated is NaN: standard errors from two points, a slope from one.
    """

    n_points: int
    """Number of points that the line is fitted to."""
    slope: float
    """Increase of y per unit of x."""
    slope_se: float
    """Standard error of the slope."""
    intercept: float
    """y at x = 0."""
    intercept_se: float
    """Standard error of the intercept."""
    p_value: float
    """One-sided: the probability of a slope at least this large if the true one were -1."""

    @property
    def degrees_of_freedom(self) -> int:
        """Degrees of freedom of the residuals."""
        return self.n_points - 2


def least_squares(x: ArrayLike, y: ArrayLike) -> Regression:
    """Fit y = intercept + slope x and test the slope against -1.

    Examples
    --------
    >>> line = least_squares([0.0, 1.0, 2.0, 3.0], [5.0, 4.1, 2.9, 2.0])
    >>> round(line.slope, 3), round(line.intercept, 3), round(line.p_value, 3)
    (-1.02, 5.03, 0.658)
    """
    abscissae, ordinates = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    n_points = len(abscissae)
    if n_points == 0:
        return Regression(0, *[math.nan] * 5)
    mean_x, mean_y = float(abscissae.mean()), float(ordinates.mean())
    off_x, off_y = abscissae - mean_x, ordinates - mean_y
    spread = float(off_x @ off_x)
    if spread == 0.0:
        return Regression(n_points, *[math.nan] * 5)
    slope = float(off_x @ off_y) / spread
    intercept = mean_y - slope * mean_x
    if n_points == 2:
        return Regression(n_points, slope, math.nan, intercept, math.nan, math.nan)
    residuals = off_y - slope * off_x
    variance = float(residuals @ residuals) / (n_points - 2)
    slope_se = math.sqrt(variance / spread)
    intercept_se = math.sqrt(variance * (1.0 / n_points + mean_x * mean_x / spread))
    above = slope - BOUND_SLOPE
    if slope_se > 0.0:
        p_value = float(stdtr(n_points - 2, -above / slope_se))
    else:
        p_value = 0.5 if above == 0.0 else float(above < 0.0)
    return Regression(n_points, slope, slope_se, intercept, intercept_se, p_value)


def window(n_positive: int) -> int:
    """Return how many gaps of T the line is fitted to: the largest N with N**3 <= T**2.

    These are the t + 1 up to T**(2/3), two thirds of the logarithmic range. In integers only: the
    power of floating-point numbers is wrong at cubes.

    Examples
    --------
    >>> [window(T) for T in (1, 7, 8, 27, 64, 1000)]
    [1, 3, 4, 9, 16, 100]
    """
    if n_positive < 0:
        raise ValueError(f"a number of gaps is at least 0; got {n_positive}")
    square = n_positive * n_positive
    low, high = 0, n_positive + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**3 <= square else (low, middle)
    return low


def log_log_line(gaps: Sequence[float]) -> Regression:
    """Fit log g_t over log(t + 1) in the window; g_t = gaps[t].

    The last of the gaps is positive; one that is 0 before (a step among ties) is left out.

    Examples
    --------
    >>> line = log_log_line([6.0 / (t + 1) for t in range(27)])
    >>> line.n_points, round(line.slope, 6), round(line.intercept, 3)
    (9, -1.0, 1.792)
    """
    looked_at = np.asarray(gaps[: window(len(gaps))], dtype=np.float64)
    t = np.flatnonzero(looked_at > 0)
    return least_squares(np.log(t + 1.0), np.log(looked_at[t]))


def sidak(level: float, tests: int) -> float:
    """Return the level of each of several independent tests that keeps them together at `level`.

    Examples
    --------
    >>> round(sidak(0.05, 36), 6)
    0.001424
    """
    if not 0.0 < level < 1.0 or tests < 1:
        raise ValueError(f"a level is in (0, 1) and tests are at least 1; got {level}, {tests}")
    return -math.expm1(math.log1p(-level) / tests)
