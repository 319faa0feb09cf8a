"""The page of a scan: inertia with certified bands, silhouettes, and a table of all fits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from wolfmeans.estimators.scan_result import Cell as Fit
from wolfmeans.estimators.scan_result import Scan, number_columns, ticks_of
from wolfmeans.views.page import markup
from wolfmeans.views.page.document import Page, document
from wolfmeans.views.page.markup import Cell
from wolfmeans.views.plot.canvas import counted
from wolfmeans.views.plot.scans import apart

if TYPE_CHECKING:
    from markupsafe import Markup

_FIELDS = {
    "K": "n_clusters",
    "alpha": "alpha",
    "inertia": "inertia",
    "lower bound": "lower_bound",
    "optimality": "ratio",
    "silhouette": "silhouette",
    "simplified": "simplified_silhouette",
    "Calinski-H.": "calinski_harabasz",
    "stability": "stability",
    "gap": "gap",
}
"""What the columns of the table sort by."""


def scan_page(scan: Scan, *, title: str = "How many clusters?", n_points: int = 0) -> Page:
    """Make a self-contained page about a scan.

    Examples
    --------
    >>> import numpy as np
    >>> import wolfmeans
    >>> from wolfmeans import report
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> found = wolfmeans.scan(X, n_clusters=range(1, 5), random_state=0)
    >>> report.scan_page(found).title
    'How many clusters?'
    """
    trimmed = len(scan.alphas) > 1
    facts = [f"{n_points:,} points"] if n_points else []
    facts.append(f"{counted(len(scan.cells), 'fit')} with a certificate")
    inertia = markup.chart(
        "inertia",
        "Inertia and its lower bound",
        "The band reaches from the lower bound to the inertia found; the optimum lies inside. "
        "The ring marks the elbow, where the curve bends most.",
    )
    silhouette = markup.chart(
        "silhouette",
        "Silhouette",
        "The mean silhouette, from all distances between points (of a sample of 2,000 if there are "
        "more). It is near 1 if clusters are compact and far apart.",
    )
    plates = [inertia, silhouette]
    if trimmed:
        plates.append(
            markup.chart(
                "trimming",
                "Trimmed curves",
                "Inertia by trimmed fraction, one curve for each number of clusters.",
            )
        )
    sentences = (sentence[:1].upper() + sentence[1:] for sentence in scan.sentences())
    return document(
        title=title,
        lead=" · ".join(facts),
        top=markup.joined(*(markup.verdict(sentence, "→") for sentence in sentences)),
        sections=[
            ("charts", "Charts", (markup.block("plates", *plates),)),
            ("fits", "All fits", (_table(scan),)),
        ],
        data={
            "n_clusters": len(scan.alphas),
            "n_colors": len(scan.alphas),
            "ticks": ticks_of(scan.n_clusters),
            "named": _named_curves(scan) if trimmed else [],
            "scan": [
                {
                    "alpha": alpha,
                    "cells": [
                        _numbers(cell, scan.elbow(alpha)) for cell in scan.along_clusters(alpha)
                    ],
                }
                for alpha in scan.alphas
            ],
        },
        footer="A lower bound with a percentage holds with that confidence; the others are proven.",
    )


def _table(scan: Scan) -> Markup:
    header, *texts = scan.texts()
    rows = []
    for cell, words in zip(scan.cells, texts, strict=True):
        values = (getattr(cell, _FIELDS[name]) for name in header)
        numbers = (math.nan if value is None else value for value in values)
        rows.append(
            [
                Cell(shown, value, words=name == "optimality")
                for name, shown, value in zip(header, words, numbers, strict=True)
            ]
        )
    left = [place for place in range(len(header)) if place not in number_columns(header)]
    return markup.table("scan", header, rows, left=left)


def _numbers(cell: Fit, elbow: int | None) -> dict[str, float | None]:
    return {
        "k": cell.n_clusters,
        "inertia": cell.inertia,
        "lower": cell.lower_bound,
        "silhouette": cell.silhouette if cell.n_clusters > 1 else None,
        "elbow": cell.n_clusters == elbow,
    }


def _named_curves(scan: Scan) -> list[int]:
    """Return which of the trimmed curves have room for a name at their ends."""
    untrimmed, ends = (
        [cell.inertia for cell in scan.along_clusters(scan.alphas[i])] for i in (0, -1)
    )
    return sorted(apart(ends, 0.07 * max(untrimmed)))
