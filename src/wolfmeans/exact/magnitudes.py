"""The magnitudes of data, which decide whether its squares fit into float64."""

from __future__ import annotations

from typing import NamedTuple


class Sizes(NamedTuple):
    """The smallest nonzero magnitude in some data, and the largest; 0 where all are 0."""

    smallest: float
    largest: float
