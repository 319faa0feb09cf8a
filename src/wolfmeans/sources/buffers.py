"""Memory for chunks that is used again when nobody looks at it any more.

Fresh memory has to be cleared by the system each time, which takes as long as reading it.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

_KEPT = 4


class Buffers:
    """Lends arrays; the memory of one comes back when it and all views of it are gone."""

    def __init__(self) -> None:
        self._free: deque[NDArray[np.uint8]] = deque(maxlen=_KEPT)

    def lend(self, n_rows: int, n_columns: int, dtype: np.dtype[Any]) -> NDArray[np.floating]:
        """Return an array with anything in it."""
        size = n_rows * n_columns * dtype.itemsize
        try:
            memory = self._free.pop()
        except IndexError:
            memory = np.empty(size, dtype=np.uint8)
        if len(memory) < size:
            memory = np.empty(size, dtype=np.uint8)
        # NumPy gives views of views the first array as their base, as long as that is one: here
        # `lent`, below which there is no array. So it lives as long as any of them.
        lent = np.frombuffer(memory.data, dtype=dtype, count=n_rows * n_columns)
        # The callback must not keep this pool alive, nor the memory when the pool is gone.
        weakref.finalize(lent, _give_back, weakref.ref(self), memory).atexit = False
        return lent.reshape(n_rows, n_columns)


def _give_back(pool: weakref.ref[Buffers], memory: NDArray[np.uint8]) -> None:
    there = pool()
    if there is not None:
        there._free.append(memory)
