"""The points of a portrait: validated, checked to be those of the fit, and scaled as in the fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils import gen_batches

from wolfmeans.core.workspace import Labels
from wolfmeans.engines import effective_threads
from wolfmeans.engines.tensors import on_host
from wolfmeans.estimators import KMeans, SphericalKMeans, TrimmedKMeans
from wolfmeans.fitting.evaluate import numbered_labels
from wolfmeans.inputs import validation

Model = KMeans | SphericalKMeans | TrimmedKMeans
# Validation uses the name of this class in its messages.
_ASKER = type("portrait", (BaseEstimator,), {})
# Coordinates that are turned into float64 at once.
_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Points:
    """Points, their masses, labels and centers, all at one scale."""

    X: Any
    """(n, d) dense or CSR, 2**exponent times the caller's."""
    weights: NDArray[np.float64] | None
    """(n,) the caller's weights; None for ones."""
    masses: NDArray[np.float64]
    """(n,) the kept part of the weights: 0 for points outside all clusters."""
    labels: Labels
    """(n,) clusters of the points, -1 outside."""
    centers: NDArray[np.float64]
    """(K, d) the returned centers at the scale of X."""
    exponent: int
    unit_exponent: int
    """Sums of squares are shown in units of 2**unit_exponent, as in the certificate."""
    counted: float = 1.0
    """What a squared distance counts in the inertia."""

    @property
    def clusters(self) -> NDArray[np.intp]:
        """(n,) a cluster for each point; 0 for points outside all clusters, whose mass is 0."""
        return np.maximum(self.labels, 0).astype(np.intp)

    @property
    def is_sparse(self) -> bool:
        """Whether X is CSR."""
        return bool(sparse.issparse(self.X))

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield slices of the rows of dense X, and these rows in float64."""
        n, d = self.X.shape
        # A block is at least as large as the sums over clusters that come from it.
        for rows in gen_batches(n, max(1, max(_AT_ONCE, self.centers.size) // d)):
            yield rows, np.asarray(self.X[rows], dtype=np.float64)

    def some(self, rows: NDArray[np.int64]) -> Points:
        """Return these rows alone."""
        return replace(
            self,
            X=self.X[rows],
            weights=None if self.weights is None else self.weights[rows],
            masses=self.masses[rows],
            labels=self.labels[rows],
        )

    def in_units(self, lengths: Any) -> Any:
        """Return lengths at the scale of X in the units of the caller's data."""
        return validation.ldexp(lengths, -self.exponent) if self.exponent else lengths

    def as_certified(self, sum_of_squares: float) -> float:
        """Return a sum of squares at the scale of X in the units of the certificate."""
        return validation.unscaled(sum_of_squares, self.exponent + self.unit_exponent // 2)


def points_of(model: Model, X: Any, sample_weight: Any) -> Points:
    """Validate the points, which must be those of the fit, in the same order."""
    shape = tuple(X.shape) if hasattr(X, "shape") else np.shape(X)
    expected = (len(model.labels_), model.n_features_in_)
    if shape != expected:
        raise ValueError(
            "a portrait needs the points that were clustered, "
            f"{expected[0]} rows and {expected[1]} columns; this X has shape {shape}. Pass the "
            "data that was passed to fit; with a Pipeline, the Pipeline itself and its data, or "
            "pipe[:-1].transform(X)"
        )
    labels = _checked_labels(model)
    X, sizes = validation.validate_points(
        model, X, reset=False, n_threads=effective_threads(model.n_threads)
    )
    X = on_host(X)
    weights = validation.validate_weights(sample_weight, X)
    _refuse_other_points(model, X, weights, labels)
    X, sizes, weights = model._as_clustered(X, sizes, weights)
    exponent = validation.scale_exponent(X, sizes, weights)
    masses = np.ones(len(labels)) if weights is None else weights
    if isinstance(model, TrimmedKMeans):
        masses = masses * model.kept_
    centers = np.asarray(model._centers_at_scale(), dtype=np.float64)
    return Points(
        X=validation.rescale(X, exponent),
        weights=weights,
        masses=masses,
        labels=labels,
        centers=np.asarray(validation.ldexp(centers, exponent - model._scale_exponent)),
        exponent=exponent,
        unit_exponent=model.certificate_.unit_exponent,
        counted=model._unit,
    )


def labelled_points(
    X: Any, labels: Any, sample_weight: Any, outlier: Any
) -> tuple[Points, tuple[str, ...], tuple[str, ...] | None]:
    """Return points with labels from elsewhere, these labels, and the names of the columns.

    The centers are not their means yet, but each is near the points of its cluster.
    """
    asker = _ASKER()
    X, sizes = validation.validate_points(asker, X, reset=True, n_threads=effective_threads(None))
    X = on_host(X)
    weights = validation.validate_weights(sample_weight, X)
    kept, numbers, found = numbered_labels(labels, X.shape[0], outlier)
    exponent = validation.scale_exponent(X, sizes, weights)
    X = validation.rescale(X, exponent)
    own = np.full(X.shape[0], -1, dtype=np.int32)
    own[kept] = numbers
    first = np.unique(own[kept], return_index=True)[1]
    centers = X[np.flatnonzero(kept)[first]]
    points = Points(
        X=X,
        weights=weights,
        masses=np.where(kept, 1.0 if weights is None else weights, 0.0),
        labels=own,
        centers=np.asarray(
            centers.toarray() if sparse.issparse(centers) else centers, dtype=np.float64
        ),
        exponent=exponent,
        unit_exponent=0,
    )
    names = getattr(asker, "feature_names_in_", None)
    return points, found, None if names is None else tuple(map(str, names))


def _refuse_other_points(
    model: Model, X: Any, weights: NDArray[np.float64] | None, labels: Labels
) -> None:
    """Raise an error if the validated points are not those of the fit.

    Sums of squares do not depend on the order of rows. A portrait shows `labels_` row by row, so
    the nearest center of each row must also be that of its label. Rows that were exchanged within
    a cluster pass. Points left out are skipped: of several at the threshold, a trimmed fit may keep
    some and not others.
    """
    unnamed = model._without_names()
    unnamed._refuse_other_data(X, weights)
    inside = labels >= 0
    if not np.array_equal(unnamed._labels_of(X)[inside], labels[inside]):
        raise ValueError(
            "the rows of X are not in the order of the fit: their nearest "
            "centers are not those in labels_. Pass the data that was passed to fit"
        )


def _checked_labels(model: Model) -> Labels:
    """Return the labels; raise an error if they were replaced by labels of no cluster."""
    labels: Labels = on_host(model.labels_)
    n_clusters = len(model.cluster_centers_)
    if labels.dtype.kind != "i" or labels.min() < -1 or labels.max() >= n_clusters:
        raise ValueError(
            f"the model's labels_ are not whole numbers from -1 to {n_clusters - 1}, "
            f"as those of {n_clusters} clusters are"
        )
    return labels
