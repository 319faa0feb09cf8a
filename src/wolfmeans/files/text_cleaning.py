"""Text that polars does not read as it is, turned into text that it does.

Other encodings become UTF-8; lines of comments are removed; fields between blanks are separated by
tabs; digits in groups (1,234,567) become plain numbers. Each of these is a guess, so each comes
with a remark. What a file needs is found from its first lines.
"""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import re
import zipfile
from pathlib import Path
from typing import Any

from wolfmeans.files.text_tables import MARKS, is_number

PACKED = {".bz2": "bzip2", ".xz": "xz", ".zip": "zip"}
"""Compressions that are unpacked in memory, by the last extension of a file name."""
_MAGIC = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"PK\x03\x04": "zip"}
_BYTE_ORDERS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_HEAD = 1 << 16
_FIRST_ROWS = 50
_SEPARATORS = (",", ";", "\t", "|")
_COMMENT = "#"
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
# What may stand between groups of three digits, the names of these signs, and the decimal sign.
_GROUPS = (
    (",", "comma", "."),
    ("'", "apostrophe", "."),
    ("’", "apostrophe", "."),
    (" ", "blank", "."),
    ("\u00a0", "blank", "."),
    ("\u202f", "blank", "."),
    (".", "point", ","),
)


# --- Compression ---------------------------------------------------------------------------------


def unpacked_content(content: Path | bytes, name: str) -> tuple[bytes, str] | None:
    """Unpack a file of bzip2, xz or zip; return its content and the name inside, or None.

    A file must also be named so; standard input has no name.
    """
    if isinstance(content, Path) and content.suffix.lower() not in PACKED:
        return None
    with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as file:
        head = file.read(8)
        packing = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
        if packing is None:
            return None
        file.seek(0)
        try:
            if packing == "zip":
                return _member(file, name)
            with (bz2.BZ2File if packing == "bzip2" else lzma.LZMAFile)(file) as text:
                return text.read(), name.removesuffix(Path(name).suffix)
        except (OSError, EOFError, lzma.LZMAError, zipfile.BadZipFile) as error:
            raise ValueError(f"{name} is damaged: {error}") from None


def _member(file: Any, name: str) -> tuple[bytes, str] | None:
    """Return the only file in an archive; None for arrays of NumPy, which are an archive, too."""
    with zipfile.ZipFile(file) as archive:
        members = [
            entry
            for entry in archive.infolist()
            if not entry.is_dir() and not entry.filename.startswith(("__MACOSX/", "."))
        ]
        names = [entry.filename for entry in members]
        if names and all(member.endswith(".npy") for member in names):
            return None
        if "[Content_Types].xml" in names:
            raise ValueError(f"{name} is a spreadsheet or a document; save it as CSV first")
        if len(members) != 1:
            some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            raise ValueError(
                f"{name} has {len(members)} files in it{f' ({some})' if names else ''}, and must "
                "have one; unpack it first"
            )
        if members[0].flag_bits & 1:
            raise ValueError(f"{name} is encrypted; unpack it first")
        return archive.read(members[0]), names[0]


# --- Encodings, comments and blanks --------------------------------------------------------------


def cleaned(content: Path | bytes, name: str, separator: str | None) -> tuple[Any, list[str]]:
    """Return text as polars reads it, and remarks; the content itself if nothing is to be done."""
    head = content[:_HEAD] if isinstance(content, bytes) else _start_of(content)
    remarks: list[str] = []
    encoding = _encoding_of(head)
    if encoding is not None:
        text = _decoded(content, encoding)
        if text is None:
            return content, []
        content, head = text, text[:_HEAD]
        if encoding != "utf-16":
            remarks.append(f"{name} is not UTF-8; it is read as Windows-1252.")
    lines = _first_lines(head)
    comments = [line for line in lines if line.startswith(_COMMENT)]
    if comments and len(comments) < len(lines):
        content, n_removed = _without_comments(content, lines, separator)
        if n_removed:
            remarks.append(f"{name}: lines that begin with # are left out ({n_removed:,}).")
        lines = _first_lines(content[:_HEAD])
    if separator is None and _is_between_blanks(lines):
        content = _with_tabs(content)
    return content, remarks


def _start_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


def _encoding_of(head: bytes) -> str | None:
    """Return the encoding of text that is not UTF-8; None if it is, or is no text."""
    for mark, name in _BYTE_ORDERS.items():
        if head.startswith(mark) and len(head) % 2 == 0:
            return name
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return None if _CONTROL.search(head) else "windows-1252"
    return None


def _decoded(content: Path | bytes, encoding: str) -> bytes | None:
    whole = content if isinstance(content, bytes) else content.read_bytes()
    try:
        return whole.decode(encoding).encode()
    except UnicodeDecodeError:
        return None


def _first_lines(head: bytes) -> list[str]:
    text = codecs.getincrementaldecoder("utf-8-sig")("replace").decode(head)
    lines = text.splitlines()
    if len(head) == _HEAD:
        lines = lines[:-1]  # may have been cut
    return [line.strip() for line in lines if line.strip()][:_FIRST_ROWS]


def _without_comments(
    content: Path | bytes, lines: list[str], separator: str | None
) -> tuple[bytes, int]:
    """Remove comments; the last one before the data has names if it has as many fields."""
    first = next(place for place, line in enumerate(lines) if not line.startswith(_COMMENT))
    names = lines[first - 1].lstrip(_COMMENT).strip() if first else ""
    if separator is None:
        separator = max(_SEPARATORS, key=lines[first].count)
        separator = separator if separator in lines[first] else None
    fields, named = ([f.strip() for f in line.split(separator)] for line in (lines[first], names))
    is_header = (
        bool(names)
        and len(named) == len(fields)
        and not any(map(_is_value, named))
        and (first == 1 or all(map(_is_value, fields)))
        and (len(fields) > 1 or all(map(_is_value, fields)))
    )
    whole = content if isinstance(content, bytes) else content.read_bytes()
    kept, n_removed = [], 0
    for line in whole.splitlines(keepends=True):
        if line.lstrip(b" \t\xef\xbb\xbf").startswith(_COMMENT.encode()):
            n_removed += 1
        else:
            kept.append(line)
    start = f"{names}\n".encode() if is_header else b""
    return start + b"".join(kept), n_removed - is_header


def _is_value(field: str) -> bool:
    return not field or is_number(field) or field.lower() in MARKS


def _is_between_blanks(lines: list[str]) -> bool:
    """Whether blanks separate the fields: equally many in all lines, and numbers below the first.

    No other separator may be there, except a comma inside of numbers.
    """
    rows = [line.split() for line in lines]
    if not rows or len(rows[0]) < 2 or len({len(row) for row in rows}) > 1:
        return False
    if any(sign in line for line in lines for sign in _SEPARATORS) or '"' in "".join(lines):
        return False
    below = rows[1:] or rows
    numbers = [sum(map(is_number, row)) for row in below]
    return min(numbers) > 0 and all(_is_value(row[-1]) for row in below)


def _with_tabs(content: Path | bytes) -> bytes:
    whole = content if isinstance(content, bytes) else content.read_bytes()
    lines = whole.removeprefix(codecs.BOM_UTF8).splitlines()
    return b"\n".join(b"\t".join(line.split()) for line in lines) + b"\n"


# --- Groups of digits ----------------------------------------------------------------------------


def without_groups(polars: Any, frame: Any, name: str, *, decimal_comma: bool) -> tuple[Any, Any]:
    """Return columns of texts such as 1,234,567 as numbers, and remarks about them."""
    remarks = []
    for column in frame.iter_columns():
        if column.dtype != polars.String or column.null_count() == len(column):
            continue
        texts = column.str.strip_chars()
        known = texts.filter(texts.is_not_null() & (texts != ""))
        for sign, what, decimal in _GROUPS:
            if decimal_comma != (decimal == ","):
                continue
            if _is_grouped(known, re.escape(sign), re.escape(decimal)):
                plain = texts.str.replace_all(sign, "", literal=True)
                plain = plain.str.replace(decimal, ".", literal=True)
                frame = frame.with_columns(plain.cast(polars.Float64, strict=False))
                example = known.filter(known.str.contains(sign, literal=True))[0]
                remarks.append(
                    f"{name}: in column {column.name!r} a {what} separates groups of three digits, "
                    f"as in {example}."
                )
                break
    return frame, tuple(remarks)


def _is_grouped(texts: Any, sign: str, decimal: str) -> bool:
    """Whether all texts are numbers and some of them have groups of three digits."""
    fraction = f"(?:{decimal}[0-9]+)?(?:[eE][+-]?[0-9]+)?"
    groups = f"^[+-]?[0-9]{{1,3}}(?:{sign}[0-9]{{3}})+{fraction}$"
    plain = f"^[+-]?[0-9]+{fraction}$"
    grouped = texts.str.contains(groups)
    return bool(grouped.any() and (grouped | texts.str.contains(plain)).all())
