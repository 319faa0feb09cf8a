"""Faults of X: what is no data is refused with its place, what is data is taken as it is."""

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from broken import fails_when
from engines import ALL_ENGINES, ENGINES, small
from samples import assert_true, blobs
from scipy import sparse

from wolfmeans import KMeans, TrimmedKMeans

ESTIMATORS = {
    "KMeans": lambda k=3, **more: KMeans(k, random_state=0, **more),
    "TrimmedKMeans": lambda k=3, **more: TrimmedKMeans(k, trim=2, random_state=0, **more),
}
METHODS = ("fit", "predict", "transform", "score")


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


@pytest.mark.skipif(find_spec("polars") is None, reason="needs polars")
@fails_when("lazy_tables_are_objects", raises=ValueError)
def test_tables_that_are_not_computed_yet_are_refused():
    import polars

    frame = polars.DataFrame(blobs()[0], schema=["height", "weight"])
    model = small("cpu").fit(frame)
    for call in (model.fit, model.predict, model.score):
        with pytest.raises(TypeError, match=r"use X\.collect\(\)"):
            call(frame.lazy())


@fails_when("masks_are_dropped")
def test_masked_entries_of_x_are_refused():
    X, _ = blobs()
    with pytest.raises(ValueError, match="masked"):
        small("cpu").fit(np.ma.array(X, mask=X > 20))


DATES = np.array([["NaT"], ["2020-01-01"], ["2020-01-02"], ["2020-02-01"]], dtype="datetime64[D]")
TEMPORAL = {
    "dates": DATES,
    "durations": DATES - DATES[1],
    "boxed dates": np.array([[np.datetime64("2020-01-01")], [1.0], [2.0], [3.0]], dtype=object),
    "a list": [list(row) for row in DATES],
    "a column": pd.DataFrame({"a": range(4), "b": pd.to_datetime(DATES[:, 0])}),
    "a column with a zone": pd.DataFrame({"b": pd.to_datetime(DATES[:, 0]).tz_localize("UTC")}),
}


@fails_when("dates_are_numbers", kind="dates")
@pytest.mark.parametrize("kind", TEMPORAL)
def test_dates_and_times_missing_or_not_are_refused(kind):
    with pytest.raises(TypeError, match="dates or times"):
        small("cpu", k=2).fit(TEMPORAL[kind])


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
    model = small(engine, k=2).fit(X - X.min())
    assert model.inertia_ == 1.0
    for call in (model.predict, model.transform, model.score):
        for given in (X, sparse.csr_array(X), pd.DataFrame(X), X.tolist()):
            with pytest.raises(ValueError, match=r"integers beyond 2\*\*53"):
                call(given)


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
