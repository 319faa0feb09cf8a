"""`wolfmeans study`: the paper's study, on its data or on your own."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from wolfmeans.commands import options
from wolfmeans.commands.options import named, one_of, value, whole_numbers, words
from wolfmeans.commands.points import choose
from wolfmeans.commands.process import loading, say
from wolfmeans.commands.terminal import errors_in_one_line, meter, remarking
from wolfmeans.core.choices import GAPS, MIXTURES, SEGMENTATION_FEATURES, STUDY_SEEDINGS
from wolfmeans.files import datasets, tables
from wolfmeans.files.atomic import shown

if TYPE_CHECKING:
    from wolfmeans.study.results import ScenarioResult
    from wolfmeans.study.scenarios import Scenario

app = typer.Typer(
    help="Repeat the paper's study, compare with its printed numbers, or study your own data.",
    no_args_is_help=True,
)

BUNDLED = {"iris": 3, "banknotes": 2, "wine": 3, "digits": 10}
"""Names of the bundled data sets, with their numbers of classes."""
_MOST_ROWS = 40

# --- Options that several studies have -------------------------------------------------------

Replications = Annotated[
    int, typer.Option("--replications", "-r", min=1, metavar="R", help="Runs of each scenario.")
]
Gap = Annotated[str, named((*GAPS, "all"), "Gap to tabulate and draw")]
Seeding = Annotated[str, named(STUDY_SEEDINGS, "Initial centers")]
Alpha = Annotated[
    float, value("FRACTION", "Trimmed K-means: fraction of points left out.", min=0.0)
]
Seed = Annotated[int, value("S", "Random seed; the same seed gives the same bytes.", min=0)]
Repeats = Annotated[int, value("M", "Number of independent studies, to show the noise.", min=1)]
Workers = Annotated[int | None, value("W", "Number of threads; does not affect results.", min=1)]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an interrupted study in --out.")]
Report = Annotated[
    bool, typer.Option("--report/--no-report", help="Write tables, figures and a page at the end.")
]
Features = Annotated[
    list[str],
    value("NAME,...", f"Columns: {', '.join(SEGMENTATION_FEATURES)} (one column earlier)."),
]
Out = Annotated[Path, value("DIR", "Output folder.")]

_SHARED: dict[str, tuple[Any, Any]] = {
    "gap": (Gap, "all"),
    "empty": (options.Empty, "keep"),
    "seeding": (Seeding, "random"),
    "alpha": (Alpha, 0.0),
    "seed": (Seed, 0),
    "repeats": (Repeats, 1),
    "workers": (Workers, None),
    "resume": (Resume, False),
    "report": (Report, True),
}
"""The options that all studies have, with their defaults."""


def with_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that all studies have, before its last one, the output folder.

    The command finds their values in its context.
    """
    own = inspect.signature(command, eval_str=True)
    *first, out = own.parameters.values()
    shared = [
        inspect.Parameter(name, out.kind, annotation=kind, default=default)
        for name, (kind, default) in _SHARED.items()
    ]
    whole = own.replace(parameters=[*first, *shared, out])

    @wraps(command)
    def with_all(**given: Any) -> None:
        command(**{name: given[name] for name in own.parameters})

    # What typer reads.
    with_all.__signature__ = whole  # type: ignore[attr-defined]
    with_all.__annotations__ = {name: part.annotation for name, part in whole.parameters.items()}
    return with_all


@app.command()
@errors_in_one_line
@with_shared_options
def grid(
    context: typer.Context,
    n: Annotated[list[str], value("N,...", "Numbers of points.")] = ["500,1000,5000"],  # noqa: B006
    d: Annotated[list[str], value("D,...", "Numbers of columns.")] = ["2,5,10"],  # noqa: B006
    k: Annotated[list[str], value("K,...", "Numbers of clusters.")] = ["5,10,20,50"],  # noqa: B006
    kind: Annotated[list[str], value("KIND,...", f"Data: {', '.join(MIXTURES)}.")] = ["blobs"],  # noqa: B006
    replications: Replications = 10_000,
    out: Out = Path("study-grid"),
) -> None:
    """Study synthetic data: the paper's 36 scenarios, some of them, or others.

    Separate numbers by commas, or repeat the option.

    [bold]Examples[/bold]

      wolfmeans study grid --out grid

      wolfmeans study grid --n 500 --d 2,5 --k 5 --k 50 -r 1000 --gap decrease

      wolfmeans study grid --kind elliptic,heavy --n 1000000 --d 2 -r 100
    """
    gaps = _gaps(context.params["gap"])
    sizes = [whole_numbers(name, texts) for name, texts in (("--n", n), ("--d", d), ("--k", k))]
    kinds = [one_of("--kind", name, MIXTURES) for name in words(kind)]
    settings = _settings(context)
    scenarios = [s for data in kinds for s in _study().grid(*sizes, data=data, **settings)]
    _carry_out(context, scenarios, out, gaps)


@app.command()
@errors_in_one_line
@with_shared_options
def segmentation(
    context: typer.Context,
    features: Features = ["standardized,raw"],  # noqa: B006
    k: Annotated[int, value("K", "Number of clusters.", min=1)] = 7,
    replications: Replications = 50_000,
    out: Out = Path("study-segmentation"),
) -> None:
    """Study the image segmentation data: 50,000 seedings, standardized and raw.

    [bold]Examples[/bold]

      wolfmeans study segmentation --out segmentation

      wolfmeans study segmentation --features standardized,raw,shifted --repeats 5
    """
    gaps = _gaps(context.params["gap"])
    scenarios = _study().segmentation(words(features), k=k, **_settings(context))
    _carry_out(context, scenarios, out, gaps)


@app.command("data")
@errors_in_one_line
@with_shared_options
def data_(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help=f"CSV, Parquet or NPY; or {', '.join(BUNDLED)}."),
    ],
    k: Annotated[
        list[str] | None, value("K,...", "Numbers of clusters; known for bundled data.")
    ] = None,
    standardize: options.Standardize = False,
    replications: Replications = 10_000,
    out: Annotated[Path | None, value("DIR", "Output folder.", show_default="study-FILE")] = None,
) -> None:
    """Study your own data with many seedings. Non-numeric columns are ignored.

    [bold]Examples[/bold]

      wolfmeans study data iris

      wolfmeans study data measurements.csv --standardize --k 3,5 -r 200
    """
    gaps = _gaps(context.params["gap"])
    found = read_data(file)
    if k is None and found.classes is None:
        raise ValueError("the number of clusters is missing; set it with --k, e.g. --k 5")
    numbers = whole_numbers("--k", k or [str(found.classes)])
    points = found.standardized() if standardize else found.points
    name = f"{found.name}-standardized" if standardize else found.name
    scenarios = _study().data(points, f"file:{name}", numbers, **_settings(context))
    _carry_out(context, scenarios, out or Path(f"study-{name}"), gaps, found.remarks)


@app.command("report")
@errors_in_one_line
def report_(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Folders with finished scenarios.")
    ],
    gap: Gap = "all",
    out: Annotated[
        Path | None, value("DIR", "Output folder.", show_default="the folder itself")
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


# --- Data ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Data:
    """The numeric columns of a bundled data set or of a file."""

    name: str
    points: NDArray[np.float64]
    remarks: tuple[str, ...] = ()
    """Remarks about how the file was read, to be printed."""
    classes: int | None = None
    """Number of classes, if known."""

    def standardized(self) -> NDArray[np.float64]:
        """Return the columns as z-scores; constant columns become 0."""
        with np.errstate(over="ignore", invalid="ignore"):  # raises an error below
            spread = self.points.std(axis=0)
            centered = self.points - self.points.mean(axis=0)
        if not np.isfinite(spread).all():
            raise ValueError("the values are too large to standardize; rescale the columns")
        return np.asarray(centered / np.where(spread > 0, spread, 1.0), dtype=np.float64)


def read_data(source: str) -> Data:
    """Return a bundled data set or the numbers in a file."""
    if source == "banknotes":
        return Data(source, datasets.load_banknotes().data, classes=BUNDLED[source])
    if source in BUNDLED:
        import sklearn.datasets

        loaded = getattr(sklearn.datasets, f"load_{source}")()
        points = np.asarray(loaded.data, dtype=np.float64)
        return Data(source, points, classes=BUNDLED[source])
    if not Path(source).exists():
        names = ", ".join(BUNDLED)
        raise FileNotFoundError(f"no such file: {source}; bundled data sets: {names}")
    table = tables.read([source])
    chosen = choose(table)
    ignored = [name for name in table.names if name not in chosen.names]
    remarks = table.remarks
    if ignored:
        remarks = (*remarks, f"Ignoring non-numeric columns: {', '.join(ignored)}.")
    points = chosen.data.astype(np.float64, copy=False)
    return Data(shown(Path(source).stem), points, remarks)


# --- Running ---------------------------------------------------------------------------------


def _study() -> ModuleType:
    """Import the study when it is needed; help works without it."""
    with loading():
        from wolfmeans import study
    return study


def _gaps(gap: str) -> tuple[str, ...]:
    return GAPS if gap == "all" else (one_of("--gap", gap, (*GAPS, "all")),)


def _settings(context: typer.Context) -> dict[str, Any]:
    """Return the options that are settings of all scenarios."""
    names = ("replications", "empty", "seeding", "alpha", "seed", "repeats")
    return {name: context.params[name] for name in names}


def _carry_out(
    context: typer.Context,
    scenarios: Sequence[Scenario],
    out: Path,
    gaps: Sequence[str],
    remarks: Sequence[str] = (),
) -> None:
    """Run the scenarios, print their regressions, and write the report."""
    study, given = _study(), context.params
    run = partial(study.run, workers=given["workers"], resume=given["resume"])
    try:
        with meter("runs") as progress, remarking(remarks):
            results = run(scenarios, out, progress=progress)
    except KeyboardInterrupt:
        again = _command_to_resume(context, out)
        say(f"Interrupted. Finished work is saved in {out}; continue with: {again}")
        raise typer.Exit(130) from None
    _print_fits(results, gaps)
    if given["report"]:
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
    for result, gap in rows[:_MOST_ROWS]:
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
    if len(rows) > _MOST_ROWS:
        typer.echo(f"… and {len(rows) - _MOST_ROWS} more rows")
