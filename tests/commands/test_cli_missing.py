"""`--drop-missing`: rows with missing values are left out, counted, and have empty labels."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import wolfmeans
from wolfmeans.commands import cli


@pytest.fixture
def points():
    rng = np.random.default_rng(3)
    return np.repeat([[0.0, 0.0], [20.0, 20.0]], 20, axis=0) + rng.normal(size=(40, 2))


@pytest.fixture
def data(tmp_path, monkeypatch, points):
    """Write data.csv, with holes of four kinds in the rows 2, 7, 11 and 39 (from 0)."""
    monkeypatch.chdir(tmp_path)
    columns = [[str(value) for value in column] for column in points.T]
    columns[0][2], columns[1][7], columns[1][11], columns[0][39] = "", "NA", "nan", " "
    rows = zip(*columns, strict=True)
    Path("data.csv").write_text("x,y,w\n" + "".join(f"{x},{y},1\n" for x, y in rows))
    return np.isin(np.arange(40), [2, 7, 11, 39])


def run(*arguments):
    done = CliRunner().invoke(cli.application(), [str(argument) for argument in arguments])
    assert done.exit_code == 0, done.output
    return done


def test_without_it_the_hole_is_named_with_the_way_out(data, capsys):
    assert cli.main(["fit", "data.csv", "-k", "2", "--columns", "x"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "data.csv: row 3, column 'x' is missing" in line
    assert "--drop-missing" in line


@pytest.mark.parametrize("name", ["l.csv", "l.tsv", "l.parquet", "l.arrow"])
@pytest.mark.parametrize("with_data", [False, True])
def test_labels_have_a_row_for_each_row_and_are_empty_where_it_was_left_out(
    data, points, name, with_data
):
    more = ["--with-data"] if with_data else []
    done = run("fit", "data.csv", "-k", 2, "--exclude", "w", "--drop-missing",
               "--labels", name, *more)  # fmt: skip
    assert "Skipping 4 of 40 rows, which have missing values." in done.stderr
    if name.endswith("sv"):
        found = pl.read_csv(name, separator="\t" if name == "l.tsv" else ",")
        labels = found["label"]
    else:
        found = pl.read_parquet(name) if name == "l.parquet" else pl.read_ipc(name)
        labels = found["label"]
    assert labels.dtype.is_integer()
    alone = ["row", "label"] if name.endswith("sv") else ["label"]
    assert found.columns == (["x", "y", "w", "label"] if with_data else alone)
    if "row" in found.columns:
        assert found["row"].to_list() == list(range(1, 41))
    np.testing.assert_array_equal(labels.is_null().to_numpy(), data)
    expected = wolfmeans.KMeans(2, random_state=0).fit(points[~data]).labels_
    np.testing.assert_array_equal(labels.drop_nulls().to_numpy(), expected)
    if with_data:
        assert found["y"][7] == "NA"  # the data stays as it was


def test_other_readers_keep_the_rows_of_a_file_of_labels(data):
    pandas = pytest.importorskip("pandas")
    run("fit", "data.csv", "-k", 2, "--drop-missing", "--labels", "l.csv")
    assert pandas.read_csv("l.csv")["label"].isna().to_numpy().tolist() == data.tolist()
    whole = pandas.read_csv("l.csv", dtype={"label": "Int64"})["label"]
    assert set(whole.dropna()) == {0, 1} and whole.isna().sum() == 4


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_files_in_chunks_give_the_same_labels_of_the_same_rows(data, points, suffix):
    points[data, 0] = np.nan
    pl.DataFrame(points, schema=["x", "y"], nan_to_null=True).write_parquet("data.parquet")
    fit = ["fit", "data.parquet", "-k", 2, "--drop-missing", "--model", "m.wolf"]
    predict = ["predict", "m.wolf", "data.parquet", "--drop-missing"]
    found = []
    for command in (fit, [*fit, "--memory", "100MB"], predict, [*predict, "--memory", "100MB"]):
        run(*command, "--labels", f"l.{suffix}")
        found.append(Path(f"l.{suffix}").read_text())
    assert found == found[:1] * 4
    separator = "\t" if suffix == "tsv" else ","
    header, *lines = (line.split(separator) for line in found[0].splitlines())
    assert header == ["row", "label"]
    assert [(row, label == "") for row, label in lines] == [
        (str(number), bool(missing)) for number, missing in enumerate(data, 1)
    ]


def test_an_npy_file_has_no_empty_labels(data, capsys):
    command = ["fit", "data.csv", "-k", "2", "--drop-missing", "-q", "--labels", "l.npy"]
    assert cli.main(command) == 2
    assert "cannot hold empty labels for skipped rows" in capsys.readouterr().err
    assert not Path("l.npy").exists()


def test_predict_certify_and_scan_leave_out_the_same_rows(data, points):
    run("fit", "data.csv", "-k", 2, "--exclude", "w", "--drop-missing", "--labels", "l.csv",
        "--model", "m.wolf", "--certificate", "c.json")  # fmt: skip
    facts = json.loads(Path("c.json").read_text())
    assert facts["data"]["rows_left_out"] == 4
    assert facts["data"]["n_samples"] == 36
    done = run("predict", "m.wolf", "data.csv", "--drop-missing", "--labels", "p.csv")
    assert "p.csv (40 rows" in done.stderr
    assert Path("p.csv").read_bytes() == Path("l.csv").read_bytes()
    options = ["--exclude", "w", "--drop-missing", "--json"]
    judged = json.loads(run("certify", "data.csv", "l.csv", *options).stdout)
    assert judged["sse"] == pytest.approx(facts["inertia"])
    assert judged["n_points"] == 36
    scanned = json.loads(run("scan", "data.csv", "-k", "2", *options).stdout)
    assert scanned["cells"][0]["inertia"] == pytest.approx(facts["inertia"])


def test_certify_leaves_out_rows_without_a_label_too(data):
    labels = ["a"] * 20 + ["b"] * 20
    labels[0] = ""
    Path("l.csv").write_text("team,n\n" + "".join(f"{label},1\n" for label in labels))
    command = ["certify", "data.csv", "l.csv", "--label-column", "team", "--exclude", "w"]
    found = json.loads(run(*command, "--drop-missing", "--json").stdout)
    assert found["n_points"] == 35
    assert cli.main([*command, "--columns", "w"]) == 2


def test_missing_weights_count_and_negative_ones_are_refused(data, capsys):
    text = Path("data.csv").read_text().splitlines()
    text[1] = text[1].removesuffix("1")
    Path("w.csv").write_text("\n".join(text) + "\n")
    run("fit", "w.csv", "-k", 2, "--weights", "w", "--drop-missing", "--certificate", "c.json")
    assert json.loads(Path("c.json").read_text())["data"]["rows_left_out"] == 5
    text[1] += "-1"
    Path("w.csv").write_text("\n".join(text) + "\n")
    assert cli.main(["fit", "w.csv", "-k", "2", "--weights", "w", "--drop-missing", "-q"]) == 2
    assert "row 1, column 'w': the weight is negative" in capsys.readouterr().err


def test_infinite_values_are_refused_all_the_same(data, capsys):
    Path("i.csv").write_text("x\n1\n\n2\ninf\n")
    assert cli.main(["fit", "i.csv", "-k", "2", "--drop-missing", "-q"]) == 2
    assert "i.csv: row 4, column 'x' is infinite" in capsys.readouterr().err


def test_nothing_left_is_said(data, capsys):
    Path("n.csv").write_text("x,y\n1,\n,2\n")
    assert cli.main(["fit", "n.csv", "-k", "1", "--drop-missing", "-q"]) == 2
    assert "every row has a missing value" in capsys.readouterr().err


def test_complete_data_is_as_before(data, points, capsys):
    np.save("x.npy", points)
    run("fit", "x.npy", "-k", 2, "--drop-missing", "--labels", "l.npy")
    expected = wolfmeans.KMeans(2, random_state=0).fit(points).labels_
    np.testing.assert_array_equal(np.load("l.npy"), expected)


def test_it_works_without_polars(data, points, monkeypatch):
    import sys

    np.save("data.npy", np.where(data[:, None], np.nan, points))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "polars", None)
        run("fit", "data.npy", "-k", 2, "--drop-missing", "--labels", "l.csv")
    lines = Path("l.csv").read_text().splitlines()
    assert [line.endswith(",") for line in lines[1:]] == data.tolist()
