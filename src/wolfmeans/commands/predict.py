"""`wolfmeans predict`: label new rows with a model written by `wolfmeans fit`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from wolfmeans.commands import options, outputs
from wolfmeans.commands.options import value
from wolfmeans.commands.points import (
    Labels,
    begin_reading,
    choose,
    open_points,
    predicted_labels,
    refuse_with_memory,
)
from wolfmeans.commands.process import loading, say
from wolfmeans.commands.terminal import errors_in_one_line, remarking
from wolfmeans.inputs.preparation import Preparation

if TYPE_CHECKING:
    from wolfmeans.estimators.base import CenterEstimator


@errors_in_one_line
def predict(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model written by wolfmeans fit --model.")
    ],
    files: options.File,
    columns: options.Columns = None,
    drop_missing: options.DropMissing = False,
    format_: options.Format = None,
    labels: Annotated[
        str, value("PATH", "Output file: .csv, .tsv, .parquet, .arrow, .npy, or - (stdout).")
    ] = outputs.STANDARD_OUTPUT,
    with_data: options.WithData = False,
    threads: options.Threads = None,
    memory: options.Memory = None,
    quiet: options.Quiet = False,
) -> None:
    """Label new rows by the nearest center of a model.

    Outliers of a trimmed model get the label -1. Columns are matched by
    name and standardized as in the fit.

    [bold]Examples[/bold]

      wolfmeans predict model.wolf new.csv

      wolfmeans predict model.wolf new.csv --labels labelled.csv --with-data

      wolfmeans predict model.wolf big.parquet --memory 2GB --labels labels.npy
    """
    outputs.check_targets({"--labels": labels}, [model, *files])
    if Path(model).is_dir() or not Path(model).exists():
        raise FileNotFoundError(f"no such model file: {model}")
    if memory is not None:
        refuse_with_memory({"--with-data": with_data, "--format": format_})
        outputs.check_gaps(labels, gaps=drop_missing)
        with loading():
            estimator, preparation, wanted = _load(model, threads)
            points = open_points(files, memory, columns, drop_missing=drop_missing)
        if columns is None and wanted is not None and points.data.names is not None:
            _check_columns(wanted, points.names, points.data.parts[0].name)
            points = open_points(files, memory, wanted, drop_missing=drop_missing)
        _check_width(model, estimator, points.names)
        estimator.memory_limit = memory
        found = predicted_labels(estimator, points, preparation)
        with remarking(() if quiet else points.remarks):
            n_rows, outliers = _write_pieces(labels, found, numbered=drop_missing)
    else:
        wait_for_table = begin_reading(files, format_)
        with loading():
            estimator, preparation, wanted = _load(model, threads)
            table = wait_for_table()
        if not columns and wanted is not None:
            _check_columns(wanted, table.names, table.source)
        chosen = choose(table, columns or wanted, drop_missing=drop_missing)
        outputs.check_gaps(labels, gaps=chosen.kept is not None)
        _check_width(model, estimator, chosen.names)
        with remarking(() if quiet else chosen.remarks):
            predicted = estimator.predict(preparation.apply(chosen.data))
        chosen.write_labels(labels, predicted, with_data=with_data, numbered=drop_missing)
        n_rows, outliers = table.n_rows, int(np.sum(predicted < 0))
    if not outputs.is_standard_output(labels) and not quiet:
        left_out = f", {outliers:,} of them outliers" if outliers else ""
        say(f"Written: {labels} ({n_rows:,} rows{left_out})")


def _load(path: str, threads: int | None) -> tuple[CenterEstimator, Preparation, list[str] | None]:
    """Return the model, what is done to columns first, and the columns' names if it has them."""
    from wolfmeans.estimators.saving import load_prepared

    estimator, preparation = load_prepared(path)
    estimator.n_threads = threads
    # Columns are matched by name here; the estimator gets arrays without names.
    names = getattr(estimator, "feature_names_in_", None)
    if names is not None:
        del estimator.feature_names_in_
    if preparation is not None:
        return estimator, preparation, list(preparation.columns)
    return estimator, Preparation(()), None if names is None else [str(name) for name in names]


def _check_columns(wanted: Sequence[str], names: Sequence[str], source: str) -> None:
    """Check that the data has all columns of the fit."""
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ValueError(f"{source} has no column {missing[0]!r}, which the model needs")


def _check_width(model: str, estimator: CenterEstimator, names: Sequence[str]) -> None:
    if len(names) != estimator.n_features_in_:
        raise ValueError(
            f"{model} was fitted to {estimator.n_features_in_} columns, but the data has "
            f"{len(names)}: {', '.join(names)}"
        )


def _write_pieces(target: str, pieces: Iterator[Labels], *, numbered: bool) -> tuple[int, int]:
    """Write labels as they are computed; return the numbers of rows and of outliers."""
    outliers = 0

    def counted() -> Iterator[Labels]:
        nonlocal outliers
        for piece in pieces:
            outliers += int(np.sum(np.ma.filled(piece, 0) < 0))
            yield piece

    return outputs.write_pieces(target, "label", counted(), numbered=numbered), outliers
