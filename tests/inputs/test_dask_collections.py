"""Dask collections: the same bits as in memory, whatever the partitions and the workers' fate."""

from __future__ import annotations

import itertools
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
import scipy.sparse

import wolfmeans
from wolfmeans import KMeans, TrimmedKMeans
from wolfmeans.engines.places import dask_blocks as blocks
from wolfmeans.engines.places import dask_places as cluster_parts
from wolfmeans.engines.places.dask_faults import errors_of
from wolfmeans.engines.places.memory import Labelling
from wolfmeans.engines.places.workspace import PartsWorkspace
from wolfmeans.exact.native import native_is_available

pytest.importorskip("dask.array", reason="dask and distributed are not installed")
distributed = pytest.importorskip("distributed", reason="dask and distributed are not installed")

import dask  # noqa: E402
import dask.array as da  # noqa: E402

from cluster import in_memory, points, same, spread, workers  # noqa: E402

pytestmark = pytest.mark.skipif(not native_is_available(), reason="parts are worked on natively")


CHUNKS = [600, 150, (1, 598, 1), (0, 200, 0, 0, 399, 1, 0), tuple([40] * 15)]


@pytest.mark.parametrize(
    ("chunks", "dtype"),
    [
        *((chunks, np.float64) for chunks in CHUNKS),
        *((chunks, np.float32) for chunks in CHUNKS[2:4]),
    ],
    ids=str,
)
def test_same_bits_for_any_partitioning(dask_place, chunks, dtype):
    X = points(dtype=dtype)
    ours = spread(X, chunks)
    same(ours, in_memory(X))
    expected = chunks if isinstance(chunks, tuple) else (chunks,) * (600 // chunks)
    assert ours.labels_.chunks == (expected,)
    assert ours.engine_ == "cpu"
    assert any("partition" in note for note in ours.certificate_.notes)


def test_same_bits_for_one_worker():
    """Two are above, and three where some of them die."""
    X = points(seed=3)
    with workers(1, processes=False):
        same(spread(X, 100, tol=1e-3), in_memory(X, tol=1e-3))


def test_unknown_sizes(dask_place):
    X = points(seed=1)
    collection = da.from_array(X, chunks=(100, 3))
    unknown = collection[collection[:, 0] > 0]
    assert np.isnan(unknown.shape[0])
    kept = X[X[:, 0] > 0]
    weights = np.arange(len(kept)) % 4 * 0.5
    for given in (None, weights):
        ours = KMeans(6, init=X[:6]).fit(unknown, sample_weight=given)
        reference = KMeans(6, init=X[:6], engine="cpu", bound=None).fit(kept, sample_weight=given)
        same(ours, reference)
        assert not np.isnan(ours.labels_.shape[0])
    assert np.array_equal(ours.predict(unknown).compute(), reference.labels_)


def test_several_chunks_of_columns(dask_place):
    X = points(seed=2)
    ours = KMeans(6, init=X[:6]).fit(da.from_array(X, chunks=(200, 2)))
    same(ours, in_memory(X))


@pytest.mark.parametrize("kind", ["numpy", "dask", "dask, other chunks"])
def test_weights(dask_place, kind):
    X = points(seed=4)
    weights = np.random.default_rng(5).integers(0, 4, size=600) / 3.0
    given = {
        "numpy": weights,
        "dask": da.from_array(weights, chunks=150),
        "dask, other chunks": da.from_array(weights, chunks=77),
    }[kind]
    reference = in_memory(X, weights)
    ours = spread(X, 150, given)
    same(ours, reference)
    score = ours.score(da.from_array(X, chunks=(130, 3)), sample_weight=weights)
    assert score == -reference.inertia_


def test_data_frames(dask_place):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(points(seed=6), columns=["a", "b", "c"])
    frame["b"] = (10 * frame["b"]).astype(np.int64)
    frame["w"] = np.arange(600) % 3
    collection = dd.from_pandas(frame, npartitions=4)
    X, names = frame[["a", "b", "c"]], ["a", "b", "c"]
    init = X.to_numpy(dtype=float)[:6]
    reference = KMeans(6, init=init, engine="cpu", bound=None).fit(X, sample_weight=frame["w"])
    ours = KMeans(6, init=init).fit(collection[names], sample_weight=collection["w"])
    same(ours, reference)
    assert ours.feature_names_in_.tolist() == names
    assert len(ours.labels_.chunks[0]) == collection.npartitions
    assert np.array_equal(ours.predict(collection[names]).compute(), reference.predict(X))
    assert np.array_equal(ours.transform(collection[names]).compute(), reference.transform(X))
    with pytest.raises(ValueError, match="feature names"):
        ours.predict(collection[["c", "b", "a"]])
    texts = dd.from_pandas(frame.assign(t="x"), npartitions=2)
    with pytest.raises(ValueError, match="column 't' of X has type"):
        KMeans(2, init=np.zeros((2, 5))).fit(texts)


def test_predictions_are_lazy(dask_place):
    X = points(seed=7)
    reference = in_memory(X)
    loaded = []

    def load(block):
        loaded.append(len(block))
        return block

    collection = da.from_array(X, chunks=(123, 3)).map_blocks(load, meta=np.empty((0, 3)))
    loaded.clear()
    labels, distances = reference.predict(collection), reference.transform(collection)
    assert loaded == []
    assert labels.chunks == (collection.chunks[0],)
    assert distances.shape == (600, 6)
    assert np.array_equal(labels.compute(), reference.labels_)
    assert np.array_equal(distances.compute(), reference.transform(X))
    assert reference.score(collection) == -reference.inertia_
    trimmed = TrimmedKMeans(3, random_state=0, n_init=1).fit(X)
    assert np.array_equal(trimmed.predict(collection).compute(), trimmed.predict(X))


def test_empty_clusters_and_ties(dask_place):
    """Far points fill empty clusters, decided by distance and then by value."""
    grid = np.stack(np.meshgrid(np.arange(12.0), np.arange(10.0)), axis=-1).reshape(-1, 2)
    init = np.vstack([np.zeros((3, 2)), np.full((2, 2), 50.0)])
    for empty in ("farthest", "keep"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            reference = KMeans(5, init=init, empty=empty, engine="cpu", bound=None).fit(grid)
            ours = KMeans(5, init=init, empty=empty).fit(da.from_array(grid, chunks=(17, 2)))
        same(ours, reference)
        decrease = reference.certificate_.candidate_decrease
        assert ours.certificate_.candidate_decrease == decrease


def test_policies_that_need_all_points(dask_place):
    grid = np.stack(np.meshgrid(np.arange(12.0), np.arange(10.0)), axis=-1).reshape(-1, 2)
    init = np.vstack([np.zeros((3, 2)), np.full((2, 2), 50.0)])
    for empty in ("resample", "best", "admissible"):
        with pytest.raises(NotImplementedError, match=rf"empty='{empty}'.*empty='farthest'"):
            KMeans(5, init=init, empty=empty).fit(da.from_array(grid, chunks=(17, 2)))


def test_ties_do_not_come_here(dask_place, monkeypatch):
    """A lattice is all ties; one of each partition is enough."""
    grid = np.stack(np.meshgrid(np.arange(4.0), np.arange(30.0)), axis=-1).reshape(-1, 2)
    init = grid[[0, 119]]
    told = []
    near_ties = PartsWorkspace.near_ties

    def counting(self, *given):
        found = near_ties(self, *given)
        told.append(len(found[0]))
        return found

    monkeypatch.setattr(PartsWorkspace, "near_ties", counting)
    for weights in (None, np.arange(120) % 2.0):
        reference = KMeans(2, init=init, engine="cpu", bound=None, stop="stationary")
        reference.fit(grid, sample_weight=weights)
        ours = KMeans(2, init=init, stop="stationary")
        ours.fit(da.from_array(grid, chunks=(30, 2)), sample_weight=weights)
        same(ours, reference)
    assert told
    assert max(told) <= 4


@pytest.mark.parametrize("stop", ["gap", "shift", "stationary"])
def test_rules(dask_place, stop):
    X = points(seed=8)
    weights = np.arange(600) % 3 + 0.25
    reference = in_memory(X, weights, stop=stop, tol_scale="total" if stop == "gap" else "initial")
    scale = "total" if stop == "gap" else "initial"
    same(spread(X, 97, weights, stop=stop, tol_scale=scale), reference)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_extreme_sizes(dask_place, scale):
    X = points(seed=9) * scale
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, reference = spread(X, 100), in_memory(X)
        same(ours, reference)
        collection = da.from_array(X, chunks=(250, 3))
        assert np.array_equal(ours.predict(collection).compute(), reference.labels_)
        assert np.array_equal(ours.transform(collection).compute(), reference.transform(X))
        assert ours.score(collection) == reference.score(X)


def test_a_bad_number_is_named_with_its_place(dask_place):
    X = points()
    X[333, 2] = np.nan
    with pytest.raises(ValueError, match=r"partition 2 of X contains NaN.* row 33 .*column 2"):
        spread(X, (200, 100, 300))
    X[333, 2] = np.inf
    with pytest.raises(ValueError, match=r"partition 2 of X contains infinity"):
        spread(X, (200, 100, 300))
    weights = np.ones(600)
    weights[-1] = -1
    with pytest.raises(ValueError, match=r"partition 1 of X has a negative value in sample_weight"):
        spread(points(), 300, da.from_array(weights, chunks=300))


def test_partitions_that_do_not_fit_are_named(dask_place):
    def cut(block, block_info=None):
        return block[:, :2] if block_info[0]["chunk-location"][0] == 1 else block

    X = da.from_array(points(), chunks=(200, 3)).map_blocks(cut, meta=np.empty((0, 3)))
    with pytest.raises(ValueError, match=r"partition 1 of X has 2 columns; X has 3"):
        KMeans(2, init=np.zeros((2, 3))).fit(X)
    with pytest.raises(ValueError, match="no rows"):
        KMeans(2, init=np.zeros((2, 3))).fit(da.from_array(np.empty((0, 3)), chunks=(1, 3)))
    weights = da.ones(600, chunks=300)[da.ones(600, chunks=300) > 0]
    with pytest.raises(ValueError, match="2 partitions and X has 3"):
        spread(points(), 200, weights)


def test_a_problem_that_speaks_of_columns_is_passed_on(monkeypatch):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")

    def fail(*_):
        raise ValueError("the column names differ")

    monkeypatch.setattr(blocks, "_rows", fail)
    frame = dd.from_pandas(pd.DataFrame(points(), columns=list("abc")), npartitions=2)
    expected = "partition 0 of X cannot be read as numbers: the column names differ"
    with dask.config.set(scheduler="threads"), pytest.raises(ValueError, match=expected):
        KMeans(2, init=np.zeros((2, 3))).fit(frame)


def test_what_needs_all_points_is_refused(dask_place):
    X = da.from_array(points(), chunks=(200, 3))
    for settings in (
        {"init": "random"},
        {"init": np.zeros((8, 3)), "polish": "hartigan"},
        {"init": np.zeros((8, 3)), "effort": 1.0},
        {"init": np.zeros((8, 3)), "bound": "neighbours"},
    ):
        with pytest.raises(NotImplementedError, match="all points in one place"):
            KMeans(8, **settings).fit(X)
    with pytest.raises(ValueError, match="n_samples=600"):
        KMeans(700, init=np.zeros((700, 3))).fit(X)


def test_a_fitted_model_can_be_stored(dask_place, tmp_path):
    X = points()
    ours = spread(X, 200, checkpoint=tmp_path / "checkpoint")
    ours.save(tmp_path / "model")
    again = wolfmeans.load(tmp_path / "model")
    same_labels = np.array_equal(again.labels_, ours.labels_.compute())
    assert same_labels
    assert again.inertia_ == ours.inertia_
    assert again.checkpoint is None


def test_a_callable_gets_the_collection(dask_place):
    X = points()

    def init(given, n_clusters, random_state):
        assert isinstance(given, da.Array)
        return given[:n_clusters].compute()

    ours = KMeans(6, init=init, n_init=1).fit(da.from_array(X, chunks=(200, 3)))
    same(ours, in_memory(X))


@pytest.fixture
def gathered(two_workers, monkeypatch):
    """How many answers came back at a time."""
    lengths = []
    gather = two_workers.gather

    def counting(futures, *args, **kwargs):
        lengths.append(len(futures) if isinstance(futures, list) else 1)
        return gather(futures, *args, **kwargs)

    monkeypatch.setattr(two_workers, "gather", counting)
    return lengths


def test_blocks_of_a_worker_are_asked_together(gathered):
    X = points(seed=10)
    same(spread(X, 10, tol=1e-2), in_memory(X, tol=1e-2))
    assert max(gathered) == 4, "two groups for each of two threads"


@pytest.mark.long
def test_many_groups_are_added_on_the_workers(gathered, monkeypatch):
    monkeypatch.setattr(cluster_parts, "_GROUPS", 100)
    X = points(seed=10)
    same(spread(X, 10, tol=1e-2), in_memory(X, tol=1e-2))
    assert {8, 28, 32} <= set(gathered)
    assert max(gathered) == 32


def test_what_is_seen_of_a_fit(two_workers, capsys):
    """A line for each step here, and names on Dask's dashboard that say what is done."""
    X = points(seed=17)
    ours = spread(X, 100, verbose=1, init="k-means||", random_state=0)
    lines = [line for line in capsys.readouterr().out.splitlines() if "iteration" in line]
    assert len(lines) == len(ours.trace_)

    def names(dask_scheduler=None):
        return list(dask_scheduler.task_prefixes)

    seen = two_workers.run_on_scheduler(names)
    for name in ("block", "group", "inspect", "seeding-largest", "assign", "cost", "labels"):
        assert any(prefix.startswith(f"wolfmeans-{name}") for prefix in seen), (name, seen)


def test_workers_that_die_over_one_partition(two_workers):
    error = distributed.KilledWorker("task", "worker", 3)
    with pytest.raises(RuntimeError, match="want of memory"), errors_of(two_workers):
        raise error


def test_rows_stay_where_they_are(two_workers):
    """All of them on one worker is no reason for Dask to take them to the other."""
    X = points(n=60_000, d=8)
    worker = min(two_workers.nthreads())
    rows = da.from_array(X, chunks=(10_000, 8))
    rows = two_workers.persist(rows, workers=[worker], allow_other_workers=False)
    distributed.wait(rows)

    def incoming(dask_worker):
        return sum(transfer["total"] for transfer in dask_worker.transfer_incoming_log)

    before = sum(two_workers.run(incoming).values())
    ours = KMeans(6, init=X[:6], tol=1e-3).fit(rows)
    assert sum(two_workers.run(incoming).values()) - before < X.nbytes / 20
    same(ours, in_memory(X, tol=1e-3))


def test_large_centers_are_sent_once(two_workers, monkeypatch):
    X = points(seed=15)
    sent = []
    submit = two_workers.submit

    def counting(function, given, **kwargs):
        sent.append(given)
        return submit(function, given, **kwargs)

    monkeypatch.setattr(cluster_parts, "_SMALL", 0)
    monkeypatch.setattr(two_workers, "submit", counting)
    ours = spread(X, 100, tol=1e-3)
    monkeypatch.undo()
    reference = in_memory(X, tol=1e-3)
    same(ours, reference)
    labellings = [given for given in sent if isinstance(given, Labelling)]
    assert len(labellings) == len(reference.trace_) + 1


def test_nothing_is_kept_after_a_fit(two_workers):
    X = points(seed=11)
    spread(X, 100)
    assert set(two_workers.run(lambda: len(blocks._kept)).values()) == {0}


def test_a_process_keeps_few_fits_of_a_client():
    kept = blocks._Kept()
    for fit in range(10):
        kept.held(blocks.PartOfFit("me", str(fit), 0))
        kept.held(blocks.PartOfFit("me", str(fit), 1))
    kept.held(blocks.PartOfFit("you", "0", 0))
    assert len(kept) == 2 * kept.MOST_FITS + 1
    kept.forget("me", ["9"])
    assert len(kept) == 2 * kept.MOST_FITS - 1


def test_import_does_not_import_dask():
    code = "import sys, wolfmeans; wolfmeans.KMeans; assert 'dask' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- Checkpoints -----------------------------------------------------------------------------


class InterruptedFitError(Exception):
    """What a callback raises in the middle of a fit."""


@pytest.mark.parametrize("where", ["memory", "threads"])
def test_a_fit_goes_on_from_its_checkpoint(tmp_path, where):
    X = points(seed=13)
    path = tmp_path / "fit.checkpoint"
    given = X if where == "memory" else da.from_array(X, chunks=(110, 3))
    settings = {"init": X[:6], "bound": None, "stop": "stationary"}
    reference = KMeans(6, engine="cpu", **settings).fit(X)

    def interrupt(record):
        if record.t == 4:
            raise InterruptedFitError

    with pytest.raises(InterruptedFitError):
        KMeans(6, **settings, checkpoint=path, callback=interrupt).fit(given)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    seen = []
    resumed = KMeans(6, **settings, checkpoint=path, callback=lambda r: seen.append(r.t))
    resumed.fit(given)
    assert seen == list(range(len(reference.trace_)))
    again = KMeans(6, **settings, checkpoint=str(path)).fit(given)
    for model in (resumed, again):
        assert np.array_equal(model.cluster_centers_, reference.cluster_centers_)
        assert np.array_equal(np.asarray(model.labels_), reference.labels_)
        assert np.array_equal(model.trace_.gap, reference.trace_.gap)
        assert model.inertia_ == reference.inertia_
        assert model.certificate_.status == reference.certificate_.status
        assert model.n_iter_ == reference.n_iter_
    with pytest.raises(ValueError, match="n_clusters is 6 there and 5 here"):
        KMeans(5, **{**settings, "init": X[:5]}, checkpoint=path).fit(given)
    with pytest.raises(ValueError, match="other data"):
        KMeans(6, **settings, checkpoint=path).fit(given + 1.0)
    path.write_text("nothing")
    with pytest.raises(ValueError, match="is no checkpoint"):
        KMeans(6, **settings, checkpoint=path).fit(given)


def test_what_a_checkpoint_does_not_go_with(tmp_path):
    for settings in (
        {"polish": "swap"},
        {"effort": 1.0},
        {"empty": "resample"},
    ):
        with pytest.raises(ValueError, match="checkpoint="):
            KMeans(2, checkpoint=tmp_path / "c", **settings).fit(points())


@pytest.mark.filterwarnings("ignore:Not converged")
def test_a_checkpoint_of_other_seeds_is_refused(tmp_path):
    X, path = points(), tmp_path / "c"
    KMeans(6, init=X[:6], max_iter=3, checkpoint=path).fit(X)
    with pytest.raises(ValueError, match="other initial centers"):
        KMeans(6, init=X[6:12], checkpoint=path).fit(X)
    path.unlink()
    KMeans(6, random_state=0, max_iter=3, checkpoint=path).fit(X)
    with pytest.raises(ValueError, match="random_state is 0 there and 1 here"):
        KMeans(6, random_state=1, checkpoint=path).fit(X)
    with pytest.raises(ValueError, match="init is 'multilevel' there"):
        KMeans(6, random_state=0, init="k-means||", checkpoint=path).fit(X)


@pytest.mark.filterwarnings("ignore:Not converged")
@pytest.mark.parametrize("missing", ["facts.json", "seeds.npy", "records.npy", "identity"])
def test_a_damaged_checkpoint_is_called_so(tmp_path, missing):
    X, path = points(), tmp_path / "c"
    KMeans(6, init=X[:6], max_iter=3, checkpoint=path).fit(X)
    with zipfile.ZipFile(path) as members:
        content = {name: members.read(name) for name in members.namelist()}
    content.pop(missing, None)
    if missing == "identity":
        content["facts.json"] = content["facts.json"].replace(b"identity", b"entity")
    with zipfile.ZipFile(path, "w") as members:
        for name, text in content.items():
            members.writestr(name, text)
    with pytest.raises(ValueError, match="checkpoint"):
        KMeans(6, init=X[:6], checkpoint=path).fit(X)


def test_a_place_for_checkpoints_is_looked_at_before_the_first_step(tmp_path):
    X, seen = points(), []
    for path, kind in ((tmp_path / "no" / "c", FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(kind, match="checkpoint: "):
            KMeans(6, init=X[:6], checkpoint=path, callback=seen.append).fit(X)
    assert not seen


def test_other_collections_are_refused(dask_place):
    frames = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    frame = frames.from_pandas(pandas.DataFrame(points(), columns=list("abc")), npartitions=2)
    with pytest.raises(ValueError, match="Expected a data frame, got a Series"):
        KMeans(2).fit(frame["a"])
    with pytest.raises(TypeError, match="X is a Delayed"):
        KMeans(2).fit(dask.delayed(points()))


def test_distances_are_not_gathered_for_a_table(dask_place):
    X = points()
    model = KMeans(6, init=X[:6]).set_output(transform="pandas")
    parts = da.from_array(X, chunks=(200, 3))
    model.fit(parts)
    with pytest.raises(TypeError, match="set_output"):
        model.transform(parts)


def fitted_in_a_task(X):
    return KMeans(6, init=X[:6]).fit(da.from_array(X, chunks=(200, 3))).inertia_


@pytest.mark.long
def test_fits_in_tasks_of_all_workers_do_not_wait_for_each_other(two_workers):
    X = points()
    expected = KMeans(6, init=X[:6]).fit(X).inertia_
    futures = [two_workers.submit(fitted_in_a_task, X, pure=False) for _ in range(3)]
    distributed.wait(futures, timeout=60)
    assert two_workers.gather(futures) == [expected] * 3


# --- Sparse blocks ---------------------------------------------------------------------------


def sparse_rows(n=300, d=40, seed=0, dtype=np.float64):
    rows = scipy.sparse.random(
        n, d, density=0.1, format="csr", rng=np.random.default_rng(seed), dtype=dtype
    )
    rows.data += np.random.default_rng(seed + 1).integers(0, 3, size=rows.nnz)
    return scipy.sparse.csr_array(rows)


def in_blocks(rows, sizes):
    """Return a Dask array whose blocks are CSR matrices."""
    ends = np.cumsum([0, *sizes])
    blocks = [
        da.from_delayed(
            dask.delayed(rows[begin:end]),
            shape=(end - begin, rows.shape[1]),
            dtype=rows.dtype,
            meta=scipy.sparse.csr_array((0, rows.shape[1]), dtype=rows.dtype),
        )
        for begin, end in itertools.pairwise(ends.tolist())
    ]
    return da.concatenate(blocks)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["given", "k-means||", "trimmed", "empty"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_blocks_have_the_bits_of_sparse_rows_in_memory(dask_place, kind, weighted, dtype):
    X = sparse_rows(dtype=dtype)
    weights = np.arange(300) % 4 / 2.0 if weighted else None
    settings = {
        "given": {"init": X[:5].toarray(), "n_init": 1},
        "k-means||": {"init": "k-means||", "random_state": 0},
        "trimmed": {"init": X[:5].toarray(), "n_init": 1, "alpha": 0.1},
        "empty": {"init": np.vstack([X[:3].toarray(), np.full((2, 40), 50.0)]), "n_init": 1},
    }[kind]
    model = TrimmedKMeans if kind == "trimmed" else KMeans
    reference = model(5, bound=None, **settings).fit(X, sample_weight=weights)
    ours = model(5, **settings).fit(in_blocks(X, (100, 1, 149, 50)), sample_weight=weights)
    assert np.array_equal(ours.cluster_centers_, reference.cluster_centers_)
    assert np.array_equal(np.asarray(ours.labels_), reference.labels_)
    assert (ours.inertia_, ours.n_iter_) == (reference.inertia_, reference.n_iter_)
    assert [record.gap for record in ours.trace_] == [record.gap for record in reference.trace_]
    assert ours.certificate_.local_optimality == reference.certificate_.local_optimality


def test_sparse_blocks_are_predicted_where_they_are():
    X = sparse_rows()
    collection = in_blocks(X, (120, 180))
    ours = KMeans(4, init=X[:4].toarray(), n_init=1).fit(collection)
    reference = KMeans(4, init=X[:4].toarray(), n_init=1).fit(X)
    assert np.array_equal(ours.predict(collection).compute(), reference.predict(X))
    assert np.array_equal(ours.transform(collection).compute(), reference.transform(X))
    assert ours.score(collection) == reference.score(X)


@pytest.mark.filterwarnings("ignore:The squared distances of X:RuntimeWarning")
def test_sparse_blocks_at_another_scale_and_without_entries():
    X = sparse_rows() * 1e200
    X = scipy.sparse.vstack([X[:100], scipy.sparse.csr_array((100, 40)), X[200:]], format="csr")
    ours = KMeans(3, init=X[:3].toarray(), n_init=1).fit(in_blocks(X, (100, 100, 100)))
    reference = KMeans(3, init=X[:3].toarray(), n_init=1, bound=None).fit(X)
    assert np.array_equal(ours.cluster_centers_, reference.cluster_centers_)


@pytest.mark.parametrize(
    ("value", "words"), [(np.nan, "contains NaN"), (np.inf, "contains infinity")]
)
def test_a_bad_entry_of_a_sparse_block_is_named_with_its_place(value, words):
    X = sparse_rows()
    entry = X.indptr[137]
    X.data[entry] = value
    column = X.indices[entry]
    with pytest.raises(ValueError, match=f"{words}, first at row 37 .*column {column}"):
        KMeans(3).fit(in_blocks(X, (100, 200)))


def test_blocks_of_both_kinds_are_refused():
    X = sparse_rows()
    both = da.concatenate([in_blocks(X[:100], (100,)), da.from_array(X[100:].toarray())])
    with pytest.raises(ValueError, match="sparse is"):
        KMeans(3, init=np.zeros((3, 40))).fit(both.rechunk((100, 40)))


@pytest.mark.parametrize(
    "dtypes",
    [
        ("float16", "float32"),
        ("float16", "float16"),
        ("float32", "int8"),
        ("float32", "int64"),
        ("float32", "bool"),
        ("float64", "float16"),
    ],
    ids=str,
)
def test_mixed_columns_have_the_dtype_of_a_frame_in_memory(dtypes):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    values = np.random.default_rng(0).integers(0, 2, size=(40, 2))
    frame = pd.DataFrame({name: values[:, j] for j, name in enumerate("ab")})
    frame = frame.astype(dict(zip("ab", dtypes, strict=True)))
    init = np.array([[0.0, 0.0], [1.0, 1.0]])
    reference = KMeans(2, init=init, n_init=1, bound=None).fit(frame)
    ours = KMeans(2, init=init, n_init=1).fit(dd.from_pandas(frame, npartitions=3))
    assert ours.cluster_centers_.dtype == reference.cluster_centers_.dtype
    assert np.array_equal(ours.cluster_centers_, reference.cluster_centers_)
