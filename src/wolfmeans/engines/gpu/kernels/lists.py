"""What the kernels of a step have in common: their counters, and lists of rows that they fill.

Steps are launched ahead of knowing whether the run has ended, and do nothing once it has: kernels
look at `state[DONE]`, or at the length of a list that is empty then (all but that of the moved
rows). Lists are filled in any order; nothing that is computed from them depends on it.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Places in `state`, int32. The first two come right behind the rule (clusters).
AT_MOST = tl.constexpr(0)
KEEP_EMPTY = tl.constexpr(1)
DONE = tl.constexpr(2)
ACTIVE = tl.constexpr(3)
# Next to each other, so that one atomic of 64 bits counts both; MOVED is the lower half.
MOVED = tl.constexpr(4)
OPEN = tl.constexpr(5)
HARD = tl.constexpr(6)
CROWDED = tl.constexpr(7)
CLOSE = tl.constexpr(8)
INEXACT = tl.constexpr(9)
STEPS = tl.constexpr(10)
EMPTY = tl.constexpr(11)
EMPTIED = tl.constexpr(12)
ARRIVED = tl.constexpr(13)
LENGTHS = slice(ACTIVE.value, CLOSE.value + 1)
"""The lengths of all lists."""
# Places in `reach`: non-negative float32 as int32, which order alike.
LARGEST_ERROR = tl.constexpr(0)
LARGEST_SHIFT = tl.constexpr(1)

FAR = tl.constexpr(3.0e38)
"""Farther than anything; finite, so that bits can be written into it."""


@triton.jit
def append(list, counter, values, mask, second, second_values, PAIRED: tl.constexpr):
    """Put the masked values at the end of a list, one atomic for the block; return their places."""
    many = mask.to(tl.int32)
    place = tl.atomic_add(counter, tl.sum(many), sem="relaxed") + tl.cumsum(many, 0) - 1
    tl.store(list + place, values, mask=mask)
    if PAIRED:
        tl.store(second + place, second_values, mask=mask)
    return place


@triton.jit
def settle(decided, row, label, room, labels, slack, moved_rows, moved_from, state):
    """Write down labels and slacks that are known, and list the rows whose label is new."""
    old = tl.load(labels + row, mask=decided, other=0)
    # A value may be held by several threads: all have read it before one of them writes.
    tl.debug_barrier()
    tl.store(slack + row, room, mask=decided)
    new = decided & (label != old)
    tl.store(labels + row, label, mask=new)
    append(moved_rows, state + MOVED, row, new, moved_from, old, True)


@triton.jit
def append_both(lengths, first, second):
    """Return places for the rows at the ends of two lists, by one atomic; of up to 2**15 rows.

    lengths  IN/OUT  (1,) int64, the length of the first list in its lower half, of the second in
                     the upper one
    """
    both = first.to(tl.int32) | (second.to(tl.int32) << 16)
    many = tl.sum(both)
    before = tl.cumsum(both, 0) - both
    added = (many & 0xFFFF).to(tl.int64) | ((many >> 16).to(tl.int64) << 32)
    begin = tl.atomic_add(lengths, added, sem="relaxed")
    return begin.to(tl.int32) + (before & 0xFFFF), (begin >> 32).to(tl.int32) + (before >> 16)
