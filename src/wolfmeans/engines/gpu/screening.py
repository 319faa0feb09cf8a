"""The copy of the data in half precision that decides most labels, and how wrong it can be.

Let x' be the point (x - mu) s rounded to float16, c' the center likewise; both are exact numbers
from then on, and rho >= |(x - mu) s - x'| and gamma >= |(c - mu) s - c'| are measured, not
estimated. Tensor cores give x'.c' with exact products, added in float32 with an error of at most
(d + 16) 2**-23 |x'||c'|: their model is that of a sum of up to 16 products and the accumulator at a
time, aligned to the largest and cut off below 2**-25 of it, which is at most d 2**-24.9; a margin
of more than three is left.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton

from wolfmeans.exact_sums import exponents_between

_ROWS_AT_ONCE = 1 << 20
_LARGEST = 11
_FEW = 8


class Screened:
    """Points on the device with their copy in half precision. Shared by forks, never changed."""

    def __init__(self, X: torch.Tensor) -> None:
        self.X = X
        self.n, self.d = X.shape
        n, d, device = self.n, self.d, X.device
        parts = range(0, n, _ROWS_AT_ONCE)
        self.mu = sum(X[i : i + _ROWS_AT_ONCE].double().sum(0) for i in parts) / n
        extent, largest, smallest = 0.0, 0.0, math.inf
        for i in parts:
            part = X[i : i + _ROWS_AT_ONCE].double()
            magnitude = part.abs()
            largest = max(largest, float(magnitude.max()))
            nonzero = torch.where(magnitude > 0, magnitude, math.inf)
            smallest = min(smallest, float(nonzero.min()))
            extent = max(extent, float((part - self.mu).abs().max()))
        self.largest = largest
        # A power of two, so that scaling rounds nothing.
        exponent = _LARGEST - math.frexp(extent)[1] if extent > 0 else 0
        self.scale = 2.0**exponent
        self.direct = d <= _FEW
        if self.direct and X.dtype == torch.float32:
            # Nothing is taken away, so that nothing is rounded.
            self.mu = torch.zeros_like(self.mu)
            exponent = _LARGEST - math.frexp(largest)[1] if largest > 0 else 0
            self.scale = 2.0**exponent
        self.stride = d if self.direct else max(16, triton.next_power_of_2(d)) if d <= 128 else -(-d // 64) * 64
        short_type = torch.float32 if self.direct else torch.float16
        self.points = torch.zeros((n, self.stride), dtype=short_type, device=device)
        self.sizes = torch.empty(n, dtype=torch.float32, device=device)
        self.errors = torch.empty(n, dtype=torch.float32, device=device)
        for i in parts:
            rows = slice(i, min(n, i + _ROWS_AT_ONCE))
            exact = (X[rows].double() - self.mu) * self.scale
            short = exact.to(short_type)
            self.points[rows, :d] = short
            back = short.double()
            self.sizes[rows] = 0.0 if self.direct else (back * back).sum(1).float()
            self.errors[rows] = ((exact - back).norm(dim=1) * (1 + 2.0**-20)).float()
        # Distances that differ by more than this differ canonically.
        self.margin = 2.0**-40 * math.sqrt(d) * 2.0 ** (_LARGEST + 2)
        low, high = exponents_between(smallest, largest) or (0, 0)
        mantissa = 24 if X.dtype == torch.float32 else 53
        self.digits = max(1, -(-(high - (low - mantissa)) // 32))
        self.unit = high - 32 * self.digits
        self.digit_scale = 2.0 ** (32 - high)
        self.noise: Any = None

    def tile(self, n_clusters: int) -> tuple[int, int, int, int, int]:
        """Return rows, columns and depth of a tile, warps and stages."""
        if self.direct:
            return 128, 16, 1, 4, 2
        columns = min(64, max(16, triton.next_power_of_2(n_clusters)))
        if self.d <= 128:
            return 128, columns, self.stride, 4, 3
        return 128, min(128, max(16, triton.next_power_of_2(n_clusters))), 64, 8, 3

    def lows(self, reach: float) -> tuple[int, int, int]:
        """Return the lowest bits of sums of gaps, shifts and movements, for centers within reach."""
        widest = self.d * (self.largest + max(self.largest, reach)) ** 2
        top = math.frexp(widest)[1] + 1
        low = top - 53 - 32 * 8
        return low, low, low + self.n.bit_length()
