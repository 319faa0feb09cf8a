"""Every command that the documentation and the help texts show is run, and does what they say."""

import contextlib
import csv
import gzip
import io
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars
import pytest
import typer

from doc_pages import PAGES, ROOT, Block, assert_alike, blocks_of, name_of, prose_of
from wolfmeans.bench import comparison
from wolfmeans.bench.problems import Shape
from wolfmeans.commands.cli import application, main
from wolfmeans.files.datasets import load_banknotes

EXIT_CODE = re.compile(r"#.*\bexit code (\d+)")
OUTPUTS = (
    *("--labels", "--centers", "--model", "--certificate", "--proof", "--page", "--csv", "--plot"),
)
NOT_RUN = ("--install-completion",)  # writes into the settings of the user's shell
SHELL_PAGES = [page for page in PAGES if any(block.kind == "sh" for block in blocks_of(page))]


# --- What commands work on -------------------------------------------------------------------


def write_csv(path, columns):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def table(n, seed):
    """Three clusters in three columns, with an identifier and labels for each row."""
    rng = np.random.default_rng(seed)
    cluster = np.arange(n) % 3
    points = (5.0 * cluster[:, None] + rng.normal(size=(n, 3))).round(3)
    columns = dict(zip(("x", "y", "z"), points.T.tolist(), strict=True))
    return {
        "id": list(range(n)),
        **columns,
        "cluster": cluster.tolist(),
        "team": [("red", "green", "blue", "noise")[i % 4] for i in range(n)],
    }


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with the files that documentation speaks of, before any command has run."""
    folder = tmp_path_factory.mktemp("inputs")
    notes = load_banknotes()
    write_csv(folder / "data.csv", dict(zip(notes.feature_names, notes.data.T, strict=True)))
    write_csv(folder / "more.csv", dict(zip(notes.feature_names, notes.data[:9].T, strict=True)))
    write_csv(folder / "measurements.csv", table(60, 0))
    write_csv(folder / "labelled.csv", table(60, 0))
    write_csv(folder / "new.csv", table(9, 1))
    polars.DataFrame(table(9, 2)).write_parquet(folder / "new.parquet")
    polars.DataFrame(table(150, 3)).write_parquet(folder / "big.parquet")
    (folder / "parts").mkdir()
    for part in range(2):
        polars.DataFrame(table(60, part)).write_parquet(folder / "parts" / f"{part}.parquet")
    (folder / "big.csv.gz").write_bytes(gzip.compress((folder / "measurements.csv").read_bytes()))
    np.save(folder / "points.npy", load_banknotes().data)
    np.save(folder / "labels.npy", np.arange(200) // 100)
    return folder


@pytest.fixture(scope="module")
def results(inputs, tmp_path_factory):
    """The same folder after a fit and some studies: where an example of a help text begins."""
    folder = tmp_path_factory.mktemp("results") / "here"
    shutil.copytree(inputs, folder)
    with contextlib.chdir(folder):
        run("wolfmeans fit measurements.csv -k 3 --labels labels.csv --model model.wolf")
        run("wolfmeans fit measurements.csv -k 3 --certify-seconds 5 --proof proof.npz")
        for line in (
            "wolfmeans study grid --out grid",
            "wolfmeans study grid --kind elliptic --out elliptic",
            "wolfmeans study segmentation --features standardized --out segmentation",
        ):
            run(line)
    return folder


@pytest.fixture(autouse=True)
def small_races(monkeypatch):
    """`wolfmeans bench` races on a few points, whatever size is asked for."""
    small = comparison.Size((Shape(300, 3, 4),), repeats=1, budget=0.1)
    for size in comparison.SIZES:
        monkeypatch.setitem(comparison.SIZES, size, small)


# --- Running them ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def smaller(arguments):
    """What is run instead of words that could take minutes.

    Bounds by a cheap method; studies with few runs of small scenarios; figures of one gap.
    """
    if arguments[:1] == ["scan"] and "--bound" not in arguments:
        return [*arguments, "--bound", "neighbours"]
    if arguments[:1] == ["certify"] and "--method" not in arguments:
        return [*arguments, "--method", "neighbours"]
    if arguments[:2] == ["study", "report"]:
        return [*arguments, "--gap", "gap"]
    if arguments[:1] != ["study"]:
        return arguments
    arguments = ["500" if argument == "1000000" else argument for argument in arguments]
    if arguments[1] == "grid" and "--n" not in arguments:
        arguments = [*arguments, "--n", "500", "--d", "2", "--k", "5"]
    return [*arguments, "--replications", "20", "--no-report"]


def run(line, *, in_full=False):
    """Run a line of a shell in this process; what is before a pipe is run by the system."""
    before, _, command = line.rpartition("|")
    given = subprocess.run(["sh", "-c", before], capture_output=True, check=True).stdout
    words = shlex.split(command, comments=True)
    assert words[0] == "wolfmeans", line
    streams = [io.TextIOWrapper(io.BytesIO(b), encoding="utf-8") for b in (given, b"", b"")]
    before_it = sys.stdin, sys.stdout, sys.stderr
    sys.stdin, sys.stdout, sys.stderr = streams
    try:
        code = main(words[1:] if in_full else smaller(words[1:]))
        for stream in streams[1:]:
            stream.flush()
    finally:
        sys.stdin, sys.stdout, sys.stderr = before_it
    out, err = (stream.buffer.getvalue().decode() for stream in streams[1:])
    return Ended(code, out, err)


def check(line, *, in_full=False):
    """Run a line: it ends as it says it does, and the files that it names are there."""
    words = shlex.split(line.rpartition("|")[2], comments=True)
    if set(words) & set(NOT_RUN):
        known = typer.main.get_command(application()).params
        assert set(words[1:]) <= {option for parameter in known for option in parameter.opts}
        return ""
    promised = EXIT_CODE.search(line)
    ended = run(line, in_full=in_full)
    assert ended.code == int(promised[1] if promised else 0), f"{line}\n{ended.err}"
    for option, value in pairwise(words):
        if option in OUTPUTS and value != "-" and not promised:
            assert Path(value).stat().st_size > 0, line
        if option == "--out":
            made = Path(value)
            assert any(made.iterdir()) if made.is_dir() else made.stat().st_size > 0, line
    if words[1] == "demo":
        assert (Path([*words, "demo-output"][2]) / "page.html").exists()
    return ended.out


def lines_of(block):
    """The commands of a block, those on several lines put together."""
    text = block.text.replace("\\\n", " ")
    return [line.strip() for line in text.splitlines() if line.strip() and line.strip()[0] != "#"]


@pytest.mark.parametrize("page", SHELL_PAGES, ids=name_of)
def test_commands_run_one_after_the_other(page, inputs, tmp_path, monkeypatch):
    shutil.copytree(inputs, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    for block, following in pairwise([*blocks_of(page), Block("", "")]):
        if block.kind != "sh":
            continue
        shown = following.kind == "text"
        lines = [line for line in lines_of(block) if runs_wolfmeans(line)]
        printed = [check(line, in_full=shown) for line in lines]
        if shown and lines:
            assert_alike("".join(printed).rstrip(), following.text.rstrip())


def runs_wolfmeans(line):
    return line.rpartition("|")[2].split()[0] == "wolfmeans"


def commands(command, name):
    """All commands below one, with their names."""
    found = getattr(command, "commands", {})
    if not found:
        return [(name, command)]
    return [pair for sub, below in found.items() for pair in commands(below, f"{name} {sub}")]


COMMANDS = commands(typer.main.get_command(application()), "wolfmeans")
EXAMPLES = [
    line.strip().removeprefix("Example: ")
    for _, command in COMMANDS
    for line in (command.help or "").splitlines()
    if re.match(r"\s*(Example: |.*\| )?wolfmeans ", line)
]


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_of_help_texts_run(line, results, tmp_path, monkeypatch):
    folder = tmp_path / "here"
    shutil.copytree(results, folder)
    monkeypatch.chdir(folder)
    for option, value in pairwise(line.split()):
        if option == "--out":
            shutil.rmtree(value, ignore_errors=True)
    check(line)


def test_every_command_has_an_example():
    for name, _ in COMMANDS:
        assert any(f"{name} " in f"{line} " for line in EXAMPLES), name


# --- What is named without being run ---------------------------------------------------------


def test_the_page_about_commands_names_every_command_and_option():
    page = ROOT / "docs" / "command-line.md"
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text))
    for name, command in COMMANDS:
        assert f"{name} " in text or f"{name}\n" in text, name
        # Of a study's many options the page shows some, and leaves the rest to --help.
        if not name.startswith("wolfmeans study"):
            for parameter in command.params:
                if parameter.opts[0].startswith("-"):
                    assert set(parameter.opts) & named, f"{name} {parameter.opts}"


def all_options():
    parameters = [parameter for _, command in COMMANDS for parameter in command.params]
    options = {name for p in parameters for name in (*p.opts, *p.secondary_opts)}
    return options | {"--help", "--version", "--install-completion", "--show-completion"}


def test_the_page_about_commands_names_no_other_option():
    text = prose_of(ROOT / "docs" / "command-line.md")
    assert set(re.findall(r"`(--[a-z-]+)", text)) <= all_options()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_options_and_commands_that_are_named_exist(page):
    options = all_options()
    names = {name for name, _ in COMMANDS} | {"wolfmeans study", "wolfmeans COMMAND"}
    for code in re.findall(r"`(wolfmeans [^`]+)`", prose_of(page)):
        words = code.split()
        assert any(" ".join(words[:n]) in names or words[1] in options for n in (2, 3)), code
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= options, code


@pytest.mark.parametrize("page", SHELL_PAGES, ids=name_of)
def test_other_lines_name_what_exists(page):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for block in blocks_of(page):
        for line in lines_of(block) if block.kind == "sh" else []:
            words = shlex.split(line, comments=True)
            if runs_wolfmeans(line):
                continue
            if words[0] == "make":
                assert set(words[1:]) <= set(targets), line
            elif words[0] == "python":
                assert (ROOT / words[1]).exists(), line
            elif words[:2] == ["pip", "install"]:
                asked = re.findall(r"(?:\.|wolfmeans)\[(.*?)\]", line)
                extras = {extra for group in asked for extra in group.split(",")}
                assert extras <= set(project["optional-dependencies"]), line
            else:
                pytest.fail(f"nobody knows whether this works: {line}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_targets_and_extras_in_the_text_exist(page):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = prose_of(page)
    for target in re.findall(r"`make ([a-z-]+)`", text):
        assert target in targets, target
    for group in re.findall(r"(?:\.|wolfmeans)\[([a-z,]+)\]", text):
        assert set(group.split(",")) <= set(extras["optional-dependencies"]), group
