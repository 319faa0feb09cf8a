"""What a lower bound on the best possible SSE is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LowerBound:
    """A number that no clustering's SSE can be below."""

    value: float
    """The bound."""
    kind: str
    """How it was found."""
    confidence: float
    """The probability that it holds; 1.0 for a proof."""
    seconds: float
    """What it cost."""
