"""Atomic writing: a file appears whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def shown(name: str | os.PathLike[str]) -> str:
    r"""Return a file name as text that can be printed; bytes that are not text become \\xff.

    Examples
    --------
    >>> shown("plain.csv"), shown("bad\udcff.csv")
    ('plain.csv', 'bad\\xff.csv')
    """
    text = os.fspath(name)
    for errors in ("strict", "surrogateescape"):
        try:
            return text.encode(errors=errors).decode(errors="backslashreplace")
        except UnicodeEncodeError:
            continue
    return text.encode(errors="backslashreplace").decode()


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for writing; it gets its name only after everything was written.

    The target of a link is replaced, not the link. A device or a pipe is written to directly:
    replacing it by a file would remove it for other programs.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_whole(pathlib.Path(folder) / "note.txt") as file:
    ...         _ = file.write(b"all of it")
    ...     (pathlib.Path(folder) / "note.txt").read_text()
    'all of it'
    """
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder")
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(target))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"no such folder: {target.parent} (to write {target.name})")
    descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
        # Private while it is written; then the usual permissions of a new file.
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
