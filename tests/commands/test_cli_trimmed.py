"""`wolfmeans fit --alpha` and `--checkpoint`: in memory and with `--memory`, to the same bits."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wolfmeans
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.exact.native import native_is_available

pytest.importorskip("typer")
pl = pytest.importorskip("polars")
pytest.importorskip("pyarrow", reason="Parquet is streamed by pyarrow")

from wolfmeans.commands import cli  # noqa: E402

pytestmark = pytest.mark.skipif(not native_is_available(), reason="parts are worked on natively")

K, N = 4, 1500


def points(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 3)) + 2.0 * rng.integers(K, size=(N, 1))
    X[rng.choice(N, 60, replace=False)] *= 20.0
    return X


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A Parquet file that is read in chunks of 200 rows wherever --memory is said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("wolfmeans.inputs.memory_budget.Budget.rows_per_chunk", lambda self: 200)
    monkeypatch.setattr("wolfmeans.inputs.memory_budget.Budget.rows_to_load", lambda *_: None)
    X, weights = points(), np.arange(N) % 3 / 2.0
    table = pl.DataFrame({**{name: X[:, j] for j, name in enumerate("abc")}, "w": weights})
    table.write_parquet("x.parquet", row_group_size=300)
    table.drop("w").write_parquet("plain.parquet", row_group_size=300)
    np.save("x.npy", X)
    return X, weights


def command(capsys, *arguments):
    code = cli.main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def labels_in(path):
    return np.load(path) if path.endswith(".npy") else pl.read_csv(path)["label"].to_numpy()


@pytest.mark.parametrize("option", [("--alpha", 0.1), ("--trim", 37), ("--alpha", 0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_trimmed_out_of_core(option, weighted, folder, capsys):
    X, weights = folder
    settings = {option[0][2:]: option[1], "random_state": 0, "bound": None}
    reference = TrimmedKMeans(K, **settings).fit(X, sample_weight=weights if weighted else None)
    file = ["x.parquet", "--weights", "w"] if weighted else ["plain.parquet"]
    targets = ["--labels", "l.csv", "--model", "m.wolf", "--centers", "centers.csv"]
    code, out, errors = command(
        capsys, "fit", *file, "-k", K, "--memory", "64MB", *option, *targets, "--json"
    )
    assert code == 0, errors
    facts = json.loads(out)
    assert facts["inertia"] == reference.inertia_
    assert facts["trimmed_points"] == reference.n_trimmed_
    assert facts["trimmed_mass"] == reference.trimmed_mass_
    assert facts["threshold"] == reference.certificate_.threshold
    assert facts["data"]["weighted"] is weighted
    assert facts["data"]["columns"] == ["a", "b", "c"]
    inside = reference.labels_[reference.labels_ >= 0]
    assert facts["cluster_sizes"] == np.bincount(inside, minlength=K).tolist()
    assert np.array_equal(labels_in("l.csv"), reference.labels_)
    model = wolfmeans.load("m.wolf")
    for name in ("cluster_centers_", "labels_", "kept_", "margins_"):
        assert np.array_equal(getattr(model, name), getattr(reference, name)), name
    assert model.radius_ == reference.radius_
    code, _, errors = command(
        capsys, "predict", "m.wolf", "plain.parquet", "--memory", "64MB", "--labels", "p.npy"
    )
    assert code == 0
    assert np.array_equal(labels_in("p.npy"), reference.predict(X))
    if option[1]:
        assert f"{int(np.sum(labels_in('p.npy') < 0))} of them outliers" in errors


def test_what_is_printed(folder, capsys):
    code, out, errors = command(
        capsys, "fit", "plain.parquet", "-k", K, "--memory", "64MB", "--alpha", 0.1
    )
    assert code == 0
    assert "Clustering 1,500 rows by 3 columns: a, b, c." in errors
    assert "150 points" in out
    assert "without --memory, --bound strongest computes one" in out
    assert "chunks of a source during the fit" in out


STOPPED = """
import os, sys
import numpy as np
from wolfmeans import cli
from wolfmeans.commands import terminal
from wolfmeans.inputs.memory_budget import Budget
Budget.rows_per_chunk = lambda self: 200
Budget.rows_to_load = lambda *_: None
see, seen = terminal.Watch.see, 0
def killing(self, record):
    global seen
    seen += 1
    if seen == {after}:
        os.kill(os.getpid(), {signal})
    return see(self, record)
terminal.Watch.see = killing
sys.exit(cli.main(sys.argv[1:]))
"""


def stopped(arguments, after, how=signal.SIGKILL):
    """Run the command in a process that ends itself at a step."""
    script = STOPPED.format(after=after, signal=int(how))
    ended = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)],
        check=False, timeout=120, capture_output=True, text=True,
    )  # fmt: skip
    return ended.returncode, ended.stderr


@pytest.mark.long
@pytest.mark.parametrize("trimmed", [False, True])
def test_a_killed_command_goes_on(trimmed, folder, capsys):
    X, _ = folder
    arguments = ["fit", "x.npy", "-k", K, "--memory", "64MB", "--stop", "stationary"]
    arguments += ["--checkpoint", "c.ckpt", "--labels", "l.npy", "--json"]
    settings = {"random_state": 0, "bound": None, "stop": "stationary"}
    if trimmed:
        arguments += ["--alpha", 0.1, "--n-init", 3]
        reference = TrimmedKMeans(K, alpha=0.1, n_init=3, **settings).fit(X)
    else:
        reference = KMeans(K, init="k-means||", **settings).fit(X)
    code, errors = stopped(arguments, after=4)
    assert code == -9, errors
    assert Path("c.ckpt").exists()
    assert not Path("l.npy").exists()
    code, out, errors = command(capsys, *arguments)
    assert code == 0, errors
    facts = json.loads(out)
    assert facts["inertia"] == reference.inertia_
    assert facts["iterations"] == reference.certificate_.iterations
    assert np.array_equal(labels_in("l.npy"), reference.labels_)


@pytest.mark.long
def test_a_command_that_is_asked_to_stop_says_how_to_go_on(folder):
    arguments = ["fit", "x.npy", "-k", K, "--memory", "64MB", "--tol", 0, "--checkpoint", "c.ckpt"]
    code, errors = stopped(arguments, after=2, how=signal.SIGINT)
    assert code == 130
    assert "interrupted; this is the result so far; run the same command to continue" in errors


@pytest.mark.parametrize("memory", [[], ["--memory", "64MB"]])
def test_checkpoints_are_refused_in_a_line(memory, folder, capsys):
    fit = ["fit", "x.npy", "-k", K, *memory, "--quiet"]
    assert command(capsys, *fit, "--alpha", 0.1, "--checkpoint", "c.ckpt")[0] == 0
    Path("bad.ckpt").touch()
    for more, sentence in (
        (["--alpha", 0.2, "--checkpoint", "c.ckpt"], "alpha is 0.1 there and 0.2 here"),
        (["--checkpoint", "c.ckpt"], "estimator is 'TrimmedKMeans' there and 'KMeans' here"),
        (["--checkpoint", "bad.ckpt"], "bad.ckpt is no checkpoint"),
        (["--checkpoint", "x.npy"], "--checkpoint: x.npy is already used for the data"),
        (["--checkpoint", "no/c"], "--checkpoint: no such folder: no"),
        (["--checkpoint", "."], "--checkpoint: . is a folder"),
        (["--checkpoint", "-"], "--checkpoint: - is standard output"),
        (["--checkpoint", "m", "--model", "m"], "--checkpoint: m is already used for --model"),
        (["--checkpoint", "d", "--effort", 1], "--checkpoint cannot be combined with --effort 1"),
        (
            ["--checkpoint", "d", "--polish", "swap"],
            "--checkpoint cannot be combined with --polish swap",
        ),
        (["--checkpoint", "d", "--empty", "resample"], "cannot be combined with --empty resample"),
    ):
        code, _, errors = command(capsys, *fit, *more)
        assert code == 2, more
        assert sentence in errors
        assert errors.count("\n") == 1


def test_weights_are_counted_by_the_limit_of_memory(tmp_path, capsys):
    rng = np.random.default_rng(0)
    n = 500_000
    table = pl.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "w": rng.random(n)})
    table.write_parquet(tmp_path / "x.parquet")
    command = ["fit", str(tmp_path / "x.parquet"), "-k", "3", "--weights", "w", "--memory"]
    assert cli.main([*command, "3MB"]) != 0
    assert "--memory 3MB is too small: the weights alone take" in capsys.readouterr().err
    assert cli.main([*command, "12MB"]) != 0
    assert "In addition, the weights take 3.8 MiB of --memory 12MB" in capsys.readouterr().err
