"""The door for sources: files, folders, patterns, arrays, tensors, Zarr, iterables."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from wolfmeans.engines.tensors import is_tensor
from wolfmeans.files.arrays import SlicedSource, reading, source_of_array
from wolfmeans.files.atomic import shown
from wolfmeans.files.columnar import ColumnarSource
from wolfmeans.files.npy import NpySource
from wolfmeans.files.source import Source
from wolfmeans.files.tables import STANDARD_INPUT, SUFFIXES, kind_of, matching
from wolfmeans.files.text_tables import layout_of
from wolfmeans.inputs.complete_rows import CompleteSource
from wolfmeans.inputs.iterables import CALLABLE, IterableSource, as_array, names_of

_ZARR = ("zarr.json", ".zarray", ".zgroup")


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
        Leave out rows with missing values, which are refused otherwise; rows are counted without
        them then, and `kept` says which ones they are.

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
        raise TypeError("this is a Dask collection, whose partitions are no chunks of a file")
    table = as_array(data)
    if isinstance(table, np.ndarray):
        called = "the tensor" if is_tensor(data) else "the array"
        return source_of_array(table, names_of(data), called)
    if all(hasattr(data, name) for name in ("shape", "dtype", "ndim", "__getitem__")):
        called = getattr(data, "name", None) or f"the {type(data).__name__}"
        return SlicedSource(data, str(called))
    if isinstance(data, io.IOBase):
        raise TypeError("an open file cannot be a source of rows; pass its name")
    return _source_of_iterable(data)


def _source_of_iterable(data: Any) -> Source:
    if isinstance(data, Iterable):
        if not isinstance(data, Sequence) and iter(data) is data:
            raise TypeError(
                f"an iterator of type {type(data).__name__} can be used only once; {CALLABLE}"
            )
    elif not isinstance(data, Callable):  # type: ignore[arg-type]
        raise TypeError(
            f"rows cannot be read from an object of type {type(data).__name__}: it is not a file, "
            f"array or tensor; {CALLABLE}"
        )
    return IterableSource(data)


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
        raise ValueError(_converted(paths[0], kind))
    if kind in ("parquet", "arrow"):
        return ColumnarSource(paths, kind, columns, exclude)
    if columns is not None or exclude:
        raise ValueError(f"{shown(str(paths[0]))} has no names of columns to choose by")
    return NpySource(paths) if kind == "npy" else _source_of_zarr(paths)


def _files(name: str) -> Iterator[Path]:
    """Yield the files that a name stands for: itself, those of a folder, or of a pattern."""
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
    """Yield the files of a folder and of those in it, without hidden ones and marks of writers."""
    for path in folder.iterdir():
        if path.name.startswith((".", "_")):
            continue
        if path.is_dir() and not _is_zarr(path):
            yield from _inside(path)
        elif _is_zarr(path) or kind_of(path)[0] is not None:
            yield path


def _is_zarr(path: Path) -> bool:
    return path.is_dir() and any((path / name).exists() for name in _ZARR)


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


def _converted(path: Path, kind: str) -> str:
    """Return how to convert a text file, whose numbers would be parsed again in each pass."""
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
