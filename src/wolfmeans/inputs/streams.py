"""Files, memory maps, Zarr arrays and iterables of chunks: how they come in, loaded or streamed.

What fits into `memory_limit`, with all that a fit takes beside it, is loaded and clustered like any
array. Everything else is read in chunks, in as many passes as there are steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from wolfmeans.engines import effective_threads
from wolfmeans.engines.places.file import FilePlace, Keeping
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.files.source import Source
from wolfmeans.inputs import validation
from wolfmeans.inputs.data_in_parts import Face, Opened
from wolfmeans.inputs.memory_budget import STATES, Budget
from wolfmeans.inputs.opening import open_source

_MOST_AT_ONCE = 4
"""Chunks that are worked on at the same time, by more threads each where there are more."""
_ADMISSIBLE = 40
"""Bytes of a row that finding an admissible assignment takes: labels, distances, costs."""
_CHECKED, _WEIGHT = 4, 8
"""Bytes of a weight while it is looked at, and of one that is not the caller's own."""
_WEIGHTS_AT_ONCE = 1 << 16


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
    source = open_source(X, exclude=[sample_weight] if isinstance(sample_weight, str) else ())
    limit = estimator._memory_limit()
    if limit is None:
        return Brought(loaded(source), _weights(X, sample_weight), source.names)
    budget = budget_of(estimator, source, limit)
    n_rows = counted(source, budget)
    weights = bytes_of_weights(sample_weight, n_rows)
    rows = budget.rows_to_load(n_rows, weights)
    if rows is not None:
        return Brought(loaded(source, rows), _weights(X, sample_weight, limit), source.names)
    # What has no room is refused before weights are read.
    budget = as_many_at_once_as_fit(_for_chunks(budget, estimator, source, weights))
    streamed = Streamed(source, budget, X)
    return Brought(streamed, _weights(X, sample_weight, limit), source.names)


def counted(source: Source, budget: Budget) -> int:
    """Return the number of rows; some sources know it only after a pass."""
    if source.n_rows is None:
        with closing(source.chunks(budget.rows_to_load(0) or budget.rows_per_chunk())) as chunks:
            for _ in chunks:
                pass
    assert source.n_rows is not None
    return source.n_rows


def _weights(X: Any, sample_weight: Any, limit: int | None = None) -> Any:
    """Return weights as they were given, or read them where a column was."""
    if isinstance(sample_weight, str):
        return weights_named(X, sample_weight, limit)
    return sample_weight


def weights_named(X: Any, column: str, limit: int | None = None) -> NDArray[np.float64]:
    """Return a column of the files as weights; with a limit in little more than their memory."""
    source = open_source(X, columns=[column])
    if limit is not None:
        source.spare_memory(limit)
    weights = loaded(source, _WEIGHTS_AT_ONCE)[:, 0]
    return weights.astype(np.float64, copy=False)


def bytes_of_weights(sample_weight: Any, n_rows: int) -> int:
    """Return what weights of so many rows take beside the memory that the caller has."""
    if sample_weight is None:
        return 0
    own = isinstance(sample_weight, np.ndarray) and sample_weight.dtype == np.float64
    return (_CHECKED if own else _CHECKED + _WEIGHT) * n_rows


def budget_of(estimator: Any, source: Source, limit: int) -> Budget:
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


def as_many_at_once_as_fit(budget: Budget) -> Budget:
    """Return the budget with as many chunks at the same time as it has room for.

    Raises
    ------
    MemoryError
        If there is no room for one at a time; it says what would do.
    """
    while budget.at_once > 1:
        try:
            budget.rows_per_chunk()
            break
        except MemoryError:
            budget = replace(budget, at_once=budget.at_once - 1)
    budget.rows_per_chunk()
    return budget


def budget_for_chunks(estimator: Any, source: Source, limit: int, weights: int) -> Budget:
    """Return what fits into a limit where a source of known length is read in chunks."""
    return _for_chunks(budget_of(estimator, source, limit), estimator, source, weights)


def _for_chunks(budget: Budget, estimator: Any, source: Source, weights: int) -> Budget:
    """Return the budget of a fit in chunks, where so many bytes are taken by weights."""
    assert source.n_rows is not None
    beside = weights + estimator._bytes_beside(source)
    if estimator.empty == "admissible":
        beside += _ADMISSIBLE * source.n_rows
    of_a_row = estimator._bytes_of_a_row(weighted=weights > 0)
    return replace(budget, n_rows=source.n_rows, beside=beside, of_a_row=of_a_row)


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
    parts = FilePlace(source, Keeping(rows, "nothing"), estimator.engine, n_threads, algorithm)
    try:
        stand_in = np.broadcast_to(np.zeros(1, dtype=np.float32), (parts.n_rows, 1))
        weights = validation.admit_weights(sample_weight, stand_in)
        if weights is not None:
            parts = parts.weighted(weights)
        states = {state: estimator._bytes_of_a_point(state, weights) for state in STATES}
        times = estimator._states_at_once()
        parts = parts.with_room(_room(budget, rows, n_starts, states, times))
        points = PartsWorkspace(parts, n_threads)
        face = Face(X.given, points, lambda: parts.sample.rows)
        found = points.description
        exponent = validation.scale_exponent(
            face, validation.Sizes(found.smallest, found.largest), weights
        )
        if exponent != 0:
            points = PartsWorkspace(parts.scaled(exponent), n_threads)
        yield Opened(face, points, exponent, f"{len(parts):,} chunks of a source")
    finally:
        parts.close()


def _room(
    budget: Budget, rows: int, n_starts: int, states: Mapping[str, int | None], times: int
) -> Keeping:
    """Return what can be kept of all points.

    Each state takes some bytes more of each point, or None where it cannot be; it is kept so many
    times at once.
    """
    left = budget.left(rows)
    seeding = left >= budget.bytes_of_seeding()
    labels = 4 * budget.n_rows
    # While a start runs, the labels of the best one so far wait.
    waiting = labels if n_starts > 1 else 0
    for state, more in states.items():
        if more is None:
            continue
        of_a_start = budget.bytes_of_state(state, rows) + more * budget.n_rows
        if times * of_a_start + waiting <= left:
            break
    in_memory = state != "nothing" or labels + waiting <= left
    return Keeping(rows, state, in_memory, seeding, budget.at_once, budget.sums_are_large)
