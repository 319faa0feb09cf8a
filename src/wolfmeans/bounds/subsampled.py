"""Bounds from samples, for many points, with a stated confidence.

Two ways; in both, what decides the outcome (prices, caps, offsets, the bet) is chosen beforehand
from other, independent draws.

`sampled_rows` estimates the sum of the neighbours bound over the rows from some of them. Theorem.
For fixed lambda and cap c let R_i = min(r_i(lambda), c), the roots taken with respect to *all*
points. By the theorem of `neighbours.py`

    OPT >= total E R_I - c (total - h) - lambda K,

I drawn with probability w_i / total (untrimmed: c infinite, h = total). For any numbers a_i whose
mean is known, R_I - a_I + E a_I has the same mean as R_I and is at least E a_I - max a_i. So
`confidence.mean_above` on m independent draws bounds E R_I from below with the stated confidence.
The a_i make it sharp. If k is an isolated cluster of weight W_k, then
r_i = (D_i + SSE_k / W_k) / 2 + lambda / W_k, with D_i the squared distance to its center; centers
fitted to a sample predict most of what varies between rows, and D_i is known for all of them.
O(m n d) time for m rows.

`sampled_problems` bounds the optimum of small samples. Theorem. Fix a cap c. With D_i(C) the
squared distance of i to the nearest center of C,

    OPT_h >= min_C sum_i w_i min(D_i(C), c) - c (total - h)      (untrimmed h = total)

because a point that is left out pays c at most and one that is kept no more than D_i. Let C* attain
the minimum, mu = sum_i w_i min(D_i(C*), c) / total. At N points drawn by weight the numbers
min(D(C*), c) are independent, within [0, c] and of mean mu. A lower bound on the penalized optimum
of a sample is below their sum at C*, whatever C* is; so the sum of such bounds over all samples,
divided by N, is below their average, and `confidence.bounded_mean_above` bounds mu from below with
the stated confidence. Three bounds of samples are used: prices in few columns, else neighbours, and
semidefinite ones where there is time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.bounds.bound import (
    UNIT,
    LowerBound,
    Numbers,
    Settings,
    below,
    heaviest_cluster,
    positive_points,
    quiet,
    times_down,
    times_up,
    total_weight,
    weight_left_out,
)
from wolfmeans.bounds.confidence import about_above, best_bet, bounded_mean_above, mean_above
from wolfmeans.bounds.neighbours import (
    Problem,
    Roots,
    farthest,
    grid,
    likely_root,
    neighbours,
    open_roots,
    points_for_a_price,
    price_of,
)
from wolfmeans.bounds.prices import prices
from wolfmeans.bounds.semidefinite import capped
from wolfmeans.core.draws import integer_masses
from wolfmeans.core.hooks import hook
from wolfmeans.engines import get_engine
from wolfmeans.exact import native

PILOT_ROWS = 512
"""Rows from which price, cap, offsets and bet are chosen."""
_FITTED_POINTS = 10_000
_ROWS_AT_ONCE = 512
_CLIPS = (0.9, 0.99, 1.0)
# Caps that are tried: quantiles so much below the share that is kept.
_BELOW = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
# Prices take a sample of three columns four times as long as one of two.
_PRICED_COLUMNS = 3
_POINTS, _FEWER_POINTS = 8192, 4096
_QUANTILES = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1.0)
# Samples for semidefinite bounds: points of each, how long one takes, and how many there are.
_FEWEST_RELAXED, _MOST_RELAXED, _RELAXED_PER_CLUSTER = 500, 2000, 70
_SECONDS_OF_A_SAMPLE = 0.6
_FEWEST_SAMPLES, _MOST_SAMPLES = 8, 200
# With fewer points than this, semidefinite bounds of all of them are better.
_MANY_POINTS = 20_000
# So many times more points than draws: hardly one is drawn twice.
_MANY = 100


def subsampled(
    X: Any,
    n_clusters: int,
    weights: Numbers | None,
    mass: float | None,
    settings: Settings,
    *,
    n_rows: int = 0,
) -> LowerBound:
    """Bound the SSE with the stated confidence.

    In few columns by small problems, where prices are so much better than neighbours. Otherwise by
    `n_rows` rows of the neighbours bound, which lose less; by small problems if that is 0. The
    latter need only X[rows] of a few rows, so X may be anything that has it. If the method was
    asked for by name, and points are many, semidefinite bounds of many more and smaller problems
    come on top. Each of the two then fails with half the probability.
    """
    started, (n, d) = perf_counter(), X.shape
    priced = d <= _PRICED_COLUMNS and native.native_is_available()
    size, n_samples = _relaxed_samples(n, n_clusters, settings)
    twice = n_samples > 0 and not priced
    if twice:
        own = replace(settings, confidence=0.5 * (1.0 + settings.confidence))
        points = SampledPoints(X, weights, mass, own)
    else:
        points = SampledPoints(X, weights, mass, settings)
    if n_rows > 0 and not priced:
        value = sampled_rows(points, n_clusters, n_rows)
    else:
        n_points = _FEWER_POINTS if d == _PRICED_COLUMNS else _POINTS
        value = sampled_problems(points, n_clusters, _priced if priced else neighbours, n_points)
    if twice:
        some = points.sampler.distinct(min(_FITTED_POINTS, points.n))
        relaxed = partial(_relaxed, centers=points.quick_centers(some, n_clusters))
        value = max(value, sampled_problems(points, n_clusters, relaxed, size, n_samples))
    return LowerBound(value, "subsampled", settings.confidence, perf_counter() - started)


def _relaxed_samples(n: int, n_clusters: int, settings: Settings) -> tuple[int, int]:
    """Return the size and the number of samples for semidefinite bounds; 0 of them for none.

    They depend on what is known before any draw. A larger sample loses less to its own centers,
    about K of its points; more samples lose less to the confidence.
    """
    size = min(_MOST_RELAXED, max(_FEWEST_RELAXED, _RELAXED_PER_CLUSTER * n_clusters))
    seconds = _SECONDS_OF_A_SAMPLE * (size / _FEWEST_RELAXED) ** 2
    n_samples = min(_MOST_SAMPLES, int(settings.seconds / seconds))
    enough = settings.named and n >= _MANY_POINTS and n_samples >= _FEWEST_SAMPLES
    return size, n_samples if enough else 0


def _relaxed(
    X: Any, n_clusters: int, *, cap: float, n_threads: int, centers: NDArray[np.floating]
) -> LowerBound:
    dense = X.toarray() if sparse.issparse(X) else X
    return capped(dense, n_clusters, cap, centers=centers)


def _priced(X: Any, n_clusters: int, *, cap: float, n_threads: int) -> LowerBound:
    dense = X.toarray() if sparse.issparse(X) else np.ascontiguousarray(X)
    return prices(dense, n_clusters, cap=cap, n_threads=n_threads)


# --- Draws ---------------------------------------------------------------------------------------


class Sampler:
    """Draws rows with replacement.

    With weights the probabilities are integer masses over their sum. A mass is a weight rounded
    down, so that no probability exceeds the exact one by more than the factor 1 + `excess`.
    """

    def __init__(self, n: int, weights: Numbers | None, rng: np.random.RandomState) -> None:
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

    def mean(self, values: Numbers) -> float:
        """Return the expectation of a value at a draw."""
        if self._masses is None:
            return float(values.mean())
        return float(self._masses @ values / float(self._masses.sum()))


class SampledPoints:
    """The points of positive weight, how much may be left out, and how they are sampled."""

    def __init__(
        self, X: Any, weights: Numbers | None, mass: float | None, settings: Settings
    ) -> None:
        self.X, self.weights = positive_points(X, weights)
        self.n = self.X.shape[0]
        self.total = total_weight(self.n, self.weights)
        self.left_out = weight_left_out(self.total, mass)
        self.share_left_out = self.left_out / self.total
        self.heaviest = heaviest_cluster(self.total, mass)
        self.sampler = Sampler(self.n, self.weights, settings.rng())
        self.confidence, self.n_threads = settings.confidence, settings.n_threads
        self.report = settings.progress or quiet

    def quick_centers(self, rows: NDArray[np.int64], n_clusters: int) -> NDArray[np.floating]:
        """Return the centers of a quick fit to some rows."""
        centers: NDArray[np.floating] = hook("quick_centers")(
            self.X[rows], n_clusters, self.share_left_out, self.sampler, self.n_threads
        )
        return centers

    def paid(self, cap: float) -> float:
        """Return at least what the points that are left out pay."""
        return times_up(cap, self.left_out) if self.left_out > 0 else 0.0


# --- Rows of the neighbours bound ----------------------------------------------------------------


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


def sampled_rows(points: SampledPoints, n_clusters: int, n_rows: int) -> float:
    """Bound the SSE with the stated confidence from `n_rows` rows of the neighbours bound.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.RandomState(0)
    >>> X = np.repeat([[0.0], [9.0]], 2000, axis=0) + rng.normal(size=(4000, 1))
    >>> points = SampledPoints(X, None, None, Settings(confidence=0.95, rng=lambda: rng))
    >>> 3500 < sampled_rows(points, 2, n_rows=500) < 4000
    True
    """
    sampler = points.sampler
    roots = open_roots(points.X, points.weights, points.heaviest, points.n_threads)
    plan = _plan(points, n_clusters, roots, n_rows)
    if plan is None:
        return 0.0
    points.report(0.3, "subsampled: rows of the neighbours bound")
    drawn = sampler.draw(n_rows)
    values = np.empty(n_rows)
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        values[part] = roots(drawn[part], np.array([plan.price]), plan.guess)[:, 0]
        points.report(min(1.0, 0.3 + 0.7 * (start + _ROWS_AT_ONCE) / n_rows), "subsampled: rows")
    values = np.minimum(values, plan.cap) + plan.offsets[drawn]
    average = mean_above(values, float(plan.offsets.min()), plan.bet, points.confidence)
    # The mean of the a_i was summed with n roundings, and the values have two more.
    error = (points.n + 16.0) * plan.largest_a + 16.0 * float(np.abs(values).max())
    average = max(0.0, average - UNIT * error)
    # The total and five operations are rounded once each: 8 u and one number down cover them.
    rooted = times_down(points.total * (1.0 - 4.0 * UNIT), average) / (1.0 + sampler.excess)
    rooted *= 1.0 - 4.0 * UNIT
    return below(rooted, -points.paid(plan.cap), -times_up(plan.price, n_clusters))


def _plan(points: SampledPoints, n_clusters: int, roots: Roots, n_rows: int) -> _Plan | None:
    """Choose price, cap, offsets and bet from draws of their own."""
    far = farthest(points.X)
    if not far > 0:
        return None
    sampler = points.sampler
    some = sampler.distinct(min(points_for_a_price(n_clusters), points.n))
    m = len(some)
    small = Problem(np.ones(m), n_clusters, points.share_left_out * m)
    price, guess = price_of(points.X[some], small, math.inf, far, points.n_threads)
    # Prices grow as the weight of the clusters does.
    price *= points.total / m
    isolated = _isolated(points, n_clusters)
    drawn = sampler.draw(PILOT_ROWS)
    for step in (0.5, 0.125):
        lambdas = grid(price, step, 4)
        found = roots(drawn, lambdas, guess)
        caps = _caps(points, found, n_rows)
        controls = [
            _control(points, np.minimum(found[:, g], caps[g]), isolated.roots(price), drawn, n_rows)
            for g, price in enumerate(lambdas.tolist())
        ]
        bounds = np.array([control.bound for control in controls])
        bounds = points.total * bounds - n_clusters * lambdas
        if points.left_out > 0:
            bounds -= points.left_out * caps
        place = int(np.argmax(bounds))
        price, guess = float(lambdas[place]), likely_root(found, place)
    control = controls[place]
    offsets = control.offsets(isolated.roots(price), sampler)
    pilot = np.minimum(found[:, place], caps[place]) + offsets[drawn]
    bet = best_bet(pilot, n_rows, float(offsets.min()), points.confidence)
    return _Plan(price, float(caps[place]), guess, offsets, control.slope * control.clip, bet)


def _caps(points: SampledPoints, roots: Numbers, n_rows: int) -> Numbers:
    """Return for each price the cap that would do best; infinite where nothing is left out.

    What is left out pays it, so a cap above the roots of what is kept costs far too much.
    """
    share = points.share_left_out
    if share == 0:
        return np.full(roots.shape[1], math.inf)
    caps = np.quantile(roots, np.clip(1.0 - share - np.array(_BELOW), 0.01, 1.0), axis=0)
    bounds = [
        [
            about_above(np.minimum(roots[:, g], cap), n_rows, 0.0, points.confidence) - share * cap
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


def _isolated(points: SampledPoints, n_clusters: int) -> _Isolated:
    some = points.sampler.distinct(min(_FITTED_POINTS, points.n))
    centers = points.quick_centers(some, n_clusters)
    k = len(centers)
    labels, distances = get_engine().open(points.X, None, points.n_threads).nearest(centers)
    given = np.ones(points.n) if points.weights is None else points.weights
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
    points: SampledPoints, pilot: Numbers, predicted: Numbers, drawn: NDArray[np.int64], n_rows: int
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
        offsets = slope * (points.sampler.mean(a) - a)
        values = pilot + offsets[drawn]
        bound = about_above(values, n_rows, float(offsets.min()), points.confidence)
        loss = float(values.mean()) - bound
        if best is None or loss < best.loss:
            best = _Control(slope, clip, bound, loss)
    assert best is not None
    return best


# --- Small problems ------------------------------------------------------------------------------


def sampled_problems(
    points: SampledPoints,
    n_clusters: int,
    bound: Callable[..., LowerBound] = neighbours,
    n_points: int = _POINTS,
    n_samples: int = 4,
) -> float:
    """Bound the SSE with the stated confidence from `n_samples` samples of `n_points` points.

    The bound of a sample is computed by `bound(X, n_clusters, cap=c, n_threads=...)`.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.RandomState(0)
    >>> X = np.repeat([[0.0], [9.0]], 2000, axis=0) + rng.normal(size=(4000, 1))
    >>> points = SampledPoints(X, None, None, Settings(confidence=0.95, rng=lambda: rng))
    >>> 3000 < sampled_problems(points, 2, n_points=500) < 4000
    True
    """
    n_points = min(n_points, points.n)
    count, confidence = n_points * n_samples, points.confidence
    cap = _cap(points, n_clusters, count)
    if not cap > 0:
        return 0.0
    points.report(0.1, "subsampled: small problems")
    drawn = points.sampler.distinct(count).reshape(n_samples, n_points)
    bounds = []
    for number, rows in enumerate(drawn):
        found = bound(points.X[rows], n_clusters, cap=cap, n_threads=points.n_threads)
        bounds.append(found.value)
        points.report(0.1 + 0.9 * (number + 1) / n_samples, "subsampled: small problems")
    # At most seven numbers are rounded here, the total among them. 13 u and one number down are
    # taken off, so that no single factor shows; without all of them the value can be too large.
    average = bounded_mean_above(below(*bounds) / count * (1.0 - UNIT), count, cap, confidence)
    average *= (1.0 - 8.0 * UNIT) / (1.0 + points.sampler.excess)
    total = times_down(points.total * (1.0 - 4.0 * UNIT), average)
    return below(total, -points.paid(cap))


def _cap(points: SampledPoints, n_clusters: int, count: int) -> float:
    """Return the cap that would do best if distances looked as in a fit to some other points."""
    some = points.sampler.distinct(min(2 * _FITTED_POINTS, points.n))
    half = max(1, len(some) // 2)
    centers = points.quick_centers(some[:half], n_clusters)
    others = get_engine().open(points.X[some[-half:]], None, points.n_threads)
    _, distances = others.nearest(centers)
    best, reached = 0.0, -math.inf
    for cap in np.quantile(distances, _QUANTILES).tolist():
        if not cap > 0:
            continue
        average = float(np.minimum(distances, cap).mean())
        value = bounded_mean_above(average, count, cap, points.confidence)
        value -= cap * points.share_left_out
        if value > reached:
            best, reached = cap, value
    return best
