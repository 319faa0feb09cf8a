"""Faults of weights and initial centers."""

import numpy as np
import pandas as pd
import pytest
from broken import fails_when
from engines import ALL_ENGINES, ENGINES, small
from samples import assert_true, blobs, distances
from scipy import sparse


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


@fails_when("names_of_init_ignored")
def test_init_whose_columns_are_in_another_order_is_refused():
    frame = pd.DataFrame(blobs()[0], columns=["height", "weight"])
    for init in (frame[["weight", "height"]][::20], frame[::20].set_axis(["a", "b"], axis=1)):
        with pytest.raises(ValueError, match=r"columns of init.*height"):
            small("cpu", init=init).fit(frame)
    named, plain = small("cpu", init=frame[::20]), small("cpu", init=frame[::20].to_numpy())
    assert named.fit(frame).inertia_ == plain.fit(frame).inertia_


@fails_when("seeders_may_write", engine="cpu", wrap=np.asarray)
@fails_when("seeders_may_write", engine="cpu", wrap=sparse.csr_array)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array])
def test_a_function_that_makes_seeds_cannot_change_the_points(engine, wrap):
    X, _ = blobs()
    given = wrap(X.copy())

    def scaling(X, n_clusters, random_state):
        X *= 2.0
        return X[:3]

    def nulling(X, n_clusters, random_state):
        (X.data if sparse.issparse(X) else X)[:] = np.nan
        return np.eye(3, 2)

    for init in (scaling, nulling):
        with pytest.raises(ValueError, match=r"read-only"):
            small(engine, init=init, n_init=1).fit(given)
    assert np.array_equal(given.toarray() if sparse.issparse(given) else given, X)


@fails_when("weights_unchecked", raises=TypeError)
def test_weights_that_are_times_are_refused():
    X, _ = blobs()
    with pytest.raises(TypeError, match=r"sample_weight.*times"):
        small("cpu").fit(X, sample_weight=np.ones(len(X)).astype("timedelta64[s]"))


@fails_when("init_unchecked", raises=TypeError)
def test_init_of_dates_is_refused():
    X, _ = blobs()
    with pytest.raises(TypeError, match=r"init has dates or times"):
        small("cpu", init=X[::20].astype("datetime64[D]")).fit(X)


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
