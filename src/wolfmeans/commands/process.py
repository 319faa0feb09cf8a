"""The process of a command: Ctrl-C, imports, reading in a second thread, and standard streams.

Nothing here imports typer or rich. In a process of its own, a command exits at once when it is
interrupted during its imports: there is nothing to keep yet, and an exception in the middle of an
import may end anywhere.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn, TypeVar

from wolfmeans.files.atomic import shown

T = TypeVar("T")
_own_process = False


# --- Ctrl-C and imports ----------------------------------------------------------------------


def take_over() -> None:
    """Mark this process as the command's own, which sets its signal handlers and exits at once."""
    global _own_process
    if threading.current_thread() is not threading.main_thread():
        return  # signal handlers belong to the main thread
    _own_process = True
    _replace_closed_streams()
    _begin_imports()


def owns_process() -> bool:
    """Whether this process runs nothing but the command."""
    return _own_process


def _begin_imports() -> None:
    signal.signal(signal.SIGINT, _exit_interrupted)
    gc.disable()


def _exit_interrupted(number: int, frame: FrameType | None) -> NoReturn:
    with suppress(OSError):
        os.write(2, b"wolfmeans: interrupted\n")
    os._exit(130)


def begin_work() -> None:
    """Make Ctrl-C an exception from here on, so that finished work is kept."""
    if _own_process:
        # Imported objects live until the process ends. Searching them for garbage, now and at
        # exit, would take a quarter of a second.
        gc.freeze()
        gc.enable()
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def loading() -> Iterator[None]:
    """Import the modules that a command needs, and wait for its data."""
    if not _own_process:
        yield
        return
    _begin_imports()
    yield
    begin_work()


def ignore_interrupts() -> None:
    """Ignore Ctrl-C from here on: everything has been written and printed."""
    if _own_process:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def finish(code: int) -> int:
    """Return the exit code; exit at once if a thread still reads data that is not needed."""
    if not _own_process:
        return code
    ignore_interrupts()
    code = _flush(code)
    if threading.active_count() > 1:
        os._exit(code)
    return code


def in_background(work: Callable[..., T], *arguments: object) -> Callable[[], T]:
    """Start a call in another thread; return a function that waits for its result or error."""
    from concurrent.futures import Future, ThreadPoolExecutor, wait

    pool = ThreadPoolExecutor(1)
    future: Future[T] = pool.submit(work, *arguments)
    pool.shutdown(wait=False)

    def result() -> T:
        # A wait without a timeout cannot be interrupted by Ctrl-C on every system.
        while not wait([future], 0.2).done:
            pass
        return future.result()

    return result


# --- Standard streams, which may be closed, full, or gone while a command runs ---------------


class _Closed(io.RawIOBase):
    """A stream whose writes fail, like those of a closed standard output."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        raise OSError(errno.EBADF, "it is closed")


def _replace_closed_streams() -> None:
    """Open closed standard streams, because the next file to be opened would get their numbers."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(_Closed(), encoding="utf-8", write_through=True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115


def say(text: str) -> None:
    """Print a line to standard error, if it is open."""
    try:
        print(" ".join(shown(text).split()), file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)


def discard(stream: Any) -> None:
    """Discard the rest of a stream's output, so that the flush at exit does not fail."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextmanager
def printing() -> Iterator[None]:
    """Name standard output in the error if it cannot be written."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        message = f"standard output cannot be written: {error.strerror or error}"
        raise OSError(message) from error


def _flush(code: int) -> int:
    """Flush the streams and return the exit code, which is another one if that fails."""
    try:
        with printing():
            sys.stdout.flush()
    except BrokenPipeError:
        discard(sys.stdout)
        code = 141
    except OSError as error:
        discard(sys.stdout)
        say(f"wolfmeans: {error}")
        code = 2
    try:
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)
    return code
