"""The protocol every engine meets, and the records that cross it.

An engine puts data where it is processed and keeps one label per point there. It takes centers and
returns labels, exact sums and gaps. Engines may compute approximately, but their results are exact:
the same data and centers give the same bits on every engine (see docs/design.md, "Exactness").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.threshold import Threshold
from wolfmeans.exact.distances import Kernels as Kernels
from wolfmeans.exact.limbs import Limbs, added
from wolfmeans.exact.native import Centers as Centers
from wolfmeans.exact.native import Distances as Distances
from wolfmeans.exact.native import Labels as Labels
from wolfmeans.exact.sums import mean_and_residual

if TYPE_CHECKING:
    from wolfmeans.engines.sampling import WholePart
    from wolfmeans.engines.single_moves import SingleMoves
    from wolfmeans.engines.swaps import Swaps


@dataclass(frozen=True)
class Forced:
    """Rows that must take a given label in an assignment, whatever their nearest center."""

    rows: NDArray[np.int64]
    """Which rows."""
    labels: Labels
    """The label of each."""


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


@dataclass(frozen=True)
class Partial:
    """What an assignment did to a part of the points: an `Assignment` before rounding."""

    moved: int
    """Number of points whose label changed."""
    gap: Limbs
    """(1, 1) sum over moved points of w (D_old - D_new)."""
    totals: Limbs
    """(K, 1) weight of each cluster."""
    sums: Limbs
    """(K, d) sum of w x over each cluster."""

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        return self.sums.values.nbytes

    def __add__(self, other: Partial) -> Partial:
        """Return what was done to both parts."""
        return self.plus([other])

    def plus(self, others: Sequence[Partial]) -> Partial:
        """Return what was done to all parts."""
        some = [self, *others]
        return Partial(
            sum(partial.moved for partial in some),
            added(partial.gap for partial in some),
            added(partial.totals for partial in some),
            added(partial.sums for partial in some),
        )

    def rounded(self, fallback: Centers) -> Assignment:
        """Return the assignment of all points, of which this is the sum of all parts.

        The mean of a cluster without weight is the fallback's row.
        """
        weights, means = np.zeros(len(fallback)), fallback.copy()
        residuals = np.zeros(fallback.shape)
        exponent = self.sums.grid.low - self.totals.grid.low
        for k in range(len(fallback)):
            weight = self.totals.integer(k)
            weights[k] = self.totals.rounded(k)
            if weight == 0:
                continue
            for j in range(fallback.shape[1]):
                mean, residual = mean_and_residual(self.sums.integer(k, j), weight, exponent)
                means[k, j] = mean
                # Squeezing a float64 mean into float32 leaves a difference that float64 holds.
                residuals[k, j] = (mean - float(means[k, j])) + residual
        return Assignment(self.moved, self.gap.rounded(), weights, means, residuals)


@dataclass(frozen=True)
class Turn:
    """A step of unit centers: where they go, and what that gains in squared distances."""

    centers: Centers
    """(K, d) unit centers; the given ones where they are at least as good."""
    residuals: NDArray[np.float64]
    """(K, d) direction of the mean minus center; infinite where the mean is 0."""
    shift: float
    """Sum of the squared moves of the centers."""
    movement: float
    """Exact sum of what the moved centers gain, rounded once."""


@dataclass(frozen=True)
class Limits:
    """When a block of several steps ends."""

    at_most: int
    """Maximum number of points to evaluate."""
    seconds: float
    """No step is taken after this many seconds."""
    gap: float = -1.0
    """Stop at a gap of at most this."""
    decrease: float = -1.0
    """Stop when gap and movement together are at most this."""
    shift: float = -1.0
    """Stop at a point whose centers came by at most this."""
    keep_empty: bool = False
    """Whether the center of an empty cluster stays; else no step to such a partition is taken."""
    directions: bool = False
    """Whether centers go to the directions of the means (core.spherical) instead of the means."""


Arrival = tuple[Centers, NDArray[np.float64], Distances, float, float, float, int]
"""A partition: centers, residuals, weights, shift, movement, gap and moved points on arrival."""


@dataclass(frozen=True)
class Progress:
    """Several steps, taken at once."""

    evaluations: NDArray[np.float64]
    """(m, 6) for each evaluated point: moved, empty, gap, movement, shift, seconds since then."""
    point: Arrival | None
    """The last evaluated point; None when it is the one that the steps began at."""
    vertex: Arrival
    """The step from there, which was not taken."""


class Workspace(Protocol):
    """Data that has been opened by an engine, with one label per point living beside it."""

    engine: str
    """The name of the engine that works here."""
    n_points: int
    """Number of rows."""
    n_features: int
    """Number of columns."""
    dtype: np.dtype[Any]
    """The centers' dtype."""
    weights: NDArray[np.float64] | None
    """(n,) sample weights, None for ones."""
    steps_to_come: int
    """How many steps `advance` will be asked for right after the first assignment, 0 if unknown."""
    meanwhile: Callable[[], object] | None
    """A function to call while the host waits for a device; it may be called often, or never."""

    @property
    def runs_together(self) -> bool:
        """Whether several starts on such data run faster at once."""

    @property
    def in_parts(self) -> bool:
        """Whether the points are in parts; methods that need all of them are then missing."""

    def trimmed(self, mass: float) -> TrimmedWorkspace:
        """Return the oracle over these points that keeps the nearest ones of a mass.

        The mass is a whole multiple of the weights' unit, the largest power of two of which all
        weights are multiples: a number of points when all weigh 1.
        """

    def fork(self, n_threads: int) -> Workspace:
        """Return a workspace of the same points, without labels, that shares the data."""

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""

    def advance(
        self, centers: Centers, weights: Distances, shift: float, limits: Limits
    ) -> Progress | None:
        """Evaluate points from the given one on, taking the steps between them.

        None where the engine takes steps one at a time; what is found is the same.
        """

    def advance_with(
        self,
        others: Sequence[Workspace],
        starts: Sequence[tuple[Centers, Distances, float]],
        limits: Sequence[Limits],
        n_threads: int,
    ) -> list[Progress] | None:
        """Do so from several starts at once, on threads or on streams of a device.

        `others` are workspaces of the same points; all have labels. Limits may differ in their
        tolerances alone. None where the engine takes the steps of one start after the other.
        """

    def labels(self) -> Labels:
        """Return the current labels (a copy)."""

    def snapshot(self) -> Any:
        """Return the current labels (a copy) wherever they are: an array, or what becomes one."""

    def distances(self, centers: Centers) -> Distances:
        """Return each point's canonical distance to the center of its label."""

    def distances_to(self, center: Centers) -> Distances:
        """Return each point's canonical distance to one (d,) center."""

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return nearest labels and canonical distances without changing the state."""

    def near_ties(
        self, centers: Centers, slack: float
    ) -> tuple[NDArray[np.int64], Distances, Distances]:
        """Return rows with their canonical distances to the nearest and second nearest center.

        All rows whose two distances, not squared, differ by 2 slack (1 + slack / larger one) or
        less, up to rounding, are among them; others may be.
        """

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) square roots of the canonical distances to all centers."""

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return data rows, dense, in the centers' dtype."""

    def stored_rows(self, indices: NDArray[np.int64]) -> Any:
        """Return data rows in the centers' dtype, dense or CSR as they are stored."""

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of w D over the points at their labels, rounded once."""

    def mean(self, *, weighted: bool) -> Centers:
        """Return the (d,) mean of all points, rounded as a center."""

    def scatter(self, *, weighted: bool) -> float:
        """Return the sum of squares about the mean, with the points' weights or without them."""

    def lightest(self) -> float:
        """Return the smallest positive weight; 1 where points have none."""

    def order(self) -> NDArray[np.int64]:
        """Return the rows in an order that depends on their values alone (exact.ordering)."""

    def spread_rows(self, drawn: NDArray[np.int64], n_trials: int) -> NDArray[np.int64] | None:
        """Return the rows that k-means++ picks (seeding.spread_rows), None to leave it to that.

        `drawn` has 1 + (K - 1) n_trials integers of 0..2**63 - 2; fewer than K rows are
        returned if no point has positive mass any more.
        """

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row, equal for equal values (exact.hashing)."""

    def sampling(self) -> WholePart | None:
        """Return the rows as k-means|| asks for them; None: `engines.sampling.Part` answers."""

    def losses_without(self, centers: Centers, gone: NDArray[np.bool_]) -> Distances:
        """Return what the points lose, weighted, whose nearest center is among those gone.

        The labels must be those of the nearest centers; points that lose nothing may be left out.
        """

    def best_candidate(
        self, centers: Centers, masses: Distances | None, most: int
    ) -> tuple[int, float] | None:
        """Return the row that as one more center gains most, of `most` tried, and how much.

        The labels must be those of the nearest centers (core.empty_clusters). None: the caller
        computes it from distances.
        """

    def far_rows(
        self, centers: Centers, many: int, masses: Distances | None
    ) -> tuple[NDArray[np.int64], Distances, float] | None:
        """Return points far from the centers, in the order of their values, with their distances.

        All points of positive mass that are farther than the last number are among them, and about
        `many` in all; `masses` say what counts of each point, None for its weight. None: the
        caller computes all distances.
        """

    def distance_error(self, centers: Centers) -> float:
        """Return what a canonical distance may be off by beyond (d + 3) u of itself."""

    def total(self, values: NDArray[np.float64]) -> float:
        """Return the exact sum of an array, rounded once."""

    def step(self, found: Assignment, centers: Centers) -> tuple[float, float]:
        """Return the shift and the movement of a step from the centers to the means found."""

    def turn(self, found: Assignment, centers: Centers) -> Turn:
        """Return the step of unit centers to the directions of the means found."""

    def digest(self, centers: Centers) -> bytes:
        """Return bytes that are equal for equal centers, and practically for no others."""

    def largest(self) -> float:
        """Return the largest absolute value in the data."""

    def single_moves(self, centers: Centers, labels: Labels | None = None) -> SingleMoves:
        """Return a search by single moves from the labels (engines.single_moves).

        None means the current labels; given labels need not be nearest, and the workspace keeps
        its own. Centers of clusters without weight are as given; all others are means.
        """

    def swaps(self) -> Swaps:
        """Return what tells the cost of exchanging a center for a data point (engines.swaps)."""


class StepByStep:
    """Workspaces that take steps one at a time; fused ones override this."""

    def advance(
        self, centers: Centers, weights: Distances, shift: float, limits: Limits
    ) -> Progress | None:
        """Return None: steps are taken one at a time here."""
        return None

    def advance_with(
        self,
        others: Sequence[Workspace],
        starts: Sequence[tuple[Centers, Distances, float]],
        limits: Sequence[Limits],
        n_threads: int,
    ) -> list[Progress] | None:
        """Return None: steps are taken one start after the other here."""
        return None


class TrimmedWorkspace(Workspace, Protocol):
    """A workspace whose `assign` keeps the nearest points of a mass (engines.trimming).

    Labels are -1 for trimmed points; `cost` is the sum over the kept mass.
    """

    mass: float
    """What is kept of the total weight; infinite to keep all."""

    @property
    def threshold(self) -> Threshold:
        """The last point that is kept."""

    def kept(self) -> NDArray[np.float64]:
        """Return what is kept of each point's weight (a copy)."""

    def keep(self, distances: Distances) -> NDArray[np.float64]:
        """Return what would be kept of each point's weight if the points were this far away."""

    def smallest_mass(self) -> float:
        """Return a positive number that no positive kept mass is below."""

    def trimmed_mass(self) -> float:
        """Return the weight that is left out, the exact sum rounded once."""

    def n_trimmed(self) -> int:
        """Return how many points of positive weight are left out wholly."""

    def shares(self) -> Any:
        """Return the share of each point that is kept, wherever the points are (see `snapshot`)."""

    def margins(self, centers: Centers) -> Any:
        """Return by how much the verdict on each point holds, wherever the points are.

        In squared distance: for a kept point the nearest other center and the threshold are so much
        farther; a trimmed point is so much farther than the threshold.
        """

    def around_threshold(self, centers: Centers) -> tuple[float, float, float]:
        """Return the farthest distance inside, the last point's weight, the nearest one outside.

        The last point itself counts as neither; infinite where there is no such point.
        """

    def gap_without(self, gap: float, centers: Centers, gone: NDArray[np.bool_]) -> float:
        """Return a gap less what is lost if some centers were not there, rounded once."""

    def kept_ties(self, centers: Centers, slack: float) -> tuple[Distances, Distances]:
        """Return distances to the nearest and second nearest center of kept points near a tie.

        Either all kept points that `near_ties` describes are among them, or one that may be a tie.
        """


class Engine(Protocol):
    """A way to work on data."""

    name: str
    """What `engine=` calls it."""

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
