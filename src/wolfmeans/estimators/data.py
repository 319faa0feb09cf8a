"""Data as estimators see it: in memory, in the blocks of a Dask collection, or in a file.

Each kind answers the same questions: what a fit gets of it, and what a fitted model says about it.
Opening data for a fit (`base`) and for bounds (`bounds_in_parts`) still tells the kinds apart, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._set_output import _get_output_config

from wolfmeans.engines.tensors import as_given
from wolfmeans.estimators.streamed import predicted, source_for, transformed
from wolfmeans.inputs import dask_collections, streams, validation
from wolfmeans.inputs.kinds import DataKind, kind_of_data
from wolfmeans.inputs.streams import Brought, Streamed


class MemoryData:
    """Arrays, frames, sparse matrices and tensors."""

    def __init__(self, model: Any, X: Any) -> None:
        self.model, self.X = model, X

    def for_fit(self, sample_weight: Any) -> Brought:
        """Return what a fit gets: rows, weights, and names of columns that a file has."""
        return Brought(self.X, sample_weight, None)

    def predict(self) -> Any:
        """Return the labels, as a tensor where X is one."""
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


class DaskData:
    """Dask arrays and data frames; what is said about each point is a Dask array to come."""

    def __init__(self, model: Any, X: Any) -> None:
        self.model, self.X = model, X

    def for_fit(self, sample_weight: Any) -> Brought:
        """Return what a fit gets: the collection itself."""
        return Brought(self.X, sample_weight, None)

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
        given = dask_collections.admit(model, self.X, reset=False).dtype
        single = given == model.cluster_centers_.dtype == np.float32
        dtype = np.float32 if single else np.float64
        return dask_collections.lazily(model, self.X, "transform", model._n_features_out, dtype)

    def score(self, sample_weight: Any) -> float:
        """Return minus the inertia, summed where the data is."""
        model = self.model
        centers: NDArray[np.floating] = model._centers_at_scale()
        dtype = dask_collections.admit(model, self.X, reset=False).dtype
        if dtype != centers.dtype:
            dtype, centers = np.dtype(np.float64), centers.astype(np.float64)

        def exponent_for(face: Any, sizes: validation.Sizes, weights: Any) -> int:
            return validation.fitting_exponent(face, sizes, model._scale_exponent)

        loading = dask_collections.opened(
            model, self.X, sample_weight, reset=False, dtype=dtype, exponent_for=exponent_for
        )
        with loading as data:
            if data.exponent != model._scale_exponent:
                centers = validation.ldexp(centers, data.exponent - model._scale_exponent)
            points = model._points_to_score(data.points)
            points.assign(centers)
            return -validation.unscaled(points.cost(centers), data.exponent)


class FileData:
    """Files, memory maps, Zarr arrays and chunks one by one: loaded if they fit, else streamed."""

    def __init__(self, model: Any, X: Any) -> None:
        self.model, self.X = model, X

    def for_fit(self, sample_weight: Any) -> Brought:
        """Return what a fit gets: an array, or what is needed to stream it."""
        return streams.brought(self.model, self.X, sample_weight)

    def predict(self) -> Any:
        """Return the labels; they are mapped from a file where memory has no room."""
        return predicted(self.model, source_for(self.model, self.X))

    def transform(self) -> Any:
        """Return the (n, K) distances to all centers, in memory."""
        return transformed(self.model, source_for(self.model, self.X))

    def score(self, sample_weight: Any) -> float:
        """Return minus the inertia."""
        return float(self.model._score_of_file(self.X, sample_weight))


Data = MemoryData | DaskData | FileData
_KINDS: dict[DataKind, type[Data]] = {
    DataKind.MEMORY: MemoryData,
    DataKind.DASK: DaskData,
    DataKind.CHUNKS: FileData,
}


def data_for(model: Any, X: Any) -> Data:
    """Return X as the kind of data that it is."""
    kind = kind_of_data(X, limited=model._memory_limit() is not None)
    return _KINDS[kind](model, X)


def stays_in_parts(X: Any) -> bool:
    """Whether what a fit gets (`for_fit`) stays in parts, on workers or in a file."""
    return isinstance(X, Streamed) or kind_of_data(X) is DataKind.DASK
