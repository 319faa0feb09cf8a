"""What all commands share: errors in one line, lists of numbers, and a progress bar."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

P = ParamSpec("P")
R = TypeVar("R")
_SECONDS_BETWEEN_LINES = 10.0


def errors_in_one_line(command: Callable[P, R]) -> Callable[P, R]:
    """Turn what a user can do something about into one line and the exit code 2."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (ValueError, TypeError, OSError, ImportError) as error:
            text = " ".join(str(error).split()) or type(error).__name__
            typer.echo(f"wolfmeans: {text}", err=True)
            raise typer.Exit(2) from error

    return wrapped


def whole_numbers(option: str, texts: Sequence[str]) -> list[int]:
    """Return the numbers of an option that is repeated or has commas, each once.

    Examples
    --------
    >>> whole_numbers("--n", ["500,1000", "5_000", "500"])
    [500, 1000, 5000]
    """
    numbers = []
    for part in words(texts):
        try:
            numbers.append(int(part))
        except ValueError:
            raise ValueError(f"{option} takes whole numbers; got {part!r}") from None
        if numbers[-1] < 1:
            raise ValueError(f"{option} must be at least 1; got {numbers[-1]}")
    if not numbers:
        raise ValueError(f"{option} needs a number")
    return list(dict.fromkeys(numbers))


def words(texts: Sequence[str]) -> list[str]:
    """Return the words of an option that is repeated or has commas, each once."""
    parts = [part.strip() for text in texts for part in text.split(",")]
    return list(dict.fromkeys(part for part in parts if part))


def one_of(option: str, value: str, allowed: Sequence[str]) -> str:
    """Return the value if it is allowed, or say what is."""
    if value not in allowed:
        raise ValueError(f"{option} must be one of {', '.join(allowed)}; got {value!r}")
    return value


@contextmanager
def meter(what: str) -> Iterator[Callable[[int, int, float | None], None]]:
    """Show progress: a bar with the time left on a terminal, now and then a line elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines(what)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns, TextColumn("{task.fields[left]}"), console=console, transient=True
    ) as bar:
        task = bar.add_task(what, left="")

        def show(done: int, total: int, seconds: float | None) -> None:
            left = "" if seconds is None else f"{clock(seconds)} left"
            bar.update(task, completed=done, total=total, left=left)

        yield show


def _lines(what: str) -> Callable[[int, int, float | None], None]:
    last = monotonic()

    def show(done: int, total: int, seconds: float | None) -> None:
        nonlocal last
        if monotonic() - last >= _SECONDS_BETWEEN_LINES:
            last = monotonic()
            left = "" if seconds is None else f", {clock(seconds)} left"
            print(f"{what}: {done:,} of {total:,}{left}", file=sys.stderr, flush=True)

    return show


def clock(seconds: float) -> str:
    """Return a time as people say it.

    Examples
    --------
    >>> clock(7.4), clock(200), clock(4000)
    ('8 s', '3 min 20 s', '1 h 07 min')
    """
    whole = int(-(-seconds // 1))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    minutes = -(-whole // 60)
    return f"{minutes // 60} h {minutes % 60:02} min"
