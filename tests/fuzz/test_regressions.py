"""What fuzzing and the soak have found. One that is mended stays here, without its mark."""

import subprocess
import sys

import fuzz_files
import numpy as np
import pytest
from mutations import members_of, zipped

from wolfmeans import KMeans, tables
from wolfmeans.engines.cpu import native_is_available
from wolfmeans.sources import open_source

needs_native = pytest.mark.skipif(not native_is_available(), reason="needs the native module")


def xfail(reason):
    return pytest.mark.xfail(reason=reason, strict=True)


@xfail("polars reads whole numbers of 128 bits, which NumPy has not")
def test_a_whole_number_beyond_64_bits_is_read_or_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,99999999999999999999\n2,3\n")
    with fuzz_files.refusing():
        table = tables.read([str(path)])
        assert len(table.entries("b")) == 2


CHECKPOINTS = {
    "another JSON": lambda members: members | {"facts.json": b"[]"},
    "no identity": lambda members: (
        members | {"facts.json": b'{"format": "wolfmeans checkpoint 1"}'}
    ),
    "no seeds": lambda members: {name: members[name] for name in members if name != "seeds.npy"},
    "a header of an array cut off": lambda members: (
        members | {"seeds.npy": members["seeds.npy"].replace(b"}", b"(")}
    ),
}


@xfail("what is wrong inside a checkpoint comes out as KeyError, AttributeError or TokenError")
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


@xfail("what Zarr raises comes out as it is: RuntimeError, KeyError, AttributeError")
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


@xfail("the weights of Dask data have no max, which the first draw of k-means|| asks for")
def test_k_means_parallel_takes_weights_of_dask_data():
    da = pytest.importorskip("dask.array")
    X = np.random.default_rng(0).normal(size=(60, 2))
    weights = np.full(60, 2.0)
    chosen = {"init": "k-means||", "n_init": 1, "random_state": 0, "certify": None}
    here = KMeans(3, **chosen).fit(X, sample_weight=weights)
    there = KMeans(3, **chosen).fit(
        da.from_array(X, chunks=(20, -1)), sample_weight=da.from_array(weights, chunks=(20,))
    )
    assert np.array_equal(here.cluster_centers_, there.cluster_centers_)


@needs_native
@xfail("contiguous arrays that are not aligned reach the native module as they are")
def test_native_code_sees_aligned_arrays_only(monkeypatch):
    import wolfmeans.engines._native as native

    memory = np.zeros(8 * 120 + 8, dtype=np.uint8)
    X = memory[1:961].view(np.float64).reshape(60, 2)
    X[...] = np.random.default_rng(0).normal(size=X.shape)
    seen, order = [], native.lexicographic_order
    monkeypatch.setattr(
        native, "lexicographic_order", lambda X, out: (seen.append(X.flags.aligned), order(X, out))
    )
    KMeans(3, random_state=0, engine="cpu", certify=None).fit(X)
    assert seen
    assert all(seen)


SURVIVED = """
import faulthandler, sys
import numpy as np
import wolfmeans.engines._native as native
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
    "boxes of no axis": "native.BoxesF64(np.array(1.0), None, 1)",
    "a weight without end": "native.Neighbours.open(X, np.array([1.0] * 8 + [np.inf])).roots("
    "np.arange(3), np.array([0.1, 0.5]), 1e9, 1.0, np.zeros((3, 2)), 1)",
}


@needs_native
@xfail("arguments of native functions that are not checked before they are used")
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
