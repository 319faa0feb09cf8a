"""Engines: interchangeable, and equal to the last bit.

`reference` is NumPy and the specification; `cpu` uses the native kernels, `gpu` Triton's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

from wolfmeans.core.choices import ALGORITHMS, ENGINES
from wolfmeans.core.notices import warn
from wolfmeans.core.workspace import (
    Assignment,
    Engine,
    Forced,
    Workspace,
)
from wolfmeans.engines.choosing import Work, choose
from wolfmeans.engines.native import CpuEngine
from wolfmeans.engines.reference import ReferenceEngine
from wolfmeans.engines.tensors import OnDevice
from wolfmeans.exact.native import native_is_available

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

_said = False
_MOST_THREADS = 1024


@dataclass(frozen=True)
class Chosen:
    """An engine, and notes on why it was chosen."""

    engine: Engine
    notes: tuple[str, ...] = ()


def choose_engine(name: str, X: Any, work: Work | None) -> Chosen:
    """Return the engine of that name, for `auto` the one that does the work on X soonest.

    Tensors on a GPU stay there. Data on the host goes there when that pays (engines.choosing);
    without any idea of the work it does not.
    """
    if name != "auto" or isinstance(X, OnDevice) or work is None:
        return Chosen(get_engine(name, X))
    choice = choose(X, work)
    notes = () if choice.note is None else (choice.note,)
    return Chosen(_gpu_engine() if choice.gpu else get_engine(), notes)


def get_engine(name: str = "auto", X: Any = None) -> Engine:
    """Return the engine of that name; `auto` is the fastest one where the data X is."""
    if name == "reference":
        return ReferenceEngine()
    if name == "cpu":
        return CpuEngine()
    if name == "gpu":
        return _gpu_engine()
    if name != "auto":
        raise ValueError(f"engine must be one of {', '.join(map(repr, ENGINES))}; got {name!r}")
    if isinstance(X, OnDevice):
        return _gpu_engine()
    return CpuEngine() if native_is_available() else _without_native()


def _gpu_engine() -> Engine:
    """Return the engine on the GPU, or say what it lacks."""
    try:
        gpu = import_module("wolfmeans.engines.gpu")
    except ImportError as error:
        missing = error.name if error.name in ("torch", "triton") else "torch and triton"
        raise ImportError(
            f"engine='gpu' needs PyTorch and Triton; {missing} cannot be imported: "
            "pip install 'wolfmeans[gpu]'"
        ) from error
    engine: Engine = gpu.GpuEngine()
    return engine


def _without_native() -> Engine:
    global _said
    if not _said:
        _said = True
        warn(
            "wolfmeans' native module is missing, so the slow reference engine is used; results "
            "are the same. Install a wheel, or install from source with a C++ compiler present.",
            RuntimeWarning,
        )
    return ReferenceEngine()


def effective_threads(n_threads: int | None) -> int:
    """Return the number of threads to use: the caller's, or as many as scikit-learn would.

    That is the cores this process may run on, fewer where OMP_NUM_THREADS, threadpoolctl or a
    surrounding joblib worker say so. Beyond some number a process ends where it starts one more.
    """
    return min(int(_openmp_effective_n_threads(n_threads)), max(_MOST_THREADS, _cores()))


@cache
def _cores() -> int:
    """Return how many cores the machine has; to ask for it takes longer than the rest."""
    return os.cpu_count() or 1
