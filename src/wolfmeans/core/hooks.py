"""Functions of higher layers that lower ones call: registered at import, looked up by name.

A trace has a method `plot`, which needs figures; a lower bound may start from a clustering, which
needs an estimator; a saved model is made again by its class. Those are layers above. So the package
says at import which module defines each such function (`wolfmeans/__init__.py`), and lower layers
look it up here when they need it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_homes: dict[str, str] = {}


def register(**homes: str) -> None:
    """Say in which module each function is defined."""
    _homes.update(homes)


def hook(name: str) -> Callable[..., Any]:
    """Return a registered function; its module is imported now."""
    function: Callable[..., Any] = getattr(import_module(_homes[name]), name)
    return function
