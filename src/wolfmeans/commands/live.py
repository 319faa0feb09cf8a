"""The live display of a long fit on a terminal: its progress and the estimated time left."""

from __future__ import annotations

import math
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from rich.live import Live
from rich.table import Table

from wolfmeans.commands.terminal import clock, live_console

if TYPE_CHECKING:
    from wolfmeans.core.solution import Record
    from wolfmeans.estimators.base import CenterEstimator

# From this many multiplications a step, a Python call between two steps costs almost nothing.
LONG_STEP = 5_000_000
_SECONDS_BEFORE = 1.0
_REMEMBERED = 12


class Watch:
    """Follows the records of a fit, start by start."""

    def __init__(self, stop: str, tol: float, n_starts: int) -> None:
        self._stop, self._tol, self._n_starts = stop, tol, n_starts
        self._recent: deque[Record] = deque(maxlen=_REMEMBERED)
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
        steps = [float(r.t) for r in records]
        logs = [math.log(self.watched(r)) for r in records]
        middle, level = sum(steps) / len(steps), sum(logs) / len(logs)
        spread = sum((t - middle) ** 2 for t in steps)
        slope = sum((t - middle) * (y - level) for t, y in zip(steps, logs, strict=True)) / spread
        if slope >= -1e-6:
            return None
        n_steps = max(0.0, (math.log(goal) - (level + slope * (steps[-1] - middle))) / slope)
        pace = (records[-1].seconds - records[0].seconds) / (steps[-1] - steps[0])
        return n_steps * pace

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
        until = "" if goal is None else f"(stops when the {self._stop} reaches {goal:.3g})"
        table.add_row("iteration", f"{record.t + 1:,}", f"of {starts} {until}".rstrip())
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

    The callback is None if that is not wanted, because the fit is short.
    """
    rule = estimator._criterion()
    watch = Watch(rule.stop, rule.tol, estimator._continued_starts())
    if not wanted:
        yield watch, None
        return
    console = live_console() if shown else None
    live = Live(console=console, get_renderable=watch.table, transient=True, refresh_per_second=8)
    # The display starts by the clock, not with a step: reading and seeding may take long, too.
    later = threading.Timer(_SECONDS_BEFORE, live.start)
    later.daemon = True
    if console is not None:
        later.start()

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
            later.cancel()
            later.join()
        if live.is_started:
            live.stop()
