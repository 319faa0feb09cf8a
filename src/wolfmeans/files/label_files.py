"""NPY files of labels, written piece by piece."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import IO

import numpy as np
from numpy.typing import NDArray


def write_npy_pieces(file: IO[bytes], pieces: Iterable[NDArray[np.int32]]) -> int:
    """Write pieces of labels as one NPY file; return their number."""
    count = 0
    _write_header(file, 0)
    for piece in pieces:
        file.write(np.ascontiguousarray(piece, dtype="<i4").data.cast("B"))
        count += len(piece)
    # NumPy leaves room in a header for the number to grow.
    file.seek(0)
    _write_header(file, count)
    file.seek(0, os.SEEK_END)
    return count


def _write_header(file: IO[bytes], count: int) -> None:
    described = {"shape": (count,), "fortran_order": False, "descr": "<i4"}
    np.lib.format.write_array_header_1_0(file, described)
