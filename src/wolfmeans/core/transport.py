"""The cheapest assignment under size limits: a transport problem with K prices.

Points i of mass m_i go to clusters k at cost D_ik per unit of mass; the mass of cluster k stays
within L_k..U_k. A *price* p_k is what a unit of mass pays to be in cluster k: positive prices are
for clusters that are full (U_k), negative ones for clusters that would be too small (L_k). At
optimal prices every point is where D_ik + p_k is smallest, and

    sum_i m_i min_k (D_ik + p_k) - sum_k (U_k max(p_k, 0) + L_k min(p_k, 0))

equals the cost. For any prices it is at most the cost of every assignment within the limits, so
prices prove optimality (`engines.sized.SizeLimited.optimality`).

`cheapest` is the specification of all engines. It begins with every point where it is cheapest at
given prices, and moves mass along shortest chains of clusters until the limits hold. A chain is a
path in a graph of K + 1 nodes. The arc from cluster a to cluster b moves the point of a with the
smallest D_ib - D_ia, of equal ones the lowest row. The last node stands for the limits: it absorbs
what a cluster may have more, and provides what it may have less. Masses are integers, so limits
hold exactly; costs and prices are float64, and every operation is rounded by itself in the order
written here, so engines agree to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from wolfmeans.exact.sums import MANTISSA_BITS, unit_exponent

Costs = NDArray[np.float64]
Prices = NDArray[np.float64]
Split = dict[int, int]
"""The mass of one point in each of its clusters."""

# Prices are far off if more than this part of the mass is in the wrong cluster.
_FAR_OFF = 16
# With more points than so many for each cluster, the first prices are those of a sample.
_POINTS_FOR_CLUSTER = 16
_COARSER = 4
# Scaled limits are products of two masses, which native code holds in 64 bits.
_MOST_TO_SAMPLE = 1 << 31


@dataclass(frozen=True)
class SizeLimits:
    """Limits on the masses of clusters, in units of 2**unit."""

    lower: tuple[int, ...]
    upper: tuple[int, ...]
    total: int
    """The mass of all points."""
    unit: int = 0

    def of_sample(self, total: int) -> SizeLimits:
        """Return the limits for a sample of that mass: in proportion, rounded outwards."""
        lower = tuple(low * total // self.total for low in self.lower)
        upper = tuple(-(-high * total // self.total) for high in self.upper)
        return SizeLimits(lower, upper, total, self.unit)


@dataclass(frozen=True)
class Plan:
    """An assignment within the limits, and prices that prove how good it is."""

    labels: NDArray[np.int32]
    """(n,) the cluster of each point; of a split one that with the largest share, of equal ones
    the lowest. Points of no mass are at their nearest center."""
    splits: dict[int, Split]
    """The points that are in several clusters."""
    prices: Prices
    """(K,)"""
    binding: bool
    """Whether the limits matter; if not, every point is at its nearest center."""


def whole_masses(weights: NDArray[np.float64] | None, unit: int) -> list[int] | None:
    """Return the weights in units of 2**unit, of which they are multiples; None for ones."""
    if weights is None:
        return None
    return [int(Fraction(weight) / Fraction(2) ** unit) for weight in weights.tolist()]


def common_unit(weights: NDArray[np.float64] | None, limits: Sequence[float]) -> int:
    """Return the largest e for which all weights and limits are multiples of 2**e."""
    if weights is None:
        return 0
    return unit_exponent(np.concatenate([weights, np.asarray(limits, dtype=np.float64)]))


def two_parts(mass: int, unit: int) -> tuple[float, float]:
    """Return a mass of at most 106 bits as high + low with 53 bits each, the high one truncated.

    Examples
    --------
    >>> two_parts(2**60 + 1, -1)
    (5.764607523034235e+17, 0.5)
    """
    shift = max(0, mass.bit_length() - MANTISSA_BITS)
    high = mass >> shift << shift
    return math.ldexp(high, unit), math.ldexp(mass - high, unit)


def cheapest(
    costs: Costs, masses: Sequence[int] | None, limits: SizeLimits, prices: Prices | None = None
) -> Plan:
    """Return a cheapest assignment within the limits.

    Parameters
    ----------
    costs : ndarray of shape (n, K)
        Cost of a unit of mass.
    masses : sequence of int or None
        Mass of each point; None for ones.
    limits : SizeLimits
        Limits that some assignment meets.
    prices : ndarray of shape (K,) or None
        Prices to begin with, such as those of the step before. Where they are far off, or None,
        samples of the points provide better ones first.
    """
    if prices is not None:
        chains = _Chains(costs, masses, limits, prices)
        if _FAR_OFF * chains.misplaced() <= limits.total:
            return chains.plan()
    prices = _sampled_prices(
        costs, masses, limits, np.zeros(costs.shape[1]) if prices is None else prices
    )
    return _Chains(costs, masses, limits, prices).plan()


def _sampled_prices(
    costs: Costs, masses: Sequence[int] | None, limits: SizeLimits, prices: Prices
) -> Prices:
    """Return the prices of samples of every 4^j-th point, the smallest one first."""
    n, n_clusters = costs.shape
    stride = 1
    if limits.total >= _MOST_TO_SAMPLE:
        return prices
    while n // (_COARSER * stride) >= _POINTS_FOR_CLUSTER * n_clusters:
        stride *= _COARSER
    while stride > 1:
        some = None if masses is None else masses[::stride]
        total = len(costs[::stride]) if some is None else sum(some)
        if total > 0:
            sample = _Chains(costs[::stride], some, limits.of_sample(total), prices)
            prices = sample.plan().prices
        stride //= _COARSER
    return prices


@dataclass
class _Chains:
    """Moves mass along shortest chains of clusters until the limits hold."""

    costs: Costs
    masses: Sequence[int] | None
    limits: SizeLimits
    prices: Prices
    splits: dict[int, Split] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._begin()

    def misplaced(self) -> int:
        """Return how much mass is in the wrong cluster."""
        return sum(excess for excess in self.excess if excess > 0)

    def plan(self) -> Plan:
        binding = bool(self.prices.any()) or any(self.excess)
        while any(excess > 0 for excess in self.excess):
            self._augment()
        prices = self.potentials[:-1] - self.potentials[-1]
        labels = self.home.copy()
        if self.masses is not None:
            weightless = [row for row, mass in enumerate(self.masses) if mass == 0]
            labels[weightless] = self.costs[weightless].argmin(axis=1)
        for row, parts in self.splits.items():
            labels[row] = min(parts, key=lambda k: (-parts[k], k))
        return Plan(labels, self.splits, prices, binding)

    def _begin(self) -> None:
        """Put every point where it is cheapest; find what clusters have too much or too little."""
        n_clusters = self.costs.shape[1]
        self.potentials = np.append(self.prices, 0.0)
        self.home = np.argmin(self.costs + self.prices, axis=1).astype(np.int32)
        sizes = [0] * n_clusters
        for row, k in enumerate(self.home.tolist()):
            sizes[k] += self._mass(row)
        low, high = self.limits.lower, self.limits.upper
        # What each cluster is held to have: a price asks for the limit that it is for.
        self.held = [
            high[k] if price > 0 else low[k] if price < 0 else min(max(sizes[k], low[k]), high[k])
            for k, price in enumerate(self.prices.tolist())
        ]
        self.excess = [size - held for size, held in zip(sizes, self.held, strict=True)]
        self.excess.append(sum(self.held) - self.limits.total)
        self.keys = np.full((n_clusters + 1, n_clusters + 1), math.inf)
        self.rows = np.full((n_clusters, n_clusters), -1, dtype=np.int64)
        for k in range(n_clusters):
            self._find_arcs(k)

    def _mass(self, row: int) -> int:
        return 1 if self.masses is None else self.masses[row]

    def _find_arcs(self, a: int) -> None:
        """Find the cheapest point to move from a cluster to each other one."""
        members = np.flatnonzero(self.home == a)
        if self.masses is not None:
            heavy = [row for row in members.tolist() if self.masses[row] > 0]
            parts = [row for row, split in self.splits.items() if a in split]
            members = np.array(sorted([*heavy, *parts]), dtype=np.int64)
        self.keys[a, :-1] = math.inf
        if len(members) == 0:
            return
        keys = self.costs[members] - self.costs[members, a][:, None]
        first = keys.argmin(axis=0)
        self.rows[a] = members[first]
        self.keys[a, :-1] = keys[first, np.arange(keys.shape[1])]
        self.keys[a, a] = math.inf

    def _lengths(self, a: int) -> Costs:
        """Return the length of each arc from a node, rounded, at least 0."""
        last = len(self.held)
        keys = self.keys[a].copy()
        if a < last:
            keys[last] = 0.0 if self.held[a] < self.limits.upper[a] else math.inf
        else:
            room = [h > low for h, low in zip(self.held, self.limits.lower, strict=True)]
            keys[:last] = np.where(room, 0.0, math.inf)
        lengths: Costs = np.maximum(keys + (self.potentials - self.potentials[a]), 0.0)
        return lengths

    def _augment(self) -> None:
        """Find a shortest chain from too much to too little, and move as much as it allows."""
        excess = self.excess
        distance = np.where([e > 0 for e in excess], 0.0, math.inf)
        before = np.full(len(distance), -1)
        done = np.zeros(len(distance), dtype=bool)
        while True:
            a = int(np.argmin(np.where(done, math.inf, distance)))
            if excess[a] < 0:
                break
            done[a] = True
            through = distance[a] + self._lengths(a)
            nearer = ~done & (through < distance)
            distance[nearer], before[nearer] = through[nearer], a
        end = a
        self.potentials[done] += distance[end] - distance[done]
        chain = [end]
        while before[chain[-1]] >= 0:
            chain.append(int(before[chain[-1]]))
        chain.reverse()
        self._move(chain)

    def _move(self, chain: list[int]) -> None:
        last, excess = len(self.held), self.excess
        arcs = list(pairwise(chain))
        amount = min(excess[chain[0]], -excess[chain[-1]], *(self._room(a, b) for a, b in arcs))
        rows = [int(self.rows[a, b]) if last not in (a, b) else -1 for a, b in arcs]
        for (a, b), row in zip(arcs, rows, strict=True):
            if b == last:
                self.held[a] += amount
            elif a == last:
                self.held[b] -= amount
            else:
                self._shift(row, a, b, amount)
        excess[chain[0]] -= amount
        excess[chain[-1]] += amount
        for k in set(chain) - {last}:
            self._find_arcs(k)

    def _room(self, a: int, b: int) -> int:
        last = len(self.held)
        if b == last:
            return self.limits.upper[a] - self.held[a]
        if a == last:
            return self.held[b] - self.limits.lower[b]
        row = int(self.rows[a, b])
        return self.splits[row][a] if row in self.splits else self._mass(row)

    def _shift(self, row: int, a: int, b: int, amount: int) -> None:
        """Move mass of a point from one cluster to another."""
        parts = self.splits.pop(row, None) or {a: self._mass(row)}
        parts[a] -= amount
        parts[b] = parts.get(b, 0) + amount
        parts = {k: mass for k, mass in parts.items() if mass > 0}
        if len(parts) == 1:
            self.home[row] = next(iter(parts))
        else:
            self.home[row] = -1
            self.splits[row] = parts
