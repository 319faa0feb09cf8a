"""Counts in the pages of a Parquet file, looked at before polars believes them.

A reader reserves memory for as many values as a page claims to have, and a process that is asked
for more than there is ends at once: nothing could be caught then. Headers of pages and the
footer are written in Thrift's compact protocol, of which this reads what is needed.
"""

from __future__ import annotations

import io
from typing import IO, Any

_FOOTER = 8
_LARGE = 1 << 20
"""Bytes: a larger footer, of thousands of columns and groups, would take seconds."""
_HEADER = 1 << 12
"""Bytes in which a header of a page ends, unless there are long statistics in it."""
# Numbers of fields in parquet.thrift.
_ROW_GROUPS, _COLUMNS, _COLUMN_DATA = 4, 1, 3
_VALUES, _PACKED, _DATA_PAGE, _DICTIONARY_PAGE = 5, 7, 9, 11
_UNPACKED_PAGE, _PACKED_PAGE = 2, 3
_KINDS_OF_PAGES = (5, 7, 8)
_VALUES_OF_A_PAGE = 1


def wrong_count(file: IO[bytes]) -> str | None:
    """Return what is wrong with the counts of a file's pages; None also where nobody can tell."""
    try:
        return next((fault for column in _columns(file) if (fault := _fault(file, column))), None)
    # Not to be understood, which the reader will say better.
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def _columns(file: IO[bytes]) -> list[dict[int, Any]]:
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - _FOOTER))
    length = int.from_bytes(file.read(4), "little")
    if length > min(_LARGE, size - _FOOTER):
        return []
    file.seek(size - _FOOTER - length)
    footer = _Compact(file.read(length)).struct()
    return [column[_COLUMN_DATA] for group in footer[_ROW_GROUPS] for column in group[_COLUMNS]]


def _fault(file: IO[bytes], column: dict[int, Any]) -> str | None:
    """Follow the pages of a column."""
    values, packed = column[_VALUES], column[_PACKED]
    place = min(column[_DATA_PAGE], column.get(_DICTIONARY_PAGE) or column[_DATA_PAGE])
    if values < 0 or packed < 0 or place < 0:
        return "a column has a negative number of values or bytes"
    end, left = place + packed, values
    while place < end and left > 0:
        file.seek(place)
        compact = _Compact(file.read(_HEADER))
        header = compact.struct()
        kind = next((kind for kind in _KINDS_OF_PAGES if kind in header), None)
        count = 0 if kind is None else header[kind][_VALUES_OF_A_PAGE]
        if not 0 <= count <= values:
            return f"a page says that it has {count:,} of {values:,} values"
        if header[_UNPACKED_PAGE] < 0 or not 0 <= header[_PACKED_PAGE] <= packed:
            return "a page says that it is larger than its column"
        left -= 0 if kind == _KINDS_OF_PAGES[1] else count
        place += compact.at + header[_PACKED_PAGE]
    return None


class _Compact:
    """Thrift's compact protocol, from some bytes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self) -> dict[int, Any]:
        """Return the fields of a struct by their numbers."""
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            number = number + step if step else self._signed()
            found[number] = kind == 1 if kind in (1, 2) else self._value(kind)
        return found

    def _value(self, kind: int) -> Any:
        if kind in (1, 2, 3):
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind in (7, 8):
            length = 8 if kind == 7 else self._unsigned()
            self.at += length
            return self.data[self.at - length : self.at]
        if kind in (9, 10):
            head = self._byte()
            count = self._unsigned() if head >> 4 == 15 else head >> 4
            return [self._item(head & 15) for _ in range(count)]
        if kind == 12:
            return self.struct()
        raise ValueError(f"no type of this protocol: {kind}")

    def _item(self, kind: int) -> Any:
        if self.at >= len(self.data):
            raise IndexError("the bytes end within a list")
        return self._value(kind)

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
