"""The protocol every engine meets, and the records that cross it.

An engine puts data where it is worked on and keeps one label per point there. Centers go in;
labels, exact sums and gaps come out. Engines may be approximate inside and are exact outside: the
same data and centers give the same bits on every engine (see docs/design.md, "Exactness").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Centers = NDArray[np.floating]
"""(K, d) in the centers' dtype: float32 for float32 data, float64 otherwise."""
Labels = NDArray[np.int32]
"""(n,) one label per point."""
Distances = NDArray[np.float64]
"""(n,) canonical squared distances."""


@dataclass(frozen=True)
class Forced:
    """Rows that must take a given label in an assignment, whatever their nearest center."""

    rows: NDArray[np.int64]
    labels: Labels


@dataclass(frozen=True)
class Assignment:
    """What an assignment did: the new partition's moments and the gap of the old one."""

    moved: int
    """Number of points whose label changed."""
    gap: float
    """Sum over moved points of w (D_old - D_new) at the given centers; 0.0 for the first labels."""
    weights: Distances
    """(K,) total weight of each cluster, correctly rounded."""
    means: Centers
    """(K, d) mean of each cluster rounded to float64, then to the centers' dtype; the given
    center where the cluster has no weight."""
    residuals: NDArray[np.float64]
    """(K, d) exact mean minus `means`, rounded; 0 where the cluster has no weight."""


class Workspace(Protocol):
    """Data that has been opened by an engine, with one label per point living beside it."""

    engine: str
    """The name of the engine that works here."""
    n_points: int
    n_features: int
    dtype: np.dtype[Any]
    """The centers' dtype."""
    weights: NDArray[np.float64] | None
    """(n,) sample weights, None for ones."""

    def fork(self) -> Workspace:
        """Return a workspace of the same points, without labels, that shares the data."""

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""

    def labels(self) -> Labels:
        """Return the current labels (a copy)."""

    def distances(self, centers: Centers) -> Distances:
        """Return each point's canonical distance to the center of its label."""

    def distances_to(self, center: Centers) -> Distances:
        """Return each point's canonical distance to one (d,) center."""

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return nearest labels and canonical distances without changing the state."""

    def second_nearest(self, centers: Centers) -> tuple[Distances, Distances]:
        """Return canonical distances to the nearest and the second nearest center."""

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return data rows, dense, in the centers' dtype."""

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of w D over the points at their labels, rounded once."""

    def mean(self, *, weighted: bool) -> Centers:
        """Return the (d,) mean of all points, rounded as a center."""

    def order(self) -> NDArray[np.int64]:
        """Return the rows in an order that depends on their values alone (engines.ordering)."""

    def distance_error(self, centers: Centers) -> float:
        """Return what a canonical distance may be off by beyond (d + 3) u of itself."""

    def total(self, values: NDArray[np.float64]) -> float:
        """Return the exact sum of an array, rounded once."""

    def step(self, found: Assignment, centers: Centers) -> tuple[float, float]:
        """Return the shift and the movement of a step from the centers to the means found."""

    def digest(self, centers: Centers) -> bytes:
        """Return bytes that are equal for equal centers, and practically for no others."""

    def largest(self) -> float:
        """Return the largest absolute value in the data."""


class Engine(Protocol):
    """A way to work on data."""

    name: str

    def open(
        self,
        X: Any,
        weights: NDArray[np.float64] | None,
        n_threads: int,
        algorithm: str = "auto",
    ) -> Workspace:
        """Put validated data where it is worked on. X itself is never changed.

        The algorithm says how nearest centers are found and never changes the result.
        """
