"""What commands print: errors, facts, remarks, progress, and the live display of a fit."""

from __future__ import annotations

import functools
import json
import math
import os
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from wolfmeans.commands.process import (
    begin_work,
    discard,
    ignore_interrupts,
    owns_process,
    printing,
    say,
)

if TYPE_CHECKING:
    from wolfmeans.core.solution import Record
    from wolfmeans.estimators.base import CenterEstimator

P = ParamSpec("P")
R = TypeVar("R")
# From this many multiplications a step, a Python call between two steps costs almost nothing.
LONG_STEP = 5_000_000
_SECONDS_BETWEEN_LINES = 10.0
_SECONDS_BEFORE_REMARKS = 0.5
_SECONDS_BEFORE_DISPLAY = 1.0
_RECENT_STEPS = 12


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
            discard(sys.stdout)
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
            ignore_interrupts()

    return wrapped


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


def print_facts(verdict: str, rows: Sequence[Sequence[str]]) -> None:
    """Print a sentence and lines of name, value and meaning.

    In colour on a terminal; elsewhere each fact is one line, however long.
    """
    console = Console(highlight=False)
    with printing():
        if not console.is_terminal:
            widths = [max(len(row[j]) for row in rows) for j in (0, 1)]
            typer.echo(verdict)
            for name, value, meaning in rows:
                typer.echo(f"{name:<{widths[0]}}  {value:<{widths[1]}}  {meaning}".rstrip())
            return
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(style="dim")
        for row in rows:
            table.add_row(*map(escape, row))
        console.print(Text(verdict, style="bold"))
        console.print(table)


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
    unsaid = list(remarks)

    def say_all() -> None:
        while unsaid:
            say(unsaid.pop(0))

    timer = _timer(_SECONDS_BEFORE_REMARKS, say_all)
    timer.start()
    try:
        yield
    except BaseException:
        unsaid.clear()
        raise
    finally:
        timer.cancel()
        timer.join()
        say_all()


def _timer(seconds: float, call: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    return timer


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


# --- The live display of a fit ----------------------------------------------------------------


class Watch:
    """Follows the records of a fit, start by start."""

    def __init__(self, stop: str, tol: float, n_starts: int) -> None:
        self._stop, self._tol, self._n_starts = stop, tol, n_starts
        self._recent: deque[Record] = deque(maxlen=_RECENT_STEPS)
        self._first_value = math.nan
        self.start = 0
        self.interrupted = False

    def see(self, record: Record) -> bool:
        """Record a step; return whether the run should end."""
        if record.t == 0:
            self.start += 1
            self._recent.clear()
            self._first_value = record.value
        self._recent.append(record)
        return self.interrupted

    @property
    def tolerance(self) -> float | None:
        """The threshold of the watched number; None for other stopping rules."""
        known = self._stop in ("decrease", "gap")
        return self._tol * self._first_value if known else None

    def watched(self, record: Record) -> float:
        """The number that the stopping rule tests."""
        return record.gap if self._stop == "gap" else record.decrease

    def seconds_left(self) -> float | None:
        """Estimate the time left for this start from the recent fall of the watched number.

        Near a fixed point it falls roughly geometrically, but irregularly.
        """
        goal = self.tolerance
        records = [r for r in self._recent if self.watched(r) > 0]
        if goal is None or goal <= 0 or len(records) < 4:
            return None
        from statistics import linear_regression

        steps = [float(r.t) for r in records]
        slope, intercept = linear_regression(steps, [math.log(self.watched(r)) for r in records])
        if slope >= -1e-6:
            return None
        steps_left = max(0.0, (math.log(goal) - intercept) / slope - steps[-1])
        seconds_per_step = (records[-1].seconds - records[0].seconds) / (steps[-1] - steps[0])
        return steps_left * seconds_per_step

    def table(self) -> Table:
        """Return the table to show."""
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold")
        table.add_column(justify="right")
        table.add_column(style="dim")
        if not self._recent:
            table.add_row("reading data and seeding", "", "")
            return table
        record = self._recent[-1]
        starts = f"start {self.start}" + (f" of {self._n_starts}" if self._n_starts > 1 else "")
        goal = self.tolerance
        left = self.seconds_left()
        rule = "" if goal is None else f"(stops when the {self._stop} reaches {goal:.3g})"
        table.add_row("iteration", f"{record.t + 1:,}", f"of {starts} {rule}".rstrip())
        table.add_row("inertia", f"{record.value:.6g}", "sum of squared distances")
        table.add_row("gap", f"{record.gap:.3g}", "gain from reassigning points")
        table.add_row("decrease", f"{record.decrease:.3g}", "gain from a full step")
        table.add_row("moved", f"{record.moved:,}", "points that change cluster")
        if left is not None:
            table.add_row("time left", f"≈ {clock(left)}", "estimated from the last steps")
        table.add_row("", "", "Ctrl-C stops and keeps the result; press twice to discard it")
        return table


@contextmanager
def watching(
    estimator: CenterEstimator, *, wanted: bool, shown: bool
) -> Iterator[tuple[Watch, Callable[[Record], Any] | None]]:
    """Let Ctrl-C end a fit with its current result, and show the fit on a terminal.

    The callback is None if that is not wanted because the fit is short.
    """
    rule = estimator._criterion()
    watch = Watch(rule.stop, rule.tol, estimator._continued_starts())
    if not wanted:
        yield watch, None
        return
    console = live_console() if shown else None
    live = Live(console=console, get_renderable=watch.table, transient=True, refresh_per_second=8)
    # The display starts by the clock, not with a step: reading and seeding may take long, too.
    timer = _timer(_SECONDS_BEFORE_DISPLAY, live.start)
    if console is not None:
        timer.start()

    before = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: FrameType | None) -> None:
        # The first Ctrl-C ends the fit after the current step, the second one at once.
        if watch.interrupted or not watch.start:
            raise KeyboardInterrupt
        watch.interrupted = True

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield watch, watch.see
    finally:
        signal.signal(signal.SIGINT, before)
        if console is not None:
            timer.cancel()
            timer.join()
        if live.is_started:
            live.stop()
