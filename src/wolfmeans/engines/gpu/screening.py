"""The copy of the data in short arithmetic that decides most labels, and how wrong it can be.

Let x' be the point (x - mu) s rounded to float16, and c' the center likewise. Both are exact
numbers from then on; rho >= |(x - mu) s - x'| and gamma >= |(c - mu) s - c'| are measured, not
estimated. The score of a center is |c|^2 - 2 x'.c', c without rounding, and its truth is
|c|^2 - 2 x.c, which is |x - c|^2 without a part that all centers have in common. They differ by at
most the error bound

    2 (r gamma + rho |c|) + products_error r max(|c'|, 2**-14) + score_error (|c|^2 + 2 r |c'|),

r = |x|,

by Cauchy-Schwarz, as x.c - x'.c' = x.(c - c') + (x - x').c'. (Where numbers are cut off, |c'| is at
most |c|; else it may be above it by 2**-11 of it, which is 2**-21 r |c| here: the margin of the
products below has room for that.)

Radius and rho of the row are replaced by those of nearly all rows. Then the error bound belongs to
the center alone and is subtracted from |c|^2 beforehand: no score is above its truth, and the truth
of the smallest score is above it by two error bounds at most. The few larger rows are always
decided by canonical distances.

Tensor cores give x'.c' with exact products. Their model, from Hopper on: 16 products and the sum so
far are aligned to the largest exponent e among them, cut off below 2**(e - 25), added, and the
result is cut off to float32 (Khattak and Mikaitis, arXiv:2512.07004, and Xie et al.,
arXiv:2511.10909, both bit by bit against devices; Fasi et al., PeerJ Comput. Sci. 7:e330, for the
generations before). So 16 terms lose less than 2**-25 of |x'||c'| each and float32 no more than 3
of that, 19/16 d 2**-25 |x'||c'| in all; but a subnormal number counts with the exponent of the
smallest normal one, hence the 2**-14. products_error = 2 (d + 16) 2**-23 leaves a margin of more
than three (of 1.7 for Ampere and Ada: 8 products at a time, 24 bits).

With few columns (d <= 8) products are of no use: there the score is |x - c|^2 in float32, wrong by
(d + 8) 2**-23 of itself at most.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from wolfmeans.engines.gpu.kernels.opening import shorten, shorten_singles
from wolfmeans.engines.gpu.launching import UNFUSED, launch_as
from wolfmeans.engines.gpu.measuring import Measurement
from wolfmeans.engines.gpu.transfers import upload
from wolfmeans.exact.native import exponents_between

_LARGEST = 13
_LARGEST_SCALE = 400
_FEW = 8
_MANY_CLUSTERS = 2048
"""From here on, to find the scores of a group again costs less than to tell all scores apart."""
_HUGE, _TINY_SCALE, _TINY = 2.0**60, 2.0**-60, 2.0**-100
"""Within these, no product with the scale is too large or too small for float32."""


def _power_of_2(least: int) -> int:
    """Return the next one. Triton's own takes as long as an operation of PyTorch."""
    return 1 << (least - 1).bit_length()


def short_width(d: int) -> int:
    """Return how many columns the copy in short arithmetic has."""
    if d <= _FEW:
        return d
    if d <= 128:
        return max(16, _power_of_2(d))
    return -(-d // 64) * 64


def short_bytes(d: int) -> int:
    """Return how many bytes a row has there."""
    return short_width(d) * (4 if d <= _FEW else 2)


class Tile(NamedTuple):
    """How many scores a program of the screen works on at once."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int
    kept: int = 8
    """Scores of so many columns are kept; others share theirs."""
    group: int = 1
    """So many centers are counted as one."""


class Screened:
    """Points on the device with their copy in short arithmetic. Shared by forks, never changed."""

    def __init__(
        self,
        X: torch.Tensor,
        sizes: tuple[float, float] | None = None,
        sample: NDArray[np.floating] | None = None,
    ) -> None:
        self.X = X
        self.n, self.d = X.shape
        self.direct = self.d <= _FEW
        # The copy is the data, times a power of two: nothing is lost but what is below 2**-126.
        self.exact = self.direct and X.dtype == torch.float32
        self.width = short_width(self.d)
        if sizes is None or sample is None:
            sizes, sample, _ = Measurement(X).found()
        self.smallest, self.largest = sizes
        low, high = exponents_between(self.smallest, self.largest) or (0, 0)
        mantissa = 24 if X.dtype == torch.float32 else 53
        # Numbers are below 2**high and whole multiples of 2**lowest.
        self.high, self.lowest = high, low - mantissa
        self.digits = max(1, -(-(high - self.lowest) // 32))
        self.unit = high - 32 * self.digits
        self.noise: torch.Tensor | None = None
        """(64, 64) in [-1, 1], to make scores as wrong as they may be; for tests."""
        self._place(sample)
        self._shorten()
        self.products_error = 2.0 * (self.width + 16) * 2.0**-23
        # Distances that differ by more than this differ canonically.
        self.margin = 2.0**-38 * math.sqrt(self.d) * 2.0 ** (_LARGEST + 2)

    def _place(self, sample: NDArray[np.floating]) -> None:
        """Choose what is taken away of all points, the scale, and the radius of nearly all rows.

        Any choice is right; a sample gives a good one.
        """
        usual = self.largest
        if self.exact:
            # Nothing is taken away where nothing would be won, so that nothing is rounded.
            self.mu = _zeros(self.d, self.X.device)
        else:
            rows = np.asarray(sample, dtype=np.float64)
            middle = np.add.reduce(rows) / len(rows)
            if self.X.dtype == torch.float32:
                middle = middle.astype(np.float32).astype(np.float64)
            apart = rows - middle
            norms = np.einsum("ij,ij->i", apart, apart)
            norms.sort()
            # Beyond that are hardly any: of light tails by the largest seen, of others by most.
            usual = math.sqrt(min(4.0 * norms[int(0.99 * (len(norms) - 1))], 2.0 * norms[-1]))
            self.mu = upload(middle, self.X)
        extent = usual or self.largest or 1.0
        # A power of two, so that scaling rounds nothing. Not so large that it would tell apart what
        # canonical distances cannot, whose squares may be below all numbers.
        self.scale = 2.0 ** min(_LARGEST - math.frexp(extent)[1], _LARGEST_SCALE)
        self.radius = extent * self.scale

    def _shorten(self) -> None:
        n, device = self.n, self.X.device
        kind = torch.float32 if self.direct else torch.float16
        self.points = torch.empty((n, self.width), dtype=kind, device=device)
        self.sizes = torch.empty(n, dtype=torch.float32, device=device)
        self.errors = torch.empty(n, dtype=torch.float32, device=device)
        self.rho = self.shorten()
        """(1,) float32, the largest error of a row within the radius."""

    def shorten(self) -> torch.Tensor:
        """Launch kernels that copy the rows into short arithmetic; return the largest error."""
        worst = torch.zeros(1, dtype=torch.float32, device=self.X.device)
        columns = min(128, _power_of_2(self.width))
        rows = max(8, min(128, 2048 // columns))
        X = self.X
        given = (
            X, self.mu, self.points, self.sizes, self.errors, worst.view(torch.int32), self.n,
            self.d, self.width, self.scale, 1e15 if self.direct else 60000.0, self.radius**2,
        )  # fmt: skip
        tile = {"ROWS": rows, "COLUMNS": columns, "DIRECT": self.direct}
        # All other tensors begin where allocations do.
        kind = X.device, X.dtype, X.data_ptr() % 16, self.n, self.d
        programs = -(-self.n // rows)
        if self._in_singles():
            rounding = 0.0 if self.direct else 2.0**-24
            launch_as(kind, shorten_singles, programs, *given, rounding, **tile, **UNFUSED)
        else:
            launch_as(kind, shorten, programs, *given, **tile, **UNFUSED)
        return worst

    def _in_singles(self) -> bool:
        """Whether points can be copied in float32 arithmetic (`shorten_singles`)."""
        if self.X.dtype != torch.float32 or not _TINY_SCALE <= self.scale <= _HUGE:
            return False
        exact = not self.direct or self.smallest * self.scale >= _TINY
        return exact and 2.0 * self.largest * self.scale <= _HUGE

    def tile(self, n_clusters: int) -> Tile:
        """Return the tile that was fastest for such shapes on an H200."""
        wide = max(16, _power_of_2(n_clusters))
        if self.d > 128:
            return Tile(128, min(256, wide), 64, 8, 3)
        if self.d <= 16 or wide == 16:
            return Tile(128, 16, self.width, 4, 3)
        if self.d <= 32:
            return Tile(128, 32, self.width, 4, 3)
        if n_clusters > _MANY_CLUSTERS:
            return Tile(128, 128, self.width, 4, 3 if self.d <= 64 else 2, group=4)
        if self.d <= 64:
            return Tile(128, min(64, wide), self.width, 4, 3)
        return Tile(256, min(64, wide), self.width, 8, 2)


@cache
def _zeros(d: int, device: torch.device) -> torch.Tensor:
    """Return a few zeros, shared and never changed."""
    return torch.zeros(d, dtype=torch.float64, device=device)
