"""The certificate: what is known about a returned clustering, each line with its plain reading.

Every number was computed at the returned point. Nothing here claims more than that.
"""

from __future__ import annotations

import html
import math
from dataclasses import asdict, dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from typing import Any

from wolfmeans.solution import Status

_SUMS_OF_SQUARES = (
    "gap",
    "movement",
    "decrease",
    "clarke_gap",
    "candidate_decrease",
    "tol",
    "initial_sse",
    "inertia",
    "lower_bound",
    "threshold",
)

READINGS = {
    Status.STATIONARY: "no point changes its cluster any more",
    Status.DECREASE: "one more full step would gain no more than the tolerance",
    Status.GAP: "moving points to nearer centers would gain no more than the tolerance",
    Status.SHIFT: "the centers no longer move by more than the tolerance",
    Status.MAX_ITER: "the iteration limit came first; raise max_iter to go on",
    Status.TIME_LIMIT: "the time limit came first; raise time_limit to go on",
    Status.CALLBACK: "the callback asked to stop",
    Status.DESCENT_VIOLATED: "the books do not balance: a step gained less than its gap",
    Status.REPEATED_STATE: "the run came back to an earlier partition; it would circle",
}

# So that 1.1, which is a little more in binary, is not printed as 1.101.
_NEARLY = 1.0 - 1e-13

LOCAL_OPTIMALITY = {
    "strict local minimum": "every point is strictly nearest to its own center",
    "stationary, with ties": "no point moves, but some point is as near to another center",
    "stationary, with empty clusters": "no point moves, but some clusters are not in use",
    "rule met": "the stopping rule was met; some points would still move",
    "not stationary": "the run ended early; going on would lower the inertia",
}


TRIMMED_OPTIMALITY = {
    "strict local minimum": "every kept point is strictly nearest to its own center, and every "
    "trimmed one strictly farther out",
    "stationary, with ties": "no point moves, but some point is as near to another center, or "
    "as far out as one on the other side of the threshold",
}


@dataclass(frozen=True)
class Certificate:
    """What was verified about a clustering.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans import KMeans
    >>> X = np.array([[0.0, 0.0], [0.0, 2.0], [9.0, 0.0], [9.0, 2.0]])
    >>> certificate = KMeans(n_clusters=2, random_state=0).fit(X).certificate_
    >>> certificate.gap, certificate.inertia, certificate.local_optimality
    (0.0, 4.0, 'strict local minimum')
    """

    gap: float
    """The Frank-Wolfe gap: f(w) - inertia at the returned partition w."""
    movement: float
    """What moving the centers would gain after that reassignment."""
    decrease: float
    """gap + movement: what one more full step would gain."""
    clarke_gap: float
    """The gap with empty clusters ignored; equal to the gap when there are none."""
    candidate_decrease: float | None
    """With empty clusters: the largest decrease found that one of them would guarantee."""
    tol: float
    """The absolute tolerance of the stopping rule."""
    stop: str
    """The stopping rule."""
    status: Status
    """How the run ended, as a sentence."""
    iterations: int
    """Frank-Wolfe steps."""
    extra_iterations: int
    """Steps after that, taken to fill empty clusters."""
    max_iterations: int | None
    """The number of steps that was guaranteed to suffice; None where there is none."""
    initial_sse: float
    """f at the first partition."""
    inertia: float
    """Sum of squared distances to the nearest returned center."""
    n_clusters: int
    """K."""
    empty_clusters: int
    """How many of the K clusters have no points of positive weight."""
    local_optimality: str
    """The level of local optimality that was verified."""
    lower_bound: float | None
    """No clustering into K clusters has an SSE below it; None without a useful bound."""
    lower_bound_kind: str | None
    """How the lower bound was found."""
    lower_bound_confidence: float | None
    """1.0 for a proof."""
    trimmed_points: int = 0
    """How many points of positive weight are left out wholly."""
    trimmed_mass: float = 0.0
    """The weight that is left out; a point kept in part counts with the rest of it."""
    threshold: float | None = None
    """Squared distance of the last kept point from its center; None when nothing is trimmed."""
    engine: str = "reference"
    """The engine that ran."""
    unit_exponent: int = 0
    """Sums of squares here are in units of 2**unit_exponent (0 unless they would not fit)."""
    notes: tuple[str, ...] = field(default=())
    """Advice that the data calls for."""

    @property
    def ratio(self) -> float | None:
        """Inertia / lower bound: at most this factor from the best possible; None if unknown."""
        if self.lower_bound is None or not self.lower_bound > 0:
            return None
        return self.inertia / self.lower_bound

    @property
    def radius(self) -> float | None:
        """Distance of the last kept point from its center; None when nothing is trimmed."""
        if self.threshold is None:
            return None
        return math.ldexp(math.sqrt(self.threshold), self.unit_exponent // 2)

    def in_units(self, exponent: int) -> Certificate:
        """Return the certificate with sums of squares multiplied by 2**exponent.

        When the large ones do not fit into float64, or the inertia would vanish, they stay as they
        are and `unit_exponent` says so.
        """
        if exponent == 0:
            return self
        values = {name: getattr(self, name) for name in _SUMS_OF_SQUARES}
        values = {name: value for name, value in values.items() if value is not None}
        largest = max(values.values())
        if not (_fits(largest, exponent) and _fits(self.inertia, exponent)):
            return replace(self, unit_exponent=exponent)
        scaled: dict[str, Any] = {n: math.ldexp(v, exponent) for n, v in values.items()}
        return replace(self, **scaled)

    def rows(self) -> list[tuple[str, str, str]]:
        """Return (name, value, plain reading) of each line."""
        rows = [
            ("status", self.status.value.partition(":")[0].lower(), READINGS[self.status]),
            ("inertia", f"{self.inertia:.6g}", self._inertia_reading()),
            ("gap", f"{self.gap:.3g}", self._gap_reading()),
            ("decrease", f"{self.decrease:.3g}", self._decrease_reading()),
            ("iterations", f"{self.iterations}", self._iterations_reading()),
            ("local", self.local_optimality, self._local_reading()),
            self._global_row(),
        ]
        if self.threshold is not None:
            rows.append(self._trimmed_row())
        if self.empty_clusters:
            rows.append(self._empty_row())
        if self.unit_exponent:
            rows.append(("unit", f"2^{self.unit_exponent}", "sums of squares are in this unit"))
        rows.extend(("note", "", note) for note in self.notes)
        return rows

    def _inertia_reading(self) -> str:
        kept = "" if self.threshold is None else " of kept points"
        summed = f"sum of squared distances{kept} to the nearest center"
        if not self.initial_sse > 0:
            return f"{summed}; every point sits on one"
        saved = 1.0 - self.inertia / self.initial_sse
        return f"{summed}; {saved:.1%} below the start"

    def _gap_reading(self) -> str:
        if self.gap == 0:
            return "no point is nearer to another center than to its own"
        share = self.gap / self.inertia if self.inertia > 0 else math.inf
        return f"moving points to nearer centers would gain {share:.1e} of the inertia"

    def _decrease_reading(self) -> str:
        if self.stop == "shift":
            return f"one more full step would gain this (rule: shift of centers <= {self.tol:.3g})"
        if self.stop == "stationary":
            return "one more full step would gain this (rule: labels no longer change)"
        side = "no more than" if self.decrease <= self.tol else "more than"
        if self.stop == "gap" and self.gap <= self.tol < self.decrease:
            return f"one more full step would gain this; the gap is within {self.tol:.3g}"
        return f"one more full step would gain this, {side} the tolerance {self.tol:.3g}"

    def _iterations_reading(self) -> str:
        extra = ""
        if self.extra_iterations:
            extra = f"; {self.extra_iterations} more filled empty clusters"
        if self.max_iterations is None:
            return f"steps; this rule promises no number in advance{extra}"
        promised = f"no more than {self.max_iterations:,} could be needed, known in advance"
        return f"steps; {promised}{extra}"

    def _global_row(self) -> tuple[str, str, str]:
        if self.inertia == 0:
            return ("global", "optimal", "no clustering can have an inertia below 0")
        if self.lower_bound is None or self.ratio is None:
            return ("global", "unknown", self._no_bound_reading())
        # Every printed number errs on the safe side: the ratio up, the bound down.
        percent = math.ceil((self.ratio * _NEARLY - 1.0) * 1e4) / 100
        amount = f"{percent:.2f}%" if percent < 100 else f"a factor of {_up(self.ratio, 3)}"
        sure = ""
        if self.lower_bound_confidence != 1.0:
            sure = f", with confidence {self.lower_bound_confidence:.1%}"
        reading = (
            f"within {amount} of the best possible{sure}: "
            f"no clustering is below {_down(self.lower_bound, 6)} ({self.lower_bound_kind} bound)"
        )
        return ("global", f"≤ {_up(self.ratio, 4)}×", reading)

    def _no_bound_reading(self) -> str:
        if self.threshold is not None and self.lower_bound_kind is None:
            return "no lower bound was computed for this trimmed problem; compare several n_init"
        if self.lower_bound_kind is None:
            return "no lower bound was asked for or affordable; set certify='spectral' to get one"
        return (
            f"the {self.lower_bound_kind} bound says nothing here: it needs at least as many "
            "features as clusters, and spread in all of them; compare several n_init instead"
        )

    def _local_reading(self) -> str:
        if self.threshold is None:
            return LOCAL_OPTIMALITY[self.local_optimality]
        return TRIMMED_OPTIMALITY.get(
            self.local_optimality, LOCAL_OPTIMALITY[self.local_optimality]
        )

    def _trimmed_row(self) -> tuple[str, str, str]:
        points = "1 point" if self.trimmed_points == 1 else f"{self.trimmed_points} points"
        reading = f"left out: no center is nearer to them than {self.radius:.6g}"
        if self.trimmed_mass != self.trimmed_points:
            reading += f"; their weight is {self.trimmed_mass:.6g}, one point may count in part"
        return ("trimmed", points, reading)

    def _empty_row(self) -> tuple[str, str, str]:
        gain = self.candidate_decrease
        reading = f"gap without them (Clarke): {self.clarke_gap:.3g}"
        if gain is not None:
            reading += f"; one of them moved to a data point would gain at least {gain:.3g}"
        return ("empty", f"{self.empty_clusters} of {self.n_clusters}", reading)

    @property
    def verdict(self) -> str:
        """The certificate in one sentence."""
        ended = READINGS[self.status]
        head = "Converged" if self.status.converged else "Not converged"
        if self.inertia == 0:
            tail = "no clustering can be better"
        elif self.ratio is None:
            tail = "how far it is from the best possible clustering is not known"
        else:
            sure = "proven" if self.lower_bound_confidence == 1.0 else "likely"
            most = _up(self.ratio, 3)
            tail = f"its inertia is {sure} to be at most {most} times the best possible"
        return f"{head} after {self.iterations} steps: {ended}; {tail}."

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers and strings, ready for JSON."""
        result = asdict(self)
        result["status"] = self.status.value
        result["status_name"] = self.status.name
        result["converged"] = self.status.converged
        result["ratio"] = self.ratio
        result["notes"] = list(self.notes)
        return result

    def __str__(self) -> str:
        rows = self.rows()
        names = max(len(name) for name, _, _ in rows)
        values = max(len(value) for _, value, _ in rows)
        lines = ["Certificate"]
        lines += [f"  {n:<{names}}  {v:<{values}}  {text}".rstrip() for n, v, text in rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cells = "".join(
            "<tr>"
            + "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in row)
            + "</tr>"
            for row in self.rows()
        )
        return (
            "<table><caption>Certificate</caption>"
            "<thead><tr><th>what</th><th>value</th><th>in plain words</th></tr></thead>"
            f"<tbody>{cells}</tbody></table>"
        )


def _up(value: float, digits: int) -> str:
    """Write a positive number with so many digits, rounded up."""
    return f"{Context(prec=digits, rounding=ROUND_CEILING).create_decimal(value * _NEARLY):g}"


def _down(value: float, digits: int) -> str:
    """Write a positive number with so many digits, rounded down."""
    return f"{Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(value):g}"


def _fits(value: float, exponent: int) -> bool:
    """Whether 2**exponent value is a normal float64, or 0."""
    return value == 0 or -1021 <= math.frexp(value)[1] + exponent <= 1024


def local_optimality(status: Status, *, stationary: bool, empty: bool, tied: bool) -> str:
    """Name the level of local optimality."""
    if not stationary:
        return "rule met" if status.converged else "not stationary"
    if empty:
        return "stationary, with empty clusters"
    return "stationary, with ties" if tied else "strict local minimum"
