"""The data of the search benchmark: where k-means++ and Lloyd's steps often end in poor optima."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_blobs

from wolfmeans.files.datasets import load_segmentation

Points = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """Points and the number of clusters to look for."""

    name: str
    points: Points
    n_clusters: int

    @property
    def shape(self) -> str:
        n, d = self.points.shape
        return f"{n} × {d}, K = {self.n_clusters}"


def cases() -> Iterator[Case]:
    """Make or load the data sets, one at a time; all of them need no network."""
    rng = np.random.default_rng(0)
    yield Case("iris", load_iris().data, 10)
    yield Case("breast cancer, standardized", _standardized(load_breast_cancer().data), 20)
    yield Case("digits", load_digits().data, 10)
    yield Case("digits", load_digits().data, 64)
    segmentation = load_segmentation().standardized()
    yield Case("segmentation, standardized", segmentation, 7)
    yield Case("segmentation, standardized", segmentation, 50)
    yield Case("grid of 10 × 10 Gaussians", _grid(10, 5_000, rng), 100)
    yield Case("grid of 20 × 20 Gaussians", _grid(20, 20_000, rng), 400)
    yield Case("sine wave of Gaussians", _sine(20_000, rng), 100)
    yield Case("uniform in the square", rng.random((20_000, 2)), 200)
    yield Case("unbalanced mixture", _unbalanced(10_000, 4, 40, rng), 40)
    yield Case("heavy-tailed mixture", _heavy_tailed(10_000, 8, 30, rng), 30)
    blobs, _ = make_blobs(20_000, 10, centers=50, cluster_std=3.0, random_state=0)
    yield Case("blobs", blobs, 50)
    yield Case("overlapping mixture", _overlapping(100_000, 16, 100, rng), 100)


def _standardized(points: Points) -> Points:
    return np.asarray((points - points.mean(axis=0)) / points.std(axis=0))


def _grid(side: int, n: int, rng: np.random.Generator) -> Points:
    places = rng.integers(side, size=(n, 2))
    return np.asarray(places + rng.normal(scale=0.1, size=(n, 2)))


def _sine(n: int, rng: np.random.Generator) -> Points:
    """Place 100 Gaussians on four waves, as in the second of the BIRCH sets."""
    place = rng.integers(100, size=n)
    line = np.stack([0.2 * np.pi * place, 3.0 * np.pi * np.sin(0.08 * np.pi * place)], axis=1)
    return np.asarray(line + rng.normal(scale=0.4, size=(n, 2)))


def _unbalanced(n: int, d: int, n_clusters: int, rng: np.random.Generator) -> Points:
    """Draw from Gaussians of different widths, the first 250 times as often as the last."""
    shares = np.arange(1, n_clusters + 1) ** -1.5
    labels = rng.choice(n_clusters, size=n, p=shares / shares.sum())
    centers = rng.uniform(-10.0, 10.0, size=(n_clusters, d))
    widths = rng.uniform(0.3, 1.5, size=n_clusters)
    return np.asarray(centers[labels] + widths[labels, None] * rng.normal(size=(n, d)))


def _heavy_tailed(n: int, d: int, n_clusters: int, rng: np.random.Generator) -> Points:
    centers = rng.uniform(-10.0, 10.0, size=(n_clusters, d))
    labels = rng.integers(n_clusters, size=n)
    return np.asarray(centers[labels] + rng.standard_t(2.5, size=(n, d)))


def _overlapping(n: int, d: int, n_clusters: int, rng: np.random.Generator) -> Points:
    centers = rng.normal(size=(n_clusters, d))
    labels = rng.integers(n_clusters, size=n)
    return np.asarray(centers[labels] + rng.normal(scale=0.7, size=(n, d)))
