"""The arithmetic of tensor cores as `screening` states it, in NumPy: what a device is held against.

Products of float16 are exact. Some of them and the sum so far are aligned to the largest exponent,
2**e say, cut off below 2**(e - bits), added without further error, and the result is cut off to
float32. A subnormal number counts with the exponent of the smallest normal one, a product with the
sum of its factors' exponents. From Hopper on it is 16 products at a time, and 25 bits.
"""

import math
from dataclasses import dataclass

import numpy as np

SMALLEST_NORMAL = 2.0**-14


@dataclass(frozen=True)
class Cores:
    """A generation of tensor cores: how many products are added at once, with how many bits."""

    group: int
    bits: int


HOPPER = Cores(16, 25)
AMPERE = Cores(8, 24)


def _exponents(x, lowest):
    exponent = np.frexp(x)[1] - 1
    return np.where(x == 0, -10_000, np.maximum(exponent, lowest))


def modelled_dot(x, c, cores=HOPPER):
    """Return x.c along the last axis, float16 of a multiple of 16 columns, as float32."""
    x, c = np.broadcast_arrays(x, c)
    products = x.astype(np.float64) * c.astype(np.float64)
    exponents = _exponents(x.astype(np.float64), -14) + _exponents(c.astype(np.float64), -14)
    total = np.zeros(x.shape[:-1])
    for start in range(0, x.shape[-1], cores.group):
        part = slice(start, start + cores.group)
        top = np.maximum(exponents[..., part].max(axis=-1), _exponents(total, -126))
        top = np.maximum(top, -140)
        scale = np.ldexp(1.0, cores.bits - top)
        terms = np.trunc(products[..., part] * scale[..., None]).sum(axis=-1)
        total = (terms + np.trunc(total * scale)) / scale
        fraction, exponent = np.frexp(total)
        total = np.ldexp(np.trunc(np.ldexp(fraction, 24)), exponent - 24)
    return total.astype(np.float32)


def exact_dot(x, c):
    """Return x.c along the last axis, rounded once; products of float16 are exact in float64."""
    x, c = np.broadcast_arrays(x, c)
    products = x.astype(np.float64) * c.astype(np.float64)
    flat = products.reshape(-1, products.shape[-1])
    return np.array([math.fsum(row) for row in flat.tolist()]).reshape(products.shape[:-1])


def error_bound(x, c, cores=HOPPER):
    """Return how wrong the model can be.

    Of the 17 terms of a group the largest loses nothing, for it has at most 24 bits; the others
    lose less than 2**(e - 25) each, and float32 cuts off no more than 3 of that besides unless the
    sum is at least 2**(e + 1), and then both together are less. 2**e is no more than the largest
    term, hence no more than |x||c| because all is cut towards 0; but for subnormal factors, which
    count as 2**-14. So a group loses less than 19 * 2**-25 of |x||c|.
    """
    d = x.shape[-1]
    norms = (np.linalg.norm(v.astype(np.float64), axis=-1) for v in (x, c))
    sizes = (np.maximum(norm, SMALLEST_NORMAL) for norm in norms)
    lost = cores.group + 2 ** (cores.bits - 23) - 1
    return d / cores.group * lost * 2.0**-cores.bits * math.prod(sizes)


def hurting_pairs(d, count, rng):
    """Yield named (count, d) pairs of float16 vectors that are hard to multiply."""
    signs = rng.choice([-1.0, 1.0], size=(count, d))

    def spread(low, high):
        return np.ldexp(1.0 + rng.random((count, d)), rng.integers(low, high, size=(count, d)))

    yield "plain", rng.normal(size=(count, d)) * 1000, rng.normal(size=(count, d)) * 1000
    yield "same sign", spread(0, 1), spread(0, 1)
    yield "alternating", spread(0, 1) * (-1.0) ** np.arange(d), spread(0, 1)
    yield "wide", spread(-10, 11) * signs, spread(-3, 4)
    yield "largest", 60000.0 * signs, 60000.0 - rng.integers(0, 64, size=(count, d)) * 32.0
    # Pairs that cancel, with small ones in between, in every place of a group.
    x, c = spread(-12, -8) * signs, spread(-1, 1)
    one, other = (rng.integers(0, d, size=count) for _ in range(2))
    rows = np.arange(count)
    x[rows, one], x[rows, other] = 4096.0, -4096.0
    c[rows, one], c[rows, other] = 1.0, np.where(one == other, 1.0, 1.0 + 2.0**-10)
    yield "cancelling", x, c
    # One product, and others just below where it cuts them off.
    x, c = np.full((count, d), 2.0**-7), np.full((count, d), 2.0 - 2.0**-10)
    c *= np.ldexp(1.0, -rng.integers(9, 13, size=(count, 1)) - 8)
    x[rows, one] = c[rows, one] = 1.0
    x[rows, other] *= np.where(one == other, 1.0, 3.0)
    yield "cut off", x, c
    # The same for groups to come: the sum so far cuts them off.
    x, c = np.full((count, d), 2.0**-6), np.full((count, d), 2.0**-19 * (2.0 - 2.0**-5))
    x[:, 0] = c[:, 0] = 1.0
    yield "cut off by the sum", x, c
    yield "subnormal", rng.integers(-1023, 1024, size=(count, d)) * 2.0**-24, spread(-10, 15)
    yield "both subnormal", *(rng.integers(-9, 10, size=(count, d)) * 2.0**-24 for _ in range(2))


def climb(dot, x, c, steps, rng, cores=HOPPER):
    """Change one entry at a time and keep what makes the product of a row more wrong.

    `dot` multiplies many pairs at once. Returns the largest error, in units of the bound.
    """

    def wrongness(x, c):
        return np.abs(dot(x, c).astype(np.float64) - exact_dot(x, c)) / error_bound(x, c, cores)

    worst = wrongness(x, c)
    rows = np.arange(len(x))
    for _ in range(steps):
        tried = [x.copy(), c.copy()]
        which, column = rng.integers(0, 2), rng.integers(0, x.shape[1], size=len(x))
        factor = rng.choice([-1.0, 0.5, 2.0, 1.0 + 2.0**-10, 1.0 - 2.0**-10], size=len(x))
        changed = tried[which][rows, column].astype(np.float64) * factor
        tried[which][rows, column] = np.clip(changed, -60000.0, 60000.0).astype(np.float16)
        found = wrongness(*tried)
        better = found > worst
        x[better], c[better], worst[better] = tried[0][better], tried[1][better], found[better]
    return float(worst.max())
