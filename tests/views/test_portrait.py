"""Portraits: every number against an independent computation, every frame against a fit."""

import dataclasses
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import sklearn.cluster
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import wolfmeans
from page_reader import fit_quietly
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.fitting import fit
from wolfmeans.fitting.search import Effort
from wolfmeans.views.portrait import map as maps
from wolfmeans.views.portrait import portrait
from wolfmeans.views.portrait import replay as replays
from wolfmeans.views.portrait.profiles import zero_if_rounding


def points(n=400, d=4, seed=0):
    """Overlapping clusters, so that a run takes more than a few steps."""
    rng = np.random.default_rng(seed)
    spread = np.linspace(0.5, 3, d)
    return rng.normal(size=(n, d)) * spread + 3.0 * rng.integers(0, 4, size=(n, 1))


def arrays_of(record):
    """All arrays and numbers of a portrait, by name."""
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        for part in value if isinstance(value, tuple) else [value]:
            if dataclasses.is_dataclass(part):
                yield from arrays_of(part)
            elif isinstance(part, (np.ndarray, int, float)):
                yield field.name, np.asarray(part)


# --- clusters and profiles -------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["float64", "float32", "csr", "far", "cut short"])
def test_profiles_are_those_of_plain_numpy(kind, weighted):
    X = points()
    weights = np.random.default_rng(1).integers(0, 3, len(X)) * 0.5 if weighted else None
    given = {
        "float64": X,
        "float32": X.astype(np.float32),
        "csr": sparse.csr_array(np.where(np.abs(X) > 1, X, 0.0)),
        "far": X + 1e8,
        "cut short": X,
    }[kind]
    settings = {"init": X[:4], "n_init": 1, "max_iter": 1} if kind == "cut short" else {}
    km = fit_quietly(KMeans(4, random_state=0, **settings), given, sample_weight=weights)
    found = portrait(km, given, sample_weight=weights, replay=False)
    dense = (given.toarray() if kind == "csr" else given).astype(np.float64)
    dense = dense - 1e8 if kind == "far" else dense
    offset = 1e8 if kind == "far" else 0.0
    w = np.ones(len(X)) if weights is None else weights
    close = {"rtol": 1e-7 if kind == "far" else 1e-10, "atol": 1e-7 if kind == "far" else 1e-10}
    overall = np.average(dense, axis=0, weights=w)
    variance = np.average((dense - overall) ** 2, axis=0, weights=w)
    means = np.array(
        [np.average(dense[km.labels_ == k], axis=0, weights=w[km.labels_ == k]) for k in range(4)]
    )
    shares = np.bincount(km.labels_, weights=w) / w.sum()
    between = shares @ (means - overall) ** 2
    profiles = found.profiles
    np.testing.assert_allclose(profiles.overall - offset, overall, **close)
    np.testing.assert_allclose(profiles.spread, np.sqrt(variance), **close)
    np.testing.assert_allclose(profiles.means - offset, means, **close)
    np.testing.assert_allclose(profiles.deviation, (means - overall) / np.sqrt(variance), **close)
    np.testing.assert_allclose(profiles.strength, between / variance, **close)
    assert list(profiles.order) == sorted(range(4), key=lambda j: -(between / variance)[j])
    centers = km.cluster_centers_.astype(np.float64) - offset
    squares = w * ((dense - centers[km.labels_]) ** 2).sum(axis=1)
    apart = np.sqrt(((centers[:, None] - centers) ** 2).sum(axis=2)) + np.diag([np.inf] * 4)
    for k, cluster in enumerate(found.clusters):
        mine = km.labels_ == k
        assert cluster.index == k and cluster.points == mine.sum()
        assert cluster.weight == pytest.approx(w[mine].sum())
        assert cluster.share == pytest.approx(shares[k])
        assert cluster.sse == pytest.approx(squares[mine].sum(), rel=1e-6)
        assert cluster.radius == pytest.approx(np.sqrt(cluster.sse / w[mine].sum()))
        assert cluster.nearest == apart[k].argmin()
        assert cluster.distance == pytest.approx(apart[k].min(), rel=1e-6)
        assert cluster.margin == pytest.approx(found.margins.values[mine].mean())
    assert sum(cluster.sse for cluster in found.clusters) == pytest.approx(km.inertia_, rel=1e-6)
    assert found.weighted is weighted
    assert found.left_out == 0


@pytest.mark.parametrize(
    ("dtype", "factor"),
    [(np.float64, 1.0), (np.float64, 2.0**-900), (np.float64, 2.0**900), (np.float32, 1.0)],
)
def test_means_that_are_rounding_are_told_from_others(dtype, factor):
    rng = np.random.default_rng(1)
    # Lengths of 215 mm that vary by 0.4 mm have a mean of 500 spreads. scikit-learn rounds the mean
    # to float32 before it subtracts it, so there a mean that large leaves something real.
    former = np.array([0.0, 3.0, -25.0, 500.0 if dtype == np.float64 else 30.0])
    X = rng.normal(size=(400, 4)) + former
    X = (StandardScaler().fit_transform(X.astype(dtype)) * factor).astype(dtype)
    overall = (X / factor).mean(axis=0, dtype=np.float64)
    assert (overall != 0).all()
    profiles = portrait(fit_quietly(KMeans(3, random_state=0), X), X).profiles
    # The numbers are what was computed; only what shows them leaves rounding out.
    np.testing.assert_allclose(profiles.overall / factor, overall, rtol=0, atol=1e-15)
    shown = zero_if_rounding(profiles)
    assert shown.overall.tolist() == [0.0] * 4
    assert np.array_equal(shown.means, profiles.means)
    # A mean that the data has is shown, however small.
    shift = 1e-5 if dtype == np.float32 else 1e-11
    moved = (X / dtype(factor) + dtype(shift)) * dtype(factor)
    profiles = portrait(fit_quietly(KMeans(3, random_state=0), moved), moved).profiles
    shown = zero_if_rounding(profiles)
    assert np.array_equal(shown.overall, profiles.overall)
    np.testing.assert_allclose(shown.overall / factor, shift, rtol=0.2)


def test_the_mean_of_float32_columns_is_what_it_is():
    """It is 100, about 1e-4 standard deviations: small, but not rounding."""
    column = np.linspace(-1, 1, 2001) * 1.7e6 + 100
    X = np.column_stack([column, points(2001)[:, 0]]).astype(np.float32)
    found = portrait(KMeans(3, random_state=0).fit(X), X, replay=False)
    assert found.profiles.overall[0] == pytest.approx(100, rel=1e-3)
    assert zero_if_rounding(found.profiles).overall[0] == found.profiles.overall[0]


def test_the_mean_of_a_constant_column_is_shown_as_it_is():
    X = np.column_stack([points(), np.full(400, 1e-300), np.zeros(400)])
    found = portrait(KMeans(3, random_state=0).fit(X), X, replay=False)
    assert found.profiles.rounding[4:].tolist() == [0.0, 0.0]
    assert zero_if_rounding(found.profiles).overall[4:].tolist() == [1e-300, 0.0]


def test_trimmed_points_are_outside_of_all_sums():
    X = points()
    X[::40] += 1e3
    model = TrimmedKMeans(3, trim=10, random_state=0).fit(X)
    found = portrait(model, X)
    inside = model.labels_ >= 0
    assert found.left_out == 10 and (found.map.labels == -1).sum() == 10
    np.testing.assert_allclose(found.profiles.overall, X[inside].mean(axis=0))
    np.testing.assert_allclose(found.profiles.spread, X[inside].std(axis=0))
    assert sum(c.sse for c in found.clusters) == pytest.approx(model.inertia_)
    assert sum(c.share for c in found.clusters) == pytest.approx(390 / 400)
    assert found.margins.mean == pytest.approx(found.margins.values[inside].mean(), rel=1e-12)
    assert np.array_equal(found.replay.frames[-1].labels, model.labels_)


def test_a_point_kept_in_part_counts_in_part():
    X = points()
    weights = np.full(len(X), 2.0)
    weights[np.abs(X - X.mean(axis=0)).sum(axis=1).argmin()] = 1.0
    model = TrimmedKMeans(3, trim=5, random_state=0).fit(X, sample_weight=weights)
    assert ((model.kept_ > 0) & (model.kept_ < 1)).any()
    found = portrait(model, X, sample_weight=weights)
    assert sum(c.sse for c in found.clusters) == pytest.approx(model.inertia_)
    assert sum(c.weight for c in found.clusters) == pytest.approx(794)


# --- map -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "d", [2, 5, 129, *(pytest.param(d, marks=pytest.mark.long) for d in (128, 300))]
)
@pytest.mark.parametrize("kind", ["dense", "csr", "weighted", "few rows"])
def test_the_map_is_that_of_a_singular_value_decomposition(d, kind):
    rng = np.random.default_rng(d)
    n = 12 if kind == "few rows" else 500
    X = rng.normal(size=(n, d)) * np.concatenate([[9.0, 5.0], np.linspace(2, 1, d - 2)])
    X = X @ np.linalg.qr(rng.normal(size=(d, d)))[0] + 3
    weights = rng.integers(0, 4, n) * 1.0 if kind == "weighted" else None
    given = sparse.csr_array(X) if kind == "csr" else X
    km = fit_quietly(KMeans(3, random_state=0, bound=None), given, sample_weight=weights)
    found = portrait(km, given, sample_weight=weights, replay=False).map
    w = np.ones(n) if weights is None else weights
    mean = np.average(X, axis=0, weights=w)
    values, axes = np.linalg.svd((X - mean) * np.sqrt(w)[:, None])[1:]
    axes = axes[:2] * np.sign(axes[[0, 1], np.abs(axes[:2]).argmax(axis=1)])[:, None]
    np.testing.assert_allclose(found.points, (X - mean) @ axes.T, atol=2e-6)
    np.testing.assert_allclose(found.centers, (km.cluster_centers_ - mean) @ axes.T, atol=2e-6)
    np.testing.assert_allclose(found.explained, values[:2] ** 2 / (values**2).sum(), rtol=1e-8)
    assert np.array_equal(found.labels, km.labels_)
    assert not found.sampled and np.array_equal(found.rows, np.arange(n))


def test_the_plane_of_very_many_points_comes_from_some_of_them(monkeypatch):
    X = points(5000)
    km = KMeans(3, random_state=0).fit(X)
    whole = portrait(km, X, replay=False).map
    monkeypatch.setattr(maps, "_MOST_COORDINATES", 1000 * X.shape[1])
    some = portrait(km, X, replay=False).map
    assert not np.array_equal(some.points, whole.points)
    np.testing.assert_allclose(some.points, whole.points, atol=1.5)
    np.testing.assert_allclose(some.explained, whole.explained, atol=0.05)


# --- sample and margins ----------------------------------------------------------------------


def test_the_sample_is_deterministic_and_misses_no_cluster():
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(5000, 2)), [[90.0, 0.0]], [[0.0, 90.0]], [[90.0, 90.0]]])
    km = KMeans(4, random_state=0).fit(X)
    found = portrait(km, X, at_most=200, replay=False)
    assert len(found.map.rows) == 200 and found.map.sampled and found.map.n_points == 5003
    assert (np.diff(found.map.rows) > 0).all()
    assert set(found.map.labels) == {0, 1, 2, 3}
    assert np.array_equal(found.map.labels, km.labels_[found.map.rows])
    again = portrait(km, X, at_most=200, replay=False)
    assert np.array_equal(again.map.rows, found.map.rows)
    other = portrait(km, X, at_most=200, replay=False, random_state=1)
    assert not np.array_equal(other.map.rows, found.map.rows)
    fewest = portrait(km, X, at_most=1, replay=False)
    assert sorted(fewest.map.labels) == [0, 1, 2, 3]
    everything = portrait(km, X, replay=False, at_most=5003)
    place = np.searchsorted(everything.map.rows, found.map.rows)
    np.testing.assert_allclose(found.map.points, everything.map.points[place], atol=1e-9)


def test_margins_are_shares_of_the_distance_to_the_second_center():
    X = points()
    km = KMeans(5, random_state=0).fit(X)
    margins = portrait(km, X, replay=False).margins
    distances = np.sort(np.sqrt(((X[:, None] - km.cluster_centers_) ** 2).sum(axis=2)), axis=1)
    expected = 1 - distances[:, 0] / distances[:, 1]
    np.testing.assert_allclose(margins.values, expected, atol=1e-12)
    assert margins.mean == pytest.approx(expected.mean())
    assert np.array_equal(margins.labels, km.labels_)


def test_margins_at_the_borders():
    X = np.array([[0.0], [2.0], [4.0]])
    km = fit_quietly(KMeans(2, init=[[0.0], [4.0]], max_iter=1, empty="keep"), X)
    assert km.cluster_centers_.ravel().tolist() == [1.0, 4.0]
    values = portrait(km, X).margins.values
    np.testing.assert_allclose(values, [0.75, 0.5, 1.0])
    twins = fit_quietly(KMeans(2, init=[[1.0], [1.0]], empty="keep"), np.ones((3, 1)))
    assert portrait(twins, np.ones((3, 1))).margins.values.tolist() == [0.0] * 3


# --- replay ----------------------------------------------------------------------------------

RUNS = {
    "plain": {},
    "many starts": {"n_init": 5, "init": "random"},
    "gap": {"stop": "gap", "tol": 1e-3, "tol_scale": "total"},
    "shift": {"stop": "shift", "tol": 1e-3},
    "to the end": {"stop": "stationary", "max_iter": None},
    "reference": {"engine": "reference"},
    "bounds": {"algorithm": "bounds"},
}


@pytest.mark.parametrize("settings", RUNS)
@pytest.mark.parametrize("kind", ["float64", "float32", "csr", "huge"])
def test_each_frame_is_the_fit_with_so_many_iterations(settings, kind):
    X = points()
    if kind == "csr":
        X = sparse.csr_array(np.where(np.abs(X) > 1, X, 0.0))
    elif kind == "float32":
        X = X.astype(np.float32)
    elif kind == "huge":
        X = np.ldexp(X, 700)
    km = fit_quietly(KMeans(5, random_state=2, **RUNS[settings]), X)
    found = portrait(km, X)
    frames = found.replay.frames
    axes = _axes(found, X, km)
    assert found.replay_note == replays.SAME
    assert [frame.t for frame in frames] == list(range(len(frames)))
    assert (
        found.replay.path_note
        == f"iterations 0 to {len(frames) - 1}; {len(frames)} of {len(frames)} shown"
    )
    assert np.array_equal(frames[-1].labels, km.labels_)
    assert np.array_equal(frames[-1].centers, found.map.centers)
    assert frames[-1].sse == km.certificate_.inertia
    assert len(frames) == len(km.trace_) + 1
    for frame in frames[1:]:
        parameters = {**km.get_params(), "init": km.initial_centers_, "n_init": 1}
        stopped = fit_quietly(KMeans(**{**parameters, "max_iter": frame.t, "bound": None}), X)
        record = km.trace_[frame.t - 1]
        assert np.array_equal(frame.labels, stopped.labels_)
        np.testing.assert_allclose(frame.centers, axes(stopped.cluster_centers_), rtol=1e-9)
        assert frame.sse == pytest.approx(stopped.certificate_.inertia, rel=1e-9)
        assert (frame.gap, frame.moved) == (record.gap, record.moved)
        assert frame.title == f"iteration {frame.t}"
    first = frames[0]
    assert first.title == "the start" and np.isnan(first.gap) and first.moved == 0
    np.testing.assert_allclose(first.centers, axes(km.initial_centers_), rtol=1e-9)
    assert not first.changed.any()
    for before, after in pairwise(frames):
        assert np.array_equal(after.changed, after.labels != before.labels)
        assert after.changed.sum() == after.moved


def _axes(found, X, km):
    """Return the projection onto the map, found from the points alone."""
    dense = X.toarray() if sparse.issparse(X) else X
    dense = dense.astype(np.float64)
    mean = dense.mean(axis=0)
    size = np.abs(dense).max()
    solved = np.linalg.lstsq((dense - mean) / size, found.map.points / size, rcond=None)[0]
    return lambda centers: (centers - mean) @ solved


@pytest.mark.parametrize("empty", ["farthest", "best", "keep", "admissible"])
def test_runs_with_empty_clusters_are_replayed(empty):
    X = points()
    init = np.vstack([X[:3], np.full((2, 4), 500.0)])
    km = fit_quietly(KMeans(5, init=init, n_init=1, empty=empty), X)
    found = portrait(km, X)
    assert found.replay_note == replays.SAME
    assert np.array_equal(found.replay.frames[-1].labels, km.labels_)


def test_the_replay_of_a_sample_is_the_sample_of_the_replay():
    X = points()
    km = KMeans(5, random_state=2).fit(X)
    whole, some = portrait(km, X), portrait(km, X, at_most=50)
    for all_rows, rows in zip(whole.replay.frames, some.replay.frames, strict=True):
        assert np.array_equal(rows.labels, all_rows.labels[some.map.rows])
        assert np.array_equal(rows.centers, all_rows.centers)
        assert (rows.sse, rows.moved) == (all_rows.sse, all_rows.moved)


def test_a_polished_model_gets_a_last_frame():
    X = points(60)
    km = KMeans(8, init=X[:8], n_init=1, polish="swap", random_state=0).fit(X)
    assert km.certificate_.polish.swaps + km.certificate_.polish.moves > 0
    found = portrait(km, X)
    *before, last = found.replay.frames
    plain = KMeans(8, init=X[:8], n_init=1).fit(X)
    assert np.array_equal(before[-1].labels, plain.labels_)
    assert last.title == "after polishing" and last.sse == km.inertia_ < before[-1].sse
    assert np.array_equal(last.labels, km.labels_)
    assert last.moved == (plain.labels_ != km.labels_).sum() == last.changed.sum()
    assert last.gap == km.certificate_.gap
    assert np.array_equal(last.centers, found.map.centers)
    assert found.replay_note == replays.POLISHED
    assert "of" in found.replay.path_note


def test_a_search_is_replayed_from_what_it_found(monkeypatch):
    X = points(600)
    better = KMeans(12, n_init=20, random_state=1).fit(X)
    effort = Effort(0.1, 1, 1, 1, 0, before=1.0, after=0.5)
    monkeypatch.setattr(fit, "search", lambda *_, **__: (better.initial_centers_, effort))
    km = KMeans(12, init=X[:12], n_init=1, effort=1000.0).fit(X)
    assert km.certificate_.effort.gained > 0
    frames = portrait(km, X).replay.frames
    assert np.array_equal(frames[0].labels, portrait(better, X).replay.frames[0].labels)
    assert np.array_equal(frames[-1].labels, km.labels_)


def test_the_arrays_have_the_types_that_are_promised():
    X = points().astype(np.float32)
    found = portrait(KMeans(3, random_state=0).fit(X), X)
    frame = found.replay.frames[0]
    for arrays, dtype in (
        ((found.map.rows, found.margins.rows, found.profiles.order), np.int64),
        ((found.map.labels, found.margins.labels, frame.labels), np.int32),
        ((found.map.points, found.map.centers, found.margins.values, frame.centers), np.float64),
        ((found.profiles.means, found.profiles.overall, found.profiles.deviation), np.float64),
        ((found.profiles.spread, found.profiles.rounding), np.float64),
        ((frame.changed,), np.bool_),
    ):
        assert all(array.dtype == dtype for array in arrays)


def test_a_polish_that_found_nothing_adds_no_frame():
    X = np.array([[0.0, 0], [0, 1], [9, 0], [9, 1]])
    km = KMeans(2, random_state=0, polish="hartigan").fit(X)
    assert portrait(km, X).replay_note == replays.SAME


def test_a_run_that_cannot_be_repeated_ends_with_the_model():
    X = points()
    km = KMeans(5, init=X[:5], n_init=1).fit(X)
    assert km.n_iter_ > 3
    found = portrait(km.set_params(max_iter=2), X)
    assert found.replay_note == replays.ELSEWHERE
    assert found.replay.frames[-1].title == "the model"
    assert np.array_equal(found.replay.frames[-1].labels, km.labels_)


@pytest.mark.parametrize(
    "ended_by", [{"time_limit": 0.0}, {"callback": lambda record: record.t == 2}]
)
def test_runs_that_a_clock_or_a_caller_ended_are_replayed(ended_by):
    X = points()
    km = fit_quietly(KMeans(5, random_state=2, **ended_by), X)
    assert not km.certificate_.status.converged
    found = portrait(km, X)
    assert found.replay_note == replays.SAME
    assert len(found.replay.frames) == len(km.trace_) + 1


def test_long_runs_are_thinned():
    # A long line of points, along which borders creep.
    X = np.linspace(0, 1, 4000)[:, None]
    km = fit_quietly(
        KMeans(12, init=X[:12], n_init=1, stop="stationary", max_iter=None, bound=None), X
    )
    assert len(km.trace_) > 150
    replay = portrait(km, X, at_most=100).replay
    assert 50 <= len(replay.frames) <= 60
    times = [frame.t for frame in replay.frames]
    assert times[:20] == list(range(20))
    assert times[-1] == len(km.trace_)
    assert (np.diff(times) > 0).all()
    assert replay.path_note == f"iterations 0 to {times[-1]}; {len(times)} of {times[-1] + 1} shown"
    stopped = fit_quietly(
        KMeans(12, init=X[:12], n_init=1, stop="stationary", max_iter=times[40], bound=None), X
    )
    shown = portrait(km, X, at_most=100).map.rows
    assert np.array_equal(replay.frames[40].labels, stopped.labels_[shown])


def test_without_a_start_there_is_no_replay_and_it_is_said(tmp_path):
    X = points()
    km = KMeans(3, random_state=0).fit(X)
    assert portrait(km, X, replay=False).replay is None
    assert portrait(km, X, replay=False).replay_note == ""
    km.save(tmp_path / "model.wolf")
    loaded = wolfmeans.load(tmp_path / "model.wolf")
    assert portrait(loaded, X).replay_note == replays.SAME
    del loaded.initial_centers_
    found = portrait(loaded, X)
    assert found.replay is None and "No replay" in found.replay_note


def test_a_portrait_changes_nothing():
    X = points()
    km = KMeans(3, random_state=0, bound="spectral").fit(X)
    before, data = {**vars(km)}, X.copy()
    portrait(km, X)
    assert vars(km) == before
    assert np.array_equal(X, data)


# --- odd shapes and refusals -----------------------------------------------------------------

ODD = {
    "one point": (np.array([[1.0, 2.0]]), 1),
    "one column": (points(d=1), 3),
    "one cluster": (points(), 1),
    "one of everything": (np.array([[3.0]]), 1),
    "constant columns": (np.column_stack([points(), np.full(400, 0.1), np.zeros(400)]), 3),
    "equal points": (np.full((6, 3), 0.1), 2),
    "as many clusters as points": (points(7), 7),
    "huge": (points() * 1e250, 3),
    "tiny": (points() * 1e-250, 3),
    "far": (points() + 1e8, 3),
    "wide": (np.random.default_rng(0).normal(size=(9, 700)), 3),
    "float32 to the brim": ((points() * 1e37).astype(np.float32), 3),
    "csr": (sparse.csr_array(np.where(points() > 3, points(), 0.0)), 3),
    "empty csr": (sparse.csr_array((5, 200)), 2),
    "csr of one column": (sparse.csr_array(points(d=1)), 2),
    "huge csr": (sparse.csr_array(np.where(points() > 3, points(), 0.0) * 1e200), 3),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("kind", [KMeans, TrimmedKMeans])
def test_portraits_of_odd_data_are_finite(name, kind):
    X, n_clusters = ODD[name]
    model = fit_quietly(kind(n_clusters, random_state=0), X)
    found = portrait(model, X)
    d = X.shape[1]
    assert found.map.points.shape == (len(found.map.rows), 2)
    assert found.profiles.means.shape == (n_clusters, d)
    assert 0 <= sum(found.map.explained) <= 1 + 1e-9
    for field, values in arrays_of(found):
        if field in ("gap", "distance", "margin"):
            continue
        assert np.isfinite(values).all(), field
    assert (found.profiles.strength >= 0).all() and (found.profiles.strength <= 1).all()
    assert (found.margins.values >= 0).all() and (found.margins.values <= 1).all()
    assert found.replay_note == replays.SAME
    for cluster in found.clusters:
        assert (cluster.nearest == -1) == (n_clusters == 1) == np.isnan(cluster.distance)
    if name == "constant columns":
        assert (found.profiles.strength[4:] == 0).all() and (found.profiles.spread[4:] == 0).all()
        assert (found.profiles.deviation[:, 4:] == 0).all()


@pytest.mark.parametrize("factor", [2.0**700, 2.0**-450])
def test_a_portrait_is_in_the_units_of_the_data(factor):
    X = points()
    plain = portrait(KMeans(3, random_state=0).fit(X), X)
    scaled = portrait(fit_quietly(KMeans(3, random_state=0), X * factor), X * factor)
    np.testing.assert_allclose(scaled.map.points / factor, plain.map.points, rtol=1e-9)
    np.testing.assert_allclose(scaled.profiles.means / factor, plain.profiles.means)
    np.testing.assert_allclose(scaled.profiles.spread / factor, plain.profiles.spread)
    np.testing.assert_allclose(scaled.profiles.deviation, plain.profiles.deviation, atol=1e-12)
    for one, other in zip(scaled.clusters, plain.clusters, strict=True):
        assert one.radius / factor == pytest.approx(other.radius)
        assert one.distance / factor == pytest.approx(other.distance)
        assert one.margin == pytest.approx(other.margin)


def test_names_come_from_the_caller_the_table_or_the_number():
    X = points(d=2)
    km = KMeans(2, random_state=0).fit(X)
    assert portrait(km, X).names == ("column 0", "column 1")
    assert portrait(km, X, names=["a", "b"]).names == ("a", "b")
    table = pd.DataFrame(X, columns=["height", "weight"])
    named = KMeans(2, random_state=0).fit(table)
    assert portrait(named, table).names == ("height", "weight")
    with pytest.raises(ValueError, match="2 columns and 3 names"):
        portrait(km, X, names=["a", "b", "c"])


def test_what_cannot_be_portrayed_is_refused_in_a_sentence():
    X = points()
    km = KMeans(3, random_state=0).fit(X)
    with pytest.raises(ValueError, match="400 rows and 4 columns; this X has shape \\(399, 4\\)"):
        portrait(km, X[1:])
    with pytest.raises(ValueError, match=r"this X has shape \(400, 3\)"):
        portrait(km, X[:, 1:])
    with pytest.raises(ValueError, match="this X has shape"):
        portrait(km, X.ravel().tolist())
    with pytest.raises(TypeError, match="the model must be a wolfmeans KMeans"):
        portrait(sklearn.cluster.KMeans(2, n_init=1).fit(X), X)
    with pytest.raises(NotFittedError):
        portrait(KMeans(3), X)
    with pytest.raises(ValueError, match="at_most must be at least 1"):
        portrait(km, X, at_most=0)


def swapped(X, one, other):
    """Return X with two rows in each other's place."""
    found = X.copy()
    found[[one, other]] = found[[other, one]]
    return found


def test_data_that_was_not_clustered_is_refused_with_the_way_out():
    table = pd.DataFrame(points() * [1.0, 1e3, 1e6, 1.0], columns=list("abcd"))
    pipe = make_pipeline(StandardScaler(), KMeans(3, random_state=0)).fit(table)
    with pytest.raises(ValueError, match="not the data of the fit") as refusal:
        portrait(pipe[-1], table.to_numpy())
    assert "pipe[:-1].transform(X)" in str(refusal.value)
    assert portrait(pipe[-1], pipe[:-1].transform(table)).n_points == 400
    with pytest.raises(ValueError, match=r"shape \(400, 3\).* pipe\[:-1\].transform\(X\)"):
        portrait(pipe[-1], table[["a", "b", "c"]])


def test_weights_of_another_fit_are_refused():
    X, weights = points(), np.random.default_rng(0).uniform(1, 2, size=400)
    plain, weighted = KMeans(3, random_state=0), KMeans(3, random_state=0)
    plain.fit(X), weighted.fit(X, sample_weight=weights)
    for model, wrong in ((plain, weights), (weighted, None), (weighted, weights[::-1])):
        with pytest.raises(ValueError, match="X and sample_weight are not the data of the fit"):
            portrait(model, X, sample_weight=wrong)


@pytest.mark.parametrize("kind", [np.float64, np.float32, sparse.csr_array])
def test_the_same_rows_in_another_order_are_refused(kind):
    X = points()
    km = KMeans(3, random_state=0).fit(kind(X) if kind is sparse.csr_array else X.astype(kind))
    one, other = (int(np.flatnonzero(km.labels_ == k)[0]) for k in (0, 1))
    for wrong in (X[::-1].copy(), swapped(X, one, other)):
        wrong = kind(wrong) if kind is sparse.csr_array else wrong.astype(kind)
        with pytest.raises(ValueError, match="rows of X are not in the order"):
            portrait(km, wrong)


def test_rows_exchanged_within_a_cluster_are_not_noticed():
    """A limitation that docs/page.md documents: a model does not store its rows."""
    X = points()
    km = KMeans(3, random_state=0).fit(X)
    one, other = np.flatnonzero(km.labels_ == 0)[:2].tolist()
    assert portrait(km, swapped(X, one, other), replay=False).n_points == 400


def test_a_trimmed_row_in_the_place_of_its_neighbour_is_refused():
    X = points()
    km = TrimmedKMeans(3, trim=20, random_state=0).fit(X)
    out = int(np.flatnonzero(km.labels_ < 0)[0])
    near = km.transform(X[[out]]).argmin()
    inside = int(np.flatnonzero(km.labels_ == near)[0])
    with pytest.raises(ValueError, match="rows of X are not in the order"):
        portrait(km, swapped(X, out, inside))


def test_rows_on_the_threshold_may_be_in_or_out():
    X = np.repeat([[0.0, 0.0], [1.0, 0.0], [9.0, 0.0], [10.0, 0.0]], 3, axis=0)
    km = TrimmedKMeans(2, trim=1, init=[[0.5, 0.0], [9.5, 0.0]], n_init=1).fit(X)
    assert (km.labels_ < 0).sum() == 1 and (km.predict(X) >= 0).all()
    assert portrait(km, X).left_out == 1


@pytest.mark.parametrize("wrong", [3, -2, 2**31 - 1])
def test_labels_of_clusters_that_there_are_not_are_refused(wrong):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = KMeans(3, random_state=0).fit(X)
    model.labels_ = np.full(60, wrong, dtype=np.int32)
    with pytest.raises(ValueError, match="labels_ are not whole numbers from -1 to 2"):
        portrait(model, X)


def test_a_share_that_would_take_for_ever_is_refused():
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = TrimmedKMeans(3, alpha=0.1, random_state=0).fit(X)
    model._share = "1e999999999"
    with pytest.raises(ValueError, match="not a fraction from 0 to 1"):
        portrait(model, X)
