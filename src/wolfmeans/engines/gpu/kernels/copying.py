"""The kernel that copies the data into short arithmetic, once."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n"])
def shorten(
    X, mu, points, sizes, errors, worst, n, d, width, scale: tl.float64,
    bound: tl.float64, largest_square: tl.float64,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DIRECT: tl.constexpr,
):  # fmt: skip
    """Copy the points into short arithmetic and measure what that loses (screening).

    X       IN   (n, d)
    mu      IN   (d,) float64, what is taken away of every point
    points  OUT  (n, width) (X - mu) scale within ±bound, rounded; columns from d on become 0
    sizes   OUT  (n,) float32, squared norms rounded up; infinite beyond `largest_square`
    errors  OUT  (n,) float32, norms of what was lost, rounded up
    worst   OUT  (1,) int32, the largest error of a row within, as bits of a float32
    """
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = i < n
    row = i.to(tl.int64)
    square = tl.zeros((ROWS,), tl.float64)
    lost = tl.zeros((ROWS,), tl.float64)
    for start in range(0, width, COLUMNS):
        j = start + tl.arange(0, COLUMNS)
        there = inside[:, None] & (j < d)[None, :]
        x = tl.load(X + row[:, None] * d + j[None, :], mask=there, other=0.0).to(tl.float64)
        middle = tl.load(mu + j, mask=j < d, other=0.0)
        exact = tl.where(there, (x - middle[None, :]) * scale, 0.0)
        cut = tl.minimum(tl.maximum(exact, -bound), bound)
        short = cut.to(tl.float32) if DIRECT else cut.to(tl.float16)
        written = inside[:, None] & (j < width)[None, :]
        tl.store(points + row[:, None] * width + j[None, :], short, mask=written)
        rest = exact - short.to(tl.float64)
        square += tl.sum(exact * exact, axis=1)
        lost += tl.sum(rest * rest, axis=1)
    up = 1.0 + 2.0**-20
    error = tl.minimum(tl.sqrt(lost) * up, 1.0e37).to(tl.float32)
    within = square <= largest_square
    size = tl.minimum(square * up, 1.0e37).to(tl.float32)
    if not DIRECT:
        size = tl.where(within, size, float("inf"))
    tl.store(sizes + i, size, mask=inside)
    tl.store(errors + i, error, mask=inside)
    counted = tl.where(inside & within, error, 0.0)
    tl.atomic_max(worst, tl.max(counted).to(tl.int32, bitcast=True), sem="relaxed")
