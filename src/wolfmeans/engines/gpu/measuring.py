"""The first pass over data on the device: how large its numbers are, and some of its rows."""

from __future__ import annotations

import math
import struct
from collections import deque
from collections.abc import Hashable

import numpy as np
import torch
from numpy.typing import NDArray

from wolfmeans.engines.gpu.kernels.opening import INFINITY, measure
from wolfmeans.engines.gpu.launching import PROGRAMS, UNFUSED, launch_as
from wolfmeans.engines.gpu.transfers import MOST_PINNED, event, room
from wolfmeans.exact.native import sampling_step

_BLOCK = 4096


class Measurement:
    """A pass over the data that is under way; the host can do other work meanwhile.

    Parameters
    ----------
    X : (n, d) tensor
        The data, rows one after the other.
    beside : tensor or None, default=None
        Another one on the same device, fetched with the same copy if it is small and of the same
        type.
    """

    def __init__(self, X: torch.Tensor, beside: torch.Tensor | None = None) -> None:
        n, d = X.shape
        if beside is not None:
            beside = beside.detach() if _comes_along(beside, X) else None
        step, size = sampling_step(n), n * d
        entries = -(-n // step) * d
        others = 0 if beside is None else beside.numel()
        other = X if beside is None else beside
        # Tensors that were made in inference mode cannot be written to outside of it.
        mode = torch.is_inference_mode_enabled()
        kind = X.device, X.dtype, X.data_ptr() % 16, other.data_ptr() % 16, n, d, others, mode
        self._kind, self._buffers = kind, _taken(kind) or _Buffers(X, size, entries + others)
        buffers = self._buffers
        launch_as(
            kind, measure, buffers.programs,
            X, other, buffers.found, buffers.seen, size, entries, d, step * d, others, buffers.head,
            BLOCK=_BLOCK, **UNFUSED,
        )  # fmt: skip
        buffers.download()
        self._shapes = (entries // d, d), None if beside is None else beside.shape

    def found(
        self,
    ) -> tuple[tuple[float, float], NDArray[np.floating], NDArray[np.floating] | None]:
        """Return the smallest magnitude but 0 and the largest; some rows; the other tensor.

        Both magnitudes are 0 where all numbers are. The rows are evenly spaced. The other tensor is
        None where it was not fetched. Call this once.
        """
        buffers, (shape, other) = self._buffers, self._shapes
        buffers.wait()
        largest, below = buffers.sizes.max(axis=1).tolist()
        # Nothing is below infinity where all are 0.
        smallest = INFINITY.value - below if largest else 0
        sizes = struct.unpack("2d", struct.pack("2q", smallest, largest))
        entries = shape[0] * shape[1]
        rows = buffers.copies[:entries].reshape(shape).copy()
        along = None
        if other is not None:
            along = buffers.copies[entries : entries + math.prod(other)].reshape(other).copy()
        if buffers.seen.nbytes <= MOST_PINNED:
            _spare_buffers.append((self._kind, buffers))
        return sizes, rows, along


class _Buffers:
    """Memory for magnitudes and copies, in one piece, on the device and on the host."""

    def __init__(self, X: torch.Tensor, size: int, copied: int) -> None:
        self.programs = programs = min(PROGRAMS, -(-size // _BLOCK))
        itemsize = X.dtype.itemsize
        self.head = 16 * programs // itemsize
        even = -(-copied // 2) * 2
        self.seen = torch.empty(self.head + even, dtype=X.dtype, device=X.device)
        self.found = self.seen.view(torch.int64)
        on_device = X.device.type == "cuda"
        pinned = on_device and self.seen.nbytes <= MOST_PINNED
        self._here = room(self.found.shape, torch.int64, pinned)
        self._event = event() if on_device else None
        array = self._here.numpy()
        self.sizes = array[: 2 * programs].reshape(2, programs)
        self.copies = array[2 * programs :].view(np.float32 if itemsize == 4 else np.float64)

    def download(self) -> None:
        """Start the copy to the host."""
        self._here.copy_(self.found, non_blocking=True)
        if self._event is not None:
            self._event.record()

    def wait(self) -> None:
        """Wait for the copy."""
        if self._event is not None:
            self._event.synchronize()


_spare_buffers: deque[tuple[Hashable, _Buffers]] = deque(maxlen=1)
"""Those of the last pass, for the next one over such data; another thread takes new ones."""


def _taken(kind: Hashable) -> _Buffers | None:
    try:
        found, buffers = _spare_buffers.pop()
    except IndexError:
        return None
    return buffers if found == kind else None


def _comes_along(tensor: torch.Tensor, X: torch.Tensor) -> bool:
    return (
        tensor.device == X.device
        and tensor.dtype == X.dtype
        and tensor.layout == torch.strided
        and tensor.is_contiguous()
        and not tensor.is_neg()
        and 0 < tensor.nbytes <= MOST_PINNED // 2
    )
