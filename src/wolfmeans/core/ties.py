"""Which of two distances is certainly smaller, whatever they were rounded by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.workspace import Distances

UNIT = 2.0**-53


def told_apart(
    nearest: Distances, second: Distances, slack: float, n_features: int, error: float = 0.0
) -> NDArray[np.bool_]:
    """Whether each of the first squared distances is certainly smaller than the other one.

    A canonical distance is off by (d + 3) u of itself and by `error`; a center that is off its mean
    by r <= `slack` changes a distance, not squared, by at most r.
    """
    bound = 2.0 * UNIT * (n_features + 3) * (nearest + second)
    bound += 2.0 * error
    bound += 2.0 * slack * (np.sqrt(nearest) + np.sqrt(second) + slack)
    apart: NDArray[np.bool_] = second - nearest > bound
    return apart
