"""Kernels that a fit begins with: magnitudes, the copy in short arithmetic, zeros and no labels."""

from __future__ import annotations

import triton
import triton.language as tl

INFINITY = tl.constexpr(0x7FF0000000000000)
"""Bits of it, in float64."""


@triton.jit
def _size_bits(x):
    return x.to(tl.uint32, bitcast=True) & 0x7FFFFFFF


@triton.jit
def _widened(bits):
    """Return the bits of the float64 that is the same number as a float32."""
    return bits.to(tl.float32, bitcast=True).to(tl.float64).to(tl.int64, bitcast=True)


@triton.jit(do_not_specialize=["size", "entries", "apart", "others", "head"])
def measure(
    X, beside, found, copies, size, entries, d, apart, others, head, BLOCK: tl.constexpr
):  # fmt: skip
    """Find the largest magnitude and the smallest one that is not 0, and copy some rows.

    X        IN   (size,) float32 or float64, rows of d
    beside   IN   (others,) other numbers of that type
    found    OUT  (2, programs) int64, what each program found: bits of the largest magnitude in
                  float64, and by how much those of infinity are above the bits of the smallest; 0
                  if there is none. Bits order like magnitudes. NaN counts as larger than infinity.
    copies   OUT  from `head` on: rows whose entries are `apart` from those of the row before, so
                  many entries; and all of `beside`
    """
    stride = tl.num_programs(0) * BLOCK
    first = tl.program_id(0).to(tl.int64) * BLOCK
    if X.dtype.element_ty == tl.float32:
        # Bits of float32 order like magnitudes, too. Those of 0, less one, are above all others.
        most = tl.zeros((BLOCK,), tl.uint32)
        least = tl.full((BLOCK,), 0xFFFFFFFF, tl.uint32)
        # Whole blocks without a mask, so that they are loaded four numbers at a time.
        whole = size // BLOCK * BLOCK
        for begin in range(first, whole, stride):
            bits = _size_bits(tl.load(X + begin + tl.arange(0, BLOCK)))
            most = tl.maximum(most, bits)
            least = tl.minimum(least, bits - 1)
        if tl.program_id(0) == 0:
            i = whole.to(tl.int64) + tl.arange(0, BLOCK)
            bits = _size_bits(tl.load(X + i, mask=i < size, other=0.0))
            most = tl.maximum(most, bits)
            least = tl.minimum(least, bits - 1)
        smallest = tl.min(least) + 1
        largest = _widened(tl.max(most))
        below = tl.where(smallest == 0, 0, tl.maximum(INFINITY - _widened(smallest), 0))
    else:
        many = tl.zeros((BLOCK,), tl.int64)
        under = tl.zeros((BLOCK,), tl.int64)
        for begin in range(first, size, stride):
            i = begin + tl.arange(0, BLOCK)
            x = tl.load(X + i, mask=i < size, other=0.0)
            bits = x.to(tl.int64, bitcast=True) & 0x7FFFFFFFFFFFFFFF
            many = tl.maximum(many, bits)
            under = tl.maximum(under, tl.where(bits == 0, 0, INFINITY - bits))
        largest, below = tl.max(many), tl.max(under)
    tl.store(found + tl.program_id(0), largest)
    tl.store(found + tl.num_programs(0) + tl.program_id(0), below)
    for begin in range(first, entries, stride):
        i = begin + tl.arange(0, BLOCK)
        row = i // d
        taken = tl.load(X + row * apart + (i - row * d), mask=i < entries, other=0.0)
        tl.store(copies + head + i, taken, mask=i < entries)
    for begin in range(first, others, stride):
        i = begin + tl.arange(0, BLOCK)
        taken = tl.load(beside + i, mask=i < others, other=0.0)
        tl.store(copies + head + entries + i, taken, mask=i < others)


@triton.jit(do_not_specialize=["n", "words"])
def clear(labels, slack, counts, n, sums, words, BLOCK: tl.constexpr):
    """Make the tensors of a step what they are at the beginning of a fit.

    labels  OUT  (n,) int32, -1
    slack   OUT  (n,) float32, -infinity
    counts  OUT  (n,) int32, 0
    sums    OUT  (words,) int64, 0: all that clusters have, whatever its type
    """
    first = tl.program_id(0).to(tl.int64) * BLOCK
    i = first + tl.arange(0, BLOCK)
    tl.store(labels + i, tl.full((BLOCK,), -1, tl.int32), mask=i < n)
    tl.store(slack + i, tl.full((BLOCK,), float("-inf"), tl.float32), mask=i < n)
    tl.store(counts + i, tl.zeros((BLOCK,), tl.int32), mask=i < n)
    for begin in range(first, words, tl.num_programs(0) * BLOCK):
        i = begin + tl.arange(0, BLOCK)
        tl.store(sums + i, tl.zeros((BLOCK,), tl.int64), mask=i < words)


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
