"""Regression tests of what fuzzing and the soak test have found."""

import base64
import io
import subprocess
import sys
import zlib

import fuzz_files
import numpy as np
import pytest
from mutations import members_of, zipped
from scipy import sparse

from wolfmeans import KMeans, TrimmedKMeans, lower_bound
from wolfmeans.bounds.partwise import PartTask, bound_of_part
from wolfmeans.engines import get_engine
from wolfmeans.exact.native import native_is_available
from wolfmeans.files import tables
from wolfmeans.files.parquet_pages import wrong_count
from wolfmeans.fitting.evaluate import judge
from wolfmeans.inputs.opening import open_source

needs_native = pytest.mark.skipif(not native_is_available(), reason="needs the native module")


def test_a_whole_number_beyond_64_bits_is_read_or_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,99999999999999999999\n2,3\n")
    with fuzz_files.refusing():
        table = tables.read([str(path)])
        assert table.entries("b").tolist() == [99999999999999999999, 3]
        with pytest.raises(ValueError, match=r"column 'b' has integers beyond 2\*\*53"):
            table.numbers(["a", "b"])


CHECKPOINTS = {
    "another JSON": lambda members: members | {"facts.json": b"[]"},
    "no identity": lambda members: (
        members | {"facts.json": b'{"format": "wolfmeans checkpoint 2"}'}
    ),
    "no seeds": lambda members: {name: members[name] for name in members if name != "seeds.npy"},
    "a header of an array cut off": lambda members: (
        members | {"seeds.npy": members["seeds.npy"].replace(b"}", b"(")}
    ),
}


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_a_damaged_checkpoint_is_refused_by_name(kind, tmp_path):
    members = CHECKPOINTS[kind](members_of(fuzz_files.checkpoints()[0]))
    path = tmp_path / "c"
    path.write_bytes(zipped(list(members.items())))
    with pytest.raises(ValueError, match="c is no checkpoint"):
        fuzz_files._checkpointed(path)


ZARR = {
    "a chunk that is no zstd": ("c/0/0", lambda content: b"\0" * 9),
    "a description without a shape": ("zarr.json", lambda content: content[:20] + b"}"),
    "a description that is a list": ("zarr.json", lambda content: b"[]"),
}


@pytest.mark.parametrize("kind", ZARR)
def test_a_damaged_zarr_array_is_refused_by_name(kind, tmp_path):
    pytest.importorskip("zarr")
    place, change = ZARR[kind]
    for name, content in fuzz_files._zarr_files()[0].items():
        path = tmp_path / "data.zarr" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(change(content) if name == place else content)
    with pytest.raises((ValueError, OSError), match=r"data\.zarr"):
        list(open_source(tmp_path / "data.zarr").chunks(5))


def test_k_means_parallel_takes_weights_of_dask_data():
    da = pytest.importorskip("dask.array")
    X = np.random.default_rng(0).normal(size=(60, 2))
    weights = np.full(60, 2.0)
    chosen = {"init": "k-means||", "n_init": 1, "random_state": 0, "bound": None}
    here = KMeans(3, **chosen).fit(X, sample_weight=weights)
    there = KMeans(3, **chosen).fit(
        da.from_array(X, chunks=(20, -1)), sample_weight=da.from_array(weights, chunks=(20,))
    )
    assert np.array_equal(here.cluster_centers_, there.cluster_centers_)


def misaligned(array):
    """A copy at an odd address."""
    memory = np.zeros(array.nbytes + 8, dtype=np.uint8)
    copy = memory[1 : 1 + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    assert not copy.flags.aligned
    return copy


@needs_native
def test_native_code_sees_aligned_arrays_only():
    import wolfmeans.exact._native as native

    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(TypeError):
        native.lexicographic_order(misaligned(X), np.empty(60, dtype=np.int64))
    with pytest.raises(TypeError):
        native.row_hashes(X, misaligned(np.zeros(60, dtype=np.uint64)), 1)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", [KMeans, TrimmedKMeans])
def test_misaligned_arrays_are_clustered_as_any_other(kind, dtype):
    X = np.random.default_rng(0).normal(size=(60, 2)).astype(dtype)
    weights = np.random.default_rng(1).random(60)
    here = kind(3, init=X[:3], n_init=1).fit(X, sample_weight=weights)
    there = kind(3, init=misaligned(X[:3]), n_init=1)
    there.fit(misaligned(X), sample_weight=misaligned(weights))
    assert there.cluster_centers_.tobytes() == here.cluster_centers_.tobytes()
    assert there.predict(misaligned(X)).tolist() == here.predict(X).tolist()
    assert there.transform(misaligned(X)).tolist() == here.transform(X).tolist()
    there.cluster_centers_ = misaligned(there.cluster_centers_)
    again = there.score(misaligned(X), sample_weight=misaligned(weights))
    assert again == here.score(X, sample_weight=weights)


def test_misaligned_arrays_of_other_kinds_are_clustered_as_any_other():
    da = pytest.importorskip("dask.array")
    X = np.abs(np.random.default_rng(0).normal(size=(60, 2))) + 1
    rows = sparse.csr_array(X)
    parts = (misaligned(rows.data), misaligned(rows.indices), misaligned(rows.indptr))
    given = [
        sparse.csr_array(parts, shape=X.shape),
        da.from_array(misaligned(X), chunks=(20, -1)),
        misaligned(X),
    ]
    chosen = {"init": X[:3], "n_init": 1, "bound": None}
    inertias = [KMeans(3, **chosen).fit(one).inertia_ for one in (X, *given)]
    assert len(set(inertias)) == 1
    chunks = [chunk for _, chunk in open_source(misaligned(X)).chunks(7)]
    assert all(chunk.flags.aligned for chunk in chunks)
    labels = misaligned(np.arange(60, dtype=np.int32) % 3)
    assert judge(misaligned(X), labels).sse == judge(X, np.arange(60) % 3).sse
    bounds = [lower_bound(one, 3, method="neighbours").value for one in (X, misaligned(X))]
    assert bounds[0] == bounds[1]
    task = PartTask(3, rows_at_once=60, methods=("neighbours",))
    weights = np.linspace(1.0, 2.0, 60)
    parts_of = [(X, weights), (misaligned(X), misaligned(weights))]
    assert len({bound_of_part(*part, task).value for part in parts_of}) == 1


def test_centers_at_an_odd_address_are_looked_at_for_ties():
    # Small messages of a cluster are parts of one buffer, and arrays in them begin anywhere.
    X = np.random.default_rng(0).normal(size=(60, 2))
    found = []
    for centers in (X[:3], misaligned(X[:3])):
        points = get_engine("auto").open(X, None, 1)
        points.assign(centers)
        found.append([part.tolist() for part in points.near_ties(centers, 1.0)])
    assert found[0] == found[1]


def test_an_npy_file_with_a_header_of_odd_length_is_read(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (4, 2), } \n"
    content = np.arange(8.0).tobytes()
    path = tmp_path / "x.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content)
    expected = np.arange(8.0).reshape(4, 2).tolist()
    found = tables.read([str(path)]).finite_numbers(["0", "1"])
    assert found.tolist() == expected
    assert found.flags.aligned
    chunks = [chunk for _, chunk in open_source(path).chunks(4)]
    assert [chunk.flags.aligned for chunk in chunks] == [True]
    assert chunks[0].tolist() == expected


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_name_of_a_column_that_is_no_text_is_refused_by_the_name_of_the_file(kind, tmp_path):
    polars, _ = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    frame, file = polars.DataFrame({"zzzz": [1.0, 2.0], "b": [3.0, 4.0]}), io.BytesIO()
    frame.write_parquet(file) if kind == "parquet" else frame.write_ipc(file)
    path = tmp_path / f"x.{kind}"
    path.write_bytes(file.getvalue().replace(b"zzzz", b"zz\xffz"))
    for read in (lambda: tables.read([str(path)]), lambda: open_source(path)):
        with pytest.raises(ValueError, match=rf"x\.{kind} is damaged") as caught:
            read()
        assert not isinstance(caught.value, UnicodeError)


def test_a_page_of_parquet_that_claims_too_many_values_is_refused(tmp_path):
    """Polars would ask for memory for as many, and the process would end without an exception."""
    polars = pytest.importorskip("polars")
    file = io.BytesIO()
    polars.DataFrame({"a": [1.5, 2.5, 3.5], "t": ["x", "y", None]}).write_parquet(file)
    assert wrong_count(file) is None
    refused = 0
    for place in range(4, 40):
        content = bytearray(file.getvalue())
        content[place] = 0x27  # -20 where a whole number is expected
        if wrong_count(io.BytesIO(bytes(content))) is not None:
            refused += 1
            path = tmp_path / "x.parquet"
            path.write_bytes(content)
            with pytest.raises(ValueError, match=r"x\.parquet is damaged.*a page says"):
                tables.read([str(path)])
    assert refused


# A stream of three columns whose strings claim more buffers than there are.
DAMAGED_STREAM = (
    "c-"
    "qZUIS#@=44frV6d*$3C@3i@D4?L{Er=%|M9Cv~3?)zC6;xD+0twJEcC2tTQA7$Hd2Nr!vui2ddw&2B($CC$nme8i"
    "G!gR*aV4G*iTO!4;JKiWY;MbbpD|Sq;3B9AE=qIyj`{GNQ_DCP;xnlguTwA9d__O8CwC0!qVM`L-"
    "ytVOTU8R(xRV#!tCyK92>GkMPjoge!+W+tg05;Mtd8slHn*h@jR&-"
    "NZ%9t6h)Q_m7QIrKJZ2Wh7B^r0y+zq)GMeU%eEzEz3(Vi~qWXs4%>B(P)<vX8C98feTE=b_-(S|`SC{w%fm%Xs"
)


def test_a_damaged_stream_of_arrow_is_refused_before_polars_ends_the_process(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "x.arrow"
    path.write_bytes(zlib.decompress(base64.b85decode(DAMAGED_STREAM)))
    with pytest.raises(ValueError, match=r"x\.arrow is damaged"):
        tables.read([str(path)])


@needs_native
def test_limbs_without_room_for_a_carry_are_refused():
    import wolfmeans.exact._native as native

    limbs, out = np.ones((1, 3, 1), dtype=np.int64), np.zeros((1, 1))
    for sums, totals in ((limbs * (2**63 - 1), limbs), (limbs, limbs * (2**63 - 1))):
        with pytest.raises(ValueError, match=r"limbs below 2\*\*62"):
            native.round_moments(
                *(sums, 0, 20, totals, 0, 20, np.arange(1), np.zeros(1), out, out.copy(), 1)
            )


SURVIVED = """
import faulthandler, sys
import numpy as np
import wolfmeans.exact._native as native
X = np.random.default_rng(0).normal(size=(9, 2))
try:
    {call}
except (TypeError, ValueError, RuntimeError, IndexError):
    pass
print("survived")
"""
CALLS = {
    "a start of two parts": "native.advance_f64([native.PointsF64(X, None, 1)], "
    "[(X[:2].copy(), np.ones(2))], [(-1.0, -1.0, -1.0)], 2, 1.0, False, 1)",
    "tolerances of one part": "native.advance_f64([native.PointsF64(X, None, 1)], "
    "[(X[:2].copy(), np.ones(2), 0.0)], [(-1.0,)], 2, 1.0, False, 1)",
    "centers of no axis": "native.SingleMovesF64(X, None, np.zeros(9, dtype=np.int32), "
    "np.array(1.0), 1)",
    "points of no axis": "native.PointsF64(np.array(1.0), None, 1)",
    "a weight without end": "native.Neighbours.open(X, np.array([1.0] * 8 + [np.inf])).roots("
    "np.arange(3), np.array([0.1, 0.5]), 1e9, 1.0, np.zeros((3, 2)), 1)",
}


def spread(X, weights, order, n_trials=2):
    """Call k-means++ of the native module for three seeds, with fixed draws."""
    import wolfmeans.exact._native as native

    draws = np.random.default_rng(0).integers(0, 2**63 - 1, size=1 + 2 * n_trials % 2**64)
    rows = np.zeros(3, dtype=np.int64)
    return native.kmeans_plus_plus(X, weights, order, draws, n_trials, rows, 1), rows


@needs_native
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -1.0])
def test_k_means_plus_plus_refuses_bad_weights(bad):
    """The masses of the draw overflowed, and the search for a row left the array."""
    X = np.random.default_rng(0).normal(size=(9, 2))
    with pytest.raises(ValueError, match="finite and not negative"):
        spread(X, np.r_[np.ones(8), bad], np.arange(9))


@needs_native
def test_k_means_plus_plus_stays_within_an_order_that_is_no_permutation():
    X = np.random.default_rng(0).normal(size=(300, 2))
    for weights in (None, np.r_[0.0, np.ones(299)]):
        found, rows = spread(X, weights, np.zeros(300, dtype=np.int64))
        assert found == -1 or ((rows >= 0) & (rows < 300)).all()


@needs_native
def test_k_means_plus_plus_refuses_more_trials_than_draws():
    X = np.random.default_rng(0).normal(size=(16, 2))
    with pytest.raises(ValueError, match="fewer entries"):
        spread(X, None, np.arange(16), n_trials=2**63)  # 2 * 2**63 is 0 in 64 bits


@needs_native
@pytest.mark.parametrize("scale", [1.0, 0.1, 1e-3])
def test_a_weight_of_minus_zero_is_zero_for_k_means_plus_plus(scale):
    X = np.random.default_rng(0).normal(size=(300, 2)) * scale
    found = []
    for zero in (0.0, -0.0):
        weights = np.where(np.arange(300) % 3, 1.0, zero)
        model = KMeans(8, init="k-means++", n_init=1, random_state=0, bound=None)
        found.append(model.fit(X, sample_weight=weights).cluster_centers_.tobytes())
    assert found[0] == found[1]


@needs_native
@pytest.mark.parametrize("call", CALLS)
def test_a_native_call_survives(call):
    done = subprocess.run(
        [sys.executable, "-c", SURVIVED.format(call=CALLS[call])],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert done.stdout == "survived\n", done.returncode
