"""Records of improvements beyond the descent: polishing and searching."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Polish:
    """The work of polishing, and the level verified at the point it returned."""

    level: str | None
    """"hartigan" or "swap", verified at the returned point; None if neither."""
    tied: bool
    """Whether the last pass over single moves found one that changes f only by rounding."""
    moves: int
    """Single moves taken."""
    swaps: int
    """Centers exchanged for data points."""
    swaps_tried: int
    """Data points tried as centers."""
    iterations: int
    """Frank-Wolfe steps between them."""
    decrease: float
    """By how much polishing lowered f."""
    timed_out: bool
    """Whether the time limit ended it."""

    def in_units(self, exponent: int) -> Polish:
        """Return the record with sums of squares multiplied by 2**exponent."""
        return replace(self, decrease=math.ldexp(self.decrease, exponent))


@dataclass(frozen=True)
class Effort:
    """The work of a search for a better clustering, and its gain."""

    seconds: float
    rounds: int
    """Rounds of the search; each tries one swap or several at once."""
    tried: int
    """Swaps of centers for data points that were tried."""
    accepted: int
    """Swaps that lowered the inertia."""
    starts: int
    """How often the search restarted."""
    before: float
    """The inertia at the start of the search."""
    after: float
    """The inertia of the best clustering found."""

    @property
    def gained(self) -> float:
        """The relative decrease of the inertia."""
        return 1.0 - self.after / self.before if self.before > 0 else 0.0

    def in_units(self, exponent: int) -> Effort:
        """Return the record with sums of squares multiplied by 2**exponent (an even number)."""
        factor = 2.0 ** (exponent // 2)
        before, after = (value * factor * factor for value in (self.before, self.after))
        return replace(self, before=before, after=after)

    def __str__(self) -> str:
        again = f" and {self.starts:,} restarts" if self.starts else ""
        tried = f"{self.tried:,} center swaps{again}"
        if self.gained <= 0:
            return f"{tried} found nothing better than the first fit"
        return f"{tried} lowered the inertia of the first fit by {100 * self.gained:.3g} %"
