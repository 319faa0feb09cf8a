"""Parquet and Arrow files as sources, one or several: batches of columns become rows.

The rules for numeric columns and for the dtype are those of tables in memory (columns.py). Row
groups of Parquet are never in memory as a whole: their columns are streamed, some rows at a time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.files.arrays import NEAR
from wolfmeans.files.atomic import shown
from wolfmeans.files.columns import Part, refuse_large
from wolfmeans.files.source import Block, FilledSource
from wolfmeans.files.tables import ARROW_STREAM
from wolfmeans.files.text_tables import is_number

_BATCH = 1 << 20
"""Bytes of numbers in a batch: enough for its overhead not to matter."""
_RELEASE = 8
"""Batches after which pyarrow's allocator is asked to give back what it does not use."""
_BUFFER = 1 << 16
"""Bytes of a Parquet column that are fetched at once. Whole row groups would be no faster, and may
be larger than memory."""
_DECODING = 12_000_000
_OF_A_COLUMN = 3_000_000
_THREADS = 32_000_000
"""Bytes that pyarrow takes for batches, for the pages of a column, and for threads. More than half
is kept by its allocator: 26 to 29 million were measured with 8 columns and one thread, 57 with two
threads; 76 to 107 with 32 columns."""
_MANY_CORES = 4
_LARGE = 1 << 26
"""Bytes: larger batches of an Arrow file are mapped, not read."""
_TESTED = 10_000
"""Rows in which the numbers of a text column are counted."""
_MOSTLY_NUMBERS = 0.5


def pyarrow_for(kind: str) -> Any:
    """Import pyarrow; the error says how to install it."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.dataset
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        raise ImportError(
            f"reading {kind} in chunks needs pyarrow: pip install 'wolfmeans[stream]'"
        ) from None
    return pyarrow


class _ParquetFile:
    threads: bool
    """Whether columns are decoded by several threads."""

    def __init__(self, path: Path, pyarrow: Any) -> None:
        self.path, self.name, self._pyarrow = path, shown(str(path)), pyarrow
        # Other threads work on earlier chunks; with few cores one more would not help.
        self.threads = (os.cpu_count() or 1) >= _MANY_CORES
        with _reading(self.name, "Parquet"), pyarrow.parquet.ParquetFile(path) as file:
            self.schema, self.n_rows = file.schema_arrow, file.metadata.num_rows
            self.names = tuple(self.schema.names)

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield record batches of at most `rows` rows, with these columns in this order."""
        opened = self._pyarrow.parquet.ParquetFile
        with (
            _reading(self.name, "Parquet"),
            opened(self.path, pre_buffer=False, buffer_size=_BUFFER) as file,
        ):
            if file.metadata.num_rows != self.n_rows or file.schema_arrow != self.schema:
                raise ValueError(f"{self.name} has changed: other rows or columns than before")
            batches = file.iter_batches(
                batch_size=rows, columns=list(names), use_threads=self.threads
            )
            for number, batch in enumerate(batches):
                yield batch.select(list(names))
                if number % _RELEASE == 0:
                    self._pyarrow.default_memory_pool().release_unused()


class _ArrowFile:
    threads = False  # nothing has to be decoded

    def __init__(self, path: Path, pyarrow: Any) -> None:
        self.path, self.name, self._pyarrow = path, shown(str(path)), pyarrow
        with path.open("rb") as file:
            self._is_stream = file.read(len(ARROW_STREAM)) == ARROW_STREAM
        with _reading(self.name, "Arrow"), self._reader() as reader:
            self.schema, self.names = reader.schema, tuple(reader.schema.names)
            if self._is_stream:
                self.n_rows = sum(batch.num_rows for batch in reader)
                self._mapped = True
            else:
                each = path.stat().st_size / max(1, reader.num_record_batches)
                self._mapped = each > _LARGE
                self.n_rows = pyarrow.dataset.dataset(path, format="ipc").count_rows()

    @contextmanager
    def _reader(self, mapped: bool = True) -> Iterator[Any]:
        pyarrow, path = self._pyarrow, str(self.path)
        with pyarrow.memory_map(path) if mapped else pyarrow.OSFile(path) as file:
            opened = pyarrow.ipc.open_stream if self._is_stream else pyarrow.ipc.open_file
            with opened(file) as reader:
                yield reader

    def batches(self, names: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield record batches of at most `rows` rows, with these columns in this order."""
        with _reading(self.name, "Arrow"), self._reader(self._mapped) as reader:
            if reader.schema != self.schema:
                raise ValueError(f"{self.name} has changed: other columns than before")
            whole = (
                reader
                if self._is_stream
                else (reader.get_batch(j) for j in range(reader.num_record_batches))
            )
            for batch in whole:
                chosen = batch.select(list(names))
                for begin in range(0, chosen.num_rows, rows):
                    yield chosen.slice(begin, rows)


@contextmanager
def _reading(name: str, kind: str) -> Iterator[None]:
    """Name the file in errors."""
    import pyarrow

    try:
        yield
    except pyarrow.ArrowException as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"{name} is damaged, or not {kind}: {reason}") from None
    except UnicodeDecodeError as error:
        wrong = f"{error.object[:40]!r} is not UTF-8"
        raise ValueError(f"{name} is damaged, or not {kind}: {wrong}") from None
    except OSError as error:
        raise type(error)(f"{name} cannot be read: {error.strerror or error}") from error


class ColumnarSource(FilledSource):
    """Columns of numbers in Parquet or Arrow files, one file below the other."""

    def __init__(
        self,
        paths: Sequence[Path],
        kind: str,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._arrow = pyarrow_for(kind.capitalize())
        opened = _ParquetFile if kind == "parquet" else _ArrowFile
        self._files: list[_ParquetFile | _ArrowFile] = [opened(path, self._arrow) for path in paths]
        for file in self._files:
            if not file.n_rows or not file.names:
                raise ValueError(f"{file.name} has no rows")
        self._check_names()
        self._set_parts(Part(file.name, file.n_rows) for file in self._files)
        self.names = tuple(self._chosen(columns, exclude))
        self.n_columns = len(self.names)
        single = all(self._column_dtype(name) == np.float32 for name in self.names)
        self.dtype = np.dtype(np.float32 if single else np.float64)

    def _check_names(self) -> None:
        first = self._files[0]
        for file in self._files:
            if len(set(file.names)) < len(file.names):
                raise ValueError(f"{file.name} has columns of the same name")
            for one, other in ((first, file), (file, first)):
                for name in one.names:
                    if name not in other.names:
                        raise ValueError(
                            f"{other.name} has no column {name!r}, but {one.name} has one"
                        )

    # --- Which columns -------------------------------------------------------------------------

    def _chosen(self, columns: Sequence[str] | None, exclude: Sequence[str]) -> Iterator[str]:
        first = self._files[0]
        there = list(first.names)
        for name in (*(columns or ()), *exclude):
            if name not in there:
                more = ", …" if len(there) > 12 else ""
                raise ValueError(
                    f"{first.name} has no column {name!r}; it has {', '.join(there[:12])}{more}"
                )
        asked = list(dict.fromkeys(columns or there))
        wanted = [name for name in asked if name not in exclude]
        numeric = [name for name in wanted if self._is_numeric(name)]
        others = [name for name in wanted if name not in numeric]
        if columns is not None and others:
            raise ValueError(f"{first.name}: column {others[0]!r} has no numbers")
        if not numeric:
            raise ValueError(f"{first.name} has no numeric column to cluster")
        if others:
            self._refuse_mistakes(others)
            self.remarks = (f"Ignoring non-numeric columns: {', '.join(others)}.",)
        yield from numeric

    def _types(self, name: str) -> list[Any]:
        return [file.schema.field(name).type for file in self._files]

    def _is_numeric(self, name: str) -> bool:
        """Whether a column has numbers in every file; booleans and times are not numbers."""
        types = self._arrow.types
        return all(
            types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
            for kind in self._types(name)
        )

    def _column_dtype(self, name: str) -> np.dtype[Any]:
        types = self._arrow.types
        return np.result_type(
            *[
                np.float64 if types.is_decimal(kind) else kind.to_pandas_dtype()
                for kind in self._types(name)
            ]
        )

    def _refuse_mistakes(self, names: Sequence[str]) -> None:
        """Reject a text column that is mostly numbers: there is a mistake in it."""
        types, file = self._arrow.types, self._files[0]
        texts = [
            name
            for name in names
            if any(
                types.is_string(kind) or types.is_large_string(kind) for kind in self._types(name)
            )
        ]
        if not texts:
            return
        head = next(file.batches(texts, _TESTED))
        for name, column in zip(texts, head.columns, strict=True):
            entries = [str(entry) for entry in column.to_pylist() if entry is not None]
            share = sum(is_number(entry.strip()) for entry in entries) / max(1, len(column))
            if share >= _MOSTLY_NUMBERS:
                raise ValueError(
                    f"{file.name}: column {name!r} has texts, most of which are numbers; "
                    "write them as numbers, or leave the column out"
                )

    @property
    def reading_bytes(self) -> int:
        """Bytes that reading takes in addition to the chunks, about."""
        threads = _THREADS if self._files[0].threads else 0
        return _DECODING + _OF_A_COLUMN * self.n_columns + threads

    def spare_memory(self, limit: int) -> None:
        """Decode columns one by one if threads would take much of the memory."""
        if 4 * self.reading_bytes > limit:
            for file in self._files:
                file.threads = False

    # --- Rows ----------------------------------------------------------------------------------

    def _blocks(self, rows: int) -> Iterator[Block]:
        assert self.names is not None
        at_once = max(1024, _BATCH // self._row_bytes)
        for file in self._files:
            for batch in file.batches(self.names, min(at_once, max(rows, 1024))):
                yield self._block(batch, file.name)

    def _block(self, batch: Any, where: str) -> Block:
        assert self.names is not None
        columns = [
            self._numbers(column, f"{where}: column {name!r}")
            for name, column in zip(self.names, batch.columns, strict=True)
        ]
        few = max(1, NEAR // self._row_bytes)

        def write(begin: int, out: NDArray[np.floating]) -> None:
            for start in range(0, len(out), few):
                rows = out[start : start + few]
                from_, to = begin + start, begin + start + len(rows)
                for j, column in enumerate(columns):
                    rows[:, j] = column[from_:to]

        return Block(batch.num_rows, write)

    def _numbers(self, column: Any, called: str) -> NDArray[Any]:
        """Return a column as an array, NaN where an entry is missing."""
        types = self._arrow.types
        if types.is_int64(column.type) or types.is_uint64(column.type):
            ends = self._arrow.compute.min_max(column).as_py()
            refuse_large(max(abs(ends["min"] or 0), abs(ends["max"] or 0)), called)
        if types.is_decimal(column.type):
            column = _rounded(column)
        elif column.null_count and types.is_integer(column.type):
            column = column.cast(self._arrow.float64(), safe=False)
        numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return numbers


def _rounded(column: Any) -> Any:
    """Return decimal numbers in float64, rounded by polars as in tables in memory."""
    try:
        import polars
    except ImportError:
        raise ImportError("reading decimal numbers needs polars: pip install polars") from None
    return polars.from_arrow(column).cast(polars.Float64).to_arrow()
