"""`wolfmeans predict`: label new rows with a model written by `wolfmeans fit`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from wolfmeans.commands import outputs
from wolfmeans.commands.loading import loading
from wolfmeans.commands.out_of_core import Memory, labels_of, open_points, refuse_with_memory
from wolfmeans.commands.points import (
    Columns,
    DropMissing,
    File,
    Format,
    Quiet,
    Threads,
    begin_reading,
    choose,
)
from wolfmeans.commands.terminal import errors_in_one_line, remarking, say
from wolfmeans.inputs.preparation import Preparation

if TYPE_CHECKING:
    from wolfmeans.estimators.base import CenterEstimator


@errors_in_one_line
def predict(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model written by wolfmeans fit --model.")
    ],
    files: File,
    columns: Columns = None,
    drop_missing: DropMissing = False,
    format_: Format = None,
    labels: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="Output file: .csv, .tsv, .parquet, .arrow, .npy, or - (stdout).",
        ),
    ] = outputs.STANDARD_OUTPUT,
    with_data: Annotated[
        bool, typer.Option("--with-data", help="Write the labels next to the data.")
    ] = False,
    threads: Threads = None,
    memory: Memory = None,
    quiet: Quiet = False,
) -> None:
    """Label new rows by the nearest center of a model.

    Outliers of a trimmed model get the label -1. Columns are matched by
    name and standardized as in the fit.

    [bold]Examples[/bold]

      wolfmeans predict model.wolf new.csv

      wolfmeans predict model.wolf new.csv --labels labelled.csv --with-data

      wolfmeans predict model.wolf big.parquet --memory 2GB --labels labels.npy
    """
    outputs.check_table_target("--labels", labels)
    outputs.check_targets({"--labels": labels}, [model, *files])
    if Path(model).is_dir() or not Path(model).exists():
        raise FileNotFoundError(f"no such model file: {model}")
    if memory is not None:
        refuse_with_memory({"--with-data": with_data, "--format": format_})
        outputs.check_gaps_to_come(labels, drop_missing=drop_missing)
        _predict_within(memory, model, files, columns, labels, threads, drop_missing, quiet)
        return
    reading = begin_reading(files, format_)
    with loading():
        from wolfmeans.estimators.saving import load_prepared

        estimator, preparation = load_prepared(model)
        table = reading.result()
    wanted = columns or _wanted(table.names, table.source, estimator, preparation)
    points = choose(table, wanted, drop_missing=drop_missing)
    outputs.check_gaps(labels, points.kept)
    _check_width(model, estimator, points.names)
    data = points.data if preparation is None else preparation.apply(points.data)
    estimator.n_threads = threads
    # Names were matched here; what follows is numbers.
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    with remarking(() if quiet else points.remarks):
        found = estimator.predict(data)
    beside = table if with_data else None
    outputs.write_table(labels, {"label": points.beside(found)}, beside, numbered=drop_missing)
    _say_written(labels, len(points.beside(found)), int(np.sum(found < 0)), quiet)


def _say_written(labels: str, n_rows: int, outliers: int, quiet: bool) -> None:
    if not outputs.is_standard_output(labels) and not quiet:
        left_out = f", {outliers:,} of them outliers" if outliers else ""
        say(f"Written: {labels} ({n_rows:,} rows{left_out})")


def _check_width(model: str, estimator: CenterEstimator, names: Sequence[str]) -> None:
    if len(names) != estimator.n_features_in_:
        raise ValueError(
            f"{model} was fitted to {estimator.n_features_in_} columns, but the data has "
            f"{len(names)}: {', '.join(names)}"
        )


def _predict_within(
    memory: str,
    model: str,
    files: list[str],
    columns: list[str] | None,
    labels: str,
    threads: int | None,
    drop_missing: bool,
    quiet: bool,
) -> None:
    """Read files in chunks and write the labels as they are computed."""
    with loading():
        from wolfmeans.estimators.saving import load_prepared

        estimator, preparation = load_prepared(model)
        points = open_points(files, memory, columns, drop_missing=drop_missing)
    if columns is None and points.data.names is not None:
        wanted = _wanted(points.names, points.parts[0].name, estimator, preparation)
        if wanted is not None:
            points = open_points(files, memory, wanted, drop_missing=drop_missing)
    _check_width(model, estimator, points.names)
    estimator.n_threads, estimator.memory_limit = threads, memory
    if hasattr(estimator, "feature_names_in_"):
        del estimator.feature_names_in_
    outliers = 0

    def counted() -> Iterator[NDArray[np.int32]]:
        nonlocal outliers
        for piece in labels_of(estimator, points, preparation):
            outliers += int(np.sum(np.ma.filled(piece, 0) < 0))
            yield piece

    with remarking(() if quiet else points.remarks):
        n_rows = outputs.write_pieces(labels, "label", counted(), numbered=drop_missing)
    _say_written(labels, n_rows, outliers, quiet)


def _wanted(
    names: Sequence[str],
    source: str,
    estimator: CenterEstimator,
    preparation: Preparation | None,
) -> list[str] | None:
    """Return the names of the columns in the fit; None if the model has none."""
    if preparation is not None:
        wanted = list(preparation.columns)
    elif hasattr(estimator, "feature_names_in_"):
        wanted = [str(name) for name in estimator.feature_names_in_]
    else:
        return None
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ValueError(f"{source} has no column {missing[0]!r}, which the model needs")
    return wanted
