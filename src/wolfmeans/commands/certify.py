"""`wolfmeans certify`: evaluate a clustering from any source."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from wolfmeans.commands import options, outputs
from wolfmeans.commands.options import named, one_of, value
from wolfmeans.commands.points import (
    PageColumns,
    begin_reading,
    check_column,
    choose,
    title_of,
)
from wolfmeans.commands.process import loading
from wolfmeans.commands.terminal import errors_in_one_line, print_facts, print_json, remarking
from wolfmeans.files.columns import Table
from wolfmeans.files.tables import read
from wolfmeans.inputs.preparation import Preparation


@errors_in_one_line
def certify(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="The points: CSV, TSV, JSONL, Parquet, Arrow, NPY or NPZ."
        ),
    ],
    labels: Annotated[
        str | None,
        typer.Argument(metavar="[LABELS]", help="A file with the cluster of each row."),
    ] = None,
    label_column: Annotated[
        str | None, value("NAME", "The column of LABELS, or of FILE, with the labels.")
    ] = None,
    outlier: Annotated[str, value("LABEL", "The label of points without a cluster.")] = "-1",
    columns: options.Columns = None,
    exclude: options.Exclude = None,
    weights: options.Weights = None,
    standardize: options.Standardize = False,
    drop_missing: options.DropMissing = False,
    format_: options.Format = None,
    method: Annotated[str, named(options.METHODS, "Lower bound")] = "auto",
    seed: options.Seed = 0,
    threads: options.Threads = None,
    certificate: Annotated[str | None, value("PATH", "Write the evaluation as JSON.")] = None,
    page: options.Page = None,
    id_: options.Id = None,
    names: options.Names = None,
    color: options.Color = None,
    compare: options.Compare = None,
    quiet: options.Quiet = False,
    json_: options.Json = False,
) -> None:
    """Evaluate a clustering from any source, given its labels.

    Prints the inertia at the means of the clusters, the Frank-Wolfe gap,
    whether moving a single point lowers inertia, and an upper limit on the
    distance from the optimum.

    [bold]Examples[/bold]

      wolfmeans certify measurements.csv labels.csv

      wolfmeans certify labelled.csv --label-column team --outlier noise

      wolfmeans certify points.npy labels.npy --standardize --json

      wolfmeans certify labelled.csv --label-column team --page page.html
    """
    inputs = [file, *([labels] if labels else [])]
    outputs.check_targets({"--certificate": certificate, "--page": page}, inputs, json=json_)
    extra = PageColumns(id_, color, compare)
    extra.check_needed(page, names)
    cluster_names = options.names_of_clusters("--names", names)
    one_of("--method", method, options.METHODS)
    wait_for_table = begin_reading([file], format_)
    with loading():
        from wolfmeans.core.progress import progress_on_terminal
        from wolfmeans.fitting.evaluate import judge

        table = wait_for_table()
    given, roles = _labels(table, labels, label_column, drop_missing)
    if len(given) != table.n_rows:
        raise ValueError(
            f"{file} has {table.n_rows:,} rows, but {labels} has {len(given):,}; "
            "there must be one label for each row"
        )
    points = choose(
        table,
        columns,
        exclude,
        weights,
        roles=(*roles, *extra.roles(table)),
        drop_missing=drop_missing,
        missing=given == "",
    )
    data, given = points.data, given if points.kept is None else given[points.kept]
    preparation = Preparation(points.names)
    if standardize:
        preparation = Preparation.standardizing(points.names, data, points.weights)
        data = preparation.apply(data)
    with (
        remarking(() if quiet or json_ else points.remarks),
        progress_on_terminal((lambda share, text: None) if quiet else None) as progress,
    ):
        found = judge(
            data,
            given,
            sample_weight=points.weights,
            outlier=outlier,
            method=None if method == "none" else method,
            random_state=seed,
            n_threads=threads,
            progress=progress,
        )
    facts = {**found.to_dict(), "columns": list(points.names)}
    if certificate is not None:
        outputs.write_json(certificate, facts)
    if page is not None:
        from wolfmeans.views import page as views

        made = views.page(
            labels=given,
            X=data,
            outlier=outlier,
            sample_weight=points.weights,
            names=points.names,
            cluster_names=cluster_names,
            **extra.given(points),
            title=f"{title_of([file])}: {found.n_clusters} clusters",
            preparation=preparation,
            judgement=found,
        )
        with outputs.naming(page):
            made.save(page)
    if json_:
        print_json(facts)
    elif not quiet and not outputs.is_standard_output(certificate):
        print_facts(found.verdict, found.rows())
    outputs.say_written([certificate, page], quiet=quiet)


def _labels(
    table: Table, labels: str | None, name: str | None, drop_missing: bool
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Return the labels as texts, and the columns that hold labels rather than data."""
    if labels is None:
        if name is None:
            raise ValueError("no labels given: pass a second file, or --label-column NAME")
        check_column(table, name, "--label-column")
        return _texts(table, name, drop_missing), (name,)
    other = read([labels])
    if name is None and len(other.names) == 1:
        name = other.names[0]
    elif name is None and "label" in other.names:
        name = "label"
    elif name is None:
        raise ValueError(
            f"{labels} has columns {', '.join(other.names[:12])}; choose one with --label-column"
        )
    check_column(other, name, "--label-column")
    return _texts(other, name, drop_missing), ()


def _texts(table: Table, name: str, drop_missing: bool) -> NDArray[Any]:
    """Return labels as texts, empty where missing."""
    if table.is_numeric(name):
        texts = table.names_of_numbers(name)
    else:
        entries = table.entries(name)
        texts = np.array(["" if entry is None else str(entry).strip() for entry in entries])
    missing = texts == ""
    if missing.any() and not drop_missing:
        raise ValueError(
            f"{table.place(int(np.argmax(missing)))} has no label; "
            "add one, or skip such rows with --drop-missing"
        )
    return texts
