"""The page of a clustering: clusters in words and numbers, map with replay, certificate, run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline

from wolfmeans.core.solution import Trace
from wolfmeans.estimators import KMeans, SphericalKMeans, TrimmedKMeans
from wolfmeans.fitting.evaluate import Judgement, judge
from wolfmeans.inputs.preparation import Preparation
from wolfmeans.views.page import markup
from wolfmeans.views.page.comparison import comparisons, percent
from wolfmeans.views.page.document import Page, document
from wolfmeans.views.page.given import Column, Names, given_columns
from wolfmeans.views.page.given import cluster_names as names_of_clusters
from wolfmeans.views.page.markup import Cell
from wolfmeans.views.page.script_data import by_size, features_kept, script_data, thinned
from wolfmeans.views.page.verified import certificate_table, certified, in_unit, judged, top
from wolfmeans.views.plot.canvas import counted
from wolfmeans.views.portrait import Distribution, Distributions, Portrait, Profiles, portrait
from wolfmeans.views.portrait.distributions import in_units_of
from wolfmeans.views.portrait.profiles import zero_if_rounding

if TYPE_CHECKING:
    from markupsafe import Markup

# Columns in a sentence about a cluster, and the deviation that is worth one.
_SAID, _CLEAR = 3, 0.5
# Columns with distributions, which the map can also have as axes; values of them in a table.
_DISTRIBUTIONS, _VALUES = 20, 6
# Rows shown before the reader expands a table.
_FEATURES, _CLUSTERS, _EXAMPLES = 15, 20, 12
# With more clusters, a panel of distributions shows some of them; as in distributions.js.
MOST_ROWS = 24
# With more clusters, the map shows no names or numbers; as in map.js.
_NAMED, _NUMBERED = 40, 80
# Longer tables of iterations are thinned.
_ROWS = 300


def page(
    model: KMeans | SphericalKMeans | TrimmedKMeans | Pipeline | None = None,
    X: Any = None,
    *,
    labels: Any = None,
    outlier: Any = -1,
    sample_weight: Any = None,
    names: Sequence[str] | None = None,
    cluster_names: Mapping[Any, str] | Sequence[str] | None = None,
    id: Any = None,
    color: Any = None,
    compare: Any = None,
    nonlinear: str | None = "auto",
    title: str | None = None,
    replay: bool = True,
    preparation: Preparation | None = None,
    judgement: Judgement | None = None,
    wording: Callable[[str], str] | None = None,
) -> Page:
    """Make a self-contained page about a clustering.

    Parameters
    ----------
    model : KMeans, SphericalKMeans, TrimmedKMeans, Pipeline or None
        The fitted estimator, or a fitted Pipeline that ends in one. The page of a Pipeline shows
        means in the units of the columns before its first step, if these are numbers. None if
        there are `labels`.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The data passed to `fit`, with its rows in the same order. Other data raises an error; see
        `wolfmeans.portrait.portrait`. A frame may have further columns for `id`, `color`,
        `compare` and `labels`.
    labels : array-like of shape (n_samples,) or str, default=None
        The cluster of each row, numbers or strings, from any source, in place of a model; or the
        name of the column that holds it. The page then shows what `wolfmeans.judge` verifies.
    outlier : default=-1
        The label of rows in no cluster; used with `labels` only.
    sample_weight : array-like of shape (n_samples,), default=None
        The weights passed to `fit`.
    names : sequence of str or None, default=None
        Names of the columns; None takes the names seen during the fit.
    cluster_names : dict or sequence of str, default=None
        Names of the clusters: a dict from labels to names, which may name some of them, or a name
        for each.
    id : str, array-like of shape (n_samples,) or dict, default=None
        What the rows are called: a column of X, an array, or a dict with its name and an array.
    color : str, array-like of shape (n_samples,) or dict, default=None
        A column of X, or an array such as known labels, by which the points of the map are colored
        at first; the reader can choose another color on the page.
    compare : str, array-like, sequence of str or dict, default=None
        Columns to cross-tabulate with the clusters: names of columns of X, an array, or a dict
        from names to arrays.
    nonlinear : {"auto", "t-sne", "umap"} or None, default="auto"
        A nonlinear map beside the linear one. "auto" is t-SNE if two principal components explain
        less than half of the variance. "umap" needs the package umap-learn.
    title : str or None, default=None
        Heading of the page.
    replay : bool, default=True
        Whether to run the fit again and show its iterations.
    preparation : Preparation or None, default=None
        How X was computed from the original columns; means are then shown in their units.
    judgement : Judgement or None, default=None
        What `wolfmeans.judgement.judge` has found about these labels; None computes it.
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

    Labels from elsewhere, with names for the clusters:

    >>> page = report.page(labels=X[:, 0] > 0, X=X, cluster_names={"True": "right"})
    >>> page.title
    '100 points in 2 clusters'
    """
    _check_arguments(model, X, labels)
    given = given_columns(model, X, labels, id, color, compare, names)
    picture = portrait(
        model,
        given.X,
        labels=given.labels,
        outlier=outlier,
        sample_weight=sample_weight,
        names=names,
        replay=replay,
        n_distributions=_DISTRIBUTIONS,
        nonlinear=nonlinear,
    )
    if model is None:
        found = judgement or judge(
            given.X, given.labels, sample_weight=sample_weight, outlier=outlier, random_state=0
        )
        known = judged(found, picture, wording or str)
    else:
        estimator = model[-1] if isinstance(model, Pipeline) else model
        known = certified(
            estimator.certificate_, estimator.trace_, picture.n_clusters, wording or str
        )
    column = "column"
    if preparation is not None and preparation.standardizes:
        picture, column = _in_units(picture, preparation), "standardized column"
    picture = replace(picture, profiles=zero_if_rounding(picture.profiles))
    own = picture.cluster_names or tuple(map(str, range(picture.n_clusters)))
    clusters = Names(own, names_of_clusters(cluster_names, own) or own)
    if title is None:
        title = f"{picture.n_points:,} points in {counted(picture.n_clusters, 'cluster')}"
    return document(
        title=title,
        lead=_lead(picture, column),
        top=top(known),
        sections=[
            ("summary", "In words", _summary(picture, clusters, given.id)),
            ("clusters", "Clusters", _clusters(picture, clusters, known.unit)),
            ("distributions", "Distributions", _distributions(picture)),
            ("compare", "Comparison", comparisons(picture, clusters, given)),
            ("profiles", "Profiles", _profiles(picture, clusters)),
            ("map", "Map", _map(picture, clusters)),
            ("certificate", "Certificate", certificate_table(known)),
            ("margins", "Margins", _margins(picture, is_fit=model is not None)),
            ("run", "The run", () if known.trace is None else _run(known.trace, known.unit)),
        ],
        data=script_data(picture, clusters.shown, given, known.trace, known.unit)
        | {"captions": _captions(picture, clusters)},
        footer=known.footer,
    )


def _check_arguments(model: Any, X: Any, labels: Any) -> None:
    if X is None:
        raise TypeError("a page needs X, the data that was clustered")
    if (model is None) == (labels is None):
        raise TypeError("a page needs either a fitted model or labels: report.page(model, X) or "
                        "report.page(labels=labels, X=X)")  # fmt: skip
    ours = (KMeans, SphericalKMeans, TrimmedKMeans, Pipeline)
    if model is not None and not isinstance(model, ours) and hasattr(model, "labels_"):
        raise TypeError(
            f"the page of a {type(model).__name__} is made from its labels: "
            "report.page(labels=model.labels_, X=X)"
        )


def _in_units(picture: Portrait, preparation: Preparation) -> Portrait:
    """Return means, spreads and values in the units of the columns; deviations have none."""
    assert preparation.scale is not None
    profiles: Profiles = picture.profiles
    overall, means = (
        preparation.undo(values).astype(np.float64) for values in (profiles.overall, profiles.means)
    )
    profiles = replace(
        profiles,
        overall=overall,
        spread=profiles.spread * preparation.scale,
        means=means,
        rounding=profiles.rounding * preparation.scale,
    )
    shown = picture.distributions
    shown = None if shown is None else in_units_of(preparation, shown)
    return replace(picture, profiles=profiles, distributions=shown)


def _lead(picture: Portrait, column: str) -> str:
    facts = [
        counted(picture.n_points, "weighted point" if picture.weighted else "point"),
        counted(picture.n_features, column),
        counted(picture.n_clusters, "cluster"),
    ]
    if picture.steps:
        facts.append(f"prepared by {', '.join(picture.steps)}")
    if picture.left_out:
        out = "in no cluster" if picture.cluster_names else "left out"
        facts.append(f"{counted(picture.left_out, 'point')} {out}")
    return " · ".join(facts)


# --- Clusters ------------------------------------------------------------------------------------


def _summary(picture: Portrait, names: Names, ids: Column | None) -> tuple[Markup, ...]:
    """Write a sentence about each cluster, the largest first."""
    if picture.n_clusters == 1:
        return ()
    rows = [
        [
            names.cell(k),
            Cell(f"{picture.clusters[k].share:.1%}"),
            Cell(sentence_about(picture, k)),
            Cell(", ".join(_called(picture, k, ids))),
        ]
        for k in by_size(picture)
    ]
    header = ("cluster", "share", "what sets it apart", "typical rows")
    words = (
        "Columns whose mean in the cluster is at least half a standard deviation above or below "
        "the mean of all points, the strongest first, with both means. Typical rows are the "
        "nearest to the center"
    )
    words += "; the first row of the data is row 0." if ids is None else f", by their {ids.name}."
    table = markup.table("summary", header, rows, numbers=False, shown=_CLUSTERS, kind="words")
    return table, markup.paragraph(words), _typical_rows(picture, names, ids)


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


def _called(picture: Portrait, index: int, ids: Column | None) -> list[str]:
    """Return what the typical rows of a cluster are called."""
    if picture.typical is None:
        return []
    rows = picture.typical[index]
    rows = rows[rows >= 0]
    if ids is None:
        return [str(row) for row in rows.tolist()]
    return Column(ids.name, ids.values[rows]).texts()


def _typical_rows(picture: Portrait, names: Names, ids: Column | None) -> Markup:
    """Return the values of the typical rows in the strongest columns."""
    found = picture.distributions
    if found is None or picture.typical is None:
        return markup.joined()
    columns = _telling(picture, found)
    rows = [
        [
            names.cell(k),
            Cell(called, words=True),
            *(markup.number(float(one.typical[k, place]), 4) for one in columns),
        ]
        for k in by_size(picture)
        for place, called in enumerate(_called(picture, k, ids))
    ]
    header = ["cluster", "row" if ids is None else ids.name]
    header += [picture.names[one.column] for one in columns]
    table = markup.table("typical rows", header, rows, left=[1], shown=_EXAMPLES, kind="plain")
    return markup.joined(markup.paragraph("Typical rows and their values", "title"), table)


def _telling(picture: Portrait, found: Distributions) -> list[Distribution]:
    """Return some columns: in turn, that in which each of the largest clusters stands out most."""
    left = list(found.columns)
    chosen: list[Distribution] = []
    while left and len(chosen) < _VALUES:
        k = by_size(picture)[len(chosen) % picture.n_clusters]
        apart = [abs(float(picture.profiles.deviation[k, one.column])) for one in left]
        chosen.append(left.pop(int(np.argmax(apart))))
    return chosen


def _clusters(picture: Portrait, names: Names, unit: str) -> tuple[Markup, ...]:
    header = [
        *("cluster", *(["label"] if names.given else []), "points"),
        *(["weight"] if picture.weighted else []),
        *("share", f"inertia{in_unit(unit)}", "radius", "nearest", "distance", "margin"),
    ]
    rows = [
        [
            names.cell(cluster.index),
            *(
                [Cell(names.labels[cluster.index], cluster.index, words=True)]
                if names.given
                else []
            ),
            markup.count(cluster.points),
            *([markup.number(cluster.weight)] if picture.weighted else []),
            Cell(f"{cluster.share:.1%}", cluster.share),
            markup.number(cluster.sse),
            markup.number(cluster.radius, 4),
            names.cell(cluster.nearest),
            markup.number(cluster.distance, 4),
            markup.number(round(cluster.margin, 4), 3),
        ]
        for cluster in picture.clusters
    ]
    words = (
        "The radius is the root mean square distance to the center; “nearest” is the cluster with "
        "the nearest center, and “distance” the distance between the two centers."
    )
    left = [header.index("nearest")] if names.wordy else []
    left += [1] if names.given else []
    place = header.index("share")
    table = markup.table(
        "clusters", header, rows, shown=_CLUSTERS, left=left, sorted_by=place, kind="plain"
    )
    if picture.n_clusters == 1:
        return table, markup.paragraph(words)
    caption = f"Share of the {'weight' if picture.weighted else 'points'} in each cluster."
    if picture.left_out:
        out = 1.0 - math.fsum(cluster.share for cluster in picture.clusters)
        caption += f" {percent(out)} is in no cluster."
    chart = markup.chart("sizes", "Sizes", caption, heading=False)
    return chart, table, markup.paragraph(words)


def _distributions(picture: Portrait) -> tuple[Markup, ...]:
    found = picture.distributions
    if found is None or picture.n_clusters == 1:
        return ()
    words = (
        "How the values of each column are distributed within the clusters. The columns that "
        "separate the clusters best come first. Each row is a cluster: the higher the bar, the "
        "more of its points have such a value. The line is the median, the band reaches from the "
        "lower to the upper quartile; half of the cluster’s points lie in it."
    )
    if picture.n_clusters > MOST_ROWS:
        words += " Shown are the clusters with the highest and with the lowest medians."
    if found.sampled:
        words += f" They come from a sample of {found.n_rows:,} of {picture.n_points:,} points."
    n_features = len(picture.names)
    if len(found.columns) < n_features:
        words += f" This page has those of {len(found.columns):,} of {n_features:,} columns."
    return markup.paragraph(words), markup.block("panels")


def _profiles(picture: Portrait, names: Names) -> tuple[Markup, ...]:
    profiles, n_clusters = picture.profiles, picture.n_clusters
    if n_clusters == 1:
        return ()
    kept = features_kept(picture)
    words = (
        "How far the mean of each column in a cluster lies above or below the mean of all points, "
        "in standard deviations of that column. The columns that separate the clusters best come "
        "first: “between” is the fraction of the column’s variance that lies between clusters."
    )
    n_features = len(picture.names)
    if len(kept) < n_features:
        words += f" This page contains only the first {len(kept):,} of {n_features:,} columns."
    header: list[str | Cell] = ["column", "between", "mean of all"]
    header += [names.head(k) for k in range(n_clusters)]
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
    kind += " named" * names.wordy
    table = markup.table("profiles", header, rows, shown=_FEATURES, kind=kind)
    return markup.paragraph(words), table


def _deviation(value: float) -> Cell:
    sign = "+" if value > 0 else "−"
    shown = f"{sign}{abs(value):.1f}" if abs(value) >= 0.05 else "0"
    return Cell(shown, value, heat=True)


# --- Charts --------------------------------------------------------------------------------------


def _map(picture: Portrait, names: Names) -> tuple[Markup, ...]:
    notes = filter(None, (picture.replay.path_note if picture.replay else "", picture.replay_note))
    # Each note as a sentence.
    note = markup.paragraph(" ".join(f"{n[:1].upper()}{n[1:].rstrip('.')}." for n in notes))
    captions = _captions(picture, names)
    caption = " ".join(filter(None, (captions["plane"], captions["always"])))
    figure = markup.chart("map", "Points and centers", caption, heading=False)
    return (markup.map_with_panel(figure, note),)


def _captions(picture: Portrait, names: Names) -> dict[str, str]:
    """Return what the map says about each of its views, and about all of them."""
    shown, bent = picture.map, picture.nonlinear
    centers = "Circles with names" if names.wordy else "Numbered circles"
    always = []
    if shown.sampled:
        always.append(
            f"The map shows a sample of {len(shown.rows):,} of {shown.n_points:,} points."
        )
    if picture.left_out:
        out = "points in no cluster" if picture.cluster_names else "left-out points"
        always.append(f"Gray crosses are {out}.")
    nonlinear = ""
    if bent is not None:
        nonlinear = (
            f"{bent.method} of {bent.n_placed:,} points: near neighbours stay together. Its axes "
            "have no unit, and distances between far points and sizes of groups mean nothing. The "
            "map was computed after the clustering, which does not depend on it."
        )
        if picture.n_clusters <= (_NAMED if names.wordy else _NUMBERED):
            nonlinear += " Names stand in the middle of the points of their cluster."
    return {
        "plane": (
            "The first two principal components, which explain "
            f"{sum(shown.explained):.0%} of the variance. {centers} are the centers."
        ),
        "nonlinear": nonlinear,
        "axes": f"{centers} are the centers.",
        "always": " ".join(always),
    }


def _margins(picture: Portrait, *, is_fit: bool) -> tuple[Markup, ...]:
    if picture.n_clusters == 1:
        return ()
    caption = (
        "One bar for each point, sorted within its cluster: (b − a) / b, where a is the distance "
        "to its own center and b the distance to the nearest other center. The value is 1 at the "
        "center and 0 on the border to another cluster. "
    )
    if not is_fit:
        caption = (
            "One bar for each point, sorted within its cluster: (b − a) / max(a, b), where a is "
            "the distance to the mean of its own cluster and b the distance to the nearest other "
            "mean. The value is 1 at the mean, 0 halfway to another one, and negative for a point "
            "that is closer to the mean of another cluster. "
        )
    if np.isfinite(picture.margins.mean):
        caption += f"The mean is {picture.margins.mean:.2f}."
    title = "How clearly points belong to their clusters"
    return (markup.chart("margins", title, caption, heading=False),)


def _run(trace: Trace, unit: str) -> tuple[Markup, ...]:
    below = "the dashed line is a lower bound for every clustering"
    bounded = trace.lower_bound > 0
    plates = (
        markup.chart(
            "gap",
            "Frank-Wolfe gap",
            "How much reassigning points would lower inertia, before each step. Its running "
            "minimum is guaranteed to stay below the dashed line h₀/(t + 1), where h₀ is the "
            f"initial inertia{' minus the lower bound' if bounded else ''}.",
        ),
        markup.chart(
            "sse",
            "Inertia",
            "Before each step, with every center at the mean of its cluster. Every step lowers it"
            f"{'; ' + below if bounded else ''}.",
        ),
        markup.chart("moved", "Points that change cluster", "Number of points in each step."),
    )
    squares = (f"{name}{in_unit(unit)}" for name in ("inertia", "gap", "guaranteed", "decrease"))
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
    return markup.block("plates", *plates), markup.folded(title, table)
