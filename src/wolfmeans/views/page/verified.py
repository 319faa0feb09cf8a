"""What was verified about a clustering, in words: the certificate of a fit, or a judgement."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wolfmeans.certificate.optimality import Standing
from wolfmeans.certificate.record import Certificate
from wolfmeans.core.solution import Trace
from wolfmeans.fitting.evaluate import Judgement
from wolfmeans.views.page import markup
from wolfmeans.views.page.markup import Cell
from wolfmeans.views.plot.canvas import counted
from wolfmeans.views.portrait import Portrait

if TYPE_CHECKING:
    from markupsafe import Markup

Line = tuple[str, str, str]

_MARKS = {"proved": "✓", "near": "≈", "plain": "≈"}
"""Before the verdict, by `Standing.look`."""


@dataclass(frozen=True)
class Known:
    """What was verified about the clustering, in words."""

    verdict: str
    mark: str
    look: str
    tiles: list[Line]
    lines: list[Line]
    plainly: str
    """The verdict for readers who know no statistics."""
    footer: str
    unit: str = ""
    """Unit of sums of squares; "" for that of X."""
    trace: Trace | None = None


def certified(
    certificate: Certificate, trace: Trace, n_clusters: int, say: Callable[[str], str]
) -> Known:
    """Word the certificate of a fit."""
    unit = f"2^{certificate.unit_exponent}" if certificate.unit_exponent else ""
    lines = [(say(name), say(value), say(reading)) for name, value, reading in certificate.rows()]
    values = {name: value for name, value, _ in lines}
    readings = {name: reading for name, _, reading in lines}
    standing, limit = certificate.standing, certificate.max_iterations
    tiles = [
        (
            f"Inertia{in_unit(unit)}",
            markup.figures(certificate.inertia, 6),
            readings["inertia"].partition("; ")[2],
        ),
        ("Distance from the optimum", standing.brief, standing.meaning),
        (f"Gap{in_unit(unit)}", values["gap"], "possible gain from reassigning points"),
        (
            "Iterations",
            f"{certificate.iterations:,}",
            "no guaranteed limit" if limit is None else f"guaranteed limit: {limit:,}",
        ),
    ]
    mark, look = _mark(standing)
    if not certificate.status.converged:
        mark, look = "!", "open"
    return Known(
        verdict=say(certificate.verdict),
        mark=mark,
        look=look,
        tiles=tiles,
        lines=lines,
        plainly=_plainly(
            standing,
            readings["inertia"].partition(";")[0],
            n_clusters,
            trims=certificate.trimmed_mass > 0,
        ),
        footer=f"Computed by the {certificate.engine} engine.",
        unit=unit,
        trace=trace,
    )


def _mark(standing: Standing) -> tuple[str, str]:
    return (_MARKS[standing.look] if standing.useful else "?"), standing.look


def judged(found: Judgement, picture: Portrait, say: Callable[[str], str]) -> Known:
    """Word what was found about labels from elsewhere."""
    inertia = math.fsum(cluster.sse for cluster in picture.clusters)
    same = (found.n_clusters, found.left_out) == (picture.n_clusters, picture.left_out)
    if not same or not math.isclose(found.sse, inertia, rel_tol=1e-6, abs_tol=1e-300):
        raise ValueError("judgement: it is not that of these labels and this data")
    standing = found.standing
    mark, look = _mark(standing)
    # A clustering that can still be improved gets no tick, however near the optimum it is.
    if mark == "✓" and found.level != "hartigan" and not standing.optimal:
        mark, look = "≈", "near"
    share = found.misplaced / found.n_points
    meaning = "sum of squared distances to the cluster means"
    tiles = [
        ("Inertia", markup.figures(found.sse, 6), meaning),
        ("Distance from the optimum", standing.brief, standing.meaning),
        (
            "Closer to another mean",
            f"{found.misplaced:,}",
            f"{share:.1%} of the points in clusters" if found.misplaced else "no point",
        ),
        ("Gap", markup.figures(found.gap, 3), "possible gain from reassigning points"),
    ]
    return Known(
        verdict=say(found.verdict),
        mark=mark,
        look=look,
        tiles=tiles,
        lines=[(say(name), say(value), say(reading)) for name, value, reading in found.rows()],
        plainly=_plainly(standing, meaning, found.n_clusters, trims=found.left_out > 0)
        + "The labels come from elsewhere and are judged here as a K-means clustering. A method "
        "with another aim, such as a density-based one, may have good reasons for them.",
        footer="The labels were given; wolfmeans judged them and did not change them.",
    )


def in_unit(unit: str) -> str:
    """Return a unit behind a comma; "" for none."""
    return f", in {unit}" if unit else ""


def top(known: Known) -> Markup:
    """Return the top of the page: the verdict, and what it means."""
    verdict = markup.verdict(known.verdict, known.mark, f"verdict {known.look}")
    return markup.joined(verdict, markup.paragraph(known.plainly))


def _plainly(standing: Standing, meaning: str, n_clusters: int, *, trims: bool) -> str:
    """Say to a reader who knows no statistics what the verdict means.

    `meaning` is what the inertia is the sum of.
    """
    words = (
        f"Inertia measures how tight the clusters are: it is the {meaning}, and smaller is better. "
    )
    if standing.optimal:
        return f"{words}No clustering into {counted(n_clusters, 'cluster')} has a smaller one. "
    if not standing.useful:
        return words
    others = f"clustering into {counted(n_clusters, 'cluster')}"
    if trims:
        others += " that leaves out as much"
    sure = "" if standing.proven else f", with {standing.confidence:.0%} confidence"
    # Rounded up, so that it is never too good.
    share = math.ceil(1000 * (1 - 1 / standing.ratio)) / 10
    return f"{words}No {others} can have an inertia more than {share:g} % smaller{sure}. "


def certificate_table(known: Known) -> tuple[Markup, ...]:
    """Return the main numbers, and each line with its meaning."""
    rows = [[Cell(part) for part in line] for line in known.lines]
    header = ("quantity", "value", "meaning")
    table = markup.table("certificate", header, rows, numbers=False, kind="words")
    return markup.tiles(known.tiles), table
