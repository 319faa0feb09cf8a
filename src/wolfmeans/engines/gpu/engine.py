"""Opening data on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.engines.gpu.distances import GpuKernels
from wolfmeans.engines.gpu.launching import INTERPRETED
from wolfmeans.engines.gpu.points import GpuPoints
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.trimming import GpuTrimmedPoints
from wolfmeans.engines.gpu.weighting import weigh
from wolfmeans.engines.labelled import LabelledPoints
from wolfmeans.engines.trimming import Masses, TrimmedPoints, Trimming
from wolfmeans.tensors import OnDevice


def device() -> str:
    """Return where tensors live: the GPU, or the CPU when Triton interprets its kernels."""
    if INTERPRETED:
        return "cpu"
    if not torch.cuda.is_available():
        raise RuntimeError(
            "engine='gpu' found no GPU that PyTorch can use (torch.cuda.is_available() is False): "
            "install a CUDA build of PyTorch and a driver for it, or take engine='cpu', which "
            "gives the same result"
        )
    return "cuda"


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
        """Put dense data on the device, if it is not there."""
        data = _screened(X)
        host = None if isinstance(X, OnDevice) else X
        if weights is None:
            return GpuPoints(data, host, n_threads)
        weighting = weigh(data, weights)
        if weighting is not None:
            return GpuPoints(data, host, n_threads, weights, weighting)
        # Exact sums on the host, of distances from the device.
        points = LabelledPoints(np.asarray(X), weights, GpuKernels(data))
        points.engine = "gpu"
        return points

    def open_trimmed(self, X: Any, weights: Masses | None, n_threads: int, mass: float) -> Trimming:
        """Put dense data on the device, of which the nearest points of a mass are kept."""
        data = _screened(X)
        weighting = weigh(data, weights)
        if weighting is not None:
            host = None if isinstance(X, OnDevice) else X
            return GpuTrimmedPoints(data, host, n_threads, weights, weighting, mass)
        points = TrimmedPoints(np.asarray(X), weights, GpuKernels(data), mass)
        points.engine = "gpu"
        return points


def _screened(X: Any) -> Screened:
    if sparse.issparse(X):
        raise ValueError(
            "engine='gpu' works on dense data; use engine='cpu' for sparse data, or X.toarray() if "
            "that fits into memory"
        )
    where = device()
    try:
        if isinstance(X, OnDevice):
            return Screened(X.tensor.to(where), X.range[1:], X.sample)
        # PyTorch warns of sharing an array that it may not write to.
        shared = X.flags.writeable
        return Screened((torch.from_numpy(X) if shared else torch.tensor(X)).to(where))
    except torch.OutOfMemoryError as error:
        n, d = X.shape
        needed = n * (d * (X.dtype.itemsize + 2) + 72)
        free = torch.cuda.mem_get_info()[0]
        raise MemoryError(
            f"{n} points of {d} columns need about {needed / 2**30:.1f} GiB on the GPU, which has "
            f"{free / 2**30:.1f} GiB free: convert X to float32, cluster fewer rows, or take "
            "engine='cpu', which gives the same result"
        ) from error
