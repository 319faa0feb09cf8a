"""Cuts: the projection onto them, and the search for violated ones.

With z_ij = Z_ij / (r_i r_j), which is 1 / W_A inside a cluster A and 0 elsewhere, every clustering
satisfies z_ii + sum over j < k in T of z_jk - sum over j in T of z_ij >= 0 for all other points T:
pair cuts with one point in T, triangle cuts with two, stars with more (`stars.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.bounds.semidefinite.arrays import Arrays
from wolfmeans.bounds.semidefinite.stars import WIDTH, table, violated_stars
from wolfmeans.exact import native
from wolfmeans.exact.native import native_is_available

Matrix = NDArray[np.floating]
Double = NDArray[np.float64]

FEW = 1000
"""Up to so many points, more digits cost little."""
_INNER, _INNER_OF_FEW = 12, 30
"""Steps of the projection onto the cuts, and for few points."""
_NEW_CUTS, _NEW_PER_POINT, _LATER_PER_POINT = 20_000, 8, 3
_MOST_CUTS, _MOST_PER_POINT = 120_000, 60
"""Cuts in a round, in a later round, and in all.

With far more cuts than points, projections do not converge. Many new cuts close the gap soon at
first; fewer, the most violated ones, leave room for those that the last digits need.
"""
_CUTS_OF_A_ROW = 40
_NEAR, _CANDIDATES = 0.05, 200
"""Triangles of row i have corners with z_ij above this share of z_ii, and so many at most."""
_VIOLATED = 1e-4
"""By so much of a typical z_ii a cut must be violated to be added."""
_PATIENCE = 3
"""Rounds that a cut stays without a multiplier."""
_ROOM, _REST = 0.02, 4
"""Where less than this share of all cuts could be new, cuts are looked for in every 4th round."""


@dataclass
class Cuts:
    """Cuts, their multipliers, and the projection onto them."""

    on: Arrays
    roots: Double
    rows: NDArray[np.int32]
    multipliers: Any
    """An array of `on`, as the matrices are."""
    idle: NDArray[np.int64]
    """For how many rounds each has had no multiplier."""
    apart: NDArray[np.int32]
    """(a, 2) Pairs with z_ij = 0."""
    rested: int = 0
    """Rounds since cuts were last looked for."""

    @staticmethod
    def of(
        on: Arrays,
        roots: Double,
        rows: NDArray[np.int32],
        multipliers: Double,
        apart: NDArray[np.int32],
        idle: NDArray[np.int64] | None = None,
    ) -> Cuts:
        """Return given cuts."""
        idle = np.zeros(len(rows), np.int64) if idle is None else idle
        cuts = Cuts(on, roots, rows, on.array(multipliers), idle, apart)
        if len(cuts):
            cuts.build()
        return cuts

    def __len__(self) -> int:
        return len(self.rows)

    def build(self) -> None:
        """Prepare the projection: the entries that cuts touch, and cuts as a matrix over these."""
        n, r = len(self.roots), self.roots
        i, *others = self.rows.T.astype(np.int64)
        terms = [(np.arange(len(i)), i, i, 1.0)]
        for number, j in enumerate(others):
            on = np.flatnonzero(j >= 0)
            terms.append((on, i[on], j[on], -1.0))
            terms += [(on, k[on], j[on], 1.0) for k in others[:number]]
        cut = np.concatenate([term[0] for term in terms])
        a = np.concatenate([term[1] for term in terms])
        b = np.concatenate([term[2] for term in terms])
        value = np.concatenate([term[3] / (r[term[1]] * r[term[2]]) for term in terms])
        key, entry = np.unique(np.minimum(a, b) * n + np.maximum(a, b), return_inverse=True)
        a, b = key // n, key % n
        first, second = self.apart.min(axis=1), self.apart.max(axis=1)
        self._free = self.on.array(~np.isin(key, first * np.int64(n) + second))
        T = sparse.csr_array((value, (cut, entry)), shape=(len(i), len(key)))
        # Entries off the diagonal count twice in the norm.
        half = sparse.csr_array(T.multiply(np.where(a == b, 1.0, 0.5)[None, :]))
        half = sparse.csr_array(half.T)
        x = np.ones(len(i))
        size = 1.0
        for _ in range(20):
            x = T @ (half @ x)
            size = float(np.linalg.norm(x))
            x /= size
        self._step = 1.0 / (1.05 * size)
        self.a, self.b = self.on.array(a, np.int64), self.on.array(b, np.int64)
        self._T, self._half, self._on_host = self.on.matrix(T), self.on.matrix(half), half

    def project(self, W: Any, Y: Any) -> None:
        """Correct W = max(Y, 0) in place: the nearest matrix to Y that also satisfies the cuts.

        By accelerated gradient steps on the multipliers; any multipliers make a valid W - Y.
        """
        positive = self.on.at_least_zero
        y = self.on.double(Y[self.a, self.b])
        mu = ahead = self.multipliers
        t = 1.0
        for _ in range(_INNER_OF_FEW if len(self.roots) < FEW else _INNER):
            w = positive(y + self._half @ ahead) * self._free
            new = positive(ahead - self._step * (self._T @ w))
            t_new = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
            ahead = positive(new + ((t - 1.0) / t_new) * (new - mu))
            mu, t = new, t_new
        self.multipliers = mu
        w = self.on.cast(positive(y + self._half @ mu), Y)
        W[self.a, self.b] = w
        W[self.b, self.a] = w

    def spread(self, multipliers: Double, to: Double) -> None:
        """Write the sum of the cuts times multipliers to the entries of a matrix on the host."""
        if not len(self):
            return
        found = self._on_host @ multipliers
        a, b = self.on.to_host(self.a), self.on.to_host(self.b)
        to[a, b] = found
        to[b, a] = found

    @property
    def _most(self) -> int:
        return min(_MOST_CUTS, _MOST_PER_POINT * len(self.roots))

    def rest(self) -> bool:
        """Count a round; whether so few cuts could be new that a search does not pay now."""
        self.idle = np.where(self.on.to_host(self.multipliers) > 0, 0, self.idle + 1)
        full = int((self.idle < _PATIENCE).sum()) > (1.0 - _ROOM) * self._most
        self.rested = (self.rested + 1) % _REST if full else 0
        return self.rested > 0

    def renewed(self, found: NDArray[np.int32]) -> Cuts:
        """Return the cuts without those long idle, and with new ones."""
        multipliers, idle = self.on.to_host(self.multipliers), self.idle
        keep = idle < _PATIENCE
        rows = self.rows[keep]
        fresh = found[~np.isin(_numbers(found), _numbers(rows))]
        fresh = fresh[: max(0, self._most - len(rows))]
        return Cuts.of(
            self.on,
            self.roots,
            np.concatenate([rows, fresh]).astype(np.int32),
            np.concatenate([multipliers[keep], np.zeros(len(fresh))]),
            self.apart,
            np.concatenate([idle[keep], np.zeros(len(fresh), np.int64)]),
        )


def _numbers(rows: NDArray[np.int32]) -> NDArray[np.uint64]:
    """Return a number for each cut, modulo 2**64; that of another cut is hardly ever the same."""
    factors = np.random.RandomState(0).randint(1 << 62, size=WIDTH).astype(np.uint64)
    return np.asarray(rows.astype(np.uint64) @ factors)


def violated_cuts(
    Z: Matrix, roots: Double, n_threads: int = 1, *, stars: bool = True, later: bool = False
) -> NDArray[np.int32]:
    """Return cuts that a matrix violates, the most violated first; stars only of few points.

    Fewer of them in `later` rounds.
    """
    z = Z
    if (roots != 1.0).any():
        z = Z / np.outer(roots, roots).astype(Z.dtype)
    least = _VIOLATED * float(np.median(np.diagonal(z)))
    search = _by_native if native_is_available() else violated_by_numpy
    cuts, sizes = search(z, least, n_threads)
    cuts = table(*cuts.T)
    if stars and len(z) < FEW:
        more, over = all_stars(z, least)
        cuts, sizes = np.concatenate([cuts, more]), np.concatenate([sizes, over])
    at_most = min(_NEW_CUTS, (_LATER_PER_POINT if later else _NEW_PER_POINT) * len(z))
    return cuts[np.argsort(-sizes, kind="stable")[:at_most]]


def all_stars(z: Matrix, least: float) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
    """Return violated stars, and by how much they are violated."""
    found, by = [table(np.empty(0, np.int32))], [np.empty(0)]
    for row, own in enumerate(np.diagonal(z)):
        near = np.flatnonzero(z[row] > _NEAR * own)
        near = near[near != row]
        if len(near) > _CANDIDATES:
            near = near[:: -(-len(near) // _CANDIDATES)]
        stars, over = violated_stars(z, row, near, least)
        found.append(stars)
        by.append(over.astype(np.float64))
    return np.concatenate(found), np.concatenate(by)


def _by_native(
    z: Matrix, least: float, n_threads: int
) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
    """Return violated cuts, and by how much they are violated."""
    n = len(z)
    pairs = np.empty((n, _CUTS_OF_A_ROW, 2), np.int32)
    sizes, counts = np.empty((n, _CUTS_OF_A_ROW), np.float32), np.empty(n, np.int32)
    native._native.violated_cuts(z, _NEAR, _CANDIDATES, least, pairs, sizes, counts, n_threads)
    row, place = np.nonzero(np.arange(_CUTS_OF_A_ROW) < counts[:, None])
    return np.column_stack([row.astype(np.int32), pairs[row, place]]), sizes[row, place]


def violated_by_numpy(
    z: Matrix, least: float, n_threads: int = 1
) -> tuple[NDArray[np.int32], NDArray[np.floating]]:
    """Return the same where the native module is missing."""
    found, by = [np.empty((0, 3), np.int32)], [np.empty(0, np.float32)]
    for row, own in enumerate(np.diagonal(z)):
        near = np.flatnonzero(z[row] > _NEAR * own)
        near = near[near != row]
        pairs = near[z[row, near] - own > least]
        if len(near) > _CANDIDATES:
            near = near[:: -(-len(near) // _CANDIDATES)]
        by_row = z[row, near]
        over = by_row[:, None] + by_row[None, :] - own - z[np.ix_(near, near)]
        a, b = np.nonzero(np.triu(over, 1) > least)
        j, k = np.append(pairs, near[a]), np.append(np.full(len(pairs), -1), near[b])
        size = np.append(z[row, pairs] - own, over[a, b]).astype(np.float32)
        most = np.lexsort([k, j, -size])[:_CUTS_OF_A_ROW]
        rows = np.stack([np.full(len(most), row), j[most], k[most]], axis=1)
        found.append(rows.astype(np.int32))
        by.append(size[most])
    return np.concatenate(found), np.concatenate(by)
