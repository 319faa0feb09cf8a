"""The engine on an NVIDIA GPU: PyTorch for memory, Triton for kernels, the same bits as the others.

`TRITON_INTERPRET=1` runs the very kernels on the CPU, slowly, for tests.
"""

from __future__ import annotations

from wolfmeans.engines.gpu.engine import GpuEngine
from wolfmeans.engines.gpu.points import GpuPoints

__all__ = ["GpuEngine", "GpuPoints"]
