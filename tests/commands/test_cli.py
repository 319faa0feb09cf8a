"""The command `wolfmeans`: what it does, says and returns."""

import csv
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import polars
import pytest
from typer.testing import CliRunner

from wolfmeans import study
from wolfmeans.commands import cli, terminal
from wolfmeans.commands import study as study_command

TINY = ["--n", "60", "--d", "2", "--k", "3", "-r", "20"]
GRID = ["study", "grid", *TINY, "--no-report"]


@pytest.fixture
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(folder):
    return sorted(path.stem for path in (folder / "scenarios").iterdir())


def refused(capsys, arguments):
    """Run a command that must fail and return its one line."""
    assert cli.main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    assert line.startswith("wolfmeans: ")
    return line


# --- The whole -------------------------------------------------------------------------------


def test_the_script_is_declared_and_its_dependencies_are_an_extra():
    path = Path(__file__).parents[2] / "pyproject.toml"
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"wolfmeans": "wolfmeans.commands.cli:main"}
    extra = project["optional-dependencies"]["cli"]
    assert [text.partition(">")[0] for text in extra] == ["jinja2", "polars", "rich", "typer"]
    assert not any(text.startswith(("polars", "rich", "typer")) for text in project["dependencies"])


def test_without_typer_one_line_says_what_to_install():
    code = (
        "import sys\nsys.modules['typer'] = None\n"
        "import wolfmeans.commands.cli\nsys.exit(wolfmeans.commands.cli.main(['study']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "pip install typer rich" in line


@pytest.mark.parametrize("command", ["grid", "segmentation", "data", "report"])
def test_help_has_examples(command):
    done = CliRunner().invoke(cli.application(), ["study", command, "--help"])
    assert done.exit_code == 0
    assert f"wolfmeans study {command} " in done.output
    assert "Examples" in done.output


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("wolfmeans ")


@pytest.mark.parametrize("arguments", [[], ["study"]])
def test_without_a_command_there_is_help(capsys, arguments):
    assert cli.main(arguments) == 0
    said = capsys.readouterr()
    assert "study" in said.out + said.err


def test_demo_is_wired(monkeypatch):
    called = []
    monkeypatch.setattr("wolfmeans.commands.demo.demonstrate", called.append)
    assert CliRunner().invoke(cli.application(), ["demo", "there"]).exit_code == 0
    assert called == [Path("there")]


# --- Studies ---------------------------------------------------------------------------------


def test_a_grid_is_run_and_reported(inside, capsys):
    assert cli.main(["study", "grid", *TINY, "--gap", "gap", "--out", "a/b"]) == 0
    said = capsys.readouterr().out
    assert "60" in said
    assert str(Path("a/b/page.html")) in said
    with (inside / "a/b/tables.csv").open(newline="") as file:
        [row] = csv.DictReader(file)
    assert (row["n"], row["d"], row["k"], row["gap"]) == ("60", "2", "3", "gap")
    assert (inside / "a/b/figures/blobs-n60-d2-gap.svg").is_file()


def test_numbers_are_repeated_or_have_commas(inside):
    sizes = ["--n", "50,60", "--n", "50", "--d", "1", "--d", "2", "--k", "2, 3"]
    command = ["study", "grid", *sizes, "--kind", "blobs,uniform", "-r", "3", "--no-report"]
    assert cli.main(command) == 0
    expected = [
        f"{kind}-n{n}-d{d}-k{k}"
        for kind in ("blobs", "uniform")
        for n in (50, 60)
        for d in (1, 2)
        for k in (2, 3)
    ]
    assert names(inside / "study-grid") == expected


def test_options_reach_the_scenarios(inside):
    options = ["--seeding", "k-means++", "--empty", "farthest", "--seed", "7", "--repeats", "2"]
    assert cli.main([*GRID, *options, "--workers", "1", "--out", "x"]) == 0
    stem = "blobs-n60-d2-k3-k-means++-farthest"
    assert names(inside / "x") == [stem, f"{stem}-repeat1"]
    made = study.ScenarioResult.load(inside / "x/scenarios" / f"{stem}.json").scenario
    assert (made.seed, made.replications) == (7, 20)


def test_segmentation_runs_on_the_bundled_data(inside):
    command = ["study", "segmentation", "--features", "raw", "-r", "2", "--no-report"]
    assert cli.main(command) == 0
    assert names(inside / "study-segmentation") == ["segmentation-raw-n2310-d14-k7"]


def test_a_study_is_not_overwritten_but_resumed(inside, capsys):
    assert cli.main([*GRID, "--out", "x"]) == 0
    capsys.readouterr()
    before = (inside / "x/scenarios/blobs-n60-d2-k3.json").read_bytes()
    assert "already" in refused(capsys, [*GRID, "--out", "x"])
    assert cli.main([*GRID, "--out", "x", "--resume"]) == 0
    assert (inside / "x/scenarios/blobs-n60-d2-k3.json").read_bytes() == before
    capsys.readouterr()
    assert "seed" in refused(capsys, [*GRID, "--out", "x", "--resume", "--seed", "1"])


def test_ctrl_c_says_how_to_go_on(inside, capsys, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "run", stopped)
    assert cli.main([*GRID, "--out", "my folder"]) == 130
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith(
        "wolfmeans study grid --n 60 --d 2 --k 3 -r 20 --no-report --out 'my folder' --resume"
    )
    done = CliRunner().invoke(cli.application(), [*GRID, "--out", "x"])
    assert done.exit_code == 130
    assert "--resume" in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["study", "grid", "--n", "many"], "--n takes integers; got 'many'"),
        (["study", "grid", "--k", "0"], "--k must be at least 1"),
        (["study", "grid", "--k", ","], "--k needs a number"),
        (["study", "grid", "--gap", "duality"], "--gap must be one of published, decrease, gap"),
        (["study", "grid", "--kind", "moons"], "--kind must be one of blobs"),
        (["study", "grid", "--empty", "drop"], "empty must be one of"),
        (["study", "grid", "--seeding", "best"], "seeding must be one of"),
        (["study", "grid", "--n", "3", "--k", "5"], "k must be in 1..n"),
        (["study", "grid", "-r", "0"], "replications"),
        (["study", "grid", "--alpha", "1"], "alpha must be in [0, 1)"),
        (["study", "grid", "--colour", "red"], "No such option"),
        (["study", "gird"], "No such command"),
        (["study", "segmentation", "--features", "wild"], "features must be one of"),
        (["study", "data", "absent.csv"], "no such file: absent.csv"),
        (["study", "report", "absent"], "absent holds no study"),
        (["study", "report", "a", "b"], "--out"),
    ],
)
def test_errors_are_one_line_and_exit_code_2(inside, capsys, arguments, said):
    assert said in refused(capsys, arguments)
    assert list(inside.iterdir()) == []


def test_errors_have_exit_code_2_in_the_application_too(inside):
    done = CliRunner().invoke(cli.application(), ["study", "grid", "--n", "many"])
    assert done.exit_code == 2
    assert "--n takes integers" in done.output


def test_a_report_is_made_from_the_folder_alone(inside, capsys):
    assert cli.main([*GRID, "--out", "x"]) == 0
    assert cli.main(["study", "report", "x", "--gap", "decrease"]) == 0
    first = (inside / "x/page.html").read_bytes()
    (inside / "x/page.html").unlink()
    (inside / "x/study.json").unlink()
    assert cli.main(["study", "report", "x", "--gap", "decrease"]) == 0
    assert (inside / "x/page.html").read_bytes() == first


# --- Data ------------------------------------------------------------------------------------


def data(*arguments):
    return cli.main(["study", "data", *arguments, "-r", "5", "--no-report"])


def test_bundled_data_knows_its_clusters(inside):
    assert data("banknotes") == 0
    assert names(inside / "study-banknotes") == ["banknotes-n200-d6-k2"]
    assert data("banknotes", "--standardize", "--k", "2,3", "--out", "z") == 0
    assert names(inside / "z") == [
        "banknotes-standardized-n200-d6-k2",
        "banknotes-standardized-n200-d6-k3",
    ]


@pytest.mark.parametrize(
    ("name", "shape"), [("iris", (150, 4)), ("wine", (178, 13)), ("digits", (1797, 64))]
)
def test_bundled_data_has_its_shape(name, shape):
    assert study_command.read_data(name).points.shape == shape


def test_a_csv_file_loses_its_words(inside, capsys):
    text = "name,x,y\n" + "\n".join(f"a{i},{i},{i % 7}" for i in range(30))
    (inside / "mine.csv").write_text(text)
    assert data("mine.csv", "--k", "3") == 0
    assert "non-numeric columns: name." in capsys.readouterr().err
    assert names(inside / "study-mine") == ["mine-n30-d2-k3"]
    assert "--k" in refused(capsys, ["study", "data", "mine.csv"])
    assert "already" in refused(capsys, ["study", "data", "mine.csv", "--k", "3", "-r", "5"])


def test_numbers_in_a_file_are_read_as_elsewhere(inside, capsys):
    rows = "".join(f"{i},5;{i * i % 7}\n" for i in range(30))
    (inside / "comma.csv").write_text(f"x;y\n{rows}")
    assert data("comma.csv", "--k", "3") == 0
    assert "1,5 as 1.5" in capsys.readouterr().err
    (inside / "huge.csv").write_text("x\n1e308\n-1e308\n1e308\n")
    huge = ["study", "data", "huge.csv", "--k", "2", "--standardize"]
    assert "the values are too large to standardize" in refused(capsys, huge)


def test_files_of_every_kind_are_read(tmp_path):
    frame = polars.DataFrame({"x": [1, 2, 3], "word": ["a", "b", "c"], "y": [0.5, 1.5, 2.5]})
    frame.write_parquet(tmp_path / "t.parquet")
    found = study_command.read_data(str(tmp_path / "t.parquet"))
    np.testing.assert_array_equal(found.points, [[1, 0.5], [2, 1.5], [3, 2.5]])
    assert (found.name, found.remarks) == ("t", ("Ignoring non-numeric columns: word.",))
    np.save(tmp_path / "t.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    assert study_command.read_data(str(tmp_path / "t.npy")).points.dtype == np.float64
    (tmp_path / "bad.csv").write_text("a,b\n1,\n3,4\n")
    with pytest.raises(ValueError, match="row 1, column 'b' is missing"):
        study_command.read_data(str(tmp_path / "bad.csv"))


def test_standardized_columns_may_be_constant():
    found = study_command.Data("x", np.array([[1.0, 5.0], [3.0, 5.0]]))
    np.testing.assert_array_equal(found.standardized(), [[-1, 0], [1, 0]])


# --- Progress --------------------------------------------------------------------------------


def test_progress_is_a_line_now_and_then_where_there_is_no_terminal(capsys, monkeypatch):
    now = iter([0.0, 5.0, 11.0, 11.0, 12.0])
    monkeypatch.setattr(terminal, "monotonic", lambda: next(now))
    with terminal.meter("runs") as show:
        show(10, 2000, None)
        show(1000, 2000, 90.0)
        show(1100, 2000, 80.0)
    assert capsys.readouterr().err == "runs: 1,000 of 2,000, 1 min 30 s left\n"
