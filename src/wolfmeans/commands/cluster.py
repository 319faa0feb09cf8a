"""Rows on the workers of a Dask cluster: `wolfmeans fit --dask`."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.commands import outputs
from wolfmeans.commands.options import words
from wolfmeans.commands.points import Points
from wolfmeans.files.tables import SUFFIXES

_SECONDS_TO_CONNECT = 20
_BYTES_OF_A_BLOCK = 1 << 26
_FRAMES = "tables on a cluster need Dask's data frames: pip install 'dask[dataframe]'"


@dataclass(frozen=True, kw_only=True)
class ClusterPoints(Points):
    """A Dask collection whose rows stay on the workers, as do the labels of its fit."""

    files: Sequence[str]
    condition = "on a sample and without --dask, "

    @property
    def amount(self) -> str:
        """How much is clustered, in words."""
        count = self.data.npartitions
        return f"{count:,} partition{'' if count == 1 else 's'}"

    def cluster_sizes(self, labels: Any, n_clusters: int) -> NDArray[np.int64]:
        """Return how many points each cluster has, counted on the workers."""
        # Trimmed points have the label -1.
        counts = import_module("dask.array").bincount(labels + 1, minlength=n_clusters + 1)
        sizes: NDArray[np.int64] = counts.compute()[1:]
        return sizes

    def facts(self, labels: Any, *, standardized: bool) -> dict[str, Any]:
        """Return the facts about the data, ready for JSON."""
        return {
            "files": list(self.files),
            "n_samples": int(labels.shape[0]),
            "partitions": int(labels.numblocks[0]),
            "columns": list(self.names),
            "weighted": self.weights is not None,
        }

    def write_labels(self, target: str, labels: Any, *, with_data: bool, numbered: bool) -> None:
        """Write the labels: workers write a folder, this process a file."""
        if not _is_folder(target):
            outputs.write_table(target, {"label": labels.compute()})
            return
        frames = _imported("dask.dataframe", _FRAMES)
        with outputs.naming(target):
            frames.from_dask_array(labels, columns="label").to_frame().to_parquet(target)


def refuse_options(given: Mapping[str, Any]) -> None:
    """Raise an error if an option is set that does not work on a cluster."""
    for option, value in given.items():
        if value:
            raise ValueError(
                f"{option} cannot be combined with --dask, because rows stay on the workers"
            )


def check_targets(targets: Mapping[str, str | None], *, json: bool) -> None:
    """Check that the targets can be written; labels may go to a folder, which workers write."""
    labels = targets["--labels"]
    if labels is not None and _is_folder(labels):
        targets = {option: target for option, target in targets.items() if option != "--labels"}
    outputs.check_targets(targets, (), json=json)


def _is_folder(target: str) -> bool:
    return not outputs.is_standard_output(target) and (
        target.endswith("/") or not Path(target).suffix
    )


@contextmanager
def connected(
    address: str,
    files: Sequence[str],
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
    weights: str | None,
) -> Iterator[ClusterPoints]:
    """Connect to the cluster at an address, and open files on it."""
    distributed = _imported("distributed", "--dask needs Dask: pip install 'wolfmeans[dask]'")
    try:
        client = distributed.Client(address, timeout=_SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        raise OSError(f"--dask: cannot connect to a scheduler at {address}: {error}") from error
    with client:
        try:
            X, masses, names = _opened(files, columns, exclude, weights)
            yield ClusterPoints(data=X, names=names, weights=masses, files=files)
        except RuntimeError as error:
            # An option that does not work in parts, or rows that were lost for good.
            raise ValueError(str(error)) from error


def _opened(
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
    names = [name for file in files for name in _matching(file)]
    frame = frames.read_parquet(names) if kind == "parquet" else frames.read_csv(names)
    return _chosen_columns(frame, columns, exclude, weights, files[0])


def _chosen_columns(
    frame: Any,
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
    weights: str | None,
    source: str,
) -> tuple[Any, Any, tuple[str, ...]]:
    there = [str(name) for name in frame.columns]
    asked, unwanted = words(columns or ()), words(exclude or ())
    for option, names in (
        ("--columns", asked),
        ("--exclude", unwanted),
        ("--weights", [weights] if weights is not None else []),
    ):
        for name in names:
            if name not in there:
                raise ValueError(
                    f"{option}: {source} has no column {name!r}; it has {', '.join(there[:12])}"
                )
    numeric = [
        name
        for name, dtype in zip(there, frame.dtypes, strict=True)
        if getattr(dtype, "kind", "O") in "fiub"
    ]
    chosen = [name for name in asked or numeric if name not in (*unwanted, weights)]
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


def _matching(file: str) -> list[str]:
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
    for name in (name for file in files for name in _matching(file)):
        if "://" in name:
            raise ValueError(f"{name}: NPY files must be in a folder that all workers can read")
        array = np.load(name, mmap_mode="r")
        if array.ndim != 2:
            raise ValueError(f"{name} has {array.ndim} dimensions, but 2 are needed")
        rows = max(1, _BYTES_OF_A_BLOCK // max(1, array.itemsize * array.shape[1]))
        place = str(Path(name).resolve())
        for start in range(0, len(array), rows):
            stop = min(len(array), start + rows)
            piece = dask.delayed(_read_rows, pure=False)(place, start, stop)
            blocks.append(da.from_delayed(piece, (stop - start, array.shape[1]), array.dtype))
    return da.concatenate(blocks)


def _read_rows(path: str, start: int, stop: int) -> Any:
    """Read some rows, on a worker."""
    return np.array(np.load(path, mmap_mode="r")[start:stop])


def _imported(module: str, otherwise: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(otherwise) from error
