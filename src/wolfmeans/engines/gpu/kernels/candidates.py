"""Kernels that choose the points that are tried as one more center, without sorting all of them.

Half of the candidates are the farthest points. The farthest of each of some thousand groups of rows
tell how far they are at least, and only groups that reach so far are read again. The other
half are evenly spaced in the order of values, which the first column decides nearly everywhere.

What this leaves open, ties mostly, is not guessed: `GIVEN_UP` is set.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Places in `found`, int64.
ELIGIBLE = tl.constexpr(0)
GIVEN_UP = tl.constexpr(1)
PAIRS = tl.constexpr(2)
INEXACT = tl.constexpr(3)
FOUND = 4
"""How many there are."""

MOST_GROUPS = 8192
MOST_FAR_GROUPS = 512
MOST_FAR = 4096
"""Far points that are read, in so many groups."""
_MOST_GROUPS = tl.constexpr(MOST_GROUPS)
_MOST_FAR_GROUPS = tl.constexpr(MOST_FAR_GROUPS)
_MOST_FAR = tl.constexpr(MOST_FAR)
_HALF_WINDOW = tl.constexpr(64)


@triton.jit(do_not_specialize=["n", "size"])
def survey(X, distances, masses, keys, highest, found, n, d, size, BLOCK: tl.constexpr):
    """Find out which points may be candidates, and how far the farthest of each group is.

    distances  IN   (n,) float64, to the nearest center
    masses     IN   (n,) float64, what counts of each point, None for ones
    keys       OUT  (n,) the first column, infinite for points that are no candidates
    highest    OUT  (groups,) int64, bits of the largest distance of a candidate; 0 without one
    found      OUT  ELIGIBLE: how many candidates there are; it begins as 0
    size       IN   of a group
    """
    group = tl.program_id(0).to(tl.int64)
    top = tl.zeros((BLOCK,), tl.int64)
    many = tl.zeros((BLOCK,), tl.int64)
    for begin in range(0, size, BLOCK):
        place = begin + tl.arange(0, BLOCK)
        i = group * size + place
        inside = (place < size) & (i < n)
        distance = tl.load(distances + i, mask=inside, other=0.0)
        eligible = inside & (distance > 0.0)
        if masses is not None:
            eligible &= tl.load(masses + i, mask=inside, other=0.0) > 0.0
        # Zeros of both signs are the same.
        x = tl.load(X + i * d, mask=inside, other=0.0) + 0.0
        tl.store(keys + i, tl.where(eligible, x, float("inf")), mask=inside)
        top = tl.maximum(top, tl.where(eligible, distance.to(tl.int64, bitcast=True), 0))
        many += eligible.to(tl.int64)
    tl.store(highest + group, tl.max(top))
    tl.atomic_add(found + ELIGIBLE, tl.sum(many), sem="relaxed")


@triton.jit
def _largest_that_reach(values, many, BITS: tl.constexpr):
    """Return the largest number of so many bits that at least `many` of the values reach."""
    border = tl.full((), 0, values.dtype)
    one = tl.full((), 1, values.dtype)
    for bit in range(BITS):
        higher = border | (one << (BITS - 1 - bit))
        reach = tl.sum((values >= higher).to(tl.int32))
        border = tl.where(reach >= many, higher, border)
    return border


@triton.jit
def _choose_far(
    distances, keys, highest, far_groups, far_rows, far, rows, found, n, groups, size,
    HALF: tl.constexpr,
):  # fmt: skip
    """Write the HALF farthest candidates; give up where a tie would have to decide.

    As many groups as there are rows to choose have one that is as far as the border; so have the
    HALF farthest rows. The border has the first 31 bits of a distance, which is less.
    """
    group = tl.arange(0, _MOST_GROUPS)
    top = (tl.load(highest + group, mask=group < groups, other=0) >> 32).to(tl.int32)
    border = tl.maximum(_largest_that_reach(top, HALF, 31), 1)
    reaches = top >= border
    slot = tl.cumsum(reaches.to(tl.int32), 0) - 1
    tl.store(far_groups + slot, group.to(tl.int64), mask=reaches & (slot < _MOST_FAR_GROUPS))
    many = tl.sum(reaches.to(tl.int32))
    tl.debug_barrier()
    listed = 0
    last = tl.minimum(many, _MOST_FAR_GROUPS) * size
    for begin in range(0, last, _MOST_FAR):
        at = begin + tl.arange(0, _MOST_FAR)
        inside = at < last
        row = tl.load(far_groups + at // size, mask=inside, other=0) * size + at % size
        inside &= row < n
        eligible = tl.load(keys + row, mask=inside, other=float("inf")) < float("inf")
        distance = tl.load(distances + row, mask=inside, other=0.0).to(tl.int64, bitcast=True)
        takes_part = inside & eligible & ((distance >> 32).to(tl.int32) >= border)
        place = listed + tl.cumsum(takes_part.to(tl.int32), 0) - 1
        room = takes_part & (place < _MOST_FAR)
        tl.store(far_rows + place, row, mask=room)
        tl.store(far + place, distance, mask=room)
        listed += tl.sum(takes_part.to(tl.int32))
    tl.debug_barrier()
    number = tl.arange(0, _MOST_FAR)
    bits = tl.load(far + number, mask=number < listed, other=0)
    exact = _largest_that_reach(bits, HALF, 63)
    chosen = (number < listed) & (bits >= exact)
    if (many > _MOST_FAR_GROUPS) | (listed > _MOST_FAR) | (tl.sum(chosen.to(tl.int32)) != HALF):
        tl.store(found + GIVEN_UP, tl.full((), 1, tl.int64))
    else:
        spot = HALF + tl.cumsum(chosen.to(tl.int32), 0) - 1
        tl.store(rows + spot, tl.load(far_rows + number, mask=chosen, other=0), mask=chosen)


@triton.jit
def _choose_spread(X, keys, order, rows, found, number, m, d, HALF: tl.constexpr):
    """Write one of HALF candidates, evenly spaced in the order of values, as `np.linspace` does.

    Rows that share the first column with it are put in order by the second one; give up where that
    does not do, or where they are too many.
    """
    place = tl.full((), 0, tl.int64)
    if HALF > 1:
        step = (m - 1).to(tl.float64) / (HALF - 1)
        place = (number.to(tl.float64) * step).to(tl.int64)
        place = tl.where(number == HALF - 1, m - 1, place)
    p = place - _HALF_WINDOW + tl.arange(0, 2 * _HALF_WINDOW)
    inside = (p >= 0) & (p < m)
    mine = tl.load(keys + place)
    same = inside & (tl.load(keys + p, mask=inside, other=float("inf")) == mine)
    first = tl.min(tl.where(same, p, m))
    last = tl.max(tl.where(same, p, -1))
    # A group that fills the window to one of its ends may go on there.
    open_end = ((first > 0) & (first == place - _HALF_WINDOW)) | (
        (last < m - 1) & (last == place + _HALF_WINDOW - 1)
    )
    row = tl.load(order + p, mask=same, other=0)
    second = tl.zeros(row.shape, X.dtype.element_ty)
    if d > 1:
        second = tl.load(X + row * d + 1, mask=same, other=0.0) + 0.0
    equal = same[None, :] & (second[:, None] == second[None, :])
    before = same[None, :] & (second[None, :] < second[:, None])
    if d <= 2:
        # Equal rows are in the order of their numbers.
        before |= equal & (p[None, :] < p[:, None])
    chosen = same & (tl.sum(before.to(tl.int32), axis=1) == (place - first).to(tl.int32))
    # Rows that two columns do not tell apart are chosen together, or none of them is.
    if open_end | (tl.sum(chosen.to(tl.int32)) != 1):
        tl.store(found + GIVEN_UP, tl.full((), 1, tl.int64))
    else:
        tl.store(rows + number, tl.sum(tl.where(chosen, row, 0)))


@triton.jit(do_not_specialize=["n", "groups", "size", "most"])
def choose(
    X, distances, keys, sorted_keys, order, highest, far_groups, far_rows, far, rows, found, n, d,
    groups, size, most, HALF: tl.constexpr,
):  # fmt: skip
    """Choose the candidates, one of them or all far ones in a program.

    sorted_keys  IN   (n,) keys (survey) in their order
    order        IN   (n,) int64, the rows in that order, those of equal keys in their own
    far_groups   TMP  (MOST_FAR_GROUPS,) int64
    far_rows     TMP  (MOST_FAR,) int64; far likewise
    rows         OUT  (2 HALF,) int64, spread ones, then far ones; a row may be among both
    found        OUT  GIVEN_UP: set where they are not what the specification says
    most         IN   candidates are all tried where they are no more than that: given up, too
    """
    number = tl.program_id(0)
    m = tl.load(found + ELIGIBLE)
    if m <= most:
        tl.store(found + GIVEN_UP, tl.full((), 1, tl.int64))
    else:
        if number == HALF:
            _choose_far(
                distances, keys, highest, far_groups, far_rows, far, rows, found, n, groups, size,
                HALF,
            )  # fmt: skip
        else:
            _choose_spread(X, sorted_keys, order, rows, found, number, m, d, HALF)
