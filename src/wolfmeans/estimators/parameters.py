"""Validation of parameters by scikit-learn's rules, with a cache; the `certify` attribute."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, Concatenate, Generic, NamedTuple, ParamSpec, TypeVar, cast, overload
from weakref import WeakKeyDictionary

from sklearn.utils._param_validation import make_constraint, validate_parameter_constraints

P = ParamSpec("P")
R = TypeVar("R")
_PLAIN = frozenset({bool, int, float, str, type(None)})
"""Types whose values never change, so that a check of them can be cached."""
_MOST = 1024


class _Known(NamedTuple):
    """The constraints of a class of estimators, and values that met them."""

    constraints: dict[str, Any]
    """The class attribute they were made from."""
    tests: dict[str, list[Any]]
    """scikit-learn's test objects for each parameter."""
    passed: set[tuple[str, type, Any]]
    """(name, type, value) of plain values that passed."""


_known: WeakKeyDictionary[type, _Known] = WeakKeyDictionary()


def validate(estimator: Any) -> None:
    """Refuse parameters that do not meet the constraints of the estimator, in scikit-learn's words.

    scikit-learn's check takes longer than some fits, so plain values that passed are cached.
    Arrays, callables and generators can change and are checked each time.
    """
    kind, constraints = type(estimator), estimator._parameter_constraints
    known = _known.get(kind)
    if known is None or known.constraints is not constraints:
        tests = {
            name: list(map(make_constraint, some))
            for name, some in constraints.items()
            if some != "no_validation"
        }
        known = _known[kind] = _Known(constraints, tests, set())
    passed, given = known.passed, vars(estimator)
    for name, tests_of_it in known.tests.items():
        value = given[name]
        plain = type(value) in _PLAIN
        # True == 1, but only one of them may be valid: the type belongs to the key.
        if plain and (name, type(value), value) in passed:
            continue
        if not any(test.is_satisfied_by(value) for test in tests_of_it):
            validate_parameter_constraints(constraints, {name: value}, caller_name=kind.__name__)
        if plain:
            if len(passed) >= _MOST:
                passed.clear()
            passed.add((name, type(value), value))


class ParameterAndMethod(Generic[P, R]):
    """`certify`, which is a parameter and a method: setting it sets the parameter.

    `KMeans(certify="spectral")` says which lower bound a fit computes; `km.certify(X)` computes the
    strongest one later. Reading the attribute gives the method. The parameter is read where
    scikit-learn keeps parameters: `km.get_params()["certify"]`.

    Examples
    --------
    >>> class Model:
    ...     @ParameterAndMethod
    ...     def certify(self):
    ...         return f"the parameter is {vars(self)['certify']}"
    >>> model = Model()
    >>> model.certify = "auto"
    >>> model.certify()
    'the parameter is auto'
    """

    def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self._name] = value

    @overload
    def __get__(
        self, instance: None, owner: type | None = None
    ) -> Callable[Concatenate[Any, P], R]: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Callable[P, R]: ...

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self._method
        return cast("Callable[P, R]", MethodType(self._method, instance))
