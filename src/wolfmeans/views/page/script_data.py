"""What the script of a clustering's page reads, and how much of it a page has room for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans.core.solution import Trace
from wolfmeans.views.page.data_block import packed
from wolfmeans.views.portrait import Map, Portrait, Replay

# What a page has room for.
_MEANS, _STEPS = 100_000, 2_000
# Coordinates beyond these powers of ten have a unit of their own: they are drawn in float32.
_SMALL, _LARGE = -30, 30
_FLOAT32 = float(np.finfo(np.float32).max)


def script_data(found: Portrait, trace: Trace, unit: str = "") -> dict[str, Any]:
    """Return everything that is drawn; `unit` is what sums of squares are in, "" for that of X."""
    power = _power_of_ten(found.map)
    return {
        "unit": unit,
        "n_clusters": found.n_clusters,
        "shares": [cluster.share for cluster in found.clusters],
        "points": [cluster.points for cluster in found.clusters],
        "map": _map_data(found.map, power) | {"replay": _replay_data(found.replay, power)},
        "margins": packed(found.margins.values, "f4"),
        "profiles": _profile_data(found) if found.n_clusters > 1 else None,
        "trace": _trace_data(trace),
    }


def _power_of_ten(shown: Map) -> int:
    """Return the power of ten that the map's coordinates are in; 0 where they fit as they are."""
    kept = shown.points[shown.labels >= 0]
    kept = np.abs(kept[np.isfinite(kept)])
    largest = float(kept.max(initial=0.0))
    power = math.floor(math.log10(largest)) if largest > 0 else 0
    return 0 if _SMALL <= power < _LARGE else power


def _drawn(places: NDArray[np.float64], power: int) -> NDArray[np.float64]:
    """Return places in units of 10**power, within what float32 holds."""
    # In two steps, since neither 10**-330 nor 10**330 is a float64.
    half = power // 2
    scaled = places / 10.0**half / 10.0 ** (power - half) if power else places
    return np.clip(scaled, -_FLOAT32, _FLOAT32)


def _map_data(shown: Map, power: int) -> dict[str, Any]:
    points = _drawn(shown.points, power)
    return {
        "power": power,
        "rows": packed(shown.rows, "u4"),
        "x": packed(points[:, 0], "f4"),
        "y": packed(points[:, 1], "f4"),
        "labels": packed(shown.labels, "i4"),
        "centers": packed(_drawn(shown.centers, power), "f4"),
        "explained": list(shown.explained),
    }


def _replay_data(replay: Replay | None, power: int) -> dict[str, Any] | None:
    """Return the frames: centers, and labels as differences to the frame before."""
    if replay is None:
        return None
    first = replay.frames[0].labels
    frames, before = [], first
    for frame in replay.frames:
        rows = np.flatnonzero(frame.labels != before)
        frames.append(
            {
                "title": frame.title,
                "t": frame.t,
                "sse": float(frame.sse),
                "gap": float(frame.gap),
                "moved": int(frame.moved),
                "centers": packed(_drawn(frame.centers, power), "f4"),
                "rows": packed(rows, "u4"),
                "labels": packed(frame.labels[rows], "i4"),
            }
        )
        before = frame.labels
    return {"labels": packed(first, "i4"), "frames": frames}


def _profile_data(found: Portrait) -> dict[str, Any]:
    profiles, kept = found.profiles, features_kept(found)
    return {
        "names": [found.names[j] for j in kept.tolist()],
        "strength": packed(profiles.strength[kept], "f8"),
        "overall": packed(profiles.overall[kept], "f8"),
        "means": packed(profiles.means[:, kept].T, "f8"),
        "spread": packed(profiles.spread[kept], "f8"),
    }


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


def features_kept(found: Portrait) -> NDArray[np.int64]:
    """Return the columns that the page knows, the most distinguishing first."""
    return found.profiles.order[: max(1, _MEANS // found.n_clusters)]


def thinned(length: int, at_most: int) -> NDArray[np.int64]:
    """Return which of so many rows to show: all, or fewer and fewer towards the end."""
    if length <= at_most:
        return np.arange(length)
    places = np.geomspace(1, length, at_most).round().astype(np.int64) - 1
    return np.unique(places)
