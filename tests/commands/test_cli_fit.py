"""The commands fit, predict, certify, scan and info: what they read, write, say and return."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import wolfmeans
from wolfmeans import KMeans
from wolfmeans.commands import cli, options
from wolfmeans.commands import fit as fit_command
from wolfmeans.commands import info as info_command
from wolfmeans.commands.terminal import Watch
from wolfmeans.core import choices
from wolfmeans.core.solution import Record, Status
from wolfmeans.engines import choosing

COMMANDS = ("fit", "predict", "certify", "scan", "demo", "bench", "info")


@pytest.fixture
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(5)
    return np.repeat([[0.0, 0.0], [9.0, 100.0], [0.0, 900.0]], 30, axis=0) + rng.normal(
        size=(90, 2)
    )


@pytest.fixture
def data(inside, points):
    """Write data.csv: a word, two numbers, a weight."""
    frame = pl.DataFrame(
        {
            "name": [f"p{i}" for i in range(90)],
            "x": points[:, 0],
            "y": points[:, 1],
            "w": np.arange(90) % 3 + 1,
        }
    )
    frame.write_csv("data.csv")
    return frame


def refused(capsys, arguments):
    """Run a command that must fail and return its one line."""
    assert cli.main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    assert line.startswith("wolfmeans: ")
    return line


def run(*arguments):
    done = CliRunner().invoke(cli.application(), [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done


def fit(*arguments):
    return run("fit", *arguments, "--columns", "x,y")


def labels_of(path):
    return pl.read_csv(path)["label"].to_numpy()


def shell(*arguments, **options):
    command = [sys.executable, "-m", "wolfmeans.commands.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, timeout=60, **options)


# --- Help ------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command):
    done = run(command, "--help")
    assert "Examples" in done.output
    assert f"wolfmeans {command}" in done.output


def test_completion_knows_commands_and_names():
    def complete(line):
        settings = {
            "_WOLFMEANS_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        }
        return set(shell(env=os.environ | settings).stdout.decode().split())

    assert {"fit", "predict", "certify", "scan", "info"} <= complete("wolfmeans ")
    assert complete("wolfmeans fit data.csv --polish ") == {"hartigan", "swap"}


# --- Fit -------------------------------------------------------------------------------------


def test_fit_is_that_of_the_estimator(data, points):
    fit("data.csv", "-k", 3, "--seed", 7, "--labels", "l.csv", "--centers", "c.csv")
    km = wolfmeans.KMeans(3, random_state=7).fit(points)
    np.testing.assert_array_equal(labels_of("l.csv"), km.labels_)
    centers = pl.read_csv("c.csv")
    np.testing.assert_array_equal(centers.select("x", "y").to_numpy(), km.cluster_centers_)
    assert centers["points"].to_list() == np.bincount(km.labels_).tolist()


def test_columns_that_are_words_are_left_out_and_named(data, capsys):
    assert cli.main(["fit", "data.csv", "-k", "3", "--exclude", "w", "--json"]) == 0
    said = capsys.readouterr()
    assert "non-numeric columns: name ('p0')" in said.err
    found = json.loads(said.out)
    assert found["data"]["columns"] == ["x", "y"]
    assert found["data"]["n_samples"] == 90
    assert sum(found["cluster_sizes"]) == 90
    assert found["status_name"] == "STATIONARY"
    assert found["verdict"].startswith("Converged")


def test_every_option_reaches_the_estimator(data, monkeypatch):
    made = []

    def catch(estimator, *_, **__):
        made.append(estimator.get_params())
        raise ValueError("caught")

    monkeypatch.setattr(fit_command, "_run", catch)
    options = {
        "--init": "random",
        "--n-init": 4,
        "--max-iter": 17,
        "--stop": "gap",
        "--tol": 0.25,
        "--empty": "best",
        "--bound": "neighbours",
        "--engine": "reference",
        "--threads": 1,
        "--seed": 11,
        "--time-limit": 9,
    }
    given = [str(part) for option in options.items() for part in option]
    kmeans = ["--polish", "swap", "--effort", "2"]
    assert cli.main(["fit", "data.csv", "-k", "5", *given, *kmeans]) == 2
    assert cli.main(["fit", "data.csv", "-k", "5", *given, "--alpha", "0.125"]) == 2
    assert cli.main(["fit", "data.csv", "-k", "5", *given, "--trim", "3"]) == 2
    expected = {
        "n_clusters": 5,
        "init": "random",
        "n_init": 4,
        "max_iter": 17,
        "stop": "gap",
        "tol": 0.25,
        "empty": "best",
        "bound": "neighbours",
        "engine": "reference",
        "n_threads": 1,
        "random_state": 11,
        "time_limit": 9.0,
    }
    plain, share, number = made
    for parameters in made:
        assert {name: parameters[name] for name in expected} == expected
    assert (plain["polish"], plain["effort"]) == ("swap", 2.0)
    assert (share["alpha"], share["trim"]) == (0.125, None)
    assert (number["alpha"], number["trim"]) == (None, 3.0)


def test_weights_are_a_column(data, points):
    fit("data.csv", "-k", 3, "--weights", "w", "--certificate", "c.json")
    found = json.loads(Path("c.json").read_text())
    km = wolfmeans.KMeans(3, random_state=0).fit(points, sample_weight=data["w"].to_numpy())
    assert found["inertia"] == km.inertia_
    assert found["data"]["columns"] == ["x", "y"]


def test_standardized_columns_are_standardized_again_by_predict(data, points):
    fit("data.csv", "-k", 3, "--standardize", "--model", "m.wolf", "--labels", "l.csv",
        "--centers", "c.csv")  # fmt: skip
    z = (points - points.mean(axis=0)) / points.std(axis=0)
    labels = labels_of("l.csv")
    np.testing.assert_array_equal(labels, wolfmeans.KMeans(3, random_state=0).fit(z).labels_)
    # Centers are in the units of the columns: there, they are the means.
    means = [points[labels == k].mean(axis=0) for k in range(3)]
    centers = pl.read_csv("c.csv").select("x", "y").to_numpy()
    np.testing.assert_allclose(centers, means, rtol=1e-9)
    # Columns are found by name, in any order; others are not looked at.
    data.select("y", "w", "x").write_csv("new.csv")
    run("predict", "m.wolf", "new.csv", "--labels", "p.csv")
    np.testing.assert_array_equal(labels_of("p.csv"), labels)
    with pytest.raises(ValueError, match="load_prepared"):
        wolfmeans.load("m.wolf")


def test_a_model_without_standardization_can_be_loaded_in_python(data, points):
    fit("data.csv", "-k", 3, "--model", "m.wolf")
    km = wolfmeans.load("m.wolf")
    assert km.feature_names_in_.tolist() == ["x", "y"]
    frame = data.select("x", "y").to_pandas()
    np.testing.assert_array_equal(km.predict(frame), km.labels_)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "arrow", "npy"])
def test_labels_in_every_format(data, points, suffix):
    fit("data.csv", "-k", 3, "--labels", f"l.{suffix}")
    if suffix == "npy":
        found = np.load("l.npy")
    elif suffix in ("csv", "tsv"):
        found = pl.read_csv(f"l.{suffix}")["label"].to_numpy()
    else:
        frame = pl.read_parquet if suffix == "parquet" else pl.read_ipc
        found = frame(f"l.{suffix}")["label"].to_numpy()
    np.testing.assert_array_equal(found, wolfmeans.KMeans(3, random_state=0).fit(points).labels_)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_labels_beside_the_data(data, suffix):
    fit("data.csv", "-k", 3, "--labels", f"l.{suffix}", "--with-data")
    found = pl.read_csv("l.csv") if suffix == "csv" else pl.read_parquet("l.parquet")
    assert found.drop("label").equals(data)
    again = [f"l.{suffix}", "-k", 2, "--labels", f"m.{suffix}", "--with-data", "--columns", "x"]
    run("fit", *again)
    both = pl.read_csv("m.csv") if suffix == "csv" else pl.read_parquet("m.parquet")
    assert both.columns == [*found.columns, "label_2"]


def test_without_polars_npy_is_read_and_csv_is_written(points, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", points)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "polars", None)
        run("fit", "x.npy", "-k", 3, "--labels", "l.csv", "--with-data")
    found = pl.read_csv("l.csv")
    np.testing.assert_array_equal(found.select("0", "1").to_numpy(), points)
    expected = wolfmeans.KMeans(3, random_state=0).fit(points).labels_
    assert found["label"].to_list() == expected.tolist()


def test_trimmed_fits_have_outliers(data, points):
    far = pl.DataFrame({"name": ["far"], "x": [1e4], "y": [-1e4], "w": [1]})
    pl.concat([data, far], how="vertical_relaxed").write_csv("data.csv")
    fit("data.csv", "-k", 3, "--trim", 1, "--labels", "l.csv", "--model", "m.wolf",
        "--page", "p.html")  # fmt: skip
    assert np.flatnonzero(labels_of("l.csv") == -1).tolist() == [90]
    pl.DataFrame({"x": [0.0, -5e4], "y": [0.0, 0.0]}).write_csv("new.csv")
    done = run("predict", "m.wolf", "new.csv")
    assert done.stdout.splitlines()[::2] == ["label", "-1"]
    assert "<h2>Clusters" in Path("p.html").read_text()


def test_the_old_name_of_the_option_bound_is_accepted(data):
    done = fit("data.csv", "-k", 4, "--certify", "none", "--certificate", "a.json")
    assert "--certify is now called --bound" in done.stderr
    assert json.loads(Path("a.json").read_text())["lower_bound"] is None
    done = run("scan", "data.csv", "-k", "2:3", "--certify", "none", "--json")
    assert "--certify is now called --bound" in done.stderr
    assert [cell["lower_bound"] for cell in json.loads(done.stdout)["cells"]] == [None, None]


def test_the_strongest_bound_is_at_least_as_good(data):
    fit("data.csv", "-k", 4, "--bound", "none", "--certificate", "a.json")
    best = ("--bound", "strongest", "--certify-seconds", 2)
    fit("data.csv", "-k", 4, *best, "--certificate", "b.json")
    none, best = (json.loads(Path(name).read_text()) for name in ("a.json", "b.json"))
    assert none["lower_bound"] is None
    assert best["lower_bound"] > 0
    assert none["inertia"] == best["inertia"]


def test_not_converged_is_1_only_when_required(data, capsys):
    command = ["fit", "data.csv", "-k", "5", "--max-iter", "1", "--init", "random", "--n-init", "1"]
    assert cli.main([*command, "--columns", "x,y", "--tol", "0"]) == 0
    assert "Not converged" in capsys.readouterr().out
    assert cli.main([*command, "--columns", "x,y", "--tol", "0", "--require-converged"]) == 1
    assert cli.main([*command, "--columns", "x,y", "--tol", "1", "--require-converged"]) == 0


def test_quiet_says_nothing(data, capsys):
    assert cli.main(["fit", "data.csv", "-k", "3", "-q", "--labels", "l.csv"]) == 0
    assert capsys.readouterr() == ("", "")


def test_labels_go_to_standard_output_alone(data, capfdbinary):
    assert cli.main(["fit", "data.csv", "-k", "3", "--columns", "x,y", "--labels", "-"]) == 0
    lines = capfdbinary.readouterr().out.splitlines()
    assert lines[0] == b"label"
    assert len(lines) == 91


def test_a_pipe_gets_no_colours_and_standard_input_is_read(data):
    content = Path("data.csv").read_bytes()
    done = shell("fit", "-", "-k", 3, "--exclude", "w", input=content)
    assert done.returncode == 0
    assert done.stdout.startswith(b"Converged after")
    assert b"\x1b[" not in done.stdout + done.stderr
    assert b"non-numeric columns: name" in done.stderr


# --- What is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n3,4,5\n", "line 3 has 3 fields"),
        ("a,b\n1,2\n3,four\n5,6\n", "row 2, column 'b': 'four' is not a number"),
        ("a,b\n1,2\n3,NA\n5,6\n", "--exclude b"),
        ("a,b c\n1,2\n3,four\n5,6\n", "--exclude 'b c'"),
        ("a,b\n1,2\n3,\n5,6\n", "row 2, column 'b' is missing"),
        ("a,b\nx,y\n", "no numeric column"),
        ("", "is empty"),
        (b"\x00\x01\x02\x03" * 9, "is not text"),
    ],
)
def test_bad_files_are_one_line_and_exit_code_2(inside, capsys, text, said):
    (inside / "bad.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    line = refused(capsys, ["fit", "bad.csv", "-k", "2", "--labels", "l.csv", "-q"])
    assert said in line
    assert "bad.csv" in line
    assert not (inside / "l.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--columns", "x,z"], "--columns: data.csv has no column 'z'; it has name, x, y, w"),
        (["--columns", "name"], "row 1, column 'name': 'p0' is not a number"),
        (["--exclude", "z"], "--exclude: data.csv has no column 'z'"),
        (["--weights", "z"], "--weights: data.csv has no column 'z'"),
        (["--weights", "name"], "is not a number"),
        (["--labels", "l.xlsx"], "--labels: l.xlsx must end in one of .csv"),
        (["--labels", "no/l.csv"], "--labels: no such folder: no"),
        (["--labels", "."], "--labels: . is a folder"),
        (["--labels", "data.csv"], "--labels: data.csv is already used for the data"),
        (["*.csv", "--labels", "data.csv"], "--labels: data.csv is already used for the data"),
        (["--labels", "l.csv", "--centers", "l.csv"], "is already used for --labels"),
        (["--with-data"], "--with-data needs --labels"),
        (["--with-data", "--labels", "l.npy"], "an .npy file can hold only numbers"),
        (["--init", "best"], "--init must be one of"),
        (["--init", "trimmed-k-means++"], "needs --alpha or --trim"),
        (["--polish", "shine"], "--polish must be one of hartigan, swap"),
        (["--polish", "shine", "--alpha", "0.1"], "--polish must be one of hartigan, swap"),
        (["--effort", "0"], "--effort must be more than 0"),
        (["--alpha", "0.1", "--trim", "3"], "use only one"),
        (["--alpha", "1.5"], "--alpha must be at least 0 and below 1"),
        (["--bound", "maybe"], "--bound must be one of"),
        (["--format", "xml"], "--format must be one of"),
        (["--colour", "red"], "No such option"),
        (["-k", "91"], "-k: 91 clusters, but the data has only 90 rows"),
        (["--columns", ""], "--columns: data.csv has none of these columns; it has name, x, y, w"),
        (["--columns", ","], "--columns: data.csv has none of these columns"),
        (["--model", "-"], "--model: - is standard output; give the name of a file"),
        (["--page", "-"], "--page: - is standard output; give the name of a file"),
        (
            ["--page", "/dev/stdout"],
            "--page: /dev/stdout is standard output; give the name of a file",
        ),
        (["--labels", "-", "--json"], "--labels: - is standard output, which --json already uses"),
        (
            ["--certificate", "/dev/stdout", "--json"],
            "is standard output, which --json already uses",
        ),
        (["--labels", "-", "--centers", "/dev/stdout"], "which --labels already uses"),
        (["-k", "many"], "-k"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(data, inside, capsys, arguments, said):
    command = ["fit", "data.csv", "-k", "3", "-q", *arguments]
    assert said in refused(capsys, command)
    assert [path.name for path in inside.iterdir()] == ["data.csv"]


def test_files_that_cannot_be_read_are_refused(inside, capsys):
    assert "no such file: absent.csv" in refused(capsys, ["fit", "absent.csv", "-k", "2"])
    assert "is a folder" in refused(capsys, ["fit", ".", "-k", "2"])


@pytest.mark.skipif(getattr(os, "geteuid", int)() == 0, reason="nothing is unreadable for root")
def test_an_unreadable_file_is_refused(data, inside, capsys):
    (inside / "data.csv").chmod(0)
    assert "cannot be read: Permission denied" in refused(capsys, ["fit", "data.csv", "-k", "2"])


def test_an_unreadable_file_is_refused_by_the_opener(data, capsys, monkeypatch):
    def closed(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", closed)
    line = refused(capsys, ["fit", "data.csv", "-k", "2"])
    assert line == "wolfmeans: data.csv cannot be read: Permission denied"


def test_negative_weights_are_refused_with_their_row(inside, capsys):
    (inside / "w.csv").write_text("x,w\n1,1\n2,-1\n3,1\n")
    line = refused(capsys, ["fit", "w.csv", "-k", "2", "--weights", "w"])
    assert "w.csv: row 2, column 'w': the weight is negative" in line


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
@pytest.mark.parametrize(
    "option", ["--labels", "--centers", "--model", "--certificate", "--proof", "--page"]
)
def test_a_full_disk_is_one_line(data, capsys, option):
    proved = ["--certify-seconds", "5"] if option == "--proof" else []
    line = refused(capsys, ["fit", "data.csv", "-k", "3", "-q", *proved, option, "/dev/full"])
    assert "/dev/full cannot be written: No space left on device" in line


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on the size of files")
@pytest.mark.parametrize("name", ["l.csv", "l.parquet", "l.npy"])
def test_outputs_appear_whole_or_not_at_all(inside, capsys, name):
    import resource

    np.save("x.npy", np.random.default_rng(0).normal(size=(100_000, 1)))
    (inside / name).write_text("before")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    try:
        line = refused(capsys, ["fit", "x.npy", "-k", "3", "-q", "--labels", name])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert f"{name} cannot be written: File too large" in line
    assert (inside / name).read_text() == "before"
    assert sorted(path.name for path in inside.iterdir()) == [name, "x.npy"]


def test_ctrl_c_is_130(data, capsys, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(fit_command, "_run", stopped)
    assert cli.main(["fit", "data.csv", "-k", "3", "-q", "--labels", "l.csv"]) == 130
    assert capsys.readouterr().err == "wolfmeans: interrupted\n"
    assert not Path("l.csv").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_ctrl_c_from_outside_is_130_too(inside):
    np.save("x.npy", np.random.default_rng(0).normal(size=(20_000, 8)))
    command = [
        sys.executable,
        "-m",
        "wolfmeans.commands.cli",
        "fit",
        "x.npy",
        "-k",
        "8",
        "--effort",
        "60",
    ]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for _ in range(300):
        # Once the data is mapped, imports are over and handlers are in place.
        if "x.npy" in Path(f"/proc/{child.pid}/maps").read_text():
            break
        time.sleep(0.1)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=30)[1] == "wolfmeans: interrupted\n"
    assert child.returncode == 130


@pytest.mark.skipif(sys.platform == "win32", reason="pipes break differently there")
def test_a_reader_that_has_had_enough_is_no_error(data, inside):
    np.save("x.npy", np.zeros((200_000, 2)) + np.arange(200_000)[:, None])
    fit("data.csv", "-k", 3, "--model", "m.wolf")
    command = (
        f"{sys.executable} -m wolfmeans.commands.cli predict m.wolf x.npy --columns 0,1 | head -1"
    )
    done = subprocess.run(command, shell=True, capture_output=True, check=False, timeout=60)
    assert (done.stdout, done.stderr) == (b"label\n", b"")


# --- Predict, certify, scan, info ------------------------------------------------------------


def test_predict_refuses_what_does_not_fit(data, inside, capsys):
    fit("data.csv", "-k", 3, "--model", "m.wolf")
    pl.DataFrame({"x": [1.0]}).write_csv("new.csv")
    line = refused(capsys, ["predict", "m.wolf", "new.csv"])
    assert "new.csv has no column 'y', which the model needs" in line
    assert "is not a wolfmeans model" in refused(capsys, ["predict", "new.csv", "data.csv"])
    assert "no such model file: absent.wolf" in refused(
        capsys, ["predict", "absent.wolf", "data.csv"]
    )
    line = refused(capsys, ["predict", "m.wolf", "data.csv", "--columns", "x", "-q"])
    assert "was fitted to 2 columns" in line
    line = refused(capsys, ["predict", "m.wolf", "data.csv", "--labels", "m.wolf"])
    assert "must end in" in line


def test_predict_uses_models_saved_in_python(data, points, inside):
    km = wolfmeans.KMeans(3, random_state=0).fit(points)
    km.save("m.wolf")
    np.save("x.npy", points)
    run("predict", "m.wolf", "x.npy", "--labels", "l.csv", "--with-data")
    np.testing.assert_array_equal(labels_of("l.csv"), km.labels_)
    assert pl.read_csv("l.csv").columns == ["0", "1", "label"]


def test_certify_judges_labels_from_anywhere(data, points):
    fit("data.csv", "-k", 3, "--labels", "l.csv")
    km = wolfmeans.KMeans(3, random_state=0).fit(points)
    done = run("certify", "data.csv", "l.csv", "--columns", "x,y", "--json")
    found = json.loads(done.stdout)
    assert found["sse"] == pytest.approx(km.inertia_)
    assert (found["n_clusters"], found["gap"], found["level"]) == (3, 0.0, "hartigan")
    pl.DataFrame({"team": ["a", "b", "c"] * 30}).write_csv("bad.csv")
    plain = run("certify", "data.csv", "bad.csv", "--columns", "x,y").stdout
    assert "points are closer to another cluster's mean" in plain
    assert "single moves" in plain


def test_certify_takes_a_column_of_the_data(data, points):
    fit("data.csv", "-k", 3, "--labels", "both.parquet", "--with-data")
    run("certify", "both.parquet", "--label-column", "label", "--exclude", "w",
        "--certificate", "c.json", "-q")  # fmt: skip
    found = json.loads(Path("c.json").read_text())
    assert found["columns"] == ["x", "y"]
    assert found["gap"] == 0.0


@pytest.mark.parametrize(
    ("labels", "clusters", "trimmed"),
    [
        (["1e19", "2e19", "3e19"], 3, 0),
        ([2**60, 2**60 + 1, 2**60 + 2], 3, 0),
        ([0.5, 1.5, -1], 2, 30),
        (["0", "1", "-1.0"], 2, 30),
    ],
)
def test_certify_tells_labels_apart_whatever_their_size(data, labels, clusters, trimmed):
    Path("l.csv").write_text("label\n" + "".join(f"{label}\n" * 30 for label in labels))
    done = run("certify", "data.csv", "l.csv", "--columns", "x,y", "--json")
    found = json.loads(done.stdout)
    assert found["n_clusters"] == clusters
    assert found["n_points"] == 90 - trimmed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no labels given: pass a second file, or --label-column NAME"),
        (["short.csv"], "data.csv has 90 rows, but short.csv has 2"),
        (["data.csv"], "choose one with --label-column"),
        (["data.csv", "--label-column", "z"], "has no column 'z'"),
        (["short.csv", "--method", "magic"], "--method must be one of"),
        (["holes.csv"], "row 2 has no label"),
    ],
)
def test_certify_refuses_what_is_no_clustering(data, inside, capsys, arguments, said):
    (inside / "short.csv").write_text("label\n1\n2\n")
    (inside / "holes.csv").write_text("label,x\na,1\n,1\n")
    if arguments == ["holes.csv"]:
        arguments = ["holes.csv", "--label-column", "label"]
    assert said in refused(capsys, ["certify", "data.csv", *arguments, "-q"])


def test_scan_tabulates_draws_and_writes(data, points):
    command = ["data.csv", "-k", "2:4", "--alpha", "0,0.1", "--columns", "x,y", "--n-init", 2]
    done = run("scan", *command, "--csv", "s.csv", "--plot", "s.svg", "--json")
    found = json.loads(done.stdout)
    table = pl.read_csv("s.csv")
    assert table["n_clusters"].to_list() == [2, 3, 4] * 2
    assert [cell["inertia"] for cell in found["cells"]] == table["inertia"].to_list()
    best = wolfmeans.KMeans(3, random_state=0).fit(points).inertia_
    assert table["inertia"][1] == pytest.approx(best)
    assert "K = 3" in found["sentences"][0]
    assert Path("s.svg").read_text().startswith("<?xml")
    assert "silhouette" in run("scan", *command).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-k", "5:2"], "-k takes numbers and ranges such as 2:10"),
        (["-k", "2:"], "-k takes numbers and ranges such as 2:10; got '2:'"),
        (["-k", "2:many"], "-k takes integers; got 'many'"),
        (
            ["-k", "1:1000000000000000000"],
            "1,000,000,000,000,000,000 clusters, but the data has only 90 rows",
        ),
        (["--csv", "-", "--json"], "--csv: - is standard output, which --json already uses"),
        (["-k", "200"], "200 clusters, but the data has only 90 rows"),
        (["--alpha", "2"], "--alpha must be at least 0 and below 1"),
        (["--plot", "s.doc"], "--plot: s.doc must end in one of .png"),
        (["--csv", "s.doc"], "--csv: s.doc must end in one of"),
    ],
)
def test_scan_refuses_what_it_cannot_do(data, capsys, arguments, said):
    assert said in refused(capsys, ["scan", "data.csv", *arguments, "-q"])


@pytest.mark.parametrize("target", ["-", "/dev/stdout"])
def test_what_goes_to_standard_output_is_alone_there(data, capsysbinary, target):
    fit("data.csv", "-k", 3, "--labels", "l.csv", "--centers", "c.csv")

    def printed(*arguments):
        assert cli.main([str(argument) for argument in arguments]) == 0
        found = capsysbinary.readouterr()
        assert b"Written" not in found.err
        return found.out

    chosen = ("--columns", "x,y")
    assert printed("fit", "data.csv", "-k", 3, *chosen, "--labels", target) == (
        Path("l.csv").read_bytes()
    )
    judged = printed("certify", "data.csv", "l.csv", *chosen, "--certificate", target)
    assert json.loads(judged)["n_clusters"] == 3
    table = printed("scan", "data.csv", "-k", "2:3", *chosen, "--csv", target).splitlines()
    assert [line.partition(b",")[0] for line in table] == [b"n_clusters", b"2", b"3"]


def test_remarks_come_with_results_and_a_refusal_is_alone(data, capsys):
    Path("words.csv").write_text("a,b\nx,y\n")
    Path("one.csv").write_text("x,y\n1,2\n")
    assert "no numeric column" in refused(capsys, ["fit", "words.csv", "-k", "1"])
    many = ["fit", "data.csv", "-k", "3", "--trim", "90"]
    assert "would trim everything" in refused(capsys, many)
    assert cli.main(["fit", "data.csv", "-k", "3", "--exclude", "w"]) == 0
    assert capsys.readouterr().err.splitlines() == [
        "Ignoring non-numeric columns: name ('p0').",
        "Clustering 90 rows by 2 columns: x, y.",
    ]
    Path("same.csv").write_text("x\n" + "1\n" * 5)
    assert cli.main(["fit", "same.csv", "-k", "2"]) == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first == "Clustering 5 rows by 1 column: x."
    assert second.startswith("wolfmeans: Number of distinct clusters")
    assert "2 clusters, but the data has only 1 row" in refused(
        capsys, ["fit", "one.csv", "-k", "2"]
    )


def test_not_converged_is_said_in_the_words_of_the_command(data, capsys):
    command = ["fit", "data.csv", "-k", "20", "--max-iter", "1", "--require-converged"]
    assert cli.main(command) == 1
    assert "increase --max-iter" in capsys.readouterr().err


def test_decimal_commas_are_said(inside):
    Path("d.csv").write_text("1,5;2,5\n3,5;4,5\n6,1;7,2\n")
    done = run("fit", "d.csv", "-k", 2, "--json")
    assert "1,5 as 1.5" in done.stderr
    assert json.loads(done.stdout)["data"]["columns"] == ["0", "1"]


def test_info_says_what_runs_here(capsys):
    assert cli.main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["wolfmeans"] == wolfmeans.__version__
    assert found["packages"]["numpy"] == np.__version__
    assert found["threads"] >= 1
    assert found["extras"]["cli"] and found["extras"]["plot"]
    assert list(found["peers"]) == list(choices.PEERS)
    assert found["gpu"]["name"] or found["gpu"]["remark"]
    assert cli.main(["info"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["numpy", np.__version__] in lines
    assert any(line[:1] == ["gpu"] for line in lines)


def test_info_knows_every_optional_package():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = {
        name: {re.match(r"[\w-]+", requirement)[0] for requirement in requirements}
        for name, requirements in project["optional-dependencies"].items()
        if name not in ("test", "docs", "dev")
    }
    facts = info_command.gather()
    assert facts["extras"].keys() == extras.keys()
    assert set().union(*extras.values()) <= facts["optional_packages"].keys()
    for name, packages in extras.items():
        assert packages <= set(info_command._EXTRAS[name])


NOTHING = {"driver": False, "smi": "", "torch": None, "triton": None, "cuda": None}
COMPLETE = {"driver": True, "smi": "NVIDIA H200, 143771\nother, 1\n", "torch": "2.11.0",
            "triton": "3.6.0", "cuda": "12.8"}  # fmt: skip


@pytest.mark.parametrize(
    ("there", "card", "runs", "remark"),
    [
        (NOTHING, "none", False, "no NVIDIA driver"),
        (COMPLETE, "NVIDIA H200, 140.4 GiB", True, "PyTorch 2.11.0 for CUDA 12.8, Triton 3.6.0"),
        (COMPLETE | {"smi": None}, "an NVIDIA GPU", True, "the gpu engine is available"),
        (COMPLETE | {"smi": "No devices were found\n"}, "an NVIDIA GPU", True,
         "the gpu engine is available"),
        (COMPLETE | {"cuda": None}, "NVIDIA H200, 140.4 GiB", False, "is a CPU build"),
        (COMPLETE | {"triton": None}, "NVIDIA H200, 140.4 GiB", False,
         "Triton missing: pip install 'wolfmeans[gpu]'"),
        (COMPLETE | {"torch": None, "triton": None, "cuda": None}, "NVIDIA H200, 140.4 GiB", False,
         "PyTorch and Triton missing"),
    ],
)  # fmt: skip
def test_info_tells_about_the_gpu_without_importing_pytorch(monkeypatch, there, card, runs, remark):
    def smi(*_, **__):
        if there["smi"] is None:
            raise FileNotFoundError("nvidia-smi")
        return SimpleNamespace(stdout=there["smi"])

    monkeypatch.setattr(choosing, "driver", lambda: there["driver"])
    monkeypatch.setattr(choosing, "cuda_of_torch", lambda: there["cuda"])
    monkeypatch.setattr(info_command, "_version", lambda name, module=None: there.get(name))
    monkeypatch.setattr(info_command.subprocess, "run", smi)
    found = info_command._gpu()
    assert info_command._card(found) == card
    assert found["engine"] is runs
    assert remark in found["remark"]


# --- On a terminal ---------------------------------------------------------------------------


def test_ranges_and_shares():
    assert options.whole_ranges("-k", ["2:4", "8"]) == [range(2, 5), range(8, 9)]
    assert options.shares("--alpha", ["0,0.5", "0"]) == [0.0, 0.5]


def test_the_watch_estimates_the_end_of_a_geometric_fall():
    watch = Watch("decrease", 1e-6, 1)
    for t in range(10):
        record = Record(t=t, value=100.0, gap=0.0, movement=10.0 * 0.5**t, stationary=False,
                        moved=3, seconds=2.0 * t)  # fmt: skip
        assert not watch.see(record)
    assert watch.tolerance == pytest.approx(1e-4)
    # 10 / 2^t falls to 1e-4 at t = 16.6; two seconds a step from t = 9.
    assert watch.seconds_left() == pytest.approx(2 * (np.log2(1e5) - 9), rel=1e-6)
    watch.interrupted = True
    assert watch.see(record)


@pytest.mark.skipif(sys.platform == "win32", reason="no terminals of this kind")
def test_a_long_fit_is_shown_on_a_terminal_and_ctrl_c_keeps_the_result(inside):
    import pty

    np.save("x.npy", np.random.default_rng(0).normal(size=(400_000, 8)))
    options = ["-k", "40", "--tol", "0", "--stop", "stationary", "--max-iter", "1000000"]
    command = [sys.executable, "-m", "wolfmeans.commands.cli", "fit", "x.npy", *options,
               "--bound", "none", "--certificate", "c.json", "--threads", "1"]  # fmt: skip
    main, side = pty.openpty()
    child = subprocess.Popen(command, stderr=side, stdout=subprocess.PIPE)
    os.close(side)
    shown = b""
    asked = False
    while True:
        try:
            shown += os.read(main, 4096)
        except OSError:
            break
        if b"iteration" in shown and not asked:
            child.send_signal(signal.SIGINT)
            asked = True
    os.close(main)
    said = child.communicate(timeout=30)[0]
    assert child.returncode == 130
    assert b"inertia" in shown
    assert b"the run was interrupted (Ctrl-C)" in said
    assert json.loads(Path("c.json").read_text())["status"] == Status.CALLBACK.value


@pytest.mark.skipif(sys.platform == "win32", reason="signals differ")
@pytest.mark.parametrize("more", [[], ["--quiet"]])
def test_ctrl_c_keeps_the_result_of_a_long_fit_without_a_terminal(
    inside, monkeypatch, capsys, more
):
    np.save("x.npy", np.random.default_rng(0).normal(size=(100_000, 8)))
    see = Watch.see

    def interrupted(watch, record):
        if record.t == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return see(watch, record)

    monkeypatch.setattr(Watch, "see", interrupted)
    options = ["-k", "8", "--tol", "0", "--stop", "stationary", "--bound", "none", *more]
    assert cli.main(["fit", "x.npy", *options, "--certificate", "c.json"]) == 130
    assert "interrupted; this is the result so far" in capsys.readouterr().err
    kept = json.loads(Path("c.json").read_text())
    assert kept["status"] == Status.CALLBACK.value
    assert kept["iterations"] == 2


def test_a_proof_that_takes_no_second_is_looked_for_after_the_fit(inside):
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0, 0.0], [20.0, 0.0, 0.0], [0.0, 20.0, 0.0], [0.0, 0.0, 20.0]])
    X = np.repeat(centers, 100, axis=0) + rng.normal(size=(400, 3))
    np.save("x.npy", X)
    # More clusters than columns, so that the one bound that is cheaper than the fit says nothing.
    alone = vars(KMeans(4, random_state=0).fit(X))["certificate_"]
    assert alone.ratio is None
    found = json.loads(shell("fit", "x.npy", "-k", 4, "--seed", 0, "--json").stdout)
    assert found["inertia"] == alone.inertia
    assert found["lower_bound_confidence"] == 1.0
    assert 1.0 <= found["ratio"] < 1.1
    without = json.loads(
        shell("fit", "x.npy", "-k", 4, "--seed", 0, "--bound", "none", "--json").stdout
    )
    assert without["ratio"] is None


def test_columns_of_uneven_scale_are_told_by_their_names(inside):
    rng = np.random.default_rng(0)
    rows = (f"{x},{1e4 * y}\n" for x, y in rng.normal(size=(60, 2)).tolist())
    Path("uneven.csv").write_text("height,weight in g\n" + "".join(rows))
    said = shell("fit", "uneven.csv", "-k", 2).stdout.decode()
    assert "column 'weight in g'" in said
    assert "column 'height'" in said


# --- Metric ----------------------------------------------------------------------------------


def test_fit_by_cosine(data, points, capsys):
    model = wolfmeans.SphericalKMeans(3, random_state=0).fit(points)
    said = json.loads(
        fit(
            *("data.csv", "-k", "3", "--metric", "cosine", "--json", "--seed", "0"),
            *("--labels", "l.csv", "--model", "m.wolf", "--page", "p.html"),
        ).stdout
    )
    assert said["inertia"] == model.inertia_
    assert said["cost"] == "cosine distances (1 - cos)"
    assert np.array_equal(labels_of("l.csv"), model.labels_)
    run("predict", "m.wolf", "data.csv", "--labels", "again.csv")
    assert np.array_equal(labels_of("again.csv"), model.labels_)
    assert "cosine distances" in Path("p.html").read_text()
    trimmed = fit("data.csv", "-k", "3", "--metric", "cosine", "--trim", "4", "--json")
    assert json.loads(trimmed.stdout)["trimmed_points"] == 4
    for option in (["--polish", "swap"], ["--checkpoint", "c.ckpt"], ["--stop", "shift"]):
        line = refused(capsys, ["fit", "data.csv", "-k", "3", "--metric", "cosine", *option])
        assert line.endswith("cannot be combined with --metric cosine")
    searched = fit("data.csv", "-k", "3", "--metric", "cosine", "--effort", "0.2", "--json")
    assert json.loads(searched.stdout)["inertia"] <= model.inertia_
    line = refused(
        capsys,
        ["fit", "data.csv", "-k", "3", "--metric", "cosine", "--effort", "1", "--trim", "4"],
    )
    assert line.endswith("--effort cannot be combined with --metric cosine and trimming")
    assert "euclidean" in refused(capsys, ["fit", "data.csv", "-k", "3", "--metric", "l1"])
