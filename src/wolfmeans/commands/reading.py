"""Data for commands: bundled by name, or a CSV, Parquet or NPY file."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans import datasets

BUNDLED = {"iris": 3, "banknotes": 2, "wine": 3, "digits": 10}
"""Names of the data sets that come along, and how many classes they have."""


@dataclass(frozen=True)
class Numbers:
    """The numeric columns of some data."""

    name: str
    data: NDArray[np.float64]
    dropped: tuple[str, ...] = ()
    """Names of the columns that are not numbers."""
    classes: int | None = None
    """How many classes are known, where it is."""

    def standardized(self) -> NDArray[np.float64]:
        """Return the columns as z-scores; constant columns become 0."""
        spread = self.data.std(axis=0)
        centered = self.data - self.data.mean(axis=0)
        return np.asarray(centered / np.where(spread > 0, spread, 1.0), dtype=np.float64)


def read(source: str) -> Numbers:
    """Return bundled data or the numbers in a file."""
    if source in BUNDLED:
        return Numbers(source, _bundled(source), classes=BUNDLED[source])
    path = Path(source)
    if not path.is_file():
        names = ", ".join(BUNDLED)
        raise FileNotFoundError(f"there is no file {source}, and bundled data is called {names}")
    kind = path.suffix.lower()
    readers = {".csv": _csv, ".tsv": _csv, ".txt": _csv, ".npy": _npy, ".parquet": _parquet}
    if kind not in readers:
        raise ValueError(f"{source}: only {', '.join(readers)} files can be read")
    try:
        columns, dropped = readers[kind](path)
    except (ValueError, OSError) as error:
        said = str(error).partition("\n")[0]
        raise ValueError(
            said if str(path) in said else f"{source} cannot be read: {said}"
        ) from error
    if not columns:
        raise ValueError(f"{source} has no column of numbers")
    data = np.column_stack(list(columns.values())).astype(np.float64)
    if not len(data):
        raise ValueError(f"{source} has no rows")
    for name, column in zip(columns, data.T, strict=True):
        if missing := int(np.sum(~np.isfinite(column))):
            raise ValueError(
                f"{source}: column {name!r} has {missing} missing or infinite values; "
                "fill or remove them first"
            )
    return Numbers(path.stem, data, tuple(dropped))


def _bundled(name: str) -> NDArray[np.float64]:
    if name == "banknotes":
        return datasets.load_banknotes().data
    import sklearn.datasets

    loaded = getattr(sklearn.datasets, f"load_{name}")()
    return np.asarray(loaded.data, dtype=np.float64)


Columns = tuple[dict[str, Any], list[str]]
"""Numeric columns by name, and the names of the others."""


def _npy(path: Path) -> Columns:
    try:
        array = np.load(path, allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"{path} is not a NumPy file of numbers") from error
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise ValueError(
            f"{path} must hold a table of numbers; it has {array.ndim} axes of {array.dtype}"
        )
    return {str(j): column for j, column in enumerate(array.T)}, []


def _parquet(path: Path) -> Columns:
    try:
        import pyarrow.parquet as parquet
        import pyarrow.types as types
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: pip install pyarrow") from error
    table = parquet.read_table(path)
    numeric, others = {}, []
    for field in table.schema:
        if types.is_integer(field.type) or types.is_floating(field.type):
            values = table.column(field.name).to_numpy(zero_copy_only=False)
            numeric[field.name] = np.asarray(values, dtype=np.float64)
        else:
            others.append(field.name)
    return numeric, others


def _csv(path: Path) -> Columns:
    with path.open(encoding="utf-8-sig", newline="") as file:
        first = file.readline()
    if not first.strip():
        raise ValueError(f"{path} is empty")
    separator = max(",;\t", key=first.count)
    fields = next(csv.reader([first], delimiter=separator))
    # A first line of numbers is data, not names.
    named = not all(_is_number(field) for field in fields)
    try:
        import pandas
    except ImportError:
        return _csv_plainly(path, separator, named)
    table = pandas.read_csv(path, sep=separator, header=0 if named else None, encoding="utf-8-sig")
    numeric = table.select_dtypes("number")
    others = [str(name) for name in table.columns if name not in numeric.columns]
    return {str(name): numeric[name].to_numpy() for name in numeric.columns}, others


def _csv_plainly(path: Path, separator: str, named: bool) -> Columns:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file, delimiter=separator) if row]
    names = rows.pop(0) if named else [str(j) for j in range(len(rows[0]))]
    numeric, others = {}, []
    for j, name in enumerate(names):
        cells = [row[j].strip() if j < len(row) else "" for row in rows]
        if any(cells) and all(not cell or _is_number(cell) for cell in cells):
            numeric[name] = np.array([float(cell) if cell else np.nan for cell in cells])
        else:
            others.append(name)
    return numeric, others


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
