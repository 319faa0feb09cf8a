"""The study's page: one HTML file with summary, sentences, tables and figures, and no network.

Everything that came from data is escaped; figures are inline SVG in the colors of the theme.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape as escaped
from importlib.resources import files
from statistics import mean, stdev

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
        _section("summary", "In short", _definitions((p.heading, p.text) for p in points)),
        _section("gaps", "Three things called “the gap”", _definitions(_THREE_GAPS)),
        _section("sentences", "The paper’s sentences, tested", _findings(findings)),
        _section("tables", "Tables", _tables(collection, gaps)),
        _section("figures", "Figures", _figures(plates, gaps)),
        _section("repeats", "How noisy is a worst case?", _repeats(collection)),
        _section("runs", "The runs", _runs(collection)),
    ]
    titles = re.findall(r'<section id="(\w+)">\n<h2>(.*?)</h2>', "\n".join(sections))
    links = "\n".join(f'<a href="#{name}">{title}</a>' for name, title in titles)
    body = "\n".join(sections)
    style = (files("wolfmeans.study") / "page.css").read_text(encoding="utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_text(TITLE)}</title>
<style>
{style}</style>
</head>
<body>
<h1>{_text(TITLE)}</h1>
<p class="lead">{_text(_LEAD)}</p>
<nav>{links}</nav>
{body}
<footer>Made by wolfmeans {_text(__version__)}. Printed numbers are shown beside results and enter \
none of them; only columns called “ours − printed” and the summary compare.</footer>
</body>
</html>
"""


def _section(name: str, title: str, content: str) -> str:
    return (
        f'<section id="{name}">\n<h2>{_text(title)}</h2>\n{content}\n</section>' if content else ""
    )


def _text(text: str) -> str:
    """Escape a text; `commands` in backquotes become code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped(text))


def _definitions(pairs: Iterable[tuple[str, str]]) -> str:
    items = (f"<dt>{_text(name)}</dt><dd>{_text(text)}</dd>" for name, text in pairs)
    return "<dl>" + "\n".join(items) + "</dl>"


# --- Sentences -------------------------------------------------------------------------------


def _findings(findings: Iterable[Finding]) -> str:
    rule = (
        "Every verdict is computed from the results on this page, and is no better than these: the "
        "paper has 10,000 runs of each scenario. A tendency holds where nine of ten cases show it, "
        "and does not hold where no more than half do."
    )
    items = "\n".join(map(_finding, findings))
    return f'<p class="soft">{_text(rule)}</p>\n<ol class="claims">\n{items}\n</ol>'


def _finding(finding: Finding) -> str:
    kind, mark = _MARKS[finding.verdict]
    numbers = ""
    if finding.rows:
        table = _grid(finding.header, finding.rows)
        numbers = f"<details><summary>The numbers</summary>{table}</details>"
    return (
        f'<li class="{kind}"><span class="chip">{mark} {_text(finding.verdict)}</span>'
        f'<p class="quote">{_text(finding.sentence)}</p><p>{_text(finding.evidence)}</p>'
        f"{numbers}</li>"
    )


# --- Tables ----------------------------------------------------------------------------------


def _tables(collection: Collection, gaps: Sequence[str]) -> str:
    note = (
        "Ordinary least squares of log g on log(t + 1) over the first N gaps, N the largest "
        "integer with N³ ≤ T² for the longest run’s T gaps. The bound is log of the largest "
        "(n − 1) tr S, with slope −1. The p-value is that of slope = −1 against slope > −1."
    )
    return f'<p class="soft">{_text(note)}</p>' + _by_gap(
        gaps, lambda gap: "\n".join(_paper_table(table) for table in layout(collection, gap))
    )


def _by_gap(gaps: Sequence[str], content: Callable[[str], str]) -> str:
    """Return a folding block for each gap, the first one open."""
    blocks: list[str] = []
    for gap in gaps:
        if inner := content(gap):
            state = "" if blocks else " open"
            blocks.append(
                f"<details{state}><summary>{_text(_GAP_TITLES[gap])}</summary>{inner}</details>"
            )
    return "\n".join(blocks)


def _paper_table(table: Table) -> str:
    compared = table.compared
    groups = ("bound", "slope (SE)", "intercept (SE)", "p-value")
    first = ", ".join(table.places)
    if compared:
        top = "".join(f'<th class="group" colspan="2">{group}</th>' for group in groups)
        top = f'<th></th><th></th>{top}<th class="group" colspan="2">ours − printed</th>'
        under = "<th>ours</th><th>printed</th>" * len(groups) + "<th>slope</th><th>intercept</th>"
        head = f"<tr>{top}</tr><tr><th scope=col class=text>{first}</th><th>N</th>{under}</tr>"
    else:
        under = "".join(f"<th>{group}</th>" for group in groups)
        head = f"<tr><th scope=col class=text>{first}</th><th>N</th>{under}</tr>"
    rows, before = [], None
    for row in table.rows:
        place = table.place(row)
        block = ' class="block"' if before is not None and place[0] != before else ""
        before = place[0]
        rows.append(
            f"<tr{block}><th scope=row>{_text(', '.join(place))}</th><td>{row.fit.n_points}</td>"
            f"{_cells(row, compared)}</tr>"
        )
    return (
        f'<div class="scroll"><table><caption>{_text(table.caption)}</caption>'
        f"<thead>{head}</thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cells(row: Row, compared: bool) -> str:
    if not compared:
        return "".join(f"<td>{_text(cell)}</td>" for cell in ours(row))
    pairs = zip(ours(row), theirs(row), strict=True)
    cells = "".join(f'<td>{_text(a)}</td><td class="theirs">{_text(b)}</td>' for a, b in pairs)
    for name in ("slope", "intercept"):
        apart = difference(row, name)
        cells += f'<td class="apart">{MISSING if apart is None else signed(apart)}</td>'
    return cells


def _grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a plain table; columns with letters are set left, numbers right."""
    rows = list(rows)
    wordy = [
        any(
            re.search(r"[A-Za-z]{3}", row[j].replace(MISSING, "").replace(" of ", ""))
            for row in rows
        )
        for j in range(len(header))
    ]
    kinds = [" class=text" if words else "" for words in wordy]
    top = "".join(f"<th{kind}>{_text(name)}</th>" for kind, name in zip(kinds, header, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{_text(cell)}</td>" for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _repeats(collection: Collection) -> str:
    rows = []
    for spread in spreads(collection):
        cells = [name_of(spread.result), spread.gap, str(len(spread.slopes))]
        for name, values in (("slope", spread.slopes), ("intercept", spread.intercepts)):
            away = spread.away(name, values)
            cells += [number(mean(values)), number(stdev(values))]
            cells.append(MISSING if away is None else signed(away, 1))
        rows.append(cells)
    if not rows:
        return ""
    header = (
        *("scenario", "gap", "studies"),
        *("slope, mean", "spread", "printed − mean, in spreads"),
        *("intercept, mean", "spread", "printed − mean, in spreads"),
    )
    note = (
        "The same scenario studied again with other random numbers. The spread is the standard "
        "deviation over the studies; a further study would fall within two of them in most cases."
    )
    return f'<p class="soft">{_text(note)}</p>' + _grid(header, rows)


def _runs(collection: Collection) -> str:
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
    return (
        f"<p>{_text(note)}</p>"
        f"<details><summary>Steps, empty clusters and settings</summary>{table}</details>"
    )


# --- Figures ---------------------------------------------------------------------------------


def _figures(plates: Sequence[Plate], gaps: Sequence[str]) -> str:
    def gallery(group: str) -> str:
        drawn = "\n".join(_figure(plate) for plate in plates if plate.group == group)
        return f'<div class="plates">{drawn}</div>' if drawn else ""

    note = (
        "Marks: worst case over all replications; hollow ones are not in the fit. Solid: the "
        "fitted line, with its slope and standard error. Dashed: slope −1 through the largest "
        "(n − 1) tr S."
    )
    inner = _by_gap(gaps, gallery) + gallery("data")
    return f'<p class="soft">{_text(note)}</p>{inner}' if plates else ""


def _figure(plate: Plate) -> str:
    svg = inline_svg(plate.svg.decode(), plate.name, plate.caption)
    return f"<figure>{svg}<figcaption>{_text(plate.caption)}</figcaption></figure>"


def inline_svg(svg: str, name: str, label: str) -> str:
    """Return an SVG as an element of the page: own names, the theme's colors, no addresses."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box is not None
    opening = f'<svg {box.group()} role="img" aria-label="{escaped(label)}">'
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
