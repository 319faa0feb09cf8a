"""The documentation tells the truth: its examples run, and print what it says they print."""

import contextlib
import doctest
import io
import itertools
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


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


def run_session(text, names, page):
    """Run a block of `>>>` lines and compare what it prints."""
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    test = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), 0)
    report = io.StringIO()
    runner.run(test, out=report.write, clear_globs=False)
    names.update(test.globs)
    assert runner.failures == 0, report.getvalue()


def run_script(text, names, page):
    """Run a block of plain code and return what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text, str(page), "exec"), names)
    return printed.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_examples_run_and_print_what_is_shown(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of(page)
    names: dict[str, object] = {}
    for block, following in itertools.pairwise([*blocks, Block("", "")]):
        if block.kind != "python":
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            if block.text.startswith(">>>"):
                run_session(block.text, names, page)
                continue
            printed = run_script(block.text, names, page)
        if following.kind == "text":
            assert printed.rstrip() == following.text.rstrip()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_to_files_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_the_readme_shows_what_its_example_prints():
    kinds = [block.kind for block in blocks_of(ROOT / "README.md")]
    assert ("python", "text") in itertools.pairwise(kinds)
