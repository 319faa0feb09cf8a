"""What a part of the data answers where points are trimmed.

The threshold is found over all parts (`trimmed_points`): each tells the masses of its points
by their distances, in buckets. As integers the bits of distances stand in the order of the
distances, so a bucket is a range of integers. Then each part is told the threshold, and keeps what
is up to it. Labels follow from centers and threshold, and are found again when they are lost.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.threshold import Masses, Threshold, filled_at, kept_masses, whole_number
from wolfmeans.core.workspace import Centers, Distances, Partial
from wolfmeans.engines.trimming import Trimmed
from wolfmeans.exact.distances import certainly_smaller
from wolfmeans.exact.limbs import Grid, Grids, Limbs, added
from wolfmeans.exact.sums import unit_exponent

if TYPE_CHECKING:
    from wolfmeans.engines.places.memory import FarRows, Labelling

BUCKET_BITS = 12
BUCKETS = 1 << BUCKET_BITS
"""How many buckets a bracket has."""
FEW = 2048
"""So many points in a bracket are told one by one."""
# Questions that need no more than the distances that were found last, or the labels.
_FROM_DISTANCES = ("nearby", "mass_at", "last_row")
_FROM_LABELS = ("labels", "kept", "shares", "n_trimmed")
# So many weights, each limb of which has at most 46 bits, can be added before a carry.
_ROWS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class Bracket:
    """Distances of which the bits, as an integer, are in first..end - 1, in equal buckets."""

    first: int
    shift: int
    """A bucket is 2**shift integers wide."""

    @property
    def end(self) -> int:
        """The first integer beyond."""
        return self.first + (BUCKETS << self.shift)

    def within(self, bucket: int) -> Bracket:
        """Return the bracket that begins with a bucket and has all of it."""
        first = self.first + (bucket << self.shift)
        return Bracket(first, max(0, self.shift - BUCKET_BITS))


@dataclass(frozen=True)
class Points:
    """Some points: their distances as integers, rows and weights; None for ones."""

    bits: NDArray[np.int64]
    rows: NDArray[np.int64]
    weights: Masses | None


@dataclass(frozen=True)
class Nearby:
    """What there is up to the end of a bracket."""

    bracket: Bracket
    nearer: Limbs
    """(1, 1) the mass of the points before it."""
    points: Points | None
    """The points in it, in no order; None where they are many."""
    buckets: Limbs | None
    """(BUCKETS, 1) their masses then."""

    def plus(self, others: Sequence[Nearby]) -> Nearby:
        """Return what there is in all parts; points as long as they are few."""
        some = [self, *others]
        nearer = added([one.nearer for one in some])
        few = [one.points for one in some if one.points is not None]
        if len(few) < len(some) or sum(len(points.rows) for points in few) > FEW:
            buckets = added([one.in_buckets() for one in some])
            return Nearby(self.bracket, nearer, None, buckets)
        bits, rows = (
            np.concatenate(several)
            for several in zip(*((points.bits, points.rows) for points in few), strict=True)
        )
        weights = [points.weights for points in few if points.weights is not None]
        points = Points(bits, rows, np.concatenate(weights) if weights else None)
        return Nearby(self.bracket, nearer, points, None)

    def in_buckets(self) -> Limbs:
        """Return the masses in each bucket."""
        if self.points is None:
            assert self.buckets is not None
            return self.buckets
        return _in_buckets(self.points.bits, self.points.weights, self.bracket, self.nearer.grid)


@dataclass(frozen=True)
class Weighing:
    """What the weights of a part are like."""

    total: Limbs
    """Their exact sum."""
    unit: int | None
    """The largest e for which all are multiples of 2**e; None where all are 0."""


class TrimmingPart:
    """The questions of `MemoryPart` that are about trimming.

    `aim` is a labelling to come: its centers are known, its threshold is not.
    """

    _X: NDArray[np.floating]
    _weights: Masses | None
    _kind: tuple[Any, ...]
    _settings: tuple[str, int, str]
    _labelled: Any
    _grids: Grids | None
    _key: bytes | None
    _n_clusters: int
    _points: Any
    _ahead: bytes | None = None
    """Stands for the centers that the labelled points have approached."""
    _elsewhere: tuple[bytes, Distances] | None = None
    """Distances to more or fewer centers than the labels are of, and what stands for these."""

    def _having(self, at: Labelling) -> Any:
        """Return the points with these labels."""
        raise NotImplementedError

    def far_rows(self, centers: Centers, many: int, masses: Distances | None) -> FarRows:
        """Return up to `many` rows of positive mass, the farthest first."""
        raise NotImplementedError

    def _approach(self, aim: Labelling) -> Trimmed:
        """Return the points after they have looked for the nearest of the centers."""
        points: Any = self._labelled
        if not isinstance(points, Trimmed) or self._grids != aim.grids:
            points = self._points.fork(self._settings[1]).trimmed(math.inf).summing_on(aim.grids)
            self._labelled, self._grids, self._key, self._ahead = points, aim.grids, None, None
        centers = points.digest(aim.centers)
        if self._ahead != centers:
            self._ahead = None
            points.part_trimmer.approach(aim.centers)
            self._ahead = centers
        assert isinstance(points, Trimmed)
        return points

    def _keep(self, to: Labelling, threshold: Threshold) -> Partial:
        """Go on to a trimmed labelling."""
        if self._key is not None and self._n_clusters != len(to.centers):
            self._labelled = self._key = None
        points = self._approach(to)
        ahead = self._ahead
        # Whatever happens in between, nobody takes half-finished labels for the old ones.
        self._labelled = self._key = self._ahead = None
        partial = points.part_trimmer.keep(to.centers, threshold)
        self._labelled, self._key, self._ahead = points, to.key, ahead
        self._n_clusters = len(to.centers)
        return partial

    def _distances(self, aim: Labelling) -> Distances:
        """Return the distances to the nearest of the centers; labels stay what they are."""
        if self._key is None or self._n_clusters == len(aim.centers):
            return self._approach(aim).part_trimmer.approached()
        centers = self._points.digest(aim.centers)
        if self._elsewhere is None or self._elsewhere[0] != centers:
            self._elsewhere = (centers, self._points.nearest(aim.centers)[1])
        return self._elsewhere[1]

    def knows(self, method: str, *given: Any) -> bool:
        """Whether a question is answered from what is kept here, without rows and weights.

        Weights may have been put away with the rows.
        """
        if not isinstance(self._labelled, Trimmed) or self._kind[2]:
            return False
        if method in _FROM_LABELS:
            return bool(self._key == given[0].key)
        if method not in _FROM_DISTANCES:
            return False
        same = self._ahead == self._labelled.digest(given[0].centers)
        return bool(same and self._grids == given[0].grids)

    def _bits(self, aim: Labelling) -> NDArray[np.int64]:
        """Return the distances as integers that have the same order."""
        return self._distances(aim).view(np.int64)

    def _own_weights(self) -> Masses | None:
        if self._weights is None and self._kind[2]:
            raise RuntimeError("the rows of this part have been put away")
        return self._weights

    # --- The threshold -----------------------------------------------------------------------

    def weighing(self, grids: Grids) -> Weighing:
        """Say what the weights are like."""
        weights = self._own_weights()
        if weights is None:
            return Weighing(_mass(grids.totals, self._kind[0][0]), 0)
        positive = weights[weights > 0]
        total = _mass(grids.totals, self._whole_numbers(weights, grids.totals))
        return Weighing(total, unit_exponent(positive) if len(positive) else None)

    def nearby(self, aim: Labelling, bracket: Bracket, first_row: int) -> Nearby:
        """Return the mass of points nearer than a bracket, and the points in it, if they are few.

        Else their masses by bucket. The first row has that number among all.
        """
        grid, weights = aim.grids.totals, self._own_weights()
        bits = self._bits(aim)
        below = bits < bracket.first
        if weights is None:
            nearer = _mass(grid, int(np.count_nonzero(below)))
        else:
            nearer = _mass(grid, self._whole_numbers(weights[below], grid))
        inside = ~below
        if bracket.end <= np.iinfo(np.int64).max:
            inside &= bits < bracket.end
        if np.count_nonzero(inside) > FEW:
            return Nearby(bracket, nearer, None, _in_buckets(bits, weights, bracket, grid))
        rows = np.flatnonzero(inside)
        points = Points(bits[rows], first_row + rows, None if weights is None else weights[rows])
        return Nearby(bracket, nearer, points, None)

    def mass_at(self, aim: Labelling, distance: int) -> Limbs:
        """Return the mass of the points at one distance."""
        weights = self._own_weights()
        tied = self._bits(aim) == distance
        if weights is None:
            return _mass(aim.grids.totals, int(np.count_nonzero(tied)))
        return _mass(aim.grids.totals, self._whole_numbers(weights[tied], aim.grids.totals))

    def last_row(self, aim: Labelling, distance: int, missing: int) -> tuple[int, int]:
        """Return the row at one distance that fills what is missing, and what is kept of it."""
        grid, weights = aim.grids.totals, self._own_weights()
        rows = np.flatnonzero(self._bits(aim) == distance)
        if weights is None:
            return int(rows[missing - 1]), 1
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            some = rows[start : start + _ROWS_AT_ONCE]
            mass = self._whole_numbers(weights[some], grid)
            if mass >= missing:
                numbers = (whole_number(weight, grid.low) for weight in weights[some].tolist())
                place, rest = filled_at(numbers, missing)
                return int(some[place]), rest
            missing -= mass
        raise AssertionError("the points at this distance were found to have more mass")

    def _whole_numbers(self, weights: Masses, grid: Grid) -> int:
        """Return the sum of weights as a multiple of 2**grid.low."""
        total = self._points.exact_total(weights)
        return cast("int", total.integer() >> (grid.low - total.grid.low))

    def kept_cost(self, aim: Labelling, threshold: Threshold) -> Limbs:
        """Return the exact sum of v D if the points up to a threshold were kept."""
        distances = self._distances(aim)
        kept = kept_masses(threshold, distances, self._own_weights())
        self._elsewhere = None  # nothing is asked about these centers after that
        return cast("Limbs", self._points.exact_total(kept * distances))

    # --- What is kept ------------------------------------------------------------------------

    def kept(self, at: Labelling) -> Masses:
        """Return what is kept of each point's weight."""
        return cast("Masses", self._having(at).kept())

    def shares(self, at: Labelling) -> Masses:
        """Return which share of each point is kept."""
        return cast("Masses", self._having(at).shares())

    def margins(self, at: Labelling, centers: Centers) -> Distances:
        """Return by how much the verdict on each point holds."""
        return cast("Distances", self._having(at).margins(centers))

    def left_out(self, at: Labelling) -> Limbs:
        """Return the exact mass that is left out."""
        points = self._having(at)
        return cast("Limbs", points.exact_total(points.left_out()))

    def n_trimmed(self, at: Labelling) -> int:
        """Return how many points of positive weight are left out wholly."""
        return cast("int", self._having(at).n_trimmed())

    def around_threshold(self, at: Labelling, centers: Centers) -> tuple[float, float, float]:
        """Return the farthest distance inside, the last point's weight, the nearest one outside.

        The weight is 0 where the last point is elsewhere.
        """
        return cast("tuple[float, float, float]", self._having(at).around_threshold(centers))

    def kept_ties(
        self, at: Labelling, centers: Centers, slack: float
    ) -> tuple[Distances, Distances]:
        """Return two distances of one kept point that cannot be told from a tie, if any."""
        nearest, second = self._having(at).kept_ties(centers, slack)
        error = self._points.distance_error(centers)
        tied = ~certainly_smaller(nearest, second, slack, centers.shape[1], error)
        one = np.flatnonzero(tied)[:1]
        return nearest[one], second[one]

    def kept_far_rows(self, at: Labelling, centers: Centers, many: int) -> FarRows:
        """Return the rows farthest from all centers of which something is kept (`far_rows`)."""
        return self.far_rows(centers, many, self.kept(at))


def _mass(grid: Grid, whole: int) -> Limbs:
    return Limbs.of_integers(grid, [[whole]])


def _in_buckets(
    bits: NDArray[np.int64], weights: Masses | None, bracket: Bracket, grid: Grid
) -> Limbs:
    """Return the masses of the points in each bucket."""
    masses = np.zeros((BUCKETS, grid.shape, 1), dtype=np.int64)
    last = min(bracket.end - 1, np.iinfo(np.int64).max)
    for start in range(0, len(bits), _ROWS_AT_ONCE):
        some = bits[start : start + _ROWS_AT_ONCE]
        rows = np.flatnonzero((some >= bracket.first) & (some <= last))
        if len(rows) == 0:
            continue
        buckets = (some[rows] - bracket.first) >> bracket.shift
        if weights is None:
            masses[:, 0, 0] += np.bincount(buckets, minlength=BUCKETS)
        else:
            _add_weights(masses, buckets, weights[start + rows], grid)
    return Limbs.carried(grid, masses)


def _add_weights(
    masses: NDArray[np.int64], buckets: NDArray[np.int64], weights: Masses, grid: Grid
) -> None:
    """Add weights to the limbs of their buckets. All of this is exact: digits are taken off."""
    rest = np.ldexp(weights, -grid.low)
    for limb in reversed(range(grid.limbs)):
        digits = np.floor(np.ldexp(rest, -limb * grid.bits))
        rest -= np.ldexp(digits, limb * grid.bits)
        np.add.at(masses[:, limb, 0], buckets, digits.astype(np.int64))
    Limbs.carried(grid, masses)
