"""Data as fitted models see it: in memory, in the partitions of a Dask collection, or in chunks.

Every kind of data answers the same questions: predict, transform, score and bound it with a fitted
model. So estimators do not ask which kind it is. `fitting.fit` opens it for a fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._set_output import _get_output_config

from wolfmeans.bounds import LARGE_BUDGET, LowerBound, Settings
from wolfmeans.engines.tensors import as_given
from wolfmeans.estimators.bounds_in_parts import (
    bounds_in_parts,
    loaded_within_limit,
    opened_chunks,
)
from wolfmeans.estimators.streamed import predicted, source_for, transformed
from wolfmeans.fitting.lower_bound import bound_in_units
from wolfmeans.inputs import dask_collections, validation
from wolfmeans.inputs.kinds import DataKind, kind_of_data

if TYPE_CHECKING:
    from wolfmeans.estimators.base import CenterEstimator


class MemoryDataset:
    """Arrays, frames, sparse matrices and tensors.

    Parameters
    ----------
    model : CenterEstimator
        The fitted estimator.
    X : object
        The caller's data.
    """

    def __init__(self, model: CenterEstimator, X: Any) -> None:
        self.model, self.X = model, X

    def predict(self) -> Any:
        """Return the labels, as a tensor if X is one."""
        return as_given(self.model._labels_of(self.X), self.X)

    def transform(self) -> Any:
        """Return the (n, K) distances to all centers."""
        workspace, centers, exponent = self.model._opened(self.X)
        roots = workspace.roots(centers)
        if exponent != 0:
            roots = validation.ldexp(roots, -exponent, out=roots)
        if _get_output_config("transform", self.model)["dense"] != "default":
            return roots  # for the table that set_output asked for
        return as_given(roots, self.X)

    def score(self, sample_weight: Any) -> float:
        """Return minus the inertia."""
        return float(self.model._score_of(self.X, sample_weight))

    def lower_bounds(self, sample_weight: Any, method: str, settings: Settings) -> list[LowerBound]:
        """Return a lower bound on the inertia of any clustering, in units of the certificate."""
        model, X = self.model, self.X
        weights = validation.validate_weights(sample_weight, X)
        model._refuse_other_data(X, weights)
        bound = bound_in_units(
            model._rows_to_bound(X),
            model.n_clusters,
            sample_weight,
            model._trim_on(X, weights),
            method,
            LARGE_BUDGET,
            settings,
            model.certificate_.unit_exponent,
        )
        return [bound]


class DaskDataset:
    """Dask arrays and data frames; results for each point are Dask arrays, not yet computed."""

    def __init__(self, model: CenterEstimator, X: Any) -> None:
        self.model, self.X = model, X

    def predict(self) -> Any:
        """Return the labels."""
        return dask_collections.lazily(self.model, self.X, "predict", None, np.int32)

    def transform(self) -> Any:
        """Return the (n, K) distances to all centers."""
        model = self.model
        if _get_output_config("transform", model)["dense"] != "default":
            raise TypeError(
                "set_output makes tables in memory, and X is a Dask collection: take "
                "set_output(transform='default'), and make a Dask frame of what comes back"
            )
        given = dask_collections.validate(model, self.X, reset=False).dtype
        single = given == model.cluster_centers_.dtype == np.float32
        dtype = np.float32 if single else np.float64
        return dask_collections.lazily(model, self.X, "transform", model._n_features_out, dtype)

    def score(self, sample_weight: Any) -> float:
        """Return minus the inertia, summed where the data is."""
        model = self.model
        centers: NDArray[np.floating] = model._centers_at_scale()
        dtype = dask_collections.validate(model, self.X, reset=False).dtype
        if dtype != centers.dtype:
            dtype, centers = np.dtype(np.float64), centers.astype(np.float64)

        def exponent_for(rows: Any, sizes: validation.Sizes, weights: Any) -> int:
            return validation.fitting_exponent(rows, sizes, model._scale_exponent)

        loading = dask_collections.opened(
            model, self.X, sample_weight, reset=False, dtype=dtype, exponent_for=exponent_for
        )
        with loading as data:
            if data.exponent != model._scale_exponent:
                centers = validation.ldexp(centers, data.exponent - model._scale_exponent)
            points = model._points_to_score(data.points)
            points.assign(centers)
            inertia = validation.unscaled(points.cost(centers), data.exponent)
            return float(-model._unit * inertia)

    def lower_bounds(self, sample_weight: Any, method: str, settings: Settings) -> list[LowerBound]:
        """Return lower bounds from the partitions, in units of the certificate."""
        opening = dask_collections.opened(self.model, self.X, sample_weight, reset=False)
        return bounds_in_parts(self.model, opening, method, settings)


class ChunkedDataset:
    """Files, memory maps, Zarr arrays and iterables of chunks; loaded if memory has room."""

    def __init__(self, model: CenterEstimator, X: Any) -> None:
        self.model, self.X = model, X

    def predict(self) -> Any:
        """Return the labels, mapped from a file if memory has no room for them."""
        return predicted(self.model, source_for(self.model, self.X))

    def transform(self) -> Any:
        """Return the (n, K) distances to all centers, in memory."""
        return transformed(self.model, source_for(self.model, self.X))

    def score(self, sample_weight: Any) -> float:
        """Return minus the inertia."""
        return float(self.model._score_of_file(self.X, sample_weight))

    def lower_bounds(self, sample_weight: Any, method: str, settings: Settings) -> list[LowerBound]:
        """Return lower bounds: of all rows if memory has room, else from the chunks."""
        loaded = loaded_within_limit(self.model, self.X, sample_weight)
        if loaded is None:
            opening = opened_chunks(self.model, self.X, sample_weight)
            return bounds_in_parts(self.model, opening, method, settings)
        X, weights = loaded
        return MemoryDataset(self.model._without_names(), X).lower_bounds(weights, method, settings)


Dataset = MemoryDataset | DaskDataset | ChunkedDataset
_DATASETS: dict[DataKind, type[Dataset]] = {
    DataKind.MEMORY: MemoryDataset,
    DataKind.DASK: DaskDataset,
    DataKind.CHUNKS: ChunkedDataset,
}


def dataset_for(model: CenterEstimator, X: Any) -> Dataset:
    """Return X as the kind of data that it is."""
    if type(X) is np.ndarray:
        return MemoryDataset(model, X)
    kind = kind_of_data(X, limited=model._memory_limit() is not None)
    return _DATASETS[kind](model, X)
