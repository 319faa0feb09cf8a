"""The page of a fitted clustering: verdict, clusters, map with replay, certificate and the run."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from wolfmeans.certificate.record import Certificate
from wolfmeans.core.solution import Trace
from wolfmeans.estimators import KMeans, SphericalKMeans, TrimmedKMeans
from wolfmeans.inputs.preparation import Preparation
from wolfmeans.views.page import markup
from wolfmeans.views.page.document import Page, document, packed
from wolfmeans.views.page.markup import Cell
from wolfmeans.views.plot.canvas import counted
from wolfmeans.views.portrait import Map, Portrait, Profiles, Replay, portrait
from wolfmeans.views.portrait.profiles import zero_if_rounding

Line = tuple[str, str, str]

# Columns in a sentence about a cluster, and the deviation that is worth one.
_SAID, _CLEAR = 3, 0.5
# Rows shown before the reader expands a table.
_FEATURES, _CLUSTERS = 15, 20
_MARKS = {"proved": "✓", "near": "≈", "plain": "≈"}
"""Before the verdict, by `Standing.look`."""
# Longer tables and curves of iterations are thinned.
_ROWS, _STEPS = 300, 2_000
# Means of clusters that a page has room for.
_MEANS = 100_000
# Coordinates are drawn in float32; larger and smaller ones are in units of a power of ten.
_SMALL, _LARGE = -30, 30
_FLOAT32 = float(np.finfo(np.float32).max)


def page(
    model: KMeans | SphericalKMeans | TrimmedKMeans | Pipeline,
    X: Any,
    *,
    sample_weight: Any = None,
    names: Sequence[str] | None = None,
    title: str | None = None,
    replay: bool = True,
    preparation: Preparation | None = None,
    wording: Callable[[str], str] | None = None,
) -> Page:
    """Make a self-contained page about a fitted clustering.

    Parameters
    ----------
    model : KMeans, SphericalKMeans, TrimmedKMeans or Pipeline
        The fitted estimator, or a fitted Pipeline that ends in one. The page of a Pipeline shows
        means in the units of the columns before its first step, if these are numbers.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The data passed to `fit`, with its rows in the same order. Other data raises an error; see
        `wolfmeans.portrait.portrait`.
    sample_weight : array-like of shape (n_samples,), default=None
        The weights passed to `fit`.
    names : sequence of str or None, default=None
        Names of the columns; None takes the names seen during the fit.
    title : str or None, default=None
        Heading of the page.
    replay : bool, default=True
        Whether to run the fit again and show its iterations.
    preparation : Preparation or None, default=None
        How X was computed from the original columns; means are then shown in their units.
    wording : callable or None, default=None
        Function applied to each text of the certificate, e.g. to turn advice for Python into
        advice for the command line.

    Returns
    -------
    Page
        A page with the method `save(path)`; notebooks display it.

    Examples
    --------
    >>> import numpy as np
    >>> from wolfmeans import KMeans, report
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> km = KMeans(n_clusters=4, random_state=0).fit(X)
    >>> page = report.page(km, X, names=["length", "width", "height"])
    >>> page.title
    '100 points in 4 clusters'
    >>> "</html>" in page.html
    True
    """
    picture = portrait(model, X, sample_weight=sample_weight, names=names, replay=replay)
    profiles, column = picture.profiles, "column"
    if preparation is not None and preparation.standardizes:
        profiles, column = _in_units(profiles, preparation), "standardized column"
    picture = replace(picture, profiles=zero_if_rounding(profiles))
    if title is None:
        title = f"{picture.n_points:,} points in {counted(picture.n_clusters, 'cluster')}"
    estimator = model[-1] if isinstance(model, Pipeline) else model
    certificate, trace, say = estimator.certificate_, estimator.trace_, wording or str
    lines = [(say(name), say(value), say(reading)) for name, value, reading in certificate.rows()]
    unit = f"2^{certificate.unit_exponent}" if certificate.unit_exponent else ""
    return document(
        title=title,
        lead=_lead(picture, column),
        top=_top(certificate, lines, say(certificate.verdict), unit),
        sections=[
            markup.section("summary", "In words", *_summary(picture)),
            markup.section("clusters", "Clusters", *_clusters(picture, unit)),
            markup.section("profiles", "Profiles", *_profiles(picture)),
            markup.section("map", "Map", _map(picture)),
            markup.section("certificate", "Certificate", _certificate(lines)),
            markup.section("margins", "Margins", _margins(picture)),
            markup.section("run", "The run", *_run(trace, unit)),
        ],
        data=_script_data(picture, trace, unit),
        footer=f"Computed by the {certificate.engine} engine.",
    )


def _in_units(profiles: Profiles, preparation: Preparation) -> Profiles:
    """Return means and spreads in the units of the columns; deviations have none."""
    assert preparation.scale is not None
    overall, means = (
        preparation.undo(values).astype(np.float64) for values in (profiles.overall, profiles.means)
    )
    return replace(
        profiles,
        overall=overall,
        spread=profiles.spread * preparation.scale,
        means=means,
        rounding=profiles.rounding * preparation.scale,
    )


# --- Top and certificate -----------------------------------------------------------------------


def _lead(picture: Portrait, column: str) -> str:
    facts = [
        counted(picture.n_points, "weighted point" if picture.weighted else "point"),
        counted(picture.n_features, column),
        counted(picture.n_clusters, "cluster"),
    ]
    if picture.steps:
        facts.append(f"prepared by {', '.join(picture.steps)}")
    if picture.left_out:
        facts.append(f"{counted(picture.left_out, 'point')} left out")
    return " · ".join(facts)


def _in(unit: str) -> str:
    return f", in {unit}" if unit else ""


def _top(certificate: Certificate, lines: list[Line], verdict: str, unit: str) -> str:
    values = {name: value for name, value, _ in lines}
    readings = {name: reading for name, _, reading in lines}
    standing = certificate.standing
    limit = certificate.max_iterations
    tiles = [
        (
            f"Inertia{_in(unit)}",
            markup.figures(certificate.inertia, 6),
            readings["inertia"].partition("; ")[2],
        ),
        ("Distance from the optimum", standing.brief, standing.meaning),
        (f"Gap{_in(unit)}", values["gap"], "possible gain from reassigning points"),
        (
            "Iterations",
            f"{certificate.iterations:,}",
            "no guaranteed limit" if limit is None else f"guaranteed limit: {limit:,}",
        ),
    ]
    mark, look = _MARKS[standing.look], standing.look
    if not certificate.status.converged:
        mark, look = "!", "open"
    elif not standing.useful:
        mark = "?"
    return f"{markup.verdict(verdict, mark, f'verdict {look}')}\n{markup.tiles(tiles)}"


def _certificate(lines: list[Line]) -> str:
    rows = [[Cell(part) for part in line] for line in lines]
    header = ("quantity", "value", "meaning")
    return markup.table("certificate", header, rows, numbers=False, kind="words")


# --- Sections ----------------------------------------------------------------------------------


def _map(picture: Portrait) -> str:
    shown = picture.map
    explained = sum(shown.explained)
    caption = (
        f"The first two principal components, which explain {explained:.0%} of the variance. "
        "Numbered circles are the centers."
    )
    if shown.sampled:
        caption += f" The map shows a sample of {len(shown.rows):,} of {shown.n_points:,} points."
    if picture.left_out:
        caption += " Gray crosses are left-out points."
    notes = filter(None, (picture.replay.path_note if picture.replay else "", picture.replay_note))
    # Each note as a sentence.
    note = markup.paragraph(" ".join(f"{n[:1].upper()}{n[1:].rstrip('.')}." for n in notes))
    figure = markup.chart("map", "Points and centers", caption, heading=False)
    return f'<div class="replay">{figure}<div class="panel" hidden></div></div>{note}'


def _summary(picture: Portrait) -> tuple[str, ...]:
    """Write a sentence about each cluster, the largest first."""
    if picture.n_clusters == 1:
        return ()
    order = sorted(picture.clusters, key=lambda cluster: -cluster.share)
    rows = [
        [
            markup.cluster(cluster.index),
            Cell(f"{cluster.share:.1%}"),
            Cell(sentence_about(picture, cluster.index)),
            Cell(_typical(picture, cluster.index)),
        ]
        for cluster in order
    ]
    header = ("cluster", "share", "what sets it apart", "typical rows")
    words = (
        "Columns whose mean in the cluster is at least half a standard deviation above or below "
        "the mean of all points, the strongest first, with both means. Typical rows are the "
        "nearest to the center; the first row of the data is row 0."
    )
    table = markup.table("summary", header, rows, numbers=False, shown=_CLUSTERS, kind="words")
    return table, markup.paragraph(words)


def sentence_about(picture: Portrait, index: int) -> str:
    """Return what distinguishes a cluster: its columns that deviate most from those of all."""
    profiles = picture.profiles
    deviation = profiles.deviation[index]
    strongest = np.argsort(-np.abs(deviation), kind="stable")[:_SAID].tolist()
    parts = [
        f"{'high' if deviation[j] > 0 else 'low'} {picture.names[j]} "
        f"({markup.figures(float(profiles.means[index, j]), 3)}; overall "
        f"{markup.figures(float(profiles.overall[j]), 3)})"
        for j in strongest
        if abs(deviation[j]) >= _CLEAR
    ]
    if not parts:
        return "close to the mean of all points in every column"
    return ", ".join(parts)


def _typical(picture: Portrait, index: int) -> str:
    if picture.typical is None:
        return ""
    return ", ".join(str(row) for row in picture.typical[index].tolist() if row >= 0)


def _clusters(picture: Portrait, unit: str) -> tuple[str, str]:
    header = (
        *("cluster", "points", *(["weight"] if picture.weighted else []), "share"),
        *(f"inertia{_in(unit)}", "radius", "nearest", "distance", "margin"),
    )
    rows = [
        [
            markup.cluster(cluster.index),
            markup.count(cluster.points),
            *([markup.number(cluster.weight)] if picture.weighted else []),
            Cell(f"{cluster.share:.1%}", cluster.share),
            markup.number(cluster.sse),
            markup.number(cluster.radius, 4),
            markup.cluster(cluster.nearest),
            markup.number(cluster.distance, 4),
            markup.number(round(cluster.margin, 4), 3),
        ]
        for cluster in picture.clusters
    ]
    words = (
        "The radius is the root mean square distance to the center; “nearest” is the cluster with "
        "the nearest center, and “distance” the distance between the two centers."
    )
    table = markup.table("clusters", header, rows, shown=_CLUSTERS) + markup.paragraph(words)
    if picture.n_clusters == 1:
        return "", table
    caption = f"Share of the {'weight' if picture.weighted else 'points'} in each cluster."
    return markup.chart("sizes", "Sizes", caption, heading=False), table


def _profiles(picture: Portrait) -> tuple[str, ...]:
    profiles, n_clusters = picture.profiles, picture.n_clusters
    if n_clusters == 1:
        return ()
    kept = _features_kept(picture)
    words = (
        "How far the mean of each column in a cluster lies above or below the mean of all points, "
        "in standard deviations of that column. The columns that separate the clusters best come "
        "first: “between” is the fraction of the column’s variance that lies between clusters."
    )
    n_features = len(picture.names)
    if len(kept) < n_features:
        words += f" This page contains only the first {len(kept):,} of {n_features:,} columns."
    header: list[str | Cell] = ["column", "between", "mean of all"]
    header += [markup.cluster(k) for k in range(n_clusters)]
    rows = [
        [
            Cell(picture.names[j]),
            Cell(f"{profiles.strength[j]:.1%}", float(profiles.strength[j]), bar=True),
            markup.number(float(profiles.overall[j]), 4),
            *(_deviation(value) for value in profiles.deviation[:, j].tolist()),
        ]
        for j in kept[:_FEATURES].tolist()
    ]
    kind = "profiles" + " wide" * (n_clusters > 12) + " crowded" * (n_clusters > 40)
    table = markup.table("profiles", header, rows, shown=_FEATURES, kind=kind)
    return markup.paragraph(words), table


def _deviation(value: float) -> Cell:
    sign = "+" if value > 0 else "−"
    shown = f"{sign}{abs(value):.1f}" if abs(value) >= 0.05 else "0"
    return Cell(shown, value, heat=True)


def _margins(picture: Portrait) -> str:
    if picture.n_clusters == 1:
        return ""
    caption = (
        "One bar for each point, sorted within its cluster: (b − a) / b, where a is the distance "
        "to its own center and b the distance to the nearest other center. The value is 1 at the "
        "center and 0 on the border to another cluster. "
    )
    if np.isfinite(picture.margins.mean):
        caption += f"The mean is {picture.margins.mean:.2f}."
    return markup.chart(
        "margins", "How clearly points belong to their clusters", caption, heading=False
    )


def _run(trace: Trace, unit: str) -> tuple[str, str]:
    below = "the dashed line is a lower bound for every clustering"
    bounded = trace.lower_bound > 0
    plates = (
        markup.chart(
            "gap",
            "Frank-Wolfe gap",
            "How much reassigning points would lower inertia, before each step. Its running "
            "minimum is guaranteed to stay below the dashed line h₀/(t + 1), where h₀ is the "
            f"initial inertia{' minus the lower bound' if bounded else ''}.",
        )
        + markup.chart(
            "sse",
            "Inertia",
            "Before each step, with every center at the mean of its cluster. Every step lowers it"
            f"{'; ' + below if bounded else ''}.",
        )
        + markup.chart("moved", "Points that change cluster", "Number of points in each step.")
    )
    squares = (f"{name}{_in(unit)}" for name in ("inertia", "gap", "guaranteed", "decrease"))
    header = ("iteration", *squares, "moved")
    shown = thinned(len(trace), _ROWS)
    columns = (trace.t + 1, trace.sse, trace.gap, trace.rate_bound, trace.decrease, trace.moved)
    rows = [
        [
            markup.count(t),
            markup.number(sse, 7),
            *map(markup.number, (gap, bound, decrease)),
            markup.count(moved),
        ]
        for t, sse, gap, bound, decrease, moved in zip(
            *(column[shown].tolist() for column in columns), strict=True
        )
    ]
    table = markup.table("iterations", header, rows)
    title = "Table of iterations"
    if len(rows) < len(trace):
        title += f" ({len(rows):,} of {len(trace):,})"
    return f'<div class="plates">{plates}</div>', markup.folded(title, table)


# --- Data of the script ------------------------------------------------------------------------


def _script_data(picture: Portrait, trace: Trace, unit: str) -> dict[str, Any]:
    """Return what the charts show; `unit` is that of sums of squares, "" for that of X."""
    power = _power_of_ten(picture.map)
    return {
        "unit": unit,
        "n_clusters": picture.n_clusters,
        "shares": [cluster.share for cluster in picture.clusters],
        "points": [cluster.points for cluster in picture.clusters],
        "map": _map_data(picture.map, power) | {"replay": _replay_data(picture.replay, power)},
        "margins": packed(picture.margins.values, "f4"),
        "profiles": _profile_data(picture) if picture.n_clusters > 1 else None,
        "trace": _trace_data(trace),
    }


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
            "rows": packed(np.flatnonzero(frame.changed), "u4"),
            "labels": packed(frame.labels[frame.changed], "i4"),
        }
        for frame in replay.frames
    ]
    return {"labels": packed(replay.frames[0].labels, "i4"), "frames": frames}


def _profile_data(picture: Portrait) -> dict[str, Any]:
    profiles, kept = picture.profiles, _features_kept(picture)
    return {
        "names": [picture.names[j] for j in kept.tolist()],
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


def _features_kept(picture: Portrait) -> NDArray[np.int64]:
    """Return the columns that the page contains, the most distinguishing first."""
    return picture.profiles.order[: max(1, _MEANS // picture.n_clusters)]


def thinned(length: int, at_most: int) -> NDArray[np.int64]:
    """Return the indices of the rows shown: all, or fewer and fewer towards the end."""
    if length <= at_most:
        return np.arange(length)
    places = np.geomspace(1, length, at_most).round().astype(np.int64) - 1
    return np.unique(places)
