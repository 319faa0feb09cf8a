"""`wolfmeans` itself: its help and its version."""

from __future__ import annotations

from typing import Annotated

import typer

from wolfmeans import __version__


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wolfmeans {__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """K-means that proves its answer.

    [bold]Examples[/bold]

      wolfmeans demo

      wolfmeans fit measurements.csv -k 8 --labels labels.csv
    """
