"""Reading the documentation: its pages, and the fenced blocks in them."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUTSIDE = ("README", "CONTRIBUTING", "CHANGELOG", "examples/README", "benchmarks/README")
PAGES = [*(ROOT / f"{name}.md" for name in OUTSIDE), *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page):
    return str(page.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    kind: str
    text: str


def blocks_of(page):
    """The fenced blocks of a Markdown file, in order."""
    blocks, kind, lines = [], None, []
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            if kind is None:
                kind, lines = line[3:].strip(), []
            else:
                blocks.append(Block(kind, "\n".join(lines) + "\n"))
                kind = None
        elif kind is not None:
            lines.append(line)
    assert kind is None, f"{page.name} ends inside a block"
    return blocks


def prose_of(page):
    """The lines of a page outside its blocks."""
    lines, inside = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            lines.append(line)
    return "\n".join(lines)
