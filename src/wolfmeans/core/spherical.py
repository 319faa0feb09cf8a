"""Spherical K-means as a concave problem: rows and centers have norm 1.

f(w) = min over unit centers C of sum_ik w_i w_ik (1 - <x_i, c_k>) is a minimum of linear functions
of the partition w, hence concave; its value is the total weight minus sum_k ||s_k||, with s_k the
weighted sum of the rows of cluster k. Since ||x - c||^2 = 2 (1 - <x, c>) for unit vectors, the
oracle is the one of K-means, and half of its sums are the sums here. Only the center step is
another: the mean divided by its norm. A mean of 0 has no direction; its cluster keeps its center.

Numbers round, so that norms differ from 1 by a rounding. Therefore 1 - cos is half of the canonical
squared distance of the rounded vectors, everywhere, and a center moves to the rounded direction of
its mean only if that lowers the sum. Descent and the ledger hold for these sums.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from wolfmeans.core.kmeans import KMeansProblem, Partition
from wolfmeans.core.stopping import StoppingRule
from wolfmeans.core.trimmed import TrimmedProblem
from wolfmeans.core.workspace import Assignment, Centers, Limits, Turn
from wolfmeans.exact.directions import norm_error, specified_unit_rows
from wolfmeans.exact.sums import exact_sum


def turn(found: Assignment, centers: Centers) -> Turn:
    """Return the center step from given unit centers to the directions of the means.

    This is the specification of `Workspace.turn`.

    With m the mean and D the move of a center to c, the squared distances of a cluster of weight W
    change by -W sum_j D_j (D_j + 2 (m_j - c_j)), where m - c is computed from the rounded mean and
    its residual.
    """
    rounded = found.means.astype(np.float64)
    directions = specified_unit_rows(rounded + found.residuals)
    towards = (found.weights > 0) & directions.any(axis=1)
    aims = np.where(towards[:, None], directions.astype(centers.dtype), centers)
    moves = aims.astype(np.float64) - centers
    gains = moves * (moves + 2.0 * ((rounded - aims) + found.residuals))
    each = np.zeros(len(centers))
    for k in np.flatnonzero(towards & moves.any(axis=1)):
        each[k] = found.weights[k] * exact_sum(gains[k].tolist())
    better = each > 0
    new = np.where(better[:, None], aims, centers)
    residuals = np.zeros(centers.shape)
    residuals[towards] = directions[towards] - new[towards]
    residuals[(found.weights > 0) & ~towards] = np.inf
    shift = exact_sum((moves[better] ** 2).ravel().tolist())
    return Turn(new, residuals, shift, exact_sum(each[better].tolist()))


class SphericalProblem(KMeansProblem):
    """Spherical K-means on the unit rows of a workspace.

    Parameters
    ----------
    workspace : Workspace
        The unit rows, opened by an engine.
    empty : {"farthest", "keep", "resample", "best", "admissible"}
        How the center of an empty cluster is chosen.
    random : RandomSource
        Where `resample` gets its generator.
    """

    unit = 0.5
    cost = "cosine distances (1 - cos)"

    def limits(
        self, point: Partition, stop: StoppingRule, at_most: int, seconds: float
    ) -> Limits | None:
        """Return where several steps at once must end, in squared distances."""
        limits = super().limits(point, stop, at_most, seconds)
        if limits is None:
            return None
        # The unit is a power of two: products with it and quotients are exact.
        gap, decrease = limits.gap / self.unit, limits.decrease / self.unit
        return replace(limits, gap=gap, decrease=decrease, directions=True)

    def partition(self, seeds: Centers) -> Partition:
        """Return the first partition; no engine may take steps behind it, which lead to means."""
        self.workspace.steps_to_come = 0
        return super().partition(seeds)

    def _arrival(self, found: Assignment, supergradient: Centers) -> Partition:
        turned = self.workspace.turn(found, supergradient)
        return Partition(
            centers=turned.centers,
            residuals=turned.residuals,
            weights=found.weights,
            shift=turned.shift,
            movement=self.unit * turned.movement,
            gap=self.unit * found.gap,
            moved=found.moved,
        )

    def tied(self, point: Partition) -> bool:
        """Whether a point may be tied between two centers, or a mean has no direction."""
        return bool(np.isinf(point.residuals).any()) or super().tied(point)

    def _offset(self, point: Partition) -> float:
        """Return how far a center is from the exact direction of its mean at most."""
        return super()._offset(point) + norm_error(np.float64, self.workspace.n_features)


class TrimmedSphericalProblem(SphericalProblem, TrimmedProblem):
    """The same over a workspace that keeps the mass with the largest cosines (core.trimmed)."""
