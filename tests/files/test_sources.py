"""Sources give the rows that are there, in chunks, as often as asked, and say what is wrong."""

import io
import subprocess
import sys
import threading
import time
import tracemalloc
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wolfmeans
from wolfmeans.commands.points import choose
from wolfmeans.core.byte_sizes import parse_bytes, said
from wolfmeans.files import tables
from wolfmeans.files.arrays import SlicedSource
from wolfmeans.files.read_ahead import reading_ahead
from wolfmeans.files.source import Buffers, Source
from wolfmeans.inputs.memory_budget import Budget, bytes_of
from wolfmeans.inputs.opening import open_source

pa = pytest.importorskip("pyarrow")
pl = pytest.importorskip("polars")
pq = pytest.importorskip("pyarrow.parquet")
feather = pytest.importorskip("pyarrow.feather")

N, D = 1003, 5
X = np.random.default_rng(8).normal(size=(N, D)) * np.array([1e-3, 1, 1, 50, 1e8])
NAMES = list("abcde")


def frame_of(array):
    return pl.DataFrame({name: array[:, j] for j, name in enumerate(NAMES)})


def read(source, rows, ahead=1):
    """All rows of a source, with its chunks checked on the way."""
    found, expected = [], 0
    for first, chunk in source.chunks(rows, ahead=ahead):
        assert first == expected
        assert chunk.flags.c_contiguous
        assert chunk.dtype == source.dtype
        assert chunk.shape[1] == source.n_columns
        found.append(chunk)
        expected += len(chunk)
    assert [len(chunk) for chunk in found[:-1]] == [rows] * (len(found) - 1)
    assert 0 < len(found[-1]) <= rows
    return np.concatenate(found)


def assert_same(source, expected):
    assert source.n_columns == expected.shape[1]
    assert source.dtype == expected.dtype
    for rows, ahead in ((40, 1), (100, 0), (334, 3), (N, 1), (10 * N, 1)):
        found = read(source, rows, ahead)
        assert found.shape == expected.shape
        assert (found == expected).all()
    assert source.n_rows == len(expected)
    magnitudes = np.abs(expected)
    assert source.sizes == (magnitudes[magnitudes > 0].min(), magnitudes.max())
    assert not reading_threads()


def reading_threads():
    return [thread for thread in threading.enumerate() if "reading ahead" in thread.name]


# --- Every kind against the array in memory --------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["<f8", "<f4", ">f8", ">f4", "<f2", "i1", "<i4", ">i8", "u8", "?", "longdouble"]
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_of_every_kind(tmp_path, dtype, order):
    array = np.asarray(np.clip(X, -100, 100).clip(0 if dtype in ("u8", "?") else -100)).astype(
        dtype
    )
    np.save(tmp_path / "x.npy", np.array(array, order=order))
    expected = tables.read([str(tmp_path / "x.npy")]).numbers([str(j) for j in range(D)])
    assert_same(open_source(tmp_path / "x.npy"), expected)


def test_parts_of_npy_in_folders_patterns_and_lists(tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, part in enumerate(np.split(X, [10, 11, 500])):
        np.save(folder / f"{number}.npy", part)
    (folder / ".hidden.npy").write_bytes(b"")
    (folder / "_SUCCESS").write_bytes(b"")
    (folder / "notes.md").write_text("not data")
    for given_ in (folder, str(folder / "*.npy"), sorted(folder.glob("[0-9].npy"))):
        assert_same(open_source(given_), X)
    (folder / "deeper").mkdir()
    np.save(folder / "deeper" / "9.npy", X[:3].astype(np.float32))
    source = open_source(folder)
    assert_same(source, np.concatenate([X, X[:3].astype(np.float32)]))
    assert [part.n_rows for part in source.parts] == [10, 1, 489, 503, 3]


def test_a_column_in_an_npy_file(tmp_path):
    np.save(tmp_path / "x.npy", X[:, 0].copy())
    assert_same(open_source(tmp_path / "x.npy"), X[:, :1])


@pytest.mark.parametrize("kind", ["parquet", "arrow", "feather", "lz4", "stream"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
def test_columnar_files(tmp_path, kind, dtype):
    array = np.clip(X, -100, 100).clip(0 if dtype == np.uint8 else -100).astype(dtype)
    frame, path = frame_of(array), tmp_path / f"x.{'arrow' if kind in ('lz4', 'stream') else kind}"
    if kind == "parquet":
        frame.write_parquet(path, row_group_size=150)
    elif kind == "stream":
        frame.write_ipc_stream(path)
    elif kind == "arrow":
        feather.write_feather(frame.to_arrow(), path, compression="uncompressed", chunksize=70)
    else:
        feather.write_feather(frame.to_arrow(), path, compression="lz4", chunksize=300)
    expected = tables.read([str(path)]).numbers(NAMES)
    source = open_source(path)
    assert source.names == tuple(NAMES)
    assert_same(source, expected)


def test_large_batches_of_arrow_files_are_mapped(tmp_path, monkeypatch):
    monkeypatch.setattr("wolfmeans.files.columnar._LARGE", 1000)
    frame_of(X).write_ipc(tmp_path / "x.arrow")
    assert_same(open_source(tmp_path / "x.arrow"), X)


def test_columns_of_tables_follow_the_rules_of_tables_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "word": [f"w{j}" for j in range(300)],
            "single": rng.normal(size=300).astype(np.float32),
            "whole": rng.integers(-5, 5, size=300).astype(np.int16),
            "truth": rng.random(300) < 0.5,
            "price": [Decimal(int(v)) / 1000 for v in rng.integers(0, 10**9, size=300)],
            "day": pl.Series(rng.integers(0, 9, size=300)).cast(pl.Date),
            "nothing": [None] * 300,
        }
    )
    frame[:200].write_parquet(tmp_path / "a.parquet")
    frame[200:].select(frame.columns[::-1]).write_parquet(tmp_path / "b.parquet")
    pattern = str(tmp_path / "*.parquet")
    points = choose(tables.read([pattern]))
    source = open_source(pattern)
    assert source.names == points.names == ("single", "whole", "price")
    assert_same(source, points.data)
    assert "word, truth, day, nothing" in source.remarks[0]
    only = open_source(pattern, columns=["single"])
    assert_same(only, choose(tables.read([pattern]), columns=["single"]).data)
    assert only.dtype == np.float32
    assert_same(open_source(pattern, columns=["whole", "single"]), points.data[:, [1, 0]])
    assert open_source(pattern, exclude=["price"]).names == ("single", "whole")


@pytest.mark.parametrize(
    ("one", "other"), [(np.float32, np.float64), (np.float32, np.int8), (np.int32, np.float32)]
)
def test_files_of_different_precision(tmp_path, one, other):
    for kind in ("npy", "parquet"):
        for name, array in (
            ("a", (9 * X[:9]).clip(-9, 9).astype(one)),
            ("b", np.ones((4, D), other)),
        ):
            if kind == "npy":
                np.save(tmp_path / f"{name}.npy", array)
            else:
                frame_of(array).write_parquet(tmp_path / f"{name}.parquet")
        pattern = str(tmp_path / f"*.{kind}")
        assert_same(open_source(pattern), choose(tables.read([pattern])).data)


def test_zarr(tmp_path):
    zarr = pytest.importorskip("zarr")
    for name, chunks in (("a", (100, 2)), ("b", (2000, 5)), ("c", (7, 5))):
        stored = zarr.create_array(
            tmp_path / f"{name}.zarr", shape=X.shape, dtype="f4", chunks=chunks
        )
        stored[:] = X
        assert_same(open_source(tmp_path / f"{name}.zarr"), X.astype(np.float32))
        assert_same(open_source(stored), X.astype(np.float32))
    group = zarr.open_group(tmp_path / "g.zarr", mode="w")
    group.create_array("inner", shape=(3, 2), dtype="f8")
    with pytest.raises(ValueError, match="group of arrays: inner"):
        open_source(tmp_path / "g.zarr")


def test_zarr_that_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / "zarr.json").write_text("{}")
    with pytest.raises(ImportError, match="pip install zarr"):
        open_source(tmp_path / "x.zarr")


def test_pyarrow_that_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    frame_of(X).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(ImportError, match=r"wolfmeans\[stream\]"):
        open_source(tmp_path / "x.parquet")


def test_arrays_are_not_copied():
    source = open_source(X)
    assert_same(source, X)
    assert all(np.shares_memory(chunk.rows, X) for chunk in source.chunks(100))
    assert open_source(source) is source


@pytest.mark.parametrize(
    "made", [np.asfortranarray, lambda x: x[::-1, ::2], lambda x: x.astype("<f2")]
)
def test_other_arrays_are_converted(made):
    array = made(X[:, :4])
    expected = np.float32 if array.dtype == np.float16 else np.float64
    assert_same(open_source(array), np.ascontiguousarray(array, dtype=expected))


def test_mapped_arrays_tensors_and_frames(tmp_path):
    np.save(tmp_path / "x.npy", X)
    assert_same(open_source(np.load(tmp_path / "x.npy", mmap_mode="r")), X)
    assert_same(open_source(frame_of(X)), X)
    assert open_source(frame_of(X)).names == tuple(NAMES)
    torch = pytest.importorskip("torch")
    assert_same(open_source(torch.from_numpy(X)), X)
    half = torch.from_numpy(X[:, :4]).to(torch.bfloat16)
    assert_same(open_source(half), half.float().numpy())


class Again:
    """Gives arrays each time it is iterated."""

    def __init__(self, arrays):
        self.arrays = arrays

    def __iter__(self):
        yield from self.arrays


def test_iterables_of_every_kind():
    pieces = [X[:0], X[:400], X[400:401], X[401:401], X[401:], X[:0]]
    generated = lambda: (piece for piece in pieces)  # noqa: E731
    for given_ in (pieces, tuple(pieces), Again(pieces), generated):
        source = open_source(given_)
        assert source.n_rows is None
        assert source.sizes is None
        assert_same(source, X)
    frames = open_source([frame_of(X[:400]), frame_of(X[400:])])
    assert frames.names == tuple(NAMES)
    assert_same(frames, X)
    assert_same(open_source([frame_of(X).to_arrow()]), X)
    assert_same(
        open_source([np.ones((2, 3), np.int8), X[:, :3]]), np.vstack([np.ones((2, 3)), X[:, :3]])
    )


def test_rows_by_number(tmp_path):
    for number, part in enumerate(np.split(X, [10, 11, 500])):
        np.save(tmp_path / f"{number}.npy", part)
    frame_of(X).write_parquet(tmp_path / "x.parquet")
    rows = [700, 3, 10, 3, N - 1, 499]
    for given_ in (X, np.asfortranarray(X), str(tmp_path / "*.npy"), tmp_path / "x.parquet", [X]):
        source = open_source(given_)
        assert (source.take(rows) == X[rows]).all()
        assert source.take([]).shape == (0, D)
        assert (source.whole() == X).all()
        with pytest.raises(IndexError):
            source.take([0, N])
        assert not reading_threads()


def test_names_with_points(tmp_path):
    frame = pl.DataFrame({"a": X[:, 0], "a.b": X[:, 1], "b": X[:, 2]})
    frame.write_parquet(tmp_path / "x.parquet")
    assert_same(open_source(tmp_path / "x.parquet"), X[:, :3])
    assert_same(open_source(tmp_path / "x.parquet", columns=["a.b", "a"]), X[:, [1, 0]])


@settings(max_examples=60)
@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=8).filter(any),
    rows=st.integers(1, 20),
    ahead=st.integers(0, 3),
    dtype=st.sampled_from([np.float64, np.float32, np.int32]),
)
def test_chunks_do_not_depend_on_pieces(lengths, rows, ahead, dtype):
    whole = np.arange(3 * sum(lengths)).reshape(-1, 3).astype(dtype)
    source = open_source(np.split(whole, np.cumsum(lengths)[:-1]))
    for _ in range(2):
        found = list(source.chunks(rows, ahead=ahead))
        assert [chunk.first for chunk in found] == list(range(0, len(whole), rows))
        assert (np.concatenate([chunk.rows for chunk in found]) == whole).all()


# --- What is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        (None, TypeError, "NoneType"),
        (7, TypeError, "not a file, array or tensor"),
        (b"abc", TypeError, "bytes"),
        ({"a": X}, TypeError, "dict"),
        (
            (piece for piece in [X]),
            TypeError,
            "generator can be used only once; pass something that can",
        ),
        (iter([X]), TypeError, "can be used only once"),
        (io.BytesIO(b"x"), TypeError, "pass its name"),
        (lambda: 5, TypeError, "returned an object of type int, not an iterator"),
        (list, ValueError, "no rows"),
        ([], ValueError, "no rows"),
        ([X[:0]], ValueError, "no rows"),
        ([1.0, 2.0], TypeError, "array 0 of the source is of type float"),
        ([[1.0, 2.0]], TypeError, "array 0 of the source is of type list"),
        ([X[0]], ValueError, "has 1 axes of float64"),
        ([X.astype(complex)], ValueError, "axes of complex128"),
        ([np.ones((3, 0))], ValueError, "no columns"),
        (X[:0], ValueError, "the array has no rows"),
        (X[:, :0], ValueError, "the array has no columns"),
        (X.astype(complex), ValueError, "table of numbers"),
        (np.ones((2, 2, 2)), ValueError, "3 axes"),
        (np.ma.masked_less(X, 0), ValueError, "masked"),
        ("nowhere.npy", FileNotFoundError, "no such file: nowhere.npy"),
        ("nowhere*.npy", FileNotFoundError, "no file matches"),
        ("s3://bucket/x.parquet", ValueError, "only files of this machine"),
        ("-", ValueError, "standard input can be read only once"),
    ],
)
def test_what_is_no_source(wrong, kind, message):
    with pytest.raises(kind, match=message):
        open_source(wrong)


def test_sparse_data_is_refused():
    from scipy import sparse

    with pytest.raises(TypeError, match="sparse"):
        open_source(sparse.csr_matrix(X))


def test_files_that_are_refused(tmp_path):
    def refused(match, name=None, kind=ValueError):
        with pytest.raises(kind, match=match):
            open_source(tmp_path if name is None else tmp_path / name)

    refused("has no file of", kind=FileNotFoundError)
    (tmp_path / "empty.npy").write_bytes(b"")
    refused("empty", "empty.npy")
    (tmp_path / "empty.parquet").write_bytes(b"")
    refused("empty.parquet", "empty.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing PAR1")
    refused("damaged, or not Parquet", "bad.parquet")
    (tmp_path / "bad.arrow").write_bytes(b"ARROW1 nothing")
    refused("damaged, or not Arrow", "bad.arrow")
    np.save(tmp_path / "none.npy", X[:0])
    refused("none.npy", "none.npy")
    frame_of(X[:0]).write_parquet(tmp_path / "none.parquet")
    refused("has no rows", "none.parquet")
    np.save(tmp_path / "objects.npy", np.array([{}, None]))
    refused("Python objects", "objects.npy")
    (tmp_path / "x.xlsx").write_bytes(b"PK")
    refused("its extension is none of", "x.xlsx")
    np.save(tmp_path / "wide.npy", X)
    np.save(tmp_path / "wide2.npy", X[:, :4])
    refused("wide2.npy has 4 columns, but .*wide.npy has 5", "wide*.npy")
    frame_of(X).write_parquet(tmp_path / "wide.parquet")
    frame_of(X).drop("c").write_parquet(tmp_path / "wide2.parquet")
    refused("no column 'c'", "wide*.parquet")
    refused("of one format", "wide.*")
    pl.DataFrame({"w": ["a", "b"]}).write_parquet(tmp_path / "words.parquet")
    refused("no numeric column", "words.parquet")
    pl.DataFrame({"x": [1, 2], "w": ["1", "2"]}).write_parquet(tmp_path / "texts.parquet")
    refused("most of which are numbers", "texts.parquet")
    with pytest.raises(ValueError, match="no column 'z'; it has a, b, c"):
        open_source(tmp_path / "wide.parquet", columns=["z"])
    with pytest.raises(ValueError, match="column 'w' has no numbers"):
        open_source(tmp_path / "words.parquet", columns=["w"])
    with pytest.raises(ValueError, match="no names of columns"):
        open_source(tmp_path / "wide.npy", columns=["a"])
    with pytest.raises(ValueError, match="Parquet and Arrow files only"):
        open_source(X, columns=["a"])


def test_text_is_to_be_converted_and_the_command_works(tmp_path):
    (tmp_path / "x.csv").write_text("a;b\n1,5;2\n2,5;3\n")
    with pytest.raises(ValueError, match="text") as refusal:
        open_source(tmp_path / "x.csv")
    command = str(refusal.value).split('python -c "')[1].removesuffix('"')
    subprocess.run([sys.executable, "-c", command], check=True, cwd=tmp_path)
    expected = choose(tables.read([str(tmp_path / "x.csv")])).data
    assert (read(open_source(tmp_path / "x.parquet"), 1) == expected).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (400, 3), (N - 1, D - 1)])
def test_values_that_are_not_finite_are_named(tmp_path, bad, place):
    array = X.copy()
    array[place] = bad
    array[-1, -1] = bad  # the first one counts
    what = "missing" if np.isnan(bad) else "infinite"
    halves = array[:300], array[300:]
    for number, half in enumerate(halves):
        np.save(tmp_path / f"{number}.npy", half)
        frame_of(half).write_parquet(tmp_path / f"{number}.parquet", row_group_size=70)
    part, within = (0, place[0]) if place[0] < 300 else (1, place[0] - 300)
    for rows in (7, 5000):
        for suffix, column in (("npy", place[1]), ("parquet", f"'{NAMES[place[1]]}'")):
            expected = (
                rf"{part}\.{suffix}: row {within + 1} \({place[0] + 1:,} of all\), "
                f"column {column} is {what}"
            )
            with pytest.raises(ValueError, match=expected):
                read(open_source(str(tmp_path / f"*.{suffix}")), rows)
        for given_ in (array, halves, np.asfortranarray(array)):
            with pytest.raises(
                ValueError, match=rf"row {place[0]}, counted from 0, column {place[1]} is {what}"
            ):
                read(open_source(given_), rows)
    assert not reading_threads()


def test_missing_entries_of_integers_are_missing(tmp_path):
    frame = pl.DataFrame({"x": [1, 2, None, 4], "y": [1.0, 2.0, 3.0, None]})
    frame.write_parquet(tmp_path / "x.parquet")
    for columns, message in ((["x"], "row 3, column 'x' is missing"), (["y"], "row 4, column 'y'")):
        with pytest.raises(ValueError, match=message):
            read(open_source(tmp_path / "x.parquet", columns=columns), 2)


def test_rows_with_missing_values_can_be_left_out(tmp_path):
    array = X.copy()
    rng = np.random.default_rng(3)
    array[rng.integers(0, N, 50), rng.integers(0, D, 50)] = np.nan
    array[250:420] = np.nan
    np.save(tmp_path / "x.npy", array)
    frame_of(array).fill_nan(None).write_parquet(tmp_path / "x.parquet", row_group_size=100)
    complete = ~np.isnan(array).any(axis=1)
    for given_ in (array, tmp_path / "x.npy", tmp_path / "x.parquet", np.array_split(array, 9)):
        source = open_source(given_, drop_missing=True)
        assert source.n_rows is None
        assert source.kept is None
        assert_same(source, array[complete])
        assert (source.kept == complete).all()
    points = choose(tables.read([str(tmp_path / "x.parquet")]), drop_missing=True)
    assert (points.data == array[complete]).all()
    assert_same(open_source(X, drop_missing=True), X)
    array[500, 1] = np.inf
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(ValueError, match="row 501, column 1 is infinite"):
        read(open_source(tmp_path / "x.npy", drop_missing=True), 10)
    with pytest.raises(ValueError, match="every row has a missing value"):
        list(open_source(np.full((5, 2), np.nan), drop_missing=True).chunks(2))


def test_large_integers_are_refused(tmp_path):
    array = np.ones((9, 2), dtype=np.int64)
    array[7, 1] = 2**53 + 1
    np.save(tmp_path / "x.npy", array)
    pl.DataFrame({"a": array[:, 0], "b": array[:, 1]}).write_parquet(tmp_path / "x.parquet")
    for given_ in (tmp_path / "x.npy", tmp_path / "x.parquet", array, [array]):
        with pytest.raises(ValueError, match=r"integers beyond 2\*\*53"):
            read(open_source(given_), 4)


def test_arrays_that_do_not_fit_the_first():
    with pytest.raises(
        ValueError, match="array 1 of the source has 4 columns, but the first one has 5"
    ):
        read(open_source([X, X[:, :4]]), 10)
    with pytest.raises(
        ValueError, match="array 1 of the source is float64, but the first one is float32"
    ):
        read(open_source([X.astype(np.float32), X]), 10)
    with pytest.raises(ValueError, match="array 1 of the source has other columns"):
        read(open_source([frame_of(X), frame_of(X).rename({"a": "z"})]), 10)


@pytest.mark.parametrize(("rows", "ahead"), [(0, 1), (-5, 1), (10, -1)])
def test_impossible_chunks(rows, ahead):
    with pytest.raises(ValueError, match="at least"):
        open_source(X).chunks(rows, ahead=ahead)
    with pytest.raises(TypeError):
        open_source(X).chunks(2.5)


# --- Sources that change ---------------------------------------------------------------------


def test_a_file_that_changes_between_passes(tmp_path):
    for kind in ("npy", "parquet", "arrow"):
        path = tmp_path / f"x.{kind}"

        def write(array, path=path, kind=kind):
            if kind == "npy":
                np.save(path, array)
            else:
                getattr(frame_of(array), "write_parquet" if kind == "parquet" else "write_ipc")(
                    path
                )

        write(X)
        source = open_source(path)
        read(source, 100)
        other = X.copy()
        other[500, 2] = np.nextafter(other[500, 2], 9)
        for changed in (other, X[:-1], np.vstack([X, X[:1]])):
            write(changed)
            with pytest.raises(ValueError, match="has changed"):
                read(source, 200)
        write(X)
        read(source, 300)
        path.unlink()
        with pytest.raises(FileNotFoundError, match=r"x\." + kind):
            read(source, 300)


def test_iterators_that_change():
    once = iter([X])
    given_out = []
    source = open_source(lambda: given_out.append(1) or (once if len(given_out) > 1 else iter([X])))
    read(source, 100)
    with pytest.raises(ValueError, match=r"1,003 rows when it was first read, 0 now; it must give"):
        list(source.chunks(100))
    rng = np.random.default_rng()
    source = open_source(lambda: iter([rng.normal(size=(50, 2))]))
    read(source, 10)
    with pytest.raises(ValueError, match="or another order, than when it was first read; it must"):
        read(source, 10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("whole_numbers", [False, True])
def test_the_same_rows_in_another_order_are_others(dtype, whole_numbers):
    rows = np.random.default_rng(5).normal(size=(9000, 3)).astype(dtype)
    rows = np.round(4 * rows) if whole_numbers else rows
    rows[[10, 8000]] = 9.0  # equal to each other, and to no neighbour
    orders = {
        "pieces": np.r_[4096:9000, :4096],
        "neighbours": np.r_[:10, 11, 10, 12:9000],
        "backwards": np.arange(9000)[::-1],
    }
    for order in orders.values():
        given_out = []

        def arrays(given_out=given_out, order=order):
            given_out.append(1)
            return iter([rows if len(given_out) < 4 else rows[order]])

        source = open_source(arrays)
        for chunk in (1000, 333):
            read(source, chunk)
        with pytest.raises(ValueError, match="or another order"):
            read(source, 500)
    swapped = np.arange(9000)
    swapped[[10, 8000]] = 8000, 10
    given_out = []
    source = open_source(lambda: iter([rows if given_out else rows[swapped]]))
    read(source, 100)
    given_out.append(1)
    read(source, 1000)


def test_passes_that_end_early_say_nothing_about_the_source(tmp_path):
    np.save(tmp_path / "x.npy", X)
    for given_ in (tmp_path / "x.npy", [X]):
        source = open_source(given_)
        passing = source.chunks(100)
        next(passing)
        passing.close()
        assert source.sizes is None
        assert_same(source, X)


# --- The thread ------------------------------------------------------------------------------


def test_early_ends_leave_no_thread():
    for end in ("close", "del", "error"):
        source = open_source([X] * 10)
        passing = source.chunks(100, ahead=2)
        next(passing)
        assert len(reading_threads()) == 1
        if end == "close":
            passing.close()
        elif end == "del":
            del passing
        else:
            with pytest.raises(KeyError):
                passing.throw(KeyError("mine"))
        assert not reading_threads()


def test_errors_in_the_middle_come_through_with_their_row():
    class MineError(Exception):
        pass

    def pieces():
        yield X[:500]
        raise MineError("disk on fire")

    source = open_source(pieces)
    found = []
    with pytest.raises(MineError, match="disk on fire") as caught:
        found.extend(source.chunks(100))
    assert len(found) == 5
    assert "while reading on from row 500" in caught.value.__notes__[0]
    assert not reading_threads()


def test_no_more_is_read_than_asked_for():
    for ahead in (0, 1, 3):
        begun = []

        def pieces(begun=begun):
            for number in range(20):
                begun.append(number)
                yield X[:10]

        source = open_source(pieces)
        begun.clear()
        passing = source.chunks(10, ahead=ahead)
        assert not begun
        for taken in range(1, 4):
            next(passing)
            time.sleep(0.02)
            assert max(begun) + 1 <= taken + ahead
        passing.close()


def test_the_iterator_of_a_pass_is_closed():
    closed = []

    def pieces():
        try:
            for _ in range(9):
                yield X
        finally:
            closed.append(threading.current_thread().name)

    source = open_source(pieces)
    assert len(closed) == 1
    passing = source.chunks(10)
    next(passing)
    passing.close()
    assert len(closed) == 2


def test_two_passes_at_once():
    source = open_source([X])
    for one, other in zip(source.chunks(100), source.chunks(100), strict=True):
        assert (one.rows == other.rows).all()
        assert not np.shares_memory(one.rows, other.rows)


def test_reading_ahead_alone():
    assert list(reading_ahead(lambda stop: iter(range(50)), 3)) == list(range(50))
    with pytest.raises(ZeroDivisionError):
        list(reading_ahead(lambda stop: (1 // (2 - j) for j in range(5)), 1))
    with pytest.raises(ZeroDivisionError):
        list(reading_ahead(lambda stop: 1 // 0, 1))


def test_ctrl_c_ends_a_pass_and_an_unfinished_pass_ends_with_the_process():
    code = """
import os, signal, sys, threading, time
import numpy as np
from wolfmeans.sources import open_source
def slow():
    yield np.ones((10, 2))
    while True:
        time.sleep(0.05)
        yield np.ones((0, 2))
source = open_source(slow)
if sys.argv[1] == "stop":
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    passing = source.chunks(10)
    next(passing)
    if sys.argv[1] == "stop":
        next(passing)
except KeyboardInterrupt:
    passing.close()
    print("stopped", [t.name for t in threading.enumerate() if "ahead" in t.name])
"""
    begun = {
        word: subprocess.Popen(
            [sys.executable, "-c", code, word],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for word in ("stop", "leave")
    }
    for word, expected in (("stop", "stopped []"), ("leave", "")):
        out, errors = begun[word].communicate(timeout=60)
        assert (begun[word].returncode, out.strip(), errors) == (0, expected, "")


def test_memory_comes_back_without_any_code():
    # An exception that such code meets, of Ctrl-C, would be lost.
    pool, called = Buffers(), []
    lent = pool.lend(4, 2, np.dtype(np.float64))
    place = lent.ctypes.data
    sys.setprofile(lambda frame, event, of: called.append(event))
    del lent
    sys.setprofile(None)
    assert "call" not in called
    assert pool.lend(2, 2, np.dtype(np.float64)).ctypes.data == place


def test_buffers_come_back_when_no_view_is_left():
    pool, dtype = Buffers(), np.dtype(np.float32)
    one = pool.lend(10, 4, dtype)
    place = one.ctypes.data
    part = one[3:].reshape(-1)[::2]
    del one
    other = pool.lend(10, 4, dtype)
    assert other.ctypes.data != place
    del part
    assert pool.lend(5, 4, dtype).ctypes.data == place
    larger = pool.lend(100, 4, dtype)
    assert larger.shape == (100, 4)
    del pool
    larger[:] = 1


@pytest.mark.long
def test_memory_stays_bounded(tmp_path):
    rows, width = 2_400_000, 16  # 307 MB
    small = np.random.default_rng(0).normal(size=(100_000, width)).astype(np.float64)
    for kind in ("npy", "parquet"):
        path = tmp_path / f"x.{kind}"
        if kind == "parquet":
            table = pa.table({str(j): small[:, j] for j in range(width)})
            with pq.ParquetWriter(
                path, table.schema, compression="none", use_dictionary=False
            ) as file:
                for _ in range(4):  # row groups of 77 MB
                    file.write_table(pa.concat_tables([table] * 6), row_group_size=rows)
        else:
            stored = np.lib.format.open_memmap(path, "w+", np.float64, (rows, width))
            for begin in range(0, rows, 100_000):
                stored[begin : begin + 100_000] = small
            del stored
    code = """
import resource, sys
import pyarrow.dataset, pyarrow.parquet
from wolfmeans.sources import open_source
from pathlib import Path
def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
source = open_source(sys.argv[1])
before = peak()
for _ in range(2):
    for chunk in source.chunks(50_000_000 // 128):
        pass
print(peak() - before, source.reading_bytes / 2**20)
"""
    if not sys.platform.startswith("linux"):
        pytest.skip("reads /proc")
    for path in sorted(tmp_path.iterdir()):
        done = subprocess.run(
            [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
        )
        # Three chunks of 48 MiB, and what reads them; half a chunk for what nobody counts.
        taken, reading = map(float, done.stdout.split())
        assert 40 < taken < 3 * 48 + reading + 24, path.name


# --- Sizes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "size"),
    [("2GB", 2 * 10**9), ("512MiB", 2**29), (" 1.5 kib ", 1536), ("77", 77), ("3T", 3 * 10**12)],
)
def test_sizes(text, size):
    assert parse_bytes(text) == bytes_of(text) == bytes_of(size) == size


@pytest.mark.parametrize(
    "wrong", ["", "GB", "-2GB", "2 XB", "2iB", "1e9", "٣GB", 0, -1, True, np.nan]
)
def test_wrong_sizes(wrong):
    with pytest.raises(ValueError, match="memory_limit must be a size like 2GB"):
        bytes_of(wrong)


@pytest.mark.parametrize("ahead", [0, 1, 4])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_chunks_fit_into_the_limit(ahead, dtype):
    for limit in (2 * 10**7, 10**8, 10**10):
        for width in (1, 16, 100):
            budget = Budget(limit, width, np.dtype(dtype), 10, 1000, ahead)
            rows = budget.rows_per_chunk()
            assert rows >= 1024
            assert rows * width * np.dtype(dtype).itemsize * (ahead + 2) <= limit
            assert budget.left(rows) >= 0
    for limit, reading in (("100kB", 0), ("20MB", 12_000_000)):
        with pytest.raises(MemoryError, match=r"memory_limit is .* MiB, but at least .* are need"):
            Budget(bytes_of(limit), 16, np.dtype(dtype), 10, reading, ahead).rows_per_chunk()


def test_said():
    assert (said(2**20), said(2**30)) == ("1.0 MiB", "1.0 GiB")


def test_a_pass_over_a_source_is_a_pass_over_the_array(tmp_path):
    np.save(tmp_path / "x.npy", X)
    source = open_source(tmp_path / "x.npy")
    assert isinstance(source, Source)
    model = wolfmeans.KMeans(4, random_state=0, bound=None).fit(X)
    labels = [model.predict(rows) for _, rows in source.chunks(100)]
    assert (np.concatenate(labels) == model.labels_).all()


def test_loading_takes_the_memory_of_the_rows_once(tmp_path):
    path = tmp_path / "integers.npy"
    np.save(path, np.arange(5_000_000, dtype=np.int32)[:, None])
    source = open_source(path)
    tracemalloc.start()
    try:
        whole = source.whole()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert whole.nbytes <= peak < 1.6 * whole.nbytes


def test_stored_chunks_without_rows_are_damage():
    class Damaged:
        shape, ndim, dtype, chunks = (4, 2), 2, np.dtype(np.float64), (0, 2)

        def __getitem__(self, rows):
            return np.zeros((4, 2))[rows]

    source = SlicedSource(Damaged(), "x.zarr")
    with pytest.raises(ValueError, match=r"x\.zarr is damaged: its chunks have no rows"):
        source.whole()
