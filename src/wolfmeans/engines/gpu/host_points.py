"""Points of the device on the host too, for what is done there."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from wolfmeans.engines import get_engine
from wolfmeans.engines.reference import ReferencePoints


class OnHost:
    """The same points on the host, copied and opened there when they are needed.

    Parameters
    ----------
    X : array or tensor of shape (n, d)
        The rows; a tensor is copied when they are needed for the first time.
    weights : array of shape (n,) or None
        None for ones.
    n_threads : int
        For what is done on the host.
    """

    def __init__(
        self,
        X: NDArray[np.floating] | torch.Tensor,
        weights: NDArray[np.float64] | None,
        n_threads: int,
    ) -> None:
        self._X, self._weights, self._n_threads = X, weights, n_threads

    @property
    def rows(self) -> NDArray[np.floating]:
        """The rows."""
        if isinstance(self._X, torch.Tensor):
            self._X = self._X.cpu().numpy()
        return self._X

    @cached_property
    def points(self) -> ReferencePoints:
        """The rows, opened by the engine for this machine; shared, so nobody labels them."""
        opened: Any = get_engine("auto").open(self.rows, self._weights, self._n_threads)
        return opened

    def weighted(self, weights: NDArray[np.float64] | None, n_threads: int) -> OnHost:
        """Return the same rows with other weights."""
        return OnHost(self._X, weights, n_threads)
