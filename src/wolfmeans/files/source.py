"""A source: rows of numbers that are read in chunks, in the same order as often as one likes.

Every pass is checked while it is read: no missing and no infinite values, always as many columns,
and the same rows as in the first pass.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from wolfmeans.exact.arrays import Sizes
from wolfmeans.exact.native import value_range
from wolfmeans.files.buffers import Buffers
from wolfmeans.files.columns import FILL_IN, Part
from wolfmeans.files.fingerprint import Fingerprint
from wolfmeans.files.read_ahead import reading_ahead

_LOOK = 1 << 22
"""Bytes that are looked at between two questions whether to go on."""


class Chunk(NamedTuple):
    """Some rows of a source."""

    first: int
    """The number of the first of them."""
    rows: NDArray[np.floating]
    """C-contiguous, not to be written to; float32 or float64."""


class Block(NamedTuple):
    """Rows as they come from a file or an iterator, of any number."""

    n_rows: int
    put: Callable[[int, NDArray[np.floating]], None]
    """Writes rows from one on into an array, as many as it has."""


@dataclass(frozen=True)
class Facts:
    """What a whole pass has found."""

    n_rows: int
    sizes: Sizes
    fingerprint: bytes
    """Of all numbers in order; the same whatever the chunks."""


class Source:
    """Rows of numbers, read in chunks.

    Attributes
    ----------
    n_columns : int
    dtype : numpy.dtype
        Of the chunks: float32 if all numbers are float32 or float16, else float64.
    n_rows : int or None
        None as long as it is not known: before the first pass over an iterator has ended.
    names : tuple of str, or None
        Of the columns.
    parts : tuple of Part
        The files, in the order of their rows; empty where there are none.
    remarks : tuple of str
        What a person should know about how it is read.
    """

    n_columns: int
    dtype: np.dtype[Any]
    n_rows: int | None = None
    names: tuple[str, ...] | None = None
    parts: tuple[Part, ...] = ()
    remarks: tuple[str, ...] = ()
    _may_shuffle = True
    """Whether another pass may give neighbors in another order: what others make may."""
    reads_ahead: bool = True
    """Whether a thread is worth its while."""
    _facts: Facts | None = None

    @property
    def sizes(self) -> Sizes | None:
        """The smallest nonzero magnitude and the largest; None before a pass has ended."""
        return None if self._facts is None else self._facts.sizes

    @property
    def reading_bytes(self) -> int:
        """Bytes that reading takes beside the chunks, about."""
        return 0

    def spare_memory(self, limit: int) -> None:
        """Read in a way that takes less memory, where there is one, if so many bytes are all."""

    def chunks(
        self, rows_at_once: SupportsIndex, *, ahead: int = 1
    ) -> Generator[Chunk, None, None]:
        """Read all rows in order: chunks of `rows_at_once`, the last one smaller.

        The next `ahead` chunks are read in another thread meanwhile; 0 reads here, without one.
        At most `ahead` + 2 chunks are in memory, or one less if the caller lets go of each
        before asking for the next. Stop early with `close()`.

        Raises
        ------
        ValueError
            At a missing or infinite value, with its place; at the end if these are not the rows
            of the first pass.
        """
        rows = operator.index(rows_at_once)
        if rows < 1:
            raise ValueError(f"a chunk has at least 1 row; got {rows}")
        if ahead < 0:
            raise ValueError(f"ahead must be at least 0 chunks; got {ahead}")
        return reading_ahead(lambda stop: self._pass(rows, stop), ahead * self.reads_ahead)

    def whole(self, rows_at_once: int | None = None) -> NDArray[np.floating]:
        """Return all rows as one array, for sources that fit into memory."""
        several = rows_at_once or self._several
        if self.n_rows is None:
            return np.concatenate([chunk.rows for chunk in self.chunks(several)])
        # Written where they stay: all chunks and all rows would be twice the memory.
        whole = np.empty((self.n_rows, self.n_columns), dtype=self.dtype)
        with closing(self.chunks(several)) as chunks:
            for first, rows in chunks:
                whole[first : first + len(rows)] = rows
                del rows
        return whole

    def take(self, rows: Any) -> NDArray[np.floating]:
        """Return some rows by their numbers, in the order asked for.

        Reads up to the last of them, where nothing faster is known.
        """
        wanted = np.asarray(rows, dtype=np.int64)
        found = np.empty((len(wanted), self.n_columns), dtype=self.dtype)
        left, last = len(wanted), max(wanted, default=-1)
        if min(wanted, default=0) < 0:
            raise IndexError(f"rows are counted from 0; got {wanted.min()}")
        with closing(self.chunks(self._several)) as chunks:
            for first, chunk in chunks:
                here = (wanted >= first) & (wanted < first + len(chunk))
                found[here] = chunk[wanted[here] - first]
                left -= int(here.sum())
                if left == 0:
                    break
        if left:
            raise IndexError(f"{self._called} has {self.n_rows:,} rows, and no row {last}")
        return found

    def place(self, row: int) -> str:
        """Return where a row is: the file and the row in it, counted from 1 as in a table."""
        within = row
        for part in self.parts:
            if within < part.n_rows:
                of_all = f" ({row + 1:,} of all)" if len(self.parts) > 1 else ""
                return f"{part.name}: row {within + 1}{of_all}"
            within -= part.n_rows
        return f"row {row}, counted from 0"

    def _arrays(self, rows: int, stop: threading.Event) -> Iterator[NDArray[np.floating]]:
        """Yield all rows, so many at once; it may end early when asked to stop."""
        raise NotImplementedError

    @property
    def _row_bytes(self) -> int:
        return max(1, self.n_columns * self.dtype.itemsize)

    @property
    def _several(self) -> int:
        """Rows that are looked at, or written, between two questions whether to go on."""
        return max(1, _LOOK // self._row_bytes)

    # --- Checks, while it is read --------------------------------------------------------------

    def _pass(self, rows: int, stop: threading.Event) -> Iterator[Chunk]:
        first, seen = 0, Sizes(np.inf, 0.0)
        fingerprint = Fingerprint(by_place=self._may_shuffle)
        for array in self._arrays(rows, stop):
            for begin in range(0, len(array), self._several):
                if stop.is_set():
                    return
                few = array[begin : begin + self._several]
                seen = self._look(few, first + begin, seen)
                fingerprint.add(few)
            yield Chunk(first, array)
            first += len(array)
        if not stop.is_set():
            smallest = seen.smallest if seen.largest else 0.0
            self._settle(Facts(first, Sizes(smallest, seen.largest), fingerprint.digest()))

    def _look(self, rows: NDArray[np.floating], first: int, seen: Sizes) -> Sizes:
        """Refuse values that are not finite; return the sizes of these and all before."""
        finite, smallest, largest = value_range(rows)
        if not finite:
            row, column = divmod(int(np.argmax(~np.isfinite(rows).ravel())), rows.shape[1])
            name = repr(self.names[column]) if self.names else str(column)
            what = "missing" if np.isnan(rows[row, column]) else "infinite, or too large"
            raise ValueError(f"{self.place(first + row)}, column {name} is {what}; {FILL_IN}")
        return Sizes(
            min(seen.smallest, smallest) if largest else seen.smallest, max(seen.largest, largest)
        )

    def _settle(self, found: Facts) -> None:
        """Keep what the first pass has found; refuse another that differs."""
        if self._facts is None:
            if self.n_rows is not None and found.n_rows != self.n_rows:
                raise ValueError(
                    f"{self._called} has {found.n_rows:,} rows instead of {self.n_rows:,}"
                )
            if found.n_rows == 0:
                raise ValueError(f"{self._called} has no rows")
            self.n_rows, self._facts = found.n_rows, found
            return
        if found.n_rows != self._facts.n_rows:
            raise ValueError(
                f"{self._called} has changed: {self._facts.n_rows:,} rows when it was first read, "
                f"{found.n_rows:,} now{self._advice}"
            )
        if found != self._facts:
            raise ValueError(
                f"{self._called} has changed: other numbers, or another order, than when it was "
                f"first read{self._advice}"
            )

    @property
    def _called(self) -> str:
        """What it is called in a sentence."""
        if not self.parts:
            return "the source"
        more = f" and {len(self.parts) - 1} more" if len(self.parts) > 1 else ""
        return f"{self.parts[0].name}{more}"

    _advice = ""
    """What to do about a source that has changed."""


class FilledSource(Source):
    """A source whose chunks are put together from blocks of other sizes and kinds."""

    def __init__(self) -> None:
        self._buffers = Buffers()

    def _blocks(self, rows: int) -> Iterator[Block]:
        """Yield all rows in blocks, for chunks of so many."""
        raise NotImplementedError

    def _arrays(self, rows: int, stop: threading.Event) -> Iterator[NDArray[np.floating]]:
        if self.n_rows is not None:
            rows = min(rows, self.n_rows)
        out: NDArray[np.floating] | None = None
        filled, before = 0, 0
        blocks = self._blocks(rows)
        while (block := self._next(blocks, before)) is not None:
            begin = 0
            if stop.is_set():
                return
            while begin < block.n_rows:
                if stop.is_set():
                    return
                if out is None:
                    out, filled = self._buffers.lend(rows, self.n_columns, self.dtype), 0
                step = min(rows - filled, block.n_rows - begin, self._several)
                block.put(begin, out[filled : filled + step])
                begin, filled = begin + step, filled + step
                if filled == rows:
                    yield out
                    out = None
            before += block.n_rows
            del block
        if out is not None:
            yield out[:filled]

    @property
    def reading_bytes(self) -> int:
        """Bytes that reading takes beside the chunks, about."""
        return _LOOK

    def _next(self, blocks: Iterator[Block], row: int) -> Block | None:
        """Return the next block; an error says at which row it happened."""
        try:
            return next(blocks, None)
        except Exception as error:
            error.add_note(f"while reading on from {self.place(row)}")
            raise
