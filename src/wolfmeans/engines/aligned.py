"""Arrays as native code takes them.

Parts that came over a network, or files that are mapped, have arrays at odd addresses, and
`np.ascontiguousarray` lets them pass.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def aligned(array: Any, dtype: DTypeLike | None = None) -> NDArray[Any]:
    """Return a C-contiguous array at an address that fits its entries, a copy only if it must be.

    Examples
    --------
    >>> odd = np.zeros(17, dtype=np.uint8)[1:].view(np.float64)
    >>> odd.flags.aligned, aligned(odd).flags.aligned
    (False, True)
    """
    found = np.ascontiguousarray(array, dtype=dtype)
    return found if found.flags.aligned else found.copy()
