"""The rows that a command works on: in memory, or in files that are read in chunks (`--memory`).

Rows on a Dask cluster are in `cluster.py`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from wolfmeans.commands import outputs
from wolfmeans.commands.options import one_of, words
from wolfmeans.commands.process import in_background
from wolfmeans.core.byte_sizes import parse_bytes, said
from wolfmeans.core.choices import FORMATS
from wolfmeans.files.atomic import shown
from wolfmeans.files.columns import FILL_IN, Table
from wolfmeans.files.tables import STANDARD_INPUT, read
from wolfmeans.files.text_tables import MARKS
from wolfmeans.inputs.preparation import Preparation

if TYPE_CHECKING:
    from wolfmeans.estimators.base import CenterEstimator
    from wolfmeans.files.source import Source

Labels = NDArray[np.int32]
# If a larger fraction of a column is numeric, its other entries are errors rather than words.
_MOSTLY_NUMBERS = 0.5
_MOST_NAMED = 5
_NAMES_OF_ROW_NUMBERS = ("id", "index", "row", "unnamed: 0", "rownames", "__index_level_0__")
# Fewer rows may count by chance.
_FEWEST_NUMBERED = 10
_DROP = "fill it in, or skip such rows with --drop-missing"
_LABELS_AT_ONCE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Points:
    """The rows to cluster, wherever they are."""

    data: Any
    """An array, a source that is read in chunks, or a Dask collection."""
    names: tuple[str, ...]
    """Of the columns."""
    weights: Any
    remarks: tuple[str, ...] = ()
    """Remarks about the rows, to be printed."""
    condition: ClassVar[str] = ""
    """What advice about lower bounds has to begin with."""

    @property
    def known_rows(self) -> int | None:
        """The number of rows to cluster, if it is known before a pass over them."""
        return None

    @property
    def amount(self) -> str:
        """How much is clustered, in words."""
        return "the complete rows" if self.known_rows is None else f"{self.known_rows:,} rows"

    def cluster_sizes(self, labels: Any, n_clusters: int) -> NDArray[np.int64]:
        """Return how many points each cluster has; labels may be in a file larger than memory."""
        sizes = np.zeros(n_clusters, dtype=np.int64)
        for begin in range(0, len(labels), _LABELS_AT_ONCE):
            some = labels[begin : begin + _LABELS_AT_ONCE]
            sizes += np.bincount(some[some >= 0], minlength=n_clusters)
        return sizes

    def facts(self, labels: Any, *, standardized: bool) -> dict[str, Any]:
        """Return the facts about the data, ready for JSON."""
        raise NotImplementedError

    def write_labels(self, target: str, labels: Any, *, with_data: bool, numbered: bool) -> None:
        """Write the labels of all rows, empty where a row was left out."""
        raise NotImplementedError

    def _facts_of_files(
        self, parts: Sequence[Any], n_rows: int, left_out: int, standardized: bool
    ) -> dict[str, Any]:
        return {
            "files": [part.name for part in parts],
            "n_samples": n_rows,
            "rows_left_out": left_out,
            "columns": list(self.names),
            "standardized": standardized,
            "weighted": self.weights is not None,
        }


# --- In memory -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TablePoints(Points):
    """Rows of a table in memory."""

    table: Table
    data: NDArray[np.floating]
    kept: NDArray[np.bool_] | None = None
    """Which rows of the table these are; None if all."""

    @property
    def known_rows(self) -> int:
        """The number of rows to cluster."""
        return len(self.data)

    def facts(self, labels: Any, *, standardized: bool) -> dict[str, Any]:
        """Return the facts about the data, ready for JSON."""
        left_out = 0 if self.kept is None else int(np.sum(~self.kept))
        return self._facts_of_files(self.table.parts, len(self.data), left_out, standardized)

    def with_gaps(self, labels: Labels) -> Labels:
        """Return labels for all rows of the table, masked where a row was left out."""
        return labels if self.kept is None else _masked(labels, self.kept)

    def entries(self, name: str) -> NDArray[Any]:
        """Return a column of the table, in the rows to cluster."""
        entries = self.table.entries(name)
        return entries if self.kept is None else entries[self.kept]

    def write_labels(self, target: str, labels: Any, *, with_data: bool, numbered: bool) -> None:
        """Write the labels of all rows, empty where a row was left out."""
        columns = {"label": self.with_gaps(labels)}
        outputs.write_table(target, columns, self.table if with_data else None, numbered=numbered)


def begin_reading(files: Sequence[str], kind: str | None) -> Callable[[], Table]:
    """Begin to read the files of a command; return a function that waits for the table."""
    if kind is not None:
        one_of("--format", kind, FORMATS)
    return in_background(read, files, kind)


def choose(
    table: Table,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    weights: str | None = None,
    *,
    roles: Sequence[str] = (),
    drop_missing: bool | None = None,
    missing: NDArray[np.bool_] | None = None,
) -> TablePoints:
    """Take the requested columns, or all numeric ones.

    Non-numeric columns are ignored and named in the remarks. A mostly numeric column with a word in
    it raises an error. `roles` are columns with another role. Missing values raise an error, or
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
        raise ValueError(
            f"--columns: {table.source} has none of these columns; {_columns_of(table)}"
        )
    special = {*unwanted, *roles, *([] if weights is None else [weights])}
    names = [name for name in asked or table.names if name not in special]
    for name in asked:
        _check_numeric(table, name)
    numeric = [name for name in names if table.is_numeric(name)]
    others = [name for name in names if not table.is_numeric(name)]
    remarks = (*table.remarks, *_remarks_on_words(table, others))
    if not numeric:
        raise ValueError(f"{table.source} has no numeric column to cluster")
    if not asked:
        numeric, counting = without_row_numbers(table, numeric)
        remarks = (*remarks, *counting)
    if drop_missing:
        return _complete_rows(table, numeric, weights, missing, remarks)
    advice = FILL_IN if drop_missing is None else _DROP
    return TablePoints(
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
) -> TablePoints:
    """Return the complete rows, and remark how many are incomplete."""
    data = table.numbers_or_missing(names)
    kept = ~np.isnan(data).any(axis=1)
    if missing is not None:
        kept &= ~missing
    masses = None
    if weights is not None:
        _check_numeric(table, weights)
        masses = table.numbers_or_missing([weights])[:, 0].astype(np.float64)
        _check_not_negative(table, weights, masses)
        kept &= ~np.isnan(masses)
    if not kept.any():
        raise ValueError(f"{table.source}: every row has a missing value; use fewer columns")
    if masses is not None and weights is not None:
        masses = masses[kept]
        _check_not_all_zero(table, weights, masses)
    found = TablePoints(table=table, names=tuple(names), data=data, weights=masses, remarks=remarks)
    if kept.all():
        return found
    skipped = f"Skipping {int(np.sum(~kept)):,} of {len(kept):,} rows, which have missing values."
    data = np.ascontiguousarray(data[kept])
    return replace(found, data=data, kept=kept, remarks=(*remarks, skipped))


@dataclass(frozen=True)
class PageColumns:
    """Columns for the page that are not clustered, as options name them."""

    id: str | None = None
    color: str | None = None
    compare: Sequence[str] | None = None

    def check_needed(self, page: str | None, names: Any) -> None:
        """Raise an error if there is no page to show them on."""
        options = {"--id": self.id, "--color": self.color, "--compare": self.compare}
        for option, value in (options | {"--names": names}).items():
            if value is not None and page is None:
                raise ValueError(f"{option} needs --page PATH, the page to write")

    def roles(self, table: Table) -> tuple[str, ...]:
        """Return the columns that are not clustered; raise an error if one does not exist."""
        compared = names_in(table, self.compare or ())
        for option, names in (
            ("--id", [self.id]),
            ("--color", [self.color]),
            ("--compare", compared),
        ):
            for name in names:
                if name is not None:
                    check_column(table, name, option)
        return (*([] if self.id is None else [self.id]), *compared)

    def given(self, points: TablePoints) -> dict[str, Any]:
        """Return the columns as arguments of the page."""
        found: dict[str, Any] = {}
        if self.id is not None:
            found["id"] = {self.id: points.entries(self.id)}
        elif points.kept is not None:
            # The page's rows are not those of the file.
            found["id"] = {"row": np.flatnonzero(points.kept)}
        if self.color is not None:
            found["color"] = {self.color: points.entries(self.color)}
        if self.compare:
            compared = names_in(points.table, self.compare)
            found["compare"] = {name: points.entries(name) for name in compared}
        return found


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
    raise ValueError(f"{option}: {table.source} has no column {name!r}; {_columns_of(table)}")


def _columns_of(table: Table) -> str:
    return f"it has {', '.join(table.names[:12])}{', …' if len(table.names) > 12 else ''}"


def weights_of(table: Table, name: str, advice: str) -> NDArray[np.float64]:
    """Return a column of weights, none of them negative and not all 0."""
    _check_numeric(table, name)
    weights = table.finite_numbers([name], advice)[:, 0].astype(np.float64)
    _check_not_negative(table, name, weights)
    _check_not_all_zero(table, name, weights)
    return weights


def _check_numeric(table: Table, name: str) -> None:
    if not table.is_numeric(name):
        raise ValueError(_not_a_number(table, name))


def _check_not_negative(table: Table, name: str, weights: NDArray[np.float64]) -> None:
    if (weights < 0).any():
        row = int(np.argmax(weights < 0))
        raise ValueError(f"{table.place(row)}, column {name!r}: the weight is negative")


def _check_not_all_zero(table: Table, name: str, weights: NDArray[np.float64]) -> None:
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


def without_row_numbers(table: Table, names: list[str]) -> tuple[list[str], list[str]]:
    """Leave out columns that count the rows and have no name or one like id; remark on others.

    A column that is all there is to cluster is kept.
    """
    counting = [name for name in names if _counts_rows(table, name)]
    known = set(_NAMES_OF_ROW_NUMBERS)
    if not all(name.isdigit() for name in table.names):
        known.add("0")  # the first name is empty
    dropped = [name for name in counting if name.lower() in known]
    if len(dropped) == len(names):
        return names, []
    remarks = [
        f"Ignoring column {name!r}, which numbers the rows; use it with --columns."
        for name in dropped
    ]
    remarks += [
        f"Column {name!r} counts the rows; if it is not a measurement, ignore it with --exclude "
        f"{shlex.quote(name)}."
        for name in counting
        if name not in dropped
    ]
    return [name for name in names if name not in dropped], remarks


def _counts_rows(table: Table, name: str) -> bool:
    """Whether a column is 0, 1, 2, ... or 1, 2, 3, ..."""
    if table.n_rows < _FEWEST_NUMBERED:
        return False
    values = table.entries(name)
    if values.dtype.kind not in "iu" or values[0] not in (0, 1):
        return False
    return bool((values[1:] - values[:-1] == 1).all())


def _remarks_on_words(table: Table, names: Sequence[str]) -> list[str]:
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
    more = f" and {len(examples) - _MOST_NAMED} more" if len(examples) > _MOST_NAMED else ""
    named = f"{', '.join(examples[:_MOST_NAMED])}{more}"
    return [f"Ignoring non-numeric columns: {named}."] if examples else []


# --- In files, read in chunks ----------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class FilePoints(Points):
    """Rows that stay in their files and are read in chunks."""

    data: Source
    limit: int
    """Bytes of memory for the fit, less those of the weights, which are in memory already."""
    condition = "without --memory, "

    @property
    def known_rows(self) -> int | None:
        """The number of rows to cluster, if it is known before a pass over them."""
        return self.data.n_rows

    def facts(self, labels: Any, *, standardized: bool) -> dict[str, Any]:
        """Return the facts about the data, ready for JSON."""
        n_rows, parts = len(labels), self.data.parts
        left_out = sum(part.n_rows for part in parts) - n_rows if parts else 0
        return self._facts_of_files(parts, n_rows, left_out, standardized)

    def write_labels(self, target: str, labels: Any, *, with_data: bool, numbered: bool) -> None:
        """Write the labels of all rows, empty where a row was left out."""
        starts = range(0, len(labels), _LABELS_AT_ONCE)
        pieces = (labels[begin : begin + _LABELS_AT_ONCE] for begin in starts)
        every = _with_gaps(pieces, getattr(self.data, "kept", None))
        outputs.write_pieces(target, "label", every, numbered=numbered)


def _masked(labels: Labels, kept: NDArray[np.bool_]) -> Labels:
    """Return labels of all rows, masked where a row was left out."""
    every = np.zeros(len(kept), dtype=np.int32)
    every[kept] = labels
    return np.ma.MaskedArray(every, mask=~kept)


def _with_gaps(pieces: Iterator[Labels], kept: NDArray[np.bool_] | None) -> Iterator[Labels]:
    """Yield labels of all rows, masked where `kept` says that a row was left out."""
    if kept is None or kept.all():
        yield from pieces
        return
    waiting = np.empty(0, dtype=np.int32)
    for begin in range(0, len(kept), _LABELS_AT_ONCE):
        here = kept[begin : begin + _LABELS_AT_ONCE]
        count = int(here.sum())
        while len(waiting) < count:
            waiting = np.concatenate([waiting, next(pieces)])
        yield _masked(waiting[:count], here)
        waiting = waiting[count:]


def refuse_with_memory(options: Mapping[str, Any]) -> None:
    """Raise an error if an option is set that needs all rows in memory."""
    for option, value in options.items():
        if value:
            raise ValueError(f"{option} needs all rows in memory; omit --memory or {option}")


def open_points(
    files: Sequence[str],
    memory: str,
    columns: Sequence[str] | None = None,
    exclude: Sequence[str] | None = None,
    weights: str | None = None,
    *,
    drop_missing: bool = False,
) -> FilePoints:
    """Open files whose rows are read in chunks."""
    from wolfmeans.inputs.opening import open_source
    from wolfmeans.inputs.streams import weights_named

    limit = parse_bytes(memory, "--memory")
    if weights is not None and drop_missing:
        raise ValueError(
            "--weights with --drop-missing needs all rows in memory; omit --memory or one of them"
        )
    masses = None
    unwanted = words(exclude or ())
    if weights is not None:
        masses = weights_named(files, weights, limit)
        unwanted = [*unwanted, weights]
        if masses.nbytes >= limit:
            raise ValueError(
                f"--memory {memory} is too small: the weights alone take {said(masses.nbytes)}"
            )
        limit -= masses.nbytes
    source = open_source(
        files,
        columns=words(columns) if columns else None,
        exclude=unwanted,
        drop_missing=drop_missing,
    )
    names = source.names or tuple(map(str, range(source.n_columns)))
    return FilePoints(data=source, names=names, weights=masses, remarks=source.remarks, limit=limit)


def predicted_labels(
    estimator: CenterEstimator, points: FilePoints, preparation: Preparation
) -> Iterator[Labels]:
    """Yield the labels of new rows while they are read, masked where a row is left out."""
    from wolfmeans.estimators.streamed import budget_for

    source = points.data
    rows_at_once = budget_for(estimator, source).rows_per_chunk()
    if hasattr(source, "kept") and source.kept is None:
        # Which rows are complete is known after a pass, and labels are written during one.
        with closing(source.chunks(rows_at_once)) as chunks:
            for _ in chunks:
                pass

    def predictions() -> Generator[Labels, None, None]:
        with closing(source.chunks(rows_at_once)) as chunks:
            for _, rows in chunks:
                yield estimator.predict(preparation.apply(rows))
                del rows

    with closing(predictions()) as pieces:
        yield from _with_gaps(pieces, getattr(source, "kept", None))
