"""The multilevel start: centers from samples, each some times as large as the one before.

A value is in a sample if the uniform of its hash is below the sample's share. So chance is tied to
values: rows in another order, in parts or on another engine give the same samples, a weight of two
acts as two copies, and a smaller sample is part of a larger one.

On the smallest sample, greedy k-means++ and Lloyd's steps find more centers than clusters are
wanted: with as many, some clusters would have two centers and others none. The spare ones are
merged in the end, where that costs least (`seeding.merging`). Small clusters far from the centers
are not in the sample. They are found in one pass over all rows: values are drawn with probability
q2 = min(1, L M / T), where M is the value's part of the sum T of w D, as in a round of k-means||.
The union of a sample of share q1 and of these values has a value with probability
q = 1 - (1 - q1)(1 - q2). With the weight w / q, sums over the union have the expectation of sums
over all rows. Exchanges (`fitting.search`) on the first union, descents on the next ones and a step
on the whole data end in the clusters that are merged.

With many columns, the halves of one cluster in a small sample are as far apart as two clusters are.
After a sample that is *thin* in this sense, more steps on the whole data precede the mergers. With
few rows for each cluster there are no samples: more centers than wanted are chosen among all rows,
take some steps, and are merged.

A descent on a sample of m values ends when a step gains less than a share of K / m: the inertia of
the sample's own centers is about this much below that of the best centers for all rows.

To the theory this is a start like any other. The loop, its gap and its guarantee begin at the
seeds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.draws import RandomSource, scaled
from wolfmeans.core.frank_wolfe import minimize_concave
from wolfmeans.core.kmeans import KMeansProblem, Partition
from wolfmeans.core.stopping import DecreaseRule
from wolfmeans.core.workspace import Centers, Workspace
from wolfmeans.engines import get_engine
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.engines.sampling import Part, Parts, RowSample, merged_samples
from wolfmeans.exact.hashing import stream, uniforms
from wolfmeans.fitting.search import search
from wolfmeans.seeding.in_parts import all_parts
from wolfmeans.seeding.merging import MOST_MERGED, merged_centers
from wolfmeans.seeding.methods import (
    choose_seeds,
    enough_rows,
    smallest_sample,
    worth_sampling,
)
from wolfmeans.seeding.oversampling import Drawn, draw_by_mass

_ENOUGH_PER_CLUSTER, _SMALLEST_SHARE = 64, 8
"""The smallest sample has so many values for each cluster if they are an eighth of all."""
_GROWTH, _LARGEST_SHARE, _MOST_ENTRIES = 4, 8, 1 << 22
"""A sample has four times the values of the last, at most an eighth of all, and so many numbers."""
_SPARE = 1.25
"""The number of values is estimated: so much more than the largest sample is drawn."""
_MORE = 1.5
"""Centers for each cluster before they are merged."""
_THIN = 2
"""A sample is thin with fewer values for each cluster than so many for each column."""
_STEPS, _STEPS_IF_THIN = 1, 4
"""On the whole data, before centers are merged."""
_MORE_FROM_ALL, _STEPS_FROM_ALL = 1.2, 5
"""The same with few rows for each cluster, where there are no samples."""
_FAR_PER_CLUSTER = 2
_CONCENTRATED, _MOST_FAR_ROUNDS = 0.05, 4
_MOST_ROUNDS, _IN_VAIN = 8, 2
_NOISE = 0.1
_MOST_STEPS = 100


def multilevel_seeds(
    workspace: Workspace, n_clusters: int, random: RandomSource, n_threads: int = 1
) -> Centers | None:
    """Return (K, d) seeds; None if other seeds serve better.

    That is so for few rows, for few distinct ones, and for few per cluster in parts.
    """
    if not enough_rows(workspace.n_points):
        return None
    # Samples are on this machine, and small.
    engine = "reference" if workspace.engine == "reference" else "auto"
    levels = _Levels(n_clusters, random, engine, n_threads)
    if not worth_sampling(workspace.n_points, n_clusters):
        return None if workspace.in_parts else _seeds_from_all(workspace, levels)
    parts: Parts
    if isinstance(workspace, PartsWorkspace):
        parts = all_parts(workspace)
    else:
        own = workspace.sampling()
        parts = Part(workspace) if own is None else own
    seed = int(random().randint(0, np.iinfo(np.int64).max, dtype=np.int64))
    samples = _Samples.draw(parts, n_clusters, workspace.n_features, stream(seed, 0))
    if samples is None:
        return None
    found = _clusters(parts, samples, levels, stream(seed, 1))
    thin = samples.sizes[0] < _THIN * workspace.n_features * n_clusters
    steps = _STEPS_IF_THIN if thin else _STEPS
    return levels.merged(levels.descended(workspace, found.centers, math.inf, steps))


def _clusters(parts: Parts, samples: _Samples, levels: _Levels, key: int) -> Partition:
    """Return clusters of the largest sample, more of them than are wanted."""
    points = levels.opened(samples.at(0))
    seeds = choose_seeds(points, levels.more(_MORE), "k-means++", levels.random())
    found = levels.descended(points, seeds, samples.sizes[0])
    rounds = _far_values(parts, found.centers, levels, key)
    hashes = np.unique(np.concatenate([drawn.hashes for drawn, _ in rounds]))
    samples = samples.joined(parts.rows_with(hashes).values, rounds, levels)
    more = [centers for _, centers in rounds[1:]]
    if sum(map(len, more), len(seeds)) <= MOST_MERGED and more:
        # One center for each value that was drawn, and then as few as before.
        points = levels.opened(samples.at(0))
        everything = np.concatenate([found.centers, *more])
        found = levels.descended(points, everything, samples.sizes[0])
        found = replace(found, centers=levels.merged(found, len(seeds)))
    for place, size in enumerate(samples.sizes):
        points, centers = levels.opened(samples.at(place)), found.centers
        if place == 0:
            centers = levels.exchanged(points, centers, size, samples.rounds)
        found = levels.descended(points, centers, size)
    return found


def _far_values(
    parts: Parts, centers: Centers, levels: _Levels, key: int
) -> list[tuple[Drawn, Centers]]:
    """Draw values by distance; the centers of later rounds are the values drawn before.

    Where a few values have much of the mass, clusters far away were missed, and the farthest of
    them hide the others: these are drawn in another round.
    """
    rounds: list[tuple[Drawn, Centers]] = []
    while True:
        parts = parts.approach(centers)
        expected = _FAR_PER_CLUSTER * levels.n_clusters
        drawn = draw_by_mass(parts, expected, stream(key, len(rounds)) if rounds else key)
        rounds.append((drawn, centers))
        hidden = drawn.mass > _CONCENTRATED * drawn.total
        if not hidden or len(rounds) == _MOST_FAR_ROUNDS:
            return rounds
        centers = parts.points(drawn.hashes)


def _seeds_from_all(workspace: Workspace, levels: _Levels) -> Centers | None:
    """Return seeds where a sample would have too few rows for each cluster."""
    many = levels.more(_MORE_FROM_ALL)
    if many == levels.n_clusters:
        return None
    seeds = choose_seeds(workspace, many, "k-means++", levels.random())
    return levels.merged(levels.descended(workspace, seeds, math.inf, _STEPS_FROM_ALL))


def bytes_of_samples(n_points: int, n_features: int, n_clusters: int, itemsize: int) -> int:
    """Return about how much memory the samples, and the costs of merging centers, take."""
    largest = _SPARE * _sizes(n_points, n_features, n_clusters)[-1]
    rows = int(largest) + 2 * _FAR_PER_CLUSTER * n_clusters
    merged = min(math.ceil(_MORE * n_clusters), MOST_MERGED)
    return 2 * rows * (n_features * itemsize + 32) + 3 * 8 * merged**2


def _sizes(n_values: float, n_features: int, n_clusters: int) -> list[int]:
    """Return the expected numbers of values in all samples."""
    more = int(min(_ENOUGH_PER_CLUSTER * n_clusters, n_values / _SMALLEST_SHARE))
    sizes = [max(smallest_sample(n_clusters), more)]
    most = min(n_values / _LARGEST_SHARE, _MOST_ENTRIES / n_features)
    while sizes[-1] * _GROWTH <= most:
        sizes.append(sizes[-1] * _GROWTH)
    return sizes


@dataclass(frozen=True)
class _Samples:
    """Nested samples, and values that were drawn by distance."""

    sizes: list[int]
    n_values: float
    """An estimate of the number of distinct rows, the same for all copies of the data."""
    rows: RowSample
    """The values of the largest sample, and the drawn ones."""
    uniforms: NDArray[np.float64]
    """(m,) of the values: one is in a sample whose share is above."""
    far: NDArray[np.float64] | float = 0.0
    """(m,) q2: the probability of a value to be drawn by distance."""
    drawn: NDArray[np.bool_] | bool = False
    """(m,) whether it was."""

    @property
    def rounds(self) -> int:
        """Rounds of exchanges, which take about as long as a pass over all rows."""
        return min(_MOST_ROUNDS, max(1, int(self.n_values) // (2 * self.sizes[0])))

    @classmethod
    def draw(cls, parts: Parts, n_clusters: int, n_features: int, key: int) -> _Samples | None:
        """Draw the largest sample; None if there are few values beside the smallest one."""
        n, m = parts.size(), smallest_sample(n_clusters)
        share = _SPARE * _sizes(n, n_features, n_clusters)[-1] / n
        while True:
            rows = parts.sample(key, share).values
            chances = uniforms(rows.hashes, key)
            # The m smallest of V uniforms are below m / V, nearly.
            n_values = m / np.partition(chances, m - 1)[m - 1] if len(chances) >= m else 0.0
            if not worth_sampling(n_values or len(chances) / share, n_clusters):
                return None
            sizes = _sizes(n_values, n_features, n_clusters)
            needed = sizes[-1] / n_values if n_values else share + 1e-9
            if needed <= share:
                break
            share = max(_SPARE * needed, _GROWTH * share)
        here = chances < needed
        return cls(sizes, float(n_values), rows[here], chances[here])

    def joined(
        self, further: RowSample, rounds: list[tuple[Drawn, Centers]], levels: _Levels
    ) -> _Samples:
        """Return the unions with values that were drawn by distance."""
        new = ~np.isin(further.hashes, self.rows.hashes)
        rows = merged_samples([self.rows, further[new]])
        # Further values are in no sample.
        chances = np.full(len(rows.hashes), np.inf)
        chances[np.isin(rows.hashes, self.rows.hashes)] = self.uniforms
        points = levels.opened(rows)
        nearest: NDArray[np.float64] | float = np.inf
        missed: NDArray[np.float64] | float = 1.0
        for drawn, centers in rounds:
            nearest = np.minimum(nearest, points.nearest(centers)[1])
            far = drawn.share(scaled(rows.weights * nearest, drawn.shift))
            missed = missed * (1.0 - np.minimum(far, 1.0))
        there = np.isin(rows.hashes, further.hashes)
        return replace(self, rows=rows, uniforms=chances, far=1.0 - missed, drawn=there)

    def at(self, place: int) -> RowSample:
        """Return a sample, or its union with the drawn values, with their weights."""
        share = self.sizes[place] / self.n_values
        here = (self.uniforms < share) | self.drawn
        chance = 1.0 - (1.0 - share) * (1.0 - np.broadcast_to(self.far, here.shape)[here])
        rows = self.rows[here]
        return replace(rows, weights=rows.weights / chance)


@dataclass(frozen=True)
class _Levels:
    """How the samples are worked on."""

    n_clusters: int
    random: RandomSource
    engine: str
    n_threads: int

    def more(self, times: float) -> int:
        """Return the number of centers that are merged in the end."""
        return max(self.n_clusters, min(math.ceil(times * self.n_clusters), MOST_MERGED))

    def opened(self, sample: RowSample) -> Workspace:
        """Open a sample; equal weights only take time."""
        equal = bool((sample.weights == sample.weights[0]).all())
        weights = None if equal else sample.weights
        return get_engine(self.engine).open(sample.points, weights, self.n_threads)

    def merged(self, found: Partition, n_clusters: int | None = None) -> Centers:
        """Merge clusters until there are so many, or as many as are wanted."""
        many = self.n_clusters if n_clusters is None else n_clusters
        return merged_centers(found.centers, found.weights, many, self.engine)

    def exchanged(self, points: Workspace, centers: Centers, size: int, rounds: int) -> Centers:
        """Take Lloyd's steps, and exchange centers for data points where that gains."""
        found, _ = search(
            points,
            self.descended(points, centers, size).centers,
            self.random,
            rounds=rounds,
            give_up_after=_IN_VAIN,
            tolerance=_NOISE * len(centers) / size,
            n_threads=self.n_threads,
        )
        return found

    def descended(
        self, points: Workspace, centers: Centers, size: float, most: int = _MOST_STEPS
    ) -> Partition:
        """Take Lloyd's steps, the first of which makes a partition."""
        # A workspace keeps to one number of centers.
        problem = KMeansProblem(points.fork(self.n_threads), "farthest", self.random)
        first = problem.partition(centers)
        if most == 1:
            return first
        rule = DecreaseRule(_NOISE * len(centers) / size * first.sse)
        # The last step is evaluated, and counts.
        return minimize_concave(problem, first, stop=rule, max_iter=most - 2).vertex
