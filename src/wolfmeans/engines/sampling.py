"""Parts of the data, as samplings ask for them: k-means|| and the multilevel start.

A part knows the hashes of its rows, the distances to the nearest candidates so far, and which these
are. It is never changed: with more candidates there is another part, so that one that was lost can
be made again from the rows and the candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.core.draws import scaled
from wolfmeans.core.workspace import Centers, Distances, Labels
from wolfmeans.exact.hashing import Hashes, row_hashes, uniforms
from wolfmeans.exact.limbs import combined
from wolfmeans.exact.native import bucket_masses, native_is_available, rows_below
from wolfmeans.exact.ordering import lexicographic_order

Masses = NDArray[np.int64]
Limits = NDArray[np.float64]
"""(2**bits,) one for each bucket of hashes."""

_FILTER_BITS = 16
_ROWS_AT_ONCE = 1 << 14


class HashMasses(NamedTuple):
    """The masses of rows by hash."""

    hashes: Hashes
    """(m,) ascending."""
    masses: Masses
    """(m,) sums over the rows of each hash."""


def buckets_of(hashes: Hashes, bits: int, level: int = 0) -> NDArray[np.int64]:
    """Return which of 2**bits buckets each hash is in, by its highest bits, or the next ones."""
    if bits == 0:
        return np.zeros(len(hashes), dtype=np.int64)
    highest = (hashes << np.uint64(level * bits)) >> np.uint64(64 - bits)
    buckets: NDArray[np.int64] = highest.astype(np.int64)
    return buckets


def below(
    hashes: Hashes, key: int, limits: Sequence[Limits], first: int = 0, n_threads: int | None = None
) -> NDArray[np.int64]:
    """Return the places of hashes whose uniforms are below all limits, from level `first` on.

    With a number of threads, in native code.
    """
    if n_threads is not None and first == 0 and limits:
        places = rows_below(hashes, key, limits[0], n_threads)
        found: NDArray[np.int64] = places[below(hashes[places], key, limits[1:], 1)]
        return found
    places = np.arange(len(hashes))
    chance = uniforms(hashes, key)
    for level, some in enumerate(limits, first):
        bits = len(some).bit_length() - 1
        places = places[chance[places] < some[buckets_of(hashes[places], bits, level)]]
    return places


def sums_in_buckets(found: HashMasses, bits: int, level: int) -> Masses:
    """Return the (2**bits,) sums of masses by the bits of the hash at a level."""
    sums = np.zeros(1 << bits, dtype=np.int64)
    np.add.at(sums, buckets_of(found.hashes, bits, level), found.masses)
    return sums


def merged_masses(some: Sequence[HashMasses]) -> HashMasses:
    """Return the sums by hash over several parts."""
    hashes, place = np.unique(np.concatenate([part.hashes for part in some]), return_inverse=True)
    masses = np.zeros(len(hashes), dtype=np.int64)
    np.add.at(masses, place, np.concatenate([part.masses for part in some]))
    return HashMasses(hashes, masses)


@dataclass(frozen=True)
class RowSample:
    """Some rows with their hashes and weights, ordered by hash, then by weight."""

    hashes: Hashes
    """(m,) ascending."""
    points: Any
    """(m, d) dense or CSR, as the rows are stored."""
    weights: NDArray[np.float64]
    """(m,) positive."""

    def __getitem__(self, which: Any) -> RowSample:
        """Return some of the rows, in their order."""
        return RowSample(self.hashes[which], self.points[which], self.weights[which])

    @property
    def values(self) -> RowSample:
        """Every value once, with the weight of its copies."""
        new = np.append(True, self.hashes[1:] != self.hashes[:-1])[: len(self.hashes)]
        if new.all():
            return self
        return replace(self[new], weights=np.add.reduceat(self.weights, np.flatnonzero(new)))

    @property
    def ordered(self) -> RowSample:
        """The same rows in an order that depends on values and weights alone."""
        return self[np.lexsort((self.weights, self.hashes))]


def merged_samples(some: Sequence[RowSample]) -> RowSample:
    """Return the rows of several samples as one."""
    points = [each.points for each in some]
    stored = any(map(sparse.issparse, points))
    return RowSample(
        np.concatenate([each.hashes for each in some]),
        sparse.csr_array(sparse.vstack(points)) if stored else np.concatenate(points),
        np.concatenate([each.weights for each in some]),
    ).ordered


def merged_points(some: Sequence[Centers]) -> Centers:
    """Return distinct points in lexicographic order, without negative zeros."""
    points = np.concatenate(some) + some[0].dtype.type(0)
    points = points[lexicographic_order(points)]
    new = np.ones(len(points), dtype=bool)
    new[1:] = (points[1:] != points[:-1]).any(axis=1)
    distinct: Centers = points[new]
    return distinct


class Parts(Protocol):
    """All the data, in one part or in many, as the sampling of candidates needs it.

    The mass of a row is its weight until there is a candidate, then its weight times the squared
    distance to the nearest one.
    """

    def size(self) -> int:
        """Return the number of rows."""

    def largest(self) -> float:
        """Return the largest mass of a row."""

    def bucket_masses(self, shift: int, bits: int, key: int = 0, *limits: Limits) -> Masses:
        """Return the (2**bits,) sums of scaled masses by the highest bits of the hash.

        With limits: of the rows that `listed` would return, by the next bits of the hash.
        """

    def listed(self, shift: int, key: int, *limits: Limits) -> HashMasses:
        """Return the masses of the rows whose uniforms are below the limits of their buckets.

        Of several limits the first are for buckets by the highest bits of the hash, the next for
        ones by the bits after these.
        """

    def points(self, hashes: Hashes) -> Centers:
        """Return the distinct points of positive weight that have one of these hashes."""

    def approach(self, candidates: Centers) -> Self:
        """Return the same data with more candidates."""

    def owned(self, shift: int) -> Masses:
        """Return the scaled weight of the rows to which each candidate is the nearest.

        Of equally near candidates, the first one.
        """

    def sample(self, key: int, share: float) -> RowSample:
        """Return the rows of positive weight whose uniforms, by the key, are below the share."""

    def rows_with(self, hashes: Hashes) -> RowSample:
        """Return the rows of positive weight that have one of these hashes, which ascend."""


class WholePart(Parts, Protocol):
    """All the rows of a workspace, with the row of each point."""

    def rows_of(self, points: Centers) -> NDArray[np.int64]:
        """Return the lowest row of positive weight that is equal to each of some points here."""


class Rows(Protocol):
    """The methods of a workspace (see `core.workspace`) that a part needs; none keeps labels."""

    n_points: int
    """Number of rows."""
    weights: NDArray[np.float64] | None
    """(n,) sample weights, None for ones."""

    def row_hashes(self) -> Hashes:
        """Return a hash of each row, equal for equal values."""

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return nearest labels, the lowest of several, and canonical distances."""

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return data rows, dense, in the centers' dtype."""

    def stored_rows(self, indices: NDArray[np.int64]) -> Any:
        """Return data rows in the centers' dtype, dense or CSR as they are stored."""


class State(NamedTuple):
    """What a part keeps of its rows, besides their values."""

    hashes: Hashes
    """(n,) by value."""
    closest: Distances | None = None
    """(n,) squared distances to the nearest candidates, None before there is one."""
    owner: NDArray[np.int32] | None = None
    """(n,) the numbers of these."""
    n_candidates: int = 0
    """How many candidates there are."""


class Part:
    """Rows in one place.

    Parameters
    ----------
    rows : Rows
        A workspace of any engine, or another object with these methods.
    state : State or None, default=None
        The state of another part of the same rows; None to begin.
    """

    def __init__(self, rows: Rows, state: State | None = None) -> None:
        self._rows = rows
        self.state = State(rows.row_hashes()) if state is None else state
        # The reference engine is the specification, also of this.
        native = native_is_available() and getattr(rows, "engine", "reference") == "cpu"
        self._n_threads: int | None = getattr(rows, "n_threads", 1) if native else None

    def size(self) -> int:
        """Return the number of rows."""
        return self._rows.n_points

    def _weights(self) -> NDArray[np.float64]:
        weights = self._rows.weights
        return np.ones(self._rows.n_points) if weights is None else weights

    def _masses(self) -> NDArray[np.float64]:
        if self.state.closest is None:
            return self._weights()
        weights = self._rows.weights
        return self.state.closest if weights is None else weights * self.state.closest

    def largest(self) -> float:
        """Return the largest mass of a row."""
        return float(self._masses().max(initial=0.0))

    def bucket_masses(self, shift: int, bits: int, key: int = 0, *limits: Limits) -> Masses:
        """Return the (2**bits,) sums of scaled masses by the highest bits, or by the next ones."""
        hashes, n_threads = self.state.hashes, self._n_threads
        if n_threads is not None and not limits and self.state.closest is not None:
            closest, weights = self.state.closest, self._rows.weights
            return bucket_masses(hashes, closest, weights, shift, bits, n_threads)
        masses = self._masses()
        if limits:
            rows = below(hashes, key, limits, n_threads=n_threads)
            hashes, masses = hashes[rows], masses[rows]
        return sums_in_buckets(HashMasses(hashes, scaled(masses, shift)), bits, len(limits))

    def listed(self, shift: int, key: int, *limits: Limits) -> HashMasses:
        """Return the masses of the rows whose uniforms are below the limits of their buckets."""
        rows = below(self.state.hashes, key, limits, n_threads=self._n_threads)
        masses = self._masses()[rows]
        return merged_masses([HashMasses(self.state.hashes[rows], scaled(masses, shift))])

    def points(self, hashes: Hashes) -> Centers:
        """Return the distinct points of positive weight that have one of these hashes."""
        return merged_points([self._rows.rows(self.first_rows(hashes))])

    def approach(self, candidates: Centers) -> Part:
        """Return the same rows with more candidates."""
        labels, distances = self._rows.nearest(candidates)
        hashes, closest, owner, before = self.state
        labels = labels + np.int32(before)
        if closest is not None and owner is not None:
            closer = distances < closest
            distances = np.where(closer, distances, closest)
            labels = np.where(closer, labels, owner)
        return Part(self._rows, State(hashes, distances, labels, before + len(candidates)))

    def owned(self, shift: int) -> Masses:
        """Return the scaled weight of the rows to which each candidate is the nearest."""
        masses = np.zeros(self.state.n_candidates, dtype=np.int64)
        if self.state.owner is not None:
            np.add.at(masses, self.state.owner, scaled(self._weights(), shift))
        return masses

    def sample(self, key: int, share: float) -> RowSample:
        """Return the rows of positive weight whose uniforms, by the key, are below the share."""
        rows = below(self.state.hashes, key, [np.array([share])], n_threads=self._n_threads)
        if self._rows.weights is not None:
            rows = rows[self._rows.weights[rows] > 0]
        return self._taken(rows)

    def rows_with(self, hashes: Hashes) -> RowSample:
        """Return the rows of positive weight that have one of these hashes, which ascend."""
        return self._taken(self._rows_with(hashes))

    def _taken(self, rows: NDArray[np.int64]) -> RowSample:
        weights = self._rows.weights
        taken = np.ones(len(rows)) if weights is None else weights[rows]
        # Ordered first: rows are read once, in the end.
        rows = rows[order := np.lexsort((taken, self.state.hashes[rows]))]
        return RowSample(self.state.hashes[rows], self._rows.stored_rows(rows), taken[order])

    def rows_of(self, points: Centers) -> NDArray[np.int64]:
        """Return the lowest row of positive weight that is equal to each of some points here."""
        found = self.first_rows(np.unique(row_hashes(points)))
        return matching_rows(points, found, self._rows.rows(found))

    def first_rows(self, hashes: Hashes) -> NDArray[np.int64]:
        """Return the lowest row of positive weight of each value with one of these hashes."""
        rows = self._rows_with(hashes)
        _, first, place = np.unique(self.state.hashes[rows], return_index=True, return_inverse=True)
        lowest = rows[first]
        values = self._rows.rows(lowest)
        copies = np.delete(np.arange(len(rows)), first)
        # Different values with one hash are all but impossible, and would be values nevertheless.
        strange = [np.zeros(0, dtype=np.int64)]
        for start in range(0, len(copies), _ROWS_AT_ONCE):
            some = copies[start : start + _ROWS_AT_ONCE]
            differ = (self._rows.rows(rows[some]) != values[place[some]]).any(axis=1)
            strange.append(rows[some[differ]])
        others = np.concatenate(strange)
        keys = _keys(self._rows.rows(others)) if len(others) else []
        further = dict(zip(reversed(keys), reversed(others.tolist()), strict=True))
        return np.append(lowest, np.array(list(further.values()), dtype=np.int64))

    def _rows_with(self, hashes: Hashes) -> NDArray[np.int64]:
        """Return the rows of positive weight with one of these hashes, which ascend."""
        there = np.zeros(1 << _FILTER_BITS, dtype=bool)
        there[buckets_of(hashes, _FILTER_BITS)] = True
        rows = np.flatnonzero(there[buckets_of(self.state.hashes, _FILTER_BITS)])
        if len(hashes) == 0:
            return rows
        if self._rows.weights is not None:
            rows = rows[self._rows.weights[rows] > 0]
        place = np.minimum(np.searchsorted(hashes, self.state.hashes[rows]), len(hashes) - 1)
        some: NDArray[np.int64] = rows[hashes[place] == self.state.hashes[rows]]
        return some


def _keys(points: Centers) -> list[bytes]:
    """Return bytes that are equal for equal points alone; negative zeros are zeros."""
    return [point.tobytes() for point in points + points.dtype.type(0)]


def matching_rows(points: Centers, rows: NDArray[np.int64], values: Centers) -> NDArray[np.int64]:
    """Return the row of each point, given rows that have such values, each of them once."""
    where = dict(zip(_keys(values), rows.tolist(), strict=True))
    return np.array([where[key] for key in _keys(points)], dtype=np.int64)


@dataclass(frozen=True)
class Merged:
    """A value that is merged with those of other parts by a function of them all."""

    value: Any
    merge: Callable[[list[Any]], Any]

    def plus(self, others: Sequence[Merged]) -> Merged:
        """Return the value of all."""
        return replace(self, value=self.merge([self.value, *(other.value for other in others)]))


@dataclass(frozen=True)
class Counts:
    """Sums of integers, one for each slot; slots that are not named have 0.

    A small part has few slots to name, and there are up to 2**18.
    """

    size: int
    slots: NDArray[np.int64] | None
    """(m,) ascending; None for all."""
    masses: Masses
    """(m,)"""

    @staticmethod
    def of(sums: Masses) -> Counts:
        """Name the slots where that is shorter."""
        slots = np.flatnonzero(sums)
        if 2 * len(slots) < len(sums):
            return Counts(len(sums), slots, sums[slots])
        return Counts(len(sums), None, sums)

    def plus(self, others: Sequence[Counts]) -> Counts:
        """Return the sums of all."""
        sums = self.value
        for other in others:
            sums[slice(None) if other.slots is None else other.slots] += other.masses
        return Counts.of(sums)

    @property
    def value(self) -> Masses:
        """The (size,) sums."""
        sums = np.zeros(self.size, dtype=np.int64)
        sums[slice(None) if self.slots is None else self.slots] = self.masses
        return sums


ANSWERS: dict[str, Callable[..., Any]] = {
    "largest": lambda part: Merged(part.largest(), max),
    "bucket_masses": lambda part, *given: Counts.of(part.bucket_masses(*given)),
    "listed": lambda part, *given: Merged(part.listed(*given), merged_masses),
    "points": lambda part, hashes: Merged(part.points(hashes), merged_points),
    "owned": lambda part, shift: Counts.of(part.owned(shift)),
    "sample": lambda part, *given: Merged(part.sample(*given), merged_samples),
    "rows_with": lambda part, hashes: Merged(part.rows_with(hashes), merged_samples),
}
"""The answers of a part to the questions of the sampling, in a form that adds up."""


class SeveralParts:
    """Several parts as one: the sums and maxima of their answers."""

    def _asked(self, question: str, *given: Any) -> Any:
        """Return the sum of the answers of all parts."""
        raise NotImplementedError

    def largest(self) -> float:
        """Return the largest mass of a row."""
        return float(self._asked("largest").value)

    def bucket_masses(self, shift: int, bits: int, key: int = 0, *limits: Limits) -> Masses:
        """Return the (2**bits,) sums of scaled masses by the highest bits, or by the next ones."""
        return cast("Masses", self._asked("bucket_masses", shift, bits, key, *limits).value)

    def listed(self, shift: int, key: int, *limits: Limits) -> HashMasses:
        """Return the masses of the rows whose uniforms are below the limits of their buckets."""
        return cast("HashMasses", self._asked("listed", shift, key, *limits).value)

    def points(self, hashes: Hashes) -> Centers:
        """Return the distinct points of positive weight that have one of these hashes."""
        return cast("Centers", self._asked("points", hashes).value)

    def owned(self, shift: int) -> Masses:
        """Return the scaled weight of the rows to which each candidate is the nearest."""
        return cast("Masses", self._asked("owned", shift).value)

    def sample(self, key: int, share: float) -> RowSample:
        """Return the rows of positive weight whose uniforms, by the key, are below the share."""
        return cast("RowSample", self._asked("sample", key, share).value)

    def rows_with(self, hashes: Hashes) -> RowSample:
        """Return the rows of positive weight that have one of these hashes, which ascend."""
        return cast("RowSample", self._asked("rows_with", hashes).value)


class Together(SeveralParts):
    """Several parts in this process as one."""

    def __init__(self, parts: Sequence[Parts]) -> None:
        self._parts = parts

    def _asked(self, question: str, *given: Any) -> Any:
        return combined(ANSWERS[question](part, *given) for part in self._parts)

    def size(self) -> int:
        """Return the number of rows."""
        return sum(part.size() for part in self._parts)

    def approach(self, candidates: Centers) -> Together:
        """Return the same data with more candidates."""
        return Together([part.approach(candidates) for part in self._parts])
