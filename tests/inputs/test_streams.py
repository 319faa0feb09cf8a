"""Data larger than memory: the bits of a fit in memory, few passes, and a limit that is kept."""

from __future__ import annotations

import gc
import importlib.util
import json
import mmap
import os
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import wolfmeans
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.engines import get_engine
from wolfmeans.engines.places.file import FilePlace, Keeping, PointBuffer
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.exact.native import native_is_available
from wolfmeans.files.source import Source
from wolfmeans.fitting.fit import Start, run
from wolfmeans.inputs import memory_budget, streams
from wolfmeans.inputs.opening import open_source
from wolfmeans.seeding.in_parts import parallel_seeds_in_parts
from wolfmeans.seeding.methods import choose_seeds

pl = pytest.importorskip("polars")
pytest.importorskip("pyarrow")

pytestmark = pytest.mark.skipif(not native_is_available(), reason="parts are worked on natively")
STATES = ("bounds", "labels", "nothing")
N, D, K = 1500, 3, 6


def points(n=N, d=D, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    centers = rng.normal(scale=3.0, size=(5, d))
    return (centers[rng.integers(5, size=n)] + rng.normal(size=(n, d))).astype(dtype)


@pytest.fixture
def small_chunks(monkeypatch):
    """Let limits of some kilobytes do, so that small data is streamed."""
    monkeypatch.setattr(memory_budget, "_FEWEST", 64)
    monkeypatch.setattr(memory_budget, "_PROCESS", 0)
    monkeypatch.setattr(memory_budget, "_BUCKETS", 0)
    monkeypatch.setattr(memory_budget, "_OF_A_CHUNK", 0)
    monkeypatch.setattr(streams, "_ADMISSIBLE", 8)
    monkeypatch.setattr("wolfmeans.estimators.trimmed._LOOKING", 0)
    monkeypatch.setattr(Source, "reading_bytes", 0)
    for kind in (
        "files.columnar.ColumnarSource",
        "files.arrays.SlicedSource",
        "files.source.FilledSource",
        "inputs.opening.CompleteSource",
    ):
        monkeypatch.setattr(f"wolfmeans.{kind}.reading_bytes", 0)


LIMIT = 64_000
"""Bytes, a few chunks of small data."""


@pytest.fixture
def passes(monkeypatch):
    """Count the passes over sources."""
    begun = []
    chunks = Source.chunks

    def counting(self, *given, **further):
        begun.append(self)
        return chunks(self, *given, **further)

    monkeypatch.setattr(Source, "chunks", counting)
    return begun


def in_memory(X, sample_weight=None, **settings):
    settings = {"init": X[:K], "engine": "cpu", "bound": None, "n_threads": 1, **settings}
    return KMeans(K, **settings).fit(X, sample_weight=sample_weight)


def streamed(X, source, sample_weight=None, limit=LIMIT, **settings):
    settings = {"init": X[:K], **settings}
    ours = KMeans(K, memory_limit=limit, **settings).fit(source, sample_weight=sample_weight)
    assert any("chunks" in note for note in ours.certificate_.notes)
    return ours


def same(ours, reference):
    assert np.array_equal(ours.cluster_centers_, reference.cluster_centers_)
    assert ours.cluster_centers_.dtype == reference.cluster_centers_.dtype
    assert ours.inertia_ == reference.inertia_
    assert ours.n_iter_ == reference.n_iter_
    for column in ("sse", "gap", "movement", "moved", "empty"):
        assert np.array_equal(getattr(ours.trace_, column), getattr(reference.trace_, column))
    for name in ("status", "local_optimality", "initial_sse", "gap", "clarke_gap", "tol"):
        assert getattr(ours.certificate_, name) == getattr(reference.certificate_, name), name
    assert np.array_equal(ours.labels_, reference.labels_)
    assert ours.labels_.dtype == np.int32
    assert not reading_threads()


def reading_threads():
    """The threads of passes: those that read, and those that work."""
    return [t for t in threading.enumerate() if t.name.startswith("wolfmeans")]


def frame(X):
    return pl.DataFrame({f"x{j}": X[:, j] for j in range(X.shape[1])})


def as_npy(X, folder):
    np.save(folder / "x.npy", X)
    return folder / "x.npy"


def as_parquet(X, folder):
    frame(X).write_parquet(folder / "x.parquet", row_group_size=400)
    return str(folder / "x.parquet")


def as_several(X, folder):
    for number, rows in enumerate(np.array_split(X, 3)):
        frame(rows).write_ipc(folder / f"part-{number}.arrow")
    return [folder / f"part-{number}.arrow" for number in range(3)]


def as_pattern(X, folder):
    for number, rows in enumerate(np.array_split(X, 3)):
        np.save(folder / f"part-{number}.npy", rows)
    return str(folder / "part-*.npy")


def as_zarr(X, folder):
    zarr = pytest.importorskip("zarr")
    zarr.save_array(str(folder / "x.zarr"), X)
    return folder / "x.zarr"


def as_zarr_array(X, folder):
    zarr = pytest.importorskip("zarr")
    return zarr.open(str(as_zarr(X, folder)), mode="r")


def as_map(X, folder):
    return np.load(as_npy(X, folder), mmap_mode="r")


def as_list(X, folder):
    return np.array_split(X, 7)


def as_function(X, folder):
    return lambda: iter(np.array_split(X, 5))


def as_source(X, folder):
    return open_source(as_npy(X, folder))


KINDS = [
    as_npy,
    as_parquet,
    as_several,
    as_pattern,
    as_zarr,
    as_zarr_array,
    as_map,
    as_list,
    as_function,
    as_source,
]


# --- The same bits ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_same_bits_from_every_source(small_chunks, tmp_path, kind, dtype):
    X = points(dtype=dtype)
    source = kind(X, tmp_path)
    ours = streamed(X, source)
    same(ours, in_memory(X))
    assert np.array_equal(ours.predict(source), ours.labels_)
    assert np.array_equal(np.concatenate(list(ours.predict_chunks(source))), ours.labels_)
    assert ours.score(source) == -ours.inertia_
    plain = KMeans(K, init=X[:K]).fit(X)
    assert np.array_equal(KMeans(K, init=X[:K]).fit(X).transform(X), plain.transform(source))
    loaded = KMeans(K, init=X[:K], bound=None).fit(source)
    same(loaded, in_memory(X))
    assert loaded.certificate_.notes == ()


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_same_bits_whatever_is_kept(state, seed, engine):
    rng = np.random.default_rng(seed)
    X = points(300, seed=seed, dtype=[np.float64, np.float32][seed % 2])
    weights = [None, rng.choice([0.0, 0.5, 3.0], size=300)][seed % 2]
    for rows in (300, 64, 37):
        keeping = Keeping(rows, state, seed != 1, at_once=1 + seed, sums_are_large=seed == 2)
        parts = FilePlace(open_source(X), keeping, engine)
        if weights is not None:
            parts = parts.weighted(weights)
        fits = [
            run(
                Start(workspace, X[:K], lambda: np.random.RandomState(0)),
                stop="decrease",
                tol=1e-9,
                tol_scale=["initial", "total"][seed % 2],
                empty="farthest",
                max_steps=50,
            )
            for workspace in (PartsWorkspace(parts), get_engine("cpu").open(X, weights, 1))
        ]
        ours, reference = fits
        assert np.array_equal(ours.labels, reference.labels)
        assert np.array_equal(ours.centers, reference.centers)
        assert ours.inertia == reference.inertia
        assert ours.initial_sse == reference.initial_sse
        assert np.array_equal(ours.solution.trace.gap, reference.solution.trace.gap)
        workspace = ours.problem.workspace
        far = workspace.far_rows(ours.centers, 9, None)
        assert np.array_equal(workspace.rows(far[0]), X[far[0]])
        assert np.array_equal(workspace.labels(), reference.labels)


@pytest.mark.parametrize("stop", ["shift", "gap", "stationary"])
@pytest.mark.parametrize("tol_scale", ["initial", "total", "absolute"])
def test_same_bits_for_every_rule(small_chunks, tmp_path, stop, tol_scale):
    X = points(seed=4)
    weights = np.random.default_rng(4).choice([0.0, 0.25, 2.0], size=N)
    settings = {"stop": stop, "tol_scale": tol_scale, "tol": 1e-4}
    ours = streamed(X, as_npy(X, tmp_path), weights, **settings)
    same(ours, in_memory(X, weights, **settings))


def test_weights_may_be_a_column(small_chunks, tmp_path):
    X = points(seed=5)
    weights = np.random.default_rng(5).choice([0.0, 0.5, 3.0], size=N)
    path = tmp_path / "x.parquet"
    frame(X).with_columns(pl.Series("weight", weights)).write_parquet(path)
    ours = streamed(X, path, "weight")
    same(ours, in_memory(X, weights))
    assert ours.feature_names_in_.tolist() == ["x0", "x1", "x2"]
    # Columns are found by their names, wherever they are, and others do not matter.
    assert np.array_equal(ours.predict(path), ours.labels_)
    frame(X).select("x2", "x0", "x1").write_parquet(tmp_path / "other.parquet")
    assert np.array_equal(ours.predict(tmp_path / "other.parquet"), ours.labels_)
    assert ours.score(path, sample_weight=weights) == -ours.inertia_


@pytest.mark.filterwarnings("ignore:The squared distances")
@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_extreme_scales(small_chunks, tmp_path, scale):
    X = points(seed=6) * scale
    ours = streamed(X, as_npy(X, tmp_path))
    same(ours, in_memory(X))
    assert ours.score(tmp_path / "x.npy") == -ours.inertia_
    assert np.array_equal(ours.predict(tmp_path / "x.npy"), ours.labels_)
    # New data may be larger than what was fitted.
    np.save(tmp_path / "larger.npy", points(seed=6) * 1e300)
    assert ours.score(tmp_path / "larger.npy") == ours.score(points(seed=6) * 1e300)


@pytest.mark.parametrize("empty", ["farthest", "keep", "admissible"])
@pytest.mark.parametrize("kind", [as_npy, as_parquet])
def test_empty_clusters(small_chunks, tmp_path, empty, kind):
    X = np.round(points(seed=7))
    init = np.concatenate([X[:3], X[:3] + 1000.0])
    limit = LIMIT if empty != "admissible" else 110_000
    settings = {"init": init, "empty": empty}
    with np.errstate(all="ignore"), pytest.warns() if empty == "keep" else _nothing():
        ours = streamed(X, kind(X, tmp_path), limit=limit, **settings)
        same(ours, in_memory(X, **settings))


class _nothing:  # noqa: N801 - read as a sentence
    def __enter__(self):
        return None

    def __exit__(self, *given):
        return None


def test_seeds_are_those_of_oversampling(small_chunks, tmp_path):
    X = points(seed=8)
    reference = in_memory(X, init="k-means||", random_state=3)
    for limit in (LIMIT, 90_000):
        for init in ("k-means||", "k-means++", "plain-k-means++"):
            ours = streamed(X, as_npy(X, tmp_path), limit=limit, init=init, random_state=3)
            same(ours, reference)
            assert any("k-means||" in n for n in ours.certificate_.notes) == (init != "k-means||")


def test_several_starts_and_a_callable(small_chunks, tmp_path):
    X = points(seed=9)
    path = as_npy(X, tmp_path)

    def init(given, n_clusters, random_state):
        rows = random_state.choice(N, n_clusters, replace=False)
        return (np.load(given) if isinstance(given, Path) else given)[rows]

    settings = {"init": init, "n_init": 3, "random_state": 0}
    same(streamed(X, path, **settings), in_memory(X, **settings))


# --- Passes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [as_npy, as_parquet])
@pytest.mark.parametrize("tol", [0.0, 1e-2])
def test_one_pass_for_each_iteration(small_chunks, tmp_path, passes, kind, tol):
    X = points(seed=10)
    ours = streamed(X, kind(X, tmp_path), tol=tol)
    # To look at the numbers, for the first partition, and for the last cost, labels and ties; the
    # variances that a tolerance is relative to take one more.
    assert len(passes) == len(ours.trace_) + 3 + (tol > 0)
    passes.clear()
    ours.predict(tmp_path / f"x.{kind.__name__[3:]}")
    ours.score(tmp_path / f"x.{kind.__name__[3:]}")
    assert len(passes) == 2


def test_passes_of_other_rules(small_chunks, tmp_path, passes):
    X = points(seed=10)
    path = as_parquet(X, tmp_path)
    ours = streamed(X, path, stop="shift")
    # One more for the variance; the mean comes with the first partition.
    assert len(passes) == len(ours.trace_) + 4
    passes.clear()
    ours = streamed(X, as_function(X, tmp_path))
    # One more to count the rows.
    assert len(passes) == len(ours.trace_) + 4


def test_passes_of_seeds(tmp_path, passes):
    X = points(seed=10)
    for seeding, most in ((True, 16), (False, 30)):
        parts = FilePlace(open_source(X), Keeping(200, "nothing", seeding=seeding))
        workspace = PartsWorkspace(parts)
        passes.clear()
        seeds = parallel_seeds_in_parts(workspace, K, np.random.RandomState(0))
        assert len(passes) <= most
        whole = get_engine("cpu").open(X, None, 1)
        assert np.array_equal(seeds, choose_seeds(whole, K, "k-means||", np.random.RandomState(0)))


def test_what_fits_is_read_once(tmp_path, passes):
    X = points()
    same(
        KMeans(K, init=X[:K], bound=None, memory_limit="100MB").fit(as_npy(X, tmp_path)),
        in_memory(X),
    )
    assert len(passes) == 1


# --- What is wrong ---------------------------------------------------------------------------


def test_missing_values_are_named(small_chunks, tmp_path):
    X = points()
    X[1234, 1] = np.nan
    with pytest.raises(ValueError, match=r"x\.npy: row 1235, column 1 is missing"):
        streamed(points(), as_npy(X, tmp_path))
    assert not reading_threads()


def test_a_file_that_changes_is_noticed(small_chunks, tmp_path):
    X = points()
    path = as_npy(X, tmp_path)
    km = KMeans(K, init=X[:K], tol=0, memory_limit=LIMIT)

    def change(record):
        if record.t == 2:
            np.save(path, X + 1.0)

    km.callback = change
    with pytest.raises(ValueError, match="changed: other numbers"):
        km.fit(path)
    assert not hasattr(km, "cluster_centers_")

    def shorten(record):
        np.save(path, X[:700])

    km.callback = shorten
    with pytest.raises(ValueError, match="changed"):
        km.fit(path)

    def remove(record):
        path.unlink(missing_ok=True)

    km.callback = remove
    np.save(path, X)
    with pytest.raises(FileNotFoundError, match="no longer exists"):
        km.fit(path)
    assert not reading_threads()


@pytest.mark.parametrize("rows", [N, N - 40, N + 400])
def test_iterables_must_give_the_same_again(small_chunks, rows):
    X = points()
    given = []

    def arrays():
        given.append(1)
        return iter([X[:600], X[600:]] if len(given) < 5 else [points(rows, seed=3)])

    with pytest.raises(ValueError, match=r"has changed.*must give the same arrays"):
        streamed(X, arrays, tol=0)
    with pytest.raises(TypeError, match="can be used only once"):
        KMeans(2).fit(iter([X]))


def test_settings_that_need_all_points(small_chunks, tmp_path):
    X = points()
    path = as_npy(X, tmp_path)
    for settings in (
        {"init": "random"},
        {"polish": "hartigan"},
        {"effort": 1.0},
        {"bound": "neighbours"},
        {"empty": "best"},
        {"empty": "resample"},
    ):
        with pytest.raises(NotImplementedError, match="all points in one place"):
            streamed(X, path, **settings)
    for wrong in ("much", 0, -1.0, True):
        with pytest.raises(ValueError, match="memory_limit"):
            KMeans(K, memory_limit=wrong).fit(path)
    with pytest.raises(MemoryError, match="at least"):
        KMeans(K, init=X[:K], memory_limit=2000).fit(path)
    with pytest.raises(ValueError, match="n_samples=1500"):
        KMeans(2000, memory_limit=LIMIT + 2000 * 64 * 3).fit(path)
    with pytest.raises(FileNotFoundError, match="no such file"):
        KMeans(K).fit(tmp_path / "nothing.npy")


def test_ctrl_c_leaves_nothing_behind(small_chunks, tmp_path, monkeypatch):
    X = points()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    path = as_npy(X, tmp_path)
    for at in (1, 3):
        km = KMeans(K, init=X[:K], tol=0, memory_limit=LIMIT)

        def stop(record, at=at):
            if record.t == at:
                raise KeyboardInterrupt

        km.callback = stop
        with pytest.raises(KeyboardInterrupt):
            km.fit(path)
        assert not hasattr(km, "cluster_centers_")
        assert not reading_threads()
    # In the middle of a pass.
    assign = FilePlace._with_rows
    asked = []

    def interrupted(self, number, *given):
        asked.append(number)
        if len(asked) > 40:
            raise KeyboardInterrupt
        return assign(self, number, *given)

    monkeypatch.setattr(FilePlace, "_with_rows", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        km.fit(path)
    assert caught
    assert not reading_threads()
    assert not list((tmp_path / "temporary").iterdir())


INTERRUPTED = """
    import os, sys, tempfile, threading, time
    import numpy as np
    import wolfmeans

    def ours():
        return [t for t in threading.enumerate() if t.name.startswith("wolfmeans")]

    path, kind, tempfile.tempdir = sys.argv[1:]
    model = getattr(wolfmeans, kind)(
        20,
        init=np.random.default_rng(0).normal(size=(20, 8)),
        max_iter=None,
        tol=0,
        memory_limit="64MB",
        callback=lambda record: print("step", flush=True),
    )
    try:
        model.fit(path)
    except KeyboardInterrupt:
        # A thread of a pool that was just starting is told to end, and does so in its own time.
        until = time.monotonic() + 30.0
        while ours() and time.monotonic() < until:
            time.sleep(0.01)
        print(bool(ours()))
        print(hasattr(model, "cluster_centers_"), os.listdir(tempfile.tempdir))
"""


@pytest.mark.long
@pytest.mark.skipif(os.name == "nt", reason="signals are others there")
@pytest.mark.parametrize("kind", ["KMeans", "TrimmedKMeans"])
@pytest.mark.parametrize("name", ["x.npy", "x.parquet"])
def test_ctrl_c_in_the_middle_of_a_pass(large_files, tmp_path, kind, name):
    code = textwrap.dedent(INTERRUPTED)
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, str(large_files / name), kind, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            assert child.stdout.readline() == "step\n"
            # The next step takes a pass, or two.
            child.send_signal(signal.SIGINT)
            out, _ = child.communicate(timeout=60)
        finally:
            child.kill()
    assert out.replace("step\n", "") == "False\nFalse []\n"


def test_what_an_iterable_raises_is_raised(small_chunks):
    class MineError(Exception):
        pass

    X, begun = points(), []

    def arrays():
        begun.append(1)
        yield X[:600]
        if len(begun) == 5:
            raise MineError("in the middle")
        yield X[600:]

    for kind in (KMeans, TrimmedKMeans):
        begun.clear()
        model = kind(K, init=X[:K], tol=0, memory_limit=LIMIT)
        with pytest.raises(MineError, match="in the middle"):
            model.fit(arrays)
        assert len(begun) == 5
        assert not hasattr(model, "cluster_centers_")
        assert not reading_threads()


def test_a_checkpoint_goes_on(small_chunks, tmp_path):
    X = points(seed=11)
    path = as_npy(X, tmp_path)
    reference = in_memory(X, tol=0)
    km = KMeans(K, init=X[:K], tol=0, memory_limit=LIMIT, checkpoint=tmp_path / "checkpoint")

    def stop(record):
        if record.t == 3:
            raise KeyboardInterrupt

    km.callback = stop
    with pytest.raises(KeyboardInterrupt):
        km.fit(path)
    km.callback = None
    same(km.fit(path), reference)
    with pytest.raises(ValueError, match="other data"):
        km.fit(as_npy(points(seed=12), tmp_path))


# --- Labels ----------------------------------------------------------------------------------


def test_labels_beyond_the_limit_are_in_a_file(small_chunks, tmp_path):
    n = 20_000
    X = points(n)
    path = as_npy(X, tmp_path)
    ours = streamed(X, path)
    same(ours, in_memory(X))
    assert isinstance(ours.labels_, np.memmap)
    ours.save(tmp_path / "model")
    assert np.array_equal(wolfmeans.load(tmp_path / "model").labels_, ours.labels_)
    assert isinstance(ours.predict(path), np.memmap)
    found = ours.predict_to(path, tmp_path / "labels.npy")
    assert isinstance(found, np.memmap)
    assert np.array_equal(np.load(tmp_path / "labels.npy"), ours.labels_)
    assert np.array_equal(ours.predict_to(X, tmp_path / "labels.npy"), ours.labels_)
    assert np.array_equal(ours.predict_to([X[:9], X[9:]], tmp_path / "l.npy"), ours.labels_)
    with pytest.raises(ValueError, match=r"ends in \.npy"):
        ours.predict_to(path, "labels.csv")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["l.npy", "labels.npy", "model", "x.npy"]


def test_a_shelf_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    shelf = PointBuffer(5, in_memory=False)
    shelf.put(slice(3, 5), np.array([8, 9], dtype=np.int32))
    shelf.put(slice(0, 3), np.array([1, 2, 3], dtype=np.int32))
    labels = shelf.whole()
    del shelf
    gc.collect()
    assert labels.tolist() == [1, 2, 3, 8, 9]
    assert os.name == "nt" or not list(tmp_path.iterdir())


# --- Memory ----------------------------------------------------------------------------------

MEASURE = """
    import sys
    import numpy as np
    import pyarrow.compute, pyarrow.dataset, pyarrow.parquet
    try:
        import zarr
    except ImportError:
        pass
    import wolfmeans
    from wolfmeans.inputs.memory_budget import bytes_of

    def kilobytes(name):
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(name))

    path, weights, limit, kind, init = sys.argv[1:]
    seeds = init
    if init in ("given", "mapped"):
        seeds = np.random.default_rng(0).normal(size=(20, 8))
    X = np.load(path, mmap_mode="r") if init == "mapped" else path
    if weights.endswith(".npy"):
        sample_weight = np.load(weights)
    else:
        sample_weight = weights or None
    model = getattr(wolfmeans, kind)(
        20, init=seeds, max_iter=2, memory_limit=limit, random_state=0
    )
    before = kilobytes("VmRSS")
    model.fit(X, sample_weight=sample_weight)
    taken = 1024 * (kilobytes("VmHWM") - before)
    assert any("chunks" in note for note in model.certificate_.notes)
    print(taken, bytes_of(limit))
"""


@pytest.fixture(scope="module")
def large_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_500_000, 8))
    X[:, 0] += 5 * rng.integers(4, size=len(X))
    weights = rng.choice([0.0, 0.5, 3.0], size=len(X))
    np.save(folder / "x.npy", X)
    np.save(folder / "w.npy", weights)
    frame(X).write_parquet(folder / "x.parquet", row_group_size=200_000)
    table = frame(X).with_columns(pl.Series("w", weights))
    table.write_parquet(folder / "xw.parquet", row_group_size=200_000)
    if importlib.util.find_spec("zarr"):
        as_zarr(X, folder)
    return folder


def run_measured(*arguments):
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(MEASURE), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("kind", "name", "weights", "limit", "init"),
    [
        ("KMeans", "x.npy", "", "16MB", "given"),
        pytest.param("KMeans", "x.npy", "", "48MB", "given", marks=pytest.mark.long),
        pytest.param("KMeans", "x.npy", "w.npy", "24MB", "given", marks=pytest.mark.long),
        pytest.param("KMeans", "x.npy", "", "20MB", "mapped", marks=pytest.mark.long),
        pytest.param("KMeans", "x.npy", "", "48MB", "k-means||", marks=pytest.mark.long),
        pytest.param("KMeans", "x.parquet", "", "64MB", "given", marks=pytest.mark.long),
        pytest.param("KMeans", "xw.parquet", "w", "80MB", "given", marks=pytest.mark.long),
        pytest.param("KMeans", "x.zarr", "w.npy", "100MB", "given", marks=pytest.mark.long),
        pytest.param("TrimmedKMeans", "x.npy", "", "20MB", "given", marks=pytest.mark.long),
        pytest.param("TrimmedKMeans", "x.npy", "", "30MB", "given", marks=pytest.mark.long),
        pytest.param("TrimmedKMeans", "x.npy", "w.npy", "30MB", "given", marks=pytest.mark.long),
        pytest.param("TrimmedKMeans", "x.npy", "", "30MB", "mapped", marks=pytest.mark.long),
        pytest.param("TrimmedKMeans", "x.npy", "", "48MB", "random", marks=pytest.mark.long),
        pytest.param("TrimmedKMeans", "xw.parquet", "w", "80MB", "given", marks=pytest.mark.long),
        pytest.param("TrimmedKMeans", "x.zarr", "", "100MB", "given", marks=pytest.mark.long),
    ],
)
def test_the_limit_is_kept(large_files, kind, name, weights, limit, init):
    path = large_files / name
    if not path.exists():
        pytest.skip("needs zarr")
    if weights.endswith(".npy"):
        weights = large_files / weights
    ran = run_measured(path, weights, limit, kind, init)
    assert ran.returncode == 0, ran.stderr
    taken, allowed = map(int, ran.stdout.split())
    assert taken <= allowed


@pytest.mark.parametrize("kind", [KMeans, TrimmedKMeans])
def test_the_least_limit_is_named(large_files, kind, monkeypatch):
    def refused(limit):
        model = kind(20, init=np.zeros((20, 8)), memory_limit=limit)
        with pytest.raises(MemoryError, match="for weights") as caught:
            model.fit(large_files / "xw.parquet", sample_weight="w")
        return re.search(r"at least (\d+MB) are needed", str(caught.value)).group(1)

    def no_weights(*given):
        raise AssertionError("weights are read")

    monkeypatch.setattr(streams, "weights_named", no_weights)
    least = refused("40MB")
    assert refused(f"{int(least[:-2]) - 1}MB") == least
    with pytest.raises(AssertionError, match="weights are read"):
        kind(20, init=np.zeros((20, 8)), memory_limit=least).fit(
            large_files / "xw.parquet", sample_weight="w"
        )


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs /proc")
def test_pages_of_a_map_do_not_stay(tmp_path, monkeypatch):
    monkeypatch.setattr("wolfmeans.files.arrays._SLAB", 1_000_000)
    path = as_npy(points(400_000, 8), tmp_path)
    mapped = np.load(path, mmap_mode="r")
    source = open_source(mapped)

    def resident():
        about = Path("/proc/self/smaps").read_text().split(str(path), 1)[1]
        return int(re.search(r"^Rss:\s+(\d+) kB", about, re.MULTILINE).group(1))

    for _ in source.chunks(10_000):
        pass
    # Beside the last page there are none, also not of those that came along with others.
    assert resident() <= mmap.PAGESIZE // 1024
    rows = np.random.default_rng(0).integers(len(mapped), size=2000)
    assert np.array_equal(source.take(rows), np.load(path)[rows])
    assert resident() <= 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_rows_are_taken_without_the_pages_of_all(large_files):
    code = """
        import sys
        import numpy as np
        from wolfmeans.sources import open_source

        def kilobytes(name):
            with open("/proc/self/status") as status:
                return next(int(line.split()[1]) for line in status if line.startswith(name))

        source = open_source(sys.argv[1])
        before = kilobytes("VmRSS")
        source.take(np.random.default_rng(0).integers(source.n_rows, size=20_000))
        print(kilobytes("VmHWM") - before)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(large_files / "x.npy")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(ran.stdout) < 20_000


@pytest.mark.filterwarnings("ignore:The squared distances", "ignore:overflow")
@pytest.mark.parametrize("scale", [1.0, 1e200])
def test_margins_stay_in_their_file(small_chunks, tmp_path, scale):
    X = points(seed=2) * scale
    settings = {"init": X[:K], "alpha": 0.1, "bound": None}
    ours = TrimmedKMeans(K, memory_limit=LIMIT, **settings).fit(as_npy(X, tmp_path))
    assert any("chunks" in note for note in ours.certificate_.notes)
    for name in ("kept_", "margins_"):
        found = getattr(ours, name)
        assert isinstance(found.base, mmap.mmap), name
        assert np.array_equal(found, getattr(TrimmedKMeans(K, **settings).fit(X), name))


# --- The command -----------------------------------------------------------------------------


def command(capsys, *arguments):
    """Run the command; return its exit code, output and errors."""
    pytest.importorskip("typer")
    from wolfmeans.commands.cli import main

    code = main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "arrow", "npy"])
def test_the_command_writes_labels_as_they_come(small_chunks, tmp_path, capsys, suffix):
    X = points()
    path = as_parquet(X, tmp_path)
    reference = in_memory(X, init="k-means||", random_state=0)
    target = tmp_path / f"labels.{suffix}"
    code, out, _ = command(
        capsys, "fit", path, "-k", K, "--memory", "64kB", "--init", "k-means||", "--json",
        "--labels", target, "--model", tmp_path / "model", "--centers", tmp_path / "centers.csv",
    )  # fmt: skip
    assert code == 0
    facts = json.loads(out)
    assert facts["inertia"] == reference.inertia_
    assert facts["data"]["n_samples"] == N
    assert facts["data"]["columns"] == ["x0", "x1", "x2"]
    assert facts["cluster_sizes"] == np.bincount(reference.labels_).tolist()
    assert np.array_equal(labels_in(target), reference.labels_)
    code, _, errors = command(
        capsys, "predict", tmp_path / "model", path, "--memory", "64kB", "--labels", target
    )
    assert code == 0
    assert f"{N:,} rows" in errors
    assert np.array_equal(labels_in(target), reference.labels_)


def labels_in(path):
    readers = {
        ".npy": np.load,
        ".csv": lambda p: pl.read_csv(p)["label"].to_numpy(),
        ".tsv": lambda p: pl.read_csv(p, separator="\t")["label"].to_numpy(),
        ".parquet": lambda p: pl.read_parquet(p)["label"].to_numpy(),
        ".arrow": lambda p: pl.read_ipc(p)["label"].to_numpy(),
    }
    return readers[path.suffix](path)


def test_the_command_leaves_out_incomplete_rows(small_chunks, tmp_path, capsys):
    X = points()
    X[[3, 700], 1] = np.nan
    kept = ~np.isnan(X).any(axis=1)
    weights = np.arange(N) % 3 + 0.5
    table = frame(X).with_columns(pl.Series("w", weights), pl.Series("word", ["a"] * N))
    table.write_parquet(tmp_path / "x.parquet")
    reference = in_memory(X[kept], init="k-means||", random_state=0)
    code, out, _ = command(
        capsys, "fit", tmp_path / "x.parquet", "-k", K, "--memory", "64kB", "--drop-missing",
        "--init", "k-means||", "--exclude", "w", "--labels", "-", "--quiet",
        "--model", tmp_path / "m.wolf",
    )  # fmt: skip
    assert code == 0
    predicted = command(
        capsys, "predict", tmp_path / "m.wolf", tmp_path / "x.parquet", "--memory", "64kB",
        "--drop-missing", "--quiet",
    )  # fmt: skip
    assert predicted == (0, out, "")
    rows = [line.split(",") for line in out.splitlines()[1:]]
    assert [label == "" for _, label in rows] == (~kept).tolist()
    assert [int(label) for _, label in rows if label] == reference.labels_.tolist()
    frame(points()).with_columns(pl.Series("w", weights)).write_parquet(tmp_path / "w.parquet")
    weighted = in_memory(points(), weights, init="k-means||", random_state=0)
    code, out, _ = command(
        capsys, "fit", tmp_path / "w.parquet", "-k", K, "--memory", "64kB", "--weights", "w",
        "--init", "k-means||", "--labels", "-", "--quiet",
    )  # fmt: skip
    assert code == 0
    assert [int(line) for line in out.split()[1:]] == weighted.labels_.tolist()


def test_the_command_refuses_what_needs_all_rows(tmp_path, capsys):
    path = as_npy(points(), tmp_path)
    for option, *value in (
        ["--standardize"],
        ["--with-data", "--labels", tmp_path / "l.csv"],
        ["--page", tmp_path / "p.html"],
        ["--bound", "strongest"],
    ):
        code, _, errors = command(capsys, "fit", path, "-k", 3, "--memory", "1GB", option, *value)
        assert code == 2
        assert f"{option}" in errors
        assert "all rows in memory" in errors
    for size, words in (("much", "--memory must be a size"), ("20kB", "at least")):
        code, _, errors = command(capsys, "fit", path, "-k", 3, "--memory", size)
        assert code == 2
        assert words in errors
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,4\n")
    code, _, errors = command(capsys, "fit", tmp_path / "x.csv", "-k", 1, "--memory", "1GB")
    assert code == 2
    assert "sink_parquet" in errors
    code, _, errors = command(capsys, "fit", path, "-k", N + 1, "--memory", "1GB")
    assert code == 2
    assert "1,500 rows" in errors


@pytest.mark.parametrize("kind", ["file", "chunks"])
def test_what_is_small_is_loaded_whatever_streaming_would_take(kind, tmp_path):
    X = np.random.default_rng(0).normal(size=(2000, 3))
    np.save(tmp_path / "small.npy", X)
    source = tmp_path / "small.npy" if kind == "file" else [X[:100], X[100:]]
    found = KMeans(4, random_state=0, memory_limit="16MB").fit(source)
    assert found.inertia_ == KMeans(4, random_state=0).fit(X).inertia_
    assert not found.certificate_.notes


def test_labels_do_not_take_the_place_of_the_points(tmp_path):
    X = points()
    path = tmp_path / "points.npy"
    np.save(path, X)
    (tmp_path / "link.npy").symlink_to(path)
    model = KMeans(K, init=X[:K]).fit(X)
    for out in (path, tmp_path / "link.npy"):
        with pytest.raises(ValueError, match="is a file of X"):
            model.predict_to(path, out)
    assert np.array_equal(np.load(path), X)


@pytest.mark.parametrize("kind", [KMeans, TrimmedKMeans])
def test_scores_with_a_column_of_weights(tmp_path, kind):
    X, weights = points(), np.random.default_rng(1).uniform(size=N)
    path = tmp_path / "points.parquet"
    pl.DataFrame({**{f"c{j}": X[:, j] for j in range(D)}, "w": weights}).write_parquet(path)
    model = kind(K, init=X[:K]).fit(path, sample_weight="w")
    assert model.score(path, sample_weight="w") == kind(K, init=X[:K]).fit(
        X, sample_weight=weights
    ).score(X, sample_weight=weights)
    assert model.certify(path, sample_weight="w", seconds=1).proven_bound is not None


def test_a_name_that_is_empty_is_not_this_folder():
    with pytest.raises(ValueError, match="name of a file is empty"):
        KMeans(K).fit("")


def test_the_command_says_what_has_no_form_in_parts(tmp_path, capsys, small_chunks):
    path = as_npy(points(), tmp_path)
    for option, value in (("--init", "random"), ("--polish", "swap")):
        code, _, errors = command(
            capsys, "fit", path, "-k", 3, "--memory", "64kB", option, value
        )  # fmt: skip
        assert code == 2
        assert "should not happen" not in errors
        assert "all points in one place" in errors
