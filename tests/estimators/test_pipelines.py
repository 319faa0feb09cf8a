"""Fitted Pipelines and the frame that went into them."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.cluster import KMeans as SklearnKMeans
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import wolfmeans
from wolfmeans import KMeans, TrimmedKMeans, plot, report
from wolfmeans.portrait import portrait


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    centers = np.array([[20.0, 1000.0], [40.0, 3000.0], [60.0, 2000.0]])
    rows = np.repeat(centers, 30, axis=0) + rng.normal(size=(90, 2)) * [2.0, 100.0]
    return pd.DataFrame(rows, columns=["age", "income"])


@pytest.fixture(scope="module", params=[KMeans, TrimmedKMeans])
def pipe(request, frame):
    return make_pipeline(StandardScaler(), request.param(3, random_state=0)).fit(frame)


def test_certify_takes_what_went_into_the_pipeline(pipe, frame):
    certificate = wolfmeans.certify(pipe, frame)
    assert certificate is pipe[-1].certificate_
    assert certificate.lower_bound <= certificate.inertia == pipe[-1].inertia_
    again = wolfmeans.certify(pipe[-1], pipe[:-1].transform(frame))
    assert again.lower_bound == pytest.approx(certificate.lower_bound, rel=1e-6)


def test_profiles_show_the_units_of_the_frame(pipe, frame):
    shown = portrait(pipe, frame)
    assert shown.names == ("age", "income") and shown.in_original_units
    labels = pipe[-1].labels_
    for k in range(3):
        np.testing.assert_allclose(shown.profiles.means[k], frame[labels == k].mean(), rtol=1e-12)
    np.testing.assert_allclose(shown.profiles.spread, frame[labels >= 0].std(ddof=0), rtol=1e-12)
    # The map shows what was clustered.
    prepared = portrait(pipe[-1], pipe[:-1].transform(frame))
    np.testing.assert_array_equal(shown.map.points, prepared.map.points)
    np.testing.assert_allclose(shown.profiles.strength, prepared.profiles.strength, rtol=1e-9)


def test_a_page_and_figures_take_a_pipeline(pipe, frame):
    text = report.page(pipe, frame).html
    assert "prepared by StandardScaler" in text and "income" in text
    for draw in (plot.map_figure, plot.sizes_figure, plot.profiles_figure, plot.margins_figure,
                 plot.replay_figure):  # fmt: skip
        assert draw(pipe, frame).axes
        assert draw(pipe[-1], pipe[:-1].transform(frame)).axes
    assert len(plot.replay_figure(pipe, frame, 1).axes) == 1
    with pytest.raises(TypeError, match=r"map_figure\(model, X\)"):
        plot.map_figure(pipe)


@pytest.mark.parametrize("call", [wolfmeans.certify, report.page, portrait, plot.map_figure])
def test_other_data_is_refused(call, pipe, frame):
    with pytest.raises(ValueError, match=r"not the data of the fit.*the Pipeline itself"):
        call(pipe[-1], frame.to_numpy())
    with pytest.raises(ValueError, match="not the data of the fit"):
        call(pipe, frame + 0.001 * np.arange(len(frame))[:, None])
    with pytest.raises(ValueError, match="rows"):
        call(pipe, frame[:50])
    other = make_pipeline(StandardScaler(), SklearnKMeans(3, n_init=1)).fit(frame)
    with pytest.raises(TypeError, match="last step of the Pipeline must be a wolfmeans KMeans"):
        call(other, frame)


def test_a_scan_takes_a_pipeline(frame):
    pipe = make_pipeline(StandardScaler(), KMeans(3, random_state=0)).fit(frame)
    found = wolfmeans.scan(frame, [2, 3], pipeline=pipe, random_state=0)
    same = wolfmeans.scan(pipe[:-1].transform(frame), [2, 3], random_state=0)
    assert [cell.inertia for cell in found] == [cell.inertia for cell in same]
    with pytest.raises(TypeError, match="pipeline=pipe"):
        wolfmeans.scan(pipe, frame)


def test_missing_values_are_shown_as_the_steps_give_them_back(frame):
    gaps = frame.copy()
    gaps.iloc[3, 1] = np.nan
    fill = FunctionTransformer(
        lambda X: X.fillna(X.mean()),
        inverse_func=lambda X: X,
        check_inverse=False,
        feature_names_out="one-to-one",
    )
    pipe = make_pipeline(fill, StandardScaler(), KMeans(3, random_state=0)).fit(gaps)
    shown = portrait(pipe, gaps)
    filled, labels = gaps.fillna(gaps.mean()), pipe[-1].labels_
    np.testing.assert_allclose(shown.profiles.means[0], filled[labels == 0].mean(), rtol=1e-9)


def test_without_a_way_back_the_prepared_columns_are_shown(frame):
    mixed = frame.assign(town=["a", "b", "c"] * 30)
    encode = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["town"]), remainder=StandardScaler()
    )
    pipe = make_pipeline(encode, KMeans(3, random_state=0)).fit(mixed)
    shown = portrait(pipe, mixed)
    assert not shown.in_original_units and len(shown.names) == 5
    assert shown.names[0] == "onehotencoder__town_a"
    impute = make_pipeline(SimpleImputer(), KMeans(3, random_state=0)).fit(frame)
    assert portrait(impute, frame).in_original_units


class Rounding(TransformerMixin, BaseEstimator):
    """Gives other last digits in `transform`, as some decompositions do."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def fit_transform(self, X, y=None):
        self.fit(X)
        return np.asarray(X) * (1 + 1e-12)

    def transform(self, X):
        return np.asarray(X)


@pytest.mark.parametrize("call", [wolfmeans.certify, report.page])
def test_steps_that_round_differently_are_named(call, frame):
    pipe = make_pipeline(Rounding(), KMeans(3, random_state=0)).fit(frame)
    with pytest.raises(ValueError, match="Rounding rounded it differently"):
        call(pipe, frame)


# --- Errors about texts and dates -------------------------------------------------------------


TOWNS, DAYS = ["x", "3", "y", "z"], pd.date_range("2026-01-01", periods=4)


@pytest.mark.parametrize("of", [pd.DataFrame, pl.DataFrame, pa.table])
def test_errors_name_the_column_of_texts_and_dates(of):
    towns = of({"age": [1.0, 2.0, 3.0, 4.0], "town": TOWNS})
    with pytest.raises(ValueError, match=r"text in column 1 \('town'\), first 'x' at row 0"):
        KMeans(2).fit(towns)
    days = of({"age": [1.0, 2.0, 3.0, 4.0], "day": DAYS})
    with pytest.raises(TypeError, match=r"dates or times in column 1 \('day'\)"):
        KMeans(2).fit(days)


def test_errors_about_arrays_have_the_number_of_the_column():
    with pytest.raises(ValueError, match=r"text in column 1, first 'b' at row 2"):
        KMeans(2).fit(np.array([[1, 2], [3, 4], [5, "b"]], dtype=object))
    with pytest.raises(ValueError, match=r"text in column 0, first 'a' at row 1"):
        KMeans(2).fit([["1", "2"], ["a", "4"]])
