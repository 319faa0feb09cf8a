"""What workspaces of the GPU have in common, whether all rows are there or come part by part."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from wolfmeans.core.workspace import (
    Assignment,
    Centers,
    Distances,
    Forced,
    Labels,
    Partial,
    Workspace,
)
from wolfmeans.engines.gpu.clusters import Clusters, Lows
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.transfers import to_host
from wolfmeans.engines.gpu.weighting import Weighting
from wolfmeans.engines.reference import ReferencePoints
from wolfmeans.exact.limbs import Grids, Limbs
from wolfmeans.exact.native import digest


class DevicePoints(ReferencePoints):
    """Points with labels, bounds and exact sums on the device."""

    engine = "gpu"
    _kernels: Any

    def __init__(
        self,
        screened: Screened,
        n_points: int,
        n_threads: int,
        weights: NDArray[np.float64] | None,
        weighting: Weighting | None,
    ) -> None:
        self.n_points, self.n_features = n_points, screened.d
        self.dtype = np.dtype(np.float32 if screened.X.dtype == torch.float32 else np.float64)
        self.weights = weights
        self.grids: Grids | None = None
        self._screened, self._weighting, self._n_threads = screened, weighting, n_threads
        self._order = None
        self._last: tuple[Assignment, Centers, float, float] | None = None
        self._host_points: Workspace | None = None

    def _like(
        self, n_threads: int, weights: NDArray[np.float64] | None, weighting: Weighting | None
    ) -> Self:
        """Return a workspace of the same rows with other weights, without labels."""
        raise NotImplementedError

    def _bounds(self) -> tuple[Clusters, torch.Tensor, torch.Tensor] | None:
        """Return clusters, labels and slacks on the device; None before the first assignment."""
        raise NotImplementedError

    def _assign_rows(self, centers: Centers, forced: Forced | None) -> tuple[Clusters, Lows]:
        """Give rows their labels, and bring gap and sums up to date with them."""
        raise NotImplementedError

    def _gap_terms(self, centers: Centers) -> NDArray[np.float64]:
        """Return what each of the rows gained that moved in the last assignment."""
        raise NotImplementedError

    # --- Sums that add up ---------------------------------------------------------------------

    def ranges(self) -> Grids:
        """Return where exact sums over these points alone would stand."""
        on_host: Any = self._on_host()
        found: Grids = on_host.ranges()
        return found

    def assign_exactly(self, centers: Centers, forced: Forced | None = None) -> Partial:
        """Assign the points; return sums that can be added to those of other points."""
        grids = self.agreed_grids()
        clusters, lows = self._assign_rows(centers, forced)
        moved, gap, totals, sums = clusters.partial(grids, lows.gap)
        if gap is None:
            # The device's limbs had no room for a term; or it is negative, as forced labels may be.
            gap = Limbs.of_terms(self._gap_terms(centers))
        return Partial(moved, gap, totals, sums)

    # --- Answers that both kinds give ----------------------------------------------------------

    def _device_labels(self) -> torch.Tensor:
        """Return the labels on the device."""
        found = self._bounds()
        if found is None:
            raise RuntimeError("points have no labels before the first assignment")
        return found[1]

    def _current(self) -> Labels:
        return to_host(self._device_labels())[0]

    def labels(self) -> Labels:
        """Return the current labels (a copy)."""
        return self._current()

    def fork(self, n_threads: int) -> Self:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = self._like(n_threads, self.weights, self._weighting)
        twin.meanwhile, twin._host_points = self.meanwhile, self._host_points
        return twin

    def mean(self, *, weighted: bool) -> Centers:
        """Return the (d,) mean of all points, rounded as a center."""
        weights = (self.weights, self._weighting) if weighted else (None, None)
        zero = np.zeros((1, self.n_features), dtype=self.dtype)
        mean: Centers = self._like(self._n_threads, *weights).assign(zero).means[0]
        return mean

    def step(self, found: Assignment, centers: Centers) -> tuple[float, float]:
        """Return the shift and the movement of a step from the centers to the means found."""
        if self._last is not None and self._last[0] is found and self._last[1] is centers:
            return self._last[2], self._last[3]
        return super().step(found, centers)

    def near_ties(
        self, centers: Centers, slack: float
    ) -> tuple[NDArray[np.int64], Distances, Distances]:
        """Return the rows that the bounds cannot tell from a tie."""
        found, data = self._bounds(), self._screened
        if found is None or not np.array_equal(to_host(found[0].before)[0], centers):
            return super().near_ties(centers, slack)
        # Bounds are in scaled distances; with a margin for what they were rounded by.
        room = 2.0 * slack * data.scale * 2.0 + data.margin
        rows: NDArray[np.int64] = to_host(torch.nonzero(found[2] <= room).flatten())[0]
        return rows, *self._kernels.two_nearest(rows, centers)

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) square roots of the canonical distances to all centers."""
        roots: Centers = self._kernels.roots(centers)
        return roots

    def distance_error(self, centers: Centers) -> float:
        """Return 0: distances of dense rows are off by (d + 3) u of themselves and no more."""
        return 0.0

    def digest(self, centers: Centers) -> bytes:
        """Return 16 bytes that stand for the centers."""
        return digest(centers)

    def largest(self) -> float:
        """Return the largest absolute value in the data."""
        return self._screened.largest

    def _on_host(self) -> Workspace:
        """Return a workspace of the same points on the host, for what is done there."""
        from wolfmeans.engines import get_engine

        if self._host_points is None:
            engine = get_engine("auto")
            self._host_points = engine.open(self.host_rows, self.weights, self._n_threads)
        return self._host_points

    def single_moves(self, centers: Centers, labels: Labels | None = None) -> Any:
        """Return a search by single moves, one point after the other and hence on the host."""
        given = self._current() if labels is None else labels
        return self._on_host().single_moves(centers, given)

    def swaps(self) -> Any:
        """Return what tells the cost of exchanging a center for a data point, on the host."""
        return self._on_host().swaps()
