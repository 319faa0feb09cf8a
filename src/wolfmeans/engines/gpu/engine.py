"""Opening data on the device."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.engines.gpu.points import GpuKernels, GpuPoints
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.labelled import LabelledPoints


def device() -> str:
    """Return where tensors live: the GPU, or the CPU when Triton interprets its kernels."""
    return "cpu" if os.environ.get("TRITON_INTERPRET") == "1" else "cuda"


class GpuEngine:
    """Triton kernels, for dense data."""

    name = "gpu"

    def open(
        self,
        X: Any,
        weights: NDArray[np.float64] | None,
        n_threads: int,
        algorithm: str = "auto",
    ) -> LabelledPoints:
        """Put dense data on the device."""
        if sparse.issparse(X):
            raise ValueError('engine="gpu" works on dense data; use engine="cpu" for sparse data')
        data = Screened(torch.as_tensor(X).to(device()))
        if weights is None:
            return GpuPoints(data, X, n_threads)
        points = LabelledPoints(X, weights, GpuKernels(data))
        points.engine = "gpu"
        return points
