"""Sources in memory: arrays and tensors, and anything that is sliced like an array."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.exact.arrays import working_dtype
from wolfmeans.files.conversion import is_real, put
from wolfmeans.files.source import Block, FilledSource, Source

_SLAB = 1 << 22
"""Bytes that are asked for at once where small pieces are stored."""
_MACHINERY = 1 << 25
"""Bytes for what unpacks them."""
_SEVERAL = 5
"""Where stored pieces are unpacked by several threads, all that takes so many times as much: most
is what allocators keep of each thread (measured with Zarr 3)."""


class ArraySource(Source):
    """A table of native floats in memory: chunks are views."""

    reads_ahead = False

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

    @property
    def _called(self) -> str:
        return "the array"


class MappedSource(FilledSource):
    """A table that is mapped into memory: copied piece by piece, and let go of.

    Pages that stay would count as memory of this process, up to the whole file.
    """

    def __init__(self, array: np.memmap[Any, Any], names: tuple[str, ...] | None = None) -> None:
        super().__init__()
        self._array = array
        self.n_rows, self.n_columns = array.shape
        self.dtype, self.names = working_dtype(array.dtype), names

    def _blocks(self, rows: int) -> Iterator[Block]:
        step = max(1, _SLAB // self._row_bytes)
        for begin in range(0, len(self._array), step):
            piece = self._array[begin : begin + step]
            yield block_of(np.asarray(piece), self._called)
            _let_go(piece)

    def take(self, rows: Any) -> NDArray[np.floating]:
        """Return some rows by their numbers, in the order asked for."""
        wanted = np.asarray(rows, dtype=np.int64)
        found = np.empty((len(wanted), self.n_columns), dtype=self.dtype)
        for some in in_stretches(wanted, self._array[:1].nbytes):
            found[some] = self._array[wanted[some]]
            _let_go(self._array[wanted[some].min() : wanted[some].max() + 1])
        return found

    @property
    def _called(self) -> str:
        return "the array"


def in_stretches(rows: NDArray[np.int64], width: int) -> Iterator[NDArray[np.intp]]:
    """Yield places in a list of rows, in groups that are near each other in memory.

    Rows spread over all of a file would bring all its pages into memory, were they taken at once.
    """
    stretches = rows * width // _SLAB
    order = np.argsort(stretches, kind="stable")
    ends = np.flatnonzero(np.diff(stretches[order])) + 1
    yield from np.split(order, ends)


def _let_go(piece: Any) -> None:
    """Unload pages of a piece and before it; they are read again when somebody looks at them.

    Not where the caller's changes are kept in these pages alone.
    """
    mapped = getattr(piece, "_mmap", None)
    if mapped is None or piece.mode == "c" or not hasattr(mmap, "MADV_DONTNEED"):
        return
    begin = piece.ctypes.data - np.frombuffer(mapped, dtype=np.uint8).ctypes.data
    # Whoever reads the first page of a piece gets some before it mapped, too: a megabyte was seen.
    first = max(0, begin - _SLAB) // mmap.PAGESIZE * mmap.PAGESIZE
    last = (begin + piece.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if first < last:
        mapped.madvise(mmap.MADV_DONTNEED, first, last - first)


class SlicedSource(FilledSource):
    """A table that gives rows as arrays: one in memory of another kind, Zarr, HDF5."""

    def __init__(self, table: Any, called: str, names: tuple[str, ...] | None = None) -> None:
        super().__init__()
        check_table(table, called)
        self._table, self._name = table, called
        self.n_rows, self.n_columns = table.shape[0], table.shape[1] if table.ndim == 2 else 1
        self.dtype, self.names = working_dtype(table.dtype), names
        self.reads_ahead = not isinstance(table, np.ndarray)
        self._spares_memory = False

    def _blocks(self, rows: int) -> Iterator[Block]:
        step = self._stored_rows()
        for begin in range(0, self._table.shape[0], step):
            if isinstance(self._table, np.ndarray):
                found: NDArray[Any] = self._table[begin : begin + step]
            else:
                sparing = _one_by_one(self._table) if self._spares_memory else nullcontext()
                with reading(self._name), sparing:
                    found = np.asarray(self._table[begin : begin + step])
            if found.ndim == 1:
                found = found[:, None]
            yield block_of(found, self._name)

    @property
    def reading_bytes(self) -> int:
        """Bytes that reading takes beside the chunks, about."""
        if isinstance(self._table, np.ndarray):
            return 0
        # As they are stored, unpacked, and the block they are put together in.
        stored = self._stored_rows() * self.n_columns * int(self._table.dtype.itemsize)
        return (3 if self._spares_memory else 3 * _SEVERAL) * stored + _MACHINERY

    def spare_memory(self, limit: int) -> None:
        """Unpack stored pieces one after the other where several would take much of the memory."""
        if 4 * self.reading_bytes > limit:
            self._spares_memory = True

    def _stored_rows(self) -> int:
        """Return how many rows to take at once: whole stored pieces, and enough of them."""
        stored = getattr(self._table, "shards", None) or getattr(self._table, "chunks", None)
        piece = int(stored[0]) if isinstance(stored, tuple) else 1
        if piece < 1:
            raise ValueError(f"{self._name} is damaged: its chunks have no rows")
        width = max(1, self.n_columns * int(self._table.dtype.itemsize))
        return piece * max(1, _SLAB // (piece * width))

    @property
    def _called(self) -> str:
        return self._name


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Say which table it is that cannot be read: libraries raise whatever they meet within it."""
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
    """Have Zarr unpack stored pieces one after the other meanwhile."""
    if type(table).__module__.partition(".")[0] == "zarr":
        import zarr

        if hasattr(zarr, "config"):  # since Zarr 3; before, it was never otherwise
            meanwhile: AbstractContextManager[Any] = zarr.config.set({"async.concurrency": 1})
            return meanwhile
    return nullcontext()


def block_of(numbers: NDArray[Any], where: str) -> Block:
    """Return rows of numbers of any kind as a block."""

    def write(begin: int, out: NDArray[np.floating]) -> None:
        put(numbers[begin : begin + len(out)], out, where)

    return Block(len(numbers), write)


def check_table(table: Any, called: str) -> None:
    """Refuse what is not a table of real numbers with rows and columns."""
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
    if isinstance(array, np.memmap) and array.flags.c_contiguous:
        return MappedSource(array, names)
    plain = array.dtype == working_dtype(array.dtype) and array.dtype.isnative
    if plain and array.flags.c_contiguous and array.flags.aligned:
        return ArraySource(array, names)
    return SlicedSource(array, called, names)
