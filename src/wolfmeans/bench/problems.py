"""Points for a comparison, and the start that every method is given.

Everything is made in float64 and rounded once to the dtype asked for, so that the float32 and the
float64 cell of a shape hold the same points. Blobs overlap: their median distance to the nearest
other blob is four standard deviations, which costs Lloyd's algorithm tens of iterations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.cluster import kmeans_plusplus

# Dense, or CSR.
Points = Any

SEPARATION = 4.0
QUICK_ROWS, QUICK_COLUMNS, QUICK_CLUSTERS = 600, 16, 8


@dataclass(frozen=True)
class Shape:
    """A number of points, of columns and of clusters."""

    n: int
    d: int
    n_clusters: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "200000x2x100".

        Examples
        --------
        >>> str(Shape.parse("200000x2x100"))
        '200000x2x100'
        """
        parts = text.split("x")
        if len(parts) != 3 or not all(part.isdigit() and int(part) > 0 for part in parts):
            raise ValueError(f"a cell is written n x d x K, as in 200000x2x100; got {text!r}")
        return cls(*map(int, parts))

    def quick(self) -> Shape:
        """Return a small shape of the same kind, for tests."""
        return Shape(
            min(self.n, QUICK_ROWS),
            min(self.d, QUICK_COLUMNS),
            min(self.n_clusters, QUICK_CLUSTERS),
        )

    def __str__(self) -> str:
        return f"{self.n}x{self.d}x{self.n_clusters}"


@dataclass(frozen=True)
class Problem:
    """One cell of the benchmark: points and the start that every method is given."""

    data: str
    points: Points
    """(n, d) C-contiguous or CSR, float32 or float64."""
    seeds: Points
    """(K, d) of the same dtype."""

    @property
    def shape(self) -> Shape:
        """The numbers of points, columns and clusters."""
        n, d = self.points.shape
        return Shape(n, d, len(self.seeds))

    @property
    def dtype(self) -> str:
        """The name of the points' dtype."""
        return str(self.points.dtype)


@dataclass(frozen=True)
class Source:
    """Points that are made or read when they are needed."""

    data: str
    n_clusters: int
    load: Callable[[], Points]

    def problems(self, dtypes: Sequence[str]) -> Iterator[Problem]:
        """Yield the problem in each dtype.

        Raises
        ------
        Exception
            Of whatever kind `load` raises where the data cannot be had.
        """
        points = self.load()
        start = seeds(points, self.n_clusters)
        for dtype in dtypes:
            yield Problem(
                self.data,
                _rounded(points, dtype),
                _rounded(start, dtype),
            )


def _rounded(points: Points, dtype: str) -> Points:
    if sparse.issparse(points):
        return points.astype(dtype)
    return np.ascontiguousarray(points, dtype=dtype)


def uniform_problem(shape: Shape, dtype: str) -> Problem:
    """Return one problem of uniform data."""
    source = Source("uniform", shape.n_clusters, maker("uniform", shape))
    return next(source.problems([dtype]))


def maker(name: str, shape: Shape) -> Callable[[], Points]:
    """Return what makes the points of a shape when it is called."""
    return lambda: SYNTHETIC[name](shape, np.random.default_rng(0))


def seeds(points: Points, n_clusters: int) -> Points:
    """Draw greedy k-means++ seeds from a sample and pull them a little towards the mean.

    Between the data points there are no ties, which every library would break in its own way.
    """
    n = points.shape[0]
    rng = np.random.default_rng(1)
    rows = np.sort(rng.choice(n, min(n, 2_000 + 20 * n_clusters), replace=False))
    sample = points[rows]
    chosen, _ = kmeans_plusplus(sample, n_clusters, random_state=0)
    return np.asarray(0.99 * chosen + 0.01 * sample.mean(axis=0))


def blobs(shape: Shape, rng: np.random.Generator) -> Points:
    """Draw from K round Gaussians of unit variance and of random weights."""
    centers = rng.normal(size=(shape.n_clusters, shape.d))
    distances = cdist(centers, centers)
    np.fill_diagonal(distances, math.inf)
    centers *= SEPARATION / np.median(distances.min(axis=1))
    weights = rng.dirichlet(np.full(shape.n_clusters, 5.0))
    points = rng.normal(size=(shape.n, shape.d))
    points += centers[rng.choice(shape.n_clusters, size=shape.n, p=weights)]
    return points


def uniform(shape: Shape, rng: np.random.Generator) -> Points:
    """Draw uniformly from the unit cube: no structure to find, and the most iterations."""
    return rng.random((shape.n, shape.d))


SYNTHETIC: dict[str, Callable[[Shape, np.random.Generator], Points]] = {
    "blobs": blobs,
    "uniform": uniform,
}
