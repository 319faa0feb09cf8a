"""Kernels of the trimmed oracle: who is kept, and what a step gains (engines.trimming).

Launched with `enable_fp_fusion=False`: each operation is rounded by itself.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.exact import deposit_terms
from wolfmeans.engines.gpu.kernels.lists import DONE, INEXACT, MOVED, append
from wolfmeans.engines.gpu.kernels.recheck import canonical


@triton.jit(do_not_specialize=["n"])
def keep_nearest(
    state, distances, labels, weights, threshold, seen, before, after, moved_rows, moved_from, n,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Keep the points up to the threshold, and list those whose label or kept mass is new.

    distances  IN      (n,) float64, to the nearest centers, whose numbers are the labels
    threshold  IN      (3,) float64: distance and row of the last point that is kept, and how much
                       of it
    seen       IN/OUT  (n,) int32, the labels of points that are kept, -1 for others
    before     IN      (n,) float64, what was kept of each point
    after      OUT     (n,) float64, what is kept now
    """
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    edge = tl.load(threshold)
    last = tl.load(threshold + 1).to(tl.int32)
    distance = tl.load(distances + i, mask=inside, other=0.0)
    kept = inside & ((distance < edge) | ((distance == edge) & (i <= last)))
    mass = tl.load(weights + i, mask=kept, other=0.0)
    mass = tl.where(i == last, tl.load(threshold + 2), mass)
    label = tl.load(labels + i, mask=kept, other=-1)
    old = tl.load(seen + i, mask=inside, other=-1)
    old_mass = tl.load(before + i, mask=inside, other=0.0)
    tl.debug_barrier()  # as in settle
    tl.store(seen + i, label, mask=inside)
    tl.store(after + i, mass, mask=inside)
    new = inside & ((label != old) | (mass != old_mass))
    append(moved_rows, state + MOVED, i, new, moved_from, old, True)


@triton.jit(do_not_specialize=["low"])
def sum_trimmed_gap(
    state, X, centers, seen, moved_rows, moved_from, before, after, threshold, gap, low, d,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Add up what the listed points gain: those that stay, those that leave, those that enter.

    The arguments are those of `keep_nearest`, after it.
    """
    if tl.load(state + DONE) != 0:
        return
    count = tl.load(state + MOVED)
    for begin in range(tl.program_id(0) * BLOCK, count, tl.num_programs(0) * BLOCK):
        place = begin + tl.arange(0, BLOCK)
        inside = place < count
        row = tl.load(moved_rows + place, mask=inside, other=0)
        old = tl.load(moved_from + place, mask=inside, other=-1)
        new = tl.load(seen + row, mask=inside, other=-1)
        both = tl.join(new, old)
        rows = row[:, None] + tl.zeros_like(both)
        near, far = tl.split(
            canonical(X, centers, rows, tl.maximum(both, 0), both >= 0, d, BLOCK, 2)
        )
        kept_before = tl.load(before + row, mask=inside, other=0.0)
        kept = tl.load(after + row, mask=inside, other=0.0)
        edge = tl.load(threshold)
        stays = tl.minimum(kept_before, kept)
        deposit_terms(stays * (far - near), stays > 0.0, gap, low, state + INEXACT)
        # An infinite edge, where all are kept, must not meet a mass of 0.
        leaves, enters = kept_before > kept, kept > kept_before
        farther = tl.where(leaves, far - edge, 0.0)
        deposit_terms((kept_before - kept) * farther, leaves, gap, low, state + INEXACT)
        nearer = tl.where(enters, edge - near, 0.0)
        deposit_terms((kept - kept_before) * nearer, enters, gap, low, state + INEXACT)
