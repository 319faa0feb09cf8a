"""A source without the rows of another that have missing values."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from wolfmeans.files.arrays import block_of
from wolfmeans.files.columns import FILL_IN
from wolfmeans.files.source import Block, FilledSource, Source


class CompleteSource(FilledSource):
    """The complete rows of a source, counted anew: row i is the i-th complete one.

    How many there are is known after the first pass, and which ones: `kept`.
    """

    def __init__(self, whole: Source) -> None:
        super().__init__()
        self._whole = whole
        self.n_columns, self.dtype, self.names = whole.n_columns, whole.dtype, whole.names
        self.parts, self.remarks = whole.parts, whole.remarks
        self.reads_ahead = whole.reads_ahead
        self._masks: list[tuple[int, NDArray[np.uint8]]] = []

    @property
    def reading_bytes(self) -> int:
        """Bytes that reading takes beside the chunks, about."""
        return self._whole.reading_bytes + 2 * self._several * self._row_bytes

    def spare_memory(self, limit: int) -> None:
        """Read in a way that takes less memory, where there is one."""
        self._whole.spare_memory(limit)

    @property
    def kept(self) -> NDArray[np.bool_] | None:
        """Which rows of the whole are complete; None before a pass has ended."""
        if self._facts is None:
            return None
        masks = [np.unpackbits(bits, count=count) for count, bits in self._masks]
        return np.concatenate(masks).astype(bool)

    def _blocks(self, rows: int) -> Iterator[Block]:
        masks: list[tuple[int, NDArray[np.uint8]]] = []
        before = 0
        for array in self._whole._arrays(self._several, threading.Event()):
            self._refuse_infinite(array, before)
            complete = ~np.isnan(array).any(axis=1)
            masks.append((len(array), np.packbits(complete)))
            before += len(array)
            if complete.all():
                yield block_of(array, self._called)
            else:
                yield block_of(array[complete], self._called)
        if before and not any(bits.any() for _, bits in masks):
            raise ValueError(f"{self._called}: every row has a missing value; use fewer columns")
        self._masks = masks

    def _refuse_infinite(self, array: NDArray[np.floating], before: int) -> None:
        infinite = np.isinf(array)
        if infinite.any():
            row, column = divmod(int(np.argmax(infinite.ravel())), array.shape[1])
            name = repr(self.names[column]) if self.names else str(column)
            place = self._whole.place(before + row)
            raise ValueError(f"{place}, column {name} is infinite, or too large; {FILL_IN}")

    def place(self, row: int) -> str:
        """Return which of the complete rows it is."""
        return f"row {row} of those without missing values, counted from 0"

    @property
    def _called(self) -> str:
        return self._whole._called
