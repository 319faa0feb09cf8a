"""The study's page: one HTML file with summary, sentences, tables and figures, and no network.

Everything that came from data is escaped; figures are inline SVG in the colors of the theme.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from wolfmeans import __version__
from wolfmeans.study.claims import Finding, Verdict, mean_iterations, name_of
from wolfmeans.study.figures import INK, LINE, PAPER, Plate
from wolfmeans.study.results import GAPS, Collection
from wolfmeans.study.summary import Point
from wolfmeans.study.tables import (
    MISSING,
    Row,
    Table,
    difference,
    layout,
    number,
    ours,
    signed,
    spreads,
    theirs,
)
from wolfmeans.views.page import markup
from wolfmeans.views.page.markup import coded

if TYPE_CHECKING:
    from markupsafe import Markup

TITLE = "The worst-case rate of Lloyd’s algorithm"

_LEAD = (
    "K-means is the Frank-Wolfe method on a concave objective, and its smallest gap falls at least "
    "like 1/t (Pokojovy, Jobe and Lacoste-Julien, AISTATS 2026). This is the empirical part of "
    "that paper, run again, with the printed numbers beside ours."
)
_THREE_GAPS = (
    (
        "published",
        "The drop of the inertia from one set of centers to the next, counted from the seeds. The "
        "seeds are not the means of a partition, so its first term is no Frank-Wolfe gap. This is "
        "the one to hold against the printed tables.",
    ),
    (
        "decrease",
        "The decrease of the objective in a step, from the first partition on. The theorem holds "
        "for it too.",
    ),
    (
        "gap",
        "The Frank-Wolfe gap proper: what is gained by moving every point to its nearest center, "
        "before the centers move. This is what the theorem is about.",
    ),
)
_MARKS = {
    Verdict.HOLDS: ("holds", "✓"),
    Verdict.PARTLY: ("part", "◐"),
    Verdict.FAILS: ("fails", "✗"),
    Verdict.NOT_RUN: ("open", "○"),
}
_GAP_TITLES = {
    "published": "Inertia drop from the seeds: published",
    "decrease": "Decrease of the objective: decrease",
    "gap": "Frank-Wolfe gap: gap",
}


def document(
    collection: Collection,
    points: Sequence[Point],
    findings: Sequence[Finding],
    plates: Sequence[Plate],
    gaps: Sequence[str] = GAPS,
) -> str:
    """Return the whole page."""
    sections = [
        ("summary", "In short", _definitions((p.heading, p.text) for p in points)),
        ("gaps", "Three things called “the gap”", _definitions(_THREE_GAPS)),
        ("sentences", "The paper’s sentences, tested", _findings(findings)),
        ("tables", "Tables", _tables(collection, gaps)),
        ("figures", "Figures", _figures(plates, gaps)),
        ("repeats", "How noisy is a worst case?", _repeats(collection)),
        ("runs", "The runs", _runs(collection)),
    ]
    filled = [(name, title, content) for name, title, content in sections if content]
    page = markup.rendered(
        "study/page.jinja",
        title=TITLE,
        lead=_LEAD,
        style=(files("wolfmeans.study") / "page.css").read_text(encoding="utf-8"),
        version=__version__,
        links=[(name, title) for name, title, _ in filled],
        sections=[markup.section(name, title, content) for name, title, content in filled],
    )
    return f"{page}\n"


@cache
def _parts() -> Any:
    """Return the parts that only this page has."""
    return markup.environment().get_template("study/parts.jinja").module


def _definitions(pairs: Iterable[tuple[str, str]]) -> Markup:
    return markup.definitions((coded(name), coded(text)) for name, text in pairs)


def _note(text: str, kind: str = "soft") -> Markup:
    return markup.paragraph(coded(text), kind)


# --- Sentences -------------------------------------------------------------------------------


def _findings(findings: Iterable[Finding]) -> Markup:
    rule = (
        "Every verdict is computed from the results on this page, and is no better than these: the "
        "paper has 10,000 runs of each scenario. A tendency holds where nine of ten cases show it, "
        "and does not hold where no more than half do."
    )
    entries = []
    for finding in findings:
        kind, mark = _MARKS[finding.verdict]
        numbers = markup.joined()
        if finding.rows:
            numbers = markup.folded("The numbers", _grid(finding.header, finding.rows))
        entries.append((kind, mark, finding, numbers))
    return markup.joined(_note(rule), _parts().findings(entries))


# --- Tables ----------------------------------------------------------------------------------


def _tables(collection: Collection, gaps: Sequence[str]) -> Markup:
    note = (
        "Ordinary least squares of log g on log(t + 1) over the first N gaps, N the largest "
        "integer with N³ ≤ T² for the longest run’s T gaps. The bound is log of the largest "
        "(n − 1) tr S, with slope −1. The p-value is that of slope = −1 against slope > −1."
    )

    def tables(gap: str) -> Markup:
        return markup.joined(*(_paper_table(table) for table in layout(collection, gap)))

    return markup.joined(_note(note), _by_gap(gaps, tables))


def _by_gap(gaps: Sequence[str], content: Callable[[str], Markup]) -> Markup:
    """Return a folding block for each gap, the first one open."""
    blocks: list[Markup] = []
    for gap in gaps:
        if inner := content(gap):
            blocks.append(markup.folded(_GAP_TITLES[gap], inner, is_open=not blocks))
    return markup.joined(*blocks)


def _paper_table(table: Table) -> Markup:
    rows, before = [], None
    for row in table.rows:
        place = table.place(row)
        rows.append(
            {
                "begins_block": before is not None and place[0] != before,
                "place": ", ".join(place),
                "n_points": row.fit.n_points,
                "cells": _cells(row, table.compared),
            }
        )
        before = place[0]
    content = {
        "caption": coded(table.caption),
        "compared": table.compared,
        "first": ", ".join(table.places),
        "rows": rows,
    }
    groups = ("bound", "slope (SE)", "intercept (SE)", "p-value")
    made: Markup = _parts().paper_table(content, groups)
    return made


def _cells(row: Row, compared: bool) -> list[tuple[str, str]]:
    """Return the texts of the cells and their CSS classes."""
    if not compared:
        return [(cell, "") for cell in ours(row)]
    cells: list[tuple[str, str]] = []
    for own, printed in zip(ours(row), theirs(row), strict=True):
        cells += [(own, ""), (printed, "theirs")]
    for name in ("slope", "intercept"):
        apart = difference(row, name)
        cells.append((MISSING if apart is None else signed(apart), "apart"))
    return cells


def _grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Return a plain table; columns with letters are set left, numbers right."""
    rows = list(rows)
    numbers = [
        j
        for j in range(len(header))
        if not any(
            re.search(r"[A-Za-z]{3}", row[j].replace(MISSING, "").replace(" of ", ""))
            for row in rows
        )
    ]
    return markup.grid(header, [[coded(cell) for cell in row] for row in rows], numbers=numbers)


def _repeats(collection: Collection) -> Markup:
    rows = []
    for spread in spreads(collection):
        cells = [name_of(spread.result), spread.gap, str(len(spread.slopes))]
        for name, values in (("slope", spread.slopes), ("intercept", spread.intercepts)):
            away = spread.away(name, values)
            cells += [number(mean(values)), number(stdev(values))]
            cells.append(MISSING if away is None else signed(away, 1))
        rows.append(cells)
    if not rows:
        return markup.joined()
    header = (
        *("scenario", "gap", "studies"),
        *("slope, mean", "spread", "printed − mean, in spreads"),
        *("intercept, mean", "spread", "printed − mean, in spreads"),
    )
    note = (
        "The same scenario studied again with other random numbers. The spread is the standard "
        "deviation over the studies; a further study would fall within two of them in most cases."
    )
    return markup.joined(_note(note), _grid(header, rows))


def _runs(collection: Collection) -> Markup:
    rows = []
    for result in collection.results:
        scenario, (steps, error) = result.scenario, mean_iterations(result)
        rows.append(
            (
                scenario.name,
                f"{scenario.replications:,}",
                str(scenario.seed),
                str(scenario.repeat),
                f"{steps:.2f} ± {error:.2f}",
                str(max(result.iterations)),
                f"{result.empty_runs / scenario.replications:.2%}",
            )
        )
    header = (
        "scenario",
        "runs",
        "seed",
        "repeat",
        "mean steps",
        "longest",
        "with an empty cluster",
    )
    table = _grid(header, rows)
    note = (
        "Beside this page lie `tables.csv` (one row for each scenario and gap), `scenarios.csv` "
        "(the same with repeats and everything that tells scenarios apart), `tables.md`, "
        "`tables.tex`, and `figures/` with every figure as PNG, SVG and PDF."
    )
    fold = markup.folded("Steps, empty clusters and settings", table)
    return markup.joined(_note(note, ""), fold)


# --- Figures ---------------------------------------------------------------------------------


def _figures(plates: Sequence[Plate], gaps: Sequence[str]) -> Markup:
    if not plates:
        return markup.joined()

    def gallery(group: str) -> Markup:
        drawn = [(_drawn(plate), plate.caption) for plate in plates if plate.group == group]
        return _parts().gallery(drawn) if drawn else markup.joined()

    note = (
        "Marks: worst case over all replications; hollow ones are not in the fit. Solid: the "
        "fitted line, with its slope and standard error. Dashed: slope −1 through the largest "
        "(n − 1) tr S."
    )
    return markup.joined(_note(note), _by_gap(gaps, gallery), gallery("data"))


def _drawn(plate: Plate) -> Markup:
    return markup.trusted(inline_svg(plate.svg.decode(), plate.name, plate.caption))


def inline_svg(svg: str, name: str, label: str) -> str:
    """Return an SVG as an element of the page: own names, the theme's colors, no addresses."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box is not None
    opening = f'<svg {box.group()} role="img" aria-label="{escape(label)}">'
    svg = re.sub(r"<svg[^>]*>", lambda _: opening, svg, count=1)
    # Figures share names such as patch_1.
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(?:xlink:)?href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    # Two decimals of a point are enough; scales of transforms stay as they are.
    svg = re.sub(r' (?:d|x|y)="[^"]*"', lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m.group()), svg)
    for color, variable in ((INK, "--ink"), (LINE, "--line"), (PAPER, "--paper")):
        svg = svg.replace(color, f"var({variable})")
    return svg.strip()
