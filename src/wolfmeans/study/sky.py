"""Is the class SKY of the image segmentation data Gaussian? Robust distances give the answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2
from sklearn.covariance import MinCovDet

from wolfmeans.files.datasets import load_segmentation

LEVELS = (0.5, 0.75, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class SkyDistances:
    """Squared robust Mahalanobis distances, and those of a Gaussian sample of the same shape."""

    dimension: int
    squared: NDArray[np.float64]
    gaussian: NDArray[np.float64]

    @property
    def expected(self) -> NDArray[np.float64]:
        """Chi-square quantiles that belong to the distances in ascending order."""
        shares = (np.arange(len(self.squared)) + 0.5) / len(self.squared)
        return np.asarray(chi2.ppf(shares, self.dimension))

    def quantiles(self) -> list[tuple[float, float, float, float]]:
        """Return level, SKY, Gaussian sample and chi-square for each of LEVELS."""
        return [
            (
                level,
                float(np.quantile(self.squared, level)),
                float(np.quantile(self.gaussian, level)),
                float(chi2.ppf(level, self.dimension)),
            )
            for level in LEVELS
        ]


def sky_distances(seed: int = 0) -> SkyDistances:
    """Compute the distances; the 14 columns have rank 9 within SKY and are reduced first."""
    data = load_segmentation()
    points = reduced_to_rank(data.data[np.char.lower(data.target) == "sky"])
    gaussian = np.random.default_rng(seed).standard_normal(points.shape)
    return SkyDistances(points.shape[1], _robust(points, seed), _robust(gaussian, seed))


def reduced_to_rank(points: NDArray[np.float64], tolerance: float = 1e-6) -> NDArray[np.float64]:
    """Return the principal components of the standardized columns that carry more than rounding."""
    spread = points.std(axis=0)
    varying = spread > 0
    standardized = (points[:, varying] - points[:, varying].mean(axis=0)) / spread[varying]
    scores, singular, _ = np.linalg.svd(standardized, full_matrices=False)
    rank = int(np.sum(singular > tolerance * singular[0]))
    return np.asarray(scores[:, :rank] * np.sqrt(len(points)))


def _robust(points: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    model = MinCovDet(random_state=seed).fit(points)
    return np.asarray(model.mahalanobis(points), dtype=np.float64)
