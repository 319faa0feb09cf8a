"""Sources of chunks from files, folders, patterns, arrays, tensors, Zarr arrays and iterables."""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.engines.tensors import is_tensor, on_host
from wolfmeans.exact.native import working_dtype
from wolfmeans.files.arrays import SlicedSource, block_of, is_real, reading, source_of_array
from wolfmeans.files.atomic import shown
from wolfmeans.files.columnar import ColumnarSource
from wolfmeans.files.columns import refuse_first
from wolfmeans.files.npy import NpySource
from wolfmeans.files.source import Block, FilledSource, Source
from wolfmeans.files.tables import STANDARD_INPUT, SUFFIXES, kind_of, matching
from wolfmeans.files.text_tables import layout_of

_ZARR_FILES = ("zarr.json", ".zarray", ".zgroup")
_AGAIN = (
    "pass something that can be iterated again: a list, an object with __iter__, or a function "
    "that takes nothing and returns a fresh iterator (the generator function itself, not what it "
    "returns)"
)


def open_source(
    data: Any,
    *,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] = (),
    drop_missing: bool = False,
) -> Source:
    """Return anything that has rows of numbers as a source of chunks.

    Parameters
    ----------
    data : path, sequence of paths, array, tensor, iterable or callable
        A file (NPY, Parquet, Arrow, Zarr), a folder or a pattern of such files, several of them,
        an array or tensor, a Zarr array, an iterable of arrays that can be iterated again, or a
        function that takes nothing and returns an iterator of arrays.
    columns, exclude : sequence of str
        Names of columns to use, or to leave out, of files that have names.
    drop_missing : bool
        Leave out rows with missing values, which are an error otherwise. Rows are counted without
        them, and `kept` of the source tells which rows were kept.

    Examples
    --------
    >>> import numpy as np
    >>> source = open_source([np.ones((3, 2)), np.zeros((2, 2))])
    >>> [(first, len(rows)) for first, rows in source.chunks(2)]
    [(0, 2), (2, 2), (4, 1)]
    >>> source.n_rows, source.n_columns, str(source.dtype)
    (5, 2, 'float64')
    """
    if isinstance(data, (str, os.PathLike)) or _are_paths(data):
        names = [data] if isinstance(data, (str, os.PathLike)) else data
        source = _source_of_files([os.fspath(name) for name in names], columns, exclude)
    elif columns is not None or exclude:
        raise ValueError("columns are chosen by name in Parquet and Arrow files only")
    else:
        source = data if isinstance(data, Source) else _source_of_object(data)
    return CompleteSource(source) if drop_missing else source


def _are_paths(data: Any) -> bool:
    return (
        isinstance(data, (list, tuple))
        and len(data) > 0
        and all(isinstance(path, (str, os.PathLike)) for path in data)
    )


# --- Objects -----------------------------------------------------------------------------------


def _source_of_object(data: Any) -> Source:
    if isinstance(data, (bytes, bytearray, dict, set)) or data is None:
        raise TypeError(f"rows cannot be read from an object of type {type(data).__name__}")
    if sparse.issparse(data):
        raise TypeError("sparse data is not read in chunks; it has to fit into memory")
    if hasattr(data, "__dask_graph__"):
        raise TypeError("this is a Dask collection, whose partitions are not chunks of a file")
    table = _as_array(data)
    if isinstance(table, np.ndarray):
        called = "the tensor" if is_tensor(data) else "the array"
        return source_of_array(table, _names_of(data), called)
    if all(hasattr(data, name) for name in ("shape", "dtype", "ndim", "__getitem__")):
        called = getattr(data, "name", None) or f"the {type(data).__name__}"
        return SlicedSource(data, str(called))
    if isinstance(data, io.IOBase):
        raise TypeError("an open file cannot be a source of rows; pass its name")
    return _source_of_iterable(data)


def _source_of_iterable(data: Any) -> Source:
    kind = type(data).__name__
    if isinstance(data, Iterable):
        if not isinstance(data, Sequence) and iter(data) is data:
            raise TypeError(f"an iterator of type {kind} can be used only once; {_AGAIN}")
    elif not callable(data):
        raise TypeError(
            f"rows cannot be read from an object of type {kind}: it is not a file, array or "
            f"tensor; {_AGAIN}"
        )
    return IterableSource(data)


def _names_of(table: Any) -> tuple[str, ...] | None:
    """Return the names of columns if all are texts."""
    names = getattr(table, "columns", None)
    if hasattr(table, "column_names"):
        names = table.column_names
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names)


def _as_array(table: Any) -> Any:
    """Return tensors and data frames as arrays, and everything else unchanged."""
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
    array = _as_array(chunk)
    if not isinstance(array, np.ndarray):
        kind = type(chunk).__name__
        raise TypeError(f"array {number} of the source is of type {kind}, and no array of numbers")
    if array.ndim != 2 or not is_real(array.dtype):
        raise ValueError(
            f"array {number} of the source must have rows and columns of numbers; "
            f"it has {array.ndim} axes of {array.dtype}"
        )
    if np.ma.is_masked(array):
        raise ValueError(f"array {number} of the source has masked entries; fill them first")
    return np.ma.getdata(array) if np.ma.isMaskedArray(array) else array


class IterableSource(FilledSource):
    """Arrays from an iterable, or from a function that returns a fresh iterator.

    If chunks are read ahead, it is iterated in another thread.
    """

    _advice = "; it must give the same arrays each time it is iterated"

    def __init__(self, iterable: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        super().__init__()
        self._iterable = iterable
        number, chunk, array = self._first()
        if array.shape[1] == 0:
            raise ValueError(f"array {number} of the source has no columns")
        self.names = _names_of(chunk)
        self.n_columns, self.dtype = array.shape[1], working_dtype(array.dtype)

    def _begun(self) -> Iterator[Any]:
        if callable(self._iterable):
            given = self._iterable()
            if not isinstance(given, Iterable):
                kind = type(given).__name__
                raise TypeError(f"the function returned an object of type {kind}, not an iterator")
            return iter(given)
        return iter(self._iterable)

    def _numbered(self) -> Generator[tuple[int, Any, NDArray[Any]], None, None]:
        """Yield the number of each chunk, the chunk as given, and as an array."""
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
            names = _names_of(chunk)
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


# --- Files -------------------------------------------------------------------------------------


def _source_of_files(
    names: Sequence[str], columns: Sequence[str] | None, exclude: Sequence[str]
) -> Source:
    paths = [path for name in names for path in _files(name)]
    kinds = {path: _kind(path) for path in paths}
    if len(set(kinds.values())) > 1:
        one, other = paths[0], next(path for path in paths if kinds[path] != kinds[paths[0]])
        raise ValueError(
            f"{shown(str(one))} is of format {kinds[one]} and {shown(str(other))} of format "
            f"{kinds[other]}; files of a source are of one format"
        )
    kind = kinds[paths[0]]
    if kind in ("csv", "tsv"):
        raise ValueError(_how_to_convert(paths[0], kind))
    if kind in ("parquet", "arrow"):
        return ColumnarSource(paths, kind, columns, exclude)
    if columns is not None or exclude:
        raise ValueError(f"{shown(str(paths[0]))} has no names of columns to choose by")
    return NpySource(paths) if kind == "npy" else _source_of_zarr(paths)


def _files(name: str) -> Iterator[Path]:
    """Yield the file of this name, the files of a folder, or those that match a pattern."""
    if not name:
        raise ValueError("the name of a file is empty")
    if name == STANDARD_INPUT:
        raise ValueError("standard input can be read only once; write it to a file first")
    if re.match(r"[a-z][a-z0-9+]+://", name):
        raise ValueError(f"{name} is an address; only files of this machine are read in chunks")
    for found in matching(name):
        path = Path(found)
        if path.is_dir() and not _is_zarr(path):
            inside = sorted(_inside(path))
            if not inside:
                known = ", ".join(SUFFIXES)
                raise FileNotFoundError(f"the folder {shown(found)} has no file of {known}")
            yield from inside
        elif not path.exists():
            raise FileNotFoundError(f"no such file: {shown(found)}")
        else:
            yield path


def _inside(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder and its subfolders, except those like .hidden or _SUCCESS."""
    for path in folder.iterdir():
        if path.name.startswith((".", "_")):
            continue
        if path.is_dir() and not _is_zarr(path):
            yield from _inside(path)
        elif _is_zarr(path) or kind_of(path)[0] is not None:
            yield path


def _is_zarr(path: Path) -> bool:
    return path.is_dir() and any((path / name).exists() for name in _ZARR_FILES)


def _kind(path: Path) -> str:
    if _is_zarr(path):
        return "zarr"
    kind, _ = kind_of(path)
    if kind is None:
        known = ", ".join((*SUFFIXES, ".zarr"))
        raise ValueError(f"{shown(str(path))}: its extension is none of {known}")
    return kind


def _source_of_zarr(paths: Sequence[Path]) -> Source:
    name = shown(str(paths[0]))
    if len(paths) > 1:
        raise ValueError(f"{name} and {len(paths) - 1} more: Zarr arrays are read one at a time")
    try:
        import zarr
    except ImportError:
        raise ImportError(f"reading {name} needs zarr: pip install zarr") from None
    with reading(name):
        found = zarr.open(str(paths[0]), mode="r")
        arrays = None if hasattr(found, "shape") else ", ".join(sorted(found.array_keys()))
        if arrays is None:
            return SlicedSource(found, name)
    raise ValueError(
        f"{name} is a group of arrays: {arrays or 'none'}; pass the folder of one of them"
    )


def _how_to_convert(path: Path, kind: str) -> str:
    """Return how to convert a text file: its numbers would be parsed again in each pass."""
    name = shown(str(path))
    target = path.name.split(".")[0] + ".parquet"
    options = ""
    if kind_of(path)[1] is None:
        with path.open("rb") as file:
            layout = layout_of(file, name, "\t" if kind == "tsv" else None)
        if layout.separator != ",":
            options += f", separator={layout.separator!r}"
        if not layout.named:
            options += ", has_header=False"
        if layout.decimal_comma:
            options += ", decimal_comma=True"
    command = f"import polars; polars.scan_csv({name!r}{options}).sink_parquet({target!r})"
    return (
        f"{name} is text, which is not read in chunks: every pass would parse it anew. "
        f'Convert it once, in little memory: python -c "{command}"'
    )


# --- Rows without missing values ---------------------------------------------------------------


class CompleteSource(FilledSource):
    """The complete rows of a source: row i is the i-th complete one.

    Their number, and which rows they are (`kept`), is known after the first pass.
    """

    def __init__(self, whole: Source) -> None:
        super().__init__()
        self._whole = whole
        self.n_columns, self.dtype, self.names = whole.n_columns, whole.dtype, whole.names
        self.parts, self.remarks, self._name = whole.parts, whole.remarks, whole._name
        self.reads_ahead = whole.reads_ahead
        self._masks: list[tuple[int, NDArray[np.uint8]]] = []

    @property
    def reading_bytes(self) -> int:
        """Bytes that reading takes in addition to the chunks, about."""
        return self._whole.reading_bytes + 2 * self._step_rows * self._row_bytes

    def spare_memory(self, limit: int) -> None:
        """Read the whole in a way that takes less memory, if there is one."""
        self._whole.spare_memory(limit)

    @property
    def kept(self) -> NDArray[np.bool_] | None:
        """Which rows of the whole source are complete; None before a pass has ended."""
        if self._facts is None:
            return None
        masks = [np.unpackbits(bits, count=count) for count, bits in self._masks]
        return np.concatenate(masks).astype(bool)

    def _blocks(self, rows: int) -> Iterator[Block]:
        masks: list[tuple[int, NDArray[np.uint8]]] = []
        before = 0
        for array in self._whole._arrays(self._step_rows, threading.Event()):
            if (infinite := np.isinf(array)).any():
                refuse_first(infinite, array, self._whole.place, self.names, before=before)
            complete = ~np.isnan(array).any(axis=1)
            masks.append((len(array), np.packbits(complete)))
            before += len(array)
            yield block_of(array if complete.all() else array[complete], self._name)
        if before and not any(bits.any() for _, bits in masks):
            raise ValueError(f"{self._name}: every row has a missing value; use fewer columns")
        self._masks = masks

    def place(self, row: int) -> str:
        """Return the number of a row among the complete ones."""
        return f"row {row} of those without missing values, counted from 0"
