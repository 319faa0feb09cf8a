"""Check that the pages of a built site need no network: python docs/tools/check_site.py site

Links may lead anywhere. Scripts, styles, fonts, pictures and frames must be part of the site.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

_SOURCES = ("audio", "embed", "iframe", "img", "script", "source", "video")
_LOADING = dict.fromkeys(_SOURCES, "src") | {"link": "href", "object": "data"}
_NEEDED = ("index.html", "search/search_index.json")
_NOT_LOADED = ("canonical", "next", "prev", "alternate")
_ELSEWHERE = re.compile(r"\s*(https?:)?//", re.IGNORECASE)
_IN_STYLES = re.compile(r"""(?:url\(|@import)\s*["']?\s*((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)
# The theme's own script loads something from elsewhere if a page contains these.
_TRIGGERS = {
    "mermaid diagrams": re.compile(r'class="[^"]*\bmermaid\b'),
    "facts about a repository": re.compile(r'data-md-component="source"'),
}


class _Loads(HTMLParser):
    """Collects the addresses outside the site that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        name = _LOADING.get(tag)
        is_link = tag == "link" and values.get("rel") in _NOT_LOADED
        if name and not is_link and _ELSEWHERE.match(values.get(name, "")):
            self.found.append(f"<{tag}> {values[name]}")
        self.found += [f"srcset {v}" for n, v in values.items() if n == "srcset" and "//" in v]
        self.found += _IN_STYLES.findall(values.get("style", ""))


def loads_from_elsewhere(site: Path) -> list[str]:
    """Return a line for each resource that a page of the site would load from elsewhere."""
    faults = []
    for path in sorted(site.rglob("*")):
        text = path.read_text(encoding="utf-8") if path.suffix in (".html", ".css") else ""
        found = _IN_STYLES.findall(text)
        if path.suffix == ".html":
            page = _Loads()
            page.feed(text)
            found += page.found
            found += [what for what, sign in _TRIGGERS.items() if sign.search(text)]
        faults += [f"{path.relative_to(site)}: {what}" for what in found]
    return faults


def main(folder: str) -> int:
    """Print the faults of a site; return 1 if there are any."""
    site = Path(folder)
    missing = [name for name in _NEEDED if not (site / name).exists()]
    faults = [*(f"{name} is missing" for name in missing), *loads_from_elsewhere(site)]
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults:
        pages = sum(1 for _ in site.rglob("*.html"))
        print(f"{pages} pages in {site}/, and nothing in them is loaded from elsewhere.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "site"))
