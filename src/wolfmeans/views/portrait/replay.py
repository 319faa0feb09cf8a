"""The replay of a run: the fit repeated from its start, with a picture of each step.

A model stores the start of its run, not its path: the same start gives identical results. So the
loop runs again, on a problem that records the labels of the rows shown after each assignment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.frank_wolfe import State
from wolfmeans.core.kmeans import KMeansProblem, Partition
from wolfmeans.core.solution import Record, Status
from wolfmeans.core.stopping import StoppingRule
from wolfmeans.core.trimmed import TrimmedProblem, kept_mass, parsed_share
from wolfmeans.core.workspace import Centers, Labels, Limits
from wolfmeans.engines import effective_threads, get_engine
from wolfmeans.estimators import TrimmedKMeans
from wolfmeans.fitting.fit import Fit, Start, prepare
from wolfmeans.inputs import validation
from wolfmeans.views.portrait.plane import Plane
from wolfmeans.views.portrait.points import Model, Points
from wolfmeans.views.portrait.shapes import Frame, Replay

_MOST_FRAMES = 60
_FIRST_FRAMES = 20
# So many frames are noted for each doubling of their number.
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


@dataclass
class Notes:
    """What is written down during a run."""

    rows: NDArray[np.int64]
    plane: Plane
    frames: list[Frame] = field(default_factory=list)
    last: Frame | None = None

    def add(self, t: int, values: tuple[float, float, int], centers: Any, labels: Labels) -> None:
        """Note the picture after iteration t; of many iterations, rarer the longer the run is."""
        sse, gap, moved = values
        points = self.plane.points
        self.last = Frame(
            t=t,
            title=f"iteration {t}" if t else "the start",
            sse=points.as_certified(sse),
            gap=points.as_certified(gap),
            moved=moved,
            centers=self.plane.places(centers),
            labels=labels[self.rows],
            changed=np.zeros(len(self.rows), dtype=np.bool_),
        )
        if t & ((1 << max(0, t.bit_length() - 1 - _PER_DOUBLING_BITS)) - 1) == 0:
            self.frames.append(self.last)


class _Recorded(KMeansProblem):
    """A problem that notes each assignment; it takes one step at a time."""

    notes: ClassVar[Notes]

    def partition(self, seeds: Centers) -> Partition:
        """Return the first partition, and note it at the seeds."""
        first = super().partition(seeds)
        sse = self.workspace.cost(seeds)
        self.notes.add(0, (sse, math.nan, 0), seeds, self.workspace.labels())
        return first

    def limits(
        self, point: Partition, stop: StoppingRule, at_most: int, seconds: float
    ) -> Limits | None:
        """Return None: no step goes unseen."""
        return None

    def evaluate(self, state: State[Partition]) -> Record:
        """Measure the step, and note the labels that the centers gave rise to."""
        record = super().evaluate(state)
        values = (max(0.0, record.value - record.gap), record.gap, record.moved)
        self.notes.add(state.t + 1, values, state.point.centers, self.workspace.labels())
        return record


def _recorded(kind: type[KMeansProblem], notes: Notes) -> type[KMeansProblem]:
    return cast(type[KMeansProblem], type("Recorded", (_Recorded, kind), {"notes": notes}))


def replay_of(
    model: Model, points: Points, plane: Plane, rows: NDArray[np.int64]
) -> tuple[Replay | None, str]:
    """Run the model's run again; return its frames, and a sentence about them."""
    if not hasattr(model, "initial_centers_"):
        return None, NO_START
    notes = Notes(rows, plane)
    fit = _run_again(model, points, notes)
    assert notes.last is not None
    last = notes.last
    frames = notes.frames if notes.frames[-1] is last else [*notes.frames, last]
    frames = _thinned(frames)
    shown = f"iterations 0 to {last.t}; {len(frames)} of {last.t + 1} shown"
    polish = model.certificate_.polish
    same = np.array_equal(np.asarray(fit.centers, dtype=np.float64), points.centers)
    if same and np.array_equal(fit.labels, points.labels):
        frames[-1] = replace(last, sse=model.certificate_.inertia)
        note = SAME
    else:
        is_polished = polish is not None and polish.moves + polish.swaps > 0
        note = POLISHED if is_polished else ELSEWHERE
        frames.append(_of_model(model, plane, rows, fit.labels, last.t + 1, is_polished))
    return Replay(_with_changes(frames), shown), note


def _run_again(model: Model, points: Points, notes: Notes) -> Fit:
    """Repeat the run that the model's trace describes."""
    n_threads = effective_threads(model.n_threads)
    engine = get_engine(model.engine)
    kind: type[KMeansProblem] = KMeansProblem
    if isinstance(model, TrimmedKMeans):
        kind = TrimmedProblem
        mass = kept_mass(parsed_share(model._share), points.weights, len(points.labels))
        workspace: Any = engine.open(points.X, points.weights, n_threads).trimmed(mass)
    else:
        workspace = engine.open(points.X, points.weights, n_threads, model.algorithm)
    seeds = validation.ldexp(model.initial_centers_.astype(workspace.dtype), points.exponent)
    start = Start(workspace, seeds, lambda: np.random.RandomState(0), points.exponent)
    prepared = prepare(
        start,
        **model._criterion()._asdict(),
        empty=model.empty,
        kind=_recorded(kind, notes),
    )
    max_steps = None if model.max_iter is None else model.max_iter - 1
    certificate = model.certificate_
    if certificate.status in (Status.TIME_LIMIT, Status.CALLBACK):
        # A clock or a person ended it there.
        max_steps = certificate.iterations
    return prepared.finish(max_steps)


def _of_model(
    model: Model, plane: Plane, rows: NDArray[np.int64], before: Labels, t: int, polished: bool
) -> Frame:
    """Return the model itself as a frame, after a run that ended with other labels."""
    points, certificate = plane.points, model.certificate_
    return Frame(
        t=t,
        title="after polishing" if polished else "the model",
        sse=certificate.inertia,
        gap=certificate.gap,
        moved=int(np.count_nonzero(points.labels != before)),
        centers=plane.places(points.centers),
        labels=points.labels[rows],
        changed=np.zeros(len(rows), dtype=np.bool_),
    )


def _thinned(frames: list[Frame]) -> list[Frame]:
    """Return at most so many frames, the first ones all and later ones farther and farther apart.

    One place is left for the model itself.
    """
    most = _MOST_FRAMES - 1
    if len(frames) <= most:
        return frames
    later = np.geomspace(_FIRST_FRAMES, len(frames) - 1, most - _FIRST_FRAMES).round()
    places = [*range(_FIRST_FRAMES), *sorted({int(place) for place in later})]
    return [frames[place] for place in places]


def _with_changes(frames: list[Frame]) -> tuple[Frame, ...]:
    changes = [np.zeros(len(frames[0].labels), dtype=np.bool_)]
    changes += [np.not_equal(after.labels, before.labels) for before, after in pairwise(frames)]
    return tuple(
        replace(frame, changed=changed) for frame, changed in zip(frames, changes, strict=True)
    )
