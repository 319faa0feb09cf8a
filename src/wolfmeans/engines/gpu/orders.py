"""What the device is told about a run: the rule that ends it, and counters that begin at 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from wolfmeans.core.workspace import Limits
from wolfmeans.engines.gpu.kernels.lists import AT_MOST, EMPTY, KEEP_EMPTY
from wolfmeans.engines.gpu.transfers import room

MOST_STEPS = 1024
"""So many records fit."""
WORDS = 16
"""Of 8 bytes: the rule, the counters, and how far the centers of both buffers reach."""
_IN_TURN = 8
"""So many runs may begin before the first of them has."""


class Orders:
    """Rules and counters on their way to the device, from memory that stays where it is.

    Each has WORDS: the shift on arrival, three tolerances, 16 counters of which the first two are
    how many steps may be taken and whether empty clusters are kept, and zeros.
    """

    def __init__(self, device: torch.device) -> None:
        pinned = device.type == "cuda"
        self._sent = room((_IN_TURN, WORDS), torch.int64, pinned)
        self._here: NDArray[np.int64] = self._sent.numpy()
        self._turn = 0

    def begin(self, control: torch.Tensor, limits: Limits, shift: float, empty: int) -> None:
        """Send what a run begins with."""
        self.words(limits, shift, empty)
        control.copy_(self._sent[self._turn], non_blocking=True)

    def words(self, limits: Limits, shift: float, empty: int) -> NDArray[np.int64]:
        """Return what a run begins with, for who sends it with something else."""
        rule, counters = self._next(limits, limits.at_most)
        rule[0], counters[EMPTY.value] = shift, empty
        words: NDArray[np.int64] = self._here[self._turn]
        return words

    def end_by(self, control: torch.Tensor, limits: Limits, after: int) -> None:
        """Send other limits to a run that goes on, of whose steps so many are not counted."""
        self._next(limits, after + limits.at_most)
        # All else is the device's: the shift on arrival, and what it counts.
        control[1:5].copy_(self._sent[self._turn, 1:5], non_blocking=True)

    def _next(self, limits: Limits, at_most: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Write down rule and counters, where the device does not read any more.

        The host waits for what a run leads to before it begins the next but one.
        """
        self._turn = (self._turn + 1) % _IN_TURN
        control = self._here[self._turn]
        control[:] = 0
        rule, counters = control[:4].view(np.float64), control[4:12].view(np.int32)
        rule[1], rule[2], rule[3] = limits.gap, limits.decrease, limits.shift
        counters[AT_MOST.value] = min(at_most, MOST_STEPS)
        counters[KEEP_EMPTY.value] = limits.keep_empty
        return rule, counters
