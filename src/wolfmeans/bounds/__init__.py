"""Lower bounds on the best possible SSE, each rounded down so that it is never above the truth.

methods.py is the table of methods with their costs; each method's module begins with its theorem.
"""

from wolfmeans.bounds.bound import LowerBound, Settings
from wolfmeans.bounds.methods import (
    LARGE_BUDGET,
    REGISTRY,
    affordable,
    best_bound,
    useful,
)
from wolfmeans.bounds.neighbours import neighbours
from wolfmeans.bounds.one_dimensional import Optimum, one_dimensional, optimum_on_a_line
from wolfmeans.bounds.prices import prices
from wolfmeans.bounds.spectral import spectral
from wolfmeans.bounds.subsampled import subsampled

METHODS = tuple(REGISTRY)
"""By name."""

__all__ = [
    "LARGE_BUDGET",
    "METHODS",
    "REGISTRY",
    "LowerBound",
    "Optimum",
    "Settings",
    "affordable",
    "best_bound",
    "neighbours",
    "one_dimensional",
    "optimum_on_a_line",
    "prices",
    "spectral",
    "subsampled",
    "useful",
]
