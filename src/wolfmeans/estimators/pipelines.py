"""Fitted Pipelines: the data that their last step clustered, and the columns that people know.

`certify`, `scan`, portraits, pages and figures take a Pipeline and the frame that went into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from wolfmeans.certificate.record import Certificate
from wolfmeans.estimators.base import CenterEstimator
from wolfmeans.inputs.validation import refuse_dates

# Larger originals could overflow when they are squared.
_LARGEST = 1e150


@dataclass(frozen=True)
class Prepared:
    """A fitted estimator, what it was fitted to, and how that was made."""

    model: CenterEstimator
    X: Any
    """The points that the estimator clustered."""
    steps: tuple[str, ...] = ()
    """Classes of the steps before the estimator."""
    names: tuple[str, ...] | None = None
    """Names of the columns of X; None for those that the estimator knows."""
    originals: NDArray[np.float64] | None = None
    """(n, d) the columns before the first step; None if they are not numbers, or without steps."""
    original_names: tuple[str, ...] = ()


def certify(
    model: CenterEstimator | Pipeline,
    X: Any,
    *,
    sample_weight: Any = None,
    method: str = "auto",
    target: str | float | None = None,
    confidence: float = 0.95,
    random_state: Any = None,
    seconds: float = 60.0,
    progress: Callable[[float, str], Any] | None = None,
) -> Certificate:
    """Compute a better lower bound for a fitted estimator, or for a Pipeline that ends in one.

    Parameters
    ----------
    model : KMeans, TrimmedKMeans or Pipeline
        The fitted model. The certificate of the estimator is replaced.
    X : array-like, sparse matrix, Dask collection or source of shape (n_samples, n_features)
        The data passed to `fit` of the model: of a Pipeline, before its first step.
    sample_weight, method, target, confidence, random_state, seconds, progress
        As for `KMeans.certify`.

    Returns
    -------
    Certificate
        The new certificate of the estimator.

    Examples
    --------
    >>> import numpy as np, wolfmeans
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = np.array([[0.0, 0.0], [0.0, 90.0], [9.0, 0.0], [9.0, 80.0]])
    >>> km = wolfmeans.KMeans(2, n_init=5, random_state=0)
    >>> pipe = make_pipeline(StandardScaler(), km).fit(X)
    >>> wolfmeans.certify(pipe, X).ratio < 1.01
    True
    """
    found = prepared(model, X)
    with explaining(found, sample_weight):
        return found.model.certify(
            found.X,
            sample_weight=sample_weight,
            method=method,
            target=target,
            confidence=confidence,
            random_state=random_state,
            seconds=seconds,
            progress=progress,
        )


def prepared(model: Any, X: Any) -> Prepared:
    """Return the estimator of a model and the points that it clustered; X is before all steps."""
    estimator = model[-1] if isinstance(model, Pipeline) else model
    if not isinstance(estimator, CenterEstimator):
        where = "the last step of the Pipeline" if isinstance(model, Pipeline) else "the model"
        raise TypeError(
            f"{where} must be a wolfmeans KMeans or another estimator of wolfmeans; got a "
            f"{type(estimator).__name__} of {type(estimator).__module__.partition('.')[0]}. To "
            "evaluate labels from any source, call wolfmeans.judge(X, labels)"
        )
    check_is_fitted(estimator)
    if not isinstance(model, Pipeline) or len(model) == 1:
        return Prepared(estimator, X)
    Z, steps = transformed(model, X)
    originals, original_names = _originals(model[:-1], X, Z)
    return Prepared(estimator, Z, steps, _names_of(model[:-1], Z), originals, original_names)


def transformed(pipeline: Pipeline, X: Any) -> tuple[Any, tuple[str, ...]]:
    """Return what the last step of a fitted Pipeline sees, and the classes of earlier steps."""
    steps = tuple(
        type(step).__name__
        for _, step in pipeline.steps[:-1]
        if step is not None and not isinstance(step, str)
    )
    return pipeline[:-1].transform(X), steps


@contextmanager
def explaining(found: Prepared, sample_weight: Any) -> Iterator[None]:
    """Explain errors about other data where steps round differently in their two methods."""
    try:
        yield
    except ValueError as error:
        if not found.steps or not _differs_by_rounding(found, sample_weight):
            raise
        raise ValueError(
            f"X is the data of the fit, but {' and '.join(found.steps)} rounded it differently in "
            "transform than in fit_transform. Keep what is clustered: Z = "
            "pipe[:-1].fit_transform(X), and fit the estimator to Z"
        ) from error


def _differs_by_rounding(found: Prepared, sample_weight: Any) -> bool:
    """Whether X has the labels of the fit, and its inertia but for rounding."""
    model = found.model
    if found.X.shape[0] != len(model.labels_):
        return False
    inertia = -model.score(found.X, sample_weight=sample_weight)
    return bool(np.isclose(inertia, model.inertia_, rtol=1e-4))


def _names_of(steps: Pipeline, Z: Any) -> tuple[str, ...] | None:
    """Return the names of the prepared columns, if the steps can tell."""
    try:
        names = steps.get_feature_names_out()
    except (AttributeError, ValueError, TypeError):
        return None
    return tuple(map(str, names)) if len(names) == Z.shape[1] else None


def _originals(
    steps: Pipeline, X: Any, Z: Any
) -> tuple[NDArray[np.float64] | None, tuple[str, ...]]:
    """Return the columns before the first step, where they are numbers, and their names.

    Where some values are missing or no numbers, those that `inverse_transform` gives.
    """
    names = _column_names(X)
    originals = _as_numbers(X)
    if originals is None:
        try:
            originals = _as_numbers(steps.inverse_transform(Z))
        except (AttributeError, ValueError, TypeError, NotImplementedError):
            return None, ()
    if originals is None or (names is not None and len(names) != originals.shape[1]):
        return None, ()
    return originals, names or tuple(f"column {j}" for j in range(originals.shape[1]))


def _column_names(X: Any) -> tuple[str, ...] | None:
    names = getattr(X, "column_names", None) or getattr(X, "columns", None)
    return None if names is None else tuple(map(str, names))


def _as_numbers(X: Any) -> NDArray[np.float64] | None:
    """Return a table as float64; None if it is sparse, or has anything but finite numbers."""
    if sparse.issparse(X):
        return None
    try:
        refuse_dates(X, "X")
        values = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    if values.ndim != 2 or not np.isfinite(values).all() or np.abs(values).max() > _LARGEST:
        return None
    return values
