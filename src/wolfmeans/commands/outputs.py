"""The output files of commands: tables (format by file extension), JSON, models and pages."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.commands.process import say
from wolfmeans.files.atomic import written_whole
from wolfmeans.files.columns import FrameTable, Table
from wolfmeans.files.label_files import write_npy_pieces
from wolfmeans.files.tables import SUFFIXES, matching

if TYPE_CHECKING:
    from wolfmeans.bounds.proof_format import Proof, ProofTree

STANDARD_OUTPUT = "-"
_ITS_NAMES = (STANDARD_OUTPUT, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_TEXT = ("csv", "tsv")
_NUMBER = "row"
"""The name of the column of row numbers."""
_TABLES = ("--labels", "--centers", "--csv")
"""Options whose file is a table."""
_TEXTS = (*_TABLES, "--certificate")
"""Options whose text may go to standard output."""


def is_standard_output(target: str | None) -> bool:
    """Whether a target is standard output, by one of its names."""
    return target in _ITS_NAMES


def say_written(targets: Iterable[str | None], *, quiet: bool) -> None:
    """Print the names of the files that were written, unless quiet."""
    files = [target for target in targets if target and not is_standard_output(target)]
    if files and not quiet:
        say(f"Written: {', '.join(files)}")


def check_targets(
    targets: Mapping[str, str | None], inputs: Sequence[str], *, json: bool = False
) -> None:
    """Check, before any long work, that the targets can and should be written."""
    given = {option: target for option, target in targets.items() if target is not None}
    printed = "--json" if json else None
    files = [file for source in inputs for file in matching(source)]
    seen: dict[str, str] = {os.path.realpath(file): "the data" for file in files}
    for option, target in given.items():
        if option in _TABLES:
            _check_table_target(option, target)
    for option, target in given.items():
        if is_standard_output(target):
            if option not in _TEXTS:
                raise ValueError(f"{option}: {target} is standard output; give the name of a file")
            if printed is not None:
                raise ValueError(
                    f"{option}: {target} is standard output, which {printed} already uses"
                )
            printed = option
            continue
        path = Path(target)
        if path.is_dir():
            raise IsADirectoryError(f"{option}: {target} is a folder; give the name of a file")
        if not path.parent.is_dir():
            raise FileNotFoundError(f"{option}: no such folder: {path.parent}")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise PermissionError(f"{option}: {target} cannot be written: Permission denied")
        place = os.path.realpath(path)
        special = path.exists() and not path.is_file()
        if place in seen and not special:
            raise ValueError(f"{option}: {target} is already used for {seen[place]}")
        seen[place] = option


def _check_table_target(option: str, target: str) -> None:
    """Check that the extension of a table's name is a format that can be written."""
    kind = _kind(target)
    if kind is None:
        raise ValueError(f"{option}: {target} must end in one of {', '.join(SUFFIXES)}")
    if kind in ("parquet", "arrow"):
        try:
            import polars  # noqa: F401
        except ImportError:
            message = f"writing {kind} needs polars: pip install 'wolfmeans[cli]'"
            raise ImportError(message) from None


def check_gaps(target: str | None, *, gaps: bool) -> None:
    """Check that the file format can mark rows without a label, if there may be `gaps`."""
    if target is not None and gaps and _kind(target) == "npy":
        raise ValueError(
            f"{target}: an .npy file cannot hold empty labels for skipped rows; "
            "use .csv or .parquet"
        )


def _kind(target: str) -> str | None:
    if is_standard_output(target):
        return "csv"
    path = Path(target)
    # A pipe or device has no extension; it gets text.
    special = path.exists() and not path.is_file()
    return "csv" if special else SUFFIXES.get(path.suffix.lower())


def write_table(
    target: str,
    columns: Mapping[str, NDArray[Any]],
    beside: Table | None = None,
    *,
    numbered: bool = False,
) -> None:
    """Write columns, beside those of a table if there is one; "-" is standard output.

    Missing entries are nulls in Parquet and Arrow, and empty fields in text. Alone in its line an
    empty field is a blank line, which pandas skips; in quotes it makes Polars read a column of
    words. So where entries can be missing, text is `numbered`: it begins with a column of row
    numbers, from 1.
    """
    kind = _kind(target)
    if beside is not None:
        columns = {_free_name(name, beside.names): column for name, column in columns.items()}
    elif numbered and kind in _TEXT:
        n_rows = len(next(iter(columns.values())))
        columns = {_NUMBER: np.arange(1, n_rows + 1), **columns}
    with _target(target) as file:
        if kind == "npy":
            _write_npy(file, columns, beside)
            return
        frame = _frame(columns, beside)
        if frame is None:
            _write_text(file, columns, beside, "\t" if kind == "tsv" else ",")
        elif kind == "parquet":
            frame.write_parquet(file)
        elif kind == "arrow":
            frame.write_ipc(file)
        else:
            frame.write_csv(file, separator="\t" if kind == "tsv" else ",")


def write_pieces(
    target: str, name: str, pieces: Iterator[NDArray[Any]], *, numbered: bool = False
) -> int:
    """Write a column as it comes, piece after piece, and return how many entries it has.

    Missing entries and `numbered` are as in `write_table`.
    """
    kind = _kind(target)
    count = 0
    with _target(target, at_once=False) as file:
        if kind == "npy":
            return write_npy_pieces(file, pieces)
        with _piece_writer(file, kind, name, numbered) as write:
            for piece in pieces:
                write(piece)
                count += len(piece)
    return count


@contextmanager
def _piece_writer(
    file: IO[bytes], kind: str | None, name: str, numbered: bool
) -> Iterator[Callable[[NDArray[Any]], None]]:
    if kind in ("parquet", "arrow"):
        from wolfmeans.files.columnar import pyarrow_for

        arrow = pyarrow_for(str(kind).capitalize())
        schema = arrow.schema([(name, arrow.int32())])
        opened = arrow.parquet.ParquetWriter if kind == "parquet" else arrow.ipc.new_file
        with opened(file, schema) as writer:
            yield lambda piece: writer.write_batch(
                arrow.record_batch(
                    [arrow.array(np.asarray(piece), mask=_mask(piece))], schema=schema
                )
            )
        return
    separator = "\t" if kind == "tsv" else ","
    file.write((f"{_NUMBER}{separator}{name}\n" if numbered else f"{name}\n").encode())
    row = 0

    def write(piece: NDArray[Any]) -> None:
        nonlocal row
        entries = np.asarray(piece).astype(str)
        entries[np.ma.getmaskarray(piece)] = ""
        lines = entries.tolist()
        if numbered:
            lines = [f"{number}{separator}{line}" for number, line in enumerate(lines, row + 1)]
        row += len(lines)
        file.write("".join(f"{line}\n" for line in lines).encode())

    yield write


def _mask(piece: NDArray[Any]) -> NDArray[np.bool_] | None:
    return np.ma.getmaskarray(piece) if np.ma.is_masked(piece) else None


def _free_name(name: str, taken: Sequence[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _frame(columns: Mapping[str, NDArray[Any]], beside: Table | None) -> Any:
    try:
        import polars as pl
    except ImportError:
        return None
    new = [_series(pl, name, column) for name, column in columns.items()]
    if isinstance(beside, FrameTable):
        return beside.frame.with_columns(new)
    old = [] if beside is None else [pl.Series(n, beside.entries(n)) for n in beside.names]
    return pl.DataFrame([*old, *new])


def _series(polars: Any, name: str, column: NDArray[Any]) -> Any:
    series = polars.Series(name, np.asarray(column))
    mask = np.ma.getmaskarray(column)
    return (
        series.zip_with(polars.Series(~mask), series.clear(len(series))) if mask.any() else series
    )


def _write_text(
    file: IO[bytes], columns: Mapping[str, NDArray[Any]], beside: Table | None, separator: str
) -> None:
    old = {} if beside is None else {name: beside.entries(name) for name in beside.names}
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, delimiter=separator, lineterminator="\n")
    every = {**old, **columns}
    writer.writerow(every)
    writer.writerows(zip(*(column.tolist() for column in every.values()), strict=True))
    text.flush()
    text.detach()


def _write_npy(file: IO[bytes], columns: Mapping[str, NDArray[Any]], beside: Table | None) -> None:
    arrays = list(columns.values())
    if beside is not None:
        if not all(map(beside.is_numeric, beside.names)):
            raise ValueError("an .npy file can hold only numbers; write labels and data to .csv")
        arrays = [beside.numbers(beside.names), *arrays]
    array = arrays[0] if len(arrays) == 1 else np.column_stack(arrays)
    np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(array))
    # NumPy's own error on a full disk does not say that the disk is full.
    file.write(np.ascontiguousarray(array).data.cast("B"))


def write_text(target: str, text: str) -> None:
    """Write a text."""
    with _target(target) as file:
        file.write(text.encode())


def write_json(target: str, content: Any) -> None:
    """Write something as JSON."""
    with _target(target) as file:
        file.write(json.dumps(content, indent=2, ensure_ascii=False).encode() + b"\n")


def write_proof(target: str, proof: Proof | ProofTree) -> None:
    """Write the proof of a lower bound."""
    with _target(target) as file:
        proof.save(file)


@contextmanager
def _target(target: str, *, at_once: bool = True) -> Iterator[IO[bytes]]:
    with naming("standard output" if is_standard_output(target) else target):
        if is_standard_output(target) and not at_once:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
            return
        if is_standard_output(target):
            # Python's own write tells a broken pipe from a full disk.
            whole = io.BytesIO()
            yield whole
            sys.stdout.buffer.write(whole.getbuffer())
            sys.stdout.buffer.flush()
            return
        with written_whole(target) as file:
            yield file


@contextmanager
def naming(target: str) -> Iterator[None]:
    """Name the file in the error if it cannot be written."""
    try:
        yield
    except BrokenPipeError:
        raise
    except Exception as error:
        # Polars has error classes of its own.
        of_polars = type(error).__module__.partition(".")[0] == "polars"
        if not isinstance(error, OSError) and not of_polars:
            raise
        raise OSError(f"{target} cannot be written: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    """Return the system's message, which Polars puts into a longer one."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = next(iter(str(error).strip().splitlines()), type(error).__name__)
    number = re.search(r"\(os error (\d+)\)", text)
    return os.strerror(int(number[1])) if number else text
