"""Preparation of columns before clustering, stored with the model for new data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Preparation:
    """Which columns are used, and how they are standardized.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 5.0], [3.0, 5.0]])
    >>> prepared = Preparation.standardizing(("a", "b"), X)
    >>> prepared.apply(X).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    >>> prepared.undo(np.array([[1.0, 0.0]])).tolist()
    [[3.0, 5.0]]
    """

    columns: tuple[str, ...]
    """Their names."""
    center: NDArray[np.float64] | None = None
    """Subtracted from the columns; None if they are not standardized."""
    scale: NDArray[np.float64] | None = None
    """Divides the columns after that."""

    @classmethod
    def standardizing(
        cls,
        columns: tuple[str, ...],
        X: NDArray[np.floating],
        weights: NDArray[np.float64] | None = None,
    ) -> Preparation:
        """Return the preparation that turns columns into z-scores, a constant column into 0."""
        if weights is not None and not weights.any():
            raise ValueError("all weights are 0: nothing says how to standardize")
        X = X.astype(np.float64, copy=False)
        variance = np.zeros(len(columns))
        with np.errstate(over="ignore", invalid="ignore"):  # rejected below
            center = np.average(X, axis=0, weights=weights)
            # One column at a time, to avoid a second table of the size of X.
            for j in range(len(columns)):
                variance[j] = np.average((X[:, j] - center[j]) ** 2, weights=weights)
        if not (np.isfinite(center).all() and np.isfinite(variance).all()):
            raise ValueError("values are too large to be standardized; rescale the columns")
        constant = X.min(axis=0) == X.max(axis=0)
        center[constant] = X[0, constant]
        scale = np.sqrt(variance)
        scale[constant | (scale == 0)] = 1.0
        return cls(columns, center, scale)

    @property
    def standardizes(self) -> bool:
        """Whether columns are changed."""
        return self.scale is not None

    def apply(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return the points as they are clustered."""
        if self.center is None or self.scale is None:
            return X
        prepared: NDArray[np.float64] = np.subtract(X, self.center, dtype=np.float64)
        prepared /= self.scale
        return prepared

    def undo(self, centers: NDArray[np.floating]) -> NDArray[np.floating]:
        """Return centers in the units of the columns."""
        if self.center is None or self.scale is None:
            return centers
        return centers * self.scale + self.center
