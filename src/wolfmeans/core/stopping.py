"""When to stop: the four rules, the tolerance scales, and the number of steps each guarantees.

With h_0 = f(x_0) - min f, every step lowers the value by its decrease g_t + m_t >= g_t, and all
decreases together cannot exceed h_0. A rule that continues only while some part of the decrease is
larger than a fixed amount must therefore stop; `guarantee` says after how many steps at the latest.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from wolfmeans.core.choices import STOPS as STOPS
from wolfmeans.core.choices import TOLERANCE_SCALES as TOLERANCE_SCALES
from wolfmeans.core.solution import Record, Status

_ROUNDING = Fraction(4, 2**53)
_WHOLE = 2.0**52
_DEFAULT_TOL = {"decrease": 1e-6, "gap": 1e-6, "shift": 1e-4, "stationary": 0.0}


class Criterion(NamedTuple):
    """A stopping rule by name, with a tolerance and what it multiplies."""

    stop: str
    tol: float
    tol_scale: str


def criterion(stop: str | None, tol: float | None, tol_scale: str | None) -> Criterion:
    """Return the stopping rule that the parameters of an estimator mean; None is "not given".

    A tolerance that is given alone comes from code written for scikit-learn. It then means what it
    means there: the shift of the centers, in units of the mean variance of the columns.

    Examples
    --------
    >>> criterion(None, None, None)
    Criterion(stop='decrease', tol=1e-06, tol_scale='initial')
    >>> criterion(None, 1e-4, None).stop, criterion("decrease", 1e-4, None).stop
    ('shift', 'decrease')
    """
    if stop is None:
        stop = "shift" if tol is not None and tol_scale is None else "decrease"
    return Criterion(stop, _DEFAULT_TOL[stop] if tol is None else tol, tol_scale or "initial")


@dataclass(frozen=True)
class StoppingRule(ABC):
    """A rule that decides by one record at a time."""

    tol: float = 0.0
    """The absolute tolerance."""

    def met(self, record: Record) -> Status | None:
        """Return the status with which the run ends at this record, or None to continue."""
        if record.stationary:
            return Status.STATIONARY
        return self._within_tolerance(record)

    @abstractmethod
    def _within_tolerance(self, record: Record) -> Status | None: ...

    def guarantee(self, value: float, lower_bound: float | None) -> int | None:
        """Return the largest number of steps a run from f(x_0) = value can take, or None."""
        if lower_bound is None:
            return None
        return steps_until_spent(value, lower_bound, self.least_decrease)

    @property
    def least_decrease(self) -> float:
        """What every step that does not end the run takes off the value at least."""
        return self.tol

    @property
    def name(self) -> str:
        """The rule's name in every interface."""
        return type(self).__name__.removesuffix("Rule").lower()


class DecreaseRule(StoppingRule):
    """Stop at x_t when a full step gains g_t + m_t <= tol (the paper's Algorithm 2)."""

    def _within_tolerance(self, record: Record) -> Status | None:
        return Status.DECREASE if record.decrease <= self.tol else None


class GapRule(StoppingRule):
    """Stop at x_t when g_t <= tol (the paper's Algorithm 1)."""

    def _within_tolerance(self, record: Record) -> Status | None:
        return Status.GAP if record.gap <= self.tol else None


class StationaryRule(StoppingRule):
    """Stop at a fixed point of the oracle only. There is no guaranteed number of steps."""

    def _within_tolerance(self, record: Record) -> Status | None:
        return None

    def guarantee(self, value: float, lower_bound: float | None) -> int | None:
        """Return None: a fixed point is reached, but no useful number of steps is known."""
        return None


@dataclass(frozen=True)
class ShiftRule(StoppingRule):
    """Stop on arrival at x_t when the centers moved by sum ||dc_k||^2 <= tol (scikit-learn's rule).

    A shift of S costs a movement of at least w (S - u sqrt(N S)), with w the smallest positive
    weight, u the spacing of the centers' number format and N the number of coordinates: the new
    center differs from the mean by at most u / 2 in each coordinate. For S >= tol >= u^2 N this
    grows with S, which gives the guarantee.
    """

    smallest_weight: float = 1.0
    """w: the smallest positive weight."""
    spacing: float = 0.0
    """u: the largest distance between neighbouring numbers that centers can have."""
    n_coordinates: int = 1
    """N: the number of coordinates of all centers together."""

    def met(self, record: Record) -> Status | None:
        """Test the last shift first: scikit-learn would have stopped before this assignment."""
        return self._within_tolerance(record) or super().met(record)

    def _within_tolerance(self, record: Record) -> Status | None:
        if math.isnan(record.shift):
            raise ValueError("stop='shift' needs a problem whose points have centers")
        return Status.SHIFT if record.shift <= self.tol else None

    @property
    def least_decrease(self) -> float:
        """What a shift beyond the tolerance gains at least."""
        lost = self.spacing * math.sqrt(self.n_coordinates * self.tol)
        return self.smallest_weight * (self.tol - lost)


def tolerances_of(rule: StoppingRule) -> dict[str, float] | None:
    """Return the tolerances by which an engine stops where the rule does; None for custom rules.

    Examples
    --------
    >>> tolerances_of(GapRule(0.5))
    {'gap': 0.5}
    """
    watched = {DecreaseRule: "decrease", GapRule: "gap", ShiftRule: "shift"}
    if type(rule) is StationaryRule:
        return {}
    name = watched.get(type(rule))
    return None if name is None else {name: rule.tol}


def steps_until_spent(value: float, lower_bound: float, cost: float) -> int | None:
    """Return max(1, ceil((value - lower_bound) / cost)); None when nothing is spent.

    The quotient counts as a whole number when it is one up to the rounding of value and cost, so
    that a relative tolerance of 1e-6 guarantees a million steps and not one more.

    Examples
    --------
    >>> steps_until_spent(10.0, 0.0, 3.0)
    4
    >>> steps_until_spent(7.7, 0.0, 1e-6 * 7.7)
    1000000
    >>> steps_until_spent(10.0, 0.0, 0.0) is None
    True
    """
    if lower_bound == 0 < value < cost * _WHOLE and (whole := round(value / cost)) == value / cost:
        # A rounded quotient is off by less than the tolerance below, and fractions take long.
        return max(1, whole)
    budget = Fraction(value) - Fraction(lower_bound)
    if budget <= 0:
        return 1
    if not cost > 0:
        return None
    quotient = budget / Fraction(cost)
    whole = round(quotient)
    if abs(quotient - whole) <= _ROUNDING * quotient:
        return max(1, whole)
    return max(1, math.ceil(quotient))


def make_rule(stop: str | StoppingRule, tol: float = 0.0) -> StoppingRule:
    """Return the rule named `stop` with the absolute tolerance `tol`.

    Examples
    --------
    >>> make_rule("gap", 0.5)
    GapRule(tol=0.5)
    """
    if isinstance(stop, StoppingRule):
        return stop
    rules: dict[str, type[StoppingRule]] = {
        "decrease": DecreaseRule,
        "gap": GapRule,
        "shift": ShiftRule,
        "stationary": StationaryRule,
    }
    if stop not in rules:
        raise ValueError(f"stop must be one of {', '.join(map(repr, rules))}; got {stop!r}")
    if not tol >= 0 or math.isinf(tol):
        raise ValueError(f"tol must be a finite number >= 0; got {tol!r}")
    return rules[stop](tol)
