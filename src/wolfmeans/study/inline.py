"""Figures as elements of a page."""

from __future__ import annotations

import html
import re

from wolfmeans.study.figures import INK, LINE, PAPER


def inline_svg(svg: str, name: str, label: str) -> str:
    """Return an SVG as an element of the page: own names, the theme's colors, no addresses."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", svg, flags=re.DOTALL)
    box = re.search(r'viewBox="[^"]*"', svg)
    assert box is not None
    opening = f'<svg {box.group()} role="img" aria-label="{html.escape(label)}">'
    svg = re.sub(r"<svg[^>]*>", lambda _: opening, svg, count=1)
    # Other figures have a patch_1, too.
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', svg)
    svg = re.sub(r'(?:xlink:)?href="#([^"]+)"', rf'href="#{name}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    # A hundredth of a point is seen by nobody; scales of transforms stay as they are.
    svg = re.sub(r' (?:d|x|y)="[^"]*"', lambda m: re.sub(r"(\.\d\d)\d+", r"\1", m.group()), svg)
    for color, variable in ((INK, "--ink"), (LINE, "--line"), (PAPER, "--paper")):
        svg = svg.replace(color, f"var({variable})")
    return svg.strip()
