"""Parameters are checked as scikit-learn does, and plain values not again for every fit."""

from __future__ import annotations

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from sklearn.utils._param_validation import make_constraint, validate_parameter_constraints

_PLAIN = frozenset({bool, int, float, str, type(None)})
"""What a value of these types is never changes, and so neither does whether it may be one."""
_MOST = 1024


class _Known(NamedTuple):
    """What is known of a class of estimators."""

    constraints: dict[str, Any]
    """As the class has them."""
    tests: dict[str, list[Any]]
    """As scikit-learn tests values by them."""
    passed: set[tuple[str, type, Any]]
    """Plain values of parameters that met them."""


_known: WeakKeyDictionary[type, _Known] = WeakKeyDictionary()


def validate(estimator: Any) -> None:
    """Refuse parameters that do not meet the constraints of the estimator, in scikit-learn's words.

    It takes scikit-learn longer than some fits take. Arrays, callables and generators can change:
    those are looked at each time.
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
        # True and 1 are equal, but need not both do: the type belongs to the value.
        if plain and (name, type(value), value) in passed:
            continue
        if not any(test.is_satisfied_by(value) for test in tests_of_it):
            validate_parameter_constraints(constraints, {name: value}, caller_name=kind.__name__)
        if plain:
            if len(passed) >= _MOST:
                passed.clear()
            passed.add((name, type(value), value))
