"""The points of a command: files read, columns chosen, and what was left out, said."""

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

# A column with more numbers than this has a mistake in it, rather than words.
_MOSTLY_NUMBERS = 0.5
_SHOWN = 5
_DROP = "fill it in, or leave such rows out with --drop-missing"


# --- Options that several commands have ------------------------------------------------------

File = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE", help="CSV, TSV, Parquet, Arrow or NPY; several, a pattern, or - (stdin)."
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME,...", help="Use these columns.", show_default="all numbers"),
]
Exclude = Annotated[
    list[str] | None, typer.Option(metavar="NAME,...", help="Leave these columns out.")
]
Weights = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The column that has the points' weights.")
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="NAME",
        help=f"What the files are: {', '.join(FORMATS)}.",
        show_default="by the ending",
        autocompletion=lambda: list(FORMATS),
    ),
]
Standardize = Annotated[
    bool, typer.Option("--standardize", help="Turn columns into z-scores first.")
]
DropMissing = Annotated[
    bool,
    typer.Option(
        "--drop-missing", help="Leave out rows with missing values; their labels are empty."
    ),
]
Seed = Annotated[
    int | None, typer.Option(min=0, metavar="S", help="Random numbers: same seed, same result.")
]
Threads = Annotated[
    int | None, typer.Option(min=1, metavar="T", help="Threads; results do not depend on it.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
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
    """What a person should know about them."""

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
    """Take the columns that were asked for, or all that have numbers.

    Columns of words are left out, and named in the remarks. A column of numbers with a word in it
    is a mistake, and refused. `aside` are columns with another role. Rows with missing values are
    refused, or left out with `drop_missing`, and then those of `missing` as well.
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
        raise ValueError(f"--columns names no column of {table.source}; {_there(table)}")
    special = {*unwanted, *aside, *([] if weights is None else [weights])}
    names = [name for name in asked or table.names if name not in special]
    for name in asked:
        _refuse_words(table, name)
    numeric = [name for name in names if table.is_numeric(name)]
    others = [name for name in names if not table.is_numeric(name)]
    remarks = (*table.remarks, *_dropped(table, others))
    if not numeric:
        raise ValueError(f"{table.source} has no column of numbers to cluster")
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
    """Return the rows that have all values, and remark how many have not."""
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
    left = f"{int(np.sum(~kept)):,} of {len(kept):,} rows have missing values and are left out."
    data = np.ascontiguousarray(data[kept])
    return Points(table, tuple(names), data, masses, kept, (*remarks, left))


def check_count(n_clusters: int, n_rows: int) -> None:
    """Refuse more clusters than there are rows."""
    if n_clusters > n_rows:
        there = "there is 1 row" if n_rows == 1 else f"there are {n_rows:,} rows"
        raise ValueError(f"-k: {there} for {n_clusters:,} clusters")


def title_of(files: Sequence[str]) -> str:
    """Return what data is called on a page about it."""
    if list(files) == [STANDARD_INPUT]:
        return "standard input"
    return shown(", ".join(Path(file).name for file in files))


def names_in(table: Table, texts: Sequence[str]) -> list[str]:
    """Return the columns named by an option; a name may have a comma of its own."""
    found = [[text] if text in table.names else words([text]) for text in texts]
    return list(dict.fromkeys(name for names in found for name in names))


def check_column(table: Table, name: str, option: str) -> None:
    """Refuse the name of a column that is not there."""
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
        raise ValueError(f"{table.place(row)}, column {name!r} is a negative weight")


def _refuse_zeros(table: Table, name: str, weights: NDArray[np.float64]) -> None:
    if not weights.any():
        raise ValueError(f"{table.source}: all weights in column {name!r} are 0")


def _not_a_number(table: Table, name: str) -> str:
    found = table.word_in(name)
    if found is None:
        return f"{table.source}: column {name!r} has no numbers"
    row, text, _ = found
    return f"{table.place(row)}, column {name!r} is {_short(text)}, which is not a number"


def _short(text: str) -> str:
    return repr(text if len(text) <= 30 else f"{text[:29]}…")


def _dropped(table: Table, names: Sequence[str]) -> list[str]:
    """Return a sentence about columns of words; refuse one that should have been of numbers."""
    examples = []
    for name in names:
        found = table.word_in(name)
        if found is not None and found[2] >= _MOSTLY_NUMBERS:
            rows = "leave such rows out with --drop-missing" if found[1].lower() in MARKS else ""
            raise ValueError(
                f"{_not_a_number(table, name)}, and most of the column is; "
                f"{rows or 'mend it'}, or leave the column out with --exclude {shlex.quote(name)}"
            )
        examples.append(f"{name} (no values)" if found is None else f"{name} ({_short(found[1])})")
    more = f" and {len(examples) - _SHOWN} more" if len(examples) > _SHOWN else ""
    named = f"{', '.join(examples[:_SHOWN])}{more}"
    return [f"Columns that are not numbers are left out: {named}."] if examples else []
