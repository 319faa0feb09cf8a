"""The page of a fitted clustering: verdict, certificate, map with replay, clusters and the run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from wolfmeans.certificate.record import Certificate
from wolfmeans.core.solution import Trace
from wolfmeans.estimators import KMeans, TrimmedKMeans
from wolfmeans.inputs.preparation import Preparation
from wolfmeans.views.page import markup
from wolfmeans.views.page.document import Page, document
from wolfmeans.views.page.markup import Cell
from wolfmeans.views.page.script_data import features_kept, script_data, thinned
from wolfmeans.views.portrait import Portrait, Profiles, portrait
from wolfmeans.views.portrait.profiles import zero_if_rounding

Line = tuple[str, str, str]

# Rows shown before the reader expands a table.
_FEATURES, _CLUSTERS = 15, 20
# Longer tables of iterations are thinned.
_ROWS = 300


def page(
    model: KMeans | TrimmedKMeans,
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
    model : KMeans or TrimmedKMeans
        The fitted estimator.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The points that the model was fitted to, in the same order. An error is raised if the
        number of rows, the inertia or the nearest centers of the rows differ from those of the
        fit. With a scikit-learn Pipeline, pass ``pipe[:-1].transform(X)``.
    sample_weight : array-like of shape (n_samples,), default=None
        The weights that the model was fitted with.
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
    found = portrait(model, X, sample_weight=sample_weight, names=names, replay=replay)
    if preparation is not None and preparation.standardizes:
        found = replace(found, profiles=_in_units(found.profiles, preparation))
    if title is None:
        title = f"{found.n_points:,} points in {_plural(found.n_clusters, 'cluster')}"
    standardized = preparation is not None and preparation.standardizes
    return draw(
        found,
        model.certificate_,
        model.trace_,
        title=title,
        standardized=standardized,
        wording=wording,
    )


def draw(
    found: Portrait,
    certificate: Certificate,
    trace: Trace,
    *,
    title: str,
    standardized: bool = False,
    wording: Callable[[str], str] | None = None,
) -> Page:
    """Make the page from what it shows."""
    found = replace(found, profiles=zero_if_rounding(found.profiles))
    several = found.n_clusters > 1
    say = wording or str
    lines = [(say(name), say(value), say(reading)) for name, value, reading in certificate.rows()]
    unit = f"2^{certificate.unit_exponent}" if certificate.unit_exponent else ""
    sections = [
        markup.section("certificate", "Certificate", _certificate(lines)),
        markup.section("map", "Map", _map(found)),
        markup.section("clusters", "Clusters", *_clusters(found, unit)),
        markup.section("profiles", "Profiles", *_profiles(found)) if several else "",
        markup.section("margins", "Margins", _margins(found)) if several else "",
        markup.section("run", "The run", *_run(trace, unit)),
    ]
    return document(
        title=title,
        lead=_lead(found, standardized),
        top=_top(certificate, lines, say(certificate.verdict), unit),
        sections=[section for section in sections if section],
        data=script_data(found, trace, unit),
        footer=f"Computed by the {certificate.engine} engine.",
    )


def _in_units(profiles: Profiles, preparation: Preparation) -> Profiles:
    """Return means and spreads in the units of the columns; deviations have none."""
    assert preparation.scale is not None
    overall, means = (
        preparation.undo(found).astype(np.float64) for found in (profiles.overall, profiles.means)
    )
    return replace(
        profiles,
        overall=overall,
        spread=profiles.spread * preparation.scale,
        means=means,
        rounding=profiles.rounding * preparation.scale,
    )


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


# --- Top and certificate -----------------------------------------------------------------------


def _lead(found: Portrait, standardized: bool) -> str:
    kind = "standardized column" if standardized else "column"
    facts = [
        _plural(found.n_points, "weighted point" if found.weighted else "point"),
        _plural(found.n_features, kind),
        _plural(found.n_clusters, "cluster"),
    ]
    if found.left_out:
        facts.append(f"{_plural(found.left_out, 'point')} left out")
    return " · ".join(facts)


def _in(unit: str) -> str:
    return f", in {unit}" if unit else ""


def _top(certificate: Certificate, lines: list[Line], verdict: str, unit: str) -> str:
    values = {name: value for name, value, _ in lines}
    readings = {name: reading for name, _, reading in lines}
    distance = {
        "optimal": ("optimal", "no clustering is better"),
        "unknown": ("unknown", "no lower bound is known"),
    }.get(values["global"], (values["global"], "the optimal inertia"))
    limit = certificate.max_iterations
    tiles = [
        (
            f"Inertia{_in(unit)}",
            markup.figures(certificate.inertia, 6),
            readings["inertia"].partition("; ")[2],
        ),
        ("Distance from the optimum", *distance),
        (f"Gap{_in(unit)}", values["gap"], "possible gain from reassigning points"),
        (
            "Iterations",
            f"{certificate.iterations:,}",
            "no guaranteed limit" if limit is None else f"guaranteed limit: {limit:,}",
        ),
    ]
    converged = certificate.status.converged
    kind, mark = ("verdict", "✓") if converged else ("verdict open", "!")
    return (
        f'<div class="{kind}"><span class="mark" aria-hidden="true">{mark}</span>'
        f"<p>{markup.text(verdict)}</p></div>\n{markup.tiles(tiles)}"
    )


def _certificate(lines: list[Line]) -> str:
    rows = [[Cell(part) for part in line] for line in lines]
    header = ("quantity", "value", "meaning")
    return markup.table("certificate", header, rows, numbers=False, kind="words")


# --- Sections ----------------------------------------------------------------------------------


def _map(found: Portrait) -> str:
    shown = found.map
    explained = sum(shown.explained)
    caption = (
        f"The first two principal components, which explain {explained:.0%} of the variance. "
        "Numbered circles are the centers."
    )
    if shown.sampled:
        caption += f" The map shows a sample of {len(shown.rows):,} of {shown.n_points:,} points."
    if found.left_out:
        caption += " Gray crosses are left-out points."
    notes = [found.replay.path_note if found.replay else "", found.replay_note]
    note = markup.paragraph(" ".join(filter(None, (_sentence(note) for note in notes))))
    figure = markup.chart("map", "Points and centers", caption, alone=True)
    return f'<div class="replay">{figure}<div class="panel" hidden></div></div>{note}'


def _sentence(note: str) -> str:
    return note[:1].upper() + note[1:].rstrip(".") + "." if note else ""


def _clusters(found: Portrait, unit: str) -> tuple[str, str]:
    weighted = ("weight",) if found.weighted else ()
    inertia = f"inertia{_in(unit)}"
    header = (
        *("cluster", "points", *weighted, "share", inertia),
        *("radius", "nearest", "distance", "margin"),
    )
    rows = [
        [
            markup.cluster(cluster.index),
            markup.count(cluster.points),
            *([markup.number(cluster.weight)] if found.weighted else []),
            Cell(f"{cluster.share:.1%}", cluster.share),
            markup.number(cluster.sse),
            markup.number(cluster.radius, 4),
            markup.cluster(cluster.nearest),
            markup.number(cluster.distance, 4),
            markup.number(round(cluster.margin, 4), 3),
        ]
        for cluster in found.clusters
    ]
    words = (
        "The radius is the root mean square distance to the center; “nearest” is the cluster with "
        "the nearest center, and “distance” the distance between the two centers."
    )
    if found.n_clusters == 1:
        return markup.table("clusters", header, rows), markup.paragraph(words)
    of_what = "weight" if found.weighted else "points"
    sizes = markup.chart("sizes", "Sizes", f"Share of the {of_what} in each cluster.", alone=True)
    return sizes, markup.table("clusters", header, rows, shown=_CLUSTERS) + markup.paragraph(words)


def _profiles(found: Portrait) -> tuple[str, str]:
    profiles, n_clusters = found.profiles, found.n_clusters
    kept = features_kept(found)
    words = (
        "How far the mean of each column in a cluster lies above or below the mean of all points, "
        "in standard deviations of that column. The columns that separate the clusters best come "
        "first: “between” is the fraction of the column’s variance that lies between clusters."
    )
    if len(kept) < found.n_features:
        words += (
            f" This page contains only the first {len(kept):,} of {found.n_features:,} columns."
        )
    header: list[str | Cell] = ["column", "between", "mean of all"]
    header += [markup.cluster(k) for k in range(n_clusters)]
    rows = [
        [
            Cell(found.names[j]),
            markup.share(float(profiles.strength[j])),
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
    return Cell(shown, value, heat=value)


def _margins(found: Portrait) -> str:
    caption = (
        "One bar for each point, sorted within its cluster: (b − a) / b, where a is the distance "
        "to its own center and b the distance to the nearest other center. The value is 1 at the "
        "center and 0 on the border to another cluster. "
    )
    if np.isfinite(found.margins.mean):
        caption += f"The mean is {found.margins.mean:.2f}."
    return markup.chart(
        "margins", "How clearly points belong to their clusters", caption, alone=True
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
