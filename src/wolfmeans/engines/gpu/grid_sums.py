"""Exact sums of the device as sums that add up: moved to the grid that all parts agreed on.

On the device, a sum is an integer times a power of two, in digits of 32 bits. The range of one part
of the data decides where they begin. The limbs of `exact.limbs` begin where the range of all parts
says. Both hold the same integer, so moving it is shifting bits: no row is read again.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from wolfmeans.engines.gpu.kernels import moments as moment_kernels
from wolfmeans.engines.gpu.kernels.exact import LIMBS
from wolfmeans.engines.gpu.launching import UNFUSED, launch
from wolfmeans.engines.gpu.transfers import to_host
from wolfmeans.exact.limbs import SCALAR, Grid, Limbs

_PIECE = 16
_HALF = 1 << (_PIECE - 1)
"""Digits are moved in pieces of so many bits: shifted to any bit of a limb, which has 46 at most,
the pieces that begin in it stay below 2**62."""


def on_grid(grid: Grid, digits: NDArray[np.int64], low: int) -> Limbs:
    """Return (K, d) sums as limbs on a grid.

    Digit i of (m, K, d) counts 2**(low + 32 i) and may have any sign and up to 62 bits.

    Raises
    ------
    ValueError
        If a sum has a bit below the grid.
    """
    many, K, d = digits.shape
    values = np.zeros((K, grid.shape, d), dtype=np.int64)
    rest = np.zeros((K, d), dtype=np.int64)
    # Pieces are in -2**15..2**15-1, so all of them above a small number are 0, whatever its sign.
    # The highest digit leaves a rest of 31 bits.
    for number in range(2 * many + 3):
        if number % 2 == 0 and number < 2 * many:
            rest = rest + digits[number // 2]
        piece = ((rest + _HALF) & (2 * _HALF - 1)) - _HALF
        rest = (rest - piece) >> _PIECE
        if not piece.any():
            continue
        place = low + _PIECE * number - grid.low
        if place < 0:
            if place <= -_PIECE or (piece & ((1 << -place) - 1)).any():
                raise ValueError("a sum has bits below those of the given range")
            piece, place = piece >> -place, 0
        limb = min(place // grid.bits, grid.limbs)
        values[:, limb] += piece << (place - limb * grid.bits)
    return Limbs.carried(grid, values)


class ScalarSum:
    """An exact sum of float64 terms that are not negative, on the device.

    Parameters
    ----------
    device : torch.device
        Where it is.
    low : int
        No term may have a bit below 2**low, or one too far above it: the sum has no room then.
    """

    def __init__(self, device: torch.device, low: int) -> None:
        zeros = torch.zeros(LIMBS + 1, dtype=torch.int64, device=device)
        self.low = low
        self.limbs = zeros[:LIMBS]
        self.inexact = zeros[LIMBS:].view(torch.int32)[:1]

    def rounded(self) -> float | None:
        """Return the sum, rounded once, and begin anew; None where it had no room."""
        out = torch.empty(2, dtype=torch.float64, device=self.limbs.device)
        launch(
            moment_kernels.round_sum, 1,
            self.limbs, self.low, self.inexact, out, num_warps=1, **UNFUSED,
        )  # fmt: skip
        total, lost = out.tolist()
        return None if lost else float(total)

    def exact(self) -> Limbs | None:
        """Return the sum as one that adds up; None where it had no room."""
        limbs, inexact = to_host(self.limbs, self.inexact)
        return None if inexact[0] else scalar_limbs(limbs, self.low)


def scalar_limbs(limbs: NDArray[np.int64], low: int) -> Limbs:
    """Return one sum of float64 terms, of which limb i counts 2**(low + 32 i)."""
    return on_grid(SCALAR, limbs.reshape(-1, 1, 1), low)
