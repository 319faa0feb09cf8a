"""Seeds for points in parts: k-means|| over all of them, for every `init` of k-means++."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np

from wolfmeans.core.workspace import Centers
from wolfmeans.engines.places.sampling_in_parts import AllParts, Sampling
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.seeding.methods import parallel_seeds

SPREADING = ("multilevel", "k-means++", "plain-k-means++", "greedy-k-means++")
"""Seedings that pick one point after the other, each time from all points in one order.

The multilevel start does so if there are few points.
"""
DRAWN_OTHERWISE = (
    "the seeds were drawn by k-means||, because init={!r} needs all points in one place and the "
    "data is in parts; in memory, init='k-means||' gives the same result"
)


def parallel_seeds_in_parts(
    points: PartsWorkspace, n_clusters: int, random_state: np.random.RandomState
) -> Centers:
    """Return the (K, d) seeds that init="k-means||" chooses for the same points in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans.engines import get_engine
    >>> from wolfmeans.engines.places.memory import MemoryPart, MemoryPlace
    >>> from wolfmeans.engines.places.workspace import PartsWorkspace
    >>> from wolfmeans.seeding.methods import choose_seeds
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> parts = MemoryPlace([MemoryPart(X[40:]), MemoryPart(X[:40])])
    >>> seeds = parallel_seeds_in_parts(PartsWorkspace(parts), 3, np.random.RandomState(0))
    >>> together = get_engine("reference").open(X, None, 1)
    >>> bool((seeds == choose_seeds(together, 3, "k-means||", np.random.RandomState(0))).all())
    True
    """
    # The candidates are on this machine, which may lack the engine of the workers.
    engine = "reference" if points.engine == "reference" else "auto"
    return parallel_seeds(all_parts(points), n_clusters, random_state, engine)


def all_parts(points: PartsWorkspace) -> AllParts:
    """Return all parts as one, for a new sampling."""
    none = np.empty((0, points.n_features), dtype=points.dtype)
    return AllParts(points, Sampling(uuid.uuid4().hex, none))


def seeds_in_parts(
    points: Any, n_clusters: int, init: str, random_state: np.random.RandomState
) -> Centers:
    """Return seeds for any `init` that works on points in parts."""
    if init != "k-means||" and init not in SPREADING:
        raise NotImplementedError(drawn_by_order(init))
    return parallel_seeds_in_parts(points, n_clusters, random_state)


def drawn_by_order(init: str) -> str:
    """Return why the seeds of this `init` cannot be drawn in parts."""
    return (
        f"init={init!r} draws rows by the order of all values, which needs all points in one "
        "place, and these are in parts; take init='k-means||', or an array of centers"
    )


def notes_on_seeds(init: Any) -> tuple[str, ...]:
    """Return the certificate's notes on seeds of points in parts."""
    return (DRAWN_OTHERWISE.format(init),) if isinstance(init, str) and init in SPREADING else ()
