"""Hashes of rows by their values: chance that is tied to a point, not to where it is stored.

Rows of equal values have equal hashes, whatever their number, the partition they are in, and
whether they are dense or sparse, float32 or float64. Mixing is that of SplitMix64, all integers, so
the bits are the same on every machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Hashes = NDArray[np.uint64]
"""(n,) one hash per row."""

_GOLDEN = 0x9E3779B97F4A7C15
_ENTRIES_AT_ONCE = 1 << 20


def mix(z: Hashes) -> Hashes:
    """Return the last step of SplitMix64, a bijection in which every bit depends on every bit."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def row_hashes(X: Any) -> Hashes:
    """Return a hash of each row of dense or CSR data: the specification of all engines.

    The mixed sum, modulo 2**64, of mix(bits of x_j as float64 ^ key of column j) over the entries
    that are not zero. A sum does not ask for an order, and zeros, stored or not, add nothing.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2.0, 0.0], [2.0, -0.0], [0.0, 2.0]])
    >>> first, second, third = row_hashes(X).tolist()
    >>> first == second, first == third
    (True, False)
    """
    return mix(_sparse_sums(X) if sparse.issparse(X) else _dense_sums(X))


def _dense_sums(X: NDArray[np.floating]) -> Hashes:
    n, d = X.shape
    keys = _column_keys(np.arange(d))
    sums = np.empty(n, dtype=np.uint64)
    many = max(1, _ENTRIES_AT_ONCE // max(d, 1))
    for start in range(0, n, many):
        part = slice(start, start + many)
        sums[part] = _mixed(X[part], keys).sum(axis=1, dtype=np.uint64)
    return sums


def _sparse_sums(X: Any) -> Hashes:
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    # Differences of a running sum, which may wrap: so may the sums.
    running = np.zeros(X.nnz + 1, dtype=np.uint64)
    np.cumsum(_mixed(X.data, _column_keys(X.indices)), out=running[1:])
    sums: Hashes = running[X.indptr[1:]] - running[X.indptr[:-1]]
    return sums


def _mixed(values: NDArray[np.floating], keys: Hashes) -> Hashes:
    """Return what entries add to the sums of their rows."""
    exact = np.ascontiguousarray(values, dtype=np.float64)
    return np.where(exact == 0.0, np.uint64(0), mix(exact.view(np.uint64) ^ keys))


def _column_keys(columns: NDArray[np.integer]) -> Hashes:
    return mix((columns.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN))


def stream(seed: int, number: int) -> int:
    """Return the key of a stream of uniforms: one for each seed and number, both below 2**64.

    Examples
    --------
    >>> stream(3, 0) != stream(3, 1) != stream(4, 1)
    True
    """
    words = mix(np.array([seed], dtype=np.uint64)) + np.array([number + 1], dtype=np.uint64)
    return int(mix(words * np.uint64(_GOLDEN))[0])


def uniforms(hashes: Hashes, key: int) -> NDArray[np.float64]:
    """Return one uniform in [0, 1) of 53 bits for each hash, by the key of a stream.

    Examples
    --------
    >>> import numpy as np
    >>> some = uniforms(np.arange(5, dtype=np.uint64), stream(1, 0))
    >>> bool((some[:2] == uniforms(np.arange(2, dtype=np.uint64), stream(1, 0))).all())
    True
    """
    bits = mix(hashes ^ np.uint64(key))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
