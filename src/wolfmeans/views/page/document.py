"""A page: one self-contained HTML file that makes no network requests."""

from __future__ import annotations

import html
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from wolfmeans import __version__
from wolfmeans.files.atomic import written_whole
from wolfmeans.views.page.data_block import data_block
from wolfmeans.views.page.markup import readable, text
from wolfmeans.views.page.theme import theme_css

# Nothing may be fetched from anywhere, whatever a page contains.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
_SCRIPTS = ("tables.js", "charts.js", "replay.js", "page.js")


@dataclass(frozen=True)
class Page:
    """A self-contained page, to be saved, mailed or shown in a notebook."""

    html: str = field(repr=False)
    """The whole document."""
    title: str

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page atomically and return its path."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        with written_whole(target) as file:
            file.write(self.html.encode())
        return target

    def _repr_html_(self) -> str:
        return (
            '<iframe sandbox="allow-scripts allow-downloads allow-modals" '
            'style="width:100%;height:50rem;border:1px solid #8888;border-radius:6px" '
            f'title="{html.escape(self.title)}" srcdoc="{html.escape(self.html)}"></iframe>'
        )


def document(
    *, title: str, lead: str, top: str, sections: Sequence[str], data: dict[str, Any], footer: str
) -> Page:
    """Put a page together; `data` is what its script reads, `n_clusters` among it."""
    body = "\n".join(sections)
    links = "\n".join(
        f'<a href="#{name}">{heading}</a>'
        for name, heading in re.findall(r'<section id="(\w+)">\n<h2>(.*?)</h2>', body)
    )
    scripts = "\n".join(_asset(name) for name in _SCRIPTS)
    page = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="wolfmeans {text(__version__)}">
<title>{text(title)}</title>
<style>
{theme_css(data["n_clusters"])}
{_asset("page.css")}</style>
</head>
<body>
<header>
<h1>{text(title)}</h1>
<p class="lead">{text(lead)}</p>
</header>
{top}
<nav aria-label="Sections">{links}</nav>
<main>
{body}
</main>
<noscript><p class="soft">Charts, sorting and the replay need JavaScript, which is disabled here.\
</p></noscript>
<footer>{text(footer)} Made by wolfmeans {text(__version__)}; charts by plotly.js (MIT licence). \
This file needs no network.</footer>
{data_block(data)}
<script>{_asset("vendor/plotly-basic.min.js")}</script>
<script>
{scripts}</script>
</body>
</html>
"""
    return Page(page, readable(title))


@cache
def _asset(name: str) -> str:
    return files("wolfmeans.views.page").joinpath(name).read_text(encoding="utf-8")
