"""The reference engine: NumPy, short and slow, the specification of all others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.engines.labelled import LabelledPoints
from wolfmeans.exact.distances import ReferenceKernels


class ReferenceEngine:
    """NumPy in float64: the specification that other engines are compared with by `==`."""

    name = "reference"

    def open(
        self,
        X: Any,
        weights: NDArray[np.float64] | None,
        n_threads: int,
        algorithm: str = "auto",
    ) -> LabelledPoints:
        """Open dense or CSR data; threads and algorithm are of no use here."""
        return LabelledPoints(X, weights, ReferenceKernels(X))
