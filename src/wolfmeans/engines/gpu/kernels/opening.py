"""Kernels that a fit begins with: a first look at its data, and tensors made ready for anew."""

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
