"""Tables from files: CSV, TSV, JSON lines, Parquet, Arrow, NPY and NPZ; or standard input.

Text may be compressed by gzip, zstd, bzip2, xz or zip. NumPy reads NPY and NPZ files, polars
everything else. The error for a table that cannot be read is one sentence that names the file and
the place.
"""

from __future__ import annotations

import glob
import io
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from wolfmeans.files.atomic import shown
from wolfmeans.files.columns import ArrayTable, FrameTable, Part, Table
from wolfmeans.files.parquet_pages import wrong_count
from wolfmeans.files.text_cleaning import PACKED, cleaned, unpacked_content, without_groups
from wolfmeans.files.text_tables import (
    DECIMAL_COMMA,
    GROUPED_POINTS,
    NUMBER,
    PACKINGS,
    Layout,
    ending_of,
    fault_of,
    first_lines,
    layout_of,
    packing_of,
    unpacked,
)

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
"""Formats that are read and written."""
ONLY_READ = {".jsonl": "jsonl", ".ndjson": "jsonl", ".npz": "npz"}
"""Formats that are read, but not written."""
_TEXTS = ("csv", "tsv", "jsonl")
STANDARD_INPUT = "-"
ARROW_STREAM = b"\xff\xff\xff\xff"
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", ARROW_STREAM: "arrow", b"\x93NUMPY": "npy"}
_ARCHIVE = b"PK\x03\x04"
_FOREIGN = {
    _ARCHIVE: "a zip or a spreadsheet",
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ": "compressed by xz",
    b"\x80\x04\x95": "a pickle",
    b"SQLite": "a database",
    b"\x89HDF": "an HDF5 file",
    b"%PDF": "a PDF file",
}


def read(sources: Sequence[str], kind: str | None = None) -> Table:
    """Read files, patterns of file names, or standard input ("-"), one below the other."""
    tables = [_read_one(source, kind) for name in sources for source in matching(name)]
    if len(tables) == 1:
        return tables[0]
    stacked = _stacked(tables)
    stacked.remarks = tuple(remark for table in tables for remark in table.remarks)
    return stacked


def matching(source: str) -> list[str]:
    """Return the file of this name, or the files that match a pattern."""
    if source == STANDARD_INPUT or Path(source).exists() or not glob.has_magic(source):
        return [source]
    found = sorted(glob.glob(source, recursive=True))  # noqa: PTH207 - of any folder
    if not found:
        raise FileNotFoundError(f"no file matches {source}")
    return found


def _read_one(source: str, kind: str | None) -> Table:
    name, content = shown(source), _content(source)
    if source == STANDARD_INPUT:
        name = "standard input"
    with _opened(content):
        opened = unpacked_content(content, name)
    if opened is not None:
        content, kind = opened[0], kind or _kind_inside(opened[1], name)
    with _opened(content) as file:
        head = file.read(8)
    if not head:
        raise ValueError(f"{name} is empty")
    packing = packing_of(head)
    if kind is None and isinstance(content, Path):
        kind, promised = _kind_read(content)
        if kind is None:
            known = ", ".join((*SUFFIXES, *ONLY_READ))
            raise ValueError(
                f"{name}: its extension is none of {known}; set the format with --format"
            )
        if packing != promised:
            _refuse_other_packing(name, packing, promised)
    if isinstance(content, Path) and name != source:
        content = content.read_bytes()  # polars does not open a file whose name is not text
    found = next((form for magic, form in _MAGIC.items() if head.startswith(magic)), None)
    if kind == "npz" or (kind is None and head.startswith(_ARCHIVE)):
        kind = found = "npz"
    kind = kind or found or ("jsonl" if head.lstrip().startswith(b"{") else "csv")
    if (found or "csv") != ("csv" if kind in _TEXTS else kind):
        _refuse_other_kind(name, kind, found, head)
    if kind == "jsonl":
        table = _json_lines(content, name, packing)
    elif kind == "npz":
        table = _npz(content, name)
    elif kind in ("csv", "tsv"):
        table = _csv(content, name, packing, "\t" if kind == "tsv" else None)
    elif kind == "npy":
        table = _npy(content, name)
    else:
        table = _columnar(content, name, kind.capitalize())
    if not table.names or not table.n_rows:
        raise ValueError(f"{name} has no rows")
    return table


def _kind_read(path: Path) -> tuple[str | None, str | None]:
    """Return the format and the compression of a file name, of those that are only read, too."""
    packing = PACKINGS.get(path.suffix.lower())
    kind = ONLY_READ.get((path.with_suffix("") if packing else path).suffix.lower())
    if kind is None or (packing and kind not in _TEXTS):
        return kind_of(path)
    return kind, packing


def _kind_inside(inside: str, name: str) -> str:
    """Return the format of what was unpacked, by the name inside."""
    plain = Path(inside)
    # data.csv.zip may hold a file of any name.
    outer = Path(name).with_suffix("") if Path(name).suffix.lower() in PACKED else Path(name)
    kind = _kind_read(plain)[0] or _kind_read(outer)[0]
    if kind is None and inside == name:
        return "csv"
    if kind is None:
        raise ValueError(
            f"{name} has {shown(inside)} in it, whose extension is none of "
            f"{', '.join((*SUFFIXES, *ONLY_READ))}; set the format with --format"
        )
    return kind


def kind_of(path: Path) -> tuple[str | None, str | None]:
    """Return the format and the compression that a file name stands for."""
    packing = PACKINGS.get(path.suffix.lower())
    kind = SUFFIXES.get((path.with_suffix("") if packing else path).suffix.lower())
    return (None if packing and kind not in ("csv", "tsv") else kind), packing


def _refuse_other_packing(name: str, packing: str | None, promised: str | None) -> None:
    if packing is None:
        raise ValueError(f"{name} is not compressed by {promised}; rename it without its ending")
    plain = name.removesuffix(ending_of(promised)) if promised else name
    ending = ending_of(packing)
    raise ValueError(f"{name} is compressed by {packing}; rename it to {plain}{ending}")


def _refuse_other_kind(name: str, kind: str, found: str | None, head: bytes) -> None:
    if found is not None:
        raise ValueError(
            f"{name} is a file of format {found}, not {kind}; rename it or use --format {found}"
        )
    is_text = head.isascii() and all(byte >= 32 or byte in b"\t\r\n" for byte in head)
    what = "text" if is_text else _foreign(head) or "damaged or something else"
    raise ValueError(f"{name} is {what}, not {kind}")


def _content(source: str) -> Path | bytes:
    if source == STANDARD_INPUT:
        if sys.stdin is None:
            raise ValueError("standard input is closed")
        return sys.stdin.buffer.read()
    path = Path(source)
    if path.is_symlink() and not path.exists():
        raise FileNotFoundError(f"{source} is a link to {path.readlink()}, which does not exist")
    if path.is_dir():
        raise IsADirectoryError(
            f"{source} is a folder; to read the files in it, use '{source}/*.csv'"
        )
    if not path.exists():
        raise FileNotFoundError(f"no such file: {source}")
    if path.is_file():
        return path
    with _opened(path) as file:
        return file.read()


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
        try:
            yield file
        except OSError as error:
            if error.errno is None or error.filename is not None:
                raise
            raise OSError(f"{content} cannot be read: {error.strerror}") from error


def _polars(kind: str) -> Any:
    try:
        import polars
    except ImportError:
        raise ImportError(f"reading {kind} needs polars: pip install 'wolfmeans[cli]'") from None
    return polars


def _csv(content: Path | bytes, name: str, packing: str | None, separator: str | None) -> Table:
    polars = _polars("CSV")
    remarks: list[str] = []
    if packing is None:
        with _opened(content):
            content, remarks = cleaned(content, name, separator)
    with _opened(content) as file, unpacked(file, packing, name) as text:
        if text is None:
            try:
                text = io.BytesIO(first_lines(polars, content))
            except (OSError, polars.exceptions.PolarsError) as error:
                raise ValueError(f"{name} is damaged: {_first_line(error)}") from None
        if (foreign := _foreign(text.read(8))) is not None:
            raise ValueError(f"{name} is {foreign}, not text; unpack it first")
        text.seek(0)
        layout = layout_of(text, name, separator)
    frame = _csv_frame(polars, content, name, layout, packing)
    frame, grouped = without_groups(polars, frame, name, decimal_comma=layout.decimal_comma)
    table = FrameTable(frame, [Part(name, len(frame))])
    if layout.decimal_comma:
        remarks.append(f"{name}: a comma in a number is read as a decimal point, 1,5 as 1.5.")
    table.remarks = (*remarks, *grouped)
    return table


def _json_lines(content: Path | bytes, name: str, packing: str | None) -> Table:
    """Read one JSON object on each line; a name that a line does not have is a missing value."""
    polars = _polars("JSON lines")
    with _opened(content) as file, unpacked(file, packing, name) as text:
        if text is None:
            raise ValueError(f"{name}: this Python does not unpack {packing}; unpack it first")
        whole = text.read()
    try:
        frame = polars.read_ndjson(io.BytesIO(whole), infer_schema_length=None)
    except (Exception, polars.exceptions.PanicException) as error:
        raise ValueError(f"{name} is not JSON lines: {_json_fault(whole, error)}") from None
    return FrameTable(frame, [Part(name, len(frame))])


def _json_fault(whole: bytes, error: BaseException) -> str:
    """Return the first line that is no JSON object."""
    for number, line in enumerate(whole.splitlines(), start=1):
        if line.strip():
            try:
                value = json.loads(line)
            except ValueError as fault:
                return f"line {number}: {fault}"
            if not isinstance(value, dict):
                return f"line {number} is not an object like {{{chr(34)}x{chr(34)}: 1.5}}"
    return _first_line(error)


def _npz(content: Path | bytes, name: str) -> Table:
    """Read the only table of numbers in an NPZ file, or columns of equal length by name."""
    try:
        with _opened(content) as file, np.load(file, allow_pickle=False) as found:
            arrays = {key: found[key] for key in found.files}
    except Exception as error:
        if "pickle" in str(error) or "Python objects" in str(error):
            message = f"{name} has Python objects in it, which are never loaded; save it as numbers"
            raise ValueError(message) from None
        raise ValueError(f"{name} is damaged, or not NPZ: {_first_line(error)}") from None
    if {"indptr", "indices", "data", "shape"} <= set(arrays):
        raise ValueError(f"{name} has a sparse matrix; read it in Python: scipy.sparse.load_npz")
    numeric = {key: array for key, array in arrays.items() if array.dtype.kind in "fiub"}
    tables = [array for array in numeric.values() if array.ndim == 2 and array.size]
    if len(tables) == 1:
        return ArrayTable(tables[0], [Part(name, len(tables[0]))])
    columns = {key: array for key, array in numeric.items() if array.ndim == 1 and array.size}
    lengths = {len(array) for array in columns.values()}
    if tables or len(lengths) != 1:
        shapes = ", ".join(f"{key} {array.shape}" for key, array in arrays.items()) or "none"
        raise ValueError(
            f"{name} must have one table of numbers, or columns of equal length; it has {shapes}"
        )
    frame = _polars("columns of an NPZ file").DataFrame(columns)
    return FrameTable(frame, [Part(name, len(frame))])


def _foreign(head: bytes) -> str | None:
    return next((what for magic, what in _FOREIGN.items() if head.startswith(magic)), None)


def _csv_frame(
    polars: Any, content: Path | bytes, name: str, layout: Layout, packing: str | None
) -> Any:
    """Read text with polars: types from the first rows; if that fails from all; else as texts.

    Reading as texts is needed for digits of other scripts: polars infers numbers, and cannot read
    them.
    """
    frame, failure = None, None
    options: dict[str, Any] = {
        "separator": layout.separator,
        "has_header": layout.named,
        "eol_char": layout.line_end,
        "glob": False,
    }
    # Only if needed: older versions of polars do not have these options.
    rare = {"skip_lines": layout.skipped, "decimal_comma": layout.decimal_comma}
    options |= {option: value for option, value in rare.items() if value}
    for rows in (1000, None, 0):
        source = io.BytesIO(content) if isinstance(content, bytes) else content
        try:
            frame = polars.read_csv(
                source, infer_schema_length=rows, raise_if_empty=False, **options
            )
        # Some text makes polars panic, which is not an Exception.
        except (Exception, polars.exceptions.PanicException) as error:
            failure = error
        else:
            break
    if frame is None or len(frame.columns) != len(layout.names):
        with _opened(content) as file, unpacked(file, packing, name) as text:
            fault = None if text is None else fault_of(text, name, layout)
        reason = "lines differ in length" if failure is None else _first_line(failure)
        raise ValueError(fault or f"{name} cannot be read: {reason}")
    frame.columns = list(layout.names)
    if layout.decimal_comma:
        frame = _with_points(polars, frame, name)
    return _numbers_with_blanks(polars, frame)


def _with_points(polars: Any, frame: Any, name: str) -> Any:
    """Replace decimal commas in columns that polars has read as texts."""
    number, comma = f"^{NUMBER.pattern}$", f"^{DECIMAL_COMMA.pattern}$"
    for column in frame.iter_columns():
        if column.dtype == polars.String:
            texts = column.str.strip_chars()
            if texts.str.contains(f"^{GROUPED_POINTS.pattern}$").any():
                continue  # 1.234,5; `without_groups` reads it
            pointed = texts.filter(
                texts.str.contains(number) & texts.str.contains(".", literal=True)
            )
            if len(pointed):
                raise ValueError(
                    f"{name}: column {column.name!r} has {pointed[0]}, and other numbers have a "
                    "decimal comma; write all in one way"
                )
            frame = frame.with_columns(texts.str.replace(comma, "${1}.${2}"))
    return frame


def _numbers_with_blanks(polars: Any, frame: Any) -> Any:
    """Convert columns to numbers that are texts only because of blanks."""
    for column in frame.iter_columns():
        if column.dtype == polars.String and column.null_count() < len(column):
            texts = column.str.strip_chars()
            numbers = texts.cast(polars.Float64, strict=False)
            if numbers.count() and (numbers.is_not_null() | column.is_null() | (texts == "")).all():
                frame = frame.with_columns(numbers)
    return frame


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _columnar(content: Path | bytes, name: str, kind: str) -> Table:
    polars = _polars(kind)
    with _opened(content) as file:
        try:
            if kind == "Parquet":
                reader = polars.read_parquet
                if fault := wrong_count(file):
                    raise ValueError(fault)
            else:
                is_stream = file.read(len(ARROW_STREAM)) == ARROW_STREAM
                reader = polars.read_ipc_stream if is_stream else polars.read_ipc
                _check_arrow(content, is_stream)
            file.seek(0)
            frame = reader(file if isinstance(content, bytes) else content)
        except polars.exceptions.DuplicateError as error:
            message = f"{name} has columns of the same name: {_first_line(error)}"
            raise ValueError(message) from None
        # A damaged file may also make polars panic, which is not an Exception.
        except (Exception, polars.exceptions.PanicException) as error:
            message = f"{name} is damaged, or not {kind}: {_first_line(error)}"
            raise ValueError(message) from None
    return FrameTable(frame, [Part(name, len(frame))])


def _check_arrow(content: Path | bytes, is_stream: bool) -> None:
    """Read an Arrow file with pyarrow first, if installed.

    It rejects a damaged file. Polars would ask for the memory that such a file claims to need,
    which can end the process.
    """
    try:
        import pyarrow
        import pyarrow.ipc
    except ImportError:
        return
    opened = pyarrow.ipc.open_stream if is_stream else pyarrow.ipc.open_file
    try:
        given = (
            pyarrow.BufferReader(content)
            if isinstance(content, bytes)
            else pyarrow.memory_map(str(content))
        )
        with given as file, opened(file) as reader:
            for batch in range(0 if is_stream else reader.num_record_batches):
                reader.get_batch(batch)
            for _ in reader if is_stream else ():
                pass
    except NotImplementedError:
        return  # pyarrow does not know all types that polars does


def _npy(content: Path | bytes, name: str) -> Table:
    try:
        if isinstance(content, bytes):
            array = np.load(io.BytesIO(content), allow_pickle=False)
        else:
            array = np.load(content, mmap_mode="r", allow_pickle=False)
    except Exception as error:
        # NumPy parses a header of text: any error means that the file is wrong.
        if "pickle" in str(error) or "Python objects" in str(error):
            message = f"{name} has Python objects in it, which are never loaded; save it as numbers"
            raise ValueError(message) from None
        raise ValueError(f"{name} is damaged: {_first_line(error)}") from None
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} must hold a table of numbers; it has {array.ndim} axes of {array.dtype}"
        )
    if not array.size:
        raise ValueError(f"{name} has no rows")
    return ArrayTable(array, [Part(name, len(array))])


def _stacked(tables: Sequence[Table]) -> Table:
    """Stack tables, matching columns by name."""
    first = tables[0]
    for table in tables[1:]:
        for one, other in ((first, table), (table, first)):
            for name in one.names:
                if name not in other.names:
                    raise ValueError(
                        f"{other.source} has no column {name!r}, but {one.source} has one"
                    )
    parts = [part for table in tables for part in table.parts]
    matrices = [table.matrix for table in tables if isinstance(table, ArrayTable)]
    if len(matrices) == len(tables):
        return ArrayTable(np.concatenate(matrices), parts)
    return FrameTable(_stacked_frames(tables), parts)


def _stacked_frames(tables: Sequence[Any]) -> Any:
    """Stack data frames; a column that is text in one of them becomes text."""
    pl = _polars("several formats at once")
    names = list(tables[0].names)
    texts = [name for name in names if not all(table.is_numeric(name) for table in tables)]
    frames = [t.frame.select(names).with_columns(pl.col(texts).cast(pl.String)) for t in tables]
    return pl.concat(frames, how="vertical_relaxed")
