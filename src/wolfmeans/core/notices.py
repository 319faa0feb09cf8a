"""Warnings at the line of the caller, and progress on a terminal."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


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
def progress_on_terminal(
    progress: Callable[[float, str], Any] | None,
) -> Iterator[Callable[[float, str], Any] | None]:
    """Give the caller's callback, or one that keeps a line of a terminal up to date, or None."""
    if progress is not None or not sys.stderr.isatty():
        yield progress
        return

    def tell(share: float, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{share:4.0%}  {text}")
        sys.stderr.flush()

    try:
        yield tell
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
