"""Engines: interchangeable, and equal to the last bit.

`reference` is NumPy and the specification; `cpu` uses the native kernels, `gpu` Triton's.
"""

from wolfmeans.core.choices import ALGORITHMS, ENGINES
from wolfmeans.core.workspace import Assignment, Engine, Forced, Workspace
from wolfmeans.engines.choosing import (
    Chosen,
    Work,
    choose_engine,
    effective_threads,
    get_engine,
)

__all__ = [
    "ALGORITHMS",
    "ENGINES",
    "Assignment",
    "Chosen",
    "Engine",
    "Forced",
    "Work",
    "Workspace",
    "choose_engine",
    "effective_threads",
    "get_engine",
]
