"""What was done to improve a clustering beyond the descent: polish and search."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Polish:
    """What polishing did, and what is known at the point where it ended."""

    level: str | None
    """"hartigan" or "swap", verified at the returned point; None if neither."""
    tied: bool
    """Whether the last look at single moves met one that changes f by no more than rounding."""
    moves: int
    """Single moves taken."""
    swaps: int
    """Centers exchanged for data points."""
    swaps_tried: int
    """Data points looked at."""
    iterations: int
    """Frank-Wolfe steps between them."""
    decrease: float
    """What all of it lowered f by."""
    timed_out: bool
    """Whether it ended because the time was over."""


@dataclass(frozen=True)
class Effort:
    """What a search spent and what it found."""

    seconds: float
    rounds: int
    """Times that something was tried, one thing or a few at once."""
    tried: int
    """Trials of exchanging centers for data points."""
    accepted: int
    """Those that lowered the SSE."""
    starts: int
    """How often the search began anew."""
    before: float
    """The SSE where it began."""
    after: float
    """The SSE of the best clustering found."""

    @property
    def gained(self) -> float:
        """The share of the SSE that was gained."""
        return 1.0 - self.after / self.before if self.before > 0 else 0.0

    def in_units(self, exponent: int) -> Effort:
        """Return the record with sums of squares multiplied by 2**exponent (an even number)."""
        factor = 2.0 ** (exponent // 2)
        return replace(
            self,
            before=self.before * factor * factor,
            after=self.after * factor * factor,
        )

    def __str__(self) -> str:
        again = f" and {self.starts:,} new starts" if self.starts else ""
        tried = f"{self.tried:,} exchanges of centers{again}"
        if self.gained <= 0:
            return f"{tried} found nothing better than the first fit"
        return f"{tried} lowered the SSE of the first fit by {100 * self.gained:.3g} %"
