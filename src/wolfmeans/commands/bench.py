"""`wolfmeans bench`: compare wolfmeans with the installed K-means libraries on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from wolfmeans.commands import options, outputs
from wolfmeans.commands.options import named, one_of, value
from wolfmeans.commands.process import loading, say
from wolfmeans.commands.terminal import errors_in_one_line, live_console
from wolfmeans.core.choices import BENCH_SIZES, DTYPES

if TYPE_CHECKING:
    from wolfmeans.bench.comparison import Comparison
    from wolfmeans.bench.race import Race

_ENDINGS = (".md", ".json")


@errors_in_one_line
def bench(
    size: Annotated[str, named(BENCH_SIZES, "How much to measure")] = "small",
    dtype: Annotated[str, named((*DTYPES, "both"), "Data type")] = "both",
    threads: options.Threads = None,
    json_: options.Json = False,
    out: Annotated[str | None, value("PATH", "Write the comparison: .md or .json.")] = None,
) -> None:
    """Compare the speed of wolfmeans and the installed K-means libraries.

    All libraries take turns with the same data, the same start and the same
    stopping rule; the median time of a whole fit counts. * marks a library
    with a different inertia or iteration count. Nothing is installed. Ctrl-C
    keeps the finished comparisons.

    [bold]Examples[/bold]

      wolfmeans bench

      wolfmeans bench --size medium --dtype float32 --threads 1 --out bench.md
    """
    one_of("--size", size, BENCH_SIZES)
    one_of("--dtype", dtype, (*DTYPES, "both"))
    if out is not None and Path(out).suffix.lower() not in _ENDINGS:
        raise ValueError(f"--out: {out} must end in one of {', '.join(_ENDINGS)}")
    outputs.check_targets({"--out": out}, [], json=json_)
    with loading():
        from wolfmeans.bench.comparison import Bench
        from wolfmeans.engines import effective_threads
    dtypes = DTYPES if dtype == "both" else (dtype,)
    work = Bench(size, dtypes, effective_threads(threads))
    stopped = False
    with _shown(work.found, work.n_cells) as (announce, show):
        try:
            for one in work.cells(announce):
                show(one)
        except KeyboardInterrupt:
            stopped = True
    if work.found.races:
        _report(work.found, out, json_)
    if stopped:
        say("wolfmeans: interrupted; finished comparisons are kept" if work.found.races else
            "wolfmeans: interrupted")  # fmt: skip
        raise typer.Exit(130)


def _report(found: Comparison, out: str | None, json_: bool) -> None:
    if out is not None:
        text = found.to_json() if out.lower().endswith(".json") else found.to_markdown()
        outputs.write_text(out, text)
    if json_:
        typer.echo(found.to_json(), nl=False)
    else:
        _print(found)
    if out is not None:
        say(f"Written: {out}")


@contextmanager
def _shown(
    found: Comparison, n_cells: int
) -> Iterator[tuple[Callable[[str], Any], Callable[[Race], Any]]]:
    """Update a table on a terminal; print a line for each cell elsewhere."""
    console = live_console()
    doing = ""

    def announce(what: str) -> None:
        nonlocal doing
        doing = what

    if console is None:

        def line(one: Race) -> None:
            say(f"{len(found.races)} of {n_cells}: {doing}")

        yield announce, line
        return

    def picture() -> Group:
        status = Text(
            f"{len(found.races)} of {n_cells} done; {doing} … (Ctrl-C stops and keeps the results)",
            "dim",
        )
        return Group(_ratios(found), status)

    with Live(console=console, get_renderable=picture, transient=True, refresh_per_second=4):
        yield announce, lambda one: None


def _ratios(found: Comparison) -> Table:
    from wolfmeans.bench.comparison import ratio_rows

    return _table(ratio_rows(found), names=found.titles)


def _table(rows: list[tuple[str, ...]], names: Sequence[str]) -> Table:
    """Return a table; only the names of peers may be broken where it is narrow."""
    header, *body = rows
    table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
    for place, name in enumerate(header):
        justify: Literal["left", "right"] = "right" if place else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=name not in names)
    for row in body:
        table.add_row(*row)
    return table


def _print(found: Comparison) -> None:
    from wolfmeans.bench.comparison import AGREEMENT, RATIOS

    # Elsewhere than on a terminal a line is as long as it is.
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    console.print(RATIOS, markup=False)
    console.print(_ratios(found))
    console.print()
    console.print(_table([AGREEMENT, *found.agreement()], names=AGREEMENT))
    console.print()
    facts = (found.machine, found.versions)
    for text in (
        *found.sentences(),
        *(", ".join(f"{name} {text}" for name, text in some.items()) for some in facts),
        *([f"Not installed: {'; '.join(found.missing)}."] if found.missing else []),
    ):
        console.print(text, markup=False)
