"""A fit on disk while it runs: enough to go on from, and no more.

A run stands at an evaluated point, with a step that is not yet taken. Both are centers and weights;
labels follow from the centers. The file has these, the seeds and the trace: a zip of JSON and NPY,
which cannot execute code. It is written beside the old one and then takes its place at once, so
there is a whole file at any time.

Going on is a block of steps that were taken before (`ConcaveProblem.advance` may return many). One
assignment finds the labels again, and tells data that are not those of the file.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.engines.base import Centers, Workspace
from wolfmeans.frank_wolfe import State
from wolfmeans.problems.kmeans import KMeansProblem, Partition
from wolfmeans.seeding import RandomSource
from wolfmeans.solution import Record
from wolfmeans.stopping import StoppingRule

_FORMAT = "wolfmeans checkpoint 1"
_ARRAYS = ("centers", "residuals", "weights")
_NUMBERS = ("shift", "movement", "gap", "moved", "sse")


@dataclass(frozen=True)
class Standing:
    """Where a run stood when the file was written."""

    seeds: Centers
    initial_sse: float
    point: Partition
    vertex: Partition
    value: float
    vertex_value: float
    records: list[Record]


class Checkpoint:
    """A file for one run.

    Parameters
    ----------
    path : Path
        Where it is.
    identity : dict
        What the data and the parameters must agree on; kept in the file.
    """

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        self.path, self.identity = path, identity

    def read(self) -> Standing | None:
        """Return what the file has, None if there is none; refuse the file of another fit."""
        if self.path.is_dir():
            raise IsADirectoryError(f"checkpoint: {self.path} is a folder")
        if not self.path.parent.is_dir():
            # Said before the first steps are taken, not when they are to be written.
            raise FileNotFoundError(f"checkpoint: there is no folder {self.path.parent}")
        try:
            with zipfile.ZipFile(self.path) as members:
                facts = json.loads(members.read("facts.json"))
                arrays = {
                    name.removesuffix(".npy"): _array(members.read(name))
                    for name in members.namelist()
                    if name.endswith(".npy")
                }
        except FileNotFoundError:
            return None
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            raise ValueError(f"{self.path} is no checkpoint of wolfmeans: {error}") from error
        if not isinstance(facts, dict) or facts.get("format") != _FORMAT:
            raise ValueError(f"{self.path} is no checkpoint that this version can read")
        try:
            return self._standing(facts, arrays)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{self.path} is a damaged checkpoint: {error!r}") from error

    def _standing(self, facts: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Standing:
        for name, here in self.identity.items():
            there = facts["identity"].get(name)
            if there != here:
                raise ValueError(
                    f"{self.path} is the checkpoint of another fit: {name} is {there!r} there and "
                    f"{here!r} here; remove the file to begin anew"
                )
        return Standing(
            seeds=arrays["seeds"],
            initial_sse=facts["initial_sse"],
            point=_partition(arrays, facts, "point"),
            vertex=_partition(arrays, facts, "vertex"),
            value=facts["value"],
            vertex_value=facts["vertex_value"],
            records=[_record(row) for row in arrays["records"].tolist()],
        )

    def write(self, standing: Standing) -> None:
        """Write the file; a reader sees the old one or the new one."""
        facts = {
            "format": _FORMAT,
            "identity": self.identity,
            "iteration": standing.records[-1].t,
            "initial_sse": standing.initial_sse,
            "value": standing.value,
            "vertex_value": standing.vertex_value,
        }
        records = [astuple(record) for record in standing.records]
        arrays = {"seeds": standing.seeds, "records": np.array(records, dtype=np.float64)}
        for name, partition in (("point", standing.point), ("vertex", standing.vertex)):
            facts[name] = {number: float(getattr(partition, number)) for number in _NUMBERS}
            arrays |= {f"{name}.{array}": getattr(partition, array) for array in _ARRAYS}
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        try:
            with beside.open("wb") as file:
                with zipfile.ZipFile(file, "w") as members:
                    members.writestr("facts.json", json.dumps(facts, indent=1))
                    for name, array in arrays.items():
                        members.writestr(f"{name}.npy", _npy(array))
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        finally:
            beside.unlink(missing_ok=True)

    def problem(self, workspace: Workspace, empty: str, random: RandomSource) -> KMeansProblem:
        """Return the problem whose run is kept in the file, and goes on from there."""
        return _KeptProblem(self, workspace, empty, random)


class _KeptProblem(KMeansProblem):
    """K-means that writes where it stands after every block of steps."""

    def __init__(
        self, kept: Checkpoint, workspace: Workspace, empty: str, random: RandomSource
    ) -> None:
        super().__init__(workspace, empty, random)
        self._kept = kept
        self._before = kept.read()
        self._records: list[Record] = []
        self._seeds: Centers | None = None
        self._initial_sse = 0.0

    def partition(self, seeds: Centers) -> Partition:
        """Return the first partition, and look whether it is that of the file."""
        first = super().partition(seeds)
        self._seeds, self._initial_sse = seeds, first.sse
        if self._before is not None and self._before.initial_sse != first.sse:
            raise ValueError(
                f"{self._kept.path} was written for other data: the SSE at its seeds was "
                f"{self._before.initial_sse}, here it is {first.sse}"
            )
        return first

    def advance(self, state: State[Partition], stop: StoppingRule, at_most: int) -> list[Record]:
        """Take steps and write where they led; at first those of the file, if there is one."""
        if self._before is not None:
            records = self._go_on(state, self._before)
            self._before = None
            state.met = stop.met(records[-1])
            self._records += records
            return records
        records = super().advance(state, stop, at_most)
        self._records += records
        assert self._seeds is not None
        assert state.vertex is not None
        self._kept.write(
            Standing(
                seeds=self._seeds,
                initial_sse=self._initial_sse,
                point=state.point,
                vertex=state.vertex,
                value=state.value,
                vertex_value=state.vertex_value,
                records=self._records,
            )
        )
        return records

    def _go_on(self, state: State[Partition], before: Standing) -> list[Record]:
        """Bring the state to where the file stands, and the labels too."""
        found = self.minimize_linear(before.point.centers)
        if not np.array_equal(found.centers, before.vertex.centers):
            raise ValueError(
                f"{self._kept.path} was written for other data: its centers do not lead to the "
                "same clusters here"
            )
        state.point, state.vertex = before.point, before.vertex
        state.value, state.vertex_value = before.value, before.vertex_value
        state.t = before.records[-1].t
        # The clock of a time limit counts from now.
        now = perf_counter() - state.started
        return [replace(record, seconds=now) for record in before.records]


def refuse_settings(estimator: Any, n_starts: int) -> None:
    """Say which settings a checkpoint does not go with."""
    if n_starts > 1:
        raise ValueError(f"checkpoint= is for a single start; n_init asks for {n_starts}")
    for name, plain in (("polish", None), ("effort", None)):
        if getattr(estimator, name) != plain:
            raise ValueError(f"checkpoint= does not go with {name}={getattr(estimator, name)!r}")
    if estimator.empty in ("resample", "admissible"):
        raise ValueError(f"checkpoint= does not go with empty={estimator.empty!r}")


def _record(row: list[float]) -> Record:
    kinds = {"t": int, "stationary": bool, "moved": int, "empty": int}
    named = zip(fields(Record), row, strict=True)
    return Record(**{field.name: kinds.get(field.name, float)(value) for field, value in named})


def _partition(arrays: dict[str, NDArray[Any]], facts: dict[str, Any], name: str) -> Partition:
    given: dict[str, Any] = {array: arrays[f"{name}.{array}"] for array in _ARRAYS}
    given |= facts[name]
    return Partition(**(given | {"moved": int(given["moved"])}))


def _npy(array: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def _array(content: bytes) -> NDArray[Any]:
    array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    return array
