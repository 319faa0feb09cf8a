"""Memory for chunks that is used again when nobody looks at it any more.

Fresh memory has to be cleared by the system each time, which takes as long as reading it.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

_KEPT = 8


class Buffers:
    """Lends arrays; the memory of one is lent again when it and all views of it are gone.

    That is looked at when the next one is lent. To be told when an array goes would run code at
    any place of the main thread, and Ctrl-C that comes just then would be lost: Python drops
    exceptions there.
    """

    def __init__(self) -> None:
        self._known: deque[tuple[NDArray[np.uint8], weakref.ref[Any]]] = deque(maxlen=_KEPT)
        self._lock = threading.Lock()

    def lend(self, n_rows: int, n_columns: int, dtype: np.dtype[Any]) -> NDArray[np.floating]:
        """Return an array with anything in it."""
        with self._lock:
            memory = self._unused(n_rows * n_columns * dtype.itemsize)
            # NumPy gives views of views the first array as their base, as long as that is one:
            # here `lent`, below which there is no array. So it lives as long as any of them.
            lent = np.frombuffer(memory.data, dtype=dtype, count=n_rows * n_columns)
            self._known.append((memory, weakref.ref(lent)))
        return lent.reshape(n_rows, n_columns)

    def _unused(self, size: int) -> NDArray[np.uint8]:
        """Return memory of at least that size, the last that was lent first."""
        for place in reversed(range(len(self._known))):
            memory, lent = self._known[place]
            if lent() is None:
                del self._known[place]
                if len(memory) >= size:
                    return memory
        return np.empty(size, dtype=np.uint8)
