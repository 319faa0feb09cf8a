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
_HEAD = 16
"""Bytes of what is found, before the rows; as many as make these aligned."""


class Look:
    """A look that is being taken; other work can be done meanwhile.

    Parameters
    ----------
    X : (n, d) tensor
        The data, rows one after the other.
    beside : tensor or None, default=None
        Another one on the same device that is to come along; it does if it is small and plain.
    """

    def __init__(self, X: torch.Tensor, beside: torch.Tensor | None = None) -> None:
        n, d = X.shape
        step = sampling_step(n)
        self._shape = (-(-n // step), d)
        entries, size = self._shape[0] * d, X.numel()
        self._dtype = np.dtype(np.float32 if X.dtype == torch.float32 else np.float64)
        many = _HEAD + -(-entries * self._dtype.itemsize // 8) * 8
        # What is found and the rows, in one piece for one copy.
        seen = torch.zeros(many // self._dtype.itemsize, dtype=X.dtype, device=X.device)
        found, sample = seen.view(torch.int64), seen[_HEAD // self._dtype.itemsize :]
        launch(
            look, min(PROGRAMS, -(-size // _BLOCK)),
            X, found, sample, size, entries, d, step * d, BLOCK=_BLOCK, **UNFUSED,
        )  # fmt: skip
        self.beside: torch.Tensor | None = None
        """The other one on the host, when all is found."""
        self._coming: Coming | None = None
        self._seen = seen
        if seen.nbytes <= MOST_PINNED:
            along = [] if beside is None or not _comes_along(beside) else [beside.detach()]
            self._coming = Coming(found, *along)

    def found(self) -> tuple[tuple[float, float], NDArray[np.floating]]:
        """Return the smallest magnitude that is not 0 and the largest, both 0 where all are; rows.

        These are some, evenly spaced.
        """
        if self._coming is None:
            whole = self._seen.cpu().view(torch.int64)
        else:
            whole, *others = self._coming.wait()
            self.beside = others[0] if others else None
        array = whole.numpy()
        largest, below = array[:2].tolist()
        # 0 where all are 0, for then nothing is below infinity.
        smallest = INFINITY.value - below if largest else 0
        sizes = struct.unpack("2d", struct.pack("2q", smallest, largest))
        entries = self._shape[0] * self._shape[1]
        rows = array[_HEAD // 8 :].view(self._dtype)[:entries].reshape(self._shape)
        return sizes, rows.copy()


def _comes_along(tensor: torch.Tensor) -> bool:
    return (
        tensor.is_cuda
        and tensor.dtype in (torch.float32, torch.float64)
        and tensor.is_contiguous()
        and tensor.nbytes <= MOST_PINNED
    )
