"""`wolfmeans scan`: find the number of clusters, and how much to trim."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as Rows

from wolfmeans.commands import options, outputs
from wolfmeans.commands.options import named, one_of, shares, value, whole_ranges
from wolfmeans.commands.points import begin_reading, check_count, choose, title_of
from wolfmeans.commands.process import loading, printing
from wolfmeans.commands.terminal import (
    errors_in_one_line,
    print_json,
    remarking,
    warnings_in_one_line,
)
from wolfmeans.files.atomic import written_whole
from wolfmeans.inputs.preparation import Preparation

if TYPE_CHECKING:
    from wolfmeans.estimators.scan_result import Scan

_PICTURES = (".png", ".svg", ".pdf")
Counts = Annotated[
    list[str], typer.Option("--clusters", "-k", metavar="A:B,...", help="Numbers of clusters.")
]
Alphas = Annotated[list[str], value("FRACTION,...", "Fractions of the points to leave out.")]


@errors_in_one_line
def scan(
    files: options.File,
    k: Counts = ["2:10"],  # noqa: B006
    alpha: Alphas = ["0"],  # noqa: B006
    columns: options.Columns = None,
    exclude: options.Exclude = None,
    weights: options.Weights = None,
    standardize: options.Standardize = False,
    drop_missing: options.DropMissing = False,
    format_: options.Format = None,
    n_init: Annotated[
        int | None, value("N", "Number of starts of each fit.", min=1, show_default="auto")
    ] = None,
    bound: Annotated[str, named(options.METHODS, "Lower bounds")] = "auto",
    certify: options.FormerBound = None,
    threads: options.Threads = None,
    seed: options.Seed = 0,
    csv: Annotated[str | None, value("PATH", "Write the table: .csv, .parquet, ...")] = None,
    plot: Annotated[str | None, value("PATH", f"Write the figure: {', '.join(_PICTURES)}.")] = None,
    page: Annotated[str | None, value("PATH", "Write an HTML page about the scan.")] = None,
    quiet: options.Quiet = False,
    json_: options.Json = False,
) -> None:
    """Fit every number of clusters and trimmed fraction, with a lower bound for each.

    [bold]Examples[/bold]

      wolfmeans scan measurements.csv -k 2:10

      wolfmeans scan measurements.csv -k 2:4,8 --alpha 0,0.05 --plot scan.png

      wolfmeans scan measurements.csv -k 2:6 --csv scan.csv --quiet
    """
    ranges, trimmed = whole_ranges("-k", k), shares("--alpha", alpha)
    bound = one_of("--bound", options.bound_or_former(bound, certify), options.METHODS)
    outputs.check_targets({"--csv": csv, "--plot": plot, "--page": page}, files, json=json_)
    if plot is not None and Path(plot).suffix.lower() not in _PICTURES:
        raise ValueError(f"--plot: {plot} must end in one of {', '.join(_PICTURES)}")
    wait_for_table = begin_reading(files, format_)
    with loading():
        from wolfmeans.core.progress import progress_on_terminal
        from wolfmeans.estimators.scan import scan as run_scan

        table = wait_for_table()
    points = choose(table, columns, exclude, weights, drop_missing=drop_missing)
    data = points.data
    check_count(max(numbers[-1] for numbers in ranges), points.known_rows)
    counts = list(dict.fromkeys(count for numbers in ranges for count in numbers))
    if standardize:
        data = Preparation.standardizing(points.names, data, points.weights).apply(data)
    parameters: dict[str, Any] = {"n_threads": threads}
    if n_init is not None:
        parameters["n_init"] = n_init
    with (
        warnings_in_one_line(quiet=quiet),
        progress_on_terminal((lambda share, text: None) if quiet else None) as progress,
        remarking(() if quiet or json_ else points.remarks),
    ):
        found = run_scan(
            data,
            counts,
            trimmed,
            sample_weight=points.weights,
            bound=None if bound == "none" else bound,
            random_state=seed,
            progress=progress,
            **parameters,
        )
    if csv is not None:
        outputs.write_table(csv, _columns(found))
    if plot is not None:
        _draw(plot, found)
    if page is not None:
        _write_page(page, found, len(data), files)
    if json_:
        cells = [dict(zip(found.columns(), row, strict=True)) for row in _rows(found)]
        print_json({"cells": cells, "sentences": found.sentences()})
    elif not quiet and not outputs.is_standard_output(csv):
        with printing():
            _print(found)
    outputs.say_written((csv, plot, page), quiet=quiet)


def _rows(found: Scan) -> list[tuple[Any, ...]]:
    return list(zip(*found.columns().values(), strict=True))


def _columns(found: Scan) -> dict[str, Any]:
    """Return the table with NaN for unknown values."""
    return {
        name: np.array([np.nan if value is None else value for value in values])
        for name, values in found.columns().items()
    }


def _print(found: Scan) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        typer.echo(str(found))
        return
    from wolfmeans.estimators.scan_result import number_columns

    header, *rows = found.texts()
    table = Rows(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(header):
        is_number = place in number_columns(header)
        table.add_column(name, justify="right" if is_number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    for sentence in found.sentences():
        console.print(sentence, markup=False)


def _draw(target: str, found: Scan) -> None:
    try:
        figure = found.plot()
    except ImportError:
        raise ImportError("--plot needs matplotlib: pip install 'wolfmeans[plot]'") from None
    kind = Path(target).suffix[1:].lower()
    with outputs.naming(target), written_whole(target) as file:
        figure.savefig(file, format=kind)


def _write_page(target: str, found: Scan, n_points: int, files: list[str]) -> None:
    from wolfmeans.views.page import scan_page

    made = scan_page(found, title=f"{title_of(files)}: how many clusters?", n_points=n_points)
    with outputs.naming(target):
        made.save(target)
