"""Rows at given places in the order of all values, although no part knows that order.

`core.empty_clusters` tries as one more center the points farthest from all centers, and some that
are spread evenly over the others, in lexicographic order. Parts hold their rows sorted. The value
at a place is found as quickselect finds it: a pivot is one of the values that are still possible;
parts count how many rows are below it, and how many not above; that leaves fewer. All places are
searched at once, in about 1.4 log2(n) rounds. The choice of pivots does not change the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.workspace import Centers
from wolfmeans.engines.sampling import Counts, Merged
from wolfmeans.engines.trimming import Trimmed
from wolfmeans.exact.hashing import row_hashes, stream, uniforms

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Between:
    """For each place the values, exclusive, between which its value is; NaN where none is known."""

    below: Centers
    """(m, d)"""
    above: Centers
    """(m, d)"""
    key: int
    """Of this round."""


class Pivots(NamedTuple):
    """One value for each place."""

    ranks: NDArray[np.float64]
    """(m,) -inf where there is none."""
    values: Centers
    """(m, d)"""


def highest(several: list[Pivots]) -> Pivots:
    """Return for each place the pivot of the highest rank, the first of equal ones."""
    best = np.argmax([pivots.ranks for pivots in several], axis=0)
    ranks, values = (np.stack(arrays) for arrays in zip(*several, strict=True))
    places = np.arange(len(best))
    return Pivots(ranks[best, places], values[best, places])


class Eligible:
    """The rows of a part that may become centers, sorted; this may be lost at any time."""

    def __init__(self) -> None:
        self._name: bytes | None = None
        self._rows = np.zeros(0, dtype=np.int64)

    def answer(self, points: Any, question: str, name: bytes, centers: Centers, *given: Any) -> Any:
        """Answer a question about the rows of positive weight off the centers of their labels."""
        if self._name != name:
            eligible = points.distances(centers) > 0
            masses = points.kept() if isinstance(points, Trimmed) else points.weights
            if masses is not None:
                eligible &= masses > 0
            order = points.order()
            self._name, self._rows = name, order[eligible[order]]
        if question == "many":
            return Counts.of(np.array([len(self._rows)]))
        if question == "ranks":
            return Counts.of(
                np.concatenate([self._place(points, given[0], equal) for equal in (0, 1)])
            )
        return Merged(self._pivots(points, given[0]), highest)

    def _place(self, points: Any, values: Centers, or_equal: int) -> Places:
        """Return how many rows are before each of some values, or equal to it."""
        low = np.zeros(len(values), dtype=np.int64)
        high = np.full(len(values), len(self._rows), dtype=np.int64)
        while len(undecided := np.flatnonzero(low < high)):
            middle = (low[undecided] + high[undecided]) // 2
            there = points.rows(self._rows[middle])
            right = _before(there, values[undecided], or_equal=bool(or_equal))
            low[undecided[right]] = middle[right] + 1
            high[undecided[~right]] = middle[~right]
        return low

    def _pivots(self, points: Any, between: Between) -> Pivots:
        """Return the middle row of those between, ranked so that each part wins by its share."""
        first = self._place(points, np.nan_to_num(between.below), or_equal=1)
        first[np.isnan(between.below[:, 0])] = 0
        last = self._place(points, np.nan_to_num(between.above), or_equal=0)
        last[np.isnan(between.above[:, 0])] = len(self._rows)
        many = last - first
        ranks = np.full(len(many), -np.inf)
        values = np.zeros_like(between.below)
        some = np.flatnonzero(many > 0)
        if len(some):
            values[some] = points.rows(self._rows[(first[some] + last[some]) // 2])
            chance = uniforms(row_hashes(values[some]), between.key)
            with np.errstate(divide="ignore"):
                ranks[some] = np.log(chance) / many[some]
        return Pivots(np.maximum(ranks, -1e300, where=many > 0, out=ranks), values)


def _before(rows: Centers, values: Centers, *, or_equal: bool) -> NDArray[np.bool_]:
    """Whether each row comes before its value in lexicographic order, or is equal to it."""
    differ = rows != values
    column = differ.argmax(axis=1)
    each = np.arange(len(rows))
    before: NDArray[np.bool_] = np.where(
        differ.any(axis=1), rows[each, column] < values[each, column], or_equal
    )
    return before


def values_at(asked: Callable[..., Any], places: Places, n_features: int, dtype: Any) -> Centers:
    """Return the (m, d) values at some places of the order of all eligible rows.

    `asked` puts a question of `Eligible` to all parts and returns the sum of the answers.
    """
    values = np.zeros((len(places), n_features), dtype=dtype)
    below, above = (np.full(values.shape, np.nan, dtype=dtype) for _ in range(2))
    open_places = np.arange(len(places))
    number = 0
    while len(open_places):
        between = Between(below[open_places], above[open_places], stream(0, number))
        pivots = asked("pivots", between).value.values
        before, not_after = asked("ranks", pivots).value.reshape(2, -1)
        wanted = places[open_places]
        too_high, too_low = wanted < before, wanted >= not_after
        above[open_places[too_high]] = pivots[too_high]
        below[open_places[too_low]] = pivots[too_low]
        found = ~(too_high | too_low)
        values[open_places[found]] = pivots[found]
        open_places = open_places[~found]
        number += 1
    return values
