"""Reading ahead: another thread produces items while this one works on earlier ones.

At most `ahead` items are in production or waiting. An error in the thread is raised to the caller.
Closing the generator early stops the thread.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Generator, Iterator
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")
Produce = Callable[[threading.Event], Iterator[T]]
"""Makes the iterator that the thread runs; it should end soon after the event is set."""
_PATIENCE = 5.0
"""Seconds to wait for a thread to end; one that hangs in code of the user is abandoned."""
_LISTEN = 0.2
"""Seconds between two tests: an endless wait would block Ctrl-C on some systems."""


def reading_ahead(produce: Produce[T], ahead: int) -> Generator[T, None, None]:
    """Yield the items of an iterator that runs in a thread; without a thread if `ahead` is 0.

    Examples
    --------
    >>> list(reading_ahead(lambda stop: iter("abc"), 1))
    ['a', 'b', 'c']
    """
    if ahead == 0:
        yield from produce(threading.Event())
        return
    producer = _Producer(produce, ahead)
    _running.add(producer)
    try:
        producer.start()
        while (found := producer.take()) is not None:
            yield found[0]
            del found
    finally:
        producer.end()
        _running.discard(producer)


class _Producer(Generic[T]):
    def __init__(self, produce: Produce[T], ahead: int) -> None:
        self._produce = produce
        self._stop = threading.Event()
        self._room = threading.Semaphore(ahead)
        self._done: SimpleQueue[tuple[T] | BaseException | None] = SimpleQueue()
        self._thread = threading.Thread(
            target=self._run, name="wolfmeans reading ahead", daemon=True
        )
        self._asked, self._ended = False, threading.Event()

    def start(self) -> None:
        """Start the thread. Ctrl-C may interrupt this at any point; `end` works then, too."""
        self._asked = True
        self._thread.start()

    def _run(self) -> None:
        try:
            self._produce_all()
        finally:
            self._ended.set()

    def _produce_all(self) -> None:
        try:
            iterator = self._produce(self._stop)
            try:
                while True:
                    self._room.acquire()
                    if self._stop.is_set():
                        return
                    self._done.put((next(iterator),))
            except StopIteration:
                self._done.put(None)
            finally:
                close = getattr(iterator, "close", None)
                if close is not None:
                    close()
        except BaseException as error:
            self._done.put(error)

    def take(self) -> tuple[T] | None:
        """Wait for the next item; None at the end."""
        while True:
            try:
                found = self._done.get(timeout=_LISTEN)
            except Empty:
                continue
            if isinstance(found, BaseException):
                raise found
            self._room.release()
            return found

    def end(self) -> None:
        """Stop the thread and wait until it has ended."""
        self._stop.set()
        self._room.release()
        if not self._asked or self._thread is threading.current_thread():
            return
        # A thread that is still starting cannot be joined.
        if self._ended.wait(_PATIENCE):
            self._thread.join(_PATIENCE)


_running: WeakSet[_Producer[Any]] = WeakSet()


@atexit.register
def _end_all() -> None:
    """End the threads of unfinished passes before the interpreter shuts down."""
    for producer in list(_running):
        producer.end()
