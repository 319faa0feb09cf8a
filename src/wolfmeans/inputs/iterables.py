"""Sources in plain Python: whatever can be iterated again gives arrays, again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.engines.tensors import is_tensor, on_host
from wolfmeans.exact.arrays import working_dtype
from wolfmeans.files.arrays import block_of
from wolfmeans.files.conversion import is_real
from wolfmeans.files.source import Block, FilledSource

CALLABLE = (
    "pass something that can be iterated again: a list, an object with __iter__, or a function "
    "that takes nothing and returns a fresh iterator (the generator function itself, not what it "
    "returns)"
)


class IterableSource(FilledSource):
    """Arrays from an iterable, or from a function that returns a fresh iterator.

    Where chunks are read ahead, it is iterated in another thread.
    """

    _advice = "; it must give the same arrays each time it is iterated"

    def __init__(self, iterable: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        super().__init__()
        self._iterable = iterable
        number, chunk, array = self._first()
        if array.shape[1] == 0:
            raise ValueError(f"array {number} of the source has no columns")
        self.names = names_of(chunk)
        self.n_columns, self.dtype = array.shape[1], working_dtype(array.dtype)

    def _begun(self) -> Iterator[Any]:
        if callable(self._iterable):
            given = self._iterable()
            if not isinstance(given, Iterable):
                raise TypeError(
                    f"the function that was passed returns {_kind(given)}, and no iterator"
                )
            return iter(given)
        return iter(self._iterable)

    def _numbered(self) -> Generator[tuple[int, Any, NDArray[Any]], None, None]:
        """Yield what the iterable gives, with its number and as an array."""
        iterator = self._begun()
        try:
            for number, chunk in enumerate(iterator):
                yield number, chunk, _array(chunk, number)
        finally:
            close = getattr(iterator, "close", None)
            if close is not None:
                close()

    def _first(self) -> tuple[int, Any, NDArray[Any]]:
        with closing(self._numbered()) as arrays:
            for found in arrays:
                if len(found[2]):
                    return found
        raise ValueError("the source has no rows: its iterator gives no array with any")

    def _blocks(self, rows: int) -> Iterator[Block]:
        for number, chunk, array in self._numbered():
            called = f"array {number} of the source"
            if len(array) == 0:
                yield block_of(array, called)
                continue
            if array.shape[1] != self.n_columns:
                raise ValueError(
                    f"{called} has {array.shape[1]} columns, but the first one has {self.n_columns}"
                )
            names = names_of(chunk)
            if None not in (names, self.names) and names != self.names:
                raise ValueError(f"{called} has other columns: {', '.join(names or ())}")
            if np.promote_types(working_dtype(array.dtype), self.dtype) != self.dtype and not (
                array.dtype.kind in "iub" and array.dtype.itemsize <= 2
            ):
                raise ValueError(
                    f"{called} is {array.dtype}, but the first one is {self.dtype}, which cannot "
                    "hold all of its numbers; give all arrays the same dtype"
                )
            yield block_of(array, called)


def names_of(table: Any) -> tuple[str, ...] | None:
    """Return the names of columns, if they are texts."""
    names = getattr(table, "columns", None)
    if hasattr(table, "column_names"):
        names = table.column_names
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names)


def as_array(table: Any) -> Any:
    """Return arrays, tensors and data frames as arrays, and everything else as it is."""
    if is_tensor(table):
        return on_host(table)
    if isinstance(table, np.ndarray):
        return table
    if hasattr(table, "to_numpy"):  # pandas and polars
        return table.to_numpy()
    if hasattr(table, "to_pandas"):  # Arrow
        return np.column_stack([column.to_numpy(zero_copy_only=False) for column in table.columns])
    return table


def _array(chunk: Any, number: int) -> NDArray[Any]:
    array = as_array(chunk)
    if not isinstance(array, np.ndarray):
        raise TypeError(f"array {number} of the source is {_kind(chunk)}, and no array of numbers")
    if array.ndim != 2 or not is_real(array.dtype):
        raise ValueError(
            f"array {number} of the source must have rows and columns of numbers; "
            f"it has {array.ndim} axes of {array.dtype}"
        )
    if np.ma.is_masked(array):
        raise ValueError(f"array {number} of the source has masked entries; fill them first")
    return np.ma.getdata(array) if np.ma.isMaskedArray(array) else array


def _kind(value: Any) -> str:
    return f"of type {type(value).__name__}"
