"""Progress of what takes long: one line with a bar, on a terminal or in the output of a cell.

Functions that know their work from end to end (`certify`, `scan`, pages, studies) open the line
with `progress_on_terminal`. A fit opens none: most fits are short. Its loops call `tick` when they
have run for `PATIENCE` seconds, and the first call opens the line, which the fit closes at its end.
A fit inside of a function with a line of its own is silent.

``WOLFMEANS_PROGRESS=0`` in the environment switches the line off.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from time import monotonic
from typing import Any

Progress = Callable[[float, str], Any]
"""Called with the completed fraction and a text."""
PATIENCE = 2.0
"""Seconds that pass before a line appears."""
_SECONDS_BETWEEN_UPDATES = 0.2
_CELLS = 24


class _Current(threading.local):
    """What runs in this thread: the line that is shown, and which part of it `tick` reports on."""

    def __init__(self) -> None:
        self.fits = 0
        """How many fits are running, one inside of the other."""
        self.taken = 0
        """How many functions with a line of their own are running."""
        self.line: _Line | None = None
        """The line of a fit."""
        self.low, self.high, self.prefix = 0.0, 1.0, ""


current = _Current()


# --- Functions that know their work ------------------------------------------------------------


@contextmanager
def progress_on_terminal(
    progress: Progress | None, after: float = 0.0
) -> Iterator[Progress | None]:
    """Give the caller's callback, or one that keeps a line up to date, or None.

    The line is on a terminal, or in the output of a notebook's cell. It appears with the first
    report after some seconds, and goes away at the end.
    """
    line = None if progress is not None or current.taken else _new_line(after)
    current.taken += 1
    try:
        yield progress if line is None else line.tell
    finally:
        current.taken -= 1
        if line is not None:
            line.close()


# --- Fits --------------------------------------------------------------------------------------


def tick(share: float, text: str) -> None:
    """Report from a loop of a fit that has run for `PATIENCE` seconds."""
    if current.taken or not current.fits:
        return
    if current.line is None:
        current.line = _new_line(0.0)
        if current.line is None:
            return
    share = current.low + share * (current.high - current.low)
    current.line.tell(share, f"{current.prefix}{text}")


def end_of_fit() -> None:
    """Remove the line of a fit, if no other fit is around it."""
    if current.line is not None and not current.fits:
        current.line.close()
        current.line = None


@contextmanager
def part_of_fit(low: float, high: float, prefix: str = "") -> Iterator[None]:
    """Let `tick` report on this part of the work, in fractions of the whole."""
    before = current.low, current.high, current.prefix
    current.low, current.high, current.prefix = low, high, prefix
    try:
        yield
    finally:
        current.low, current.high, current.prefix = before


@contextmanager
def silence(silent: bool = True) -> Iterator[None]:
    """Show no progress of fits inside."""
    current.taken += silent
    try:
        yield
    finally:
        current.taken -= silent


# --- Lines -------------------------------------------------------------------------------------


def _new_line(after: float) -> _Line | None:
    """Return a line where there is a place for one; it appears after some seconds."""
    if os.environ.get("WOLFMEANS_PROGRESS", "").lower() in ("0", "off", "no", "false"):
        return None
    # Workers would write over each other's lines.
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or multiprocessing.current_process().name != "MainProcess":
        return None
    if sys.stderr is not None and sys.stderr.isatty():
        return _TerminalLine(after)
    display = _display_of_notebook()
    return None if display is None else _NotebookLine(after, display)


class _Line:
    """Shows the first report at once, and then the latest one some times a second."""

    def __init__(self, after: float) -> None:
        self._next = monotonic() + after if after else 0.0
        self._is_shown = False

    def tell(self, share: float, text: str) -> None:
        now = monotonic()
        if now >= self._next:
            self._next = now + _SECONDS_BETWEEN_UPDATES
            self._is_shown = True
            self._show(min(1.0, max(0.0, share)), text)

    def close(self) -> None:
        if self._is_shown:
            self._remove()

    def _show(self, share: float, text: str) -> None:
        raise NotImplementedError

    def _remove(self) -> None:
        raise NotImplementedError


class _TerminalLine(_Line):
    """A line of a terminal, written over and over; at the end it is erased."""

    def _show(self, share: float, text: str) -> None:
        full = round(_CELLS * share)
        line = f"{share:4.0%} [{'#' * full}{'.' * (_CELLS - full)}] {text}"
        # A longer line would wrap, and the next one would not cover it.
        sys.stderr.write("\r\x1b[K" + line[: shutil.get_terminal_size().columns - 1])
        sys.stderr.flush()

    def _remove(self) -> None:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


class _NotebookLine(_Line):
    """An output of a cell that is updated; at the end it is empty."""

    def __init__(self, after: float, display: Callable[..., Any]) -> None:
        super().__init__(after)
        self._display, self._handle = display, None

    def _show(self, share: float, text: str) -> None:
        if self._handle is None:
            self._handle = self._display(_Bar(share, text), display_id=True)
        else:
            self._handle.update(_Bar(share, text))

    def _remove(self) -> None:
        if self._handle is not None:
            self._handle.update(_Nothing())


def _display_of_notebook() -> Callable[..., Any] | None:
    """Return IPython's function that shows an object in a cell; None outside of a kernel."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

    shown: Callable[..., Any] = display
    return shown


@dataclass(frozen=True)
class _Bar:
    """A completed fraction and a text, as notebooks show them."""

    share: float
    text: str

    def __repr__(self) -> str:
        return f"{self.share:.0%}  {self.text}"

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self.share:.3f}" max="1"></progress>'
        return f"<div>{bar} {self.share:.0%} &ensp;{escape(self.text)}</div>"


class _Nothing:
    """What replaces the line at the end."""

    def __repr__(self) -> str:
        return ""

    def _repr_html_(self) -> str:
        return ""
