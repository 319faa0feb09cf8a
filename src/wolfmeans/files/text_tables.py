"""CSV and its relatives before polars reads them: compression, layout, and faults.

The layout of a text file is what separates fields, whether the first line has names, and whether
numbers have a decimal comma. It is found from the first rows.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from itertools import islice, takewhile
from pathlib import Path
from typing import IO, Any

PACKINGS = {".gz": "gzip", ".zst": "zstd"}
"""By the last extension of a file name."""
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
MARKS = ("na", "n/a", "#n/a", "nan", "null", "none", "missing", "?", "-")
"""Marks for missing values, in lower case."""
_SEPARATORS = ",;\t|"
_HEAD = 1 << 16
_FIRST_ROWS = 50
_NO_SEPARATOR = "\x1f"
DECIMAL_COMMA = re.compile(r"([+-]?[0-9]*),([0-9]+(?:[eE][+-]?[0-9]+)?)")
GROUPED_POINTS = re.compile(r"[+-]?[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+")
"""A number such as 1.234,5."""
_GROUPED_COMMAS = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]+)?")
NUMBER = re.compile(r"[+-]?[0-9.,]*[0-9][0-9.,]*(?:[eE][+-]?[0-9]+)?")
"""A number with any points and commas in it."""


# --- Layout ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """How a text file is laid out."""

    separator: str
    names: tuple[str, ...]
    """Of the columns: those of the first line, or 0, 1, ... if it has values already."""
    named: bool
    """Whether the first line has names."""
    skipped: int = 0
    """How many blank lines come first."""
    line_end: str = "\n"
    """What ends a line; a carriage return may come before it."""
    decimal_comma: bool = False
    """Whether 1,5 is a number."""


def layout_of(file: IO[bytes], name: str, separator: str | None = None) -> Layout:
    """Return the layout of a text file from its first rows; reject what is empty or not text."""
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
    grouped = [one for one in rows if one != "," and _has_grouped_commas(rows[one])]
    separator = max(with_commas or grouped or rows, key=lambda one: len(rows[one][0]))
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
    """Read a file as text, with its line ends unchanged."""
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
    """Whether all rows have equally many fields, two or more, with commas only in numbers."""
    fields = [field.strip() for row in rows[len(rows) > 1 :] for field in row if "," in field]
    return (
        len(rows[0]) > 1
        and len({len(row) for row in rows}) == 1
        and bool(fields)
        and all(DECIMAL_COMMA.fullmatch(f) or GROUPED_POINTS.fullmatch(f) for f in fields)
    )


def _has_grouped_commas(rows: list[list[str]]) -> bool:
    """Whether all rows have equally many fields, with commas only as in 1,234,567 or 1,234.5."""
    fields = [field.strip() for row in rows[len(rows) > 1 :] for field in row if "," in field]
    return (
        len(rows[0]) > 1
        and len({len(row) for row in rows}) == 1
        and bool(fields)
        and all(_GROUPED_COMMAS.fullmatch(field) for field in fields)
    )


def _point(field: str) -> str:
    return field.replace(",", ".") if DECIMAL_COMMA.fullmatch(field) else field


def _are_names(fields: list[str], below: list[str]) -> bool:
    """Whether the first line has names: not all fields are numbers or marks for missing values.

    After an empty first field, numbers are names if the column below has names or numbers of rows.
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
    """Make names distinct: an empty one becomes its number, a repeated one gets a suffix."""
    seen: set[str] = set()
    for place, name in enumerate(names):
        own, copy = name or str(place), 1
        while own in seen:
            copy += 1
            own = f"{name or place}_{copy}"
        seen.add(own)
        yield own


def is_number(text: str) -> bool:
    """Whether a field is a number in digits from 0 to 9, without underscores."""
    return text.isascii() and _is_number_of_any_script(text)


def _is_number_of_any_script(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def fault_of(file: IO[bytes], name: str, layout: Layout) -> str | None:
    """Return what is wrong with the first bad line; None if all have equally many fields."""
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


def _lines(file: IO[bytes], layout: Layout) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines that are not blank, each with its number."""
    with _text(file) as text:
        reader = csv.reader(islice(text, layout.skipped, None), delimiter=layout.separator)
        for row in reader:
            if row:
                yield layout.skipped + reader.line_num, row
            elif len(layout.names) == 1:
                yield layout.skipped + reader.line_num, [""]  # a missing entry, no blank line


# --- Compression -------------------------------------------------------------------------------


def packing_of(head: bytes) -> str | None:
    """Return the compression of a file from its first bytes; None if there is none.

    Examples
    --------
    >>> import gzip
    >>> packing_of(gzip.compress(b"x,y")), packing_of(b"x,y")
    ('gzip', None)
    """
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def ending_of(packing: str) -> str:
    """Return the file extension of a compression."""
    return next(ending for ending, name in PACKINGS.items() if name == packing)


@contextmanager
def unpacked(file: IO[bytes], packing: str | None, name: str) -> Iterator[IO[bytes] | None]:
    """Open the text in a file; None if Python cannot unpack it."""
    if packing is None:
        yield file
        return
    opener: Any = gzip.open if packing == "gzip" else _zstd()
    if opener is None:
        yield None
        return
    try:
        with opener(file) as text:
            yield text
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{name} is damaged: {error}") from None


def _zstd() -> Any:
    """Return the zstd reader that Python has since 3.14, or None."""
    try:
        return import_module("compression.zstd").ZstdFile
    except ImportError:
        return None


def first_lines(polars: Any, content: Path | bytes) -> bytes:
    """Return the first lines of packed text, unpacked by polars."""
    frame = polars.read_csv(
        io.BytesIO(content) if isinstance(content, bytes) else content,
        has_header=False,
        separator=_NO_SEPARATOR,
        quote_char=None,
        infer_schema=False,
        n_rows=_FIRST_ROWS,
        truncate_ragged_lines=True,
    )
    lines = frame.to_series().fill_null("") if frame.width else []
    return "\n".join(lines).encode()
