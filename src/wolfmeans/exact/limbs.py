"""Partial results: what a part of the data answers with, as integers that add up.

A sum is an integer times a power of two, in limbs held in int64. Limb l counts 2**(low + l * bits);
above the limbs that terms reach there is one more, for carries. Where the limbs stand follows from
the range of all numbers, so all parts agree on it, and adding two partial results is adding arrays.
Integer addition is associative: neither the parts nor the order in which they are added leave a
trace. Limbs are kept carried, each but the highest in -2**(bits-1)..2**(bits-1)-1, so equal sums
are equal arrays.

How many can be added before a carry: a carried limb is at most 2**(bits-1) in size, so 2**(62-bits)
of them stay below 2**61, which every reader of limbs takes. The highest limb holds less than the
number of points.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from wolfmeans.exact.sums import decompose, rounded_ratio

Integers = NDArray[np.int64]

# As in native/exact/cluster_sums.cpp: the grids of all engines are the same.
_MOST_FAST_BITS = 46
_MOST_FAST_LIMBS = 6
_MOST_FAST_EXPONENT = 700
_PLAIN_BITS = 32
# Few enough at a time to be held, many enough to be worth a carry: of small answers more.
_AT_ONCE, _MOST_AT_ONCE = 7, 255
_HELD = 1 << 20


class Answer(Protocol):
    """What parts answer with where only the sum of all answers is wanted."""

    def plus(self, others: Sequence[Self]) -> Self:
        """Return the sum of this and others, the same in whatever order they come."""


Some = TypeVar("Some", bound=Answer)


def combined(answers: Iterable[Some]) -> Some:
    """Return the sum of one or more answers.

    They are taken as they come and need not be there all at once.
    """
    rest = iter(answers)
    total = next(rest)
    at_once = _AT_ONCE
    size = getattr(total, "nbytes", 0)
    if size:
        at_once = min(max(at_once, _HELD // size), _MOST_AT_ONCE)
    while batch := list(itertools.islice(rest, at_once)):
        total = total.plus(batch)
    return total


@dataclass(frozen=True)
class Several:
    """Answers to several questions that were asked at once."""

    answers: tuple[Any, ...]

    def plus(self, others: Sequence[Several]) -> Several:
        """Return the sums, question by question."""
        further = zip(*(other.answers for other in others), strict=True)
        return Several(tuple(a.plus(b) for a, b in zip(self.answers, further, strict=True)))


@dataclass(frozen=True)
class Range:
    """Exponents: all numbers are multiples of 2**low and less than 2**high in size.

    Both are 0 when all numbers are.
    """

    low: int = 0
    high: int = 0

    def __or__(self, other: Range) -> Range:
        """Return the range of both together."""
        if self.low == self.high or other.low == other.high:
            return other if self.low == self.high else self
        return Range(min(self.low, other.low), max(self.high, other.high))


def range_of(values: NDArray[np.floating]) -> Range:
    """Return the range of an array; ValueError when a number is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> range_of(np.array([0.0, 0.5, -3.0]))
    Range(low=-1, high=2)
    """
    flat = np.asarray(values).reshape(-1)
    if not np.isfinite(flat).all():
        raise ValueError("exact sums need finite numbers")
    mantissas, exponents = decompose(flat[flat != 0])
    if len(mantissas) == 0:
        return Range()
    lowest = np.frexp((mantissas & -mantissas).astype(np.float64))[1] - 1
    bits = np.frexp(np.abs(mantissas).astype(np.float64))[1]
    return Range(int((exponents + lowest).min()), int((exponents + bits).max()))


@dataclass(frozen=True)
class Grid:
    """Where the limbs of a sum stand."""

    low: int
    """Limb l counts 2**(low + l * bits)."""
    bits: int
    limbs: int
    """How many limbs terms reach; there is one more."""

    @property
    def shape(self) -> int:
        """How many limbs there are."""
        return self.limbs + 1


SCALAR = Grid(-1074, 32, 67)
"""The grid of sums of any float64 terms, which needs no range."""


@dataclass(frozen=True)
class Grids:
    """Where exact weights and sums stand, by the ranges of all rows and of all weights."""

    rows: Range
    weights: Range | None
    """None where no points have weights."""

    @functools.cached_property
    def totals(self) -> Grid:
        """The grid of the clusters' weights; without weights they are counts."""
        if self.weights is None:
            return _plain(Range(0, 1))
        return _grid(self.weights, self.weights)

    @functools.cached_property
    def sums(self) -> Grid:
        """The grid of the sums of w x."""
        if self.weights is None:
            return _grid(self.rows, self.rows)
        low, high = self.rows.low + self.weights.low, self.rows.high + self.weights.high
        return _grid(self.rows, Range(low, high))

    def __or__(self, other: Grids) -> Grids:
        """Return the grids for both kinds of points together."""
        if self.weights is None or other.weights is None:
            return Grids(self.rows | other.rows, self.weights or other.weights)
        return Grids(self.rows | other.rows, self.weights | other.weights)

    def exponents(self) -> tuple[int, int, int, int]:
        """Return both ranges, low and high; those of weights that are not there are 0."""
        weights = self.weights or Range()
        return self.rows.low, self.rows.high, weights.low, weights.high

    def unweighted(self) -> Grids:
        """Return the grids for the same rows, each of which weighs 1."""
        return Grids(self.rows, None)


def _grid(rows: Range, terms: Range) -> Grid:
    """Take as few limbs as fast kernels need, where they can be used."""
    span = terms.high - terms.low + 1
    limbs = -(-span // _MOST_FAST_BITS)
    exponent = max(abs(rows.high), abs(terms.high))
    if limbs > _MOST_FAST_LIMBS or exponent > _MOST_FAST_EXPONENT:
        return _plain(terms)
    return Grid(terms.low, max(8, -(-span // limbs)), limbs)


def _plain(terms: Range) -> Grid:
    return Grid(terms.low, _PLAIN_BITS, (terms.high - terms.low) // _PLAIN_BITS + 1)


@dataclass(frozen=True)
class Limbs:
    """Exact sums: (K, d) integers, each a multiple of 2**grid.low, carried."""

    grid: Grid
    values: Integers
    """(K, grid.limbs + 1, d)"""

    @staticmethod
    def of_integers(grid: Grid, integers: Sequence[Sequence[int]]) -> Limbs:
        """Return K rows of d integers, multiples of 2**grid.low, as limbs."""
        half = 1 << (grid.bits - 1)
        values = np.zeros((len(integers), grid.shape, len(integers[0])), dtype=np.int64)
        for k, row in enumerate(integers):
            for j, integer in enumerate(row):
                rest = integer
                for limb in range(grid.limbs):
                    over = (rest + half) >> grid.bits
                    values[k, limb, j] = rest - (over << grid.bits)
                    rest = over
                values[k, grid.limbs, j] = rest
        return Limbs(grid, values)

    @staticmethod
    def carried(grid: Grid, values: Integers) -> Limbs:
        """Return limbs that are less than 2**62 in size, carried in place."""
        _carry(grid, values)
        return Limbs(grid, values)

    @staticmethod
    def of_terms(terms: NDArray[np.float64]) -> Limbs:
        """Return the exact sum of float64 terms; OverflowError when one is not finite."""
        if not np.isfinite(terms).all():
            raise OverflowError("a term of an exact sum is not finite")
        total = 0
        for mantissa, exponent in zip(*(a.tolist() for a in decompose(terms)), strict=True):
            # frexp gives a denormal its trailing zeros as well.
            shift = exponent - SCALAR.low
            total += mantissa << shift if shift >= 0 else mantissa >> -shift
        return Limbs.of_integers(SCALAR, [[total]])

    def __add__(self, other: Limbs) -> Limbs:
        """Return the sums of both."""
        return added([self, other])

    def plus(self, others: Sequence[Limbs]) -> Limbs:
        """Return the sums of all."""
        return added([self, *others])

    def integer(self, k: int = 0, j: int = 0) -> int:
        """Return one sum as a multiple of 2**grid.low."""
        total = 0
        for limb in reversed(self.values[k, :, j].tolist()):
            total = (total << self.grid.bits) + limb
        return total

    def integers(self, j: int = 0) -> list[int]:
        """Return the sums of one column as multiples of 2**grid.low."""
        totals = []
        for limbs in self.values[:, ::-1, j].tolist():
            total = 0
            for limb in limbs:
                total = (total << self.grid.bits) + limb
            totals.append(total)
        return totals

    def rounded(self, k: int = 0, j: int = 0) -> float:
        """Return one sum, rounded once to float64."""
        return rounded_ratio(self.integer(k, j), 1, self.grid.low)


def added(several: Iterable[Limbs]) -> Limbs:
    """Return the sum of one or more; what is given is left as it is."""
    rest = iter(several)
    first = next(rest)
    grid, total = first.grid, first.values.copy()
    room = (1 << (62 - grid.bits)) - 1
    while batch := list(itertools.islice(rest, room)):
        for limbs in batch:
            if limbs.grid is not grid and limbs.grid != grid:
                raise ValueError(f"sums on different grids cannot be added: {grid}, {limbs.grid}")
            total += limbs.values
        _carry(grid, total)
    return Limbs(grid, total)


def _carry(grid: Grid, values: Integers) -> None:
    half = 1 << (grid.bits - 1)
    for limb in range(grid.limbs):
        over = (values[:, limb] + half) >> grid.bits
        values[:, limb] -= over << grid.bits
        values[:, limb + 1] += over
