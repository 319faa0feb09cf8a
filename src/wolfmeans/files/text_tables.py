"""CSV and its relatives, as text.

What separates fields, whether the first line is names, what is wrong with a file that cannot be
read, and a reader that needs nothing but the standard library.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import IO

import numpy as np
from numpy.typing import NDArray

MARKS = ("na", "n/a", "#n/a", "nan", "null", "none", "missing", "?", "-")
"""What people write where a value is missing, in lower case."""
_SEPARATORS = ",;\t|"
_HEAD = 1 << 16
_FIRST_ROWS = 50
DECIMAL_COMMA = re.compile(r"([+-]?[0-9]*),([0-9]+(?:[eE][+-]?[0-9]+)?)")
NUMBER = re.compile(r"[+-]?[0-9.,]*[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?")
"""With any points and commas in it."""


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out."""

    separator: str
    names: tuple[str, ...]
    """Of the columns: those of the first line, or 0, 1, ... where that has numbers already."""
    named: bool
    """Whether the first line has names."""
    skipped: int = 0
    """How many blank lines come before it."""
    line_end: str = "\n"
    """What ends lines, after a carriage return or not."""
    decimal_comma: bool = False
    """Whether 1,5 is a number."""


def layout_of(file: IO[bytes], name: str, separator: str | None = None) -> Layout:
    """Look at the beginning of a text file; refuse what is empty or not text."""
    head = file.read(_HEAD)
    _check_text(head, name)
    file.seek(0)
    skipped = _blank_lines(file)
    rows: dict[str, list[list[str]]] = {}
    fault: csv.Error | None = None
    for one in [separator] if separator else _SEPARATORS:
        file.seek(0)
        try:
            rows[one] = list(islice(_rows(file, one, skipped), _FIRST_ROWS))
        except csv.Error as error:
            fault = error
        except UnicodeDecodeError:
            raise ValueError(f"{name} is not text in UTF-8") from None
    if not rows:
        raise ValueError(f"{name}: {fault}; is a quote open?")
    with_commas = [one for one in rows if one != "," and _has_decimal_commas(rows[one])]
    separator = max(with_commas or rows, key=lambda one: len(rows[one][0]))
    fields = [field.strip() for field in rows[separator][0]]
    comma = separator in with_commas
    below = [row[0].strip() for row in rows[separator][1:]]
    named = _are_names([_point(field) for field in fields] if comma else fields, below)
    if not named and len(fields) == 1:
        skipped = 0  # blank lines are missing entries then
    names = fields if named else [str(j) for j in range(len(fields))]
    line_end = "\r" if b"\r" in head and b"\n" not in head else "\n"
    return Layout(separator, tuple(_distinct(names)), named, skipped, line_end, comma)


def _check_text(head: bytes, name: str) -> None:
    if b"\0" in head:
        raise ValueError(f"{name} is not text: it has bytes that no CSV file has")
    try:
        # The last character may have been cut.
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        text = decoder.decode(head, final=len(head) < _HEAD)
    except UnicodeDecodeError as error:
        line = head[: error.start].count(b"\n") + 1
        raise ValueError(f"{name} is not text in UTF-8: see line {line}") from None
    if not text.strip() and len(head) < _HEAD:
        raise ValueError(f"{name} is empty")


@contextmanager
def _text(file: IO[bytes]) -> Iterator[io.TextIOWrapper]:
    """Read a file as text, with the ends of lines as they are."""
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        yield text
    finally:
        text.detach()


def _blank_lines(file: IO[bytes]) -> int:
    with _text(file) as text:
        return sum(1 for _ in takewhile(lambda line: not line.strip(" \t\r\n"), text))


def _rows(file: IO[bytes], separator: str, skipped: int) -> Iterator[list[str]]:
    """Yield the fields of lines that are not blank."""
    with _text(file) as text:
        rows = csv.reader(islice(text, skipped, None), delimiter=separator)
        yield from (row for row in rows if row)


def _has_decimal_commas(rows: list[list[str]]) -> bool:
    """Whether all rows have as many fields, two or more, and commas are only in numbers."""
    fields = [field.strip() for row in rows[len(rows) > 1 :] for field in row if "," in field]
    return (
        len(rows[0]) > 1
        and len({len(row) for row in rows}) == 1
        and bool(fields)
        and all(DECIMAL_COMMA.fullmatch(field) for field in fields)
    )


def _point(field: str) -> str:
    return field.replace(",", ".") if DECIMAL_COMMA.fullmatch(field) else field


def _are_names(fields: list[str], below: list[str]) -> bool:
    """Whether a first line has names: numbers and what stands for missing ones are none.

    Except numbers after an empty corner, below which are the names or the numbers of rows.
    """
    if len(fields) > 1 and not fields[0] and len(set(fields)) == len(fields):
        counted = [list(map(str, range(first, first + len(below)))) for first in (0, 1)]
        columns = list(map(str, range(len(fields) - 1)))
        numbered = len(below) > 1 and below in counted
        if fields[1:] == columns or numbered or not any(map(_is_value, below)):
            return True
    return not all(map(_is_value, fields))


def _is_value(field: str) -> bool:
    return not field or _is_number_of_any_script(field) or field.lower() in MARKS


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
    """Whether a field is a number in digits from 0 to 9; not 1_000, and nothing missing."""
    return text.isascii() and _is_number_of_any_script(text)


def _is_number_of_any_script(text: str) -> bool:
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
                    f"but the first line has {len(layout.names)}"
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
    lines = _lines(file, layout)
    for _, row in islice(lines, layout.named, None):
        for column, field in zip(columns, row, strict=True):
            column.append(field)
    found = dict(zip(layout.names, columns, strict=True))
    if not layout.decimal_comma:
        return found
    for column_name, fields in found.items():
        texts = [field.strip() for field in fields]
        pointed = next((text for text in texts if "." in text and NUMBER.fullmatch(text)), None)
        if pointed is not None:
            raise ValueError(both_points(name, column_name, pointed))
        found[column_name] = [_point(text) for text in texts]
    return found


def both_points(name: str, column: str, text: str) -> str:
    """Return why a number with a point is refused where others have a comma."""
    return (
        f"{name}: column {column!r} has {text}, and other numbers have a decimal comma; "
        "write all in one way"
    )


def _lines(file: IO[bytes], layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines that are not blank, each with its number."""
    with _text(file) as text:
        reader = csv.reader(islice(text, layout.skipped, None), delimiter=layout.separator)
        for row in reader:
            if row:
                yield layout.skipped + reader.line_num, row
            elif len(layout.names) == 1:
                yield layout.skipped + reader.line_num, [""]  # a missing entry, no blank line


def as_numbers(fields: list[str]) -> NDArray[np.float64] | None:
    """Return fields as numbers, NaN where one is empty; None if one is a word."""
    texts = [field.strip() for field in fields]
    if not all(is_number(text) for text in texts if text):
        return None
    return np.array([float(text) if text else np.nan for text in texts], dtype=np.float64)
