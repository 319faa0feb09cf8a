"""Engines: interchangeable, and equal to the last bit.

`reference` is NumPy and the specification; `cpu` uses the native kernels.
"""

from __future__ import annotations

from sklearn.utils._openmp_helpers import _openmp_effective_n_threads

from wolfmeans.choices import ALGORITHMS, ENGINES
from wolfmeans.engines.base import Assignment, Engine, Forced, Workspace
from wolfmeans.engines.cpu import CpuEngine, advance_together, native_is_available
from wolfmeans.engines.reference import ReferenceEngine
from wolfmeans.notices import warn

__all__ = [
    "ALGORITHMS",
    "ENGINES",
    "Assignment",
    "Engine",
    "Forced",
    "Workspace",
    "advance_together",
    "effective_threads",
    "get_engine",
]

_said = False


def get_engine(name: str = "auto") -> Engine:
    """Return the engine of that name; `auto` is the fastest that can run here."""
    global _said
    if name == "reference":
        return ReferenceEngine()
    if name == "cpu":
        return CpuEngine()
    if name == "gpu":
        from wolfmeans.engines.gpu import GpuEngine

        return GpuEngine()
    if name != "auto":
        raise ValueError(f"engine must be one of {', '.join(map(repr, ENGINES))}; got {name!r}")
    if native_is_available():
        return CpuEngine()
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
    surrounding joblib worker say so.
    """
    return int(_openmp_effective_n_threads(n_threads))
