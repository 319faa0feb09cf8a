"""Data as estimators see it: in memory, in the partitions of a Dask collection, or read in chunks.

Every kind of data answers the same questions: open it for a fit, and predict, transform, score and
bound it with a fitted model. So estimators do not ask which kind it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._set_output import _get_output_config

from wolfmeans.bounds import LARGE_BUDGET, LowerBound, Settings
from wolfmeans.core.workspace import Workspace
from wolfmeans.engines import effective_threads
from wolfmeans.engines.tensors import as_given
from wolfmeans.estimators.bounds_in_parts import bounds_in_parts, loaded_within_limit
from wolfmeans.estimators.streamed import predicted, source_for, transformed
from wolfmeans.fitting.lower_bound import bound_in_units
from wolfmeans.inputs import dask_collections, streams, validation
from wolfmeans.inputs.data_in_parts import refuse_what_needs_all_points
from wolfmeans.inputs.kinds import DataKind, kind_of_data


@dataclass(frozen=True)
class OpenedForFit:
    """Validated data, opened by an engine."""

    X: Any
    """The rows in the caller's units; for data in parts, their shape, dtype and a sample."""
    scaled: Any
    """2**exponent times these rows; for data in parts, the same as X."""
    workspace: Workspace
    """The scaled rows, as the loop sees them."""
    exponent: int
    begun: float
    """When the opening began, on the clock of `perf_counter`."""
    notes: tuple[str, ...] = ()
    """Notes for the certificate."""
    names: tuple[str, ...] | None = None
    """Names of the columns that a file has."""

    @property
    def in_parts(self) -> bool:
        """Whether the rows stay on workers or in a file."""
        return self.workspace.in_parts


class MemoryDataset:
    """Arrays, frames, sparse matrices and tensors.

    Parameters
    ----------
    model : CenterEstimator
        The estimator that is fitted or was fitted.
    X : object
        The caller's data.
    names : tuple of str or None
        Names of the columns, if X was loaded from a file.
    """

    def __init__(self, model: Any, X: Any, names: tuple[str, ...] | None = None) -> None:
        self.model, self.X, self.names = model, X, names

    @contextmanager
    def opened(self, sample_weight: Any) -> Iterator[OpenedForFit]:
        """Validate the rows and weights, choose an engine and open them there."""
        model, begun = self.model, perf_counter()
        n_threads = effective_threads(model.n_threads)
        X, sizes = validation.validate_points(model, self.X, reset=True, n_threads=n_threads)
        weights = validation.validate_weights(sample_weight, X)
        model._refuse_few_rows(X.shape[0])
        exponent = validation.scale_exponent(X, sizes, weights)
        scaled = validation.rescale(X, exponent)
        chosen = model._chosen_engine(scaled, n_threads)
        algorithm = getattr(model, "algorithm", "auto")
        workspace = chosen.engine.open(scaled, weights, n_threads, algorithm)
        yield OpenedForFit(X, scaled, workspace, exponent, begun, chosen.notes, self.names)
        is_array = type(self.X) is np.ndarray
        model.labels_ = np.asarray(model.labels_) if is_array else as_given(model.labels_, self.X)

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
            X,
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

    def __init__(self, model: Any, X: Any) -> None:
        self.model, self.X = model, X

    @contextmanager
    def opened(self, sample_weight: Any) -> Iterator[OpenedForFit]:
        """Load the blocks on the workers that process them."""
        begun = perf_counter()
        refuse_what_needs_all_points(self.model, drawn_from_some=self.model._draws_from_sample)
        with dask_collections.opened(self.model, self.X, sample_weight) as data:
            yield _of_parts(self.model, data, begun)

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
            return -validation.unscaled(points.cost(centers), data.exponent)

    def lower_bounds(self, sample_weight: Any, method: str, settings: Settings) -> list[LowerBound]:
        """Return lower bounds from the partitions, in units of the certificate."""
        return bounds_in_parts(self.model, self.X, sample_weight, method, settings)


class ChunkedDataset:
    """Files, memory maps, Zarr arrays and iterables of chunks; loaded if memory has room."""

    def __init__(self, model: Any, X: Any) -> None:
        self.model, self.X = model, X

    @contextmanager
    def opened(self, sample_weight: Any) -> Iterator[OpenedForFit]:
        """Load the rows if memory has room; else describe their chunks in a first pass."""
        model = self.model
        X, weights, names = streams.load_or_stream(model, self.X, sample_weight)
        if not isinstance(X, streams.Streamed):
            with MemoryDataset(model, X, names).opened(weights) as data:
                yield data
            return
        begun = perf_counter()
        refuse_what_needs_all_points(model, drawn_from_some=model._draws_from_sample)
        with streams.opened(model, X, weights, model._number_of_starts()) as opened:
            yield _of_parts(model, opened, begun, names)

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
            return bounds_in_parts(self.model, self.X, sample_weight, method, settings)
        X, weights = loaded
        return MemoryDataset(self.model._without_names(), X).lower_bounds(weights, method, settings)


def _of_parts(
    model: Any, data: Any, begun: float, names: tuple[str, ...] | None = None
) -> OpenedForFit:
    """Describe data in parts, after the checks that data in memory gets."""
    model._refuse_few_rows(data.X.shape[0])
    model._tell(f"{data.X.shape[0]:,} rows in {data.where}")
    notes = data.notes(None if model._draws_from_sample else model.init)
    return OpenedForFit(data.X, data.X, data.points, data.exponent, begun, notes, names)


Dataset = MemoryDataset | DaskDataset | ChunkedDataset
_DATASETS: dict[DataKind, type[Dataset]] = {
    DataKind.MEMORY: MemoryDataset,
    DataKind.DASK: DaskDataset,
    DataKind.CHUNKS: ChunkedDataset,
}


def dataset_for(model: Any, X: Any) -> Dataset:
    """Return X as the kind of data that it is."""
    if type(X) is np.ndarray:
        return MemoryDataset(model, X)
    kind = kind_of_data(X, limited=model._memory_limit() is not None)
    return _DATASETS[kind](model, X)
