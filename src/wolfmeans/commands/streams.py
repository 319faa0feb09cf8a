"""Standard output and error, which may be closed, full, or gone while a command runs."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from wolfmeans.files.atomic import shown


class _Nowhere(io.RawIOBase):
    """What is written to fails, as standard output does when it is closed."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raise OSError(errno.EBADF, "it is closed")


def replace_closed() -> None:
    """Put something in the place of streams that are closed.

    A file opened next would get their numbers, and what is meant for a person would go there.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_Nowhere(), encoding="utf-8", write_through=True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def say(text: str) -> None:
    """Print a line to standard error, if it is open."""
    try:
        print(" ".join(shown(text).split()), file=sys.stderr, flush=True)
    except OSError:
        give_up(sys.stderr)


def give_up(stream: Any) -> None:
    """Send what is left for a stream nowhere, so that nothing fails at the very end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextmanager
def printing() -> Iterator[None]:
    """Say why standard output could not be written."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        message = f"standard output cannot be written: {error.strerror or error}"
        raise OSError(message) from error


def flushed(code: int) -> int:
    """Write what is left, and return the exit code: another one if that fails."""
    try:
        with printing():
            sys.stdout.flush()
    except BrokenPipeError:
        give_up(sys.stdout)
        code = 141
    except OSError as error:
        give_up(sys.stdout)
        say(f"wolfmeans: {error}")
        code = 2
    try:
        sys.stderr.flush()
    except OSError:
        give_up(sys.stderr)
    return code
