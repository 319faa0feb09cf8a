"""`wolfmeans study`: the paper's study, on its data or on your own."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wolfmeans.commands.loading import loading
from wolfmeans.commands.reading import BUNDLED, read
from wolfmeans.commands.terminal import (
    errors_in_one_line,
    meter,
    named,
    one_of,
    remarking,
    say,
    whole_numbers,
    words,
)
from wolfmeans.core.choices import GAPS, MIXTURES, POLICIES, SEGMENTATION_FEATURES, STUDY_SEEDINGS

if TYPE_CHECKING:
    from wolfmeans.study.results import ScenarioResult
    from wolfmeans.study.scenarios import Scenario

app = typer.Typer(
    help="Repeat the paper's study, compare with its printed numbers, or study your own data.",
    no_args_is_help=True,
)

_MORE_ROWS = 40

# --- Options that several commands have ------------------------------------------------------

Replications = Annotated[
    int, typer.Option("--replications", "-r", min=1, metavar="R", help="Runs of each scenario.")
]
Gap = Annotated[
    str,
    named((*GAPS, "all"), "Gap to tabulate and draw"),
]
Empty = Annotated[str, named(POLICIES, "New centers for empty clusters")]
Seeding = Annotated[str, named(STUDY_SEEDINGS, "Initial centers")]
Alpha = Annotated[
    float,
    typer.Option(min=0.0, metavar="FRACTION", help="Trimmed K-means: fraction of points left out."),
]
Seed = Annotated[
    int, typer.Option(min=0, metavar="S", help="Random seed; the same seed gives the same bytes.")
]
Repeats = Annotated[
    int, typer.Option(min=1, metavar="M", help="Number of independent studies, to show the noise.")
]
Workers = Annotated[
    int | None, typer.Option(min=1, metavar="W", help="Number of threads; does not affect results.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an interrupted study in --out.")]
Report = Annotated[
    bool, typer.Option("--report/--no-report", help="Write tables, figures and a page at the end.")
]


@app.command()
@errors_in_one_line
def grid(
    context: typer.Context,
    n: Annotated[list[str], typer.Option(metavar="N,...", help="Numbers of points.")] = [  # noqa: B006
        "500,1000,5000"
    ],
    d: Annotated[list[str], typer.Option(metavar="D,...", help="Numbers of columns.")] = ["2,5,10"],  # noqa: B006
    k: Annotated[list[str], typer.Option(metavar="K,...", help="Numbers of clusters.")] = [  # noqa: B006
        "5,10,20,50"
    ],
    kind: Annotated[
        list[str], typer.Option(metavar="KIND,...", help=f"Data: {', '.join(MIXTURES)}.")
    ] = ["blobs"],  # noqa: B006
    replications: Replications = 10_000,
    gap: Gap = "all",
    empty: Empty = "keep",
    seeding: Seeding = "random",
    alpha: Alpha = 0.0,
    seed: Seed = 0,
    repeats: Repeats = 1,
    workers: Workers = None,
    resume: Resume = False,
    report: Report = True,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output folder.")] = Path("study-grid"),
) -> None:
    """Study synthetic data: the paper's 36 scenarios, some of them, or others.

    Separate numbers by commas, or repeat the option.

    [bold]Examples[/bold]

      wolfmeans study grid --out grid

      wolfmeans study grid --n 500 --d 2,5 --k 5 --k 50 -r 1000 --gap decrease

      wolfmeans study grid --kind elliptic,heavy --n 1000000 --d 2 -r 100
    """
    gaps = _gaps(gap)
    sizes = [whole_numbers(name, texts) for name, texts in (("--n", n), ("--d", d), ("--k", k))]
    kinds = [one_of("--kind", name, MIXTURES) for name in words(kind)]
    settings = _settings(replications, empty, seeding, alpha, seed, repeats)
    scenarios = [s for data in kinds for s in _study().grid(*sizes, data=data, **settings)]
    _carry_out(context, scenarios, out, gaps, workers=workers, resume=resume, report=report)


@app.command()
@errors_in_one_line
def segmentation(
    context: typer.Context,
    features: Annotated[
        list[str],
        typer.Option(
            metavar="NAME,...",
            help=f"Columns: {', '.join(SEGMENTATION_FEATURES)} (one column earlier).",
        ),
    ] = ["standardized,raw"],  # noqa: B006
    k: Annotated[int, typer.Option(min=1, metavar="K", help="Number of clusters.")] = 7,
    replications: Replications = 50_000,
    gap: Gap = "all",
    empty: Empty = "keep",
    seeding: Seeding = "random",
    alpha: Alpha = 0.0,
    seed: Seed = 0,
    repeats: Repeats = 1,
    workers: Workers = None,
    resume: Resume = False,
    report: Report = True,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Output folder.")] = Path(
        "study-segmentation"
    ),
) -> None:
    """Study the image segmentation data: 50,000 seedings, standardized and raw.

    [bold]Examples[/bold]

      wolfmeans study segmentation --out segmentation

      wolfmeans study segmentation --features standardized,raw,shifted --repeats 5
    """
    gaps = _gaps(gap)
    settings = _settings(replications, empty, seeding, alpha, seed, repeats)
    scenarios = _study().segmentation(words(features), k=k, **settings)
    _carry_out(context, scenarios, out, gaps, workers=workers, resume=resume, report=report)


@app.command("data")
@errors_in_one_line
def data_(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help=f"CSV, Parquet or NPY; or {', '.join(BUNDLED)}."),
    ],
    k: Annotated[
        list[str] | None,
        typer.Option(metavar="K,...", help="Numbers of clusters; known for bundled data."),
    ] = None,
    standardize: Annotated[
        bool, typer.Option("--standardize", help="Convert columns to z-scores first.")
    ] = False,
    replications: Replications = 10_000,
    gap: Gap = "all",
    empty: Empty = "keep",
    seeding: Seeding = "random",
    alpha: Alpha = 0.0,
    seed: Seed = 0,
    repeats: Repeats = 1,
    workers: Workers = None,
    resume: Resume = False,
    report: Report = True,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Output folder.", show_default="study-FILE"),
    ] = None,
) -> None:
    """Study your own data with many seedings. Non-numeric columns are ignored.

    [bold]Examples[/bold]

      wolfmeans study data iris

      wolfmeans study data measurements.csv --standardize --k 3,5 -r 200
    """
    gaps = _gaps(gap)
    table = read(file)
    if k is None and table.classes is None:
        raise ValueError("the number of clusters is missing; set it with --k, e.g. --k 5")
    numbers = whole_numbers("--k", k or [str(table.classes)])
    settings = _settings(replications, empty, seeding, alpha, seed, repeats)
    remarks = list(table.remarks)
    if table.dropped:
        remarks.append(f"Ignoring non-numeric columns: {', '.join(table.dropped)}.")
    points = table.standardized() if standardize else table.data
    name = f"{table.name}-standardized" if standardize else table.name
    from wolfmeans.study.collection import FILE

    scenarios = _study().data(points, f"{FILE}{name}", numbers, **settings)
    target = out or Path(f"study-{name}")
    options: Any = {"workers": workers, "resume": resume, "report": report}
    _carry_out(context, scenarios, target, gaps, remarks=remarks, **options)


@app.command("report")
@errors_in_one_line
def report_(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders with finished scenarios.")
    ],
    gap: Gap = "all",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Output folder.", show_default="the folder itself"),
    ] = None,
) -> None:
    """Rewrite tables, figures and page from results; several folders give one page.

    [bold]Examples[/bold]

      wolfmeans study report grid

      wolfmeans study report grid segmentation elliptic --out everything
    """
    if out is None and len(directories) > 1:
        raise ValueError("a report on several folders needs --out DIR, the folder to write")
    page = _study().write_report(*directories, out=out, gaps=_gaps(gap))
    typer.echo(f"Page: {page}")


# --- What they do ----------------------------------------------------------------------------


def _study() -> ModuleType:
    """Import the study when it is needed; help works without it."""
    with loading():
        from wolfmeans import study
    return study


def _gaps(gap: str) -> tuple[str, ...]:
    return GAPS if gap == "all" else (one_of("--gap", gap, (*GAPS, "all")),)


def _settings(
    replications: int, empty: str, seeding: str, alpha: float, seed: int, repeats: int
) -> dict[str, Any]:
    return {
        "replications": replications,
        "empty": empty,
        "seeding": seeding,
        "alpha": alpha,
        "seed": seed,
        "repeats": repeats,
    }


def _carry_out(
    context: typer.Context,
    scenarios: Sequence[Scenario],
    out: Path,
    gaps: Sequence[str],
    *,
    workers: int | None,
    resume: bool,
    report: bool,
    remarks: Sequence[str] = (),
) -> None:
    study = _study()
    try:
        with meter("runs") as progress, remarking(remarks):
            results = study.run(scenarios, out, workers=workers, resume=resume, progress=progress)
    except KeyboardInterrupt:
        again = _command_to_resume(context, out)
        say(f"Interrupted. Finished work is saved in {out}; continue with: {again}")
        raise typer.Exit(130) from None
    _print_fits(results, gaps)
    if report:
        say("Writing tables, figures and the page …")
        typer.echo(f"Page: {study.write_report(out, gaps=gaps)}")
    else:
        typer.echo(f"Results: {out / 'scenarios'}")


def _command_to_resume(context: typer.Context, out: Path) -> str:
    given = context.obj if isinstance(context.obj, list) else ["study", context.info_name or ""]
    extra = [] if "--resume" in given else ["--resume"]
    if not isinstance(context.obj, list):
        extra = ["--out", str(out), *extra]
    return shlex.join(["wolfmeans", *given, *extra])


def _print_fits(results: Sequence[ScenarioResult], gaps: Sequence[str]) -> None:
    from wolfmeans.study.tables import number, scenario_label, with_error

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("data", "n", "d", "K", "gap", "N", "slope (SE)", "p-value"):
        table.add_column(name, justify="left" if name in ("data", "gap") else "right")
    rows = [(result, gap) for result in results for gap in gaps]
    for result, gap in rows[:_MORE_ROWS]:
        scenario, fit = result.scenario, result.regression(gap)
        table.add_row(
            escape(scenario_label(result)),
            *(f"{size:,}" for size in (scenario.n, scenario.d, scenario.k)),
            gap,
            str(fit.n_points),
            with_error(fit.slope, fit.slope_se),
            number(fit.p_value),
        )
    Console().print(table)
    if len(rows) > _MORE_ROWS:
        typer.echo(f"… and {len(rows) - _MORE_ROWS} more rows")
