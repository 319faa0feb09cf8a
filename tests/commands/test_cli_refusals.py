"""What cannot be read or written: one line, exit code 2, and nothing left behind.

One table of everything that may be wrong with a file, its name, its place or the disk.
"""

import builtins
import errno
import gzip
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import wolfmeans
from wolfmeans.commands import cli

GOOD = "x,y\n" + "".join(f"{i},{i * i % 7}\n" for i in range(20))


def write(name, content):
    def make():
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)

    return make


def parquet(name, share=1.0):
    def make():
        buffer = io.BytesIO()
        pl.DataFrame({"x": np.arange(500.0)}).write_parquet(buffer)
        whole = buffer.getvalue()
        Path(name).write_bytes(whole[: int(share * len(whole))])

    return make


def npy(name, array, share=1.0):
    def make():
        buffer = io.BytesIO()
        np.save(buffer, array, allow_pickle=True)
        whole = buffer.getvalue()
        Path(name).write_bytes(whole[: int(share * len(whole))])

    return make


def zipped(name):
    def make():
        with zipfile.ZipFile(name, "w") as archive:
            archive.writestr("data.csv", GOOD)

    return make


def twins():
    """Return a Parquet file with two columns of one name, which polars does not write."""
    buffer = io.BytesIO()
    frame = pl.DataFrame({"column_x": [1.0, 2.0], "column_y": [3.0, 4.0]})
    frame.write_parquet(buffer, compression="uncompressed")
    return buffer.getvalue().replace(b"column_y", b"column_x")


TWINS = twins()


class Trap:
    """Would leave a file behind if it were ever loaded."""

    def __reduce__(self):
        return Path.touch, (Path("sprung"),)


INPUTS = {
    "a row too long": ("d.csv", write("d.csv", "x,y\n1,2\n3,4,5\n"), "line 3 has 3 fields"),
    "a row too short": ("d.csv", write("d.csv", "x,y\n1,2\n3\n"), "row 2, column 'y' is missing"),
    "a word in a column": (
        "d.csv",
        write("d.csv", "x,y\n1,2\n3,four\n5,6\n"),
        "d.csv: row 2, column 'y': 'four' is not a number",
    ),
    "words only": ("d.csv", write("d.csv", "a,b\nx,y\nz,w\n"), "no numeric column"),
    "an empty cell": ("d.csv", write("d.csv", "x,y\n1,\n3,4\n"), "row 1, column 'y' is missing"),
    "NaN": ("d.csv", write("d.csv", "x,y\n1,2\nnan,4\n"), "row 2, column 'x' is missing"),
    "infinity": ("d.csv", write("d.csv", "x,y\n1,2\n3,-inf\n"), "row 2, column 'y' is infinite"),
    "NaN in npy": (
        "d.npy",
        npy("d.npy", np.array([[1.0, 2.0], [np.nan, 1.0]])),
        "d.npy: row 2, column '0' is missing",
    ),
    "an empty file": ("d.csv", write("d.csv", ""), "d.csv is empty"),
    "an empty parquet": ("d.parquet", write("d.parquet", ""), "d.parquet is empty"),
    "blank lines": ("d.csv", write("d.csv", "\n \n"), "d.csv is empty"),
    "a byte order mark only": ("d.csv", write("d.csv", b"\xef\xbb\xbf"), "d.csv is empty"),
    "names only": ("d.csv", write("d.csv", "x,y\n"), "d.csv has no rows"),
    "garbage": ("d.csv", write("d.csv", bytes(range(256)) * 4), "d.csv is not text"),
    "not UTF-8": ("d.csv", write("d.csv", b"na\x81ve\n1\n"), "not text in UTF-8"),
    "not UTF-8, far down": (
        "d.csv",
        write("d.csv", b"x,name\n" + b"1,a\n" * 30_000 + b"2,\xe9\n"),
        "d.csv",
    ),
    "parquet named csv": ("d.csv", parquet("d.csv"), "is a file of format parquet, not csv"),
    "csv named parquet": ("d.parquet", write("d.parquet", GOOD), "d.parquet is text, not parquet"),
    "csv named npy": ("d.npy", write("d.npy", GOOD), "d.npy is text, not npy"),
    "gzip named csv": (
        "d.csv",
        write("d.csv", gzip.compress(GOOD.encode())),
        "d.csv is compressed by gzip; rename it to d.csv.gz",
    ),
    "csv named gz": ("d.csv.gz", write("d.csv.gz", GOOD), "d.csv.gz is not compressed by gzip"),
    "zip named csv": ("d.csv", zipped("d.csv"), "a zip or a spreadsheet, not text"),
    "zip named parquet": ("d.parquet", zipped("d.parquet"), "a zip or a spreadsheet, not parquet"),
    "an unknown ending": ("d.xyz", write("d.xyz", GOOD), "set the format with --format"),
    "torn gzip": (
        "d.csv.gz",
        write("d.csv.gz", gzip.compress(GOOD.encode())[:-20]),
        "d.csv.gz is damaged",
    ),
    "torn parquet": ("d.parquet", parquet("d.parquet", 0.6), "d.parquet is damaged"),
    "torn npy": ("d.npy", npy("d.npy", np.arange(90.0), 0.6), "d.npy is damaged"),
    "torn header of npy": ("d.npy", npy("d.npy", np.arange(90.0), 0.05), "d.npy is damaged"),
    "objects in npy": (
        "d.npy",
        npy("d.npy", np.array([[Trap(), 1]], dtype=object)),
        "Python objects in it, which are never loaded",
    ),
    "a pickle named npy": ("d.npy", write("d.npy", pickle.dumps(Trap())), "is a pickle, not npy"),
    "no file": ("absent.csv", lambda: None, "no such file: absent.csv"),
    "no file of that pattern": ("*.csv", lambda: None, "no file matches *.csv"),
    "a folder": ("d.csv", lambda: Path("d.csv").mkdir(), "d.csv is a folder"),
    "columns of one name": (
        "d.parquet",
        lambda: Path("d.parquet").write_bytes(TWINS),
        "d.parquet has columns of the same name",
    ),
    "a long double that is no double": (
        "d.npy",
        npy("d.npy", np.full((3, 1), np.finfo(np.longdouble).max)),
        "d.npy: row 1, column '0' is infinite, or too large for float64",
    ),
    "a broken link": (
        "d.csv",
        lambda: Path("d.csv").symlink_to("gone.csv"),
        "d.csv is a link to gone.csv, which does not exist",
    ),
    "a link to itself": ("d.csv", lambda: Path("d.csv").symlink_to("d.csv"), "d.csv is a link"),
}


@pytest.fixture
def inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys, arguments):
    """Run a command that must fail; return its one line."""
    before = sorted(path.name for path in Path().iterdir())
    assert cli.main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    [line] = said.err.splitlines()
    assert line.startswith("wolfmeans: ")
    assert sorted(path.name for path in Path().iterdir()) == before
    return line


# All commands read by the same code; a few cases show that.
OF_OTHERS = ("a row too long", "a word in a column", "torn parquet", "no file", "objects in npy")


@pytest.mark.parametrize(
    ("command", "case"),
    [("fit", case) for case in INPUTS]
    + [(command, case) for command in ("predict", "certify", "scan") for case in OF_OTHERS],
)
def test_input_that_is_no_table_is_one_line(inside, capsys, command, case, tmp_path_factory):
    name, make, said = INPUTS[case]
    if os.name == "nt" and "link" in case:
        pytest.skip("links need rights there")
    make()
    folder = tmp_path_factory.mktemp("else")
    X = np.arange(8.0).reshape(4, 2)
    wolfmeans.KMeans(2, random_state=0).fit(X).save(folder / "m.wolf")
    (folder / "labels.csv").write_text("label\n0\n1\n")
    options = {
        "fit": ["fit", name, "-k", "2", "--labels", "l.csv"],
        "predict": ["predict", str(folder / "m.wolf"), name, "--labels", "l.csv"],
        "certify": ["certify", name, str(folder / "labels.csv"), "--certificate", "c.json"],
        "scan": ["scan", name, "-k", "1:2", "--csv", "s.csv"],
    }[command]
    line = refused(capsys, [*options, "-q"])
    if command != "certify" or "is not a number" not in said:
        assert said in line  # certify finds that there are other labels first


WEIGHTLESS = "x,w\n1,0\n2,0\n3,0\n"
HUGE = "x,y\n1e308,1\n-1e308,2\n1e308,3\n"


@pytest.mark.parametrize("command", [["fit"], ["scan"], ["certify"]])
@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (WEIGHTLESS, ["--weights", "w"], "d.csv: all weights in column 'w' are 0"),
        (WEIGHTLESS, ["--weights", "w", "--standardize"], "all weights in column 'w' are 0"),
        (WEIGHTLESS, ["--weights", "w", "--drop-missing"], "all weights in column 'w' are 0"),
        (HUGE, ["--standardize"], "values are too large to be standardized"),
    ],
)
def test_numbers_that_cannot_be_used_are_one_line(inside, capsys, command, text, options, said):
    Path("d.csv").write_text(text)
    Path("l.csv").write_text("label\n0\n1\n1\n")
    more = ["l.csv"] if command == ["certify"] else ["-k", "2"]
    assert said in refused(capsys, [*command, "d.csv", *more, *options])


# --- Streams that are closed or full ---------------------------------------------------------

LINUX = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")


def shell(line):
    """Run a command with streams redirected by a shell."""
    command = f"{sys.executable} -m wolfmeans.commands.cli {line}"
    return subprocess.run(
        command, shell=True, capture_output=True, text=True, check=False, timeout=60
    )


@LINUX
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fit - -k 2 <&-", "standard input is closed"),
        ("fit d.csv -k 2 -q --labels - >&-", "standard output cannot be written: it is closed"),
        ("info >&-", "standard output cannot be written: it is closed"),
        ("info >/dev/full", "standard output cannot be written: No space left on device"),
        ("--help >/dev/full", "standard output cannot be written: No space left on device"),
        ("fit --help >/dev/full", "standard output cannot be written: No space left on device"),
        ("--version >/dev/full", "standard output cannot be written: No space left on device"),
    ],
)
def test_streams_that_are_closed_or_full_are_one_line(inside, line, said):
    Path("d.csv").write_text(GOOD)
    done = shell(line)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"wolfmeans: {said}\n")


@LINUX
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("fit absent.csv -k 2 2>/dev/full", 2),
        ("fit d.csv 2>/dev/full", 2),
        ("fit absent.csv -k 2 2>&-", 2),
        ("fit d.csv -k 2 --labels l.csv >/dev/null 2>/dev/full", 0),
        ("fit d.csv -k 2 -q --labels l.csv >&- 2>&- <&-", 0),
    ],
)
def test_a_message_that_nobody_hears_does_not_change_the_exit_code(inside, line, code):
    Path("d.csv").write_text(GOOD)
    done = shell(line)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")
    assert Path("d.csv").read_text() == GOOD
    assert Path("l.csv").exists() == (code == 0)


def test_our_own_mistakes_ask_for_a_report_and_are_seen_in_tests(inside, capsys, monkeypatch):
    def wrong(*_, **__):
        raise ZeroDivisionError("division by zero")

    Path("d.csv").write_text(GOOD)
    monkeypatch.setattr("wolfmeans.commands.fit.choose", wrong)
    with pytest.raises(ZeroDivisionError):
        cli.main(["fit", "d.csv", "-k", "2"])
    monkeypatch.setattr("wolfmeans.commands.terminal.owns_process", lambda: True)
    line = refused(capsys, ["fit", "d.csv", "-k", "2"])
    assert "ZeroDivisionError: division by zero" in line
    assert "please report it" in line


# --- Names that are not text -----------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="names are text elsewhere")
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "arrow", "npy"])
def test_names_of_files_need_not_be_text(inside, capsys, kind):
    name = f"bad\udcff.{kind}"
    X = np.arange(40.0).reshape(20, 2)
    frame, buffer = pl.DataFrame(X, schema=["x", "y"]), io.BytesIO()
    if kind == "parquet":
        frame.write_parquet(buffer)
    elif kind == "arrow":
        frame.write_ipc(buffer)
    elif kind == "npy":
        np.save(buffer, X)
    else:
        text = frame.write_csv().encode()
        buffer.write(gzip.compress(text) if kind == "csv.gz" else text)
    Path(name).write_bytes(buffer.getvalue())
    outputs = ["--page", "p\udcff.html", "--certificate", "c.json", "--model", "m\udcff.wolf"]
    assert cli.main(["fit", name, "-k", "2", "--json", *outputs]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["data"]["files"] == [f"bad\\xff.{kind}"]
    assert said.err.splitlines()[-1] == "Written: m\\xff.wolf, c.json, p\\xff.html"
    assert json.loads(Path("c.json").read_text("utf-8")) == json.loads(said.out)
    assert f"<title>bad\\xff.{kind}: 2 clusters</title>" in Path("p\udcff.html").read_text("utf-8")
    assert cli.main(["scan", name, "-k", "2", "--page", "s.html"]) == 0
    assert f"bad\\xff.{kind}" in Path("s.html").read_text("utf-8")
    assert cli.main(["predict", "m\udcff.wolf", name, "--labels", "l\udcff.csv"]) == 0
    capsys.readouterr()
    assert "no such file: no\\xff.csv" in refused(capsys, ["fit", "no\udcff.csv", "-k", "2"])


def test_standard_input_without_anything_is_one_line(inside, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    assert "standard input is empty" in refused(capsys, ["fit", "-", "-k", "2"])


@pytest.mark.parametrize("failure", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_what_the_system_does_not_let_us_read_is_one_line(inside, capsys, monkeypatch, failure):
    Path("d.csv").write_text(GOOD)
    opened = io.open

    def closed(path, *arguments, **options):
        if str(path) == "d.csv":
            raise OSError(failure, os.strerror(failure), "d.csv")
        return opened(path, *arguments, **options)

    monkeypatch.setattr(io, "open", closed)
    monkeypatch.setattr(builtins, "open", closed)
    line = refused(capsys, ["fit", "d.csv", "-k", "2"])
    assert line == f"wolfmeans: d.csv cannot be read: {os.strerror(failure)}"


OUTPUTS = {
    "--labels": "l.csv",
    "--centers": "c.csv",
    "--model": "m.wolf",
    "--certificate": "c.json",
    "--page": "p.html",
}


@pytest.mark.parametrize("option", OUTPUTS)
@pytest.mark.parametrize("failure", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_disk_that_takes_no_more_is_one_line(inside, capsys, monkeypatch, option, failure):
    Path("d.csv").write_text(GOOD)

    class Full(io.RawIOBase):
        """Has no number that polars could write to by itself."""

        def writable(self):
            return True

        def write(self, data):
            raise OSError(failure, os.strerror(failure))

    def fdopen(descriptor, mode):
        os.close(descriptor)
        return io.BufferedWriter(Full())

    monkeypatch.setattr("wolfmeans.files.atomic.os.fdopen", fdopen)
    line = refused(capsys, ["fit", "d.csv", "-k", "2", "-q", option, OUTPUTS[option]])
    assert line == f"wolfmeans: {OUTPUTS[option]} cannot be written: {os.strerror(failure)}"


@pytest.mark.parametrize("option", OUTPUTS)
def test_a_folder_that_cannot_be_written_to_is_one_line(inside, capsys, monkeypatch, option):
    Path("d.csv").write_text(GOOD)
    command = ["fit", "d.csv", "-k", "2", "-q", option]
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
        line = refused(capsys, [*command, OUTPUTS[option]])
        assert f"{option}: {OUTPUTS[option]} cannot be written: Permission denied" in line
    # Where nobody could tell before.
    with monkeypatch.context() as patch:

        def closed(*_, **__):
            raise PermissionError(errno.EACCES, "Permission denied")

        patch.setattr("wolfmeans.files.atomic.tempfile.mkstemp", closed)
        line = refused(capsys, [*command, OUTPUTS[option]])
        assert line == f"wolfmeans: {OUTPUTS[option]} cannot be written: Permission denied"
    assert f"{option}: no such folder: no" in refused(capsys, [*command, "no/l.csv"])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
@pytest.mark.parametrize(
    "arguments",
    [["predict", "m.wolf", "d.csv", "--labels"], ["scan", "d.csv", "-k", "2", "--csv"],
     ["certify", "d.csv", "l.csv", "--certificate"]],
)  # fmt: skip
def test_a_full_device_is_one_line(inside, capsys, arguments):
    Path("d.csv").write_text(GOOD)
    Path("l.csv").write_text("label\n" + "0\n1\n" * 10)
    wolfmeans.KMeans(2, random_state=0).fit(np.arange(8.0).reshape(4, 2)).save("m.wolf")
    line = refused(capsys, [*arguments, "/dev/full", "-q"])
    assert line == "wolfmeans: /dev/full cannot be written: No space left on device"


def test_a_model_that_is_none_is_one_line(inside, capsys):
    Path("d.csv").write_text(GOOD)
    Path("m.wolf").write_bytes(pickle.dumps(Trap()))
    assert "is not a wolfmeans model" in refused(capsys, ["predict", "m.wolf", "d.csv"])
    wolfmeans.KMeans(2, random_state=0).fit(np.arange(8.0).reshape(4, 2)).save("m.wolf")
    Path("m.wolf").write_bytes(Path("m.wolf").read_bytes()[:300])
    assert "is not a wolfmeans model" in refused(capsys, ["predict", "m.wolf", "d.csv"])
    assert "no such model file: absent.wolf" in refused(capsys, ["predict", "absent.wolf", "d.csv"])
