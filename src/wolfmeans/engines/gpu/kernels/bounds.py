"""Kernels before the screen: what is known of centers, and which rows are undecided.

The bounds are derived in `screening`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from wolfmeans.engines.gpu.kernels.lists import (
    ACTIVE,
    DONE,
    FAR,
    LARGEST_ERROR,
    LARGEST_SHIFT,
    append,
)


@triton.jit
def _up(x):
    """A float32 that is certainly not below the float64 number x >= 0."""
    return (x * (1.0 + 2.0**-20)).to(tl.float32)


@triton.jit
def shortened(exact, DIRECT: tl.constexpr):
    """Return scaled centers in short arithmetic."""
    if DIRECT:
        short = tl.minimum(tl.maximum(exact, -1.0e15), 1.0e15).to(tl.float32)
    else:
        short = tl.minimum(tl.maximum(exact, -60000.0), 60000.0).to(tl.float16)
    return short


@triton.jit
def rate(
    k, there, squared, error, shift, norms, error_bounds, shifts, radius, rho, products_error,
    score_error,
):  # fmt: skip
    """Write down norms, error_bounds and shifts of centers k; return errors and shifts for `reach`.

    squared, error, shift  IN  float64, squares of the scaled centers' norms, of what short
                               arithmetic lost of them, and of how far they came
    """
    size = tl.sqrt(squared)
    gamma = tl.sqrt(error)
    # Tensor cores treat subnormal numbers like the smallest normal one, 2**-14.
    products = products_error * radius * (size + gamma + 2.0**-14)
    error_bound = 2.0 * (radius * gamma + rho * size) + products
    error_bound += score_error * (squared + 2.0 * radius * (size + gamma))
    error_bound *= 1.0 + score_error  # the error_bound is in the score, and rounded with it
    # Not below what float32 has numbers for: scores of 0 differ by their numbers alone.
    error_bound = tl.minimum(tl.maximum(error_bound * (1.0 + 2.0**-20), 2.0**-100), 1.0e37)
    norm = (tl.minimum(squared, 1.0e37) - error_bound * (1.0 + 2.0**-19)).to(tl.float32)
    far = _up(tl.minimum(tl.sqrt(shift), 1.0e37))
    wrong = _up(tl.minimum(gamma, 1.0e37))
    tl.store(error_bounds + k, _up(error_bound), mask=there)
    tl.store(norms + k, norm, mask=there)
    tl.store(shifts + k, far, mask=there)
    return wrong.to(tl.int32, bitcast=True), far.to(tl.int32, bitcast=True)


@triton.jit
def prepare_centers(
    state, centers, before, mu, short_centers, norms, error_bounds, shifts, reach, d, width,
    scale: tl.float64, radius, rounding, products_error, score_error, BLOCK: tl.constexpr,
    DIRECT: tl.constexpr,
):  # fmt: skip
    """Bring the centers into short arithmetic and measure how far that, and the last step, is.

    `means.find_means` does the same for the means that it finds.

    centers        IN      (K, d) the centers of this assignment
    before         IN/OUT  (K, d) those of the assignment before; these ones on return
    mu             IN      (d,) float64, what is taken away of every point
    short_centers  OUT     (K, width) (centers - mu) scale, rounded; columns from d on stay 0
    norms          OUT     (K,) float32, squared norm minus error bound: what a score begins with
    error_bounds   OUT     (K,) float32, how wrong a score of this center can be (screening)
    shifts         OUT     (K,) float32, scaled distance to the center before, rounded up
    reach          OUT     the largest rounding error and the largest shift
    rounding       IN      (1,) float32, rho
    scale          IN      a power of two, which may be none of float32: that is what numbers from
                           Python become where nothing else is declared
    """
    if tl.load(state + DONE) != 0:
        return
    k = tl.program_id(0).to(tl.int64)
    norm = tl.zeros((BLOCK,), tl.float64)
    error = tl.zeros((BLOCK,), tl.float64)
    shift = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, d, BLOCK):
        j = start + tl.arange(0, BLOCK)
        inside = j < d
        new = tl.load(centers + k * d + j, mask=inside, other=0.0)
        old = tl.load(before + k * d + j, mask=inside, other=0.0)
        tl.debug_barrier()  # as in settle
        tl.store(before + k * d + j, new, mask=inside)
        wide = new.to(tl.float64)
        moved = (wide - old.to(tl.float64)) * scale
        exact = (wide - tl.load(mu + j, mask=inside, other=0.0)) * scale
        short = shortened(exact, DIRECT)
        tl.store(short_centers + k * width + j, short, mask=inside)
        lost = exact - short.to(tl.float64)
        norm += exact * exact
        error += lost * lost
        shift += moved * moved
    rho = tl.load(rounding).to(tl.float64)
    wrong, far = rate(
        k, k >= 0, tl.sum(norm), tl.sum(error), tl.sum(shift), norms, error_bounds, shifts, radius,
        rho, products_error, score_error,
    )  # fmt: skip
    tl.atomic_max(reach + LARGEST_ERROR, wrong, sem="relaxed")
    tl.atomic_max(reach + LARGEST_SHIFT, far, sem="relaxed")


@triton.jit(do_not_specialize=["n"])
def select_active(
    state, labels, slack, shifts, reach, active, n, margin, BLOCK: tl.constexpr
):  # fmt: skip
    """List the points whose nearest center may have changed (Hamerly's bounds).

    slack  IN/OUT  (n,) float32, at most (distance to any other center) - (distance to its own)
    """
    if tl.load(state + DONE) != 0:
        return
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    label = tl.load(labels + i, mask=inside, other=0)
    room = tl.load(slack + i, mask=inside, other=FAR)
    largest = tl.load(reach + LARGEST_SHIFT).to(tl.float32, bitcast=True)
    own = tl.load(shifts + tl.maximum(label, 0), mask=inside, other=0.0)
    loss = (own + largest) * (1.0 + 2.0**-20)
    left = room - loss
    left = left - (tl.abs(room) + loss) * 2.0**-22
    tl.debug_barrier()  # as in settle
    tl.store(slack + i, left, mask=inside)
    undecided = inside & (left <= margin)
    append(active, state + ACTIVE, i, undecided, active, i, False)
