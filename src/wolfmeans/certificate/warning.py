"""Warnings about a fit: starts left out, clusters not found, early endings."""

from __future__ import annotations

import math
import sys

from sklearn.exceptions import ConvergenceWarning

from wolfmeans.certificate.record import Certificate
from wolfmeans.certificate.wording import READINGS
from wolfmeans.core.notices import warn


def warn_about(
    certificate: Certificate, *, inertia: float, empty: str, notes: tuple[str, ...]
) -> None:
    """Warn of starts left out, clusters not found, numbers that do not fit, and early endings."""
    n_clusters, unused = certificate.n_clusters, certificate.empty_clusters
    for note in notes if certificate.status.converged else ():
        warn(f"{note[0].upper()}{note[1:]}.", ConvergenceWarning)
    if unused and empty != "keep":
        warn(
            f"Number of distinct clusters ({n_clusters - unused}) found smaller than n_clusters "
            f"({n_clusters}). Possibly due to duplicate points in X.",
            ConvergenceWarning,
        )
    elif unused:
        warn(
            f"{unused} of {n_clusters} clusters are empty (empty='keep'); another policy would "
            "use them.",
            ConvergenceWarning,
        )
    vanished = inertia < sys.float_info.min and certificate.inertia > 0
    if vanished or not math.isfinite(inertia):
        warn(
            f"The squared distances of X do not fit into float64, so inertia_ is {inertia}; "
            f"certificate_ has it in units of 2^{certificate.unit_exponent}.",
            RuntimeWarning,
        )
    if not certificate.status.converged:
        warn(
            f"Not converged: {READINGS[certificate.status]}. One more step would lower the "
            f"SSE by {certificate.decrease:.3g} of {certificate.inertia:.6g}.",
            ConvergenceWarning,
        )
