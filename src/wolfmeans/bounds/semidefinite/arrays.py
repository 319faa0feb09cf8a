"""Where the large matrices of the relaxation are: NumPy arrays, or tensors of PyTorch on a GPU.

Both libraries have the same names for most of what a step needs (`matmul`, `add`, `outer` and
`linalg`); the rest is here. Steps prove nothing, so they need not agree to the last bit.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse


class HostArrays:
    """NumPy arrays."""

    module: Any = np

    def array(self, values: Any, like: Any = np.float64) -> Any:
        """Return an array with entries of a NumPy dtype."""
        return np.ascontiguousarray(values, dtype=like)

    def cast(self, array: Any, like: Any) -> Any:
        """Return an array with entries of the same kind as another's."""
        return array.astype(like.dtype, copy=False)

    def double(self, array: Any) -> Any:
        """Return an array in float64."""
        return array.astype(np.float64, copy=False)

    def to_host(self, array: Any) -> NDArray[Any]:
        """Return a NumPy array."""
        return np.asarray(array)

    def matrix(self, T: sparse.csr_array) -> Any:
        """Return a sparse matrix that can be multiplied with a vector."""
        return T

    def at_least_zero(self, array: Any, out: Any = None) -> Any:
        """Return the larger of the entries and 0."""
        return np.maximum(array, array.dtype.type(0), out=out)

    def orthonormal(self, V: Any) -> Any:
        """Return a basis of the space of the columns, nearly orthonormal if they were nearly so."""
        try:
            factor = linalg.cholesky(V.T @ V, lower=True, check_finite=False)
        except linalg.LinAlgError:
            return linalg.qr(V, mode="economic", check_finite=False)[0]
        return linalg.solve_triangular(factor, V.T, lower=True, check_finite=False).T

    def copy(self, array: Any) -> Any:
        """Return a copy."""
        return array.copy()


class TorchArrays:
    """Tensors of PyTorch on a device."""

    def __init__(self, device: str) -> None:
        self.module = import_module("torch")
        self._device = device

    def array(self, values: Any, like: Any = np.float64) -> Any:
        """Return a tensor with entries of a NumPy dtype."""
        return self.module.from_numpy(np.array(values, dtype=like)).to(self._device)

    def cast(self, array: Any, like: Any) -> Any:
        """Return a tensor with entries of the same kind as another's."""
        return array.to(like.dtype)

    def double(self, array: Any) -> Any:
        """Return a tensor in float64."""
        return array.to(self.module.float64)

    def to_host(self, array: Any) -> NDArray[Any]:
        """Return a NumPy array."""
        host: NDArray[Any] = array.cpu().numpy()
        return host

    def matrix(self, T: sparse.csr_array) -> Any:
        """Return a sparse matrix that can be multiplied with a vector."""
        parts = [self.array(part, np.int64) for part in (T.indptr, T.indices)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it calls its own format a beta
            return self.module.sparse_csr_tensor(
                *parts, self.array(T.data), size=T.shape, check_invariants=False
            )

    def at_least_zero(self, array: Any, out: Any = None) -> Any:
        """Return the larger of the entries and 0."""
        return self.module.clamp(array, min=0, out=out)

    def orthonormal(self, V: Any) -> Any:
        """Return a basis of the space of the columns, nearly orthonormal if they were nearly so."""
        factor, failed = self.module.linalg.cholesky_ex(V.T @ V)
        if int(failed):
            return self.module.linalg.qr(V)[0]
        return self.module.linalg.solve_triangular(factor, V.T, upper=False).T

    def copy(self, array: Any) -> Any:
        """Return a copy."""
        return array.clone()


Arrays = HostArrays | TorchArrays
HOST = HostArrays()
