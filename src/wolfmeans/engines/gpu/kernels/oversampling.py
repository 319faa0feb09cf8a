"""Kernels of k-means|| on the device: what `oversampling` asks of a part (`engines.sampling.Part`).

Masses become integers before they are added, so that atomics may come in any order. Launched with
`enable_fp_fusion=False`: each operation is rounded by itself.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.ordering import mix
from wolfmeans.engines.gpu.kernels.recheck import canonical
from wolfmeans.engines.gpu.kernels.seeding import integers


@triton.jit
def _integer_masses(closest, weights, i, inside, shift):
    """Return w D 2**shift of rows, rounded down, 0 outside; w or D is 1 where there is none."""
    mass = tl.where(inside, 1.0, 0.0).to(tl.float64)
    if closest is not None:
        mass = tl.load(closest + i, mask=inside, other=0.0)
    if weights is not None:
        mass = tl.load(weights + i, mask=inside, other=0.0) * mass
    return integers(mass, shift)


@triton.jit
def _unsigned(hashes, i, inside):
    return tl.load(hashes + i, mask=inside, other=0).to(tl.uint64, bitcast=True)


@triton.jit
def _bucket(hash, below):
    return (hash >> below.to(tl.uint64)).to(tl.int64)


@triton.jit(do_not_specialize=["n", "shift", "below"])
def sum_buckets(hashes, closest, weights, sums, n, shift, below, BLOCK: tl.constexpr):
    """Add up the integer masses of the rows by the highest bits of their hashes.

    hashes   IN   (n,) int64, bits of uint64
    closest  IN   (n,) float64 or None
    weights  IN   (n,) float64 or None
    sums     OUT  (2**(64 - below),) int64, 0 before
    """
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    mass = _integer_masses(closest, weights, i, inside, shift)
    bucket = _bucket(_unsigned(hashes, i, inside), below)
    tl.atomic_add(sums + bucket, mass, mask=mass > 0, sem="relaxed")


@triton.jit(do_not_specialize=["n", "shift", "key", "below", "room"])
def list_below(
    hashes, closest, weights, limits, count, listed, n, shift, key, below, room,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """List hash and integer mass of the rows whose uniforms are below the limits of their buckets.

    limits  IN      (2**(64 - below),) float64
    count   IN/OUT  (1,) int64, 0 before; how many there are, though there be no room for all
    listed  OUT     (2, room) int64, in any order
    key     IN      bits of the uint64 that a stream of uniforms has (exact.hashing)
    """
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    hash = _unsigned(hashes, i, inside)
    mixed = mix(hash ^ key.to(tl.int64).to(tl.uint64, bitcast=True))
    # Below 2**53, hence exact.
    uniform = (mixed >> 11).to(tl.int64).to(tl.float64) * 2.0**-53
    limit = tl.load(limits + _bucket(hash, below), mask=inside, other=0.0)
    chosen = inside & (uniform < limit)
    many = chosen.to(tl.int64)
    total = tl.sum(many)
    if total > 0:
        place = tl.atomic_add(count, total, sem="relaxed") + tl.cumsum(many, 0) - 1
        fits = chosen & (place < room)
        mass = _integer_masses(closest, weights, i, chosen, shift)
        tl.store(listed + place, hash.to(tl.int64, bitcast=True), mask=fits)
        tl.store(listed + room + place, mass, mask=fits)


@triton.jit
def _place(hash, wanted, count, steps, BLOCK: tl.constexpr):
    """Return the first place of ascending hashes that are not below each of some."""
    low = tl.zeros((BLOCK,), tl.int64)
    high = low + count
    for _ in range(steps):
        middle = (low + high) >> 1
        # The search of a lane may have ended, at the end of the list.
        there = tl.load(wanted + middle, mask=middle < high, other=0)
        before = (middle < high) & (there.to(tl.uint64, bitcast=True) < hash)
        low = tl.where(before, middle + 1, low)
        high = tl.where(before, high, middle)
    return low


@triton.jit
def _match(hashes, weights, wanted, i, n, count, steps, BLOCK: tl.constexpr):
    """Return the places of rows' hashes among those wanted, and which rows of weight are there."""
    inside = i < n
    hash = _unsigned(hashes, i, inside)
    place = _place(hash, wanted, count, steps, BLOCK)
    there = inside & (place < count)
    there = there & (_unsigned(wanted, place, there) == hash)
    if weights is not None:
        there = there & (tl.load(weights + i, mask=there, other=0.0) > 0.0)
    return place, there


@triton.jit(do_not_specialize=["n", "count", "steps"])
def find_first(hashes, weights, wanted, first, n, count, steps, BLOCK: tl.constexpr):
    """Find the lowest row of positive weight that has each of some hashes.

    wanted  IN      (count,) int64, bits of ascending uint64
    first   IN/OUT  (count,) int64, n before, and where there is no such row
    steps   IN      the bit length of count
    """
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    place, there = _match(hashes, weights, wanted, i, n, count, steps, BLOCK)
    # What is read may be old: numbers only fall, so nothing that matters is left out.
    there = there & (i < tl.load(first + place, mask=there, other=0))
    tl.atomic_min(first + place, i, mask=there, sem="relaxed")


@triton.jit(do_not_specialize=["n", "count", "steps"])
def count_collisions(
    X, hashes, weights, wanted, first, others, n, d, count, steps, BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Count the rows that have the hash of a first row, but not its value.

    first      IN      (count,) int64, of `find_first`
    others  IN/OUT  (1,) int64, 0 before
    """
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    place, there = _match(hashes, weights, wanted, i, n, count, steps, BLOCK)
    other = tl.load(first + place, mask=there, other=0)
    copies = there & (other != i)
    if tl.max(copies.to(tl.int32)) > 0:
        differs = tl.zeros((BLOCK,), tl.int32)
        for start in range(0, d, COLUMNS):
            j = start + tl.arange(0, COLUMNS)
            both = copies[:, None] & (j < d)[None, :]
            a = tl.load(X + i[:, None] * d + j[None, :], mask=both, other=0.0)
            b = tl.load(X + other[:, None] * d + j[None, :], mask=both, other=0.0)
            differs = tl.maximum(differs, tl.max((a != b).to(tl.int32), axis=1))
        many = tl.sum(differs.to(tl.int64))
        if many > 0:
            tl.atomic_add(others, many, sem="relaxed")


@triton.jit(do_not_specialize=["n", "before"])
def come_nearer(
    X, candidates, labels, closest, owner, nearest, its_owner, n, d, before, BLOCK: tl.constexpr
):
    """Compare the nearest of some new candidates with what was nearest before.

    labels     IN   (n,) int32, the nearest new candidate; None for the first
    closest    IN   (n,) float64, canonical distances to the nearest candidates before, None if none
    owner      IN   (n,) int32, the numbers of these
    nearest    OUT  (n,) float64, the smaller of both distances
    its_owner  OUT  (n,) int32; the earlier one of equally near ones
    before     IN   how many candidates there were
    """
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    k = tl.zeros((BLOCK,), tl.int32)
    if labels is not None:
        k = tl.load(labels + i, mask=inside, other=0)
    distance = canonical(X, candidates, i[:, None], k[:, None], inside[:, None], d, BLOCK, 1)
    distance = tl.reshape(distance, (BLOCK,))
    number = k + before
    if closest is not None:
        was = tl.load(closest + i, mask=inside, other=0.0)
        closer = distance < was
        number = tl.where(closer, number, tl.load(owner + i, mask=inside, other=0))
        distance = tl.where(closer, distance, was)
    tl.store(nearest + i, distance, mask=inside)
    tl.store(its_owner + i, number, mask=inside)


@triton.jit(do_not_specialize=["n", "many", "shift"])
def sum_owned(owner, weights, sums, n, many, shift, REPLICAS: tl.constexpr, BLOCK: tl.constexpr):
    """Add up the integer weights of the rows that each candidate owns.

    owner  IN   (n,) int32
    sums   OUT  (REPLICAS, many) int64, 0 before; kept several times, so that fewer atomics meet
    """
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    mass = _integer_masses(None, weights, i, inside, shift)
    number = tl.load(owner + i, mask=inside, other=0)
    there = sums + (tl.program_id(0) % REPLICAS).to(tl.int64) * many + number
    tl.atomic_add(there, mass, mask=mass > 0, sem="relaxed")
