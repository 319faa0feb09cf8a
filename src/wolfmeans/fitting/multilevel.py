"""The multilevel start: centers from samples, each some times as large as the one before.

A value is in a sample if the uniform of its hash is below the sample's share. So chance is tied to
values: rows in another order, in parts or on another engine give the same samples, a weight of two
acts as two copies, and a smaller sample is part of a larger one.

Greedy k-means++ and a short search by exchanges (`fitting.search`) find centers on the smallest
sample, where they cost little. Small clusters far from these are not in the sample. They are found
in one pass over all rows: values are drawn with probability q2 = min(1, L M / T), where M is the
value's part of the sum T of w D, as in a round of k-means||. The union of a sample of share q1 and
of these values has a value with probability q = 1 - (1 - q1)(1 - q2). With the weight w / q, sums
over the union have the expectation of sums over all rows. Exchanges on the first union and descents
on the next ones end in seeds for the whole data.

A descent on a sample of m values ends when a step gains less than a share of K / m: the inertia of
the sample's own centers is about this much below that of the best centers for all rows.

To the theory this is a start like any other. The loop, its gap and its guarantee begin at the
seeds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.draws import RandomSource, scaled
from wolfmeans.core.frank_wolfe import minimize_concave
from wolfmeans.core.kmeans import KMeansProblem
from wolfmeans.core.stopping import DecreaseRule
from wolfmeans.core.workspace import Centers, Workspace
from wolfmeans.engines import get_engine
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.engines.sampling import Part, Parts, RowSample, merged_samples
from wolfmeans.exact.hashing import stream, uniforms
from wolfmeans.fitting.search import search
from wolfmeans.seeding.in_parts import all_parts
from wolfmeans.seeding.methods import choose_seeds, smallest_sample, worth_sampling
from wolfmeans.seeding.oversampling import Drawn, draw_by_mass

_ENOUGH_PER_CLUSTER, _SMALLEST_SHARE = 64, 8
"""The smallest sample has so many values for each cluster if they are an eighth of all."""
_GROWTH, _LARGEST_SHARE, _MOST_ENTRIES = 4, 8, 1 << 22
"""A sample has four times the values of the last, at most an eighth of all, and so many numbers."""
_SPARE = 1.25
"""The number of values is estimated: so much more than the largest sample is drawn."""
_FAR_PER_CLUSTER = 2
_MOST_ROUNDS, _IN_VAIN = 8, 2
_NOISE = 0.1
_MOST_STEPS = 100


def multilevel_seeds(
    workspace: Workspace, n_clusters: int, random: RandomSource, n_threads: int = 1
) -> Centers | None:
    """Return (K, d) seeds; None if other seeds serve better.

    That is so for few distinct rows (`worth_sampling`).
    """
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
    # Samples are on this machine, and small.
    engine = "reference" if workspace.engine == "reference" else "auto"
    # Rounds take about as long as a pass over all rows.
    rounds = min(_MOST_ROUNDS, max(1, int(samples.n_values) // (2 * samples.sizes[0])))
    levels = _Levels(n_clusters, random, engine, n_threads, rounds)
    return _seeds(parts, samples, levels, stream(seed, 1))


def _seeds(parts: Parts, samples: _Samples, levels: _Levels, key: int) -> Centers:
    points = levels.opened(samples.at(0))
    centers = choose_seeds(points, levels.n_clusters, "k-means++", levels.random())
    centers = levels.exchanged(points, centers, samples.sizes[0])
    drawn = draw_by_mass(parts.approach(centers), _FAR_PER_CLUSTER * levels.n_clusters, key)
    samples = samples.joined(parts.rows_with(drawn.hashes).values, drawn, centers, levels)
    for place, size in enumerate(samples.sizes):
        work = levels.exchanged if place == 0 else levels.descended
        centers = work(levels.opened(samples.at(place)), centers, size)
    return centers


def bytes_of_samples(n_points: int, n_features: int, n_clusters: int, itemsize: int) -> int:
    """Return about how much memory the samples take."""
    largest = _SPARE * _sizes(n_points, n_features, n_clusters)[-1]
    rows = int(largest) + 2 * _FAR_PER_CLUSTER * n_clusters
    return 2 * rows * (n_features * itemsize + 32)


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
        self, further: RowSample, drawn: Drawn, centers: Centers, levels: _Levels
    ) -> _Samples:
        """Return the unions with values that were drawn by distance."""
        new = ~np.isin(further.hashes, self.rows.hashes)
        rows = merged_samples([self.rows, further[new]])
        # Further values are in no sample.
        chances = np.full(len(rows.hashes), np.inf)
        chances[np.isin(rows.hashes, self.rows.hashes)] = self.uniforms
        distances = levels.opened(rows).nearest(centers)[1]
        far = drawn.share(scaled(rows.weights * distances, drawn.shift))
        there = np.isin(rows.hashes, drawn.hashes)
        return replace(self, rows=rows, uniforms=chances, far=np.minimum(far, 1.0), drawn=there)

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
    rounds: int

    def opened(self, sample: RowSample) -> Workspace:
        """Open a sample; equal weights only take time."""
        equal = bool((sample.weights == sample.weights[0]).all())
        weights = None if equal else sample.weights
        return get_engine(self.engine).open(sample.points, weights, self.n_threads)

    def exchanged(self, points: Workspace, centers: Centers, size: int) -> Centers:
        """Take Lloyd's steps, and exchange centers for data points where that gains."""
        found, _ = search(
            points,
            self.descended(points, centers, size),
            self.random,
            rounds=self.rounds,
            give_up_after=_IN_VAIN,
            tolerance=_NOISE * self.n_clusters / size,
            n_threads=self.n_threads,
        )
        return found

    def descended(self, points: Workspace, centers: Centers, size: int) -> Centers:
        """Take Lloyd's steps."""
        problem = KMeansProblem(points, "farthest", self.random)
        first = problem.partition(centers)
        rule = DecreaseRule(_NOISE * self.n_clusters / size * first.sse)
        return minimize_concave(problem, first, stop=rule, max_iter=_MOST_STEPS).vertex.centers
