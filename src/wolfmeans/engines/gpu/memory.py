"""What data takes of the device's memory, and how much of that there is."""

from __future__ import annotations

import math
import os
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch

from wolfmeans.core.byte_sizes import parse_bytes, said
from wolfmeans.engines.gpu.screening import short_bytes

LIMIT = "WOLFMEANS_GPU_MEMORY"
"""An environment variable: no more than this is taken, like 2GB or 512MiB."""
_SHARE = 0.95
"""Of what is free; PyTorch cannot use all of it."""
BYTES_OF_A_ROW = 200
"""Bytes of a row beside its numbers: label, bound, lists, distance, order; twice where a second
workspace has the same points, as that of another start has."""
_OF_A_STREAMED_ROW = 32
"""Bytes that a row always takes: label, bound, label before, in two workspaces; and a place in a
list of a quarter of the rows."""
_WINDOW = 1 << 30
"""More bytes than this make a window no faster."""
MOST_KEPT = 1 << 29
"""Fits whose tensors take more bytes than this do not wait for launches."""
_STAYING = 0.9
"""Of what is left then, for rows that stay; the rest is for clusters, which may be many."""
ALIGNED = 16
"""Windows have multiples of so many rows, for aligned pointers to all that belongs to them."""


def is_small(n: int, d: int) -> bool:
    """Whether the memory of a fit is kept for the next one."""
    return n * (short_bytes(d) + BYTES_OF_A_ROW) <= MOST_KEPT


def kept(device: str | torch.device, n: int, d: int) -> AbstractContextManager[Any]:
    """Return a context in which tensors of a small fit come from memory that is kept for fits.

    So they are where those of the last fit were, whatever else is done in between, and its
    launches can be used again (`steps`). Others get that memory when there is no other left.
    """
    if (
        not is_small(n, d)
        or torch.device(device).type != "cuda"
        or not hasattr(torch.cuda, "MemPool")
    ):
        return nullcontext()
    return torch.cuda.use_mem_pool(_pool(torch.cuda.current_device()))


@cache
def _pool(device: int) -> Any:
    return torch.cuda.MemPool(use_on_oom=True)


def available(device: str) -> float:
    """Return how many bytes may be taken; what PyTorch keeps for later counts as free."""
    text = os.environ.get(LIMIT)
    limit = math.inf if not text else float(parse_bytes(text, LIMIT))
    if device != "cuda":
        return limit
    free, _ = torch.cuda.mem_get_info()
    kept = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    return min(limit, _SHARE * (free + kept))


def resident_bytes(n: int, d: int, itemsize: int, *, weighted: bool) -> int:
    """Return what data takes when all of it is on the device."""
    return n * (d * itemsize + short_bytes(d) + BYTES_OF_A_ROW + 8 * weighted)


def _window_bytes(d: int, itemsize: int, *, weighted: bool) -> int:
    """Return what a row of a window takes: two windows, one short copy, two sets of lists."""
    return 2 * (d * itemsize + 8 * weighted) + short_bytes(d) + BYTES_OF_A_ROW


def streamed_bytes(n: int, d: int, itemsize: int, rows: int, *, weighted: bool) -> int:
    """Return what streaming takes with windows of so many rows, as much again left free."""
    return n * _OF_A_STREAMED_ROW + 2 * rows * _window_bytes(d, itemsize, weighted=weighted)


def share_out(n: int, d: int, itemsize: int, budget: float, *, weighted: bool) -> tuple[int, int]:
    """Return how many rows a window has, and how many rows there is room for besides.

    Raises
    ------
    MemoryError
        If there is no room for a window.
    """
    each = _window_bytes(d, itemsize, weighted=weighted)
    left = budget - n * _OF_A_STREAMED_ROW
    rows = int(min(left / 2, _WINDOW) // each) // ALIGNED * ALIGNED
    if rows < ALIGNED:
        raise no_room(n, d, itemsize, budget, weighted=weighted)
    rows = min(rows, -(-n // ALIGNED) * ALIGNED)
    return rows, int(min(n, _STAYING * (left - 2 * rows * each) / (d * itemsize)))


def no_room(n: int, d: int, itemsize: int, budget: float, *, weighted: bool) -> MemoryError:
    """Return what to say of data that cannot even be streamed."""
    least = streamed_bytes(n, d, itemsize, ALIGNED, weighted=weighted)
    return MemoryError(
        f"{n} points of {d} columns need at least {said(least)} on the GPU even when their "
        f"numbers stay in the host's memory, and it has {said(budget)} free: free some of it, "
        "cluster fewer rows, or take engine='cpu', which gives the same result"
    )


def too_large(n: int, d: int, itemsize: int, *, weighted: bool, device: str) -> MemoryError:
    """Return what to say of data that is on the device, where there is no room to work on it."""
    needed = resident_bytes(n, d, itemsize, weighted=weighted)
    return MemoryError(
        f"{n} points of {d} columns need about {said(needed)} on the GPU, which has "
        f"{said(available(device))} free: convert X to float32, cluster fewer rows, give X as an "
        "array in the host's memory, from where it is streamed, or take engine='cpu'; all give the "
        "same result"
    )
