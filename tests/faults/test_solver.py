"""The run: every way to end one, and what is left when it does not end well."""

import pytest
from broken import fails_when
from engines import ALL_ENGINES, ENGINES
from samples import assert_true, bits, cloud
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
    model = KMeans(5, init=X[:5], engine=engine, max_iter=1, bound=None)
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
    model = KMeans(4, init=X[:4], engine=engine, stop="stationary", bound=None).fit(X)
    again = KMeans(
        4, init=model.cluster_centers_, engine=engine, stop="stationary", bound=None
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


@fails_when("one_step_too_many", engine="cpu")
@fails_when("time_is_looked_at_before_the_first_step", engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_time_limit_ends_a_fit_that_is_under_way(engine):
    # Steps that take a while each, and native runs of many steps: a clock is looked at in both.
    X = cloud(20_000 if engine == "cpu" else 2000)
    settings = {"init": X[:200], "engine": engine, "n_threads": 1, "max_iter": None, "tol": 0.0}
    model = KMeans(200, stop="stationary", bound=None, time_limit=0.002, **settings)
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model.fit(X)
    assert model.certificate_.status is Status.TIME_LIMIT
    assert not model.certificate_.status.converged
    assert model.n_iter_ >= 1
    assert model.trace_.seconds[-1] >= 0.002
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
