"""Sources for a fit: files, memory maps, Zarr arrays and iterables, loaded or streamed.

A source is loaded if it fits into `memory_limit` together with everything else that a fit needs.
Otherwise it is read in chunks, with one pass for each step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from wolfmeans.engines import effective_threads
from wolfmeans.engines.places.file import FilePlace, Keeping
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.files.source import Source
from wolfmeans.inputs import validation
from wolfmeans.inputs.data_in_parts import DataInParts, Opened
from wolfmeans.inputs.estimator import DataEstimator
from wolfmeans.inputs.memory_budget import STATES, Budget
from wolfmeans.inputs.opening import open_source

_MOST_AT_ONCE = 4
"""Chunks that are processed at the same time; more threads share the chunks."""
_ADMISSIBLE = 40
"""Bytes for each row to find an admissible assignment: labels, distances, costs."""
_CHECKED, _WEIGHT = 4, 8
"""Bytes of a weight while it is validated, and of a copy of it."""
_WEIGHTS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Streamed:
    """A source that does not fit into the memory limit."""

    source: Source
    budget: Budget
    given: Any
    """The X of the caller."""


def load_or_stream(
    estimator: DataEstimator, X: Any, sample_weight: Any
) -> tuple[NDArray[np.floating] | Streamed, Any, tuple[str, ...] | None]:
    """Return the rows of a source, or `Streamed` if they do not fit; the weights; column names."""
    source = open_source(X, exclude=[sample_weight] if isinstance(sample_weight, str) else ())
    source = estimator._as_read(source)
    limit = estimator._memory_limit()
    rows_at_once = None
    if limit is not None:
        budget = budget_of(estimator, source, limit)
        n_rows = count_rows(source, budget)
        weights = bytes_of_weights(sample_weight, n_rows)
        rows_at_once = budget.rows_to_load(n_rows, weights)
    data: NDArray[np.floating] | Streamed
    if limit is None or rows_at_once is not None:
        data = source.whole(rows_at_once)
    else:
        # Too low a limit is an error before weights are read.
        budget = budget_for_chunks(estimator, source, limit, weights)
        data = Streamed(source, as_many_at_once_as_fit(budget), X)
    if isinstance(sample_weight, str):
        sample_weight = weights_named(X, sample_weight, limit)
    return data, sample_weight, source.names


def count_rows(source: Source, budget: Budget) -> int:
    """Return the number of rows, which may take a pass."""
    if source.n_rows is None:
        with closing(source.chunks(budget.rows_to_load(0) or budget.rows_per_chunk())) as chunks:
            for _ in chunks:
                pass
    assert source.n_rows is not None
    return source.n_rows


def weights_named(X: Any, column: str, limit: int | None = None) -> NDArray[np.float64]:
    """Return a column of the files as weights; a memory limit makes this use little memory."""
    source = open_source(X, columns=[column])
    if limit is not None:
        source.spare_memory(limit)
    weights = source.whole(_WEIGHTS_AT_ONCE)[:, 0]
    return weights.astype(np.float64, copy=False)


def bytes_of_weights(sample_weight: Any, n_rows: int) -> int:
    """Return the bytes that weights take in addition to those of the caller."""
    if sample_weight is None:
        return 0
    own = isinstance(sample_weight, np.ndarray) and sample_weight.dtype == np.float64
    return (_CHECKED if own else _CHECKED + _WEIGHT) * n_rows


def budget_of(estimator: DataEstimator, source: Source, limit: int) -> Budget:
    """Return the budget of a fit whose number of rows may be unknown."""
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
        If there is no room for a single chunk; it says what limit would suffice.
    """
    while budget.at_once > 1:
        try:
            budget.rows_per_chunk()
            break
        except MemoryError:
            budget = replace(budget, at_once=budget.at_once - 1)
    budget.rows_per_chunk()
    return budget


def budget_for_chunks(estimator: DataEstimator, source: Source, limit: int, weights: int) -> Budget:
    """Return the budget for reading a source of known length in chunks.

    `weights` are the bytes that sample weights take.
    """
    assert source.n_rows is not None
    other = weights + estimator._bytes_beside(source)
    if estimator.empty == "admissible":
        other += _ADMISSIBLE * source.n_rows
    of_a_row = estimator._bytes_of_a_row(weighted=weights > 0)
    budget = budget_of(estimator, source, limit)
    return replace(budget, n_rows=source.n_rows, other_bytes=other, of_a_row=of_a_row)


@contextmanager
def opened(
    estimator: DataEstimator, X: Streamed, sample_weight: Any, n_starts: int = 1
) -> Iterator[Opened]:
    """Open a source for a fit: describe its chunks in a first pass, and decide what to keep."""
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
        weights = validation.validate_weights(sample_weight, stand_in)
        if weights is not None:
            parts = parts.weighted(weights)
        states = {state: estimator._bytes_of_a_point(state, weights) for state in STATES}
        copies = estimator._states_at_once()
        parts = parts.with_room(_keeping(budget, rows, n_starts, states, copies))
        points = PartsWorkspace(parts, n_threads)
        data = DataInParts(X.given, points, lambda: parts.sample.rows)
        found = points.description
        exponent = validation.scale_exponent(
            data, validation.Sizes(found.smallest, found.largest), weights
        )
        if exponent != 0:
            points = PartsWorkspace(parts.scaled(exponent), n_threads)
        yield Opened(data, points, exponent, f"{len(parts):,} chunks of a source")
    finally:
        parts.close()


def _keeping(
    budget: Budget, rows: int, n_starts: int, states: Mapping[str, int | None], copies: int
) -> Keeping:
    """Return what fits into memory of the state of all points between passes.

    `states` has the additional bytes for each point, None for a state that cannot be kept.
    `copies` of a state exist at the same time.
    """
    left = budget.left(rows)
    seeding = left >= budget.bytes_of_seeding()
    labels = 4 * budget.n_rows
    # While a start runs, the labels of the best one so far are kept.
    waiting = labels if n_starts > 1 else 0
    for state, more in states.items():
        if more is None:
            continue
        of_a_start = budget.bytes_of_state(state, rows) + more * budget.n_rows
        if copies * of_a_start + waiting <= left:
            break
    in_memory = state != "nothing" or labels + waiting <= left
    return Keeping(rows, state, in_memory, seeding, budget.at_once, budget.sums_are_large)
