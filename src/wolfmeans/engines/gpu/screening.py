"""The copy of the data in short arithmetic that decides most labels, and how wrong it can be.

Let x' be the point (x - mu) s rounded to float16, and c' the center likewise. Both are exact
numbers from then on; rho >= |(x - mu) s - x'| and gamma >= |(c - mu) s - c'| are measured, not
estimated. The score of a center is |c|^2 - 2 x'.c', c without rounding, and its truth is
|c|^2 - 2 x.c, which is |x - c|^2 without a part that all centers have in common. They differ by at
most the doubt

    2 (r gamma + rho |c|) + products_error r |c'| + score_error (|c|^2 + 2 r |c'|),    r = |x'|,

by Cauchy-Schwarz. Radius and rho of the row are replaced by those of nearly all rows, so that the
doubt belongs to the center alone and can be taken away of |c|^2 beforehand: then no score is above
its truth, and the truth of the smallest score is above it by two doubts at most. The few rows that
are larger are always looked at canonically.

Tensor cores give x'.c' with exact products, added in float32. Their model: up to 16 products and
the accumulator at a time, aligned to the largest of them and cut off below 2**-25 of it (Khattak
and Mikaitis 2025 for the H100; Fasi et al. 2021), which is d 2**-24.9 |x'||c'| in all.
products_error = 2 (d + 16) 2**-23 leaves a margin of more than three.

With few columns (d <= 8) products are of no use: there the score is |x - c|^2 in float32, wrong by
(d + 8) 2**-23 of itself at most.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton

from wolfmeans.exact_sums import exponents_between

_ROWS_AT_ONCE = 1 << 20
_SAMPLE = 1 << 14
_LARGEST = 13
_FEW = 8


class Tile(NamedTuple):
    """How many scores a program of the screen works on at once."""

    rows: int
    columns: int
    depth: int
    warps: int
    stages: int


class Screened:
    """Points on the device with their copy in short arithmetic. Shared by forks, never changed."""

    def __init__(self, X: torch.Tensor) -> None:
        self.X = X
        self.n, self.d = X.shape
        self.direct = self.d <= _FEW
        self.width = self._width()
        self.largest, smallest, exact_copy = self._measure()
        low, high = exponents_between(smallest, self.largest) or (0, 0)
        mantissa = 24 if X.dtype == torch.float32 else 53
        self.digits = max(1, -(-(high - (low - mantissa)) // 32))
        self.unit = high - 32 * self.digits
        self.digit_scale = 2.0 ** (32 - high)
        self.noise: torch.Tensor | None = None
        """(64, 64) in [-1, 1], to make scores as wrong as they may be; for tests."""
        self._shorten(exact_copy)
        self.products_error = 2.0 * (self.width + 16) * 2.0**-23
        # Distances that differ by more than this differ canonically.
        self.margin = 2.0**-38 * math.sqrt(self.d) * 2.0 ** (_LARGEST + 2)

    def _width(self) -> int:
        if self.direct:
            return self.d
        if self.d <= 128:
            return max(16, triton.next_power_of_2(self.d))
        return -(-self.d // 64) * 64

    def _parts(self) -> list[slice]:
        return [slice(i, min(self.n, i + _ROWS_AT_ONCE)) for i in range(0, self.n, _ROWS_AT_ONCE)]

    def _measure(self) -> tuple[float, float, bool]:
        """Find mean, scale and the radius of nearly all rows; return the magnitudes of the data."""
        X = self.X
        total = torch.zeros(self.d, dtype=torch.float64, device=X.device)
        largest, smallest = 0.0, math.inf
        for rows in self._parts():
            part = X[rows].double()
            total += part.sum(0)
            magnitude = part.abs()
            largest = max(largest, float(magnitude.max()))
            smallest = min(smallest, float(torch.where(magnitude > 0, magnitude, math.inf).min()))
        # Nothing is taken away where nothing would be won, so that nothing is rounded.
        exact = self.direct and X.dtype == torch.float32
        self.mu = torch.zeros_like(total) if exact else total / self.n
        sample = X[:: max(1, self.n // _SAMPLE)].double() - self.mu
        usual = 2.0 * float(sample.norm(dim=1).quantile(0.99)) if not exact else largest
        extent = usual if usual > 0 else max(largest, smallest if smallest < math.inf else 1.0)
        # A power of two, so that scaling rounds nothing.
        self.scale = 2.0 ** (_LARGEST - math.frexp(extent)[1])
        self.radius = extent * self.scale
        return largest, 0.0 if largest == 0 else smallest, exact

    def _shorten(self, exact_copy: bool) -> None:
        n, d, device = self.n, self.d, self.X.device
        kind = torch.float32 if self.direct else torch.float16
        bound = 1e15 if self.direct else 60000.0
        self.points = torch.zeros((n, self.width), dtype=kind, device=device)
        self.sizes = torch.zeros(n, dtype=torch.float32, device=device)
        self.errors = torch.zeros(n, dtype=torch.float32, device=device)
        up = 1.0 + 2.0**-20
        for rows in self._parts():
            exact = (self.X[rows].double() - self.mu) * self.scale
            short = exact.clamp(-bound, bound).to(kind)
            self.points[rows, :d] = short
            self.sizes[rows] = ((exact * exact).sum(1) * up).float()
            self.errors[rows] = ((exact - short.double()).norm(dim=1) * up).float()
        small = self.sizes <= self.radius**2
        self.rho = float(self.errors[small].max()) if bool(small.any()) else 0.0
        if not self.direct:
            self.sizes[~small] = math.inf

    def tile(self, n_clusters: int) -> Tile:
        """Return the tile that was fastest for such shapes on an H200."""
        wide = max(16, triton.next_power_of_2(n_clusters))
        if self.direct:
            return Tile(128, 16, 1, 4, 2)
        if self.d <= 32:
            return Tile(128, min(32, wide), self.width, 4, 3)
        if self.d <= 128:
            return Tile(128, min(64, wide), self.width, 4, 3)
        return Tile(128, min(128, wide), 64, 8, 3)
