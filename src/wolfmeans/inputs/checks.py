"""What NumPy and SciPy would let pass and the door does not: dates, stray indices and the like."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

EXACT_INTEGERS = 2**53
"""Up to here float64 holds every integer."""


def refuse_stray_indices(X: Any) -> None:
    """Refuse sparse matrices that point beyond their arrays: SciPy and native code would follow."""
    if X.format in ("csr", "csc", "bsr"):
        height, width = X.blocksize if X.format == "bsr" else (1, 1)
        rows, columns = X.shape[::-1] if X.format == "csc" else X.shape
        rows, ends = rows // height, X.indptr
        if (
            len(ends) != rows + 1
            or ends[0] != 0
            or ends[-1] > min(len(X.indices), len(X.data))
            or (ends[1:] < ends[:-1]).any()
        ):
            raise ValueError(
                "Input X is not a valid sparse matrix: its indptr does not ascend from 0 to the "
                "number of its entries; rebuild it"
            )
        indices = {"indices": (X.indices[: ends[-1]], columns // width)}
    elif X.format == "coo" and X.ndim == 2:
        indices = {"row": (X.row, X.shape[0]), "col": (X.col, X.shape[1])}
    else:
        return
    for name, (given, limit) in indices.items():
        if len(given) and (given.min() < 0 or given.max() >= limit):
            first = int(np.flatnonzero((given < 0) | (given >= limit))[0])
            raise ValueError(
                f"Input X is not a valid sparse matrix: its {name}[{first}] is {given[first]}, "
                f"outside 0..{limit - 1}; rebuild it"
            )


def is_canonical(X: Any) -> bool:
    """Whether the rows of a CSR matrix have ascending columns, each once.

    SciPy keeps the answer with a matrix, and keeps it when somebody changes the indices in place.
    """
    indices = X.indices[: X.indptr[-1]]
    rises = indices[1:] > indices[:-1]
    starts = X.indptr[1:-1]
    rises[starts[(starts > 0) & (starts < len(indices))] - 1] = True
    return bool(rises.all())


def refuse_lazy_frames(given: Any) -> None:
    """Refuse tables of polars that are not computed yet, which look like tables of one object."""
    if type(given).__name__ == "LazyFrame" and hasattr(given, "collect"):
        raise TypeError("X is a LazyFrame, which is not computed yet: use X.collect()")


def refuse_dates(given: Any, name: str) -> None:
    """Refuse dates and times, which NumPy takes for whole numbers, the missing ones too."""
    if hasattr(given, "iloc"):
        dtypes = given.dtypes if given.ndim == 2 else [given.dtype]
    elif hasattr(given, "dtype"):
        dtypes = [given.dtype]
    else:
        dtypes = [np.asarray(column).dtype for column in _columns(given)]
    boxed = given.flat if isinstance(given, np.ndarray) and given.dtype == object else ()
    if any(getattr(dtype, "kind", "") in ("m", "M") for dtype in dtypes) or any(
        isinstance(value, (np.datetime64, np.timedelta64)) for value in boxed
    ):
        raise TypeError(
            f"Input {name} has dates or times, which have no scale of their own; convert them to "
            "numbers first, for example to days since the first"
        )


def refuse_other_names(init: Any, names: NDArray[Any] | None) -> None:
    """Refuse initial centers whose columns are called otherwise than those of X, or lie otherwise.

    Names that are no texts count as none.
    """
    own = list(getattr(init, "columns", ()))
    texts = len(own) > 0 and all(isinstance(name, str) for name in own)
    if names is not None and texts and own != list(names):
        raise ValueError(
            f"The columns of init are {own}, and those of X are {list(names)}: give them in one "
            "order, or init without names, as an array"
        )


def refuse_rounded_integers(given: Any) -> None:
    """Refuse integers that became other numbers; only values beyond 2**53 can."""
    for column in _columns(given):
        entries = np.asarray(column)
        if entries.dtype.kind == "O":
            entries = np.array([v for v in entries.ravel() if isinstance(v, (int, np.integer))])
        elif entries.dtype.kind not in "iu":
            continue
        if entries.size and max(int(entries.max()), -int(entries.min())) > EXACT_INTEGERS:
            raise ValueError(
                "Input X has integers beyond 2**53, which float64 cannot hold exactly; "
                "subtract an offset or convert X to floats yourself"
            )


def _columns(X: Any) -> Any:
    """Yield what has a dtype of its own: columns of a table, else the whole."""
    if sparse.issparse(X):
        return [X.tocsr().data]
    if hasattr(X, "iloc"):
        return [X.iloc[:, j] for j in range(X.shape[1])]
    if hasattr(X, "get_columns"):
        return X.get_columns()
    return X.columns if hasattr(X, "columns") else [X]
