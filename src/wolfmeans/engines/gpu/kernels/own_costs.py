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


@triton.jit(do_not_specialize=["n"])
def find_costs(X, centers, labels, out, n, d, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """Write the canonical distance of each point to the center of its label.

    labels  IN   (n,) int32, or one center for all points where it is None
    out     OUT  (n,) float64
    WIDTH   IN   4, 8, 16 or 32
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = X + i.to(tl.int64) * d
    c = centers + tl.zeros((BLOCK,), tl.int64)
    if labels is not None:
        c += tl.load(labels + i, mask=inside, other=0).to(tl.int64) * d
    many = inside[:, None]
    column = tl.arange(0, WIDTH)[None, :]
    total = tl.zeros((BLOCK,), tl.float64)
    whole = d // WIDTH * WIDTH
    for start in range(0, whole, WIDTH):
        a = tl.load(x[:, None] + (start + column), mask=many, other=0.0)
        b = tl.load(c[:, None] + (start + column), mask=many, other=0.0)
        difference = a.to(tl.float64) - b.to(tl.float64)
        total = _add_in_order(total, difference * difference, WIDTH)
    for j in range(whole, d):
        a = tl.load(x + j, mask=inside, other=0.0)
        b = tl.load(c + j, mask=inside, other=0.0)
        difference = a.to(tl.float64) - b.to(tl.float64)
        total = total + difference * difference
    tl.store(out + i, total, mask=inside)


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
