"""Parts of HTML documents: tables, charts, sections. Every text is escaped here.

Pages, notebook views and the study's report are made of them.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Cell:
    """A cell of a table: shown as a text, sorted and exported by its value."""

    text: str
    value: float | None = None
    """None for words."""
    cluster: int | None = None
    """The cluster whose color is shown beside the text."""
    bar: bool = False
    """Whether the value is a share, drawn as a bar behind the text."""
    heat: bool = False
    """Whether the value is a deviation in standard deviations, which colors the cell."""
    words: bool = False
    """Whether the text is words, aligned left, although it is sorted by a value."""


def text(content: str) -> str:
    """Escape a text."""
    return html.escape(readable(content))


def readable(content: str) -> str:
    """Replace lone surrogates, which occur in names of files and cannot be encoded.

    Examples
    --------
    >>> readable("odd" + chr(0xDCFF)) == "odd" + chr(0xFFFD)
    True
    """
    return _SURROGATE.sub("\ufffd", content)


def number(value: float, digits: int = 5) -> Cell:
    """Return a cell with a number, empty if it is not finite."""
    return Cell(figures(value, digits), value) if math.isfinite(value) else Cell("", math.nan)


def count(value: int) -> Cell:
    """Return a cell with a whole number."""
    return Cell(f"{value:,}", value)


def figures(value: float, digits: int = 5) -> str:
    """Format a number with this many significant digits.

    Examples
    --------
    >>> figures(1234567.0), figures(0.00012), figures(-3.0), figures(1e12)
    ('1,234,567', '0.00012', '−3', '1e+12')
    """
    if value == 0:
        return "0"
    if value < 0:
        return "−" + figures(-value, digits)
    size = math.floor(math.log10(abs(value)))
    if not -5 <= size < 9:
        return f"{value:.{digits - 1}g}"
    return f"{value:,.0f}" if size >= digits else f"{float(f'{value:.{digits}g}'):,.{digits}g}"


def cluster(index: int) -> Cell:
    """Return a cell with a cluster's number and color, empty for -1."""
    return Cell(str(index), index, cluster=index) if index >= 0 else Cell("", math.nan)


def swatch(index: int) -> str:
    """Return a dot in the color of a cluster."""
    return f'<i class="swatch" style="--c:var(--k{index})"></i>'


def table(
    name: str,
    header: Sequence[str | Cell],
    rows: Iterable[Sequence[Cell]],
    *,
    numbers: bool = True,
    shown: int = 0,
    kind: str = "",
    left: Sequence[int] = (),
) -> str:
    """Return a table that the script makes sortable and exports as `name`.csv.

    The first column holds names; the others are right-aligned if they are `numbers`, except those
    at the places `left`. The script shows `shown` rows at first; 0 is all.
    """
    head = "".join(
        f'<th scope="col" class="left">{text(str(entry))}</th>'
        if j in left
        else _head(entry, j, numbers)
        for j, entry in enumerate(header)
    )
    body = "\n".join(
        "<tr>" + "".join(_cell(cell, j) for j, cell in enumerate(row)) + "</tr>" for row in rows
    )
    classes = " ".join(filter(None, ("sortable" if numbers else "", kind)))
    return (
        f'<div class="table" data-name="{text(name)}" data-shown="{shown}"><div class="scroll">'
        f'<table class="{classes}"><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>'
        "</div></div>"
    )


def _head(entry: str | Cell, position: int, numbers: bool) -> str:
    kind = ' class="number"' if numbers and position else ""
    if isinstance(entry, str):
        return f'<th scope="col"{kind}>{text(entry)}</th>'
    assert entry.cluster is not None
    return (
        f'<th scope="col" class="number cluster" data-name="cluster {entry.cluster}">'
        f"{swatch(entry.cluster)}{text(entry.text)}</th>"
    )


def _cell(cell: Cell, position: int) -> str:
    tag = 'th scope="row"' if position == 0 else "td"
    end = tag.partition(" ")[0]
    if cell.value is None:
        return f"<{tag}>{text(cell.text)}</{end}>"
    value = f' data-value="{cell.value!r}"' if math.isfinite(cell.value) else ' data-value=""'
    kind = style = ""
    if cell.heat:
        side, strength = heat_of(cell.value)
        kind, style = f" heat {side}", f' style="--v:{strength:.0f}%"'
    elif cell.bar:
        kind, style = " bar", f' style="--v:{cell.value:.4g}"'
    mark = "" if cell.cluster is None else swatch(cell.cluster)
    kind = "left" if cell.words else f"number{kind}"
    return f'<{tag} class="{kind}"{value}{style}>{mark}{text(cell.text)}</{end}>'


def heat_of(deviation: float) -> tuple[str, float]:
    """Return the color of a deviation's cell and its strength in percent.

    From 0 to 2 standard deviations a first color appears; from 2 to 6 it turns into a second one.

    Examples
    --------
    >>> heat_of(1.0), heat_of(-4.0), heat_of(12.5)
    (('high', 50.0), ('lower', 50.0), ('higher', 100.0))
    """
    side, size = ("high" if deviation >= 0 else "low"), abs(deviation)
    return (side, 50.0 * size) if size <= 2 else (f"{side}er", min(100.0, 25.0 * (size - 2)))


def grid(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Sequence[int] = (),
    best: Sequence[int] = (),
) -> str:
    """Return a table without script; `numbers` are right-aligned columns, `best` bold rows."""

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = (' class="number"' if j in numbers else "" for j in range(len(row)))
        pairs = zip(kinds, row, strict=True)
        return "".join(f"<{tag}{kind}>{text(content)}</{tag}>" for kind, content in pairs)

    body = "".join(
        ('<tr class="best">' if i in best else "<tr>") + cells("td", row) + "</tr>"
        for i, row in enumerate(rows)
    )
    head = f"<thead><tr>{cells('th', header)}</tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{body}</tbody></table></div>'


def chart(name: str, title: str, caption: str, *, heading: bool = True) -> str:
    """Return an empty chart for the script to draw; without `heading`, the section's is enough."""
    above = f"<h3>{text(title)}</h3>" if heading else ""
    return (
        f'<figure class="plate">{above}'
        f'<div class="chart {text(name)}" data-chart="{text(name)}" role="img" '
        f'aria-label="{text(title)}"></div><figcaption>{text(caption)}</figcaption></figure>'
    )


def section(name: str, title: str, *parts: str) -> str:
    """Return a section with its heading; "" if it has no content."""
    inner = "\n".join(filter(None, parts))
    return f'<section id="{name}">\n<h2>{text(title)}</h2>\n{inner}\n</section>' if inner else ""


def links_to(sections: str) -> str:
    """Return links to the sections, titled as their headings."""
    found = re.findall(r'<section id="(\w+)">\n<h2>(.*?)</h2>', sections)
    return "\n".join(f'<a href="#{name}">{heading}</a>' for name, heading in found)


def paragraph(content: str, kind: str = "soft") -> str:
    """Return a paragraph of a CSS class; "" if it has no content."""
    attribute = f' class="{kind}"' if kind else ""
    return f"<p{attribute}>{text(content)}</p>" if content else ""


def verdict(sentence: str, mark: str, kind: str = "verdict") -> str:
    """Return a sentence in a box, with a mark before it."""
    return (
        f'<div class="{kind}"><span class="mark" aria-hidden="true">{mark}</span>'
        f"<p>{text(sentence)}</p></div>"
    )


def folded(title: str, content: str) -> str:
    """Return content that is shown when its title is clicked."""
    return f"<details><summary>{text(title)}</summary>{content}</details>"


def tiles(entries: Iterable[tuple[str, str, str]]) -> str:
    """Return large numbers: (name, value, a few words about it) for each."""
    found = "".join(
        f"<div><dt>{text(name)}</dt><dd>{text(value)}</dd><dd>{text(words)}</dd></div>"
        for name, value, words in entries
    )
    return f'<dl class="tiles">{found}</dl>'
