"""A test that cannot fail is worth nothing: each one here fails on a broken variant of the package.

Which variant a test must not survive is said at the test (`broken.fails_when`).
"""

import importlib
import inspect
from pathlib import Path

import broken
import pytest

SUITE = [
    importlib.import_module(path.stem)
    for path in sorted(Path(__file__).parent.glob("test_*.py"))
    if path.stem != "test_each_can_fail"
]


def _said(value):
    """Say an argument: a function by its name, for its address differs between processes."""
    return getattr(value, "__name__", str(value))


def _name(registered):
    given = ",".join(_said(value) for value in registered.arguments.values())
    name = f"{registered.test.__name__}[{given}]" if given else registered.test.__name__
    return f"{name}-{registered.variant}"


def _failed(error, raises):
    """Whether a test failed as it should: warnings are errors in this suite."""
    if isinstance(error, BaseExceptionGroup):
        return all(_failed(inner, raises) for inner in error.exceptions)
    return isinstance(error, (AssertionError, pytest.fail.Exception, Warning, *raises))


def _with_marks(registered):
    """Skip it where the test itself is skipped."""
    marks = [mark for mark in getattr(registered.test, "pytestmark", ()) if mark.name == "skipif"]
    return pytest.param(registered, marks=marks, id=_name(registered))


@pytest.mark.parametrize("registered", [_with_marks(one) for one in broken.REGISTERED])
def test_each_test_can_fail(registered, request):
    arguments = dict(registered.arguments)
    for name in inspect.signature(registered.test).parameters:
        if name not in arguments and name in ("tmp_path", "monkeypatch"):
            arguments[name] = request.getfixturevalue(name)
    try:
        with broken.broken(registered.variant):
            registered.test(**arguments)
    except pytest.skip.Exception:
        raise
    except (Exception, pytest.fail.Exception) as error:
        if not _failed(error, registered.raises):
            raise
    else:
        pytest.fail(f"passes although {registered.variant}")


def test_every_test_names_what_breaks_it():
    """No test of this folder is without a broken variant."""
    named = {registered.test.__name__ for registered in broken.REGISTERED}
    for module in SUITE:
        for name, member in vars(module).items():
            if name.startswith("test_") and callable(member):
                assert name in named, f"{module.__name__}.{name} names no variant that it fails on"


def test_every_variant_is_used():
    used = {registered.variant for registered in broken.REGISTERED}
    assert used == set(broken.VARIANTS)
