"""Where tests of the gpu engine run: on a device, or else in Triton's interpreter on the CPU.

Import it before anything that imports Triton, which reads the variable when kernels are defined.
Tests are skipped where PyTorch or Triton is missing, unless WOLFMEANS_REQUIRE_TRITON=1.
"""

import functools
import importlib.util
import os

import pytest

_MISSING = [name for name in ("torch", "triton") if importlib.util.find_spec(name) is None]
if _MISSING and os.environ.get("WOLFMEANS_REQUIRE_TRITON") == "1":
    raise RuntimeError(f"WOLFMEANS_REQUIRE_TRITON=1, but {' and '.join(_MISSING)} is missing")
if not _MISSING and "TRITON_INTERPRET" not in os.environ:
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"

needs_triton = pytest.mark.skipif(
    bool(_MISSING),
    reason=f"the gpu engine needs {' and '.join(_MISSING)}, which cannot be imported",
)


class _Kept:
    """Changes to Triton's language that are not taken back."""

    def restore(self):
        pass


@functools.cache
def hurry():
    """Have the interpreter do once what it does at every call, and what takes most of its time."""
    if _MISSING or os.environ.get("TRITON_INTERPRET") != "1":
        return
    from triton.runtime import interpreter

    change, modules = interpreter._patch_lang, set()

    def change_once(function):
        """Change the language that a function uses, unless one of its module was here before."""
        if function.__module__ not in modules:
            change(function)
            modules.add(function.__module__)
        return _Kept()

    look_up, known = interpreter._get_np_dtype, {}

    def look_up_once(dtype):
        name = dtype.scalar.name
        if name not in known:
            known[name] = look_up(dtype)
        return known[name]

    interpreter._patch_lang, interpreter._get_np_dtype = change_once, look_up_once
