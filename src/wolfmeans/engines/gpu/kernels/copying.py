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


@triton.jit(do_not_specialize=["n"])
def shorten_singles(
    X, mu, points, sizes, errors, worst, n, d, width, scale: tl.float32, bound: tl.float32,
    largest_square: tl.float64, rounding: tl.float32,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DIRECT: tl.constexpr,
):  # fmt: skip
    """Do what `shorten` does, of float32 numbers and in float32.

    mu        IN  numbers of float32
    scale     IN  a power of two; products with it are 0 or between 2**-100 and 2**60 in magnitude
                  where nothing is taken away, and at most 2**60 otherwise
    rounding  IN  2**-24; 0 where mu is 0, so that nothing is rounded

    Let u = 2**-24. A number (x - mu) scale is rounded once, by u of itself: so the norm of all that
    is lost is at most that of what shortening loses plus u |x'|. Its square is rounded by 3 u in
    all, and three times when four of them are added up, in whatever order: 6 u. What is added to
    that in float64 is nothing. Rounded up by 8 u and then to float32, a size is above the truth, by
    less than 16 u = 2**-20. Sums of squares of what is lost only have to be large enough. Squares
    below 2**-126 may vanish: that is 2**-56 of a norm at most, and nothing beside the error bound
    of a score.
    """
    i = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inside = i < n
    row = i.to(tl.int64)
    square = tl.zeros((ROWS,), tl.float64)
    lost = tl.zeros((ROWS,), tl.float32)
    for start in range(0, width, COLUMNS):
        j = start + tl.arange(0, COLUMNS)
        there = inside[:, None] & (j < d)[None, :]
        x = tl.load(X + row[:, None] * d + j[None, :], mask=there, other=0.0)
        middle = tl.load(mu + j, mask=j < d, other=0.0).to(tl.float32)
        near = (x - middle[None, :]) * scale
        # Of rows that are not there nothing is written.
        cut = tl.minimum(tl.maximum(near, -bound), bound)
        short = cut if DIRECT else cut.to(tl.float16)
        written = inside[:, None] & (j < width)[None, :]
        tl.store(points + row[:, None] * width + j[None, :], short, mask=written)
        rest = near - short.to(tl.float32)
        squares = near * near
        if COLUMNS >= 4:
            fours = tl.reshape(squares, (ROWS, COLUMNS // 4, 4))
            square += tl.sum(tl.sum(fours, axis=2).to(tl.float64), axis=1)
        else:
            square += tl.sum(squares.to(tl.float64), axis=1)
        lost += tl.sum(rest * rest, axis=1)
    square = square * (1.0 + 2.0**-21)
    within = square <= largest_square
    size = tl.minimum(square, 1.0e37).to(tl.float32)
    # Any order of adding up d squares loses less than (d + 4) u of the sum, square roots 4 u.
    up = 1.0 + (d + 16.0) * 2.0**-24
    error = tl.sqrt(lost) * up
    if rounding != 0.0:
        error += tl.sqrt(size) * (rounding * (1.0 + 2.0**-20)) + 2.0**-56
    error = tl.minimum(error, 1.0e37)
    if not DIRECT:
        size = tl.where(within, size, float("inf"))
    tl.store(sizes + i, size, mask=inside)
    tl.store(errors + i, error, mask=inside)
    counted = tl.where(inside & within, error, 0.0)
    most = tl.max(counted).to(tl.int32, bitcast=True)
    # What is there may be out of date, which costs an atomic, no more.
    if most > tl.load(worst):
        tl.atomic_max(worst, most, sem="relaxed")
