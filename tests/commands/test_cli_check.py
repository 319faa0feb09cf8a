"""Proofs on the command line: written by fit, verified by check, and never believed."""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

import wolfmeans
from wolfmeans.bounds.proof import Proof
from wolfmeans.commands import cli

DATA = np.random.default_rng(0).normal(size=(40, 2)).round(3) + 4.0 * (np.arange(40) % 3)[:, None]
WEIGHTS = (np.arange(40) % 4).astype(float)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with data and the proofs of a plain and of a weighted, standardized fit."""
    folder = tmp_path_factory.mktemp("proofs")
    rows = np.column_stack([DATA, WEIGHTS])
    np.savetxt(folder / "data.csv", rows, delimiter=",", header="x,y,w", comments="")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        fit = ["fit", "data.csv", "-k", "3", "--certify-seconds", "3", "-q"]
        plain = [*fit, "--columns", "x,y", "--certificate", "plain.json"]
        assert cli.main([*plain, "--proof", "plain.npz"]) == 0
        assert cli.main([*fit, "--weights", "w", "--standardize", "--proof", "weighted.npz"]) == 0
    return folder


@pytest.fixture
def here(made, monkeypatch):
    monkeypatch.chdir(made)


def checked(capsys, *arguments):
    """Run a check; return its exit code, what it printed and what it said."""
    code = cli.main(["check", *map(str, arguments)])
    return code, *capsys.readouterr()


def test_a_proof_is_written_and_verified(here, capsys):
    code, out, err = checked(capsys, "plain.npz", "data.csv", "--columns", "x,y")
    assert (code, err) == (0, "")
    facts = json.loads(Path("plain.json").read_text())
    assert facts["lower_bound_kind"] == "semidefinite" and "proof" not in facts
    first, *rows = out.splitlines()
    assert first.startswith("Verified: no clustering of these 40 points into at most 3 clusters")
    shown = float(first.split()[-1].rstrip("."))
    assert facts["lower_bound"] * (1 - 1e-5) < shown <= facts["lower_bound"]
    assert [row.split()[0] for row in rows] == ["lower", "clusters", "points"]
    assert "2 columns: x, y" in rows[-1]


def test_json_has_the_whole_number(here, capsys):
    code, out, _ = checked(capsys, "plain.npz", "data.csv", "--columns", "x,y", "--json")
    found = json.loads(out)
    bound = wolfmeans.check_proof(DATA.round(3), Proof.load("plain.npz"))
    assert code == 0 and found["verified"]
    assert found["lower_bound"] == pytest.approx(bound, rel=1e-9)
    assert (found["n_clusters"], found["n_samples"], found["columns"]) == (3, 40, ["x", "y"])


def test_weights_and_scaling_are_those_of_the_fit(here, capsys):
    given = ["weighted.npz", "data.csv"]
    code, out, _ = checked(capsys, *given, "--weights", "w", "--standardize", "--json")
    assert code == 0 and json.loads(out)["n_samples"] == 30
    for options in ([], ["--weights", "w"], ["--standardize"], ["--exclude", "w"]):
        code, out, err = checked(capsys, *given, *options)
        assert (code, out) == (1, "")
        [line] = err.splitlines()
        assert line.startswith("wolfmeans: weighted.npz proves nothing about these ")


def test_a_proof_of_other_rows_proves_nothing(here, capsys, tmp_path):
    other = tmp_path / "other.csv"
    for rows, count in ((DATA[:-1], 39), (DATA[::-1], 40), (3.0 * DATA[:5], 5)):
        np.savetxt(other, rows, delimiter=",", header="x,y", comments="")
        code, out, err = checked(capsys, "plain.npz", other)
        assert (code, out) == (1, "")
        assert f"proves nothing about these {count} points" in err
    code, out, _ = checked(capsys, "plain.npz", other, "--json")
    assert code == 1 and json.loads(out)["verified"] is False
    assert checked(capsys, "plain.npz", other, "--quiet") == (1, "", "")


def altered(**changes):
    """Write the plain proof with other arrays, or without those that are None."""
    with np.load("plain.npz") as stored:
        arrays = {**stored, **changes}
    kept = {name: array for name, array in arrays.items() if array is not None}
    np.savez("altered.npz", **kept)
    return "altered.npz"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"n_clusters": 1}, 0),  # a weaker claim
        ({"n_clusters": -3}, 1),
        ({"n_clusters": np.array([2, 3])}, 2),
        ({"n_clusters": np.nan}, 2),
        ({"level": -1.0}, 1),
        ({"level": np.nan}, 1),
        ({"prices": np.full(40, np.inf)}, 1),
        ({"prices": np.full(40, 1e3)}, 1),
        ({"prices": np.zeros((40, 1))}, 2),
        ({"prices": np.zeros(40, dtype=np.float32)}, 1),
        ({"heights": np.float64(3.0)}, 2),
        ({"slack": np.full((40, 40), -1.0, dtype=np.float32)}, 1),
        ({"slack": np.full((40, 40), "a")}, 1),
        ({"slack": None}, 2),
        ({"cuts": np.full((1, 3), 99, dtype=np.int32), "multipliers": np.ones(1)}, 1),
        ({"cuts": np.array([[0, 0, 0]], dtype=object)}, 2),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_altered_proof_is_a_sentence(here, capsys, changes, code):
    found, out, err = checked(capsys, altered(**changes), "data.csv", "--columns", "x,y")
    assert found == code
    if code:
        [line] = err.splitlines()
        assert out == "" and line.startswith("wolfmeans: altered.npz ")


def test_files_that_are_no_proofs_are_sentences(here, capsys, tmp_path):
    whole = Path("plain.npz").read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 3] ^= 255
    contents = {
        "empty.npz": b"",
        "half.npz": whole[: len(whole) // 2],
        "damaged.npz": bytes(damaged),
        "text.npz": b"no proof",
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    np.save(tmp_path / "array.npz.npy", np.zeros(3))
    with zipfile.ZipFile(tmp_path / "other.npz", "w") as archive:
        archive.writestr("notes.txt", "no proof")
    for name in (*contents, "array.npz.npy", "other.npz", "missing.npz", "."):
        code, out, err = checked(capsys, tmp_path / name, "data.csv", "--columns", "x,y")
        assert (code, out) == (2, ""), name
        [line] = err.splitlines()
        assert line.startswith("wolfmeans: ") and "internal error" not in line


def test_a_file_that_unfolds_to_too_much_is_not_unfolded(here, capsys, monkeypatch):
    name = altered(vectors=np.zeros((40, 300_000)), heights=np.zeros(300_000))
    monkeypatch.setattr(Proof, "load", lambda path: pytest.fail("it was read"))
    code, _, err = checked(capsys, name, "data.csv", "--columns", "x,y")
    assert code == 2 and "is not a proof for these 40 rows" in err


# --- fit -------------------------------------------------------------------------------------


def test_without_a_proof_fit_says_so_and_writes_the_rest(here, capsys, tmp_path):
    target, labels = tmp_path / "none.npz", tmp_path / "labels.csv"
    fit = ["fit", "data.csv", "-k", "3", "--proof", str(target), "--labels", str(labels)]
    assert cli.main([*fit, "--bound", "neighbours"]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("Converged")
    assert "none.npz was not written: the neighbours bound has no proof; " in said.err
    assert f"Written: {labels}" in said.err.splitlines()
    assert labels.exists() and not target.exists()
    assert cli.main([*fit, "--bound", "none", "--quiet"]) == 1
    assert capsys.readouterr() == ("", "")
    assert not target.exists()


def test_the_proof_is_written_even_if_another_bound_is_a_little_better(capsys, tmp_path):
    data, target = tmp_path / "data.csv", tmp_path / "proof.npz"
    X = np.random.default_rng(0).normal(size=(40, 2)) + 100.0 * (np.arange(40) % 4)[:, None]
    np.savetxt(data, X, delimiter=",", header="x,y", comments="")
    fit = ["fit", str(data), "-k", "4", "--json"]
    assert cli.main(fit) == 0
    assert json.loads(capsys.readouterr().out)["ratio"] == pytest.approx(1.0)
    assert cli.main([*fit, "--certify-seconds", "5", "--proof", str(target)]) == 0
    assert json.loads(capsys.readouterr().out)["lower_bound_kind"] == "semidefinite"
    assert wolfmeans.check_proof(np.loadtxt(data, delimiter=",", skiprows=1), Proof.load(target))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--certify-seconds", "0"], "must be more than 0 seconds"),
        (["--certify-seconds", "inf"], "must be more than 0 seconds"),
        (["--certify-seconds", "nan"], "must be more than 0 seconds"),
        (["--certify-seconds", "1", "--memory", "1GB"], "--certify-seconds"),
        (["--proof", "p.npz", "--memory", "1GB"], "--proof"),
        (["--proof", "-"], "--proof: - is standard output"),
    ],
)
def test_options_that_do_not_go_together_are_refused(here, capsys, options, said):
    assert cli.main(["fit", "data.csv", "-k", "2", *options]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line


def test_a_method_that_refuses_the_data_costs_no_result(here, capsys, monkeypatch):
    def refuse(*arguments, **settings):
        raise ValueError("too many points for this method")

    monkeypatch.setattr("wolfmeans.estimators.dataset.bound_in_units", refuse)
    fit = ["fit", "data.csv", "-k", "2", "--bound", "none", "--certify-seconds", "1"]
    assert cli.main(fit) == 0
    said = capsys.readouterr()
    assert said.out.startswith("Converged")
    assert "--certify-seconds: too many points for this method" in said.err


def test_a_proof_of_a_trimmed_fit(here, capsys):
    fit = ["fit", "data.csv", "-k", "2", "--trim", "4", "--certify-seconds", "3", "--json"]
    assert cli.main([*fit, "--proof", "proof.npz"]) == 0
    fitted = json.loads(capsys.readouterr().out)
    assert cli.main(["check", "proof.npz", "data.csv", "--trim", "4", "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert (checked["verified"], checked["trimmed"]) == (True, 4.0)
    assert checked["lower_bound"] == fitted["lower_bound"]
    # With less trimmed, a clustering costs at least as much.
    assert cli.main(["check", "proof.npz", "data.csv"]) == 0
    assert "may be left out" not in capsys.readouterr().out
    assert cli.main(["check", "proof.npz", "data.csv", "--trim", "4"]) == 0
    assert "if at most 4 may be left out" in capsys.readouterr().out
