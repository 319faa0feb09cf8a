"""Shared by all commands: one-line errors, lists of numbers, tables and a progress bar."""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from wolfmeans.commands.loading import all_done, begin_work, owns_process
from wolfmeans.commands.streams import give_up, printing
from wolfmeans.commands.streams import say as say

P = ParamSpec("P")
R = TypeVar("R")
_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_OF_PATIENCE = 0.5


def errors_in_one_line(command: Callable[P, R]) -> Callable[P, R]:
    """Turn errors that a user can fix into one line and exit code 2."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        begin_work()
        try:
            return command(*args, **kwargs)
        except KeyboardInterrupt:
            say("wolfmeans: interrupted")
            raise typer.Exit(130) from None
        except BrokenPipeError:
            # The reader of the output is gone; there is nothing to print, nor to flush at the end.
            give_up(sys.stdout)
            raise typer.Exit(141) from None
        except (ValueError, TypeError, OSError, ImportError, MemoryError) as error:
            say(f"wolfmeans: {str(error) or type(error).__name__}")
            raise typer.Exit(2) from error
        except (typer.Exit, typer.Abort):
            raise
        except Exception as error:
            # An error of our own. A program that called this function sees the exception itself.
            if not owns_process():
                raise
            say(
                f"wolfmeans: internal error ({type(error).__name__}: {error}); "
                "please report it with the command and the output of wolfmeans info"
            )
            raise typer.Exit(2) from error
        finally:
            all_done()

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
            raise ValueError(f"{option} takes integers; got {part!r}") from None
        if numbers[-1] < 1:
            raise ValueError(f"{option} must be at least 1; got {numbers[-1]}")
    if not numbers:
        raise ValueError(f"{option} needs a number")
    return list(dict.fromkeys(numbers))


def whole_ranges(option: str, texts: Sequence[str]) -> list[range]:
    """Return the ranges of an option that takes numbers as well, both ends included.

    Examples
    --------
    >>> whole_ranges("-k", ["2:5,8", "10:20:5"])
    [range(2, 6), range(8, 9), range(10, 21, 5)]
    """
    found: list[range] = []
    for part in words(texts):
        texts_of_ends = part.split(":")
        ends = [whole_numbers(option, [end])[0] for end in texts_of_ends if end]
        if not len(texts_of_ends) == len(ends) <= 3 or ends[0] > ends[min(1, len(ends) - 1)]:
            raise ValueError(f"{option} takes numbers and ranges such as 2:10; got {part!r}")
        step = ends[2] if len(ends) == 3 else 1
        found.append(range(ends[0], ends[min(1, len(ends) - 1)] + 1, step))
    if not found:
        raise ValueError(f"{option} needs a number")
    return found


def shares(option: str, texts: Sequence[str]) -> list[float]:
    """Return the numbers of an option, each at least 0 and below 1."""
    numbers = []
    for part in words(texts):
        try:
            numbers.append(float(part))
        except ValueError:
            raise ValueError(f"{option} takes numbers; got {part!r}") from None
        if not 0 <= numbers[-1] < 1:
            raise ValueError(f"{option} must be at least 0 and below 1; got {part}")
    if not numbers:
        raise ValueError(f"{option} needs a number")
    return list(dict.fromkeys(numbers))


def words(texts: Sequence[str]) -> list[str]:
    """Return the words of an option that is repeated or has commas, each once."""
    parts = [part.strip() for text in texts for part in text.split(",")]
    return list(dict.fromkeys(part for part in parts if part))


def named(names: Sequence[str], text: str, panel: str | None = None, **more: Any) -> Any:
    """Return an option that takes one of some names; shells complete them."""
    return typer.Option(
        metavar="NAME",
        help=f"{text}: {', '.join(names)}.",
        autocompletion=lambda: list(names),
        rich_help_panel=panel,
        **more,
    )


def one_of(option: str, value: str, allowed: Sequence[str]) -> str:
    """Return the value if it is allowed; otherwise raise an error that lists the choices."""
    if value not in allowed:
        raise ValueError(f"{option} must be one of {', '.join(allowed)}; got {value!r}")
    return value


def live_console() -> Console | None:
    """Return the console for a live display; None if standard error is not a terminal.

    FORCE_COLOR affects only colours: a file never gets cursor movements.
    """
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return None
    return Console(stderr=True, highlight=False)


def print_json(content: Any) -> None:
    """Print something as JSON, and nothing else."""
    with printing():
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False))


def print_facts(verdict: str, rows: Iterable[Sequence[str]]) -> None:
    """Print a sentence and lines of name, value and meaning, in colour on a terminal."""
    with printing():
        _print_facts(verdict, rows)


def _print_facts(verdict: str, rows: Iterable[Sequence[str]]) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        _print_plainly(verdict, [tuple(row) for row in rows])
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(style="dim")
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(Text(verdict, style="bold"))
    console.print(table)


def _print_plainly(verdict: str, rows: Sequence[Sequence[str]]) -> None:
    """Print the same for a pipe: a fact in a line, however long, and no colours."""
    widths = [max(len(row[j]) for row in rows) for j in (0, 1)]
    typer.echo(verdict)
    for name, value, reading in rows:
        typer.echo(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {reading}".rstrip())


@contextmanager
def warnings_in_one_line(*, quiet: bool = False, known: str | None = None) -> Iterator[None]:
    """Print warnings as sentences, without their location in the program.

    If quiet, print none. Skip those that begin with `known`, which are reported elsewhere.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    if quiet:
        return
    for text in dict.fromkeys(" ".join(str(entry.message).split()) for entry in caught):
        if known is None or not text.startswith(known):
            say(f"wolfmeans: {text}")


@contextmanager
def remarking(remarks: Sequence[str]) -> Iterator[None]:
    """Print remarks about the data once the work on it is going well.

    That is after half a second, or at the end. If the work fails, only the error is printed.
    """

    def tell() -> None:
        while left:
            say(left.pop(0))

    left = list(remarks)
    later = threading.Timer(_SECONDS_OF_PATIENCE, tell)
    later.daemon = True
    later.start()
    try:
        yield
    except BaseException:
        left.clear()
        raise
    finally:
        later.cancel()
        later.join()
        tell()


@contextmanager
def meter(what: str) -> Iterator[Callable[[int, int, float | None], None]]:
    """Show progress: a bar with the time left on a terminal, occasional lines elsewhere."""
    console = live_console()
    if console is None:
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
            say(f"{what}: {done:,} of {total:,}{left}")

    return show


def clock(seconds: float) -> str:
    """Return a duration in readable form.

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
