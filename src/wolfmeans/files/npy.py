"""NPY files, one or several: mapped into memory, a chunk at a time.

A chunk of native floats in C order within one file is a view of the file; it is read by the thread
that uses it. Its pages are unloaded with the last view of it, so that only the chunks in use are
resident. Everything else is converted into buffers.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.exact.native import working_dtype
from wolfmeans.files.arrays import block_of, convert, in_stretches
from wolfmeans.files.atomic import shown
from wolfmeans.files.columns import ArrayTable, Part
from wolfmeans.files.source import Block, FilledSource
from wolfmeans.files.tables import read

_STRETCH = 1 << 24
"""Bytes that are mapped at once where they are converted."""


@dataclass(frozen=True)
class _File:
    path: Path
    name: str
    shape: tuple[int, int]
    dtype: np.dtype[Any]
    by_column: bool
    """Whether it is in Fortran order."""
    offset: int
    """Where its numbers begin."""
    size: int

    @staticmethod
    def of(path: Path) -> _File:
        table = read([str(path)], "npy")
        assert isinstance(table, ArrayTable)
        found: Any = table.matrix
        return _File(
            path,
            name=shown(str(path)),
            shape=found.shape,
            dtype=found.dtype,
            by_column=not found.flags.c_contiguous,
            offset=found.offset,
            size=path.stat().st_size,
        )

    def mapped(self) -> NDArray[Any]:
        """Return the whole file as an array; nothing is read yet."""
        try:
            with self.path.open("rb") as file:
                content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.name} no longer exists") from None
        except (OSError, ValueError) as error:
            raise OSError(f"{self.name} cannot be read: {error}") from error
        if len(content) != self.size:
            raise ValueError(
                f"{self.name} has changed: {self.size:,} bytes when it was opened, "
                f"{len(content):,} now"
            )
        if hasattr(mmap, "MADV_SEQUENTIAL") and not self.by_column:
            content.madvise(mmap.MADV_SEQUENTIAL)
        order: Any = "F" if self.by_column else "C"
        return np.ndarray(self.shape, self.dtype, content, self.offset, order=order)

    def is_plain(self, dtype: np.dtype[Any]) -> bool:
        aligned = self.offset % dtype.itemsize == 0
        return self.dtype == dtype and self.dtype.isnative and not self.by_column and aligned


class NpySource(FilledSource):
    """Tables in NPY files, one below the other."""

    # A file that is rewritten has other sums of a thousand numbers somewhere.
    _may_shuffle = False

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__()
        self._files = [_File.of(path) for path in paths]
        first = self._files[0]
        for file in self._files[1:]:
            if file.shape[1] != first.shape[1]:
                raise ValueError(
                    f"{file.name} has {file.shape[1]} columns, but {first.name} has "
                    f"{first.shape[1]}"
                )
        self._set_parts(Part(file.name, file.shape[0]) for file in self._files)
        self.n_columns = first.shape[1]
        dtypes = [file.dtype for file in self._files]
        self.dtype = working_dtype(np.result_type(*dtypes) if len(dtypes) > 1 else dtypes[0])

    @property
    def reading_bytes(self) -> int:
        """Bytes that reading takes in addition to the chunks, about."""
        return 0 if self._is_plain else _STRETCH

    @property
    def _is_plain(self) -> bool:
        return all(file.is_plain(self.dtype) for file in self._files)

    def _arrays(self, rows: int, stop: threading.Event) -> Iterator[NDArray[np.floating]]:
        if self._is_plain:
            yield from self._views(rows)
        else:
            yield from super()._arrays(rows, stop)

    def take(self, rows: Any) -> NDArray[np.floating]:
        """Return some rows by their numbers, in the order asked for, without reading others."""
        wanted = np.asarray(rows, dtype=np.int64)
        found = np.empty((len(wanted), self.n_columns), dtype=self.dtype)
        n_rows = self.n_rows or 0
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < n_rows:
            raise IndexError(f"rows are counted from 0 to {n_rows - 1:,}; got {rows}")
        first = 0
        for file in self._files:
            here = (wanted >= first) & (wanted < first + file.shape[0])
            if here.any():
                found[here] = self._taken(file, wanted[here] - first)
            first += file.shape[0]
        return found

    def _taken(self, file: _File, rows: NDArray[np.int64]) -> NDArray[np.floating]:
        """Return rows of a file; no more of it is resident at once than a chunk."""
        found = np.empty((len(rows), self.n_columns), dtype=self.dtype)
        for some in in_stretches(rows, self.n_columns * file.dtype.itemsize):
            # A new mapping each time: the pages of the previous one are unloaded with it.
            chosen = np.empty((len(some), self.n_columns), dtype=self.dtype)
            convert(file.mapped()[rows[some]], chosen, file.name)
            found[some] = chosen
        return found

    def _views(self, rows: int) -> Iterator[NDArray[np.floating]]:
        """Yield chunks as views; a chunk that spans several files is a copy."""
        pieces: list[NDArray[np.floating]] = []
        missing = rows
        for file in self._files:
            begin = 0
            while begin < file.shape[0]:
                end = min(file.shape[0], begin + missing)
                pieces.append(file.mapped()[begin:end])
                missing -= end - begin
                begin = end
                if missing == 0:
                    yield self._joined(pieces)
                    pieces, missing = [], rows
        if pieces:
            yield self._joined(pieces)

    def _joined(self, pieces: list[NDArray[np.floating]]) -> NDArray[np.floating]:
        if len(pieces) == 1:
            return pieces[0]
        out = self._buffers.lend(sum(map(len, pieces)), self.n_columns, self.dtype)
        return np.concatenate(pieces, out=out)

    def _blocks(self, rows: int) -> Iterator[Block]:
        for file in self._files:
            step = max(1, min(rows, _STRETCH // (self.n_columns * file.dtype.itemsize)))
            for begin in range(0, file.shape[0], step):
                yield block_of(file.mapped()[begin : begin + step], file.name)
