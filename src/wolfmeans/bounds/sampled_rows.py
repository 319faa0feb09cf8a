"""The neighbours bound for many points: its sum over the rows is estimated from some of them.

Theorem. For fixed lambda and cap c let R_i = min(r_i(lambda), c), the roots taken with respect to
*all* points. By the theorem of `neighbours.py`

    OPT >= total E R_I - c (total - h) - lambda K,

I drawn with probability w_i / total (untrimmed: c infinite, h = total). For any numbers a_i whose
mean is known, R_I - a_I + E a_I has the same mean as R_I and is at least E a_I - max a_i. So
`confidence.mean_above` on m independent draws bounds E R_I from below with the stated confidence,
when lambda, c, a and the bet are chosen beforehand: from other, independent draws.

The a_i make it sharp. If k is an isolated cluster of weight W_k, then
r_i = (D_i + SSE_k / W_k) / 2 + lambda / W_k, with D_i the squared distance to its center; centers
fitted to a sample predict most of what varies between rows, and D_i is known for all of them.

O(m n d) time for m rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.bounds.bound import UNIT, LowerBound, Report, below, quiet, times_down, times_up
from wolfmeans.bounds.confidence import about_above, best_bet, mean_above
from wolfmeans.bounds.neighbours import (
    Problem,
    farthest,
    grid,
    heaviest_of,
    heavy_points,
    left_out_of,
    likely_root,
    points_for_a_price,
    price_of,
)
from wolfmeans.bounds.roots import Numbers, Roots, open_roots
from wolfmeans.bounds.sampling import Sampler
from wolfmeans.core.hooks import hook
from wolfmeans.engines import get_engine

PILOT_ROWS = 512
_FITTED_POINTS = 10_000
_ROWS_AT_ONCE = 512
_CLIPS = (0.9, 0.99, 1.0)
# Caps that are tried: quantiles so much below the share that is kept.
_BELOW = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)


@dataclass(frozen=True)
class _Plan:
    """What is fixed before the draws that count."""

    price: float
    cap: float
    guess: float
    offsets: Numbers
    """(n,) E a - a_i."""
    largest_a: float
    bet: float


def sampled_rows(
    X: Any,
    n_clusters: int,
    weights: Numbers | None = None,
    mass: float | None = None,
    *,
    n_rows: int,
    confidence: float,
    rng: np.random.RandomState,
    n_threads: int = 1,
    progress: Report | None = None,
) -> LowerBound:
    """Bound the SSE with the stated confidence from `n_rows` rows of the neighbours bound.

    Parameters are those of `neighbours`; `rng` gives the draws.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.RandomState(0)
    >>> X = np.repeat([[0.0], [9.0]], 2000, axis=0) + rng.normal(size=(4000, 1))
    >>> settings = {"n_rows": 500, "confidence": 0.95, "rng": rng}
    >>> bool(3500 < sampled_rows(X, 2, **settings).value < 4000)
    True
    """
    started = perf_counter()
    report = progress or quiet
    X, weights = heavy_points(X, weights)
    n = X.shape[0]
    total = float(n) if weights is None else math.fsum(weights)
    left_out = left_out_of(total, mass)
    sampler = Sampler(n, weights, rng)
    roots = open_roots(X, weights, heaviest_of(total, mass), n_threads)
    plan = _plan(X, weights, n_clusters, left_out, roots, sampler, n_rows, confidence, n_threads)
    if plan is None:
        return LowerBound(0.0, "subsampled", confidence, perf_counter() - started)
    report(0.3, "subsampled: rows of the neighbours bound")
    drawn = sampler.draw(n_rows)
    values = np.empty(n_rows)
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        values[part] = roots(drawn[part], np.array([plan.price]), plan.guess)[:, 0]
        report(min(1.0, 0.3 + 0.7 * (start + _ROWS_AT_ONCE) / n_rows), "subsampled: rows")
    values = np.minimum(values, plan.cap) + plan.offsets[drawn]
    average = mean_above(values, float(plan.offsets.min()), plan.bet, confidence)
    # The mean of the a_i was summed with n roundings, and the values have two more.
    average -= UNIT * ((n + 16.0) * plan.largest_a + 16.0 * float(np.abs(values).max()))
    # The total and five operations are rounded once each: 8 u and one number down cover them.
    rooted = times_down(total * (1.0 - 4.0 * UNIT), max(0.0, average)) / (1.0 + sampler.excess)
    value = below(
        rooted * (1.0 - 4.0 * UNIT),
        -times_up(plan.cap, left_out) if left_out > 0 else 0.0,
        -times_up(plan.price, n_clusters),
    )
    return LowerBound(value, "subsampled", confidence, perf_counter() - started)


def _plan(
    X: Any,
    weights: Numbers | None,
    n_clusters: int,
    left_out: float,
    roots: Roots,
    sampler: Sampler,
    n_rows: int,
    confidence: float,
    n_threads: int,
) -> _Plan | None:
    """Choose price, cap, offsets and bet from draws of their own."""
    far = farthest(X)
    if not far > 0:
        return None
    total = float(X.shape[0]) if weights is None else float(weights.sum())
    some = sampler.distinct(min(points_for_a_price(n_clusters), X.shape[0]))
    m = len(some)
    small = Problem(np.ones(m), n_clusters, left_out / total * m)
    price, guess = price_of(X[some], small, math.inf, far, n_threads)
    # Prices grow as the weight of the clusters does.
    price *= total / m
    isolated = _isolated(X, weights, n_clusters, left_out / total, sampler, n_threads)
    drawn = sampler.draw(PILOT_ROWS)
    for step in (0.5, 0.125):
        lambdas = grid(price, step, 4)
        found = roots(drawn, lambdas, guess)
        caps = _caps(found, left_out / total, n_rows, confidence)
        controls = [
            _control(
                np.minimum(found[:, g], caps[g]),
                isolated.roots(price),
                drawn,
                sampler,
                n_rows,
                confidence,
            )
            for g, price in enumerate(lambdas.tolist())
        ]
        bounds = total * np.array([control.bound for control in controls]) - n_clusters * lambdas
        if left_out > 0:
            bounds -= left_out * caps
        place = int(np.argmax(bounds))
        price, guess = float(lambdas[place]), likely_root(found, place)
    offsets = controls[place].offsets(isolated.roots(price), sampler)
    pilot = np.minimum(found[:, place], caps[place]) + offsets[drawn]
    bet = best_bet(pilot, n_rows, float(offsets.min()), confidence)
    largest_a = controls[place].slope * controls[place].clip
    return _Plan(price, float(caps[place]), guess, offsets, largest_a, bet)


def _caps(roots: Numbers, share_left_out: float, n_rows: int, confidence: float) -> Numbers:
    """Return for each price the cap that would do best; infinite where nothing is left out.

    What is left out pays it, so that a cap above the roots of what is kept costs far too much.
    """
    if share_left_out == 0:
        return np.full(roots.shape[1], math.inf)
    quantiles = np.clip(1.0 - share_left_out - np.array(_BELOW), 0.01, 1.0)
    caps = np.quantile(roots, quantiles, axis=0)
    bounds = [
        [
            about_above(np.minimum(roots[:, g], cap), n_rows, 0.0, confidence)
            - share_left_out * cap
            for cap in caps[:, g].tolist()
        ]
        for g in range(roots.shape[1])
    ]
    best = np.argmax(bounds, axis=1)
    return np.asarray(caps[best, np.arange(roots.shape[1])])


@dataclass(frozen=True)
class _Isolated:
    """What the roots would be if clusters fitted to a sample were isolated."""

    base: Numbers
    """(n,) half the sum of D_i and its cluster's mean."""
    per_price: Numbers
    """(n,) 1 / W_k."""

    def roots(self, price: float) -> Numbers:
        return np.asarray(self.base + price * self.per_price)


def _isolated(
    X: Any,
    weights: Numbers | None,
    n_clusters: int,
    share_left_out: float,
    sampler: Sampler,
    n_threads: int,
) -> _Isolated:
    some = sampler.distinct(min(_FITTED_POINTS, X.shape[0]))
    centers = hook("quick_centers")(X[some], n_clusters, share_left_out, sampler, n_threads)
    k = len(centers)
    labels, distances = get_engine().open(X, None, n_threads).nearest(centers)
    given = np.ones(X.shape[0]) if weights is None else weights
    heavy = np.bincount(labels, given, minlength=k)
    heavy[heavy == 0] = 1.0
    spread = np.bincount(labels, given * distances, minlength=k) / heavy
    return _Isolated(0.5 * (distances + spread[labels]), 1.0 / heavy[labels])


@dataclass(frozen=True)
class _Control:
    """How the a_i are made, about the bound on the mean that follows, and what sampling costs."""

    slope: float
    clip: float
    bound: float
    loss: float

    def offsets(self, predicted: Numbers, sampler: Sampler) -> Numbers:
        """Return (n,) E a - a_i."""
        a = np.minimum(predicted, self.clip)
        return self.slope * (sampler.mean(a) - a)


def _control(
    pilot: Numbers,
    predicted: Numbers,
    drawn: NDArray[np.int64],
    sampler: Sampler,
    n_rows: int,
    confidence: float,
) -> _Control:
    """Choose the a_i from the roots as predicted, clipped: large ones cost more than they explain.

    The choice is by the loss, which is known better than the mean.
    """
    best: _Control | None = None
    for clip in (0.0, *np.quantile(predicted[drawn], _CLIPS).tolist()):
        a = np.minimum(predicted, clip)
        centered = a[drawn] - a[drawn].mean()
        square = float(centered @ centered)
        slope = max(0.0, float(centered @ pilot) / square) if square > 0 else 0.0
        offsets = slope * (sampler.mean(a) - a)
        values = pilot + offsets[drawn]
        bound = about_above(values, n_rows, float(offsets.min()), confidence)
        loss = float(values.mean()) - bound
        if best is None or loss < best.loss:
            best = _Control(slope, clip, bound, loss)
    assert best is not None
    return best
