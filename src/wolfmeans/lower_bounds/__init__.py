"""Lower bounds on the best possible SSE, each rounded down so that it is never above the truth."""

from wolfmeans.lower_bounds.bound import LowerBound
from wolfmeans.lower_bounds.spectral import spectral

METHODS = ("spectral",)

__all__ = ["METHODS", "LowerBound", "spectral"]
