"""The optimum itself, for points on a line: dynamic programming over segments.

A best clustering on a line consists of intervals, so D_k(i) = min_j D_{k-1}(j) + SSE(j..i-1) over
the sorted points leads to it (Wang & Song 2011). The best j moves to the right with i; native code
finds all of a layer in O(n) (native/lower_bounds/one_dimensional.cpp, with the error bound); here
the same is done by divide and conquer, in exact fractions, where there is no native code.
"""

from __future__ import annotations

from fractions import Fraction
from time import perf_counter
from typing import Any

import numpy as np
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
    started = perf_counter()
    if X.shape[1] != 1:
        raise ValueError(f"the exact bound is for one column only, not for {X.shape[1]}")
    X, weights = positive_points(X, weights)
    x = np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64).ravel()
    order = np.argsort(x, kind="stable")
    x = np.ascontiguousarray(x[order])
    weights = None if weights is None else np.ascontiguousarray(weights[order])
    if native_is_available():
        value, error = _native.one_dimensional(x, weights, n_clusters)
        value = below(value, -error)
    else:
        # Rounded to the nearest, and then to the next number down.
        value = below(float(_exact(x, weights, n_clusters)))
    return LowerBound(value, "exact", 1.0, perf_counter() - started)


def _exact(x: Numbers, weights: Numbers | None, n_clusters: int) -> Fraction:
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
    for k in range(2, n_clusters + 1):
        before, best = best, list(best)
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
            pending += [(low, i - 1, left, place), (i + 1, high, place, right)]
    return best[m]
