"""Data that stays in parts, on workers or in a file: what estimators know of it, and refuse."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.seeding.in_parts import SPREADING, drawn_by_order, notes_on_seeds

_IN_ONE_PLACE = "needs all points in one place, but the data is in parts"
_DRAWING = ("resample", "best")


class Face:
    """What there is to know here about rows that are elsewhere: their shape and a few of them.

    Parameters
    ----------
    given : object
        What the caller gave.
    points : PartsWorkspace
        The rows.
    some : callable
        Returns some hundred of them.
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
        """Some hundred rows."""
        return self._some()


@dataclass(frozen=True)
class Opened:
    """Data in parts that has passed the door."""

    X: Face
    points: PartsWorkspace
    exponent: int
    """The points are 2**exponent times the caller's."""
    where: str
    """Where the parts are, in words."""

    def notes(self, init: Any) -> tuple[str, ...]:
        """Return what a certificate must say."""
        return (*notes_on_seeds(init), f"X stayed in {self.where} during the fit")


def refuse_what_needs_all_points(estimator: Any, *, drawn_from_some: bool = False) -> None:
    """Say at once which settings have no form in parts.

    Where seeds may be drawn from some of the points, there is a form for all kinds of seeds.
    """
    for name in ("polish", "effort"):
        if getattr(estimator, name, None) is not None:
            raise NotImplementedError(
                f"{name}={getattr(estimator, name)!r} {_IN_ONE_PLACE}. Fit with {name}=None"
            )
    certify = vars(estimator)["certify"]
    if certify not in (None, "auto"):
        raise NotImplementedError(
            f"certify={certify!r} {_IN_ONE_PLACE} during a fit. Fit with certify=None, then call "
            "certify(X), which bounds each part by itself"
        )
    if estimator.empty in _DRAWING:
        raise NotImplementedError(
            f"empty={estimator.empty!r} draws rows by the order of all values, which "
            f"{_IN_ONE_PLACE}. Fit with empty='farthest'"
        )
    drawn = isinstance(estimator.init, str) and not drawn_from_some
    if drawn and estimator.init not in ("k-means||", *SPREADING):
        raise NotImplementedError(drawn_by_order(estimator.init))
