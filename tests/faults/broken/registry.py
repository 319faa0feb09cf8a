"""Which variants there are, which test must fail on which, and how one is put in force."""

import os
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

VARIABLE = "WOLFMEANS_TEST_BROKEN"
VARIANTS = {}
REGISTERED = []


@dataclass(frozen=True)
class Registered:
    """A test, the variant that it must fail on, and the arguments it is called with there."""

    test: object
    variant: str
    arguments: dict
    raises: tuple


def fails_when(variant, *, raises=(), **arguments):
    """Say that a test, called with these arguments, fails on a broken variant.

    A failure is a failed assertion; where a broken package cannot but raise something of its own,
    `raises` says what.
    """
    if variant not in VARIANTS:
        raise KeyError(f"no variant is called {variant!r}")
    raises = raises if isinstance(raises, tuple) else (raises,)

    def register(test):
        REGISTERED.append(Registered(test, variant, arguments, raises))
        return test

    return register


@contextmanager
def broken(variant):
    """Break one thing here and in processes that are started meanwhile."""
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, {VARIABLE: variant}))
        for context in VARIANTS[variant]():
            stack.enter_context(context)
        yield


def enter_from_environment():
    """Break, for good, what the process that started this one has broken."""
    variant = os.environ.get(VARIABLE)
    if variant is not None:
        for context in VARIANTS[variant]():
            context.__enter__()


def variant(function):
    """Register a function that returns the patches of a variant."""
    VARIANTS[function.__name__] = function
    return function
