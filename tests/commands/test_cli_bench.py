"""`wolfmeans bench`: it compares, checks, names what is missing, and can be stopped."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from wolfmeans.bench import comparison, peers
from wolfmeans.bench.problems import Shape
from wolfmeans.bench.race import race, wrong_labels
from wolfmeans.commands import cli
from wolfmeans.core import choices

TINY = comparison.Size((Shape(300, 3, 4),), repeats=1, budget=0.1)


@pytest.fixture
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(comparison.SIZES, "small", TINY)
    for module in choices.PEERS.values():
        # Imports fail, also those of submodules that another test has imported.
        imported = [name for name in sys.modules if name.startswith(f"{module}.")]
        for name in (module, *imported):
            monkeypatch.setitem(sys.modules, name, None)
    return tmp_path


def run(*arguments, code=0):
    done = CliRunner().invoke(cli.application(), ["bench", *arguments])
    assert done.exit_code == code, done.output
    return done


def test_choices_are_those_there_are():
    assert tuple(comparison.SIZES) == choices.BENCH_SIZES
    assert [package for package, _ in peers.PEERS if package != "scikit-learn"] == list(
        choices.PEERS
    )


def test_json_has_every_cell_with_its_checks(inside):
    done = run("--json", "--threads", "1")
    found = json.loads(done.stdout)
    cells = [(one["data"], one["dtype"]) for one in found["races"]]
    assert cells == [
        (data, dtype) for data in ("blobs", "uniform") for dtype in ("float32", "float64")
    ]
    assert found["finished"] is True
    assert found["threads"] == 1
    for one in found["races"]:
        assert one["labels_checked"] == 300
        assert one["ours"]["wrong_labels"] == 0
        assert set(one["ratios"]) == {"sklearn lloyd", "sklearn elkan"}
        for title, ratio in one["ratios"].items():
            assert ratio == one["peers"][title]["seconds"] / one["ours"]["seconds"]
            assert one["peers"][title]["same_inertia"]
            assert one["peers"][title]["wrong_labels"] == 0
    assert found["missing"] == [f"{name} (pip install {name})" for name in choices.PEERS]
    assert found["versions"]["scikit-learn"]
    assert done.stderr.splitlines() == [
        f"{i} of 4: {data}, 300 × 3, K = 4, {dtype}" for i, (data, dtype) in enumerate(cells, 1)
    ]


def test_the_table_says_what_is_missing_and_how_to_get_it(inside):
    done = run("--dtype", "float32")
    assert "sklearn lloyd" in done.stdout
    assert "Wrong labels of wolfmeans (another center is closer): 0 of 600" in done.stdout
    assert "faiss-cpu (pip install faiss-cpu)" in done.stdout


@pytest.mark.parametrize("name", ["b.md", "b.json"])
def test_a_file_is_written(inside, name):
    run("--dtype", "float64", "--out", name)
    text = (inside / name).read_text(encoding="utf-8")
    if name == "b.json":
        assert len(json.loads(text)["races"]) == 2
    else:
        assert "| blobs | 300 | 3 | 4 | 64 |" in text
        assert "| sklearn lloyd | 0 of 600 |" in text


def test_ctrl_c_keeps_what_was_finished(inside, monkeypatch):
    calls = []

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return race(*arguments, **options)

    monkeypatch.setattr(comparison, "race", interrupted)
    done = run("--out", "b.json", "--json", code=130)
    assert "interrupted; finished comparisons are kept" in done.stderr
    for text in (done.stdout, (inside / "b.json").read_text(encoding="utf-8")):
        found = json.loads(text)
        assert len(found["races"]) == 2
        assert found["finished"] is False


def test_ctrl_c_before_anything_is_finished_leaves_nothing(inside, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "race", interrupted)
    done = run("--out", "b.json", code=130)
    assert done.stderr == "wolfmeans: interrupted\n"
    assert list(inside.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--size", "huge"], "--size must be one of small, medium, large"),
        (["--dtype", "int8"], "--dtype must be one of float32, float64, both"),
        (["--out", "b.pdf"], "--out: b.pdf must end in one of .md, .json"),
        (["--out", "no/b.md"], "--out: no such folder: no"),
        (["--threads", "0"], "--threads"),
    ],
)
def test_wrong_usage_is_one_line(inside, capsys, arguments, said):
    assert cli.main(["bench", *arguments]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line


def test_wrong_labels_are_counted():
    rng = np.random.default_rng(0)
    points, centers = rng.normal(size=(200, 3)), rng.normal(size=(5, 3))
    distances = np.square(points[:, None] - centers).sum(axis=2)
    labels = distances.argmin(axis=1)
    assert wrong_labels(points, centers, labels) == 0
    labels[:7] = distances[:7].argmax(axis=1)
    assert wrong_labels(points.astype(np.float32), centers, labels) == 7
    # Of two centers at the same place either may have the point.
    twice = np.vstack([centers, centers])
    assert wrong_labels(points, twice, distances.argmin(axis=1) + 5) == 0


def test_a_peer_with_wrong_labels_is_found_out(inside, monkeypatch):
    class Wrong(peers.ScikitLearn):
        def fit(self, problem, limits):
            fitted = super().fit(problem, limits)
            return replace(fitted, labels=np.roll(fitted.labels, 1))

    monkeypatch.setattr(peers, "PEERS", (("scikit-learn", lambda: Wrong("lloyd")),))
    [first, *_] = json.loads(run("--json").stdout)["races"]
    assert first["peers"]["sklearn lloyd"]["wrong_labels"] > 100


def test_a_busy_machine_is_said():
    found = comparison.Comparison("small", 1, {"cores": "2"}, {}, "2026-01-01", [])
    assert found._busy() == []
    found.machine["load average at the start"] = "1.5"
    assert "busy (load 1.5 on 2 cores)" in found._busy()[0]
