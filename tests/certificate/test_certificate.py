"""The certificate: true numbers, plain words, and never more than was verified."""

import json
import math
import pickle
import re
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from page_reader import points
from wolfmeans import KMeans, Status
from wolfmeans.bounds import LowerBound
from wolfmeans.bounds.proof import Proof
from wolfmeans.certificate.record import local_optimality
from wolfmeans.certificate.wording import LOCAL_OPTIMALITY, READINGS
from wolfmeans.fitting import fit

FIELDS = (
    *("gap", "movement", "decrease", "clarke_gap", "tol", "stop", "status", "iterations"),
    *("max_iterations", "inertia", "local_optimality", "lower_bound", "lower_bound_kind"),
    *("lower_bound_confidence", "ratio"),
)


def blobs(seed=0, n=300, d=6, k=4):
    rng = np.random.default_rng(seed)
    return (rng.uniform(-10, 10, size=(k, d))[:, None] + rng.normal(size=(k, n // k, d))).reshape(
        -1, d
    )


@pytest.mark.parametrize("k", [1, 3, 4, 120])
@pytest.mark.parametrize("certify", ["auto", "spectral", None])
def test_all_fields_are_there_and_in_the_dictionary_which_is_strict_json(k, certify):
    certificate = KMeans(k, random_state=0, bound=certify).fit(points()).certificate_
    as_dict = certificate.to_dict()
    for name in FIELDS:
        assert hasattr(certificate, name)
        assert name in as_dict
    assert json.loads(json.dumps(as_dict, allow_nan=False)) == as_dict
    assert as_dict["status"] == certificate.status.value
    assert as_dict["inertia"] == certificate.inertia
    assert "inf" not in str(certificate).replace("inertia", "")


def test_every_ending_has_a_reading():
    assert set(READINGS) == set(Status)


def test_numbers_are_those_of_the_last_evaluated_step():
    km = KMeans(4, random_state=0, stop="decrease", tol=1e-2, init="random", n_init=1).fit(blobs())
    last = km.trace_[-1]
    certificate = km.certificate_
    assert (certificate.gap, certificate.movement) == (last.gap, last.movement)
    assert certificate.decrease == certificate.gap + certificate.movement
    assert certificate.inertia == km.inertia_
    assert certificate.iterations + 1 == km.n_iter_


@pytest.mark.parametrize("stop", ["decrease", "gap"])
def test_what_the_rule_vouches_for_holds_at_the_returned_point(stop):
    for seed in range(20):
        X = np.random.default_rng(seed).uniform(size=(300, 2))
        settings = {"n_init": 1, "bound": None}
        km = KMeans(8, random_state=seed, tol=3e-3, stop=stop, init="random", **settings).fit(X)
        certificate = km.certificate_
        assert certificate.status.converged
        assert certificate.gap <= certificate.tol
        # Recompute: one more step from the returned centers gains g + m.
        again = KMeans(8, init=km.cluster_centers_, max_iter=1, tol=0.0, **settings)
        with pytest.warns(UserWarning) if not _is_fixed(km, X) else nullcontext():
            again.fit(X)
        assert certificate.inertia - again.certificate_.initial_sse == pytest.approx(
            certificate.movement, abs=1e-12
        )


def _is_fixed(km, X):
    means = np.array([X[km.labels_ == k].mean(axis=0) for k in range(km.n_clusters)])
    distances = ((X[:, None] - means[None]) ** 2).sum(axis=2)
    return bool((distances.argmin(axis=1) == km.labels_).all())


def test_a_limit_is_never_called_convergence():
    X = np.random.default_rng(0).uniform(size=(500, 2))
    with pytest.warns(UserWarning, match="Not converged: the iteration limit"):
        km = KMeans(20, random_state=0, max_iter=2, init="random", n_init=1).fit(X)
    certificate = km.certificate_
    assert not certificate.status.converged
    assert certificate.local_optimality == "not stationary"
    assert certificate.verdict.startswith("Not converged")
    assert "(above the stop threshold: " in str(certificate)


def test_a_fixed_point_with_clear_margins_is_a_strict_minimum():
    X = np.array([[0.0], [1.0], [9.0], [10.0]])
    km = KMeans(2, init=np.array([[0.0], [9.0]]), n_init=1, stop="stationary").fit(X)
    assert km.certificate_.local_optimality == "strict local minimum"


def test_every_level_has_a_reading():
    levels = {
        local_optimality(status, stationary=stationary, empty=empty, tied=tied)
        for status in Status
        for stationary in (True, False)
        for empty in (True, False)
        for tied in (True, False)
    }
    assert levels == set(LOCAL_OPTIMALITY)


def test_a_tie_is_not_called_a_strict_minimum():
    # {0, 2}, {4}: means 1 and 4; nothing moves. 2.5 would be a tie: put a light point there.
    X = np.array([[0.0], [2.0], [2.5], [4.0], [4.0]])
    weights = np.array([1.0, 1.0, 2.0**-60, 1.0, 1.0])
    km = KMeans(2, init=np.array([[1.0], [4.0]]), n_init=1, stop="stationary")
    km.fit(X, sample_weight=weights)
    assert km.certificate_.local_optimality == "stationary, with ties"


def test_text_has_one_line_a_fact_and_no_infinity():
    text = str(KMeans(4, random_state=0, bound="spectral").fit(blobs()).certificate_)
    lines = text.splitlines()
    assert lines[0] == "Certificate"
    assert len(lines) == 8
    assert all(len(line.split("  ")) >= 3 for line in lines[1:])
    assert "inf" not in text
    assert "no useful bound was found" in lines[-1]


def test_the_global_line_gives_the_distance_if_the_bound_is_useful():
    base = KMeans(4, random_state=0).fit(blobs()).certificate_
    near = replace(base, inertia=110.0, lower_bound=100.0)
    assert "within 10.0 %" in str(near) and "no clustering has inertia below 100" in str(near)
    far = replace(base, inertia=201.0, lower_bound=100.0)
    assert far.ratio == 2.01 and far.to_dict()["lower_bound"] == 100.0
    assert "no useful bound was found" in str(far) and "101" not in str(far).partition("global")[2]
    assert "its distance from the optimum is unknown" in far.verdict
    unsure = replace(near, lower_bound_confidence=0.95)
    assert "of the optimum with confidence 95 %" in str(unsure)
    assert "proven" not in unsure.verdict and "with confidence 95 %" in unsure.verdict
    assert replace(base, lower_bound=0.0).ratio is None


def test_advice_is_not_to_do_again_what_was_done():
    base = KMeans(4, random_state=0).fit(blobs()).certificate_
    weak = replace(base, inertia=150.0, lower_bound=100.0)
    useless = replace(base, inertia=500.0, lower_bound=100.0)
    unasked = KMeans(4, random_state=0, bound=None).fit(blobs()).certificate_
    assert "bound; certify(X) looks longer)" in str(weak)
    assert "no useful bound was found; certify(X) looks longer" in str(useless)
    assert "no lower bound was computed during the fit; certify(X) computes one" in str(unasked)
    assert "certify" not in str(weak.after_seconds(3.0))
    for certificate in (useless, replace(unasked, lower_bound_kind="spectral"), unasked):
        said = str(certificate.after_seconds(40.0).after_seconds(21.2))
        assert "found in 61 s; certify(X, seconds=S) with more seconds may find one" in said
    assert "found within a second; " in str(useless.after_seconds(0.25))


def test_seconds_of_certify_are_counted():
    X = blobs()
    km = KMeans(4, random_state=0).fit(X)
    assert km.certificate_.bound_seconds == 0.0
    spent = [km.certify(X, method=method).bound_seconds for method in ("spectral", "neighbours")]
    assert 0.0 < spent[0] < spent[1]
    assert km.certificate_ == replace(km.certificate_, bound_seconds=0.0)


def proof(n=3):
    """A proof in form; what it proves does not matter here."""
    return Proof(
        n_clusters=2,
        prices=np.zeros(n),
        level=0.0,
        vectors=np.zeros((n, 0)),
        heights=np.zeros(0),
        slack=np.zeros((n, n), dtype=np.float32),
        cuts=np.zeros((0, 3), dtype=np.int32),
        multipliers=np.zeros(0),
    )


def test_the_certificate_has_the_proof_of_the_bound_that_it_shows():
    certificate = KMeans(4, random_state=0, bound=None).fit(blobs()).certificate_
    inertia = certificate.inertia
    assert certificate.proof is None
    first, second = proof(), proof()
    shown = certificate.bounded_by(LowerBound(0.5 * inertia, "semidefinite", 1.0, 0.0, first))
    assert shown.proof is first
    weaker = LowerBound(0.4 * inertia, "semidefinite", 1.0, 0.0, second)
    assert shown.bounded_by(weaker).proof is first
    assert shown.bounded_by(replace(weaker, value=0.6 * inertia)).proof is second
    for confidence in (1.0, 0.95):
        better = LowerBound(0.6 * inertia, "other", confidence, 0.0)
        assert shown.bounded_by(better).proof is None
    # Of equal bounds the one with a proof is better, and it is kept.
    bare = certificate.bounded_by(LowerBound(inertia, "exact", 1.0, 0.0))
    with_proof = bare.bounded_by(LowerBound(2.0 * inertia / 2.0, "semidefinite", 1.0, 0.0, first))
    assert (with_proof.proof, with_proof.lower_bound_kind) == (first, "semidefinite")
    assert with_proof.bounded_by(LowerBound(inertia, "exact", 1.0, 0.0)).proof is first
    useless = LowerBound(0.0, "semidefinite", 1.0, 0.0, first)
    assert certificate.bounded_by(useless).proof is None


def test_a_proof_is_neither_printed_nor_compared_nor_in_the_dictionary():
    certificate = KMeans(4, random_state=0).fit(blobs()).certificate_
    proved = replace(certificate, proof=proof())
    assert proved == certificate and repr(proved) == repr(certificate)
    assert "proof" not in proved.to_dict()
    json.dumps(proved.to_dict())
    kept = pickle.loads(pickle.dumps(proved)).proof
    assert np.array_equal(kept.prices, proved.proof.prices)
    assert proved.in_units(10).proof is proved.proof


def test_a_bound_that_contradicts_the_result_is_dropped_and_said(monkeypatch):
    X = blobs()
    inertia = KMeans(4, random_state=0).fit(X).inertia_
    wrong = LowerBound(1.1 * inertia, "spectral", 1.0, 0.0)
    monkeypatch.setattr("wolfmeans.fitting.fit.best_bound", lambda *_, **__: wrong)
    certificate = KMeans(4, random_state=0, bound="spectral").fit(X).certificate_
    assert certificate.lower_bound is None
    assert "contradicts" in certificate.notes[0]


def test_a_proven_bound_tightens_the_guarantee():
    loose = KMeans(4, random_state=0, bound=None).fit(blobs()).certificate_
    assert loose.max_iterations == 1_000_000
    tight = KMeans(4, random_state=0, bound="spectral").fit(blobs()).certificate_
    budget = Fraction(tight.initial_sse) - Fraction(tight.lower_bound)
    assert tight.max_iterations == math.ceil(budget / Fraction(tight.tol)) < 1_000_000
    assert tight.iterations <= tight.max_iterations
    assert "(guaranteed to finish within 1,000,000)" in str(loose)
    assert f"(guaranteed to finish within {tight.max_iterations:,})" in str(tight)


def test_a_bound_with_confidence_is_named_so_and_tightens_nothing():
    certificate = KMeans(4, random_state=0, bound=None).fit(blobs()).certificate_
    likely = LowerBound(0.9 * certificate.inertia, "subsampled", 0.95, 0.0)
    bounded = certificate.bounded_by(likely, certificate.tol)
    assert bounded.max_iterations == certificate.max_iterations
    assert bounded.proven_bound == 0.0
    assert bounded.lower_bound_confidence == 0.95
    assert "with confidence 95 %" in str(bounded)
    assert "proven" not in bounded.verdict


def test_a_weaker_bound_changes_nothing():
    certificate = KMeans(4, random_state=0, bound="spectral").fit(blobs()).certificate_
    weaker = LowerBound(0.5 * certificate.lower_bound, "neighbours", 1.0, 0.0)
    assert certificate.bounded_by(weaker, certificate.tol) is certificate


def test_a_weaker_likely_bound_leaves_a_proof_a_proof():
    certificate = KMeans(4, random_state=0, bound="spectral").fit(blobs()).certificate_
    weaker = LowerBound(0.5 * certificate.lower_bound, "subsampled", 0.95, 0.0)
    assert certificate.lower_bound_confidence == 1.0
    assert certificate.bounded_by(weaker) is certificate


def test_proofs_are_kept_beside_likely_bounds():
    bare = KMeans(4, random_state=0, bound=None).fit(blobs()).certificate_
    shares = {"proof": (0.8, 1.0), "likely": (0.9, 0.95), "better proof": (0.85, 1.0)}
    steps, certificate = [], bare
    for share, confidence in shares.values():
        bound = LowerBound(share * bare.inertia, "any", confidence, 0.0)
        certificate = certificate.bounded_by(bound, bare.tol)
        steps.append(certificate.max_iterations)
        assert certificate.in_units(10).proven_bound == 1024 * certificate.proven_bound
    assert certificate.lower_bound == 0.9 * bare.inertia
    assert certificate.lower_bound_confidence == 0.95
    assert certificate.proven_bound == 0.85 * bare.inertia
    assert steps[0] == steps[1] > steps[2]


@pytest.mark.parametrize("second", [0.7, 0.9])
def test_the_larger_of_two_likely_bounds_holds_with_both_confidences(second):
    certificate = KMeans(4, random_state=0, bound=None).fit(blobs()).certificate_
    for share in (0.8, second):
        bound = LowerBound(share * certificate.inertia, "subsampled", 0.95, 0.0)
        certificate = certificate.bounded_by(bound)
    assert certificate.lower_bound == max(0.8, second) * certificate.inertia
    assert certificate.lower_bound_confidence == pytest.approx(0.9)


def test_a_likely_bound_above_the_result_is_dropped_without_alarm():
    certificate = KMeans(4, random_state=0, bound=None).fit(blobs()).certificate_
    failed = certificate.bounded_by(LowerBound(2 * certificate.inertia, "subsampled", 0.9, 0.0))
    assert failed.lower_bound is None
    assert "a bound with a confidence below 100% can do that" in failed.notes[0]


def test_a_bound_passes_the_inertia_by_rounding_only():
    certificate = KMeans(4, random_state=0, bound=None).fit(blobs()).certificate_
    inertia = certificate.inertia
    rounded = certificate.bounded_by(LowerBound(inertia * (1 + 5e-10), "any", 1.0, 0.0))
    assert (rounded.lower_bound, rounded.proven_bound, rounded.ratio) == (inertia, inertia, 1.0)
    wrong = certificate.bounded_by(LowerBound(inertia * (1 + 5e-9), "any", 1.0, 0.0))
    assert wrong.lower_bound is None
    assert "contradicts" in wrong.notes[0]


def test_a_bound_is_rounded_down_in_other_units():
    # The inertia stays a number of full precision, the bounds do not.
    base = KMeans(4, random_state=0, bound=None).fit(blobs()).certificate_
    bare = replace(base, **dict.fromkeys(("gap", "movement", "decrease", "clarke_gap", "tol"), 0.0))
    for digits in range(1, 100):
        bound = (1.0 + digits / 100) * 2.0**-60
        tiny = replace(bare, inertia=1.0, initial_sse=2.0, lower_bound=bound, proven_bound=bound)
        scaled = tiny.in_units(-1010)
        assert (scaled.unit_exponent, scaled.inertia) == (0, 2.0**-1010)
        assert 0 < Fraction(scaled.lower_bound) <= Fraction(bound) * Fraction(2) ** -1010
        assert scaled.proven_bound == scaled.lower_bound
    # Where the inertia itself would lose digits, units change instead.
    assert [tiny.in_units(e).unit_exponent for e in (-1022, -1023, 1022, 1023)] == [
        *(0, -1023, 0, 1023)
    ]


def test_columns_of_very_different_variance_are_pointed_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3)) * [1.0, 1e3, 1.0]
    mild = rng.normal(size=(100, 3)) * [1.0, 50.0, 1.0]
    assert KMeans(3, random_state=0).fit(mild).certificate_.notes == ()
    notes = KMeans(3, random_state=0).fit(X).certificate_.notes
    assert len(notes) == 1
    assert "column 1" in notes[0]
    assert "standardize" in notes[0]
    assert notes[0] in str(KMeans(3, random_state=0).fit(X).certificate_)
    assert KMeans(3, random_state=0).fit(X / X.std(axis=0)).certificate_.notes == ()


@pytest.mark.filterwarnings("ignore:The squared distances:RuntimeWarning")
def test_a_ratio_of_variances_that_float64_does_not_hold_is_a_number_all_the_same():
    X = np.random.default_rng(0).normal(size=(100, 3)) * [1e-100, 1.0, 1e100]
    (note,) = fit.scale_notes(X)
    assert re.search(r"column 2 is \d\.\de\+(399|400|401) times that of column 0", note)


def test_the_table_has_a_plain_reading_on_every_line():
    certificate = KMeans(4, random_state=0).fit(points()).certificate_
    text = str(certificate)
    for name, value, reading in certificate.rows():
        assert len(reading.split()) >= 3, name
        assert value in text and reading in text


def test_the_lower_bound_is_below_the_best_of_many_starts():
    X = points(60, d=5)
    certificate = KMeans(3, random_state=0, bound="spectral").fit(X).certificate_
    best = KMeans(3, init="random", n_init=50, random_state=0).fit(X).inertia_
    assert 0 < certificate.lower_bound <= best
    assert certificate.ratio == certificate.inertia / certificate.lower_bound


def test_without_a_useful_bound_the_certificate_says_so():
    certificate = KMeans(5, random_state=0, bound="spectral").fit(points(d=2)).certificate_
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


# --- trace -----------------------------------------------------------------------------------


def test_the_trace_becomes_a_table():
    model = KMeans(4, random_state=0).fit(points())
    table = model.trace_.to_pandas()
    assert {"sse", "gap", "movement", "moved", "empty", "seconds"} <= set(table.columns)
    assert table.index.name == "t"
    assert list(table.index) == list(range(len(model.trace_)))
    for name in table.columns:
        assert np.array_equal(table[name].to_numpy(), getattr(model.trace_, name))


def test_the_trace_is_a_ledger():
    model = KMeans(4, random_state=0).fit(points())
    trace = model.trace_
    np.testing.assert_allclose(trace.sse[1:], (trace.sse - trace.gap - trace.movement)[:-1])
    assert (np.minimum.accumulate(trace.gap) <= trace.rate_bound).all()
    assert trace.sse[-1] - trace.gap[-1] == pytest.approx(model.inertia_)
