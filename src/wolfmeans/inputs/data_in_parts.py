"""Data that stays in parts, on workers or in a file, and settings that it does not support."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.inputs.estimator import DataEstimator
from wolfmeans.seeding.in_parts import SPREADING, drawn_by_order, notes_on_seeds

_IN_ONE_PLACE = "needs all points in one place, but the data is in parts"
_DRAWING = ("resample", "best")


class DataInParts:
    """Takes the place of X if its rows are on workers or in a file: shape, dtype and a sample.

    Parameters
    ----------
    given : object
        The X of the caller.
    points : PartsWorkspace
        The rows.
    some : callable
        Returns a few hundred rows.
    """

    def __init__(
        self, given: Any, points: PartsWorkspace, some: Callable[[], NDArray[np.floating]]
    ) -> None:
        self.collection = given
        self.shape = (points.n_points, points.n_features)
        self.dtype = points.dtype
        self._some = some

    @cached_property
    def sample(self) -> NDArray[np.floating]:
        """A few hundred rows."""
        return self._some()


@dataclass(frozen=True)
class Opened:
    """Validated data in parts."""

    X: DataInParts
    points: PartsWorkspace
    exponent: int
    """The points are 2**exponent times the caller's."""
    where: str
    """Where the parts are, in words."""

    def notes(self, init: Any) -> tuple[str, ...]:
        """Return the notes for the certificate."""
        return (*notes_on_seeds(init), f"X stayed in {self.where} during the fit")


def refuse_what_needs_all_points(
    estimator: DataEstimator, *, drawn_from_some: bool = False
) -> None:
    """Reject settings that need all points in one place.

    If seeds may be drawn from some of the points, all kinds of seeds are supported.
    """
    for name in ("polish", "effort"):
        if getattr(estimator, name, None) is not None:
            raise NotImplementedError(
                f"{name}={getattr(estimator, name)!r} {_IN_ONE_PLACE}. Fit with {name}=None"
            )
    if estimator.bound not in (None, "auto"):
        raise NotImplementedError(
            f"bound={estimator.bound!r} {_IN_ONE_PLACE} during a fit. Fit with bound=None, then "
            "call certify(X), which bounds each part by itself"
        )
    if estimator.empty in _DRAWING:
        raise NotImplementedError(
            f"empty={estimator.empty!r} draws rows by the order of all values, which "
            f"{_IN_ONE_PLACE}. Fit with empty='farthest'"
        )
    drawn = isinstance(estimator.init, str) and not drawn_from_some
    if drawn and estimator.init not in ("k-means||", *SPREADING):
        raise NotImplementedError(drawn_by_order(estimator.init))
