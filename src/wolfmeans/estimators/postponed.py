"""A lower bound that is computed when the certificate is first read, not during the fit.

Many fits are never asked for their certificate, and a good bound takes longer than a fit of few
points. The points are copied, because the caller may change them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from time import thread_time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.bounds import LowerBound, Settings
from wolfmeans.bounds.methods import LARGE_BUDGET, REGISTRY
from wolfmeans.certificate.record import Certificate
from wolfmeans.fitting.fit import OpenedForFit
from wolfmeans.fitting.lower_bound import bound_in_units

if TYPE_CHECKING:
    from wolfmeans.estimators.base import CenterEstimator

_METHOD = "semidefinite"
MOST_POINTS = 2500
"""With more points, a second is not enough."""
_MOST_BYTES = 1 << 25
_GOOD_ENOUGH = 1.001
_SECONDS_OF_STEPS = 0.35
"""On a common core; the proof takes most of the rest of a second."""
_MOST_STEPS = 80
_MOST_SECONDS = 3.0
"""On a machine that is so slow, fewer steps are taken."""


@dataclass(frozen=True)
class PostponedBound:
    """Everything that the bound needs besides the fitted model."""

    X: Any
    """In the caller's units."""
    weights: NDArray[np.float64] | None

    def bound(self, model: CenterEstimator) -> LowerBound:
        """Return the bound, in units of the model's certificate."""
        limits = modest_limits(self.X.shape[0], model.n_clusters)
        settings = replace(limits, centers=model.cluster_centers_)
        found = bound_in_units(
            self.X,
            model.n_clusters,
            self.weights,
            model._trim_on(self.X, self.weights),
            _METHOD,
            LARGE_BUDGET,
            settings,
            vars(model)["certificate_"].unit_exponent,
        )
        # It is part of the fit: no time of `certify` was spent.
        return replace(found, seconds=0.0)


def modest_limits(n: int, n_clusters: int) -> Settings:
    """Return settings for a semidefinite bound of few points that takes about a second.

    The number of steps depends on the data alone, so that the bound is the same after a fit on
    another engine, unless the machine is very slow. A thread that waits for a processor does not
    count as slow.
    """
    a_step = 1e-3 + 4e-10 * n**2 * (2 * n_clusters + 8)
    steps = max(1, min(_MOST_STEPS, int(_SECONDS_OF_STEPS / a_step)))
    return Settings(n_threads=1, seconds=_MOST_SECONDS, steps=steps, clock=thread_time)


def postponed_bound(
    certificate: Certificate, data: OpenedForFit, *, trimmed: bool
) -> PostponedBound | None:
    """Return the bound that is worth computing later; None if there is none."""
    n, d = data.X.shape
    if data.in_parts or n > MOST_POINTS or n * d * 8 > _MOST_BYTES:
        return None
    if not 1 < certificate.n_clusters < n or REGISTRY[_METHOD].refusal(d, trimmed) is not None:
        return None
    if certificate.ratio is not None and certificate.ratio <= _GOOD_ENOUGH:
        return None
    X = data.X.copy() if hasattr(data.X, "copy") else np.array(data.X)
    return PostponedBound(X, data.workspace.weights)
