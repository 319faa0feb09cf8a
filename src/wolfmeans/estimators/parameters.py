"""Parameters are checked as scikit-learn does, and plain values not again for every fit."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

from sklearn.utils._param_validation import validate_parameter_constraints

_PLAIN = frozenset({bool, int, float, str, type(None)})
"""What a value of these types is never changes, and so neither does whether it may be one."""
_MOST = 1024

_Passed = tuple[dict[str, Any], set[tuple[str, type, Any]]]
_passed: WeakKeyDictionary[type, _Passed] = WeakKeyDictionary()
"""For each class its constraints, and which values of which parameters met them."""


def validate(estimator: Any) -> None:
    """Refuse parameters that do not meet the constraints of the estimator, in scikit-learn's words.

    It takes scikit-learn longer than some fits take. Arrays, callables and generators can change:
    those are looked at each time.
    """
    kind, constraints = type(estimator), estimator._parameter_constraints
    known = _passed.get(kind)
    if known is None or known[0] is not constraints:
        known = _passed[kind] = (constraints, set())
    passed, given = known[1], vars(estimator)
    # True and 1 are equal, but need not both do: the type belongs to the value.
    facts = [(name, type(given[name]), given[name]) for name in constraints]
    new = [fact for fact in facts if fact[1] not in _PLAIN or fact not in passed]
    validate_parameter_constraints(
        constraints, {name: value for name, _, value in new}, caller_name=kind.__name__
    )
    if len(passed) > _MOST:
        passed.clear()
    passed.update(fact for fact in new if fact[1] in _PLAIN)
