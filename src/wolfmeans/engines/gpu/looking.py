"""The first look at data on the device: how large its numbers are, and some of its rows."""

from __future__ import annotations

import struct

import numpy as np
import torch
from numpy.typing import NDArray

from wolfmeans.engines.gpu.kernels.opening import INFINITY, look
from wolfmeans.engines.gpu.launching import PROGRAMS, UNFUSED, launch
from wolfmeans.engines.gpu.transfers import MOST_PINNED, Coming
from wolfmeans.tensors import sampling_step

_BLOCK = 4096


class Look:
    """A look that is being taken; other work can be done meanwhile.

    Parameters
    ----------
    X : (n, d) tensor
        The data, rows one after the other.
    beside : tensor or None, default=None
        Another one on the same device that is to come along; it does if it is small, and of the
        same type.
    """

    def __init__(self, X: torch.Tensor, beside: torch.Tensor | None = None) -> None:
        n, d = X.shape
        step, size = sampling_step(n), X.numel()
        self._shape = (-(-n // step), d)
        self._dtype = np.dtype(np.float32 if X.dtype == torch.float32 else np.float64)
        self._programs = min(PROGRAMS, -(-size // _BLOCK))
        entries, others = self._shape[0] * d, 0
        self._beside = None if beside is None or not _comes_along(beside, X) else beside.detach()
        if self._beside is not None:
            others = self._beside.numel()
        # What is found and the copies, in one piece for one copy to the host.
        head = 16 * self._programs // self._dtype.itemsize
        even = -(-(entries + others) // 2) * 2
        seen = torch.empty(head + even, dtype=X.dtype, device=X.device)
        found = seen.view(torch.int64)
        launch(
            look, self._programs,
            X, X if self._beside is None else self._beside, found, seen, size, entries, d, step * d,
            others, head, BLOCK=_BLOCK, **UNFUSED,
        )  # fmt: skip
        small = seen.nbytes <= MOST_PINNED
        self._seen = Coming(found) if small else seen

    def found(
        self,
    ) -> tuple[tuple[float, float], NDArray[np.floating], NDArray[np.floating] | None]:
        """Return the smallest magnitude that is not 0 and the largest, both 0 where all are; rows.

        These are some, evenly spaced. The last is what came along.
        """
        seen = self._seen.wait()[0] if isinstance(self._seen, Coming) else self._seen.cpu()
        array = seen.numpy().view(np.int64)
        programs, entries = self._programs, self._shape[0] * self._shape[1]
        largest, below = array[: 2 * programs].reshape(2, programs).max(axis=1).tolist()
        # Nothing is below infinity where all are 0.
        smallest = INFINITY.value - below if largest else 0
        sizes = struct.unpack("2d", struct.pack("2q", smallest, largest))
        copies = array[2 * programs :].view(self._dtype)
        rows = copies[:entries].reshape(self._shape).copy()
        if self._beside is None:
            return sizes, rows, None
        shape = self._beside.shape
        return sizes, rows, copies[entries : entries + self._beside.numel()].reshape(shape).copy()


def _comes_along(tensor: torch.Tensor, X: torch.Tensor) -> bool:
    return (
        tensor.device == X.device
        and tensor.dtype == X.dtype
        and tensor.is_contiguous()
        and 0 < tensor.nbytes <= MOST_PINNED // 2
    )
