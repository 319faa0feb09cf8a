"""Compressed text: what it is packed with, and its beginning.

Polars unpacks while it reads. Here is what has to be known before: the first lines, and, where
polars cannot say what is wrong, the text itself.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any

PACKINGS = {".gz": "gzip", ".zst": "zstd"}
"""By the last ending of a file's name."""
_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_FIRST_ROWS = 50
_NO_SEPARATOR = "\x1f"


def packing_of(head: bytes) -> str | None:
    """Return what a file is packed with by its first bytes; None if it is not.

    Examples
    --------
    >>> import gzip
    >>> packing_of(gzip.compress(b"x,y")), packing_of(b"x,y")
    ('gzip', None)
    """
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def ending_of(packing: str) -> str:
    """Return the ending that says so."""
    return next(ending for ending, name in PACKINGS.items() if name == packing)


@contextmanager
def unpacked(file: IO[bytes], packing: str | None, name: str) -> Iterator[IO[bytes] | None]:
    """Open the text in a file; None where nothing here can unpack it."""
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
    """Return what unpacks zstd: Python itself does since 3.14."""
    try:
        return import_module("compression.zstd").ZstdFile
    except ImportError:
        return None


def first_lines(polars: Any, content: Path | bytes) -> bytes:
    """Return the beginning of packed text as polars sees it, lines unchanged."""
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
