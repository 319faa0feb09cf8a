"""Lower bounds on the best possible SSE, each rounded down so that it is never above the truth."""

from wolfmeans.bounds.bound import LowerBound
from wolfmeans.bounds.methods import (
    REGISTRY,
    WHATEVER_IT_COSTS,
    Settings,
    affordable,
    best_bound,
    predicted_cost,
    useful,
)
from wolfmeans.bounds.neighbours import neighbours
from wolfmeans.bounds.one_dimensional import one_dimensional
from wolfmeans.bounds.prices import prices
from wolfmeans.bounds.spectral import spectral
from wolfmeans.bounds.subsampled import subsampled

METHODS = tuple(REGISTRY)
"""By name."""

__all__ = [
    "METHODS",
    "REGISTRY",
    "WHATEVER_IT_COSTS",
    "LowerBound",
    "Settings",
    "affordable",
    "best_bound",
    "neighbours",
    "one_dimensional",
    "predicted_cost",
    "prices",
    "spectral",
    "subsampled",
    "useful",
]
