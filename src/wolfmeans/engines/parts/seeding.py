"""k-means|| over points in parts: rows stay where they are, and so do their distances.

`oversampling` asks for sums and maxima of integers and for a few values; each of its questions goes
to all parts, and the answers are added on the way (`partial.Answer`). A question says which
candidates it is about. A part keeps the hashes of its rows and the distances to the candidates it
was asked about last; where these were lost, or are fewer, it finds them from its rows and the
candidates, with the same bits. So a part is harmless to lose and a question harmless to repeat.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.engines.base import Centers
from wolfmeans.engines.hashing import Hashes
from wolfmeans.seeding_parts import (
    HashMasses,
    Limits,
    Masses,
    Part,
    Rows,
    State,
    merged_masses,
    merged_points,
)

if TYPE_CHECKING:
    from wolfmeans.engines.parts.points import PartedPoints

SPREADING = ("k-means++", "plain-k-means++", "greedy-k-means++")
"""Seedings that pick one point after the other, each time looking at all of them in one order."""
DRAWN_OTHERWISE = (
    "seeds were drawn by k-means||: init={!r} looks at all points in one place once for each "
    "cluster, and these are in parts; in memory init='k-means||' gives the same"
)


def parallel_seeds_in_parts(
    points: PartedPoints, n_clusters: int, random_state: np.random.RandomState
) -> Centers:
    """Return the (K, d) seeds that init="k-means||" chooses for the same points in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans.engines import get_engine
    >>> from wolfmeans.engines.parts.arrays import ArrayPart, LocalParts
    >>> from wolfmeans.engines.parts.points import PartedPoints
    >>> from wolfmeans.seeding import choose_seeds
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> parts = LocalParts([ArrayPart(X[40:]), ArrayPart(X[:40])])
    >>> seeds = parallel_seeds_in_parts(PartedPoints(parts), 3, np.random.RandomState(0))
    >>> together = get_engine("reference").open(X, None, 1)
    >>> bool((seeds == choose_seeds(together, 3, "k-means||", np.random.RandomState(0))).all())
    True
    """
    from wolfmeans.seeding import parallel_seeds

    sampling = Sampling(uuid.uuid4().hex, np.empty((0, points.n_features), dtype=points.dtype))
    # Candidates are here, and workers may have what is not.
    engine = "reference" if points.engine == "reference" else "auto"
    return parallel_seeds(_Everywhere(points, sampling), n_clusters, random_state, engine)


def seeds_in_parts(
    points: PartedPoints, n_clusters: int, init: str, random_state: np.random.RandomState
) -> Centers:
    """Return seeds for any `init` that has a form in parts."""
    if init != "k-means||" and init not in SPREADING:
        raise NotImplementedError(drawn_by_order(init))
    return parallel_seeds_in_parts(points, n_clusters, random_state)


def drawn_by_order(init: str) -> str:
    """Return why some seeds cannot be drawn in parts."""
    return (
        f"init={init!r} draws rows by the order of all values, which needs all points in one "
        "place, and these are in parts; take init='k-means||', or an array of centers"
    )


def notes_on_seeds(init: Any) -> tuple[str, ...]:
    """Return what a certificate must say about seeds of points in parts."""
    return (DRAWN_OTHERWISE.format(init),) if isinstance(init, str) and init in SPREADING else ()


@dataclass(frozen=True)
class Sampling:
    """How far the sampling has come: all that a part needs to find out what it should know."""

    name: str
    """Of one sampling; candidates of the same one only become more."""
    candidates: Centers
    """(m, d) those so far, in the order of their coming."""


# --- What parts answer -----------------------------------------------------------------------


@dataclass(frozen=True)
class Largest:
    """The largest of some numbers."""

    value: float

    def plus(self, others: Sequence[Largest]) -> Largest:
        """Return the largest of all."""
        return Largest(max(answer.value for answer in (self, *others)))


@dataclass(frozen=True)
class Counts:
    """Sums of integers, one for each of so many slots; those of slots not named are 0.

    A small part has few slots to name, and there are up to 2**18.
    """

    size: int
    slots: NDArray[np.int64] | None
    """(m,) ascending; None for all."""
    masses: Masses
    """(m,)"""

    @staticmethod
    def of(sums: Masses) -> Counts:
        """Name the slots where that is shorter."""
        slots = np.flatnonzero(sums)
        if 2 * len(slots) < len(sums):
            return Counts(len(sums), slots, sums[slots])
        return Counts(len(sums), None, sums)

    def plus(self, others: Sequence[Counts]) -> Counts:
        """Return the sums of all."""
        sums = self.all()
        for other in others:
            sums[slice(None) if other.slots is None else other.slots] += other.masses
        return Counts.of(sums)

    def all(self) -> Masses:
        """Return the (size,) sums."""
        sums = np.zeros(self.size, dtype=np.int64)
        sums[slice(None) if self.slots is None else self.slots] = self.masses
        return sums


@dataclass(frozen=True)
class Listed:
    """What rows of some hashes weigh."""

    found: HashMasses

    def plus(self, others: Sequence[Listed]) -> Listed:
        """Return the sums by hash."""
        return Listed(merged_masses([self.found, *(other.found for other in others)]))


@dataclass(frozen=True)
class Distinct:
    """Distinct points in lexicographic order."""

    points: Centers

    def plus(self, others: Sequence[Distinct]) -> Distinct:
        """Return the distinct ones of all."""
        return Distinct(merged_points([self.points, *(other.points for other in others)]))


class Seeding:
    """What a part knows while seeds are sampled; it may be lost at any time."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._state: State | None = None

    def answer(self, rows: Rows, at: Sampling, question: str, *given: Any) -> Any:
        """Answer a question about the rows and the candidates so far."""
        part = self._part(rows, at)
        answer = _ANSWERS[question](part, *given)
        if question == "owned":
            # Nothing is asked after that, and what was kept is more than the labels are.
            self._name = self._state = None
        return answer

    def knows(self, at: Sampling) -> bool:
        """Whether distances to these candidates are known."""
        state = self._state if self._name == at.name else None
        return state is not None and state.n_candidates == len(at.candidates)

    def _part(self, rows: Rows, at: Sampling) -> Part:
        many = len(at.candidates)
        state = self._state if self._name == at.name else None
        if state is not None and state.n_candidates > many:
            state = State(state.hashes)
        part = Part(rows, state)
        if part.state.n_candidates < many:
            # Of equally near ones the first stays, whether they came at once or one by one.
            part = part.approach(np.ascontiguousarray(at.candidates[part.state.n_candidates :]))
        self._name, self._state = at.name, part.state
        return part


_ANSWERS: dict[str, Callable[..., Any]] = {
    "largest": lambda part: Largest(part.largest()),
    "bucket_masses": lambda part, *given: Counts.of(part.bucket_masses(*given)),
    "listed": lambda part, *given: Listed(part.listed(*given)),
    "points": lambda part, hashes: Distinct(part.points(hashes)),
    "owned": lambda part, shift: Counts.of(part.owned(shift)),
}


class _Everywhere:
    """All parts as one (`seeding_parts.Parts`)."""

    def __init__(self, points: PartedPoints, at: Sampling) -> None:
        self._points, self._at = points, at

    def _asked(self, question: str, *given: Any) -> Any:
        return self._points.summed("seeding", self._at, question, *given)

    def size(self) -> int:
        """Return the number of rows."""
        return self._points.n_points

    def largest(self) -> float:
        """Return the largest mass of a row."""
        largest: float = self._asked("largest").value
        return largest

    def bucket_masses(self, shift: int, bits: int, key: int = 0, *limits: Limits) -> Masses:
        """Return the (2**bits,) sums of scaled masses by the highest bits, or by the next ones."""
        sums: Masses = self._asked("bucket_masses", shift, bits, key, *limits).all()
        return sums

    def listed(self, shift: int, key: int, *limits: Limits) -> HashMasses:
        """Return what the rows weigh whose uniforms are below the limits of their buckets."""
        found: HashMasses = self._asked("listed", shift, key, *limits).found
        return found

    def points(self, hashes: Hashes) -> Centers:
        """Return the distinct points of positive weight that have one of these hashes."""
        points: Centers = self._asked("points", hashes).points
        return points

    def approach(self, candidates: Centers) -> _Everywhere:
        """Return the same data with more candidates."""
        all_of_them = np.concatenate([self._at.candidates, candidates])
        return _Everywhere(self._points, Sampling(self._at.name, all_of_them))

    def owned(self, shift: int) -> Masses:
        """Return the scaled weight of the rows to which each candidate is the nearest."""
        owned: Masses = self._asked("owned", shift).all()
        return owned
