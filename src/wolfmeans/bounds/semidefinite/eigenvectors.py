"""The largest eigenvalues of a symmetric operator that changes little from step to step.

A block of vectors is kept and sharpened by a Chebyshev filter. It proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

Double = NDArray[np.float64]
Operator = Callable[[Any], Any]


class TopBlock:
    """The largest eigenvalues of a symmetric operator on the complement of q, and their vectors."""

    def __init__(self, q: NDArray[Any], columns: int, vectors: Any = None) -> None:
        self.q = q
        if vectors is None:
            rng = np.random.RandomState(0)
            vectors = rng.normal(size=(len(q), columns)).astype(q.dtype)
        self.vectors = vectors
        self.values: Double | None = None
        self._low = 0.0

    def _projected(self, V: Any) -> Any:
        return V - np.outer(self.q, self.q @ V)

    def _orthonormal(self, V: Any) -> Any:
        """Return an orthonormal basis: Cholesky factors of the Gram matrix in float64, twice.

        The filter makes columns nearly parallel. What is then left of them in float32 is rounding,
        also in the direction of q, which is taken out both times.
        """
        wide, q = V.astype(np.float64), self.q.astype(np.float64)
        for _ in range(2):
            wide -= np.outer(q, q @ wide)
            wide /= np.maximum(np.linalg.norm(wide, axis=0), np.finfo(np.float64).tiny)
            try:
                factor = linalg.cholesky(wide.T @ wide, lower=True, check_finite=False)
            except linalg.LinAlgError:
                wide = linalg.qr(wide, mode="economic", check_finite=False)[0]
                continue
            wide = linalg.solve_triangular(factor, wide.T, lower=True, check_finite=False).T
        return wide.astype(V.dtype)

    def _lowest(self, apply: Operator) -> float:
        """Return about the smallest eigenvalue, rather too low (Lanczos)."""
        v = self._projected(np.random.RandomState(1).normal(size=(len(self.q), 1)))
        v = (v / np.linalg.norm(v)).astype(self.q.dtype)
        before, size = np.zeros_like(v), 0.0
        diagonal, off = [], []
        for _ in range(12):
            w = self._projected(apply(v)) - self.q.dtype.type(size) * before
            diagonal.append(float((w * v).sum()))
            w -= self.q.dtype.type(diagonal[-1]) * v
            size = float(np.linalg.norm(w))
            off.append(size)
            if size < 1e-12 * max(map(abs, diagonal)):
                break
            before, v = v, w / self.q.dtype.type(size)
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
        H = (V.T @ apply(V)).astype(np.float64)
        values, Q = linalg.eigh(0.5 * (H + H.T), check_finite=False)
        self.values, self.vectors = values, V @ Q.astype(V.dtype)

    def _filtered(self, apply: Operator, degree: int) -> Any:
        """Return the vectors with what belongs to small eigenvalues damped."""
        assert self.values is not None
        low, high, top = self._low, float(self.values[0]), float(self.values[-1])
        if high <= low:
            high = low + 0.1 * (top - low)
        top = max(top, high + 1e-6 * abs(high) + 1e-30)
        real = self.q.dtype.type
        half, middle = 0.5 * (high - low), 0.5 * (high + low)
        sigma = half / (top - middle)
        tau, V = 2.0 / sigma, self.vectors
        Y = (self._projected(apply(V)) - real(middle) * V) * real(sigma / half)
        for _ in range(degree - 1):
            new = 1.0 / (tau - sigma)
            Y, V = (
                (self._projected(apply(Y)) - real(middle) * Y) * real(2.0 * new / half)
                - real(sigma * new) * V,
                Y,
            )
            sigma = new
        return Y

    def resize(self, columns: int) -> None:
        """Keep the largest, or add random ones."""
        assert self.values is not None
        have = len(self.values)
        if columns <= have:
            self.vectors, self.values = (
                self.vectors[:, have - columns :],
                self.values[have - columns :],
            )
            return
        rng = np.random.RandomState(have)
        more = rng.normal(size=(len(self.q), columns - have)).astype(self.q.dtype)
        self.vectors = self._orthonormal(np.hstack([more, self.vectors]))
        lowest = self.values[0] - 1e-3 * abs(self.values[0])
        self.values = np.concatenate([np.full(columns - have, lowest), self.values])
