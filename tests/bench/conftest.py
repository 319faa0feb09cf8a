"""Scripts of the folder benchmarks, imported from their own folder as when one of them is run."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@contextmanager
def _imported(names: Iterable[str]) -> Iterator[SimpleNamespace]:
    names = tuple(names)
    before = {name: sys.modules.pop(name, None) for name in names}
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


@pytest.fixture(scope="session")
def scripts() -> Callable[[Iterable[str]], AbstractContextManager[SimpleNamespace]]:
    """Import some scripts for as long as a context lasts."""
    return _imported
