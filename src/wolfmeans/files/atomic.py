"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def shown(name: str | os.PathLike[str]) -> str:
    r"""Return the name of a file as text that can be written; bytes that are no text as \\xff.

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
    """Open a file for writing that takes its name only when everything was written.

    A link keeps pointing where it points. A device or a pipe is written to as it is: putting a
    file in its place would take it away from everybody else.

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
        # Private while it is written; afterwards as open as any other new file.
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
