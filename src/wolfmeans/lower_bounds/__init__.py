"""Lower bounds on the best possible SSE, each rounded down so that it is never above the truth."""

from wolfmeans.lower_bounds.bound import LowerBound
from wolfmeans.lower_bounds.front import bound_in_units, lower_bound
from wolfmeans.lower_bounds.methods import (
    REGISTRY,
    WHATEVER_IT_COSTS,
    Settings,
    affordable,
    best_bound,
    predicted_cost,
    useful,
)
from wolfmeans.lower_bounds.neighbours import neighbours
from wolfmeans.lower_bounds.one_dimensional import one_dimensional
from wolfmeans.lower_bounds.prices import prices
from wolfmeans.lower_bounds.spectral import spectral
from wolfmeans.lower_bounds.subsampled import subsampled

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
    "bound_in_units",
    "lower_bound",
    "neighbours",
    "one_dimensional",
    "predicted_cost",
    "prices",
    "spectral",
    "subsampled",
    "useful",
]
