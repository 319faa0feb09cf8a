"""The optimum of tiny K-means problems in exact arithmetic, by trying all clusterings.

Points are integer vectors, weights, masses and caps are integers (or fractions of them): all SSEs
are then multiples of 1 / L with L a common multiple of all possible weights.
"""

import math
from fractions import Fraction

import numpy as np


def _subset_costs(points, weights, multiple):
    """For each subset: its weight and multiple * SSE, in integers."""
    n = len(points)
    totals, costs = [], []
    for mask in range(1 << n):
        rows = [i for i in range(n) if mask >> i & 1]
        weight = sum(weights[i] for i in rows)
        first = [
            sum(weights[i] * x for i, x in zip(rows, column, strict=True))
            for column in zip(*(points[i] for i in rows), strict=True)
        ]
        second = sum(weights[i] * sum(x * x for x in points[i]) for i in rows)
        totals.append(weight)
        scaled = second * weight - sum(s * s for s in first)
        costs.append(scaled * (multiple // weight) if weight else 0)
    return totals, costs


def _partition_costs(costs, n, n_clusters):
    """For each subset: the least cost in at most so many clusters."""
    best = list(costs)
    for _ in range(n_clusters - 1):
        previous, best = best, list(best)
        for mask in range(1 << n):
            least, part = previous[mask], mask
            while part:
                cost = costs[part] + previous[mask ^ part]
                if cost < least:
                    least = cost
                part = (part - 1) & mask
            best[mask] = least
    return best


def _multiple(weights):
    return math.lcm(*range(1, sum(weights) + 1))


def optimum(points, weights, n_clusters):
    """The least SSE, as a fraction."""
    multiple = _multiple(weights)
    _, costs = _subset_costs(points, weights, multiple)
    return Fraction(_partition_costs(costs, len(points), n_clusters)[-1], multiple)


def penalized_optimum(points, weights, n_clusters, cap):
    """The least SSE when a unit of weight may be left out at the price of the cap."""
    multiple = _multiple(weights)
    totals, costs = _subset_costs(points, weights, multiple)
    best = _partition_costs(costs, len(points), n_clusters)
    return min(
        Fraction(cost, multiple) + Fraction(cap) * (totals[-1] - total)
        for cost, total in zip(best, totals, strict=True)
    )


def trimmed_optimum(points, weights, n_clusters, mass):
    """The least SSE of any part of the weights that has this (integer) mass.

    The SSE is concave in the kept weights, so that some best solution keeps at most one point in
    part: all others are in or out.
    """
    multiple = _multiple(weights)
    n = len(points)
    least = None
    for part in [None, *range(n)]:
        for kept in [None] if part is None else range(1, weights[part]):
            changed = list(weights)
            if part is not None:
                changed[part] = kept
            totals, costs = _subset_costs(points, changed, multiple)
            if mass not in totals:
                continue
            best = _partition_costs(costs, n, n_clusters)
            found = min(c for c, total in zip(best, totals, strict=True) if total == mass)
            least = found if least is None else min(least, found)
    return Fraction(least, multiple)


def tiny_problems(count, max_points=6, seed=0):
    """Lattice points with duplicates and weights, some of them 0, and a number of clusters."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n = int(rng.integers(1, max_points + 1))
        d = int(rng.integers(1, 4))
        reach = int(rng.choice([2, 5, 30]))
        points = rng.integers(-reach, reach + 1, size=(n, d))
        if rng.random() < 0.3:
            points[-1] += 1000
        weights = rng.integers(0, 5, size=n) if rng.random() < 0.6 else np.ones(n, dtype=int)
        weights[rng.integers(0, n)] = rng.integers(1, 5)
        yield points, weights, int(rng.integers(1, 4))


def exact(points, weights):
    """The points of positive weight and the weights, as lists of integers."""
    heavy = weights > 0
    return points[heavy].tolist(), weights[heavy].tolist()
