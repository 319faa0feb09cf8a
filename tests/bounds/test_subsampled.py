"""Bounds from samples hold as often as they say, whatever the distribution."""

import decimal
import math
import sys
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from wolfmeans import KMeans
from wolfmeans.bounds import LowerBound, Settings, neighbours, one_dimensional, subsampled
from wolfmeans.bounds.confidence import best_bet, bounded_mean_above, mean_above
from wolfmeans.bounds.semidefinite import capped
from wolfmeans.bounds.subsampled import SampledPoints, Sampler, sampled_problems, sampled_rows

MODULE = sys.modules[subsampled.__module__]
UNIT = Fraction(1, 2**53)
ALPHA = 0.1


def drawing(rng, confidence=0.95):
    """Settings for a bound with these draws, or with those of a seed."""
    generator = rng if isinstance(rng, np.random.RandomState) else np.random.RandomState(rng)
    return Settings(confidence=confidence, rng=lambda: generator)


def too_many(runs, alpha=ALPHA):
    """A number of failures that a true confidence of 1 - alpha exceeds once in ten thousand."""
    return stats.binom.ppf(1 - 1e-4, runs, alpha)


DISTRIBUTIONS = {
    "coin": (lambda rng, size: (rng.random_sample(size) < 0.1) * 1.0, 0.1),
    "uniform": (lambda rng, size: rng.random_sample(size), 0.5),
    "lognormal": (lambda rng, size: rng.lognormal(0.0, 1.5, size), math.exp(1.125)),
    "pareto": (lambda rng, size: rng.pareto(2.1, size), 1 / 1.1),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_betting_bounds_the_mean(name):
    draw, mean = DISTRIBUTIONS[name]
    rng = np.random.RandomState(0)
    runs, failures, bounds = 300, 0, []
    for _ in range(runs):
        bet = best_bet(draw(rng, 100), 400, 0.0, 1 - ALPHA)
        bounds.append(mean_above(draw(rng, 400), 0.0, bet, 1 - ALPHA))
        failures += bounds[-1] > mean
    assert failures <= too_many(runs)
    # Neither is it far too careful: some do fail, and most are near.
    assert failures > 0
    assert np.median(bounds) > 0.6 * mean


def test_betting_with_negative_draws():
    rng = np.random.RandomState(1)
    failures = 0
    for _ in range(400):
        values = rng.uniform(-3.0, 4.0, size=300)
        bound = mean_above(values, -3.0, 0.05, 1 - ALPHA)
        failures += bound > 0.5
        assert bound >= -3.0
    assert 0 < failures <= too_many(400)
    assert mean_above(np.full(5, -3.0), -3.0, 0.1, 0.95) == -3.0


@pytest.mark.parametrize("p", [0.02, 0.3, 0.9])
def test_chernoff_bounds_the_mean_of_coins(p):
    rng = np.random.RandomState(2)
    averages = rng.binomial(500, p, size=2000) / 500
    bounds = np.array([bounded_mean_above(a * 7.0, 500, 7.0, 1 - ALPHA) for a in averages])
    failures = int((bounds > p * 7.0).sum())
    assert 0 < failures <= too_many(2000)
    assert (np.diff(bounds[np.argsort(averages)]) >= 0).all()
    assert bounded_mean_above(0.0, 500, 7.0, 0.95) == 0.0
    assert bounded_mean_above(7.0, 500, 7.0, 0.95) == pytest.approx(7.0 * 0.05 ** (1 / 500))


def test_the_product_of_factors_passes_its_limit_in_truth():
    rng = np.random.RandomState(7)
    for confidence in (0.5, 0.9, 0.95, 0.999):
        for _ in range(25):
            values = rng.lognormal(size=40)
            bet = float(rng.uniform(0.02, 0.3))
            found = mean_above(values, 0.0, bet, confidence)
            product = math.prod(
                1 + Fraction(bet) * (Fraction(value) - Fraction(found)) for value in values.tolist()
            )
            assert found == 0.0 or product >= 1 / (1 - Fraction(confidence))


def test_the_divergence_passes_its_limit_in_truth():
    rng = np.random.RandomState(8)
    with decimal.localcontext(prec=60):
        for confidence in (0.5, 0.9, 0.95, 0.999):
            goal = -(1 - Decimal(confidence)).ln()
            for _ in range(50):
                count, cap = int(rng.randint(10, 10_000)), float(rng.uniform(0.5, 5.0))
                average = float(rng.uniform(0.05, 0.95)) * cap
                found = bounded_mean_above(average, count, cap, confidence)
                q, p = Decimal(average) / Decimal(cap), Decimal(found) / Decimal(cap)
                divergence = q * (q / p).ln() + (1 - q) * ((1 - q) / (1 - p)).ln()
                assert 0 < found < average
                assert count * divergence >= goal


def test_no_row_is_drawn_more_often_than_the_excess_says():
    rng = np.random.RandomState(9)
    for _ in range(50):
        weights = 10.0 ** rng.uniform(-6, 6, size=7)
        sampler = Sampler(7, weights, rng)
        total = sum(map(Fraction, weights.tolist()))
        masses = list(map(int, sampler._masses))
        for mass, weight in zip(masses, weights.tolist(), strict=True):
            share = Fraction(mass, sum(masses))
            assert share <= (1 + Fraction(sampler.excess)) * Fraction(weight) / total


@pytest.mark.parametrize("way", [sampled_rows, sampled_problems])
def test_the_excess_is_taken_off(way, monkeypatch):
    X, weights = population("skewed", np.random.RandomState(3))
    size = {"n_rows": 150} if way is sampled_rows else {"n_points": 100, "n_samples": 2}

    def value(excess):
        class Careless(Sampler):
            """May draw a row this much too often."""

            def __init__(self, *args):
                super().__init__(*args)
                self.excess = excess

        monkeypatch.setattr(MODULE, "Sampler", Careless)
        return way(SampledPoints(X, weights, None, drawing(0, confidence=0.9)), 3, **size)

    plain = value(0.0)
    # In the sum over rows the clusters' prices come off afterwards.
    assert 0 <= value(1.0) <= 0.5 * plain
    assert plain > 0


def test_the_sum_over_rows_is_rounded_down(monkeypatch):
    X, weights = population("skewed", np.random.RandomState(3))
    seen = {}

    def plan(*args, original=MODULE._plan):
        seen["plan"] = original(*args)
        return seen["plan"]

    def mean(values, lowest, bet, confidence):
        assert lowest <= values.min()
        assert confidence == 0.9
        seen["values"], seen["mean"] = values, (1 - 1e-6) * float(values.mean())
        return seen["mean"]

    monkeypatch.setattr(MODULE, "_plan", plan)
    monkeypatch.setattr(MODULE, "mean_above", mean)
    total = sum(map(Fraction, weights.tolist()))
    for seed in range(5):
        seen.clear()
        drawn = SampledPoints(X, weights, None, drawing(seed, confidence=0.9))
        value = sampled_rows(drawn, 3, n_rows=150)
        assert seen.keys() == {"plan", "values", "mean"}
        largest_a = Fraction(seen["plan"].largest_a)
        error = (len(X) + 16) * largest_a + 16 * Fraction(float(np.abs(seen["values"]).max()))
        paid = total * (Fraction(seen["mean"]) - UNIT * error)
        assert 0 < Fraction(value) <= paid - 3 * Fraction(seen["plan"].price)


def test_the_average_of_small_problems_is_rounded_down(monkeypatch):
    monkeypatch.setattr(MODULE, "bounded_mean_above", lambda average, *_: average)
    monkeypatch.setattr(MODULE, "_cap", lambda *_: 1.0)
    rng = np.random.RandomState(10)
    for _ in range(200):
        weights = rng.uniform(0.5, 2.0, size=9)
        found = rng.uniform(1.0, 2.0, size=3).tolist()
        bounds = iter(found)

        def bound(*_, bounds=bounds, **__):
            return LowerBound(next(bounds), "given", 1.0, 0.0)

        drawn = SampledPoints(np.arange(9.0)[:, None], weights, None, drawing(rng, confidence=0.9))
        value = sampled_problems(drawn, 2, bound, n_points=7, n_samples=3)
        exact = sum(map(Fraction, weights.tolist())) * sum(map(Fraction, found)) / 21
        assert exact * (1 - Fraction(1, 10**14)) <= Fraction(value) <= exact


def test_draws_follow_the_weights():
    weights = np.array([1.0, 0.0, 5.0, 1e-3, 2.0])
    sampler = Sampler(5, weights, np.random.RandomState(0))
    counts = np.bincount(sampler.draw(100_000), minlength=5)
    assert counts[1] == 0
    assert counts / 100_000 == pytest.approx(weights / weights.sum(), abs=0.01)
    assert sampler.mean(np.arange(5.0)) == pytest.approx(weights @ np.arange(5.0) / weights.sum())
    assert 0 <= sampler.excess < 1e-9
    assert len(np.unique(Sampler(50, None, np.random.RandomState(0)).distinct(50))) == 50


def test_distinct_rows_follow_the_weights():
    weights = np.array([1.0, 1.0, 1.0, 1e9])
    assert (Sampler(4, weights, np.random.RandomState(0)).distinct(4) == 3).all()


def population(name, rng, places=(0.0, 1000.0, 5000.0)):
    """Three clear clusters on a line, where the neighbours bound is tight, so that it can fail."""
    centers = np.repeat(places, [300, 150, 50])
    noise = {
        "normal": lambda: rng.normal(size=500),
        "skewed": lambda: rng.exponential(size=500) ** 2,
        "heavy": lambda: rng.standard_t(2.5, size=500),
    }[name]()
    weights = None if name == "normal" else rng.uniform(0.1, 3.0, size=500)
    return (centers + noise)[:, None], weights


NEAR = (0.0, 10.0, 30.0)


def relaxed(X, n_clusters, *, cap, n_threads):
    """The semidefinite bound of a sample of `population`, which is tight after few steps."""
    return capped(X, n_clusters, cap, centers=np.array(NEAR)[:, None], steps=20)


def test_the_semidefinite_bound_of_a_sample_is_tight():
    """So that a confidence that is too small would be seen."""
    X = population("normal", np.random.RandomState(3), NEAR)[0]
    drawn = X[np.random.RandomState(0).permutation(500)[:50]]
    best = one_dimensional(drawn, 3, None).value
    assert 0.97 * best < relaxed(drawn, 3, cap=100.0, n_threads=1).value <= best * (1 + 1e-9)


@pytest.mark.parametrize("name", ["normal", "skewed", "heavy"])
@pytest.mark.parametrize("way", ["rows", "problems", "relaxed"])
def test_holds_as_often_as_it_says(way, name):
    places = NEAR if way == "relaxed" else (0.0, 1000.0, 5000.0)
    X, weights = population(name, np.random.RandomState(3), places)
    best = one_dimensional(X, 3, weights).value
    runs, values = 40, []
    for run in range(runs):
        drawn = SampledPoints(X, weights, None, drawing(run, confidence=1 - ALPHA))
        if way == "rows":
            values.append(sampled_rows(drawn, 3, n_rows=150))
        elif way == "relaxed":
            values.append(sampled_problems(drawn, 3, relaxed, n_points=50, n_samples=4))
        else:
            values.append(sampled_problems(drawn, 3, n_points=100, n_samples=2))
        assert drawn.confidence == 1 - ALPHA
    assert sum(value > best * (1 + 1e-9) for value in values) <= too_many(runs)
    least = {"normal": 0.5, "skewed": 0.1, "heavy": 0.05}[name] if way == "rows" else 0.1
    assert np.median(values) > least * best


def test_trimmed_samples_hold():
    rng = np.random.RandomState(4)
    X = np.concatenate([rng.normal(size=(400, 2)), rng.normal(size=(400, 2)) + 30.0])
    X = np.concatenate([X, rng.uniform(-1e3, 1e3, size=(40, 2))])
    full = neighbours(X, 2, mass=800.0).value
    drawn = SampledPoints(X, None, 800.0, drawing(0))
    rows = sampled_rows(drawn, 2, n_rows=400)
    problems = sampled_problems(drawn, 2, n_points=400)
    # The best that keeps the 800 leaves their own scatter, which no bound may exceed.
    kept = sum(((part - part.mean(axis=0)) ** 2).sum() for part in (X[:400], X[400:800]))
    assert 0.5 * kept < rows <= kept
    assert 0 < problems <= kept
    assert full <= kept


def test_the_state_decides():
    X, weights = population("skewed", np.random.RandomState(5))

    def by_neighbours(X, n_clusters, *given):
        return LowerBound(sampled_problems(SampledPoints(X, *given), n_clusters), "", 0.95, 0.0)

    for bound in (subsampled, by_neighbours):
        first, second, third = (bound(X, 3, weights, None, drawing(seed)) for seed in (0, 0, 1))
        assert first.value == second.value
        assert first.value != third.value
        assert first.confidence == 0.95


def test_the_bound_of_a_sample_is_a_parameter():
    X, _ = population("normal", np.random.RandomState(6))
    calls = []

    def counted(sample, n_clusters, *, cap, n_threads):
        calls.append((sample.shape, n_clusters, cap))
        return LowerBound(1.0, "counted", 1.0, 0.0)

    drawn = SampledPoints(X, None, None, drawing(0, confidence=0.9))
    value = sampled_problems(drawn, 3, counted, n_points=50, n_samples=3)
    assert [call[:2] for call in calls] == [((50, 1), 3)] * 3
    cap = calls[0][2]
    expected = 500 * bounded_mean_above(3.0 / 150, 150, cap, 0.9)
    assert value == pytest.approx(expected)


def test_two_ways_share_the_probability_of_failure(monkeypatch):
    X = np.random.RandomState(0).normal(size=(300, 5))
    asked = []

    def answer(value):
        def bound(points, n_clusters, *given):
            asked.append((points.confidence, given[1:]))
            return value

        return bound

    monkeypatch.setattr(MODULE, "sampled_rows", answer(3.0))
    monkeypatch.setattr(MODULE, "sampled_problems", answer(7.0))
    monkeypatch.setattr(MODULE, "_MANY_POINTS", 300)
    named = replace(drawing(0, confidence=0.9), named=True, seconds=60.0)
    bound = subsampled(X, 2, None, None, named, n_rows=50)
    assert (bound.value, bound.confidence) == (7.0, 0.9)
    assert [confidence for confidence, _ in asked] == [0.95, 0.95]
    # The number and the size of the samples are fixed by the time that is given.
    assert asked[1][1] == (500, 100)
    asked.clear()
    assert subsampled(X, 2, None, None, drawing(0, confidence=0.9), n_rows=50).value == 3.0
    assert [confidence for confidence, _ in asked] == [0.9]


def test_many_points_are_bounded_by_relaxed_samples():
    """Overlapping clusters in eight columns, where neighbours are far from the optimum."""
    rng = np.random.RandomState(0)
    centers = 0.8 * rng.normal(size=(4, 8))
    X = centers[rng.randint(4, size=40_000)] + rng.normal(size=(40_000, 8))
    reached = KMeans(4, n_init=3, random_state=0, bound=None).fit(X).inertia_
    by_rows, by_both = (
        subsampled(X, 4, None, None, replace(drawing(0), named=named, seconds=8.0), n_rows=300)
        for named in (False, True)
    )
    assert by_rows.value < 0.8 * reached
    assert 0.87 * reached < by_both.value <= reached


def test_one_place_gives_zero():
    X = np.ones((400, 2))
    drawn = SampledPoints(X, None, None, drawing(0))
    assert sampled_rows(drawn, 2, n_rows=50) == 0.0
    assert sampled_problems(drawn, 2, n_points=50) == 0.0
