"""k-means|| over points in parts: rows and distances stay where they are.

`seeding.oversampling` asks for sums and maxima of integers and for a few values. Each of its
questions goes to all parts, and the answers are added up (`exact.limbs.Answer`). A question names
the candidates that it is about. A part keeps the hashes of its rows and the distances to the
candidates of the last question; if they are lost, or are fewer, it finds them from its rows and the
candidates, with the same bits. So a part may be lost and a question repeated without harm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from wolfmeans.core.workspace import Centers
from wolfmeans.engines.sampling import ANSWERS, Part, Rows, SeveralParts, State

if TYPE_CHECKING:
    from wolfmeans.engines.places.workspace import PartsWorkspace


@dataclass(frozen=True)
class Sampling:
    """The progress of a sampling: all that a part needs to restore its state."""

    name: str
    """Of one sampling; candidates of the same one only become more."""
    candidates: Centers
    """(m, d) those so far, in the order of their coming."""


class Seeding:
    """The state of a part while seeds are sampled; it may be lost at any time."""

    def __init__(self) -> None:
        self._name: str | None = None
        self._state: State | None = None

    def answer(self, rows: Rows, at: Sampling, question: str, *given: Any) -> Any:
        """Answer a question about the rows and the candidates so far."""
        part = self._part(rows, at)
        answer = ANSWERS[question](part, *given)
        if question in ("owned", "rows_with"):
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


class AllParts(SeveralParts):
    """All parts of a workspace as one (`engines.sampling.Parts`)."""

    def __init__(self, points: PartsWorkspace, at: Sampling) -> None:
        self._points, self._at = points, at

    def _asked(self, question: str, *given: Any) -> Any:
        asked = self._points.everywhere(self._at, question, *given)
        return self._points.place.summed("seeding", asked)

    def size(self) -> int:
        """Return the number of rows."""
        return self._points.n_points

    def approach(self, candidates: Centers) -> AllParts:
        """Return the same data with more candidates."""
        all_of_them = np.concatenate([self._at.candidates, candidates])
        return AllParts(self._points, replace(self._at, candidates=all_of_them))
