"""Directions: rows divided by their norms, with one formula for every engine.

The norm of a row is the square root of its canonical distance to 0, in float64. Each entry is
divided by it in float64 and rounded to the dtype of the rows; what is then below 2**-200 becomes 0,
so that no square underflows. A float64 row whose largest entry is beyond 2**±300 is first
multiplied by a power of two. All of it depends on the row alone, so that rows in parts, in files
and in memory have the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.exact.distances import UNIT, ReferenceKernels
from wolfmeans.exact.native import _native, aligned, native_is_available

_FAR = 300
_TINY = 2.0**-200


def without_direction(X: Any) -> NDArray[np.bool_]:
    """Whether each row has norm 0."""
    if not sparse.issparse(X):
        none: NDArray[np.bool_] = ~X.any(axis=1)
        return none
    filled = np.zeros(X.shape[0], dtype=bool)
    rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    filled[rows[X.data != 0]] = True
    return ~filled


def unit_rows(X: Any, n_threads: int = 1) -> Any:
    """Return the rows divided by their norms, dense or CSR; rows of norm 0 stay as they are.

    In native code where it is there (native/exact); `specified_unit_rows` is the specification.

    Examples
    --------
    >>> import numpy as np
    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]])).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    if not native_is_available():
        return specified_unit_rows(X)
    if not sparse.issparse(X):
        rows = aligned(X)
        units = np.empty_like(rows)
        _native.unit_rows(rows, None, units, n_threads)
        return units
    values = aligned(X.data)
    data = np.empty_like(values)
    _native.unit_rows(values, aligned(X.indptr, dtype=np.int64), data, n_threads)
    return _with_values(X, data)


def specified_unit_rows(X: Any) -> Any:
    """Return the same in NumPy."""
    if sparse.issparse(X):
        return _unit_sparse_rows(X)
    X = _near_one(X)
    origin = np.zeros((1, X.shape[1]), dtype=X.dtype)
    squares = ReferenceKernels(X).distances(origin, np.zeros(len(X), dtype=np.int32))
    norms = np.sqrt(squares)
    norms[norms == 0] = 1.0
    units = np.empty_like(X)
    with np.errstate(under="ignore"):
        np.divide(X, norms[:, None], out=units, casting="same_kind")
    _drop_tiny(units)
    return units


def norm_error(dtype: Any, n_columns: int) -> float:
    """Return how far the norm of a unit row may be from 1.

    The sum of d squares is off by d + 1 roundings, root and division add one each; rounding the
    entries to the dtype changes the norm by no more than their relative error, or by the smallest
    number for each entry that underflows.
    """
    relative = 2.0**-24 if np.dtype(dtype) == np.float32 else UNIT
    return 1.01 * (relative + (0.5 * n_columns + 4.0) * UNIT) + n_columns * 2.0**-140


def _near_one(X: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return the rows, those of extreme size times a power of two."""
    X = aligned(X)
    if X.dtype == np.float32 or len(X) == 0:
        return X
    _, exponents = np.frexp(np.maximum(X.max(axis=1), -X.min(axis=1)))
    far = np.abs(exponents) > _FAR
    if not far.any():
        return X
    X = X.copy()
    X[far] = np.ldexp(X[far], -exponents[far, None])
    return X


def _drop_tiny(values: NDArray[np.floating]) -> None:
    """Set entries to 0 whose squares could underflow; float32 squares never do in float64."""
    if values.dtype == np.float64:
        values[np.abs(values) < _TINY] = 0.0


def _unit_sparse_rows(X: Any) -> Any:
    """Return CSR rows of norm 1 with the same pattern; each row as if its entries were dense.

    Entries are added in the order of columns; the zeros between them would change nothing.
    """
    lengths = np.diff(X.indptr).astype(np.int64)
    rows = np.repeat(np.arange(X.shape[0]), lengths)
    data = X.data.copy()
    if data.dtype == np.float64 and len(data):
        largest = np.zeros(X.shape[0])
        np.maximum.at(largest, rows, np.abs(data))
        exponents = np.frexp(largest)[1]
        exponents[np.abs(exponents) <= _FAR] = 0
        data = np.ldexp(data, -exponents[rows])
    squares = data.astype(np.float64) ** 2
    sums = np.zeros(X.shape[0])
    # Unbuffered, and in the order of the entries.
    np.add.at(sums, rows, squares)
    norms = np.sqrt(sums)
    norms[norms == 0] = 1.0
    with np.errstate(under="ignore"):
        np.divide(data, norms[rows], out=data, casting="same_kind")
    _drop_tiny(data)
    return _with_values(X, data)


def _with_values(X: Any, data: NDArray[np.floating]) -> Any:
    """Return CSR rows of the same pattern with other values."""
    unit = type(X)((data, X.indices, X.indptr), shape=X.shape)
    unit.has_canonical_format = True
    return unit
