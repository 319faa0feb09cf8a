"""Tables from files: every format, several files, and one clear sentence for what is no table."""

import gzip
import io
import pathlib
import sys
import tempfile
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from wolfmeans.files import tables
from wolfmeans.files.text_tables import layout_of

ROWS = {"x": [1.0, 2.0, 3.5], "word": ["a", "b", "c"], "n": [4, 5, 6]}


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def refusal(path, kind=None):
    with pytest.raises((ValueError, OSError)) as caught:
        table = tables.read([str(path)], kind)
        table.finite_numbers([name for name in table.names if table.is_numeric(name)])
    return str(caught.value)


# --- What is read ----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".arrow", ".feather"])
def test_every_format_has_the_same_columns(tmp_path, suffix):
    frame, path = pl.DataFrame(ROWS), tmp_path / f"t{suffix}"
    if suffix in (".csv", ".tsv"):
        frame.write_csv(path, separator="\t" if suffix == ".tsv" else ",")
    elif suffix == ".parquet":
        frame.write_parquet(path)
    else:
        frame.write_ipc(path)
    table = tables.read([str(path)])
    assert table.names == ("x", "word", "n")
    assert [table.is_numeric(name) for name in table.names] == [True, False, True]
    found = table.finite_numbers(["n", "x"])
    np.testing.assert_array_equal(found, [[4, 1], [5, 2], [6, 3.5]])
    assert found.flags.c_contiguous
    assert found.dtype == np.float64


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,2\n3,4.5\n", [[1, 2], [3, 4.5]]),
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("a;b\n1;2\n", [[1, 2]]),
        ("\ufeffa,b\n1,2\n", [[1, 2]]),
        ("a, b\n1, 2\n3, 4\n", [[1, 2], [3, 4]]),
        ('"a, b",c\n1,2\n', [[1, 2]]),
        ("a\r\n1\r\n2\r\n", [[1], [2]]),
        ("a,a,\n1,2,3\n", [[1, 2, 3]]),
        ("\n\na,b\n1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("\ufeff\n \r\na,b\n1,2\n", [[1, 2]]),
        ("a,b\r1,2\r3,4\r", [[1, 2], [3, 4]]),
        ('"a\nz",b\n1,2\n3,4\n', [[1, 2], [3, 4]]),
        ("a\x0cz,b\n1,2\n", [[1, 2]]),
        ("a\u2028z,b\n1,2\n", [[1, 2]]),
        ('"a;b;c",d\n1,2\n', [[1, 2]]),
        (",0,1\n0,5,6\n1,7,8\n", [[0, 5, 6], [1, 7, 8]]),
        ("a;b\n1,5;2\n-,5;+2,5e1\n", [[1.5, 2], [-0.5, 25]]),
        ("1,5;2,5\n3,5;4,5\n", [[1.5, 2.5], [3.5, 4.5]]),
        ("1,5;2,5;3\n3,5; 4,5;1\n", [[1.5, 2.5, 3], [3.5, 4.5, 1]]),
        ("1,5\t2\n3\t4,5\n", [[1.5, 2], [3, 4.5]]),
        (f"{','.join('n' * 50 + str(j) for j in range(2000))}\n{'1,' * 1999}1\n", [[1] * 2000]),
    ],
    ids=range(21),
)
def test_csv_in_its_dialects(tmp_path, text, expected):
    table = tables.read([write(tmp_path / "t.csv", text)])
    assert len(set(table.names)) == len(expected[0])
    np.testing.assert_array_equal(table.finite_numbers(table.names), expected)


@pytest.mark.parametrize("first", ["1,,3", "1,NA,3", ",,", "1,?,"])
def test_a_gap_in_the_first_row_makes_it_no_line_of_names(tmp_path, first):
    table = tables.read([write(tmp_path / "t.csv", f"{first}\n4,5,6\n7,8,9\n")])
    assert table.names == ("0", "1", "2")
    assert table.n_rows == 3
    table.read_marks()
    assert table.numbers_or_missing(["2"])[1:, 0].tolist() == [6, 9]


@pytest.mark.parametrize("rows", ["north,5,6\nsouth,7,8\n", "0,5,6\n1,7,8\n", "1,5,6\n2,7,8\n"])
def test_an_empty_corner_above_the_names_of_rows_is_no_gap(tmp_path, rows):
    table = tables.read([write(tmp_path / "t.csv", f",2019,2020\n{rows}")])
    assert table.names == ("0", "2019", "2020")
    np.testing.assert_array_equal(table.finite_numbers(["2019", "2020"]), [[5, 6], [7, 8]])
    table = tables.read([write(tmp_path / "t.csv", ",2019,2020\n4.5,5,6\n2.5,7,8\n")])
    assert table.n_rows == 3


def test_a_missing_first_entry_alone_in_its_line_keeps_its_row(tmp_path):
    assert tables.read([write(tmp_path / "t.csv", "\n1\n2\n")]).n_rows == 3
    assert tables.read([write(tmp_path / "t.csv", "\nlabel\n1\n2\n")]).n_rows == 2


def test_decimal_commas_are_read_and_said(tmp_path):
    table = tables.read([write(tmp_path / "t.csv", "a;b\n1,5;2\nNA;3\n" + "2,5;4\n" * 60)])
    assert "a comma in a number is read as a decimal point" in table.remarks[0]
    table.read_marks()
    assert table.numbers_or_missing(["a"])[[0, 2], 0].tolist() == [1.5, 2.5]
    both = write(tmp_path / "both.csv", "a;b\n" + "1,5;2\n" * 60 + "2,5;1.234\n")
    assert "column 'b' has 1.234, and other numbers have a decimal comma" in refusal(both)
    assert tables.read([write(tmp_path / "t.csv", "a,b\n1,2\n")]).remarks == ()


def test_digits_of_other_scripts_are_words(tmp_path):
    table = tables.read([write(tmp_path / "t.csv", "a,b\n\u0661,1\n\u0662,2\n")])
    assert table.word_in("a") == (0, "\u0661", 0.0)
    assert table.finite_numbers(["b"])[:, 0].tolist() == [1, 2]


def test_names_of_numbers_tell_all_of_them_apart(tmp_path):
    text = "big,part,whole\n1e19,0.5,3\n2e19,-1,3.0\n3e19,,-1\n"
    table = tables.read([write(tmp_path / "t.csv", text)])
    assert len(set(table.names_of_numbers("big"))) == 3
    assert table.names_of_numbers("part").tolist() == ["0.5", "-1", ""]
    assert table.names_of_numbers("whole").tolist() == ["3", "3", "-1"]


def test_names_of_integers_are_exact(tmp_path):
    pl.DataFrame({"n": [2**60, 2**60 + 1, None]}).write_parquet(tmp_path / "t.parquet")
    found = tables.read([str(tmp_path / "t.parquet")]).names_of_numbers("n").tolist()
    assert found == [str(2**60), str(2**60 + 1), ""]
    np.save(tmp_path / "t.npy", np.array([2**63, 2**63 + 1], dtype=np.uint64))
    assert len(set(tables.read([str(tmp_path / "t.npy")]).names_of_numbers("0"))) == 2


def test_an_arrow_stream_is_read(tmp_path):
    pl.DataFrame(ROWS).write_ipc_stream(tmp_path / "t.arrow")
    table = tables.read([str(tmp_path / "t.arrow")])
    assert table.finite_numbers(["x"])[:, 0].tolist() == ROWS["x"]


def test_a_late_fraction_does_not_surprise(tmp_path):
    text = "a,b\n" + "1,2\n" * 3000 + "1.5,2\n"
    table = tables.read([write(tmp_path / "t.csv", text)])
    assert table.finite_numbers(["a", "b"])[-1].tolist() == [1.5, 2]


def test_an_npy_file_stays_on_disk(tmp_path):
    X = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "t.npy", X)
    found = tables.read([str(tmp_path / "t.npy")]).finite_numbers(["0", "1", "2"])
    np.testing.assert_array_equal(found, X)
    assert type(found) is np.ndarray
    base = found
    while not isinstance(base, np.memmap):
        base = base.base
        assert base is not None, "the data was copied"
    np.save(tmp_path / "s.npy", X.astype(np.float32))
    assert tables.read([str(tmp_path / "s.npy")]).finite_numbers(["0"]).dtype == np.float32


def test_files_and_patterns_are_put_below_each_other(tmp_path):
    write(tmp_path / "part1.csv", "a,b\n1,2\n")
    write(tmp_path / "part2.csv", "b,a\n2.5,3\n4,5\n")
    table = tables.read([str(tmp_path / "part*.csv")])
    np.testing.assert_array_equal(table.finite_numbers(["a", "b"]), [[1, 2], [3, 2.5], [5, 4]])
    assert table.place(2) == f"{tmp_path / 'part2.csv'}: row 2"
    write(tmp_path / "part3.csv", "a,c\n1,2\n")
    assert "part3.csv has no column 'b'" in refusal(tmp_path / "part*.csv")
    assert "no file matches" in refusal(tmp_path / "nothing*.csv")


def zstd(text):
    """Pack text as polars does."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "t.csv.zst"
        lines = pl.DataFrame({"": text.splitlines()}).lazy()
        lines.sink_csv(path, compression="zstd", include_header=False, quote_style="never")
        return path.read_bytes()


@pytest.mark.parametrize("name", ["t.csv.gz", "t.CSV.GZ", "t.tsv.gz", "t.csv.zst", "t.txt.zst"])
def test_compressed_text_is_read(tmp_path, name):
    text = "a,b\n1,2\n3,4.5\n".replace(",", "\t" if "tsv" in name else ",")
    packed = zstd(text) if name.endswith("zst") else gzip.compress(text.encode())
    table = tables.read([write(tmp_path / name, packed)])
    assert table.names == ("a", "b")
    np.testing.assert_array_equal(table.finite_numbers(["a", "b"]), [[1, 2], [3, 4.5]])


def test_gzip_is_read(tmp_path):
    path = write(tmp_path / "t.csv.gz", gzip.compress(b"a,b\n1,2\n3,4\n"))
    np.testing.assert_array_equal(tables.read([path]).finite_numbers(["b"]), [[2], [4]])


def test_compressed_standard_input_is_recognized(monkeypatch):
    for content in (gzip.compress(b"a\n1\n2\n"), zstd("a\n1\n2\n")):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        assert tables.read(["-"]).finite_numbers(["a"])[:, 0].tolist() == [1, 2]


def test_compressed_text_with_a_fault_is_refused_with_the_line(tmp_path):
    packed = gzip.compress(b"a,b\n1,2\n3,4,5\n")
    assert "line 3 has 3 fields" in refusal(write(tmp_path / "t.csv.gz", packed))


@pytest.mark.parametrize("packing", ["gz", "zst"])
def test_torn_and_misnamed_compressed_files_are_refused(tmp_path, packing):
    text = "a,b\n" + "".join(f"{i},{i * i}\n" for i in range(5000))
    packed = zstd(text) if packing == "zst" else gzip.compress(text.encode())
    torn = refusal(write(tmp_path / f"torn.csv.{packing}", packed[: len(packed) // 2]))
    assert "is damaged" in torn or "cannot be read" in torn
    plain = refusal(write(tmp_path / f"plain.csv.{packing}", "a,b\n1,2\n"))
    assert "is not compressed by" in plain
    named = refusal(write(tmp_path / "packed.csv", packed))
    assert f"rename it to {tmp_path / 'packed.csv'}.{packing}" in named
    assert "set the format with --format" in refusal(write(tmp_path / f"x.parquet.{packing}", "x"))


def test_marks_of_missing_values_are_read_as_such_where_asked(tmp_path):
    path = write(tmp_path / "t.csv", "a,b,word\n1,NA,x\n2,?,y\n 3 ,4,NA\n")
    table = tables.read([path])
    assert not table.is_numeric("b")
    table.read_marks()
    assert [table.is_numeric(name) for name in table.names] == [True, True, False]
    np.testing.assert_array_equal(
        table.numbers_or_missing(["b", "a"]), [[np.nan, 1], [np.nan, 2], [4, 3]]
    )


def test_a_missing_entry_alone_in_its_line_keeps_its_row(tmp_path):
    for blank in ("", '""'):
        table = tables.read([write(tmp_path / "t.csv", f"label\n1\n{blank}\n2\n")])
        assert table.n_rows == 3


def test_standard_input_is_recognized(monkeypatch):
    buffer = io.BytesIO()
    pl.DataFrame(ROWS).write_parquet(buffer)
    for content in (buffer.getvalue(), b"x,word,n\n1,a,4\n2,b,5\n3.5,c,6\n"):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        table = tables.read(["-"])
        assert table.finite_numbers(["x"])[:, 0].tolist() == ROWS["x"]
        assert table.source == "standard input"


# --- What is not -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (" \n \n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"\xef\xbb\xbf\n\n", "is empty"),
        ('"a,b\n1,2\n', "has no rows"),
        ('"a,b\n' + "1,2\n" * 50_000, "is a quote open?"),
        ("a,b\n", "has no rows"),
        ("a,b\n1,2\n3,4,5\n6,7\n", "line 3 has 3 fields, but the first line has 2"),
        ("a,b\n1,\n3,4\n", "row 1, column 'b' is missing"),
        ("a,b\n1,2\n3,inf\n", "row 2, column 'b' is infinite"),
        ("a,b\n1,2\nnan,4\n", "row 2, column 'a' is missing"),
        (b"a,b\n1,2\n\x00\x01\x02", "is not text"),
        (b"\xff\x81\xf0\x9f", "not text in UTF-8"),
        (b"\x1f\x8b\x08\x00\x00", "compressed by gzip; rename it to"),
        (b"PK\x03\x04\x14\x00", "a zip or a spreadsheet"),
    ],
)
def test_a_bad_csv_file_is_refused_with_the_place(tmp_path, text, said):
    assert said in refusal(write(tmp_path / "bad.csv", text))


def test_short_rows_are_refused_too(tmp_path):
    said = refusal(write(tmp_path / "bad.csv", "a,b\n1,2\n3\n"))
    assert "line 3" in said or "row 2, column 'b' is missing" in said


@pytest.mark.parametrize("kind", ["parquet", "arrow", "npy"])
def test_garbage_and_torn_files_are_refused(tmp_path, kind):
    garbage = write(tmp_path / f"bad.{kind}", bytes(range(200)))
    assert f"not {kind}" in refusal(garbage)
    magic = {"parquet": b"PAR1", "arrow": b"ARROW1\0\0", "npy": b"\x93NUMPY\x01\x00"}[kind]
    assert "is damaged" in refusal(write(tmp_path / f"torn.{kind}", magic + bytes(50)))


def test_a_wrong_ending_is_said(tmp_path):
    pl.DataFrame(ROWS).write_parquet(tmp_path / "t.csv")
    assert "is a file of format parquet, not csv" in refusal(tmp_path / "t.csv")
    assert tables.read([str(tmp_path / "t.csv")], "parquet").n_rows == 3
    assert "set the format with --format" in refusal(write(tmp_path / "t.xlsx", "a\n1\n"))
    assert tables.read([str(tmp_path / "t.xlsx")], "csv").n_rows == 1
    assert "not parquet" in refusal(write(tmp_path / "t.parquet", "a,b\n1,2\n"))


def test_what_is_no_file_is_said(tmp_path):
    assert "is a folder" in refusal(tmp_path)
    assert "no such file: " in refusal(tmp_path / "absent.csv")


def test_npy_files_hold_tables_of_numbers(tmp_path):
    np.save(tmp_path / "cube.npy", np.zeros((2, 2, 2)))
    assert "3 axes" in refusal(tmp_path / "cube.npy")
    np.save(tmp_path / "words.npy", np.array([["a", "b"]]))
    assert "table of numbers" in refusal(tmp_path / "words.npy")
    np.save(tmp_path / "none.npy", np.zeros((0, 3)))
    assert "has no rows" in refusal(tmp_path / "none.npy")
    np.save(tmp_path / "objects.npy", np.array([[1, {}]], dtype=object), allow_pickle=True)
    assert "Python objects in it, which are never loaded" in refusal(tmp_path / "objects.npy")


def test_large_identifiers_are_not_rounded_silently(tmp_path):
    path = write(tmp_path / "t.csv", f"id\n{2**53 + 1}\n1\n")
    assert "beyond 2**53" in refusal(path)
    np.save(tmp_path / "t.npy", np.array([[2**53 + 1], [1]]))
    assert "beyond 2**53" in refusal(tmp_path / "t.npy")


def test_without_polars_the_error_says_what_to_install(tmp_path, monkeypatch):
    pl.DataFrame(ROWS).write_parquet(tmp_path / "t.parquet")
    pl.DataFrame(ROWS).write_csv(tmp_path / "t.csv")
    np.save(tmp_path / "t.npy", np.ones((2, 3)))
    monkeypatch.setitem(sys.modules, "polars", None)
    for name in ("t.parquet", "t.csv"):
        with pytest.raises(ImportError, match=r"pip install 'wolfmeans\[cli\]'"):
            tables.read([str(tmp_path / name)])
    assert tables.read([str(tmp_path / "t.npy")]).finite_numbers(["0", "2"]).shape == (2, 2)


def test_files_of_two_formats_are_put_below_each_other(tmp_path):
    for dtype in (np.float16, np.int32, ">i8", ">f4", bool):
        np.save(tmp_path / "t.npy", np.array([[1, 0], [1, 1]], dtype=dtype))
        text = write(tmp_path / "t.csv", "5,6.5\n7,8\n")
        table = tables.read([str(tmp_path / "t.npy"), text])
        assert table.finite_numbers(["1", "0"]).tolist() == [[0, 1], [1, 1], [6.5, 5], [8, 7]]
        assert table.place(3) == f"{text}: row 2"
    words = write(tmp_path / "t.csv", "7,8\nx,6.5\n")
    table = tables.read([words, str(tmp_path / "t.npy")])
    assert table.word_in("0") == (1, "x", 0.75)
    assert table.finite_numbers(["1"]).ravel().tolist() == [8, 6.5, 0, 1]


def test_the_layout_of_text():
    assert layout_of(io.BytesIO(b"a|b\n1|2\n"), "t").separator == "|"
    assert layout_of(io.BytesIO(b"1,2\n"), "t").named is False
    assert layout_of(io.BytesIO(b"x,x,\n"), "t").names == ("x", "x_2", "2")
    assert layout_of(io.BytesIO(b"a b,c\n"), "t", "\t").names == ("a b,c",)
