"""Scenarios: data, number of clusters, seeding and number of runs.

A scenario has everything that its results depend on. Replication r of it has a random stream of
its own, hashed from (seed, data, n, d, K, repeat, r), and draws its points first and its seeds
then. So runs that differ in seeding, in the treatment of empty clusters or in trimming see the
same points, and more replications begin with the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from hashlib import blake2b
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.choices import SEGMENTATION_FEATURES as SEGMENTATION_FEATURES
from wolfmeans.core.choices import STUDY_SEEDINGS as SEEDINGS
from wolfmeans.core.empty_clusters import POLICIES
from wolfmeans.estimators import KMeans
from wolfmeans.files import datasets
from wolfmeans.inputs import validation
from wolfmeans.study.mixtures import MIXTURES

Points = NDArray[np.float64]
FILE = "file:"
"""The name of a data set from a file begins with this."""


@dataclass(frozen=True)
class Scenario:
    """Runs of K-means on one kind of data, each from other seeds."""

    data: str
    """The kind of mixture that each run draws, or the name of the data set in `points`."""
    n: int
    """Number of points."""
    d: int
    """Number of columns."""
    k: int
    """Number of clusters."""
    seeding: str = "random"
    """Initial centers: "random", "k-means++" or "plain-k-means++"."""
    empty: str = "keep"
    """New centers for empty clusters."""
    alpha: float = 0.0
    """The fraction of points that trimmed K-means leaves out; 0 is K-means."""
    replications: int = 10_000
    """Number of runs."""
    seed: int = 0
    """Seed of all random streams."""
    repeat: int = 0
    """Which of several independent studies of the same seed this belongs to."""
    points: Points | None = field(default=None, repr=False, compare=False)
    """(n, d) the data set, None where it is drawn, or where a result has been read from a file."""

    def __post_init__(self) -> None:
        if self.n < 1 or self.d < 1 or self.replications < 1:
            raise ValueError(f"n, d and replications must be at least 1; got {self}")
        if not 1 <= self.k <= self.n:
            raise ValueError(f"k must be in 1..n; got k={self.k}, n={self.n}")
        if self.seed < 0 or self.repeat < 0:
            raise ValueError(f"seed and repeat must be at least 0; got {self}")
        if not 0.0 <= self.alpha < 1.0:
            raise ValueError(f"alpha must be in [0, 1); got {self.alpha}")
        _check("seeding", self.seeding, SEEDINGS)
        _check("empty", self.empty, tuple(POLICIES))
        if self.alpha > 0.0 and self.empty == "admissible":
            raise ValueError("empty='admissible' is not for trimmed problems; choose another")
        if self.points is not None and self.points.shape != (self.n, self.d):
            raise ValueError(f"points must be {self.n} by {self.d}; got {self.points.shape}")

    @property
    def name(self) -> str:
        """The name of the scenario's files; different settings have different names.

        Examples
        --------
        >>> Scenario("blobs", 500, 2, 5, seeding="k-means++", repeat=3).name
        'blobs-n500-d2-k5-k-means++-repeat3'
        """
        stem = re.sub(r"[^\w.+-]", "_", self.data.removeprefix(FILE))
        name = f"{stem}-n{self.n}-d{self.d}-k{self.k}"
        if self.seeding != "random":
            name += f"-{self.seeding}"
        if self.empty != "keep":
            name += f"-{self.empty}"
        if self.alpha > 0.0:
            name += f"-alpha{self.alpha:g}"
        return name + (f"-repeat{self.repeat}" if self.repeat else "")

    def to_dict(self) -> dict[str, Any]:
        """Return name and settings, without the points."""
        settings = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "points"}
        return {"name": self.name, **settings}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Scenario:
        """Return the scenario that `to_dict` described, without its points."""
        return cls(**{name: value for name, value in settings.items() if name != "name"})

    @cached_property
    def fingerprint(self) -> str | None:
        """A digest of the data set, None where the data is drawn."""
        return (
            None if self.points is None else blake2b(self.points.data, digest_size=16).hexdigest()
        )

    def stream(self, replication: int) -> np.random.Generator:
        """Return the random stream of one replication."""
        entropy = [self.seed, *self._words, self.repeat, replication]
        return np.random.Generator(np.random.SFC64(entropy))

    @cached_property
    def _words(self) -> list[int]:
        # Always four words, so that different settings never give the same list of entropy.
        text = f"{self.data} n={self.n} d={self.d} k={self.k}"
        digest = blake2b(text.encode(), digest_size=16).digest()
        return [int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4)]


def _check(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}")


def grid(
    n: Sequence[int] = (500, 1000, 5000),
    d: Sequence[int] = (2, 5, 10),
    k: Sequence[int] = (5, 10, 20, 50),
    *,
    data: str = "blobs",
    repeats: int = 1,
    **settings: Any,
) -> list[Scenario]:
    """Return scenarios with data drawn anew for every replication; by default the paper's 36.

    Parameters
    ----------
    n, d, k : sequences of int
        Numbers of points, columns and clusters; every combination is a scenario.
    data : {"blobs", "elliptic", "unbalanced", "heavy", "uniform"}, default="blobs"
        The kind of mixture (wolfmeans.study.mixtures).
    repeats : int, default=1
        How many independent studies.
    **settings
        `seeding`, `empty`, `alpha`, `replications` and `seed` of `Scenario`.

    Examples
    --------
    >>> from wolfmeans import study
    >>> len(study.grid()), study.grid()[0].name
    (36, 'blobs-n500-d2-k5')
    """
    _check("data", data, tuple(MIXTURES))
    return [
        Scenario(data, rows, columns, clusters, repeat=repeat, **settings)
        for repeat in range(repeats)
        for rows, columns, clusters in product(n, d, k)
    ]


def segmentation(
    features: Sequence[str] = ("standardized", "raw"),
    *,
    k: int = 7,
    replications: int = 50_000,
    repeats: int = 1,
    **settings: Any,
) -> list[Scenario]:
    """Return the image segmentation data, seeded anew for every replication.

    Parameters
    ----------
    features : sequence of {"standardized", "raw", "shifted"}
        Which 14 columns: z-scores, as they are, or z-scores of the columns one earlier, which the
        paper may mean too.
    k, replications, repeats, **settings
        As in `grid`.

    Examples
    --------
    >>> from wolfmeans import study
    >>> [s.name for s in study.segmentation()]
    ['segmentation-standardized-n2310-d14-k7', 'segmentation-raw-n2310-d14-k7']
    """
    for name in features:
        _check("features", name, SEGMENTATION_FEATURES)
    return [
        scenario
        for name in features
        for scenario in data(
            _segmentation(name),
            f"segmentation-{name}",
            [k],
            replications=replications,
            repeats=repeats,
            **settings,
        )
    ]


def _segmentation(features: str) -> Points:
    if features == "raw":
        return datasets.load_segmentation().data
    return datasets.load_segmentation(earlier=features == "shifted").standardized()


def data(
    X: Any, name: str, k: Sequence[int], *, repeats: int = 1, **settings: Any
) -> list[Scenario]:
    """Return one data set, seeded anew for every replication.

    Parameters
    ----------
    X : array-like of shape (n, d)
        The points; KMeans must accept them. They are clustered as they are: standardize columns
        of different units first.
    name : str
        What the data set is called; one from a file is "file:<stem>".
    k : sequence of int
        Numbers of clusters.
    repeats, **settings
        As in `grid`.

    Examples
    --------
    >>> from wolfmeans import study
    >>> from wolfmeans.files.datasets import load_banknotes
    >>> [s.name for s in study.data(load_banknotes().standardized(), "file:banknotes", [2, 3])]
    ['banknotes-n200-d6-k2', 'banknotes-n200-d6-k3']
    """
    if name in MIXTURES:
        raise ValueError(f"{name!r} is a kind of drawn data; give the data set another name")
    admitted, sizes = validation.validate_points(KMeans(), X, reset=True, n_threads=1)
    if not isinstance(admitted, np.ndarray):
        raise TypeError("a study needs dense data; convert sparse data with .toarray()")
    if validation.scale_exponent(admitted, sizes, None):
        raise ValueError("the squares of this data do not fit into float64; rescale it first")
    points = np.ascontiguousarray(admitted, dtype=np.float64)
    rows, columns = points.shape
    return [
        Scenario(name, rows, columns, clusters, repeat=repeat, points=points, **settings)
        for repeat in range(repeats)
        for clusters in k
    ]
