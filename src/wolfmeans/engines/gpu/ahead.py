"""Steps taken ahead of the host, behind the first assignment of a fit.

When the first assignment is done, the host has to fetch what it found, to make a first partition of
it, to find out what the tolerance is, and to launch the next steps: for short steps, the device
would wait for longer than it works. So some steps are launched right behind the first assignment,
by no rule but that of the device, which ends where no point moves or a sum has no room.

They are steps that the fit would take, unless it would have ended before. What they found is taken
over if the next thing that is asked for is steps from exactly where they began, and if, of these
steps, none but the last that was taken meets the rule that is then given. Otherwise the first
assignment is made again: all that is on the device is determined by its centers, so nobody can
tell the difference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.workspace import Centers, Distances, Limits

_SHORT = 1 << 25
_VERY_SHORT = 1 << 30


def worth_taking(n: int, d: int, n_clusters: int, to_come: int) -> int:
    """Return how many steps to take ahead, of those that are to come: none or an odd number.

    So the buffers are where they were. Long steps need not be taken ahead, and would cost more
    where they have to be undone; one cluster is a mean that is asked for on the way.
    """
    if to_come < 1 or n_clusters < 2 or n * d > _SHORT:
        return 0
    return 3 if to_come >= 3 and n * d * n_clusters <= _VERY_SHORT else 1


@dataclass(frozen=True)
class Ahead:
    """What was taken ahead, and from where."""

    seeds: Centers
    """The centers of the first assignment."""
    centers: Centers
    """The means that it found, where the steps begin."""
    weights: Distances
    """The weights of its clusters."""
    shift: float
    """How far the centers moved."""
    steps: int
    """So many steps were launched."""

    def lead_on(self, centers: Centers, weights: Distances, shift: float, limits: Limits) -> bool:
        """Whether these are the steps that are asked for, or the first of them."""
        same = centers is self.centers and weights is self.weights and shift == self.shift
        return same and limits.at_most >= self.steps

    def overshot(self, records: NDArray[np.float64], limits: Limits) -> bool:
        """Whether a step was taken beyond one that meets the rule, of these records.

        Comparisons are those of `finish_step`, which knew of none but the last of these rules.
        """
        return any(_is_met(record, limits) for record in records[:-1][: self.steps].tolist())


def _is_met(record: list[float], limits: Limits) -> bool:
    moved, _, gap, movement, shift, _, empty, inexact = record
    return (
        gap <= limits.gap
        or gap + movement <= limits.decrease
        or shift <= limits.shift
        or (empty > 0 and not limits.keep_empty)
        or moved == 0
        or inexact != 0
    )
