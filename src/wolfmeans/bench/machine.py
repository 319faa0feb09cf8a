"""The machine and the versions that a report was made with."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wolfmeans.bench.peers import Method, Wolfmeans


def machine(threads: int) -> dict[str, str]:
    """Return what is known about this machine."""
    info = _cpu_info()
    found = {
        "CPU": info.get("model name") or platform.processor() or platform.machine(),
        "cores": str(_cores()),
        "threads used": str(threads),
        "vector unit": _vector_unit(info.get("flags", "")),
        "system": f"{platform.system()} {platform.machine()}",
    }
    if hasattr(os, "getloadavg"):
        found["load average at the start"] = f"{os.getloadavg()[0]:.1f}"
    return found


def _cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _cpu_info() -> dict[str, str]:
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return {}
    pairs = (line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def _vector_unit(flags: str) -> str:
    if platform.machine().lower() in ("arm64", "aarch64"):
        return "NEON"
    known = {"avx512f": "AVX-512", "avx2": "AVX2", "avx": "AVX"}
    return next((name for flag, name in known.items() if flag in flags.split()), "baseline")


def versions(peers: Sequence[Method]) -> dict[str, str]:
    """Return the versions of all that is compared."""
    found = {method.package: method.version() for method in (Wolfmeans(), *peers)}
    return {**found, "numpy": np.__version__, "python": platform.python_version()}
