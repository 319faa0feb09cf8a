"""Kinds of data: in memory, in the partitions of a Dask collection, or read in chunks."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from wolfmeans.files.source import Source

_LIKE_FILES = ("zarr", "h5py")


class DataKind(Enum):
    """Where the rows of the data are."""

    MEMORY = "in memory"
    DASK = "in a Dask collection"
    CHUNKS = "read in chunks"


def kind_of_data(X: Any, *, limited: bool = False) -> DataKind:
    """Return which kind of data X is; `limited` says that there is a memory limit.

    A path, a source, an array in a file, and an iterable of arrays are read in chunks. An array
    that is mapped into memory is, too, if there is a memory limit; else it is like any other array.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.zeros((4, 2))
    >>> [kind_of_data(data).name for data in (X, "points.npy", [X, X])]
    ['MEMORY', 'CHUNKS', 'CHUNKS']
    """
    if type(X) is np.ndarray:
        return DataKind.MEMORY
    if _is_read_in_chunks(X, limited):
        return DataKind.CHUNKS
    return DataKind.DASK if is_dask(X) else DataKind.MEMORY


def is_dask(X: Any) -> bool:
    """Whether X is a Dask collection. Dask is not imported for this."""
    dask = sys.modules.get("dask.base")
    return dask is not None and bool(dask.is_dask_collection(X))


def _is_read_in_chunks(X: Any, limited: bool) -> bool:
    if isinstance(X, (str, os.PathLike, Source)):
        return True
    if isinstance(X, np.ndarray):
        return limited and isinstance(X, np.memmap)
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and (
            isinstance(X[0], (str, os.PathLike)) or getattr(X[0], "ndim", None) == 2
        )
    if type(X).__module__.partition(".")[0] in _LIKE_FILES:
        return True
    if hasattr(X, "shape") or hasattr(X, "__array__") or hasattr(X, "__dataframe__"):
        return False
    return callable(X) or (isinstance(X, Iterable) and not isinstance(X, (Sequence, set, dict)))
