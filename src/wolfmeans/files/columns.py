"""Tables in memory: named columns of equal length, and arrays of numbers from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from wolfmeans.exact.native import EXACT_INTEGERS
from wolfmeans.files.text_tables import MARKS

FILL_IN = "fill it in or remove the row first"


@dataclass(frozen=True)
class Part:
    """A file of a table."""

    name: str
    n_rows: int


class Table:
    """Named columns of equal length."""

    names: tuple[str, ...]
    parts: tuple[Part, ...]
    remarks: tuple[str, ...] = ()
    """How the files were read, where that is a guess."""

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return sum(part.n_rows for part in self.parts)

    @property
    def source(self) -> str:
        """The name of the file, or of the first of several."""
        return self.parts[0].name

    def is_numeric(self, name: str) -> bool:
        """Whether a column has numbers."""
        raise NotImplementedError

    def word_in(self, name: str) -> tuple[int, str, float] | None:
        """Return row and text of the first entry that is not a number, and the share of numbers."""
        return None

    def numbers(self, names: Sequence[str]) -> NDArray[np.floating]:
        """Return numeric columns as a C-contiguous array, NaN where an entry is missing."""
        raise NotImplementedError

    def entries(self, name: str) -> NDArray[Any]:
        """Return a column of any type."""
        raise NotImplementedError

    def integers(self, name: str) -> NDArray[Any] | None:
        """Return a column of integers as texts, empty where missing; None if it has other types."""
        raise NotImplementedError

    def names_of_numbers(self, name: str) -> NDArray[Any]:
        """Return numbers as texts, empty where missing; 3 and 3.0 give the same text."""
        if (exact := self.integers(name)) is not None:
            return exact
        values, places = np.unique(self.numbers_or_missing([name])[:, 0], return_inverse=True)
        texts = ["" if value != value else _name_of(value) for value in values.tolist()]
        found: NDArray[Any] = np.array(texts, dtype=str)[places.ravel()]
        return found

    def place(self, row: int) -> str:
        """Return the file and the row in it, counted from 1 without the header."""
        for part in self.parts:
            if row < part.n_rows:
                return f"{part.name}: row {row + 1}"
            row -= part.n_rows
        raise IndexError(row)

    def read_marks(self) -> None:
        """Turn columns of numbers and marks for missing values, such as NA, into numbers."""

    def finite_numbers(self, names: Sequence[str], advice: str = FILL_IN) -> NDArray[np.floating]:
        """Return numeric columns; reject missing and infinite entries with row and column."""
        from wolfmeans.exact.native import value_range

        data = self.numbers(names)
        if not value_range(data)[0]:
            refuse_first(~np.isfinite(data), data, self.place, names, advice)
        return data

    def numbers_or_missing(self, names: Sequence[str]) -> NDArray[np.floating]:
        """Return numeric columns, NaN where an entry is missing; reject infinite ones."""
        data = self.numbers(names)
        if (infinite := np.isinf(data)).any():
            refuse_first(infinite, data, self.place, names)
        return data


class ArrayTable(Table):
    """The columns of a matrix of numbers, named 0, 1, ...: what NPY files hold."""

    def __init__(self, matrix: NDArray[Any], parts: Sequence[Part]) -> None:
        self.matrix, self.parts = matrix, tuple(parts)
        self.names = tuple(map(str, range(matrix.shape[1])))

    def is_numeric(self, name: str) -> bool:
        """Whether a column has numbers: all do."""
        return True

    def numbers(self, names: Sequence[str]) -> NDArray[np.floating]:
        """Return columns as a C-contiguous array; a memory map stays one if it can."""
        if tuple(names) == self.names:
            return _floats(self.matrix)
        return _floats(np.column_stack([self.entries(name) for name in names]))

    def entries(self, name: str) -> NDArray[Any]:
        """Return a column."""
        return self.matrix[:, int(name)]

    def integers(self, name: str) -> NDArray[Any] | None:
        """Return a column of integers as texts; None if it has other numbers."""
        return self.entries(name).astype(str) if self.matrix.dtype.kind in "iu" else None

    @property
    def frame(self) -> Any:
        """The columns as a polars data frame."""
        import polars as pl

        matrix = self.matrix
        if matrix.dtype.kind in "iu":
            matrix = matrix.astype(matrix.dtype.newbyteorder("="), copy=False)
        else:
            matrix = _floats(matrix)
        return pl.DataFrame(matrix, schema=list(self.names), orient="row")


class FrameTable(Table):
    """Columns of a polars data frame."""

    def __init__(self, frame: Any, parts: Sequence[Part]) -> None:
        self.frame, self.parts = frame, tuple(parts)
        self.names = tuple(frame.columns)
        self._schema = frame.schema
        self._marked: dict[str, Any] = {}

    def read_marks(self) -> None:
        """Turn columns of numbers and marks for missing values, such as NA, into numbers."""
        import polars as pl

        for column in self.frame.iter_columns():
            if column.dtype == pl.String:
                texts = column.str.strip_chars()
                found = texts.cast(pl.Float64, strict=False)
                marks = texts.str.to_lowercase().is_in(["", *MARKS])
                if found.count() and (found.is_not_null() | marks | column.is_null()).all():
                    self._marked[column.name] = found

    def is_numeric(self, name: str) -> bool:
        """Whether a column has numbers."""
        return name in self._marked or bool(self._schema[name].is_numeric())

    def word_in(self, name: str) -> tuple[int, str, float] | None:
        """Return row and text of the first entry that is not a number, and the share of numbers."""
        import polars as pl

        column = self.frame[name]
        if column.dtype != pl.String:
            return (0, str(column[0]), 0.0) if not column.dtype.is_numeric() else None
        numbers = column.str.strip_chars().cast(pl.Float64, strict=False)
        bad = numbers.is_null() & column.is_not_null()
        if not bad.any():
            return None
        row = int(bad.arg_max())
        return row, column[row], numbers.count() / len(column)

    def numbers(self, names: Sequence[str]) -> NDArray[np.floating]:
        """Return numeric columns as a C-contiguous array, NaN where an entry is missing."""
        import polars as pl

        chosen = self.frame.with_columns(self._marked.values()).select(names)
        single = all(dtype == pl.Float32 for dtype in chosen.dtypes)
        for name, dtype in chosen.schema.items():
            if dtype.is_integer():
                ends = (chosen[name].min() or 0, chosen[name].max() or 0)
                refuse_large(max(map(abs, ends)), f"{self.source}: column {name!r}")
        if not single:
            chosen = chosen.cast(pl.Float64)
        data: NDArray[np.floating] = np.ascontiguousarray(chosen.to_numpy(order="c"))
        return data

    def entries(self, name: str) -> NDArray[Any]:
        """Return a column of any type."""
        import polars as pl

        column = self.frame[name]
        if column.dtype == getattr(pl, "Int128", None):  # NumPy has none
            return np.array(column.to_list(), dtype=object)
        values: NDArray[Any] = column.to_numpy()
        return values

    def integers(self, name: str) -> NDArray[Any] | None:
        """Return a column of integers as texts, empty where missing; None if it has other types."""
        import polars as pl

        column = self.frame[name]
        if not column.dtype.is_integer():
            return None
        return np.array(column.cast(pl.String).fill_null("").to_list(), dtype=str)


def _name_of(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < EXACT_INTEGERS else repr(value)


def _floats(array: Any) -> NDArray[np.floating]:
    """Return native float32 or float64, C-contiguous and aligned; a copy only if needed."""
    from wolfmeans.exact.native import aligned, working_dtype

    if array.dtype.kind in "iu":
        refuse_large(max(abs(int(array.min())), int(array.max())), "the data")
    with np.errstate(over="ignore"):  # becomes infinite, which is rejected later
        result: NDArray[np.floating] = aligned(array, working_dtype(array.dtype))
    return result


def refuse_first(
    bad: NDArray[np.bool_],
    data: NDArray[np.floating],
    place: Callable[[int], str],
    names: Sequence[str] | None,
    advice: str = FILL_IN,
    before: int = 0,
) -> NoReturn:
    """Reject the first bad entry of rows that come after `before` others, with row and column.

    `advice` is for a missing entry.
    """
    row, column = divmod(int(np.argmax(bad)), data.shape[1])
    name = repr(names[column]) if names else str(column)
    what = "missing"
    if not np.isnan(data[row, column]):
        what, advice = "infinite, or too large for float64", FILL_IN
    raise ValueError(f"{place(before + row)}, column {name} is {what}; {advice}")


def refuse_large(size: int, where: str) -> None:
    """Reject integers up to this size if float64 cannot hold them exactly."""
    if size > EXACT_INTEGERS:
        raise ValueError(
            f"{where} has integers beyond 2**53, which float64 cannot hold exactly: "
            "an identifier, perhaps? Leave it out with --exclude"
        )
