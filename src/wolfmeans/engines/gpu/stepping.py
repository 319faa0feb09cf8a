"""A workspace on the device that takes steps there, and knows what the host knows of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from wolfmeans.core.workspace import (
    Arrival,
    Assignment,
    Centers,
    Distances,
    Forced,
    Limits,
    Progress,
    Workspace,
)
from wolfmeans.engines.gpu.ahead import Ahead, worth_taking
from wolfmeans.engines.gpu.clusters import Lows, Results
from wolfmeans.engines.gpu.distances import GpuKernels
from wolfmeans.engines.gpu.kernels.lists import MOVED
from wolfmeans.engines.gpu.memory import is_small, kept
from wolfmeans.engines.gpu.orders import MOST_STEPS
from wolfmeans.engines.gpu.runs import Run, run_together
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.steps import Step, spare
from wolfmeans.engines.gpu.transfers import to_device, to_host
from wolfmeans.engines.gpu.weighting import Weighting
from wolfmeans.engines.labelled import LabelledPoints
from wolfmeans.exact.sums import exact_sum

_MOST_COPIED = 1 << 23
"""Labels of so many points are copied when a run may be at its end, before anybody asks for it."""
_ONE_STEP = Limits(1, math.inf, keep_empty=True)
"""One step: whether it would be taken does not matter."""


class SteppingPoints(LabelledPoints):
    """Points on the device, with their weights where they have any: assignments and steps."""

    _kernels: GpuKernels

    def __init__(
        self,
        data: Screened,
        weights: NDArray[np.float64] | None = None,
        weighting: Weighting | None = None,
    ) -> None:
        self.n_points, self.n_features = data.n, data.d
        self.dtype = np.dtype(np.float32 if data.X.dtype == torch.float32 else np.float64)
        self.weights = weights
        self.data, self._weighting = data, weighting
        self._kernels = GpuKernels(data)
        self._tensors: Step | None = None
        self._launched_ahead: Ahead | None = None
        self._reach = data.largest
        # Centers whose cost is known for the labels as they are, and what it is.
        self._known: tuple[Centers | None, float | None] = (None, None)
        # Centers that were handed out, and where they are on the device.
        self._there: list[tuple[Centers, torch.Tensor]] = []
        # A copy of the labels as they are.
        self._copied: torch.Tensor | None = None
        self._last: tuple[Assignment, Centers, float, float] | None = None

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""
        if forced is not None:
            return self._adopt(centers, forced)
        self._measure(centers)
        if self._tensors is None:
            return self._assign_first(centers)
        step = self._begin(centers, _ONE_STEP, math.nan, 0)
        step.launch_one(self._lows())
        records, *vertex = self._end(step.clusters.send(both=False)(), 1)
        return self._found(records[0], centers, *vertex[:3])

    def _assign_first(self, centers: Centers) -> Assignment:
        """Give labels to points that have none; take some steps more, if they will be asked for."""
        steps = worth_taking(self.n_points, self.n_features, len(centers), self.steps_to_come)
        limits = Limits(MOST_STEPS, math.inf, keep_empty=True) if steps else _ONE_STEP
        lows, step = self._lows(), self._begin(centers, limits, math.nan, 0)
        # The cost of the first means will be asked for.
        step.launch_first(lows)
        sent = step.clusters.send(both=False)
        if steps:
            step.launch_back(steps, lows)
        records, *vertex = self._end(sent(), 1)
        self._known = (vertex[0], self._sum())
        found = self._found(records[0], centers, *vertex[:3])
        # Where a sum had no room, the device took no step more.
        if steps and not records[0, 7]:
            means, weights, shift = found.means, found.weights, float(records[0, 5])
            self._launched_ahead = Ahead(centers, means, weights, shift, steps)
        return found

    @property
    def _step(self) -> Step | None:
        """What is on the device, in the state that was asked for last."""
        if self._launched_ahead is not None:
            self._undo(self._launched_ahead)
        return self._tensors

    def _undo(self, ahead: Ahead) -> None:
        """Make the first assignment again, without the steps behind it."""
        assert self._tensors is not None
        self._launched_ahead, self._copied, step = None, None, self._tensors
        step.clear()
        step.clusters.begin(ahead.seeds, _ONE_STEP, math.nan, 0)
        step.launch_one(self._lows())
        self._there = [(ahead.centers, step.clusters.centers[1])]

    def advance(
        self, centers: Centers, weights: Distances, shift: float, limits: Limits
    ) -> Progress | None:
        """Take several steps on the device, without asking the host in between."""
        ahead = self._launched_ahead
        if ahead is not None and ahead.lead_on(centers, weights, shift, limits):
            progress = self._follow(ahead, limits)
            if progress is not None:
                return progress
        step = self._begin(centers, limits, shift, int((weights == 0).sum()))
        run = Run(step, self._lows(), limits)
        return self._progress(run, self._take(run), centers)

    def _follow(self, ahead: Ahead, limits: Limits) -> Progress | None:
        """Go on from steps that were taken ahead; None if they went beyond the end."""
        assert self._tensors is not None
        step, self._launched_ahead = self._tensors, None
        self._forget()
        step.clusters.end_by(limits, after=1)
        run = Run(step, self._lows(), limits, before=1, launched=1 + ahead.steps)
        results = self._take(run)
        if ahead.overshot(results[0][1 : run.taken()], limits):
            self._undo(ahead)
            return None
        return self._progress(run, results, ahead.centers)

    def _take(self, run: Run) -> Results:
        """Take the steps of a run; return what they lead to."""
        sent = None
        while not run.ended:
            run.launch()
            if run.all_launched:
                # All of them may be taken: what is asked for then is not to wait for the host.
                sent = self._send(run.at_most)
                if self.meanwhile is not None:
                    self.meanwhile()
            run.look()
        return self._received(run, sent)

    def _send(self, taken: int) -> Callable[[], Results]:
        """Send what a run of so many steps leads to; what is returned waits for it."""
        step = self._opened_before()
        # The cost of the point, and the labels, are asked for if these are the last steps.
        step.sum_costs((taken - 1) % 2, self._lows())
        if self.n_points <= _MOST_COPIED:
            self._copied = step.rows.labels.clone()
        return step.clusters.send(both=taken > 1)

    def _received(self, run: Run, sent: Callable[[], Results] | None) -> Results:
        """Return what a run leads to, which was sent if that many steps were taken."""
        # Beyond the end nothing changes but which of the buffers was thought to be the last.
        if sent is None or (run.at_most - run.taken()) % 2:
            sent = self._send(run.taken())
        return sent()

    def _progress(self, run: Run, results: Results, begin: Centers) -> Progress:
        """Return what a run found that began at these centers."""
        records, *buffers = self._end(results, run.taken())
        records = records[run.before :]
        many = len(records)
        self._known = (buffers[3] if many > 1 else begin, self._sum())
        evaluations = np.empty((many, 6))
        evaluations[:, :5], evaluations[:, 5] = records[:, :5], run.seconds()
        point = _arrival(buffers[3:], records[-2]) if many > 1 else None
        return Progress(evaluations, point, _arrival(buffers[:3], records[-1]))

    def _begin(self, centers: Centers, limits: Limits, shift: float, empty: int) -> Step:
        step = self._opened(len(centers))
        self._forget()
        step.clusters.begin(self._held(centers), limits, shift, empty)
        return step

    def _forget(self) -> None:
        """Forget what is known of the labels as they are: there will be others."""
        self._known, self._copied = (None, None), None

    def _end(self, results: Results, taken: int) -> tuple[NDArray[np.float64], ...]:
        """Return the records of steps, and the last vertex and its point, if they were sent.

        That is: centers, residuals, weights of the vertex, then those of the point.
        """
        assert self._tensors is not None
        clusters, source = self._tensors.clusters, (taken - 1) % 2
        records, self._total, places = results
        records = records[:taken]
        if records[-1, 7]:
            self._repair(records[-1], source)
        self._there = [(place[0], clusters.centers[number]) for number, place in places.items()]
        return records, *places[1 - source], *places.get(source, ())

    def _sum(self) -> float | None:
        """Return the sum that came with the last steps; None where it had no room."""
        total, lost = self._total.tolist()
        return None if lost else float(total)

    def _opened(self, n_clusters: int) -> Step:
        if self._tensors is None:
            try:
                small = is_small(self.n_points, self.n_features)
                # One cluster is a mean that is asked for on the way.
                if small and self._weighting is None and n_clusters > 1:
                    self._tensors = spare.lend(self, self.data, n_clusters)
                else:
                    with kept(self.data.X.device, self.n_points, self.n_features):
                        self._tensors = Step(self.data, n_clusters, self._weighting)
            except torch.OutOfMemoryError as error:
                spare.drop()
                raise MemoryError(
                    f"the lists of {self.n_points} points and the sums of {n_clusters} clusters of "
                    f"{self.n_features} columns do not fit into the GPU's memory any more: free "
                    "some of it, give X as an array in the host's memory, from where it is "
                    "streamed, or take engine='cpu'; all give the same result"
                ) from error
        found = self._step
        assert found is not None
        return found

    def _held(self, centers: Centers) -> Centers | torch.Tensor:
        """Return centers as a tensor, if they are those that the last steps ended at."""
        for array, tensor in self._there:
            if array is centers:
                return tensor
        return centers

    def _measure(self, centers: Centers) -> None:
        """Take note of how far centers reach; means of points reach no farther than the points.

        The device says when a sum has no room after all.
        """
        self._reach = max(self._reach, float(centers.max()), -float(centers.min()))

    def _lows(self) -> Lows:
        """Return where the sums of a step begin, for the centers seen and means of points."""
        heaviest = 0 if self._weighting is None else self._weighting.high
        return Lows.of(self._reach, self.n_points, self.n_features, heaviest)

    def _repair(
        self,
        record: NDArray[np.float64],
        source: int,
        gap_terms: Callable[[Centers], NDArray[np.float64]] | None = None,
    ) -> None:
        """Recompute on the host the sums that had no room in the device's limbs."""
        clusters = self._opened(0).clusters
        centers, means, residuals, weights = to_host(
            clusters.centers[source], *clusters.place(1 - source)
        )
        found = Assignment(0, 0.0, weights, means, residuals)
        record[5], record[3] = LabelledPoints.step(self, found, centers)
        terms = (gap_terms or self._gap_terms)(centers)
        record[2] = exact_sum(terms.tolist())

    def _gap_terms(self, centers: Centers) -> NDArray[np.float64]:
        """Return what each of the listed points gained."""
        rows, old, near, far = self._listed(centers)
        terms = torch.where(old >= 0, far - near, 0.0)
        if self._weighting is not None:
            terms = self._weighting.values[rows] * terms
        found: NDArray[np.float64] = terms.cpu().numpy()
        return found

    def _listed(
        self, centers: Centers
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the listed rows, their old labels, and the distances at the new and the old."""
        step = self._opened(0)
        moved = int(step.clusters.state[MOVED.value])
        rows, old = step.rows.moved_rows[:moved].long(), step.rows.moved_from[:moved]
        labels = step.rows.labels.clone()
        near = self._kernels.distances_on_device(centers, labels)[rows]
        labels[rows] = old.clamp(min=0)
        far = self._kernels.distances_on_device(centers, labels)[rows]
        return rows, old, near, far

    def _found(
        self,
        record: NDArray[np.float64],
        centers: Centers,
        means: Centers,
        residuals: NDArray[np.float64],
        weights: Distances,
    ) -> Assignment:
        found = Assignment(int(record[0]), float(record[2]), weights, means, residuals)
        self._last = (found, centers, float(record[5]), float(record[3]))
        return found

    def _adopt(self, centers: Centers, forced: Forced) -> Assignment:
        """Take the nearest labels but for the forced ones, and move points accordingly."""
        self._measure(centers)
        step = self._opened(len(centers))
        clusters, rows = step.clusters, step.rows
        labels = self._kernels.labels_on_device(centers)
        labels[to_device(forced.rows, labels)] = to_device(forced.labels, labels)
        self._there = []
        self._forget()
        clusters.begin(centers, Limits(1, math.inf), math.nan, 0)
        clusters.before.copy_(clusters.centers[0])
        moved = torch.nonzero(labels != rows.labels).flatten()
        rows.moved_rows[: len(moved)] = moved.int()
        rows.moved_from[: len(moved)] = rows.labels[moved]
        clusters.state[MOVED.value] = len(moved)
        rows.labels.copy_(labels)
        rows.slack.fill_(-math.inf)
        step.find_moments(0, self._lows())
        record, *vertex = to_host(clusters.records[0], *clusters.place(1))
        if record[7]:
            self._repair(record, 0)
        return self._found(record, centers, *vertex)

    def step(self, found: Assignment, centers: Centers) -> tuple[float, float]:
        """Return the shift and the movement of a step from the centers to the means found."""
        if self._last is not None and self._last[0] is found and self._last[1] is centers:
            return self._last[2], self._last[3]
        return super().step(found, centers)

    def advance_with(
        self,
        others: Sequence[Workspace],
        starts: Sequence[tuple[Centers, Distances, float]],
        limits: Sequence[Limits],
        n_threads: int,
    ) -> list[Progress] | None:
        """Take the steps of several starts at once, on streams of the device."""
        same = [self, *(other for other in others if type(other) is type(self))]
        if len(same) < 1 + len(others):
            return None
        runs = []
        for points, (centers, weights, shift), limit in zip(same, starts, limits, strict=True):
            step = points._begin(centers, limit, shift, int((weights == 0).sum()))
            runs.append(Run(step, points._lows(), limit))
        run_together(runs)
        return [
            points._progress(run, points._received(run, None), start[0])
            for points, run, start in zip(same, runs, starts, strict=True)
        ]

    def _opened_before(self) -> Step:
        found = self._step
        if found is None:
            raise RuntimeError("points have no labels before the first assignment")
        return found


def _arrival(buffers: Sequence[NDArray[Any]], record: NDArray[np.float64]) -> Arrival:
    """Return a partition, with shift, movement, gap and moved points of the step to it."""
    centers, residuals, weights = buffers
    moved, _, gap, movement, _, shift, *_ = record.tolist()
    return centers, residuals, weights, shift, movement, gap, int(moved)
