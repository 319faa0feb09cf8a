"""A source whose rows are divided by their norms as they are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.exact.directions import unit_rows, without_direction
from wolfmeans.files.source import Block, FilledSource, Source

_STEP = 1 << 18
"""Bytes that are read and divided at once."""


class UnitSource(FilledSource):
    """The rows of another source, each divided by its norm; a row of norm 0 is an error."""

    def __init__(self, base: Source) -> None:
        super().__init__()
        self.base = base
        self.n_columns, self.dtype, self.n_rows = base.n_columns, base.dtype, base.n_rows
        self.names, self.parts, self.remarks = base.names, base.parts, base.remarks
        self._name, self._advice = base._name, base._advice
        self._may_shuffle = base._may_shuffle

    @property
    def reading_bytes(self) -> int:
        """Bytes that reading takes in addition to the chunks, about."""
        return self.base.reading_bytes + 6 * max(_STEP, self._row_bytes)

    def spare_memory(self, limit: int) -> None:
        """Read in a way that takes less memory, if there is one and the limit requires it."""
        self.base.spare_memory(limit)

    def place(self, row: int) -> str:
        """Return the file and the row in it, counted from 1 as in a table."""
        return self.base.place(row)

    def take(self, rows: Any) -> NDArray[np.floating]:
        """Return some rows by their numbers, in the order asked for."""
        taken: NDArray[np.floating] = unit_rows(self.base.take(rows))
        return taken

    def _blocks(self, rows: int) -> Iterator[Block]:
        few = max(1, min(rows, _STEP // self._row_bytes))
        with closing(self.base.chunks(few, ahead=0)) as chunks:
            for first, given in chunks:
                none = without_direction(given)
                if none.any():
                    place = self.place(first + int(np.flatnonzero(none)[0]))
                    raise ValueError(f"{place}: the norm is 0, so the row has no direction")
                yield Block(len(given), _writing(unit_rows(given)))


def _writing(units: NDArray[np.floating]) -> Any:
    def write(begin: int, out: NDArray[np.floating]) -> None:
        out[...] = units[begin : begin + len(out)]

    return write
