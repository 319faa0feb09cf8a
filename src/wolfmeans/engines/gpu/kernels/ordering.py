"""Kernels that read whole rows for the order of the rows: hashes, and where two rows differ."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def mix(z):
    """Return the last step of SplitMix64 of uint64."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return z ^ (z >> 31)


@triton.jit(do_not_specialize=["count"])
def hash_rows(X, rows, hashes, count, d, BLOCK: tl.constexpr, COLUMNS: tl.constexpr):
    """Write a hash of each of some rows; rows of equal values have equal hashes.

    rows    IN   (count,) int64, None for all in their order
    hashes  OUT  (count,) int64, the bits of the specification (exact.hashing)
    """
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    row = place
    if rows is not None:
        row = tl.load(rows + place, mask=inside, other=0)
    total = tl.zeros((BLOCK,), tl.uint64)
    for start in range(0, d, COLUMNS):
        j = start + tl.arange(0, COLUMNS)
        there = inside[:, None] & (j < d)[None, :]
        value = tl.load(X + row[:, None] * d + j[None, :], mask=there, other=0.0).to(tl.float64)
        key = mix((j + 1).to(tl.uint64) * 0x9E3779B97F4A7C15)
        mixed = mix(value.to(tl.uint64, bitcast=True) ^ key[None, :])
        # Zeros of both signs add nothing, nor do columns beyond the last, which are zeros here.
        total += tl.sum(tl.where(value != 0.0, mixed, 0), axis=1)
    tl.store(hashes + place, mix(total).to(tl.int64, bitcast=True), mask=inside)


@triton.jit(do_not_specialize=["count"])
def find_differences(
    X, rows, before, related, columns, count, d, BLOCK: tl.constexpr, COLUMNS: tl.constexpr
):
    """Write the first column in which each of some rows differs from another row.

    rows     IN   (count,) int64
    before   IN   (count,) int64, the row to compare with
    related  IN   (count,) int8, 0 where it is not needed
    columns  OUT  (count,) int64; d where the rows are equal, and where it is not needed
    """
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    asked = inside & (tl.load(related + place, mask=inside, other=0) != 0)
    row = tl.load(rows + place, mask=inside, other=0)
    other = tl.load(before + place, mask=inside, other=0)
    first = tl.full((BLOCK,), 0, tl.int32) + d
    start = 0
    left = tl.max(asked.to(tl.int32))
    while (start < d) & (left > 0):
        j = start + tl.arange(0, COLUMNS)
        there = (asked & (first == d))[:, None] & (j < d)[None, :]
        a = tl.load(X + row[:, None] * d + j[None, :], mask=there, other=0.0)
        b = tl.load(X + other[:, None] * d + j[None, :], mask=there, other=0.0)
        here = tl.min(tl.where(there & (a != b), j[None, :], d), axis=1)
        first = tl.minimum(first, here)
        left = tl.max((asked & (first == d)).to(tl.int32))
        start += COLUMNS
    tl.store(columns + place, first.to(tl.int64), mask=inside)
