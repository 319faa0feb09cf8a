"""What the caller adds to a page: ids of rows, columns to color by or to compare with, names.

A column is given by its name, if X is a frame that has it, or as an array with an entry for each
row. X may have such columns beside those that were clustered.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from wolfmeans.views.page.markup import Cell, figures

# More values of a column are numbers on a scale; more words are counted as others.
_MOST_LEVELS = 20
_RANGES = 5
OTHER, MISSING = "other", "missing"
_UNNAMED = {"id": "id", "color": "known label", "compare": "given column"}
"""What a column without a name is called, by the argument that gave it."""


@dataclass(frozen=True)
class Column:
    """A column that was given for the page."""

    name: str
    values: NDArray[Any]
    """(n,) float64 with nan where missing, or texts with "" where missing."""

    @property
    def is_number(self) -> bool:
        """Whether its values are on a scale: numbers, and not only a few whole ones."""
        if self.values.dtype.kind != "f":
            return False
        known = self.values[np.isfinite(self.values)]
        whole = bool((known == np.round(known)).all())
        return not (whole and len(np.unique(known)) <= _MOST_LEVELS)

    def texts(self) -> list[str]:
        """Return the values as texts."""
        if self.values.dtype.kind != "f":
            return [str(value) for value in self.values.tolist()]
        return [_number_text(value) for value in self.values.tolist()]

    def levels(self) -> tuple[list[str], NDArray[np.int64]]:
        """Return the different values, and which of them each row has.

        Numbers on a scale are cut into ranges with about the same number of rows. Beyond 20 words,
        the rare ones are counted together.
        """
        if self.is_number:
            return self._ranges()
        if self.values.dtype.kind == "f":
            known = np.unique(self.values[np.isfinite(self.values)])
            names = [_number_text(value) for value in known.tolist()]
            places = np.searchsorted(known, self.values)
            return _with_missing(names, places, ~np.isfinite(self.values))
        found, places, counts = np.unique(self.values, return_inverse=True, return_counts=True)
        missing = self.values == ""
        counts = np.where(found == "", -1, counts)
        order = np.argsort(-counts, kind="stable")[: len(found) - int(missing.any())]
        names = [str(found[i]) for i in order]
        rank = np.full(len(found), len(order))
        rank[order] = np.arange(len(order))
        if len(names) > _MOST_LEVELS:
            names = [*names[: _MOST_LEVELS - 1], OTHER]
            rank = np.minimum(rank, len(names) - 1)
        return _with_missing(names, rank[places], missing)

    def _ranges(self) -> tuple[list[str], NDArray[np.int64]]:
        known = self.values[np.isfinite(self.values)]
        inner = np.linspace(0, 1, _RANGES + 1)[1:-1]
        cuts = np.unique(np.quantile(known, inner, method="inverted_cdf"))
        cuts = cuts[cuts < known.max()]
        shown = [figures(float(cut), 3) for cut in cuts]
        names = [f"up to {shown[0]}"] if shown else ["all"]
        names += [f"{low} to {high}" for low, high in pairwise(shown)]
        names += [f"above {shown[-1]}"] if shown else []
        places = np.searchsorted(cuts, self.values)
        return _with_missing(names, places, ~np.isfinite(self.values))


def _with_missing(
    names: list[str], places: NDArray[Any], missing: NDArray[np.bool_]
) -> tuple[list[str], NDArray[np.int64]]:
    if missing.any():
        names, places = [*names, MISSING], np.where(missing, len(names), places)
    return names, places.astype(np.int64)


def _number_text(value: float) -> str:
    if not math.isfinite(value):
        return ""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"


@dataclass(frozen=True)
class Given:
    """What was given for the page, and the data without it."""

    X: Any
    """The columns that were clustered."""
    labels: Any
    id: Column | None
    color: Column | None
    compare: tuple[Column, ...]


def given_columns(
    model: Any, X: Any, labels: Any, id: Any, color: Any, compare: Any, names: Sequence[str] | None
) -> Given:
    """Find the columns that were asked for, and leave those out of X that were not clustered."""
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    found = _Finder(X, n, names)
    if isinstance(labels, str):
        labels = found.entries(labels, "labels")
    ids = None if id is None else found.column(id, "id")
    several = found.columns(compare, "compare")
    left_out = list(found.named)
    shade = None if color is None else found.column(color, "color")
    if isinstance(color, str) and shade is not None and shade.values.dtype.kind != "f":
        left_out.append(color)
    return Given(_clustered(model, X, left_out), labels, ids, shade, several)


def _clustered(model: Any, X: Any, left_out: Sequence[str]) -> Any:
    """Return X without columns that were not clustered."""
    own = _column_names(X)
    if own is None:
        return X
    last = model[-1] if isinstance(model, Pipeline) else model
    known = getattr(model, "feature_names_in_", None)
    if known is not None:
        wanted = [str(name) for name in known]
        if not set(wanted) <= set(own):
            return X
    else:
        wanted = [name for name in own if name not in left_out]
        if model is not None and getattr(last, "n_features_in_", len(own)) == len(own):
            return X
    if len(wanted) == len(own):
        return X
    return X.select(wanted) if hasattr(X, "column_names") else X[wanted]


def _column_names(X: Any) -> list[str] | None:
    names = getattr(X, "column_names", None)
    if names is None:
        names = getattr(X, "columns", None)
    return None if names is None else [str(name) for name in names]


class _Finder:
    """Finds columns by their names."""

    def __init__(self, X: Any, n: int, names: Sequence[str] | None) -> None:
        self.X, self.n = X, n
        self.own = _column_names(X)
        self.names = None if names is None else [str(name) for name in names]
        self.named: list[str] = []
        """Names of columns of X that were asked for."""

    def entries(self, name: str, option: str) -> NDArray[Any]:
        """Return a column of X."""
        self.named.append(name)
        if self.own is not None and name in self.own:
            column = self.X.column(name) if hasattr(self.X, "column_names") else self.X[name]
            return np.asarray(column)
        if self.own is None and self.names is not None and name in self.names:
            entries = self.X[:, [self.names.index(name)]]
            entries = entries.toarray() if hasattr(entries, "toarray") else np.asarray(entries)
            return np.asarray(entries).ravel()
        there = self.own or self.names
        has = f"it has {', '.join(there[:12])}" if there else "its columns have no names"
        raise ValueError(f"{option}: X has no column {name!r}; {has}")

    def column(self, asked: Any, option: str, name: str | None = None) -> Column:
        """Return a column that is given by its name or as an array."""
        if isinstance(asked, str):
            return Column(asked, _plain(self.entries(asked, option)))
        if isinstance(asked, Mapping) and len(asked) == 1:
            [(name, asked)] = asked.items()
        values = np.asarray(asked)
        if values.shape != (self.n,):
            raise ValueError(
                f"{option} must have one entry for each row: X has {self.n:,} rows, "
                f"{option} has shape {values.shape}"
            )
        own = getattr(asked, "name", None)
        return Column(name or (_UNNAMED[option] if own is None else str(own)), _plain(values))

    def columns(self, asked: Any, option: str) -> tuple[Column, ...]:
        """Return several columns: a name, names, an array, or a mapping from names to arrays."""
        if asked is None:
            return ()
        if isinstance(asked, str):
            return (self.column(asked, option),)
        if isinstance(asked, Mapping):
            return tuple(self.column(values, option, str(name)) for name, values in asked.items())
        names = _column_names(asked)
        if names is not None:
            return tuple(self.column(asked[name], option, name) for name in names)
        if len(asked) != self.n and all(isinstance(name, str) for name in asked):
            return tuple(self.column(name, option) for name in asked)
        return (self.column(asked, option),)


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers as float64, and everything else as texts."""
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    if values.dtype.kind == "O" and all(_is_number(value) for value in values.tolist()):
        return np.array([math.nan if value is None else float(value) for value in values.tolist()])
    texts = ["" if _is_missing(value) else str(value) for value in values.tolist()]
    return np.array(texts, dtype=np.str_)


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _is_missing(value: Any) -> bool:
    return value is None or value != value or str(value) in ("NaT", "<NA>", "nan")


def cluster_names(
    asked: Mapping[Any, Any] | Sequence[Any] | None, labels: Sequence[str]
) -> tuple[str, ...] | None:
    """Return a name for each cluster; None if none were given.

    `labels` are the labels of the clusters as texts. A dict may name some of them; the others keep
    their label.

    Examples
    --------
    >>> cluster_names({1: "large"}, ["0", "1"]), cluster_names(["small", "large"], ["0", "1"])
    (('0', 'large'), ('small', 'large'))
    """
    if asked is None:
        return None
    if isinstance(asked, Mapping):
        given = {str(label): str(name) for label, name in asked.items()}
        unknown = [label for label in given if label not in labels]
        if unknown:
            raise ValueError(
                f"cluster_names: there is no cluster {unknown[0]!r}; the clusters are "
                f"{', '.join(labels[:12])}{', …' if len(labels) > 12 else ''}"
            )
        names = tuple(given.get(label, label) for label in labels)
    else:
        if isinstance(asked, str) or len(asked) != len(labels):
            many = 1 if isinstance(asked, str) else len(asked)
            raise ValueError(
                f"cluster_names: there are {len(labels)} clusters and {many} names for them; "
                "a dict names only some of them"
            )
        names = tuple(str(name) for name in asked)
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"cluster_names: two clusters would be called {twice!r}")
    return names


@dataclass(frozen=True)
class Names:
    """What the clusters are called."""

    labels: tuple[str, ...]
    """Their labels."""
    shown: tuple[str, ...]
    """The same, or the names that were given to them."""

    @property
    def given(self) -> bool:
        """Whether some of them have a name."""
        return self.shown != self.labels

    def cell(self, index: int) -> Cell:
        """Return a cell with a cluster's name and color, empty for -1."""
        if index < 0:
            return Cell("", math.nan)
        return Cell(self.shown[index], index, cluster=index, words=self.wordy)

    def head(self, index: int) -> Cell:
        """Return the head of a cluster's column."""
        name = self.shown[index]
        return Cell(name, index, cluster=index, title=name if self.wordy else f"cluster {name}")

    @property
    def wordy(self) -> bool:
        """Whether they are more than numbers."""
        return not all(name.lstrip("-").isdigit() for name in self.shown)
