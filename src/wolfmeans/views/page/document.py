"""A page: one self-contained HTML file that makes no network requests."""

from __future__ import annotations

import base64
import html
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wolfmeans import __version__
from wolfmeans.files.atomic import written_whole
from wolfmeans.views.colors import theme_css
from wolfmeans.views.page.markup import readable, rendered, section, trusted

if TYPE_CHECKING:
    from markupsafe import Markup

# Whatever a page contains, browsers may load nothing for it.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
_SCRIPTS = ("tables.js", "charts.js", "distributions.js", "map.js", "page.js")
# Shorter arrays are lists of numbers in JSON; longer ones are base64 of their bytes.
_LONG = 64


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
    *,
    title: str,
    lead: str,
    top: Markup,
    sections: Sequence[tuple[str, str, Sequence[Markup]]],
    data: dict[str, Any],
    footer: str,
) -> Page:
    """Assemble a page.

    A section has a name, a title and its parts; one without content is left out. `data` is the
    input of the page's script and includes `n_colors`, the number of colors.
    """
    filled = [(name, heading, parts) for name, heading, parts in sections if any(parts)]
    page = rendered(
        "views.page/page.jinja",
        policy=_POLICY,
        version=__version__,
        title=title,
        lead=lead,
        top=top,
        style=f"{theme_css(data['n_colors'])}\n{_asset('page.css')}",
        links=[(name, heading) for name, heading, _ in filled],
        sections=[section(name, heading, *parts) for name, heading, parts in filled],
        footer=footer,
        data=trusted(data_block(data)),
        scripts=[
            _asset("vendor/plotly-basic.min.js"),
            "\n" + "\n".join(_asset(name) for name in _SCRIPTS),
        ],
    )
    return Page(str(page) + "\n", readable(title))


@cache
def _asset(name: str) -> str:
    return files("wolfmeans.views.page").joinpath(name).read_text(encoding="utf-8")


def data_block(content: Any) -> str:
    r"""Return the data of a page's script as an element; no text in it can end the element.

    Examples
    --------
    >>> data_block({"name": "</script>"})
    '<script type="application/json" id="data">{"name":"\\u003c/script\\u003e"}</script>'
    """
    written = json.dumps(_plain(content), allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        written = written.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="data">{written}</script>'


def packed(array: NDArray[Any], kind: str) -> dict[str, Any] | list[Any]:
    """Return an array for the script: `kind` is a NumPy name like f4, little-endian."""
    if array.size < _LONG:
        return array.reshape(-1).tolist()
    contents = np.ascontiguousarray(array, dtype=f"<{kind}").tobytes()
    return {"kind": kind, "bytes": base64.b64encode(contents).decode("ascii")}


def _plain(content: Any) -> Any:
    """Return the content for JSON: null for numbers that are not finite, and readable texts."""
    if isinstance(content, dict):
        return {key: _plain(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_plain(value) for value in content]
    if isinstance(content, str):
        return readable(content)
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content
