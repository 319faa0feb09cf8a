"""A part of the data: an array in memory, processed by one of the engines.

Every question to a part names the labels that it is about. Labels follow from centers, so a part
that has lost them, or has others, finds them again before it answers, with the same bits; lost
bounds cost only time. So a part may be lost and a question repeated without harm.

Where points are trimmed, labels follow from centers and a threshold, which is found over all parts
(`trimmed_parts`).
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

from wolfmeans.core.kmeans import certainly_smaller
from wolfmeans.core.threshold import Masses, Threshold, kept_masses
from wolfmeans.core.workspace import Centers, Distances, Forced, Labels, Partial
from wolfmeans.engines import get_engine
from wolfmeans.engines.places import distance_buckets
from wolfmeans.engines.places.candidates import Eligible
from wolfmeans.engines.places.distance_buckets import Bracket, Nearby, WeightSum
from wolfmeans.engines.places.sampling_in_parts import Sampling, Seeding
from wolfmeans.engines.reference import ReferencePoints, on_host_sums
from wolfmeans.engines.trimming import Trimmed
from wolfmeans.exact.hashing import row_hashes
from wolfmeans.exact.limbs import SCALAR, Grids, Limbs, Range, Several, combined
from wolfmeans.exact.native import digest, value_range


@dataclass(frozen=True)
class Labelling:
    """Labels of a part, by what they follow from: all that is needed to find them again."""

    centers: Centers
    """Each point has the label of the nearest center, except the forced rows."""
    forced: Forced | None
    """Rows of the part whose labels are given; None for none."""
    grids: Grids
    """Where the sums over all parts stand."""
    key: bytes
    """Equal for equal labellings, and practically for no others."""
    threshold: Threshold | None = None
    """The last kept point, its row counted from the part's first one: -1 is before the part, its
    number of rows or more after it. None where nothing is trimmed."""


@dataclass(frozen=True)
class Description:
    """Facts about a part that are needed before work begins."""

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


Arguments = Mapping[int, tuple[Any, ...]]
"""The arguments of a question, for each part that is asked, by its number."""
FarRows = tuple[NDArray[np.int64], Distances, Centers]
Ties = tuple[NDArray[np.int64], Distances, Distances]
"""Rows with their distances to the nearest and second nearest center."""
_FEW_TIES = 1
# Questions that need no more than the distances that were found last, or the labels.
_FROM_DISTANCES = ("nearby", "mass_at", "last_row")
_OF_ROWS = ("points", "sample", "rows_with")
"""Questions of a sampling that need the rows."""
_FROM_LABELS = ("labels", "kept", "shares", "n_trimmed")


@dataclass(frozen=True)
class Ending:
    """The answers that the end of a fit needs."""

    cost: Limbs
    labels: Labels
    ties: Ties | None


class MemoryPart:
    """Rows in memory, and their weights, with the labels of the last question.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        Validated rows, float32 or float64.
    weights : array of shape (n,) or None
        None for ones.
    engine : str
        Which engine works here. For CSR rows it finds nearest centers and distances; exact sums of
        what moved are made by NumPy.
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
        self._opened: ReferencePoints | None = self._open(weights)
        self._labelled: Any = None
        self._grids: Grids | None = None
        self._key: bytes | None = None
        self._n_clusters = 0
        self._buffered: Labels | None = None
        """Labels in a buffer of the caller."""
        self._nearest_key: bytes | None = None
        """The digest of the centers of the last `find_nearest`."""
        self._other_distances: tuple[bytes, Distances] | None = None
        """Distances to centers of another number than the labels have, and their digest."""
        self._seeding = Seeding()
        self._eligible = Eligible()

    def _open(self, weights: NDArray[np.float64] | None) -> ReferencePoints:
        engine, n_threads, algorithm = self._settings
        points: Any = get_engine(engine).open(self._X, weights, n_threads, algorithm)
        if not points.sums_add_up:
            # Native sums of CSR rows have no form that adds up: they give labels and distances.
            points = on_host_sums(self._X, weights, points._kernels, points.engine)
        opened: ReferencePoints = points
        return opened

    @property
    def _points(self) -> ReferencePoints:
        """The rows, without labels."""
        if self._opened is None:
            raise RuntimeError("the rows of this part have been detached")
        return self._opened

    def detach_rows(self, keep: str = "bounds", buffer: Labels | None = None) -> None:
        """Release the rows.

        Labels and bounds stay ("bounds"), where the engine can keep them without rows; labels alone
        stay, in the caller's buffer ("labels"); or "nothing" stays.
        """
        self._X = self._opened = None  # type: ignore[assignment]
        if keep == "bounds" and self._labelled is not None and self._labelled.can_detach_rows:
            self._labelled.detach_rows()
        elif keep == "labels" and buffer is not None and not isinstance(self._labelled, Trimmed):
            if self._labelled is not None:
                buffer[:] = self._labelled.labels()
                self._buffered, self._labelled = buffer, None
        else:
            self.forget()

    def attach_rows(
        self, X: NDArray[np.floating], weights: NDArray[np.float64] | None = None
    ) -> None:
        """Use the same rows and weights again, perhaps at another address.

        The values are not compared; other ones would make labels and sums wrong.
        """
        here = (X.shape, X.dtype, weights is not None)
        if here != self._kind:
            raise ValueError(f"rows must be as they were, {self._kind}; got {here}")
        self._X, self._weights = X, weights
        self._opened = self._open(weights)
        if self._labelled is not None and self._labelled.can_detach_rows:
            self._labelled.attach_rows(X, weights)

    def fork(self, n_threads: int) -> MemoryPart:
        """Return the same part without labels."""
        engine, _, algorithm = self._settings
        return MemoryPart(self._X, self._weights, engine, n_threads, algorithm)

    def forget(self) -> None:
        """Forget the labels."""
        self._labelled = self._key = self._buffered = None
        self._nearest_key = self._other_distances = None

    def forget_seeding(self) -> None:
        """Forget the state of the sampling of seeds."""
        self._seeding = Seeding()

    def knows(self, method: str, *given: Any) -> bool:
        """Whether the part can answer a question without its rows."""
        if method == "seeding":
            return given[1] not in _OF_ROWS and self._seeding.knows(given[0])
        if method in ("ask", "labels"):
            at, question = given[0], "labels" if method == "labels" else given[1]
            if at is None or self._key != at.key or question not in _FROM_LABELS:
                return False
            # Shares of weights need the weights of the points, which are detached with the rows.
            return question == "labels" or (self._is_trimmed() and self._weights is None)
        if method not in _FROM_DISTANCES or not self._is_trimmed():
            return False
        same = self._nearest_key == digest(given[0].centers)
        return bool(same and self._grids == given[0].grids)

    def _is_trimmed(self) -> bool:
        return isinstance(self._labelled, Trimmed)

    # --- Questions about the rows ------------------------------------------------------------

    def describe(self) -> Description:
        """Describe the part, in one look through the data."""
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

    def apply(self, function: Callable[..., Any], *given: Any) -> Any:
        """Return function(rows, weights, *given)."""
        return function(self._X, self._weights, *given)

    def weights(self, rows: NDArray[np.int64] | slice = slice(None)) -> Masses:
        """Return the weights of all rows, or of some."""
        assert self._weights is not None
        return self._weights[rows]

    def rows(self, indices: NDArray[np.int64]) -> Centers:
        """Return some of the rows."""
        return self._points.rows(indices)

    def row_of(self, value: Centers) -> int:
        """Return the first row that is equal to a value, -1 where none is."""
        if sparse.issparse(self._X):
            hashes = self._points.row_hashes()
            rows = np.flatnonzero(hashes == row_hashes(value[np.newaxis])[0])
            equal = rows[(value == self.rows(rows)).all(axis=1)]
        else:
            equal = np.flatnonzero((value == self._X).all(axis=1))
        return int(equal[0]) if len(equal) else -1

    def moments(self, grids: Grids) -> Partial:
        """Return the weight and the sum of all rows; without weights where the grids have none."""
        return self._assigned_to(np.zeros(self._kind[0][1]), grids)[1]

    def scatter(self, mean: Centers, grids: Grids) -> Limbs:
        """Return the sum of w D to one point; without weights where the grids have none."""
        return self._assigned_to(mean, grids)[0].exact_cost(mean[np.newaxis])

    def _assigned_to(self, center: Centers, grids: Grids) -> tuple[ReferencePoints, Partial]:
        """Return all points in one cluster."""
        points = self._open(None if grids.weights is None else self._weights).summing_on(grids)
        return points, points.assign_exactly(center.astype(points.dtype)[np.newaxis])

    def seeding(self, at: Sampling, question: str, *given: Any) -> Any:
        """Answer a question of k-means|| (engines.places.sampling_in_parts)."""
        rows: Any = self._opened
        if rows is None:
            rows = SimpleNamespace(n_points=self._kind[0][0], weights=self._weights)
        return self._seeding.answer(rows, at, question, *given)

    # --- Questions about labels --------------------------------------------------------------

    def assign(self, to: Labelling, at: Labelling | None) -> Partial:
        """Go from one labelling to another; None for first labels, which have no gap."""
        if at is not None:
            self._points_at(at)
        elif self._key is not None:
            self.forget()
        return self._relabel(to)

    def _relabel(self, to: Labelling) -> Partial:
        """Give the points other labels; return the sums of what moved."""
        if to.threshold is not None:
            return self._relabel_trimmed(to, to.threshold)
        unlabelled, points = self._points, self._labelled
        if points is None or self._grids != to.grids or self._is_trimmed():
            points = unlabelled.fork(self._settings[1]).summing_on(to.grids)
        # If this is interrupted, half-finished labels must not pass for the old ones.
        self._labelled = self._key = self._buffered = None
        partial: Partial = points.assign_exactly(to.centers, to.forced)
        self._labelled, self._grids, self._key = points, to.grids, to.key
        self._n_clusters = len(to.centers)
        return partial

    def _points_at(self, at: Labelling) -> Any:
        """Return the points with these labels, found again where they were lost."""
        if self._buffered is not None and self._key == at.key:
            points = self._points.fork(self._settings[1]).summing_on(at.grids)
            points.adopt(self._buffered, at.centers)
            self._labelled, self._grids, self._buffered = points, at.grids, None
            self._n_clusters = len(at.centers)
        if self._labelled is None or self._key != at.key:
            if self._n_clusters != len(at.centers):
                self.forget()
            self._relabel(at)
        return self._labelled

    def _masses(self, at: Labelling | None) -> Masses | None:
        """Return the kept masses at a trimmed labelling, else the weights; None for ones."""
        if at is None or at.threshold is None:
            return self._weights
        return cast("Masses", self._points_at(at).kept())

    def ask(self, at: Labelling | None, method: str, *given: Any) -> Any:
        """Return what a method of the points returns; None where labels do not matter."""
        return getattr(self._points if at is None else self._points_at(at), method)(*given)

    def labels(self, at: Labelling) -> Labels:
        """Return the labels."""
        if self._buffered is not None and self._key == at.key:
            return self._buffered.copy()
        return cast("Labels", self._points_at(at).labels())

    def cost(self, at: Labelling, centers: Centers) -> Limbs:
        """Return the exact sum of w D over the points at their labels."""
        return cast("Limbs", self._points_at(at).exact_cost(centers))

    def cost_and_step(self, at: Labelling, centers: Centers, to: Labelling) -> Several:
        """Return the cost at the labels, and the sums of the step to other labels."""
        return Several((self.cost(at, centers), self.assign(to, at)))

    def ending(self, at: Labelling, centers: Centers, slack: float | None) -> Ending:
        """Return cost and labels, and ties if there is a slack."""
        ties = None if slack is None else self.undecided(at, centers, slack)
        return Ending(self.cost(at, centers), self.labels(at), ties)

    def undecided(self, at: Labelling, centers: Centers, slack: float) -> Ties:
        """Return one row of positive mass that cannot be distinguished from a tie, if any.

        That is by the margin of core.kmeans, whose slack it must be, or a smaller one.
        """
        rows, nearest, second = self._points_at(at).near_ties(centers, slack)
        near = ~certainly_smaller(
            nearest, second, slack, centers.shape[1], self._points.distance_error(centers)
        )
        masses = self._masses(at)
        if masses is not None:
            near &= masses[rows] > 0
        few = np.flatnonzero(near)[:_FEW_TIES]
        return rows[few], nearest[few], second[few]

    def gains(
        self, at: Labelling, centers: Centers, candidates: Centers, masses: Distances | None
    ) -> Limbs:
        """Return for each candidate how much the points nearer to it gain by one more center."""
        points = self._points_at(at)
        distances = points.distances(centers)
        masses = self._masses(at) if masses is None else masses
        totals = []
        for candidate in candidates:
            gains = distances - points.distances_to(candidate)
            won = gains > 0
            terms = gains[won] if masses is None else masses[won] * gains[won]
            totals.append(points.exact_total(terms).values)
        return Limbs(SCALAR, np.concatenate(totals))

    def candidates(
        self, at: Labelling, question: str, name: bytes, centers: Centers, *given: Any
    ) -> Any:
        """Answer a question about the rows off all centers (engines.places.candidates)."""
        return self._eligible.answer(self._points_at(at), question, name, centers, *given)

    def far_rows(
        self, at: Labelling | None, centers: Centers, many: int, masses: Distances | None
    ) -> FarRows:
        """Return up to `many` rows of positive mass off all centers, the farthest first.

        Equally far rows come in the order of their values. The masses are by default the weights,
        or the kept masses at a trimmed labelling. Distances and values come with the rows.
        """
        distances = self._points.nearest(centers)[1]
        masses = self._masses(at) if masses is None else masses
        eligible = distances > 0
        if masses is not None:
            eligible &= masses > 0
        order = self._points.order()
        rows = order[eligible[order]]
        rows = rows[np.argsort(-distances[rows], kind="stable")[:many]]
        return rows, distances[rows], self._points.rows(rows)

    # --- Trimming: `aim` has centers, and no threshold yet -----------------------------------

    def _find_nearest(self, aim: Labelling) -> Trimmed:
        """Return trimmed points that have found the nearest centers; their labels stay."""
        points: Any = self._labelled
        if not self._is_trimmed() or self._grids != aim.grids:
            points = self._points.fork(self._settings[1]).trimmed(math.inf).summing_on(aim.grids)
            self.forget()
            self._labelled, self._grids = points, aim.grids
        centers = digest(aim.centers)
        if self._nearest_key != centers:
            self._nearest_key = None
            points.part_trimmer.find_nearest(aim.centers)
            self._nearest_key = centers
        return cast("Trimmed", points)

    def _relabel_trimmed(self, to: Labelling, threshold: Threshold) -> Partial:
        """Give the points other labels, those beyond the threshold none."""
        if self._key is not None and self._n_clusters != len(to.centers):
            self._labelled = self._key = None
        points = self._find_nearest(to)
        nearest_key = self._nearest_key
        # If this is interrupted, half-finished labels must not pass for the old ones.
        self._labelled = self._key = self._nearest_key = None
        partial = points.part_trimmer.keep(to.centers, threshold)
        self._labelled, self._key, self._nearest_key = points, to.key, nearest_key
        self._n_clusters = len(to.centers)
        return partial

    def _distances(self, aim: Labelling) -> Distances:
        """Return the distances to the nearest of the centers; labels stay what they are."""
        if self._key is None or self._n_clusters == len(aim.centers):
            return self._find_nearest(aim).part_trimmer.nearest_distances()
        centers = digest(aim.centers)
        if self._other_distances is None or self._other_distances[0] != centers:
            self._other_distances = (centers, self._points.nearest(aim.centers)[1])
        return self._other_distances[1]

    def weight_sum(self) -> WeightSum:
        """Return the exact sum of the weights, and their unit."""
        return WeightSum.of(self.weights())

    def nearby(self, aim: Labelling, bracket: Bracket, first_row: int) -> Nearby:
        """Return the masses of points up to the end of a bracket (distance_buckets.nearby)."""
        bits = self._distances(aim).view(np.int64)
        return distance_buckets.nearby(bits, self._weights, aim.grids.totals, bracket, first_row)

    def mass_at(self, aim: Labelling, distance: int) -> Limbs:
        """Return the mass of the points at one distance."""
        tied = self._distances(aim).view(np.int64) == distance
        return distance_buckets.mass_of(tied, self._weights, aim.grids.totals)

    def last_row(self, aim: Labelling, distance: int, missing: int) -> tuple[int, int]:
        """Return the row at one distance that reaches a missing mass, and its kept mass."""
        tied = self._distances(aim).view(np.int64) == distance
        return distance_buckets.last_row(tied, self._weights, aim.grids.totals, missing)

    def kept_cost(self, aim: Labelling, threshold: Threshold) -> Limbs:
        """Return the exact sum of v D if the points up to a threshold were kept."""
        distances = self._distances(aim)
        kept = kept_masses(threshold, distances, self._weights)
        self._other_distances = None  # no question about these centers follows
        return self._points.exact_total(kept * distances)


def lightest(weights: NDArray[np.float64] | None) -> float:
    """Return the smallest positive weight; infinite when there is none."""
    if weights is None:
        return 1.0
    return float(weights.min(where=weights > 0, initial=math.inf))


class MemoryPlace:
    """Parts in this process, asked one after the other."""

    may_gather = True
    each_point = True
    passes_are_slow = False

    def __init__(self, parts: Sequence[MemoryPart]) -> None:
        self.parts = list(parts)

    def __len__(self) -> int:
        return len(self.parts)

    def each(self, method: str, arguments: Arguments) -> Iterator[Any]:
        """Yield the answers of some parts, by number, in the order of the arguments."""
        for number, given in arguments.items():
            yield getattr(self.parts[number], method)(*given)

    def summed(self, method: str, arguments: Arguments) -> Any:
        """Return the sum of the answers (exact.limbs.Answer)."""
        return combined(self.each(method, arguments))

    def of_points(self, method: str, arguments: Arguments, dtype: Any) -> Any:
        """Return a number for each row."""
        return np.concatenate(list(self.each(method, arguments)))

    def fork(self, n_threads: int) -> MemoryPlace:
        """Return the same parts without labels."""
        return MemoryPlace([part.fork(n_threads) for part in self.parts])
