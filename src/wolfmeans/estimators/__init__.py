"""scikit-learn's interface over the one loop, thin."""

from wolfmeans.estimators.kmeans import KMeans

__all__ = ["KMeans"]
