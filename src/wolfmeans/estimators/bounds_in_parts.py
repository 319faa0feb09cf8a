"""Lower bounds for data in parts: on Dask workers, or in a file under a memory limit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.bounds import LowerBound, Settings, neighbours, subsampled
from wolfmeans.bounds.bound import quiet, scaled_down
from wolfmeans.bounds.partwise import (
    PartTask,
    bound_of_all,
    bound_of_part,
    bytes_of_a_row,
    name_of,
    part_task,
)
from wolfmeans.engines.places.trimmed_parts import TrimmedParts
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.estimators.streamed import source_for
from wolfmeans.fitting.lower_bound import check_arguments
from wolfmeans.inputs import streams, validation
from wolfmeans.inputs.data_in_parts import Opened

if TYPE_CHECKING:
    from wolfmeans.estimators.base import CenterEstimator

_GOOD_ENOUGH = 1.25
"""A bound by parts within this factor of the inertia needs no second one from a sample."""
_ROWS_FOR_A_CAP = 4096


class _RemoteRows:
    """Rows of data in parts: an array of row numbers loads them, a mask selects without loading."""

    def __init__(self, points: PartsWorkspace, selected: NDArray[np.int64] | None = None) -> None:
        self._points, self._selected = points, selected
        n_rows = points.n_points if selected is None else len(selected)
        self.shape = (n_rows, points.n_features)

    def __getitem__(self, rows: NDArray[Any]) -> NDArray[np.floating] | _RemoteRows:
        if rows.dtype == np.bool_:
            return _RemoteRows(self._points, self._numbers(np.flatnonzero(rows)))
        # In the order in which they are stored: a file is read once from beginning to end.
        numbers, places = np.unique(self._numbers(rows), return_inverse=True)
        return self._points.rows(numbers)[places]

    def _numbers(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows if self._selected is None else self._selected[rows]


@dataclass(frozen=True)
class _Trimming:
    """How much may be left out."""

    kept: float
    """The weight that is kept."""
    left_out: float
    """The rest, rounded up."""
    share: float
    """The rest as a share of all, about."""

    @staticmethod
    def of(points: PartsWorkspace) -> _Trimming | None:
        """Return what may be left out of the points; None if all must be clustered."""
        if not isinstance(points, TrimmedParts) or math.isinf(points.mass):
            return None
        exact = points.weight_sum.total - Fraction(points.mass)
        nearest = float(exact)
        rounded_up = nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)
        return _Trimming(points.mass, rounded_up, float(exact / points.weight_sum.total))


def loaded_within_limit(
    model: CenterEstimator, X: Any, sample_weight: Any
) -> tuple[Any, Any] | None:
    """Return the rows of a source and their weights; None if the memory limit is too low."""
    limit = model._memory_limit()
    source, rows_at_once = source_for(model, X), None
    if limit is not None:
        budget = streams.budget_of(model, source, limit)
        n_rows = streams.count_rows(source, budget)
        beside = streams.bytes_of_weights(sample_weight, n_rows)
        beside += n_rows * bytes_of_a_row(source.n_columns)
        rows_at_once = budget.rows_to_load(n_rows, beside)
        if rows_at_once is None:
            return None
    if isinstance(sample_weight, str):
        sample_weight = streams.weights_named(X, sample_weight, limit)
    return source.whole(rows_at_once), sample_weight


@contextmanager
def opened_chunks(model: CenterEstimator, X: Any, sample_weight: Any) -> Iterator[Opened]:
    """Open the source that a model was fitted to, in chunks, at the scale of its fit."""
    limit = model._memory_limit()
    assert limit is not None, "without a limit, all rows are loaded"
    source = model._as_read(source_for(model, X))
    # Names were matched when the source was opened; chunks are numbers.
    light = model._without_names()
    n_rows = streams.count_rows(source, streams.budget_of(light, source, limit))
    weights = streams.bytes_of_weights(sample_weight, n_rows)
    budget = streams.budget_for_chunks(light, source, limit, weights)
    budget = replace(
        budget, seeding=False, of_a_row=budget.of_a_row + bytes_of_a_row(source.n_columns)
    )
    # Too little memory is an error before weights are read.
    budget = streams.as_many_at_once_as_fit(budget)
    if isinstance(sample_weight, str):
        sample_weight = streams.weights_named(X, sample_weight, limit)
    streamed = streams.Streamed(source, budget, X)
    with streams.opened(light, streamed, sample_weight) as data:
        yield data


def bounds_in_parts(
    model: CenterEstimator, opening: AbstractContextManager[Opened], method: str, settings: Settings
) -> list[LowerBound]:
    """Return lower bounds on the inertia of any clustering, in the units of the certificate.

    `opening` opens the data that the model was fitted to, in parts, at the scale of its fit.

    Raises
    ------
    ValueError
        If that is not the data of the fit.
    """
    check_arguments(model.n_clusters, method, settings.confidence, 0)
    with opening as data:
        points, exponent = data.points, data.exponent
        model._refuse_other_rows(points.n_points)
        scored = model._points_to_score(points)
        model._refuse_other_inertia(_inertia(model, scored, exponent))
        settings = replace(settings, centers=_centers(model, exponent))
        trimming = _Trimming.of(scored)
        unit = -2 * exponent - model.certificate_.unit_exponent
        found: list[LowerBound] = []
        if method != "subsampled":
            cap = None
            if trimming is not None:
                radius = math.ldexp(model._threshold, 2 * (exponent - model._scale_exponent))
                cap = _cap(points, model.n_clusters, radius, trimming.share, settings.n_threads)
            left_out = 0.0 if trimming is None else trimming.left_out
            task = part_task(
                points.n_points,
                points.n_features,
                model.n_clusters,
                method=method,
                cap=cap,
                centers=settings.centers,
                seconds=settings.seconds,
                frugal=points.place.passes_are_slow,
            )
            found.append(_by_parts(points, task, left_out, settings))
        weak = not found or model.certificate_.inertia > _GOOD_ENOUGH * scaled_down(
            found[0].value, unit
        )
        if weak and method in ("auto", "subsampled"):
            weights = None if points.weights is None else points.all_weights()
            kept = None if trimming is None else trimming.kept
            rows = _RemoteRows(points)
            found.append(subsampled(rows, model.n_clusters, weights, kept, settings))
        return [replace(one, value=scaled_down(one.value, unit)) for one in found]


def _centers(model: CenterEstimator, exponent: int) -> NDArray[np.floating]:
    """Return the centers of the model, times 2**exponent."""
    centers: NDArray[np.floating] = model._centers_at_scale()
    return validation.ldexp(centers, exponent - model._scale_exponent)


def _inertia(model: CenterEstimator, points: PartsWorkspace, exponent: int) -> float:
    """Return the inertia of the model on the points, in the caller's units."""
    centers = _centers(model, exponent)
    if centers.dtype != points.dtype:
        raise ValueError(
            "X and sample_weight are not the data of the fit: the numbers of X are "
            f"{points.dtype}, but those of the fit were {centers.dtype}"
        )
    points.assign(centers)
    return float(model._unit * validation.unscaled(points.cost(centers), exponent))


def _by_parts(
    points: PartsWorkspace, task: PartTask, left_out: float, settings: Settings
) -> LowerBound:
    """Return the sum of the bounds of all parts."""
    started, report = perf_counter(), settings.progress or quiet
    found = []
    for answer in points.apply(bound_of_part, task):
        found.append(answer)
        report(len(found) / points.n_parts, f"bounds of {points.n_parts:,} parts")
    value = bound_of_all(found, task.cap, left_out)
    return LowerBound(value, name_of(found), 1.0, perf_counter() - started)


def _cap(
    points: PartsWorkspace, n_clusters: int, radius: float, share: float, n_threads: int
) -> float:
    """Return the price of leaving a point out that does best on some rows.

    Any price gives a valid bound. The squared radius is the right one where the bounds of parts
    are tight; the weaker they are, the lower it should be.
    """
    n = points.n_points
    rows = np.linspace(0, n - 1, min(n, _ROWS_FOR_A_CAP)).astype(np.int64)
    some = points.rows(rows)
    weights = None if points.weights is None else points.weights_of(rows)
    left_out = share * (len(rows) if weights is None else float(weights.sum()))

    def value(cap: float) -> float:
        found = neighbours(some, n_clusters, weights, cap=cap, n_threads=n_threads)
        return found.value - cap * left_out

    caps: list[float] = [radius * 2.0 ** (-step / 2) for step in range(5)]
    return max(caps, key=value)
