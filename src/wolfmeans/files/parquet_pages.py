"""Counts of values in the pages of a Parquet file, checked before polars reads it.

Polars reserves memory for as many values as a page header claims. If a damaged header claims a
negative number, the process is aborted, which no `except` can catch. pyarrow's metadata has the
counts of columns, not those of pages. So this reads page headers, which are Thrift structs.
"""

from __future__ import annotations

import io
from typing import IO, Any

_LARGE = 1 << 20
"""Bytes: a larger footer, of thousands of columns and row groups, would take seconds."""
_HEADER = 1 << 12
"""Bytes that hold the header of a page, unless it has long statistics."""
# Numbers of fields in parquet.thrift.
_ROW_GROUPS, _COLUMNS, _METADATA = 4, 1, 3
_N_VALUES, _SIZE, _DATA_PAGE, _DICTIONARY_PAGE = 5, 7, 9, 11
_PAGE_SIZE, _PACKED_PAGE_SIZE = 2, 3
_PAGE_KINDS, _DICTIONARY = (5, 7, 8), 7
_N_VALUES_OF_PAGE = 1


def wrong_count(file: IO[bytes]) -> str | None:
    """Return what is wrong with the page counts of a file; None also if headers are unreadable."""
    try:
        size = file.seek(0, io.SEEK_END)
        file.seek(max(0, size - 8))
        length = int.from_bytes(file.read(4), "little")
        if length > min(_LARGE, size - 8):
            return None
        file.seek(size - 8 - length)
        groups = _struct(io.BytesIO(file.read(length)))[_ROW_GROUPS]
        columns = [column[_METADATA] for group in groups for column in group[_COLUMNS]]
        return next((fault for column in columns if (fault := _fault(file, column))), None)
    # The reader describes such files better.
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None


def _fault(file: IO[bytes], column: dict[int, Any]) -> str | None:
    """Return what is wrong with the pages of a column."""
    n_values, size = column[_N_VALUES], column[_SIZE]
    begin = min(column[_DATA_PAGE], column.get(_DICTIONARY_PAGE) or column[_DATA_PAGE])
    if n_values < 0 or size < 0 or begin < 0:
        return "a column has a negative number of values or bytes"
    place, left = begin, n_values
    while place < begin + size and left > 0:
        file.seek(place)
        data = io.BytesIO(file.read(_HEADER))
        header = _struct(data)
        kind = next((kind for kind in _PAGE_KINDS if kind in header), None)
        count = 0 if kind is None else header[kind][_N_VALUES_OF_PAGE]
        if not 0 <= count <= n_values:
            return f"a page says that it has {count:,} of {n_values:,} values"
        if header[_PAGE_SIZE] < 0 or not 0 <= header[_PACKED_PAGE_SIZE] <= size:
            return "a page says that it is larger than its column"
        left -= 0 if kind == _DICTIONARY else count
        place += data.tell() + header[_PACKED_PAGE_SIZE]
    return None


def _struct(data: io.BytesIO) -> dict[int, Any]:
    """Return the fields of a struct in Thrift's compact protocol, by their numbers."""
    fields: dict[int, Any] = {}
    number = 0
    while head := data.read(1)[0]:
        number = number + (head >> 4) if head >> 4 else _signed(data)
        fields[number] = head & 15 == 1 if head & 15 in (1, 2) else _value(data, head & 15)
    return fields


def _value(data: io.BytesIO, kind: int) -> Any:
    if kind in (1, 2, 3):
        return data.read(1)[0]
    if kind in (4, 5, 6):
        return _signed(data)
    if kind in (7, 8):
        return data.read(8 if kind == 7 else _unsigned(data))
    if kind in (9, 10):
        head = data.read(1)[0]
        count = _unsigned(data) if head >> 4 == 15 else head >> 4
        return [_value(data, head & 15) for _ in range(count)]
    if kind == 12:
        return _struct(data)
    raise ValueError(f"no type of this protocol: {kind}")


def _unsigned(data: io.BytesIO) -> int:
    byte = data.read(1)[0]
    return byte if byte < 128 else byte - 128 + (_unsigned(data) << 7)


def _signed(data: io.BytesIO) -> int:
    value = _unsigned(data)
    return (value >> 1) ^ -(value & 1)
