"""`wolfmeans check`: verify the proof of a lower bound against the data."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from wolfmeans.commands import options, outputs
from wolfmeans.commands.points import TablePoints, begin_reading, choose
from wolfmeans.commands.process import loading, say
from wolfmeans.commands.terminal import errors_in_one_line, print_facts, print_json, remarking
from wolfmeans.inputs.preparation import Preparation

if TYPE_CHECKING:
    from wolfmeans.bounds.proof_format import Proof, ProofTree

# A proof has four bytes for each pair of points; vectors and cuts take some times as much.
_BYTES_OF_A_PAIR, _BYTES_BESIDE = 64, 1 << 26
_MOST_LEAVES = 10_000
"""Of a tree of proofs, each with a matrix of its own."""


@errors_in_one_line
def check(
    proof: Annotated[
        str, typer.Argument(metavar="PROOF", help="A proof written by wolfmeans fit --proof.")
    ],
    files: options.File,
    columns: options.Columns = None,
    exclude: options.Exclude = None,
    weights: options.Weights = None,
    trim: Annotated[
        float | None,
        typer.Option(
            metavar="WEIGHT",
            help="Weight (without weights: points) that a clustering may leave out.",
        ),
    ] = None,
    size_min: Annotated[
        float | None, typer.Option(metavar="SIZE", help="Least size of a cluster, as in the fit.")
    ] = None,
    size_max: Annotated[
        float | None, typer.Option(metavar="SIZE", help="Largest size of a cluster, likewise.")
    ] = None,
    standardize: options.Standardize = False,
    drop_missing: options.DropMissing = False,
    format_: options.Format = None,
    quiet: options.Quiet = False,
    json_: options.Json = False,
) -> None:
    """Verify the proof of a lower bound against the data.

    Prints the lower bound that is proven for every clustering of these
    rows. Columns, weights and scaling must be those of the fit; so must the
    trimmed weight and the size limits, if there are any. The check trusts no
    number of the proof.

    Exit codes: 0 verified, 1 the proof proves nothing about these rows,
    2 invalid usage or input.

    [bold]Examples[/bold]

      wolfmeans check proof.npz measurements.csv

      wolfmeans check proof.npz measurements.csv --json
    """
    outputs.check_targets({}, [proof, *files])
    if Path(proof).is_dir() or not Path(proof).exists():
        raise FileNotFoundError(f"no such proof file: {proof}")
    wait_for_table = begin_reading(files, format_)
    with loading():
        from wolfmeans.certificate.optimality import rounded_down
        from wolfmeans.fitting.lower_bound import check_proof

        table = wait_for_table()
    points = choose(table, columns, exclude, weights, drop_missing=drop_missing)
    data = points.data
    if standardize:
        data = Preparation.standardizing(points.names, data, points.weights).apply(data)
    given = _load(proof, points)
    with remarking(() if quiet or json_ else points.remarks):
        try:
            bound = check_proof(
                data,
                given,
                sample_weight=points.weights,
                trim=trim,
                size_min=size_min,
                size_max=size_max,
            )
            reason = "the numbers do not go together for these rows"
        except ValueError as error:
            bound, reason = 0.0, str(error)
    n_points = len(data) if points.weights is None else int(np.sum(points.weights > 0))
    if json_:
        print_json(
            {
                "verified": bound > 0,
                "lower_bound": bound,
                "n_clusters": given.n_clusters,
                "n_samples": n_points,
                "columns": list(points.names),
                "standardized": standardize,
                "weighted": points.weights is not None,
                "trimmed": trim or 0.0,
                "size_min": size_min,
                "size_max": size_max,
            }
        )
    if not bound > 0:
        if not quiet:
            say(
                f"wolfmeans: {proof} proves nothing about these {n_points:,} points: {reason}. "
                "Rows, columns, weights and scaling must be those of the fit"
            )
        raise typer.Exit(1)
    if quiet or json_:
        return
    least, k = rounded_down(bound, 6), given.n_clusters
    facts = [
        ("lower bound", least, "proven for these rows, rounding included"),
        ("clusters", f"{k:,}", "it holds for at most so many clusters"),
        ("points", f"{n_points:,}", f"in {_listed(points)}"),
    ]
    if trim:
        unit = "points" if points.weights is None else "weight"
        facts.append(("trimmed", f"{trim:g}", f"{unit} that a clustering may leave out"))
    within = _limits(given)
    if within:
        facts.append(("sizes", within, "it holds for clusters within these limits"))
    print_facts(
        f"Verified: no clustering of these {n_points:,} points into at most {k:,} "
        f"{'cluster' if k == 1 else 'clusters'} has inertia below {least}"
        f"{f' if at most {trim:g} may be left out' if trim else ''}"
        f"{f' if every cluster has a size of {within}' if within else ''}.",
        facts,
    )


def _limits(given: Proof | ProofTree) -> str:
    """Return between what sizes a proof supposes all clusters to be; nothing for any size."""
    sizes = getattr(given, "sizes", None)
    if sizes is None:
        return ""
    low, high = sizes.tolist()
    return f"at least {low:g}" if math.isinf(high) else f"{low:g} to {high:g}"


def _listed(points: TablePoints) -> str:
    from wolfmeans.commands.fit import listed

    weighted = ", weighted" if points.weights is not None else ""
    return f"{listed(points.names)}{weighted}"


def _load(path: str, points: TablePoints) -> Proof | ProofTree:
    """Read a proof; a file of another kind, or one that would unfold to too much, is refused."""
    from wolfmeans.bounds.proof_format import Proof

    most = _BYTES_OF_A_PAIR * len(points.data) ** 2 + _BYTES_BESIDE
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
            leaves = sum(name.endswith(".slack.npy") for name in archive.namelist())
        most *= min(max(leaves, 1), _MOST_LEAVES)
        if size <= most:
            return Proof.load(path)
    except (OSError, MemoryError) as error:
        raise ValueError(f"{path} cannot be read: {str(error) or type(error).__name__}") from error
    except KeyError as error:
        raise ValueError(f"{path} is not a proof: {error.args[0]}") from error
    # Damaged archives and arrays raise errors of NumPy, zipfile and zlib.
    except Exception as error:
        raise ValueError(f"{path} is not a proof, or it is damaged: {error}") from error
    raise ValueError(
        f"{path} is not a proof for these {len(points.data):,} rows: it would take {size:,} bytes"
    )
