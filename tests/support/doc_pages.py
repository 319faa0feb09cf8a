"""Reading the documentation: its pages, and the fenced blocks in them."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

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


VARIES = re.compile(r"within [\d.]+ %|finish within [\d,]+\)|semidefinite bound|branching bound")
"""Lines with results of the semidefinite bound: its sums depend on the vector unit and threads."""


def assert_alike(printed, shown):
    """Compare texts exactly, but let numbers of semidefinite bounds vary by a few percent."""
    lines = printed.splitlines(), shown.splitlines()
    assert len(lines[0]) == len(lines[1]), printed
    for ours, theirs in zip(*lines, strict=True):
        if not VARIES.search(theirs):
            assert re.sub(" +", " ", ours) == re.sub(" +", " ", theirs)
            continue
        words = ours.split(), theirs.split()
        assert len(words[0]) == len(words[1]), ours
        for one, other in zip(*words, strict=True):
            number, expected = number_in(one), number_in(other)
            if expected is None or number is None:
                assert one == other
            elif expected > 0.01:
                assert number == pytest.approx(expected, rel=0.25)


def number_in(word):
    """Return the number that a word is; None if it is none."""
    try:
        return float(word.rstrip(")").replace(",", ""))
    except ValueError:
        return None
