"""Arrays on their way between the host and the device."""

from __future__ import annotations

import warnings
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def to_host(*tensors: torch.Tensor) -> tuple[NDArray[Any], ...]:
    """Return tensors as arrays of their own, after one wait for all of them.

    They come through pinned memory, which is several times as fast.
    """
    if tensors[0].device.type != "cuda":
        return tuple(tensor.numpy().copy() for tensor in tensors)
    return tuple(copy.numpy().copy() for copy in _pinned(tensors))


# Events that nobody waits for, by their device: to make one takes longer than to record it.
_idle: defaultdict[int | None, deque[Any]] = defaultdict(deque)


class Sent:
    """A tensor as it is now, on its way to the host, in pinned memory where the device has it.

    For what a fit reads and throws away: no memory is asked for, no page is touched anew. A forked
    process cannot read it.

    Parameters
    ----------
    tensor : torch.Tensor
        What is sent; it may change when all that was launched before has been done.
    into : Sent or None, default=None
        One of the same kind that nobody reads any more, whose memory is used again.
    """

    def __init__(self, tensor: torch.Tensor, into: Sent | None = None) -> None:
        on_device = tensor.device.type == "cuda"
        if into is None:
            self._copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=on_device)
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

    def array(self) -> NDArray[Any]:
        """Wait for it, and lend it out."""
        if self._event is not None:
            self._event.synchronize()
            self._events.append(self._event)
            self._event = None
        array: NDArray[Any] = self._copy.numpy()
        return array


def _pinned(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return copies in pinned memory, which PyTorch keeps for the next time."""
    copies = [torch.empty(t.shape, dtype=t.dtype, pin_memory=True) for t in tensors]
    for copy, tensor in zip(copies, tensors, strict=True):
        copy.copy_(tensor, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    return copies


def fill(tensor: torch.Tensor, array: NDArray[Any]) -> None:
    """Copy an array into a tensor, without waiting for the device."""
    given = as_tensor(np.ascontiguousarray(array))
    if tensor.device.type == "cuda":
        # PyTorch gives this memory to nobody else before the copy is done.
        pinned = torch.empty(given.shape, dtype=given.dtype, pin_memory=True)
        given = pinned.copy_(given)
    tensor.copy_(given, non_blocking=True)


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
