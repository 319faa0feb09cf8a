"""Checks of gpu.py: labels against canonical distances, inertias in float64, equal bits."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from gpu_contenders import Problem, Wolfmeans, model_of
from gpu_report import Equality, Verdict

from wolfmeans.exact.native import native_is_available

LEAST_ROWS = 20_000
LEAST_ITERATIONS = 2
_BLOCK = 1 << 26  # distances held at a time


def rows_to_check(n: int, d: int, n_clusters: int, work: float) -> Any:
    """Return rows spread evenly: all of them, or as many as cost about `work` subtractions."""
    most = max(LEAST_ROWS, int(work / (d * n_clusters)))
    return torch.arange(n) if n <= most else torch.arange(most) * n // most


def canonical_distances(points: Any, centers: Any) -> Any:
    """Return the (rows, K) sums of squares in float64, column by column, each operation rounded.

    This is the order of wolfmeans.engines.reference, so that labels can be compared without a
    tolerance. Products and sums are kernels of their own: nothing is fused.
    """
    columns = points.double().T.contiguous()
    of_centers = centers.double().T.contiguous()
    total = torch.zeros(len(points), len(centers), dtype=torch.float64, device=points.device)
    for x, c in zip(columns, of_centers, strict=True):
        difference = x[:, None] - c[None, :]
        total += difference.mul_(difference)
    return total


def judge(points: Any, centers: Any, labels: Any, work: float) -> Verdict:
    """Hold labels against the canonical distances to centers, all of them on one device."""
    rows = rows_to_check(len(points), points.shape[1], len(centers), work).to(points.device)
    block = max(1, _BLOCK // len(centers))
    wrong = other = 0
    for first in range(0, len(rows), block):
        some = rows[first : first + block]
        distances = canonical_distances(points[some], centers)
        own = labels[some].long()
        least, nearest = distances.min(dim=1).values, distances.argmin(dim=1)
        wrong += int((distances.gather(1, own[:, None])[:, 0] > least).sum())
        other += int((own != nearest).sum())
    return Verdict(len(rows), wrong, other)


def inertia_of(points: Any, centers: Any) -> float:
    """Return the sum of squared distances to the nearest centers, evaluated in float64.

    The nearest is found by the expanded square, its distance is then computed directly.
    """
    wide = centers.double()
    half_norms = 0.5 * (wide * wide).sum(dim=1)
    block = max(1, _BLOCK // max(len(centers), points.shape[1]))
    total = 0.0
    for first in range(0, len(points), block):
        x = points[first : first + block].double()
        nearest = torch.addmm(half_norms, x, wide.T, alpha=-1.0).argmin(dim=1)
        total += float((x - wide[nearest]).square_().sum())
    return total


def compare_engines(problem: Problem, iterations: int, work: float) -> Equality | str:
    """Fit with both engines, for fewer iterations where n d K of them would exceed `work`."""
    if not native_is_available():
        return "the native module cannot be imported"
    shape = problem.shape
    affordable = int(work / (shape.n * shape.d * shape.n_clusters))
    iterations = min(iterations, max(LEAST_ITERATIONS, affordable))
    here = Wolfmeans().run(problem.points, problem.start, iterations).model
    begun = time.perf_counter()
    there = model_of(problem.start, iterations, engine="cpu").fit(problem.points)
    seconds = time.perf_counter() - begun
    differing = differences(here, there)
    return Equality(iterations, not differing, differing, seconds)


def differences(one: Any, other: Any) -> list[str]:
    """Return in which results two fitted models differ, by ==."""
    same = {
        "centers": np.array_equal(one.cluster_centers_, other.cluster_centers_),
        "labels": torch.equal(one.labels_, other.labels_),
        "inertia": one.inertia_ == other.inertia_,
        "n_iter": one.n_iter_ == other.n_iter_,
    }
    return [name for name, equal in same.items() if not equal]
