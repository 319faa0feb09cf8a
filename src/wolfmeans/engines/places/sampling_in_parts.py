"""k-means|| over points in parts: rows and distances stay where they are.

`seeding.oversampling` asks for sums and maxima of integers and for a few values. Each of its
questions goes to all parts, and the answers are added up (`exact.limbs.Answer`). A question names
the candidates that it is about. A part keeps the hashes of its rows and the distances to the
candidates of the last question; if they are lost, or are fewer, it finds them from its rows and the
candidates, with the same bits. So a part may be lost and a question repeated without harm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.workspace import Centers
from wolfmeans.engines.sampling import (
    HashMasses,
    Limits,
    Masses,
    Part,
    Rows,
    State,
    merged_masses,
    merged_points,
)
from wolfmeans.exact.hashing import Hashes

if TYPE_CHECKING:
    from wolfmeans.engines.places.workspace import PartsWorkspace


@dataclass(frozen=True)
class Sampling:
    """The progress of a sampling: all that a part needs to restore its state."""

    name: str
    """Of one sampling; candidates of the same one only become more."""
    candidates: Centers
    """(m, d) those so far, in the order of their coming."""


@dataclass(frozen=True)
class Merged:
    """A value that is merged with those of other parts by a function of them all."""

    value: Any
    merge: Callable[[list[Any]], Any]

    def plus(self, others: Sequence[Merged]) -> Merged:
        """Return the value of all."""
        return replace(self, value=self.merge([self.value, *(other.value for other in others)]))


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


class Seeding:
    """The state of a part while seeds are sampled; it may be lost at any time."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._state: State | None = None

    def answer(self, rows: Rows, at: Sampling, question: str, *given: Any) -> Any:
        """Answer a question about the rows and the candidates so far."""
        part = self._part(rows, at)
        answer = _ANSWERS[question](part, *given)
        if question == "owned":
            # The last question: the state is larger than labels are.
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
    "largest": lambda part: Merged(part.largest(), max),
    "bucket_masses": lambda part, *given: Counts.of(part.bucket_masses(*given)),
    "listed": lambda part, *given: Merged(part.listed(*given), merged_masses),
    "points": lambda part, hashes: Merged(part.points(hashes), merged_points),
    "owned": lambda part, shift: Counts.of(part.owned(shift)),
}


class AllParts:
    """All parts as one (`engines.sampling.Parts`)."""

    def __init__(self, points: PartsWorkspace, at: Sampling) -> None:
        self._points, self._at = points, at

    def _asked(self, question: str, *given: Any) -> Any:
        asked = self._points.everywhere(self._at, question, *given)
        return self._points.place.summed("seeding", asked)

    def size(self) -> int:
        """Return the number of rows."""
        return self._points.n_points

    def largest(self) -> float:
        """Return the largest mass of a row."""
        return cast("float", self._asked("largest").value)

    def bucket_masses(self, shift: int, bits: int, key: int = 0, *limits: Limits) -> Masses:
        """Return the (2**bits,) sums of scaled masses by the highest bits, or by the next ones."""
        return cast("Masses", self._asked("bucket_masses", shift, bits, key, *limits).all())

    def listed(self, shift: int, key: int, *limits: Limits) -> HashMasses:
        """Return the masses of the rows whose uniforms are below the limits of their buckets."""
        return cast("HashMasses", self._asked("listed", shift, key, *limits).value)

    def points(self, hashes: Hashes) -> Centers:
        """Return the distinct points of positive weight that have one of these hashes."""
        return cast("Centers", self._asked("points", hashes).value)

    def approach(self, candidates: Centers) -> AllParts:
        """Return the same data with more candidates."""
        all_of_them = np.concatenate([self._at.candidates, candidates])
        return AllParts(self._points, Sampling(self._at.name, all_of_them))

    def owned(self, shift: int) -> Masses:
        """Return the scaled weight of the rows to which each candidate is the nearest."""
        return cast("Masses", self._asked("owned", shift).all())
