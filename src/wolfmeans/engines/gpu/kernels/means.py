"""Kernels that end a step: means of the sums, what the next assignment needs of them, the record.

Launched with `enable_fp_fusion=False`: each operation is rounded by itself.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.bounds import rate, shortened
from wolfmeans.engines.gpu.kernels.exact import LIMBS as _LIMBS
from wolfmeans.engines.gpu.kernels.exact import ROOM as _ROOM
from wolfmeans.engines.gpu.kernels.exact import (
    deposit_at_once,
    mean_and_residual,
    rounded_sum,
    short_mean_and_residual,
)
from wolfmeans.engines.gpu.kernels.lists import (
    ACTIVE,
    ARRIVED,
    AT_MOST,
    CLOSE,
    CROWDED,
    DONE,
    EMPTIED,
    EMPTY,
    HARD,
    INEXACT,
    KEEP_EMPTY,
    LARGEST_ERROR,
    LARGEST_SHIFT,
    MOVED,
    OPEN,
    STEPS,
)

LIMBS, ROOM = tl.constexpr(_LIMBS), tl.constexpr(_ROOM)


@triton.jit
def _parts(sums, number, slot, inside, slots, REPLICAS: tl.constexpr):
    """Return one digit of some sums, or some counts: (REPLICAS, B), or (B,) of them."""
    if REPLICAS == 1:
        parts = tl.load(sums + number * slots + slot, mask=inside, other=0)
    else:
        replica = tl.arange(0, REPLICAS)[:, None].to(tl.int64)
        places = sums + (number * REPLICAS + replica) * slots + slot[None, :]
        parts = tl.load(places, mask=inside[None, :] & (replica >= 0), other=0)
    return parts


@triton.jit
def _together(parts, REPLICAS: tl.constexpr):
    if REPLICAS > 1:
        parts = tl.sum(parts, axis=0)
    return parts


@triton.jit
def _read(sums, centers, mu, k, j, K, d, DIGITS: tl.constexpr, REPLICAS: tl.constexpr):
    """Return parts of the sums, where they have no more than two digits, the centers, and `mu`."""
    inside = (k < K) & (j < d)
    slot = k * d + j
    high = slot
    low = slot
    if DIGITS <= 2:
        low = _parts(sums, DIGITS - 1, slot, inside, K * d, REPLICAS)
    if DIGITS == 2:
        high = _parts(sums, 0, slot, inside, K * d, REPLICAS)
    given = tl.load(centers + slot, mask=inside, other=0.0)
    return high, low, given, tl.load(mu + j, mask=inside, other=0.0)


@triton.jit(do_not_specialize=["gap_low", "shift_low", "movement_low", "unit", "K"])
def find_means(
    state, sums, arrivals, folded, centers, before, means, residuals, weights, mu, short_centers,
    norms, error_bounds, shifts, reach, next_reach, moments, records, rule, gap_low, shift_low,
    movement_low, unit, scale: tl.float64, radius, rounding, products_error, score_error,
    K, d, width, DIGITS: tl.constexpr, REPLICAS: tl.constexpr, CLUSTERS: tl.constexpr,
    COLUMNS: tl.constexpr, MORE: tl.constexpr, DIRECT: tl.constexpr,
):  # fmt: skip
    """Round the means of the clusters, and do all that is left of the step, up to the next one.

    A program has CLUSTERS of them, COLUMNS at a time if there are MORE. The last one to get there
    writes the record.

    sums        IN   (DIGITS, REPLICAS, K d) int64
    arrivals    IN   (REPLICAS, K) int64, how many points each cluster has
    folded      OUT  (DIGITS, K d) int64, where there are more than two digits, and replicas
    before      OUT  (K, d), the centers of this assignment
    means       OUT  (K, d) in the centers' dtype; the given center where a cluster has no points
    residuals   OUT  (K, d) float64, exact mean minus `means`
    weights     OUT  (K,) float64
    next_reach  OUT  as `reach` of this step, which is cleared

    The others are those of `screen.prepare_centers` and of `conclude`.
    """
    # Nothing of what is read depends on whether the run has ended: all of it is on its way at once,
    # if a barrier keeps the compiler from reading it later.
    done = tl.load(state + DONE)
    k = tl.program_id(0) * CLUSTERS + tl.arange(0, CLUSTERS)
    there = k < K
    members = _parts(arrivals, 0, k, there, K, REPLICAS)
    rho = tl.load(rounding).to(tl.float64)
    place = tl.arange(0, CLUSTERS * COLUMNS)
    own = tl.program_id(0) * CLUSTERS + place // COLUMNS
    slots = K * d
    high, low, given, middle = _read(
        sums, centers, mu, own, place % COLUMNS, K, d, DIGITS, REPLICAS
    )
    tl.debug_barrier()
    if done != 0:
        return
    members = _together(members, REPLICAS)
    tl.store(weights + k, members.to(tl.float64), mask=there)
    empty = tl.sum((there & (members == 0)).to(tl.int32))
    tl.atomic_add(state + EMPTIED, empty, mask=empty > 0, sem="relaxed")
    columns = tl.broadcast_to(members[:, None], (CLUSTERS, COLUMNS))
    members = tl.reshape(columns, (CLUSTERS * COLUMNS,))
    divisor, weight = tl.maximum(members, 1), members.to(tl.float64)
    squares = tl.zeros((CLUSTERS, 2, 2), tl.float64)
    for start in range(0, d, COLUMNS):
        j = start + place % COLUMNS
        inside = (own < K) & (j < d)
        slot = own * d + j
        if DIGITS <= 2:
            first = _together(high, REPLICAS) if DIGITS == 2 else tl.zeros_like(divisor)
            last = _together(low, REPLICAS)
            mean, rest = short_mean_and_residual(first, last, divisor, unit)
        elif REPLICAS == 1:
            mean, rest = mean_and_residual(sums, slot, inside, divisor, unit, DIGITS, slots, 1)
        else:
            for digit in tl.static_range(DIGITS):
                total = _together(_parts(sums, digit, slot, inside, slots, REPLICAS), REPLICAS)
                tl.store(folded + digit * slots + slot, total, mask=inside)
            tl.debug_barrier()  # other threads read them
            mean, rest = mean_and_residual(folded, slot, inside, divisor, unit, DIGITS, slots, 1)
        new, step, gain = arrive(slot, inside, mean, rest, weight, given, means, residuals)
        tl.store(before + slot, given, mask=inside)
        deposit_at_once(step, gain, inside, moments + ROOM, shift_low, movement_low)
        wide = new.to(tl.float64)
        moved = (wide - given.to(tl.float64)) * scale
        exact = tl.where(inside, (wide - middle) * scale, 0.0)
        short = shortened(exact, DIRECT)
        tl.store(short_centers + own * width + j, short, mask=inside)
        lost = exact - short.to(tl.float64)
        # Together, as each sum over other threads makes all wait for it.
        far = moved * moved
        parts = tl.join(tl.join(exact * exact, lost * lost), tl.join(far, far))
        squares += tl.sum(tl.reshape(parts, (CLUSTERS, COLUMNS, 2, 2)), axis=1)
        if MORE:
            high, low, given, middle = _read(
                sums, centers, mu, own, COLUMNS + j, K, d, DIGITS, REPLICAS
            )
    norm_and_error, twice = tl.split(squares)
    norm, error = tl.split(norm_and_error)
    far, _ = tl.split(twice)
    wrong, far = rate(
        k,
        there,
        norm,
        error,
        far,
        norms,
        error_bounds,
        shifts,
        radius,
        rho,
        products_error,
        score_error,
    )
    wrong, far = tl.max(tl.where(there, wrong, 0)), tl.max(tl.where(there, far, 0))
    tl.atomic_max(next_reach + LARGEST_ERROR, wrong, sem="relaxed")
    tl.atomic_max(next_reach + LARGEST_SHIFT, far, sem="relaxed")
    tl.debug_barrier()  # all that this program did comes before it says so
    ticket = tl.atomic_add(state + ARRIVED, 1, sem="acq_rel")
    if ticket == tl.num_programs(0) - 1:
        empty = tl.load(state + EMPTIED, cache_modifier=".cg")
        conclude(state, reach, moments, gap_low, shift_low, movement_low, records, rule, empty)
        tl.store(state + EMPTIED, 0)
        tl.store(state + ARRIVED, 0)


@triton.jit
def arrive(slot, inside, mean, rest, weight, given, means, residuals):
    """Write down means and residuals; return the means, squares of the steps, and what they gain.

    weight  IN  (B,) float64, what the cluster of each of them weighs
    given   IN  (B,) the centers
    """
    full = inside & (weight > 0.0)
    new = tl.where(full, mean.to(given.dtype), given)
    residual = tl.where(full, mean - new.to(tl.float64) + rest, 0.0)
    tl.store(means + slot, new, mask=inside)
    tl.store(residuals + slot, residual, mask=inside)
    move = tl.where(full, new.to(tl.float64) - given.to(tl.float64), 0.0)
    gain = move * (move + 2.0 * residual)
    return new, move * move, weight * tl.where(gain > 0.0, gain, 0.0)


@triton.jit
def conclude(
    state, reach, moments, gap_low, shift_low, movement_low, records, rule, empty
):  # fmt: skip
    """Write the record of the step, decide whether it is taken, and clear the sums for the next.

    Other programs of the same kernel may have written what is read here: nothing comes from L1.

    moments  IN/OUT  (4, ROOM) int64: gap, shift and movement, limbs and a count of what could not
                     be added exactly (exact.deposit_at_once); zeros
    records  OUT     (steps, 8): moved, empty, gap, movement and shift of the point; then the shift
                     of its step, how many clusters that leaves empty, and whether a sum could not
                     be held
    rule     IN/OUT  (4,) float64: the shift on arrival at the point; tolerances for gap, decrease
                     and shift, -1 where the rule does not use it
    """
    s = tl.arange(0, 4)
    inexact = tl.load(state + INEXACT, cache_modifier=".cg")
    lost = tl.load(moments + s * ROOM + LIMBS, cache_modifier=".cg")
    moved = tl.load(state + MOVED)
    step = tl.load(state + STEPS)
    empty_before = tl.load(state + EMPTY)
    shift_before = tl.load(rule)
    least_gap, least_decrease = tl.load(rule + 1), tl.load(rule + 2)
    least_shift = tl.load(rule + 3)
    at_most, keep_empty = tl.load(state + AT_MOST), tl.load(state + KEEP_EMPTY)
    tl.debug_barrier()  # as in find_means: these loads begin at once
    low = tl.where(s == 0, gap_low, tl.where(s == 1, shift_low, movement_low))
    rounded = rounded_sum(moments + s * ROOM, low)
    gained = tl.sum(tl.where(s == 0, rounded, 0.0))
    moved_by = tl.sum(tl.where(s == 1, rounded, 0.0))
    moved_gain = tl.sum(tl.where(s == 2, rounded, 0.0))
    lost = (inexact != 0) | (tl.sum(lost) != 0)
    record = records + step * 8
    tl.store(record, moved.to(tl.float64))
    tl.store(record + 1, empty_before.to(tl.float64))
    tl.store(record + 2, gained)
    tl.store(record + 3, moved_gain)
    tl.store(record + 4, shift_before)
    tl.store(record + 5, moved_by)
    tl.store(record + 6, empty.to(tl.float64))
    tl.store(record + 7, lost.to(tl.float64))
    met = moved == 0
    met = met | (gained <= least_gap)
    met = met | (gained + moved_gain <= least_decrease)
    met = met | (shift_before <= least_shift)
    met = met | (step + 1 >= at_most)
    met = met | ((empty > 0) & (keep_empty == 0))
    met = met | lost
    tl.debug_barrier()  # as in settle
    tl.store(state + STEPS, step + 1)
    tl.store(state + INEXACT, lost.to(tl.int32))
    if met:
        tl.store(state + DONE, 1)
    else:
        tl.store(rule, moved_by)
        tl.store(state + EMPTY, empty)
        tl.store(state + MOVED, 0)
    tl.store(moments + tl.arange(0, 4 * ROOM), tl.zeros((4 * ROOM,), tl.int64))
    tl.store(state + ACTIVE, 0)
    tl.store(state + OPEN, 0)
    tl.store(state + HARD, 0)
    tl.store(state + CROWDED, 0)
    tl.store(state + CLOSE, 0)
    for place in tl.static_range(2):
        tl.store(reach + place, 0)


@triton.jit(do_not_specialize=["gap_low", "shift_low", "movement_low", "K"])
def finish_step(
    state, reach, weights, moments, gap_low, shift_low, movement_low, records, rule, K,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Do what is left of a step when the means are found by another kernel (`conclude`).

    weights  IN  (K,) float64, masses of the clusters
    """
    if tl.load(state + DONE) != 0:
        return
    empty = 0
    for start in range(0, K, BLOCK):
        k = start + tl.arange(0, BLOCK)
        weight = tl.load(weights + k, mask=k < K, other=1.0)
        empty += tl.sum((weight == 0.0).to(tl.int32))
    conclude(state, reach, moments, gap_low, shift_low, movement_low, records, rule, empty)
