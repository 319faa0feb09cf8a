"""The methods by name: what each is for, what it costs, and the best of several."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.bounds.bound import LowerBound, Report
from wolfmeans.bounds.neighbours import neighbours
from wolfmeans.bounds.one_dimensional import one_dimensional
from wolfmeans.bounds.prices import predicted_cost as price_cost
from wolfmeans.bounds.prices import prices
from wolfmeans.bounds.roots import Numbers
from wolfmeans.bounds.sampled_rows import PILOT_ROWS
from wolfmeans.bounds.spectral import spectral
from wolfmeans.bounds.subsampled import n_sampled_rows, subsampled

# A scatter matrix of this many columns takes half a gigabyte.
_WIDEST_SCATTER = 8192
# With more columns the boxes that prove a ceiling are too many.
_MOST_PRICED_COLUMNS = 10
# A bound this near to what was reached need not be improved.
_NEAR = 1.0 - 1e-4
SOME_SECONDS = 5e10
"""Multiplications that `auto` takes for itself."""
WHATEVER_IT_COSTS = 1e12
"""Multiplications that take minutes."""


@dataclass(frozen=True)
class Settings:
    """What the methods may use besides the data."""

    confidence: float = 0.95
    rng: Callable[[], np.random.RandomState] = np.random.RandomState
    """Gives a generator when one is needed."""
    n_threads: int = 1
    progress: Report | None = None
    centers: NDArray[np.floating] | None = None
    """Those of a good clustering, where one is known: they tell `prices` where to look."""
    goal: float | None = None
    """An SSE that was reached: a bound next to it ends the search for a better one."""


@dataclass(frozen=True)
class Method:
    """One way to a lower bound."""

    compute: Callable[[Any, int, Numbers | None, float | None, Settings], LowerBound]
    """Called with admitted data, K, weights or None, the mass that is kept or None, settings."""
    cost: Callable[[int, int, int], float]
    """Multiplications, about, from n, d and K."""
    refusal: Callable[[int, int, int, bool], str | None]
    """Why it is not valid for n, d, K, and whether trimmed; None where it is."""
    per_second: float
    """How many of these multiplications a common core makes in a second, at least."""
    rigorous: bool = True
    """Whether its confidence is 1."""


def _untrimmed(name: str) -> Callable[[int, int, int, bool], str | None]:
    def refusal(n: int, d: int, n_clusters: int, trimmed: bool) -> str | None:
        return f"the {name} bound does not hold for trimmed problems" if trimmed else None

    return refusal


def _on_a_line(n: int, d: int, n_clusters: int, trimmed: bool) -> str | None:
    if d != 1:
        return f"the exact optimum is for one column only, not for {d}"
    return _untrimmed("exact")(n, d, n_clusters, trimmed)


def _always(n: int, d: int, n_clusters: int, trimmed: bool) -> str | None:
    return None


def _few_columns(n: int, d: int, n_clusters: int, trimmed: bool) -> str | None:
    return (
        None
        if d <= _MOST_PRICED_COLUMNS
        else f"prices are for up to {_MOST_PRICED_COLUMNS} columns, not {d}"
    )


def _sampling_cost(n: int, d: int, n_clusters: int) -> float:
    rows = n_sampled_rows(n, d)
    if rows == 0:
        return 4 * 1.3 * 8192.0**2 * (d + 8)
    return (rows + 3.0 * PILOT_ROWS) * n * (d + 8) + float(n) * d * n_clusters


REGISTRY: dict[str, Method] = {
    "exact": Method(
        compute=lambda X, k, weights, mass, settings: one_dimensional(X, k, weights),
        cost=lambda n, d, k: 400.0 * n * min(n, k),
        refusal=_on_a_line,
        per_second=1e9,
    ),
    "spectral": Method(
        compute=lambda X, k, weights, mass, settings: spectral(X, k, weights),
        cost=lambda n, d, k: n * float(d) ** 2 + 10.0 * float(d) ** 3,
        refusal=_untrimmed("spectral"),
        per_second=1e9,
    ),
    "neighbours": Method(
        compute=lambda X, k, weights, mass, settings: neighbours(
            X, k, weights, mass, n_threads=settings.n_threads, progress=settings.progress
        ),
        cost=lambda n, d, k: 500_000.0 + 1.3 * float(n) ** 2 * (d + 8),
        refusal=_always,
        per_second=1e9,
    ),
    "prices": Method(
        compute=lambda X, k, weights, mass, settings: prices(
            X.toarray() if sparse.issparse(X) else X,
            k,
            weights,
            mass,
            centers=settings.centers,
            n_threads=settings.n_threads,
            progress=settings.progress,
        ),
        cost=price_cost,
        refusal=_few_columns,
        per_second=2e8,
    ),
    "subsampled": Method(
        compute=lambda X, k, weights, mass, settings: subsampled(
            X,
            k,
            weights,
            mass,
            confidence=settings.confidence,
            rng=settings.rng(),
            n_threads=settings.n_threads,
            progress=settings.progress,
        ),
        cost=_sampling_cost,
        refusal=_always,
        per_second=1e9,
        rigorous=False,
    ),
}
"""By name; the rigorous ones come first, the cheaper ones before the dearer ones."""


def predicted_cost(method: str, n: int, d: int, n_clusters: int) -> float:
    """Return about how many multiplications a method takes.

    Counted and not timed, so that what is chosen by it is reproducible.
    """
    return REGISTRY[method].cost(n, d, n_clusters)


def useful(method: str, n: int, d: int, n_clusters: int, *, trimmed: bool = False) -> bool:
    """Whether a method is valid for such data and can say more than 0."""
    if REGISTRY[method].refusal(n, d, n_clusters, trimmed) is not None:
        return False
    return method != "spectral" or n_clusters <= d <= _WIDEST_SCATTER


def affordable(
    n: int,
    d: int,
    n_clusters: int,
    *,
    trimmed: bool = False,
    budget: float = SOME_SECONDS,
    seconds: float = 0.0,
) -> tuple[str, ...]:
    """Return the methods worth trying within a number of multiplications, or of seconds, in all.

    The exact optimum needs no company. Sampling is for when the neighbours bound costs too much.
    """
    chosen: list[str] = []
    for name, method in REGISTRY.items():
        if not useful(name, n, d, n_clusters, trimmed=trimmed):
            continue
        cost = method.cost(n, d, n_clusters)
        if cost > budget and cost > seconds * method.per_second:
            continue
        if not method.rigorous and "neighbours" in chosen:
            continue
        chosen.append(name)
        budget -= cost
        seconds -= cost / method.per_second
        if name == "exact":
            break
    return tuple(chosen)


def best_bound(
    X: Any,
    n_clusters: int,
    weights: Numbers | None = None,
    mass: float | None = None,
    *,
    methods: Iterable[str],
    settings: Settings | None = None,
) -> LowerBound | None:
    """Return the largest of several bounds; None without any.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Admitted data.
    n_clusters : int
        K.
    weights : ndarray of shape (n,) or None
        The weights, at least 0.
    mass : float or None
        The weight that is kept; None for all.
    methods : iterable of str
        Which bounds, for example those of `affordable`.
    settings : Settings or None
        Confidence, generator, threads and progress.

    At most one of the methods has a confidence below 1; the largest bound then has it at least,
    and is called by it where it is the one.
    """
    settings = settings or Settings()
    best: LowerBound | None = None
    for name in methods:
        found = REGISTRY[name].compute(X, n_clusters, weights, mass, settings)
        if best is None or found.value > best.value:
            best = found
        if settings.goal is not None and best.value >= _NEAR * settings.goal:
            break
    return best


def auto_methods(
    n: int, d: int, n_clusters: int, *, trimmed: bool, budget: float = SOME_SECONDS
) -> tuple[str, ...]:
    """Return what `method="auto"` takes: what is affordable, else sampling."""
    chosen = affordable(n, d, n_clusters, trimmed=trimmed, budget=budget)
    if {"exact", "neighbours", "subsampled"} & set(chosen):
        return chosen
    return (*chosen, "subsampled")


def total_weight(n: int, weights: Numbers | None) -> float:
    """Return the sum of the weights, rounded once."""
    return float(n) if weights is None else math.fsum(weights)
