"""Files, memory maps, Zarr arrays and iterables of chunks: how they come in, loaded or streamed.

What fits into `memory_limit`, with all that a fit takes beside it, is loaded and clustered like any
array. Everything else is read in chunks, in as many passes as there are steps.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from wolfmeans import door
from wolfmeans.engines import effective_threads
from wolfmeans.engines.parts.source_points import SourcePoints
from wolfmeans.engines.parts.sources import Keeping, SourceParts
from wolfmeans.parted.data import Face, Opened
from wolfmeans.sources import Source, bytes_of, open_source
from wolfmeans.sources.budget import STATES, Budget

_LIKE_FILES = ("zarr", "h5py")
_MOST_AT_ONCE = 4
"""Chunks that are worked on at the same time, by more threads each where there are more."""
_ADMISSIBLE = 40
"""Bytes of a row that finding an admissible assignment takes: labels, distances, costs."""


def is_source(X: Any, limited: bool) -> bool:
    """Whether X is read in chunks: a path, a source, an array in a file, arrays one by one.

    An array that is mapped into memory is one if there is a limit, else an array like any other.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.zeros((4, 2))
    >>> is_source("points.npy", False), is_source([X, X], False), is_source(X, True)
    (True, True, False)
    """
    if isinstance(X, (str, os.PathLike, Source)):
        return True
    if isinstance(X, np.ndarray):
        return limited and isinstance(X, np.memmap)
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and (
            isinstance(X[0], (str, os.PathLike)) or getattr(X[0], "ndim", None) == 2
        )
    if type(X).__module__.partition(".")[0] in _LIKE_FILES:
        return True
    if hasattr(X, "shape") or hasattr(X, "__array__") or hasattr(X, "__dataframe__"):
        return False
    return callable(X) or (isinstance(X, Iterable) and not isinstance(X, (Sequence, set, dict)))


@dataclass(frozen=True)
class Streamed:
    """A source that does not fit into the limit."""

    source: Source
    budget: Budget
    given: Any
    """What the caller gave."""


class Brought(NamedTuple):
    """What a fit gets of a source."""

    X: Any
    """An array, or `Streamed`."""
    weights: Any
    names: tuple[str, ...] | None


def brought(estimator: Any, X: Any, sample_weight: Any) -> Brought:
    """Load a source if it fits, or say that it has to be streamed."""
    if isinstance(sample_weight, str):
        source = open_source(X, exclude=[sample_weight])
        sample_weight = weights_named(X, sample_weight)
    else:
        source = open_source(X)
    limit = getattr(estimator, "memory_limit", None)
    if limit is None:
        return Brought(loaded(source), sample_weight, source.names)
    budget = _budget_of(estimator, source, bytes_of(limit))
    if source.n_rows is None:
        with closing(source.chunks(budget.rows_to_load(0) or budget.rows_per_chunk())) as chunks:
            for _ in chunks:
                pass
    assert source.n_rows is not None
    weights = 0 if sample_weight is None else 8 * source.n_rows
    rows = budget.rows_to_load(source.n_rows, weights)
    if rows is not None:
        return Brought(loaded(source, rows), sample_weight, source.names)
    return Brought(Streamed(source, budget, X), sample_weight, source.names)


def weights_named(X: Any, column: str) -> NDArray[np.floating]:
    """Return a column of the files as weights."""
    weights: NDArray[np.floating] = loaded(open_source(X, columns=[column]))[:, 0]
    return weights


def _budget_of(estimator: Any, source: Source, limit: int) -> Budget:
    """Return what is to be fitted into a limit."""
    source.spare_memory(limit)
    return Budget(
        limit,
        source.n_columns,
        source.dtype,
        estimator.n_clusters,
        source.reading_bytes,
        at_once=min(effective_threads(estimator.n_threads), _MOST_AT_ONCE),
        seeding=isinstance(estimator.init, str),
    )


def loaded(source: Source, rows_at_once: int | None = None) -> NDArray[np.floating]:
    """Return all rows as one array."""
    return source.whole(rows_at_once)


@contextmanager
def opened(estimator: Any, X: Streamed, sample_weight: Any, n_starts: int = 1) -> Iterator[Opened]:
    """Look through a source, and say what is kept of its points, for as long as it is needed."""
    source, budget = X.source, X.budget
    validate_data(
        estimator, np.empty((1, source.n_columns), source.dtype), reset=True, skip_check_array=True
    )
    n_threads = effective_threads(estimator.n_threads)
    algorithm = getattr(estimator, "algorithm", "auto")
    rows = budget.rows_per_chunk()
    parts = SourceParts(source, Keeping(rows, "nothing"), estimator.engine, n_threads, algorithm)
    try:
        stand_in = np.broadcast_to(np.zeros(1, dtype=np.float32), (parts.n_rows, 1))
        weights = door.admit_weights(sample_weight, stand_in)
        if weights is not None:
            parts = parts.weighted(weights)
        taken = (0 if weights is None else weights.nbytes) + estimator._bytes_beside(source)
        if estimator.empty == "admissible":
            taken += _ADMISSIBLE * parts.n_rows
        states = {state: estimator._bytes_of_a_point(state, weights) for state in STATES}
        parts = parts.with_room(_room(budget, rows, parts.n_rows, taken, n_starts, states))
        points = SourcePoints(parts, n_threads)
        face = Face(X.given, points, lambda: parts.sample.rows)
        found = points.description
        exponent = door.scale_exponent(face, door.Sizes(found.smallest, found.largest), weights)
        if exponent != 0:
            points = SourcePoints(parts.scaled(exponent), n_threads)
        yield Opened(face, points, exponent, f"{len(parts):,} chunks of a source")
    finally:
        parts.close()


def _room(
    budget: Budget,
    rows: int,
    n_rows: int,
    taken: int,
    n_starts: int,
    states: Mapping[str, int | None],
) -> Keeping:
    """Return what can be kept of all points; `taken` bytes are already.

    Each state takes some bytes more of each point, or None where it cannot be.
    """
    labels = 4 * n_rows
    # While a start runs, the labels of the best one so far wait.
    left = budget.left(rows) - taken - (labels if n_starts > 1 else 0)
    if left < 0:
        raise MemoryError(
            f"memory_limit has no room for the weights of {n_rows:,} rows, for empty='admissible' "
            "or for short runs on some of the rows; raise it, or take float32 data, fewer columns, "
            "empty='farthest' or given centers"
        )
    seeding = left >= budget.bytes_of_seeding(n_rows)
    for state, more in states.items():
        if more is not None and budget.bytes_of_state(state, n_rows, rows) + more * n_rows <= left:
            break
    in_memory = state != "nothing" or labels <= left
    return Keeping(rows, state, in_memory, seeding, budget.at_once, budget.sums_are_large)
