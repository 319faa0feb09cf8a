"""The largest eigenvalues of a symmetric operator that changes little from step to step.

A block of vectors is kept and sharpened by a Chebyshev filter. It proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from wolfmeans.bounds.semidefinite.arrays import HOST, Arrays

Double = NDArray[np.float64]
Operator = Callable[[Any], Any]
_DENSE = 300
"""Up to so many points, all eigenvectors are found in less time than a block is sharpened."""


class TopBlock:
    """The largest eigenvalues of a symmetric operator on the complement of q, and their vectors.

    Vectors are arrays of `on`, values are on the host.
    """

    def __init__(self, on: Arrays, q: Any, vectors: Any) -> None:
        self._on, self.q, self.vectors = on, q, vectors
        self.values: Double | None = None
        self._low = 0.0

    @staticmethod
    def random(on: Arrays, q: Any, columns: int) -> TopBlock:
        """Return a block to begin with."""
        block = TopBlock(on, q, None)
        block.vectors = block._normal(columns, seed=0)
        return block

    def follow(self, other: TopBlock) -> None:
        """Take the values of a block for nearly the same operator as a first approximation."""
        self.values, self._low = other.values, other._low

    def _normal(self, columns: int, seed: int) -> Any:
        numbers = np.random.RandomState(seed).normal(size=(len(self.q), columns))
        return self._on.cast(self._on.array(numbers), self.q)

    def _projected(self, V: Any) -> Any:
        return V - self._on.module.outer(self.q, self.q @ V)

    def _orthonormal(self, V: Any) -> Any:
        """Return an orthonormal basis: Cholesky factors of the Gram matrix in float64, twice.

        The filter makes columns nearly parallel. What is then left of them in float32 is rounding,
        also in the direction of q, which is taken out both times.
        """
        module = self._on.module
        wide, q = self._on.double(V), self._on.double(self.q)
        for _ in range(2):
            wide = wide - module.outer(q, q @ wide)
            wide = wide / (module.sqrt((wide * wide).sum(0)) + np.finfo(np.float64).tiny)
            wide = self._on.orthonormal(wide)
        return self._on.cast(wide, self.q)

    def _lowest(self, apply: Operator) -> float:
        """Return about the smallest eigenvalue, rather too low (Lanczos)."""
        norm = self._on.module.linalg.norm
        v = self._projected(self._normal(1, seed=1))
        v = v / norm(v)
        before, size = 0.0 * v, 0.0
        diagonal, off = [], []
        for _ in range(12):
            w = self._projected(apply(v)) - size * before
            diagonal.append(float((w * v).sum()))
            w = w - diagonal[-1] * v
            size = float(norm(w))
            off.append(size)
            if size < 1e-12 * max(map(abs, diagonal)):
                break
            before, v = v, w / size
        found = linalg.eigvalsh_tridiagonal(np.array(diagonal), np.array(off[: len(diagonal) - 1]))
        return float(1.5 * min(found[0], 0.0) - 0.3 * off[-1] - 1e-3 * abs(found[-1]))

    def sharpen(self, apply: Operator, degree: int, times: int = 1, *, anew: bool = False) -> None:
        """Bring values and vectors up to date with an operator that has changed little."""
        if self.values is None or anew:
            self._low = self._lowest(apply)
        if self.values is None:
            self._rotate(apply, self._orthonormal(self.vectors))
            times = max(times, 3)
        for _ in range(times):
            self._rotate(apply, self._orthonormal(self._filtered(apply, degree)))

    def _rotate(self, apply: Operator, V: Any) -> None:
        """Set the Ritz values and vectors of a space."""
        H = self._on.to_host(V.T @ apply(V)).astype(np.float64)
        self.values, Q = linalg.eigh(0.5 * (H + H.T), check_finite=False)
        self.vectors = V @ self._on.cast(self._on.array(Q), V)

    def _filtered(self, apply: Operator, degree: int) -> Any:
        """Return the vectors with what belongs to small eigenvalues damped."""
        assert self.values is not None
        low, high, top = self._low, float(self.values[0]), float(self.values[-1])
        if high <= low:
            high = low + 0.1 * (top - low)
        top = max(top, high + 1e-6 * abs(high) + 1e-30)
        half, middle = 0.5 * (high - low), 0.5 * (high + low)
        sigma = half / (top - middle)
        tau, V = 2.0 / sigma, self.vectors
        Y = (self._projected(apply(V)) - middle * V) * (sigma / half)
        for _ in range(degree - 1):
            new = 1.0 / (tau - sigma)
            Y, V = (
                (self._projected(apply(Y)) - middle * Y) * (2.0 * new / half) - (sigma * new) * V,
                Y,
            )
            sigma = new
        return Y

    def resize(self, columns: int) -> None:
        """Keep the largest, or add random ones."""
        assert self.values is not None
        have = len(self.values)
        if columns <= have:
            self.vectors = self.vectors[:, have - columns :]
            self.values = self.values[have - columns :]
            return
        more = self._normal(columns - have, seed=have)
        self.vectors = self._orthonormal(self._on.module.hstack([more, self.vectors]))
        lowest = self.values[0] - 1e-3 * abs(self.values[0])
        self.values = np.concatenate([np.full(columns - have, lowest), self.values])


class AllVectors(TopBlock):
    """All eigenvalues and their vectors, by a dense decomposition on the host, for few points."""

    def sharpen(self, apply: Operator, degree: int, times: int = 1, *, anew: bool = False) -> None:
        """Decompose the operator."""
        H = self._projected(apply(np.eye(len(self.q), dtype=self.q.dtype)))
        H = self._projected(H.T)
        # q is made the vector of the smallest eigenvalue, which is left out.
        H -= 2.0 * np.linalg.norm(H) * np.outer(self.q, self.q)
        values, vectors = linalg.eigh(H, driver="evd", overwrite_a=True, check_finite=False)
        self.values, self.vectors = values[1:], vectors[:, 1:]

    def resize(self, columns: int) -> None:
        """Keep all."""


def top_block(on: Arrays, q: Any, vectors: Any) -> TopBlock:
    """Return a block that starts from given vectors."""
    return (AllVectors if on is HOST and len(q) <= _DENSE else TopBlock)(on, q, vectors)
