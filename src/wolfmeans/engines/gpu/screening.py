"""The copy of the data in short arithmetic that decides most labels, and how wrong it can be.

Let x' be the point (x - mu) s rounded to float16, and c' the center likewise. Both are exact
numbers from then on; rho >= |(x - mu) s - x'| and gamma >= |(c - mu) s - c'| are measured, not
estimated. The score of a center is |c|^2 - 2 x'.c', c without rounding, and its truth is
|c|^2 - 2 x.c, which is |x - c|^2 without a part that all centers have in common. They differ by at
most the doubt

    2 (r gamma + rho |c|) + products_error r max(|c'|, 2**-14) + score_error (|c|^2 + 2 r |c'|),

r = |x'|,

by Cauchy-Schwarz. Radius and rho of the row are replaced by those of nearly all rows, so that the
doubt belongs to the center alone and can be taken away of |c|^2 beforehand: then no score is above
its truth, and the truth of the smallest score is above it by two doubts at most. The few rows that
are larger are always looked at canonically.

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
from typing import NamedTuple

import numpy as np
import torch
import triton
from numpy.typing import NDArray

from wolfmeans.engines.gpu.kernels.copying import measure, shorten
from wolfmeans.engines.gpu.launching import PROGRAMS, UNFUSED, launch
from wolfmeans.engines.gpu.transfers import to_device, to_host
from wolfmeans.exact_sums import exponents_between
from wolfmeans.tensors import sampling_step

_LARGEST = 13
_LARGEST_SCALE = 400
_FEW = 8
_MOST_PINNED = 1 << 23
"""Bytes: PyTorch keeps pinned memory for ever."""


def looked_at(X: torch.Tensor) -> tuple[tuple[float, float], NDArray[np.floating]]:
    """Return the smallest magnitude that is not 0 and the largest, both 0 where all are; and rows.

    These are some, evenly spaced. One wait brings all of it.
    """
    found = torch.tensor([0.0, math.inf], dtype=torch.float64).to(X.device)
    block = 4096
    programs = min(PROGRAMS, triton.cdiv(X.numel(), block))
    launch(measure, programs, X, found.view(torch.int64), X.numel(), BLOCK=block, **UNFUSED)
    chosen = X[:: sampling_step(len(X))]
    if chosen.nbytes <= _MOST_PINNED:
        sizes, sample = to_host(found, chosen)
    else:
        sizes, sample = found.cpu().numpy(), chosen.cpu().numpy()
    largest, smallest = sizes.tolist()
    return ((0.0 if largest == 0 else smallest), largest), sample


def short_width(d: int) -> int:
    """Return how many columns the copy in short arithmetic has."""
    if d <= _FEW:
        return d
    if d <= 128:
        return max(16, triton.next_power_of_2(d))
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
    folded: bool = False
    """Whether two columns share what is kept of them."""


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
            sizes, sample = looked_at(X)
        smallest, self.largest = sizes
        low, high = exponents_between(smallest, self.largest) or (0, 0)
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
        # Nothing is taken away where nothing would be won, so that nothing is rounded.
        middle = np.zeros(self.d)
        usual = self.largest
        if not self.exact:
            rows = np.asarray(sample, dtype=np.float64)
            middle = rows.mean(axis=0)
            apart = rows - middle
            norms = np.sort(np.einsum("ij,ij->i", apart, apart))
            usual = 2.0 * math.sqrt(norms[int(0.99 * (len(norms) - 1))])
        self.mu = to_device(middle, self.X)
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
        """Launch what copies the rows into short arithmetic; return the largest error."""
        worst = torch.zeros(1, dtype=torch.float32, device=self.X.device)
        columns = min(128, triton.next_power_of_2(self.width))
        rows = max(8, min(512, 4096 // columns))
        launch(
            shorten, triton.cdiv(self.n, rows),
            self.X, self.mu, self.points, self.sizes, self.errors, worst.view(torch.int32), self.n,
            self.d, self.width, self.scale, 1e15 if self.direct else 60000.0, self.radius**2,
            ROWS=rows, COLUMNS=columns, DIRECT=self.direct, **UNFUSED,
        )  # fmt: skip
        return worst

    def tile(self, n_clusters: int) -> Tile:
        """Return the tile that was fastest for such shapes on an H200."""
        wide = max(16, triton.next_power_of_2(n_clusters))
        if self.d > 128:
            return Tile(128, min(128, wide), 64, 8, 4)
        if self.d <= 16 or wide == 16:
            return Tile(128, 16, self.width, 4, 3)
        columns = 32 if self.d <= 32 else min(64, wide)
        return Tile(128, columns, self.width, 4, 3 if self.d <= 64 else 2, folded=True)
