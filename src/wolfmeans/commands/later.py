"""Modules that others import and nobody here uses: put off until something is asked of them.

scikit-learn imports scipy.stats, and pandas where it is installed; SciPy imports all of NumPy, its
translator of Fortran included. That is most of the time they take to load, and a command that
clusters a file needs none of it. Only a process that is all the command's own does this.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class _Later(ModuleType):
    """Stands for a module, and loads it when it is asked for what the module has."""

    def __getattr__(self, name: str) -> Any:
        # Who looks through all modules asks for these; __path__ is asked for by a submodule.
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def put_off(name: str) -> None:
    """Let `import name` cost nothing until an attribute of it is used.

    Examples
    --------
    >>> import sys
    >>> kept = sys.modules.pop("colorsys", None)
    >>> put_off("colorsys")
    >>> import colorsys
    >>> type(colorsys).__name__
    '_Later'
    >>> colorsys.rgb_to_hsv(0.0, 0.0, 0.0)
    (0.0, 0.0, 0.0)
    >>> type(sys.modules["colorsys"]).__name__
    'module'
    """
    if name in sys.modules:
        return
    sys.modules[name] = later = _Later(name)
    package, _, last = name.rpartition(".")
    if package:
        setattr(import_module(package), last, later)


class _Absent(MetaPathFinder):
    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == self._name:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


@contextmanager
def absent(name: str) -> Iterator[None]:
    """Let a module look as if it were not installed, unless it is loaded already."""
    finder = _Absent(name)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
