"""A first simple page: the certificate in plain words, its pictures, and the cluster sizes.

One HTML file without network access: pictures are embedded as SVG, every text is escaped.
"""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from wolfmeans.certificate import Certificate
from wolfmeans.estimators import KMeans
from wolfmeans.files import written_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --line: #d7dbe0;
        --soft: #5c6670; --good: #2e7d32; --warn: #b3541e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --paper: #15181c; --line: #3a4048; --soft: #9aa4ae; --good: #7ccf81;
          --warn: #f0a070; }
  figure { background: #ffffff; border-radius: 6px; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.5rem 1rem 3rem; color: var(--ink);
       background: var(--paper); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .2rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
p.lead { color: var(--soft); margin: 0 0 1rem; }
p.verdict { border-left: 4px solid var(--good); padding: .3rem .8rem; margin: 1rem 0; }
p.verdict.open { border-color: var(--warn); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid var(--line);
         vertical-align: top; }
th { color: var(--soft); font-weight: 600; } td.number, th.number { text-align: right; }
figure { margin: 0; padding: .5rem; overflow-x: auto; }
figure img { max-width: 100%; min-width: 34rem; height: auto; }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .85rem; }
@media print { body { max-width: none; } }
"""


def write_page(
    path: str | os.PathLike[str],
    model: KMeans,
    *,
    title: str,
    figures: Sequence[tuple[str, Figure]] = (),
) -> Path:
    """Write a page about a fitted model and return its path; it appears whole or not at all."""
    certificate = model.certificate_
    sections = [_certificate_section(certificate)]
    sections += [
        f"<h2>{html.escape(caption)}</h2><figure>{_picture(figure, caption)}</figure>"
        for caption, figure in figures
    ]
    sections.append(_clusters_section(model))
    document = _document(title, certificate, sections)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(target) as file:
        file.write(document.encode())
    return target


def _document(title: str, certificate: Certificate, sections: Iterable[str]) -> str:
    escaped = html.escape(title)
    body = "\n".join(sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escaped}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escaped}</h1>
<p class="lead">K-means with a certificate: what is proven about this clustering.</p>
{_verdict(certificate)}
{body}
<footer>Computed by wolfmeans, engine {html.escape(certificate.engine)}.</footer>
</body>
</html>
"""


def _verdict(certificate: Certificate) -> str:
    kind = "verdict" if certificate.status.converged else "verdict open"
    return f'<p class="{kind}">{html.escape(certificate.verdict)}</p>'


def _certificate_section(certificate: Certificate) -> str:
    return "<h2>Certificate</h2>" + _table(
        ("what", "value", "in plain words"), certificate.rows(), numbers=()
    )


def _clusters_section(model: KMeans) -> str:
    labels = model.labels_
    counts = np.bincount(labels[labels >= 0], minlength=len(model.cluster_centers_))
    rows = [
        (str(k), f"{count:,}", f"{count / len(labels):.1%}")
        for k, count in enumerate(counts.tolist())
    ]
    return "<h2>Clusters</h2>" + _table(("cluster", "points", "share"), rows, numbers=(1, 2))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int]) -> str:
    def cells(tag: str, row: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=number' if j in numbers else ''}>{html.escape(text)}</{tag}>"
            for j, text in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{cells("th", header)}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _picture(figure: Figure, caption: str) -> str:
    """Return the figure as an embedded SVG image, whose names cannot clash with another's."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    content = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<img alt="{html.escape(caption)}" src="data:image/svg+xml;base64,{content}">'
