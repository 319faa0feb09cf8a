"""No proven bound is above the optimum: 3,000 random problems beside brute force."""

from functools import cache
from itertools import combinations

import numpy as np
import pytest

from wolfmeans import check_proof, lower_bound

PROBLEMS, GROUPS = 3000, 30


@cache
def partitions(n, k):
    """All ways to put n points into at most k clusters, as labels."""
    found = [[0]]
    for _ in range(n - 1):
        found = [[*some, label] for some in found for label in range(min(max(some) + 2, k))]
    return np.array(found)


def optimum(X, weights, k):
    """The smallest inertia over all partitions, in float64 around the mean: no shared code."""
    labels = partitions(len(X), k)
    total = np.zeros(len(labels))
    for cluster in range(k):
        inside = (labels == cluster) * weights
        mass = inside.sum(axis=1)
        mean = (inside @ X) / np.where(mass > 0, mass, 1.0)[:, None]
        total += ((inside[:, :, None]) * (X - mean[:, None]) ** 2).sum(axis=(1, 2))
    return total.min()


def problem(rng):
    """Points with duplicates, offsets and scales, in 1 to 30 columns; weights, trimming."""
    n, d = int(rng.integers(3, 8)), int(rng.integers(1, 31))
    X = rng.normal(size=(n, d)) * rng.choice([0.1, 1.0, 10.0], size=d)
    if rng.random() < 0.3:
        X = np.round(X)
    if rng.random() < 0.3:
        X = X[rng.integers(n, size=n)]
    offset = rng.choice([0.0, 0.0, 100.0])
    weights = rng.choice([0.5, 1.0, 2.0, 7.0], size=n) if rng.random() < 0.5 else None
    trim = int(rng.integers(1, n - 1)) if weights is None and rng.random() < 0.4 else None
    return X + offset, weights, int(rng.integers(1, n)), trim


def trimmed_optimum(X, k, trim):
    kept = len(X) - trim
    ones = np.ones(kept)
    return min(optimum(X[list(some)], ones, k) for some in combinations(range(len(X)), kept))


@pytest.mark.long
@pytest.mark.parametrize("group", range(GROUPS))
def test_no_bound_is_above_the_optimum(group):
    rng = np.random.default_rng(group)
    for number in range(PROBLEMS // GROUPS):
        X, weights, k, trim = problem(rng)
        scale = 2.0 ** float(rng.choice([0, 0, -200, 300]))
        if trim is None:
            best = optimum(X, np.ones(len(X)) if weights is None else weights, k)
        else:
            best = trimmed_optimum(X, k, trim)
        method = "branching" if trim is None and number % 4 == 0 else "semidefinite"
        given = {"sample_weight": weights, "trim": trim}
        bound = lower_bound(X * scale, k, method=method, seconds=0.02, **given)
        # What the sums of the brute force may have rounded: they are of centered differences.
        rounding = 1e-12 * ((X - X.mean(axis=0)) ** 2).sum()
        assert bound.value / scale**2 <= best * (1 + 1e-12) + rounding, (number, method)
        if bound.proof is not None:
            checked = check_proof(X * scale, bound.proof, **given)
            assert checked / scale**2 <= best * (1 + 1e-12) + rounding, (number, method)
