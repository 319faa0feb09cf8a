"""Dask arrays and data frames: validation, loading for a fit, and prediction.

Dask is not imported before the caller has a Dask collection. With a `distributed.Client` the blocks
are processed by the workers that the scheduler chooses, otherwise by threads of this process. Rows
are not sent to this process: workers get centers and return exact sums.
"""

from __future__ import annotations

import copy
import math
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from wolfmeans.engines import effective_threads
from wolfmeans.engines.places.dask_blocks import (
    Inspection,
    PartOfFit,
    prepared,
    rescaled,
    weighted,
)
from wolfmeans.engines.places.dask_places import ClusterPlace, ThreadPlace
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.exact.native import sampling_step, working_dtype
from wolfmeans.inputs import validation
from wolfmeans.inputs.data_in_parts import DataInParts, Opened
from wolfmeans.inputs.estimator import DataEstimator
from wolfmeans.inputs.kinds import is_dask

_NOT_ON_WORKERS = ("labels_", "certificate_", "trace_", "initial_centers_", "kept_", "margins_")


@dataclass(frozen=True)
class Collection:
    """A validated Dask array or data frame."""

    given: Any
    is_frame: bool
    n_features: int
    dtype: np.dtype[Any]
    """Of the rows in a fit: float32 for float32 or float16, else float64."""
    names: tuple[str, ...] | None


def _partitions(collection: Any) -> list[Any]:
    """Return one Delayed for each partition of the collection.

    Optimizing would fuse partitions of small files when few columns are needed. Points and weights
    would then have different partitions.
    """
    if not hasattr(collection, "simplify"):
        delayed = collection.to_delayed()
        return delayed.ravel().tolist() if isinstance(delayed, np.ndarray) else list(delayed)
    return list(collection.simplify().to_delayed(optimize_graph=False))


def validate(estimator: DataEstimator, X: Any, *, reset: bool) -> Collection:
    """Validate X without computing it."""
    # Any attribute of a Delayed is a Delayed, too.
    ndim = getattr(X, "ndim", None)
    frame = isinstance(ndim, int) and hasattr(X, "dtypes") and hasattr(X, "columns")
    if frame and ndim != 2:
        raise ValueError(f"Expected a data frame, got a {type(X).__name__}; use X.to_frame()")
    if frame:
        example, dtype = X._meta, _dtype_of_columns(X.dtypes)
        names = tuple(map(str, X.columns))
    elif isinstance(ndim, int) and hasattr(X, "chunks"):
        if X.ndim != 2:
            raise ValueError(f"Expected a 2-D dask array, got one of {X.ndim} dimensions")
        if X.dtype.kind not in "fiub":
            raise ValueError(f"X has entries of type {X.dtype}, which are not real numbers")
        if math.isnan(X.shape[1]):
            raise ValueError(
                "X has an unknown number of columns; call X.compute_chunk_sizes() first"
            )
        dtype = working_dtype(X.dtype)
        if len(X.chunks[1]) > 1:
            X = X.rechunk({1: -1})
        example, names = np.empty((1, X.shape[1]), dtype=dtype), None
    else:
        raise TypeError(f"X is a {type(X).__name__}; Dask arrays and data frames can be clustered")
    if example.shape[1] == 0:
        raise ValueError("Found a collection with 0 feature(s) while a minimum of 1 is required.")
    validate_data(estimator, example, reset=reset, skip_check_array=True)
    return Collection(X, frame, int(example.shape[1]), dtype, names)


def _dtype_of_columns(dtypes: Any) -> np.dtype[Any]:
    for name, dtype in dtypes.items():
        if getattr(dtype, "kind", "O") not in "fiub":
            raise ValueError(f"column {name!r} of X has type {dtype}, which is not a number")
    plain = [np.dtype(getattr(dtype, "numpy_dtype", dtype)) for dtype in dtypes]
    return working_dtype(np.result_type(*plain))


@contextmanager
def opened(
    estimator: DataEstimator,
    X: Any,
    sample_weight: Any,
    *,
    reset: bool = True,
    dtype: Any = None,
    exponent_for: Callable[[Any, validation.Sizes, Any], int] = validation.scale_exponent,
) -> Iterator[Opened]:
    """Load the blocks of a collection on the workers that process them, for the time of a fit.

    Rows are converted to `dtype`, by default that of the collection, and scaled by 2 to the power
    that `exponent_for` returns.
    """
    collection = validate(estimator, X, reset=reset)
    with _leaving_the_pool():
        parts = _load(estimator, collection, sample_weight, dtype or collection.dtype)
        try:
            inspections = _check(list(parts.inspected()), collection)
            weights = None
            if is_dask(sample_weight):
                weights = _weights_like(inspections)
            elif sample_weight is not None:
                parts, weights = _with_weights(parts, sample_weight, inspections)
                inspections = _check(list(parts.inspected()), collection)
            parts.described = [inspection.description for inspection in inspections]
            points = PartsWorkspace(parts)
            data = DataInParts(collection.given, points, lambda: _sample(points))
            found = points.description
            exponent = exponent_for(data, validation.Sizes(found.smallest, found.largest), weights)
            if exponent != 0:
                parts = parts.with_blocks(parts.mapped(rescaled, [exponent] * len(parts)))
                parts.described = [inspection.description for inspection in parts.inspected()]
                points = PartsWorkspace(parts)
            where = f"{len(parts):,} partition{'' if len(parts) == 1 else 's'}"
            yield Opened(data, points, exponent, where)
        finally:
            parts.close()


def _sample(points: PartsWorkspace) -> NDArray[np.floating]:
    """Return a few hundred rows, sent to this process."""
    return points.rows(np.arange(0, points.n_points, sampling_step(points.n_points)))


def _load(estimator: DataEstimator, collection: Collection, sample_weight: Any, dtype: Any) -> Any:
    """Return the parts; on a cluster this starts to compute their blocks."""
    dask = import_module("dask")
    given = _partitions(collection.given)
    if not given:
        raise ValueError("X has no partitions")
    weights = _weights_of_blocks(sample_weight, collection, len(given))
    client = current_client()
    part = PartOfFit(
        client="here" if client is None else client.id,
        fit=uuid.uuid4().hex,
        number=0,
        engine=estimator.engine,
        n_threads=(None if client is None else estimator.n_threads) or 1,
        algorithm=getattr(estimator, "algorithm", "auto"),
    )
    prepare = dask.delayed(prepared, pure=False)
    blocks = [
        prepare(
            block,
            weight,
            collection.n_features,
            np.dtype(dtype).name,
            estimator._unit_rows,
            dask_key_name=f"wolfmeans-block-{part.fit}-{number}",
        )
        for number, (block, weight) in enumerate(zip(given, weights, strict=True))
    ]
    if client is None:
        n_threads = effective_threads(estimator.n_threads)
        return ThreadPlace(list(dask.compute(*blocks, scheduler="threads")), part, n_threads)
    futures, workers = _computed(client, collection, given, blocks)
    return ClusterPlace(client, futures, part, workers)


def _computed(
    client: Any, collection: Collection, given: list[Any], blocks: list[Any]
) -> tuple[list[Any], list[str]]:
    """Return futures of the blocks, and the workers that some of them are bound to.

    If a worker already has the rows of a block, the block is made there. Dask would use any idle
    worker and copy the rows.
    """
    futures = {
        future.key: future for future in import_module("distributed").futures_of(collection.given)
    }
    if not futures:
        return list(client.compute(blocks)), []
    places = client.who_has(list(futures.values()))
    by_worker: dict[str | None, list[int]] = {}
    for number, block in enumerate(given):
        workers = sorted(places.get(block.key, ()))
        by_worker.setdefault(workers[0] if workers else None, []).append(number)
    computed: dict[int, Any] = {}
    for worker, numbers in by_worker.items():
        where = {} if worker is None else {"workers": [worker], "allow_other_workers": False}
        some = client.compute([blocks[number] for number in numbers], **where)
        computed |= zip(numbers, some, strict=True)
    bound = [worker for worker in by_worker if worker is not None]
    return [computed[number] for number in range(len(blocks))], bound


@contextmanager
def _leaving_the_pool() -> Iterator[None]:
    """Free the thread of a Dask task while a fit inside it waits; otherwise do nothing.

    If all threads of the workers ran such fits, they would wait forever.
    """
    distributed: Any = sys.modules.get("distributed")
    left = False
    if current_client() is not None:
        try:
            distributed.secede()
            left = True
        except (AttributeError, KeyError, ValueError):
            pass  # not in a task, or already out of the pool
    try:
        yield
    finally:
        if left:
            distributed.rejoin()


def current_client() -> Any:
    """Return the current `distributed.Client`, or None."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    chosen = sys.modules["dask"].config.get("scheduler", None)
    if chosen is not None and chosen not in ("distributed", "dask.distributed"):
        return None
    try:
        client = distributed.get_client()
    except ValueError:
        return None
    if client.asynchronous:
        raise TypeError("the Dask client is asynchronous; fits need Client(asynchronous=False)")
    return client


def _weights_of_blocks(sample_weight: Any, collection: Collection, n_parts: int) -> list[Any]:
    """Return Dask weights for each block; Nones for other weights, which are added later."""
    validation.refuse_name(sample_weight)
    if not is_dask(sample_weight):
        return [None] * n_parts
    ndim = getattr(sample_weight, "ndim", None)
    if ndim != 1:
        raise ValueError(f"sample_weight must have one dimension; got {ndim}")
    if sample_weight.dtype != object and sample_weight.dtype.kind not in "fiub":
        raise ValueError(
            f"sample_weight must be real numbers: these have type {sample_weight.dtype}; convert "
            "them first, as by weights.astype(float)"
        )
    chunks = getattr(sample_weight, "chunks", None)
    wanted = None if collection.is_frame else collection.given.chunks[0]
    if chunks is not None and wanted is not None and chunks[0] != wanted:
        known = not np.isnan([*chunks[0], *wanted]).any()
        if known and sum(chunks[0]) != sum(wanted):
            raise ValueError(
                f"sample_weight has {sum(chunks[0])} entries; X has {sum(wanted)} rows"
            )
        if known:
            sample_weight = sample_weight.rechunk((wanted,))
    found = _partitions(sample_weight)
    if len(found) != n_parts:
        raise ValueError(
            f"sample_weight has {len(found)} partitions and X has {n_parts}; they must match"
        )
    return found


def _with_weights(parts: Any, sample_weight: Any, inspections: list[Inspection]) -> tuple[Any, Any]:
    """Give each part its piece of weights that are in memory."""
    sizes = [
        inspection.description.n_points
        for inspection in inspections
        if inspection.description is not None
    ]
    stand_in = np.broadcast_to(np.zeros(1, dtype=np.float32), (sum(sizes), 1))
    weights = validation.validate_weights(sample_weight, stand_in)
    if weights is None:
        return parts, None
    ends = np.cumsum(sizes)[:-1]
    return parts.with_blocks(parts.mapped(weighted, np.split(weights, ends))), weights


def _weights_like(inspections: list[Inspection]) -> NDArray[np.float64]:
    """Return two weights with about the total and the smallest unit of all of them."""
    total = sum(inspection.total for inspection in inspections)
    exponents = [
        inspection.exponents for inspection in inspections if inspection.exponents is not None
    ]
    if not exponents:
        raise ValueError("sample_weight is zero for every sample; at least one must be positive")
    ends = [min(low for low, _ in exponents), max(high for _, high in exponents) - 1]
    extremes = np.ldexp(1.0, ends)
    validation.validate_weights(extremes, np.zeros((2, 1)))
    return np.array([extremes[0], total])


def _check(inspections: list[Inspection], collection: Collection) -> list[Inspection]:
    """Return the descriptions of the blocks; an error names the first faulty partition."""
    for number, found in enumerate(inspections):
        if found.problem is not None:
            named = ""
            if collection.names is not None and found.column is not None:
                named = f" ({collection.names[found.column]!r})"
            raise ValueError(f"partition {number} of X {found.problem}{named}")
    if not any(
        inspection.description is not None and inspection.description.n_points
        for inspection in inspections
    ):
        raise ValueError("X has no rows in any of its partitions")
    return inspections


# --- Prediction ------------------------------------------------------------------------------


def lazily(model: DataEstimator, X: Any, method: str, width: int | None, dtype: Any) -> Any:
    """Return a Dask array of the results of a method of the model on each block.

    `width` is the number of columns, None for one value for each row.
    """
    da, delayed = import_module("dask.array"), import_module("dask").delayed
    collection = validate(model, X, reset=False)
    light = _without_results(model)
    shape = () if width is None else (width,)
    dtype = np.dtype(dtype)
    if not collection.is_frame:
        return collection.given.map_blocks(
            _call,
            light,
            method,
            shape,
            dtype.name,
            dtype=dtype,
            drop_axis=[1] if width is None else [],
            chunks=(collection.given.chunks[0], *((length,) for length in shape)),
            meta=np.empty((0,) * (1 + len(shape)), dtype=dtype),
        )
    call = delayed(_call, pure=False)
    model_once = delayed(light, traverse=False)
    pieces = [
        da.from_delayed(
            call(block, model_once, method, shape, dtype.name), (np.nan, *shape), dtype=dtype
        )
        for block in _partitions(collection.given)
    ]
    return da.concatenate(pieces, allow_unknown_chunksizes=True)


def _without_results(model: Any) -> Any:
    """Return the model without what workers do not need; its labels may be a collection."""
    light = copy.copy(model)
    for name in _NOT_ON_WORKERS:
        light.__dict__.pop(name, None)
    light.callback = None
    light.n_threads = model.n_threads or 1
    return light


def _call(
    block: Any, model: Any, method: str, shape: tuple[int, ...], dtype: str, block_info: Any = None
) -> NDArray[Any]:
    if block.shape[0] == 0:
        return np.empty((0, *shape), dtype=dtype)
    try:
        found = getattr(model, method)(block)
    except ValueError as error:
        where = block_info[0]["chunk-location"][0] if block_info else None
        place = "a partition" if where is None else f"partition {where}"
        raise ValueError(f"{place} of X: {error}") from None
    return np.asarray(found, dtype=dtype)
