"""What comes in: bad input is refused with its place, good input is never changed."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from instances import ENGINES
from wolfmeans import KMeans, TrimmedKMeans


def blobs(n=60, d=2, k=3, seed=0):
    """Well separated clusters of equal size and the partition they come from."""
    rng = np.random.default_rng(seed)
    truth = np.arange(n) * k // n
    places = np.zeros((k, d))
    places[:, 0] = 20.0 * np.arange(k)
    places[:, -1] += 7.0 * np.arange(k)
    return places[truth] + rng.normal(size=(n, d)), truth


def same_partition(a, b):
    a, b = np.asarray(a), np.asarray(b)
    pairs = set(zip(a.tolist(), b.tolist(), strict=True))
    return len(pairs) == len(set(a.tolist())) == len(set(b.tolist()))


def model(k=3, **parameters):
    return KMeans(n_clusters=k, random_state=0, **parameters)


# --- X ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")])
@pytest.mark.parametrize("wrap", [np.asarray, np.float32, sparse.csr_array, sparse.csc_matrix])
@pytest.mark.parametrize("method", ["fit", "predict", "transform", "score"])
def test_non_finite_values_are_refused_with_their_place(bad, word, wrap, method):
    X, _ = blobs(d=3)
    fitted = model().fit(wrap(X))
    X[7, 2] = bad
    X[9, 0] = bad
    with pytest.raises(ValueError, match=rf"(?i)X contains {word}.*row 7, column 2"):
        getattr(fitted, method)(wrap(X))


@pytest.mark.parametrize("frame", [pd.DataFrame, lambda d: pl.DataFrame(d)])
@pytest.mark.parametrize("method", ["fit", "predict"])
def test_non_finite_values_in_frames_are_refused_with_the_column_name(frame, method):
    X, _ = blobs()
    columns = {"height": X[:, 0].copy(), "weight": X[:, 1].copy()}
    fitted = model().fit(frame(columns))
    columns["weight"][4] = np.nan
    with pytest.raises(ValueError, match=r"row 4, column 1 \('weight'\)"):
        getattr(fitted, method)(frame(columns))


def test_missing_values_of_nullable_columns_are_refused_with_their_place():
    frame = pd.DataFrame({"a": pd.array([1.0, None, 3.0], dtype="Float64"), "b": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=r"NaN.*row 1, column 0 \('a'\)"):
        model(2).fit(frame)


@pytest.mark.parametrize(
    ("X", "says"),
    [
        (np.empty((0, 2)), "0 sample"),
        (np.empty((5, 0)), "0 feature"),
        (np.arange(5.0), "1D array"),
        (np.zeros((4, 2, 2)), "dim 3"),
        (np.float64(3.0), "scalar"),
        (np.ones((5, 2)) * 1j, "(?i)complex"),
        (sparse.csr_array(np.ones((5, 2)) * 1j), "(?i)complex"),
        (np.array([["a", "b"], ["c", "d"], ["e", "f"]], dtype=object), "text in column"),
        ([["1", "x"], ["2", "y"], ["3", "z"]], "text in column"),
        ([[1.0, 2.0], [3.0], [4.0, 5.0]], "inhomogeneous"),
        (None, "(?i)none|scalar"),
        (pd.DataFrame({0: ["u", "v", "w"]}), "text in column"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "predict"])
def test_what_is_not_a_table_of_numbers_is_refused(X, says, method):
    fitted = model().fit(blobs()[0])
    with pytest.raises((ValueError, TypeError), match=says):
        getattr(fitted, method)(X)


@pytest.mark.parametrize("k", [61, 1000])
def test_more_clusters_than_points_are_refused(k):
    with pytest.raises(ValueError, match=f"n_samples=60.*n_clusters={k}"):
        model(k).fit(blobs()[0])


def test_predict_refuses_another_number_of_features():
    fitted = model().fit(blobs()[0])
    with pytest.raises(ValueError, match=r"3 features.*expecting 2"):
        fitted.predict(np.zeros((4, 3)))


WIDE = [[2**60, 0], [2**60 + 1, 0], [2**60 + 100, 0], [2**60 + 101, 0]]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda rows: np.array(rows, dtype=np.uint64),
        lambda rows: np.array(rows, dtype=np.int64),
        lambda rows: np.array(rows, dtype=">i8"),
        lambda rows: -np.array(rows, dtype=np.int64),
        lambda rows: sparse.csr_array(np.array(rows, dtype=np.int64)),
        lambda rows: sparse.lil_array(np.array(rows, dtype=np.int64)),
        lambda rows: sparse.dok_array(np.array(rows, dtype=np.int64)),
        lambda rows: np.array(rows, dtype=object),
        lambda rows: rows,
        lambda rows: pd.DataFrame(rows, dtype=np.uint64),
        lambda rows: pl.DataFrame(np.array(rows, dtype=np.uint64)),
        lambda rows: pa.table(pd.DataFrame(rows, columns=["a", "b"], dtype=np.uint64)),
    ],
    ids=[
        "uint64",
        "int64",
        "swapped",
        "negative",
        "csr",
        "lil",
        "dok",
        "object",
        "list",
        "pandas",
        "polars",
        "arrow",
    ],
)
def test_integers_that_float64_cannot_hold_are_refused(wrap):
    with pytest.raises(ValueError, match=r"2\*\*53"):
        model(2).fit(wrap(WIDE))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.float32])
def test_every_sparse_format_gives_the_clusters_of_csr(kind, dtype):
    X, truth = blobs(d=4)
    X = np.rint(X).astype(dtype)
    given = getattr(sparse, f"{kind}_array")(X)
    assert same_partition(model().fit(given).labels_, truth)


def test_sparse_duplicates_are_added_up_and_left_as_they_are():
    rows, columns = [0, 0, 1, 2, 3], [0, 0, 0, 1, 1]
    indptr = np.array([0, 2, 3, 4, 5])
    X = sparse.csr_array((np.array([3.0, 4.0, 7.0, 9.0, 9.0]), np.array(columns), indptr))
    fitted = model(2).fit(X)
    assert len(rows) == X.nnz == 5
    assert fitted.inertia_ == 0.0
    assert np.array_equal(fitted.predict(X), fitted.labels_)


# --- weights ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "word"), [(-1.0, "(?i)negative"), (np.nan, "NaN"), (np.inf, "inf"), (-np.inf, "inf")]
)
@pytest.mark.parametrize("method", ["fit", "score", "fit_predict", "fit_transform"])
def test_bad_weights_are_refused_with_their_position(value, word, method):
    X, _ = blobs()
    weights = np.ones(len(X))
    weights[[11, 30]] = value
    fitted = model().fit(X)
    with pytest.raises(ValueError, match=rf"{word}.*sample_weight.*position 11"):
        getattr(fitted, method)(X, sample_weight=weights)


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        (np.zeros(60), "(?i)sample.weight.*zero"),
        (0.0, "(?i)sample.weight.*zero"),
        (np.ones(59), "sample_weight"),
        (np.ones((60, 2)), "(?i)sample.weight"),
        (-1.0, "(?i)negative values.*sample_weight"),
        (np.nan, "NaN.*sample_weight"),
        (np.inf, "inf.*sample_weight"),
        (["a"] * 60, "sample_weight"),
        ("a", "sample_weight"),
        (np.ones(60) * 1j, "(?i)sample_weight.*complex|complex.*sample_weight"),
        (np.r_[1e200, np.ones(59)], "sample_weight"),
        (np.r_[1e-200, np.ones(59)], "sample_weight"),
    ],
    ids=[
        "zeros",
        "zero",
        "short",
        "table",
        "negative",
        "nan",
        "inf",
        "strings",
        "string",
        "complex",
        "huge",
        "tiny",
    ],
)
def test_unusable_weights_are_refused_by_name(weights, says):
    X, _ = blobs()
    with pytest.raises((ValueError, TypeError), match=says):
        model().fit(X, sample_weight=weights)


@pytest.mark.parametrize("exponent", [-299, -100, 100, 299])
@pytest.mark.parametrize("scale", [-399, -300, 0, 300, 399])
@pytest.mark.parametrize("init", ["k-means++", "random"])
@pytest.mark.filterwarnings("ignore:The squared distances:RuntimeWarning")
def test_tiny_and_huge_weights_do_not_change_the_clusters(exponent, scale, init):
    X, truth = blobs()
    X = np.ldexp(X + 64.0, scale)  # no value is much smaller than the others
    weights = np.full(len(X), 2.0**exponent)
    fitted = model(init=init, n_init=10).fit(X, sample_weight=weights)
    assert same_partition(fitted.labels_, truth)
    assert fitted.inertia_ == -fitted.score(X, sample_weight=weights)
    assert fitted.certificate_.inertia > 0


# --- init ------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_callable", [False, True])
@pytest.mark.parametrize(
    ("init", "says"),
    [
        (np.zeros((2, 2)), r"initial centers \(2, 2\).*clusters 3"),
        (np.zeros((3, 4)), r"initial centers \(3, 4\).*features.*2"),
        (np.zeros(3), "init|initial centers"),
        (np.array([[0, 0], [1, np.nan], [2, 2]]), "init.*row 1, column 1"),
        (np.array([[0, 0], [1, 1], [np.inf, 2]]), "init.*row 2, column 0"),
        (np.array([["a", "b"]] * 3), "init|initial centers"),
        (np.ones((3, 2)) * 1j, "(?i)complex"),
    ],
    ids=["rows", "columns", "vector", "nan", "inf", "strings", "complex"],
)
def test_bad_initial_centers_are_refused_by_name_and_place(init, says, as_callable):
    X, _ = blobs()
    given = (lambda X, k, random_state: init) if as_callable else init
    with pytest.raises((ValueError, TypeError), match=says):
        model(init=given, n_init=1).fit(X)


# --- parameters ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_clusters", 0),
        ("n_clusters", -3),
        ("n_clusters", 2.5),
        ("n_clusters", "3"),
        ("n_clusters", None),
        ("init", "kmeans++"),
        ("init", 3),
        ("init", None),
        ("n_init", 0),
        ("n_init", "many"),
        ("n_init", 1.5),
        ("max_iter", 0),
        ("max_iter", -1),
        ("max_iter", 2.5),
        ("max_iter", "guarantee"),
        ("tol", -1e-9),
        ("tol", np.nan),
        ("tol", np.inf),
        ("tol", "small"),
        ("verbose", "yes"),
        ("random_state", "seed"),
        ("random_state", -1),
        ("copy_x", "no"),
        ("algorithm", "full"),
        ("stop", "never"),
        ("tol_scale", "relative"),
        ("empty", "drop"),
        ("empty", None),
        ("bound", "best"),
        ("bound", True),
        ("engine", "gpu2"),
        ("engine", None),
        ("n_threads", 0),
        ("n_threads", -1),
        ("n_threads", 1.5),
        ("time_limit", -1.0),
        ("time_limit", np.nan),
        ("time_limit", "long"),
        ("callback", 3),
    ],
)
def test_every_bad_parameter_is_refused_by_name(name, value):
    with pytest.raises((ValueError, TypeError), match=name):
        KMeans(**{"n_clusters": 2, name: value}).fit(blobs()[0])


@pytest.mark.parametrize("name", ["precompute_distances", "n_jobs"])
def test_parameters_that_do_not_exist_are_not_accepted(name):
    with pytest.raises(TypeError, match=name):
        KMeans(**{name: None})


# --- nothing is changed ----------------------------------------------------------------------


def _strided(X):
    wide = np.zeros((2 * len(X), 3 * X.shape[1]))
    wide[::2, ::3] = X
    return wide[::2, ::3]


def _read_only(X):
    X = X.copy()
    X.setflags(write=False)
    return X


INPUTS = {
    "float64": np.array,
    "fortran": np.asfortranarray,
    "strided": _strided,
    "reversed": lambda X: X.copy()[:, ::-1][:, ::-1],
    "swapped": lambda X: X.astype(">f8"),
    "swapped float32": lambda X: X.astype(">f4"),
    "float32": np.float32,
    "float16": np.float16,
    "longdouble": np.longdouble,
    "int8": lambda X: np.rint(X).astype(np.int8),
    "uint64": lambda X: np.rint(X + 100).astype(np.uint64),
    "object": lambda X: X.astype(object),
    "matrix subclass": lambda X: X.view(type("Mine", (np.ndarray,), {})),
    "pandas": lambda X: pd.DataFrame(X, columns=["a", "b"]),
    "pandas float32": lambda X: pd.DataFrame(X.astype(np.float32), columns=["a", "b"]),
    "pandas nullable": lambda X: pd.DataFrame(X, columns=["a", "b"]).astype("Float64"),
    "pandas mixed": lambda X: pd.DataFrame({"a": np.rint(X[:, 0]).astype(int), "b": X[:, 1]}),
    "polars": lambda X: pl.DataFrame(X, schema=["a", "b"]),
    "arrow": lambda X: pa.table({"a": X[:, 0], "b": X[:, 1]}),
    "list": lambda X: X.tolist(),
    "tuple": lambda X: tuple(map(tuple, X.tolist())),
}


def _snapshot(X):
    return np.array(X, copy=True)


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("copy_x", [True, False])
def test_input_of_any_kind_is_clustered_and_not_modified(name, copy_x):
    X, truth = blobs()
    given = INPUTS[name](X)
    if isinstance(given, np.ndarray):
        given.setflags(write=False)
    before = _snapshot(given)
    weights = np.linspace(1.0, 2.0, len(X))
    weights.setflags(write=False)
    init = X[::20].copy()
    init.setflags(write=False)
    fitted = KMeans(3, init=init, copy_x=copy_x).fit(given, sample_weight=weights)
    fitted.transform(given)
    assert same_partition(fitted.labels_, truth)
    assert np.array_equal(fitted.predict(given), fitted.labels_)
    assert fitted.inertia_ == -fitted.score(given, sample_weight=weights)
    assert np.array_equal(_snapshot(given), before)
    assert np.array_equal(weights, np.linspace(1.0, 2.0, len(X)))
    assert np.array_equal(init, X[::20])


def test_boolean_input_is_clustered():
    X = np.array([[True, True], [True, True], [False, False], [False, True]])
    fitted = model(3).fit(X)
    assert fitted.inertia_ == 0.0
    assert fitted.cluster_centers_.dtype == np.float64


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_memory_maps_are_clustered_and_not_modified(tmp_path, mode, dtype):
    X, truth = blobs()
    np.save(tmp_path / "x.npy", X.astype(dtype))
    mapped = np.load(tmp_path / "x.npy", mmap_mode=mode)
    fitted = model().fit(mapped)
    assert same_partition(fitted.labels_, truth)
    assert np.array_equal(fitted.predict(mapped), fitted.labels_)
    del mapped
    assert np.array_equal(np.load(tmp_path / "x.npy"), X.astype(dtype))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_sparse_input_is_not_modified(kind):
    X = getattr(sparse, f"{kind}_array")(np.where(blobs()[0] > 8, blobs()[0], 0.0))
    X.data.setflags(write=False)
    before = X.toarray()
    model().fit(X).transform(X)
    assert np.array_equal(X.toarray(), before)


def test_sparse_weights_of_pandas_go_by_position_and_not_by_index():
    X, _ = blobs()
    weights = np.linspace(0.0, 5.0, len(X))
    series = pd.Series(weights, index=range(len(X) - 1, -1, -1))
    a, b = model().fit(X, sample_weight=weights), model().fit(X, sample_weight=series)
    assert np.array_equal(a.cluster_centers_, b.cluster_centers_)


# --- scales and offsets ----------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("exponent", [-1060, -700, -664, -500, -401, 401, 500, 664, 1000])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.filterwarnings("ignore:The squared distances:RuntimeWarning")
def test_a_power_of_two_changes_nothing_but_the_scale(engine, exponent, make):
    # Coordinates of 8 bits, so that even subnormal copies of them are exact.
    X = np.rint(blobs(d=3)[0])
    plain = model(engine=engine, stop="stationary").fit(make(X))
    scaled = model(engine=engine, stop="stationary").fit(make(np.ldexp(X, exponent)))
    assert np.array_equal(plain.labels_, scaled.labels_)
    assert plain.n_iter_ == scaled.n_iter_
    assert np.array_equal(scaled.predict(make(np.ldexp(X, exponent))), scaled.labels_)
    assert scaled.inertia_ == -scaled.score(make(np.ldexp(X, exponent)))
    np.testing.assert_allclose(
        np.ldexp(scaled.cluster_centers_, -exponent), plain.cluster_centers_, atol=2**-9
    )


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-150, 1e150, 1e200, 1e300])
@pytest.mark.parametrize("init", ["k-means++", "plain-k-means++", "k-means||", "random", "array"])
@pytest.mark.filterwarnings("ignore:The squared distances:RuntimeWarning")
def test_extreme_scales_give_the_right_clusters(scale, init):
    X, truth = blobs()
    given = X[::20] * scale if init == "array" else init
    fitted = model(init=given, n_init=1 if init == "array" else 10).fit(X * scale)
    assert same_partition(fitted.labels_, truth)
    assert np.array_equal(fitted.predict(X * scale), fitted.labels_)
    assert fitted.inertia_ == -fitted.score(X * scale)


@pytest.mark.parametrize("scale", [1e-160, 1e160])
def test_a_model_whose_squares_do_not_fit_says_so(scale):
    X, _ = blobs()
    with pytest.warns(RuntimeWarning, match="are outside the range of float64"):
        fitted = model().fit(X * scale)
    plain = model().fit(X)
    bits = np.log2(fitted.certificate_.inertia) + fitted.certificate_.unit_exponent
    assert bits - 2 * np.log2(scale) == pytest.approx(np.log2(plain.inertia_))


@pytest.mark.parametrize("exponent", [-500, 500])
@pytest.mark.parametrize("stop", ["decrease", "gap", "shift"])
def test_an_absolute_tolerance_is_in_the_units_of_the_data(exponent, stop):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3)) * 8
    tol = 64.0 if stop != "shift" else 0.5
    plain = model(5, stop=stop, tol_scale="absolute", tol=tol).fit(X)
    scaled = model(5, stop=stop, tol_scale="absolute", tol=tol * 2.0 ** (2 * exponent)).fit(
        np.ldexp(X, exponent)
    )
    assert scaled.n_iter_ == plain.n_iter_
    assert np.array_equal(scaled.labels_, plain.labels_)
    assert scaled.certificate_.tol == tol * 2.0 ** (2 * exponent)


@pytest.mark.parametrize("engine", ENGINES)
def test_float32_far_from_the_origin_gives_the_right_clusters(engine):
    # Multiples of 8, the spacing of float32 at 1e8, so that the shift itself loses nothing.
    X = 8.0 * np.rint(10 * blobs()[0])
    truth = blobs()[1]
    shifted = (X + 1e8).astype(np.float32)
    assert np.array_equal(shifted.astype(np.float64) - 1e8, X)
    fitted = model(engine=engine).fit(shifted)
    assert fitted.cluster_centers_.dtype == np.float32
    assert same_partition(fitted.labels_, truth)
    assert np.array_equal(fitted.predict(shifted), fitted.labels_)
    assert fitted.inertia_ == -fitted.score(shifted)


@pytest.mark.parametrize("offset", [1e8, 1e12])
def test_float64_far_from_the_origin_gives_the_right_clusters(offset):
    X, truth = blobs()
    assert same_partition(model().fit(X + offset).labels_, truth)


@pytest.mark.parametrize("outlier", [1e10, 1e30, 1e100, 1e153])
def test_a_huge_outlier_gets_a_cluster_of_its_own_or_a_refusal(outlier):
    X, truth = blobs()
    X = np.vstack([X, [[outlier, -outlier]]])
    try:
        fitted = model(4, n_init=5, tol=0.0).fit(X)
    except ValueError as error:
        assert "outlier" in str(error)
        return
    assert same_partition(fitted.labels_, np.append(truth, 3))
    # The best clustering costs what the three clusters cost without the outlier.
    assert fitted.inertia_ == pytest.approx(model(3).fit(X[:-1]).inertia_)


def test_values_too_far_apart_for_float64_are_refused():
    X, _ = blobs()
    X[5] = 1e300
    X[6] = 1e-20
    with pytest.raises(ValueError, match=r"1e-20 to 1e\+300"):
        model().fit(X)


def test_denormal_data_gives_the_right_clusters():
    X = np.array([[0.0], [5e-324], [1e-322], [1.05e-322]])
    with pytest.warns(RuntimeWarning, match="are outside the range of float64"):
        fitted = model(2).fit(X)
    assert same_partition(fitted.labels_, [0, 0, 1, 1])


def test_one_denormal_value_does_not_disturb_the_others():
    X, truth = blobs()
    X[0, 1] = 5e-324
    expected = X.copy()
    expected[0, 1] = 0.0
    a, b = model().fit(X), model().fit(expected)
    assert same_partition(a.labels_, truth)
    assert a.inertia_ == pytest.approx(b.inertia_, rel=1e-14)


@pytest.mark.parametrize(
    ("fit_scale", "far"),
    [(1.0, 1e10), (1.0, 1e160), (1e-200, 1e-190), (1e-200, 1.0), (1e140, 1e155), (1e-200, 1e200)],
)
@pytest.mark.parametrize("method", ["predict", "score", "transform"])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.filterwarnings("ignore:The squared distances:RuntimeWarning")
def test_new_points_far_outside_get_the_nearest_center_or_a_refusal(fit_scale, far, method, make):
    X = np.array([[-1.0, 0.0], [-2.0, 0.0], [1.0, 0.0], [2.0, 0.0]]) * fit_scale
    fitted = model(2).fit(X)
    right = fitted.predict(X[3:])[0]
    try:
        answer = getattr(fitted, method)(make(np.array([[far, 0.0], [-far, 0.0]])))
    except ValueError as error:
        assert "X" in str(error)
        return
    assert not np.isnan(answer).any()
    if method == "transform":
        np.testing.assert_allclose(answer, far, rtol=0.1)
    elif method == "predict" and far <= 1e15 * fit_scale:
        # Farther out the two distances round to the same number, an honest tie.
        assert answer.tolist() == [right, 1 - right]


def test_one_denormal_value_in_fit_does_not_spoil_prediction():
    X = np.array([[-1.0, 5e-324], [-2.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    fitted = model(2).fit(X)
    right = fitted.predict(X[3:])[0]
    assert fitted.predict([[1e10, 0.0], [-1e10, 0.0]]).tolist() == [right, 1 - right]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("far", [1e20, 1e200])
@pytest.mark.parametrize("smallest", [1.0, 5e-324])
def test_a_far_initial_center_is_refused_or_used(engine, far, smallest):
    X, truth = blobs()
    X = np.vstack([X, [[0.0, smallest]]])
    init = np.array([X[0], X[20], [far, far]])
    try:
        fitted = KMeans(3, init=init, engine=engine).fit(X)
    except ValueError as error:
        assert "init" in str(error)
        return
    assert same_partition(fitted.labels_, np.append(truth, 0))


@pytest.mark.parametrize("kind", [KMeans, TrimmedKMeans])
@pytest.mark.parametrize("in_parts", [False, True])
def test_weights_that_are_texts(kind, in_parts, tmp_path):
    """Neither the name of a column where there are none, nor numbers that are written out."""
    X, texts = np.random.default_rng(0).normal(size=(30, 2)), np.array(["1", "2", "3"] * 10)
    given, further = X, []
    if in_parts:
        da = pytest.importorskip("dask.array")
        given = da.from_array(X, chunks=(10, 2))
        further = [da.from_array(texts, chunks=10), da.from_array(texts.astype(object), chunks=10)]
    model = kind(2, init=X[:2]).fit(given)
    for call in (kind(2, init=X[:2]).fit, model.score):
        with pytest.raises(ValueError, match="names of columns are for Parquet and Arrow files"):
            call(given, sample_weight="w")
        for weights in (texts, texts.astype("S"), texts.tolist(), texts.astype(object), *further):
            with pytest.raises(
                ValueError, match=r"(must be|are no) real numbers: these (are|have)"
            ):
                call(given, sample_weight=weights)
    assert kind(2, init=X[:2]).fit(given, sample_weight=np.arange(1, 31).astype(object))


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (None, "X is None"),
        ({"a": [1, 2, 3]}, "X is a dict"),
        ([[1, 2], [3, 4], [5]], "row 0 has 2 entries, row 2 has 1"),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["a", "a"]), "2 columns named 'a'"),
        (pd.DataFrame(), "X has no columns"),
        (np.ones((3, 2), dtype=complex), "real and imaginary parts as columns"),
    ],
)
def test_what_is_no_table_is_named(X, said):
    for call in (KMeans(2).fit, KMeans(2).fit(blobs()[0]).predict):
        with pytest.raises((ValueError, TypeError), match=said):
            call(X)


def test_a_memory_limit_is_read_even_where_it_is_not_needed():
    with pytest.raises(ValueError, match="memory_limit must be a size like 2GB"):
        KMeans(2, memory_limit="lots").fit(blobs()[0])
