"""Opening data on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.engines.gpu.distances import GpuKernels
from wolfmeans.engines.gpu.launching import INTERPRETED
from wolfmeans.engines.gpu.memory import (
    available,
    is_small,
    kept,
    no_room,
    resident_bytes,
    share_out,
    too_large,
)
from wolfmeans.engines.gpu.points import GpuPoints
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.steps import spare
from wolfmeans.engines.gpu.streamed_points import StreamedKernels, StreamedPoints
from wolfmeans.engines.gpu.streaming import Streamed
from wolfmeans.engines.gpu.transfers import as_tensor
from wolfmeans.engines.gpu.weighting import weigh
from wolfmeans.engines.reference import ReferencePoints, on_host_sums
from wolfmeans.engines.tensors import OnDevice
from wolfmeans.exact.distances import ReferenceKernels

_MOST_ROWS = 2**31 - 2**20
"""Rows are counted in int32, by programs that count some beyond the last."""


def device() -> str:
    """Return where tensors live: the GPU, or the CPU when Triton interprets its kernels."""
    if INTERPRETED:
        return "cpu"
    if torch.version.hip is not None:
        raise OSError(
            "engine='gpu' is made for NVIDIA GPUs: how others round is not known well enough here. "
            "Take engine='cpu', which gives the same result"
        )
    if not torch.cuda.is_available():
        raise OSError(
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
    ) -> ReferencePoints:
        """Put dense data on the device, if it is not there; or stream it, if it is too large."""
        if X.shape[0] == 0:
            # A part without rows; no kernel is launched with no program.
            return on_host_sums(X, weights, ReferenceKernels(X))
        data = _opened(X, n_threads, weighted=weights is not None)
        weighting = None
        if weights is not None:
            here = data.window if isinstance(data, Streamed) else data
            weighting = weigh(here, weights, streamed=isinstance(data, Streamed))
            if weighting is None:
                # Exact sums on the host, of distances from the device.
                return on_host_sums(np.asarray(X), weights, _kernels(data))
        if isinstance(data, Streamed):
            return StreamedPoints(data, n_threads, weights, weighting)
        host = None if isinstance(X, OnDevice) else X
        return GpuPoints(data, host, n_threads, weights, weighting)


def _kernels(data: Screened | Streamed) -> GpuKernels | StreamedKernels:
    return StreamedKernels(data) if isinstance(data, Streamed) else GpuKernels(data)


def _opened(X: Any, n_threads: int, *, weighted: bool) -> Screened | Streamed:
    """Put data on the device, or a window of it where there is no room for all of it."""
    if sparse.issparse(X):
        raise ValueError(
            "engine='gpu' works on dense data; use engine='cpu' for sparse data, or X.toarray() if "
            "that fits into memory"
        )
    where = device()
    n, d = X.shape
    if n > _MOST_ROWS:
        raise ValueError(
            f"engine='gpu' takes up to {_MOST_ROWS} rows; got {n}: take engine='cpu', which gives "
            "the same result"
        )
    itemsize = X.dtype.itemsize
    if not is_small(n, d):
        spare.drop()
    if isinstance(X, OnDevice):
        try:
            sizes, sample = X.range[1:], X.sample
            with kept(where, n, d):
                return Screened(X.tensor.to(where), sizes, sample)
        except torch.OutOfMemoryError as error:
            raise too_large(n, d, itemsize, weighted=weighted, device=where) from error
    budget = available(where)
    if resident_bytes(n, d, itemsize, weighted=weighted) <= budget:
        try:
            with kept(where, n, d):
                return Screened(as_tensor(X).to(where))
        except torch.OutOfMemoryError:
            # Less is free than it seems; what was tried is given back here.
            budget /= 2
    capacity, staying = share_out(n, d, itemsize, budget, weighted=weighted)
    try:
        return Streamed(X, where, capacity, staying, n_threads)
    except torch.OutOfMemoryError as error:
        raise no_room(n, d, itemsize, available(where), weighted=weighted) from error
