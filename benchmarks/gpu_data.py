"""Points of gpu.py, made on the device with fixed seeds, and the start that everybody gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from wolfmeans.bench.problems import Shape

DEVIATION, REACH = 2.0, 10.0  # of blobs: about their centers, and of the centers
_BLOCK = 1 << 26  # entries made at a time, so that making them needs no second copy


@dataclass(frozen=True)
class Problem:
    """One cell: points and the start that every contender is given."""

    data: str
    points: Any
    """(n, d) float32 tensor."""
    start: Any
    """(K, d) rows of it, drawn at random."""

    @property
    def shape(self) -> Shape:
        n, d = self.points.shape
        return Shape(n, d, len(self.start))


def blobs(shape: Shape, source: Any) -> Callable[[int], Any]:
    """Return what draws rows from K round Gaussians of equal weight."""
    uniform = torch.rand(shape.n_clusters, shape.d, generator=source, device=source.device)
    centers = REACH * (2.0 * uniform - 1.0)

    def rows(count: int) -> Any:
        of = torch.randint(shape.n_clusters, (count,), generator=source, device=source.device)
        noise = torch.randn(count, shape.d, generator=source, device=source.device)
        return noise.mul_(DEVIATION).add_(centers[of])

    return rows


def gauss(shape: Shape, source: Any) -> Callable[[int], Any]:
    """Return what draws rows from one Gaussian: no structure to find."""
    return lambda count: torch.randn(count, shape.d, generator=source, device=source.device)


MAKERS = {"blobs": blobs, "gauss": gauss}


def points_of(data: str, shape: Shape, device: str, *, pinned: bool = False) -> Any:
    """Return the (n, d) float32 points; `pinned` puts them into page-locked host memory."""
    draw = MAKERS[data](shape, torch.Generator(device=device).manual_seed(0))
    if pinned:
        points = torch.empty(shape.n, shape.d, pin_memory=torch.cuda.is_available())
    else:
        points = torch.empty(shape.n, shape.d, device=device)
    block = max(1, _BLOCK // shape.d)
    for first in range(0, shape.n, block):
        part = points[first : first + block]
        part.copy_(draw(len(part)))
    return points


def starts_of(points: Any, n_clusters: int, count: int = 1) -> list[Any]:
    """Return `count` starts, each of K different rows drawn at random."""
    source = torch.Generator(device=points.device).manual_seed(1)
    n = len(points)
    orders = (torch.randperm(n, generator=source, device=points.device) for _ in range(count))
    return [points[order[:n_clusters]].clone() for order in orders]


def problem_of(data: str, shape: Shape, device: str) -> Problem:
    points = points_of(data, shape, device)
    return Problem(data, points, starts_of(points, shape.n_clusters)[0])
