"""Parameters of estimators: refused in scikit-learn's words, plain values tested once."""

import math

import numpy as np
import pytest
from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints

from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.inputs import validation

X = np.arange(12.0).reshape(6, 2)
QUICK = {"n_clusters": 2, "random_state": 0, "bound": None}


@pytest.fixture(autouse=True)
def _nothing_known():
    validation._constraints.clear()


def refusal_by_sklearn(model):
    """Return what scikit-learn itself says of the parameters."""
    values = {name: vars(model)[name] for name in model._parameter_constraints}
    with pytest.raises(InvalidParameterError) as refused:
        validate_parameter_constraints(
            model._parameter_constraints, values, caller_name=type(model).__name__
        )
    return str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_clusters", 0),
        ("n_clusters", 2.0),
        ("init", "best"),
        ("init", 3),
        ("tol", -1.0),
        ("tol", math.nan),
        ("copy_x", 1),
        ("random_state", "me"),
        ("engine", "tpu"),
        ("callback", 1),
        ("checkpoint", 1),
    ],
)
def test_values_are_refused_as_scikit_learn_does_each_time(name, value):
    KMeans(**QUICK).fit(X)  # all others are known then, such as copy_x=True
    model = KMeans(**{**QUICK, name: value})
    said = refusal_by_sklearn(model)
    for _ in range(3):
        with pytest.raises(InvalidParameterError) as refused:
            model.fit(X)
        assert str(refused.value) == said


def test_the_first_of_several_is_named():
    model = KMeans(0, tol=-1.0, engine="tpu")
    with pytest.raises(InvalidParameterError) as refused:
        model.fit(X)
    assert str(refused.value) == refusal_by_sklearn(model)


def test_plain_values_are_tested_once_and_all_others_each_time(monkeypatch):
    tested = []

    class Told:
        def __init__(self, constraint):
            self._constraint = constraint

        def is_satisfied_by(self, value):
            tested.append(value)
            return self._constraint.is_satisfied_by(value)

    make = validation.make_constraint
    monkeypatch.setattr(validation, "make_constraint", lambda constraint: Told(make(constraint)))
    validation._constraints.clear()
    init, tol = X[:2], np.float64(1e-3)
    for number in range(3):
        tested.clear()
        KMeans(**QUICK, init=init, n_init=1, tol=tol).fit(X)
        kinds = {type(value) for value in tested}
        assert kinds == ({np.ndarray, np.float64} if number else kinds | {str, int})


def test_a_class_has_its_own_constraints():
    KMeans(**QUICK, stop="shift").fit(X)
    narrow = {**KMeans._parameter_constraints, "stop": [None]}
    other = type("Narrow", (KMeans,), {"_parameter_constraints": narrow})
    with pytest.raises(InvalidParameterError, match="'stop' parameter of Narrow"):
        other(**QUICK, stop="shift").fit(X)
    other._parameter_constraints = KMeans._parameter_constraints
    other(**QUICK, stop="shift").fit(X)
    TrimmedKMeans(**QUICK).fit(X)


def test_only_so_many_values_are_remembered(monkeypatch):
    monkeypatch.setattr(validation, "_MOST_CACHED", 40)
    for number in range(60):
        KMeans(**QUICK, tol=1e-3 + number).fit(X)
    assert len(validation._constraints[KMeans].passed) <= 40


def test_parameters_that_nobody_validates():
    class Other(KMeans):
        _parameter_constraints = {**KMeans._parameter_constraints, "verbose": "no_validation"}  # noqa: RUF012

    X = np.arange(6.0).reshape(-1, 1)
    assert Other(2, verbose=0, init=X[:2]).fit(X).n_iter_ > 0
