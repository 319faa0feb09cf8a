"""The portrait of a fitted model: frozen records of NumPy arrays, nothing drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state, gen_batches

from wolfmeans.core.progress import PATIENCE, Progress, progress_on_terminal
from wolfmeans.engines import effective_threads
from wolfmeans.estimators import KMeans, SphericalKMeans, TrimmedKMeans
from wolfmeans.estimators.pipelines import Prepared, explaining, prepared
from wolfmeans.fitting.evaluate import own_distances
from wolfmeans.views.portrait.distributions import Distributions, distributions_of
from wolfmeans.views.portrait.map import (
    DISTANCES_AT_ONCE,
    Map,
    Margins,
    map_of,
    margins_of,
    plane_of,
    sampled_rows,
)
from wolfmeans.views.portrait.nonlinear import METHODS, Nonlinear, nonlinear_map
from wolfmeans.views.portrait.points import Model, Points, labelled_points, points_of
from wolfmeans.views.portrait.profiles import Moments, Profiles, moments_of, profiles_of
from wolfmeans.views.portrait.replay import Replay, replay_of

_TYPICAL = 3
"""Typical rows of each cluster."""


@dataclass(frozen=True)
class Cluster:
    """One cluster in numbers."""

    index: int
    points: int
    """Number of points with this label."""
    weight: float
    """Their total weight; equal to `points` without weights."""
    share: float
    """`weight` as a share of the weight of all points."""
    sse: float
    """Sum of the weighted squared distances to the center, in the units of the certificate."""
    radius: float
    """Root mean square distance to the center; 0 without weight."""
    nearest: int
    """Index of the nearest other center; -1 if there is none."""
    distance: float
    """Distance to it; nan if there is none."""
    margin: float
    """Mean margin of its points in the sample; nan if there are none."""


@dataclass(frozen=True)
class Portrait:
    """Everything that pictures of a fitted clustering need."""

    n_points: int
    n_features: int
    n_clusters: int
    names: tuple[str, ...]
    """Names of the columns of the profiles."""
    weighted: bool
    clusters: tuple[Cluster, ...]
    """One entry for each cluster, by index."""
    left_out: int
    """Number of points in no cluster."""
    profiles: Profiles
    map: Map
    margins: Margins
    replay: Replay | None
    """None if it was not requested or is impossible; `replay_note` says why."""
    replay_note: str
    """What the replay shows, or why there is none; "" if it was not requested."""
    steps: tuple[str, ...] = ()
    """Classes of the steps of a Pipeline before the model."""
    in_original_units: bool = False
    """Whether the profiles show the columns before these steps."""
    typical: NDArray[np.int64] | None = None
    """(K, 3) numbers of the rows nearest to each center; -1 where a cluster has fewer."""
    cluster_names: tuple[str, ...] = ()
    """The labels of the clusters as texts, if they come from elsewhere; () for 0, 1, 2, ..."""
    labels: NDArray[np.int32] | None = None
    """(n,) the number of each row's cluster; -1 for points in no cluster."""
    distributions: Distributions | None = None
    """Of the strongest columns, by cluster; None if they were not requested."""
    nonlinear: Nonlinear | None = None
    """A map that keeps neighbours together; None if there is none."""


def portrait(
    model: Model | Pipeline | None = None,
    X: Any = None,
    *,
    labels: Any = None,
    outlier: Any = -1,
    sample_weight: Any = None,
    names: Sequence[str] | None = None,
    replay: bool = True,
    at_most: int = 3000,
    random_state: Any = 0,
    n_distributions: int = 0,
    nonlinear: str | None = None,
) -> Portrait:
    """Compute the numbers that pictures of a clustering show.

    Parameters
    ----------
    model : KMeans, SphericalKMeans, TrimmedKMeans, Pipeline or None
        The fitted model, or a fitted Pipeline that ends in one; None if there are `labels`.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The points that the model was fitted to, in the same order. An error is raised if the
        number of rows, the inertia or the nearest centers of the rows differ from those of the
        fit. With a Pipeline, this is the data before its first step, and profiles show these
        columns in their own units, if they are numbers; map and margins show what was clustered.
    labels : array-like of shape (n_samples,), default=None
        The cluster of each point, numbers or strings, from any source; in place of a model. The
        centers are then the means of the clusters.
    outlier : default=-1
        The label of points in no cluster.
    sample_weight : array-like of shape (n_samples,), default=None
        The weights that the model was fitted with.
    names : sequence of str or None, default=None
        Names of the columns; None takes those of the fit, or numbers.
    replay : bool, default=True
        Whether to run the fit again and record its steps.
    at_most : int, default=3000
        Maximum number of points shown; with more clusters than that, one point of each.
    random_state : int, RandomState or None, default=0
        Seed of the sample.
    n_distributions : int, default=0
        For how many columns, the strongest first, to compute histograms and quantiles by cluster.
    nonlinear : {"auto", "t-sne", "umap"} or None, default=None
        Whether to compute a nonlinear map of at most 1,500 of the points shown. "auto" is t-SNE
        if two principal components explain less than half of the variance, and none otherwise.

    Returns
    -------
    Portrait
        Clusters, profiles, map, margins and replay. Means, variances and the plane of the map are
        those of the points in clusters, with their weights.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans import KMeans
    >>> from wolfmeans.views.portrait import portrait
    >>> X = np.array([[1.0, 5.0], [2.0, 5.0], [8.0, 5.0], [9.0, 5.0]])
    >>> km = KMeans(n_clusters=2, init=X[:2], n_init=1).fit(X)
    >>> shown = portrait(km, X, names=["size", "constant"])
    >>> [(cluster.points, cluster.sse) for cluster in shown.clusters]
    [(2, 0.5), (2, 0.5)]
    >>> shown.profiles.means[:, 0], shown.profiles.deviation[:, 1]
    (array([1.5, 8.5]), array([0., 0.]))
    >>> [frame.labels.tolist() for frame in shown.replay.frames]
    [[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]]

    Labels of another clustering, with a point in no cluster:

    >>> shown = portrait(X=X, labels=["a", "a", "b", -1])
    >>> shown.cluster_names, [cluster.points for cluster in shown.clusters], shown.left_out
    (('a', 'b'), [2, 1], 1)
    """
    if (model is None) == (labels is None):
        raise TypeError("a portrait needs either a fitted model or labels, and X")
    if X is None:
        raise TypeError("a portrait needs X, the data that was clustered")
    if at_most < 1:
        raise ValueError(f"at_most must be at least 1; got {at_most}")
    if nonlinear not in (None, "auto", *METHODS):
        raise ValueError(f"nonlinear must be auto, {', '.join(METHODS)} or None; got {nonlinear!r}")
    with progress_on_terminal(None, PATIENCE) as shown:
        report = shown or (lambda share, text: None)
        if model is None:
            subject = _subject_of_labels(X, labels, sample_weight, outlier, names)
        else:
            subject = _subject_of_model(model, X, sample_weight, names)
        rng = check_random_state(random_state)
        rows = sampled_rows(subject.points.labels, at_most, rng)
        return _portrayed(subject, rows, rng, report, replay, n_distributions, nonlinear)


@dataclass(frozen=True)
class _Subject:
    """What is portrayed."""

    model: Model | None
    """None if there are only labels."""
    points: Points
    columns: Points
    """The points in the columns that profiles show."""
    names: tuple[str, ...]
    """Of these columns."""
    steps: tuple[str, ...]
    typical: NDArray[np.int64]
    cluster_names: tuple[str, ...] = ()


def _subject_of_model(
    model: Any, X: Any, sample_weight: Any, names: Sequence[str] | None
) -> _Subject:
    found = prepared(model, X)
    if not isinstance(found.model, (KMeans, SphericalKMeans, TrimmedKMeans)):
        raise TypeError(
            "a portrait needs a fitted wolfmeans KMeans, SphericalKMeans or TrimmedKMeans; "
            f"got a {type(found.model).__name__}"
        )
    with explaining(found, sample_weight):
        points = points_of(found.model, found.X, sample_weight)
    return _Subject(
        found.model,
        points,
        columns=_columns_of(found, points),
        names=_column_names(found.model, found, names),
        steps=found.steps,
        typical=found.model.typical_rows(found.X, _TYPICAL),
    )


def _subject_of_labels(
    X: Any, labels: Any, sample_weight: Any, outlier: Any, names: Sequence[str] | None
) -> _Subject:
    points, found, own = labelled_points(X, labels, sample_weight, outlier)
    # The means of the clusters are their centers.
    points = replace(points, centers=moments_of(points).means)
    d = points.X.shape[1]
    own = own or tuple(f"column {j}" for j in range(d))
    if names is not None and len(names) != d:
        raise ValueError(f"there are {d} columns and {len(names)} names for them")
    return _Subject(
        None,
        points,
        columns=points,
        names=own if names is None else tuple(map(str, names)),
        steps=(),
        typical=_nearest_rows(points),
        cluster_names=found,
    )


def _nearest_rows(points: Points) -> NDArray[np.int64]:
    """Return the rows nearest to each center, among those with its label."""
    inside = np.flatnonzero(points.labels >= 0)
    labels, threads = points.labels[inside], effective_threads(None)
    centers = points.centers.astype(points.X.dtype)
    distances = own_distances(points.X[inside], centers, labels, threads)
    found = np.full((len(centers), _TYPICAL), -1, dtype=np.int64)
    order = np.lexsort((inside, distances, labels))
    begins = np.searchsorted(labels[order], np.arange(len(centers)))
    for place, row in enumerate(order.tolist()):
        rank = place - begins[labels[row]]
        if rank < _TYPICAL:
            found[labels[row], rank] = inside[row]
    return found


def _portrayed(
    subject: _Subject,
    rows: NDArray[np.int64],
    rng: np.random.RandomState,
    report: Progress,
    replay: bool,
    n_distributions: int,
    nonlinear: str | None,
) -> Portrait:
    model, points, columns = subject.model, subject.points, subject.columns
    report(0.2, "means and spreads of the clusters")
    moments = moments_of(points)
    profiles = profiles_of(columns, moments if columns is points else moments_of(columns))
    report(0.3, "map")
    plane = plane_of(points, moments, rng)
    margins = margins_of(model, points, rows)
    distributions = None
    if n_distributions > 0:
        report(0.35, "distributions of the columns")
        strongest = profiles.order[:n_distributions].tolist()
        distributions = distributions_of(columns, strongest, rows, subject.typical)
    bent = None
    if nonlinear is not None:
        report(0.4, "nonlinear map")
        bent = nonlinear_map(plane, rows, nonlinear)
    again, note = None, ""
    if replay and model is not None:
        steps = max(1, len(model.trace_))

        def reported(t: int) -> None:
            report(0.7 + 0.3 * t / steps, f"replay, iteration {t:,} of {steps:,}")

        again, note = replay_of(model, plane, rows, reported)
    return Portrait(
        n_points=points.X.shape[0],
        n_features=points.X.shape[1],
        n_clusters=len(points.centers),
        names=subject.names,
        weighted=points.weights is not None,
        clusters=_clusters_of(points, moments, margins),
        left_out=int(np.count_nonzero(points.labels < 0)),
        profiles=profiles,
        map=map_of(plane, rows),
        margins=margins,
        replay=again,
        replay_note=note,
        steps=subject.steps,
        in_original_units=columns is not points,
        typical=subject.typical,
        cluster_names=subject.cluster_names,
        labels=points.labels,
        distributions=distributions,
        nonlinear=bent,
    )


def _columns_of(found: Prepared, points: Points) -> Points:
    """Return the points in the columns that profiles show: those before all steps, or their own."""
    if found.originals is None:
        return points
    originals, masses = found.originals, points.masses[:, None]
    # Any centers will do; near the means, sums of differences from them lose no digits.
    centers = np.repeat(originals[:1], len(points.centers), axis=0)
    for k in range(len(centers)):
        inside = points.labels == k
        if masses[inside].any():
            centers[k] = (masses[inside] * originals[inside]).sum(axis=0) / masses[inside].sum()
    return replace(points, X=originals, centers=centers, exponent=0)


def _column_names(model: Model, found: Prepared, names: Sequence[str] | None) -> tuple[str, ...]:
    d = model.n_features_in_ if found.originals is None else len(found.original_names)
    if names is None:
        own = getattr(model, "feature_names_in_", [f"column {j}" for j in range(d)])
        prepared_names = found.names or own
        names = prepared_names if found.originals is None else found.original_names
    if len(names) != d:
        raise ValueError(f"there are {d} columns and {len(names)} names for them")
    return tuple(map(str, names))


def _clusters_of(points: Points, moments: Moments, margins: Margins) -> tuple[Cluster, ...]:
    n_clusters = len(points.centers)
    whole = float(len(points.labels) if points.weights is None else points.weights.sum())
    counts = np.bincount(points.labels[points.labels >= 0], minlength=n_clusters)
    used = moments.weights > 0
    mean_squares = np.divide(moments.sse, moments.weights, out=np.zeros(n_clusters), where=used)
    radii = points.in_units(np.sqrt(mean_squares))
    nearest, distances = _nearest_others(points.centers)
    distances = points.in_units(distances)
    inside = margins.labels >= 0
    shown = np.bincount(margins.labels[inside], minlength=n_clusters)
    summed = np.bincount(margins.labels[inside], margins.values[inside], minlength=n_clusters)
    return tuple(
        Cluster(
            index=k,
            points=int(counts[k]),
            weight=float(moments.weights[k]),
            share=float(moments.weights[k]) / whole,
            sse=points.counted * points.as_certified(float(moments.sse[k])),
            radius=float(radii[k]),
            nearest=int(nearest[k]),
            distance=float(distances[k]),
            margin=float(summed[k] / shown[k]) if shown[k] else float("nan"),
        )
        for k in range(n_clusters)
    )


def _nearest_others(
    centers: NDArray[np.float64],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the nearest other center of each, ties to the lowest index, and its distance."""
    n_clusters = len(centers)
    nearest = np.full(n_clusters, -1, dtype=np.int64)
    distances = np.full(n_clusters, np.nan)
    if n_clusters == 1:
        return nearest, distances
    for some in gen_batches(n_clusters, max(1, DISTANCES_AT_ONCE // n_clusters)):
        block = cdist(centers[some], centers)
        block[np.arange(len(block)), np.arange(some.start, some.stop)] = np.inf
        nearest[some] = block.argmin(axis=1)
        distances[some] = block.min(axis=1)
    return nearest, distances
