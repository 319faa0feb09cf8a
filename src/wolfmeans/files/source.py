"""A source: rows of numbers that are read in chunks, in the same order in every pass.

Every pass is checked while it is read: no missing and no infinite values, the same number of
columns everywhere, and the same rows as in the first pass.
"""

from __future__ import annotations

import operator
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from wolfmeans.exact.native import Sizes, value_range
from wolfmeans.files.columns import Part, refuse_first
from wolfmeans.files.fingerprint import Fingerprint
from wolfmeans.files.read_ahead import reading_ahead

_STEP = 1 << 22
"""Bytes that are checked, or written, before the next test for a stop."""
_MOST_BUFFERS = 8


class Chunk(NamedTuple):
    """Some rows of a source."""

    first: int
    """The number of the first of them."""
    rows: NDArray[np.floating]
    """C-contiguous, not to be written to; float32 or float64."""


class Block(NamedTuple):
    """Rows as a file or an iterator gives them, any number of them."""

    n_rows: int
    write: Callable[[int, NDArray[np.floating]], None]
    """Writes the rows from a given one on into an array, as many as it has."""


@dataclass(frozen=True)
class Facts:
    """What a whole pass has found."""

    n_rows: int
    sizes: Sizes
    fingerprint: bytes
    """Of all numbers in order; it does not depend on the size of chunks."""


class Source:
    """Rows of numbers, read in chunks.

    Attributes
    ----------
    n_columns : int
    dtype : numpy.dtype
        Of the chunks: float32 if all numbers are float32 or float16, else float64.
    n_rows : int or None
        None if unknown: before the first pass over an iterator has ended.
    names : tuple of str, or None
        Of the columns.
    parts : tuple of Part
        The files, in the order of their rows; empty if there are none.
    remarks : tuple of str
        Notes for the user on how it is read.
    """

    n_columns: int
    dtype: np.dtype[Any]
    n_rows: int | None = None
    names: tuple[str, ...] | None = None
    parts: tuple[Part, ...] = ()
    remarks: tuple[str, ...] = ()
    reads_ahead: bool = True
    """Whether reading in another thread saves time."""
    _name = "the source"
    """What errors call it."""
    _may_shuffle = True
    """Whether another pass may give neighboring rows in another order."""
    _advice = ""
    """What to do about a source that has changed."""
    _facts: Facts | None = None

    @property
    def sizes(self) -> Sizes | None:
        """The smallest nonzero magnitude and the largest; None before a pass has ended."""
        return None if self._facts is None else self._facts.sizes

    @property
    def reading_bytes(self) -> int:
        """Bytes that reading takes in addition to the chunks, about."""
        return 0

    def spare_memory(self, limit: int) -> None:
        """Read in a way that takes less memory, if there is one and the limit requires it."""

    def chunks(
        self, rows_at_once: SupportsIndex, *, ahead: int = 1
    ) -> Generator[Chunk, None, None]:
        """Read all rows in order: chunks of `rows_at_once`, the last one smaller.

        The next `ahead` chunks are read in another thread meanwhile; 0 reads without a thread.
        At most `ahead` + 2 chunks are in memory, or one less if the caller drops each chunk
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
        rows_at_once = rows_at_once or self._step_rows
        if self.n_rows is None:
            return np.concatenate([chunk.rows for chunk in self.chunks(rows_at_once)])
        # Chunks are copied one by one: all chunks and the array would be twice the memory.
        whole = np.empty((self.n_rows, self.n_columns), dtype=self.dtype)
        with closing(self.chunks(rows_at_once)) as chunks:
            for first, rows in chunks:
                whole[first : first + len(rows)] = rows
                del rows
        return whole

    def take(self, rows: Any) -> NDArray[np.floating]:
        """Return some rows by their numbers, in the order asked for.

        This reads all rows up to the last of them; subclasses may be faster.
        """
        wanted = np.asarray(rows, dtype=np.int64)
        found = np.empty((len(wanted), self.n_columns), dtype=self.dtype)
        left, last = len(wanted), max(wanted, default=-1)
        if min(wanted, default=0) < 0:
            raise IndexError(f"rows are counted from 0; got {wanted.min()}")
        with closing(self.chunks(self._step_rows)) as chunks:
            for first, chunk in chunks:
                here = (wanted >= first) & (wanted < first + len(chunk))
                found[here] = chunk[wanted[here] - first]
                left -= int(here.sum())
                if left == 0:
                    break
        if left:
            raise IndexError(f"{self._name} has {self.n_rows:,} rows, and no row {last}")
        return found

    def place(self, row: int) -> str:
        """Return the file and the row in it, counted from 1 as in a table."""
        within = row
        for part in self.parts:
            if within < part.n_rows:
                of_all = f" ({row + 1:,} of all)" if len(self.parts) > 1 else ""
                return f"{part.name}: row {within + 1}{of_all}"
            within -= part.n_rows
        return f"row {row}, counted from 0"

    def _arrays(self, rows: int, stop: threading.Event) -> Iterator[NDArray[np.floating]]:
        """Yield all rows, `rows` at a time; it may end early when `stop` is set."""
        raise NotImplementedError

    @property
    def _row_bytes(self) -> int:
        return max(1, self.n_columns * self.dtype.itemsize)

    @property
    def _step_rows(self) -> int:
        """Rows that are checked, or written, before the next test for a stop."""
        return max(1, _STEP // self._row_bytes)

    def _set_parts(self, parts: Iterable[Part]) -> None:
        """Set the files, their total number of rows, and the name for errors."""
        self.parts = tuple(parts)
        self.n_rows = sum(part.n_rows for part in self.parts)
        more = f" and {len(self.parts) - 1} more" if len(self.parts) > 1 else ""
        self._name = f"{self.parts[0].name}{more}"

    # --- Checks during a pass ------------------------------------------------------------------

    def _pass(self, rows: int, stop: threading.Event) -> Iterator[Chunk]:
        first, seen = 0, Sizes(np.inf, 0.0)
        fingerprint = Fingerprint(by_place=self._may_shuffle)
        for array in self._arrays(rows, stop):
            for begin in range(0, len(array), self._step_rows):
                if stop.is_set():
                    return
                few = array[begin : begin + self._step_rows]
                seen = self._check(few, first + begin, seen)
                fingerprint.add(few)
            yield Chunk(first, array)
            first += len(array)
        if not stop.is_set():
            smallest = seen.smallest if seen.largest else 0.0
            self._settle(Facts(first, Sizes(smallest, seen.largest), fingerprint.digest()))

    def _check(self, rows: NDArray[np.floating], first: int, seen: Sizes) -> Sizes:
        """Reject values that are not finite; return the sizes of these rows and all before."""
        finite, smallest, largest = value_range(rows)
        if not finite:
            refuse_first(~np.isfinite(rows), rows, self.place, self.names, before=first)
        return Sizes(
            min(seen.smallest, smallest) if largest else seen.smallest, max(seen.largest, largest)
        )

    def _settle(self, found: Facts) -> None:
        """Keep what the first pass has found; reject another pass that differs."""
        if self._facts is None:
            if self.n_rows is not None and found.n_rows != self.n_rows:
                raise ValueError(
                    f"{self._name} has {found.n_rows:,} rows instead of {self.n_rows:,}"
                )
            if found.n_rows == 0:
                raise ValueError(f"{self._name} has no rows")
            self.n_rows, self._facts = found.n_rows, found
            return
        if found.n_rows != self._facts.n_rows:
            raise ValueError(
                f"{self._name} has changed: {self._facts.n_rows:,} rows when it was first read, "
                f"{found.n_rows:,} now{self._advice}"
            )
        if found != self._facts:
            raise ValueError(
                f"{self._name} has changed: other numbers, or another order, than when it was "
                f"first read{self._advice}"
            )


class FilledSource(Source):
    """A source whose chunks are copied together from blocks of other sizes and types."""

    def __init__(self) -> None:
        self._buffers = Buffers()

    def _blocks(self, rows: int) -> Iterator[Block]:
        """Yield all rows in blocks, for chunks of `rows`."""
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
                step = min(rows - filled, block.n_rows - begin, self._step_rows)
                block.write(begin, out[filled : filled + step])
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
        """Bytes that reading takes in addition to the chunks, about."""
        return _STEP

    def _next(self, blocks: Iterator[Block], row: int) -> Block | None:
        """Return the next block; an error says at which row it happened."""
        try:
            return next(blocks, None)
        except Exception as error:
            error.add_note(f"while reading on from {self.place(row)}")
            raise


class Buffers:
    """Memory for chunks; it is used again when an array and all views of it are gone.

    Fresh memory is cleared by the system each time, which takes as long as reading it. Whether an
    array is gone is tested when the next one is lent. A callback of the weak reference would run
    anywhere in the main thread. A Ctrl-C during it would be lost: Python drops exceptions there.
    """

    def __init__(self) -> None:
        self._lent: deque[tuple[NDArray[np.uint8], weakref.ref[Any]]] = deque(maxlen=_MOST_BUFFERS)
        self._lock = threading.Lock()

    def lend(self, n_rows: int, n_columns: int, dtype: np.dtype[Any]) -> NDArray[np.floating]:
        """Return an array with arbitrary contents."""
        with self._lock:
            memory = self._unused(n_rows * n_columns * dtype.itemsize)
            # NumPy gives views of views the first array as their base, as long as that is one:
            # here `array`, below which there is no array. So it lives as long as any of them.
            array = np.frombuffer(memory.data, dtype=dtype, count=n_rows * n_columns)
            self._lent.append((memory, weakref.ref(array)))
        return array.reshape(n_rows, n_columns)

    def _unused(self, size: int) -> NDArray[np.uint8]:
        """Return memory of at least that size, the most recently lent first."""
        for place in reversed(range(len(self._lent))):
            memory, array = self._lent[place]
            if array() is None:
                del self._lent[place]
                if len(memory) >= size:
                    return memory
        return np.empty(size, dtype=np.uint8)
