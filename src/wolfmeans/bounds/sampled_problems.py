"""A bound for many points from small problems: samples whose optimum is bounded in their place.

Theorem. Fix a cap c. With D_i(C) the squared distance of i to the nearest center of C,

    OPT_h >= min_C sum_i w_i min(D_i(C), c) - c (total - h)      (untrimmed h = total)

because a point that is left out pays c at most and one that is kept no more than D_i. Let C* attain
the minimum, mu = sum_i w_i min(D_i(C*), c) / total. At N points drawn by weight the numbers
min(D(C*), c) are independent, within [0, c] and of mean mu. A lower bound on the penalized optimum
of a sample is below their sum at C*, whatever C* is; so the sum of such bounds over all samples,
divided by N, is below their average, and `confidence.bounded_mean_above` bounds mu from below with
the stated confidence, when c is chosen beforehand from other, independent draws.

The bound of a sample is a parameter: neighbours, or another with the same arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from wolfmeans.bounds.bound import UNIT, LowerBound, Report, below, quiet, times_down, times_up
from wolfmeans.bounds.confidence import bounded_mean_above
from wolfmeans.bounds.neighbours import heavy_points, left_out_of, neighbours
from wolfmeans.bounds.roots import Numbers
from wolfmeans.bounds.sampling import Sampler
from wolfmeans.core.hooks import hook
from wolfmeans.engines import get_engine

SampleBound = Callable[..., LowerBound]
"""Called as bound(X, n_clusters, cap=c, n_threads=...)."""

_PILOT_POINTS = 10_000
_QUANTILES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)


def sampled_problems(
    X: Any,
    n_clusters: int,
    weights: Numbers | None = None,
    mass: float | None = None,
    *,
    bound: SampleBound = neighbours,
    n_points: int = 8192,
    n_samples: int = 4,
    confidence: float,
    rng: np.random.RandomState,
    n_threads: int = 1,
    progress: Report | None = None,
) -> LowerBound:
    """Bound the SSE with the stated confidence from `n_samples` samples of `n_points` points.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.RandomState(0)
    >>> X = np.repeat([[0.0], [9.0]], 2000, axis=0) + rng.normal(size=(4000, 1))
    >>> settings = {"n_points": 500, "confidence": 0.95, "rng": rng}
    >>> bool(3000 < sampled_problems(X, 2, **settings).value < 4000)
    True
    """
    started = perf_counter()
    report = progress or quiet
    X, weights = heavy_points(X, weights)
    n = X.shape[0]
    total = float(n) if weights is None else math.fsum(weights)
    left_out = left_out_of(total, mass)
    sampler = Sampler(n, weights, rng)
    n_points = min(n_points, n)
    count = n_points * n_samples
    cap = _cap(X, n_clusters, left_out / total, count, confidence, sampler, n_threads)
    if not cap > 0:
        return LowerBound(0.0, "subsampled", confidence, perf_counter() - started)
    report(0.1, "subsampled: small problems")
    drawn = sampler.distinct(count).reshape(n_samples, n_points)
    bounds = []
    for number, rows in enumerate(drawn):
        bounds.append(bound(X[rows], n_clusters, cap=cap, n_threads=n_threads).value)
        report(0.1 + 0.9 * (number + 1) / n_samples, "subsampled: small problems")
    # At most seven numbers are rounded here, the total among them. 13 u and one number down are
    # taken off, so that no single factor shows; without all of them the value can be too large.
    average = bounded_mean_above(below(*bounds) / count * (1.0 - UNIT), count, cap, confidence)
    average *= (1.0 - 8.0 * UNIT) / (1.0 + sampler.excess)
    value = below(
        times_down(total * (1.0 - 4.0 * UNIT), average),
        -times_up(cap, left_out) if left_out > 0 else 0.0,
    )
    return LowerBound(value, "subsampled", confidence, perf_counter() - started)


def _cap(
    X: Any,
    n_clusters: int,
    share_left_out: float,
    count: int,
    confidence: float,
    sampler: Sampler,
    n_threads: int,
) -> float:
    """Return the cap that would do best if distances looked as in a fit to some other points."""
    some = sampler.distinct(min(2 * _PILOT_POINTS, X.shape[0]))
    half = max(1, len(some) // 2)
    centers = hook("quick_centers")(X[some[:half]], n_clusters, share_left_out, sampler, n_threads)
    _, distances = get_engine().open(X[some[-half:]], None, n_threads).nearest(centers)
    best, reached = 0.0, -math.inf
    for cap in np.quantile(distances, _QUANTILES).tolist():
        if not cap > 0:
            continue
        average = float(np.minimum(distances, cap).mean())
        value = bounded_mean_above(average, count, cap, confidence) - cap * share_left_out
        if value > reached:
            best, reached = cap, value
    return best
