"""What the charts of a clustering's page show, for its script: arrays, packed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.solution import Trace
from wolfmeans.views.page.document import packed
from wolfmeans.views.page.given import Column, Given
from wolfmeans.views.portrait import Distributions, Map, Nonlinear, Portrait, Replay

# Longer curves of iterations are thinned.
_STEPS = 2_000
# Means of clusters that a page has room for.
_MEANS = 100_000
# Coordinates are drawn in float32; larger and smaller ones are in units of a power of ten.
_SMALL, _LARGE = -30, 30
_FLOAT32 = float(np.finfo(np.float32).max)


def script_data(
    picture: Portrait, names: tuple[str, ...], given: Given, trace: Trace | None, unit: str
) -> dict[str, Any]:
    """Return what the charts show; `unit` is that of sums of squares, "" for that of X."""
    power = _power_of_ten(picture.map)
    color = None if given.color is None else _color_data(given.color, picture.map.rows)
    levels = 0 if color is None or color["levels"] is None else len(color["levels"])
    return {
        "unit": unit,
        "n_clusters": picture.n_clusters,
        "n_colors": max(picture.n_clusters, levels),
        "names": list(names),
        "by_size": by_size(picture),
        "shares": [cluster.share for cluster in picture.clusters],
        "points": [cluster.points for cluster in picture.clusters],
        "map": _map_data(picture.map, power)
        | {
            "replay": _replay_data(picture.replay, power),
            "nonlinear": _nonlinear_data(picture.nonlinear),
        },
        "ids": _id_data(given.id, picture.map.rows),
        "color": color,
        "columns": _column_data(picture),
        "margins": packed(picture.margins.values, "f4"),
        "profiles": _profile_data(picture) if picture.n_clusters > 1 else None,
        "trace": None if trace is None else _trace_data(trace),
    }


def by_size(picture: Portrait) -> list[int]:
    """Return the clusters, the largest first."""
    return sorted(range(picture.n_clusters), key=lambda k: -picture.clusters[k].share)


# --- Map -----------------------------------------------------------------------------------------


def _power_of_ten(shown: Map) -> int:
    """Return the power of ten that is the unit of the map's coordinates; 0 if they need none."""
    kept = shown.points[shown.labels >= 0]
    kept = np.abs(kept[np.isfinite(kept)])
    largest = float(kept.max(initial=0.0))
    power = math.floor(math.log10(largest)) if largest > 0 else 0
    return 0 if _SMALL <= power < _LARGE else power


def _drawn(places: NDArray[np.float64], power: int) -> NDArray[np.float64]:
    """Return places in units of 10**power, clipped to the range of float32."""
    # In two steps, since neither 10**-330 nor 10**330 is a float64.
    half = power // 2
    scaled = places / 10.0**half / 10.0 ** (power - half) if power else places
    return np.clip(scaled, -_FLOAT32, _FLOAT32)


def _map_data(shown: Map, power: int) -> dict[str, Any]:
    points = _drawn(shown.points, power)
    more = shown.more
    further = None
    if more is not None:
        further = {
            "points": packed(_drawn(more.points, power).T, "f4"),
            "centers": packed(_drawn(more.centers, power).T, "f4"),
            "explained": list(more.explained),
        }
    return {
        "power": power,
        "rows": packed(shown.rows, "u4"),
        "x": packed(points[:, 0], "f4"),
        "y": packed(points[:, 1], "f4"),
        "labels": _packed_whole(shown.labels),
        "centers": packed(_drawn(shown.centers, power), "f4"),
        "explained": list(shown.explained),
        "further": further,
    }


def _replay_data(replay: Replay | None, power: int) -> dict[str, Any] | None:
    """Return the frames: centers, and the labels that differ from those of the frame before."""
    if replay is None:
        return None
    frames = [
        {
            "title": frame.title,
            "sse": float(frame.sse),
            "gap": float(frame.gap),
            "moved": int(frame.moved),
            "centers": packed(_drawn(frame.centers, power), "f4"),
            "rows": _packed_whole(np.flatnonzero(frame.changed)),
            "labels": _packed_whole(frame.labels[frame.changed]),
        }
        for frame in replay.frames
    ]
    return {"labels": _packed_whole(replay.frames[0].labels), "frames": frames}


def _packed_whole(numbers: NDArray[Any]) -> dict[str, Any] | list[Any]:
    """Return whole numbers in two bytes each, if they fit."""
    return packed(numbers, "i2" if numbers.max(initial=0) < 1 << 15 else "i4")


def _nonlinear_data(bent: Nonlinear | None) -> dict[str, Any] | None:
    if bent is None:
        return None
    x, y = bent.points.T
    return {"method": bent.method, "x": packed(x, "f4"), "y": packed(y, "f4")}


# --- Columns -------------------------------------------------------------------------------------


def _id_data(ids: Column | None, rows: NDArray[np.int64]) -> dict[str, Any] | None:
    if ids is None:
        return None
    return {"name": ids.name, "values": Column(ids.name, ids.values[rows]).texts()}


def _color_data(color: Column, rows: NDArray[np.int64]) -> dict[str, Any]:
    """Return the values of a column in the rows of the map: numbers, or levels and their places."""
    if color.is_number:
        return {"name": color.name, "levels": None, "values": packed(color.values[rows], "f8")}
    levels, places = color.levels()
    return {"name": color.name, "levels": levels, "values": packed(places[rows], "i4")}


def _column_data(picture: Portrait) -> dict[str, Any] | None:
    """Return the strongest columns: values in the rows of the map, and values by cluster."""
    found: Distributions | None = picture.distributions
    if found is None:
        return None
    return {
        "sampled": found.n_rows if found.sampled else None,
        "list": [
            {
                "name": picture.names[one.column],
                "strength": float(picture.profiles.strength[one.column]),
                "low": one.low,
                "high": one.high,
                "whole": one.whole,
                "values": _packed_values(one.values),
                "means": _packed_values(picture.profiles.means[:, one.column]),
                "quantiles": _packed_values(one.quantiles),
                "histograms": packed(_heights(one.histograms), "u1"),
            }
            for one in found.columns
        ],
    }


def _packed_values(values: NDArray[np.float64]) -> dict[str, Any] | list[Any]:
    """Return values in float32 where it can hold them."""
    known = np.abs(values[np.isfinite(values) & (values != 0)])
    fits = not len(known) or (known.min() > 1e-30 and known.max() < 1e30)
    return packed(values, "f4" if fits else "f8")


def _heights(histograms: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the bars of each cluster in units of its highest; a bar that is there is seen."""
    highest = histograms.max(axis=1, keepdims=True)
    shares = np.divide(histograms, highest, out=np.zeros_like(histograms), where=highest > 0)
    heights: NDArray[np.int64] = np.ceil(255 * shares).astype(np.int64)
    return heights


def _profile_data(picture: Portrait) -> dict[str, Any]:
    profiles, kept = picture.profiles, features_kept(picture)
    return {
        "names": [picture.names[j] for j in kept.tolist()],
        "strength": packed(profiles.strength[kept], "f8"),
        "overall": packed(profiles.overall[kept], "f8"),
        "means": packed(profiles.means[:, kept].T, "f8"),
        "spread": packed(profiles.spread[kept], "f8"),
    }


def features_kept(picture: Portrait) -> NDArray[np.int64]:
    """Return the columns that the page contains, the most distinguishing first."""
    return picture.profiles.order[: max(1, _MEANS // picture.n_clusters)]


# --- The run -------------------------------------------------------------------------------------


def _trace_data(trace: Trace) -> dict[str, Any]:
    shown = thinned(len(trace), _STEPS)
    return {
        "iteration": (trace.t[shown] + 1).tolist(),
        "sse": trace.sse[shown].tolist(),
        "gap": trace.gap[shown].tolist(),
        "smallest": np.minimum.accumulate(trace.gap)[shown].tolist(),
        "guaranteed": trace.rate_bound[shown].tolist(),
        "moved": trace.moved[shown].tolist(),
        "lower_bound": trace.lower_bound if trace.lower_bound > 0 else None,
    }


def thinned(length: int, at_most: int) -> NDArray[np.int64]:
    """Return the indices of the rows shown: all, or fewer and fewer towards the end."""
    if length <= at_most:
        return np.arange(length)
    places = np.geomspace(1, length, at_most).round().astype(np.int64) - 1
    return np.unique(places)
