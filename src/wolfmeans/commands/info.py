"""`wolfmeans info`: versions and hardware, for bug reports."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from wolfmeans import __version__
from wolfmeans.commands import options
from wolfmeans.commands.process import loading
from wolfmeans.commands.terminal import errors_in_one_line, print_facts, print_json
from wolfmeans.core.choices import PEERS

_NEEDED = ("numpy", "scipy", "scikit-learn")
_OPTIONAL = {
    "typer": "this command",
    "rich": "this command",
    "polars": "CSV, Parquet and Arrow files",
    "jinja2": "pages, and tables in notebooks",
    "matplotlib": "figures",
    "pandas": "tables in notebooks",
    "pyarrow": "Arrow tables in Python, and Parquet in chunks",
    "torch": "tensors in Python, and the gpu engine",
    "triton": "the gpu engine",
    "zarr": "Zarr arrays in chunks",
    "dask": "collections larger than the memory of one machine",
    "distributed": "Dask clusters, and --dask",
}
_EXTRAS = {
    "cli": ("jinja2", "polars", "rich", "typer"),
    "page": ("jinja2",),
    "plot": ("matplotlib",),
    "gpu": ("torch", "triton"),
    "stream": ("polars", "pyarrow", "zarr"),
    # Its data frames need the last two.
    "dask": ("dask", "distributed", "pandas", "pyarrow"),
}
"""As in pip install 'wolfmeans[cli,plot]'."""


@errors_in_one_line
def info(json_: options.Json = False) -> None:
    """Show versions, vector unit, GPU, threads, extras and other K-means libraries.

    [bold]Examples[/bold]

      wolfmeans info

      wolfmeans info --json
    """
    facts = gather()
    if json_:
        print_json(facts)
    else:
        print_facts("Installation and hardware", _rows(facts))


def _rows(facts: dict[str, Any]) -> list[tuple[str, str, str]]:
    native, forced = facts["native_module"], facts["vector_unit_forced"]
    gpu = facts["gpu"]
    rows = [
        ("wolfmeans", facts["wolfmeans"], ""),
        ("python", facts["python"], facts["platform"]),
        ("engine", facts["engine"], "" if native else "slow, because the native module is missing"),
        (
            "vector unit",
            facts["vector_unit"] or "none",
            "set by WOLFMEANS_VECTOR_UNIT" if forced else "the widest supported on this machine",
        ),
        ("threads", str(facts["threads"]), f"of {facts['cores']} cores"),
        ("gpu", _card(gpu), gpu["remark"]),
    ]
    rows += [(name, found, "") for name, found in facts["packages"].items()]
    for extra, wanted in _EXTRAS.items():
        there = facts["extras"][extra]
        install = f"pip install 'wolfmeans[{extra}]'"
        rows.append(
            (f"[{extra}]", "complete" if there else "incomplete",
             ", ".join(wanted) if there else install)
        )  # fmt: skip
    rows += [
        (name, found or "missing", f"for {_OPTIONAL[name]}")
        for name, found in facts["optional_packages"].items()
    ]
    rows += [
        (
            name,
            found or "missing",
            "for wolfmeans bench" + ("" if found else f": pip install {name}"),
        )
        for name, found in facts["peers"].items()
    ]
    return rows


def _card(gpu: dict[str, Any]) -> str:
    memory = "" if gpu["memory_gib"] is None else f", {gpu['memory_gib']:g} GiB"
    return f"{gpu['name'] or 'none'}{memory}"


def gather() -> dict[str, Any]:
    """Return the facts about this installation."""
    with loading():
        from wolfmeans.engines import effective_threads
        from wolfmeans.exact.native import native_is_available

    native = native_is_available()
    hardware: dict[str, Any] = {}
    if native:
        hardware = import_module("wolfmeans.exact._native").hardware()
    optional = {name: _version(name) for name in _OPTIONAL}
    return {
        "wolfmeans": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "native_module": native,
        "engine": "cpu" if native else "reference",
        "vector_unit": hardware.get("vector_unit"),
        "vector_unit_forced": bool(os.environ.get("WOLFMEANS_VECTOR_UNIT")),
        "threads": effective_threads(None),
        "cores": os.cpu_count(),
        "gpu": _gpu(),
        "packages": {name: _version(name) for name in _NEEDED},
        "extras": {extra: all(map(_version, names)) for extra, names in _EXTRAS.items()},
        "optional_packages": optional,
        "peers": {package: _version(package, module) for package, module in PEERS.items()},
    }


def _version(name: str, module: str | None = None) -> str | None:
    """Return the version of a package; one that came under another name is just installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "installed" if module is not None and find_spec(module) is not None else None


def _gpu() -> dict[str, Any]:
    """Return the GPU, and whether the gpu engine can use it; PyTorch is not imported for that."""
    from wolfmeans.engines.choosing import cuda_of_torch, driver

    name, memory = _first_card() if driver() else (None, None)
    torch, triton, cuda = _version("torch"), _version("triton"), cuda_of_torch()
    missing = [package for package, found in (("PyTorch", torch), ("Triton", triton)) if not found]
    if not driver():
        remark = "no NVIDIA driver"
    elif missing:
        remark = f"{' and '.join(missing)} missing: pip install 'wolfmeans[gpu]'"
    elif cuda is None:
        remark = f"PyTorch {torch} is a CPU build; the gpu engine needs a CUDA build"
    else:
        remark = f"the gpu engine is available: PyTorch {torch} for CUDA {cuda}, Triton {triton}"
    return {
        "name": name,
        "memory_gib": memory,
        "cuda": cuda,
        "engine": driver() and not missing and cuda is not None,
        "remark": remark,
    }


def _first_card() -> tuple[str, float | None]:
    """Return name and memory (GiB) of the first GPU, as the driver's own tool tells them."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    unknown = "an NVIDIA GPU"
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
        name, _, mebibytes = done.stdout.splitlines()[0].rpartition(",")
        return name.strip() or unknown, round(float(mebibytes) / 1024, 1)
    # The tool may be missing, hang or print nothing; the other facts are still shown.
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        return unknown, None
