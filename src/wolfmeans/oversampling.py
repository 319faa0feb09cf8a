"""The sampling of k-means|| (Bahmani et al. 2012) over data in parts.

Equal points are one value, whose mass M is the sum of theirs, w D each. Chance is a hash of the
value (engines.hashing), so nothing depends on the order of the rows, on how they are spread over
parts, or on a part's size. Parts say sums and maxima of integers and a few values; rows stay
where they are.

A value is sampled in a round if u < L M / T, where L = 2K, T is the mass of all and u the value's
uniform for that round: with probability min(1, L M / T). Were its m copies sampled each by itself,
the probability would be 1 - (1 - L M / (m T))^m, which is no more (Bernoulli's inequality); the
expected number of samples in a round is at most L, as it is there. A value that had been given one
uniform and the mass of a single copy would be sampled m times too seldom.

M is a sum over parts, and nobody could ask for the sums of all values. But hashes fall into
buckets, the mass S of a bucket is at least that of each value in it, and the computed limit L S / T
is not below the computed L M / T, since rounding is monotone. So only the values with u < L S / T
are asked for: those to be sampled, and about L / buckets of the others. How many buckets there are
does not change the result.

The first candidate is drawn with probability W / T by attempts: each value comes forward with
probability p = W / (W + T), and the attempt counts if exactly one does. It is v alone with
probability p_v / (1 - p_v) prod (1 - p) = W_v / T prod (1 - p), hence, given that one is alone,
with W_v / T. An attempt counts with probability prod T / (T + W) >= exp(-sum W / T) = 1 / e.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wolfmeans.engines.base import Centers, Workspace
from wolfmeans.engines.hashing import Hashes, row_hashes, stream, uniforms
from wolfmeans.engines.ordering import lexicographic_order

Masses = NDArray[np.int64]

_ROUNDS = 5
_OVERSAMPLING = 2
_INTEGER_BITS = 62
_FEWEST_BUCKET_BITS, _MOST_BUCKET_BITS = 8, 18
_FILTER_BITS = 16
_ROWS_AT_ONCE = 1 << 14
_ATTEMPTS = 1 << 32
"""The stream of the first attempt; those of rounds begin at 0."""


def integer_shift(largest: float, n: int) -> int:
    """Return the power of two that makes integers of n masses, so that their sum fits int64."""
    return _INTEGER_BITS - n.bit_length() - math.frexp(largest)[1]


def scaled(masses: NDArray[np.float64], shift: int) -> Masses:
    """Return masses times 2**shift, rounded down."""
    return np.ldexp(masses, shift).astype(np.int64)


class HashMasses(NamedTuple):
    """What rows of some hashes weigh."""

    hashes: Hashes
    """(m,) ascending."""
    masses: Masses
    """(m,) sums over the rows of each hash."""


def merged_masses(some: Sequence[HashMasses]) -> HashMasses:
    """Return the sums by hash of what several parts say."""
    hashes, place = np.unique(np.concatenate([part.hashes for part in some]), return_inverse=True)
    masses = np.zeros(len(hashes), dtype=np.int64)
    np.add.at(masses, place, np.concatenate([part.masses for part in some]))
    return HashMasses(hashes, masses)


def merged_points(some: Sequence[Centers]) -> Centers:
    """Return distinct points in lexicographic order, without negative zeros."""
    points = np.concatenate(some) + some[0].dtype.type(0)
    points = points[lexicographic_order(points)]
    new = np.ones(len(points), dtype=bool)
    new[1:] = (points[1:] != points[:-1]).any(axis=1)
    distinct: Centers = points[new]
    return distinct


class Parts(Protocol):
    """All the data, in one part or in many; what is asked of it while candidates are sampled.

    The mass of a row is its weight until there is a candidate, then its weight times the squared
    distance to the nearest one.
    """

    def size(self) -> int:
        """Return the number of rows."""

    def largest(self) -> float:
        """Return the largest mass of a row."""

    def bucket_masses(self, shift: int, bits: int) -> Masses:
        """Return the (2**bits,) sums of scaled masses by the highest bits of the hash."""

    def listed(self, shift: int, key: int, limits: NDArray[np.float64]) -> HashMasses:
        """Return what the rows weigh whose uniforms are below the limits of their buckets."""

    def points(self, hashes: Hashes) -> Centers:
        """Return the distinct points of positive weight that have one of these hashes."""

    def approach(self, candidates: Centers) -> None:
        """Bring the masses up to date with more candidates."""

    def owned(self, shift: int) -> Masses:
        """Return the scaled weight of the rows to which each candidate is the nearest.

        The lowest number of several, and numbers are given in the order of their coming.
        """


class Part:
    """Rows in one place.

    What it remembers, distances to candidates, can be found again from the candidates.

    Parameters
    ----------
    workspace : Workspace
        Opened by any engine.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._hashes = workspace.row_hashes()
        self._closest: NDArray[np.float64] | None = None
        self._owner = np.zeros(workspace.n_points, dtype=np.int64)
        self._n_candidates = 0

    def size(self) -> int:
        """Return the number of rows."""
        return self._workspace.n_points

    def _weights(self) -> NDArray[np.float64]:
        weights = self._workspace.weights
        return np.ones(self._workspace.n_points) if weights is None else weights

    def _masses(self) -> NDArray[np.float64]:
        if self._closest is None:
            return self._weights()
        weights = self._workspace.weights
        return self._closest if weights is None else weights * self._closest

    def largest(self) -> float:
        """Return the largest mass of a row."""
        return float(self._masses().max(initial=0.0))

    def bucket_masses(self, shift: int, bits: int) -> Masses:
        """Return the (2**bits,) sums of scaled masses by the highest bits of the hash."""
        sums = np.zeros(1 << bits, dtype=np.int64)
        np.add.at(sums, self._buckets(bits), scaled(self._masses(), shift))
        return sums

    def _buckets(self, bits: int) -> NDArray[np.int64]:
        return (self._hashes >> np.uint64(64 - bits)).astype(np.int64)

    def listed(self, shift: int, key: int, limits: NDArray[np.float64]) -> HashMasses:
        """Return what the rows weigh whose uniforms are below the limits of their buckets."""
        bits = len(limits).bit_length() - 1
        rows = np.flatnonzero(uniforms(self._hashes, key) < limits[self._buckets(bits)])
        return merged_masses([HashMasses(self._hashes[rows], scaled(self._masses()[rows], shift))])

    def points(self, hashes: Hashes) -> Centers:
        """Return the distinct points of positive weight that have one of these hashes."""
        return merged_points([self._workspace.rows(self._first_rows(hashes))])

    def approach(self, candidates: Centers) -> None:
        """Bring the masses up to date with more candidates."""
        labels, distances = self._workspace.nearest(candidates)
        owner = labels + np.int64(self._n_candidates)
        self._n_candidates += len(candidates)
        if self._closest is None:
            self._closest, self._owner = distances, owner
            return
        closer = distances < self._closest
        self._closest[closer], self._owner[closer] = distances[closer], owner[closer]

    def owned(self, shift: int) -> Masses:
        """Return the scaled weight of the rows to which each candidate is the nearest."""
        masses = np.zeros(self._n_candidates, dtype=np.int64)
        np.add.at(masses, self._owner, scaled(self._weights(), shift))
        return masses

    def rows_of(self, points: Centers) -> NDArray[np.int64]:
        """Return the lowest row of positive weight that is equal to each of some points here."""
        found = self._first_rows(np.unique(row_hashes(points)))
        rows = dict(zip(_keys(self._workspace.rows(found)), found.tolist(), strict=True))
        return np.array([rows[key] for key in _keys(points)], dtype=np.int64)

    def _first_rows(self, hashes: Hashes) -> NDArray[np.int64]:
        """Return the lowest row of positive weight of each value with one of these hashes."""
        rows = self._rows_with(hashes)
        _, first, place = np.unique(self._hashes[rows], return_index=True, return_inverse=True)
        lowest = rows[first]
        values = self._workspace.rows(lowest)
        copies = np.delete(np.arange(len(rows)), first)
        # Different values with one hash are all but impossible, and would be values nevertheless.
        strange = [np.zeros(0, dtype=np.int64)]
        for start in range(0, len(copies), _ROWS_AT_ONCE):
            some = copies[start : start + _ROWS_AT_ONCE]
            differ = (self._workspace.rows(rows[some]) != values[place[some]]).any(axis=1)
            strange.append(rows[some[differ]])
        others = np.concatenate(strange)
        keys = _keys(self._workspace.rows(others)) if len(others) else []
        further = dict(zip(reversed(keys), reversed(others.tolist()), strict=True))
        return np.append(lowest, np.array(list(further.values()), dtype=np.int64))

    def _rows_with(self, hashes: Hashes) -> NDArray[np.int64]:
        """Return the rows of positive weight with one of these hashes, which ascend."""
        there = np.zeros(1 << _FILTER_BITS, dtype=bool)
        there[(hashes >> np.uint64(64 - _FILTER_BITS)).astype(np.int64)] = True
        rows = np.flatnonzero(there[self._buckets(_FILTER_BITS)])
        if self._workspace.weights is not None:
            rows = rows[self._workspace.weights[rows] > 0]
        place = np.minimum(np.searchsorted(hashes, self._hashes[rows]), len(hashes) - 1)
        some: NDArray[np.int64] = rows[hashes[place] == self._hashes[rows]]
        return some


def _keys(points: Centers) -> list[bytes]:
    """Return bytes that are equal for equal points alone; negative zeros are zeros."""
    return [point.tobytes() for point in points + points.dtype.type(0)]


class Together:
    """Several parts as one: the sums and maxima of what they say."""

    def __init__(self, parts: Sequence[Parts]) -> None:
        self._parts = parts

    def size(self) -> int:
        """Return the number of rows."""
        return sum(part.size() for part in self._parts)

    def largest(self) -> float:
        """Return the largest mass of a row."""
        return max(part.largest() for part in self._parts)

    def bucket_masses(self, shift: int, bits: int) -> Masses:
        """Return the (2**bits,) sums of scaled masses by the highest bits of the hash."""
        sums = np.zeros(1 << bits, dtype=np.int64)
        for part in self._parts:
            sums += part.bucket_masses(shift, bits)
        return sums

    def listed(self, shift: int, key: int, limits: NDArray[np.float64]) -> HashMasses:
        """Return what the rows weigh whose uniforms are below the limits of their buckets."""
        return merged_masses([part.listed(shift, key, limits) for part in self._parts])

    def points(self, hashes: Hashes) -> Centers:
        """Return the distinct points of positive weight that have one of these hashes."""
        return merged_points([part.points(hashes) for part in self._parts])

    def approach(self, candidates: Centers) -> None:
        """Bring the masses up to date with more candidates."""
        for part in self._parts:
            part.approach(candidates)

    def owned(self, shift: int) -> Masses:
        """Return the scaled weight of the rows to which each candidate is the nearest."""
        owned = [part.owned(shift) for part in self._parts]
        return np.add.reduce(owned)


class Candidates(NamedTuple):
    """Points to choose seeds among."""

    points: Centers
    """(m, d) distinct; those of a round in lexicographic order, rounds as they came."""
    weights: NDArray[np.float64]
    """(m,) of the rows to which each is the nearest, times a power of two."""


def sample_candidates(parts: Parts, n_clusters: int, seed: int) -> Candidates:
    """Sample candidates in five rounds; in more while they are fewer than the clusters.

    All distinct points are candidates in the end if these are no more than the clusters: a round
    samples one value at least in expectation, and ones that are candidates have no mass.
    """
    n = parts.size()
    bits = min(max(n.bit_length(), _FEWEST_BUCKET_BITS), _MOST_BUCKET_BITS)
    weight_shift = integer_shift(parts.largest(), n)
    found = [_first_candidate(parts, weight_shift, bits, seed)]
    parts.approach(found[0])
    for number in count():
        if number >= _ROUNDS and sum(map(len, found)) >= n_clusters:
            break
        shift = integer_shift(parts.largest(), n)
        sums = parts.bucket_masses(shift, bits)
        total = float(sums.sum())
        if total == 0:
            break

        def share(masses: Masses, total: float = total) -> NDArray[np.float64]:
            return (_OVERSAMPLING * n_clusters) * masses.astype(np.float64) / total

        sampled = _sample(parts, shift, sums, share, stream(seed, number))
        if len(sampled):
            found.append(parts.points(sampled))
            parts.approach(found[-1])
    weights = np.ldexp(parts.owned(weight_shift).astype(np.float64), -_INTEGER_BITS)
    return Candidates(np.concatenate(found), weights)


def _first_candidate(parts: Parts, shift: int, bits: int, seed: int) -> Centers:
    """Draw one point by weight."""
    sums = parts.bucket_masses(shift, bits)
    total = float(sums.sum())

    def share(masses: Masses) -> NDArray[np.float64]:
        # W / (W + T), written so that rounding keeps it monotone.
        with np.errstate(divide="ignore"):
            return 1.0 / (1.0 + total / masses.astype(np.float64))

    for attempt in count(_ATTEMPTS):
        alone = _sample(parts, shift, sums, share, stream(seed, attempt))
        if len(alone) == 1:
            return parts.points(alone)
    raise AssertionError("unreachable: there is no last attempt")


def _sample(
    parts: Parts,
    shift: int,
    sums: Masses,
    share: Callable[[Masses], NDArray[np.float64]],
    key: int,
) -> Hashes:
    """Return the hashes whose uniforms are below their shares, which grow with the masses."""
    hashes, masses = parts.listed(shift, key, share(sums))
    sampled: Hashes = hashes[uniforms(hashes, key) < share(masses)]
    return sampled
