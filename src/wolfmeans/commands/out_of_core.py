"""Points that stay in their files and are read in chunks, for the option `--memory`."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from wolfmeans.commands.terminal import words
from wolfmeans.core.byte_sizes import parse_bytes, said
from wolfmeans.files.columns import Part
from wolfmeans.inputs.preparation import Preparation

if TYPE_CHECKING:
    from wolfmeans.estimators.base import CenterEstimator
    from wolfmeans.files.source import Source

Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Use at most this much memory, e.g. 2GB, and read larger files in chunks.",
    ),
]
_ROWS = 1 << 20
"""Labels that are written at once."""


@dataclass(frozen=True)
class FilePoints:
    """What a command has of points that stay in their files; see `points.Points`."""

    data: Source
    names: tuple[str, ...]
    weights: NDArray[np.float64] | None
    remarks: tuple[str, ...]
    limit: int
    """Bytes that are left for a fit: weights are here already."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """The files."""
        return self.data.parts

    @property
    def n_rows(self) -> int:
        """How many rows are clustered; known after a pass."""
        assert self.data.n_rows is not None
        return self.data.n_rows

    @property
    def known_rows(self) -> int | None:
        """The same, if it is known before a pass."""
        return self.data.n_rows

    @property
    def left_out(self) -> int:
        """How many rows have missing values and are not here."""
        return sum(part.n_rows for part in self.parts) - self.n_rows if self.parts else 0

    def label_pieces(self, labels: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
        """Yield labels of all rows of the files, masked where one was left out."""
        pieces = (labels[begin : begin + _ROWS] for begin in range(0, len(labels), _ROWS))
        yield from _with_gaps(pieces, getattr(self.data, "kept", None))


def _with_gaps(
    pieces: Iterator[NDArray[np.int32]], kept: NDArray[np.bool_] | None
) -> Iterator[NDArray[np.int32]]:
    """Yield labels of all rows, masked where `kept` says that one was left out."""
    if kept is None or kept.all():
        yield from pieces
        return
    waiting = np.empty(0, dtype=np.int32)
    for begin in range(0, len(kept), _ROWS):
        here = kept[begin : begin + _ROWS]
        count = int(here.sum())
        while len(waiting) < count:
            waiting = np.concatenate([waiting, next(pieces)])
        every = np.zeros(len(here), dtype=np.int32)
        every[here], waiting = waiting[:count], waiting[count:]
        yield np.ma.MaskedArray(every, mask=~here)


def refuse_with_memory(options: Mapping[str, Any]) -> None:
    """Refuse options that need all rows in memory, by their names; those that are set."""
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
    return FilePoints(source, names, masses, source.remarks, limit)


def labels_of(
    estimator: CenterEstimator, points: FilePoints, preparation: Preparation | None
) -> Iterator[NDArray[np.int32]]:
    """Yield the labels of new rows while they are read, masked where a row is left out."""
    from wolfmeans.estimators.streamed import budget_for

    source = points.data
    rows_at_once = budget_for(estimator, source).rows_per_chunk()
    if hasattr(source, "kept") and source.kept is None:
        # Which rows are complete is known after a pass, and labels are written during one.
        with closing(source.chunks(rows_at_once)) as chunks:
            for _ in chunks:
                pass

    def predictions() -> Generator[NDArray[np.int32], None, None]:
        with closing(source.chunks(rows_at_once)) as chunks:
            for _, rows in chunks:
                yield estimator.predict(rows if preparation is None else preparation.apply(rows))
                del rows

    with closing(predictions()) as pieces:
        yield from _with_gaps(pieces, getattr(source, "kept", None))
