"""The cost of a step on parts of the data, as formulas: seconds, bytes, tasks and memory.

Coefficients are seconds on the machine where they were measured (`scale_measured.py`). The symbols
are those of docs/scale.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from wolfmeans.bench.problems import Shape
from wolfmeans.core.draws import INTEGER_BITS
from wolfmeans.engines.places.dask_places import _GROUPS, _SMALL, FAN_IN
from wolfmeans.exact.limbs import _MOST_FAST_BITS
from wolfmeans.inputs.memory_budget import _GROUPED_COLUMNS, _SEEDING
from wolfmeans.seeding.oversampling import (
    _FEW_VALUES,
    _HASH_BITS,
    _MOST_BUCKET_BITS,
    _OVERSAMPLING,
    _ROUNDS,
)

GROUPED = _GROUPED_COLUMNS
"""From so many columns on there are bounds by groups of centers, which cost something else."""
BUCKETS = 1 << _MOST_BUCKET_BITS
QUESTIONS = 1 + 1 + 3 + 1 + 4 * _ROUNDS + 1
"""Of a sampling: the largest weight, buckets, some three attempts, the first one, four in a round,
and owners."""
ROUNDS = _ROUNDS
SEEDING_BYTES = _SEEDING


def relative_fit(
    features: Sequence[Sequence[float]],
    seconds: Sequence[float],
    of: Sequence[float] | None = None,
) -> list[float]:
    """Return coefficients, none negative, by least squares of the errors relative to `of`.

    That is the seconds themselves, or those of which they are the rest.
    """
    scale = 1.0 / np.asarray(seconds if of is None else of, dtype=float)
    columns = np.asarray(features, dtype=float) * scale[:, np.newaxis]
    # Columns of one size, or the solver would take small ones for nothing.
    sizes = np.linalg.norm(columns, axis=0)
    sizes[sizes == 0] = 1.0
    found = nnls(columns / sizes, np.asarray(seconds, dtype=float) * scale)[0] / sizes
    return [float(value) for value in found]


def limbs(numbers: float) -> int:
    """Return how many int64 an exact sum takes, of so many float32 numbers around zero.

    The smallest of m numbers is some m times smaller than the largest, and has 24 bits below.
    """
    span = 24 + 3 + math.log2(numbers)
    return math.ceil(span / _MOST_FAST_BITS) + 1


@dataclass(frozen=True)
class Work:
    """Seconds of one core for the points of a step."""

    point: float
    """A point in the first step: this, and"""
    column: float
    """for each of its numbers,"""
    center: float
    """for each center,"""
    product: float
    """for each number and center."""
    kept: float = 0.0
    """A point in a later step, whose bounds are looked at."""
    again: float = 1.0
    """A point that these leave open, as a share of what it cost in the first step."""

    @staticmethod
    def features(shape: Shape) -> list[float]:
        """Return what the coefficients of a first step are multiplied with."""
        n, d, k = shape.n, shape.d, shape.n_clusters
        return [n, n * d, n * k, n * d * k]

    def first(self, shape: Shape) -> float:
        """Return the seconds of the first step."""
        own = (self.point, self.column, self.center, self.product)
        return sum(a * b for a, b in zip(own, self.features(shape), strict=True))

    def later(self, shape: Shape, open_share: float) -> float:
        """Return the seconds of a step in which bounds leave a share of the points open."""
        return self.kept * shape.n + self.again * open_share * self.first(shape)


@dataclass(frozen=True)
class Dispatch:
    """What a step on a cluster takes beside the work."""

    step: float = 0.0
    """Whatever there is to do."""
    task: float = 0.0
    """A task: for client, scheduler and worker."""
    byte: float = 0.0
    """A byte that is pickled, sent and read."""


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """Measured seconds; some are fitted with the others known, and are 0 until then."""

    few_columns: Work
    many_columns: Work
    asked: float
    """Seconds to ask for a step and to end it, here, whatever there is to do."""
    part: float
    """A part that is asked."""
    entry: float
    """An int64 of a part's sums: taken from the part and added."""
    mean: float
    """An entry of the centers, rounded and judged."""
    cores: Dispatch = Dispatch()
    """Seconds of all cores."""
    wall: Dispatch = Dispatch()
    """Wall-clock seconds; processes wait for each other most of the time."""
    beside: float
    """How much longer a core takes for points while the others of its machine work, too."""
    empty_task: float = 0.0
    """A task that does nothing, among many."""
    warm: float
    """A byte of a file that the system has in memory."""
    cold: float
    """A byte of a file that it has not."""
    chunk: float = 0.0
    """A chunk, beside its points."""
    brought: float = 0.0
    """A byte of a chunk: rows that come from a file are in no cache, and looked at once more."""
    sampled_point: float = 0.0
    """Seeding: a point, in all questions;"""
    sampled_column: float = 0.0
    """each of its numbers, hashed;"""
    sampled_product: float = 0.0
    """each of its numbers and candidates;"""
    chosen: float = 0.0
    """on the client, a number, a candidate and a cluster."""
    state: dict[str, float]
    """Bytes of a point beside its numbers, by shape."""
    early: dict[str, float]
    """The share of open points in the first steps but three, by shape."""
    late: dict[str, float]
    """The same about the fortieth step."""

    def work(self, d: int) -> Work:
        """Return the coefficients for so many columns."""
        return self.few_columns if d < GROUPED else self.many_columns

    def entries(self, shape: Shape) -> int:
        """Return how many int64 the sums of all clusters take."""
        return shape.n_clusters * shape.d * limbs(shape.n * shape.d)

    def points(self, shape: Shape, open_share: float | None) -> float:
        """Return the seconds of one core with the points; a share of None is the first step."""
        work = self.work(shape.d)
        return work.first(shape) if open_share is None else work.later(shape, open_share)

    def parts(self, shape: Shape, n_parts: float) -> float:
        """Return the seconds that go with parts, whatever is in them."""
        return n_parts * (self.part + self.entry * self.entries(shape))

    def client(self, shape: Shape) -> float:
        """Return the seconds of the client."""
        return self.asked + self.mean * shape.n_clusters * shape.d

    def in_memory(self, shape: Shape, n_parts: int, open_share: float | None) -> float:
        """Return the seconds of a step of parts in one process, one core."""
        points = self.points(shape, open_share)
        return points + self.parts(shape, n_parts) + self.client(shape)

    def on_cluster(
        self, shape: Shape, n_blocks: int, cluster: Cluster, open_share: float | None
    ) -> Step:
        """Return what a step on a cluster takes, by the clock on the wall."""
        return self._step(shape, n_blocks, cluster, open_share, self.wall)

    def _step(
        self,
        shape: Shape,
        n_blocks: int,
        cluster: Cluster,
        open_share: float | None,
        dispatch: Dispatch,
    ) -> Step:
        groups = cluster.groups(n_blocks)
        centers = shape.n_clusters * shape.d * 4
        sums = 8 * self.entries(shape)
        inner, levels = tree(groups)
        sent = centers * (groups if centers <= _SMALL else cluster.workers)
        # One of eight is where they are added, as a rule; the last ones come to the client.
        moved = sums * (groups * (FAN_IN - 1) / FAN_IN if inner else 0)
        last = sums * top(groups)
        adding = levels * FAN_IN * self.entries(shape) * self.entry
        # Workers of one machine have its memory and cores for all that travels; apart, they send
        # at the same time, and a step waits for the longest way.
        waited = moved if cluster.one_machine else levels * (FAN_IN - 1) * sums
        crowd = self.beside if cluster.one_machine and cluster.cores > 1 else 1.0
        return Step(
            points=crowd * self.points(shape, open_share) / cluster.cores,
            parts=crowd * self.parts(shape, n_blocks) / cluster.at_once,
            tasks=dispatch.step + dispatch.task * (groups + inner + (centers > _SMALL)),
            travel=dispatch.byte * (sent + last + waited) + adding,
            client=self.client(shape),
            n_tasks=groups + inner,
            bytes=sent + moved + last,
        )

    def on_cores(
        self, shape: Shape, n_blocks: int, cluster: Cluster, open_share: float | None
    ) -> float:
        """Return the seconds of all cores for such a step, without waiting."""
        step = self._step(shape, n_blocks, cluster, open_share, self.cores)
        more = step.points * (cluster.cores - 1) + step.parts * (cluster.at_once - 1)
        return step.seconds + more

    def streamed(
        self, shape: Shape, n_chunks: int, open_share: float | None, cores: int = 1
    ) -> float:
        """Return the seconds of all cores for a pass over a file in the page cache."""
        brought = n_chunks * self.chunk + shape.n * shape.d * 4 * self.brought / cores
        points = self.points(shape, open_share) / cores
        return points + self.parts(shape, n_chunks) + brought + self.client(shape)

    def out_of_core(
        self, shape: Shape, n_chunks: int, open_share: float | None, cores: int, byte: float
    ) -> float:
        """Return the seconds of a pass over a file: the next chunk is read while one is used."""
        reading = shape.n * shape.d * 4 * byte
        return max(reading, self.streamed(shape, n_chunks, open_share, cores))

    def seeding(self, shape: Shape, cores: int = 1) -> float:
        """Return the seconds of k-means||, but for what travels."""
        many = candidates(shape.n_clusters)
        for_point = self.sampled_point + shape.d * (
            self.sampled_column + many * self.sampled_product
        )
        return shape.n * for_point / cores + self.chosen * many * shape.n_clusters * shape.d


@dataclass(frozen=True)
class Cluster:
    """Workers of a kind."""

    workers: int
    threads_of_dask: int = 1
    """For each worker: how many tasks it takes at once."""
    threads_of_a_task: int = 1
    """`n_threads`."""
    one_machine: bool = False

    @property
    def threads(self) -> int:
        """How many tasks Dask gives out at once."""
        return self.workers * self.threads_of_dask

    @property
    def at_once(self) -> int:
        """How many of them run at once: on one machine no more than there are cores."""
        return min(self.threads, os.cpu_count() or 1) if self.one_machine else self.threads

    @property
    def cores(self) -> int:
        """How many cores are at work."""
        cores = self.threads * self.threads_of_a_task
        return min(cores, os.cpu_count() or 1) if self.one_machine else cores

    def groups(self, n_blocks: int) -> int:
        """Return into how many groups blocks are put (engines.places.dask_places)."""
        return min(n_blocks, _GROUPS * self.threads)


@dataclass(frozen=True)
class Step:
    """Seconds of a step on a cluster, and what is behind them."""

    points: float
    parts: float
    tasks: float
    travel: float
    client: float
    n_tasks: int
    bytes: float

    @property
    def seconds(self) -> float:
        """All of them."""
        return self.points + self.parts + self.tasks + self.travel + self.client


def tree(groups: int) -> tuple[int, int]:
    """Return how many tasks add the answers of groups on the workers, and in how many levels."""
    inner = levels = 0
    while groups > FAN_IN:
        groups = -(-groups // FAN_IN)
        inner, levels = inner + groups, levels + 1
    return inner, levels


def top(groups: int) -> int:
    """Return how many answers come to the client."""
    while groups > FAN_IN:
        groups = -(-groups // FAN_IN)
    return groups


def candidates(n_clusters: int) -> int:
    """Return how many candidates k-means|| has in the end, about."""
    return 1 + _ROUNDS * _OVERSAMPLING * n_clusters


def listed(n: float, n_clusters: int) -> float:
    """Return how many values a round of k-means|| tells the client where all are distinct."""
    return _OVERSAMPLING * n_clusters + _values_listed(n, n_clusters)[-1]


def refinements(n: float, n_clusters: int) -> int:
    """Return how often a round puts values into buckets again before it asks for them."""
    return len(_values_listed(n, n_clusters)) - 1


def _values_listed(n: float, n_clusters: int) -> list[float]:
    """Return how many values beyond the sampled ones are listed, after each refinement."""
    share = _OVERSAMPLING * n_clusters / BUCKETS
    values, bits = [share * n], BUCKETS.bit_length() - 1
    while values[-1] > _FEW_VALUES and (len(values) + 1) * bits <= _HASH_BITS and share < 0.5:
        values.append(share * values[-1])
    return values


def mass_bits(n: float) -> int:
    """Return how many bits below the largest mass there are in k-means||."""
    return INTEGER_BITS - math.floor(n).bit_length()
