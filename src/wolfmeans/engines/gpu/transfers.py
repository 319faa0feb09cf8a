"""Arrays on their way between the host and the device."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

MOST_PINNED = 1 << 23
"""Bytes: PyTorch keeps pinned memory for ever."""


def to_host(*tensors: torch.Tensor) -> tuple[NDArray[Any], ...]:
    """Return tensors as arrays of their own, after one wait for all of them.

    They come through pinned memory, which is several times as fast.
    """
    if tensors[0].device.type != "cuda":
        return tuple(tensor.numpy().copy() for tensor in tensors)
    return tuple(copy.numpy().copy() for copy in _pinned(tensors))


def lent_to_host(*tensors: torch.Tensor) -> tuple[NDArray[Any], ...]:
    """Return tensors as arrays in pinned memory, where the device has it, after one wait.

    For what a fit reads and throws away: no memory is asked for, no page is touched anew. A forked
    process cannot read it.
    """
    if tensors[0].device.type != "cuda":
        return to_host(*tensors)
    return tuple(copy.numpy() for copy in _pinned(tensors))


def _pinned(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return copies in pinned memory, which PyTorch keeps for the next time."""
    copies = [torch.empty(t.shape, dtype=t.dtype, pin_memory=True) for t in tensors]
    for copy, tensor in zip(copies, tensors, strict=True):
        copy.copy_(tensor, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    return copies


class Coming:
    """Tensors on their way to the host, through pinned memory where they are on a device."""

    def __init__(self, *tensors: torch.Tensor) -> None:
        on_device = tensors[0].device.type == "cuda"
        self._copies = [torch.empty(t.shape, dtype=t.dtype, pin_memory=on_device) for t in tensors]
        for copy, tensor in zip(self._copies, tensors, strict=True):
            copy.copy_(tensor, non_blocking=True)
        self._event = torch.cuda.Event() if on_device else None
        if self._event is not None:
            self._event.record()

    def wait(self) -> list[torch.Tensor]:
        """Return them, in memory that is pinned, when they are there."""
        if self._event is not None:
            self._event.synchronize()
        return self._copies


class Outbox:
    """Memory of the host from where a device gets what it is sent, without anybody waiting."""

    def __init__(self, size: int, device: torch.device) -> None:
        on_device = device.type == "cuda"
        pinned = on_device and 8 * size <= MOST_PINNED
        self.size = size
        self._tensor = torch.empty(size, dtype=torch.int64, pin_memory=pinned)
        self._array = self._tensor.numpy()
        self._read = torch.cuda.Event() if on_device else None

    def memory(self) -> NDArray[np.int64]:
        """Return the memory, which is to be written now; what was sent before has been read."""
        if self._read is not None:
            self._read.synchronize()
        return self._array

    def send(self, there: torch.Tensor) -> None:
        """Send as much as a tensor of int64 has."""
        there.copy_(self._tensor[: len(there)], non_blocking=True)
        if self._read is not None:
            self._read.record()


def sent(array: NDArray[Any], like: torch.Tensor) -> torch.Tensor:
    """Return an array as a tensor on the device of another one, for the current stream alone.

    As `to_device` does, but without waiting for all that the stream has to do before.
    """
    here = as_tensor(np.ascontiguousarray(array))
    if like.device.type != "cuda":
        return here.to(like.device)
    return here.pin_memory().to(like.device, non_blocking=True)


def to_device(array: NDArray[Any], like: torch.Tensor) -> torch.Tensor:
    """Return an array as a tensor on the device of another one."""
    return as_tensor(np.ascontiguousarray(array)).to(like.device)


def as_tensor(array: NDArray[Any]) -> torch.Tensor:
    """Return a tensor that shares the array's memory, and is only read."""
    if array.flags.writeable:
        return torch.from_numpy(array)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)
