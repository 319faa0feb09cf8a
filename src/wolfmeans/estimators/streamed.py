"""Predictions, distances and scores of a fitted model for data that is read in chunks."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.engines import effective_threads, get_engine
from wolfmeans.engines.places.file import PointBuffer
from wolfmeans.exact.limbs import Limbs, added
from wolfmeans.exact.native import value_range
from wolfmeans.files.atomic import written_whole
from wolfmeans.files.label_files import write_npy_pieces
from wolfmeans.files.source import Source
from wolfmeans.inputs import validation
from wolfmeans.inputs.memory_budget import Budget, bytes_of
from wolfmeans.inputs.opening import open_source
from wolfmeans.inputs.streams import bytes_of_weights, weights_named

if TYPE_CHECKING:
    from wolfmeans.estimators.base import CenterEstimator

_WITHOUT_LIMIT = 1 << 62


def source_for(model: CenterEstimator, X: Any) -> Source:
    """Open new rows for a model, with the named columns of its fit in their order."""
    source = open_source(X)
    wanted = getattr(model, "feature_names_in_", None)
    if wanted is not None and source.names is not None and source.names != tuple(wanted):
        if isinstance(X, Source):
            raise ValueError(
                f"the columns of the source are {', '.join(source.names)}, and the model was "
                f"fitted to {', '.join(wanted)}; open it with columns=[...]"
            )
        source = open_source(X, columns=list(wanted))
    if source.n_columns != model.n_features_in_:
        raise ValueError(
            f"X has {source.n_columns} features, but {type(model).__name__} is expecting "
            f"{model.n_features_in_} features as input."
        )
    return source


def budget_for(model: CenterEstimator, source: Source, beside: int = 0) -> Budget:
    """Return the memory budget for chunks of new rows; `beside` bytes are in use already."""
    limit = model._memory_limit()
    known = _WITHOUT_LIMIT if limit is None else limit
    source.spare_memory(known)
    return Budget(
        known,
        source.n_columns,
        source.dtype,
        len(model.cluster_centers_),
        source.reading_bytes,
        other_bytes=beside,
    )


def results_of_chunks(
    model: CenterEstimator, source: Source, method: str
) -> Generator[Any, None, None]:
    """Yield the result of a method of the model for each chunk."""
    # Names were matched when the source was opened; chunks are numbers.
    light = model._without_names()
    with closing(source.chunks(budget_for(model, source).rows_per_chunk())) as chunks:
        for _, rows in chunks:
            yield getattr(light, method)(rows)
            del rows


def predicted(model: CenterEstimator, source: Source) -> NDArray[np.int32]:
    """Return the labels of all rows, mapped from a file if memory has no room."""
    with closing(results_of_chunks(model, source, "predict")) as pieces:
        if source.n_rows is None:
            return np.concatenate(list(pieces))
        budget = budget_for(model, source)
        there_is_room = 4 * source.n_rows <= budget.left(budget.rows_per_chunk())
        buffer = PointBuffer(source.n_rows, in_memory=there_is_room)
        first = 0
        for labels in pieces:
            buffer.put(slice(first, first + len(labels)), labels)
            first += len(labels)
        found: NDArray[np.int32] = buffer.whole()
        return found


def predicted_to(
    model: CenterEstimator, source: Source, out: str | os.PathLike[str]
) -> NDArray[np.int32]:
    """Write labels to an NPY file as they come, and return them mapped from it."""
    if Path(out).suffix != ".npy":
        raise ValueError(f"labels go to a file that ends in .npy; got {os.fspath(out)!r}")
    if any(_are_one(out, part.name) for part in source.parts):
        raise ValueError(f"{os.fspath(out)} is a file of X; labels would take its place")
    with (
        closing(results_of_chunks(model, source, "predict")) as pieces,
        written_whole(out) as file,
    ):
        write_npy_pieces(file, pieces)
    labels: NDArray[np.int32] = np.load(out, mmap_mode="r")
    return labels


def _are_one(path: str | os.PathLike[str], other: str) -> bool:
    """Whether two names are those of one file."""
    return Path(path).exists() and Path(other).exists() and Path(path).samefile(other)


def transformed(model: CenterEstimator, source: Source) -> NDArray[np.floating]:
    """Return the (n, K) distances of all rows to all centers, in memory."""
    limit = getattr(model, "memory_limit", None)
    if limit is not None and source.n_rows is not None:
        size = source.n_rows * len(model.cluster_centers_) * source.dtype.itemsize
        if size > bytes_of(limit):
            raise MemoryError(
                f"the distances of {source.n_rows:,} rows to {len(model.cluster_centers_):,} "
                "centers are more than memory_limit; transform chunk after chunk: "
                "[km.transform(rows) for _, rows in wolfmeans.sources.open_source(X).chunks(10**5)]"
            )
    with closing(results_of_chunks(model, source, "transform")) as pieces:
        return np.concatenate(list(pieces))


def scored(model: CenterEstimator, X: Any, sample_weight: Any) -> float:
    """Return minus the weighted sum of squared distances to the nearest centers, rounded once."""
    source = model._as_read(source_for(model, X))
    beside = bytes_of_weights(sample_weight, source.n_rows or 0)
    rows = budget_for(model, source, beside).rows_per_chunk()
    if isinstance(sample_weight, str):
        sample_weight = weights_named(X, sample_weight, model._memory_limit())
    if sample_weight is not None:
        stand_in = np.broadcast_to(np.zeros(1, dtype=np.float32), (len(sample_weight), 1))
        sample_weight = validation.validate_weights(sample_weight, stand_in)
    exponent = model._scale_exponent
    while True:
        # The right scale is known only after a pass; almost always it is that of the fit.
        total, fitting = _inertia(model, source, sample_weight, exponent, rows)
        if fitting == exponent:
            return float(-model._unit * validation.unscaled(total.rounded(), exponent))
        exponent = fitting


def _inertia(
    model: CenterEstimator, source: Source, sample_weight: Any, exponent: int, rows_at_once: int
) -> tuple[Limbs, int]:
    """Return the inertia at a scale, and the scale that the data needs."""
    centers = model._centers_at_scale()
    if exponent != model._scale_exponent:
        centers = validation.ldexp(centers, exponent - model._scale_exponent)
    if centers.dtype != source.dtype:
        centers = centers.astype(np.float64)
    engine, n_threads = get_engine(model.engine), effective_threads(model.n_threads)
    weights = sample_weight
    total, count = Limbs.of_terms(np.zeros(0)), 0
    with closing(source.chunks(rows_at_once)) as chunks:
        for first, given in chunks:
            sizes = validation.Sizes(*value_range(given, n_threads)[1:])
            fitting = validation.fitting_exponent(given, sizes, exponent)
            if fitting < exponent:
                return total, fitting
            rows = validation.rescale(given.astype(centers.dtype, copy=False), exponent)
            workspace: Any = engine.open(rows, None, n_threads)
            terms = workspace.nearest(centers)[1]
            if weights is not None:
                own = weights[first : first + len(rows)]
                if len(own) < len(rows):
                    raise ValueError(f"sample_weight has {len(weights)} entries; X has more rows")
                terms *= own
            total = added([total, workspace.exact_total(terms)])
            count += len(rows)
            del given, rows, workspace
    if weights is not None and len(weights) != count:
        raise ValueError(f"sample_weight has {len(weights)} entries; X has {count} rows")
    face = np.broadcast_to(np.zeros(1, source.dtype), (count, source.n_columns))
    assert source.sizes is not None
    return total, validation.fitting_exponent(face, source.sizes, exponent)
