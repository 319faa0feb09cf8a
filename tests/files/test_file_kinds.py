"""Every kind of file that is read gives back the table that was written."""

import bz2
import gzip
import io
import json
import lzma
import sys
import zipfile

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from wolfmeans.commands.points import choose
from wolfmeans.files.columns import FrameTable, Part
from wolfmeans.files.tables import read

FRAME = pl.DataFrame(
    {"x": [1.5, -2.25, 3e-7, 1e10], "y": [4.0, 5.5, 6.0, -0.5], "n": [12, 1500, 7, 1234567]}
)
TEXT = FRAME.write_csv().encode()
LINES = "".join(json.dumps(row) + "\n" for row in FRAME.iter_rows(named=True)).encode()


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def zipped(**members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)
    return file.getvalue()


def spaced():
    rows = [FRAME.columns, *FRAME.rows()]
    return "\n".join("  ".join(f"{value!s:>12}" for value in row) for row in rows).encode()


COMMENTED = b"# made by hand\n" + TEXT.replace(b"\n", b"\n# between the rows, and longer\n", 1)
KINDS = {
    "t.csv": TEXT,
    "t.csv.gz": gzip.compress(TEXT),
    "t.csv.bz2": bz2.compress(TEXT),
    "t.csv.xz": lzma.compress(TEXT),
    "t.csv.zip": zipped(any_name=TEXT),
    "t.zip": zipped(inside__csv=TEXT),
    "t.tsv.bz2": bz2.compress(TEXT.replace(b",", b"\t")),
    "t.jsonl": LINES,
    "t.ndjson": LINES,
    "t.jsonl.gz": gzip.compress(LINES),
    "t.jsonl.xz": lzma.compress(LINES),
    "columns.npz": npz(**{name: FRAME[name].to_numpy() for name in FRAME.columns}),
    "utf16.csv": TEXT.decode().encode("utf-16"),
    "utf8-with-mark.csv": TEXT.decode().encode("utf-8-sig"),
    "comments.csv": COMMENTED,
    "numpy-savetxt.txt": b"# x y n\n" + b"\n".join(spaced().split(b"\n")[1:]),
    "blanks.txt": spaced(),
    "blanks-and-comments.txt": b"# one\n" + spaced() + b"\n# the end\n",
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_file_round_trips(name, tmp_path):
    (tmp_path / name).write_bytes(KINDS[name])
    table = read([str(tmp_path / name)])
    assert table.names == tuple(FRAME.columns)
    assert (table.numbers(table.names) == FRAME.to_numpy()).all()


@pytest.mark.parametrize("name", [name for name in KINDS if name != "t.csv.zip"])
def test_standard_input_is_recognized_by_its_content(name, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(KINDS[name])))
    kind = "jsonl" if "json" in name else None
    assert (read(["-"], kind).numbers(FRAME.columns) == FRAME.to_numpy()).all()


def test_one_table_in_an_npz_file(tmp_path):
    matrix = FRAME.to_numpy()
    for arrays in ({"X": matrix}, {"X": matrix, "y": np.arange(4)}, {"a": matrix, "t": ["a", "b"]}):
        (tmp_path / "a.npz").write_bytes(npz(**arrays))
        table = read([str(tmp_path / "a.npz")])
        assert (table.numbers(table.names) == matrix).all()


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.npz", npz(a=np.ones((2, 2)), b=np.ones((3, 2))), r"must have one table .*a \(2, 2\)"),
        ("a.npz", npz(a=np.ones(2), b=np.ones(3)), "columns of equal length"),
        ("a.npz", npz(a=np.array([None])), "Python objects"),
        ("a.npz", b"PK\x03\x04broken", "damaged, or not NPZ"),
        ("a.zip", zipped(a__csv=TEXT, b__csv=TEXT), "has 2 files in it .a.csv, b.csv."),
        ("a.zip", zipped(a__exe=b"MZ"), "has a.exe in it, whose extension is none of"),
        ("a.zip", b"PK\x03\x04broken", "is damaged"),
        ("a.csv.bz2", bz2.compress(TEXT)[:-9], "is damaged"),
        ("a.csv.xz", lzma.compress(TEXT)[:-9], "is damaged"),
        ("a.csv.xz", TEXT, "extension is none of"),
        ("a.jsonl", b'{"x": 1}\n{"x": \n', "not JSON lines: line 2"),
        ("a.jsonl", b"[1, 2]\n", "line 1 is not an object"),
        ("a.csv", "naïve,y\n1,2\n".encode("latin-1") + b"\x81\n", "not text in UTF-8"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_reason(name, content, says, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=says):
        read([str(tmp_path / name)])


def test_a_sparse_matrix_is_refused_with_advice(tmp_path):
    sparse.save_npz(tmp_path / "s.npz", sparse.csr_array(np.eye(3)))
    with pytest.raises(ValueError, match=r"scipy\.sparse\.load_npz"):
        read([str(tmp_path / "s.npz")])


def test_windows_text_is_read_with_a_remark(tmp_path):
    (tmp_path / "t.csv").write_bytes("größe,naïve\n1.5,2\n".encode("windows-1252"))
    table = read([str(tmp_path / "t.csv")])
    assert table.names == ("größe", "naïve") and "Windows-1252" in table.remarks[0]


def test_missing_names_in_json_lines_are_missing_values(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"x": 1, "y": 2.5}\n{"y": 3}\n')
    table = read([str(tmp_path / "t.jsonl")])
    np.testing.assert_array_equal(table.numbers_or_missing(["x", "y"]), [[1, 2.5], [np.nan, 3]])


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('x,y\n"1,234,567",2\n"8,900",3\n', [1234567, 8900]),
        ("x;y\n1,234,567.5;2\n8,900;3\n", [1234567.5, 8900]),
        ("x;y\n1.234,5;2\n8.900,25;3\n", [1234.5, 8900.25]),
        ("x;y\n1'234'567;2\n8;3\n", [1234567, 8]),
        ("x;y\n1 234;2\n-8 900;3\n", [1234, -8900]),
    ],
)
def test_groups_of_digits_are_numbers(text, values, tmp_path):
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    table = read([str(tmp_path / "t.csv")])
    assert table.numbers(["x", "y"]).tolist() == [[values[0], 2.0], [values[1], 3.0]]
    assert any("groups of three digits" in r or "decimal point" in r for r in table.remarks)


@pytest.mark.parametrize("text", ['x,y\n"1,2345",2\n', 'x,y\n"12,34,567",2\n', 'x,y\n"a,b",2\n'])
def test_other_commas_are_no_groups(text, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    assert not read([str(tmp_path / "t.csv")]).is_numeric("x")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("#id,x\na,1\nb,2\n", ("id", "x")),
        ("# note\nid,x\na,1\n", ("id", "x")),
        ("# a, b\n1,2\n3,4\n", ("a", "b")),
        ("#1,2\n3,4\n5,6\n", ("0", "1")),
        ("first second\nthird fourth\n", ("first second",)),
    ],
)
def test_comments_and_names(text, names, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    assert read([str(tmp_path / "t.csv")]).names == names


# --- Row numbers -----------------------------------------------------------------------------


def numbered(name, first=1):
    rng = np.random.default_rng(0)
    rows = (f"{first + i},{x:.3f},{y:.3f}" for i, (x, y) in enumerate(rng.normal(size=(20, 2))))
    return "\n".join([f"{name},x,y", *rows]) + "\n"


@pytest.mark.parametrize("name", ["", "id", "Index", "Unnamed: 0"])
@pytest.mark.parametrize("first", [0, 1])
def test_row_numbers_are_left_out(name, first):
    frame = pl.read_csv(numbered(name or "0", first).encode())
    points = choose(FrameTable(frame, [Part("d.csv", 20)]))
    assert points.names == ("x", "y") and "numbers the rows" in points.remarks[-1]
    asked = choose(FrameTable(frame, [Part("d.csv", 20)]), columns=[frame.columns[0], "x"])
    assert asked.names == (frame.columns[0], "x")


def test_other_columns_that_count_are_remarked_on():
    frame = pl.read_csv(numbered("hour").encode())
    points = choose(FrameTable(frame, [Part("d.csv", 20)]))
    assert points.names == ("hour", "x", "y") and "counts the rows" in points.remarks[-1]
    alone = frame.select(pl.col("hour").alias("id"))
    assert choose(FrameTable(alone, [Part("d.csv", 20)])).names == ("id",)
    shuffled = frame.sample(20, shuffle=True, seed=1).rename({"hour": "id"})
    assert choose(FrameTable(shuffled, [Part("d.csv", 20)])).names == ("id", "x", "y")
