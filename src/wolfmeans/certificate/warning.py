"""Warnings about a fit: skipped starts, missing clusters, early endings."""

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
    """Warn about skipped starts, missing clusters, overflowing numbers and early endings."""
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
            f"{unused} of {n_clusters} clusters are empty (empty='keep'); choose another value of "
            "`empty` to use them.",
            ConvergenceWarning,
        )
    vanished = inertia < sys.float_info.min and certificate.inertia > 0
    if vanished or not math.isfinite(inertia):
        warn(
            "The squared distances of X are outside the range of float64, so inertia_ is "
            f"{inertia}; certificate_ gives it in units of 2^{certificate.unit_exponent}.",
            RuntimeWarning,
        )
    if not certificate.status.converged:
        warn(
            f"Not converged: {READINGS[certificate.status]}. One more step would lower "
            f"inertia ({certificate.inertia:.6g}) by {certificate.decrease:.3g}.",
            ConvergenceWarning,
        )
