"""Lower confidence bounds on a mean, valid for every sample size and every distribution.

Both are Markov's inequality for a product whose expectation is at most 1; nothing is asymptotic.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_STEPS = 60
# Logarithms and their sum are computed; this much more than needed is asked of them.
_SLACK = 1e-6


def mean_above(values: NDArray[np.float64], lowest: float, bet: float, confidence: float) -> float:
    """Return L with P(L <= mean) >= confidence, from independent draws that are >= `lowest`.

    Theorem. Let X_1, ..., X_m be independent with the same mean mu (or a smaller one each) and
    X_t >= lowest; let bet > 0 be fixed in advance. While bet (mu - lowest) <= 1 the factors
    1 + bet (X_t - mu) are not negative and their product has expectation at most 1, so that with
    probability at least 1 - alpha it is below 1 / alpha. It falls as mu grows; L is where it
    passes 1 / alpha. If bet (mu - lowest) > 1, then L <= lowest + 1 / bet < mu anyway. The draws
    need no upper limit.

    Examples
    --------
    >>> import numpy as np
    >>> values = np.random.RandomState(0).uniform(size=1000)
    >>> bool(0.45 < mean_above(values, 0.0, 0.25, 0.95) < 0.5)
    True
    """
    return _passing(values, len(values), lowest, bet, confidence)


def best_bet(pilot: NDArray[np.float64], count: int, lowest: float, confidence: float) -> float:
    """Return the bet that would do best if `count` draws looked like the pilot."""
    center = float(pilot.mean())
    if not center > lowest:
        return 1.0
    bets = (2.0 ** np.arange(0.0, -8.0, -0.75) / (center - lowest)).tolist()
    bounds = [_passing(pilot, count, lowest, bet, confidence, steps=16) for bet in bets]
    return float(bets[int(np.argmax(bounds))])


def about_above(pilot: NDArray[np.float64], count: int, lowest: float, confidence: float) -> float:
    """Return about the bound that the best bet would lead to, from two moments.

    The product passes 1 / alpha about where count (bet (mean - mu) - bet^2 variance / 2) does
    log(1 / alpha).
    """
    center, variance = float(pilot.mean()), float(pilot.var())
    if not center > lowest:
        return lowest
    goal = -math.log1p(-confidence) / count
    bet = 0.7 / (center - lowest)
    if variance > 0:
        bet = min(bet, math.sqrt(2.0 * goal / variance))
    return max(lowest, center - goal / bet - 0.5 * bet * variance)


def _passing(
    values: NDArray[np.float64],
    count: int,
    lowest: float,
    bet: float,
    confidence: float,
    steps: int = _STEPS,
) -> float:
    """Return the mu at which the product, scaled to `count` draws, passes 1 / alpha."""
    scale = count / len(values)
    goal = -math.log1p(-confidence) + _SLACK
    low, high = lowest, lowest + 1.0 / bet
    if scale * float(np.log1p(bet * (values - low)).sum()) < goal:
        return lowest
    for _ in range(steps):
        middle = 0.5 * (low + high)
        factors = bet * (values - middle)
        # Only where `middle` has come within rounding of the upper end. The slack covers either
        # turn there; this one takes no logarithm of 0.
        wealth = -math.inf if factors.min() <= -1.0 else float(np.log1p(factors).sum())
        low, high = (middle, high) if scale * wealth >= goal else (low, middle)
    return low


def bounded_mean_above(average: float, count: int, cap: float, confidence: float) -> float:
    """Return L with P(L <= mean) >= confidence, from the average of draws within [0, cap].

    Theorem (Chernoff, Hoeffding 1963). For q above p = mean / cap,
    P(average / cap >= q) <= exp(-count KL(q || p)), with or without replacement. L is the
    smallest mean with count KL(average / cap || L / cap) <= log(1 / alpha); it grows with the
    average, so that a number below the average gives a number below L.

    Examples
    --------
    >>> round(bounded_mean_above(0.5, 1000, 1.0, 0.95), 3)
    0.461
    """
    q = min(average / cap, 1.0)
    if not q > 0:
        return 0.0
    goal = -math.log1p(-confidence) + _SLACK
    low, high = 0.0, q
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if count * _divergence(q, middle) > goal else (low, middle)
    return low * cap


def _divergence(q: float, p: float) -> float:
    """KL between coins of probability q and p, 0 < p <= q <= 1."""
    if not p > 0:
        return math.inf
    tail = (1.0 - q) * math.log((1.0 - q) / (1.0 - p)) if q < 1 else 0.0
    return q * math.log(q / p) + tail
