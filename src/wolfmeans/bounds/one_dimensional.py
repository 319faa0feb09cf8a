"""The optimum itself, for points on a line: dynamic programming over segments.

A best clustering on a line consists of intervals, so D_k(i) = min_j D_{k-1}(j) + SSE(j..i-1) over
the sorted points leads to it (Wang & Song 2011). The best j moves to the right with i; native code
finds all of a layer in O(n) (native/lower_bounds/one_dimensional.cpp, with the error bound); here
the same is done by divide and conquer, in exact fractions, where there is no native code.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.bounds.bound import LowerBound, Numbers, below, positive_points
from wolfmeans.exact.native import _native, native_is_available


def one_dimensional(X: Any, n_clusters: int, weights: Numbers | None = None) -> LowerBound:
    """Return the smallest SSE of points on a line, rounded down.

    Examples
    --------
    >>> import numpy as np
    >>> round(one_dimensional(np.array([[0.0], [1.0], [8.0], [9.0]]), 2).value, 6)
    1.0
    """
    return _solved(X, n_clusters, weights, None).bound


@dataclass(frozen=True)
class Optimum:
    """A best clustering of points on a line."""

    centers: NDArray[np.float64]
    """(K, 1) means of the clusters, ascending."""
    bound: LowerBound
    """The smallest SSE, rounded down."""


def optimum_on_a_line(X: Any, n_clusters: int, weights: Numbers | None = None) -> Optimum | None:
    """Return a best clustering of points on a line.

    Among several that are equally good, native code and the fractions may choose different ones.
    None if there are no more than n_clusters distinct points, or if weights differ so much that the
    optimum is not known.

    Examples
    --------
    >>> import numpy as np
    >>> optimum_on_a_line(np.array([[0.0], [8.0], [1.0], [9.0]]), 2).centers.tolist()
    [[0.5], [8.5]]
    """
    firsts = np.zeros(n_clusters, dtype=np.int64)
    solved = _solved(X, n_clusters, weights, firsts)
    if len(solved.x) == 0 or (n_clusters > 1 and not firsts[-1]):
        return None
    # About the first point of each cluster, so that no digits cancel.
    lengths = np.diff(np.append(firsts, len(solved.x)))
    shifted = solved.x - np.repeat(solved.x[firsts], lengths)
    masses = np.ones(len(solved.x)) if solved.weights is None else solved.weights
    means = np.add.reduceat(masses * shifted, firsts) / np.add.reduceat(masses, firsts)
    return Optimum((solved.x[firsts] + means)[:, None], solved.bound)


@dataclass(frozen=True)
class _Solved:
    x: Numbers
    """The points of positive weight, ascending."""
    weights: Numbers | None
    bound: LowerBound


def _solved(
    X: Any, n_clusters: int, weights: Numbers | None, firsts: NDArray[np.int64] | None
) -> _Solved:
    """Solve the problem; `firsts`, if given, gets the first point of each cluster.

    It stays 0 everywhere where `optimum_on_a_line` is None.
    """
    started = perf_counter()
    if X.shape[1] != 1:
        raise ValueError(f"the exact bound is for one column only, not for {X.shape[1]}")
    X, weights = positive_points(X, weights)
    x = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64).ravel()
    order = np.argsort(x, kind="stable")
    x = np.ascontiguousarray(x[order])
    weights = None if weights is None else np.ascontiguousarray(weights[order])
    if native_is_available():
        value, error = _native.one_dimensional(x, weights, n_clusters, firsts)
        value = below(value, -error)
    else:
        # Rounded to the nearest, and then to the next number down.
        value = below(float(_exact(x, weights, n_clusters, firsts)))
    return _Solved(x, weights, LowerBound(value, "exact", 1.0, perf_counter() - started))


def _exact(
    x: Numbers,
    weights: Numbers | None,
    n_clusters: int,
    firsts: NDArray[np.int64] | None = None,
) -> Fraction:
    sums = [(Fraction(0), Fraction(0), Fraction(0))]
    for i, value in enumerate(x.tolist()):
        w = Fraction(1 if weights is None else float(weights[i]))
        v, (s0, s1, s2) = Fraction(value), sums[-1]
        if i > 0 and value == x[i - 1]:
            sums.pop()
        sums.append((s0 + w, s1 + w * v, s2 + w * v * v))

    def sse(j: int, i: int) -> Fraction:
        s0, s1, s2 = (b - a for a, b in zip(sums[j], sums[i], strict=True))
        return s2 - s1 * s1 / s0

    m = len(sums) - 1
    if n_clusters >= m:
        return Fraction(0)
    best = [Fraction(0)] + [sse(0, i) for i in range(1, m + 1)]
    begins: list[list[int]] = []  # of the last cluster, by layer and end
    for k in range(2, n_clusters + 1):
        before, best = best, list(best)
        begins.append([0] * (m + 1))
        # Rows low..high with the best column between left and right.
        pending = [(k, m, k - 1, m - 1)]
        while pending:
            low, high, left, right = pending.pop()
            if low > high:
                continue
            i = (low + high) // 2
            columns = range(left, min(right, i - 1) + 1)
            values = [before[j] + sse(j, i) for j in columns]
            best[i] = min(values)
            place = columns[values.index(best[i])]
            begins[-1][i] = place
            pending += [(low, i - 1, left, place), (i + 1, high, place, right)]
    if firsts is not None:
        distinct = np.flatnonzero(np.append(True, x[1:] != x[:-1]))
        end = m
        for k in range(n_clusters, 1, -1):
            end = begins[k - 2][end]
            firsts[k - 1] = distinct[end]
    return best[m]
