"""The points of a command: reads files, chooses columns, and reports what it ignores."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from wolfmeans.commands.loading import InTheMeantime
from wolfmeans.commands.terminal import one_of, words
from wolfmeans.core.choices import FORMATS
from wolfmeans.files.atomic import shown
from wolfmeans.files.columns import FILL_IN, Part, Table
from wolfmeans.files.tables import STANDARD_INPUT, read
from wolfmeans.files.text_tables import MARKS

# If a larger fraction of a column is numeric, its other entries are errors rather than words.
_MOSTLY_NUMBERS = 0.5
_SHOWN = 5
_DROP = "fill it in, or skip such rows with --drop-missing"


# --- Options that several commands have ------------------------------------------------------

File = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE", help="CSV, TSV, Parquet, Arrow or NPY: files, a pattern, or - (stdin)."
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME,...", help="Use these columns.", show_default="all numeric"),
]
Exclude = Annotated[
    list[str] | None, typer.Option(metavar="NAME,...", help="Ignore these columns.")
]
Weights = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column with the weights of the points.")
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help=f"File format: {', '.join(FORMATS)}.",
        show_default="by file extension",
        autocompletion=lambda: list(FORMATS),
    ),
]
Standardize = Annotated[
    bool, typer.Option("--standardize", help="Convert columns to z-scores first.")
]
DropMissing = Annotated[
    bool,
    typer.Option("--drop-missing", help="Skip rows with missing values; their labels are empty."),
]
Seed = Annotated[
    int | None,
    typer.Option(min=0, metavar="S", help="Random seed; the same seed gives the same result."),
]
Threads = Annotated[
    int | None, typer.Option(min=1, metavar="T", help="Number of threads; does not affect results.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@dataclass(frozen=True)
class Points:
    """A table and the part of it that is clustered."""

    table: Table
    names: tuple[str, ...]
    data: NDArray[np.floating]
    weights: NDArray[np.float64] | None
    kept: NDArray[np.bool_] | None = None
    """Which rows of the table these are; None if all."""
    remarks: tuple[str, ...] = ()
    """Remarks about them, to be printed."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The files."""
        return self.table.parts

    @property
    def n_rows(self) -> int:
        """How many rows are clustered."""
        return len(self.data)

    @property
    def known_rows(self) -> int | None:
        """The same; known before they are clustered."""
        return self.n_rows

    @property
    def left_out(self) -> int:
        """How many rows of the table have missing values and are not here."""
        return 0 if self.kept is None else int(np.sum(~self.kept))

    def beside(self, labels: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return labels for all rows of the table, masked where a row was left out."""
        if self.kept is None:
            return labels
        every = np.zeros(len(self.kept), dtype=labels.dtype)
        every[self.kept] = labels
        return np.ma.MaskedArray(every, mask=~self.kept)


def read_table(files: Sequence[str], kind: str | None) -> Table:
    """Read the files of a command."""
    return read(files, None if kind is None else one_of("--format", kind, FORMATS))


def begin_reading(files: Sequence[str], kind: str | None) -> InTheMeantime[Table]:
    """Begin to read the files of a command; its options must have been checked."""
    if kind is not None:
        one_of("--format", kind, FORMATS)
    return InTheMeantime(read, files, kind)


def choose(
    table: Table,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    weights: str | None = None,
    *,
    aside: Sequence[str] = (),
    drop_missing: bool | None = None,
    missing: NDArray[np.bool_] | None = None,
) -> Points:
    """Take the requested columns, or all numeric ones.

    Non-numeric columns are ignored and named in the remarks. A mostly numeric column with a word in
    it raises an error. `aside` are columns with another role. Missing values raise an error, or
    their rows are skipped with `drop_missing`, and then those of `missing` as well.
    """
    if drop_missing:
        table.read_marks()
    asked, unwanted = names_in(table, columns or ()), names_in(table, exclude or ())
    for option, names in (
        ("--columns", asked),
        ("--exclude", unwanted),
        ("--weights", [weights] if weights is not None else []),
    ):
        for name in names:
            check_column(table, name, option)
    if columns and not asked:
        raise ValueError(f"--columns: {table.source} has none of these columns; {_there(table)}")
    special = {*unwanted, *aside, *([] if weights is None else [weights])}
    names = [name for name in asked or table.names if name not in special]
    for name in asked:
        _refuse_words(table, name)
    numeric = [name for name in names if table.is_numeric(name)]
    others = [name for name in names if not table.is_numeric(name)]
    remarks = (*table.remarks, *_dropped(table, others))
    if not numeric:
        raise ValueError(f"{table.source} has no numeric column to cluster")
    if drop_missing:
        return _complete_rows(table, numeric, weights, missing, remarks)
    advice = FILL_IN if drop_missing is None else _DROP
    return Points(
        table=table,
        names=tuple(numeric),
        data=table.finite_numbers(numeric, advice),
        weights=None if weights is None else weights_of(table, weights, advice),
        remarks=remarks,
    )


def _complete_rows(
    table: Table,
    names: Sequence[str],
    weights: str | None,
    missing: NDArray[np.bool_] | None,
    remarks: tuple[str, ...],
) -> Points:
    """Return the complete rows, and remark how many are incomplete."""
    data = table.numbers_or_missing(names)
    kept = ~np.isnan(data).any(axis=1)
    if missing is not None:
        kept &= ~missing
    masses = None
    if weights is not None:
        _refuse_words(table, weights)
        masses = table.numbers_or_missing([weights])[:, 0].astype(np.float64)
        _refuse_negative(table, weights, masses)
        kept &= ~np.isnan(masses)
    if not kept.any():
        raise ValueError(f"{table.source}: every row has a missing value; use fewer columns")
    if masses is not None and weights is not None:
        masses = masses[kept]
        _refuse_zeros(table, weights, masses)
    if kept.all():
        return Points(table, tuple(names), data, masses, remarks=remarks)
    left = f"Skipping {int(np.sum(~kept)):,} of {len(kept):,} rows, which have missing values."
    data = np.ascontiguousarray(data[kept])
    return Points(table, tuple(names), data, masses, kept, (*remarks, left))


def check_count(n_clusters: int, n_rows: int) -> None:
    """Check that there are at least as many rows as clusters."""
    if n_clusters > n_rows:
        there = "1 row" if n_rows == 1 else f"{n_rows:,} rows"
        raise ValueError(f"-k: {n_clusters:,} clusters, but the data has only {there}")


def title_of(files: Sequence[str]) -> str:
    """Return the name of the data on its page."""
    if list(files) == [STANDARD_INPUT]:
        return "standard input"
    return shown(", ".join(Path(file).name for file in files))


def names_in(table: Table, texts: Sequence[str]) -> list[str]:
    """Return the columns named by an option; a column's name may contain a comma."""
    found = [[text] if text in table.names else words([text]) for text in texts]
    return list(dict.fromkeys(name for names in found for name in names))


def check_column(table: Table, name: str, option: str) -> None:
    """Check that a column exists."""
    if name in table.names:
        return
    raise ValueError(f"{option}: {table.source} has no column {name!r}; {_there(table)}")


def _there(table: Table) -> str:
    return f"it has {', '.join(table.names[:12])}{', …' if len(table.names) > 12 else ''}"


def weights_of(table: Table, name: str, advice: str) -> NDArray[np.float64]:
    """Return a column of weights, none of them negative and not all 0."""
    _refuse_words(table, name)
    weights = table.finite_numbers([name], advice)[:, 0].astype(np.float64)
    _refuse_negative(table, name, weights)
    _refuse_zeros(table, name, weights)
    return weights


def _refuse_words(table: Table, name: str) -> None:
    if not table.is_numeric(name):
        raise ValueError(_not_a_number(table, name))


def _refuse_negative(table: Table, name: str, weights: NDArray[np.float64]) -> None:
    if (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise ValueError(f"{table.place(row)}, column {name!r}: the weight is negative")


def _refuse_zeros(table: Table, name: str, weights: NDArray[np.float64]) -> None:
    if not weights.any():
        raise ValueError(f"{table.source}: all weights in column {name!r} are 0")


def _not_a_number(table: Table, name: str) -> str:
    found = table.word_in(name)
    if found is None:
        return f"{table.source}: column {name!r} has no numbers"
    row, text, _ = found
    return f"{table.place(row)}, column {name!r}: {_short(text)} is not a number"


def _short(text: str) -> str:
    return repr(text if len(text) <= 30 else f"{text[:29]}…")


def _dropped(table: Table, names: Sequence[str]) -> list[str]:
    """Return a remark about non-numeric columns; raise an error for a mostly numeric one."""
    examples = []
    for name in names:
        found = table.word_in(name)
        if found is not None and found[2] >= _MOSTLY_NUMBERS:
            rows = "skip such rows with --drop-missing" if found[1].lower() in MARKS else ""
            raise ValueError(
                f"{_not_a_number(table, name)} although the rest of the column is; "
                f"{rows or 'fix it'}, or ignore the column with --exclude {shlex.quote(name)}"
            )
        examples.append(f"{name} (no values)" if found is None else f"{name} ({_short(found[1])})")
    more = f" and {len(examples) - _SHOWN} more" if len(examples) > _SHOWN else ""
    named = f"{', '.join(examples[:_SHOWN])}{more}"
    return [f"Ignoring non-numeric columns: {named}."] if examples else []
