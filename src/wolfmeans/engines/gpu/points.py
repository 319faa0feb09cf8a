"""A workspace on the device: labels, bounds and exact moments there, steps taken without the host.

What a fit does in every step runs there. What it does once or seldom (empty clusters, ties, single
moves) waits for the host, or is done there.
"""

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
    Labels,
    Limits,
    Partial,
    Progress,
    Turn,
    Workspace,
)
from wolfmeans.engines.gpu.clusters import MOST_STEPS, Clusters, Lows, Results
from wolfmeans.engines.gpu.distances import GpuKernels
from wolfmeans.engines.gpu.gains import CurrentCosts, best_candidate
from wolfmeans.engines.gpu.host_points import OnHost
from wolfmeans.engines.gpu.kernels.lists import MOVED
from wolfmeans.engines.gpu.memory import BYTES_OF_A_ROW, available, is_small, kept
from wolfmeans.engines.gpu.ordering import lexicographic_order, row_hashes
from wolfmeans.engines.gpu.oversampling import GpuPart
from wolfmeans.engines.gpu.runs import Run, Speculation, run_together, speculative_steps
from wolfmeans.engines.gpu.screening import Screened
from wolfmeans.engines.gpu.seeding import spread_rows
from wolfmeans.engines.gpu.steps import Step, spare
from wolfmeans.engines.gpu.transfers import to_device, to_host
from wolfmeans.engines.gpu.trimming import GpuTrimmer
from wolfmeans.engines.gpu.weighting import Weighting, weigh
from wolfmeans.engines.native import turn
from wolfmeans.engines.reference import ReferencePoints, on_host_sums
from wolfmeans.engines.single_moves import SingleMoves
from wolfmeans.engines.swaps import Swaps
from wolfmeans.engines.tensors import DeviceLabels
from wolfmeans.engines.trimming import PlainTrimmer, Trimmer
from wolfmeans.exact.limbs import Grids, Limbs
from wolfmeans.exact.ordering import lexicographic_order as order_on_host
from wolfmeans.exact.sums import exact_sum

_MOST_FAR_ROWS = 1 << 16
_SMALL = 1 << 22
_MOST_COPIED = 1 << 23
"""Labels of up to so many points are copied when a run may be at its end."""
_ONE_STEP = Limits(1, math.inf, keep_empty=True)
"""One step: whether it would be taken does not matter."""


class GpuPoints(ReferencePoints):
    """Points, all on the device, with their weights where they have any."""

    engine = "gpu"
    _kernels: GpuKernels

    def __init__(
        self,
        data: Screened,
        host: Any,
        n_threads: int,
        weights: NDArray[np.float64] | None = None,
        weighting: Weighting | None = None,
    ) -> None:
        self.n_points, self.n_features = data.n, data.d
        self.dtype = np.dtype(np.float32 if data.X.dtype == torch.float32 else np.float64)
        self.weights, self.grids = weights, None
        self.data, self._kernels = data, GpuKernels(data)
        self._weighting, self._n_threads = weighting, n_threads
        self._order = None
        self._last: tuple[Assignment, Centers, float, float] | None = None
        self._tensors: Step | None = None
        self._speculation: Speculation | None = None
        self._reach = data.largest
        # Centers whose cost is known for the labels as they are, and what it is.
        self._known: tuple[Centers | None, float | None] = (None, None)
        # Centers that were handed out, and where they are on the device.
        self._there: list[tuple[Centers, torch.Tensor]] = []
        # A copy of the labels as they are.
        self._copied: torch.Tensor | None = None
        self._on_host = OnHost(data.X if host is None else host, weights, n_threads)
        self._order_on_device: torch.Tensor | None = None

    def _like(
        self, n_threads: int, weights: NDArray[np.float64] | None, weighting: Weighting | None
    ) -> GpuPoints:
        """Return a workspace of the same rows with other weights, without labels."""
        twin = GpuPoints(self.data, None, n_threads, weights, weighting)
        twin._on_host = self._on_host.weighted(weights, n_threads)
        twin._order, twin._order_on_device = self._order, self._order_on_device
        return twin

    def fork(self, n_threads: int) -> GpuPoints:
        """Return a workspace of the same points, without labels, that shares the data."""
        twin = self._like(n_threads, self.weights, self._weighting)
        twin.meanwhile, twin._on_host = self.meanwhile, self._on_host
        return twin

    # --- Assignments and steps ----------------------------------------------------------------

    def assign(self, centers: Centers, forced: Forced | None = None) -> Assignment:
        """Give each point the label of its nearest center, ties to the lowest index."""
        if forced is not None:
            return self._assign_forced(centers, forced)
        self._measure(centers)
        if self._tensors is None:
            return self._assign_first(centers)
        step = self._begin(centers, _ONE_STEP, math.nan, 0)
        step.launch_one(self._lows())
        records, *vertex = self._end(step.clusters.send(both=False)(), 1)
        return self._found(records[0], centers, *vertex[:3])

    def _assign_first(self, centers: Centers) -> Assignment:
        """Give labels to points that have none; take some more steps if more are to come."""
        steps = speculative_steps(self.n_points, self.n_features, len(centers), self.steps_to_come)
        limits = Limits(MOST_STEPS, math.inf, keep_empty=True) if steps else _ONE_STEP
        lows, step = self._lows(), self._begin(centers, limits, math.nan, 0)
        # The cost of the first means will be needed.
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
            self._speculation = Speculation(centers, means, weights, shift, steps)
        return found

    @property
    def _step(self) -> Step | None:
        """What is on the device, in the state that was asked for last."""
        if self._speculation is not None:
            self._undo(self._speculation)
        return self._tensors

    def _undo(self, taken: Speculation) -> None:
        """Make the first assignment again, without the steps behind it."""
        assert self._tensors is not None
        self._speculation, self._copied, step = None, None, self._tensors
        step.clear()
        step.clusters.begin(taken.seeds, _ONE_STEP, math.nan, 0)
        step.launch_one(self._lows())
        self._there = [(taken.centers, step.clusters.centers[1])]

    def advance(
        self, centers: Centers, weights: Distances, shift: float, limits: Limits
    ) -> Progress | None:
        """Take several steps on the device, without asking the host in between.

        None for steps to directions: those centers are found on the host.
        """
        if limits.directions:
            return None
        taken = self._speculation
        if taken is not None and taken.serve(centers, weights, shift, limits):
            progress = self._follow(taken, limits)
            if progress is not None:
                return progress
        step = self._begin(centers, limits, shift, int((weights == 0).sum()))
        run = Run(step, self._lows(), limits)
        return self._progress(run, self._take(run), centers)

    def _follow(self, taken: Speculation, limits: Limits) -> Progress | None:
        """Go on from speculative steps; None if they went beyond the end."""
        assert self._tensors is not None
        step, self._speculation = self._tensors, None
        self._forget()
        step.clusters.end_by(limits, after=1)
        run = Run(step, self._lows(), limits, before=1, launched=1 + taken.steps)
        results = self._take(run)
        if taken.overshot(results[0][1 : run.taken()], limits):
            self._undo(taken)
            return None
        return self._progress(run, results, taken.centers)

    def _take(self, run: Run) -> Results:
        """Take the steps of a run; return what they lead to."""
        sent = None
        while not run.ended:
            run.launch()
            if run.all_launched:
                # If all of them are taken, these results are needed: do not wait for the host.
                sent = self._send(run.at_most)
                if self.meanwhile is not None:
                    self.meanwhile()
            run.poll()
        return self._received(run, sent)

    def _send(self, taken: int) -> Callable[[], Results]:
        """Send what a run of so many steps leads to; what is returned waits for it."""
        step = self._opened_before()
        # The cost of the point and the labels are needed if these are the last steps.
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
                # One cluster is the mean of the data, and no fit.
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
        record[5], record[3] = ReferencePoints.step(self, found, centers)
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

    def _assign_forced(self, centers: Centers, forced: Forced) -> Assignment:
        """Take the nearest labels but for the forced ones."""
        clusters, lows = self._assign_rows(centers, forced)
        clusters.settle(0, lows)
        record, *vertex = to_host(clusters.records[0], *clusters.place(1))
        if record[7]:
            self._repair(record, 0)
        return self._found(record, centers, *vertex)

    def assign_exactly(self, centers: Centers, forced: Forced | None = None) -> Partial:
        """Assign the points; return sums that can be added to those of other points."""
        grids = self.agreed_grids()
        clusters, lows = self._assign_rows(centers, forced)
        return clusters.partial(grids, lows.gap, lambda: self._gap_terms(centers))

    def _assign_rows(self, centers: Centers, forced: Forced | None) -> tuple[Clusters, Lows]:
        """Give rows their labels, and bring gap and sums up to date with them."""
        self._measure(centers)
        lows = self._lows()
        if forced is None:
            step = self._begin(centers, _ONE_STEP, math.nan, 0)
            self._there = []
            step.clusters.prepare(0)
            step.assign_rows(0, lows)
        else:
            labels = self._kernels.labels_on_device(centers)
            labels[to_device(forced.rows, labels)] = to_device(forced.labels, labels)
            step = self._relabel_to(centers, labels)
            step.add_moves(0, lows)
        return step.clusters, lows

    def _relabel_to(self, centers: Centers, labels: torch.Tensor) -> Step:
        """Give points any labels, and list those that move."""
        step = self._opened(len(centers))
        clusters, rows = step.clusters, step.rows
        self._there = []
        self._forget()
        clusters.begin(centers, _ONE_STEP, math.nan, 0)
        clusters.before.copy_(clusters.centers[0])
        moved = torch.nonzero(labels != rows.labels).flatten()
        rows.moved_rows[: len(moved)] = moved.int()
        rows.moved_from[: len(moved)] = rows.labels[moved]
        clusters.state[MOVED.value] = len(moved)
        rows.labels.copy_(labels)
        rows.slack.fill_(-math.inf)
        return step

    def adopt(self, labels: Labels, centers: Centers) -> None:
        """Take over labels that these centers gave the same points before."""
        step = self._relabel_to(centers, to_device(labels, self.data.X))
        step.rows.move(step.clusters)

    def advance_with(
        self,
        others: Sequence[Workspace],
        starts: Sequence[tuple[Centers, Distances, float]],
        limits: Sequence[Limits],
        n_threads: int,
    ) -> list[Progress] | None:
        """Take the steps of several starts at once, on streams of the device."""
        same = [self, *(other for other in others if type(other) is type(self))]
        if len(same) < 1 + len(others) or any(limit.directions for limit in limits):
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

    # --- Other questions ----------------------------------------------------------------------

    @property
    def _X(self) -> Any:  # noqa: N802
        """The data on the host, for what is done there."""
        return self._on_host.rows

    @property
    def runs_together(self) -> bool:
        """Whether several starts are better run at once: the device has room for more."""
        return self.n_points * self.n_features <= _SMALL

    def fork_for_trimming(self) -> ReferencePoints:
        """Return the points that the trimmed oracle works on: with masses on the device."""
        weighting = self._weighting
        if weighting is None:
            try:
                weighting = weigh(self.data, self.weights)
            except torch.OutOfMemoryError:
                weighting = None
        if weighting is None:
            return on_host_sums(np.asarray(self._X), self.weights, self._kernels)
        return self._like(self._n_threads, self.weights, weighting)

    def trimmer(self, mass: float) -> Trimmer:
        """Return what keeps the nearest points of a mass, on the device where it has room."""
        if self.grids is not None and self.grids.weights is not None:
            # The last mass that is kept may be as fine as a weight of another part.
            self._weighting = weigh(self.data, self.weights, masses=self.grids.weights)
        if self._weighting is None:
            return PlainTrimmer(self, mass)
        return GpuTrimmer(self, self._weighting, mass)

    def ranges(self) -> Grids:
        """Return where exact sums over these points alone would stand."""
        return self._on_host.points.ranges()

    def single_moves(self, centers: Centers, labels: Labels | None = None) -> SingleMoves:
        """Return a search by single moves, one point after the other and hence on the host."""
        given = self._current() if labels is None else labels
        return self._on_host.points.single_moves(centers, given)

    def swaps(self) -> Swaps:
        """Return what tells the cost of exchanging a center for a data point, on the host."""
        return self._on_host.points.swaps()

    def largest(self) -> float:
        """Return the largest absolute value in the data."""
        return self.data.largest

    def summing_on(self, grids: Grids) -> ReferencePoints:
        """Set where exact sums stand; on the host, if the device has no room for lists of rows.

        Lists of other parts stay there, too. Each part has one workspace.
        """
        if available(self.data.X.device.type) < self.n_points * BYTES_OF_A_ROW / 2:
            points = on_host_sums(self._X, self.weights, self._kernels)
            return points.summing_on(grids)
        return super().summing_on(grids)

    def exact_cost(self, centers: Centers) -> Limbs:
        """Return the cost as a sum that can be added to those of other points."""
        return self._exact_cost(centers, self._device_labels(), self._device_weights())

    def exact_cost_at(
        self, centers: Centers, labels: Labels, masses: NDArray[np.float64] | None
    ) -> Limbs:
        """Return the exact sum of v D at any labels and masses, None for ones."""
        given = None if masses is None else to_device(masses, self.data.X)
        return self._exact_cost(centers, to_device(labels, self.data.X), given)

    def _exact_cost(
        self, centers: Centers, labels: torch.Tensor, masses: torch.Tensor | None
    ) -> Limbs:
        self._measure(centers)
        total = self._kernels.cost(self._held(centers), labels, masses, self._lows().gap).exact()
        if total is not None:
            return total
        distances = self._kernels.distances_on_device(centers, labels)
        return self._exact_total(distances if masses is None else masses * distances)

    def exact_total(self, values: NDArray[np.float64]) -> Limbs:
        """Return the exact sum of an array, not rounded."""
        if values.size == 0 or not values.min() >= 0.0:
            return super().exact_total(values)
        return self._exact_total(to_device(values.ravel(), self.data.X))

    def _exact_total(self, terms: torch.Tensor) -> Limbs:
        total = self._kernels.total(terms, float(terms.max())).exact()
        return Limbs.of_terms(to_host(terms)[0]) if total is None else total

    def step(self, found: Assignment, centers: Centers) -> tuple[float, float]:
        """Return the shift and the movement of a step from the centers to the means found."""
        if self._last is not None and self._last[0] is found and self._last[1] is centers:
            return self._last[2], self._last[3]
        return super().step(found, centers)

    def turn(self, found: Assignment, centers: Centers) -> Turn:
        """Return the step of unit centers to the directions of the means found, on the host."""
        return turn(found, centers, self._n_threads)

    def mean(self, *, weighted: bool) -> Centers:
        """Return the (d,) mean of all points, rounded as a center."""
        weights = (self.weights, self._weighting) if weighted else (None, None)
        zero = np.zeros((1, self.n_features), dtype=self.dtype)
        mean: Centers = self._like(self._n_threads, *weights).assign(zero).means[0]
        return mean

    def near_ties(
        self, centers: Centers, slack: float
    ) -> tuple[NDArray[np.int64], Distances, Distances]:
        """Return the rows that the bounds cannot tell from a tie."""
        step = self._step
        rows = None
        if step is not None:
            rows = step.clusters.near_ties(step.rows.slack, centers, slack)
        if rows is None:
            return super().near_ties(centers, slack)
        return rows, *self._kernels.two_nearest(rows, centers)

    def _device_labels(self) -> torch.Tensor:
        return self._opened_before().rows.labels

    def _current(self) -> Labels:
        return to_host(self._device_labels())[0]

    def labels(self) -> Labels:
        """Return the current labels (a copy)."""
        return self._current()

    def _labelled(self, clusters: NDArray[np.bool_]) -> NDArray[np.int64]:
        labels = self._device_labels()
        among = to_device(clusters, labels)[labels.long()]
        return to_host(torch.nonzero(among).flatten())[0]

    def snapshot(self) -> DeviceLabels:
        """Return the current labels, on the device."""
        labels = self._device_labels()
        copied, self._copied = self._copied, None
        return DeviceLabels(labels.clone() if copied is None else copied)

    def cost(self, centers: Centers) -> float:
        """Return the exact sum of w D over the points at their labels, rounded once."""
        total = None
        if self._known[0] is centers:
            total = self._known[1]
        if total is not None:
            return total
        labels, masses = self._device_labels(), self._device_weights()
        if self._known[0] is not centers:
            low = self._lows().gap
            total = self._kernels.cost(self._held(centers), labels, masses, low).rounded()
        if total is not None:
            return total
        distances = self._kernels.distances_on_device(centers, labels)
        return self._total_on_device(distances if masses is None else masses * distances)

    def _device_weights(self) -> torch.Tensor | None:
        return None if self._weighting is None else self._weighting.values

    def _total_on_device(self, terms: torch.Tensor) -> float:
        largest = float(terms.max())
        if largest == 0.0:
            return 0.0
        total = self._kernels.total(terms, largest).rounded()
        return exact_sum(terms.cpu().tolist()) if total is None else total

    def total(self, values: NDArray[np.float64]) -> float:
        """Return the exact sum of an array, rounded once."""
        if values.size == 0 or not values.min() >= 0.0:
            return super().total(values)
        return self._total_on_device(to_device(values.ravel(), self.data.X))

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return data rows in the centers' dtype."""
        where = to_device(np.asarray(indices, dtype=np.int64), self.data.X)
        return to_host(self.data.X[where])[0]

    def stored_rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return the same: data on the device is dense."""
        return self.rows(indices)

    def best_candidate(
        self, centers: Centers, masses: Distances | None, most: int
    ) -> tuple[int, float] | None:
        """Return the data point that as one more center gains most; None to leave it to others."""
        labels = self._device_labels()
        distances = self._kernels.distances_on_device(self._held(centers), labels)
        counting = self.weights if masses is None else masses
        if counting is self.weights and self._weighting is not None:
            sent = self._weighting.values
        else:
            sent = None if counting is None else to_device(counting, distances)
        current = CurrentCosts(self.data, distances, sent, self._lows().gap)
        return best_candidate(current, self.order_on_device, most)

    def order(self) -> NDArray[np.int64]:
        """Return the rows in an order that depends on their values alone."""
        if self._order is None:
            self._order = self.order_on_device().cpu().numpy()
        return self._order

    def order_on_device(self) -> torch.Tensor:
        """Return the same as a tensor on the device."""
        if self._order_on_device is None:
            self._order_on_device = lexicographic_order(self.data.X)
        return self._order_on_device

    def spread_rows(self, drawn: NDArray[np.int64], n_trials: int) -> NDArray[np.int64] | None:
        """Return the rows that k-means++ picks, None where its sums have no room."""
        weights = None
        if self.weights is not None:
            weights = to_device(self.weights, self.data.X)
        return spread_rows(self.data, self.order_on_device(), weights, drawn, n_trials)

    def distances_to(self, center: Centers) -> Distances:
        """Return each point's canonical distance to one (d,) center."""
        centers = np.asarray(center, dtype=self.dtype).reshape(1, -1)
        return to_host(self._kernels.distances_on_device(centers, None))[0]

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row, equal for equal values."""
        return to_host(row_hashes(self.data.X))[0].view(np.uint64)

    def sampling(self) -> GpuPart:
        """Return the rows as k-means|| asks for them, on the device."""
        weighting = None if self.weights is None else self._weighting
        return GpuPart(self.data, None if weighting is None else weighting.values, self)

    def far_rows(
        self, centers: Centers, many: int, masses: Distances | None
    ) -> tuple[NDArray[np.int64], Distances, float] | None:
        """Return at least `many` of the farthest points (core.workspace); None if too many tie."""
        labels = self._kernels.labels_on_device(centers)
        distances = self._kernels.distances_on_device(centers, labels)
        counting = self.weights if masses is None else masses
        if counting is not None:
            distances[to_device(counting == 0, distances)] = 0.0
        least = torch.topk(distances, min(many, self.n_points)).values[-1]
        # All that are as far as the last of them, so that ties do not matter.
        among = (distances >= least) & (distances > 0)
        rows = torch.nonzero(among).flatten()
        if len(rows) > _MOST_FAR_ROWS:
            return None
        outside = torch.where(among, 0.0, distances).max().reshape(1)
        found, far, points, left = to_host(rows, distances[rows], self.data.X[rows], outside)
        order = order_on_host(points)
        return found[order], far[order], float(left[0])


def _arrival(buffers: Sequence[NDArray[Any]], record: NDArray[np.float64]) -> Arrival:
    """Return a partition, with shift, movement, gap and moved points of the step to it."""
    centers, residuals, weights = buffers
    moved, _, gap, movement, _, shift, *_ = record.tolist()
    return centers, residuals, weights, shift, movement, gap, int(moved)
