"""The help texts: their examples run, they fit an 80-column terminal, and shells complete names."""

import gzip
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import typer

from wolfmeans import study
from wolfmeans.bench import comparison
from wolfmeans.bench.problems import Shape
from wolfmeans.commands import cli
from wolfmeans.core import choices

NARROW = 80


def all_commands():
    """Return the words of every command, and what its help says."""

    def walk(command, words):
        yield words, command.help or ""
        for name, inner in getattr(command, "commands", {}).items():
            yield from walk(inner, (*words, name))

    return list(walk(typer.main.get_command(cli.application()), ()))


COMMANDS = all_commands()
EXAMPLES = [
    line.strip()
    for _, text in COMMANDS
    for line in text.splitlines()
    if re.match(r" *(\w+ [\w.]+ \| )?wolfmeans ", line)
]


@pytest.fixture
def inside(tmp_path, monkeypatch):
    """A folder with all the files that examples speak of."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = np.repeat(np.arange(8.0), 20)[:, None] * 9 + rng.normal(size=(160, 2))
    frame = pl.DataFrame({"x": X[:, 0], "y": X[:, 1]})
    for name in ("measurements.csv", "new.csv"):
        frame.write_csv(name)
    Path("big.csv.gz").write_bytes(gzip.compress(frame.write_csv().encode()))
    frame.write_parquet("big.parquet")
    Path("parts").mkdir()
    frame.write_parquet("parts/1.parquet")
    frame.write_parquet("parts/2.parquet")
    np.save("points.npy", X)
    np.save("labels.npy", np.repeat(np.arange(8), 20))
    pl.DataFrame({"label": np.repeat(np.arange(8), 20)}).write_csv("labels.csv")
    teams = pl.Series("team", ["noise", *"abcdefgh" * 20][:160])
    frame.with_columns(teams).write_csv("labelled.csv")
    assert cli.main(["fit", "new.csv", "-k", "2", "-q", "--model", "model.wolf"]) == 0
    return tmp_path


def test_every_command_has_examples():
    without = [words for words, text in COMMANDS if words != ("study",) and "Examples" not in text]
    assert without == []
    for words, text in COMMANDS:
        if words not in ((), ("study",)):
            assert f"wolfmeans {' '.join(words)}" in text
    assert len(EXAMPLES) > 20


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_run(inside, monkeypatch, capsys, example):
    shown = []
    if "check" in example:
        proved = ["--certify-seconds", "5", "--proof", "proof.npz"]
        assert cli.main(["fit", "measurements.csv", "-k", "2", "-q", *proved]) == 0
    if "study" in example:
        # What takes hours is only begun.
        monkeypatch.setattr(study, "run", lambda scenarios, *_, **__: shown.append(scenarios) or [])
        monkeypatch.setattr(study, "write_report", lambda *_, **__: shown.append(1) or "page.html")
    if "bench" in example:
        tiny = comparison.Size((Shape(100, 2, 3),), repeats=1, budget=0.1)
        for name in comparison.SIZES:
            monkeypatch.setitem(comparison.SIZES, name, tiny)
    if "demo" in example:
        monkeypatch.setattr("wolfmeans.commands.demo.demonstrate", shown.append)
    if example.startswith("zcat"):
        command = example.replace("wolfmeans", f"{sys.executable} -m wolfmeans.commands.cli")
        done = subprocess.run(command, shell=True, capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stdout[:9]) == (0, b"Converged")
        return
    assert cli.main(shlex.split(example)[1:]) == 0
    said = capsys.readouterr()
    assert said.out or said.err or shown or "--quiet" in example


@pytest.mark.parametrize("words", [words for words, _ in COMMANDS])
def test_help_fits_80_columns_without_breaking_its_lines(words):
    # The first sentence is set as a paragraph; all else keeps its lines, with a margin of one.
    rest = dict(COMMANDS)[words].splitlines()[1:]
    assert [line for line in rest if len(line) > NARROW - 2] == []


def shell(arguments, **environment):
    settings = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")}
    done = subprocess.run(
        [sys.executable, "-m", "wolfmeans.commands.cli", *arguments],
        env=settings | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("command", ["fit", "bench"])
def test_help_is_as_wide_as_the_terminal(command, columns):
    lines = shell([command, "--help"], COLUMNS=str(columns)).splitlines()
    assert max(map(len, lines)) == columns
    help_text = dict(COMMANDS)[(command,)]
    examples = [example for example in EXAMPLES if f"  {example}\n" in f"{help_text}\n"]
    assert examples
    assert [e for e in examples if not any(e == line.strip() for line in lines)] == []


def test_colours_are_for_terminals_and_those_who_ask():
    colour = "\x1b["
    assert colour not in shell(["--help"])
    assert colour in shell(["--help"], FORCE_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", shell(["--help"], FORCE_COLOR="1", NO_COLOR="1"))
    assert colour not in shell(["info"])
    assert colour in shell(["info"], FORCE_COLOR="1")


def completions(line):
    """Return what bash is told about a line."""
    words = line.split(" ")
    settings = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return set(shell([], _WOLFMEANS_COMPLETE="complete_bash", **settings).split())


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("fit x.csv --stop ", choices.STOPS),
        ("fit x.csv --stop s", ("shift", "stationary")),
        ("fit x.csv --init ", (*choices.SEEDINGS, *choices.TRIMMED_SEEDINGS)),
        ("fit x.csv --engine ", choices.ENGINES),
        ("certify x.csv y.csv --method ", ("auto", "none", *choices.BOUNDS)),
        ("bench --size ", choices.BENCH_SIZES),
        ("study grid --empty ", choices.POLICIES),
        ("study ", ("grid", "segmentation", "data", "report")),
    ],
)
def test_shells_complete_names(line, names):
    assert completions(f"wolfmeans {line}") == set(names)


def test_shells_complete_commands_and_options():
    assert {words[0] for words, _ in COMMANDS if words} <= completions("wolfmeans ")
    assert {"--stop", "--drop-missing"} <= completions("wolfmeans fit --")
