"""Warnings at the line of the caller, and progress on a terminal or in a notebook."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from time import monotonic
from typing import Any

Progress = Callable[[float, str], Any]
"""Called with the completed fraction and a text."""
_SECONDS_BETWEEN_UPDATES = 0.2


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the first line outside this package and scikit-learn."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in ("wolfmeans", "sklearn"):
            break
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


@contextmanager
def progress_on_terminal(progress: Progress | None) -> Iterator[Progress | None]:
    """Give the caller's callback, or one that keeps a line up to date, or None.

    The line is on a terminal, or in the output of a notebook's cell. It goes away at the end.
    """
    if progress is not None:
        yield progress
    elif sys.stderr.isatty():
        with _line_of_terminal() as tell:
            yield tell
    elif (display := _display_of_notebook()) is not None:
        with _line_of_notebook(display) as tell:
            yield tell
    else:
        yield None


@contextmanager
def _line_of_terminal() -> Iterator[Progress]:
    def tell(share: float, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{share:4.0%}  {text}")
        sys.stderr.flush()

    try:
        yield tell
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()


@contextmanager
def _line_of_notebook(display: Callable[..., Any]) -> Iterator[Progress]:
    """Show the first report at once, and then the latest one some times a second."""
    handle, shown = None, 0.0

    def tell(share: float, text: str) -> None:
        nonlocal handle, shown
        now = monotonic()
        if handle is None:
            handle = display(_Line(share, text), display_id=True)
        elif now - shown >= _SECONDS_BETWEEN_UPDATES:
            handle.update(_Line(share, text))
        else:
            return
        shown = now

    try:
        yield tell
    finally:
        if handle is not None:
            handle.update(_Nothing())


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
class _Line:
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
