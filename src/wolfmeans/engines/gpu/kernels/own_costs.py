"""Canonical distances of all rows to their own centers, and their exact sum.

A canonical distance adds up its squares in order (`recheck.canonical`): one thread for each row.
But a thread that reads its row by itself makes the processor fetch memory in pieces of 16 bytes.
Here rows are read side by side, squares are found where they arrive, and exchanged between threads
so that each has those of a row; then they are added up in order as before: the same bits.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.exact import deposit_terms
from wolfmeans.engines.gpu.kernels.lists import DONE, INEXACT, MOVED


@triton.jit
def _four(x):
    """Return the columns of a (B, 4) tensor."""
    even, odd = tl.split(tl.reshape(x, (x.shape[0], 2, 2)))
    x0, x2 = tl.split(even)
    x1, x3 = tl.split(odd)
    return x0, x1, x2, x3


@triton.jit
def _eight(x):
    """Return the columns of a (B, 8) tensor."""
    even, odd = tl.split(tl.reshape(x, (x.shape[0], 4, 2)))
    x0, x2, x4, x6 = _four(even)
    x1, x3, x5, x7 = _four(odd)
    return x0, x1, x2, x3, x4, x5, x6, x7


@triton.jit
def _sixteen(x):
    """Return the columns of a (B, 16) tensor."""
    even, odd = tl.split(tl.reshape(x, (x.shape[0], 8, 2)))
    x0, x2, x4, x6, x8, x10, x12, x14 = _eight(even)
    x1, x3, x5, x7, x9, x11, x13, x15 = _eight(odd)
    return x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15


@triton.jit
def _add_in_order(total, x, WIDTH: tl.constexpr):
    """Add the columns of a (B, WIDTH) tensor to a sum, one after the other."""
    if WIDTH == 4:
        x0, x1, x2, x3 = _four(x)
        total = total + x0 + x1 + x2 + x3
    elif WIDTH == 8:
        x0, x1, x2, x3, x4, x5, x6, x7 = _eight(x)
        total = total + x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7
    elif WIDTH == 16:
        x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15 = _sixteen(x)
        total = total + x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7
        total = total + x8 + x9 + x10 + x11 + x12 + x13 + x14 + x15
    else:
        even, odd = tl.split(tl.reshape(x, (x.shape[0], 16, 2)))
        x0, x2, x4, x6, x8, x10, x12, x14, y0, y2, y4, y6, y8, y10, y12, y14 = _sixteen(even)
        x1, x3, x5, x7, x9, x11, x13, x15, y1, y3, y5, y7, y9, y11, y13, y15 = _sixteen(odd)
        total = total + x0 + x1 + x2 + x3 + x4 + x5 + x6 + x7
        total = total + x8 + x9 + x10 + x11 + x12 + x13 + x14 + x15
        total = total + y0 + y1 + y2 + y3 + y4 + y5 + y6 + y7
        total = total + y8 + y9 + y10 + y11 + y12 + y13 + y14 + y15
    return total


@triton.jit
def _squares(x, c, mask):
    difference = x.to(tl.float64) - tl.load(c, mask=mask, other=0.0).to(tl.float64)
    return difference * difference


@triton.jit
def distances_in_order(x, c, c2, inside, d, WIDTH: tl.constexpr, EVEN: tl.constexpr):
    """Return canonical distances of rows to a center each, and to another one.

    x, c, c2  IN  (B,) pointers to first coordinates; c2 may be None, for none
    inside    IN  (B,) which of the rows are there; 0 for others
    WIDTH     IN  4, 8, 16 or 32: how many columns are read at once
    EVEN      IN  whether d is a multiple of that
    """
    total = tl.zeros(inside.shape, tl.float64)
    total2 = total
    for start in range(0, d, WIDTH):
        j = start + tl.arange(0, WIDTH)[None, :]
        many = inside[:, None]
        if not EVEN:
            # Columns that are not there add 0, which leaves a sum that is not negative as it is.
            many = many & (j < d)
        numbers = tl.load(x[:, None] + j, mask=many, other=0.0)
        total = _add_in_order(total, _squares(numbers, c[:, None] + j, many), WIDTH)
        if c2 is not None:
            total2 = _add_in_order(total2, _squares(numbers, c2[:, None] + j, many), WIDTH)
    return total, total2


@triton.jit(do_not_specialize=["n"])
def find_costs(
    X, centers, labels, out, n, d, BLOCK: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr
):
    """Write the canonical distance of each point to the center of its label.

    labels  IN   (n,) int32, or one center for all points where it is None
    out     OUT  (n,) float64
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    k = tl.zeros((BLOCK,), tl.int64)
    if labels is not None:
        k = tl.load(labels + i, mask=inside, other=0).to(tl.int64)
    x = X + i.to(tl.int64) * d
    distance, _ = distances_in_order(x, centers + k * d, None, inside, d, WIDTH, EVEN)
    tl.store(out + i, distance, mask=inside)


@triton.jit(do_not_specialize=["low", "n"])
def add_costs(costs, weights, sums, low, inexact, n, BLOCK: tl.constexpr):
    """Add costs, weighted, to one exact sum: a few atomics for many of them.

    weights  IN   (n,) float64, None for ones
    sums     OUT  (LIMBS,) int64 (deposit_terms)
    """
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    terms = tl.load(costs + i, mask=inside, other=0.0)
    if weights is not None:
        terms = tl.load(weights + i, mask=inside, other=0.0) * terms
    deposit_terms(terms, inside, sums, low, inexact)


@triton.jit(do_not_specialize=["low"])
def sum_gap(
    state, X, weights, centers, labels, moved_rows, moved_from, gap, low, d, BLOCK: tl.constexpr,
    WIDTH: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    """Add up what the moved points gain: canonical distance to the old center minus to the new.

    weights  IN  (n,) float64, None for ones
    """
    if tl.load(state + DONE) != 0:
        return
    count = tl.load(state + MOVED)
    for begin in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
        place = begin + tl.arange(0, BLOCK)
        inside = place < count
        row = tl.load(moved_rows + place, mask=inside, other=0).to(tl.int64)
        old = tl.load(moved_from + place, mask=inside, other=-1)
        new = tl.load(labels + row, mask=inside, other=0).to(tl.int64)
        inside = inside & (old >= 0)
        if tl.max(inside.to(tl.int32)) > 0:
            after, before = centers + new * d, centers + tl.maximum(old, 0).to(tl.int64) * d
            near, far = distances_in_order(X + row * d, after, before, inside, d, WIDTH, EVEN)
            terms = far - near
            if weights is not None:
                terms = tl.load(weights + row, mask=inside, other=0.0) * terms
            deposit_terms(terms, inside, gap, low, state + INEXACT)
