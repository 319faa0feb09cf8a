"""`wolfmeans fit`: cluster the rows of files, print the certificate, write the requested files."""

from __future__ import annotations

import math
import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from wolfmeans.commands import options, outputs
from wolfmeans.commands.options import named, one_of, value
from wolfmeans.commands.points import (
    PageColumns,
    Points,
    TablePoints,
    begin_reading,
    check_count,
    choose,
    open_points,
    refuse_with_memory,
    title_of,
)
from wolfmeans.commands.process import loading, say
from wolfmeans.commands.terminal import (
    LONG_STEP,
    errors_in_one_line,
    print_facts,
    print_json,
    remarking,
    warnings_in_one_line,
    watching,
)
from wolfmeans.core.byte_sizes import said
from wolfmeans.core.choices import (
    BOUNDS,
    ENGINES,
    METRICS,
    POLICIES,
    POLISHES,
    SEEDINGS,
    STOPS,
    TRIMMED_SEEDINGS,
)
from wolfmeans.inputs.preparation import Preparation

if TYPE_CHECKING:
    from wolfmeans.estimators import ConstrainedKMeans, KMeans, SphericalKMeans, TrimmedKMeans

    Model = KMeans | SphericalKMeans | TrimmedKMeans | ConstrainedKMeans

STRONGEST = "strongest"
"""The bound that takes the time it needs."""
LOWER_BOUNDS = ("auto", "none", STRONGEST, *BOUNDS)
_INITS = (*SEEDINGS, *TRIMMED_SEEDINGS)
# Multiplications of bounds; see bounds.methods.
_A_SECOND = 1e9
_NEAR_ENOUGH = 1.001
_MOST_NAMED = 8
_OUTPUT, _SEARCH, _TRIMMING = "Output", "Search and proof", "Outliers"
_SIZES = "Sizes of clusters"
_ADVICE = {
    "certify(X, seconds=S)": "--certify-seconds S",
    "certify(X)": f"--bound {STRONGEST}",
    "effort=SECONDS": "--effort SECONDS",
    "max_iter": "--max-iter",
    "time_limit": "--time-limit",
    "memory_limit": "--memory",
    "the callback stopped the run": "the run was interrupted (Ctrl-C)",
}


@errors_in_one_line
def fit(
    files: options.File,
    k: Annotated[
        int, typer.Option("--clusters", "-k", min=1, metavar="K", help="Number of clusters.")
    ],
    columns: options.Columns = None,
    exclude: options.Exclude = None,
    weights: options.Weights = None,
    standardize: options.Standardize = False,
    drop_missing: options.DropMissing = False,
    format_: options.Format = None,
    metric: Annotated[
        str, named(METRICS, "Distance to the centers; cosine divides the rows by their norms")
    ] = "euclidean",
    alpha: Annotated[
        float | None,
        value(
            "FRACTION",
            "Leave out this fraction of the points, the farthest ones.",
            _TRIMMING,
            min=0.0,
        ),
    ] = None,
    trim: Annotated[
        float | None,
        value("N", "Leave out this many points, or this much weight.", _TRIMMING, min=0.0),
    ] = None,
    size_min: Annotated[
        float | None,
        value("N", "Every cluster has at least this many points, or weight.", _SIZES, min=0.0),
    ] = None,
    size_max: Annotated[
        float | None,
        value("N", "Every cluster has at most this many points, or weight.", _SIZES, min=0.0),
    ] = None,
    init: Annotated[
        str | None, named(_INITS, "Initial centers", show_default="depends on the kind of fit")
    ] = None,
    n_init: Annotated[
        int | None,
        value(
            "N",
            "Number of starts; the best result is kept.",
            _SEARCH,
            min=1,
            show_default="auto",
        ),
    ] = None,
    max_iter: Annotated[
        int, value("N", "Maximum number of iterations of each start.", min=1)
    ] = 300,
    stop: Annotated[
        str | None,
        named(STOPS, "Stopping rule", show_default="decrease; shift if only --tol is given"),
    ] = None,
    tol: Annotated[
        float | None,
        value(
            "T",
            "Relative tolerance of the stopping rule.",
            min=0.0,
            show_default="1e-6; 1e-4 for shift",
        ),
    ] = None,
    empty: options.Empty = "farthest",
    polish: Annotated[
        str | None,
        named(POLISHES, "Continue to a better local optimum", rich_help_panel=_SEARCH),
    ] = None,
    effort: Annotated[
        float | None,
        value("SECONDS", "Search this long for a better clustering.", _SEARCH),
    ] = None,
    bound: Annotated[
        str,
        named(
            LOWER_BOUNDS,
            "Lower bound; auto: the best proof within about a second",
            rich_help_panel=_SEARCH,
        ),
    ] = "auto",
    certify: options.FormerBound = None,
    certify_seconds: Annotated[
        float | None,
        value("SECONDS", "Then improve the bound for this time.", _SEARCH),
    ] = None,
    engine: Annotated[
        str, named(ENGINES, "Compute engine; results are identical, auto picks the fastest")
    ] = "auto",
    threads: options.Threads = None,
    seed: options.Seed = 0,
    time_limit: Annotated[
        float | None, value("SECONDS", "Start no further step after this time.", min=0.0)
    ] = None,
    memory: options.Memory = None,
    dask: Annotated[
        str | None,
        value(
            "ADDRESS",
            "Read and cluster on the Dask cluster at this address, e.g. tcp://host:8786.",
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        value("PATH", "Save progress to this file, and resume from it if it exists."),
    ] = None,
    labels: Annotated[
        str | None,
        value(
            "PATH", "The cluster of each row: .csv, .tsv, .parquet, .arrow, .npy, or -.", _OUTPUT
        ),
    ] = None,
    with_data: Annotated[
        bool,
        typer.Option(
            "--with-data", help="Write the labels next to the data.", rich_help_panel=_OUTPUT
        ),
    ] = False,
    centers: Annotated[
        str | None,
        value("PATH", "Table of centers and sizes, in the units of the columns.", _OUTPUT),
    ] = None,
    model: Annotated[
        str | None, value("PATH", "The model, for wolfmeans predict.", _OUTPUT)
    ] = None,
    certificate: Annotated[str | None, value("PATH", "The certificate as JSON.", _OUTPUT)] = None,
    proof: Annotated[
        str | None,
        value("PATH", "The proof of the lower bound, for wolfmeans check.", _OUTPUT),
    ] = None,
    page: options.Page = None,
    id_: options.Id = None,
    names: options.Names = None,
    color: options.Color = None,
    compare: options.Compare = None,
    quiet: options.Quiet = False,
    json_: options.Json = False,
    require_converged: Annotated[
        bool,
        typer.Option("--require-converged", help="Exit with code 1 if the fit did not converge."),
    ] = False,
) -> None:
    """Cluster the rows of files and print a certificate of the result.

    Exit codes: 0 success, 1 not converged (with --require-converged) or
    no proof (with --proof), 2 invalid usage or input, 130 interrupted by
    Ctrl-C.

    [bold]Examples[/bold]

      wolfmeans fit measurements.csv -k 8

      wolfmeans fit measurements.csv -k 8 --standardize --model model.wolf

      wolfmeans fit measurements.csv -k 2 --certify-seconds 5 --proof proof.npz

      wolfmeans fit big.csv.gz -k 8 --columns x,y --drop-missing --json

      wolfmeans fit measurements.csv -k 4 --size-min 10

      wolfmeans fit 'parts/*.parquet' -k 5 --alpha 0.02 --labels all.parquet

      wolfmeans fit measurements.csv -k 8 --metric cosine

      wolfmeans fit measurements.csv -k 3 --page page.html --names 0=small,2=large

      zcat big.csv.gz | wolfmeans fit - -k 8 --labels labels.csv

      wolfmeans fit big.parquet -k 100 --memory 2GB --labels labels.parquet

      wolfmeans fit big.parquet -k 100 --memory 2GB --checkpoint fit.ckpt

    On a Dask cluster: --dask tcp://host:8786; --labels may then name a folder.
    """
    given = Namespace(**locals())
    given.bound = options.bound_or_former(bound, certify)
    targets = {
        "--labels": labels,
        "--centers": centers,
        "--model": model,
        "--certificate": certificate,
        "--proof": proof,
        "--page": page,
    }
    _check(given, targets)
    with _opened(given) as (points, estimator):
        if points.known_rows is not None:
            check_count(k, points.known_rows)
        begun = perf_counter()
        preparation = Preparation(points.names)
        if standardize:
            preparation = Preparation.standardizing(points.names, points.data, points.weights)
        X = preparation.apply(points.data) if preparation.standardizes else points.data
        interrupted = _run(estimator, X, points, given)
        # The model file stores the names of the columns.
        estimator.feature_names_in_ = np.array(points.names, dtype=object)
        seconds = perf_counter() - begun
        sizes = points.cluster_sizes(estimator.labels_, k)
        facts = {
            **estimator.certificate_.to_dict(),
            "verdict": estimator.certificate_.verdict,
            "data": points.facts(estimator.labels_, standardized=preparation.standardizes),
            "cluster_sizes": sizes.tolist(),
            "seconds": seconds,
        }
        _write(estimator, points, preparation, facts, given)
    unproven = proof is not None and estimator.certificate_.proof is None
    if unproven:
        targets["--proof"] = None
    _print(estimator, points, facts, targets, given)
    if interrupted:
        kept = "" if checkpoint is None else "; run the same command to continue"
        say(f"wolfmeans: interrupted; this is the result so far{kept}")
        raise typer.Exit(130)
    if unproven and not quiet:
        say(f"wolfmeans: {proof} was not written: {_why_no_proof(estimator, given)}")
    if require_converged and not estimator.certificate_.status.converged:
        if not quiet:
            say(f"wolfmeans: {for_the_command(str(estimator.certificate_.status))}")
        raise typer.Exit(1)
    if unproven:
        raise typer.Exit(1)


# --- Options ---------------------------------------------------------------------------------


def _check(given: Namespace, targets: dict[str, str | None]) -> None:
    """Check the given options before anything is read."""
    written = targets | {"--checkpoint": given.checkpoint}
    if given.dask is None:
        outputs.check_targets(written, given.files, json=given.json_)
    if given.with_data and given.labels is None:
        raise ValueError("--with-data needs --labels PATH, the file to write")
    for option, allowed in (
        ("metric", METRICS),
        ("stop", STOPS),
        ("empty", POLICIES),
        ("bound", LOWER_BOUNDS),
        ("engine", ENGINES),
        ("init", _INITS),
    ):
        if (setting := getattr(given, option)) is not None:
            one_of(f"--{option}", setting, allowed)
    seconds = given.certify_seconds
    if seconds is not None and not 0 < seconds < math.inf:
        raise ValueError(f"--certify-seconds must be more than 0 seconds; got {seconds:g}")
    if seconds is not None and given.proof is not None and given.bound == "auto":
        # The bound that the certificate shows is to have the proof.
        given.bound = "none"
    _page_columns(given).check_needed(given.page, given.names)
    options.names_of_clusters("--names", given.names)
    _check_metric(given)
    _check_kind_of_fit(given)
    if given.checkpoint is not None:
        refused = {"--polish": given.polish, "--effort": given.effort}
        if given.empty in ("resample", "admissible"):
            refused["--empty"] = given.empty
        for option, setting in refused.items():
            if setting is not None:
                raise ValueError(f"--checkpoint cannot be combined with {option} {setting}")
    in_memory = {
        "--standardize": given.standardize,
        "--with-data": given.with_data,
        "--page": given.page,
        "--format": given.format_,
        "--proof": given.proof,
        "--certify-seconds": given.certify_seconds,
    }
    if given.dask is not None:
        from wolfmeans.commands import cluster

        more = {"--drop-missing": given.drop_missing, "--memory": given.memory}
        cluster.refuse_options(in_memory | more)
        cluster.check_targets(written, json=given.json_)
    elif given.memory is not None:
        bound = given.bound not in ("auto", "none")
        refuse_with_memory(in_memory | {f"--bound {given.bound}": bound})
        outputs.check_gaps(given.labels, gaps=given.drop_missing)


def _page_columns(given: Namespace) -> PageColumns:
    return PageColumns(given.id_, given.color, given.compare)


def _check_metric(given: Namespace) -> None:
    """Check that the options can be combined with the metric."""
    if given.metric == "euclidean":
        return
    refused = {
        "--polish": given.polish,
        "--checkpoint": given.checkpoint,
        "--proof": given.proof,
        "--stop shift": True if given.stop == "shift" else None,
    }
    for option, setting in refused.items():
        if setting is not None:
            raise ValueError(f"{option} cannot be combined with --metric {given.metric}")
    if given.effort is not None and (given.alpha is not None or given.trim is not None):
        raise ValueError("--effort cannot be combined with --metric cosine and trimming")


def _check_kind_of_fit(given: Namespace) -> None:
    """Check that the options of a plain or trimmed fit can be combined."""
    alpha, trim = given.alpha, given.trim
    if given.size_min is not None or given.size_max is not None:
        _check_sized_fit(given)
    if given.polish is not None:
        one_of("--polish", given.polish, POLISHES)
    if given.effort is not None and not given.effort > 0:
        raise ValueError(f"--effort must be more than 0 seconds; got {given.effort:g}")
    if alpha is None and trim is None:
        if given.init in TRIMMED_SEEDINGS:
            raise ValueError(f"--init {given.init} needs --alpha or --trim")
        return
    if alpha is not None and trim is not None:
        raise ValueError("--alpha and --trim both set how much to leave out; use only one")
    if alpha is not None and alpha >= 1:
        raise ValueError(f"--alpha must be at least 0 and below 1; got {alpha:g}")


def _check_sized_fit(given: Namespace) -> None:
    """Check that the options of a fit with size limits can be combined."""
    refused = {
        "--alpha": given.alpha,
        "--trim": given.trim,
        "--polish": given.polish,
        "--effort": given.effort,
        "--checkpoint": given.checkpoint,
        "--memory": given.memory,
        "--dask": given.dask,
        # Maps and margins there are those of nearest centers.
        "--page": given.page,
        "--empty admissible": given.empty if given.empty == "admissible" else None,
        "--engine gpu": given.engine if given.engine == "gpu" else None,
        "--metric cosine": given.metric if given.metric == "cosine" else None,
    }
    for option, setting in refused.items():
        if setting is not None:
            raise ValueError(f"{option} cannot be combined with --size-min or --size-max")


def _estimator(given: Namespace, memory_limit: int | None = None) -> Model:
    from wolfmeans.estimators import (
        ConstrainedKMeans,
        KMeans,
        SphericalKMeans,
        TrimmedKMeans,
        TrimmedSphericalKMeans,
    )

    settings = {
        "n_init": "auto" if given.n_init is None else given.n_init,
        "max_iter": given.max_iter,
        "stop": given.stop,
        "tol": given.tol,
        "empty": given.empty,
        "bound": None if given.bound in ("none", STRONGEST) else given.bound,
        "engine": given.engine,
        "n_threads": given.threads,
        "random_state": given.seed,
        "time_limit": given.time_limit,
        "checkpoint": given.checkpoint,
        "memory_limit": memory_limit,
        "polish": given.polish,
        "effort": given.effort,
    }
    if given.init is not None:
        settings["init"] = given.init
    if given.metric == "cosine":
        del settings["checkpoint"], settings["polish"]
        if given.alpha is None and given.trim is None:
            return SphericalKMeans(given.k, **settings)
        del settings["effort"]
        return TrimmedSphericalKMeans(given.k, alpha=given.alpha, trim=given.trim, **settings)
    if given.size_min is not None or given.size_max is not None:
        for unknown in ("checkpoint", "memory_limit", "polish", "effort"):
            del settings[unknown]
        return ConstrainedKMeans(
            given.k, size_min=given.size_min, size_max=given.size_max, **settings
        )
    if given.alpha is None and given.trim is None:
        return KMeans(given.k, **settings)
    return TrimmedKMeans(given.k, alpha=given.alpha, trim=given.trim, **settings)


# --- The fit ---------------------------------------------------------------------------------


@contextmanager
def _opened(given: Namespace) -> Iterator[tuple[Points, Model]]:
    """Yield the points, wherever they are, and the estimator, whose import takes a while."""
    columns, exclude, weights = given.columns, given.exclude, given.weights
    if given.dask is not None:
        from wolfmeans.commands.cluster import connected

        estimator = _estimator(given)
        with connected(given.dask, given.files, columns, exclude, weights) as points:
            yield points, estimator
    elif given.memory is not None:
        with loading():
            streamed = open_points(
                given.files,
                given.memory,
                columns,
                exclude,
                weights,
                drop_missing=given.drop_missing,
            )
            estimator = _estimator(given, streamed.limit)
        yield streamed, estimator
    else:
        wait_for_table = begin_reading(given.files, given.format_)
        with loading():
            estimator = _estimator(given)
            table = wait_for_table()
        roles = _page_columns(given).roles(table)
        chosen = choose(
            table, columns, exclude, weights, roles=roles, drop_missing=given.drop_missing
        )
        outputs.check_gaps(given.labels, gaps=chosen.kept is not None)
        yield chosen, estimator


def _run(estimator: Model, X: Any, points: Points, given: Namespace) -> bool:
    """Fit, with a live display if steps are long; return whether Ctrl-C ended the fit."""
    from wolfmeans.core.progress import silence

    in_memory, quiet = isinstance(points, TablePoints), given.quiet
    remark = f"Clustering {points.amount} by {listed(points.names)}."
    # Small problems are too fast for a live display, and run many starts at once.
    long = not in_memory or X.size * estimator.n_clusters >= LONG_STEP
    with (
        # The certificate begins with this warning.
        warnings_in_one_line(quiet=quiet, known="Not converged"),
        watching(estimator, wanted=long, shown=not quiet) as (watch, callback),
        silence(quiet),
        remarking(() if quiet else (*points.remarks, remark)),
    ):
        estimator.callback = callback
        try:
            estimator.fit(X, sample_weight=points.weights)
        except MemoryError as error:
            raise MemoryError(_about_memory(error, points, given)) from error
        except NotImplementedError as error:
            # Options that do not work in parts.
            raise ValueError(str(error)) from error
        estimator.callback = None
    if not watch.interrupted and in_memory:
        _add_bounds(estimator, X, points.weights, given)
    return watch.interrupted


def _about_memory(error: MemoryError, points: Points, given: Namespace) -> str:
    text = for_the_command(str(error))
    if given.memory is None or points.weights is None:
        return text
    size = said(points.weights.nbytes)
    return f"{text}. In addition, the weights take {size} of --memory {given.memory}"


def _add_bounds(
    estimator: Model,
    X: NDArray[np.floating],
    weights: NDArray[np.float64] | None,
    given: Namespace,
) -> None:
    """Compute bounds after the fit: all for the strongest, else cheap proofs.

    A command takes a second to start, so a proof may take as long. Bounds that the fit has computed
    already, or that would add little, are skipped.
    """
    from wolfmeans.bounds import REGISTRY, affordable
    from wolfmeans.core.progress import progress_on_terminal

    known = estimator.certificate_
    methods: Sequence[str] = ()
    limit = {} if given.certify_seconds is None else {"seconds": given.certify_seconds}
    if given.proof is not None and limit:
        # Only this method has a proof that can be written for any data that it takes.
        methods = ("semidefinite",)
    elif given.bound == STRONGEST or limit:
        methods = ("auto",)
    elif given.bound == "auto" and (known.ratio is None or known.ratio >= _NEAR_ENOUGH):
        (n, d), trimmed = X.shape, known.trimmed_mass > 0
        cheap = affordable(n, d, estimator.n_clusters, trimmed=trimmed, budget=_A_SECOND)
        methods = [m for m in cheap if REGISTRY[m].rigorous and m != known.lower_bound_kind]
    with progress_on_terminal((lambda share, text: None) if given.quiet else None) as progress:
        for method in methods:
            try:
                estimator.certify(
                    X,
                    sample_weight=weights,
                    method=method,
                    random_state=estimator.random_state,
                    progress=progress,
                    **limit,
                )
            except ValueError as error:
                if not limit:
                    raise
                # The method has limits; what was found without it remains.
                say(f"wolfmeans: --certify-seconds: {error}")


def _why_no_proof(estimator: Model, given: Namespace) -> str:
    certificate = estimator.certificate_
    found = f"the {certificate.lower_bound_kind} bound has no proof"
    if certificate.lower_bound is None:
        found = "no lower bound was found"
    if given.certify_seconds is not None:
        return f"{found}; more --certify-seconds may find one"
    return f"{found}; --certify-seconds SECONDS looks for one that has a proof"


# --- Output ----------------------------------------------------------------------------------


def for_the_command(text: str, names: Sequence[str] = (), condition: str = "") -> str:
    """Turn advice for Python into advice for the command line, and columns into their names.

    Advice about lower bounds begins with the `condition` under which they can be computed.
    """
    text = text.replace("certify(X)", f"{condition}certify(X)")
    for python, command in _ADVICE.items():
        text = text.replace(python, command)
    return (
        re.sub(r"\bcolumn (\d+)", lambda m: f"column {names[int(m[1])]!r}", text) if names else text
    )


def listed(names: Sequence[str]) -> str:
    """Return how many columns there are, and the names of the first of them."""
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    many = "1 column" if len(names) == 1 else f"{len(names):,} columns"
    first = ", ".join(name or "''" for name in names[:_MOST_NAMED])
    return f"{many}: {first}{more}"


def _write(
    estimator: Model,
    points: Points,
    preparation: Preparation,
    facts: dict[str, Any],
    given: Namespace,
) -> None:
    """Write the requested files."""
    if given.labels is not None:
        points.write_labels(
            given.labels,
            estimator.labels_,
            with_data=given.with_data,
            numbered=given.drop_missing,
        )
    if given.centers is not None:
        columns = _center_columns(estimator, preparation, facts["cluster_sizes"])
        outputs.write_table(given.centers, columns)
    if given.model is not None:
        from wolfmeans.estimators import saving

        with outputs.naming(given.model):
            saving.save(estimator, Path(given.model), preparation)
    if given.certificate is not None:
        outputs.write_json(given.certificate, facts)
    proof = estimator.certificate_.proof
    if given.proof is not None and proof is not None:
        outputs.write_proof(given.proof, proof)
    if given.page is not None:
        _write_page(estimator, points, preparation, given)


def _center_columns(
    estimator: Model, preparation: Preparation, sizes: Sequence[int]
) -> dict[str, NDArray[Any]]:
    """Return the columns of a table of centers, in the units of the data."""
    centers = preparation.undo(estimator.cluster_centers_)
    own = {"label": np.arange(len(centers), dtype=np.int32), "points": np.array(sizes)}
    of_data: dict[str, NDArray[Any]] = dict(zip(preparation.columns, centers.T, strict=True))
    # Columns of the data keep their names, whatever they are.
    return {f"{n}_" if n in of_data else n: values for n, values in own.items()} | of_data


def _write_page(
    estimator: Model, points: Points, preparation: Preparation, given: Namespace
) -> None:
    from wolfmeans.views.page import page

    assert isinstance(points, TablePoints)
    # The page gets the names of the columns; scikit-learn would miss them on the array.
    del estimator.feature_names_in_
    made = page(
        estimator,
        preparation.apply(points.data),
        sample_weight=points.weights,
        names=points.names,
        cluster_names=options.names_of_clusters("--names", given.names),
        **_page_columns(given).given(points),
        title=f"{title_of(given.files)}: {estimator.n_clusters} clusters",
        preparation=preparation,
        wording=lambda text: for_the_command(text, points.names),
    )
    with outputs.naming(given.page):
        made.save(given.page)


def _print(
    estimator: Model,
    points: Points,
    facts: dict[str, Any],
    targets: dict[str, str | None],
    given: Namespace,
) -> None:
    """Print the certificate, and which files were written."""
    if given.json_:
        print_json(facts)
    elif not given.quiet and not any(map(outputs.is_standard_output, targets.values())):
        certificate = estimator.certificate_
        rows = [
            tuple(for_the_command(cell, points.names, points.condition) for cell in row)
            for row in certificate.rows()
        ]
        print_facts(for_the_command(certificate.verdict), rows)
    outputs.say_written(targets.values(), quiet=given.quiet)
