"""`wolfmeans fit`: cluster the rows of files, print the certificate, write the requested files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from wolfmeans.commands import outputs
from wolfmeans.commands.fitted import (
    STRONGEST,
    center_columns,
    facts_of,
    for_the_command,
    listed,
    write_page,
)
from wolfmeans.commands.live import LONG_STEP, watching
from wolfmeans.commands.loading import loading
from wolfmeans.commands.out_of_core import FilePoints, Memory, open_points, refuse_with_memory
from wolfmeans.commands.points import (
    Columns,
    DropMissing,
    Exclude,
    File,
    Format,
    Json,
    Points,
    Quiet,
    Seed,
    Standardize,
    Threads,
    Weights,
    begin_reading,
    check_count,
    choose,
)
from wolfmeans.commands.terminal import (
    errors_in_one_line,
    named,
    one_of,
    print_facts,
    print_json,
    remarking,
    say,
    warnings_in_one_line,
)
from wolfmeans.core.byte_sizes import said
from wolfmeans.core.choices import (
    BOUNDS,
    ENGINES,
    POLICIES,
    POLISHES,
    SEEDINGS,
    STOPS,
    TRIMMED_SEEDINGS,
)
from wolfmeans.inputs.preparation import Preparation

if TYPE_CHECKING:
    from wolfmeans.estimators import KMeans, TrimmedKMeans

    Model = KMeans | TrimmedKMeans

CERTIFY = ("auto", "none", STRONGEST, *BOUNDS)
# Multiplications of bounds; see bounds.methods.
_A_SECOND = 1e9
_NEAR_ENOUGH = 1.001
_OUTPUT, _SEARCH, _TRIMMING = "Output", "Search and proof", "Outliers"


def _target(text: str) -> Any:
    return typer.Option(metavar="PATH", help=text, rich_help_panel=_OUTPUT)


Certify = Annotated[
    str, named(CERTIFY, "Lower bound; auto: the best proof within about a second", _SEARCH)
]
Engine = Annotated[
    str, named(ENGINES, "Compute engine; results are identical, auto picks the fastest")
]


@errors_in_one_line
def fit(
    files: File,
    k: Annotated[
        int, typer.Option("--clusters", "-k", min=1, metavar="K", help="Number of clusters.")
    ],
    columns: Columns = None,
    exclude: Exclude = None,
    weights: Weights = None,
    standardize: Standardize = False,
    drop_missing: DropMissing = False,
    format_: Format = None,
    alpha: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="FRACTION",
            help="Leave out this fraction of the points, the farthest ones.",
            rich_help_panel=_TRIMMING,
        ),
    ] = None,
    trim: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="N",
            help="Leave out this many points, or this much weight.",
            rich_help_panel=_TRIMMING,
        ),
    ] = None,
    init: Annotated[
        str | None,
        named(
            (*SEEDINGS, *TRIMMED_SEEDINGS),
            "Initial centers",
            show_default="depends on the kind of fit",
        ),
    ] = None,
    n_init: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of starts; the best result is kept.",
            show_default="auto",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    max_iter: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Maximum number of iterations of each start."),
    ] = 300,
    stop: Annotated[
        str | None,
        named(STOPS, "Stopping rule", show_default="decrease; shift if only --tol is given"),
    ] = None,
    tol: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="T",
            help="Relative tolerance of the stopping rule.",
            show_default="1e-6; 1e-4 for shift",
        ),
    ] = None,
    empty: Annotated[str, named(POLICIES, "New centers for empty clusters")] = "farthest",
    polish: Annotated[
        str | None, named(POLISHES, "Continue to a better local optimum", _SEARCH)
    ] = None,
    effort: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Search this long for a better clustering.",
            rich_help_panel=_SEARCH,
        ),
    ] = None,
    certify: Certify = "auto",
    engine: Engine = "auto",
    threads: Threads = None,
    seed: Seed = 0,
    time_limit: Annotated[
        float | None,
        typer.Option(min=0.0, metavar="SECONDS", help="Start no further step after this time."),
    ] = None,
    memory: Memory = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Read and cluster on the Dask cluster at this address, e.g. tcp://host:8786.",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Save progress to this file, and resume from it if it exists."
        ),
    ] = None,
    labels: Annotated[
        str | None, _target("The cluster of each row: .csv, .tsv, .parquet, .arrow, .npy, or -.")
    ] = None,
    with_data: Annotated[
        bool,
        typer.Option(
            "--with-data", help="Write the labels next to the data.", rich_help_panel=_OUTPUT
        ),
    ] = False,
    centers: Annotated[
        str | None, _target("Table of centers and sizes, in the units of the columns.")
    ] = None,
    model: Annotated[str | None, _target("The model, for wolfmeans predict.")] = None,
    certificate: Annotated[str | None, _target("The certificate as JSON.")] = None,
    page: Annotated[str | None, _target("An HTML page about the result.")] = None,
    quiet: Quiet = False,
    json_: Json = False,
    require_converged: Annotated[
        bool,
        typer.Option("--require-converged", help="Exit with code 1 if the fit did not converge."),
    ] = False,
) -> None:
    """Cluster the rows of files and print a certificate of the result.

    Exit codes: 0 success, 1 not converged (with --require-converged),
    2 invalid usage or input, 130 interrupted by Ctrl-C.

    [bold]Examples[/bold]

      wolfmeans fit measurements.csv -k 8

      wolfmeans fit measurements.csv -k 8 --standardize --model model.wolf

      wolfmeans fit big.csv.gz -k 8 --columns x,y --drop-missing --json

      wolfmeans fit 'parts/*.parquet' -k 5 --alpha 0.02 --labels all.parquet

      zcat big.csv.gz | wolfmeans fit - -k 8 --labels labels.csv

      wolfmeans fit big.parquet -k 100 --memory 2GB --labels labels.parquet

      wolfmeans fit big.parquet -k 100 --memory 2GB --checkpoint fit.ckpt

    On a Dask cluster: --dask tcp://host:8786; --labels may then name a folder.
    """
    targets = {
        "--labels": labels,
        "--centers": centers,
        "--model": model,
        "--certificate": certificate,
        "--page": page,
    }
    if dask is None:
        for option in ("--labels", "--centers"):
            outputs.check_table_target(option, targets[option])
        outputs.check_targets(targets | {"--checkpoint": checkpoint}, files, json=json_)
    if with_data and labels is None:
        raise ValueError("--with-data needs --labels PATH, the file to write")
    settings = {
        "n_init": "auto" if n_init is None else n_init,
        "max_iter": max_iter,
        "stop": None if stop is None else one_of("--stop", stop, STOPS),
        "tol": tol,
        "empty": one_of("--empty", empty, POLICIES),
        "certify": _bound(certify),
        "engine": one_of("--engine", engine, ENGINES),
        "n_threads": threads,
        "random_state": seed,
        "time_limit": time_limit,
        "checkpoint": checkpoint,
    }
    if init is not None:
        settings["init"] = one_of("--init", init, (*SEEDINGS, *TRIMMED_SEEDINGS))
    _check_kind_of_fit(alpha, trim, polish, effort, init)
    if checkpoint is not None:
        _check_checkpoint(polish, effort, empty)

    if dask is not None:
        from wolfmeans.commands import on_cluster

        on_cluster.refuse_options(
            {
                "--standardize": standardize,
                "--drop-missing": drop_missing,
                "--with-data": with_data,
                "--page": page,
                "--format": format_,
                "--memory": memory,
            }
        )
        on_cluster.check_targets(targets | {"--checkpoint": checkpoint}, json=json_)
        estimator = _estimator(k, alpha, trim, polish, effort, settings)
        interrupted = on_cluster.fit_on_cluster(
            dask,
            files,
            estimator,
            columns=columns,
            exclude=exclude,
            weights=weights,
            targets=targets,
            quiet=quiet,
            json=json_,
        )
        _exit_code(estimator, interrupted, require_converged, quiet=quiet)
        return

    points: Points | FilePoints
    if memory is None:
        reading = begin_reading(files, format_)
        with loading():
            estimator = _estimator(k, alpha, trim, polish, effort, settings)
            table = reading.result()
        points = choose(table, columns, exclude, weights, drop_missing=drop_missing)
        outputs.check_gaps(labels, points.kept)
    else:
        refuse_with_memory(
            {
                "--standardize": standardize,
                "--with-data": with_data,
                "--page": page,
                "--format": format_,
                f"--certify {certify}": certify not in ("auto", "none"),
            }
        )
        outputs.check_gaps_to_come(labels, drop_missing=drop_missing)
        with loading():
            points = open_points(
                files, memory, columns, exclude, weights, drop_missing=drop_missing
            )
            settings["memory_limit"] = points.limit
            estimator = _estimator(k, alpha, trim, polish, effort, settings)
    if points.known_rows is not None:
        check_count(k, points.known_rows)
    begun = perf_counter()
    preparation = Preparation(points.names)
    if standardize and isinstance(points, Points):
        preparation = Preparation.standardizing(points.names, points.data, points.weights)
    many = "the complete" if points.known_rows is None else f"{points.known_rows:,}"
    what = f"Clustering {many} rows by {listed(points.names)}."
    prepared = preparation.apply(points.data) if isinstance(points, Points) else points.data
    remarks = () if quiet else (*points.remarks, what)
    try:
        interrupted = _run(estimator, prepared, points, certify, remarks, quiet=quiet)
    except MemoryError as error:
        if memory is None or points.weights is None:
            raise
        raise MemoryError(
            f"{error}. In addition, the weights take {said(points.weights.nbytes)} of --memory "
            f"{memory}"
        ) from None
    # The model file stores the names of the columns.
    estimator.feature_names_in_ = np.array(points.names, dtype=object)
    facts = facts_of(estimator, points, preparation, perf_counter() - begun)

    if labels is not None and isinstance(points, Points):
        columns_out = {"label": points.beside(estimator.labels_)}
        beside = points.table if with_data else None
        outputs.write_table(labels, columns_out, beside, numbered=drop_missing)
    elif labels is not None and isinstance(points, FilePoints):
        pieces = points.label_pieces(estimator.labels_)
        outputs.write_pieces(labels, "label", pieces, numbered=drop_missing)
    if centers is not None:
        outputs.write_table(centers, center_columns(estimator, preparation))
    if model is not None:
        from wolfmeans.estimators import saving

        with outputs.naming(model):
            saving.save(estimator, Path(model), preparation)
    if certificate is not None:
        outputs.write_json(certificate, facts)
    if page is not None and isinstance(points, Points):
        write_page(page, estimator, points, preparation, files)
    if json_:
        print_json(facts)
    elif not quiet and not any(map(outputs.is_standard_output, targets.values())):
        condition = "" if isinstance(points, Points) else "without --memory, "
        rows = [
            tuple(for_the_command(cell, points.names, condition) for cell in row)
            for row in estimator.certificate_.rows()
        ]
        print_facts(for_the_command(estimator.certificate_.verdict), rows)
    written = outputs.written_files(targets.values())
    if written and not quiet:
        say(f"Written: {', '.join(written)}")
    _exit_code(estimator, interrupted, require_converged, quiet=quiet)


def _exit_code(
    estimator: Model, interrupted: bool, require_converged: bool, *, quiet: bool
) -> None:
    """Exit with 130 after Ctrl-C, and with 1 if convergence was required and not reached."""
    if interrupted:
        kept = "" if estimator.checkpoint is None else "; run the same command to continue"
        say(f"wolfmeans: interrupted; this is the result so far{kept}")
        raise typer.Exit(130)
    if require_converged and not estimator.certificate_.status.converged:
        if not quiet:
            say(f"wolfmeans: {for_the_command(str(estimator.certificate_.status))}")
        raise typer.Exit(1)


def _bound(certify: str) -> str | None:
    """Return the bound that the fit itself computes."""
    one_of("--certify", certify, CERTIFY)
    return None if certify in ("none", STRONGEST) else certify


def _check_kind_of_fit(
    alpha: float | None,
    trim: float | None,
    polish: str | None,
    effort: float | None,
    init: str | None,
) -> None:
    """Check that the options can be combined."""
    if alpha is None and trim is None:
        if init in TRIMMED_SEEDINGS:
            raise ValueError(f"--init {init} needs --alpha or --trim")
        if polish is not None:
            one_of("--polish", polish, POLISHES)
        if effort is not None and not effort > 0:
            raise ValueError(f"--effort must be more than 0 seconds; got {effort:g}")
        return
    for option, value in (("--polish", polish), ("--effort", effort)):
        if value is not None:
            raise ValueError(f"{option} cannot be combined with --alpha or --trim")
    if alpha is not None and trim is not None:
        raise ValueError("--alpha and --trim both set how much to leave out; use only one")
    if alpha is not None and alpha >= 1:
        raise ValueError(f"--alpha must be at least 0 and below 1; got {alpha:g}")


def _check_checkpoint(polish: str | None, effort: float | None, empty: str) -> None:
    """Check that the fit can be resumed with these options."""
    refused = {"--polish": polish, "--effort": effort}
    if empty in ("resample", "admissible"):
        refused["--empty"] = empty
    for option, value in refused.items():
        if value is not None:
            raise ValueError(f"--checkpoint cannot be combined with {option} {value}")


def _estimator(
    k: int,
    alpha: float | None,
    trim: float | None,
    polish: str | None,
    effort: float | None,
    settings: dict[str, Any],
) -> Model:
    from wolfmeans.estimators import KMeans, TrimmedKMeans

    if alpha is None and trim is None:
        return KMeans(k, polish=polish, effort=effort, **settings)
    return TrimmedKMeans(k, alpha=alpha, trim=trim, **settings)


def _run(
    estimator: Model,
    data: Any,
    points: Points | FilePoints,
    certify: str,
    remarks: Sequence[str],
    *,
    quiet: bool,
) -> bool:
    """Fit, with a live display if steps are long; return whether Ctrl-C ended the fit."""
    from wolfmeans.core.notices import progress_on_terminal

    # Small problems are too fast for a live display, and run many starts at once.
    long = isinstance(points, FilePoints) or data.size * estimator.n_clusters >= LONG_STEP
    with (
        # The certificate begins with this warning.
        warnings_in_one_line(quiet=quiet, known="Not converged"),
        watching(estimator, wanted=long, shown=not quiet) as (watch, callback),
        remarking(remarks),
    ):
        estimator.callback = callback
        try:
            estimator.fit(data, sample_weight=points.weights)
        except MemoryError as error:
            raise MemoryError(for_the_command(str(error))) from error
        except NotImplementedError as error:
            # What has no form in parts.
            raise ValueError(str(error)) from error
        estimator.callback = None
    if not watch.interrupted and isinstance(points, Points):
        with progress_on_terminal(_silent if quiet else None) as told:
            for method in _further_bounds(estimator, data, certify):
                estimator.certify(
                    data,
                    sample_weight=points.weights,
                    method=method,
                    random_state=estimator.random_state,
                    progress=told,
                )
    return watch.interrupted


def _further_bounds(estimator: Model, data: NDArray[np.floating], certify: str) -> Sequence[str]:
    """Return the bounds to compute after the fit: all for the strongest, else cheap proofs.

    A command takes a second to start, so a proof may take as long. Bounds that the fit has computed
    already, or that would add little, are skipped.
    """
    from wolfmeans.bounds import REGISTRY, affordable

    known = estimator.certificate_.ratio
    if certify == STRONGEST:
        return ("auto",)
    if certify != "auto" or (known is not None and known < _NEAR_ENOUGH):
        return ()
    trimmed = estimator.certificate_.trimmed_mass > 0
    n, d = data.shape
    cheap = affordable(n, d, estimator.n_clusters, trimmed=trimmed, budget=_A_SECOND)
    found = estimator.certificate_.lower_bound_kind
    return [name for name in cheap if REGISTRY[name].rigorous and name != found]


def _silent(share: float, text: str) -> None:
    """Show nothing."""
