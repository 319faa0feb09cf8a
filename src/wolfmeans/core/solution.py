"""What a run of Algorithm 1 leaves behind: its records, its trace, its ending.

A *record* describes one evaluated step, a *trace* is the table of all records, a *status* is a
sentence that says how the run ended, and a *solution* holds the returned point with all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.hooks import hook

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Point = TypeVar("Point")


class Status(Enum):
    """How a run ended. Every value is a sentence that a person can act on.

    Examples
    --------
    >>> from wolfmeans import Status
    >>> Status.GAP.converged, Status.MAX_ITER.converged
    (True, False)
    >>> print(Status.GAP)
    Converged: the Frank-Wolfe gap is no larger than the tolerance.
    """

    STATIONARY = "Stationary: the oracle returned the point itself; further steps change nothing."
    DECREASE = "Converged: a full step would lower the value by no more than the tolerance."
    GAP = "Converged: the Frank-Wolfe gap is no larger than the tolerance."
    SHIFT = "Converged: the centers moved by no more than the tolerance."
    MAX_ITER = (
        "Not converged: the iteration limit was reached; increase max_iter or accept this gap."
    )
    TIME_LIMIT = (
        "Not converged: the time limit was reached; increase time_limit or accept this gap."
    )
    CALLBACK = "Not converged: the callback stopped the run."
    DESCENT_VIOLATED = (
        "Failed: a step lowered the value by less than its gap, which no concave objective allows; "
        "check that the objective is concave and that supergradient and oracle belong to it."
    )
    REPEATED_STATE = (
        "Failed: the run returned to an earlier point and would cycle forever; "
        "the differences between its points are lost to rounding."
    )

    @property
    def converged(self) -> bool:
        """Whether the stopping rule, or stationarity, was verified at the returned point."""
        return self in _CONVERGED

    def __str__(self) -> str:
        return str(self.value)


_CONVERGED = frozenset({Status.STATIONARY, Status.DECREASE, Status.GAP, Status.SHIFT})


@dataclass(frozen=True, slots=True)
class Record:
    """One evaluated step: what the oracle offered at the point x_t.

    Examples
    --------
    >>> from wolfmeans import Record
    >>> Record(t=0, value=9.0, gap=3.0, movement=1.0, stationary=False).decrease
    4.0
    """

    t: int
    """Number of steps taken before this point."""
    value: float
    """f(x_t)."""
    gap: float
    """The Frank-Wolfe gap g_t at x_t."""
    movement: float
    """m_t: what the step gains beyond the gap, f(x_t) - f(x_{t+1}) - g_t."""
    stationary: bool
    """Whether the oracle returned x_t itself."""
    moved: int = 0
    """Number of points whose label the oracle changes."""
    empty: int = 0
    """Number of clusters of x_t without weight."""
    shift: float = float("nan")
    """Sum of squared center shifts on arrival at x_t."""
    seconds: float = 0.0
    """Time since the start of the run."""

    @property
    def decrease(self) -> float:
        """f(x_t) - f(x_{t+1}) = g_t + m_t, never computed as a difference of two values."""
        return self.gap + self.movement


class Trace:
    """The records of a run as columns, one row for every evaluated point x_0, x_1, ...

    Examples
    --------
    >>> from wolfmeans.core.solution import Record, Trace
    >>> trace = Trace([Record(t=0, value=9.0, gap=3.0, movement=1.0, stationary=False, moved=2)])
    >>> trace.sse, trace.decrease
    (array([9.]), array([4.]))
    """

    def __init__(self, records: Iterable[Record] = (), *, lower_bound: float = 0.0) -> None:
        self._records: list[Record] = list(records)
        self.lower_bound = lower_bound
        """A lower bound on the optimal value: h_0 = sse[0] - lower_bound in the rate."""

    def append(self, record: Record) -> None:
        """Add one record at the end."""
        self._records.append(record)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __getitem__(self, index: int) -> Record:
        return self._records[index]

    def _floats(self, name: str) -> NDArray[np.float64]:
        return np.array([getattr(r, name) for r in self._records], dtype=np.float64)

    def _integers(self, name: str) -> NDArray[np.int64]:
        return np.array([getattr(r, name) for r in self._records], dtype=np.int64)

    @property
    def t(self) -> NDArray[np.int64]:
        """Steps taken before each row."""
        return self._integers("t")

    @property
    def sse(self) -> NDArray[np.float64]:
        """The objective f(x_t); for K-means the sum of squared errors of the partition."""
        return self._floats("value")

    @property
    def gap(self) -> NDArray[np.float64]:
        """The Frank-Wolfe gap g_t."""
        return self._floats("gap")

    @property
    def movement(self) -> NDArray[np.float64]:
        """The gain m_t beyond the gap."""
        return self._floats("movement")

    @property
    def decrease(self) -> NDArray[np.float64]:
        """g_t + m_t."""
        return self._floats("decrease")

    @property
    def moved(self) -> NDArray[np.int64]:
        """Points that change their label in step t."""
        return self._integers("moved")

    @property
    def empty(self) -> NDArray[np.int64]:
        """Clusters without weight at x_t."""
        return self._integers("empty")

    @property
    def shift(self) -> NDArray[np.float64]:
        """Sum of squared center shifts on arrival at x_t."""
        return self._floats("shift")

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Time from the start of the run to each row."""
        return self._floats("seconds")

    @property
    def rate_bound(self) -> NDArray[np.float64]:
        """h_0 / (t + 1): the running minimum of the gap is never above it; NaN if unknown."""
        if not self._records:
            return np.empty(0)
        h_0 = self._records[0].value - self.lower_bound
        return np.asarray(h_0 / (self.t + 1.0), dtype=np.float64)

    def in_units(self, exponent: int) -> Trace:
        """Return the trace with sums of squares multiplied by 2**exponent (an even number)."""
        factor = 2.0 ** (exponent // 2)
        records = (
            replace(
                record,
                value=record.value * factor * factor,
                gap=record.gap * factor * factor,
                movement=record.movement * factor * factor,
                shift=record.shift * factor * factor,
            )
            for record in self
        )
        return Trace(records, lower_bound=self.lower_bound * factor * factor)

    def columns(self) -> dict[str, NDArray[Any]]:
        """All columns by name."""
        names = ("t", "sse", "gap", "movement", "decrease", "moved", "empty", "shift", "seconds")
        return {name: getattr(self, name) for name in names}

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a pandas DataFrame (needs pandas)."""
        from wolfmeans.core.frames import to_frame

        return to_frame(self.columns()).set_index("t")

    def plot(self) -> Figure:
        """Draw gap with its guaranteed line, SSE and moved points (needs matplotlib)."""
        figure: Figure = hook("trace_figure")(self)
        return figure

    def __repr__(self) -> str:
        if not self._records:
            return "Trace(no rows)"
        last = self._records[-1]
        rows = "1 row" if len(self) == 1 else f"{len(self)} rows"
        return f"Trace({rows}, sse={last.value:.6g}, gap={last.gap:.3g})"

    def _repr_html_(self) -> str:
        html: str = hook("trace_view")(self)
        return html


@dataclass(frozen=True)
class Solution(Generic[Point]):
    """The returned point of a run and everything that was verified at it.

    `minimize_concave` returns one; its example shows how.
    """

    point: Point
    """The returned point."""
    vertex: Point
    """The oracle's answer at the returned point: the step that was evaluated and not taken."""
    value: float
    """f at the returned point."""
    gap: float
    """The Frank-Wolfe gap at the returned point."""
    movement: float
    """What the step from the returned point would gain beyond the gap."""
    best_gap: float
    """The smallest gap met during the run."""
    status: Status
    """How the run ended."""
    iterations: int
    """Frank-Wolfe steps, the one that met the rule included; never more than max_iter."""
    max_iterations: int | None
    """The guaranteed maximum number of steps, known before the run; None where there is none."""
    trace: Trace = field(repr=False)
    """All evaluated steps."""
    extra_iterations: int = 0
    """Steps after the end because the point was not fit to be returned (empty clusters)."""

    @property
    def decrease(self) -> float:
        """What a full step from the returned point would gain: gap + movement."""
        return self.gap + self.movement

    @property
    def converged(self) -> bool:
        """Whether the stopping rule was met."""
        return self.status.converged
