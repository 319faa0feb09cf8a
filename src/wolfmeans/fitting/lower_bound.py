"""The function `lower_bound`: validates the data and returns a bound in the caller's units."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Integral, Real
from time import perf_counter
from typing import Any

from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from wolfmeans.bounds.bound import (
    LowerBound,
    Report,
    Settings,
    positive_points,
    scaled_down,
    total_weight,
    weight_left_out,
)
from wolfmeans.bounds.methods import (
    DEFAULT_BUDGET,
    POINTS_IN_A_SECOND,
    REGISTRY,
    auto_methods,
    best_bound,
)
from wolfmeans.bounds.proof_format import Proof, ProofTree
from wolfmeans.bounds.trimmed_proof import check_trimmed
from wolfmeans.core.progress import PATIENCE, progress_on_terminal
from wolfmeans.engines import effective_threads, get_engine
from wolfmeans.engines.tensors import is_tensor
from wolfmeans.inputs import validation

# Validation uses the name of this class in its messages.
_ASKER = type("lower_bound", (BaseEstimator,), {})


def lower_bound(
    X: Any,
    n_clusters: int,
    *,
    sample_weight: Any = None,
    trim: float | None = None,
    method: str = "auto",
    confidence: float = 0.95,
    random_state: Any = None,
    n_threads: int | None = None,
    centers: Any = None,
    budget: float = DEFAULT_BUDGET,
    seconds: float = 10.0,
    engine: str = "auto",
    progress: Report | None = None,
) -> LowerBound:
    """Return a lower bound on the inertia of every clustering of X into n_clusters clusters.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The points.
    n_clusters : int
        The number of clusters, K.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the points, at least 0.
    trim : float, default=None
        The weight (without weights, the number of points) that a clustering may trim.
    method : {"auto", "exact", "spectral", "neighbours", "prices", "semidefinite", "branching", \
            "subsampled"}, default="auto"
        How the bound is computed. "exact" is the optimum itself, for one column without trimming.
        "spectral" is the variance that K - 1 directions cannot explain; it needs
        n_features >= n_clusters and no trimming. "neighbours" sums the costs of each point's
        nearest neighbours; its time grows with the square of n_samples. "prices" is for few columns
        and touching clusters; it is a dual bound with a price for each point. "semidefinite" is the
        strongest for up to some thousand points: it improves for `seconds`, and has a proof that
        `check_proof` verifies. "branching" continues it by branch and bound, for up to 500 points,
        until a clustering is proven optimal to 1e-6 or the time is over. "subsampled" uses a random
        sample and holds only with the given confidence. "auto" takes the largest bound of several:
        quick methods first, then, if that may help, the semidefinite bound for the rest of the
        `seconds`.
    confidence : float, default=0.95
        The probability, at least, that a bound from a sample holds.
    random_state : int, RandomState or None, default=None
        Seed of the samples.
    n_threads : int, default=None
        Maximum number of threads; None for as many as scikit-learn would use.
    centers : array-like of shape (n_clusters, n_features), default=None
        Centers of a good clustering, if you have one. "prices" and "semidefinite" start from
        them, and "auto" stops when no better bound is possible.
    budget : float, default=5e10
        Approximate number of multiplications that the quick methods of "auto" may take; the
        default is some seconds.
    seconds : float, default=10.0
        Time limit of the semidefinite bound and of branch and bound. It may end sooner: when it
        proves that the clustering is optimal, or when it no longer rises.
        Where "subsampled" is asked for by name, about the time that it may take for semidefinite
        bounds of small samples of 20,000 points or more.
    engine : {"auto", "cpu", "gpu"}, default="auto"
        Where the semidefinite bound is computed; "gpu" needs PyTorch. "auto" takes the GPU if X is
        a tensor there. The proof is checked in the same way.
    progress : callable, default=None
        Called from time to time with the completed fraction and a text; None shows a bar on a
        terminal and in a notebook after two seconds.

    Returns
    -------
    LowerBound
        `value`, `kind`, `confidence` (1.0 for a proof), `seconds` and, for "semidefinite", `proof`.
        Every value is rounded down.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans import lower_bound
    >>> X = np.array([[0.0, 0.0], [0.0, 2.0], [9.0, 0.0], [9.0, 2.0]])
    >>> bound = lower_bound(X, 2)
    >>> round(bound.value, 6), bound.kind, bound.confidence
    (4.0, 'neighbours', 1.0)
    """
    if engine not in ("auto", "cpu", "gpu"):
        raise ValueError(f"engine must be 'auto', 'cpu' or 'gpu'; got {engine!r}")
    with progress_on_terminal(progress, PATIENCE) as report:
        settings = Settings(
            confidence=confidence,
            rng=lambda: check_random_state(random_state),
            n_threads=effective_threads(n_threads),
            progress=report,
            centers=centers,
            seconds=seconds,
            on_gpu=engine == "gpu" or (engine == "auto" and is_tensor(X) and X.is_cuda),
        )
        return bound_in_units(X, n_clusters, sample_weight, trim, method, budget, settings)


def check_proof(
    X: Any,
    proof: Proof | ProofTree,
    *,
    sample_weight: Any = None,
    trim: float | None = None,
    size_min: float | None = None,
    size_max: float | None = None,
) -> float:
    """Return the lower bound that a proof proves for X; 0.0 if it proves nothing.

    The check trusts no number of the proof (docs/lower-bounds.md has the theorem and the rounding
    analysis). The bound holds for every clustering into at most `proof.n_clusters` clusters.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The points, in the order of the rows that were bounded.
    proof : Proof or ProofTree
        From `LowerBound.proof`, or `Proof.load`.
    sample_weight : array-like of shape (n_samples,), default=None
        The weights.
    trim : float, default=None
        The weight (without weights, the number of points) that a clustering may trim. Every proof
        says something about trimmed problems; those that were sought for one say more.
    size_min, size_max : float, default=None
        The least and the largest size of a cluster (without weights, a number of points) in the
        problem; None for any. A proof that uses such limits (`proof.sizes`) is refused where the
        problem allows other clusters, too. It is about clusterings that split no point.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from wolfmeans import check_proof, lower_bound
    >>> X = load_iris().data
    >>> bound = lower_bound(X, 3, method="semidefinite", seconds=5)
    >>> 78.0 < check_proof(X, bound.proof) <= 78.8514415
    True
    """
    X, sizes = validation.validate_points(_ASKER(), X, reset=True, n_threads=1)
    weights = validation.validate_weights(sample_weight, X)
    exponent = validation.proof_exponent(X, sizes, weights)
    points, weights = positive_points(validation.rescale(X, exponent), weights)
    points = points.toarray() if sparse.issparse(points) else points
    total = total_weight(points.shape[0], weights)
    left_out = weight_left_out(total, _kept(total, trim))
    limits = (
        0.0 if size_min is None else float(size_min),
        math.inf if size_max is None else float(size_max),
    )
    value = check_trimmed(points, weights, proof, left_out=left_out, sizes=limits)
    return scaled_down(value, -2 * exponent)


def bound_in_units(
    X: Any,
    n_clusters: int,
    sample_weight: Any,
    trim: float | None,
    method: str,
    budget: float,
    settings: Settings,
    unit_exponent: int = 0,
) -> LowerBound:
    """Return what `lower_bound` does, in units of 2**unit_exponent of the squares of X.

    The settings are as given by the caller: their centers are validated here.
    """
    started = perf_counter()
    check_arguments(n_clusters, method, settings.confidence, budget, settings.seconds)
    threads = settings.n_threads
    X, sizes = validation.validate_points(_ASKER(), X, reset=True, n_threads=threads)
    weights = validation.validate_weights(sample_weight, X)
    mass = _kept(total_weight(X.shape[0], weights), trim)
    (n, d), k = X.shape, int(n_clusters)
    if method == "auto":
        # A number of steps is for bounds that do not depend on the time.
        timed, trimmed = settings.steps is None, mass is not None
        whole = sparse.issparse(X) or trimmed or not timed
        # Branch and bound knows no limits of sizes; the semidefinite bound does, without weights.
        branch = timed and (settings.sizes is None or weights is not None)
        in_parts = 0.0 if whole else POINTS_IN_A_SECOND * settings.seconds * threads
        methods = auto_methods(
            n, d, k, trimmed=trimmed, budget=budget, branch=branch, in_parts=in_parts
        )
    else:
        reason = REGISTRY[method].refusal(d, mass is not None)
        if reason is not None:
            raise ValueError(f"method={method!r}: {reason}")
        methods, settings = (method,), replace(settings, named=True)
    proves = any(REGISTRY[name].by_time for name in methods)
    scale = validation.proof_exponent if proves else validation.scale_exponent
    exponent = scale(X, sizes, weights)
    scaled = validation.rescale(X, exponent)
    if settings.centers is not None:
        centers = validation.validate_centers(settings.centers, k, X)
        centers = validation.ldexp(centers, exponent)
        # Within size limits, the points are not at their nearest centers.
        free = mass is None and settings.sizes is None
        goal = _sse(scaled, weights, centers, threads) if free else None
        settings = replace(settings, centers=centers, goal=goal)
    found = best_bound(scaled, k, weights, mass, methods=methods, settings=settings)
    if found is None:
        found = LowerBound(0.0, "none", 1.0, 0.0)
    value = scaled_down(found.value, -2 * exponent - unit_exponent)
    if found.better_centers is not None and found.better_inertia is not None:
        better = validation.ldexp(found.better_centers, -exponent)
        inertia = math.ldexp(found.better_inertia, -2 * exponent - unit_exponent)
        found = replace(found, better_centers=better, better_inertia=inertia)
    return replace(found, value=value, seconds=perf_counter() - started)


def _sse(X: Any, weights: Any, centers: Any, n_threads: int) -> float:
    """Return the SSE at the given centers."""
    workspace = get_engine().open(X, weights, n_threads)
    distances = workspace.nearest(centers.astype(workspace.dtype))[1]
    return workspace.total(distances if weights is None else weights * distances)


def check_arguments(
    n_clusters: Any, method: str, confidence: Any, budget: Any, seconds: Any = 1.0
) -> None:
    """Raise an error for invalid arguments of `lower_bound`."""
    if not _is_number(n_clusters, Integral) or n_clusters < 1:
        raise ValueError(f"n_clusters must be an integer of at least 1, got {n_clusters!r}")
    if method != "auto" and method not in REGISTRY:
        names = ", ".join(map(repr, ("auto", *REGISTRY)))
        raise ValueError(f"method must be one of {names}; got {method!r}")
    if not _is_number(confidence, Real) or not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence!r}")
    if not _is_number(budget, Real) or not budget >= 0:
        raise ValueError(f"budget must be a number of multiplications, got {budget!r}")
    if not _is_number(seconds, Real) or not 0.0 < seconds < math.inf:
        raise ValueError(f"seconds must be a positive number, got {seconds!r}")


def _is_number(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _kept(total: float, trim: Any) -> float | None:
    """Return the mass that is kept; None for all of it."""
    if trim is None:
        return None
    if not _is_number(trim, Real) or not 0.0 <= trim < total:
        raise ValueError(
            f"trim must be at least 0 and less than the total weight {total:g}, got {trim!r}"
        )
    return total - float(trim) if trim > 0 else None
