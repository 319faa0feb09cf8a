"""Tables from files: CSV, TSV, Parquet, Arrow and NPY, one or several, or standard input.

Polars reads them where it is installed; without it CSV is read by the standard library and NPY by
NumPy. A table that cannot be read is refused in one sentence that names the file and the place.
"""

from __future__ import annotations

import glob
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.choices import FORMATS as FORMATS
from wolfmeans.text_tables import Layout, as_numbers, fault_of, is_number, layout_of, read_plainly

SUFFIXES = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".npy": "npy",
}
STANDARD_INPUT = "-"
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\x93NUMPY": "npy"}
_FOREIGN = {b"\x1f\x8b": "compressed by gzip", b"PK\x03\x04": "a zip or a spreadsheet"}
_EXACT_INTEGERS = 2**53


@dataclass(frozen=True)
class Part:
    """A file of a table."""

    name: str
    n_rows: int


class Table:
    """Named columns of equal length. What kind of arrays they are is a subclass's business."""

    names: tuple[str, ...]
    parts: tuple[Part, ...]

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
        """Return row and text of the first entry that is no number, and the share of numbers."""
        raise NotImplementedError

    def numbers(self, names: Sequence[str]) -> NDArray[np.floating]:
        """Return numeric columns as a C-contiguous array, NaN where an entry is missing."""
        raise NotImplementedError

    def entries(self, name: str) -> NDArray[Any]:
        """Return a column, of whatever kind."""
        raise NotImplementedError

    def place(self, row: int) -> str:
        """Return where a row is: the file and the row in it, counted from 1 without names."""
        for part in self.parts:
            if row < part.n_rows:
                return f"{part.name}: row {row + 1}"
            row -= part.n_rows
        raise IndexError(row)

    def finite_numbers(self, names: Sequence[str]) -> NDArray[np.floating]:
        """Return numeric columns; refuse missing and infinite entries with their place."""
        from wolfmeans.engines.cpu import value_range

        data = self.numbers(names)
        if not value_range(data)[0]:
            first = int(np.flatnonzero(~np.isfinite(data.ravel()))[0])
            row, column = divmod(first, data.shape[1])
            what = "is missing" if np.isnan(data[row, column]) else "is infinite"
            raise ValueError(
                f"{self.place(row)}, column {names[column]!r} {what}; "
                "fill it in or remove the row first"
            )
        return data


class ArrayTable(Table):
    """NumPy columns: those of a matrix, or of a CSV file read without polars."""

    def __init__(self, columns: dict[str, NDArray[Any]], name: str, matrix: Any = None) -> None:
        self.columns, self.names = columns, tuple(columns)
        self.parts = (Part(name, len(next(iter(columns.values())))),)
        self.matrix = matrix

    def is_numeric(self, name: str) -> bool:
        """Whether a column has numbers."""
        return self.columns[name].dtype.kind in "fiub"

    def word_in(self, name: str) -> tuple[int, str, float] | None:
        """Return row and text of the first entry that is no number, and the share of numbers."""
        entries = [str(entry) for entry in self.columns[name].tolist()]
        good = [not entry.strip() or is_number(entry) for entry in entries]
        if all(good):
            return None
        row = good.index(False)
        return row, entries[row], sum(map(is_number, entries)) / len(entries)

    def numbers(self, names: Sequence[str]) -> NDArray[np.floating]:
        """Return numeric columns as a C-contiguous array; a memory map stays one if it can."""
        if self.matrix is not None and tuple(names) == self.names:
            return _floats(self.matrix)
        return _floats(np.column_stack([self.columns[name] for name in names]))

    def entries(self, name: str) -> NDArray[Any]:
        """Return a column, of whatever kind."""
        return self.columns[name]


class FrameTable(Table):
    """Columns of a polars data frame."""

    def __init__(self, frame: Any, parts: Sequence[Part]) -> None:
        self.frame, self.parts = frame, tuple(parts)
        self.names = tuple(frame.columns)

    def is_numeric(self, name: str) -> bool:
        """Whether a column has numbers."""
        return bool(self.frame.schema[name].is_numeric())

    def word_in(self, name: str) -> tuple[int, str, float] | None:
        """Return row and text of the first entry that is no number, and the share of numbers."""
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

        chosen = self.frame.select(names)
        single = all(dtype == pl.Float32 for dtype in chosen.dtypes)
        for name, dtype in chosen.schema.items():
            if dtype.is_integer():
                ends = (chosen[name].min() or 0, chosen[name].max() or 0)
                _refuse_large(max(map(abs, ends)), f"{self.source}: column {name!r}")
        if not single:
            chosen = chosen.cast(pl.Float64)
        data: NDArray[np.floating] = np.ascontiguousarray(chosen.to_numpy(order="c"))
        return data

    def entries(self, name: str) -> NDArray[Any]:
        """Return a column, of whatever kind."""
        values: NDArray[Any] = self.frame[name].to_numpy()
        return values


def _floats(array: Any) -> NDArray[np.floating]:
    """Return native float32 or float64, C-contiguous, without a copy where it is that."""
    if array.dtype.kind in "iu":
        _refuse_large(max(abs(int(array.min())), int(array.max())), "the data")
    dtype = np.float32 if array.dtype in (np.float16, np.float32) else np.float64
    result: NDArray[np.floating] = np.asarray(array, dtype=dtype, order="C")
    return result


def _refuse_large(size: int, where: str) -> None:
    if size > _EXACT_INTEGERS:
        raise ValueError(
            f"{where} has integers beyond 2**53, which float64 cannot hold exactly: "
            "an identifier, perhaps? Leave it out with --exclude"
        )


# --- Reading -----------------------------------------------------------------------------------


def read(sources: Sequence[str], kind: str | None = None) -> Table:
    """Read files, patterns of file names, or standard input ("-"), one below the other."""
    tables = [_read_one(source, kind) for name in sources for source in matching(name)]
    return tables[0] if len(tables) == 1 else _stacked(tables)


def matching(source: str) -> list[str]:
    """Return the files that a name stands for: itself, or those that a pattern matches."""
    if source == STANDARD_INPUT or Path(source).exists() or not glob.has_magic(source):
        return [source]
    found = sorted(glob.glob(source, recursive=True))  # noqa: PTH207 - of any folder
    if not found:
        raise FileNotFoundError(f"no file is called like {source}")
    return found


def _read_one(source: str, kind: str | None) -> Table:
    name, content = source, _content(source)
    if source == STANDARD_INPUT:
        name = "standard input"
    with _opened(content) as file:
        head = file.read(8)
    if not head:
        raise ValueError(f"{name} is empty")
    found = next((form for magic, form in _MAGIC.items() if head.startswith(magic)), None)
    if kind is None and isinstance(content, Path):
        kind = SUFFIXES.get(content.suffix.lower())
        if kind is None:
            known = ", ".join(SUFFIXES)
            raise ValueError(f"{name}: its ending is none of {known}; say what it is with --format")
    kind = kind or found or "csv"
    if (found or "csv") != ("csv" if kind == "tsv" else kind):
        _refuse_other_kind(name, kind, found, head)
    table = _READERS[kind](content, name)
    if not table.names or not table.n_rows:
        raise ValueError(f"{name} has no rows")
    return table


def _refuse_other_kind(name: str, kind: str, found: str | None, head: bytes) -> None:
    if found is not None:
        raise ValueError(
            f"{name} is a file of format {found}, not {kind}; rename it or say --format {found}"
        )
    foreign = next((what for magic, what in _FOREIGN.items() if head.startswith(magic)), None)
    raise ValueError(f"{name} is {foreign or 'damaged or something else'}, not {kind}")


def _content(source: str) -> Path | bytes:
    if source == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    path = Path(source)
    if path.is_dir():
        raise IsADirectoryError(f"{source} is a folder; for the files in it say '{source}/*.csv'")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {source}")
    return path if path.is_file() else path.read_bytes()


@contextmanager
def _opened(content: Path | bytes) -> Iterator[IO[bytes]]:
    if isinstance(content, bytes):
        yield io.BytesIO(content)
        return
    try:
        file = content.open("rb")
    except OSError as error:
        raise type(error)(f"{content} cannot be read: {error.strerror}") from error
    with file:
        yield file


def _polars() -> Any:
    try:
        import polars
    except ImportError:
        return None
    return polars


def _csv(content: Path | bytes, name: str, separator: str | None = None) -> Table:
    with _opened(content) as file:
        if (foreign := _foreign(file.read(4))) is not None:
            raise ValueError(f"{name} is {foreign}, not text; unpack it first")
        file.seek(0)
        layout = layout_of(file, name, separator)
        if (polars := _polars()) is None:
            file.seek(0)
            return _plain_table(read_plainly(file, name, layout), name)
    frame = _csv_frame(polars, content, name, layout)
    return FrameTable(frame, [Part(name, len(frame))])


def _foreign(head: bytes) -> str | None:
    return next((what for magic, what in _FOREIGN.items() if head.startswith(magic)), None)


def _plain_table(fields: dict[str, list[str]], name: str) -> Table:
    columns: dict[str, NDArray[Any]] = {}
    for column, texts in fields.items():
        numbers = as_numbers(texts)
        columns[column] = np.array(texts, dtype=object) if numbers is None else numbers
    return ArrayTable(columns, name)


def _csv_frame(polars: Any, content: Path | bytes, name: str, layout: Layout) -> Any:
    """Read text with polars: types from the first rows, and from all of them if that fails."""
    frame = None
    for rows in (1000, None):
        source = io.BytesIO(content) if isinstance(content, bytes) else content
        options = {"separator": layout.separator, "has_header": layout.named, "glob": False}
        try:
            frame = polars.read_csv(
                source, infer_schema_length=rows, raise_if_empty=False, **options
            )
        except polars.exceptions.PolarsError as error:
            failure = error
        else:
            break
    if frame is None or len(frame.columns) != len(layout.names):
        with _opened(content) as file:
            fault = fault_of(file, name, layout)
        raise ValueError(fault or f"{name} cannot be read: {_first_line(failure)}")
    frame.columns = list(layout.names)
    return _numbers_with_blanks(polars, frame)


def _numbers_with_blanks(polars: Any, frame: Any) -> Any:
    """Turn columns into numbers that are texts only because of blanks around them."""
    for column in frame.iter_columns():
        if column.dtype == polars.String and column.null_count() < len(column):
            numbers = column.str.strip_chars().cast(polars.Float64, strict=False)
            if numbers.null_count() == column.null_count():
                frame = frame.with_columns(numbers)
    return frame


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _parquet(content: Path | bytes, name: str) -> Table:
    return _columnar(content, name, "read_parquet", "Parquet")


def _arrow(content: Path | bytes, name: str) -> Table:
    return _columnar(content, name, "read_ipc", "Arrow")


def _columnar(content: Path | bytes, name: str, reader: str, kind: str) -> Table:
    polars = _polars()
    if polars is None:
        raise ImportError(f"reading {kind} needs polars: pip install 'wolfmeans[cli]'")
    with _opened(content) as file:
        try:
            frame = getattr(polars, reader)(file if isinstance(content, bytes) else content)
        # A damaged file may also end in a panic, which is no Exception.
        except (Exception, polars.exceptions.PanicException) as error:
            message = f"{name} is damaged, or not {kind}: {_first_line(error)}"
            raise ValueError(message) from None
    return FrameTable(frame, [Part(name, len(frame))])


def _npy(content: Path | bytes, name: str) -> Table:
    try:
        if isinstance(content, bytes):
            array = np.load(io.BytesIO(content), allow_pickle=False)
        else:
            array = np.load(content, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{name} is damaged: {_first_line(error)}") from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} must hold a table of numbers; it has {array.ndim} axes of {array.dtype}"
        )
    if not array.size:
        raise ValueError(f"{name} has no rows")
    return ArrayTable({str(j): array[:, j] for j in range(array.shape[1])}, name, array)


def _tsv(content: Path | bytes, name: str) -> Table:
    return _csv(content, name, "\t")


_READERS = {"csv": _csv, "tsv": _tsv, "parquet": _parquet, "arrow": _arrow, "npy": _npy}


def _stacked(tables: list[Table]) -> Table:
    """Put tables below each other, columns by their names."""
    first = tables[0]
    for table in tables[1:]:
        for one, other in ((first, table), (table, first)):
            for name in one.names:
                if name not in other.names:
                    raise ValueError(
                        f"{other.source} has no column {name!r}, and {one.source} has one"
                    )
    parts = [part for table in tables for part in table.parts]
    if all(isinstance(table, FrameTable) for table in tables):
        return FrameTable(_stacked_frames(tables), parts)
    columns = {
        name: np.concatenate([table.entries(name) for table in tables]) for name in first.names
    }
    result = ArrayTable(columns, first.source)
    result.parts = tuple(parts)
    return result


def _stacked_frames(tables: Sequence[Any]) -> Any:
    """Stack data frames; a column that is text in one of them is text."""
    import polars as pl

    names = list(tables[0].names)
    texts = [name for name in names if not all(table.is_numeric(name) for table in tables)]
    frames = [t.frame.select(names).with_columns(pl.col(texts).cast(pl.String)) for t in tables]
    return pl.concat(frames, how="vertical_relaxed")
