"""What opening data asks of an estimator: its parameters, its memory, how it changes rows.

`CenterEstimator` and `FitFromStarts` (`wolfmeans.estimators`) are such estimators. Layers below
them know an estimator by these protocols only.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from wolfmeans.engines import Chosen
from wolfmeans.files.source import Source
from wolfmeans.inputs.validation import Sizes


class DataEstimator(Protocol):
    """An estimator that reads data, for a fit or with a fitted model."""

    n_clusters: int
    n_threads: int | None
    engine: Any
    init: Any
    empty: Any
    bound: Any

    _unit_rows: bool
    """Whether rows are divided by their norms."""

    def _memory_limit(self) -> int | None:
        """Return the memory limit in bytes; None for no limit."""

    def _as_read(self, source: Source) -> Source:
        """Return a source whose rows are as they are clustered."""

    def _bytes_beside(self, source: Any) -> int:
        """Return the bytes that a fit in chunks needs besides the chunks."""

    def _bytes_of_a_row(self, *, weighted: bool) -> int:
        """Return the bytes that a row needs during a step, beyond those of K-means."""

    def _bytes_of_a_point(self, state: str, weights: Any) -> int | None:
        """Return the bytes of a point in this state beyond those of K-means; None: not possible."""

    def _states_at_once(self) -> int:
        """Return of how many starts labels and bounds are kept at the same time."""


class FittingEstimator(DataEstimator, Protocol):
    """An estimator whose data is opened for a fit."""

    labels_: Any
    _draws_from_sample: bool
    """Whether seeds of data in parts are drawn from a sample of the rows."""

    def _refuse_few_rows(self, n_rows: int) -> None:
        """Raise an error if there are fewer rows than clusters."""

    def _as_clustered(
        self, X: Any, sizes: Sizes, weights: NDArray[np.float64] | None
    ) -> tuple[Any, Sizes, NDArray[np.float64] | None]:
        """Return validated rows in memory as they are clustered."""

    def _chosen_engine(self, X: Any, n_threads: int) -> Chosen:
        """Return the engine for the rows."""

    def _number_of_starts(self) -> int:
        """Return the number of starts."""

    def _tell(self, text: str) -> None:
        """Print a line if the estimator is verbose."""
