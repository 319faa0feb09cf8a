"""K-means with limits on the sizes of clusters: the same objective over a smaller polytope.

{w >= 0, sum_k w_ik = 1, L_k <= sum_i w_i w_ik <= U_k}: f is still a minimum of linear functions of
the partition, so the loop, the rate and the guarantee stay as they are. The oracle is a transport
problem (`core.transport`). Without weights its vertices are partitions; with weights a vertex may
split points between clusters.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.draws import RandomSource
from wolfmeans.core.empty_clusters import POLICIES as KMEANS_POLICIES
from wolfmeans.core.frank_wolfe import State
from wolfmeans.core.kmeans import KMeansProblem, Partition, largest_residual, rounding_of_distances
from wolfmeans.core.solution import Solution
from wolfmeans.core.stopping import StoppingRule
from wolfmeans.core.transport import SizeLimits, common_unit
from wolfmeans.core.workspace import Centers, Distances, Limits, Workspace

POLICIES = tuple(policy for policy in KMEANS_POLICIES if policy != "admissible")
_MOST_BITS = 105


def size_limits(
    size_min: Any, size_max: Any, n_clusters: int, weights: NDArray[np.float64] | None, n: int
) -> SizeLimits:
    """Return the limits that the parameters mean; raise an error if no assignment meets them.

    Examples
    --------
    >>> size_limits(2, [3, 9], 2, None, 7)
    SizeLimits(lower=(2, 2), upper=(3, 7), total=7, unit=0)
    >>> size_limits(4, None, 2, None, 7)
    Traceback (most recent call last):
    ValueError: size_min cannot be met: 4 + 4 = 8, but there are only 7 points
    """
    low = _one_a_cluster(size_min, "size_min", n_clusters, weights is not None, default=0.0)
    high = _one_a_cluster(size_max, "size_max", n_clusters, weights is not None, default=math.inf)
    for k, (least, most) in enumerate(zip(low, high, strict=True)):
        if least > most:
            raise ValueError(
                f"size_min={least:g} is above size_max={most:g} for cluster {k}; "
                "every cluster needs size_min <= size_max"
            )
    finite = [limit for limit in (*low, *high) if math.isfinite(limit)]
    unit = common_unit(weights, finite)
    scale = Fraction(2) ** unit
    total = n if weights is None else sum(int(Fraction(w) / scale) for w in weights.tolist())
    if total.bit_length() > _MOST_BITS:
        raise ValueError(
            "the weights and size limits have too many binary digits together "
            f"({total.bit_length()}, at most {_MOST_BITS}); round the weights"
        )
    lower = tuple(int(Fraction(limit) / scale) for limit in low)
    upper = tuple(
        total if math.isinf(limit) else min(total, int(Fraction(limit) / scale)) for limit in high
    )
    weight = float(total * scale)
    if sum(lower) > total:
        what = f"there are only {n:,} points" if weights is None else "the weight of all points is"
        raise ValueError(f"size_min cannot be met: {_compared(low, what, weights, weight)}")
    if sum(upper) < total:
        what = f"there are {n:,} points" if weights is None else "the weight of all points is"
        raise ValueError(f"size_max leaves no room: {_compared(high, what, weights, weight)}")
    return SizeLimits(lower, upper, total, unit)


def _one_a_cluster(
    given: Any, name: str, n_clusters: int, weighted: bool, default: float
) -> list[float]:
    """Return a limit for each cluster."""
    if given is None:
        return [default] * n_clusters
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be a number or one for each cluster; got {given!r}"
        ) from None
    if values.ndim > 1 or (values.ndim == 1 and len(values) != n_clusters):
        raise ValueError(
            f"{name} must be a number or one for each of the {n_clusters} clusters; got an array "
            f"of shape {values.shape}"
        )
    limits: list[float] = np.broadcast_to(values, n_clusters).tolist()
    for limit in limits:
        if not limit >= 0 or (math.isinf(limit) and name == "size_min"):
            raise ValueError(f"{name} must be at least 0 and finite; got {limit}")
        if not weighted and math.isfinite(limit) and limit != int(limit):
            raise ValueError(
                f"{name}={limit} must be an integer, because it is a number of points when there "
                "are no weights"
            )
    return limits


def _compared(limits: Sequence[float], what: str, weights: Any, weight: float) -> str:
    """Return the sum of all limits beside what there is; with all digits if it needs them."""
    if weights is None:
        return f"{_sum_of(limits)}, but {what}"
    if f"{math.fsum(limits):g}" != f"{weight:g}":
        return f"{_sum_of(limits)}, but {what} {weight:g}"
    return (
        f"the limits sum to {math.fsum(limits)!r}, but {what} {weight!r}, the sums rounded; sizes "
        "are compared exactly, so leave some room between size_min and size_max"
    )


def _sum_of(limits: Sequence[float]) -> str:
    """Return the sum of all limits, written out."""
    total = f"{math.fsum(limits):g}"
    if len(limits) <= 4:
        return f"{' + '.join(f'{limit:g}' for limit in limits)} = {total}"
    if len(set(limits)) == 1:
        return f"{len(limits)} x {limits[0]:g} = {total}"
    return f"the {len(limits)} limits sum to {total}"


def size_range(limits: SizeLimits) -> tuple[float, float]:
    """Return the least and the largest weight that any cluster may have; infinite for no limit."""
    largest = max(limits.upper)
    most = math.inf if largest >= limits.total else math.ldexp(largest, limits.unit)
    return math.ldexp(min(limits.lower), limits.unit), most


class SizedWorkspace(Workspace, Protocol):
    """A workspace whose `assign` keeps the sizes of clusters within limits (engines.sized)."""

    size_limits: SizeLimits

    def optimality(self, centers: Centers) -> Any:
        """Recompute in exact arithmetic how much cheaper another assignment could be."""

    def gap_without(self, gap: float, centers: Centers, gone: NDArray[np.bool_]) -> float:
        """Return a gap less the loss if some clusters, empty so far, were not there."""


class ConstrainedProblem(KMeansProblem):
    """K-means on the points of a workspace that limits the sizes of clusters.

    Parameters
    ----------
    workspace : SizedWorkspace
        The points and the limits, opened by an engine.
    empty : {"farthest", "keep", "resample", "best"}
        How the center of an empty cluster is chosen. There are none where every size_min is
        positive.
    random : RandomSource
        Where `resample` gets its generator.
    """

    workspace: SizedWorkspace

    def __init__(self, workspace: SizedWorkspace, empty: str, random: RandomSource) -> None:
        if empty not in POLICIES:
            raise ValueError(
                f"empty={empty!r} is size_min=1 here: no cluster is empty then; choose one of "
                f"{', '.join(map(repr, POLICIES))}"
            )
        super().__init__(workspace, empty, random)

    def size_range(self) -> tuple[float, float] | None:
        """Return between what the weight of every cluster is."""
        return size_range(self.workspace.size_limits)

    def smallest_mass(self) -> float:
        """Return a positive number that no cluster in use weighs less than."""
        limits = self.workspace.size_limits
        return math.ldexp(max(1, min(limits.lower)), limits.unit)

    def limits(
        self, point: Partition, stop: StoppingRule, at_most: int, seconds: float
    ) -> Limits | None:
        """Return None: engines take steps within size limits one at a time."""
        return None

    def acceptable(self, state: State[Partition]) -> bool:
        """Whether no cluster is empty that could be filled.

        The limits of other clusters may keep a cluster empty although its center was moved to a
        data point. Then no point moves.
        """
        settled = state.vertex is not None and state.vertex.moved == 0
        return settled or super().acceptable(state)

    def clarke_gap(self, solution: Solution[Partition]) -> float:
        """Return the gap with the columns of empty clusters ignored.

        The other clusters have room for all points, since they hold them.
        """
        empty = solution.point.empty
        if not solution.vertex.weights[empty].any():
            return solution.gap
        without = self.workspace.gap_without(solution.gap, solution.point.centers, empty)
        return max(0.0, without)

    def candidate_decrease(self, solution: Solution[Partition]) -> float | None:
        """Return None: which points may join another cluster depends on all limits."""
        return None

    def tied(self, point: Partition) -> bool:
        """Whether another assignment within the limits may cost as little, up to rounding.

        It differs by moves of points along cycles of clusters. The cheapest cycle through each arc
        is compared with the rounding of its distances. With weights, parts of points may move, and
        nothing is claimed.
        """
        n_clusters = len(point.centers)
        if n_clusters == 1:
            return False
        if self.workspace.weights is not None:
            return True
        found = self.workspace.optimality(point.centers)
        limits, sizes = self.workspace.size_limits, point.weights
        more, less = sizes < np.array(limits.upper), sizes > np.array(limits.lower)
        around = cheapest_cycle(found.moves, more[:, None] & less[None, :])
        farthest = np.array([found.farthest])
        rounding = rounding_of_distances(
            farthest,
            farthest,
            largest_residual(point.residuals),
            self.workspace.n_features,
            self.workspace.distance_error(point.centers),
        )
        return not around > n_clusters * float(rounding[0])


def cheapest_cycle(moves: Distances, free: NDArray[np.bool_]) -> float:
    """Return the least cost of moving points along a cycle of clusters.

    `moves` has the cost of moving one point from a to b, at least 0 around every cycle; `free` says
    where a may grow by what b loses without a point.
    """
    arcs = np.where(free, np.minimum(moves, 0.0), moves)
    np.fill_diagonal(arcs, 0.0)
    paths = arcs.copy()
    for k in range(len(paths)):
        paths = np.minimum(paths, paths[:, k, None] + paths[None, k, :])
        np.fill_diagonal(paths, 0.0)  # below 0 by rounding alone
    points = moves.copy()
    np.fill_diagonal(points, np.inf)
    return float((points + paths.T).min())
