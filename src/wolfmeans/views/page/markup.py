"""Parts of HTML documents: tables, charts, sections, from the templates of kit.jinja.

Pages, notebook views and the study's report are made of them. Jinja escapes every text; what is
markup already has the type `Markup`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_QUOTED = re.compile("`([^`]+)`")
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
    filled: float | None = None
    """A share from 0 to 1 that tints the cell; None for none."""
    strong: bool = False
    """Whether the text is bold."""
    title: str = ""
    """What a column of clusters is called in a file."""

    @property
    def kind(self) -> str:
        """The CSS classes."""
        if self.words:
            return "left"
        if self.heat and self.value is not None:
            return f"number heat {heat_of(self.value)[0]}"
        return (
            "number"
            + " bar" * self.bar
            + " filled" * (self.filled is not None)
            + " strong" * self.strong
        )

    @property
    def style(self) -> str:
        """The CSS variable of a bar or a tint."""
        if self.filled is not None:
            return f"--v:{100 * self.filled:.0f}%"
        if self.heat and self.value is not None:
            return f"--v:{heat_of(self.value)[1]:.0f}%"
        return f"--v:{self.value:.4g}" if self.bar else ""

    @property
    def exact(self) -> str:
        """The value for the script; "" if it is unknown."""
        return repr(self.value) if self.value is not None and math.isfinite(self.value) else ""


# --- Templates -----------------------------------------------------------------------------------


@cache
def environment() -> Environment:
    """Return Jinja's environment; a template is named `folder/file`, like views.page/kit.jinja."""
    try:
        from jinja2 import Environment, FunctionLoader
    except ImportError as error:
        raise ImportError("pages need Jinja2: pip install 'wolfmeans[page]'") from error

    def source(name: str) -> str:
        folder, _, file = name.partition("/")
        return (files(f"wolfmeans.{folder}") / file).read_text(encoding="utf-8")

    made = Environment(
        loader=FunctionLoader(source),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )
    made.filters["coded"] = coded
    return made


def _finalized(content: Any) -> Any:
    """Return what a template writes, without lone surrogates."""
    return readable(content) if type(content) is str else content


def rendered(template: str, **content: Any) -> Markup:
    """Fill in a template."""
    from markupsafe import Markup

    return Markup(environment().get_template(template).render(content))


@cache
def _kit() -> Any:
    return environment().get_template("views.page/kit.jinja").module


def _part(name: str, *content: Any) -> Markup:
    """Fill in a part of the kit."""
    made: Markup = getattr(_kit(), name)(*content)
    return made


def joined(*parts: Markup) -> Markup:
    """Return markup, one part after the other."""
    from markupsafe import Markup

    return Markup("").join(parts)


def trusted(content: str) -> Markup:
    """Return markup that was made without a template, such as a figure."""
    from markupsafe import Markup

    return Markup(content)


# --- Texts and numbers ---------------------------------------------------------------------------


def readable(content: str) -> str:
    """Replace lone surrogates, which occur in names of files and cannot be encoded.

    Examples
    --------
    >>> readable("odd" + chr(0xDCFF)) == "odd" + chr(0xFFFD)
    True
    """
    return _SURROGATE.sub("\ufffd", content)


def coded(content: str) -> Markup:
    """Escape a text; `commands` in backquotes become code.

    Examples
    --------
    >>> str(coded("a < b, see `fit`"))
    'a &lt; b, see <code>fit</code>'
    """
    from markupsafe import Markup, escape

    # A plain str: a pattern would join pieces of markup by escaping them again.
    return Markup(_QUOTED.sub(r"<code>\1</code>", str(escape(readable(content)))))


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


# --- Parts ---------------------------------------------------------------------------------------


def table(
    name: str,
    header: Sequence[str | Cell],
    rows: Iterable[Sequence[Cell]],
    *,
    numbers: bool = True,
    shown: int = 0,
    kind: str = "",
    left: Sequence[int] = (),
    sorted_by: int | None = None,
) -> Markup:
    """Return a table that the script makes sortable and exports as `name`.csv.

    The first column holds names; the others are right-aligned if they are `numbers`, except those
    at the places `left`. The script shows `shown` rows at first, 0 is all, and sorts them by the
    column `sorted_by`, the largest first.
    """
    kind = " ".join(filter(None, ("sortable" if numbers or shown else "", kind)))
    return _part("table", name, header, rows, numbers, shown, kind, left, sorted_by)


def grid(
    header: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    numbers: Sequence[int] = (),
    best: Sequence[int] = (),
) -> Markup:
    """Return a table without script; `numbers` are right-aligned columns, `best` bold rows."""
    return _part("grid", header, rows, numbers, best)


def chart(name: str, title: str, caption: str, *, heading: bool = True) -> Markup:
    """Return an empty chart for the script to draw; without `heading`, the section's is enough."""
    return _part("chart", name, title, caption, heading)


def section(name: str, title: str, *parts: Markup) -> Markup:
    """Return a section with its heading; "" if it has no content."""
    inner = [part for part in parts if part]
    return _part("section", name, title, inner) if inner else joined()


def paragraph(content: str, kind: str = "soft") -> Markup:
    """Return a paragraph of a CSS class; "" if it has no content."""
    return _part("paragraph", content, kind) if content else joined()


def verdict(sentence: str, mark: str, kind: str = "verdict") -> Markup:
    """Return a sentence in a box, with a mark before it."""
    return _part("verdict", sentence, mark, kind)


def folded(title: str, content: Markup, *, is_open: bool = False) -> Markup:
    """Return content that is shown when its title is clicked."""
    return _part("folded", title, content, is_open)


def tiles(entries: Iterable[tuple[str, str, str]]) -> Markup:
    """Return large numbers: (name, value, a few words about it) for each."""
    return _part("tiles", entries)


def definitions(pairs: Iterable[tuple[Any, Any]]) -> Markup:
    """Return names with what they mean."""
    return _part("definitions", pairs)


def block(kind: str, *parts: Markup) -> Markup:
    """Return an element of a CSS class."""
    return _part("block", kind, joined(*parts))


def map_with_panel(figure: Markup, note: Markup) -> Markup:
    """Return the map, with the panel that the script fills beside it."""
    return _part("map", figure, note)


def fragment(style: str, parts: Iterable[Markup]) -> Markup:
    """Return a notebook's view: one element, preceded by its style sheet."""
    return _part("fragment", style, list(parts))


def sparkline(
    size: tuple[float, float], meaning: str, places: Sequence[tuple[float, float]]
) -> Markup:
    """Return a small line through some places, with a dot at its end."""
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    ends = (f"{side:.0f}" for side in size)
    x, y = (f"{side:.1f}" for side in places[-1])
    return _part("sparkline", *ends, meaning, line, x, y)


def sparklines(inertia: Markup, gaps: Markup) -> Markup:
    """Return the sparklines of a run."""
    return _part("sparklines", inertia, gaps)
