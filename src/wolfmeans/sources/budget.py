"""How many rows a chunk may have, by the memory that may be taken."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from wolfmeans.sizes import parse_bytes, said

_FEWEST = 1024
"""Rows of the smallest chunk: below, each costs more than what is in it."""
_MOST = 1 << 26
"""Bytes: larger chunks are read no faster, and begin later."""
_OF_A_ROW = 64
"""Bytes of a row beside its numbers while it is worked on: label, distance, bounds, lists."""
_OF_AN_ENTRY = 64
"""Bytes of an entry of the centers: old and new ones, packed copies, exact sums."""


def bytes_of(limit: str | float, what: str = "memory_limit") -> int:
    """Return a limit in bytes, given as a number of them or as text like 2GB.

    Examples
    --------
    >>> bytes_of("2GB"), bytes_of(4096)
    (2000000000, 4096)
    """
    if isinstance(limit, str):
        return parse_bytes(limit, what)
    if isinstance(limit, bool) or not 0 < limit < 2**62:
        raise ValueError(f"{what} must be a size like 2GB or a number of bytes; got {limit!r}")
    return int(limit)


def rows_per_chunk(
    memory_limit: str | float,
    n_columns: int,
    dtype: DTypeLike,
    n_clusters: int,
    *,
    ahead: int = 1,
    kept: int = 0,
) -> int:
    """Return how many rows a chunk has so that all chunks in memory stay within a limit.

    Parameters
    ----------
    memory_limit : str or number of bytes
        Like "2GB".
    n_columns, dtype, n_clusters
        Of the data and the centers.
    ahead : int
        How many chunks are read ahead; two more are in memory (see `Source.chunks`).
    kept : int
        Bytes that are taken anyway: the state of all points, `Source.reading_bytes`.

    Raises
    ------
    MemoryError
        If there is no room for chunks of 1,024 rows; it says what would do.

    Examples
    --------
    >>> rows_per_chunk("2GB", 16, "float32", 100)
    1048576
    >>> rows_per_chunk("20MB", 16, "float32", 100)
    77725
    """
    limit = bytes_of(memory_limit)
    numbers = n_columns * np.dtype(dtype).itemsize
    each = (ahead + 2) * numbers + _OF_A_ROW
    fixed = n_clusters * n_columns * _OF_AN_ENTRY + kept
    rows = int(limit - fixed) // each
    if rows < _FEWEST:
        raise MemoryError(
            f"memory_limit is {said(limit)}, and at least {said(fixed + _FEWEST * each)} are "
            f"needed: "
            f"{said(fixed)} for {n_clusters:,} centers of {n_columns:,} columns"
            f"{' and what is kept anyway' if kept else ''}, and {ahead + 2} chunks of "
            f"{_FEWEST:,} rows, {numbers:,} bytes each"
        )
    return min(rows, max(_FEWEST, _MOST // numbers))
