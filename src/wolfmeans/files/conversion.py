"""From numbers of any kind to float32 or float64, by one rule (exact.arrays)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.files.columns import refuse_large

_NEAR = 1 << 19
"""Bytes of rows that stay in a cache while column after column is written into them."""


def is_real(dtype: np.dtype[Any]) -> bool:
    """Whether entries of such an array are real numbers."""
    return dtype.kind in "fiub"


def put(numbers: NDArray[Any], out: NDArray[np.floating], where: str) -> None:
    """Write numbers into an array of their shape; refuse integers that it cannot hold exactly."""
    if numbers.dtype.kind in "iu" and numbers.dtype.itemsize == 8 and numbers.size:
        refuse_large(max(abs(int(numbers.min())), int(numbers.max())), where)
    with np.errstate(over="ignore"):  # infinite then, and refused as such
        few = max(1, _NEAR // max(1, out[:1].nbytes))
        for begin in range(0, len(numbers), few):
            np.copyto(out[begin : begin + few], numbers[begin : begin + few], casting="unsafe")
