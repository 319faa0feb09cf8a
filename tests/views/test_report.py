"""What people look at: certificate and trace."""

import json

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from wolfmeans import KMeans


def points(n=120, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) * 2 + 3.0 * rng.integers(0, 4, size=(n, 1))


@pytest.fixture(scope="module")
def model():
    return KMeans(4, random_state=0).fit(points())


# --- certificate -----------------------------------------------------------------------------

NAMES = (
    "gap movement decrease clarke_gap tol stop status iterations max_iterations inertia "
    "local_optimality lower_bound lower_bound_kind lower_bound_confidence ratio"
)


def test_the_certificate_has_every_promised_field(model):
    for name in NAMES.split():
        assert hasattr(model.certificate_, name), name
        assert name in model.certificate_.to_dict(), name


@pytest.mark.parametrize("k", [1, 3, 4, 120])
@pytest.mark.parametrize("certify", ["auto", "spectral", None])
def test_the_dictionary_of_the_certificate_is_strict_json(k, certify):
    certificate = KMeans(k, random_state=0, certify=certify).fit(points()).certificate_
    text = json.dumps(certificate.to_dict(), allow_nan=False)
    again = json.loads(text)
    assert again == certificate.to_dict()
    assert again["inertia"] == certificate.inertia
    assert "inf" not in str(certificate).replace("inertia", "")


def test_the_table_has_a_plain_reading_on_every_line(model):
    text = str(model.certificate_)
    for name, value, reading in model.certificate_.rows():
        assert len(reading.split()) >= 3, name
        assert value in text and reading in text


def test_the_lower_bound_is_below_the_best_of_many_starts():
    X = points(60, d=5)
    certificate = KMeans(3, random_state=0, certify="spectral").fit(X).certificate_
    best = KMeans(3, init="random", n_init=50, random_state=0).fit(X).inertia_
    assert 0 < certificate.lower_bound <= best
    assert certificate.ratio == certificate.inertia / certificate.lower_bound


def test_without_a_useful_bound_the_certificate_says_so():
    certificate = KMeans(5, random_state=0).fit(points(d=2)).certificate_
    assert certificate.lower_bound is None
    assert certificate.ratio is None
    assert "unknown" in str(certificate)


def test_a_certificate_with_empty_clusters_does_not_call_them_good():
    X = np.vstack([points(30), points(30)])
    init = np.vstack([X[:2], np.full((1, 3), 1e4)])
    with pytest.warns(ConvergenceWarning, match="empty"):
        certificate = KMeans(3, init=init, empty="keep").fit(X).certificate_
    assert certificate.empty_clusters == 1
    assert certificate.candidate_decrease > 0
    assert certificate.local_optimality == "stationary, with empty clusters"
    assert "empty" in str(certificate)


def test_columns_of_very_different_variance_are_told():
    X = points() * np.array([1.0, 1e3, 1.0])
    assert "column 1" in str(KMeans(3, random_state=0).fit(X).certificate_)
    assert not KMeans(3, random_state=0).fit(points()).certificate_.notes


# --- trace -----------------------------------------------------------------------------------


def test_the_trace_becomes_a_table(model):
    table = model.trace_.to_pandas()
    assert {"sse", "gap", "movement", "moved", "empty", "seconds"} <= set(table.columns)
    assert table.index.name == "t"
    assert list(table.index) == list(range(len(model.trace_)))
    for name in table.columns:
        assert np.array_equal(table[name].to_numpy(), getattr(model.trace_, name))


def test_the_trace_is_a_ledger(model):
    trace = model.trace_
    np.testing.assert_allclose(trace.sse[1:], (trace.sse - trace.gap - trace.movement)[:-1])
    assert (np.minimum.accumulate(trace.gap) <= trace.rate_bound).all()
    assert trace.sse[-1] - trace.gap[-1] == pytest.approx(model.inertia_)
