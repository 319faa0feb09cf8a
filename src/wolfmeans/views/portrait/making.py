"""From a fitted model and its points to a portrait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from wolfmeans.estimators import KMeans, TrimmedKMeans
from wolfmeans.views.portrait.margins import margins_of
from wolfmeans.views.portrait.plane import map_of, plane_of
from wolfmeans.views.portrait.points import Model, points_of
from wolfmeans.views.portrait.profiles import clusters_of, moments_of, profiles_of
from wolfmeans.views.portrait.replay import replay_of
from wolfmeans.views.portrait.sample import sampled_rows
from wolfmeans.views.portrait.shapes import Portrait


def portrait(
    model: Model,
    X: Any,
    *,
    sample_weight: Any = None,
    names: Sequence[str] | None = None,
    replay: bool = True,
    at_most: int = 3000,
    random_state: Any = 0,
) -> Portrait:
    """Compute the numbers that pictures of a fitted clustering show.

    Parameters
    ----------
    model : KMeans or TrimmedKMeans
        The fitted model.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The points that the model was fitted to, in the same order. An error is raised if the
        number of rows, the inertia or the nearest centers of the rows differ from those of the
        fit. With a scikit-learn Pipeline, pass ``pipe[:-1].transform(X)``.
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
    """
    if not isinstance(model, (KMeans, TrimmedKMeans)):
        raise TypeError(
            "a portrait needs a fitted wolfmeans KMeans or TrimmedKMeans; "
            f"got a {type(model).__name__}"
        )
    check_is_fitted(model)
    if at_most < 1:
        raise ValueError(f"at_most must be at least 1; got {at_most}")
    points = points_of(model, X, sample_weight)
    labels = _column_names(model, names)
    rng = check_random_state(random_state)
    rows = sampled_rows(points.labels, at_most, rng)
    moments = moments_of(points)
    plane = plane_of(points, moments, rng)
    margins = margins_of(model, points, rows)
    again, note = replay_of(model, points, plane, rows) if replay else (None, "")
    return Portrait(
        n_points=points.X.shape[0],
        n_features=points.X.shape[1],
        n_clusters=len(points.centers),
        names=labels,
        weighted=points.weights is not None,
        clusters=clusters_of(points, moments, margins),
        left_out=int(np.count_nonzero(points.labels < 0)),
        profiles=profiles_of(points, moments),
        map=map_of(plane, rows),
        margins=margins,
        replay=again,
        replay_note=note,
    )


def _column_names(model: Model, names: Sequence[str] | None) -> tuple[str, ...]:
    d = model.n_features_in_
    if names is None:
        names = getattr(model, "feature_names_in_", [f"column {j}" for j in range(d)])
    if len(names) != d:
        raise ValueError(f"there are {d} columns and {len(names)} names for them")
    return tuple(map(str, names))
