"""Deliberately broken variants of the package, by name: each breaks one thing.

A test says with `fails_when` which variant it must not survive; `test_each_can_fail.py` runs it
against that variant and asserts that it fails. A variant is in force inside a `with`; processes
that a test starts break the same thing, because its name is in the environment
(`enter_from_environment`).
"""

from broken import arithmetic, claims, inputs, runs, security, system
from broken.registry import REGISTERED, VARIANTS, broken, enter_from_environment, fails_when

__all__ = [
    "REGISTERED",
    "VARIANTS",
    "arithmetic",
    "broken",
    "claims",
    "enter_from_environment",
    "fails_when",
    "inputs",
    "runs",
    "security",
    "system",
]
