"""Parts of a page as HTML: tables, charts, tiles. Every text is escaped here."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_NO_CHARACTER = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Cell:
    """A cell of a table that is sorted and exported by a number, and shown as a text."""

    text: str
    value: float | None = None
    """None for words."""
    cluster: int | None = None
    """The cluster whose color stands beside the text."""
    bar: float | None = None
    """A share, drawn as a bar behind the text."""
    heat: float | None = None
    """How many standard deviations above or below; colors the cell."""


def text(content: str) -> str:
    """Escape a text."""
    return html.escape(readable(content))


def readable(content: str) -> str:
    """Return a text with a sign for what stands for no character, as in names of odd files.

    Examples
    --------
    >>> readable("odd" + chr(0xDCFF)) == "odd" + chr(0xFFFD)
    True
    """
    return _NO_CHARACTER.sub("\ufffd", content)


def number(value: float, digits: int = 5) -> Cell:
    """Return a cell with a number, empty where there is none."""
    return Cell(figures(value, digits), value) if math.isfinite(value) else Cell("", math.nan)


def count(value: int) -> Cell:
    """Return a cell with a whole number."""
    return Cell(f"{value:,}", value)


def share(value: float) -> Cell:
    """Return a cell with a share and its bar."""
    return Cell(f"{value:.1%}", value, bar=value) if math.isfinite(value) else Cell("", math.nan)


def figures(value: float, digits: int = 5) -> str:
    """Write a number with so many significant digits.

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
    """Return a cell with a cluster's number and color, empty where there is none."""
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
) -> str:
    """Return a table that the script makes sortable and exportable, under `name`.

    The first column holds names, the others are set right where they are `numbers`. The script
    shows `shown` rows at first; 0 is all.
    """
    head = "".join(_head(entry, j, numbers) for j, entry in enumerate(header))
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
    if cell.heat is not None:
        side, strength = heat_of(cell.heat)
        style = f' style="--v:{strength:.0f}%"'
        return f'<{tag} class="number heat {side}"{value}{style}>{text(cell.text)}</{end}>'
    if cell.bar is not None:
        style = f' style="--v:{cell.bar:.4g}"'
        return f'<{tag} class="number bar"{value}{style}>{text(cell.text)}</{end}>'
    mark = "" if cell.cluster is None else swatch(cell.cluster)
    return f'<{tag} class="number"{value}>{mark}{text(cell.text)}</{end}>'


def heat_of(deviation: float) -> tuple[str, float]:
    """Return the color of a deviation's cell and how strong it is, in percent.

    From 0 to 2 spreads a first color comes up, from there to 6 it turns into a second one.

    Examples
    --------
    >>> heat_of(1.0), heat_of(-4.0), heat_of(12.5)
    (('high', 50.0), ('lower', 50.0), ('higher', 100.0))
    """
    side, size = ("high" if deviation >= 0 else "low"), abs(deviation)
    return (side, 50.0 * size) if size <= 2 else (f"{side}er", min(100.0, 25.0 * (size - 2)))


def chart(name: str, title: str, caption: str, *, alone: bool = False) -> str:
    """Return the place of a chart that the script draws; `alone` the section's title will do."""
    heading = "" if alone else f"<h3>{text(title)}</h3>"
    return (
        f'<figure class="plate">{heading}'
        f'<div class="chart {text(name)}" data-chart="{text(name)}" role="img" '
        f'aria-label="{text(title)}"></div><figcaption>{text(caption)}</figcaption></figure>'
    )


def section(name: str, title: str, *parts: str) -> str:
    """Return a section with its heading."""
    inner = "\n".join(part for part in parts if part)
    return f'<section id="{name}">\n<h2>{text(title)}</h2>\n{inner}\n</section>'


def paragraph(content: str, kind: str = "soft") -> str:
    """Return a paragraph, nothing where there is nothing to say."""
    return f'<p class="{kind}">{text(content)}</p>' if content else ""


def folded(title: str, content: str) -> str:
    """Return something that is shown on demand."""
    return f"<details><summary>{text(title)}</summary>{content}</details>"


def tiles(entries: Iterable[tuple[str, str, str]]) -> str:
    """Return large numbers, each with what it is and a few words about it."""
    return (
        '<dl class="tiles">'
        + "".join(
            f"<div><dt>{text(what)}</dt><dd>{text(value)}</dd><dd>{text(words)}</dd></div>"
            for what, value, words in entries
        )
        + "</dl>"
    )
