"""What a portrait of a clustering consists of: frozen records of NumPy arrays, nothing drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Cluster:
    """One cluster in numbers."""

    index: int
    points: int
    """How many points carry this label."""
    weight: float
    """Their total weight; the same as `points` when nothing is weighted."""
    share: float
    """`weight` as a share of the weight of all points."""
    sse: float
    """Sum of the weighted squared distances to the center, in the units of the certificate."""
    radius: float
    """Root mean square distance to the center; 0 when there is no weight."""
    nearest: int
    """Index of the nearest other center; -1 when there is none."""
    distance: float
    """Distance to it; nan when there is none."""
    margin: float
    """Mean margin of its points in the sample; nan if there are none."""


@dataclass(frozen=True)
class Profiles:
    """Feature means of the clusters relative to the whole: all points that are in clusters."""

    order: NDArray[np.int64]
    """(d,) features, the most distinguishing first."""
    strength: NDArray[np.float64]
    """(d,) share of each feature's variance that lies between the clusters, 0 to 1."""
    overall: NDArray[np.float64]
    """(d,) mean of each feature."""
    spread: NDArray[np.float64]
    """(d,) standard deviation of each feature."""
    means: NDArray[np.float64]
    """(K, d) mean of each feature in each cluster; `overall` where a cluster has no weight."""
    deviation: NDArray[np.float64]
    """(K, d) (means - overall) / spread; 0 where the spread is 0."""
    rounding: NDArray[np.float64]
    """(d,) means within this of 0 may be nothing but rounding, and pages show them as 0."""


@dataclass(frozen=True)
class Map:
    """The plane of the first two principal components of the points in clusters."""

    rows: NDArray[np.int64]
    """(m,) the rows shown, ascending."""
    points: NDArray[np.float64]
    """(m, 2) their places."""
    labels: NDArray[np.int32]
    """(m,) their clusters; -1 for points that are left out."""
    centers: NDArray[np.float64]
    """(K, 2) the returned centers."""
    explained: tuple[float, float]
    """Share of the variance that each axis explains."""
    sampled: bool
    """Whether some points are not shown."""
    n_points: int
    """How many points there are."""


@dataclass(frozen=True)
class Margins:
    """How clearly the points of the map belong to their clusters."""

    rows: NDArray[np.int64]
    """(m,) the rows of the map."""
    labels: NDArray[np.int32]
    """(m,) their clusters; -1 for points that are left out."""
    values: NDArray[np.float64]
    """(m,) (b - a) / b with the distances a to the nearest and b to the second nearest center.

    0 on a border, 1 on the center and when there is one cluster only.
    """
    mean: float
    """Their mean, points that are left out not counted; nan if there are none."""


@dataclass(frozen=True)
class Frame:
    """One moment of a run: centers, and every point with its nearest one.

    Frame 0 shows the initial centers. Frame t shows what ``max_iter=t`` would return; it belongs to
    row t - 1 of the model's trace.
    """

    t: int
    """The iteration."""
    title: str
    """"the start", "iteration 3", "after polishing", "the model"."""
    sse: float
    """Sum of squared distances to these centers, in the units of the certificate."""
    gap: float
    """The Frank-Wolfe gap of the reassignment to these centers; nan at the start."""
    moved: int
    """How many of all points changed cluster in this iteration."""
    centers: NDArray[np.float64]
    """(K, 2) in the plane of the map."""
    labels: NDArray[np.int32]
    """(m,) of the rows of the map."""
    changed: NDArray[np.bool_]
    """(m,) rows of the map whose label differs from that in the frame before."""


@dataclass(frozen=True)
class Replay:
    """The run once more: the same bits, so the same run."""

    frames: tuple[Frame, ...]
    """From the first partition to the returned one."""
    path_note: str
    """Which iterations are shown."""


@dataclass(frozen=True)
class Portrait:
    """Everything that pictures of a fitted clustering need."""

    n_points: int
    n_features: int
    n_clusters: int
    names: tuple[str, ...]
    """Names of the columns."""
    weighted: bool
    clusters: tuple[Cluster, ...]
    """One entry for each cluster, by index."""
    left_out: int
    """How many points are in no cluster."""
    profiles: Profiles
    map: Map
    margins: Margins
    replay: Replay | None
    """None when it was not asked for or is impossible; `replay_note` says why."""
    replay_note: str
    """What the replay shows, or why there is none; "" if there is nothing to say."""
