"""The replay of a run: the fit repeated from its start, with a picture of each step.

A model stores the start of its run, not its path: the same start gives identical results. So the
loop runs again, on a problem that records the labels of the rows shown after each assignment.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.frank_wolfe import State
from wolfmeans.core.kmeans import KMeansProblem, Partition
from wolfmeans.core.solution import Record, Status
from wolfmeans.core.spherical import SphericalProblem, TrimmedSphericalProblem
from wolfmeans.core.stopping import StoppingRule
from wolfmeans.core.trimmed import TrimmedProblem, kept_mass, parsed_share
from wolfmeans.core.workspace import Centers, Labels, Limits
from wolfmeans.engines import effective_threads, get_engine
from wolfmeans.estimators import TrimmedKMeans
from wolfmeans.fitting.fit import Fit, Start, prepare
from wolfmeans.inputs import validation
from wolfmeans.views.portrait.map import Plane
from wolfmeans.views.portrait.points import Model

_MOST_FRAMES = 60
_FIRST_FRAMES = 20
# Of the iterations from t to 2 t, 2**5 are recorded.
_PER_DOUBLING_BITS = 5

SAME = (
    "The fit was repeated from the same start and gave identical results. The inertia belongs to "
    "the picture: each point is assigned to the nearest center shown, before the centers move to "
    "the means."
)
ELSEWHERE = (
    "Repeating the fit gave a different result, so the last picture shows the model itself. The "
    "parameters changed after the fit, or the fit was random or depended on the clock."
)
POLISHED = (
    "The fit was repeated from the same start. The last picture shows the result after single "
    "moves and center swaps."
)
NO_START = "No replay: the model was saved by an older version that did not store its start."


@dataclass(frozen=True)
class Frame:
    """One moment of a run: centers, and every point with its nearest one.

    Frame 0 shows the initial centers. Frame t shows what ``max_iter=t`` would return; it belongs to
    row t - 1 of the model's trace.
    """

    t: int
    """The iteration."""
    title: str
    """"the start", "iteration 3", "after polishing", "the model"."""
    sse: float
    """Sum of squared distances to these centers, in the units of the certificate."""
    gap: float
    """The Frank-Wolfe gap of the reassignment to these centers; nan at the start."""
    moved: int
    """Number of points, shown or not, that changed cluster in this iteration."""
    centers: NDArray[np.float64]
    """(K, 2) in the plane of the map."""
    labels: NDArray[np.int32]
    """(m,) of the rows of the map."""
    changed: NDArray[np.bool_]
    """(m,) rows of the map whose label differs from that in the frame before."""


@dataclass(frozen=True)
class Replay:
    """The run, repeated from the same start."""

    frames: tuple[Frame, ...]
    """From the first partition to the returned one."""
    path_note: str
    """Which iterations are shown."""


@dataclass
class _Recorder:
    """Collects the frames of a run."""

    rows: NDArray[np.int64]
    plane: Plane
    frames: list[Frame] = field(default_factory=list)
    last: Frame | None = None
    report: Callable[[int], Any] = lambda t: None
    """Called with the number of each iteration."""

    def frame(
        self, t: int, title: str, values: tuple[float, float, int], centers: Any, labels: Labels
    ) -> Frame:
        """Return a frame; `values` are its SSE, its gap and the number of points that moved."""
        return Frame(
            t,
            title,
            *values,
            centers=self.plane.places(centers),
            labels=labels[self.rows],
            changed=np.zeros(len(self.rows), dtype=np.bool_),
        )

    def add(self, t: int, sse: float, gap: float, moved: int, centers: Any, labels: Labels) -> None:
        """Record the frame after iteration t; the later in a long run, the fewer are kept."""
        self.report(t)
        points = self.plane.points
        values = (points.as_certified(sse), points.as_certified(gap), moved)
        title = f"iteration {t}" if t else "the start"
        self.last = self.frame(t, title, values, centers, labels)
        if t & ((1 << max(0, t.bit_length() - 1 - _PER_DOUBLING_BITS)) - 1) == 0:
            self.frames.append(self.last)


class _Recorded(KMeansProblem):
    """A problem that records each assignment; it takes one step at a time."""

    recorder: ClassVar[_Recorder]

    def partition(self, seeds: Centers) -> Partition:
        """Return the first partition, and record it at the seeds."""
        first = super().partition(seeds)
        sse = self.inertia(seeds)
        self.recorder.add(0, sse, math.nan, 0, seeds, self.workspace.labels())
        return first

    def limits(
        self, point: Partition, stop: StoppingRule, at_most: int, seconds: float
    ) -> Limits | None:
        """Return None: every step is evaluated here, so that it can be recorded."""
        return None

    def evaluate(self, state: State[Partition]) -> Record:
        """Measure the step, and record the labels that the centers give."""
        record = super().evaluate(state)
        sse = max(0.0, record.value - record.gap)
        centers, labels = state.point.centers, self.workspace.labels()
        self.recorder.add(state.t + 1, sse, record.gap, record.moved, centers, labels)
        return record


class _RecordedSpherical(_Recorded, SphericalProblem):
    """The same for unit rows."""


class _RecordedTrimmedSpherical(_Recorded, TrimmedSphericalProblem):
    """The same with trimming."""


class _RecordedTrimmed(_Recorded, TrimmedProblem):
    """The same with trimming."""


def replay_of(
    model: Model, plane: Plane, rows: NDArray[np.int64], report: Callable[[int], Any]
) -> tuple[Replay | None, str]:
    """Repeat the model's run; return its frames, and a sentence about them.

    `report` is called with the number of each iteration.
    """
    if not hasattr(model, "initial_centers_"):
        return None, NO_START
    recorder = _Recorder(rows, plane, report=report)
    fit = _run_again(model, recorder)
    last, points, certificate = recorder.last, plane.points, model.certificate_
    assert last is not None
    if recorder.frames[-1] is not last:
        recorder.frames.append(last)
    frames = _thinned(recorder.frames)
    path = f"iterations 0 to {last.t}; {len(frames)} of {last.t + 1} shown"
    same = np.array_equal(np.asarray(fit.centers, dtype=np.float64), points.centers)
    if same and np.array_equal(fit.labels, points.labels):
        frames[-1] = replace(last, sse=certificate.inertia)
        note = SAME
    else:
        polish = certificate.polish
        is_polished = polish is not None and polish.moves + polish.swaps > 0
        note, title = (POLISHED, "after polishing") if is_polished else (ELSEWHERE, "the model")
        moved = int(np.count_nonzero(points.labels != fit.labels))
        values = (certificate.inertia, certificate.gap, moved)
        frames.append(recorder.frame(last.t + 1, title, values, points.centers, points.labels))
    previous = [frames[0], *frames[:-1]]
    frames = [
        replace(frame, changed=frame.labels != before.labels)
        for before, frame in zip(previous, frames, strict=True)
    ]
    return Replay(tuple(frames), path), note


def _run_again(model: Model, recorder: _Recorder) -> Fit:
    """Repeat the run that the model's trace describes."""
    points = recorder.plane.points
    n_threads = effective_threads(model.n_threads)
    engine = get_engine(model.engine)
    kind: type[_Recorded] = _Recorded
    if isinstance(model, TrimmedKMeans):
        kind = _RecordedTrimmedSpherical if model._unit_rows else _RecordedTrimmed
        mass = kept_mass(parsed_share(model._share), points.weights, len(points.labels))
        workspace: Any = engine.open(points.X, points.weights, n_threads).trimmed(mass)
    else:
        kind = _RecordedSpherical if model._unit_rows else _Recorded
        workspace = engine.open(points.X, points.weights, n_threads, model.algorithm)
    seeds = validation.ldexp(model.initial_centers_.astype(workspace.dtype), points.exponent)
    start = Start(workspace, seeds, lambda: np.random.RandomState(0), points.exponent)
    prepared = prepare(
        start,
        **model._criterion()._asdict(),
        empty=model.empty,
        kind=type("Recorded", (kind,), {"recorder": recorder}),
    )
    max_steps = None if model.max_iter is None else model.max_iter - 1
    certificate = model.certificate_
    if certificate.status in (Status.TIME_LIMIT, Status.CALLBACK):
        # A clock or a callback ended it there.
        max_steps = certificate.iterations
    return prepared.finish(max_steps)


def _thinned(frames: list[Frame]) -> list[Frame]:
    """Return all of the first frames, and later ones farther and farther apart.

    There is room for one more frame: the model itself.
    """
    most = _MOST_FRAMES - 1
    if len(frames) <= most:
        return frames
    later = np.geomspace(_FIRST_FRAMES, len(frames) - 1, most - _FIRST_FRAMES).round()
    places = [*range(_FIRST_FRAMES), *sorted({int(place) for place in later})]
    return [frames[place] for place in places]
