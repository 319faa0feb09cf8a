"""`wolfmeans fit --dask`: the same fit, where the rows are read and stay on a cluster's workers."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from wolfmeans.commands import outputs
from wolfmeans.commands.fitted import center_columns, for_the_command, listed
from wolfmeans.commands.live import watching
from wolfmeans.commands.terminal import (
    print_facts,
    print_json,
    remarking,
    say,
    warnings_in_one_line,
    words,
)
from wolfmeans.files.tables import SUFFIXES
from wolfmeans.inputs.preparation import Preparation

if TYPE_CHECKING:
    from wolfmeans.estimators import KMeans, TrimmedKMeans

    Model = KMeans | TrimmedKMeans

_SECONDS_TO_CONNECT = 20
_BYTES_OF_A_BLOCK = 1 << 26


def refuse_options(given: Mapping[str, Any]) -> None:
    """Check that no option is given that does not work on a cluster."""
    for option, value in given.items():
        if value:
            raise ValueError(
                f"{option} cannot be combined with --dask, because rows stay on the workers"
            )


def check_targets(targets: Mapping[str, str | None], *, json: bool) -> None:
    """Check that the targets can be written; labels may go to a folder, which workers write."""
    folder = targets["--labels"] is not None and _is_folder(targets["--labels"])
    here = {option: t for option, t in targets.items() if not (folder and option == "--labels")}
    for option in ("--labels", "--centers"):
        outputs.check_table_target(option, here.get(option))
    outputs.check_targets(here, (), json=json)


def _is_folder(target: str) -> bool:
    return not outputs.is_standard_output(target) and (
        target.endswith("/") or not Path(target).suffix
    )


def fit_on_cluster(
    address: str,
    files: Sequence[str],
    estimator: Model,
    *,
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
    weights: str | None,
    targets: Mapping[str, str | None],
    quiet: bool,
    json: bool,
) -> bool:
    """Fit files on the cluster at an address and write the targets; whether Ctrl-C ended it."""
    distributed = _imported("distributed", "--dask needs Dask: pip install 'wolfmeans[dask]'")
    try:
        client = distributed.Client(address, timeout=_SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        raise OSError(f"--dask: cannot connect to a scheduler at {address}: {error}") from error
    with client:
        try:
            X, masses, names = opened(files, columns, exclude, weights)
            begun = perf_counter()
            interrupted = _run(estimator, X, masses, listed(names), quiet=quiet)
            seconds = perf_counter() - begun
            estimator.feature_names_in_ = np.array(names, dtype=object)
            sizes = _sizes(estimator)
            facts = {
                **estimator.certificate_.to_dict(),
                "verdict": estimator.certificate_.verdict,
                "data": {
                    "files": list(files),
                    "n_samples": int(estimator.labels_.shape[0]),
                    "partitions": int(estimator.labels_.numblocks[0]),
                    "columns": list(names),
                    "weighted": weights is not None,
                },
                "cluster_sizes": sizes.tolist(),
                "seconds": seconds,
            }
            _write(estimator, Preparation(names), sizes, facts, targets)
        except RuntimeError as error:
            # What has no form in parts, and rows that were lost for good.
            raise ValueError(str(error)) from error
    _say(estimator, names, facts, targets, quiet=quiet, json=json)
    return interrupted


def _run(estimator: Model, X: Any, masses: Any, what: str, *, quiet: bool) -> bool:
    many = X.npartitions
    remark = f"Clustering {many:,} partition{'' if many == 1 else 's'} by {what}."
    with (
        warnings_in_one_line(quiet=quiet, known="Not converged"),
        watching(estimator, wanted=True, shown=not quiet) as (watch, callback),
        remarking(() if quiet else (remark,)),
    ):
        estimator.callback = callback
        estimator.fit(X, sample_weight=masses)
        estimator.callback = None
    return watch.interrupted


def _sizes(estimator: Model) -> np.ndarray[Any, Any]:
    """Return how many points each cluster has, counted where the labels are."""
    da = import_module("dask.array")
    # What is left out has the label -1.
    counts = da.bincount(estimator.labels_ + 1, minlength=estimator.n_clusters + 1).compute()
    found: np.ndarray[Any, Any] = counts[1:]
    return found


def _write(
    estimator: Model,
    preparation: Preparation,
    sizes: np.ndarray[Any, Any],
    facts: dict[str, Any],
    targets: Mapping[str, str | None],
) -> None:
    labels, centers, model = (targets[f"--{name}"] for name in ("labels", "centers", "model"))
    if labels is not None and _is_folder(labels):
        frames = _imported("dask.dataframe", _FRAMES)
        with outputs.naming(labels):
            frame = frames.from_dask_array(estimator.labels_, columns="label").to_frame()
            frame.to_parquet(labels)
    elif labels is not None:
        outputs.write_table(labels, {"label": estimator.labels_.compute()})
    if centers is not None:
        outputs.write_table(centers, center_columns(estimator, preparation, sizes))
    if model is not None:
        from wolfmeans.estimators import saving

        with outputs.naming(model):
            saving.save(estimator, Path(model), preparation)
    if targets["--certificate"] is not None:
        outputs.write_json(targets["--certificate"], facts)


def _say(
    estimator: Model,
    names: tuple[str, ...],
    facts: dict[str, Any],
    targets: Mapping[str, str | None],
    *,
    quiet: bool,
    json: bool,
) -> None:
    if json:
        print_json(facts)
    elif not quiet and not any(map(outputs.is_standard_output, targets.values())):
        certificate = estimator.certificate_
        rows = [
            tuple(for_the_command(cell, names, "on a sample and without --dask, ") for cell in row)
            for row in certificate.rows()
        ]
        print_facts(for_the_command(certificate.verdict), rows)
    written = outputs.written_files(targets.values())
    if written and not quiet:
        say(f"Written: {', '.join(written)}")


# --- Reading ---------------------------------------------------------------------------------

_FRAMES = "tables on a cluster need Dask's data frames: pip install 'dask[dataframe]'"


def opened(
    files: Sequence[str],
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
    weights: str | None,
) -> tuple[Any, Any, tuple[str, ...]]:
    """Return a collection of the columns to cluster, weights or None, and the columns' names."""
    kinds = {_kind(file) for file in files}
    if len(kinds) > 1:
        raise ValueError(
            f"--dask needs files of one format, but these are {', '.join(sorted(kinds))}"
        )
    kind = kinds.pop()
    for file in files:
        _check_file_system(file)
    if kind in ("npy", "zarr"):
        for option, value in {
            "--columns": columns,
            "--exclude": exclude,
            "--weights": weights,
        }.items():
            if value:
                raise ValueError(f"{option}: the columns of {files[0]} have no names")
        array = _array(files, kind)
        return array, None, tuple(f"column_{j}" for j in range(array.shape[1]))
    frames = _imported("dask.dataframe", _FRAMES)
    names = [name for file in files for name in _found(file)]
    frame = frames.read_parquet(names) if kind == "parquet" else frames.read_csv(names)
    return _chosen(frame, columns, exclude, weights, files[0])


def _chosen(
    frame: Any,
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
    weights: str | None,
    source: str,
) -> tuple[Any, Any, tuple[str, ...]]:
    there = [str(name) for name in frame.columns]
    asked, unwanted = words(columns or ()), words(exclude or ())
    for option, named in (
        ("--columns", asked),
        ("--exclude", unwanted),
        ("--weights", [weights] if weights is not None else []),
    ):
        for name in named:
            if name not in there:
                raise ValueError(
                    f"{option}: {source} has no column {name!r}; it has {', '.join(there[:12])}"
                )
    numbers = [
        name
        for name, dtype in zip(there, frame.dtypes, strict=True)
        if getattr(dtype, "kind", "O") in "fiub" and name not in (*unwanted, weights)
    ]
    chosen = [name for name in asked if name not in (*unwanted, weights)] if asked else numbers
    if not chosen:
        raise ValueError(f"{source} has no numeric column to cluster")
    return frame[chosen], None if weights is None else frame[weights], tuple(chosen)


def _kind(file: str) -> str:
    suffix = Path(file.rstrip("/")).suffix.lower()
    kind = "zarr" if suffix == ".zarr" else SUFFIXES.get(suffix)
    if kind not in ("parquet", "csv", "npy", "zarr"):
        if Path(file).is_dir():
            raise IsADirectoryError(
                f"{file} is a folder; to read the files in it, use '{file.rstrip('/')}/*.parquet'"
            )
        raise ValueError(f"--dask reads only .parquet, .csv, .npy and .zarr files, not {file}")
    return kind


def _check_file_system(file: str) -> None:
    """Check that the package for a remote file system is installed."""
    protocol, is_remote, _ = file.partition("://")
    if not is_remote:
        return
    fsspec = _imported("fsspec", f"reading {file} needs fsspec: pip install fsspec")
    try:
        fsspec.get_filesystem_class(protocol)
    except ImportError as error:
        raise ImportError(
            f"{protocol}:// cannot be read: {error}; install it here and on the workers"
        ) from error


def _found(file: str) -> list[str]:
    """Return the files that match a pattern; Dask finds remote ones itself."""
    if "://" in file or not glob.has_magic(file):
        if "://" not in file and not Path(file).exists():
            raise FileNotFoundError(f"no such file: {file}")
        return [file]
    found = sorted(glob.glob(file, recursive=True))  # noqa: PTH207 - of any folder
    if not found:
        raise FileNotFoundError(f"no file matches {file}")
    return found


def _array(files: Sequence[str], kind: str) -> Any:
    da, dask = import_module("dask.array"), import_module("dask")
    if kind == "zarr":
        _imported("zarr", "Zarr needs zarr: pip install zarr, here and on the workers")
        return da.concatenate([da.from_zarr(file) for file in files])
    blocks = []
    for name in (name for file in files for name in _found(file)):
        if "://" in name:
            raise ValueError(f"{name}: NPY files must be in a folder that all workers can read")
        array = np.load(name, mmap_mode="r")
        if array.ndim != 2:
            raise ValueError(f"{name} has {array.ndim} dimensions, but 2 are needed")
        rows = max(1, _BYTES_OF_A_BLOCK // max(1, array.itemsize * array.shape[1]))
        place = str(Path(name).resolve())
        for start in range(0, len(array), rows):
            stop = min(len(array), start + rows)
            piece = dask.delayed(_rows_of, pure=False)(place, start, stop)
            blocks.append(da.from_delayed(piece, (stop - start, array.shape[1]), array.dtype))
    return da.concatenate(blocks)


def _rows_of(path: str, start: int, stop: int) -> Any:
    """Read some rows, on a worker."""
    return np.array(np.load(path, mmap_mode="r")[start:stop])


def _imported(module: str, otherwise: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(otherwise) from error
