"""Copies between the host and the device."""

from __future__ import annotations

import math
import warnings
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

MOST_PINNED = 1 << 23
"""Bytes: PyTorch keeps pinned memory for ever."""


def room(shape: Sequence[int], dtype: torch.dtype, pinned: bool) -> torch.Tensor:
    """Return memory of the host, wherever PyTorch puts tensors by default."""
    return torch.empty(shape, dtype=dtype, device="cpu", pin_memory=pinned)


def to_host(*tensors: torch.Tensor) -> tuple[NDArray[Any], ...]:
    """Return tensors as arrays of their own, after one wait for all of them.

    They come through pinned memory, which is several times as fast.
    """
    if tensors[0].device.type != "cuda":
        return tuple(tensor.numpy().copy() for tensor in tensors)
    return tuple(copy.numpy().copy() for copy in _pinned(tensors))


# Idle events by device: making one takes longer than recording it.
_idle: defaultdict[int | None, deque[Any]] = defaultdict(deque)


class Download:
    """A copy of a tensor as it is now to the host, in pinned memory where there is a device.

    For short-lived results: the memory is used again. A forked process cannot read it.

    Parameters
    ----------
    tensor : torch.Tensor
        What is copied; it may be changed by kernels that are launched later.
    into : Download or None, default=None
        One of the same kind that is no longer read, whose memory is used again.
    """

    def __init__(self, tensor: torch.Tensor, into: Download | None = None) -> None:
        on_device = tensor.device.type == "cuda"
        if into is None:
            self._copy = room(tensor.shape, tensor.dtype, on_device)
        else:
            self._copy = into._copy
        self._copy.copy_(tensor, non_blocking=True)
        self._event = None
        if on_device:
            self._events = _idle[tensor.device.index]
            try:  # in one operation: other threads may send, too
                self._event = self._events.pop()
            except IndexError:
                self._event = torch.cuda.Event()
            self._event.record()

    @property
    def in_inference_mode(self) -> bool:
        """Whether its memory cannot be written to outside of that."""
        return self._copy.is_inference()

    def array(self) -> NDArray[Any]:
        """Wait for the copy, and return it; the memory may be used again."""
        if self._event is not None:
            self._event.synchronize()
            self._events.append(self._event)
            self._event = None
        array: NDArray[Any] = self._copy.numpy()
        return array


def _pinned(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return copies in pinned memory, which PyTorch keeps for the next time."""
    copies = [room(t.shape, t.dtype, True) for t in tensors]
    for copy, tensor in zip(copies, tensors, strict=True):
        copy.copy_(tensor, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    return copies


def event() -> Any:
    """Return an event; `torch.cuda.Event` would look up the current stream in Python."""
    return torch.Event(device="cuda")


class Place(NamedTuple):
    """Where an array is in a piece of memory."""

    start: int
    """In bytes."""
    dtype: str
    shape: tuple[int, ...]

    def of(self, memory: NDArray[np.int64]) -> NDArray[Any]:
        """Return the array that is there in some memory."""
        dtype = np.dtype(self.dtype)
        end = self.start + math.prod(self.shape) * dtype.itemsize
        return memory.view(np.uint8)[self.start : end].view(dtype).reshape(self.shape)


class UploadBuffer:
    """Host memory from which arrays are copied to the device without waiting.

    Parameters
    ----------
    there : (size,) int64 tensor
        The target of one copy of all arrays.
    places : sequence of Place
        The place of each array in it.
    """

    def __init__(self, there: torch.Tensor, places: Sequence[Place]) -> None:
        on_device = there.device.type == "cuda"
        pinned = on_device and there.nbytes <= MOST_PINNED
        self._here = room(there.shape, there.dtype, pinned)
        self._there = there
        self._arrays = [place.of(self._here.numpy()) for place in places]
        self._read = event() if on_device else None

    def send(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Copy arrays to the device, after the last ones have been copied."""
        if self._read is not None:
            self._read.synchronize()
        for place, array in zip(self._arrays, arrays, strict=True):
            place[...] = array
        self._there.copy_(self._here, non_blocking=True)
        if self._read is not None:
            self._read.record()


def upload(array: NDArray[np.float64], like: torch.Tensor) -> torch.Tensor:
    """Return an array as a tensor on the device of another one, for the current stream alone.

    As `to_device` does, but without waiting for all that the stream has to do before.
    """
    on_device = like.device.type == "cuda"
    here = room(array.shape, torch.float64, on_device)
    here.numpy()[...] = array
    return here.to(like.device, non_blocking=True)


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
