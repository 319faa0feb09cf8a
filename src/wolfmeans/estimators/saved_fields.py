"""What a model file says, checked before anything is done with it: each field by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from wolfmeans.certificate.improvement import Effort, Polish
from wolfmeans.certificate.record import Certificate
from wolfmeans.core.solution import Record, Status, Trace
from wolfmeans.core.trimmed import parsed_share
from wolfmeans.inputs.preparation import Preparation

Made = TypeVar("Made")

# No sums of squares of float64 need a larger one: 2 * (1024 + 1074) and some weight.
_LARGEST_EXPONENT = 2200
_LARGEST_INT64 = 2**63 - 1
# A promised number of steps may be beyond all counting.
_LARGEST_PROMISE = 2**1024


def group(content: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a group of fields."""
    found = content.get(name)
    if not isinstance(found, dict):
        raise ValueError(f"its {name} is not a group of fields")
    return found


def _whole(low: int, high: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and low <= value <= high


def _number(value: Any) -> bool:
    """Whether a value is a number that float64 holds, or infinite, or none (NaN)."""
    return type(value) is float or (type(value) is int and abs(value) < _LARGEST_PROMISE)


def _at_least_0(value: Any) -> bool:
    return _number(value) and value >= 0


def _is_share(value: Any) -> bool:
    try:
        parsed_share(value)
    except ValueError:
        return False
    return True


_PLAIN: dict[str, tuple[Callable[[Any], bool], str]] = {
    "inertia_": (_at_least_0, "a number of at least 0"),
    "n_iter_": (_whole(1, _LARGEST_INT64), "a number of iterations"),
    "n_features_in_": (_whole(1, _LARGEST_INT64), "a number of columns"),
    "engine_": (lambda value: isinstance(value, str), "a name"),
    "_scale_exponent": (
        _whole(-_LARGEST_EXPONENT, _LARGEST_EXPONENT),
        f"a whole number from {-_LARGEST_EXPONENT} to {_LARGEST_EXPONENT}",
    ),
    # Infinite where nothing is trimmed.
    "radius_": (_at_least_0, "a number of at least 0"),
    "_threshold": (_at_least_0, "a number of at least 0"),
    "n_trimmed_": (_whole(0, _LARGEST_INT64), "a number of points"),
    "trimmed_mass_": (lambda v: _at_least_0(v) and math.isfinite(v), "a weight"),
    "_share": (_is_share, "a fraction from 0 to 1"),
}


def plain(attributes: dict[str, Any], name: str) -> Any:
    """Return a plain value that is what its name says."""
    if name not in attributes:
        raise ValueError(f"it has no {name}")
    value = attributes[name]
    fits, what = _PLAIN[name]
    if not fits(value):
        raise ValueError(f"its {name} is {_shown(value)}, not {what}")
    return value


def finite(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Return an array, refused where it is not finite."""
    if not np.isfinite(array).all():
        raise ValueError(f"its {name} is not finite everywhere")
    return array


def within(array: NDArray[Any], name: str, low: float, high: float) -> NDArray[Any]:
    """Return an array, refused where some value is not from `low` to `high`."""
    if not (array.size and array.min() >= low and array.max() <= high):
        raise ValueError(f"its {name} has no values, or some outside of {low} to {high}")
    return array


def certificate_from(content: dict[str, Any], n_clusters: int) -> Certificate:
    """Return the certificate, which can be put in words."""
    found = group(content, "certificate")
    known = {field.name for field in fields(Certificate)}
    values = {name: value for name, value in found.items() if name in known}
    name = found.get("status_name")
    if not isinstance(name, str) or name not in Status.__members__:
        raise ValueError(f"its certificate's status_name is {_shown(name)}, which is no ending")
    values["status"] = Status[name]
    notes = values.get("notes", [])
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise ValueError("its certificate's notes are not a list of texts")
    values["notes"] = tuple(notes)
    for part, kind in (("polish", Polish), ("effort", Effort)):
        if values.get(part) is not None:
            values[part] = _made(kind, values[part], f"certificate's {part}")
    certificate = _made(Certificate, values, "certificate")
    if certificate.n_clusters != n_clusters:
        raise ValueError(f"its certificate is about {certificate.n_clusters} clusters")
    if abs(certificate.unit_exponent) > 2 * _LARGEST_EXPONENT or certificate.unit_exponent % 2:
        raise ValueError("its certificate's unit_exponent is none that could be needed")
    for name in ("inertia", "gap", "decrease"):
        if math.isnan(getattr(certificate, name)):
            raise ValueError(f"its certificate's {name} is not a number")
    try:
        _ = certificate.rows(), certificate.verdict
    except (ArithmeticError, LookupError, ValueError) as error:
        raise ValueError("its certificate's numbers do not go together") from error
    return certificate


def trace_from(content: dict[str, Any]) -> Trace:
    """Return the trace, of one record at least."""
    found = group(content, "trace")
    records, bound = found.get("records"), found.get("lower_bound")
    if not isinstance(records, list) or not records:
        raise ValueError("its trace's records are not a list of records")
    if bound is None or not _number(bound):
        raise ValueError(f"its trace's lower_bound is {_shown(bound)}, not a number")
    made = (_made(Record, record, "trace's records") for record in records)
    return Trace(made, lower_bound=bound)


def preparation_from(
    content: dict[str, Any], n_features: int, names: NDArray[Any] | None
) -> Preparation | None:
    """Return what columns go through; None where it was not kept."""
    if content.get("preparation") is None:
        return None
    found = group(content, "preparation")
    columns = found.get("columns")
    if not isinstance(columns, list) or not all(isinstance(name, str) for name in columns):
        raise ValueError("its preparation's columns are not a list of names")
    # Both as arrays of texts, which do not keep zeros at the end.
    same = names is None or np.array_equal(np.array(columns, np.str_), names.astype(np.str_))
    if len(columns) != n_features or not same:
        raise ValueError("its preparation's columns are not those of its centers")
    center, scale = (_numbers(found, name, n_features) for name in ("center", "scale"))
    if (center is None) != (scale is None):
        raise ValueError("its preparation has one of center and scale only")
    if scale is not None and not (scale > 0).all():
        raise ValueError("its preparation's scale is not positive everywhere")
    return Preparation(tuple(columns), center, scale)


def _numbers(found: dict[str, Any], name: str, length: int) -> NDArray[np.float64] | None:
    values = found.get(name)
    if values is None:
        return None
    if not isinstance(values, list) or len(values) != length or not all(map(_number, values)):
        raise ValueError(f"its preparation's {name} is not a list of {length} numbers")
    return finite(np.array(values, dtype=np.float64), f"preparation's {name}")


def _made(kind: Callable[..., Made], values: Any, what: str) -> Made:
    """Make a record of a kind whose fields have the types that the kind gives them."""
    if not isinstance(values, dict):
        raise ValueError(f"its {what} is not a group of fields")
    known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    for name in values:
        if name not in known:
            raise ValueError(f"its {what} has a field {_shown(name)}, which is unknown")
    for name, field in known.items():
        if name in values:
            _check_type(values[name], str(field.type), f"{what}: {name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"its {what} has no {name}")
    return kind(**values)


def _check_type(value: Any, annotation: str, what: str) -> None:
    """Refuse a value that is of none of the types in an annotation; others are made, not read."""
    most = _LARGEST_PROMISE if what.endswith("max_iterations") else _LARGEST_INT64
    checks: dict[str, Callable[[Any], bool]] = {
        "float": _number,
        "int": _whole(-most, most),
        "bool": lambda v: isinstance(v, bool),
        "str": lambda v: isinstance(v, str),
        "None": lambda v: v is None,
    }
    kinds = annotation.split(" | ")
    if not any(checks[kind](value) if kind in checks else True for kind in kinds):
        raise ValueError(f"its {what} is {_shown(value)}, not {' or '.join(kinds)}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
