"""The bundled data sets (sources and licences: wolfmeans/files/data/README.md)."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Dataset:
    """Numbers, names of the columns, and the known classes."""

    data: NDArray[np.float64]
    """(n, d) the features."""
    feature_names: tuple[str, ...]
    """Names of the columns."""
    target: NDArray[np.str_]
    """(n,) the class of each row."""

    def standardized(self) -> NDArray[np.float64]:
        """Return the columns as z-scores."""
        centered = self.data - self.data.mean(axis=0)
        return np.asarray(centered / self.data.std(axis=0), dtype=np.float64)


def load_segmentation(*, earlier: bool = False) -> Dataset:
    """Return the image segmentation data: 2310 rows, the 14 continuous features, 7 classes.

    With `earlier`, the 14 columns start and end one column earlier, with a count of lines and
    without the hue: the other reading of the paper's "columns 6 through 19".

    Examples
    --------
    >>> from wolfmeans.files.datasets import load_segmentation
    >>> load_segmentation().data.shape
    (2310, 14)
    """
    header, rows = _read("segmentation.csv")
    first, last = header.index("vedge-mean") - earlier, header.index("hue-mean") - earlier
    return _dataset(header, rows, range(first, last + 1), header.index("category"))


def load_banknotes() -> Dataset:
    """Return the Swiss banknotes: 200 rows, 6 measurements, genuine ("0") or forged ("1").

    Examples
    --------
    >>> from wolfmeans.files.datasets import load_banknotes
    >>> load_banknotes().data.shape
    (200, 6)
    """
    header, rows = _read("banknotes.csv")
    return _dataset(header, rows, range(1, len(header)), header.index("status"))


def _read(name: str) -> tuple[list[str], list[list[str]]]:
    text = (files(__package__) / "data" / name).read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    return header, rows


def _dataset(header: list[str], rows: list[list[str]], columns: range, target: int) -> Dataset:
    return Dataset(
        data=np.array([[float(row[j]) for j in columns] for row in rows]),
        feature_names=tuple(header[j] for j in columns),
        target=np.array([row[target] for row in rows]),
    )
