"""CSV and its relatives, as text.

What separates fields, whether the first line is names, what is wrong with a file that cannot be
read, and a reader that needs nothing but the standard library.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray

_SEPARATORS = ",;\t|"
_HEAD = 1 << 16


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out."""

    separator: str
    names: tuple[str, ...]
    """Of the columns: those of the first line, or 0, 1, ... where that has numbers already."""
    named: bool
    """Whether the first line has names."""


def layout_of(file: IO[bytes], name: str, separator: str | None = None) -> Layout:
    """Look at the beginning of a text file; refuse what is empty or not text."""
    head = file.read(_HEAD)
    if not head.strip():
        raise ValueError(f"{name} is empty")
    if b"\0" in head:
        raise ValueError(f"{name} is not text: it has bytes that no CSV file has")
    try:
        # The last character may have been cut.
        text = head.decode("utf-8-sig", errors="strict" if len(head) < _HEAD else "ignore")
    except UnicodeDecodeError as error:
        line = head[: error.start].count(b"\n") + 1
        raise ValueError(f"{name} is not text in UTF-8: see line {line}") from None
    first = text.splitlines()[0]
    separator = separator or max(_SEPARATORS, key=first.count)
    fields = next(csv.reader([first], delimiter=separator), [])
    named = not all(is_number(field) for field in fields)
    names = [field.strip() for field in fields] if named else [str(j) for j in range(len(fields))]
    return Layout(separator, tuple(_distinct(names)), named)


def _distinct(names: list[str]) -> Iterator[str]:
    """Give each column a name of its own: an empty one its number, a repeated one a suffix."""
    seen: set[str] = set()
    for place, name in enumerate(names):
        own, copy = name or str(place), 1
        while own in seen:
            copy += 1
            own = f"{name or place}_{copy}"
        seen.add(own)
        yield own


def is_number(text: str) -> bool:
    """Whether a field is a number as Python reads it; not 1_000, and nothing that is missing."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def fault_of(file: IO[bytes], name: str, layout: Layout) -> str | None:
    """Return what is wrong with the first bad line; None if all have as many fields."""
    try:
        for line, row in _lines(file, layout):
            if len(row) != len(layout.names):
                return (
                    f"{name}: line {line} has {len(row)} fields, "
                    f"and the first one {len(layout.names)}"
                )
    except UnicodeDecodeError:
        return f"{name} is not text in UTF-8"
    except csv.Error as error:
        return f"{name}: {error}"
    return None


def read_plainly(file: IO[bytes], name: str, layout: Layout) -> dict[str, list[str]]:
    """Return the columns of a text file, as texts."""
    columns: list[list[str]] = [[] for _ in layout.names]
    if (fault := fault_of(file, name, layout)) is not None:
        raise ValueError(fault)
    file.seek(0)
    for line, row in _lines(file, layout):
        if layout.named and line == 1:
            continue
        for column, field in zip(columns, row, strict=True):
            column.append(field)
    return dict(zip(layout.names, columns, strict=True))


def _lines(file: IO[bytes], layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines that are not blank, each with its number."""
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        reader = csv.reader(text, delimiter=layout.separator)
        for row in reader:
            if row:
                yield reader.line_num, row
            elif len(layout.names) == 1:
                yield reader.line_num, [""]  # a missing entry, and no blank line
    finally:
        text.detach()


def as_numbers(fields: list[str]) -> NDArray[np.float64] | None:
    """Return fields as numbers, NaN where one is empty; None if one is a word."""
    try:
        return np.array([float(f) if f.strip() else np.nan for f in fields], dtype=np.float64)
    except ValueError:
        return None
