"""Input faults: what is no data is refused with its place, what is data is taken as what it is."""

import os

import numpy as np
import pandas as pd
import pytest
from broken import fails_when
from engines import ALL_ENGINES, ENGINES
from processes import forked
from samples import as_sparse, assert_true, blobs, distances, same_partition
from scipy import sparse

from wolfmeans import KMeans, TrimmedKMeans

ESTIMATORS = {
    "KMeans": lambda k=3, **more: KMeans(k, random_state=0, **more),
    "TrimmedKMeans": lambda k=3, **more: TrimmedKMeans(k, trim=2, random_state=0, **more),
}
METHODS = ("fit", "predict", "transform", "score")


def small(engine, k=3, **more):
    """A fit that is short even where kernels are interpreted."""
    return KMeans(k, engine=engine, random_state=0, certify=None, **more)


# --- X ---------------------------------------------------------------------------------------


@fails_when("missing_values_become_zero", engine="cpu", estimator="KMeans", method="fit")
@fails_when("missing_values_become_zero", engine="reference", estimator="KMeans", method="score")
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", METHODS)
def test_nan_in_x_is_refused_with_its_position(engine, estimator, method):
    X, _ = blobs(d=3)
    model = ESTIMATORS[estimator](engine=engine).fit(X)
    X[7, 2] = X[9, 0] = np.nan
    with pytest.raises(ValueError, match=r"NaN, first at row 7, column 2"):
        getattr(model, method)(X)


@fails_when("missing_values_become_zero", engine="cpu", method="predict", wrap=np.asarray)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("wrap", [np.asarray, np.float32, sparse.csr_array])
def test_infinity_in_x_is_refused_with_its_position(engine, method, wrap):
    X, _ = blobs(d=3)
    model = small(engine).fit(wrap(X))
    X[5, 1], X[50, 0] = -np.inf, np.inf
    with pytest.raises(ValueError, match=r"infinity, first at row 5, column 1"):
        getattr(model, method)(wrap(X))


@fails_when("missing_values_become_zero", method="fit")
@pytest.mark.parametrize("method", METHODS)
def test_missing_values_of_pandas_are_refused_with_the_name_of_the_column(method):
    frame = pd.DataFrame(blobs()[0], columns=["height", "weight"])
    model = small("cpu").fit(frame)
    frame.loc[4, "weight"] = None
    with pytest.raises(ValueError, match=r"row 4, column 1 \('weight'\)"):
        getattr(model, method)(frame)


@fails_when("names_ignored", method="predict")
@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_mismatched_names_of_pandas_are_refused(method):
    frame = pd.DataFrame(blobs()[0], columns=["height", "weight"])
    model = small("cpu").fit(frame)
    with pytest.raises(ValueError, match="feature names should match"):
        getattr(model, method)(frame[["weight", "height"]])


@fails_when("masks_are_dropped")
def test_masked_entries_of_x_are_refused():
    X, _ = blobs()
    with pytest.raises(ValueError, match="masked"):
        small("cpu").fit(np.ma.array(X, mask=X > 20))


@fails_when("dates_are_numbers")
def test_missing_dates_are_refused():
    X = np.array([["NaT"], ["2020-01-01"], ["2020-01-02"], ["2020-02-01"]], dtype="datetime64[D]")
    with pytest.raises((ValueError, TypeError), match=r"(?i)NaT|NaN|date"):
        small("cpu", k=2).fit(X)


# --- weights ---------------------------------------------------------------------------------


@fails_when("weights_unchecked", engine="cpu", bad=np.nan, word="NaN")
@fails_when("weights_unchecked", engine="reference", bad=-1.0, word="Negative")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("bad", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-1.0, "Negative")]
)
def test_weights_with_nan_or_negative_values_are_refused_with_their_position(engine, bad, word):
    X, _ = blobs()
    weights = np.ones(len(X))
    weights[[11, 30]] = bad
    model = small(engine).fit(X)
    for call in (model.fit, model.score):
        with pytest.raises(ValueError, match=rf"{word}.*sample_weight.*position 11"):
            call(X, sample_weight=weights)


@fails_when("weights_unchecked", engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_weights_that_are_all_zero_are_refused(engine):
    X, _ = blobs()
    with pytest.raises(ValueError, match="sample_weight is zero for every sample"):
        small(engine).fit(X, sample_weight=np.zeros(len(X)))


@fails_when("weights_of_zero_count", engine="cpu")
@pytest.mark.parametrize("engine", ALL_ENGINES)
def test_points_of_weight_zero_do_not_count(engine):
    X, _ = blobs(24)
    weights = np.where(np.arange(24) % 3 == 0, 0.0, 2.0)
    far = np.where(weights[:, None] > 0, X, X + 1e6)
    model = small(engine, init=X[1:24:8], stop="stationary").fit(far, sample_weight=weights)
    kept = small("reference", init=X[1:24:8], stop="stationary").fit(X[weights > 0])
    assert model.cluster_centers_.tolist() == kept.cluster_centers_.tolist()
    assert model.inertia_ == 2.0 * kept.inertia_


@fails_when("sums_in_float32", engine="cpu")
@fails_when("sums_in_float32", engine="reference")
@pytest.mark.parametrize("engine", ALL_ENGINES)
def test_weights_in_a_ratio_of_1e16_lose_nothing(engine):
    X, _ = blobs(24)
    weights = np.where(np.arange(24) % 4 == 0, 1e16, 1.0)
    weights[3] = 1e-16
    model = small(engine, init=X[1:24:8], stop="stationary").fit(X, sample_weight=weights)
    assert model.certificate_.status.name == "STATIONARY"
    assert_true(model, X, weights)


@fails_when("weights_unchecked")
def test_masked_weights_are_refused():
    X, _ = blobs()
    weights = np.ma.array(np.ones(len(X)), mask=np.arange(len(X)) % 2 == 0)
    with pytest.raises(ValueError, match=r"sample_weight.*mask|mask.*sample_weight"):
        small("cpu").fit(X, sample_weight=weights)


# --- init ------------------------------------------------------------------------------------


@fails_when("init_unchecked", engine="cpu", bad=np.nan)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_init_with_nan_is_refused_with_its_position(engine, bad):
    X, _ = blobs()
    init = X[::20].copy()
    init[1, 1] = bad
    for given in (init, lambda X, k, random_state: init):
        with pytest.raises(ValueError, match=r"init contains NaN or infinity.*row 1, column 1"):
            small(engine, init=given, n_init=1).fit(X)


@fails_when("init_unchecked")
def test_masked_init_is_refused():
    X, _ = blobs()
    init = np.ma.array(X[::20], mask=X[::20] > 20)
    with pytest.raises(ValueError, match=r"init.*mask|mask.*init"):
        small("cpu", init=init).fit(X)


@fails_when("init_unchecked", engine="cpu", shape=(2, 2))
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", [(2, 2), (3, 4), (3,), (0, 2)])
def test_init_of_another_shape_is_refused(engine, shape):
    with pytest.raises(ValueError, match="init"):
        small(engine, init=np.zeros(shape)).fit(blobs()[0])


@fails_when("init_in_float32", engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_init_with_negative_zero_and_entries_in_a_ratio_of_1e16_is_used_as_it_is(engine):
    # Both centers are the same float32; the boundary between them is at 1 + 3 * 2**-53.
    init = np.array([[1.0, -0.0], [1.0 + 2.0**-51, 1e-16], [-1e16, 0.0]])
    X = np.array([[1.0, 0.0], [1.0 + 2.0**-52, 0.0], [1.0 + 2.0**-51, 0.0], [-1e16, -1.0]])
    model = small(engine, init=init, max_iter=1, tol=1e300, tol_scale="absolute").fit(X)
    assert model.initial_centers_.tolist() == init.tolist()
    first = distances(X, init).argmin(axis=1).tolist()
    assert len(set(first)) == 3
    assert model.labels_.tolist() == first


# --- shapes ----------------------------------------------------------------------------------


@fails_when("shapes_forced", engine="cpu", shape=(12,))
@fails_when("shapes_forced", engine="reference", shape=(0, 2))
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", [(), (12,), (4, 2, 2), (0, 2)])
def test_x_that_is_no_table_is_refused(engine, shape):
    model = small(engine).fit(blobs()[0])
    for call in (model.fit, model.predict, model.transform, model.score):
        with pytest.raises(ValueError, match=r"2D array|scalar|dim 3|0 sample"):
            call(np.ones(shape))


@fails_when("shapes_forced", engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_zero_features_are_refused(engine):
    with pytest.raises(ValueError, match="0 feature"):
        small(engine).fit(np.empty((5, 0)))


@fails_when("shapes_forced", engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_another_number_of_features_at_predict_is_refused(engine):
    model = small(engine).fit(blobs()[0])
    for call in (model.predict, model.transform, model.score):
        with pytest.raises(ValueError, match=r"3 features.*expecting 2"):
            call(np.zeros((4, 3)))


@fails_when("shapes_forced", engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_more_clusters_than_points_are_refused(engine):
    with pytest.raises(ValueError, match=r"n_samples=4.*n_clusters=5"):
        small(engine, k=5).fit(blobs(4)[0])


# --- dtypes ----------------------------------------------------------------------------------


@fails_when("small_types_wrap", engine="cpu", dtype="int8")
@fails_when("small_types_wrap", engine="reference", dtype="uint64")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "dtype", ["float16", "int8", "uint8", "int16", "int32", "int64", "uint64", "longdouble", "O"]
)
def test_numbers_of_every_dtype_are_those_numbers(engine, dtype):
    X = np.rint(blobs(d=3)[0] * 1.5 + 5)
    X = X.clip(0, 120).astype(dtype)
    plain = X.astype(np.float32 if dtype == "float16" else np.float64)
    model = small(engine, init=plain[::20], stop="stationary").fit(X)
    assert model.cluster_centers_.dtype == plain.dtype
    assert_true(model, plain)
    assert model.predict(X).tolist() == model.labels_.tolist()


@fails_when("true_is_255", engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_booleans_are_zero_and_one(engine):
    X = np.random.default_rng(0).random((40, 6)) < 0.4
    plain = X.astype(np.float64)
    model = small(engine, init=plain[:3], stop="stationary").fit(X)
    assert_true(model, plain)
    assert 0.0 < model.cluster_centers_.max() <= 1.0


@fails_when("large_integers_rounded", engine="cpu", dtype="uint64")
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("dtype", ["uint64", "int64"])
def test_integers_beyond_2_to_the_53_are_refused(engine, dtype):
    X = np.array([[2**60], [2**60 + 1], [2**60 + 100], [2**60 + 101]], dtype=dtype)
    with pytest.raises(ValueError, match=r"integers beyond 2\*\*53"):
        small(engine, k=2).fit(X)
    assert small(engine, k=2).fit(X - X.min()).inertia_ == 1.0


# --- memory ----------------------------------------------------------------------------------


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


# --- sparse ----------------------------------------------------------------------------------


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
    canonical = small(engine, init=X[::20]).fit(sparse.csr_array(X))
    model = small(engine, init=X[::20]).fit(given)
    assert model.cluster_centers_.tolist() == canonical.cluster_centers_.tolist()
    assert model.labels_.tolist() == canonical.labels_.tolist()
    assert model.inertia_ == canonical.inertia_ == -model.score(given)


@fails_when("explicit_zeros_are_ones", engine="cpu")
@pytest.mark.parametrize("engine", ENGINES)
def test_explicit_zeros_of_sparse_rows_are_zeros(engine):
    X, _ = blobs(d=4)
    X = np.rint(X) * (np.random.default_rng(1).random(X.shape) < 0.6)
    stored = sparse.csr_array(np.where(X == 0, 0.5, X))
    stored.data[stored.data == 0.5] = 0.0
    assert stored.nnz == X.size
    init = X[::20]
    dense, model = (small(engine, init=init).fit(given) for given in (X, stored))
    # Rows that store all of their entries have the distances of dense rows, to the last bit.
    assert model.cluster_centers_.tolist() == dense.cluster_centers_.tolist()
    assert model.labels_.tolist() == dense.labels_.tolist()
    assert model.inertia_ == dense.inertia_


BROKEN_SPARSE = {
    "a column too large": "A.indices[2] = 77",
    "a negative column": "A.indices[2] = -3",
    "a row that ends beyond": "A.indptr[2] = 77",
}
USES = {
    "fit": "KMeans(2, random_state=0).fit(A)",
    "predict": "fitted.predict(A)",
    "a lower bound": "lower_bound(A, 2, method='spectral')",
}
POINTERS = "scipy sorts the indices first, and does not survive it (door.admit)"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that fork")
@fails_when("structure_unchecked", fault="a column too large", use="fit")
@fails_when("structure_unchecked", fault="a negative column", use="predict")
@pytest.mark.parametrize(
    ("use", "fault"),
    [
        ("fit", "a column too large"),
        ("fit", "a negative column"),
        ("predict", "a column too large"),
        ("predict", "a negative column"),
        *(
            pytest.param(use, fault, marks=pytest.mark.xfail(reason=reason, strict=True))
            for use, fault, reason in (
                ("a lower bound", "a column too large", "lower_bound reads beyond its arrays"),
                ("a lower bound", "a negative column", "lower_bound reads beyond its arrays"),
                ("fit", "a row that ends beyond", POINTERS),
                ("predict", "a row that ends beyond", POINTERS),
            )
        ),
    ],
)
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


# --- sizes -----------------------------------------------------------------------------------


@fails_when("only_as_many_columns_as_rows", raises=ValueError, engine="cpu")
@pytest.mark.parametrize("engine", ALL_ENGINES)
def test_more_features_than_points(engine):
    X = np.random.default_rng(0).normal(size=(6, 40))
    X[:, 30:] *= 10
    assert_true(small(engine, k=3, init=X[:3], stop="stationary").fit(X), X)


@fails_when("sums_in_float32", engine="cpu")
@pytest.mark.parametrize("engine", ALL_ENGINES)
def test_one_feature(engine):
    X = np.random.default_rng(0).normal(size=(30, 1))
    assert_true(small(engine, k=4, init=X[:4], stop="stationary").fit(X), X)


@fails_when("centers_in_float32", engine="cpu")
@pytest.mark.parametrize("engine", ALL_ENGINES)
def test_one_point(engine):
    X = np.array([[0.1, -1e9, 3.0]])
    model = small(engine, k=1).fit(X)
    assert model.cluster_centers_.tolist() == X.tolist()
    assert (model.inertia_, model.labels_.tolist()) == (0.0, [0])
    assert_true(model, X)
