"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray


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
        raise FileNotFoundError(f"there is no folder {target.parent} to write {target.name} into")
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


def write_npy_pieces(file: IO[bytes], pieces: Iterable[NDArray[np.int32]]) -> int:
    """Write labels in the format of NPY files as they come; return how many."""
    count = 0
    _write_header(file, 0)
    for piece in pieces:
        file.write(np.ascontiguousarray(piece, dtype="<i4").data.cast("B"))
        count += len(piece)
    # NumPy leaves room in a header for the number to grow.
    file.seek(0)
    _write_header(file, count)
    file.seek(0, os.SEEK_END)
    return count


def _write_header(file: IO[bytes], count: int) -> None:
    described = {"shape": (count,), "fortran_order": False, "descr": "<i4"}
    np.lib.format.write_array_header_1_0(file, described)
