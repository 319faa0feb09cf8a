"""`wolfmeans demo`: the bundled image data, clustered and certified."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wolfmeans.commands.terminal import errors_in_one_line


@errors_in_one_line
def demo(
    directory: Annotated[Path, typer.Argument(help="Output folder.", metavar="[DIR]")] = Path(
        "demo-output"
    ),
) -> None:
    """Cluster the bundled image data, print the certificate, write figures and a page.

    [bold]Examples[/bold]

      wolfmeans demo

      wolfmeans demo my-folder
    """
    from wolfmeans.commands.demonstration import main

    main(str(directory))
