"""Data for the study: bundled by name, or a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wolfmeans.commands.points import choose
from wolfmeans.files import datasets, tables
from wolfmeans.files.atomic import shown

BUNDLED = {"iris": 3, "banknotes": 2, "wine": 3, "digits": 10}
"""Names of the bundled data sets, with their numbers of classes."""


@dataclass(frozen=True)
class Numbers:
    """The numeric columns of some data."""

    name: str
    data: NDArray[np.float64]
    dropped: tuple[str, ...] = ()
    """Names of the columns that are not numbers."""
    remarks: tuple[str, ...] = ()
    """Remarks about how the file was read, to be printed."""
    classes: int | None = None
    """Number of classes, if known."""

    def standardized(self) -> NDArray[np.float64]:
        """Return the columns as z-scores; constant columns become 0."""
        with np.errstate(over="ignore", invalid="ignore"):  # refused below
            spread = self.data.std(axis=0)
            centered = self.data - self.data.mean(axis=0)
        if not np.isfinite(spread).all():
            raise ValueError("the values are too large to standardize; rescale the columns")
        return np.asarray(centered / np.where(spread > 0, spread, 1.0), dtype=np.float64)


def read(source: str) -> Numbers:
    """Return bundled data or the numbers in a file."""
    if source in BUNDLED:
        return Numbers(source, _bundled(source), classes=BUNDLED[source])
    path = Path(source)
    if not path.exists():
        names = ", ".join(BUNDLED)
        raise FileNotFoundError(f"no such file: {source}; bundled data sets: {names}")
    table = tables.read([source])
    points = choose(table)
    dropped = tuple(name for name in table.names if name not in points.names)
    return Numbers(
        shown(path.stem), points.data.astype(np.float64, copy=False), dropped, table.remarks
    )


def _bundled(name: str) -> NDArray[np.float64]:
    if name == "banknotes":
        return datasets.load_banknotes().data
    import sklearn.datasets

    loaded = getattr(sklearn.datasets, f"load_{name}")()
    return np.asarray(loaded.data, dtype=np.float64)
