"""What a lower bound says about the distance from the optimum, in the same words everywhere.

Inertia / lower bound is an upper limit on inertia / optimum. Up to 1 + 1e-6 a clustering is called
optimal, if the bound is proven. Up to 2 its distance from the optimum is given in percent; beyond
that it is called unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context

TOLERANCE = 1e-6
"""A clustering is called optimal if its inertia is proven to be at most this far above the optimum,
relative to the optimum."""
NEAR = 1.01
"""Up to this proven ratio pages and notebooks show the color of a proof."""
WEAK = 1.1
"""Above this ratio a bound is called weak: it is shown in a neutral color."""
MOST_USEFUL = 2.0
"""Above this ratio a bound is not shown."""
# So that 1.1, which is a little more in binary, is not printed as 10.1 %.
_NEARLY = 1.0 - 1e-13
NO_USEFUL_BOUND = "no useful bound was found"
_OF_THE_OPTIMUM = "of the optimum"


def percent_above(ratio: float) -> str:
    """Return how far a ratio is above 1, in percent, rounded up.

    Three significant digits from 1 % on, two below, and never less than 0.0001 %.

    Examples
    --------
    >>> percent_above(1.00651), percent_above(1.6013), percent_above(2.0), percent_above(1.0)
    ('0.66 %', '60.2 %', '100 %', '0.0001 %')
    """
    percent = (ratio * _NEARLY - 1.0) * 100.0
    if percent <= 100.0 * TOLERANCE:
        return "0.0001 %"
    digits = 3 if percent >= 1.0 else 2
    return f"{Context(prec=digits, rounding=ROUND_CEILING).create_decimal(percent):f} %"


def percent_sure(confidence: float) -> str:
    """Return a confidence in percent, rounded down to four digits.

    Examples
    --------
    >>> percent_sure(0.95), percent_sure(0.95 + 0.95 - 1.0), percent_sure(0.999999)
    ('95 %', '90 %', '99.99 %')
    """
    return f"{float(rounded_down(100.0 * confidence * (1.0 + 1e-12), 4)):g} %"


def rounded_down(value: float, digits: int) -> str:
    """Format a positive number with this many significant digits, rounded down.

    Examples
    --------
    >>> rounded_down(2370689.3, 6), rounded_down(15.19, 3)
    ('2.37068e+06', '15.1')
    """
    return _with_two_digits(f"{Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(value):g}")


def rounded_up(value: float, digits: int = 3) -> str:
    """Format a number of at least 0 with this many significant digits, rounded up."""
    rounded = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(value)
    return _with_two_digits(f"{rounded:g}")


def _with_two_digits(text: str) -> str:
    """Return a number whose exponent has two digits, as those of floats have."""
    head, sign, exponent = text.partition("e")
    return text if len(exponent) != 2 else f"{head}{sign}{exponent[0]}0{exponent[1]}"


@dataclass(frozen=True)
class Standing:
    """Where an inertia stands between its lower bound and what is known about the optimum.

    Examples
    --------
    >>> Standing(100.6, 100.0, 1.0).brief, Standing(100.0, 100.0, 1.0).brief
    ('within 0.60 %', 'optimal')
    >>> Standing(500.0, 100.0, 1.0).sentence
    'its distance from the optimum is unknown'
    """

    inertia: float
    lower_bound: float | None
    """None if no bound is known."""
    confidence: float | None
    """1.0 for a proof."""

    @property
    def ratio(self) -> float:
        """Inertia / lower bound; infinite without a bound, 1 for an inertia of 0."""
        if self.inertia == 0:
            return 1.0
        return self.inertia / self.lower_bound if self.lower_bound else math.inf

    @property
    def proven(self) -> bool:
        """Whether it holds without a doubt; no clustering has an inertia below 0."""
        return self.inertia == 0 or self.confidence == 1.0

    @property
    def useful(self) -> bool:
        """Whether the bound is worth showing."""
        return self.ratio <= MOST_USEFUL

    @property
    def optimal(self) -> bool:
        """Whether the inertia is proven to be the optimum, up to the tolerance."""
        return self.proven and self.ratio <= 1.0 + TOLERANCE

    @property
    def brief(self) -> str:
        """In a word: "optimal", "within 0.66 %" or "unknown"."""
        if self.optimal:
            return "optimal"
        return f"within {percent_above(self.ratio)}" if self.useful else "unknown"

    @property
    def meaning(self) -> str:
        """What the word means: how it was proven, or with which confidence it holds."""
        if self.inertia == 0:
            return "no clustering can have an inertia below 0"
        if self.optimal:
            return f"to a relative {TOLERANCE:.0e}".replace("e-06", "e-6")
        if not self.useful:
            return NO_USEFUL_BOUND if self.lower_bound else "no lower bound is known"
        return _OF_THE_OPTIMUM if self.proven else f"{_OF_THE_OPTIMUM} {self._sure}"

    @property
    def sentence(self) -> str:
        """The same as a sentence."""
        if self.inertia == 0:
            return "no clustering can be better"
        if self.optimal:
            return f"it is proven to be optimal ({self.meaning})"
        if not self.useful:
            return "its distance from the optimum is unknown"
        proven = "proven to be " if self.proven else ""
        return f"its inertia is {proven}{self.brief} {self.meaning}"

    @property
    def look(self) -> str:
        """How pages and notebooks show it: "proved", "near" or "plain"."""
        if not self.proven or self.ratio > WEAK:
            return "plain"
        return "proved" if self.ratio <= NEAR else "near"

    @property
    def _sure(self) -> str:
        return f"with confidence {percent_sure(self.confidence or 0.0)}"
