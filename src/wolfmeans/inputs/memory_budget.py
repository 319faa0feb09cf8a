"""What fits into a memory limit: all rows, or chunks of them and some state of every point.

The constants are measured: the growth of a process during a fit, for each kind of state that it
keeps. tests/inputs/test_streams.py measures their sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from wolfmeans.core.byte_sizes import parse_bytes, said

_FEWEST = 1024
"""Rows of the smallest chunk: smaller ones cost more than their rows do."""
_MOST = 1 << 22
"""Bytes of the largest chunk: larger ones are not read faster, start later, and leave the cache."""
_OF_A_ROW = 64
"""Bytes of a row in addition to its numbers during work on it: label, distance, bounds, lists."""
_OF_A_SAMPLED_ROW = 160
"""The same while seeds are sampled: hashes, uniforms, masses."""
_BUCKETS = 8_000_000
"""Bytes of the sums by hash, for each thread and for the sampling itself: several arrays of a
quarter of a million numbers, and memory that the allocator keeps of them."""
_OF_AN_ENTRY = 64
"""Bytes of an entry of the centers: old and new ones, packed copies, exact sums."""
_MANY_ENTRIES = 1 << 14
_LABEL = 4
_BOUNDS = 16
"""Bytes of the bounds of a row: two floats, the label, a share of the bounds of its block."""
_GROUPED_COLUMNS, _GROUPED = 24, 32
"""From this many columns on there are bounds for groups of centers, in this many bytes or a quarter
of the row's, whichever is more (native/assignment/points.cpp)."""
_SEEDING = 24
"""Bytes of a row while seeds are sampled: hash, distance, nearest candidate."""
_IN_MEMORY = 48
"""Bytes of a row in addition to its numbers in a fit in memory: bounds, seeding, value order."""
_PROCESS = 11_500_000
"""Bytes for threads, allocators, newly loaded code, and small things."""
_OF_A_CHUNK = 2048
"""Bytes that are kept of each chunk in any case: its description and its workspace."""
STATES = ("bounds", "labels", "nothing")


def bytes_of(limit: str | float, what: str = "memory_limit") -> int:
    """Return a limit in bytes, given as a number or as text like 2GB.

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


@dataclass(frozen=True)
class Budget:
    """A memory limit, and the sizes of a fit.

    Parameters
    ----------
    limit : int
        Bytes.
    n_columns, dtype, n_clusters
        Of the data and the centers.
    reading : int
        Bytes that reading takes in addition to the chunks (`Source.reading_bytes`).
    ahead : int
        How many chunks are read ahead; one more is being handed over (see `Source.chunks`).
    at_once : int
        How many chunks are processed at the same time.
    seeding : bool
        Whether seeds are sampled.
    n_rows : int
        Of the source; 0 if unknown.
    other_bytes : int
        Bytes that do not depend on the chunks: weights, short runs on some of the rows.
    of_a_row : int
        Bytes of a row, during work on it, in addition to those of K-means.
    """

    limit: int
    n_columns: int
    dtype: np.dtype[Any]
    n_clusters: int
    reading: int = 0
    ahead: int = 1
    at_once: int = 1
    seeding: bool = False
    n_rows: int = 0
    other_bytes: int = 0
    of_a_row: int = 0

    @property
    def _row(self) -> int:
        return self.n_columns * self.dtype.itemsize

    @property
    def _in_any_case(self) -> int:
        return self.n_clusters * self.n_columns * _OF_AN_ENTRY + self.reading + _PROCESS

    @property
    def _fixed(self) -> int:
        buckets = _BUCKETS * (1 + self.at_once) if self.seeding else 0
        return self._in_any_case + buckets + self.other_bytes

    @property
    def _of_a_chunk_row(self) -> int:
        work = max(_OF_A_SAMPLED_ROW if self.seeding else 0, _OF_A_ROW + self.of_a_row)
        return self._n_chunks * self._row + self.at_once * work

    @property
    def _n_chunks(self) -> int:
        return self.ahead + 1 + self.at_once

    def rows_to_load(self, n_rows: int, weights: int = 0) -> int | None:
        """Return the chunk size for loading all rows; None if they do not fit.

        `weights` are the bytes of sample weights.
        """
        whole = n_rows * (self._row + _IN_MEMORY) + weights
        left = self.limit - self._in_any_case - whole
        rows = left // (self._n_chunks * self._row)
        return min(rows, max(_FEWEST, _MOST // self._row)) if rows >= _FEWEST else None

    def rows_per_chunk(self) -> int:
        """Return the number of rows of a chunk; half of the free memory is for states of points.

        Raises
        ------
        MemoryError
            If there is no room for the smallest chunks; it says what limit would suffice.
        """
        # With smaller chunks, what is kept of each would take more memory than the chunks.
        balanced = math.isqrt(self.n_rows * _OF_A_CHUNK // self._of_a_chunk_row)
        fewest = max(_FEWEST, balanced)
        most = max(fewest, _MOST // self._row)
        half = (self.limit - self._fixed) // 2 // self._of_a_chunk_row
        rows = min(most, max(fewest, half))
        if self.left(rows) >= 0:
            return rows
        needed = self.limit - self.left(fewest)
        other = f", {said(self.other_bytes)} for weights and other data" * (self.other_bytes > 0)
        raise MemoryError(
            f"memory_limit is {said(self.limit)}, but at least {-(-needed // 10**6)}MB are needed: "
            f"{said(self._fixed - self.other_bytes)} for {self.n_clusters:,} centers of "
            f"{self.n_columns:,} columns and for reading{other}, and {self._n_chunks} chunks of "
            f"{fewest:,} rows, {self._row:,} bytes each"
        )

    @property
    def sums_are_large(self) -> bool:
        """Whether exact sums take so much memory that few of them should exist at once."""
        return self.n_clusters * self.n_columns > _MANY_ENTRIES

    def left(self, rows_per_chunk: int) -> int:
        """Return the bytes that are left for states of points."""
        n_chunks = -(-self.n_rows // rows_per_chunk)
        chunks = rows_per_chunk * self._of_a_chunk_row + n_chunks * _OF_A_CHUNK
        return self.limit - self._fixed - chunks

    def bytes_of_state(self, state: str, rows_per_chunk: int) -> int:
        """Return the bytes of a state of all points between passes, with the sums of each chunk."""
        if state == "nothing":
            return 0
        if state == "labels":
            return self.n_rows * _LABEL
        of_a_row = _BOUNDS
        if self.n_columns >= _GROUPED_COLUMNS:
            of_a_row = max(_GROUPED, self._row // 4)
        n_chunks = -(-self.n_rows // rows_per_chunk)
        of_a_chunk = self.n_clusters * self.n_columns * _OF_AN_ENTRY
        return self.n_rows * (of_a_row + _LABEL) + n_chunks * of_a_chunk

    def bytes_of_seeding(self) -> int:
        """Return the bytes that are kept of all points while seeds are sampled."""
        return _SEEDING * self.n_rows
