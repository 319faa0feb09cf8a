"""The sampling of k-means|| (Bahmani et al. 2012) over data in parts.

Equal points are one value, whose mass M is the sum of theirs, w D each. Chance is a hash of the
value (exact.hashing), so nothing depends on the order of the rows, on how they are spread over
parts, or on a part's size. Parts return sums and maxima of integers and a few values; rows stay
where they are.

A value is sampled in a round if u < L M / T, where L = 2K, T is the mass of all and u the value's
uniform for that round: with probability min(1, L M / T). Were its m copies sampled each by itself,
the probability would be 1 - (1 - L M / (m T))^m, which is no more (Bernoulli's inequality); the
expected number of samples in a round is at most L, as it is there. A value that had been given one
uniform and the mass of a single copy would be sampled m times too seldom.

M is a sum over parts, and the sums of all values are too many to collect. But hashes fall into
buckets, the mass S of a bucket is at least that of each value in it, and the computed limit L S / T
is not below the computed L M / T, since rounding is monotone. So only the values with u < L S / T
are asked for: those to be sampled, and about L / buckets of the others. How many buckets there are
does not change the result. Where these are too many, they fall into buckets by other bits of the
hash, and the same is true of their masses there: all copies of a value pass a limit, or none. Each
such refinement leaves about L / buckets of what there was.

The first candidate is drawn with probability W / T by attempts: each value comes forward with
probability p = W / (W + T), and the attempt counts if exactly one does. It is v alone with
probability p_v / (1 - p_v) prod (1 - p) = W_v / T prod (1 - p), hence, given that one is alone,
with W_v / T. An attempt counts with probability prod T / (T + W) >= exp(-sum W / T) = 1 / e.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.draws import INTEGER_BITS, integer_shift
from wolfmeans.core.workspace import Centers
from wolfmeans.engines.sampling import HashMasses, Masses, Parts
from wolfmeans.exact.hashing import Hashes, stream, uniforms

_ROUNDS = 5
_OVERSAMPLING = 2
_FEWEST_BUCKET_BITS, _MOST_BUCKET_BITS = 8, 18
_BITS_PER_BUCKET = 4
"""A bucket has about two to this many rows: with fewer, its sum costs as much as listing them."""
# Up to this many values are listed without refinement, 16 bytes each.
_FEW_VALUES = 1 << 20
_HASH_BITS = 64
_ATTEMPTS = 1 << 32
"""The stream of the first attempt; those of rounds begin at 0."""


class Candidates(NamedTuple):
    """Points to choose seeds among."""

    points: Centers
    """(m, d) distinct; those of a round in lexicographic order, rounds as they came."""
    weights: NDArray[np.float64]
    """(m,) of the rows to which each is the nearest, times a power of two."""


def sample_candidates(parts: Parts, n_clusters: int, seed: int) -> Candidates:
    """Sample candidates in five rounds; in more while they are fewer than the clusters.

    All distinct points are candidates in the end if these are no more than the clusters: a round
    samples one value at least in expectation, and ones that are candidates have no mass.
    """
    weight_shift = integer_shift(parts.largest(), parts.size())
    found = [_first_candidate(parts, weight_shift, seed)]
    parts = parts.approach(found[0])
    for number in count():
        if number >= _ROUNDS and sum(map(len, found)) >= n_clusters:
            break
        drawn = draw_by_mass(parts, _OVERSAMPLING * n_clusters, stream(seed, number))
        if drawn.total == 0:
            break
        if len(drawn.hashes):
            found.append(parts.points(drawn.hashes))
            parts = parts.approach(found[-1])
    weights = np.ldexp(parts.owned(weight_shift).astype(np.float64), -INTEGER_BITS)
    return Candidates(np.concatenate(found), weights)


class Drawn(NamedTuple):
    """Values drawn with probabilities proportional to their masses."""

    hashes: Hashes
    """Of the drawn values, ascending."""
    expected: int
    """L: how many, in expectation, as long as no value has more than 1 / L of the mass."""
    total: float
    """T: the scaled mass of all rows."""
    shift: int
    """Masses are scaled by this power of two."""
    mass: float = 0.0
    """The scaled mass of the drawn values."""

    def share(self, masses: Masses) -> NDArray[np.float64]:
        """Return L M / T for the scaled masses of some values."""
        if self.total == 0:
            return np.zeros(len(masses))
        return self.expected * masses.astype(np.float64) / self.total


def draw_by_mass(parts: Parts, expected: int, key: int) -> Drawn:
    """Draw each value with probability min(1, L M / T)."""
    shift = integer_shift(parts.largest(), parts.size())
    sums = parts.bucket_masses(shift, _bucket_bits(parts))
    drawn = Drawn(np.zeros(0, np.uint64), expected, float(sums.sum()), shift)
    if drawn.total == 0:
        return drawn
    hashes, masses = _sample(parts, shift, sums, drawn.share, key)
    return drawn._replace(hashes=hashes, mass=float(masses.sum()))


def _bucket_bits(parts: Parts) -> int:
    bits = parts.size().bit_length() - _BITS_PER_BUCKET
    return min(max(bits, _FEWEST_BUCKET_BITS), _MOST_BUCKET_BITS)


def _first_candidate(parts: Parts, shift: int, seed: int) -> Centers:
    """Draw one point by weight."""
    sums = parts.bucket_masses(shift, _bucket_bits(parts))
    total = float(sums.sum())

    def share(masses: Masses) -> NDArray[np.float64]:
        # W / (W + T), written so that rounding keeps it monotone.
        with np.errstate(divide="ignore"):
            return 1.0 / (1.0 + total / masses.astype(np.float64))

    for attempt in count(_ATTEMPTS):
        alone = _sample(parts, shift, sums, share, stream(seed, attempt)).hashes
        if len(alone) == 1:
            return parts.points(alone)
    raise AssertionError("unreachable: there is no last attempt")


def _sample(
    parts: Parts,
    shift: int,
    sums: Masses,
    share: Callable[[Masses], NDArray[np.float64]],
    key: int,
) -> HashMasses:
    """Return the values whose uniforms are below their shares, which grow with the masses."""
    limits, n = [share(sums)], parts.size()
    bits = len(sums).bit_length() - 1
    expected = n * float(np.minimum(limits[0], 1.0).mean())
    while expected > _FEW_VALUES and (len(limits) + 1) * bits <= _HASH_BITS:
        limits.append(share(parts.bucket_masses(shift, bits, key, *limits)))
        before, expected = expected, n * float(np.minimum(limits[-1], 1.0).mean())
        if expected > before / 2:
            break
    hashes, masses = parts.listed(shift, key, *limits)
    sampled = uniforms(hashes, key) < share(masses)
    return HashMasses(hashes[sampled], masses[sampled])
