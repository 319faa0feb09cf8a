"""`wolfmeans fit --dask`: files that workers read, and the result of the same fit in memory."""

from __future__ import annotations

import json

import numpy as np
import pytest

import wolfmeans
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.commands import cli
from wolfmeans.exact.native import native_is_available

pytest.importorskip("dask.array", reason="dask and distributed are not installed")
pytest.importorskip("distributed", reason="dask and distributed are not installed")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pytest.importorskip("dask.dataframe", reason="Dask's data frames are not installed")

from cluster import points, workers  # noqa: E402

pytestmark = pytest.mark.skipif(not native_is_available(), reason="parts are worked on natively")


@pytest.fixture(scope="module")
def address():
    with workers(2) as client:
        yield client.scheduler.address


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three Parquet files with a word, three numbers and a weight."""
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame(points(seed=30), columns=["a", "b", "c"])
    frame["w"] = np.arange(600) % 3
    frame["word"] = "x"
    (tmp_path / "parts").mkdir()
    for number, some in enumerate(np.array_split(np.arange(600), 3)):
        frame.iloc[some].to_parquet(tmp_path / "parts" / f"{number}.parquet")
    return frame


def reference(frame, **settings):
    X = frame[["a", "b", "c"]].to_numpy()
    settings = {"init": "k-means||", "random_state": 0, "engine": "cpu", **settings}
    return KMeans(4, bound=None, **settings).fit(X, sample_weight=frame["w"])


def command(address, *more):
    return ["fit", "parts/*.parquet", "-k", "4", "--dask", address, *more]


def test_parquet_files(folder, address, capsys):
    outputs = ["--labels", "out", "--model", "m", "--centers", "centers.csv"]
    code = cli.main(command(address, "--weights", "w", "--json", *outputs))
    assert code == 0, capsys.readouterr().err
    facts = json.loads(capsys.readouterr().out)
    expected = reference(folder)
    model = wolfmeans.load("m")
    assert np.array_equal(model.cluster_centers_, expected.cluster_centers_)
    assert facts["inertia"] == expected.inertia_
    assert facts["data"]["columns"] == ["a", "b", "c"]
    assert facts["data"]["n_samples"] == 600
    assert facts["cluster_sizes"] == np.bincount(expected.labels_).tolist()
    assert any("k-means||" in note for note in facts["notes"])
    assert np.array_equal(pd.read_parquet("out")["label"], expected.labels_)
    table = pl.read_csv("centers.csv")
    assert table["points"].to_list() == facts["cluster_sizes"]
    assert np.array_equal(table["b"].to_numpy(), expected.cluster_centers_[:, 1])


def test_what_is_printed(folder, address, capsys):
    assert cli.main(command(address, "--weights", "w", "--labels", "labels.csv")) == 0
    said = capsys.readouterr()
    assert "Clustering 3 partitions by 3 columns: a, b, c." in said.err
    assert "Written: labels.csv" in said.err
    labels = pl.read_csv("labels.csv")["label"].to_numpy()
    assert np.array_equal(labels, reference(folder).labels_)


@pytest.mark.parametrize("option", [("--alpha", "0.1"), ("--trim", "50")])
def test_a_trimmed_fit_that_goes_on(option, folder, address, capsys, monkeypatch):
    settings = {"bound": None, "random_state": 0, option[0][2:]: float(option[1])}
    X = folder[["a", "b", "c"]].to_numpy()
    expected = TrimmedKMeans(4, **settings).fit(X, sample_weight=folder["w"])
    outputs = ["--labels", "out", "--model", "m", "--centers", "centers.csv"]
    arguments = command(address, "--weights", "w", *option, "--checkpoint", "c.ckpt")
    with monkeypatch.context() as patched:
        patched.setattr("wolfmeans.commands.terminal.Watch.see", _give_up_at_the_third_step)
        assert cli.main(arguments) == 130
    capsys.readouterr()
    code = cli.main([*arguments, *outputs, "--json"])
    said = capsys.readouterr()
    assert code == 0, said.err
    facts = json.loads(said.out)
    assert facts["inertia"] == expected.inertia_
    assert facts["iterations"] == expected.certificate_.iterations
    assert facts["threshold"] == expected.certificate_.threshold
    assert facts["trimmed_mass"] == expected.trimmed_mass_
    model = wolfmeans.load("m")
    for name in ("cluster_centers_", "labels_", "kept_", "margins_"):
        assert np.array_equal(getattr(model, name), getattr(expected, name)), name
    assert np.array_equal(pd.read_parquet("out")["label"], expected.labels_)
    inside = expected.labels_[expected.labels_ >= 0]
    assert facts["cluster_sizes"] == np.bincount(inside, minlength=4).tolist()
    assert pl.read_csv("centers.csv")["points"].to_list() == facts["cluster_sizes"]
    assert (
        cli.main(["predict", "m", "parts/*.parquet", "--memory", "64MB", "--labels", "p.npy"]) == 0
    )
    assert np.array_equal(np.load("p.npy"), expected.predict(X))
    assert cli.main([*arguments[:-4], "--checkpoint", "c.ckpt"]) == 2
    assert "c.ckpt is the checkpoint of another fit" in capsys.readouterr().err


def _give_up_at_the_third_step(watch, record):
    if record.t == 2:
        raise KeyboardInterrupt
    return False


def test_arrays(folder, address, capsys, monkeypatch):
    monkeypatch.setattr("wolfmeans.commands.cluster._BYTES_OF_A_BLOCK", 24 * 100)
    X = folder[["a", "b", "c"]].to_numpy()
    expected = KMeans(4, init="k-means||", random_state=0, engine="cpu", bound=None).fit(X)
    np.save("x.npy", X)
    files = ["x.npy"]
    try:
        import zarr

        zarr.save("x.zarr", X)
        files.append("x.zarr")
    except ImportError:
        pass
    for file in files:
        assert cli.main(["fit", file, "-k", "4", "--dask", address, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["inertia"] == expected.inertia_


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--standardize"], "--standardize cannot be combined with --dask"),
        (["--with-data", "--labels", "l.csv"], "--with-data cannot be combined with --dask"),
        (["--columns", "z"], "--columns: parts/*.parquet has no column 'z'; it has a, b, c, w"),
        (["--weights", "z"], "--weights: parts/*.parquet has no column 'z'"),
        (["--init", "random"], "init='random' draws rows by the order of all values"),
        (["--polish", "hartigan"], "needs all points in one place"),
        (["--checkpoint", "no/c"], "--checkpoint: no such folder: no"),
        (["--checkpoint", "parts"], "--checkpoint: parts is a folder"),
        (["--checkpoint", "c", "--effort", "1"], "--checkpoint cannot be combined with --effort 1"),
    ],
)
def test_what_is_refused(folder, address, capsys, more, sentence):
    assert cli.main(command(address, *more)) == 2
    assert sentence in capsys.readouterr().err


def test_files_that_cannot_be_read(folder, address, capsys):
    for file, sentence in (
        ("nothing/*.parquet", "no file matches nothing/*.parquet"),
        ("nothing.parquet", "no such file: nothing.parquet"),
        ("nothing.xls", "--dask reads only .parquet, .csv, .npy and .zarr files"),
        ("nosuch://bucket/x.parquet", "nosuch"),
        (".", "is a folder; to read the files in it, use './*.parquet'"),
    ):
        assert cli.main(["fit", file, "-k", "2", "--dask", address]) == 2
        assert sentence in capsys.readouterr().err


def test_a_missing_file_system_is_named(folder, address, capsys, monkeypatch):
    fsspec = pytest.importorskip("fsspec")

    def missing(protocol):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec, "get_filesystem_class", missing)
    assert cli.main(["fit", "s3://bucket/x.parquet", "-k", "2", "--dask", address]) == 2
    assert (
        "Install s3fs to access S3; install it here and on the workers" in capsys.readouterr().err
    )


def test_nobody_answers(folder, capsys, monkeypatch):
    monkeypatch.setattr("wolfmeans.commands.cluster._SECONDS_TO_CONNECT", 0.3)
    assert cli.main(command("tcp://127.0.0.1:1")) == 2
    assert "cannot connect to a scheduler at tcp://127.0.0.1:1" in capsys.readouterr().err
