"""What a fit has to say: warnings at the line of whoever called it, progress on a terminal."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sklearn.exceptions import ConvergenceWarning

from wolfmeans.plain_words import READINGS

if TYPE_CHECKING:
    from wolfmeans.certificate import Certificate


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the first line outside this package and scikit-learn."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in ("wolfmeans", "sklearn"):
            break
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


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


@contextmanager
def progress_on_terminal(
    progress: Callable[[float, str], Any] | None,
) -> Iterator[Callable[[float, str], Any] | None]:
    """Give the caller's callback, or one that keeps a line of a terminal up to date, or None."""
    if progress is not None or not sys.stderr.isatty():
        yield progress
        return

    def tell(share: float, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{share:4.0%}  {text}")
        sys.stderr.flush()

    try:
        yield tell
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
