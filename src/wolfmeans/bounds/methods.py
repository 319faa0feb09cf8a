"""The table of methods: what each computes, when it is valid, what it costs; the best of several.

Costs are predicted multiplications. They are counted and not timed, so that the choice of methods
is reproducible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from wolfmeans.bounds.bound import LowerBound, Numbers, Settings, quiet
from wolfmeans.bounds.neighbours import neighbours
from wolfmeans.bounds.one_dimensional import one_dimensional
from wolfmeans.bounds.prices import CEILING_SHARE, ITERATIONS, MOST_PLACES, ROUNDS, prices
from wolfmeans.bounds.semidefinite import (
    KIND,
    MOST_STEPS,
    fits_in_one_piece,
    semidefinite,
    semidefinite_in_blocks,
    semidefinite_in_parts,
    suits_blocks,
    trimmed,
)
from wolfmeans.bounds.semidefinite.branching import branching
from wolfmeans.bounds.spectral import spectral
from wolfmeans.bounds.subsampled import PILOT_ROWS, subsampled
from wolfmeans.core.hooks import hook
from wolfmeans.core.transport import SizeLimits
from wolfmeans.engines import get_engine
from wolfmeans.engines.sized import SizeLimited

# A scatter matrix of this many columns takes half a gigabyte.
_WIDEST_SCATTER = 8192
# With more columns the boxes that prove a ceiling are too many.
_MOST_PRICED_COLUMNS = 10
# Sampled rows of the neighbours bound: as many as this many multiplications allow, within limits.
_SAMPLING_BUDGET = 1.2e11
_FEWEST_SAMPLED_ROWS, _MOST_SAMPLED_ROWS = 1000, 8000
# Beyond this many multiplications rows are given up for small problems.
_TOO_MUCH_SAMPLING = 6e11
# Some ten matrices of this size squared take a few gigabytes.
_MOST_SEMIDEFINITE_POINTS = 10_000
# Up to here branch and bound mostly reaches the optimum within seconds.
_FEW_TO_BRANCH = 200
# Up to here the semidefinite bound is better than prices within seconds.
_FEW_POINTS = 3000
_LEAST_SECONDS = 0.1
POINTS_IN_A_SECOND = 1500
"""Of small parts, on one core: so many have semidefinite bounds in a second."""
_SHARE_OF_BLOCKS = 0.25
# With more points, a node of branch and bound takes minutes.
_MOST_BRANCHING_POINTS = 500
DEFAULT_BUDGET = 5e10
"""Multiplications that `auto` may take: some seconds."""
LARGE_BUDGET = 1e12
"""Multiplications of `certify` after a fit: minutes."""


@dataclass(frozen=True)
class Method:
    """One way to compute a lower bound."""

    name: str
    compute: Callable[[Any, int, Numbers | None, float | None, Settings], LowerBound]
    """Called with validated data, K, weights or None, the mass that is kept or None, settings."""
    cost: Callable[[int, int, int], float]
    """Approximate number of multiplications, from n, d and K."""
    per_second: float = 1e9
    """How many of these multiplications a common core makes in a second, at least."""
    most_columns: float = math.inf
    trimmed: bool = True
    """Whether it holds for trimmed problems."""
    rigorous: bool = True
    """Whether its confidence is 1."""
    by_time: bool = False
    """Whether it runs until a time limit, not for a number of multiplications."""

    def refusal(self, d: int, trimmed: bool) -> str | None:
        """Return why the method is not valid for such a problem; None if it is valid."""
        if d > self.most_columns:
            most = self.most_columns
            columns = "one column" if most == 1 else f"up to {most} columns"
            return f"the {self.name} bound is for {columns} only, not for {d}"
        if trimmed and not self.trimmed:
            return f"the {self.name} bound does not hold for trimmed problems"
        return None


def _price_cost(n: int, d: int, n_clusters: int) -> float:
    """The search for prices, which visits up to MOST_PLACES places per point, and the proof.

    The work of a ceiling grows like a power of d, for evenly spread data as measured; clustered
    data take less.
    """
    steps = ROUNDS * n * (ITERATIONS * MOST_PLACES + 0.3 * MOST_PLACES * n_clusters * d)
    ceiling = n * 30.0 * 20.0 ** (d - 1)
    return steps + min(ROUNDS * ceiling, CEILING_SHARE * steps) + ceiling


def _sampled_rows(n: int, d: int) -> int:
    """Return from how many rows `subsampled` works; 0 where it solves small problems instead.

    It depends on the shape of the data alone, so that one confidence covers it.
    """
    each = float(n) * (d + 8.0)
    if (_FEWEST_SAMPLED_ROWS + 3 * PILOT_ROWS) * each > _TOO_MUCH_SAMPLING:
        return 0
    return int(min(_MOST_SAMPLED_ROWS, max(_FEWEST_SAMPLED_ROWS, _SAMPLING_BUDGET / each)))


def _sampling_cost(n: int, d: int, n_clusters: int) -> float:
    rows = _sampled_rows(n, d)
    if rows == 0:
        return 4 * 1.3 * 8192.0**2 * (d + 8)
    return (rows + 3.0 * PILOT_ROWS) * n * (d + 8) + float(n) * d * n_clusters


def _moderate(X: NDArray[np.floating], weights: Numbers | None) -> bool:
    """Whether float32 can hold weights, and float64 squares of differences with room to spare."""
    heaviest = 1.0 if weights is None else float(weights.max())
    return 1e-100 < float(X.max()) - float(X.min()) < 1e100 and 1e-15 < heaviest < 1e15


def _semidefinite(
    X: Any, n_clusters: int, weights: Numbers | None, mass: float | None, settings: Settings
) -> LowerBound:
    if sparse.issparse(X) and X.shape[0] > _MOST_SEMIDEFINITE_POINTS:
        raise ValueError(
            f"the semidefinite bound of sparse data is for up to {_MOST_SEMIDEFINITE_POINTS:,} "
            f"points, not for {X.shape[0]:,}"
        )
    dense = X.toarray() if sparse.issparse(X) else X
    if n_clusters == 1 and mass is None:
        return spectral(dense, 1, weights)  # the total sum of squares, which is the optimum
    if n_clusters >= len(dense) or not _moderate(dense, weights):
        return LowerBound(0.0, KIND, 1.0, 0.0)
    centers, n_threads = settings.centers, settings.n_threads
    if centers is None:
        centers = hook("good_centers")(dense, n_clusters, weights, mass, n_threads)
    points: Any = get_engine().open(dense, weights, n_threads)
    labels, distances = points.nearest(centers.astype(dense.dtype))
    if settings.sizes is not None and weights is None:
        labels = _within(points, settings.sizes, centers.astype(dense.dtype))
        distances = points.distances_at(centers.astype(dense.dtype), labels)
    n = len(dense) if weights is None else int((weights > 0).sum())
    if mass is not None:
        if n > _MOST_SEMIDEFINITE_POINTS:
            raise ValueError(
                f"the semidefinite bound of trimmed problems is for up to "
                f"{_MOST_SEMIDEFINITE_POINTS:,} points, not for {n:,}"
            )
        return trimmed(
            dense,
            n_clusters,
            weights,
            mass,
            labels=labels,
            distances=distances.astype(np.float64),
            settings=settings,
        )
    in_time = settings.on_gpu or fits_in_one_piece(n, settings.seconds)
    if settings.goal is None:
        cost = points.total(distances if weights is None else weights * distances)
        settings = replace(settings, goal=cost)
    if n > _MOST_SEMIDEFINITE_POINTS or not in_time:
        settings = replace(settings, centers=centers)
        return _semidefinite_of_many(dense, n_clusters, weights, labels, settings)
    return semidefinite(dense, n_clusters, weights, labels=labels, settings=settings)


def _within(
    points: Any, sizes: tuple[float, float], centers: NDArray[np.floating]
) -> NDArray[np.int32]:
    """Return the cheapest labels whose clusters have sizes within a range."""
    n, n_clusters = points.n_points, len(centers)
    low, high = math.ceil(sizes[0]), math.floor(min(sizes[1], n))
    limited = SizeLimited(points, SizeLimits((low,) * n_clusters, (high,) * n_clusters, n))
    limited.assign(centers)
    return limited.labels()


def _semidefinite_of_many(
    X: Any, n_clusters: int, weights: Numbers | None, labels: Any, settings: Settings
) -> LowerBound:
    """Return the better of the bounds in blocks and in parts; parts only if blocks are not enough.

    Blocks mostly need much less than their share of the time.
    """
    started, centers, report = settings.clock(), settings.centers, settings.progress or quiet
    assert centers is not None
    first, before, share = _SHARE_OF_BLOCKS * settings.seconds, None, 0.0
    if suits_blocks(X.shape[1], n_clusters, first):
        share = _SHARE_OF_BLOCKS
        limits = replace(
            settings, seconds=first, progress=lambda done, text: report(share * done, text)
        )
        before, interrupted = semidefinite_in_blocks(
            X, n_clusters, weights, labels=labels, centers=centers, settings=limits
        )
        left = settings.seconds - (settings.clock() - started)
        if interrupted or before.value >= settings.enough or left <= 0.0:
            return before
    found = semidefinite_in_parts(
        X,
        n_clusters,
        weights,
        labels=labels,
        centers=centers,
        seconds=settings.seconds - (settings.clock() - started),
        most_steps=settings.steps or MOST_STEPS,
        near=settings.near,
        n_threads=settings.n_threads,
        progress=lambda done, text: report(share + (1.0 - share) * done, text),
    )
    if before is None:
        return found
    best = before if before.value >= found.value else found
    return replace(best, seconds=before.seconds + found.seconds)


def _branching(X: Any, n_clusters: int, weights: Numbers | None, settings: Settings) -> LowerBound:
    if X.shape[0] > _MOST_BRANCHING_POINTS:
        raise ValueError(
            f"branch and bound is for up to {_MOST_BRANCHING_POINTS} points, not for "
            f"{X.shape[0]:,}; method='semidefinite' is for more"
        )
    dense = X.toarray() if sparse.issparse(X) else X
    if not 1 < n_clusters < len(dense) or not _moderate(dense, weights):
        return _semidefinite(X, n_clusters, weights, None, settings)
    centers, n_threads = settings.centers, settings.n_threads
    if centers is None:
        centers = hook("good_centers")(dense, n_clusters, weights, None, n_threads)
    labels, _ = get_engine().open(dense, None, n_threads).nearest(centers.astype(dense.dtype))
    improved = hook("improved_centers")
    # The matrices are so small that more threads only wait for each other.
    with threadpool_limits(1, user_api="blas"):
        return branching(
            dense,
            n_clusters,
            weights,
            labels=labels,
            improve=lambda found: improved(dense, found, weights, n_threads),
            seconds=settings.seconds,
            goal=settings.goal,
            progress=settings.progress,
        )


_METHODS = (
    Method(
        "exact",
        lambda X, k, weights, mass, settings: one_dimensional(X, k, weights),
        cost=lambda n, d, k: 400.0 * n * min(n, k),
        most_columns=1,
        trimmed=False,
    ),
    Method(
        "spectral",
        lambda X, k, weights, mass, settings: spectral(X, k, weights),
        cost=lambda n, d, k: n * float(d) ** 2 + 10.0 * float(d) ** 3,
        trimmed=False,
    ),
    Method(
        "neighbours",
        lambda X, k, weights, mass, settings: neighbours(
            X,
            k,
            weights,
            mass,
            sizes=settings.sizes,
            n_threads=settings.n_threads,
            progress=settings.progress,
        ),
        cost=lambda n, d, k: 500_000.0 + 1.3 * float(n) ** 2 * (d + 8),
    ),
    Method(
        "prices",
        lambda X, k, weights, mass, settings: prices(
            X.toarray() if sparse.issparse(X) else X,
            k,
            weights,
            mass,
            centers=settings.centers,
            n_threads=settings.n_threads,
            progress=settings.progress,
        ),
        cost=_price_cost,
        per_second=2e8,
        most_columns=_MOST_PRICED_COLUMNS,
    ),
    Method(
        "semidefinite",
        lambda X, k, weights, mass, settings: _semidefinite(X, k, weights, mass, settings),
        cost=lambda n, d, k: 4e5 * float(n) ** 2,
        by_time=True,
    ),
    Method(
        "branching",
        lambda X, k, weights, mass, settings: _branching(X, k, weights, settings),
        cost=lambda n, d, k: 4e6 * float(n) ** 2,
        trimmed=False,
        by_time=True,
    ),
    Method(
        "subsampled",
        lambda X, k, weights, mass, settings: subsampled(
            X, k, weights, mass, settings, n_rows=_sampled_rows(*X.shape)
        ),
        cost=_sampling_cost,
        rigorous=False,
    ),
)
REGISTRY = {method.name: method for method in _METHODS}
"""By name; the rigorous ones come first, the cheaper ones before the dearer ones."""


def useful(method: str, d: int, n_clusters: int, *, trimmed: bool = False) -> bool:
    """Whether a method is valid for such data and can say more than 0."""
    if REGISTRY[method].refusal(d, trimmed) is not None:
        return False
    return method != "spectral" or n_clusters <= d <= _WIDEST_SCATTER


def affordable(
    n: int,
    d: int,
    n_clusters: int,
    *,
    trimmed: bool = False,
    rigorous: bool = False,
    budget: float = DEFAULT_BUDGET,
    seconds: float = 0.0,
) -> tuple[str, ...]:
    """Return the methods worth trying within a number of multiplications, or of seconds, in all.

    The exact optimum needs no second bound. Sampling, which is no proof and is left out if the
    methods must be `rigorous`, is for when the neighbours bound costs too much.
    """
    chosen: list[str] = []
    for name, method in REGISTRY.items():
        if method.by_time or (not method.rigorous and (rigorous or "neighbours" in chosen)):
            continue
        if not useful(name, d, n_clusters, trimmed=trimmed):
            continue
        cost = method.cost(n, d, n_clusters)
        if cost > budget and cost > seconds * method.per_second:
            continue
        chosen.append(name)
        budget -= cost
        seconds -= cost / method.per_second
        if name == "exact":
            break
    return tuple(chosen)


def auto_methods(
    n: int,
    d: int,
    n_clusters: int,
    *,
    trimmed: bool,
    budget: float = DEFAULT_BUDGET,
    branch: bool = True,
    in_parts: float = 0.0,
) -> tuple[str, ...]:
    """Return what `method="auto"` takes, in this order: each one only if it may still help.

    Quick methods come first. The semidefinite bound then has the rest of the time; for few points
    branch and bound, which begins with it. Of many points in few columns, prices are tried before.
    `in_parts` is the number of points that semidefinite bounds in parts can have in the time.
    """
    chosen = affordable(n, d, n_clusters, trimmed=trimmed, budget=budget)
    if "exact" in chosen:
        return chosen
    if not {"neighbours", "subsampled"} & set(chosen):
        chosen = (*chosen, "subsampled")
    fits = n_clusters > 1 and n <= max(_MOST_SEMIDEFINITE_POINTS, in_parts)
    if not fits or REGISTRY["semidefinite"].refusal(d, trimmed) is not None:
        return chosen
    if branch and n <= _FEW_TO_BRANCH and not trimmed:
        return (*(name for name in chosen if name != "prices"), "branching")
    if "prices" in chosen and n <= _FEW_POINTS:
        return (*(name for name in chosen if name != "prices"), "semidefinite", "prices")
    return (*chosen, "semidefinite")


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

    X is validated data, dense or CSR; `mass` is the weight that is kept, None for all. If one
    method holds with a confidence below 1, the result has that confidence only if that method gave
    the largest bound.
    """
    settings = settings or Settings()
    end = settings.clock() + settings.seconds
    best: LowerBound | None = None
    for name in methods:
        left = max(_LEAST_SECONDS, end - settings.clock())
        settings = replace(settings, seconds=min(settings.seconds, left))
        found = REGISTRY[name].compute(X, n_clusters, weights, mass, settings)
        if best is None or found.value > best.value:
            best = found
        if settings.goal is not None and best.value >= settings.enough:
            break
    return best
