"""The beginning of a command: what it needs is imported while its file is read.

In a process of its own a command leaves at once when it is interrupted here: there is nothing yet
to keep or to tidy up, and an exception in the middle of an import may end anywhere.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Generic, NoReturn, TypeVar

from wolfmeans.commands.streams import flushed, replace_closed

T = TypeVar("T")
_own_process = False


def take_over() -> None:
    """Make this process the command's own: it may be left at once, and needs little."""
    global _own_process
    if threading.current_thread() is not threading.main_thread():
        return  # whose signals these are is not ours to say
    _own_process = True
    replace_closed()
    _prepare()


def _prepare() -> None:
    signal.signal(signal.SIGINT, _leave)
    gc.disable()


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    with suppress(OSError):
        os.write(2, b"wolfmeans: interrupted\n")
    os._exit(130)


def owns_process() -> bool:
    """Whether the command is all that this process does."""
    return _own_process


def all_done() -> None:
    """From here on Ctrl-C is too late: everything has been written, and said."""
    if _own_process:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def finish(code: int) -> int:
    """Return the exit code; exit at once if a thread is still reading data that is not needed."""
    if not _own_process:
        return code
    all_done()
    code = flushed(code)
    if threading.active_count() > 1:
        os._exit(code)
    return code


def begin_work() -> None:
    """From here on Ctrl-C is an exception, and what was finished is kept."""
    if _own_process:
        # What imports have made lives until the process ends; nobody need look through it for
        # garbage, neither now nor then. It is a quarter of a second.
        gc.freeze()
        gc.enable()
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextmanager
def loading() -> Iterator[None]:
    """Import what a command needs, and wait for its data."""
    if not _own_process:
        yield
        return
    _prepare()
    yield
    begin_work()


class InTheMeantime(Generic[T]):
    """Something done in another thread; its result, or its error, when it is asked for."""

    def __init__(self, work: Callable[..., T], *arguments: object) -> None:
        self._work, self._arguments = work, arguments
        self._found: Sequence[T] = ()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._found = (self._work(*self._arguments),)
        except BaseException as error:
            self._error = error

    def result(self) -> T:
        """Wait, and return what was found, or raise what went wrong."""
        while self._thread.is_alive():
            # A wait without an end would not hear Ctrl-C everywhere.
            self._thread.join(0.2)
        if self._error is not None:
            raise self._error
        return self._found[0]
