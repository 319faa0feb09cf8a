"""The magnitudes of data, which decide whether its squares fit into float64."""

from __future__ import annotations

from typing import NamedTuple

ROWS_LOOKED_AT = 256
"""How many rows are looked at, about, to learn about all."""


class Sizes(NamedTuple):
    """The smallest nonzero magnitude in some data, and the largest; 0 where all are 0."""

    smallest: float
    largest: float


def sampling_step(n_rows: int) -> int:
    """Return every which row is looked at to learn about all: some hundred are enough."""
    return max(1, n_rows // ROWS_LOOKED_AT)
