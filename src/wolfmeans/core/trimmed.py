"""Trimmed K-means as a concave problem: the same objective over a smaller set of partitions.

{0 <= sum_k w_ik <= 1, sum_ik w_i w_ik = h} keeps a mass h of the points and leaves the rest out.
f is still a minimum of linear functions, so the loop, the rate and the guarantee stay as they are.
The oracle keeps the points nearest to their centers (`engines.trimming`).
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.draws import RandomSource
from wolfmeans.core.empty_clusters import POLICIES as KMEANS_POLICIES
from wolfmeans.core.kmeans import KMeansProblem, Partition
from wolfmeans.core.solution import Solution
from wolfmeans.core.stopping import StoppingRule
from wolfmeans.core.workspace import Distances, Limits, TrimmedWorkspace
from wolfmeans.exact.sums import exact_sum, unit_exponent

# Longer numbers than any exact sum of weights needs.
_FRACTION = re.compile(r"([0-9]{1,2000})/([0-9]{1,2000})")

POLICIES = tuple(policy for policy in KMEANS_POLICIES if policy != "admissible")


def share_of(alpha: float) -> Fraction:
    """Return alpha as the decimal number that it is written as: 0.3 of 10 points are 3.

    Examples
    --------
    >>> share_of(0.3)
    Fraction(3, 10)
    """
    return Fraction(repr(float(alpha)))


def parsed_share(text: Any) -> Fraction:
    """Return a share that is written as a fraction; from 0 to 1, and without exponents.

    Examples
    --------
    >>> parsed_share("3/10")
    Fraction(3, 10)
    """
    found = _FRACTION.fullmatch(text) if isinstance(text, str) else None
    if found is None or not int(found[1]) < int(found[2]):
        raise ValueError("the share of points that is left out is not a fraction from 0 to 1")
    return Fraction(int(found[1]), int(found[2]))


def total_mass(weights: NDArray[np.float64] | None, n_points: int) -> Fraction:
    """Return the exact sum of the weights."""
    if weights is None:
        return Fraction(n_points)
    terms, parts = weights.tolist(), [0.0]
    # Each round finds the rounding error of the round before.
    while (part := exact_sum([*terms, *(-found for found in parts)])) != 0:
        parts.append(part)
    return sum(map(Fraction, parts), Fraction(0))


def kept_mass(share: Fraction, weights: NDArray[np.float64] | None, n_points: int) -> float:
    """Return the mass that is kept when a share of the total is trimmed; infinite to keep all.

    The trimmed mass is rounded down to a multiple of the weights' unit, the largest power of two
    of which all weights are multiples: to whole points when all weigh 1.

    Examples
    --------
    >>> kept_mass(share_of(0.25), None, 10)
    8.0
    """
    return kept_of_total(share, total_mass(weights, n_points), unit_exponent(weights))


def kept_of_total(share: Fraction, total: Fraction, exponent: int) -> float:
    """Return the same for weights of that total, whose unit is 2**exponent."""
    unit = Fraction(2) ** exponent
    trimmed = math.floor(share * total / unit) * unit
    return _rounded_down(total - trimmed) if trimmed else math.inf


def _rounded_down(mass: Fraction) -> float:
    """Return the largest float64 that is not larger: too much mass is never kept."""
    nearest = float(mass)
    return nearest if Fraction(nearest) <= mass else math.nextafter(nearest, 0.0)


class TrimmedProblem(KMeansProblem):
    """Trimmed K-means on the points of a workspace that keeps a mass.

    Parameters
    ----------
    workspace : TrimmedWorkspace
        The points and the mass to keep, opened by an engine.
    empty : {"farthest", "keep", "resample", "best"}
        How the center of an empty cluster is chosen: always among the points that are kept, since
        the farthest of all would be an outlier.
    random : RandomSource
        Where `resample` gets its generator.
    """

    workspace: TrimmedWorkspace

    def __init__(self, workspace: TrimmedWorkspace, empty: str, random: RandomSource) -> None:
        if empty not in POLICIES:
            raise ValueError(
                f"empty={empty!r} is not for trimmed problems: which points to force into a "
                "cluster and which to trim would be one joint assignment problem; choose one of "
                f"{', '.join(map(repr, POLICIES))}"
            )
        super().__init__(workspace, empty, random)

    @property
    def masses(self) -> NDArray[np.float64]:
        """(n,) what is kept of each point."""
        return self.workspace.kept()

    def trimmed_mass(self) -> float:
        """Return the weight that is left out, the exact sum rounded once."""
        return self.workspace.trimmed_mass()

    def kept_mass(self) -> float | None:
        """Return the weight that every partition has to keep; None for all of it."""
        return self.workspace.mass if self.trimmed_mass() > 0 else None

    def smallest_mass(self) -> float:
        """Return a positive number that no cluster in use weighs less than."""
        return self.workspace.smallest_mass()

    def limits(
        self, point: Partition, stop: StoppingRule, at_most: int, seconds: float
    ) -> Limits | None:
        """Return None: engines take trimmed steps one at a time."""
        return None

    def clarke_gap(self, solution: Solution[Partition]) -> float:
        """Return the gap with the columns of empty clusters ignored.

        Without them other points may be kept, so both sums are taken anew.
        """
        point = solution.point
        if not point.empty.any():
            return solution.gap
        gap = self.workspace.gap_without(solution.gap / self.unit, point.centers, point.empty)
        return max(0.0, self.unit * gap)

    def tied(self, point: Partition) -> bool:
        """Whether a kept point is tied between centers, or a trimmed one with a kept one."""
        return super().tied(point) or self._tied_at_threshold(point)

    def _tied_at_threshold(self, point: Partition) -> bool:
        """Whether mass could be exchanged between points without loss, up to rounding.

        A point kept in part can exchange mass with points outside and inside, so its distance must
        differ from both. Without one, the last kept and the first trimmed distance must differ.
        """
        last = self.workspace.threshold
        if math.isinf(last.distance):
            return False
        inside, weight, outside = self.workspace.around_threshold(point.centers)
        nearer, farther = [last.distance], [outside]
        if last.mass < weight:
            nearer.append(inside)
            farther.append(last.distance)
        pairs = [
            pair for pair in zip(nearer, farther, strict=True) if all(map(math.isfinite, pair))
        ]
        if not pairs:
            return False
        first, second = np.array(pairs).T
        return not self._certainly_smaller(point, first, second)

    def _near_ties(self, point: Partition, slack: float) -> tuple[Distances, Distances]:
        return self.workspace.kept_ties(point.centers, slack)
