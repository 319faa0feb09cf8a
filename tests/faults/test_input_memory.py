"""Arrays of any layout, and sparse matrices of any format, sound or not."""

import os

import numpy as np
import pytest
from broken import fails_when
from engines import ENGINES, small
from processes import forked
from samples import as_sparse, assert_true, blobs, same_partition
from scipy import sparse


def _strided(X):
    wide = np.full((2 * len(X), 3 * X.shape[1]), 77.0, dtype=X.dtype)
    wide[::2, ::3] = X
    return wide[::2, ::3]


LAYOUTS = {
    "fortran": np.asfortranarray,
    "strided": _strided,
    "reversed": lambda X: X[::-1].copy()[::-1],
    "byte-swapped": lambda X: X.astype(X.dtype.newbyteorder()),
    "a window": lambda X: np.pad(X, 1, constant_values=55.0)[1:-1, 1:-1],
    "unaligned": lambda X: (
        np.frombuffer(b"x" + X.tobytes(), dtype=np.uint8)[1:].view(X.dtype).reshape(X.shape)
    ),
}


@fails_when("memory_read_in_its_order", engine="cpu", layout="fortran")
@fails_when("memory_read_in_its_order", engine="cpu", layout="strided")
@fails_when(
    "memory_read_in_its_order", raises=ValueError, engine="reference", layout="byte-swapped"
)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_fortran_strided_and_byte_swapped_arrays_are_read_as_they_are_indexed(engine, layout):
    X, _ = blobs(d=3)
    given = LAYOUTS[layout](X)
    assert np.array_equal(given, X)
    plain = small(engine).fit(X)
    model = small(engine).fit(given)
    assert model.cluster_centers_.tolist() == plain.cluster_centers_.tolist()
    assert model.labels_.tolist() == plain.labels_.tolist() == plain.predict(given).tolist()
    assert model.inertia_ == plain.inertia_


@fails_when("input_centered_in_place", raises=ValueError, engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_read_only_arrays_are_enough(engine):
    X, truth = blobs()
    weights, init = np.linspace(1, 2, len(X)), X[::20].copy()
    for array in (X, weights, init):
        array.setflags(write=False)
    model = small(engine, init=init).fit(X, sample_weight=weights)
    assert same_partition(model.labels_, truth)
    assert_true(model, X, weights)


@fails_when("input_centered_in_place", engine="cpu", copy_x=False)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("copy_x", [True, False])
def test_arrays_that_can_be_written_to_are_not(engine, copy_x):
    X, _ = blobs()
    before = X.copy()
    small(engine, copy_x=copy_x).fit(X).transform(X)
    assert np.array_equal(X, before)


@fails_when("input_centered_in_place", engine="cpu", mode="r+")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_memory_mapped_arrays_are_clustered_and_left_alone(engine, mode, tmp_path):
    X, _ = blobs()
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode=mode)
    model = small(engine).fit(mapped)
    plain = small(engine).fit(X.copy())
    assert model.cluster_centers_.tolist() == plain.cluster_centers_.tolist()
    del mapped
    assert np.array_equal(np.load(tmp_path / "x.npy"), X)


@fails_when("duplicates_kept_once", engine="cpu", kind="coo")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_every_sparse_format_with_64_bit_indices_is_the_same_matrix(engine, kind):
    X, _ = blobs(d=4)
    X = np.rint(X) * (np.random.default_rng(1).random(X.shape) < 0.6)
    given = as_sparse(X, kind)
    if kind == "coo":
        # Every entry as a sum of two, which is what the format means.
        again = [np.concatenate([part, part]) for part in (given.data / 2, *given.coords)]
        given = sparse.coo_array((again[0], tuple(again[1:])), shape=X.shape)
        given.coords = tuple(place.astype(np.int64) for place in given.coords)
    assert {np.dtype(np.int64)} >= {index.dtype for index in _indices(given)}
    canonical = small(engine, init=X[::20]).fit(sparse.csr_array(X))
    model = small(engine, init=X[::20]).fit(given)
    assert model.cluster_centers_.tolist() == canonical.cluster_centers_.tolist()
    assert model.labels_.tolist() == canonical.labels_.tolist()
    assert model.inertia_ == canonical.inertia_ == -model.score(given)
    assert model.predict(given).tolist() == canonical.labels_.tolist()
    assert model.transform(given).tolist() == canonical.transform(sparse.csr_array(X)).tolist()


def _indices(given):
    names = ("indices", "indptr", "offsets")
    found = [getattr(given, name) for name in names if hasattr(given, name)]
    return found + list(given.coords if given.format == "coo" else ())


@fails_when("explicit_zeros_are_ones", engine="cpu", kind="csr")
@fails_when("explicit_zeros_are_ones", engine="reference", kind="coo")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr"])
def test_explicit_zeros_of_sparse_rows_are_zeros(engine, kind):
    X, _ = blobs(d=4)
    X = np.rint(X) * (np.random.default_rng(1).random(X.shape) < 0.6)
    stored = as_sparse(np.where(X == 0, 0.5, X), kind)
    stored.data[stored.data == 0.5] = 0.0
    assert stored.nnz == X.size and (stored.data == 0).any()
    init = X[::20]
    dense, model = (small(engine, init=init).fit(given) for given in (X, stored))
    # Rows that store all of their entries have the distances of dense rows, to the last bit.
    assert model.cluster_centers_.tolist() == dense.cluster_centers_.tolist()
    assert model.labels_.tolist() == dense.labels_.tolist()
    assert model.inertia_ == dense.inertia_


def _turned(A):
    """The entries of each row in reverse."""
    for begin, end in zip(A.indptr[:-1], A.indptr[1:], strict=True):
        A.indices[begin:end] = A.indices[begin:end][::-1].copy()
        A.data[begin:end] = A.data[begin:end][::-1].copy()
    return A


def _halved(A):
    """Each entry as a sum of two halves."""
    twice = (np.repeat(A.data / 2, 2), np.repeat(A.indices, 2), A.indptr * 2)
    return sparse.csr_array(twice, shape=A.shape)


@fails_when("flags_of_sparse_rows_are_believed", engine="cpu", change=_halved)
@fails_when("flags_of_sparse_rows_are_believed", engine="cpu", change=_turned)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("change", [_turned, _halved])
def test_sparse_rows_are_looked_at_whatever_their_flags_say(engine, change):
    # SciPy keeps these flags, and does not see that somebody has changed the indices since.
    X = np.random.default_rng(0).normal(size=(40, 5)) ** 3
    X[X < 0.01] = 0.0
    plain = small(engine, init=X[:3]).fit(sparse.csr_array(X))
    given = change(sparse.csr_array(X))
    given.has_sorted_indices = given.has_canonical_format = True
    before = given.indices.tolist()
    model = small(engine, init=X[:3]).fit(given)
    assert model.cluster_centers_.tolist() == plain.cluster_centers_.tolist()
    assert model.labels_.tolist() == plain.labels_.tolist() == plain.predict(given).tolist()
    assert model.inertia_ == plain.inertia_ == -plain.score(given)
    assert plain.transform(given).tolist() == plain.transform(sparse.csr_array(X)).tolist()
    assert given.indices.tolist() == before


BROKEN_SPARSE = {
    "a column too large": "A.indices[2] = 77",
    "a negative column": "A.indices[2] = -3",
    "a row that ends beyond": "A.indptr[2] = 77",
    "a row that ends before it begins": "A.indptr[1:3] = 4, 0",
    "rows that begin late": "A.indptr[0] = 1",
    "a row too large in csc": "A = A.tocsc(); A.indices[2] = 77",
    "a column that ends beyond in csc": "A = A.tocsc(); A.indptr[2] = 77",
    "a row too large in coo": "A = A.tocoo(); A.coords[0][2] = 77",
    "a column too large in bsr": "A = A.tobsr((1, 1)); A.indices[2] = 77",
    "a column too large in lil": "A = A.tolil(); A.rows[2] = [77]",
}
USES = {
    "fit": "KMeans(2, random_state=0).fit(A)",
    "predict": "fitted.predict(A)",
    "a lower bound": "lower_bound(A, 2, method='spectral')",
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
@fails_when("structure_unchecked", fault="a column too large", use="fit")
@fails_when("structure_unchecked", fault="a negative column", use="predict")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("fault", BROKEN_SPARSE)
def test_sparse_matrices_whose_indices_point_nowhere_are_refused(use, fault):
    said = forked(
        "import numpy as np\n"
        "from scipy import sparse\n"
        "from wolfmeans import KMeans, lower_bound\n"
        "A = sparse.csr_array(np.eye(5))\n"
        "fitted = KMeans(2, random_state=0).fit(np.eye(5))\n"
        f"{BROKEN_SPARSE[fault]}\n"
        f"try:\n    {USES[use]}\n    print('nothing')\n"
        "except ValueError:\n    print('refused')\n"
    )
    assert said.split() == ["refused"]
