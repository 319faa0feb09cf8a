"""Checkpoints: a file that a running fit writes, and from which it can resume.

A run is at an evaluated point, with a step that is not yet taken. Both are centers and weights;
labels, and what is trimmed, follow from the centers. The file has these, the seeds and the trace of
every start so far: a zip of JSON and NPY (`saving`), which cannot execute code. It is written
beside the old one and then replaces it, so there is a complete file at any time. `core.resuming`
resumes a run from it.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import astuple, fields
from numbers import Integral
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.draws import RandomSource
from wolfmeans.core.kmeans import KMeansProblem, Partition
from wolfmeans.core.resuming import ARRAYS, KeptProblem, KeptTrimmedProblem, Standing
from wolfmeans.core.solution import Record
from wolfmeans.core.trimmed import TrimmedProblem
from wolfmeans.core.workspace import Centers, TrimmedWorkspace, Workspace
from wolfmeans.estimators.saving import Members, finite, group, write_archive

_FORMAT = "wolfmeans checkpoint 2"
_TEXT = "facts.json"
_NUMBERS = ("shift", "movement", "gap", "moved", "sse")
_STACKED = tuple(f"{name}.{array}" for name in ("point", "vertex") for array in ARRAYS)


class Checkpoint:
    """A file for one fit, of one start or several.

    Parameters
    ----------
    path : Path
        If the file exists, it is read; that of another fit raises an error.
    identity : dict
        Facts about data and parameters that must agree with those in the file.
    max_steps : int or None
        Maximum number of steps of a start.
    """

    def __init__(self, path: Path, identity: dict[str, Any], max_steps: int | None) -> None:
        self.path, self.identity, self.max_steps = path, identity, max_steps
        self.seeds: list[Centers] = []
        """The initial centers of the starts so far."""
        self.standings: list[Standing] = []
        """The states of these starts."""
        # Another thread or process may write the same checkpoint.
        self._own = uuid4().hex[:12]
        self._read()

    @classmethod
    def of(cls, estimator: Any, workspace: Workspace, exponent: int, **further: Any) -> Checkpoint:
        """Return the checkpoint of an estimator's fit; the `further` facts must agree, too."""
        identity = {
            "estimator": type(estimator).__name__,
            "n_points": int(workspace.n_points),
            "n_features": int(workspace.n_features),
            "dtype": workspace.dtype.name,
            "weighted": workspace.weights is not None,
            "scale_exponent": exponent,
            "n_clusters": int(estimator.n_clusters),
            "init": estimator.init if isinstance(estimator.init, str) else None,
            "n_init": estimator.n_init if estimator.n_init == "auto" else int(estimator.n_init),
            "random_state": _known_seed(estimator),
            **estimator._criterion()._asdict(),
            "empty": estimator.empty,
            **further,
        }
        max_steps = None if estimator.max_iter is None else int(estimator.max_iter) - 1
        return cls(Path(estimator.checkpoint), identity, max_steps)

    @property
    def progress(self) -> str:
        """The progress of the fit in the file, in words."""
        number, last = len(self.standings) - 1, self.standings[-1]
        return f"start {number} was at iteration {len(last.records)}"

    def refuse_other_seeds(self, given: Centers) -> None:
        """Raise an error if the fit in the file began at other initial centers."""
        if self.seeds and not np.array_equal(self.seeds[0], given):
            raise ValueError(
                f"{self.path} is the checkpoint of another fit, from other initial centers; "
                "remove the file to start over"
            )

    def seeds_of(self, number: int) -> Centers | None:
        """Return the initial centers of a start; None if it has not begun."""
        return self.seeds[number] if number < len(self.seeds) else None

    def number_of(self, seeds: Centers) -> int:
        """Return the number of the start with these seeds; equal seeds are the same start."""
        for number, known in enumerate(self.seeds):
            if np.array_equal(known, seeds):
                return number
        self.seeds.append(seeds)
        return len(self.seeds) - 1

    def stands(self, number: int, standing: Standing) -> None:
        """Store the state of a start in the file."""
        if number == len(self.standings):
            self.standings.append(standing)
        self.standings[number] = standing
        self._write()

    def problem(self, workspace: Workspace, empty: str, random: RandomSource) -> KMeansProblem:
        """Return the problem whose run is kept in the file and resumes from it."""
        return KeptProblem(self, workspace, empty, random)

    def trimmed_problem(
        self, workspace: TrimmedWorkspace, empty: str, random: RandomSource
    ) -> TrimmedProblem:
        """Return the same with the farthest points left out."""
        return KeptTrimmedProblem(self, workspace, empty, random)

    # --- The file ----------------------------------------------------------------------------

    def _read(self) -> None:
        if self.path.is_dir():
            raise IsADirectoryError(f"checkpoint: {self.path} is a folder")
        if not self.path.parent.is_dir():
            # Better now than after the first steps.
            raise FileNotFoundError(f"checkpoint: no such folder: {self.path.parent}")
        if self.path.exists() and not self.path.is_file():
            # A device may never end, and writing would replace it by a file.
            raise ValueError(f"checkpoint: {self.path} is not a regular file; choose another one")
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return
        with file:
            try:
                members = Members(file, _TEXT, "checkpoint")
                facts = members.text()
                if facts.get("format") != _FORMAT:
                    raise ValueError(f"it does not say that it is a {_FORMAT!r}")
                identity = group(facts, "identity")
            # A file from anywhere may be wrong in any way.
            except Exception as error:
                raise self._damaged(error) from error
            self._refuse_another(identity)
            try:
                self.seeds, self.standings = self._found(facts, members)
            except Exception as error:
                raise self._damaged(error) from error
        for standing in self.standings:
            self._refuse_longer(standing.records)

    def _damaged(self, error: Exception) -> ValueError:
        return ValueError(
            f"{self.path} is no checkpoint of this version of wolfmeans, or is damaged: "
            f"{error}; name another file, or remove this one to start over"
        )

    def _refuse_another(self, identity: dict[str, Any]) -> None:
        for name, here in self.identity.items():
            there = identity.get(name)
            if there != here:
                raise ValueError(
                    f"{self.path} is the checkpoint of another fit: {name} is {there!r:.60} there "
                    f"and {here!r:.60} here; remove the file to start over"
                )

    def _refuse_longer(self, records: Sequence[Record]) -> None:
        """Raise an error if a start is beyond max_iter; steps that fill empty clusters are free."""
        last, limit = records[-1].t, self.max_steps
        if limit is not None and not all(record.empty for record in records[limit + 1 :]):
            raise ValueError(
                f"{self.path} has {last + 1} iterations already, but max_iter is {limit + 1}; "
                "raise it, or remove the file to start over"
            )

    def _found(
        self, facts: dict[str, Any], members: Members
    ) -> tuple[list[Centers], list[Standing]]:
        """Return the checked seeds and states."""
        members.refuse_others(("seeds", "records", *_STACKED))
        starts = facts.get("starts")
        if not isinstance(starts, list) or not starts:
            raise ValueError("its starts are not a list of groups of fields")
        shape = (self.identity["n_clusters"], self.identity["n_features"])
        seeds = members.array("seeds", (None, *shape), (self.identity["dtype"],))
        if len(seeds) < len(starts):
            raise ValueError(f"it has {len(starts)} starts and seeds of {len(seeds)}")
        finite(seeds, "seeds")
        arrays = {}
        for name in _STACKED:
            kind = self.identity["dtype"] if name.endswith("centers") else np.float64
            size = shape[:1] if name.endswith("weights") else shape
            array = members.array(name, (len(starts), *size), (kind,))
            arrays[name] = finite(array, name)
        table = members.array("records", (None, len(fields(Record))), (np.float64,))
        # The first point of a run has no shift.
        finite(table[:, [f.name != "shift" for f in fields(Record)]], "records")
        rows = table.tolist()
        standings = []
        for number, start in enumerate(starts):
            own = {name: array[number] for name, array in arrays.items()}
            many = start["n_records"]
            standings.append(_standing(start, own, rows[:many]))
            del rows[:many]
        if rows:
            raise ValueError("it has records of no start")
        return list(seeds), standings

    def _write(self) -> None:
        """Write the file; a reader sees the old one or the new one."""
        facts = {
            "format": _FORMAT,
            "identity": self.identity,
            "starts": [
                {
                    "n_records": len(standing.records),
                    "initial_sse": standing.initial_sse,
                    "value": standing.value,
                    "vertex_value": standing.vertex_value,
                    "point": _numbers(standing.point),
                    "vertex": _numbers(standing.vertex),
                }
                for standing in self.standings
            ],
        }
        records = [astuple(record) for standing in self.standings for record in standing.records]
        arrays = {"seeds": np.stack(self.seeds), "records": np.array(records, dtype=np.float64)}
        for name in _STACKED:
            which, _, array = name.partition(".")
            several = [getattr(getattr(standing, which), array) for standing in self.standings]
            arrays[name] = np.stack(several)
        place = Path(os.path.realpath(self.path))  # a link stays a link
        beside = place.with_name(f"{place.name}.{self._own}.part")
        try:
            with beside.open("wb") as file:
                text = json.dumps(facts, indent=1)
                write_archive(file, _TEXT, text, arrays, zipfile.ZIP_STORED)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(place)
        except OSError as error:
            reason = error.strerror or error
            raise OSError(f"checkpoint: {self.path} cannot be written: {reason}") from error
        finally:
            with suppress(OSError):
                beside.unlink()


def refuse_settings(estimator: Any) -> None:
    """Raise an error for settings that cannot be combined with a checkpoint."""
    if not os.fspath(estimator.checkpoint):
        raise ValueError("checkpoint='' is not a file name")
    for name in ("polish", "effort"):
        value = getattr(estimator, name, None)
        if value is not None:
            raise ValueError(f"checkpoint= cannot be combined with {name}={value!r}")
    if estimator.empty in ("resample", "admissible"):
        raise ValueError(f"checkpoint= cannot be combined with empty={estimator.empty!r}")


def _known_seed(estimator: Any) -> int | None:
    """Return the seed of the draws if there are any and it is the same for the next fit."""
    drawn = isinstance(estimator.init, str) or callable(estimator.init)
    seed = estimator.random_state
    return int(seed) if drawn and isinstance(seed, Integral) else None


def _standing(start: Any, arrays: dict[str, NDArray[Any]], rows: list[list[float]]) -> Standing:
    values = {name: start[name] for name in ("initial_sse", "value", "vertex_value")}
    if not all(type(value) is float and math.isfinite(value) for value in values.values()):
        raise ValueError("its values are not all numbers")
    records = [_record(row) for row in rows]
    if not records or [record.t for record in records] != list(range(len(records))):
        raise ValueError("its records are not one for each step")
    point, vertex = (_partition(start[name], arrays, name) for name in ("point", "vertex"))
    return Standing(point=point, vertex=vertex, records=records, **values)


def _partition(numbers: Any, arrays: dict[str, NDArray[Any]], name: str) -> Partition:
    given: dict[str, Any] = {array: arrays[f"{name}.{array}"] for array in ARRAYS}
    given |= {number: float(numbers[number]) for number in _NUMBERS}
    return Partition(**(given | {"moved": int(given["moved"])}))


def _record(row: list[float]) -> Record:
    kinds = {"t": int, "stationary": bool, "moved": int, "empty": int}
    named = zip(fields(Record), row, strict=True)
    return Record(**{field.name: kinds.get(field.name, float)(value) for field, value in named})


def _numbers(partition: Partition) -> dict[str, float]:
    return {number: float(getattr(partition, number)) for number in _NUMBERS}
