"""scikit-learn's interface over the one loop, thin."""

from wolfmeans.estimators.constrained import ConstrainedKMeans
from wolfmeans.estimators.kmeans import KMeans
from wolfmeans.estimators.spherical import SphericalKMeans, TrimmedSphericalKMeans
from wolfmeans.estimators.trimmed import TrimmedKMeans

__all__ = [
    "ConstrainedKMeans",
    "KMeans",
    "SphericalKMeans",
    "TrimmedKMeans",
    "TrimmedSphericalKMeans",
]
