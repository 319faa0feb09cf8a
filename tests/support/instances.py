"""Random K-means instances for Hypothesis: weights, duplicates, ties, empty clusters, offsets."""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from wolfmeans.engines import get_engine
from wolfmeans.exact.native import native_is_available

ENGINES = ("reference", "cpu") if native_is_available() else ("reference",)


@dataclass(frozen=True)
class Instance:
    X: np.ndarray
    weights: np.ndarray | None
    seeds: np.ndarray

    @property
    def n_clusters(self) -> int:
        return len(self.seeds)

    def open(self, engine: str = "reference"):
        return get_engine(engine).open(self.X, self.weights, 2)

    def distinct_heavy_points(self) -> int:
        heavy = self.X if self.weights is None else self.X[self.weights > 0]
        return len(np.unique(heavy, axis=0))


@st.composite
def instances(draw, max_points: int = 30, max_features: int = 4, max_clusters: int = 6):
    """Draw points on a lattice (ties, duplicates) or in general position, and seeds anywhere."""
    n = draw(st.integers(1, max_points))
    d = draw(st.integers(1, max_features))
    k = draw(st.integers(1, min(n, max_clusters)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lattice = draw(st.booleans())
    X = rng.integers(-2, 3, size=(n, d)) * 1.0 if lattice else rng.normal(size=(n, d))
    X += draw(st.sampled_from([0.0, 0.0, 1e8, -1e5]))
    X = X.astype(draw(st.sampled_from([np.float64, np.float32])))
    # Seeds far away leave clusters empty from the start.
    seeds = X[rng.integers(0, n, size=k)].copy()
    if draw(st.booleans()):
        seeds[rng.integers(0, k)] += X.dtype.type(1000.0)
    weights = None
    if draw(st.booleans()):
        weights = rng.choice([0.0, 0.5, 1.0, 3.0, 1e-8, 1e8], size=n)
        weights[rng.integers(0, n)] = 1.0
    return Instance(X, weights, seeds)
