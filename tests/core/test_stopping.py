"""Rules, tolerances and the guaranteed number of steps."""

import math

import numpy as np
import pytest
import sklearn.cluster
from hypothesis import given
from hypothesis import strategies as st

from wolfmeans import KMeans, Record, Status
from wolfmeans.core.stopping import (
    DecreaseRule,
    GapRule,
    ShiftRule,
    StationaryRule,
    make_rule,
    steps_until_spent,
)


def record(gap=1.0, movement=1.0, shift=1.0, stationary=False):
    return Record(t=0, value=9.0, gap=gap, movement=movement, stationary=stationary, shift=shift)


def test_each_rule_looks_at_its_own_number():
    assert DecreaseRule(2.0).met(record()) is Status.DECREASE
    assert DecreaseRule(1.9).met(record()) is None
    assert GapRule(1.0).met(record(movement=5.0)) is Status.GAP
    assert GapRule(0.9).met(record(movement=0.0)) is None
    assert ShiftRule(1.0).met(record(gap=9.0)) is Status.SHIFT
    assert ShiftRule(0.9).met(record(gap=0.0)) is None
    assert StationaryRule(100.0).met(record(gap=0.0, movement=0.0, shift=0.0)) is None


@pytest.mark.parametrize("name", ["decrease", "gap", "shift", "stationary"])
def test_a_fixed_point_ends_every_rule(name):
    assert make_rule(name, 0.0).met(record(stationary=True)) is Status.STATIONARY
    assert make_rule(name, 0.0).name == name


def test_a_shift_within_the_tolerance_ends_before_stationarity():
    assert ShiftRule(1.0).met(record(stationary=True)) is Status.SHIFT
    assert ShiftRule(0.5).met(record(stationary=True)) is Status.STATIONARY


def test_names_and_tolerances_are_checked():
    with pytest.raises(ValueError, match=r"stop must be one of .*'soon'"):
        make_rule("soon")
    for tol in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="tol"):
            make_rule("gap", tol)


def test_shift_needs_centers():
    with pytest.raises(ValueError, match="centers"):
        ShiftRule(1.0).met(Record(t=0, value=1.0, gap=1.0, movement=0.0, stationary=False))


@given(st.floats(1e-3, 1e9), st.floats(1e-12, 1e3))
def test_no_run_of_costlier_steps_is_longer_than_guaranteed(value, cost):
    steps = steps_until_spent(value, 0.0, cost)
    # A step that does not stop costs more than `cost`; `steps` of them do not fit into `value`.
    assert steps >= 1
    assert steps * cost >= value * (1 - 1e-12)
    assert steps == 1 or (steps - 1) * cost <= value * (1 + 1e-12)


def test_rounding_of_value_and_cost_is_no_step_more():
    for value in (7.7, 0.3, 123.456, 1e-5):
        for tol in (1e-6, 1e-4, 1e-3):
            assert steps_until_spent(value, 0.0, tol * value) == round(1 / tol)
    # What is more than rounding is a step more, and a step is never left out.
    assert steps_until_spent(3.0 * (1 + 1e-14), 0.0, 1.0) == 4
    assert steps_until_spent(2.0 + 2.0**-51, 0.0, 1.0) == 2
    assert steps_until_spent(0.1, 0.0, 1.0) == 1


def test_a_budget_that_is_spent_allows_the_last_step():
    assert steps_until_spent(1.0, 1.0, 0.0) == 1
    assert steps_until_spent(1.0, 2.0, 0.5) == 1
    assert steps_until_spent(1.0, 0.0, -0.5) is None
    assert steps_until_spent(1e16 + 2.0, 1e16, 0.5) == 4


def test_guarantees_of_the_rules():
    assert DecreaseRule(0.5).guarantee(10.0, 0.0) == 20
    assert GapRule(0.5).guarantee(10.0, 5.0) == 10
    assert GapRule(0.5).guarantee(10.0, None) is None
    assert GapRule(0.0).guarantee(10.0, 0.0) is None
    assert GapRule(0.0).guarantee(0.0, 0.0) == 1
    assert StationaryRule(1.0).guarantee(10.0, 0.0) is None
    assert ShiftRule(0.5, smallest_weight=0.25).guarantee(10.0, 0.0) == 80


def test_shift_promises_nothing_within_the_spacing_of_its_numbers():
    # 6 coordinates of spacing 0.1: a shift of 6 * 0.1^2 may be rounding alone.
    assert ShiftRule(0.05, spacing=0.1, n_coordinates=6).guarantee(10.0, 0.0) is None
    coarse = ShiftRule(0.5, spacing=0.1, n_coordinates=6).guarantee(10.0, 0.0)
    assert coarse is not None
    assert coarse > 20


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shift_costs_what_the_guarantee_counts_on(dtype):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(300, 2)) + 300.0).astype(dtype)
    weights = rng.uniform(0.5, 2.0, size=300)
    km = KMeans(6, stop="stationary", init="random", n_init=1, random_state=1)
    trace = km.fit(X, sample_weight=weights).trace_
    spacing = float(np.spacing(dtype(np.abs(X).max())))
    for here, there in zip(trace, list(trace)[1:], strict=False):
        shift = there.shift
        floor = weights.min() * (shift - spacing * math.sqrt(12 * shift))
        assert here.movement >= floor * (1 - 1e-9)


def test_tolerance_scales():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(100, 3)), rng.uniform(0, 2, size=100)

    def tol(**options):
        km = KMeans(4, tol=0.5, random_state=0, **options)
        return km.fit(X, sample_weight=weights).certificate_.tol

    assert tol(tol_scale="absolute") == 0.5
    first = KMeans(4, random_state=0).fit(X, sample_weight=weights)
    assert tol(tol_scale="initial") == 0.5 * first.certificate_.initial_sse
    mean = np.average(X, axis=0, weights=weights)
    scatter = float(np.sum(weights[:, None] * (X - mean) ** 2))
    assert tol(tol_scale="total") == pytest.approx(0.5 * scatter, rel=1e-12)
    variance = float(np.mean(np.var(X, axis=0)))
    assert tol(stop="shift") == pytest.approx(0.5 * variance, rel=1e-12)
    assert tol(stop="shift", tol_scale="absolute") == 0.5
    assert tol(stop="decrease") == tol(tol_scale="initial")


def test_a_tolerance_alone_is_scikit_learns():
    X = np.random.default_rng(0).normal(size=(2000, 3))
    for tol in (1e-1, 1e-2, 1e-4, 0.0):
        ours = KMeans(12, init=X[:12], n_init=1, tol=tol).fit(X)
        theirs = sklearn.cluster.KMeans(12, init=X[:12], n_init=1, tol=tol).fit(X)
        assert ours.n_iter_ == theirs.n_iter_
        assert ours.certificate_.stop == "shift"


def test_each_rule_has_a_tolerance_of_its_own():
    X = np.random.default_rng(0).normal(size=(200, 3))

    def stopped(**options):
        certificate = KMeans(4, random_state=0, **options).fit(X).certificate_
        unit = certificate.initial_sse if certificate.stop != "shift" else X.var(axis=0).mean()
        return certificate.stop, pytest.approx(certificate.tol / unit)

    assert stopped() == ("decrease", 1e-6)
    assert stopped(stop="gap") == ("gap", 1e-6)
    assert stopped(stop="shift") == ("shift", 1e-4)
    assert stopped(tol=1e-3, tol_scale="initial") == ("decrease", 1e-3)
    assert stopped(tol=1e-3, stop="decrease") == ("decrease", 1e-3)


def test_max_iter_none_stands_for_the_guarantee():
    X = np.random.default_rng(2).normal(size=(400, 2))
    options = {"n_clusters": 9, "tol": 0.01, "init": "random", "n_init": 1, "random_state": 3}
    km = KMeans(max_iter=None, stop="decrease", **options).fit(X)
    assert km.certificate_.status.converged
    assert km.certificate_.iterations <= km.certificate_.max_iterations <= 100
