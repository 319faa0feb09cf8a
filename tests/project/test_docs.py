"""The documentation tells the truth: its examples run, and print what it says they print."""

import contextlib
import doctest
import importlib
import io
import itertools
import re
import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans as SklearnKMeans

from doc_pages import PAGES, ROOT, Block, assert_alike, blocks_of, name_of, prose_of
from wolfmeans import KMeans

LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]*)?\)")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


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


SLOW = ("choosing-k.md", "big-data.md", "index.md")
"""Pages whose examples take long; those of index.md are also in README.md."""


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[pytest.mark.long] if page.name in SLOW else [], id=name_of(page))
        for page in PAGES
    ],
)
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
            assert_alike(printed.rstrip(), following.text.rstrip())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target, anchor in LINK.findall(prose_of(page)):
        if "://" in target:
            continue
        leads_to = page.parent / target if target else page
        assert leads_to.exists(), target
        if anchor and not is_reference(leads_to):
            assert anchor[1:] in anchors_of(leads_to), f"{target}{anchor}"


def is_reference(page):
    """Whether the headings of a page are made from docstrings, when the site is built."""
    return page.resolve().parent == ROOT / "docs" / "api"


def anchors_of(page):
    """The anchors that a code host gives to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_shows_what_its_example_prints():
    kinds = [block.kind for block in blocks_of(ROOT / "README.md")]
    assert ("python", "text") in itertools.pairwise(kinds)


def test_the_faq_names_every_difference_in_the_interface():
    faq = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8")
    table = faq[faq.index("## Every difference") : faq.index("## Stopping")]
    X = np.arange(12.0).reshape(6, 2)
    ours, theirs = (kind(n_clusters=2, random_state=0).fit(X) for kind in (KMeans, SklearnKMeans))
    names = {name for name in {*dir(ours)} ^ {*dir(theirs)} if not name.startswith("_")}
    defaults = KMeans().get_params(), SklearnKMeans().get_params()
    names |= {name for name, value in defaults[1].items() if defaults[0][name] != value}
    assert names, "the two would be the same"
    for name in names:
        assert f"`{name}`" in table, name


def test_the_table_of_claims_names_every_test_of_them():
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    begin = page.index("## What a claim rests on")
    section = page[begin : page.index("\n## ", begin)]
    table = "\n".join(line for line in section.splitlines() if line.startswith("|"))
    faults = ROOT / "tests" / "faults"
    text = (faults / "test_cut_off.py").read_text(encoding="utf-8")
    tests = re.findall(r"^def test_(\w+)", text, flags=re.MULTILINE)
    named = re.findall(r"`(\w+)\.\.\.", table)
    assert [test for test in tests if not test.startswith(tuple(named))] == []
    assert [name for name in named if not any(test.startswith(name) for test in tests)] == []
    for path in re.findall(r"`([\w/]+\.py)`", table):
        assert (ROOT / "tests" / path).is_file(), path
    variants = "".join(
        path.read_text(encoding="utf-8") for path in (faults / "broken").glob("*.py")
    )
    assert f"{len(re.findall('^@variant', variants, flags=re.MULTILINE))} of them" in page


@pytest.mark.parametrize("name", ["", ".plot", ".portrait", ".report", ".study"])
def test_the_reference_has_every_public_name(name):
    module = importlib.import_module(f"wolfmeans{name}")
    shown = re.findall(
        r"^::: (\S+)",
        "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md")),
        flags=re.MULTILINE,
    )
    whole = module.__name__ in shown
    for public in module.__all__:
        value = getattr(module, public)
        assert whole or f"{module.__name__}.{public}" in shown or not callable(value), public
        assert not callable(value) or value.__doc__, public


def test_the_house_is_as_it_is_drawn():
    package = ROOT / "src" / "wolfmeans"
    drawing = next(block.text for block in blocks_of(ROOT / "docs" / "design.md") if not block.kind)
    files = {path.name for path in package.rglob("*.py")}
    folders = {path.name for path in package.rglob("*") if path.is_dir()} | {"src", "wolfmeans"}
    assert set(re.findall(r"\w+\.py", drawing)) <= files
    assert set(re.findall(r"(\w+)/", drawing)) <= folders
    for path in package.iterdir():
        if path.suffix == ".py" and path.name != "__init__.py":
            assert path.name in drawing, path.name
        elif path.is_dir() and path.name != "__pycache__":
            assert f"{path.name}/" in drawing, path.name


def test_paths_in_the_table_for_contributors_exist():
    table = [
        line for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if line.startswith("|")
    ]
    paths = [path for line in table for path in re.findall(r"`([\w./]+/[\w./]*)`", line)]
    assert len(paths) > 40
    for path in paths:
        inside = ROOT if path.startswith(("native/", "tests/")) else ROOT / "src" / "wolfmeans"
        assert (inside / path).exists(), path
