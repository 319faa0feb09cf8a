"""Run scenarios chunk by chunk, so that a study can be stopped at any moment and resumed.

A folder holds `study.json` with all settings, `scenarios/NAME.json` for every finished scenario
and, while there are unfinished ones, `parts/NAME/BEGIN-END.json` with the tally of a chunk of
replications. Every file is written whole or not at all, and each replication has a random stream of
its own, so a resumed study ends with the same bytes.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from time import perf_counter
from typing import Any

import numpy as np

from wolfmeans.core.progress import PATIENCE, progress_on_terminal
from wolfmeans.engines import effective_threads
from wolfmeans.files.atomic import written_whole
from wolfmeans.study.results import FORMAT, VERSION, ScenarioResult
from wolfmeans.study.runs import Tally, in_blocks, is_small, perform
from wolfmeans.study.scenarios import Scenario

Progress = Callable[[int, int, float | None], Any]
"""Called with the replications done, all of them, and the estimated seconds left."""

# A chunk takes about a second at most; a study that is killed loses no more.
_COORDINATES_PER_CHUNK = 20_000_000
_RUNS_PER_CHUNK = 500


@dataclass(frozen=True)
class Chunk:
    """Some replications of a scenario that are run together."""

    scenario: Scenario
    replications: range

    @property
    def work(self) -> float:
        """About how long it takes, in arbitrary units."""
        scenario = self.scenario
        each = scenario.n * (10.0 + scenario.d + 0.25 * scenario.k) + 5500.0
        return len(self.replications) * each


def run(
    scenarios: Sequence[Scenario],
    out: str | os.PathLike[str],
    *,
    workers: int | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> list[ScenarioResult]:
    """Run scenarios and leave their results in a folder.

    Parameters
    ----------
    scenarios : sequence of Scenario
        From `grid`, `segmentation` and `data`; names must differ.
    out : path
        The folder; created if it does not exist.
    workers : int or None, default=None
        Number of threads; None uses all cores this process may use. Does not change the results.
    resume : bool, default=False
        Continue what is in the folder. Its settings must be those of `scenarios`. Without it the
        folder must not hold a study.
    progress : callable or None, default=None
        Called now and then with the number of replications done, of all, and the estimated seconds
        left, None at first. None shows a bar on a terminal and in a notebook after two seconds.

    Returns
    -------
    list of ScenarioResult
        As read from the folder, in the order of `scenarios`.

    Examples
    --------
    >>> import tempfile
    >>> from wolfmeans import study
    >>> scenarios = study.grid(n=[60], d=[2], k=[3], replications=50)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [result] = study.run(scenarios, folder)
    >>> sum(result.iterations.values()), max(result.worst_ratio.values()) <= 1.0
    (50, True)
    """
    folder = _Folder(Path(out))
    folder.open(scenarios, resume=resume)
    chunks = [chunk for scenario in scenarios for chunk in folder.missing(scenario)]
    threads = effective_threads(workers)
    # Small runs have a thread each; large ones all threads, one after the other.
    small = [chunk for chunk in chunks if is_small(chunk.scenario)]
    large = [chunk for chunk in chunks if not is_small(chunk.scenario)]
    for scenario in scenarios:
        folder.finish(scenario)
    with _told(progress) as tell:
        clock = _Clock(scenarios, chunks, tell)
        for some, at_once in ((small, threads), (large, 1)):
            for chunk in _run_chunks(some, folder, at_once, threads // at_once):
                folder.finish(chunk.scenario)
                clock.tick(chunk)
    folder.close()
    return [folder.result(scenario) for scenario in scenarios]


def _run_chunks(
    chunks: Sequence[Chunk], folder: _Folder, at_once: int, n_threads: int
) -> Iterator[Chunk]:
    """Run chunks, `at_once` of them at a time, and yield each when it has been written."""
    stop = Event()

    def work(chunk: Chunk) -> Chunk:
        tally = Tally()
        for block in in_blocks(chunk.scenario, chunk.replications):
            if stop.is_set():
                raise CancelledError
            tally.merge(Tally.of(perform(chunk.scenario, block, n_threads)))
        folder.write_part(chunk, tally)
        return chunk

    if at_once == 1:
        # In this thread, which Ctrl-C interrupts.
        yield from map(work, chunks)
        return
    with ThreadPoolExecutor(at_once) as pool:
        try:
            for future in as_completed([pool.submit(work, chunk) for chunk in chunks]):
                yield future.result()
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


@contextmanager
def _told(progress: Progress | None) -> Iterator[Progress | None]:
    """Give the caller's callback, or one that keeps a bar up to date, or None."""
    with progress_on_terminal(None if progress is None else _say_nothing, PATIENCE) as tell:
        if progress is not None or tell is None:
            yield progress
            return
        yield lambda done, of, left: tell(done / max(1, of), _in_words(done, of, left))


def _say_nothing(share: float, text: str) -> None:
    """Report nothing: the caller has a display."""


def _in_words(done: int, of: int, left: float | None) -> str:
    return f"{done:,} of {of:,} runs" + ("" if left is None else f", about {left:.0f} s left")


class _Clock:
    """Reports the progress of a study."""

    def __init__(
        self, scenarios: Sequence[Scenario], chunks: Sequence[Chunk], progress: Progress | None
    ) -> None:
        self._progress = progress
        self._all = sum(scenario.replications for scenario in scenarios)
        self._done = self._all - sum(len(chunk.replications) for chunk in chunks)
        self._work_left = sum(chunk.work for chunk in chunks)
        self._work_done = 0.0
        self._started = perf_counter()
        if progress is not None:
            progress(self._done, self._all, None if chunks else 0.0)

    def tick(self, chunk: Chunk) -> None:
        self._done += len(chunk.replications)
        self._work_done += chunk.work
        self._work_left = max(0.0, self._work_left - chunk.work)
        if self._progress is not None:
            elapsed = perf_counter() - self._started
            left = 0.0 if self._done == self._all else elapsed * self._work_left / self._work_done
            self._progress(self._done, self._all, left)


class _Folder:
    """The files of a study."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._settings = path / "study.json"
        self._results = path / "scenarios"
        self._parts = path / "parts"

    def open(self, scenarios: Sequence[Scenario], *, resume: bool) -> None:
        """Create the folder, or raise an error if it cannot be used."""
        names = [scenario.name for scenario in scenarios]
        if len(set(names)) < len(names):
            raise ValueError("every scenario must have a name of its own; some are there twice")
        settings = [{**s.to_dict(), "points": s.fingerprint} for s in scenarios]
        if self._settings.exists():
            if not resume:
                raise FileExistsError(
                    f"{self._path} holds a study already; resume it or choose another folder"
                )
            _compare(json.loads(self._settings.read_text(encoding="utf-8")), settings, self._path)
        elif self._results.exists() and any(self._results.iterdir()):
            raise FileExistsError(f"{self._results} has files that belong to no study.json")
        for folder in (self._path, self._results, self._parts):
            folder.mkdir(parents=True, exist_ok=True)
            # Files that a killed run was writing.
            for unfinished in folder.glob(".*.part"):
                unfinished.unlink(missing_ok=True)
        if not self._settings.exists():
            _write(self._settings, _described(settings))

    def missing(self, scenario: Scenario) -> list[Chunk]:
        """Return the replications that are in no result and no part, in chunks."""
        if self._result_path(scenario).exists():
            return []
        size = max(1, min(_RUNS_PER_CHUNK, _COORDINATES_PER_CHUNK // (scenario.n * scenario.d)))
        chunks = []
        begin = 0
        for part in [
            *self._parts_of(scenario),
            range(scenario.replications, scenario.replications),
        ]:
            chunks += [
                Chunk(scenario, range(first, min(first + size, part.start)))
                for first in range(begin, part.start, size)
            ]
            begin = part.stop
        return chunks

    def write_part(self, chunk: Chunk, tally: Tally) -> None:
        path = self._part_path(chunk.scenario, chunk.replications)
        path.parent.mkdir(exist_ok=True)
        _write(path, tally.to_dict())

    def finish(self, scenario: Scenario) -> None:
        """Write the result when all parts are there, and remove them."""
        parts = self._parts_of(scenario)
        path = self._result_path(scenario)
        if not path.exists():
            if sum(len(part) for part in parts) < scenario.replications:
                return
            total = Tally()
            for part in parts:
                text = self._part_path(scenario, part).read_text(encoding="utf-8")
                total.merge(Tally.from_dict(json.loads(text)))
            total.result(scenario).save(path)
        shutil.rmtree(self._parts / scenario.name, ignore_errors=True)

    def result(self, scenario: Scenario) -> ScenarioResult:
        """Read a result; the scenario keeps its points."""
        return replace(ScenarioResult.load(self._result_path(scenario)), scenario=scenario)

    def close(self) -> None:
        """Remove the parts."""
        shutil.rmtree(self._parts, ignore_errors=True)

    def _result_path(self, scenario: Scenario) -> Path:
        return self._results / f"{scenario.name}.json"

    def _part_path(self, scenario: Scenario, replications: range) -> Path:
        name = f"{replications.start}-{replications.stop}.json"
        return self._parts / scenario.name / name

    def _parts_of(self, scenario: Scenario) -> list[range]:
        """Return the replications of all parts, in order."""
        paths = (self._parts / scenario.name).glob("*-*.json")
        ends = [tuple(map(int, path.stem.split("-"))) for path in paths]
        return [range(begin, end) for begin, end in sorted(ends)]


def _described(settings: list[dict[str, Any]]) -> dict[str, Any]:
    from wolfmeans import __version__

    versions = {"wolfmeans": __version__, "numpy": np.__version__}
    return {"format": FORMAT, "version": VERSION, "made_with": versions, "scenarios": settings}


def _compare(found: Any, settings: list[dict[str, Any]], path: Path) -> None:
    """Raise an error if a study has other settings, and name them."""
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ValueError(f"{path / 'study.json'} was not written by a wolfmeans study")
    if found.get("version") != VERSION:
        raise ValueError(
            f"{path} has version {found.get('version')}; this wolfmeans continues {VERSION}"
        )
    there = {scenario["name"]: scenario for scenario in found["scenarios"]}
    asked = {scenario["name"]: scenario for scenario in settings}
    differences = [f"{name} is not asked for" for name in there if name not in asked]
    differences += [f"{name} is not in it" for name in asked if name not in there]
    for name in asked.keys() & there.keys():
        differences += [
            f"{name} has {key}={there[name].get(key)!r}, not {value!r}"
            for key, value in asked[name].items()
            if there[name].get(key) != value
        ]
    if differences:
        more = f" and {len(differences) - 3} more differences" if len(differences) > 3 else ""
        raise ValueError(
            f"the study in {path} has other settings: {'; '.join(sorted(differences)[:3])}{more}. "
            "Resume it with its own, or choose another folder"
        )


def _write(path: Path, contents: dict[str, Any]) -> None:
    with written_whole(path) as file:
        file.write((json.dumps(contents, indent=1) + "\n").encode())
