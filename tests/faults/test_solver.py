"""The run: every way to end one, and what is left when it does not end well."""

import os
import time

import numpy as np
import pytest
from broken import fails_when
from engines import ALL_ENGINES, ENGINES
from processes import Forked
from samples import assert_true, bits, cloud, quietly
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from wolfmeans import KMeans, Status, TrimmedKMeans

ESTIMATORS = {
    "KMeans": KMeans,
    "TrimmedKMeans": lambda k, **more: TrimmedKMeans(k, trim=5, **more),
}


@fails_when("stops_at_a_tolerance_of_its_own", engine="cpu", stop="decrease")
@fails_when("stops_at_a_tolerance_of_its_own", engine="reference", stop="gap")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("stop", ["decrease", "gap", "shift", "stationary"])
def test_a_tolerance_of_zero_ends_at_a_fixed_point(engine, stop):
    X = cloud(300)
    model = KMeans(8, init=X[:8], engine=engine, stop=stop, tol=0.0, max_iter=None).fit(X)
    assert model.certificate_.status.converged
    assert model.certificate_.gap == 0.0
    assert_true(model, X)
    # One more step from there gains nothing at all.
    again = KMeans(8, init=model.cluster_centers_, engine=engine, tol=0.0).fit(X)
    assert again.labels_.tolist() == model.labels_.tolist()
    assert again.inertia_ == model.inertia_


@fails_when("one_step_too_many", engine="cpu")
@fails_when("converged_whatever_happened", engine="reference")
@pytest.mark.parametrize("engine", ALL_ENGINES)
def test_one_iteration_is_one_iteration_and_no_convergence(engine):
    X = cloud(60)
    model = KMeans(5, init=X[:5], engine=engine, max_iter=1, certify=None)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X)
    assert model.certificate_.status is Status.MAX_ITER
    assert not model.certificate_.status.converged
    assert model.n_iter_ == 1
    assert_true(model, X)


@fails_when("init_jittered", engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_refit_from_the_solution_stays_there(engine):
    X = cloud(60, 2)
    model = KMeans(4, init=X[:4], engine=engine, stop="stationary", certify=None).fit(X)
    again = KMeans(
        4, init=model.cluster_centers_, engine=engine, stop="stationary", certify=None
    ).fit(X)
    assert again.n_iter_ <= 2
    assert again.cluster_centers_.tolist() == model.cluster_centers_.tolist()
    assert again.labels_.tolist() == model.labels_.tolist()
    assert again.inertia_ == model.inertia_


@fails_when("runs_remember", engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_refit_of_the_same_object_forgets_the_fit_before(engine):
    X, other = cloud(200), cloud(50, 7, seed=1)
    model = KMeans(5, random_state=0, engine=engine)
    first = bits(model.fit(X))
    model.fit(other)
    assert bits(model.fit(X)) == first


def _raising(record):
    if record.t == 1:
        raise KeyError("from the callback")


@fails_when("callback_unheard", engine="cpu", estimator="KMeans")
@fails_when("failed_fits_leave_something", engine="cpu", estimator="KMeans")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_raising_callback_leaves_the_estimator_unfitted(engine, estimator):
    X = cloud()
    model = ESTIMATORS[estimator](6, init=X[:6], engine=engine, callback=_raising)
    with pytest.raises(KeyError, match="from the callback"):
        model.fit(X)
    for method in ("predict", "transform", "score"):
        with pytest.raises(NotFittedError):
            getattr(model, method)(X)
    assert not [name for name in vars(model) if name.endswith("_")]


@fails_when("failed_fits_leave_something", engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_fit_that_fails_leaves_the_fit_before_whole(engine):
    X = cloud()
    model = KMeans(6, init=X[:6], engine=engine).fit(X)
    before = bits(model)
    model.set_params(callback=_raising, init=X[6:12])
    with pytest.raises(KeyError):
        model.fit(X)
    assert bits(model) == before
    assert model.predict(X).tolist() == model.labels_.tolist()


@fails_when("callback_unheard", engine="cpu", estimator="KMeans")
@fails_when("converged_whatever_happened", engine="cpu", estimator="KMeans")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_callback_that_asks_to_stop_is_heard_and_no_convergence(engine, estimator):
    X, seen = cloud(), []

    def second(record):
        seen.append(record.t)
        return record.t == 1

    model = ESTIMATORS[estimator](6, init=X[:6], engine=engine, callback=second, tol=0.0)
    with pytest.warns(ConvergenceWarning, match="callback"):
        model.fit(X)
    assert seen == [0, 1]
    assert model.certificate_.status is Status.CALLBACK
    assert not model.certificate_.status.converged
    if estimator == "KMeans":
        assert_true(model, X)


@fails_when("one_step_too_many", engine="cpu", estimator="KMeans")
@fails_when("converged_whatever_happened", engine="reference", estimator="KMeans")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_time_limit_ends_a_fit_and_is_no_convergence(engine, estimator):
    X = cloud()
    model = ESTIMATORS[estimator](6, init=X[:6], engine=engine, time_limit=0.0, tol=0.0)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model.fit(X)
    assert model.certificate_.status is Status.TIME_LIMIT
    assert model.n_iter_ == 1
    if estimator == "KMeans":
        assert_true(model, X)


# --- Ctrl-C ----------------------------------------------------------------------------------

# Each of these takes many times as long as `PROMPT` when nobody interrupts it: the call, and the
# function during which Ctrl-C is pressed.
LONG = {
    "steps": (
        "KMeans(4000, init=X[:4000], stop='stationary', max_iter=None, **S)",
        "wolfmeans.engines.cpu.NativePoints.advance",
    ),
    "steps on threads": (
        "KMeans(4000, init=X[:4000], stop='stationary', max_iter=None, **(S | {'n_threads': 2}))",
        "wolfmeans.engines.cpu.NativePoints.advance",
    ),
    "trimmed steps": (
        "TrimmedKMeans(4000, alpha=0.1, init=X[:4000], stop='stationary', max_iter=None, **S)",
        "wolfmeans.engines.cpu.NativeTrimmedPoints.assign",
    ),
    "one step": (
        "KMeans(150_000, init=X, max_iter=1, **S)",
        "wolfmeans.engines.cpu.NativePoints.assign",
    ),
    "seeding": ("KMeans(20_000, **S)", "wolfmeans.engines.cpu.NativePoints.spread_rows"),
    "starts": (
        "KMeans(1000, init='random', n_init=100, stop='stationary', max_iter=None, **S)",
        "wolfmeans.problems.kmeans.advance_together",
    ),
    "polish": (
        "KMeans(2000, init=X[:2000], max_iter=2, polish='swap', **S)",
        "wolfmeans.fitting.polish",
    ),
    "a lower bound": (
        "KMeans(100, init=X[:100], **(S | {'certify': 'neighbours', 'max_iter': 2}))",
        "wolfmeans.fitting.best_bound",
    ),
}
POINTS = {"starts": 20_000, "a lower bound": 60_000}
PROMPT = 4.0

INTERRUPTED = """
import importlib, sys, warnings
import numpy as np
from wolfmeans import KMeans, TrimmedKMeans
warnings.simplefilter("ignore")
S = {"engine": "cpu", "n_threads": 1, "certify": None, "random_state": 0}
_, expression, during, n = sys.argv
X = np.random.default_rng(0).normal(size=(int(n), 12))
home, name = during.rsplit(".", 1)
try:
    home = importlib.import_module(home)
except ModuleNotFoundError:
    module, kind = home.rsplit(".", 1)
    home = getattr(importlib.import_module(module), kind)
inner = getattr(home, name)
def telling(*arguments, **options):
    print("begin", flush=True)
    setattr(home, name, inner)
    return inner(*arguments, **options)
setattr(home, name, telling)
model = eval(expression)
try:
    model.fit(X)
except KeyboardInterrupt:
    print("interrupted", *(name for name in vars(model) if name.endswith("_")))
"""


def _interrupt(what):
    with Forked(INTERRUPTED, *LONG[what], POINTS.get(what, 150_000)) as child:
        assert child.output.readline() == "begin\n"
        time.sleep(0.3)
        child.interrupt()
        return child.said(PROMPT)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
@fails_when("interrupts_heard_at_the_end", what="steps")
@fails_when("interrupted_fits_are_kept", what="steps")
@pytest.mark.parametrize("what", LONG)
def test_ctrl_c_within_a_native_call_is_heard_and_leaves_the_estimator_unfitted(what):
    assert _interrupt(what).split() == ["interrupted"]


@fails_when("interrupted_fits_are_kept")
def test_ctrl_c_from_within_a_fit_leaves_the_estimator_unfitted():
    X = cloud()

    def press(record):
        raise KeyboardInterrupt

    model = KMeans(6, init=X[:6], callback=press)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    assert not [name for name in vars(model) if name.endswith("_")]
    assert_true(quietly(model.set_params(callback=None), X), X)
    assert np.isfinite(model.inertia_)
