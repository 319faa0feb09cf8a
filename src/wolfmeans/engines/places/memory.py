"""A part of the data: an array in memory, worked on by one of the engines.

What a part is asked for always says which labels it is about. Labels follow from centers, so a part
that has lost them, or has others, finds them again before it answers, with the same bits; bounds it
has lost cost time and nothing else. That makes a part harmless to lose and a question harmless to
repeat.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wolfmeans.core.threshold import Threshold
from wolfmeans.core.workspace import Centers, Distances, Forced, Labels, Partial
from wolfmeans.engines import get_engine
from wolfmeans.engines.labelled import LabelledPoints, on_host_sums
from wolfmeans.engines.native import DensePoints
from wolfmeans.engines.places.candidates import Eligible
from wolfmeans.engines.places.seeding import Sampling, Seeding
from wolfmeans.engines.places.trimming import TrimmingPart
from wolfmeans.engines.trimming import Trimmed
from wolfmeans.exact.distances import certainly_smaller
from wolfmeans.exact.hashing import row_hashes
from wolfmeans.exact.limbs import SCALAR, Grids, Limbs, Range, Several, combined
from wolfmeans.exact.native import value_range


@dataclass(frozen=True)
class Labelling:
    """Labels of a part, by what they follow from: all that is needed to find them again."""

    centers: Centers
    """Each point has the label of the nearest of these,"""
    forced: Forced | None
    """but for these rows of the part."""
    grids: Grids
    """Where the sums over all parts stand."""
    key: bytes
    """Equal for equal labellings, and practically for no others."""
    threshold: Threshold | None = None
    """The last point that is kept, its row counted from the part's first one: -1 is before the
    part, its number of rows or more behind it. None where nothing is trimmed."""


@dataclass(frozen=True)
class Description:
    """What is to be known of a part before work begins."""

    n_points: int
    n_features: int
    dtype: np.dtype[Any]
    """The centers' dtype."""
    engine: str
    weighted: bool
    finite: bool
    """Whether no number is NaN or infinite; the rest means nothing if one is."""
    smallest: float
    """The smallest magnitude in the data but 0; 0 when there is none."""
    largest: float
    grids: Grids
    """Where exact sums over this part alone would stand."""
    lightest: float = 1.0
    """The smallest positive weight; infinite when there is none."""
    sparse: bool = False
    """Whether rows are CSR, whose canonical distance is another one."""


FarRows = tuple[NDArray[np.int64], Distances, Centers]
Ties = tuple[NDArray[np.int64], Distances, Distances]
"""Rows with their distances to the nearest and second nearest center."""
_FEW_TIES = 1


@dataclass(frozen=True)
class Ending:
    """What is asked at the end of a fit."""

    cost: Limbs
    labels: Labels
    ties: Ties | None


class MemoryPart(TrimmingPart):
    """Rows in memory, and their weights, with the labels that were asked for last.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Validated rows, float32 or float64.
    weights : array of shape (n,) or None
        None for ones.
    engine : str
        Which engine works here. For CSR rows and on the GPU it finds nearest centers and distances;
        exact sums of what moved are made on the host.
    """

    def __init__(
        self,
        X: NDArray[np.floating],
        weights: NDArray[np.float64] | None = None,
        engine: str = "auto",
        n_threads: int = 1,
        algorithm: str = "auto",
    ) -> None:
        self._X, self._weights = X, weights
        self._kind = (X.shape, X.dtype, weights is not None)
        self._settings = (engine, n_threads, algorithm)
        self._opened: LabelledPoints | None = self._open(weights)
        self._labelled: Any = None
        self._grids: Grids | None = None
        self._key: bytes | None = None
        self._n_clusters = 0
        self._shelved: Labels | None = None
        self._seeding = Seeding()
        self._eligible = Eligible()

    def _open(self, weights: NDArray[np.float64] | None) -> LabelledPoints:
        engine, n_threads, algorithm = self._settings
        points: Any = get_engine(engine).open(self._X, weights, n_threads, algorithm)
        if type(points) is not LabelledPoints and type(points) is not DensePoints:
            # Only these make sums that add up: for CSR rows and on a device, labels and distances
            # come from there, and sums of what moved are made on the host.
            points = on_host_sums(self._X, weights, points._kernels, points.engine)
        opened: LabelledPoints = points
        return opened

    @property
    def _points(self) -> LabelledPoints:
        """The rows, without labels."""
        if self._opened is None:
            raise RuntimeError("the rows of this part have been put away")
        return self._opened

    def put_away(self, keep: str = "bounds", shelf: Labels | None = None) -> None:
        """Let go of the rows.

        What stays of labels and bounds: both ("bounds"), where the engine keeps them by themselves;
        the labels alone, on a shelf of somebody's ("labels"); or "nothing".
        """
        self._X = self._weights = self._opened = None  # type: ignore[assignment]
        if keep == "bounds" and self._labelled is not None and self._labelled.can_put_away:
            self._labelled.put_away()
        elif keep == "labels" and shelf is not None and not isinstance(self._labelled, Trimmed):
            if self._labelled is not None:
                shelf[:] = self._labelled.labels()
                self._shelved, self._labelled = shelf, None
        else:
            self.forget()

    def bring(self, X: NDArray[np.floating], weights: NDArray[np.float64] | None = None) -> None:
        """Take the same rows and weights again, wherever they are now.

        Whether they are the same is not looked at: what was kept is then wrong.
        """
        here = (X.shape, X.dtype, weights is not None)
        if here != self._kind:
            raise ValueError(f"rows must be as they were, {self._kind}; got {here}")
        self._X, self._weights = X, weights
        self._opened = self._open(weights)
        if self._labelled is not None and self._labelled.can_put_away:
            self._labelled.bring(X, weights)

    def fork(self, n_threads: int) -> MemoryPart:
        """Return the same part without labels."""
        engine, _, algorithm = self._settings
        return MemoryPart(self._X, self._weights, engine, n_threads, algorithm)

    def forget(self) -> None:
        """Lose the labels."""
        self._labelled = self._key = self._shelved = None
        self._ahead = self._elsewhere = None

    def forget_seeding(self) -> None:
        """Lose what was kept while seeds were sampled."""
        self._seeding = Seeding()

    def has(self, at: Labelling) -> bool:
        """Whether these labels are here, and need no rows."""
        return self._key == at.key and (self._labelled is not None or self._shelved is not None)

    def apply(self, function: Callable[..., Any], *given: Any) -> Any:
        """Return function(rows, weights, *given)."""
        return function(self._X, self._weights, *given)

    def describe(self) -> Description:
        """Look through the data once."""
        points, weights = self._points, self._weights
        n_threads = self._settings[1]
        values: Any = self._X.data if sparse.issparse(self._X) else self._X
        finite, smallest, largest = value_range(values, n_threads)
        if weights is not None:
            finite = finite and value_range(weights, n_threads)[0]
        return Description(
            n_points=points.n_points,
            n_features=points.n_features,
            dtype=points.dtype,
            engine=points.engine,
            weighted=weights is not None,
            finite=finite,
            smallest=smallest,
            largest=largest,
            grids=points.ranges() if finite else Grids(Range(), None),
            lightest=lightest(weights),
            sparse=sparse.issparse(self._X),
        )

    def assign(self, to: Labelling, at: Labelling | None) -> Partial:
        """Go from one labelling to another; None for first labels, which have no gap."""
        if at is not None:
            self._having(at)
        elif self._key is not None:
            self.forget()
        return self._go(to)

    def _go(self, to: Labelling) -> Partial:
        if to.threshold is not None:
            return self._keep(to, to.threshold)
        unlabelled, points = self._points, self._labelled
        if points is None or self._grids != to.grids or isinstance(points, Trimmed):
            points = unlabelled.fork(self._settings[1]).summing_on(to.grids)
        # Whatever happens in between, nobody takes half-finished labels for the old ones.
        self._labelled = self._key = self._shelved = None
        partial: Partial = points.assign_exactly(to.centers, to.forced)
        self._labelled, self._grids, self._key = points, to.grids, to.key
        self._n_clusters = len(to.centers)
        return partial

    def _having(self, at: Labelling) -> LabelledPoints:
        """Return the points with these labels."""
        if self._shelved is not None and self._key == at.key:
            points = self._points.fork(self._settings[1]).summing_on(at.grids)
            points.adopt(self._shelved, at.centers)
            self._labelled, self._grids, self._shelved = points, at.grids, None
            self._n_clusters = len(at.centers)
        if self._labelled is None or self._key != at.key:
            if self._n_clusters != len(at.centers):
                self.forget()
            self._go(at)
        assert self._labelled is not None
        return cast("LabelledPoints", self._labelled)

    def cost(self, at: Labelling, centers: Centers) -> Limbs:
        """Return the exact sum of w D over the points at their labels."""
        return self._having(at).exact_cost(centers)

    def labels(self, at: Labelling) -> Labels:
        """Return the labels."""
        if self._shelved is not None and self._key == at.key:
            return self._shelved.copy()
        return self._having(at).labels()

    def cost_and_step(self, at: Labelling, centers: Centers, to: Labelling) -> Several:
        """Return the cost at the labels, and what going on to others does."""
        return Several((self.cost(at, centers), self.assign(to, at)))

    def distances(self, at: Labelling, centers: Centers) -> Distances:
        """Return each point's canonical distance to the center of its label."""
        return self._having(at).distances(centers)

    def near_ties(
        self, at: Labelling, centers: Centers, slack: float
    ) -> tuple[NDArray[np.int64], Distances, Distances]:
        """Return rows that may be near a tie, with their distances (Workspace.near_ties)."""
        return self._having(at).near_ties(centers, slack)

    def ending(self, at: Labelling, centers: Centers, slack: float | None) -> Ending:
        """Answer all that is asked at the end of a fit; about ties where there is a slack."""
        ties = None if slack is None else self.undecided(at, centers, slack)
        return Ending(self.cost(at, centers), self.labels(at), ties)

    def undecided(self, at: Labelling, centers: Centers, slack: float) -> Ties:
        """Return a few rows of positive weight that cannot be told from a tie, if there are any.

        That is by the margin of core.kmeans, whose slack it must be, or a smaller one.
        """
        rows, nearest, second = self.near_ties(at, centers, slack)
        near = ~certainly_smaller(
            nearest, second, slack, centers.shape[1], self._points.distance_error(centers)
        )
        if self._weights is not None:
            near &= self._weights[rows] > 0
        few = np.flatnonzero(near)[:_FEW_TIES]
        return rows[few], nearest[few], second[few]

    def losses_without(self, at: Labelling, centers: Centers, gone: NDArray[np.bool_]) -> Distances:
        """Return what the points lose whose nearest center is among those gone."""
        return self._having(at).losses_without(centers, gone)

    def gains(
        self, at: Labelling, centers: Centers, candidates: Centers, masses: Distances | None
    ) -> Limbs:
        """Return what the points gain by each of some more centers, those that come nearer."""
        points = self._having(at)
        distances = points.distances(centers)
        if masses is None:
            masses = self._weights if at.threshold is None else self.kept(at)
        totals = []
        for candidate in candidates:
            gains = distances - points.distances_to(candidate)
            won = gains > 0
            terms = gains[won] if masses is None else masses[won] * gains[won]
            totals.append(points.exact_total(terms).values)
        return Limbs(SCALAR, np.concatenate(totals))

    def candidates(
        self, at: Labelling, name: bytes, centers: Centers, question: str, *given: Any
    ) -> Any:
        """Answer a question about the rows off all centers (engines.places.candidates)."""
        return self._eligible.answer(self._having(at), name, centers, question, *given)

    def row_of(self, value: Centers) -> int:
        """Return the first row that is equal to a value, -1 where none is."""
        if sparse.issparse(self._X):
            rows = np.flatnonzero(self.row_hashes() == row_hashes(value[np.newaxis])[0])
            equal = rows[(value == self.rows(rows)).all(axis=1)]
        else:
            equal = np.flatnonzero((value == self._X).all(axis=1))
        return int(equal[0]) if len(equal) else -1

    def moments(self, grids: Grids) -> Partial:
        """Return the weight and the sum of all rows; without weights where the grids have none."""
        points = self._open(None if grids.weights is None else self._weights).summing_on(grids)
        return points.assign_exactly(np.zeros((1, points.n_features), dtype=points.dtype))

    def scatter(self, mean: Centers, grids: Grids) -> Limbs:
        """Return the sum of w D to one point; without weights where the grids have none."""
        points = self._open(None if grids.weights is None else self._weights).summing_on(grids)
        center = np.ascontiguousarray(mean)[np.newaxis]
        points.assign_exactly(center)
        return points.exact_cost(center)

    def distances_to(self, center: Centers) -> Distances:
        """Return each point's canonical distance to one (d,) center."""
        return self._points.distances_to(center)

    def nearest(self, centers: Centers) -> tuple[Labels, Distances]:
        """Return nearest labels and canonical distances."""
        return self._points.nearest(centers)

    def roots(self, centers: Centers) -> Centers:
        """Return the (n, K) square roots of the canonical distances to all centers."""
        return self._points.roots(centers)

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return some of the rows."""
        return self._points.rows(indices)

    def row_hashes(self) -> NDArray[np.uint64]:
        """Return a hash of each row, equal for equal values."""
        return self._points.row_hashes()

    def seeding(self, at: Sampling, question: str, *given: Any) -> Any:
        """Answer a question of k-means|| (engines.places.seeding)."""
        return self._seeding.answer(self._points, at, question, *given)

    def can_seed(self, at: Sampling, question: str) -> bool:
        """Whether such a question needs no rows, because distances to the candidates are here."""
        return question != "points" and self._seeding.knows(at)

    def seeding_without_rows(self, weights: Any, at: Sampling, question: str, *given: Any) -> Any:
        """Answer it; the weights are given again."""
        away: Any = SimpleNamespace(n_points=self._kind[0][0], weights=weights)
        return self._seeding.answer(away, at, question, *given)

    def weights(self) -> NDArray[np.float64] | None:
        """Return the weights."""
        return self._weights

    def weights_of(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the weights of some rows."""
        return np.ones(len(rows)) if self._weights is None else self._weights[rows]

    def far_rows(self, centers: Centers, many: int, masses: Distances | None) -> FarRows:
        """Return up to `many` rows of positive mass off all centers: the farthest, the first first.

        Among rows that are as far the order of their values decides. Distances and the rows
        themselves come with them.
        """
        distances = self._points.nearest(centers)[1]
        masses = self._weights if masses is None else masses
        eligible = distances > 0
        if masses is not None:
            eligible &= masses > 0
        order = self._points.order()
        rows = order[eligible[order]]
        rows = rows[np.argsort(-distances[rows], kind="stable")[:many]]
        return rows, distances[rows], self._points.rows(rows)


def lightest(weights: NDArray[np.float64] | None) -> float:
    """Return the smallest positive weight; infinite when there is none."""
    if weights is None:
        return 1.0
    return float(weights.min(where=weights > 0, initial=math.inf))


class MemoryPlace:
    """Parts in this process, asked one after the other."""

    may_gather = True
    each_point = True

    def __init__(self, parts: Sequence[MemoryPart]) -> None:
        self.parts = list(parts)

    def __len__(self) -> int:
        return len(self.parts)

    def each(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Iterator[Any]:
        """Ask some parts, by their numbers; the answers come in the order of the arguments."""
        for number, given in arguments.items():
            yield getattr(self.parts[number], method)(*given)

    def summed(self, method: str, arguments: Mapping[int, tuple[Any, ...]]) -> Any:
        """Return the sum of the answers (exact.limbs.Answer)."""
        return combined(self.each(method, arguments))

    def fork(self, n_threads: int) -> MemoryPlace:
        """Return the same parts without labels."""
        return MemoryPlace([part.fork(n_threads) for part in self.parts])

    def of_points(
        self, method: str, arguments: Mapping[int, tuple[Any, ...]], dtype: Any = np.int32
    ) -> Any:
        """Return a number for each row."""
        return np.concatenate(list(self.each(method, arguments)))
