"""Where tests of the gpu engine run: on a device, or else in Triton's interpreter on the CPU.

Import it before anything that imports Triton, which reads the variable when kernels are defined.
Tests are skipped where PyTorch or Triton is missing, unless WOLFMEANS_REQUIRE_TRITON=1.
"""

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
