"""Options that several commands have, each declared once, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import typer

from wolfmeans.commands.process import say
from wolfmeans.core.choices import BOUNDS, FORMATS, POLICIES

T = TypeVar("T", int, float)
METHODS = ("auto", "none", *BOUNDS)
"""Lower bounds that can be asked for by name, or not at all."""


# --- Values ----------------------------------------------------------------------------------


def words(texts: Sequence[str]) -> list[str]:
    """Return the words of an option that is repeated or has commas, each once."""
    parts = [part.strip() for text in texts for part in text.split(",")]
    return list(dict.fromkeys(part for part in parts if part))


def _numbers(option: str, texts: Sequence[str], read: Callable[[str], T], kind: str) -> list[T]:
    """Return the numbers of an option that is repeated or has commas, each once."""
    numbers = []
    for part in words(texts):
        try:
            numbers.append(read(part))
        except ValueError:
            raise ValueError(f"{option} takes {kind}; got {part!r}") from None
    if not numbers:
        raise ValueError(f"{option} needs a number")
    return list(dict.fromkeys(numbers))


def whole_numbers(option: str, texts: Sequence[str]) -> list[int]:
    """Return the integers of an option, each at least 1.

    Examples
    --------
    >>> whole_numbers("--n", ["500,1000", "5_000", "500"])
    [500, 1000, 5000]
    """
    numbers = _numbers(option, texts, int, "integers")
    if min(numbers) < 1:
        raise ValueError(f"{option} must be at least 1; got {min(numbers)}")
    return numbers


def whole_ranges(option: str, texts: Sequence[str]) -> list[range]:
    """Return the ranges of an option that takes numbers as well, both ends included.

    Examples
    --------
    >>> whole_ranges("-k", ["2:5,8", "10:20:5"])
    [range(2, 6), range(8, 9), range(10, 21, 5)]
    """
    found: list[range] = []
    for part in words(texts):
        texts_of_ends = part.split(":")
        ends = [whole_numbers(option, [end])[0] for end in texts_of_ends if end]
        if not len(texts_of_ends) == len(ends) <= 3 or ends[0] > ends[min(1, len(ends) - 1)]:
            raise ValueError(f"{option} takes numbers and ranges such as 2:10; got {part!r}")
        step = ends[2] if len(ends) == 3 else 1
        found.append(range(ends[0], ends[min(1, len(ends) - 1)] + 1, step))
    if not found:
        raise ValueError(f"{option} needs a number")
    return found


def shares(option: str, texts: Sequence[str]) -> list[float]:
    """Return the numbers of an option, each at least 0 and below 1."""
    numbers = _numbers(option, texts, float, "numbers")
    for number in numbers:
        if not 0 <= number < 1:
            raise ValueError(f"{option} must be at least 0 and below 1; got {number:g}")
    return numbers


def names_of_clusters(
    option: str, texts: Sequence[str] | None
) -> dict[str, str] | list[str] | None:
    """Return names of clusters: LABEL=NAME for some of them, or a name for each.

    Examples
    --------
    >>> names_of_clusters("--names", ["0=small,2=large"])
    {'0': 'small', '2': 'large'}
    >>> names_of_clusters("--names", ["small,large"])
    ['small', 'large']
    """
    if texts is None:
        return None
    parts = [part.strip() for text in texts for part in text.split(",")]
    pairs = [part.partition("=") for part in parts]
    if not any(sign for _, sign, _ in pairs):
        return parts
    if not all(label.strip() and name.strip() for label, _, name in pairs):
        raise ValueError(f"{option} takes LABEL=NAME,... or a name for each cluster")
    return {label.strip(): name.strip() for label, _, name in pairs}


def one_of(option: str, value: str, allowed: Sequence[str]) -> str:
    """Return the value if it is allowed; otherwise raise an error that lists the choices."""
    if value not in allowed:
        raise ValueError(f"{option} must be one of {', '.join(allowed)}; got {value!r}")
    return value


def named(names: Sequence[str], text: str, *flags: str, **more: Any) -> Any:
    """Return an option that takes one of some names; shells complete them."""
    return typer.Option(
        *flags,
        metavar="NAME",
        help=f"{text}: {', '.join(names)}.",
        autocompletion=lambda: list(names),
        **more,
    )


def value(metavar: str, text: str, panel: str | None = None, **more: Any) -> Any:
    """Return an option that takes a number or a text."""
    return typer.Option(metavar=metavar, help=text, rich_help_panel=panel, **more)


FormerBound = Annotated[str | None, typer.Option("--certify", hidden=True)]
"""The old name of --bound."""


def bound_or_former(bound: str, former: str | None) -> str:
    """Return the value of --bound, which may be given by its old name."""
    if former is None:
        return bound
    say("wolfmeans: --certify is now called --bound; the old name will be removed")
    return former


# --- Data ------------------------------------------------------------------------------------

File = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="CSV, TSV, JSONL, Parquet, Arrow, NPY or NPZ: files, a pattern, or - (stdin).",
    ),
]
Columns = Annotated[
    list[str] | None, value("NAME,...", "Use these columns.", show_default="all numeric")
]
Exclude = Annotated[list[str] | None, value("NAME,...", "Ignore these columns.")]
Weights = Annotated[str | None, value("COLUMN", "The column with the weights of the points.")]
Format = Annotated[
    str | None, named(FORMATS, "File format", "--format", show_default="by file extension")
]
Standardize = Annotated[
    bool, typer.Option("--standardize", help="Convert columns to z-scores first.")
]
DropMissing = Annotated[
    bool,
    typer.Option("--drop-missing", help="Skip rows with missing values; their labels are empty."),
]
Memory = Annotated[
    str | None,
    value("SIZE", "Use at most this much memory, e.g. 2GB, and read larger files in chunks."),
]

# --- The page --------------------------------------------------------------------------------

PAGE = "Page"
Page = Annotated[str | None, value("PATH", "An HTML page about the result.", PAGE)]
Id = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="COLUMN", help="What the rows are called on the page.", rich_help_panel=PAGE
    ),
]
Names = Annotated[
    list[str] | None,
    value("LABEL=NAME,...", "Names of clusters on the page, e.g. 0=small,2=large.", PAGE),
]
Color = Annotated[
    str | None, value("COLUMN", "Color the points of the page's map by this column.", PAGE)
]
Compare = Annotated[
    list[str] | None,
    value("COLUMN,...", "Compare the clusters with these columns, which are not clustered.", PAGE),
]

# --- Work and output -------------------------------------------------------------------------

Empty = Annotated[str, named(POLICIES, "New centers for empty clusters")]
Seed = Annotated[int | None, value("S", "Random seed; the same seed gives the same result.", min=0)]
Threads = Annotated[int | None, value("T", "Number of threads; does not affect results.", min=1)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
WithData = Annotated[bool, typer.Option("--with-data", help="Write the labels next to the data.")]
