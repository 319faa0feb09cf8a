"""The points of a command: files read, columns chosen, and what was left out, said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from wolfmeans.choices import FORMATS
from wolfmeans.commands.loading import InTheMeantime
from wolfmeans.commands.terminal import one_of, say, words
from wolfmeans.tables import Table, read

# A column with more numbers than this has a mistake in it, rather than words.
_MOSTLY_NUMBERS = 0.5
_SHOWN = 5


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
    quiet: bool = False,
) -> Points:
    """Take the columns that were asked for, or all that have numbers.

    Columns of words are left out, and named. A column of numbers with a word in it is a mistake,
    and refused. `aside` are columns with another role.
    """
    asked, unwanted = names_in(table, columns or ()), names_in(table, exclude or ())
    for option, names in (
        ("--columns", asked),
        ("--exclude", unwanted),
        ("--weights", [weights] if weights is not None else []),
    ):
        for name in names:
            check_column(table, name, option)
    special = {*unwanted, *aside, *([] if weights is None else [weights])}
    names = [name for name in asked or table.names if name not in special]
    for name in asked:
        if not table.is_numeric(name):
            raise ValueError(_not_a_number(table, name))
    numeric = [name for name in names if table.is_numeric(name)]
    _tell_dropped(table, [name for name in names if name not in numeric], quiet)
    if not numeric:
        raise ValueError(f"{table.source} has no column of numbers to cluster")
    return Points(
        table=table,
        names=tuple(numeric),
        data=table.finite_numbers(numeric),
        weights=None if weights is None else weights_of(table, weights),
    )


def names_in(table: Table, texts: Sequence[str]) -> list[str]:
    """Return the columns named by an option; a name may have a comma of its own."""
    found = [[text] if text in table.names else words([text]) for text in texts]
    return list(dict.fromkeys(name for names in found for name in names))


def check_column(table: Table, name: str, option: str) -> None:
    """Refuse the name of a column that is not there."""
    if name in table.names:
        return
    there = ", ".join(table.names[:12]) + (", …" if len(table.names) > 12 else "")
    raise ValueError(f"{option}: {table.source} has no column {name!r}; it has {there}")


def weights_of(table: Table, name: str) -> NDArray[np.float64]:
    """Return a column of weights, none of them negative."""
    if not table.is_numeric(name):
        raise ValueError(_not_a_number(table, name))
    weights = table.finite_numbers([name])[:, 0].astype(np.float64)
    if (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise ValueError(f"{table.place(row)}, column {name!r} is a negative weight")
    return weights


def _not_a_number(table: Table, name: str) -> str:
    found = table.word_in(name)
    if found is None:
        return f"{table.source}: column {name!r} has no numbers"
    row, text, _ = found
    return f"{table.place(row)}, column {name!r} is {_short(text)}, which is not a number"


def _short(text: str) -> str:
    return repr(text if len(text) <= 30 else f"{text[:29]}…")


def _tell_dropped(table: Table, names: Sequence[str], quiet: bool) -> None:
    examples = []
    for name in names:
        found = table.word_in(name)
        if found is not None and found[2] >= _MOSTLY_NUMBERS:
            raise ValueError(
                f"{_not_a_number(table, name)}, and most of the column is; mend it, or leave the "
                f"column out with --exclude {name}"
            )
        examples.append(f"{name} (no values)" if found is None else f"{name} ({_short(found[1])})")
    if examples and not quiet:
        more = f" and {len(examples) - _SHOWN} more" if len(examples) > _SHOWN else ""
        say(f"Columns that are not numbers are left out: {', '.join(examples[:_SHOWN])}{more}.")
