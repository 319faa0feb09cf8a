"""Arrays as sources: in memory, mapped into memory, or sliced like an array (Zarr, HDF5)."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.exact.native import working_dtype
from wolfmeans.files.columns import refuse_large
from wolfmeans.files.source import Block, FilledSource, Source

_SLAB = 1 << 22
"""Bytes that are read at once from an array that is stored in small pieces."""
_UNPACKING = 1 << 25
"""Bytes that unpacking takes in addition."""
_THREADS_FACTOR = 5
"""How much more memory unpacking in several threads takes: most is kept by the allocators of the
threads (measured with Zarr 3)."""
NEAR = 1 << 19
"""Bytes of rows that stay in a cache while column after column is written into them."""


class ArraySource(Source):
    """A table of native floats in memory: chunks are views."""

    reads_ahead = False
    _name = "the array"

    def __init__(self, array: NDArray[np.floating], names: tuple[str, ...] | None = None) -> None:
        self._array = array
        self.n_rows, self.n_columns = array.shape
        self.dtype, self.names = array.dtype, names

    def _arrays(self, rows: int, stop: threading.Event) -> Iterator[NDArray[np.floating]]:
        for begin in range(0, len(self._array), rows):
            yield self._array[begin : begin + rows]

    def take(self, rows: Any) -> NDArray[np.floating]:
        """Return some rows by their numbers, in the order asked for."""
        return self._array[np.asarray(rows, dtype=np.int64)]


class ConvertedSource(FilledSource):
    """An array that is mapped into memory, or of another dtype or layout: chunks are copies.

    Mapped pages are unloaded after their rows are copied. Pages that stay would count as memory of
    this process, up to the whole file.
    """

    def __init__(self, array: NDArray[Any], called: str, names: tuple[str, ...] | None) -> None:
        super().__init__()
        self._array, self._name = array, called
        self.n_rows, self.n_columns = array.shape
        self.dtype, self.names = working_dtype(array.dtype), names
        self.reads_ahead = isinstance(array, np.memmap)

    @property
    def reading_bytes(self) -> int:
        """Bytes that reading takes in addition to the chunks, about."""
        return super().reading_bytes if self.reads_ahead else 0

    def _blocks(self, rows: int) -> Iterator[Block]:
        step = max(1, _SLAB // self._row_bytes)
        for begin in range(0, len(self._array), step):
            piece = self._array[begin : begin + step]
            yield block_of(np.asarray(piece), self._name)
            _unload(piece)

    def take(self, rows: Any) -> NDArray[np.floating]:
        """Return some rows by their numbers, in the order asked for."""
        wanted = np.asarray(rows, dtype=np.int64)
        found = np.empty((len(wanted), self.n_columns), dtype=self.dtype)
        for some in in_stretches(wanted, self._array[:1].nbytes):
            found[some] = self._array[wanted[some]]
            _unload(self._array[wanted[some].min() : wanted[some].max() + 1])
        return found


def in_stretches(rows: NDArray[np.int64], width: int) -> Iterator[NDArray[np.intp]]:
    """Yield positions in a list of rows, in groups that are near each other in a file.

    Taking all rows at once could load all pages of the file.
    """
    if len(rows) == 0:
        return
    stretches = rows * width // _SLAB
    order = np.argsort(stretches, kind="stable")
    ends = np.flatnonzero(np.diff(stretches[order])) + 1
    yield from np.split(order, ends)


def _unload(piece: Any) -> None:
    """Unload the pages of a piece and some before it; an access would load them again.

    Pages of mode "c" stay: the caller's changes exist only there.
    """
    mapped = getattr(piece, "_mmap", None)
    if mapped is None or piece.mode == "c" or not piece.flags.c_contiguous:
        return
    if not hasattr(mmap, "MADV_DONTNEED"):
        return
    begin = piece.ctypes.data - np.frombuffer(mapped, dtype=np.uint8).ctypes.data
    # Reading the first page of a piece maps some pages before it, too: up to 1 MB was seen.
    first = max(0, begin - _SLAB) // mmap.PAGESIZE * mmap.PAGESIZE
    last = (begin + piece.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if first < last:
        mapped.madvise(mmap.MADV_DONTNEED, first, last - first)


class SlicedSource(FilledSource):
    """A table in a file whose slices are arrays: Zarr, HDF5."""

    def __init__(self, table: Any, called: str) -> None:
        super().__init__()
        check_table(table, called)
        self._table, self._name = table, called
        self.n_rows, self.n_columns = table.shape[0], table.shape[1] if table.ndim == 2 else 1
        self.dtype = working_dtype(table.dtype)
        self._spares_memory = False

    def _blocks(self, rows: int) -> Iterator[Block]:
        step = self._stored_rows()
        for begin in range(0, self._table.shape[0], step):
            sparing = _one_by_one(self._table) if self._spares_memory else nullcontext()
            with reading(self._name), sparing:
                found = np.asarray(self._table[begin : begin + step])
            yield block_of(found[:, None] if found.ndim == 1 else found, self._name)

    @property
    def reading_bytes(self) -> int:
        """Bytes that reading takes in addition to the chunks, about."""
        # The stored pieces, the unpacked ones, and the block that is made of them.
        stored = self._stored_rows() * self.n_columns * int(self._table.dtype.itemsize)
        return (3 if self._spares_memory else 3 * _THREADS_FACTOR) * stored + _UNPACKING

    def spare_memory(self, limit: int) -> None:
        """Unpack stored pieces one by one if several threads would take much of the memory."""
        if 4 * self.reading_bytes > limit:
            self._spares_memory = True

    def _stored_rows(self) -> int:
        """Return how many rows to read at once: whole stored pieces, and enough of them."""
        stored = getattr(self._table, "shards", None) or getattr(self._table, "chunks", None)
        piece = int(stored[0]) if isinstance(stored, tuple) else 1
        if piece < 1:
            raise ValueError(f"{self._name} is damaged: its chunks have no rows")
        width = max(1, self.n_columns * int(self._table.dtype.itemsize))
        return piece * max(1, _SLAB // (piece * width))


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Name the table in errors: libraries raise errors of any type for a damaged one."""
    try:
        yield
    except (MemoryError, ImportError):
        raise
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), "")
        if name in reason and isinstance(error, (ValueError, OSError)):
            raise
        kind = OSError if isinstance(error, OSError) else ValueError
        raise kind(
            f"{name} is damaged, or cannot be read: {type(error).__name__}: {reason}"
        ) from error


def _one_by_one(table: Any) -> AbstractContextManager[Any]:
    """Let Zarr unpack stored pieces one by one meanwhile."""
    if type(table).__module__.partition(".")[0] == "zarr":
        import zarr

        if hasattr(zarr, "config"):  # since Zarr 3; Zarr 2 never uses threads
            meanwhile: AbstractContextManager[Any] = zarr.config.set({"async.concurrency": 1})
            return meanwhile
    return nullcontext()


def block_of(numbers: NDArray[Any], where: str) -> Block:
    """Return rows of any numeric dtype as a block."""

    def write(begin: int, out: NDArray[np.floating]) -> None:
        convert(numbers[begin : begin + len(out)], out, where)

    return Block(len(numbers), write)


def convert(numbers: NDArray[Any], out: NDArray[np.floating], where: str) -> None:
    """Write numbers into an array of floats; reject integers that it cannot hold exactly."""
    if numbers.dtype.kind in "iu" and numbers.dtype.itemsize == 8 and numbers.size:
        refuse_large(max(abs(int(numbers.min())), int(numbers.max())), where)
    with np.errstate(over="ignore"):  # becomes infinite, which is rejected later
        few = max(1, NEAR // max(1, out[:1].nbytes))
        for begin in range(0, len(numbers), few):
            np.copyto(out[begin : begin + few], numbers[begin : begin + few], casting="unsafe")


def is_real(dtype: np.dtype[Any]) -> bool:
    """Whether entries of this dtype are real numbers."""
    return dtype.kind in "fiub"


def check_table(table: Any, called: str) -> None:
    """Reject what is not a table of real numbers with rows and columns."""
    shape, dtype = tuple(table.shape), np.dtype(table.dtype)
    if len(shape) not in (1, 2) or not is_real(dtype):
        raise ValueError(
            f"{called} must be a table of numbers; it has {len(shape)} axes of {dtype}"
        )
    if 0 in shape:
        raise ValueError(f"{called} has no {'rows' if shape[0] == 0 else 'columns'}")


def source_of_array(
    array: NDArray[Any], names: tuple[str, ...] | None = None, called: str = "the array"
) -> Source:
    """Return an array as a source, without a copy where its chunks can be views."""
    if np.ma.isMaskedArray(array):
        if np.ma.is_masked(array):
            raise ValueError(f"{called} has masked entries; fill them or drop those rows first")
        array = np.ma.getdata(array)
    check_table(array, called)
    if array.ndim == 1:
        array = array[:, None]
    plain = array.dtype == working_dtype(array.dtype) and array.dtype.isnative
    in_memory = not isinstance(array, np.memmap)
    if in_memory and plain and array.flags.c_contiguous and array.flags.aligned:
        return ArraySource(array, names)
    return ConvertedSource(array, called, names)
