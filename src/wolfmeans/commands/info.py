"""`wolfmeans info`: what runs here, for oneself and for reports of problems."""

from __future__ import annotations

import os
import platform
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from wolfmeans import __version__
from wolfmeans.commands.loading import loading
from wolfmeans.commands.points import Json
from wolfmeans.commands.terminal import errors_in_one_line, print_facts, print_json

_NEEDED = ("numpy", "scipy", "scikit-learn")
_OPTIONAL = {
    "typer": "this command",
    "rich": "this command",
    "polars": "fast CSV, Parquet and Arrow files",
    "matplotlib": "figures",
    "pandas": "tables in notebooks",
    "pyarrow": "Arrow tables in Python",
    "torch": "tensors in Python",
}


@errors_in_one_line
def info(json_: Json = False) -> None:
    """Say what runs here: versions, vector unit, threads, native module, optional packages.

    [bold]Examples[/bold]

      wolfmeans info

      wolfmeans info --json
    """
    facts = gather()
    if json_:
        print_json(facts)
        return
    native = facts["native_module"]
    rows = [
        ("wolfmeans", facts["wolfmeans"], ""),
        ("python", facts["python"], facts["platform"]),
        ("engine", facts["engine"], "" if native else "slow: the native module is missing"),
        ("vector unit", facts["vector_unit"] or "none", "what the native kernels were chosen for"),
        ("threads", str(facts["threads"]), f"of {facts['cores']} cores"),
    ]
    rows += [(name, found, "") for name, found in facts["packages"].items()]
    rows += [
        (name, found or "missing", f"for {_OPTIONAL[name]}")
        for name, found in facts["optional_packages"].items()
    ]
    print_facts("What runs here", rows)


def gather() -> dict[str, Any]:
    """Return what is known about this installation."""
    with loading():
        from wolfmeans.engines import effective_threads
        from wolfmeans.engines.cpu import native_is_available

    native = native_is_available()
    hardware: dict[str, Any] = {}
    if native:
        hardware = import_module("wolfmeans.engines._native").hardware()
    return {
        "wolfmeans": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "native_module": native,
        "engine": "cpu" if native else "reference",
        "vector_unit": hardware.get("vector_unit"),
        "threads": effective_threads(None),
        "cores": os.cpu_count(),
        "packages": {name: _version(name) for name in _NEEDED},
        "optional_packages": {name: _version(name) for name in _OPTIONAL},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
