"""HTML representations of results for notebooks, without scripts.

Colors derive from the notebook's text color, or contrast with both white and black, so the same
HTML is readable in light and in dark notebooks. Every text is escaped. If the style sheet is
stripped, plain tables and paragraphs remain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from html import escape
from typing import TYPE_CHECKING, Any

from wolfmeans.estimators.scan_result import number_columns
from wolfmeans.views.page import markup
from wolfmeans.views.page.markup import grid, paragraph

if TYPE_CHECKING:
    from markupsafe import Markup

    from wolfmeans.certificate.record import Certificate
    from wolfmeans.core.solution import Record, Trace
    from wolfmeans.estimators.scan_result import Scan
    from wolfmeans.fitting.evaluate import Judgement

_STYLE = """
.wolfmeans { color: inherit; max-width: 60em; font-size: 13px; line-height: 1.45;
  --rule: rgba(128, 128, 128, .35); --plain: rgba(128, 128, 128, .8); --good: #2b9152;
  --open: #b9770e; --bad: #d8483e; --line: #3a86c8; }
.wolfmeans p { margin: .4em 0; }
.wolfmeans .verdict { border-left: 4px solid var(--plain); padding: .25em .8em; font-weight: 600; }
.wolfmeans .verdict.proved { border-color: var(--good); }
.wolfmeans .verdict.near { border-color: var(--line); }
.wolfmeans .verdict.open { border-color: var(--open); }
.wolfmeans .verdict.failed { border-color: var(--bad); }
.wolfmeans .scroll { overflow-x: auto; }
.wolfmeans table { border-collapse: collapse; border: none; margin: .4em 0; color: inherit;
  font-size: inherit; font-variant-numeric: tabular-nums; }
.wolfmeans table tr, .wolfmeans table tbody tr:nth-child(odd),
.wolfmeans table tbody tr:nth-child(even) { background: none; color: inherit; }
.wolfmeans table tbody tr:hover { background: rgba(128, 128, 128, .12); }
.wolfmeans table th, .wolfmeans table td { border: none;
  border-bottom: 1px solid var(--rule); color: inherit;
  padding: .25em 1.1em .25em 0; text-align: left; vertical-align: top; white-space: normal;
  max-width: 38em; }
.wolfmeans th { font-weight: 600; opacity: .75; white-space: nowrap; }
.wolfmeans table td.number, .wolfmeans table th.number { text-align: right; white-space: nowrap; }
.wolfmeans tr.best td { font-weight: 700; }
.wolfmeans .soft { opacity: .75; }
.wolfmeans svg { vertical-align: middle; margin: 0 1.6em 0 .4em; overflow: visible; }
.wolfmeans svg polyline { fill: none; stroke: var(--line); stroke-width: 1.6;
  stroke-linejoin: round; }
.wolfmeans svg circle { fill: var(--line); }
"""
_WIDTH, _HEIGHT = 150.0, 34.0
_MOST_ROWS = 12
_MOST_POINTS = 300


def _or_text(view: Callable[[Any], str]) -> Callable[[Any], str]:
    """Let a view be plain text where Jinja2 is not installed."""

    @wraps(view)
    def shown(result: Any) -> str:
        try:
            markup.environment()
        except ImportError:
            return f"<pre>{escape(str(result))}</pre>"
        return view(result)

    return shown


def fragment(*parts: Markup) -> str:
    """Return the parts as one element, preceded by its style sheet."""
    return str(markup.fragment(_STYLE, parts))


def sparkline(values: Sequence[float], meaning: str, *, logarithmic: bool = False) -> Markup:
    """Return a sparkline of the values; a logarithmic one skips values that are not positive."""
    known = [
        (place, math.log(value) if logarithmic else value)
        for place, value in enumerate(values)
        if math.isfinite(value) and (value > 0 or not logarithmic)
    ]
    if not known:
        return markup.joined()
    # Counted from the end, so that the last value is drawn.
    known = known[:: -max(1, -(-len(known) // _MOST_POINTS))][::-1]
    low, high = min(value for _, value in known), max(value for _, value in known)
    across, down = _WIDTH / max(1, len(values) - 1), _HEIGHT / ((high - low) or 1.0)
    places = [(place * across, (high - value) * down) for place, value in known]
    return markup.sparkline((_WIDTH, _HEIGHT), meaning, places)


@_or_text
def certificate_view(certificate: Certificate) -> str:
    """Return a certificate: its verdict, then each line with its meaning."""
    status = certificate.status
    look = certificate.standing.look
    if not status.converged:
        look = "failed" if status.value.startswith("Failed") else "open"
    return fragment(
        paragraph(certificate.verdict, f"verdict {look}"),
        grid(("quantity", "value", "meaning"), certificate.rows()),
    )


@_or_text
def judgement_view(judgement: Judgement) -> str:
    """Return a judgement of labels: its verdict, then each line with its meaning."""
    return fragment(
        paragraph(judgement.verdict, f"verdict {judgement.standing.look}"),
        grid(("quantity", "value", "meaning"), judgement.rows()),
    )


@_or_text
def trace_view(trace: Trace) -> str:
    """Return a trace: sparklines of inertia and gap, and its first and last rows."""
    records = list(trace)
    if not records:
        return fragment(paragraph("The trace is empty."))
    shown: list[Record | None] = [*records]
    if len(records) > _MOST_ROWS:
        half = _MOST_ROWS // 2
        shown = [*records[:half], None, *records[len(records) - half + 1 :]]
    gaps = sparkline(trace.gap.tolist(), "the gap, on a logarithmic scale", logarithmic=True)
    inertia = sparkline(trace.sse.tolist(), "the inertia")
    return fragment(
        markup.sparklines(inertia, gaps),
        grid(
            ("t", "inertia", "gap", "decrease", "moved", "empty", "seconds"),
            [_cells(record) for record in shown],
            numbers=range(7),
        ),
    )


def _cells(record: Record | None) -> tuple[str, ...]:
    if record is None:
        return ("…",) * 7
    return (
        f"{record.t}",
        f"{record.value:.6g}",
        f"{record.gap:.4g}",
        f"{record.decrease:.4g}",
        f"{record.moved:,}",
        f"{record.empty}",
        f"{record.seconds:.3g}",
    )


@_or_text
def scan_view(scan: Scan) -> str:
    """Return a scan: its table, the row of the best K for each alpha in bold."""
    header, *rows = scan.texts()
    chosen = [one for alpha in scan.alphas if (one := scan.best_of(alpha)) is not None]
    keys = {(one.n_clusters, one.alpha) for one in chosen}
    best = [place for place, cell in enumerate(scan) if (cell.n_clusters, cell.alpha) in keys]
    return fragment(
        grid(header, rows, numbers=number_columns(header), best=best),
        *(paragraph(sentence, "") for sentence in scan.sentences()),
    )
