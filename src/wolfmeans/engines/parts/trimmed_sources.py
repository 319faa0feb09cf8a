"""Trimming over the chunks of a source: every question that needs rows is a pass over it.

A step takes two passes: one in which distances are found, and one in which the points up to the
threshold are kept. Where distances are kept in between, further questions about the threshold need
no rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wolfmeans.core.workspace import Labels
from wolfmeans.engines.parts.source_points import LabelShelf, ReadPoints
from wolfmeans.engines.parts.trimmed_points import TrimmedParts


class TrimmedSourcePoints(TrimmedParts, ReadPoints):
    """A workspace over the chunks of a source, of which the nearest points of a mass are kept."""

    def snapshot(self) -> Labels:
        """Return the labels: an array in memory, or mapped from a file where there is no room."""
        labels: Labels = self._put_down(self._new_labels(), "labels")
        return labels

    def _of_points(self, method: str, *given: Any) -> Any:
        """Return a number for each point, mapped from a file: in memory there may be no room."""
        shelf = LabelShelf(self.n_points, in_memory=False, dtype=np.float64)
        return self._put_down(shelf, method, *given)

    def _put_down(self, shelf: LabelShelf, method: str, *given: Any) -> Any:
        answers = self._parts.each(method, self._labelled(*given))
        for place, found in zip(self._places.values(), answers, strict=True):
            shelf.put(place, found)
        return shelf.whole()
