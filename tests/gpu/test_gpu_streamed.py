"""Data larger than the device, part by part: assignments and whole fits, by == with the CPU."""

import warnings

import numpy as np
import pytest

from both_engines import assert_same_assignment
from interpreted import needs_triton
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.core.workspace import Limits
from wolfmeans.engines import Forced, get_engine
from wolfmeans.engines.tensors import OnDevice

pytest.importorskip("wolfmeans.exact._native")
pytestmark = needs_triton

N = 120
SETTINGS = {"random_state": 0, "n_init": 1, "bound": None}


def points(kind, d, dtype, n=N):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(n, d))
    if kind == "lattice":
        X = rng.integers(0, 3, size=(n, d)) * 1.0
    elif kind == "far":
        X += 1e4
    elif kind == "outliers":
        X[:: n // 5] *= 1e7
    elif kind == "blobs":
        X += rng.normal(size=(4, d))[np.arange(n) // 16 % 4] * 40.0
    return X.astype(dtype)


def limit(monkeypatch, rows=64):
    """Leave little room on the device, and windows of so many rows."""
    from wolfmeans.engines.gpu import engine, memory

    monkeypatch.setenv(memory.LIMIT, "1KB")
    monkeypatch.setattr(engine, "share_out", lambda *_, **__: (rows, 0))


def streamed(X, rows, staying=0, weights=None):
    from wolfmeans.engines.gpu.engine import device
    from wolfmeans.engines.gpu.streamed_points import StreamedPoints
    from wolfmeans.engines.gpu.streaming import Streamed
    from wolfmeans.engines.gpu.weighting import weigh

    data = Streamed(X, device(), rows, staying, 1)
    weighting = None if weights is None else weigh(data.window, weights, streamed=True)
    return StreamedPoints(data, 1, weights, weighting)


def assert_same(here, there, centers, forced=None):
    """Assign with both workspaces and return the means; a cost would send all rows."""
    return assert_same_assignment(here, there, centers, forced, cost=False).means


@pytest.mark.parametrize(
    ("kind", "d", "dtype", "n_clusters", "rows", "staying"),
    [
        ("plain", 2, "float32", 5, 16, 80),
        ("plain", 5, "float64", 7, 48, 60),
        ("plain", 20, "float32", 9, 64, 0),
        ("plain", 130, "float32", 3, 64, 64),
        ("lattice", 2, "float32", 12, 48, 48),
        ("lattice", 20, "float64", 6, 64, 0),
        ("far", 20, "float32", 4, 48, 0),
        ("outliers", 12, "float64", 6, 64, N),
        ("blobs", 5, "float32", 1, 128, 0),
    ],
)
def test_assignments_have_the_bits_of_the_cpu(kind, d, dtype, n_clusters, rows, staying):
    X = points(kind, d, dtype)
    here, there = get_engine("cpu").open(X, None, 1), streamed(X, rows, staying)
    centers = X[1 : n_clusters + 1].copy()
    for _ in range(3 if kind == "plain" and d < 100 else 2):
        centers = assert_same(here, there, centers)
    assert here.cost(centers) == there.cost(centers)
    assert there.advance(centers, np.ones(n_clusters), 0.0, Limits(1, np.inf)) is None


@pytest.mark.parametrize("kind", ["whole", "some zero", "many magnitudes"])
def test_weights_are_streamed_too(kind):
    rng = np.random.default_rng(12)
    w = {
        "whole": rng.integers(0, 9, N) * 1.0,
        "some zero": np.where(rng.uniform(size=N) < 0.3, 0.0, rng.uniform(size=N)),
        "many magnitudes": 10.0 ** rng.uniform(-8, 8, N),
    }[kind]
    X = points("blobs", 5, "float32")
    here, there = get_engine("cpu").open(X, w, 1), streamed(X, 64, 64, w)
    centers = X[:6].copy()
    for _ in range(3 if kind == "some zero" else 2):
        centers = assert_same(here, there, centers)
    assert here.cost(centers) == there.cost(centers)
    for weighted in (True, False):
        assert (here.mean(weighted=weighted) == there.mean(weighted=weighted)).all()


@pytest.mark.parametrize("staying", [0, 64])
def test_late_steps_send_what_is_undecided_and_no_more(staying):
    X = points("plain", 2, "float32")
    here, there = get_engine("cpu").open(X, None, 1), streamed(X, 64, staying)
    centers, sent = X[:3].copy(), []
    for _ in range(8):
        before = there.data.uploaded
        centers = assert_same(here, there, centers)
        sent.append(there.data.uploaded - before)
    assert sent[0] == X.nbytes
    assert sent[1] == X[staying:].nbytes
    assert 0 < max(sent[4:]) < X[staying:].nbytes / 2
    assert sent[-1] == 0


def test_rows_that_are_large_or_lose_much_are_looked_at_canonically():
    import torch

    X = points("plain", 12, "float32")
    X[7] *= 1e6
    here, there = get_engine("cpu").open(X, None, 1), streamed(X, 128)
    window = there.data.window
    window.rho = window._sample.errors.median().reshape(1)
    noise = np.random.default_rng(0).uniform(-1.0, 1.0, size=(64, 64)).astype(np.float32)
    window.noise = torch.from_numpy(noise).to(window.X.device)
    centers = X[8:13].copy()
    with np.errstate(invalid="ignore"):
        for _ in range(2):
            centers = assert_same(here, there, centers)
    marked = np.isinf(window.sizes.cpu().numpy()[:N])
    assert marked[7]
    assert N / 3 < marked.sum() < 2 * N / 3


def test_what_stays_is_sent_once():
    X = points("plain", 5, "float32")
    there = streamed(X, 32, 2 * 32 + 5)
    expected = get_engine("cpu").open(X, None, 1).nearest(X[:4])
    for wanted in (X.nbytes, X[64:].nbytes):
        before = there.data.uploaded
        found = there.nearest(X[:4])
        assert all((one == other).all() for one, other in zip(expected, found, strict=True))
        assert there.data.uploaded - before == wanted


@pytest.mark.parametrize("n_threads", [1, 3])
def test_rows_are_picked_by_several_threads(monkeypatch, n_threads):
    from wolfmeans.engines.gpu import streaming
    from wolfmeans.engines.gpu.engine import device

    monkeypatch.setattr(streaming, "_LEAST_BYTES", 64)
    X, w = points("plain", 5, "float64"), np.arange(N) * 1.0
    data = streaming.Streamed(X, device(), 48, 0, n_threads)
    some = np.flatnonzero(np.arange(N) % 3)
    for parts in (data.everything(), data.listed(some)):
        for part in data.pass_by(parts, w):
            assert (data.window.X.cpu().numpy() == X[part.rows]).all()
            assert (data.rows.masses[: part.size].cpu().numpy() == w[part.rows]).all()
    assert data.uploaded == (N + len(some)) * 6 * 8


@pytest.mark.parametrize("after", [0, 2])
def test_forced_labels(after):
    X = points("blobs", 5, "float64")
    here, there = get_engine("cpu").open(X, None, 1), streamed(X, 48)
    centers = X[:64:16].copy()
    for _ in range(after):
        centers = assert_same(here, there, centers)
    forced = Forced(np.array([3, 47, 48, 110]), np.array([2, 0, 3, 1], dtype=np.int32))
    centers = assert_same(here, there, centers, forced)
    assert_same(here, there, centers)


def test_sums_beyond_the_room_on_the_device_come_from_the_host():
    from wolfmeans.engines.gpu.kernels.lists import INEXACT

    X = points("plain", 3, "float64") * 1e-12
    X[0] = 1e30
    w = np.linspace(0.0, 1.0, N)
    for weights in (None, w):
        here, there = get_engine("cpu").open(X, weights, 1), streamed(X, 64, 0, weights)
        centers = X[:5].copy()
        for _ in range(2):
            centers = assert_same(here, there, centers)
        assert here.cost(centers) == there.cost(centers)
        assert there._state.clusters.state[INEXACT.value] == 1


def test_what_else_a_workspace_is_asked_for():
    X = points("lattice", 12, "float32")
    here, there = get_engine("cpu").open(X, None, 1), streamed(X, 64, 64)
    with pytest.raises(RuntimeError, match="no labels"):
        there.labels()
    centers = X[:6] + np.float32(0.25)
    assert_same(here, there, centers)
    one, other = here.near_ties(centers, 1e-9), there.near_ties(centers, 1e-9)
    tied = [set(rows[second - first <= 1e-9].tolist()) for rows, first, second in (one, other)]
    assert tied[0] == tied[1]
    everywhere = here.near_ties(centers + 1, 0.1), there.near_ties(centers + 1, 0.1)
    assert set(everywhere[0][0]) <= set(everywhere[1][0])
    assert (here.distances(centers) == there.distances(centers)).all()
    assert (here.distances_to(X[3]) == there.distances_to(X[3])).all()
    assert (here.roots(centers) == there.roots(centers)).all()
    assert (here.rows(np.array([110, 3])) == there.rows(np.array([110, 3]))).all()
    assert (here.order() == there.order()).all()
    assert here.digest(centers) == there.digest(centers)
    assert here.largest() == there.largest()
    assert here.total(X.astype(np.float64)) == there.total(X.astype(np.float64))
    assert there.distance_error(centers) == 0.0
    drawn = np.random.default_rng(0).integers(2**63 - 1, size=1 + 4 * 3)
    assert (here.spread_rows(drawn, 3) == there.spread_rows(drawn, 3)).all()
    assert (here.row_hashes() == there.row_hashes()).all()
    twin = there.fork(1)
    assert twin.engine == "gpu"
    assert (twin.assign(centers).means == here.fork(1).assign(centers).means).all()
    nearest = here._kernels.distances(centers, here.labels())[[5, 7]]
    some = there._kernels.of(np.array([5, 7]))
    assert (some.distances(centers, there.labels()[[5, 7]]) == nearest).all()


@pytest.mark.filterwarnings("ignore:Not converged")
@pytest.mark.parametrize(
    ("kind", "d", "weighted", "settings"),
    [
        ("blobs", 20, False, {"n_clusters": 4, "stop": "stationary"}),
        ("plain", 3, False, {"n_clusters": 6, "polish": "hartigan", "max_iter": 3}),
        ("lattice", 3, False, {"n_clusters": 14, "empty": "admissible", "max_iter": 3}),
        ("plain", 5, True, {"n_clusters": 3, "init": "random", "max_iter": 3}),
    ],
)
def test_whole_fits_have_the_bits_of_the_cpu(monkeypatch, kind, d, weighted, settings):
    X = points(kind, d, "float32")
    w = np.random.default_rng(1).uniform(size=N) if weighted else None
    X.setflags(write=False)
    here = KMeans(engine="cpu", **SETTINGS, **settings).fit(X, sample_weight=w)
    limit(monkeypatch)
    there = KMeans(engine="gpu", **SETTINGS, **settings).fit(X, sample_weight=w)
    assert there.engine_ == "gpu"
    assert (here.labels_ == there.labels_).all()
    assert (here.cluster_centers_ == there.cluster_centers_).all()
    assert (here.inertia_, here.n_iter_) == (there.inertia_, there.n_iter_)
    for column in ("gap", "movement", "sse", "moved"):
        assert (getattr(here.trace_, column) == getattr(there.trace_, column)).all()
    assert (here.predict(X) == there.predict(X)).all()


@pytest.mark.filterwarnings("ignore:Not converged")
def test_trimmed_fits_have_the_bits_of_the_cpu(monkeypatch):
    X = points("outliers", 3, "float32")
    settings = {"n_clusters": 3, "alpha": 0.2, "max_iter": 3, **SETTINGS}
    here = TrimmedKMeans(engine="cpu", **settings).fit(X)
    limit(monkeypatch)
    there = TrimmedKMeans(engine="gpu", **settings).fit(X)
    assert there.engine_ == "gpu"
    assert (here.labels_ == there.labels_).all()
    assert (here.cluster_centers_ == there.cluster_centers_).all()
    assert (here.inertia_, here.n_iter_) == (there.inertia_, there.n_iter_)


def test_weights_without_room_leave_sums_to_the_host(monkeypatch):
    X = points("plain", 3, "float64")
    w = 10.0 ** np.random.default_rng(2).uniform(-20, 20, N)
    limit(monkeypatch)
    there = get_engine("gpu").open(X, w, 1)
    assert type(there).__name__ == "ReferencePoints"
    assert_same(get_engine("cpu").open(X, w, 1), there, X[:4].copy())


def test_arrays_that_cannot_be_written_to_are_read(monkeypatch, tmp_path):
    X = points("plain", 3, "float32")
    np.save(tmp_path / "X.npy", X)
    limit(monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mapped = np.asarray(np.load(tmp_path / "X.npy", mmap_mode="r"))
        found = get_engine("gpu").open(mapped, None, 1).nearest(X[:3])
    expected = get_engine("cpu").open(X, None, 1).nearest(X[:3])
    assert (expected[0] == found[0]).all()


def test_too_little_memory_is_said(monkeypatch):
    from wolfmeans.engines.gpu import memory

    X = points("plain", 5, "float32")
    monkeypatch.setenv(memory.LIMIT, "1.5 KB")
    with pytest.raises(MemoryError, match=r"120 points of 5 columns .* engine='cpu'"):
        get_engine("gpu").open(X, None, 1)
    monkeypatch.setenv(memory.LIMIT, "plenty")
    with pytest.raises(ValueError, match="size like 2GB"):
        get_engine("gpu").open(X, None, 1)
    monkeypatch.delenv(memory.LIMIT)
    said = str(memory.too_large(10**9, 128, 4, weighted=False, device="cpu"))
    assert "1000000000 points" in said
    assert "host's memory" in said


def test_when_the_device_is_full_all_the_same(monkeypatch):
    import torch

    from wolfmeans.engines.gpu import engine, memory, streamed_points

    def full(*_):
        raise torch.OutOfMemoryError("no more")

    X = points("plain", 5, "float32")
    monkeypatch.setattr(engine, "Screened", full)
    with pytest.raises(MemoryError, match="streamed"):
        get_engine("gpu").open(OnDevice(torch.from_numpy(X).to(engine.device())), None, 1)
    monkeypatch.setenv(memory.LIMIT, "1MB")
    there = get_engine("gpu").open(X, None, 1)
    assert type(there).__name__ == "StreamedPoints"
    assert there.data.capacity == 128
    assert len(there.data._staying) == N
    monkeypatch.setattr(streamed_points, "Clusters", full)
    with pytest.raises(MemoryError, match="sums of 2 clusters"):
        there.assign(X[:2])
    monkeypatch.setattr(engine, "Streamed", full)
    with pytest.raises(MemoryError, match="even when their numbers stay"):
        get_engine("gpu").open(X, None, 1)


def test_sizes_of_windows(monkeypatch):
    from wolfmeans.engines.gpu import memory

    X = points("plain", 5, "float32")
    for weighted in (False, True):
        room = memory.streamed_bytes(N, 5, 4, 32, weighted=weighted)
        monkeypatch.setenv(memory.LIMIT, str(room))
        there = get_engine("gpu").open(X, np.ones(N) if weighted else None, 1)
        assert type(there).__name__ == "StreamedPoints"
        assert there.data.capacity == 32

    for rows in (16, 48, 1024):
        room = memory.streamed_bytes(10**6, 20, 4, rows, weighted=True)
        assert memory.share_out(10**6, 20, 4, room, weighted=True) == (rows, 0)
    rows, staying = memory.share_out(10**9, 128, 4, 130e9, weighted=False)
    assert rows % 16 == 0
    assert 50e9 < 4 * 128 * staying < 130e9
