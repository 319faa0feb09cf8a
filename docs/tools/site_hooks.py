"""Hooks of the site: pages made of files outside docs/, and formulas as MathML.

Pages must also work on a code host: they link to files, and formulas stand between dollar signs.
These hooks turn links to files into links to pages, and formulas into MathML, which browsers draw
without a script.
"""

from __future__ import annotations

import html
import logging
import os
import posixpath
import re
from pathlib import Path
from xml.etree import ElementTree

from latex2mathml.converter import convert
from mkdocs.structure.files import File

# A strict build fails on warnings.
_log = logging.getLogger("mkdocs.hooks.formulas")
ROOT = Path(__file__).parents[2]
_GENERATED = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks-how.md",
    "examples/README.md": "examples.md",
    "src/wolfmeans/files/data/README.md": "bundled-data.md",
    "CITATION.cff": "CITATION.cff",
    "LICENSE": "LICENSE",
}
"""Files outside docs/ and the page of the site that each one becomes."""
_PAGES = {"README.md": "index.md", **_GENERATED}
"""The page of the site that a link to a file outside docs/ leads to."""
_LINK = re.compile(r"(\]\()([^)#\s]+)")
# In tables, a code host wants bars in code escaped; the site does not.
_CELL_CODE = re.compile(r"^\|.*`[^`]*\\\|[^`]*`.*$", re.MULTILINE)
_FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\[(\[](?P<tex>.*?)\\[)\]]</(?P=tag)>', re.DOTALL
)
_TAG = re.compile(r"\\tag\{(.*?)\}")
_MATHML = "http://www.w3.org/1998/Math/MathML"
_LIMITS = ("min", "max", "inf", "sup")
_FENCES = "{}⌈⌉⌊⌋"
_BARS = ("|", "∣", "‖")


def on_files(files, config):
    """Add the pages that are made of files outside docs/."""
    for source, page in _GENERATED.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown, page, config, files):
    """Turn links between files into links between pages."""
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]
    sources = {target: source for source, target in _GENERATED.items()}
    here = page.file.src_uri
    origin = posixpath.dirname(sources.get(here, f"docs/{here}"))

    def turned(match):
        target = match[2]
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        place = posixpath.normpath(posixpath.join(origin, target))
        if place not in _PAGES and not place.startswith("docs/"):
            return match[0]
        found = _PAGES.get(place, place.removeprefix("docs/"))
        return match[1] + os.path.relpath(found, posixpath.dirname(here) or ".")

    return _CELL_CODE.sub(lambda row: row[0].replace(r"\|", "|"), _LINK.sub(turned, markdown))


def on_page_content(content, page, config, files):
    """Turn formulas into MathML."""
    drawn = _FORMULA.sub(_drawn, content)
    for left in re.findall(r"<m[a-z]+[^>]*>(\\[A-Za-z]+)", drawn):
        _log.warning("%s: the converter of formulas does not know %s", page.file.src_uri, left)
    return drawn


def _drawn(match):
    tex = html.unescape(match["tex"]).strip()
    block = match["tag"] == "div"
    number = _TAG.search(tex)
    drawn = _mended(convert(_TAG.sub("", tex).strip(), display="block" if block else "inline"))
    if not block:
        # In a box that scrolls if the formula is wider than the window.
        return f'<span class="inline-formula">{drawn}</span>'
    label = f'<span class="number">({number[1]})</span>' if number else ""
    return f'<div class="formula">{drawn}{label}</div>'


def _mended(mathml):
    """Correct the converter's output: limits under their operators, fences, digits."""
    formula = ElementTree.fromstring(mathml)
    for node in formula.iter():
        name, children = node.tag.removeprefix(f"{{{_MATHML}}}"), list(node)
        if name == "msub" and formula.get("display") == "block" and children[0].text in _LIMITS:
            node.tag = f"{{{_MATHML}}}munder"
        elif name == "mi" and node.text in _FENCES:
            node.tag = f"{{{_MATHML}}}mo"
            node.set("stretchy", "false")
        elif node.text in _BARS:
            node.set("lspace", "0")
            node.set("rspace", "0")
        elif name == "mi" and node.text == ":":
            node.tag = f"{{{_MATHML}}}mo"
        elif name == "mrow" and len(children) == 1 and children[0].text == ",":
            # 66{,}284 is one number.
            children[0].tag = f"{{{_MATHML}}}mn"
    ElementTree.register_namespace("", _MATHML)
    return ElementTree.tostring(formula, encoding="unicode")
