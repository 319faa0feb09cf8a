"""Arrays on their way between the host and the device."""

from __future__ import annotations

import warnings
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
