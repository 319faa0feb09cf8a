"""Draws of rows by mass, exact and the same on every engine.

A mass per point is scaled by one power of two to integers whose sum fits int64. One integer below
2**63 - 1, from the host's generator, is taken as a share of the total, and the row where the
cumulative sum passes it is picked. The sum runs over the rows in the order of their values, so that
shuffling the rows changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.workspace import Workspace

INTEGER_BITS = 62
"""Sums of scaled masses are below two to this."""
DRAWS = 2**63 - 1
"""A choice of rows takes integers from 0 to this, excluded, from the generator."""

RandomSource = Callable[[], np.random.RandomState]
"""Gives a generator when it is asked for one: making it takes as long as a small fit."""


def integer_shift(largest: float, n: int) -> int:
    """Return the power of two that makes integers of n masses, so that their sum fits int64."""
    return INTEGER_BITS - n.bit_length() - math.frexp(largest)[1]


def scaled(masses: NDArray[np.float64], shift: int) -> NDArray[np.int64]:
    """Return masses times 2**shift, rounded down."""
    return np.ldexp(masses, shift).astype(np.int64)


def integer_masses(masses: NDArray[np.float64]) -> NDArray[np.int64]:
    """Scale non-negative masses by a power of two and round down, so that their sum fits int64."""
    return scaled(masses, integer_shift(float(masses.max(initial=0.0)), len(masses)))


def draws(rng: np.random.RandomState, size: int = 1) -> NDArray[np.int64]:
    """Return integers of 0..2**63 - 2."""
    return rng.randint(0, DRAWS, size=size, dtype=np.int64)


def pick_rows(
    workspace: Workspace,
    masses: NDArray[np.float64],
    drawn: NDArray[np.int64],
    order: NDArray[np.int64] | None = None,
) -> NDArray[np.int64]:
    """Pick a row for each draw, with probabilities proportional to the masses."""
    if order is None:
        order = workspace.order()
    cumulative = np.cumsum(integer_masses(masses)[order])
    total = int(cumulative[-1])
    picks = np.array([u * total // DRAWS for u in drawn.tolist()], dtype=np.int64)
    return order[np.searchsorted(cumulative, picks, side="right")]


def draw_rows(
    workspace: Workspace, masses: NDArray[np.float64], rng: np.random.RandomState, size: int = 1
) -> NDArray[np.int64]:
    """Draw rows with probabilities proportional to their masses, with replacement."""
    return pick_rows(workspace, masses, draws(rng, size))
